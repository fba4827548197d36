//! Reads the three kinds of answers: one JSON message, a stream of events, a refusal.

use std::io::{self, Read};
use std::time::{Instant, SystemTime};

use ureq_proto::http::header::{self, HeaderName};
use ureq_proto::http::response::Parts;

use super::control::Control;
use super::retry_after::retry_after;
use super::sse::{SseEvent, SseFault, SseReader};
use crate::error::one_line;
use crate::protocol::limits::Limits;
use crate::transport::{Fault, Flow, FrameSink, HttpRefusal};

/// The beginning of a refusal's body that is kept.
const REFUSAL_BYTES: usize = 64 << 10;
/// What is set aside for a body before its bytes come; chosen, so that a wrong length costs little.
const TRUSTED_LENGTH: usize = 16 << 20;

/// What a 2xx answer is.
pub(super) enum Form {
    /// One message.
    Json,
    /// A stream of events.
    Events,
    /// Neither: says what is wrong, as a clause.
    Other(String),
}

/// The form of an answer, from its head alone.
pub(super) fn form(head: &Parts) -> Form {
    let value = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if matches!(head.status.as_u16(), 202 | 204) {
        Form::Other(format!("the answer has status {} and no message", head.status.as_u16()))
    } else if essence.eq_ignore_ascii_case(b"application/json") {
        Form::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        Form::Events
    } else if essence.is_empty() {
        Form::Other("the answer has no content type".into())
    } else {
        Form::Other(format!("the answer has content type {}", one_line(&String::from_utf8_lossy(essence))))
    }
}

/// How far an event stream was read: where it may be taken up again, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The last event id. An empty one takes it back (WHATWG HTML, 9.2.6).
    pub id: Option<String>,
    /// The last `retry`, in milliseconds.
    pub retry: Option<u64>,
    /// How many events came.
    pub events: u64,
}

impl Cursor {
    fn pass(&mut self, event: &SseEvent) {
        self.events += 1;
        if let Some(id) = &event.id {
            self.id = (!id.is_empty()).then(|| id.clone());
        }
        self.retry = event.retry.or(self.retry);
    }
}

/// One answer being read.
pub(super) struct Reading<'a> {
    pub head: &'a Parts,
    pub limits: &'a Limits,
    pub control: &'a Control,
    /// Why the body ended or failed.
    pub why: &'a dyn Fn(Option<io::Error>) -> Fault,
}

impl Reading<'_> {
    /// One message.
    pub(super) fn json(&self, body: &mut impl Read, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let limit = self.limits.message_bytes;
        let too_large = || Fault::TooLarge { what: "the answer's body", limit, option: "message_bytes" };
        let told = self.told_length();
        if told.is_some_and(|told| told > limit as u64) {
            return Err(too_large());
        }
        let room = told.and_then(|told| usize::try_from(told).ok()).unwrap_or(0).min(TRUSTED_LENGTH);
        // The bytes are copied once, from the socket's buffer to here; the text takes this very block over.
        let mut text = Vec::with_capacity(room);
        let read = body.take((limit as u64).saturating_add(1)).read_to_end(&mut text);
        if let Err(cause) = read {
            return Err((self.why)(Some(cause)));
        }
        if text.len() > limit {
            return Err(too_large());
        }
        // A body that ends with its connection ends just as cleanly when it is cut.
        if self.control.is_cut() || self.control.trouble().is_some() {
            return Err((self.why)(None));
        }
        if text.is_empty() {
            return Err(Fault::NotAnAnswer { detail: "the answer's body is empty".into() });
        }
        let Ok(text) = String::from_utf8(text) else {
            return Err(Fault::NotAnAnswer { detail: "the answer's body is not valid UTF-8".into() });
        };
        match sink.frame(text) {
            Flow::Done => Ok(()),
            Flow::More => Err(Fault::NotAnAnswer { detail: "the answer's message answers something else".into() }),
        }
    }

    /// The length that the head tells. Absent where the body is compressed: the header goes then.
    fn told_length(&self) -> Option<u64> {
        self.head.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
    }

    /// Messages until the sink is done. An event that is not valid UTF-8 is dropped, and the stream goes on.
    pub(super) fn events(
        &self,
        body: &mut impl Read,
        sink: &mut dyn FrameSink,
        cursor: &mut Cursor,
    ) -> Result<(), Fault> {
        let limit = self.limits.sse_event_bytes;
        let mut events = SseReader::new(limit);
        let mut piece = [0; 8 << 10];
        let mut silence = Silence::new(self.control);
        loop {
            let mut rest = match body.read(&mut piece) {
                Ok(0) => break,
                Ok(more) => &piece[..more],
                Err(cause) => return Err(self.told((self.why)(Some(cause)), &events)),
            };
            while !rest.is_empty() {
                let (used, event) = events.feed(rest).map_err(|fault| match fault {
                    SseFault::TooLarge => Fault::TooLarge { what: "an SSE event", limit, option: "sse_event_bytes" },
                })?;
                let taken = &rest[..used];
                rest = &rest[used..];
                let Some(event) = event else {
                    silence.on_rest(taken);
                    continue;
                };
                cursor.pass(&event);
                match hand_over(event, sink) {
                    Flow::Done => return Ok(()),
                    Flow::More => silence.on_event(sink.concerns()),
                }
            }
            silence.on_bytes(events.is_between());
        }
        Err(self.told((self.why)(None), &events))
    }

    /// The stream ended without the answer: a dropped event may have been it.
    fn told(&self, fault: Fault, events: &SseReader) -> Fault {
        match (fault, events.dropped()) {
            (Fault::Io { sent, detail }, dropped) if dropped > 0 => {
                Fault::Io { sent, detail: format!("{detail} ({dropped} events were dropped: not valid UTF-8)") }
            }
            (fault, _) => fault,
        }
    }

    /// A status outside 2xx. A body that breaks off, or does not come in time, is kept as far as it came: the status
    /// matters more. Only a cut is told instead.
    pub(super) fn refusal(&self, body: &mut impl Read, wall: SystemTime) -> Result<HttpRefusal, Fault> {
        let mut bytes = Vec::new();
        let read = body.take(REFUSAL_BYTES as u64).read_to_end(&mut bytes);
        if self.control.is_cut() {
            return Err((self.why)(read.err()));
        }
        let after = self.values(&header::RETRY_AFTER).find_map(|value| retry_after(&value, wall));
        Ok(HttpRefusal {
            status: self.head.status.as_u16(),
            retry_after: after,
            challenges: self.values(&header::WWW_AUTHENTICATE).collect(),
            body: text_of(bytes),
            moved: None,
        })
    }

    fn values(&self, name: &HeaderName) -> impl Iterator<Item = String> {
        let values = self.head.headers.get_all(name).into_iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

/// The silence of a stream: bytes end it, but those of an event about another exchange (BR-26).
struct Silence<'a> {
    control: &'a Control,
    /// When it began, as far as whole events tell.
    since: Instant,
    foreign: bool,
}

impl<'a> Silence<'a> {
    fn new(control: &'a Control) -> Self {
        Self { control, since: control.clock().now(), foreign: false }
    }

    fn on_event(&mut self, concerns: bool) {
        self.foreign = !concerns;
        if concerns {
            self.since = self.control.clock().now();
        }
    }

    /// Bytes behind the last event: more than the rest of its line end are a comment, or the next event.
    fn on_rest(&mut self, rest: &[u8]) {
        self.foreign &= rest.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
    }

    /// After each read; `between` says that no event is half read.
    fn on_bytes(&mut self, between: bool) {
        let foreign = std::mem::take(&mut self.foreign);
        if between && !foreign {
            self.since = self.control.clock().now();
        }
        self.control.set_silent_since((between && foreign).then_some(self.since));
    }
}

fn hand_over(event: SseEvent, sink: &mut dyn FrameSink) -> Flow {
    if !event.is_message() {
        return sink.aside(&event.name, &event.data);
    }
    event.into_message().map_or(Flow::More, |message| sink.frame(message))
}

/// The body as far as it is text: a character that the limit cut is left out, and what is no text at all is empty.
fn text_of(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(cause) => {
            let good = cause.utf8_error().valid_up_to();
            let cut_at_the_limit = cause.utf8_error().error_len().is_none();
            let mut bytes = cause.into_bytes();
            bytes.truncate(if cut_at_the_limit { good } else { 0 });
            String::from_utf8(bytes).unwrap_or_default()
        }
    }
}
