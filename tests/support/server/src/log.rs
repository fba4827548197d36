//! The record of what clients sent.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;

use serde_json::{Value, json};

/// One request as it arrived, and how its answer ended.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Position in the record, from 0, counting requests that fell out of it too.
    pub number: u64,
    /// When head and body were complete: microseconds since the server started.
    pub at_us: u64,
    /// When the first byte of the answer was about to be written, on the same clock.
    pub answered_us: Option<u64>,
    /// When the answer was written or given up, on the same clock.
    pub done_us: Option<u64>,
    /// The connection, counted from 1 in the order of acceptance.
    pub connection: u64,
    /// `POST`, `GET`, ...; on standard input `line`, `end` at its end, and `grandchild` (with its process id as body).
    pub http_method: String,
    /// Path with query.
    pub path: String,
    /// Header lines in the order and spelling of the wire.
    pub headers: Vec<(String, String)>,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
    /// `read()` calls that head and body took: 1 hints at one write by the client.
    pub reads: usize,
    /// JSON-RPC method of the body, if it has one.
    pub method: Option<String>,
    /// `params.name`, `params.uri` or `params.taskId`.
    pub name: Option<String>,
    /// HTTP status sent, if any was.
    pub status: Option<u16>,
    /// The client closed its side before the answer was complete.
    pub closed_early: bool,
}

impl Recorded {
    /// An entry with what every carrier knows.
    pub(crate) fn new(at_us: u64, connection: u64, http_method: &str, body: &[u8]) -> Self {
        Self {
            number: 0,
            at_us,
            answered_us: None,
            done_us: None,
            connection,
            http_method: http_method.to_owned(),
            path: String::new(),
            headers: Vec::new(),
            body: String::from_utf8_lossy(body).into_owned(),
            reads: 0,
            method: None,
            name: None,
            status: None,
            closed_early: false,
        }
    }

    /// The value of the first header of this name, compared without case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// A member of the JSON body by pointer, such as `/params/arguments`; null if absent.
    pub fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "process": std::process::id(), "number": self.number, "at_us": self.at_us, "answered_us": self.answered_us, "done_us": self.done_us,
            "connection": self.connection, "http_method": self.http_method, "path": self.path,
            "headers": self.headers, "body": self.body, "reads": self.reads,
            "method": self.method, "name": self.name, "status": self.status,
            "closed_early": self.closed_early,
        })
    }
}

/// The last requests, oldest first.
pub(crate) struct Log {
    entries: VecDeque<Recorded>,
    limit: usize,
    next: u64,
    /// Gets each entry as a line when it comes and whenever it changes.
    sink: Option<File>,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), limit, next: 0, sink: None }
    }

    pub(crate) fn write_to(&mut self, file: File) {
        self.sink = Some(file);
    }

    /// Keeps `entry` and returns its number; the oldest one falls out over the limit.
    pub(crate) fn push(&mut self, mut entry: Recorded) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.limit > 0 {
            if self.entries.len() == self.limit {
                self.entries.pop_front();
            }
            entry.number = number;
            write(&mut self.sink, &entry);
            self.entries.push_back(entry);
        }
        number
    }

    /// Changes an entry that is still kept.
    pub(crate) fn amend(&mut self, number: u64, change: impl FnOnce(&mut Recorded)) {
        let kept = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let index = number.checked_sub(self.next - kept).and_then(|at| usize::try_from(at).ok());
        if let Some(entry) = index.and_then(|at| self.entries.get_mut(at)) {
            change(entry);
            write(&mut self.sink, entry);
        }
    }

    pub(crate) fn all(&mut self) -> &[Recorded] {
        self.entries.make_contiguous()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

fn write(sink: &mut Option<File>, entry: &Recorded) {
    if let Some(file) = sink {
        let _ = file.write_all(format!("{}\n", entry.to_json()).as_bytes());
    }
}
