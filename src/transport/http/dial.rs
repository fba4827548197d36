//! Makes a connection: finds the addresses of the one host that this transport dials (the server, or the proxy to it),
//! and connects to the first that answers (Happy Eyeballs, RFC 8305), under the deadline and the cut of the exchange
//! that asked.
//!
//! A name lookup and a connect cannot be interrupted, so both run on worker threads while the caller waits for them at
//! a [`Meeting`]; a worker whose caller has left closes what it brings. Loopback addresses need no worker: the
//! system answers at once.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use socket2::{SockRef, TcpKeepalive};

use super::control::{Control, Stage, Trouble};
use crate::clock::{Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::spawn::Spawn;

/// The head start of one address before the next (RFC 8305, 5, recommended value).
const HEAD_START: Duration = Duration::from_millis(250);
/// Addresses tried; chosen, because more only make a dead server slower to tell.
const MAX_ADDRESSES: usize = 8;
/// How long looked-up addresses are trusted; chosen, because getaddrinfo does not tell the TTL of the records.
const TRUSTED: Duration = Duration::from_secs(60);
/// Silence after which the system asks whether the peer still lives, for streams without an idle limit; chosen, because
/// middleboxes forget connections from about a minute on.
const KEEPALIVE: Duration = Duration::from_secs(45);
/// How long a loopback connect may hold the calling thread before it moves to a worker (its backlog is full).
const LOOPBACK_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    /// `localhost` and names below it, which mean loopback without a lookup (RFC 6761, 6.3).
    Localhost,
    Name(String),
}

/// The server's place.
#[derive(Clone, Debug)]
pub(super) struct Target {
    tls: bool,
    host: Host,
    /// The host as in the URL, lower case.
    text: String,
    port: u16,
    /// It is a proxy, and told as such.
    proxy: bool,
}

impl Target {
    /// `host` as it stands in a URL: a literal IPv6 address in brackets.
    pub(super) fn new(tls: bool, host: &str, port: u16) -> Result<Self> {
        let text = host.to_ascii_lowercase();
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host =
            match bracketed {
                Some(inner) => Host::Ip(IpAddr::V6(inner.parse().map_err(|_| {
                    Error::new(Kind::Argument, "`url` has a host in brackets that is no IPv6 address")
                })?)),
                None => match text.parse::<Ipv4Addr>() {
                    Ok(ip) => Host::Ip(ip.into()),
                    Err(_) if text == "localhost" || text.ends_with(".localhost") => Host::Localhost,
                    Err(_) => Host::Name(text.clone()),
                },
            };
        Ok(Self { tls, host, text, port, proxy: false })
    }

    /// The same place, which is a proxy's.
    pub(super) fn into_proxy(self) -> Self {
        Self { proxy: true, ..self }
    }

    pub(super) fn is_proxy(&self) -> bool {
        self.proxy
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host as it stands in a URL.
    pub(super) fn host(&self) -> &str {
        &self.text
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// What a person is told of it.
    pub(super) fn told(&self) -> String {
        format!("{}{}", if self.proxy { "the proxy " } else { "" }, self.origin())
    }

    /// `host:port`, the target of a CONNECT (RFC 9110, 9.3.6).
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.text, self.port)
    }

    /// `scheme://host:port`.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}:{}", if self.tls { "https" } else { "http" }, self.text, self.port)
    }

    /// The `Host` header: the port only where it is not the scheme's own (RFC 9110, 7.2 and 4.2).
    pub(super) fn host_header(&self) -> String {
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => self.text.clone(),
            (true | false, port) => format!("{}:{port}", self.text),
        }
    }
}

struct Known {
    addresses: Vec<SocketAddr>,
    until: Instant,
}

/// Connects to one target, as often as asked.
pub(super) struct Dialer {
    target: Target,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
    resolve: fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
    known: Mutex<Option<Known>>,
}

impl Dialer {
    pub(super) fn new(target: Target, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Self {
        Self { target, clock, spawn, resolve: system_resolve, known: Mutex::new(None) }
    }

    /// Connects, or says why not. `None` where the exchange was cut.
    pub(super) fn dial(&self, control: &Control) -> Result<TcpStream, Option<Trouble>> {
        let now = self.clock.now();
        let end = control.deadline(now, now);
        let addresses = self.addresses(control, end)?;
        let dialled = if addresses.iter().all(|address| address.ip().is_loopback()) {
            self.connect_here(&addresses, end)
        } else {
            None
        };
        let dialled = dialled.unwrap_or_else(|| self.race(control, &addresses, end));
        control.enter(Stage::Idle);
        match dialled {
            Ok((stream, winner)) => {
                self.remember(addresses, winner);
                // A lost option costs speed, or a dead peer that is noticed late, and no truth.
                drop(stream.set_nodelay(true));
                drop(SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE)));
                Ok(stream)
            }
            Err(trouble) => {
                *self.known.lock() = None;
                Err(trouble)
            }
        }
    }

    fn addresses(&self, control: &Control, end: Deadline) -> Result<Vec<SocketAddr>, Option<Trouble>> {
        let port = self.target.port;
        let now = self.clock.now();
        if let Some(known) = &*self.known.lock()
            && known.until > now
        {
            return Ok(known.addresses.clone());
        }
        match &self.target.host {
            Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
            Host::Localhost => {
                let both = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
                Ok(both.map(|ip| SocketAddr::new(ip, port)).into())
            }
            Host::Name(name) => {
                let found = self.look_up(name, control, end)?;
                *self.known.lock() = now.checked_add(TRUSTED).map(|until| Known { addresses: found.clone(), until });
                Ok(found)
            }
        }
    }

    /// The address that answered is tried first next time.
    fn remember(&self, mut addresses: Vec<SocketAddr>, winner: SocketAddr) {
        let mut known = self.known.lock();
        addresses.sort_by_key(|address| *address != winner);
        let until = match (&*known, &self.target.host) {
            // Being used does not make a looked-up name younger.
            (Some(known), Host::Name(_)) => Some(known.until),
            (_, Host::Name(_) | Host::Ip(_) | Host::Localhost) => self.clock.now().checked_add(TRUSTED),
        };
        *known = until.map(|until| Known { addresses, until });
    }

    fn look_up(&self, name: &str, control: &Control, end: Deadline) -> Result<Vec<SocketAddr>, Option<Trouble>> {
        let meeting = Arc::new(Meeting::default());
        control.enter(Stage::Dialling(meeting.clone()));
        let courier = Courier { meeting: meeting.clone(), open: true };
        let (resolve, name, port) = (self.resolve, name.to_owned(), self.target.port);
        let work = move || courier.bring(Arrival::Names(resolve(&name, port)));
        self.spawn.spawn("mcp-resolve", Box::new(work)).map_err(|cause| self.failed(&cause))?;
        loop {
            if control.is_cut() {
                return Err(None);
            }
            let left = end.left(self.clock.now()).map_err(|expired| Some(Trouble::Expired(expired.0)))?;
            match meeting.wait(left, control) {
                None | Some(Arrival::Dialled(..)) => {}
                Some(Arrival::Gone) => return Err(self.failed(&"the lookup was given up")),
                Some(Arrival::Names(Err(cause))) => return Err(self.failed(&cause)),
                Some(Arrival::Names(Ok(found))) if found.is_empty() => {
                    return Err(self.failed(&"the name has no address"));
                }
                Some(Arrival::Names(Ok(found))) => return Ok(interleave(&found)),
            }
        }
    }

    /// Loopback only: refused or connected at once. `None` where the system takes its time after all.
    fn connect_here(&self, addresses: &[SocketAddr], end: Deadline) -> Option<Dialled> {
        let mut last = None;
        for address in addresses {
            let left = match end.left(self.clock.now()) {
                Ok(left) => left.map_or(LOOPBACK_PATIENCE, |left| left.min(LOOPBACK_PATIENCE)),
                Err(expired) => return Some(Err(Some(Trouble::Expired(expired.0)))),
            };
            match TcpStream::connect_timeout(address, left) {
                Ok(stream) => return Some(Ok((stream, *address))),
                Err(cause) if matches!(cause.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                    return None;
                }
                Err(cause) => last = Some(cause),
            }
        }
        last.map(|cause| Err(self.failed(&cause)))
    }

    /// One attempt after the other, each a head start ahead of the next; the first success wins.
    fn race(&self, control: &Control, addresses: &[SocketAddr], end: Deadline) -> Dialled {
        let meeting = Arc::new(Meeting::default());
        control.enter(Stage::Dialling(meeting.clone()));
        let mut waiting = addresses.iter();
        let mut running = 0;
        let mut next = self.clock.now();
        let mut last = String::from("the name has no address");
        loop {
            if control.is_cut() {
                return Err(None);
            }
            let now = self.clock.now();
            let left = end.left(now).map_err(|expired| Some(Trouble::Expired(expired.0)))?;
            if now >= next
                && let Some(address) = waiting.next()
            {
                self.launch(&meeting, *address, left)?;
                running += 1;
                next = now + HEAD_START;
            }
            if running == 0 && waiting.len() == 0 {
                return Err(self.failed(&last));
            }
            let pause = if waiting.len() == 0 { None } else { Some(next.saturating_duration_since(now)) };
            let limit = [left, pause].into_iter().flatten().min();
            match meeting.wait(limit, control) {
                None | Some(Arrival::Names(_)) => {}
                Some(Arrival::Dialled(address, Ok(stream))) => return Ok((stream, address)),
                Some(Arrival::Dialled(_, Err(cause))) => {
                    last = cause.to_string();
                    running -= 1;
                    next = now;
                }
                Some(Arrival::Gone) => {
                    running -= 1;
                    next = now;
                }
            }
        }
    }

    fn launch(
        &self,
        meeting: &Arc<Meeting>,
        address: SocketAddr,
        left: Option<Duration>,
    ) -> Result<(), Option<Trouble>> {
        let courier = Courier { meeting: meeting.clone(), open: true };
        let work = move || {
            let stream = match left {
                Some(left) => TcpStream::connect_timeout(&address, left),
                None => TcpStream::connect(address),
            };
            courier.bring(Arrival::Dialled(address, stream));
        };
        self.spawn.spawn("mcp-connect", Box::new(work)).map_err(|cause| self.failed(&cause))
    }

    fn failed(&self, cause: &dyn std::fmt::Display) -> Option<Trouble> {
        Some(Trouble::Connect(format!("{}: {cause}", self.target.told())))
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A connection with the address that answered, or why there is none; `None` where the exchange was cut.
type Dialled = Result<(TcpStream, SocketAddr), Option<Trouble>>;

enum Arrival {
    Names(io::Result<Vec<SocketAddr>>),
    Dialled(SocketAddr, io::Result<TcpStream>),
    /// The work was dropped without being done.
    Gone,
}

/// Where a caller waits for its workers.
#[derive(Default)]
pub(super) struct Meeting {
    inbox: Mutex<VecDeque<Arrival>>,
    news: Condvar,
}

impl Meeting {
    /// Ends a wait that has begun, and any that begins.
    pub(super) fn wake(&self) {
        // The lock orders this after the waiter's look at the cut: it has not looked yet, or it waits already.
        drop(self.inbox.lock());
        self.news.notify_all();
    }

    /// Waits for news, for a cut, or for the limit; `None` may also come early, the caller loops.
    fn wait(&self, limit: Option<Duration>, control: &Control) -> Option<Arrival> {
        let mut inbox = self.inbox.lock();
        if inbox.is_empty() && !control.is_cut() {
            match limit {
                Some(limit) => drop(self.news.wait_for(&mut inbox, limit)),
                None => self.news.wait(&mut inbox),
            }
        }
        inbox.pop_front()
    }
}

/// Brings one arrival, or at its end the news that there will be none.
struct Courier {
    meeting: Arc<Meeting>,
    open: bool,
}

impl Courier {
    fn bring(mut self, arrival: Arrival) {
        self.open = false;
        self.post(arrival);
    }

    fn post(&self, arrival: Arrival) {
        self.meeting.inbox.lock().push_back(arrival);
        self.meeting.news.notify_all();
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        if self.open {
            self.post(Arrival::Gone);
        }
    }
}

fn system_resolve(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (name, port).to_socket_addrs().map(Iterator::collect)
}

/// Alternates the address families, the resolver's first one first (RFC 8305, 4).
fn interleave(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let v6_first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = found.iter().partition(|address| address.is_ipv6() == v6_first);
    let mut mixed = Vec::with_capacity(found.len());
    let mut second = second.into_iter();
    for address in first {
        mixed.push(address);
        mixed.extend(second.next());
    }
    mixed.extend(second);
    mixed.truncate(MAX_ADDRESSES);
    mixed
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::control::Spans;
    use super::super::tests::{BOUND, Held, Threads};
    use super::*;
    use crate::cancel::Wake;
    use crate::clock::{Budget, ManualClock, system};

    fn dialer(resolve: fn(&str, u16) -> io::Result<Vec<SocketAddr>>, spawn: Arc<dyn Spawn>) -> Dialer {
        let target = Target::new(false, "server.test", 80).unwrap();
        Dialer { resolve, ..Dialer::new(target, system(), spawn) }
    }

    fn control(limit: Duration) -> Arc<Control> {
        let control = Arc::new(Control::new(system()));
        let connect = Deadline::after(system().now(), Some(limit), Budget::Connect);
        control.begin(Spans { total: Deadline::Never, idle: None, connect, hold: Arc::default() });
        control.set_phase(super::super::control::Phase::Dialling);
        control
    }

    fn no_lookup(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Err(io::Error::other("asked again"))
    }

    #[test]
    fn names_are_remembered_until_a_connect_fails_or_they_are_old() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clock = ManualClock::new();
        let known = |clock: &ManualClock| {
            Mutex::new(Some(Known { addresses: vec![address], until: clock.now() + Duration::from_secs(1) }))
        };
        let dialer = Dialer { known: known(&clock), clock: clock.clone(), ..dialer(no_lookup, Arc::new(Threads)) };
        for _ in 0..3 {
            dialer.dial(&control(BOUND)).unwrap();
        }
        drop(listener);
        let asked = |outcome: Result<TcpStream, Option<Trouble>>| match outcome {
            Err(Some(Trouble::Connect(detail))) => detail.ends_with(": asked again"),
            other => panic!("{other:?}"),
        };
        assert!(!asked(dialer.dial(&control(BOUND))), "the connect fails");
        assert!(asked(dialer.dial(&control(BOUND))), "and the name is asked for again");
        *dialer.known.lock() = known(&clock).into_inner();
        clock.advance(Duration::from_secs(1));
        assert!(asked(dialer.dial(&control(BOUND))), "so is an old one");
    }

    #[test]
    fn a_lookup_ends_with_its_limit_its_cut_and_its_worker() {
        let held = Arc::new(Held::default());
        let dialer = Arc::new(dialer(no_lookup, held.clone()));
        let out_of_time = dialer.dial(&control(Duration::from_millis(30)));
        assert_eq!(out_of_time.unwrap_err(), Some(Trouble::Expired(Budget::Connect)));
        for cut in [true, false] {
            let control = Arc::new(Control::new(system()));
            let spans = Spans { total: Deadline::Never, idle: None, connect: Deadline::Never, hold: Arc::default() };
            let cutter = control.begin(spans);
            held.jobs.lock().clear();
            let wait = held.wait();
            let (there, for_dial) = (dialer.clone(), control.clone());
            let dialling = super::super::tests::thread(move || there.dial(&for_dial).map(drop));
            assert_eq!(wait.recv_timeout(BOUND), Ok("mcp-resolve"));
            if cut {
                cutter.wake();
                assert_eq!(dialling.join().unwrap(), Err(None));
            } else {
                held.jobs.lock().clear();
                let gone = "http://server.test:80: the lookup was given up";
                assert_eq!(dialling.join().unwrap(), Err(Some(Trouble::Connect(gone.into()))));
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_next_address_gets_its_turn_and_the_winner_comes_first() {
        let (_socket, deaf, _filling) = super::super::tests::deaf();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let dialer = dialer(no_lookup, Arc::new(Threads));
        let until = system().now() + BOUND;
        *dialer.known.lock() = Some(Known { addresses: vec![deaf, good], until });
        let stream = dialer.dial(&control(BOUND)).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert_eq!(dialer.known.lock().as_ref().unwrap().addresses, [good, deaf]);
    }

    #[test]
    fn families_take_turns_and_order_stays() {
        let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = list(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let mixed = list(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(interleave(&found), mixed);
        assert_eq!(interleave(&list(&["1.1.1.1:1"])), list(&["1.1.1.1:1"]));
        assert_eq!(interleave(&[found[0]; 40]).len(), MAX_ADDRESSES);
    }

    #[test]
    fn hosts_are_told_apart() {
        let host = |text: &str| Target::new(false, text, 80).unwrap().host;
        assert_eq!(host("127.0.0.1"), Host::Ip(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(host("[::1]"), Host::Ip(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(host("LocalHost"), Host::Localhost);
        assert_eq!(host("a.localhost"), Host::Localhost);
        assert_eq!(host("Example.com"), Host::Name("example.com".into()));
        assert!(Target::new(false, "[x]", 80).is_err());
        let header = |tls: bool, port: u16| Target::new(tls, "[::1]", port).unwrap().host_header();
        assert_eq!([header(false, 80), header(true, 443), header(true, 80)], ["[::1]", "[::1]", "[::1]:80"]);
    }
}
