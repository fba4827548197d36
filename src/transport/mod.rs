//! Bytes in, frames out. This room sends one message and hands over the messages of its answer; it knows nothing of
//! tools, tasks or eras. Deciding is pure (`http/sse.rs`, `http/headers.rs`, `http/retry_after.rs`), doing is a short
//! loop around it.
//!
//! ```text
//! session --Outgoing--> Transport::exchange --bytes--> server
//!         <---frames---  FrameSink          <--bytes--
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::cancel::{CancelToken, Why};
use crate::clock::{Budget, Deadline};
use crate::spawn::Spawn;

pub(crate) mod http;
pub(crate) mod legacy_sse;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Each request has an HTTP answer of its own.
    Http,
    /// One channel both ways: a child's pipes, a socket, the host's own.
    Stream,
}

/// One JSON-RPC message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// The message as JSON text.
    pub body: &'a str,
    /// Headers of this message (`Mcp-Method`, `Mcp-Name`, …), their values already safe.
    pub headers: &'a [(&'a str, &'a str)],
    /// The id of a request, by which its answer is known on a two-way channel; HTTP needs none.
    pub id: Option<i64>,
    /// The progress token of a request as JSON text; likewise.
    pub token: Option<&'a str>,
}

/// The limits of one exchange.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// Cuts this exchange, from any thread, and no neighbour.
    pub cancel: &'a CancelToken,
    /// The end of the whole exchange.
    pub total: Deadline,
    /// Silence allowed while waiting for the answer; every byte of the answer resets it.
    pub idle: Option<Duration>,
    /// Time allowed for making a connection.
    pub connect: Option<Duration>,
}

/// Whether the exchange goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More messages are expected.
    More,
    /// The answer is complete: the stream may be left.
    Done,
}

/// Where the messages of an answer go, one JSON text at a time, in their order.
pub(crate) trait FrameSink {
    /// Takes a message. The text is valid UTF-8; whether it is JSON is for the sink to find out.
    fn frame(&mut self, text: String) -> Flow;

    /// The answer's head named a session (`Mcp-Session-Id`, legacy revisions); comes before the first frame.
    fn session(&mut self, _id: &str) {}

    /// Whether a stream that breaks off after an event with an id may be taken up again (legacy revisions).
    fn resumes(&self) -> bool {
        false
    }

    /// An event of another name than `message` (HTTP+SSE has `endpoint`).
    fn aside(&mut self, _event: &str, _data: &str) -> Flow {
        Flow::More
    }
}

/// How much of a request had left when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing: it may be sent again.
    No,
    /// Some or all of it: the server may have acted.
    Begun,
}

/// Why an exchange ended without its answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Cut by the token.
    Cancelled {
        /// Who cut it.
        why: Why,
        /// How much had left.
        #[allow(dead_code, reason = "a cancelled call is told as such either way; the tests look")]
        sent: Sent,
    },
    /// A time limit ran out.
    Timeout {
        /// Which one.
        budget: Budget,
        /// How much had left.
        sent: Sent,
    },
    /// No connection could be made; nothing was sent.
    Connect(String),
    /// The TLS handshake failed; nothing was sent.
    Tls(String),
    /// The connection broke, or the stream ended before the sink had its answer.
    Io {
        /// How much had left.
        sent: Sent,
        /// The system's words.
        detail: String,
    },
    /// An HTTP status outside 2xx.
    Status(HttpRefusal),
    /// A 2xx answer that is neither JSON nor an event stream.
    NotAnAnswer {
        /// What is wrong with it, as a clause: "the answer has content type text/html".
        detail: String,
    },
    /// Over a size limit.
    TooLarge {
        /// What is too large: "an SSE event".
        what: &'static str,
        /// The limit.
        limit: usize,
        /// Its option's name.
        option: &'static str,
    },
    /// The transport is closed.
    Closed,
}

/// An HTTP answer that refuses.
#[derive(Debug)]
pub(crate) struct HttpRefusal {
    /// The status.
    pub status: u16,
    /// `Retry-After`, as a duration from now (RFC 9110, 10.2.3).
    pub retry_after: Option<Duration>,
    /// The `WWW-Authenticate` values.
    #[allow(dead_code, reason = "for signing in; the tests look")]
    pub challenges: Vec<String>,
    /// The body's beginning (at most 64 KiB), where it is text.
    pub body: String,
}

/// A way to reach a server.
pub(crate) trait Transport: Send + Sync {
    /// Sends a request and hands the messages of its answer to `sink` until the sink is done. Blocks the calling
    /// thread and nobody else. The request leaves in one write.
    fn exchange(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault>;

    /// Sends a notification; any 2xx answer is an acceptance, whatever its body.
    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(), Fault>;

    /// What carries the messages.
    fn link(&self) -> LinkKind {
        LinkKind::Stream
    }

    /// Hands what the server says outside any exchange to `sink`, until the sink is done, the token is cancelled or
    /// the server has nothing to say here. Blocks the calling thread. Over HTTP this is the GET stream of the legacy
    /// revisions, opened again whenever it breaks off.
    fn listen(&self, _headers: &[(&str, &str)], _scope: &Scope<'_>, _sink: &mut dyn FrameSink) -> Result<(), Fault> {
        Ok(())
    }

    /// Tells the server that a session is over (HTTP DELETE, legacy revisions); nothing where the channel's end says
    /// so by itself.
    fn end_session(&self, _headers: &[(&str, &str)], _scope: &Scope<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// Which life of the channel this is: a session ends with the life that it began in.
    fn life(&self) -> u64 {
        0
    }

    /// Begins a new life of a channel that is over, before a new session; nothing where there is one.
    fn revive(&self, _scope: &Scope<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// The same server over HTTP+SSE (revision 2024-11-05), where this transport is HTTP: opens its event stream, whose
    /// reader runs on a thread of its own until [`Transport::close`].
    fn old_stream(self: Arc<Self>, _threads: &Arc<dyn Spawn>, _scope: &Scope<'_>) -> Result<Arc<dyn Transport>, Fault> {
        Err(Fault::NotAnAnswer { detail: "there is no HTTP+SSE on this channel".into() })
    }

    /// The value that tells which server this is, for fairness (`scheme://host:port`).
    fn origin(&self) -> &str;

    /// Cuts what is under way and refuses what comes.
    fn close(&self);
}
