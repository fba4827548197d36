//! Tasks of 2025-11-25 over a legacy session: which calls are sent as tasks, and the verbs of a task, told in the words
//! of the extension. What the server says apart from that is kept by `jobs.rs`.
//!
//! ```text
//! tasks/get ── terminal ──> tasks/result ──> the task with its result or error
//!          └── input_required ──> tasks/result on a thread of its own, open until the end
//!                                    └── the server's requests ──> the task's questions
//! ```

use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::clock::{Budget, Deadline};
use crate::error::{Error, Kind, Result, one_line};
use crate::protocol::answer::Answer;
use crate::protocol::input::InputAnswer;
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::write_result;
use crate::protocol::legacy_task::{LegacyTask, with_related_task, write_wish};
use crate::protocol::method;
use crate::protocol::page::TaskSupport;
use crate::protocol::task::{Task, TaskStatus};
use crate::session::desk::Question;
use crate::session::jobs::{Asked, Told, wants_stream};
use crate::session::legacy::Legacy;
use crate::session::pages::list_all;
use crate::session::request::{CacheUse, Note, Notes, Request};
use crate::session::rounds::Retry;
use crate::session::speaker::Speaker;
use crate::session::standing::Standing;
use crate::session::verdict::judge;
use crate::transport::{Fault, Scope};

/// "Invalid or nonexistent `taskId`" (2025-11-25 `basic/utilities/tasks`, "Protocol Errors").
const INVALID_PARAMS: i64 = -32602;
/// What a server answers to a call that should, or should not, have been sent as a task.
const WRONG_FORM: [i64; 3] = [-32601, -32600, INVALID_PARAMS];
/// A completed task whose result is refused so often has none (chosen: a lagging store is over by then).
const MOST_REFUSALS: u32 = 3;

/// How one call is sent: as a task, or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// The `task` member of the params, with a comma behind; empty for a plain call.
    pub(super) member: String,
    /// The host wrote that member itself.
    own: bool,
}

impl Form {
    /// Whether the answer may be a task.
    pub(super) fn is_task(&self) -> bool {
        self.own || !self.member.is_empty()
    }
}

/// The forms of one call: the list of tools is asked for once at most.
pub(super) struct Forms<'a> {
    legacy: &'a Legacy,
    request: &'a Request,
    listed: bool,
}

impl<'a> Forms<'a> {
    pub(super) fn new(legacy: &'a Legacy, request: &'a Request) -> Self {
        Self { legacy, request, listed: false }
    }

    /// The form of this call: a task where the server and the tool allow it, and the host does not mind.
    pub(super) fn next(&mut self, standing: &Standing, scope: &Scope<'_>, notes: &mut dyn Notes) -> Form {
        let Self { legacy, request, .. } = *self;
        if request.method != method::TOOLS_CALL {
            return Form::default();
        }
        if request.params.has("task") {
            return Form { member: String::new(), own: true };
        }
        let Some(tool) = request.params.name.as_deref().filter(|_| legacy.may_be_task(standing, request)) else {
            return Form::default();
        };
        if legacy.known.tools.of(tool).is_none() && !legacy.known.tools.is_whole() {
            self.list(scope, notes);
        }
        match legacy.known.tools.task_support(tool) {
            Some(TaskSupport::Required | TaskSupport::Optional) => {
                let keep = request.task.keep.map(|keep| keep.as_millis());
                Form { member: write_wish(keep), own: false }
            }
            Some(TaskSupport::Forbidden) | None => Form::default(),
        }
    }

    /// A call was refused: whether a fresh look at the tools tells that it has another form. A refusal is an answer, so
    /// it may be sent once more then.
    pub(super) fn reconsider(
        &mut self,
        (form, error): (&Form, &Error),
        standing: &Standing,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> bool {
        let refused = error.rpc().is_some_and(|fault| WRONG_FORM.contains(&fault.code));
        if !refused || self.listed || form.own || !self.legacy.may_be_task(standing, self.request) {
            return false;
        }
        self.list(scope, notes);
        self.next(standing, scope, notes) != *form
    }

    fn list(&mut self, scope: &Scope<'_>, notes: &mut dyn Notes) {
        if std::mem::replace(&mut self.listed, true) {
            return;
        }
        let legacy = self.legacy;
        let listed = Request::new(method::TOOLS_LIST, "{}").and_then(|request| {
            let ask = |page: &Request| legacy.ask(page, &Retry::default(), scope, notes);
            list_all(legacy.page_limit(), &request, CacheUse::Off, ask)
        });
        match listed {
            Ok(whole) => legacy.known.tools.seen_whole(&whole),
            Err(error) => notes.note(Note::Oddity(format!("whether the tool may be a task is not known: {error}"))),
        }
    }
}

/// What a poll found.
pub(super) enum Polled {
    /// An end, whose result or error is still to be fetched.
    Ended(Box<LegacyTask>),
    /// Questions, which come on a stream of their own.
    Asks(Result<Box<Task>>),
    /// Nothing that takes another round trip.
    Works(Result<Box<Task>>),
}

impl Legacy {
    fn may_be_task(&self, standing: &Standing, request: &Request) -> bool {
        request.method == method::TOOLS_CALL
            && standing.offer.call
            && self.settings.capabilities.tasks
            && !request.task.never
    }

    /// Reads the answer to a call that was sent as a task.
    pub(super) fn read_task(&self, result: Json) -> Result<Answer> {
        match LegacyTask::created(&result)? {
            Some(seed) => Ok(Answer::Task(self.jobs.created(seed)?)),
            // "Receivers that do not declare the task capability MUST process requests of that type normally".
            None => Ok(Answer::Complete(result)),
        }
    }

    fn ask_about(&self, of_method: &str, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        self.ask(&Request::of_task(of_method, id, ""), &Retry::default(), scope, notes)?.complete(of_method)
    }

    pub(super) fn get_task(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Task> {
        let polled = self.look(id, self.ask_about(method::TASKS_GET, id, scope, notes))?;
        self.go_on(id, polled, scope, notes)
    }

    /// What an answer to `tasks/get` tells.
    pub(super) fn look(&self, id: &str, answered: Result<Json>) -> Result<Polled> {
        let result = answered.map_err(|error| self.unknown(id, error))?;
        let status = LegacyTask::read(&result)?;
        if status.id() != id {
            return Err(Error::new(Kind::Malformed, "the answer to tasks/get is about another task"));
        }
        let (status, task) = self.jobs.polled(status);
        Ok(if status.status().is_terminal() {
            Polled::Ended(Box::new(status))
        } else if wants_stream(status.status()) {
            Polled::Asks(task)
        } else {
            Polled::Works(task)
        })
    }

    /// The task, with what else it takes.
    pub(super) fn go_on(&self, id: &str, polled: Polled, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Task> {
        match polled {
            Polled::Ended(status) => self.conclude(&status, scope, notes),
            Polled::Asks(task) => {
                self.open_stream(id);
                task.map(|task| *task)
            }
            Polled::Works(task) => task.map(|task| *task),
        }
    }

    fn unknown(&self, id: &str, error: Error) -> Error {
        match error.rpc().map(|fault| fault.code) {
            Some(INVALID_PARAMS) => {
                self.jobs.over(id);
                error.with_kind(Kind::TaskUnknown)
            }
            _ => error,
        }
    }

    /// The task with what its request ended with.
    fn conclude(&self, status: &LegacyTask, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Task> {
        let id = status.id();
        if status.status() == TaskStatus::Cancelled {
            return status.asking(&[]);
        }
        if let Some(result) = self.jobs.result(id) {
            return status.completed(&result);
        }
        match self.ask_about(method::TASKS_RESULT, id, scope, notes) {
            Ok(result) => status.completed(&result),
            Err(error) => self.judge_result(status, error),
        }
    }

    /// "If the underlying request resulted in a JSON-RPC error, `tasks/result` MUST return that same JSON-RPC error".
    /// Of a task that completed an error tells of the store at first.
    fn judge_result(&self, status: &LegacyTask, error: Error) -> Result<Task> {
        let busy = error.retry_after().is_some() || matches!(error.http_status(), Some(429 | 503));
        let Some(fault) = error.rpc().filter(|_| !busy) else {
            return Err(error);
        };
        if status.status() == TaskStatus::Failed {
            return status.failed(fault);
        }
        if fault.code == INVALID_PARAMS {
            return Err(self.unknown(status.id(), error));
        }
        if self.jobs.refused(status.id()) < MOST_REFUSALS {
            return Err(error);
        }
        status.failed(fault)
    }

    pub(super) fn cancel_task(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        if !self.standing()?.offer.cancel {
            return Err(Error::new(Kind::Unsupported, "the server does not offer to cancel tasks"));
        }
        let result = self.ask_about(method::TASKS_CANCEL, id, scope, notes)?;
        // "MUST transition the task to cancelled status before sending the response": no poll has to find that out.
        if let Ok(status) = LegacyTask::read(&result)
            && status.id() == id
        {
            self.task_told(status);
        }
        Ok(())
    }

    /// Answers questions, each as the answer to the server's own request.
    pub(super) fn update_task(&self, id: &str, answers: &[InputAnswer], scope: &Scope<'_>) -> Result<()> {
        for answer in answers {
            let Some(question) = self.jobs.take(id, &answer.key) else {
                let line = "an answer is not sent: its session, or the question, is gone";
                self.means.outside.note(Note::Oddity(line.into()));
                continue;
            };
            let message = write_result(question.id(), with_related_task(&answer.response, id).text());
            match question.send(&message, scope) {
                Ok(()) => {}
                Err(Fault::Status(refusal)) if matches!(refusal.status, 400 | 404) => {
                    // The session is gone, and the question with it; a new one will come.
                    let line = "an answer came to a session that the server no longer knows";
                    self.means.outside.note(Note::Oddity(line.into()));
                }
                Err(fault) => {
                    self.jobs.put_back(id, question);
                    return Err(judge(method::TASKS_UPDATE, fault, &self.settings.limits).error);
                }
            }
        }
        Ok(())
    }

    /// The server asks for a task.
    pub(super) fn task_asked(&self, task: String, question: Question, notes: &mut dyn Notes) {
        match self.jobs.asked(task, question) {
            Asked::Taken(task) => self.push(task),
            Asked::Kept => {}
            Asked::Stranger(question) => notes.note(Note::Asked(question)),
            Asked::TooMany(question) => {
                notes.note(Note::Oddity("a task asks more at once than limits.input_requests allows".into()));
                question.refuse("too many questions at once");
            }
        }
    }

    /// The server takes a question back. False where no task asked it.
    pub(super) fn task_withdrawn(&self, session: u64, id: &str) -> bool {
        self.jobs.withdrawn(session, id).map(|task| self.push(task)).is_some()
    }

    /// The server tells of a task by itself. False where nobody follows it.
    pub(super) fn task_told(&self, status: LegacyTask) -> bool {
        let (id, word) = (status.id().to_owned(), status.status());
        let told = self.jobs.told(status);
        let follows = !matches!(told, Told::Stranger);
        if matches!(told, Told::Open(_)) && wants_stream(word) {
            self.open_stream(&id);
        }
        self.pass_on(told);
        follows
    }

    /// The task is followed from now on; before, nobody heard what the server told of it.
    pub(super) fn catch_up(&self, id: &str) {
        let (told, asks) = self.jobs.followed(id);
        if asks {
            self.open_stream(id);
        }
        self.pass_on(told);
    }

    fn pass_on(&self, told: Told) {
        match told {
            Told::Open(task) => self.push(task),
            Told::Over(status) => self.fetch(status),
            Told::Nothing | Told::Stranger => {}
        }
    }

    fn push(&self, task: Result<Box<Task>>) {
        self.means.outside.note(match task {
            Ok(task) => Note::Task(task),
            Err(error) => Note::Oddity(format!("what the server says of a task cannot be read: {error}")),
        });
    }

    /// Fetches what an ended task ended with, on a worker. Where that fails, the next poll comes to it.
    fn fetch(&self, status: Box<LegacyTask>) {
        let Some(me) = self.me() else {
            return;
        };
        let work = move || {
            let patience = &me.settings.patience;
            let scope = patience.scope(&me.life, &*me.means.clock, patience.total, Budget::Total);
            let outside = me.means.outside.clone();
            match me.conclude(&status, &scope, &mut |note: Note| outside.note(note)) {
                Ok(task) => me.push(Ok(Box::new(task))),
                Err(error) => outside.note(Note::Oddity(format!("the result of a task is not there yet: {error}"))),
            }
        };
        if let Err(refused) = self.means.errands.spawn("mcp-result", Box::new(work)) {
            self.means.outside.note(Note::Oddity(format!("the result of a task is not fetched yet: {refused}")));
        }
    }

    /// "When the requestor encounters the `input_required` status, it SHOULD preemptively call `tasks/result`": what it
    /// asks comes on that stream, or on any other.
    fn open_stream(&self, id: &str) {
        let Some((me, token)) = self.me().and_then(|me| Some((me, self.jobs.open_stream(id)?))) else {
            return;
        };
        let (task, own) = (id.to_owned(), token.clone());
        let work = Box::new(move || me.run_stream(&task, &token));
        if let Err(refused) = self.means.threads.spawn("mcp-result", work) {
            self.jobs.stream_over(id, &own, None);
            self.means.outside.note(Note::Oddity(format!("a task cannot be asked for its questions: {refused}")));
        }
    }

    fn run_stream(&self, id: &str, token: &Arc<CancelToken>) {
        let patience = &self.settings.patience;
        // It is silent for as long as a person thinks.
        let scope = Scope { cancel: token, total: Deadline::Never, idle: None, connect: patience.connect };
        let outside = self.means.outside.clone();
        let asked = self.ask_about(method::TASKS_RESULT, id, &scope, &mut |note: Note| outside.note(note));
        let result = match asked {
            Ok(result) => Some(result),
            Err(error) => {
                if token.cancelled().is_none() {
                    let words = one_line(error.message());
                    outside.note(Note::Oddity(format!("a task's tasks/result ended, and is asked again: {words}")));
                }
                None
            }
        };
        if let Some(task) = self.jobs.stream_over(id, token, result) {
            self.push(task);
        }
    }
}
