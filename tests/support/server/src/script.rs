//! The script document: options, ordered rules, lives of tasks.

use serde_json::{Map, Value};

use crate::action::{Action, Framing, choice};
use crate::fields::{Fields, ScriptError};
use crate::legacy::{Era, Legacy};
use crate::rules::Rule;

/// What the server shall do other than behave well. The default script is the well-behaved server.
///
/// ```
/// use mcp_test_server::{Script, json};
/// let script = Script::new()
///     .rule(json!({"match": {"method": "tools/call", "nth": 1}, "do": {"http_status": 503}}));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(crate) options: Options,
    pub(crate) rules: Vec<Rule>,
    pub(crate) lives: Vec<Life>,
}

impl Script {
    /// The well-behaved server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a script document; the error names the first key or value that is not understood.
    ///
    /// # Errors
    /// The text is not JSON, or not a script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let value = serde_json::from_str(text).map_err(|error| ScriptError(format!("script: {error}")))?;
        Self::from_json(value)
    }

    /// As [`Script::parse`], from a JSON value.
    ///
    /// # Errors
    /// The value is not a script.
    pub fn from_json(value: Value) -> Result<Self, ScriptError> {
        let mut fields = Fields::new("script", value)?;
        fields.take("about");
        let options = Options::parse(Value::Object(fields.object("options")?.unwrap_or_default()))?;
        let rules = fields.list("rules")?.into_iter().map(Rule::parse).collect::<Result<_, _>>()?;
        let lives = fields.list("tasks")?.into_iter().map(Life::parse).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Self { options, rules, lives })
    }

    /// Adds a rule, `{"match": {...}, "do": {...}}`.
    ///
    /// # Panics
    /// The rule is not understood: a test with a wrong script shall fail at once.
    #[must_use]
    pub fn rule(mut self, rule: Value) -> Self {
        self.rules.push(Rule::parse(rule).unwrap_or_else(|error| panic!("{error}")));
        self
    }

    /// Adds the life of a task, `{"tool": "...", "seed": {...}, "polls": [...]}`.
    ///
    /// # Panics
    /// The life is not understood.
    #[must_use]
    pub fn task(mut self, life: Value) -> Self {
        self.lives.push(Life::parse(life).unwrap_or_else(|error| panic!("{error}")));
        self
    }

    /// Sets options, given as an object.
    ///
    /// # Panics
    /// An option is not understood.
    #[must_use]
    pub fn options(mut self, options: Value) -> Self {
        self.options = Options::parse(options).unwrap_or_else(|error| panic!("{error}"));
        self
    }
}

/// Settings of the well-behaved server.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) versions: Vec<String>,
    pub(crate) page_size: usize,
    pub(crate) extra_tools: usize,
    /// Definitions listed as written; a call of one echoes its arguments.
    pub(crate) tools: Vec<Value>,
    pub(crate) builtin_tools: bool,
    pub(crate) answer_sse: bool,
    pub(crate) framing: Framing,
    pub(crate) server_info: bool,
    pub(crate) tasks: bool,
    pub(crate) listen: bool,
    pub(crate) strict_headers: bool,
    pub(crate) check_capabilities: bool,
    pub(crate) poll_interval_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) keep_alive_ms: u64,
    pub(crate) error_status: Vec<(i64, u16)>,
    pub(crate) record_limit: usize,
    /// On a pipe: a child that holds the pipes open for so long.
    pub(crate) grandchild_ms: Option<u64>,
    pub(crate) ignore_sigterm: bool,
    pub(crate) era: Era,
    pub(crate) legacy: Legacy,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            path: "/mcp".to_owned(),
            versions: vec!["2026-07-28".to_owned()],
            page_size: usize::MAX,
            extra_tools: 0,
            tools: Vec::new(),
            builtin_tools: true,
            answer_sse: false,
            framing: Framing::Length,
            server_info: true,
            tasks: true,
            listen: true,
            strict_headers: true,
            check_capabilities: true,
            poll_interval_ms: 50,
            ttl_ms: 60_000,
            keep_alive_ms: 15_000,
            error_status: Vec::new(),
            record_limit: 50_000,
            grandchild_ms: None,
            ignore_sigterm: false,
            era: Era::Modern,
            legacy: Legacy::default(),
        }
    }
}

impl Options {
    fn parse(value: Value) -> Result<Self, ScriptError> {
        let base = Self::default();
        let eras = [("modern", Era::Modern), ("legacy", Era::Legacy), ("both", Era::Both)];
        let mut fields = Fields::new("options", value)?;
        let options = Self {
            host: fields.text("host")?.unwrap_or(base.host),
            path: fields.text("path")?.unwrap_or(base.path),
            versions: fields.maybe_list("versions")?.map_or(base.versions, texts),
            page_size: fields.size("page_size")?.unwrap_or(base.page_size).max(1),
            extra_tools: fields.size("extra_tools")?.unwrap_or(base.extra_tools),
            tools: fields.list("tools")?,
            builtin_tools: fields.flag("builtin_tools")?.unwrap_or(base.builtin_tools),
            answer_sse: fields.flag("answer_sse")?.unwrap_or(base.answer_sse),
            framing: match fields.flag("chunked")? {
                Some(true) => Framing::Chunked,
                _ => Framing::Length,
            },
            server_info: fields.flag("server_info")?.unwrap_or(base.server_info),
            tasks: fields.flag("tasks")?.unwrap_or(base.tasks),
            listen: fields.flag("listen")?.unwrap_or(base.listen),
            strict_headers: fields.flag("strict_headers")?.unwrap_or(base.strict_headers),
            check_capabilities: fields.flag("check_capabilities")?.unwrap_or(base.check_capabilities),
            poll_interval_ms: fields.number("poll_interval_ms")?.unwrap_or(base.poll_interval_ms),
            ttl_ms: fields.number("ttl_ms")?.unwrap_or(base.ttl_ms),
            keep_alive_ms: fields.number("keep_alive_ms")?.unwrap_or(base.keep_alive_ms),
            error_status: error_status(fields.object("error_status")?.unwrap_or_default())?,
            record_limit: fields.size("record_limit")?.unwrap_or(base.record_limit),
            grandchild_ms: fields.number("grandchild_ms")?,
            ignore_sigterm: fields.flag("ignore_sigterm")?.unwrap_or(base.ignore_sigterm),
            era: choice(&mut fields, "era", &eras)?.unwrap_or(base.era),
            legacy: fields.object("legacy")?.map_or(Ok(base.legacy), |map| Legacy::parse(Value::Object(map)))?,
        };
        fields.end()?;
        Ok(options)
    }
}

pub(crate) fn texts(items: Vec<Value>) -> Vec<String> {
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `{"-32602": 200}`: the HTTP status that carries a JSON-RPC error code.
fn error_status(map: Map<String, Value>) -> Result<Vec<(i64, u16)>, ScriptError> {
    map.into_iter()
        .map(|(code, status)| {
            let pair = code.parse().ok().zip(status.as_u64().and_then(|status| u16::try_from(status).ok()));
            pair.ok_or_else(|| ScriptError(format!("error_status: \"{code}\": expected a code and a status")))
        })
        .collect()
}

/// The scripted life of the tasks that one tool creates.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) tool: String,
    pub(crate) id: Option<String>,
    pub(crate) seed: Map<String, Value>,
    pub(crate) polls: Vec<Step>,
    pub(crate) updates: Vec<Step>,
    pub(crate) cancels: Vec<Step>,
    pub(crate) pushes: Vec<Push>,
}

/// One step of a life: how often, or until when, an action is the answer.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) times: u64,
    pub(crate) until: Option<Until>,
    pub(crate) action: Action,
}

/// What ends a step that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Updated,
    Cancelled,
    /// A call of the control interface or of `TestServer::complete`.
    Completed,
}

/// A snapshot pushed to each stream that listens for the task.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) delay: std::time::Duration,
    pub(crate) task: Map<String, Value>,
}

impl Life {
    fn parse(value: Value) -> Result<Self, ScriptError> {
        let mut fields = Fields::new("task", value)?;
        fields.take("about");
        let tool = fields.text("tool")?.ok_or_else(|| ScriptError("task: \"tool\" is missing".to_owned()))?;
        let life = Self {
            tool,
            id: fields.text("id")?,
            seed: fields.object("seed")?.unwrap_or_default(),
            polls: steps(fields.list("polls")?)?,
            updates: steps(fields.list("updates")?)?,
            cancels: steps(fields.list("cancels")?)?,
            pushes: fields.list("pushes")?.into_iter().map(push).collect::<Result<_, _>>()?,
        };
        fields.end()?;
        if life.polls.is_empty() {
            return Err(ScriptError("task: \"polls\" needs at least one step".to_owned()));
        }
        Ok(life)
    }
}

fn steps(items: Vec<Value>) -> Result<Vec<Step>, ScriptError> {
    items.into_iter().map(step).collect()
}

fn step(value: Value) -> Result<Step, ScriptError> {
    let mut fields = Fields::new("step", value)?;
    let until = match fields.text("until")?.as_deref() {
        None => None,
        Some("updated") => Some(Until::Updated),
        Some("cancelled") => Some(Until::Cancelled),
        Some("completed") => Some(Until::Completed),
        Some(other) => {
            return Err(fields.wrong("until", "one of updated, cancelled, completed", &Value::from(other)));
        }
    };
    let times = fields.number("times")?.unwrap_or(1).max(1);
    let action = Action::read(&mut fields)?;
    fields.end()?;
    Ok(Step { times, until, action })
}

fn push(value: Value) -> Result<Push, ScriptError> {
    let mut fields = Fields::new("push", value)?;
    let push = Push {
        delay: crate::action::millis(&mut fields, "delay_ms")?,
        task: fields.object("task")?.unwrap_or_default(),
    };
    fields.end()?;
    Ok(push)
}

#[cfg(test)]
mod tests {
    use super::Script;
    use serde_json::json;

    fn refusal(value: serde_json::Value) -> String {
        Script::from_json(value).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn unknown_keys_are_named() {
        assert_eq!(refusal(json!({"rule": []})), "script: unknown key \"rule\"");
        assert_eq!(refusal(json!({"options": {"pagesize": 2}})), "options: unknown key \"pagesize\"");
        assert_eq!(refusal(json!({"rules": [{"match": {"nht": 1}, "do": {}}]})), "match: unknown key \"nht\"");
        assert_eq!(refusal(json!({"rules": [{"match": {}, "do": {"status": 1}}]})), "action: unknown key \"status\"");
    }

    #[test]
    fn wrong_values_are_named() {
        assert_eq!(
            refusal(json!({"rules": [{"match": {}, "do": {"then": "explode"}}]})),
            "action: \"then\": expected one of keep, close, close_silently, reset, stall, found \"explode\""
        );
        assert_eq!(
            refusal(json!({"rules": [{"match": {}, "do": {"result": {}, "body": ""}}]})),
            "action: \"result\" and \"body\" exclude each other"
        );
        assert_eq!(refusal(json!({"tasks": [{"tool": "t"}]})), "task: \"polls\" needs at least one step");
    }

    #[test]
    #[should_panic(expected = "unknown key \"metod\"")]
    fn the_builder_panics_on_a_wrong_rule() {
        let _ = Script::new().rule(json!({"match": {"metod": "x"}, "do": {}}));
    }
}
