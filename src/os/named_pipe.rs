//! The client's end of a named pipe of this machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_PIPE_BUSY, ERROR_SEM_TIMEOUT};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OVERLAPPED, FILE_TYPE_PIPE, GetFileType, SECURITY_IDENTIFICATION,
};
use windows_sys::Win32::System::Pipes::WaitNamedPipeW;

/// Opens the pipe of this path (`\\.\pipe\name`) for both directions, for overlapped I/O, as a stream of bytes. `None`
/// where all its instances are taken: none came free within `limit`, or another client was faster.
pub(crate) fn open(path: &str, limit: Duration) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(FILE_FLAG_OVERLAPPED);
    // The server may learn who we are, and must not act in our name: anybody can serve a name that is free.
    options.security_qos_flags(SECURITY_IDENTIFICATION);
    match options.open(path) {
        Ok(file) if is_pipe(&file) => Ok(Some(file)),
        Ok(_) => Err(io::Error::other("it is no pipe")),
        Err(fault) if is(&fault, ERROR_PIPE_BUSY) => wait(path, limit).map(|()| None),
        Err(fault) => Err(fault),
    }
}

fn is_pipe(file: &File) -> bool {
    // SAFETY: the handle is open as long as `file`.
    unsafe { GetFileType(file.as_raw_handle()) == FILE_TYPE_PIPE }
}

/// Waits for a free instance.
fn wait(path: &str, limit: Duration) -> io::Result<()> {
    let path: Vec<u16> = path.encode_utf16().chain([0]).collect();
    // 0 would stand for the server's own limit.
    let ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX - 1).max(1);
    // SAFETY: the path ends with a NUL and outlives the call.
    if unsafe { WaitNamedPipeW(path.as_ptr(), ms) } != 0 {
        return Ok(());
    }
    let fault = io::Error::last_os_error();
    if is(&fault, ERROR_SEM_TIMEOUT) { Ok(()) } else { Err(fault) }
}

fn is(fault: &io::Error, code: u32) -> bool {
    fault.raw_os_error().and_then(|found| u32::try_from(found).ok()) == Some(code)
}
