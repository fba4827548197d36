//! Several owners of one file: each task belongs to one, a dead one's tasks are free, a sleeper's writes are refused.

use super::*;

/// An owner as another process would be one: with a connection, a clock and a name of its own.
fn owner(folder: &Folder, clock: &Arc<ManualClock>, boot: Option<&str>) -> SqliteLedger {
    let db = {
        drop(LedgerFile::open(&folder.file()).unwrap());
        rusqlite::Connection::open(folder.file()).unwrap()
    };
    let file = Arc::new(LedgerFile::over(db, "x".into()).unwrap());
    let options = FileOptions { lease: Duration::from_secs(15), ..FileOptions::default() };
    let who = Sitter { process: None, boot: boot.map(str::to_owned), clock: clock.clone() };
    SqliteLedger::over(file, options, who).unwrap()
}

fn is_lost(outcome: Result<()>) -> bool {
    outcome.is_err_and(|error| error.kind() == Kind::State)
}

#[test]
fn corner_14_a_task_belongs_to_one_owner_until_its_lease_runs_out() {
    let (folder, clock) = (Folder::new(), ManualClock::new());
    let (one, two) = (owner(&folder, &clock, Some("b")), owner(&folder, &clock, Some("b")));
    one.put(record("s", "1", 1)).unwrap();
    assert!(two.claim("s").unwrap().is_empty());
    assert!(matches!(two.take(&key("s", "1")).unwrap(), Taken::Elsewhere));
    assert!(two.outstanding("s").unwrap().is_empty());
    assert!(!two.acknowledge(&key("s", "1")).unwrap());
    clock.advance(Duration::from_secs(10));
    assert_eq!(one.tend().unwrap(), []);
    clock.advance(Duration::from_secs(14));
    assert!(two.claim("s").unwrap().is_empty(), "the lease was renewed");
    clock.advance(Duration::from_secs(1));
    assert!(one.holds(&key("s", "1")).unwrap(), "the lease has run out, and nobody came");
    assert_eq!(ids(two.claim("s").unwrap()), ["1"]);
    assert!(!one.holds(&key("s", "1")).unwrap() && two.holds(&key("s", "1")).unwrap());
    // The sleeper wakes with a result in its hands.
    assert!(is_lost(one.put(ended("s", "1", 1))));
    assert!(!one.acknowledge(&key("s", "1")).unwrap());
    assert!(!one.remove(&key("s", "1")).unwrap());
    assert_eq!(two.find(&key("s", "1")).unwrap(), Some(record("s", "1", 1)), "nothing of it was stored");
    two.put(ended("s", "1", 1)).unwrap();
    assert!(two.acknowledge(&key("s", "1")).unwrap());
    assert!(!two.acknowledge(&key("s", "1")).unwrap());
}

#[test]
fn corner_14_a_sleeper_learns_what_it_has_lost_and_keeps_the_rest() {
    let (folder, clock) = (Folder::new(), ManualClock::new());
    let (one, two) = (owner(&folder, &clock, None), owner(&folder, &clock, None));
    for id in ["a", "b"] {
        one.put(record("s", id, 1)).unwrap();
    }
    one.put(record("other", "c", 1)).unwrap();
    clock.advance(Duration::from_secs(16));
    assert!(matches!(two.take(&key("s", "a")).unwrap(), Taken::Ours(_)));
    assert_eq!(one.tend().unwrap(), [key("s", "a")]);
    assert!(is_lost(one.put(ended("s", "a", 1))), "and does not take it back");
    assert_eq!(one.tend().unwrap(), []);
    one.put(ended("s", "b", 1)).unwrap();
    assert_eq!(ids(one.outstanding("s").unwrap()), ["b"]);
    assert_eq!(ids(one.outstanding("other").unwrap()), ["c"]);
}

#[test]
fn corner_14_an_older_token_never_comes_back() {
    let (folder, clock) = (Folder::new(), ManualClock::new());
    let (one, two) = (owner(&folder, &clock, None), owner(&folder, &clock, None));
    one.put(record("s", "1", 1)).unwrap();
    clock.advance(Duration::from_secs(16));
    two.claim("s").unwrap();
    two.put(ended("s", "1", 1)).unwrap();
    // Gone altogether, and then a new one with the same id.
    assert_eq!(two.purge("s", wall(99)).unwrap(), 1);
    assert!(is_lost(one.put(ended("s", "1", 1))));
    two.put(record("s", "1", 2)).unwrap();
    assert_eq!(ids(two.outstanding("s").unwrap()), ["1"]);
}

#[test]
fn a_lease_of_an_earlier_boot_and_one_that_was_given_up_are_over_at_once() {
    let (folder, clock) = (Folder::new(), ManualClock::new());
    let (one, two) = (owner(&folder, &clock, Some("before")), owner(&folder, &clock, Some("after")));
    one.put(record("s", "1", 1)).unwrap();
    assert_eq!(ids(two.claim("s").unwrap()), ["1"], "another boot");
    let three = owner(&folder, &clock, Some("after"));
    assert!(three.claim("s").unwrap().is_empty());
    two.release();
    assert_eq!(two.take(&key("s", "1")).unwrap_err().kind(), Kind::Closed);
    assert_eq!(two.tend().unwrap(), [], "who has left does not come back by itself");
    assert_eq!(ids(three.claim("s").unwrap()), ["1"]);
}

#[test]
fn wall_time_that_jumps_delays_or_hurries_a_takeover_and_breaks_nothing() {
    struct Jumping(Mutex<SystemTime>, Arc<ManualClock>);
    impl Clock for Jumping {
        fn now(&self) -> std::time::Instant {
            self.1.now()
        }
        fn wall(&self) -> SystemTime {
            *self.0.lock()
        }
        fn boot(&self) -> Duration {
            self.1.boot()
        }
    }
    let (folder, still) = (Folder::new(), ManualClock::new());
    let one = owner(&folder, &still, None);
    let jumping = Arc::new(Jumping(Mutex::new(wall(0)), still.clone()));
    let file = Arc::new(LedgerFile::over(rusqlite::Connection::open(folder.file()).unwrap(), "x".into()).unwrap());
    let who = Sitter { process: None, boot: None, clock: jumping.clone() };
    let two = SqliteLedger::over(file, FileOptions::default(), who).unwrap();
    one.put(record("s", "1", 1)).unwrap();
    // Back: nobody is robbed. Far forward: taken over too early, and the other one is refused.
    *jumping.0.lock() = SystemTime::UNIX_EPOCH - Duration::from_secs(86_400);
    assert!(two.claim("s").unwrap().is_empty());
    *jumping.0.lock() = wall(86_400);
    assert_eq!(ids(two.claim("s").unwrap()), ["1"]);
    assert!(is_lost(one.put(ended("s", "1", 1))));
    two.put(ended("s", "1", 1)).unwrap();
}

#[test]
fn the_tasks_of_a_process_that_is_gone_are_free_at_once() {
    let (folder, clock) = (Folder::new(), ManualClock::new());
    let one = owner(&folder, &clock, Some("b"));
    one.put(record("s", "1", 1)).unwrap();
    let two = owner(&folder, &clock, Some("b"));
    assert!(two.claim("s").unwrap().is_empty());
    let mut name = crate::os::process_name().unwrap_or_default();
    name.push('0');
    rusqlite::Connection::open(folder.file()).unwrap().execute("UPDATE seat SET process = ?1", [&name]).unwrap();
    let freed = ids(two.claim("s").unwrap());
    // Where the system cannot tell, the lease has to run out.
    assert_eq!(freed, if crate::os::is_gone(&name) { vec!["1"] } else { vec![] });
}
