//! JSON text that is passed through untouched: the bytes of the peer, or of the host, with numbers of any size.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Kind, Result};
use crate::protocol::split::{Splitter, after_string};

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
        // The text is valid, so its parts are found without parsing it again; whatever the quick way cannot take apart,
        // the slow one tells what is wrong with it.
        Members::split(self.text()).map_or_else(|| Members::parse(self.text()), Ok)
    }

    /// One member as raw text, unless it is absent or null, without taking the others apart: for whoever needs no more.
    ///
    /// # Errors
    /// [`Kind::Malformed`] where this is no object.
    pub fn member(&self, name: &str) -> Result<Option<&str>> {
        let found = find_member(self.text(), name);
        found.map_or_else(|| Ok(Members::parse(self.text())?.some(name)), |raw| Ok(raw.filter(|raw| *raw != "null")))
    }

    /// The elements, where this is an array.
    ///
    /// # Errors
    /// [`Kind::Malformed`] where it is none.
    pub fn elements(&self) -> Result<Vec<Json>> {
        let raws = split_elements(self.text()).map_or_else(|| elements(self.text()), Ok)?;
        Ok(raws.into_iter().map(|raw| self.slice(raw)).collect())
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

/// From here on members are found through a table.
const LONG: usize = 16;

/// The members of a JSON object in their order, each value as raw text. A name that comes twice counts once, the
/// last one wins, as in most readers.
#[derive(Debug, Default)]
pub struct Members<'a> {
    list: Vec<(Cow<'a, str>, &'a str)>,
    /// Places in the list, where it is long: a short one is searched faster than a table is built.
    index: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Members<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// [`Kind::Malformed`] where `text` is no object.
    pub fn parse(text: &'a str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|fault| Error::new(Kind::Malformed, format!("expected a JSON object: {fault}")))
    }

    /// Takes the text of a valid object apart; `None` where it is none.
    fn split(text: &'a str) -> Option<Self> {
        let mut splitter = Splitter::new(text);
        let mut members = Self::default();
        splitter.take(b'{')?;
        while splitter.peek()? != b'}' {
            let name = string(splitter.value()?)?;
            splitter.take(b':')?;
            members.put(name, splitter.value()?);
            if splitter.peek()? != b'}' {
                splitter.take(b',')?;
            }
        }
        Some(members)
    }

    fn put(&mut self, name: Cow<'a, str>, raw: &'a str) {
        let there = if self.list.len() < LONG {
            self.list.iter().position(|(have, _)| *have == name)
        } else {
            if self.index.is_empty() {
                self.index = self.list.iter().enumerate().map(|(at, (have, _))| (have.clone(), at)).collect();
            }
            self.index.get(&name).copied()
        };
        if let Some(at) = there {
            self.list[at].1 = raw;
            return;
        }
        if !self.index.is_empty() {
            self.index.insert(name.clone(), self.list.len());
        }
        self.list.push((name, raw));
    }

    /// The raw text of a member.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.list.iter().find(|(have, _)| have == name).map(|(_, raw)| *raw)
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
        self.list.iter().map(|(name, raw)| (&**name, *raw))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True where there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
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
                let mut members = Members::default();
                while let Some((Name(name), raw)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.put(name, raw.get());
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A name, copied only where it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The string that `raw`, a valid value, is, copied only where it has escapes; `None` for anything else.
#[must_use]
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    // The look first: for anything but a string serde_json would write a long error that nobody reads.
    if !raw.starts_with('"') {
        return None;
    }
    if !raw.as_bytes().contains(&b'\\')
        && let Some(text) = raw[1..].strip_suffix('"')
    {
        return Some(Cow::Borrowed(text));
    }
    match serde_json::from_str(raw) {
        Ok(Name(text)) => Some(text),
        // Half of a surrogate pair, as servers of UTF-16 languages write them: no character, and no reason to lose the
        // rest.
        Err(_) => serde_json::from_str::<String>(&without_lone_surrogates(raw)).ok().map(Cow::Owned),
    }
}

/// A JSON text with U+FFFD in place of each `\\u` escape that is half of a surrogate pair.
pub(super) fn without_lone_surrogates(raw: &str) -> String {
    let unit = |at: usize| {
        let escape = raw.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let (mut out, mut at) = (String::with_capacity(raw.len()), 0);
    while let Some(found) = raw[at..].find('\\') {
        let escape = at + found;
        out.push_str(&raw[at..escape]);
        let (length, text) = match (unit(escape), unit(escape + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, raw.get(escape..escape + 12)),
            (Some(0xD800..=0xDFFF), _) => (6, Some("\\ufffd")),
            (Some(_), _) => (6, raw.get(escape..escape + 6)),
            (None, _) => (2, raw.get(escape..escape + 2)),
        };
        out.push_str(text.unwrap_or_default());
        at = (escape + length).min(raw.len());
    }
    out.push_str(&raw[at..]);
    out
}

/// A member of a valid object, the last one of its name; `None` where the text cannot be taken apart.
fn find_member<'a>(text: &'a str, wanted: &str) -> Option<Option<&'a str>> {
    let mut splitter = Splitter::new(text);
    let mut found = None;
    splitter.take(b'{')?;
    while splitter.peek()? != b'}' {
        let name = string(splitter.value()?)?;
        splitter.take(b':')?;
        let raw = splitter.value()?;
        if name == wanted {
            found = Some(raw);
        }
        if splitter.peek()? != b'}' {
            splitter.take(b',')?;
        }
    }
    Some(found)
}

fn split_elements(text: &str) -> Option<Vec<&str>> {
    let mut splitter = Splitter::new(text);
    let mut raws = Vec::new();
    splitter.take(b'[')?;
    while splitter.peek()? != b']' {
        raws.push(splitter.value()?);
        if splitter.peek()? != b']' {
            splitter.take(b',')?;
        }
    }
    Some(raws)
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
    // The quick look first: nothing nests deeper than it has brackets.
    if opening_brackets(text) <= limit {
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

/// How many there are, in strings too. Counted in bytes, a piece at a time, so that it becomes a few vector operations.
fn opening_brackets(text: &[u8]) -> usize {
    let of_piece = |piece: &[u8]| piece.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>();
    text.chunks(usize::from(u8::MAX)).map(|piece| usize::from(of_piece(piece))).sum()
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
    fn the_quick_way_and_the_slow_one_agree() {
        for text in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            r#"{ "a" : [1, {"b":"}"}] , "c\u0064" : "x\"y" , "a":null, "":"" }"#,
            "{\n\t\"a\": 1.5e3 ,\r\n \"b\":true}",
            r#"{"世":"界","e":"\ud83d\ude00","n":-0}"#,
        ] {
            let (quick, slow) = (Members::split(text).unwrap(), Members::parse(text).unwrap());
            assert!(quick.iter().eq(slow.iter()), "{text}");
            for name in ["a", "cd", "c", "世", ""] {
                assert_eq!(Json::trusted(text).member(name).unwrap(), slow.some(name), "{text} {name}");
            }
        }
        for text in ["[]", r#"[1,"]",[2,[]],{"a":[]} , null ]"#, " [ ] "] {
            assert_eq!(split_elements(text).unwrap(), elements(text).unwrap(), "{text}");
        }
        for text in ["", "[1]", "7", "\"{}\"", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{a:1}", "{\"a\" 1}"]
        {
            let error = Json::trusted(text).members().unwrap_err();
            assert_eq!(error.message(), Members::parse(text).unwrap_err().message(), "{text}");
            assert_eq!(Json::trusted(text).member("a").unwrap_err().message(), error.message(), "{text}");
        }
        assert!(Json::trusted("{}").elements().is_err());
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
    fn half_a_surrogate_pair_does_not_lose_the_rest() {
        for (raw, want) in [
            (r#""a\ud800b""#, "a\u{fffd}b"),
            (r#""\udc00\n\\ud800""#, "\u{fffd}\n\\ud800"),
            (r#""\ud83d\ude00\ud83d""#, "\u{1f600}\u{fffd}"),
            (r#""é\ud800""#, "é\u{fffd}"),
        ] {
            assert_eq!(string(raw).as_deref(), Some(want), "{raw}");
        }
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
        for brackets in [1, 254, 255, 256, 511] {
            assert!(
                !nests_deeper(&vec![b'['; brackets], brackets) && nests_deeper(&vec![b'{'; brackets], brackets - 1)
            );
        }
        assert!(nests_deeper(br#"["\\",["x\"["]]"#, 1));
        for open in [&b"[[\"open"[..], b"[[\"", b"[[\"\\", b"[[\"\\\""] {
            assert!(nests_deeper(open, 1) && !nests_deeper(open, 2));
        }
    }
}
