//! The ledger: what of a task must survive. A trait, the one in memory, and the one in a file (`sqlite.rs`: what a
//! client holds of it; `file.rs`: the file itself; `schema.rs`: its tables; `written.rs`: records as JSON).
//!
//! A record holds no credential. Its key is the server's *configured* identity and the task id, so that equal ids of
//! two servers never mix. Where several processes share a ledger, each task belongs to one of them at a time: whoever
//! takes it gets a new fencing token, and what carries an older one is refused.

mod file;
mod schema;
pub(crate) mod sqlite;
pub(crate) mod written;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::error::{Error, Kind, Result};
use crate::protocol::json::Json;
use crate::protocol::task::Task;
use crate::tasks::EndReason;
use crate::tasks::keys::StoredAnswer;

/// Which task: the server and its id there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TaskKey {
    /// The server's configured identity.
    pub server: Arc<str>,
    /// The server's id of the task.
    pub id: Arc<str>,
}

/// What the client knows of a task and the server does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskAbout {
    /// The server's configured identity.
    pub server: Arc<str>,
    /// The tool that was called.
    pub tool: String,
    /// The model's id of the call.
    pub tool_call_id: Option<String>,
    /// The host's own JSON.
    pub host: Option<Json>,
    /// A digest of the arguments.
    pub arguments_digest: Option<String>,
    /// False for private results: they are not stored.
    pub keep_result: bool,
}

/// One task as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Which task.
    pub key: TaskKey,
    /// The client's part.
    pub about: Arc<TaskAbout>,
    /// When the task was received, wall time.
    pub received: SystemTime,
    /// When this record was made, wall time.
    pub stored: SystemTime,
    /// The last answer of the server's; with the result, if there is one and it is to be kept.
    pub last: Option<Arc<Task>>,
    /// The keys that were answered.
    pub answers: Vec<StoredAnswer>,
    /// A cancel was asked for and has not reached the server.
    pub cancel_pending: bool,
    /// How it ended; never `Closed`, which ends a handle and no task.
    pub end: Option<EndReason>,
    /// The host has confirmed that it has the end.
    pub acknowledged: bool,
}

/// Who follows a task that was asked for by its id.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The ledger does not know the task.
    Unknown,
    /// It is the caller's from now on.
    Ours(Record),
    /// Another process, or another client, follows it.
    Elsewhere,
}

/// Keeps records. Called by one thread at a time for any one task, by several for different ones.
pub(crate) trait Ledger: Send + Sync {
    /// Stores a record in place of an older one of the same key. A new task, an answer, a cancel and an end are safe
    /// from a loss of power when this returns; a mere change of status from a crash of the process.
    ///
    /// # Errors
    /// [`Kind::State`] where the task was taken over by somebody else: nothing is stored, and nothing may be told.
    /// [`Kind::Ledger`] where it cannot be written; a ledger in a file then keeps it in memory and tries again.
    fn put(&self, record: Record) -> Result<()>;
    /// The newest answer about a task that has not ended; it changes nothing of what must be safe. A ledger in memory
    /// shares it, instead of keeping the older one beside it.
    fn share(&self, _key: &TaskKey, _last: &Arc<Task>) {}
    /// The record of a task.
    fn find(&self, key: &TaskKey) -> Result<Option<Record>>;
    /// Takes a task, unless somebody else follows it.
    fn take(&self, key: &TaskKey) -> Result<Taken> {
        Ok(self.find(key)?.map_or(Taken::Unknown, Taken::Ours))
    }
    /// Takes all outstanding tasks of a server that nobody follows: those of processes that ended.
    fn claim(&self, server: &str) -> Result<Vec<Record>> {
        let _ = server;
        Ok(Vec::new())
    }
    /// The tasks of a server that have not ended, or whose end is not acknowledged, in the order they were received:
    /// those that this ledger's owner follows.
    fn outstanding(&self, server: &str) -> Result<Vec<Record>>;
    /// The host has the end of this task: its result is dropped. False where there is no ended record, or it was
    /// acknowledged before.
    fn acknowledge(&self, key: &TaskKey) -> Result<bool>;
    /// Takes a record out. False where there is none.
    fn remove(&self, key: &TaskKey) -> Result<bool>;
    /// Takes out the records of ended tasks of a server stored before this moment, acknowledged or not; returns how
    /// many.
    fn purge(&self, server: &str, before: SystemTime) -> Result<usize>;
    /// False where somebody else has taken the task over: looked at just before something of it is told, so that a
    /// process that slept in between tells it no second time.
    fn holds(&self, key: &TaskKey) -> Result<bool> {
        let _ = key;
        Ok(true)
    }
    /// How often [`Self::tend`] is to be called; `None` for never.
    fn tend_every(&self) -> Option<Duration> {
        None
    }
    /// Renews the lease, writes what could not be written before, keeps the bounds. Returns the tasks that somebody
    /// else has taken over.
    fn tend(&self) -> Result<Vec<TaskKey>> {
        Ok(Vec::new())
    }
    /// Gives up the lease: whoever wants the tasks may have them at once.
    fn release(&self) {}
}

/// The error of a write that comes too late.
pub(crate) fn taken_over() -> Error {
    Error::new(Kind::State, "another process follows the task now")
}

impl Record {
    /// True where the end is known and what it brought was not stored: it has to be asked for again.
    pub(crate) fn wants_result(&self) -> bool {
        let private = !self.about.keep_result && !self.acknowledged;
        private && matches!(self.end, Some(EndReason::Completed | EndReason::Failed))
    }

    /// Drops the result and the text around it, and keeps how the task stood.
    pub(crate) fn drop_result(&mut self) {
        if let Some(last) = self.last.as_ref().filter(|last| last.status.is_terminal()) {
            let bare = Task { result: None, fault: None, raw: Json::trusted("{}"), ..Task::clone(last) };
            self.last = Some(Arc::new(bare));
        }
    }
}

/// The ledger in memory: it lives as long as the process.
#[derive(Debug)]
pub(crate) struct MemoryLedger {
    /// So many records of ended tasks are kept; beyond, the oldest ends go first.
    keep_ended: usize,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    records: HashMap<TaskKey, Record>,
    /// Ended tasks in the order of their ends; may name records that are gone.
    ended: VecDeque<TaskKey>,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::keeping(DEFAULT_KEEP_ENDED)
    }
}

impl MemoryLedger {
    /// A ledger that keeps so many ended tasks.
    pub(crate) fn keeping(keep_ended: usize) -> Self {
        Self { keep_ended, book: Mutex::default() }
    }
}

impl Ledger for MemoryLedger {
    fn put(&self, record: Record) -> Result<()> {
        let mut dropped = Vec::new();
        {
            let mut book = self.book.lock();
            let (key, ended) = (record.key.clone(), record.end.is_some());
            let old = book.records.insert(key.clone(), record);
            if ended && old.as_ref().is_none_or(|old| old.end.is_none()) {
                book.ended.push_back(key);
            }
            dropped.extend(old);
            while book.ended.len() > self.keep_ended {
                let Some(oldest) = book.ended.pop_front() else {
                    break;
                };
                // A task that is followed anew after its end has a record that is not ended: it stays.
                if book.records.get(&oldest).is_some_and(|record| record.end.is_some()) {
                    dropped.extend(book.records.remove(&oldest));
                }
            }
        }
        // Large results are freed after unlocking.
        drop(dropped);
        Ok(())
    }

    fn share(&self, key: &TaskKey, last: &Arc<Task>) {
        let _old = {
            let mut book = self.book.lock();
            book.records
                .get_mut(key)
                .filter(|record| record.end.is_none())
                .and_then(|record| record.last.replace(last.clone()))
        };
    }

    fn find(&self, key: &TaskKey) -> Result<Option<Record>> {
        Ok(self.book.lock().records.get(key).cloned())
    }

    fn outstanding(&self, server: &str) -> Result<Vec<Record>> {
        let mut found: Vec<Record> = {
            let book = self.book.lock();
            let wanted =
                |record: &&Record| *record.key.server == *server && !(record.end.is_some() && record.acknowledged);
            book.records.values().filter(wanted).cloned().collect()
        };
        found.sort_by(|a, b| (a.received, &a.key).cmp(&(b.received, &b.key)));
        Ok(found)
    }

    fn acknowledge(&self, key: &TaskKey) -> Result<bool> {
        let mut book = self.book.lock();
        let Some(record) = book.records.get_mut(key).filter(|record| record.end.is_some()) else {
            return Ok(false);
        };
        let first = !std::mem::replace(&mut record.acknowledged, true);
        record.drop_result();
        Ok(first)
    }

    fn remove(&self, key: &TaskKey) -> Result<bool> {
        let old = self.book.lock().records.remove(key);
        Ok(old.is_some())
    }

    fn purge(&self, server: &str, before: SystemTime) -> Result<usize> {
        let mut gone = Vec::new();
        {
            let mut book = self.book.lock();
            let old: Vec<TaskKey> = book
                .records
                .values()
                .filter(|record| *record.key.server == *server && record.end.is_some() && record.stored < before)
                .map(|record| record.key.clone())
                .collect();
            gone.extend(old.iter().filter_map(|key| book.records.remove(key)));
            let Book { records, ended } = &mut *book;
            ended.retain(|key| records.contains_key(key));
        }
        Ok(gone.len())
    }
}

/// Chosen: enough for a host that looks at its results late, little enough for one that never does.
const DEFAULT_KEEP_ENDED: usize = 1_000;

#[cfg(test)]
mod tests;
