//! The legacy eras (2024-11-05 to 2025-11-25): the handshake and what a session may ask for, whatever carries it.

use serde_json::{Value, json};

use crate::action::choice;
use crate::brain::Brain;
use crate::fields::{Fields, ScriptError};
use crate::old_tasks::{self, OldTasks};
use crate::rpc::{Body, INVALID_REQUEST, METHOD_NOT_FOUND, Reply, RpcError};
use crate::script::texts;
use crate::session::Session;
use crate::talk::Talk;

/// Which eras a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Modern,
    Legacy,
    Both,
}

/// What becomes of a request before `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    Refuse,
    Silent,
    Serve,
}

/// How the header `MCP-Protocol-Version` is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionCheck {
    Off,
    /// If it is there, it must be a known one.
    Supported,
    /// It must be there, and be the one agreed on.
    Negotiated,
}

/// Settings of the legacy eras.
#[derive(Clone, Debug)]
pub(crate) struct Legacy {
    pub(crate) versions: Vec<String>,
    /// The answer to `initialize`, whatever was offered.
    pub(crate) answer_version: Option<String>,
    pub(crate) sessions: bool,
    pub(crate) lost_status: u16,
    /// Every request with a session id meets `lost_status`.
    pub(crate) lose_all: bool,
    pub(crate) early: Early,
    pub(crate) version_header: VersionCheck,
    pub(crate) get: bool,
    pub(crate) delete: bool,
    /// Streams with event ids, primed and resumable.
    pub(crate) events: bool,
    pub(crate) retry_ms: Option<u64>,
    /// Lists tools that ask for something only where the client can answer.
    pub(crate) hide_tools: bool,
    /// The HTTP+SSE transport of 2024-11-05, at `/sse` and `/messages`.
    pub(crate) sse: bool,
    /// The tasks of 2025-11-25.
    pub(crate) tasks: OldTasks,
}

impl Default for Legacy {
    fn default() -> Self {
        Self {
            versions: ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"].map(str::to_owned).to_vec(),
            answer_version: None,
            sessions: true,
            lost_status: 404,
            lose_all: false,
            early: Early::Refuse,
            version_header: VersionCheck::Supported,
            get: true,
            delete: true,
            events: false,
            retry_ms: None,
            hide_tools: false,
            sse: false,
            tasks: OldTasks::default(),
        }
    }
}

impl Legacy {
    pub(crate) fn parse(value: Value) -> Result<Self, ScriptError> {
        let base = Self::default();
        let mut fields = Fields::new("legacy", value)?;
        let early = [("refuse", Early::Refuse), ("silent", Early::Silent), ("serve", Early::Serve)];
        let checks = [
            ("off", VersionCheck::Off),
            ("supported", VersionCheck::Supported),
            ("negotiated", VersionCheck::Negotiated),
        ];
        let status = fields.number("lost_status")?.and_then(|status| u16::try_from(status).ok());
        let legacy = Self {
            versions: fields.maybe_list("versions")?.map_or(base.versions, texts),
            answer_version: fields.text("answer_version")?,
            sessions: fields.flag("sessions")?.unwrap_or(base.sessions),
            lost_status: status.unwrap_or(base.lost_status),
            lose_all: fields.flag("lose_all")?.unwrap_or(base.lose_all),
            early: choice(&mut fields, "early", &early)?.unwrap_or(base.early),
            version_header: choice(&mut fields, "version_header", &checks)?.unwrap_or(base.version_header),
            get: fields.flag("get")?.unwrap_or(base.get),
            delete: fields.flag("delete")?.unwrap_or(base.delete),
            events: fields.flag("events")?.unwrap_or(base.events),
            retry_ms: fields.number("retry_ms")?,
            hide_tools: fields.flag("hide_tools")?.unwrap_or(base.hide_tools),
            sse: fields.flag("sse")?.unwrap_or(base.sse),
            tasks: fields.object("tasks")?.map_or(Ok(base.tasks), |map| OldTasks::parse(Value::Object(map)))?,
        };
        fields.end()?;
        Ok(legacy)
    }
}

/// Answers one message within a session.
pub(crate) fn answer(brain: &Brain, key: &str, message: &Value) -> Reply {
    let accepted = || Reply::new(202, Body::Empty);
    let in_session = |act: &dyn Fn(&mut Session)| {
        brain.change(|world| world.sessions.get_mut(key).into_iter().for_each(act));
    };
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        if message.get("result").is_some() || message.get("error").is_some() {
            let asked = brain.change(|world| {
                let session = world.sessions.get_mut(key)?;
                session.answer(message);
                session.task_question(&message["id"])
            });
            if let Some(asked) = asked {
                old_tasks::answered(brain, &asked, message);
            }
            return accepted();
        }
        return Reply::error(Some(&Value::Null), &RpcError::new(INVALID_REQUEST, "Invalid Request"));
    };
    let Some(id) = message.get("id") else {
        match method {
            "notifications/initialized" => in_session(&|session| session.ready = true),
            "notifications/cancelled" => in_session(&|session| session.cancel(&message["params"]["requestId"])),
            _ => {}
        }
        return accepted();
    };
    let mut reply = match request(brain, key, method, message) {
        Ok(Some(result)) => Reply::result(id, &result),
        Ok(None) => return Talk::open(brain, key, message),
        Err(error) => Reply::error(Some(id), &error),
    };
    // A JSON-RPC error is an answer like any other here.
    reply.status = 200;
    reply
}

/// What is answered at once; `None`: the rest.
fn request(brain: &Brain, key: &str, method: &str, message: &Value) -> Result<Option<Value>, RpcError> {
    let params = &message["params"];
    let text = |name: &str| {
        let found = params[name].as_str().map(str::to_owned);
        found.ok_or_else(|| RpcError::invalid(format!("\"{name}\" must be a string")))
    };
    let change = |act: &dyn Fn(&mut Session)| {
        brain.change(|world| world.sessions.get_mut(key).into_iter().for_each(act));
        Ok(Some(json!({})))
    };
    match method {
        "initialize" => Ok(Some(initialize(brain, key, params))),
        "ping" => Ok(Some(json!({}))),
        "logging/setLevel" => {
            let level = text("level")?;
            change(&|session| session.level = Some(level.clone()))
        }
        "resources/subscribe" => {
            let uri = text("uri")?;
            change(&|session| session.resources.extend([uri.clone()]))
        }
        "resources/unsubscribe" => {
            let uri = text("uri")?;
            change(&|session| session.resources.retain(|known| *known != uri))
        }
        "tools/list"
        | "tools/call"
        | "resources/list"
        | "resources/templates/list"
        | "resources/read"
        | "prompts/list"
        | "prompts/get"
        | "completion/complete" => Ok(None),
        "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" if brain.options.legacy.tasks.on => Ok(None),
        _ => Err(RpcError::new(METHOD_NOT_FOUND, "Method not found")),
    }
}

/// The handshake: the offered version if it is known, otherwise the newest one.
fn initialize(brain: &Brain, key: &str, params: &Value) -> Value {
    let legacy = &brain.options.legacy;
    let offered = legacy.versions.iter().find(|known| params["protocolVersion"] == known.as_str());
    let version = legacy.answer_version.as_ref().or(offered).or(legacy.versions.first()).cloned().unwrap_or_default();
    brain.change(|world| {
        if let Some(session) = world.sessions.get_mut(key) {
            session.version = Some(version.clone());
            session.client = params["capabilities"].clone();
        }
    });
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": {
            "tools": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true},
            "prompts": {"listChanged": true}, "logging": {}, "completions": {},
        },
        "serverInfo": {"name": "mcp-test-server", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "The scripted test server of mcpnative.",
    });
    if version == "2025-11-25" {
        legacy.tasks.declare(&mut result["capabilities"]);
    }
    result
}

/// An array of messages (2025-03-26): the answers in an array, without what was said on the way.
pub(crate) fn batch(brain: &Brain, key: &str, messages: &[Value]) -> Reply {
    let answers: Vec<Value> = messages
        .iter()
        .filter_map(|message| match answer(brain, key, message).body {
            Body::Message(message) => Some(message),
            Body::Talk(talk) => talk.last_word(),
            Body::Empty | Body::Raw(_) | Body::Frames(_) | Body::Listen(_) | Body::Feed(_) => None,
        })
        .collect();
    if answers.is_empty() {
        Reply::new(202, Body::Empty)
    } else {
        Reply::new(200, Body::Message(Value::Array(answers)))
    }
}
