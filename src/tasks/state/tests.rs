//! The machine by table: each row a story of events, and after each event the actions in one line.

#![allow(clippy::wildcard_enum_match_arm, reason = "a story looks at a few of many actions")]
#![allow(clippy::too_many_lines, reason = "a table of stories is read as one")]

use super::*;
use crate::clock::{Clock as _, ManualClock};
use crate::error::RpcFault;
use crate::protocol::json::Json;
use std::time::Duration;

/// An event of a story.
enum Do {
    Seed(&'static str),
    Adopt(Past),
    Poll(&'static str),
    /// A refresh by the host that began at this moment.
    Refresh(u64, &'static str),
    Fail(Error),
    /// The origin failed at the one moment, and nothing is asked before the other.
    Withhold(u64, u64),
    Push(&'static str),
    Due,
    Poke,
    Answer(&'static [&'static str]),
    Update(&'static [&'static str]),
    Sent(&'static [&'static str], Result<(), Error>),
    Updated(&'static [&'static str], Result<(), Error>),
    Watch(bool),
    Cancel,
    Cancelled(Result<(), Error>),
    Recorded,
    NotRecorded,
    LetGo,
    Close,
}
use Do::*;

type Story = Vec<(u64, Do, &'static str)>;

fn options() -> FollowOptions {
    FollowOptions { auto_poll: true, push: true, min_poll: Duration::ZERO, stop_at_ttl: false, follow_cancel: true }
}

fn task(members: &str) -> Arc<Task> {
    let text = format!(r#"{{"taskId":"t","createdAt":"2026-11-30T10:00:00Z",{members}}}"#);
    Arc::new(Task::read(&Json::parse(&text).unwrap()).unwrap())
}

const WORKING: &str = r#""status":"working""#;
const DONE: &str = r#""status":"completed","result":{"content":[]}"#;
const HOLLOW: &str = r#""status":"completed""#;
const ASKS_A: &str = r#""status":"input_required","inputRequests":{"a":{"method":"roots/list"}}"#;
const ASKS_AB: &str =
    r#""status":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}}"#;
const ASKS_B: &str = r#""status":"input_required","inputRequests":{"b":{"method":"roots/list"}}"#;

fn rpc(code: i64) -> Error {
    Error::from_rpc(RpcFault { code, message: "m".into(), data: None })
}

fn unknown() -> Error {
    rpc(-32602).with_kind(Kind::TaskUnknown)
}

fn reset() -> Error {
    Error::new(Kind::Io, "reset")
}

fn busy(seconds: u64) -> Error {
    Error::new(Kind::Http, "429").with_http_status(429).with_retry_after(Some(Duration::from_secs(seconds)))
}

fn answers(keys: &[&str]) -> Vec<InputAnswer> {
    keys.iter().map(|key| InputAnswer { key: (*key).into(), response: Json::trusted("{}") }).collect()
}

fn event(what: Do, now: Instant, start: Instant) -> TaskEvent {
    let scheduled = Trip { by: Asker::Schedule, started: now };
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    match what {
        Seed(text) => TaskEvent::Seeded(task(text)),
        Adopt(past) => TaskEvent::Adopted(past),
        Poll(text) => TaskEvent::Polled(task(text), scheduled),
        Refresh(began, text) => {
            TaskEvent::Polled(task(text), Trip { by: Asker::Host, started: start + Duration::from_millis(began) })
        }
        Fail(error) => TaskEvent::PollFailed(error, scheduled),
        Withhold(failed, until) => {
            let at = |ms| start + Duration::from_millis(ms);
            TaskEvent::Withheld(Withheld { error: reset(), failed: at(failed), until: at(until) })
        }
        Push(text) => TaskEvent::Pushed(task(text)),
        Watch(on) => TaskEvent::Watched(on),
        Due => TaskEvent::Due,
        Poke => TaskEvent::Poked,
        Answer(keys) => TaskEvent::Answered(answers(keys), Sender::Worker),
        Update(keys) => TaskEvent::Answered(answers(keys), Sender::Caller),
        Sent(keys, outcome) => TaskEvent::UpdateDone(owned(keys), Sender::Worker, outcome),
        Updated(keys, outcome) => TaskEvent::UpdateDone(owned(keys), Sender::Caller, outcome),
        Cancel => TaskEvent::CancelAsked,
        Cancelled(outcome) => TaskEvent::CancelDone(outcome),
        Recorded => TaskEvent::Recorded,
        NotRecorded => TaskEvent::RecordFailed(Error::new(Kind::Internal, "disk")),
        LetGo => TaskEvent::LetGo,
        Close => TaskEvent::Closed,
    }
}

fn told(actions: &Actions, start: Instant) -> String {
    let one = |action: &TaskAction| match action {
        TaskAction::Record => "record".into(),
        TaskAction::Forget => "forget".into(),
        TaskAction::Poll => "poll".into(),
        TaskAction::SendUpdate(answers) => {
            format!("update:{}", answers.iter().map(|a| a.key.as_str()).collect::<Vec<_>>().join("+"))
        }
        TaskAction::SendCancel => "cancel".into(),
        TaskAction::Ask(request) => format!("ask:{}", request.key),
        TaskAction::Withdraw(key) => format!("withdraw:{key}"),
        TaskAction::WakeAt(at) => format!("wake:{}", at.duration_since(start).as_millis()),
        TaskAction::Finish(reason) => format!("finish:{reason:?}"),
        TaskAction::Announce(what) => match what {
            Announcement::Created => "Created".into(),
            Announcement::Resumed => "Resumed".into(),
            Announcement::Status => "Status".into(),
            Announcement::Overdue => "Overdue".into(),
            Announcement::Degraded(error) => format!("Degraded:{:?}", error.kind()),
            Announcement::Recovered => "Recovered".into(),
            Announcement::Unstored(_) => "Unstored".into(),
            Announcement::AnswerRefused(keys, _) => format!("AnswerRefused:{}", keys.join("+")),
            Announcement::CancelRefused(_) => "CancelRefused".into(),
            Announcement::Ask(_) | Announcement::Withdrawn(_) => {
                unreachable!("the driver makes these")
            }
            Announcement::Ended(reason) => format!("Ended:{reason:?}"),
        },
    };
    actions.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Tells a story on both clocks alike and returns the machine for a closer look.
fn tell_with(name: &str, options: FollowOptions, story: Story) -> Machine {
    let start = ManualClock::new().now();
    let mut machine = Machine::new(options);
    for (step, (ms, what, want)) in story.into_iter().enumerate() {
        let at = Moment { now: start + Duration::from_millis(ms), boot: Duration::from_millis(1_000_000 + ms) };
        let mut out = Actions::new();
        machine.on(event(what, at.now, start), at, Jitter(0), &mut out);
        assert_eq!(told(&out, start), want, "{name}, step {step} at {ms} ms");
    }
    machine
}

fn tell(name: &str, story: Story) -> Machine {
    tell_with(name, options(), story)
}

#[test]
fn a_short_life_from_seed_to_result() {
    let machine = tell(
        "plain",
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":2000"#), "record Created wake:2000"),
            (1_999, Due, ""),
            (2_000, Due, "poll"),
            (2_010, Due, ""),
            (2_100, Poll(r#""status":"working","statusMessage":"half""#), "record Status wake:4100"),
            (4_100, Due, "poll"),
            (
                4_200,
                Poll(r#""status":"working","statusMessage":"half","lastUpdatedAt":"2026-11-30T10:00:04Z""#),
                "wake:6200",
            ),
            (6_200, Due, "poll"),
            (6_300, Poll(DONE), "record Ended:Completed finish:Completed"),
            (6_400, Due, ""),
            (6_500, Poll(WORKING), ""),
            (6_600, Cancel, ""),
            (6_700, Close, ""),
            (6_800, LetGo, ""),
            (6_900, Answer(&["a"]), ""),
        ],
    );
    assert_eq!(machine.status(), TaskStatus::Completed);
    assert!(machine.end().is_some_and(|end| end.error.is_none()));
}

#[test]
fn br35_corner1_the_interval_is_followed_as_it_changes() {
    for (name, seed, want) in [
        ("absent", r#""status":"working""#, "record Created wake:1000"),
        ("zero", r#""status":"working","pollIntervalMs":0"#, "record Created wake:1000"),
        ("negative", r#""status":"working","pollIntervalMs":-5"#, "record Created wake:1000"),
        ("one", r#""status":"working","pollIntervalMs":1"#, "record Created wake:100"),
        ("a float", r#""status":"working","pollIntervalMs":500.0"#, "record Created wake:500"),
        ("one day", r#""status":"working","pollIntervalMs":86400000"#, "record Created wake:86400000"),
        ("huge", r#""status":"working","pollIntervalMs":9e15"#, "record Created wake:9000000000000000"),
    ] {
        tell(name, vec![(0, Seed(seed), want)]);
    }
    tell(
        "1000, 3000, 1000",
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":1000"#), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_500, Poll(r#""status":"working","pollIntervalMs":3000"#), "wake:4500"),
            (4_500, Due, "poll"),
            (4_600, Poll(WORKING), "wake:7600"),
            (7_600, Due, "poll"),
            (7_700, Poll(r#""status":"working","pollIntervalMs":1000"#), "wake:8700"),
        ],
    );
    let slow = FollowOptions { min_poll: Duration::from_secs(5), ..options() };
    tell_with("the host's minimum", slow, vec![(0, Seed(WORKING), "record Created wake:5000")]);
}

#[test]
fn a_task_that_is_pushed_is_polled_seldom_and_soon_after_push_was_lost() {
    tell(
        "the poll that is due is made, the next one is far away",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (500, Watch(true), ""),
            (1_000, Due, "poll"),
            (1_100, Poll(WORKING), "wake:31100"),
            (2_000, Push(r#""status":"working","statusMessage":"on""#), "record Status wake:32000"),
            (31_100, Due, ""),
            (32_000, Due, "poll"),
            (32_100, Poll(r#""status":"working","statusMessage":"on","pollIntervalMs":60000"#), "wake:92100"),
            // Never before the server's interval has passed.
            (40_000, Watch(false), ""),
            (92_100, Due, "poll"),
            (92_200, Poll(r#""status":"working","statusMessage":"on","pollIntervalMs":1000"#), "wake:93200"),
        ],
    );
    tell(
        "lost: at once; again: seldom, after one poll",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (500, Watch(true), ""),
            (1_000, Due, "poll"),
            (1_100, Poll(WORKING), "wake:31100"),
            (10_000, Watch(false), "wake:10000"),
            (10_050, Watch(true), ""),
            // It began before: something may lie between.
            (10_100, Refresh(10_000, WORKING), "wake:11100"),
            (11_100, Due, "poll"),
            (11_200, Poll(WORKING), "wake:41200"),
            (12_000, Push(DONE), "record Ended:Completed finish:Completed"),
            (12_100, Watch(false), ""),
        ],
    );
}

#[test]
fn corner1_a_ttl_that_makes_no_sense_limits_nothing() {
    for seed in [
        r#""status":"working","ttlMs":null,"pollIntervalMs":3600000"#,
        r#""status":"working","pollIntervalMs":3600000"#,
        r#""status":"working","ttlMs":0,"pollIntervalMs":3600000"#,
        r#""status":"working","ttlMs":-1,"pollIntervalMs":3600000"#,
        r#""status":"working","ttlMs":9e18,"pollIntervalMs":3600000"#,
    ] {
        tell(seed, vec![(0, Seed(seed), "record Created wake:3600000"), (3_599_999, Due, "")]);
    }
}

#[test]
fn corner2_a_terminal_seed() {
    tell(
        "whole: ends without a poll, after the call's own answer",
        vec![(0, Seed(DONE), "record Created wake:0"), (0, Due, "record Ended:Completed finish:Completed")],
    );
    tell(
        "cancelled has nothing to fetch",
        vec![
            (0, Seed(r#""status":"cancelled""#), "record Created wake:0"),
            (0, Due, "record Ended:Cancelled finish:Cancelled"),
        ],
    );
    let seed = r#""status":"completed","pollIntervalMs":500"#;
    let machine = tell(
        "without payload: one poll, after the seed's interval",
        vec![(0, Seed(seed), "record Created wake:500"), (499, Due, ""), (500, Due, "poll")],
    );
    assert_eq!(machine.status(), TaskStatus::Working, "no end without its payload");
    tell(
        "and the poll brings it",
        vec![
            (0, Seed(seed), "record Created wake:500"),
            (500, Due, "poll"),
            (510, Poll(DONE), "record Ended:Completed finish:Completed"),
        ],
    );
    tell(
        "failed without error: one poll for it, then it counts as it is",
        vec![
            (0, Seed(r#""status":"failed""#), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_010, Poll(r#""status":"failed""#), "record Ended:Failed finish:Failed"),
        ],
    );
    tell(
        "a seed's questions come after the call's own answer",
        vec![(0, Seed(ASKS_A), "record Created wake:0"), (0, Due, "ask:a wake:1000"), (1_000, Due, "poll")],
    );
}

#[test]
fn corner3_a_lagging_acknowledgement_neither_asks_nor_answers_twice() {
    let machine = tell(
        "lag",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Poll(ASKS_A), "record Status ask:a wake:2000"),
            (1_500, Answer(&["a"]), "record update:a"),
            (1_501, Answer(&["a"]), ""),
            (1_600, Sent(&["a"], Ok(())), "record"),
            (2_000, Due, "poll"),
            (2_000, Poll(ASKS_A), "wake:3000"),
            (3_000, Due, "poll"),
            (3_000, Poll(ASKS_A), "wake:4000"),
            (3_500, Answer(&["a"]), ""),
            (4_000, Due, "poll"),
            (4_000, Poll(WORKING), "record Status wake:5000"),
        ],
    );
    assert_eq!(machine.weigh(&answers(&["a"])), Verdict::AlreadyAnswered);
    assert_eq!(machine.weigh(&answers(&["zz"])), Verdict::UnknownKey("zz".into()));
}

#[test]
fn corner4_keys_grow_while_a_human_thinks_and_answers_may_be_partial() {
    let machine = tell(
        "grow",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Poll(ASKS_A), "record Status ask:a wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Poll(ASKS_AB), "record Status ask:b wake:3000"),
            (2_500, Answer(&["a"]), "record update:a"),
            (2_600, Sent(&["a"], Ok(())), "record"),
            (3_000, Due, "poll"),
            (3_000, Poll(ASKS_B), "record Status wake:4000"),
        ],
    );
    let open: Vec<String> = machine.open_inputs().into_iter().map(|input| input.request.key).collect();
    assert_eq!(open, ["b"]);
    assert_eq!(machine.weigh(&answers(&["a", "b"])), Verdict::Accepted);
    tell(
        "two at once, one of them answered before",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Poll(ASKS_AB), "record Status ask:a ask:b wake:2000"),
            (1_100, Answer(&["a"]), "record update:a"),
            (1_200, Answer(&["a", "b"]), "record update:b"),
            (1_300, Answer(&["b", "nonsense"]), ""),
        ],
    );
}

#[test]
fn corner5_an_open_question_is_withdrawn() {
    let asked = || {
        vec![
            (0, Seed(r#""status":"working","ttlMs":60000"#), "record Created wake:1000"),
            (1_000, Due, "poll wake:60000"),
            (1_000, Poll(ASKS_AB), "record Status ask:a ask:b wake:2000"),
            (1_100, Answer(&["b"]), "record update:b"),
            (2_000, Due, "poll wake:60000"),
        ]
    };
    for (name, what, want) in [
        ("cancelled", Poll(r#""status":"cancelled""#), "record withdraw:a Ended:Cancelled finish:Cancelled"),
        ("failed", Poll(r#""status":"failed""#), "record withdraw:a Ended:Failed finish:Failed"),
        ("unknown", Fail(unknown()), "record withdraw:a Ended:Unknown finish:Unknown"),
        ("closed", Close, "withdraw:a Ended:Closed finish:Closed"),
        ("let go", LetGo, "forget withdraw:a Ended:Closed finish:Closed"),
        ("the key vanished", Poll(ASKS_B), "record Status withdraw:a wake:3000"),
    ] {
        let mut story = asked();
        story.push((2_000, what, want));
        tell(name, story);
    }
    let mut story = asked();
    story.push((60_000, Fail(unknown()), "record withdraw:a Ended:Expired finish:Expired"));
    tell("expired", story);
    let mut story = asked();
    story.extend([
        (2_000, Poll(ASKS_B), "record Status withdraw:a wake:3000"),
        (3_000, Due, "poll wake:60000"),
        (3_000, Poll(ASKS_AB), "record Status ask:a wake:4000"),
    ]);
    tell("a question that stands again is put to the host again", story);
}

#[test]
fn corner6_a_failed_poll_ends_nothing() {
    let failures = [
        ("reset", reset()),
        ("502", Error::new(Kind::Http, "502").with_http_status(502)),
        ("truncated JSON", Error::new(Kind::Parse, "eof")),
        ("an unknown status, corner 9", Error::new(Kind::Malformed, "the task has the unknown status paused")),
        ("TLS", Error::new(Kind::Tls, "handshake")),
        ("404", Error::new(Kind::Http, "404").with_http_status(404)),
        ("timeout", Error::new(Kind::Timeout, "total")),
        ("corner 8: the capability is said to be missing", rpc(-32021)),
        ("internal error", rpc(-32603)),
        ("sign-in", Error::new(Kind::AuthRequired, "401")),
    ];
    for (name, error) in failures {
        let kind = match error.kind() {
            Kind::Io => "Degraded:Io wake:2000",
            Kind::Http => "Degraded:Http wake:2000",
            Kind::Parse => "Degraded:Parse wake:2000",
            Kind::Malformed => "Degraded:Malformed wake:2000",
            Kind::Tls => "Degraded:Tls wake:2000",
            Kind::Timeout => "Degraded:Timeout wake:2000",
            Kind::Rpc => "Degraded:Rpc wake:2000",
            Kind::AuthRequired => "Degraded:AuthRequired wake:2000",
            other => panic!("{other:?}"),
        };
        tell(
            name,
            vec![
                (0, Seed(WORKING), "record Created wake:1000"),
                (1_000, Due, "poll"),
                (1_000, Fail(error.clone()), kind),
                (2_000, Due, "poll"),
                (2_000, Fail(error.clone()), "wake:4000"),
                (4_000, Due, "poll"),
                (4_000, Fail(error), "wake:8000"),
                (8_000, Due, "poll"),
                (8_000, Poll(WORKING), "Recovered wake:9000"),
            ],
        );
    }
}

#[test]
fn corner6_retry_after_is_kept_in_full_and_our_own_backoff_is_capped() {
    tell(
        "429 with Retry-After",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Fail(busy(300)), "Degraded:Http wake:301000"),
            (300_999, Due, ""),
            (301_000, Due, "poll"),
            (301_000, Poll(DONE), "Recovered record Ended:Completed finish:Completed"),
        ],
    );
    let mut story: Story = vec![(0, Seed(WORKING), "record Created wake:1000")];
    let wakes = [2, 4, 8, 16, 32, 64, 124, 184, 244];
    let lines = [
        "Degraded:Io wake:2000",
        "wake:4000",
        "wake:8000",
        "wake:16000",
        "wake:32000",
        "wake:64000",
        "wake:124000",
        "wake:184000",
        "wake:244000",
    ];
    let mut due = 1_000;
    for (seconds, line) in wakes.iter().zip(lines) {
        story.push((due, Due, "poll"));
        story.push((due, Fail(reset()), line));
        due = seconds * 1_000;
    }
    tell("backoff", story);
}

#[test]
fn corner7_br36_an_unknown_task() {
    tell(
        "three polls right after creation",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Fail(unknown()), "wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Fail(unknown()), "wake:3000"),
            (3_000, Due, "poll"),
            (3_000, Fail(unknown()), "record Ended:Unknown finish:Unknown"),
        ],
    );
    tell(
        "ten seconds right after creation",
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":10000"#), "record Created wake:10000"),
            (10_000, Due, "poll"),
            (10_000, Fail(unknown()), "record Ended:Unknown finish:Unknown"),
        ],
    );
    tell(
        "the grace is used, and the task appears",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Fail(unknown()), "wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Poll(WORKING), "wake:3000"),
            (3_000, Due, "poll"),
            (3_000, Fail(unknown()), "record Ended:Unknown finish:Unknown"),
        ],
    );
    let machine = tell(
        "after a restart it is final at once",
        vec![
            (0, Adopt(Past::default()), "record Resumed wake:0"),
            (0, Due, "poll"),
            (0, Fail(unknown()), "record Ended:Unknown finish:Unknown"),
            (1, Fail(unknown()), ""),
        ],
    );
    assert_eq!(machine.status(), TaskStatus::Failed);
    let error = machine.end().and_then(|end| end.error.clone()).unwrap();
    assert_eq!(error.kind(), Kind::TaskUnknown);
    assert_eq!(error.message(), "the server does not know the task, or no longer");
    assert_eq!(error.rpc().map(|fault| fault.code), Some(-32602));
    let past = Past {
        last: Some(task(r#""status":"working","ttlMs":60000"#)),
        age: Duration::from_secs(3_600),
        ..Past::default()
    };
    let machine = tell(
        "after a long pause it has expired",
        vec![
            (0, Adopt(past), "record Resumed wake:0"),
            (0, Due, "Overdue poll"),
            (0, Fail(unknown()), "record Ended:Expired finish:Expired"),
        ],
    );
    assert_eq!(machine.status(), TaskStatus::Failed);
    let error = machine.end().and_then(|end| end.error.clone()).unwrap();
    assert_eq!(error.kind(), Kind::TaskExpired);
    assert_eq!(error.message(), "the task outlived its time to live, and the server no longer knows it");
}

#[test]
fn br36_the_ttl_is_a_back_stop() {
    tell(
        "(b) overdue is told once and the task followed on, to its result",
        vec![
            (0, Seed(r#""status":"working","ttlMs":1500"#), "record Created wake:1000"),
            (1_000, Due, "poll wake:1500"),
            (1_000, Poll(r#""status":"working","ttlMs":1500"#), ""),
            (1_500, Due, "Overdue wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Poll(WORKING), "wake:3000"),
            (3_000, Due, "poll"),
            (3_000, Poll(DONE), "record Ended:Completed finish:Completed"),
        ],
    );
    let stop = FollowOptions { stop_at_ttl: true, ..options() };
    let machine = tell_with(
        "(b) with stop it ends there",
        stop,
        vec![
            (0, Seed(r#""status":"working","ttlMs":1500"#), "record Created wake:1000"),
            (1_000, Due, "poll wake:1500"),
            (1_000, Poll(WORKING), ""),
            (1_500, Due, "record Ended:Expired finish:Expired"),
            (1_600, Poll(DONE), ""),
        ],
    );
    let error = machine.end().and_then(|end| end.error.clone()).unwrap();
    assert_eq!((error.kind(), error.message()), (Kind::TaskExpired, "the task outlived its time to live"));
    tell(
        "(d) a changed ttl moves the end",
        vec![
            (0, Seed(r#""status":"working","ttlMs":1000,"pollIntervalMs":900"#), "record Created wake:900"),
            (900, Due, "poll wake:1000"),
            (900, Poll(r#""status":"working","ttlMs":10000,"pollIntervalMs":900"#), "record wake:1800"),
            (1_800, Due, "poll wake:10000"),
            (3_000, Poll(DONE), "record Ended:Completed finish:Completed"),
        ],
    );
    tell(
        "five minutes out of reach after it was overdue",
        vec![
            (0, Seed(r#""status":"working","ttlMs":1500"#), "record Created wake:1000"),
            (1_000, Due, "poll wake:1500"),
            (1_000, Fail(reset()), "Degraded:Io"),
            (1_500, Due, "Overdue wake:2000"),
            (2_000, Due, "poll"),
            (300_999, Fail(reset()), "wake:302999"),
            (302_999, Due, "poll"),
            (303_000, Fail(reset()), "record Ended:Expired finish:Expired"),
        ],
    );
}

#[test]
fn a_withheld_poll_is_a_fault_that_ends_a_task_only_by_what_was_really_asked() {
    tell(
        "an answer later",
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":5000"#), "record Created wake:5000"),
            (5_000, Due, "poll"),
            (5_000, Withhold(4_000, 9_000), "Degraded:Io wake:9000"),
            (9_000, Due, "poll"),
            (9_000, Withhold(9_000, 13_000), "wake:13000"),
            (13_000, Due, "poll"),
            (13_000, Fail(reset()), "wake:18000"),
            (18_000, Due, "poll"),
            (18_000, Poll(DONE), "Recovered record Ended:Completed finish:Completed"),
        ],
    );
    tell(
        "out of reach for five minutes, by the failures of others",
        vec![
            (0, Seed(r#""status":"working","ttlMs":1500"#), "record Created wake:1000"),
            (1_000, Due, "poll wake:1500"),
            (1_000, Withhold(900, 3_600_000), "Degraded:Io"),
            (1_500, Due, "Overdue wake:3600000"),
            (3_600_000, Due, "poll"),
            // An hour has passed, but nobody has asked in it.
            (3_600_000, Withhold(900, 3_602_000), "wake:3602000"),
            (3_602_000, Due, "poll"),
            (3_602_000, Withhold(3_601_000, 3_604_000), "record Ended:Expired finish:Expired"),
        ],
    );
}

#[test]
fn corner17_sleep_past_the_ttl_is_no_unreachability() {
    let start = ManualClock::new().now();
    let mut machine = Machine::new(options());
    let at = |ms: u64, asleep: u64| Moment {
        now: start + Duration::from_millis(ms),
        boot: Duration::from_millis(ms) + Duration::from_secs(asleep),
    };
    let mut step = |what, at: Moment| {
        let mut out = Actions::new();
        machine.on(event(what, at.now, start), at, Jitter(0), &mut out);
        told(&out, start)
    };
    assert_eq!(step(Seed(r#""status":"working","ttlMs":60000"#), at(0, 0)), "record Created wake:1000");
    assert_eq!(step(Due, at(1_000, 7_200)), "Overdue poll");
    assert_eq!(step(Fail(reset()), at(1_100, 7_200)), "Degraded:Io wake:2100");
    assert_eq!(step(Due, at(2_100, 7_200)), "poll");
    assert_eq!(step(Poll(DONE), at(2_200, 7_200)), "Recovered record Ended:Completed finish:Completed");
}

#[test]
fn corner9_br39_ends_with_and_without_their_payload() {
    let fault = r#""status":"failed","statusMessage":"why","error":{"code":-32050,"message":"no disk","data":{"a":1}}"#;
    let machine = tell(
        "(a) code, message and data",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Poll(fault), "record Ended:Failed finish:Failed"),
        ],
    );
    let error = machine.end().and_then(|end| end.error.clone()).unwrap();
    assert_eq!(error.kind(), Kind::TaskFailed);
    assert_eq!(error.rpc().and_then(|fault| fault.data.as_deref()), Some("{\"a\":1}"));
    let machine = tell(
        "(c) failed without error",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Poll(r#""status":"failed","statusMessage":"why""#), "record Ended:Failed finish:Failed"),
        ],
    );
    let error = machine.end().and_then(|end| end.error.clone()).unwrap();
    assert_eq!(error.message(), "the task failed, and the server sent no error: why");
    let machine = tell(
        "(d) completed without result, three times",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_000, Poll(HOLLOW), "Degraded:Malformed wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Poll(HOLLOW), "wake:4000"),
            (4_000, Due, "poll"),
            (4_000, Poll(HOLLOW), "record Ended:Failed finish:Failed"),
        ],
    );
    let error = machine.end().and_then(|end| end.error.clone()).unwrap();
    assert_eq!(error.kind(), Kind::Malformed);
    assert_eq!(error.message(), "the task is completed but has no result object");
    tell(
        "(e) cancelled, with words",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (
                1_000,
                Poll(r#""status":"cancelled","statusMessage":"by the owner""#),
                "record Ended:Cancelled finish:Cancelled",
            ),
        ],
    );
}

#[test]
fn corner12_br36g_cancel_races() {
    let begin = || vec![(0, Seed(WORKING), "record Created wake:1000")];
    let with = |more: Story| begin().into_iter().chain(more).collect::<Story>();
    tell(
        "it completes after the cancel",
        with(vec![
            (100, Cancel, "record cancel"),
            (110, Cancel, ""),
            (200, Cancelled(Ok(())), "record"),
            (300, Cancel, ""),
            (1_000, Due, "poll"),
            (1_000, Poll(WORKING), "wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Poll(DONE), "record Ended:Completed finish:Completed"),
        ]),
    );
    tell(
        "the cancel does not arrive at first",
        with(vec![
            (100, Cancel, "record cancel"),
            (500, Cancelled(Err(reset())), ""),
            (1_000, Due, "poll wake:1500"),
            (1_000, Poll(WORKING), ""),
            (1_500, Due, "cancel wake:2000"),
            (1_600, Cancelled(Ok(())), "record"),
        ]),
    );
    tell(
        "unknown to cancel is no verdict on the task",
        with(vec![
            (100, Cancel, "record cancel"),
            (200, Cancelled(Err(unknown())), "record CancelRefused"),
            (1_000, Due, "poll"),
            (1_000, Poll(DONE), "record Ended:Completed finish:Completed"),
        ]),
    );
    tell(
        "it ends while the cancel is on its way",
        with(vec![
            (999, Cancel, "record cancel"),
            (1_000, Due, "poll"),
            (1_001, Poll(DONE), "record Ended:Completed finish:Completed"),
            (1_002, Cancelled(Ok(())), ""),
        ]),
    );
    let past = Past { cancel_pending: true, ..Past::default() };
    tell(
        "the process died before the acknowledgement",
        vec![(0, Adopt(past), "record Resumed cancel wake:0"), (0, Cancelled(Ok(())), "record")],
    );
    let drop_it = FollowOptions { follow_cancel: false, ..options() };
    tell_with(
        "let go after the cancel, by option",
        drop_it,
        with(vec![
            (100, Cancel, "record cancel"),
            (200, Cancelled(Ok(())), "record forget Ended:Closed finish:Closed"),
        ]),
    );
}

#[test]
fn a_cancel_is_given_up_after_a_bounded_number_of_tries() {
    let mut machine = Machine::new(FollowOptions { auto_poll: false, ..options() });
    let (mut sent, mut refused, mut now) = (0, 0, ManualClock::new().now());
    let mut next = vec![TaskEvent::CancelAsked, TaskEvent::Seeded(task(WORKING))];
    while let Some(event) = next.pop() {
        let mut out = Actions::new();
        machine.on(event, Moment { now, boot: Duration::ZERO }, Jitter(0), &mut out);
        for action in out {
            match action {
                TaskAction::SendCancel => {
                    sent += 1;
                    next.push(TaskEvent::CancelDone(Err(reset())));
                }
                TaskAction::Announce(Announcement::CancelRefused(_)) => refused += 1,
                TaskAction::WakeAt(at) => {
                    now = at;
                    next.push(TaskEvent::Due);
                }
                _ => {}
            }
        }
    }
    assert_eq!((sent, refused), (8, 1));
    assert!(!machine.cancel_asked(), "it may be asked for again");
}

#[test]
fn an_update_that_fails_is_sent_again_and_a_refused_one_opens_the_question() {
    let asked = || {
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":60000"#), "record Created wake:60000"),
            (0, Refresh(0, ASKS_A), "record Status ask:a"),
            (10, Answer(&["a"]), "record update:a"),
        ]
    };
    let with = |more: Story| asked().into_iter().chain(more).collect::<Story>();
    tell(
        "sent again with backoff",
        with(vec![
            (100, Sent(&["a"], Err(reset())), "wake:1100"),
            (1_100, Due, "update:a wake:60000"),
            (1_200, Sent(&["a"], Err(busy(30))), "wake:31200"),
            (31_200, Due, "update:a wake:60000"),
            (31_300, Sent(&["a"], Ok(())), "record"),
        ]),
    );
    tell(
        "the server has it after all: only the acknowledgement was lost",
        with(vec![
            (100, Sent(&["a"], Err(reset())), "wake:1100"),
            (200, Refresh(200, WORKING), "record Status wake:60200"),
            (1_100, Due, ""),
        ]),
    );
    let machine = tell("refused", with(vec![(100, Sent(&["a"], Err(rpc(-32602))), "record AnswerRefused:a")]));
    assert_eq!(machine.weigh(&answers(&["a"])), Verdict::Accepted, "the host may answer anew");
    tell(
        "an internal error is tried three times",
        with(vec![
            (100, Sent(&["a"], Err(rpc(-32603))), "wake:1100"),
            (1_100, Due, "update:a wake:60000"),
            (1_200, Sent(&["a"], Err(rpc(-32603))), "wake:3200"),
            (3_200, Due, "update:a wake:60000"),
            (3_300, Sent(&["a"], Err(rpc(-32603))), "record AnswerRefused:a"),
        ]),
    );
    tell(
        "on the caller's thread a failure is the caller's to repeat",
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":60000"#), "record Created wake:60000"),
            (0, Refresh(0, ASKS_A), "record Status ask:a"),
            (10, Update(&["a"]), "record"),
            (11, Update(&["a"]), ""),
            (20, Updated(&["a"], Err(reset())), "record"),
            (30, Update(&["a"]), "record"),
            (40, Updated(&["a"], Ok(())), "record"),
            (50, Update(&["a"]), ""),
        ],
    );
}

#[test]
fn answers_of_an_earlier_process_are_neither_lost_nor_asked_again() {
    let past = Past {
        last: Some(task(ASKS_AB)),
        answers: vec![
            StoredAnswer { key: "a".into(), response: Some(Json::trusted("{}")) },
            StoredAnswer { key: "c".into(), response: None },
        ],
        ..Past::default()
    };
    let machine = tell(
        "restart",
        vec![
            (0, Adopt(past), "record Resumed update:a wake:0"),
            (0, Due, "poll"),
            (0, Poll(ASKS_AB), "ask:b wake:1000"),
        ],
    );
    let open = machine.open_inputs();
    assert_eq!(
        open.iter().map(|input| (input.request.key.as_str(), input.repeated)).collect::<Vec<_>>(),
        [("b", true)]
    );
    assert_eq!(machine.weigh(&answers(&["c"])), Verdict::AlreadyAnswered);
}

#[test]
fn corner16_old_news_change_nothing() {
    tell(
        "a push with an older lastUpdatedAt",
        vec![
            (0, Seed(r#""status":"working","pollIntervalMs":60000"#), "record Created wake:60000"),
            (
                10,
                Push(r#""status":"working","statusMessage":"new","lastUpdatedAt":"2026-11-30T10:00:09Z""#),
                "record Status",
            ),
            (11, Push(r#""status":"working","statusMessage":"old","lastUpdatedAt":"2026-11-30T10:00:08Z""#), ""),
            (12, Push(r#""status":"working","statusMessage":"new","lastUpdatedAt":"2026-11-30T10:00:09Z""#), ""),
            (13, Push(HOLLOW), ""),
            (14, Push(DONE), "record Ended:Completed finish:Completed"),
        ],
    );
    tell(
        "of two polls that overlap, the one that began later counts",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_200, Refresh(1_100, r#""status":"working","statusMessage":"new""#), "record Status"),
            (1_300, Refresh(900, r#""status":"working","statusMessage":"old""#), ""),
        ],
    );
    tell(
        "a poll that a push has overtaken takes no question back",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (1_000, Due, "poll"),
            (1_100, Push(ASKS_A), "record Status ask:a"),
            (1_200, Refresh(1_000, r#""status":"input_required""#), ""),
            (1_300, Refresh(1_000, DONE), "record withdraw:a Ended:Completed finish:Completed"),
        ],
    );
}

#[test]
fn a_failed_record_is_told_once_and_holds_nothing_back() {
    tell(
        "ledger",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (0, NotRecorded, "Unstored"),
            (0, NotRecorded, ""),
            (1, Recorded, ""),
            (2, NotRecorded, "Unstored"),
        ],
    );
}

#[test]
fn without_auto_poll_only_the_host_polls_and_the_back_stop_still_works() {
    let by_hand = FollowOptions { auto_poll: false, ..options() };
    let machine = tell_with(
        "by hand",
        by_hand.clone(),
        vec![
            (0, Seed(WORKING), "record Created"),
            (5_000, Due, ""),
            (5_000, Refresh(5_000, r#""status":"working","statusMessage":"x""#), "record Status"),
        ],
    );
    assert!(machine.next_poll_due().is_some());
    tell_with(
        "overdue",
        by_hand,
        vec![
            (0, Seed(r#""status":"working","ttlMs":1500"#), "record Created wake:1500"),
            (1_500, Due, "Overdue"),
            (9_000, Due, ""),
        ],
    );
}

#[test]
fn a_poke_brings_degraded_polls_forward_but_never_before_the_interval() {
    tell(
        "degraded",
        vec![
            (0, Seed(WORKING), "record Created wake:1000"),
            (500, Poke, ""),
            (1_000, Due, "poll"),
            (1_000, Fail(reset()), "Degraded:Io wake:2000"),
            (2_000, Due, "poll"),
            (2_000, Fail(reset()), "wake:4000"),
            (2_500, Poke, "wake:3000"),
            (3_000, Due, "poll"),
            (3_000, Fail(busy(60)), "wake:63000"),
            (4_000, Poke, ""),
        ],
    );
}

#[test]
fn what_comes_too_early_means_nothing() {
    for what in [Due, Poke, Cancel, LetGo, Close, Poll(DONE), Fail(reset()), Push(DONE), Answer(&["a"]), Recorded] {
        tell("new", vec![(0, what, "")]);
    }
    tell("a machine begins once", vec![(0, Seed(WORKING), "record Created wake:1000"), (1, Seed(DONE), "")]);
}
