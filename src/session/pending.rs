//! The requests that are open on one life of a channel. An answer settles its request; a late, doubled or unknown one
//! is a value with a name. What has ended stays known for a while, in a bounded list.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::cancel::{CancelToken, Cancelled, Wake, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::transport::{Gone, Link, Scope, Turn};

/// Ended requests that are remembered.
const MOST_TOMBS: usize = 1024;
/// Notes that may wait for a request's own thread; beyond this the oldest gives way (BR-13: a burst of progress).
const MOST_WAITING: usize = 1024;

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The request has it.
    Delivered,
    /// The request had one before.
    Twice,
    /// Nobody waits any more.
    Late,
    /// No such request was sent, or long ago.
    Unknown,
}

/// What a request waits for.
#[derive(Debug)]
pub(super) enum Next {
    /// A message of its own: a note, or the answer.
    Frame(String),
    /// Its answer was a line over the limit.
    TooLong,
    /// The server ended it.
    ByServer,
    /// The channel is over.
    Gone(Gone),
    /// Cut by its token.
    Cancelled(Why),
    /// A time limit ran out.
    Timeout(Budget),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tomb {
    Answered,
    Abandoned,
}

#[derive(Default)]
struct Table {
    open: HashMap<i64, Arc<Slot>>,
    /// Progress tokens as JSON text, without the dress of a string (some servers send a number back as one).
    tokens: HashMap<String, i64>,
    tombs: VecDeque<(i64, Tomb)>,
    over: Option<Gone>,
}

/// The open requests.
#[derive(Default)]
pub(super) struct Pending {
    table: Mutex<Table>,
}

impl Pending {
    /// Opens a request. Whether the channel is over is tested under the lock that inserts, so none is forgotten.
    pub(super) fn open(self: &Arc<Self>, id: i64, token: Option<&str>, lasting: bool) -> Result<Ticket, Gone> {
        self.open_slot(id, token, Slot { lasting, ..Slot::default() })
    }

    /// Opens a request that nobody waits for: what comes first, its answer or its end, goes to `taker`, once. Its notes
    /// go to nobody.
    pub(super) fn open_unawaited(self: &Arc<Self>, id: i64, taker: Taker) -> Result<Ticket, Gone> {
        let state = Mutex::new(SlotState { taker: Some(taker), ..SlotState::default() });
        self.open_slot(id, None, Slot { state, unawaited: true, ..Slot::default() })
    }

    fn open_slot(self: &Arc<Self>, id: i64, token: Option<&str>, slot: Slot) -> Result<Ticket, Gone> {
        let slot = Arc::new(slot);
        let token = token.map(|token| bare(token).to_owned());
        let mut table = self.table.lock();
        if let Some(why) = &table.over {
            return Err(why.clone());
        }
        table.open.insert(id, slot.clone());
        if let Some(token) = &token {
            table.tokens.insert(token.clone(), id);
        }
        drop(table);
        Ok(Ticket { id, token, slot, pending: self.clone() })
    }

    /// An answer came.
    pub(super) fn settle(&self, id: i64, answer: String) -> Settled {
        let slot = {
            let mut table = self.table.lock();
            match table.open.remove(&id) {
                Some(slot) => {
                    table.bury(id, Tomb::Answered);
                    slot
                }
                None => return table.tomb(id),
            }
        };
        if slot.unawaited {
            slot.hand_over(Next::Frame(answer));
        } else {
            slot.change(|state| state.frames.push_back(answer));
        }
        Settled::Delivered
    }

    /// A note for an open request; false where it is not open. `dropped` is told once for each request.
    pub(super) fn pass(&self, id: i64, note: String, dropped: impl FnOnce()) -> bool {
        let Some(slot) = self.find(id) else {
            return false;
        };
        if slot.unawaited {
            return true;
        }
        let mut first_drop = false;
        slot.change(|state| {
            state.frames.push_back(note);
            if state.frames.len() > MOST_WAITING {
                state.frames.pop_front();
                first_drop = !std::mem::replace(&mut state.dropping, true);
            }
        });
        if first_drop {
            dropped();
        }
        true
    }

    /// Ends one request in another way than by an answer; false where it is not open.
    pub(super) fn end(&self, id: i64, how: Ended) -> bool {
        let slot = self.find(id);
        slot.map(|slot| slot.end(how)).is_some()
    }

    /// The open request with this progress token.
    pub(super) fn by_token(&self, token: &str) -> Option<i64> {
        self.table.lock().tokens.get(bare(token)).copied()
    }

    /// The open request, where there is just one. A subscription is none: it is open all the time.
    pub(super) fn only(&self) -> Option<i64> {
        self.only_of(|slot| !slot.lasting)
    }

    /// The same of those that somebody waits for, to whom a log message or a question may belong.
    pub(super) fn only_awaited(&self) -> Option<i64> {
        self.only_of(|slot| !slot.lasting && !slot.unawaited)
    }

    fn only_of(&self, counts: impl Fn(&Slot) -> bool) -> Option<i64> {
        let table = self.table.lock();
        let mut open = table.open.iter().filter(|(_, slot)| counts(slot)).map(|(id, _)| *id);
        open.next().filter(|_| open.next().is_none())
    }

    /// The open requests.
    pub(super) fn all(&self) -> Vec<i64> {
        self.table.lock().open.keys().copied().collect()
    }

    /// Ends all requests, and refuses new ones. False where that was done before: the first reason stays.
    pub(super) fn close(&self, why: &Gone) -> bool {
        let slots: Vec<Arc<Slot>> = {
            let mut table = self.table.lock();
            if table.over.is_some() {
                return false;
            }
            table.over = Some(why.clone());
            table.open.values().cloned().collect()
        };
        // Woken after unlocking: those who wake come for the lock.
        for slot in slots {
            slot.end(Ended::Gone(why.clone()));
        }
        true
    }

    /// Why all is over, where it is.
    pub(super) fn over(&self) -> Option<Gone> {
        self.table.lock().over.clone()
    }

    fn find(&self, id: i64) -> Option<Arc<Slot>> {
        self.table.lock().open.get(&id).cloned()
    }
}

impl Table {
    fn bury(&mut self, id: i64, tomb: Tomb) {
        if self.tombs.len() >= MOST_TOMBS {
            self.tombs.pop_front();
        }
        self.tombs.push_back((id, tomb));
    }

    fn tomb(&self, id: i64) -> Settled {
        match self.tombs.iter().rev().find(|(buried, _)| *buried == id) {
            Some((_, Tomb::Answered)) => Settled::Twice,
            Some((_, Tomb::Abandoned)) => Settled::Late,
            None => Settled::Unknown,
        }
    }
}

/// How a request ended without an answer.
#[derive(Debug)]
pub(super) enum Ended {
    TooLong,
    ByServer,
    Gone(Gone),
}

impl From<Ended> for Next {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::TooLong => Self::TooLong,
            Ended::ByServer => Self::ByServer,
            Ended::Gone(why) => Self::Gone(why),
        }
    }
}

/// Takes what a request came to. Called with no lock held.
pub(super) type Taker = Box<dyn FnOnce(Next) + Send>;

#[derive(Default)]
struct SlotState {
    frames: VecDeque<String>,
    dropping: bool,
    ended: Option<Ended>,
    taker: Option<Taker>,
    /// Who waits for it by reading, and how that wait is ended.
    reader: Option<(ThreadId, Arc<dyn Wake>)>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    news: Condvar,
    lasting: bool,
    unawaited: bool,
}

impl Slot {
    fn change(&self, change: impl FnOnce(&mut SlotState)) {
        let bell = {
            let mut state = self.state.lock();
            change(&mut state);
            // The reader itself looks after each piece that it read.
            let other = |(reader, _): &&(ThreadId, _)| *reader != std::thread::current().id();
            state.reader.as_ref().filter(other).map(|(_, bell)| bell.clone())
        };
        self.news.notify_all();
        if let Some(bell) = bell {
            bell.wake();
        }
    }

    /// The first end counts.
    fn end(&self, how: Ended) {
        if self.unawaited {
            return self.hand_over(how.into());
        }
        self.change(|state| {
            state.ended.get_or_insert(how);
        });
    }

    fn hand_over(&self, what: Next) {
        // Taken out first: the taker runs with the lock released.
        let taker = self.state.lock().taker.take();
        if let Some(taker) = taker {
            taker(what);
        }
    }
}

impl Wake for Slot {
    fn wake(&self) {
        // Through the lock, so that nobody is between looking and waiting.
        self.change(|_| {});
    }
}

/// One open request. Dropping it gives up: an answer that still comes is late.
pub(super) struct Ticket {
    id: i64,
    token: Option<String>,
    slot: Arc<Slot>,
    pending: Arc<Pending>,
}

impl Ticket {
    /// The request's id.
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Whether other requests wait for their answers.
    fn has_company(&self) -> bool {
        let table = self.pending.table.lock();
        table.open.iter().any(|(id, slot)| *id != self.id && !slot.lasting)
    }

    /// Nobody's answer is wanted any more: whom to tell, where nothing came so far.
    pub(super) fn give_up(&self) -> Option<Taker> {
        self.slot.state.lock().taker.take()
    }

    /// Lets the token end the waits of this request.
    pub(super) fn hook(&self, cancel: &CancelToken) -> Result<(), Cancelled> {
        let slot: Weak<dyn Wake> = Arc::downgrade(&self.slot) as Weak<dyn Wake>;
        cancel.on_cancel(slot)
    }

    /// Waits for what comes next. What is here already counts before what is missing.
    pub(super) fn next(&self, scope: &Scope<'_>, clock: &dyn Clock, link: Option<&dyn Link>) -> Next {
        let (began, hold) = (clock.now(), scope.cancel.hold());
        let deadline = |now| {
            let idle = Deadline::after(hold.silent_since(began, now), scope.idle, Budget::Idle);
            idle.tighter(hold.moved(scope.total, now))
        };
        self.wait(deadline, Some(scope.cancel), clock, link.filter(|_| !self.slot.lasting))
    }

    /// Waits for the reason why the channel is over, for a write that failed: the exit comes a moment later.
    pub(super) fn gone(&self, limit: Duration, clock: &dyn Clock) -> Option<Gone> {
        let deadline = Deadline::after(clock.now(), Some(limit), Budget::Grace);
        match self.wait(|_| deadline, None, clock, None) {
            Next::Gone(why) => Some(why),
            Next::Frame(_) | Next::TooLong | Next::ByServer | Next::Cancelled(_) | Next::Timeout(_) => None,
        }
    }

    /// The deadline is asked anew after each wait: it moves while a question is open.
    fn wait(
        &self,
        deadline: impl Fn(Instant) -> Deadline,
        cancel: Option<&CancelToken>,
        clock: &dyn Clock,
        link: Option<&dyn Link>,
    ) -> Next {
        let mut lead = link.map(|link| Lead { ticket: self, link, turn: None });
        let mut state = self.slot.state.lock();
        loop {
            if let Some(why) = cancel.and_then(CancelToken::cancelled) {
                return Next::Cancelled(why);
            }
            if let Some(frame) = state.frames.pop_front() {
                return Next::Frame(frame);
            }
            match &state.ended {
                Some(Ended::TooLong) => return Next::TooLong,
                Some(Ended::ByServer) => return Next::ByServer,
                Some(Ended::Gone(why)) => return Next::Gone(why.clone()),
                None => {}
            }
            let now = clock.now();
            let deadline = deadline(now);
            let left = match deadline.left(now) {
                Ok(left) => left,
                Err(expired) => return Next::Timeout(expired.0),
            };
            if !lead.as_mut().is_some_and(|lead| lead.read(&mut state, left)) {
                deadline.wait(&self.slot.news, &mut state);
            }
        }
    }
}

/// A caller that reads what it waits for, and what comes for others meanwhile.
struct Lead<'a> {
    ticket: &'a Ticket,
    link: &'a dyn Link,
    turn: Option<Box<dyn Turn + 'a>>,
}

impl Lead<'_> {
    /// Reads once. False where another reads, or has to.
    fn read(&mut self, state: &mut MutexGuard<'_, SlotState>, left: Option<Duration>) -> bool {
        if self.turn.is_none() {
            // With several that wait, the link's own thread wakes each with less ado. Tried with the lock held: who
            // reads comes for it, but does not wait for us.
            if self.ticket.has_company() {
                self.link.want_reader();
                return false;
            }
            self.turn = self.link.turn();
        }
        let (Some(turn), Some(bell)) = (&mut self.turn, self.link.bell()) else {
            return false;
        };
        // From here on whoever has news rings; with the lock held since the last look, none is missed.
        state.reader = Some((std::thread::current().id(), bell));
        let goes_on = MutexGuard::unlocked(state, || turn.read(left));
        state.reader = None;
        if !goes_on {
            self.turn = None;
        }
        true
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        // First given back, then looked: who came meanwhile has found it taken, or is seen here.
        if self.turn.take().is_some() && self.ticket.has_company() {
            self.link.want_reader();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.pending.table.lock();
        if let Some(token) = &self.token
            && table.tokens.get(token) == Some(&self.id)
        {
            table.tokens.remove(token);
        }
        if table.open.remove(&self.id).is_some() {
            table.bury(self.id, Tomb::Abandoned);
        }
    }
}

/// A token without the quotes of a string: ours are numbers mostly, and come back in both dresses.
fn bare(token: &str) -> &str {
    token.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn scope(cancel: &CancelToken) -> Scope<'_> {
        let total = Deadline::after(SystemClock.now(), Some(Duration::from_secs(20)), Budget::Total);
        Scope { cancel, total, idle: None, connect: None }
    }

    fn frame(ticket: &Ticket, cancel: &CancelToken) -> String {
        match ticket.next(&scope(cancel), &SystemClock, None) {
            Next::Frame(text) => text,
            other @ (Next::TooLong | Next::ByServer | Next::Gone(_) | Next::Cancelled(_) | Next::Timeout(_)) => {
                format!("{other:?}")
            }
        }
    }

    #[test]
    fn br_12_a_late_doubled_or_unknown_answer_has_its_name() {
        let (pending, cancel) = (Arc::new(Pending::default()), CancelToken::new());
        let (one, two) = (pending.open(1, None, false).unwrap(), pending.open(2, None, false).unwrap());
        assert_eq!(pending.settle(2, "b".into()), Settled::Delivered);
        assert_eq!(pending.settle(2, "b again".into()), Settled::Twice);
        assert_eq!(pending.settle(3, "c".into()), Settled::Unknown);
        assert_eq!(frame(&two, &cancel), "b");
        assert_eq!(pending.only(), Some(1));
        let subscription = pending.open(9, None, true).unwrap();
        assert_eq!(pending.only(), Some(1), "a subscription does not count");
        drop(subscription);
        drop(one);
        assert_eq!(pending.settle(1, "a".into()), Settled::Late);
        assert_eq!(pending.only(), None);
        drop(two);
        assert_eq!(pending.settle(2, "b".into()), Settled::Twice);
        for id in 10..5000 {
            drop(pending.open(id, None, false).unwrap());
        }
        assert_eq!(pending.settle(1, "a".into()), Settled::Unknown);
        assert_eq!(pending.table.lock().tombs.len(), MOST_TOMBS);
    }

    #[test]
    fn br_13_a_burst_of_notes_is_bounded_and_the_answer_is_kept() {
        let (pending, cancel) = (Arc::new(Pending::default()), CancelToken::new());
        let ticket = pending.open(1, Some("\"tok\""), false).unwrap();
        let mut told = 0;
        for number in 0..10_000 {
            assert_eq!(pending.by_token("\"tok\""), Some(1));
            assert!(pending.pass(1, number.to_string(), || told += 1));
        }
        assert_eq!(pending.settle(1, "answer".into()), Settled::Delivered);
        assert_eq!(told, 1);
        let mut frames = Vec::new();
        while frames.last().is_none_or(|last| last != "answer") {
            frames.push(frame(&ticket, &cancel));
        }
        assert_eq!(frames.len(), MOST_WAITING + 1);
        assert!(!pending.pass(1, "late".into(), || ()));
        drop(ticket);
        assert_eq!(pending.by_token("tok"), None);
    }

    #[test]
    fn the_end_of_the_channel_ends_all_and_lets_what_came_before_through() {
        let (pending, cancel) = (Arc::new(Pending::default()), CancelToken::new());
        let (one, two) = (pending.open(1, None, false).unwrap(), pending.open(2, None, false).unwrap());
        pending.settle(1, "a".into());
        assert!(pending.close(&Gone::Lost("x".into())));
        assert!(!pending.close(&Gone::Closed));
        assert_eq!(frame(&one, &cancel), "a");
        assert!(matches!(two.next(&scope(&cancel), &SystemClock, None), Next::Gone(Gone::Lost(_))));
        assert_eq!(pending.open(3, None, false).err(), Some(Gone::Lost("x".into())));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the race needs a second thread")]
    fn a_cancel_ends_a_wait() {
        let (pending, cancel) = (Arc::new(Pending::default()), Arc::new(CancelToken::new()));
        let ticket = pending.open(1, None, false).unwrap();
        ticket.hook(&cancel).unwrap();
        let there = cancel.clone();
        let racer = std::thread::spawn(move || there.cancel(Why::Host));
        let next = ticket.next(&scope(&cancel), &SystemClock, None);
        assert!(matches!(next, Next::Cancelled(Why::Host)), "{next:?}");
        assert!(racer.join().unwrap());
        let refused = pending.open(2, None, false).unwrap();
        assert!(refused.hook(&cancel).is_err());
    }
}
