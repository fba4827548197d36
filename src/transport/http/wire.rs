//! HTTP/1.1 on one connection: a request out, the head of its answer in, then its body.
//!
//! What an answer means (its head, the framing of its body, whether the connection outlives it) is read by `ureq-proto`, a
//! protocol without I/O; the bytes come from and go to a [`Line`].

use std::fmt;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use ureq_proto::BodyMode;
use ureq_proto::client::state::{RecvBody, RecvResponse};
use ureq_proto::client::{Call, RecvBodyResult, RecvResponseResult, SendRequestResult};
use ureq_proto::http::response::Parts;
use ureq_proto::http::{HeaderMap, Request, header};

use super::socket::Line;

/// The input buffer begins small and doubles while reads fill it.
const INPUT_START: usize = 8 << 10;
/// What it may grow to at least: the pieces of a large answer.
const INPUT_LEAST: usize = 128 << 10;

/// Why an answer cannot be read, where the lane's control block does not know better.
#[derive(Debug)]
pub(super) enum Flaw {
    /// There is no connection.
    Unconnected,
    /// The head is over the limit.
    LargeHead,
    /// A line of the framing is longer than the buffer.
    LargeFraming,
    /// It is no HTTP.
    Invalid(ureq_proto::Error),
    /// The connection ended first.
    Ended,
    /// The connection broke, or the body is not what its coding says.
    Io(io::Error),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconnected => f.write_str("there is no connection"),
            Self::LargeHead => f.write_str("its head is too long"),
            Self::LargeFraming => f.write_str("a line of its framing is too long"),
            Self::Invalid(cause) => cause.fmt(f),
            Self::Ended => f.write_str("it ended early"),
            Self::Io(cause) => cause.fmt(f),
        }
    }
}

impl std::error::Error for Flaw {}

impl From<ureq_proto::Error> for Flaw {
    fn from(cause: ureq_proto::Error) -> Self {
        Self::Invalid(cause)
    }
}

/// A flaw that has passed through [`Read`] comes out as it went in.
impl From<io::Error> for Flaw {
    fn from(cause: io::Error) -> Self {
        cause.downcast().unwrap_or_else(Self::Io)
    }
}

impl From<Flaw> for io::Error {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Io(cause) => cause,
            flaw @ (Flaw::Unconnected | Flaw::LargeHead | Flaw::LargeFraming | Flaw::Invalid(_) | Flaw::Ended) => {
                Self::other(flaw)
            }
        }
    }
}

/// A connection between two exchanges.
pub(super) struct Wire {
    line: Box<dyn Line>,
    input: Input,
    most_head: usize,
}

impl Wire {
    /// The head of an answer may have `most_head` bytes.
    pub(super) fn new(line: Box<dyn Line>, most_head: usize) -> Self {
        // A whole head must fit, and some of what follows it.
        let most = most_head.saturating_add(16 << 10).max(INPUT_LEAST);
        Self { line, input: Input { bytes: Vec::new(), consumed: 0, filled: 0, most }, most_head }
    }

    /// Whether the peer has neither ended the connection nor said anything unasked.
    pub(super) fn is_open(&mut self) -> bool {
        self.line.is_open()
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) fn ask(mut self, head: &[u8], body: &[u8]) -> Result<(Parts, Body), Flaw> {
        self.line.write_all(head)?;
        self.line.write_all(body)?;
        let mut call = reader()?;
        let mut starved = true;
        let response = loop {
            if starved && self.fill()? == 0 {
                return Err(Flaw::Ended);
            }
            let unread = self.input.unread();
            let (used, response) = call.try_response(unread, false)?;
            if (if used > 0 { used } else { unread.len() }) > self.most_head {
                return Err(Flaw::LargeHead);
            }
            self.input.consume(used);
            if let Some(response) = response {
                break response;
            }
            // An interim answer (1xx) is passed over; what is behind it may be here already.
            starved = used == 0 || self.input.unread().is_empty();
        };
        let (mut head, ()) = response.into_parts();
        let flow = match call.proceed() {
            Some(RecvResponseResult::RecvBody(call)) => Flow { wire: self, call: Some(Box::new(call)), fit: false },
            Some(RecvResponseResult::Redirect(call)) => {
                Flow { wire: self, call: None, fit: !call.must_close_connection() }
            }
            Some(RecvResponseResult::Cleanup(call)) => {
                Flow { wire: self, call: None, fit: !call.must_close_connection() }
            }
            None => return Err(Flaw::Ended),
        };
        let body = if flow.call.is_some() && is_gzip(&head.headers) {
            // What it says of the coded body is not true of the one that is read.
            head.headers.remove(header::CONTENT_ENCODING);
            head.headers.remove(header::CONTENT_LENGTH);
            Body::Gzip(Box::new(MultiGzDecoder::new(flow)))
        } else {
            Body::Plain(flow)
        };
        Ok((head, body))
    }

    /// Waits for more input; zero at its end.
    fn fill(&mut self) -> Result<usize, Flaw> {
        let room = self.input.room();
        if room.is_empty() {
            return Err(Flaw::LargeFraming);
        }
        let more = self.line.read(room)?;
        self.input.filled += more;
        Ok(more)
    }
}

/// Reads the answer to any of our requests. The protocol wants to have written the request itself; ours is written
/// already, and so it is told of an empty GET: nothing but HEAD and CONNECT changes how an answer is read.
fn reader() -> Result<Call<RecvResponse>, Flaw> {
    let mut call = Call::new(Request::new(()))?.proceed();
    call.write(&mut [0; 32])?;
    match call.proceed()? {
        Some(SendRequestResult::RecvResponse(call)) => Ok(call),
        Some(SendRequestResult::Await100(_) | SendRequestResult::SendBody(_)) | None => Err(Flaw::Unconnected),
    }
}

fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// The body of an answer. Whoever drops it closes its connection.
pub(super) enum Body {
    /// As it is sent.
    Plain(Flow),
    /// Compressed: unpacked while it is read.
    Gzip(Box<MultiGzDecoder<Flow>>),
}

impl Body {
    /// The body as it is sent, for whoever wants its end alone.
    pub(super) fn into_flow(self) -> Flow {
        match self {
            Self::Plain(flow) => flow,
            Self::Gzip(decoder) => decoder.into_inner(),
        }
    }
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(flow) => flow.read(buf),
            Self::Gzip(decoder) => decoder.read(buf),
        }
    }
}

/// The body of an answer as it is sent, without its framing.
pub(super) struct Flow {
    wire: Wire,
    /// Absent once the body is read whole. In a box, because it is large, and a flow is moved often.
    call: Option<Box<Call<RecvBody>>>,
    /// The body is read whole, and the connection outlives it.
    fit: bool,
}

impl Flow {
    /// The connection, where the body is read whole and another answer may follow it.
    pub(super) fn into_wire(self) -> Option<Wire> {
        (self.fit && self.wire.input.unread().is_empty()).then_some(self.wire)
    }

    fn is_whole(&self) -> bool {
        self.call.as_ref().is_none_or(|call| match call.body_mode() {
            BodyMode::NoBody => true,
            BodyMode::LengthDelimited(_) | BodyMode::Chunked => call.can_proceed(),
            BodyMode::CloseDelimited => false,
        })
    }

    fn on_whole(&mut self) {
        if let Some(call) = self.call.take() {
            self.fit = match call.proceed() {
                Some(RecvBodyResult::Cleanup(call)) => !call.must_close_connection(),
                Some(RecvBodyResult::Redirect(call)) => !call.must_close_connection(),
                None => false,
            };
        }
    }

    /// The connection has ended: so does a body without a length, and one whose last chunk came.
    fn on_end(&mut self) -> Result<(), Flaw> {
        let Some(call) = &self.call else {
            return Ok(());
        };
        if !matches!(call.body_mode(), BodyMode::CloseDelimited) && !call.is_ended_chunked() {
            return Err(Flaw::Ended);
        }
        self.call = None;
        Ok(())
    }
}

impl Read for Flow {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut framing = 0;
        while !self.is_whole() && !buf.is_empty() {
            let unread = self.wire.input.unread();
            if let Some(call) = self.call.as_mut().filter(|_| !unread.is_empty()) {
                let (used, read) = call.read(unread, buf).map_err(Flaw::Invalid)?;
                self.wire.input.consume(used);
                if read > 0 {
                    return Ok(read);
                }
                // Trailers without end bring nothing that anybody counts.
                framing += used;
                if framing > self.wire.most_head {
                    return Err(Flaw::LargeFraming.into());
                }
                if used > 0 {
                    continue;
                }
            }
            if self.wire.fill()? == 0 {
                self.on_end()?;
            }
        }
        if self.is_whole() {
            self.on_whole();
        }
        Ok(0)
    }
}

/// What was read and is not used yet.
///
/// ```text
/// [ consumed | unread ....... filled | room ]
/// ```
struct Input {
    bytes: Vec<u8>,
    consumed: usize,
    filled: usize,
    most: usize,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.consumed..self.filled]
    }

    fn consume(&mut self, amount: usize) {
        self.consumed += amount;
    }

    /// Room for more: moves what is unread to the front, and doubles where reads fill the buffer, or where what is
    /// unread does.
    fn room(&mut self) -> &mut [u8] {
        let was_full = self.filled == self.bytes.len();
        if self.consumed == self.filled {
            self.consumed = 0;
            self.filled = 0;
        } else if was_full && self.consumed > 0 {
            self.bytes.copy_within(self.consumed..self.filled, 0);
            self.filled -= self.consumed;
            self.consumed = 0;
        }
        if was_full {
            let wanted = (self.bytes.len() * 2).clamp(INPUT_START, self.most);
            self.bytes.resize(wanted.max(self.bytes.len()), 0);
        }
        &mut self.bytes[self.filled..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::tests::says::Says;

    fn wire(first: impl Into<Vec<u8>>, again: &'static [u8]) -> Wire {
        Wire::new(Box::new(Says::again(first, again)), 1024)
    }

    #[test]
    fn trailers_without_end_are_bounded() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
        let (_, mut body) = wire(head, b"x: y\r\n").ask(b"", b"").unwrap();
        let fault = Flaw::from(body.read_to_end(&mut Vec::new()).unwrap_err());
        assert!(matches!(fault, Flaw::LargeFraming), "{fault:?}");
    }

    #[test]
    fn what_follows_an_interim_answer_is_no_part_of_its_head() {
        let text = "x".repeat(4000);
        let answer = format!("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{text}");
        let (_, mut body) = wire(answer, b"").ask(b"", b"").unwrap();
        let mut read = String::new();
        body.read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
    }

    #[test]
    fn the_input_buffer_grows_to_its_limit_and_keeps_what_is_unread() {
        let mut input = Input { bytes: Vec::new(), consumed: 0, filled: 0, most: 20_000 };
        for expected in [8_192, 8_192, 3_616] {
            let room = input.room().len();
            assert_eq!(room, expected);
            input.room().fill(7);
            input.filled += room;
        }
        assert!(input.room().is_empty());
        input.consume(19_999);
        assert_eq!(input.unread(), [7]);
        assert_eq!(input.room().len(), 19_999);
        assert_eq!(input.unread(), [7]);
    }
}
