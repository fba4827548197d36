//! `mcp_server`: what the server said of itself.

use std::ffi::c_char;

use crate::ffi::guard::{Function, fine};
use crate::ffi::handle::free;
use crate::ffi::library::{text_of, unknown_field};
use crate::ffi::status::mcp_status;
use crate::protocol::capability::ServerFacts;

/// What a server said of itself, immutable. Nothing of it is verified: show it, do not trust it.
pub struct mcp_server {
    _private: [u8; 0],
}

/// Text field: "modern" (per-request metadata) or "legacy" (initialize).
pub const MCP_SERVER_ERA: i32 = 1;
/// Text field: the protocol version in use.
pub const MCP_SERVER_VERSION: i32 = 2;
/// Text field: name and version of the server's software, as JSON; NULL where it does not say.
pub const MCP_SERVER_INFO: i32 = 3;
/// Text field: the server's advice for a model; NULL where there is none.
pub const MCP_SERVER_INSTRUCTIONS: i32 = 4;
/// Text field: the server's capabilities, as JSON.
pub const MCP_SERVER_CAPABILITIES: i32 = 5;

/// Read a text of a server.
///
/// @param server  a server handle
/// @param field   MCP_SERVER_...
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
/// Ownership: the server's, until mcp_server_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_text(server: *const mcp_server, field: i32, length: *mut usize) -> *const c_char {
    let read = |facts: &ServerFacts, field| match field {
        MCP_SERVER_ERA => Ok(Some(facts.era.word().to_owned())),
        MCP_SERVER_VERSION => Ok(Some(facts.version.clone())),
        MCP_SERVER_INFO => Ok(facts.info.as_ref().map(|info| info.text().to_owned())),
        MCP_SERVER_INSTRUCTIONS => Ok(facts.instructions.clone()),
        MCP_SERVER_CAPABILITIES => Ok(Some(facts.capabilities.text().to_owned())),
        other => Err(unknown_field(other)),
    };
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_server_text, server, (field, 0), length, read) }
}

/// Free a server object.
///
/// @param server  a server handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_server_free(server: *mut mcp_server) -> mcp_status {
    fine(Function::mcp_server_free, || free::<ServerFacts>(server).map(drop))
}
