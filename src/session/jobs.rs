//! The tasks of a legacy server (2025-11-25), as far as what belongs to them comes apart from their polls: questions as
//! requests of the server's on any stream, results by `tasks/result`, changes by notification, some of it before the
//! answer that makes the task. State alone; `legacy_tasks.rs` does what follows from it.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cancel::{CancelToken, Why};
use crate::error::Result;
use crate::protocol::input::InputRequest;
use crate::protocol::json::Json;
use crate::protocol::legacy_task::LegacyTask;
use crate::protocol::task::{Task, TaskStatus};
use crate::session::desk::Question;

/// Chosen: what comes before the answer that it belongs to comes in the same moment.
const MOST_EARLY: usize = 64;
/// Chosen: each holds a thread and a connection for as long as a person thinks. What is beyond waits for a free one.
const MOST_STREAMS: usize = 64;
/// Chosen: what is still on its way when a task ends comes in the same moment.
const MOST_GONE: usize = 256;

/// What belongs to one task.
struct Job {
    last: LegacyTask,
    open: Vec<Question>,
    /// What `tasks/result` brought before a poll told of the end.
    result: Option<Json>,
    /// Refusals of `tasks/result` in a row.
    refusals: u32,
    /// Ends the `tasks/result` that is open.
    stream: Option<Arc<CancelToken>>,
    /// The server told more since the answer that made the task.
    moved: bool,
}

impl Job {
    fn new(last: LegacyTask) -> Self {
        Self { last, open: Vec::new(), result: None, refusals: 0, stream: None, moved: false }
    }

    fn task(&self) -> Result<Box<Task>> {
        let questions: Vec<InputRequest> = self.open.iter().map(|question| question.request.clone()).collect();
        self.last.asking(&questions).map(Box::new)
    }
}

enum Early {
    Status(Box<LegacyTask>),
    Asked(String, Question),
}

#[derive(Default)]
struct State {
    jobs: HashMap<String, Job>,
    /// Calls under way that may become tasks.
    expected: usize,
    /// What came for tasks that are not known yet.
    early: VecDeque<Early>,
    /// The last tasks that ended: what the server told of them before may still come, by another way than their end.
    gone: VecDeque<String>,
    streams: usize,
    closed: bool,
}

impl State {
    /// Most that is heard is of tasks that are there: the others are looked for after them.
    fn is_gone(&self, task: &str) -> bool {
        !self.jobs.contains_key(task) && self.gone.iter().any(|gone| gone == task)
    }
}

/// The tasks that are followed.
pub(super) struct Jobs {
    state: Mutex<State>,
    /// Makes the keys of this process its own: a server counts its requests anew in each session.
    salt: RandomState,
    most_questions: usize,
}

/// What becomes of a question.
pub(super) enum Asked {
    /// The task asks it.
    Taken(Result<Box<Task>>),
    /// It waits for the answer that makes its task, or came twice.
    Kept,
    /// It belongs to no task that is followed.
    Stranger(Question),
    /// The task asks too much at once.
    TooMany(Question),
}

/// What becomes of a status that the server told by itself.
pub(super) enum Told {
    /// News of a task that goes on.
    Open(Result<Box<Task>>),
    /// The task has ended; its result is to be fetched.
    Over(Box<LegacyTask>),
    /// Nothing new, or early.
    Nothing,
    /// It belongs to no task that is followed.
    Stranger,
}

impl Jobs {
    pub(super) fn new(most_questions: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), salt: RandomState::new(), most_questions })
    }

    /// A call that may become a task is about to leave: what comes for unknown tasks meanwhile is kept.
    pub(super) fn expect(self: &Arc<Self>) -> Expected {
        self.state.lock().expected += 1;
        Expected(self.clone())
    }

    /// The key of a question: the server's id of it, made unique beyond its session.
    pub(super) fn key(&self, session: u64, id: &str) -> String {
        format!("{:08x}-{id}", self.salt.hash_one(session) as u32)
    }

    /// A call was answered with this task. What came for it before is told with it.
    pub(super) fn created(&self, seed: LegacyTask) -> Result<Box<Task>> {
        let mut state = self.state.lock();
        let id = seed.id().to_owned();
        let mut job = Job::new(seed);
        let early = std::mem::take(&mut state.early);
        for one in early {
            match one {
                Early::Status(status) if status.id() == id => {
                    if status.follows(&job.last) {
                        job.last = status.with_immediate(job.last.immediate());
                        job.moved = true;
                    }
                }
                Early::Asked(task, question) if task == id => job.open.push(question),
                other @ (Early::Status(_) | Early::Asked(..)) => state.early.push_back(other),
            }
        }
        let task = job.task();
        state.gone.retain(|gone| *gone != id);
        state.jobs.insert(id, job);
        task
    }

    /// The task is followed from now on: what the server told since its beginning, when nobody listened.
    /// And whether its questions are to be asked for.
    pub(super) fn followed(&self, task: &str) -> (Told, bool) {
        let mut state = self.state.lock();
        state.gone.retain(|gone| gone != task);
        match state.jobs.get(task) {
            Some(job) if job.moved && job.last.status().is_terminal() => {
                (Told::Over(Box::new(job.last.clone())), false)
            }
            Some(job) if job.moved => (Told::Open(job.task()), wants_stream(job.last.status())),
            Some(job) => (Told::Nothing, wants_stream(job.last.status())),
            None => (Told::Nothing, false),
        }
    }

    /// A poll was answered: the status as it counts, and the task with its questions.
    pub(super) fn polled(&self, status: LegacyTask) -> (LegacyTask, Result<Box<Task>>) {
        let mut state = self.state.lock();
        if state.is_gone(status.id()) {
            // The poll was on its way when the task ended: nothing of it is kept.
            let task = Job::new(status.clone()).task();
            return (status, task);
        }
        match state.jobs.entry(status.id().to_owned()) {
            Entry::Occupied(mut there) => {
                let job = there.get_mut();
                let status = status.with_immediate(job.last.immediate());
                // An end that was pushed stands, whatever a poll tells that left before.
                if !job.last.status().is_terminal() || status.status().is_terminal() {
                    job.last = status.clone();
                }
                let task = job.task();
                (job.last.clone(), task)
            }
            Entry::Vacant(free) => {
                let job = free.insert(Job::new(status));
                (job.last.clone(), job.task())
            }
        }
    }

    /// The server tells of a status by itself.
    pub(super) fn told(&self, status: LegacyTask) -> Told {
        let mut state = self.state.lock();
        let expected = state.expected > 0;
        let gone = state.is_gone(status.id());
        match state.jobs.get_mut(status.id()) {
            Some(job) if job.last.status().is_terminal() || job.last.follows(&status) => Told::Nothing,
            Some(job) => {
                job.moved = true;
                job.last = status.with_immediate(job.last.immediate());
                if job.last.status().is_terminal() {
                    Told::Over(Box::new(job.last.clone()))
                } else {
                    Told::Open(job.task())
                }
            }
            None if gone => Told::Nothing,
            None if expected => {
                if state.early.len() >= MOST_EARLY {
                    return Told::Stranger;
                }
                state.early.push_back(Early::Status(Box::new(status)));
                Told::Nothing
            }
            None => Told::Stranger,
        }
    }

    /// The server asks for a task.
    pub(super) fn asked(&self, task: String, mut question: Question) -> Asked {
        let mut state = self.state.lock();
        let key = self.key(question.session(), &question.request.key);
        let (expected, early) = (state.expected > 0, state.early.len());
        match state.jobs.get_mut(&task) {
            Some(job) if job.open.iter().any(|have| have.request.key == key) => Asked::Kept,
            Some(job) if job.open.len() >= self.most_questions => Asked::TooMany(question),
            Some(job) => {
                question.request.key = key;
                job.moved = true;
                job.open.push(question);
                Asked::Taken(job.task())
            }
            None if expected && early < MOST_EARLY => {
                question.request.key = key;
                state.early.push_back(Early::Asked(task, question));
                Asked::Kept
            }
            None => Asked::Stranger(question),
        }
    }

    /// The server takes a question back: the task without it, where one asked it.
    pub(super) fn withdrawn(&self, session: u64, id: &str) -> Option<Result<Box<Task>>> {
        let key = self.key(session, id);
        let mut state = self.state.lock();
        state.early.retain(|early| !matches!(early, Early::Asked(_, question) if question.request.key == key));
        let mut jobs = state.jobs.values_mut();
        let job = jobs.find(|job| job.open.iter().any(|question| question.request.key == key))?;
        job.open.retain(|question| question.request.key != key);
        job.moved = true;
        Some(job.task())
    }

    /// Takes a question to answer it.
    pub(super) fn take(&self, task: &str, key: &str) -> Option<Question> {
        let mut state = self.state.lock();
        let open = &mut state.jobs.get_mut(task)?.open;
        let at = open.iter().position(|question| question.request.key == key)?;
        Some(open.remove(at))
    }

    /// The answer did not leave: the question stands.
    pub(super) fn put_back(&self, task: &str, question: Question) {
        if let Some(job) = self.state.lock().jobs.get_mut(task) {
            job.open.push(question);
        }
    }

    /// Opens the stream of a task's questions, where it is not open, and one more may be.
    pub(super) fn open_stream(&self, task: &str) -> Option<Arc<CancelToken>> {
        let mut state = self.state.lock();
        if state.closed || state.streams >= MOST_STREAMS {
            return None;
        }
        let job = state.jobs.get_mut(task)?;
        if job.stream.is_some() || job.result.is_some() {
            return None;
        }
        let token: Arc<CancelToken> = Arc::default();
        job.stream = Some(token.clone());
        state.streams += 1;
        Some(token)
    }

    /// The stream is over. With a result: the task as it has ended, where nobody has told so yet.
    pub(super) fn stream_over(
        &self,
        task: &str,
        token: &Arc<CancelToken>,
        result: Option<Json>,
    ) -> Option<Result<Box<Task>>> {
        let mut state = self.state.lock();
        state.streams -= 1;
        let job = state.jobs.get_mut(task)?;
        if !job.stream.as_ref().is_some_and(|own| Arc::ptr_eq(own, token)) {
            return None;
        }
        job.stream = None;
        // What came on a stream that broke may still be answered.
        let result = result?;
        job.open.clear();
        let task = job.last.completed(&result).map(Box::new);
        job.result = Some(result);
        Some(task)
    }

    /// What `tasks/result` has brought already.
    pub(super) fn result(&self, task: &str) -> Option<Json> {
        self.state.lock().jobs.get(task)?.result.clone()
    }

    /// `tasks/result` was refused once more: how often in a row.
    pub(super) fn refused(&self, task: &str) -> u32 {
        self.state.lock().jobs.get_mut(task).map_or(u32::MAX, |job| {
            job.refusals = job.refusals.saturating_add(1);
            job.refusals
        })
    }

    /// Nobody follows the task any more.
    pub(super) fn over(&self, task: &str) {
        let job = {
            let mut state = self.state.lock();
            if state.gone.len() >= MOST_GONE {
                state.gone.pop_front();
            }
            state.gone.push_back(task.to_owned());
            state.jobs.remove(task)
        };
        if let Some(stream) = job.and_then(|job| job.stream) {
            stream.cancel(Why::Host);
        }
    }

    /// A session began in place of another: what was asked in that one cannot be answered any more.
    pub(super) fn renewed(&self, session: u64) {
        let mut streams = Vec::new();
        {
            let mut state = self.state.lock();
            for job in state.jobs.values_mut() {
                job.open.retain(|question| question.session() == session);
                streams.extend(job.stream.take());
            }
            state.early.retain(|early| !matches!(early, Early::Asked(_, question) if question.session() != session));
        }
        // Each was opened in that session; the next poll opens one in this.
        for stream in streams {
            stream.cancel(Why::Host);
        }
    }

    /// The session ends.
    pub(super) fn close(&self) {
        let streams: Vec<Arc<CancelToken>> = {
            let mut state = self.state.lock();
            state.closed = true;
            state.jobs.values().filter_map(|job| job.stream.clone()).collect()
        };
        for stream in streams {
            stream.cancel(Why::Closing);
        }
    }

    fn expected_over(&self) -> Vec<(String, Question)> {
        let mut state = self.state.lock();
        state.expected -= 1;
        if state.expected > 0 {
            return Vec::new();
        }
        let early = std::mem::take(&mut state.early);
        early
            .into_iter()
            .filter_map(|early| match early {
                Early::Asked(task, question) => Some((task, question)),
                Early::Status(_) => None,
            })
            .collect()
    }
}

/// A call under way that may become a task.
pub(super) struct Expected(Arc<Jobs>);

impl Drop for Expected {
    fn drop(&mut self) {
        // Those that no task came for belong to none; whoever cannot answer says so.
        for (_, question) in self.0.expected_over() {
            question.ask_outside();
        }
    }
}

/// True where the questions of the task come by `tasks/result`.
pub(super) fn wants_stream(status: TaskStatus) -> bool {
    status == TaskStatus::InputRequired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(word: &str) -> LegacyTask {
        let text = format!(
            r#"{{"taskId":"t","status":"{word}","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}"#
        );
        LegacyTask::read(&Json::trusted(text)).unwrap()
    }

    #[test]
    fn what_was_on_its_way_when_a_task_ended_is_nobodys_news_and_leaves_nothing_behind() {
        let jobs = Jobs::new(8);
        assert!(matches!(jobs.told(status("working")), Told::Stranger));
        jobs.created(status("working")).unwrap();
        jobs.over("t");
        assert!(matches!(jobs.told(status("working")), Told::Nothing));
        assert!(jobs.polled(status("working")).1.is_ok());
        assert!(jobs.state.lock().jobs.is_empty());
        // Taken up again by its id: followed like any other.
        jobs.followed("t");
        assert!(jobs.polled(status("working")).1.is_ok());
        assert!(matches!(jobs.told(status("input_required")), Told::Open(_)));
        for n in 0..2 * MOST_GONE {
            jobs.over(&n.to_string());
        }
        assert_eq!(jobs.state.lock().gone.len(), MOST_GONE);
    }
}
