//! The MCP endpoint over HTTP as the specification wants it: method, path, origin, headers, then the brain.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::action::{Content, Frame, FrameBody};
use crate::headers;
use crate::parsed::Parsed;
use crate::rpc::{Body, INVALID_REQUEST, PARSE, Reply, RpcError};
use crate::shared::Shared;
use crate::streamable;
use crate::wire::Request;

/// What the 2026-07-28 server says.
pub(crate) fn well_behaved(shared: &Arc<Shared>, request: &Request, parsed: &Parsed) -> Reply {
    let options = &shared.brain.options;
    let head = &request.head;
    if !local(head.header("origin")) || !local(head.header("host")) {
        return Reply::new(403, Body::Empty);
    }
    if let Some(reply) = streamable::sse(shared, request, parsed) {
        return reply;
    }
    if head.plain_path() != options.path {
        return Reply::new(404, Body::Empty);
    }
    if streamable::concerns(shared, head, parsed) {
        return streamable::answer(shared, request, parsed);
    }
    if head.method != "POST" {
        let mut reply = Reply::new(405, Body::Empty);
        reply.headers.push(("Allow".to_owned(), "POST".to_owned()));
        return reply;
    }
    let Some(message) = &parsed.message else {
        return Reply::error(None, &RpcError::new(PARSE, "Parse error"));
    };
    let Some(method) = parsed.method.as_deref().filter(|_| message.is_object()) else {
        return Reply::error(message.get("id"), &RpcError::new(INVALID_REQUEST, "Not a single request"));
    };
    if options.strict_headers && message.get("id").is_some() {
        let empty = Map::new();
        let params = parsed.params().and_then(Value::as_object).unwrap_or(&empty);
        if let Err(error) = headers::media(head).and_then(|()| headers::check(head, method, params, &options.tools)) {
            return Reply::error(message.get("id"), &error);
        }
    }
    let mut reply = shared.brain.answer(message);
    if options.answer_sse && reply.status == 200 && reply.act.is_none() {
        reply.body = as_stream(reply.body);
    }
    reply
}

/// A plain answer as a stream of one event.
fn as_stream(body: Body) -> Body {
    let Body::Message(message) = body else {
        return body;
    };
    let content = Content::Ready(message);
    let body = FrameBody::Event { prefix: String::new(), content, eol: "\n".to_owned() };
    Body::Frames(vec![Frame { delay: Duration::ZERO, hold: None, body }])
}

/// Whether a `Host` or `Origin`, if present, names this machine.
fn local(value: Option<&str>) -> bool {
    let Some(value) = value else { return true };
    let host = value.split_once("://").map_or(value, |(_, rest)| rest);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    // No DNS has these names (RFC 6761), so nobody can point one here.
    let reserved = |name: &str| name.ends_with(".localhost") || name.ends_with(".invalid");
    name.is_some_and(|name| matches!(name, "localhost" | "127.0.0.1" | "::1") || reserved(name))
}
