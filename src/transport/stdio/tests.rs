//! Real children: small scripts of `sh`, which every POSIX system has.

#![allow(clippy::disallowed_methods, reason = "real processes need real threads and real time")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{ChildDial, ChildSettings};
use crate::cancel::CancelToken;
use crate::clock::{Budget, Clock, Deadline, SystemClock, system};
use crate::spawn::{Job, Spawn};
use crate::transport::{Dial, Fault, Gone, Link, Receiver, Scope};

/// Every wait of these tests ends by then; none is expected to take so long.
const BOUND: Duration = Duration::from_secs(60);
const GRACE: Option<Duration> = Some(Duration::from_millis(300));

#[derive(Default)]
struct Plain;

impl Spawn for Plain {
    fn spawn(&self, _name: &'static str, job: Job) -> crate::error::Result<()> {
        std::thread::spawn(job);
        Ok(())
    }
}

#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    stderr_bytes: usize,
    gone: Option<Gone>,
}

/// Collects what a link says.
#[derive(Default)]
struct Ear {
    seen: Mutex<Seen>,
    news: Condvar,
}

impl Ear {
    fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock());
        self.news.notify_all();
    }

    fn wait<T>(&self, mut found: impl FnMut(&mut Seen) -> Option<T>) -> T {
        let end = Instant::now() + BOUND;
        let mut seen = self.seen.lock();
        loop {
            if let Some(found) = found(&mut seen) {
                return found;
            }
            assert!(!self.news.wait_until(&mut seen, end).timed_out(), "nothing came: {:?}", seen.lines);
        }
    }

    fn gone(&self) -> Gone {
        self.wait(|seen| seen.gone.clone())
    }
}

impl Receiver for Ear {
    fn message(&self, text: String) {
        self.note(|seen| seen.lines.push(text));
    }
    fn odd_line(&self, why: &str) {
        self.note(|seen| seen.lines.push(format!("odd: {why}")));
    }
    fn too_long(&self, head: &[u8]) {
        self.note(|seen| seen.lines.push(format!("too long: {}", head.len())));
    }
    fn stderr(&self, line: &str) {
        self.note(|seen| seen.stderr_bytes += line.len());
    }
    fn ended(&self, why: Gone) {
        self.note(|seen| seen.gone = Some(why));
    }
}

fn shell(script: &str, args: &[&str]) -> ChildSettings {
    let mut all = vec!["-c".to_owned(), script.to_owned(), "sh".to_owned()];
    all.extend(args.iter().map(|text| (*text).to_owned()));
    ChildSettings { command: "sh".into(), args: all, ..ChildSettings::default() }
}

fn dial(settings: ChildSettings) -> Result<(Arc<dyn Link>, Arc<Ear>), Fault> {
    let (ear, token) = (Arc::new(Ear::default()), CancelToken::new());
    let dial = ChildDial::new(settings, 1 << 20, system(), Arc::new(Plain)).expect("the settings are fine");
    let link = dial.dial(ear.clone(), &scope(&token))?;
    Ok((link, ear))
}

fn start(script: &str) -> (Arc<dyn Link>, Arc<Ear>) {
    dial(shell(script, &[])).expect("it starts")
}

fn scope(cancel: &CancelToken) -> Scope<'_> {
    let total = Deadline::after(SystemClock.now(), Some(BOUND), Budget::Total);
    Scope { cancel, total, idle: None, connect: None }
}

fn send(link: &Arc<dyn Link>, message: &str) -> Result<(), Fault> {
    link.send(message, &scope(&CancelToken::new()))
}

/// The processes that carry this mark in their arguments, zombies included, as far as they are not of others.
fn marked(mark: &str) -> Vec<String> {
    let listed = std::process::Command::new("ps").args(["-eo", "pid,stat,args"]).output().expect("ps runs");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().filter(|line| line.contains(mark) && !line.contains("ps -eo")).map(str::to_owned).collect()
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcpnative-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

#[test]
fn arguments_environment_and_folder_arrive_as_given() {
    let folder = scratch("args");
    let odd = ["a b", "", "x&echo made", "100%", "$HOME `id`", "\"q\"", "é\u{2028}", "-n"];
    let script =
        r#"for a in "$@"; do printf '%s\n' "[$a]"; done; pwd -P; echo "$EXTRA|$MCP_TEST_SECRET|${PATH:+path}"; cat"#;
    let mut settings = shell(script, &odd);
    settings.env = vec![("EXTRA".into(), "1 = 2".into())];
    settings.cwd = Some(folder.to_str().unwrap().into());
    let (link, ear) = dial(settings).unwrap();
    send(&link, "{\"a\":\n1}").unwrap();
    ear.wait(|seen| (seen.lines.last().is_some_and(|line| line == "{\"a\": 1}")).then_some(()));
    let lines = std::mem::take(&mut ear.seen.lock().lines);
    let want: Vec<String> = odd.iter().map(|text| format!("[{text}]")).collect();
    assert_eq!(lines[..odd.len()], want);
    assert_eq!(lines[odd.len()], folder.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(lines[odd.len() + 1], "1 = 2||path");
    link.close(GRACE);
    assert_eq!(ear.gone(), Gone::Closed);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn br_06_each_kind_of_end_is_told_with_its_reason() {
    for (script, code, signal, stderr) in [
        ("echo 'no API key' >&2; exit 1", Some(1), None, "no API key"),
        ("read line; exit 0", Some(0), None, ""),
        ("kill -9 $$", None, Some(9), ""),
        ("echo answer; exit 3", Some(3), None, ""),
    ] {
        let (link, ear) = start(script);
        // The child may be gone already: no signal, and an error or nothing.
        send(&link, "{}").ok();
        let Gone::Exited(end) = ear.gone() else { panic!("{script}: {:?}", ear.gone()) };
        assert_eq!((end.code, end.signal, end.stderr.as_str()), (code, signal, stderr), "{script}");
        if script.contains("answer") {
            assert_eq!(ear.seen.lock().lines, ["answer"]);
        }
        let late = send(&link, "{}").unwrap_err();
        assert!(matches!(late, Fault::Closed | Fault::Io { .. }), "{late:?}");
        link.close(GRACE);
    }
    let (link, ear) = start("exec >&-; cat >/dev/null; sleep 60");
    assert_eq!(ear.gone(), Gone::Lost("the server closed its output and did not exit".into()));
    link.close(GRACE);
}

#[test]
fn br_06_what_cannot_be_started_says_so() {
    let folder = scratch("start");
    let plain = folder.join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    for (command, want) in [
        ("/no/such/program".to_owned(), "the program `/no/such/program` does not exist".to_owned()),
        ("no-such-program-here".to_owned(), "the program `no-such-program-here` is not on the PATH".to_owned()),
        (path(&plain), format!("the program `{}` is not executable", path(&plain))),
        (path(&folder), format!("the program `{}` is no file", path(&folder))),
    ] {
        let fault = dial(ChildSettings { command, ..ChildSettings::default() }).err().unwrap();
        assert!(matches!(&fault, Fault::Start(detail) if *detail == want), "{fault:?}");
    }
    let gone = ChildSettings { cwd: Some("/no/such/folder".into()), ..shell("exit 0", &[]) };
    let fault = dial(gone).err().unwrap();
    assert!(
        matches!(&fault, Fault::Start(detail) if detail == "the working directory `/no/such/folder` does not exist")
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn br_07_nothing_of_the_tree_is_left_after_close() {
    let mark = format!("mcpnative-tree-{}", std::process::id());
    // The launcher ends with its input; what it started ignores that, and the soft signal, and holds the pipes.
    let script = r#"trap '' TERM; (while :; do sleep 1; done) & exec cat"#;
    let (link, ear) = dial(shell(script, &[&mark])).unwrap();
    send(&link, "{}").unwrap();
    ear.wait(|seen| (!seen.lines.is_empty()).then_some(()));
    assert!(!marked(&mark).is_empty());
    link.close(GRACE);
    assert_eq!(marked(&mark), Vec::<String>::new());
    assert_eq!(ear.gone(), Gone::Closed);
}

#[test]
fn br_07_a_server_that_needs_a_moment_is_given_it() {
    let folder = scratch("marker");
    let marker = folder.join("marker");
    let script = r#"trap 'exit 9' TERM; cat; sleep 0.3; : > "$1""#;
    let (link, ear) = dial(shell(script, &[marker.to_str().unwrap()])).unwrap();
    send(&link, "{}").unwrap();
    ear.wait(|seen| (!seen.lines.is_empty()).then_some(()));
    link.close(Some(BOUND));
    assert!(marker.exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn br_07_fifty_rounds_leave_no_process_and_no_descriptor() {
    let mark = format!("mcpnative-round-{}", std::process::id());
    let round = || {
        let (link, ear) = dial(shell("(sleep 30) & exec cat", &[&mark])).unwrap();
        send(&link, "{}").unwrap();
        ear.wait(|seen| (!seen.lines.is_empty()).then_some(()));
        link.close(GRACE);
    };
    round();
    for _ in 0..50 {
        round();
    }
    assert_eq!(marked(&mark), Vec::<String>::new());
    // Other tests of this process open descriptors meanwhile; what is ours would show as ours: 5 for each child.
    #[cfg(target_os = "linux")]
    {
        let pipes = std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(pipes < 250, "{pipes} descriptors are open");
    }
}

#[test]
fn br_01_standard_error_is_never_in_the_way() {
    // 256 KiB in lines, then 64 MiB without any line end, each before the answer.
    let script = r#"read line
        awk 'BEGIN { for (i = 0; i < 3277; i++) printf "%079d\n", i }' >&2; echo one
        read line; head -c 67108864 /dev/zero | tr '\0' x >&2; echo two; read line"#;
    let (link, ear) = start(script);
    send(&link, "{}").unwrap();
    ear.wait(|seen| (seen.lines.last().is_some_and(|line| line == "one")).then_some(()));
    send(&link, "{}").unwrap();
    ear.wait(|seen| (seen.lines.last().is_some_and(|line| line == "two")).then_some(()));
    link.close(GRACE);
    assert!(ear.seen.lock().stderr_bytes >= 3277 * 79);
}

#[test]
fn br_03_a_line_without_end_is_told_once_and_the_next_one_is_read() {
    let (link, ear) = start(r#"head -c 8000000 /dev/zero | tr '\0' a; echo; echo next; cat"#);
    ear.wait(|seen| (seen.lines.last().is_some_and(|line| line == "next")).then_some(()));
    assert_eq!(ear.seen.lock().lines, ["too long: 256", "next"]);
    link.close(GRACE);
}

#[test]
fn a_child_that_hears_nothing_is_ended_within_the_ladder() {
    let (link, ear) = start("trap '' TERM HUP; echo up; while :; do sleep 1; done");
    ear.wait(|seen| (!seen.lines.is_empty()).then_some(()));
    let begun = Instant::now();
    link.close(GRACE);
    let took = begun.elapsed();
    assert!(took < BOUND, "the ladder took {took:?}");
    assert_eq!(ear.gone(), Gone::Closed);
}

#[test]
fn a_child_that_crashes_takes_its_tree_with_it() {
    let mark = format!("mcpnative-crash-{}", std::process::id());
    let (link, ear) = dial(shell("(sleep 60) & read line; kill -9 $$", &[&mark])).unwrap();
    send(&link, "{}").unwrap();
    assert!(matches!(ear.gone(), Gone::Exited(end) if end.signal == Some(9)));
    link.close(GRACE);
    assert_eq!(marked(&mark), Vec::<String>::new());
}
