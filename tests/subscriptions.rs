//! `subscriptions/listen` as a call that lasts, over HTTP, in both eras.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use std::sync::Arc;

use abi::*;
use mcp_test_server::TestServer;

const LISTEN: &str = "subscriptions/listen";

fn ready(server: &TestServer) -> Client {
    Client::recording(
        server,
        json!({}),
        &[MCP_EVENT_SUBSCRIPTION, MCP_EVENT_NOTIFICATION, MCP_EVENT_CALL_DONE, MCP_EVENT_ERROR],
    )
}

fn scripted(action: Value) -> TestServer {
    TestServer::start(Script::new().rule(json!({"match": {"method": LISTEN}, "do": action})))
}

/// The `n`th change of state, which must be this one.
fn state(client: &Client, n: usize, want: &str) -> Arc<Event> {
    let event = client.events.nth(MCP_EVENT_SUBSCRIPTION, n);
    assert_eq!(event.subscription(), want, "{:?}", event.failure());
    event
}

fn states(client: &Client) -> Vec<&'static str> {
    client.events.of(MCP_EVENT_SUBSCRIPTION).iter().map(|event| event.subscription()).collect()
}

#[test]
fn br_46_a_active_comes_with_the_acknowledgment_and_notifications_carry_their_call() {
    let server = scripted(json!({"delay_ms": 500}));
    let client = ready(&server);
    let begun = now_ms();
    let call = client.subscribe(json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]}), "");
    let active = state(&client, 1, "active");
    assert!(now_ms() - begun >= 500, "not before the server said so");
    assert_eq!(active.call_id(), Some(call.id()));
    assert_eq!(active.json(), json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]}));
    server.announce("prompts");
    server.announce("tools");
    let heard = client.events.nth(MCP_EVENT_NOTIFICATION, 1);
    assert_eq!(heard.method().as_deref(), Some("notifications/tools/list_changed"));
    assert_eq!(heard.call_id(), Some(call.id()));
    server.touch("file:///b");
    server.touch("file:///a");
    assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 2).json()["uri"], "file:///a");
    assert_eq!(call.status(), MCP_S_PENDING);
    // The host ends it at once: its stream is closed.
    assert_eq!(call.cancel(), MCP_OK);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    assert_eq!(state(&client, 2, "ended").failure().unwrap().status, MCP_E_CANCELLED);
    let gone = |entries: &[mcp_test_server::Recorded]| {
        entries.iter().any(|entry| entry.method.as_deref() == Some(LISTEN) && entry.closed_early)
    };
    assert!(server.wait_for(gone, PATIENCE), "the server saw the end");
    assert_eq!(client.events.words(&["notification"]), ["subscription", "subscription", "call done"]);
}

#[test]
fn br_46_b_a_refusal_ends_the_call_with_the_servers_error() {
    let server = scripted(json!({"error": {"code": -32601, "message": "no subscriptions"}}));
    let client = ready(&server);
    let call = client.subscribe(json!({"toolsListChanged": true}), "");
    let failure = call.wait(PATIENCE_MS).unwrap_err();
    assert_eq!((failure.status, failure.rpc_code), (MCP_E_RPC, Some(-32601)));
    assert_eq!(state(&client, 1, "ended").failure().unwrap().rpc_code, Some(-32601));
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!(server.count_of(LISTEN), 1);
}

#[test]
fn br_46_c_the_host_sees_the_reduced_filter() {
    let server = scripted(json!({"patch": {"promptsListChanged": "$absent"}}));
    let client = ready(&server);
    let _call = client.subscribe(json!({"toolsListChanged": true, "promptsListChanged": true}), "");
    assert_eq!(state(&client, 1, "active").json(), json!({"toolsListChanged": true}));
}

#[test]
fn br_46_d_what_comes_before_the_acknowledgment_is_logged_and_not_delivered() {
    let log = log();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": "$id"});
    let say = |method: &str, params: Value| json!({"message": {"jsonrpc": "2.0", "method": method, "params": params}});
    let server = scripted(json!({"sse": [
        say("notifications/early", json!({"_meta": meta})),
        say("notifications/subscriptions/acknowledged", json!({"_meta": meta, "notifications": {}})),
        say("notifications/in_time", json!({"_meta": meta})),
        {"result": {"resultType": "complete", "_meta": meta}},
    ]}));
    let client = ready(&server);
    let call = client.subscribe(json!({}), "");
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    log.expect("notifications/early came before the subscription was acknowledged");
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    let heard: Vec<_> = client.events.of(MCP_EVENT_NOTIFICATION).iter().map(|event| event.method().unwrap()).collect();
    assert_eq!(heard, ["notifications/in_time"]);
}

#[test]
fn br_46_g_a_closing_response_is_the_end_and_nothing_is_opened_again() {
    let server = TestServer::start(Script::new());
    let client = ready(&server);
    let call = client.subscribe(json!({"toolsListChanged": true}), "");
    state(&client, 1, "active");
    server.end_streams(true);
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    assert_eq!(call.answer().unwrap().json()["resultType"], "complete");
    assert_eq!(state(&client, 2, "ended").failure(), None);
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert!(!client.run("echo", json!({})).unwrap().is_error());
    assert_eq!(server.count_of(LISTEN), 1);
}

#[test]
fn br_46_h_a_cut_is_lost_then_active_again_with_a_gap() {
    let server = TestServer::start(Script::new());
    let client = ready(&server);
    let call = client.subscribe(json!({"toolsListChanged": true}), "");
    state(&client, 1, "active");
    server.end_streams(false);
    let lost = state(&client, 2, "lost");
    assert_eq!(lost.failure().unwrap().status, MCP_E_IO);
    assert!(lost.json()["retry_ms"].as_u64().unwrap() >= 500);
    assert_eq!(state(&client, 3, "catch-up").json(), json!({"toolsListChanged": true}));
    server.announce("tools");
    assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 1).call_id(), Some(call.id()));
    assert!(client.events.of(MCP_EVENT_CALL_DONE).is_empty());
    // A close of the client ends it, too.
    client.close();
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED);
    assert_eq!(state(&client, 4, "ended").failure().unwrap().status, MCP_E_CLOSED);
}

#[test]
fn br_46_i_comments_and_silence_are_fine_however_long() {
    let server = TestServer::start(Script::new().options(json!({"keep_alive_ms": 40})));
    let client =
        Client::recording(&server, json!({"timeouts": {"idle_ms": 1_000, "total_ms": 2_000}}), &[MCP_EVENT_ANY]);
    let silent = client.subscribe(json!({"toolsListChanged": true}), "");
    // The host's own limit for silence: comments are no silence.
    let watched = client.subscribe(json!({"toolsListChanged": true}), r#"{"idle_ms": 1000}"#);
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 2);
    let slept = client.tool_run("sleep", r#"{"ms": 2500}"#, r#"{"total_ms": -1, "idle_ms": -1}"#, PATIENCE_MS);
    assert_eq!(slept.0, Ok(MCP_OK));
    server.announce("tools");
    client.events.nth(MCP_EVENT_NOTIFICATION, 2);
    assert_eq!(states(&client), ["active", "active"]);
    drop((silent, watched));
}

#[test]
fn br_46_j_one_that_is_cut_at_once_is_opened_again_with_growing_pauses_until_a_refusal() {
    let script = Script::new()
        .rule(json!({"match": {"method": LISTEN, "from": 1, "to": 3}, "do": {"run": true, "reset": true}}))
        .rule(json!({"match": {"method": LISTEN}, "do": {"http_status": 403}}));
    let server = TestServer::start(script);
    let client = ready(&server);
    let call = client.subscribe(json!({"toolsListChanged": true}), "");
    let failure = call.wait(PATIENCE_MS).unwrap_err();
    assert_eq!((failure.status, failure.http_status), (MCP_E_AUTH_DENIED, Some(403)));
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!(states(&client), ["lost", "lost", "lost", "ended"]);
    let came: Vec<u64> = server.requests_of(LISTEN).iter().map(|request| request.at_us).collect();
    let pauses: Vec<u64> = came.windows(2).map(|pair| (pair[1] - pair[0]) / 1000).collect();
    assert!(pauses[0] >= 500 && pauses[1] >= 1000 && pauses[2] >= 2000, "{pauses:?}");
}

#[test]
fn a_poke_ends_the_pause() {
    let server = TestServer::start(Script::new());
    let client = ready(&server);
    let _call = client.subscribe(json!({"toolsListChanged": true}), "");
    state(&client, 1, "active");
    // After some cuts the next pause is long.
    for n in 0..3 {
        server.end_streams(false);
        state(&client, 2 + 2 * n, "lost");
        client.poke();
        state(&client, 3 + 2 * n, "catch-up");
    }
    assert_eq!(server.count_of(LISTEN), 4);
}

#[test]
fn a_subscription_takes_no_turn_of_the_calls_and_their_number_is_bounded() {
    let server = TestServer::start(Script::new());
    let client = Client::recording(&server, json!({"max_in_flight": 1}), &[MCP_EVENT_SUBSCRIPTION]);
    let mut calls = vec![client.subscribe(json!({"toolsListChanged": true}), "")];
    let echo = client.start("echo", json!({}), json!({}));
    assert_eq!(echo.wait(PATIENCE_MS), Ok(MCP_OK));
    calls.extend((1..64).map(|_| client.subscribe(json!({}), "")));
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 64);
    let refused = client.start_request(LISTEN, r#"{"notifications":{}}"#, "").unwrap_err();
    assert_eq!(refused.status, MCP_E_STATE);
    calls[0].cancel();
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 65);
    until("a place", || client.start_request(LISTEN, r#"{"notifications":{}}"#, "").is_ok());
}

#[test]
fn the_hosts_own_total_ends_it() {
    let server = TestServer::start(Script::new());
    let client = ready(&server);
    let begun = now_ms();
    let call = client.subscribe(json!({"toolsListChanged": true}), r#"{"total_ms": 400}"#);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_TIMEOUT);
    assert!(now_ms() - begun >= 400);
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!(states(&client), ["active", "ended"]);
}

// ---- the legacy era ------------------------------------------------------------------------------------------------

fn legacy(script: Script) -> (TestServer, Client) {
    let server = TestServer::start(script.options(json!({"era": "legacy"})));
    let client = ready(&server);
    (server, client)
}

#[test]
fn a_legacy_server_serves_the_same_call() {
    let (server, client) = legacy(Script::new());
    let filter =
        json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a", "file:///b"], "taskIds": ["t"]});
    let call = client.subscribe(filter, "");
    let granted = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a", "file:///b"]});
    assert_eq!(state(&client, 1, "active").json(), granted);
    assert_eq!(server.count_of("resources/subscribe"), 2);
    server.touch("file:///a");
    let heard = client.events.nth(MCP_EVENT_NOTIFICATION, 1);
    assert_eq!((heard.json()["uri"].as_str(), heard.call_id()), (Some("file:///a"), Some(call.id())));
    // What nobody subscribed to comes as before, for no call.
    server.announce("prompts");
    assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 2).call_id(), None);
    // Another one wants a resource of the first: that one stays subscribed.
    let other = client.subscribe(json!({"resourceSubscriptions": ["file:///a"]}), "");
    state(&client, 2, "active");
    server.touch("file:///a");
    client.events.nth(MCP_EVENT_NOTIFICATION, 4);
    assert_eq!(call.cancel(), MCP_OK);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    assert!(server.wait_requests("resources/unsubscribe", 1, PATIENCE));
    assert_eq!(server.requests_of("resources/unsubscribe")[0].at("/params/uri"), json!("file:///b"));
    server.announce("tools");
    assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 5).call_id(), None, "nobody listens to it any more");
    server.touch("file:///a");
    assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 6).call_id(), Some(other.id()));
    let twice: Vec<_> = client.events.of(MCP_EVENT_NOTIFICATION);
    assert_eq!(twice.len(), 6, "nothing came twice");
}

#[test]
fn a_legacy_server_grants_what_it_declares_and_what_it_does_not_refuse() {
    let refuse = json!({"match": {"method": "resources/subscribe", "nth": 2}, "do": {"error": {"code": -32002, "message": "none"}}});
    let hide = json!({"match": {"method": "initialize"}, "do": {"patch": {"capabilities": {"prompts": "$absent"}}}});
    let (server, client) = legacy(Script::new().rule(refuse).rule(hide));
    let filter = json!({"promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a", "file:///b"]});
    let _call = client.subscribe(filter, "");
    let granted = json!({"resourcesListChanged": true, "resourceSubscriptions": ["file:///a"]});
    assert_eq!(state(&client, 1, "active").json(), granted);
    server.announce("prompts");
    server.announce("resources");
    client.events.nth(MCP_EVENT_NOTIFICATION, 2);
    let calls: Vec<_> =
        client.events.of(MCP_EVENT_NOTIFICATION).iter().map(|event| event.call_id().is_some()).collect();
    assert_eq!(calls, [false, true]);
    let bad = client.start_request(LISTEN, "{}", "").unwrap();
    assert_eq!(bad.wait(PATIENCE_MS).unwrap_err().status, MCP_E_ARGUMENT);
}

#[test]
fn a_lost_legacy_session_is_subscribed_anew_and_its_facts_are_fresh() {
    let newer =
        json!({"match": {"method": "initialize", "nth": 2}, "do": {"patch": {"instructions": "read this again"}}});
    let (server, client) = legacy(Script::new().rule(newer));
    let call = client.subscribe(json!({"resourceSubscriptions": ["file:///a"]}), "");
    state(&client, 1, "active");
    server.forget_sessions();
    assert_eq!(state(&client, 2, "lost").call_id(), Some(call.id()));
    state(&client, 3, "catch-up");
    assert_eq!(server.count_of("resources/subscribe"), 2);
    server.touch("file:///a");
    assert_eq!(client.events.nth(MCP_EVENT_NOTIFICATION, 1).call_id(), Some(call.id()));
    let told = client.server().text(mcpnative::ffi::server::MCP_SERVER_INSTRUCTIONS);
    assert_eq!(told.as_deref(), Some("read this again"));
    client.close();
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED);
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    assert_eq!(server.count_of("resources/unsubscribe"), 0, "the session's end says it");
}
