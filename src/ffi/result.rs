//! `mcp_result`: a result, read on demand.

use std::ffi::c_char;

use crate::error::{Error, Kind, Result};
use crate::ffi::guard::{Function, fine, value};
use crate::ffi::handle::{free, get};
use crate::ffi::library::{text_of, unknown_field};
use crate::ffi::status::mcp_status;
use crate::ffi::text::put_length;
use crate::protocol::content::{Block, BlockKind, ResultView};

/// A result, immutable.
pub struct mcp_result {
    _private: [u8; 0],
}

/// Text field: the whole result, as JSON, byte for byte as the server sent it.
pub const MCP_RESULT_JSON: i32 = 1;
/// Text field: the texts of the text blocks, joined by line feeds; NULL where there is no text block.
pub const MCP_RESULT_TEXT: i32 = 2;
/// Text field: structuredContent, as JSON; NULL where there is none.
pub const MCP_RESULT_STRUCTURED: i32 = 3;

/// Kind of block: none that this version knows; its JSON is there.
pub const MCP_BLOCK_OTHER: i32 = 0;
/// Kind of block: text.
pub const MCP_BLOCK_TEXT: i32 = 1;
/// Kind of block: an image.
pub const MCP_BLOCK_IMAGE: i32 = 2;
/// Kind of block: a sound.
pub const MCP_BLOCK_AUDIO: i32 = 3;
/// Kind of block: a link to a resource.
pub const MCP_BLOCK_RESOURCE_LINK: i32 = 4;
/// Kind of block: a resource embedded, text or binary.
pub const MCP_BLOCK_RESOURCE: i32 = 5;

/// Read a text of a result.
///
/// @param result  a result handle
/// @param field   MCP_RESULT_JSON, MCP_RESULT_TEXT or MCP_RESULT_STRUCTURED
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL where there is none, and on a bad handle or field
/// Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_text(result: *const mcp_result, field: i32, length: *mut usize) -> *const c_char {
    let read = |view: &ResultView, field| match field {
        MCP_RESULT_JSON => Ok(Some(view.json().text().to_owned())),
        MCP_RESULT_TEXT => Ok(view.text().map(str::to_owned)),
        MCP_RESULT_STRUCTURED => Ok(view.structured().map(|json| json.text().to_owned())),
        other => Err(unknown_field(other)),
    };
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_result_text, result, (field, 0), length, read) }
}

/// Whether the tool says that it failed (isError; spec: server/tools, "Error Handling"). That is a result, not an error:
/// show it to the model.
///
/// @param result  a result handle
/// @return 1, 0, or a negative status
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_is_error(result: *const mcp_result) -> i32 {
    value(
        Function::mcp_result_is_error,
        || Ok(i32::from(get::<ResultView>(result)?.object.is_error())),
        |status| status,
    )
}

/// The number of content blocks.
///
/// @param result  a result handle
/// @return 0 or more, or a negative status
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_block_count(result: *const mcp_result) -> i32 {
    let count = || Ok(i32::try_from(get::<ResultView>(result)?.object.blocks().len()).unwrap_or(i32::MAX));
    value(Function::mcp_result_block_count, count, |status| status)
}

/// The kind of a content block.
///
/// @param result  a result handle
/// @param index   from 0
/// @return MCP_BLOCK_..., or a negative status; MCP_E_ARGUMENT for an index that is out of range
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_block_kind(result: *const mcp_result, index: i32) -> i32 {
    let kind = || {
        let held = get::<ResultView>(result)?;
        Ok(match block(&held.object, index)?.kind {
            BlockKind::Other => MCP_BLOCK_OTHER,
            BlockKind::Text => MCP_BLOCK_TEXT,
            BlockKind::Image => MCP_BLOCK_IMAGE,
            BlockKind::Audio => MCP_BLOCK_AUDIO,
            BlockKind::ResourceLink => MCP_BLOCK_RESOURCE_LINK,
            BlockKind::Resource => MCP_BLOCK_RESOURCE,
        })
    };
    value(Function::mcp_result_block_kind, kind, |status| status)
}

/// A content block as JSON, byte for byte as the server sent it.
///
/// @param result  a result handle
/// @param index   from 0
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL on a bad handle or index
/// Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_block_json(
    result: *const mcp_result,
    index: i32,
    length: *mut usize,
) -> *const c_char {
    let read = |view: &ResultView, _| Ok(Some(block(view, index)?.json.text().to_owned()));
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_result_block_json, result, (BLOCK_JSON, index), length, read) }
}

/// The text of a text block, or of an embedded text resource.
///
/// @param result  a result handle
/// @param index   from 0
/// @param length  receives the length in bytes without the NUL, or NULL
/// @return UTF-8, NUL-terminated; NULL for a block of another kind, and on a bad handle or index
/// Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_block_text(
    result: *const mcp_result,
    index: i32,
    length: *mut usize,
) -> *const c_char {
    let read = |view: &ResultView, _| Ok(block(view, index)?.text.clone());
    // SAFETY: `length` is NULL or writable, by the contract of this function.
    unsafe { text_of(Function::mcp_result_block_text, result, (BLOCK_TEXT, index), length, read) }
}

/// The bytes of an image, a sound or an embedded binary resource, decoded.
///
/// @param result  a result handle
/// @param index   from 0
/// @param length  receives the number of bytes; may be NULL
/// @return the bytes; NULL for a block of another kind, for what is no Base64, and on a bad handle or index
/// Ownership: the result's, until mcp_result_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_block_bytes(
    result: *const mcp_result,
    index: i32,
    length: *mut usize,
) -> *const u8 {
    let read = || {
        // SAFETY: NULL or writable, by the contract of this function.
        unsafe { put_length(length, 0) };
        let held = get::<ResultView>(result)?;
        let Some(bytes) = block(&held.object, index)?.bytes() else {
            return Ok(std::ptr::null());
        };
        // SAFETY: as above. The bytes are made once and live as long as the result, which the handle keeps.
        unsafe { put_length(length, bytes.len()) };
        Ok(bytes.as_ptr())
    };
    value(Function::mcp_result_block_bytes, read, |_| std::ptr::null())
}

/// Free a result.
///
/// @param result  a result handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_result_free(result: *mut mcp_result) -> mcp_status {
    fine(Function::mcp_result_free, || free::<ResultView>(result).map(drop))
}

/// Where the texts of blocks are kept, beside those of the fields.
/// cbindgen:ignore
const BLOCK_JSON: i32 = 100;
/// cbindgen:ignore
const BLOCK_TEXT: i32 = 101;

fn block(view: &ResultView, index: i32) -> Result<&Block> {
    let blocks = view.blocks();
    usize::try_from(index).ok().and_then(|index| blocks.get(index)).ok_or_else(|| {
        Error::new(Kind::Argument, format!("index: expected 0 to {} but found {index}", blocks.len().saturating_sub(1)))
    })
}
