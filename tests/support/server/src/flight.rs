//! One request on a pipe, from its rule to the last byte of its answer.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

use serde_json::Value;

use crate::action::{Action, Frame, FrameBody, Payload, Then};
use crate::outlet::Sent;
use crate::parsed::Parsed;
use crate::peer::{Heard, Peer, Wake};
use crate::pipe::{Item, Pipe};
use crate::render;
use crate::rpc::{Body, Reply};
use crate::shared::Shared;
use crate::stdio::well_behaved;
use crate::subst::Vars;
use crate::talk::{Next, Talk};

/// A request that is being answered, as others see it.
pub(crate) struct Flight {
    pub(crate) pipe: Arc<Pipe>,
    pub(crate) id: Option<Value>,
    withdrawn: AtomicBool,
}

impl Flight {
    /// No further message of this answer goes out.
    pub(crate) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }
}

impl Peer for Flight {
    fn shared(&self) -> &Shared {
        &self.pipe.shared
    }

    fn gone(&self) -> bool {
        self.cancelled()
    }

    fn cancelled(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }
}

/// The work of answering.
pub(crate) struct Work {
    flight: Arc<Flight>,
    parsed: Parsed,
    action: Action,
    vars: Vars,
    number: u64,
    /// Bytes of the answer that may still go out.
    left: Option<usize>,
}

/// Enough for JSON of the usual nesting.
const STACK: usize = 512 * 1024;

impl Work {
    pub(crate) fn new(pipe: &Arc<Pipe>, parsed: Parsed, (action, count): (Action, u64), number: u64) -> Self {
        let id = parsed.message.as_ref().and_then(|message| message.get("id")).cloned();
        let flight = Arc::new(Flight { pipe: Arc::clone(pipe), id, withdrawn: AtomicBool::new(false) });
        pipe.take_off(&flight);
        let vars = parsed.vars(&pipe.shared, count);
        let left = action.cut_body;
        Self { flight, parsed, action, vars, number, left }
    }

    /// Answers at once where nothing takes time, so that answers keep the order of requests; otherwise in a thread.
    pub(crate) fn start(self) {
        let early = self.action.run.then(|| well_behaved(&self.flight.pipe, &self.parsed));
        if self.action.waits() {
            in_thread(move || self.wait_and_finish(early));
            return;
        }
        let reply = self.compose(early);
        if takes_time(&reply) {
            in_thread(move || self.finish(reply));
        } else {
            self.finish(reply);
        }
    }

    /// All of it in this thread.
    pub(crate) fn wait_and_finish(self, early: Option<Reply>) {
        if self.flight.before(self.action.hold.as_deref(), self.action.delay) != Wake::Ready {
            return self.land(Sent::Gone);
        }
        let reply = self.compose(early);
        self.finish(reply);
    }

    fn compose(&self, early: Option<Reply>) -> Reply {
        let normal =
            early.or_else(|| render::runs(&self.action).then(|| well_behaved(&self.flight.pipe, &self.parsed)));
        render::scripted(&self.action, &self.vars).or(normal).unwrap_or_else(nothing)
    }

    fn finish(mut self, mut reply: Reply) {
        aside(&self.action);
        if let Some(act) = reply.act.take() {
            // The life of a task has the word.
            if self.flight.before(act.hold.as_deref(), act.delay) != Wake::Ready {
                return self.land(Sent::Gone);
            }
            aside(&act);
            reply = render::scripted(&act, &self.vars).unwrap_or_else(nothing);
            (self.left, self.action) = (act.cut_body, *act);
        }
        if self.flight.pause(reply.delay) != Wake::Ready {
            return self.land(Sent::Gone);
        }
        render::adjust(&mut reply, &self.action, &self.vars);
        let sent = self.say_all(reply);
        self.land(sent);
    }

    fn say_all(&mut self, reply: Reply) -> Sent {
        let before = self.vars.fill_bytes(&self.action.before);
        let after = self.vars.fill_bytes(&self.action.extra);
        let verbatim = self.action.eol.is_none();
        let mut sent = self.say(before);
        let mut body = match reply.body {
            Body::Empty => Vec::new(),
            Body::Message(message) => vec![self.line(&message)],
            Body::Raw(bytes) if verbatim => vec![bytes],
            Body::Raw(bytes) => vec![[&bytes[..], self.eol().as_bytes()].concat()],
            Body::Frames(frames) => {
                for frame in &frames {
                    if sent == Sent::Whole {
                        sent = self.say_frame(frame);
                    }
                }
                Vec::new()
            }
            Body::Listen(mut listener) => {
                let round = self.flight.shared().brain.world.lock().streams.round();
                while sent == Sent::Whole {
                    sent = match self.flight.hear(&mut listener, round) {
                        Heard::Say(message) => self.say(self.line(&message)),
                        Heard::Idle => Sent::Whole,
                        Heard::Gone | Heard::Ended { graceful: false } => Sent::Gone,
                        Heard::Ended { graceful: true } => {
                            sent = self.say(self.line(&listener.farewell()));
                            break;
                        }
                    };
                }
                Vec::new()
            }
            Body::Talk(talk) => {
                sent = self.say_talk(talk, sent);
                Vec::new()
            }
            Body::Feed(_) => Vec::new(),
        };
        body.push(after);
        for bytes in body {
            if sent == Sent::Whole {
                sent = self.say(bytes);
            }
        }
        sent
    }

    fn say_talk(&mut self, mut talk: Box<Talk>, mut sent: Sent) -> Sent {
        while sent == Sent::Whole {
            match talk.next(&*self.flight) {
                Next::Say(mut message) => {
                    render::shape(&mut message, &self.action, &self.vars);
                    sent = self.say(self.line(&message));
                }
                Next::Over => break,
                Next::Gone => sent = Sent::Gone,
            }
        }
        sent
    }

    fn say_frame(&mut self, frame: &Frame) -> Sent {
        if self.flight.before(frame.hold.as_deref(), frame.delay) != Wake::Ready {
            return Sent::Gone;
        }
        let bytes = match &frame.body {
            FrameBody::Raw(bytes) => self.vars.fill_bytes(bytes),
            FrameBody::Event { content, .. } => render::message(content, &self.action, &self.vars)
                .map(|message| self.line(&message))
                .unwrap_or_default(),
        };
        self.say(bytes)
    }

    fn eol(&self) -> &str {
        self.action.eol.as_deref().unwrap_or("\n")
    }

    fn line(&self, message: &Value) -> Vec<u8> {
        format!("{message}{}", self.eol()).into_bytes()
    }

    fn say(&mut self, mut bytes: Vec<u8>) -> Sent {
        if self.flight.cancelled() {
            return Sent::Gone;
        }
        let cut = self.left.is_some_and(|left| bytes.len() >= left);
        if let Some(left) = &mut self.left {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        if !bytes.is_empty() {
            let (slice, gap) = (self.action.slice, self.action.slice_gap);
            self.flight.pipe.put(Item::Bytes { bytes, slice, gap, number: self.number });
        }
        if cut { Sent::Cut } else { Sent::Whole }
    }

    fn land(self, sent: Sent) {
        let pipe = &self.flight.pipe;
        pipe.put(Item::Done { number: self.number, early: self.flight.cancelled() });
        let default = if sent == Sent::Cut { Then::Close } else { Then::Keep };
        let then = if sent == Sent::Gone { Then::Keep } else { self.action.then.unwrap_or(default) };
        if then != Then::Keep {
            pipe.put(Item::Then(then, self.action.then_after));
        }
        pipe.land(&self.flight);
    }
}

fn nothing() -> Reply {
    Reply::new(200, Body::Empty)
}

/// Standard error, and a file as a sign of life.
pub(crate) fn aside(action: &Action) {
    if !action.stderr.is_empty() {
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(&action.stderr).and_then(|()| out.flush());
    }
    if let Some(path) = &action.marker {
        let _ = std::fs::write(path, std::process::id().to_string());
    }
}

fn takes_time(reply: &Reply) -> bool {
    let frames = match &reply.body {
        Body::Frames(frames) => frames.iter().any(|frame| frame.hold.is_some() || !frame.delay.is_zero()),
        Body::Listen(_) | Body::Talk(_) => true,
        Body::Empty | Body::Message(_) | Body::Raw(_) | Body::Feed(_) => false,
    };
    frames || !reply.delay.is_zero() || reply.act.as_ref().is_some_and(|act| act.waits())
}

fn in_thread(work: impl FnOnce() + Send + 'static) {
    let _ = Builder::new().name("test-answer".to_owned()).stack_size(STACK).spawn(work);
}

/// Whether this action lets the moment pass without a word, for ever.
pub(crate) fn ignores(action: &Action) -> bool {
    matches!(action.payload, Payload::Nothing) && action.then == Some(Then::Stall)
}
