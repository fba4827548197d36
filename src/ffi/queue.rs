//! `mcp_queue`: a manual queue, served by the host.

use crate::client::{Queue, wait_from_ms};
use crate::clock::SystemClock;
use crate::ffi::guard::{Function, fine, status};
use crate::ffi::handle::{free, get, put};
use crate::ffi::status::{MCP_OK, MCP_S_TIMEOUT, mcp_status};
use crate::ffi::text::out;

/// A manual queue.
pub struct mcp_queue {
    _private: [u8; 0],
}

/// Make a manual queue: events of its clients are delivered only inside mcp_queue_dispatch(), on the calling thread.
///
/// One queue may serve many clients. The thread that serves it is the one that dispatched last, at first the one that
/// made it: a blocking function of this library that waits on that thread, outside a callback, serves the queue
/// meanwhile, so that a program with one thread does not stand still.
///
/// @param out  receives the queue; not NULL
/// @return MCP_OK, MCP_E_MEMORY
/// Ownership: free *out with mcp_queue_free().   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_queue_new(out: *mut *mut mcp_queue) -> mcp_status {
    fine(Function::mcp_queue_new, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, std::ptr::null_mut()) }?;
        *out = put(Queue::new()?)?;
        Ok(())
    })
}

/// Deliver what waits, on this thread; wait for the first event if there is none.
///
/// @param queue      a queue handle
/// @param wait_ms    how long to wait for the first event, in ms; 0 does not wait, -1 has no limit
/// @param out_count  receives the number of events delivered, or NULL
/// @return MCP_OK, MCP_S_TIMEOUT where none came: the time ran out, mcp_queue_wake() ended the wait, or a client's end was
///         all there was to deliver (its destructors have run)
/// Threads: any, one at a time is the sensible number.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_queue_dispatch(queue: *mut mcp_queue, wait_ms: i64, out_count: *mut i32) -> mcp_status {
    status(Function::mcp_queue_dispatch, || {
        let mut unwanted = 0;
        let out_count = if out_count.is_null() { &raw mut unwanted } else { out_count };
        // SAFETY: not NULL by the line above; writable by the contract of this function.
        let out_count = unsafe { out(out_count, 0) }?;
        let held = get::<Queue>(queue)?;
        let count = held.object.dispatch(wait_from_ms(&SystemClock, wait_ms))?;
        *out_count = i32::try_from(count).unwrap_or(i32::MAX);
        Ok(if count > 0 { MCP_OK } else { MCP_S_TIMEOUT })
    })
}

/// Hand out the wake-up descriptor of a queue, for the host's own event loop.
///
/// POSIX: a file descriptor that is readable while events wait (for poll, select, epoll; do not read it). Windows: an
/// event HANDLE that is signalled while events wait. Then call mcp_queue_dispatch(queue, 0, ...).
///
/// @param queue  a queue handle
/// @param out    receives the descriptor; not NULL
/// @return MCP_OK, MCP_E_HANDLE
/// Ownership: the queue's; never close it.   Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_queue_descriptor(queue: *mut mcp_queue, out: *mut i64) -> mcp_status {
    fine(Function::mcp_queue_descriptor, || {
        // SAFETY: NULL or writable, by the contract of this function.
        let out = unsafe { self::out(out, 0) }?;
        *out = get::<Queue>(queue)?.object.descriptor();
        Ok(())
    })
}

/// Make a waiting dispatch return, or the next one that would wait.
///
/// @param queue  a queue handle
/// @return MCP_OK, MCP_E_HANDLE
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_queue_wake(queue: *mut mcp_queue) -> mcp_status {
    fine(Function::mcp_queue_wake, || {
        get::<Queue>(queue)?.object.wake();
        Ok(())
    })
}

/// Free a queue. Close its clients first: events that still wait are dropped, and the destructors of their clients'
/// callbacks run inside this call.
///
/// @param queue  a queue handle, or NULL
/// @return MCP_OK, MCP_E_HANDLE where it was freed before
/// Threads: any, but not while another one dispatches it.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_queue_free(queue: *mut mcp_queue) -> mcp_status {
    status(Function::mcp_queue_free, || {
        if let Some(held) = free::<Queue>(queue)? {
            held.object.close();
        }
        Ok(MCP_OK)
    })
}
