//! What published servers put on the wire, row by row: each row is a script of the test server, a call, and what the
//! host must see. Rows that need more than one call, or tasks, have tests of their own below; more of them are in
//! `quirks.rs`, `tasks.rs` and `input.rs`.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;
use mcpnative::ffi::server::{MCP_SERVER_ERA, MCP_SERVER_VERSION};

/// What comes of a request: its result, or the name of the status, the JSON-RPC code and the HTTP status.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Result(Value),
    ToolError(String),
    Error(String, Option<i64>, Option<i64>),
}

fn outcome(ran: Result<Answer, Failure>) -> Outcome {
    match ran {
        Ok(answer) if answer.is_error() => Outcome::ToolError(answer.text().unwrap_or_default()),
        Ok(answer) => Outcome::Result(answer.json()),
        Err(failure) => Outcome::Error(failure.name(), failure.rpc_code, failure.http_status),
    }
}

fn rpc(code: i64, status: i64) -> Outcome {
    Outcome::Error("MCP_E_RPC".into(), Some(code), (status != 200).then_some(status))
}

fn failed(name: &str) -> Outcome {
    Outcome::Error(name.into(), None, None)
}

fn error(status: u16, code: i64) -> Value {
    json!({"http_status": status, "error": {"code": code, "message": "as the server says"}})
}

fn raw(body: &str) -> Value {
    json!({"headers": {"Content-Type": "application/json"}, "body": body})
}

fn script(options: &Value, rules: &[Value]) -> Script {
    rules.iter().fold(Script::new().options(options.clone()), |script, rule| script.rule(rule.clone()))
}

struct Row {
    name: &'static str,
    method: &'static str,
    params: Value,
    action: Value,
    want: Outcome,
}

fn row(name: &'static str, method: &'static str, action: Value, want: Outcome) -> Row {
    let params = match method {
        "tools/call" => json!({"name": "echo", "arguments": {"a": 1}}),
        "resources/read" => json!({"uri": "file:///none"}),
        "prompts/get" => json!({"name": "p"}),
        _ => json!({"taskId": "t"}),
    };
    Row { name, method, params, action, want }
}

fn plain(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

/// One answer to one request, the connection and the client live on after it.
fn answers() -> Vec<Row> {
    let ok = || Outcome::Result(plain("x"));
    let result = json!({"result": plain("x")});
    let with = |more: Value| {
        let mut action = result.clone();
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        action
    };
    let call = "tools/call";
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]});
    let strange = json!({"resultType": "complete", "content": [{"type": "hologram", "x": [1]}, {"type": "text", "text": "x"}]});
    let tool_says = json!({"isError": true, "content": [{"type": "text", "text": "Unknown tool: echo"}]});
    vec![
        row("plain answer as JSON (fastmcp, TS, turul, python)", call, result.clone(), ok()),
        row("plain answer as SSE (rmcp)", call, json!({"sse": [{"result": plain("x")}]}), ok()),
        row("with progress as SSE (all)", call, json!({"sse": [{"progress": {"progress": 1}}, {"result": plain("x")}]}), ok()),
        row("body framed by its length", call, with(json!({"framing": "length"})), ok()),
        row("body in chunks (TS, rmcp)", call, with(json!({"framing": "chunked"})), ok()),
        row("body ended by its connection", call, with(json!({"framing": "close"})), ok()),
        row("201 as success (ruby_llm-mcp#107)", call, with(json!({"http_status": 201})), ok()),
        row("201 and a stream", call, json!({"http_status": 201, "sse": [{"result": plain("x")}]}), ok()),
        row("-32602 as 400 (fastmcp, python)", call, error(400, -32602), rpc(-32602, 400)),
        row("-32602 as 200 (TS, rmcp, turul)", call, error(200, -32602), rpc(-32602, 200)),
        row("-32021 as 400", call, error(400, -32021), rpc(-32021, 400)),
        row("-32020 as 400, again after a look at the tools", call, error(400, -32020), rpc(-32020, 400)),
        row("-32601 as 404", call, error(404, -32601), rpc(-32601, 404)),
        row("unknown tool or bad arguments as isError (fastmcp, python)", call, json!({"result": tool_says}), Outcome::ToolError("Unknown tool: echo".into())),
        row("unknown tool or bad arguments as -32602 (TS, turul)", call, error(200, -32602), rpc(-32602, 200)),
        row("a JSON-RPC error raised in a tool as such (rmcp, turul, python)", call, error(200, -32050), rpc(-32050, 200)),
        row("input_required refused with -32021 (TS, turul)", call, error(400, -32021), rpc(-32021, 400)),
        row("unknown task as -32602, 400 (fastmcp)", "tasks/get", error(400, -32602), rpc(-32602, 400)),
        row("unknown task as -32602, 200", "tasks/get", error(200, -32602), rpc(-32602, 200)),
        row("tasks/list is -32601, 404 (all)", "tasks/list", error(404, -32601), rpc(-32601, 404)),
        row("tasks/result is -32601, 404 (all)", "tasks/result", error(404, -32601), rpc(-32601, 404)),
        row("resource not found: -32602, 400 (fastmcp, python)", "resources/read", error(400, -32602), rpc(-32602, 400)),
        row("resource not found: -32602, 200 (TS, rmcp, turul)", "resources/read", error(200, -32602), rpc(-32602, 200)),
        row("a prompt without resultType (rmcp)", "prompts/get", json!({"result": prompt}), Outcome::Result(prompt)),
        row("numbers as floats (turul)", call, raw("{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[],\"structuredContent\":9.0}}"), Outcome::Result(json!({"content": [], "structuredContent": 9.0}))),
        row("an unknown content type refuses nothing (robustness)", call, json!({"result": strange}), Outcome::Result(strange)),
        row("an unknown resultType is no success (robustness)", call, json!({"result": {"resultType": "novel", "content": []}}), failed("MCP_E_MALFORMED")),
        row("a reset in the middle of a JSON body (robustness)", call, with(json!({"cut_body_after": 20, "then": "reset"})), failed("MCP_E_OUTCOME_UNKNOWN")),
        row("a cut SSE stream (robustness)", call, json!({"sse": [{"progress": {"progress": 1}}], "then": "close_silently"}), failed("MCP_E_OUTCOME_UNKNOWN")),
        row("a reset SSE stream (robustness)", call, json!({"sse": [{"progress": {"progress": 1}}], "then": "reset"}), failed("MCP_E_OUTCOME_UNKNOWN")),
        row("an SSE stream of lone CRs (robustness)", call, json!({"sse": [{"progress": {"progress": 1}, "eol": "\r"}, {"result": plain("x"), "eol": "\r"}]}), ok()),
        row("an SSE stream of lone CRs that stays open (robustness)", call, json!({"sse": [{"result": plain("x"), "eol": "\r"}], "then": "stall"}), ok()),
        row("an answer with a wrong id (robustness)", call, with(json!({"id": "other"})), failed("MCP_E_MALFORMED")),
        row("the same in a stream (robustness)", call, json!({"sse": [{"message": {"jsonrpc": "2.0", "id": 987_654, "result": {}}}], "then": "stall"}), failed("MCP_E_MALFORMED")),
    ]
}

#[test]
fn each_answer_is_what_it_is_and_the_next_call_works() {
    for Row { name, method, params, action, want } in answers() {
        let rule = json!({"match": {"method": method, "from": 1, "to": 2}, "do": action});
        // A second request comes by itself after -32020 alone; the others leave the rule to the call after.
        let rules = if name.starts_with("-32020") { vec![rule] } else { vec![json!({"match": {"method": method, "nth": 1}, "do": action})] };
        let server = TestServer::start(script(&json!({}), &rules));
        let client = Client::ready(&server, json!({"timeouts": {"idle_ms": -1, "total_ms": -1}}));
        assert_eq!(outcome(client.request(method, params)), want, "{name}");
        assert_eq!(client.run("add", json!({"a": 1, "b": 2})).expect(name).json()["structuredContent"]["sum"], 3, "{name}");
        let sent = server.count_of(method) - usize::from(method == "tools/call");
        assert_eq!(sent, if name.starts_with("-32020") { 2 } else { 1 }, "{name}: sent so often");
    }
}

// ---- the opening -------------------------------------------------------------------------------------------------------

#[test]
fn discoveries_of_published_servers() {
    for (name, patch) in [
        ("2026 only, though legacy works", json!({"supportedVersions": ["2026-07-28"]})),
        ("all five (rmcp)", json!({"supportedVersions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]})),
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

#[test]
fn br_10_first_answers_over_http_and_no_second_probe() {
    let html = json!({"Content-Type": "text/html"});
    let versions = |list: Value| json!({"http_status": 400, "error": {"code": -32022, "message": "no", "data": {"supported": list}}});
    for (name, options, answer, era) in [
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
    ] {
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
        assert_eq!(again, usize::from(era == "modern"), "{name}: only a modern server is asked, and that is its opening");
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
    let refusal = json!({"http_status": 400, "error": {"code": -32020, "message": "m", "data": {"supported": ["2026-07-28"]}}});
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
    let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "server/discover", "nth": 1}, "do": late})]));
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
        ("server-everything: a bogus session is 400 without an id, answers are streams with a priming event",
            json!({"era": "legacy", "answer_sse": true, "legacy": {"lost_status": 400, "events": true}})),
        ("TS: stateless", json!({"era": "legacy", "legacy": {"sessions": false}})),
        ("python, fastmcp, rmcp: a session, answers are streams", json!({"era": "legacy", "answer_sse": true})),
        ("a version of its own whatever is offered", json!({"era": "legacy", "legacy": {"answer_version": "2025-06-18", "version_header": "negotiated"}})),
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
fn single_answers_of_legacy_servers() {
    let task = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status",
        "params": {"taskId": "t-1", "status": "working", "createdAt": "$now", "lastUpdatedAt": "$now", "ttl": 60000}});
    for (name, method, action, want) in [
        ("resource not found: -32002 (rmcp)", "resources/read", error(200, -32002), rpc(-32002, 200)),
        ("a task's status before the answer that it belongs to (server-everything)", "tools/call",
            json!({"sse": [{"message": task}, {"result": {"content": []}}]}), Outcome::Result(json!({"content": []}))),
        ("an answer behind a priming event", "tools/call", json!({"sse": ["id: 1\ndata:\n\n", {"result": {"content": []}}]}),
            Outcome::Result(json!({"content": []}))),
        ("an unknown version: 400, -32000 and a text (server-everything)", "tools/call",
            json!({"http_status": 400, "error": {"code": -32000, "message": "Bad Request: Unsupported protocol version (supported versions: 2025-11-25, 2025-06-18)"}}),
            rpc(-32000, 400)),
    ] {
        let rule = json!({"match": {"method": method}, "do": action});
        let server = TestServer::start(script(&json!({"era": "legacy"}), &[rule]));
        let client = Client::ready(&server, json!({}));
        let params = row(name, method, json!(null), failed("")).params;
        assert_eq!(outcome(client.request(method, params)), want, "{name}");
        assert_eq!(client.tool_names().expect(name).is_empty(), false, "{name}");
        assert!(server.count_of(method) <= 2, "{name}");
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
        ("200, no type, chunked, empty", json!({"http_status": 200, "headers": typed(""), "body": "", "framing": "chunked"})),
        ("200 null", json!({"http_status": 200, "headers": typed("application/json"), "body": "null"})),
        ("200 {}", json!({"http_status": 200, "headers": typed("application/json"), "body": "{}"})),
        ("201", json!({"http_status": 201, "body": ""})),
        ("202 late", json!({"http_status": 202, "body": "", "delay_ms": 3_000})),
        ("400 and an error without an id", json!({"http_status": 400, "error": {"code": -32600, "message": "br 15 refused"}, "id": "absent"})),
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

// ---- headers -----------------------------------------------------------------------------------------------------------

#[test]
fn a_version_that_the_server_does_not_take_is_asked_about_once_in_both_forms() {
    // turul answers -32022 where the others answer -32020.
    for (code, data) in [(-32022, json!({"supported": ["2026-07-28"]})), (-32020, json!(null))] {
        let refusal = json!({"http_status": 400, "error": {"code": code, "message": "m", "data": data}});
        let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call", "nth": 1}, "do": refusal})]));
        let client = Client::ready(&server, json!({}));
        client.run("count", json!({})).unwrap();
        assert_eq!((server.counter("count"), server.count_of("tools/call")), (1, 2), "{code}");
    }
}

#[test]
fn state_of_a_round_goes_back_untouched_sealed_or_plain() {
    for state in [
        "v1.Zm9vYmFyLWJhei1xdXV4.AbC-_123==",
        "{\"step\": 1.0, \"name\": \"plain \u{e9}\"}",
        "",
        " spaces, \"quotes\" and \n",
    ] {
        let ask = json!({"resultType": "input_required", "requestState": state,
            "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}});
        let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call", "nth": 1}, "do": {"result": ask}})]));
        let client = Client::new(&settings(&server, json!({})));
        client.on(MCP_EVENT_ELICITATION, |event| drop(event.input().unwrap().reply(&json!({}))));
        client.open().unwrap();
        client.wait_open().unwrap();
        client.run("echo", json!({})).unwrap();
        assert_eq!(server.requests_of("tools/call")[1].at("/params/requestState"), json!(state));
    }
}

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
        ("TS v2: empty content beside the task", json!({"content": [], "pollIntervalMs": 100, "ttlMs": 60_000}), Some(100), Some(60_000)),
    ] {
        let server = TestServer::start(Script::new().task(json!({"tool": "job", "seed": seed, "polls": [completed()]})));
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
        ("fastmcp, asynchronous", "0f8a-task:3b1c9d", vec![json!({"task": asks("0f8a-task:3b1c9d"), "times": 2}), completed()]),
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
        assert_eq!(updates[0].at("/params/inputResponses")[key], json!({"action": "accept", "content": {"n": 1}}), "{name}");
    }
}

#[test]
fn a_json_rpc_error_raised_in_a_tool_fails_its_task() {
    let error = json!({"code": -32050, "message": "m", "data": {"a": 1}});
    let server = TestServer::start(Script::new().task(json!({"tool": "job", "polls": [{"task": {"status": "failed", "error": error}}]})));
    let client = Client::ready(&server, json!({}));
    let end = client.task("job", json!({})).end();
    let failure = end.failure().unwrap();
    assert_eq!((end.status(), failure.rpc_code, failure.rpc_data.as_deref()), ("failed", Some(-32050), Some("{\"a\":1}")));
}

#[test]
fn an_update_of_a_finished_task_is_told_as_the_server_answers_it() {
    for (name, answer, want) in [
        ("acknowledged (fastmcp, TS, rmcp)", json!({"result": {"resultType": "complete"}}), None),
        ("-32602 (turul)", json!({"error": {"code": -32602, "message": "not waiting for input"}}), Some(-32602)),
    ] {
        let server = TestServer::start(Script::new().task(
            json!({"tool": "job", "polls": [{"task": asks("k")}], "updates": [answer]})));
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
        ("at once (fastmcp, turul)", vec![json!({"task": {"status": "working"}, "until": "cancelled"}), cancelled.clone()], "cancelled"),
        ("in its own time (TS, rmcp)", vec![json!({"task": {"status": "working"}, "until": "cancelled"}), working(json!({})), cancelled], "cancelled"),
        ("too late: it stays completed (all)", vec![json!({"task": {"status": "working"}, "until": "cancelled"}), completed()], "completed"),
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
    for (status, more) in [("failed", json!({"error": {"code": -1, "message": "m"}})), ("completed", json!({"result": {"isError": true, "content": []}}))] {
        let mut task = json!({"resultType": "task", "status": status});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let server = TestServer::start(Script::new().task(json!({"tool": "job", "polls": [{"task": task}]})));
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.task("job", json!({})).end().status(), status);
    }
}

// ---- lists -------------------------------------------------------------------------------------------------------------

#[test]
fn one_malformed_entry_hides_no_other() {
    let entries = json!([5, null, {"name": 7}, {"no": "name"}, {"name": "good", "inputSchema": {"type": "object"}}, "text",
        {"name": "odd schema", "inputSchema": 7}, {"name": "no schema"}]);
    for era in ["modern", "legacy"] {
        let rules = [json!({"match": {"method": "tools/list"}, "do": {"result": {"tools": entries}}})];
        let server = TestServer::start(script(&json!({"era": era}), &rules));
        let client = Client::ready(&server, json!({}));
        let list = client.list_tools().unwrap();
        assert_eq!(list["tools"], entries, "{era}: the host sees them all, as they came");
        client.run("echo", json!({})).unwrap();
    }
    for (method, member) in [("resources/list", "resources"), ("prompts/list", "prompts"), ("resources/templates/list", "resourceTemplates")] {
        let rules = [json!({"match": {"method": method}, "do": {"result": {member: entries}}})];
        let server = TestServer::start(script(&json!({}), &rules));
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.request_with(method, "", "{\"all_pages\":true}").unwrap().json()[member], entries);
    }
}

#[test]
fn what_one_client_learned_of_the_tools_is_no_other_clients_knowledge() {
    // chat-ui PR#2340: lists kept under the address alone. Two users of one server may see different tools.
    let tool = |header: &str| json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header}}}});
    let rules = [
        json!({"match": {"method": "tools/list", "headers": {"x-user": "one"}}, "do": {"result": {"tools": [tool("One")]}}}),
        json!({"match": {"method": "tools/list", "headers": {"x-user": "two"}}, "do": {"result": {"tools": [tool("Two")]}}}),
        json!({"match": {"method": "tools/call"}, "do": {"result": {"content": []}}}),
    ];
    let server = TestServer::start(script(&json!({}), &rules));
    let clients = ["one", "two"].map(|user| Client::ready(&server, json!({"headers": {"X-User": user}})));
    for client in &clients {
        client.list_tools().unwrap();
    }
    for client in &clients {
        client.run("t", json!({"a": "v"})).unwrap();
    }
    let sent = server.requests_of("tools/call");
    let mirrored: Vec<_> = sent.iter().map(|call| (call.header("Mcp-Param-One"), call.header("Mcp-Param-Two"))).collect();
    assert_eq!(mirrored, [(Some("v"), None), (None, Some("v"))]);
}

// ---- the grammar of streams, letter by letter --------------------------------------------------------------------------

#[test]
fn br_22_each_form_of_the_same_answer() {
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"gr\u{fc}\u{df}e \u{1f980}\"}]}}";
    let line = format!("data: {answer}");
    let many = format!("data: {{\ndata: \"jsonrpc\":\"2.0\",\ndata: \"id\":$id,\ndata: \"result\":\ndata: {}\ndata: }}\n\n",
        "{\"content\":[{\"type\":\"text\",\"text\":\"gr\u{fc}\u{df}e \u{1f980}\"}]}");
    let note = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n";
    for (letter, body, slice) in [
        ("a: CR LF", format!("event: message\r\n{line}\r\n\r\n"), 0),
        ("b: lone CR", format!("event: message\r{line}\r\r"), 0),
        ("c: six data lines", many, 0),
        ("d: no space", format!("data:{answer}\n\n"), 0),
        ("e, f: every byte its own chunk, characters cut", format!("{line}\n\n"), 1),
        ("g: CR and LF in two chunks", format!("id: 1\r\n{line}\r\n\r\n"), 1),
        ("h: comments", format!(": a\n\n: b\n{line}\n: c\n\n: d\n\n"), 0),
        ("i: a priming event", format!("id: 7\ndata:\n\n{line}\n\n"), 0),
        ("j: a ping", format!("event: ping\ndata: {{}}\n\n{line}\n\n"), 0),
        ("k: unknown fields", format!("nonsense: 1\nmore\n{line}\n\n"), 0),
        ("m: two events in one chunk", format!("{note}{line}\n\n"), 0),
        ("n: JSON that is no JSON-RPC", format!("data: {{\"type\":\"ping\"}}\n\n{line}\n\n"), 0),
    ] {
        for kind in ["text/event-stream", "Text/Event-Stream; Charset=UTF-8"] {
            let mut action = json!({"headers": {"Content-Type": kind}, "body": body, "framing": "chunked"});
            if slice > 0 {
                action["slice_bytes"] = json!(slice);
            }
            let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call"}, "do": action})]));
            let client = Client::ready(&server, json!({}));
            let text = client.run("echo", json!({})).expect(letter).text();
            assert_eq!(text.as_deref(), Some("gr\u{fc}\u{df}e \u{1f980}"), "{letter}, {kind}");
        }
    }
    for (letter, end) in [("o: no blank line", "\n"), ("o: no line end", "")] {
        let action = json!({"headers": {"Content-Type": "text/event-stream"}, "body": format!("{line}{end}"), "framing": "chunked"});
        let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call"}, "do": action})]));
        let client = Client::ready(&server, json!({"timeouts": {"idle_ms": -1, "total_ms": -1}}));
        assert_eq!(client.run("echo", json!({})).expect_err(letter).name(), "MCP_E_OUTCOME_UNKNOWN", "{letter}");
    }
}

#[test]
fn br_23_a_b_c_a_stream_that_ends_is_lost_at_once_and_never_resumed() {
    let progress = json!({"id": "5", "retry": 10, "progress": {"progress": 1}});
    for (name, frames, then) in [
        ("a: clean end", vec![progress.clone()], "close_silently"),
        ("b: reset", vec![progress], "reset"),
        ("c: nothing at all", vec![], "close_silently"),
    ] {
        let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call"}, "do": {"sse": frames, "then": then}})]));
        let client = Client::ready(&server, json!({"timeouts": {"idle_ms": -1, "total_ms": -1}}));
        assert_eq!(client.run("echo", json!({})).expect_err(name).name(), "MCP_E_OUTCOME_UNKNOWN", "{name}");
        client.tool_names().unwrap();
        for request in server.requests() {
            assert_eq!((request.http_method.as_str(), request.header("last-event-id")), ("POST", None), "{name}");
        }
    }
}

#[test]
fn br_17_a_list_may_be_asked_for_once_more_under_a_new_id() {
    let progress = json!({"progress": {"progress": 1}});
    for (name, action, asked) in [
        ("a: reset", json!({"reset": true}), 2),
        ("b: 503 is an answer", json!({"http_status": 503}), 1),
        ("c: progress, then a cut", json!({"sse": [progress], "then": "close_silently"}), 2),
    ] {
        let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/list", "nth": 1}, "do": action})]));
        let client = Client::ready(&server, json!({}));
        let listed = client.list_tools();
        assert_eq!(listed.is_ok(), asked == 2, "{name}: {listed:?}");
        let ids: Vec<Value> = server.requests_of("tools/list").iter().map(|request| request.at("/id")).collect();
        assert_eq!(ids.len(), asked, "{name}");
        assert!(asked == 1 || ids[0] != ids[1], "{name}: a repeat is a new request");
    }
}

#[test]
fn br_20_legacy_get_and_delete_carry_the_negotiated_version_too() {
    let server = TestServer::start(script(&json!({"era": "legacy", "legacy": {"answer_version": "2025-06-18", "version_header": "negotiated"}}), &[]));
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

#[test]
fn br_31_numbers_of_progress_pass_untouched() {
    let frame = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$token,\"progress\":5e2,\"total\":1e3}}\n\n";
    let server = TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call"}, "do": {"sse": [frame, {"result": {"content": []}}]}})]));
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({})).unwrap();
    let event = client.events.nth(MCP_EVENT_PROGRESS, 1);
    assert_eq!(event.json()["total"].as_f64(), Some(1000.0));
    assert!(event.json().to_string().contains("1e+3") || event.json().to_string().contains("1e3"), "{}", event.json());
}
