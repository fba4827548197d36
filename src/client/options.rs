//! The document of one call: strict, like the settings.

use std::time::Duration;

use serde_json::Value;

use crate::client::settings::Doc;
use crate::error::{Error, Kind, Result};
use crate::protocol::json::Members;

/// The options of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallOptions {
    /// The model's id of this tool call; listed with the task, and found again by it.
    pub(crate) tool_call_id: Option<String>,
    /// Any JSON of the host's, kept with the task.
    pub(crate) context: Option<String>,
    /// The call's own limit for the whole of it; the outer `None` is the client's.
    pub(crate) total: Option<Option<Duration>>,
    /// The call's own limit for silence.
    pub(crate) idle: Option<Option<Duration>>,
    /// Members for `_meta`: the text of a JSON object.
    pub(crate) meta: Option<String>,
    /// The task's own least time between polls.
    pub(crate) min_poll: Option<Duration>,
    /// Whether the task is polled by itself.
    pub(crate) auto_poll: Option<bool>,
    /// Whether the ledger keeps the task's result.
    pub(crate) keep_result: Option<bool>,
    /// All pages of a list, as one result.
    pub(crate) all_pages: bool,
}

impl CallOptions {
    /// Reads the document; an empty text is no options.
    ///
    /// # Errors
    /// [`Kind::Argument`] naming the key that is unknown, of the wrong type or out of range.
    pub(crate) fn read(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|fault| Error::new(Kind::Argument, format!("options are not valid JSON: {fault}")))?;
        let mut doc = Doc::of(value, "options")?;
        // What is passed on goes byte for byte: a parsed number would be written anew.
        let members = Members::parse(text)?;
        let raw = |key: &str| members.some(key).map(str::to_owned);
        let options = Self {
            tool_call_id: doc.text("tool_call_id")?,
            context: doc.take("context").and_then(|_| raw("context")),
            total: doc.own_limit("total_ms")?,
            idle: doc.own_limit("idle_ms")?,
            meta: doc.object("meta")?.and_then(|_| raw("meta")),
            min_poll: doc.count("min_poll_ms", 0, 86_400_000)?.map(|ms| Duration::from_millis(ms as u64)),
            auto_poll: doc.flag("auto_poll")?,
            keep_result: doc.flag("keep_result")?,
            all_pages: doc.flag("all_pages")?.unwrap_or(false),
        };
        doc.finish()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_strict_and_may_be_empty() {
        assert!(CallOptions::read("").unwrap().tool_call_id.is_none());
        let options =
            CallOptions::read(r#"{"tool_call_id":"c1","context":{"a":9007199254740993, "b":1E2},"total_ms":-1}"#)
                .unwrap();
        assert_eq!(options.context.as_deref(), Some(r#"{"a":9007199254740993, "b":1E2}"#));
        assert_eq!(options.total, Some(None));
        assert_eq!(CallOptions::read(r#"{"keep_result":false}"#).unwrap().keep_result, Some(false));
        assert_eq!(
            CallOptions::read(r#"{"keep_result":"no"}"#).unwrap_err().message(),
            "options.keep_result: expected true or false but found a string"
        );
        assert_eq!(CallOptions::read(r#"{"x":1}"#).unwrap_err().message(), "options.x is not a known key");
        assert_eq!(CallOptions::read("[]").unwrap_err().message(), "options: expected an object but found an array");
    }
}
