//! JSON text that is passed through untouched: the bytes of the peer, or of the host, with numbers of any size.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Kind, Result};

/// A piece of valid JSON text inside a shared buffer. Cloning copies no text, so a large result is parsed once and
/// handed over without copying it again.
#[derive(Clone)]
pub struct Json {
    buffer: Arc<str>,
    range: Range<usize>,
}

impl Json {
    /// Wraps text that is known to be valid JSON. Private to this room's readers and to what we write ourselves.
    #[must_use]
    pub fn trusted(text: impl Into<Arc<str>>) -> Self {
        let buffer = text.into();
        let range = 0..buffer.len();
        Self { buffer, range }
    }

    /// Checks that `text` is one JSON value.
    ///
    /// # Errors
    /// [`Kind::Parse`] with the position of the fault.
    pub fn parse(text: &str) -> Result<Self> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => Ok(Self::trusted(raw.get())),
            Err(fault) => Err(Error::new(Kind::Parse, format!("not valid JSON: {fault}"))),
        }
    }

    /// The part of `self` that `part` points into; `part` must have been parsed out of `self`.
    #[must_use]
    pub fn slice(&self, part: &str) -> Self {
        let base = self.buffer.as_ptr() as usize;
        let start = (part.as_ptr() as usize).wrapping_sub(base);
        match self.buffer.get(start..start.saturating_add(part.len())) {
            Some(same) if std::ptr::eq(same.as_ptr(), part.as_ptr()) => {
                Self { buffer: self.buffer.clone(), range: start..start + part.len() }
            }
            // Not from this buffer: a copy is always right.
            _ => Self::trusted(part),
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.buffer[self.range.clone()]
    }

    /// The value, parsed; numbers keep all their digits.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).unwrap_or(serde_json::Value::Null)
    }

    /// True for a JSON object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    /// The members, where this is an object.
    ///
    /// # Errors
    /// [`Kind::Malformed`] where it is none.
    pub fn members(&self) -> Result<Members<'_>> {
        Members::parse(self.text())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        match text.char_indices().nth(120) {
            Some((cut, _)) => write!(f, "{}… ({} bytes)", &text[..cut], text.len()),
            None => f.write_str(text),
        }
    }
}

/// The members of a JSON object in their order, each value as raw text. A name that comes twice counts once, the
/// last one wins, as in most readers.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// [`Kind::Malformed`] where `text` is no object.
    pub fn parse(text: &'a str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|fault| Error::new(Kind::Malformed, format!("expected a JSON object: {fault}")))
    }

    /// The raw text of a member.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, raw)| raw.get())
    }

    /// A member, unless it is absent or null.
    #[must_use]
    pub fn some(&self, name: &str) -> Option<&'a str> {
        self.raw(name).filter(|raw| *raw != "null")
    }

    /// A string member; `None` where it is absent or of another type.
    #[must_use]
    pub fn string(&self, name: &str) -> Option<String> {
        self.text(name).map(Cow::into_owned)
    }

    /// A string member, copied only where it has escapes; `None` where it is absent or of another type.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.some(name).and_then(string)
    }

    /// A boolean member; `None` where it is absent or of another type.
    #[must_use]
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.some(name).and_then(|raw| serde_json::from_str(raw).ok())
    }

    /// A number as a whole one, fractions cut off (some servers write all numbers as floats); `None` where it is
    /// absent, of another type, or beyond 64 bits.
    #[must_use]
    pub fn whole(&self, name: &str) -> Option<i64> {
        whole_number(self.some(name)?)
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (&**name, raw.get()))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True where there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A JSON number text as a whole number, fraction cut off; `None` for anything else or beyond 64 bits.
#[must_use]
pub fn whole_number(raw: &str) -> Option<i64> {
    if let Ok(whole) = raw.parse::<i64>() {
        return Some(whole);
    }
    if !raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return None;
    }
    let float = raw.parse::<f64>().ok()?;
    // 2^63 is the first float beyond i64; what is below converts exactly after truncation.
    (float.is_finite() && float.abs() < 9_223_372_036_854_775_808.0).then_some(float.trunc() as i64)
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                let mut index = std::collections::HashMap::<Cow<'de, str>, usize>::new();
                while let Some((Name(name), raw)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    // A list up to here is searched faster than a table is built.
                    if members.len() < 16 {
                        match members.iter_mut().find(|(have, _)| *have == name) {
                            Some(slot) => slot.1 = raw,
                            None => members.push((name, raw)),
                        }
                        continue;
                    }
                    if index.is_empty() {
                        index = members.iter().enumerate().map(|(i, (have, _))| (have.clone(), i)).collect();
                    }
                    match index.get(&name) {
                        Some(&i) => members[i].1 = raw,
                        None => {
                            index.insert(name.clone(), members.len());
                            members.push((name, raw));
                        }
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A name, copied only where it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The string that `raw` is, copied only where it has escapes; `None` for anything else.
#[must_use]
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    // The look first: for anything but a string serde_json would write a long error that nobody reads.
    if !raw.starts_with('"') {
        return None;
    }
    serde_json::from_str(raw).ok().map(|Name(text)| text)
}

/// The elements of a JSON array, each as raw text.
///
/// # Errors
/// [`Kind::Malformed`] where `text` is no array.
pub fn elements(text: &str) -> Result<Vec<&str>> {
    serde_json::from_str::<Vec<&RawValue>>(text)
        .map(|raws| raws.into_iter().map(RawValue::get).collect())
        .map_err(|fault| Error::new(Kind::Malformed, format!("expected a JSON array: {fault}")))
}

/// A text as a JSON string, quotes included.
#[must_use]
pub fn quote(text: &str) -> String {
    let plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if !plain {
        return serde_json::Value::from(text).to_string();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    out.push_str(text);
    out.push('"');
    out
}

/// True where arrays and objects in `text` nest deeper than `limit`. Counts only; the text may be invalid.
#[must_use]
pub fn nests_deeper(text: &[u8], limit: usize) -> bool {
    if text.len() <= limit {
        return false;
    }
    let (mut depth, mut at) = (0usize, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = after_string(text, at),
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Where the string that begins before `at` has ended.
fn after_string(text: &[u8], mut at: usize) -> usize {
    while let Some(stop) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += stop + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        // What is escaped ends nothing.
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_order_and_raw_text() {
        let members = Members::parse(r#"{"b": 12345678901234567890, "a":[1, 2],"b":1.50}"#).unwrap();
        assert_eq!(members.raw("b"), Some("1.50"));
        assert_eq!(members.raw("a"), Some("[1, 2]"));
        assert_eq!(members.iter().map(|(n, _)| n).collect::<Vec<_>>(), ["b", "a"]);
        assert!(Members::parse("[1]").is_err());
    }

    #[test]
    fn many_members_are_found_and_doubles_counted_once() {
        let text = format!("{{{}}}", (0..40).map(|i| format!("\"k{}\":{i}", i % 30)).collect::<Vec<_>>().join(","));
        let members = Members::parse(&text).unwrap();
        assert_eq!(members.len(), 30);
        assert_eq!(members.whole("k5"), Some(35));
        assert_eq!(members.whole("k20"), Some(20));
    }

    #[test]
    fn whole_numbers_from_floats_and_nonsense() {
        for (raw, want) in [
            ("5", Some(5)),
            ("500.0", Some(500)),
            ("-1.9", Some(-1)),
            ("9e15", Some(9_000_000_000_000_000)),
            ("9e18", Some(9_000_000_000_000_000_000)),
            ("9e19", None),
            ("\"5\"", None),
            ("true", None),
            ("null", None),
            ("1e999", None),
        ] {
            assert_eq!(whole_number(raw), want, "{raw}");
        }
    }

    #[test]
    fn a_slice_shares_the_buffer() {
        let json = Json::parse(r#"{"a":{"x":1}}"#).unwrap();
        let part = json.slice(json.members().unwrap().raw("a").unwrap());
        assert_eq!(part.text(), r#"{"x":1}"#);
        assert!(Arc::ptr_eq(&part.buffer, &json.buffer));
        assert_eq!(json.slice("elsewhere").text(), "elsewhere");
    }

    #[test]
    fn strings_are_quoted_and_read_back() {
        for text in ["", "plain", "é 世界", "a\"b", "a\\b", "a\nb", "\u{1}", "\u{7f}"] {
            assert_eq!(quote(text), serde_json::to_string(text).unwrap());
            assert_eq!(string(&quote(text)).as_deref(), Some(text));
        }
        assert!(matches!(string("\"plain\""), Some(Cow::Borrowed("plain"))));
        for raw in ["7", "null", "[\"a\"]", "true"] {
            assert_eq!(string(raw), None, "{raw}");
        }
    }

    #[test]
    fn nesting_is_counted_outside_strings() {
        assert!(!nests_deeper(br#"{"a":"[[[[\"[["}"#, 1));
        assert!(nests_deeper(b"[[1]]", 1));
        assert!(!nests_deeper(b"[[1],[2],[3]]", 2));
        assert!(nests_deeper(br#"["\\",["x\"["]]"#, 1));
        for open in [&b"[[\"open"[..], b"[[\"", b"[[\"\\", b"[[\"\\\""] {
            assert!(nests_deeper(open, 1) && !nests_deeper(open, 2));
        }
    }
}
