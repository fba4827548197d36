//! Servers as child processes, behind Unix sockets and on streams of the host's own, through the C ABI.

#![cfg(unix)]
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks, reason = "the C ABI is what is tested, as its header says")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "the other side of a channel needs threads of its own")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mcpnative::ffi::call::{mcp_call, mcp_call_error, mcp_call_free, mcp_call_result, mcp_tool_call, mcp_tool_run};
use mcpnative::ffi::call::{mcp_call_cancel, mcp_call_wait, mcp_tool_list};
use mcpnative::ffi::client::*;
use mcpnative::ffi::error::*;
use mcpnative::ffi::event::{MCP_EVENT_TEXT_JSON, mcp_event, mcp_event_text};
use mcpnative::ffi::library::{MCP_LOG_WARN, mcp_last_error, mcp_log_on};
use mcpnative::ffi::result::{MCP_RESULT_TEXT, mcp_result_free, mcp_result_text};
use mcpnative::ffi::status::*;
use mcpnative::ffi::stream::*;
use mcpnative::ffi::text_object::mcp_text_free;
use serde_json::{Value, json};

const WAIT: i64 = 60_000;

struct Client(*mut mcp_client);

// SAFETY: any function from any thread.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

#[derive(Debug)]
struct Failure {
    status: mcp_status,
    message: String,
    stderr: Option<String>,
    exit_code: i64,
}

/// Takes an error object apart.
unsafe fn failure(status: mcp_status, error: *mut mcp_error) -> Failure {
    unsafe {
        let mut exit_code = 0;
        mcp_error_number(error, MCP_ERROR_EXIT_CODE, &raw mut exit_code);
        let message = string(mcp_error_text(error, MCP_ERROR_MESSAGE, null_mut())).unwrap_or_default();
        let stderr = string(mcp_error_text(error, MCP_ERROR_STDERR, null_mut()));
        mcp_error_free(error);
        Failure { status, message, stderr, exit_code }
    }
}

unsafe fn last_failure(status: mcp_status) -> Failure {
    unsafe {
        let mut error = null_mut();
        mcp_last_error(&raw mut error);
        failure(status, error)
    }
}

unsafe fn string(text: *const c_char) -> Option<String> {
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().expect("texts are UTF-8").to_owned())
}

impl Client {
    fn new(settings: &Value) -> Self {
        let (text, mut client) = (settings.to_string(), null_mut());
        let status = unsafe { mcp_client_new(text.as_ptr().cast(), text.len(), &raw mut client) };
        assert_eq!(status, MCP_OK, "{:?}", unsafe { last_failure(status) });
        Self(client)
    }

    fn open(settings: &Value) -> Self {
        let client = Self::new(settings);
        client.up().unwrap();
        client
    }

    fn up(&self) -> Result<(), Failure> {
        unsafe {
            assert_eq!(mcp_client_open(self.0), MCP_OK);
            match mcp_client_wait_open(self.0, WAIT) {
                MCP_OK => Ok(()),
                status => Err(last_failure(status)),
            }
        }
    }

    fn start(&self, tool: &str, arguments: &Value, options: &str) -> *mut mcp_call {
        let (tool, arguments, mut call) = (CString::new(tool).unwrap(), arguments.to_string(), null_mut());
        let status = unsafe {
            mcp_tool_call(
                self.0,
                tool.as_ptr(),
                arguments.as_ptr().cast(),
                arguments.len(),
                options.as_ptr().cast(),
                options.len(),
                &raw mut call,
            )
        };
        assert_eq!(status, MCP_OK);
        call
    }

    fn wait(&self, call: *mut mcp_call) -> Result<String, Failure> {
        let status = unsafe { mcp_call_wait(call, WAIT) };
        Self::outcome(status, call)
    }

    fn outcome(status: mcp_status, call: *mut mcp_call) -> Result<String, Failure> {
        unsafe {
            let (mut result, mut error) = (null_mut(), null_mut());
            let outcome = if status == MCP_OK {
                assert_eq!(mcp_call_result(call, &raw mut result), MCP_OK);
                let text = string(mcp_result_text(result, MCP_RESULT_TEXT, null_mut()));
                mcp_result_free(result);
                Ok(text.unwrap_or_default())
            } else {
                mcp_call_error(call, &raw mut error);
                Err(failure(status, error))
            };
            mcp_call_free(call);
            outcome
        }
    }

    fn run(&self, tool: &str, arguments: &Value) -> Result<String, Failure> {
        let (tool, arguments, mut call) = (CString::new(tool).unwrap(), arguments.to_string(), null_mut());
        let status = unsafe {
            mcp_tool_run(
                self.0,
                tool.as_ptr(),
                arguments.as_ptr().cast(),
                arguments.len(),
                std::ptr::null(),
                0,
                WAIT,
                &raw mut call,
            )
        };
        Self::outcome(status, call)
    }

    fn close(&self) {
        unsafe {
            mcp_client_close(self.0);
            assert_eq!(mcp_client_wait_closed(self.0, WAIT), MCP_OK);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
        unsafe { mcp_client_free(self.0) };
    }
}

fn server(args: &[&str]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stdio_server.py");
    let mut all = vec!["-S", "-E", script];
    all.extend(args);
    json!({"command": "python3", "args": all, "timeouts": {"close_ms": 10_000, "probe_ms": 60_000}})
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcpnative-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn counted(path: &std::path::Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.len())
}

#[test]
fn a_local_server_is_opened_called_and_closed() {
    let mut settings = server(&["a b", "$HOME"]);
    settings["env"] = json!({"EXTRA": "1"});
    settings["cwd"] = json!("/");
    let client = Client::open(&settings);
    let about: Value = serde_json::from_str(&client.run("about", &json!({})).unwrap()).unwrap();
    assert_eq!(about["args"], json!(["a b", "$HOME"]));
    assert_eq!((&about["env"]["EXTRA"], &about["cwd"]), (&json!("1"), &json!("/")));
    assert_eq!(about["blocked"], json!([]), "a child starts with a clean signal mask");
    assert!(about["env"].get("CARGO_MANIFEST_DIR").is_none(), "only safe names are inherited");
    assert_eq!(client.run("echo", &json!({"text": "ü\u{2028}\n"})).unwrap(), "ü\u{2028}\n");
    client.close();
    let pid = about["pid"].as_i64().unwrap();
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    drop(client);
    // The same as an entry of another host's configuration.
    let entry =
        json!({"server": {"command": "python3", "args": server(&[])["args"], "type": "stdio", "disabled": false}});
    assert_eq!(Client::open(&entry).run("echo", &json!({"text": "x"})).unwrap(), "x");
}

#[test]
fn sixty_four_calls_are_in_flight_over_one_child() {
    let client = Client::open(&server(&[]));
    let calls: Vec<_> =
        (0..64).map(|number| client.start("slow", &json!({"together": 64, "number": number}), "")).collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(client.wait(call).unwrap(), number.to_string());
    }
}

#[test]
fn br_01_a_flood_on_standard_error_holds_nothing_up_and_is_told_as_log_events() {
    let client = Client::new(&server(&[]));
    let (told, lines) = channel::<String>();
    let user = Box::into_raw(Box::new(told)).cast();
    assert_eq!(
        unsafe { mcp_client_on(client.0, MCP_EVENT_LOG_MESSAGE, Some(on_json), user, Some(end_sender)) },
        MCP_OK
    );
    client.up().unwrap();
    assert_eq!(client.run("stderr", &json!({"text": "first line\nsecond"})).unwrap(), "said");
    let first: Value = serde_json::from_str(&lines.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap();
    assert_eq!(first, json!({"level": "info", "logger": "stderr", "data": "first line"}));
    let flood = format!("{}\n", "x".repeat(79)).repeat(3277);
    assert_eq!(client.run("stderr", &json!({"text": flood})).unwrap(), "said");
    assert_eq!(client.run("stderr", &json!({"text": "y".repeat(4 << 20)})).unwrap(), "said");
}

unsafe extern "C" fn on_json(event: *mut mcp_event, user: *mut c_void) {
    let told = unsafe { &*user.cast::<Sender<String>>() };
    let text = unsafe { string(mcp_event_text(event, MCP_EVENT_TEXT_JSON, null_mut())) };
    told.send(text.unwrap_or_default()).unwrap_or_default();
}

unsafe extern "C" fn end_sender(user: *mut c_void) {
    drop(unsafe { Box::from_raw(user.cast::<Sender<String>>()) });
}

unsafe extern "C" fn on_log(_: i32, text: *const c_char, _: usize, user: *mut c_void) {
    let told = unsafe { &*user.cast::<Sender<String>>() };
    told.send(unsafe { string(text) }.unwrap_or_default()).unwrap_or_default();
}

#[test]
fn br_02_noise_on_standard_output_loses_itself_alone() {
    let (told, lines) = channel::<String>();
    let user = Box::into_raw(Box::new(told)).cast();
    assert_eq!(unsafe { mcp_log_on(null_mut(), MCP_LOG_WARN, Some(on_log), user, Some(end_sender)) }, MCP_OK);
    let client = Client::open(&server(&[]));
    assert_eq!(client.run("noise", &json!({})).unwrap(), "through the noise");
    let mut why = BTreeMap::new();
    for _ in 0..5 {
        let line = next_like(&lines, "passed over");
        *why.entry(line.rsplit(": ").next().unwrap().to_owned()).or_insert(0) += 1;
    }
    let want =
        [("it is JSON, but no object", 1), ("it is blank", 1), ("it is not JSON", 1), ("it is not valid UTF-8", 2)];
    assert_eq!(why, want.map(|(text, count)| (text.to_owned(), count)).into());
    // BR-12 (a): the number as a string is the same id, with a warning.
    assert_eq!(client.run("dressed", &json!({})).unwrap(), "dressed");
    next_like(&lines, "as a string");
    drop(client);
    unsafe { mcp_log_on(null_mut(), MCP_LOG_WARN, None, null_mut(), None) };
}

fn next_like(lines: &Receiver<String>, part: &str) -> String {
    loop {
        let line = lines.recv_timeout(Duration::from_secs(30)).expect(part);
        if line.contains(part) {
            return line;
        }
    }
}

#[test]
fn br_03_long_lines_arrive_whole_and_endless_ones_end_the_call() {
    let mut settings = server(&[]);
    settings["limits"] = json!({"stdio_line_bytes": 12 << 20});
    let client = Client::open(&settings);
    for size in [65_535, 65_536, 65_537, 1 << 20, 10 << 20] {
        let text = client.run("long", &json!({"size": size})).unwrap();
        assert!(text.len() > size - 200 && text.trim_end_matches('x').chars().all(|c| c == 'é'), "{size}");
    }
    let failure = client.run("endless", &json!({"mib": 100})).unwrap_err();
    assert_eq!(failure.status, MCP_E_TOO_LARGE);
    assert_eq!(failure.message, "a line is over the limit of 12582912 (option limits.stdio_line_bytes)");
    assert_eq!(client.run("echo", &json!({"text": "alive"})).unwrap(), "alive");
}

#[test]
fn br_06_a_server_that_always_ends_at_once_is_started_a_bounded_number_of_times() {
    let folder = scratch("bound");
    let counter = folder.join("starts");
    let mut settings = server(&["--die", counter.to_str().unwrap()]);
    settings["restart"] = json!({"max": 3, "backoff_ms": 1});
    let client = Client::new(&settings);
    for open in 0..6 {
        let failure = client.up().unwrap_err();
        assert_eq!(failure.status, MCP_E_CHILD_EXIT);
        assert_eq!((failure.exit_code, failure.stderr.as_deref()), (1, Some("no API key")), "{open}");
        assert!(failure.message.ends_with("exited with code 1; its last words: no API key"), "{}", failure.message);
        assert_eq!(failure.message.contains("too many restarts"), open >= 2, "{open}: {}", failure.message);
    }
    assert_eq!(counted(&counter), 4);
    drop(client);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn br_06_what_cannot_be_started_is_told_at_once() {
    for (command, want) in [
        ("/no/such/server", "the program `/no/such/server` does not exist"),
        ("no-such-server-here", "the program `no-such-server-here` is not on the PATH"),
        ("/dev/null", "the program `/dev/null` is no file"),
    ] {
        let failure = Client::new(&json!({"command": command})).up().unwrap_err();
        assert_eq!((failure.status, failure.message.as_str()), (MCP_E_CONNECT, want));
    }
}

#[test]
fn br_17_a_tool_that_was_lost_with_its_server_is_never_run_twice() {
    let folder = scratch("twice");
    let (counter, lists) = (folder.join("calls"), folder.join("lists"));
    let client = Client::open(&server(&["--lose-list", lists.to_str().unwrap()]));
    let failure = client.run("exit", &json!({"code": 7, "counter": counter})).unwrap_err();
    assert_eq!((failure.status, failure.exit_code), (MCP_E_OUTCOME_UNKNOWN, 7));
    assert_eq!(
        failure.message,
        "tools/call may or may not have run: the server's process exited with code 7; its last words: a last word"
    );
    assert_eq!(counted(&counter), 1);
    // The next request starts it again; a list whose server ended is asked for once more.
    assert_eq!(client.run("echo", &json!({"text": "again"})).unwrap(), "again");
    let mut list = null_mut();
    assert_eq!(unsafe { mcp_tool_list(client.0, WAIT, &raw mut list) }, MCP_OK);
    assert_eq!(unsafe { mcp_text_free(list) }, MCP_OK);
    assert_eq!(counted(&lists), 2);
    drop(client);
    std::fs::remove_dir_all(folder).unwrap();
}

/// The part of the next test that runs in a process of its own, where SIGPIPE has its deadly default.
fn write_to_a_deaf_server() {
    // SAFETY: the default disposition, in a process that runs nothing else.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let client = Client::open(&server(&[]));
    for number in 0..3 {
        assert_eq!(client.run("deaf", &json!({})).unwrap(), "deaf");
        // Nothing of it was taken, so even a tool call goes to a fresh server.
        let text = number.to_string();
        assert_eq!(client.run("echo", &json!({"text": text})).unwrap(), text);
    }
}

#[test]
fn br_06_a_write_to_a_server_that_hears_nothing_raises_no_signal_and_starts_it_again() {
    const MARK: &str = "MCP_TEST_DEAF";
    if std::env::var_os(MARK).is_some() {
        return write_to_a_deaf_server();
    }
    let name = "br_06_a_write_to_a_server_that_hears_nothing_raises_no_signal_and_starts_it_again";
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", name, "--nocapture"]).env(MARK, "1").output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_cancel_and_a_timeout_reach_the_server() {
    let client = Client::open(&server(&[]));
    let call = client.start("silent", &json!({}), "");
    // A call that goes by itself may leave after the next one.
    while client.run("silenced", &json!({})).unwrap() != "1" {}
    assert_eq!(unsafe { mcp_call_cancel(call) }, MCP_OK);
    assert_eq!(client.wait(call).unwrap_err().status, MCP_E_CANCELLED);
    let call = client.start("silent", &json!({}), r#"{"idle_ms":50}"#);
    assert_eq!(client.wait(call).unwrap_err().status, MCP_E_TIMEOUT);
    let cancelled: Vec<i64> = serde_json::from_str(&client.run("cancelled", &json!({})).unwrap()).unwrap();
    assert_eq!(cancelled.len(), 2, "{cancelled:?}");
}

#[test]
fn br_13_progress_for_nobody_is_passed_over() {
    let client = Client::new(&server(&[]));
    let (told, notes) = channel::<String>();
    let user = Box::into_raw(Box::new(told)).cast();
    assert_eq!(unsafe { mcp_client_on(client.0, MCP_EVENT_PROGRESS, Some(on_json), user, Some(end_sender)) }, MCP_OK);
    client.up().unwrap();
    assert_eq!(client.run("progress", &json!({})).unwrap(), "done");
    assert_eq!(client.run("echo", &json!({"text": "next"})).unwrap(), "next");
    client.close();
    let seen: Vec<Value> = notes.iter().map(|text| serde_json::from_str(&text).unwrap()).collect();
    assert!(seen.iter().all(|note| note["progressToken"] != "made up" && note["progress"] != 4), "{seen:?}");
    assert!(!seen.is_empty());
}

#[test]
fn br_07_many_rounds_leave_nothing_behind() {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let children = || {
        let listed =
            std::process::Command::new("ps").args(["--ppid", &std::process::id().to_string()]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.contains("<defunct>")).count()
    };
    for round in 0..20 {
        let client = Client::open(&server(&[]));
        assert_eq!(client.run("echo", &json!({"text": "x"})).unwrap(), "x");
        drop(client);
        if round == 0 {
            assert_eq!(children(), 0);
        }
    }
    assert_eq!(children(), 0);
    // Other tests of this program run beside: what 20 rounds would leave is more than they hold.
    assert!(count("/proc/self/fd") < 400);
}

/// A server that answers what it is asked, for a socket or a stream.
fn answer(line: &str) -> Option<String> {
    let request: Value = serde_json::from_str(line).unwrap();
    let result = match request["method"].as_str()? {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
        "tools/call" => {
            json!({"resultType": "complete", "content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]})
        }
        _ => return None,
    };
    Some(format!("{}\n", json!({"jsonrpc": "2.0", "id": request["id"], "result": result})))
}

#[test]
fn a_server_behind_a_unix_socket_is_reached_and_dialled_again() {
    let folder = scratch("socket");
    let path = folder.join("mcp server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = std::thread::spawn(move || {
        for most in [2, 100] {
            let connection = listener.accept().unwrap().0;
            let mut out = connection.try_clone().unwrap();
            for line in BufReader::new(connection).lines().take(most) {
                if let Some(text) = answer(&line.unwrap()) {
                    out.write_all(text.as_bytes()).unwrap();
                }
            }
        }
    });
    let url = format!("unix://{}", path.to_str().unwrap().replace(' ', "%20"));
    let client = Client::open(&json!({"url": url}));
    assert_eq!(client.run("echo", &json!({"text": "one"})).unwrap(), "one");
    // The server ended the connection after two requests: whoever comes too early learns it, the next one dials.
    let again = (0..50).find_map(|_| client.run("echo", &json!({"text": "two"})).ok());
    assert_eq!(again.as_deref(), Some("two"));
    client.close();
    serving.join().unwrap();
    let nobody = Client::new(&json!({"url": "unix:///no/such/socket"})).up().unwrap_err();
    assert_eq!(nobody.status, MCP_E_CONNECT);
    std::fs::remove_dir_all(folder).unwrap();
}

struct Wire {
    lines: Sender<String>,
    ended: Sender<&'static str>,
}

unsafe extern "C" fn wire_write(bytes: *const c_char, length: usize, user: *mut c_void) {
    let wire = unsafe { &*user.cast::<Wire>() };
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    wire.lines.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap_or_default();
}

unsafe extern "C" fn wire_close(user: *mut c_void) {
    unsafe { &*user.cast::<Wire>() }.ended.send("closed").unwrap_or_default();
}

unsafe extern "C" fn wire_end(user: *mut c_void) {
    let wire = unsafe { Box::from_raw(user.cast::<Wire>()) };
    wire.ended.send("destroyed").unwrap_or_default();
}

struct Stream(*mut mcp_stream);
// SAFETY: any function from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    fn new() -> (std::sync::Arc<Self>, Receiver<String>, Receiver<&'static str>) {
        let ((lines, heard), (ended, ends)) = (channel(), channel());
        let (user, mut stream) = (Box::into_raw(Box::new(Wire { lines, ended })).cast(), null_mut());
        let status =
            unsafe { mcp_stream_new(Some(wire_write), Some(wire_close), user, Some(wire_end), &raw mut stream) };
        assert_eq!(status, MCP_OK);
        (std::sync::Arc::new(Self(stream)), heard, ends)
    }

    fn feed(&self, bytes: &[u8]) -> mcp_status {
        unsafe { mcp_stream_feed(self.0, bytes.as_ptr().cast(), bytes.len()) }
    }
}

#[test]
fn the_hosts_own_stream_carries_a_session_from_end_to_end() {
    let (stream, heard, ends) = Stream::new();
    let client = Client::new(&json!({"url": "stream:mine"}));
    unsafe {
        assert_eq!(mcp_client_set_stream(client.0, stream.0), MCP_OK);
        assert_eq!(mcp_client_set_stream(client.0, stream.0), MCP_E_STATE);
    }
    // What comes before the opening is kept for it.
    assert_eq!(stream.feed(b"{\"method\":\"notifications/greeting\"}\n"), MCP_OK);
    let peer = stream.clone();
    let serving = std::thread::spawn(move || {
        for line in heard {
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
            // In pieces, as they come from a real channel.
            for piece in answer(&line).unwrap_or_default().as_bytes().chunks(7) {
                peer.feed(piece);
            }
        }
    });
    client.up().unwrap();
    assert_eq!(client.run("echo", &json!({"text": "é"})).unwrap(), "é");
    client.close();
    // Both have come when the close is over.
    assert_eq!(ends.try_iter().collect::<Vec<_>>(), ["closed", "destroyed"]);
    serving.join().unwrap();
    assert_eq!(stream.feed(b"late\n"), MCP_E_CLOSED);
    unsafe {
        assert_eq!(mcp_stream_end(stream.0, std::ptr::null(), 0), MCP_S_ALREADY_DONE);
        assert_eq!(mcp_stream_free(stream.0), MCP_OK);
        assert_eq!(mcp_stream_free(stream.0), MCP_E_HANDLE);
    }
}

#[test]
fn the_end_of_the_hosts_stream_ends_the_calls_with_its_words() {
    let (stream, heard, ends) = Stream::new();
    let client = Client::new(&json!({"url": "stream:mine"}));
    unsafe { assert_eq!(mcp_client_set_stream(client.0, stream.0), MCP_OK) };
    let peer = stream.clone();
    let serving = std::thread::spawn(move || {
        let discover = heard.recv().unwrap();
        peer.feed(answer(&discover).unwrap().as_bytes());
        drop(heard.recv().unwrap());
        let why = "the tunnel fell";
        unsafe { mcp_stream_end(peer.0, why.as_ptr().cast(), why.len()) }
    });
    client.up().unwrap();
    let failure = client.run("echo", &json!({"text": "x"})).unwrap_err();
    assert_eq!(failure.status, MCP_E_OUTCOME_UNKNOWN);
    assert!(failure.message.ends_with("the tunnel fell"), "{}", failure.message);
    assert_eq!(serving.join().unwrap(), MCP_OK);
    let failure = client.run("echo", &json!({"text": "x"})).unwrap_err();
    assert_eq!((failure.status, failure.message.as_str()), (MCP_E_CONNECT, "the host's stream is over"));
    client.close();
    // The host ended it, so it is not told to close.
    assert_eq!(ends.try_iter().collect::<Vec<_>>(), ["destroyed"]);
    unsafe { mcp_stream_free(stream.0) };
    let (unused, _heard, ends) = Stream::new();
    unsafe { mcp_stream_free(unused.0) };
    assert_eq!(ends.try_iter().collect::<Vec<_>>(), ["destroyed"]);
    let without = Client::new(&json!({"url": "stream:mine"})).up().unwrap_err();
    assert_eq!(without.message, "the client has no stream (mcp_client_set_stream)");
}
