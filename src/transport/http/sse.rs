//! The event-stream reader: bytes in, events out (WHATWG HTML, 9.2.6). Pure: no I/O, no clock.
//!
//! Works on bytes until a line is whole, so the cuts of the network never show: every split of a stream gives the
//! same events and the same fault. Counts before it stores, and takes time linear in the input.

use memchr::memchr2;

const BOM: &[u8] = "\u{feff}".as_bytes();
const DATA: &[u8] = b"data:";

/// One event. An event without data carries no message; servers send such "priming" events for their `id` and `retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// The `event` field; empty stands for `message`.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
    /// The `id` field, where there was one.
    pub id: Option<String>,
    /// The `retry` field in milliseconds, where there was a valid one.
    pub retry: Option<u64>,
}

impl SseEvent {
    /// The message that this event carries: it has data, and its name is `message` or absent. Other names are no
    /// messages of the protocol (heartbeats like `ping` are seen in the wild).
    pub(super) fn into_message(self) -> Option<String> {
        (self.is_message() && !self.data.is_empty()).then_some(self.data)
    }

    /// Whether its name is the one of messages.
    pub(super) fn is_message(&self) -> bool {
        self.name.is_empty() || self.name == "message"
    }
}

/// Why the stream cannot be read on. A reader that failed stays failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SseFault {
    /// An event is over the limit.
    TooLarge,
}

/// How the stream ended.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Between two events.
    Clean,
    /// Inside an event, which is discarded as the standard says.
    Cut,
}

/// What the line at hand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Not known yet; its bytes are in `line`.
    Open,
    /// A comment: skipped without being stored.
    Comment,
    /// A `data` field: its value goes straight to `event.data`.
    Data,
    /// Another field; its bytes are in `line`.
    Field,
}

/// The fields of the event at hand, as bytes.
#[derive(Debug, Default)]
struct Pending {
    seen: bool,
    data_lines: usize,
    data: Vec<u8>,
    name: Vec<u8>,
    id: Option<Vec<u8>>,
    retry: Option<u64>,
}

/// Reads an event stream piece by piece.
#[derive(Debug)]
pub(super) struct SseReader {
    limit: usize,
    at_start: bool,
    after_cr: bool,
    kind: Line,
    line: Vec<u8>,
    event: Pending,
    counted: usize,
    dropped: usize,
    failed: Option<SseFault>,
}

impl SseReader {
    /// A reader for one stream; an event may have `limit` bytes, its field names included and its comments not.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            at_start: true,
            after_cr: false,
            kind: Line::Open,
            line: Vec::new(),
            event: Pending::default(),
            counted: 0,
            dropped: 0,
            failed: None,
        }
    }

    /// Takes bytes up to the end of the next event. Says how many it took, and the event where one is complete. All
    /// bytes are taken where there is none; the caller loops.
    pub(super) fn feed(&mut self, input: &[u8]) -> Result<(usize, Option<SseEvent>), SseFault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                used += 1;
                continue;
            }
            let end = memchr2(b'\r', b'\n', rest);
            self.on_bytes(&rest[..end.unwrap_or(rest.len())])?;
            let Some(end) = end else {
                return Ok((input.len(), None));
            };
            // A lone CR ends the line here and now; the LF of a CRLF is swallowed when it comes.
            self.after_cr = rest[end] == b'\r';
            used += end + 1;
            if let Some(event) = self.on_line_end() {
                return Ok((used, Some(event)));
            }
        }
        Ok((used, None))
    }

    /// How many events were dropped because they are not valid UTF-8: such an event is lost, the stream is not.
    pub(super) fn dropped(&self) -> usize {
        self.dropped
    }

    /// Whether no event is half read.
    pub(super) fn is_between(&self) -> bool {
        !self.event.seen && self.line.is_empty() && matches!(self.kind, Line::Open | Line::Comment)
    }

    /// The stream has ended.
    #[cfg(test)]
    pub(super) fn end(self) -> Tail {
        if self.is_between() { Tail::Clean } else { Tail::Cut }
    }

    /// Bytes of the line at hand, without line ends.
    fn on_bytes(&mut self, mut bytes: &[u8]) -> Result<(), SseFault> {
        while self.kind == Line::Open {
            let Some((&first, rest)) = bytes.split_first() else {
                return Ok(());
            };
            if first == b':' && self.line.is_empty() {
                self.kind = Line::Comment;
                break;
            }
            self.count(1)?;
            self.line.push(first);
            bytes = rest;
            self.decide();
        }
        match self.kind {
            Line::Open | Line::Comment => {}
            Line::Data => {
                self.count(bytes.len())?;
                self.event.data.extend_from_slice(bytes);
            }
            Line::Field => {
                self.count(bytes.len())?;
                self.line.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn count(&mut self, more: usize) -> Result<(), SseFault> {
        if more > self.limit - self.counted {
            self.failed = Some(SseFault::TooLarge);
            return Err(SseFault::TooLarge);
        }
        self.counted += more;
        Ok(())
    }

    /// Looks at the first bytes of a line, at most nine.
    fn decide(&mut self) {
        if self.at_start {
            if BOM.starts_with(&self.line) {
                if self.line.len() == BOM.len() {
                    self.line.clear();
                    self.counted = 0;
                    self.at_start = false;
                }
                return;
            }
            self.at_start = false;
        }
        match self.line.strip_prefix(DATA) {
            Some([]) => {}
            Some(&[first, ..]) => {
                self.begin_data();
                if first != b' ' {
                    self.event.data.push(first);
                }
                self.line.clear();
                self.kind = Line::Data;
            }
            None if DATA.starts_with(&self.line) => {}
            None => self.kind = Line::Field,
        }
    }

    fn begin_data(&mut self) {
        if self.event.data_lines > 0 {
            self.event.data.push(b'\n');
        }
        self.event.data_lines += 1;
        self.event.seen = true;
    }

    fn on_line_end(&mut self) -> Option<SseEvent> {
        self.at_start = false;
        match std::mem::replace(&mut self.kind, Line::Open) {
            Line::Comment | Line::Data => None,
            Line::Open if self.line.is_empty() => self.dispatch(),
            Line::Open | Line::Field => {
                let line = std::mem::take(&mut self.line);
                self.on_field(&line);
                // The buffer is kept for the next line.
                self.line = line;
                self.line.clear();
                None
            }
        }
    }

    fn on_field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.begin_data();
                self.event.data.extend_from_slice(value);
            }
            b"event" => {
                self.event.seen = true;
                self.event.name = value.to_vec();
            }
            // An id with a NUL inside is ignored (WHATWG HTML, 9.2.6).
            b"id" if !value.contains(&0) => {
                self.event.seen = true;
                self.event.id = Some(value.to_vec());
            }
            b"retry" => {
                if let Some(retry) = digits(value) {
                    self.event.seen = true;
                    self.event.retry = Some(retry);
                }
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        self.counted = 0;
        let pending = std::mem::take(&mut self.event);
        if !pending.seen {
            return None;
        }
        let event = pending.into_event();
        if event.is_none() {
            self.dropped += 1;
        }
        event
    }
}

impl Pending {
    /// `None` where a field is not valid UTF-8.
    fn into_event(self) -> Option<SseEvent> {
        Some(SseEvent {
            name: String::from_utf8(self.name).ok()?,
            data: String::from_utf8(self.data).ok()?,
            id: self.id.map(String::from_utf8).transpose().ok()?,
            retry: self.retry,
        })
    }
}

/// One or more ASCII digits and nothing else, as the standard wants it for `retry`.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events, the fault if any, the number of dropped events, and the tail.
    type Seen = (Vec<SseEvent>, Option<SseFault>, usize, Option<Tail>);

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Seen {
        let mut reader = SseReader::new(limit);
        let mut events = Vec::new();
        for mut piece in pieces {
            while !piece.is_empty() {
                match reader.feed(piece) {
                    Ok((used, event)) => {
                        assert!(used > 0);
                        piece = &piece[used..];
                        events.extend(event);
                    }
                    Err(fault) => {
                        assert_eq!(reader.feed(b"x"), Err(fault), "a reader that failed stays failed");
                        return (events, Some(fault), reader.dropped(), None);
                    }
                }
            }
        }
        let dropped = reader.dropped();
        (events, None, dropped, Some(reader.end()))
    }

    fn event(data: &str) -> SseEvent {
        SseEvent { data: data.into(), ..SseEvent::default() }
    }

    /// Name, stream, limit, events: the grammar of the bug report BR-22 and of the standard.
    fn rows() -> Vec<(&'static str, Vec<u8>, usize, Vec<SseEvent>)> {
        let id = |id: &str, data: &str| SseEvent { id: Some(id.into()), ..event(data) };
        let named = |name: &str, data: &str| SseEvent { name: name.into(), ..event(data) };
        vec![
            ("LF", b"data: {\"a\":1}\n\n".to_vec(), 99, vec![event("{\"a\":1}")]),
            ("CRLF", b"event: message\r\ndata: {}\r\n\r\n".to_vec(), 99, vec![named("message", "{}")]),
            ("lone CR", b"data: 1\r\rdata: 2\r\r".to_vec(), 99, vec![event("1"), event("2")]),
            ("mixed ends", b"data: 1\r\n\ndata: 2\n\rdata: 3\r\n\r\n".to_vec(), 99, ["1", "2", "3"].map(event).into()),
            (
                "many data lines",
                b"data: {\ndata:   \"a\"\ndata: :1\ndata: }\n\n".to_vec(),
                99,
                vec![event("{\n  \"a\"\n:1\n}")],
            ),
            ("no space", b"data:x\n\n".to_vec(), 99, vec![event("x")]),
            ("one space goes", b"data:  x \n\n".to_vec(), 99, vec![event(" x ")]),
            ("four bytes", "data: \u{1f600}é\n\n".as_bytes().to_vec(), 99, vec![event("\u{1f600}é")]),
            ("comments", b": a\ndata: 1\n:b\ndata: 2\n: c\n\n:d\n\n".to_vec(), 99, vec![event("1\n2")]),
            (
                "priming",
                b"id: 7\nretry: 300\ndata: \n\ndata: x\n\n".to_vec(),
                99,
                vec![SseEvent { retry: Some(300), ..id("7", "") }, event("x")],
            ),
            ("ping", b"event: ping\ndata: {}\n\n".to_vec(), 99, vec![named("ping", "{}")]),
            ("unknown fields", b"foo: 1\ndatax: 2\ndat\ndata: x\nfoo\n\n".to_vec(), 99, vec![event("x")]),
            ("field without colon", b"data\ndata\n\nid\ndata:y\n\n".to_vec(), 99, vec![event("\n"), id("", "y")]),
            ("BOM", b"\xef\xbb\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\n".to_vec(), 99, vec![event("x")]),
            ("half a BOM", b"\xef\xbbdata: x\ndata: y\n\n".to_vec(), 99, vec![event("y")]),
            ("BOM, comment", b"\xef\xbb\xbf: hi\n\ndata: y\n\n".to_vec(), 99, vec![event("y")]),
            ("bad id, bad retry", b"id: a\0b\nretry: 1x\ndata: y\n\n".to_vec(), 99, vec![event("y")]),
            ("huge retry", b"retry: 99999999999999999999\ndata: y\n\n".to_vec(), 99, vec![event("y")]),
            ("not UTF-8", b"data: a\xff\n\ndata: b\n\n".to_vec(), 99, vec![event("b")]),
            ("UTF-8 cut by a line end", b"data: \xc3\ndata: \xa9\n\ndata: b\n\n".to_vec(), 99, vec![event("b")]),
            ("no blank line at the end", b"data: x\n\ndata: y\n".to_vec(), 99, vec![event("x")]),
            ("no line end at the end", b"data: x\n\ndata: y".to_vec(), 99, vec![event("x")]),
            (
                "at the limit",
                b"data: 123\n\n:a long comment\ndata: 456\n\n".to_vec(),
                9,
                vec![event("123"), event("456")],
            ),
            ("over the limit", b"data: 123\n\ndata: 4567\n\n".to_vec(), 9, vec![event("123")]),
            ("over, in two lines", b"data: 1\ndata: 2\n\n".to_vec(), 13, vec![]),
            ("over, another field", b"unknown: 0123456789\n\n".to_vec(), 9, vec![]),
            ("comment over the limit", b":0123456789012345\n\n".to_vec(), 9, vec![]),
            ("empty lines only", b"\n\r\n\r\r\n".to_vec(), 9, vec![]),
            ("nothing", Vec::new(), 9, vec![]),
        ]
    }

    #[test]
    fn br22_the_grammar() {
        for (name, stream, limit, events) in rows() {
            assert_eq!(read([&stream[..]], limit).0, events, "{name}");
        }
    }

    #[test]
    fn every_split_gives_the_same_events_and_the_same_fault() {
        for (name, stream, limit, _) in rows() {
            let whole = read([&stream[..]], limit);
            assert_eq!(read(stream.chunks(1), limit), whole, "{name}, byte by byte");
            for a in 0..=stream.len() {
                for b in a..=stream.len() {
                    let pieces = [&stream[..a], &stream[a..b], &stream[b..]];
                    assert_eq!(read(pieces, limit), whole, "{name}, cut at {a} and {b}");
                }
            }
        }
    }

    /// The standard read naively, over the whole text at once; without limits, for valid UTF-8.
    fn model(stream: &str) -> Vec<SseEvent> {
        let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
        let text = stream.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<_> = text.split('\n').collect();
        lines.pop(); // What follows the last line end is no line.
        let (mut events, mut event, mut seen) = (Vec::new(), SseEvent::default(), false);
        let mut data: Option<String> = None;
        for line in lines {
            if line.is_empty() {
                event.data = data.take().unwrap_or_default();
                let done = std::mem::take(&mut event);
                events.extend(std::mem::take(&mut seen).then_some(done));
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "data" => data = Some(data.map_or(value.into(), |data| data + "\n" + value)),
                "event" => event.name = value.into(),
                "id" => event.id = Some(value.into()),
                "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                    event.retry = value.parse().ok();
                }
                _ => continue,
            }
            seen = true;
        }
        events
    }

    #[test]
    fn a_naive_model_agrees_on_random_streams() {
        const WORDS: [&str; 14] =
            ["data", "data:", "event: ", "id:", "retry:", ":", " ", "\n", "\r", "\r\n", "\n\n", "7", "é", "\u{feff}"];
        let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for round in 0..20_000 {
            let stream: String = (0..random(24)).map(|_| WORDS[random(WORDS.len())]).collect();
            let size = 1 + random(5);
            let (events, ..) = read(stream.as_bytes().chunks(size), 1_000);
            assert_eq!(events, model(&stream), "round {round}, pieces of {size}: {stream:?}");
        }
    }

    #[test]
    fn a_limit_names_itself_and_a_dropped_event_is_counted() {
        let by_name = |wanted: &str| {
            let (_, stream, limit, _) = rows().into_iter().find(|row| row.0 == wanted).unwrap();
            read([&stream[..]], limit)
        };
        for name in ["over the limit", "over, in two lines", "over, another field"] {
            assert_eq!(by_name(name).1, Some(SseFault::TooLarge), "{name}");
        }
        assert_eq!(by_name("not UTF-8").2, 1);
        assert_eq!(by_name("no blank line at the end").3, Some(Tail::Cut));
        assert_eq!(by_name("no line end at the end").3, Some(Tail::Cut));
        assert_eq!(by_name("empty lines only").3, Some(Tail::Clean));
        assert_eq!(by_name("comments").3, Some(Tail::Clean));
    }

    #[test]
    fn a_message_has_data_and_the_default_name() {
        assert_eq!(event("x").into_message().as_deref(), Some("x"));
        assert_eq!(SseEvent { name: "message".into(), ..event("x") }.into_message().as_deref(), Some("x"));
        assert_eq!(SseEvent { name: "ping".into(), ..event("x") }.into_message(), None);
        assert_eq!(event("").into_message(), None);
    }

    #[test]
    fn a_line_of_many_megabytes_and_many_lines_both_arrive() {
        let long = "x".repeat(10 << 20);
        let stream = format!("data: {long}\n\n");
        let (events, ..) = read(stream.as_bytes().chunks(65_537), 64 << 20);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data, long);
        let lines = "data: y\n".repeat(128_000) + "\n";
        let (events, ..) = read(lines.as_bytes().chunks(1_000), 64 << 20);
        assert_eq!(events[0].data.len(), 128_000 * 2 - 1);
    }
}
