//! The engine with its machines, in a world whose clock jumps to the next thing that happens. No thread, no waiting;
//! the few tests that need threads wait for events, never for time.

mod letters;
mod scale;
mod threads;
mod world;

use std::time::Duration;

use world::{Plan, World, about};

use super::*;
use crate::cancel::{CancelToken, Why};
use crate::clock::Budget;
use crate::protocol::input::InputAnswer;
use crate::protocol::json::Json;
use crate::protocol::task::TaskStatus;
use crate::tasks::keys::Verdict;
use crate::tasks::ledger::Ledger as _;
use crate::tasks::pace::Chance;

const SECOND: Duration = Duration::from_secs(1);

fn answer(key: &str) -> Vec<InputAnswer> {
    vec![InputAnswer { key: key.into(), response: Json::trusted("{}") }]
}

#[test]
fn in_a_random_world_no_poll_is_early_and_each_task_ends_once() {
    for seed in 0..10u64 {
        println!("seed {seed}");
        let chance = Chance::new(seed);
        let draw = |below: u64| u64::from(chance.jitter().0) % below;
        let mut world = World::new(seed);
        let server = world.server("http://a", Duration::ZERO);
        for n in 0..100 {
            let plan = Plan {
                interval: Some(Duration::from_millis(1 + draw(5_000))),
                work: Duration::from_millis(draw(60_000)),
                fail_each: [0, 2, 5][draw(3) as usize],
                ask_at: (draw(3) == 0).then(|| Duration::from_millis(draw(20_000))),
                ..Plan::default()
            };
            world.follow(&server, &format!("t{n}"), plan);
        }
        world.run(Duration::from_secs(3_600));
        assert_eq!(world.engine.followed(), 0, "seed {seed}");
        server.check_never_early();
        world.host.check_stories(100);
    }
}

#[test]
fn corner19_ten_thousand_polls_due_in_the_same_millisecond() {
    let mut world = World::new(1);
    let server = world.server("http://a", Duration::ZERO);
    for n in 0..10_000 {
        let plan = Plan { interval: Some(5 * SECOND), work: 12 * SECOND, ..Plan::default() };
        world.follow(&server, &format!("t{n}"), plan);
    }
    world.run(Duration::from_secs(60));
    assert_eq!(world.engine.followed(), 0);
    server.check_never_early();
    world.host.check_stories(10_000);
}

#[test]
fn corner19_one_slow_server_starves_nobody() {
    let mut world = World::new(2);
    let slow = world.server("http://slow", 30 * SECOND);
    for n in 0..1_000 {
        world.follow(&slow, &format!("slow{n}"), Plan { work: 3_600 * SECOND, ..Plan::default() });
    }
    let fast = world.server("http://fast", Duration::ZERO);
    for n in 0..100 {
        world.follow(&fast, &format!("fast{n}"), Plan { work: 20 * SECOND, ..Plan::default() });
    }
    world.run(Duration::from_secs(30));
    fast.check_never_early();
    // Each of the hundred was polled at its own pace: interval and jitter, and not one place was missing.
    assert!(fast.longest_gap() <= Duration::from_millis(1_051), "{:?}", fast.longest_gap());
    assert_eq!(world.host.ended("Completed"), 100);
    assert!(world.most_flying <= crate::tasks::queue::MAX_PER_ORIGIN + 1, "{}", world.most_flying);
}

#[test]
fn created_comes_first_and_the_rest_waits_for_the_callers_own_completion() {
    let mut world = World::new(3);
    let server = world.server("http://a", Duration::ZERO);
    let held = world.hold(&server, "t", Plan { work: Duration::ZERO, whole_seed: true, ..Plan::default() });
    world.run(SECOND);
    assert_eq!(world.host.story("t"), ["Created"]);
    assert!(!held.entry().snapshot().has_ended());
    drop(held);
    assert_eq!(world.host.story("t"), ["Created", "Ended(Completed)"]);
    assert_eq!(server.polls("t"), 0);
}

#[test]
fn corner15_a_task_is_followed_once_per_server_and_id() {
    let mut world = World::new(4);
    let server = world.server("http://a", Duration::ZERO);
    let first = world.follow(&server, "t", Plan::default());
    let again = world.follow(&server, "t", Plan::default());
    assert!(Arc::ptr_eq(&first, &again));
    let adopted = world.group.adopt("t", about("http://a"), world.links(&server)).unwrap().start();
    assert!(Arc::ptr_eq(&first, &adopted));
    let other = world.server("http://b", Duration::ZERO);
    let elsewhere = world.follow(&other, "t", Plan::default());
    assert!(!Arc::ptr_eq(&first, &elsewhere), "corner 15");
    assert_eq!(world.engine.followed(), 2);
}

#[test]
fn a_close_ends_the_handles_and_leaves_the_tasks_in_the_ledger() {
    let mut world = World::new(5);
    let server = world.server("http://a", 5 * SECOND);
    for n in 0..40 {
        world.follow(&server, &format!("t{n}"), Plan::default());
    }
    world.run(2 * SECOND);
    world.group.close();
    assert_eq!(world.host.ended("Closed"), 40);
    assert_eq!(world.engine.followed(), 0);
    world.run(60 * SECOND);
    world.host.check_stories(40);
    assert_eq!(world.ledger.outstanding("http://a").unwrap().len(), 40);
    let seed = server.seed("late", Plan::default());
    let refused = world.group.follow(seed, about("http://a"), world.links(&server)).err().unwrap();
    assert_eq!((refused.kind(), refused.message()), (Kind::Closed, "the client is closed"));
}

#[test]
fn corner7_corner12_a_second_process_takes_up_where_the_first_died() {
    let mut world = World::new(6);
    let server = world.server("http://a", Duration::ZERO);
    let plan = Plan { work: 600 * SECOND, ask_at: Some(2 * SECOND), lag: 1_000, ..Plan::default() };
    let entry = world.follow(&server, "t", plan);
    world.run(5 * SECOND);
    assert_eq!(entry.answer(answer("q")), Verdict::Accepted);
    assert!(entry.cancel());
    // Both are stored and neither has left: the process dies here.
    let records = world.ledger.outstanding("http://a").unwrap();
    assert!(records[0].cancel_pending && records[0].answers[0].response.is_some());
    world.restart();
    let entry = world.adopt(&server, "t");
    assert_eq!(server.updates("t"), 0);
    world.run(10 * SECOND);
    assert_eq!((server.updates("t"), server.cancels("t")), (1, 1));
    assert_eq!(entry.answer(answer("q")), Verdict::AlreadyAnswered);
    assert!(!entry.cancel());
    world.run(1_200 * SECOND);
    assert_eq!(world.host.story("t"), ["Resumed", "Ended(Completed)"], "the answered question is not asked again");
    assert!(entry.acknowledge().unwrap());
    // Taken up once more, it is known as ended, and silent.
    let entry = world.adopt(&server, "t");
    assert_eq!(entry.snapshot().end_reason(), Some(EndReason::Completed));
    assert_eq!(world.host.story("t").len(), 2);
}

#[test]
fn a_refresh_is_one_round_trip_here_and_now() {
    let mut world = World::new(7);
    world.options.auto_poll = false;
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan { work: 10 * SECOND, fail_each: 2, ..Plan::default() });
    world.run(60 * SECOND);
    assert_eq!(server.polls("t"), 0);
    let token = CancelToken::new();
    let failed = entry.refresh(&token).err().unwrap();
    assert_eq!(failed.kind(), Kind::Io);
    assert!(entry.snapshot().degraded().is_some());
    let snapshot = entry.refresh(&token).unwrap();
    assert_eq!((snapshot.status(), snapshot.end_reason()), (TaskStatus::Completed, Some(EndReason::Completed)));
    assert!(snapshot.result().is_some());
    entry.refresh(&token).unwrap();
    assert_eq!(server.polls("t"), 2, "none after the end");
    assert_eq!(world.host.story("t"), ["Created", "Degraded", "Recovered", "Ended(Completed)"]);
}

#[test]
fn a_cancelled_refresh_leaves_no_trace() {
    let mut world = World::new(8);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan { fail_each: 1, ..Plan::default() });
    let token = CancelToken::new();
    token.cancel(Why::Host);
    assert!(entry.refresh(&token).is_err());
    assert!(entry.snapshot().degraded().is_none());
}

#[test]
fn an_answer_is_judged_at_once_and_carried_by_a_worker() {
    let mut world = World::new(9);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan { work: 60 * SECOND, ask_at: Some(SECOND), lag: 3, ..Plan::default() });
    assert_eq!(entry.answer(answer("q")), Verdict::UnknownKey("q".into()));
    world.run(5 * SECOND);
    assert_eq!(entry.snapshot().inputs().len(), 1);
    assert_eq!(entry.answer(answer("q")), Verdict::Accepted);
    assert_eq!(entry.answer(answer("q")), Verdict::AlreadyAnswered);
    assert_eq!(entry.snapshot().inputs().len(), 0);
    world.run(120 * SECOND);
    assert_eq!(server.updates("t"), 1);
    assert_eq!(entry.answer(answer("q")), Verdict::Ended);
    assert_eq!(world.host.story("t"), ["Created", "Status", "Ask(q)", "Status", "Ended(Completed)"]);
}

#[test]
fn an_update_on_the_callers_thread_keeps_the_same_book() {
    let mut world = World::new(10);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan { work: 60 * SECOND, ask_at: Some(SECOND), ..Plan::default() });
    world.run(5 * SECOND);
    let token = CancelToken::new();
    assert_eq!(entry.update(answer("q"), &token).unwrap(), Verdict::Accepted);
    assert_eq!(entry.update(answer("q"), &token).unwrap(), Verdict::AlreadyAnswered);
    assert_eq!(entry.answer(answer("q")), Verdict::AlreadyAnswered);
    assert_eq!(server.updates("t"), 1);
}

#[test]
fn a_host_may_act_on_the_task_inside_its_own_callback() {
    let mut world = World::new(11);
    let server = world.server("http://a", Duration::ZERO);
    world.host.answer_in_callback();
    let entry = world.follow(&server, "t", Plan { work: 20 * SECOND, ask_at: Some(SECOND), ..Plan::default() });
    world.host.know("t", &entry);
    world.run(60 * SECOND);
    assert_eq!(server.updates("t"), 1);
    assert_eq!(world.host.ended("Completed"), 1);
}

#[test]
fn panics_in_foreign_code_cost_one_attempt() {
    let mut world = World::new(12);
    let server = world.server("http://a", Duration::ZERO);
    let plan = Plan { work: 10 * SECOND, panic_each: 3, ..Plan::default() };
    world.follow(&server, "t", plan);
    world.host.panic_at("Degraded");
    world.run(120 * SECOND);
    assert_eq!(world.host.story("t").last().map(String::as_str), Some("Ended(Completed)"));
}

#[test]
fn a_ledger_that_fails_is_told_before_what_it_did_not_store() {
    let mut world = World::new(13);
    let server = world.server("http://a", Duration::ZERO);
    world.ledger.break_down();
    let entry = world.follow(&server, "t", Plan { work: 5 * SECOND, ..Plan::default() });
    world.run(60 * SECOND);
    assert_eq!(world.host.story("t"), ["Unstored", "Created", "Ended(Completed)"]);
    assert!(entry.snapshot().result().is_some());
}

#[test]
fn a_private_result_reaches_the_host_and_not_the_ledger() {
    let mut world = World::new(14);
    let server = world.server("http://a", Duration::ZERO);
    let seed = server.seed("t", Plan::default());
    let private = TaskAbout { keep_result: false, ..about("http://a") };
    let entry = world.group.follow(seed, private, world.links(&server)).unwrap().start();
    world.run(60 * SECOND);
    assert!(entry.snapshot().result().is_some());
    let record = world.ledger.find(entry.key()).unwrap().unwrap();
    assert_eq!(record.end, Some(EndReason::Completed));
    assert!(record.last.is_some_and(|last| last.result.is_none()));
}

#[test]
fn a_wait_looks_first_and_ends_by_deadline_or_cancel() {
    let mut world = World::new(15);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan::default());
    // A host waits by the system's clock, whatever tasks live by.
    let now = Deadline::At(crate::clock::SystemClock.now(), Budget::Wait);
    let token = CancelToken::new();
    assert!(entry.wait(now, &token).is_none());
    world.run(60 * SECOND);
    assert!(entry.wait(now, &token).is_some_and(|snapshot| snapshot.has_ended()));
    let other = world.follow(&server, "u", Plan::default());
    token.cancel(Why::Host);
    assert!(other.wait(Deadline::Never, &token).is_none());
}

#[test]
fn letting_go_forgets_the_task() {
    let mut world = World::new(16);
    let server = world.server("http://a", Duration::ZERO);
    let entry = world.follow(&server, "t", Plan::default());
    entry.let_go();
    entry.let_go();
    assert_eq!(world.host.story("t"), ["Created", "Ended(Closed)"]);
    assert_eq!(world.ledger.find(entry.key()).unwrap(), None);
    let error = entry.snapshot().error().cloned().unwrap();
    assert_eq!((error.kind(), error.message()), (Kind::Closed, "the host let the task go"));
}

#[test]
fn a_poke_spreads_the_polls_of_a_degraded_client() {
    let mut world = World::new(17);
    let server = world.server("http://a", Duration::ZERO);
    for n in 0..50 {
        world.follow(
            &server,
            &format!("t{n}"),
            Plan { work: 1_000 * SECOND, fail_until: 200 * SECOND, ..Plan::default() },
        );
    }
    world.run(200 * SECOND);
    let before: usize = (0..50).map(|n| server.polls(&format!("t{n}"))).sum();
    world.group.poke();
    world.run(204 * SECOND);
    let after: usize = (0..50).map(|n| server.polls(&format!("t{n}"))).sum();
    assert!(after >= before + 50, "{before} {after}");
    server.check_never_early();
}
