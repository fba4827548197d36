//! `/_control/`: the same handles that Rust tests have, over HTTP.

use serde_json::{Value, json};

use crate::log::Recorded;
use crate::rpc::{Body, Reply};
use crate::shared::Shared;
use crate::wire::Head;
use crate::world::Change;

/// Answers a control request.
pub(crate) fn answer(shared: &Shared, head: &Head) -> Reply {
    let brain = &shared.brain;
    let what = head.plain_path().trim_start_matches("/_control/");
    let task = head.query("task").unwrap_or_default();
    let value = match (head.method.as_str(), what) {
        ("GET", "requests") => shared.with_log(|log| log.all().iter().map(Recorded::to_json).collect::<Value>()),
        ("GET", "counters") => counters(shared),
        ("GET", "jobs") => shared.jobs.figures(),
        ("POST", "release") => {
            brain.change(|world| match head.query("gate") {
                Some(gate) => world.gates.open(gate),
                None => world.gates.release(),
            });
            json!({})
        }
        ("POST", "complete") => found(brain.tasks(|tasks, clock| tasks.complete(task, clock.now()))),
        ("POST", "forget") => found(brain.tasks(|tasks, _| tasks.forget(task))),
        ("POST", "change") => {
            brain.change(|world| world.changes.push(change(head)));
            json!({})
        }
        ("POST", "end_streams") => {
            let graceful = head.query("graceful") == Some("true");
            brain.change(|world| world.streams.end(graceful));
            json!({})
        }
        ("POST", "forget_sessions") => {
            brain.change(|world| world.sessions.forget_all());
            json!({})
        }
        ("POST", "cut") => {
            shared.cut();
            json!({})
        }
        ("POST", "clear") => {
            shared.with_log(crate::log::Log::clear);
            json!({})
        }
        ("POST", "quit") => {
            shared.ask_to_quit();
            json!({})
        }
        _ => return Reply::new(404, Body::Empty),
    };
    if value.is_null() { Reply::new(404, Body::Empty) } else { Reply::new(200, Body::Message(value)) }
}

/// Null, and so a 404, for a task that is not there.
fn found(found: bool) -> Value {
    if found { json!({}) } else { Value::Null }
}

fn change(head: &Head) -> Change {
    match (head.query("what"), head.query("uri")) {
        (_, Some(uri)) => Change::Resource(uri.to_owned()),
        (Some("prompts"), None) => Change::Prompts,
        (Some("resources"), None) => Change::Resources,
        (_, None) => Change::Tools,
    }
}

fn counters(shared: &Shared) -> Value {
    let world = shared.brain.world.lock();
    json!({
        "counters": world.counters, "tasks": world.tasks.len(), "held": world.gates.waiting(),
        "sessions": world.sessions.len(),
        "accepted": shared.accepted(), "open": shared.open_count(),
    })
}
