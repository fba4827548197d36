//! What may stand in a header: the safe form of a value. Pure.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// A value of `Mcp-Name` or `Mcp-Param-*` as it goes over the wire: plain where it is safe, else in the Base64 form
/// (2026-07-28, basic/transports/streamable-http, Value Encoding).
pub(crate) fn safe_value(value: &str) -> Cow<'_, str> {
    // 1. Visible ASCII, spaces and tabs, 2. no space or tab at either end, 3. nothing that reads as the Base64 form.
    let printable = value.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~'));
    let padded = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let sentinel = value.starts_with(PREFIX) && value.ends_with(SUFFIX);
    if printable && !padded && !sentinel {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_form_of_the_specification() {
        // The examples of the specification's table, and their neighbours.
        let rows = [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
            ("a b\tc", "a b\tc"),
            ("tab\t", "=?base64?dGFiCQ==?="),
            ("=?base64?open", "=?base64?open"),
            ("=?BASE64?x?=", "=?BASE64?x?="),
            ("file:///projects/myapp/config.json", "file:///projects/myapp/config.json"),
            ("nul\0", "=?base64?bnVsAA==?="),
            ("del\u{7f}", "=?base64?ZGVsfw==?="),
        ];
        for (plain, wire) in rows {
            assert_eq!(safe_value(plain), wire);
        }
    }

    #[test]
    fn a_safe_value_can_end_no_header() {
        for byte in 0..=255u8 {
            let value = format!("a{}b", char::from(byte));
            assert!(safe_value(&value).bytes().all(|b| matches!(b, b'\t' | b' '..=b'~')), "{byte}");
        }
    }
}
