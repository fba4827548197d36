//! A strict reader of one JSON object: every key is taken by name, and a key that nobody took is an error.

use serde_json::{Map, Value};

/// Why a script was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError(pub(crate) String);

impl std::fmt::Display for ScriptError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

/// The keys of one object that have not been read yet.
pub(crate) struct Fields {
    what: String,
    map: Map<String, Value>,
}

impl Fields {
    pub(crate) fn new(what: &str, value: Value) -> Result<Self, ScriptError> {
        if let Value::Object(map) = value {
            Ok(Self { what: what.to_owned(), map })
        } else {
            Err(ScriptError(format!("{what}: expected an object, found {value}")))
        }
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        // An order-keeping removal: messages should name the first stray key as written.
        self.map.shift_remove(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub(crate) fn number(&mut self, key: &str) -> Result<Option<u64>, ScriptError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value.as_u64().map(Some).ok_or_else(|| self.wrong(key, "a whole number", &value))
    }

    pub(crate) fn size(&mut self, key: &str) -> Result<Option<usize>, ScriptError> {
        Ok(self.number(key)?.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, ScriptError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| self.wrong(key, "a string", &value))
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>, ScriptError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false", &value))
    }

    pub(crate) fn list(&mut self, key: &str) -> Result<Vec<Value>, ScriptError> {
        self.maybe_list(key).map(Option::unwrap_or_default)
    }

    pub(crate) fn maybe_list(&mut self, key: &str) -> Result<Option<Vec<Value>>, ScriptError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        if let Value::Array(items) = value { Ok(Some(items)) } else { Err(self.wrong(key, "an array", &value)) }
    }

    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Map<String, Value>>, ScriptError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        if let Value::Object(map) = value { Ok(Some(map)) } else { Err(self.wrong(key, "an object", &value)) }
    }

    /// Names of HTTP headers with their texts.
    pub(crate) fn headers(&mut self, key: &str) -> Result<Vec<(String, String)>, ScriptError> {
        let map = self.object(key)?.unwrap_or_default();
        map.into_iter()
            .map(|(name, value)| match value.as_str() {
                Some(text) => Ok((name, text.to_owned())),
                None => Err(self.wrong(key, "strings as values", &value)),
            })
            .collect()
    }

    pub(crate) fn wrong(&self, key: &str, expected: &str, found: &Value) -> ScriptError {
        ScriptError(format!("{}: \"{key}\": expected {expected}, found {found}", self.what))
    }

    pub(crate) fn end(self) -> Result<(), ScriptError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => Err(ScriptError(format!("{}: unknown key \"{key}\"", self.what))),
        }
    }
}
