//! Tasks over HTTP, end to end: what real servers do to a task, and that nobody loses it.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/lives.rs"]
mod lives;

use abi::*;
use lives::{ask, done, lives};
use mcp_test_server::TestServer;

const CAPABILITY: &str =
    "/params/_meta/io.modelcontextprotocol~1clientCapabilities/extensions/io.modelcontextprotocol~1tasks";

/// Microseconds from the answer that made a task to the first poll of it.
fn first_pause(server: &TestServer, tool: &str, id: &str) -> u64 {
    let calls = server.requests_of("tools/call");
    let call = calls.iter().find(|call| call.name.as_deref() == Some(tool)).unwrap();
    let polls = server.requests_of("tasks/get");
    let poll = polls.iter().find(|poll| poll.name.as_deref() == Some(id)).unwrap();
    poll.at_us - call.answered_us.unwrap()
}

fn polls_of(server: &TestServer, id: &str) -> usize {
    server.requests_of("tasks/get").iter().filter(|poll| poll.name.as_deref() == Some(id)).count()
}

// ---- routing -------------------------------------------------------------------------------------------------------

#[test]
fn br_34_every_task_request_is_routed_by_its_id() {
    let long = "x".repeat(300);
    let ids = ["t-1", "täsk 1", " lead", "=?base64?abc?=", "a\r\nX-Evil: 1", "tab\there", "trail ", long.as_str()];
    let life = |(index, id): (usize, &&str)| {
        json!({"tool": format!("tool{index}"), "id": id, "polls": [
            {"task": ask(&["k"]), "until": "updated"}, {"task": {"statusMessage": "on"}, "until": "cancelled"},
            {"task": {"status": "cancelled"}}]})
    };
    // The server refuses what is not routed (-32020).
    let server = lives(ids.iter().enumerate().map(life).collect());
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    let tasks: Vec<Task> = (0..ids.len()).map(|index| client.task(&format!("tool{index}"), json!({}))).collect();
    for (task, id) in tasks.iter().zip(ids) {
        assert_eq!(task.wait(PATIENCE_MS).0, MCP_E_INPUT_REQUIRED, "{id}");
        assert_eq!(task.update(&json!({"k": {"action": "decline"}})), Ok(MCP_OK), "{id}");
    }
    for (task, id) in tasks.iter().zip(ids) {
        until("work to go on", || task.snapshot().message().as_deref() == Some("on"));
        assert_eq!(task.cancel(), MCP_OK, "{id}");
    }
    for (task, id) in tasks.iter().zip(ids) {
        assert_eq!(task.end().reason(), "cancelled", "{id}");
        assert_eq!(task.id(), id);
    }
    assert!(server.requests().iter().all(|request| request.status.is_none_or(|status| status == 200)), "no refusal");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for request in server.requests_of(method) {
            let (id, header) = (request.name.clone().unwrap(), request.header("Mcp-Name").unwrap().to_owned());
            let safe = id == "t-1" || id == long;
            // A tab inside may go either way: HTTP allows it in a value.
            if id.contains('\t') {
                continue;
            }
            assert_eq!(header == id, safe, "{method} {id}: {header}");
            assert_eq!(header.starts_with("=?base64?"), !safe, "{method} {id}: {header}");
            assert!(request.header("X-Evil").is_none());
        }
    }
}

#[test]
fn br_34_tools_and_resources_are_routed_by_the_same_rule() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    for name in ["plain", "täsk 1", " lead", "=?base64?abc?=", "a\r\nX-Evil: 1"] {
        // What the server says of an unknown tool or resource does not matter; -32020 would be a wrong header.
        let called = client.run(name, json!({}));
        assert_ne!(called.err().and_then(|failure| failure.rpc_code), Some(-32020), "{name}");
        let read = client.request("resources/read", json!({"uri": name}));
        assert_ne!(read.err().and_then(|failure| failure.rpc_code), Some(-32020), "{name}");
    }
    for request in server.requests() {
        assert!(request.header("X-Evil").is_none());
        if let Some(name) = &request.name {
            assert_eq!(request.header("Mcp-Name") == Some(name.as_str()), name == "plain", "{name}");
        }
    }
}

#[test]
fn corner_8_every_task_request_carries_the_capability() {
    let server = lives(vec![json!({"tool": "long", "id": "t", "polls": [
        {"task": ask(&["k"]), "until": "updated"}, {"task": {"statusMessage": "on"}, "until": "cancelled"},
        {"task": {"status": "cancelled"}}]})]);
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    let task = client.task("long", json!({}));
    assert_eq!(task.wait(PATIENCE_MS).0, MCP_E_INPUT_REQUIRED);
    task.update(&json!({"k": {"action": "decline"}})).unwrap();
    until("work to go on", || task.snapshot().message().as_deref() == Some("on"));
    task.cancel();
    task.end();
    for request in server.requests() {
        assert!(request.at(CAPABILITY).is_object(), "{:?}", request.method);
    }
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        assert!(server.count_of(method) > 0, "{method}");
    }
}

#[test]
fn corner_8_a_refusal_for_a_missing_capability_does_not_end_the_task() {
    let refusal =
        json!({"http_status": 400, "error": {"code": -32021, "message": "Missing required client capability"}});
    let server = lives(vec![json!({"tool": "long", "id": "t", "polls": [refusal, done("late")]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("long", json!({}));
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("late"));
    let degraded = client.events.nth(MCP_EVENT_TASK_DEGRADED, 1).failure().unwrap();
    assert_eq!((degraded.rpc_code, degraded.http_status), (Some(-32021), Some(400)));
}

// ---- the time between polls ------------------------------------------------------------------------------------------

#[test]
fn br_35_and_corner_1_no_poll_comes_before_its_time() {
    let life = |tool: &str, interval: Value| {
        json!({"tool": tool, "id": tool, "seed": {"pollIntervalMs": interval},
            "polls": [{"task": {"pollIntervalMs": interval}}, done("x")]})
    };
    let rows = [
        ("absent", json!("$absent"), 1000, None),
        ("zero", json!(0), 1000, None),
        ("negative", json!(-5), 1000, None),
        ("text", json!("soon"), 1000, None),
        ("one", json!(1), 100, Some(1)),
        ("fraction", json!(250.7), 250, Some(250)),
        ("float", json!(500.0), 500, Some(500)),
        ("plain", json!(300), 300, Some(300)),
    ];
    let server = lives(rows.iter().map(|(tool, interval, ..)| life(tool, interval.clone())).collect());
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = rows.iter().map(|(tool, ..)| client.task(tool, json!({}))).collect();
    for (task, (tool, _, least_ms, told)) in tasks.iter().zip(rows) {
        assert_eq!(task.snapshot().number(MCP_SNAPSHOT_POLL_INTERVAL_MS), told, "{tool}");
        assert_eq!(task.end().reason(), "completed", "{tool}");
        let pauses = server.pauses("tasks/get", tool);
        assert_eq!(pauses.len(), 1, "{tool}");
        assert!(first_pause(&server, tool, tool) >= least_ms * 1000, "{tool}: before the first poll");
        assert!(pauses[0] >= least_ms * 1000, "{tool}: {pauses:?}");
    }
}

#[test]
fn br_35_a_changing_interval_counts_from_the_answer_that_told_it() {
    let server = lives(vec![json!({"tool": "moody", "id": "m", "seed": {"pollIntervalMs": 150}, "polls": [
        {"task": {"pollIntervalMs": 500}}, {"task": {"pollIntervalMs": 150}}, {"task": {"pollIntervalMs": 150}},
        done("x")]})]);
    let client = Client::ready(&server, json!({}));
    client.task("moody", json!({})).end();
    let pauses = server.pauses("tasks/get", "m");
    assert!(first_pause(&server, "moody", "m") >= 150_000);
    assert!(pauses[0] >= 500_000 && pauses[1] >= 150_000 && pauses[2] >= 150_000, "{pauses:?}");
}

#[test]
fn br_35_two_tasks_keep_their_own_pace_and_the_hosts_wish_only_slows() {
    let life = |tool: &str, interval: u64| {
        json!({"tool": tool, "id": tool, "seed": {"pollIntervalMs": interval}, "polls": [
            {"task": {"pollIntervalMs": interval}, "times": 3}, done("x")]})
    };
    let server = lives(vec![life("fast", 120), life("slow", 600), life("held_back", 120)]);
    // 100 ms wished for by the host is no reason to poll the slow one faster.
    let client = Client::ready(&server, json!({"tasks": {"min_poll_ms": 100}}));
    let (fast, slow) = (client.task("fast", json!({})), client.task("slow", json!({})));
    let call = client.start("held_back", json!({}), json!({"min_poll_ms": 400}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    for task in [fast, slow, call.task().unwrap()] {
        task.end();
    }
    for (tool, least) in [("fast", 120_000), ("slow", 600_000), ("held_back", 400_000)] {
        let pauses = server.pauses("tasks/get", tool);
        assert!(pauses.len() == 3 && pauses.iter().all(|pause| *pause >= least), "{tool}: {pauses:?}");
        assert!(first_pause(&server, tool, tool) >= least, "{tool}");
    }
}

#[test]
fn br_35_a_cancel_does_not_wait_for_a_far_poll() {
    let life = |tool: &str, interval: Value| json!({"tool": tool, "id": tool, "seed": {"pollIntervalMs": interval}, "polls": [{"task": {}}]});
    let server = lives(vec![life("day", json!(86_400_000)), life("huge", json!(9e15)), life("endless", json!(9e99))]);
    let client = Client::ready(&server, json!({"tasks": {"cancel": "let_go"}}));
    for (tool, least) in [("day", 86_000_000), ("huge", 8_999_999_000_000_000), ("endless", 0)] {
        let task = client.task(tool, json!({}));
        assert!(task.snapshot().number(MCP_SNAPSHOT_NEXT_POLL_MS).unwrap() >= least, "{tool}");
        assert_eq!(task.cancel(), MCP_OK);
        assert_eq!(task.end().reason(), "closed", "{tool}: let go once the server knows");
    }
    assert_eq!((server.count_of("tasks/cancel"), server.count_of("tasks/get")), (3, 0));
}

#[test]
fn corner_1_the_time_to_live_in_all_its_forms() {
    let life = |tool: &str, ttl: Value| json!({"tool": tool, "seed": {"ttlMs": ttl}, "polls": [{"task": {"ttlMs": ttl}}, done("x")]});
    let rows = [
        ("unlimited", json!(null), Some(-1)),
        ("absent", json!("$absent"), None),
        ("fraction", json!(60_000.9), Some(60_000)),
        ("huge", json!(9e15), Some(9_000_000_000_000_000)),
        ("beyond", json!(1e300), None),
        ("zero", json!(0), None),
        ("negative", json!(-1), None),
    ];
    let server = lives(rows.iter().map(|(tool, ttl, _)| life(tool, ttl.clone())).collect());
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = rows.iter().map(|(tool, ..)| client.task(tool, json!({}))).collect();
    for (task, (tool, _, want)) in tasks.iter().zip(rows) {
        assert_eq!(task.snapshot().number(MCP_SNAPSHOT_TTL_MS), want, "{tool}");
        let end = task.end();
        assert_eq!((end.reason(), end.number(MCP_SNAPSHOT_OVERDUE)), ("completed", Some(0)), "{tool}");
    }
}

#[test]
fn corner_2_a_terminal_seed_is_no_endless_poll_and_a_bare_one_waits_its_interval() {
    let server = lives(vec![
        json!({"tool": "whole", "id": "w", "seed": {"status": "completed", "result": {"content": []}}, "polls": [{"http_status": 500}]}),
        json!({"tool": "bare", "id": "b", "seed": {"status": "completed", "pollIntervalMs": 400}, "polls": [done("x")]}),
        json!({"tool": "failed", "id": "f", "seed": {"status": "failed", "pollIntervalMs": 200},
            "polls": [{"task": {"status": "failed", "error": {"code": -32050, "message": "no disk"}}}]}),
        json!({"tool": "cancelled", "id": "c", "seed": {"status": "cancelled"}, "polls": [{"http_status": 500}]}),
    ]);
    let client = Client::ready(&server, json!({}));
    for (tool, id, reason, polls) in [
        ("whole", "w", "completed", 0),
        ("bare", "b", "completed", 1),
        ("failed", "f", "failed", 1),
        ("cancelled", "c", "cancelled", 0),
    ] {
        let end = client.task(tool, json!({})).end();
        assert_eq!((end.reason(), polls_of(&server, id)), (reason, polls), "{tool}");
    }
    assert!(first_pause(&server, "bare", "b") >= 400_000);
    client.events.nth(MCP_EVENT_TASK_DONE, 4);
    // Even where the end is in the seed, the order is the same.
    let all = client.events.all();
    let at = |kind: i32, id: &str| {
        let of = |event: &Event| event.task().is_some_and(|task| task.id() == id);
        all.iter().position(|event| event.kind() == kind && of(event)).unwrap()
    };
    for id in ["w", "b", "f", "c"] {
        assert!(at(MCP_EVENT_TASK_CREATED, id) < at(MCP_EVENT_CALL_DONE, id), "{id}");
        assert!(at(MCP_EVENT_CALL_DONE, id) < at(MCP_EVENT_TASK_DONE, id), "{id}");
    }
}

// ---- expired, lost, endless ------------------------------------------------------------------------------------------

#[test]
fn br_36_a_and_corner_7_a_task_that_the_server_forgot_ends_once_and_is_not_polled_on() {
    let unknown = |status: u16| json!({"http_status": status, "error": {"code": -32602, "message": "Task not found"}});
    let server = lives(vec![
        json!({"tool": "at_400", "id": "x", "polls": [{"task": {}, "times": 2}, unknown(400)]}),
        json!({"tool": "at_200", "id": "y", "polls": [{"task": {}, "times": 2}, unknown(200)]}),
        json!({"tool": "other", "id": "z", "polls": [{"task": {}, "times": 6}, done("x")]}),
    ]);
    let client = Client::ready(&server, json!({}));
    for (tool, id) in [("at_400", "x"), ("at_200", "y")] {
        let task = client.task(tool, json!({}));
        let end = task.end();
        let failure = end.failure().unwrap();
        assert_eq!((end.status(), end.reason()), ("failed", "unknown"), "{tool}");
        assert_eq!((failure.name(), failure.rpc_code), ("MCP_E_TASK_UNKNOWN".to_owned(), Some(-32602)));
        assert_eq!((polls_of(&server, id), task.cancel()), (3, MCP_S_ALREADY_DONE), "{tool}");
    }
    // A while later, still none.
    client.task("other", json!({})).end();
    client.events.nth(MCP_EVENT_TASK_DONE, 3);
    assert_eq!((polls_of(&server, "x"), polls_of(&server, "y"), server.count_of("tasks/cancel")), (3, 3, 0));
}

#[test]
fn corner_7_unknown_right_after_creation_is_forgiven_for_a_while() {
    let unknown = json!({"error": {"code": -32602, "message": "Task not found"}, "times": 2});
    let for_ever = json!({"error": {"code": -32602, "message": "Task not found"}});
    let server = lives(vec![
        json!({"tool": "lagging", "id": "l", "polls": [unknown, done("there")]}),
        json!({"tool": "never", "id": "n", "polls": [for_ever]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let (lagging, never) = (client.task("lagging", json!({})), client.task("never", json!({})));
    assert_eq!(lagging.end().answer().unwrap().text().as_deref(), Some("there"));
    assert_eq!((never.end().reason(), polls_of(&server, "n")), ("unknown", 3));
    assert!(server.pauses("tasks/get", "n").iter().all(|pause| *pause >= 100_000), "paced in its grace, too");
}

#[test]
fn corner_7_unknown_after_the_time_to_live_is_expired() {
    let server = lives(vec![json!({"tool": "old", "id": "o", "seed": {"ttlMs": 250}, "polls": [
        {"task": {"ttlMs": 250}, "until": "completed"}, {"error": {"code": -32602, "message": "Task not found"}}]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("old", json!({}));
    assert_eq!(client.events.nth(MCP_EVENT_TASK_OVERDUE, 1).snapshot().unwrap().number(MCP_SNAPSHOT_OVERDUE), Some(1));
    assert!(server.complete("o"));
    let end = task.end();
    assert_eq!((end.status(), end.reason(), end.failure().unwrap().status), ("failed", "expired", MCP_E_TASK_EXPIRED));
}

#[test]
fn br_36_b_an_overdue_task_is_told_once_and_followed_on() {
    let server = lives(vec![json!({"tool": "endless", "id": "e", "seed": {"ttlMs": 300}, "polls": [
        {"task": {"ttlMs": 300}, "until": "completed"}, done("late")]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("endless", json!({}));
    client.events.nth(MCP_EVENT_TASK_OVERDUE, 1);
    let polls = polls_of(&server, "e");
    assert!(server.wait_requests("tasks/get", polls + 2, PATIENCE), "followed on");
    server.complete("e");
    let end = task.end();
    assert_eq!((end.reason(), end.answer().unwrap().text().as_deref()), ("completed", Some("late")));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert_eq!(client.events.of(MCP_EVENT_TASK_OVERDUE).len(), 1);
}

#[test]
fn br_36_b_with_ttl_stop_it_ends_at_its_time() {
    let server =
        lives(vec![json!({"tool": "endless", "id": "e", "seed": {"ttlMs": 500}, "polls": [{"task": {"ttlMs": 500}}]})]);
    let client = Client::ready(&server, json!({"tasks": {"ttl": "stop"}}));
    let begun = now_ms();
    let task = client.task("endless", json!({}));
    let end = task.end();
    assert!(now_ms() - begun >= 500, "never early");
    assert_eq!((end.status(), end.reason(), end.failure().unwrap().status), ("failed", "expired", MCP_E_TASK_EXPIRED));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert!(client.events.of(MCP_EVENT_TASK_OVERDUE).is_empty());
}

#[test]
fn br_36_c_d_e_f_results_come_whatever_the_clocks_say() {
    let steps = |ttl: Value| vec![json!({"task": {"ttlMs": ttl}, "times": 3}), done("x")];
    let server = lives(vec![
        json!({"tool": "c", "seed": {"ttlMs": null}, "polls": steps(json!(null))}),
        json!({"tool": "d", "seed": {"ttlMs": 200}, "polls": steps(json!(10_000))}),
        json!({"tool": "e_behind", "seed": {"ttlMs": 60_000, "createdAt": "2001-01-01T00:00:00Z"}, "polls": steps(json!(60_000))}),
        json!({"tool": "e_ahead", "seed": {"ttlMs": 60_000, "createdAt": "2099-01-01T00:00:00Z"}, "polls": steps(json!(60_000))}),
        json!({"tool": "f", "seed": {"ttlMs": "$absent"}, "polls": steps(json!("$absent"))}),
    ]);
    // The strictest setting: only a time to live that has really passed may end a task.
    let client = Client::ready(&server, json!({"tasks": {"ttl": "follow"}}));
    let tools = ["c", "d", "e_behind", "e_ahead", "f"];
    let tasks: Vec<Task> = tools.iter().map(|tool| client.task(tool, json!({}))).collect();
    for (task, tool) in tasks.iter().zip(tools) {
        assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("x"), "{tool}");
    }
    let strict = Client::ready(&server, json!({"tasks": {"ttl": "stop"}}));
    for tool in ["c", "e_behind", "e_ahead", "f"] {
        assert_eq!(strict.task(tool, json!({})).end().reason(), "completed", "{tool}");
    }
}

#[test]
fn br_36_g_and_corner_12_a_cancel_is_cooperative() {
    let server = lives(vec![json!({"tool": "stubborn", "id": "s", "polls": [
        {"task": {"statusMessage": "busy"}, "until": "cancelled"}, {"task": {}, "times": 2}, done("finished")]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("stubborn", json!({}));
    assert_eq!((task.cancel(), task.cancel()), (MCP_OK, MCP_S_ALREADY_DONE), "asked twice, sent once");
    let end = task.end();
    assert_eq!((end.reason(), end.answer().unwrap().text().as_deref()), ("completed", Some("finished")));
    assert_eq!((task.cancel(), server.count_of("tasks/cancel")), (MCP_S_ALREADY_DONE, 1));
    assert_eq!(server.count_of("notifications/cancelled"), 0);
}

#[test]
fn corner_12_a_cancel_that_fails_is_told_or_sent_again() {
    let refused = json!({"error": {"code": -32602, "message": "too late"}});
    let server = lives(vec![
        json!({"tool": "refused", "id": "r", "polls": [{"task": {}, "until": "completed"}, done("x")], "cancels": [refused]}),
        json!({"tool": "lost", "id": "l", "polls": [{"task": {}, "until": "cancelled"}, {"task": {}, "until": "cancelled"}, {"task": {"status": "cancelled"}}],
            "cancels": [{"reset": true}, {}]}),
        json!({"tool": "let", "id": "g", "polls": [{"task": {}}], "cancels": [{"http_status": 503}, {}]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let (refused, lost) = (client.task("refused", json!({})), client.task("lost", json!({})));
    assert_eq!((refused.cancel(), lost.cancel()), (MCP_OK, MCP_OK));
    let told = client.events.nth(MCP_EVENT_ERROR, 1);
    assert_eq!((told.task().unwrap().id().as_str(), told.failure().unwrap().rpc_code), ("r", Some(-32602)));
    // "Unknown" to a cancel is no verdict on the task.
    server.complete("r");
    assert_eq!((refused.end().reason(), lost.end().reason()), ("completed", "cancelled"));
    assert_eq!(server.requests_of("tasks/cancel").iter().filter(|sent| sent.name.as_deref() == Some("l")).count(), 2);
    let let_go = Client::ready(&server, json!({"tasks": {"cancel": "let_go"}}));
    let task = let_go.task("let", json!({}));
    task.cancel();
    assert_eq!(task.end().reason(), "closed");
    assert_eq!(server.requests_of("tasks/cancel").iter().filter(|sent| sent.name.as_deref() == Some("g")).count(), 2);
}

#[test]
fn corner_12_cancel_and_completion_race_to_one_end() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let jobs = json!({"steps": 2, "step_ms": 60, "poll_ms": 100});
    let tasks: Vec<Task> = (0..8).map(|_| client.task("slow_job", jobs.clone())).collect();
    for task in &tasks {
        task.cancel();
    }
    for task in &tasks {
        assert!(matches!(task.end().reason(), "completed" | "cancelled"));
    }
    client.events.nth(MCP_EVENT_TASK_DONE, 8);
    let mut ids: Vec<String> = client.events.of(MCP_EVENT_TASK_DONE).iter().map(|e| e.task().unwrap().id()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8, "one end for each");
}

// ---- how tasks end -----------------------------------------------------------------------------------------------------

#[test]
fn br_39_and_corner_9_each_end_arrives_as_what_it_is() {
    let error = json!({"code": -32050, "message": "no disk", "data": {"free": 0, "big": 9007199254740993_i64}});
    let server = lives(vec![
        json!({"tool": "a", "id": "a", "polls": [{"task": {"status": "failed", "statusMessage": "gave up", "error": error}}]}),
        json!({"tool": "b", "id": "b", "polls": [{"task": {"status": "completed", "result":
            {"isError": true, "content": [{"type": "text", "text": "bad input"}]}}}]}),
        json!({"tool": "c", "id": "c", "polls": [{"task": {"status": "failed", "statusMessage": "words"}}]}),
        json!({"tool": "d", "id": "d", "polls": [{"task": {"status": "completed"}}]}),
        json!({"tool": "e", "id": "e", "polls": [{"task": {"status": "cancelled", "statusMessage": "by the operator"}}]}),
        json!({"tool": "f", "id": "f", "seed": {"status": "completed", "result": {"content": []}}, "polls": [{"task": {}}]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let ends: Vec<Snapshot> = {
        let tasks: Vec<Task> = ["a", "b", "c", "d", "e", "f"].map(|tool| client.task(tool, json!({}))).into();
        tasks.iter().map(Task::end).collect()
    };
    let [a, b, c, d, e, f] = ends.try_into().unwrap();
    let failure = a.failure().unwrap();
    assert_eq!((a.status(), a.reason(), a.message().as_deref()), ("failed", "failed", Some("gave up")));
    assert_eq!(
        (failure.status, failure.rpc_code, failure.rpc_message.as_deref()),
        (MCP_E_TASK_FAILED, Some(-32050), Some("no disk"))
    );
    assert_eq!(failure.rpc_data.as_deref(), Some("{\"free\":0,\"big\":9007199254740993}"), "byte for byte");
    assert!(a.answer().is_none());
    let answer = b.answer().unwrap();
    assert_eq!((b.reason(), answer.is_error(), answer.text().as_deref()), ("completed", true, Some("bad input")));
    assert!(b.failure().is_none(), "a tool's own error is a result");
    assert_eq!((c.reason(), c.failure().unwrap().status), ("failed", MCP_E_TASK_FAILED));
    assert!(c.failure().unwrap().message.contains("words"));
    assert_eq!((d.status(), d.reason()), ("failed", "failed"));
    assert!(d.failure().unwrap().message.contains("no result"), "{:?}", d.failure());
    assert!(polls_of(&server, "d") <= 3, "no endless poll");
    assert_eq!((e.status(), e.reason(), e.message().as_deref()), ("cancelled", "cancelled", Some("by the operator")));
    assert_eq!(e.failure().unwrap().status, MCP_E_TASK_CANCELLED);
    assert_eq!((f.reason(), polls_of(&server, "f")), ("completed", 0));
}

#[test]
fn br_39_the_one_call_convenience_reports_the_same() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let failure = client.run("fail_job", json!({"steps": 1})).unwrap_err();
    assert_eq!((failure.status, failure.rpc_code), (MCP_E_TASK_FAILED, Some(-32050)));
    assert_eq!(client.run("cancelled_job", json!({"steps": 1})).unwrap_err().status, MCP_E_TASK_CANCELLED);
    assert!(client.run("tool_error_job", json!({"steps": 1})).unwrap().is_error());
    assert!(!client.run("slow_job", json!({"steps": 1})).unwrap().is_error());
}

#[test]
fn br_39_g_and_corner_9_an_unknown_status_is_followed_on_slowly() {
    let server = lives(vec![json!({"tool": "g", "id": "g", "polls": [
        {"task": {"status": "paused"}, "times": 2}, done("awake")]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("g", json!({}));
    let degraded = client.events.nth(MCP_EVENT_TASK_DEGRADED, 1).failure().unwrap();
    assert!(degraded.message.contains("paused"), "{degraded:?}");
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("awake"));
    let pauses = server.pauses("tasks/get", "g");
    assert!(pauses.iter().all(|pause| *pause >= 1_000_000), "no busy loop: {pauses:?}");
    client.events.nth(MCP_EVENT_TASK_RECOVERED, 1);
    // For the call itself an unknown status is an answer that cannot be followed.
    let server = lives(vec![json!({"tool": "g", "seed": {"status": "paused"}, "polls": [{"task": {}}]})]);
    let client = Client::ready(&server, json!({}));
    let failure = client.run("g", json!({})).unwrap_err();
    assert_eq!(failure.status, MCP_E_MALFORMED);
    assert!(failure.message.contains("paused"), "{failure:?}");
}

#[test]
fn br_39_h_and_corner_10_a_task_as_another_requests_answer_is_invalid_and_never_polled() {
    let seed = json!({"result": {"resultType": "task", "taskId": "t-9", "status": "working", "createdAt": "2026-11-30T10:00:00Z",
        "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": 60000, "pollIntervalMs": 1}});
    let rules = ["prompts/get", "resources/read", "tools/list", "resources/list", "completion/complete"]
        .iter()
        .fold(Script::new(), |script, method| script.rule(json!({"match": {"method": method}, "do": seed})));
    let server = TestServer::start(rules);
    let client = Client::ready(&server, json!({}));
    for (method, params) in [
        ("prompts/get", json!({"name": "p"})),
        ("resources/read", json!({"uri": "test://r"})),
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("completion/complete", json!({})),
    ] {
        assert_eq!(client.request(method, params).expect_err(method).status, MCP_E_MALFORMED, "{method}");
    }
    assert_eq!(client.list_tools().unwrap_err().status, MCP_E_MALFORMED);
    client.run("progress", json!({"n": 3, "gap_ms": 100})).unwrap();
    assert_eq!((server.count_of("tasks/get"), client.tasks("").unwrap()), (0, json!([])));
}

#[test]
fn corner_10_a_task_where_none_was_declared_is_invalid() {
    let seed = json!({"result": {"resultType": "task", "taskId": "t-9", "status": "working"}});
    let server = TestServer::start(Script::new().rule(json!({"match": {"method": "tools/call"}, "do": seed})));
    let client = Client::ready(&server, json!({"tasks": {"enabled": false}}));
    assert_eq!(client.run("echo", json!({})).unwrap_err().status, MCP_E_MALFORMED);
    assert!(server.requests().iter().all(|request| request.at(CAPABILITY).is_null()));
    assert_eq!(server.count_of("tasks/get"), 0);
}

#[test]
fn corner_9_result_types_of_a_poll() {
    let finished = |result_type: Value| json!({"task": {"resultType": result_type, "status": "completed", "result": {"content": [{"type": "text", "text": "x"}]}}});
    let server = lives(vec![
        json!({"tool": "task", "id": "1", "polls": [finished(json!("task"))]}),
        json!({"tool": "absent", "id": "2", "polls": [finished(json!("$absent"))]}),
        json!({"tool": "null", "id": "3", "polls": [finished(json!(null))]}),
        json!({"tool": "unknown", "id": "4", "polls": [finished(json!("novel")), finished(json!("complete"))]}),
        json!({"tool": "another", "id": "5", "polls": [{"task": {"taskId": "not-5", "status": "completed", "result": {"content": []}}}, finished(json!("task"))]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let tools = ["task", "absent", "null", "unknown", "another"];
    let tasks: Vec<Task> = tools.iter().map(|tool| client.task(tool, json!({}))).collect();
    for (task, tool) in tasks.iter().zip(tools) {
        assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("x"), "{tool}");
    }
    assert_eq!(["1", "2", "3", "4", "5"].map(|id| polls_of(&server, id)), [1, 1, 1, 2, 2]);
}

// ---- troubles on the way ------------------------------------------------------------------------------------------------

#[test]
fn corner_6_polling_survives_each_trouble_and_paces_itself() {
    let retry = json!({"Retry-After": "2"});
    let rows = [
        ("too_many", json!({"http_status": 429}), 1_000),
        ("too_many_told", json!({"http_status": 429, "headers": retry}), 2_000),
        ("bad_gateway", json!({"http_status": 502}), 1_000),
        ("busy", json!({"http_status": 503}), 1_000),
        ("busy_told", json!({"http_status": 503, "headers": retry}), 2_000),
        (
            "truncated",
            json!({"body": "{\"jsonrpc\": \"2.0\", \"id\": $id, \"result\": {", "headers": {"Content-Type": "application/json"}}),
            1_000,
        ),
        ("not_there", json!({"http_status": 404}), 1_000),
        ("html", json!({"headers": {"Content-Type": "text/html"}, "body": "<p>sign in"}), 1_000),
        ("internal", json!({"error": {"code": -32603, "message": "Internal error"}}), 1_000),
    ];
    let life = |(tool, trouble, _): &(&str, Value, u64)| json!({"tool": tool, "id": tool, "polls": [trouble, {"task": {}}, done("x")]});
    let server = lives(rows.iter().map(life).collect());
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = rows.iter().map(|(tool, ..)| client.task(tool, json!({}))).collect();
    for (task, (tool, _, least)) in tasks.iter().zip(&rows) {
        assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("x"), "{tool}");
        let pauses = server.pauses("tasks/get", tool);
        assert!(pauses.len() == 2 && pauses[0] >= least * 1000, "{tool}: {pauses:?}");
    }
    client.events.nth(MCP_EVENT_TASK_DONE, rows.len());
    for (kind, of) in [(MCP_EVENT_TASK_DEGRADED, "degraded"), (MCP_EVENT_TASK_RECOVERED, "recovered")] {
        assert_eq!(client.events.of(kind).len(), rows.len(), "{of} once each");
    }
}

#[test]
fn corner_6_a_poll_that_breaks_on_the_wire_is_made_again() {
    let server = lives(vec![
        json!({"tool": "reset", "id": "r", "polls": [{"reset": true, "times": 3}, done("x")]}),
        json!({"tool": "cut", "id": "c", "polls": [{"cut_body_after": 20, "times": 3}, done("x")]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let (reset, cut) = (client.task("reset", json!({})), client.task("cut", json!({})));
    assert_eq!((reset.end().reason(), cut.end().reason()), ("completed", "completed"));
    // Each poll is a new request, also where it is one more try.
    let mut ids: Vec<String> = server.requests_of("tasks/get").iter().map(|poll| poll.at("/id").to_string()).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), count), (8, 8));
}

#[test]
fn corner_6_a_server_that_is_away_for_a_while_costs_no_task() {
    let life = json!({"tool": "job", "id": "j", "polls": [{"task": {}}]});
    let server = lives(vec![life]);
    let port = server.address().port();
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    drop(server);
    let degraded = client.events.nth(MCP_EVENT_TASK_DEGRADED, 1);
    assert_eq!(degraded.failure().unwrap().status, MCP_E_CONNECT, "{:?}", degraded.failure());
    assert_eq!(task.snapshot().failure().unwrap().status, MCP_E_CONNECT, "told in the snapshot, too");
    // The same address, another process: it knows the task, as a server with a store would.
    let back = Script::new()
        .rule(json!({"match": {"method": "tasks/get"}, "do": {"result": {"taskId": "j", "status": "completed",
        "result": {"content": [{"type": "text", "text": "kept"}]}}}}));
    let server = TestServer::start_at(back, port, false).unwrap();
    client.poke();
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("kept"));
    drop(server);
}
