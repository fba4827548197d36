//! Pipes and sockets of a two-way channel: waiting for one with an end, and writing to one whose other side may be gone
//! without a signal in the host.

#[cfg(unix)]
pub(crate) use posix::{set_nonblocking, wait_readable, wait_readable_for, wait_writable, write_quiet};
#[cfg(windows)]
pub(crate) use windows::{set_nonblocking, wait_readable, wait_writable, write_quiet};

/// A write of so many bytes at most, to a pipe that takes no waiting, goes out whole or not at all (POSIX `PIPE_BUF`).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const WHOLE: usize = 4096;
/// The least that POSIX allows.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) const WHOLE: usize = 512;
/// A pipe has no such writes here.
#[cfg(windows)]
pub(crate) const WHOLE: usize = 0;

/// What a wait for input ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// A read will not block: bytes, the end, or an error.
    Now,
    /// The stop was raised.
    Stopped,
}

#[cfg(unix)]
mod posix {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
    use std::time::Duration;

    use super::Readable;
    use crate::os::WakeHandle;

    /// Writes to it answer at once from now on.
    pub(crate) fn set_nonblocking(file: &impl AsFd) -> io::Result<()> {
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open, since it is borrowed; reading flags changes nothing.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        // SAFETY: as above; only a flag of our own open file description is set.
        if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits, without limit, until a read will not block or `stop` is raised.
    pub(crate) fn wait_readable(file: &impl AsFd, stop: &WakeHandle) -> io::Result<Readable> {
        let stop = libc::c_int::try_from(stop.number()).unwrap_or(-1);
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(file.as_fd().as_raw_fd()), entry(stop)];
        loop {
            poll(&mut entries, -1)?;
            // The stop counts first: a peer that never stops talking must not hold up the end.
            if entries[1].revents != 0 {
                return Ok(Readable::Stopped);
            }
            if entries[0].revents != 0 {
                return Ok(Readable::Now);
            }
        }
    }

    /// The same with a limit, and with a bell that ends the wait without being an end; it is cleared. `None`: nothing yet.
    pub(crate) fn wait_readable_for(
        file: &impl AsFd,
        stop: &WakeHandle,
        bell: &WakeHandle,
        limit: Option<Duration>,
    ) -> io::Result<Option<Readable>> {
        let number = |handle: &WakeHandle| libc::c_int::try_from(handle.number()).unwrap_or(-1);
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(file.as_fd().as_raw_fd()), entry(number(stop)), entry(number(bell))];
        // Rounded up: a limit is never early.
        let ms = limit.map_or(-1, |limit| {
            libc::c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        });
        poll(&mut entries, ms)?;
        if entries[2].revents != 0 {
            bell.clear();
        }
        Ok(match (entries[1].revents != 0, entries[0].revents != 0) {
            (true, _) => Some(Readable::Stopped),
            (false, true) => Some(Readable::Now),
            (false, false) => None,
        })
    }

    /// Waits until a write may go on, or the time has passed.
    pub(crate) fn wait_writable(file: &impl AsFd, limit: Duration) -> io::Result<()> {
        let fd = file.as_fd().as_raw_fd();
        let ms = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX).max(1);
        poll(&mut [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }], ms)
    }

    fn poll(entries: &mut [libc::pollfd], ms: libc::c_int) -> io::Result<()> {
        // SAFETY: the pointer and the count are of one slice, which outlives the call.
        let found = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, ms) };
        if found >= 0 {
            return Ok(());
        }
        let fault = io::Error::last_os_error();
        // A signal handler of the host's ran: the caller looks again.
        if fault.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(fault) }
    }

    /// Writes once. Where nobody reads any more the answer is `BrokenPipe` and no signal: SIGPIPE is blocked on this
    /// thread meanwhile, and one that the write raised is taken away. The process's disposition is never touched.
    pub(crate) fn write_quiet(file: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        let pipe = SigPipe::block();
        let written = write(file.as_fd(), bytes);
        if written.as_ref().is_err_and(|fault| fault.kind() == io::ErrorKind::BrokenPipe) {
            pipe.take_away();
        }
        written
    }

    fn write(file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the pointer and the length are of one slice, which outlives the call.
        let written = unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    /// SIGPIPE blocked on this thread.
    struct SigPipe {
        before: libc::sigset_t,
        /// One was waiting already: it is not ours to take away.
        was_pending: bool,
    }

    impl SigPipe {
        fn block() -> Self {
            let only = only_sigpipe();
            let mut before = empty_set();
            // SAFETY: both sets are valid; with a valid `how` the call cannot fail.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only, &raw mut before) };
            // SAFETY: the set was filled by the call above.
            let was_blocked = unsafe { libc::sigismember(&raw const before, libc::SIGPIPE) } == 1;
            // Where it was not blocked, none can have been waiting on this thread.
            Self { before, was_pending: was_blocked && is_pending() }
        }

        /// Takes the signal that a failed write left on this thread.
        fn take_away(&self) {
            if self.was_pending || !is_pending() {
                return;
            }
            let only = only_sigpipe();
            let mut number = 0;
            // SAFETY: the set is valid, the signal is blocked and pending, so that the call returns at once.
            unsafe { libc::sigwait(&raw const only, &raw mut number) };
        }
    }

    impl Drop for SigPipe {
        fn drop(&mut self) {
            // SAFETY: `before` is what the system gave on this same thread: the guard is a local of one function.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
        }
    }

    fn is_pending() -> bool {
        let mut pending = empty_set();
        // SAFETY: the set is valid and filled by the call.
        unsafe { libc::sigpending(&raw mut pending) == 0 && libc::sigismember(&raw const pending, libc::SIGPIPE) == 1 }
    }

    fn only_sigpipe() -> libc::sigset_t {
        let mut set = empty_set();
        // SAFETY: the set is initialised, the signal number valid.
        unsafe { libc::sigaddset(&raw mut set, libc::SIGPIPE) };
        set
    }

    fn empty_set() -> libc::sigset_t {
        // SAFETY: sigset_t is plain data for which all-zero bytes are valid; sigemptyset then makes it a proper set.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            set
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_write_to_a_dead_reader_raises_nothing_on_an_ordinary_thread() {
            // The test harness ignores SIGPIPE, so the proof is that none is left waiting on a thread that blocks it.
            let (reader, writer) = io::pipe().unwrap();
            drop(reader);
            let outer = SigPipe::block();
            assert!(!outer.was_pending);
            let fault = write_quiet(&writer, b"x").unwrap_err();
            assert_eq!(fault.kind(), io::ErrorKind::BrokenPipe);
            assert!(!is_pending());
        }

        #[test]
        fn a_full_pipe_answers_at_once_and_a_stop_ends_a_wait() {
            let (reader, writer) = io::pipe().unwrap();
            set_nonblocking(&writer).unwrap();
            let chunk = [0u8; 4096];
            let full = loop {
                if let Err(fault) = write_quiet(&writer, &chunk) {
                    break fault;
                }
            };
            assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
            let stop = WakeHandle::new().unwrap();
            assert_eq!(wait_readable(&reader, &stop).unwrap(), Readable::Now);
            stop.set();
            assert_eq!(wait_readable(&reader, &stop).unwrap(), Readable::Stopped);
        }
    }
}

/// Windows: pipes block, no signal exists, and the end of a job object ends a blocked read or write.
#[cfg(windows)]
mod windows {
    use std::io::{self, Write};
    use std::time::Duration;

    use super::Readable;
    use crate::os::WakeHandle;

    pub(crate) fn set_nonblocking<T>(_: &T) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn wait_readable<T>(_: &T, _: &WakeHandle) -> io::Result<Readable> {
        Ok(Readable::Now)
    }

    pub(crate) fn wait_writable<T>(_: &T, _: Duration) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn write_quiet<T>(file: &T, bytes: &[u8]) -> io::Result<usize>
    where
        for<'a> &'a T: Write,
    {
        let mut file = file;
        file.write(bytes)
    }
}
