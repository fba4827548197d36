//! `mcp_snapshot`: a task at one moment.

use std::ffi::c_char;
use std::sync::Arc;

use crate::client::chat::{end_error, tool_result, ttl_number};
use crate::client::input::write_questions;
use crate::client::{Snapshot, now};
use crate::error::Result;
use crate::ffi::call::put_some;
use crate::ffi::error::{mcp_error, put_number};
use crate::ffi::guard::{Function, fine, status};
use crate::ffi::handle::{free, get};
use crate::ffi::library::{text_of, unknown_field};
use crate::ffi::result::mcp_result;
use crate::ffi::status::mcp_status;
use crate::ffi::text::out;
use crate::protocol::content::ResultView;
use crate::protocol::task::TaskStatus;
use crate::tasks::EndReason;

/// A task at one moment, immutable.
pub struct mcp_snapshot {
    _private: [u8; 0],
}

/// Text field: the server's id of the task.
pub const MCP_SNAPSHOT_TASK_ID: i32 = 1;
/// Text field: the tool that was called; empty for a task taken up by its id.
pub const MCP_SNAPSHOT_TOOL: i32 = 2;
/// Text field: the server's words about the status; NULL where there are none.
pub const MCP_SNAPSHOT_MESSAGE: i32 = 3;
/// Text field: createdAt as sent (ISO 8601); NULL where it was not.
pub const MCP_SNAPSHOT_CREATED_AT: i32 = 4;
/// Text field: lastUpdatedAt as sent (ISO 8601); NULL where it was not.
pub const MCP_SNAPSHOT_UPDATED_AT: i32 = 5;
/// Text field: the tool_call_id of the call's options; NULL where there was none.
pub const MCP_SNAPSHOT_TOOL_CALL_ID: i32 = 6;
/// Text field: the context of the call's options, as JSON; NULL where there was none.
pub const MCP_SNAPSHOT_CONTEXT: i32 = 7;
/// Text field: the open questions, as a JSON array of {key, method, params}.
pub const MCP_SNAPSHOT_INPUTS: i32 = 8;
/// Text field: the last answer of the server, as JSON, byte for byte as sent (of a task of 2025-11-25: in the words of the
/// extension, with its result, error and questions in it); NULL before the first.
pub const MCP_SNAPSHOT_JSON: i32 = 9;
/// Text field: what the server offers as a tool result for the model until the task has ended (2025-11-25,
/// io.modelcontextprotocol/model-immediate-response); NULL where it offers nothing.
pub const MCP_SNAPSHOT_IMMEDIATE_RESPONSE: i32 = 10;
/// Text field: progress in words: a JSON array of {status, message, last_updated_at}, one entry for each change that was
/// seen, oldest first; the latest 32, messages cut at 1 KiB.
pub const MCP_SNAPSHOT_HISTORY: i32 = 12;
/// Text field: the end of the task as a tool result, JSON: the tool's own, or one with isError and a text that says how the
/// task ended; NULL where it has not ended.
pub const MCP_SNAPSHOT_TOOL_RESULT: i32 = 13;

/// Number field: MCP_TASK_...; a task that ended as expired or unknown reads as MCP_TASK_FAILED, one that ended as closed
/// as it last stood: whether it has ended says REASON.
pub const MCP_SNAPSHOT_STATUS: i32 = 1;
/// Number field: MCP_REASON_..., why it ended.
pub const MCP_SNAPSHOT_REASON: i32 = 2;
/// Number field: how long the server keeps it, in ms from its creation; -1 without limit; absent where not told.
pub const MCP_SNAPSHOT_TTL_MS: i32 = 3;
/// Number field: the server's wish for the time between polls, in ms; absent where not told.
pub const MCP_SNAPSHOT_POLL_INTERVAL_MS: i32 = 4;
/// Number field: when the next poll is due, in ms from now, 0 when it is; absent where none will be.
pub const MCP_SNAPSHOT_NEXT_POLL_MS: i32 = 5;
/// Number field: 1 where its time to live has passed, else 0.
pub const MCP_SNAPSHOT_OVERDUE: i32 = 6;
/// Number field: 1 where the task has ended and its end comes from the ledger: an earlier process, or an earlier look, may
/// have told it already; else 0.
pub const MCP_SNAPSHOT_REPEATED: i32 = 7;

/// Status of a task: the server is at work.
pub const MCP_TASK_WORKING: i32 = 1;
/// Status of a task: the server waits for answers.
pub const MCP_TASK_INPUT_REQUIRED: i32 = 2;
/// Status of a task: there is a result.
pub const MCP_TASK_COMPLETED: i32 = 3;
/// Status of a task: it failed, or is lost.
pub const MCP_TASK_FAILED: i32 = 4;
/// Status of a task: it was cancelled.
pub const MCP_TASK_CANCELLED: i32 = 5;

/// Reason: the task has not ended.
pub const MCP_REASON_NONE: i32 = 0;
/// Reason: the server has a result.
pub const MCP_REASON_COMPLETED: i32 = 1;
/// Reason: the server tells of an error.
pub const MCP_REASON_FAILED: i32 = 2;
/// Reason: the server cancelled the work.
pub const MCP_REASON_CANCELLED: i32 = 3;
/// Reason: its time to live has passed and the server no longer knows it.
pub const MCP_REASON_EXPIRED: i32 = 4;
/// Reason: the server does not know it.
pub const MCP_REASON_UNKNOWN: i32 = 5;
/// Reason: the client went away, or the host let it go; the server goes on.
pub const MCP_REASON_CLOSED: i32 = 6;

/// Read a text of a snapshot.
///
/// @param snapshot  a snapshot handle
/// @param field     MCP_SNAPSHOT_TASK_ID to MCP_SNAPSHOT_TOOL_RESULT
/// @param length    receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
/// Ownership: the snapshot's, until mcp_snapshot_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_snapshot_text(
    snapshot: *const mcp_snapshot,
    field: i32,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_snapshot_text, snapshot, (field, 0), length, text) }
}

fn text(snapshot: &Snapshot, field: i32) -> Result<Option<String>> {
    let about = snapshot.about();
    Ok(match field {
        MCP_SNAPSHOT_TASK_ID => Some(snapshot.task_id().to_owned()),
        MCP_SNAPSHOT_TOOL => Some(about.tool.clone()),
        MCP_SNAPSHOT_MESSAGE => snapshot.message().map(str::to_owned),
        MCP_SNAPSHOT_CREATED_AT => snapshot.created_at().map(str::to_owned),
        MCP_SNAPSHOT_UPDATED_AT => snapshot.updated_at().map(str::to_owned),
        MCP_SNAPSHOT_TOOL_CALL_ID => about.tool_call_id.clone(),
        MCP_SNAPSHOT_CONTEXT => about.host.as_ref().map(|json| json.text().to_owned()),
        MCP_SNAPSHOT_INPUTS => {
            Some(write_questions(snapshot.inputs().iter().map(|input| (&input.request, input.repeated))))
        }
        MCP_SNAPSHOT_HISTORY => Some(snapshot.history()),
        MCP_SNAPSHOT_TOOL_RESULT => snapshot.has_ended().then(|| tool_result(snapshot).text().to_owned()),
        MCP_SNAPSHOT_JSON => snapshot.raw().map(|json| json.text().to_owned()),
        MCP_SNAPSHOT_IMMEDIATE_RESPONSE => snapshot.immediate().map(str::to_owned),
        other => return Err(unknown_field(other)),
    })
}

/// Read a number of a snapshot.
///
/// @param snapshot  a snapshot handle
/// @param field     MCP_SNAPSHOT_STATUS to MCP_SNAPSHOT_REPEATED
/// @param out       receives the number; not NULL
/// @return MCP_OK, MCP_S_NONE where there is none (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_snapshot_number(snapshot: *const mcp_snapshot, field: i32, out: *mut i64) -> mcp_status {
    status(Function::mcp_snapshot_number, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, 0) }?;
        let held = get::<Snapshot>(snapshot)?;
        Ok(put_number(out, number(&held.object, field)?))
    })
}

fn number(snapshot: &Snapshot, field: i32) -> Result<Option<i64>> {
    let ms = |wait: std::time::Duration| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    Ok(match field {
        MCP_SNAPSHOT_STATUS => Some(i64::from(status_number(snapshot.status()))),
        MCP_SNAPSHOT_REASON => Some(i64::from(snapshot.end_reason().map_or(MCP_REASON_NONE, reason_number))),
        MCP_SNAPSHOT_TTL_MS => ttl_number(snapshot.ttl()),
        MCP_SNAPSHOT_POLL_INTERVAL_MS => snapshot.poll_interval().map(ms),
        MCP_SNAPSHOT_NEXT_POLL_MS => snapshot.next_poll_due().map(|at| ms(at.saturating_duration_since(now()))),
        MCP_SNAPSHOT_OVERDUE => Some(i64::from(snapshot.overdue())),
        MCP_SNAPSHOT_REPEATED => Some(i64::from(snapshot.repeated())),
        other => return Err(unknown_field(other)),
    })
}

fn status_number(status: TaskStatus) -> i32 {
    match status {
        TaskStatus::Working => MCP_TASK_WORKING,
        TaskStatus::InputRequired => MCP_TASK_INPUT_REQUIRED,
        TaskStatus::Completed => MCP_TASK_COMPLETED,
        TaskStatus::Failed => MCP_TASK_FAILED,
        TaskStatus::Cancelled => MCP_TASK_CANCELLED,
    }
}

fn reason_number(reason: EndReason) -> i32 {
    match reason {
        EndReason::Completed => MCP_REASON_COMPLETED,
        EndReason::Failed => MCP_REASON_FAILED,
        EndReason::Cancelled => MCP_REASON_CANCELLED,
        EndReason::Expired => MCP_REASON_EXPIRED,
        EndReason::Unknown => MCP_REASON_UNKNOWN,
        EndReason::Closed => MCP_REASON_CLOSED,
    }
}

/// Hand out the result of a completed task.
///
/// @param snapshot  a snapshot handle
/// @param out       receives an immutable result of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_snapshot_result(snapshot: *const mcp_snapshot, out: *mut *mut mcp_result) -> mcp_status {
    status(Function::mcp_snapshot_result, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let result = get::<Snapshot>(snapshot)?.object.result().cloned();
        put_some(out, result.map(|json| Arc::new(ResultView::new(json))))
    })
}

/// Hand out why a task ended without a result, what is wrong with the result of a completed one (MCP_E_SCHEMA), or,
/// before its end, why its polls fail.
///
/// A failed task's error carries the code, message and data of the server's JSON-RPC error.
///
/// @param snapshot  a snapshot handle
/// @param out       receives an error of your own, or NULL; not NULL itself
/// @return MCP_OK, MCP_S_NONE where there is none
/// Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_snapshot_error(snapshot: *const mcp_snapshot, out: *mut *mut mcp_error) -> mcp_status {
    status(Function::mcp_snapshot_error, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let held = get::<Snapshot>(snapshot)?;
        let error = end_error(&held.object).or_else(|| held.object.degraded().cloned());
        put_some(out, error.map(Arc::new))
    })
}

/// Free a snapshot.
///
/// @param snapshot  a snapshot handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_snapshot_free(snapshot: *mut mcp_snapshot) -> mcp_status {
    fine(Function::mcp_snapshot_free, || free::<Snapshot>(snapshot).map(drop))
}
