//! Writing an answer: whole, as a stream of frames, or as a subscription.

use crate::action::{Action, Framing, Then};
use crate::line::Line;
use crate::listen::Listener;
use crate::outlet::{Outlet, Sent};
use crate::peer::{Heard, Peer, Wake};
use crate::render::{self, Ending};
use crate::rpc::{Body, Reply};
use crate::stream;
use crate::subst::Vars;

/// Writes `reply` as `action` wants it.
pub(crate) fn send(line: &Line, reply: Reply, action: &Action, vars: &Vars, last: bool) -> Sent {
    if reply.status == 0 {
        return Sent::Whole;
    }
    let whole = match &reply.body {
        Body::Empty => Some(Vec::new()),
        Body::Message(message) => Some(message.to_string().into_bytes()),
        Body::Raw(bytes) => Some(bytes.clone()),
        Body::Frames(_) | Body::Listen(_) | Body::Talk(_) | Body::Feed(_) => None,
    };
    match whole {
        Some(bytes) => send_whole(line, &reply, action, vars, (&bytes, last)),
        None => send_stream(line, reply, action, vars, last),
    }
}

fn send_whole(line: &Line, reply: &Reply, action: &Action, vars: &Vars, (bytes, last): (&[u8], bool)) -> Sent {
    let framing = action.framing.unwrap_or(line.shared.brain.options.framing);
    let before = vars.fill_bytes(&action.before);
    let size = before.len() + bytes.len();
    let length = (framing == Framing::Length).then(|| u64::try_from(size).unwrap_or(u64::MAX));
    let mut outlet = Outlet::new(line, action, framing);
    outlet.head(&render::head(reply, action, vars, Ending { framing, length, last }));
    outlet.body(&before);
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
    outlet.body(&vars.fill_bytes(&action.before));
    match reply.body {
        Body::Listen(mut listener) => {
            let sent = push(line, &mut listener, &mut outlet);
            if sent != Sent::Whole {
                return sent;
            }
        }
        Body::Talk(talk) => {
            let sent = stream::talk(line, talk, &mut outlet, action, vars);
            if sent != Sent::Whole {
                return sent;
            }
        }
        Body::Feed(feed) => {
            let sent = stream::feed(line, *feed, &mut outlet, action);
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
                    if line.before(frame.hold.as_deref(), frame.delay) != Wake::Ready {
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
