//! A two-way channel as a [`Transport`]: many requests in flight over one link, answers routed by id, progress by
//! token, a subscription's notifications by its id. The peer is dialled when a request needs it, and again after it
//! ended, within the bounds of [`Restarts`].
//!
//! ```text
//! callers ── exchange ──> life ── Link::send ──> child, socket, stream
//!    ^                      │
//!    └─ ticket <─ pending <─┴── Receiver::message <── the link's own thread
//! ```

mod unawaited;

use std::sync::{Arc, Weak};
use std::time::Duration;

use once_cell::sync::OnceCell;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::cancel::{CancelToken, Cancelled, Wake, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::protocol::jsonrpc::write_cancelled;
use crate::session::known::NO_LIFE;
use crate::session::life::{Asides, Life};
use crate::session::pending::{Next, Ticket};
use crate::transport::restart::{RestartPolicy, Restarts, Start};
use crate::transport::{
    Dial, Fault, Flow, FrameSink, Gone, Later, Link, Outgoing, Receiver, Scope, Sent, Transport, Unawaited,
};

/// A write failed, so the channel is ending: its reason is awaited this long.
const REASON: Duration = Duration::from_secs(1);
/// A cancellation must not hold up the caller that gives up: what the peer does not take in this time is dropped.
const FAREWELL: Duration = Duration::from_secs(1);
/// The end of a link that was dialled while the channel closed.
const STRAY: Duration = Duration::from_secs(2);

enum Phase {
    Down,
    Dialing,
    Up(Arc<Life>),
    Closed,
}

struct State {
    phase: Phase,
    restarts: Restarts,
    /// How the peer ended the last time.
    last: Option<Gone>,
    /// The number of the last life.
    lives: u64,
    /// The server is a legacy one.
    legacy: bool,
    /// Links that are over or ending; what they hold of the system may still be there.
    leaving: Vec<Weak<dyn Link>>,
}

/// A server on the other end of a two-way channel.
pub(crate) struct Channel {
    dial: Box<dyn Dial>,
    clock: Arc<dyn Clock>,
    line_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
    asides: OnceCell<Arc<dyn Asides>>,
    me: Weak<Channel>,
}

impl Channel {
    /// Dials nothing yet. `line_bytes` is only for the words of an error.
    pub(crate) fn new(
        dial: Box<dyn Dial>,
        policy: RestartPolicy,
        line_bytes: usize,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let state = State {
            phase: Phase::Down,
            restarts: Restarts::new(policy),
            last: None,
            lives: 0,
            legacy: false,
            leaving: Vec::new(),
        };
        Arc::new_cyclic(|me| Self {
            dial,
            clock,
            line_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
            asides: OnceCell::new(),
            me: me.clone(),
        })
    }

    /// Where goes what belongs to no request. Set once, before the first exchange.
    pub(crate) fn set_asides(&self, asides: Arc<dyn Asides>) {
        // A second one would be a fault of ours; the first stays.
        self.asides.set(asides).unwrap_or_default();
    }

    /// The life that a message goes to. What leans on a session goes to that session's life, or nowhere.
    fn life_for(&self, outgoing: &Outgoing<'_>, scope: &Scope<'_>) -> Result<Arc<Life>, Fault> {
        if outgoing.life == 0 {
            return self.wanted(scope);
        }
        let state = self.state.lock();
        match &state.phase {
            Phase::Up(life) if life.number() == outgoing.life => Ok(life.clone()),
            Phase::Closed => Err(Fault::Closed),
            Phase::Up(_) | Phase::Down | Phase::Dialing => {
                Err(state.last.clone().unwrap_or_else(|| Gone::Lost("it ended".into())).fault(Sent::No))
            }
        }
    }

    /// The life to send on; dials where there is none.
    fn wanted(&self, scope: &Scope<'_>) -> Result<Arc<Life>, Fault> {
        let connect = Deadline::after(self.clock.now(), scope.connect, Budget::Connect).tighter(scope.total);
        let mut gate = None;
        let mut state = self.state.lock();
        loop {
            let until = match &state.phase {
                Phase::Up(life) => match life.pending().over() {
                    None => return Ok(life.clone()),
                    // Its requests know already, and one of them is quicker here than the news.
                    Some(why) => {
                        state.last = Some(why);
                        state.phase = Phase::Down;
                        continue;
                    }
                },
                Phase::Closed => return Err(Fault::Closed),
                Phase::Dialing => connect.at(),
                Phase::Down => match state.restarts.on_wanted(self.clock.now()) {
                    Start::Now => {
                        state.phase = Phase::Dialing;
                        drop(state);
                        return self.dial(&Scope { total: connect, ..*scope });
                    }
                    Start::At(at) => Some(connect.at().map_or(at, |end| end.min(at))),
                    Start::Refused => {
                        let last = state.last.clone().unwrap_or_else(|| Gone::Lost("it ended".into()));
                        return Err(Fault::NotAgain { last });
                    }
                },
            };
            if gate.is_none() {
                gate = Some(self.gate(&mut state, scope.cancel)?);
                // The lock was away meanwhile, and with it the news that the wait below would be for.
                continue;
            }
            if let Some(why) = scope.cancel.cancelled() {
                return Err(Fault::Cancelled { why, sent: Sent::No });
            }
            if let Err(expired) = connect.left(self.clock.now()) {
                return Err(Fault::Timeout { budget: expired.0, sent: Sent::No });
            }
            match until {
                Some(until) => drop(self.changed.wait_until(&mut state, until)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// A legacy server may ask; a request that leans on no session is for a modern one.
    fn set_legacy(&self, life: &Life, legacy: bool) {
        self.state.lock().legacy = legacy;
        life.set_legacy(legacy);
    }

    /// Lets the token end a wait for the dialling; registered with the lock released, since the hook takes it.
    fn gate(&self, state: &mut MutexGuard<'_, State>, cancel: &CancelToken) -> Result<Arc<dyn Wake>, Fault> {
        let gate: Arc<dyn Wake> = Arc::new(Gate(self.me.clone()));
        let hooked = MutexGuard::unlocked(state, || cancel.on_cancel(Arc::downgrade(&gate)));
        hooked.map_err(|Cancelled(why)| Fault::Cancelled { why, sent: Sent::No })?;
        Ok(gate)
    }

    fn dial(&self, scope: &Scope<'_>) -> Result<Arc<Life>, Fault> {
        let life = {
            let mut state = self.state.lock();
            state.lives += 1;
            let life = Life::new(self.me.clone(), self.asides.get().cloned(), state.lives);
            life.set_legacy(state.legacy);
            life
        };
        let dialled = self.dial.dial(life.clone(), scope);
        let mut state = self.state.lock();
        let link = match dialled {
            Ok(link) => link,
            Err(fault) => {
                if matches!(state.phase, Phase::Dialing) {
                    state.phase = Phase::Down;
                }
                drop(state);
                self.changed.notify_all();
                return Err(fault);
            }
        };
        life.attach(link.clone());
        if matches!(state.phase, Phase::Closed) {
            drop(state);
            link.cut();
            link.close(Some(STRAY));
            return Err(Fault::Closed);
        }
        state.restarts.on_start(self.clock.now());
        state.leaving.retain(|link| link.strong_count() > 0);
        state.leaving.push(Arc::downgrade(&link));
        // It may be over already: `ended` closes the pending requests first and comes for this lock then.
        match life.pending().over() {
            None => state.phase = Phase::Up(life.clone()),
            Some(why) => {
                state.phase = Phase::Down;
                state.last = Some(why);
            }
        }
        drop(state);
        self.changed.notify_all();
        Ok(life)
    }

    /// A life is over; the next request dials again.
    pub(super) fn on_ended(&self, life: &Life, why: &Gone) {
        let gone = {
            let mut state = self.state.lock();
            match &state.phase {
                Phase::Up(up) if std::ptr::eq(Arc::as_ptr(up), life) => {
                    state.last = Some(why.clone());
                    std::mem::replace(&mut state.phase, Phase::Down)
                }
                Phase::Up(_) | Phase::Down | Phase::Dialing | Phase::Closed => return,
            }
        };
        self.changed.notify_all();
        drop(gone);
    }

    /// A write failed. Where the channel is ending, the reason says more than the write does; where it is not, it has
    /// to: a peer that closed its input would fail every request to come.
    fn reason(&self, life: &Life, ticket: &Ticket, fault: Fault) -> Fault {
        let Fault::Io { sent, detail } = fault else {
            return fault;
        };
        let why = ticket.gone(REASON, &*self.clock).unwrap_or_else(|| {
            let why = Gone::Lost(detail);
            life.give_up(why.clone());
            why
        });
        why.fault(sent)
    }

    /// Tells the server that nobody waits for this any more: on a shared channel there is no stream to close
    /// (`basic/patterns/cancellation`).
    fn farewell(&self, life: &Life, id: i64, reason: &str) {
        let token = CancelToken::new();
        let total = Deadline::after(self.clock.now(), Some(FAREWELL), Budget::Grace);
        let scope = Scope { cancel: &token, total, idle: None, connect: None };
        if let Err(fault) = life.send(&write_cancelled(id, reason), &scope) {
            life.odd(&format!("a cancellation could not be sent: {fault:?}"));
        }
    }

    /// A server that does not answer the probe may be a legacy one, for which nothing comes before `initialize`.
    fn timed_out(&self, life: &Life, id: i64, budget: Budget, sink: &dyn FrameSink) {
        if budget != Budget::Probe && sink.may_be_cancelled() {
            self.farewell(life, id, "the time is up");
        }
    }

    fn wait(&self, life: &Life, ticket: &Ticket, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let (id, sent) = (ticket.id(), Sent::Begun);
        loop {
            match ticket.next(scope, &*self.clock, life.link()) {
                Next::Frame(text) => {
                    if sink.frame(text) == Flow::Done {
                        return Ok(());
                    }
                    // Notes without end must not outlast the limit of the whole call.
                    let now = self.clock.now();
                    if let Err(expired) = scope.cancel.hold().moved(scope.total, now).left(now) {
                        self.timed_out(life, id, expired.0, sink);
                        return Err(Fault::Timeout { budget: expired.0, sent });
                    }
                }
                Next::TooLong => return Err(unawaited::too_long(self.line_bytes)),
                Next::ByServer => return Err(unawaited::by_server()),
                Next::Gone(why) => return Err(why.fault(sent)),
                Next::Cancelled(why) => {
                    // At a close the end of the channel says the same.
                    if why == Why::Host && sink.may_be_cancelled() {
                        self.farewell(life, id, "the host cancelled it");
                    }
                    return Err(Fault::Cancelled { why, sent });
                }
                Next::Timeout(budget) => {
                    self.timed_out(life, id, budget, sink);
                    return Err(Fault::Timeout { budget, sent });
                }
            }
        }
    }
}

impl Transport for Channel {
    fn exchange(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let Some(id) = outgoing.id else {
            return Err(Fault::Io { sent: Sent::No, detail: "a request without an id cannot be answered".into() });
        };
        let life = self.life_for(&outgoing, scope)?;
        if outgoing.life == 0 {
            self.set_legacy(&life, false);
        }
        let opened = life.pending().open(id, outgoing.token, sink.lasts());
        let ticket = opened.map_err(|why| why.fault(Sent::No))?;
        ticket.hook(scope.cancel).map_err(|Cancelled(why)| Fault::Cancelled { why, sent: Sent::No })?;
        match life.send(outgoing.body, scope) {
            Ok(()) => self.wait(&life, &ticket, scope, sink),
            Err(fault) => {
                if let Fault::Cancelled { sent: Sent::Begun, .. } | Fault::Timeout { sent: Sent::Begun, .. } = fault
                    && sink.may_be_cancelled()
                {
                    self.farewell(&life, id, "the sender gave up");
                }
                Err(self.reason(&life, &ticket, fault))
            }
        }
    }

    fn begin(&self, outgoing: Outgoing<'_>, later: Later) -> Option<Arc<dyn Unawaited>> {
        self.begin_unawaited(outgoing, later)
    }

    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(), Fault> {
        self.life_for(&outgoing, scope)?.send(outgoing.body, scope)
    }

    /// What a legacy server says for itself, until this life is over.
    fn listen(&self, _headers: &[(&str, &str)], scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let guests = match &self.state.lock().phase {
            Phase::Up(life) => life.guests().clone(),
            Phase::Down | Phase::Dialing | Phase::Closed => return Ok(()),
        };
        let hook: Arc<dyn Wake> = guests.clone();
        let hooked = scope.cancel.on_cancel(Arc::downgrade(&hook));
        hooked.map_err(|Cancelled(why)| Fault::Cancelled { why, sent: Sent::No })?;
        sink.opened();
        while let Some(text) = guests.next(scope.cancel) {
            if sink.frame(text) == Flow::Done {
                break;
            }
        }
        Ok(())
    }

    fn life(&self) -> u64 {
        match &self.state.lock().phase {
            Phase::Up(life) if life.pending().over().is_none() => life.number(),
            Phase::Up(_) | Phase::Down | Phase::Dialing | Phase::Closed => NO_LIFE,
        }
    }

    fn revive(&self, scope: &Scope<'_>) -> Result<(), Fault> {
        self.state.lock().legacy = true;
        let life = self.wanted(scope)?;
        self.set_legacy(&life, true);
        Ok(())
    }

    fn origin(&self) -> &str {
        self.dial.origin()
    }

    fn close(&self) {
        let was = std::mem::replace(&mut self.state.lock().phase, Phase::Closed);
        self.changed.notify_all();
        if let Phase::Up(life) = was {
            life.ended(Gone::Closed);
            life.cut();
        }
        self.dial.close();
    }

    fn lingers(&self) -> bool {
        self.state.lock().leaving.iter().any(|link| link.strong_count() > 0)
    }

    fn finish(&self, grace: Option<Duration>) {
        let leaving: Vec<Arc<dyn Link>> = {
            let mut state = self.state.lock();
            state.leaving.drain(..).filter_map(|link| link.upgrade()).collect()
        };
        for link in leaving {
            link.close(grace);
        }
    }
}

/// Wakes those who wait for the dialling.
struct Gate(Weak<Channel>);

impl Wake for Gate {
    fn wake(&self) {
        if let Some(channel) = self.0.upgrade() {
            // Through the lock, so that nobody is between looking and waiting.
            drop(channel.state.lock());
            channel.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
