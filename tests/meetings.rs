//! Where parts of the library meet that were written apart: tasks that are stored, pushed, waited for and taken over;
//! subscriptions beside kept lists, at the end of their client and on a queue of the host's; proxies that mean ill.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods)]
#![allow(unsafe_code, reason = "misuse that the safe layer does not allow")]

#[path = "support/abi.rs"]
mod abi;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use abi::*;
use mcp_test_server::TestServer;

const LISTEN: &str = "subscriptions/listen";

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpnative-meetings-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Settings with the ledger there.
    fn with(&self, more: Value) -> Value {
        let mut all = json!({"tasks": {"ledger": {"file": self.0.join("tasks.db"), "lease_ms": 300}}});
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A job without an end of its own, which the client hears of seldom without push.
fn endless(client: &Client, poll_ms: u64) -> Task {
    client.task("slow_job", json!({"steps": 1, "step_ms": 3_600_000, "ttl_ms": null, "poll_ms": poll_ms}))
}

fn closed_streams(server: &TestServer, n: usize) -> bool {
    let gone = |entries: &[mcp_test_server::Recorded]| {
        let ended = entries.iter().filter(|entry| entry.method.as_deref() == Some(LISTEN) && entry.closed_early);
        ended.count() >= n
    };
    server.wait_for(gone, PATIENCE)
}

// ---- tasks: stored, pushed, waited for -----------------------------------------------------------------------------

#[test]
fn a_list_that_names_one_task_very_often_is_waited_for() {
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let task = endless(&client, 3_600_000);
    let often = vec![&task; 200_000];
    assert_eq!(Task::wait_many(&often, MCP_WAIT_ALL, 0), (MCP_S_TIMEOUT, 0));
    let waited = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| Task::wait_many(&often, MCP_WAIT_ALL, PATIENCE_MS));
        server.complete(&task.id());
        assert!(task.get().is_ok());
        waiter.join().unwrap()
    });
    assert_eq!(waited, (MCP_OK, 0));
}

#[test]
fn a_resumed_task_is_pushed_too() {
    let (folder, server) = (Folder::new("pushed"), TestServer::start(Script::new()));
    let first = Client::ready(&server, folder.with(json!({})));
    let id = endless(&first, 3_600_000).id();
    until("a stream", || server.acknowledged() >= 1);
    drop(first);
    let second = Client::ready(&server, folder.with(json!({})));
    let task = second.events.nth(MCP_EVENT_TASK_RESUMED, 1).task().unwrap();
    until("another stream", || server.acknowledged() >= 2);
    assert_eq!(server.requests_of(LISTEN)[1].at("/params/notifications"), json!({"taskIds": [id]}));
    server.complete(&id);
    assert_eq!(task.end().reason(), "completed");
    second.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert!(closed_streams(&server, 2));
}

#[test]
fn a_task_that_another_process_takes_over_ends_the_wait_for_several_and_its_stream() {
    let (folder, server) = (Folder::new("taken"), TestServer::start(Script::new()));
    let client = Client::ready(&server, folder.with(json!({})));
    let (taken, kept) = (endless(&client, 3_600_000), endless(&client, 3_600_000));
    until("a stream", || server.acknowledged() >= 1);
    let other = rusqlite::Connection::open(folder.0.join("tasks.db")).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    let (any, all) = std::thread::scope(|scope| {
        let any = scope.spawn(|| Task::wait_many(&[&kept, &taken], MCP_WAIT_ANY, PATIENCE_MS));
        let all = scope.spawn(|| Task::wait_many(&[&taken, &taken], MCP_WAIT_ALL, PATIENCE_MS));
        // What whoever takes it over does: the seat that slept goes, the task gets another token.
        let sql = format!(
            "BEGIN IMMEDIATE; UPDATE seat SET id = id + 1000, process = NULL, until = until + 3600000; UPDATE task SET token = token + 1000, seat = seat + 1000
             WHERE id = '{}'; COMMIT",
            taken.id()
        );
        other.execute_batch(&sql).unwrap();
        (any.join().unwrap(), all.join().unwrap())
    });
    assert_eq!((any, all), ((MCP_OK, 1), (MCP_OK, 0)));
    assert_eq!((taken.snapshot().reason(), kept.snapshot().reason()), ("closed", "none"));
    // What is pushed now is told of the other alone.
    server.complete(&taken.id());
    server.complete(&kept.id());
    assert_eq!(kept.end().reason(), "completed");
    client.events.nth(MCP_EVENT_TASK_DONE, 2);
    assert_eq!(taken.snapshot().reason(), "closed");
    assert!(closed_streams(&server, 1));
    client.close();
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
    assert_eq!(client.events.of(MCP_EVENT_TASK_DONE).len(), 2);
}

#[test]
fn a_task_of_2025_11_25_is_resumed_and_asks_its_new_process() {
    let folder = Folder::new("legacy");
    let server = TestServer::start(Script::new().options(json!({"era": "legacy", "legacy": {"tasks": {}}})));
    let first = Client::ready(&server, folder.with(json!({"input": {"elicitation": "manual"}})));
    let job = json!({"steps": 2, "step_ms": 20, "poll_ms": 40, "ask": true});
    let task = first.task("slow_job", job);
    let (status, seen) = task.wait(PATIENCE_MS);
    assert_eq!((status, seen.status()), (MCP_E_INPUT_REQUIRED, "input_required"));
    let old = seen.inputs()[0]["key"].as_str().unwrap().to_owned();
    drop((task, first));
    let second = Client::ready(&server, folder.with(json!({"input": {"elicitation": "manual"}})));
    let task = second.events.nth(MCP_EVENT_TASK_RESUMED, 1).task().unwrap();
    let open = || {
        let inputs = task.snapshot().inputs();
        let keys = inputs.as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap().to_owned());
        keys.collect::<Vec<_>>()
    };
    until("the question of the new session", || open().iter().any(|key| *key != old));
    until("the old question to go", || open().len() == 1);
    let key = open().remove(0);
    assert_eq!(task.update(&json!({key: {"action": "accept", "content": {"value": "yes"}}})), Ok(MCP_OK));
    assert!(task.end().answer().unwrap().text().unwrap().contains("\"yes\""));
    second.events.nth(MCP_EVENT_TASK_DONE, 1);
}

// ---- subscriptions -------------------------------------------------------------------------------------------------

#[test]
fn a_change_that_is_told_while_a_legacy_subscription_is_under_way_drops_the_list() {
    let hold = json!({"match": {"method": "resources/subscribe"}, "do": {"hold": true}});
    let server = TestServer::start(Script::new().options(json!({"era": "legacy"})).rule(hold));
    let client = Client::ready(&server, json!({}));
    let listed = |n| {
        client.request_with("tools/list", "{}", r#"{"cache": "until_changed"}"#).unwrap();
        server.count_of("tools/list") == n
    };
    assert!(listed(1) && listed(1));
    let call = client.subscribe(json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]}), "");
    assert!(server.wait_held(1, PATIENCE));
    server.announce("tools");
    until("the list to be asked for again", || listed(2));
    assert_eq!(call.cancel(), MCP_OK);
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
}

#[test]
fn a_change_that_is_told_on_a_legacy_subscription_drops_the_list_before_its_event() {
    let server = TestServer::start(Script::new().options(json!({"era": "legacy"})));
    let client = Client::ready(&server, json!({}));
    let call = client.subscribe(json!({"toolsListChanged": true}), "");
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 1);
    for n in 1..20 {
        client.request_with("tools/list", "{}", r#"{"cache": "until_changed"}"#).unwrap();
        assert_eq!(server.count_of("tools/list"), n);
        server.announce("tools");
        let event = client.events.nth(MCP_EVENT_NOTIFICATION, n);
        assert_eq!(event.call_id(), Some(call.id()));
    }
}

#[test]
fn a_close_ends_all_subscriptions_of_a_client_also_those_on_their_way() {
    for era in ["modern", "legacy"] {
        let server = TestServer::start(Script::new().options(json!({"era": era})));
        let client = Client::recording(&server, json!({}), &[MCP_EVENT_CALL_DONE]);
        let calls: Vec<Call> = (0..64).map(|_| client.subscribe(json!({"toolsListChanged": true}), "")).collect();
        assert_eq!(client.close(), MCP_OK);
        for call in &calls {
            assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED, "{era}");
        }
        assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK, "{era}");
        assert_eq!(client.events.of(MCP_EVENT_CALL_DONE).len(), 64, "{era}");
    }
}

#[test]
fn a_subscription_is_closed_in_its_own_event() {
    for era in ["modern", "legacy"] {
        let server = TestServer::start(Script::new().options(json!({"era": era})));
        let client = Client::new(&settings(&server, json!({})));
        let raw = client.raw() as usize;
        client.record(&[MCP_EVENT_CALL_DONE]);
        client.on(MCP_EVENT_SUBSCRIPTION, move |event| {
            if event.subscription() == "active" {
                event.call().unwrap().cancel();
                // SAFETY: the client lives until its last callback has run.
                unsafe { mcpnative::ffi::client::mcp_client_close(raw as *mut _) };
            }
        });
        client.open().unwrap();
        client.wait_open().unwrap();
        let call = client.subscribe(json!({"toolsListChanged": true}), "");
        let failure = call.wait(PATIENCE_MS).unwrap_err();
        assert!([MCP_E_CANCELLED, MCP_E_CLOSED].contains(&failure.status), "{failure:?}");
        assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
        client.events.nth(MCP_EVENT_CALL_DONE, 1);
    }
}

#[test]
fn a_subscription_is_cancelled_and_closed_in_its_pause() {
    let busy = json!({"match": {"method": LISTEN}, "do": {"http_status": 503, "headers": {"Retry-After": "3600"}}});
    let server = TestServer::start(Script::new().rule(busy));
    let client = Client::recording(&server, json!({}), &[MCP_EVENT_SUBSCRIPTION]);
    let (one, two) = (client.subscribe(json!({}), ""), client.subscribe(json!({}), ""));
    client.events.nth(MCP_EVENT_SUBSCRIPTION, 2);
    assert_eq!(one.cancel(), MCP_OK);
    assert_eq!(one.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    client.close();
    assert_eq!(two.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CLOSED);
    assert_eq!(client.wait_closed(PATIENCE_MS), MCP_OK);
}

#[test]
fn a_subscription_on_a_manual_queue_is_served_by_the_wait_for_it() {
    let closing = json!({"match": {"method": LISTEN}, "do": {"result": {"resultType": "complete"}}});
    let server = TestServer::start(Script::new().rule(closing));
    let queue = Queue::new();
    let client = Client::new(&settings(&server, json!({})));
    client.set_queue(&queue);
    client.record(&[MCP_EVENT_SUBSCRIPTION, MCP_EVENT_CALL_DONE]);
    client.open().unwrap();
    assert_eq!(client.wait_open(), Ok(MCP_OK));
    let call = client.subscribe(json!({"toolsListChanged": true}), "");
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    until("its last event", || {
        queue.dispatch(100);
        !client.events.of(MCP_EVENT_CALL_DONE).is_empty()
    });
}

// ---- proxies that mean ill -----------------------------------------------------------------------------------------

/// A proxy that answers each connection with these pieces, one each so many milliseconds, and then says no more.
fn proxy(first: &'static [u8], piece: &'static [u8], pause_ms: u64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked);
                let mut written = stream.write_all(first);
                stream.set_read_timeout(Some(std::time::Duration::from_millis(pause_ms.max(1)))).unwrap();
                while written.is_ok() && !piece.is_empty() {
                    // Between two pieces it waits for whoever asked to leave.
                    if pause_ms > 0 && matches!(stream.read(&mut asked), Ok(0)) {
                        break;
                    }
                    written = stream.write_all(piece);
                }
                stream.set_read_timeout(None).unwrap();
                // Whoever asked ends it.
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    port
}

#[test]
fn a_proxy_that_means_ill_costs_the_connect_limit_at_most() {
    let rows: [(&[u8], &[u8], u64, &str); 5] = [
        (b"HTTP/1.1 200 OK\r\n", b"X: 0123456789012345678901234567890123456789\r\n", 0, "MCP_E_CONNECT"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y", 20, "MCP_E_TIMEOUT"),
        (b"HTTP/1.1 200 OK\r\n\r\nthis is no TLS, and it never was", b"", 0, "MCP_E_TLS"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"", 0, "MCP_E_TIMEOUT"),
        (b"\x16\x03\x01\r\n\r\n", b"", 0, "MCP_E_CONNECT"),
    ];
    for (first, piece, pause, want) in rows {
        let port = proxy(first, piece, pause);
        let client = Client::new(&json!({
            "url": "https://far.away.invalid/mcp", "proxy": format!("http://localhost:{port}"), "era": "modern",
            "timeouts": {"connect_ms": 400, "total_ms": 20_000},
        }));
        client.open().unwrap();
        let failure = client.wait_open().unwrap_err();
        assert_eq!((failure.name().as_str(), failure.retry_safe), (want, true), "{first:?}: {failure:?}");
    }
}

#[test]
fn a_proxy_beside_a_child_process_is_refused_or_without_meaning() {
    let made = Client::make(json!({"command": "true", "proxy": "http://localhost:1"}).to_string().as_bytes());
    assert_eq!(made.map(drop).unwrap_err().status, MCP_E_ARGUMENT);
}

// ---- misuse --------------------------------------------------------------------------------------------------------

#[test]
fn a_list_of_handles_that_are_none_is_refused() {
    use mcpnative::ffi::task::{mcp_task, mcp_task_wait_many};
    let server = TestServer::start(Script::new());
    let client = Client::ready(&server, json!({}));
    let task = endless(&client, 3_600_000);
    let freed = client.open_task(&task.id()).unwrap().raw();
    let wait = |list: *const *mut mcp_task, count: usize, until: i32| {
        // SAFETY: the list is as long as it says wherever it is read.
        unsafe { mcp_task_wait_many(list, count, until, 0, std::ptr::null_mut()) }
    };
    for (stranger, want) in
        [(std::ptr::null_mut(), MCP_E_HANDLE), (freed, MCP_E_HANDLE), (client.raw().cast(), MCP_E_HANDLE)]
    {
        let list = [task.raw(), stranger];
        assert_eq!(wait(list.as_ptr(), 2, MCP_WAIT_ANY), want, "{:?}", last_error());
    }
    let list = [task.raw()];
    assert_eq!(wait(std::ptr::null(), 1, MCP_WAIT_ANY), MCP_E_ARGUMENT);
    assert_eq!(wait(list.as_ptr(), usize::MAX, MCP_WAIT_ANY), MCP_E_ARGUMENT);
    assert_eq!(wait(list.as_ptr(), 0, MCP_WAIT_ALL), MCP_E_ARGUMENT);
    for until in [0, -1, 3, i32::MIN, i32::MAX] {
        assert_eq!(wait(list.as_ptr(), 1, until), MCP_E_ARGUMENT);
    }
    assert_eq!(wait(list.as_ptr(), 1, MCP_WAIT_ANY), MCP_S_TIMEOUT);
}

#[test]
fn a_record_that_means_ill_is_refused() {
    let (folder, server) = (Folder::new("record"), TestServer::start(Script::new()));
    let client = Client::ready(&server, folder.with(json!({})));
    let task = endless(&client, 3_600_000);
    let good = parse(&task.export());
    assert_eq!(task.let_go(), MCP_OK);
    for (member, value) in [
        ("received_ns", json!(i64::MIN)),
        ("received_ns", json!(i64::MAX)),
        ("stored_ns", json!("now")),
        ("last", json!({"taskId": "other"})),
        ("last", json!([])),
        ("answers", json!({"a": 1})),
        ("answers", json!([{"response": 1}])),
        ("answers", json!([{"key": "k", "response": "\u{0}"}, {"key": "k"}])),
        ("reason", json!("eaten")),
        ("reason", json!("completed")),
        ("form", json!(0)),
        ("form", json!(999)),
        ("raw", json!(7)),
        ("context", json!([[[]]])),
        ("task_id", json!("\u{0}")),
    ] {
        let mut bad = good.clone();
        bad[member] = value.clone();
        match client.import(&bad.to_string()) {
            Ok(task) => drop(task.let_go()),
            Err(failure) => {
                assert!([MCP_E_ARGUMENT, MCP_E_UNSUPPORTED].contains(&failure.status), "{member} {value}: {failure:?}");
            }
        }
    }
    for text in ["", "{", "[]", "null", "7", "\"\"", &"[".repeat(100_000)] {
        assert_eq!(client.import(text).unwrap_err().status, MCP_E_ARGUMENT, "{text:.20}");
    }
    assert!(client.run("add", json!({"a": 1, "b": 2})).is_ok());
}
