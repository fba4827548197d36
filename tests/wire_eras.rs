//! The first answers of published servers, over HTTP: which era follows, what is remembered, and what legacy servers do
//! from then on.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;
use mcpnative::ffi::server::{MCP_SERVER_ERA, MCP_SERVER_VERSION};

fn error(status: u16, code: i64) -> Value {
    json!({"http_status": status, "error": {"code": code, "message": "as the server says"}})
}

fn script(options: &Value, rules: &[Value]) -> Script {
    rules.iter().fold(Script::new().options(options.clone()), |script, rule| script.rule(rule.clone()))
}

// ---- the opening -------------------------------------------------------------------------------------------------------

#[test]
fn discoveries_of_published_servers() {
    for (name, patch) in [
        ("2026 only, though legacy works", json!({"supportedVersions": ["2026-07-28"]})),
        (
            "all five (rmcp)",
            json!({"supportedVersions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]}),
        ),
        ("without serverInfo in _meta (rmcp)", json!({"_meta": "$absent"})),
        ("without resultType (rmcp)", json!({"resultType": "$absent"})),
        ("without capabilities", json!({"capabilities": "$absent"})),
        ("strangers among the versions", json!({"supportedVersions": ["2031-01-01", "2026-07-28", "draft"]})),
    ] {
        for options in [json!({}), json!({"era": "both"}), json!({"answer_sse": true})] {
            let rule = json!({"match": {"method": "server/discover"}, "do": {"patch": patch}});
            let server = TestServer::start(script(&options, &[rule]));
            let client = Client::ready(&server, json!({}));
            assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("modern"), "{name} {options}");
            client.run("echo", json!({})).expect(name);
            assert_eq!(server.count_of("initialize"), 0, "{name} {options}");
        }
    }
}

/// What the server is, its first answer, and the era that follows; [`None`] where it is no evidence.
#[rustfmt::skip]
fn first_answers() -> Vec<(&'static str, Value, Value, Option<&'static str>)> {
    let html = json!({"Content-Type": "text/html"});
    let versions = |list: Value| json!({"http_status": 400, "error": {"code": -32022, "message": "no", "data": {"supported": list}}});
    vec![
        ("g: 400, empty", json!({"era": "legacy"}), json!({"http_status": 400}), Some("legacy")),
        ("h: 404, HTML", json!({"era": "legacy"}), json!({"http_status": 404, "headers": html, "body": "<p>no"}), Some("legacy")),
        ("i: 200 and -32601", json!({"era": "legacy"}), error(200, -32601), Some("legacy")),
        ("server-everything: 400, -32000, id null", json!({"era": "legacy"}), json!({"http_status": 400, "error": {"code": -32000, "message": "Server not initialized"}, "id": "null"}), Some("legacy")),
        ("the same as a stream", json!({"era": "legacy"}), json!({"sse": [{"error": {"code": -32601, "message": "no"}}]}), Some("legacy")),
        ("TS legacy, stateless", json!({"era": "legacy", "legacy": {"sessions": false}}), error(400, -32000), Some("legacy")),
        ("rmcp on an initialized session: 400, -32602", json!({"era": "legacy"}), error(400, -32602), Some("legacy")),
        ("-32022 without a list", json!({"era": "legacy"}), error(400, -32022), Some("legacy")),
        ("-32022, legacy ones only", json!({"era": "legacy"}), versions(json!(["2025-11-25", "2025-06-18"])), Some("legacy")),
        ("j: -32022 with ours", json!({}), versions(json!(["2026-07-28"])), Some("modern")),
        ("-32022 with both", json!({"era": "both"}), versions(json!(["2025-11-25", "2026-07-28"])), Some("modern")),
        ("f: -32022 of strangers", json!({"era": "both"}), versions(json!(["2031-01-01"])), None),
        ("k: -32020", json!({"era": "both"}), error(400, -32020), None),
        ("-32021", json!({"era": "both"}), error(400, -32021), None),
        ("401", json!({"era": "both"}), json!({"http_status": 401}), None),
        ("403", json!({"era": "both"}), json!({"http_status": 403}), None),
        ("429", json!({"era": "both"}), json!({"http_status": 429}), None),
        ("503", json!({"era": "both"}), json!({"http_status": 503}), None),
        ("a reset", json!({"era": "both"}), json!({"reset": true}), None),
    ]
}

#[test]
fn br_10_first_answers_over_http_and_no_second_probe() {
    for (name, options, answer, era) in first_answers() {
        let rule = json!({"match": {"method": "server/discover", "from": 1, "to": if name == "a reset" { 2 } else { 1 }}, "do": answer});
        let server = TestServer::start(script(&options, &[rule]));
        let client = Client::new(&settings(&server, json!({})));
        client.open().unwrap();
        let opened = client.wait_open();
        let Some(era) = era else {
            opened.expect_err(name);
            assert_eq!(server.count_of("initialize"), 0, "{name}: no evidence, no fallback");
            // Nothing was remembered: the next opening asks anew, and finds what the server is.
            client.open().expect(name);
            client.wait_open().expect(name);
            assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("modern"), "{name}");
            continue;
        };
        opened.expect(name);
        assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some(era), "{name}");
        client.run("echo", json!({})).expect(name);
        drop(client);
        let probes = server.count_of("server/discover");
        let heard: Vec<_> = server.requests().iter().filter_map(|request| request.method.clone()).collect();
        if era == "legacy" {
            assert_eq!(heard[..3], ["server/discover", "initialize", "notifications/initialized"], "{name}");
        } else {
            assert_eq!(heard[..2], ["server/discover", "server/discover"], "{name}");
        }
        // The next client of the same configuration knows; one of another configuration asks.
        let second = Client::ready(&server, json!({}));
        assert_eq!(second.server().text(MCP_SERVER_ERA).as_deref(), Some(era), "{name}");
        let again = server.count_of("server/discover") - probes;
        assert_eq!(
            again,
            usize::from(era == "modern"),
            "{name}: only a modern server is asked, and that is its opening"
        );
        let other = Client::ready(&server, json!({"headers": {"X-Tenant": "b"}}));
        assert_eq!(other.server().text(MCP_SERVER_ERA).as_deref(), Some(era), "{name}");
        assert_eq!(server.count_of("server/discover") - probes - again, 1, "{name}: another configuration is asked");
    }
}

#[test]
fn a_verdict_kept_by_the_host_spares_the_probe_and_a_wrong_one_is_a_clear_error() {
    for (server_era, wrong) in [("legacy", "modern"), ("modern", "legacy")] {
        let server = TestServer::start(script(&json!({"era": server_era}), &[]));
        let kept = {
            let client = Client::ready(&server, json!({}));
            client.server().text(MCP_SERVER_ERA).unwrap()
        };
        assert_eq!(kept, server_era);
        server.clear();
        // As after a restart of the host: no memory of this process is used where the settings name the era.
        let client = Client::ready(&server, json!({"era": kept}));
        client.run("echo", json!({})).unwrap();
        let first = server.requests()[0].method.clone();
        let want = if server_era == "legacy" { "initialize" } else { "server/discover" };
        assert_eq!(first.as_deref(), Some(want));
        let client = Client::new(&settings(&server, json!({"era": wrong})));
        client.open().unwrap();
        let failure = client.wait_open().unwrap_err();
        assert_eq!(failure.name(), "MCP_E_VERSION", "{failure:?}");
        let words = format!("the server speaks the {server_era} era, and settings.era allows only {wrong}");
        assert!(failure.message.starts_with(&words), "{failure:?}");
    }
}

#[test]
fn a_modern_server_that_is_greeted_the_old_way_is_named_as_what_it_is() {
    // turul: 400, -32020 and the versions.
    let refusal =
        json!({"http_status": 400, "error": {"code": -32020, "message": "m", "data": {"supported": ["2026-07-28"]}}});
    let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "initialize"}, "do": refusal})]));
    let client = Client::new(&settings(&server, json!({"era": "legacy"})));
    client.open().unwrap();
    let failure = client.wait_open().unwrap_err();
    assert_eq!((failure.name().as_str(), failure.rpc_code), ("MCP_E_VERSION", Some(-32020)));
    assert!(failure.message.starts_with("the server speaks the modern era"), "{failure:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_late_answer_to_a_probe_over_http_is_dropped() {
    // Silence is an outage over HTTP. What comes later is nobody's: the next opening asks anew, and hears another answer.
    let late = json!({"delay_ms": 900, "patch": {"supportedVersions": ["2025-11-25"]}});
    let server =
        TestServer::start(script(&json!({}), &[json!({"match": {"method": "server/discover", "nth": 1}, "do": late})]));
    let client = Client::new(&settings(&server, json!({"timeouts": {"probe_ms": 300}})));
    client.open().unwrap();
    assert_eq!(client.wait_open().unwrap_err().name(), "MCP_E_TIMEOUT");
    client.open().unwrap();
    client.wait_open().unwrap();
    client.run("sleep", json!({"ms": 1_000})).unwrap();
    assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("modern"));
    assert_eq!((server.count_of("server/discover"), server.count_of("initialize")), (2, 0));
}

// ---- legacy servers ----------------------------------------------------------------------------------------------------

#[test]
fn legacy_servers_of_every_kind() {
    for (name, options) in [
        (
            "server-everything: a bogus session is 400 without an id, answers are streams with a priming event",
            json!({"era": "legacy", "answer_sse": true, "legacy": {"lost_status": 400, "events": true}}),
        ),
        ("TS: stateless", json!({"era": "legacy", "legacy": {"sessions": false}})),
        ("python, fastmcp, rmcp: a session, answers are streams", json!({"era": "legacy", "answer_sse": true})),
        (
            "a version of its own whatever is offered",
            json!({"era": "legacy", "legacy": {"answer_version": "2025-06-18", "version_header": "negotiated"}}),
        ),
        ("no GET and no DELETE", json!({"era": "legacy", "legacy": {"get": false, "delete": false}})),
    ] {
        let server = TestServer::start(script(&options, &[]));
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("legacy"), "{name}");
        assert!(client.tool_names().expect(name).contains(&"echo".to_owned()), "{name}");
        client.run("progress", json!({"n": 2})).expect(name);
        let sessions = options["legacy"]["sessions"] != json!(false);
        if sessions {
            server.forget_sessions();
        }
        client.run("count", json!({})).expect(name);
        assert_eq!(server.counter("count"), 1, "{name}");
        assert_eq!(server.count_of("initialize"), if sessions { 2 } else { 1 }, "{name}");
    }
}

#[test]
fn br_15_what_a_notification_is_answered_with() {
    log();
    let typed = |kind: &str| json!({"Content-Type": kind});
    for (name, action) in [
        ("202, text", json!({"http_status": 202, "headers": typed("text/plain; charset=utf-8"), "body": "Accepted"})),
        ("202, JSON without a body", json!({"http_status": 202, "headers": typed("application/json"), "body": ""})),
        ("204", json!({"http_status": 204, "body": ""})),
        (
            "200, no type, chunked, empty",
            json!({"http_status": 200, "headers": typed(""), "body": "", "framing": "chunked"}),
        ),
        ("200 null", json!({"http_status": 200, "headers": typed("application/json"), "body": "null"})),
        ("200 {}", json!({"http_status": 200, "headers": typed("application/json"), "body": "{}"})),
        ("201", json!({"http_status": 201, "body": ""})),
        ("202 late", json!({"http_status": 202, "body": "", "delay_ms": 3_000})),
        (
            "400 and an error without an id",
            json!({"http_status": 400, "error": {"code": -32600, "message": "br 15 refused"}, "id": "absent"}),
        ),
    ] {
        let rule = json!({"match": {"method": "notifications/initialized"}, "do": action});
        let server = TestServer::start(script(&json!({"era": "legacy"}), &[rule]));
        let client = Client::ready(&server, json!({}));
        assert!(!client.tool_names().expect(name).is_empty(), "{name}");
    }
    log().expect("the server refused notifications/initialized");
}

#[test]
fn tools_that_only_a_client_with_the_capability_is_shown() {
    let server = TestServer::start(script(&json!({"era": "legacy", "legacy": {"hide_tools": true}}), &[]));
    let without = Client::recording(&server, json!({}), &[]);
    assert!(!without.tool_names().unwrap().iter().any(|name| name == "ask_elicitation"));
    let with = Client::recording(&server, json!({}), &[MCP_EVENT_ELICITATION]);
    assert!(with.tool_names().unwrap().iter().any(|name| name == "ask_elicitation"));
}

#[test]
fn the_tasks_extension_offered_to_a_legacy_session_is_not_used() {
    // TS v2 advertises it there, too; a handle where none was asked for is no result.
    let rules = [
        json!({"match": {"method": "initialize"}, "do": {"patch": {"capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}}}),
        json!({"match": {"method": "tools/call", "nth": 1}, "do": {"result": {"resultType": "task", "taskId": "t", "status": "working"}}}),
    ];
    let server = TestServer::start(script(&json!({"era": "legacy"}), &rules));
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.run("echo", json!({})).unwrap_err().name(), "MCP_E_MALFORMED");
    client.run("echo", json!({})).unwrap();
    let hello = &server.requests_of("initialize")[0];
    assert!(!hello.body.contains("io.modelcontextprotocol/tasks"), "{}", hello.body);
    assert_eq!(server.count_of("tasks/get"), 0);
}

#[test]
fn br_20_legacy_get_and_delete_carry_the_negotiated_version_too() {
    let server = TestServer::start(script(
        &json!({"era": "legacy", "legacy": {"answer_version": "2025-06-18", "version_header": "negotiated"}}),
        &[],
    ));
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.server().text(MCP_SERVER_VERSION).as_deref(), Some("2025-06-18"));
    client.run("echo", json!({})).unwrap();
    assert!(server.wait_for(|all| all.iter().any(|request| request.http_method == "GET"), PATIENCE));
    drop(client);
    let requests = server.requests();
    for verb in ["GET", "DELETE"] {
        let found: Vec<_> = requests.iter().filter(|request| request.http_method == verb).collect();
        assert!(!found.is_empty(), "{verb}");
        assert!(found.iter().all(|request| request.header("mcp-protocol-version") == Some("2025-06-18")), "{verb}");
    }
    let told = requests.iter().find(|request| request.method.as_deref() == Some("notifications/initialized")).unwrap();
    assert_eq!(told.header("mcp-protocol-version"), Some("2025-06-18"));
}
