//! Tasks by push: the server tells of them by `subscriptions/listen`, and polls are the back-stop.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;

const LISTEN: &str = "subscriptions/listen";
const CAPABILITY: &str =
    "/params/_meta/io.modelcontextprotocol~1clientCapabilities/extensions/io.modelcontextprotocol~1tasks";

/// A job that goes on for ever, with this interval between its polls.
fn endless(client: &Client, poll_ms: u64) -> Task {
    client.task("slow_job", json!({"steps": 1, "step_ms": 3_600_000, "ttl_ms": null, "poll_ms": poll_ms}))
}

/// Waits until the server has acknowledged so many streams: what happens from then on is told.
fn granted(server: &TestServer, n: usize) {
    until("streams", || server.acknowledged() >= n);
}

fn polls(server: &TestServer) -> usize {
    server.count_of("tasks/get")
}

/// When the client will poll this task next, in ms.
fn next_poll(client: &Client, id: &str) -> u64 {
    let tasks = client.tasks("").unwrap();
    let task = tasks.as_array().unwrap().iter().find(|task| task["task_id"] == id).cloned();
    task.and_then(|task| task["next_poll_ms"].as_u64()).unwrap_or_default()
}

fn seldom(client: &Client, id: &str) {
    until("seldom polls", || next_poll(client, id) > 20_000);
}

#[test]
fn a_pushed_end_comes_long_before_the_next_poll() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let task = endless(&client, 3_600_000);
    granted(&server, 1);
    let request = &server.requests_of(LISTEN)[0];
    assert_eq!(request.at("/params/notifications"), json!({"taskIds": [task.id()]}));
    assert!(request.at(CAPABILITY).is_object());
    server.complete(&task.id());
    assert_eq!(task.end().reason(), "completed");
    assert!(task.end().answer().is_some());
    assert_eq!(polls(&server), 0);
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    // The last task takes the stream along.
    let gone = |entries: &[mcp_test_server::Recorded]| {
        entries.iter().any(|entry| entry.method.as_deref() == Some(LISTEN) && entry.closed_early)
    };
    assert!(server.wait_for(gone, PATIENCE));
}

#[test]
fn polls_are_the_back_stop_and_a_dropped_stream_is_caught_up_with() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let task = endless(&client, 1000);
    let id = task.id();
    granted(&server, 1);
    seldom(&client, &id);
    let before = polls(&server);
    server.end_streams(false);
    // One poll, soon: whatever was not heard. And another stream.
    assert!(server.wait_requests("tasks/get", before + 1, PATIENCE));
    granted(&server, 2);
    seldom(&client, &id);
    let before = polls(&server);
    assert!(before < 8, "{before} polls");
    server.complete(&id);
    assert_eq!(task.end().reason(), "completed");
    assert_eq!(polls(&server), before);
}

#[test]
fn a_task_that_joins_leaves_no_gap_for_the_others() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let first = endless(&client, 3_600_000);
    granted(&server, 1);
    let second = endless(&client, 3_600_000);
    granted(&server, 2);
    let ids = |n: usize| server.requests_of(LISTEN)[n].at("/params/notifications/taskIds").as_array().unwrap().len();
    assert_eq!((ids(0), ids(1)), (1, 2));
    server.complete(&first.id());
    assert_eq!(first.end().reason(), "completed");
    // Opened again after a cut, it asks for what goes on.
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    server.end_streams(false);
    granted(&server, 3);
    assert_eq!(server.requests_of(LISTEN)[2].at("/params/notifications/taskIds"), json!([second.id()]));
    server.complete(&second.id());
    assert_eq!(second.end().reason(), "completed");
    assert_eq!(polls(&server), 0);
}

#[test]
fn a_stream_that_is_replaced_is_read_a_moment_longer() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let _first = endless(&client, 3_600_000);
    granted(&server, 1);
    let _second = endless(&client, 3_600_000);
    granted(&server, 2);
    let left = |entries: &[mcp_test_server::Recorded]| {
        entries
            .iter()
            .find(|entry| entry.method.as_deref() == Some(LISTEN))
            .is_some_and(|entry| entry.done_us.is_some())
    };
    assert!(server.wait_for(left, PATIENCE));
    let streams = server.requests_of(LISTEN);
    let (ended, replaced) = (streams[0].done_us.unwrap(), streams[1].at_us);
    assert!(streams[0].closed_early && ended >= replaced + 990_000, "{ended} {replaced}");
}

fn life(id: &str, pushes: Value) -> Value {
    json!({"tool": id, "id": id, "seed": {"pollIntervalMs": 1000, "ttlMs": null}, "polls": [{"task": {}}], "pushes": pushes})
}

#[test]
fn only_what_is_granted_is_polled_seldom() {
    let script = Script::new().task(life("t-1", json!([]))).task(life("t-2", json!([])));
    let server =
        TestServer::start(script.rule(json!({"match": {"method": LISTEN}, "do": {"patch": {"taskIds": ["t-1"]}}})));
    let client = Client::ready(&server, json!({}));
    let _tasks = (client.task("t-1", json!({})), client.task("t-2", json!({})));
    seldom(&client, "t-1");
    let of = |id: &str| server.requests_of("tasks/get").iter().filter(|poll| poll.name.as_deref() == Some(id)).count();
    let before = of("t-1");
    let others = of("t-2");
    until("polls of the other", || of("t-2") >= others + 3);
    assert_eq!(of("t-1"), before);
    assert!(next_poll(&client, "t-2") < 2_000);
}

#[test]
fn corner_16_news_out_of_order_are_passed_over() {
    let said = |message: &str, second: u32| json!({"statusMessage": message, "lastUpdatedAt": format!("2030-07-28T00:00:{second:02}Z")});
    let mut end = said("", 10);
    end["status"] = "completed".into();
    end["result"] = json!({"content": []});
    let pushes = json!([{"task": said("new", 9)}, {"delay_ms": 50, "task": said("old", 1)}, {"delay_ms": 50, "task": end},
        {"delay_ms": 50, "task": said("after the end", 11)}]);
    let server = TestServer::start(Script::new().task(life("t", pushes)));
    let client = Client::ready(&server, json!({"tasks": {"min_poll_ms": 3_600_000}}));
    let task = client.task("t", json!({}));
    assert_eq!(task.end().reason(), "completed");
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    let told: Vec<_> =
        client.events.of(MCP_EVENT_TASK_STATUS).iter().map(|event| event.snapshot().unwrap().message()).collect();
    assert_eq!(told, [Some("new".to_owned())]);
    assert_eq!(polls(&server), 0);
}

#[test]
fn what_ended_before_the_acknowledgment_is_found_by_the_poll_that_was_due() {
    let server = TestServer::start(Script::new().rule(json!({"match": {"method": LISTEN}, "do": {"hold": true}})));
    let client = Client::ready(&server, json!({}));
    let task = endless(&client, 3_000);
    assert!(server.wait_requests(LISTEN, 1, PATIENCE));
    server.complete(&task.id());
    server.release();
    assert_eq!(task.end().reason(), "completed");
    assert_eq!(polls(&server), 1);
}

#[test]
fn a_server_without_it_is_asked_once_and_polled_as_ever() {
    let without = json!({"taskIds": "$absent"});
    for script in [
        Script::new().options(json!({"listen": false})),
        Script::new().rule(json!({"match": {"method": LISTEN}, "do": {"patch": without}})),
    ] {
        let server = TestServer::start(script);
        let client = Client::ready(&server, json!({}));
        for _ in 0..2 {
            let task = client.task("slow_job", json!({"steps": 1, "step_ms": 1_500, "poll_ms": 100}));
            assert_eq!(task.end().reason(), "completed");
        }
        assert!(polls(&server) > 10);
        assert_eq!(server.count_of(LISTEN), 1);
    }
}

#[test]
fn push_can_be_turned_off_and_by_hand_there_is_none() {
    for tasks in [json!({"push": false}), json!({"auto_poll": false})] {
        let server = TestServer::start(Script::new());
        let client = Client::ready(&server, json!({"tasks": tasks}));
        let task = endless(&client, 100);
        let slept = client.tool_run("sleep", r#"{"ms": 1500}"#, "", PATIENCE_MS);
        assert_eq!(slept.0, Ok(MCP_OK));
        assert_eq!(server.count_of(LISTEN), 0, "{tasks}");
        drop(task);
    }
    let failure = Client::make(br#"{"url": "http://127.0.0.1:1/", "tasks": {"push": 1}}"#).err().unwrap();
    assert!(failure.message.starts_with("settings.tasks.push: expected"), "{}", failure.message);
}

#[test]
fn two_hundred_tasks_share_few_streams() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let tasks: Vec<Task> = (0..200).map(|_| endless(&client, 3_600_000)).collect();
    let sizes = || {
        let listens = server.requests_of(LISTEN).into_iter();
        listens
            .map(|entry| entry.at("/params/notifications/taskIds").as_array().map_or(0, Vec::len))
            .collect::<Vec<_>>()
    };
    until("all tasks on one stream", || sizes().last() == Some(&200));
    granted(&server, sizes().len());
    // Those that were replaced end.
    let open = |entries: &[mcp_test_server::Recorded]| {
        entries.iter().filter(|entry| entry.method.as_deref() == Some(LISTEN) && !entry.closed_early).count()
    };
    assert!(server.wait_for(|entries| open(entries) == 1, PATIENCE));
    for task in &tasks {
        server.complete(&task.id());
    }
    for task in &tasks {
        assert_eq!(task.end().reason(), "completed");
    }
    assert_eq!(polls(&server), 0);
}
