//! Legacy servers behind Unix sockets and on streams of the host's own: sessions, what the server asks, notifications.
//! The server is the scripted one, a process of its own; here the bytes are carried.
#![cfg(unix)]
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks, reason = "the C ABI is what is tested, as its header says")]
#![allow(missing_docs, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the other side of a channel needs threads of its own")]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/local.rs"]
mod local;

use std::ffi::{c_char, c_void};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use abi::*;
use local::Local;
use mcpnative::ffi::server::{MCP_SERVER_ERA, MCP_SERVER_VERSION};
use mcpnative::ffi::stream::*;

// ---- a Unix socket -----------------------------------------------------------------------------------------------------

/// Each connection is a process of the server's.
struct Socket {
    path: PathBuf,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Socket {
    fn serve(name: &str, local: &Arc<Local>) -> Self {
        let path = std::env::temp_dir().join(format!("mcpnative-{name}-{}.sock", std::process::id()));
        drop(std::fs::remove_file(&path));
        let listener = UnixListener::bind(&path).unwrap();
        let (local, over) = (local.clone(), Arc::new(AtomicBool::new(false)));
        let last = over.clone();
        let accepting = std::thread::spawn(move || {
            let mut children = Vec::<Child>::new();
            for connection in listener.incoming() {
                let connection: OwnedFd = connection.unwrap().into();
                if last.load(Ordering::Acquire) {
                    break;
                }
                let other = connection.try_clone().unwrap();
                children.push(local.spawn(Stdio::from(connection), Stdio::from(other)));
            }
            for mut child in children {
                child.wait().unwrap();
            }
        });
        Self { path, over, accepting: Some(accepting) }
    }

    fn settings(&self) -> Value {
        json!({"url": format!("unix://{}", self.path.display())})
    }

    fn end(mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes whoever accepts.
        drop(std::os::unix::net::UnixStream::connect(&self.path).unwrap());
        self.accepting.take().unwrap().join().unwrap();
        std::fs::remove_file(&self.path).unwrap();
    }
}

// ---- a stream of the host's --------------------------------------------------------------------------------------------

struct Stream {
    raw: *mut mcp_stream,
    child: Child,
    reading: Option<JoinHandle<()>>,
}

// SAFETY: any function from any thread.
struct Raw(*mut mcp_stream);
unsafe impl Send for Raw {}

unsafe extern "C" fn write(bytes: *const c_char, length: usize, user: *mut c_void) {
    let (pipe, bytes) =
        unsafe { (&*user.cast::<Mutex<Option<ChildStdin>>>(), std::slice::from_raw_parts(bytes.cast::<u8>(), length)) };
    if let Some(pipe) = &mut *pipe.lock().unwrap() {
        drop(pipe.write_all(bytes));
    }
}

unsafe extern "C" fn close(user: *mut c_void) {
    let pipe = unsafe { &*user.cast::<Mutex<Option<ChildStdin>>>() };
    drop(pipe.lock().unwrap().take());
}

unsafe extern "C" fn destroy(user: *mut c_void) {
    drop(unsafe { Box::from_raw(user.cast::<Mutex<Option<ChildStdin>>>()) });
}

impl Stream {
    fn serve(local: &Local) -> Self {
        let mut child = local.spawn(Stdio::piped(), Stdio::piped());
        let pipe = Box::new(Mutex::new(child.stdin.take()));
        let (mut output, mut raw) = (child.stdout.take().unwrap(), null_mut());
        let status = unsafe {
            mcp_stream_new(Some(write), Some(close), Box::into_raw(pipe).cast(), Some(destroy), &raw mut raw)
        };
        assert_eq!(status, MCP_OK);
        let there = Raw(raw);
        let reading = std::thread::spawn(move || {
            let (there, mut piece) = (there, [0; 511]);
            while let Ok(count @ 1..) = output.read(&mut piece) {
                unsafe { mcp_stream_feed(there.0, piece.as_ptr().cast(), count) };
            }
            let why = "the server is gone";
            unsafe { mcp_stream_end(there.0, why.as_ptr().cast(), why.len()) };
        });
        Self { raw, child, reading: Some(reading) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.child.wait().unwrap();
        self.reading.take().unwrap().join().unwrap();
        assert_eq!(unsafe { mcp_stream_free(self.raw) }, MCP_OK);
    }
}

// ---- what holds on both ------------------------------------------------------------------------------------------------

/// Opens a client on each kind of channel.
fn on_each(name: &str, script: Value, more: Value, prepare: impl Fn(&Client), test: impl Fn(&str, &Client, &Local)) {
    let open = |mut settings: Value| {
        for (key, value) in more.as_object().unwrap() {
            settings[key] = value.clone();
        }
        let client = Client::new(&settings);
        prepare(&client);
        client
    };
    let local = Arc::new(Local::new(&format!("{name}-unix"), script.clone()));
    let socket = Socket::serve(name, &local);
    let client = open(socket.settings());
    client.open().unwrap();
    client.wait_open().unwrap();
    test("a Unix socket", &client, &local);
    drop(client);
    socket.end();

    let local = Local::new(&format!("{name}-stream"), script);
    let client = open(json!({"url": "stream:mine"}));
    let stream = Stream::serve(&local);
    assert_eq!(unsafe { mcp_client_set_stream(client.raw(), stream.raw) }, MCP_OK);
    client.open().unwrap();
    client.wait_open().unwrap();
    test("a stream", &client, &local);
    drop(client);
    drop(stream);
}

fn legacy() -> Value {
    json!({"options": {"era": "legacy"}})
}

#[test]
fn a_session_is_found_spoken_to_and_ended() {
    on_each(
        "session",
        legacy(),
        json!({}),
        |_| {},
        |name, client, local| {
            assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("legacy"), "{name}");
            assert_eq!(client.server().text(MCP_SERVER_VERSION).as_deref(), Some("2025-11-25"), "{name}");
            assert!(client.tool_names().unwrap().contains(&"echo".to_owned()), "{name}");
            assert_eq!(
                client.run("add", json!({"a": 2, "b": 3})).unwrap().json()["structuredContent"]["sum"],
                5,
                "{name}"
            );
            let calls: Vec<Call> = (0..64).map(|n| client.start("echo", json!({"n": n}), json!({}))).collect();
            for (n, call) in calls.iter().enumerate() {
                assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{name}");
                assert_eq!(call.answer().unwrap().structured().unwrap(), format!("{{\"n\":{n}}}"), "{name}");
            }
            assert_eq!(local.heard()[..3], ["server/discover", "initialize", "notifications/initialized"], "{name}");
        },
    );
}

#[test]
fn the_servers_questions_are_answered() {
    let prepare = |client: &Client| {
        for (kind, content) in [
            (MCP_EVENT_ELICITATION, json!({"answer": "yes"})),
            (MCP_EVENT_SAMPLING, json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}})),
            (MCP_EVENT_ROOTS, json!({"roots": []})),
        ] {
            let events = client.events.clone();
            client.on(kind, move |event| {
                assert_eq!(event.input().unwrap().reply(&content), Ok(MCP_OK));
                events.add(event);
            });
        }
    };
    on_each("questions", legacy(), json!({"era": "legacy"}), prepare, |name, client, _| {
        for (tool, kind) in [
            ("ask_elicitation", MCP_EVENT_ELICITATION),
            ("ask_sampling", MCP_EVENT_SAMPLING),
            ("ask_roots", MCP_EVENT_ROOTS),
        ] {
            let call = client.start(tool, json!({}), json!({}));
            assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{name}, {tool}");
            assert!(!call.answer().unwrap().is_error(), "{name}, {tool}");
            assert_eq!(client.events.nth(kind, 1).call_id(), Some(call.id()), "{name}, {tool}");
        }
        assert!(!client.run("ask_ping", json!({})).unwrap().is_error(), "{name}");
    });
}

#[test]
fn what_cannot_be_answered_is_refused_and_the_call_goes_on() {
    on_each(
        "refused",
        legacy(),
        json!({"era": "legacy"}),
        |_| {},
        |name, client, _| {
            for tool in ["ask_elicitation", "ask_sampling", "ask_roots"] {
                assert!(
                    client.run(tool, json!({})).unwrap().is_error(),
                    "{name}, {tool}: the capability is not declared"
                );
            }
            client.run("echo", json!({})).unwrap();
        },
    );
}

#[test]
fn an_open_question_is_withdrawn_with_its_call() {
    let kinds = [MCP_EVENT_ELICITATION, MCP_EVENT_INPUT_WITHDRAWN];
    on_each(
        "withdrawn",
        legacy(),
        json!({"era": "legacy"}),
        |client| client.record(&kinds),
        |name, client, local| {
            let call = client.start("ask_elicitation", json!({}), json!({}));
            let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
            assert_eq!(call.cancel(), MCP_OK, "{name}");
            assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED, "{name}");
            client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
            assert_eq!(input.reply(&json!({})), Ok(MCP_S_ALREADY_DONE), "{name}");
            until("the server is told", || local.count("notifications/cancelled") == 1);
            client.run("echo", json!({})).unwrap();
        },
    );
}

#[test]
fn progress_logs_and_notifications_come() {
    let updated =
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///a"}});
    let script = json!({"options": {"era": "legacy"}, "rules": [
        {"match": {"method": "tools/call", "name": "echo"}, "do": {"lines": [{"message": updated}, {"result": {"content": []}}]}}]});
    on_each(
        "notes",
        script,
        json!({"log_level": "debug"}),
        |client| client.record(&[MCP_EVENT_ANY]),
        |name, client, _| {
            let call = client.start("progress", json!({"n": 3}), json!({}));
            assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{name}");
            assert_eq!(client.events.nth(MCP_EVENT_PROGRESS, 1).call_id(), Some(call.id()), "{name}");
            client.run("log", json!({"n": 2})).unwrap();
            client.events.nth(MCP_EVENT_LOG_MESSAGE, 2);
            client.run("change", json!({"what": "tools"})).unwrap();
            client.run("echo", json!({})).unwrap();
            let has = |method: &'static str| {
                client
                    .events
                    .until(method, |events| events.iter().any(|event| event.method().as_deref() == Some(method)));
            };
            has("notifications/tools/list_changed");
            has("notifications/resources/updated");
        },
    );
}

#[test]
fn a_socket_that_ends_takes_its_session_along_and_a_stream_is_over() {
    let crash = json!({"match": {"method": "tools/call", "name": "count"}, "do": {"nothing": true, "exit": 1}});
    let script = json!({"options": {"era": "legacy"}, "rules": [crash]});
    on_each(
        "ended",
        script,
        json!({"era": "legacy"}),
        |_| {},
        |name, client, local| {
            assert_eq!(client.run("count", json!({})).unwrap_err().status, MCP_E_OUTCOME_UNKNOWN, "{name}");
            if name == "a stream" {
                let failure = client.run("echo", json!({})).unwrap_err();
                assert_eq!(
                    (failure.name().as_str(), failure.message.as_str()),
                    ("MCP_E_CONNECT", "the host's stream is over")
                );
                assert_eq!(local.count("initialize"), 1);
            } else {
                assert!(!client.run("echo", json!({})).unwrap().is_error(), "{name}");
                assert_eq!((local.count("initialize"), local.count("notifications/initialized")), (2, 2), "{name}");
                assert_eq!(local.count("tools/call"), 2, "{name}: no call was repeated");
            }
        },
    );
}

#[test]
fn br_10_a_silent_server_is_legacy_on_each_channel_and_a_late_answer_is_dropped() {
    let silent = json!({"options": {"era": "legacy", "legacy": {"early": "silent"}}});
    let late = json!({"options": {"era": "legacy"}, "rules": [{"match": {"method": "server/discover"},
        "do": {"delay_ms": 900, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}}}]});
    for (name, script) in [("silent", silent), ("late", late)] {
        on_each(
            name,
            script,
            json!({"timeouts": {"probe_ms": 300}}),
            |_| {},
            |kind, client, local| {
                assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("legacy"), "{name}, {kind}");
                // The late answer comes meanwhile: it is nobody's.
                client.run("sleep", json!({"ms": 1_000})).unwrap();
                assert_eq!(client.server().text(MCP_SERVER_ERA).as_deref(), Some("legacy"), "{name}, {kind}");
                assert_eq!(local.count("notifications/cancelled"), 0, "{name}, {kind}");
            },
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn tasks_are_polled_on_either_channel_without_a_worker() {
    let workers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        // A thread may end while it is looked at.
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.map(|task| name(task.unwrap())).filter(|name| name.trim() == "mcp-poll").count()
    };
    let script = json!({"options": {"era": "legacy", "legacy": {"tasks": {"status": "none"}}}});
    on_each(
        "polls",
        script,
        json!({"era": "legacy"}),
        |_| {},
        |name, client, local| {
            let idle = workers();
            let endless = json!({"steps": 1, "step_ms": 3_600_000, "poll_ms": 100});
            let tasks: Vec<Task> = (0..30).map(|_| client.task("slow_job", endless.clone())).collect();
            until("some polls", || local.lines_with("tasks/get") >= 150);
            assert!(workers() <= idle, "{name}");
            assert_eq!(tasks[0].cancel(), MCP_OK, "{name}");
            assert_eq!(tasks[0].end().reason(), "cancelled", "{name}");
        },
    );
}
