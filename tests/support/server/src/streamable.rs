//! Streamable HTTP of the legacy eras (2025-03-26 to 2025-11-25), and HTTP+SSE (2024-11-05) beside it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::legacy::{self, Early, Era, VersionCheck};
use crate::parsed::Parsed;
use crate::rpc::{Body, PARSE, Reply, VERSION};
use crate::shared::Shared;
use crate::talk::{Feed, Talk, keep};
use crate::wire::{Head, Request};

const SESSION: &str = "Mcp-Session-Id";

/// Whether this request speaks the language of a legacy era.
pub(crate) fn concerns(shared: &Shared, head: &Head, parsed: &Parsed) -> bool {
    let options = &shared.brain.options;
    match options.era {
        Era::Modern => false,
        Era::Legacy => true,
        Era::Both => {
            let told = parsed.params().and_then(|params| params.get("_meta")?.get(VERSION)).is_some();
            let header = head.header("mcp-protocol-version");
            let named = header.is_some_and(|version| options.versions.iter().any(|known| known == version));
            if head.header(SESSION).is_some() || head.method != "POST" {
                return true;
            }
            match parsed.method.as_deref() {
                Some("initialize") => !told,
                Some("server/discover") => false,
                _ => !(told || named),
            }
        }
    }
}

/// Answers at the MCP endpoint.
pub(crate) fn answer(shared: &Shared, request: &Request, parsed: &Parsed) -> Reply {
    let head = &request.head;
    let legacy = &shared.brain.options.legacy;
    match head.method.as_str() {
        "POST" => post(shared, head, parsed),
        "GET" if legacy.get => match session(shared, head, parsed) {
            Ok(_) if !accepts(shared, head, &["text/event-stream"]) => refuse(406, "Not Acceptable", true),
            Ok(key) => get(shared, head, &key),
            Err(reply) => *reply,
        },
        "DELETE" if legacy.delete => match session(shared, head, parsed) {
            Ok(key) => {
                shared.brain.change(|world| world.sessions.end(&key));
                Reply::new(200, Body::Empty)
            }
            Err(reply) => *reply,
        },
        _ => refuse(405, "Method not allowed.", true),
    }
}

fn post(shared: &Shared, head: &Head, parsed: &Parsed) -> Reply {
    let brain = &shared.brain;
    if !accepts(shared, head, &["application/json", "text/event-stream"]) {
        let text = "Not Acceptable: Client must accept both application/json and text/event-stream";
        return refuse(406, text, true);
    }
    if brain.options.strict_headers && !head.header("content-type").unwrap_or_default().contains("application/json") {
        return refuse(415, "Unsupported Media Type: Content-Type must be application/json", true);
    }
    let Some(message) = &parsed.message else {
        return error(400, PARSE, "Parse error", true);
    };
    if parsed.method.as_deref() == Some("initialize") {
        return initialize(shared, message);
    }
    let key = match session(shared, head, parsed) {
        Ok(key) => key,
        Err(reply) => return *reply,
    };
    if let Some(messages) = message.as_array() {
        let version = brain.world.lock().sessions.get(&key).and_then(|session| session.version.clone());
        return match version.as_deref() {
            Some("2025-03-26") => legacy::batch(brain, &key, messages),
            _ => error(400, crate::rpc::INVALID_REQUEST, "Invalid Request", true),
        };
    }
    streamed(shared, &key, message, legacy::answer(brain, &key, message))
}

fn initialize(shared: &Shared, message: &Value) -> Reply {
    let brain = &shared.brain;
    let legacy = &brain.options.legacy;
    let key = brain.change(|world| {
        let key = if legacy.sessions { brain.new_id(world.sessions.made()) } else { String::new() };
        world.sessions.open(&key, world.changes.len());
        key
    });
    let mut reply = streamed(shared, &key, message, legacy::answer(brain, &key, message));
    if legacy.sessions {
        reply.headers.push((SESSION.to_owned(), key));
    }
    reply
}

/// The session that a request names, if it may go on.
fn session(shared: &Shared, head: &Head, parsed: &Parsed) -> Result<String, Box<Reply>> {
    let legacy = &shared.brain.options.legacy;
    let told = head.header(SESSION);
    let key = told.filter(|_| legacy.sessions).unwrap_or_default();
    let mut world = shared.brain.world.lock();
    let version = world.sessions.get(key).map(|session| session.version.clone());
    let Some(version) = version.filter(|_| !(legacy.lose_all && told.is_some())) else {
        if told.is_some() && legacy.sessions {
            // Servers that say 400 leave the id out.
            let with_id = legacy.lost_status == 404;
            return Err(Box::new(error(legacy.lost_status, -32001, "Session not found", with_id)));
        }
        return match legacy.early {
            Early::Serve => {
                let at = world.changes.len();
                world.sessions.open("", at);
                Ok(String::new())
            }
            Early::Silent if parsed.method.is_some() => Err(Box::new(Reply::new(0, Body::Empty))),
            Early::Silent | Early::Refuse => Err(Box::new(refuse(400, "Bad Request: Server not initialized", true))),
        };
    };
    drop(world);
    version_header(shared, head, version.as_deref())?;
    Ok(key.to_owned())
}

fn version_header(shared: &Shared, head: &Head, agreed: Option<&str>) -> Result<(), Box<Reply>> {
    let legacy = &shared.brain.options.legacy;
    let told = head.header("mcp-protocol-version");
    let known = |version: &str| legacy.versions.iter().any(|known| known == version);
    let fine = match legacy.version_header {
        VersionCheck::Off => true,
        VersionCheck::Supported => told.is_none_or(|told| known(told) || Some(told) == agreed),
        VersionCheck::Negotiated => told == agreed,
    };
    if fine {
        return Ok(());
    }
    let text = format!(
        "Bad Request: Unsupported protocol version: {} (supported versions: {})",
        told.unwrap_or("none"),
        legacy.versions.join(", ")
    );
    Err(Box::new(refuse(400, &text, true)))
}

/// Puts an answer into a stream, where it is one or the options want it.
fn streamed(shared: &Shared, key: &str, request: &Value, reply: Reply) -> Reply {
    let options = &shared.brain.options;
    let mut reply = reply;
    if let Body::Message(message) = &mut reply.body
        && (options.answer_sse || options.legacy.events)
    {
        let talk = Talk::of(key, request, message.take(), std::mem::take(&mut reply.delay));
        reply.body = Body::Talk(Box::new(talk));
    }
    if let Body::Talk(talk) = &mut reply.body {
        let stream = |world: &mut crate::world::World| world.sessions.get_mut(key).map(|session| session.new_stream());
        talk.stream = shared.brain.change(stream).unwrap_or_default();
    }
    reply
}

fn get(shared: &Shared, head: &Head, key: &str) -> Reply {
    let last = head.header("last-event-id").filter(|_| shared.brain.options.legacy.events);
    let place = last.and_then(|id| {
        let (stream, event) = id.split_once('-')?;
        Some((stream.parse::<usize>().ok()?, event.parse::<usize>().ok()?))
    });
    let feed = match (last, place) {
        (Some(_), None) => return refuse(400, "Bad Request: Invalid Last-Event-ID", true),
        (_, Some((stream, event))) => Feed::new(&shared.brain, key, stream, Some(event + 1)),
        (None, None) => Feed::new(&shared.brain, key, 0, None),
    };
    Reply::new(200, Body::Feed(Box::new(feed)))
}

fn accepts(shared: &Shared, head: &Head, kinds: &[&str]) -> bool {
    let accept = head.header("accept").unwrap_or_default();
    !shared.brain.options.strict_headers || kinds.iter().all(|kind| accept.contains(kind))
}

fn refuse(status: u16, text: &str, with_id: bool) -> Reply {
    error(status, -32000, text, with_id)
}

fn error(status: u16, code: i64, text: &str, with_id: bool) -> Reply {
    let mut message = json!({"jsonrpc": "2.0", "error": {"code": code, "message": text}});
    if with_id {
        message["id"] = Value::Null;
    }
    Reply::new(status, Body::Message(message))
}

/// Answers at `/sse` and `/messages`; `None` at other paths, and where that transport is not offered.
pub(crate) fn sse(shared: &Arc<Shared>, request: &Request, parsed: &Parsed) -> Option<Reply> {
    let brain = &shared.brain;
    let head = &request.head;
    if !brain.options.legacy.sse || brain.options.era == Era::Modern {
        return None;
    }
    match (head.method.as_str(), head.plain_path()) {
        ("GET", "/sse") => {
            let key = brain.change(|world| {
                let key = brain.new_id(world.sessions.made());
                world.sessions.open(&key, world.changes.len());
                key
            });
            let mut feed = Feed::new(brain, &key, 0, None);
            feed.endpoint = Some(format!("/messages?sessionId={key}"));
            Some(Reply::new(200, Body::Feed(Box::new(feed))))
        }
        ("POST", "/messages") => Some(message(shared, head.query("sessionId").unwrap_or_default(), parsed)),
        (_, "/sse" | "/messages") => Some(refuse(405, "Method not allowed.", true)),
        _ => None,
    }
}

/// An answer that a rule wrote for a message to `/messages` goes where such answers go.
pub(crate) fn divert(shared: &Shared, head: &Head, reply: &mut Reply) {
    let legacy = &shared.brain.options.legacy;
    if !legacy.sse || head.plain_path() != "/messages" {
        return;
    }
    if let Body::Message(message) = &mut reply.body {
        keep(shared, head.query("sessionId").unwrap_or_default(), 0, message.take());
        *reply = Reply::new(202, Body::Raw(b"Accepted".to_vec()));
    }
}

/// Takes a message; what there is to answer goes out on the session's stream.
fn message(shared: &Arc<Shared>, key: &str, parsed: &Parsed) -> Reply {
    let brain = &shared.brain;
    if brain.world.lock().sessions.get(key).is_none() {
        return Reply::new(404, Body::Raw(b"Could not find session".to_vec()));
    }
    let Some(message) = &parsed.message else {
        return Reply::new(400, Body::Raw(b"Could not parse message".to_vec()));
    };
    let reply = legacy::answer(brain, key, message);
    let talk = match reply.body {
        Body::Message(answer) => Some(Box::new(Talk::of(key, message, answer, reply.delay))),
        Body::Talk(talk) => Some(talk),
        Body::Empty | Body::Raw(_) | Body::Frames(_) | Body::Listen(_) | Body::Feed(_) => None,
    };
    if let Some(talk) = talk {
        let shared = Arc::clone(shared);
        let builder = std::thread::Builder::new().name("test-answer".to_owned());
        let _ = builder.spawn(move || talk.finish_unseen(&shared));
    }
    Reply::new(202, Body::Raw(b"Accepted".to_vec()))
}
