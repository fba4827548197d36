//! One error type for the whole library, and the one mapping from its kinds to the status codes of the C ABI.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Who is at fault and how: each kind has one status code in [`Kind::status`].
///
/// The bands never move and no number is reused: caller -1…, transport -20…, protocol -40…, call -60…,
/// authorization -80…, task -100…, ours -120….
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An argument is missing, malformed or out of range.
    Argument,
    /// A handle is NULL, freed, or of another kind.
    Handle,
    /// A text is not valid UTF-8, or has a NUL inside.
    Utf8,
    /// The object is not in a state that allows this.
    State,
    /// A blocking function was called inside a callback.
    Reentrant,
    /// The library was loaded before `fork`; the child cannot use it.
    Forked,
    /// This build or this server does not support what was asked.
    Unsupported,
    /// No connection could be made; nothing was sent.
    Connect,
    /// The TLS handshake failed; nothing was sent.
    Tls,
    /// The connection broke, and the request is known not to have been processed or may be repeated safely.
    Io,
    /// The request itself ran out of time.
    Timeout,
    /// The client is closed or closing.
    Closed,
    /// The server's process ended.
    ChildExit,
    /// An HTTP status that is no answer to the request.
    Http,
    /// The request was sent and no answer came: the server may or may not have acted.
    OutcomeUnknown,
    /// The peer's bytes are not JSON.
    Parse,
    /// The peer's JSON is not a valid answer.
    Malformed,
    /// No protocol version is spoken by both sides.
    Version,
    /// The peer answered with a JSON-RPC error.
    Rpc,
    /// Something is over one of the documented size limits.
    TooLarge,
    /// A value does not match its JSON Schema.
    Schema,
    /// The call was cancelled by the host.
    Cancelled,
    /// The server asks for input that the host answers by hand.
    InputRequired,
    /// The server asked for input that the host refuses, so the call cannot go on.
    InputRefused,
    /// The server asks for authorization.
    AuthRequired,
    /// Authorization was refused.
    AuthDenied,
    /// The authorization server could not be found or trusted.
    AuthDiscovery,
    /// The task ended as failed.
    TaskFailed,
    /// The task ended as cancelled.
    TaskCancelled,
    /// The task outlived its time to live and is gone.
    TaskExpired,
    /// The server does not know the task.
    TaskUnknown,
    /// A panic was caught at the border: a fault of this library.
    Panic,
    /// Memory or another resource of the system ran out.
    Memory,
    /// A fault of this library.
    Internal,
    /// The ledger's file cannot be used.
    Ledger,
}

impl Kind {
    /// The status code of the C ABI. The numbers are part of the ABI and never change.
    #[must_use]
    pub const fn status(self) -> i32 {
        match self {
            Self::Argument => -1,
            Self::Handle => -2,
            Self::Utf8 => -3,
            Self::State => -4,
            Self::Reentrant => -5,
            Self::Forked => -6,
            Self::Unsupported => -7,
            Self::Connect => -20,
            Self::Tls => -21,
            Self::Io => -22,
            Self::Timeout => -23,
            Self::Closed => -24,
            Self::ChildExit => -25,
            Self::Http => -26,
            Self::OutcomeUnknown => -27,
            Self::Parse => -40,
            Self::Malformed => -41,
            Self::Version => -42,
            Self::Rpc => -43,
            Self::TooLarge => -44,
            Self::Schema => -45,
            Self::Cancelled => -60,
            Self::InputRequired => -61,
            Self::InputRefused => -62,
            Self::AuthRequired => -80,
            Self::AuthDenied => -81,
            Self::AuthDiscovery => -82,
            Self::TaskFailed => -100,
            Self::TaskCancelled => -101,
            Self::TaskExpired => -102,
            Self::TaskUnknown => -103,
            Self::Panic => -120,
            Self::Memory => -121,
            Self::Internal => -122,
            Self::Ledger => -123,
        }
    }
}

/// A JSON-RPC error object as the peer sent it (JSON-RPC 2.0, section 5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcFault {
    /// The error code.
    pub code: i64,
    /// The peer's message.
    pub message: String,
    /// The `data` member as JSON text, where there was one.
    pub data: Option<String>,
}

/// How a server's process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildEnd {
    /// Its exit code, where it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The end of what it said on its standard error.
    pub stderr: String,
}

impl fmt::Display for ChildEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "the server's process exited with code {code}")?,
            (None, Some(signal)) => write!(f, "the server's process was ended by signal {signal}")?,
            (None, None) => f.write_str("the server's process exited")?,
        }
        // The last line is mostly the reason; the whole tail is at hand beside the message.
        match self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
            Some(line) => write!(f, "; its last words: {}", one_line(line)),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: Cow<'static, str>,
    rpc: Option<RpcFault>,
    child: Option<ChildEnd>,
    http_status: Option<u16>,
    retry_after: Option<Duration>,
    retry_safe: bool,
}

/// An error: what went wrong, whose fault it is, and what the host may do about it. Cheap to clone.
///
/// Messages are one line, lower case, without full stop, and never hold a secret.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

/// The result of everything that can fail in this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind with this message.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            rpc: None,
            child: None,
            http_status: None,
            retry_after: None,
            retry_safe: matches!(kind, Kind::Connect | Kind::Tls | Kind::Io),
        }))
    }

    /// The peer's JSON-RPC error, told as an error of ours.
    #[must_use]
    pub fn from_rpc(fault: RpcFault) -> Self {
        let message = format!("the server answered with error {}: {}", fault.code, one_line(&fault.message));
        Self::new(Kind::Rpc, message).with_rpc(fault)
    }

    /// The same error under another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        Arc::make_mut(&mut self.0).kind = kind;
        self
    }

    /// The same error with the peer's JSON-RPC error attached.
    #[must_use]
    pub fn with_rpc(mut self, fault: RpcFault) -> Self {
        Arc::make_mut(&mut self.0).rpc = Some(fault);
        self
    }

    /// The same error with what the host may do about it in its message.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message = format!("{}: {advice}", inner.message).into();
        self
    }

    /// The same error with the end of the server's process that it came from.
    #[must_use]
    pub fn with_child(mut self, end: ChildEnd) -> Self {
        Arc::make_mut(&mut self.0).child = Some(end);
        self
    }

    /// The same error with the HTTP status that told of it.
    #[must_use]
    pub fn with_http_status(mut self, status: u16) -> Self {
        Arc::make_mut(&mut self.0).http_status = Some(status);
        self
    }

    /// The same error with the server's `Retry-After`.
    #[must_use]
    pub fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        Arc::make_mut(&mut self.0).retry_after = after;
        self
    }

    /// The same error, marked as safe (or not) to send once more.
    #[must_use]
    pub fn with_retry_safe(mut self, safe: bool) -> Self {
        Arc::make_mut(&mut self.0).retry_safe = safe;
        self
    }

    /// The same error without these texts: a server may echo the credentials that it was sent.
    #[must_use]
    pub fn masked(mut self, secrets: &[String]) -> Self {
        let inner = &self.0;
        let texts = [Some(inner.message.as_ref()), inner.rpc.as_ref().map(|fault| fault.message.as_str())];
        let data = inner.rpc.as_ref().and_then(|fault| fault.data.as_deref());
        let echoed = |text: &str| secrets.iter().any(|secret| text.contains(secret.as_str()));
        if !texts.into_iter().flatten().chain(data).any(echoed) {
            return self;
        }
        let inner = Arc::make_mut(&mut self.0);
        inner.message = mask(&inner.message, secrets).into();
        if let Some(fault) = &mut inner.rpc {
            fault.message = mask(&fault.message, secrets);
            fault.data = fault.data.as_deref().map(|data| mask(data, secrets));
        }
        self
    }

    /// What kind of error this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message: one line, for a person.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The peer's JSON-RPC error, where it sent one.
    #[must_use]
    pub fn rpc(&self) -> Option<&RpcFault> {
        self.0.rpc.as_ref()
    }

    /// How the server's process ended, where that is the reason.
    #[must_use]
    pub fn child(&self) -> Option<&ChildEnd> {
        self.0.child.as_ref()
    }

    /// The HTTP status, where one told of the error.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        self.0.http_status
    }

    /// How long the server asks to wait before the next try.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// True where the same request may be sent once more without the risk of acting twice.
    #[must_use]
    pub fn retry_safe(&self) -> bool {
        self.0.retry_safe
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind(), self.message())
    }
}

impl std::error::Error for Error {}

/// A text with stars in place of these.
#[must_use]
pub fn mask(text: &str, secrets: &[String]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

/// Control characters, line and paragraph separators, and those that turn the direction of what follows.
fn breaks_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A peer's text made fit for one line of a message: control characters become spaces, and 300 characters are enough.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut out: String = text.chars().take(300).map(|c| if breaks_a_line(c) { ' ' } else { c }).collect();
    if out.len() < text.len() && text.chars().nth(300).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_message_stays_on_one_line_and_is_bounded() {
        assert_eq!(one_line("a\r\nb"), "a  b");
        assert_eq!(one_line(&"x".repeat(400)).chars().count(), 301);
        assert_eq!(one_line("é"), "é");
        assert_eq!(one_line("a\u{202e}b\u{2028}c"), "a b c");
    }

    #[test]
    fn an_echoed_secret_is_masked_everywhere() {
        let fault =
            RpcFault { code: 1, message: "you sent canary-1".into(), data: Some("{\"a\":\"canary-1\"}".into()) };
        let error = Error::from_rpc(fault).masked(&["canary-1".to_owned()]);
        assert_eq!(error.message(), "the server answered with error 1: you sent ***");
        assert_eq!(
            error.rpc().map(|f| (f.message.as_str(), f.data.as_deref())),
            Some(("you sent ***", Some("{\"a\":\"***\"}")))
        );
    }

    #[test]
    fn an_rpc_error_keeps_code_message_and_data() {
        let fault = RpcFault { code: -32050, message: "no disk".into(), data: Some("{\"free\":0}".into()) };
        let error = Error::from_rpc(fault.clone());
        assert_eq!(error.kind(), Kind::Rpc);
        assert_eq!(error.rpc(), Some(&fault));
        assert_eq!(error.message(), "the server answered with error -32050: no disk");
    }
}
