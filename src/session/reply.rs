//! Picks the answer to one request out of the frames of its exchange.

use crate::error::{Error, Kind, Result, one_line};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{Match, Message, WireId, read};
use crate::protocol::limits::Limits;
use crate::session::fault::answered;
use crate::session::request::{Note, Notes};
use crate::transport::{Flow, FrameSink};

/// The sink of one exchange.
pub(super) struct Reply<'a> {
    id: i64,
    /// The progress token as JSON text, where progress was asked for.
    token: Option<String>,
    limits: &'a Limits,
    notes: &'a mut dyn Notes,
    outcome: Option<Result<Json>>,
    /// What was wrong with the last frame that was passed over.
    passed_over: Option<Error>,
    /// The last frame was progress of another request.
    foreign: bool,
}

impl<'a> Reply<'a> {
    pub(super) fn new(id: i64, token: Option<String>, limits: &'a Limits, notes: &'a mut dyn Notes) -> Self {
        Self { id, token, limits, notes, outcome: None, passed_over: None, foreign: false }
    }

    /// The answer; [`None`] where none came. And what was wrong with a frame that was passed over.
    pub(super) fn into_outcome(self) -> (Option<Result<Json>>, Option<Error>) {
        (self.outcome, self.passed_over)
    }

    /// A heartbeat or other chatter: no message, and nobody's answer (BR-22).
    fn pass_over(&mut self, error: Error) -> Flow {
        self.notes.note(Note::Oddity(format!("passed over what is no message: {}", error.message())));
        self.passed_over = Some(error);
        Flow::More
    }

    /// Where the notes go.
    pub(super) fn notes(&mut self) -> &mut dyn Notes {
        self.notes
    }

    fn settle(&mut self, id: &WireId, outcome: Result<Json>) -> Flow {
        let missing_is_fine = outcome.is_err();
        let outcome = match id.matches(self.id) {
            Match::Exact => outcome,
            Match::Dressed => {
                self.notes.note(Note::Oddity("the server sent the id of its answer as a string".into()));
                outcome
            }
            // An error without an id is about the only request that this exchange carries.
            Match::Missing if missing_is_fine => outcome,
            Match::Missing | Match::Other => {
                Err(Error::new(Kind::Malformed, "the server's answer carries the id of another request"))
            }
        };
        self.outcome = Some(outcome);
        Flow::Done
    }

    fn notification(&mut self, method: String, params: Json) {
        let note = match method.as_str() {
            "notifications/progress" => {
                let token = params.members().ok().and_then(|m| m.some("progressToken").map(str::to_owned));
                if token.is_some() && self.token.as_deref().is_some_and(|ours| same_token(ours, token.as_deref())) {
                    Note::Progress(params)
                } else {
                    self.foreign = true;
                    Note::Oddity("the server sent progress for a token that is not this request's".into())
                }
            }
            "notifications/message" => Note::Log(params),
            _ => Note::Other { method, params },
        };
        self.notes.note(note);
    }
}

/// Ours is a number; some servers send it back as a string (BR-13).
fn same_token(ours: &str, theirs: Option<&str>) -> bool {
    theirs.is_some_and(|theirs| theirs == ours || theirs.trim_matches('"') == ours)
}

/// A frame that was read.
pub(super) struct Frame {
    /// The message, or why it is none.
    pub message: Result<Message>,
    /// An object or an array: not the chatter that keeps some streams alive.
    is_structure: bool,
}

impl Frame {
    pub(super) fn read(text: String, limits: &Limits) -> Self {
        let is_structure = matches!(text.trim_ascii_start().as_bytes().first(), Some(b'{' | b'['));
        Self { message: read(text, limits), is_structure }
    }
}

impl Reply<'_> {
    /// Takes a frame.
    pub(super) fn take(&mut self, frame: Frame) -> Flow {
        self.foreign = false;
        match frame.message {
            Ok(Message::Nothing) => {
                self.pass_over(Error::new(Kind::Malformed, "the server's message is not JSON-RPC: it is empty"))
            }
            Err(error) if !frame.is_structure && error.kind() != Kind::TooLarge => self.pass_over(error),
            Ok(Message::Result { id, result }) => self.settle(&id, Ok(result)),
            Ok(Message::Fault { id, fault }) => self.settle(&id, Err(answered(fault))),
            Ok(Message::Notification { method, params }) => {
                self.notification(method, params);
                Flow::More
            }
            // A modern server must not ask this way: nothing to answer it with.
            Ok(Message::Request { method, .. }) => {
                let line =
                    format!("the server sent a request of its own, {}, which this era forbids", one_line(&method));
                self.notes.note(Note::Oddity(line));
                Flow::More
            }
            Err(error) => self.fail(error),
        }
    }

    /// What came is no message at all.
    pub(super) fn fail(&mut self, error: Error) -> Flow {
        self.outcome = Some(Err(error));
        Flow::Done
    }
}

impl FrameSink for Reply<'_> {
    fn frame(&mut self, text: String) -> Flow {
        self.take(Frame::read(text, self.limits))
    }

    fn concerns(&self) -> bool {
        !self.foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(frames: &[&str]) -> (Vec<String>, Option<Result<Json>>, Flow) {
        let (limits, mut notes, mut flow) = (Limits::default(), Vec::new(), Flow::More);
        let mut take = |note: Note| notes.push(format!("{note:?}"));
        let mut reply = Reply::new(7, Some("7".into()), &limits, &mut take);
        for frame in frames {
            flow = reply.frame((*frame).to_owned());
        }
        let (outcome, _) = reply.into_outcome();
        (notes, outcome, flow)
    }

    #[test]
    fn br_13_only_matching_progress_reaches_the_host() {
        let progress = |token: &str| {
            format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#)
        };
        let (notes, outcome, flow) =
            run(&[&progress("7"), &progress("\"7\""), &progress("\"made up\""), &progress("null")]);
        let kinds: Vec<_> = notes.iter().map(|n| n.split('(').next().unwrap_or("").to_owned()).collect();
        assert_eq!(kinds, ["Progress", "Progress", "Oddity", "Oddity"]);
        assert!(outcome.is_none());
        assert_eq!(flow, Flow::More);
    }

    #[test]
    fn br_12_an_answer_for_another_request_ends_this_one_with_an_error() {
        for (frame, want) in [
            (r#"{"id":8,"result":{}}"#, Err("the server's answer carries the id of another request")),
            (r#"{"result":{}}"#, Err("the server's answer carries the id of another request")),
            (
                r#"{"id":null,"error":{"code":-32600,"message":"bad"}}"#,
                Err("the server answered with error -32600: bad"),
            ),
            (r#"{"id":"7","result":{}}"#, Ok("{}")),
        ] {
            let (_, outcome, flow) = run(&[frame]);
            let outcome = outcome.unwrap();
            let got = outcome.as_ref().map(Json::text).map_err(Error::message);
            assert_eq!(got, want, "{frame}");
            assert_eq!(flow, Flow::Done);
        }
    }

    #[test]
    fn br_22_chatter_is_passed_over_and_a_broken_message_is_not() {
        for frame in ["5", "null", "still here", "{}", r#"{"type":"ping"}"#] {
            let (notes, outcome, flow) = run(&[frame]);
            assert!(notes[0].contains("passed over") && outcome.is_none() && flow == Flow::More, "{frame}");
        }
        for (frame, kind) in [("{\"id\":7", Kind::Parse), (r#"{"id":7}"#, Kind::Malformed), ("[]", Kind::Malformed)] {
            let (_, outcome, flow) = run(&[frame]);
            assert_eq!((outcome.unwrap().unwrap_err().kind(), flow), (kind, Flow::Done), "{frame}");
        }
    }

    #[test]
    fn a_request_of_a_modern_server_is_only_logged() {
        let (notes, outcome, flow) = run(&[r#"{"id":1,"method":"sampling/createMessage","params":{}}"#]);
        assert!(notes[0].contains("sampling/createMessage"));
        assert!(outcome.is_none() && flow == Flow::More);
    }
}
