//! The legacy eras over HTTP.
#![allow(missing_docs, clippy::unwrap_used)]

mod client;

use client::{Answer, Client};
use mcp_test_server::{Script, TestServer};
use serde_json::{Value, json};

/// A client with a session.
struct Old {
    server: TestServer,
    client: Client,
    session: String,
    version: String,
}

impl Old {
    fn start(options: Value) -> Self {
        Self::scripted(Script::new().options(options), json!({"elicitation": {}, "roots": {}}))
    }

    fn scripted(script: Script, capabilities: Value) -> Self {
        let server = TestServer::start(script);
        let client = Client::connect(&server);
        let mut old = Self { server, client, session: String::new(), version: String::new() };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let answer = old.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let result = answer.events().pop().unwrap_or_else(|| answer.json())["result"].take();
        old.version = result["protocolVersion"].as_str().unwrap().to_owned();
        old.session = answer.header("Mcp-Session-Id").unwrap_or_default().to_owned();
        assert_eq!(old.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status, 202);
        old
    }

    fn send_to(&self, client: &mut Client, http: &str, extra: &[(&str, &str)], body: &Value) {
        let mut headers = extra.to_vec();
        if !self.session.is_empty() {
            headers.push(("Mcp-Session-Id", &self.session));
        }
        if !self.version.is_empty() {
            headers.push(("MCP-Protocol-Version", &self.version));
        }
        client.old(http, "/mcp", &headers, body);
    }

    fn post(&mut self, body: &Value) -> Answer {
        let mut client = Client::connect(&self.server);
        self.send_to(&mut client, "POST", &[], body);
        std::mem::swap(&mut client, &mut self.client);
        self.client.read().unwrap()
    }

    /// Sends a call on a connection of its own and leaves the answer to be read there.
    fn calling(&self, tool: &str, arguments: &Value) -> Client {
        let mut client = Client::connect(&self.server);
        self.send_to(&mut client, "POST", &[], &call(tool, arguments));
        client
    }

    fn getting(&self, extra: &[(&str, &str)]) -> Client {
        let mut client = Client::connect(&self.server);
        self.send_to(&mut client, "GET", extra, &Value::Null);
        client
    }

    fn status(&mut self) -> (u16, Value) {
        let answer = self.post(&call("echo", &json!({})));
        (answer.status, answer.json())
    }
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[test]
fn a_session_is_made_used_and_ended() {
    let mut old = Old::start(json!({"era": "legacy"}));
    assert_eq!((old.version.as_str(), old.session.is_empty(), old.server.sessions()), ("2025-11-25", false, 1));
    let answer = old.post(&call("echo", &json!({"a": 1}))).json();
    assert_eq!(
        answer["result"],
        json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}})
    );
    let unknown = old.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}));
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (200, &json!(-32601)));
    let missing = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "test://no"}});
    assert_eq!(old.post(&missing).json()["error"]["code"], -32002);
    let mut client = Client::connect(&old.server);
    old.send_to(&mut client, "DELETE", &[], &Value::Null);
    assert_eq!((client.read().unwrap().status, old.status().0), (200, 404));
}

#[test]
fn a_lost_session_is_told() {
    let mut old = Old::start(json!({"era": "legacy"}));
    old.server.forget_sessions();
    let (status, body) = old.status();
    assert_eq!((status, &body["error"]["code"], &body["id"]), (404, &json!(-32001), &Value::Null));
    old.session = String::new();
    let (status, body) = old.status();
    assert_eq!((status, &body["error"]["code"], body.get("id")), (400, &json!(-32000), Some(&Value::Null)));
    let mut old = Old::start(json!({"era": "legacy", "legacy": {"lost_status": 400}}));
    old.session = "bogus".to_owned();
    let (status, body) = old.status();
    assert_eq!((status, body.get("id")), (400, None));
}

#[test]
fn every_session_can_be_lost() {
    let script = Script::new().options(json!({"era": "legacy", "legacy": {"lose_all": true}}));
    let server = TestServer::start(script);
    let mut client = Client::connect(&server);
    let initialize =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}});
    client.old("POST", "/mcp", &[], &initialize);
    let answer = client.read().unwrap();
    let session = answer.header("Mcp-Session-Id").unwrap().to_owned();
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-06-18");
    client.old("POST", "/mcp", &[("Mcp-Session-Id", &session)], &call("echo", &json!({})));
    assert_eq!(client.read().unwrap().status, 404);
}

#[test]
fn the_version_agreed_on_must_be_told() {
    let legacy = json!({"answer_version": "2025-06-18", "version_header": "negotiated", "sessions": false});
    let mut old = Old::start(json!({"era": "legacy", "legacy": legacy}));
    assert_eq!((old.version.as_str(), old.session.as_str()), ("2025-06-18", ""));
    assert_eq!(old.status().0, 200);
    for wrong in ["2025-11-25", ""] {
        old.version = wrong.to_owned();
        assert_eq!(old.status().0, 400);
    }
    let mut old = Old::start(json!({"era": "legacy"}));
    old.version = "2024-11-05".to_owned();
    assert_eq!(old.status().0, 200);
    old.version = "1999".to_owned();
    assert!(old.status().1["error"]["message"].as_str().unwrap().contains("supported versions: 2025-11-25, "));
}

#[test]
fn the_server_asks_on_the_stream_of_the_request() {
    let mut old = Old::start(json!({"era": "legacy"}));
    let mut asked = old.calling("ask_elicitation", &json!({}));
    let question = asked.event().unwrap();
    assert_eq!((&question["method"], &question["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let status = old.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).status;
    let result = asked.event().unwrap();
    assert_eq!((status, &result["id"], &result["result"]["structuredContent"]), (202, &json!(7), &answer));
    assert_eq!(old.server.requests().last().unwrap().at("/result/action"), "accept");
}

#[test]
fn the_server_asks_on_the_stream_of_get() {
    let mut old = Old::start(json!({"era": "legacy"}));
    let mut feed = old.getting(&[]);
    let mut asked = old.calling("ask_roots", &json!({"on": "get"}));
    let question = feed.event().unwrap();
    assert_eq!(question["method"], "roots/list");
    old.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}));
    assert_eq!(asked.event().unwrap()["result"]["structuredContent"], json!({"roots": []}));
    old.server.announce("tools");
    assert_eq!(feed.event().unwrap()["method"], "notifications/tools/list_changed");
    old.server.touch("test://static-text");
    let subscribe = json!({"uri": "test://static-text"});
    old.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": subscribe}));
    old.server.touch("test://static-text");
    old.server.announce("prompts");
    // Whether the first touch counts depends on who came first; the second does.
    let heard = feed.event().unwrap();
    assert_eq!((&heard["method"], &heard["params"]), (&json!("notifications/resources/updated"), &subscribe));
}

#[test]
fn refusals_and_nonsense_become_errors_of_the_tool() {
    let mut old = Old::start(json!({"era": "legacy"}));
    for answer in [json!({"error": {"code": -1, "message": "no"}}), json!({"result": {}})] {
        let mut asked = old.calling("ask_elicitation", &json!({}));
        let mut message = json!({"jsonrpc": "2.0", "id": asked.event().unwrap()["id"]});
        message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        old.post(&message);
        assert_eq!(asked.event().unwrap()["result"]["isError"], true);
    }
    let lacking = old.post(&call("ask_sampling", &json!({}))).json();
    assert_eq!(lacking["result"]["isError"], true);
}

#[test]
fn tools_can_depend_on_what_the_client_can() {
    let mut old = Old::start(json!({"era": "legacy", "legacy": {"hide_tools": true}}));
    let list = old.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).json()["result"].take();
    let names: Vec<&Value> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("ask_roots")) && !names.contains(&&json!("ask_sampling")));
    assert_eq!(list.get("ttlMs"), None);
}

#[test]
fn a_cut_stream_is_resumed_by_its_last_event() {
    let script = Script::new()
        .options(json!({"era": "legacy", "legacy": {"events": true, "retry_ms": 5}}))
        .rule(json!({"match": {"method": "tools/call"}, "do": {"cut_after_events": 2}}));
    let old = Old::scripted(script, json!({}));
    let mut client = Client::connect(&old.server);
    let mut progress = call("progress", &json!({"n": 3}));
    progress["params"]["_meta"] = json!({"progressToken": "t"});
    old.send_to(&mut client, "POST", &[], &progress);
    let answer = client.read().unwrap();
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert!(text.starts_with(&format!("id: {}\nretry: 5\ndata: \n\n", ids[0])), "{text}");
    assert_eq!((ids.len(), answer.events().len()), (2, 1));
    let mut rest = old.getting(&[("Last-Event-ID", ids[1])]);
    let events = rest.read().unwrap().events();
    assert_eq!((events.len(), &events[0]["params"]["progress"], &events[2]["id"]), (3, &json!(2), &json!(7)));
}

#[test]
fn doors_can_be_closed() {
    let old = Old::start(json!({"era": "legacy", "legacy": {"get": false, "delete": false}}));
    let mut client = old.getting(&[]);
    assert_eq!(client.read().unwrap().status, 405);
    old.send_to(&mut client, "DELETE", &[], &Value::Null);
    assert_eq!(client.read().unwrap().status, 405);
}

#[test]
fn odd_answers_to_notifications_are_a_matter_of_rules() {
    let rows = [
        (json!({"http_status": 204}), "HTTP/1.1 204 No Content\r\n\r\n"),
        (json!({"http_status": 200, "framing": "chunked"}), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (
            json!({"http_status": 202, "headers": {"Content-Type": "text/plain"}, "body": "Accepted"}),
            "HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\nContent-Type: text/plain\r\n\r\n",
        ),
    ];
    for (action, head) in rows {
        let script = Script::new()
            .options(json!({"era": "legacy"}))
            .rule(json!({"match": {"method": "notifications/x"}, "do": action}));
        let mut old = Old::scripted(script, json!({}));
        assert_eq!(old.post(&json!({"jsonrpc": "2.0", "method": "notifications/x"})).head, head);
    }
}

#[test]
fn batches_belong_to_one_revision() {
    let batch = json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "progress", "_meta": {"progressToken": 1}}}]);
    let mut old = Old::start(json!({"era": "legacy", "legacy": {"versions": ["2025-03-26"]}}));
    let answers = old.post(&batch).json();
    assert_eq!((answers.as_array().unwrap().len(), &answers[1]["id"]), (2, &json!(2)));
    assert_eq!(old.post(&json!([{"jsonrpc": "2.0", "method": "notifications/x"}])).status, 202);
    let mut old = Old::start(json!({"era": "legacy"}));
    assert_eq!(old.post(&batch).status, 400);
}

#[test]
fn the_oldest_transport_answers_on_its_one_stream() {
    let script = Script::new()
        .options(json!({"era": "legacy", "legacy": {"sse": true}}))
        .rule(json!({"match": {"method": "tools/list"}, "do": {"id": "string", "result": {"tools": []}}}));
    let server = TestServer::start(script);
    let mut feed = Client::connect(&server);
    feed.old("GET", "/sse", &[], &Value::Null);
    let endpoint = loop {
        let line = feed.line().unwrap();
        if let Some(path) = line.strip_prefix("data: ") {
            break path.to_owned();
        }
    };
    let mut client = Client::connect(&server);
    let mut post = |message: Value| {
        client.old("POST", &endpoint, &[], &message);
        assert_eq!(client.read().unwrap().status, 202);
    };
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {"sampling": {}}});
    post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    assert_eq!(feed.event().unwrap()["result"]["protocolVersion"], "2024-11-05");
    post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    post(call("ask_sampling", &json!({})));
    let question = feed.event().unwrap();
    assert_eq!(question["method"], "sampling/createMessage");
    post(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"content": {"type": "text", "text": "hi"}}}));
    assert_eq!(feed.event().unwrap()["id"], 7);
    post(json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list"}));
    assert_eq!(feed.event().unwrap(), json!({"jsonrpc": "2.0", "id": "8", "result": {"tools": []}}));
    let mut other = Client::connect(&server);
    other.old("POST", "/sse", &[], &json!({}));
    assert_eq!(other.read().unwrap().status, 405);
    other.old("POST", "/messages?sessionId=x", &[], &json!({}));
    assert_eq!(other.read().unwrap().status, 404);
}

#[test]
fn both_eras_live_side_by_side() {
    let mut old = Old::start(json!({"era": "both", "answer_sse": true}));
    let answer = old.post(&call("echo", &json!({"a": 1})));
    assert_eq!(answer.events()[0]["result"].get("resultType"), None);
    let mut client = Client::connect(&old.server);
    assert_eq!(client.call("echo", json!({"a": 1})).events()[0]["result"]["resultType"], "complete");
    assert_eq!(client.ask("server/discover", json!({})).status, 200);
    assert_eq!(client.ask("initialize", json!({})).status, 404);
    let mut old = Old::start(json!({"era": "legacy", "legacy": {"early": "serve"}}));
    old.session = String::new();
    assert_eq!(old.status().0, 200);
}
