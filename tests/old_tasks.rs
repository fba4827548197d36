//! Tasks of revision 2025-11-25 over the C ABI: the same handle, events and questions as those of the extension.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::{Recorded, TestServer};

const OF_TASKS: [i32; 10] = [
    MCP_EVENT_TASK_CREATED,
    MCP_EVENT_CALL_DONE,
    MCP_EVENT_TASK_STATUS,
    MCP_EVENT_TASK_DONE,
    MCP_EVENT_TASK_DEGRADED,
    MCP_EVENT_TASK_RECOVERED,
    MCP_EVENT_INPUT_WITHDRAWN,
    MCP_EVENT_ERROR,
    MCP_EVENT_NOTIFICATION,
    MCP_EVENT_PROGRESS,
];

fn script(tasks: Value) -> Script {
    Script::new().options(json!({"era": "legacy", "legacy": {"tasks": tasks}}))
}

fn serving(tasks: Value) -> TestServer {
    TestServer::start(script(tasks))
}

fn calls(server: &TestServer, tool: &str) -> Vec<Recorded> {
    server.requests_of("tools/call").into_iter().filter(|call| call.name.as_deref() == Some(tool)).collect()
}

fn quick() -> Value {
    json!({"steps": 3, "step_ms": 30, "poll_ms": 20})
}

/// One question half-way.
fn asking() -> Value {
    json!({"steps": 2, "step_ms": 20, "poll_ms": 40, "ask": true})
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"value": "yes"}})
}

/// A client that says yes to every question.
fn opened(server: &TestServer, prepare: impl FnOnce(&Client)) -> Client {
    let client = Client::new(&settings(server, json!({})));
    prepare(&client);
    let events = client.events.clone();
    client.on(MCP_EVENT_ELICITATION, move |event| {
        assert_eq!(event.input().unwrap().reply(&json!({"value": "yes"})), Ok(MCP_OK));
        events.add(event);
    });
    client.open().unwrap();
    client.wait_open().unwrap();
    client
}

/// The answers that the client sent to the server's own requests.
fn answers(server: &TestServer) -> Vec<Value> {
    let all = server.requests().into_iter().filter(|request| request.http_method == "POST");
    all.map(|request| request.json()).filter(|body| body.get("method").is_none()).collect()
}

// ---- a job to its end ----------------------------------------------------------------------------------------------

#[test]
fn a_job_has_the_same_events_as_in_the_new_generation() {
    let server = serving(json!({}));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let call = client.start("slow_job", quick(), json!({"tool_call_id": "c-1", "context": {"n": 1}}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    let task = call.task().unwrap();
    let end = task.end();
    assert_eq!((end.status(), end.reason()), ("completed", "completed"));
    assert_eq!(end.answer().unwrap().text().as_deref(), Some("done"));
    let result = end.answer().unwrap().json();
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task.id(), "as the server sent it");
    assert_eq!(end.text(MCP_SNAPSHOT_TOOL).as_deref(), Some("slow_job"));
    assert_eq!(end.text(MCP_SNAPSHOT_TOOL_CALL_ID).as_deref(), Some("c-1"));
    assert_eq!((end.number(MCP_SNAPSHOT_TTL_MS), end.number(MCP_SNAPSHOT_POLL_INTERVAL_MS)), (Some(60_000), Some(20)));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let words = client.events.words(&["notification"]);
    assert_eq!(words[..2], ["created", "call done"], "{words:?}");
    assert_eq!(words.last(), Some(&"done"));
    assert!(words[2..words.len() - 1].iter().all(|word| *word == "status"), "{words:?}");
    let created = client.events.nth(MCP_EVENT_TASK_CREATED, 1);
    assert_eq!(created.call_id(), Some(call.id()));
    // The list of tools was asked for once.
    assert_eq!(server.count_of("tools/list"), 1);
    assert_eq!(calls(&server, "slow_job")[0].at("/params/task"), json!({}));
    assert!(server.pauses("tasks/get", &task.id()).iter().all(|pause| *pause >= 100_000), "never early");
}

#[test]
fn a_call_that_is_waited_for_has_the_result_in_hand() {
    let server = serving(json!({}));
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.run("slow_job", quick()).unwrap().text().as_deref(), Some("done"));
    assert_eq!(client.check("").unwrap(), json!([]), "it is in hand already");
}

#[test]
fn the_changes_that_the_server_tells_of_come_before_the_next_poll() {
    let server = serving(json!({}));
    let client = opened(&server, |client| client.record(&OF_TASKS));
    let task = client.task("slow_job", json!({"steps": 2, "step_ms": 20, "poll_ms": 60_000, "ask": true}));
    assert!(task.end().answer().unwrap().text().unwrap().contains("\"yes\""));
    assert_eq!(server.count_of("tasks/get"), 0, "each change was told, the end too");
    let told = client.events.of(MCP_EVENT_TASK_STATUS);
    // Steps may be told together; what waits for an answer is told as such.
    let seen: Vec<&str> = told.iter().map(|event| event.snapshot().unwrap().status()).collect();
    assert!(seen.contains(&"input_required"), "{seen:?}");
}

#[test]
fn without_notifications_the_polls_find_out() {
    let server = serving(json!({"status": "none"}));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", json!({"steps": 6, "step_ms": 100, "poll_ms": 100}));
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("done"));
    assert!(server.count_of("tasks/get") >= 1);
    assert!(client.events.of(MCP_EVENT_NOTIFICATION).is_empty());
}

#[test]
fn corner_18_a_status_before_the_answer_it_belongs_to_makes_no_second_task() {
    let server = serving(json!({"status": "early"}));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", quick());
    assert_eq!(task.end().reason(), "completed");
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let words = client.events.words(&[]);
    assert_eq!(words[..2], ["created", "call done"], "{words:?}");
    assert_eq!(words.iter().filter(|word| **word == "done").count(), 1);
    assert!(!words.contains(&"notification"), "{words:?}");
}

#[test]
fn an_early_status_that_is_newer_than_the_seed_counts() {
    let status = |second: u32, message: &str| {
        json!({"taskId": "t-1", "status": "working", "statusMessage": message, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": format!("2026-01-01T00:00:0{second}Z"), "ttl": null, "pollInterval": 60_000})
    };
    let early = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": status(5, "further")});
    let rule = json!({"match": {"method": "tools/call"}, "do": {"sse": [
        {"message": early}, {"result": {"task": status(1, "begun")}}]}});
    let server = TestServer::start(script(json!({})).rule(rule));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", quick());
    assert_eq!(task.snapshot().message().as_deref(), Some("further"));
    assert_eq!(task.snapshot().number(MCP_SNAPSHOT_TTL_MS), Some(-1));
    task.let_go();
}

// ---- which calls are tasks -----------------------------------------------------------------------------------------

#[test]
fn a_server_without_the_capability_never_hears_of_tasks() {
    for options in [json!({}), json!({"versions": ["2025-06-18"], "tasks": {}})] {
        let server = TestServer::start(Script::new().options(json!({"era": "legacy", "legacy": options})));
        let client = Client::ready(&server, json!({}));
        client.list_tools().unwrap();
        assert_eq!(client.run("slow_job", json!({"steps": 1, "step_ms": 1})).unwrap().text().as_deref(), Some("done"));
        assert_eq!(calls(&server, "slow_job")[0].at("/params/task"), Value::Null);
        assert_eq!(server.count_of("tools/list"), 1, "and is not asked for its tools");
    }
}

#[test]
fn what_a_tool_says_decides() {
    let server = serving(json!({"support": {"echo": "forbidden", "add": "required", "count": null}}));
    let client = Client::ready(&server, json!({}));
    for tool in ["echo", "count"] {
        assert!(!client.run(tool, json!({})).unwrap().is_error(), "{tool}");
        assert_eq!(calls(&server, tool)[0].at("/params/task"), Value::Null, "{tool}");
    }
    // The server says task and answers at once: an answer is an answer.
    assert_eq!(client.run("add", json!({"a": 2, "b": 3})).unwrap().text().as_deref(), Some("5"));
    assert_eq!(calls(&server, "add")[0].at("/params/task"), json!({}));
    assert_eq!(server.count_of("tools/list"), 1);
    // Not listed: called without. The refusal may mean that the list has changed: it is looked at once more.
    assert_eq!(client.run("no_such_tool", json!({})).unwrap_err().rpc_code, Some(-32602));
    assert_eq!(calls(&server, "no_such_tool").len(), 1);
    assert_eq!(calls(&server, "no_such_tool")[0].at("/params/task"), Value::Null);
    assert_eq!(server.count_of("tools/list"), 2);
}

#[test]
fn the_host_may_do_without_and_may_say_how_long_a_task_is_kept() {
    let server = serving(json!({}));
    let client = Client::ready(&server, json!({"tasks": {"keep_ms": 90_000}}));
    let plain = client.start("slow_job", quick(), json!({"task": false}));
    assert_eq!(plain.wait(PATIENCE_MS), Ok(MCP_OK));
    assert_eq!(plain.answer().unwrap().text().as_deref(), Some("done"));
    for options in [json!({}), json!({"keep_ms": 1_234})] {
        let call = client.start("slow_job", quick(), options);
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
        call.task().unwrap().end();
    }
    let wishes: Vec<Value> = calls(&server, "slow_job").iter().map(|call| call.at("/params/task")).collect();
    assert_eq!(wishes, [Value::Null, json!({"ttl": 90_000}), json!({"ttl": 1_234})]);
    // What has to be a task is refused otherwise, and that is told.
    let refused = client.start("fail_job", quick(), json!({"task": false}));
    assert_eq!(refused.wait(PATIENCE_MS).unwrap_err().rpc_code, Some(-32601));
    assert_eq!(calls(&server, "fail_job").len(), 1);

    let off = Client::ready(&server, json!({"tasks": {"enabled": false}}));
    assert_eq!(off.run("slow_job", quick()).unwrap().text().as_deref(), Some("done"));
    let declared: Vec<Value> =
        server.requests_of("initialize").iter().map(|request| request.at("/params/capabilities/tasks")).collect();
    assert_eq!(declared, [json!({"list": {}, "cancel": {}}), Value::Null]);
}

#[test]
fn also_ag_704_a_tool_that_became_required_is_listed_and_called_once_more() {
    // The first list does not say so yet, and no change is announced.
    let lag = json!({"match": {"method": "tools/list", "nth": 1}, "do": {"result": {"tools": [
        {"name": "fail_job", "inputSchema": {"type": "object"}}, {"name": "slow_job", "inputSchema": {"type": "object"},
         "execution": {"taskSupport": "optional"}}]}}});
    for code in [-32601, -32600, -32602] {
        let refuse = json!({"match": {"method": "tools/call", "name": "slow_job", "nth": 1},
            "do": {"error": {"code": code, "message": "not so"}}});
        let server =
            TestServer::start(script(json!({"support": {"slow_job": "forbidden"}})).rule(lag.clone()).rule(refuse));
        let client = Client::ready(&server, json!({}));
        client.list_tools().unwrap();
        let task = client.task("fail_job", quick());
        assert_eq!(task.end().reason(), "failed");
        let sent: Vec<Value> = calls(&server, "fail_job").iter().map(|call| call.at("/params/task")).collect();
        assert_eq!(sent, [Value::Null, json!({})]);
        // The other way round: what was optional is forbidden now. It is known from the fresh list.
        assert_eq!(client.run("slow_job", quick()).unwrap_err().rpc_code, Some(code));
        assert_eq!(calls(&server, "slow_job")[0].at("/params/task"), Value::Null);
    }
}

#[test]
fn a_host_that_writes_the_task_member_itself_gets_a_task() {
    let server = serving(json!({}));
    let client = Client::ready(&server, json!({}));
    let params = json!({"name": "slow_job", "arguments": quick(), "task": {"ttl": 5_000}});
    let call = client.start_request("tools/call", &params.to_string(), "").unwrap();
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    assert_eq!(call.task().unwrap().end().reason(), "completed");
    assert_eq!(calls(&server, "slow_job")[0].at("/params/task"), json!({"ttl": 5_000}));
}

#[test]
fn in_the_new_generation_the_same_option_asks_for_a_plain_answer() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let plain = client.start("slow_job", quick(), json!({"task": false, "keep_ms": 5}));
    assert_eq!(plain.wait(PATIENCE_MS), Ok(MCP_OK));
    assert_eq!(plain.answer().unwrap().text().as_deref(), Some("done"));
    assert!(!calls(&server, "slow_job")[0].body.contains("io.modelcontextprotocol/tasks"));
}

// ---- ends ----------------------------------------------------------------------------------------------------------

#[test]
fn the_error_of_a_failed_task_reaches_the_host() {
    let server = serving(json!({}));
    let client = Client::ready(&server, json!({}));
    let end = client.task("fail_job", quick()).end();
    let failure = end.failure().unwrap();
    assert_eq!((end.reason(), failure.status, failure.rpc_code), ("failed", MCP_E_TASK_FAILED, Some(-32050)));
    assert!(failure.rpc_data.unwrap().contains("scripted"));
    assert!(end.answer().is_none());
    assert_eq!(client.run("fail_job", quick()).unwrap_err().rpc_code, Some(-32050));
}

#[test]
fn a_tools_own_error_is_a_result() {
    let server = serving(json!({}));
    let client = Client::ready(&server, json!({}));
    let end = client.task("tool_error_job", quick()).end();
    assert_eq!(end.reason(), "completed");
    assert!(end.answer().unwrap().is_error());
    assert!(client.run("tool_error_job", quick()).unwrap().is_error());
}

#[test]
fn a_cancel_ends_the_task_with_its_answer() {
    let server = serving(json!({"status": "none"}));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", json!({"steps": 2, "step_ms": 60_000, "poll_ms": 60_000}));
    assert_eq!(task.cancel(), MCP_OK);
    let end = task.end();
    assert_eq!((end.status(), end.reason()), ("cancelled", "cancelled"));
    assert_eq!((server.count_of("tasks/cancel"), server.count_of("tasks/result")), (1, 0));
    // What the server cancels by itself.
    assert_eq!(client.task("cancelled_job", quick()).end().reason(), "cancelled");
}

#[test]
fn a_cancel_that_is_not_offered_is_refused_and_the_task_goes_on() {
    let server = serving(json!({"cancel": false}));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", json!({"steps": 4, "step_ms": 60, "poll_ms": 20}));
    assert_eq!(task.cancel(), MCP_OK);
    let told = client.events.nth(MCP_EVENT_ERROR, 1);
    assert_eq!(told.failure().unwrap().status, MCP_E_UNSUPPORTED);
    assert_eq!(task.end().reason(), "completed");
    assert_eq!(server.count_of("tasks/cancel"), 0);
}

#[test]
fn corner_18_a_result_that_is_lost_is_fetched_again() {
    // Lost, lost once more (that ends the poll), and then it is there.
    let rule = json!({"match": {"method": "tasks/result", "to": 2}, "do": {"reset": true}});
    let server = TestServer::start(script(json!({"status": "none"})).rule(rule));
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", json!({"steps": 1, "step_ms": 1, "poll_ms": 20}));
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("done"));
    client.events.nth(MCP_EVENT_TASK_DEGRADED, 1);
    assert_eq!(server.count_of("tasks/result"), 3);
}

#[test]
fn a_completed_task_whose_result_is_refused_for_good_has_failed() {
    let rule = json!({"match": {"method": "tasks/result"}, "do": {"error": {"code": -32603, "message": "gone"}}});
    let server = TestServer::start(script(json!({"status": "none"})).rule(rule));
    let client = Client::ready(&server, json!({}));
    let end = client.task("slow_job", json!({"steps": 0, "step_ms": 1, "poll_ms": 20})).end();
    assert_eq!((end.reason(), end.failure().unwrap().rpc_code), ("failed", Some(-32603)));
    assert_eq!(server.count_of("tasks/result"), 3);
}

#[test]
fn a_lost_session_takes_its_task_along_or_not() {
    for forgets in [true, false] {
        let server = serving(json!({"status": "none"}));
        let client = Client::recording(&server, json!({}), &OF_TASKS);
        let task = client.task("slow_job", json!({"steps": 3, "step_ms": 100, "poll_ms": 100}));
        until("a poll", || server.count_of("tasks/get") >= 1);
        server.forget_sessions();
        if forgets {
            server.forget(&task.id());
        }
        let (status, end) = task.wait(PATIENCE_MS);
        assert_eq!(status, MCP_OK);
        assert_eq!(end.reason(), if forgets { "unknown" } else { "completed" });
        assert_eq!(server.count_of("initialize"), 2);
        client.events.nth(MCP_EVENT_TASK_DONE, 1);
    }
}

// ---- questions -----------------------------------------------------------------------------------------------------

#[test]
fn also_1073_a_question_comes_by_tasks_result_and_is_answered_by_its_handler() {
    for input in ["result", "get"] {
        let server = serving(json!({"input": input}));
        let client = opened(&server, |client| client.record(&OF_TASKS));
        let call = client.start("slow_job", asking(), json!({}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
        let task = call.task().unwrap();
        let text = task.end().answer().unwrap().text().unwrap();
        assert!(text.contains("\"yes\""), "{input}: {text}");
        let asked = client.events.of(MCP_EVENT_ELICITATION);
        assert_eq!(asked.len(), 1, "{input}: asked once");
        assert_eq!(asked[0].input().unwrap().task_id().as_deref(), Some(task.id().as_str()));
        let sent = answers(&server);
        assert_eq!(sent.len(), 1, "{input}: answered once");
        let related = &sent[0]["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
        assert_eq!(related, &task.id(), "{input}");
        client.events.nth(MCP_EVENT_TASK_DONE, 1);
        let words = client.events.words(&["notification"]);
        assert_eq!(words[..2], ["created", "call done"], "{words:?}");
        assert_eq!(words.last(), Some(&"done"), "{words:?}");
    }
}

#[test]
fn a_question_is_answered_by_hand() {
    let server = serving(json!({}));
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    let task = client.task("slow_job", asking());
    let (status, seen) = task.wait(PATIENCE_MS);
    assert_eq!((status, seen.status()), (MCP_E_INPUT_REQUIRED, "input_required"));
    let open = seen.inputs();
    assert_eq!(open[0]["method"], "elicitation/create");
    let key = open[0]["key"].as_str().unwrap();
    assert_eq!(task.update(&json!({"nobody": yes()})).unwrap_err().status, MCP_E_ARGUMENT);
    assert_eq!(task.update(&json!({key: yes()})), Ok(MCP_OK));
    assert_eq!(task.update(&json!({key: yes()})), Ok(MCP_S_ALREADY_DONE));
    assert!(task.end().answer().unwrap().text().unwrap().contains("\"yes\""));
    assert_eq!(answers(&server).len(), 1);
}

#[test]
fn a_question_that_nobody_answers_is_declined() {
    // The capability is not declared, and the server asks all the same.
    let server = TestServer::start(
        Script::new().options(json!({"era": "legacy", "check_capabilities": false, "legacy": {"tasks": {}}})),
    );
    let client = Client::recording(&server, json!({}), &OF_TASKS);
    let task = client.task("slow_job", asking());
    assert!(task.end().answer().unwrap().text().unwrap().contains("decline"));
    assert_eq!(answers(&server)[0]["result"]["action"], "decline");
}

#[test]
fn corner_18_a_question_survives_the_stream_that_brought_it() {
    let cut = json!({"match": {"method": "tasks/result", "nth": 1}, "do": {"cut_after_events": 1}});
    let server = TestServer::start(script(json!({"status": "none"})).rule(cut));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_ELICITATION, MCP_EVENT_INPUT_WITHDRAWN]);
    let task = client.task("slow_job", asking());
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    until("tasks/result again", || server.count_of("tasks/result") >= 2);
    assert_eq!(input.reply(&json!({"value": "yes"})), Ok(MCP_OK));
    assert!(task.end().answer().unwrap().text().unwrap().contains("\"yes\""));
    assert!(client.events.of(MCP_EVENT_INPUT_WITHDRAWN).is_empty());
    assert_eq!(client.events.of(MCP_EVENT_ELICITATION).len(), 1);
}

#[test]
fn a_question_is_withdrawn_with_its_task() {
    let server = serving(json!({}));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_ELICITATION, MCP_EVENT_INPUT_WITHDRAWN]);
    let task = client.task("slow_job", asking());
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    assert_eq!(task.cancel(), MCP_OK);
    assert_eq!(task.end().reason(), "cancelled");
    client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
    assert_eq!(input.reply(&json!({"value": "yes"})), Ok(MCP_S_ALREADY_DONE));
}

#[test]
fn a_question_that_the_server_takes_back_is_withdrawn() {
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    let status = |word: &str| json!({"taskId": "t-1", "status": word, "ttl": null, "pollInterval": 100});
    let rules = [
        json!({"match": {"method": "tools/call"}, "do": {"result": {"task": status("working")}}}),
        json!({"match": {"method": "tasks/get"}, "do": {"result": status("input_required")}}),
        json!({"match": {"method": "tasks/result"}, "do": {"sse": [
            {"message": {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {
                "message": "?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": related}}},
            {"hold": "back", "message": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q-1"}}},
            {"hold": "never", "comment": "open"}]}}),
    ];
    let server = TestServer::start(rules.into_iter().fold(script(json!({})), Script::rule));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_ELICITATION, MCP_EVENT_INPUT_WITHDRAWN]);
    let task = client.task("slow_job", json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    assert!(input.key().ends_with("-q-1"), "{}", input.key());
    server.open_gate("back");
    client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
    assert_eq!(input.reply(&json!({})), Ok(MCP_S_ALREADY_DONE));
    assert_eq!(task.let_go(), MCP_OK);
    // Nobody waits for that result any more, and the server is told.
    assert!(server.wait_requests("notifications/cancelled", 1, PATIENCE));
}

#[test]
fn a_question_before_the_answer_that_makes_its_task_is_the_tasks() {
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    let status = |word: &str| json!({"taskId": "t-1", "status": word, "ttl": null, "pollInterval": 100});
    let question = |task: &Value| {
        json!({"message": {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
            "message": "?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": task}}})
    };
    let rules = [
        json!({"match": {"method": "tools/call", "name": "slow_job"}, "do": {"sse": [
            question(&related), {"result": {"task": status("working")}}]}}),
        json!({"match": {"method": "tools/call", "name": "fail_job"}, "do": {"sse": [
            question(&json!({"io.modelcontextprotocol/related-task": {"taskId": "nobody's"}})),
            {"result": {"task": status("working")}}]}}),
        json!({"match": {"method": "tasks/get"}, "do": {"result": status("working")}}),
    ];
    let server = TestServer::start(rules.into_iter().fold(script(json!({})), Script::rule));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_ELICITATION]);
    let task = client.task("slow_job", json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    assert_eq!(input.task_id().as_deref(), Some("t-1"));
    assert_eq!(task.snapshot().status(), "input_required", "it waits, whatever its status says");
    assert_eq!(input.reply(&json!({})), Ok(MCP_OK));
    until("the answer", || answers(&server).len() == 1);
    // One that no task came for is asked all the same, as what belongs to nothing.
    client.task("fail_job", json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 2).input().unwrap();
    assert_eq!((input.task_id(), input.key()), (None, "7".to_owned()));
    assert_eq!(input.reply(&json!({})), Ok(MCP_OK));
    until("the answer", || answers(&server).len() == 2);
    task.let_go();
}

#[test]
fn a_close_while_a_question_is_open_ends_at_once() {
    let server = serving(json!({}));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_ELICITATION, MCP_EVENT_TASK_DONE]);
    let task = client.task("slow_job", asking());
    client.events.nth(MCP_EVENT_ELICITATION, 1);
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    assert_eq!(task.end().reason(), "closed");
}

#[test]
fn a_task_that_asks_without_end_is_refused_beyond_the_limit() {
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t-1"}});
    let status = json!({"taskId": "t-1", "status": "input_required", "ttl": null, "pollInterval": 100});
    let question = |id: usize| {
        json!({"message": {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
            "message": "?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": related}}})
    };
    let mut frames: Vec<Value> = (0..5).map(question).collect();
    frames.push(json!({"hold": "never", "comment": "open"}));
    let rules = [
        json!({"match": {"method": "tools/call"}, "do": {"result": {"task": status}}}),
        json!({"match": {"method": "tasks/get"}, "do": {"result": status}}),
        json!({"match": {"method": "tasks/result"}, "do": {"sse": frames}}),
    ];
    let server = TestServer::start(rules.into_iter().fold(script(json!({})), Script::rule));
    let more = json!({"limits": {"input_requests": 2}, "input": {"elicitation": "manual"}});
    let client = Client::ready(&server, more);
    let task = client.task("slow_job", json!({}));
    until("three refusals", || answers(&server).iter().filter(|answer| answer["error"].is_object()).count() == 3);
    assert_eq!(task.snapshot().inputs().as_array().unwrap().len(), 2);
    task.let_go();
}

// ---- lists, chats, the rest ----------------------------------------------------------------------------------------

#[test]
fn corner_18_the_list_of_tasks_has_pages_and_a_loop_in_them_ends() {
    let options = json!({"era": "legacy", "page_size": 2, "legacy": {"tasks": {}}});
    let server = TestServer::start(Script::new().options(options.clone()));
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = (0..5).map(|_| client.task("slow_job", json!({"step_ms": 60_000}))).collect();
    let all = client.request_with("tasks/list", "", r#"{"all_pages":true}"#).unwrap().json();
    let mut listed: Vec<&str> =
        all["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap()).collect();
    let mut ids: Vec<String> = tasks.iter().map(Task::id).collect();
    listed.sort_unstable();
    ids.sort_unstable();
    assert_eq!(listed, ids);
    assert_eq!(client.request("tasks/list", json!({})).unwrap().json()["nextCursor"], "at-2");

    let round = json!({"match": {"method": "tasks/list"}, "do": {"result": {"tasks": [], "nextCursor": "again"}}});
    let server = TestServer::start(Script::new().options(options).rule(round));
    let client = Client::ready(&server, json!({}));
    let looped = client.request_with("tasks/list", "", r#"{"all_pages":true}"#).unwrap_err();
    assert_eq!(looped.status, MCP_E_MALFORMED, "{looped:?}");
}

#[test]
fn a_chat_finds_its_tasks_and_has_something_to_say_meanwhile() {
    let server = serving(json!({"status": "none", "immediate": "I am on it."}));
    let client = Client::ready(&server, json!({"tasks": {"auto_poll": false}}));
    let call = client.start("slow_job", quick(), json!({"tool_call_id": "c-7"}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    let task = call.task().unwrap();
    assert_eq!(task.snapshot().text(MCP_SNAPSHOT_IMMEDIATE_RESPONSE).as_deref(), Some("I am on it."));
    let pending = client.tasks(r#"{"tool_call_id":"c-7"}"#).unwrap();
    assert_eq!(pending[0]["task_id"], task.id());
    assert_eq!(pending[0]["result"]["content"][0]["text"], "I am on it.");
    assert_eq!(client.tasks(r#"{"tool_call_id":"other"}"#).unwrap(), json!([]));
    let finished = || client.check(r#"{"tool_call_id":"c-7"}"#).unwrap();
    let mut found = json!([]);
    let cell = std::cell::RefCell::new(&mut found);
    until("the task in a check", || {
        let now = finished();
        let any = now != json!([]);
        **cell.borrow_mut() = now;
        any
    });
    assert_eq!(found[0]["result"]["content"][0]["text"], "done");
    assert_eq!(found[0]["reason"], "completed");
    assert_eq!(finished(), json!([]), "handed out once");
    assert_eq!(task.snapshot().text(MCP_SNAPSHOT_IMMEDIATE_RESPONSE).as_deref(), Some("I am on it."));
}

#[test]
fn a_task_is_taken_up_by_its_id_alone() {
    let server = serving(json!({}));
    let first = Client::ready(&server, json!({}));
    let id = first.task("slow_job", json!({"steps": 2, "step_ms": 300, "poll_ms": 50})).id();
    drop(first);
    let second = Client::ready(&server, json!({}));
    let task = second.open_task(&id).unwrap();
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("done"));
    let nobody = second.open_task("no-such-task").unwrap();
    assert_eq!(nobody.end().reason(), "unknown");
}

#[test]
fn what_the_server_asks_about_tasks_of_ours_is_answered() {
    let ask = |id: usize, method: &str| json!({"message": {"jsonrpc": "2.0", "id": id, "method": method, "params": {"taskId": "x"}}});
    let rule = json!({"match": {"method": "tools/call", "name": "echo"}, "do": {"sse": [
        ask(901, "tasks/list"), ask(902, "tasks/get"), {"result": {"content": []}}]}});
    let server = TestServer::start(script(json!({})).rule(rule));
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({})).unwrap();
    let answer = |id: i64| answers(&server).into_iter().find(|answer| answer["id"] == id);
    until("both answers", || answer(901).is_some() && answer(902).is_some());
    assert_eq!(answer(901).unwrap()["result"], json!({"tasks": []}));
    assert_eq!(answer(902).unwrap()["error"]["code"], -32602);
}
