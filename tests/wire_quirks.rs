//! What published servers put on the wire, row by row: each row is a script of the test server, a call, and what the
//! host must see. First answers and legacy servers are in `wire_eras.rs`, tasks in `wire_tasks.rs`; more of it is in
//! `quirks.rs`, `tasks.rs` and `input.rs`.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;

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
#[rustfmt::skip]
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
        let rules = if name.starts_with("-32020") {
            vec![rule]
        } else {
            vec![json!({"match": {"method": method, "nth": 1}, "do": action})]
        };
        let server = TestServer::start(script(&json!({}), &rules));
        let client = Client::ready(&server, json!({"timeouts": {"idle_ms": -1, "total_ms": -1}}));
        assert_eq!(outcome(client.request(method, params)), want, "{name}");
        assert_eq!(
            client.run("add", json!({"a": 1, "b": 2})).expect(name).json()["structuredContent"]["sum"],
            3,
            "{name}"
        );
        let sent = server.count_of(method) - usize::from(method == "tools/call");
        assert_eq!(sent, if name.starts_with("-32020") { 2 } else { 1 }, "{name}: sent so often");
    }
}

#[test]
fn single_answers_of_legacy_servers() {
    let task = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status",
        "params": {"taskId": "t-1", "status": "working", "createdAt": "$now", "lastUpdatedAt": "$now", "ttl": 60000}});
    for (name, method, action, want) in [
        ("resource not found: -32002 (rmcp)", "resources/read", error(200, -32002), rpc(-32002, 200)),
        (
            "a task's status before the answer that it belongs to (server-everything)",
            "tools/call",
            json!({"sse": [{"message": task}, {"result": {"content": []}}]}),
            Outcome::Result(json!({"content": []})),
        ),
        (
            "an answer behind a priming event",
            "tools/call",
            json!({"sse": ["id: 1\ndata:\n\n", {"result": {"content": []}}]}),
            Outcome::Result(json!({"content": []})),
        ),
        (
            "an unknown version: 400, -32000 and a text (server-everything)",
            "tools/call",
            json!({"http_status": 400, "error": {"code": -32000, "message": "Bad Request: Unsupported protocol version (supported versions: 2025-11-25, 2025-06-18)"}}),
            rpc(-32000, 400),
        ),
    ] {
        let rule = json!({"match": {"method": method}, "do": action});
        let server = TestServer::start(script(&json!({"era": "legacy"}), &[rule]));
        let client = Client::ready(&server, json!({}));
        let params = row(name, method, json!(null), failed("")).params;
        assert_eq!(outcome(client.request(method, params)), want, "{name}");
        assert!(!client.tool_names().expect(name).is_empty(), "{name}");
        assert!(server.count_of(method) <= 2, "{name}");
    }
}

// ---- headers -----------------------------------------------------------------------------------------------------------

#[test]
fn a_version_that_the_server_does_not_take_is_asked_about_once_in_both_forms() {
    // turul answers -32022 where the others answer -32020.
    for (code, data) in [(-32022, json!({"supported": ["2026-07-28"]})), (-32020, json!(null))] {
        let refusal = json!({"http_status": 400, "error": {"code": code, "message": "m", "data": data}});
        let server = TestServer::start(script(
            &json!({}),
            &[json!({"match": {"method": "tools/call", "nth": 1}, "do": refusal})],
        ));
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
        let server = TestServer::start(script(
            &json!({}),
            &[json!({"match": {"method": "tools/call", "nth": 1}, "do": {"result": ask}})],
        ));
        let client = Client::new(&settings(&server, json!({})));
        client.on(MCP_EVENT_ELICITATION, |event| drop(event.input().unwrap().reply(&json!({}))));
        client.open().unwrap();
        client.wait_open().unwrap();
        client.run("echo", json!({})).unwrap();
        assert_eq!(server.requests_of("tools/call")[1].at("/params/requestState"), json!(state));
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
    for (method, member) in [
        ("resources/list", "resources"),
        ("prompts/list", "prompts"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
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
    let mirrored: Vec<_> =
        sent.iter().map(|call| (call.header("Mcp-Param-One"), call.header("Mcp-Param-Two"))).collect();
    assert_eq!(mirrored, [(Some("v"), None), (None, Some("v"))]);
}

// ---- the grammar of streams, letter by letter --------------------------------------------------------------------------

#[test]
fn br_22_each_form_of_the_same_answer() {
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"gr\u{fc}\u{df}e \u{1f980}\"}]}}";
    let line = format!("data: {answer}");
    let many = format!(
        "data: {{\ndata: \"jsonrpc\":\"2.0\",\ndata: \"id\":$id,\ndata: \"result\":\ndata: {}\ndata: }}\n\n",
        "{\"content\":[{\"type\":\"text\",\"text\":\"gr\u{fc}\u{df}e \u{1f980}\"}]}"
    );
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
            let server =
                TestServer::start(script(&json!({}), &[json!({"match": {"method": "tools/call"}, "do": action})]));
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
        let server = TestServer::start(script(
            &json!({}),
            &[json!({"match": {"method": "tools/call"}, "do": {"sse": frames, "then": then}})],
        ));
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
        let server = TestServer::start(script(
            &json!({}),
            &[json!({"match": {"method": "tools/list", "nth": 1}, "do": action})],
        ));
        let client = Client::ready(&server, json!({}));
        let listed = client.list_tools();
        assert_eq!(listed.is_ok(), asked == 2, "{name}: {listed:?}");
        let ids: Vec<Value> = server.requests_of("tools/list").iter().map(|request| request.at("/id")).collect();
        assert_eq!(ids.len(), asked, "{name}");
        assert!(asked == 1 || ids[0] != ids[1], "{name}: a repeat is a new request");
    }
}

#[test]
fn br_31_numbers_of_progress_pass_untouched() {
    let frame = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$token,\"progress\":5e2,\"total\":1e3}}\n\n";
    let server = TestServer::start(script(
        &json!({}),
        &[json!({"match": {"method": "tools/call"}, "do": {"sse": [frame, {"result": {"content": []}}]}})],
    ));
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({})).unwrap();
    let event = client.events.nth(MCP_EVENT_PROGRESS, 1);
    assert_eq!(event.json()["total"].as_f64(), Some(1000.0));
    assert!(event.json().to_string().contains("1e+3") || event.json().to_string().contains("1e3"), "{}", event.json());
}
