//! A record of what passes between the client and the server: a file of JSON lines, to look at and to be played again
//! (`session/replay.rs`). A decorator of any transport, so it holds what goes through exchanges and streams that are listened
//! to. Headers of the settings never come here, a session's name is left out, and what is known as a credential is masked.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::error::{Error, Kind, Result, mask};
use crate::spawn::Spawn;
use crate::transport::{Fault, Flow, FrameSink, LinkKind, Outgoing, Scope, Sent, Transport};

/// The first member of the line that begins a record.
pub(crate) const MARK: &str = "mcpnative_record";
/// The form of the lines.
pub(crate) const FORM: u64 = 1;
/// Headers whose values are secrets or name a session.
const UNTOLD: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "mcp-session-id"];

/// So many times a credential with quotes or backslashes may be JSON in JSON (chosen).
const DEEPEST: usize = 4;

/// What is recorded, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordSettings {
    pub file: String,
    pub max_bytes: usize,
}

/// Hears of the end of a record before its time; once.
type OnTrouble = Box<dyn Fn(Error) + Send + Sync>;

/// The file.
pub(crate) struct Tape {
    reel: Mutex<Reel>,
    clock: Arc<dyn Clock>,
    start: Instant,
    /// Credentials in every form in which they may stand in a line.
    secrets: Vec<String>,
    next: AtomicU64,
    on_trouble: OnceCell<OnTrouble>,
}

struct Reel {
    /// None: the record has ended.
    file: Option<File>,
    left: usize,
}

impl Tape {
    /// Opens the file, for its owner alone; what is in it stays, and this record comes behind.
    ///
    /// # Errors
    /// [`Kind::Argument`] where the system refuses.
    pub(crate) fn open(settings: &RecordSettings, secrets: &[String], clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&settings.file).map_err(|refused| {
            Error::new(Kind::Argument, format!("settings.record.file: the file cannot be written: {refused}"))
        })?;
        // As they are, and as they stand in a message, in the text of a message in a line, in JSON as a text in that.
        let quote = |text: &String| {
            let quoted = Value::from(text.as_str()).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        let mut forms = vec![secrets.to_vec()];
        for depth in 0..DEEPEST {
            forms.push(forms[depth].iter().map(quote).collect());
        }
        let mut secrets = forms.concat();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Ok(Arc::new(Self {
            reel: Mutex::new(Reel { file: Some(file), left: settings.max_bytes }),
            start: clock.now(),
            clock,
            secrets,
            next: AtomicU64::new(1),
            on_trouble: OnceCell::new(),
        }))
    }

    /// Who hears of an end before its time.
    pub(crate) fn on_trouble(&self, hook: OnTrouble) {
        // The client that owns the tape sets it once.
        drop(self.on_trouble.set(hook));
    }

    fn line(&self, direction: &str, kind: &str, number: u64, more: Value) {
        let t = self.clock.now().saturating_duration_since(self.start).as_millis() as u64;
        let mut line = json!({"t": t, "dir": direction, "kind": kind, "n": number});
        if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
            line.extend(more);
        }
        self.write(&line);
    }

    fn write(&self, line: &Value) {
        // Outside the lock: the hook makes an event.
        if let (Err(trouble), Some(hook)) = (self.put(line), self.on_trouble.get()) {
            hook(trouble);
        }
    }

    /// Writes a line, in one piece: it is there or not.
    ///
    /// # Errors
    /// Why the record ends with this line; later ones go nowhere.
    fn put(&self, line: &Value) -> Result<()> {
        let text = mask(&line.to_string(), &self.secrets) + "\n";
        let mut reel = self.reel.lock();
        let left = reel.left;
        let Some(file) = reel.file.as_mut() else { return Ok(()) };
        let written = if text.len() <= left {
            file.write_all(text.as_bytes())
                .map_err(|refused| Error::new(Kind::Io, format!("the record ends: it cannot be written: {refused}")))
        } else {
            Err(Error::new(Kind::TooLarge, "the record ends: it is full (settings.record.max_bytes)"))
        };
        if written.is_ok() {
            reel.left -= text.len();
        } else {
            reel.file = None;
        }
        written
    }

    fn ask(&self, kind: &str, outgoing: Outgoing<'_>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let told = outgoing.headers.iter().filter(|(name, _)| !UNTOLD.contains(&name.to_ascii_lowercase().as_str()));
        let headers: serde_json::Map<String, Value> =
            told.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let mut more = json!({"headers": headers});
        if !outgoing.body.is_empty() {
            more["message"] = outgoing.body.into();
        }
        self.line(">", kind, number, more);
        number
    }

    fn end<T>(&self, number: u64, outcome: &std::result::Result<T, Fault>) {
        let more = match outcome {
            Ok(_) => json!({}),
            Err(fault) => json!({"fault": told(fault)}),
        };
        self.line("<", "end", number, more);
    }
}

/// A transport with a tape beside it.
pub(crate) struct Recorder {
    inner: Arc<dyn Transport>,
    tape: Arc<Tape>,
}

impl Recorder {
    /// Begins the record.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) fn begin(inner: Arc<dyn Transport>, tape: Arc<Tape>) -> Result<Arc<Self>> {
        let link = match inner.link() {
            LinkKind::Http => "http",
            LinkKind::Stream => "stream",
        };
        tape.put(&json!({MARK: FORM, "link": link, "origin": inner.origin()}))?;
        Ok(Arc::new(Self { inner, tape }))
    }
}

impl Transport for Recorder {
    fn exchange(
        &self,
        outgoing: Outgoing<'_>,
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
    ) -> std::result::Result<(), Fault> {
        let number = self.tape.ask("request", outgoing);
        let done = self.inner.exchange(outgoing, scope, &mut Ear { sink, tape: &self.tape, number });
        self.tape.end(number, &done);
        done
    }

    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> std::result::Result<(), Fault> {
        let number = self.tape.ask("notification", outgoing);
        let done = self.inner.notify(outgoing, scope);
        self.tape.end(number, &done);
        done
    }

    fn link(&self) -> LinkKind {
        self.inner.link()
    }

    fn listen(
        &self,
        headers: &[(&str, &str)],
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
    ) -> std::result::Result<(), Fault> {
        let number = self.tape.ask("listen", bare(headers));
        let done = self.inner.listen(headers, scope, &mut Ear { sink, tape: &self.tape, number });
        self.tape.end(number, &done);
        done
    }

    fn end_session(&self, headers: &[(&str, &str)], scope: &Scope<'_>) -> std::result::Result<(), Fault> {
        let number = self.tape.ask("end_session", bare(headers));
        let done = self.inner.end_session(headers, scope);
        self.tape.end(number, &done);
        done
    }

    fn life(&self) -> u64 {
        self.inner.life()
    }

    fn revive(&self, scope: &Scope<'_>) -> std::result::Result<(), Fault> {
        self.inner.revive(scope)
    }

    fn old_stream(
        self: Arc<Self>,
        threads: &Arc<dyn Spawn>,
        scope: &Scope<'_>,
    ) -> std::result::Result<Arc<dyn Transport>, Fault> {
        let number = self.tape.ask("old_stream", bare(&[]));
        let opened = self.inner.clone().old_stream(threads, scope);
        self.tape.end(number, &opened);
        Ok(Arc::new(Self { inner: opened?, tape: self.tape.clone() }))
    }

    fn origin(&self) -> &str {
        self.inner.origin()
    }

    fn close(&self) {
        self.inner.close();
    }

    fn lingers(&self) -> bool {
        self.inner.lingers()
    }

    fn finish(&self, grace: Option<Duration>) {
        self.inner.finish(grace);
    }
}

fn bare<'a>(headers: &'a [(&'a str, &'a str)]) -> Outgoing<'a> {
    Outgoing { body: "", headers, id: None, token: None, life: 0 }
}

/// Writes down what comes, and hands it on.
struct Ear<'a> {
    sink: &'a mut dyn FrameSink,
    tape: &'a Tape,
    number: u64,
}

impl FrameSink for Ear<'_> {
    fn frame(&mut self, text: String) -> Flow {
        self.tape.line("<", "message", self.number, json!({"message": text}));
        self.sink.frame(text)
    }

    fn session(&mut self, id: &str) {
        self.tape.line("<", "session", self.number, json!({}));
        self.sink.session(id);
    }

    fn opened(&mut self) {
        self.tape.line("<", "opened", self.number, json!({}));
        self.sink.opened();
    }

    fn resumes(&self) -> bool {
        self.sink.resumes()
    }

    fn may_be_cancelled(&self) -> bool {
        self.sink.may_be_cancelled()
    }

    fn lasts(&self) -> bool {
        self.sink.lasts()
    }

    fn retry(&mut self, after: Duration) {
        self.sink.retry(after);
    }

    fn concerns(&self) -> bool {
        self.sink.concerns()
    }

    fn aside(&mut self, event: &str, data: &str) -> Flow {
        self.tape.line("<", "event", self.number, json!({"event": event, "data": data}));
        self.sink.aside(event, data)
    }
}

/// A fault in words that `session/replay.rs` makes one of again.
fn told(fault: &Fault) -> Value {
    let sent = |sent: &Sent| *sent == Sent::Begun;
    match fault {
        Fault::Cancelled { .. } => json!({"kind": "cancelled"}),
        Fault::Closed => json!({"kind": "closed"}),
        Fault::Timeout { budget, sent: how } => {
            json!({"kind": "timeout", "sent": sent(how), "detail": budget.option()})
        }
        Fault::Connect(detail) => json!({"kind": "connect", "detail": detail}),
        Fault::Tls(detail) => json!({"kind": "tls", "detail": detail}),
        Fault::Start(detail) => json!({"kind": "start", "detail": detail}),
        Fault::Io { sent: how, detail } => json!({"kind": "io", "sent": sent(how), "detail": detail}),
        Fault::Status(refusal) => json!({
            "kind": "http", "status": refusal.status, "body": refusal.body, "moved": refusal.moved,
            "retry_after_ms": refusal.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        }),
        Fault::NotAnAnswer { detail } => json!({"kind": "no_answer", "detail": detail}),
        Fault::TooLarge { what, limit, option } => {
            json!({"kind": "no_answer", "detail": format!("{what} is over the limit of {limit} bytes (limits.{option})")})
        }
        Fault::Exited { sent: how, end } => json!({
            "kind": "exited", "sent": sent(how), "code": end.code, "signal": end.signal, "detail": end.stderr,
        }),
        Fault::NotAgain { last } => json!({"kind": "connect", "detail": last.words()}),
    }
}
