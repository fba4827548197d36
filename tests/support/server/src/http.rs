//! The HTTP carrier: one thread for each connection, requests in, answers out.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use crate::action::{Action, Framing, Then};
use crate::control;
use crate::endpoint::well_behaved;
use crate::fast;
use crate::line::Line;
use crate::log::Recorded;
use crate::outlet::Sent;
use crate::parsed::Parsed;
use crate::peer::{Peer, Wake};
use crate::render;
use crate::rpc::{Body, Reply};
use crate::rules::Facts;
use crate::send::send;
use crate::shared::Shared;
use crate::streamable;
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
    let Some((action, _)) = decided else {
        return true;
    };
    line.before(action.hold.as_deref(), action.delay) == Wake::Ready && after(line, &action, Sent::Whole, false)
}

/// Answers one request; false if the connection ends with it.
pub(crate) fn answer(line: &Line, request: &Request) -> bool {
    if request.head.path.starts_with("/_control/") {
        let reply = control::answer(&line.shared, &request.head);
        return send(line, reply, &Action::default(), &Vars::default(), request.last) == Sent::Whole && !request.last;
    }
    let parsed = Parsed::new(&request.body);
    let number = record(line, request, &parsed);
    let (action, count) = decide(line, request, &parsed);
    let vars = parsed.vars(&line.shared, count);
    let Outcome { sent, status, action, began } = carry_out(line, request, &parsed, action, &vars);
    line.shared.amend(number, |entry| {
        entry.status = status;
        entry.answered_us = began.map(|began| line.shared.brain.clock.micros(began));
        entry.done_us = Some(line.shared.brain.clock.micros(line.shared.brain.clock.now()));
        entry.closed_early = sent == Sent::Gone && !line.shared.stopping();
    });
    let goes_on = after(line, &action, sent, request.last);
    if action.then == Some(Then::Stall) && line.gone() {
        line.shared.amend(number, |entry| entry.closed_early = true);
    }
    goes_on
}

fn record(line: &Line, request: &Request, parsed: &Parsed) -> u64 {
    let clock = &line.shared.brain.clock;
    line.shared.record(Recorded {
        path: request.head.path.clone(),
        headers: request.head.headers.clone(),
        reads: request.reads,
        method: parsed.method.clone(),
        name: parsed.name.clone(),
        ..Recorded::new(clock.micros(clock.now()), line.number, &request.head.method, &request.body)
    })
}

fn decide(line: &Line, request: &Request, parsed: &Parsed) -> (Action, u64) {
    let facts = Facts {
        connection: line.number,
        http: &request.head.method,
        path: request.head.plain_path(),
        headers: &request.head.headers,
        ..Facts::default()
    };
    parsed.decide(&line.shared, facts)
}
/// How a request was answered.
struct Outcome {
    sent: Sent,
    /// The HTTP status sent, if any was.
    status: Option<u16>,
    /// The action in force at the end.
    action: Action,
    began: Option<Instant>,
}

impl Outcome {
    fn gone(action: Action) -> Self {
        Self { sent: Sent::Gone, status: None, action, began: None }
    }
}

/// Runs the action.
fn carry_out(line: &Line, request: &Request, parsed: &Parsed, action: Action, vars: &Vars) -> Outcome {
    // `run` does the work at once, whatever becomes of its answer.
    let early = action.run.then(|| well_behaved(&line.shared, request, parsed));
    if line.before(action.hold.as_deref(), action.delay) != Wake::Ready {
        return Outcome::gone(action);
    }
    let normal = early.or_else(|| render::runs(&action).then(|| well_behaved(&line.shared, request, parsed)));
    let scripted = render::scripted(&action, vars);
    let mut reply = scripted.or(normal).unwrap_or_else(|| Reply::new(200, Body::Empty));
    let mut action = action;
    if let Some(act) = reply.act.take() {
        // The life of a task has the word; a rule that only shapes bytes yields to it.
        if line.before(act.hold.as_deref(), act.delay) != Wake::Ready {
            return Outcome::gone(*act);
        }
        reply = render::scripted(&act, vars).unwrap_or_else(|| Reply::new(200, Body::Empty));
        action = *act;
    }
    if line.pause(reply.delay) != Wake::Ready {
        return Outcome::gone(action);
    }
    render::adjust(&mut reply, &action, vars);
    streamable::divert(&line.shared, &request.head, &mut reply);
    // Taken before the first byte: a client's pause, measured from here, never looks shorter than it was.
    let began = line.shared.brain.clock.now();
    let status = Some(reply.status).filter(|status| *status > 0);
    let sent = send(line, reply, &action, vars, request.last);
    Outcome { sent, status, action, began: status.map(|_| began) }
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
        Then::Close | Then::CloseSilently | Then::Exit(_) => line.close(),
        Then::Reset => line.arm_reset(),
        Then::Stall => {
            line.stall();
        }
    }
    false
}
