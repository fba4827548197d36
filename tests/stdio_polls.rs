//! Polls of tasks over a child's pipes, which hold no thread: many of them, their limits, and the ends of the child and
//! of the client while they are on their way.
#![allow(missing_docs, clippy::unwrap_used)]
#![cfg(target_os = "linux")]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use std::sync::{Mutex, MutexGuard};

use abi::*;
use local::Local;

/// The threads of the process are counted: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end while it is looked at.
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| name(task.unwrap())).map(|name| name.trim().to_owned()).collect()
}

fn workers() -> usize {
    threads().iter().filter(|name| *name == "mcp-poll").count()
}

fn modern() -> Value {
    json!({})
}

fn legacy() -> Value {
    json!({"era": "legacy", "legacy": {"tasks": {"status": "none"}}})
}

/// A job that works on until it is cancelled.
fn endless(poll_ms: u64) -> Value {
    json!({"steps": 1, "step_ms": 3_600_000, "poll_ms": poll_ms, "ttl_ms": null})
}

fn polls(server: &Local) -> usize {
    server.lines_with("tasks/get")
}

#[test]
fn a_thousand_tasks_over_one_child_are_polled_without_a_worker() {
    let _alone = alone();
    for (name, options) in [("modern", modern()), ("legacy", legacy())] {
        let marker = std::env::temp_dir().join(format!("mcpnative-polls-{name}-{}", std::process::id()));
        // The server's part is the most of the work: no more is waited for than three polls of each, seed aside.
        let third = json!({"match": {"method": "tasks/get", "nth": 3_000}, "do": {"run": true, "marker": marker}});
        let server = Local::new(&format!("thousand-{name}"), json!({"options": options, "rules": [third]}));
        let client = server.ready(json!({"tasks": {"push": false}}), |_| {});
        let tasks: Vec<Task> = (0..1000).map(|_| client.task("slow_job", endless(1_000))).collect();
        let (before, idle) = (threads().len(), workers());
        let most = std::cell::Cell::new(0);
        until("three polls of each", || {
            most.set(most.get().max(threads().len()));
            assert!(workers() <= idle, "{name}: {idle} workers of earlier, now {:?}", threads());
            marker.exists()
        });
        std::fs::remove_file(&marker).unwrap();
        assert!(most.get() <= before + 1, "{name}: {before} threads, then {}", most.get());
        for task in &tasks {
            let snapshot = task.snapshot();
            assert_eq!((snapshot.status(), snapshot.failure()), ("working", None), "{name}");
        }
        // Ends are stored and told by workers, a bounded number of them.
        tasks.iter().take(100).for_each(|task| assert_eq!(task.cancel(), MCP_OK));
        for task in tasks.iter().take(100) {
            assert_eq!(task.end().reason(), "cancelled", "{name}");
        }
        assert!(workers() <= 32, "{name}");
        assert_eq!(server.lines_with("notifications/cancelled"), 0, "{name}");
    }
}

#[test]
fn a_child_that_is_killed_meanwhile_is_started_again_by_the_next_poll() {
    let _alone = alone();
    let crash = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"nothing": true, "exit": 1}});
    for (name, options) in [("modern", modern()), ("legacy", legacy())] {
        let server = Local::new(&format!("killed-{name}"), json!({"options": options, "rules": [crash]}));
        let client = server.ready(json!({"tasks": {"push": false}, "restart": {"backoff_ms": 1}}), |_| {});
        let tasks: Vec<Task> = (0..100).map(|_| client.task("slow_job", endless(100))).collect();
        assert_eq!(client.run("count", json!({})).unwrap_err().status, MCP_E_OUTCOME_UNKNOWN, "{name}");
        // The next process knows none of them.
        for task in &tasks {
            assert_eq!(task.end().reason(), "unknown", "{name}");
        }
        client.run("echo", json!({})).unwrap();
    }
}

#[test]
fn polls_that_are_not_answered_run_out_of_time_and_their_places_are_free() {
    let _alone = alone();
    // As many as may be on their way at once.
    let silent: Vec<Value> =
        (1..=16).map(|nth| json!({"match": {"method": "tasks/get", "nth": nth}, "do": {"never": true}})).collect();
    for (name, options) in [("modern", modern()), ("legacy", legacy())] {
        for limit in ["idle_ms", "total_ms"] {
            let script = json!({"options": options, "rules": silent});
            let server = Local::new(&format!("silent-{name}-{limit}"), script);
            let settings = json!({"tasks": {"push": false}, "timeouts": {limit: 1_500}});
            let client = server.ready(settings, |client| {
                client.record(&[MCP_EVENT_TASK_DEGRADED, MCP_EVENT_TASK_RECOVERED]);
            });
            let tasks: Vec<Task> = (0..20).map(|_| client.task("slow_job", endless(100))).collect();
            let first = client.events.nth(MCP_EVENT_TASK_DEGRADED, 1);
            let failure = first.failure().unwrap();
            assert_eq!(failure.status, MCP_E_TIMEOUT, "{name}");
            assert!(failure.message.contains(limit), "{name}: {failure:?}");
            // The server is told that nobody waits any more.
            until("the cancellations", || server.count("notifications/cancelled") >= 16);
            let of = |kind| client.events.of(kind).len();
            until("each that failed to recover", || of(MCP_EVENT_TASK_RECOVERED) == of(MCP_EVENT_TASK_DEGRADED));
            assert!(of(MCP_EVENT_TASK_DEGRADED) >= 16);
            drop(tasks);
        }
    }
}

#[test]
fn a_close_gives_up_what_is_on_its_way() {
    let _alone = alone();
    for (name, options) in [("modern", modern()), ("legacy", legacy())] {
        let silent = json!({"match": {"method": "tasks/get"}, "do": {"never": true}});
        let server = Local::new(&format!("close-{name}"), json!({"options": options, "rules": [silent]}));
        let client = server.ready(json!({"tasks": {"push": false}}), |client| client.record(&[MCP_EVENT_TASK_DONE]));
        let tasks: Vec<Task> = (0..40).map(|_| client.task("slow_job", endless(100))).collect();
        until("as many on their way as may be", || polls(&server) >= 16);
        assert_eq!(client.close(), MCP_OK);
        assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
        assert_eq!(client.events.of(MCP_EVENT_TASK_DONE).len(), 40);
        assert!(tasks.iter().all(|task| task.snapshot().reason() == "closed"), "{name}");
        assert_eq!(server.count("notifications/cancelled"), 0, "{name}: the end of the channel says it");
    }
}

#[test]
fn a_call_and_its_log_messages_are_not_mistaken_for_a_polls() {
    let _alone = alone();
    let slow = json!({"match": {"method": "tasks/get"}, "do": {"delay_ms": 3_000, "run": true}});
    let server = Local::new("beside", json!({"options": modern(), "rules": [slow]}));
    let client = server.ready(json!({"tasks": {"push": false}, "log_level": "debug"}), |client| {
        client.record(&[MCP_EVENT_LOG_MESSAGE]);
    });
    let task = client.task("slow_job", endless(100));
    until("the poll is on its way", || polls(&server) >= 1);
    // The messages name no request: they are the one call's, as if there were no poll.
    let call = client.start("log", json!({"n": 3}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    client.events.nth(MCP_EVENT_LOG_MESSAGE, 3);
    let logs = client.events.of(MCP_EVENT_LOG_MESSAGE);
    assert!(logs.iter().all(|event| event.call_id() == Some(call.id())), "{logs:?}");
    assert_eq!(task.snapshot().status(), "working");
}
