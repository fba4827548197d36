//! What published servers put on the wire: a client has to live with all of it.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/lives.rs"]
mod lives;

use abi::*;
use lives::{done, lives};
use mcp_test_server::TestServer;
use mcpnative::ffi::server::{MCP_SERVER_ERA, MCP_SERVER_INFO, MCP_SERVER_INSTRUCTIONS, MCP_SERVER_VERSION};

fn on_call(action: Value) -> (TestServer, Client) {
    let server = TestServer::start(Script::new().rule(json!({"match": {"method": "tools/call"}, "do": action})));
    let client = Client::ready(&server, json!({}));
    (server, client)
}

#[test]
fn streams_always_chunks_and_no_server_info() {
    for options in [
        json!({"answer_sse": true}),
        json!({"chunked": true}),
        json!({"answer_sse": true, "chunked": true}),
        json!({"server_info": false}),
        json!({"versions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]}),
    ] {
        let server = TestServer::start(Script::new().options(options.clone()));
        let client = Client::ready(&server, json!({}));
        assert_eq!(
            client.run("add", json!({"a": 1, "b": 2})).unwrap().json()["structuredContent"]["sum"],
            3,
            "{options}"
        );
        assert!(client.tool_names().unwrap().len() > 10, "{options}");
        assert!(!client.run("slow_job", json!({"steps": 1})).unwrap().is_error(), "{options}");
        let told = client.server();
        assert_eq!(told.text(MCP_SERVER_ERA).as_deref(), Some("modern"));
        assert_eq!(told.text(MCP_SERVER_VERSION).as_deref(), Some("2026-07-28"));
        assert_eq!(told.text(MCP_SERVER_INFO).is_some(), options.get("server_info").is_none(), "{options}");
        let _ = told.text(MCP_SERVER_INSTRUCTIONS);
    }
}

#[test]
fn empty_content_beside_a_task_is_a_task() {
    let server = lives(vec![json!({"tool": "job", "seed": {"content": []}, "polls": [done("x")]})]);
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.run("job", json!({})).unwrap().text().as_deref(), Some("x"));
}

#[test]
fn numbers_written_as_floats() {
    let server =
        lives(vec![json!({"tool": "job", "id": "f", "seed": {"pollIntervalMs": 120.0, "ttlMs": 9000.0}, "polls": [
        {"task": {"pollIntervalMs": 120.0, "ttlMs": 9000.0}}, done("x")]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    let snapshot = task.snapshot();
    assert_eq!(
        (snapshot.number(MCP_SNAPSHOT_POLL_INTERVAL_MS), snapshot.number(MCP_SNAPSHOT_TTL_MS)),
        (Some(120), Some(9000))
    );
    task.end();
    assert!(server.pauses("tasks/get", "f").iter().all(|pause| *pause >= 120_000));
    // A code as a float is the same code.
    let (_server, client) = on_call(json!({"headers": {"Content-Type": "application/json"},
        "body": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32602.0,\"message\":\"m\"}}"}));
    assert_eq!(client.run("echo", json!({})).unwrap_err().rpc_code, Some(-32602));
}

#[test]
fn errors_with_the_statuses_that_servers_give_them() {
    for (code, status) in [
        (-32602, 400),
        (-32602, 200),
        (-32021, 400),
        (-32601, 404),
        (-32601, 200),
        (-32603, 500),
        (-32700, 400),
        (-1, 200),
    ] {
        let (server, client) =
            on_call(json!({"http_status": status, "error": {"code": code, "message": "m", "data": {"a": 1.0}}}));
        let failure = client.run("echo", json!({})).unwrap_err();
        assert_eq!((failure.name(), failure.rpc_code), ("MCP_E_RPC".to_owned(), Some(code)), "{code} {status}");
        assert_eq!((failure.rpc_message.as_deref(), failure.rpc_data.as_deref()), (Some("m"), Some("{\"a\":1.0}")));
        assert_eq!(failure.http_status, (status != 200).then_some(status), "{code} {status}");
        assert_eq!(server.count_of("tools/call"), 1);
    }
}

#[test]
fn authorization_refusals_are_told_apart() {
    for (status, want) in [(401, MCP_E_AUTH_REQUIRED), (403, MCP_E_AUTH_DENIED)] {
        let (_server, client) = on_call(json!({"http_status": status, "headers": {"WWW-Authenticate": "Bearer"}}));
        let failure = client.run("echo", json!({})).unwrap_err();
        assert_eq!((failure.status, failure.http_status), (want, Some(status)));
    }
}

#[test]
fn a_missing_result_type_is_complete_and_an_unknown_one_is_an_error() {
    for (name, patch, want) in [
        ("absent", json!({"resultType": "$absent"}), MCP_OK),
        ("null", json!({"resultType": null}), MCP_OK),
        ("unknown", json!({"resultType": "novel"}), MCP_E_MALFORMED),
        ("no string", json!({"resultType": 7}), MCP_E_MALFORMED),
    ] {
        let (_server, client) = on_call(json!({"patch": patch}));
        let status = client.run("echo", json!({})).map_or_else(|failure| failure.status, |_| MCP_OK);
        assert_eq!(name_of(status), name_of(want), "{name}");
    }
    let (_server, client) = on_call(json!({"patch": {"resultType": "novel\nline"}}));
    assert!(client.run("echo", json!({})).unwrap_err().message.contains("novel line"));
}

#[test]
fn times_of_creation_in_every_format_are_handed_on_and_change_nothing() {
    for created in [
        "2026-11-30T10:00:00.123456+00:00",
        "2026-11-30T10:00:00.123Z",
        "2026-11-30T10:00:00.123456789+00:00",
        "yesterday",
        "",
    ] {
        let server = lives(vec![
            json!({"tool": "job", "seed": {"createdAt": created, "lastUpdatedAt": created}, "polls": [done("x")]}),
        ]);
        let client = Client::ready(&server, json!({}));
        let end = client.task("job", json!({})).end();
        assert_eq!((end.reason(), end.text(MCP_SNAPSHOT_CREATED_AT).as_deref()), ("completed", Some(created)));
    }
    let server =
        lives(vec![json!({"tool": "job", "seed": {"createdAt": 5, "lastUpdatedAt": "$absent"}, "polls": [done("x")]})]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    assert_eq!(task.snapshot().text(MCP_SNAPSHOT_UPDATED_AT), None);
    assert_eq!(task.end().reason(), "completed");
}

#[test]
fn a_time_of_update_that_is_always_now_is_no_news() {
    let step = |n: u64| json!({"task": {"statusMessage": "same", "lastUpdatedAt": format!("2026-11-30T10:00:0{n}Z")}});
    let server =
        lives(vec![json!({"tool": "job", "id": "j", "polls": [step(1), step(2), step(3), step(4), done("x")]})]);
    let client = Client::ready(&server, json!({}));
    client.task("job", json!({})).end();
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert_eq!(client.events.of(MCP_EVENT_TASK_STATUS).len(), 1, "the message came once");
    assert_eq!(server.pauses("tasks/get", "j").len(), 4);
}

#[test]
fn a_time_of_update_that_goes_back_between_polls_loses_no_news() {
    // Two replicas whose clocks differ: what was asked for last is what counts.
    let step = |message: &str, at: &str| json!({"task": {"statusMessage": message, "lastUpdatedAt": at}});
    let server = lives(vec![json!({"tool": "job", "polls": [
        step("one", "2026-11-30T10:00:09Z"), step("two", "2026-11-30T10:00:01Z"), done("x")]})]);
    let client = Client::ready(&server, json!({}));
    client.task("job", json!({})).end();
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let messages: Vec<_> = client
        .events
        .of(MCP_EVENT_TASK_STATUS)
        .iter()
        .map(|event| event.snapshot().unwrap().message().unwrap())
        .collect();
    assert_eq!(messages, ["one", "two"]);
}

#[test]
fn deeply_nested_structured_content_passes_below_the_limit() {
    let deep = format!("{}7{}", "[".repeat(120), "]".repeat(120));
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[],\"structuredContent\":{deep}}}}}");
    let (_server, client) = on_call(json!({"headers": {"Content-Type": "application/json"}, "body": body}));
    assert_eq!(client.run("echo", json!({})).unwrap().structured().unwrap(), deep);
    let client_of_more = |nesting: u64| json!({"limits": {"nesting": nesting}});
    let deeper = format!("{}7{}", "[".repeat(900), "]".repeat(900));
    let body =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[],\"structuredContent\":{deeper}}}}}");
    let rule = json!({"match": {"method": "tools/call"}, "do": {"headers": {"Content-Type": "application/json"}, "body": body}});
    let server = TestServer::start(Script::new().rule(rule));
    let wide = Client::ready(&server, client_of_more(1000));
    assert_eq!(wide.run("echo", json!({})).unwrap().structured().unwrap(), deeper, "the limit is an option");
    assert_eq!(Client::ready(&server, json!({})).run("echo", json!({})).unwrap_err().status, MCP_E_TOO_LARGE);
}

#[test]
fn content_blocks_of_unknown_types_pass() {
    let blocks = "[{\"type\":\"hologram\",\"depth\":1.50},{\"type\":\"text\",\"text\":\"a\"},{\"no\":\"type\"},{\"type\":\"text\",\"text\":\"b\"}]";
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":{blocks},\"novel\":true}}}}");
    let (_server, client) = on_call(json!({"headers": {"Content-Type": "application/json"}, "body": body}));
    let answer = client.run("echo", json!({})).unwrap();
    assert_eq!((answer.blocks(), answer.text().as_deref()), (4, Some("a\nb")));
    assert_eq!([0, 1, 2, 3].map(|index| answer.block_kind(index)), [0, 1, 0, 1]);
    assert_eq!(answer.block_json(0).unwrap(), "{\"type\":\"hologram\",\"depth\":1.50}");
    assert_eq!((answer.block_json(4), answer.block_kind(4)), (None, MCP_E_ARGUMENT));
    assert_eq!(answer.json()["novel"], true);
}

#[test]
fn results_that_are_hardly_one() {
    for (result, is_error, blocks) in [
        (json!({}), false, 0),
        (json!({"content": null}), false, 0),
        (json!({"content": "text"}), false, 0),
        (json!({"content": [1, "two", null]}), false, 3),
        (json!({"content": [], "isError": "yes"}), false, 0),
        (json!({"content": [], "isError": null, "structuredContent": null}), false, 0),
        (json!({"isError": true}), true, 0),
    ] {
        let (_server, client) = on_call(json!({"result": result}));
        let answer = client.run("echo", json!({})).unwrap();
        assert_eq!((answer.is_error(), answer.blocks()), (is_error, blocks), "{result}");
        assert_eq!(answer.json(), result);
    }
}

#[test]
fn br_30_a_tools_own_error_is_untouched() {
    let schema = json!({"type": "object", "properties": {"files": {"type": "array"}}, "required": ["files"], "additionalProperties": false});
    let tools = json!([{"name": "strict", "inputSchema": {"type": "object"}, "outputSchema": schema}]);
    for result in [
        json!({"isError": true, "content": [{"type": "text", "text": "no access"}], "structuredContent": {"error": "no access"}}),
        json!({"isError": true, "content": [{"type": "text", "text": "no access"}]}),
    ] {
        let server = TestServer::start(
            Script::new()
                .options(json!({"tools": tools}))
                .rule(json!({"match": {"method": "tools/call"}, "do": {"result": result}})),
        );
        let client = Client::ready(&server, json!({}));
        client.list_tools().unwrap();
        let answer = client.run("strict", json!({})).unwrap();
        assert!(answer.is_error());
        assert_eq!((answer.text().as_deref(), answer.json()), (Some("no access"), result));
    }
}

const NUMBERS: &str = "[9007199254740993,9223372036854775808,18446744073709551615,123456789012345678901234567890,-0.0,1e400,\
    0.12345678901234567890,1E+2,5000.0,-1e-400]";

#[test]
fn br_31_numbers_pass_untouched_both_ways() {
    let body =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[],\"structuredContent\":{NUMBERS}}}}}");
    let (server, client) = on_call(json!({"headers": {"Content-Type": "application/json"}, "body": body}));
    let arguments = format!("{{\"n\":{NUMBERS}}}");
    let call = client.tool_call_raw(b"echo", arguments.as_bytes(), b"").unwrap();
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    assert_eq!(call.answer().unwrap().structured().unwrap(), NUMBERS);
    assert!(server.requests_of("tools/call")[0].body.contains(&arguments), "byte for byte");
    client.request_with("tools/call", &format!("{{\"name\":\"echo\",\"arguments\":{arguments}}}"), "").unwrap();
    assert!(server.requests_of("tools/call")[1].body.contains(&arguments));
}

#[test]
fn br_31_numbers_pass_through_tasks_and_context() {
    let result = format!("{{\"content\":[],\"structuredContent\":{NUMBERS}}}");
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"taskId\":\"n\",\"status\":\"completed\",\"result\":{result}}}}}"
    );
    let server = TestServer::start(Script::new().task(json!({"tool": "job", "id": "n", "polls": [
        {"headers": {"Content-Type": "application/json"}, "body": body}]})));
    let client = Client::ready(&server, json!({}));
    let options = format!("{{\"context\":{NUMBERS}}}");
    let call = client.tool_call_raw(b"job", b"", options.as_bytes()).unwrap();
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    let end = call.task().unwrap().end();
    assert_eq!(end.answer().unwrap().raw_json(), result);
    assert_eq!(end.text(MCP_SNAPSHOT_CONTEXT).as_deref(), Some(NUMBERS));
}

#[test]
fn unknown_tools_and_bad_arguments_in_both_forms() {
    for action in [
        json!({"result": {"isError": true, "content": [{"type": "text", "text": "Unknown tool"}]}}),
        json!({"error": {"code": -32602, "message": "Unknown tool"}}),
    ] {
        let (_server, client) = on_call(action.clone());
        match client.run("none", json!({})) {
            Ok(answer) => assert!(answer.is_error() && action.get("result").is_some()),
            Err(failure) => assert!(failure.rpc_code == Some(-32602) && action.get("error").is_some()),
        }
    }
}

#[test]
fn a_request_of_a_modern_servers_is_logged_and_the_answer_still_comes() {
    log();
    let ask = json!({"message": {"jsonrpc": "2.0", "id": 99, "method": "sampling/createMessage", "params": {}}});
    let (server, client) = on_call(json!({"sse": [ask, {"result": {"content": []}}]}));
    client.run("echo", json!({})).unwrap();
    log().expect("sampling/createMessage");
    assert_eq!(server.requests().len(), 2, "it was not answered");
}

#[test]
fn updates_and_cancels_with_any_result_are_acknowledged() {
    let asks = json!({"status": "input_required", "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "?"}}}});
    for result in [
        json!({}),
        json!({"resultType": "complete"}),
        json!({"taskId": "t", "status": "working", "resultType": "complete"}),
    ] {
        let server = lives(vec![json!({"tool": "job", "id": "t", "polls": [
            {"task": asks, "until": "updated"}, {"task": {"statusMessage": "on"}, "until": "cancelled"}, {"task": {"status": "cancelled"}}],
            "updates": [{"result": result}], "cancels": [{"result": result}]})]);
        let client = Client::ready(&server, json!({}));
        let task = client.task("job", json!({}));
        until("the update", || task.snapshot().message().as_deref() == Some("on"));
        task.cancel();
        assert_eq!(task.end().reason(), "cancelled", "{result}");
        assert!(client.events.of(MCP_EVENT_ERROR).is_empty(), "{result}");
    }
}

#[test]
fn a_session_id_that_a_modern_server_sends_does_not_go_back() {
    let rule = json!({"match": {"method": "server/discover"}, "do": {"headers": {"Mcp-Session-Id": "s-1", "Set-Cookie": "a=b"}}});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({})).unwrap();
    for request in server.requests() {
        assert!(request.header("Mcp-Session-Id").is_none() && request.header("Cookie").is_none());
    }
}

#[test]
fn localhost_works_whichever_address_the_server_has() {
    for host in ["127.0.0.1", "::1"] {
        let Ok(probe) = std::net::TcpListener::bind((host, 0)) else { continue };
        drop(probe);
        let server = TestServer::start(Script::new().options(json!({"host": host})));
        let url = format!("http://localhost:{}/mcp", server.address().port());
        let client = Client::ready(&server, json!({"url": url}));
        client.run("echo", json!({})).unwrap();
    }
}
