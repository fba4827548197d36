//! The ledger in a file, as one client holds it: a seat at the file, the fencing tokens of the tasks that are followed
//! from it, and what could not be written yet.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::os;
use crate::tasks::ledger::file::LedgerFile;
use crate::tasks::ledger::schema::{self, Tick};
use crate::tasks::ledger::written::{digest, nanos, write_answers};
use crate::tasks::ledger::{Ledger, Record, Taken, TaskKey, taken_over};

/// How a file is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileOptions {
    /// So many records of ended tasks are kept …
    pub keep_ended: usize,
    /// … and none older than this.
    pub keep: Duration,
    /// A process that gave no sign of life for so long counts as dead.
    pub lease: Duration,
}

impl Default for FileOptions {
    /// Chosen: a month of a busy host; a lease that a machine under heavy load keeps up.
    fn default() -> Self {
        Self { keep_ended: 10_000, keep: Duration::from_secs(30 * 86_400), lease: Duration::from_secs(15) }
    }
}

/// Who is at the file, and on which clock.
pub(super) struct Sitter {
    /// The name of the process, where others can ask about it.
    pub process: Option<String>,
    /// The clock that leases run on: this boot of the machine, or wall time.
    pub boot: Option<String>,
    pub clock: Arc<dyn Clock>,
}

/// A ledger in a file.
pub(crate) struct SqliteLedger {
    file: Arc<LedgerFile>,
    options: FileOptions,
    who: Sitter,
    clock_name: Arc<str>,
    seat: i64,
    /// Until when nobody else can have taken anything, in milliseconds on the clock of leases.
    until: AtomicI64,
    held: Mutex<HashMap<TaskKey, Held>>,
    /// What others have taken over: a late write of ours must not take it back, as a new task would.
    lost: Mutex<HashSet<TaskKey>>,
    /// Records that the file refused; they count more than what it has. Written again by [`Ledger::tend`].
    behind: Mutex<HashMap<TaskKey, Record>>,
    /// Shared by writers; alone while `behind` is written again, so that no older record comes after a newer one.
    /// True once the seat was given up.
    gate: RwLock<bool>,
}

/// A task that is followed from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    token: i64,
    /// Of what must survive a loss of power: answers, cancel, end.
    mark: u64,
}

impl SqliteLedger {
    /// Opens the file, or makes it, and takes a seat.
    ///
    /// # Errors
    /// [`Kind::Ledger`] saying what is wrong with it.
    pub(crate) fn open(path: &Path, options: FileOptions, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let who = Sitter { process: os::process_name(), boot: os::boot_id(), clock };
        Self::over(LedgerFile::open(path)?, options, who).map(Arc::new)
    }

    /// A seat at an open file.
    pub(super) fn over(file: Arc<LedgerFile>, options: FileOptions, who: Sitter) -> Result<Self> {
        let clock_name: Arc<str> = who.boot.as_deref().unwrap_or("wall").into();
        let now = tick(&who, &clock_name);
        let (process, until) = (who.process.clone(), lease_end(&now, options.lease));
        let seat = file.write(false, move |db| schema::sit(db, process.as_deref(), &now, until))?;
        let (held, lost, behind, gate) = (Mutex::default(), Mutex::default(), Mutex::default(), RwLock::new(false));
        let until = AtomicI64::new(until);
        Ok(Self { file, options, who, clock_name, seat, until, held, lost, behind, gate })
    }

    fn now(&self) -> Tick {
        tick(&self.who, &self.clock_name)
    }

    fn token(&self, key: &TaskKey) -> Option<i64> {
        self.held.lock().get(key).map(|held| held.token)
    }

    /// Writes a record; false where somebody else follows the task.
    fn store(&self, record: &Record) -> Result<bool> {
        let mark = mark(record);
        let known = self.held.lock().get(&record.key).copied();
        if self.lost.lock().contains(&record.key) {
            return Ok(false);
        }
        let durable = known.is_none_or(|held| held.mark != mark);
        let (record, seat) = (record.clone(), self.seat);
        let key = record.key.clone();
        let token = self.file.write(durable, move |db| match known {
            Some(Held { token, .. }) => Ok(schema::update(db, &record, token)?.then_some(token)),
            None => schema::insert(db, &record, seat).map(Some),
        })?;
        match token {
            Some(token) => self.held.lock().insert(key, Held { token, mark }),
            None => {
                self.lost.lock().insert(key.clone());
                self.held.lock().remove(&key)
            }
        };
        Ok(token.is_some())
    }

    fn hold(&self, (record, token): (Record, i64)) -> Record {
        self.held.lock().insert(record.key.clone(), Held { token, mark: mark(&record) });
        self.lost.lock().remove(&record.key);
        record
    }

    /// Takes away dead seats first, so that what they had is free.
    fn taking<T: Send + 'static>(
        &self,
        take: impl Fn(&rusqlite::Connection, i64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let released = self.gate.read();
        if *released {
            return Err(Error::new(Kind::Closed, "the client is closed"));
        }
        let (now, seat) = (self.now(), self.seat);
        self.file.write(false, move |db| {
            schema::bury(db, seat, &now, &os::is_gone)?;
            take(db, seat)
        })
    }

    /// Writes what the file refused before. The caller has the gate for itself.
    fn catch_up(&self) -> Result<()> {
        let waiting: Vec<Record> = self.behind.lock().values().cloned().collect();
        for record in waiting {
            // Taken over meanwhile: what we have of it is outdated.
            self.store(&record)?;
            self.behind.lock().remove(&record.key);
        }
        Ok(())
    }

    fn renew(&self) -> Result<Vec<TaskKey>> {
        let (now, seat, process) = (self.now(), self.seat, self.who.process.clone());
        let until = lease_end(&now, self.options.lease);
        let before = self.who.clock.wall().checked_sub(self.options.keep).map_or(i64::MIN, nanos);
        let most = self.options.keep_ended;
        let (kept, gone) = self.file.write(false, move |db| {
            let kept = schema::renew(db, seat, process.as_deref(), &now, until)?;
            Ok((kept, schema::keep_bounds(db, before, most)?))
        })?;
        self.until.store(until, Ordering::Release);
        self.let_go(&gone);
        if kept {
            return Ok(Vec::new());
        }
        // The lease had run out and somebody noticed: what was taken over shows by its token.
        let held: Vec<(TaskKey, Held)> = self.held.lock().iter().map(|(key, held)| (key.clone(), *held)).collect();
        let lost = self.file.read(|db| {
            let mut lost = Vec::new();
            for (key, held) in held {
                if schema::token_of(db, &key)? != Some(held.token) {
                    lost.push(key);
                }
            }
            Ok(lost)
        })?;
        self.lost.lock().extend(lost.iter().cloned());
        self.let_go(&lost);
        Ok(lost)
    }

    fn let_go(&self, keys: &[TaskKey]) {
        let mut held = self.held.lock();
        for key in keys {
            held.remove(key);
        }
    }
}

impl Ledger for SqliteLedger {
    fn put(&self, record: Record) -> Result<()> {
        let _shared = self.gate.read();
        match self.store(&record) {
            Ok(true) => {
                self.behind.lock().remove(&record.key);
                Ok(())
            }
            Ok(false) => {
                self.behind.lock().remove(&record.key);
                Err(taken_over())
            }
            Err(error) => {
                self.behind.lock().insert(record.key.clone(), record);
                Err(error)
            }
        }
    }

    fn find(&self, key: &TaskKey) -> Result<Option<Record>> {
        if let Some(record) = self.behind.lock().get(key) {
            return Ok(Some(record.clone()));
        }
        Ok(self.file.read(|db| schema::find(db, key))?.map(|(record, _)| record))
    }

    fn take(&self, key: &TaskKey) -> Result<Taken> {
        if let Some(record) = self.behind.lock().get(key) {
            return Ok(Taken::Ours(record.clone()));
        }
        let wanted = key.clone();
        Ok(match self.taking(move |db, seat| schema::take(db, &wanted, seat))? {
            None => Taken::Unknown,
            Some(None) => Taken::Elsewhere,
            Some(Some(found)) => Taken::Ours(self.hold(found)),
        })
    }

    fn claim(&self, server: &str) -> Result<Vec<Record>> {
        let server = server.to_owned();
        let found = self.taking(move |db, seat| schema::claim(db, &server, seat))?;
        Ok(found.into_iter().map(|found| self.hold(found)).collect())
    }

    fn outstanding(&self, server: &str) -> Result<Vec<Record>> {
        let stored = self.file.read(|db| schema::outstanding(db, server, self.seat));
        let behind = self.behind.lock();
        let mut found = match stored {
            Ok(found) => found,
            // What is known here is better than nothing.
            Err(_) if !behind.is_empty() => Vec::new(),
            Err(error) => return Err(error),
        };
        found.retain(|record| !behind.contains_key(&record.key));
        let ours = |record: &&Record| *record.key.server == *server && !(record.end.is_some() && record.acknowledged);
        found.extend(behind.values().filter(ours).cloned());
        found.sort_by(|a, b| (a.received, &a.key).cmp(&(b.received, &b.key)));
        Ok(found)
    }

    fn acknowledge(&self, key: &TaskKey) -> Result<bool> {
        let _shared = self.gate.read();
        if let Some(record) = self.behind.lock().get_mut(key).filter(|record| record.end.is_some()) {
            let first = !std::mem::replace(&mut record.acknowledged, true);
            record.drop_result();
            return Ok(first);
        }
        let Some(token) = self.token(key) else { return Ok(false) };
        let wanted = key.clone();
        // The token is kept: a write of the end that comes after this must not make a new task of it.
        self.file.write(true, move |db| schema::acknowledge(db, &wanted, token))
    }

    fn remove(&self, key: &TaskKey) -> Result<bool> {
        let _shared = self.gate.read();
        let behind = self.behind.lock().remove(key).is_some();
        let Some(token) = self.token(key) else { return Ok(behind) };
        let wanted = key.clone();
        let removed = self.file.write(true, move |db| schema::remove(db, &wanted, token))?;
        self.held.lock().remove(key);
        Ok(removed || behind)
    }

    fn purge(&self, server: &str, before: SystemTime) -> Result<usize> {
        let _alone = self.gate.write();
        let old = |record: &Record| *record.key.server == *server && record.end.is_some() && record.stored < before;
        let unwritten = self.behind.lock().extract_if(|_, record| old(record)).count();
        let (server, before) = (server.to_owned(), nanos(before));
        let gone = self.file.write(true, move |db| schema::purge(db, &server, before))?;
        self.let_go(&gone);
        Ok(gone.len().max(unwritten))
    }

    fn holds(&self, key: &TaskKey) -> Result<bool> {
        if self.lost.lock().contains(key) {
            return Ok(false);
        }
        // Within the lease nobody looks at the disk.
        let Some(token) = self.token(key).filter(|_| self.now().ms >= self.until.load(Ordering::Acquire)) else {
            return Ok(true);
        };
        Ok(self.file.read(|db| schema::token_of(db, key))?.is_none_or(|have| have == token))
    }

    fn tend_every(&self) -> Option<Duration> {
        Some(self.options.lease / 3)
    }

    fn tend(&self) -> Result<Vec<TaskKey>> {
        let lost = {
            let released = self.gate.read();
            if *released {
                return Ok(Vec::new());
            }
            self.renew()?
        };
        if !self.behind.lock().is_empty() {
            let _alone = self.gate.write();
            self.catch_up()?;
        }
        Ok(lost)
    }

    fn release(&self) {
        let mut released = self.gate.write();
        if std::mem::replace(&mut *released, true) {
            return;
        }
        // The last try; what is refused again was told of.
        let _caught_up = self.catch_up();
        let seat = self.seat;
        // A seat that stays is taken away when its lease runs out, or once its process is gone.
        let _freed = self.file.write(false, move |db| schema::stand_up(db, seat));
    }
}

fn tick(who: &Sitter, clock: &Arc<str>) -> Tick {
    let time = match who.boot {
        Some(_) => who.clock.boot(),
        None => who.clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
    };
    Tick { clock: clock.clone(), ms: i64::try_from(time.as_millis()).unwrap_or(i64::MAX) }
}

fn lease_end(now: &Tick, lease: Duration) -> i64 {
    now.ms.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}

fn mark(record: &Record) -> u64 {
    digest(&format!("{} {} {:?}", write_answers(&record.answers), record.cancel_pending, record.end))
}
