//! Callers that read what they wait for, over a real socket: nobody's answer, cancel, limit or notification is lost on
//! the way from one reader to the next.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::AtomicBool;
use std::thread::ThreadId;

use super::*;
use crate::spawn::{Job, Spawn};
use crate::transport::socket::SocketDial;

/// The server hangs up instead of answering this one.
const HANG_UP: &str = "-34";

/// No answer comes to a request with such an id.
fn is_silent(id: i64) -> bool {
    id % 17 == 0
}

/// Numbers without a pattern (xorshift).
struct Chance(std::cell::Cell<u32>);

impl Chance {
    fn draw(&self) -> u32 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.0.set(x);
        x
    }
}

const NEWS: &str = r#"{"method":"notifications/tools/list_changed"}"#;

/// Reads requests, and answers them one by one, or several at once in the reverse order.
fn serve(stream: &UnixStream, over: &AtomicBool) {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let (mut line, mut held) = (String::new(), Vec::<i64>::new());
    while !over.load(Ordering::Acquire) {
        let got = reader.read_line(&mut line);
        match got {
            Ok(0) => return,
            Ok(_) if line.ends_with('\n') => {}
            // Half a line stays for the next look.
            Ok(_) | Err(_) => {
                answer_all(&mut writer, &mut held);
                continue;
            }
        }
        let text = std::mem::take(&mut line);
        match text.trim() {
            HANG_UP => return,
            "news" => writeln!(writer, "{NEWS}").unwrap(),
            text => {
                let Some(id) = text.parse::<i64>().ok().filter(|id| !is_silent(*id)) else { continue };
                held.push(id);
                if id % 3 != 0 || held.len() > 3 {
                    answer_all(&mut writer, &mut held);
                }
            }
        }
    }
}

/// Each answer has its news before it.
fn answer_all(writer: &mut &UnixStream, held: &mut Vec<i64>) {
    let text: String = held.drain(..).rev().map(|id| format!("{NEWS}\n{}\n", answer(&id.to_string()))).collect();
    drop(writer.write_all(text.as_bytes()));
}

struct Threads;

impl Spawn for Threads {
    fn spawn(&self, _: &'static str, job: Job) -> crate::error::Result<()> {
        std::thread::spawn(job);
        Ok(())
    }
}

/// Counts the news, by the thread that brought them.
#[derive(Default)]
struct Listener {
    by: Mutex<Vec<ThreadId>>,
    changed: Condvar,
}

impl Asides for Listener {
    fn note(&self, note: Note) {
        if matches!(note, Note::Other { .. }) {
            self.by.lock().push(std::thread::current().id());
            self.changed.notify_all();
        }
    }
}

struct Local {
    channel: Arc<Channel>,
    news: Arc<Listener>,
    over: Arc<AtomicBool>,
    path: std::path::PathBuf,
}

impl Local {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpnative-leading-{name}-{}", std::process::id()));
        drop(std::fs::remove_file(&path));
        let listener = UnixListener::bind(&path).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let flag = over.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if flag.load(Ordering::Acquire) {
                    return;
                }
                serve(&stream, &flag);
            }
        });
        let url = format!("unix://{}", path.display());
        let dial = SocketDial::new(&url, 1 << 20, system(), Arc::new(Threads)).unwrap();
        let policy = RestartPolicy { max: 10_000, backoff: Duration::ZERO, ..RestartPolicy::default() };
        let channel = Channel::new(Box::new(dial), policy, 1 << 20, system());
        let news = Arc::new(Listener::default());
        channel.set_asides(news.clone());
        Self { channel, news, over, path }
    }

    fn ask(&self, id: i64, cancel: &CancelToken, limit: Duration) -> Result<Vec<String>, Fault> {
        let (mut frames, body) = (Frames::default(), id.to_string());
        let total = Deadline::after(SystemClock.now(), Some(limit), Budget::Total);
        let scope = Scope { cancel, total, idle: None, connect: None };
        let outgoing = Outgoing { life: 0, body: &body, headers: &[], id: Some(id), token: None };
        self.channel.exchange(outgoing, &scope, &mut frames).map(|()| frames.0)
    }

    fn tell(&self, word: &str) {
        let token = CancelToken::new();
        let outgoing = Outgoing { life: 0, body: word, headers: &[], id: None, token: None };
        self.channel.notify(outgoing, &scope(&token)).unwrap();
    }

    /// News come though nobody asks anything.
    fn hears_news(&self) {
        let before = self.news.by.lock().len();
        self.tell("news");
        let end = SystemClock.now() + BOUND;
        let mut by = self.news.by.lock();
        while by.len() <= before {
            assert!(!self.news.changed.wait_until(&mut by, end).timed_out(), "the channel is not read");
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.channel.close();
        self.channel.finish(Some(BOUND));
        drop(UnixStream::connect(&self.path));
        drop(std::fs::remove_file(&self.path));
    }
}

#[test]
fn a_caller_that_asks_again_and_again_reads_by_itself() {
    let local = Local::new("again");
    let (token, me) = (CancelToken::new(), std::thread::current().id());
    let mut asked = 0;
    let mine = || local.news.by.lock().iter().filter(|by| **by == me).count();
    while mine() < 100 {
        asked += 1;
        // None of them is silent, and none is held back.
        let id = asked * 51 + 1;
        assert_eq!(local.ask(id, &token, BOUND).unwrap(), [answer(&id.to_string())]);
        assert!(asked < 200_000, "the thread of the channel reads for it all the time");
    }
    // And when it asks no more, the channel's own thread reads.
    for _ in 0..20 {
        local.hears_news();
        local.ask(1, &token, BOUND).unwrap();
    }
}

#[test]
fn many_callers_with_cancels_and_limits_lose_nothing() {
    for round in 0..5 {
        let local = Local::new(&format!("many-{round}"));
        let next = AtomicUsize::new(1);
        std::thread::scope(|scope| {
            for caller in 0..12u32 {
                let (local, next) = (&local, &next);
                scope.spawn(move || {
                    let chance = Chance(std::cell::Cell::new(round * 100 + caller + 1));
                    for _ in 0..120 {
                        let id = i64::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                        ask_one(local, id, chance.draw());
                        // Now and then all of them are away, or only one is there.
                        if chance.draw().is_multiple_of(20) {
                            std::thread::park_timeout(Duration::from_millis(u64::from(chance.draw() % 4)));
                        }
                    }
                });
            }
        });
        local.hears_news();
    }
}

fn ask_one(local: &Local, id: i64, chance: u32) {
    let token = Arc::new(CancelToken::new());
    if is_silent(id) && chance.is_multiple_of(2) {
        let (there, began) = (token.clone(), SystemClock.now());
        let canceller = std::thread::spawn(move || there.cancel(Why::Host));
        let fault = local.ask(id, &token, BOUND).unwrap_err();
        assert!(matches!(fault, Fault::Cancelled { why: Why::Host, .. }), "{fault:?}");
        assert!(SystemClock.now() - began < BOUND, "at once, not at the limit");
        assert!(canceller.join().unwrap());
    } else if is_silent(id) {
        let (limit, began) = (Duration::from_millis(3), SystemClock.now());
        let fault = local.ask(id, &token, limit).unwrap_err();
        assert!(matches!(fault, Fault::Timeout { .. }), "{fault:?}");
        assert!(SystemClock.now() - began >= limit, "never early");
    } else {
        assert_eq!(local.ask(id, &token, BOUND).unwrap(), [answer(&id.to_string())]);
    }
}

#[test]
fn a_caller_that_reads_sees_the_end_of_the_peer_and_of_the_channel() {
    for close in [false, true] {
        let (local, token) = (&Local::new(&format!("end-{close}")), &CancelToken::new());
        for round in 0..40 {
            // Brings the reading into the caller's hands.
            for _ in 0..50 {
                local.ask(1, token, BOUND).unwrap();
            }
            std::thread::scope(|scope| {
                let last = if close { 17 } else { HANG_UP.parse().unwrap() };
                let waiting = scope.spawn(move || local.ask(last, token, BOUND));
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                if close {
                    local.channel.close();
                }
                let fault = waiting.join().unwrap().unwrap_err();
                assert!(matches!(fault, Fault::Io { .. } | Fault::Closed | Fault::NotAgain { .. }), "{fault:?}");
            });
            if close {
                break;
            }
        }
    }
}
