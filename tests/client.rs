//! A client's life: settings, opening, failing and opening again, closing; and what it never tells.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;
use mcpnative::ffi::client::{
    MCP_STATE_CLOSED, MCP_STATE_CLOSING, MCP_STATE_FAILED, MCP_STATE_NEW, MCP_STATE_OPENING, MCP_STATE_READY,
};
use mcpnative::ffi::server::{MCP_SERVER_CAPABILITIES, MCP_SERVER_INFO};

fn states(client: &Client) -> Vec<i32> {
    let number = mcpnative::ffi::event::MCP_EVENT_NUMBER_STATE;
    let of = |event: &std::sync::Arc<Event>| i32::try_from(event.number(number).unwrap()).unwrap();
    client.events.of(MCP_EVENT_STATE).iter().map(of).collect()
}

// ---- bad input -----------------------------------------------------------------------------------------------------------

#[test]
fn settings_that_are_wrong_are_named_and_nothing_is_touched() {
    let server = TestServer::start(Script::new());
    let url = server.url();
    let with = |more: &str| format!("{{\"url\":\"{url}\"{more}}}");
    for (text, status, part) in [
        (String::new(), MCP_E_ARGUMENT, "settings"),
        ("{".into(), MCP_E_ARGUMENT, "settings are not valid JSON"),
        ("[]".into(), MCP_E_ARGUMENT, "settings: expected an object"),
        ("{}".into(), MCP_E_ARGUMENT, "settings.url"),
        ("{\"url\":7}".into(), MCP_E_ARGUMENT, "settings.url"),
        ("{\"url\":\"\"}".into(), MCP_E_ARGUMENT, "url"),
        ("{\"url\":\"127.0.0.1\"}".into(), MCP_E_ARGUMENT, "no scheme"),
        ("{\"url\":\"ftp://h/\"}".into(), MCP_E_ARGUMENT, "scheme `ftp`"),
        ("{\"url\":\"http:///mcp\"}".into(), MCP_E_ARGUMENT, "no host"),
        ("{\"url\":\"http://h:99999/\"}".into(), MCP_E_ARGUMENT, "port"),
        ("{\"url\":\"http://h/#x\"}".into(), MCP_E_ARGUMENT, "fragment"),
        ("{\"url\":\"http://u:canary@h/\"}".into(), MCP_E_ARGUMENT, "user information"),
        ("{\"url\":\"http://h/a b\"}".into(), MCP_E_ARGUMENT, "url"),
        (with(",\"colour\":1"), MCP_E_ARGUMENT, "settings.colour"),
        (with(",\"headers\":{\"X\":1}"), MCP_E_ARGUMENT, "settings.headers.X"),
        (with(",\"headers\":{\"X Y\":\"1\"}"), MCP_E_ARGUMENT, "X Y"),
        (with(",\"headers\":{\"X\":\"a\\nb\"}"), MCP_E_ARGUMENT, "`X`"),
        (with(",\"headers\":{\"Mcp-Name\":\"a\"}"), MCP_E_ARGUMENT, "Mcp-Name"),
        (with(",\"headers\":{\"Content-Length\":\"1\"}"), MCP_E_ARGUMENT, "Content-Length"),
        (with(",\"timeouts\":{\"idle_ms\":0}"), MCP_E_ARGUMENT, "settings.timeouts.idle_ms"),
        (with(",\"timeouts\":{\"idle_ms\":1.5}"), MCP_E_ARGUMENT, "settings.timeouts.idle_ms"),
        (with(",\"timeouts\":{\"idle\":1}"), MCP_E_ARGUMENT, "settings.timeouts.idle"),
        (with(",\"limits\":{\"pages\":0}"), MCP_E_ARGUMENT, "settings.limits.pages"),
        (with(",\"tasks\":true"), MCP_E_ARGUMENT, "settings.tasks"),
        (with(",\"tasks\":{\"ttl\":\"never\"}"), MCP_E_ARGUMENT, "settings.tasks.ttl"),
        (with(",\"input\":{\"roots\":\"ask\"}"), MCP_E_ARGUMENT, "settings.input.roots"),
        (with(",\"max_in_flight\":0"), MCP_E_ARGUMENT, "settings.max_in_flight"),
        (with(",\"queue_limit\":-1"), MCP_E_ARGUMENT, "settings.queue_limit"),
        (with(",\"log_level\":\"loud\""), MCP_E_ARGUMENT, "settings.log_level"),
        (with(",\"extensions\":{\"x\":{}}"), MCP_E_ARGUMENT, "settings.extensions.x"),
        (with(",\"client\":{\"nam\":\"x\"}"), MCP_E_ARGUMENT, "settings.client.nam"),
        (with(",\"server\":{\"url\":\"http://h/\"}"), MCP_E_ARGUMENT, "exclude each other"),
        (with(",\"era\":\"new\""), MCP_E_ARGUMENT, "settings.era"),
        ("{\"server\":{\"args\":[]}}".into(), MCP_E_ARGUMENT, "settings.server.args needs settings.server.command"),
        (with(",\"a\\nb\":1"), MCP_E_ARGUMENT, "a b"),
    ] {
        let failure = Client::make(text.as_bytes()).map(drop).expect_err(&text);
        assert_eq!(failure.name(), name_of(status), "{text}: {failure:?}");
        assert!(failure.message.contains(part), "{text}: {failure:?}");
        assert!(!failure.message.contains("canary"), "{failure:?}");
    }
    assert_eq!(Client::make(b"{\"url\":\"\xc3\x28\"}").map(drop).unwrap_err().status, MCP_E_UTF8);
    assert_eq!((server.accepted(), server.requests().len()), (0, 0));
}

#[test]
fn calls_that_are_wrong_are_named_and_nothing_is_sent() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let asked = server.requests().len();
    for (name, arguments, options, status, part) in [
        (&b"echo"[..], &b"[]"[..], &b""[..], MCP_E_ARGUMENT, "arguments"),
        (b"echo", b"7", b"", MCP_E_ARGUMENT, "arguments"),
        (b"echo", b"null", b"", MCP_E_ARGUMENT, "arguments"),
        (b"echo", b"{", b"", MCP_E_ARGUMENT, "arguments"),
        (b"echo", b"{} {}", b"", MCP_E_ARGUMENT, "arguments"),
        (b"echo", b"{\"a\":\"\xff\"}", b"", MCP_E_UTF8, "arguments"),
        (b"ech\xff", b"", b"", MCP_E_UTF8, "name"),
        (b"", b"", b"", MCP_E_ARGUMENT, "name"),
        (b"echo", b"", b"[]", MCP_E_ARGUMENT, "options"),
        (b"echo", b"", b"{\"idle\":1}", MCP_E_ARGUMENT, "options.idle"),
        (b"echo", b"", b"{\"idle_ms\":0}", MCP_E_ARGUMENT, "options.idle_ms"),
        (b"echo", b"", b"{\"meta\":[]}", MCP_E_ARGUMENT, "options.meta"),
        (b"echo", b"", b"{\"tool_call_id\":7}", MCP_E_ARGUMENT, "options.tool_call_id"),
        (b"echo", b"", b"{\"auto_poll\":1}", MCP_E_ARGUMENT, "options.auto_poll"),
        (b"echo", b"", b"{\"a\":\"\xff\"}", MCP_E_UTF8, "options"),
    ] {
        let shown = String::from_utf8_lossy(arguments).into_owned() + &String::from_utf8_lossy(options);
        let failure = client.tool_call_raw(name, arguments, options).map(drop).expect_err(&shown);
        assert_eq!(failure.name(), name_of(status), "{shown}: {failure:?}");
        assert!(failure.message.contains(part), "{shown}: {failure:?}");
    }
    for (method, params, part) in
        [("x", "[]", "params"), ("x", "{", "params"), ("", "", "method"), ("x", "{\"_meta\":1}", "_meta")]
    {
        let failure = client.start_request(method, params, "").map(drop).expect_err(params);
        assert!(failure.status == MCP_E_ARGUMENT && failure.message.contains(part), "{params}: {failure:?}");
    }
    let (ran, call) = client.tool_run("echo", "[]", "", PATIENCE_MS);
    assert_eq!((ran.unwrap_err().status, call.is_none()), (MCP_E_ARGUMENT, true));
    assert_eq!(server.requests().len(), asked, "the server saw none of it");
    assert_eq!(client.stats()["calls_in_flight"], 0);
}

#[test]
fn a_foreign_hosts_entry_is_read_and_what_it_has_more_only_warns() {
    log();
    let server = TestServer::start(Script::new());
    let entry = json!({"server": {"type": "http", "url": server.url(), "headers": {"X-A": "b"}, "wireOnlyHere": true}});
    let client = Client::new(&entry);
    client.open().unwrap();
    client.wait_open().unwrap();
    assert_eq!(server.requests()[0].header("X-A"), Some("b"));
    log().expect("wireOnlyHere");
}

// ---- opening, failing, closing -------------------------------------------------------------------------------------------

#[test]
fn the_states_come_as_events_and_the_server_is_known_once_ready() {
    let server = TestServer::start(Script::new());
    let client = Client::new(&settings(&server, json!({})));
    client.record(&[MCP_EVENT_ANY]);
    assert_eq!(client.state(), MCP_STATE_NEW);
    assert_eq!(client.wait_open().unwrap_err().status, MCP_E_STATE);
    let early = client.start_request("tools/list", "", "").map(drop).unwrap_err();
    assert_eq!((early.status, server.accepted()), (MCP_E_STATE, 0));
    client.open().unwrap();
    // A call may be started at once: it waits for the opening.
    client.run("echo", json!({})).unwrap();
    assert_eq!((client.wait_open(), client.state()), (Ok(MCP_OK), MCP_STATE_READY));
    assert_eq!(client.open().unwrap_err().status, MCP_E_STATE);
    let told = client.server();
    let info: Value = serde_json::from_str(&told.text(MCP_SERVER_INFO).unwrap()).unwrap();
    assert!(info["name"].is_string());
    let capabilities: Value = serde_json::from_str(&told.text(MCP_SERVER_CAPABILITIES).unwrap()).unwrap();
    assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{capabilities}");
    assert_eq!((client.close(), client.close()), (MCP_OK, MCP_S_ALREADY_DONE));
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    assert_eq!(client.state(), MCP_STATE_CLOSED);
    assert_eq!(states(&client), [MCP_STATE_OPENING, MCP_STATE_READY, MCP_STATE_CLOSING, MCP_STATE_CLOSED]);
    assert_eq!(client.events.all().last().unwrap().word(), "state", "the last event");
    assert_eq!(client.start_request("tools/list", "", "").map(drop).unwrap_err().status, MCP_E_CLOSED);
    assert_eq!(client.open().unwrap_err().status, MCP_E_CLOSED);
}

#[test]
fn a_client_that_failed_says_why_and_opens_again() {
    for (name, action, want, http) in [
        ("503", json!({"http_status": 503, "headers": {"Retry-After": "3"}}), MCP_E_HTTP, Some(503)),
        ("401", json!({"http_status": 401}), MCP_E_AUTH_REQUIRED, Some(401)),
        ("reset", json!({"reset": true}), MCP_E_IO, None),
        ("nonsense", json!({"result": {"x": 1}}), MCP_E_MALFORMED, None),
        ("HTML", json!({"headers": {"Content-Type": "text/html"}, "body": "<p>"}), MCP_E_MALFORMED, None),
    ] {
        // A lost read is asked once more, so two tries fail.
        let rule =
            json!({"match": {"method": "server/discover", "to": if name == "reset" { 2 } else { 1 }}, "do": action});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::new(&settings(&server, json!({})));
        client.record(&[MCP_EVENT_ANY]);
        client.open().unwrap();
        let waiting = client.start_request("tools/list", "", "");
        let failure = client.wait_open().expect_err(name);
        assert_eq!((failure.name(), failure.http_status), (name_of(want), http), "{name}: {failure:?}");
        assert_eq!(client.state(), MCP_STATE_FAILED);
        // What waited for the opening ends with it, and so does what comes now.
        let waited = waiting.and_then(|call| call.wait(PATIENCE_MS));
        assert_eq!(waited.expect_err(name).status, want, "{name}");
        assert_eq!(client.run("echo", json!({})).expect_err(name).status, want, "{name}");
        assert_eq!(server.count_of("tools/call") + server.count_of("tools/list"), 0, "{name}");
        client.open().expect(name);
        assert_eq!(client.wait_open(), Ok(MCP_OK), "{name}");
        client.run("echo", json!({})).expect(name);
        client.events.nth(MCP_EVENT_STATE, 4);
        assert_eq!(
            states(&client),
            [MCP_STATE_OPENING, MCP_STATE_FAILED, MCP_STATE_OPENING, MCP_STATE_READY],
            "{name}"
        );
        assert_eq!(client.events.of(MCP_EVENT_STATE)[1].failure(), Some(failure), "{name}");
    }
}

#[test]
fn nobody_there_is_a_connect_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&json!({"url": url}));
    client.open().unwrap();
    let failure = client.wait_open().unwrap_err();
    assert_eq!(failure.name(), "MCP_E_CONNECT", "{failure:?}");
}

#[test]
fn closing_while_opening_ends_at_once() {
    let server =
        TestServer::start(Script::new().rule(json!({"match": {"method": "server/discover"}, "do": {"hold": true}})));
    let client = Client::new(&settings(&server, json!({})));
    client.record(&[MCP_EVENT_ANY]);
    client.open().unwrap();
    let call = client.start_request("tools/list", "", "").unwrap();
    assert!(server.wait_held(1, PATIENCE));
    assert_eq!(client.close(), MCP_OK);
    assert_eq!(client.wait_open().unwrap_err().status, MCP_E_CLOSED);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED);
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    assert_eq!(states(&client), [MCP_STATE_OPENING, MCP_STATE_CLOSING, MCP_STATE_CLOSED]);
    assert!(server.wait_for(|all| all.iter().any(|one| one.closed_early), PATIENCE));
}

#[test]
fn closing_a_client_that_was_never_opened() {
    let server = TestServer::start(Script::new());
    let client = Client::new(&settings(&server, json!({})));
    client.record(&[MCP_EVENT_ANY]);
    assert_eq!((client.close(), client.wait_closed(PATIENCE_MS)), (MCP_OK, MCP_OK));
    assert_eq!((states(&client), server.accepted()), (vec![MCP_STATE_CLOSING, MCP_STATE_CLOSED], 0));
}

#[test]
fn closing_ends_each_call_once_with_closed() {
    let server =
        TestServer::start(Script::new().rule(json!({"match": {"method": "tools/call"}, "do": {"hold": true}})));
    let client = Client::ready(&server, json!({"max_in_flight": 4}));
    let calls: Vec<Call> = (0..6).map(|_| client.start("count", json!({}), json!({}))).collect();
    assert!(server.wait_held(4, PATIENCE));
    std::thread::scope(|scope| {
        let run = scope.spawn(|| client.run("count", json!({})));
        assert!(server.wait_held(5, PATIENCE));
        client.close();
        assert_eq!(run.join().unwrap().unwrap_err().status, MCP_E_CLOSED);
    });
    for call in &calls {
        assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED);
    }
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    let ends = client.events.of(MCP_EVENT_CALL_DONE);
    assert_eq!(ends.len(), 6);
    assert!(ends.iter().all(|end| end.status() == Some(i64::from(MCP_E_CLOSED))));
}

#[test]
fn handlers_are_registered_before_opening_and_children_outlive_the_name() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let call = client.start("echo", json!({"a": 1}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    let answer = call.answer().unwrap();
    assert_eq!(client.try_on(MCP_EVENT_STATE, |_| ()).unwrap_err().status, MCP_E_STATE);
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    client.free();
    assert_eq!(client.state(), MCP_E_HANDLE);
    assert_eq!((call.status(), answer.structured().as_deref()), (MCP_OK, Some("{\"a\":1}")));
}

#[test]
fn counters_count() {
    let server = TestServer::start(
        Script::new().rule(json!({"match": {"method": "tools/call", "name": "echo"}, "do": {"hold": true}})),
    );
    let client = Client::ready(&server, json!({}));
    let call = client.start("echo", json!({}), json!({}));
    let task = client.task("slow_job", json!({"steps": 1, "step_ms": 60000}));
    assert!(server.wait_held(1, PATIENCE));
    let stats = client.stats();
    assert_eq!((&stats["calls_in_flight"], &stats["tasks"]), (&json!(1), &json!(1)), "{stats}");
    for key in ["events_queued", "events_delivered", "events_coalesced", "events_dropped"] {
        assert!(stats[key].is_u64(), "{key}");
    }
    server.release();
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    task.let_go();
    until("the counters to go down", || {
        let stats = client.stats();
        stats["calls_in_flight"] == 0 && stats["tasks"] == 0
    });
}

// ---- secrets ---------------------------------------------------------------------------------------------------------------

const CANARY: &str = "canary-5f0e9d";

fn secret() -> Value {
    json!({"Authorization": format!("Bearer {CANARY}"), "X-Api-Key": CANARY})
}

fn assert_silent(told: &[String]) {
    for text in told {
        assert!(!text.contains(CANARY), "{text}");
    }
}

#[test]
fn headers_of_the_settings_are_sent_and_never_told() {
    log();
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"name": "busy"}, "do": {"http_status": 503}}))
            .rule(json!({"match": {"name": "cut"}, "do": {"reset": true}}))
            .rule(json!({"match": {"name": "html"}, "do": {"headers": {"Content-Type": "text/html"}, "body": "<p>"}}))
            .rule(json!({"match": {"name": "denied"}, "do": {"http_status": 401}}))
            .rule(json!({"match": {"name": "odd"}, "do": {"id": "string"}}))
            .rule(json!({"match": {"name": "slow"}, "do": {"never": true}})),
    );
    let client = Client::ready(&server, json!({"headers": secret(), "tasks": {"min_poll_ms": 1}}));
    let mut told: Vec<String> = Vec::new();
    for tool in ["busy", "cut", "html", "denied", "odd", "echo", "rpc_error", "tool_error"] {
        told.push(format!("{:?}", client.run(tool, json!({})).map(|answer| answer.raw_json())));
    }
    let call = client.start("slow", json!({}), json!({"idle_ms": 50}));
    told.push(format!("{:?}", call.wait(PATIENCE_MS)));
    let end = client.task("slow_job", json!({"steps": 1})).end();
    told.push(format!("{:?} {:?}", end.text(MCP_SNAPSHOT_JSON), end.failure()));
    told.extend([client.stats().to_string(), client.tasks("").unwrap().to_string()]);
    for (name, value) in secret().as_object().unwrap() {
        for request in server.requests() {
            assert_eq!(request.header(name), value.as_str(), "{:?}", request.method);
        }
    }
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    log().expect(&format!("{} is Closed", server.base()));
    told.extend(log().all());
    assert_silent(&told);
}

#[test]
fn settings_that_are_refused_do_not_echo_what_they_hold() {
    log();
    let mut told: Vec<String> = Vec::new();
    for headers in [
        json!({"Authorization": format!("{CANARY}\n")}),
        json!({"Mcp-Name": CANARY}),
        json!({"X Y": CANARY}),
        json!({"X": [CANARY]}),
        json!({"X": 50_599_137}),
        json!(CANARY),
    ] {
        let text = json!({"url": "http://h/", "headers": headers}).to_string();
        let failure = Client::make(text.as_bytes()).map(drop).unwrap_err();
        assert!(!failure.message.contains("50599137"), "{failure:?}");
        told.push(failure.message.clone());
    }
    for url in ["http://u:CANARY@h/", "http://127.0.0.1:1/mcp?key=CANARY", "http://[CANARY/?k=CANARY"] {
        let text = json!({"url": url.replace("CANARY", CANARY), "headers": secret()}).to_string();
        match Client::make(text.as_bytes()) {
            Err(failure) => told.push(failure.message.clone()),
            Ok(nobody) => {
                nobody.open().unwrap();
                told.push(nobody.wait_open().unwrap_err().message.clone());
            }
        }
    }
    told.extend(log().all());
    assert_silent(&told);
}
