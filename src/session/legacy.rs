//! The era of sessions (revisions 2024-11-05 to 2025-11-25): `initialize` first, then requests that lean on it.
//!
//! ```text
//! ask ──> send ──> transport        lost? ──> renew (standing.rs: one for all) ──> once more
//!           └── LegacyReply <── frames ──> notes, desk (the server's own requests)
//! inbox <── listen: what belongs to no request
//! ```

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cancel::{CancelToken, Why};
use crate::clock::{Budget, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::answer::{Answer, InputRound, read_legacy};
use crate::protocol::input::{InputAnswer, read_url_elicitations};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{Match, Message, read, take_params, write_legacy_request, write_notification};
use crate::protocol::meta::write_legacy;
use crate::protocol::method;
use crate::protocol::task::Task;
use crate::protocol::version::has_url_errors;
use crate::session::desk::Desk;
use crate::session::handshake::facts;
use crate::session::inbox::{Ajar, Inbox};
use crate::session::jobs::Jobs;
use crate::session::known::{Known, NO_LIFE};
use crate::session::landing::{Hear, Land};
use crate::session::legacy_reply::LegacyReply;
use crate::session::legacy_tasks::Forms;
use crate::session::request::{Note, Notes, Request};
use crate::session::rounds::Retry;
use crate::session::settings::{Means, SessionSettings};
use crate::session::speaker::Speaker;
use crate::session::standing::{Standing, Standings, Turn};
use crate::session::verdict::{Verdict, judge};
use crate::transport::{Fault, HttpRefusal, LinkKind, Outgoing, Scope, Sent, Transport, Unawaited};

/// `URLElicitationRequired` of 2025-11-25.
const URL_ELICITATION: i64 = -32042;
/// Chosen: a session is lost now and then, and hardly twice before its stream opens.
const MOST_FUTILE: u32 = 2;
/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;

/// A server of the legacy era.
pub(super) struct Legacy {
    me: Weak<Self>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) settings: SessionSettings,
    pub(super) means: Means,
    pub(super) desk: Arc<Desk>,
    pub(super) standings: Arc<Standings>,
    pub(super) known: Arc<Known>,
    pub(super) jobs: Arc<Jobs>,
    /// Cancelled when the session ends: for what runs by itself.
    pub(super) life: Arc<CancelToken>,
    /// The least level of log messages wanted: of the settings, or set by the host since.
    pub(super) level: Mutex<Option<String>>,
    next_id: AtomicI64,
    /// Sessions in a row that the listener began, and whose event stream never opened.
    futile: AtomicU32,
    /// What the server said that it can, the last time.
    said: Mutex<Json>,
}

/// How a request failed.
pub(super) struct Failed {
    pub(super) verdict: Verdict,
    /// The session that it leaned on is gone.
    lost: bool,
}

impl Legacy {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        settings: &SessionSettings,
        means: &Means,
        known: Arc<Known>,
    ) -> Arc<Self> {
        let life: Arc<CancelToken> = Arc::default();
        let desk = |me: &Weak<Self>| Desk::new(me.clone(), transport.clone(), settings, means.clone(), life.clone());
        Arc::new_cyclic(|me| Self {
            desk: desk(me),
            jobs: Jobs::new(settings.limits.input_requests),
            me: me.clone(),
            transport: transport.clone(),
            settings: settings.clone(),
            means: means.clone(),
            standings: Arc::default(),
            known,
            life: life.clone(),
            level: Mutex::new(settings.log_level.clone()),
            next_id: AtomicI64::new(1),
            futile: AtomicU32::new(0),
            said: Mutex::new(Json::trusted("{}")),
        })
    }

    pub(super) fn me(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Whether the session is not ended by the client.
    pub(super) fn is_open(&self) -> bool {
        self.life.cancelled().is_none()
    }

    pub(super) fn capabilities(&self) -> Json {
        self.said.lock().clone()
    }

    pub(super) fn learn(&self, capabilities: &Json) {
        *self.said.lock() = capabilities.clone();
    }

    pub(super) fn next_id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request within a session.
    pub(super) fn request(
        &self,
        standing: &Arc<Standing>,
        request: &Request,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Json> {
        self.send(standing, (request, ""), scope, notes).map_err(|failed| failed.verdict.error)
    }

    fn send(
        &self,
        standing: &Arc<Standing>,
        (request, more): (&Request, &str),
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Json, Failed> {
        let stop = |error| Failed { verdict: Verdict { error, once_more: false }, lost: false };
        let id = self.next_id();
        let written = write_legacy(request.params.meta.as_deref(), request.progress.then_some(id));
        let (meta, token) = written.map_err(stop)?;
        let params = write_params(&format!("{}{more}", request.params.body), meta.as_deref());
        let message = write_legacy_request(id, &request.method, &params);
        let headers = standing.headers();
        let hold = scope.cancel.hold();
        let _open = token.as_deref().map(|token| self.desk.tokens().open(token, request.call, hold));
        let mut reply = LegacyReply::new(id, token.clone(), &self.desk, standing.clone(), notes);
        let exchanged = self.transport.exchange(
            Outgoing { life: standing.life, body: &message, headers: &headers, id: Some(id), token: token.as_deref() },
            scope,
            &mut reply,
        );
        self.outcome(standing, (id, &request.method), reply.into_outcome(), exchanged)
    }

    /// What an exchange came to.
    pub(super) fn outcome(
        &self,
        standing: &Arc<Standing>,
        (id, of_method): (i64, &str),
        (outcome, passed_over): (Option<Result<Json>>, Option<Error>),
        exchanged: Result<(), Fault>,
    ) -> Result<Json, Failed> {
        let stop = |error| Failed { verdict: Verdict { error, once_more: false }, lost: false };
        match (outcome, exchanged) {
            // The answer counts even where the connection broke just after it.
            (Some(outcome), _) => outcome.map_err(stop),
            // The body's one message was none; what is wrong with it says more.
            (None, Err(Fault::NotAnAnswer { .. })) if passed_over.is_some() => {
                Err(stop(passed_over.unwrap_or_else(|| Error::new(Kind::Malformed, "no answer"))))
            }
            (None, Err(fault)) => {
                self.tell_cancelled(standing, id, &fault);
                let lost = standing.id.is_some() && self.is_lost(id, &fault);
                Err(Failed { verdict: judge(of_method, fault, &self.settings.limits), lost })
            }
            (None, Ok(())) => {
                Err(stop(Error::new(Kind::Malformed, "the server's answer is not the answer to the request")))
            }
        }
    }

    /// A cut or timed-out request goes on at the server unless it is told (2025-11-25 `basic/utilities/cancellation`;
    /// `basic/lifecycle`, "Timeouts"). A closing client ends its session instead.
    fn tell_cancelled(&self, standing: &Arc<Standing>, id: i64, fault: &Fault) {
        // A channel says so by itself.
        if self.transport.link() == LinkKind::Stream {
            return;
        }
        let reason = match fault {
            Fault::Cancelled { why: Why::Host, sent: Sent::Begun } => "the user cancelled the request",
            Fault::Timeout { sent: Sent::Begun, .. } => "the request ran out of time",
            Fault::Cancelled { .. }
            | Fault::Timeout { .. }
            | Fault::Connect(_)
            | Fault::Tls(_)
            | Fault::Io { .. }
            | Fault::Status(_)
            | Fault::NotAnAnswer { .. }
            | Fault::TooLarge { .. }
            | Fault::Exited { .. }
            | Fault::NotAgain { .. }
            | Fault::Start(_)
            | Fault::Closed => return,
        };
        let params = format!("{{\"requestId\":{id},\"reason\":\"{reason}\"}}");
        self.desk.post(standing, write_notification(method::CANCELLED, &params), "a cancel");
    }

    /// Whether a refusal says that the session is gone: 404, or 400 without our id (real servers
    /// answer a bogus session with 400 and an error without an id).
    fn is_lost(&self, id: i64, fault: &Fault) -> bool {
        let Fault::Status(HttpRefusal { status: status @ (400 | 404), body, .. }) = fault else {
            return false;
        };
        match read(body.clone(), &self.settings.limits) {
            Ok(Message::Fault { id: wire, fault }) if matches!(wire.matches(id), Match::Exact | Match::Dressed) => {
                *status == 404 && fault.code != METHOD_NOT_FOUND
            }
            Ok(_) | Err(_) => true,
        }
    }

    /// A session in place of the one that was lost.
    fn renew(&self, lost: &Standing, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        match self.standings.turn(lost.number, scope.total, scope.cancel) {
            Turn::Fresh => Ok(()),
            Turn::Failed(error) => Err(error),
            Turn::Cut => Err(match scope.cancel.cancelled() {
                Some(Why::Host) => Error::new(Kind::Cancelled, "the call was cancelled"),
                Some(Why::Closing) => Error::new(Kind::Closed, "the client is closed"),
                None => Error::new(Kind::Timeout, "no new session in time (option timeouts.total_ms)"),
            }),
            Turn::Lead(lead) => {
                notes.note(Note::Oddity("the server lost the session; a new one is started".into()));
                // What it listed in that session it need not have in another.
                self.known.tools.forget();
                let done = self.greet(scope, notes).and_then(|greeting| {
                    let version = self.known(&greeting)?;
                    let standing = greeting.standing(lead.number(), version);
                    self.establish(&standing, &greeting, scope, notes)?;
                    self.learn(&greeting.said.capabilities);
                    Ok((standing, facts(greeting.said, version)))
                });
                match done {
                    Ok((standing, facts)) => {
                        lead.stands(standing.clone());
                        self.jobs.renewed(standing.number);
                        self.listen_to(&standing);
                        self.means.outside.renewed(facts);
                        self.desk.subscribers().lost(standing.number - 1);
                        Ok(())
                    }
                    Err(error) => {
                        lead.failed(&error);
                        Err(error)
                    }
                }
            }
        }
    }

    /// Starts to listen to what belongs to no request, on a thread of its own. Returns once the server has the stream,
    /// or soon after: a question that it asks before would be lost.
    pub(super) fn listen_to(&self, standing: &Arc<Standing>) {
        let Some(me) = self.me.upgrade() else {
            return;
        };
        let (standing, ajar) = (standing.clone(), Arc::new(Ajar::default()));
        let inbox = Inbox::new(self.desk.clone(), standing.clone(), ajar.clone());
        let opening = ajar.clone();
        let listening = Box::new(move || me.run_listening(&standing, inbox, &opening));
        match self.means.threads.spawn("mcp-listen", listening) {
            Ok(()) => ajar.wait(),
            Err(refused) => {
                self.means.outside.note(Note::Oddity(format!("cannot listen to the server: {refused}")));
            }
        }
    }

    fn run_listening(&self, standing: &Arc<Standing>, mut inbox: Inbox, ajar: &Ajar) {
        let scope =
            Scope { cancel: &self.life, total: Deadline::Never, idle: None, connect: self.settings.patience.connect };
        let fault = match self.transport.listen(&standing.headers(), &scope, &mut inbox) {
            // What carried the session is over, and so is the session.
            Ok(()) => return self.desk.subscribers().lost(standing.number),
            Err(fault) => fault,
        };
        // Nobody waits for a stream that is not there.
        drop(inbox);
        if ajar.was_open() {
            self.futile.store(0, Ordering::Relaxed);
        }
        match &fault {
            // 405: the server has no such stream, as it may.
            Fault::Status(refusal) if refusal.status == 405 => {}
            Fault::Status(refusal) if refusal.status == 404 && standing.id.is_some() => self.renew_by_itself(standing),
            Fault::Cancelled { .. } | Fault::Closed => {}
            Fault::Status(_)
            | Fault::Timeout { .. }
            | Fault::Connect(_)
            | Fault::Tls(_)
            | Fault::Io { .. }
            | Fault::NotAnAnswer { .. }
            | Fault::TooLarge { .. }
            | Fault::Exited { .. }
            | Fault::NotAgain { .. }
            | Fault::Start(_) => {
                let error = judge("the event stream", fault, &self.settings.limits).error;
                self.means.outside.note(Note::Oddity(format!("the server's event stream is given up: {error}")));
            }
        }
    }

    /// The listener found the session gone: a new one, so that what the server says is heard again. But not for ever:
    /// a server that forgets each session at once (several of them behind one address) would be asked without a pause.
    fn renew_by_itself(&self, standing: &Standing) {
        if self.futile.fetch_add(1, Ordering::Relaxed) >= MOST_FUTILE {
            let message = "the server forgets each session before its event stream opens; the stream is given up";
            return self.means.outside.note(Note::Oddity(message.into()));
        }
        let patience = &self.settings.patience;
        let scope = patience.scope(&self.life, &*self.means.clock, patience.total, Budget::Total);
        let outside = self.means.outside.clone();
        if let Err(error) = self.renew(standing, &scope, &mut |note: Note| outside.note(note)) {
            self.means.outside.note(Note::Oddity(format!("the session is lost, and a new one failed: {error}")));
        }
    }

    /// A level that the host set goes to the next session, too.
    fn remember_level(&self, request: &Request) {
        if request.method != method::SET_LEVEL {
            return;
        }
        let params = Json::parse(&write_params(&request.params.body, None));
        if let Some(level) = params.ok().and_then(|params| params.members().ok()?.string("level")) {
            *self.level.lock() = Some(level);
        }
    }

    /// The visits to URLs that an error asks for.
    fn url_round(&self, standing: &Standing, error: &Error) -> Option<InputRound> {
        let fault = error.rpc().filter(|fault| fault.code == URL_ELICITATION)?;
        if !standing.version.is_some_and(has_url_errors) || !self.settings.capabilities.elicitation {
            return None;
        }
        let requests = read_url_elicitations(fault.data.as_deref()?)?;
        Some(InputRound { requests, unknown: Vec::new(), state: None })
    }

    /// The session that stands, begun anew where the channel is another one by now.
    pub(super) fn ready(&self, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Arc<Standing>> {
        let standing = self.standing()?;
        if standing.life == self.transport.life() {
            return Ok(standing);
        }
        self.renew(&standing, scope, notes)?;
        self.standing()
    }

    pub(super) fn standing(&self) -> Result<Arc<Standing>> {
        self.standings.current().ok_or_else(|| Error::new(Kind::State, "the session is not open"))
    }
}

impl Legacy {
    /// Asks, and where that failed, asks again; `repeated`: it was asked once and got lost.
    pub(super) fn ask_on(
        &self,
        (request, retry): (&Request, &Retry),
        mut repeated: bool,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Answer> {
        if !retry.is_accepted() {
            let message = format!("{} needs a visit to a URL first, which was declined", request.method);
            return Err(Error::new(Kind::InputRefused, message));
        }
        let (mut renewed, mut forms) = (false, Forms::new(self, request));
        loop {
            let standing = self.standing()?;
            if standing.life != self.transport.life() && !renewed {
                self.renew(&standing, scope, notes)?;
                renewed = true;
                continue;
            }
            let form = forms.next(&standing, scope, notes);
            let _expected = form.is_task().then(|| self.jobs.expect());
            let failed = match self.send(&standing, (request, &form.member), scope, notes) {
                Ok(result) if form.is_task() => return self.read_task(result),
                Ok(result) => {
                    let answer = read_legacy(&request.method, result)?;
                    if let (method::TOOLS_LIST, Answer::Complete(list)) = (request.method.as_str(), &answer) {
                        self.known.tools.learn_legacy(list, !request.params.has("cursor"), notes);
                    }
                    self.remember_level(request);
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            if let Some(round) = self.url_round(&standing, &failed.verdict.error) {
                return Ok(Answer::InputRequired(round));
            }
            if failed.lost && !renewed {
                // A refusal is an answer: nothing has run, so even a tool call goes out once more.
                self.renew(&standing, scope, notes)?;
                renewed = true;
            } else if failed.verdict.once_more && !repeated {
                repeated = true;
            } else if !forms.reconsider((&form, &failed.verdict.error), &standing, scope, notes) {
                return Err(failed.verdict.error);
            }
        }
    }
}

impl Speaker for Legacy {
    fn ask(&self, request: &Request, retry: &Retry, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Answer> {
        self.ask_on((request, retry), false, scope, notes)
    }

    fn listen(&self, request: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        self.hear(request, scope, notes)
    }

    fn task_get(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Task> {
        self.get_task(id, scope, notes)
    }

    fn may_begin(&self) -> bool {
        self.transport.link() == LinkKind::Stream
    }

    fn task_begin(self: Arc<Self>, id: &str, hear: Hear, land: Land) -> Option<Arc<dyn Unawaited>> {
        self.begin_task(id, hear, land)
    }

    fn task_update(&self, id: &str, answers: &[InputAnswer], scope: &Scope<'_>, _: &mut dyn Notes) -> Result<()> {
        self.update_task(id, answers, scope)
    }

    fn task_cancel(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        self.cancel_task(id, scope, notes)
    }

    fn task_followed(&self, id: &str) {
        self.catch_up(id);
    }

    fn task_over(&self, id: &str) {
        self.jobs.over(id);
    }

    fn notify(&self, of_method: &str, params: &str, scope: &Scope<'_>) -> Result<()> {
        if of_method == method::ROOTS_CHANGED && !self.settings.capabilities.roots {
            let message =
                format!("{of_method}: the server was not told of roots (a handler of them, or settings.input.roots)");
            return Err(Error::new(Kind::Unsupported, message));
        }
        let params = take_params(params, None)?;
        let message = write_notification(of_method, &write_params(&params.body, params.meta.as_deref()));
        let mut renewed = false;
        loop {
            let standing = self.standing()?;
            if standing.life != self.transport.life() && !renewed {
                let outside = self.means.outside.clone();
                self.renew(&standing, scope, &mut |note: Note| outside.note(note))?;
                renewed = true;
                continue;
            }
            let headers = standing.headers();
            let outgoing = Outgoing { life: standing.life, body: &message, headers: &headers, id: None, token: None };
            let Err(fault) = self.transport.notify(outgoing, scope) else {
                return Ok(());
            };
            // No id is ours: -1 is never given out.
            if renewed || standing.id.is_none() || !self.is_lost(-1, &fault) {
                return Err(judge(of_method, fault, &self.settings.limits).error);
            }
            let outside = self.means.outside.clone();
            self.renew(&standing, scope, &mut |note: Note| outside.note(note))?;
            renewed = true;
        }
    }

    fn page_limit(&self) -> usize {
        self.settings.limits.pages
    }

    fn life(&self) -> u64 {
        let standing = self.standings.current().filter(|standing| standing.life == self.transport.life());
        standing.map_or(NO_LIFE, |standing| standing.number)
    }

    fn has_farewell(&self) -> bool {
        self.standings.current().is_some_and(|standing| standing.id.is_some())
    }

    fn end(&self, deadline: Deadline) {
        self.life.cancel(Why::Closing);
        self.jobs.close();
        let Some(standing) = self.standings.current().filter(|standing| standing.id.is_some()) else {
            return self.transport.close();
        };
        let never = CancelToken::new();
        let scope = Scope { cancel: &never, total: deadline, idle: None, connect: self.settings.patience.connect };
        // 405 is an answer as well, and a server that cannot be told will find out by itself.
        drop(self.transport.end_session(&standing.headers(), &scope));
        self.transport.close();
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        self.life.cancel(Why::Closing);
        self.jobs.close();
    }
}

/// `params` from members that each have a comma behind, and a `_meta`.
pub(super) fn write_params(body: &str, meta: Option<&str>) -> String {
    match meta {
        Some(meta) => format!("{{{body}\"_meta\":{meta}}}"),
        None => format!("{{{}}}", body.trim_end_matches(',')),
    }
}
