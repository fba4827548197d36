//! `mcp_error`: what went wrong, in full.

use std::ffi::c_char;

use crate::client::chat::error_result;
use crate::error::Error;
use crate::ffi::guard::{Function, fine, status};
use crate::ffi::handle::{free, get};
use crate::ffi::library::{text_of, unknown_field};
use crate::ffi::status::{MCP_OK, MCP_S_NONE, mcp_status};
use crate::ffi::text::out;

/// An error, immutable.
pub struct mcp_error {
    _private: [u8; 0],
}

/// Text field: one line for a person, lower case, without secrets.
pub const MCP_ERROR_MESSAGE: i32 = 1;
/// Text field: the message of the server's JSON-RPC error.
pub const MCP_ERROR_RPC_MESSAGE: i32 = 2;
/// Text field: the data of the server's JSON-RPC error, as JSON.
pub const MCP_ERROR_RPC_DATA: i32 = 3;
/// Text field: the end of what the server's process said on its standard error (16 KiB at most), where its end is the
/// reason.
pub const MCP_ERROR_STDERR: i32 = 4;
/// Text field: the failure as a tool result, JSON with isError and the message as its text: what a chat loop hands to its
/// model for a call that failed in whatever way, so that the conversation goes on.
pub const MCP_ERROR_TOOL_RESULT: i32 = 8;

/// Number field: the mcp_status.
pub const MCP_ERROR_STATUS: i32 = 1;
/// Number field: the code of the server's JSON-RPC error.
pub const MCP_ERROR_RPC_CODE: i32 = 2;
/// Number field: the HTTP status.
pub const MCP_ERROR_HTTP_STATUS: i32 = 3;
/// Number field: 1 where the same request may be sent again without the risk of acting twice, else 0.
pub const MCP_ERROR_RETRY_SAFE: i32 = 4;
/// Number field: how long the server asks to wait, in ms.
pub const MCP_ERROR_RETRY_AFTER_MS: i32 = 5;
/// Number field: the exit code of the server's process.
pub const MCP_ERROR_EXIT_CODE: i32 = 6;
/// Number field: the signal that ended the server's process.
pub const MCP_ERROR_EXIT_SIGNAL: i32 = 7;

/// Read a text of an error.
///
/// @param error   an error handle
/// @param field   MCP_ERROR_MESSAGE to MCP_ERROR_TOOL_RESULT
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
/// Ownership: the error's, until mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_error_text(error: *const mcp_error, field: i32, length: *mut usize) -> *const c_char {
    let read = |error: &Error, field| match field {
        MCP_ERROR_MESSAGE => Ok(Some(error.message().to_owned())),
        MCP_ERROR_RPC_MESSAGE => Ok(error.rpc().map(|fault| fault.message.clone())),
        MCP_ERROR_RPC_DATA => Ok(error.rpc().and_then(|fault| fault.data.clone())),
        MCP_ERROR_TOOL_RESULT => Ok(Some(error_result(error).text().to_owned())),
        MCP_ERROR_STDERR => Ok(error.child().map(|end| end.stderr.clone())),
        other => Err(unknown_field(other)),
    };
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_error_text, error, (field, 0), length, read) }
}

/// Read a number of an error.
///
/// @param error  an error handle
/// @param field  MCP_ERROR_STATUS to MCP_ERROR_EXIT_SIGNAL
/// @param out    receives the number; not NULL
/// @return MCP_OK, MCP_S_NONE where there is none (the number is 0), MCP_E_ARGUMENT, MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_error_number(error: *const mcp_error, field: i32, out: *mut i64) -> mcp_status {
    status(Function::mcp_error_number, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, 0) }?;
        let held = get::<Error>(error)?;
        let error = &held.object;
        let number = match field {
            MCP_ERROR_STATUS => Some(i64::from(error.kind().status())),
            MCP_ERROR_RPC_CODE => error.rpc().map(|fault| fault.code),
            MCP_ERROR_HTTP_STATUS => error.http_status().map(i64::from),
            MCP_ERROR_RETRY_SAFE => Some(i64::from(error.retry_safe())),
            MCP_ERROR_RETRY_AFTER_MS => {
                error.retry_after().map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
            }
            MCP_ERROR_EXIT_CODE => error.child().and_then(|end| end.code).map(i64::from),
            MCP_ERROR_EXIT_SIGNAL => error.child().and_then(|end| end.signal).map(i64::from),
            other => return Err(unknown_field(other)),
        };
        Ok(put_number(out, number))
    })
}

/// Free an error.
///
/// @param error  an error handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_error_free(error: *mut mcp_error) -> mcp_status {
    fine(Function::mcp_error_free, || free::<Error>(error).map(drop))
}

/// Writes a number that may be absent, and says so.
pub(super) fn put_number(out: &mut i64, number: Option<i64>) -> mcp_status {
    *out = number.unwrap_or(0);
    if number.is_some() { MCP_OK } else { MCP_S_NONE }
}
