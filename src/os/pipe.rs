//! Pipes and sockets of a two-way channel on POSIX systems: a read that a stop ends, and a write that ends with its time
//! and raises no signal in the host where the other side is gone. The Windows twin is `overlapped.rs`.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use super::WakeHandle;

/// The reading end of a channel.
pub(crate) struct Inlet<S>(S);

impl<S: AsFd + Read> Inlet<S> {
    /// Nothing to prepare here.
    #[allow(clippy::unnecessary_wraps, reason = "the Windows twin may fail")]
    pub(crate) fn new(source: S) -> io::Result<Self> {
        Ok(Self(source))
    }

    /// Reads what comes, waiting for it without limit. 0 is the end; `None` where `stop` was raised first.
    pub(crate) fn read(&mut self, buffer: &mut [u8], stop: &WakeHandle) -> io::Result<Option<usize>> {
        loop {
            if wait_readable(&self.0, stop)? == Readable::Stopped {
                return Ok(None);
            }
            match self.0.read(buffer) {
                Err(fault) if matches!(fault.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                read => return read.map(Some),
            }
        }
    }

    /// Reads what comes within `limit`; `None` where nothing did, or the bell rang, which is cleared. 0 is the end or
    /// the stop.
    pub(crate) fn read_for(
        &mut self,
        buffer: &mut [u8],
        stop: &WakeHandle,
        bell: &WakeHandle,
        limit: Option<Duration>,
    ) -> io::Result<Option<usize>> {
        match wait_readable_for(&self.0, stop, bell, limit)? {
            None => return Ok(None),
            Some(Readable::Stopped) => return Ok(Some(0)),
            Some(Readable::Now) => {}
        }
        match self.0.read(buffer) {
            Err(fault) if matches!(fault.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(None),
            read => read.map(Some),
        }
    }
}

/// A write of so many bytes at most, to a pipe that takes no waiting, goes out whole or not at all (POSIX `PIPE_BUF`).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const WHOLE: usize = 4096;
/// The least that POSIX allows.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const WHOLE: usize = 512;

/// The writing end of a channel.
pub(crate) struct Outlet<S>(S);

impl<S: AsFd> Outlet<S> {
    /// Takes over the end; writes to it answer at once from now on.
    pub(crate) fn new(sink: S) -> io::Result<Self> {
        set_nonblocking(&sink)?;
        Ok(Self(sink))
    }

    /// Writes as much as there is room for; `WouldBlock` where there is none.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_quiet(&self.0, bytes)
    }

    /// Waits until a write may go on, or the time has passed.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<()> {
        wait_writable(&self.0, limit)
    }

    /// Whether bytes that were answered with `WouldBlock` are on their way nevertheless: here never.
    pub(crate) fn is_busy(&self) -> bool {
        false
    }
}

/// What a wait for input ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readable {
    /// A read will not block: bytes, the end, or an error.
    Now,
    /// The stop was raised.
    Stopped,
}

fn set_nonblocking(file: &impl AsFd) -> io::Result<()> {
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
fn wait_readable(file: &impl AsFd, stop: &WakeHandle) -> io::Result<Readable> {
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
fn wait_readable_for(
    file: &impl AsFd,
    stop: &WakeHandle,
    bell: &WakeHandle,
    limit: Option<Duration>,
) -> io::Result<Option<Readable>> {
    let number = |handle: &WakeHandle| libc::c_int::try_from(handle.number()).unwrap_or(-1);
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries = [entry(file.as_fd().as_raw_fd()), entry(number(stop)), entry(number(bell))];
    // Rounded up: a limit is never early.
    let ms = limit
        .map_or(-1, |limit| libc::c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX));
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
fn wait_writable(file: &impl AsFd, limit: Duration) -> io::Result<()> {
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
fn write_quiet(file: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
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
        let (mut inlet, mut outlet) = (Inlet::new(reader).unwrap(), Outlet::new(writer).unwrap());
        let mut chunk = [0u8; 4096];
        let full = loop {
            if let Err(fault) = outlet.write(&chunk) {
                break fault;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let stop = WakeHandle::new().unwrap();
        assert_eq!(inlet.read(&mut chunk, &stop).unwrap(), Some(4096));
        stop.set();
        assert_eq!(inlet.read(&mut chunk, &stop).unwrap(), None);
    }
}
