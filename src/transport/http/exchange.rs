//! The carrier: one message out, its answer in.

use std::sync::Arc;

use ureq_proto::http::header;
use ureq_proto::http::response::Parts;

use super::answer::{self, Cursor, Form, Reading};
use super::control::{Spans, Trouble};
use super::dial::Dialer;
use super::lanes::{Closed, Lanes, Lease, Route};
use super::proxy;
use super::redirect::{self, Step};
use super::resume::Cut;
use super::settings::{Endpoint, HttpSettings, Verb};
use super::tls::Tls;
use super::tunnel;
use super::wire::{Body, Flaw};
use crate::cancel::{Cancelled, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::error::Result;
use crate::protocol::limits::Limits;
use crate::spawn::Spawn;
use crate::transport::legacy_sse::LegacySse;
use crate::transport::{Fault, FrameSink, HttpRefusal, LinkKind, Outgoing, Scope, Sent, Transport};

/// One request and where it goes.
#[derive(Clone, Copy)]
pub(super) struct Letter<'a> {
    /// The endpoint.
    pub to: &'a Endpoint,
    /// What it does.
    pub verb: Verb,
    /// The message and its headers.
    pub outgoing: Outgoing<'a>,
}

/// The head of an answer, and the lane that brings the rest.
struct Answered<'a> {
    lease: Lease<'a>,
    head: Parts,
    body: Body,
    /// Why a redirection was not followed.
    moved: Option<String>,
}

/// A server reached over Streamable HTTP (2026-07-28, basic/transports/streamable-http).
pub(crate) struct HttpTransport {
    endpoint: Endpoint,
    limits: Limits,
    clock: Arc<dyn Clock>,
    lanes: Lanes,
    /// What a 407 means, where a proxy reads the requests.
    forwarded: Option<String>,
}

impl HttpTransport {
    /// Checks the settings, reads the files that they name and the environment's proxies; touches nothing on the
    /// network.
    ///
    /// # Errors
    /// [`crate::error::Kind::Argument`] where the URL, a header, the proxy or a file cannot be used; says which and
    /// why. [`crate::error::Kind::Unsupported`] for a proxy that is none of HTTP.
    pub(crate) fn new(settings: HttpSettings, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Result<Self> {
        let (mut endpoint, server) = Endpoint::new(&settings)?;
        let env = |name: &str| std::env::var(name).ok();
        let proxy = proxy::choose(&settings.proxy, settings.no_proxy.as_deref(), &server, &env)?;
        let mut forwarded = None;
        if let Some(proxy) = proxy.as_ref().filter(|_| !server.is_tls()) {
            endpoint.tell_proxy(proxy, &server)?;
            forwarded = Some(format!("{} {}", proxy.place.told(), tunnel::asks_for_user(proxy)));
        }
        let dialled = proxy.as_ref().map_or(&server, |proxy| &proxy.place).clone();
        let dialer = Dialer::new(dialled, clock.clone(), spawn);
        let route = Route { server, dialer, proxy, tls: Tls::new(&settings.tls)? };
        let lanes = Lanes::new(route, &settings.limits, clock.clone());
        Ok(Self { endpoint, limits: settings.limits, clock, lanes, forwarded })
    }

    /// Sends one message, after a redirection to the same origin once more; the head of the answer is there. A
    /// redirection that is not followed is told beside the answer.
    fn send(&self, letter: &Letter<'_>, scope: &Scope<'_>) -> Result<Answered<'_>, Fault> {
        let mut there: Option<Endpoint> = None;
        let mut done = 0;
        loop {
            let letter = Letter { to: there.as_ref().unwrap_or(letter.to), ..*letter };
            let (lease, head, body) = self.send_once(&letter, scope)?;
            let status = head.status.as_u16();
            if let Some(told) = self.forwarded.as_ref().filter(|_| status == 407) {
                return Err(Fault::Connect(told.clone()));
            }
            if !redirect::is_redirect(status) {
                return Ok(Answered { lease, head, body, moved: None });
            }
            let location = head.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
            match redirect::judge(letter.to, letter.verb, status, location, done) {
                Step::Stay(moved) => return Ok(Answered { lease, head, body, moved: Some(moved) }),
                Step::Go(to) => {
                    lease.finish(body);
                    there = Some(to);
                    done += 1;
                }
            }
        }
    }

    fn send_once(&self, letter: &Letter<'_>, scope: &Scope<'_>) -> Result<(Lease<'_>, Parts, Body), Fault> {
        let now = self.clock.now();
        if let Err(expired) = scope.cancel.hold().moved(scope.total, now).left(now) {
            return Err(Fault::Timeout { budget: expired.0, sent: Sent::No });
        }
        let head = letter.to.head(letter.verb, &letter.outgoing).map_err(|name| {
            // The names and values come from us, already safe; this is the last net below them.
            Fault::Io { sent: Sent::No, detail: format!("the header `{name}` cannot be sent") }
        })?;
        let connect = Deadline::after(now, scope.connect, Budget::Connect).tighter(scope.total);
        let hold = scope.cancel.hold().clone();
        let spans = Spans { total: scope.total, idle: scope.idle, connect, hold };
        let mut lease = self.lanes.lend(spans).map_err(|Closed| Fault::Closed)?;
        if let Err(Cancelled(why)) = scope.cancel.on_cancel(lease.hook()) {
            return Err(Fault::Cancelled { why, sent: Sent::No });
        }
        match lease.ask(&head, letter.outgoing.body.as_bytes()) {
            Ok((head, body)) => Ok((lease, head, body)),
            Err(flaw) => Err(self.verdict(&lease, scope, Some(flaw))),
        }
    }

    /// Why the exchange cannot go on. Asked after each end of input and each error: first the token, then the
    /// deadline, then what the lane knows, and the reader's flaw last.
    fn verdict(&self, lease: &Lease<'_>, scope: &Scope<'_>, flaw: Option<Flaw>) -> Fault {
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
        let now = self.clock.now();
        if let Err(expired) = scope.cancel.hold().moved(scope.total, now).left(now) {
            return Fault::Timeout { budget: expired.0, sent };
        }
        if let Some(Trouble::Io(detail)) = control.trouble() {
            return Fault::Io { sent, detail: format!("the connection broke: {detail}") };
        }
        let ended = || "the server ended the connection before its answer was complete".to_owned();
        let detail = match flaw {
            Some(Flaw::LargeHead) => {
                let limit = self.limits.header_bytes;
                return Fault::TooLarge { what: "the head of the answer", limit, option: "header_bytes" };
            }
            Some(flaw @ (Flaw::Invalid(_) | Flaw::LargeFraming)) => format!("the answer is not valid HTTP: {flaw}"),
            Some(Flaw::Ended) => ended(),
            Some(Flaw::Io(_)) | None if control.ended() => ended(),
            Some(flaw @ (Flaw::Io(_) | Flaw::Unconnected)) => format!("the answer cannot be read: {flaw}"),
            None => "the stream ended without the answer".into(),
        };
        Fault::Io { sent, detail }
    }
}

impl HttpTransport {
    /// Sends a letter and hands over the messages of its answer.
    pub(super) fn converse(
        &self,
        letter: &Letter<'_>,
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
        cursor: &mut Cursor,
    ) -> Result<(), Fault> {
        let Answered { lease, head, mut body, moved } = self.send(letter, scope)?;
        let why = |error: Option<std::io::Error>| self.verdict(&lease, scope, error.map(Flaw::from));
        let reading = Reading { head: &head, limits: &self.limits, control: lease.control(), why: &why };
        if !head.status.is_success() {
            let refusal = HttpRefusal { moved, ..reading.refusal(&mut body, self.clock.wall())? };
            lease.finish(body);
            return Err(Fault::Status(refusal));
        }
        if let Some(Ok(id)) = head.headers.get("mcp-session-id").map(|id| id.to_str()) {
            sink.session(id);
        }
        let done = match (answer::form(&head), letter.verb) {
            (Form::Json, Verb::Post) => reading.json(&mut body, sink),
            (Form::Events, _) => {
                sink.opened();
                reading.events(&mut body, sink, cursor)
            }
            (Form::Json, Verb::Get | Verb::Delete) => {
                Err(Fault::NotAnAnswer { detail: "the answer to a GET is no event stream".into() })
            }
            (Form::Other(detail), _) => Err(Fault::NotAnAnswer { detail }),
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

    /// Sends a letter whose answer is its status alone: any 2xx is an acceptance, whatever its body (BR-15).
    pub(super) fn deliver(&self, letter: &Letter<'_>, scope: &Scope<'_>) -> Result<(), Fault> {
        let Answered { lease, head, mut body, moved } = self.send(letter, scope)?;
        if head.status.is_success() {
            lease.finish(body);
            return Ok(());
        }
        let why = |error: Option<std::io::Error>| self.verdict(&lease, scope, error.map(Flaw::from));
        let reading = Reading { head: &head, limits: &self.limits, control: lease.control(), why: &why };
        let refusal = HttpRefusal { moved, ..reading.refusal(&mut body, self.clock.wall())? };
        lease.finish(body);
        Err(Fault::Status(refusal))
    }

    /// Reads an event stream once, from its beginning (HTTP+SSE).
    pub(crate) fn read_stream(&self, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let outgoing = Outgoing { life: 0, body: "", headers: &[], id: None, token: None };
        let letter = Letter { to: &self.endpoint, verb: Verb::Get, outgoing };
        self.converse(&letter, scope, sink, &mut Cursor::default())
    }

    /// Sends a message to an endpoint that the server named (HTTP+SSE); its answer comes elsewhere.
    pub(crate) fn post_to(&self, to: &Endpoint, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(), Fault> {
        self.deliver(&Letter { to, verb: Verb::Post, outgoing }, scope)
    }

    /// The endpoint that the server names, where it has the same origin.
    pub(crate) fn endpoint_at(&self, reference: &str) -> Option<Endpoint> {
        self.endpoint.at(reference)
    }

    /// The time that its limits go by.
    pub(crate) fn time(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Transport for HttpTransport {
    fn exchange(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let letter = Letter { to: &self.endpoint, verb: Verb::Post, outgoing };
        let mut cursor = Cursor::default();
        match self.converse(&letter, scope, sink, &mut cursor) {
            Err(fault) if sink.resumes() => {
                self.resume(Cut { fault, headers: outgoing.headers }, scope, sink, &mut cursor)
            }
            done => done,
        }
    }

    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(), Fault> {
        self.deliver(&Letter { to: &self.endpoint, verb: Verb::Post, outgoing }, scope)
    }

    fn link(&self) -> LinkKind {
        LinkKind::Http
    }

    fn listen(&self, headers: &[(&str, &str)], scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        self.follow(headers, scope, sink)
    }

    fn end_session(&self, headers: &[(&str, &str)], scope: &Scope<'_>) -> Result<(), Fault> {
        let outgoing = Outgoing { life: 0, body: "", headers, id: None, token: None };
        self.deliver(&Letter { to: &self.endpoint, verb: Verb::Delete, outgoing }, scope)
    }

    fn old_stream(self: Arc<Self>, threads: &Arc<dyn Spawn>, scope: &Scope<'_>) -> Result<Arc<dyn Transport>, Fault> {
        Ok(LegacySse::open(self, threads.clone(), scope)?)
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
