//! Requests: cancelled, timed out, limited, listed page by page, mirrored into headers, and many at once.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;

fn on_call(action: Value) -> Script {
    Script::new().rule(json!({"match": {"method": "tools/call"}, "do": action}))
}

fn text_result(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

// ---- cancel ------------------------------------------------------------------------------------------------------------

#[test]
fn a_cancel_closes_the_stream_and_touches_no_neighbour() {
    for (name, action) in [
        ("before the head", json!({"hold": true})),
        (
            "inside a stream",
            json!({"sse": [{"progress": {"progress": 1}}, {"hold": true}, {"result": text_result("x")}]}),
        ),
        (
            "inside a body",
            json!({"framing": "chunked", "result": text_result("x"), "cut_body_after": 10, "then": "stall"}),
        ),
    ] {
        let rule = json!({"match": {"method": "tools/call", "name": "echo"}, "do": action});
        let neighbours = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"hold": "neighbours"}});
        let server = TestServer::start(Script::new().rule(rule).rule(neighbours));
        let client = Client::ready(&server, json!({}));
        let others: Vec<Call> = (0..4).map(|_| client.start("count", json!({}), json!({}))).collect();
        let call = client.start("echo", json!({}), json!({}));
        if name == "inside a stream" {
            client.events.nth(MCP_EVENT_PROGRESS, 1);
        }
        assert!(server.wait_requests("tools/call", 5, PATIENCE));
        assert_eq!((call.cancel(), call.cancel()), (MCP_OK, MCP_S_ALREADY_DONE));
        assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED, "{name}");
        assert_eq!((call.status(), call.answer().is_none()), (MCP_E_CANCELLED, true));
        let left = |name: Option<&str>, early: bool| name == Some("echo") && early;
        let seen = server.wait_for(|all| all.iter().any(|one| left(one.name.as_deref(), one.closed_early)), PATIENCE);
        assert!(seen, "{name}: the server sees the stream closed");
        server.open_gate("neighbours");
        for other in &others {
            assert_eq!(other.wait(PATIENCE_MS), Ok(MCP_OK), "{name}");
        }
        assert_eq!((server.counter("count"), server.count_of("notifications/cancelled")), (4, 0));
        client.events.nth(MCP_EVENT_CALL_DONE, 5);
        let ends = client.events.of(MCP_EVENT_CALL_DONE);
        assert_eq!(ends.iter().filter(|end| end.call_id() == Some(call.id())).count(), 1, "{name}: one end");
        assert_eq!(call.cancel(), MCP_S_ALREADY_DONE, "over");
    }
}

#[test]
fn a_wait_that_runs_out_cancels_nothing() {
    let server = TestServer::start(on_call(json!({"hold": true})));
    let client = Client::ready(&server, json!({}));
    let call = client.start("count", json!({}), json!({}));
    assert!(server.wait_held(1, PATIENCE));
    let begun = now_ms();
    assert_eq!((call.wait(0), call.wait(150)), (Ok(MCP_S_TIMEOUT), Ok(MCP_S_TIMEOUT)));
    assert!(now_ms() - begun >= 150);
    server.release();
    assert_eq!((call.wait(PATIENCE_MS), server.counter("count")), (Ok(MCP_OK), 1));
}

#[test]
fn a_call_made_to_be_waited_for_is_cancelled_when_its_time_is_up() {
    let server = TestServer::start(on_call(json!({"hold": true})));
    let client = Client::ready(&server, json!({}));
    let begun = now_ms();
    let (ran, call) = client.tool_run("count", "{}", "", 300);
    assert_eq!(ran.unwrap_err().status, MCP_E_TIMEOUT);
    assert!(now_ms() - begun >= 300, "never early");
    assert_eq!(call.unwrap().status(), MCP_E_TIMEOUT, "the call is handed out also where it failed");
    assert!(server.wait_for(|all| all.iter().any(|one| one.closed_early), PATIENCE));
}

#[test]
fn a_tool_run_that_gives_up_cancels_the_task_that_it_made() {
    let server = TestServer::start(Script::new().task(json!({"tool": "long", "id": "t", "polls": [
        {"task": {}, "until": "cancelled"}, {"task": {"status": "cancelled"}}]})));
    let client = Client::ready(&server, json!({}));
    let (ran, call) = client.tool_run("long", "{}", "", 500);
    assert_eq!(ran.unwrap_err().status, MCP_E_TIMEOUT);
    assert!(server.wait_requests("tasks/cancel", 1, PATIENCE));
    assert_eq!(server.requests_of("tasks/cancel")[0].name.as_deref(), Some("t"));
    assert_eq!(call.unwrap().task().unwrap().end().reason(), "cancelled", "followed to its real end");
    // A wait for a task alone cancels nothing.
    let task = client.task("long", json!({}));
    let begun = now_ms();
    assert_eq!(task.wait(200).0, MCP_S_TIMEOUT);
    assert!(now_ms() - begun >= 200);
    assert_eq!(task.wait(0).0, MCP_S_TIMEOUT);
    assert_eq!(server.count_of("tasks/cancel"), 1);
    task.let_go();
}

// ---- time limits -------------------------------------------------------------------------------------------------------

#[test]
fn silence_and_the_whole_have_their_own_limits_and_name_them() {
    let stream: Vec<Value> = (1..=40).map(|n| json!({"delay_ms": 50, "progress": {"progress": n}})).collect();
    let silent = json!({"match": {"method": "tools/call", "name": "echo"}, "do": {"never": true}});
    let endless = json!({"match": {"method": "tools/call", "name": "log"}, "do": {"sse": stream, "then": "stall"}});
    let server = TestServer::start(Script::new().rule(silent).rule(endless));
    let client = Client::ready(&server, json!({}));
    for (name, tool, options, least, word) in [
        ("silence", "echo", json!({"idle_ms": 300}), 300, "idle_ms"),
        ("the whole", "echo", json!({"total_ms": 300, "idle_ms": -1}), 300, "total_ms"),
        (
            "bytes start the silence anew, not the whole",
            "log",
            json!({"idle_ms": 1500, "total_ms": 900}),
            900,
            "total_ms",
        ),
    ] {
        let begun = now_ms();
        let call = client.start(tool, json!({}), options);
        let failure = call.wait(PATIENCE_MS).unwrap_err();
        assert_eq!(failure.name(), "MCP_E_TIMEOUT", "{name}: {failure:?}");
        assert!(failure.message.contains(word), "{name}: {failure:?}");
        assert!(now_ms() - begun >= least, "{name}: never early");
    }
    assert!(server.wait_for(|all| all.iter().filter(|one| one.closed_early).count() == 3, PATIENCE));
}

#[test]
fn bytes_keep_a_call_alive_beyond_its_silence() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({"timeouts": {"idle_ms": 1500}}));
    let begun = now_ms();
    client.run("progress", json!({"n": 8, "gap_ms": 250})).unwrap();
    assert!(now_ms() - begun >= 1500);
}

#[test]
fn the_limits_of_the_settings_hold_where_a_call_has_none_of_its_own() {
    let server = TestServer::start(on_call(json!({"never": true})));
    let client = Client::ready(&server, json!({"timeouts": {"idle_ms": 250}}));
    let failure = client.run("echo", json!({})).unwrap_err();
    assert!(failure.status == MCP_E_TIMEOUT && failure.message.contains("idle_ms"), "{failure:?}");
    let client = Client::ready(&server, json!({"timeouts": {"total_ms": 250}}));
    let failure = client.run("echo", json!({})).unwrap_err();
    assert!(failure.status == MCP_E_TIMEOUT && failure.message.contains("total_ms"), "{failure:?}");
}

#[test]
fn opening_has_a_limit_of_its_own() {
    let server = TestServer::start(
        Script::new().rule(json!({"match": {"method": "server/discover", "nth": 1}, "do": {"never": true}})),
    );
    let client = Client::new(&settings(&server, json!({"timeouts": {"probe_ms": 300}})));
    let begun = now_ms();
    client.open().unwrap();
    let failure = client.wait_open().unwrap_err();
    assert!(failure.status == MCP_E_TIMEOUT && failure.message.contains("probe_ms"), "{failure:?}");
    assert!(now_ms() - begun >= 300);
    // Silence is an outage: the same client opens once the server answers.
    client.open().unwrap();
    assert_eq!(client.wait_open(), Ok(MCP_OK));
}

// ---- limits ------------------------------------------------------------------------------------------------------------

#[test]
fn what_is_over_a_limit_is_a_clear_error_and_the_next_call_works() {
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"structuredContent\":{}{}}}}}",
        "[".repeat(40),
        "]".repeat(40)
    );
    let json_type = json!({"Content-Type": "application/json"});
    let long = "x".repeat(5000);
    for (name, action, limits, option) in [
        ("a message", json!({"result": text_result(&long)}), json!({"message_bytes": 4096}), "message_bytes"),
        (
            "a chunked message",
            json!({"result": text_result(&long), "framing": "chunked"}),
            json!({"message_bytes": 4096}),
            "message_bytes",
        ),
        (
            "an event",
            json!({"sse": [{"result": text_result(&long)}]}),
            json!({"sse_event_bytes": 4096}),
            "sse_event_bytes",
        ),
        (
            "a message in an event",
            json!({"sse": [{"result": text_result(&long)}]}),
            json!({"message_bytes": 4096}),
            "message_bytes",
        ),
        ("a head", json!({"headers": {"X-Long": long}}), json!({"header_bytes": 4096}), "header_bytes"),
        ("nesting", json!({"headers": json_type, "body": deep}), json!({"nesting": 32}), "nesting"),
    ] {
        let rule = json!({"match": {"method": "tools/call", "nth": 1}, "do": action});
        let server = TestServer::start(Script::new().rule(rule));
        let client = Client::ready(&server, json!({"limits": limits}));
        let failure = client.run("count", json!({})).expect_err(name);
        assert_eq!(failure.name(), "MCP_E_TOO_LARGE", "{name}: {failure:?}");
        assert!(failure.message.contains(&format!("limits.{option}")), "{name}: {failure:?}");
        client.run("echo", json!({})).expect(name);
    }
}

// ---- lists -------------------------------------------------------------------------------------------------------------

#[test]
fn br_28_an_empty_cursor_is_a_cursor_on_all_lists() {
    for (method, member) in [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        let page = |name: &str| json!({"resultType": "complete", member: [{"name": name}]});
        let mut first = page("one");
        first["nextCursor"] = json!("");
        let server = TestServer::start(
            Script::new()
                .rule(json!({"match": {"method": method, "params": {"cursor": ""}}, "do": {"result": page("two")}}))
                .rule(json!({"match": {"method": method}, "do": {"result": first}})),
        );
        let client = Client::ready(&server, json!({}));
        let all = client.request_with(method, "", "{\"all_pages\":true}").unwrap().json();
        assert_eq!(all[member], json!([{"name": "one"}, {"name": "two"}]), "{method}");
        let asked = server.requests_of(method);
        assert_eq!(
            (asked.len(), asked[0].at("/params/cursor"), asked[1].at("/params/cursor")),
            (2, json!(null), json!(""))
        );
    }
}

#[test]
fn br_28_cursors_are_opaque_and_null_ends() {
    let long = "c".repeat(10 << 10);
    for cursor in ["line\nbreak", "\"quote\"", " \u{1f980} ", long.as_str(), "{\"a\":1}"] {
        let page = |name: &str, next: Value| json!({"result": {"tools": [{"name": name}], "nextCursor": next}});
        let server = TestServer::start(
            Script::new()
                .rule(json!({"match": {"method": "tools/list", "params": {"cursor": cursor}}, "do": page("two", json!(null))}))
                .rule(json!({"match": {"method": "tools/list"}, "do": page("one", json!(cursor))})),
        );
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.tool_names().unwrap(), ["one", "two"], "{cursor:?}");
        assert_eq!(server.count_of("tools/list"), 2);
    }
}

#[test]
fn br_28_an_error_on_a_later_page_is_an_error() {
    let server = TestServer::start(
        Script::new()
            .options(json!({"page_size": 5}))
            .rule(json!({"match": {"method": "tools/list", "nth": 2}, "do": {"error": {"code": -32602, "message": "bad cursor"}}})),
    );
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.list_tools().unwrap_err().rpc_code, Some(-32602));
}

#[test]
fn br_28_loops_and_endless_lists_end() {
    let looping =
        json!({"match": {"method": "tools/list"}, "do": {"result": {"tools": [{"name": "t"}], "nextCursor": "same"}}});
    let server = TestServer::start(Script::new().rule(looping));
    let client = Client::ready(&server, json!({}));
    let failure = client.list_tools().unwrap_err();
    assert_eq!((failure.status, server.count_of("tools/list")), (MCP_E_MALFORMED, 2));
    assert!(failure.message.contains("loop"), "{failure:?}");
    let endless =
        json!({"match": {"method": "tools/list"}, "do": {"result": {"tools": [{"name": "t"}], "nextCursor": "c$n"}}});
    let server = TestServer::start(Script::new().rule(endless));
    let client = Client::ready(&server, json!({"limits": {"pages": 7}}));
    let failure = client.list_tools().unwrap_err();
    assert_eq!((failure.status, server.count_of("tools/list")), (MCP_E_TOO_LARGE, 7));
    assert!(failure.message.contains("limits.pages"), "{failure:?}");
}

#[test]
fn a_list_of_many_pages_is_one_result_and_each_page_carries_the_callers_members() {
    let server =
        TestServer::start(Script::new().options(json!({"page_size": 10, "extra_tools": 95, "builtin_tools": false})));
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.tool_names().unwrap().len(), 95);
    assert_eq!(server.count_of("tools/list"), 10);
    server.clear();
    let options = json!({"all_pages": true, "meta": {"traceparent": "00-x"}}).to_string();
    let all = client.request_with("tools/list", "{\"com.example/x\":1}", &options).unwrap().json();
    assert_eq!(all["tools"].as_array().unwrap().len(), 95);
    for page in server.requests_of("tools/list") {
        assert_eq!(
            (page.at("/params/_meta/traceparent"), page.at("/params/com.example~1x")),
            (json!("00-x"), json!(1))
        );
    }
    // Without the option, one page as it came.
    let one = client.request("tools/list", json!({})).unwrap().json();
    assert!(one["tools"].as_array().unwrap().len() == 10 && one["nextCursor"].is_string());
    assert_eq!(client.request_with("tools/call", "{}", "{\"all_pages\":true}").unwrap_err().status, MCP_E_UNSUPPORTED);
}

// ---- parameters that travel as headers ---------------------------------------------------------------------------------

#[test]
fn mirrored_parameters_travel_once_the_tools_are_known() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    client.list_tools().unwrap();
    let arguments =
        json!({"region": "gr\u{fc}n\nX-Evil: 1", "size": 42, "dry": true, "nested": {"tenant": "t 1"}, "free": "no"});
    let answer = client.run("headers", arguments.clone()).unwrap();
    assert_eq!(answer.json()["structuredContent"], arguments);
    client.run("headers", json!({"region": null, "size": -7})).unwrap();
    let sent = server.requests_of("tools/call");
    assert_eq!(sent.len(), 2, "nothing was refused");
    assert!(sent[0].header("Mcp-Param-Region").unwrap().starts_with("=?base64?"));
    assert_eq!(sent[0].header("Mcp-Param-Size"), Some("42"));
    assert_eq!(sent[0].header("Mcp-Param-Dry-Run"), Some("true"));
    assert_eq!(sent[0].header("Mcp-Param-Tenant"), Some("t 1"));
    assert!(sent[0].headers.iter().all(|(name, _)| name != "X-Evil" && name != "Mcp-Param-free"));
    assert_eq!((sent[1].header("Mcp-Param-Region"), sent[1].header("Mcp-Param-Size")), (None, Some("-7")));
    // The same through the generic request.
    let params = json!({"name": "headers", "arguments": {"size": 5}});
    client.request("tools/call", params).unwrap();
    assert_eq!(server.requests_of("tools/call")[2].header("Mcp-Param-Size"), Some("5"));
}

#[test]
fn a_header_mismatch_is_mended_once_by_a_look_at_the_tools() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    client.run("headers", json!({"region": "eu"})).unwrap();
    assert_eq!((server.count_of("tools/call"), server.count_of("tools/list")), (2, 1));
    assert_eq!(server.requests_of("tools/call")[0].status, Some(400));
    let refusal = json!({"http_status": 400, "error": {"code": -32020, "message": "Header mismatch"}});
    let server = TestServer::start(on_call(refusal));
    let client = Client::ready(&server, json!({}));
    let failure = client.run("echo", json!({})).unwrap_err();
    assert_eq!((failure.status, failure.rpc_code), (MCP_E_RPC, Some(-32020)));
    assert_eq!((server.count_of("tools/call"), server.count_of("tools/list")), (2, 1), "once");
}

#[test]
fn tools_with_invalid_annotations_are_left_out_and_the_log_says_so() {
    log();
    let tool = |name: &str, property: Value| json!({"name": name, "inputSchema": {"type": "object", "properties": {"p": property}}});
    let tools = json!([
        tool("wire_good", json!({"type": "string", "x-mcp-header": "P"})),
        tool("wire_empty", json!({"type": "string", "x-mcp-header": ""})),
        tool("wire_space", json!({"type": "string", "x-mcp-header": "a b"})),
        tool("wire_object", json!({"type": "object", "x-mcp-header": "P"})),
        tool("wire_items", json!({"type": "array", "items": {"type": "string", "x-mcp-header": "P"}})),
        {"name": "wire_twice", "inputSchema": {"type": "object", "properties": {
            "a": {"type": "string", "x-mcp-header": "Same"}, "b": {"type": "string", "x-mcp-header": "same"}}}},
        tool("wire_plain", json!({"type": "number"})),
    ]);
    let server = TestServer::start(Script::new().options(json!({"tools": tools, "builtin_tools": false})));
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.tool_names().unwrap(), ["wire_good", "wire_plain"]);
    for name in ["wire_empty", "wire_space", "wire_object", "wire_items", "wire_twice"] {
        log().expect(&format!("tool {name} is dropped"));
    }
}

// ---- what travels beside the payload -----------------------------------------------------------------------------------

#[test]
fn meta_of_the_caller_goes_in_and_that_of_the_answer_comes_out() {
    let server = TestServer::start(on_call(
        json!({"result": {"content": [], "_meta": {"com.example/cost": 9007199254740993_i64}}}),
    ));
    let client = Client::ready(&server, json!({"client": {"name": "test", "version": "9"}}));
    let options = json!({"meta": {"traceparent": "00-a", "progressToken": "mine", "com.example/n": 1}}).to_string();
    let (ran, call) = client.tool_run("echo", "{}", &options, PATIENCE_MS);
    assert_eq!(ran, Ok(MCP_OK));
    assert!(call.unwrap().answer().unwrap().raw_json().contains("\"com.example/cost\":9007199254740993"));
    client.request("tools/call", json!({"name": "echo", "arguments": {}, "_meta": {"traceparent": "00-b"}})).unwrap();
    let sent = server.requests_of("tools/call");
    let meta = |index: usize, key: &str| sent[index].at(&format!("/params/_meta/{key}"));
    assert_eq!((meta(0, "traceparent"), meta(0, "progressToken")), (json!("00-a"), json!("mine")));
    assert_eq!((meta(0, "com.example~1n"), meta(1, "traceparent")), (json!(1), json!("00-b")));
    for index in 0..2 {
        assert_eq!(meta(index, "io.modelcontextprotocol~1clientInfo"), json!({"name": "test", "version": "9"}));
    }
    let reserved = json!({"meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}).to_string();
    let failure = client.request_with("tools/list", "{}", &reserved).unwrap_err();
    assert!(failure.status == MCP_E_ARGUMENT && failure.message.contains("protocolVersion"), "{failure:?}");
    let started = client.start_request("tools/list", "{}", &reserved).map(drop).unwrap_err();
    assert_eq!(started, failure, "told at once, not by an event");
    let twice = client.request_with("tools/list", "{\"_meta\":{}}", "{\"meta\":{}}").unwrap_err();
    assert_eq!(twice.status, MCP_E_ARGUMENT);
    assert_eq!(server.count_of("tools/list"), 0, "nothing was sent");
}

#[test]
fn progress_is_asked_for_where_somebody_listens_or_silence_would_end_the_call() {
    let server = TestServer::start(Script::new());
    let listening = Client::recording(&server, json!({}), &[MCP_EVENT_PROGRESS]);
    listening.run("progress", json!({"n": 2})).unwrap();
    assert_eq!(listening.events.nth(MCP_EVENT_PROGRESS, 1).json()["progress"], 1);
    let deaf = Client::recording(&server, json!({"timeouts": {"idle_ms": -1}}), &[]);
    deaf.run("progress", json!({"n": 2})).unwrap();
    // BR-26 (a): the progress of a server that works in silence keeps the call alive, whoever hears it.
    let patient = Client::recording(&server, json!({}), &[]);
    patient.run("progress", json!({"n": 2})).unwrap();
    let tokens: Vec<bool> =
        server.requests_of("tools/call").iter().map(|sent| !sent.at("/params/_meta/progressToken").is_null()).collect();
    assert_eq!(tokens, [true, false, true]);
}

#[test]
fn log_messages_come_where_a_level_is_asked_for() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({"log_level": "debug"}));
    client.run("log", json!({"n": 2})).unwrap();
    let line = client.events.nth(MCP_EVENT_LOG_MESSAGE, 2);
    assert!(line.json()["level"].is_string() && line.call_id().is_some());
    assert_eq!(server.requests_of("tools/call")[0].at("/params/_meta/io.modelcontextprotocol~1logLevel"), "debug");
}

#[test]
fn any_request_and_any_notification() {
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"method": "com.example/sum"}, "do": {"result": {"sum": 3, "raw": "$params"}}}))
            .rule(json!({"match": {"method": "notifications/com.example.bye"}, "do": {"http_status": 400, "error": {"code": -32600, "message": "no"}}}))
            .rule(json!({"match": {"method": "notifications/*"}, "do": {"http_status": 202, "body": ""}})),
    );
    let client = Client::ready(&server, json!({}));
    let answer = client.request("com.example/sum", json!({"a": [1, 2]})).unwrap().json();
    assert_eq!(answer["raw"]["a"], json!([1, 2]));
    let unknown = client.request("com.example/none", json!({})).unwrap_err();
    assert_eq!((unknown.rpc_code, unknown.http_status), (Some(-32601), Some(404)));
    assert_eq!(client.notify("notifications/com.example.hello", &json!({"x": 1})), Ok(MCP_OK));
    let sent = &server.requests_of("notifications/com.example.hello")[0];
    assert_eq!((sent.at("/params/x"), sent.at("/id")), (json!(1), json!(null)));
    assert_eq!(sent.header("Mcp-Method"), Some("notifications/com.example.hello"));
    assert!(sent.at("/params/_meta/io.modelcontextprotocol~1protocolVersion").is_string());
    assert_eq!(client.notify("notifications/com.example.bye", &json!({})).unwrap_err().rpc_code, Some(-32600));
    assert_eq!(client.notify("n", &json!([])).unwrap_err().status, MCP_E_ARGUMENT);
}

#[test]
fn another_notification_of_the_servers_is_handed_on() {
    let note = json!({"message": {"jsonrpc": "2.0", "method": "notifications/com.example.news", "params": {"a": 1}}});
    let server = TestServer::start(on_call(json!({"sse": [note, {"result": text_result("x")}]})));
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({})).unwrap();
    let event = client.events.nth(MCP_EVENT_NOTIFICATION, 1);
    assert_eq!((event.method().as_deref(), event.json()), (Some("notifications/com.example.news"), json!({"a": 1})));
}

// ---- on the wire, and many at once -------------------------------------------------------------------------------------

#[test]
fn a_request_goes_out_in_one_write() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    for n in 0..20 {
        client.run("echo", json!({"n": n, "text": "x".repeat(500)})).unwrap();
    }
    let reads: Vec<usize> = server.requests().iter().map(|request| request.reads).collect();
    assert!(reads.iter().all(|reads| *reads == 1), "{reads:?}");
    let connections: std::collections::BTreeSet<u64> =
        server.requests_of("tools/call").iter().map(|request| request.connection).collect();
    assert_eq!(connections.len(), 1, "and the connection is kept");
}

#[test]
fn calls_beyond_max_in_flight_wait_their_turn() {
    let server = TestServer::start(on_call(json!({"hold": true})));
    let client = Client::ready(&server, json!({"max_in_flight": 2}));
    let calls: Vec<Call> = (0..5).map(|_| client.start("count", json!({}), json!({}))).collect();
    assert!(server.wait_held(2, PATIENCE));
    assert_eq!((server.count_of("tools/call"), client.stats()["calls_in_flight"].clone()), (2, json!(5)));
    // One that waits can be cancelled before it was ever sent.
    assert_eq!(calls[4].cancel(), MCP_OK);
    server.release();
    assert!(server.wait_requests("tools/call", 4, PATIENCE), "the next two go");
    until("the rest to be held", || {
        server.release();
        calls[..4].iter().all(|call| call.status() == MCP_OK)
    });
    assert_eq!(calls[4].wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    assert_eq!((server.count_of("tools/call"), server.counter("count")), (4, 4));
}

#[test]
fn sixty_four_calls_run_at_once_and_each_gets_its_own_answer() {
    let server = TestServer::start(on_call(json!({"hold": true})));
    let client = Client::ready(&server, json!({}));
    let calls: Vec<Call> = (0..64).map(|n| client.start("echo", json!({"n": n}), json!({}))).collect();
    assert!(server.wait_held(64, PATIENCE));
    server.release();
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
        assert_eq!(call.answer().unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"));
    }
    client.events.nth(MCP_EVENT_CALL_DONE, 64);
    let mut ids: Vec<i64> =
        client.events.of(MCP_EVENT_CALL_DONE).iter().map(|event| event.call_id().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 64, "one end each");
}

#[test]
fn waited_for_calls_of_many_threads_run_at_once() {
    let server = TestServer::start(on_call(json!({"hold": true})));
    let client = Client::ready(&server, json!({"max_in_flight": 1}));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..16)
            .map(|n| {
                let client = &client;
                scope.spawn(move || (n, client.run("echo", json!({"n": n}))))
            })
            .collect();
        assert!(server.wait_held(16, PATIENCE), "on their own threads, beyond the limit of the others");
        server.release();
        for run in runs {
            let (n, answer) = run.join().unwrap();
            assert_eq!(answer.unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"));
        }
    });
}
