//! Time in the host's hands, for its tests: the clock of tasks is held, moved, and let go of.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::client::runtime::Runtime;
use crate::client::wait::wait_from_ms;
use crate::clock::{LifeClock, SystemClock};
use crate::error::{Error, Kind, Result};

/// 100 years: no test lives longer, and every clock of every system has room for it.
const MOST_MS: i64 = 100 * 366 * 86_400_000;

/// One change at a time.
static HANDS: Mutex<()> = Mutex::new(());

/// Holds the clock. False where it is held already.
///
/// # Errors
/// [`Kind::State`] while there are clients: times of two clocks must not meet in one task.
pub(crate) fn hold_clock() -> Result<bool> {
    let _one = one_hand()?;
    if LifeClock::is_held() {
        return Ok(false);
    }
    no_clients()?;
    Ok(LifeClock::hold())
}

/// Follows the system's clock again. False where it did.
///
/// # Errors
/// [`Kind::State`] while there are clients.
pub(crate) fn release_clock() -> Result<bool> {
    let _one = one_hand()?;
    if !LifeClock::is_held() {
        return Ok(false);
    }
    no_clients()?;
    Ok(LifeClock::release())
}

/// Moves the clock. False where what fell due was not all answered within `wait_ms`.
///
/// # Errors
/// [`Kind::Argument`] for a time that is none; [`Kind::State`] where the clock is not held.
pub(crate) fn advance_clock(ms: i64, wait_ms: i64) -> Result<bool> {
    let _one = one_hand()?;
    if !(0..=MOST_MS).contains(&ms) {
        return Err(Error::new(Kind::Argument, format!("ms: expected 0 to {MOST_MS} but found {ms}")));
    }
    if !LifeClock::is_held() {
        return Err(Error::new(Kind::State, "the clock is the system's: mcp_clock_hold() comes first"));
    }
    let runtime = Runtime::current();
    let by = Duration::from_millis(ms.unsigned_abs());
    let Some(end) = runtime.life.now().checked_add(by) else {
        return Err(Error::new(Kind::Argument, "ms: the system's clock has no such time"));
    };
    Ok(runtime.engine.live_until(end, &LifeClock::advance, wait_from_ms(&SystemClock, wait_ms)))
}

fn one_hand() -> Result<MutexGuard<'static, ()>> {
    HANDS.try_lock().ok_or_else(|| Error::new(Kind::State, "another thread is moving the clock"))
}

fn no_clients() -> Result<()> {
    if Runtime::running().is_none_or(|runtime| runtime.is_vacant()) {
        return Ok(());
    }
    Err(Error::new(Kind::State, "the clock changes hands only while no client is open: close them, and wait for that"))
}
