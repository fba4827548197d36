//! The engine with real threads and a clock that the test moves: every wait is for an event.
#![allow(clippy::disallowed_methods, reason = "the engine's own threads are what is tested")]

use std::sync::atomic::AtomicUsize;

use super::world::{Plan, World};
use super::*;
use crate::spawn::Job;
use crate::tasks::TaskWire as _;

/// Starts threads, counts those that live, and may refuse the first ones with a name.
#[derive(Default)]
pub(super) struct Threads {
    alive: Arc<AtomicUsize>,
    refuse: AtomicUsize,
}

impl Spawn for Threads {
    fn spawn(&self, name: &'static str, job: Job) -> Result<()> {
        let take = |left: usize| left.checked_sub(1);
        if name == "mcp-poll" && self.refuse.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
            return Err(Error::new(Kind::Memory, "no more threads"));
        }
        let alive = self.alive.clone();
        alive.fetch_add(1, Ordering::AcqRel);
        std::thread::spawn(move || {
            job();
            alive.fetch_sub(1, Ordering::AcqRel);
        });
        Ok(())
    }
}

fn threaded(refuse: usize) -> (World, Arc<Threads>) {
    let threads = Arc::new(Threads { refuse: AtomicUsize::new(refuse), ..Threads::default() });
    let mut world = World::new(1);
    world.engine = Engine::new(world.clock.clone(), world.clock.clone(), threads.clone(), 1);
    world.group = world.engine.group().unwrap();
    (world, threads)
}

/// Moves the clock and waits until the task is as wanted.
fn until_polled(world: &World, entry: &Arc<TaskEntry>, done: impl Fn(&crate::tasks::snapshot::Snapshot) -> bool) {
    world.clock.advance(2 * SECOND);
    world.engine.nudge();
    assert!(entry.wait_until(Deadline::Never, &CancelToken::new(), done).is_some());
}

#[test]
fn scheduler_and_workers_follow_tasks_and_shut_down() {
    let (mut world, threads) = threaded(0);
    let server = world.server("http://a", Duration::ZERO);
    let plan = Plan { work: SECOND, ..Plan::default() };
    let entries: Vec<_> = (0..200).map(|n| world.follow(&server, &format!("t{n}"), plan)).collect();
    for entry in &entries {
        until_polled(&world, entry, |snapshot| snapshot.has_ended());
    }
    world.follow(&server, "open", Plan { work: 10_000 * SECOND, ..Plan::default() });
    assert!(world.engine.shutdown(Deadline::Never));
    // Counted now: a wait may return before the event that says the same has run.
    assert_eq!(world.host.ended("Completed"), 200);
    assert_eq!(world.host.ended("Closed"), 1);
    assert_eq!(world.engine.followed(), 0);
    while threads.alive.load(Ordering::Acquire) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(world.engine.group().err().unwrap().message(), "the library is shut down");
    let seed = server.get("open", &CancelToken::new()).unwrap();
    assert!(world.group.follow(seed, about("http://a"), world.links(&server)).is_err());
}

#[test]
fn a_refused_thread_is_a_failed_attempt_and_no_lost_task() {
    let (mut world, _threads) = threaded(2);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan { work: SECOND, ..Plan::default() });
    until_polled(&world, &entry, |snapshot| snapshot.degraded().is_some());
    assert_eq!(entry.snapshot().degraded().map(Error::kind), Some(Kind::Memory));
    let mut waits = 0;
    while !entry.snapshot().has_ended() && waits < 100_000 {
        world.clock.advance(SECOND);
        world.engine.nudge();
        std::thread::yield_now();
        waits += 1;
    }
    assert!(entry.wait(Deadline::Never, &CancelToken::new()).is_some());
    assert!(world.engine.shutdown(Deadline::Never));
}

#[test]
fn a_wait_is_woken_by_a_cancel_from_another_thread() {
    let mut world = World::new(2);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan::default());
    let token = Arc::new(CancelToken::new());
    let (theirs, there) = (token.clone(), entry.clone());
    let waiter = std::thread::spawn(move || there.wait(Deadline::Never, &theirs).is_none());
    token.cancel(Why::Host);
    assert!(waiter.join().unwrap());
}

#[test]
fn threads_that_answer_the_same_question_race_to_one_update() {
    let mut world = World::new(3);
    let server = world.server("http://a", Duration::ZERO);
    for n in 0..50 {
        let id = format!("t{n}");
        let entry = world.follow(&server, &id, Plan { work: 1_000 * SECOND, ask_at: Some(SECOND), ..Plan::default() });
        world.run(Duration::from_secs(10 * (n + 1)));
        let racers: Vec<_> = (0..4)
            .map(|_| {
                let entry = entry.clone();
                std::thread::spawn(move || entry.answer(answer("q")) == Verdict::Accepted)
            })
            .collect();
        let won = racers.into_iter().map(|racer| racer.join().unwrap()).filter(|won| *won).count();
        assert_eq!(won, 1);
        world.run(Duration::from_secs(10 * (n + 1)));
        assert_eq!(server.updates(&id), 1);
    }
}

/// A server whose polls are answered together, once `least` of them are there.
struct Crowd {
    least: usize,
    inside: Mutex<usize>,
    enough: Condvar,
}

impl crate::tasks::TaskWire for Crowd {
    fn get(&self, id: &str, _: &CancelToken) -> Result<Task> {
        let mut inside = self.inside.lock();
        *inside += 1;
        self.enough.notify_all();
        while *inside < self.least {
            self.enough.wait(&mut inside);
        }
        let text = format!(r#"{{"taskId":"{id}","status":"completed","result":{{"content":[]}}}}"#);
        Task::read(&crate::protocol::json::Json::trusted(text))
    }

    fn update(&self, _: &str, _: &[crate::protocol::input::InputAnswer], _: &CancelToken) -> Result<()> {
        Ok(())
    }

    fn cancel(&self, _: &str, _: &CancelToken) -> Result<()> {
        Ok(())
    }

    fn origin(&self) -> &str {
        "http://crowd"
    }
}

#[test]
fn a_server_that_has_become_slow_gets_the_workers_it_needs() {
    let (mut world, _threads) = threaded(0);
    let quick = world.server("http://quick", Duration::ZERO);
    for n in 0..50 {
        // The workers learn that a round trip takes no time.
        let entry = world.follow(&quick, &format!("quick{n}"), Plan { work: SECOND, ..Plan::default() });
        until_polled(&world, &entry, |snapshot| snapshot.has_ended());
    }
    let most = crate::tasks::queue::MAX_PER_ORIGIN;
    let crowd = Arc::new(Crowd { least: most, inside: Mutex::new(0), enough: Condvar::new() });
    let entries: Vec<_> = (0..most)
        .map(|n| {
            let seed = quick.seed(&format!("slow{n}"), Plan::default());
            let links = Links { wire: crowd.clone(), ..world.links(&quick) };
            world.group.follow(seed, about("http://crowd"), links).unwrap().start()
        })
        .collect();
    world.clock.advance(2 * SECOND);
    // None of them is answered before all are asked.
    while *crowd.inside.lock() < most {
        world.clock.advance(Duration::from_millis(1));
        world.engine.nudge();
        std::thread::yield_now();
    }
    for entry in &entries {
        assert!(entry.wait(Deadline::Never, &CancelToken::new()).is_some());
    }
    assert!(world.engine.shutdown(Deadline::Never));
}

#[test]
fn nobody_looks_all_the_time_while_a_server_that_hangs_has_all_its_places() {
    let mut world = World::new(1);
    let server = world.server("http://hangs", Duration::ZERO);
    for n in 0..40 {
        world.follow(&server, &format!("t{n}"), Plan::default());
    }
    world.clock.advance(60 * SECOND);
    world.engine.step(world.clock.now());
    let pool = world.engine.pool();
    let short = pool.relieve().unwrap();
    let mut hanging: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(hanging.len(), crate::tasks::queue::MAX_PER_ORIGIN);
    assert!(pool.relieve().unwrap() >= 20 * short);
    pool.finish(&hanging.pop().unwrap(), SECOND);
    assert_eq!(pool.relieve(), Some(short), "a place is free");
}

#[test]
fn tasks_that_are_submitted_from_many_threads_are_all_polled() {
    let (mut world, threads) = threaded(0);
    let servers: Vec<_> = (0..3).map(|n| world.server(&format!("http://s{n}"), Duration::ZERO)).collect();
    // Within the 10 s that a job works, and beyond.
    for round in 0..2 {
        let entries: Vec<_> = std::thread::scope(|scope| {
            let world = &world;
            let starters: Vec<_> = (0..6)
                .map(|thread| {
                    let server = &servers[thread % 3];
                    scope.spawn(move || {
                        let id = |n| format!("r{round}-{thread}-{n}");
                        (0..40).map(|n| world.follow(server, &id(n), Plan::default())).collect::<Vec<_>>()
                    })
                })
                .collect();
            starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
        });
        world.clock.advance(20 * SECOND);
        // A host that pokes, and cancels, from many threads at once: each adds errands of its own.
        std::thread::scope(|scope| {
            for part in entries.chunks(40) {
                let world = &world;
                scope.spawn(move || {
                    for entry in part {
                        entry.cancel();
                        entry.poke();
                    }
                    world.engine.nudge();
                });
            }
        });
        for entry in &entries {
            while !entry.snapshot().has_ended() {
                world.clock.advance(SECOND);
                world.engine.nudge();
                std::thread::yield_now();
            }
        }
    }
    assert!(world.engine.shutdown(Deadline::Never));
    while threads.alive.load(Ordering::Acquire) > 0 {
        std::thread::yield_now();
    }
}
