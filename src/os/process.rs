//! A child process with everything that it starts: a process group on POSIX systems, a Job Object on Windows.

use std::process::ExitStatus;

#[cfg(unix)]
pub(crate) use posix::{Tree, prepare};
#[cfg(windows)]
pub(crate) use windows::{Tree, prepare};

/// How the child itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its exit code, where it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// `None`: the host collects its children itself and took this one's status.
    fn of(status: Option<ExitStatus>) -> Self {
        #[cfg(unix)]
        let signal = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status));
        #[cfg(windows)]
        let signal = None;
        Self { code: status.and_then(|status| status.code()), signal }
    }
}

#[cfg(unix)]
mod posix {
    use std::io;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, ExitStatus};

    use parking_lot::Mutex;

    use super::{Exit, is_running};

    /// The child leads a group of its own: a signal to the host's group (Ctrl-C) is not for it, and one call reaches
    /// all that it starts. It starts with no signal blocked (our threads block all, and std hands the mask on: such a
    /// child could not be asked to end) and none ignored.
    ///
    /// The price of `pre_exec` is that std forks instead of using `posix_spawn`. Lifting the mask on this thread for a
    /// moment would save that, and let a handler of the host's run on a thread of the library's.
    pub(crate) fn prepare(command: &mut Command) {
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe functions may be called: `signals_to_default` calls
        // signal, sigemptyset and pthread_sigmask, touches its own stack alone, and allocates nothing.
        unsafe { command.pre_exec(signals_to_default) };
    }

    fn signals_to_default() -> io::Result<()> {
        /// The classic signals; the real-time ones are ignored by nobody.
        const LAST: libc::c_int = 31;
        // First the dispositions: with the mask lifted, a handler of the host's could run in the child.
        for number in (1..=LAST).filter(|number| !matches!(*number, libc::SIGKILL | libc::SIGSTOP)) {
            // SAFETY: takes numbers only; one that is no signal here is refused.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        // SAFETY: sigset_t is plain data for which all-zero bytes are valid; sigemptyset makes it a proper set.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        }
        Ok(())
    }

    /// A child and its process group.
    pub(crate) struct Tree {
        id: libc::pid_t,
        stage: Mutex<Stage>,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Stage {
        /// The id is the child's for certain.
        Unreaped,
        /// The id is the group's as long as that has members.
        Reaped,
        /// The id may be a stranger's: no signal is sent any more.
        Gone,
    }

    impl Tree {
        /// Takes over a child that was started with [`prepare`]; nobody else may wait for it.
        pub(crate) fn adopt(child: &Child) -> io::Result<Self> {
            let id = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
            Ok(Self { id, stage: Mutex::new(Stage::Unreaped) })
        }

        /// Waits until the child has exited, and takes its status: no zombie stays.
        pub(crate) fn wait(&self) -> Exit {
            self.wait_unreaped();
            // Under the lock, so that no signal is sent between the end of the id and the note of it.
            let mut stage = self.stage.lock();
            let mut status = 0;
            // SAFETY: the status is a local; the child has exited, so the call returns at once.
            let collected = unsafe { libc::waitpid(self.id, &raw mut status, 0) } == self.id;
            *stage = Stage::Reaped;
            Exit::of(collected.then(|| ExitStatus::from_raw(status)))
        }

        fn wait_unreaped(&self) {
            loop {
                // SAFETY: siginfo_t is plain data for which all-zero bytes are valid; it outlives the call.
                let failed = unsafe {
                    let mut info: libc::siginfo_t = std::mem::zeroed();
                    let id = libc::id_t::try_from(self.id).unwrap_or_default();
                    libc::waitid(libc::P_PID, id, &raw mut info, libc::WEXITED | libc::WNOWAIT) != 0
                };
                // ECHILD: somebody else in the host collected it (a handler of SIGCHLD, or SIGCHLD ignored).
                if !failed || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                    return;
                }
            }
        }

        /// Asks all of the group to end.
        pub(crate) fn ask_to_end(&self) {
            self.signal(*self.stage.lock(), libc::SIGTERM);
        }

        /// Ends all of the group.
        pub(crate) fn kill(&self) {
            self.signal(*self.stage.lock(), libc::SIGKILL);
        }

        /// True once the child is collected and nothing of its group runs any more.
        pub(crate) fn is_gone(&self) -> bool {
            let mut stage = self.stage.lock();
            if *stage == Stage::Reaped && !(self.signal(*stage, 0) && is_running(self.id)) {
                *stage = Stage::Gone;
            }
            *stage == Stage::Gone
        }

        /// True where the signal reached somebody. Called under the lock, so that the stage cannot change meanwhile.
        /// The group's id cannot be another's while it has a member, and no signal is sent once it was seen empty;
        /// between the two lie moments against a whole turn of the ids.
        fn signal(&self, stage: Stage, number: libc::c_int) -> bool {
            // SAFETY: takes numbers only. The id is above 1 (it came from a started child), so this is one group.
            stage != Stage::Gone && self.id > 1 && unsafe { libc::kill(-self.id, number) } == 0
        }
    }
}

/// True where a process of this group runs. A grandchild that has ended belongs to the init process, which may take its
/// time to collect it (in a container it may never); such a zombie still hears signals, but nothing of it is left.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_running(group: libc::pid_t) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return true;
    };
    let numbers = entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    numbers.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok()).any(|stat| {
        // `pid (name) state parent group …`; the name may hold anything, a parenthesis, too (proc(5)).
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, of_group) = (fields.next(), fields.nth(1).and_then(|text| text.parse().ok()));
        of_group == Some(group) && !matches!(state, Some("Z" | "X"))
    })
}

/// Elsewhere a zombie counts as running: it costs the graces of the ladder, and nothing else.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn is_running(_group: libc::pid_t) -> bool {
    true
}

#[cfg(windows)]
mod windows {
    use std::io;
    use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
    use std::os::windows::process::{CommandExt, ExitStatusExt};
    use std::os::windows::raw::HANDLE;
    use std::process::{Child, Command, ExitStatus};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::Exit;

    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    const INFINITE: u32 = u32::MAX;
    const EXTENDED_LIMITS: i32 = 9;
    const KILL_ON_JOB_CLOSE: u32 = 0x2000;
    const BASIC_ACCOUNTING: i32 = 1;

    #[repr(C)]
    #[derive(Default)]
    struct BasicLimits {
        per_process_time: i64,
        per_job_time: i64,
        flags: u32,
        least_set: usize,
        most_set: usize,
        active: u32,
        affinity: usize,
        priority: u32,
        scheduling: u32,
    }

    #[repr(C)]
    #[derive(Default)]
    struct ExtendedLimits {
        basic: BasicLimits,
        io: [u64; 6],
        process_memory: usize,
        job_memory: usize,
        peak_process_memory: usize,
        peak_job_memory: usize,
    }

    #[repr(C)]
    #[derive(Default)]
    struct Accounting {
        times: [i64; 4],
        faults: u32,
        total: u32,
        active: u32,
        terminated: u32,
    }

    unsafe extern "system" {
        fn CreateJobObjectW(attributes: *const u8, name: *const u16) -> HANDLE;
        fn SetInformationJobObject(job: HANDLE, class: i32, info: *const u8, length: u32) -> i32;
        fn QueryInformationJobObject(job: HANDLE, class: i32, info: *mut u8, length: u32, used: *mut u32) -> i32;
        fn AssignProcessToJobObject(job: HANDLE, process: HANDLE) -> i32;
        fn TerminateJobObject(job: HANDLE, code: u32) -> i32;
        fn WaitForSingleObject(handle: HANDLE, ms: u32) -> u32;
        fn GetExitCodeProcess(process: HANDLE, code: *mut u32) -> i32;
    }

    /// No console window pops up for a server of a program without a console.
    pub(crate) fn prepare(command: &mut Command) {
        command.creation_flags(CREATE_NO_WINDOW);
    }

    /// A child in a job of its own. The job's last handle ends everything in it, also where the host crashes.
    pub(crate) struct Tree {
        job: OwnedHandle,
        process: OwnedHandle,
        exited: AtomicBool,
    }

    impl Tree {
        /// Takes over a child. What it started before this line is outside the job: std offers no way to start it
        /// suspended and resume it, and a process takes longer to come up than these few calls.
        pub(crate) fn adopt(child: &Child) -> io::Result<Self> {
            // SAFETY: the handle is the child's, open as long as `child`.
            let process = unsafe { BorrowedHandle::borrow_raw(child.as_raw_handle()) }.try_clone_to_owned()?;
            // SAFETY: no attributes and no name; NULL is checked.
            let job = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: new, valid, nobody else's.
            let job = unsafe { OwnedHandle::from_raw_handle(job) };
            let mut limits = ExtendedLimits::default();
            limits.basic.flags = KILL_ON_JOB_CLOSE;
            let length = size_of::<ExtendedLimits>() as u32;
            // SAFETY: the structure has the layout and the length of its class; both handles are open.
            let done = unsafe {
                SetInformationJobObject(job.as_raw_handle(), EXTENDED_LIMITS, (&raw const limits).cast(), length) != 0
                    && AssignProcessToJobObject(job.as_raw_handle(), process.as_raw_handle()) != 0
            };
            if !done {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { job, process, exited: AtomicBool::new(false) })
        }

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

        pub(crate) fn kill(&self) {
            // SAFETY: the handle is open as long as `self`.
            unsafe { TerminateJobObject(self.job.as_raw_handle(), 1) };
        }

        pub(crate) fn is_gone(&self) -> bool {
            let mut counts = Accounting::default();
            let length = size_of::<Accounting>() as u32;
            // SAFETY: the structure has the layout and the length of its class.
            let known = unsafe {
                QueryInformationJobObject(
                    self.job.as_raw_handle(),
                    BASIC_ACCOUNTING,
                    (&raw mut counts).cast(),
                    length,
                    std::ptr::null_mut(),
                ) != 0
            };
            self.exited.load(Ordering::Acquire) && (!known || counts.active == 0)
        }
    }
}
