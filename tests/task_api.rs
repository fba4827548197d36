//! What a program sees of its tasks: events in order, waits, one-shot looks, lists, and the chat loop.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/lives.rs"]
mod lives;

use abi::*;
use lives::{done, lives};
use mcp_test_server::TestServer;

/// A life that works until it is told to complete.
fn endless(tool: &str) -> Value {
    json!({"tool": tool, "id": tool, "polls": [{"task": {}, "until": "completed"}, done("x")]})
}

#[test]
fn events_come_in_order_and_the_end_comes_once() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let jobs = json!({"steps": 3, "step_ms": 60, "poll_ms": 100});
    let calls: Vec<Call> = (0..12).map(|_| client.start("slow_job", jobs.clone(), json!({}))).collect();
    for call in &calls {
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
        call.task().unwrap().end();
    }
    client.events.nth(MCP_EVENT_TASK_DONE, 12);
    let all = client.events.all();
    for call in &calls {
        let id = call.task().unwrap().id();
        let of_this = |event: &&std::sync::Arc<Event>| event.task().is_some_and(|task| task.id() == id);
        let mine: Vec<_> = all.iter().filter(of_this).collect();
        let words: Vec<_> = mine.iter().map(|event| event.word()).collect();
        assert_eq!((words[0], words[1], *words.last().unwrap()), ("created", "call done", "done"), "{words:?}");
        assert!(words[2..words.len() - 1].iter().all(|word| *word == "status"), "{words:?}");
        assert_eq!(mine[0].call_id(), Some(call.id()));
        assert_eq!((mine[1].call_id(), mine[1].status()), (Some(call.id()), Some(i64::from(MCP_S_TASK))));
        assert!(mine[1].failure().is_none() && mine[1].call().is_some());
        let (first, last) = (mine[0].snapshot().unwrap(), mine.last().unwrap().snapshot().unwrap());
        assert_eq!(
            (first.status(), first.reason(), first.text(MCP_SNAPSHOT_TOOL).as_deref()),
            ("working", "none", Some("slow_job"))
        );
        assert_eq!((last.status(), last.reason()), ("completed", "completed"));
        assert_eq!(last.answer().unwrap().raw_json(), call.task().unwrap().snapshot().answer().unwrap().raw_json());
        assert_eq!(last.number(MCP_SNAPSHOT_NEXT_POLL_MS), None, "none will be");
    }
}

#[test]
fn status_events_come_only_with_news() {
    let step = |message: &str| json!({"task": {"statusMessage": message}, "times": 2});
    let server = lives(vec![json!({"tool": "job", "polls": [step("a"), step("b"), step("a"), done("x")]})]);
    let client = Client::ready(&server, json!({}));
    client.task("job", json!({})).end();
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let messages: Vec<_> = client
        .events
        .of(MCP_EVENT_TASK_STATUS)
        .iter()
        .map(|event| event.snapshot().unwrap().message().unwrap())
        .collect();
    assert_eq!(messages, ["a", "b", "a"]);
    assert_eq!(client.events.words(&["state", "status"]), ["created", "call done", "done"]);
}

#[test]
fn without_auto_poll_the_host_polls_when_it_is_due() {
    let life = json!({"tool": "job", "id": "j", "seed": {"pollIntervalMs": 300}, "polls": [
        {"task": {"pollIntervalMs": 300}}, done("x")]});
    let server = lives(vec![life, endless("other")]);
    let client = Client::ready(&server, json!({"tasks": {"auto_poll": false}}));
    let task = client.task("job", json!({}));
    let due = task.snapshot().number(MCP_SNAPSHOT_NEXT_POLL_MS).unwrap();
    assert!((0..=315).contains(&due), "{due}");
    assert_eq!(task.wait(600).0, MCP_S_TIMEOUT);
    assert_eq!(server.count_of("tasks/get"), 0, "nobody polls by itself");
    assert_eq!(task.snapshot().number(MCP_SNAPSHOT_NEXT_POLL_MS), Some(0), "due");
    assert_eq!(client.tasks("").unwrap()[0]["next_poll_ms"], 0);
    let snapshot = task.get().unwrap();
    assert_eq!((snapshot.status(), server.count_of("tasks/get")), ("working", 1));
    assert!(snapshot.number(MCP_SNAPSHOT_NEXT_POLL_MS).unwrap() > 0);
    // A look of one's own is allowed at any time.
    assert_eq!(task.get().unwrap().reason(), "completed");
    assert_eq!((task.end().reason(), client.tasks("").unwrap()), ("completed", json!([])));
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    // The call's own option wins over the settings.
    let call = client.start("other", json!({}), json!({"auto_poll": true}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    assert!(server.wait_requests("tasks/get", 4, PATIENCE));
    server.complete("other");
    assert_eq!(call.task().unwrap().end().reason(), "completed");
}

#[test]
fn a_one_shot_look_goes_the_way_of_every_poll() {
    let server = lives(vec![
        json!({"tool": "job", "id": "j", "seed": {"pollIntervalMs": 60000}, "polls": [
            {"http_status": 503}, {"task": {"statusMessage": "on", "pollIntervalMs": 60000}}, done("x")]}),
        json!({"tool": "gone", "id": "g", "seed": {"pollIntervalMs": 60000}, "polls": [{"task": {"pollIntervalMs": 60000}}, {"error": {"code": -32602, "message": "m"}}]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    assert_eq!(task.get().unwrap_err().http_status, Some(503));
    assert_eq!(task.snapshot().reason(), "none", "a failure does not end it");
    client.events.nth(MCP_EVENT_TASK_DEGRADED, 1);
    assert_eq!(task.get().unwrap().message().as_deref(), Some("on"));
    assert_eq!(client.events.nth(MCP_EVENT_TASK_STATUS, 1).snapshot().unwrap().message().as_deref(), Some("on"));
    client.events.nth(MCP_EVENT_TASK_RECOVERED, 1);
    let end = task.get().unwrap();
    assert_eq!(end.reason(), "completed");
    assert_eq!(client.events.nth(MCP_EVENT_TASK_DONE, 1).snapshot().unwrap().reason(), "completed");
    // Over is over: no request for what is known for good.
    assert_eq!((task.get().unwrap().reason(), server.count_of("tasks/get")), ("completed", 3));
    let gone = client.task("gone", json!({}));
    gone.get().unwrap();
    assert_eq!(gone.get().unwrap_err().status, MCP_E_TASK_UNKNOWN);
    assert_eq!(gone.end().reason(), "unknown");
    assert_eq!(server.pauses("tasks/get", "j").len(), 2, "the schedule added none");
}

#[test]
fn pending_tasks_are_listed_with_what_the_call_said_of_them() {
    let server = lives(vec![endless("one"), endless("two")]);
    let client = Client::ready(&server, json!({}));
    let options = json!({"tool_call_id": "call_1", "context": {"chat": 7}});
    let first = client.start("one", json!({}), options);
    assert_eq!(first.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    let second = client.task("two", json!({}));
    let list = client.tasks("").unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    let one = &list[0];
    for (key, want) in [
        ("task_id", json!("one")),
        ("tool", json!("one")),
        ("tool_call_id", json!("call_1")),
        ("context", json!({"chat": 7})),
        ("status", json!("working")),
        ("ttl_ms", json!(60000)),
        ("poll_interval_ms", json!(50)),
        ("overdue", json!(false)),
        ("input_keys", json!([])),
    ] {
        assert_eq!(one[key], want, "{key}");
    }
    assert!(one["created_at"].is_string() && one["next_poll_ms"].is_u64(), "{one}");
    assert_eq!((&list[1]["tool_call_id"], &list[1]["context"]), (&json!(null), &json!(null)));
    let snapshot = first.task().unwrap().snapshot();
    assert_eq!(snapshot.text(MCP_SNAPSHOT_TOOL_CALL_ID).as_deref(), Some("call_1"));
    assert_eq!(client.tasks("{\"tool_call_id\":\"call_1\"}").unwrap().as_array().unwrap().len(), 1);
    assert_eq!(client.tasks("{\"tool_call_id\":\"none\"}").unwrap(), json!([]));
    for (filter, part) in
        [("{\"x\":1}", "filter.x"), ("[]", "filter"), ("{", "JSON"), ("{\"tool_call_id\":1}", "filter.tool_call_id")]
    {
        let failure = client.tasks(filter).unwrap_err();
        assert!(failure.status == MCP_E_ARGUMENT && failure.message.contains(part), "{filter}: {failure:?}");
    }
    server.complete("one");
    server.complete("two");
    first.task().unwrap().end();
    second.end();
    assert_eq!(client.tasks("").unwrap(), json!([]));
}

#[test]
fn every_outcome_comes_out_of_a_check_as_a_tool_result() {
    let unknown = json!({"error": {"code": -32602, "message": "Task not found"}});
    let server = lives(vec![
        json!({"tool": "good", "polls": [done("fine")]}),
        json!({"tool": "tool_failed", "polls": [{"task": {"status": "completed", "result": {"isError": true, "content": [{"type": "text", "text": "bad input"}]}}}]}),
        json!({"tool": "failed", "polls": [{"task": {"status": "failed", "error": {"code": -32050, "message": "no disk"}}}]}),
        json!({"tool": "cancelled", "polls": [{"task": {"status": "cancelled", "statusMessage": "by the operator"}}]}),
        json!({"tool": "unknown", "polls": [{"task": {}}, unknown]}),
        json!({"tool": "expired", "seed": {"ttlMs": 300}, "polls": [{"task": {"ttlMs": 300}}]}),
        json!({"tool": "let_go", "polls": [{"task": {}}]}),
    ]);
    let client = Client::ready(&server, json!({"tasks": {"ttl": "stop"}}));
    let rows = [
        ("good", "completed", "completed", false, "fine"),
        ("tool_failed", "completed", "completed", true, "bad input"),
        ("failed", "failed", "failed", true, "no disk"),
        ("cancelled", "cancelled", "cancelled", true, "by the operator"),
        ("unknown", "failed", "unknown", true, "does not know"),
        ("expired", "failed", "expired", true, "time to live"),
    ];
    for (tool, ..) in rows {
        let call = client.start(tool, json!({}), json!({"tool_call_id": tool, "context": [tool]}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    }
    client.events.nth(MCP_EVENT_TASK_DONE, rows.len());
    let only = client.check("{\"tool_call_id\":\"good\"}").unwrap();
    assert_eq!(only.as_array().unwrap().len(), 1);
    let mut outcomes = only.as_array().unwrap().clone();
    outcomes.extend(client.check("").unwrap().as_array().unwrap().clone());
    assert_eq!(outcomes.len(), rows.len(), "each handed out once");
    for (tool, status, reason, is_error, text) in rows {
        let one = outcomes.iter().find(|one| one["tool"] == tool).expect(tool);
        assert_eq!((&one["status"], &one["reason"]), (&json!(status), &json!(reason)), "{tool}");
        assert_eq!((&one["tool_call_id"], &one["context"]), (&json!(tool), &json!([tool])), "{tool}");
        assert_eq!(one["result"]["isError"].as_bool().unwrap_or(false), is_error, "{tool}");
        let said = one["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.contains(text), "{tool}: {said}");
    }
    assert_eq!(client.check("").unwrap(), json!([]));
    // What the host let go is not told again, and what it waited for is in its hands.
    client.task("let_go", json!({})).let_go();
    client.run("good", json!({})).unwrap();
    assert_eq!(client.check("").unwrap(), json!([]));
}

#[test]
fn a_check_polls_each_due_task_once_where_nobody_else_does() {
    let server = lives(vec![
        json!({"tool": "job", "id": "j", "seed": {"pollIntervalMs": 2_000}, "polls": [{"task": {"pollIntervalMs": 150}}, {"http_status": 503}, done("x")]}),
        json!({"tool": "later", "id": "l", "seed": {"pollIntervalMs": 60000}, "polls": [done("x")]}),
    ]);
    let client = Client::ready(&server, json!({"tasks": {"auto_poll": false}}));
    let call = client.start("job", json!({}), json!({"tool_call_id": "c"}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    client.task("later", json!({}));
    assert_eq!(client.check("").unwrap(), json!([]), "nothing is due yet");
    assert_eq!(server.count_of("tasks/get"), 0);
    until("the outcome", || {
        let found = client.check("").unwrap();
        found.as_array().unwrap().iter().any(|one| one["task_id"] == "j" && one["reason"] == "completed")
    });
    let pauses = server.pauses("tasks/get", "j");
    assert!(pauses.len() == 2 && pauses[0] >= 150_000 && pauses[1] >= 1_000_000, "never early: {pauses:?}");
    assert_eq!(server.requests_of("tasks/get").len(), 3);
    assert_eq!(client.tasks("").unwrap()[0]["task_id"], "l");
}

#[test]
fn a_task_is_taken_up_by_its_id() {
    let server = lives(vec![endless("job")]);
    let maker = Client::ready(&server, json!({}));
    let made = maker.task("job", json!({}));
    let other = Client::ready(&server, json!({}));
    let taken = other.open_task("job").unwrap();
    let resumed = other.events.nth(MCP_EVENT_TASK_RESUMED, 1);
    assert_eq!((resumed.task().unwrap().id().as_str(), resumed.call_id()), ("job", None));
    assert_eq!(maker.open_task("job").unwrap().id(), made.id(), "the one that is followed");
    assert!(maker.events.of(MCP_EVENT_TASK_RESUMED).is_empty());
    server.complete("job");
    assert_eq!((made.end().reason(), taken.end().reason()), ("completed", "completed"));
    let lost = other.open_task("never-was").unwrap();
    assert_eq!(lost.end().reason(), "unknown");
    assert_eq!(other.open_task("").unwrap_err().status, MCP_E_ARGUMENT);
}

#[test]
fn closing_ends_the_handle_and_not_the_work() {
    let server = lives(vec![endless("job")]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    let end = task.end();
    assert_eq!((end.status(), end.reason()), ("working", "closed"), "as it last stood");
    assert_eq!(client.events.words(&["state", "status"]), ["created", "call done", "done"]);
    assert_eq!(server.count_of("tasks/cancel"), 0);
    assert_eq!(task.get().unwrap_err().status, MCP_E_CLOSED);
    // The next client finds the work going on.
    let next = Client::ready(&server, json!({}));
    let taken = next.open_task("job").unwrap();
    server.complete("job");
    assert_eq!(taken.end().reason(), "completed");
}

#[test]
fn letting_go_ends_the_handle_once() {
    let server = lives(vec![endless("job")]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("job", json!({}));
    assert_eq!((task.let_go(), task.let_go()), (MCP_OK, MCP_S_ALREADY_DONE));
    assert_eq!(task.end().reason(), "closed");
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert_eq!((task.cancel(), server.count_of("tasks/cancel")), (MCP_S_ALREADY_DONE, 0));
}

#[test]
fn many_tasks_are_followed_at_once() {
    let server = TestServer::start(Script::new());
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_TASK_DONE]);
    let jobs = json!({"steps": 1, "step_ms": 50, "poll_ms": 150});
    let calls: Vec<Call> = (0..200).map(|_| client.start("slow_job", jobs.clone(), json!({}))).collect();
    for call in &calls {
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
        assert_eq!(call.task().unwrap().end().reason(), "completed");
    }
    client.events.nth(MCP_EVENT_TASK_DONE, 200);
    // The last one is taken off the list right after its event.
    until("what has ended to leave the list of the followed", || client.stats()["tasks"] == 0);
}

#[test]
fn a_program_with_one_thread_serves_its_queue_while_it_waits() {
    let server = TestServer::start(Script::new());
    let queue = Queue::new();
    let client = Client::new(&settings(&server, json!({})));
    client.set_queue(&queue);
    client.record(&[MCP_EVENT_ANY]);
    client.on(MCP_EVENT_ELICITATION, |event| {
        assert_eq!(event.input().unwrap().reply(&json!({"value": "yes"})), Ok(MCP_OK));
    });
    client.open().unwrap();
    client.wait_open().unwrap();
    let jobs = json!({"steps": 2, "step_ms": 30, "poll_ms": 100, "ask": true});
    assert!(client.run("slow_job", jobs.clone()).unwrap().text().unwrap().starts_with("done"));
    let task = client.task("slow_job", jobs);
    assert_eq!(task.end().reason(), "completed");
    until("the events", || {
        queue.dispatch(0);
        client.events.of(MCP_EVENT_TASK_DONE).len() == 2
    });
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    assert_eq!(client.events.all().last().unwrap().word(), "state");
    drop(client);
}
