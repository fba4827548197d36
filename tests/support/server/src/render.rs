//! From an answer and an action to head and body.

use serde_json::{Value, json};

use crate::action::{Action, Content, Frame, FrameBody, Framing, IdForm, Payload, Then};
use crate::rpc::{Body, Reply, RpcError};
use crate::subst::{Vars, lay_over};

/// The answer that an action brings along; `None` where the well-behaved one is wanted.
pub(crate) fn scripted(action: &Action, vars: &Vars) -> Option<Reply> {
    let message =
        |key: &str, value: &Value| json!({"jsonrpc": "2.0", "id": vars.fill(&"$id".into()), key: vars.fill(value)});
    let (status, body) = match &action.payload {
        Payload::Normal => return None,
        Payload::Nothing => (0, Body::Empty),
        Payload::Result(result) => (200, Body::Message(message("result", result))),
        Payload::Error(error) => {
            let code = error["code"].as_i64().unwrap_or_default();
            (RpcError::new(code, "").http_status(), Body::Message(message("error", error)))
        }
        Payload::Message(whole) => (200, Body::Message(vars.fill(whole))),
        Payload::Raw(bytes) => (200, Body::Raw(vars.fill_bytes(bytes))),
        Payload::Sse(frames) => (200, Body::Frames(frames.clone())),
        Payload::Task(fields) => (200, Body::Message(message("result", &Value::Object(fields.clone())))),
    };
    Some(Reply::new(status, body))
}

/// Applies what changes content: status, patch, form of the id.
pub(crate) fn adjust(reply: &mut Reply, action: &Action, vars: &Vars) {
    if let Some(status) = action.http_status {
        reply.status = status;
    }
    if action.refuses() {
        reply.body = Body::Empty;
    }
    if let Body::Listen(listener) = &mut reply.body {
        listener.adjust(action, vars);
    }
    if let Body::Message(message) = &mut reply.body {
        if let Some(patch) = &action.patch {
            let patch = vars.fill(patch);
            let target = if message.get("result").is_some() { &mut message["result"] } else { &mut *message };
            lay_over(target, &patch);
        }
        form_id(message, action.id);
    }
}

/// Whether the well-behaved server has to run for this action.
pub(crate) fn runs(action: &Action) -> bool {
    action.run || (matches!(action.payload, Payload::Normal) && !action.refuses())
}

/// Rewrites the id of an answer.
pub(crate) fn form_id(message: &mut Value, form: IdForm) {
    let Some(map) = message.as_object_mut() else {
        return;
    };
    if form == IdForm::Absent {
        map.shift_remove("id");
    }
    let Some(id) = map.get_mut("id") else { return };
    match form {
        IdForm::Same | IdForm::Absent => {}
        IdForm::Text => *id = id.as_str().map_or_else(|| id.to_string(), str::to_owned).into(),
        IdForm::Float => {
            if let Some(number) = id.as_i64() {
                *id = serde_json::from_str(&format!("{number}.0")).unwrap_or_default();
            }
        }
        IdForm::Null => *id = Value::Null,
        IdForm::Other => {
            *id = match id.as_i64() {
                Some(number) => json!(number.wrapping_add(1_000_000)),
                None => json!("another-id"),
            };
        }
    }
}

/// The bytes of one frame.
pub(crate) fn frame(frame: &Frame, action: &Action, vars: &Vars) -> Vec<u8> {
    let (prefix, content, eol) = match &frame.body {
        FrameBody::Raw(bytes) => return vars.fill_bytes(bytes),
        FrameBody::Event { prefix, content, eol } => (prefix, content, eol),
    };
    let prefix = vars.fill_text(prefix);
    match message(content, action, vars) {
        None => format!("{prefix}{eol}").into_bytes(),
        Some(message) => format!("{prefix}data: {message}{eol}{eol}").into_bytes(),
    }
}

/// The message that a frame carries.
pub(crate) fn message(content: &Content, action: &Action, vars: &Vars) -> Option<Value> {
    let mut message = match content {
        Content::None => return None,
        Content::Result(result) => {
            json!({"jsonrpc": "2.0", "id": vars.fill(&"$id".into()), "result": vars.fill(result)})
        }
        Content::Error(error) => {
            json!({"jsonrpc": "2.0", "id": vars.fill(&"$id".into()), "error": vars.fill(error)})
        }
        Content::Message(message) => vars.fill(message),
        Content::Ready(message) => message.clone(),
    };
    // A whole message from a script stays as written.
    if !matches!(content, Content::Message(_)) {
        shape(&mut message, action, vars);
    }
    Some(message)
}

/// Patches an answer and forms its id; a notification or question stays as it is.
pub(crate) fn shape(message: &mut Value, action: &Action, vars: &Vars) {
    if message.get("method").is_none() {
        if let (Some(patch), Some(result)) = (&action.patch, message.get_mut("result")) {
            lay_over(result, &vars.fill(patch));
        }
        form_id(message, action.id);
    }
}

/// How a body ends, and whether the connection ends with it.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) framing: Framing,
    /// Absent for bodies that tell their end otherwise.
    pub(crate) length: Option<u64>,
    pub(crate) last: bool,
}

/// Status line and headers.
pub(crate) fn head(reply: &Reply, action: &Action, vars: &Vars, ending: Ending) -> Vec<u8> {
    let Ending { framing, length, last } = ending;
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| headers.push((name.to_owned(), value));
    match &reply.body {
        Body::Empty => {}
        Body::Message(_) | Body::Raw(_) => put("Content-Type", "application/json".to_owned()),
        Body::Frames(_) | Body::Listen(_) | Body::Talk(_) | Body::Feed(_) => {
            put("Content-Type", "text/event-stream".to_owned());
            put("Cache-Control", "no-cache".to_owned());
            put("X-Accel-Buffering", "no".to_owned());
        }
    }
    match (action.content_length.or(length.filter(|_| reply.status != 204)), framing) {
        (Some(length), Framing::Length | Framing::Close) => put("Content-Length", length.to_string()),
        (_, Framing::Chunked) => put("Transfer-Encoding", "chunked".to_owned()),
        (None, Framing::Length | Framing::Close) => {}
    }
    if last || action.then == Some(Then::Close) {
        put("Connection", "close".to_owned());
    }
    for (name, value) in reply.headers.iter().chain(&action.headers) {
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        headers.push((name.clone(), vars.fill_text(value)));
    }
    let mut text = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    text.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Scripted",
    }
}
