//! The one place that asks the system for the time, and the ISO 8601 text of a moment.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Ties the monotonic clock to the wall clock once, so that all time stamps of one server agree.
pub(crate) struct Clock {
    origin: Instant,
    wall: Duration,
}

impl Clock {
    /// Starts counting now.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now(), wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Instant {
        now()
    }

    /// Microseconds from the start of this clock until `at`.
    pub(crate) fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_micros()).unwrap_or(u64::MAX)
    }

    /// Microseconds of the wall clock at `at`.
    pub(crate) fn wall_micros(&self, at: Instant) -> u64 {
        u64::try_from((self.wall + at.saturating_duration_since(self.origin)).as_micros()).unwrap_or(u64::MAX)
    }

    /// `at` as `2026-07-28T12:34:56.789Z`.
    pub(crate) fn iso(&self, at: Instant) -> String {
        let wall = self.wall + at.saturating_duration_since(self.origin);
        iso_text(wall.as_secs(), wall.subsec_millis())
    }
}

/// The present moment, for deadlines.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn iso_text(secs: u64, millis: u32) -> String {
    let (year, month, day) = civil(secs / 86_400);
    let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Days since 1970 as year, month, day (Howard Hinnant's `civil_from_days`, for non-negative days).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::iso_text;

    #[test]
    fn known_moments() {
        assert_eq!(iso_text(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_text(951_782_400, 5), "2000-02-29T00:00:00.005Z");
        assert_eq!(iso_text(1_785_196_800, 999), "2026-07-28T00:00:00.999Z");
    }
}
