//! The file: what is stored comes back, and what is wrong with a file is said while nothing is damaged.

use super::*;
use rusqlite::Connection;

fn open(path: &std::path::Path) -> Result<Arc<SqliteLedger>> {
    SqliteLedger::open(path, FileOptions::default(), crate::clock::system())
}

fn refused(path: &std::path::Path) -> String {
    let before = std::fs::read(path).unwrap_or_default();
    let error = open(path).err().expect("the file is refused");
    assert_eq!(error.kind(), Kind::Ledger);
    assert_eq!(std::fs::read(path).unwrap_or_default(), before, "a refused file is left as it was");
    let words = error.message().split_once("cannot be used: ").unwrap().1;
    words.to_owned()
}

#[test]
fn every_text_comes_back_byte_for_byte_also_from_another_opening() {
    let folder = Folder::new();
    let texts = [
        r#""status":"working","statusMessage":"ä\u0000\n","pollIntervalMs":1e3,"ttlMs":null,"x":[1.00, 9007199254740993]"#,
        r#""status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}},"z":{"method":"new/kind"}}"#,
        r#""status":"completed","result":{"content":[ ],"n":1E400}"#,
        r#""status":"failed","error":{"code":-32050,"message":"no disk","data":{"free":0}}"#,
    ];
    let mut want = Vec::new();
    let ledger = open(&folder.file()).unwrap();
    for (index, text) in texts.iter().enumerate() {
        let id = format!("t{index}");
        let mut one = Record { last: Some(task(&id, text)), ..record("s", &id, index as u64) };
        one.answers.push(StoredAnswer { key: "ü\"".into(), response: None });
        ledger.put(one.clone()).unwrap();
        want.push(one);
    }
    // Of another generation: what was read is not what `Task::read` makes of the text.
    let other = Task {
        raw: Json::trusted(r#"{"taskId":"t4","status":"working","ttl":5}"#),
        ..Task::clone(&task("t4", texts[1]))
    };
    want.push(Record { last: Some(Arc::new(other)), ..record("s", "t4", 9) });
    ledger.put(want[4].clone()).unwrap();
    want.push(Record { last: None, answers: Vec::new(), ..record("s", "t5", 10) });
    ledger.put(want[5].clone()).unwrap();
    ledger.release();
    drop(ledger);
    let again = open(&folder.file()).unwrap();
    assert_eq!(again.claim("s").unwrap(), want);
    for record in want {
        assert_eq!(written::import(&written::export(&record)).unwrap(), record, "and as JSON");
    }
}

#[test]
fn an_import_says_what_is_wrong() {
    for (text, want) in [
        ("[]", "record: expected a JSON object"),
        ("{}", "record: form is missing; expected what mcp_task_export() wrote"),
        (r#"{"form":2}"#, "record: form 2 is newer than this library"),
        (r#"{"form":1,"server":"s"}"#, "record: received_ns is missing"),
        (r#"{"form":1,"server":"s","received_ns":1,"stored_ns":1}"#, "record: task_id is missing"),
        (
            r#"{"form":1,"server":"s","task_id":"a","last":{"taskId":"b","status":"working"}}"#,
            "record: last is about another task",
        ),
        (r#"{"form":1,"server":"s","task_id":"a","reason":"lost"}"#, "record: reason is not known"),
    ] {
        let message = written::import(text).unwrap_err();
        let found = message.message();
        // Which of several missing members is named first does not matter.
        assert!(found == want || (want.ends_with("is missing") && found.ends_with("is missing")), "{text}: {found}");
    }
}

#[cfg(unix)]
#[test]
fn the_file_and_its_side_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let ledger = open(&folder.file()).unwrap();
    ledger.put(record("s", "1", 1)).unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder.0).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.file_name().into_string().unwrap());
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
    found.sort();
    assert_eq!(found, ["tasks.db", "tasks.db-shm", "tasks.db-wal"]);
    drop(ledger);
    std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(open(&folder.file()).unwrap());
    assert_eq!(std::fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn corner_20_foreign_newer_and_damaged_files_are_refused_and_left_alone() {
    let folder = Folder::new();
    let path = folder.file();
    std::fs::write(&path, "remember the milk\n").unwrap();
    assert_eq!(refused(&path), "it is no ledger: another program's file, or a damaged one");

    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(refused(&path), "it is the database of another program");

    std::fs::remove_file(&path).unwrap();
    let ledger = open(&path).unwrap();
    for n in 0..200u64 {
        ledger.put(ended("s", &format!("t{n}"), n)).unwrap();
    }
    ledger.release();
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();

    std::fs::write(&path, &whole[..60]).unwrap();
    assert_eq!(refused(&path), "it is damaged: its end is missing");
    for length in [whole.len() / 2, whole.len() - 4096] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(refused(&path).starts_with("it is damaged"), "cut at {length}");
    }
    let mut spoiled = whole.clone();
    spoiled[8192..12288].fill(0xff);
    std::fs::write(&path, &spoiled).unwrap();
    assert!(refused(&path).starts_with("it is damaged"));

    std::fs::write(&path, &whole).unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let words = refused(&path);
    assert!(words.contains("newer version") && words.contains("version 99"), "{words}");
    // The same where the newer version still stands in the log alone.
    std::fs::write(&path, &whole).unwrap();
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 98).unwrap();
    assert!(refused(&path).contains("version 98"));
    drop(newer);

    std::fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).unwrap().claim("s").unwrap().len(), 200, "the good file is as good as before");
}

#[test]
fn corner_20_a_locked_or_unwritable_place_is_said() {
    let folder = Folder::new();
    drop(open(&folder.file()).unwrap());
    let other = Connection::open(folder.file()).unwrap();
    other.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = open(&folder.file()).err().unwrap();
    assert!(error.message().ends_with("it is locked by another program"), "{error}");
    drop(other);
    open(&folder.file()).unwrap();
    let error = open(&folder.0).err().unwrap();
    assert!(error.message().ends_with("it is no file"), "{error}");
    let error = open(&folder.0.join("none/tasks.db")).err().unwrap();
    assert_eq!(error.kind(), Kind::Ledger);
    assert!(error.message().contains("o such file"), "{error}");
}

#[cfg(unix)]
#[test]
fn corner_20_a_read_only_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    drop(open(&folder.file()).unwrap());
    std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o400)).unwrap();
    if std::fs::OpenOptions::new().append(true).open(folder.file()).is_ok() {
        // The superuser writes to anything: the same way is shown by a connection that may not.
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = Connection::open_with_flags(folder.file(), flags).unwrap();
        let error = LedgerFile::over(db, "x".into()).err().unwrap();
        assert!(error.message().ends_with("it cannot be written (read-only)"), "{error}");
        return;
    }
    assert_eq!(refused(&folder.file()), "it cannot be written (read-only)");
}

#[test]
fn an_empty_file_and_an_unfinished_one_become_ledgers() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "").unwrap();
    let ledger = open(&folder.file()).unwrap();
    ledger.put(record("s", "1", 1)).unwrap();
    assert_eq!(ledger.find(&key("s", "1")).unwrap(), Some(record("s", "1", 1)));
}

#[test]
fn clients_of_one_process_share_the_open_file() {
    let folder = Folder::new();
    let (one, two) = (LedgerFile::open(&folder.file()).unwrap(), LedgerFile::open(&folder.file()).unwrap());
    assert!(Arc::ptr_eq(&one, &two));
}

#[test]
fn a_file_keeps_its_bounds_and_acknowledged_ends_go_first() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000));
    let options = FileOptions { keep_ended: 3, keep: Duration::from_secs(100), ..FileOptions::default() };
    let ledger = SqliteLedger::open(&folder.file(), options, clock).unwrap();
    ledger.put(record("s", "open", 1)).unwrap();
    ledger.put(ended("s", "too old", 899)).unwrap();
    for n in 901..906u64 {
        ledger.put(ended("s", &format!("e{n}"), n)).unwrap();
    }
    assert!(ledger.acknowledge(&key("s", "e905")).unwrap());
    ledger.tend().unwrap();
    assert_eq!(ids(ledger.outstanding("s").unwrap()), ["open", "e902", "e903", "e904"]);
    assert_eq!(ledger.find(&key("s", "too old")).unwrap(), None);
    assert_eq!(ledger.find(&key("s", "e905")).unwrap(), None);
}

#[test]
fn many_writers_share_transactions_and_none_is_lost() {
    let folder = Folder::new();
    let ledger = open(&folder.file()).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test of threads")]
    std::thread::scope(|scope| {
        for writer in 0..8u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                for n in 0..50u64 {
                    ledger.put(record("s", &format!("{writer}-{n}"), n)).unwrap();
                }
            });
        }
    });
    assert_eq!(ledger.outstanding("s").unwrap().len(), 400);
}

#[test]
fn an_end_that_is_written_once_more_stays_acknowledged_and_a_new_life_is_new() {
    let folder = Folder::new();
    let ledger = open(&folder.file()).unwrap();
    ledger.put(ended("s", "1", 1)).unwrap();
    assert!(ledger.acknowledge(&key("s", "1")).unwrap());
    ledger.put(ended("s", "1", 1)).unwrap();
    assert!(ledger.outstanding("s").unwrap().is_empty());
    assert!(!ledger.acknowledge(&key("s", "1")).unwrap());
    // The server gives the same id to another task.
    ledger.put(record("s", "1", 2)).unwrap();
    assert_eq!(ids(ledger.outstanding("s").unwrap()), ["1"]);
}
