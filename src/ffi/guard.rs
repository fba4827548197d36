//! What stands at every entry point: the fork check, the class of the call, the floating-point word, the net under
//! panics, and the last error of the thread.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::client::in_callback;
use crate::error::{Error, Kind, Result};
use crate::ffi::status::{MCP_OK, mcp_status};
use crate::os::{FpGuard, is_forked};

/// When a function may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Anywhere: it takes a short lock at most.
    Any,
    /// Not inside a callback: it may wait.
    Blocking,
}

macro_rules! functions {
    ($($name:ident: $class:ident,)*) => {
        /// Every exported function, named as in C.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function { $($name,)* }

        impl Function {
            /// The table of classes.
            fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }

        /// The table as text, for the tests that hold header and manual to it.
        #[cfg(test)]
        pub(super) const TABLE: &[(&str, Class)] = &[$((stringify!($name), Class::$class),)*];
    };
}

functions! {
    mcp_last_error: Any,
    mcp_shutdown: Blocking,
    mcp_log_on: Any,
    mcp_clock_hold: Any,
    mcp_clock_advance: Blocking,
    mcp_clock_release: Any,
    mcp_text_get: Any,
    mcp_text_free: Any,
    mcp_uri_template_expand: Any,
    mcp_error_text: Any,
    mcp_error_number: Any,
    mcp_error_free: Any,
    mcp_queue_new: Any,
    mcp_queue_dispatch: Blocking,
    mcp_queue_descriptor: Any,
    mcp_queue_wake: Any,
    mcp_queue_free: Any,
    mcp_client_new: Any,
    mcp_client_set_queue: Any,
    mcp_client_on: Any,
    mcp_client_open: Any,
    mcp_client_wait_open: Blocking,
    mcp_client_close: Any,
    mcp_client_wait_closed: Blocking,
    mcp_client_free: Any,
    mcp_client_state: Any,
    mcp_client_server: Any,
    mcp_client_notify: Blocking,
    mcp_client_poke: Any,
    mcp_client_stats: Any,
    mcp_client_number: Any,
    mcp_client_tasks: Any,
    mcp_client_check: Blocking,
    mcp_client_purge: Any,
    mcp_server_text: Any,
    mcp_server_free: Any,
    mcp_stream_new: Any,
    mcp_client_set_stream: Any,
    mcp_stream_feed: Any,
    mcp_stream_end: Any,
    mcp_stream_free: Any,
    mcp_tool_call: Any,
    mcp_tool_run: Blocking,
    mcp_tool_list: Blocking,
    mcp_call_start: Any,
    mcp_call_run: Blocking,
    mcp_call_wait: Blocking,
    mcp_call_cancel: Any,
    mcp_call_id: Any,
    mcp_call_status: Any,
    mcp_call_result: Any,
    mcp_call_error: Any,
    mcp_call_task: Any,
    mcp_call_inputs: Any,
    mcp_call_answer: Any,
    mcp_call_free: Any,
    mcp_result_text: Any,
    mcp_result_is_error: Any,
    mcp_result_block_count: Any,
    mcp_result_block_kind: Any,
    mcp_result_block_json: Any,
    mcp_result_block_text: Any,
    mcp_result_block_bytes: Any,
    mcp_result_free: Any,
    mcp_task_open: Any,
    mcp_task_get: Blocking,
    mcp_task_update: Blocking,
    mcp_task_cancel: Any,
    mcp_task_wait: Blocking,
    mcp_task_wait_many: Blocking,
    mcp_task_snapshot: Any,
    mcp_task_let_go: Any,
    mcp_task_acknowledge: Any,
    mcp_task_export: Any,
    mcp_task_import: Any,
    mcp_task_free: Any,
    mcp_snapshot_text: Any,
    mcp_snapshot_number: Any,
    mcp_snapshot_result: Any,
    mcp_snapshot_error: Any,
    mcp_snapshot_free: Any,
    mcp_event_kind: Any,
    mcp_event_text: Any,
    mcp_event_number: Any,
    mcp_event_call: Any,
    mcp_event_task: Any,
    mcp_event_snapshot: Any,
    mcp_event_input: Any,
    mcp_event_error: Any,
    mcp_event_keep: Any,
    mcp_event_free: Any,
    mcp_input_kind: Any,
    mcp_input_number: Any,
    mcp_input_text: Any,
    mcp_input_answer: Any,
    mcp_input_decline: Any,
    mcp_input_cancel: Any,
    mcp_input_fail: Any,
    mcp_input_free: Any,
}

thread_local! {
    static LAST: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// The last direct failure on this thread. None at the very end of a thread (exit handlers and static destructors of the
/// host run after it), where its place is gone already.
pub(super) fn last_error() -> Option<Error> {
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// Sets it; a callback's own failures must not be seen by the code around the callback.
pub(super) fn set_last_error(error: Option<Error>) -> Option<Error> {
    LAST.try_with(|last| last.replace(error)).ok().flatten()
}

/// Runs the body of an entry point; its status is the status of the call.
pub(super) fn status(function: Function, body: impl FnOnce() -> Result<mcp_status>) -> mcp_status {
    value(function, body, |status| status)
}

/// The same for a body that has nothing to add to "fine".
pub(super) fn fine(function: Function, body: impl FnOnce() -> Result<()>) -> mcp_status {
    value(function, || body().map(|()| MCP_OK), |status| status)
}

/// The same for a function that returns something else; `failed` makes it from a status.
pub(super) fn value<T>(
    function: Function,
    body: impl FnOnce() -> Result<T>,
    failed: impl FnOnce(mcp_status) -> T,
) -> T {
    // Before any lock: in a forked child a lock may be held by a thread that does not exist there.
    if is_forked() {
        return failed(Kind::Forked.status());
    }
    let word = FpGuard::enter();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        set_last_error(None);
        if function.class() == Class::Blocking && in_callback() {
            return Err(Error::new(Kind::Reentrant, format!("{function:?} may wait and was called inside a callback")));
        }
        body()
    }));
    let outcome = outcome.unwrap_or_else(|_| {
        let message = format!("a panic in {function:?} was caught; please report it");
        crate::client::log_error(&message);
        Err(Error::new(Kind::Panic, message))
    });
    drop(word);
    match outcome {
        Ok(value) => value,
        Err(error) => {
            let status = error.kind().status();
            set_last_error(Some(error));
            failed(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        let status = fine(Function::mcp_client_open, || panic!("planted"));
        assert_eq!(status, Kind::Panic.status());
        assert_eq!(last_error().unwrap().message(), "a panic in mcp_client_open was caught; please report it");
    }

    #[test]
    fn the_table_of_classes_is_the_header() {
        let header = include_str!("../../include/mcpnative.h");
        // Facts about the build: nothing in them can fail, wait or panic, so they stand outside the guard.
        let mut declared = 3;
        let pieces: Vec<&str> = header.split("\nMCP_API").collect();
        for (before, after) in pieces.iter().zip(pieces.iter().skip(1)) {
            let name = after.split('(').next().and_then(|text| text.split([' ', '*', '\n']).next_back()).unwrap();
            if ["mcp_abi_version", "mcp_version", "mcp_status_name"].contains(&name) {
                continue;
            }
            let (_, class) = TABLE.iter().find(|(known, _)| *known == name).expect(name);
            let comment = &before[before.rfind("/**").unwrap()..];
            let says_blocking = comment.contains("Blocks: up to");
            assert_eq!(says_blocking, *class == Class::Blocking, "{name}: the manual and the table disagree");
            declared += 1;
        }
        assert_eq!(declared, TABLE.len() + 3);
    }
}
