//! What published servers do with tasks: seeds, keys, acknowledgements, cancels. More of it is in `tasks.rs`.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;

// ---- tasks -------------------------------------------------------------------------------------------------------------

fn working(more: Value) -> Value {
    let mut task = json!({"status": "working"});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"task": task})
}

fn completed() -> Value {
    json!({"task": {"status": "completed", "result": {"content": [{"type": "text", "text": "x"}]}}})
}

fn asks(key: &str) -> Value {
    json!({"status": "input_required", "inputRequests": {key: {"method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}})
}

#[test]
fn seeds_of_published_servers() {
    for (name, seed, interval, ttl) in [
        ("fastmcp", json!({"pollIntervalMs": 5000, "ttlMs": 900_000}), Some(5000), Some(900_000)),
        ("rmcp", json!({"pollIntervalMs": 1000, "ttlMs": 300_000}), Some(1000), Some(300_000)),
        ("turul", json!({"pollIntervalMs": 500.0, "ttlMs": null}), Some(500), Some(-1)),
        (
            "TS v2: empty content beside the task",
            json!({"content": [], "pollIntervalMs": 100, "ttlMs": 60_000}),
            Some(100),
            Some(60_000),
        ),
    ] {
        let server =
            TestServer::start(Script::new().task(json!({"tool": "job", "seed": seed, "polls": [completed()]})));
        let client = Client::ready(&server, json!({}));
        let task = client.task("job", json!({}));
        let snapshot = task.snapshot();
        assert_eq!(snapshot.number(MCP_SNAPSHOT_POLL_INTERVAL_MS), interval, "{name}");
        assert_eq!(snapshot.number(MCP_SNAPSHOT_TTL_MS), ttl, "{name}");
        if interval <= Some(1000) {
            assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("x"), "{name}");
        }
    }
}

#[test]
fn keys_that_hide_the_tools_own_and_acknowledgements_of_every_speed() {
    // fastmcp: `TASKID:hash`, later again; rmcp: the tool's key, at once; turul: working for up to 500 ms.
    for (name, key, after) in [
        (
            "fastmcp, asynchronous",
            "0f8a-task:3b1c9d",
            vec![json!({"task": asks("0f8a-task:3b1c9d"), "times": 2}), completed()],
        ),
        ("rmcp, at once", "name", vec![completed()]),
        ("turul, works on", "name", vec![working(json!({})), working(json!({})), completed()]),
    ] {
        let mut polls = vec![json!({"task": asks(key), "until": "updated"})];
        polls.extend(after);
        let server = TestServer::start(Script::new().task(json!({"tool": "job", "id": "0f8a-task", "polls": polls})));
        let client = Client::new(&settings(&server, json!({})));
        client.record(&[MCP_EVENT_TASK_DONE]);
        let events = client.events.clone();
        client.on(MCP_EVENT_ELICITATION, move |event| {
            assert_eq!(event.input().unwrap().reply(&json!({"n": 1})), Ok(MCP_OK));
            events.add(event);
        });
        client.open().unwrap();
        client.wait_open().unwrap();
        let end = client.task("job", json!({})).end();
        assert_eq!(end.answer().unwrap().text().as_deref(), Some("x"), "{name}");
        assert_eq!(client.events.of(MCP_EVENT_ELICITATION).len(), 1, "{name}: asked once");
        let updates = server.requests_of("tasks/update");
        assert_eq!(updates.len(), 1, "{name}: answered once");
        assert_eq!(
            updates[0].at("/params/inputResponses")[key],
            json!({"action": "accept", "content": {"n": 1}}),
            "{name}"
        );
    }
}

#[test]
fn a_json_rpc_error_raised_in_a_tool_fails_its_task() {
    let error = json!({"code": -32050, "message": "m", "data": {"a": 1}});
    let server = TestServer::start(
        Script::new().task(json!({"tool": "job", "polls": [{"task": {"status": "failed", "error": error}}]})),
    );
    let client = Client::ready(&server, json!({}));
    let end = client.task("job", json!({})).end();
    let failure = end.failure().unwrap();
    assert_eq!(
        (end.status(), failure.rpc_code, failure.rpc_data.as_deref()),
        ("failed", Some(-32050), Some("{\"a\":1}"))
    );
}

#[test]
fn an_update_of_a_finished_task_is_told_as_the_server_answers_it() {
    for (name, answer, want) in [
        ("acknowledged (fastmcp, TS, rmcp)", json!({"result": {"resultType": "complete"}}), None),
        ("-32602 (turul)", json!({"error": {"code": -32602, "message": "not waiting for input"}}), Some(-32602)),
    ] {
        let server = TestServer::start(
            Script::new().task(json!({"tool": "job", "polls": [{"task": asks("k")}], "updates": [answer]})),
        );
        let client = Client::recording(&server, json!({"input": {"elicitation": "manual"}}), &[]);
        let task = client.task("job", json!({}));
        until("the question", || task.snapshot().status() == "input_required");
        let told = task.update(&json!({"k": {"action": "accept", "content": {}}}));
        assert_eq!(told.err().and_then(|failure| failure.rpc_code), want, "{name}");
    }
}

#[test]
fn cancels_at_once_in_time_and_too_late() {
    let cancelled = json!({"task": {"status": "cancelled"}});
    for (name, polls, reason) in [
        (
            "at once (fastmcp, turul)",
            vec![json!({"task": {"status": "working"}, "until": "cancelled"}), cancelled.clone()],
            "cancelled",
        ),
        (
            "in its own time (TS, rmcp)",
            vec![json!({"task": {"status": "working"}, "until": "cancelled"}), working(json!({})), cancelled],
            "cancelled",
        ),
        (
            "too late: it stays completed (all)",
            vec![json!({"task": {"status": "working"}, "until": "cancelled"}), completed()],
            "completed",
        ),
    ] {
        let server = TestServer::start(Script::new().task(json!({"tool": "job", "polls": polls})));
        let client = Client::ready(&server, json!({}));
        let task = client.task("job", json!({}));
        task.cancel();
        assert_eq!(task.end().reason(), reason, "{name}");
        assert_eq!(server.count_of("tasks/cancel"), 1, "{name}");
        assert_eq!(server.count_of("notifications/cancelled"), 0, "{name}");
    }
}

#[test]
fn a_task_handle_on_a_poll_is_a_snapshot() {
    // The examples of the extension show `task` there, its text demands `complete`.
    for (status, more) in [
        ("failed", json!({"error": {"code": -1, "message": "m"}})),
        ("completed", json!({"result": {"isError": true, "content": []}})),
    ] {
        let mut task = json!({"resultType": "task", "status": status});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let server = TestServer::start(Script::new().task(json!({"tool": "job", "polls": [{"task": task}]})));
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.task("job", json!({})).end().status(), status);
    }
}
