//! Time in the host's hands, for the host's tests.

use crate::client::{advance_clock, hold_clock, release_clock};
use crate::ffi::guard::{Function, status};
use crate::ffi::status::{MCP_OK, MCP_S_ALREADY_DONE, MCP_S_TIMEOUT, mcp_status};

/// Take the clock of tasks into your hands, for tests: it stands still until mcp_clock_advance() moves it.
///
/// One clock for the process. What goes by it: when a task is polled, its time to live and MCP_SNAPSHOT_OVERDUE, the
/// pauses after failed polls, how long a server may be out of reach or not know a task, what is told and stored of these,
/// and how long an answer is kept by its ttlMs. What stays with the system's clock: every wait_ms and with it
/// mcp_task_wait(), all of settings.timeouts and settings.restart, total_ms and idle_ms of a call, retries of a request,
/// sockets. A program that never calls this has the system's clock.
///
/// @return MCP_OK, MCP_S_ALREADY_DONE where it is held already, MCP_E_STATE while there is a client that has not closed
///         (mcp_client_wait_closed())
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_clock_hold() -> mcp_status {
    status(Function::mcp_clock_hold, || Ok(done(hold_clock()?)))
}

/// Move the held clock forward: monotonic time, time since boot and wall time alike.
///
/// It goes from one due time to the next: whatever fell due is asked, and answered, before time goes on, so that a
/// job that wants a poll each hour gets one for each. When this returns MCP_OK, nothing is under way; events are delivered as
/// ever, by their thread or queue. Where an answer does not come within wait_ms the clock goes to its end without it,
/// what has fallen due meanwhile is handed out once, and MCP_S_TIMEOUT is returned: with a wait_ms of 0 that is all.
///
/// @param ms       how far, in ms; 0 only waits until nothing is under way
/// @param wait_ms  how long answers are waited for in all, in ms of the system's clock; -1 without limit
/// @return MCP_OK, MCP_S_TIMEOUT, MCP_E_STATE where the clock is not held or another thread moves it, MCP_E_ARGUMENT for an ms below 0 or of more
///         than 100 years
/// Threads: any.   Callbacks: MCP_E_REENTRANT.   Blocks: up to wait_ms.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_clock_advance(ms: i64, wait_ms: i64) -> mcp_status {
    status(Function::mcp_clock_advance, || Ok(if advance_clock(ms, wait_ms)? { MCP_OK } else { MCP_S_TIMEOUT }))
}

/// Give the clock back to the system.
///
/// A held clock is held until then, also over mcp_shutdown().
///
/// @return MCP_OK, MCP_S_ALREADY_DONE where it is not held, MCP_E_STATE while there is a client that has not closed
/// Threads: any.   Callbacks: safe.   Blocks: never.   Since: ABI 1
#[unsafe(no_mangle)]
pub extern "C" fn mcp_clock_release() -> mcp_status {
    status(Function::mcp_clock_release, || Ok(done(release_clock()?)))
}

fn done(changed: bool) -> mcp_status {
    if changed { MCP_OK } else { MCP_S_ALREADY_DONE }
}
