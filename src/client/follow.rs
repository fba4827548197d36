//! How tasks meet the client: the wire that the engine polls, the host that turns its announcements into events, and
//! the handle that the program holds.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cancel::CancelToken;
use crate::client::event::{Event, EventKind};
use crate::client::handle::Client;
use crate::client::input::{Input, decline, event_kind};
use crate::client::life::Activity;
use crate::client::logging::{LogLevel, log};
use crate::client::settings::{InputPolicy, Settings, Timeouts, Validation};
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::input::{InputAnswer, InputKind, InputRequest};
use crate::protocol::json::{Json, quote};
use crate::protocol::limits::too_large;
use crate::protocol::method;
use crate::protocol::subscription::{TASK_IDS, texts_of};
use crate::protocol::task::{NOTIFICATION, Task};
use crate::session::{Hear, Landing, Note, Request, Session, SubscriptionState};
use crate::tasks::entry::TaskEntry;
use crate::tasks::keys::Verdict;
use crate::tasks::ledger::TaskAbout;
use crate::tasks::ledger::written::export;
use crate::tasks::snapshot::Snapshot;
use crate::tasks::{Announcement, Done, EndReason, Heard, OnItsWay, Reply, TaskHost, TaskWire};
use crate::transport::{Scope, Unawaited};

/// The server's side of a client's tasks.
pub(crate) struct Wire {
    session: Arc<Session>,
    clock: Arc<dyn Clock>,
    timeouts: Timeouts,
    most_questions: usize,
}

impl Wire {
    pub(crate) fn new(session: Arc<Session>, clock: Arc<dyn Clock>, settings: &Settings) -> Self {
        let most_questions = settings.limits.input_requests;
        Self { session, clock, timeouts: settings.timeouts, most_questions }
    }

    fn trip<T>(
        &self,
        cancel: &CancelToken,
        trip: impl FnOnce(&Scope<'_>, &mut dyn FnMut(Note)) -> Result<T>,
    ) -> Result<T> {
        let Timeouts { idle, connect, .. } = self.timeouts;
        let scope = Scope { cancel, total: self.total(), idle, connect };
        let mut notes = |note: Note| hear(&self.session, note);
        trip(&scope, &mut notes)
    }

    fn total(&self) -> Deadline {
        Deadline::after(self.clock.now(), self.timeouts.total, Budget::Total)
    }

    fn read(&self, raw: &Json) -> Result<Task> {
        let task = Task::read(raw)?;
        check_questions(&task, self.most_questions)?;
        Ok(task)
    }
}

/// What is said beside the answer to a round trip of a task's.
fn hear(session: &Session, note: Note) {
    match note {
        Note::Oddity(line) => log(LogLevel::Warn, || line),
        // A change of a list may be told on any stream.
        Note::Other { method, params } => session.hear(&method, &params),
        // What it says of a task is said again by the next poll.
        Note::Task(_)
        | Note::Progress(_)
        | Note::ProgressOf { .. }
        | Note::Log(_)
        | Note::Asked(_)
        | Note::Withdrawn(_)
        | Note::Subscription(_)
        | Note::Stderr(_) => {}
    }
}

/// A poll that holds no thread.
struct Begun {
    sent: Arc<dyn Unawaited>,
    limit: Deadline,
}

impl OnItsWay for Begun {
    fn deadline(&self) -> Deadline {
        self.limit
    }

    fn expire(&self) {
        if let Deadline::At(_, budget) = self.limit {
            self.sent.expire(budget);
        }
    }
}

impl TaskWire for Wire {
    fn get(&self, task_id: &str, cancel: &CancelToken) -> Result<Task> {
        let task = self.trip(cancel, |scope, mut notes| self.session.task_get(task_id, scope, &mut notes))?;
        check_questions(&task, self.most_questions)?;
        Ok(task)
    }

    fn may_begin(&self) -> bool {
        self.session.may_begin()
    }

    fn begin(&self, task_id: &str, done: Done) -> Option<Arc<dyn OnItsWay>> {
        let (total, most, Timeouts { idle, connect, .. }) = (self.total(), self.most_questions, self.timeouts);
        let checked = move |task: Task| check_questions(&task, most).map(|()| task);
        let land = Box::new(move |landing| {
            done(match landing {
                Landing::Task(task) => match checked(*task) {
                    Ok(task) => Reply::Task(Box::new(task)),
                    Err(error) => Reply::Finish(Box::new(move |_| Err(error))),
                },
                Landing::Finish(finish) => Reply::Finish(Box::new(move |cancel| {
                    finish(&Scope { cancel, total, idle, connect }).and_then(checked)
                })),
            });
        });
        let session = self.session.clone();
        let notes: Hear = Arc::new(move |note| hear(&session, note));
        // Silence counts from here: nothing but the answer would end it.
        let limit = Deadline::after(self.clock.now(), idle, Budget::Idle).tighter(total);
        let sent = self.session.task_begin(task_id, notes, land)?;
        Some(Arc::new(Begun { sent, limit }))
    }

    fn update(&self, task_id: &str, answers: &[InputAnswer], cancel: &CancelToken) -> Result<()> {
        self.trip(cancel, |scope, mut notes| self.session.task_update(task_id, answers, scope, &mut notes))
    }

    fn cancel(&self, task_id: &str, cancel: &CancelToken) -> Result<()> {
        self.trip(cancel, |scope, mut notes| self.session.task_cancel(task_id, scope, &mut notes))
    }

    fn listen(
        &self,
        ids: &dyn Fn() -> Vec<Arc<str>>,
        cancel: &CancelToken,
        heard: &mut dyn FnMut(Heard),
    ) -> Result<()> {
        let request = || {
            let quoted: Vec<String> = ids().iter().map(|id| quote(id)).collect();
            let params = format!("{{\"notifications\":{{\"{TASK_IDS}\":[{}]}}}}", quoted.join(","));
            Request::new(method::LISTEN, &params)
        };
        let scope = Scope { cancel, total: Deadline::Never, idle: None, connect: self.timeouts.connect };
        let mut notes = |note: Note| match note {
            Note::Subscription(news) => match (news.state, news.json) {
                (SubscriptionState::Active | SubscriptionState::CatchUp, Some(filter)) => {
                    heard(Heard::Granted(texts_of(&filter, TASK_IDS)));
                }
                (SubscriptionState::Lost, _) => heard(Heard::Lost),
                (SubscriptionState::Active | SubscriptionState::CatchUp | SubscriptionState::Ended, _) => {}
            },
            Note::Other { method, params } if method == NOTIFICATION => match self.read(&params) {
                Ok(task) => heard(Heard::Task(Box::new(task))),
                Err(error) => log(LogLevel::Warn, || format!("{NOTIFICATION} makes no sense: {error}")),
            },
            Note::Other { method, .. } => {
                let method = crate::error::one_line(&method);
                log(LogLevel::Warn, || format!("{method} came on a stream for tasks"));
            }
            Note::Oddity(line) => log(LogLevel::Warn, || line),
            // "MUST NOT be sent on the subscriptions/listen stream for a task" (tasks extension, "Task Notifications").
            Note::Task(_)
            | Note::Progress(_)
            | Note::ProgressOf { .. }
            | Note::Log(_)
            | Note::Asked(_)
            | Note::Withdrawn(_)
            | Note::Stderr(_) => {}
        };
        self.session.subscribe(&request, &scope, &mut notes).map(drop)
    }

    fn origin(&self) -> &str {
        self.session.origin()
    }
}

/// A task must not ask more at once than the host allows: each question costs the host something.
///
/// # Errors
/// [`Kind::TooLarge`]. Of a poll it is a failed one: the task is followed on.
pub(crate) fn check_questions(task: &Task, most: usize) -> Result<()> {
    if task.inputs.len() + task.unknown_inputs.len() > most {
        return Err(too_large("the number of questions of a task", most, "input_requests"));
    }
    Ok(())
}

/// The program's side of one task.
pub(crate) struct Host {
    client: Weak<Client>,
    call_id: Option<i64>,
    validation: Validation,
    /// The questions asked by events and not yet withdrawn.
    inputs: Mutex<Vec<Arc<Input>>>,
    /// From the first event to the last: keeps the client from ending before the terminal event is in its mailbox.
    /// Whoever waits for the task learns of its end a little earlier, and may close the client at once.
    activity: Mutex<Option<Activity>>,
}

impl Host {
    pub(crate) fn new(client: &Arc<Client>, call_id: Option<i64>, validation: Validation) -> Arc<Self> {
        Arc::new(Self {
            client: Arc::downgrade(client),
            call_id,
            validation,
            inputs: Mutex::default(),
            activity: Mutex::default(),
        })
    }

    /// Holds the activity while events may come. What is returned is to be dropped after the event is posted.
    fn count(&self, client: &Arc<Client>, what: &Announcement) -> Option<Activity> {
        match what {
            // Also while the client closes: whoever made the task is under way itself.
            Announcement::Created | Announcement::Resumed => self.activity.lock().replace(client.stay()),
            Announcement::Ended(_) => self.activity.lock().take(),
            Announcement::Status
            | Announcement::Overdue
            | Announcement::Degraded(_)
            | Announcement::Recovered
            | Announcement::Unstored(_)
            | Announcement::AnswerRefused(..)
            | Announcement::CancelRefused(_)
            | Announcement::Ask(_)
            | Announcement::Withdrawn(_) => None,
        }
    }

    fn ask(&self, client: &Arc<Client>, task: &Arc<TaskHandle>, mut event: Event, request: InputRequest) {
        match client.policy(request.kind) {
            InputPolicy::Handler => {
                let known = event.snapshot.iter().flat_map(|snapshot| snapshot.inputs());
                let repeated = known.into_iter().any(|input| input.repeated && input.request.key == request.key);
                let input = Input::of_task(request, task.clone(), repeated);
                event.kind = event_kind(input.kind());
                event.input = Some(input.clone());
                // An answered one holds its task, and the task this list: kept on, none of them would ever end.
                let mut inputs = self.inputs.lock();
                let answered: Vec<Arc<Input>> = inputs.extract_if(.., |input| !input.is_open()).collect();
                inputs.push(input);
                drop(inputs);
                drop(answered);
                client.mailbox().post(event);
            }
            // The question stays in the snapshot; a wait tells of it.
            InputPolicy::Manual => {}
            InputPolicy::Refuse => {
                let refused = match request.kind {
                    InputKind::Elicitation => {
                        task.answer(&[InputAnswer { key: request.key, response: decline() }]).map(drop)
                    }
                    InputKind::Sampling | InputKind::Roots => task.refuse_input(),
                };
                if let Err(error) = refused {
                    event.kind = EventKind::Error;
                    event.error = Some(error);
                    client.mailbox().post(event);
                }
            }
        }
    }

    fn withdraw(&self, client: &Arc<Client>, mut event: Event, key: &str) {
        let gone: Vec<Arc<Input>> = self.inputs.lock().extract_if(.., |input| input.key() == key).collect();
        for input in gone {
            if input.withdraw() {
                event.kind = EventKind::InputWithdrawn;
                event.input = Some(input);
                return client.mailbox().post(event);
            }
        }
    }
}

impl TaskHost for Host {
    fn flaw(&self, about: &TaskAbout, result: &Json) -> Option<Error> {
        self.client.upgrade()?.flaw(&about.tool, result, self.validation)
    }

    fn announce(&self, entry: &Arc<TaskEntry>, snapshot: &Arc<Snapshot>, what: Announcement) {
        let Some(client) = self.client.upgrade() else {
            return;
        };
        // Given back last, when the terminal event is on its way.
        let _given_back = self.count(&client, &what);
        let task = TaskHandle::new(entry.clone(), &client);
        let mut event = Event::new(EventKind::TaskStatus);
        event.task = Some(task.clone());
        event.snapshot = Some(snapshot.clone());
        event.kind = match what {
            Announcement::Ask(request) => return self.ask(&client, &task, event, request),
            Announcement::Withdrawn(key) => return self.withdraw(&client, event, &key),
            Announcement::Created => {
                event.call_id = self.call_id;
                EventKind::TaskCreated
            }
            Announcement::Resumed => EventKind::TaskResumed,
            Announcement::Status => EventKind::TaskStatus,
            Announcement::Overdue => EventKind::TaskOverdue,
            Announcement::Recovered => EventKind::TaskRecovered,
            Announcement::Ended(_) => {
                event.error = snapshot.flaw().cloned();
                EventKind::TaskDone
            }
            Announcement::Degraded(error) => {
                event.error = Some(error);
                EventKind::TaskDegraded
            }
            Announcement::Unstored(error)
            | Announcement::AnswerRefused(_, error)
            | Announcement::CancelRefused(error) => {
                event.error = Some(error);
                EventKind::Error
            }
        };
        let (created, ended) = (event.kind == EventKind::TaskCreated, event.kind == EventKind::TaskDone);
        client.mailbox().post(event);
        client.kick();
        if created {
            client.task_followed(entry.key());
        }
        if ended {
            client.task_over(entry.key());
            let inputs = std::mem::take(&mut *self.inputs.lock());
            drop(inputs);
        }
    }
}

/// A task in the program's hands.
pub(crate) struct TaskHandle {
    entry: Arc<TaskEntry>,
    client: Arc<Client>,
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.task_id())
    }
}

/// How a wait for a task ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The task has ended.
    Ended(Arc<Snapshot>),
    /// It asks something that the host answers by hand.
    InputRequired(Arc<Snapshot>),
    /// The wait ran out.
    TimedOut(Arc<Snapshot>),
}

impl TaskHandle {
    pub(crate) fn new(entry: Arc<TaskEntry>, client: &Arc<Client>) -> Arc<Self> {
        Arc::new(Self { entry, client: client.clone() })
    }

    pub(crate) fn task_id(&self) -> &str {
        &self.entry.key().id
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        self.client.clock()
    }

    /// What is known now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.entry.snapshot()
    }

    /// One `tasks/get` on this thread.
    pub(crate) fn get(&self, deadline: Deadline) -> Result<Arc<Snapshot>> {
        let activity = self.client.enter()?;
        let snapshot = activity.run(deadline, |cancel| self.entry.refresh(cancel))?;
        match (snapshot.end_reason(), snapshot.error()) {
            // Whether this poll has found that out or one that came before.
            (Some(EndReason::Unknown), Some(error)) => Err(error.clone()),
            _ => Ok(snapshot),
        }
    }

    /// `tasks/update` on this thread. False where every key was answered before.
    pub(crate) fn update(&self, answers: &[InputAnswer], deadline: Deadline) -> Result<bool> {
        let activity = self.client.enter()?;
        let verdict = activity.run(deadline, |cancel| self.entry.update(answers.to_vec(), cancel))?;
        accepted(verdict)
    }

    /// Answers that a worker carries. False where every key was answered before.
    pub(crate) fn answer(&self, answers: &[InputAnswer]) -> Result<bool> {
        accepted(self.entry.answer(answers.to_vec()))
    }

    /// Asks the server to stop. False where that was asked before, or the task has ended.
    pub(crate) fn cancel(&self) -> Result<bool> {
        Ok(self.entry.cancel())
    }

    /// The host has the end. False where that was said before, or the ledger holds no end.
    pub(crate) fn acknowledge(&self) -> Result<bool> {
        self.entry.acknowledge()
    }

    /// False where another process has taken the task over.
    pub(crate) fn is_ours(&self) -> bool {
        self.entry.is_ours()
    }

    /// What the ledger would keep of it, as a JSON object: for a host with a store of its own.
    pub(crate) fn export(&self) -> String {
        export(&self.entry.record())
    }

    /// Stops following; the server goes on. False where the task has ended.
    pub(crate) fn let_go(&self) -> bool {
        self.entry.let_go()
    }

    /// What the host refuses and what has no form of refusal: the task is cancelled, or left waiting by option.
    pub(crate) fn refuse_input(&self) -> Result<()> {
        if self.client.settings().tasks.cancel_refused { self.cancel().map(drop) } else { Ok(()) }
    }

    /// Whether a question waits for the host's hand.
    pub(super) fn asks(&self, snapshot: &Snapshot) -> bool {
        let mut open = snapshot.inputs().iter();
        open.any(|input| {
            self.client.policy(input.request.kind) == InputPolicy::Manual && self.entry.is_open(&input.request.key)
        })
    }

    pub(super) fn entry(&self) -> &Arc<TaskEntry> {
        &self.entry
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Waits for the end, or for a question to the host's hand.
    pub(crate) fn wait(&self, deadline: Deadline) -> Waited {
        let never = CancelToken::new();
        let asks = |snapshot: &Snapshot| self.asks(snapshot);
        let ready = |snapshot: &Snapshot| snapshot.has_ended() || asks(snapshot);
        if let Some(queue) = self.client.serving_queue() {
            queue.serve_until(deadline, || ready(&self.snapshot()));
        } else {
            // `None` is a wait that ran out; what is known then is looked at below either way.
            drop(self.entry.wait_until(deadline, &never, ready));
        }
        let snapshot = self.snapshot();
        if snapshot.has_ended() {
            Waited::Ended(snapshot)
        } else if asks(&snapshot) {
            Waited::InputRequired(snapshot)
        } else {
            Waited::TimedOut(snapshot)
        }
    }
}

fn accepted(verdict: Verdict) -> Result<bool> {
    let argument = |message: String| Err(Error::new(Kind::Argument, message));
    match verdict {
        Verdict::Accepted => Ok(true),
        Verdict::AlreadyAnswered | Verdict::Ended | Verdict::Withdrawn(_) => Ok(false),
        Verdict::UnknownKey(key) => {
            argument(format!("the task has not asked {}", crate::error::one_line(&quote(&key))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use mcp_test_server::{Script, TestServer};

    use super::*;
    use crate::client::call::Call;
    use crate::client::end::CallEnd;
    use crate::client::event::Handler;
    use crate::client::options::CallOptions;
    use crate::client::settings::Settings;
    use crate::session::Request;

    struct Count(Arc<AtomicUsize>);

    impl Handler for Count {
        fn handle(&self, _: &Arc<Event>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn soon(client: &Client) -> Deadline {
        Deadline::after(client.clock().now(), Some(Duration::from_secs(20)), Budget::Wait)
    }

    fn client(server: &TestServer, ended: &Arc<AtomicUsize>) -> Arc<Client> {
        let client = Client::new(Settings::read(&format!("{{\"url\":\"{}\"}}", server.url())).unwrap()).unwrap();
        client.on(Some(EventKind::TaskDone), Some(Arc::new(Count(ended.clone())))).unwrap();
        client.open().unwrap();
        client
    }

    #[test]
    fn a_close_right_after_the_wait_loses_no_terminal_event() {
        let server = TestServer::start(Script::new());
        for round in 0..8 {
            let ended = Arc::new(AtomicUsize::new(0));
            let client = client(&server, &ended);
            let request = Request::tool("slow_job", &Json::trusted(r#"{"steps":1,"step_ms":1,"poll_ms":1}"#));
            let call = Call::run(&client, request, CallOptions::default(), soon(&client)).unwrap();
            assert!(client.close());
            assert!(matches!(call.end(), Some(CallEnd::Result(_))), "{:?}", call.end());
            assert!(client.wait_closed(soon(&client)));
            assert_eq!(ended.load(Ordering::Relaxed), 1, "round {round}");
        }
    }

    #[test]
    fn asking_for_a_task_that_the_server_does_not_know_is_an_error_whoever_found_it_out() {
        let server = TestServer::start(Script::new());
        let ended = Arc::new(AtomicUsize::new(0));
        let client = client(&server, &ended);
        let task = client.task("no-such-task").unwrap();
        assert_eq!(task.get(soon(&client)).unwrap_err().kind(), Kind::TaskUnknown);
        assert!(matches!(task.wait(soon(&client)), Waited::Ended(_)));
        assert_eq!(task.get(soon(&client)).unwrap_err().kind(), Kind::TaskUnknown);
        assert!(client.close() && client.wait_closed(soon(&client)));
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }
}
