//! A thin safe layer over the exported C functions, for the integration tests: what a careful C program would write.
//!
//! Handles are owned and freed when dropped, failures are values, events are recorded and waited for with a bound.
//! Nothing in here reaches around the C ABI.
#![allow(unsafe_code, reason = "the C functions are called as a C program calls them")]
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses a part")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: handles are owned, texts and outputs are locals"
)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use mcp_test_server::TestServer;
pub use mcp_test_server::{Script, json};
use mcpnative::clock::{Clock, SystemClock};
pub use mcpnative::ffi::status::*;
use mcpnative::ffi::{call, client, error, event, input, library, queue, result, server, snapshot, task, text_object};
pub use serde_json::Value;

/// Longer than anything here takes on a busy machine; a wait that fails takes so long, none that works does.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The same for the C functions.
pub const PATIENCE_MS: i64 = 60_000;

/// Milliseconds on the monotonic clock, for assertions on the early side.
pub fn now_ms() -> u128 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = *START.get_or_init(|| SystemClock.now());
    SystemClock.now().duration_since(start).as_millis()
}

/// Waits for something that nobody tells of; a test that waits in vain fails.
pub fn until(what: &str, done: impl Fn() -> bool) {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let deadline = now_ms() + PATIENCE.as_millis();
    while !done() {
        assert!(now_ms() < deadline, "waited in vain for {what}");
        let guard = lock.lock().expect("nobody else has it");
        drop(never.wait_timeout(guard, Duration::from_millis(2)).expect("nobody else has it"));
    }
}

// ---- failures ------------------------------------------------------------------------------------------------------

/// All that an `mcp_error` tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub status: i32,
    pub message: String,
    pub rpc_code: Option<i64>,
    pub rpc_message: Option<String>,
    pub rpc_data: Option<String>,
    pub http_status: Option<i64>,
    pub retry_safe: bool,
    pub retry_after_ms: Option<i64>,
    pub tool_result: Option<String>,
}

/// Boxed, as it travels in results.
pub type Failure = Box<Told>;

impl Told {
    fn take(raw: *mut error::mcp_error) -> Option<Failure> {
        if raw.is_null() {
            return None;
        }
        let text = |field| text_of(|length| unsafe { error::mcp_error_text(raw, field, length) });
        let number = |field| {
            let mut out = -1;
            match unsafe { error::mcp_error_number(raw, field, &mut out) } {
                MCP_OK => Some(out),
                MCP_S_NONE => None,
                other => panic!("mcp_error_number: {}", name_of(other)),
            }
        };
        let status = number(error::MCP_ERROR_STATUS).expect("an error has a status");
        let failure = Self {
            status: i32::try_from(status).expect("a status"),
            message: text(error::MCP_ERROR_MESSAGE).expect("an error has a message"),
            rpc_code: number(error::MCP_ERROR_RPC_CODE),
            rpc_message: text(error::MCP_ERROR_RPC_MESSAGE),
            rpc_data: text(error::MCP_ERROR_RPC_DATA),
            http_status: number(error::MCP_ERROR_HTTP_STATUS),
            retry_safe: number(error::MCP_ERROR_RETRY_SAFE) == Some(1),
            retry_after_ms: number(error::MCP_ERROR_RETRY_AFTER_MS),
            tool_result: text(error::MCP_ERROR_TOOL_RESULT),
        };
        assert_eq!(unsafe { error::mcp_error_free(raw) }, MCP_OK);
        assert!(!failure.message.contains(['\n', '\r']), "an error's message is one line: {failure:?}");
        Some(Box::new(failure))
    }

    /// The status's name, for messages.
    pub fn name(&self) -> String {
        name_of(self.status)
    }
}

pub fn name_of(status: i32) -> String {
    unsafe { CStr::from_ptr(library::mcp_status_name(status)) }.to_str().expect("ASCII").to_owned()
}

/// The error of this thread's last call.
pub fn last_error() -> Option<Failure> {
    let mut raw = null_mut();
    let status = unsafe { library::mcp_last_error(&mut raw) };
    assert!(matches!(status, MCP_OK | MCP_S_NONE));
    Told::take(raw)
}

/// A status of 0 or above, or the failure of this thread.
fn check(status: i32) -> Result<i32, Failure> {
    if status >= 0 {
        assert_eq!(last_error(), None, "a call that did not fail leaves no error");
        return Ok(status);
    }
    let failure = last_error().expect("a failure leaves an error");
    assert_eq!(failure.status, status, "{failure:?}");
    Err(failure)
}

fn text_of(read: impl FnOnce(*mut usize) -> *const c_char) -> Option<String> {
    let mut length = usize::MAX;
    let text = read(&mut length);
    if text.is_null() {
        return None;
    }
    // SAFETY: the ABI promises `length` bytes and a NUL behind them.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length + 1) };
    assert_eq!(bytes[length], 0, "a text ends with a NUL");
    Some(String::from_utf8(bytes[..length].to_vec()).expect("a text is UTF-8"))
}

pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|fault| panic!("{fault} in {text}"))
}

// ---- handles -------------------------------------------------------------------------------------------------------

macro_rules! handles {
    ($($name:ident: $raw:ty, $free:path;)*) => {$(
        /// An owned handle.
        pub struct $name(*mut $raw);
        // SAFETY: a handle is a key, and every function may be called from any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
        impl Drop for $name {
            fn drop(&mut self) {
                let status = unsafe { $free(self.0) };
                if !std::thread::panicking() {
                    assert_eq!(status, MCP_OK, concat!(stringify!($free), " of an owned handle"));
                }
            }
        }
        impl $name {
            /// The handle itself.
            pub fn raw(&self) -> *mut $raw {
                self.0
            }

            fn some(status: i32, raw: *mut $raw) -> Option<Self> {
                assert_eq!(raw.is_null(), status != MCP_OK, concat!(stringify!($name), ": {}"), name_of(status));
                (!raw.is_null()).then(|| Self(raw))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

handles! {
    Text: text_object::mcp_text, text_object::mcp_text_free;
    Answer: result::mcp_result, result::mcp_result_free;
    Snapshot: snapshot::mcp_snapshot, snapshot::mcp_snapshot_free;
    Task: task::mcp_task, task::mcp_task_free;
    Call: call::mcp_call, call::mcp_call_free;
    Input: input::mcp_input, input::mcp_input_free;
    Event: event::mcp_event, event::mcp_event_free;
    Server: server::mcp_server, server::mcp_server_free;
    Queue: queue::mcp_queue, queue::mcp_queue_free;
}

impl Text {
    pub fn get(&self) -> String {
        text_of(|length| unsafe { text_object::mcp_text_get(self.0, length) }).expect("a text has text")
    }

    pub fn json(&self) -> Value {
        parse(&self.get())
    }
}

impl Answer {
    /// The whole result, byte for byte.
    pub fn raw_json(&self) -> String {
        text_of(|length| unsafe { result::mcp_result_text(self.0, result::MCP_RESULT_JSON, length) }).expect("a result")
    }

    pub fn json(&self) -> Value {
        parse(&self.raw_json())
    }

    pub fn text(&self) -> Option<String> {
        text_of(|length| unsafe { result::mcp_result_text(self.0, result::MCP_RESULT_TEXT, length) })
    }

    pub fn structured(&self) -> Option<String> {
        text_of(|length| unsafe { result::mcp_result_text(self.0, result::MCP_RESULT_STRUCTURED, length) })
    }

    pub fn is_error(&self) -> bool {
        match unsafe { result::mcp_result_is_error(self.0) } {
            0 => false,
            1 => true,
            other => panic!("mcp_result_is_error: {other}"),
        }
    }

    pub fn blocks(&self) -> i32 {
        unsafe { result::mcp_result_block_count(self.0) }
    }

    pub fn block_kind(&self, index: i32) -> i32 {
        unsafe { result::mcp_result_block_kind(self.0, index) }
    }

    pub fn block_json(&self, index: i32) -> Option<String> {
        text_of(|length| unsafe { result::mcp_result_block_json(self.0, index, length) })
    }
}

pub use snapshot::{
    MCP_SNAPSHOT_CONTEXT, MCP_SNAPSHOT_CREATED_AT, MCP_SNAPSHOT_HISTORY, MCP_SNAPSHOT_IMMEDIATE_RESPONSE,
    MCP_SNAPSHOT_INPUTS, MCP_SNAPSHOT_JSON, MCP_SNAPSHOT_MESSAGE, MCP_SNAPSHOT_NEXT_POLL_MS, MCP_SNAPSHOT_OVERDUE,
    MCP_SNAPSHOT_POLL_INTERVAL_MS, MCP_SNAPSHOT_REASON, MCP_SNAPSHOT_REPEATED, MCP_SNAPSHOT_STATUS,
    MCP_SNAPSHOT_TASK_ID, MCP_SNAPSHOT_TOOL, MCP_SNAPSHOT_TOOL_CALL_ID, MCP_SNAPSHOT_TOOL_RESULT, MCP_SNAPSHOT_TTL_MS,
    MCP_SNAPSHOT_UPDATED_AT,
};

impl Snapshot {
    pub fn text(&self, field: i32) -> Option<String> {
        text_of(|length| unsafe { snapshot::mcp_snapshot_text(self.0, field, length) })
    }

    pub fn number(&self, field: i32) -> Option<i64> {
        let mut out = -1;
        match unsafe { snapshot::mcp_snapshot_number(self.0, field, &mut out) } {
            MCP_OK => Some(out),
            MCP_S_NONE => None,
            other => panic!("mcp_snapshot_number({field}): {}", name_of(other)),
        }
    }

    pub fn status(&self) -> &'static str {
        match self.number(MCP_SNAPSHOT_STATUS) {
            Some(1) => "working",
            Some(2) => "input_required",
            Some(3) => "completed",
            Some(4) => "failed",
            Some(5) => "cancelled",
            other => panic!("status {other:?}"),
        }
    }

    pub fn reason(&self) -> &'static str {
        match self.number(MCP_SNAPSHOT_REASON) {
            Some(0) => "none",
            Some(1) => "completed",
            Some(2) => "failed",
            Some(3) => "cancelled",
            Some(4) => "expired",
            Some(5) => "unknown",
            Some(6) => "closed",
            other => panic!("reason {other:?}"),
        }
    }

    pub fn message(&self) -> Option<String> {
        self.text(MCP_SNAPSHOT_MESSAGE)
    }

    pub fn inputs(&self) -> Value {
        parse(&self.text(MCP_SNAPSHOT_INPUTS).expect("a list of open questions"))
    }

    pub fn answer(&self) -> Option<Answer> {
        let mut raw = null_mut();
        let status = unsafe { snapshot::mcp_snapshot_result(self.0, &mut raw) };
        Answer::some(status, raw)
    }

    pub fn failure(&self) -> Option<Failure> {
        let mut raw = null_mut();
        let status = unsafe { snapshot::mcp_snapshot_error(self.0, &mut raw) };
        assert!(matches!(status, MCP_OK | MCP_S_NONE));
        Told::take(raw)
    }
}

pub use task::{MCP_WAIT_ALL, MCP_WAIT_ANY};

impl Task {
    pub fn snapshot(&self) -> Snapshot {
        let mut raw = null_mut();
        let status = unsafe { task::mcp_task_snapshot(self.0, &mut raw) };
        Snapshot::some(status, raw).expect("a snapshot")
    }

    pub fn id(&self) -> String {
        self.snapshot().text(MCP_SNAPSHOT_TASK_ID).expect("a task has an id")
    }

    /// `tasks/get`, once.
    pub fn get(&self) -> Result<Snapshot, Failure> {
        let mut raw = null_mut();
        let status = check(unsafe { task::mcp_task_get(self.0, PATIENCE_MS, &mut raw) })?;
        Ok(Snapshot::some(status, raw).expect("a snapshot"))
    }

    pub fn update(&self, responses: &Value) -> Result<i32, Failure> {
        let text = responses.to_string();
        check(unsafe { task::mcp_task_update(self.0, text.as_ptr().cast(), text.len(), PATIENCE_MS) })
    }

    pub fn cancel(&self) -> i32 {
        check(unsafe { task::mcp_task_cancel(self.0) }).expect("cancel")
    }

    pub fn let_go(&self) -> i32 {
        check(unsafe { task::mcp_task_let_go(self.0) }).expect("let go")
    }

    pub fn acknowledge(&self) -> Result<i32, Failure> {
        check(unsafe { task::mcp_task_acknowledge(self.0) })
    }

    /// What the ledger would keep of it.
    pub fn export(&self) -> String {
        let mut raw = null_mut();
        let status = unsafe { task::mcp_task_export(self.0, &mut raw) };
        Text::some(status, raw).expect("a record").get()
    }

    pub fn wait(&self, wait_ms: i64) -> (i32, Snapshot) {
        let mut raw = null_mut();
        let status = unsafe { task::mcp_task_wait(self.0, wait_ms, &mut raw) };
        assert!(!raw.is_null(), "mcp_task_wait: {}", name_of(status));
        (status, Snapshot(raw))
    }

    /// Any or all of them: the status, and the place in the list.
    pub fn wait_many(tasks: &[&Self], until: i32, wait_ms: i64) -> (i32, usize) {
        let (handles, mut place) = (tasks.iter().map(|task| task.0).collect::<Vec<_>>(), usize::MAX);
        let status =
            unsafe { task::mcp_task_wait_many(handles.as_ptr(), handles.len(), until, wait_ms, &raw mut place) };
        (status, place)
    }

    /// Its end.
    pub fn end(&self) -> Snapshot {
        let (status, snapshot) = self.wait(PATIENCE_MS);
        assert_eq!(status, MCP_OK, "{} {:?} {:?}", name_of(status), snapshot.message(), snapshot.failure());
        snapshot
    }
}

impl Call {
    pub fn id(&self) -> i64 {
        let id = unsafe { call::mcp_call_id(self.0) };
        assert!(id > 0);
        id
    }

    pub fn wait(&self, wait_ms: i64) -> Result<i32, Failure> {
        check(unsafe { call::mcp_call_wait(self.0, wait_ms) })
    }

    pub fn status(&self) -> i32 {
        unsafe { call::mcp_call_status(self.0) }
    }

    pub fn cancel(&self) -> i32 {
        unsafe { call::mcp_call_cancel(self.0) }
    }

    pub fn answer(&self) -> Option<Answer> {
        let mut raw = null_mut();
        let status = unsafe { call::mcp_call_result(self.0, &mut raw) };
        Answer::some(status, raw)
    }

    /// `mcp_call_result` as it stands: with MCP_E_SCHEMA there is a result as well.
    pub fn result(&self) -> (Result<i32, Failure>, Option<Answer>) {
        let mut raw = null_mut();
        let status = check(unsafe { call::mcp_call_result(self.0, &mut raw) });
        (status, (!raw.is_null()).then(|| Answer(raw)))
    }

    pub fn failure(&self) -> Option<Failure> {
        let mut raw = null_mut();
        let status = unsafe { call::mcp_call_error(self.0, &mut raw) };
        assert!(status >= 0, "{}", name_of(status));
        Told::take(raw)
    }

    pub fn task(&self) -> Option<Task> {
        let mut raw = null_mut();
        let status = unsafe { call::mcp_call_task(self.0, &mut raw) };
        Task::some(status, raw)
    }

    pub fn inputs(&self) -> Value {
        let mut raw = null_mut();
        let status = unsafe { call::mcp_call_inputs(self.0, &mut raw) };
        Text::some(status, raw).expect("a list").json()
    }

    pub fn reply(&self, responses: &Value) -> Result<i32, Failure> {
        let text = responses.to_string();
        check(unsafe { call::mcp_call_answer(self.0, text.as_ptr().cast(), text.len()) })
    }
}

impl Input {
    pub fn text(&self, field: i32) -> Option<String> {
        text_of(|length| unsafe { input::mcp_input_text(self.0, field, length) })
    }

    pub fn key(&self) -> String {
        self.text(input::MCP_INPUT_KEY).expect("a question has a key")
    }

    pub fn message(&self) -> Option<String> {
        self.text(input::MCP_INPUT_MESSAGE)
    }

    pub fn task_id(&self) -> Option<String> {
        self.text(input::MCP_INPUT_TASK_ID)
    }

    pub fn reply(&self, content: &Value) -> Result<i32, Failure> {
        let text = content.to_string();
        check(unsafe { input::mcp_input_answer(self.0, text.as_ptr().cast(), text.len()) })
    }

    /// True where an earlier process may have asked it already.
    pub fn repeated(&self) -> bool {
        let mut out = -1;
        assert_eq!(unsafe { input::mcp_input_number(self.0, input::MCP_INPUT_REPEATED, &mut out) }, MCP_OK);
        out == 1
    }

    pub fn decline(&self) -> Result<i32, Failure> {
        check(unsafe { input::mcp_input_decline(self.0) })
    }

    pub fn cancel(&self) -> Result<i32, Failure> {
        check(unsafe { input::mcp_input_cancel(self.0) })
    }

    pub fn fail(&self, why: &str) -> Result<i32, Failure> {
        let why = CString::new(why).expect("no NUL");
        check(unsafe { input::mcp_input_fail(self.0, why.as_ptr()) })
    }
}

pub use client::{
    MCP_EVENT_ANY, MCP_EVENT_CALL_DONE, MCP_EVENT_ELICITATION, MCP_EVENT_ERROR, MCP_EVENT_INPUT_WITHDRAWN,
    MCP_EVENT_LOG_MESSAGE, MCP_EVENT_NOTIFICATION, MCP_EVENT_PROGRESS, MCP_EVENT_ROOTS, MCP_EVENT_SAMPLING,
    MCP_EVENT_STATE, MCP_EVENT_SUBSCRIPTION, MCP_EVENT_TASK_CREATED, MCP_EVENT_TASK_DEGRADED, MCP_EVENT_TASK_DONE,
    MCP_EVENT_TASK_OVERDUE, MCP_EVENT_TASK_RECOVERED, MCP_EVENT_TASK_RESUMED, MCP_EVENT_TASK_STATUS,
};

impl Event {
    pub fn kind(&self) -> i32 {
        unsafe { event::mcp_event_kind(self.0) }
    }

    /// One word for a kind, to compare whole sequences.
    pub fn word(&self) -> &'static str {
        match self.kind() {
            MCP_EVENT_STATE => "state",
            MCP_EVENT_CALL_DONE => "call done",
            MCP_EVENT_PROGRESS => "progress",
            MCP_EVENT_LOG_MESSAGE => "log",
            MCP_EVENT_NOTIFICATION => "notification",
            MCP_EVENT_TASK_CREATED => "created",
            MCP_EVENT_TASK_STATUS => "status",
            MCP_EVENT_TASK_DONE => "done",
            MCP_EVENT_TASK_OVERDUE => "overdue",
            MCP_EVENT_TASK_DEGRADED => "degraded",
            MCP_EVENT_TASK_RECOVERED => "recovered",
            MCP_EVENT_ELICITATION => "elicitation",
            MCP_EVENT_SAMPLING => "sampling",
            MCP_EVENT_ROOTS => "roots",
            MCP_EVENT_INPUT_WITHDRAWN => "withdrawn",
            MCP_EVENT_ERROR => "error",
            MCP_EVENT_TASK_RESUMED => "resumed",
            MCP_EVENT_SUBSCRIPTION => "subscription",
            other => panic!("event {other}"),
        }
    }

    pub fn json(&self) -> Value {
        let text = text_of(|length| unsafe { event::mcp_event_text(self.0, event::MCP_EVENT_TEXT_JSON, length) });
        parse(&text.expect("an event with JSON"))
    }

    pub fn method(&self) -> Option<String> {
        text_of(|length| unsafe { event::mcp_event_text(self.0, event::MCP_EVENT_TEXT_METHOD, length) })
    }

    pub fn number(&self, field: i32) -> Option<i64> {
        let mut out = -1;
        match unsafe { event::mcp_event_number(self.0, field, &mut out) } {
            MCP_OK => Some(out),
            MCP_S_NONE => None,
            other => panic!("mcp_event_number({field}): {}", name_of(other)),
        }
    }

    pub fn call_id(&self) -> Option<i64> {
        self.number(event::MCP_EVENT_NUMBER_CALL_ID)
    }

    pub fn status(&self) -> Option<i64> {
        self.number(event::MCP_EVENT_NUMBER_STATUS)
    }

    /// One word for where a subscription stands.
    pub fn subscription(&self) -> &'static str {
        match self.number(event::MCP_EVENT_NUMBER_SUBSCRIPTION) {
            Some(1) => "active",
            Some(2) => "lost",
            Some(3) => "catch-up",
            Some(4) => "ended",
            other => panic!("subscription {other:?}"),
        }
    }

    pub fn call(&self) -> Option<Call> {
        let mut raw = null_mut();
        let status = unsafe { event::mcp_event_call(self.0, &mut raw) };
        Call::some(status, raw)
    }

    pub fn task(&self) -> Option<Task> {
        let mut raw = null_mut();
        let status = unsafe { event::mcp_event_task(self.0, &mut raw) };
        Task::some(status, raw)
    }

    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut raw = null_mut();
        let status = unsafe { event::mcp_event_snapshot(self.0, &mut raw) };
        Snapshot::some(status, raw)
    }

    pub fn input(&self) -> Option<Input> {
        let mut raw = null_mut();
        let status = unsafe { event::mcp_event_input(self.0, &mut raw) };
        Input::some(status, raw)
    }

    pub fn failure(&self) -> Option<Failure> {
        let mut raw = null_mut();
        let status = unsafe { event::mcp_event_error(self.0, &mut raw) };
        assert!(matches!(status, MCP_OK | MCP_S_NONE));
        Told::take(raw)
    }

    fn keep(raw: *mut event::mcp_event) -> Self {
        let mut kept = null_mut();
        let status = unsafe { event::mcp_event_keep(raw, &mut kept) };
        Self::some(status, kept).expect("an event can be kept")
    }
}

impl Server {
    pub fn text(&self, field: i32) -> Option<String> {
        text_of(|length| unsafe { server::mcp_server_text(self.0, field, length) })
    }
}

impl Queue {
    pub fn new() -> Self {
        let mut raw = null_mut();
        let status = unsafe { queue::mcp_queue_new(&mut raw) };
        Self::some(status, raw).expect("a queue")
    }

    pub fn dispatch(&self, wait_ms: i64) -> (i32, i32) {
        let mut count = -1;
        let status = unsafe { queue::mcp_queue_dispatch(self.0, wait_ms, &mut count) };
        (status, count)
    }
}

// ---- events --------------------------------------------------------------------------------------------------------

/// What was delivered so far, in order.
#[derive(Default)]
pub struct Recorder {
    events: Mutex<Vec<Arc<Event>>>,
    came: Condvar,
}

impl Recorder {
    pub fn add(&self, event: Event) {
        unpoisoned(self.events.lock()).push(Arc::new(event));
        self.came.notify_all();
    }

    pub fn all(&self) -> Vec<Arc<Event>> {
        unpoisoned(self.events.lock()).clone()
    }

    pub fn of(&self, kind: i32) -> Vec<Arc<Event>> {
        self.all().into_iter().filter(|event| event.kind() == kind).collect()
    }

    /// The kinds in order, without those named.
    pub fn words(&self, without: &[&str]) -> Vec<&'static str> {
        self.all().iter().map(|event| event.word()).filter(|word| !without.contains(word)).collect()
    }

    /// Waits until `done` holds; a test that waits in vain fails with what came instead.
    pub fn until(&self, what: &str, done: impl Fn(&[Arc<Event>]) -> bool) {
        let events = unpoisoned(self.events.lock());
        let (events, _) = unpoisoned(self.came.wait_timeout_while(events, PATIENCE, |events| !done(events)));
        let (came, words) = (done(&events), events.iter().map(|event| event.word()).collect::<Vec<_>>());
        drop(events);
        assert!(came, "waited in vain for {what}; there were {words:?}");
    }

    /// The `n`th event of a kind, from 1.
    pub fn nth(&self, kind: i32, n: usize) -> Arc<Event> {
        let of_kind = |events: &[Arc<Event>]| events.iter().filter(|event| event.kind() == kind).count();
        self.until(&format!("event {n} of kind {kind}"), |events| of_kind(events) >= n);
        self.of(kind)[n - 1].clone()
    }
}

/// A test that failed with a lock in its hands must not fail the others.
fn unpoisoned<T>(locked: std::sync::LockResult<T>) -> T {
    locked.unwrap_or_else(std::sync::PoisonError::into_inner)
}

type Handler = Box<dyn Fn(Event) + Send + Sync>;

unsafe extern "C" fn on_event(raw: *mut event::mcp_event, user: *mut c_void) {
    // SAFETY: `user` is the box that `Client::on` leaked, ended only by `end_handler`.
    let handler = unsafe { &*user.cast::<Handler>() };
    // A failed assertion is printed; what the test waits for then does not come.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler(Event::keep(raw))));
}

unsafe extern "C" fn end_handler(user: *mut c_void) {
    // SAFETY: called once, after the last event.
    drop(unsafe { Box::from_raw(user.cast::<Handler>()) });
}

// ---- the client ----------------------------------------------------------------------------------------------------

/// A client; closed, and waited for, when dropped.
pub struct Client {
    raw: *mut client::mcp_client,
    pub events: Arc<Recorder>,
    freed: std::sync::atomic::AtomicBool,
}

// SAFETY: a handle is a key, and every function may be called from any thread.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        if *self.freed.get_mut() {
            return;
        }
        self.close();
        let closed = self.wait_closed(PATIENCE_MS);
        self.free();
        if !std::thread::panicking() {
            assert_eq!(closed, MCP_OK, "the client closes");
        }
    }
}

/// The settings of a client of this server, with `more` over them.
pub fn settings(server: &TestServer, more: Value) -> Value {
    let mut all = json!({"url": server.url()});
    for (key, value) in more.as_object().expect("settings are an object") {
        all[key] = value.clone();
    }
    all
}

impl Client {
    /// `mcp_client_new` with any bytes.
    pub fn make(text: &[u8]) -> Result<Self, Failure> {
        let mut raw = null_mut();
        let status = unsafe { client::mcp_client_new(text.as_ptr().cast(), text.len(), &mut raw) };
        let made = check(status);
        assert_eq!(raw.is_null(), made.is_err());
        made.map(|_| Self { raw, events: Arc::default(), freed: false.into() })
    }

    pub fn new(settings: &Value) -> Self {
        Self::make(settings.to_string().as_bytes()).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// Records every event, opens, and waits until ready.
    pub fn ready(server: &TestServer, more: Value) -> Self {
        Self::recording(server, more, &[MCP_EVENT_ANY])
    }

    /// Records these kinds alone (a question's handler also declares the capability), opens, waits until ready.
    pub fn recording(server: &TestServer, more: Value, kinds: &[i32]) -> Self {
        let client = Self::new(&settings(server, more));
        client.record(kinds);
        client.open().expect("opens");
        client.wait_open().expect("gets ready");
        client
    }

    pub fn raw(&self) -> *mut client::mcp_client {
        self.raw
    }

    pub fn record(&self, kinds: &[i32]) {
        for kind in kinds {
            let events = self.events.clone();
            self.on(*kind, move |event| events.add(event));
        }
    }

    pub fn on(&self, kind: i32, handler: impl Fn(Event) + Send + Sync + 'static) {
        self.try_on(kind, handler).expect("a handler can be registered");
    }

    pub fn try_on(&self, kind: i32, handler: impl Fn(Event) + Send + Sync + 'static) -> Result<i32, Failure> {
        let boxed: Box<Handler> = Box::new(Box::new(handler));
        let user = Box::into_raw(boxed).cast();
        check(unsafe { client::mcp_client_on(self.raw, kind, Some(on_event), user, Some(end_handler)) })
    }

    pub fn set_queue(&self, queue: &Queue) {
        check(unsafe { client::mcp_client_set_queue(self.raw, queue.raw()) }).expect("a queue can be set");
    }

    pub fn open(&self) -> Result<i32, Failure> {
        check(unsafe { client::mcp_client_open(self.raw) })
    }

    pub fn wait_open(&self) -> Result<i32, Failure> {
        check(unsafe { client::mcp_client_wait_open(self.raw, PATIENCE_MS) })
    }

    pub fn close(&self) -> i32 {
        unsafe { client::mcp_client_close(self.raw) }
    }

    pub fn wait_closed(&self, wait_ms: i64) -> i32 {
        unsafe { client::mcp_client_wait_closed(self.raw, wait_ms) }
    }

    /// Gives up the name now; the drop leaves it alone then.
    pub fn free(&self) {
        if !self.freed.swap(true, std::sync::atomic::Ordering::SeqCst) {
            let _ = unsafe { client::mcp_client_free(self.raw) };
        }
    }

    pub fn state(&self) -> i32 {
        unsafe { client::mcp_client_state(self.raw) }
    }

    pub fn server(&self) -> Server {
        let mut raw = null_mut();
        let status = unsafe { client::mcp_client_server(self.raw, &mut raw) };
        Server::some(status, raw).expect("a client that is ready knows its server")
    }

    pub fn notify(&self, method: &str, params: &Value) -> Result<i32, Failure> {
        let (method, params) = (CString::new(method).expect("no NUL"), params.to_string());
        check(unsafe { client::mcp_client_notify(self.raw, method.as_ptr(), params.as_ptr().cast(), params.len()) })
    }

    pub fn poke(&self) {
        check(unsafe { client::mcp_client_poke(self.raw) }).expect("poke");
    }

    pub fn stats(&self) -> Value {
        let mut raw = null_mut();
        let status = unsafe { client::mcp_client_stats(self.raw, &mut raw) };
        Text::some(status, raw).expect("counters").json()
    }

    /// `mcp_client_number`.
    pub fn number(&self, field: i32) -> Result<i64, Failure> {
        let mut out = -1;
        check(unsafe { client::mcp_client_number(self.raw, field, &mut out) }).map(|_| out)
    }

    /// The generations of tools, prompts and resources.
    pub fn generations(&self) -> [i64; 3] {
        [
            client::MCP_CLIENT_TOOLS_GENERATION,
            client::MCP_CLIENT_PROMPTS_GENERATION,
            client::MCP_CLIENT_RESOURCES_GENERATION,
        ]
        .map(|field| self.number(field).expect("a generation"))
    }

    pub fn tasks(&self, filter: &str) -> Result<Value, Failure> {
        let mut raw = null_mut();
        let status = unsafe { client::mcp_client_tasks(self.raw, filter.as_ptr().cast(), filter.len(), &mut raw) };
        check(status).map(|status| Text::some(status, raw).expect("a list").json())
    }

    /// The chat loop's look.
    pub fn check(&self, filter: &str) -> Result<Value, Failure> {
        let mut raw = null_mut();
        let (text, length) = (filter.as_ptr().cast(), filter.len());
        let status = unsafe { client::mcp_client_check(self.raw, text, length, PATIENCE_MS, &mut raw) };
        check(status).map(|status| Text::some(status, raw).expect("a list").json())
    }

    pub fn open_task(&self, id: &str) -> Result<Task, Failure> {
        let (id, mut raw) = (CString::new(id).expect("no NUL"), null_mut());
        let status = unsafe { task::mcp_task_open(self.raw, id.as_ptr(), &mut raw) };
        check(status).map(|status| Task::some(status, raw).expect("a task"))
    }

    /// `mcp_task_import`.
    pub fn import(&self, record: &str) -> Result<Task, Failure> {
        let mut raw = null_mut();
        let status = unsafe { task::mcp_task_import(self.raw, record.as_ptr().cast(), record.len(), &mut raw) };
        check(status).map(|status| Task::some(status, raw).expect("a task"))
    }

    /// `mcp_client_purge`.
    pub fn purge(&self, age_ms: i64) -> Result<i64, Failure> {
        let mut count = -1;
        let status = unsafe { client::mcp_client_purge(self.raw, age_ms, &mut count) };
        check(status).map(|_| count)
    }

    /// `mcp_tool_call` with any bytes.
    pub fn tool_call_raw(&self, name: &[u8], arguments: &[u8], options: &[u8]) -> Result<Call, Failure> {
        let (name, mut raw) = (CString::new(name).expect("no NUL"), null_mut());
        let status = unsafe {
            call::mcp_tool_call(
                self.raw,
                name.as_ptr(),
                pointer(arguments),
                arguments.len(),
                pointer(options),
                options.len(),
                &mut raw,
            )
        };
        check(status).map(|status| Call::some(status, raw).expect("a call"))
    }

    /// Starts a tool call.
    pub fn start(&self, name: &str, arguments: Value, options: Value) -> Call {
        let (arguments, options) = (arguments.to_string(), options.to_string());
        self.tool_call_raw(name.as_bytes(), arguments.as_bytes(), options.as_bytes())
            .unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// `mcp_tool_run`: the status or the failure, and the call where there is one.
    pub fn tool_run(
        &self,
        name: &str,
        arguments: &str,
        options: &str,
        wait_ms: i64,
    ) -> (Result<i32, Failure>, Option<Call>) {
        let (name, mut raw) = (CString::new(name).expect("no NUL"), null_mut());
        let status = unsafe {
            call::mcp_tool_run(
                self.raw,
                name.as_ptr(),
                pointer(arguments.as_bytes()),
                arguments.len(),
                pointer(options.as_bytes()),
                options.len(),
                wait_ms,
                &mut raw,
            )
        };
        let call = (!raw.is_null()).then(|| Call(raw));
        (check(status), call)
    }

    /// Calls a tool and waits for its result, its task included.
    pub fn run(&self, name: &str, arguments: Value) -> Result<Answer, Failure> {
        let (ran, call) = self.tool_run(name, &arguments.to_string(), "", PATIENCE_MS);
        ran.map(|status| {
            assert_eq!(status, MCP_OK, "{}", name_of(status));
            call.expect("a call").answer().expect("a result")
        })
    }

    /// `mcp_call_run`.
    pub fn request_with(&self, method: &str, params: &str, options: &str) -> Result<Answer, Failure> {
        let (method, mut raw) = (CString::new(method).expect("no NUL"), null_mut());
        let status = unsafe {
            call::mcp_call_run(
                self.raw,
                method.as_ptr(),
                pointer(params.as_bytes()),
                params.len(),
                pointer(options.as_bytes()),
                options.len(),
                PATIENCE_MS,
                &mut raw,
            )
        };
        let call = (!raw.is_null()).then(|| Call(raw));
        check(status).map(|status| {
            assert_eq!(status, MCP_OK, "{}", name_of(status));
            call.expect("a call").answer().expect("a result")
        })
    }

    pub fn request(&self, method: &str, params: Value) -> Result<Answer, Failure> {
        self.request_with(method, &params.to_string(), "")
    }

    /// `mcp_call_start`.
    pub fn start_request(&self, method: &str, params: &str, options: &str) -> Result<Call, Failure> {
        let (method, mut raw) = (CString::new(method).expect("no NUL"), null_mut());
        let status = unsafe {
            call::mcp_call_start(
                self.raw,
                method.as_ptr(),
                pointer(params.as_bytes()),
                params.len(),
                pointer(options.as_bytes()),
                options.len(),
                &mut raw,
            )
        };
        check(status).map(|status| Call::some(status, raw).expect("a call"))
    }

    pub fn list_tools(&self) -> Result<Value, Failure> {
        let mut raw = null_mut();
        let status = unsafe { call::mcp_tool_list(self.raw, PATIENCE_MS, &mut raw) };
        check(status).map(|status| Text::some(status, raw).expect("a list").json())
    }

    /// Starts a subscription with this filter.
    pub fn subscribe(&self, filter: Value, options: &str) -> Call {
        let params = json!({"notifications": filter}).to_string();
        self.start_request("subscriptions/listen", &params, options).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> Result<Vec<String>, Failure> {
        let list = self.list_tools()?;
        let names = list["tools"].as_array().expect("an array").iter();
        Ok(names.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect())
    }

    /// The task that a tool call is answered with.
    pub fn task(&self, tool: &str, arguments: Value) -> Task {
        let call = self.start(tool, arguments, json!({}));
        assert_eq!(call.wait(PATIENCE_MS).map_err(|failure| panic!("{failure:?}")), Ok(MCP_S_TASK));
        call.task().expect("a task")
    }
}

fn pointer(bytes: &[u8]) -> *const c_char {
    if bytes.is_empty() { null() } else { bytes.as_ptr().cast() }
}

/// `mcp_uri_template_expand`.
pub fn expand(template: &str, variables: &str) -> Result<String, Failure> {
    let (template, mut raw) = (CString::new(template).expect("no NUL"), null_mut());
    let variables = variables.as_bytes();
    let status = unsafe {
        text_object::mcp_uri_template_expand(template.as_ptr(), pointer(variables), variables.len(), &mut raw)
    };
    check(status).map(|status| Text::some(status, raw).expect("a text").get())
}

// ---- the library's log ---------------------------------------------------------------------------------------------

/// The log of this test process; tests look for lines that only they cause.
#[derive(Default)]
pub struct Log {
    lines: Mutex<Vec<(i32, String)>>,
    came: Condvar,
}

unsafe extern "C" fn on_line(level: i32, message: *const c_char, length: usize, user: *mut c_void) {
    // SAFETY: `user` is a static, the message has `length` bytes.
    let (log, bytes) = unsafe { (&*user.cast::<Log>(), std::slice::from_raw_parts(message.cast::<u8>(), length)) };
    let line = String::from_utf8(bytes.to_vec()).expect("a line is UTF-8");
    log.lines.lock().expect("no test panics with it").push((level, line));
    log.came.notify_all();
}

/// The log, from its first call on, down to debug.
pub fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    static HOOK: OnceLock<()> = OnceLock::new();
    let log = LOG.get_or_init(Log::default);
    HOOK.get_or_init(|| {
        let user = std::ptr::from_ref(log).cast_mut().cast();
        let status = unsafe { library::mcp_log_on(null_mut(), library::MCP_LOG_DEBUG, Some(on_line), user, None) };
        assert_eq!(status, MCP_OK);
    });
    log
}

impl Log {
    /// Waits for a line with this in it.
    pub fn expect(&self, part: &str) -> String {
        let lines = self.lines.lock().expect("no test panics with it");
        let find =
            |lines: &[(i32, String)]| lines.iter().map(|(_, line)| line).find(|line| line.contains(part)).cloned();
        let (lines, _) = self
            .came
            .wait_timeout_while(lines, PATIENCE, |lines| find(lines).is_none())
            .expect("no test panics with it");
        find(&lines).unwrap_or_else(|| panic!("no log line has {part:?}: {lines:#?}"))
    }

    pub fn all(&self) -> Vec<String> {
        self.lines.lock().expect("no test panics with it").iter().map(|(_, line)| line.clone()).collect()
    }
}
