//! Sessions of the legacy eras: what was agreed, what was asked, and the event streams that can be resumed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::old_tasks::{self, OldTasks, Where};
use crate::tasks::Store;
use crate::world::Change;

/// Those that live and those that are known to be lost.
#[derive(Default)]
pub(crate) struct Sessions {
    live: BTreeMap<String, Session>,
    lost: BTreeSet<String>,
}

/// One client, from `initialize` on.
#[derive(Default)]
pub(crate) struct Session {
    /// The revision agreed on; `None` before `initialize`.
    pub(crate) version: Option<String>,
    /// What the client can do.
    pub(crate) client: Value,
    /// `notifications/initialized` has come.
    pub(crate) ready: bool,
    pub(crate) level: Option<String>,
    pub(crate) resources: HashSet<String>,
    changes_at: usize,
    asked: u64,
    /// By the text of the question's id: the whole answer.
    answers: HashMap<String, Value>,
    cancelled: HashSet<String>,
    /// The first is the one of GET.
    streams: Vec<Stream>,
    delivered: usize,
    /// How far the changes of tasks have been told.
    journal_at: usize,
    /// By the text of the question's id: the task that asks, and its key there.
    task_questions: HashMap<String, (String, String)>,
}

/// What has been said on one stream; an event without a message is null.
#[derive(Default)]
struct Stream {
    events: Vec<Value>,
    done: bool,
}

impl Sessions {
    pub(crate) fn open(&mut self, key: &str, changes_at: usize) {
        let session = Session { changes_at, streams: vec![Stream::default()], ..Session::default() };
        self.live.insert(key.to_owned(), session);
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Session> {
        self.live.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Session> {
        self.live.get_mut(key)
    }

    /// False if there was no such session.
    pub(crate) fn end(&mut self, key: &str) -> bool {
        self.lost.insert(key.to_owned());
        self.live.remove(key).is_some()
    }

    /// As a restart would.
    pub(crate) fn forget_all(&mut self) {
        let live = std::mem::take(&mut self.live);
        self.lost.extend(live.into_keys());
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// How many there have been.
    pub(crate) fn made(&self) -> usize {
        self.live.len() + self.lost.len()
    }
}

impl Session {
    /// The id for the next question of the server.
    pub(crate) fn next_question(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// The id for a question of a task's; `None` where it was asked before.
    pub(crate) fn ask_for(&mut self, task: &str, key: &str) -> Option<u64> {
        let question = (task.to_owned(), key.to_owned());
        if self.task_questions.values().any(|asked| *asked == question) {
            return None;
        }
        let id = self.next_question();
        self.task_questions.insert(id.to_string(), question);
        Some(id)
    }

    /// The question of a task's with this id.
    pub(crate) fn task_question(&self, id: &Value) -> Option<(String, String)> {
        self.task_questions.get(&id.to_string()).cloned()
    }

    pub(crate) fn answer(&mut self, message: &Value) {
        self.answers.insert(message["id"].to_string(), message.clone());
    }

    pub(crate) fn answer_to(&self, id: &Value) -> Option<&Value> {
        self.answers.get(&id.to_string())
    }

    pub(crate) fn cancel(&mut self, id: &Value) {
        self.cancelled.insert(id.to_string());
    }

    pub(crate) fn is_cancelled(&self, id: &Value) -> bool {
        self.cancelled.contains(&id.to_string())
    }

    pub(crate) fn new_stream(&mut self) -> usize {
        self.streams.push(Stream::default());
        self.streams.len() - 1
    }

    /// Keeps an event; its number on the stream.
    pub(crate) fn keep(&mut self, stream: usize, event: Value) -> usize {
        let Some(stream) = self.streams.get_mut(stream) else {
            return 0;
        };
        stream.events.push(event);
        stream.events.len() - 1
    }

    pub(crate) fn finish(&mut self, stream: usize) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.done = true;
        }
    }

    /// Whether a reader of the stream at this event has something to do; without a place, at the first undelivered.
    pub(crate) fn has_news(&self, stream: usize, at: Option<usize>, changes: &[Change], journal: usize) -> bool {
        let at = at.unwrap_or(self.delivered);
        let changed = stream == 0 && (self.changes_at < changes.len() || self.journal_at < journal);
        changed || self.streams.get(stream).is_none_or(|stream| stream.done || stream.events.len() > at)
    }

    /// The next event, with its number.
    pub(crate) fn take(&mut self, stream: usize, at: Option<usize>) -> Option<(usize, Value)> {
        let number = at.unwrap_or(self.delivered);
        let event = self.streams.get(stream)?.events.get(number)?.clone();
        if stream == 0 {
            self.delivered = self.delivered.max(number + 1);
        }
        Some((number, event))
    }

    pub(crate) fn is_done(&self, stream: usize) -> bool {
        self.streams.get(stream).is_none_or(|stream| stream.done)
    }

    /// Turns changes of tasks into notifications, and their questions into requests, on the GET stream.
    pub(crate) fn collect_tasks(&mut self, tasks: &Store, options: &OldTasks, clock: &Clock) {
        let ids: Vec<String> = tasks.journal()[self.journal_at..].to_vec();
        self.journal_at = tasks.journal().len();
        if !self.ready || !options.on {
            return;
        }
        for id in ids {
            if options.status != Where::Nowhere
                && let Some((_, task)) = tasks.pushed(&id, clock)
            {
                self.keep(0, old_tasks::notification(task));
            }
            if options.input == Where::Get {
                for question in old_tasks::questions(self, tasks, &id, clock) {
                    self.keep(0, question);
                }
            }
        }
    }

    /// Turns changes into notifications on the GET stream.
    pub(crate) fn collect(&mut self, changes: &[Change]) {
        for change in &changes[self.changes_at..] {
            let message = match change {
                Change::Tools => json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                Change::Prompts => json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}),
                Change::Resources => json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}),
                Change::Resource(uri) if self.resources.contains(uri) => {
                    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
                }
                Change::Resource(_) => continue,
            };
            if self.ready {
                self.keep(0, message);
            }
        }
        self.changes_at = changes.len();
    }
}
