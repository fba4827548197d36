//! The cancel token: one per call. Cancel and completion race through one atomic step, and exactly one wins.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::clock::Deadline;
use crate::hold::Hold;

/// Why an operation was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The host cancelled it.
    Host,
    /// The client is closing.
    Closing,
}

/// The operation has been cancelled already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled(pub Why);

/// Something that blocks and can be woken from another thread. `wake` must not block.
pub trait Wake: Send + Sync {
    /// Ends the wait at once.
    fn wake(&self);
}

const PENDING: u8 = 0;
const FINISHED: u8 = 1;
const CANCELLED_HOST: u8 = 2;
const CANCELLED_CLOSING: u8 = 3;

/// One call's state: pending, then finished or cancelled, never both.
#[derive(Default)]
pub struct CancelToken {
    state: AtomicU8,
    hooks: Mutex<Vec<Weak<dyn Wake>>>,
    hold: Arc<Hold>,
}

impl CancelToken {
    /// A pending token.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, and wakes what is registered. True for the one caller that decided it.
    pub fn cancel(&self, why: Why) -> bool {
        let to = match why {
            Why::Host => CANCELLED_HOST,
            Why::Closing => CANCELLED_CLOSING,
        };
        if self.state.compare_exchange(PENDING, to, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return false;
        }
        // The hooks run after the lock is released: a hook may take locks of its own.
        let hooks = std::mem::take(&mut *self.hooks.lock());
        for hook in hooks.iter().filter_map(Weak::upgrade) {
            hook.wake();
        }
        true
    }

    /// Marks the operation as finished. True for the one caller that decided it.
    pub fn finish(&self) -> bool {
        let won = self.state.compare_exchange(PENDING, FINISHED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if won {
            self.hooks.lock().clear();
        }
        won
    }

    /// The time of this call that does not count against its limits.
    #[must_use]
    pub fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Why the token was cancelled, where it was.
    #[must_use]
    pub fn cancelled(&self) -> Option<Why> {
        match self.state.load(Ordering::Acquire) {
            CANCELLED_HOST => Some(Why::Host),
            CANCELLED_CLOSING => Some(Why::Closing),
            _ => None,
        }
    }

    /// Registers something to wake on cancel. The hook is held weakly; dropping it unregisters it.
    ///
    /// # Errors
    /// [`Cancelled`] where the token is cancelled already: the state is tested under the lock that inserts, so no
    /// hook escapes a cancel.
    pub fn on_cancel(&self, hook: Weak<dyn Wake>) -> Result<(), Cancelled> {
        let mut hooks = self.hooks.lock();
        if let Some(why) = self.cancelled() {
            return Err(Cancelled(why));
        }
        // Whoever waits again and again under one token stands in the list once.
        hooks.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&hook));
        hooks.push(hook);
        Ok(())
    }

    /// Blocks until the deadline.
    ///
    /// # Errors
    /// [`Cancelled`] at once where the token is, or gets, cancelled.
    pub fn sleep_until(&self, deadline: Deadline) -> Result<(), Cancelled> {
        let nap = Arc::new(Nap::default());
        let hook: Arc<dyn Wake> = nap.clone();
        self.on_cancel(Arc::downgrade(&hook))?;
        let mut woken = nap.woken.lock();
        while !*woken {
            if !deadline.wait(&nap.changed, &mut woken) {
                break;
            }
        }
        drop(woken);
        match self.cancelled() {
            Some(why) => Err(Cancelled(why)),
            None => Ok(()),
        }
    }
}

/// A wait that a cancel ends.
#[derive(Default)]
struct Nap {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Nap {
    fn wake(&self) {
        *self.woken.lock() = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn cancel_wakes_each_hook_once_and_refuses_later_ones() {
        let token = CancelToken::new();
        let hook = Arc::new(Count(AtomicUsize::new(0)));
        let weak: Weak<dyn Wake> = Arc::downgrade(&hook) as Weak<dyn Wake>;
        assert!(token.on_cancel(weak.clone()).is_ok());
        assert!(token.cancel(Why::Host));
        assert!(!token.cancel(Why::Closing));
        assert!(!token.finish());
        assert_eq!(hook.0.load(Ordering::Relaxed), 1);
        assert_eq!(token.on_cancel(weak), Err(Cancelled(Why::Host)));
    }

    #[test]
    fn whoever_waits_again_and_again_stands_in_the_list_once() {
        let token = CancelToken::new();
        let hook = Arc::new(Count(AtomicUsize::new(0)));
        for _ in 0..1000 {
            assert!(token.on_cancel(Arc::downgrade(&hook) as Weak<dyn Wake>).is_ok());
        }
        assert_eq!(token.hooks.lock().len(), 1);
        assert!(token.cancel(Why::Host));
        assert_eq!(hook.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the race needs a second thread")]
    fn one_of_cancel_and_finish_wins() {
        for _ in 0..500 {
            let token = Arc::new(CancelToken::new());
            let hook = Arc::new(Count(AtomicUsize::new(0)));
            let there = token.clone();
            let racer = std::thread::spawn(move || there.cancel(Why::Host));
            let refused = token.on_cancel(Arc::downgrade(&hook) as Weak<dyn Wake>).is_err();
            let finished = token.finish();
            let cancelled = racer.join().unwrap_or(false);
            assert!(finished != cancelled);
            let woken = hook.0.load(Ordering::Relaxed) == 1;
            assert_eq!(cancelled, woken || refused);
        }
    }
}
