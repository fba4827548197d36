//! A child process with everything that it starts, on Windows: a Job Object.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicAccountingInformation,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_SUSPENDED, GetExitCodeProcess, INFINITE, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
    WaitForSingleObject,
};

use super::process::Exit;

/// The child waits for [`Tree::adopt`], so that nothing it starts is outside the job; and no console window pops up for a
/// server of a program without a console.
pub(crate) fn prepare(command: &mut Command) {
    command.creation_flags(CREATE_NO_WINDOW | CREATE_SUSPENDED);
}

/// A child in a job of its own. The job's last handle ends everything in it, also where the host crashes.
pub(crate) struct Tree {
    job: OwnedHandle,
    process: OwnedHandle,
    exited: AtomicBool,
}

impl Tree {
    /// Takes over a child that was started with [`prepare`], and lets it run.
    pub(crate) fn adopt(child: &Child) -> io::Result<Self> {
        // SAFETY: the handle is the child's, open as long as `child`.
        let process = unsafe { BorrowedHandle::borrow_raw(child.as_raw_handle()) }.try_clone_to_owned()?;
        // SAFETY: no attributes and no name; NULL is checked.
        let job = unsafe { CreateJobObjectW(null(), null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new, valid, nobody else's.
        let job = unsafe { OwnedHandle::from_raw_handle(job) };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let (class, length) = (JobObjectExtendedLimitInformation, size_of_val(&limits) as u32);
        // SAFETY: the structure has the layout and the length of its class; both handles are open.
        let done = unsafe {
            SetInformationJobObject(job.as_raw_handle(), class, (&raw const limits).cast(), length) != 0
                && AssignProcessToJobObject(job.as_raw_handle(), process.as_raw_handle()) != 0
        };
        if !done {
            return Err(io::Error::last_os_error());
        }
        resume(child.id())?;
        Ok(Self { job, process, exited: AtomicBool::new(false) })
    }

    /// Waits until the child has exited.
    pub(crate) fn wait(&self) -> Exit {
        let mut code = 0;
        // SAFETY: the handle is open as long as `self`; the code is a local.
        let known = unsafe {
            WaitForSingleObject(self.process.as_raw_handle(), INFINITE);
            GetExitCodeProcess(self.process.as_raw_handle(), &raw mut code) != 0
        };
        self.exited.store(true, Ordering::Release);
        Exit::of(known.then(|| ExitStatus::from_raw(code)))
    }

    /// Windows has no soft signal that a program without a console would hear.
    pub(crate) fn ask_to_end(&self) {}

    /// Ends all of the job.
    pub(crate) fn kill(&self) {
        // SAFETY: the handle is open as long as `self`.
        unsafe { TerminateJobObject(self.job.as_raw_handle(), 1) };
    }

    /// True once the child has ended and nothing of its job runs any more.
    pub(crate) fn is_gone(&self) -> bool {
        let mut counts = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        let (class, length) = (JobObjectBasicAccountingInformation, size_of_val(&counts) as u32);
        // SAFETY: the structure has the layout and the length of its class; the handle is open as long as `self`.
        let known = unsafe {
            let counts = (&raw mut counts).cast();
            QueryInformationJobObject(self.job.as_raw_handle(), class, counts, length, null_mut()) != 0
        };
        self.exited.load(Ordering::Acquire) && (!known || counts.ActiveProcesses == 0)
    }
}

/// Lets a process run that was started suspended. std keeps the handle of its first thread to itself, so that is looked
/// for among all threads; a suspended process has no other.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: takes numbers only; the result is checked.
    let threads = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if threads == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, valid, nobody else's.
    let threads = unsafe { OwnedHandle::from_raw_handle(threads) };
    let mut entry = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..THREADENTRY32::default() };
    let mut resumed = false;
    // SAFETY: the handle is open, the entry says its own size.
    let mut more = unsafe { Thread32First(threads.as_raw_handle(), &raw mut entry) } != 0;
    while more {
        if entry.th32OwnerProcessID == process {
            resume_thread(entry.th32ThreadID)?;
            resumed = true;
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(threads.as_raw_handle(), &raw mut entry) } != 0;
    }
    if resumed { Ok(()) } else { Err(io::Error::other("its first thread cannot be found")) }
}

fn resume_thread(id: u32) -> io::Result<()> {
    // SAFETY: takes numbers only; NULL is checked.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, id) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, valid, nobody else's.
    let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
    // SAFETY: the handle is open.
    if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
