//! A small server on a real socket, played by a closure, and a session that talks to it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::cancel::CancelToken;
use crate::clock::{Budget, Clock, Deadline, SystemClock};
use crate::error::{Error, Kind, Result};
use crate::protocol::answer::Answer;
use crate::protocol::capability::{ClientCapabilities, ServerFacts};
use crate::protocol::limits::Limits;
use crate::session::{EraChoice, Means, Note, Outside, Patience, Request, Retry, Session, SessionSettings, Verdicts};
use crate::spawn::{Job, Spawn};
use crate::transport::http::{HttpSettings, HttpTransport};
use crate::transport::{Scope, Transport};

/// No test waits longer; none asserts that something was fast.
pub(super) const BOUND: Duration = Duration::from_secs(60);

/// The params of a tool call.
pub(super) const CALL: &str = r#"{"name":"t"}"#;

/// A request as the server read it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub verb: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
    pub at: Instant,
}

impl Seen {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or("")
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.header("mcp-session-id")
    }

    /// "POST tools/list" or "GET".
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.verb, self.method()).trim_end().to_owned()
    }
}

/// What the server saw.
#[derive(Default)]
pub(super) struct Log {
    seen: Mutex<Vec<Seen>>,
    changed: Condvar,
}

impl Log {
    pub(super) fn all(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub(super) fn of(&self, name: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|seen| seen.name() == name).collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.all().iter().map(Seen::name).collect()
    }

    /// Waits for a state of the log.
    pub(super) fn wait(&self, what: &str, done: impl Fn(&[Seen]) -> bool) {
        let until = Instant::now() + BOUND;
        let mut seen = self.seen.lock();
        while !done(&seen) {
            assert!(!self.changed.wait_until(&mut seen, until).timed_out(), "{what} did not come: {seen:#?}");
        }
    }

    pub(super) fn wait_names(&self, name: &str, count: usize) {
        self.wait(name, |seen| seen.iter().filter(|seen| seen.name() == name).count() >= count);
    }

    /// The answer to a request of the server's.
    pub(super) fn wait_answer(&self, id: &Value) -> Value {
        self.wait("an answer", |seen| seen.iter().any(|seen| is_answer(seen, id)));
        self.all().into_iter().find(|seen| is_answer(seen, id)).unwrap().body
    }
}

fn is_answer(seen: &Seen, id: &Value) -> bool {
    seen.method().is_empty() && &seen.body["id"] == id
}

/// The server's end of a request.
pub(super) struct Peer {
    stream: TcpStream,
    pub log: Arc<Log>,
    open: bool,
}

impl Peer {
    pub(super) fn say(&mut self, text: &str) {
        drop(self.stream.write_all(text.as_bytes()));
    }

    pub(super) fn answer(&mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        self.say(&format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}"));
    }

    pub(super) fn json(&mut self, headers: &str, body: &Value) {
        self.answer(200, &format!("Content-Type: application/json\r\n{headers}"), &body.to_string());
    }

    pub(super) fn result(&mut self, seen: &Seen, result: Value) {
        self.json("", &json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}));
    }

    pub(super) fn fault(&mut self, status: u16, id: &Value, code: i64, data: Value) {
        let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": data}});
        self.answer(status, "Content-Type: application/json\r\n", &body.to_string());
    }

    /// Begins an event stream; it ends with the connection.
    pub(super) fn stream(&mut self) {
        self.open = false;
        self.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    }

    pub(super) fn event(&mut self, data: &Value) {
        self.say(&format!("data: {data}\n\n"));
    }

    /// The connection, for another thread to speak on.
    pub(super) fn share(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Waits until the client ends the connection.
    pub(super) fn wait_gone(&mut self) {
        self.open = false;
        while self.stream.read(&mut [0; 64]).is_ok_and(|more| more > 0) {}
    }

    /// Answers `initialize` in this version, with this session.
    pub(super) fn greet(&mut self, seen: &Seen, version: &str, session: Option<&str>) {
        let header = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let said = json!({"protocolVersion": version, "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "old", "version": "1"}, "instructions": "be kind"});
        self.json(&header, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": said}));
    }

    /// What a plain legacy server says: a session, no GET stream, empty lists.
    pub(super) fn plainly(&mut self, seen: &Seen, version: &str, session: Option<&str>) {
        match (seen.verb.as_str(), seen.method()) {
            ("POST", "server/discover") => self.answer(400, "", ""),
            ("POST", "initialize") => self.greet(seen, version, session),
            ("POST", "tools/list") => self.result(seen, json!({"tools": []})),
            ("POST", "tools/call") => self.result(seen, json!({"content": []})),
            ("POST", method) if seen.body["id"].is_null() || method.is_empty() => self.answer(202, "", ""),
            ("POST", _) => self.result(seen, json!({})),
            ("DELETE", _) => self.answer(200, "", ""),
            _ => self.answer(405, "", ""),
        }
    }
}

/// A server.
pub(super) struct Server {
    pub url: String,
    pub log: Arc<Log>,
}

/// A server that answers each request by `play`.
pub(super) fn serve(play: impl Fn(&Seen, &mut Peer) + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let log: Arc<Log> = Arc::default();
    let (play, there) = (Arc::new(play), log.clone());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (play, log) = (play.clone(), there.clone());
            stream.set_read_timeout(Some(BOUND)).unwrap();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut peer = Peer { stream, log: log.clone(), open: true };
                while peer.open
                    && let Some(seen) = read(&mut reader)
                {
                    log.seen.lock().push(seen.clone());
                    log.changed.notify_all();
                    play(&seen, &mut peer);
                }
            });
        }
    });
    Server { url, log }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    let next = |reader: &mut BufReader<TcpStream>, line: &mut String| {
        line.clear();
        reader.read_line(line).ok().filter(|read| *read > 0).map(|_| line.trim_end().to_owned())
    };
    let first = next(reader, &mut line)?;
    let at = Instant::now();
    let mut words = first.split(' ').map(str::to_owned);
    let (verb, path) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let header = next(reader, &mut line)?;
        let Some((name, value)) = header.split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { verb, path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null), at })
}

struct Threads;

impl Spawn for Threads {
    fn spawn(&self, name: &'static str, job: Job) -> Result<()> {
        let thread = thread::Builder::new().name(name.into()).spawn(job);
        thread.map(drop).map_err(|cause| Error::new(Kind::Memory, cause.to_string()))
    }
}

struct Ear(Mutex<mpsc::Sender<Note>>);

impl Outside for Ear {
    fn note(&self, note: Note) {
        // Nobody hears the notes of a test that is over.
        drop(self.0.lock().send(note));
    }
}

/// A session with a server, and what it tells outside its requests.
pub(super) struct Talk {
    pub session: Arc<Session>,
    outside: Mutex<mpsc::Receiver<Note>>,
    pub verdicts: Arc<Verdicts>,
    transport: Arc<dyn Transport>,
}

pub(super) fn settings(era: EraChoice) -> SessionSettings {
    SessionSettings {
        client_info: r#"{"name":"test","version":"1"}"#.into(),
        capabilities: ClientCapabilities { elicitation: true, sampling: true, roots: true, ..Default::default() },
        log_level: None,
        limits: Limits::default(),
        era,
        patience: Patience {
            probe: Some(BOUND),
            total: Some(BOUND),
            idle: Some(BOUND),
            connect: Some(BOUND),
            grace: Some(BOUND),
        },
        key: 1,
        secrets: Vec::new(),
    }
}

impl Talk {
    pub(super) fn new(server: &Server, settings: SessionSettings) -> Self {
        Self::remembering(server, settings, Arc::default())
    }

    pub(super) fn remembering(server: &Server, settings: SessionSettings, verdicts: Arc<Verdicts>) -> Self {
        let http = HttpSettings::plain(&server.url);
        let transport: Arc<dyn Transport> =
            Arc::new(HttpTransport::new(http, Arc::new(SystemClock), Arc::new(Threads)).unwrap());
        let (told, outside) = mpsc::channel();
        let means = Means {
            clock: Arc::new(SystemClock),
            life: Arc::new(SystemClock),
            threads: Arc::new(Threads),
            errands: Arc::new(Threads),
            outside: Arc::new(Ear(Mutex::new(told))),
            verdicts: verdicts.clone(),
        };
        let session = Arc::new(Session::new(transport.clone(), settings, means));
        Self { session, outside: Mutex::new(outside), verdicts, transport }
    }

    /// A talk that is open, in the legacy era.
    pub(super) fn legacy(server: &Server) -> Self {
        let talk = Self::new(server, settings(EraChoice::Legacy));
        talk.open().unwrap();
        talk
    }

    pub(super) fn open(&self) -> Result<ServerFacts> {
        self.session.open(&CancelToken::new(), &mut |note| self.hear(note))
    }

    fn hear(&self, _: Note) {}

    pub(super) fn ask(&self, method: &str, params: &str) -> Result<String> {
        let request = Request::new(method, params).unwrap();
        self.send(&request, &CancelToken::new(), BOUND, &mut |_| {})
    }

    pub(super) fn list_with(&self, notes: &mut dyn FnMut(Note)) -> Result<String> {
        self.send(&Request::new("tools/list", "{}").unwrap(), &CancelToken::new(), BOUND, notes)
    }

    pub(super) fn call_with(
        &self,
        params: &str,
        cancel: &CancelToken,
        total: Duration,
        notes: &mut dyn FnMut(Note),
    ) -> Result<String> {
        self.send(&Request::new("tools/call", params).unwrap(), cancel, total, notes)
    }

    fn send(
        &self,
        request: &Request,
        cancel: &CancelToken,
        total: Duration,
        notes: &mut dyn FnMut(Note),
    ) -> Result<String> {
        let total = Deadline::after(SystemClock.now(), Some(total), Budget::Total);
        let scope = Scope { cancel, total, idle: Some(BOUND), connect: Some(BOUND) };
        match self.session.ask(request, &Retry::default(), &scope, &mut |note: Note| notes(note))? {
            Answer::Complete(result) => Ok(result.text().to_owned()),
            Answer::InputRequired(round) => Ok(format!("asks {:?}", round.requests)),
            Answer::Task(task) => Ok(format!("task {}", task.id)),
        }
    }

    pub(super) fn end(&self) {
        self.session.end(Deadline::after(SystemClock.now(), Some(BOUND), Budget::Grace));
        self.transport.close();
    }

    pub(super) fn heard(&self) -> Note {
        self.outside.lock().recv_timeout(BOUND).unwrap()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.end();
    }
}
