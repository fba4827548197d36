//! A child process with everything that it starts: a process group on POSIX systems, a Job Object on Windows.

use std::process::ExitStatus;

#[cfg(windows)]
pub(crate) use super::job::{Tree, prepare};
#[cfg(unix)]
pub(crate) use posix::{Tree, prepare};

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
    pub(super) fn of(status: Option<ExitStatus>) -> Self {
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
