//! What the server says outside any request: on the GET stream, or on a channel that carries everything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::protocol::jsonrpc::{Message, read, unbatch};
use crate::protocol::version::has_batches;
use crate::session::desk::{Asked, Desk};
use crate::session::request::{Note, Notes};
use crate::session::standing::Standing;
use crate::transport::{Flow, FrameSink};

/// Tells when the stream is open, or will never be.
#[derive(Default)]
pub(super) struct Ajar {
    state: Mutex<Stand>,
    told: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stand {
    #[default]
    Waiting,
    Open,
    NeverOpen,
}

impl Ajar {
    fn open(&self) {
        *self.state.lock() = Stand::Open;
        self.told.notify_all();
    }

    /// Nothing comes any more.
    fn over(&self) {
        let mut state = self.state.lock();
        if *state == Stand::Waiting {
            *state = Stand::NeverOpen;
        }
        drop(state);
        self.told.notify_all();
    }

    /// Whether the server ever had the stream.
    pub(super) fn was_open(&self) -> bool {
        *self.state.lock() == Stand::Open
    }

    /// Waits for it, but not for long: some servers send the head of a stream with its first event.
    pub(super) fn wait(&self) {
        /// Chosen: longer than a busy machine takes, shorter than a person notices twice.
        const PATIENCE: Duration = Duration::from_millis(500);
        self.told.wait_while_for(&mut self.state.lock(), |state| *state == Stand::Waiting, PATIENCE);
    }
}

/// The receiver of it.
pub(super) struct Inbox {
    desk: Arc<Desk>,
    standing: Arc<Standing>,
    ajar: Arc<Ajar>,
}

impl Inbox {
    pub(super) fn new(desk: Arc<Desk>, standing: Arc<Standing>, ajar: Arc<Ajar>) -> Self {
        Self { desk, standing, ajar }
    }

    fn one(&self, text: String, notes: &mut dyn Notes) {
        match read(text, self.desk.limits()) {
            Ok(Message::Request { id, method, params }) => {
                self.desk.asked(&self.standing, Asked { id, method, params }, notes);
            }
            Ok(Message::Notification { method, params }) => {
                if self.desk.withdrawn(&self.standing, (&method, &params), notes)
                    || self.desk.told(&method, &params, notes)
                    || self.desk.subscribed(&method, &params, notes)
                {
                    return;
                }
                if let Some(note) =
                    (method == "notifications/progress").then(|| self.desk.progressed(&params)).flatten()
                {
                    return notes.note(note);
                }
                notes.note(match method.as_str() {
                    "notifications/message" => Note::Log(params),
                    _ => Note::Other { method, params },
                });
            }
            // What keeps a stream alive (BR-22).
            Ok(Message::Nothing) => {}
            Ok(Message::Result { .. } | Message::Fault { .. }) => {
                notes.note(Note::Oddity("the server sent an answer that no request waits for".into()));
            }
            Err(error) => notes.note(Note::Oddity(format!("the server sent what is no message: {error}"))),
        }
    }
}

/// A stream that ends, or never opened, keeps nobody waiting.
impl Drop for Inbox {
    fn drop(&mut self) {
        self.ajar.over();
    }
}

impl FrameSink for Inbox {
    fn opened(&mut self) {
        self.ajar.open();
    }

    fn frame(&mut self, text: String) -> Flow {
        let outside = self.desk.outside();
        let mut notes = |note: Note| outside.note(note);
        if !self.standing.version.is_some_and(has_batches) {
            self.one(text, &mut notes);
            return Flow::More;
        }
        match unbatch(text, self.desk.limits()) {
            Ok(parts) => parts.into_iter().for_each(|part| self.one(part, &mut notes)),
            Err(error) => notes(Note::Oddity(format!("the server sent what is no message: {error}"))),
        }
        Flow::More
    }
}
