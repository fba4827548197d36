//! Event streams of the legacy revisions that outlive their connection: the answer to a POST that broke off, and the
//! stream for everything else (2025-11-25 `basic/transports`, "Resumability and Redelivery", "Listening for Messages").
//!
//! The wait before a GET is exactly the server's `retry`: a server that is still working is not asked early, and one
//! that is done is not kept waiting.

use std::time::Duration;

use super::answer::Cursor;
use super::exchange::{HttpTransport, Letter};
use super::settings::Verb;
use crate::cancel::Cancelled;
use crate::clock::{Budget, Deadline};
use crate::transport::{Fault, FrameSink, Outgoing, Scope, Sent};

/// The pause where the server told none; chosen: the default of the TypeScript SDK.
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause of our own between two tries; chosen.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// Tries in a row that bring no event before a cut answer counts as lost; chosen.
const MOST_TRIES: u32 = 5;

/// An answer that broke off.
pub(super) struct Cut<'a> {
    /// How.
    pub fault: Fault,
    /// The headers of its request.
    pub headers: &'a [(&'a str, &'a str)],
}

/// What a failed try means.
enum Next {
    /// Another try may help.
    Again,
    /// It will not.
    Over,
}

impl HttpTransport {
    /// Takes up the answer that broke off with `fault`. What cannot be taken up ends with that fault: it tells how
    /// much of the request had left.
    pub(super) fn resume(
        &self,
        Cut { mut fault, headers }: Cut<'_>,
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
        cursor: &mut Cursor,
    ) -> Result<(), Fault> {
        let mut tries = 0;
        loop {
            let Fault::Io { sent: Sent::Begun, detail } = &fault else {
                return Err(fault);
            };
            if cursor.id.is_none() || tries == MOST_TRIES {
                return Err(fault);
            }
            let detail = detail.clone();
            self.pause(told(cursor), scope)?;
            let seen = cursor.events;
            let refused = match self.reopen(headers, scope, sink, cursor) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            tries = if cursor.events > seen { 0 } else { tries + 1 };
            fault = match (next(&refused), refused) {
                (Next::Again, Fault::Io { detail, .. }) => Fault::Io { sent: Sent::Begun, detail },
                (Next::Again, _) => Fault::Io { sent: Sent::Begun, detail },
                (Next::Over, Fault::Status(refusal)) => {
                    let why = format!("{detail}, and the server refused to resume it (HTTP {})", refusal.status);
                    return Err(Fault::Io { sent: Sent::Begun, detail: why });
                }
                (Next::Over, Fault::NotAnAnswer { detail: why }) => {
                    let why = format!("{detail}, and it could not be resumed: {why}");
                    return Err(Fault::Io { sent: Sent::Begun, detail: why });
                }
                (Next::Over, refused) => return Err(refused),
            };
        }
    }

    /// Keeps the stream for what belongs to no request open, until the server refuses it or the token is cancelled.
    pub(super) fn follow(
        &self,
        headers: &[(&str, &str)],
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
    ) -> Result<(), Fault> {
        let mut cursor = Cursor::default();
        let mut failures: u32 = 0;
        loop {
            let seen = cursor.events;
            let fault = match self.reopen(headers, scope, sink, &mut cursor) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            match next(&fault) {
                Next::Over => return Err(fault),
                Next::Again => {}
            }
            failures = if cursor.events > seen { 0 } else { failures.saturating_add(1) };
            let backoff = told(&cursor).saturating_mul(2u32.saturating_pow(failures.saturating_sub(1).min(16)));
            // A server that tells a longer pause gets it.
            self.pause(backoff.min(MOST_PAUSE.max(told(&cursor))), scope)?;
        }
    }

    fn reopen(
        &self,
        headers: &[(&str, &str)],
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
        cursor: &mut Cursor,
    ) -> Result<(), Fault> {
        let id = cursor.id.clone();
        let mut headers = headers.to_vec();
        headers.extend(id.as_deref().map(|id| ("Last-Event-ID", id)));
        let outgoing = Outgoing { life: 0, body: "", headers: &headers, id: None, token: None };
        self.converse(&Letter { to: self.endpoint(), verb: Verb::Get, outgoing }, scope, sink, cursor)
    }

    fn pause(&self, pause: Duration, scope: &Scope<'_>) -> Result<(), Fault> {
        let now = self.time().now();
        let total = scope.cancel.hold().moved(scope.total, now);
        let until = Deadline::after(now, Some(pause), Budget::Wait).tighter(total);
        scope.cancel.sleep_until(until).map_err(|Cancelled(why)| Fault::Cancelled { why, sent: Sent::Begun })?;
        let now = self.time().now();
        match scope.cancel.hold().moved(scope.total, now).left(now) {
            Ok(_) => Ok(()),
            Err(expired) => Err(Fault::Timeout { budget: expired.0, sent: Sent::Begun }),
        }
    }
}

fn told(cursor: &Cursor) -> Duration {
    cursor.retry.map_or(RETRY, Duration::from_millis)
}

fn next(fault: &Fault) -> Next {
    match fault {
        Fault::Io { .. } | Fault::Connect(_) => Next::Again,
        Fault::Status(refusal) if matches!(refusal.status, 408 | 425 | 429 | 500 | 502..=504) => Next::Again,
        Fault::Status(_)
        | Fault::Tls(_)
        | Fault::NotAnAnswer { .. }
        | Fault::TooLarge { .. }
        | Fault::Cancelled { .. }
        | Fault::Timeout { .. }
        | Fault::Exited { .. }
        | Fault::NotAgain { .. }
        | Fault::Start(_)
        | Fault::Closed => Next::Over,
    }
}
