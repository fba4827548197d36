//! Checks of the headers that mirror the body (streamable HTTP, 2026-07-28, "Request Metadata").

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::rpc::{HEADER_MISMATCH, RpcError, VERSION};
use crate::tools;
use crate::wire::Head;

/// Undoes the Base64 form of `Mcp-Name` and `Mcp-Param-*`; other values stand for themselves.
pub(crate) fn decode(value: &str) -> Option<String> {
    if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return None;
    }
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => STANDARD.decode(inner).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
    }
}

/// `Content-Type` and `Accept` of a POST (2026-07-28, streamable HTTP, "Sending Messages").
pub(crate) fn media(head: &Head) -> Result<(), RpcError> {
    let kind = head.header("content-type").unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(RpcError::new(HEADER_MISMATCH, format!("Content-Type must be application/json, found '{kind}'")));
    }
    let accept = head.header("accept").unwrap_or_default();
    if !accept.contains("application/json") || !accept.contains("text/event-stream") {
        return Err(RpcError::new(HEADER_MISMATCH, format!("Accept must list both media types, found '{accept}'")));
    }
    Ok(())
}

/// The error for the first header that is missing, malformed or differs from the body.
pub(crate) fn check(head: &Head, method: &str, params: &Map<String, Value>, own: &[Value]) -> Result<(), RpcError> {
    let version = required(head, "MCP-Protocol-Version")?;
    let told = params.get("_meta").and_then(|meta| meta.get(VERSION)).and_then(Value::as_str);
    if let Some(told) = told {
        same("MCP-Protocol-Version", version, told)?;
    }
    same("Mcp-Method", required(head, "Mcp-Method")?, method)?;
    if let Some(name) = name_of(method, params) {
        let value = required(head, "Mcp-Name")?;
        let value = decode(value).ok_or_else(|| malformed("Mcp-Name"))?;
        same("Mcp-Name", &value, name)?;
    }
    if method == "tools/call" {
        check_params(head, params, own)?;
    }
    Ok(())
}

/// The body's value that `Mcp-Name` mirrors, where this method has one.
pub(crate) fn name_of<'a>(method: &str, params: &'a Map<String, Value>) -> Option<&'a str> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params.get(key)?.as_str()
}

fn check_params(head: &Head, params: &Map<String, Value>, own: &[Value]) -> Result<(), RpcError> {
    let tool = params.get("name").and_then(Value::as_str).unwrap_or_default();
    for (path, header) in tools::header_params(tool, own) {
        let header = format!("Mcp-Param-{header}");
        let told = params.get("arguments").and_then(|arguments| arguments.pointer(&path));
        match (head.header(&header), told.filter(|told| !told.is_null())) {
            (None, None) => {}
            (None, Some(_)) => return Err(missing(&header)),
            (Some(_), None) => return Err(mismatch(&header, "present", "no value")),
            (Some(value), Some(told)) => {
                let value = decode(value).ok_or_else(|| malformed(&header))?;
                compare(&header, &value, told)?;
            }
        }
    }
    Ok(())
}

/// Numbers compare as numbers, everything else as text.
fn compare(header: &str, value: &str, told: &Value) -> Result<(), RpcError> {
    if let (Some(told), Ok(value)) = (told.as_f64(), value.parse::<f64>()) {
        #[allow(clippy::float_cmp)]
        return if told == value { Ok(()) } else { Err(mismatch(header, &value.to_string(), &told.to_string())) };
    }
    let told = told.as_str().map_or_else(|| told.to_string(), str::to_owned);
    same(header, value, &told)
}

fn same(header: &str, value: &str, told: &str) -> Result<(), RpcError> {
    if value == told { Ok(()) } else { Err(mismatch(header, value, told)) }
}

fn required<'a>(head: &'a Head, name: &str) -> Result<&'a str, RpcError> {
    head.header(name).ok_or_else(|| missing(name))
}

fn missing(header: &str) -> RpcError {
    RpcError::new(HEADER_MISMATCH, format!("Header mismatch: {header} is missing"))
}

fn malformed(header: &str) -> RpcError {
    RpcError::new(HEADER_MISMATCH, format!("Header mismatch: {header} is malformed"))
}

fn mismatch(header: &str, value: &str, told: &str) -> RpcError {
    let text = format!("Header mismatch: {header} header value '{value}' does not match body value '{told}'");
    RpcError::new(HEADER_MISMATCH, text)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn the_examples_of_the_specification() {
        let rows = [
            ("us-west1", Some("us-west1")),
            ("=?base64?SGVsbG8sIOS4lueVjA==?=", Some("Hello, 世界")),
            ("=?base64?IHBhZGRlZCA=?=", Some(" padded ")),
            ("=?base64?bGluZTEKbGluZTI=?=", Some("line1\nline2")),
            ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", Some("=?base64?literal?=")),
            ("=?BASE64?SGVsbG8=?=", Some("=?BASE64?SGVsbG8=?=")),
            ("SGVsbG8=", Some("SGVsbG8=")),
            ("=?base64?SGVsbG8?=", None),
            ("=?base64?SGVs!!!bG8=?=", None),
            ("caf\u{e9}", None),
        ];
        for (value, expected) in rows {
            assert_eq!(decode(value).as_deref(), expected, "{value}");
        }
    }
}
