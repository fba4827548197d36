//! Many tasks, many faults, servers that are away.

use super::world::read;
use super::*;

/// One poll in ten of the first minute fails, in ten ways in turn.
fn ten_ways(id: &str, turn: usize, life: Duration) -> Option<Result<Task>> {
    let number: usize = id[1..].parse().unwrap();
    let draw = number.wrapping_mul(31).wrapping_add(turn.wrapping_mul(17)) % 100;
    if draw >= 10 || life >= 60 * SECOND {
        return None;
    }
    let http = |status: u16| Error::new(Kind::Http, "no answer").with_http_status(status);
    let internal = crate::error::RpcFault { code: -32603, message: "internal".into(), data: None };
    Some(Err(match draw {
        0 => Error::new(Kind::Io, "reset before the first byte"),
        1 => Error::new(Kind::OutcomeUnknown, "reset after some bytes"),
        2 => http(500),
        3 => http(502),
        4 => http(503).with_retry_after(Some(5 * SECOND)),
        5 => http(429),
        6 => Error::new(Kind::Parse, "truncated"),
        7 => return Some(Ok(read("another", r#""status":"completed","result":{}"#, None))),
        8 => Error::from_rpc(internal),
        _ => Error::new(Kind::Timeout, "too slow"),
    }))
}

#[test]
fn a_minute_in_which_one_poll_in_ten_fails_in_ten_ways_costs_no_task() {
    let mut world = World::new(21);
    let server = world.server("http://a", Duration::ZERO);
    for n in 0..150 {
        let plan = Plan { work: Duration::from_secs(20 + n % 80), trouble: ten_ways, ..Plan::default() };
        world.follow(&server, &format!("t{n}"), plan);
    }
    world.run(240 * SECOND);
    assert_eq!((world.host.ended("Completed"), world.engine.followed()), (150, 0));
    server.check_never_early();
    world.host.check_stories(150);
    let hit = (0..150).filter(|n| world.host.story(&format!("t{n}")).contains(&"Degraded".to_owned())).count();
    assert!(hit > 75, "the faults were made: {hit}");
}

#[test]
fn a_dead_servers_tasks_share_its_backoff_and_come_back_together() {
    let mut world = World::new(22);
    let dead = world.server("http://dead", Duration::ZERO);
    for n in 0..1_000 {
        let plan = Plan { work: 150 * SECOND, fail_until: 300 * SECOND, ..Plan::default() };
        world.follow(&dead, &format!("dead{n}"), plan);
    }
    let well = world.server("http://well", Duration::ZERO);
    for n in 0..10 {
        world.follow(&well, &format!("well{n}"), Plan { work: 200 * SECOND, ..Plan::default() });
    }
    world.run(60 * SECOND);
    let first = dead.all_polls();
    assert!((5..=20).contains(&first), "{first}");
    world.run(299 * SECOND);
    assert!(dead.all_polls() - first <= 10, "{first} {}", dead.all_polls());
    assert_eq!(world.host.ended("Completed"), 10);
    assert!(well.longest_gap() <= Duration::from_millis(1_051), "{:?}", well.longest_gap());
    // The next probe comes within a minute; the others in the seconds after it.
    world.run(370 * SECOND);
    assert_eq!(world.host.ended("Completed"), 1_010);
    for n in [0, 500, 999] {
        let story = world.host.story(&format!("dead{n}"));
        assert_eq!(story, ["Created", "Degraded", "Recovered", "Ended(Completed)"]);
    }
    dead.check_never_early();
    well.check_never_early();
}

#[test]
fn a_hint_of_the_hosts_ends_the_wait_for_the_next_probe() {
    let mut world = World::new(23);
    let server = world.server("http://a", Duration::ZERO);
    for n in 0..200 {
        let plan = Plan { work: SECOND, fail_until: 200 * SECOND, ..Plan::default() };
        world.follow(&server, &format!("t{n}"), plan);
    }
    world.run(200 * SECOND);
    world.group.poke();
    world.run(207 * SECOND);
    assert_eq!(world.host.ended("Completed"), 200);
}

/// What one poll costs the engine as the number of tasks grows: `benches/run.sh` prints it. A doubling of the tasks may
/// add a step to a heap's path, and nothing more.
#[test]
#[ignore = "a measurement, made by benches/run.sh"]
#[allow(clippy::disallowed_methods, reason = "it is the real time that is measured")]
fn cost_of_a_poll_in_a_simulation() {
    // In pages; where the system does not tell, 0.
    let resident = || -> u64 {
        let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        told.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default()
    };
    for tasks in [1_000u64, 10_000, 100_000] {
        let before = resident();
        let mut world = World::new(24);
        let server = world.server("http://a", Duration::ZERO);
        for n in 0..tasks {
            let interval = Some(Duration::from_millis(4_000 + n % 2_000));
            world.follow(&server, &format!("t{n}"), Plan { interval, work: 3_600 * SECOND, ..Plan::default() });
        }
        let begin = Instant::now();
        world.run(30 * SECOND);
        let (took, polls) = (begin.elapsed(), server.all_polls());
        assert!(polls as u64 > 4 * tasks, "{polls}");
        // What the scripted server and the host write down is in it.
        let memory = resident().saturating_sub(before) as f64 * 4.0 / tasks as f64;
        println!("\nsimulation\t{tasks}\t{polls}\t{:.2}\t{memory:.1}", took.as_secs_f64() * 1e6 / polls as f64);
    }
}
