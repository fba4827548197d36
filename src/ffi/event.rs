//! `mcp_event`: what the host is told.

use std::ffi::c_char;
use std::sync::Arc;

use crate::client::{Event, EventKind};
use crate::error::Result;
use crate::ffi::call::{end_status, mcp_call, put_some};
use crate::ffi::error::{mcp_error, put_number};
use crate::ffi::guard::{Function, fine, status, value};
use crate::ffi::handle::{Named, free, get, put};
use crate::ffi::input::mcp_input;
use crate::ffi::library::{text_of, unknown_field};
use crate::ffi::snapshot::mcp_snapshot;
use crate::ffi::status::mcp_status;
use crate::ffi::task::mcp_task;
use crate::ffi::text::out;

/// An event, immutable. The one that a callback gets is borrowed for the callback.
pub struct mcp_event {
    _private: [u8; 0],
}

/// Text field: the params of a notification, as JSON; of a MCP_EVENT_SUBSCRIPTION what its state says.
pub const MCP_EVENT_TEXT_JSON: i32 = 1;
/// Text field: the method of a notification.
pub const MCP_EVENT_TEXT_METHOD: i32 = 2;

/// Number field: the id of the call that it is about.
pub const MCP_EVENT_NUMBER_CALL_ID: i32 = 1;
/// Number field: the client's new state, MCP_STATE_...
pub const MCP_EVENT_NUMBER_STATE: i32 = 2;
/// Number field: the mcp_status that a call ended with.
pub const MCP_EVENT_NUMBER_STATUS: i32 = 3;
/// Number field: where a subscription stands now, MCP_SUBSCRIPTION_...
pub const MCP_EVENT_NUMBER_SUBSCRIPTION: i32 = 4;

/// The kind of an event.
///
/// @param event  an event handle
/// @return MCP_EVENT_..., or a negative status
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_kind(event: *const mcp_event) -> i32 {
    value(Function::mcp_event_kind, || Ok(get::<Event>(event)?.object.kind as i32), |status| status)
}

/// Read a text of an event.
///
/// @param event   an event handle
/// @param field   MCP_EVENT_TEXT_JSON or MCP_EVENT_TEXT_METHOD
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
/// Ownership: the event's: until the callback returns, or mcp_event_free() of a kept one.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_text(event: *const mcp_event, field: i32, length: *mut usize) -> *const c_char {
    let read = |event: &Event, field| match field {
        MCP_EVENT_TEXT_JSON => Ok(event.json.as_ref().map(|json| json.text().to_owned())),
        MCP_EVENT_TEXT_METHOD => Ok(event.method.clone()),
        other => Err(unknown_field(other)),
    };
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_event_text, event, (field, 0), length, read) }
}

/// Read a number of an event.
///
/// @param event  an event handle
/// @param field  MCP_EVENT_NUMBER_...
/// @param out    receives the number; not NULL
/// @return MCP_OK, MCP_S_NONE where there is none (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_number(event: *const mcp_event, field: i32, out: *mut i64) -> mcp_status {
    status(Function::mcp_event_number, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, 0) }?;
        let event = get::<Event>(event)?.object.clone();
        let ended = || event.call.as_ref().filter(|_| event.kind == EventKind::CallDone)?.end();
        let number = match field {
            MCP_EVENT_NUMBER_CALL_ID => event.call_id,
            MCP_EVENT_NUMBER_STATE => event.state.map(|state| i64::from(state as i32)),
            MCP_EVENT_NUMBER_SUBSCRIPTION => event.subscription.map(|state| i64::from(state as i32)),
            MCP_EVENT_NUMBER_STATUS => ended().map(|end| i64::from(end_status(&end))),
            other => return Err(unknown_field(other)),
        };
        Ok(put_number(out, number))
    })
}

/// Hand out the call that an event is about.
///
/// @param event  an event handle
/// @param out    receives a handle of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_call_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_call(event: *const mcp_event, out: *mut *mut mcp_call) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { part(Function::mcp_event_call, event, out, |event| event.call.clone()) }
}

/// Hand out the task that an event is about.
///
/// @param event  an event handle
/// @param out    receives a handle of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_task_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_task(event: *const mcp_event, out: *mut *mut mcp_task) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { part(Function::mcp_event_task, event, out, |event| event.task.clone()) }
}

/// Hand out the task's snapshot of the moment of the event.
///
/// @param event  an event handle
/// @param out    receives a handle of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_snapshot_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_snapshot(event: *const mcp_event, out: *mut *mut mcp_snapshot) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { part(Function::mcp_event_snapshot, event, out, |event| event.snapshot.clone()) }
}

/// Hand out the question that an event asks or withdraws.
///
/// @param event  an event handle
/// @param out    receives a handle of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_input_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_input(event: *const mcp_event, out: *mut *mut mcp_input) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { part(Function::mcp_event_input, event, out, |event| event.input.clone()) }
}

/// Hand out the error that an event tells of.
///
/// @param event  an event handle
/// @param out    receives a handle of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_error(event: *const mcp_event, out: *mut *mut mcp_error) -> mcp_status {
    // SAFETY: as this function's own contract.
    unsafe { part(Function::mcp_event_error, event, out, |event| event.error.clone().map(Arc::new)) }
}

/// Keep an event beyond its callback.
///
/// @param event  an event handle
/// @param out    receives a handle of your own; not NULL
/// @return MCP_OK, MCP_E_HANDLE
/// Ownership: free *out with mcp_event_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_keep(event: *const mcp_event, out: *mut *mut mcp_event) -> mcp_status {
    fine(Function::mcp_event_keep, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        *out = put(get::<Event>(event)?.object.clone())?;
        Ok(())
    })
}

/// Free a kept event.
///
/// @param event  a handle from mcp_event_keep(), or NULL
/// @return MCP_OK, MCP_E_STATE for the borrowed event of a callback, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_event_free(event: *mut mcp_event) -> mcp_status {
    fine(Function::mcp_event_free, || free::<Event>(event).map(drop))
}

/// Hands out a part of an event.
unsafe fn part<T: Named>(
    function: Function,
    event: *const mcp_event,
    out: *mut *mut T::C,
    read: impl FnOnce(&Event) -> Option<Arc<T>>,
) -> mcp_status {
    let body = || -> Result<mcp_status> {
        // SAFETY: NULL or writable, by the contract of the caller.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        put_some(out, read(&get::<Event>(event)?.object))
    };
    status(function, body)
}
