//! The ledger in a file, through the C ABI: what a client leaves, the next one goes on with.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/lives.rs"]
mod lives;

use std::path::PathBuf;

use abi::*;
use lives::{ask, done, lives};
use mcp_test_server::TestServer;

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpnative-ledger-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("tasks.db")
    }

    /// Settings with the ledger there.
    fn with(&self, more: Value) -> Value {
        let mut all = json!({"tasks": {"ledger": {"file": self.file(), "lease_ms": 300}}});
        for (key, value) in more.as_object().unwrap() {
            match (key.as_str(), value) {
                ("ledger", Value::Object(part)) => {
                    for (key, value) in part {
                        all["tasks"]["ledger"][key] = value.clone();
                    }
                }
                _ => all[key] = value.clone(),
            }
        }
        all
    }

    /// All bytes of the ledger and its side files.
    fn bytes(&self) -> Vec<u8> {
        let files = std::fs::read_dir(&self.0).unwrap();
        files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    fn holds(&self, text: &str) -> bool {
        self.bytes().windows(text.len()).any(|window| window == text.as_bytes())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const ALL: &[i32] = &[MCP_EVENT_ANY, MCP_EVENT_ELICITATION];

#[test]
fn the_next_client_follows_what_the_last_one_left() {
    let folder = Folder::new("next");
    let server = lives(vec![json!({"tool": "long", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": {"statusMessage": "on"}, "until": "completed"}, done("late")]})]);
    let first = Client::ready(&server, folder.with(json!({})));
    let call = first.start("long", json!({"a": 1}), json!({"tool_call_id": "call_7", "context": {"chat": 3}}));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_S_TASK));
    until("a poll", || call.task().unwrap().snapshot().message().as_deref() == Some("on"));
    drop(first);
    assert_eq!(call.task().unwrap().snapshot().reason(), "closed");
    let second = Client::ready(&server, folder.with(json!({})));
    let task = second.events.nth(MCP_EVENT_TASK_RESUMED, 1).task().unwrap();
    let listed = second.tasks("").unwrap();
    assert_eq!((listed[0]["tool_call_id"].as_str(), &listed[0]["context"]), (Some("call_7"), &json!({"chat": 3})));
    server.complete("t");
    let end = task.end();
    assert_eq!((end.reason(), end.number(MCP_SNAPSHOT_REPEATED)), ("completed", Some(0)));
    assert_eq!(end.text(MCP_SNAPSHOT_TOOL).as_deref(), Some("long"));
    second.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert_eq!(server.count_of("tools/call"), 1);
}

#[test]
fn an_end_is_told_again_until_it_is_acknowledged() {
    let folder = Folder::new("again");
    let server = lives(vec![
        json!({"tool": "quick", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [done("the answer")]}),
        json!({"tool": "bad", "id": "f", "seed": {"pollIntervalMs": 100}, "polls": [
            {"task": {"status": "failed", "error": {"code": -32050, "message": "no disk"}}}]}),
    ]);
    let first = Client::ready(&server, folder.with(json!({})));
    assert_eq!(first.task("quick", json!({})).end().number(MCP_SNAPSHOT_REPEATED), Some(0));
    first.task("bad", json!({})).end();
    drop(first);
    let polls = server.count_of("tasks/get");
    for round in 0..2 {
        let again = Client::ready(&server, folder.with(json!({})));
        again.events.nth(MCP_EVENT_TASK_DONE, 2);
        assert_eq!(again.events.of(MCP_EVENT_TASK_RESUMED).len(), 2, "round {round}");
        for event in again.events.of(MCP_EVENT_TASK_DONE) {
            let end = event.snapshot().unwrap();
            assert_eq!(end.number(MCP_SNAPSHOT_REPEATED), Some(1));
            match end.text(MCP_SNAPSHOT_TASK_ID).as_deref() {
                Some("t") => assert_eq!(end.answer().unwrap().text().as_deref(), Some("the answer")),
                _ => assert_eq!(end.failure().unwrap().rpc_code, Some(-32050)),
            }
            if round == 1 {
                assert_eq!(event.task().unwrap().acknowledge(), Ok(MCP_OK));
                assert_eq!(event.task().unwrap().acknowledge(), Ok(MCP_S_ALREADY_DONE));
            }
        }
    }
    let last = Client::ready(&server, folder.with(json!({})));
    assert_eq!(last.check("").unwrap(), json!([]));
    assert!(last.events.of(MCP_EVENT_TASK_RESUMED).is_empty());
    assert_eq!(server.count_of("tasks/get"), polls, "what has ended is not asked for again");
    assert_eq!(last.purge(0), Ok(2));
    assert_eq!(last.purge(-1).unwrap_err().status, MCP_E_ARGUMENT);
}

#[test]
fn an_open_question_is_asked_again_and_marked_an_answered_one_never() {
    let folder = Folder::new("asked");
    let server = lives(vec![json!({"tool": "asking", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": ask(&["a", "b"]), "until": "updated"},
        // The acknowledgement lags: the answered one still stands.
        {"task": ask(&["a", "b"]), "until": "updated"},
        done("x")]})]);
    let first = Client::recording(&server, folder.with(json!({})), ALL);
    first.task("asking", json!({}));
    first.events.nth(MCP_EVENT_ELICITATION, 2);
    for event in first.events.of(MCP_EVENT_ELICITATION) {
        let input = event.input().unwrap();
        assert!(!input.repeated());
        if input.key() == "a" {
            assert_eq!(input.reply(&json!({})), Ok(MCP_OK));
        }
    }
    assert!(server.wait_requests("tasks/update", 1, PATIENCE));
    drop(first);
    let second = Client::recording(&server, folder.with(json!({})), ALL);
    let event = second.events.nth(MCP_EVENT_ELICITATION, 1);
    let input = event.input().unwrap();
    assert_eq!((input.key().as_str(), input.repeated()), ("b", true));
    let open = event.task().unwrap().snapshot().inputs();
    assert_eq!((open.as_array().unwrap().len(), &open[0]["repeated"]), (1, &json!(true)));
    assert_eq!(input.reply(&json!({})), Ok(MCP_OK));
    assert_eq!(event.task().unwrap().end().reason(), "completed");
    assert_eq!(second.events.of(MCP_EVENT_ELICITATION).len(), 1);
}

#[test]
fn corner_7_a_task_that_the_server_forgot_meanwhile_ends_as_unknown() {
    let folder = Folder::new("forgot");
    let server =
        lives(vec![json!({"tool": "long", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [{"task": {}}]})]);
    let first = Client::ready(&server, folder.with(json!({})));
    first.task("long", json!({}));
    drop(first);
    server.forget("t");
    let second = Client::ready(&server, folder.with(json!({})));
    let end = second.events.nth(MCP_EVENT_TASK_DONE, 1).snapshot().unwrap();
    assert_eq!((end.reason(), end.failure().unwrap().status), ("unknown", MCP_E_TASK_UNKNOWN));
}

#[test]
fn corner_12_a_cancel_that_was_not_acknowledged_is_sent_again() {
    let folder = Folder::new("cancel");
    let server = lives(vec![json!({"tool": "long", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": {}, "until": "completed"}, {"task": {"status": "cancelled"}}],
        "cancels": [{"reset": true}, {"reset": true}, {}]})]);
    let quick = json!({"timeouts": {"close_ms": 1}});
    let first = Client::ready(&server, folder.with(quick));
    assert_eq!(first.task("long", json!({})).cancel(), MCP_OK);
    assert!(server.wait_requests("tasks/cancel", 1, PATIENCE));
    drop(first);
    let before = server.count_of("tasks/cancel");
    let second = Client::ready(&server, folder.with(json!({})));
    assert!(server.wait_requests("tasks/cancel", before + 1, PATIENCE), "sent again without being asked");
    server.complete("t");
    let end = second.events.nth(MCP_EVENT_TASK_DONE, 1).snapshot().unwrap();
    assert_eq!(end.reason(), "cancelled");
}

#[test]
fn corner_13_a_call_whose_answer_never_came_is_never_sent_again() {
    let folder = Folder::new("unknown");
    let script = Script::new().rule(json!({"match": {"method": "tools/call"}, "do": {"run": true, "hold": true}}));
    let server = TestServer::start(script);
    let first = Client::ready(&server, folder.with(json!({})));
    let call = first.start("slow_job", json!({}), json!({}));
    assert!(server.wait_requests("tools/call", 1, PATIENCE));
    drop(first);
    assert_eq!(call.failure().unwrap().status, MCP_E_CLOSED);
    let second = Client::ready(&server, folder.with(json!({})));
    assert_eq!(second.tasks("").unwrap(), json!([]));
    assert_eq!(second.check("").unwrap(), json!([]));
    assert_eq!(server.count_of("tools/call"), 1);
}

#[test]
fn corner_14_of_two_clients_of_one_file_one_follows_and_the_other_takes_over() {
    let folder = Folder::new("two");
    let server = lives(vec![json!({"tool": "long", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": {}, "until": "completed"}, done("once")]})]);
    // Long enough that a busy machine is not taken for a dead process.
    let lease = || folder.with(json!({"ledger": {"lease_ms": 1_500}}));
    let (one, two) = (Client::ready(&server, lease()), Client::ready(&server, lease()));
    one.task("long", json!({}));
    let refused = two.open_task("t").unwrap_err();
    assert_eq!((refused.status, refused.message.as_str()), (MCP_E_STATE, "another process follows the task now"));
    assert!(server.wait_requests("tasks/get", 16, PATIENCE), "over more than one lease");
    assert!(two.events.of(MCP_EVENT_TASK_RESUMED).is_empty());
    drop(one);
    let task = two.events.nth(MCP_EVENT_TASK_RESUMED, 1).task().unwrap();
    server.complete("t");
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("once"));
}

#[test]
fn corner_15_equal_ids_of_two_servers_and_a_renamed_one() {
    let folder = Folder::new("ids");
    let life = |text: &str| {
        json!({"tool": "long", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": {}, "until": "completed"}, done(text)]})
    };
    let (a, b) = (lives(vec![life("of a")]), lives(vec![life("of b")]));
    let named = |name: &str| folder.with(json!({"identity": name}));
    let first = [Client::ready(&a, named("A")), Client::ready(&b, named("B"))];
    for client in &first {
        client.task("long", json!({}));
    }
    drop(first);
    a.complete("t");
    b.complete("t");
    // The identity is the host's: behind another port, say, it is the same server all the same.
    for (server, name, text) in [(&b, "B", "of b"), (&a, "A", "of a")] {
        let client = Client::ready(server, named(name));
        let end = client.events.nth(MCP_EVENT_TASK_DONE, 1).snapshot().unwrap();
        assert_eq!(end.answer().unwrap().text().as_deref(), Some(text));
        assert_eq!(client.events.of(MCP_EVENT_TASK_RESUMED).len(), 1);
    }
}

#[test]
fn corner_20_a_file_that_is_none_of_ours_fails_the_opening_and_is_left_alone() {
    let folder = Folder::new("foreign");
    let server = TestServer::start(Script::new());
    std::fs::write(folder.file(), "remember the milk\n").unwrap();
    let client = Client::new(&settings(&server, folder.with(json!({}))));
    client.open().unwrap();
    let failure = client.wait_open().unwrap_err();
    assert_eq!((failure.status, failure.name().as_str()), (MCP_E_LEDGER, "MCP_E_LEDGER"));
    assert!(failure.message.contains("tasks.db") && failure.message.contains("no ledger"), "{failure:?}");
    assert_eq!(std::fs::read(folder.file()).unwrap(), b"remember the milk\n");
    assert_eq!(server.requests().len(), 0, "nothing was sent");
    std::fs::remove_file(folder.file()).unwrap();
    client.open().unwrap();
    client.wait_open().unwrap();
    assert!(client.run("add", json!({"a": 1, "b": 2})).is_ok());
}

#[test]
fn corner_20_a_disk_that_fails_later_costs_no_result() {
    let folder = Folder::new("fails");
    let server = lives(vec![json!({"tool": "long", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": {}, "until": "completed"}, done("kept")]})]);
    let client = Client::ready(&server, folder.with(json!({})));
    let task = client.task("long", json!({}));
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    server.complete("t");
    assert_eq!(task.end().answer().unwrap().text().as_deref(), Some("kept"));
    let told = client.events.nth(MCP_EVENT_ERROR, 1);
    assert_eq!(told.failure().unwrap().status, MCP_E_LEDGER);
    assert_eq!(told.task().unwrap().id(), "t");
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    other.execute_batch("ROLLBACK").unwrap();
    let stored = || {
        let sql = "SELECT count(*) FROM task WHERE id = 't' AND reason = 1";
        other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    };
    until("the file to catch up", stored);
    drop(client);
    let next = Client::ready(&server, folder.with(json!({})));
    let end = next.events.nth(MCP_EVENT_TASK_DONE, 1).snapshot().unwrap();
    assert_eq!(end.answer().unwrap().text().as_deref(), Some("kept"));
}

#[test]
fn a_private_result_is_not_stored_and_asked_for_again() {
    let folder = Folder::new("private");
    let life = |tool: &str, text: &str| json!({"tool": tool, "id": tool, "seed": {"pollIntervalMs": 100}, "polls": [done(text)]});
    let server = lives(vec![life("diary", "canary-private"), life("news", "public news")]);
    let first = Client::ready(&server, folder.with(json!({})));
    let call = first.start("diary", json!({}), json!({"keep_result": false}));
    call.wait(PATIENCE_MS).unwrap();
    call.task().unwrap().end();
    first.task("news", json!({})).end();
    assert!(folder.holds("public news") && !folder.holds("canary-private"));
    drop(first);
    let second = Client::ready(&server, folder.with(json!({"ledger": {"keep_results": false}})));
    second.events.nth(MCP_EVENT_TASK_DONE, 2);
    for event in second.events.of(MCP_EVENT_TASK_DONE) {
        let end = event.snapshot().unwrap();
        let want = if event.task().unwrap().id() == "diary" { "canary-private" } else { "public news" };
        assert_eq!(end.answer().unwrap().text().as_deref(), Some(want));
        assert_eq!(end.number(MCP_SNAPSHOT_REPEATED), Some(1));
    }
    let checked = second.check("").unwrap();
    assert_eq!(checked.as_array().unwrap().len(), 2);
    assert!(!folder.holds("canary-private"));
    let private = Client::ready(&server, json!({"tasks": {"ledger": {"keep_results": false}}}));
    private.task("diary", json!({})).end();
    assert_eq!(private.check("").unwrap()[0]["result"]["content"][0]["text"], "canary-private", "and in memory");
}

#[test]
fn no_credential_gets_into_the_file() {
    let folder = Folder::new("secret");
    let server = TestServer::start(Script::new());
    let url = server.url();
    let headers = json!({"Authorization": "Bearer canary-header"});
    let client =
        Client::ready(&server, folder.with(json!({"url": format!("{url}?key=canary-query"), "headers": headers})));
    let task = client.task("slow_job", json!({"steps": 1}));
    task.end();
    assert!(folder.holds(&task.id()));
    for secret in ["canary-header", "canary-query"] {
        assert!(!folder.holds(secret), "{secret}");
    }
}

#[test]
fn a_host_with_a_store_of_its_own_exports_and_imports() {
    let server = lives(vec![json!({"tool": "asking", "id": "t", "seed": {"pollIntervalMs": 100}, "polls": [
        {"task": ask(&["a"]), "until": "updated"}, {"task": {}, "until": "completed"}, done("x")]})]);
    let first = Client::recording(&server, json!({}), ALL);
    let task = first.task("asking", json!({}));
    let asked = first.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    let open = task.export();
    asked.reply(&json!({})).unwrap();
    until("work to go on", || task.snapshot().status() == "working");
    let answered = task.export();
    drop(first);
    let second = Client::recording(&server, json!({}), ALL);
    for (text, status) in [("{}", MCP_E_ARGUMENT), ("", MCP_E_ARGUMENT), (r#"{"form":99}"#, MCP_E_UNSUPPORTED)] {
        assert_eq!(second.import(text).unwrap_err().status, status, "{text}");
    }
    let elsewhere = Client::ready(&server, json!({"identity": "other"}));
    let wrong = elsewhere.import(&answered).unwrap_err();
    assert!(wrong.status == MCP_E_ARGUMENT && wrong.message.contains("not of other"), "{wrong:?}");
    let taken = second.import(&answered).unwrap();
    second.events.nth(MCP_EVENT_TASK_RESUMED, 1);
    assert_eq!(second.import(&open).unwrap().id(), "t", "one that is followed is handed out");
    server.complete("t");
    assert_eq!(taken.end().reason(), "completed");
    let ended = taken.export();
    drop(second);
    let third = Client::recording(&server, json!({}), ALL);
    let end = third.import(&ended).unwrap().end();
    assert_eq!((end.reason(), end.number(MCP_SNAPSHOT_REPEATED)), ("completed", Some(1)));
    assert_eq!(end.answer().unwrap().text().as_deref(), Some("x"));
    assert_eq!(third.events.nth(MCP_EVENT_TASK_DONE, 1).task().unwrap().acknowledge(), Ok(MCP_OK));
    // What the ledger knows counts more than an older record.
    assert_eq!(third.import(&open).unwrap().snapshot().reason(), "completed");
}
