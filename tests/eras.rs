//! Servers of the legacy eras, over the C ABI: the same calls, events and questions as with a modern one.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;
use mcpnative::ffi::server::{MCP_SERVER_ERA, MCP_SERVER_VERSION};

const ASKING: [i32; 5] =
    [MCP_EVENT_ELICITATION, MCP_EVENT_SAMPLING, MCP_EVENT_ROOTS, MCP_EVENT_INPUT_WITHDRAWN, MCP_EVENT_CALL_DONE];

fn legacy(more: Value) -> TestServer {
    TestServer::start(Script::new().options(json!({"era": "legacy", "legacy": more})))
}

fn opened(server: &TestServer, more: Value, prepare: impl FnOnce(&Client)) -> Client {
    let client = Client::new(&settings(server, more));
    prepare(&client);
    client.open().unwrap();
    client.wait_open().unwrap();
    client
}

/// Answers every question of this kind as soon as it comes.
fn answering(client: &Client, kind: i32, content: Value) {
    client.on(kind, move |event| assert_eq!(event.input().unwrap().reply(&content), Ok(MCP_OK)));
}

#[test]
fn each_revision_is_found_and_spoken_to_the_end() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let server = legacy(json!({"versions": [version], "version_header": "off"}));
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("legacy"), "{version}");
        assert_eq!(client.server().text(MCP_SERVER_VERSION).as_deref(), Some(version));
        assert!(client.tool_names().unwrap().contains(&"echo".to_owned()), "{version}");
        let answer = client.run("add", json!({"a": 2, "b": 3})).unwrap();
        assert!(answer.text().unwrap().contains('5'), "{version}");
        assert_eq!(server.sessions(), 1);
        drop(client);
        assert_eq!(server.sessions(), 0, "{version}: the session is ended by a DELETE");
    }
}

#[test]
fn br_20_a_strict_server_hears_the_negotiated_version_on_everything() {
    let server = legacy(json!({"answer_version": "2025-06-18", "version_header": "negotiated"}));
    let client = Client::ready(&server, json!({"era": "legacy"}));
    client.run("echo", json!({"a": 1})).unwrap();
    drop(client);
    for request in server.requests().iter().filter(|request| request.method.as_deref() != Some("initialize")) {
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-06-18"), "{request:?}");
        assert!(request.status.is_none_or(|status| status != 400), "{request:?}");
    }
}

#[test]
fn progress_and_logs_come_with_the_call() {
    let server = legacy(json!({}));
    let client = Client::ready(&server, json!({"log_level": "debug"}));
    let call = client.start("progress", json!({"n": 3}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    client.run("log", json!({"n": 2})).unwrap();
    client
        .events
        .until("the log", |events| events.iter().filter(|event| event.kind() == MCP_EVENT_LOG_MESSAGE).count() == 2);
    let progress = client.events.of(MCP_EVENT_PROGRESS);
    assert!(!progress.is_empty());
    assert!(progress.iter().all(|event| event.call_id() == Some(call.id())));
}

#[test]
fn br_16_a_session_that_the_server_forgets_is_started_anew() {
    for status in [404, 400] {
        let server = legacy(json!({"lost_status": status}));
        let client = Client::ready(&server, json!({}));
        client.run("echo", json!({})).unwrap();
        server.forget_sessions();
        client.run("count", json!({"name": "n"})).unwrap();
        assert_eq!(server.counter("n"), 1, "{status}: run once");
        assert_eq!(server.count_of("initialize"), 2, "{status}");
    }
    let log = log();
    let server = legacy(json!({"lose_all": true}));
    let client = Client::ready(&server, json!({}));
    let failure = client.run("echo", json!({})).unwrap_err();
    assert_eq!(failure.http_status, Some(404), "{failure:?}");
    // One to connect, one by the call, and at most two by the event stream: nobody asks without end.
    log.expect("the stream is given up");
    let tries = server.count_of("initialize");
    assert!((2..=4).contains(&tries), "{tries}");
}

#[test]
fn questions_come_as_the_same_events_within_and_outside_calls() {
    for (tool, kind, content) in [
        ("ask_elicitation", MCP_EVENT_ELICITATION, json!({"answer": "yes"})),
        (
            "ask_sampling",
            MCP_EVENT_SAMPLING,
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}),
        ),
        ("ask_roots", MCP_EVENT_ROOTS, json!({"roots": []})),
    ] {
        let server = legacy(json!({}));
        let client = opened(&server, json!({}), |client| {
            client.record(&[MCP_EVENT_CALL_DONE]);
            let events = client.events.clone();
            client.on(kind, move |event| {
                assert_eq!(event.input().unwrap().reply(&content), Ok(MCP_OK));
                events.add(event);
            });
        });
        let call = client.start(tool, json!({}), json!({}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{tool}");
        assert!(!call.answer().unwrap().is_error(), "{tool}: {:?}", call.answer().unwrap().text());
        let outside = client.start(tool, json!({"on": "get"}), json!({}));
        assert_eq!(outside.wait(PATIENCE_MS), Ok(MCP_OK), "{tool}");
        assert!(!outside.answer().unwrap().is_error(), "{tool}");
        let asked = client.events.of(kind);
        assert_eq!(asked.iter().map(|event| event.call_id()).collect::<Vec<_>>(), [Some(call.id()), None], "{tool}");
        assert!(asked.iter().all(|event| event.task().is_none()));
    }
}

#[test]
fn a_question_may_be_answered_by_hand() {
    let server = legacy(json!({}));
    let client = opened(&server, json!({"input": {"elicitation": "manual"}}), |_| {});
    let call = client.start("ask_elicitation", json!({}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_INPUT_REQUIRED);
    let open = call.inputs();
    assert_eq!(open[0]["method"], "elicitation/create");
    let key = open[0]["key"].as_str().unwrap();
    let answer = json!({"action": "accept", "content": {"answer": "yes"}});
    assert_eq!(call.reply(&json!({"nobody": answer})).unwrap_err().status, MCP_E_ARGUMENT);
    assert_eq!(call.reply(&json!({key: answer})), Ok(MCP_OK));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    assert!(!call.answer().unwrap().is_error());
    // Where the thread that waits is the one that reads, nobody's hand is free.
    let declined = client.run("ask_elicitation", json!({})).unwrap();
    assert!(declined.json().to_string().contains("decline"), "{}", declined.json());
}

#[test]
fn what_the_host_refuses_is_refused_and_the_call_goes_on() {
    let server = legacy(json!({}));
    // The capabilities are declared, and the answer is no.
    let client = opened(&server, json!({}), |client| {
        client.on(MCP_EVENT_SAMPLING, |event| {
            let input = event.input().unwrap();
            assert_eq!(input.fail("not today"), Ok(MCP_OK));
            assert_eq!(input.fail("again"), Ok(MCP_S_ALREADY_DONE));
        });
    });
    let answer = client.run("ask_sampling", json!({})).unwrap();
    assert!(answer.is_error());
    let refusal = server.requests().into_iter().find(|request| request.json()["error"]["code"] == -1).unwrap();
    assert!(refusal.body.contains("not today"), "{}", refusal.body);
}

#[test]
fn the_limits_of_a_call_stand_still_while_its_question_is_open() {
    let server = legacy(json!({}));
    let more = json!({"timeouts": {"idle_ms": 1_500, "total_ms": 2_000}});
    let client = opened(&server, more, |client| client.record(&ASKING));
    let call = client.start("ask_elicitation", json!({}), json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    let asked = now_ms();
    until("longer than both limits", || now_ms() - asked > 2_500);
    assert_eq!(input.reply(&json!({"answer": "yes"})), Ok(MCP_OK));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
}

#[test]
fn an_open_question_is_withdrawn_when_its_call_ends() {
    let server = legacy(json!({}));
    let client = opened(&server, json!({}), |client| client.record(&ASKING));
    let call = client.start("ask_elicitation", json!({}), json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    assert_eq!(call.cancel(), MCP_OK);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
    assert_eq!(input.reply(&json!({})), Ok(MCP_S_ALREADY_DONE));
    assert!(server.wait_requests("notifications/cancelled", 1, PATIENCE));
}

#[test]
fn a_question_outside_calls_is_withdrawn_by_a_close() {
    let server = legacy(json!({}));
    let client = opened(&server, json!({}), |client| client.record(&ASKING));
    let call = client.start("ask_elicitation", json!({"on": "get"}), json!({}));
    client.events.nth(MCP_EVENT_ELICITATION, 1);
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
    assert_eq!(call.wait(0).unwrap_err().status, MCP_E_CLOSED);
}

#[test]
fn a_connection_that_the_server_closes_is_taken_up_after_its_retry() {
    let server = legacy(json!({"events": true, "retry_ms": 200}));
    let client = Client::ready(&server, json!({}));
    let begun = now_ms();
    client.run("test_reconnection", json!({})).unwrap();
    assert!(now_ms() - begun >= 200);
    let resumed =
        |request: &mcp_test_server::Recorded| request.http_method == "GET" && request.header("last-event-id").is_some();
    assert_eq!(server.requests().iter().filter(|request| resumed(request)).count(), 1);
}

#[test]
fn http_and_sse_is_found_by_its_address() {
    let server = legacy(json!({"sse": true, "versions": ["2024-11-05"]}));
    let url = format!("{}/sse", server.base());
    let client =
        opened(&server, json!({"url": url}), |client| answering(client, MCP_EVENT_ROOTS, json!({"roots": []})));
    assert_eq!(client.server().text(MCP_SERVER_VERSION).as_deref(), Some("2024-11-05"));
    client.run("echo", json!({"a": 1})).unwrap();
    assert!(!client.run("ask_roots", json!({})).unwrap().is_error());
}

#[test]
fn a_server_of_both_eras_is_taken_as_modern_and_as_legacy_where_the_settings_say_so() {
    let server = TestServer::start(Script::new().options(json!({"era": "both"})));
    for (era, want) in [("auto", "modern"), ("modern", "modern"), ("legacy", "legacy")] {
        let client = Client::ready(&server, json!({"era": era}));
        assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some(want));
        client.run("echo", json!({})).unwrap();
    }
    let only = TestServer::start(Script::new());
    let client = Client::new(&settings(&only, json!({"era": "legacy"})));
    client.open().unwrap();
    assert_eq!(client.wait_open().unwrap_err().status, MCP_E_VERSION);
}
