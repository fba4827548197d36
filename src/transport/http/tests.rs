//! The carrier against small servers on real sockets: what is sent, what is read, and how waits end.
//!
//! Waits are bounded by the exchanges' own limits and by the servers' read timeouts; nothing sleeps, and no test
//! asserts that something was fast.
#![allow(clippy::disallowed_methods, reason = "servers and neighbours need threads, bounds need the time")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

mod redirects;
pub(super) mod says;
mod secured;

use super::{HttpSettings, HttpTransport};
use crate::cancel::{CancelToken, Why};
use crate::clock::{self, Budget, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::limits::Limits;
use crate::spawn::{Job, Spawn};
use crate::transport::{Fault, Flow, FrameSink, Outgoing, Scope, Sent, Transport};

pub(super) const BOUND: Duration = Duration::from_secs(60);

pub(super) struct Threads;

impl Spawn for Threads {
    fn spawn(&self, name: &'static str, job: Job) -> Result<()> {
        let thread = thread::Builder::new().name(name.into()).spawn(job);
        thread.map(drop).map_err(|cause| Error::new(Kind::Memory, cause.to_string()))
    }
}

/// A thread of the test's own.
pub(super) fn thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(work)
}

/// Takes jobs and runs none; tells of each.
#[derive(Default)]
pub(super) struct Held {
    pub jobs: parking_lot::Mutex<Vec<Job>>,
    told: parking_lot::Mutex<Option<mpsc::Sender<&'static str>>>,
}

impl Held {
    /// The names of the jobs to come.
    pub(super) fn wait(&self) -> mpsc::Receiver<&'static str> {
        let (told, wait) = mpsc::channel();
        *self.told.lock() = Some(told);
        wait
    }
}

impl Spawn for Held {
    fn spawn(&self, name: &'static str, job: Job) -> Result<()> {
        self.jobs.lock().push(job);
        if let Some(told) = &*self.told.lock() {
            told.send(name).unwrap();
        }
        Ok(())
    }
}

struct NoThreads;

impl Spawn for NoThreads {
    fn spawn(&self, _: &'static str, _: Job) -> Result<()> {
        Err(Error::new(Kind::Memory, "no threads"))
    }
}

/// A request as the server read it.
struct Seen {
    head: String,
    body: String,
    /// How many reads it took.
    reads: usize,
}

/// The server's end of one connection.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// `None` where the client has ended the connection.
    fn request(&mut self) -> Option<Seen> {
        let (mut bytes, mut reads, mut buf) = (Vec::new(), 0, vec![0; 1 << 20]);
        loop {
            let more = self.stream.read(&mut buf).unwrap_or(0);
            if more == 0 {
                return None;
            }
            reads += 1;
            bytes.extend_from_slice(&buf[..more]);
            let text = String::from_utf8(bytes.clone()).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return Some(Seen { head: head.into(), body: body.into(), reads });
            }
        }
    }

    fn say(&mut self, text: impl AsRef<[u8]>) {
        drop(self.stream.write_all(text.as_ref()));
    }

    fn json(&mut self, body: &str) {
        let length = body.len();
        self.say(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
    }

    /// Until the client has gone.
    fn wait(&mut self) {
        while self.stream.read(&mut [0; 64]).is_ok_and(|more| more > 0) {}
    }

    fn reset(self) {
        let linger = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        linger.unwrap();
    }
}

struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// A server whose connections each run `script`, with their number from 0.
fn serve(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Server {
    serve_at("127.0.0.1:0", script)
}

fn serve_at(address: &str, script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(BOUND)).unwrap();
            stream.set_nodelay(true).unwrap();
            let number = count.fetch_add(1, Ordering::SeqCst);
            let script = script.clone();
            thread::spawn(move || script(number, Peer { stream }));
        }
    });
    Server { address, connections }
}

/// A server that gives each request on each connection the same bytes.
fn answering(bytes: impl Into<Vec<u8>>) -> Server {
    let bytes = bytes.into();
    serve(move |_, mut peer| {
        while peer.request().is_some() {
            peer.say(&bytes);
        }
    })
}

/// A server that says these bytes and ends the connection.
fn answering_once(bytes: impl Into<Vec<u8>>) -> Server {
    let bytes = bytes.into();
    serve(move |_, mut peer| {
        if peer.request().is_some() {
            peer.say(&bytes);
        }
    })
}

impl Server {
    fn transport(&self) -> HttpTransport {
        self.transport_with(Limits::default())
    }

    fn transport_with(&self, limits: Limits) -> HttpTransport {
        transport(&format!("http://{}/mcp", self.address), limits)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn transport(url: &str, limits: Limits) -> HttpTransport {
    let headers = vec![("X-Test".into(), "yes".into())];
    let settings = HttpSettings { headers, limits, ..HttpSettings::plain(url) };
    HttpTransport::new(settings, clock::system(), Arc::new(Threads)).unwrap()
}

/// Takes messages; done after so many.
struct Sink {
    frames: Vec<String>,
    wanted: usize,
    told: Option<mpsc::Sender<()>>,
}

impl FrameSink for Sink {
    fn frame(&mut self, text: String) -> Flow {
        self.frames.push(text);
        if let Some(told) = &self.told {
            let _ = told.send(()); // The test may have stopped listening.
        }
        if self.frames.len() >= self.wanted { Flow::Done } else { Flow::More }
    }
}

fn sink(wanted: usize) -> Sink {
    Sink { frames: Vec::new(), wanted, told: None }
}

fn outgoing(body: &str) -> Outgoing<'_> {
    Outgoing {
        life: 0,
        body,
        headers: &[("Mcp-Method", "tools/call"), ("MCP-Protocol-Version", "2026-07-28")],
        id: None,
        token: None,
    }
}

fn scope(cancel: &CancelToken) -> Scope<'_> {
    let total = Deadline::after(Instant::now(), Some(BOUND), Budget::Total);
    Scope { cancel, total, idle: Some(BOUND), connect: Some(BOUND) }
}

fn call(transport: &HttpTransport) -> Result<Vec<String>, Fault> {
    call_for(transport, 1)
}

/// Like [`call`], done after so many messages.
fn call_for(transport: &HttpTransport, wanted: usize) -> Result<Vec<String>, Fault> {
    let (token, mut sink) = (CancelToken::new(), sink(wanted));
    transport.exchange(outgoing(r#"{"id":1}"#), &scope(&token), &mut sink).map(|()| sink.frames)
}

fn answer(server: &Server) -> Result<Vec<String>, Fault> {
    call(&server.transport())
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn chunked_events(events: &str) -> String {
    format!("{SSE}{}0\r\n\r\n", chunk(events))
}

// ---- what is sent

#[test]
fn a_request_leaves_in_one_write_with_its_headers() {
    let (tx, rx) = mpsc::channel();
    let server = serve(move |_, mut peer| {
        while let Some(seen) = peer.request() {
            tx.send(seen).unwrap();
            peer.json("{}");
        }
    });
    let transport = server.transport();
    // The second body is beyond one piece of output, the third beyond a segment of the loopback device.
    for size in [10, 20_000, 60_000] {
        let body = format!("\"{}\"", "é".repeat(size / 2));
        let token = CancelToken::new();
        transport.exchange(outgoing(&body), &scope(&token), &mut sink(1)).unwrap();
        let seen = rx.recv_timeout(BOUND).unwrap();
        assert_eq!(seen.reads, 1, "{size}");
        assert_eq!(seen.body, body);
        let mut lines = seen.head.lines();
        assert_eq!(lines.next(), Some("POST /mcp HTTP/1.1"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        let mut expected = [
            "content-type: application/json".to_owned(),
            "accept: application/json, text/event-stream".into(),
            "user-agent: test/1".into(),
            "x-test: yes".into(),
            "mcp-method: tools/call".into(),
            "mcp-protocol-version: 2026-07-28".into(),
            format!("host: {}", server.address),
            format!("content-length: {}", body.len()),
        ];
        expected.sort();
        assert_eq!(lines, expected);
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_large_request_and_a_long_header_arrive_whole() {
    let (tx, rx) = mpsc::channel();
    let server = serve(move |_, mut peer| {
        while let Some(seen) = peer.request() {
            tx.send(seen).unwrap();
            peer.json("{}");
        }
    });
    let body = "x".repeat(5 << 20);
    let long = "y".repeat(30_000);
    let message = Outgoing { life: 0, body: &body, headers: &[("Authorization", &long)], id: None, token: None };
    let token = CancelToken::new();
    server.transport().exchange(message, &scope(&token), &mut sink(1)).unwrap();
    let seen = rx.recv_timeout(BOUND).unwrap();
    assert_eq!(seen.body.len(), body.len());
    assert!(seen.head.contains(&long));
}

#[test]
fn a_header_cannot_be_injected() {
    let server = answering("");
    let token = CancelToken::new();
    let message = Outgoing { life: 0, body: "{}", headers: &[("Mcp-Name", "a\r\nEvil: 1")], id: None, token: None };
    let fault = server.transport().exchange(message, &scope(&token), &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Io { sent: Sent::No, .. }), "{fault:?}");
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_first_address_is_reached_without_a_thread() {
    for url in ["http://127.0.0.1", "http://localhost"] {
        let server = answering("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
        let url = format!("{url}:{}/", server.address.port());
        let transport = HttpTransport::new(HttpSettings::plain(&url), clock::system(), Arc::new(NoThreads)).unwrap();
        assert_eq!(call(&transport).unwrap(), ["{}"]);
    }
}

#[test]
fn localhost_finds_a_listener_of_either_family() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        if TcpListener::bind(address).is_err() {
            continue; // This machine has no such family.
        }
        let server = serve_at(address, |_, mut peer| {
            while peer.request().is_some() {
                peer.json("{}");
            }
        });
        let transport = transport(&format!("http://localhost:{}/", server.address.port()), Limits::default());
        for _ in 0..2 {
            assert_eq!(call(&transport).unwrap(), ["{}"]);
        }
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn nobody_listening_is_a_connect_fault() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let transport = transport(&format!("http://{address}/"), Limits::default());
    let Err(Fault::Connect(detail)) = call(&transport) else { panic!("expected a connect fault") };
    assert!(detail.starts_with(&format!("http://{address}: ")), "{detail}");
}

#[test]
fn an_unknown_name_is_a_connect_fault() {
    let transport = transport("http://no-such-host.invalid/", Limits::default());
    let fault = call(&transport).unwrap_err();
    assert!(matches!(&fault, Fault::Connect(detail) if detail.contains("no-such-host.invalid")), "{fault:?}");
}

// ---- connections

#[test]
fn one_connection_serves_sequential_calls_whatever_the_framing() {
    let length = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".to_owned();
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rows = [
        ("content-length", length),
        ("chunked", format!("{chunked}{}{}0\r\n\r\n", chunk("{"), chunk("}"))),
        ("events", chunked_events("data: {}\n\n")),
        ("refusal", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}".into()),
        ("202", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".into()),
        ("204", "HTTP/1.1 204 No Content\r\n\r\n".into()),
    ];
    for (name, bytes) in rows {
        let server = answering(bytes);
        let transport = server.transport();
        for _ in 0..4 {
            drop(call(&transport));
        }
        assert_eq!(server.connections(), 1, "{name}");
    }
}

#[test]
fn whether_a_connection_serves_again_follows_from_the_answer() {
    let json = "Content-Type: application/json\r\n";
    let chunked = format!("HTTP/1.1 200 OK\r\n{json}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n");
    let rows = [
        ("1.0", format!("HTTP/1.0 200 OK\r\n{json}Content-Length: 2\r\n\r\n{{}}"), 3),
        ("1.0, kept", format!("HTTP/1.0 200 OK\r\n{json}Connection: keep-alive\r\nContent-Length: 2\r\n\r\n{{}}"), 1),
        (
            "close among others",
            format!("HTTP/1.1 200 OK\r\n{json}Connection: x, Close\r\nContent-Length: 2\r\n\r\n{{}}"),
            3,
        ),
        ("trailers", format!("{chunked}0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n"), 1),
        ("an extension of a chunk", chunked.replace("2\r\n{}", "2;a=b\r\n{}") + "0\r\n\r\n", 1),
        ("length beside chunks", chunked.replace("Transfer", "Content-Length: 9\r\nTransfer") + "0\r\n\r\n", 1),
        ("the same length twice", format!("HTTP/1.1 200 OK\r\n{json}Content-Length: 2, 2\r\n\r\n{{}}"), 1),
        ("two interim answers", format!("HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\n\r\n{chunked}0\r\n\r\n"), 1),
    ];
    for (name, bytes, connections) in rows {
        let server = answering(bytes);
        let transport = server.transport();
        for _ in 0..3 {
            assert_eq!(call(&transport).unwrap(), ["{}"], "{name}");
        }
        assert_eq!(server.connections(), connections, "{name}");
    }
    // The last chunk has come, and then the connection ends without the empty line.
    assert_eq!(answer(&answering_once(format!("{chunked}0\r\n"))).unwrap(), ["{}"]);
    for length in ["2, 3", "+2", "-1", "99999999999999999999", ""] {
        let fault = answer(&answering(format!("HTTP/1.1 200 OK\r\n{json}Content-Length: {length}\r\n\r\n{{}}")));
        let fault = fault.unwrap_err();
        assert!(matches!(&fault, Fault::Io { detail, .. } if detail.contains("not valid HTTP")), "{length}: {fault:?}");
    }
}

#[test]
fn a_stream_whose_end_comes_late_gives_its_connection_back() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(wait);
    let (told, ended) = mpsc::channel();
    let server = serve(move |_, mut peer| {
        while peer.request().is_some() {
            peer.say(format!("{SSE}{}", chunk("data: {}\n\n")));
            wait.lock().recv_timeout(BOUND).unwrap();
            peer.say("0\r\n\r\n");
            told.send(()).unwrap();
        }
    });
    let transport = server.transport();
    for _ in 0..3 {
        assert_eq!(call(&transport).unwrap(), ["{}"]);
        go.send(()).unwrap();
        ended.recv_timeout(BOUND).unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_stream_that_never_ends_does_not_hold_up_the_next_call() {
    let server = serve(|_, mut peer| {
        if peer.request().is_some() {
            peer.say(format!("{SSE}{}", chunk("data: {}\n\n")));
            peer.wait();
        }
    });
    let transport = server.transport();
    for _ in 0..3 {
        assert_eq!(call(&transport).unwrap(), ["{}"]);
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn br21_a_connection_that_the_server_closed_is_not_used_again() {
    type End = fn(Peer);
    let ends: [(&str, End); 2] = [("close", |peer| drop(peer)), ("reset", Peer::reset)];
    for (name, end) in ends {
        let (told, closed) = mpsc::channel();
        let executed = Arc::new(AtomicUsize::new(0));
        let count = executed.clone();
        let all = Arc::new(std::sync::Barrier::new(4));
        let server = serve(move |_, mut peer| {
            if peer.request().is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                all.wait();
                peer.json("{}");
                end(peer);
                told.send(()).unwrap();
            }
        });
        let transport = Arc::new(server.transport());
        for _ in 0..2 {
            let calls: Vec<_> = (0..4)
                .map(|_| {
                    let transport = transport.clone();
                    thread::spawn(move || call(&transport))
                })
                .collect();
            for call in calls {
                assert_eq!(call.join().unwrap().unwrap(), ["{}"], "{name}");
            }
            for _ in 0..4 {
                closed.recv_timeout(BOUND).unwrap();
            }
        }
        assert_eq!(executed.load(Ordering::SeqCst), 8, "{name}");
    }
}

#[test]
fn br21_connection_close_and_extra_bytes_do_not_poison_the_next_call() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    let rows = [
        ("close", format!("{head}Connection: close\r\n\r\n{{}}")),
        ("one extra byte", format!("{head}\r\n{{}}x")),
        ("an extra answer", format!("{head}\r\n{{}}{head}\r\n[]")),
    ];
    for (name, bytes) in rows {
        let server = answering(bytes);
        let transport = server.transport();
        for _ in 0..3 {
            assert_eq!(call(&transport).unwrap(), ["{}"], "{name}");
        }
        assert_eq!(server.connections(), 3, "{name}");
    }
}

#[test]
fn br21_extra_bytes_that_come_late_do_not_poison_the_next_call() {
    let (told, said) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(wait);
    let server = serve(move |_, mut peer| {
        if peer.request().is_some() {
            peer.json("{}");
            wait.lock().recv_timeout(BOUND).unwrap();
            peer.say("x");
            told.send(()).unwrap();
            peer.wait();
        }
    });
    let transport = server.transport();
    for _ in 0..2 {
        assert_eq!(call(&transport).unwrap(), ["{}"]);
        go.send(()).unwrap();
        said.recv_timeout(BOUND).unwrap();
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn br21_a_close_while_the_request_is_read_is_told_and_nothing_is_sent_again() {
    let server = serve(|_, mut peer| {
        if peer.request().is_some() {
            peer.json("{}");
            peer.request();
        }
    });
    let transport = server.transport();
    assert_eq!(call(&transport).unwrap(), ["{}"]);
    let fault = call(&transport).unwrap_err();
    assert!(matches!(fault, Fault::Io { sent: Sent::Begun, .. }), "{fault:?}");
    assert_eq!(server.connections(), 1);
    assert_eq!(call(&transport).unwrap(), ["{}"]);
}

#[test]
fn a_refusal_before_the_request_is_read_is_heard() {
    let server = serve(|_, mut peer| {
        peer.stream.read_exact(&mut [0; 16]).unwrap();
        peer.say("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        drop(peer.stream.shutdown(Shutdown::Write));
        peer.wait();
    });
    let body = "x".repeat(1 << 20);
    let token = CancelToken::new();
    let fault = server.transport().exchange(outgoing(&body), &scope(&token), &mut sink(1)).unwrap_err();
    assert!(matches!(&fault, Fault::Status(refusal) if refusal.status == 413 && refusal.body == "no"), "{fault:?}");
}

#[test]
fn idle_lanes_are_few() {
    let all = Arc::new(std::sync::Barrier::new(24));
    let server = serve(move |_, mut peer| {
        if peer.request().is_some() {
            all.wait();
            peer.json("{}");
            peer.wait();
        }
    });
    let transport = Arc::new(server.transport());
    let calls: Vec<_> = (0..24)
        .map(|_| {
            let transport = transport.clone();
            thread::spawn(move || call(&transport).unwrap())
        })
        .collect();
    for call in calls {
        call.join().unwrap();
    }
    assert_eq!(transport.idle_lanes(), 16);
}

// ---- cut, closed, out of time

/// What the server says before it falls silent.
fn silences() -> Vec<(&'static str, String)> {
    let event = "data: {\"p\":1}\n\n";
    vec![
        ("no answer", String::new()),
        ("half a head", "HTTP/1.1 200 OK\r\nContent-".into()),
        ("half a body", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"a\"".into()),
        (
            "half a chunked body",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{".into(),
        ),
        ("a body until close", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}".into()),
        ("a chunked stream", format!("{SSE}{}", chunk(event))),
        ("a stream until close", format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{event}")),
        ("half a refusal", "HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nno".into()),
    ]
}

/// A server whose first request waits in `silence`; others are answered once the test says `go`.
fn silent(silence: String) -> (Server, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (told, there) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(wait);
    let server = serve(move |number, mut peer| {
        while peer.request().is_some() {
            if number == 0 {
                peer.say(&silence);
                told.send(()).unwrap();
                peer.wait();
            } else {
                told.send(()).unwrap();
                wait.lock().recv_timeout(BOUND).unwrap();
                peer.json("{}");
            }
        }
    });
    (server, there, go)
}

#[test]
fn a_cancel_ends_a_blocked_wait_and_cuts_no_neighbour() {
    for (name, silence) in silences() {
        let (server, there, go) = silent(silence);
        let transport = Arc::new(server.transport());
        let token = Arc::new(CancelToken::new());
        let victim = {
            let (transport, token) = (transport.clone(), token.clone());
            thread::spawn(move || transport.exchange(outgoing("{}"), &scope(&token), &mut sink(9)))
        };
        there.recv_timeout(BOUND).unwrap();
        let neighbour = {
            let transport = transport.clone();
            thread::spawn(move || call(&transport))
        };
        there.recv_timeout(BOUND).unwrap();
        assert!(token.cancel(Why::Host));
        let fault = victim.join().unwrap().unwrap_err();
        assert!(matches!(fault, Fault::Cancelled { why: Why::Host, sent: Sent::Begun }), "{name}: {fault:?}");
        go.send(()).unwrap();
        assert_eq!(neighbour.join().unwrap().unwrap(), ["{}"], "{name}");
        assert_eq!(transport.idle_lanes(), 1, "{name}: the cut lane is not used again");
    }
}

#[test]
fn a_cancelled_token_sends_nothing() {
    let server = answering("");
    let token = CancelToken::new();
    token.cancel(Why::Host);
    let fault = server.transport().exchange(outgoing("{}"), &scope(&token), &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Cancelled { why: Why::Host, sent: Sent::No }), "{fault:?}");
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_late_cancel_does_not_cut_the_lanes_next_call() {
    let (server, token) = (
        answering("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
        CancelToken::new(),
    );
    let transport = server.transport();
    transport.exchange(outgoing("{}"), &scope(&token), &mut sink(1)).unwrap();
    token.cancel(Why::Host);
    assert_eq!(call(&transport).unwrap(), ["{}"]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_close_cuts_all_and_refuses_what_comes() {
    for (name, silence) in silences() {
        let (server, there, _go) = silent(silence);
        let transport = Arc::new(server.transport());
        let victim = {
            let transport = transport.clone();
            thread::spawn(move || call_for(&transport, 9))
        };
        there.recv_timeout(BOUND).unwrap();
        transport.close();
        let fault = victim.join().unwrap().unwrap_err();
        assert!(matches!(fault, Fault::Cancelled { why: Why::Closing, sent: Sent::Begun }), "{name}: {fault:?}");
        assert!(matches!(call(&transport), Err(Fault::Closed)), "{name}");
    }
}

#[test]
fn silence_ends_with_the_idle_limit() {
    for (name, silence) in silences() {
        let (server, _there, _go) = silent(silence);
        let (transport, token) = (server.transport(), CancelToken::new());
        let (idle, begun) = (Duration::from_millis(60), Instant::now());
        let scope = Scope { idle: Some(idle), ..scope(&token) };
        let fault = transport.exchange(outgoing("{}"), &scope, &mut sink(9)).unwrap_err();
        if let Fault::Status(refusal) = &fault {
            assert_eq!((name, refusal.body.as_str()), ("half a refusal", "no"));
        } else {
            let idle = matches!(fault, Fault::Timeout { budget: Budget::Idle, sent: Sent::Begun });
            assert!(idle, "{name}: {fault:?}");
        }
        assert!(begun.elapsed() >= idle, "{name}: never early");
        assert_eq!(transport.idle_lanes(), 0, "{name}");
    }
}

#[test]
fn bytes_that_drip_reset_the_idle_limit_and_not_the_total_one() {
    let server = serve(|_, mut peer| {
        peer.request();
        peer.say(SSE);
        // The read's timeout is the pace: a comment every 20 ms, until the client goes.
        peer.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        while peer.stream.read(&mut [0]).is_err() && peer.stream.write_all(chunk(":\n").as_bytes()).is_ok() {}
    });
    let token = CancelToken::new();
    let begun = Instant::now();
    let total = Deadline::after(begun, Some(Duration::from_millis(400)), Budget::Total);
    let scope = Scope { total, idle: Some(Duration::from_millis(300)), ..scope(&token) };
    let fault = server.transport().exchange(outgoing("{}"), &scope, &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Timeout { budget: Budget::Total, sent: Sent::Begun }), "{fault:?}");
    assert!(begun.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_server_that_reads_nothing_ends_with_the_total_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let transport = transport(&format!("http://{}/", listener.local_addr().unwrap()), Limits::default());
    let token = CancelToken::new();
    let body = "x".repeat(32 << 20);
    let total = Deadline::after(Instant::now(), Some(Duration::from_millis(500)), Budget::Total);
    let scope = Scope { total, ..scope(&token) };
    let fault = transport.exchange(outgoing(&body), &scope, &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Timeout { budget: Budget::Total, sent: Sent::Begun }), "{fault:?}");
}

#[test]
fn a_spent_total_sends_nothing() {
    let (server, token) = (answering(""), CancelToken::new());
    let total = Deadline::At(Instant::now(), Budget::Probe);
    let scope = Scope { total, ..scope(&token) };
    let fault = server.transport().exchange(outgoing("{}"), &scope, &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Timeout { budget: Budget::Probe, sent: Sent::No }), "{fault:?}");
    assert_eq!(server.connections(), 0);
}

/// A listener whose queue is full, so that a connect neither succeeds nor fails, with what fills it.
#[cfg(target_os = "linux")]
pub(super) fn deaf() -> (socket2::Socket, SocketAddr, Vec<TcpStream>) {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut filling = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        filling.push(stream);
    }
    (socket, address, filling)
}

#[test]
#[cfg(target_os = "linux")]
fn a_connect_ends_with_its_limit_and_with_a_cancel() {
    let (_socket, address, _filling) = deaf();
    let held = Arc::new(Held::default());
    let settings = HttpSettings::plain(&format!("http://{address}/"));
    let transport = Arc::new(HttpTransport::new(settings, clock::system(), held.clone()).unwrap());
    let token = Arc::new(CancelToken::new());
    let short = Scope { connect: Some(Duration::from_millis(250)), ..scope(&token) };
    let fault = transport.exchange(outgoing("{}"), &short, &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Timeout { budget: Budget::Connect, sent: Sent::No }), "{fault:?}");
    let wait = held.wait();
    let victim = {
        let (transport, token) = (transport.clone(), token.clone());
        thread::spawn(move || transport.exchange(outgoing("{}"), &scope(&token), &mut sink(1)))
    };
    assert_eq!(wait.recv_timeout(BOUND), Ok("mcp-connect"));
    token.cancel(Why::Host);
    let fault = victim.join().unwrap().unwrap_err();
    assert!(matches!(fault, Fault::Cancelled { why: Why::Host, sent: Sent::No }), "{fault:?}");
}

#[test]
fn tls_faults_tell_that_nothing_was_sent() {
    let plain = serve(|_, mut peer| {
        drop(peer.stream.read(&mut [0; 1_024]));
        peer.say("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let over_tls = transport(&format!("https://{}/", plain.address), Limits::default());
    let rude = serve(|_, mut peer| {
        drop(peer.stream.read(&mut [0; 1_024]));
        peer.reset();
    });
    let cut_short = transport(&format!("https://{}/", rude.address), Limits::default());
    for transport in [&over_tls, &cut_short] {
        let fault = call(transport).unwrap_err();
        assert!(matches!(&fault, Fault::Tls(detail) if !detail.is_empty()), "{fault:?}");
    }
    let (told, there) = mpsc::channel();
    let deaf = serve(move |_, mut peer| {
        drop(peer.stream.read(&mut [0; 1_024]));
        told.send(()).unwrap();
        peer.wait();
    });
    let over_tls = Arc::new(transport(&format!("https://{}/", deaf.address), Limits::default()));
    let token = Arc::new(CancelToken::new());
    let short = Scope { connect: Some(Duration::from_millis(60)), ..scope(&token) };
    let fault = over_tls.exchange(outgoing("{}"), &short, &mut sink(1)).unwrap_err();
    assert!(matches!(fault, Fault::Timeout { budget: Budget::Connect, sent: Sent::No }), "{fault:?}");
    there.recv_timeout(BOUND).unwrap();
    let victim = {
        let (transport, token) = (over_tls.clone(), token.clone());
        thread::spawn(move || transport.exchange(outgoing("{}"), &scope(&token), &mut sink(1)))
    };
    there.recv_timeout(BOUND).unwrap();
    token.cancel(Why::Host);
    let fault = victim.join().unwrap().unwrap_err();
    assert!(matches!(fault, Fault::Cancelled { why: Why::Host, sent: Sent::No }), "{fault:?}");
}

// ---- what is read

#[test]
fn br14_each_wrong_answer_is_told_and_the_next_call_works() {
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let rows: [(&str, String, &str); 19] = [
        (
            "503 + HTML",
            "HTTP/1.1 503 No\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>".into(),
            "status 503 `<p/>`",
        ),
        ("500 empty", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".into(), "status 500 ``"),
        ("405", "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".into(), "status 405 ``"),
        (
            "404 + error",
            "HTTP/1.1 404 No\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".into(),
            "status 404 `{}`",
        ),
        (
            "redirect",
            "HTTP/1.1 307 No\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n".into(),
            "status 307 ``",
        ),
        ("empty JSON", format!("{json}Content-Length: 0\r\n\r\n"), "the answer's body is empty"),
        ("null", format!("{json}Content-Length: 4\r\n\r\nnull"), "[\"null\"]"),
        ("cut in the middle", format!("{json}Content-Length: 9\r\n\r\n{{\"a\""), "io"),
        ("chunks cut", format!("{json}Transfer-Encoding: chunked\r\n\r\n9\r\n{{\"a\""), "io"),
        (
            "HTML",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>".into(),
            "the answer has content type text/html",
        ),
        ("no type", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".into(), "the answer has no content type"),
        ("202", "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n".into(), "the answer has status 202 and no message"),
        ("204", "HTTP/1.1 204 OK\r\n\r\n".into(), "the answer has status 204 and no message"),
        ("205", "HTTP/1.1 205 OK\r\nContent-Length: 0\r\n\r\n".into(), "the answer has no content type"),
        ("201", "HTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n".into(), "the answer has no content type"),
        ("201 + JSON", json.replace("200", "201") + "Content-Length: 2\r\n\r\n{}", "[\"{}\"]"),
        ("203 + JSON", json.replace("200", "203") + "Content-Length: 2\r\n\r\n{}", "[\"{}\"]"),
        ("no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n".into(), "io"),
        ("nothing", String::new(), "io"),
    ];
    for (name, bytes, expected) in rows {
        let server = serve(move |number, mut peer| {
            if peer.request().is_some() {
                peer.say(&bytes);
                // The connection ends in the first call, so that nothing but its bytes can follow.
                if number > 0 {
                    peer.wait();
                }
            }
        });
        let told = match answer(&server) {
            Ok(frames) => format!("{frames:?}"),
            Err(Fault::Status(refusal)) => format!("status {} `{}`", refusal.status, refusal.body),
            Err(Fault::NotAnAnswer { detail }) => detail,
            Err(Fault::Io { sent: Sent::Begun, .. }) => "io".into(),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn br14_a_reset_is_told_and_the_next_call_works() {
    let server = serve(|number, mut peer| {
        while peer.request().is_some() {
            if number == 0 {
                return peer.reset();
            }
            peer.json("{}");
        }
    });
    let transport = server.transport();
    let fault = call(&transport).unwrap_err();
    assert!(matches!(fault, Fault::Io { sent: Sent::Begun, .. }), "{fault:?}");
    assert_eq!(call(&transport).unwrap(), ["{}"]);
}

#[test]
fn br14_a_body_until_close_that_ends_with_a_reset_is_no_answer() {
    for kind in ["application/json", "text/event-stream"] {
        let (told, read) = mpsc::channel::<()>();
        let read = parking_lot::Mutex::new(read);
        let server = serve(move |_, mut peer| {
            if peer.request().is_some() {
                peer.say(format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\ndata: {{}}\n\n"));
                // A reset may overtake what was said, so an event is waited for where one is told.
                if kind == "text/event-stream" {
                    read.lock().recv_timeout(BOUND).unwrap();
                }
                peer.reset();
            }
        });
        let mut sink = Sink { told: Some(told), ..sink(2) };
        let token = CancelToken::new();
        let fault = server.transport().exchange(outgoing("{}"), &scope(&token), &mut sink).unwrap_err();
        assert!(matches!(&fault, Fault::Io { sent: Sent::Begun, detail } if detail.contains("reset")), "{fault:?}");
    }
}

#[test]
fn a_refusal_keeps_what_the_caller_needs() {
    let body = "é".repeat(40_000);
    let bytes = format!(
        "HTTP/1.1 429 No\r\nRetry-After: 7\r\nWWW-Authenticate: Bearer a=\"1\"\r\nWWW-Authenticate: Basic\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let Err(Fault::Status(refusal)) = answer(&answering(bytes)) else { panic!("expected a refusal") };
    assert_eq!(refusal.status, 429);
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(refusal.challenges, ["Bearer a=\"1\"", "Basic"]);
    assert_eq!(refusal.body, body[..64 << 10]);
}

#[test]
fn a_notification_is_accepted_by_any_2xx() {
    let rows = [
        "HTTP/1.1 202 Accepted\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 299 Fine\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
    ];
    for bytes in rows {
        let (server, token) = (answering(bytes), CancelToken::new());
        let transport = server.transport();
        for _ in 0..2 {
            transport.notify(outgoing("{}"), &scope(&token)).unwrap();
        }
        assert_eq!(server.connections(), 1, "{bytes}");
    }
    let (server, token) = (answering("HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\n{}"), CancelToken::new());
    let fault = server.transport().notify(outgoing("{}"), &scope(&token)).unwrap_err();
    assert!(matches!(&fault, Fault::Status(refusal) if refusal.status == 400 && refusal.body == "{}"), "{fault:?}");
}

#[test]
fn br22_the_same_answer_however_it_is_written() {
    let typed = |kind: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk(body))
    };
    let bytewise: String = ": hi\r\ndata: {\"é\":1}\r\n\r\n".bytes().fold(String::new(), |all, byte| {
        // One chunk for each byte; a byte of a character is no text, so it is written below.
        all + &format!("1\r\n{}\r\n", char::from(byte))
    });
    let latin: Vec<u8> =
        format!("{SSE}{bytewise}0\r\n\r\n").chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let message = "data: {\"é\":1}\n\n";
    let rows: [(&str, Vec<u8>); 8] = [
        ("plain", chunked_events(message).into()),
        ("type in capitals", typed("Text/Event-Stream; Charset=UTF-8", message).into()),
        ("priming first", chunked_events(&format!("id: 1\ndata:\n\n{message}")).into()),
        ("ping first", chunked_events(&format!("event: ping\ndata: {{}}\n\n{message}")).into()),
        ("bad UTF-8 before", {
            let mut bytes = SSE.as_bytes().to_vec();
            bytes.extend(b"a\r\ndata: \xff\n\n\n\r\n");
            bytes.extend(chunk(message).bytes());
            bytes
        }),
        ("byte by byte", latin),
        ("until close", format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{message}").into()),
        ("as JSON", typed("APPLICATION/JSON;charset=utf-8", "{\"é\":1}").into()),
    ];
    for (name, bytes) in rows {
        assert_eq!(answer(&answering_once(bytes)).unwrap(), ["{\"é\":1}"], "{name}");
    }
}

#[test]
fn two_events_in_one_chunk_are_two_messages() {
    let server = answering(chunked_events("data: 1\n\ndata: 2\n\n"));
    assert_eq!(call_for(&server.transport(), 2).unwrap(), ["1", "2"]);
}

#[test]
fn br23_a_stream_that_ends_without_the_answer_is_lost() {
    let until_close = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let rows = [
        ("clean end", chunked_events("data: 1\n\n")),
        ("nothing at all", format!("{SSE}0\r\n\r\n")),
        ("end inside an event", chunked_events("data: 1\n\ndata: 2\n")),
        ("cut", format!("{SSE}{}", chunk("data: 1\n\n"))),
        ("close", format!("{until_close}data: 1\n\n")),
    ];
    for (name, bytes) in rows {
        let fault = call_for(&answering_once(bytes).transport(), 2).unwrap_err();
        assert!(matches!(fault, Fault::Io { sent: Sent::Begun, .. }), "{name}: {fault:?}");
    }
}

#[test]
fn a_limit_that_is_passed_is_named() {
    let limits = Limits { message_bytes: 100, sse_event_bytes: 100, header_bytes: 1_000, ..Limits::default() };
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let body = format!("\"{}\"", "x".repeat(98));
    let fits = answering(format!("{json}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk(&body)));
    assert_eq!(call(&fits.transport_with(limits.clone())).unwrap(), [body]);
    let long = "x".repeat(101);
    let gzipped = BASE64_STANDARD.decode(GZIPPED_SPACES).unwrap();
    let mut bomb = format!("{json}Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", gzipped.len()).into_bytes();
    bomb.extend(gzipped);
    let event_bomb = String::from_utf8_lossy(&bomb[..json.len()]).replace("application/json", "text/event-stream");
    let event_bomb = [event_bomb.as_bytes(), &bomb[json.len()..]].concat();
    let rows: [(&str, Vec<u8>, &str); 7] = [
        ("told", format!("{json}Content-Length: 101\r\n\r\n").into(), "message_bytes"),
        ("counted", format!("{json}Transfer-Encoding: chunked\r\n\r\n{}", chunk(&long)).into(), "message_bytes"),
        ("until close", format!("{json}\r\n{long}").into(), "message_bytes"),
        ("a bomb", bomb, "message_bytes"),
        ("a bomb of an event", event_bomb, "sse_event_bytes"),
        ("an event", chunked_events(&format!("data: {long}")).into(), "sse_event_bytes"),
        ("a head", format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1_000)).into(), "header_bytes"),
    ];
    for (name, bytes, expected) in rows {
        let transport = answering(bytes).transport_with(limits.clone());
        let fault = call(&transport).unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { option, .. } if option == expected), "{name}: {fault:?}");
        assert_eq!(transport.idle_lanes(), 0, "{name}");
    }
}

#[test]
fn a_head_of_many_kilobytes_fits_the_default_limit() {
    let pad = "x".repeat(60_000);
    let bytes =
        format!("HTTP/1.1 200 OK\r\nX: {pad}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}");
    assert_eq!(answer(&answering(bytes)).unwrap(), ["{}"]);
}

#[test]
fn framing_that_never_ends_is_bounded() {
    let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    bytes.resize(1 << 20, b'0');
    let fault = answer(&answering(bytes)).unwrap_err();
    assert!(matches!(&fault, Fault::Io { detail, .. } if detail.contains("framing")), "{fault:?}");
}

/// `{"id":1,"result":"xxx…"}` with 200 x, gzipped.
const GZIPPED: &str = "H4sIAAAAAAACA6tWykxRsjLUUSpKLS7NKVGyUqoYJkCpFgCzu1QA3AAAAA==";
/// 100,000 spaces, gzipped.
const GZIPPED_SPACES: &str = "H4sIAAAAAAACA+3BMQEAAADCoCrrn9IaHkABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAArwYt8HnKoIYBAA==";
/// `data: {"id":1}` as an event, gzipped.
const GZIPPED_EVENT: &str = "H4sIAAAAAAACA0tJLEm0UqhWykxRsjKs5eICAAwcqB8QAAAA";

#[test]
fn gzip_is_read_where_it_comes_and_the_connection_serves_again() {
    let rows = [("application/json", GZIPPED, 218 + 2), ("text/event-stream", GZIPPED_EVENT, 8)];
    for (kind, text, length) in rows {
        let body = BASE64_STANDARD.decode(text).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: gzip\r\n");
        let mut bytes = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend(&body);
        let server = answering(bytes);
        let transport = server.transport();
        for _ in 0..3 {
            assert_eq!(call(&transport).unwrap()[0].len(), length, "{kind}");
        }
        assert_eq!(server.connections(), 1, "{kind}");
    }
    let server = answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
    );
    let fault = answer(&server).unwrap_err();
    assert!(matches!(fault, Fault::Io { sent: Sent::Begun, .. }), "{fault:?}");
}

#[test]
fn a_large_answer_arrives_whole_and_a_bad_one_is_told() {
    let body = format!("\"{}\"", "é".repeat(5 << 20));
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let server = answering(format!("{json}Content-Length: {}\r\n\r\n{body}", body.len()));
    let transport = server.transport();
    for _ in 0..2 {
        assert!(call(&transport).unwrap()[0] == body);
    }
    assert_eq!(server.connections(), 1);
    let mut bytes = format!("{json}Content-Length: 1\r\n\r\n").into_bytes();
    bytes.push(0xff);
    let fault = answer(&answering(bytes)).unwrap_err();
    assert!(
        matches!(&fault, Fault::NotAnAnswer { detail } if detail == "the answer's body is not valid UTF-8"),
        "{fault:?}"
    );
}

#[test]
fn a_stray_100_is_skipped() {
    let rest = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    for first in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"] {
        assert_eq!(answer(&answering(format!("{first}{rest}"))).unwrap(), ["{}"]);
    }
}
