//! The channel against a peer in memory: the peer hears each message on the sender's thread and says what the test's
//! script wants, at once or later.

#![allow(clippy::disallowed_methods, reason = "many callers need many threads")]

#[cfg(unix)]
mod leading;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::clock::{SystemClock, system};
use crate::error::ChildEnd;
use crate::protocol::json::Json;
use crate::session::request::Note;
use crate::transport::Receiver;

const BOUND: Duration = Duration::from_secs(60);

type Script = Box<dyn Fn(&Peer, usize, &str) + Send + Sync>;

/// The peer: one for all lives.
struct Peer {
    script: Script,
    lives: AtomicUsize,
    heard: Mutex<Vec<String>>,
    ears: Mutex<Vec<Arc<dyn Receiver>>>,
    changed: Condvar,
}

impl Peer {
    fn say(&self, text: &str) {
        let ear = self.ears.lock().last().cloned().expect("a life");
        ear.message(text.to_owned());
    }

    fn die(&self, code: i32) {
        let ear = self.ears.lock().last().cloned().expect("a life");
        ear.ended(Gone::Exited(ChildEnd { code: Some(code), ..ChildEnd::default() }));
    }

    fn wait_heard(&self, part: &str) -> String {
        let end = SystemClock.now() + BOUND;
        let mut heard = self.heard.lock();
        loop {
            if let Some(found) = heard.iter().find(|text| text.contains(part)) {
                return found.clone();
            }
            assert!(!self.changed.wait_until(&mut heard, end).timed_out(), "{part} never came: {heard:?}");
        }
    }
}

struct PeerDial(Arc<Peer>);
struct PeerLink(Arc<Peer>, usize);

impl Dial for PeerDial {
    fn dial(&self, receiver: Arc<dyn Receiver>, _: &Scope<'_>) -> Result<Arc<dyn Link>, Fault> {
        let life = self.0.lives.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.ears.lock().push(receiver);
        (self.0.script)(&self.0, life, "dialled");
        Ok(Arc::new(PeerLink(self.0.clone(), life)))
    }

    fn origin(&self) -> &str {
        "memory:"
    }
}

impl Link for PeerLink {
    fn send(&self, message: &str, _: &Scope<'_>) -> Result<(), Fault> {
        self.0.heard.lock().push(message.to_owned());
        self.0.changed.notify_all();
        (self.0.script)(&self.0, self.1, message);
        match message.contains("unwritable") {
            true => Err(Fault::Io { sent: Sent::Begun, detail: "broken pipe".into() }),
            false => Ok(()),
        }
    }
    fn try_send(&self, message: &str) -> bool {
        let token = CancelToken::new();
        !message.contains("full") && self.send(message, &scope(&token)).is_ok()
    }

    fn cut(&self) {}
    fn close(&self, _: Option<Duration>) {}
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Asides for Notes {
    fn note(&self, note: Note) {
        self.0.lock().push(match note {
            Note::Oddity(line) => line,
            Note::ProgressOf { .. } | Note::Subscription(_) => format!("{note:?}"),
            Note::Progress(json) | Note::Log(json) => format!("{json:?}"),
            Note::Other { method, params } => format!("{method} {params:?}"),
            Note::Stderr(line) => format!("stderr {line}"),
            Note::Asked(question) => format!("asked {question:?}"),
            Note::Withdrawn(key) => format!("withdrawn {key}"),
            Note::Task(task) => format!("task {}", task.id),
        });
    }
    fn request(&self, id: &str, method: &str, _: Json) {
        self.0.lock().push(format!("request {id} {method}"));
    }
}

struct World {
    channel: Arc<Channel>,
    peer: Arc<Peer>,
    notes: Arc<Notes>,
}

fn world(script: impl Fn(&Peer, usize, &str) + Send + Sync + 'static) -> World {
    let peer = Arc::new(Peer {
        script: Box::new(script),
        lives: AtomicUsize::new(0),
        heard: Mutex::default(),
        ears: Mutex::default(),
        changed: Condvar::new(),
    });
    let policy = RestartPolicy { max: 3, backoff: Duration::ZERO, ..RestartPolicy::default() };
    let channel = Channel::new(Box::new(PeerDial(peer.clone())), policy, 1000, system());
    let notes = Arc::new(Notes::default());
    channel.set_asides(notes.clone());
    World { channel, peer, notes }
}

/// Frames until one that is an answer.
#[derive(Default)]
struct Frames(Vec<String>);

impl FrameSink for Frames {
    fn frame(&mut self, text: String) -> Flow {
        let done = text.contains("\"result\"") || text.contains("\"error\"") || text.contains("nothing");
        self.0.push(text);
        if done { Flow::Done } else { Flow::More }
    }
}

impl World {
    fn ask_with(&self, id: i64, body: &str, scope: &Scope<'_>) -> Result<Vec<String>, Fault> {
        let (mut frames, token) = (Frames::default(), id.to_string());
        let outgoing = Outgoing { life: 0, body, headers: &[], id: Some(id), token: Some(&token) };
        self.channel.exchange(outgoing, scope, &mut frames).map(|()| frames.0)
    }

    fn ask(&self, id: i64, body: &str) -> Result<Vec<String>, Fault> {
        self.ask_with(id, body, &scope(&CancelToken::new()))
    }

    fn odd(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.0.lock())
    }
}

fn scope(cancel: &CancelToken) -> Scope<'_> {
    let total = Deadline::after(SystemClock.now(), Some(BOUND), Budget::Total);
    Scope { cancel, total, idle: None, connect: None }
}

fn answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#)
}

#[test]
fn sixty_four_requests_are_in_flight_at_once_and_each_gets_its_own_answer() {
    let world = Arc::new(world(|peer, _, message| {
        if message != "dialled" && peer.heard.lock().len() == 64 {
            // All are there: answered in the reverse order.
            let heard: Vec<String> = peer.heard.lock().clone();
            heard.iter().rev().for_each(|id| peer.say(&answer(id)));
        }
    }));
    let callers: Vec<_> = (0..64)
        .map(|id| {
            let world = world.clone();
            std::thread::spawn(move || assert_eq!(world.ask(id, &id.to_string()).unwrap(), [answer(&id.to_string())]))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(world.peer.lives.load(Ordering::Relaxed), 1);
    assert_eq!(world.odd(), Vec::<String>::new());
}

#[test]
fn br_12_odd_answers_never_reach_another_request() {
    let world = world(|peer, _, message| match message {
        "first" => {
            for odd in ["99", "null", "\"x\"", "[1]", "1.5"] {
                peer.say(&answer(odd));
            }
            peer.say(r#"{"id":7,"result":{}"#);
            peer.say("hello");
            peer.say(&answer("\"1\""));
            peer.say(&answer("1"));
        }
        "second" => peer.say(&answer("2.0")),
        "both" => peer.say(r#"{"id":3,"result":{},"error":{}}"#),
        "neither" => peer.say(r#"{"id":4,"nothing":0}"#),
        "nameless" => peer.say(r#"{"id":null,"error":{"code":-32600,"message":"bad"}}"#),
        _ => {}
    });
    assert_eq!(world.ask(1, "first").unwrap(), [answer("\"1\"")]);
    assert_eq!(
        world.odd(),
        [
            "the server answered request 99, which is not open",
            "the server sent an answer whose id is no id of ours",
            "the server sent an answer whose id is no id of ours",
            "the server sent an answer whose id is no id of ours",
            "the server sent an answer whose id is no id of ours",
            "a line of the server's was passed over: it is not JSON",
            "a line of the server's was passed over: it is not JSON",
            "the server answered request 1 twice",
        ]
    );
    assert_eq!(world.ask(2, "second").unwrap(), [answer("2.0")]);
    assert_eq!(world.ask(3, "both").unwrap().len(), 1);
    assert_eq!(world.ask(5, "nameless").unwrap().len(), 1);
    // With two open, an error that names nobody is nobody's.
    let world = Arc::new(world);
    let other = world.clone();
    let waiting = std::thread::spawn(move || other.ask(6, "quiet"));
    world.peer.wait_heard("quiet");
    let cancel = CancelToken::new();
    let short = Scope {
        total: Deadline::after(SystemClock.now(), Some(Duration::from_millis(50)), Budget::Total),
        ..scope(&cancel)
    };
    assert!(matches!(world.ask_with(7, "nameless", &short), Err(Fault::Timeout { .. })));
    assert!(world.odd().contains(&"the server sent an error that names no request".to_owned()));
    world.peer.say(&answer("7"));
    assert_eq!(world.odd(), ["the answer to request 7 came too late"]);
    world.peer.say(&answer("6"));
    assert_eq!(waiting.join().unwrap().unwrap(), [answer("6")]);
}

#[test]
fn br_13_progress_goes_to_its_request_alone_and_never_ends_the_channel() {
    let progress = |token: &str| {
        format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#)
    };
    let world = world(move |peer, _, message| {
        if message == "go" {
            peer.say(&progress("\"made up\""));
            peer.say(&progress("1"));
            peer.say(&progress("\"1\""));
            peer.say(r#"{"method":"notifications/progress","params":{"progress":1}}"#);
            peer.say(&answer("1"));
            peer.say(&progress("1"));
        }
    });
    let frames = world.ask(1, "go").unwrap();
    assert_eq!(frames.len(), 3);
    let late = "the server sent progress for a token of no open request";
    let odd = world.odd();
    // The late one is either nobody's or was in time for a request that has its answer: never a frame after it.
    assert_eq!(odd[..2], [late, late]);
    assert_eq!(odd.len(), 3);
}

#[test]
fn a_cancel_and_a_timeout_are_told_to_the_server_and_a_close_is_not() {
    let world = Arc::new(world(|_, _, _| {}));
    for (id, end) in [(1, "cancel"), (2, "total"), (3, "idle"), (4, "close")] {
        let cancel = Arc::new(CancelToken::new());
        let (here, token) = (world.clone(), cancel.clone());
        let waiting = std::thread::spawn(move || {
            let short = |budget| Deadline::after(SystemClock.now(), Some(Duration::from_millis(30)), budget);
            let mut scope = scope(&token);
            match end {
                "total" => scope.total = short(Budget::Total),
                "idle" => scope.idle = Some(Duration::from_millis(30)),
                _ => {}
            }
            here.ask_with(id, end, &scope)
        });
        world.peer.wait_heard(end);
        match end {
            "cancel" => assert!(cancel.cancel(Why::Host)),
            "close" => assert!(cancel.cancel(Why::Closing)),
            _ => {}
        }
        let fault = waiting.join().unwrap().unwrap_err();
        match end {
            "cancel" => assert!(matches!(fault, Fault::Cancelled { why: Why::Host, sent: Sent::Begun })),
            "close" => assert!(matches!(fault, Fault::Cancelled { why: Why::Closing, .. })),
            "total" => assert!(matches!(fault, Fault::Timeout { budget: Budget::Total, sent: Sent::Begun })),
            _ => assert!(matches!(fault, Fault::Timeout { budget: Budget::Idle, .. })),
        }
    }
    let heard: Vec<String> = world.peer.heard.lock().clone();
    let cancelled = |id: i64, why: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"{why}"}}}}"#
        )
    };
    assert_eq!(heard[1], cancelled(1, "the host cancelled it"));
    assert_eq!(heard[3], cancelled(2, "the time is up"));
    assert_eq!(heard[5], cancelled(3, "the time is up"));
    assert_eq!(heard.len(), 7);
}

#[test]
fn br_06_a_peer_that_ended_is_dialled_again_within_the_bound() {
    let world = world(|peer, life, message| match message {
        "die" => peer.die(1),
        "unwritable" => peer.die(2),
        "ask" => peer.say(&format!(r#"{{"id":{life},"result":{{}}}}"#)),
        _ => {}
    });
    assert!(world.ask(1, "ask").is_ok());
    let fault = world.ask(2, "die").unwrap_err();
    assert!(matches!(fault, Fault::Exited { sent: Sent::Begun, ref end } if end.code == Some(1)), "{fault:?}");
    assert!(world.ask(2, "ask").is_ok());
    // The write that failed is told with the exit that explains it.
    let fault = world.ask(3, "unwritable").unwrap_err();
    assert!(matches!(fault, Fault::Exited { sent: Sent::Begun, ref end } if end.code == Some(2)), "{fault:?}");
    assert!(world.ask(4, "die").is_err());
    assert!(world.ask(5, "die").is_err());
    let fault = world.ask(6, "ask").unwrap_err();
    assert!(matches!(fault, Fault::NotAgain { last: Gone::Exited(ref end) } if end.code == Some(1)), "{fault:?}");
    assert_eq!(world.peer.lives.load(Ordering::Relaxed), 4);
}

#[test]
fn a_peer_that_dies_while_it_is_dialled_ends_the_request_at_once() {
    let world = world(|peer, _, message| {
        if message == "dialled" {
            peer.die(3);
        }
    });
    let fault = world.ask(1, "ask").unwrap_err();
    assert!(matches!(fault, Fault::Exited { sent: Sent::No, .. }), "{fault:?}");
    assert!(world.peer.heard.lock().is_empty());
}

#[test]
fn what_belongs_to_no_request_goes_aside() {
    let subscribed = |id: &str| {
        format!(
            r#"{{"method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    let world = world(move |peer, _, message| {
        if message == "go" {
            peer.say(r#"{"method":"notifications/message","params":{"level":"info","data":"mine"}}"#);
            peer.say(&subscribed("\"1\""));
            peer.say(&subscribed("8"));
            peer.say(r#"{"method":"notifications/x","params":{"a":1}}"#);
            peer.say(r#"{"id":"s1","method":"sampling/createMessage"}"#);
            peer.say(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#);
        }
    });
    let fault = world.ask(1, "go").unwrap_err();
    assert!(matches!(fault, Fault::Io { sent: Sent::Begun, .. }), "{fault:?}");
    world.peer.say(r#"{"method":"notifications/message","params":{"data":"nobodys"}}"#);
    assert_eq!(
        world.odd(),
        [
            "the server sent a notification for a subscription that is not open",
            "notifications/x {\"a\":1}",
            "request \"s1\" sampling/createMessage",
            "{\"data\":\"nobodys\"}",
        ]
    );
}

#[test]
fn br_03_a_line_over_the_limit_ends_the_request_that_it_answers() {
    let world = world(|peer, _, message| {
        let ear = peer.ears.lock().last().cloned().expect("a life");
        match message {
            "first" => ear.too_long(br#"{"jsonrpc":"2.0","id":1,"result":{"#),
            "only" => ear.too_long(br#"{"result":{"#),
            _ => {}
        }
    });
    for (id, body) in [(1, "first"), (2, "only")] {
        let fault = world.ask(id, body).unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { limit: 1000, option: "stdio_line_bytes", .. }), "{fault:?}");
    }
}

#[test]
fn after_a_close_nothing_is_sent_and_who_waits_is_woken() {
    let world = Arc::new(world(|_, _, _| {}));
    let here = world.clone();
    let waiting = std::thread::spawn(move || here.ask(1, "wait"));
    world.peer.wait_heard("wait");
    world.channel.close();
    assert!(matches!(waiting.join().unwrap(), Err(Fault::Closed)));
    assert!(matches!(world.ask(2, "late"), Err(Fault::Closed)));
    world.channel.finish(None);
    assert_eq!(world.peer.heard.lock().len(), 1);
}

/// Begins a request; what comes of it goes into the list.
fn begin(world: &World, id: i64, body: &str, out: &Arc<Mutex<Vec<String>>>) -> Option<Arc<dyn Unawaited>> {
    let there = out.clone();
    let later = Box::new(move |outcome: Result<String, Fault>| there.lock().push(format!("{outcome:?}")));
    world.channel.begin(Outgoing { life: 0, body, headers: &[], id: Some(id), token: None }, later)
}

#[test]
fn a_request_that_nobody_waits_for_comes_to_its_one_end() {
    let world = world(|_, _, _| ());
    let out = Arc::new(Mutex::new(Vec::new()));
    let came = || std::mem::take(&mut *out.lock());
    // Nothing is dialled for it, and what cannot be written now is not sent.
    assert!(begin(&world, 1, "early", &out).is_none());
    assert_eq!(world.peer.lives.load(Ordering::Relaxed), 0);
    let answered = std::thread::scope(|scope| {
        let caller = scope.spawn(|| world.ask(2, "first"));
        world.peer.wait_heard("first");
        // Beside a call: a log message is the call's, and so is an error that names nobody only without the other.
        let sent = begin(&world, 3, "poll", &out).unwrap();
        world.peer.say(r#"{"method":"notifications/message","params":{"level":"info","data":1}}"#);
        world.peer.say(r#"{"id":null,"error":{"code":-32600,"message":"whose?"}}"#);
        assert_eq!(world.odd(), ["the server sent an error that names no request"]);
        world.peer.say(&answer("3"));
        assert_eq!(came(), [format!("Ok({:?})", answer("3"))]);
        sent.expire(Budget::Total);
        assert!(came().is_empty() && !world.peer.heard.lock().iter().any(|text| text.contains("cancelled")));
        world.peer.say(&answer("2"));
        caller.join().unwrap().unwrap()
    });
    assert!(answered[0].contains("notifications/message") && answered.len() == 2, "{answered:?}");
    assert!(begin(&world, 4, "the pipe is full", &out).is_none());

    // Its time is up: the server is told, and an answer is late.
    let sent = begin(&world, 5, "poll", &out).unwrap();
    sent.expire(Budget::Idle);
    assert_eq!(came(), ["Err(Timeout { budget: Idle, sent: Begun })"]);
    world.peer.wait_heard("notifications/cancelled");
    drop(sent);
    world.peer.say(&answer("5"));
    assert_eq!(world.odd(), ["the answer to request 5 came too late"]);

    // Given up without a word.
    drop(begin(&world, 6, "poll", &out).unwrap());
    world.peer.say(&answer("6"));
    assert!(came().is_empty());
    assert_eq!(world.odd(), ["the answer to request 6 came too late"]);

    // An error that names nobody is the only one's; so is the end of the channel.
    let _sent = begin(&world, 7, "poll", &out).unwrap();
    world.peer.say(r#"{"id":null,"error":{"code":-32600,"message":"bad"}}"#);
    assert!(came()[0].contains("-32600"));
    let _sent = begin(&world, 8, "poll", &out).unwrap();
    world.peer.die(3);
    assert!(came()[0].contains("Exited"), "with the reason");
    assert!(begin(&world, 9, "poll", &out).is_none(), "the next life is for a thread that may wait");
    let _lines = world.odd();
    world.ask(10, "unwritable").unwrap_err();
}
