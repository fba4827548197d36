//! `mcp_text`: a text of the caller's own, for lists and counters.

use std::ffi::c_char;

use crate::ffi::guard::{Function, fine};
use crate::ffi::handle::free;
use crate::ffi::library::text_of;
use crate::ffi::status::mcp_status;

/// An immutable text (JSON) of one's own.
pub struct mcp_text {
    _private: [u8; 0],
}

/// The text itself.
///
/// @param text    a text handle
/// @param length  receives its length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL on a bad handle
/// Ownership: the text's, until mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_text_get(text: *const mcp_text, length: *mut usize) -> *const c_char {
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of::<String, _>(Function::mcp_text_get, text, (1, 0), length, |text, _| Ok(Some(text.clone()))) }
}

/// Free a text.
///
/// @param text  a text handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_text_free(text: *mut mcp_text) -> mcp_status {
    fine(Function::mcp_text_free, || free::<String>(text).map(drop))
}
