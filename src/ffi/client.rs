//! `mcp_client`: one server, from settings to close.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::client::chat::{Filter, check, pending};
use crate::client::{Client, EventKind, Handler, Queue, Settings, wait_from_ms};
use crate::error::{Error, Kind, Result};
use crate::ffi::callback::{EventCallback, User, mcp_destroy_fn, mcp_event_fn};
use crate::ffi::guard::{Function, fine, status, value};
use crate::ffi::handle::{free, get, put};
use crate::ffi::library::unknown_field;
use crate::ffi::queue::mcp_queue;
use crate::ffi::server::mcp_server;
use crate::ffi::status::{MCP_OK, MCP_S_ALREADY_DONE, MCP_S_TIMEOUT, mcp_status};
use crate::ffi::text::{name_in, out, text_in};
use crate::ffi::text_object::mcp_text;
use crate::protocol::method::ListKind;

/// A client of one server.
pub struct mcp_client {
    _private: [u8; 0],
}

/// State of a client: made, not opened.
pub const MCP_STATE_NEW: i32 = 0;
/// State of a client: the server is being asked who it is.
pub const MCP_STATE_OPENING: i32 = 1;
/// State of a client: calls are answered.
pub const MCP_STATE_READY: i32 = 2;
/// State of a client: the end has begun.
pub const MCP_STATE_CLOSING: i32 = 3;
/// State of a client: over.
pub const MCP_STATE_CLOSED: i32 = 4;
/// State of a client: opening failed; it may be tried again.
pub const MCP_STATE_FAILED: i32 = 5;

/// For mcp_client_on() alone: every kind that has no handler of its own.
pub const MCP_EVENT_ANY: i32 = 0;
/// The client's state changed: number STATE; error where it FAILED.
pub const MCP_EVENT_STATE: i32 = 1;
/// A call is over: call, number CALL_ID and STATUS; error where it failed; task where it was answered with one. Not for
/// calls made by mcp_tool_run() and mcp_call_run(), whose caller has the end in hand; their other events come all the same.
pub const MCP_EVENT_CALL_DONE: i32 = 2;
/// A call makes progress: call, number CALL_ID, text JSON (params of notifications/progress).
pub const MCP_EVENT_PROGRESS: i32 = 3;
/// The server logs: text JSON (params of notifications/message), number CALL_ID.
pub const MCP_EVENT_LOG_MESSAGE: i32 = 4;
/// Another notification of the server's: text METHOD and JSON (params).
pub const MCP_EVENT_NOTIFICATION: i32 = 5;
/// A task exists and is in the ledger: task, snapshot, number CALL_ID. Comes before the MCP_EVENT_CALL_DONE of its call.
pub const MCP_EVENT_TASK_CREATED: i32 = 6;
/// A task's status, message or open questions changed: task, snapshot.
pub const MCP_EVENT_TASK_STATUS: i32 = 7;
/// A task ended; the one terminal event of it: task, snapshot with its REASON.
pub const MCP_EVENT_TASK_DONE: i32 = 8;
/// A task's time to live has passed; it is followed on: task, snapshot.
pub const MCP_EVENT_TASK_OVERDUE: i32 = 9;
/// A task's polls fail; it is followed on: task, snapshot, error.
pub const MCP_EVENT_TASK_DEGRADED: i32 = 10;
/// A task's polls answer again: task, snapshot.
pub const MCP_EVENT_TASK_RECOVERED: i32 = 11;
/// The server asks the user (elicitation): input; task or call, or neither (a legacy server).
pub const MCP_EVENT_ELICITATION: i32 = 12;
/// The server asks the host's model (sampling): input; task or call, or neither (a legacy server).
pub const MCP_EVENT_SAMPLING: i32 = 13;
/// The server asks for the host's roots: input; task or call, or neither (a legacy server).
pub const MCP_EVENT_ROOTS: i32 = 14;
/// A question needs no answer any more: input; task or call.
pub const MCP_EVENT_INPUT_WITHDRAWN: i32 = 15;
/// Something failed that no call can report: error; task and snapshot where it is about one.
pub const MCP_EVENT_ERROR: i32 = 16;
/// A task of an earlier process, or one named by its id, is followed from now on: task, snapshot. Where the ledger holds
/// its end already, MCP_EVENT_TASK_DONE follows at once, with a snapshot that is REPEATED.
pub const MCP_EVENT_TASK_RESUMED: i32 = 17;
/// A subscription (mcp_call_start() of subscriptions/listen) stands elsewhere now: call, number CALL_ID and SUBSCRIPTION.
pub const MCP_EVENT_SUBSCRIPTION: i32 = 18;

/// State of a subscription: the server acknowledged it; text JSON is the filter that it granted, maybe less than you asked.
pub const MCP_SUBSCRIPTION_ACTIVE: i32 = 1;
/// State of a subscription: its stream is gone: error; it is opened again in text JSON's retry_ms.
pub const MCP_SUBSCRIPTION_LOST: i32 = 2;
/// State of a subscription: active again (text JSON as with ACTIVE), after a gap: look again at what you follow.
pub const MCP_SUBSCRIPTION_CATCH_UP: i32 = 3;
/// State of a subscription: over, by its server, by its error, or by you; MCP_EVENT_CALL_DONE follows.
pub const MCP_SUBSCRIPTION_ENDED: i32 = 4;

/// Number of a client: the generation of the server's list of tools, from 1.
pub const MCP_CLIENT_TOOLS_GENERATION: i32 = 1;
/// Number of a client: the generation of its list of prompts.
pub const MCP_CLIENT_PROMPTS_GENERATION: i32 = 2;
/// Number of a client: the generation of its lists of resources and resource templates.
pub const MCP_CLIENT_RESOURCES_GENERATION: i32 = 3;

/// Make a client from its settings. Checks everything and touches nothing: no network, no thread.
///
/// The settings are a JSON object; see "Settings" at the top of this header. It is read strictly.
///
/// @param settings  UTF-8 JSON; copied
/// @param length    its length in bytes
/// @param out       receives the client; not NULL
/// @return MCP_OK; MCP_E_ARGUMENT naming what is wrong; MCP_E_UNSUPPORTED for what this version cannot do
/// Ownership: free *out with mcp_client_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_new(
    settings: *const c_char,
    length: usize,
    out: *mut *mut mcp_client,
) -> mcp_status {
    fine(Function::mcp_client_new, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        // SAFETY: NULL or readable for `length` bytes, by the contract of this function.
        let settings = unsafe { text_in(settings, length, "settings") }?;
        *out = put(Client::new(Settings::read(settings)?)?)?;
        Ok(())
    })
}

/// Give a client's events to a manual queue. Without it, a thread of the library delivers them.
///
/// @param client  a client that was never opened
/// @param queue   a queue handle; the client keeps what it needs of it
/// @return MCP_OK, MCP_E_STATE after opening
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_set_queue(client: *mut mcp_client, queue: *mut mcp_queue) -> mcp_status {
    fine(Function::mcp_client_set_queue, || {
        let queue = get::<Queue>(queue)?.object.clone();
        get::<Client>(client)?.object.set_queue(queue)
    })
}

/// Register the handler of a kind of events; a second one takes the place of the first.
///
/// @param client   a client that was never opened
/// @param kind     MCP_EVENT_...; MCP_EVENT_ANY for every kind without a handler of its own
/// @param fn       the handler, or NULL to remove it
/// @param user     handed to the handler, or NULL
/// @param destroy  ends `user` once, after the last delivery, also where registering failed; or NULL
/// @return MCP_OK, MCP_E_ARGUMENT for an unknown kind, MCP_E_STATE after opening
/// Ownership: `user` is the library's until `destroy` runs.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_on(
    client: *mut mcp_client,
    kind: i32,
    r#fn: mcp_event_fn,
    user: *mut c_void,
    destroy: mcp_destroy_fn,
) -> mcp_status {
    // From here on, whatever happens, the destructor runs once.
    let user = User::new(user, destroy);
    fine(Function::mcp_client_on, || {
        let known = EventKind::of_number(kind);
        if known.is_none() && kind != MCP_EVENT_ANY {
            return Err(Error::new(Kind::Argument, format!("kind: {kind} is no kind of event")));
        }
        let handler = r#fn.map(|function| Arc::new(EventCallback::new(function, user)) as Arc<dyn Handler>);
        get::<Client>(client)?.object.on(known, handler)
    })
}

/// Start opening a client: ask the server who it is and what it can do (server/discover; spec: server/discover).
///
/// The state goes to OPENING, then to READY or FAILED, each with an event. Calls may be started at once: they wait for
/// the opening within their own time limit. A client that FAILED may be opened again.
///
/// @param client  a client handle
/// @return MCP_OK, MCP_E_STATE where it is open, MCP_E_CLOSED
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_open(client: *mut mcp_client) -> mcp_status {
    fine(Function::mcp_client_open, || get::<Client>(client)?.object.open())
}

/// Wait until a client is ready.
///
/// @param client   a client handle
/// @param wait_ms  how long, in ms; -1 without limit
/// @return MCP_OK when it is READY, MCP_S_TIMEOUT, else the error that opening ended with
/// Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_wait_open(client: *mut mcp_client, wait_ms: i64) -> mcp_status {
    status(Function::mcp_client_wait_open, || {
        let client = get::<Client>(client)?.object.clone();
        match client.wait_open(wait_from_ms(client.clock().as_ref(), wait_ms), None) {
            Some(opened) => opened.map(|()| MCP_OK),
            None => Ok(MCP_S_TIMEOUT),
        }
    })
}

/// Begin the end of a client.
///
/// Calls under way end with MCP_E_CLOSED; its tasks end here with the reason CLOSED and go on at the server. The last
/// event says MCP_STATE_CLOSED; after it the destructors of the handlers run.
///
/// @param client  a client handle
/// @return MCP_OK, MCP_S_ALREADY_DONE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_close(client: *mut mcp_client) -> mcp_status {
    status(Function::mcp_client_close, || {
        let closed = get::<Client>(client)?.object.close();
        Ok(if closed { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Wait for the end of a client that was told to close.
///
/// It does not close by itself: call mcp_client_close() first, or another thread must.
///
/// @param client   a client handle
/// @param wait_ms  how long, in ms; -1 without limit
/// @return MCP_OK only after the last callback has returned and the last destructor has run; MCP_S_TIMEOUT
/// Threads: any; not while holding a lock that a callback needs.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_wait_closed(client: *mut mcp_client, wait_ms: i64) -> mcp_status {
    status(Function::mcp_client_wait_closed, || {
        let client = get::<Client>(client)?.object.clone();
        let closed = client.wait_closed(wait_from_ms(client.clock().as_ref(), wait_ms));
        Ok(if closed { MCP_OK } else { MCP_S_TIMEOUT })
    })
}

/// Give up a client's name. It is closed if it was not. Inside a callback of its own, that callback becomes the last but
/// for the closing ones.
///
/// @param client  a client handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_free(client: *mut mcp_client) -> mcp_status {
    status(Function::mcp_client_free, || {
        if let Some(held) = free::<Client>(client)? {
            held.object.close();
        }
        Ok(MCP_OK)
    })
}

/// The state of a client.
///
/// @param client  a client handle
/// @return MCP_STATE_..., or a negative status
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_state(client: *mut mcp_client) -> i32 {
    value(Function::mcp_client_state, || Ok(get::<Client>(client)?.object.state() as i32), |status| status)
}

/// Hand out what the server said of itself.
///
/// @param client  a client handle
/// @param out     receives an immutable object of your own; not NULL
/// @return MCP_OK, MCP_E_STATE before the client was READY for the first time
/// Ownership: free *out with mcp_server_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_server(client: *mut mcp_client, out: *mut *mut mcp_server) -> mcp_status {
    fine(Function::mcp_client_server, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        *out = put(get::<Client>(client)?.object.facts()?)?;
        Ok(())
    })
}

/// Send a notification, on this thread.
///
/// The 2026-07-28 revision defines none over HTTP; there, this is for extensions. notifications/roots/list_changed goes to
/// a legacy server that was told of roots, and is MCP_E_UNSUPPORTED otherwise: a modern server asks anew.
///
/// @param client         a client that is open
/// @param method         its method, NUL-terminated
/// @param params         a JSON object, may have a _meta; NULL with length 0 is {}
/// @param params_length  its length in bytes
/// @return MCP_OK once the server has accepted it; else the error
/// Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to the time limits of the settings.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_notify(
    client: *mut mcp_client,
    method: *const c_char,
    params: *const c_char,
    params_length: usize,
) -> mcp_status {
    fine(Function::mcp_client_notify, || {
        // SAFETY: NULL or terminated, by the contract of this function.
        let method = unsafe { name_in(method, "method") }?;
        if method.is_empty() {
            return Err(Error::new(Kind::Argument, "method is empty"));
        }
        // SAFETY: NULL or readable for its length, by the contract of this function.
        let params = unsafe { text_in(params, params_length, "params") }?;
        get::<Client>(client)?.object.notify(method, if params.is_empty() { "{}" } else { params })
    })
}

/// Hint that the network came back or the machine woke: polls that are due or failing are made now, spread over a few
/// seconds.
///
/// @param client  a client handle
/// @return MCP_OK, MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_poke(client: *mut mcp_client) -> mcp_status {
    fine(Function::mcp_client_poke, || {
        get::<Client>(client)?.object.poke();
        Ok(())
    })
}

/// Hand out a client's counters, as a JSON object: calls_in_flight, tasks, events_queued, events_delivered,
/// events_coalesced, events_dropped, cache_entries, cache_bytes, cache_hits. Members may be added.
///
/// @param client  a client handle
/// @param out     receives a text of your own; not NULL
/// @return MCP_OK, MCP_E_HANDLE
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_stats(client: *mut mcp_client, out: *mut *mut mcp_text) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { text_out(Function::mcp_client_stats, out, || Ok(get::<Client>(client)?.object.stats())) }
}

/// Read a number of a client. Asks nobody.
///
/// The three generations grow whenever the server's list is known to have changed: it said so, a listed tool was refused
/// as none, a new session began, or a page differs from what it was. A host that turned the tools into definitions for
/// its model reads the number before it lists them; where it is another one later, the work is to be done again.
///
/// @param client  a client handle
/// @param field   MCP_CLIENT_...
/// @param out     receives the number; not NULL
/// @return MCP_OK, MCP_E_ARGUMENT for an unknown field
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_number(client: *mut mcp_client, field: i32, out: *mut i64) -> mcp_status {
    fine(Function::mcp_client_number, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, 0) }?;
        let client = get::<Client>(client)?.object.clone();
        let kind = match field {
            MCP_CLIENT_TOOLS_GENERATION => ListKind::Tools,
            MCP_CLIENT_PROMPTS_GENERATION => ListKind::Prompts,
            MCP_CLIENT_RESOURCES_GENERATION => ListKind::Resources,
            other => return Err(unknown_field(other)),
        };
        *out = i64::try_from(client.generation(kind)).unwrap_or(i64::MAX);
        Ok(())
    })
}

/// Hand out the tasks of a client that have not ended, as a JSON array of objects: task_id, tool, tool_call_id, context,
/// status, status_message, created_at, last_updated_at, ttl_ms (-1: no limit), poll_interval_ms, next_poll_ms (from now),
/// overdue, input_keys, result (what the server offers for the model until then). What is not known is null. Members may
/// be added.
///
/// @param client         a client handle
/// @param filter         NULL with length 0 for all, or {"tool_call_id": "...", "context": {...}}: the tasks of that call, and
///                       those whose context has these members with these values, e.g. a conversation's id
/// @param filter_length  its length in bytes
/// @param out            receives a text of your own; not NULL
/// @return MCP_OK, MCP_E_ARGUMENT naming what is wrong
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_tasks(
    client: *mut mcp_client,
    filter: *const c_char,
    filter_length: usize,
    out: *mut *mut mcp_text,
) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe {
        text_out(Function::mcp_client_tasks, out, || {
            let filter = Filter::read(text_in(filter, filter_length, "filter")?)?;
            Ok(pending(&get::<Client>(client)?.object, &filter))
        })
    }
}

/// For a chat loop: poll each task that is due once, on this thread, and hand out what has ended since the last check.
///
/// A JSON array of objects: task_id, tool, tool_call_id, context, status, reason, result. `reason` is
/// completed, failed, cancelled, expired or unknown, `status` completed, failed or cancelled. `result` is always a tool
/// result: the tool's own, or one with isError and a text that says how the task ended, so that no conversation sticks.
///
/// @param client         a client that is open
/// @param filter         NULL with length 0 for all, or {"tool_call_id": "...", "context": {...}}: the tasks of that call, and
///                       those whose context has these members with these values, e.g. a conversation's id
/// @param filter_length  its length in bytes
/// @param wait_ms        the limit for the polls, in ms; -1 for those of the settings
/// @param out            receives a text of your own; not NULL
/// @return MCP_OK, MCP_E_ARGUMENT naming what is wrong, MCP_E_CLOSED
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_check(
    client: *mut mcp_client,
    filter: *const c_char,
    filter_length: usize,
    wait_ms: i64,
    out: *mut *mut mcp_text,
) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe {
        text_out(Function::mcp_client_check, out, || {
            let filter = Filter::read(text_in(filter, filter_length, "filter")?)?;
            let client = get::<Client>(client)?.object.clone();
            let deadline = wait_from_ms(client.clock().as_ref(), wait_ms);
            check(&client, &filter, deadline)
        })
    }
}

/// Take the records of ended tasks of this client's server out of the ledger, acknowledged or not. Older ones go by
/// themselves (tasks.ledger: keep_ended, keep_ms). A task that has not ended stays: see mcp_task_let_go().
///
/// @param client  a client that is open
/// @param age_ms  those that ended at least so long ago, in ms; 0 for all
/// @param count   receives how many, or NULL
/// @return MCP_OK, MCP_E_ARGUMENT, MCP_E_STATE, MCP_E_LEDGER
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_purge(client: *mut mcp_client, age_ms: i64, count: *mut i64) -> mcp_status {
    fine(Function::mcp_client_purge, || {
        let mut unwanted = 0;
        // SAFETY: not NULL by the choice; writable by the contract of this function.
        let count = unsafe { self::out(if count.is_null() { &raw mut unwanted } else { count }, 0) }?;
        let age = u64::try_from(age_ms).map_err(|_| Error::new(Kind::Argument, "age_ms is negative"))?;
        let gone = get::<Client>(client)?.object.purge(std::time::Duration::from_millis(age))?;
        *count = i64::try_from(gone).unwrap_or(i64::MAX);
        Ok(())
    })
}

/// Hands out a text that `make` makes.
///
/// # Safety
/// `out` is NULL or may be written.
pub(super) unsafe fn text_out(
    function: Function,
    out: *mut *mut mcp_text,
    make: impl FnOnce() -> Result<String>,
) -> mcp_status {
    fine(function, || {
        // SAFETY: NULL or writable, by the contract of the caller.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        *out = put(Arc::new(make()?))?;
        Ok(())
    })
}
