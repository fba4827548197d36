//! The reading half of a channel, which one thread at a time has in its hands: the link's own, or, where calls follow
//! each other quickly, the caller that waits for the answer. Each answer then comes without waking another thread.
//!
//! ```text
//! own thread: reads ── a caller would rather have read itself, twice within LINGER ──> lingers ── nobody wants ──> reads
//! caller:     waits for its answer ── the reading is free ──> reads, for all ── its answer is here ──> leaves it
//! ```
//!
//! Between two callers nobody reads, for twice [`LINGER`] at most: who waits for an answer and does not read itself calls
//! the own thread back at once. What is read is handed over with the reading in hand, so messages keep their order.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::cancel::Wake;
use crate::clock::Clock;
use crate::os::WakeHandle;
use crate::os::pipe::Inlet;
use crate::transport::Receiver;
use crate::transport::framing::Framer;
use crate::transport::lines::{Handle, deliver, deliver_rest};

/// One read; a pipe holds 64 KiB.
const READ: usize = 64 << 10;
/// How long the own thread leaves the reading to callers. Chosen: many round trips to a local server, and still a
/// moment for a notification that comes after the last of them.
const LINGER: Duration = Duration::from_millis(1);

/// What one thread at a time has.
struct Half<R> {
    inlet: Inlet<R>,
    framer: Framer,
    buffer: Vec<u8>,
    receiver: Arc<dyn Receiver>,
}

/// The reading half.
pub(super) struct Reading<R> {
    half: Mutex<Option<Half<R>>>,
    /// A caller would have read.
    asked: AtomicBool,
    /// A caller has read.
    led: AtomicBool,
    /// The end was seen: it is for the own thread.
    over: AtomicBool,
    /// The own thread is wanted.
    wanted: Mutex<bool>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
}

/// Ends a caller's wait for what comes.
pub(super) struct Bell(WakeHandle);

impl Bell {
    pub(super) fn new() -> std::io::Result<Arc<Self>> {
        WakeHandle::new().map(|handle| Arc::new(Self(handle)))
    }

    #[cfg(unix)]
    pub(super) fn handle(&self) -> &WakeHandle {
        &self.0
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.0.set();
    }
}

impl<R: Read + Handle> Reading<R> {
    pub(super) fn new(
        source: R,
        line_bytes: usize,
        receiver: Arc<dyn Receiver>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let framer = Framer::new(line_bytes);
        let half = Half { inlet: Inlet::new(source)?, framer, buffer: vec![0; READ], receiver };
        Ok(Self {
            half: Mutex::new(Some(half)),
            asked: AtomicBool::new(false),
            led: AtomicBool::new(false),
            over: AtomicBool::new(false),
            wanted: Mutex::new(false),
            changed: Condvar::new(),
            clock,
        })
    }

    /// The own thread: reads until the end, an error (which is returned), or the stop.
    pub(super) fn run(&self, stop: &WakeHandle) -> Option<std::io::Error> {
        let fault = loop {
            if let Some(end) = self.read_alone(stop) {
                break end;
            }
            // Whoever was refused between the last look and the letting go waits for this thread.
            if !self.asked.load(Ordering::SeqCst) {
                self.linger();
            }
        };
        self.over.store(true, Ordering::Release);
        let half = self.half.lock().take();
        if let Some(mut half) = half {
            deliver_rest(&mut half.framer, &*half.receiver);
        }
        fault
    }

    /// Reads until the end, or until callers had better read themselves.
    fn read_alone(&self, stop: &WakeHandle) -> Option<Option<std::io::Error>> {
        let mut half = self.half.lock();
        let Some(half) = half.as_mut() else { return Some(None) };
        let mut last: Option<Instant> = None;
        loop {
            match half.inlet.read(&mut half.buffer, stop) {
                Ok(None | Some(0)) => return Some(None),
                Ok(Some(count)) => half.hand_over(count),
                Err(fault) => return Some(Some(fault)),
            }
            if self.asked.swap(false, Ordering::SeqCst) {
                let now = self.clock.now();
                let quick = last.is_some_and(|last| now.saturating_duration_since(last) < LINGER);
                last = Some(now);
                if quick {
                    return None;
                }
            }
        }
    }

    /// Until no caller has read for a while, or this thread is wanted.
    fn linger(&self) {
        let mut wanted = self.wanted.lock();
        let mut until = self.clock.now() + LINGER;
        while !*wanted {
            if !self.changed.wait_until(&mut wanted, until).timed_out() {
                continue;
            }
            if !self.led.swap(false, Ordering::AcqRel) {
                break;
            }
            until = self.clock.now() + LINGER;
        }
        *wanted = false;
    }

    /// Calls the own thread back.
    pub(super) fn want(&self) {
        *self.wanted.lock() = true;
        self.changed.notify_all();
    }
}

impl<R> Half<R> {
    /// Hands over what was read.
    fn hand_over(&mut self, count: usize) {
        deliver(&mut self.framer, &self.buffer[..count], &*self.receiver);
    }
}

#[cfg(unix)]
mod turn {
    use parking_lot::MutexGuard;

    use super::*;
    use crate::transport::Turn;

    impl<R: Read + Handle + Send> Reading<R> {
        /// The reading for a caller, where it is free.
        pub(in crate::transport) fn turn<'a>(
            &'a self,
            stop: &'a WakeHandle,
            bell: &'a WakeHandle,
        ) -> Option<Box<dyn Turn + 'a>> {
            if self.over.load(Ordering::Acquire) {
                return None;
            }
            // Once more after the word is left: either it is free by now, or who has it sees the word when letting go.
            let half = self.half.try_lock().or_else(|| {
                self.asked.store(true, Ordering::SeqCst);
                self.half.try_lock()
            })?;
            self.led.store(true, Ordering::Release);
            Some(Box::new(Held { reading: self, half, stop, bell }))
        }
    }

    struct Held<'a, R> {
        reading: &'a Reading<R>,
        half: MutexGuard<'a, Option<Half<R>>>,
        stop: &'a WakeHandle,
        bell: &'a WakeHandle,
    }

    impl<R: Read + Handle + Send> Turn for Held<'_, R> {
        fn read(&mut self, limit: Option<Duration>) -> bool {
            let Some(half) = self.half.as_mut() else { return false };
            let goes_on = match half.inlet.read_for(&mut half.buffer, self.stop, self.bell, limit) {
                Ok(None) => true,
                Ok(Some(0)) | Err(_) => false,
                Ok(Some(count)) => {
                    half.hand_over(count);
                    true
                }
            };
            if !goes_on {
                // The own thread sees the same, and tells of it.
                self.reading.over.store(true, Ordering::Release);
                self.reading.want();
            }
            goes_on
        }
    }
}
