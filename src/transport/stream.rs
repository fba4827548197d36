//! A channel of the host's own: the library writes through the host's functions, and the host feeds in what comes.
//!
//! The host's functions run on a thread of the library's, one at a time, never on the stack of a call into the library.
//! What is fed in is cut into messages on the host's thread, which takes short locks only.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::spawn::Spawn;
use crate::transport::framing::Framer;
use crate::transport::lines::{deliver, deliver_rest, line_of};
use crate::transport::{Dial, Fault, Gone, Link, Receiver, Scope, Sent};

/// Bytes that may wait for the host's write function; a sender beyond that waits within its own limits.
const MOST_WAITING: usize = 8 << 20;
/// Bytes that may be fed in before the client is opened: a greeting, not a conversation.
const MOST_EARLY: usize = 1 << 20;
/// How long a sender waits for room before it looks at its token and its deadline again.
const SLICE: Duration = Duration::from_millis(50);

/// The host's end of the channel. Dropping it is the proof that it will not be called again.
pub(crate) trait HostEnd: Send + Sync {
    /// Takes one message with its line end.
    fn write(&self, line: &[u8]);
    /// The library writes nothing more.
    fn close(&self);
}

enum Phase {
    /// Not dialled yet: what came so far.
    Fresh(Vec<u8>),
    Open(Arc<dyn Receiver>),
    Over,
}

struct State {
    phase: Phase,
    host: Option<Arc<dyn HostEnd>>,
    attached: bool,
    outbox: VecDeque<Vec<u8>>,
    waiting: usize,
    closing: bool,
    /// The host ended it: it is not told to close.
    ended_by_host: bool,
    writing: bool,
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        self.waiting == 0 || self.waiting + bytes <= MOST_WAITING
    }

    fn push(&mut self, line: Vec<u8>) {
        self.waiting += line.len();
        self.outbox.push_back(line);
    }
}

/// A stream of the host's.
pub(crate) struct HostStream {
    state: Mutex<State>,
    changed: Condvar,
    /// Also keeps what two threads feed from mixing.
    framer: Mutex<Framer>,
    clock: Arc<dyn Clock>,
}

impl HostStream {
    pub(crate) fn new(host: Arc<dyn HostEnd>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State {
            phase: Phase::Fresh(Vec::new()),
            host: Some(host),
            attached: false,
            outbox: VecDeque::new(),
            waiting: 0,
            closing: false,
            ended_by_host: false,
            writing: false,
        };
        let framer = Mutex::new(Framer::new(usize::MAX));
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), framer, clock })
    }

    /// Takes bytes of the peer's.
    ///
    /// # Errors
    /// [`Kind::Closed`] after the end; [`Kind::State`] where too much comes before the client is opened.
    pub(crate) fn feed(&self, bytes: &[u8]) -> Result<()> {
        let mut framer = self.framer.lock();
        let receiver = {
            let mut state = self.state.lock();
            match &mut state.phase {
                Phase::Over => return Err(Error::new(Kind::Closed, "the stream is over")),
                Phase::Open(receiver) => receiver.clone(),
                Phase::Fresh(early) if early.len() + bytes.len() <= MOST_EARLY => {
                    early.extend_from_slice(bytes);
                    return Ok(());
                }
                Phase::Fresh(_) => {
                    let message = format!("more than {MOST_EARLY} bytes were fed in before the client was opened");
                    return Err(Error::new(Kind::State, message));
                }
            }
        };
        deliver(&mut framer, bytes, &*receiver);
        Ok(())
    }

    /// The host's channel has ended. False where the stream was over before.
    pub(crate) fn end(&self, why: &str) -> bool {
        let was = {
            let mut state = self.state.lock();
            state.ended_by_host = true;
            state.closing = true;
            state.outbox.clear();
            std::mem::replace(&mut state.phase, Phase::Over)
        };
        self.changed.notify_all();
        match was {
            Phase::Open(receiver) => {
                deliver_rest(&mut self.framer.lock(), &*receiver);
                receiver.ended(Gone::Lost(if why.is_empty() {
                    "the host's stream has ended".into()
                } else {
                    why.into()
                }));
                true
            }
            Phase::Fresh(_) => {
                self.let_go();
                true
            }
            Phase::Over => false,
        }
    }

    /// A stream belongs to one client.
    fn attach(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().attached, true)
    }

    /// Lets go of the host's functions of a stream that was never opened.
    pub(crate) fn let_go(&self) {
        let host = {
            let mut state = self.state.lock();
            if state.writing || matches!(state.phase, Phase::Open(_)) {
                return;
            }
            state.phase = Phase::Over;
            state.host.take()
        };
        // The host's destructor runs here, outside the lock.
        drop(host);
    }

    fn open(self: &Arc<Self>, receiver: Arc<dyn Receiver>, line_bytes: usize, spawn: &dyn Spawn) -> Result<(), Fault> {
        let over = || Fault::Start("the host's stream is over".into());
        let mut framer = self.framer.lock();
        let (early, host) = {
            let mut state = self.state.lock();
            let host = state.host.take().ok_or_else(over)?;
            match std::mem::replace(&mut state.phase, Phase::Open(receiver.clone())) {
                Phase::Fresh(early) => {
                    state.writing = true;
                    (early, host)
                }
                other @ (Phase::Open(_) | Phase::Over) => {
                    state.phase = other;
                    return Err(over());
                }
            }
        };
        *framer = Framer::new(line_bytes);
        let here = self.clone();
        let write = move || {
            here.write(&*host);
            // First the host's end is let go of, then those who wait for that are told.
            drop(host);
            here.state.lock().writing = false;
            here.changed.notify_all();
        };
        if let Err(refused) = spawn.spawn("mcp-stream", Box::new(write)) {
            self.state.lock().writing = false;
            return Err(Fault::Start(refused.message().to_owned()));
        }
        deliver(&mut framer, &early, &*receiver);
        Ok(())
    }

    /// The writer's thread.
    fn write(&self, host: &dyn HostEnd) {
        while let Some(line) = self.next_line() {
            host.write(&line);
        }
        let tell = !self.state.lock().ended_by_host;
        if tell {
            host.close();
        }
    }

    /// The next line to write; `None` at the end.
    fn next_line(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        loop {
            if let Some(line) = state.outbox.pop_front() {
                state.waiting -= line.len();
                self.changed.notify_all();
                return Some(line);
            }
            if state.closing {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

impl Link for HostStream {
    fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        let line = line_of(message);
        let mut state = self.state.lock();
        loop {
            if state.closing {
                let detail = "the host's stream has ended".to_owned();
                return Err(if state.ended_by_host { Fault::Io { sent: Sent::No, detail } } else { Fault::Closed });
            }
            if let Some(why) = scope.cancel.cancelled() {
                return Err(Fault::Cancelled { why, sent: Sent::No });
            }
            if state.has_room(line.len()) {
                state.push(line);
                self.changed.notify_all();
                return Ok(());
            }
            let now = self.clock.now();
            if let Err(expired) = scope.total.left(now) {
                return Err(Fault::Timeout { budget: expired.0, sent: Sent::No });
            }
            if let Some(at) = Deadline::after(now, Some(SLICE), Budget::Grace).tighter(scope.total).at() {
                self.changed.wait_until(&mut state, at);
            }
        }
    }

    fn try_send(&self, message: &str) -> bool {
        let line = line_of(message);
        let mut state = self.state.lock();
        let fits = !state.closing && state.has_room(line.len());
        if fits {
            state.push(line);
            self.changed.notify_all();
        }
        fits
    }

    fn cut(&self) {
        self.state.lock().closing = true;
        self.changed.notify_all();
    }

    fn close(&self, grace: Option<Duration>) {
        let was = {
            let mut state = self.state.lock();
            state.closing = true;
            std::mem::replace(&mut state.phase, Phase::Over)
        };
        self.changed.notify_all();
        if let Phase::Open(receiver) = was {
            receiver.ended(Gone::Closed);
        }
        let deadline = Deadline::after(self.clock.now(), grace, Budget::Grace);
        let mut state = self.state.lock();
        while state.writing {
            if !deadline.wait(&self.changed, &mut state) {
                return;
            }
        }
    }
}

/// The stream that the host gave to a client.
pub(crate) struct StreamDial {
    origin: String,
    line_bytes: usize,
    slot: Arc<StreamSlot>,
    spawn: Arc<dyn Spawn>,
}

/// Where the host's stream is put.
#[derive(Default)]
pub(crate) struct StreamSlot(Mutex<Option<Arc<HostStream>>>);

impl StreamSlot {
    /// Gives the stream to this client.
    ///
    /// # Errors
    /// [`Kind::State`] where either of the two has been given before.
    pub(crate) fn put(&self, stream: Arc<HostStream>) -> Result<()> {
        let mut slot = self.0.lock();
        if slot.is_some() {
            return Err(Error::new(Kind::State, "the client has a stream already"));
        }
        if !stream.attach() {
            return Err(Error::new(Kind::State, "the stream belongs to another client"));
        }
        *slot = Some(stream);
        Ok(())
    }
}

impl StreamDial {
    pub(crate) fn new(origin: &str, line_bytes: usize, slot: Arc<StreamSlot>, spawn: Arc<dyn Spawn>) -> Self {
        Self { origin: origin.to_owned(), line_bytes, slot, spawn }
    }
}

impl Dial for StreamDial {
    fn dial(&self, receiver: Arc<dyn Receiver>, _scope: &Scope<'_>) -> Result<Arc<dyn Link>, Fault> {
        let stream = self.slot.0.lock().clone();
        let stream = stream.ok_or_else(|| Fault::Start("the client has no stream (mcp_client_set_stream)".into()))?;
        stream.open(receiver, self.line_bytes, &*self.spawn)?;
        Ok(stream)
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn close(&self) {
        let stream = self.slot.0.lock().take();
        if let Some(stream) = stream {
            stream.let_go();
        }
    }
}
