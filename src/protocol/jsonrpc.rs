//! JSON-RPC 2.0 envelopes (`basic/index`, "Messages"): the strict writer and the tolerant reader.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Kind, Result, RpcFault};
use crate::protocol::json::{Json, Members, elements, nests_deeper, quote, string, whole_number};
use crate::protocol::limits::{Limits, too_large};
use crate::protocol::task::read_fault;

/// The id of a message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireId {
    /// A number, whole.
    Number(i64),
    /// A string.
    Text(String),
    /// Absent or null.
    Missing,
    /// Something that no id may be.
    Strange,
}

/// How an answer's id matches the request's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The same number.
    Exact,
    /// The same number in another dress (`"7"`); worth a warning.
    Dressed,
    /// No id at all: an error response about a request that could not be read.
    Missing,
    /// Another one's.
    Other,
}

impl WireId {
    /// Compares with an id of ours (ours are whole numbers).
    #[must_use]
    pub fn matches(&self, ours: i64) -> Match {
        match self {
            Self::Number(number) if *number == ours => Match::Exact,
            Self::Text(text) if text.parse() == Ok(ours) => Match::Dressed,
            Self::Missing => Match::Missing,
            Self::Number(_) | Self::Text(_) | Self::Strange => Match::Other,
        }
    }
}

/// A message of the server's.
#[derive(Clone, Debug)]
pub enum Message {
    /// A result.
    Result {
        /// Whose.
        id: WireId,
        /// The result object.
        result: Json,
    },
    /// An error.
    Fault {
        /// Whose.
        id: WireId,
        /// The error object.
        fault: RpcFault,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: String,
        /// Its `params`, `{}` where absent.
        params: Json,
    },
    /// A request of the server's.
    Request {
        /// Its id as JSON text.
        id: String,
        /// Its method.
        method: String,
        /// Its `params`, `{}` where absent.
        params: Json,
    },
    /// An object with nothing of a message in it: some servers keep a stream alive so (BR-22).
    Nothing,
}

/// The members of an envelope, each as raw text.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Reads one message. The text is kept: the payload of the message shares it.
///
/// # Errors
/// [`Kind::TooLarge`] over `message_bytes` or `nesting`; [`Kind::Parse`] for what is no JSON; [`Kind::Malformed`] for
/// JSON that is no message (both or neither of `result` and `error`, a result that is no object, an array).
pub fn read(text: String, limits: &Limits) -> Result<Message> {
    if text.len() > limits.message_bytes {
        return Err(too_large("a message", limits.message_bytes, "message_bytes"));
    }
    if nests_deeper(text.as_bytes(), limits.nesting) {
        return Err(too_large("the nesting of a message", limits.nesting, "nesting"));
    }
    // serde would read an array as the members of the envelope in their order.
    if text.trim_start().starts_with('[') {
        return Err(malformed("it is an array"));
    }
    let whole = Json::trusted(text);
    let envelope: Envelope<'_> = serde_json::from_str(whole.text()).map_err(|fault| {
        let kind = if fault.is_data() { Kind::Malformed } else { Kind::Parse };
        Error::new(kind, format!("the server's message is not JSON-RPC: {fault}"))
    })?;
    let params = || envelope.params.map_or_else(|| Json::trusted("{}"), |raw| whole.slice(raw.get()));
    match (&envelope.method, envelope.result, envelope.error) {
        (Some(method), None, None) => Ok(match envelope.id {
            Some(id) => Message::Request { id: id.get().to_owned(), method: method.to_string(), params: params() },
            None => Message::Notification { method: method.to_string(), params: params() },
        }),
        (None, Some(result), None) if result.get().starts_with('{') => {
            Ok(Message::Result { id: read_id(envelope.id), result: whole.slice(result.get()) })
        }
        (None, None, Some(error)) => match read_fault(error.get()) {
            Some(fault) => Ok(Message::Fault { id: read_id(envelope.id), fault }),
            None => Err(malformed("its error has no whole number as code")),
        },
        (None, Some(_), None) => Err(malformed("its result is no object")),
        (None, None, None) if envelope.id.is_none() => Ok(Message::Nothing),
        (None, None, None) => Err(malformed("it has neither result nor error nor method")),
        _ => Err(malformed("it has more than one of result, error and method")),
    }
}

fn malformed(why: &str) -> Error {
    Error::new(Kind::Malformed, format!("the server's message is not JSON-RPC: {why}"))
}

pub(super) fn read_id(raw: Option<&RawValue>) -> WireId {
    let Some(raw) = raw else {
        return WireId::Missing;
    };
    let raw = raw.get();
    if let Some(text) = string(raw) {
        return WireId::Text(text.into_owned());
    }
    // `7.0` is the same id as `7`; `7.5` is nobody's.
    match whole_number(raw) {
        Some(number) if !raw.contains(['.', 'e', 'E']) || raw.parse() == Ok(number as f64) => WireId::Number(number),
        _ => WireId::Strange,
    }
}

/// Writes a request. `members` are those of its `params`, in pieces, each empty or with a comma behind it; `meta` is
/// the text of the `_meta` object.
#[must_use]
pub fn write_request(id: i64, method: &str, members: [&str; 2], meta: &str) -> String {
    let id = id.to_string();
    let method = quote(method);
    let [first, second] = members;
    // The longest text of a call: put together once, in a place that is large enough.
    [
        "{\"jsonrpc\":\"2.0\",\"id\":",
        &id,
        ",\"method\":",
        &method,
        ",\"params\":{",
        first,
        second,
        "\"_meta\":",
        meta,
        "}}",
    ]
    .concat()
}

/// Writes a legacy request. `params` is the text of its object.
#[must_use]
pub fn write_legacy_request(id: i64, method: &str, params: &str) -> String {
    let (id, method) = (id.to_string(), quote(method));
    ["{\"jsonrpc\":\"2.0\",\"id\":", &id, ",\"method\":", &method, ",\"params\":", params, "}"].concat()
}

/// Writes a notification.
#[must_use]
pub fn write_notification(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{},\"params\":{params}}}", quote(method))
}

/// Writes an answer to a request of the server's. `id` is the request's, as JSON text.
#[must_use]
pub fn write_result(id: &str, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// Writes a refusal of a request of the server's.
#[must_use]
pub fn write_fault(id: &str, code: i64, message: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{}}}}}", quote(message))
}

/// The messages of a batch (2025-03-26 `basic`, "Batching"), or the one message that `text` is. Under the same limits
/// as [`read`].
///
/// # Errors
/// As [`read`].
pub fn unbatch(text: String, limits: &Limits) -> Result<Vec<String>> {
    if !text.trim_start().starts_with('[') {
        return Ok(vec![text]);
    }
    if text.len() > limits.message_bytes {
        return Err(too_large("a message", limits.message_bytes, "message_bytes"));
    }
    // A message within may nest as deep as one that stands alone.
    if nests_deeper(text.as_bytes(), limits.nesting.saturating_add(1)) {
        return Err(too_large("the nesting of a message", limits.nesting, "nesting"));
    }
    Ok(elements(&text)?.into_iter().map(str::to_owned).collect())
}

/// Writes `notifications/cancelled` (`basic/patterns/cancellation`); `reason` is for the server's log.
#[must_use]
pub fn write_cancelled(id: i64, reason: &str) -> String {
    write_notification("notifications/cancelled", &format!("{{\"requestId\":{id},\"reason\":{}}}", quote(reason)))
}

/// The members of a `params` object that the host gave, apart from its `_meta`.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The members as text, with a trailing comma where there is any: ready to stand before `"_meta":`.
    pub body: String,
    /// The host's `_meta` object.
    pub meta: Option<String>,
    /// The value of the member that routes the request, where it is a string.
    pub name: Option<String>,
}

impl Params {
    /// Whether they have this member, and it is not null.
    #[must_use]
    pub fn has(&self, member: &str) -> bool {
        // Most lists are asked for without any.
        !self.body.is_empty()
            && Members::parse(&format!("{{{}}}", self.body.trim_end_matches(',')))
                .is_ok_and(|members| members.some(member).is_some())
    }
}

/// Takes the host's `params` apart. Members pass through byte for byte.
///
/// # Errors
/// [`Kind::Argument`] where `text` is no JSON object, or its `_meta` is none.
pub fn take_params(text: &str, name_member: Option<&str>) -> Result<Params> {
    let members = Members::parse(text)
        .map_err(|fault| Error::new(Kind::Argument, format!("params must be a JSON object: {}", fault.message())))?;
    let mut out = Params::default();
    for (name, raw) in members.iter() {
        if name == "_meta" {
            Members::parse(raw).map_err(|_| Error::new(Kind::Argument, "params._meta must be a JSON object"))?;
            out.meta = Some(raw.to_owned());
            continue;
        }
        if Some(name) == name_member {
            out.name = serde_json::from_str(raw).ok();
        }
        out.body.push_str(&quote(name));
        out.body.push(':');
        out.body.push_str(raw);
        out.body.push(',');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message> {
        read(text.to_owned(), &Limits::default())
    }

    #[test]
    fn br_12_ids_in_every_dress() {
        for (id, want) in [
            ("7", Match::Exact),
            ("7.0", Match::Exact),
            ("\"7\"", Match::Dressed),
            ("null", Match::Missing),
            ("8", Match::Other),
            ("7.5", Match::Other),
            ("\"x\"", Match::Other),
            ("[7]", Match::Other),
            ("true", Match::Other),
        ] {
            let Message::Result { id: wire, .. } = parse(&format!(r#"{{"id":{id},"result":{{}}}}"#)).unwrap() else {
                panic!("a result")
            };
            assert_eq!(wire.matches(7), want, "{id}");
        }
    }

    #[test]
    fn what_is_no_message_says_why() {
        for (text, want) in [
            ("nonsense", "the server's message is not JSON-RPC: expected ident at line 1 column 2"),
            (
                r#"{"id":1,"result":{},"error":{"code":1}}"#,
                "the server's message is not JSON-RPC: it has more than one of result, error and method",
            ),
            (r#"{"id":1}"#, "the server's message is not JSON-RPC: it has neither result nor error nor method"),
            (r#"{"id":1,"result":[]}"#, "the server's message is not JSON-RPC: its result is no object"),
            (
                r#"{"id":1,"error":{"message":"x"}}"#,
                "the server's message is not JSON-RPC: its error has no whole number as code",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().message(), want);
        }
        assert!(matches!(parse(r#"{"type":"ping"}"#), Ok(Message::Nothing)));
        assert_eq!(parse("[]").unwrap_err().kind(), Kind::Malformed);
        assert_eq!(parse(r#"[7,null,null,{"a":1}]"#).unwrap_err().kind(), Kind::Malformed);
        assert_eq!(parse("").unwrap_err().kind(), Kind::Parse);
    }

    #[test]
    fn limits_name_their_option() {
        let limits = Limits { message_bytes: 20, nesting: 2, ..Limits::default() };
        let long = read(" ".repeat(21), &limits).unwrap_err();
        assert_eq!(long.message(), "a message is over the limit of 20 (option limits.message_bytes)");
        let deep = read("[[[]]]".into(), &limits).unwrap_err();
        assert_eq!(deep.message(), "the nesting of a message is over the limit of 2 (option limits.nesting)");
    }

    #[test]
    fn a_batch_comes_apart() {
        let limits = Limits { nesting: 2, ..Limits::default() };
        let parts = |text: &str| unbatch(text.to_owned(), &limits);
        assert_eq!(parts(r#" [{"a": 1}, {"b":[]}]"#).unwrap(), [r#"{"a": 1}"#, r#"{"b":[]}"#]);
        assert_eq!(parts(r#"{"a":1}"#).unwrap(), [r#"{"a":1}"#]);
        assert!(parts("[]").unwrap().is_empty());
        assert_eq!(parts("[[[[]]]]").unwrap_err().kind(), Kind::TooLarge);
        assert!(parts("[1").is_err());
    }

    #[test]
    fn answers_to_the_server_are_written() {
        assert_eq!(write_result("\"a\"", "{}"), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
        assert_eq!(
            write_fault("7", -32601, "no \"x\""),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no \"x\""}}"#
        );
    }

    #[test]
    fn br_31_numbers_pass_untouched() {
        let Message::Result { result, .. } = parse(r#"{"id":1,"result":{"n":9007199254740993,"f":1.10}}"#).unwrap()
        else {
            panic!("a result")
        };
        assert_eq!(result.text(), r#"{"n":9007199254740993,"f":1.10}"#);
    }

    #[test]
    fn params_pass_byte_for_byte_and_meta_comes_apart() {
        let params = take_params(r#"{"name":"t","arguments":{"a": 1e400},"_meta":{"x":1}}"#, Some("name")).unwrap();
        assert_eq!(params.body, r#""name":"t","arguments":{"a": 1e400},"#);
        assert_eq!(params.meta.as_deref(), Some(r#"{"x":1}"#));
        assert_eq!(params.name.as_deref(), Some("t"));
        assert_eq!(take_params("[]", None).unwrap_err().kind(), Kind::Argument);
        assert!(take_params(r#"{"_meta":1}"#, None).unwrap_err().message().contains("_meta"));
    }
}
