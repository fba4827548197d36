//! The few lines that speak to the operating system directly: boot-time clock, signal mask, floating-point control
//! word, wake-up descriptor, pipes without SIGPIPE, process trees, process id, fork check, library pinning. `unsafe` is
//! allowed in this room, each use with its reason.

#![allow(unsafe_code, reason = "system calls and control registers; each block says why it is sound")]

mod fork;
mod fp;
#[cfg(windows)]
mod job;
mod life;
#[cfg(windows)]
pub(crate) mod named_pipe;
#[cfg(windows)]
#[path = "overlapped.rs"]
pub(crate) mod pipe;
#[cfg(unix)]
pub(crate) mod pipe;
pub(crate) mod process;
mod signals;
mod time;
mod wake;

pub(crate) use fork::is_forked;
pub(crate) use fp::{FpGuard, as_host};
pub(crate) use life::{is_gone, process_name};
pub(crate) use signals::block_signals;
pub(crate) use time::{boot_id, boot_time};
pub(crate) use wake::WakeHandle;

/// The id of this process; changes in a forked child.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// Keeps the library in memory until the process ends, so that unloading it has no effect: a thread-local destructor
/// of ours may still run when a host thread ends. On ELF systems the link flag `-z nodelete` (build.rs) does it.
#[cfg(windows)]
pub(crate) fn pin_library() {
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    };
    let mut module = std::ptr::null_mut();
    let inside = pin_library as *const () as *const u16;
    // SAFETY: with FROM_ADDRESS the name is any address inside the module; `module` outlives the call. A failure
    // leaves the library unpinned, which is the state before the call.
    unsafe {
        GetModuleHandleExW(
            GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
            inside,
            &raw mut module,
        )
    };
}

/// See the Windows twin; here the linker flag `-z nodelete` has done it.
#[cfg(not(windows))]
pub(crate) fn pin_library() {}
