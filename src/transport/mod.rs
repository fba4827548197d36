//! Bytes in, frames out. This room sends one message and hands over the messages of its answer; it knows nothing of
//! tools, tasks or eras. Deciding is pure (`http/sse.rs`, `http/headers.rs`, `http/no_proxy.rs`, `http/redirect.rs`,
//! `http/retry_after.rs`), doing is a short loop around it.
//!
//! ```text
//! session --Outgoing--> Transport::exchange --bytes--> server
//!         <---frames---  FrameSink          <--bytes--
//! ```
//!
//! HTTP carries one exchange at a time on each connection, so it is a [`Transport`] by itself. A child process, a
//! socket and a stream of the host's are one two-way channel each: here they are a [`Dial`] that makes a [`Link`], one
//! life of the channel, which hands what comes to a [`Receiver`]. Which message answers which request is known to
//! `session/channel.rs`, which makes a [`Transport`] of them.

use std::sync::Arc;
use std::time::Duration;

use crate::cancel::{CancelToken, Wake, Why};
use crate::clock::{Budget, Deadline};
use crate::error::ChildEnd;
use crate::spawn::Spawn;

mod connection;
pub(crate) mod framing;
pub(crate) mod http;
pub(crate) mod legacy_sse;
mod lines;
#[cfg(any(windows, test))]
pub(crate) mod named_pipe;
mod reading;
pub(crate) mod record;
pub(crate) mod restart;
#[cfg(unix)]
pub(crate) mod socket;
pub(crate) mod stdio;
pub(crate) mod stream;

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
    /// The life of a two-way channel that it belongs to, where it leans on a session: it goes to no other. 0: to any.
    pub life: u64,
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

    /// The stream is open: what the server sends from now on arrives.
    fn opened(&mut self) {}

    /// Whether a stream that breaks off after an event with an id may be taken up again (legacy revisions).
    fn resumes(&self) -> bool {
        false
    }

    /// Whether the server may be told that nobody waits for this answer any more.
    fn may_be_cancelled(&self) -> bool {
        true
    }

    /// Whether the exchange lasts: a subscription. What belongs to "the one open request" is not meant for it.
    fn lasts(&self) -> bool {
        false
    }

    /// Whether the last message was about this exchange. What is about another does not end the silence (BR-26).
    fn concerns(&self) -> bool {
        true
    }

    /// The server said how long to wait before the stream is opened again (`retry` of an event stream).
    fn retry(&mut self, _after: Duration) {}

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
    /// The server's process ended.
    Exited {
        /// How much had left.
        sent: Sent,
        /// How it ended.
        end: ChildEnd,
    },
    /// The peer ended, and it is not started again for now.
    NotAgain {
        /// How it ended the last time.
        last: Gone,
    },
    /// The server's program cannot be started; nothing was sent.
    Start(String),
    /// The transport is closed.
    Closed,
}

/// Why a link is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The child process ended.
    Exited(ChildEnd),
    /// The connection broke or was ended by the peer; the words say how.
    Lost(String),
    /// We closed it.
    Closed,
}

impl Gone {
    /// What a person is told of it.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Exited(end) => end.to_string(),
            Self::Lost(detail) => crate::error::one_line(detail),
            Self::Closed => "it was closed".to_owned(),
        }
    }

    /// The same as the fault of one request.
    pub(crate) fn fault(self, sent: Sent) -> Fault {
        match self {
            Self::Exited(end) => Fault::Exited { sent, end },
            Self::Lost(detail) => Fault::Io { sent, detail },
            Self::Closed => Fault::Closed,
        }
    }
}

/// One life of a two-way channel: a child process, a connection, a stream of the host's.
pub(crate) trait Link: Send + Sync {
    /// Sends one message as one line; lines of several threads do not mix. Blocks the calling thread, within `scope`.
    fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault>;

    /// Sends one message where that takes no waiting at all. False: it was not sent, and only [`Link::send`] tells why.
    fn try_send(&self, _message: &str) -> bool {
        false
    }

    /// The reading, for a caller that waits for its answer; `None` where another has it, or the link's own thread alone
    /// may. Then, and when it is given back while somebody else waits, [`Link::want_reader`] has that thread read.
    fn turn(&self) -> Option<Box<dyn Turn + '_>> {
        None
    }

    /// What ends the wait in [`Turn::read`] from another thread.
    fn bell(&self) -> Option<Arc<dyn Wake>> {
        None
    }

    /// The link's own thread reads again, at once.
    fn want_reader(&self) {}

    /// Begins the end without blocking: nothing more is sent.
    fn cut(&self);

    /// The peer takes nothing any more: the link ends itself, on its own thread.
    fn give_up(&self) {}

    /// Ends the link and waits until what it holds of the system is given back. Each step of the end (a child is asked
    /// by the end of its input, then by a signal, then killed) has this long; `None` has no limit.
    fn close(&self, grace: Option<Duration>);
}

/// The reading of a link in a caller's hands, until it is dropped.
pub(crate) trait Turn {
    /// Waits for so long at most, or until the bell is rung, for what comes; hands it to the receiver on this thread.
    /// False: there is nothing more to be had this way, and the link's own thread tells why.
    fn read(&mut self, limit: Option<Duration>) -> bool;
}

/// Where the messages of a link go. Called on the link's own thread, or a caller's that reads for it, in the order in
/// which they came; must not block.
pub(crate) trait Receiver: Send + Sync {
    /// A line of text; whether it is a message is for the receiver to find out.
    fn message(&self, text: String);
    /// A line that cannot be a message; one clause that says why.
    fn odd_line(&self, why: &str);
    /// A line over the limit was dropped; these are its first bytes.
    fn too_long(&self, head: &[u8]);
    /// A line of a child's standard error.
    fn stderr(&self, line: &str);
    /// The link is over; comes once. A message that comes after it is of no account.
    fn ended(&self, why: Gone);
}

/// A peer that links can be made to.
pub(crate) trait Dial: Send + Sync {
    /// Makes a link: starts the child, connects the socket. What comes goes to `receiver`, maybe before this returns.
    fn dial(&self, receiver: Arc<dyn Receiver>, scope: &Scope<'_>) -> Result<Arc<dyn Link>, Fault>;

    /// The value that tells which server this is.
    fn origin(&self) -> &str;

    /// The transport is closed: nothing is dialled any more, and what the host gave is let go of.
    fn close(&self) {}
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
    /// Why a redirection was not followed, as a clause that names where it leads.
    pub moved: Option<String>,
}

/// Takes the message that answers a request, or what it ended with. Called once at most, on the link's own thread or
/// whichever finds the end: it must not block.
pub(crate) type Later = Box<dyn FnOnce(Result<String, Fault>) + Send>;

/// A request that was sent and whose answer nobody waits for. Dropped, it is given up without a word.
pub(crate) trait Unawaited: Send + Sync {
    /// Its time is up: the server is told, and where the answer would go, the fault does. Nothing where that came
    /// already. May block for a moment.
    fn expire(&self, budget: Budget);
}

/// A way to reach a server.
pub(crate) trait Transport: Send + Sync {
    /// Sends a request and hands the messages of its answer to `sink` until the sink is done. Blocks the calling
    /// thread and nobody else. The request leaves in one write.
    fn exchange(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault>;

    /// Sends a request without waiting for anything; the message that answers it goes to `later`, what else comes of it
    /// (progress, logs) to nobody. `None`: it cannot be sent so, now or ever, and [`Transport::exchange`] has to do it;
    /// `later` may have been called all the same, where the end of the channel came in between.
    fn begin(&self, _outgoing: Outgoing<'_>, _later: Later) -> Option<Arc<dyn Unawaited>> {
        None
    }

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

    /// Cuts what is under way and refuses what comes. Does not block.
    fn close(&self);

    /// True where the end takes time: [`Transport::finish`] waits for it.
    fn lingers(&self) -> bool {
        false
    }

    /// After `close`: waits until what the transport holds of the system is given back. Each step of the end has
    /// `grace`; `None` has no limit.
    fn finish(&self, _grace: Option<Duration>) {}
}
