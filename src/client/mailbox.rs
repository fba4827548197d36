//! A client's events, in order, for its handlers: bounded, with coalescing, delivered one at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::client::event::{Event, EventKind, Handler, Source};
use crate::client::pool::Pool;
use crate::client::queue::{Queue, as_callback};
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};

/// Events delivered in one go before others of the pool or queue get their turn.
const BATCH: usize = 64;

/// The texts of waiting events that may give way; beyond, they do. Chosen so that one large message always fits.
const MOST_BYTES: usize = 64 << 20;

/// Who delivers.
#[derive(Clone)]
pub(crate) enum Outlet {
    /// The library's dispatcher threads.
    Library(Arc<Pool>),
    /// The host, in its manual queue.
    Manual(Arc<Queue>),
}

/// The handlers of a client: one per kind, and one for the rest.
#[derive(Default)]
struct Handlers {
    by_kind: HashMap<EventKind, Arc<dyn Handler>>,
    any: Option<Arc<dyn Handler>>,
    frozen: bool,
}

impl Handlers {
    fn of(&self, kind: EventKind) -> Option<&Arc<dyn Handler>> {
        self.by_kind.get(&kind).or(self.any.as_ref())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Nothing more comes; what is here is still delivered.
    Ending,
    /// The last handler is gone.
    Ended,
}

/// Where a mailbox stands after a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There may be more: whoever delivers schedules it again.
    More,
    /// Nothing is left for now.
    Idle,
    /// Its last handler is gone.
    Ended,
}

struct State {
    events: VecDeque<Arc<Event>>,
    /// The number of the first event in `events`; numbers never repeat.
    first: u64,
    latest: HashMap<(EventKind, Source), u64>,
    /// Somebody delivers, or is about to.
    scheduled: bool,
    phase: Phase,
    /// The texts of those events that may give way.
    bytes: usize,
    delivered: u64,
    coalesced: u64,
    dropped: u64,
}

/// The counters of a mailbox.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub queued: usize,
    pub delivered: u64,
    pub coalesced: u64,
    pub dropped: u64,
}

/// The mailbox of one client.
pub(crate) struct Mailbox {
    outlet: Mutex<Outlet>,
    limit: usize,
    handlers: Mutex<Handlers>,
    state: Mutex<State>,
    ended: Condvar,
}

impl Mailbox {
    pub(crate) fn new(outlet: Outlet, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            outlet: Mutex::new(outlet),
            limit,
            handlers: Mutex::default(),
            state: Mutex::new(State {
                events: VecDeque::new(),
                first: 0,
                latest: HashMap::new(),
                scheduled: false,
                bytes: 0,
                phase: Phase::Running,
                delivered: 0,
                coalesced: 0,
                dropped: 0,
            }),
            ended: Condvar::new(),
        })
    }

    /// Sets the handler of a kind (`None`: of all kinds without one), before the mailbox is frozen.
    pub(crate) fn set_handler(&self, kind: Option<EventKind>, handler: Option<Arc<dyn Handler>>) -> Result<()> {
        let mut handlers = self.handlers.lock();
        if handlers.frozen {
            drop(handlers);
            return Err(Error::new(Kind::State, "handlers are registered before the client is opened"));
        }
        let before = match (kind, handler) {
            (Some(kind), Some(handler)) => handlers.by_kind.insert(kind, handler),
            (Some(kind), None) => handlers.by_kind.remove(&kind),
            (None, handler) => std::mem::replace(&mut handlers.any, handler),
        };
        drop(handlers);
        // The replaced handler's destructor is the host's code: it runs outside the lock.
        drop(before);
        Ok(())
    }

    /// Gives the events to another outlet; before the mailbox is frozen.
    pub(crate) fn set_outlet(self: &Arc<Self>, outlet: Outlet) -> Result<()> {
        if self.handlers.lock().frozen {
            return Err(Error::new(Kind::State, "the queue is set before the client is opened"));
        }
        if let Outlet::Manual(queue) = &outlet {
            queue.attach(self);
        }
        *self.outlet.lock() = outlet;
        Ok(())
    }

    /// No handler may be registered from now on.
    pub(crate) fn freeze(&self) {
        self.handlers.lock().frozen = true;
    }

    /// True where somebody would hear of this kind.
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.handlers.lock().of(kind).is_some()
    }

    /// True where this very kind has a handler (the one for the rest does not count).
    pub(crate) fn has_own(&self, kind: EventKind) -> bool {
        self.handlers.lock().by_kind.contains_key(&kind)
    }

    /// The manual queue, where the host delivers.
    pub(crate) fn queue(&self) -> Option<Arc<Queue>> {
        match &*self.outlet.lock() {
            Outlet::Library(_) => None,
            Outlet::Manual(queue) => Some(queue.clone()),
        }
    }

    /// Takes an event in. Never blocks, never calls a handler.
    pub(crate) fn post(self: &Arc<Self>, event: Event) {
        if !self.wants(event.kind) {
            return;
        }
        let schedule = {
            let mut state = self.state.lock();
            if state.phase != Phase::Running {
                return;
            }
            if !state.take_in(Arc::new(event), self.limit) {
                return;
            }
            !std::mem::replace(&mut state.scheduled, true)
        };
        if schedule {
            self.schedule();
        }
    }

    /// Nothing more comes. What is here is delivered; then the handlers are dropped, and waiters are told.
    pub(crate) fn finish(self: &Arc<Self>) {
        let schedule = {
            let mut state = self.state.lock();
            if state.phase != Phase::Running {
                return;
            }
            state.phase = Phase::Ending;
            !std::mem::replace(&mut state.scheduled, true)
        };
        if schedule {
            self.schedule();
        }
    }

    /// True once the last handler is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().phase == Phase::Ended
    }

    /// Waits until the last handler is gone; false where the deadline came first.
    pub(crate) fn wait_ended(&self, deadline: Deadline) -> bool {
        let mut state = self.state.lock();
        while state.phase != Phase::Ended {
            if !deadline.wait(&self.ended, &mut state) {
                return state.phase == Phase::Ended;
            }
        }
        true
    }

    pub(crate) fn counters(&self) -> Counters {
        let state = self.state.lock();
        Counters {
            queued: state.events.len(),
            delivered: state.delivered,
            coalesced: state.coalesced,
            dropped: state.dropped,
        }
    }

    fn schedule(self: &Arc<Self>) {
        let outlet = self.outlet.lock().clone();
        match outlet {
            Outlet::Library(pool) => {
                let mailbox = self.clone();
                let submitted = pool.submit(Box::new(move || {
                    if mailbox.deliver_batch().1 == Turn::More {
                        mailbox.schedule();
                    }
                }));
                if submitted.is_err() {
                    // The library is shut down, or the system refuses a thread: nobody can deliver any more.
                    self.discard();
                }
            }
            Outlet::Manual(queue) => {
                if !queue.make_ready(self.clone()) {
                    self.discard();
                }
            }
        }
    }

    /// Delivers some events on this thread: how many, and what then.
    pub(crate) fn deliver_batch(self: &Arc<Self>) -> (usize, Turn) {
        for count in 0..BATCH {
            let event = {
                let mut state = self.state.lock();
                match state.take_out() {
                    Some(event) => event,
                    None => {
                        let ending = state.phase == Phase::Ending;
                        state.scheduled = ending;
                        drop(state);
                        if ending {
                            self.discard();
                            return (count, Turn::Ended);
                        }
                        return (count, Turn::Idle);
                    }
                }
            };
            let handler = self.handlers.lock().of(event.kind).cloned();
            if let Some(handler) = handler
                && let Some(event) = event.current()
            {
                as_callback(|| handler.handle(&event));
            }
        }
        (BATCH, Turn::More)
    }

    /// Drops what is here and every handler: the end.
    pub(crate) fn discard(&self) {
        let handlers = std::mem::take(&mut *self.handlers.lock());
        let events = std::mem::take(&mut self.state.lock().events);
        as_callback(|| {
            drop(events);
            drop(handlers);
        });
        self.handlers.lock().frozen = true;
        self.state.lock().phase = Phase::Ended;
        self.ended.notify_all();
        if let Some(queue) = self.queue() {
            queue.kick();
        }
    }
}

impl State {
    /// False where the event took an older one's place, or was dropped.
    fn take_in(&mut self, event: Arc<Event>, limit: usize) -> bool {
        let next = self.first + self.events.len() as u64;
        let Some(source) = event.source() else {
            self.events.push_back(event);
            return true;
        };
        let key = (event.kind, source);
        self.bytes += event.bytes();
        if self.events.len() >= limit || self.bytes > MOST_BYTES {
            let older = self.latest.get(&key).and_then(|number| number.checked_sub(self.first));
            if let Some(slot) = older.and_then(|at| self.events.get_mut(at as usize)) {
                let older = std::mem::replace(slot, event);
                self.bytes -= older.bytes();
                self.coalesced += 1;
                return false;
            }
            // A flood from ever new sources: keep room for what must not be lost.
            if self.events.len() >= limit.saturating_mul(2) || self.bytes > MOST_BYTES {
                self.bytes -= event.bytes();
                self.dropped += 1;
                return false;
            }
        }
        self.latest.insert(key, next);
        self.events.push_back(event);
        true
    }

    fn take_out(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        if let Some(source) = event.source() {
            self.bytes -= event.bytes();
            let key = (event.kind, source);
            if self.latest.get(&key) == Some(&self.first) {
                self.latest.remove(&key);
            }
        }
        self.first += 1;
        self.delivered += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::Json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Record(Mutex<Vec<String>>, Arc<AtomicUsize>);
    impl Handler for Record {
        fn handle(&self, event: &Arc<Event>) {
            self.0
                .lock()
                .push(event.json.as_ref().map_or_else(|| format!("{:?}", event.kind), |json| json.text().into()));
        }
    }
    impl Drop for Record {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn progress(call: i64, text: &str) -> Event {
        Event { call_id: Some(call), json: Some(Json::trusted(text)), ..Event::new(EventKind::Progress) }
    }

    fn with_limit(limit: usize) -> (Arc<Queue>, Arc<Mailbox>, Arc<Record>, Arc<AtomicUsize>) {
        let queue = Queue::new().unwrap();
        let mailbox = Mailbox::new(Outlet::Manual(queue.clone()), limit);
        let dropped = Arc::new(AtomicUsize::new(0));
        let record = Arc::new(Record(Mutex::default(), dropped.clone()));
        mailbox.set_handler(None, Some(record.clone())).unwrap();
        (queue, mailbox, record, dropped)
    }

    #[test]
    fn a_full_mailbox_keeps_the_latest_of_a_source_and_drops_nothing_that_matters() {
        let (queue, mailbox, record, _) = with_limit(3);
        for text in ["1", "2", "3", "4", "5"] {
            mailbox.post(progress(7, text));
        }
        mailbox.post(progress(8, "other"));
        mailbox.post(Event::new(EventKind::TaskDone));
        queue.dispatch(Deadline::Never).unwrap();
        assert_eq!(*record.0.lock(), ["1", "2", "5", "other", "TaskDone"]);
        assert_eq!(mailbox.counters().coalesced, 2);
    }

    #[test]
    fn a_flood_of_new_sources_is_bounded() {
        let (_queue, mailbox, _, _) = with_limit(3);
        (0..100).for_each(|call| mailbox.post(progress(call, "x")));
        (0..10).for_each(|_| mailbox.post(Event::new(EventKind::TaskCreated)));
        let counters = mailbox.counters();
        assert_eq!((counters.queued, counters.dropped), (16, 94));
    }

    #[test]
    fn large_texts_are_bounded_by_their_bytes() {
        let (_queue, mailbox, _, _) = with_limit(1000);
        let megabyte = "x".repeat(1 << 20);
        (0..100).for_each(|call| mailbox.post(progress(call, &megabyte)));
        let counters = mailbox.counters();
        assert_eq!((counters.queued, counters.dropped), (64, 36));
        mailbox.post(progress(3, &megabyte));
        assert_eq!(mailbox.counters().coalesced, 1);
        mailbox.post(Event::new(EventKind::TaskDone));
        assert_eq!(mailbox.counters().queued, 65);
    }

    #[test]
    fn the_handler_is_dropped_once_after_the_last_event() {
        let (queue, mailbox, record, dropped) = with_limit(3);
        mailbox.post(Event::new(EventKind::TaskCreated));
        mailbox.finish();
        mailbox.post(Event::new(EventKind::TaskDone));
        drop(record);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        assert!(!mailbox.has_ended());
        assert_eq!(queue.dispatch(Deadline::Never).unwrap(), 1);
        assert!(mailbox.has_ended());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_queue_that_closes_drops_the_handlers_of_a_quiet_mailbox_too() {
        let (queue, dropped) = (Queue::new().unwrap(), Arc::new(AtomicUsize::new(0)));
        let mailbox = Mailbox::new(Outlet::Manual(Queue::new().unwrap()), 3);
        mailbox.set_outlet(Outlet::Manual(queue.clone())).unwrap();
        mailbox.set_handler(None, Some(Arc::new(Record(Mutex::default(), dropped.clone())))).unwrap();
        queue.close();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // The client goes on; what it has to tell is nobody's any more.
        mailbox.post(Event::new(EventKind::TaskDone));
        mailbox.finish();
        assert!(mailbox.has_ended());
    }
}
