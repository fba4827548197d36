//! From a transport's fault to an error of ours, and whether the request may be sent once more.

use crate::cancel::Why;
use crate::clock::Budget;
use crate::error::{ChildEnd, Error, Kind, one_line};
use crate::protocol::jsonrpc::{Message, read};
use crate::protocol::limits::{Limits, too_large};
use crate::protocol::method;
use crate::session::fault::answered;
use crate::transport::{Fault, Gone, HttpRefusal, Sent};

/// What follows from a fault.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The error to report.
    pub error: Error,
    /// The request may be sent once more, as a new request.
    pub once_more: bool,
}

/// Judges a fault of a request with this method.
pub(super) fn judge(of_method: &str, fault: Fault, limits: &Limits) -> Verdict {
    let final_error = |error| Verdict { error, once_more: false };
    match fault {
        Fault::Cancelled { why: Why::Host, .. } => final_error(Error::new(Kind::Cancelled, "the call was cancelled")),
        Fault::Cancelled { why: Why::Closing, .. } | Fault::Closed => {
            final_error(Error::new(Kind::Closed, "the client is closed"))
        }
        Fault::Timeout { budget, sent } => {
            let text = match budget {
                Budget::Wait => "the wait ran out, and the call was cancelled".to_owned(),
                Budget::Total | Budget::Connect | Budget::Idle | Budget::Probe | Budget::Grace => {
                    format!("no answer in time (option timeouts.{})", budget.option())
                }
            };
            let error = Error::new(Kind::Timeout, text);
            final_error(error.with_retry_safe(sent == Sent::No || method::is_idempotent(of_method)))
        }
        Fault::Connect(detail) => {
            final_error(Error::new(Kind::Connect, format!("cannot connect: {}", one_line(&detail))))
        }
        Fault::Tls(detail) => {
            final_error(Error::new(Kind::Tls, format!("the TLS handshake failed: {}", one_line(&detail))))
        }
        Fault::Io { sent, detail } => lost(of_method, sent, &detail),
        Fault::Exited { sent, end } => exited(of_method, sent, end),
        Fault::NotAgain { last } => final_error(not_again(last)),
        Fault::Start(detail) => final_error(Error::new(Kind::Connect, one_line(&detail))),
        Fault::Status(refusal) => final_error(refused(&refusal, limits)),
        Fault::NotAnAnswer { detail } => final_error(Error::new(Kind::Malformed, one_line(&detail))),
        Fault::TooLarge { what, limit, option } => final_error(too_large(what, limit, option)),
    }
}

fn lost(of_method: &str, sent: Sent, detail: &str) -> Verdict {
    let detail = one_line(detail);
    if sent == Sent::No {
        let error = Error::new(Kind::Io, format!("the connection broke before the request left: {detail}"));
        // Nothing was sent, so even a tool call is not repeated by sending it.
        return Verdict { error, once_more: true };
    }
    if method::is_idempotent(of_method) {
        let error = Error::new(Kind::Io, format!("no answer came: {detail}"));
        return Verdict { error, once_more: method::only_reads(of_method) };
    }
    let message = format!("no answer came, so {of_method} may or may not have run: {detail}");
    Verdict { error: Error::new(Kind::OutcomeUnknown, message), once_more: false }
}

/// The server's process ended. A start is bounded elsewhere, so a request that may be repeated is.
fn exited(of_method: &str, sent: Sent, end: ChildEnd) -> Verdict {
    let harmless = sent == Sent::No || method::is_idempotent(of_method);
    let error = if harmless {
        Error::new(Kind::ChildExit, end.to_string()).with_retry_safe(true)
    } else {
        Error::new(Kind::OutcomeUnknown, format!("{of_method} may or may not have run: {end}"))
    };
    Verdict { error: error.with_child(end), once_more: sent == Sent::No || method::only_reads(of_method) }
}

fn not_again(last: Gone) -> Error {
    let message = format!("too many restarts (option restart.max): {}", last.words());
    match last {
        Gone::Exited(end) => Error::new(Kind::ChildExit, message).with_retry_safe(true).with_child(end),
        Gone::Lost(_) => Error::new(Kind::Io, message),
        Gone::Closed => Error::new(Kind::Closed, "the client is closed"),
    }
}

/// An HTTP status outside 2xx: a JSON-RPC error in its body is that error (BR-14), else the status is.
fn refused(refusal: &HttpRefusal, limits: &Limits) -> Error {
    if let Ok(Message::Fault { fault, .. }) = read(refusal.body.clone(), limits) {
        let error = answered(fault).with_http_status(refusal.status).with_retry_after(refusal.retry_after);
        return match refusal.status {
            401 => error.with_kind(Kind::AuthRequired),
            _ => error,
        };
    }
    let (kind, text) = match refusal.status {
        401 => (Kind::AuthRequired, "the server asks for authorization (HTTP 401)".to_owned()),
        403 => (Kind::AuthDenied, "the server refuses access (HTTP 403)".to_owned()),
        status => {
            let why = match (&refusal.moved, status) {
                (Some(moved), _) => format!(": {moved}"),
                (None, 404) => ": is the path of the URL right?".to_owned(),
                (None, _) => String::new(),
            };
            (Kind::Http, format!("the server answered with HTTP status {status}{why}"))
        }
    };
    Error::new(kind, text)
        .with_http_status(refusal.status)
        .with_retry_after(refusal.retry_after)
        .with_retry_safe(matches!(refusal.status, 429 | 503))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn status(code: u16, body: &str) -> Fault {
        Fault::Status(HttpRefusal {
            status: code,
            retry_after: Some(Duration::from_secs(3)),
            challenges: Vec::new(),
            body: body.into(),
            moved: None,
        })
    }

    #[test]
    fn br_17_a_lost_tool_call_is_unknown_and_never_repeated_a_lost_list_may_be() {
        let io = |sent| Fault::Io { sent, detail: "reset".into() };
        let exit = |sent| Fault::Exited { sent, end: ChildEnd::default() };
        for (method, fault, kind, once_more) in [
            ("tools/call", io(Sent::Begun), Kind::OutcomeUnknown, false),
            ("tools/call", io(Sent::No), Kind::Io, true),
            ("com.example/act", io(Sent::Begun), Kind::OutcomeUnknown, false),
            ("tools/list", io(Sent::Begun), Kind::Io, true),
            ("tasks/get", io(Sent::Begun), Kind::Io, true),
            ("tasks/cancel", io(Sent::Begun), Kind::Io, false),
            ("tools/call", status(503, "busy"), Kind::Http, false),
            ("tools/call", status(401, ""), Kind::AuthRequired, false),
            ("tools/call", status(403, ""), Kind::AuthDenied, false),
            ("tools/call", exit(Sent::Begun), Kind::OutcomeUnknown, false),
            ("tools/call", exit(Sent::No), Kind::ChildExit, true),
            ("tools/list", exit(Sent::Begun), Kind::ChildExit, true),
            ("tasks/cancel", exit(Sent::Begun), Kind::ChildExit, false),
            ("tools/list", Fault::NotAgain { last: Gone::Exited(ChildEnd::default()) }, Kind::ChildExit, false),
            ("tools/call", Fault::Start("no program".into()), Kind::Connect, false),
            ("tools/call", Fault::Closed, Kind::Closed, false),
            ("tools/call", Fault::Timeout { budget: Budget::Idle, sent: Sent::Begun }, Kind::Timeout, false),
        ] {
            let verdict = judge(method, fault, &Limits::default());
            assert_eq!((verdict.error.kind(), verdict.once_more), (kind, once_more), "{method} {:?}", verdict.error);
        }
    }

    #[test]
    fn br_14_a_json_rpc_error_in_a_refusal_is_that_error() {
        let verdict = judge(
            "x",
            status(404, r#"{"id":1,"error":{"code":-32601,"message":"no such method"}}"#),
            &Limits::default(),
        );
        assert_eq!(verdict.error.kind(), Kind::Rpc);
        assert_eq!(verdict.error.rpc().map(|f| f.code), Some(-32601));
        assert_eq!(verdict.error.http_status(), Some(404));
        let plain = judge("x", status(503, "<html>"), &Limits::default()).error;
        assert_eq!(plain.message(), "the server answered with HTTP status 503");
        assert_eq!(plain.retry_after(), Some(Duration::from_secs(3)));
        let lost = judge("x", status(404, "<html>"), &Limits::default()).error;
        assert_eq!(lost.message(), "the server answered with HTTP status 404: is the path of the URL right?");
    }
}
