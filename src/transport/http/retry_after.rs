//! Reads `Retry-After` (RFC 9110, 10.2.3): seconds, or a date to compare with the wall clock. Pure.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

/// How long the server asks to wait, counted from `wall`. A date in the past is zero; what is neither seconds nor a
/// date, or makes no sense as a duration, is absent.
pub(super) fn retry_after(value: &str, wall: SystemTime) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        return value.parse().ok().map(Duration::from_secs);
    }
    let then = u64::try_from(http_date(value)?.as_second()).ok()?;
    let then = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(then))?;
    Some(then.duration_since(wall).unwrap_or(Duration::ZERO))
}

/// The three forms of an HTTP date (RFC 9110, 5.6.7); the last two are obsolete and must still be read.
fn http_date(text: &str) -> Option<Timestamp> {
    if let Ok(then) = rfc2822::DateTimeParser::new().parse_timestamp(text) {
        return Some(then);
    }
    let civil = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    civil
        .iter()
        .find_map(|format| DateTime::strptime(format, text).ok())
        .and_then(|then| TimeZone::UTC.to_timestamp(then).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_the_three_dates_are_read() {
        // 784111777 is the date that RFC 9110 gives as its example.
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let rows = [
            ("120", Some(120)),
            (" 5 ", Some(5)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(30)),
            ("Sun Nov  6 08:49:37 1994", Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("", None),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
            ("99999999999999999999", None),
            ("5, 6", None),
        ];
        for (text, seconds) in rows {
            assert_eq!(retry_after(text, wall), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
