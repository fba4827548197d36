//! `mcp_input`: a question of the server's.

use std::ffi::c_char;

use crate::client::{Input, Reply};
use crate::error::{Error, Kind, Result};
use crate::ffi::error::put_number;
use crate::ffi::guard::{Function, fine, status, value};
use crate::ffi::handle::{free, get};
use crate::ffi::library::{text_of, unknown_field};
use crate::ffi::status::{MCP_OK, MCP_S_ALREADY_DONE, mcp_status};
use crate::ffi::text::{name_in, out, text_in};
use crate::protocol::input::InputKind;
use crate::protocol::json::Json;

/// A question of the server's: elicitation, sampling or roots.
pub struct mcp_input {
    _private: [u8; 0],
}

/// Kind of question: a form or a URL for the user (elicitation/create; spec: client/elicitation).
pub const MCP_INPUT_ELICITATION: i32 = 1;
/// Kind of question: a completion by the host's model (sampling/createMessage; spec: client/sampling).
pub const MCP_INPUT_SAMPLING: i32 = 2;
/// Kind of question: the folders that the host opens to the server (roots/list; spec: client/roots).
pub const MCP_INPUT_ROOTS: i32 = 3;

/// Text field: the server's key of the question.
pub const MCP_INPUT_KEY: i32 = 1;
/// Text field: the method, as in "elicitation/create".
pub const MCP_INPUT_METHOD: i32 = 2;
/// Text field: the params of the question, as JSON.
pub const MCP_INPUT_PARAMS: i32 = 3;
/// Text field: the message for the user; NULL where there is none.
pub const MCP_INPUT_MESSAGE: i32 = 4;
/// Text field: the id of the task that asks; NULL where a call asks, or a legacy server outside any call.
pub const MCP_INPUT_TASK_ID: i32 = 5;

/// Number field: the id of the call that asks.
pub const MCP_INPUT_CALL_ID: i32 = 1;
/// Number field: 1 where an earlier process may have asked the same question already (a task that was taken up again).
pub const MCP_INPUT_REPEATED: i32 = 2;

/// The kind of a question.
///
/// @param input  an input handle
/// @return MCP_INPUT_ELICITATION, MCP_INPUT_SAMPLING or MCP_INPUT_ROOTS, or a negative status
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_kind(input: *const mcp_input) -> i32 {
    let kind = || {
        Ok(match get::<Input>(input)?.object.kind() {
            InputKind::Elicitation => MCP_INPUT_ELICITATION,
            InputKind::Sampling => MCP_INPUT_SAMPLING,
            InputKind::Roots => MCP_INPUT_ROOTS,
        })
    };
    value(Function::mcp_input_kind, kind, |status| status)
}

/// Read a number of a question.
///
/// @param input  an input handle
/// @param field  MCP_INPUT_CALL_ID or MCP_INPUT_REPEATED
/// @param out    receives the number; not NULL
/// @return MCP_OK, MCP_S_NONE where no call asks (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_number(input: *const mcp_input, field: i32, out: *mut i64) -> mcp_status {
    status(Function::mcp_input_number, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, 0) }?;
        let held = get::<Input>(input)?;
        match field {
            MCP_INPUT_CALL_ID => Ok(put_number(out, held.object.call_id())),
            MCP_INPUT_REPEATED => Ok(put_number(out, Some(i64::from(held.object.repeated())))),
            other => Err(unknown_field(other)),
        }
    })
}

/// Read a text of a question.
///
/// @param input   an input handle
/// @param field   MCP_INPUT_KEY to MCP_INPUT_TASK_ID
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
/// Ownership: the input's, until mcp_input_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_text(input: *const mcp_input, field: i32, length: *mut usize) -> *const c_char {
    let read = |input: &Input, field| match field {
        MCP_INPUT_KEY => Ok(Some(input.key().to_owned())),
        MCP_INPUT_METHOD => Ok(Some(input.kind().method().to_owned())),
        MCP_INPUT_PARAMS => Ok(Some(input.params().text().to_owned())),
        MCP_INPUT_MESSAGE => Ok(input.message()),
        MCP_INPUT_TASK_ID => Ok(input.task_id().map(str::to_owned)),
        other => Err(unknown_field(other)),
    };
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_input_text, input, (field, 0), length, read) }
}

/// Answer a question, now or later.
///
/// @param input    an input handle
/// @param content  elicitation: the form's values alone, a JSON object (not {"action":...}, which is the shape of
///                 mcp_call_answer() and mcp_task_update()), or NULL with length 0 for a URL that was accepted;
///                 sampling and roots: the whole result, a JSON object
/// @param length   its length in bytes
/// @return MCP_OK, MCP_S_ALREADY_DONE where it was answered or withdrawn, MCP_E_ARGUMENT for what is no object
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_answer(input: *mut mcp_input, content: *const c_char, length: usize) -> mcp_status {
    status(Function::mcp_input_answer, || {
        // SAFETY: NULL or readable for its length, by the contract of this function.
        let content = unsafe { text_in(content, length, "content") }?;
        let content = if content.is_empty() { None } else { Some(parsed(content)?) };
        reply(input, Reply::Answer(content))
    })
}

/// Decline a question: the user says no. Elicitation only.
///
/// @param input  an input handle
/// @return MCP_OK, MCP_S_ALREADY_DONE, MCP_E_UNSUPPORTED for sampling and roots (use mcp_input_fail())
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_decline(input: *mut mcp_input) -> mcp_status {
    status(Function::mcp_input_decline, || reply(input, Reply::Decline))
}

/// Cancel a question: the user closed it without a choice. Elicitation only.
///
/// @param input  an input handle
/// @return MCP_OK, MCP_S_ALREADY_DONE, MCP_E_UNSUPPORTED for sampling and roots (use mcp_input_fail())
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_cancel(input: *mut mcp_input) -> mcp_status {
    status(Function::mcp_input_cancel, || reply(input, Reply::Cancel))
}

/// Say that a question cannot be answered. Sampling and roots have no form of refusal: the call ends with
/// MCP_E_INPUT_REFUSED, the task is cancelled (or left waiting, by the settings). Elicitation: the same as cancel.
///
/// @param input    an input handle
/// @param message  why, for the error, NUL-terminated; or NULL
/// @return MCP_OK, MCP_S_ALREADY_DONE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_fail(input: *mut mcp_input, message: *const c_char) -> mcp_status {
    status(Function::mcp_input_fail, || {
        // SAFETY: not NULL in that branch; terminated by the contract of this function.
        let why = if message.is_null() { "no reason given" } else { unsafe { name_in(message, "message") }? };
        reply(input, Reply::Fail(crate::error::one_line(why)))
    })
}

/// Give up a question's name. An unanswered question stays open: it can be answered by its key, with mcp_call_answer() or
/// mcp_task_update().
///
/// @param input  an input handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_input_free(input: *mut mcp_input) -> mcp_status {
    fine(Function::mcp_input_free, || free::<Input>(input).map(drop))
}

fn reply(input: *mut mcp_input, reply: Reply) -> Result<mcp_status> {
    let counted = get::<Input>(input)?.object.reply(reply)?;
    Ok(if counted { MCP_OK } else { MCP_S_ALREADY_DONE })
}

fn parsed(content: &str) -> Result<Json> {
    Json::parse(content).map_err(|fault| Error::new(Kind::Argument, format!("content: {}", fault.message())))
}
