//! One suite for every ledger: each promise of the trait is a function over `&dyn Ledger`.

use super::*;
use crate::clock::{Clock, ManualClock};

mod disk;
mod files;
mod leases;
mod power;

use super::file::LedgerFile;
use super::sqlite::{FileOptions, Sitter, SqliteLedger};

/// A folder of a test's own, gone with it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        static LAST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcpnative-ledger-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.join("tasks.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn key(server: &str, id: &str) -> TaskKey {
    TaskKey { server: server.into(), id: id.into() }
}

fn record(server: &str, id: &str, received: u64) -> Record {
    let about = TaskAbout {
        server: server.into(),
        tool: "dig".into(),
        tool_call_id: Some("call_1".into()),
        host: Some(Json::trusted(r#"{"conversation":7}"#)),
        arguments_digest: Some("abc".into()),
        keep_result: true,
    };
    Record {
        key: key(server, id),
        about: Arc::new(about),
        received: wall(received),
        stored: wall(received),
        last: Some(task(id, r#""status":"working""#)),
        answers: vec![StoredAnswer { key: "k".into(), response: Some(Json::trusted(r#"{"action":"accept"}"#)) }],
        cancel_pending: true,
        end: None,
        acknowledged: false,
    }
}

fn ended(server: &str, id: &str, received: u64) -> Record {
    Record {
        end: Some(EndReason::Completed),
        last: Some(task(id, r#""status":"completed","result":{"content":[]}"#)),
        answers: Vec::new(),
        cancel_pending: false,
        ..record(server, id, received)
    }
}

fn task(id: &str, members: &str) -> Arc<Task> {
    let text = format!(r#"{{"taskId":"{id}",{members}}}"#);
    Arc::new(Task::read(&Json::parse(&text).unwrap()).unwrap())
}

fn ids(records: Vec<Record>) -> Vec<String> {
    records.into_iter().map(|record| record.key.id.to_string()).collect()
}

type Promise = fn(&dyn Ledger);

/// All promises of the trait, each on a ledger of its own.
fn suite(fresh: &dyn Fn() -> Arc<dyn Ledger>) {
    let promises: [(&str, Promise); 6] = [
        ("a record comes back as it was put", comes_back),
        ("a later record replaces an earlier one", replaces),
        ("corner 15: equal ids of two servers never mix", never_mix),
        ("outstanding lists what the host still has to hear of", outstanding),
        ("an acknowledged result is dropped", acknowledges),
        ("purge takes old ends only", purges),
    ];
    for (name, promise) in promises {
        println!("{name}");
        promise(&*fresh());
    }
}

fn comes_back(ledger: &dyn Ledger) {
    assert_eq!(ledger.find(&key("s", "1")).unwrap(), None);
    ledger.put(record("s", "1", 5)).unwrap();
    assert_eq!(ledger.find(&key("s", "1")).unwrap(), Some(record("s", "1", 5)));
    assert!(ledger.remove(&key("s", "1")).unwrap());
    assert!(!ledger.remove(&key("s", "1")).unwrap());
    assert_eq!(ledger.find(&key("s", "1")).unwrap(), None);
}

fn replaces(ledger: &dyn Ledger) {
    ledger.put(record("s", "1", 5)).unwrap();
    ledger.put(ended("s", "1", 5)).unwrap();
    assert_eq!(ledger.find(&key("s", "1")).unwrap(), Some(ended("s", "1", 5)));
}

fn never_mix(ledger: &dyn Ledger) {
    ledger.put(record("s", "1", 5)).unwrap();
    ledger.put(ended("other", "1", 6)).unwrap();
    assert_eq!(ledger.find(&key("s", "1")).unwrap(), Some(record("s", "1", 5)));
    assert!(ledger.remove(&key("other", "1")).unwrap());
    assert_eq!(ids(ledger.outstanding("s").unwrap()), ["1"]);
}

fn outstanding(ledger: &dyn Ledger) {
    for (id, received) in [("late", 9), ("early", 1), ("middle", 5)] {
        ledger.put(record("s", id, received)).unwrap();
    }
    ledger.put(ended("s", "ended", 3)).unwrap();
    ledger.put(ended("s", "told", 4)).unwrap();
    assert!(ledger.acknowledge(&key("s", "told")).unwrap());
    ledger.put(record("other", "x", 2)).unwrap();
    assert_eq!(ids(ledger.outstanding("s").unwrap()), ["early", "ended", "middle", "late"]);
}

fn acknowledges(ledger: &dyn Ledger) {
    ledger.put(record("s", "open", 1)).unwrap();
    assert!(!ledger.acknowledge(&key("s", "open")).unwrap());
    assert!(!ledger.acknowledge(&key("s", "nowhere")).unwrap());
    ledger.put(ended("s", "done", 1)).unwrap();
    assert!(ledger.acknowledge(&key("s", "done")).unwrap());
    let left = ledger.find(&key("s", "done")).unwrap().unwrap();
    assert_eq!(ids(ledger.outstanding("s").unwrap()), ["open"]);
    assert_eq!((left.end, left.acknowledged), (Some(EndReason::Completed), true));
    assert!(left.last.is_some_and(|last| last.result.is_none() && last.raw.text() == "{}"));
}

fn purges(ledger: &dyn Ledger) {
    ledger.put(record("s", "old and open", 1)).unwrap();
    ledger.put(ended("s", "old", 1)).unwrap();
    ledger.put(ended("s", "new", 10)).unwrap();
    ledger.put(ended("other", "old", 1)).unwrap();
    assert_eq!(ledger.purge("s", wall(5)).unwrap(), 1);
    assert_eq!(ids(ledger.outstanding("s").unwrap()), ["old and open", "new"]);
}

#[test]
fn the_memory_ledger_keeps_all_promises() {
    suite(&|| Arc::new(MemoryLedger::default()));
}

#[test]
fn the_ledger_in_a_file_keeps_all_promises() {
    let folders = Mutex::new(Vec::new());
    suite(&|| {
        let folder = Folder::new();
        let clock = crate::clock::system();
        let options = FileOptions { lease: Duration::from_secs(3_600), ..FileOptions::default() };
        let ledger = SqliteLedger::open(&folder.file(), options, clock).unwrap();
        folders.lock().push(folder);
        ledger
    });
    assert_eq!(folders.lock().len(), 6);
}

#[test]
fn memory_keeps_a_bounded_number_of_ends_and_every_open_task() {
    let ledger = MemoryLedger::keeping(3);
    for id in 0..10u64 {
        ledger.put(record("s", &format!("open{id}"), id)).unwrap();
        ledger.put(ended("s", &format!("end{id}"), 100 + id)).unwrap();
        // Told again of the same end: counts once.
        ledger.put(ended("s", &format!("end{id}"), 100 + id)).unwrap();
    }
    let left = ids(ledger.outstanding("s").unwrap());
    assert_eq!(left.iter().filter(|id| id.starts_with("open")).count(), 10);
    assert_eq!(left[10..], ["end7", "end8", "end9"]);
}
