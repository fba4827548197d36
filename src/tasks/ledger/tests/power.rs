//! The two promises through a loss of power at every point: a handle whose `put` returned is there, a result is there
//! until it is acknowledged. And a disk that fails at any write.

use super::disk::{Disk, Left, Shared, mount};
use super::*;

fn ledger(disk: &Shared, boot: &str) -> Result<SqliteLedger> {
    let db = mount(disk).map_err(|fault| file::explain("x", &fault))?;
    // Often, so that checkpoints are cut, too.
    db.pragma_update(None, "wal_autocheckpoint", 8).map_err(|fault| file::explain("x", &fault))?;
    let file = Arc::new(LedgerFile::over(db, "x".into())?);
    let who = Sitter { process: None, boot: Some(boot.into()), clock: ManualClock::new() };
    SqliteLedger::over(file, FileOptions::default(), who)
}

/// What was promised: each is noted when the call returned, and "maybe" when it was begun.
#[derive(Debug, Default)]
struct Promised {
    handles: Vec<String>,
    answers: Vec<String>,
    results: Vec<String>,
    acknowledged: Vec<String>,
    maybe_acknowledged: Vec<String>,
    /// The last status that was put: not promised.
    status: Option<(String, Arc<Task>)>,
}

fn moved(id: &str, n: u64) -> Record {
    let text = format!(r#""status":"working","statusMessage":"step {n} {}""#, "x".repeat(300));
    Record { last: Some(task(id, &text)), ..open(id) }
}

fn open(id: &str) -> Record {
    Record { answers: Vec::new(), cancel_pending: false, ..record("s", id, 1) }
}

/// A day of a ledger; ends at the first failure.
fn work(ledger: &SqliteLedger, promised: &mut Promised) -> Result<()> {
    for n in 0..4 {
        let id = format!("t{n}");
        ledger.put(open(&id))?;
        promised.handles.push(id.clone());
        for step in 0..2 {
            let moved = moved(&id, step);
            ledger.put(moved.clone())?;
            promised.status = moved.last.map(|last| (id.clone(), last));
        }
        if n % 2 == 0 {
            ledger.put(Record { answers: record("s", &id, 1).answers, ..moved(&id, 9) })?;
            promised.answers.push(id.clone());
        }
        if n % 3 != 2 {
            ledger.put(ended("s", &id, 1))?;
            promised.results.push(id.clone());
        }
        if n % 3 == 0 {
            promised.maybe_acknowledged.push(id.clone());
            ledger.acknowledge(&key("s", &id))?;
            promised.acknowledged.push(id);
        }
        ledger.tend()?;
    }
    Ok(())
}

/// True where a status was lost that was not promised.
fn check(disk: &Shared, promised: &Promised, at: &str) -> bool {
    let db = mount(disk).unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "{at}");
    drop(db);
    let ledger = ledger(disk, "after").unwrap_or_else(|error| panic!("{at}: {error}"));
    let claimed = ids(ledger.claim("s").unwrap());
    for id in &promised.handles {
        let found = ledger.find(&key("s", id)).unwrap().unwrap_or_else(|| panic!("{at}: {id} is lost"));
        let (ended, maybe) = (promised.results.contains(id), promised.maybe_acknowledged.contains(id));
        if promised.acknowledged.contains(id) {
            assert!(found.acknowledged, "{at}: {id} would be delivered again");
        }
        assert!(claimed.contains(id) || maybe, "{at}: {id} is not followed");
        if ended && !maybe {
            let result = found.last.as_ref().and_then(|last| last.result.clone());
            assert_eq!(result, Some(Json::trusted(r#"{"content":[]}"#)), "{at}: the result of {id}");
        }
        if promised.answers.contains(id) && found.end.is_none() {
            assert_eq!(found.answers, record("s", id, 1).answers, "{at}: the answer of {id}");
        }
    }
    let older = |(id, last): &(String, Arc<Task>)| {
        let found = ledger.find(&key("s", id)).unwrap();
        found.is_some_and(|found| found.end.is_none() && found.last.as_ref() != Some(last))
    };
    let lost = promised.status.as_ref().is_some_and(older);
    // And it goes on from there.
    ledger.put(ended("s", "next", 2)).unwrap();
    lost
}

#[test]
fn a_loss_of_power_at_any_point_breaks_no_promise() {
    let disk = Disk::new();
    let mut promised = Promised::default();
    work(&ledger(&disk, "before").unwrap(), &mut promised).unwrap();
    let points = disk.lock().operations;
    assert!(points > 80 && promised.handles.len() == 4, "{points}");
    let mut lost = 0;
    for point in 0..=points {
        let (disk, mut promised) = (Disk::new(), Promised::default());
        disk.lock().fails_from = Some(point);
        if let Ok(ledger) = ledger(&disk, "before") {
            // Where it fails says `promised`.
            let _cut = work(&ledger, &mut promised);
        }
        for left in [Left::Synced, Left::Torn(point as u64)] {
            let after = disk.lock().after_power_loss(left);
            lost += usize::from(check(&after, &promised, &format!("power lost at {point} of {points}, {left:?}")));
        }
    }
    assert!(lost > 0, "the disk does lose what was not synced");
}

#[test]
fn a_thousand_changes_of_status_are_no_thousand_syncs() {
    let disk = Disk::new();
    let file = Arc::new(LedgerFile::over(mount(&disk).unwrap(), "x".into()).unwrap());
    let who = Sitter { process: None, boot: None, clock: ManualClock::new() };
    let ledger = SqliteLedger::over(file, FileOptions::default(), who).unwrap();
    let syncs = || disk.lock().syncs;
    let before = syncs();
    ledger.put(open("t")).unwrap();
    let made = syncs();
    assert!(made > before, "a handle is synced");
    for n in 0..1_000 {
        ledger.put(moved("t", n)).unwrap();
    }
    let changed = syncs();
    assert!(changed - made < 30, "{} syncs, those of checkpoints", changed - made);
    ledger.put(ended("s", "t", 1)).unwrap();
    assert!(syncs() > changed, "a result is synced");
}

#[test]
fn corner_20_a_disk_that_fails_at_any_write_costs_nothing() {
    let disk = Disk::new();
    let mut promised = Promised::default();
    drop(ledger(&disk, "b").unwrap());
    let begun = disk.lock().operations;
    work(&ledger(&disk, "b").unwrap(), &mut promised).unwrap();
    let points = disk.lock().operations;
    for point in (begun..points).step_by(2) {
        let code = if point % 4 < 2 { rusqlite::ffi::SQLITE_FULL } else { rusqlite::ffi::SQLITE_IOERR };
        let disk = Disk::new();
        let Ok(ledger) = ledger(&disk, "b") else { panic!("the disk is fine") };
        {
            let mut disk = disk.lock();
            (disk.fails_from, disk.code) = (Some(point - begun + disk.operations), code);
        }
        let at = format!("write {point}, code {code}");
        for n in 0..4 {
            let id = format!("t{n}");
            for record in [open(&id), moved(&id, 1), ended("s", &id, 1)] {
                if let Err(error) = ledger.put(record.clone()) {
                    assert_eq!(error.kind(), Kind::Ledger, "{at}");
                }
                assert_eq!(ledger.find(&key("s", &id)).unwrap(), Some(record), "{at}: kept in memory");
            }
        }
        assert_eq!(ledger.outstanding("s").unwrap().len(), 4, "{at}");
        disk.lock().fails_from = None;
        ledger.tend().unwrap_or_else(|error| panic!("{at}: {error}"));
        ledger.release();
        drop(ledger);
        let again = super::power::ledger(&disk, "b").unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(again.claim("s").unwrap().len(), 4, "{at}: written after all");
    }
}
