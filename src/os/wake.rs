//! A wake-up descriptor for a manual queue: readable (POSIX) or signalled (Windows) while events wait.

#[cfg(unix)]
pub(crate) use posix::WakeHandle;
#[cfg(windows)]
pub(crate) use windows::WakeHandle;

#[cfg(unix)]
mod posix {
    use std::io::{self, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// A socket pair: one byte in it while events wait. A socket rather than a pipe, since a write to it can be told
    /// not to raise SIGPIPE (std passes `MSG_NOSIGNAL`).
    pub(crate) struct WakeHandle {
        reader: UnixStream,
        writer: UnixStream,
    }

    impl WakeHandle {
        pub(crate) fn new() -> io::Result<Self> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            Ok(Self { reader, writer })
        }

        /// The number for `poll`, `select` or an event loop.
        pub(crate) fn number(&self) -> i64 {
            i64::from(self.reader.as_raw_fd())
        }

        /// Makes the descriptor readable. A full buffer means that it is already.
        pub(crate) fn set(&self) {
            match (&self.writer).write(&[1]) {
                Ok(_) | Err(_) => {}
            }
        }

        /// Makes the descriptor unreadable.
        pub(crate) fn clear(&self) {
            let mut sink = [0u8; 64];
            while matches!((&self.reader).read(&mut sink), Ok(n) if n > 0) {}
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::io;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::HANDLE;
    use windows_sys::Win32::System::Threading::{CreateEventW, ResetEvent, SetEvent};

    /// A manual-reset event.
    pub(crate) struct WakeHandle(OwnedHandle);

    impl WakeHandle {
        pub(crate) fn new() -> io::Result<Self> {
            // SAFETY: no attributes and no name; a NULL result is checked.
            let event = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
            if event.is_null() {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the handle is new, valid and owned by nobody else.
            Ok(Self(unsafe { OwnedHandle::from_raw_handle(event) }))
        }

        /// The HANDLE for `WaitForMultipleObjects`.
        pub(crate) fn number(&self) -> i64 {
            self.raw() as usize as i64
        }

        /// The same, for calls to the system.
        pub(in crate::os) fn raw(&self) -> HANDLE {
            self.0.as_raw_handle()
        }

        pub(crate) fn set(&self) {
            // SAFETY: the handle is valid as long as `self`.
            unsafe { SetEvent(self.raw()) };
        }

        pub(crate) fn clear(&self) {
            // SAFETY: the handle is valid as long as `self`.
            unsafe { ResetEvent(self.raw()) };
        }
    }
}
