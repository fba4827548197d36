//! The document of one call: strict, like the settings.

use std::time::Duration;

use serde_json::Value;

use crate::client::doc::Doc;
use crate::client::settings::{Validation, read_validation};
use crate::error::{Error, Kind, Result};
use crate::protocol::json::Members;
use crate::session::CacheUse;

/// The longest time that a server can be asked to keep a task for: ten years (chosen).
pub(super) const MOST_KEEP_MS: u64 = 10 * 365 * 86_400_000;

/// The options of one call.
#[derive(Clone, Debug)]
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
    /// Whether a kept answer will do.
    pub(crate) cache: CacheUse,
    /// What becomes of a result that does not match, instead of what the settings say.
    pub(crate) validation: Option<Validation>,
    /// False: the call must not become a task.
    pub(crate) task: bool,
    /// How long the server shall keep the task; `None` is the client's wish.
    pub(crate) keep: Option<Duration>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            tool_call_id: None,
            context: None,
            total: None,
            idle: None,
            meta: None,
            min_poll: None,
            auto_poll: None,
            keep_result: None,
            all_pages: false,
            cache: CacheUse::default(),
            validation: None,
            task: true,
            keep: None,
        }
    }
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
            cache: read_cache(&mut doc)?,
            validation: read_validation(&mut doc)?,
            task: doc.flag("task")?.unwrap_or(true),
            keep: doc.count("keep_ms", 1, MOST_KEEP_MS)?.map(|ms| Duration::from_millis(ms as u64)),
        };
        doc.finish()?;
        Ok(options)
    }
}

fn read_cache(doc: &mut Doc) -> Result<CacheUse> {
    Ok(match doc.word("cache", &["server", "until_changed", "refresh", "off"])? {
        None | Some("server") => CacheUse::Server,
        Some("until_changed") => CacheUse::UntilChanged,
        Some("refresh") => CacheUse::Refresh,
        Some(_) => CacheUse::Off,
    })
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
        for (word, cache) in [
            ("server", CacheUse::Server),
            ("until_changed", CacheUse::UntilChanged),
            ("refresh", CacheUse::Refresh),
            ("off", CacheUse::Off),
        ] {
            assert_eq!(CallOptions::read(&format!("{{\"cache\":\"{word}\"}}")).unwrap().cache, cache);
        }
        assert_eq!(options.validation, None);
        assert_eq!(CallOptions::read(r#"{"validate":"warn"}"#).unwrap().validation, Some(Validation::Warn));
        for (text, want) in [
            (r#"{"cache":"on"}"#, "options.cache: expected one of server, until_changed, refresh, off but found on"),
            (r#"{"cache":true}"#, "options.cache: expected a string but found a boolean"),
            (r#"{"validate":"x"}"#, "options.validate: expected one of error, warn, off but found x"),
            (r#"{"validate":1}"#, "options.validate: expected a string but found a number"),
        ] {
            assert_eq!(CallOptions::read(text).unwrap_err().message(), want);
        }
        assert!(options.task && options.keep.is_none());
        let options = CallOptions::read(r#"{"task":false,"keep_ms":60000}"#).unwrap();
        assert_eq!((options.task, options.keep), (false, Some(Duration::from_secs(60))));
        for (text, want) in [
            (r#"{"task":0}"#, "options.task: expected true or false but found 0"),
            (r#"{"keep_ms":0}"#, "options.keep_ms: expected a whole number from 1 to 315360000000 but found 0"),
            (
                r#"{"keep_ms":"1"}"#,
                "options.keep_ms: expected a whole number from 1 to 315360000000 but found a string",
            ),
        ] {
            assert_eq!(CallOptions::read(text).unwrap_err().message(), want, "{text}");
        }
        assert_eq!(CallOptions::read(r#"{"keep_result":false}"#).unwrap().keep_result, Some(false));
        assert_eq!(
            CallOptions::read(r#"{"keep_result":"no"}"#).unwrap_err().message(),
            "options.keep_result: expected true or false but found a string"
        );
        assert_eq!(CallOptions::read(r#"{"x":1}"#).unwrap_err().message(), "options.x is not a known key");
        assert_eq!(CallOptions::read("[]").unwrap_err().message(), "options: expected an object but found an array");
    }
}
