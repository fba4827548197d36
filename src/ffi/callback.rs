//! A function of the host's, its user data and its destructor, as one owner: the destructor runs once, after the last
//! call, also where registering failed.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::client::{Event, Handler, LogLevel, LogSink, as_callback};
use crate::ffi::event::mcp_event;
use crate::ffi::guard::set_last_error;
use crate::ffi::handle::{lend, take_back};

/// Takes an event. The event is borrowed for the call: mcp_event_keep() gives a handle of one's own. Runs on the thread
/// that serves the client's queue; must return normally: no exception, no longjmp, no end of the thread.
pub type mcp_event_fn = Option<unsafe extern "C" fn(event: *mut mcp_event, user: *mut c_void)>;

/// Ends user data: called once, after the last call of the function that it belongs to, also where registering that
/// function failed. It must not call the library.
pub type mcp_destroy_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// Takes a line of the library's log: UTF-8, NUL-terminated, without line feed and without secrets; valid for the call.
pub type mcp_log_fn =
    Option<unsafe extern "C" fn(level: i32, message: *const c_char, length: usize, user: *mut c_void)>;

/// The host's user data with its destructor.
pub(super) struct User {
    data: *mut c_void,
    destroy: mcp_destroy_fn,
}

// SAFETY: the library never looks into the user data; that it may be used on the queue's thread is the documented
// contract of registering a callback.
unsafe impl Send for User {}
// SAFETY: as above; the queue calls one function of a client at a time.
unsafe impl Sync for User {}

impl User {
    pub(super) fn new(data: *mut c_void, destroy: mcp_destroy_fn) -> Self {
        Self { data, destroy }
    }

    pub(super) fn data(&self) -> *mut c_void {
        self.data
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // Also where no delivery is under way (a registration that failed, a handler that was replaced), this is the
            // host's code, and runs as such.
            // SAFETY: the host's own function with the host's own data; `drop` runs once.
            as_callback(|| unsafe { destroy(self.data) });
        }
    }
}

/// A handler of events in C.
pub(super) struct EventCallback {
    function: unsafe extern "C" fn(*mut mcp_event, *mut c_void),
    user: User,
}

impl EventCallback {
    pub(super) fn new(function: unsafe extern "C" fn(*mut mcp_event, *mut c_void), user: User) -> Self {
        Self { function, user }
    }
}

impl Handler for EventCallback {
    fn handle(&self, event: &Arc<Event>) {
        let name = match lend(event.clone()) {
            Ok(name) => name,
            Err(error) => return crate::client::log_error(error.message()),
        };
        let outer = set_last_error(None);
        // SAFETY: the host's own function, with a handle that is alive until `take_back`, and the host's own data.
        unsafe { (self.function)(name, self.user.data) };
        set_last_error(outer);
        take_back::<Event>(name);
    }
}

/// A log hook in C.
pub(super) struct LogCallback {
    function: unsafe extern "C" fn(i32, *const c_char, usize, *mut c_void),
    user: User,
}

impl LogCallback {
    pub(super) fn new(function: unsafe extern "C" fn(i32, *const c_char, usize, *mut c_void), user: User) -> Self {
        Self { function, user }
    }
}

impl LogSink for LogCallback {
    fn line(&self, level: LogLevel, text: &str) {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend(text.bytes().filter(|byte| *byte != 0));
        let length = bytes.len();
        bytes.push(0);
        let outer = set_last_error(None);
        // SAFETY: the host's own function; the text is terminated and outlives the call.
        unsafe { (self.function)(level as i32, bytes.as_ptr().cast(), length, self.user.data) };
        set_last_error(outer);
    }
}
