//! Polls that hold no thread: their places, their limits, and who does what is left to do.
#![allow(clippy::disallowed_methods, reason = "answers come on threads of their own")]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use super::world::{World, about, read};
use super::*;
use crate::tasks::entry::Links;
use crate::tasks::queue::MAX_PER_ORIGIN;
use crate::tasks::{Done, Finish, OnItsWay, Reply, TaskWire};

const LIMIT: Duration = Duration::from_secs(30);

type Bag = Arc<Mutex<BTreeMap<u64, (String, Done)>>>;

/// A channel's end: takes letters, and gives the answers when the test says so.
struct Post {
    clock: Arc<dyn Clock>,
    out: Bag,
    sent: AtomicUsize,
    /// How it takes letters now.
    mode: Mutex<Mode>,
    /// Round trips by workers.
    asked: Mutex<Vec<String>>,
    expired: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Taken,
    AnsweredAtOnce,
    Refused,
    AnsweredAndRefused,
    Panics,
}

struct Way {
    number: u64,
    out: Bag,
    deadline: Deadline,
    expired: Arc<AtomicUsize>,
}

impl OnItsWay for Way {
    fn deadline(&self) -> Deadline {
        self.deadline
    }

    fn expire(&self) {
        let taken = self.out.lock().remove(&self.number);
        if let Some((_, done)) = taken {
            self.expired.fetch_add(1, Ordering::AcqRel);
            let late: Finish = Box::new(|_| Err(Error::new(Kind::Timeout, "no answer in time")));
            done(Reply::Finish(late));
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        drop(self.out.lock().remove(&self.number));
    }
}

fn working(id: &str) -> Reply {
    Reply::Task(Box::new(read(id, r#""status":"working""#, None)))
}

fn completed(id: &str) -> Reply {
    Reply::Task(Box::new(read(id, r#""status":"completed","result":{"content":[]}"#, None)))
}

impl Post {
    fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let mode = Mutex::new(Mode::Taken);
        let (out, sent, asked, expired) = Default::default();
        Arc::new(Self { clock, out, sent, mode, asked, expired })
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }

    fn out(&self) -> usize {
        self.out.lock().len()
    }

    /// Answers the oldest letter. On the calling thread, as a channel's reader would.
    fn answer(&self, reply: impl FnOnce(&str) -> Reply) -> Option<String> {
        let (_, (id, done)) = self.out.lock().pop_first()?;
        done(reply(&id));
        Some(id)
    }

    fn answer_all(&self, reply: impl Fn(&str) -> Reply) -> Vec<String> {
        std::iter::from_fn(|| self.answer(&reply)).collect()
    }
}

impl TaskWire for Post {
    fn get(&self, id: &str, _: &CancelToken) -> Result<Task> {
        self.asked.lock().push(id.to_owned());
        Ok(read(id, r#""status":"working""#, None))
    }

    fn may_begin(&self) -> bool {
        true
    }

    fn begin(&self, id: &str, done: Done) -> Option<Arc<dyn OnItsWay>> {
        let mode = *self.mode.lock();
        assert!(mode != Mode::Panics, "the test says so");
        if mode == Mode::Refused {
            return None;
        }
        let number = self.sent.fetch_add(1, Ordering::AcqRel) as u64;
        if matches!(mode, Mode::AnsweredAtOnce | Mode::AnsweredAndRefused) {
            done(working(id));
        } else {
            self.out.lock().insert(number, (id.to_owned(), done));
        }
        let deadline = Deadline::after(self.clock.now(), Some(LIMIT), Budget::Total);
        let way = Way { number, out: self.out.clone(), deadline, expired: self.expired.clone() };
        (mode != Mode::AnsweredAndRefused).then(|| Arc::new(way) as Arc<dyn OnItsWay>)
    }

    fn update(&self, _: &str, _: &[InputAnswer], _: &CancelToken) -> Result<()> {
        Ok(())
    }

    fn cancel(&self, _: &str, _: &CancelToken) -> Result<()> {
        Ok(())
    }

    fn origin(&self) -> &str {
        "stdio:post"
    }
}

fn follow(world: &World, group: &Group, post: &Arc<Post>, id: &str) -> Arc<TaskEntry> {
    let links = Links {
        wire: post.clone(),
        host: world.host.clone(),
        ledger: world.ledger.clone(),
        options: world.options.clone(),
    };
    group.follow(read(id, r#""status":"working""#, None), about("stdio:post"), links).unwrap().start()
}

/// What falls due within these seconds gets its turn.
fn pass(world: &World, seconds: u64) -> Option<Duration> {
    for _ in 0..seconds {
        world.clock.advance(SECOND);
        world.engine.step(world.clock.now());
    }
    world.engine.watch_letters()
}

fn no_errand(world: &World) {
    assert!(world.engine.pool().take().is_none(), "no worker is wanted");
}

/// One worker's round trip.
fn work(world: &World) -> bool {
    let Some(mut flight) = world.engine.pool().take() else { return false };
    flight.run();
    world.engine.pool().finish(&flight, Duration::ZERO);
    true
}

#[test]
fn a_thousand_tasks_are_polled_without_a_worker_and_sixteen_at_once() {
    let world = World::new(1);
    let post = Post::new(world.clock.clone());
    let entries: Vec<_> = (0..1000).map(|n| follow(&world, &world.group, &post, &format!("t{n}"))).collect();
    for round in 0..5 {
        pass(&world, 2);
        let mut polled = Vec::new();
        while post.out() > 0 {
            assert!(post.out() <= MAX_PER_ORIGIN);
            polled.extend(post.answer(working));
        }
        polled.sort();
        polled.dedup();
        assert_eq!(polled.len(), 1000, "round {round}");
        no_errand(&world);
    }
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
    // What is new is for a worker, and keeps its place until the task knows.
    pass(&world, 2);
    post.answer_all(completed);
    assert_eq!((post.out(), world.host.ended("Completed")), (0, 0));
    assert!(!world.engine.letters().wait_quiet(Duration::ZERO));
    assert!(work(&world));
    assert_eq!((post.out(), world.host.ended("Completed")), (1, 1));
    loop {
        post.answer_all(completed);
        if !work(&world) {
            break;
        }
    }
    assert_eq!(world.host.ended("Completed"), 1000);
    assert!(entries.iter().all(|entry| entry.has_ended()));
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
}

#[test]
fn clients_of_one_server_take_turns_and_a_closed_one_leaves_its_places() {
    let world = World::new(1);
    let (post, other) = (Post::new(world.clock.clone()), world.engine.group().unwrap());
    for n in 0..50 {
        follow(&world, &world.group, &post, &format!("a{n}"));
    }
    follow(&world, &other, &post, "b");
    pass(&world, 2);
    assert_eq!(post.out(), MAX_PER_ORIGIN);
    let first: Vec<String> = (0..2 * MAX_PER_ORIGIN).filter_map(|_| post.answer(working)).collect();
    assert!(first.iter().any(|id| id == "b"), "{first:?}");
    pass(&world, 2);
    world.group.close();
    assert_eq!(world.host.ended("Closed"), 50);
    assert_eq!(post.answer_all(working), ["b"], "the others were given up without a word");
    no_errand(&world);
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
}

#[test]
fn what_cannot_be_sent_is_asked_by_workers_no_more_at_once() {
    let world = World::new(1);
    let post = Post::new(world.clock.clone());
    for n in 0..100 {
        follow(&world, &world.group, &post, &format!("t{n}"));
    }
    post.set(Mode::Refused);
    pass(&world, 2);
    let mut flights: Vec<_> = std::iter::from_fn(|| world.engine.pool().take()).collect();
    assert_eq!(flights.len(), MAX_PER_ORIGIN);
    // There is room again: those that wait are sent as letters.
    post.set(Mode::Taken);
    for flight in &mut flights {
        flight.run();
        world.engine.pool().finish(flight, Duration::ZERO);
    }
    assert_eq!((post.asked.lock().len(), post.out()), (MAX_PER_ORIGIN, MAX_PER_ORIGIN));
    assert_eq!(post.answer_all(working).len(), 100 - MAX_PER_ORIGIN);
    no_errand(&world);
}

#[test]
fn a_letter_whose_time_is_up_is_a_failed_poll_and_its_place_is_free() {
    let world = World::new(1);
    let post = Post::new(world.clock.clone());
    let entry = follow(&world, &world.group, &post, "t");
    let left = pass(&world, 2).unwrap();
    assert!(left <= LIMIT && left >= LIMIT - 2 * SECOND, "{left:?}");
    pass(&world, LIMIT.as_secs() - 3);
    no_errand(&world);
    pass(&world, 3);
    // A worker ends it, for the server is told; then one tells the task.
    assert!(work(&world) && work(&world));
    assert_eq!(post.expired.load(Ordering::Acquire), 1);
    assert_eq!(entry.snapshot().degraded().map(Error::kind), Some(Kind::Timeout));
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
    pass(&world, 5);
    post.answer(working).unwrap();
    assert!(work(&world), "that it answers again is news");
    assert!(entry.snapshot().degraded().is_none());
}

#[test]
fn an_answer_that_comes_before_the_time_is_up_was_looked_at_counts_once() {
    let world = World::new(1);
    let post = Post::new(world.clock.clone());
    let entry = follow(&world, &world.group, &post, "t");
    pass(&world, 2);
    pass(&world, LIMIT.as_secs() + 1);
    // The worker is on its way; the answer is quicker.
    post.answer(working).unwrap();
    assert!(work(&world));
    no_errand(&world);
    assert_eq!(post.expired.load(Ordering::Acquire), 0);
    assert!(entry.snapshot().degraded().is_none());
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
}

#[test]
fn an_answer_may_be_quicker_than_the_sending_and_a_panic_costs_one_poll() {
    let world = World::new(1);
    let post = Post::new(world.clock.clone());
    for n in 0..40 {
        follow(&world, &world.group, &post, &format!("t{n}"));
    }
    for mode in [Mode::AnsweredAtOnce, Mode::AnsweredAndRefused] {
        post.set(mode);
        let before = post.sent.load(Ordering::Acquire);
        pass(&world, 2);
        assert_eq!(post.sent.load(Ordering::Acquire) - before, 40);
        no_errand(&world);
        assert!(world.engine.letters().wait_quiet(Duration::ZERO));
    }
    post.set(Mode::Panics);
    pass(&world, 2);
    while work(&world) {}
    assert_eq!(post.asked.lock().len(), 40, "a worker asked");
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
}

#[test]
fn who_sends_stops_after_a_while_and_the_scheduler_goes_on() {
    let world = World::new(1);
    let post = Post::new(world.clock.clone());
    post.set(Mode::AnsweredAtOnce);
    for n in 0..500 {
        follow(&world, &world.group, &post, &format!("t{n}"));
    }
    world.clock.advance(2 * SECOND);
    // One thread brings all of them to their turn: each adds one and sends what may be sent.
    world.engine.step(world.clock.now());
    while world.engine.watch_letters() == Some(Duration::ZERO) {}
    assert_eq!(post.sent.load(Ordering::Acquire), 500);
    assert!(world.engine.letters().wait_quiet(Duration::ZERO));
}

#[test]
fn answers_limits_and_closes_race_and_no_place_is_lost() {
    for seed in 0..20u64 {
        let threads = Arc::new(super::threads::Threads::default());
        let mut world = World::new(seed);
        world.engine = Engine::new(world.clock.clone(), world.clock.clone(), threads, seed);
        world.group = world.engine.group().unwrap();
        let (other, post) = (world.engine.group().unwrap(), Post::new(world.clock.clone()));
        let entries: Vec<_> = (0..60).map(|n| follow(&world, &world.group, &post, &format!("a{n}"))).collect();
        let others: Vec<_> = (0..60).map(|n| follow(&world, &other, &post, &format!("b{n}"))).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..3u64 {
                let (post, over) = (&post, &over);
                scope.spawn(move || {
                    let chance = Chance::new(seed * 3 + reader);
                    while !over.load(Ordering::Acquire) {
                        let ends = chance.jitter().0.is_multiple_of(50);
                        if post.answer(|id| if ends { completed(id) } else { working(id) }).is_none() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let chance = Chance::new(seed);
            for _ in 0..200 {
                // Now and then so far that limits pass.
                let jump = if chance.jitter().0.is_multiple_of(10) { LIMIT } else { SECOND };
                world.clock.advance(jump);
                world.engine.nudge();
                std::thread::yield_now();
            }
            other.close();
            assert!(others.iter().all(|entry| entry.has_ended()));
            while !entries.iter().all(|entry| entry.has_ended()) {
                post.answer_all(completed);
                world.clock.advance(SECOND);
                world.engine.nudge();
                std::thread::yield_now();
            }
            over.store(true, Ordering::Release);
        });
        while !world.engine.letters().wait_quiet(SECOND) {}
        assert_eq!(post.out(), 0);
        assert!(world.engine.shutdown(Deadline::Never));
    }
}
