//! Answers over HTTP, from the well-formed to the broken: each ends its own request, and nobody else's.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::{Recorded, TestServer};

/// A server that treats the first call of `echo` so, and a client of it.
fn first_echo(action: Value) -> (TestServer, Client) {
    let rule = json!({"match": {"method": "tools/call", "name": "echo", "nth": 1}, "do": action});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    (server, client)
}

fn text_result(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

fn ids(requests: &[Recorded]) -> Vec<Value> {
    requests.iter().map(|request| request.at("/id")).collect()
}

#[test]
fn br_14_a_failed_post_wakes_its_caller_and_the_next_request_works() {
    let html = json!({"Content-Type": "text/html"});
    let plain = json!({"Content-Type": "application/json"});
    for (name, action, want, http, rpc) in [
        ("reset after the head was read", json!({"reset": true}), MCP_E_OUTCOME_UNKNOWN, None, None),
        ("503 and HTML", json!({"http_status": 503, "headers": html, "body": "<p>busy"}), MCP_E_HTTP, Some(503), None),
        ("500, empty", json!({"http_status": 500}), MCP_E_HTTP, Some(500), None),
        ("405", json!({"http_status": 405}), MCP_E_HTTP, Some(405), None),
        ("429 without a word", json!({"http_status": 429}), MCP_E_HTTP, Some(429), None),
        ("200, empty", json!({"headers": plain, "body": ""}), MCP_E_MALFORMED, None, None),
        ("200 null", json!({"headers": plain, "body": "null"}), MCP_E_MALFORMED, None, None),
        ("200 and no JSON", json!({"headers": plain, "body": "{\"jsonrpc\": "}), MCP_E_PARSE, None, None),
        (
            "200, cut in the middle",
            json!({"content_length": 100_000, "then": "close_silently"}),
            MCP_E_OUTCOME_UNKNOWN,
            None,
            None,
        ),
        ("200 text/html", json!({"headers": html, "body": "<p>hello"}), MCP_E_MALFORMED, None, None),
        ("200 without a type", json!({"headers": {"Content-Type": ""}, "body": "{}"}), MCP_E_MALFORMED, None, None),
        ("202", json!({"http_status": 202, "body": ""}), MCP_E_MALFORMED, None, None),
        (
            "an error with id null",
            json!({"error": {"code": -32603, "message": "m"}, "id": "null"}),
            MCP_E_RPC,
            None,
            Some(-32603),
        ),
        (
            "404 and -32601",
            json!({"http_status": 404, "error": {"code": -32601, "message": "Method not found"}}),
            MCP_E_RPC,
            Some(404),
            Some(-32601),
        ),
    ] {
        let (server, client) = first_echo(action);
        let failure = client.run("echo", json!({})).expect_err(name);
        assert_eq!((failure.name(), failure.http_status, failure.rpc_code), (name_of(want), http, rpc), "{name}");
        assert_eq!(client.run("echo", json!({"a": 1})).unwrap().structured().unwrap(), "{\"a\":1}", "{name}");
        assert_eq!(server.count_of("tools/call"), 2, "{name}: nothing was sent twice");
    }
}

#[test]
fn br_14_a_refusal_keeps_what_the_server_says_of_the_next_try() {
    let busy = json!({"http_status": 503, "headers": {"Retry-After": "7"}});
    let (_server, client) = first_echo(busy);
    let failure = client.run("echo", json!({})).unwrap_err();
    assert_eq!((failure.http_status, failure.retry_after_ms, failure.retry_safe), (Some(503), Some(7000), true));
}

#[test]
fn br_14_an_asynchronous_call_is_woken_as_well() {
    let (_server, client) = first_echo(json!({"http_status": 500}));
    let call = client.start("echo", json!({}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().http_status, Some(500));
    assert_eq!((call.status(), call.failure().unwrap().http_status), (MCP_E_HTTP, Some(500)));
    let done = client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!((done.call_id(), done.status()), (Some(call.id()), Some(i64::from(MCP_E_HTTP))));
    assert_eq!(done.failure(), call.failure());
}

#[test]
fn br_17_a_tool_whose_answer_is_lost_has_run_once() {
    let progress = json!({"progress": {"progress": 1}});
    for (name, action, want) in [
        ("reset", json!({"run": true, "reset": true}), MCP_E_OUTCOME_UNKNOWN),
        ("503", json!({"run": true, "http_status": 503}), MCP_E_HTTP),
        ("stream cut", json!({"run": true, "sse": [progress], "then": "reset"}), MCP_E_OUTCOME_UNKNOWN),
        ("stream ended", json!({"run": true, "sse": [progress], "then": "close_silently"}), MCP_E_OUTCOME_UNKNOWN),
        ("stream empty", json!({"run": true, "sse": [], "then": "close_silently"}), MCP_E_OUTCOME_UNKNOWN),
    ] {
        let rule = json!({"match": {"method": "tools/call"}, "do": action});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::ready(&server, json!({}));
        let failure = client.run("count", json!({})).expect_err(name);
        assert_eq!(failure.name(), name_of(want), "{name}");
        let call = client.start("count", json!({}), json!({}));
        assert_eq!(call.wait(PATIENCE_MS).expect_err(name).name(), name_of(want), "{name}, not waited for");
        assert_eq!((server.counter("count"), server.count_of("tools/call")), (2, 2), "{name}");
        if want == MCP_E_OUTCOME_UNKNOWN {
            assert!(!failure.retry_safe, "{name}");
        }
    }
}

#[test]
fn br_17_a_list_that_is_lost_is_asked_for_again_under_a_new_id() {
    let rule = json!({"match": {"method": "tools/list", "nth": 1}, "do": {"reset": true}});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    assert!(client.tool_names().unwrap().contains(&"echo".to_owned()));
    let asked = ids(&server.requests_of("tools/list"));
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0], asked[1]);
}

#[test]
fn br_17_a_list_that_is_lost_again_and_again_is_an_error_after_the_second() {
    let rule = json!({"match": {"method": "tools/list"}, "do": {"reset": true}});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    let failure = client.list_tools().unwrap_err();
    assert_eq!((failure.status, failure.retry_safe), (MCP_E_IO, true));
    assert_eq!(server.count_of("tools/list"), 2);
}

#[test]
fn design_4_10_a_429_with_a_retry_after_is_sent_once_more_then() {
    let refusal = json!({"http_status": 429, "headers": {"Retry-After": "1"}});
    let rule = json!({"match": {"method": "tools/call", "nth": 1}, "do": refusal});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    client.run("count", json!({})).unwrap();
    assert_eq!(server.counter("count"), 1);
    let sent = server.requests_of("tools/call");
    assert_eq!(sent.len(), 2);
    assert_ne!(sent[0].at("/id"), sent[1].at("/id"), "a repeat is a new request");
    assert!(sent[1].at_us - sent[0].answered_us.unwrap() >= 1_000_000, "not before the Retry-After");
    // For ever: the second refusal is the answer.
    let rule = json!({"match": {"method": "tools/call"}, "do": refusal});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    let failure = client.run("count", json!({})).unwrap_err();
    assert_eq!((failure.http_status, failure.retry_after_ms), (Some(429), Some(1000)));
    assert_eq!(server.count_of("tools/call"), 2);
}

#[test]
fn design_4_10_a_503_with_a_retry_after_is_waited_for_where_the_request_only_reads() {
    let refusal = json!({"http_status": 503, "headers": {"Retry-After": "1"}});
    for method in ["tools/list", "resources/read", "prompts/get"] {
        let rule = json!({"match": {"method": method, "nth": 1}, "do": refusal});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::ready(&server, json!({}));
        // Whether there is such a thing is not the question.
        drop(client.request(method, json!({"uri": "test://static-text", "name": "x"})));
        let sent = server.requests_of(method);
        assert_eq!(sent.len(), 2, "{method}");
        assert_ne!(sent[0].at("/id"), sent[1].at("/id"), "{method}: a repeat is a new request");
        assert!(sent[1].at_us - sent[0].answered_us.unwrap() >= 1_000_000, "{method}: not before the Retry-After");
    }
    // Once only.
    let server = TestServer::start(Script::new().rule(json!({"match": {"method": "tools/list"}, "do": refusal})));
    let client = Client::ready(&server, json!({}));
    let failure = client.list_tools().unwrap_err();
    assert_eq!((failure.http_status, failure.retry_after_ms, failure.retry_safe), (Some(503), Some(1000), true));
    assert_eq!(server.count_of("tools/list"), 2);
}

#[test]
fn design_4_10_a_503_to_a_tool_call_is_reported_with_its_retry_after() {
    let refusal = json!({"http_status": 503, "headers": {"Retry-After": "1"}});
    let server = TestServer::start(Script::new().rule(json!({"match": {"method": "tools/call"}, "do": refusal})));
    let client = Client::ready(&server, json!({}));
    let failure = client.run("count", json!({})).unwrap_err();
    assert_eq!((failure.http_status, failure.retry_after_ms), (Some(503), Some(1000)));
    assert_eq!(server.count_of("tools/call"), 1);
}

#[test]
fn design_4_10_a_429_is_reported_at_once_where_its_time_does_not_fit() {
    let rule =
        json!({"match": {"method": "tools/call"}, "do": {"http_status": 429, "headers": {"Retry-After": "3600"}}});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    let failure = client.run("count", json!({})).unwrap_err();
    assert_eq!((failure.http_status, failure.retry_after_ms), (Some(429), Some(3_600_000)));
    assert_eq!(server.count_of("tools/call"), 1);
}

#[test]
fn br_20_header_and_meta_agree_on_every_request_also_after_a_renegotiation() {
    let unsupported = |supported: Value| {
        json!({"http_status": 400, "error": {"code": -32022, "message": "Unsupported protocol version",
            "data": {"supported": supported, "requested": "2026-07-28"}}})
    };
    let good = unsupported(json!(["2099-01-01", "2026-07-28"]));
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"method": "server/discover", "nth": 1}, "do": good}))
            .rule(json!({"match": {"method": "tools/call", "nth": 1}, "do": good})),
    );
    let client = Client::ready(&server, json!({}));
    client.run("count", json!({})).unwrap();
    client.run("slow_job", json!({"steps": 1})).unwrap();
    assert_eq!((server.count_of("server/discover"), server.counter("count")), (2, 1));
    assert!(server.count_of("tasks/get") > 0);
    for request in server.requests() {
        let told = request.at("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        assert_eq!(request.header("MCP-Protocol-Version"), told.as_str(), "{:?}", request.method);
        assert_eq!(told, "2026-07-28");
    }
    assert_eq!(client.server().text(mcpnative::ffi::server::MCP_SERVER_VERSION).as_deref(), Some("2026-07-28"));
}

#[test]
fn br_20_a_version_that_nobody_speaks_is_a_clear_error() {
    let refuse = |supported: Value| json!({"http_status": 400, "error": {"code": -32022, "message": "no", "data": {"supported": supported}}});
    for (name, action, want, asked) in [
        ("a list without ours", refuse(json!(["2099-01-01"])), "2099-01-01", 1),
        ("an empty list", refuse(json!([])), "none", 1),
        ("the same refusal again", refuse(json!(["2026-07-28"])), "", 2),
        (
            "a discovery that names only unknown ones",
            json!({"patch": {"supportedVersions": ["2099-01-01"]}}),
            "2099-01-01",
            1,
        ),
    ] {
        let rule = json!({"match": {"method": "server/discover"}, "do": action});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::new(&settings(&server, json!({})));
        client.record(&[MCP_EVENT_ANY]);
        client.open().unwrap();
        let failure = client.wait_open().expect_err(name);
        assert_eq!(failure.name(), "MCP_E_VERSION", "{name}");
        assert!(failure.message.contains(want), "{name}: {}", failure.message);
        assert_eq!(server.count_of("server/discover"), asked, "{name}");
        assert_eq!(client.state(), mcpnative::ffi::client::MCP_STATE_FAILED);
    }
}

#[test]
fn br_21_connections_that_the_server_closed_while_idle_cost_no_call() {
    for (name, action) in [
        ("a silent close", json!({"hold": true, "then": "close_silently", "then_after_ms": 20})),
        ("a reset", json!({"hold": true, "then": "reset", "then_after_ms": 20})),
        ("an announced close", json!({"hold": true, "then": "close"})),
        (
            "one byte too many, then a close",
            json!({"hold": true, "extra": "x", "then": "close_silently", "then_after_ms": 20}),
        ),
    ] {
        let rule = json!({"match": {"method": "tools/call"}, "do": action});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::ready(&server, json!({}));
        for round in 1..=2 {
            let calls: Vec<Call> = (0..4).map(|_| client.start("count", json!({}), json!({}))).collect();
            // All four at once: each has its own connection, which is closed a little after its answer.
            assert!(server.wait_held(4, PATIENCE));
            server.release();
            for call in &calls {
                assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{name}, round {round}");
            }
            until("the connections to close", || server.open_connections() == 0);
        }
        assert_eq!((server.counter("count"), server.count_of("tools/call")), (8, 8), "{name}");
    }
}

#[test]
fn br_21_an_extra_byte_is_never_read_as_the_next_answer() {
    let stray = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let (server, client) = first_echo(json!({"extra": stray}));
    client.run("echo", json!({"n": 1})).unwrap();
    assert_eq!(client.run("echo", json!({"n": 2})).unwrap().structured().unwrap(), "{\"n\":2}");
    let asked = server.requests_of("tools/call");
    assert_ne!(asked[0].connection, asked[1].connection);
}

#[test]
fn br_21_a_close_while_the_request_is_written_doubles_nothing() {
    // The server has read the request on a connection that was kept, and closes without a word.
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"method": "tools/call", "nth": 2}, "do": {"run": true, "close": true}}))
            .rule(json!({"match": {"method": "tools/list", "nth": 1}, "do": {"close": true}})),
    );
    let client = Client::ready(&server, json!({}));
    client.run("count", json!({})).unwrap();
    assert_eq!(client.run("count", json!({})).unwrap_err().status, MCP_E_OUTCOME_UNKNOWN);
    assert_eq!(server.counter("count"), 2);
    client.list_tools().unwrap();
    assert_eq!((server.count_of("tools/list"), server.count_of("tools/call")), (2, 2));
}

#[test]
fn br_22_events_split_byte_by_byte_are_read_whole() {
    let mut body = String::from("\u{feff}: hello\r\n\r\nid: 1\r\ndata:\r\n\r\nevent: ping\rdata: {}\r\r");
    body.push_str("unknown: x\ndata: 5\n\n: between\n\ndata: {\"type\": \"ping\"}\n\ndata: still here\n\n");
    body.push_str("event: message\r\ndata: {\"jsonrpc\": \"2.0\",\r\ndata:  \"id\": $id,\r\n");
    body.push_str("data:\"result\": {\"content\":\r\ndata: [{\"type\": \"text\", \"text\": \"grüße 🦀\"}]\r\n");
    body.push_str("data: }}\r\n\r\n: after\r\n\r\n");
    for (name, slice) in [("byte by byte", 1), ("in threes", 3), ("at once", 1 << 20)] {
        let (_server, client) = first_echo(json!({
            "headers": {"Content-Type": "Text/Event-Stream; Charset=UTF-8"}, "body": body,
            "framing": "chunked", "slice_bytes": slice,
        }));
        let answer = client.run("echo", json!({})).expect(name);
        assert_eq!(answer.text().as_deref(), Some("grüße 🦀"), "{name}");
        assert_eq!(client.events.of(MCP_EVENT_PROGRESS).len(), 0, "{name}");
    }
}

#[test]
fn br_22_an_event_without_its_end_is_no_answer() {
    let body = "data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[]}}\n";
    let (_server, client) = first_echo(json!({
        "headers": {"Content-Type": "text/event-stream"}, "body": body, "framing": "close",
    }));
    let ended = client.run("echo", json!({}));
    assert_eq!(ended.unwrap_err().status, MCP_E_OUTCOME_UNKNOWN, "at once, not after the time limit");
}

#[test]
fn br_12_the_id_of_an_answer() {
    log();
    let raw = |text: &str| json!({"headers": {"Content-Type": "application/json"}, "body": text});
    for (name, action, want) in [
        ("as a string", json!({"id": "string"}), MCP_OK),
        ("as a float", raw("{\"jsonrpc\":\"2.0\",\"id\":$id.0,\"result\":{\"content\":[]}}"), MCP_OK),
        ("null, with an error", json!({"error": {"code": -32600, "message": "m"}, "id": "null"}), MCP_E_RPC),
        ("absent, with an error", json!({"error": {"code": -32600, "message": "m"}, "id": "absent"}), MCP_E_RPC),
        ("null, with a result", json!({"id": "null"}), MCP_E_MALFORMED),
        ("of a request never sent", json!({"id": "other"}), MCP_E_MALFORMED),
        (
            "with result and error",
            raw("{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{},\"error\":{\"code\":1,\"message\":\"m\"}}"),
            MCP_E_MALFORMED,
        ),
        ("with neither", raw("{\"jsonrpc\":\"2.0\",\"id\":$id}"), MCP_E_MALFORMED),
        ("in a batch", raw("[{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}]"), MCP_E_MALFORMED),
    ] {
        let (_server, client) = first_echo(action);
        let status = client.run("echo", json!({})).map_or_else(|failure| failure.status, |_| MCP_OK);
        assert_eq!(name_of(status), name_of(want), "{name}");
        client.run("echo", json!({})).expect(name);
    }
    log().expect("id of its answer as a string");
}

#[test]
fn br_12_answers_of_two_requests_in_flight_are_never_crossed() {
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"method": "tools/call", "params": {"arguments": {"n": 1}}},
                "do": {"hold": true, "id": "string"}}))
            .rule(json!({"match": {"method": "tools/call", "params": {"arguments": {"n": 2}}},
                "do": {"hold": true, "id": "other"}})),
    );
    let client = Client::ready(&server, json!({}));
    let one = client.start("echo", json!({"n": 1}), json!({}));
    let two = client.start("echo", json!({"n": 2}), json!({}));
    assert!(server.wait_held(2, PATIENCE));
    server.release();
    assert_eq!(one.wait(PATIENCE_MS), Ok(MCP_OK));
    assert_eq!(one.answer().unwrap().structured().unwrap(), "{\"n\":1}");
    assert_eq!(two.wait(PATIENCE_MS).unwrap_err().status, MCP_E_MALFORMED);
}

#[test]
fn br_13_only_matching_progress_is_delivered_and_none_after_the_end() {
    log();
    let note =
        |params: Value| json!({"message": {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}});
    let server = TestServer::start(Script::new().rule(json!({"match": {"name": "echo", "nth": 1}, "do": {"sse": [
        note(json!({"progressToken": "made up", "progress": 1})),
        note(json!({"progress": 2})),
        {"progress": {"progress": 3}},
        note(json!({"progressToken": "$token", "progress": 4})),
        {"progress": {"progress": 4}},
        {"progress": {"progress": 2}},
        {"result": text_result("done")},
        {"progress": {"progress": 9, "total": 9}},
    ]}})));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_PROGRESS, MCP_EVENT_CALL_DONE]);
    let call = client.start("echo", json!({}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    client.run("echo", json!({})).unwrap();
    let all = client.events.all();
    let (last, before) = all.split_last().unwrap();
    assert_eq!(last.word(), "call done", "nothing after the end");
    assert!(!before.is_empty());
    for event in before {
        assert_eq!(event.call_id(), Some(call.id()));
        assert!(matches!(event.json()["progress"].as_i64(), Some(2..=4)), "{}", event.json());
    }
    log().expect("progress for a token that is not this request's");
}

#[test]
fn br_13_a_token_that_comes_back_as_a_string_is_ours() {
    let note = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\
        \"params\":{\"progressToken\":\"$token\",\"progress\":5}}\n\n";
    let (_server, client) = first_echo(json!({"sse": [note, {"result": text_result("done")}]}));
    let call = client.start("echo", json!({}), json!({}));
    assert_eq!(client.events.nth(MCP_EVENT_PROGRESS, 1).call_id(), Some(call.id()));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
}

#[test]
fn br_13_a_burst_of_progress_harms_nothing() {
    let server = TestServer::start(Script::new());
    let client = Client::recording(&server, json!({"queue_limit": 50}), &[MCP_EVENT_PROGRESS, MCP_EVENT_CALL_DONE]);
    let call = client.start("progress", json!({"n": 10_000}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    let last = client.events.of(MCP_EVENT_PROGRESS).last().unwrap().json();
    assert_eq!(last["progress"], 10_000, "the latest is what a bounded queue keeps");
    client.run("echo", json!({})).unwrap();
    let stats = client.stats();
    let number = |key: &str| stats[key].as_u64().unwrap();
    // What was not delivered was merged into a later one; nothing is lost without a count.
    assert!(number("events_delivered") + number("events_coalesced") + number("events_dropped") >= 10_001, "{stats}");
}

#[test]
fn a_redirect_to_another_origin_is_not_followed_and_is_named() {
    // The headers of the settings, credentials among them, go to nobody else.
    let elsewhere = TestServer::start(Script::new());
    let location = json!({"Location": format!("{}?token=canary", elsewhere.url())});
    for status in [301, 302, 303, 307, 308] {
        let (server, client) = first_echo(json!({"http_status": status, "headers": location}));
        let failure = client.run("echo", json!({})).unwrap_err();
        assert_eq!((failure.status, failure.http_status), (MCP_E_HTTP, Some(status)), "{failure:?}");
        assert!(failure.message.contains(&format!("redirects to {},", elsewhere.url())), "{failure:?}");
        assert!(!failure.message.contains("canary"), "{failure:?}");
        client.run("echo", json!({})).unwrap();
        assert_eq!(server.count_of("tools/call"), 2, "{status}");
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[test]
fn a_redirect_to_the_same_origin_keeps_method_body_and_headers() {
    for status in [307, 308] {
        let moved = json!({"http_status": status, "headers": {"Location": "/mcp?moved=1"}, "body": ""});
        let rule = |nth: u32| json!({"match": {"method": "tools/call", "nth": nth}, "do": moved});
        let server = TestServer::start(Script::new().rule(rule(1)).rule(rule(3)));
        let client = Client::ready(&server, json!({"headers": {"Authorization": "Bearer canary"}}));
        for n in 0..2 {
            assert_eq!(client.run("count", json!({})).unwrap().text(), Some((n + 1).to_string()), "{status}");
        }
        let sent = server.requests_of("tools/call");
        let paths: Vec<&str> = sent.iter().map(|request| request.path.as_str()).collect();
        // Not remembered: the next request asks at the old place again.
        assert_eq!(paths, ["/mcp", "/mcp?moved=1", "/mcp", "/mcp?moved=1"], "{status}");
        assert_eq!((sent[0].body.as_str(), &sent[0].headers), (sent[1].body.as_str(), &sent[1].headers), "{status}");
        assert_eq!((server.counter("count"), server.accepted()), (2, 1), "{status}");
    }
}

#[test]
fn a_redirect_is_an_error_where_it_would_lose_the_message_loop_or_is_not_wanted() {
    let to = |status: u16| json!({"http_status": status, "headers": {"Location": "/mcp"}, "body": ""});
    let nowhere = json!({"http_status": 307, "body": ""});
    for (action, settings, times, want) in [
        (to(301), json!({}), 1, "would lose the message"),
        (to(302), json!({}), 1, "would lose the message"),
        (to(303), json!({}), 1, "would lose the message"),
        (to(307), json!({"redirects": "none"}), 1, "settings.redirects is \"none\""),
        (to(308), json!({}), 6, "after 5 redirects in a row"),
        (nowhere, json!({}), 1, "without saying where"),
    ] {
        let rule = json!({"match": {"method": "tools/call"}, "do": action});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::ready(&server, settings);
        let failure = client.run("count", json!({})).unwrap_err();
        assert_eq!(failure.status, MCP_E_HTTP, "{failure:?}");
        assert!(failure.message.contains(want), "{want}: {failure:?}");
        assert_eq!((server.count_of("tools/call"), server.counter("count")), (times, 0), "{want}");
    }
}
