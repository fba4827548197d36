//! Results against the output schemas of their tools, and lists with something wrong in them.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use std::net::TcpListener;

use abi::*;
use mcp_test_server::TestServer;

/// A tool with this output schema.
fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema})
}

/// A server of this era, each of whose tools has a schema and a result.
fn serve(era: &str, tools: &[(&str, Value, Value)]) -> TestServer {
    let listed: Vec<Value> = tools.iter().map(|(name, schema, _)| tool(name, schema.clone())).collect();
    let mut script = Script::new().options(json!({"era": era, "tools": listed}));
    for (name, _, result) in tools {
        script = script.rule(json!({"match": {"method": "tools/call", "name": name}, "do": {"result": result}}));
    }
    TestServer::start(script)
}

fn structured(value: Value) -> Value {
    json!({"content": [{"type": "text", "text": "words"}], "structuredContent": value})
}

fn files() -> Value {
    json!({"type": "object", "required": ["files"], "additionalProperties": false, "properties": {"files": {"type": "integer"}}})
}

/// Ready, and it knows the tools.
fn knowing(server: &TestServer, more: Value) -> Client {
    let client = Client::ready(server, more);
    client.list_tools().unwrap();
    client
}

/// The failure of a call whose result does not match, which is at hand all the same.
fn unfit(client: &Client, tool: &str, options: &str) -> Failure {
    let (ran, call) = client.tool_run(tool, "{}", options, PATIENCE_MS);
    let failure = ran.unwrap_err();
    assert_eq!(failure.status, MCP_E_SCHEMA, "{failure:?}");
    let call = call.unwrap();
    let (status, answer) = call.result();
    assert_eq!(status.unwrap_err(), failure);
    assert_eq!(answer.unwrap().text().as_deref(), Some("words"), "the raw result");
    assert_eq!((call.status(), call.failure().unwrap()), (MCP_E_SCHEMA, failure.clone()));
    assert!(failure.message.contains(&format!("tool {tool} ")) && !failure.retry_safe, "{failure:?}");
    failure
}

#[test]
fn br_30_a_result_is_held_against_its_schema_and_a_tools_own_error_is_not() {
    let mut failed = structured(json!({"error": "no access"}));
    failed["isError"] = json!(true);
    let bare = json!({"isError": true, "content": [{"type": "text", "text": "no disk"}]});
    let mut full = structured(json!({"files": 3}));
    full["_meta"] = json!({"x": 1});
    let missing = json!({"content": [{"type": "text", "text": "words"}]});
    let tools = [
        ("a", files(), failed),
        ("b", files(), bare),
        ("c", files(), full),
        ("d", files(), missing),
        ("e", files(), structured(json!({"files": "three"}))),
        ("f1", json!({"type": "array"}), structured(json!([1]))),
        ("f2", json!({"type": "string"}), structured(json!("s"))),
        ("f3", json!({"type": "null"}), structured(json!(null))),
        ("f4", json!({"const": 9007199254740993i64}), structured(json!(9007199254740993i64))),
        ("g", json!({"const": 9007199254740993i64}), structured(json!(9007199254740992i64))),
    ];
    for era in ["modern", "legacy"] {
        let server = serve(era, &tools);
        let client = knowing(&server, json!({}));
        for (name, text) in [("a", "words"), ("b", "no disk")] {
            let answer = client.run(name, json!({})).unwrap();
            assert_eq!((answer.is_error(), answer.text().as_deref()), (true, Some(text)), "{era} {name}");
        }
        for name in ["c", "f1", "f2", "f3", "f4"] {
            assert!(!client.run(name, json!({})).unwrap().is_error(), "{era} {name}");
        }
        assert_eq!(
            unfit(&client, "d", "").message,
            "the result of tool d has no structuredContent, although the tool has an outputSchema"
        );
        assert_eq!(
            unfit(&client, "e", "").message,
            "the result of tool e does not match its outputSchema: type, at /files of structuredContent"
        );
        assert!(unfit(&client, "g", "").message.contains("const, at the root"));
        // Any way to call it is the same call.
        let ran = client.request("tools/call", json!({"name": "e", "arguments": {}}));
        assert_eq!(ran.unwrap_err().status, MCP_E_SCHEMA);
    }
}

#[test]
fn a_started_call_tells_of_the_mismatch_in_its_event_and_has_the_result() {
    let server = serve("modern", &[("e", files(), structured(json!({"files": []})))]);
    let client = knowing(&server, json!({}));
    let call = client.start("e", json!({}), json!({}));
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_SCHEMA);
    let done = client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!(done.status(), Some(i64::from(MCP_E_SCHEMA)));
    assert_eq!(done.failure(), call.failure());
    let (_, answer) = done.call().unwrap().result();
    assert_eq!(answer.unwrap().structured().as_deref(), Some(r#"{"files":[]}"#));
}

#[test]
fn the_host_says_what_becomes_of_a_mismatch() {
    let server = serve("modern", &[("lenient", files(), structured(json!({"files": "x"})))]);
    for (settings, options, checked) in [
        (json!({}), "", true),
        (json!({"validate": "warn"}), "", false),
        (json!({"validate": "off"}), "", false),
        (json!({"validate": "off"}), r#"{"validate":"error"}"#, true),
        (json!({}), r#"{"validate":"off"}"#, false),
    ] {
        let client = knowing(&server, settings.clone());
        if checked {
            unfit(&client, "lenient", options);
            continue;
        }
        let (ran, call) = client.tool_run("lenient", "{}", options, PATIENCE_MS);
        assert_eq!(ran, Ok(MCP_OK), "{settings} {options}");
        assert_eq!(call.unwrap().answer().unwrap().structured().as_deref(), Some(r#"{"files":"x"}"#));
    }
    log();
    let client = knowing(&server, json!({"validate": "warn"}));
    client.run("lenient", json!({})).unwrap();
    log().expect("tool lenient does not match its outputSchema: type, at /files");
}

#[test]
fn only_what_was_listed_is_checked_and_only_while_the_list_holds() {
    let server = serve("modern", &[("e", files(), structured(json!({})))]);
    let client = Client::ready(&server, json!({}));
    client.run("e", json!({})).unwrap();
    assert_eq!(server.count_of("tools/list"), 0, "nothing is listed just to know a schema");
    client.list_tools().unwrap();
    unfit(&client, "e", "");
    // Any list teaches, page by page as well.
    let other = Client::ready(&server, json!({}));
    other.request("tools/list", json!({})).unwrap();
    unfit(&other, "e", "");
}

#[test]
fn a_changed_list_is_forgotten_in_either_era() {
    for era in ["modern", "legacy"] {
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let script = Script::new()
            .options(json!({"era": era, "tools": [tool("e", files()), tool("news", json!(true))]}))
            .rule(json!({"match": {"method": "tools/call", "name": "e"}, "do": {"result": structured(json!({}))}}))
            .rule(json!({"match": {"method": "tools/call", "name": "news"},
                "do": {"sse": [{"message": changed}, {"result": structured(json!(1))}]}}));
        let server = TestServer::start(script);
        let client = knowing(&server, json!({}));
        unfit(&client, "e", "");
        client.run("news", json!({})).unwrap();
        client.run("e", json!({})).unwrap();
        client.list_tools().unwrap();
        unfit(&client, "e", "");
    }
}

#[test]
fn what_a_legacy_session_listed_is_forgotten_with_it() {
    let server = serve("legacy", &[("e", files(), structured(json!({})))]);
    let client = knowing(&server, json!({}));
    unfit(&client, "e", "");
    server.forget_sessions();
    // A call that the server itself answers finds the loss; what a rule answers does not.
    client.run("echo", json!({})).unwrap();
    client.run("e", json!({})).unwrap();
    client.list_tools().unwrap();
    unfit(&client, "e", "");
}

// ---- tasks -------------------------------------------------------------------------------------------------------------

#[test]
fn the_result_of_a_task_is_checked_and_the_task_is_completed_all_the_same() {
    let life = |name: &str, value: Value| json!({"tool": name, "polls": [{"task": {}}, {"task": {"status": "completed", "result": structured(value)}}]});
    // A life's own tool has no schema: the list that tells of one is played by a rule.
    let listed = json!({"tools": [tool("good", files()), tool("bad", files())]});
    let script = Script::new()
        .options(json!({"poll_interval_ms": 10}))
        .rule(json!({"match": {"method": "tools/list"}, "do": {"result": listed}}))
        .task(life("good", json!({"files": 1})))
        .task(life("bad", json!({"files": "one"})));
    let server = TestServer::start(script);
    let client = knowing(&server, json!({}));
    assert_eq!(client.task("good", json!({})).end().failure(), None);

    let task = client.task("bad", json!({}));
    let (status, snapshot) = task.wait(PATIENCE_MS);
    assert_eq!((status, snapshot.status(), snapshot.reason()), (MCP_E_SCHEMA, "completed", "completed"));
    let failure = snapshot.failure().unwrap();
    assert_eq!(
        (failure.status, failure.message.as_str()),
        (MCP_E_SCHEMA, "the result of tool bad does not match its outputSchema: type, at /files of structuredContent")
    );
    assert_eq!(snapshot.answer().unwrap().structured().as_deref(), Some(r#"{"files":"one"}"#));
    let done = client.events.nth(MCP_EVENT_TASK_DONE, 2);
    assert_eq!((done.snapshot().unwrap().failure(), done.failure()), (Some(failure.clone()), Some(failure.clone())));
    // In words, for a model.
    let finished = client.check("").unwrap();
    let bad = finished.as_array().unwrap().iter().find(|one| one["tool"] == "bad").unwrap();
    assert_eq!((&bad["reason"], &bad["result"]["isError"]), (&json!("completed"), &json!(true)));
    assert_eq!(bad["result"]["content"][0]["text"], json!(failure.message));

    assert_eq!(unfit(&client, "bad", "").message, failure.message);
    let (ran, _call) = client.tool_run("bad", "{}", r#"{"validate":"off"}"#, PATIENCE_MS);
    assert_eq!(ran, Ok(MCP_OK));
}

// ---- BR-33 -------------------------------------------------------------------------------------------------------------

/// The list of BR-33 as text: no JSON library writes such depths.
fn hostile_list(port: u16) -> String {
    let deep = format!("{}true{}", r#"{"allOf":["#.repeat(5000), "]}".repeat(5000));
    let schemas = [
        ("unknown", r#"{"$schema":"https://unreachable.example/schema.json","type":"null"}"#.to_owned()),
        ("old", r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}"#.to_owned()),
        ("remote", format!(r#"{{"$ref":"http://127.0.0.1:{port}/probe.json"}}"#)),
        ("deep", deep),
        ("good", r#"{"type":"object"}"#.to_owned()),
    ];
    let tools: Vec<String> = schemas
        .iter()
        .map(|(name, schema)| format!(r#"{{"name":"{name}","inputSchema":{schema},"outputSchema":{schema}}}"#))
        .collect();
    format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{{"tools":[{}]}}}}"#, tools.join(","))
}

fn hostile_server(era: &str, port: u16) -> TestServer {
    let script = Script::new()
        .options(json!({"era": era}))
        .rule(json!({"match": {"method": "tools/list"},
            "do": {"body": hostile_list(port), "headers": {"Content-Type": "application/json"}}}))
        .rule(json!({"match": {"method": "tools/call"}, "do": {"result": structured(json!({}))}}));
    TestServer::start(script)
}

#[test]
fn br_33_hostile_schemas_hide_no_good_tool_and_nothing_is_fetched() {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    probe.set_nonblocking(true).unwrap();
    log();
    for era in ["modern", "legacy"] {
        let server = hostile_server(era, probe.local_addr().unwrap().port());
        let client = Client::ready(&server, json!({"limits": {"nesting": 20_000}}));
        let list = client.request("tools/list", json!({})).unwrap().raw_json();
        for name in ["unknown", "old", "remote", "deep", "good"] {
            assert!(list.contains(&format!(r#"{{"name":"{name}""#)), "{era} {name}");
        }
        for name in ["good", "old", "unknown"] {
            assert_eq!(client.run(name, json!({})).unwrap().structured().as_deref(), Some("{}"), "{era} {name}");
        }
        log().expect("tool unknown is written in the unknown dialect https://unreachable.example/schema.json");
        let remote = unfit(&client, "remote", "").message;
        assert!(remote.contains("/probe.json leads out of the schema, and nothing is loaded"), "{remote}");
        let deep = unfit(&client, "deep", "").message;
        assert!(deep.contains("cannot be checked: its outputSchema is not valid: it nests deeper than 100"), "{deep}");
        // The good one works on after the bad ones.
        client.run("good", json!({})).unwrap();
    }
    let came = probe.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(came, Err(std::io::ErrorKind::WouldBlock), "nobody asked the probe");
}

#[test]
fn br_33_by_default_a_list_that_nests_too_deeply_is_a_clear_error() {
    for era in ["modern", "legacy"] {
        let server = hostile_server(era, 9);
        let client = Client::ready(&server, json!({}));
        let failure = client.list_tools().unwrap_err();
        assert_eq!(failure.status, MCP_E_TOO_LARGE, "{era} {failure:?}");
        assert!(failure.message.contains("option limits.nesting"), "{failure:?}");
        client.run("good", json!({})).unwrap();
    }
}

#[test]
fn a_malformed_entry_hides_no_other() {
    let odd =
        json!([5, null, [], {}, {"name": 7}, {"name": "odd", "inputSchema": 7, "outputSchema": 7, "execution": []}]);
    for era in ["modern", "legacy"] {
        let mut tools = odd.as_array().unwrap().clone();
        tools.push(tool("good", files()));
        let script = Script::new()
            .options(json!({"era": era}))
            .rule(json!({"match": {"method": "tools/list"}, "do": {"result": {"tools": tools}}}))
            .rule(json!({"match": {"method": "tools/call"}, "do": {"result": structured(json!({"files": 1}))}}));
        let server = TestServer::start(script);
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.list_tools().unwrap()["tools"].as_array().unwrap().len(), 7, "{era}");
        client.run("good", json!({})).unwrap();
        let odd = unfit(&client, "odd", "").message;
        assert!(odd.ends_with("is not valid: a schema in it is neither an object nor true or false"), "{odd}");
    }
}
