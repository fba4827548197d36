//! Event streams of the legacy eras: ids, priming events, and streams that outlive their connection.

use std::sync::Arc;

use serde_json::Value;

use crate::action::Action;
use crate::line::Line;
use crate::outlet::{Outlet, Sent};
use crate::peer::Peer;
use crate::render;
use crate::subst::Vars;
use crate::talk::{Feed, News, Next, Talk, keep};

/// Writes the answer to a request, event by event.
pub(crate) fn talk(line: &Line, mut talk: Box<Talk>, outlet: &mut Outlet<'_>, action: &Action, vars: &Vars) -> Sent {
    let legacy = &line.shared.brain.options.legacy;
    let limit = action.cut_events.or(talk.cut.filter(|_| legacy.events));
    let mut told = 0;
    let mut sent = Sent::Whole;
    if legacy.events {
        let number = keep(&line.shared, &talk.session, talk.stream, Value::Null);
        outlet.body(event(Some((talk.stream, number)), &Value::Null, legacy.retry_ms).as_bytes());
        sent = outlet.flush();
        told = 1;
    }
    while sent == Sent::Whole && limit.is_none_or(|limit| told < limit) {
        match talk.next(line) {
            Next::Say(mut message) => {
                render::shape(&mut message, action, vars);
                let id = legacy.events.then(|| {
                    let number = keep(&line.shared, &talk.session, talk.stream, message.clone());
                    (talk.stream, number)
                });
                outlet.body(event(id, &message, None).as_bytes());
                sent = outlet.flush();
                told += 1;
            }
            Next::Over => {
                line.shared.brain.change(|world| {
                    world.sessions.get_mut(&talk.session).into_iter().for_each(|session| session.finish(talk.stream));
                });
                return Sent::Whole;
            }
            Next::Gone => sent = Sent::Gone,
        }
    }
    if legacy.events {
        // A lost connection is no cancellation.
        let shared = Arc::clone(&line.shared);
        let builder = std::thread::Builder::new().name("test-answer".to_owned());
        let _ = builder.spawn(move || talk.finish_unseen(&shared));
    }
    sent
}

/// Writes the stream of a GET request until somebody ends it.
pub(crate) fn feed(line: &Line, mut feed: Feed, outlet: &mut Outlet<'_>, action: &Action) -> Sent {
    let legacy = &line.shared.brain.options.legacy;
    if let Some(endpoint) = &feed.endpoint {
        outlet.body(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes());
    }
    let mut told = 0;
    loop {
        let sent = outlet.flush();
        if sent != Sent::Whole || action.cut_events.is_some_and(|limit| told >= limit) {
            return sent;
        }
        match feed.next(line) {
            News::Event(number, message) => {
                let id = legacy.events.then_some((feed.stream, number));
                outlet.body(event(id, &message, None).as_bytes());
                told += 1;
            }
            News::Idle => outlet.body(b":\n\n"),
            News::Over => return Sent::Whole,
            News::Gone if line.shared().stopping() => return Sent::Whole,
            News::Gone => return Sent::Gone,
        }
    }
}

/// A null message makes a priming event: an id, and no data.
fn event(id: Option<(usize, usize)>, message: &Value, retry: Option<u64>) -> String {
    let id = id.map(|(stream, number)| format!("id: {stream}-{number}\n")).unwrap_or_default();
    let retry = retry.map(|ms| format!("retry: {ms}\n")).unwrap_or_default();
    if message.is_null() {
        return format!("{id}{retry}data: \n\n");
    }
    format!("event: message\n{id}{retry}data: {message}\n\n")
}
