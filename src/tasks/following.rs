//! A task that is being followed: the body of the machine. Pure, see `state.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind};
use crate::protocol::task::{Task, TaskStatus};
use crate::tasks::cancelling::{CancelStep, Cancelling};
use crate::tasks::history::History;
use crate::tasks::keys::OpenInput;
use crate::tasks::lifetime::Lifetime;
use crate::tasks::origins::Withheld;
use crate::tasks::outbox::Outbox;
use crate::tasks::pace::{Jitter, Moment, Pace, later};
use crate::tasks::state::{Actions, Asker, End, Past, TaskAction, TaskEvent, Trip, open_status};
use crate::tasks::{Announcement, EndReason, FollowOptions};

/// All that is known of a task between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Following {
    options: FollowOptions,
    /// The last answer that counts.
    pub(crate) task: Option<Arc<Task>>,
    pub(crate) history: History,
    pub(crate) pace: Pace,
    pub(crate) life: Lifetime,
    pub(crate) inputs: Outbox,
    pub(crate) cancel: Cancelling,
    /// When the next poll may be made.
    pub(crate) due: Option<Instant>,
    /// A scheduled poll is on its way.
    polling: bool,
    /// The last answer or failure.
    last: Moment,
    /// The start of the newest round trip that was taken in.
    newest: Option<Instant>,
    /// When the server last told by itself.
    told_at: Option<Instant>,
    /// Right after creation, until the first good answer.
    grace: Option<Grace>,
    /// Polls fail.
    fault: Option<Fault>,
    /// Answers that said "completed" and had no result.
    hollow: u32,
    /// What the seed already tells and the host must hear after the call's own answer: looked at on the first `Due`.
    seed_news: Option<Instant>,
    /// The ledger refused the last record.
    pub(crate) unstored: bool,
    /// The last wish of `WakeAt`.
    armed: Option<Instant>,
    /// Since when the server tells of it by itself.
    pushed: Option<Instant>,
    /// Its end may have been told before.
    pub(crate) repeated: bool,
}

#[derive(Debug)]
struct Grace {
    since: Instant,
    unknown: u32,
}

#[derive(Debug)]
struct Fault {
    error: Error,
    streak: u32,
    since: Instant,
    retry_after: Option<Duration>,
}

impl Following {
    /// A task that a call was just answered with. The first poll waits the seed's interval.
    pub(crate) fn seeded(
        options: FollowOptions,
        seed: Arc<Task>,
        at: Moment,
        jitter: Jitter,
        out: &mut Actions,
    ) -> Self {
        let mut this = Self::new(options, at, Duration::ZERO);
        this.grace = Some(Grace { since: at.now, unknown: 0 });
        this.pace.tell(seed.poll_interval);
        this.life.tell(seed.ttl, at);
        this.due = this.pace.next(at.now, false, jitter);
        // Questions and ends wait for a `Due` of their own, so that "created" and then the call's answer come first.
        let has_news = !seed.inputs.is_empty() || !seed.unknown_inputs.is_empty() || is_whole(&seed);
        this.seed_news = has_news.then_some(at.now);
        this.history.tell(&seed);
        this.task = Some(seed);
        out.push(TaskAction::Record);
        out.push(TaskAction::Announce(Announcement::Created));
        this.rearm(out);
        this
    }

    /// A task that is taken up by its id. The first poll is due at once.
    pub(crate) fn adopted(options: FollowOptions, past: Past, at: Moment, out: &mut Actions) -> Self {
        let mut this = Self::new(options, at, past.age);
        this.repeated = past.ended;
        if let Some(task) = &past.last {
            this.pace.tell(task.poll_interval);
            this.life.tell(task.ttl, at);
        }
        this.inputs = Outbox::restored(past.answers, past.last.as_deref());
        if let Some(task) = &past.last {
            this.history.tell(task);
        }
        this.task = past.last;
        this.due = Some(at.now);
        out.push(TaskAction::Record);
        out.push(TaskAction::Announce(Announcement::Resumed));
        // The process may have died between the cancel, or the answer, and its acknowledgement; both may be repeated.
        if past.cancel_pending && this.cancel.on_asked() {
            out.push(TaskAction::SendCancel);
        }
        this.inputs.resend(out);
        this.rearm(out);
        this
    }

    fn new(options: FollowOptions, at: Moment, age: Duration) -> Self {
        Self {
            pace: Pace::new(options.min_poll),
            options,
            task: None,
            history: History::default(),
            life: Lifetime::new(at, age),
            inputs: Outbox::default(),
            cancel: Cancelling::default(),
            due: None,
            polling: false,
            last: at,
            newest: None,
            told_at: None,
            grace: None,
            fault: None,
            hollow: 0,
            seed_news: None,
            unstored: false,
            armed: None,
            pushed: None,
            repeated: false,
        }
    }

    /// One step; an end is returned to the machine, which alone can make one.
    pub(crate) fn on(&mut self, event: TaskEvent, at: Moment, jitter: Jitter, out: &mut Actions) -> Option<End> {
        let end = match event {
            TaskEvent::Polled(task, trip) => self.on_polled(task, trip, (at, jitter), out),
            TaskEvent::PollFailed(error, trip) => self.on_poll_failed(error, trip, (at, jitter), out),
            TaskEvent::Withheld(withheld) => self.on_withheld(withheld, (at, jitter), out),
            TaskEvent::Pushed(task) => self.on_pushed(task, (at, jitter), out),
            TaskEvent::Watched(on) => {
                self.on_watched(on, (at, jitter));
                None
            }
            TaskEvent::Due => self.on_due(at, out),
            TaskEvent::Poked => self.on_poked((at, jitter), out),
            TaskEvent::Answered(answers, sender) => {
                self.inputs.on_answered(&answers, sender, out);
                None
            }
            TaskEvent::UpdateDone(keys, sender, outcome) => {
                self.inputs.on_done((&keys, sender), outcome, (at.now, jitter), out);
                None
            }
            TaskEvent::CancelAsked => self.on_cancel_asked(out),
            TaskEvent::CancelDone(outcome) => self.on_cancel_done(outcome, (at, jitter), out),
            TaskEvent::Recorded => {
                self.unstored = false;
                None
            }
            TaskEvent::RecordFailed(error) => {
                // Told once per streak: the task is followed in memory, which is better than losing it.
                if !std::mem::replace(&mut self.unstored, true) {
                    out.push(TaskAction::Announce(Announcement::Unstored(error)));
                }
                None
            }
            TaskEvent::LetGo => Some(End::let_go()),
            TaskEvent::Closed => Some(End::closed()),
            TaskEvent::Lost => Some(End::lost()),
            // A machine begins once.
            TaskEvent::Seeded(_) | TaskEvent::Adopted(_) => None,
        };
        if end.is_none() {
            self.rearm(out);
        }
        end
    }

    /// The status that counts.
    pub(crate) fn status(&self) -> TaskStatus {
        open_status(self.task.as_deref())
    }

    /// The questions that wait for the host.
    pub(crate) fn open_inputs(&self) -> Vec<OpenInput> {
        self.task.as_ref().map(|task| self.inputs.keys.open(task)).unwrap_or_default()
    }

    /// The error of the last poll, while polls fail.
    pub(crate) fn degraded(&self) -> Option<&Error> {
        self.fault.as_ref().map(|fault| &fault.error)
    }

    /// True where this answer would change nothing but the time of the next poll.
    pub(crate) fn expects(&self, task: &Task) -> bool {
        let same = |have: &Arc<Task>| same_state(have, task) && have.ttl == task.ttl;
        !task.status.is_terminal() && self.fault.is_none() && self.task.as_ref().is_some_and(same)
    }

    fn on_polled(&mut self, task: Arc<Task>, trip: Trip, when: (Moment, Jitter), out: &mut Actions) -> Option<End> {
        let (at, jitter) = when;
        self.land(trip);
        let hollow = task.check_payload().err();
        if hollow.is_none() && !task.status.is_terminal() && self.newest.is_some_and(|newest| trip.started < newest) {
            // It began before one that has been taken in: it tells an older state. The schedule stands.
            return None;
        }
        if hollow.is_none() && !task.status.is_terminal() && self.is_overtaken(&task, trip) {
            self.last = at;
            self.due = self.pace.next(at.now, self.pushed.is_some(), jitter);
            return None;
        }
        if let Some(error) = hollow {
            self.hollow += 1;
            if self.hollow >= MAX_HOLLOW {
                return Some(End { reason: EndReason::Failed, error: Some(error), forget: false });
            }
            return self.on_fault(error, when, out);
        }
        self.newest = Some(trip.started);
        self.last = at;
        self.grace = None;
        self.hollow = 0;
        self.pace.tell(task.poll_interval);
        // A poll that began before the server told by itself may have missed what came in between.
        let pushed = self.pushed.is_some_and(|since| trip.started >= since);
        self.due = self.pace.next(at.now, pushed, jitter);
        let recovered = self.fault.take().is_some();
        self.take_in(task, at, recovered, out)
    }

    /// The server told by itself while the poll was on its way, and the poll does not tell of a later moment: the open
    /// questions in it may be those of before.
    fn is_overtaken(&self, task: &Task, trip: Trip) -> bool {
        let newer = |have: &Arc<Task>| matches!((task.updated(), have.updated()), (Some(new), Some(old)) if new > old);
        self.told_at.is_some_and(|told| trip.started < told) && !self.task.as_ref().is_some_and(newer)
    }

    fn on_pushed(&mut self, task: Arc<Task>, (at, jitter): (Moment, Jitter), out: &mut Actions) -> Option<End> {
        let older = |have: &Arc<Task>| matches!((task.updated(), have.updated()), (Some(new), Some(old)) if new < old);
        if task.check_payload().is_err() || (!task.status.is_terminal() && self.task.as_ref().is_some_and(older)) {
            return None;
        }
        self.grace = None;
        self.told_at = Some(at.now);
        self.pace.tell(task.poll_interval);
        // The news has the whole task, as an answer would: it counts as one.
        if self.pushed.is_some() && self.fault.is_none() {
            self.due = self.pace.next(at.now, true, jitter);
        }
        self.take_in(task, at, false, out)
    }

    /// The poll that is due already stays: it catches up with what happened before the server began, or stopped, to
    /// tell. Only later ones are further apart. Where it stopped, the next one is made as soon as the server's interval
    /// allows.
    fn on_watched(&mut self, on: bool, (at, jitter): (Moment, Jitter)) {
        if on {
            self.pushed.get_or_insert(at.now);
            return;
        }
        if self.pushed.take().is_some() && self.fault.is_none() {
            let soonest = self.pace.next(self.last.now, false, Jitter(0)).map_or(at.now, |due| due.max(at.now));
            let soon = soonest.checked_add(spread(jitter));
            self.due = match (self.due, soon) {
                (Some(due), Some(soon)) => Some(due.min(soon)),
                (due, soon) => due.or(soon),
            };
        }
    }

    /// A good answer: what it changes, and what the host hears of it.
    fn take_in(&mut self, task: Arc<Task>, at: Moment, recovered: bool, out: &mut Actions) -> Option<End> {
        self.seed_news = None;
        let moved = self.life.tell(task.ttl, at);
        let end = End::told_by(&task);
        let changed = self.task.as_ref().is_none_or(|have| !same_state(have, &task));
        if end.is_none() && (changed || moved) {
            out.push(TaskAction::Record);
        }
        if recovered {
            out.push(TaskAction::Announce(Announcement::Recovered));
        }
        self.history.tell(&task);
        if end.is_some() {
            self.task = Some(task);
            return end;
        }
        let news = self.inputs.keys.sync(&task);
        self.task = Some(task);
        if changed {
            out.push(TaskAction::Announce(Announcement::Status));
        }
        out.extend(news.withdraw.into_iter().map(TaskAction::Withdraw));
        out.extend(news.ask.into_iter().map(TaskAction::Ask));
        self.look_at_life(at, out)
    }

    fn on_poll_failed(&mut self, error: Error, trip: Trip, when: (Moment, Jitter), out: &mut Actions) -> Option<End> {
        self.land(trip);
        if error.kind() == Kind::TaskUnknown { self.on_unknown(&error, when) } else { self.on_fault(error, when, out) }
    }

    /// Any failure but "unknown": the task is followed on, more slowly.
    fn on_fault(&mut self, error: Error, (at, jitter): (Moment, Jitter), out: &mut Actions) -> Option<End> {
        let retry_after = error.retry_after();
        let streak = self.fault.as_ref().map_or(1, |fault| fault.streak.saturating_add(1));
        self.note_fault(Fault { error, streak, since: at.now, retry_after }, out);
        self.last = at;
        self.due = self.pace.retry(at.now, streak, retry_after, jitter);
        self.look_at_life(at, out).or_else(|| self.look_at_reach(at, at.now))
    }

    /// The poll was due and nothing was asked, since the polls of other tasks there fail: the task fares as they do, but
    /// its own count of failures stands. The interval has passed, so any later moment will do for the next try.
    fn on_withheld(&mut self, withheld: Withheld, (at, jitter): (Moment, Jitter), out: &mut Actions) -> Option<End> {
        let Withheld { error, failed, until } = withheld;
        self.polling = false;
        let (streak, retry_after) = self.fault.as_ref().map_or((0, None), |fault| (fault.streak, fault.retry_after));
        self.note_fault(Fault { error, streak, since: at.now, retry_after }, out);
        self.due = later(at.now, until.saturating_duration_since(at.now), jitter);
        self.look_at_life(at, out).or_else(|| self.look_at_reach(at, failed))
    }

    /// Polls fail; told once, and counted from the first one.
    fn note_fault(&mut self, fault: Fault, out: &mut Actions) {
        let since = match &self.fault {
            Some(before) => before.since,
            None => {
                out.push(TaskAction::Announce(Announcement::Degraded(fault.error.clone())));
                fault.since
            }
        };
        self.fault = Some(Fault { since, ..fault });
    }

    /// Whether it is to be given up, when the server has last failed at this moment.
    fn look_at_reach(&self, at: Moment, failed: Instant) -> Option<End> {
        // The monotonic clock, not the boot one: an hour asleep is no hour of unreachability. And the count begins
        // with the first failure, so a task that woke up overdue gets its five minutes.
        let since = self.fault.as_ref()?.since;
        let unreachable = failed.saturating_duration_since(since);
        (self.life.passed(at) && unreachable >= MAX_UNREACHABLE).then(|| {
            End::of(
                EndReason::Expired,
                Kind::TaskExpired,
                "the task outlived its time to live, and the server could not be reached for 5 minutes",
            )
        })
    }

    fn on_unknown(&mut self, error: &Error, (at, jitter): (Moment, Jitter)) -> Option<End> {
        let overdue = self.life.passed(at);
        if let Some(grace) = &mut self.grace {
            grace.unknown += 1;
            let young = at.now.saturating_duration_since(grace.since) < GRACE;
            if grace.unknown < GRACE_POLLS && young && !overdue {
                // Some servers answer before their store does, against the rule ("Task Creation").
                self.last = at;
                self.due = self.pace.next(at.now, false, jitter);
                return None;
            }
        }
        let end = if overdue {
            Error::new(Kind::TaskExpired, "the task outlived its time to live, and the server no longer knows it")
        } else {
            Error::new(Kind::TaskUnknown, "the server does not know the task, or no longer")
        };
        let reason = if overdue { EndReason::Expired } else { EndReason::Unknown };
        let error = error.rpc().map_or(end.clone(), |fault| end.with_rpc(fault.clone()));
        Some(End { reason, error: Some(error), forget: false })
    }

    fn on_due(&mut self, at: Moment, out: &mut Actions) -> Option<End> {
        if self.armed.is_some_and(|armed| armed <= at.now) {
            self.armed = None;
        }
        if let Some(end) = self.on_seed_news(out).or_else(|| self.look_at_life(at, out)) {
            return Some(end);
        }
        self.inputs.on_due(at.now, out);
        if self.cancel.on_due(at.now) {
            out.push(TaskAction::SendCancel);
        }
        if self.options.auto_poll && !self.polling && self.due.is_some_and(|due| due <= at.now) {
            self.polling = true;
            out.push(TaskAction::Poll);
        }
        None
    }

    fn on_seed_news(&mut self, out: &mut Actions) -> Option<End> {
        self.seed_news.take()?;
        let seed = self.task.clone()?;
        if is_whole(&seed) {
            return End::told_by(&seed);
        }
        let news = self.inputs.keys.sync(&seed);
        out.extend(news.ask.into_iter().map(TaskAction::Ask));
        None
    }

    /// Brings the next poll of a degraded or slept-over task forward; never before the server's interval has passed
    /// (counted with the sleep) and never before its Retry-After. The draw spreads many tasks over some seconds.
    fn on_poked(&mut self, (at, jitter): (Moment, Jitter), out: &mut Actions) -> Option<End> {
        let since = at.boot.saturating_sub(self.last.boot).max(at.now.saturating_duration_since(self.last.now));
        let retry_after = self.fault.as_ref().and_then(|fault| fault.retry_after).unwrap_or_default();
        let wait = self.pace.interval().max(retry_after).saturating_sub(since);
        let slept_over = wait.is_zero();
        if self.fault.is_some() || slept_over {
            let sooner = at.now.checked_add(wait.saturating_add(spread(jitter)));
            self.due = match (self.due, sooner) {
                (Some(due), Some(sooner)) => Some(due.min(sooner)),
                (due, sooner) => due.or(sooner),
            };
        }
        // The machine may have slept past the end of the time to live.
        self.look_at_life(at, out)
    }

    fn on_cancel_asked(&mut self, out: &mut Actions) -> Option<End> {
        if self.cancel.on_asked() {
            out.push(TaskAction::Record);
            out.push(TaskAction::SendCancel);
        }
        None
    }

    fn on_cancel_done(
        &mut self,
        outcome: Result<(), Error>,
        (at, jitter): (Moment, Jitter),
        out: &mut Actions,
    ) -> Option<End> {
        match self.cancel.on_done(outcome, at.now, jitter) {
            CancelStep::Wait => return None,
            CancelStep::Arrived => out.push(TaskAction::Record),
            CancelStep::GivenUp(error) => {
                out.push(TaskAction::Record);
                out.push(TaskAction::Announce(Announcement::CancelRefused(error)));
            }
        }
        (!self.options.follow_cancel).then(End::let_go)
    }

    /// The back-stop: tells the host once, or ends the task where it wants that.
    fn look_at_life(&mut self, at: Moment, out: &mut Actions) -> Option<End> {
        if !self.life.newly_passed(at) {
            return None;
        }
        if self.options.stop_at_ttl {
            return Some(End::of(EndReason::Expired, Kind::TaskExpired, "the task outlived its time to live"));
        }
        out.push(TaskAction::Announce(Announcement::Overdue));
        None
    }

    fn land(&mut self, trip: Trip) {
        match trip.by {
            Asker::Schedule => self.polling = false,
            Asker::Host => {}
        }
    }

    /// Asks to be woken at the earliest of all timers, where that moved.
    fn rearm(&mut self, out: &mut Actions) {
        let poll = if self.options.auto_poll && !self.polling { self.due } else { None };
        let timers = [poll, self.inputs.wake(), self.cancel.wake(), self.life.wake(), self.seed_news];
        let next = timers.into_iter().flatten().min();
        if let Some(at) = next
            && self.armed != Some(at)
        {
            self.armed = Some(at);
            out.push(TaskAction::WakeAt(at));
        }
    }
}

/// Many tasks that wake at once are spread.
fn spread(Jitter(share): Jitter) -> Duration {
    POKE_SPREAD.saturating_mul(u32::from(share)) / u32::from(u16::MAX)
}

/// True where nothing that the host hears of differs: status, message, open inputs.
fn same_state(a: &Task, b: &Task) -> bool {
    if std::ptr::eq(a, b) {
        return true;
    }
    a.status == b.status
        && a.message == b.message
        && a.inputs.len() == b.inputs.len()
        && a.unknown_inputs == b.unknown_inputs
        && a.inputs.iter().all(|input| b.inputs.iter().any(|other| other.key == input.key))
}

/// True for a terminal seed that brings all there is to know; others need one poll for their payload.
fn is_whole(task: &Task) -> bool {
    match task.status {
        TaskStatus::Working | TaskStatus::InputRequired => false,
        TaskStatus::Completed => task.result.is_some(),
        TaskStatus::Failed => task.fault.is_some(),
        TaskStatus::Cancelled => true,
    }
}

/// "Completed" without a result, this often, is the server's last word (chosen: a lagging replica is over by then).
const MAX_HOLLOW: u32 = 3;
/// Unknown right after creation is forgiven for so many polls …
const GRACE_POLLS: u32 = 3;
/// … and for so long.
const GRACE: Duration = Duration::from_secs(10);
/// An overdue task ends when its server was unreachable for so long.
const MAX_UNREACHABLE: Duration = Duration::from_secs(300);
/// Pokes are spread over so long.
const POKE_SPREAD: Duration = Duration::from_secs(3);
