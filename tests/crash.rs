//! Processes that die at any moment: a driver kills client processes with SIGKILL while tasks of every kind are in
//! flight, and starts them again on the same ledger. At the end it says what was lost, doubled or asked again.
//!
//! The client processes are this very program (see `a_client_process`). `ROUNDS` says how often one is killed (20),
//! `SEED` repeats a run: `make crash ROUNDS=500`.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "processes are killed in real time")]

#[path = "support/abi.rs"]
mod abi;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use abi::*;
use mcp_test_server::TestServer;

/// Longer than a busy machine keeps a process waiting: one that was not stopped keeps its lease.
const LEASE_MS: u64 = 3_000;

// ---- the client process ----------------------------------------------------------------------------------------------

/// splitmix64: enough to choose by.
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, below: u64) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// What a process says, one write for a line: it survives the process.
#[derive(Clone)]
struct Diary(Arc<Mutex<std::fs::File>>);

impl Diary {
    fn say(&self, line: &str) {
        let line = format!("{} {line}\n", std::process::id());
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs as a client process where the driver says so; on its own it has nothing to do.
#[test]
fn a_client_process() {
    let Some(url) = variable("MCP_CRASH_URL") else { return };
    let (file, diary) = (variable("MCP_CRASH_FILE").unwrap(), variable("MCP_CRASH_DIARY").unwrap());
    let dice = Arc::new(Dice(AtomicU64::new(variable("MCP_CRASH_SEED").unwrap().parse().unwrap())));
    let last = variable("MCP_CRASH_LAST").is_some();
    let diary = Diary(Arc::new(Mutex::new(std::fs::OpenOptions::new().append(true).open(diary).unwrap())));
    let settings = json!({"url": url, "identity": "crash", "tasks": {"ledger": {"file": file, "lease_ms": LEASE_MS}}});
    let client = Client::new(&settings);
    let say = diary.clone();
    client.on(MCP_EVENT_TASK_CREATED, move |event| say.say(&format!("created {}", event.task().unwrap().id())));
    let say = diary.clone();
    client.on(MCP_EVENT_TASK_RESUMED, move |event| say.say(&format!("resumed {}", event.task().unwrap().id())));
    let (say, roll) = (diary.clone(), dice.clone());
    client.on(MCP_EVENT_ELICITATION, move |event| answer(&event, &say, last || roll.roll(2) == 0));
    let (say, roll) = (diary.clone(), dice.clone());
    client.on(MCP_EVENT_TASK_DONE, move |event| take_end(&event, &say, last || roll.roll(3) > 0));
    client.open().unwrap();
    client.wait_open().unwrap();
    let mut calls = Vec::new();
    for n in 0..variable("MCP_CRASH_CALLS").unwrap().parse().unwrap() {
        let number = format!("{}-{n}", variable("MCP_CRASH_SEED").unwrap());
        let job = json!({"number": number, "poll_ms": 100, "ttl_ms": null, "step_ms": 40});
        let (tool, more) = match dice.roll(6) {
            0 => ("slow_job", json!({"steps": 1})),
            1 | 2 => ("slow_job", json!({"steps": 4, "ask": true})),
            3 => ("slow_job", json!({"steps": 40})),
            4 => ("fail_job", json!({"steps": 2})),
            _ => ("slow_job", json!({"steps": 0})),
        };
        let mut arguments = job;
        more.as_object().unwrap().iter().for_each(|(key, value)| arguments[key] = value.clone());
        let long = arguments["steps"] == 40;
        let call = client.start(tool, arguments, json!({"tool_call_id": number}));
        calls.push((call, long));
    }
    for (call, long) in &calls {
        if *long && call.wait(PATIENCE_MS) == Ok(MCP_S_TASK) {
            call.task().unwrap().cancel();
        }
    }
    diary.say("idle");
    // Until the driver lets go of the pipe, or kills.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn answer(event: &Event, diary: &Diary, now: bool) {
    let input = event.input().unwrap();
    let what = format!("{} {}", input.task_id().unwrap(), input.key());
    diary.say(&format!("asked {what} {}", i32::from(input.repeated())));
    if now && input.reply(&json!({"name": "x"})) == Ok(MCP_OK) {
        diary.say(&format!("answered {what}"));
    }
}

fn take_end(event: &Event, diary: &Diary, now: bool) {
    let (task, end) = (event.task().unwrap(), event.snapshot().unwrap());
    let id = task.id();
    if end.reason() == "closed" {
        return diary.say(&format!("closed {id}"));
    }
    let repeated = end.number(MCP_SNAPSHOT_REPEATED).unwrap();
    diary.say(&format!("done {id} {} {repeated}", end.reason()));
    if now && task.acknowledge() == Ok(MCP_OK) {
        diary.say(&format!("acknowledged {id}"));
    }
}

// ---- the driver ------------------------------------------------------------------------------------------------------

struct World {
    folder: PathBuf,
    server: TestServer,
    dice: Dice,
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

impl World {
    fn new(name: &str) -> Self {
        let seed = variable("SEED").map_or_else(now_seed, |seed| seed.parse().unwrap());
        let folder = std::env::temp_dir().join(format!("mcpnative-crash-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        println!("{name}: SEED={seed}, in {}", folder.display());
        std::fs::write(folder.join("diary"), "").unwrap();
        Self { folder, server: TestServer::start(Script::new()), dice: Dice(AtomicU64::new(seed)) }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("tasks.db")
    }

    fn start(&self, calls: u64, last: bool) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_client_process", "--nocapture"]);
        command.env("MCP_CRASH_URL", self.server.url()).env("MCP_CRASH_FILE", self.file());
        command.env("MCP_CRASH_DIARY", self.folder.join("diary")).env("MCP_CRASH_CALLS", calls.to_string());
        command.env("MCP_CRASH_SEED", self.dice.roll(1 << 40).to_string());
        if last {
            command.env("MCP_CRASH_LAST", "1");
        }
        let log = std::fs::OpenOptions::new().append(true).create(true).open(self.folder.join("log")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        Process(command.spawn().unwrap())
    }

    /// A moment of work, of a length that nobody knows before.
    fn pause(&self, most_ms: u64) {
        let (lock, never) = (Mutex::new(()), Condvar::new());
        let wait = Duration::from_millis(5 + self.dice.roll(most_ms));
        drop(never.wait_timeout(lock.lock().unwrap(), wait).unwrap());
    }

    fn check_integrity(&self) {
        if !self.file().exists() {
            return;
        }
        let db = rusqlite::Connection::open(self.file()).unwrap();
        db.busy_timeout(PATIENCE).unwrap();
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }

    /// How many tasks still wait for something.
    fn outstanding(&self) -> i64 {
        let db = rusqlite::Connection::open(self.file()).unwrap();
        db.busy_timeout(PATIENCE).unwrap();
        db.query_row("SELECT count(*) FROM task WHERE acknowledged = 0", [], |row| row.get(0)).unwrap()
    }

    /// Lets some processes finish everything.
    fn finish(&self, count: usize) {
        let mut processes: Vec<Process> = (0..count).map(|_| self.start(0, true)).collect();
        let idle = || std::fs::read_to_string(self.folder.join("diary")).unwrap();
        let before = idle().lines().filter(|line| line.ends_with(" idle")).count();
        until("the last processes to be up", || {
            idle().lines().filter(|line| line.ends_with(" idle")).count() >= before.max(1)
        });
        let end = now_ms() + 4 * PATIENCE.as_millis();
        while self.outstanding() > 0 {
            assert!(now_ms() < end, "{} tasks are not taken care of: {}", self.outstanding(), self.story());
            self.pause(20);
        }
        for process in &mut processes {
            drop(process.0.stdin.take());
            assert!(process.0.wait().unwrap().success(), "a client process ends well: {}", self.log());
        }
        self.check_integrity();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn story(&self) -> String {
        std::fs::read_to_string(self.folder.join("diary")).unwrap()
    }

    /// Judges what the diary says; `stopped` are processes that slept through their leases.
    fn judge(&self, stopped: &BTreeSet<String>) {
        let story = self.story();
        let mut faults = Vec::new();
        let (mut created, mut acknowledged) = (BTreeSet::new(), BTreeMap::<&str, usize>::new());
        let (mut asked, mut answered) = (BTreeMap::<(&str, &str), &str>::new(), BTreeSet::new());
        for line in story.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[1..] {
                ["created", id] => drop(created.insert(id)),
                ["acknowledged", id] => *acknowledged.entry(id).or_default() += 1,
                ["done", id, ..] if acknowledged.contains_key(id) && !stopped.contains(words[0]) => {
                    faults.push(format!("doubled: {line}"));
                }
                ["answered", id, key] => drop(answered.insert((id, key))),
                ["asked", id, key, repeated] => {
                    if answered.contains(&(id, key)) {
                        faults.push(format!("asked again after the answer: {line}"));
                    }
                    let before = asked.insert((id, key), words[0]);
                    if before.is_some_and(|process| process != words[0]) && repeated == "0" {
                        faults.push(format!("offered again without the mark: {line}"));
                    }
                    if before == Some(words[0]) && !stopped.contains(words[0]) {
                        faults.push(format!("asked twice by one process: {line}"));
                    }
                }
                _ => {}
            }
        }
        let db = rusqlite::Connection::open(self.file()).unwrap();
        for id in &created {
            // A process may die between the acknowledgement and the line that tells of it; the ledger knows.
            let sql = "SELECT acknowledged FROM task WHERE id = ?1";
            let known: i64 = db.query_row(sql, [id], |row| row.get(0)).unwrap_or(-1);
            if known != 1 || acknowledged.get(id).is_some_and(|count| *count > 1) {
                faults.push(format!("lost or doubled: {id}: {known} {:?}", acknowledged.get(id)));
            }
        }
        let calls = self.server.requests_of("tools/call");
        let mut numbers = BTreeSet::new();
        for call in &calls {
            let number = call.at("/params/arguments/number").to_string();
            if !numbers.insert(number.clone()) {
                faults.push(format!("tools/call sent twice: {number}"));
            }
        }
        println!(
            "{} calls, {} tasks announced, {} acknowledged, {} questions, {} answered: {} faults",
            calls.len(),
            created.len(),
            acknowledged.len(),
            asked.len(),
            answered.len(),
            faults.len()
        );
        assert!(faults.is_empty(), "{faults:#?}\n{story}");
        assert!(!created.is_empty() && !acknowledged.is_empty());
    }
}

fn now_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::from(since.subsec_nanos()) ^ since.as_secs()
}

fn rounds() -> usize {
    variable("ROUNDS").map_or(20, |rounds| rounds.parse().expect("ROUNDS is a number"))
}

/// A client process; killed when dropped.
struct Process(Child);

impl Process {
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").arg(signal).arg(self.0.id().to_string()).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn some(path: &Path) -> bool {
    path.exists()
}

#[test]
fn killed_at_any_moment_nothing_is_lost_doubled_or_asked_again() {
    let world = World::new("one");
    for _ in 0..rounds() {
        let process = world.start(4, false);
        // The start takes its time; nothing is in flight before the file is there.
        until("the ledger", || some(&world.file()));
        world.pause(600);
        process.kill();
        world.check_integrity();
    }
    world.finish(1);
    world.judge(&BTreeSet::new());
}

fn together(name: &str, count: usize) {
    let world = World::new(name);
    let mut stopped = BTreeSet::new();
    let mut processes: Vec<Process> = (0..count).map(|_| world.start(4, false)).collect();
    until("the ledger", || some(&world.file()));
    for round in 0..rounds() {
        world.pause(600);
        let victim = world.dice.roll(count as u64) as usize;
        if round % 10 == 9 {
            // Sleeps through its lease, and finds its tokens outdated.
            let sleeper = &processes[victim];
            stopped.insert(sleeper.0.id().to_string());
            sleeper.signal("-STOP");
            world.pause(1);
            let awake = now_ms() + u128::from(LEASE_MS) + 1_000;
            while now_ms() < awake {
                world.pause(50);
            }
            sleeper.signal("-CONT");
            continue;
        }
        processes.swap_remove(victim).kill();
        world.check_integrity();
        processes.push(world.start(3, false));
    }
    processes.into_iter().for_each(Process::kill);
    world.finish(count);
    world.judge(&stopped);
}

#[test]
fn two_processes_on_one_file_and_kills_among_them() {
    together("two", 2);
}

#[test]
fn four_processes_on_one_file_and_kills_among_them() {
    together("four", 4);
}
