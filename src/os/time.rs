//! Time since boot that goes on while the machine sleeps.

use std::time::Duration;

/// Time since boot, sleep included where the system can tell (Linux, Android: `CLOCK_BOOTTIME`).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn boot_time() -> Duration {
    clock(libc::CLOCK_BOOTTIME)
}

/// Time since boot. On macOS `CLOCK_MONOTONIC` counts sleep.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn boot_time() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

#[cfg(unix)]
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call; on failure it stays zero.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// Time since boot; `GetTickCount64` counts sleep.
#[cfg(windows)]
pub(crate) fn boot_time() -> Duration {
    // SAFETY: takes nothing and cannot fail.
    Duration::from_millis(unsafe { windows_sys::Win32::System::SystemInformation::GetTickCount64() })
}

/// What names this run of the system, where it tells: another one means that all processes of before are gone.
pub(crate) fn boot_id() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}
