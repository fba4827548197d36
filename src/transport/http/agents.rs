//! The only place that builds ureq agents. A lane is one agent with at most one connection, lent to one exchange or
//! stream, so that a cancel cuts just that. Idle lanes wait in a stack: the one used last is the likeliest to be alive.
//!
//! ureq itself never resolves a name, starts a thread or times anything here: the connector below dials, the socket
//! keeps the limits, and no timeout of ureq's is set (with one set, its resolver would start a thread).

use std::io::{ErrorKind, Read};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::config::{AutoHeaderValue, Config};
use ureq::http::Uri;
use ureq::unversioned::resolver::{ArrayVec, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{ConnectionDetails, Connector, NextTimeout, Transport};
use ureq::{Agent, BodyReader};

use super::control::{Control, Cutter, Phase, Spans};
use super::dial::{Dialer, Target};
use super::proxy::Proxy;
use super::socket::Socket;
use super::tls::Tls;
use super::tunnel::{self, Forwarded};
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
    config: Config,
    connector: LaneParts,
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
    agent: Agent,
    control: Arc<Control>,
    /// The rest of an answer that was complete for us before its end had come.
    tail: Option<BodyReader<'static>>,
    since: Instant,
}

impl Lanes {
    pub(super) fn new(route: Route, limits: &Limits, clock: Arc<dyn Clock>) -> Self {
        // Below TLS ureq's own buffers must hold a whole head.
        let buffer = limits.header_bytes.saturating_add(16 << 10);
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(AutoHeaderValue::None)
            .accept(AutoHeaderValue::None)
            // gzip is read where it comes, but not asked for: common middleware would then hold back the events of
            // a stream until its compressor has a block full.
            .accept_encoding(AutoHeaderValue::None)
            .max_response_header_size(limits.header_bytes)
            .input_buffer_size(buffer)
            .output_buffer_size(buffer)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(MAX_IDLE_AGE * 2)
            .build();
        let connector = LaneParts { route: Arc::new(route), input_max: buffer.max(128 << 10) };
        Self { config, connector, clock, shelf: Mutex::default() }
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
        let control = Arc::new(Control::new(self.clock.clone()));
        let connector = LaneConnector { parts: self.connector.clone(), control: control.clone() };
        Lane { agent: Agent::with_parts(self.config.clone(), connector, NoResolver), control, tail: None, since: now }
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

    /// Reads what is at hand of the rest of the last answer, without waiting. Once it is read whole, ureq has put the
    /// connection back.
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
        }
        if self.control.is_open() && !self.control.ended() { Drained::Whole } else { Drained::Unfit }
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

    pub(super) fn agent(&self) -> &Agent {
        &self.lane().agent
    }

    pub(super) fn control(&self) -> &Control {
        &self.lane().control
    }

    /// The exchange is over, and `rest` is what was not read of its answer. The lane goes back where the end of the
    /// answer is at hand or may still come, and is dropped where the connection cannot serve again.
    pub(super) fn finish(mut self, rest: BodyReader<'static>) {
        let Some(mut lane) = self.lane.take() else {
            return;
        };
        if !lane.control.end() || lane.control.trouble().is_some() {
            return;
        }
        lane.tail = Some(rest);
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

/// The way to the server.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) server: Target,
    /// Dials the proxy where there is one, else the server.
    pub(super) dialer: Dialer,
    pub(super) proxy: Option<Proxy>,
    pub(super) tls: Tls,
}

/// What all lanes share.
#[derive(Clone, Debug)]
struct LaneParts {
    route: Arc<Route>,
    input_max: usize,
}

/// Makes the connections of one lane.
#[derive(Debug)]
struct LaneConnector {
    parts: LaneParts,
    control: Arc<Control>,
}

impl Connector for LaneConnector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, ureq::Error> {
        let (route, control) = (&*self.parts.route, &self.control);
        control.set_phase(Phase::Dialling);
        let stream = route.dialer.dial(control).map_err(|trouble| {
            if let Some(trouble) = trouble {
                control.blame(trouble);
            }
            ureq::Error::ConnectionFailed
        })?;
        let mut line: Box<dyn Transport> = Box::new(Socket::new(stream, control.clone(), self.parts.input_max));
        if let Some(proxy) = &route.proxy {
            if proxy.place.is_tls() {
                line = Box::new(route.tls.wrap(line, &proxy.place, details, control)?);
            }
            line = if route.server.is_tls() {
                tunnel::open(line, proxy, &route.server, details, control)?
            } else {
                Box::new(Forwarded::new(line, &route.server, control.clone()))
            };
        }
        if route.server.is_tls() {
            line = Box::new(route.tls.wrap(line, &route.server, details, control)?);
        }
        control.set_phase(Phase::Talking);
        Ok(Some(line))
    }
}

/// ureq resolves before it asks its pool; ours is asked for nothing then, and the dialler resolves when it dials.
#[derive(Debug)]
struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let nowhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let mut addresses = ArrayVec::from_fn(|_| nowhere);
        addresses.push(nowhere);
        Ok(addresses)
    }
}
