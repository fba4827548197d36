//! Facts about the library, its end, its last error, its log.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::client::{LogLevel, LogSink, set_log};
use crate::error::{Error, Kind};
use crate::ffi::callback::{LogCallback, User, mcp_destroy_fn, mcp_log_fn};
use crate::ffi::error::mcp_error;
use crate::ffi::guard::{Function, fine, last_error, set_last_error, status, value};
use crate::ffi::handle::{get, put};
use crate::ffi::queue::mcp_queue;
use crate::ffi::status::{MCP_OK, MCP_S_NONE, MCP_S_TIMEOUT, NAMES, mcp_status};
use crate::ffi::text::out;

/// The version of this ABI: the number in the library's soname. Wrappers refuse to load another.
pub const MCP_ABI_VERSION: i32 = 1;

/// Log level: a fault of the library, or of its use.
pub const MCP_LOG_ERROR: i32 = 1;
/// Log level: something that a server did wrong and the library passed over.
pub const MCP_LOG_WARN: i32 = 2;
/// Log level: the large steps.
pub const MCP_LOG_INFO: i32 = 3;
/// Log level: the small steps.
pub const MCP_LOG_DEBUG: i32 = 4;

/// The ABI version of the loaded library, to be compared with MCP_ABI_VERSION of the header.
///
/// @return the number; never fails
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_abi_version() -> i32 {
    MCP_ABI_VERSION
}

/// The version of the loaded library, as in "0.1.0".
///
/// @return a static text, never NULL
/// Ownership: the library's, for ever.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The name of a status code, as in "MCP_E_ARGUMENT".
///
/// @param code  any number
/// @return a static text, never NULL; "MCP_UNKNOWN" for a number that this version does not know
/// Ownership: the library's, for ever.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_status_name(code: mcp_status) -> *const c_char {
    NAMES.iter().find(|(number, _)| *number == code).map_or(c"MCP_UNKNOWN", |(_, name)| name).as_ptr()
}

/// Hand out the error of the last failed call of this thread.
///
/// Each call of a function of this library on a thread first clears that thread's last error, and sets it when it
/// returns a failure. This function does neither. Failures of asynchronous work are not here but on the call, the task
/// or the event.
///
/// @param out  receives an error of your own, or NULL; not NULL itself
/// @return MCP_OK, or MCP_S_NONE where the last call did not fail
/// Ownership: free *out with mcp_error_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_last_error(out: *mut *mut mcp_error) -> mcp_status {
    let last = last_error();
    status(Function::mcp_last_error, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        set_last_error(last.clone());
        let Some(error) = last else {
            return Ok(MCP_S_NONE);
        };
        *out = put(Arc::new(error))?;
        Ok(MCP_OK)
    })
}

/// Close every client and end every thread of the library.
///
/// The orderly end of a program: call it before exit() and before static destructors run. A later use of the library
/// starts anew. Unloading the library has no effect: it stays in memory until the process ends.
///
/// @param wait_ms  how long to wait, in ms; -1 without limit
/// @return MCP_OK when every thread has ended, MCP_S_TIMEOUT when some still end by themselves
/// Threads: any, while no other thread is inside the library.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_shutdown(wait_ms: i64) -> mcp_status {
    status(Function::mcp_shutdown, || Ok(if crate::client::shutdown(wait_ms) { MCP_OK } else { MCP_S_TIMEOUT }))
}

/// Set the hook that takes the library's own log lines; one for the process, the newest counts.
///
/// Lines are delivered in order, one at a time, by a thread of the library, or inside mcp_queue_dispatch() where a queue
/// is given. At most 1024 lines wait; beyond that the oldest are dropped and a line says how many.
///
/// @param queue    a manual queue, or NULL
/// @param level    MCP_LOG_ERROR to MCP_LOG_DEBUG: lines above it are not made
/// @param fn       the hook, or NULL to remove it
/// @param user     handed to the hook, or NULL
/// @param destroy  ends `user`, or NULL
/// @return MCP_OK, MCP_E_ARGUMENT for an unknown level, MCP_E_HANDLE
/// Ownership: `user` is the library's until `destroy` runs.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_log_on(
    queue: *mut mcp_queue,
    level: i32,
    r#fn: mcp_log_fn,
    user: *mut c_void,
    destroy: mcp_destroy_fn,
) -> mcp_status {
    // From here on, whatever happens, the destructor runs once.
    let user = User::new(user, destroy);
    fine(Function::mcp_log_on, || {
        let level = match level {
            _ if r#fn.is_none() => LogLevel::Error,
            MCP_LOG_ERROR => LogLevel::Error,
            MCP_LOG_WARN => LogLevel::Warn,
            MCP_LOG_INFO => LogLevel::Info,
            MCP_LOG_DEBUG => LogLevel::Debug,
            other => {
                return Err(Error::new(Kind::Argument, format!("level: expected 1 to 4 but found {other}")));
            }
        };
        let queue = if queue.is_null() { None } else { Some(get::<crate::client::Queue>(queue)?.object.clone()) };
        let sink = r#fn.map(|function| Arc::new(LogCallback::new(function, user)) as Arc<dyn LogSink>);
        set_log(level, sink, queue);
        Ok(())
    })
}

/// Reads a borrowed text: the shape of every getter that returns one.
pub(super) unsafe fn text_of<T: crate::ffi::handle::Named, S: AsRef<str>>(
    function: Function,
    name: *const T::C,
    field: (i32, i32),
    length: *mut usize,
    make: impl FnOnce(&T, i32) -> crate::error::Result<Option<S>>,
) -> *const c_char {
    value(
        function,
        || {
            // SAFETY: NULL or writable, by the contract of the caller.
            unsafe { crate::ffi::text::put_length(length, 0) };
            let held = get::<T>(name)?;
            let mut failed = None;
            // SAFETY: as above. The text lives as long as the object, which the handle keeps.
            let text = unsafe {
                held.texts.get(field, length, || match make(&held.object, field.0) {
                    Ok(text) => text,
                    Err(error) => {
                        failed = Some(error);
                        None
                    }
                })
            };
            match failed {
                Some(error) => Err(error),
                None => Ok(text),
            }
        },
        |_| std::ptr::null(),
    )
}

/// The error of a field number that a getter does not know.
pub(super) fn unknown_field(field: i32) -> Error {
    Error::new(Kind::Argument, format!("{field} is no field of this object"))
}
