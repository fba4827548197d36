//! Whether this process is a forked child of the one that used the library first.

pub(crate) use mark::is_forked;

/// One byte in a page that the kernel clears in every child, however it was made (`MADV_WIPEONFORK`, Linux 4.14). A
/// process id would do, but asking for it is a system call at each entry point.
#[cfg(target_os = "linux")]
mod mark {
    use std::ptr::{null_mut, without_provenance_mut};
    use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

    /// The byte; NULL before the first use. Never unmapped once it is here.
    static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
    /// Room for the byte; the kernel rounds it up to a page.
    const SIZE: usize = 1;

    pub(crate) fn is_forked() -> bool {
        let mut mark = MARK.load(Ordering::Acquire);
        if mark.is_null() {
            let Some(made) = make() else {
                // No page, or an old kernel: the slower way.
                return super::by_id::is_forked();
            };
            match MARK.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => mark = made,
                Err(there) => {
                    unmap(made);
                    mark = there;
                }
            }
        }
        // SAFETY: what `make` has mapped and nobody unmaps once it stands in `MARK`.
        unsafe { (*mark).load(Ordering::Relaxed) == 0 }
    }

    fn make() -> Option<*mut AtomicU8> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address of the system's choice touches no memory of ours.
        let page = unsafe { libc::mmap(null_mut(), SIZE, access, kind, -1, 0) };
        if page == libc::MAP_FAILED || page == without_provenance_mut(0) {
            return None;
        }
        let mark: *mut AtomicU8 = page.cast();
        // SAFETY: the page is mapped, as checked above, and only this function knows of it.
        let wiped = unsafe { libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) };
        if wiped != 0 {
            unmap(mark);
            return None;
        }
        // SAFETY: mapped and writable; any byte is a valid value.
        unsafe { (*mark).store(1, Ordering::Relaxed) };
        Some(mark)
    }

    fn unmap(mark: *mut AtomicU8) {
        // SAFETY: a page of `make` that is not in `MARK`, so nobody else knows of it. A failure leaves a page behind.
        unsafe { libc::munmap(mark.cast(), SIZE) };
    }
}

#[cfg(not(target_os = "linux"))]
use by_id as mark;

mod by_id {
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The process that used the library first.
    static OWNER: AtomicU32 = AtomicU32::new(0);

    pub(crate) fn is_forked() -> bool {
        let here = crate::os::process_id();
        match OWNER.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => false,
            Err(owner) => owner != here,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    #[test]
    fn a_forked_child_is_told_apart() {
        assert!(!super::is_forked() && !super::by_id::is_forked());
        // SAFETY: the child calls nothing but atomics, `getpid` and `_exit`; the parent waits for it.
        let (child, status) = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(super::is_forked()) + 2 * i32::from(super::by_id::is_forked()));
            }
            let mut status = 0;
            (libc::waitpid(child, &raw mut status, 0), status)
        };
        assert!(child > 0 && libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), 3);
        assert!(!super::is_forked());
    }
}
