//! A world without threads: scripted servers, a host that keeps a diary, and a clock that jumps.

#![allow(clippy::wildcard_enum_match_arm, reason = "a diary spells out what the tests read")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::cancel::CancelToken;
use crate::clock::{Clock, ManualClock};
use crate::error::{Error, Kind, Result};
use crate::protocol::input::InputAnswer;
use crate::protocol::json::Json;
use crate::protocol::task::Task;
use crate::tasks::driver::{Engine, Group};
use crate::tasks::entry::{Held, Links, TaskEntry};
use crate::tasks::ledger::{Ledger, MemoryLedger, Record, TaskAbout, TaskKey};
use crate::tasks::pool::Flight;
use crate::tasks::snapshot::Snapshot;
use crate::tasks::{Announcement, EndReason, FollowOptions, TaskHost, TaskWire};

/// What one task does at its server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) interval: Option<Duration>,
    /// Completed after so long.
    pub(super) work: Duration,
    /// The seed is terminal and whole.
    pub(super) whole_seed: bool,
    /// Each nth poll is reset; 0 is never.
    pub(super) fail_each: usize,
    /// Every poll is reset until then.
    pub(super) fail_until: Duration,
    /// Each nth poll panics; 0 is never.
    pub(super) panic_each: usize,
    /// Asks a question "q" from then on, until `lag` polls after the answer.
    pub(super) ask_at: Option<Duration>,
    pub(super) lag: usize,
    /// What goes wrong with a poll: the task's id, which poll it is, and how long the task has been there.
    pub(super) trouble: fn(&str, usize, Duration) -> Option<Result<Task>>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            interval: None,
            work: Duration::from_secs(10),
            whole_seed: false,
            fail_each: 0,
            fail_until: Duration::ZERO,
            panic_each: 0,
            ask_at: None,
            lag: 0,
            trouble: |_, _, _| None,
        }
    }
}

struct Job {
    plan: Plan,
    begun: Instant,
    polls: Vec<Instant>,
    answered: Option<usize>,
    updates: usize,
    cancels: usize,
}

/// A scripted server.
pub(super) struct Server {
    pub(super) origin: String,
    clock: Arc<ManualClock>,
    jobs: Mutex<HashMap<String, Job>>,
}

impl Server {
    pub(super) fn seed(&self, id: &str, plan: Plan) -> Task {
        let now = self.clock.now();
        let job = Job { plan, begun: now, polls: Vec::new(), answered: None, updates: 0, cancels: 0 };
        self.jobs.lock().entry(id.to_owned()).or_insert(job);
        let state = if plan.whole_seed { r#""status":"completed","result":{}"# } else { r#""status":"working""# };
        read(id, state, plan.interval)
    }

    pub(super) fn polls(&self, id: &str) -> usize {
        self.jobs.lock()[id].polls.len()
    }

    pub(super) fn all_polls(&self) -> usize {
        self.jobs.lock().values().map(|job| job.polls.len()).sum()
    }

    pub(super) fn updates(&self, id: &str) -> usize {
        self.jobs.lock()[id].updates
    }

    pub(super) fn cancels(&self, id: &str) -> usize {
        self.jobs.lock()[id].cancels
    }

    fn gaps(&self) -> Vec<(Duration, Duration)> {
        let jobs = self.jobs.lock();
        let gaps = jobs.values().flat_map(|job| {
            let told = job.plan.interval.unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(100));
            let times = std::iter::once(job.begun).chain(job.polls.iter().copied());
            let pairs: Vec<_> = times.clone().zip(times.skip(1)).map(|(a, b)| (b - a, told)).collect();
            pairs
        });
        gaps.collect()
    }

    pub(super) fn check_never_early(&self) {
        for (gap, told) in self.gaps() {
            assert!(gap >= told, "a poll after {gap:?}, told {told:?}");
        }
    }

    pub(super) fn longest_gap(&self) -> Duration {
        self.gaps().into_iter().map(|(gap, _)| gap).max().unwrap_or_default()
    }
}

pub(super) fn read(id: &str, state: &str, interval: Option<Duration>) -> Task {
    let interval = interval.map_or(String::new(), |i| format!(r#","pollIntervalMs":{}"#, i.as_millis()));
    Task::read(&Json::trusted(format!(r#"{{"taskId":"{id}",{state}{interval}}}"#))).unwrap()
}

impl TaskWire for Server {
    fn get(&self, id: &str, _: Option<&Arc<Task>>, cancel: &CancelToken) -> Result<Arc<Task>> {
        if cancel.cancelled().is_some() {
            return Err(Error::new(Kind::Cancelled, "cancelled"));
        }
        let mut jobs = self.jobs.lock();
        let now = self.clock.now();
        let job = jobs.get_mut(id).unwrap();
        job.polls.push(now);
        let (turn, life, plan) = (job.polls.len(), now - job.begun, job.plan);
        assert!(plan.panic_each == 0 || turn % plan.panic_each != 0, "the plan says so");
        let fails = plan.fail_each != 0 && turn % plan.fail_each == usize::from(plan.fail_each > 1);
        if fails || life < plan.fail_until {
            return Err(Error::new(Kind::Io, "reset"));
        }
        if let Some(trouble) = (plan.trouble)(id, turn, life) {
            return trouble.map(Arc::new);
        }
        let open = plan.ask_at.is_some_and(|at| life >= at) && job.answered.is_none_or(|at| turn <= at + plan.lag);
        let state = if life >= plan.work {
            r#""status":"completed","result":{"content":[]}"#
        } else if open {
            r#""status":"input_required","inputRequests":{"q":{"method":"roots/list"}}"#
        } else {
            r#""status":"working""#
        };
        Ok(Arc::new(read(id, state, plan.interval)))
    }

    fn update(&self, id: &str, _answers: &[InputAnswer], _cancel: &CancelToken) -> Result<()> {
        let mut jobs = self.jobs.lock();
        let job = jobs.get_mut(id).unwrap();
        job.updates += 1;
        job.answered = Some(job.polls.len());
        Ok(())
    }

    fn cancel(&self, id: &str, _cancel: &CancelToken) -> Result<()> {
        self.jobs.lock().get_mut(id).unwrap().cancels += 1;
        Ok(())
    }

    fn origin(&self) -> &str {
        &self.origin
    }
}

/// A memory ledger that can be broken.
#[derive(Default)]
pub(super) struct Shelf {
    book: MemoryLedger,
    broken: std::sync::atomic::AtomicBool,
}

impl Shelf {
    pub(super) fn break_down(&self) {
        self.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Ledger for Shelf {
    fn put(&self, record: Record) -> Result<()> {
        if self.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::new(Kind::Internal, "the disk is full"));
        }
        self.book.put(record)
    }

    fn share(&self, key: &TaskKey, last: &Arc<Task>) {
        self.book.share(key, last);
    }

    fn find(&self, key: &TaskKey) -> Result<Option<Record>> {
        self.book.find(key)
    }

    fn outstanding(&self, server: &str) -> Result<Vec<Record>> {
        self.book.outstanding(server)
    }

    fn acknowledge(&self, key: &TaskKey) -> Result<bool> {
        self.book.acknowledge(key)
    }

    fn remove(&self, key: &TaskKey) -> Result<bool> {
        self.book.remove(key)
    }

    fn purge(&self, server: &str, before: SystemTime) -> Result<usize> {
        self.book.purge(server, before)
    }
}

/// A host that writes down what it hears, and looks into the ledger each time.
pub(super) struct Diary {
    ledger: Arc<Shelf>,
    pages: Mutex<HashMap<String, Vec<String>>>,
    answers: Mutex<Option<HashMap<String, Arc<TaskEntry>>>>,
    panics: Mutex<Option<String>>,
    /// What was announced before it was stored. Kept, not asserted on the spot: the engine catches a host's panics.
    faults: Mutex<Vec<String>>,
}

impl Diary {
    pub(super) fn story(&self, id: &str) -> Vec<String> {
        self.pages.lock().get(id).cloned().unwrap_or_default()
    }

    pub(super) fn ended(&self, reason: &str) -> usize {
        let last = format!("Ended({reason})");
        self.pages.lock().values().filter(|page| page.last() == Some(&last)).count()
    }

    /// Every task: created first, ended once and last.
    pub(super) fn check_stories(&self, tasks: usize) {
        let pages = self.pages.lock();
        assert_eq!(pages.len(), tasks);
        for (id, page) in pages.iter() {
            assert_eq!(page[0], "Created", "{id} {page:?}");
            let ends = page.iter().filter(|line| line.starts_with("Ended")).count();
            assert!(ends == 1 && page.last().is_some_and(|line| line.starts_with("Ended")), "{id} {page:?}");
            assert!(page.iter().filter(|line| *line == "Ask(q)").count() <= 1, "{id} {page:?}");
        }
    }

    pub(super) fn answer_in_callback(&self) {
        *self.answers.lock() = Some(HashMap::new());
    }

    pub(super) fn know(&self, id: &str, entry: &Arc<TaskEntry>) {
        if let Some(known) = &mut *self.answers.lock() {
            known.insert(id.to_owned(), entry.clone());
        }
    }

    pub(super) fn panic_at(&self, line: &str) {
        *self.panics.lock() = Some(line.to_owned());
    }

    /// The ledger comes before the host: what is announced is what a crash right now would leave behind.
    fn check_ledger(&self, snapshot: &Snapshot, what: &Announcement) {
        if self.ledger.broken.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let key = TaskKey { server: snapshot.about().server.clone(), id: snapshot.task_id().into() };
        let record = self.ledger.find(&key).unwrap();
        let stored = match what {
            Announcement::Ended(EndReason::Closed) => true,
            Announcement::Ended(reason) => record.and_then(|record| record.end) == Some(*reason),
            Announcement::Status => {
                record.and_then(|record| record.last).map(|last| last.status) == Some(snapshot.status())
            }
            _ => record.is_some(),
        };
        if !stored {
            self.faults.lock().push(format!("{}: {what:?}", snapshot.task_id()));
        }
    }
}

impl TaskHost for Diary {
    fn announce(&self, _entry: &Arc<TaskEntry>, snapshot: &Arc<Snapshot>, what: Announcement) {
        self.check_ledger(snapshot, &what);
        let line = match &what {
            Announcement::Degraded(_) => "Degraded".to_owned(),
            Announcement::Unstored(_) => "Unstored".to_owned(),
            Announcement::Ask(request) => format!("Ask({})", request.key),
            Announcement::Withdrawn(key) => format!("Withdrawn({key})"),
            other => format!("{other:?}"),
        };
        self.pages.lock().entry(snapshot.task_id().to_owned()).or_default().push(line.clone());
        assert!(self.panics.lock().as_ref() != Some(&line), "the test says so");
        if let Announcement::Ask(request) = what {
            let entry = self.answers.lock().as_ref().and_then(|known| known.get(snapshot.task_id()).cloned());
            if let Some(entry) = entry {
                entry.answer(vec![InputAnswer { key: request.key, response: Json::trusted("{}") }]);
            }
        }
    }
}

/// Servers, host, ledger and engine, and the time between them.
pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    pub(super) engine: Arc<Engine>,
    pub(super) group: Arc<Group>,
    pub(super) host: Arc<Diary>,
    pub(super) ledger: Arc<Shelf>,
    pub(super) options: FollowOptions,
    pub(super) most_flying: usize,
    latency: HashMap<String, Duration>,
    flying: Vec<(Instant, Flight)>,
    start: Instant,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        let engine = Engine::by_hand(clock.clone(), seed);
        let ledger = Arc::new(Shelf { book: MemoryLedger::keeping(20_000), broken: Default::default() });
        Self {
            start: clock.now(),
            group: engine.group().unwrap(),
            host: diary(&ledger),
            clock,
            engine,
            ledger,
            options: options(),
            most_flying: 0,
            latency: HashMap::new(),
            flying: Vec::new(),
        }
    }

    pub(super) fn server(&mut self, origin: &str, latency: Duration) -> Arc<Server> {
        self.latency.insert(origin.to_owned(), latency);
        let origin = origin.to_owned();
        Arc::new(Server { origin, clock: self.clock.clone(), jobs: Mutex::default() })
    }

    pub(super) fn links(&self, server: &Arc<Server>) -> Links {
        Links {
            wire: server.clone(),
            host: self.host.clone(),
            ledger: self.ledger.clone(),
            options: self.options.clone(),
        }
    }

    pub(super) fn hold(&self, server: &Arc<Server>, id: &str, plan: Plan) -> Held {
        self.group.follow(server.seed(id, plan), about(&server.origin), self.links(server)).unwrap()
    }

    pub(super) fn follow(&self, server: &Arc<Server>, id: &str, plan: Plan) -> Arc<TaskEntry> {
        self.hold(server, id, plan).start()
    }

    pub(super) fn adopt(&self, server: &Arc<Server>, id: &str) -> Arc<TaskEntry> {
        self.group.adopt(id, about(&server.origin), self.links(server)).unwrap().start()
    }

    /// The process dies and another one begins: only the ledger and the servers stay.
    pub(super) fn restart(&mut self) {
        self.flying.clear();
        self.engine = Engine::by_hand(self.clock.clone(), 99);
        self.group = self.engine.group().unwrap();
        self.host = diary(&self.ledger);
    }

    /// Lets time pass up to this moment of the world, from one thing that happens to the next.
    pub(super) fn run(&mut self, until: Duration) {
        let until = self.start + until;
        loop {
            let next = self.settle();
            let landing = self.flying.iter().map(|(at, _)| *at).min();
            let now = self.clock.now();
            match [next, landing].into_iter().flatten().min() {
                Some(at) if at <= until => self.clock.advance(at.saturating_duration_since(now)),
                _ => {
                    self.clock.advance(until.saturating_duration_since(now));
                    return;
                }
            }
        }
    }

    /// Does all that happens at this moment; returns when the engine wants to be called again.
    fn settle(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        loop {
            let flying = std::mem::take(&mut self.flying);
            let (landed, flying): (Vec<_>, Vec<_>) = flying.into_iter().partition(|(at, _)| *at <= now);
            self.flying = flying;
            for (_, mut flight) in landed {
                flight.run();
                self.engine.pool().finish(&flight, std::time::Duration::ZERO);
            }
            let next = self.engine.step(now);
            let before = self.flying.len();
            while let Some(flight) = self.engine.pool().take() {
                self.flying.push((now + self.latency[flight.origin()], flight));
            }
            self.most_flying = self.most_flying.max(self.flying.len());
            let landing_now = self.flying.iter().any(|(at, _)| *at <= now);
            if before == self.flying.len() || !landing_now {
                return next;
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(*self.host.faults.lock(), Vec::<String>::new(), "announced before it was stored");
        }
    }
}

fn diary(ledger: &Arc<Shelf>) -> Arc<Diary> {
    let (pages, answers, panics, faults) = Default::default();
    Arc::new(Diary { ledger: ledger.clone(), pages, answers, panics, faults })
}

pub(super) fn options() -> FollowOptions {
    FollowOptions { auto_poll: true, push: true, min_poll: Duration::ZERO, stop_at_ttl: false, follow_cancel: true }
}

pub(super) fn about(server: &str) -> TaskAbout {
    TaskAbout {
        server: server.into(),
        tool: "dig".into(),
        tool_call_id: None,
        host: None,
        arguments_digest: None,
        keep_result: true,
    }
}
