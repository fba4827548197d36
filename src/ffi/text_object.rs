//! `mcp_text`: a text of the caller's own, for lists and counters.

use std::ffi::c_char;

use crate::error::{Error, Kind};
use crate::ffi::client::text_out;
use crate::ffi::guard::{Function, fine};
use crate::ffi::handle::free;
use crate::ffi::library::text_of;
use crate::ffi::status::mcp_status;
use crate::ffi::text::{name_in, text_in};
use crate::protocol::uri_template;

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

/// Expand a URI template, as resources/templates/list has them (RFC 6570, all four levels; spec: server/resources).
///
/// @param uri_template  the template, NUL-terminated
/// @param variables     a JSON object: texts, numbers, booleans, arrays and objects of them. What the template does not
///                      name is passed over; what is absent or null is undefined. NULL with length 0 is {}
/// @param length        its length in bytes
/// @param out           receives a text of your own, the URI; not NULL
/// @return MCP_OK; MCP_E_ARGUMENT naming what is wrong; MCP_E_TOO_LARGE beyond 1 MiB
/// Ownership: free *out with mcp_text_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_uri_template_expand(
    uri_template: *const c_char,
    variables: *const c_char,
    length: usize,
    out: *mut *mut mcp_text,
) -> mcp_status {
    // SAFETY: the pointers are as this function's contract says.
    unsafe {
        text_out(Function::mcp_uri_template_expand, out, || {
            let uri_template = name_in(uri_template, "uri_template")?;
            if uri_template.is_empty() {
                return Err(Error::new(Kind::Argument, "uri_template is empty"));
            }
            let variables = text_in(variables, length, "variables")?;
            uri_template::expand(uri_template, if variables.is_empty() { "{}" } else { variables })
        })
    }
}
