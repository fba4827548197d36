//! Which process this is, in a word that others can ask about: whether a process that left its name in a file is gone.

#[cfg(not(windows))]
use linux::{seen, world};
#[cfg(windows)]
use windows::{seen, world};

/// What the system says of a process id.
enum Seen {
    /// Nobody has it, or only the remains of a process.
    Nobody,
    /// Somebody; who that is, we may not know.
    #[cfg(windows)]
    Somebody,
    /// A process that was started then, by the system's own count.
    Since(String),
}

/// The name of this process; `None` where the system offers none that others could look up.
pub(crate) fn process_name() -> Option<String> {
    let (world, pid) = (world()?, super::process_id());
    match seen(pid) {
        Seen::Since(started) => Some(format!("{world} {pid} {started}")),
        #[cfg(windows)]
        Seen::Somebody => None,
        Seen::Nobody => None,
    }
}

/// True where the process of this name has certainly ended; false also where nobody can tell.
pub(crate) fn is_gone(name: &str) -> bool {
    let Some(here) = world() else { return false };
    let Some((world, rest)) = name.split_once(' ') else { return false };
    let Some((pid, start)) = rest.split_once(' ') else { return false };
    let Ok(pid) = pid.parse() else { return false };
    // Another boot, or other process ids (a container): nothing can be said.
    world == here
        && match seen(pid) {
            Seen::Nobody => true,
            #[cfg(windows)]
            Seen::Somebody => false,
            Seen::Since(found) => found != start,
        }
}

/// Linux; elsewhere on POSIX there is no `/proc` to look into, and no world.
#[cfg(not(windows))]
mod linux {
    use super::Seen;

    /// Where process ids mean the same: this boot of the machine, this namespace.
    pub(super) fn world() -> Option<String> {
        let boot = crate::os::boot_id()?;
        let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let space = space.to_str()?.trim_start_matches("pid:").to_owned();
        Some(format!("{boot}{space}"))
    }

    pub(super) fn seen(pid: u32) -> Seen {
        started(pid).map_or(Seen::Nobody, Seen::Since)
    }

    fn started(pid: u32) -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name in brackets and may hold anything.
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?;
        // A zombie is what is left of a process.
        if matches!(state, "Z" | "X") {
            return None;
        }
        fields.nth(18).map(str::to_owned)
    }
}

#[cfg(windows)]
mod windows {
    use std::io;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, FILETIME, WAIT_TIMEOUT};
    use windows_sys::Win32::System::SystemInformation::{ComputerNameNetBIOS, GetComputerNameExW};
    use windows_sys::Win32::System::Threading::{
        GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE, WaitForSingleObject,
    };

    use super::Seen;

    /// Where process ids mean the same: this machine. A process is told from one of an earlier boot by its start, which is
    /// a time of the calendar.
    pub(super) fn world() -> Option<String> {
        let mut name = [0u16; 64];
        let mut length = name.len() as u32;
        // SAFETY: the buffer has the length that is told; on success the length is that of the name.
        let known = unsafe { GetComputerNameExW(ComputerNameNetBIOS, name.as_mut_ptr(), &raw mut length) } != 0;
        let name = name.get(..length as usize).filter(|_| known)?;
        let name = String::from_utf16(name).ok()?;
        Some(format!("windows:{}", name.replace(' ', "_")))
    }

    pub(super) fn seen(pid: u32) -> Seen {
        // SAFETY: takes numbers only; NULL is checked.
        let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE, 0, pid) };
        if process.is_null() {
            let nobody = io::Error::last_os_error().raw_os_error() == Some(ERROR_INVALID_PARAMETER as i32);
            return if nobody { Seen::Nobody } else { Seen::Somebody };
        }
        // SAFETY: new, valid, nobody else's.
        let process = unsafe { OwnedHandle::from_raw_handle(process) };
        // SAFETY: the handle is open. An ended process has an id as long as somebody holds a handle of it.
        if unsafe { WaitForSingleObject(process.as_raw_handle(), 0) } != WAIT_TIMEOUT {
            return Seen::Nobody;
        }
        let mut times = [FILETIME::default(); 4];
        let [created, exited, kernel, user] = &mut times;
        // SAFETY: the handle is open, the four times are locals.
        if unsafe { GetProcessTimes(process.as_raw_handle(), created, exited, kernel, user) } == 0 {
            return Seen::Somebody;
        }
        Seen::Since(format!("{}", u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime)))
    }
}

#[cfg(all(test, any(target_os = "linux", windows)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_has_ended_and_a_reused_id_is_another_one() {
        let me = process_name().unwrap();
        assert!(!is_gone(&me));
        let (before, _) = me.rsplit_once(' ').unwrap();
        assert!(is_gone(&format!("{before} 1")), "the same id, started at another time");
        // This test program lists no test and ends.
        let program = std::env::current_exe().unwrap();
        let mut lister = std::process::Command::new(program);
        let mut child = lister.args(["--list", "no such test"]).stdout(std::process::Stdio::null()).spawn().unwrap();
        let world = me.split(' ').next().unwrap();
        child.wait().unwrap();
        assert!(is_gone(&format!("{world} {} 12345", child.id())));
        assert!(!is_gone("elsewhere 1 1") && !is_gone("") && !is_gone("x y z"), "nobody can tell");
    }
}
