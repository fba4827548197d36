//! The stateless era (revision 2026-07-28): every request carries its version, its client and its capabilities, and
//! stands alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::protocol::answer::{self, Allowed, Answer};
use crate::protocol::capability::ClientCapabilities;
use crate::protocol::input::{InputAnswer, write_responses};
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::{take_params, write_notification, write_request};
use crate::protocol::limits::Limits;
use crate::protocol::meta::RequestMeta;
use crate::protocol::method::{self, ListKind};
use crate::protocol::task::Task;
use crate::protocol::version::{MODERN, common_modern};
use crate::session::era::{HEADER_MISMATCH, UNSUPPORTED_VERSION, listed};
use crate::session::hearing::Hearing;
use crate::session::known::Known;
use crate::session::landing::{Ear, Hear, Land, Landing, MOST_READ};
use crate::session::pages::list_all;
use crate::session::reply::Reply;
use crate::session::request::{CacheUse, Notes, Request};
use crate::session::rounds::Retry;
use crate::session::settings::SessionSettings;
use crate::session::speaker::Speaker;
use crate::session::verdict::{Verdict, judge};
use crate::transport::http::headers::safe_value;
use crate::transport::{Fault, FrameSink, LinkKind, Outgoing, Scope, Transport, Unawaited};

/// A request as it goes out.
struct Sending<'a> {
    id: i64,
    request: &'a Request,
    retry: &'a Retry,
    meta: &'a str,
    /// The progress token in it.
    token: Option<&'a str>,
}

/// "Invalid or nonexistent taskId" (tasks extension, "Protocol Errors").
const INVALID_PARAMS: i64 = -32602;

/// A server of the modern era.
pub(super) struct Modern {
    transport: Arc<dyn Transport>,
    meta: RequestMeta,
    /// For a call that must not become a task.
    plain_meta: RequestMeta,
    limits: Limits,
    tasks: bool,
    next_id: AtomicI64,
    known: Arc<Known>,
}

impl Modern {
    /// A session over this transport; touches nothing.
    pub(super) fn new(transport: Arc<dyn Transport>, settings: &SessionSettings, known: Arc<Known>) -> Self {
        let meta = |capabilities: &ClientCapabilities| {
            RequestMeta::new(MODERN, &settings.client_info, &capabilities.write(), settings.log_level.as_deref())
        };
        Self {
            transport,
            meta: meta(&settings.capabilities),
            plain_meta: meta(&ClientCapabilities { tasks: false, ..settings.capabilities.clone() }),
            limits: settings.limits.clone(),
            tasks: settings.capabilities.tasks,
            next_id: AtomicI64::new(1),
            known,
        }
    }

    /// Asks the server who it is (`server/discover`).
    ///
    /// # Errors
    /// [`Kind::Version`] for a -32022 whose list has no version of this era that the library speaks; else as
    /// [`Speaker::ask`].
    pub(super) fn discover(&self, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        self.ask_about(&Request::new(method::DISCOVER, "{}")?, scope, notes)
    }
}

impl Modern {
    /// A fresh look at the tools, for the headers that mirror their parameters.
    fn learn_tools(&self, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        let list = Request::new(method::TOOLS_LIST, "{}")?;
        let ask = |page: &Request| self.ask(page, &Retry::default(), scope, notes);
        self.known.tools.seen_whole(&list_all(self.limits.pages, &list, CacheUse::Off, ask)?);
        Ok(())
    }

    fn ask_about(&self, request: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let result = self.fetch((request, &Retry::default()), false, scope, notes)?;
        self.complete(request, result, notes)
    }

    fn complete(&self, request: &Request, result: Json, notes: &mut dyn Notes) -> Result<Json> {
        self.read(request, result, notes)?.complete(&request.method)
    }

    /// Whether a lost request is one all the same: a child that ends at the probe is a legacy one (`session/era.rs`).
    fn is_answer(&self, request: &Request, verdict: &Verdict) -> bool {
        request.method == method::DISCOVER
            && self.transport.link() == LinkKind::Stream
            && verdict.error.kind() == Kind::ChildExit
    }
}

impl Speaker for Modern {
    fn ask(&self, request: &Request, retry: &Retry, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Answer> {
        let result = self.fetch((request, retry), false, scope, notes)?;
        self.read(request, result, notes)
    }

    fn listen(&self, request: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (meta, token) = self.meta.write(request.params.meta.as_deref(), None)?;
        let mut hearing = Hearing::new(id, &self.limits, notes);
        let sending = Sending { id, request, retry: &Retry::default(), meta: &meta, token: token.as_deref() };
        let exchanged = self.post(&sending, scope, &mut hearing);
        let retry = hearing.retry;
        let (outcome, passed_over) = hearing.into_outcome();
        self.settle(request, outcome, passed_over, exchanged).map_err(|Verdict { error, .. }| {
            // What a refusal says of itself is newer than what the stream said when it began.
            let after = error.retry_after().or(retry);
            error.with_retry_after(after)
        })
    }

    fn task_get(
        &self,
        id: &str,
        known: Option<&Arc<Task>>,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Arc<Task>> {
        let request = Request::of_task(method::TASKS_GET, id, "");
        let result = unknown(self.fetch((&request, &Retry::default()), false, scope, notes))?;
        // Most polls bring nothing new, byte for byte: what was read once need not be read again.
        if let Some(known) = known.filter(|known| known.raw == result) {
            return Ok(known.clone());
        }
        self.read_poll((&request, id), result, notes).map(Arc::new)
    }

    fn may_begin(&self) -> bool {
        self.transport.link() == LinkKind::Stream
    }

    fn task_begin(self: Arc<Self>, id: &str, hear: Hear, land: Land) -> Option<Arc<dyn Unawaited>> {
        let request = Request::of_task(method::TASKS_GET, id, "");
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (meta, _) = self.meta.write(None, None).ok()?;
        let message = write_request(number, &request.method, [&request.params.body, ""], &meta);
        let (me, poll) = (self.clone(), Poll { task: id.to_owned(), number, request });
        let later = Box::new(move |outcome| land(me.land(poll, outcome, hear)));
        self.transport.begin(Outgoing { life: 0, body: &message, headers: &[], id: Some(number), token: None }, later)
    }

    fn task_update(&self, id: &str, answers: &[InputAnswer], scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        let more = format!("\"inputResponses\":{},", write_responses(answers));
        self.ask_about(&Request::of_task(method::TASKS_UPDATE, id, &more), scope, notes).map(drop)
    }

    fn task_cancel(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        self.ask_about(&Request::of_task(method::TASKS_CANCEL, id, ""), scope, notes).map(drop)
    }

    fn notify(&self, of_method: &str, params: &str, scope: &Scope<'_>) -> Result<()> {
        if of_method == method::ROOTS_CHANGED {
            let message =
                format!("revision {MODERN} has no {of_method}: the server asks anew where it needs the roots");
            return Err(Error::new(Kind::Unsupported, message));
        }
        let params = take_params(params, None)?;
        let (meta, _) = self.meta.write(params.meta.as_deref(), None)?;
        let body = format!("{{{}\"_meta\":{meta}}}", params.body);
        let message = write_notification(of_method, &body);
        let headers = [("MCP-Protocol-Version", self.meta.version()), ("Mcp-Method", of_method)];
        let outgoing = Outgoing { life: 0, body: &message, headers: &headers, id: None, token: None };
        self.transport.notify(outgoing, scope).map_err(|fault| judge(of_method, fault, &self.limits).error)
    }

    fn page_limit(&self) -> usize {
        self.limits.pages
    }

    fn life(&self) -> u64 {
        self.transport.life()
    }

    /// Nothing lasts between two requests.
    fn has_farewell(&self) -> bool {
        false
    }

    fn end(&self, _: Deadline) {}
}

impl Modern {
    /// What may be mended is mended and sent once more, each time as a new request: a lost read, -32022 where the
    /// server's list has our version, -32020 after a fresh look at the tools. `repeated`: it got lost once already.
    fn fetch(
        &self,
        (request, retry): (&Request, &Retry),
        mut repeated: bool,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Json> {
        let (mut renegotiated, mut refreshed) = (false, false);
        loop {
            let verdict = match self.send(request, retry, scope, notes) {
                Ok(result) => return Ok(result),
                Err(verdict) => verdict,
            };
            match verdict.error.rpc().map(|fault| fault.code) {
                Some(UNSUPPORTED_VERSION) if !renegotiated => {
                    check_versions(&verdict.error)?;
                    renegotiated = true;
                }
                Some(UNSUPPORTED_VERSION) => return Err(verdict.error.with_kind(Kind::Version)),
                Some(HEADER_MISMATCH) if request.method == method::TOOLS_CALL && !refreshed => {
                    self.known.told(ListKind::Tools);
                    self.learn_tools(scope, notes)?;
                    refreshed = true;
                }
                _ if verdict.once_more && !repeated && !self.is_answer(request, &verdict) => repeated = true,
                _ => return Err(verdict.error),
            }
        }
    }

    fn send(
        &self,
        request: &Request,
        retry: &Retry,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Json, Verdict> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let stop = |error| Verdict { error, once_more: false };
        let meta = if request.task.never { &self.plain_meta } else { &self.meta };
        let written = meta.write(request.params.meta.as_deref(), request.progress.then_some(id));
        let (meta, token) = written.map_err(stop)?;
        let mut reply = Reply::new(id, token.clone(), &self.limits, notes);
        let sending = Sending { id, request, retry, meta: &meta, token: token.as_deref() };
        let exchanged = self.post(&sending, scope, &mut reply);
        let (outcome, passed_over) = reply.into_outcome();
        self.settle(request, outcome, passed_over, exchanged)
    }

    /// Sends a request whose answer goes to the sink.
    fn post(&self, sending: &Sending<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let Sending { id, request, retry, meta, token } = *sending;
        let message = write_request(id, &request.method, [&request.params.body, retry.members()], meta);
        let mirrored = self.mirrored(request);
        let name = request.params.name.as_deref().map(safe_value);
        let method_value = safe_value(&request.method);
        let mut headers = Vec::with_capacity(3 + mirrored.len());
        headers.push(("MCP-Protocol-Version", self.meta.version()));
        headers.push(("Mcp-Method", method_value.as_ref()));
        if let Some(name) = &name {
            headers.push(("Mcp-Name", name.as_ref()));
        }
        headers.extend(mirrored.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        self.transport.exchange(
            Outgoing { life: 0, body: &message, headers: &headers, id: Some(id), token },
            scope,
            sink,
        )
    }

    /// What an exchange came to.
    fn settle(
        &self,
        request: &Request,
        outcome: Option<Result<Json>>,
        passed_over: Option<Error>,
        exchanged: Result<(), Fault>,
    ) -> Result<Json, Verdict> {
        let stop = |error| Verdict { error, once_more: false };
        match (outcome, exchanged) {
            // The answer counts even where the connection broke just after it.
            (Some(outcome), _) => outcome.map_err(stop),
            // The body's one message was none; what is wrong with it says more.
            (None, Err(fault @ Fault::NotAnAnswer { .. })) => {
                Err(passed_over.map_or_else(|| judge(&request.method, fault, &self.limits), stop))
            }
            (None, Err(fault)) => Err(judge(&request.method, fault, &self.limits)),
            (None, Ok(())) => {
                Err(stop(Error::new(Kind::Malformed, "the server's answer is not the answer to the request")))
            }
        }
    }

    fn mirrored(&self, request: &Request) -> Vec<(String, String)> {
        let Some(tool) = request.params.name.as_deref().filter(|_| request.method == method::TOOLS_CALL) else {
            return Vec::new();
        };
        let values = self.known.tools.headers(tool, request.arguments.as_ref());
        values.into_iter().map(|(name, value)| (name, safe_value(&value).into_owned())).collect()
    }

    fn read(&self, request: &Request, result: Json, notes: &mut dyn Notes) -> Result<Answer> {
        let result = if request.method == method::TOOLS_LIST {
            self.known.tools.learn(result, !request.params.has("cursor"), notes)?
        } else {
            result
        };
        answer::read(&request.method, result, Allowed { task: self.tasks && !request.task.never })
    }
}

/// A poll that was begun.
struct Poll {
    task: String,
    number: i64,
    request: Request,
}

/// Polls that hold no thread while they are on their way.
impl Modern {
    /// Called on the channel's thread: what is short is read here, all else is left to others.
    fn land(self: Arc<Self>, poll: Poll, outcome: Result<String, Fault>, hear: Hear) -> Landing {
        if !outcome.as_ref().is_ok_and(|text| text.len() <= MOST_READ) {
            return Landing::Finish(Box::new(move |scope| {
                let notes = &mut Ear(&hear);
                let arrived = self.arrive(&poll, outcome, notes);
                self.finish(&poll, arrived, scope, notes)
            }));
        }
        match self.arrive(&poll, outcome, &mut Ear(&hear)) {
            Ok(result) => Landing::of(self.read_poll((&poll.request, &poll.task), result, &mut Ear(&hear))),
            Err(verdict) => {
                Landing::Finish(Box::new(move |scope| self.finish(&poll, Err(verdict), scope, &mut Ear(&hear))))
            }
        }
    }

    fn arrive(&self, poll: &Poll, outcome: Result<String, Fault>, notes: &mut dyn Notes) -> Result<Json, Verdict> {
        let mut reply = Reply::new(poll.number, None, &self.limits, notes);
        let exchanged = outcome.map(|text| {
            reply.frame(text);
        });
        let (outcome, passed_over) = reply.into_outcome();
        self.settle(&poll.request, outcome, passed_over, exchanged)
    }

    fn read_poll(&self, (request, id): (&Request, &str), result: Json, notes: &mut dyn Notes) -> Result<Task> {
        let task = Task::read(&self.complete(request, result, notes)?)?;
        if task.id != id {
            return Err(Error::new(Kind::Malformed, "the answer to tasks/get is about another task"));
        }
        Ok(task)
    }

    /// As a poll on a thread of its own goes on after its first round trip.
    fn finish(
        &self,
        poll: &Poll,
        arrived: Result<Json, Verdict>,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Task> {
        let renegotiates = |error: &Error| error.rpc().is_some_and(|fault| fault.code == UNSUPPORTED_VERSION);
        let fetched = match arrived {
            Err(verdict) if verdict.once_more || renegotiates(&verdict.error) => {
                self.fetch((&poll.request, &Retry::default()), verdict.once_more, scope, notes)
            }
            arrived => arrived.map_err(|verdict| verdict.error),
        };
        self.read_poll((&poll.request, &poll.task), unknown(fetched)?, notes)
    }
}

/// "Invalid params" of `tasks/get` says that the server does not know the task.
fn unknown<T>(answered: Result<T>) -> Result<T> {
    answered.map_err(|error| match error.rpc().map(|fault| fault.code) {
        Some(INVALID_PARAMS) => error.with_kind(Kind::TaskUnknown),
        _ => error,
    })
}

/// After -32022: fine where the server's list has a version of ours, even the one just sent.
fn check_versions(error: &Error) -> Result<()> {
    let versions = listed(error);
    match common_modern(versions.iter().map(String::as_str)) {
        Some(_) => Ok(()),
        None => Err(match error.rpc() {
            Some(fault) => no_version(&versions).with_rpc(fault.clone()),
            None => no_version(&versions),
        }),
    }
}

pub(super) fn no_version(offered: &[String]) -> Error {
    let list = if offered.is_empty() { "none".to_owned() } else { crate::error::one_line(&offered.join(", ")) };
    Error::new(Kind::Version, format!("expected a server of revision {MODERN} but found versions: {list}"))
}
