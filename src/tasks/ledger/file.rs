//! The ledger's file: opened with care, written in shared transactions. One for each path and process.
//!
//! Whoever writes puts its work into the queue and waits for the connection; the one that gets it does all that is
//! queued by then in one transaction. So under load many writes share one commit, and a single write waits for nobody.
//! Only what must survive a loss of power is synced (`synchronous=FULL` in WAL mode: one fsync for each commit); all
//! else is in the hands of the system when the write returns, which survives a crash of the process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::{Error, Kind, Result, one_line};
use crate::tasks::ledger::schema::{APPLICATION, MIGRATIONS, VERSION};

/// How long a lock of another process is waited for (chosen: our own transactions take milliseconds).
const BUSY: Duration = Duration::from_secs(3);

/// The open files of this process.
static OPEN: Mutex<Vec<(PathBuf, Weak<LedgerFile>)>> = Mutex::new(Vec::new());

/// A file that is open.
pub(super) struct LedgerFile {
    name: String,
    link: Mutex<Link>,
    queue: Mutex<Vec<Job>>,
}

struct Link {
    db: Connection,
    /// Whether commits are synced now.
    full: bool,
}

type Work = dyn Fn(&Connection) -> rusqlite::Result<()> + Send;

/// A piece of work that waits for its transaction. It may run twice: alone, where the shared one failed.
struct Job {
    durable: bool,
    work: Box<Work>,
    outcome: Arc<Mutex<Option<Result<()>>>>,
}

impl fmt::Debug for LedgerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger {}", self.name)
    }
}

impl LedgerFile {
    /// Opens a file, or makes it. Clients of one process share it.
    ///
    /// # Errors
    /// [`Kind::Ledger`] where it is locked, cannot be written, is damaged, is no ledger of ours, or comes from a newer
    /// version; it is then left as it was.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>> {
        let name = one_line(&path.display().to_string());
        look(path, &name)?;
        let real = path.canonicalize().map_err(|fault| wrong(&name, &fault.to_string()))?;
        // Held while opening: two clients that open at once share one file.
        let mut open = OPEN.lock();
        open.retain(|(_, file)| file.strong_count() > 0);
        if let Some(file) = open.iter().find(|(have, _)| *have == real).and_then(|(_, file)| file.upgrade()) {
            return Ok(file);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&real, flags).map_err(|fault| explain(&name, &fault))?;
        let file = Arc::new(Self::over(db, name)?);
        close_to_others(&real);
        open.push((real, Arc::downgrade(&file)));
        Ok(file)
    }

    /// A file around a connection: checks what it is before anything is written to it.
    pub(super) fn over(db: Connection, name: String) -> Result<Self> {
        prepare(&db, &name)?;
        Ok(Self { name, link: Mutex::new(Link { db, full: false }), queue: Mutex::default() })
    }

    /// Does some work in a transaction; what the work returns is stored when this returns, also against a loss of
    /// power where `durable`.
    pub(super) fn write<T: Send + 'static>(
        &self,
        durable: bool,
        work: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (found, outcome): (Arc<Mutex<Option<T>>>, _) = (Arc::default(), Arc::new(Mutex::new(None)));
        let put = found.clone();
        let work = move |db: &Connection| {
            let value = work(db)?;
            *put.lock() = Some(value);
            Ok(())
        };
        self.queue.lock().push(Job { durable, work: Box::new(work), outcome: outcome.clone() });
        let mut link = self.link.lock();
        if outcome.lock().is_none() {
            let jobs = std::mem::take(&mut *self.queue.lock());
            self.run(&mut link, &jobs);
        }
        drop(link);
        let done = outcome.lock().take();
        done.unwrap_or_else(|| Err(wrong(&self.name, "the write was lost")))?;
        let value = found.lock().take();
        value.ok_or_else(|| wrong(&self.name, "the write returned nothing"))
    }

    /// Reads without a transaction of its own.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        look(&self.link.lock().db).map_err(|fault| explain(&self.name, &fault))
    }

    fn run(&self, link: &mut Link, jobs: &[Job]) {
        let shared = link.commit(jobs);
        if shared.is_err() && jobs.len() > 1 {
            // One of them may be the reason (too large, say): each for itself, so that it takes no other along.
            for job in jobs {
                let alone = link.commit(std::slice::from_ref(job));
                *job.outcome.lock() = Some(alone.map_err(|fault| explain(&self.name, &fault)));
            }
            return;
        }
        let shared = shared.map_err(|fault| explain(&self.name, &fault));
        for job in jobs {
            *job.outcome.lock() = Some(shared.clone());
        }
    }
}

impl Link {
    fn commit(&mut self, jobs: &[Job]) -> rusqlite::Result<()> {
        let full = jobs.iter().any(|job| job.durable);
        if full != self.full {
            self.db.pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" })?;
            self.full = full;
        }
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for job in jobs {
            (job.work)(&transaction)?;
        }
        transaction.commit()
    }
}

/// Looks at a file before SQLite does, and makes it where there is none, for its owner alone.
fn look(path: &Path, name: &str) -> Result<()> {
    let io = |fault: std::io::Error| wrong(name, &fault.to_string());
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(wrong(name, "it is no file")),
        Ok(found) if found.len() > 0 => {}
        Ok(_) => return Ok(()),
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            return options.open(path).map(drop).map_err(io);
        }
        Err(fault) => return Err(io(fault)),
    }
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, 100), &mut head).map_err(io)?;
    // <https://sqlite.org/fileformat2.html>, "The Database Header".
    let number = |at: usize| head.get(at..at + 4).and_then(|four| four.try_into().ok()).map(i32::from_be_bytes);
    if !head.starts_with(b"SQLite format 3\0") {
        return Err(wrong(name, "it is no ledger: another program's file, or a damaged one"));
    }
    match (number(68), number(60)) {
        (Some(APPLICATION), Some(version)) => known(version, name),
        (Some(_), _) => Err(wrong(name, FOREIGN)),
        (None, _) => Err(wrong(name, TRUNCATED)),
    }
}

const FOREIGN: &str = "it is the database of another program";
const TRUNCATED: &str = "it is damaged: its end is missing";

fn known(version: i32, name: &str) -> Result<()> {
    if version <= VERSION {
        return Ok(());
    }
    Err(wrong(
        name,
        &format!(
            "it was written by a newer version of this library (its tables are of version {version}, here {VERSION} is known)"
        ),
    ))
}

/// The file belongs to its owner; SQLite gives its side files the same rights. Best effort: a file system without
/// such rights is no reason to lose a task.
fn close_to_others(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
        if open {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap_or_default();
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

fn prepare(db: &Connection, name: &str) -> Result<()> {
    let explain = |fault: rusqlite::Error| explain(name, &fault);
    // Until the file is known to be ours, a close does not even move what stands in its log.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(explain)?;
    db.busy_timeout(BUSY).map_err(explain)?;
    if db.is_readonly("main").map_err(explain)? {
        return Err(wrong(name, "it cannot be written (read-only)"));
    }
    let number = |pragma: &str| db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i32>(0));
    let tables = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).map_err(explain)?;
    let (application, version) = (number("application_id").map_err(explain)?, number("user_version").map_err(explain)?);
    if application != APPLICATION && (tables, application, version) != (0, 0, 0) {
        return Err(wrong(name, FOREIGN));
    }
    known(version, name)?;
    let sound: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(explain)?;
    if sound != "ok" {
        return Err(wrong(name, &format!("it is damaged: {}", one_line(&sound))));
    }
    if version < VERSION {
        migrate(db).map_err(explain)?;
    }
    write_ahead(db, name)?;
    // On macOS a plain fsync leaves the data in the drive's own memory.
    for pragma in ["fullfsync", "checkpoint_fullfsync"] {
        db.pragma_update(None, pragma, true).map_err(explain)?;
    }
    db.pragma_update(None, "synchronous", "NORMAL").map_err(explain)?;
    db.set_prepared_statement_cache_capacity(32);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(drop).map_err(explain)
}

/// Brings the tables up to this version: all steps or none.
fn migrate(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN EXCLUSIVE")?;
    let moved = steps(db).and_then(|()| db.execute_batch("COMMIT"));
    if moved.is_err() && !db.is_autocommit() {
        // The first fault says more than one of the way back.
        db.execute_batch("ROLLBACK").unwrap_or_default();
    }
    moved
}

fn steps(db: &Connection) -> rusqlite::Result<()> {
    // Asked again: another process may have done it meanwhile.
    let version: i32 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let from = usize::try_from(version).unwrap_or(0);
    for step in MIGRATIONS.iter().skip(from) {
        db.execute_batch(step)?;
    }
    db.pragma_update(None, "application_id", APPLICATION)?;
    db.pragma_update(None, "user_version", VERSION)
}

/// Turns the write-ahead log on. SQLite does not wait for a lock here by itself.
fn write_ahead(db: &Connection, name: &str) -> Result<()> {
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        let mode = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => return Err(wrong(name, &format!("it cannot have a write-ahead log here (mode {mode})"))),
            Err(fault) if fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                // This waits.
                let waited = db.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
                waited.map_err(|fault| explain(name, &fault))?;
            }
            Err(fault) => return Err(explain(name, &fault)),
        }
    }
    Err(wrong(name, LOCKED))
}

const LOCKED: &str = "it is locked by another program";

/// What went wrong with a file, in words.
pub(super) fn explain(name: &str, fault: &rusqlite::Error) -> Error {
    let what = match fault.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            LOCKED.to_owned()
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "it cannot be written (read-only)".to_owned(),
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::NotADatabase) => "it is no ledger: another program's file, or a damaged one".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => format!("it is damaged: {}", one_line(&fault.to_string())),
        _ => one_line(&fault.to_string()),
    };
    wrong(name, &what)
}

fn wrong(name: &str, what: &str) -> Error {
    Error::new(Kind::Ledger, format!("the ledger {name} cannot be used: {what}"))
}
