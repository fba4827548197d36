//! The floating-point control word: Delphi and Free Pascal hosts unmask exceptions, and Rust code must run with all
//! of them masked, or a number such as 1e999 in a server's JSON would raise a signal in the host.

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
mod word {
    use std::arch::asm;

    /// MXCSR with all exceptions masked, round to nearest (Intel SDM, vol. 1, 10.2.3).
    const DEFAULT_MXCSR: u32 = 0x1F80;
    /// x87 control word with all exceptions masked, extended precision (Intel SDM, vol. 1, 8.1.5).
    const DEFAULT_X87: u16 = 0x037F;

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Word {
        mxcsr: u32,
        x87: u16,
    }

    pub(super) const DEFAULT: Word = Word { mxcsr: DEFAULT_MXCSR, x87: DEFAULT_X87 };

    impl Word {
        /// Only the control bits: the sticky status flags are the host's business.
        pub(super) fn is_default(self) -> bool {
            self.mxcsr & !0x3F == DEFAULT_MXCSR && self.x87 == DEFAULT_X87
        }
    }

    /// Traps for invalid operation, division by zero and overflow armed, as Pascal hosts have them.
    #[cfg(test)]
    pub(super) fn armed() -> Word {
        Word { mxcsr: DEFAULT_MXCSR & !0x0680, x87: DEFAULT_X87 & !0x000D }
    }

    pub(super) fn read() -> Word {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: stores the two control words into locals of the right size; SSE is part of both targets.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags));
            asm!("fnstcw word ptr [{}]", in(reg) &raw mut x87, options(nostack, preserves_flags));
        }
        Word { mxcsr, x87 }
    }

    pub(super) fn write(word: Word) {
        // SAFETY: loads control words that are either the default or were read from the processor. `fnclex` first:
        // with an unmasked x87 exception pending, `fldcw` would raise it.
        unsafe {
            asm!("fnclex", "fldcw word ptr [{}]", in(reg) &raw const word.x87, options(nostack, preserves_flags));
            asm!("ldmxcsr [{}]", in(reg) &raw const word.mxcsr, options(nostack, preserves_flags));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod word {
    use std::arch::asm;

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Word(u64);

    /// FPCR with no trap enabled, round to nearest (Arm ARM, FPCR).
    pub(super) const DEFAULT: Word = Word(0);

    impl Word {
        pub(super) fn is_default(self) -> bool {
            self == DEFAULT
        }
    }

    pub(super) fn read() -> Word {
        let word: u64;
        // SAFETY: reads a control register that user code may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        Word(word)
    }

    pub(super) fn write(word: Word) {
        // SAFETY: writes the default or a value read from the same register.
        unsafe { asm!("msr fpcr, {}", in(reg) word.0, options(nomem, nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
mod word {
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) struct Word;
    pub(super) const DEFAULT: Word = Word;
    impl Word {
        pub(super) fn is_default(self) -> bool {
            true
        }
    }
    pub(super) fn read() -> Word {
        Word
    }
    pub(super) fn write(_: Word) {}
}

thread_local! {
    /// The host's word, while this thread is inside an entry point.
    static HOST: std::cell::Cell<Option<word::Word>> = const { std::cell::Cell::new(None) };
}

/// The default control word from now until dropped; then the host's again.
pub(crate) struct FpGuard {
    host: word::Word,
    outer: Option<word::Word>,
}

impl FpGuard {
    /// Saves the host's word and loads the default one.
    pub(crate) fn enter() -> Self {
        let host = word::read();
        // Reading is cheap; writing is not, and most hosts have the default.
        if !host.is_default() {
            word::write(word::DEFAULT);
        }
        Self { host, outer: HOST.with(|cell| cell.replace(Some(host))) }
    }
}

impl Drop for FpGuard {
    fn drop(&mut self) {
        HOST.with(|cell| cell.set(self.outer));
        if !self.host.is_default() {
            word::write(self.host);
        }
    }
}

/// Runs the host's code: a callback on the host's own thread under the host's word; then that of before is back, which
/// is the host's again where host code runs inside host code. Whatever word that code leaves behind (the start-up of a
/// language's run-time on a thread of ours, say) does not stay.
pub(crate) fn as_host<T>(run: impl FnOnce() -> T) -> T {
    struct Back(word::Word);
    impl Drop for Back {
        fn drop(&mut self) {
            if word::read() != self.0 {
                word::write(self.0);
            }
        }
    }
    let _back = Back(word::read());
    if let Some(host) = HOST.with(std::cell::Cell::get).filter(|word| !word.is_default()) {
        word::write(host);
    }
    run()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_word_comes_back() {
        let before = word::read();
        {
            let _guard = FpGuard::enter();
            assert!(word::read().is_default());
            as_host(|| assert!(word::read() == before));
        }
        assert!(word::read() == before);
    }

    /// Free Pascal arms its traps when its code runs on a thread for the first time, so on a dispatcher of ours, too.
    #[test]
    fn a_callback_leaves_no_word_behind() {
        let armed = word::armed();
        as_host(|| word::write(armed));
        assert!(word::read().is_default());
        let _guard = FpGuard::enter();
        as_host(|| word::write(armed));
        assert!(word::read().is_default());
    }

    #[test]
    fn a_callback_has_the_traps_of_the_host_and_the_library_none() {
        let (before, armed) = (word::read(), word::armed());
        word::write(armed);
        {
            let _guard = FpGuard::enter();
            assert!(word::read().is_default());
            as_host(|| {
                assert!(word::read() == armed);
                let _nested = FpGuard::enter();
                assert!(word::read().is_default());
            });
            assert!(word::read().is_default());
        }
        assert!(word::read() == armed);
        word::write(before);
    }
}
