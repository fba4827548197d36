//! A request of the host's, from its start to its one end: rounds of input in between, perhaps a task.
//!
//! A call started to go by itself runs on a worker, step by step; between steps, while questions are open, it holds no
//! thread. A call made to be waited for runs its steps on the caller's own thread.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::cancel::{CancelToken, Wake, Why};
use crate::client::asking::Round;
use crate::client::end::CallEnd;
use crate::client::event::{Event, EventKind};
use crate::client::exchange::Step;
use crate::client::follow::{TaskHandle, Waited};
use crate::client::handle::{Client, guarded};
use crate::client::input::Input;
use crate::client::life::Activity;
use crate::client::logging::{LogLevel, log};
use crate::client::options::CallOptions;
use crate::client::settings::InputPolicy;
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::protocol::meta::check_host;
use crate::protocol::method;
use crate::session::{Request, Retry, SubscriptionState, TaskWish};

pub(super) enum Phase {
    /// A step runs, or is about to.
    Running,
    /// Questions are open.
    Asking(Round),
    /// Over.
    Done(CallEnd),
}

pub(super) struct CallState {
    pub(super) phase: Phase,
    /// What the next step carries.
    pub(super) retry: Retry,
    pub(super) rounds: usize,
    /// Who runs the next step: a worker, or the thread that waits.
    pub(super) by_worker: bool,
    /// The questions that a legacy server asks while the step runs.
    pub(super) asides: Vec<Arc<Input>>,
    /// What is left of the total; time in which questions are open does not count.
    pub(super) left: Option<Duration>,
    /// The task that a followed call was answered with.
    pub(super) task: Option<Arc<TaskHandle>>,
    /// The client waits for this call to end.
    pub(super) activity: Option<Activity>,
}

/// A call.
pub(crate) struct Call {
    pub(super) id: i64,
    pub(super) client: Arc<Client>,
    pub(super) request: Request,
    pub(super) options: CallOptions,
    pub(super) token: CancelToken,
    pub(super) state: Mutex<CallState>,
    pub(super) changed: Condvar,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of {}", self.id, self.request.method)
    }
}

impl Call {
    /// Starts a call that goes by itself; does not block.
    pub(crate) fn start(client: &Arc<Client>, request: Request, options: CallOptions) -> Result<Arc<Self>> {
        if request.method == method::LISTEN {
            let seat = client.seat()?;
            let call = Self::new(client, request, options, true)?;
            client.settle(&call, seat);
            return Ok(call);
        }
        let call = Self::new(client, request, options, true)?;
        client.fly(call.clone());
        Ok(call)
    }

    /// Makes a call on this thread and returns when it is over, its task included, when it asks something that the
    /// host answers by hand, or when `deadline` comes: then the call, and the task that it made, are cancelled.
    pub(crate) fn run(
        client: &Arc<Client>,
        request: Request,
        options: CallOptions,
        deadline: Deadline,
    ) -> Result<Arc<Self>> {
        let call = Self::new(client, request, options, false)?;
        let ran = guarded(|| {
            call.run_here(deadline);
            Ok(())
        });
        if let Err(error) = ran {
            call.fail(error);
        }
        Ok(call)
    }

    fn new(client: &Arc<Client>, mut request: Request, options: CallOptions, by_worker: bool) -> Result<Arc<Self>> {
        let activity = client.enter()?;
        if let Some(meta) = &options.meta {
            if request.params.meta.is_some() {
                return Err(Error::new(Kind::Argument, "_meta is given twice, in params and in options.meta"));
            }
            request.params.meta = Some(meta.clone());
        }
        request.params.meta.as_deref().map_or(Ok(()), check_host)?;
        let timeouts = client.settings().timeouts;
        // Without a token a server that works in silence could not say so, and would be given up (BR-26).
        let silence_ends = options.idle.unwrap_or(timeouts.idle).is_some();
        request.progress = silence_ends || client.mailbox().wants(EventKind::Progress);
        request.task = TaskWish { never: !options.task, keep: options.keep.or(client.settings().tasks.keep) };
        request.cache = options.cache;
        // A subscription lasts until somebody ends it.
        let limit = if request.method == method::LISTEN { None } else { timeouts.total };
        let total = options.total.unwrap_or(limit);
        let id = client.next_call_id();
        request.call = Some(id);
        let call = Arc::new(Self {
            id,
            client: client.clone(),
            request,
            options,
            token: CancelToken::new(),
            state: Mutex::new(CallState {
                phase: Phase::Running,
                retry: Retry::default(),
                rounds: 0,
                by_worker,
                asides: Vec::new(),
                left: total,
                task: None,
                activity: Some(activity),
            }),
            changed: Condvar::new(),
        });
        client.add_call(&call);
        Ok(call)
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Whether it lasts: `subscriptions/listen`.
    pub(super) fn is_subscription(&self) -> bool {
        self.request.method == method::LISTEN
    }

    /// The number that its events carry.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// The end, once there is one.
    pub(crate) fn end(&self) -> Option<CallEnd> {
        match &self.state.lock().phase {
            Phase::Done(end) => Some(end.clone()),
            Phase::Running | Phase::Asking(_) => None,
        }
    }

    /// The task that the call was answered with.
    pub(crate) fn task(&self) -> Option<Arc<TaskHandle>> {
        self.state.lock().task.clone()
    }

    /// Cancels. True for the one caller that decided it.
    pub(crate) fn cancel(self: &Arc<Self>, why: Why) -> bool {
        if !self.token.cancel(why) {
            return false;
        }
        // A running step ends by itself, and so does a waiting thread; a call that only waits for answers has neither.
        let idle = matches!(self.state.lock().phase, Phase::Asking(_));
        if idle {
            self.finish(CallEnd::Failed(self.cancel_error(why)));
        }
        self.tell();
        true
    }

    /// Ends the call with an error from outside its steps.
    pub(crate) fn fail(self: &Arc<Self>, error: Error) {
        self.finish(CallEnd::Failed(error));
    }

    /// Waits for the end, or for a question to the host's hand (true): `None` where the deadline came first.
    pub(crate) fn wait(&self, deadline: Deadline) -> Option<CallWait> {
        if let Some(queue) = self.client.serving_queue() {
            queue.serve_until(deadline, || self.state.lock().wait_result(&self.client).is_some());
            return self.state.lock().wait_result(&self.client);
        }
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.wait_result(&self.client) {
                return Some(result);
            }
            if !self.wait_changed(&mut state, deadline) {
                return state.wait_result(&self.client);
            }
        }
    }

    /// One exchange on this worker, and what follows from it.
    pub(crate) fn step_guarded(self: &Arc<Self>) {
        let ran = guarded(|| {
            self.step();
            Ok(())
        });
        if let Err(error) = ran {
            self.fail(error);
        }
    }

    fn step(self: &Arc<Self>) {
        match self.exchange(Deadline::Never) {
            Step::Over(end) => self.finish(end),
            Step::Asked(round) => self.begin_round(round),
            Step::Task(seed) => match self.follow(*seed) {
                Ok(held) => {
                    self.own_task(&held);
                    self.finish(CallEnd::Task);
                    // From here on the task's own events come: after the call's.
                    drop(held);
                }
                Err(error) => self.finish(CallEnd::Failed(error)),
            },
        }
    }

    fn run_here(self: &Arc<Self>, deadline: Deadline) {
        loop {
            match self.exchange(deadline) {
                Step::Over(end) => return self.finish(end),
                Step::Asked(round) => self.begin_round(round),
                Step::Task(seed) => {
                    let end = match self.follow(*seed) {
                        Ok(held) => {
                            let task = self.own_task(&held);
                            drop(held);
                            self.run_task(task, deadline)
                        }
                        Err(error) => CallEnd::Failed(error),
                    };
                    return self.finish(end);
                }
            }
            if !self.await_answers(deadline) {
                return;
            }
        }
    }

    /// Follows the task of a call that is waited for. Where the host has to answer it by hand, the call ends with its
    /// task, like one that goes by itself.
    fn run_task(self: &Arc<Self>, task: Arc<TaskHandle>, deadline: Deadline) -> CallEnd {
        let hook: Arc<dyn Wake> = Arc::new(CancelTask { task: task.clone(), call: Arc::downgrade(self) });
        // A cancel of the call cancels its task; one that came before is seen here.
        let cancelled = self.token.on_cancel(Arc::downgrade(&hook)).is_err();
        if cancelled {
            hook.wake();
        }
        match task.wait(deadline) {
            Waited::Ended(snapshot) => {
                // The caller has the end in its hands: a later check must not tell it again.
                if let Err(error) = task.acknowledge() {
                    log(LogLevel::Warn, || format!("cannot acknowledge {task:?}: {error}"));
                }
                crate::client::chat::call_end(&snapshot)
            }
            Waited::InputRequired(_) => CallEnd::Task,
            Waited::TimedOut(_) => {
                hook.wake();
                CallEnd::Failed(gave_up())
            }
        }
    }

    /// The one end. What comes later is passed over.
    pub(super) fn finish(self: &Arc<Self>, end: CallEnd) {
        // Cancel and completion race through the token; the loser's end is not told.
        let has_task = self.state.lock().task.is_some();
        let end = if self.token.finish() || has_task {
            // A task goes its own way: a cancel asks the server to stop it, and its real end counts.
            end
        } else {
            match (self.token.cancelled(), end) {
                (Some(why), CallEnd::Result(_) | CallEnd::Unfit(..) | CallEnd::Task) => {
                    CallEnd::Failed(self.cancel_error(why))
                }
                (_, end) => end,
            }
        };
        let (round, asides, activity, by_worker) = {
            let mut state = self.state.lock();
            if let Phase::Done(_) = state.phase {
                return;
            }
            let before = std::mem::replace(&mut state.phase, Phase::Done(end.clone()));
            (before, std::mem::take(&mut state.asides), state.activity.take(), state.by_worker)
        };
        if let Phase::Asking(round) = round {
            self.withdraw(&round.inputs);
        }
        self.withdraw(&asides);
        if self.is_subscription() {
            let mut event = Event::new(EventKind::Subscription);
            event.subscription = Some(SubscriptionState::Ended);
            event.call = Some(self.clone());
            event.call_id = Some(self.id);
            event.error = end.error().cloned();
            self.client.mailbox().post(event);
        }
        // The caller of a call that is waited for has its end in hand.
        if by_worker && self.client.mailbox().wants(EventKind::CallDone) {
            let mut event = Event::new(EventKind::CallDone);
            event.call = Some(self.clone());
            event.call_id = Some(self.id);
            event.task = self.task();
            event.error = end.error().cloned();
            self.client.mailbox().post(event);
        }
        self.client.remove_call(self.id);
        self.tell();
        drop(activity);
    }

    pub(super) fn tell(&self) {
        // Under the lock, so that nobody is between looking and waiting.
        drop(self.state.lock());
        self.changed.notify_all();
        self.client.kick();
    }

    pub(super) fn wait_changed(&self, state: &mut parking_lot::MutexGuard<'_, CallState>, deadline: Deadline) -> bool {
        deadline.wait(&self.changed, state)
    }

    pub(super) fn cancel_error(&self, why: Why) -> Error {
        match why {
            Why::Host => Error::new(Kind::Cancelled, "the call was cancelled"),
            Why::Closing => Error::new(Kind::Closed, "the client is closed"),
        }
    }
}

pub(super) fn gave_up() -> Error {
    Error::new(Kind::Timeout, "the wait ran out, and the call was cancelled")
}

/// What a wait for a call found.
#[derive(Debug)]
pub(crate) enum CallWait {
    Over(CallEnd),
    InputRequired,
}

impl CallState {
    fn wait_result(&self, client: &Client) -> Option<CallWait> {
        match &self.phase {
            Phase::Done(end) => Some(CallWait::Over(end.clone())),
            Phase::Running | Phase::Asking(_) if self.asks_by_hand(client) => Some(CallWait::InputRequired),
            Phase::Running | Phase::Asking(_) => None,
        }
    }

    pub(super) fn asks_by_hand(&self, client: &Client) -> bool {
        match &self.phase {
            Phase::Asking(round) => round.open().any(|request| client.policy(request.kind) == InputPolicy::Manual),
            Phase::Running => self.open_asides().any(|input| client.policy(input.kind()) == InputPolicy::Manual),
            Phase::Done(_) => false,
        }
    }

    pub(super) fn open_asides(&self) -> impl Iterator<Item = &Arc<Input>> {
        self.asides.iter().filter(|input| input.is_open())
    }
}

/// A cancel of a followed call goes to its task. A close does not: the task goes on at the server.
struct CancelTask {
    task: Arc<TaskHandle>,
    call: Weak<Call>,
}

impl Wake for CancelTask {
    fn wake(&self) {
        let closing = self.call.upgrade().is_some_and(|call| call.token.cancelled() == Some(Why::Closing));
        if closing {
            return;
        }
        if let Err(error) = self.task.cancel() {
            log(LogLevel::Warn, || format!("cannot cancel {:?}: {error}", self.task));
        }
    }
}
