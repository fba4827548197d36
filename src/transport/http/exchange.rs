//! The carrier: one message out, its answer in.

use std::sync::Arc;

use ureq::Body;
use ureq::http::Response;

use super::agents::{Closed, Lanes, Lease};
use super::answer::{self, Form, Reading};
use super::control::{Spans, Trouble};
use super::dial::Dialer;
use super::settings::{Endpoint, HttpSettings};
use crate::cancel::{Cancelled, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::error::Result;
use crate::protocol::limits::Limits;
use crate::spawn::Spawn;
use crate::transport::{Fault, FrameSink, Outgoing, Scope, Sent, Transport};

/// A server reached over Streamable HTTP (2026-07-28, basic/transports/streamable-http).
pub(crate) struct HttpTransport {
    endpoint: Endpoint,
    limits: Limits,
    clock: Arc<dyn Clock>,
    lanes: Lanes,
}

impl HttpTransport {
    /// Checks the settings; touches nothing on the network.
    ///
    /// # Errors
    /// [`crate::error::Kind::Argument`] where the URL or a header cannot be used; says which and why.
    pub(crate) fn new(settings: HttpSettings, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Result<Self> {
        let (endpoint, target) = Endpoint::new(&settings)?;
        let dialer = Dialer::new(target, clock.clone(), spawn);
        let lanes = Lanes::new(dialer, &settings.limits, clock.clone());
        Ok(Self { endpoint, limits: settings.limits, clock, lanes })
    }

    /// Sends one message; the head of the answer is there.
    fn send(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(Lease<'_>, Response<Body>), Fault> {
        let now = self.clock.now();
        if let Err(expired) = scope.total.left(now) {
            return Err(Fault::Timeout { budget: expired.0, sent: Sent::No });
        }
        let (request, widest) = self.endpoint.request(&outgoing).map_err(|name| {
            // The names and values come from us, already safe; this is the last net below them.
            Fault::Io { sent: Sent::No, detail: format!("the header `{name}` cannot be sent") }
        })?;
        let connect = Deadline::after(now, scope.connect, Budget::Connect).tighter(scope.total);
        let spans = Spans { total: scope.total, idle: scope.idle, connect, widest };
        let lease = self.lanes.lend(spans).map_err(|Closed| Fault::Closed)?;
        if let Err(Cancelled(why)) = scope.cancel.on_cancel(lease.hook()) {
            return Err(Fault::Cancelled { why, sent: Sent::No });
        }
        match lease.agent().run(request) {
            Ok(response) => Ok((lease, response)),
            Err(error) => Err(self.verdict(&lease, scope, Some(error))),
        }
    }

    /// Why the exchange cannot go on. Asked after each end of input and each error: first the token, then the
    /// deadline, then what the lane knows, and ureq's error last.
    fn verdict(&self, lease: &Lease<'_>, scope: &Scope<'_>, error: Option<ureq::Error>) -> Fault {
        let control = lease.control();
        let sent = control.sent();
        if let Some(why) = scope.cancel.cancelled() {
            return Fault::Cancelled { why, sent };
        }
        if control.is_cut() {
            return Fault::Cancelled { why: Why::Closing, sent };
        }
        match control.trouble() {
            Some(Trouble::Expired(budget)) => return Fault::Timeout { budget, sent },
            Some(Trouble::Connect(detail)) => return Fault::Connect(detail),
            Some(Trouble::Tls(detail)) => return Fault::Tls(detail),
            Some(Trouble::Io(_)) | None => {}
        }
        if let Err(expired) = scope.total.left(self.clock.now()) {
            return Fault::Timeout { budget: expired.0, sent };
        }
        if let Some(Trouble::Io(detail)) = control.trouble() {
            return Fault::Io { sent, detail: format!("the connection broke: {detail}") };
        }
        let detail = match error {
            Some(ureq::Error::LargeResponseHeader(..)) => {
                let limit = self.limits.header_bytes;
                return Fault::TooLarge { what: "the head of the answer", limit, option: "header_bytes" };
            }
            Some(ureq::Error::Protocol(cause)) => format!("the answer is not valid HTTP: {cause}"),
            Some(error) if !control.ended() => format!("the answer cannot be read: {error}"),
            Some(_) => "the server ended the connection before its answer was complete".into(),
            None if control.ended() => "the server ended the connection before its answer was complete".into(),
            None => "the stream ended without the answer".into(),
        };
        Fault::Io { sent, detail }
    }
}

impl Transport for HttpTransport {
    fn exchange(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let (lease, response) = self.send(outgoing, scope)?;
        let (head, body) = response.into_parts();
        let mut body = body.into_reader();
        let why = |error: Option<std::io::Error>| self.verdict(&lease, scope, error.map(ureq::Error::from));
        let reading = Reading { head: &head, limits: &self.limits, control: lease.control(), why: &why };
        if !head.status.is_success() {
            let refusal = reading.refusal(&mut body, self.clock.wall())?;
            lease.finish(body);
            return Err(Fault::Status(refusal));
        }
        let done = match answer::form(&head) {
            Form::Json => reading.json(&mut body, sink),
            Form::Events => reading.events(&mut body, sink),
            Form::Other(detail) => Err(Fault::NotAnAnswer { detail }),
        };
        match done {
            // The answer was read; what is left of its body says whether the lane can serve again.
            Ok(()) | Err(Fault::NotAnAnswer { .. }) => lease.finish(body),
            Err(
                Fault::Cancelled { .. }
                | Fault::Timeout { .. }
                | Fault::Connect(_)
                | Fault::Tls(_)
                | Fault::Io { .. }
                | Fault::Status(_)
                | Fault::TooLarge { .. }
                | Fault::Exited { .. }
                | Fault::NotAgain { .. }
                | Fault::Start(_)
                | Fault::Closed,
            ) => drop(lease),
        }
        done
    }

    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(), Fault> {
        let (lease, response) = self.send(outgoing, scope)?;
        let (head, body) = response.into_parts();
        let mut body = body.into_reader();
        if head.status.is_success() {
            lease.finish(body);
            return Ok(());
        }
        let why = |error: Option<std::io::Error>| self.verdict(&lease, scope, error.map(ureq::Error::from));
        let reading = Reading { head: &head, limits: &self.limits, control: lease.control(), why: &why };
        let refusal = reading.refusal(&mut body, self.clock.wall())?;
        lease.finish(body);
        Err(Fault::Status(refusal))
    }

    fn origin(&self) -> &str {
        self.endpoint.origin()
    }

    fn close(&self) {
        self.lanes.close();
    }
}

#[cfg(test)]
impl HttpTransport {
    /// How many lanes wait for use.
    pub(super) fn idle_lanes(&self) -> usize {
        self.lanes.idle()
    }
}
