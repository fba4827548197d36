//! The signal mask: the library's threads take no signal of the host's.

/// Blocks all signals on this thread until dropped. A thread started meanwhile inherits the full mask, so there is no
/// moment in which it could take a signal.
#[cfg(unix)]
pub(crate) struct SignalBlock {
    before: libc::sigset_t,
}

/// Blocks all signals on this thread; see [`SignalBlock`].
#[cfg(unix)]
pub(crate) fn block_signals() -> SignalBlock {
    // SAFETY: sigset_t is plain data for which all-zero bytes are valid; it is filled before use.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid for the calls; with a valid `how` the call cannot fail.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    SignalBlock { before }
}

#[cfg(unix)]
impl Drop for SignalBlock {
    fn drop(&mut self) {
        // SAFETY: `before` was filled by the system on this thread (the guard is not sent elsewhere: it is a local).
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Windows has no signal mask.
#[cfg(windows)]
pub(crate) struct SignalBlock;

/// Windows has no signal mask.
#[cfg(windows)]
pub(crate) fn block_signals() -> SignalBlock {
    SignalBlock
}
