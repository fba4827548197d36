//! A JSON object of the host's, read key by key and strictly: settings, options, filters.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::{Error, Kind, Result};

/// A JSON object that is read key by key, strictly.
pub(crate) struct Doc {
    path: String,
    pub(crate) members: Map<String, Value>,
}

impl Doc {
    pub(crate) fn of(value: Value, path: &str) -> Result<Self> {
        let found = type_name(&value);
        let Value::Object(members) = value else {
            return Err(Error::new(Kind::Argument, format!("{path}: expected an object but found {found}")));
        };
        Ok(Self { path: path.to_owned(), members })
    }

    pub(crate) fn empty(path: &str) -> Self {
        Self { path: path.to_owned(), members: Map::new() }
    }

    /// What was not taken, as it is: for an object of the host's own.
    pub(crate) fn rest(self) -> Value {
        Value::Object(self.members)
    }

    /// Where in the document it stands.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A member; null counts as absent.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.members.shift_remove(key).filter(|value| !value.is_null())
    }

    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Self>> {
        let path = format!("{}.{key}", self.path);
        self.take(key).map(|value| Self::of(value, &path)).transpose()
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            // Not echoed, also where it is a number: it may be a credential.
            Some(other) => Err(self.mistyped(key, "a string", type_name(&other))),
        }
    }

    /// An array of texts.
    pub(crate) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>> {
        const WANT: &str = "an array of strings";
        let items = match self.take(key) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(self.mistyped(key, WANT, type_name(&other))),
        };
        let text = |item: Value| match item.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => {
                let message = format!("{}.{key}: expected {WANT} but found {} in it", self.path, type_name(&item));
                Err(Error::new(Kind::Argument, message))
            }
        };
        items.into_iter().map(text).collect::<Result<_>>().map(Some)
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(key, "true or false", &other)),
        }
    }

    /// One of some words.
    pub(crate) fn word(&mut self, key: &str, words: &[&'static str]) -> Result<Option<&'static str>> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        match words.iter().find(|word| **word == text) {
            Some(word) => Ok(Some(word)),
            None => {
                let found = crate::error::one_line(&text);
                let message = format!("{}.{key}: expected one of {} but found {found}", self.path, words.join(", "));
                Err(Error::new(Kind::Argument, message))
            }
        }
    }

    /// A whole number within bounds.
    pub(crate) fn count(&mut self, key: &str, least: u64, most: u64) -> Result<Option<usize>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let count = value.as_u64().filter(|count| (least..=most).contains(count));
        match count.and_then(|count| usize::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None => Err(self.wrong(key, &format!("a whole number from {least} to {most}"), &value)),
        }
    }

    /// A time limit in ms: > 0, or -1 for no limit.
    pub(crate) fn limit(&mut self, key: &str, default_ms: u64) -> Result<Option<Duration>> {
        Ok(self.own_limit(key)?.unwrap_or(Some(Duration::from_millis(default_ms))))
    }

    /// The same without a default: the outer `None` is "not given".
    #[allow(clippy::option_option, reason = "absent, no limit and a limit are three things")]
    pub(crate) fn own_limit(&mut self, key: &str) -> Result<Option<Option<Duration>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match value.as_i64() {
            Some(-1) => Ok(Some(None)),
            Some(ms) if ms > 0 => Ok(Some(Some(Duration::from_millis(ms.unsigned_abs())))),
            _ => Err(self.wrong(key, "a number of milliseconds above 0, or -1 for no limit", &value)),
        }
    }

    /// No key may be left.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(key) => {
                let key = crate::error::one_line(key);
                Err(Error::new(Kind::Argument, format!("{}.{key} is not a known key", self.path)))
            }
        }
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> Error {
        match found.as_number() {
            Some(number) => self.mistyped(key, expected, &crate::error::one_line(&number.to_string())),
            None => self.mistyped(key, expected, type_name(found)),
        }
    }

    fn mistyped(&self, key: &str, expected: &str, found: &str) -> Error {
        Error::new(Kind::Argument, format!("{}.{key}: expected {expected} but found {found}", self.path))
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
