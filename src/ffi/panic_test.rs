//! Test builds only (feature `panic-test`): an entry point that panics. A worker that panics is had by calling the
//! method `mcpnative/panic`.

use crate::ffi::guard::{Function, fine};
use crate::ffi::status::mcp_status;

/// Panics inside the guard.
/// cbindgen:ignore
#[unsafe(no_mangle)]
pub extern "C" fn mcp_test_panic() -> mcp_status {
    fine(Function::mcp_client_open, || panic!("planted by a test"))
}
