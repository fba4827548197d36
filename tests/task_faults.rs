//! Tasks at servers that fail now and then, change, or look alike: no task is lost, none ends wrongly.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;

const POLL_MS: u64 = 100;

fn done(text: &str) -> Value {
    json!({"task": {"status": "completed", "result": {"content": [{"type": "text", "text": text}]}}})
}

/// Ten ways to fail a poll.
fn ten_ways() -> [Value; 10] {
    let body = |text: &str, kind: &str| json!({"body": text, "headers": {"Content-Type": kind}});
    [
        // A lost poll is asked once more at once, so it is lost twice.
        json!({"reset": true, "times": 2}),
        json!({"cut_body_after": 20, "times": 2}),
        json!({"http_status": 500}),
        json!({"http_status": 502}),
        json!({"http_status": 503, "headers": {"Retry-After": "1"}}),
        json!({"http_status": 429}),
        body("{\"jsonrpc\": \"2.0\", \"id\": $id, \"result\": {", "application/json"),
        json!({"id": "other", "task": {"status": "completed", "result": {"content": []}}}),
        json!({"error": {"code": -32603, "message": "Internal error"}}),
        json!({"never": true}),
    ]
}

#[test]
fn one_poll_in_ten_fails_in_ten_ways_and_no_task_is_lost() {
    let ways = ten_ways();
    let html = json!({"body": "<html><p>Please sign in", "headers": {"Content-Type": "text/html"}});
    let life = |n: usize| {
        let mut polls = vec![json!({"task": {}}); 16];
        // Not all at the same moment, so that one server is not as good as dead.
        polls.insert(9 + n / 2, if n == 5 { html.clone() } else { ways[(n + 5) % 10].clone() });
        polls.insert(1 + n / 2, ways[n].clone());
        polls.push(done(&format!("result {n}")));
        json!({"tool": format!("job{n}"), "id": format!("t{n}"), "seed": {"pollIntervalMs": POLL_MS}, "polls": polls})
    };
    let server = TestServer::start((0..10).map(life).fold(Script::new(), Script::task));
    let client = Client::ready(&server, json!({"timeouts": {"total_ms": 1_000}}));
    let tasks: Vec<Task> = (0..10).map(|n| client.task(&format!("job{n}"), json!({}))).collect();
    for (n, task) in tasks.iter().enumerate() {
        let end = task.end();
        assert_eq!(end.reason(), "completed", "task {n}: {:?}", end.failure());
        assert_eq!(end.answer().unwrap().text(), Some(format!("result {n}")));
        assert!(server.requests_of("tasks/get").iter().filter(|poll| poll.name == Some(format!("t{n}"))).count() >= 19);
    }
    client.events.nth(MCP_EVENT_TASK_DONE, 10);
    assert!(client.events.of(MCP_EVENT_TASK_DEGRADED).len() >= 10, "the faults were felt");
    assert_eq!(
        client.events.of(MCP_EVENT_TASK_DEGRADED).len(),
        client.events.of(MCP_EVENT_TASK_RECOVERED).len(),
        "and each was over"
    );
}

#[test]
fn the_tasks_of_a_dead_server_share_its_backoff_and_come_back_together() {
    let lives = (0..40).fold(Script::new(), |script, n| {
        let polls = json!([{"http_status": 502, "until": "completed"}, done("kept")]);
        let (tool, id) = (format!("job{n}"), format!("t{n}"));
        script.task(json!({"tool": tool, "id": id, "seed": {"pollIntervalMs": POLL_MS}, "polls": polls}))
    });
    let server = TestServer::start(lives);
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = (0..40).map(|n| client.task(&format!("job{n}"), json!({}))).collect();
    // All are told, though few have asked: five in a row, those that were on their way meanwhile, and the probes.
    client.events.nth(MCP_EVENT_TASK_DEGRADED, 40);
    let asked = server.count_of("tasks/get");
    assert!(asked < 40, "{asked}");
    for n in 0..40 {
        assert!(server.complete(&format!("t{n}")));
    }
    client.poke();
    for task in &tasks {
        assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("kept"));
    }
}

#[test]
fn corner_15_the_same_id_of_two_servers_is_two_tasks() {
    let server_of = |text: &str| {
        let life = json!({"tool": "job", "id": "same", "seed": {"pollIntervalMs": POLL_MS}, "polls": [{"task": {}}, done(text)]});
        TestServer::start(Script::new().task(life))
    };
    let (left, right) = (server_of("left"), server_of("right"));
    let (to_left, to_right) = (Client::ready(&left, json!({})), Client::ready(&right, json!({})));
    let (one, other) = (to_left.task("job", json!({})), to_right.task("job", json!({})));
    assert_eq!((one.id(), other.id()), ("same".to_owned(), "same".to_owned()));
    assert_eq!(one.end().answer().unwrap().text().as_deref(), Some("left"));
    assert_eq!(other.end().answer().unwrap().text().as_deref(), Some("right"));
    for (client, server) in [(&to_left, &left), (&to_right, &right)] {
        client.events.nth(MCP_EVENT_TASK_DONE, 1);
        assert_eq!((client.events.of(MCP_EVENT_TASK_DONE).len(), server.count_of("tasks/get")), (1, 2));
    }
}

/// What a server says to a poll while a token is exchanged, or after it has gone back to an older era, is no verdict on
/// the task.
#[test]
fn corner_15_a_token_or_an_era_that_changes_between_polls_costs_no_task() {
    let refusal = |code: i64, data: Value| json!({"code": code, "message": "not now", "data": data});
    let rows = [
        ("token", json!({"http_status": 401, "headers": {"WWW-Authenticate": "Bearer error=\"invalid_token\""}})),
        ("scope", json!({"http_status": 403, "headers": {"WWW-Authenticate": "Bearer error=\"insufficient_scope\""}})),
        (
            "version",
            json!({"http_status": 400, "error": refusal(-32022, json!({"supported": ["2025-11-25"], "requested": "2026-07-28"}))}),
        ),
        ("no_session", json!({"http_status": 400, "error": refusal(-32000, Value::Null)})),
        ("no_method", json!({"http_status": 404, "error": refusal(-32601, Value::Null)})),
        ("invalid", json!({"http_status": 400, "error": refusal(-32600, Value::Null)})),
    ];
    let life = |(tool, answer): &(&str, Value)| json!({"tool": tool, "id": tool, "seed": {"pollIntervalMs": POLL_MS}, "polls": [answer, {"task": {}}, done(tool)]});
    let server = TestServer::start(rows.iter().map(life).fold(Script::new(), Script::task));
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = rows.iter().map(|(tool, _)| client.task(tool, json!({}))).collect();
    for (task, (tool, _)) in tasks.iter().zip(&rows) {
        let end = task.end();
        assert_eq!(end.reason(), "completed", "{tool}: {:?}", end.failure());
        assert_eq!(end.answer().unwrap().text().as_deref(), Some(*tool));
    }
    client.events.nth(MCP_EVENT_TASK_DONE, rows.len());
    assert_eq!(client.events.of(MCP_EVENT_TASK_DEGRADED).len(), rows.len(), "each was told once");
    assert_eq!(server.count_of("tools/call"), rows.len(), "no call was sent twice");
}
