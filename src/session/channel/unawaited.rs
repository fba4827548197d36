//! A request over a channel that holds no thread: written at once or not at all, its answer taken by the link's thread.

use std::sync::Arc;

use super::{Channel, Phase};
use crate::clock::Budget;
use crate::session::life::Life;
use crate::session::pending::{Next, Ticket};
use crate::transport::{Fault, Later, Outgoing, Sent, Unawaited};

/// A request that is on its way.
struct OnItsWay {
    channel: Arc<Channel>,
    life: Arc<Life>,
    ticket: Ticket,
}

impl Channel {
    pub(super) fn begin_unawaited(&self, outgoing: Outgoing<'_>, later: Later) -> Option<Arc<dyn Unawaited>> {
        let (id, channel) = (outgoing.id?, self.me.upgrade()?);
        // Nothing is dialled here, and nothing waited for: that is for a thread that may.
        let life = match &self.state.lock().phase {
            Phase::Up(life) if outgoing.life == 0 || life.number() == outgoing.life => life.clone(),
            Phase::Up(_) | Phase::Down | Phase::Dialing | Phase::Closed => return None,
        };
        if outgoing.life == 0 {
            self.set_legacy(&life, false);
        }
        let line_bytes = self.line_bytes;
        let taker = Box::new(move |next| later(outcome(next, line_bytes)));
        let ticket = life.pending().open_unawaited(id, taker).ok()?;
        if !life.try_send(outgoing.body) {
            return None;
        }
        Some(Arc::new(OnItsWay { channel, life, ticket }))
    }
}

impl Unawaited for OnItsWay {
    fn expire(&self, budget: Budget) {
        if let Some(taker) = self.ticket.give_up() {
            self.channel.farewell(&self.life, self.ticket.id(), "the time is up");
            taker(Next::Timeout(budget));
        }
    }
}

fn outcome(next: Next, line_bytes: usize) -> Result<String, Fault> {
    let sent = Sent::Begun;
    match next {
        Next::Frame(text) => Ok(text),
        Next::TooLong => Err(too_long(line_bytes)),
        Next::ByServer => Err(by_server()),
        Next::Gone(why) => Err(why.fault(sent)),
        Next::Cancelled(why) => Err(Fault::Cancelled { why, sent }),
        Next::Timeout(budget) => Err(Fault::Timeout { budget, sent }),
    }
}

/// The answer was a line over the limit.
pub(super) fn too_long(line_bytes: usize) -> Fault {
    Fault::TooLarge { what: "a line", limit: line_bytes, option: "stdio_line_bytes" }
}

/// The server took the request for cancelled.
pub(super) fn by_server() -> Fault {
    Fault::Io { sent: Sent::Begun, detail: "the server ended it without an answer".into() }
}
