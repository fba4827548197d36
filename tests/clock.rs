//! Time in the host's hands: a day of a job in milliseconds.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;
use mcpnative::ffi::clock::{mcp_clock_advance, mcp_clock_hold, mcp_clock_release};
use mcpnative::ffi::snapshot::{MCP_SNAPSHOT_NEXT_POLL_MS, MCP_SNAPSHOT_OVERDUE};
use std::sync::{Mutex, MutexGuard};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// Jitter: a poll is at most so much late.
const LATE: i64 = 1000;

/// The clock of the process, held for one test.
struct Hands(#[allow(dead_code, reason = "one test at a time")] MutexGuard<'static, ()>);

impl Hands {
    fn new() -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert_eq!(mcp_clock_hold(), MCP_OK);
        Self(one)
    }

    fn advance(&self, ms: i64) {
        assert_eq!(mcp_clock_advance(ms, PATIENCE_MS), MCP_OK);
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        let released = mcp_clock_release();
        if !std::thread::panicking() {
            assert_eq!(released, MCP_OK);
        }
    }
}

fn job(polls: Value) -> TestServer {
    let seed = json!({"pollIntervalMs": HOUR, "ttlMs": 24 * HOUR});
    TestServer::start(Script::new().task(json!({"tool": "job", "id": "job", "seed": seed, "polls": polls})))
}

fn working() -> Value {
    json!({"task": {"pollIntervalMs": HOUR, "ttlMs": 24 * HOUR}, "until": "completed"})
}

fn done() -> Value {
    json!({"task": {"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}}})
}

#[test]
fn a_day_of_a_job_is_followed_to_overdue_and_to_its_end_and_never_early() {
    let (hands, server) = (Hands::new(), job(json!([working(), done()])));
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    let polls = || server.count_of("tasks/get");
    assert_eq!(
        task.snapshot().number(MCP_SNAPSHOT_NEXT_POLL_MS).map(|ms| (HOUR..=HOUR + LATE).contains(&ms)),
        Some(true)
    );
    hands.advance(HOUR - 1);
    assert_eq!(polls(), 0, "never early");
    hands.advance(1 + LATE);
    assert_eq!(polls(), 1);
    hands.advance(22 * (HOUR + LATE));
    assert_eq!(polls(), 23, "one each hour, also in one stretch");
    hands.advance(HOUR - 23 * LATE - 1);
    assert_eq!(task.snapshot().number(MCP_SNAPSHOT_OVERDUE), Some(0));
    hands.advance(1);
    assert_eq!(task.snapshot().number(MCP_SNAPSHOT_OVERDUE), Some(1));
    assert_eq!(task.snapshot().reason(), "none");
    server.complete("job");
    assert_eq!(task.wait(0).0, MCP_S_TIMEOUT, "a wait of the host's goes by the system's clock");
    hands.advance(2 * HOUR);
    let (status, end) = task.wait(0);
    assert_eq!((status, end.reason(), end.answer().unwrap().text().unwrap().as_str()), (MCP_OK, "completed", "done"));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
}

#[test]
fn a_server_out_of_reach_ends_an_overdue_job_after_five_minutes() {
    let (hands, server) = (Hands::new(), job(json!([working()])));
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    hands.advance(24 * HOUR);
    assert_eq!(task.snapshot().reason(), "none");
    drop(server);
    // The next poll fails, and the one an hour later is the first after the five minutes.
    hands.advance(HOUR / 2);
    assert_eq!(task.snapshot().reason(), "none");
    client.events.nth(MCP_EVENT_TASK_DEGRADED, 1);
    hands.advance(HOUR);
    assert_eq!(task.snapshot().reason(), "expired");
}

#[test]
fn an_answer_is_kept_by_the_held_clock() {
    let hands = Hands::new();
    let kept = json!({"match": {"method": "tools/list"}, "do": {"message": {"jsonrpc": "2.0", "id": "$id",
        "result": {"resultType": "complete", "tools": [], "ttlMs": HOUR, "cacheScope": "private"}}}});
    let server = TestServer::start(Script::new().rule(kept));
    let client = Client::ready(&server, json!({}));
    let list = || drop(client.request("tools/list", json!({})).unwrap());
    for (ms, asked) in [(0, 1), (HOUR - 1, 1), (1, 2)] {
        hands.advance(ms);
        list();
        assert_eq!(server.count_of("tools/list"), asked, "after {ms} ms");
    }
}

#[test]
fn an_answer_that_does_not_come_holds_the_clock_up_no_longer_than_the_wait() {
    let rule = json!({"match": {"method": "tasks/get"}, "do": {"run": true, "hold": "gate"}});
    let seed = json!({"pollIntervalMs": HOUR, "ttlMs": 24 * HOUR});
    let script = Script::new().rule(rule).task(json!({"tool": "job", "id": "job", "seed": seed, "polls": [done()]}));
    let (hands, server) = (Hands::new(), TestServer::start(script));
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    assert_eq!(mcp_clock_advance(3 * HOUR, 0), MCP_S_TIMEOUT);
    assert!(server.wait_requests("tasks/get", 1, PATIENCE));
    assert_eq!(mcp_clock_advance(0, 20), MCP_S_TIMEOUT, "it is under way still");
    assert_eq!(server.count_of("tasks/get"), 1, "what fell due is handed out once");
    server.open_gate("gate");
    hands.advance(0);
    assert_eq!(task.snapshot().reason(), "completed");
}

#[test]
fn misuse_is_told() {
    let server = job(json!([done()]));
    {
        let hands = Hands::new();
        assert_eq!(mcp_clock_hold(), MCP_S_ALREADY_DONE);
        for ms in [-1, i64::MIN, i64::MAX] {
            assert_eq!(mcp_clock_advance(ms, 0), MCP_E_ARGUMENT, "{ms}");
        }
        hands.advance(0);
        let client = Client::ready(&server, json!({}));
        assert_eq!(mcp_clock_release(), MCP_E_STATE);
        assert!(last_error().unwrap().message.contains("only while no client is open"));
        drop(client);
        drop(hands);
        assert_eq!(mcp_clock_release(), MCP_S_ALREADY_DONE);
        assert_eq!(mcp_clock_advance(1, 0), MCP_E_STATE);
    }
}
