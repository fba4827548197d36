//! The connections to one server. A lane is at most one connection, lent to one exchange or stream, so that a cancel cuts
//! just that. Idle lanes wait in a stack: the one used last is the likeliest to be alive.

use std::io::{ErrorKind, Read};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq_proto::http::response::Parts;

use super::control::{Control, Cutter, Phase, Spans};
use super::dial::{Dialer, Target};
use super::proxy::Proxy;
use super::socket::{Line, Socket};
use super::tls::Tls;
use super::tunnel;
use super::wire::{Body, Flaw, Flow, Wire};
use crate::cancel::Wake;
use crate::clock::Clock;
use crate::protocol::limits::Limits;

/// Idle lanes kept; chosen, because a burst of calls rarely needs more again at once.
const MAX_IDLE: usize = 16;
/// How long a lane may be idle; chosen, because middleboxes forget connections from about a minute on.
const MAX_IDLE_AGE: Duration = Duration::from_secs(30);
/// What may be read from a stream that is over to find its end.
const MAX_TAIL: usize = 64 << 10;

/// The lanes to one server.
pub(super) struct Lanes {
    route: Route,
    /// The longest head of an answer.
    most_head: usize,
    clock: Arc<dyn Clock>,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    idle: Vec<Lane>,
    held: Vec<Arc<Cutter>>,
    closed: bool,
}

/// The lanes are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

struct Lane {
    control: Arc<Control>,
    wire: Option<Wire>,
    /// The rest of an answer that was complete for us before its end had come, with its connection.
    tail: Option<Flow>,
    since: Instant,
}

impl Lanes {
    pub(super) fn new(route: Route, limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        Self { route, most_head: limits.header_bytes, clock, shelf: Mutex::default() }
    }

    /// A lane for one exchange: an idle one that is still fit, or a new one.
    pub(super) fn lend(&self, spans: Spans) -> Result<Lease<'_>, Closed> {
        let now = self.clock.now();
        let lane = loop {
            let lane = {
                let mut shelf = self.shelf.lock();
                if shelf.closed {
                    return Err(Closed);
                }
                shelf.idle.pop()
            };
            match lane {
                None => break self.new_lane(now),
                Some(mut lane) => {
                    if lane.is_young(now) && lane.drain() == Drained::Whole {
                        break lane;
                    }
                }
            }
        };
        let cutter = Arc::new(lane.control.begin(spans));
        let mut shelf = self.shelf.lock();
        if shelf.closed {
            return Err(Closed);
        }
        shelf.held.push(cutter.clone());
        drop(shelf);
        Ok(Lease { lanes: self, lane: Some(lane), cutter })
    }

    fn new_lane(&self, now: Instant) -> Lane {
        Lane { control: Arc::new(Control::new(self.clock.clone())), wire: None, tail: None, since: now }
    }

    fn take_back(&self, mut lane: Lane) {
        let now = self.clock.now();
        lane.since = now;
        let mut stale = Vec::new();
        {
            let mut shelf = self.shelf.lock();
            if shelf.closed {
                stale.push(lane);
            } else {
                shelf.idle.push(lane);
                let old = shelf.idle.iter().take_while(|lane| !lane.is_young(now)).count();
                let over = shelf.idle.len().saturating_sub(MAX_IDLE);
                stale.extend(shelf.idle.drain(..old.max(over)));
            }
        }
        // Sockets close after the lock is released.
        drop(stale);
    }

    /// Cuts what is under way, closes what is idle, refuses what comes.
    pub(super) fn close(&self) {
        let (idle, held) = {
            let mut shelf = self.shelf.lock();
            shelf.closed = true;
            (std::mem::take(&mut shelf.idle), std::mem::take(&mut shelf.held))
        };
        drop(idle);
        for cutter in held {
            cutter.wake();
        }
    }

    /// How many lanes wait for use.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.shelf.lock().idle.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    Whole,
    NotYet,
    Unfit,
}

impl Lane {
    fn is_young(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < MAX_IDLE_AGE
    }

    /// Reads what is at hand of the rest of the last answer, without waiting.
    fn drain(&mut self) -> Drained {
        if let Some(mut tail) = self.tail.take() {
            self.control.set_phase(Phase::Draining);
            // Small, because most often nothing is left.
            let mut scratch = [0; 256];
            let mut read = 0;
            loop {
                match tail.read(&mut scratch) {
                    Ok(0) => break,
                    Ok(more) => read += more,
                    Err(cause) if cause.kind() == ErrorKind::WouldBlock => {
                        self.tail = Some(tail);
                        return Drained::NotYet;
                    }
                    Err(_) => return Drained::Unfit,
                }
                if read > MAX_TAIL {
                    return Drained::Unfit;
                }
            }
            self.wire = tail.into_wire();
        }
        if self.wire.is_some() && !self.control.ended() { Drained::Whole } else { Drained::Unfit }
    }

    /// The lane's connection, where it is still good, else a new one.
    fn wire(&mut self, lanes: &Lanes) -> Result<Wire, Flaw> {
        if let Some(mut wire) = self.wire.take()
            && wire.is_open()
        {
            return Ok(wire);
        }
        let line = lanes.route.connect(&self.control).map_err(|NoLine| Flaw::Unconnected)?;
        Ok(Wire::new(line, lanes.most_head))
    }
}

/// A lane in use. Dropped without [`Lease::finish`], its connection closes.
pub(super) struct Lease<'a> {
    lanes: &'a Lanes,
    lane: Option<Lane>,
    cutter: Arc<Cutter>,
}

impl Lease<'_> {
    /// The hook for the cancel token. It dies with the lease.
    pub(super) fn hook(&self) -> Weak<dyn Wake> {
        Arc::downgrade(&self.cutter) as Weak<dyn Wake>
    }

    fn lane(&self) -> &Lane {
        self.lane.as_ref().expect("a lease has its lane until it is finished or dropped")
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) fn ask(&mut self, head: &[u8], body: &[u8]) -> Result<(Parts, Body), Flaw> {
        let lane = self.lane.as_mut().ok_or(Flaw::Unconnected)?;
        lane.wire(self.lanes)?.ask(head, body)
    }

    pub(super) fn control(&self) -> &Control {
        &self.lane().control
    }

    /// The exchange is over, and `rest` is what was not read of its answer. The lane goes back where the end of the
    /// answer is at hand or may still come, and is dropped where the connection cannot serve again.
    pub(super) fn finish(mut self, rest: Body) {
        let Some(mut lane) = self.lane.take() else {
            return;
        };
        if !lane.control.end() || lane.control.trouble().is_some() {
            return;
        }
        lane.tail = Some(rest.into_flow());
        match lane.drain() {
            Drained::Whole | Drained::NotYet => self.lanes.take_back(lane),
            Drained::Unfit => {}
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        {
            let mut shelf = self.lanes.shelf.lock();
            if let Some(at) = shelf.held.iter().position(|held| Arc::ptr_eq(held, &self.cutter)) {
                shelf.held.swap_remove(at);
            }
        }
        if let Some(lane) = self.lane.take() {
            lane.control.end();
        }
    }
}

/// There is no connection; the control block says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoLine;

/// The way to the server.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) server: Target,
    /// Dials the proxy where there is one, else the server.
    pub(super) dialer: Dialer,
    pub(super) proxy: Option<Proxy>,
    pub(super) tls: Tls,
}

impl Route {
    fn connect(&self, control: &Arc<Control>) -> Result<Box<dyn Line>, NoLine> {
        control.set_phase(Phase::Dialling);
        let stream = self.dialer.dial(control).map_err(|trouble| {
            if let Some(trouble) = trouble {
                control.blame(trouble);
            }
            NoLine
        })?;
        let mut line: Box<dyn Line> = Box::new(Socket::new(stream, control.clone()));
        if let Some(proxy) = &self.proxy {
            if proxy.place.is_tls() {
                line = Box::new(self.tls.wrap(line, &proxy.place, control)?);
            }
            // A proxy for plain HTTP reads the server's name in the first line of each request.
            if self.server.is_tls() {
                tunnel::open(&mut *line, proxy, &self.server, control)?;
            }
        }
        if self.server.is_tls() {
            line = Box::new(self.tls.wrap(line, &self.server, control)?);
        }
        control.set_phase(Phase::Talking);
        Ok(line)
    }
}
