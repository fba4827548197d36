//! The HTTP carrier: one thread for each connection, requests in, answers out.

use std::net::TcpStream;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::action::{Action, Framing, Then};
use crate::control;
use crate::fast;
use crate::headers::{self, name_of};
use crate::line::{Heard, Line, Wake};
use crate::listen::Listener;
use crate::log::Recorded;
use crate::outlet::{Outlet, Sent};
use crate::render::{self, Ending};
use crate::rpc::{Body, INVALID_REQUEST, PARSE, Reply, RpcError};
use crate::rules::Facts;
use crate::shared::Shared;
use crate::subst::Vars;
use crate::wire::{Reader, Request};

/// Serves one accepted connection until it ends.
pub(crate) fn serve(shared: &Arc<Shared>, stream: Arc<TcpStream>) {
    let number = shared.admit(&stream);
    let line = Line { shared: Arc::clone(shared), stream, number };
    let _ = line.stream.set_nodelay(true);
    if accept(&line) {
        if shared.fast {
            fast::serve(&line);
        } else {
            requests(&line);
        }
    }
    // The last handles go with `line`: an armed reset fires only then.
    shared.dismiss(number);
}

fn requests(line: &Line) {
    let mut reader = Reader::new(&*line.stream);
    while let Ok(Some(request)) = reader.next() {
        if !answer(line, &request) {
            return;
        }
    }
}

/// Rules for the connection itself; false if they end it.
fn accept(line: &Line) -> bool {
    let facts = Facts { accept: true, connection: line.number, ..Facts::default() };
    let decided = line.shared.brain.world.lock().hits.decide(&line.shared.rules, &facts);
    let Some((action, _)) = decided else { return true };
    before(line, &action) == Wake::Ready && after(line, &action, Sent::Whole, false)
}

fn before(line: &Line, action: &Action) -> Wake {
    if let Some(gate) = &action.hold {
        let wake = line.hold(gate);
        if wake != Wake::Ready {
            return wake;
        }
    }
    line.pause(action.delay)
}

/// Answers one request; false if the connection ends with it.
pub(crate) fn answer(line: &Line, request: &Request) -> bool {
    if request.head.path.starts_with("/_control/") {
        let reply = control::answer(&line.shared, &request.head);
        return send(line, reply, &Action::default(), &Vars::default(), request.last).0 == Sent::Whole && !request.last;
    }
    let parsed = Parsed::new(request);
    let number = record(line, request, &parsed);
    let (action, count) = decide(line, request, &parsed);
    let vars = parsed.vars(&line.shared, count);
    let (sent, status, action) = carry_out(line, request, &parsed, action, &vars);
    line.shared.amend(number, |entry| {
        entry.status = (status > 0).then_some(status);
        entry.done_us = Some(line.shared.brain.clock.micros(line.shared.brain.clock.now()));
        entry.closed_early = sent == Sent::Gone && !line.shared.stopping();
    });
    let goes_on = after(line, &action, sent, request.last);
    if action.then == Some(Then::Stall) && line.gone() {
        line.shared.amend(number, |entry| entry.closed_early = true);
    }
    goes_on
}

/// The body read as JSON-RPC, as far as it is.
struct Parsed {
    message: Option<Value>,
    method: Option<String>,
    name: Option<String>,
}

impl Parsed {
    fn new(request: &Request) -> Self {
        let message: Option<Value> = serde_json::from_slice(&request.body).ok();
        let method = message.as_ref().and_then(|message| message.get("method")?.as_str()).map(str::to_owned);
        let params = message.as_ref().and_then(|message| message.get("params")?.as_object());
        let name = method.as_deref().zip(params).and_then(|(method, params)| name_of(method, params)).map(str::to_owned);
        Self { message, method, name }
    }

    fn params(&self) -> Option<&Value> {
        self.message.as_ref()?.get("params")
    }

    fn vars(&self, shared: &Shared, count: u64) -> Vars {
        let at = |pointer: &str| self.message.as_ref().and_then(|message| message.pointer(pointer)).cloned().unwrap_or_default();
        let now = shared.brain.clock.iso(shared.brain.clock.now());
        let port = shared.base.rsplit(':').next().unwrap_or_default();
        Vars::new(vec![
            ("$id", at("/id")),
            ("$token", at("/params/_meta/progressToken")),
            ("$taskId", at("/params/taskId")),
            ("$name", self.name.clone().into()),
            ("$arguments", at("/params/arguments")),
            ("$params", at("/params")),
            ("$n", count.into()),
            ("$now", now.into()),
            ("$base", shared.base.clone().into()),
            ("$port", port.into()),
        ])
    }
}

fn record(line: &Line, request: &Request, parsed: &Parsed) -> u64 {
    let clock = &line.shared.brain.clock;
    line.shared.record(Recorded {
        number: 0,
        at_us: clock.micros(clock.now()),
        done_us: None,
        connection: line.number,
        http_method: request.head.method.clone(),
        path: request.head.path.clone(),
        headers: request.head.headers.clone(),
        body: String::from_utf8_lossy(&request.body).into_owned(),
        reads: request.reads,
        method: parsed.method.clone(),
        name: parsed.name.clone(),
        status: None,
        closed_early: false,
    })
}

fn decide(line: &Line, request: &Request, parsed: &Parsed) -> (Action, u64) {
    if line.shared.rules.is_empty() {
        return (Action::default(), 0);
    }
    let mut world = line.shared.brain.world.lock();
    let name = parsed.name.as_deref();
    let is_task = parsed.method.as_deref().is_some_and(|method| method.starts_with("tasks/"));
    let tool = if is_task { name.and_then(|name| world.tasks.tool_of(name)).map(str::to_owned) } else { name.map(str::to_owned) };
    let facts = Facts {
        accept: false,
        connection: line.number,
        http: &request.head.method,
        path: request.head.plain_path(),
        headers: &request.head.headers,
        method: parsed.method.as_deref(),
        name,
        tool: tool.as_deref(),
        params: parsed.params(),
    };
    world.hits.decide(&line.shared.rules, &facts).unwrap_or_default()
}

/// Runs the action; also returns the HTTP status sent (0 for none) and the action that was in force at the end.
fn carry_out(line: &Line, request: &Request, parsed: &Parsed, action: Action, vars: &Vars) -> (Sent, u16, Action) {
    // `run` does the work at once, whatever becomes of its answer.
    let early = action.run.then(|| well_behaved(&line.shared, request, parsed));
    if before(line, &action) != Wake::Ready {
        return (Sent::Gone, 0, action);
    }
    let normal = early.or_else(|| render::runs(&action).then(|| well_behaved(&line.shared, request, parsed)));
    let scripted = render::scripted(&action, vars);
    let mut reply = scripted.or(normal).unwrap_or_else(|| Reply::new(200, Body::Empty));
    let mut action = action;
    if let Some(act) = reply.act.take() {
        // The life of a task has the word; a rule that only shapes bytes yields to it.
        if before(line, &act) != Wake::Ready {
            return (Sent::Gone, 0, *act);
        }
        reply = render::scripted(&act, vars).unwrap_or_else(|| Reply::new(200, Body::Empty));
        action = *act;
    }
    if line.pause(reply.delay) != Wake::Ready {
        return (Sent::Gone, 0, action);
    }
    render::adjust(&mut reply, &action, vars);
    let (sent, status) = send(line, reply, &action, vars, request.last);
    (sent, status, action)
}

/// What the 2026-07-28 server says.
fn well_behaved(shared: &Shared, request: &Request, parsed: &Parsed) -> Reply {
    let options = &shared.brain.options;
    let head = &request.head;
    if !local(head.header("origin")) || !local(head.header("host")) {
        return Reply::new(403, Body::Empty);
    }
    if head.plain_path() != options.path {
        return Reply::new(404, Body::Empty);
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
    let Body::Message(message) = body else { return body };
    let content = crate::action::Content::Message(message);
    let body = crate::action::FrameBody::Event { prefix: String::new(), content, eol: "\n".to_owned() };
    Body::Frames(vec![crate::action::Frame { delay: std::time::Duration::ZERO, hold: None, body }])
}

/// Whether a `Host` or `Origin`, if present, names this machine.
fn local(value: Option<&str>) -> bool {
    let Some(value) = value else { return true };
    let host = value.split_once("://").map_or(value, |(_, rest)| rest);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| matches!(name, "localhost" | "127.0.0.1" | "::1"))
}

fn send(line: &Line, reply: Reply, action: &Action, vars: &Vars, last: bool) -> (Sent, u16) {
    let status = reply.status;
    if status == 0 {
        return (Sent::Whole, 0);
    }
    let whole = match &reply.body {
        Body::Empty => Some(Vec::new()),
        Body::Message(message) => Some(message.to_string().into_bytes()),
        Body::Raw(bytes) => Some(bytes.clone()),
        Body::Frames(_) | Body::Listen(_) => None,
    };
    let sent = match whole {
        Some(bytes) => send_whole(line, &reply, action, vars, (&bytes, last)),
        None => send_stream(line, reply, action, vars, last),
    };
    (sent, status)
}

fn send_whole(line: &Line, reply: &Reply, action: &Action, vars: &Vars, (bytes, last): (&[u8], bool)) -> Sent {
    let framing = action.framing.unwrap_or(line.shared.brain.options.framing);
    let length = (framing == Framing::Length).then(|| u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    let mut outlet = Outlet::new(line, action, framing);
    outlet.head(&render::head(reply, action, vars, Ending { framing, length, last }));
    outlet.body(bytes);
    outlet.end(&vars.fill_bytes(&action.extra));
    outlet.flush()
}

fn send_stream(line: &Line, reply: Reply, action: &Action, vars: &Vars, last: bool) -> Sent {
    let framing = match action.framing {
        Some(Framing::Length) | None => Framing::Chunked,
        Some(other) => other,
    };
    let mut outlet = Outlet::new(line, action, framing);
    outlet.head(&render::head(&reply, action, vars, Ending { framing, length: None, last }));
    match reply.body {
        Body::Listen(mut listener) => {
            let sent = push(line, &mut listener, &mut outlet);
            if sent != Sent::Whole {
                return sent;
            }
        }
        Body::Frames(frames) => {
            for frame in &frames {
                if frame.hold.is_some() || !frame.delay.is_zero() {
                    // What came before must not wait with this frame.
                    let sent = outlet.flush();
                    if sent != Sent::Whole {
                        return sent;
                    }
                    let wait = Action { hold: frame.hold.clone(), delay: frame.delay, ..Action::default() };
                    if before(line, &wait) != Wake::Ready {
                        return Sent::Gone;
                    }
                }
                outlet.body(&render::frame(frame, action, vars));
            }
        }
        Body::Empty | Body::Message(_) | Body::Raw(_) => {}
    }
    // A stalled or silently closed stream is one that never tells its end.
    if !matches!(action.then, Some(Then::Stall | Then::CloseSilently | Then::Reset)) {
        outlet.end(&vars.fill_bytes(&action.extra));
    }
    outlet.flush()
}

/// Feeds a subscription until somebody ends it.
fn push(line: &Line, listener: &mut Listener, outlet: &mut Outlet<'_>) -> Sent {
    let round = line.shared.brain.world.lock().streams.round();
    loop {
        match line.hear(listener, round) {
            Heard::Say(message) => outlet.body(format!("data: {message}\n\n").as_bytes()),
            Heard::Idle => outlet.body(b":\n\n"),
            Heard::Gone => return Sent::Gone,
            Heard::Ended { graceful: false } => return Sent::Cut,
            Heard::Ended { graceful: true } => {
                outlet.body(format!("data: {}\n\n", listener.farewell()).as_bytes());
                return Sent::Whole;
            }
        }
        let sent = outlet.flush();
        if sent != Sent::Whole {
            return sent;
        }
    }
}

/// What becomes of the connection; true if it takes another request.
fn after(line: &Line, action: &Action, sent: Sent, last: bool) -> bool {
    let default = if sent != Sent::Whole || action.framing == Some(Framing::Close) {
        Then::CloseSilently
    } else if last {
        Then::Close
    } else {
        Then::Keep
    };
    let then = if sent == Sent::Gone { Then::CloseSilently } else { action.then.unwrap_or(default) };
    if then == Then::Keep {
        return true;
    }
    if sent != Sent::Gone {
        line.pause(action.then_after);
    }
    match then {
        Then::Keep => {}
        Then::Close | Then::CloseSilently => line.close(),
        Then::Reset => line.arm_reset(),
        Then::Stall => {
            line.stall();
        }
    }
    false
}
