//! The server without a script.
#![allow(missing_docs, clippy::unwrap_used)]

mod client;

use client::{Client, PATIENCE};
use mcp_test_server::{Script, TestServer};
use serde_json::{Value, json};

fn start() -> (TestServer, Client) {
    let server = TestServer::start(Script::new());
    let client = Client::connect(&server);
    (server, client)
}

#[test]
fn one_connection_carries_many_requests_and_all_are_recorded() {
    let (server, mut client) = start();
    let found = client.ask("server/discover", json!({}));
    assert_eq!(found.status, 200);
    assert_eq!(found.json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    let echo = client.call("echo", json!({"n": 12345678901234567890123456789u128.to_string()}));
    assert_eq!(echo.json()["result"]["structuredContent"]["n"], "12345678901234567890123456789");
    let record = server.requests();
    assert_eq!(record.len(), 2);
    assert_eq!((record[1].connection, record[1].reads), (1, 1));
    assert_eq!(record[1].header("mcp-name"), Some("echo"));
    assert_eq!(record[1].at("/params/arguments/n"), "12345678901234567890123456789");
    assert_eq!((server.accepted(), server.count_of("tools/call")), (1, 1));
}

#[test]
fn refusals_carry_their_status() {
    let (_server, mut client) = start();
    let rows = [
        ("tools/unknown", json!({}), 404, -32601),
        ("tools/call", json!({"name": "nobody"}), 400, -32602),
        ("tasks/get", json!({"taskId": "nobody"}), 400, -32602),
        ("tools/call", json!({"name": "headers", "arguments": {"region": "eu"}}), 400, -32020),
    ];
    for (method, params, status, code) in rows {
        let answer = client.ask(method, params);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (status, &json!(code)), "{method}");
    }
    client.raw("GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 405);
    client.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 403);
}

#[test]
fn a_task_asks_and_ends_with_the_answer() {
    let (_server, mut client) = start();
    let seed = client.call("slow_job", json!({"steps": 2, "step_ms": 0, "ask": true, "ttl_ms": null})).json();
    let id = seed["result"]["taskId"].clone();
    assert_eq!((&seed["result"]["resultType"], &seed["result"]["ttlMs"]), (&json!("task"), &Value::Null));
    let asking = client.ask("tasks/get", json!({"taskId": id})).json();
    assert_eq!(asking["result"]["status"], "input_required");
    let answer = json!({"ask-1": {"action": "accept", "content": {"value": "blue"}}});
    client.ask("tasks/update", json!({"taskId": id, "inputResponses": answer}));
    let done = client.ask("tasks/get", json!({"taskId": id})).json();
    assert_eq!(done["result"]["status"], "completed");
    assert!(done["result"]["result"]["content"][0]["text"].as_str().unwrap().contains("blue"));
}

#[test]
fn a_subscription_hears_of_tasks_and_lists() {
    let (server, mut client) = start();
    let seed = client.call("slow_job", json!({"steps": 1, "step_ms": 3_600_000})).json();
    let id = seed["result"]["taskId"].as_str().unwrap().to_owned();
    client.send("subscriptions/listen", json!({"notifications": {"taskIds": [id, "x"], "toolsListChanged": true}}));
    let acknowledged = client.event().unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]));
    server.announce("tools");
    assert_eq!(client.event().unwrap()["method"], "notifications/tools/list_changed");
    assert!(server.complete(&id));
    let push = client.event().unwrap();
    assert_eq!((&push["method"], &push["params"]["status"]), (&json!("notifications/tasks"), &json!("completed")));
    assert_eq!(push["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    server.end_streams(true);
    assert_eq!(client.event().unwrap()["result"]["resultType"], "complete");
}

#[test]
fn a_client_that_leaves_is_seen() {
    let (server, mut client) = start();
    client.send("tools/call", json!({"name": "sleep", "arguments": {"ms": 3_600_000}}));
    assert!(server.wait_requests("tools/call", 1, PATIENCE));
    drop(client);
    assert!(server.wait_for(|record| record[0].closed_early, PATIENCE));
    assert_eq!(server.requests()[0].status, None);
}

#[test]
fn lists_come_in_pages() {
    let server = TestServer::start(Script::new().options(json!({"page_size": 4, "extra_tools": 3, "builtin_tools": false,
        "tools": [{"name": "own", "inputSchema": {"type": "object"}}, {"name": "two", "inputSchema": {"type": "object"}}]})));
    let mut client = Client::connect(&server);
    let first = client.ask("tools/list", json!({})).json();
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 4);
    let second = client.ask("tools/list", json!({"cursor": first["result"]["nextCursor"]})).json();
    assert_eq!((second["result"]["tools"].as_array().unwrap().len(), second["result"].get("nextCursor")), (1, None));
}

#[test]
fn the_control_door_opens_over_http() {
    let (server, mut client) = start();
    client.call("count", json!({}));
    client.raw("GET /_control/counters HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let counters = client.read().unwrap().json();
    assert_eq!((&counters["counters"]["count"], server.counter("count")), (&json!(1), 1));
    client.raw("GET /_control/requests HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.read().unwrap().json()[0]["method"], "tools/call");
    client.raw("POST /_control/quit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 200);
    assert!(server.wait_quit(PATIENCE));
}

#[test]
fn pauses_are_measured_from_the_answer() {
    let (server, mut client) = start();
    let seed = client.call("slow_job", json!({"steps": 1, "step_ms": 3_600_000})).json();
    let id = seed["result"]["taskId"].as_str().unwrap().to_owned();
    for _ in 0..3 {
        client.ask("tasks/get", json!({"taskId": id}));
    }
    assert_eq!(server.pauses("tasks/get", &id).len(), 2);
    assert!(server.pauses("tasks/get", &id).iter().all(|pause| *pause < 20_000_000));
}

#[test]
fn a_broken_network_breaks_waits_and_idle_connections() {
    let (server, mut waiting) = start();
    let mut idle = Client::connect(&server);
    idle.call("echo", json!({}));
    waiting.send("tools/call", json!({"name": "sleep", "arguments": {"ms": 3_600_000}}));
    assert!(server.wait_requests("tools/call", 2, PATIENCE));
    server.cut_connections();
    assert!(waiting.read().is_none() && idle.read().is_none());
    assert_eq!(Client::connect(&server).call("echo", json!({})).status, 200);
}

#[test]
fn the_other_loopback_address_works_where_there_is_one() {
    let script = Script::new().options(json!({"host": "::1"}));
    let Ok(server) = TestServer::start_at(script, 0, false) else {
        return;
    };
    assert!(server.url().starts_with("http://[::1]:"));
    assert_eq!(Client::connect(&server).call("echo", json!({})).status, 200);
}

#[test]
fn many_connections_and_tasks_at_once() {
    let server = TestServer::start(Script::new());
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut client = Client::connect(&server);
                for _ in 0..50 {
                    let seed = client.call("slow_job", json!({"steps": 0})).json();
                    let id = seed["result"]["taskId"].clone();
                    let done = client.ask("tasks/get", json!({"taskId": id})).json();
                    assert_eq!(done["result"]["status"], "completed");
                    client.call("count", json!({}));
                }
            });
        }
    });
    assert_eq!((server.counter("count"), server.count_of("tasks/get"), server.accepted()), (1600, 1600, 32));
}
