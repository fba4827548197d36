//! JSON-RPC pieces: errors with their HTTP status, the parts of a request, the answers of the well-behaved server.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::action::{Action, Frame};
use crate::listen::Listener;
use crate::talk::{Feed, Talk};

/// The tasks extension.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Key of the client's capabilities in `_meta`.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of the protocol version in `_meta`.
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

pub(crate) const PARSE: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// A JSON-RPC error.
#[derive(Clone, Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// -32021 with the capabilities that the request should have declared.
    pub(crate) fn missing(capabilities: Value) -> Self {
        Self::new(MISSING_CAPABILITY, "Missing required client capability")
            .with(json!({"requiredCapabilities": capabilities}))
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }

    /// 404 for unknown methods, 400 for requests that are the client's fault (streamable HTTP, 2026-07-28).
    pub(crate) fn http_status(&self) -> u16 {
        match self.code {
            METHOD_NOT_FOUND => 404,
            PARSE | INVALID_REQUEST | INVALID_PARAMS | HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION => {
                400
            }
            _ => 200,
        }
    }
}

/// The parts of one request.
pub(crate) struct Call<'a> {
    pub(crate) id: &'a Value,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Map<String, Value>,
}

impl<'a> Call<'a> {
    pub(crate) fn meta(&self, key: &str) -> Option<&'a Value> {
        self.params.get("_meta")?.get(key)
    }

    pub(crate) fn has_capability(&self, name: &str) -> bool {
        self.meta(CAPABILITIES).is_some_and(|caps| caps.get(name).is_some())
    }

    pub(crate) fn has_tasks(&self) -> bool {
        let extensions = self.meta(CAPABILITIES).and_then(|caps| caps.get("extensions"));
        extensions.is_some_and(|extensions| extensions.get(TASKS).is_some())
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str, RpcError> {
        let found = self.params.get(key).and_then(Value::as_str);
        found.ok_or_else(|| RpcError::invalid(format!("\"{key}\" must be a string")))
    }

    /// `params.arguments`, or null.
    pub(crate) fn arguments(&self) -> &'a Value {
        self.params.get("arguments").unwrap_or(&Value::Null)
    }

    pub(crate) fn number(&self, key: &str, default: u64) -> u64 {
        self.arguments().get(key).and_then(as_whole).unwrap_or(default)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.arguments().get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The client's answer to one question of an earlier round.
    pub(crate) fn answer(&self, key: &str) -> Option<&'a Value> {
        self.params.get("inputResponses")?.get(key)
    }
}

/// A whole number, also when written as `9.0`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn as_whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
}

/// An answer before the carrier writes it.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) delay: Duration,
    pub(crate) body: Body,
    /// What a scripted life does to the bytes.
    pub(crate) act: Option<Box<Action>>,
}

/// The body of an answer.
pub(crate) enum Body {
    Empty,
    Message(Value),
    Raw(Vec<u8>),
    Frames(Vec<Frame>),
    Listen(Box<Listener>),
    /// The answer to a request of a legacy era, and the stream of its GET.
    Talk(Box<Talk>),
    Feed(Box<Feed>),
}

impl Reply {
    pub(crate) fn new(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), delay: Duration::ZERO, body, act: None }
    }

    pub(crate) fn result(id: &Value, result: &Value) -> Self {
        Self::new(200, Body::Message(json!({"jsonrpc": "2.0", "id": id, "result": result})))
    }

    pub(crate) fn error(id: Option<&Value>, error: &RpcError) -> Self {
        let mut message = json!({"jsonrpc": "2.0"});
        if let Some(id) = id {
            message["id"] = id.clone();
        }
        message["error"] = error.to_json();
        Self::new(error.http_status(), Body::Message(message))
    }
}
