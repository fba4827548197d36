//! Each kind of misbehaviour, as a client sees it.
#![allow(missing_docs, clippy::unwrap_used)]

mod client;

use client::{Client, PATIENCE};
use mcp_test_server::{Script, TestServer};
use serde_json::{Value, json};

/// A server whose answer to every `tools/call` is treated so.
fn doing(action: Value) -> (TestServer, Client) {
    started(Script::new().rule(json!({"match": {"method": "tools/call"}, "do": action})))
}

fn started(script: Script) -> (TestServer, Client) {
    let server = TestServer::start(script);
    let client = Client::connect(&server);
    (server, client)
}

fn count(client: &mut Client) {
    client.send("tools/call", json!({"name": "count", "arguments": {}}));
}

#[test]
fn a_refusal_does_no_work() {
    let (server, mut client) = doing(json!({"http_status": 429, "headers": {"Retry-After": "2"}}));
    count(&mut client);
    let answer = client.read().unwrap();
    assert_eq!((answer.status, answer.body.len(), server.counter("count")), (429, 0, 0));
    assert!(answer.head.contains("Retry-After: 2\r\n"));
}

#[test]
fn results_and_errors_are_verbatim() {
    let (_server, mut client) = doing(json!({"result": {"mine": ["$name", "$id"]}}));
    assert_eq!(
        client.call("echo", json!({})).json(),
        json!({"jsonrpc": "2.0", "id": 7, "result": {"mine": ["echo", 7]}})
    );
    let (_server, mut client) = doing(json!({"error": {"code": -32603, "message": "n$n"}, "id": "string"}));
    let answer = client.call("echo", json!({})).json();
    assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!("7"), &json!("n1")));
}

#[test]
fn a_patch_bends_the_usual_answer() {
    let (_server, mut client) = doing(json!({"patch": {"resultType": "$absent", "new": 1}, "id": "other"}));
    let answer = client.call("echo", json!({})).json();
    assert_eq!((answer["result"].get("resultType"), &answer["result"]["new"]), (None, &json!(1)));
    assert_ne!(answer["id"], json!(7));
}

#[test]
fn an_answer_can_be_cut_after_the_work_was_done() {
    let (server, mut client) = doing(json!({"cut_body_after": 5}));
    count(&mut client);
    let (bytes, in_order) = client.rest();
    let text = String::from_utf8(bytes).unwrap();
    assert!(in_order && text.ends_with("\r\n\r\n{\"jso"), "{text}");
    assert_eq!(server.counter("count"), 1);
}

#[test]
fn a_connection_can_be_reset_before_and_after_a_request() {
    let (server, mut client) = doing(json!({"reset": true}));
    count(&mut client);
    assert_eq!(client.rest(), (Vec::new(), false));
    assert_eq!(server.counter("count"), 0);
    let (server, mut client) = doing(json!({"reset": true, "run": true}));
    count(&mut client);
    assert_eq!((client.rest().1, server.counter("count")), (false, 1));
    let (server, mut client) =
        started(Script::new().rule(json!({"match": {"accept": true, "nth": 1}, "do": {"reset": true}})));
    assert!(!client.rest().1);
    assert_eq!(Client::connect(&server).call("echo", json!({})).status, 200);
}

#[test]
fn a_kept_connection_can_be_closed_with_and_without_a_word() {
    let (_server, mut client) = doing(json!({"then": "close_silently"}));
    let answer = client.call("echo", json!({}));
    assert!(answer.status == 200 && !answer.head.contains("Connection: close"));
    assert_eq!(client.rest(), (Vec::new(), true));
    let (_server, mut client) = doing(json!({"then": "close"}));
    assert!(client.call("echo", json!({})).head.contains("Connection: close"));
    assert_eq!(client.rest(), (Vec::new(), true));
}

#[test]
fn lengths_lie_and_bytes_follow() {
    let (_server, mut client) =
        doing(json!({"body": "{}", "content_length": 1, "extra": "HTTP/1.1 200 OK\r\n", "then": "close_silently"}));
    let answer = client.call("echo", json!({}));
    assert_eq!(answer.body, b"{");
    assert_eq!(client.rest().0, b"}HTTP/1.1 200 OK\r\n");
}

#[test]
fn framing_is_as_told() {
    let (_server, mut client) = doing(json!({"framing": "chunked", "slice_bytes": 3}));
    let answer = client.call("echo", json!({}));
    assert!(answer.head.contains("Transfer-Encoding: chunked") && answer.json()["result"].is_object());
    let (_server, mut client) = doing(json!({"framing": "close", "result": {}}));
    client.send("tools/call", json!({"name": "echo"}));
    assert!(String::from_utf8(client.rest().0).unwrap().ends_with("\"result\":{}}"));
}

#[test]
fn an_answer_is_held_until_released() {
    let (server, mut client) = doing(json!({"hold": true}));
    count(&mut client);
    assert!(server.wait_held(1, PATIENCE));
    assert_eq!((server.counter("count"), server.held()), (0, 1));
    server.release();
    assert_eq!(client.read().unwrap().status, 200);
    assert_eq!(server.counter("count"), 1);
}

#[test]
fn a_stream_is_written_frame_by_frame() {
    let frames = json!([
        {"comment": "hi"},
        {"event": "message", "id": "e1", "retry": 5, "message": {"jsonrpc": "2.0", "method": "notifications/x"}},
        {"progress": {"progress": 1}},
        "data: {\"raw\":$id}\n\n",
        {"hold": "last", "result": {"resultType": "complete"}},
    ]);
    let (server, mut client) = doing(json!({"sse": frames}));
    client.send("tools/call", json!({"name": "echo", "_meta": {"progressToken": "tok"}}));
    assert!(server.wait_held(1, PATIENCE));
    server.open_gate("last");
    let answer = client.read().unwrap();
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(text.starts_with(":hi\n\nevent: message\nid: e1\nretry: 5\ndata: {"), "{text}");
    let events = answer.events();
    assert_eq!((&events[1]["params"]["progressToken"], &events[2]["raw"]), (&json!("tok"), &json!(7)));
    assert_eq!(events[3], json!({"jsonrpc": "2.0", "id": 7, "result": {"resultType": "complete"}}));
}

#[test]
fn a_silent_server_says_nothing_until_it_stops() {
    let (server, mut client) = doing(json!({"never": true}));
    count(&mut client);
    assert!(server.wait_requests("tools/call", 1, PATIENCE));
    drop(server);
    assert_eq!(client.rest().0, b"");
}

#[test]
fn a_life_of_a_task_is_a_list_of_snapshots() {
    let asking = json!({"status": "input_required", "inputRequests": {"k": {"method": "roots/list"}}});
    let (_server, mut client) = started(Script::new().task(json!({
        "tool": "odd", "id": "t-1", "seed": {"pollIntervalMs": 0.5, "ttlMs": "$absent"},
        "polls": [
            {"http_status": 503},
            {"body": "{\"truncated"},
            {"task": asking, "until": "updated"},
            {"task": asking},
            {"error": {"code": -32602, "message": "gone"}},
        ],
        "updates": [{"error": {"code": -32603, "message": "not now"}}],
    })));
    let seed = client.call("odd", json!({})).json()["result"].take();
    assert_eq!((&seed["taskId"], &seed["pollIntervalMs"], seed.get("ttlMs")), (&json!("t-1"), &json!(0.5), None));
    let get = |client: &mut Client| client.ask("tasks/get", json!({"taskId": "t-1"}));
    assert_eq!(get(&mut client).status, 503);
    assert_eq!(get(&mut client).body, b"{\"truncated");
    for _ in 0..3 {
        assert_eq!(get(&mut client).json()["result"]["status"], "input_required");
    }
    let update = client.ask("tasks/update", json!({"taskId": "t-1", "inputResponses": {}}));
    assert_eq!(update.json()["error"]["message"], "not now");
    assert_eq!(get(&mut client).json()["result"]["inputRequests"]["k"]["method"], "roots/list");
    assert_eq!(get(&mut client).json()["error"]["code"], -32602);
    assert_eq!(get(&mut client).json()["error"]["code"], -32602);
}

#[test]
fn pushes_and_grants_can_be_scripted() {
    let (_server, mut client) = started(
        Script::new()
            .task(json!({"tool": "odd", "id": "t-1", "polls": [{}], "pushes": [{"task": {"status": "failed"}}]}))
            .rule(json!({"match": {"method": "subscriptions/listen"}, "do": {"id": "string", "patch": {"extra": 1}}})),
    );
    client.call("odd", json!({}));
    client.send("subscriptions/listen", json!({"notifications": {"taskIds": ["t-1"]}}));
    let acknowledged = client.event().unwrap();
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": ["t-1"], "extra": 1}));
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "7");
    let push = client.event().unwrap();
    assert_eq!((&push["params"]["taskId"], &push["params"]["status"]), (&json!("t-1"), &json!("failed")));
}

#[test]
fn a_server_stops_though_nobody_reads_its_answer() {
    let (server, mut client) = started(Script::new());
    client.send("tools/call", json!({"name": "big", "arguments": {"bytes": 16 << 20}}));
    assert!(server.wait_requests("tools/call", 1, PATIENCE));
    drop(server);
}

#[test]
fn a_dollar_in_an_argument_is_only_a_dollar() {
    let (_server, mut client) = started(Script::new().options(json!({"answer_sse": true})));
    let answer = client.call("echo", json!({"text": "$id"}));
    assert_eq!(answer.events()[0]["result"]["structuredContent"]["text"], "$id");
    assert_eq!(answer.events()[0]["id"], 7);
}
