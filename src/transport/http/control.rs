//! The control block of a lane: the limits of the exchange that holds it, how far its request has come, what went
//! wrong, and the cut.
//!
//! The socket and the dialler ask it before each wait. A cut comes from any thread: one compare-exchange decides
//! between the cut and the end of the exchange, so a late cut never hits the lane's next user.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::dial::Meeting;
use crate::cancel::Wake;
use crate::clock::{Budget, Clock, Deadline};
use crate::hold::Hold;
use crate::transport::Sent;

/// The limits of one exchange.
#[derive(Clone, Debug)]
pub(super) struct Spans {
    /// The end of all.
    pub total: Deadline,
    /// Silence allowed while waiting.
    pub idle: Option<Duration>,
    /// The end of making a connection, TLS included.
    pub connect: Deadline,
    /// The time that does not count.
    pub hold: Arc<Hold>,
}

/// What went wrong below the protocol, which would only pass on an `io::Error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A limit ran out.
    Expired(Budget),
    /// No connection could be made, or a proxy made none.
    Connect(String),
    /// The TLS handshake failed.
    Tls(String),
    /// The connection broke.
    Io(String),
}

/// What the lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Connects: the connect limit counts.
    Dialling,
    /// Sends or waits: the total and the idle limit count.
    Talking,
    /// Looks what is at hand: never waits.
    Draining,
}

/// What a cut has to end.
#[derive(Clone, Default)]
pub(super) enum Stage {
    /// Nothing that blocks.
    #[default]
    Idle,
    /// A wait for a name or a connection.
    Dialling(Arc<Meeting>),
    /// A socket.
    Open(Arc<TcpStream>),
}

struct Progress {
    spans: Spans,
    phase: Phase,
    sent: Sent,
    ended: bool,
    trouble: Option<Trouble>,
    /// When the silence began, where that is not the beginning of the wait.
    silent_since: Option<Instant>,
}

const IDLE: u64 = 0;
const HELD: u64 = 1;
const CUT: u64 = 2;
const STATE: u64 = 3;

/// One lane's control block.
pub(super) struct Control {
    clock: Arc<dyn Clock>,
    /// The exchange's number, and in the last two bits whether the lane is idle, held or cut.
    word: AtomicU64,
    stage: Mutex<Stage>,
    progress: Mutex<Progress>,
}

/// Cuts one exchange: the hook for its cancel token, and for the closing transport.
pub(super) struct Cutter {
    control: Arc<Control>,
    exchange: u64,
}

impl Wake for Cutter {
    fn wake(&self) {
        self.control.cut(self.exchange);
    }
}

impl Control {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let spans = Spans { total: Deadline::Never, idle: None, connect: Deadline::Never, hold: Arc::default() };
        let progress =
            Progress { spans, phase: Phase::Draining, sent: Sent::No, ended: false, trouble: None, silent_since: None };
        Self { clock, word: AtomicU64::new(IDLE), stage: Mutex::default(), progress: Mutex::new(progress) }
    }

    /// The lane is held by a new exchange.
    pub(super) fn begin(self: &Arc<Self>, spans: Spans) -> Cutter {
        *self.progress.lock() =
            Progress { spans, phase: Phase::Talking, sent: Sent::No, ended: false, trouble: None, silent_since: None };
        let exchange = (self.word.load(Ordering::Acquire) | STATE).wrapping_add(1);
        self.word.store(exchange | HELD, Ordering::Release);
        Cutter { control: self.clone(), exchange }
    }

    /// The exchange is over. False where it was cut, and then the lane is not fit for another one.
    pub(super) fn end(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let exchange = word & !STATE;
        self.word.compare_exchange(exchange | HELD, exchange | IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn cut(&self, exchange: u64) {
        if self.word.compare_exchange(exchange | HELD, exchange | CUT, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        let stage = self.stage.lock().clone();
        match stage {
            Stage::Idle => {}
            Stage::Dialling(meeting) => meeting.wake(),
            // Wakes a blocked read with a clean end and a blocked write with an error; an error here says that the
            // socket is dead already. Whoever wakes asks `is_cut` before believing in that clean end.
            Stage::Open(stream) => drop(stream.shutdown(Shutdown::Both)),
        }
    }

    /// Whether the exchange was cut.
    pub(super) fn is_cut(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == CUT
    }

    /// Says what a cut has to end from now on. Whoever calls this asks [`Self::is_cut`] before blocking: a cut that
    /// came earlier has found the old stage.
    pub(super) fn enter(&self, stage: Stage) {
        let old = std::mem::replace(&mut *self.stage.lock(), stage);
        drop(old);
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn phase(&self) -> Phase {
        self.progress.lock().phase
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.progress.lock().phase = phase;
    }

    /// The end of a wait that began at `since`, as it stands now: a question to the host moves it.
    pub(super) fn deadline(&self, since: Instant, now: Instant) -> Deadline {
        let progress = self.progress.lock();
        let spans = &progress.spans;
        match progress.phase {
            Phase::Dialling => spans.connect,
            Phase::Talking | Phase::Draining => {
                let since = progress.silent_since.unwrap_or(since);
                let silent = spans.hold.silent_since(since, now);
                spans.hold.moved(spans.total, now).tighter(Deadline::after(silent, spans.idle, Budget::Idle))
            }
        }
    }

    /// The silence goes on since then, whatever bytes came; [`None`]: each byte ends it.
    pub(super) fn set_silent_since(&self, since: Option<Instant>) {
        self.progress.lock().silent_since = since;
    }

    pub(super) fn sent(&self) -> Sent {
        self.progress.lock().sent
    }

    /// Bytes have left. Those of a TLS handshake are no part of a request.
    pub(super) fn on_sent(&self) {
        let mut progress = self.progress.lock();
        if progress.phase != Phase::Dialling {
            progress.sent = Sent::Begun;
        }
    }

    /// The peer ended its side.
    pub(super) fn on_end(&self) {
        self.progress.lock().ended = true;
    }

    /// Whether the peer ended its side.
    pub(super) fn ended(&self) -> bool {
        self.progress.lock().ended
    }

    /// Notes what went wrong; the first trouble is the cause of the others.
    pub(super) fn blame(&self, trouble: Trouble) {
        self.progress.lock().trouble.get_or_insert(trouble);
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.progress.lock().trouble.clone()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn spans() -> Spans {
        Spans { total: Deadline::Never, idle: None, connect: Deadline::Never, hold: Arc::default() }
    }

    #[test]
    fn a_late_cut_never_hits_the_next_exchange() {
        let control = Arc::new(Control::new(ManualClock::new()));
        let first = control.begin(spans());
        assert!(control.end());
        let second = control.begin(spans());
        first.wake();
        assert!(!control.is_cut());
        second.wake();
        assert!(control.is_cut());
        assert!(!control.end());
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the race needs a second thread")]
    fn one_of_cut_and_end_wins() {
        let control = Arc::new(Control::new(ManualClock::new()));
        for _ in 0..500 {
            let cutter = Arc::new(control.begin(spans()));
            let there = cutter.clone();
            let racer = std::thread::spawn(move || there.wake());
            let ended = control.end();
            racer.join().unwrap();
            assert_eq!(control.is_cut(), !ended);
        }
    }

    #[test]
    fn the_first_trouble_is_the_cause() {
        let control = Control::new(ManualClock::new());
        control.blame(Trouble::Expired(Budget::Idle));
        control.blame(Trouble::Io("later".into()));
        assert_eq!(control.trouble(), Some(Trouble::Expired(Budget::Idle)));
    }
}
