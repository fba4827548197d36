//! The sink of one stream of a subscription in the modern era.

use std::time::Duration;

use crate::error::{Error, Result, one_line};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{Match, Message};
use crate::protocol::limits::Limits;
use crate::protocol::method;
use crate::protocol::subscription::{ACKNOWLEDGED, cancelled_id, granted, subscription_id};
use crate::session::reply::{Frame, Reply};
use crate::session::request::{Note, Notes};
use crate::session::subscription::SubscriptionNews;
use crate::transport::{Flow, FrameSink};

/// The sink.
pub(super) struct Hearing<'a> {
    id: i64,
    limits: &'a Limits,
    reply: Reply<'a>,
    /// The server sends our number as a string; said once.
    dressed: bool,
    /// The server took the subscription down.
    ended: bool,
    /// How long the server wants to be left alone before the stream is opened again.
    pub(super) retry: Option<Duration>,
}

impl<'a> Hearing<'a> {
    pub(super) fn new(id: i64, limits: &'a Limits, notes: &'a mut dyn Notes) -> Self {
        Self { id, limits, reply: Reply::new(id, None, limits, notes), dressed: false, ended: false, retry: None }
    }

    /// The closing response, or the error; [`None`] where none came. And what was wrong with a frame that was passed
    /// over.
    pub(super) fn into_outcome(self) -> (Option<Result<Json>>, Option<Error>) {
        match (self.ended, self.reply.into_outcome()) {
            (true, (None, passed)) => (Some(Ok(Json::trusted("{}"))), passed),
            (_, outcome) => outcome,
        }
    }

    fn odd(&mut self, line: String) {
        self.reply.notes().note(Note::Oddity(line));
    }

    fn notification(&mut self, of_method: String, params: Json) -> Flow {
        // "A server MUST send notifications/cancelled […] when it tears down that subscription"
        // (`basic/patterns/cancellation`).
        if of_method == method::CANCELLED {
            self.ended = matches!(cancelled_id(&params).matches(self.id), Match::Exact | Match::Dressed);
            return if self.ended { Flow::Done } else { Flow::More };
        }
        match subscription_id(&params).matches(self.id) {
            // The stream itself says whose it is.
            Match::Exact | Match::Missing => {}
            Match::Dressed => {
                if !std::mem::replace(&mut self.dressed, true) {
                    self.odd("the server sent the id of a subscription as a string".into());
                }
            }
            Match::Other => {
                let line = format!("{} is for a subscription that is not open", one_line(&of_method));
                self.odd(line);
                return Flow::More;
            }
        }
        self.reply.notes().note(match of_method.as_str() {
            ACKNOWLEDGED => SubscriptionNews::acknowledged(granted(&params)),
            "notifications/message" => Note::Log(params),
            _ => Note::Other { method: of_method, params },
        });
        Flow::More
    }
}

impl FrameSink for Hearing<'_> {
    fn frame(&mut self, text: String) -> Flow {
        let frame = Frame::read(text, self.limits);
        match frame.message {
            Ok(Message::Notification { method, params }) => self.notification(method, params),
            _ => self.reply.take(frame),
        }
    }

    fn lasts(&self) -> bool {
        true
    }

    fn retry(&mut self, after: Duration) {
        self.retry = Some(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn run(frames: &[&str]) -> (Vec<String>, Option<Result<Json>>, Flow) {
        let (limits, mut notes, mut flow) = (Limits::default(), Vec::new(), Flow::More);
        let mut take = |note: Note| notes.push(format!("{note:?}"));
        let mut hearing = Hearing::new(7, &limits, &mut take);
        for frame in frames {
            flow = hearing.frame((*frame).to_owned());
        }
        let (outcome, _) = hearing.into_outcome();
        (notes, outcome, flow)
    }

    fn changed(id: &str) -> String {
        let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        format!(r#"{{"method":"notifications/tools/list_changed","params":{{"_meta":{meta}}}}}"#)
    }

    #[test]
    fn br_46_each_message_is_told_or_logged_by_its_subscription() {
        let (notes, outcome, flow) = run(&[&changed("7"), &changed("8"), &changed("\"7\""), &changed("\"7\"")]);
        let kinds: Vec<&str> = notes.iter().map(|note| note.split(['(', ' ']).next().unwrap_or_default()).collect();
        assert_eq!(kinds, ["Other", "Oddity", "Oddity", "Other", "Other"], "{notes:?}");
        assert!(outcome.is_none() && flow == Flow::More);
    }

    #[test]
    fn br_46_a_closing_response_or_a_cancellation_by_the_server_is_the_end() {
        for (frame, ends) in [
            (r#"{"id":7,"result":{"resultType":"complete"}}"#, true),
            (r#"{"id":"7","result":{}}"#, true),
            (r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#, true),
            (r#"{"method":"notifications/cancelled","params":{"requestId":8}}"#, false),
        ] {
            let (_, outcome, flow) = run(&[frame]);
            assert_eq!((outcome.is_some(), flow == Flow::Done), (ends, ends), "{frame}");
        }
        let (_, outcome, _) = run(&[r#"{"id":7,"error":{"code":-32601,"message":"no"}}"#]);
        assert_eq!(outcome.unwrap().unwrap_err().kind(), Kind::Rpc);
    }
}
