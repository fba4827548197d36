//! Pipes of a two-way channel on Windows, by overlapped I/O: a read that a stop ends, a write that ends with its time, and
//! neither in the other's way. The POSIX twin is `pipe.rs`.
//!
//! The system writes to an `OVERLAPPED`, and reads or fills a buffer, until an operation is over. The rule that keeps all
//! of this sound: nothing that an operation uses is moved, changed or freed before the system has said its last word
//! (`GetOverlappedResult` returned), and a cancelled operation is waited for like any other.
//!
//! The ends of a child's pipes that std hands out are opened for overlapped I/O. On a handle that is not, a read would
//! hold up a write and miss the stop.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::ptr;
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    ERROR_BROKEN_PIPE, ERROR_IO_PENDING, ERROR_PIPE_NOT_CONNECTED, HANDLE, WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows_sys::Win32::Storage::FileSystem::{ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::{INFINITE, WaitForMultipleObjects, WaitForSingleObject};

use super::WakeHandle;

/// One write; as much as the system keeps for a child's pipe.
const MOST: usize = 64 << 10;

/// A pipe has no writes here that go out whole or not at all.
pub(crate) const WHOLE: usize = 0;

/// The reading end of a channel.
pub(crate) struct Inlet<S> {
    source: S,
    done: WakeHandle,
}

impl<S: AsHandle> Inlet<S> {
    /// Takes over a handle that was opened for overlapped I/O.
    pub(crate) fn new(source: S) -> io::Result<Self> {
        Ok(Self { source, done: WakeHandle::new()? })
    }

    /// Reads what comes, waiting for it without limit. 0 is the end; `None` where `stop` was raised first.
    pub(crate) fn read(&mut self, buffer: &mut [u8], stop: &WakeHandle) -> io::Result<Option<usize>> {
        loop {
            match self.read_once(buffer, stop) {
                // A message without bytes, of a pipe that keeps messages apart: it is not the end.
                Ok(Some(0)) => {}
                Err(fault) if is_end(&fault) => return Ok(Some(0)),
                read => return read,
            }
        }
    }

    fn read_once(&mut self, buffer: &mut [u8], stop: &WakeHandle) -> io::Result<Option<usize>> {
        let handle = self.source.as_handle().as_raw_handle();
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let mut overlapped = OVERLAPPED { hEvent: self.done.raw(), ..OVERLAPPED::default() };
        // SAFETY: the handle is open, the length is the buffer's at most; the buffer and `overlapped` outlive the operation,
        // since this function does not return before it is over.
        let started = unsafe { ReadFile(handle, buffer.as_mut_ptr(), length, ptr::null_mut(), &raw mut overlapped) };
        check_started(started)?;
        // The stop counts first: a peer that never stops talking must not hold up the end.
        let both = [stop.raw(), self.done.raw()];
        // SAFETY: the pointer and the count are of one array of open handles.
        let woken = unsafe { WaitForMultipleObjects(2, both.as_ptr(), 0, INFINITE) };
        if woken == WAIT_OBJECT_0 + 1 {
            // SAFETY: the operation that `overlapped` stands for was started on this handle.
            return unsafe { result(handle, &raw const overlapped) }.map(Some);
        }
        let failed = (woken != WAIT_OBJECT_0).then(io::Error::last_os_error);
        // SAFETY: as above. What the result says is of no account any more.
        unsafe {
            CancelIoEx(handle, &raw const overlapped);
            result(handle, &raw const overlapped).map(drop).unwrap_or_default();
        }
        failed.map_or(Ok(None), Err)
    }
}

/// The other side is gone, or the server has let go of this side.
fn is_end(fault: &io::Error) -> bool {
    let code = fault.raw_os_error().and_then(|code| u32::try_from(code).ok());
    matches!(code, Some(ERROR_BROKEN_PIPE | ERROR_PIPE_NOT_CONNECTED))
}

/// An operation that is over or under way is fine.
fn check_started(started: i32) -> io::Result<()> {
    if started != 0 {
        return Ok(());
    }
    let fault = io::Error::last_os_error();
    if fault.raw_os_error() == Some(ERROR_IO_PENDING as i32) { Ok(()) } else { Err(fault) }
}

/// Waits for the end of an operation, and says how many bytes it moved.
///
/// # Safety
/// `overlapped` stands for an operation that was started on `handle`, which is open; both stay where they are meanwhile.
unsafe fn result(handle: HANDLE, overlapped: *const OVERLAPPED) -> io::Result<usize> {
    let mut count = 0;
    // SAFETY: the caller's promise; the count is a local.
    if unsafe { GetOverlappedResult(handle, overlapped, &raw mut count, 1) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(count as usize)
}

/// A write with all that the system needs until it is over.
struct Flight {
    overlapped: OVERLAPPED,
    bytes: Vec<u8>,
}

/// The writing end of a channel.
///
/// A write to a full pipe stays under way, and how much of it would be gone after a cancel nobody can say. So it is left
/// under way when its caller's time is over, and the next write, which must begin with the same bytes, waits for it.
pub(crate) struct Outlet<S: AsHandle> {
    sink: S,
    done: WakeHandle,
    /// Made by `Box::into_raw`, freed by the drop; behind a pointer, since the system writes to it.
    flight: *mut Flight,
    busy: bool,
}

// SAFETY: the pointer is the only one to its target (the system's aside, which asks for no thread).
unsafe impl<S: AsHandle + Send> Send for Outlet<S> {}

impl<S: AsHandle> Outlet<S> {
    /// Takes over a handle that was opened for overlapped I/O.
    pub(crate) fn new(sink: S) -> io::Result<Self> {
        let done = WakeHandle::new()?;
        let flight = Box::into_raw(Box::new(Flight { overlapped: OVERLAPPED::default(), bytes: Vec::new() }));
        Ok(Self { sink, done, flight, busy: false })
    }

    /// Writes some of it. `WouldBlock` where there is no room: the bytes are on their way nevertheless, and the next call
    /// must begin with them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.busy {
            self.begin(&bytes[..bytes.len().min(MOST)])?;
            self.busy = true;
        }
        if !self.is_over(0)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.busy = false;
        // SAFETY: the operation was started on this handle by `begin`, and is over: the event says so.
        unsafe { result(self.raw(), &raw const (*self.flight).overlapped) }
    }

    /// Waits until a write may go on, or the time has passed.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<()> {
        let ms = u32::try_from(limit.as_millis()).unwrap_or(INFINITE - 1).max(1);
        self.is_over(ms).map(drop)
    }

    fn is_over(&self, ms: u32) -> io::Result<bool> {
        // SAFETY: the event is open as long as `self`.
        match unsafe { WaitForSingleObject(self.done.raw(), ms) } {
            WAIT_OBJECT_0 => Ok(true),
            WAIT_TIMEOUT => Ok(false),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether bytes that were answered with `WouldBlock` are on their way nevertheless.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    fn begin(&mut self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: no operation is under way, so nobody else looks at the flight. Its bytes and its `overlapped` stay in
        // place until the operation is over: `write` begins no other one before, and the drop waits.
        let started = unsafe {
            let flight = &mut *self.flight;
            flight.bytes.clear();
            flight.bytes.extend_from_slice(bytes);
            flight.overlapped = OVERLAPPED { hEvent: self.done.raw(), ..OVERLAPPED::default() };
            let (first, length) = (flight.bytes.as_ptr(), flight.bytes.len() as u32);
            WriteFile(self.raw(), first, length, ptr::null_mut(), &raw mut flight.overlapped)
        };
        check_started(started)
    }

    fn raw(&self) -> HANDLE {
        self.sink.as_handle().as_raw_handle()
    }
}

impl<S: AsHandle> Drop for Outlet<S> {
    fn drop(&mut self) {
        // SAFETY: an operation that is under way is ended and waited for; then nobody but us knows the flight.
        unsafe {
            if self.busy {
                CancelIoEx(self.raw(), &raw const (*self.flight).overlapped);
                result(self.raw(), &raw const (*self.flight).overlapped).map(drop).unwrap_or_default();
            }
            drop(Box::from_raw(self.flight));
        }
    }
}
