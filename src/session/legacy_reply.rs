//! The sink of one legacy exchange: the answer, and the server's own requests on the same stream.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{Message, unbatch};
use crate::protocol::version::has_batches;
use crate::session::desk::{Asked, Desk};
use crate::session::reply::{Frame, Reply};
use crate::session::request::Notes;
use crate::session::standing::Standing;
use crate::transport::{Flow, FrameSink};

/// The sink.
pub(super) struct LegacyReply<'a> {
    reply: Reply<'a>,
    desk: &'a Arc<Desk>,
    standing: Arc<Standing>,
    session: Option<String>,
}

impl<'a> LegacyReply<'a> {
    pub(super) fn new(
        id: i64,
        token: Option<String>,
        desk: &'a Arc<Desk>,
        standing: Arc<Standing>,
        notes: &'a mut dyn Notes,
    ) -> Self {
        Self { reply: Reply::new(id, token, desk.limits(), notes), desk, standing, session: None }
    }

    /// The session that the answer's head named.
    pub(super) fn session(&self) -> Option<String> {
        self.session.clone()
    }

    /// The answer, [`None`] where none came; and what was wrong with a frame that was passed over.
    pub(super) fn into_outcome(self) -> (Option<Result<Json>>, Option<Error>) {
        self.reply.into_outcome()
    }

    fn one(&mut self, text: String) -> Flow {
        let frame = Frame::read(text, self.desk.limits());
        match &frame.message {
            Ok(Message::Request { id, method, params }) => {
                let asked = Asked { id: id.clone(), method: method.clone(), params: params.clone() };
                self.desk.asked(&self.standing, asked, self.reply.notes());
                Flow::More
            }
            Ok(Message::Notification { method, params })
                if self.desk.withdrawn(&self.standing, (method, params), self.reply.notes())
                    || self.desk.told(method, params, self.reply.notes())
                    || self.desk.subscribed(method, params, self.reply.notes()) =>
            {
                Flow::More
            }
            Ok(Message::Notification { .. } | Message::Result { .. } | Message::Fault { .. } | Message::Nothing)
            | Err(_) => self.reply.take(frame),
        }
    }
}

impl FrameSink for LegacyReply<'_> {
    fn frame(&mut self, text: String) -> Flow {
        if !self.standing.version.is_some_and(has_batches) {
            return self.one(text);
        }
        let parts = match unbatch(text, self.desk.limits()) {
            Ok(parts) => parts,
            Err(error) => return self.reply.fail(error),
        };
        for part in parts {
            match self.one(part) {
                Flow::Done => return Flow::Done,
                Flow::More => {}
            }
        }
        Flow::More
    }

    fn session(&mut self, id: &str) {
        // Only visible ASCII may go back (2025-11-25 `basic/transports`, "Session Management" 1).
        if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.session = Some(id.to_owned());
            if self.standing.version.is_none() {
                let life = self.standing.life;
                self.standing = Arc::new(Standing { life, ..Standing::nascent(Some(id.to_owned())) });
            }
        }
    }

    fn resumes(&self) -> bool {
        true
    }

    fn concerns(&self) -> bool {
        self.reply.concerns()
    }

    /// "The initialize request MUST NOT be cancelled by clients" (2025-11-25 `basic/utilities/cancellation`).
    fn may_be_cancelled(&self) -> bool {
        self.standing.version.is_some()
    }
}
