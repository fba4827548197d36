//! One life of a channel: where each message goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use once_cell::sync::OnceCell;

use crate::error::one_line;
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{Message, WireId, read, unbatch};
use crate::protocol::limits::Limits;
use crate::protocol::route::{Route, id_in_head, route};
use crate::session::channel::Channel;
use crate::session::guests::Guests;
use crate::session::pending::{Ended, Pending, Settled};
use crate::session::request::Note;
use crate::transport::{Fault, Gone, Link, Receiver, Scope};

/// Takes what comes on a channel and belongs to no request. Called on the link's thread; must not block.
pub(crate) trait Asides: Send + Sync {
    /// A notification, an oddity, a line of standard error.
    fn note(&self, note: Note);

    /// A request of the server's. A modern server must not send one: logged, by default.
    fn request(&self, _id: &str, method: &str, _params: Json) {
        let line = format!("the server sent a request of its own, {}, which this era forbids", one_line(method));
        self.note(Note::Oddity(line));
    }

    /// The channel is over; the next request makes a new one.
    fn ended(&self, why: &Gone) {
        if *why != Gone::Closed {
            self.note(Note::Oddity(format!("the channel to the server is over: {}", why.words())));
        }
    }
}

/// One life.
pub(super) struct Life {
    channel: Weak<Channel>,
    pending: Arc<Pending>,
    link: OnceCell<Arc<dyn Link>>,
    asides: Option<Arc<dyn Asides>>,
    over: AtomicBool,
    /// From 1.
    number: u64,
    /// The server is spoken to as a legacy one: it may ask.
    legacy: AtomicBool,
    guests: Arc<Guests>,
}

impl Life {
    pub(super) fn new(channel: Weak<Channel>, asides: Option<Arc<dyn Asides>>, number: u64) -> Arc<Self> {
        Arc::new(Self {
            channel,
            pending: Arc::default(),
            link: OnceCell::new(),
            asides,
            over: AtomicBool::new(false),
            number,
            legacy: AtomicBool::new(false),
            guests: Arc::default(),
        })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the server is spoken to as a legacy one.
    pub(super) fn set_legacy(&self, legacy: bool) {
        self.legacy.store(legacy, Ordering::Release);
    }

    /// What a legacy server says that belongs to no request.
    pub(super) fn guests(&self) -> &Arc<Guests> {
        &self.guests
    }

    /// The link that it lives on; given once, before the first request.
    pub(super) fn attach(&self, link: Arc<dyn Link>) {
        self.link.set(link).unwrap_or_default();
    }

    pub(super) fn pending(&self) -> &Arc<Pending> {
        &self.pending
    }

    pub(super) fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        match self.link.get() {
            Some(link) => link.send(message, scope),
            None => Err(Fault::Closed),
        }
    }

    pub(super) fn link(&self) -> Option<&dyn Link> {
        self.link.get().map(|link| &**link)
    }

    /// Sends where that takes no waiting; false where nothing was sent.
    pub(super) fn try_send(&self, message: &str) -> bool {
        self.link.get().is_some_and(|link| link.try_send(message))
    }

    /// The peer takes nothing any more, and does not end either.
    pub(super) fn give_up(&self, why: Gone) {
        self.ended(why);
        if let Some(link) = self.link.get() {
            link.give_up();
        }
    }

    pub(super) fn cut(&self) {
        if let Some(link) = self.link.get() {
            link.cut();
        }
    }

    /// One line for the log.
    pub(super) fn odd(&self, line: &str) {
        self.aside(Note::Oddity(line.to_owned()));
    }

    fn aside(&self, note: Note) {
        if let Some(asides) = &self.asides {
            asides.note(note);
        }
    }

    fn answer(&self, id: &WireId, is_error: bool, text: String) {
        let id = match (number(id), id) {
            (Some(id), _) => id,
            // An error without an id is about a request that could not be read: whose, is only clear where one is open.
            (None, WireId::Missing) if is_error => match self.pending.only() {
                Some(id) => id,
                None => return self.odd("the server sent an error that names no request"),
            },
            (None, _) => return self.odd("the server sent an answer whose id is no id of ours"),
        };
        match self.pending.settle(id, text) {
            Settled::Delivered => {}
            Settled::Twice => self.odd(&format!("the server answered request {id} twice")),
            Settled::Late => self.odd(&format!("the answer to request {id} came too late")),
            Settled::Unknown => self.odd(&format!("the server answered request {id}, which is not open")),
        }
    }

    /// A note for one request; where that is not open, a line in the log.
    fn pass(&self, id: Option<i64>, text: String, what: &str) {
        let dropped = || self.odd("more notes came for a request than it could take; the oldest were dropped");
        if !id.is_some_and(|id| self.pending.pass(id, text, dropped)) {
            self.odd(&format!("the server sent {what}"));
        }
    }

    /// What belongs to no request is read here, on the link's thread: there is little of it.
    fn apart(&self, text: String) {
        // A note has no limits of its own beyond those of the line; nesting is the reader's default.
        match read(text, &Limits { message_bytes: usize::MAX, ..Limits::default() }) {
            Ok(Message::Notification { method, params }) => self.aside(match method.as_str() {
                "notifications/message" => Note::Log(params),
                _ => Note::Other { method, params },
            }),
            Ok(Message::Request { id, method, params }) => {
                if let Some(asides) = &self.asides {
                    asides.request(&id, &method, params);
                }
            }
            Ok(Message::Result { .. } | Message::Fault { .. } | Message::Nothing) => {}
            Err(error) => self.odd(error.message()),
        }
    }
}

impl Life {
    /// A request of a legacy server's. Nothing says which of ours it belongs to; with one open it is that one.
    fn asked(&self, text: String) {
        if !self.pending.only_awaited().is_some_and(|id| self.pending.pass(id, text.clone(), || ())) {
            self.guest(text);
        }
    }

    /// A legacy server takes a request of its own back: whoever has the question knows its id.
    fn taken_back(&self, text: String) {
        for id in self.pending.all() {
            self.pending.pass(id, text.clone(), || ());
        }
        self.guest(text);
    }

    fn guest(&self, text: String) {
        if !self.guests.push(text) {
            self.odd("more messages came from the server than could be taken; the oldest was dropped");
        }
    }

    fn one(&self, text: String) {
        let legacy = self.legacy.load(Ordering::Acquire);
        match route(&text) {
            Route::Ended(_) if legacy => self.taken_back(text),
            Route::Request if legacy => self.asked(text),
            Route::Answer { id, is_error } => self.answer(&id, is_error, text),
            Route::Progress(token) => {
                let id = token.and_then(|token| self.pending.by_token(&token));
                self.pass(id, text, "progress for a token of no open request");
            }
            Route::Subscribed(id) => self.pass(number(&id), text, "a notification for a subscription that is not open"),
            Route::Ended(id) => {
                let id = number(&id);
                self.pass(id, text, "a cancellation of a request that is not open");
                id.map(|id| self.pending.end(id, Ended::ByServer));
            }
            // Nothing says to which request a log message belongs; with one open it is that one.
            Route::Log => match self.pending.only_awaited() {
                Some(id) => self.pass(Some(id), text, "a log message"),
                None => self.apart(text),
            },
            // It may be a subscription's, which the one that listens knows, or ask for a request, which the link's
            // thread must not make.
            Route::Notification | Route::TaskStatus if legacy => self.guest(text),
            Route::Notification | Route::Request | Route::TaskStatus => self.apart(text),
            Route::Nothing(why) => self.odd_line(why),
        }
    }
}

impl Receiver for Life {
    fn message(&self, text: String) {
        if !self.legacy.load(Ordering::Acquire) || !text.trim_start().starts_with('[') {
            return self.one(text);
        }
        // A batch (2025-03-26 `basic`, "Batching").
        match unbatch(text, &Limits { message_bytes: usize::MAX, ..Limits::default() }) {
            Ok(parts) => parts.into_iter().for_each(|part| self.one(part)),
            Err(error) => self.odd(error.message()),
        }
    }

    fn odd_line(&self, why: &str) {
        self.odd(&format!("a line of the server's was passed over: {why}"));
    }

    fn too_long(&self, head: &[u8]) {
        let whose = id_in_head(head).or_else(|| self.pending.only());
        if !whose.is_some_and(|id| self.pending.end(id, Ended::TooLong)) {
            self.odd("a line of the server's was over the limit (option limits.stdio_line_bytes) and was dropped");
        }
    }

    fn stderr(&self, line: &str) {
        self.aside(Note::Stderr(line.to_owned()));
    }

    fn ended(&self, why: Gone) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        // First those who look after the channel, then those who wait on it and may come again at once.
        if let Some(asides) = &self.asides {
            asides.ended(&why);
        }
        self.guests.close();
        self.pending.close(&why);
        if let Some(channel) = self.channel.upgrade() {
            channel.on_ended(self, &why);
        }
    }
}

/// The number that an id stands for: ours are numbers, and some servers send them back as strings.
fn number(id: &WireId) -> Option<i64> {
    match id {
        WireId::Number(number) => Some(*number),
        WireId::Text(text) => text.parse().ok(),
        WireId::Missing | WireId::Strange => None,
    }
}
