//! `mcp_stream`: a channel of the host's own.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::client::{Client, HostEnd, HostStream, as_callback};
use crate::clock::system;
use crate::error::{Error, Kind};
use crate::ffi::callback::{User, mcp_destroy_fn};
use crate::ffi::client::mcp_client;
use crate::ffi::guard::{Function, fine, set_last_error, status};
use crate::ffi::handle::{free, get, put};
use crate::ffi::status::{MCP_OK, MCP_S_ALREADY_DONE, mcp_status};
use crate::ffi::text::{bytes_in, out, text_in};

/// A channel of the host's own, to a server that the host reaches in its own way: a pipe, a socket, a tunnel.
///
/// What is written is one JSON-RPC message a line, UTF-8, each ended by a line feed, and the same is read
/// (spec: basic/transports/stdio, "Custom transports").
pub struct mcp_stream {
    _private: [u8; 0],
}

/// Takes bytes for the server: one whole line, valid for the call. Runs on a thread of the library's, one call at a
/// time; it may block while the channel is full. A fault of the channel is told by mcp_stream_end(). Must return
/// normally.
pub type mcp_stream_write_fn = Option<unsafe extern "C" fn(bytes: *const c_char, length: usize, user: *mut c_void)>;

/// The library writes nothing more: close the channel. Comes once, unless mcp_stream_end() came first. Runs where the
/// write function does.
pub type mcp_stream_close_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

struct StreamCallback {
    write: unsafe extern "C" fn(*const c_char, usize, *mut c_void),
    close: mcp_stream_close_fn,
    user: User,
}

impl HostEnd for StreamCallback {
    fn write(&self, line: &[u8]) {
        let outer = set_last_error(None);
        // SAFETY: the host's own function with the host's own data; the bytes outlive the call.
        as_callback(|| unsafe { (self.write)(line.as_ptr().cast(), line.len(), self.user.data()) });
        set_last_error(outer);
    }

    fn close(&self) {
        let Some(close) = self.close else {
            return;
        };
        let outer = set_last_error(None);
        // SAFETY: the host's own function with the host's own data.
        as_callback(|| unsafe { close(self.user.data()) });
        set_last_error(outer);
    }
}

/// Make a stream from the host's functions. Give it to a client with mcp_client_set_stream(), then feed in what the
/// server says with mcp_stream_feed().
///
/// @param write    takes what the client says; not NULL
/// @param close    is told when the client is done, or NULL
/// @param user     handed to both, or NULL
/// @param destroy  ends `user` once, after the last call of both, also where this function failed; or NULL
/// @param out      receives the stream; not NULL
/// @return MCP_OK, MCP_E_ARGUMENT
/// Ownership: free *out with mcp_stream_free(); `user` is the library's until `destroy` runs.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_stream_new(
    write: mcp_stream_write_fn,
    close: mcp_stream_close_fn,
    user: *mut c_void,
    destroy: mcp_destroy_fn,
    out: *mut *mut mcp_stream,
) -> mcp_status {
    // From here on, whatever happens, the destructor runs once.
    let user = User::new(user, destroy);
    fine(Function::mcp_stream_new, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        let write = write.ok_or_else(|| Error::new(Kind::Argument, "write is NULL"))?;
        let host = Arc::new(StreamCallback { write, close, user });
        *out = put(HostStream::new(host, system()))?;
        Ok(())
    })
}

/// Give a stream to a client whose settings say "url": "stream:name". The name stands for the server, in the task
/// ledger for one. One stream serves one client, once: it cannot be opened again after its end.
///
/// @param client  a client that was never opened
/// @param stream  a stream handle; the client keeps what it needs of it
/// @return MCP_OK, MCP_E_STATE where the client was opened or either of the two was given before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_client_set_stream(client: *mut mcp_client, stream: *mut mcp_stream) -> mcp_status {
    fine(Function::mcp_client_set_stream, || {
        let stream = get::<HostStream>(stream)?.object.clone();
        get::<Client>(client)?.object.set_stream(stream)
    })
}

/// Feed in what the server says: any piece of it, lines need not be whole. Before the client is opened up to 1 MiB is
/// kept for it.
///
/// @param stream  a stream handle
/// @param bytes   the bytes; copied
/// @param length  their number
/// @return MCP_OK, MCP_E_CLOSED after the end, MCP_E_STATE where too much comes before the client is opened
/// Threads: any, one at a time is the sensible number: the order is yours.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_stream_feed(stream: *mut mcp_stream, bytes: *const c_char, length: usize) -> mcp_status {
    fine(Function::mcp_stream_feed, || {
        // SAFETY: NULL or readable for `length` bytes, by the contract of this function.
        let bytes = unsafe { bytes_in(bytes, length, "bytes") }?;
        get::<HostStream>(stream)?.object.feed(bytes)
    })
}

/// Say that the channel has ended. Calls under way end as on any connection that broke.
///
/// @param stream          a stream handle
/// @param message         why, for the error of those calls; NULL with length 0 where there is nothing to say
/// @param message_length  its length in bytes
/// @return MCP_OK, MCP_S_ALREADY_DONE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_stream_end(
    stream: *mut mcp_stream,
    message: *const c_char,
    message_length: usize,
) -> mcp_status {
    status(Function::mcp_stream_end, || {
        // SAFETY: NULL or readable for its length, by the contract of this function.
        let message = unsafe { text_in(message, message_length, "message") }?;
        let ended = get::<HostStream>(stream)?.object.end(message);
        Ok(if ended { MCP_OK } else { MCP_S_ALREADY_DONE })
    })
}

/// Free a stream. One that a client has goes on until the client closes, but nothing can be fed in any more: call
/// mcp_stream_end() or close the client first. One that no client has ends here, and its destroy function runs inside
/// this call.
///
/// @param stream  a stream handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_stream_free(stream: *mut mcp_stream) -> mcp_status {
    status(Function::mcp_stream_free, || {
        // The last owner ends it: the handle where no client has it, else the client at its close.
        drop(free::<HostStream>(stream)?);
        Ok(MCP_OK)
    })
}
