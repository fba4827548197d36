//! What a script does to one answer: its content, its bytes, its timing, and the connection afterwards.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::fields::{Fields, ScriptError};

/// Content of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) enum Payload {
    /// What the well-behaved server says.
    #[default]
    Normal,
    /// No byte at all.
    Nothing,
    Result(Value),
    Error(Value),
    /// A whole JSON-RPC message, id included.
    Message(Value),
    Raw(Vec<u8>),
    Sse(Vec<Frame>),
    /// Fields laid over the snapshot of the scripted task.
    Task(Map<String, Value>),
}

/// One piece of an event stream.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) delay: Duration,
    pub(crate) hold: Option<String>,
    pub(crate) body: FrameBody,
}

impl Frame {
    /// The result that this frame carries.
    pub(crate) fn result_mut(&mut self) -> Option<&mut Value> {
        match &mut self.body {
            FrameBody::Event { content: Content::Result(result), .. } => Some(result),
            FrameBody::Event { .. } | FrameBody::Raw(_) => None,
        }
    }
}

/// The text of a frame.
#[derive(Clone, Debug)]
pub(crate) enum FrameBody {
    Raw(Vec<u8>),
    Event { prefix: String, content: Content, eol: String },
}

/// The message in a frame.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    None,
    Result(Value),
    Error(Value),
    Message(Value),
    /// A message of the well-behaved server, in which a `$` is just a `$`.
    Ready(Value),
}

/// What the id of the answer looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IdForm {
    #[default]
    Same,
    Text,
    Other,
    Null,
    Absent,
    /// `7.0` for `7`.
    Float,
}

/// How the end of the body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    Close,
}

/// What becomes of the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    /// `Connection: close`, then close.
    Close,
    /// Close without a word.
    CloseSilently,
    Reset,
    /// Leave it open, send nothing more.
    Stall,
    /// The process ends with this code.
    Exit(u8),
}

/// One action; the default changes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Action {
    pub(crate) delay: Duration,
    pub(crate) hold: Option<String>,
    pub(crate) payload: Payload,
    pub(crate) run: bool,
    pub(crate) patch: Option<Value>,
    pub(crate) id: IdForm,
    pub(crate) http_status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Option<Framing>,
    pub(crate) content_length: Option<u64>,
    /// Raw text around the body, and the end of a line on a pipe.
    pub(crate) before: Vec<u8>,
    pub(crate) extra: Vec<u8>,
    pub(crate) eol: Option<String>,
    /// What a process says on its standard error stream first.
    pub(crate) stderr: Vec<u8>,
    /// A file that is written before the answer.
    pub(crate) marker: Option<String>,
    pub(crate) slice: Option<usize>,
    pub(crate) slice_gap: Duration,
    pub(crate) cut_head: Option<usize>,
    pub(crate) cut_body: Option<usize>,
    /// So many events of a legacy stream.
    pub(crate) cut_events: Option<usize>,
    pub(crate) then: Option<Then>,
    pub(crate) then_after: Duration,
}

impl Action {
    /// A bare status of refusal: no body, and the work it refuses is not done (unless `run` says so).
    pub(crate) fn refuses(&self) -> bool {
        matches!(self.payload, Payload::Normal) && self.http_status.is_some_and(|status| status >= 400)
    }

    /// Whether time passes before or while the answer is made.
    pub(crate) fn waits(&self) -> bool {
        self.hold.is_some() || !self.delay.is_zero() || !self.stderr.is_empty()
    }

    pub(crate) fn parse(value: Value) -> Result<Self, ScriptError> {
        let mut fields = Fields::new("action", value)?;
        let action = Self::read(&mut fields)?;
        fields.end()?;
        Ok(action)
    }

    /// Reads the keys of an action and leaves others, for records that embed one.
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, ScriptError> {
        let mut action = Self {
            delay: millis(fields, "delay_ms")?,
            hold: gate(fields)?,
            run: fields.flag("run")?.unwrap_or(false),
            patch: fields.take("patch"),
            id: id_form(fields)?,
            http_status: http_status(fields)?,
            headers: fields.headers("headers")?,
            framing: framing(fields)?,
            content_length: fields.number("content_length")?,
            before: fields.text("before")?.unwrap_or_default().into_bytes(),
            extra: fields.text("extra")?.unwrap_or_default().into_bytes(),
            eol: fields.text("eol")?,
            stderr: fields.take("stderr").map(noise).transpose()?.unwrap_or_default(),
            marker: fields.text("marker")?,
            slice: fields.size("slice_bytes")?.map(|size| size.max(1)),
            slice_gap: millis(fields, "slice_gap_ms")?,
            cut_head: fields.size("cut_head_after")?,
            cut_body: fields.size("cut_body_after")?,
            cut_events: fields.size("cut_after_events")?,
            then: then(fields)?,
            then_after: millis(fields, "then_after_ms")?,
            payload: Payload::Normal,
        };
        action.payload = payload(fields)?;
        action.shortcuts(fields)?;
        Ok(action)
    }

    fn shortcuts(&mut self, fields: &mut Fields) -> Result<(), ScriptError> {
        if let Some(code) = fields.number("exit")? {
            let code = u8::try_from(code).map_err(|_| fields.wrong("exit", "a code from 0 to 255", &code.into()))?;
            self.then = Some(Then::Exit(code));
        }
        for (key, end) in [("never", Then::Stall), ("reset", Then::Reset), ("close", Then::CloseSilently)] {
            if fields.flag(key)? == Some(true) {
                self.payload = Payload::Nothing;
                self.then = Some(end);
            }
        }
        Ok(())
    }
}

pub(crate) fn millis(fields: &mut Fields, key: &str) -> Result<Duration, ScriptError> {
    Ok(Duration::from_millis(fields.number(key)?.unwrap_or(0)))
}

fn http_status(fields: &mut Fields) -> Result<Option<u16>, ScriptError> {
    let Some(code) = fields.number("http_status")? else {
        return Ok(None);
    };
    match u16::try_from(code) {
        Ok(code @ 100..=999) => Ok(Some(code)),
        Ok(_) | Err(_) => Err(fields.wrong("http_status", "a code from 100 to 999", &code.into())),
    }
}

/// `hold: true` waits at the gate with the empty name.
fn gate(fields: &mut Fields) -> Result<Option<String>, ScriptError> {
    match fields.take("hold") {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(String::new())),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(other) => Err(fields.wrong("hold", "true or the name of a gate", &other)),
    }
}

pub(crate) fn choice<T: Copy>(fields: &mut Fields, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, ScriptError> {
    let Some(text) = fields.text(key)? else {
        return Ok(None);
    };
    match choices.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            Err(fields.wrong(key, &format!("one of {}", names.join(", ")), &Value::String(text)))
        }
    }
}

fn id_form(fields: &mut Fields) -> Result<IdForm, ScriptError> {
    let choices = [
        ("same", IdForm::Same),
        ("string", IdForm::Text),
        ("other", IdForm::Other),
        ("null", IdForm::Null),
        ("absent", IdForm::Absent),
        ("float", IdForm::Float),
    ];
    Ok(choice(fields, "id", &choices)?.unwrap_or_default())
}

fn framing(fields: &mut Fields) -> Result<Option<Framing>, ScriptError> {
    let choices = [("length", Framing::Length), ("chunked", Framing::Chunked), ("close", Framing::Close)];
    choice(fields, "framing", &choices)
}

fn then(fields: &mut Fields) -> Result<Option<Then>, ScriptError> {
    let choices = [
        ("keep", Then::Keep),
        ("close", Then::Close),
        ("close_silently", Then::CloseSilently),
        ("reset", Then::Reset),
        ("stall", Then::Stall),
    ];
    choice(fields, "then", &choices)
}

fn payload(fields: &mut Fields) -> Result<Payload, ScriptError> {
    let keys = ["nothing", "result", "error", "message", "body", "body_base64", "sse", "lines", "task"];
    let given: Vec<&str> = keys.into_iter().filter(|key| fields.has(key)).collect();
    if given.len() > 1 {
        return Err(ScriptError(format!("action: \"{}\" and \"{}\" exclude each other", given[0], given[1])));
    }
    let Some(key) = given.first() else {
        return Ok(Payload::Normal);
    };
    Ok(match *key {
        "nothing" => {
            fields.flag(key)?.map_or(Payload::Normal, |on| if on { Payload::Nothing } else { Payload::Normal })
        }
        "result" => Payload::Result(fields.take(key).unwrap_or_default()),
        "error" => Payload::Error(fields.take(key).unwrap_or_default()),
        "message" => Payload::Message(fields.take(key).unwrap_or_default()),
        "body" => Payload::Raw(fields.text(key)?.unwrap_or_default().into_bytes()),
        "body_base64" => Payload::Raw(bytes(fields, key)?),
        "sse" | "lines" => Payload::Sse(fields.list(key)?.into_iter().map(frame).collect::<Result<_, _>>()?),
        _ => Payload::Task(fields.object(key)?.unwrap_or_default()),
    })
}

/// A text with its line end, or `{"bytes": n, "newline": true}`: so many bytes, in lines or in one piece.
fn noise(value: Value) -> Result<Vec<u8>, ScriptError> {
    if let Some(text) = value.as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let mut fields = Fields::new("stderr", value)?;
    let size = fields.size("bytes")?.unwrap_or(0);
    let lines = fields.flag("newline")?.unwrap_or(true);
    fields.end()?;
    let mut bytes = vec![b'e'; size];
    if lines {
        bytes.iter_mut().skip(79).step_by(80).for_each(|byte| *byte = b'\n');
    }
    Ok(bytes)
}

fn bytes(fields: &mut Fields, key: &str) -> Result<Vec<u8>, ScriptError> {
    let text = fields.text(key)?.unwrap_or_default();
    STANDARD.decode(&text).map_err(|_| fields.wrong(key, "base64", &Value::String(text)))
}

/// A string is raw text; an object is an event, or raw bytes with a delay.
pub(crate) fn frame(value: Value) -> Result<Frame, ScriptError> {
    if let Value::String(text) = value {
        return Ok(Frame { delay: Duration::ZERO, hold: None, body: FrameBody::Raw(text.into_bytes()) });
    }
    let mut fields = Fields::new("sse frame", value)?;
    let delay = millis(&mut fields, "delay_ms")?;
    let hold = gate(&mut fields)?;
    let body = if fields.has("raw") {
        FrameBody::Raw(fields.text("raw")?.unwrap_or_default().into_bytes())
    } else if fields.has("raw_base64") {
        FrameBody::Raw(bytes(&mut fields, "raw_base64")?)
    } else {
        event(&mut fields)?
    };
    fields.end()?;
    Ok(Frame { delay, hold, body })
}

fn event(fields: &mut Fields) -> Result<FrameBody, ScriptError> {
    let eol = fields.text("eol")?.unwrap_or_else(|| "\n".to_owned());
    let mut prefix = String::new();
    if let Some(comment) = fields.text("comment")? {
        prefix += &format!(":{comment}{eol}");
    }
    for key in ["event", "id"] {
        if let Some(text) = fields.text(key)? {
            prefix += &format!("{key}: {text}{eol}");
        }
    }
    if let Some(retry) = fields.number("retry")? {
        prefix += &format!("retry: {retry}{eol}");
    }
    let content = if let Some(result) = fields.take("result") {
        Content::Result(result)
    } else if let Some(error) = fields.take("error") {
        Content::Error(error)
    } else if let Some(message) = fields.take("message") {
        Content::Message(message)
    } else if let Some(params) = fields.object("progress")? {
        Content::Message(progress(params))
    } else {
        Content::None
    };
    Ok(FrameBody::Event { prefix, content, eol })
}

/// The progress token stands for itself until the request is known.
fn progress(mut params: Map<String, Value>) -> Value {
    params.entry("progressToken").or_insert_with(|| Value::String("$token".to_owned()));
    serde_json::json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}
