//! The server's own requests, and the visits to URLs that an error asks for.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{BOUND, CALL, Peer, Seen, Server, Talk, serve};
use crate::cancel::CancelToken;
use crate::clock::{Budget, Clock, Deadline, SystemClock};
use crate::error::Kind;
use crate::protocol::input::{InputAnswer, InputKind};
use crate::protocol::json::Json;
use crate::session::{Note, Question, Request, Retry};
use crate::transport::Scope;

/// A server whose tool first sends `messages` and answers once the message with the id of the first is answered.
fn asking(messages: &'static [&'static str]) -> Server {
    serve(move |seen, peer| match seen.method() {
        "tools/call" => {
            peer.stream();
            for message in messages {
                peer.say(&format!("data: {message}\n\n"));
            }
            let first: Value = serde_json::from_str(messages[0]).unwrap();
            let said = peer.log.wait_answer(&first["id"]);
            peer.event(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"said": said}}));
        }
        _ => peer.plainly(seen, "2025-11-25", Some("s1")),
    })
}

const FORM: &str = r#"{"jsonrpc":"2.0","id":"q-1","method":"elicitation/create","params":{"message":"?"}}"#;

#[test]
fn a_question_on_the_stream_of_a_call_is_answered_while_it_runs() {
    let server = asking(&[FORM]);
    let talk = Talk::legacy(&server);
    let mut answer = |note: Note| {
        let Note::Asked(question) = note else { panic!("{note:?}") };
        assert_eq!((question.request.kind, question.request.key.as_str()), (InputKind::Elicitation, "q-1"));
        assert_eq!(question.request.params.text(), r#"{"message":"?"}"#);
        question.answer(&Json::trusted(r#"{"action":"accept","content":{"a":1}}"#));
    };
    let result = talk.call_with(CALL, &CancelToken::new(), BOUND, &mut answer).unwrap();
    let said = r#"{"said":{"jsonrpc":"2.0","id":"q-1","result":{"action":"accept","content":{"a":1}}}}"#;
    assert_eq!(result, said);
    let sent = server.log.all().into_iter().find(|seen| seen.body["id"] == "q-1").unwrap();
    assert_eq!((sent.verb.as_str(), sent.session()), ("POST", Some("s1")));
    assert_eq!(sent.header("mcp-protocol-version"), Some("2025-11-25"));
}

#[test]
fn each_refusal_has_its_code() {
    let sampling = r#"{"id":1,"method":"sampling/createMessage","params":{"messages":[]}}"#;
    let roots = r#"{"id":1,"method":"roots/list"}"#;
    type Refuse = fn(&Question);
    let rows: [(&'static str, Refuse, Value); 3] = [
        (sampling, |question| question.refuse("no"), json!({"code": -1, "message": "no"})),
        (roots, |question| question.refuse("no"), json!({"code": -32603, "message": "no"})),
        (
            roots,
            |question| question.not_offered(),
            json!({"code": -32601, "message": "roots/list is not offered by this client"}),
        ),
    ];
    for (message, refuse, want) in rows {
        let server = asking(Box::leak(Box::new([message])));
        let talk = Talk::legacy(&server);
        let mut hear = |note: Note| {
            if let Note::Asked(question) = note {
                refuse(&question);
            }
        };
        talk.call_with(CALL, &CancelToken::new(), BOUND, &mut hear).unwrap();
        assert_eq!(server.log.wait_answer(&json!(1))["error"], want);
    }
}

#[test]
fn a_ping_is_answered_and_what_nobody_offers_is_refused_without_the_client() {
    let server = asking(&[
        r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"server/odd","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q-9"}}"#,
    ]);
    let talk = Talk::legacy(&server);
    let mut notes = Vec::new();
    let mut hear = |note: Note| notes.push(format!("{note:?}"));
    let result = talk.call_with(CALL, &CancelToken::new(), BOUND, &mut hear).unwrap();
    assert_eq!(result, r#"{"said":{"jsonrpc":"2.0","id":7,"result":{}}}"#);
    assert_eq!(server.log.wait_answer(&json!(8))["error"]["code"], -32601);
    assert_eq!(
        notes,
        [r#"Oddity("the server asked for server/odd, which clients do not offer")"#, r#"Withdrawn("q-9")"#]
    );
}

#[test]
fn a_question_on_the_get_stream_belongs_to_no_call() {
    let server = serve(|seen, peer| match seen.verb.as_str() {
        "GET" => {
            peer.stream();
            peer.say(&format!("data: {FORM}\n\n"));
            peer.wait_gone();
        }
        _ => peer.plainly(seen, "2025-11-25", Some("s1")),
    });
    let talk = Talk::legacy(&server);
    let Note::Asked(question) = talk.heard() else { panic!("a question") };
    question.answer(&Json::trusted(r#"{"action":"decline"}"#));
    assert_eq!(server.log.wait_answer(&json!("q-1"))["result"], json!({"action": "decline"}));
}

/// How long the call of the next test may be silent.
const SILENCE: Duration = Duration::from_millis(1500);

#[test]
fn br_26_progress_on_the_get_stream_belongs_to_its_call_and_keeps_it_alive() {
    let server = serve(|seen, peer| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => {
            peer.stream();
            peer.say(": ready\n\n");
            peer.log.wait_names("POST tools/call", 1);
            let token = peer.log.of("POST tools/call")[0].body["params"]["_meta"]["progressToken"].clone();
            // Longer than the call may be silent, in steps that are shorter.
            for step in 1..=4 {
                let wait = Deadline::after(SystemClock.now(), Some(SILENCE / 3), Budget::Wait);
                CancelToken::new().sleep_until(wait).unwrap();
                let params = json!({"progressToken": token, "progress": step});
                peer.event(&json!({"method": "notifications/progress", "params": params}));
            }
            peer.event(&json!({"method": "notifications/progress", "params": {"progressToken": "made up"}}));
            peer.wait_gone();
        }
        (_, "tools/call") => {
            peer.log.wait_names("POST tools/list", 1);
            peer.result(seen, json!({"content": []}));
        }
        _ => peer.plainly(seen, "2025-11-25", Some("s1")),
    });
    let talk = Talk::legacy(&server);
    let mut request = Request::new("tools/call", CALL).unwrap();
    (request.progress, request.call) = (true, Some(31));
    let never = CancelToken::new();
    let scope = Scope { cancel: &never, total: Deadline::Never, idle: Some(SILENCE), connect: None };
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for step in 1..=4 {
                let Note::ProgressOf { call: 31, params } = talk.heard() else { panic!("progress of the call") };
                assert_eq!(params.value()["progress"], step);
            }
            assert!(matches!(talk.heard(), Note::Other { .. }), "a token of nobody's");
            talk.ask("tools/list", "{}").unwrap();
        });
        talk.session.ask(&request, &Retry::default(), &scope, &mut |_: Note| {}).unwrap();
    });
}

fn url_first(seen: &Seen, peer: &mut Peer, version: &str) {
    match (seen.method(), peer.log.of("POST tools/call").len()) {
        ("tools/call", 1) => {
            let visit = json!({"mode": "url", "elicitationId": "e-1", "url": "https://h/", "message": "go"});
            peer.fault(200, &seen.body["id"], -32042, json!({"elicitations": [visit]}));
        }
        _ => peer.plainly(seen, version, None),
    }
}

#[test]
fn an_error_32042_is_read_as_a_visit_to_a_url() {
    let server = serve(|seen, peer| url_first(seen, peer, "2025-11-25"));
    let talk = Talk::legacy(&server);
    let asked = talk.ask("tools/call", r#"{"name":"t"}"#).unwrap();
    assert!(asked.starts_with("asks [InputRequest { key: \"e-1\", kind: Elicitation"), "{asked}");
    let again = |action: &str| {
        let response = Json::trusted(format!(r#"{{"action":"{action}"}}"#));
        let retry = Retry::new(&[InputAnswer { key: "e-1".into(), response }], None);
        let never = CancelToken::new();
        let scope = Scope { cancel: &never, total: crate::clock::Deadline::Never, idle: Some(BOUND), connect: None };
        let request = Request::new("tools/call", r#"{"name":"t"}"#).unwrap();
        talk.session.ask(&request, &retry, &scope, &mut |_: Note| {})
    };
    assert_eq!(again("decline").unwrap_err().kind(), Kind::InputRefused);
    assert_eq!(server.log.of("POST tools/call").len(), 1);
    again("accept").unwrap();
    assert_eq!(server.log.of("POST tools/call")[1].body["params"], json!({"name": "t"}));
    // Another revision has no such code.
    let server = serve(|seen, peer| url_first(seen, peer, "2025-06-18"));
    let error = Talk::legacy(&server).ask("tools/call", r#"{"name":"t"}"#).unwrap_err();
    assert_eq!(error.rpc().map(|fault| fault.code), Some(-32042));
}

#[test]
fn br_13_progress_of_the_request_reaches_it_and_no_other() {
    let server = serve(|seen, peer| match seen.method() {
        "tools/call" => {
            peer.stream();
            let token = seen.body["params"]["_meta"]["progressToken"].clone();
            for token in [json!("made up"), token] {
                peer.event(&json!({"method": "notifications/progress", "params": {"progressToken": token}}));
            }
            peer.event(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}));
        }
        _ => peer.plainly(seen, "2025-11-25", None),
    });
    let talk = Talk::legacy(&server);
    let mut request = Request::new("tools/call", r#"{"name":"t"}"#).unwrap();
    request.progress = true;
    let never = CancelToken::new();
    let scope = Scope { cancel: &never, total: crate::clock::Deadline::Never, idle: Some(BOUND), connect: None };
    let mut kinds = Vec::new();
    let mut hear = |note: Note| kinds.push(format!("{note:?}").split('(').next().unwrap().to_owned());
    talk.session.ask(&request, &Retry::default(), &scope, &mut hear).unwrap();
    assert_eq!(kinds, ["Oddity", "Progress"]);
}
