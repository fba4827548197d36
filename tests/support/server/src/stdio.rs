//! The stdio carrier: a request a line on standard input, answers on standard output, many in flight.

use std::io::{self, BufRead};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::action::{Action, Then};
use crate::clock::now;
use crate::flight::{Work, aside, ignores};
use crate::legacy::{Early, Era, answer, batch};
use crate::log::Recorded;
use crate::parsed::Parsed;
use crate::peer::Steady;
use crate::pipe::{Item, Pipe};
use crate::rpc::{Body, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE, Reply, RpcError, VERSION};
use crate::rules::Facts;
use crate::shared::Shared;
use crate::talk::{Feed, News};

/// For what is still to be written at the end.
const GRACE: Duration = Duration::from_millis(300);

/// Serves until standard input ends; the exit code.
pub(crate) fn serve(shared: &Arc<Shared>) -> io::Result<u8> {
    let pipe = Pipe::start(shared)?;
    if let Some(ms) = shared.brain.options.grandchild_ms {
        let child = Command::new(std::env::current_exe()?)
            .args(["--linger", &ms.to_string()])
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .spawn()?;
        record(shared, "grandchild", child.id().to_string().as_bytes(), &Parsed::new(b""));
    }
    if shared.brain.options.era != Era::Modern {
        open_session(&pipe)?;
    }
    greet(&pipe);
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        hear(&pipe, line.trim_ascii_end());
        line.clear();
    }
    Ok(farewell(&pipe))
}

/// The rules for the beginning, before anything is read.
fn greet(pipe: &Arc<Pipe>) {
    let parsed = Parsed::new(b"");
    let decided = parsed.decide(&pipe.shared, Facts { accept: true, connection: 1, ..Facts::default() });
    if ignores(&decided.0) {
        stay(&decided.0);
    }
    if decided.1 > 0 {
        Work::new(pipe, parsed, decided, u64::MAX).wait_and_finish(None);
        pipe.sync(Duration::MAX);
    }
}

fn hear(pipe: &Arc<Pipe>, line: &[u8]) {
    let parsed = Parsed::new(line);
    let number = record(&pipe.shared, "line", line, &parsed);
    let decided = parsed.decide(&pipe.shared, Facts { connection: 1, http: "line", ..Facts::default() });
    Work::new(pipe, parsed, decided, number).start();
}

fn record(shared: &Shared, kind: &str, body: &[u8], parsed: &Parsed) -> u64 {
    let clock = &shared.brain.clock;
    shared.record(Recorded {
        method: parsed.method.clone(),
        name: parsed.name.clone(),
        ..Recorded::new(clock.micros(clock.now()), 1, kind, body)
    })
}

/// What the server says, if it behaves.
pub(crate) fn well_behaved(pipe: &Pipe, parsed: &Parsed) -> Reply {
    if let Some(reply) = legacy(pipe, parsed) {
        return reply;
    }
    let Some(message) = &parsed.message else {
        return if parsed.blank { Reply::new(200, Body::Empty) } else { refusal(None, PARSE, "Parse error") };
    };
    match parsed.method.as_deref() {
        Some("notifications/cancelled") => {
            if let Some(id) = message.pointer("/params/requestId") {
                pipe.withdraw(id);
            }
            Reply::new(202, Body::Empty)
        }
        Some(_) => pipe.shared.brain.answer(message),
        // An answer, to nobody's question.
        None if message.get("result").is_some() || message.get("error").is_some() => Reply::new(202, Body::Empty),
        None => refusal(message.get("id"), INVALID_REQUEST, "Not a single request"),
    }
}

/// The session that a pipe is.
const SESSION: &str = "stdio";

/// Answers a message of a legacy era; `None` for others.
fn legacy(pipe: &Pipe, parsed: &Parsed) -> Option<Reply> {
    let brain = &pipe.shared.brain;
    let message = parsed.message.as_ref()?;
    let method = parsed.method.as_deref();
    let modern = parsed.params().and_then(|params| params.get("_meta")?.get(VERSION)).is_some();
    if brain.options.era == Era::Modern
        || (brain.options.era == Era::Both && (modern || method == Some("server/discover")))
    {
        return None;
    }
    if method == Some("notifications/cancelled") {
        message.pointer("/params/requestId").into_iter().for_each(|id| pipe.withdraw(id));
    }
    let version = brain.world.lock().sessions.get(SESSION).and_then(|session| session.version.clone());
    if let Some(messages) = message.as_array().filter(|_| version.as_deref() == Some("2025-03-26")) {
        return Some(batch(brain, SESSION, messages));
    }
    let early =
        version.is_none() && message.get("id").is_some() && !matches!(method, None | Some("initialize" | "ping"));
    Some(match brain.options.legacy.early {
        Early::Refuse if early => refusal(message.get("id"), METHOD_NOT_FOUND, "Method not found"),
        Early::Silent if early => Reply::new(202, Body::Empty),
        Early::Refuse | Early::Silent | Early::Serve => answer(brain, SESSION, message),
    })
}

/// Opens the pipe's session; what belongs to no request goes out from a thread.
fn open_session(pipe: &Arc<Pipe>) -> io::Result<()> {
    let brain = &pipe.shared.brain;
    brain.change(|world| world.sessions.open(SESSION, world.changes.len()));
    let mut feed = Feed::new(brain, SESSION, 0, None);
    let pipe = Arc::clone(pipe);
    std::thread::Builder::new().name("test-feed".to_owned()).spawn(move || {
        loop {
            match feed.next(&Steady(&pipe.shared)) {
                News::Event(_, message) => {
                    let bytes = format!("{message}\n").into_bytes();
                    pipe.put(Item::Bytes { bytes, slice: None, gap: Duration::ZERO, number: u64::MAX });
                }
                News::Idle => {}
                News::Over | News::Gone => return,
            }
        }
    })?;
    Ok(())
}

fn refusal(id: Option<&Value>, code: i64, text: &str) -> Reply {
    Reply::error(id, &RpcError::new(code, text))
}

/// Deaf and silent, until somebody ends the process.
fn stay(action: &Action) -> ! {
    aside(action);
    loop {
        std::thread::park();
    }
}

/// Standard input ended.
fn farewell(pipe: &Arc<Pipe>) -> u8 {
    let parsed = Parsed::new(b"");
    let number = record(&pipe.shared, "end", b"", &parsed);
    let (mut action, count) = parsed.decide(&pipe.shared, Facts { end: true, connection: 1, ..Facts::default() });
    if ignores(&action) {
        stay(&action);
    }
    let mut code = 0;
    if let Some(Then::Exit(told)) = action.then {
        // Not before what is in flight has landed.
        (code, action.then) = (told, None);
    }
    Work::new(pipe, parsed, (action, count), number).wait_and_finish(None);
    pipe.shared.brain.change(|world| world.stopping = true);
    pipe.wait_landed(now() + GRACE);
    pipe.sync(GRACE);
    code
}
