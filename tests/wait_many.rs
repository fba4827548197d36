//! Waiting for any or all of several tasks, a task's history in words, pending tasks by conversation.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/lives.rs"]
mod lives;

use abi::*;
use lives::lives;
use mcp_test_server::TestServer;

/// Works until the test completes it.
fn endless(id: &str) -> Value {
    let done = json!({"task": {"status": "completed", "result": {"content": [{"type": "text", "text": id}]}}});
    json!({"tool": id, "id": id, "seed": {"pollIntervalMs": 100}, "polls": [{"task": {"pollIntervalMs": 100}, "until": "completed"}, done]})
}

#[test]
fn any_ends_with_the_first_and_all_with_the_last() {
    let server = lives(vec![endless("a"), endless("b"), endless("c")]);
    let other = lives(vec![endless("d")]);
    let (client, second) = (Client::ready(&server, json!({})), Client::ready(&other, json!({})));
    let tasks: Vec<Task> = ["a", "b", "c"].iter().map(|name| client.task(name, json!({}))).collect();
    let last = second.task("d", json!({}));
    let all: Vec<&Task> = tasks.iter().chain([&last]).collect();
    assert_eq!(Task::wait_many(&all, MCP_WAIT_ANY, 0), (MCP_S_TIMEOUT, 0));
    assert_eq!(Task::wait_many(&all, MCP_WAIT_ALL, 30), (MCP_S_TIMEOUT, 0));
    server.complete("b");
    assert_eq!(Task::wait_many(&all, MCP_WAIT_ANY, PATIENCE_MS), (MCP_OK, 1));
    assert_eq!(Task::wait_many(&all, MCP_WAIT_ALL, 0).0, MCP_S_TIMEOUT);
    server.complete("a");
    server.complete("c");
    let waited = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| Task::wait_many(&all, MCP_WAIT_ALL, PATIENCE_MS));
        other.complete("d");
        waiter.join().unwrap()
    });
    assert_eq!(waited, (MCP_OK, 0));
    assert!(all.iter().all(|task| task.snapshot().reason() == "completed"));
}

#[test]
fn a_question_to_the_hosts_hand_and_the_end_of_a_client_end_a_wait() {
    let asks = json!({"tool": "asks", "id": "asks", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": {"status": "input_required", "pollIntervalMs": 100, "inputRequests": {"q": {"method": "elicitation/create",
            "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}}}]});
    let server = lives(vec![endless("a"), asks]);
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    let (quiet, asking) = (client.task("a", json!({})), client.task("asks", json!({})));
    assert_eq!(Task::wait_many(&[&quiet, &asking], MCP_WAIT_ALL, PATIENCE_MS), (MCP_E_INPUT_REQUIRED, 1));
    client.close();
    // Closed handles have ended, too: nobody waits for ever.
    assert_eq!(Task::wait_many(&[&quiet, &asking], MCP_WAIT_ALL, PATIENCE_MS), (MCP_OK, 0));
}

#[test]
fn a_manual_queue_is_served_while_its_thread_waits_for_tasks_of_other_clients_too() {
    let (server, other) = (lives(vec![endless("a")]), lives(vec![endless("b")]));
    let queue = Queue::new();
    let client = Client::new(&settings(&server, json!({})));
    client.set_queue(&queue);
    client.record(&[MCP_EVENT_TASK_DONE]);
    client.open().unwrap();
    assert_eq!(client.wait_open(), Ok(MCP_OK));
    let (mine, theirs) = (client.task("a", json!({})), Client::ready(&other, json!({})));
    let foreign = theirs.task("b", json!({}));
    other.complete("b");
    assert_eq!(Task::wait_many(&[&mine, &foreign], MCP_WAIT_ANY, PATIENCE_MS), (MCP_OK, 1));
    server.complete("a");
    assert_eq!(Task::wait_many(&[&mine, &foreign], MCP_WAIT_ALL, PATIENCE_MS), (MCP_OK, 0));
    // A wait may return before the event that says the same.
    until("the event", || {
        queue.dispatch(100);
        !client.events.of(MCP_EVENT_TASK_DONE).is_empty()
    });
}

#[test]
fn what_is_no_list_of_tasks_is_refused() {
    let server = lives(vec![endless("a")]);
    let client = Client::ready(&server, json!({}));
    let task = client.task("a", json!({}));
    assert_eq!(Task::wait_many(&[], MCP_WAIT_ANY, 0).0, MCP_E_ARGUMENT);
    assert_eq!(Task::wait_many(&[&task], 7, 0).0, MCP_E_ARGUMENT);
    assert_eq!(last_error().unwrap().message, "7 is neither MCP_WAIT_ANY nor MCP_WAIT_ALL");
}

#[test]
fn the_history_tells_each_change_once() {
    let step = |message: &str| json!({"task": {"statusMessage": message, "pollIntervalMs": 100}, "times": 2});
    let done = json!({"task": {"status": "completed", "result": {"content": []}}});
    let server = lives(vec![
        json!({"tool": "job", "seed": {"pollIntervalMs": 100}, "polls": [step("reading"), step("writing"), done]}),
    ]);
    let client = Client::ready(&server, json!({}));
    let end = client.task("job", json!({})).end();
    let history: Value = parse(&end.text(MCP_SNAPSHOT_HISTORY).unwrap());
    let words: Vec<_> = history.as_array().unwrap().iter().map(|entry| (&entry["status"], &entry["message"])).collect();
    let want = json!([["working", null], ["working", "reading"], ["working", "writing"], ["completed", null]]);
    let want: Vec<_> = want.as_array().unwrap().iter().map(|pair| (&pair[0], &pair[1])).collect();
    assert_eq!(format!("{words:?}"), format!("{want:?}"));
}

#[test]
fn pending_tasks_are_listed_by_conversation() {
    let server = lives(vec![endless("a"), endless("b")]);
    let client = Client::ready(&server, json!({}));
    let options = |chat: &str| json!({"context": {"conversation": chat, "turn": 3}});
    let calls = [client.start("a", json!({}), options("one")), client.start("b", json!({}), options("two"))];
    for call in &calls {
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    }
    let listed = |filter: Value| -> Vec<String> {
        let all = client.tasks(&filter.to_string()).unwrap().as_array().unwrap().clone();
        // In the order that the server answered in.
        let mut ids: Vec<_> = all.iter().map(|task| task["task_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(listed(json!({"context": {"conversation": "two"}})), ["b"]);
    assert_eq!(listed(json!({"context": {"turn": 3}})), ["a", "b"]);
    assert!(listed(json!({"context": {"turn": 4}})).is_empty());
    assert!(listed(json!({"context": {"conversation": "two", "other": 1}})).is_empty());
}

#[test]
fn every_outcome_is_at_hand_as_a_tool_result() {
    let failed = json!({"task": {"status": "failed", "error": {"code": -32050, "message": "no paper"}}});
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"method": "tools/call", "name": "lost"}, "do": {"run": true, "nothing": true, "then": "reset"}}))
            .task(endless("open"))
            .task(json!({"tool": "job", "seed": {"pollIntervalMs": 100}, "polls": [failed]})),
    );
    let client = Client::ready(&server, json!({}));
    let (open, end) = (client.task("open", json!({})), client.task("job", json!({})).end());
    assert_eq!(open.snapshot().text(MCP_SNAPSHOT_TOOL_RESULT), None);
    let lost = client.start("lost", json!({}), json!({}));
    assert_eq!(lost.wait(PATIENCE_MS), Err(lost.failure().unwrap()));
    assert_eq!(lost.status(), MCP_E_OUTCOME_UNKNOWN);
    client.close();
    let closed = open.end();
    for (text, part) in [
        (end.text(MCP_SNAPSHOT_TOOL_RESULT), "no paper"),
        (closed.text(MCP_SNAPSHOT_TOOL_RESULT), "may go on at the server"),
        (lost.failure().unwrap().tool_result.clone(), "may or may not have run"),
    ] {
        let result: Value = parse(&text.unwrap());
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains(part), "{result}");
    }
}
