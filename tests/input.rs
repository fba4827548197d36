//! Questions of the server's, asked by calls and by tasks: each asked once, answered once, or withdrawn.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;
#[path = "support/lives.rs"]
mod lives;

use abi::*;
use lives::{done, lives};
use mcp_test_server::TestServer;

const CAPABILITIES: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
const ASKING: [i32; 6] = [
    MCP_EVENT_ELICITATION,
    MCP_EVENT_SAMPLING,
    MCP_EVENT_ROOTS,
    MCP_EVENT_INPUT_WITHDRAWN,
    MCP_EVENT_CALL_DONE,
    MCP_EVENT_ANY,
];

fn form(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object", "properties": {}}}})
}

fn sampling() -> Value {
    json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
}

fn round(questions: Value) -> Value {
    json!({"result": {"resultType": "input_required", "inputRequests": questions}})
}

/// A server whose tool `echo` answers its first `rounds` tries so.
fn asking(rounds: u64, action: Value) -> TestServer {
    let rule = json!({"match": {"method": "tools/call", "name": "echo", "to": rounds}, "do": action});
    TestServer::start(Script::new().rule(rule))
}

fn open(questions: Value) -> Value {
    json!({"status": "input_required", "inputRequests": questions})
}

/// Answers every question of this kind as soon as it comes.
fn answering(client: &Client, kind: i32, content: Value) -> std::sync::Arc<std::sync::Mutex<Vec<String>>> {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keys = asked.clone();
    client.on(kind, move |event| {
        let input = event.input().unwrap();
        keys.lock().unwrap().push(input.key());
        assert_eq!(input.reply(&content), Ok(MCP_OK));
    });
    asked
}

fn opened(server: &TestServer, more: Value, prepare: impl FnOnce(&Client)) -> Client {
    let client = Client::new(&settings(server, more));
    prepare(&client);
    client.open().unwrap();
    client.wait_open().unwrap();
    client
}

fn responses(server: &TestServer, method: &str) -> Vec<Value> {
    let sent = server.requests_of(method);
    sent.iter().map(|request| request.at("/params/inputResponses")).filter(|sent| !sent.is_null()).collect()
}

// ---- rounds of a call --------------------------------------------------------------------------------------------------

#[test]
fn br_41_the_last_allowed_round_counts_and_the_next_is_an_error_that_names_the_limit() {
    let server = TestServer::start(Script::new());
    let mut asked = None;
    let client = opened(&server, json!({"limits": {"input_rounds": 3}}), |client| {
        asked = Some(answering(client, MCP_EVENT_ELICITATION, json!({"answer": "yes", "value": "yes"})));
    });
    client.run("ask_first", json!({"rounds": 3})).unwrap();
    assert_eq!(asked.as_ref().unwrap().lock().unwrap().len(), 3, "once each round");
    assert_eq!(server.count_of("tools/call"), 4);
    let failure = client.run("ask_first", json!({"rounds": 4})).unwrap_err();
    assert_eq!(failure.status, MCP_E_TOO_LARGE);
    assert!(failure.message.contains('3') && failure.message.contains("limits.input_rounds"), "{failure:?}");
    assert_eq!(asked.unwrap().lock().unwrap().len(), 6, "the question over the limit is not asked");
}

#[test]
fn br_41_the_same_question_in_each_round_is_asked_in_each_round() {
    for (name, decline) in [("answered", false), ("declined", true)] {
        let server = asking(3, round(json!({"k": form("again?")})));
        let client = opened(&server, json!({"limits": {"input_rounds": 3}}), |client| {
            client.on(MCP_EVENT_ELICITATION, move |event| {
                let input = event.input().unwrap();
                let replied = if decline { input.decline() } else { input.reply(&json!({})) };
                assert_eq!(replied, Ok(MCP_OK));
            });
        });
        let call = client.start("echo", json!({"a": 1}), json!({}));
        assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK), "{name}");
        let want = if decline { json!({"action": "decline"}) } else { json!({"action": "accept", "content": {}}) };
        assert_eq!(responses(&server, "tools/call"), vec![json!({"k": want}); 3], "{name}: declining is an answer");
        for again in server.requests_of("tools/call") {
            assert_eq!(again.at("/params/arguments"), json!({"a": 1}), "{name}");
        }
    }
}

#[test]
fn br_41_a_cancel_while_a_handler_is_open_leaves_nothing_hanging() {
    let server = asking(1, round(json!({"k": form("?")})));
    let client = Client::recording(&server, json!({}), &ASKING);
    let call = client.start("echo", json!({}), json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    assert_eq!((call.cancel(), call.cancel()), (MCP_OK, MCP_S_ALREADY_DONE));
    assert_eq!(call.wait(PATIENCE_MS).unwrap_err().status, MCP_E_CANCELLED);
    client.events.nth(MCP_EVENT_CALL_DONE, 1);
    assert_eq!(client.events.words(&["state"]), ["elicitation", "withdrawn", "call done"]);
    assert_eq!(input.reply(&json!({})), Ok(MCP_S_ALREADY_DONE), "too late");
    assert_eq!(server.count_of("tools/call"), 1);
}

#[test]
fn a_question_is_answered_later_from_another_thread() {
    let server = TestServer::start(Script::new());
    let client = Client::recording(&server, json!({}), &ASKING);
    let waited_for = std::thread::scope(|scope| {
        let run = scope.spawn(|| client.run("ask_first", json!({"rounds": 1})));
        let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
        assert!(input.message().is_some() && input.task_id().is_none());
        assert_eq!(input.reply(&json!({"answer": "a", "value": "a"})), Ok(MCP_OK));
        assert_eq!(input.reply(&json!({"answer": "b"})), Ok(MCP_S_ALREADY_DONE), "one reply counts");
        run.join().unwrap()
    });
    waited_for.unwrap();
    assert_eq!(responses(&server, "tools/call").len(), 1);
}

#[test]
fn sampling_and_roots_are_answered_with_their_whole_result() {
    let server = TestServer::start(Script::new());
    let sample = json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"});
    let roots = json!({"roots": [{"uri": "file:///tmp", "name": "tmp"}]});
    let client = opened(&server, json!({}), |client| {
        answering(client, MCP_EVENT_SAMPLING, sample.clone());
        answering(client, MCP_EVENT_ROOTS, roots.clone());
    });
    for kind in ["sampling", "roots"] {
        client.run("ask_first", json!({"rounds": 1, "kind": kind})).expect(kind);
    }
    let sent: Vec<Value> = responses(&server, "tools/call")
        .iter()
        .map(|all| all.as_object().unwrap().values().next().unwrap().clone())
        .collect();
    assert_eq!(sent, [sample, roots]);
}

#[test]
fn a_url_is_accepted_without_content() {
    let server = asking(
        1,
        round(json!({"k": {"method": "elicitation/create", "params":
        {"mode": "url", "message": "sign", "url": "https://example.com/", "elicitationId": "e"}}})),
    );
    let client = opened(&server, json!({}), |client| {
        client.on(MCP_EVENT_ELICITATION, |event| {
            let input = event.input().unwrap();
            let status = unsafe_accept(&input);
            assert_eq!(status, MCP_OK);
        });
    });
    client.run("echo", json!({})).unwrap();
    assert_eq!(responses(&server, "tools/call"), [json!({"k": {"action": "accept"}})]);
}

#[allow(unsafe_code, reason = "NULL with length 0 has no safe form")]
fn unsafe_accept(input: &Input) -> i32 {
    // SAFETY: NULL is allowed where the length is 0.
    unsafe { mcpnative::ffi::input::mcp_input_answer(input.raw(), std::ptr::null(), 0) }
}

#[test]
fn each_refusal_has_its_form() {
    // Elicitation: cancel and fail both close the question; sampling has no form of refusal, so the call ends.
    for (name, questions, refuse, want, sent) in [
        ("cancel", json!({"k": form("?")}), "cancel", MCP_OK, vec![json!({"k": {"action": "cancel"}})]),
        ("fail", json!({"k": form("?")}), "fail", MCP_OK, vec![json!({"k": {"action": "cancel"}})]),
        ("sampling", json!({"k": sampling()}), "fail", MCP_E_INPUT_REFUSED, vec![]),
    ] {
        let server = asking(1, round(questions));
        let client = Client::recording(&server, json!({}), &ASKING);
        let call = client.start("echo", json!({}), json!({}));
        client.events.until(name, |events| events.iter().any(|event| event.input().is_some()));
        let input = client.events.all().iter().find_map(|event| event.input()).unwrap();
        if name == "sampling" {
            assert_eq!(input.decline().unwrap_err().status, MCP_E_UNSUPPORTED);
            assert_eq!(input.cancel().unwrap_err().status, MCP_E_UNSUPPORTED);
            assert_eq!(input.reply(&json!([1])).unwrap_err().status, MCP_E_ARGUMENT);
        }
        let replied = if refuse == "fail" { input.fail("no model here") } else { input.cancel() };
        assert_eq!(replied, Ok(MCP_OK), "{name}");
        let status = call.wait(PATIENCE_MS).unwrap_or_else(|failure| failure.status);
        assert_eq!(name_of(status), name_of(want), "{name}");
        assert_eq!(responses(&server, "tools/call"), sent, "{name}");
        if want != MCP_OK {
            assert!(call.failure().unwrap().message.contains("no model here"));
        }
    }
}

#[test]
fn only_what_can_be_answered_is_declared() {
    let server = TestServer::start(Script::new());
    for (name, settings, kinds, want) in [
        ("nothing by default", json!({}), vec![MCP_EVENT_ANY], [false, false, false]),
        ("handlers", json!({}), vec![MCP_EVENT_ELICITATION, MCP_EVENT_ROOTS], [true, false, true]),
        ("by hand", json!({"input": {"sampling": "manual"}}), vec![], [false, true, false]),
        (
            "refused although handled",
            json!({"input": {"elicitation": "refuse"}}),
            vec![MCP_EVENT_ELICITATION],
            [false, false, false],
        ),
    ] {
        server.clear();
        let client = Client::recording(&server, settings, &kinds);
        client.run("echo", json!({})).unwrap();
        for request in server.requests() {
            let declared = request.at(CAPABILITIES);
            let have = ["elicitation", "sampling", "roots"].map(|kind| declared.get(kind).is_some());
            assert_eq!(have, want, "{name}, {:?}", request.method);
        }
    }
}

#[test]
fn wire_quirk_questions_to_a_client_that_declared_nothing() {
    let server = asking(1, round(json!({"k": form("?")})));
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({})).unwrap();
    assert_eq!(responses(&server, "tools/call"), [json!({"k": {"action": "decline"}})]);
    for question in [sampling(), json!({"method": "roots/list"}), json!({"method": "novel/ask", "params": {}})] {
        let server = asking(1, round(json!({"k": form("?"), "other": question})));
        let client = Client::ready(&server, json!({}));
        assert_eq!(client.run("echo", json!({})).unwrap_err().status, MCP_E_INPUT_REFUSED, "{question}");
        assert_eq!(server.count_of("tools/call"), 1, "{question}: nothing more was sent");
    }
}

#[test]
fn questions_to_the_hosts_hand_come_out_of_the_wait() {
    let server = asking(1, round(json!({"a": form("A?"), "b": form("B?")})));
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    let (ran, call) = client.tool_run("echo", "{}", "", PATIENCE_MS);
    assert_eq!(ran.unwrap_err().status, MCP_E_INPUT_REQUIRED);
    let call = call.unwrap();
    assert_eq!(call.status(), MCP_S_PENDING, "the call is alive");
    let open = call.inputs();
    assert_eq!(open.as_array().unwrap().iter().map(|one| one["key"].clone()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((&open[0]["method"], &open[0]["params"]["message"]), (&json!("elicitation/create"), &json!("A?")));
    let unknown = call.reply(&json!({"z": {"action": "decline"}})).unwrap_err();
    assert_eq!(unknown.status, MCP_E_ARGUMENT);
    assert!(unknown.message.contains("\"z\""), "{unknown:?}");
    assert_eq!(call.reply(&json!({"a": {"action": "decline"}})), Ok(MCP_OK));
    assert_eq!(call.reply(&json!({"a": {"action": "cancel"}})), Ok(MCP_S_ALREADY_DONE));
    assert_eq!(call.wait(0).unwrap_err().status, MCP_E_INPUT_REQUIRED, "b is still open");
    assert_eq!(call.reply(&json!({"b": {"action": "accept", "content": {"x": 1}}})), Ok(MCP_OK));
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
    assert_eq!(call.inputs(), json!([]));
    assert_eq!(
        responses(&server, "tools/call"),
        [json!({"a": {"action": "decline"}, "b": {"action": "accept", "content": {"x": 1}}})]
    );
}

#[test]
fn state_goes_back_as_it_came_and_rounds_of_state_alone_are_paced() {
    let state = json!({"result": {"resultType": "input_required", "requestState": "v1.a\u{fc}\"\\/"}});
    let server = asking(3, state);
    let client = Client::ready(&server, json!({}));
    client.run("echo", json!({"a": 1})).unwrap();
    let sent = server.requests_of("tools/call");
    assert_eq!(sent.len(), 4);
    assert!(sent[0].at("/params/requestState").is_null());
    for pair in sent.windows(2) {
        assert_eq!(pair[1].at("/params/requestState"), "v1.a\u{fc}\"\\/");
        assert!(pair[1].at("/params/inputResponses").is_null());
        assert!(pair[1].at_us - pair[0].answered_us.unwrap() >= 250_000, "no busy loop");
        assert_ne!(pair[0].at("/id"), pair[1].at("/id"));
    }
}

#[test]
fn an_input_round_without_anything_in_it_or_where_none_may_be_is_invalid() {
    let server = asking(1, json!({"result": {"resultType": "input_required"}}));
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.run("echo", json!({})).unwrap_err().status, MCP_E_MALFORMED);
    let rule = json!({"match": {"method": "tools/list"}, "do": round(json!({"k": form("?")}))});
    let server = TestServer::start(Script::new().rule(rule));
    let client = Client::recording(&server, json!({}), &ASKING);
    assert_eq!(client.list_tools().unwrap_err().status, MCP_E_MALFORMED);
    assert!(client.events.of(MCP_EVENT_ELICITATION).is_empty());
}

#[test]
fn time_in_which_a_question_is_open_does_not_count() {
    let server = asking(1, round(json!({"k": form("?")})));
    let client = Client::recording(&server, json!({}), &ASKING);
    let call = client.start("echo", json!({}), json!({"total_ms": 2000}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    // Longer than the whole call may take.
    assert_eq!(call.wait(2200), Ok(MCP_S_TIMEOUT));
    input.reply(&json!({})).unwrap();
    assert_eq!(call.wait(PATIENCE_MS), Ok(MCP_OK));
}

// ---- tasks that ask ----------------------------------------------------------------------------------------------------

#[test]
fn corner_3_an_acknowledgement_that_lags_is_asked_once_and_answered_once() {
    let asks = || open(json!({"k": form("?")}));
    let server = lives(vec![json!({"tool": "lagging", "id": "l", "polls": [
        {"task": asks(), "until": "updated"}, {"task": asks(), "times": 3}, done("x")]})]);
    let mut asked = None;
    let client = opened(&server, json!({}), |client| {
        asked = Some(answering(client, MCP_EVENT_ELICITATION, json!({"a": 1})));
        client.record(&[MCP_EVENT_ANY]);
    });
    let end = client.task("lagging", json!({})).end();
    assert_eq!(end.answer().unwrap().text().as_deref(), Some("x"));
    assert_eq!(*asked.unwrap().lock().unwrap(), ["k"]);
    assert_eq!(responses(&server, "tasks/update"), [json!({"k": {"action": "accept", "content": {"a": 1}}})]);
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert!(client.events.of(MCP_EVENT_INPUT_WITHDRAWN).is_empty(), "what was answered is not withdrawn");
}

#[test]
fn corner_4_the_open_keys_grow_while_the_first_is_answered() {
    let (one, two) = (json!({"k1": form("1?")}), json!({"k1": form("1?"), "k2": form("2?")}));
    let mut settled = open(one.clone());
    settled["statusMessage"] = json!("one left");
    let server = lives(vec![json!({"tool": "growing", "id": "g", "polls": [
        {"task": open(one.clone())}, {"task": open(two), "until": "updated"}, {"task": settled, "until": "updated"}, done("x")]})]);
    let client = Client::recording(&server, json!({}), &ASKING);
    let task = client.task("growing", json!({}));
    let first = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    let second = client.events.nth(MCP_EVENT_ELICITATION, 2).input().unwrap();
    assert_eq!((first.key(), second.key(), first.task_id()), ("k1".to_owned(), "k2".to_owned(), Some("g".to_owned())));
    // The second first, and refused: a partial answer.
    second.decline().unwrap();
    until("the second key to be settled", || task.snapshot().message().as_deref() == Some("one left"));
    assert_eq!(task.snapshot().inputs().as_array().unwrap().len(), 1);
    assert_eq!(responses(&server, "tasks/update"), [json!({"k2": {"action": "decline"}})]);
    first.reply(&json!({"v": 1})).unwrap();
    task.end();
    assert_eq!(responses(&server, "tasks/update")[1..], [json!({"k1": {"action": "accept", "content": {"v": 1}}})]);
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert_eq!(client.events.of(MCP_EVENT_ELICITATION).len(), 2, "each asked once");
}

#[test]
fn corner_4_a_refusal_without_a_form_cancels_the_task_or_leaves_it_by_option() {
    let asks = || open(json!({"s": sampling()}));
    let life = |tool: &str| json!({"tool": tool, "id": tool, "polls": [{"task": asks(), "until": "cancelled"}, {"task": {"status": "cancelled"}}]});
    for (name, by_handler) in [("handler", true), ("policy", false)] {
        let server = lives(vec![life("job")]);
        let kinds: &[i32] = if by_handler { &ASKING } else { &[MCP_EVENT_ANY] };
        let client = Client::recording(&server, json!({}), kinds);
        let task = client.task("job", json!({}));
        if by_handler {
            client.events.nth(MCP_EVENT_SAMPLING, 1).input().unwrap().fail("no model").unwrap();
        }
        assert_eq!(task.end().reason(), "cancelled", "{name}");
        assert_eq!((server.count_of("tasks/cancel"), server.count_of("tasks/update")), (1, 0), "{name}");
    }
    let server = lives(vec![life("job")]);
    let client = Client::ready(&server, json!({"tasks": {"refused": "wait"}}));
    let task = client.task("job", json!({}));
    until("the question", || task.snapshot().status() == "input_required");
    let polls = server.count_of("tasks/get");
    assert!(server.wait_requests("tasks/get", polls + 2, PATIENCE), "polled on");
    assert_eq!((server.count_of("tasks/cancel"), task.snapshot().status()), (0, "input_required"));
    task.cancel();
    task.end();
}

#[test]
fn corner_5_a_question_whose_task_ends_is_withdrawn() {
    let rows = [
        ("cancelled", json!({"task": {"status": "cancelled"}}), "cancelled"),
        ("failed", json!({"task": {"status": "failed", "error": {"code": -1, "message": "m"}}}), "failed"),
        ("completed", done("x"), "completed"),
        ("gone", json!({"error": {"code": -32602, "message": "Task not found"}}), "unknown"),
        ("working", json!({"task": {}}), ""),
    ];
    let life = |(tool, end, _): &(&str, Value, &str)| json!({"tool": tool, "id": tool, "polls": [{"task": open(json!({"k": form("?")})), "until": "completed"}, end]});
    let server = lives(rows.iter().map(life).collect());
    for (tool, _, reason) in &rows {
        let client = Client::recording(&server, json!({}), &ASKING);
        let task = client.task(tool, json!({}));
        let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
        assert!(server.complete(tool));
        let withdrawn = client.events.nth(MCP_EVENT_INPUT_WITHDRAWN, 1);
        assert_eq!(
            (withdrawn.input().unwrap().key(), withdrawn.task().unwrap().id()),
            ("k".to_owned(), (*tool).to_owned())
        );
        assert_eq!(input.reply(&json!({})), Ok(MCP_S_ALREADY_DONE), "{tool}");
        if !reason.is_empty() {
            assert_eq!(task.end().reason(), *reason, "{tool}");
            client.events.nth(MCP_EVENT_TASK_DONE, 1);
            let words = client.events.words(&["state", "status", "call done"]);
            assert_eq!(words, ["created", "elicitation", "withdrawn", "done"], "{tool}: nothing after the end");
        }
        assert_eq!(task.snapshot().inputs(), json!([]), "{tool}");
    }
    assert_eq!(server.count_of("tasks/update"), 0);
}

#[test]
fn corner_5_a_task_that_expires_withdraws_its_question() {
    let server = lives(vec![json!({"tool": "job", "id": "j", "seed": {"ttlMs": 700},
        "polls": [{"task": open(json!({"k": form("?")}))}]})]);
    let client = Client::recording(&server, json!({"tasks": {"ttl": "stop"}}), &ASKING);
    let task = client.task("job", json!({}));
    client.events.nth(MCP_EVENT_ELICITATION, 1);
    assert_eq!(task.end().reason(), "expired");
    client.events.nth(MCP_EVENT_TASK_DONE, 1);
    assert_eq!(client.events.words(&["state", "status", "call done"]), ["created", "elicitation", "withdrawn", "done"]);
}

#[test]
fn corner_11_an_input_round_and_then_a_task() {
    let server = TestServer::start(Script::new());
    for (rounds, want) in [(10, Ok(())), (1, Ok(())), (0, Err(MCP_E_TOO_LARGE))] {
        let client = opened(&server, json!({"limits": {"input_rounds": rounds}}), |client| {
            answering(client, MCP_EVENT_ELICITATION, json!({"name": "Ada"}));
        });
        let ran = client.run("ask_then_task", json!({"steps": 2}));
        assert_eq!(ran.as_ref().map(drop).map_err(|failure| failure.status), want, "{rounds} rounds");
        if let Ok(answer) = ran {
            assert_eq!(answer.text().as_deref(), Some("Hello, Ada"));
        }
    }
}

#[test]
fn polling_goes_on_while_a_human_thinks_and_the_key_may_be_anything() {
    // fastmcp hides the tool's key behind the task's id and a hash.
    let key = "task-1:9f86d081884c7d65/\u{e9} \"q\"";
    let server = lives(vec![json!({"tool": "job", "id": "task-1", "polls": [
        {"task": open(json!({key: form("?")})), "until": "updated"}, done("x")]})]);
    let client = Client::recording(&server, json!({}), &ASKING);
    let task = client.task("job", json!({}));
    let input = client.events.nth(MCP_EVENT_ELICITATION, 1).input().unwrap();
    let polls = server.count_of("tasks/get");
    assert!(server.wait_requests("tasks/get", polls + 2, PATIENCE));
    assert_eq!((input.key().as_str(), task.snapshot().inputs()[0]["key"].clone()), (key, json!(key)));
    assert_eq!(client.tasks("").unwrap()[0]["input_keys"], json!([key]));
    input.reply(&json!({})).unwrap();
    task.end();
    assert_eq!(responses(&server, "tasks/update"), [json!({key: {"action": "accept", "content": {}}})]);
}

#[test]
fn wire_quirk_a_task_asks_although_nothing_was_declared() {
    let server = lives(vec![
        json!({"tool": "form", "id": "f", "polls": [{"task": open(json!({"k": form("?")})), "until": "updated"}, done("x")]}),
        json!({"tool": "novel", "id": "n", "polls": [{"task": open(json!({"k": {"method": "novel/ask"}})), "until": "completed"}, done("x")]}),
    ]);
    let client = Client::ready(&server, json!({}));
    assert_eq!(client.task("form", json!({})).end().reason(), "completed");
    assert_eq!(responses(&server, "tasks/update"), [json!({"k": {"action": "decline"}})]);
    // What no revision knows cannot be answered: the task is followed on.
    let task = client.task("novel", json!({}));
    until("the question", || task.snapshot().status() == "input_required");
    server.complete("n");
    assert_eq!(task.end().reason(), "completed");
}

#[test]
fn a_tasks_questions_to_the_hosts_hand() {
    let asks = open(json!({"a": form("A?"), "b": form("B?")}));
    let mut rest = open(json!({"b": form("B?")}));
    rest["statusMessage"] = json!("one left");
    let server = lives(vec![json!({"tool": "job", "id": "j", "polls": [
        {"task": asks, "until": "updated"}, {"task": rest, "until": "updated"}, done("x")]})]);
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    // The one-call convenience hands over the call with its task.
    let (ran, call) = client.tool_run("job", "{}", "", PATIENCE_MS);
    assert_eq!(ran.unwrap_err().status, MCP_E_INPUT_REQUIRED);
    let task = call.unwrap().task().unwrap();
    let (status, snapshot) = task.wait(PATIENCE_MS);
    assert_eq!((status, snapshot.status()), (MCP_E_INPUT_REQUIRED, "input_required"));
    assert_eq!(snapshot.inputs().as_array().unwrap().len(), 2);
    assert_eq!(task.update(&json!({"z": {"action": "decline"}})).unwrap_err().status, MCP_E_ARGUMENT);
    assert_eq!(task.update(&json!({"a": {"action": "decline"}})), Ok(MCP_OK));
    assert_eq!(task.update(&json!({"a": {"action": "accept"}})), Ok(MCP_S_ALREADY_DONE), "each key once");
    until("the server to have it", || task.snapshot().message().as_deref() == Some("one left"));
    assert_eq!(task.wait(0).0, MCP_E_INPUT_REQUIRED, "b is still open");
    assert_eq!(task.update(&json!({"a": {"action": "cancel"}, "b": {"action": "cancel"}})), Ok(MCP_OK));
    assert_eq!(task.end().reason(), "completed");
    assert_eq!(task.update(&json!({"b": {"action": "decline"}})), Ok(MCP_S_ALREADY_DONE));
    assert_eq!(
        responses(&server, "tasks/update"),
        [json!({"a": {"action": "decline"}}), json!({"b": {"action": "cancel"}})]
    );
}

#[test]
fn an_update_that_the_server_refuses_or_loses_leaves_the_key_open() {
    let asks = open(json!({"k": form("?")}));
    let server =
        lives(vec![json!({"tool": "job", "id": "j", "polls": [{"task": asks, "until": "completed"}, done("x")],
        "updates": [{"error": {"code": -32602, "message": "no"}}, {"http_status": 503}, {}]})]);
    let client = Client::ready(&server, json!({"input": {"elicitation": "manual"}}));
    let task = client.task("job", json!({}));
    assert_eq!(task.wait(PATIENCE_MS).0, MCP_E_INPUT_REQUIRED);
    let answer = json!({"k": {"action": "decline"}});
    assert_eq!(task.update(&answer).unwrap_err().rpc_code, Some(-32602));
    assert_eq!(task.update(&answer).unwrap_err().http_status, Some(503));
    assert_eq!(task.update(&answer), Ok(MCP_OK));
    assert_eq!(task.update(&answer), Ok(MCP_S_ALREADY_DONE));
    server.complete("j");
    task.end();
    assert_eq!(server.count_of("tasks/update"), 3);
}

#[test]
fn an_answer_given_by_a_handler_is_sent_until_the_server_has_it() {
    let asks = || open(json!({"k": form("?")}));
    let server = lives(vec![json!({"tool": "job", "id": "j", "polls": [
        {"task": asks(), "until": "updated"}, {"task": asks(), "until": "updated"}, done("x")],
        "updates": [{"http_status": 503}, {}]})]);
    let mut asked = None;
    let client = opened(&server, json!({}), |client| {
        asked = Some(answering(client, MCP_EVENT_ELICITATION, json!({})));
    });
    assert_eq!(client.task("job", json!({})).end().reason(), "completed");
    assert_eq!((asked.unwrap().lock().unwrap().len(), server.count_of("tasks/update")), (1, 2));
    let sent = server.requests_of("tasks/update");
    assert!(sent[1].at_us - sent[0].answered_us.unwrap() >= 1_000_000, "after a pause");
}
