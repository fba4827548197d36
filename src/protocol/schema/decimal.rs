//! Numbers of any size, compared and divided without rounding.

use std::cmp::Ordering;

use serde_json::Number;

/// A divisor may have so many digits: what remains of a division must fit into 127 bits with one digit to spare.
const MOST_DIVISOR_DIGITS: usize = 36;

/// A number as `0.digits × 10^point`, with no zero at either end; no digits for 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Each from 0 to 9.
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    /// Reads a JSON number. An exponent beyond 64 bits counts as the largest.
    pub(super) fn read(number: &Number) -> Self {
        let text = number.as_str();
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit.wrapping_sub(b'0')).collect();
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Self { negative: false, digits, point: 0 };
        }
        let limit = i64::MAX / 4;
        let unread = if exponent.starts_with('-') { -limit } else { limit };
        let exponent = exponent.parse::<i64>().unwrap_or(unread).clamp(-limit, limit);
        let point = whole.len() as i64 - zeros as i64 + exponent;
        Self { negative, digits, point }
    }

    /// Without a fraction.
    pub(super) fn is_whole(&self) -> bool {
        self.digits.is_empty() || self.exponent() >= 0
    }

    /// Above 0.
    pub(super) fn is_positive(&self) -> bool {
        !self.negative && !self.digits.is_empty()
    }

    /// Whether it can stand as a divisor.
    pub(super) fn divides(&self) -> bool {
        self.is_positive() && self.digits.len() <= MOST_DIVISOR_DIGITS
    }

    /// A whole number from 0 on; beyond 64 bits it is the largest.
    pub(super) fn count(&self) -> Option<u64> {
        if self.negative || !self.is_whole() {
            return None;
        }
        if self.point > 20 {
            return Some(u64::MAX);
        }
        let zeros = usize::try_from(self.exponent()).unwrap_or(0);
        let digits = self.digits.iter().chain(std::iter::repeat_n(&0, zeros));
        Some(digits.fold(0u64, |count, digit| count.saturating_mul(10).saturating_add(u64::from(*digit))))
    }

    /// The one text of all ways to write this number.
    pub(super) fn canonical(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + *digit)).collect();
        format!("{sign}{digits}p{}", self.point)
    }

    /// Whether this is a whole multiple of a divisor.
    pub(super) fn is_multiple_of(&self, divisor: &Self) -> bool {
        if self.digits.is_empty() {
            return true;
        }
        // a·10^x by b·10^y: where x < y, a would have to end in zeros, and it has none.
        let Some(shift) = self.exponent().checked_sub(divisor.exponent()).and_then(|s| u64::try_from(s).ok()) else {
            return false;
        };
        let by = divisor.digits.iter().fold(0u128, |number, digit| number * 10 + u128::from(*digit));
        let rest = self.digits.iter().fold(0u128, |rest, digit| (rest * 10 + u128::from(*digit)) % by);
        times(rest, power_of_ten(shift, by), by) == 0
    }

    /// Of the last digit.
    fn exponent(&self) -> i64 {
        self.point - self.digits.len() as i64
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        };
        let by_size = || (self.point, &self.digits).cmp(&(other.point, &other.digits));
        match (sign(self), sign(other)) {
            (1, 1) => by_size(),
            (-1, -1) => by_size().reverse(),
            (ours, theirs) => ours.cmp(&theirs),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `a × b mod m`, for numbers below `m` < 2^127.
fn times(mut a: u128, mut b: u128, m: u128) -> u128 {
    let mut product = 0;
    while b > 0 {
        if b & 1 == 1 {
            product = (product + a) % m;
        }
        a = (a + a) % m;
        b >>= 1;
    }
    product
}

/// `10^exponent mod m`.
fn power_of_ten(mut exponent: u64, m: u128) -> u128 {
    let (mut power, mut base) = (1 % m, 10 % m);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = times(power, base, m);
        }
        base = times(base, base, m);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn numbers_are_told_apart_to_the_last_digit() {
        let ascending = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-0.5",
            "-5e-400",
            "0",
            "1e-999999999999999999999",
            "0.1",
            "0.10000000000000000001",
            "1",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "123456789012345678901234567890",
            "1e400",
            "1e999999999999999999999",
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(number(one).cmp(&number(other)), at.cmp(&other_at), "{one} {other}");
            }
        }
        for (one, other) in [("1", "1.0"), ("100", "1e2"), ("0", "-0.0"), ("0.5", "5E-1"), ("1e400", "10e399")] {
            assert_eq!(number(one).canonical(), number(other).canonical());
        }
    }

    #[test]
    fn whole_numbers_and_counts() {
        for (text, whole, count) in [
            ("1.0", true, Some(1)),
            ("1.5", false, None),
            ("-1", true, None),
            ("1e400", true, Some(u64::MAX)),
            ("120", true, Some(120)),
            ("18446744073709551615", true, Some(u64::MAX)),
            ("0", true, Some(0)),
            ("1e-1", false, None),
        ] {
            assert_eq!((number(text).is_whole(), number(text).count()), (whole, count), "{text}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (value, by, want) in [
            ("9007199254740993", "2", false),
            ("9007199254740994", "2", true),
            ("0.3", "0.1", true),
            ("19.99", "0.01", true),
            ("19.995", "0.01", false),
            ("1e308", "0.123456789", false),
            ("1e999999999", "2", true),
            ("1e999999999", "3", false),
            ("123456789012345678901234567890", "9876543210", false),
            ("123456789012345678905432198760", "9876543210", false),
            ("246913578024691357802469135780246912", "123456789012345678901234567890123456", true),
            ("7", "1e400", false),
            ("0", "7", true),
            ("-4", "2", true),
        ] {
            assert_eq!(number(value).is_multiple_of(&number(by)), want, "{value} by {by}");
        }
        assert!(!number("0").divides() && !number("-1").divides() && !number(&"1".repeat(37)).divides());
    }
}
