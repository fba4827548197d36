//! Amounts: many rounds of one client after another, and results far over and just under the limit. What a process holds
//! is counted, so one test runs at a time.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the other side of a connection needs a thread of its own")]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard};

use abi::*;
use local::Local;
use mcp_test_server::TestServer;

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Descriptors, threads and children of this process, zombies included.
#[derive(Clone, Copy, Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    children: usize,
}

impl Held {
    fn now() -> Self {
        let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let children = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
        // A thread may end while it is looked at.
        let children: String = tasks.filter_map(|task| children(task.unwrap()).ok()).collect();
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            children: children.split_whitespace().count(),
        }
    }

    /// What was left behind by each of many rounds would be far more than this.
    fn is_flat_since(self, before: Self, slack: usize) -> bool {
        self.descriptors <= before.descriptors + slack
            && self.threads <= before.threads + slack
            && self.children <= before.children
    }
}

/// Rounds, and what the process holds after the first ones and after the last.
fn rounds(count: usize, round: impl Fn()) {
    let warm = 20;
    (0..warm).for_each(|_| round());
    let before = Held::now();
    (0..count).for_each(|_| round());
    // The other side, which runs in this process too, ends its part a moment later.
    until("what the rounds held to be given back", || Held::now().is_flat_since(before, 16));
    println!("{count} rounds: {before:?}, then {:?}", Held::now());
}

#[test]
fn a_thousand_rounds_over_http_leave_nothing_behind() {
    let _alone = alone();
    for era in ["modern", "legacy"] {
        let server = TestServer::start(Script::new().options(json!({"era": era})));
        rounds(500, || {
            let client = Client::ready(&server, json!({}));
            client.run("echo", json!({})).unwrap();
        });
    }
}

#[test]
fn br_07_many_rounds_over_pipes_leave_nothing_behind() {
    let _alone = alone();
    for era in ["modern", "legacy"] {
        let server = Local::new(&format!("rounds-{era}"), json!({"options": {"era": era}}));
        rounds(100, || {
            let client = server.ready(json!({"era": era}), |_| {});
            client.run("echo", json!({})).unwrap();
        });
    }
}

#[test]
fn br_07_openings_that_fail_and_handles_that_are_only_freed_leave_nothing_behind() {
    let _alone = alone();
    let refused = json!({"rules": [{"match": {"method": "server/discover"}, "do": {"error": {"code": -32020, "message": "no"}}}]});
    let server = Local::new("refused", refused);
    rounds(40, || {
        let client = server.client(json!({}), |_| {});
        client.wait_open().unwrap_err();
    });
    let server = Local::new("freed", json!({}));
    rounds(40, || {
        let client = server.ready(json!({}), |_| {});
        let done = client.start("echo", json!({}), json!({}));
        // The handle goes without a close: freeing closes.
        client.free();
        drop(done.wait(PATIENCE_MS));
    });
}

// ---- sizes -------------------------------------------------------------------------------------------------------------

const CAP: usize = 16 << 20;
const UNDER: usize = 10_000_000;
const OVER: usize = 100_000_000;

/// The most memory that this process has held, for the eye.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
}

fn limits() -> Value {
    json!({"limits": {"message_bytes": CAP, "sse_event_bytes": CAP, "stdio_line_bytes": CAP},
        "timeouts": {"idle_ms": -1, "total_ms": -1, "probe_ms": 60_000}})
}

/// A server of two answers, which costs nothing: `server/discover`, and a text as long as was asked for.
fn cheap_server(head: &'static str) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let Some(request) = read_request(&mut connection) else { return };
            // A client that has seen enough leaves in the middle.
            drop(answer(&mut connection, &request, head));
        }
    });
    (url, serving)
}

/// The body of the one request of a connection; nothing where the connection is only opened.
fn read_request(connection: &mut TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = told.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    std::str::from_utf8(&body).unwrap().parse().ok()
}

fn answer(connection: &mut TcpStream, request: &Value, head: &str) -> std::io::Result<()> {
    let (id, size) = (&request["id"], request["params"]["arguments"]["bytes"].as_u64().unwrap_or(1));
    let (kind, lead, tail) = if head.contains("event-stream") { (head, "data: ", "\n\n") } else { (head, "", "") };
    let mut body =
        json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {}, "content": [{"type": "text", "text": "@"}]}})
        .to_string();
    body = format!("{lead}{body}{tail}");
    let (begin, end) = body.split_once('@').unwrap();
    let length = begin.len() as u64 + size + end.len() as u64;
    let told = if head.contains("json; length") { format!("Content-Length: {length}\r\n") } else { String::new() };
    write!(connection, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{told}Connection: close\r\n\r\n{begin}")?;
    let piece = [b'x'; 65_536];
    let mut left = usize::try_from(size).unwrap();
    while left > 0 {
        let next = left.min(piece.len());
        connection.write_all(&piece[..next])?;
        left -= next;
    }
    connection.write_all(end.as_bytes())
}

/// One result under the limit and one over it; the client lives on.
fn under_and_over(name: &str, client: &Client, option: &str) {
    let text = client.run("big", json!({"bytes": UNDER})).expect(name).text().unwrap();
    assert!(text.len() == UNDER && text.bytes().all(|byte| byte == b'x'), "{name}");
    println!("{name}: {UNDER} bytes, {}", peak());
    let failure = client.run("big", json!({"bytes": OVER})).expect_err(name);
    assert_eq!(failure.name(), "MCP_E_TOO_LARGE", "{name}: {failure:?}");
    assert!(failure.message.contains(&format!("limits.{option}")), "{name}: {failure:?}");
    println!("{name}: {OVER} bytes, {}", peak());
    assert_eq!(client.run("big", json!({"bytes": 3})).expect(name).text().as_deref(), Some("xxx"), "{name}");
}

#[test]
fn br_03_a_result_of_a_hundred_megabytes_over_http() {
    let _alone = alone();
    for (name, head, option) in [
        ("JSON that tells its length", "application/json; length", "message_bytes"),
        ("JSON without a length", "application/json", "message_bytes"),
        ("SSE", "text/event-stream", "sse_event_bytes"),
    ] {
        let (url, serving) = cheap_server(head);
        let mut settings = limits();
        settings["url"] = json!(url);
        let client = Client::new(&settings);
        client.open().unwrap();
        client.wait_open().unwrap();
        under_and_over(name, &client, option);
        drop(client);
        drop(TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/mcp")).unwrap());
        serving.join().unwrap();
    }
}

#[test]
fn br_03_a_result_of_a_hundred_megabytes_over_a_pipe() {
    let _alone = alone();
    let mut settings = limits();
    settings["command"] = json!("python3");
    settings["args"] = json!(["-S", "-E", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stdio_server.py")]);
    let client = Client::new(&settings);
    client.open().unwrap();
    client.wait_open().unwrap();
    let text = client.run("long", json!({"size": UNDER})).unwrap().text().unwrap();
    assert!(text.len() > UNDER - 200);
    println!("a line of {UNDER} bytes, {}", peak());
    let failure = client.run("endless", json!({"mib": OVER >> 20})).unwrap_err();
    assert_eq!(failure.name(), "MCP_E_TOO_LARGE", "{failure:?}");
    assert!(failure.message.contains("limits.stdio_line_bytes"), "{failure:?}");
    println!("a line of {OVER} bytes, {}", peak());
    assert_eq!(client.run("echo", json!({"text": "alive"})).unwrap().text().as_deref(), Some("alive"));
}
