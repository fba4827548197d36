//! What the client remembers of a server's lists and resources, and when it asks again, over the C ABI.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/abi.rs"]
mod abi;

use abi::*;
use mcp_test_server::TestServer;

/// Longer than any test.
const LONG: i64 = 3_600_000;

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
const READ: &str = r#"{"uri":"test://static-text"}"#;

/// A server whose answers to these methods are fresh for so long.
fn fresh(methods: &[&str], ttl: &Value) -> Script {
    methods.iter().fold(Script::new(), |script, method| {
        script.rule(json!({"match": {"method": method}, "do": {"patch": {"ttlMs": ttl, "cacheScope": "private"}}}))
    })
}

fn talk(script: Script) -> (TestServer, Client) {
    let server = TestServer::start(script);
    let client = Client::ready(&server, json!({}));
    (server, client)
}

fn params_of(method: &str) -> &'static str {
    if method == "resources/read" { READ } else { "{}" }
}

/// Asks, and tells how many requests of the method the server has had by then.
fn ask(server: &TestServer, client: &Client, method: &str, cache: &str) -> usize {
    let options = if cache.is_empty() { String::new() } else { json!({ "cache": cache }).to_string() };
    client.request_with(method, params_of(method), &options).unwrap_or_else(|failure| panic!("{method}: {failure:?}"));
    server.count_of(method)
}

#[test]
fn an_answer_is_kept_for_as_long_as_it_says() {
    let methods = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];
    let (server, client) = talk(fresh(&methods, &json!(LONG)));
    for method in methods {
        let first = client.request_with(method, params_of(method), "").unwrap().raw_json();
        let second = client.request_with(method, params_of(method), "").unwrap().raw_json();
        assert_eq!((server.count_of(method), first), (1, second), "{method}: byte for byte");
    }
    let stats = client.stats();
    assert_eq!((&stats["cache_entries"], &stats["cache_hits"]), (&json!(5), &json!(5)), "{stats}");
    assert!(stats["cache_bytes"].as_u64().unwrap() > 1_000, "{stats}");
    // Another client is another user.
    let other = Client::ready(&server, json!({}));
    other.request("tools/list", json!({})).unwrap();
    assert_eq!(server.count_of("tools/list"), 2);
}

#[test]
fn the_server_itself_is_asked_once() {
    let (server, client) = talk(fresh(&["server/discover"], &json!(LONG)));
    let before = server.count_of("server/discover");
    for _ in 0..2 {
        assert_eq!(ask(&server, &client, "server/discover", ""), before + 1);
    }
}

#[test]
fn an_answer_that_says_nothing_sensible_is_not_kept() {
    for ttl in [json!(0), json!(-1), json!("60000"), json!(true), json!(null), json!("$absent"), json!({"a": 1})] {
        let (server, client) = talk(fresh(&["tools/list", "resources/read"], &ttl));
        for n in 1..=2 {
            assert_eq!(ask(&server, &client, "tools/list", ""), n, "{ttl}");
            assert_eq!(ask(&server, &client, "resources/read", ""), n, "{ttl}");
        }
        assert_eq!(client.stats()["cache_entries"], 0, "{ttl}");
    }
}

#[test]
fn an_answer_is_asked_for_again_once_it_is_stale() {
    let (server, client) = talk(fresh(&["tools/list"], &json!(1)));
    assert_eq!(ask(&server, &client, "tools/list", ""), 1);
    until("the answer to go stale", || ask(&server, &client, "tools/list", "") >= 3);
}

#[test]
fn only_the_same_request_finds_it_whatever_its_meta() {
    let (server, client) = talk(fresh(&["resources/read"], &json!(LONG)));
    let read = |params: &str, options: &str| {
        let text = client.request_with("resources/read", params, options).unwrap().raw_json();
        (server.count_of("resources/read"), text)
    };
    assert_eq!(read(READ, "").0, 1);
    assert_eq!(read(READ, r#"{"meta":{"traceparent":"00-1"}}"#).0, 1);
    assert_eq!(read(r#"{"uri":"test://static-text","_meta":{"a":1}}"#, "").0, 1);
    let (asked, other) = read(r#"{"uri":"test://static-binary"}"#, "");
    assert!(asked == 2 && other.contains("test://static-binary"), "{other}");
    assert_eq!(read(r#"{"uri":"test://static-text","com.example/deep":true}"#, "").0, 3);
}

#[test]
fn errors_questions_and_rounds_are_not_kept() {
    let round = json!({"resultType": "input_required", "requestState": "s", "ttlMs": LONG, "inputRequests": {
        "k": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}}});
    let server = TestServer::start(
        Script::new()
            .rule(json!({"match": {"method": "resources/read", "params": {"uri": "test://asks", "requestState": "s"}},
                "do": {"result": {"resultType": "complete", "contents": [], "ttlMs": LONG}}}))
            .rule(json!({"match": {"method": "resources/read", "params": {"uri": "test://asks"}}, "do": {"result": round}}))
            .rule(json!({"match": {"method": "prompts/list"}, "do": {"error": {"code": -32603, "message": "no", "data": {"ttlMs": LONG}}}})),
    );
    let client = Client::new(&settings(&server, json!({})));
    client.on(MCP_EVENT_ELICITATION, |event| {
        event.input().unwrap().reply(&json!({})).unwrap();
    });
    client.open().unwrap();
    for n in 1..=2 {
        let options = r#"{"cache":"until_changed"}"#;
        client.request_with("resources/read", r#"{"uri":"test://asks"}"#, options).unwrap();
        assert_eq!(server.count_of("resources/read"), 2 * n, "the question, and its answer");
        assert_eq!(client.request_with("prompts/list", "{}", options).unwrap_err().rpc_code, Some(-32603));
        assert_eq!(server.count_of("prompts/list"), n);
    }
    // A round that the host writes by itself.
    server.clear();
    for n in 1..=2 {
        let by_hand = r#"{"uri":"test://asks","requestState":"s","inputResponses":{}}"#;
        client.request_with("resources/read", by_hand, r#"{"cache":"until_changed"}"#).unwrap();
        assert_eq!(server.count_of("resources/read"), n);
    }
    assert_eq!(client.stats()["cache_entries"], 0);
}

#[test]
fn the_option_says_what_is_kept_and_what_is_taken() {
    for method in ["tools/list", "resources/read"] {
        let (server, client) = talk(Script::new());
        // The server says nothing: kept only where the host says so.
        assert_eq!(ask(&server, &client, method, "until_changed"), 1, "{method}");
        assert_eq!(ask(&server, &client, method, "until_changed"), 1, "{method}");
        assert_eq!(ask(&server, &client, method, "server"), 2, "{method}");
        assert_eq!(ask(&server, &client, method, "off"), 3, "{method}");
        assert_eq!(ask(&server, &client, method, "refresh"), 4, "{method}");
        assert_eq!(ask(&server, &client, method, "until_changed"), 4, "{method}");
        // Other methods are asked each time.
        for n in 1..=2 {
            client
                .request_with("prompts/get", r#"{"name":"test_simple_prompt"}"#, r#"{"cache":"until_changed"}"#)
                .unwrap();
            assert_eq!(server.count_of("prompts/get"), n);
        }
        let failure = client.request_with(method, "{}", r#"{"cache":"always"}"#).unwrap_err();
        assert_eq!((failure.name().as_str(), failure.message.contains("options.cache")), ("MCP_E_ARGUMENT", true));
    }
}

#[test]
fn the_limits_are_kept_and_nought_keeps_nothing() {
    for (limits, entries) in [
        (json!({"cache_entries": 0}), 0),
        (json!({"cache_bytes": 0}), 0),
        (json!({"cache_entries": 2}), 2),
        (json!({}), 4),
    ] {
        let server = TestServer::start(Script::new());
        let client = Client::ready(&server, json!({"limits": limits}));
        for method in LISTS {
            ask(&server, &client, method, "until_changed");
        }
        assert_eq!(client.stats()["cache_entries"], entries, "{limits}");
    }
    let server = TestServer::start(Script::new());
    for limits in [json!({"cache_entries": -1}), json!({"cache_bytes": "1"})] {
        let failure = Client::make(settings(&server, json!({"limits": limits})).to_string().as_bytes()).err().unwrap();
        assert!(failure.message.starts_with("settings.limits.cache_"), "{failure:?}");
    }
}

// ---- changes ---------------------------------------------------------------------------------------------------------

/// Fills the cache with one answer of each method, for good.
fn fill(server: &TestServer, client: &Client) {
    for method in LISTS.into_iter().chain(["resources/read"]) {
        ask(server, client, method, "until_changed");
    }
    server.clear();
}

/// Which methods the server is asked for once more.
fn asked_again(server: &TestServer, client: &Client) -> Vec<&'static str> {
    let methods = LISTS.into_iter().chain(["resources/read"]);
    methods.filter(|method| ask(server, client, method, "until_changed") > 0).collect()
}

/// What each change drops, and the list that counts it.
const CHANGES: [(&str, &[&str], [i64; 3]); 3] = [
    ("tools", &["tools/list"], [2, 1, 1]),
    ("prompts", &["prompts/list"], [1, 2, 1]),
    ("resources", &["resources/list", "resources/templates/list"], [1, 1, 2]),
];

#[test]
fn a_change_that_is_told_on_a_subscription_drops_the_list() {
    for (what, dropped, generations) in CHANGES {
        let (server, client) = talk(Script::new());
        let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true,
            "resourcesListChanged": true, "resourceSubscriptions": ["test://static-text"]}});
        let _stream =
            client.start_request("subscriptions/listen", &filter.to_string(), r#"{"total_ms":-1,"idle_ms":-1}"#);
        client.events.nth(MCP_EVENT_SUBSCRIPTION, 1);
        fill(&server, &client);
        assert_eq!(client.generations(), [1; 3]);
        server.announce(what);
        client.events.nth(MCP_EVENT_NOTIFICATION, 1);
        assert_eq!(client.generations(), generations, "{what}");
        assert_eq!(asked_again(&server, &client), dropped, "{what}");
        // The same lists came again: nobody has to do anything once more.
        assert_eq!(client.generations(), generations, "{what}");
        server.touch("test://static-text");
        client.events.nth(MCP_EVENT_NOTIFICATION, 2);
        server.clear();
        assert_eq!(asked_again(&server, &client), ["resources/read"], "{what}");
        assert_eq!(client.generations(), generations, "{what}: a resource is not the list of them");
    }
}

#[test]
fn a_change_that_is_told_on_a_requests_own_stream_drops_the_list() {
    for (what, dropped, generations) in CHANGES {
        let (server, client) = talk(Script::new().rule(json!({"match": {"method": "tools/call"}, "do": {"sse": [
            {"message": {"jsonrpc": "2.0", "method": format!("notifications/{what}/list_changed")}},
            {"result": {"resultType": "complete", "content": []}}]}})));
        fill(&server, &client);
        client.run("echo", json!({})).unwrap();
        assert_eq!(client.generations(), generations, "{what}: known when the call is over");
        assert_eq!(asked_again(&server, &client), dropped, "{what}");
    }
}

#[test]
fn a_change_that_is_told_on_the_stream_of_a_tasks_poll_drops_the_list() {
    let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let working = json!({"resultType": "complete", "taskId": "$taskId", "status": "working", "createdAt": "$now",
        "lastUpdatedAt": "$now", "ttlMs": 60_000, "pollIntervalMs": 50});
    let (server, client) = talk(Script::new().rule(json!({"match": {"method": "tasks/get", "nth": 1},
        "do": {"sse": [{"message": told}, {"result": working}]}})));
    fill(&server, &client);
    client.run("slow_job", json!({"steps": 1})).unwrap();
    assert_eq!(client.generations(), [2, 1, 1]);
    assert_eq!(asked_again(&server, &client), ["tools/list"]);
}

#[test]
fn a_change_that_a_legacy_server_tells_on_its_get_stream_drops_the_list() {
    for (what, dropped, generations) in CHANGES {
        let server = TestServer::start(Script::new().options(json!({"era": "legacy"})));
        let client = Client::ready(&server, json!({}));
        client.request("resources/subscribe", json!({"uri": "test://static-text"})).unwrap();
        fill(&server, &client);
        server.announce(what);
        client.events.nth(MCP_EVENT_NOTIFICATION, 1);
        assert_eq!(client.generations(), generations, "{what}");
        assert_eq!(asked_again(&server, &client), dropped, "{what}");
        server.touch("test://static-text");
        client.events.nth(MCP_EVENT_NOTIFICATION, 2);
        server.clear();
        assert_eq!(asked_again(&server, &client), ["resources/read"], "{what}");
    }
}

#[test]
fn a_new_legacy_session_drops_all() {
    let server = TestServer::start(Script::new().options(json!({"era": "legacy"})));
    let client = Client::ready(&server, json!({}));
    fill(&server, &client);
    server.forget_sessions();
    client.run("echo", json!({})).unwrap();
    assert_eq!(client.generations(), [2; 3]);
    assert_eq!(asked_again(&server, &client).len(), 5);
    assert_eq!(client.generations(), [2; 3]);
}

#[test]
fn a_refused_call_of_a_listed_tool_casts_doubt_on_the_list() {
    for code in [-32602, -32601] {
        let (server, client) = talk(Script::new().rule(json!(
            {"match": {"method": "tools/call"}, "do": {"error": {"code": code, "message": "no"}}})));
        fill(&server, &client);
        for (tool, generation) in [("made up", 1), ("echo", 2), ("echo", 2)] {
            assert_eq!(client.run(tool, json!({})).unwrap_err().rpc_code, Some(code));
            assert_eq!(client.generations(), [generation, 1, 1], "{code} {tool}");
        }
        assert_eq!(asked_again(&server, &client), ["tools/list"]);
    }
    let (server, client) = talk(Script::new());
    fill(&server, &client);
    // A tool that fails by itself says nothing about the list.
    client.run("rpc_error", json!({"code": -32050})).unwrap_err();
    client.run("tool_error", json!({"text": "no"})).unwrap();
    assert_eq!((client.generations(), asked_again(&server, &client).len()), ([1; 3], 0));
}

#[test]
fn a_call_whose_headers_were_stale_drops_the_tools() {
    let (server, client) = talk(Script::new().rule(json!({"match": {"method": "tools/call", "nth": 1},
        "do": {"http_status": 400, "error": {"code": -32020, "message": "header mismatch"}}})));
    fill(&server, &client);
    client.run("echo", json!({})).unwrap();
    assert_eq!(client.generations(), [2, 1, 1]);
    server.clear();
    assert!(asked_again(&server, &client).starts_with(&["tools/list"]));
    assert_eq!(client.generations(), [2, 1, 1]);
}

#[test]
fn a_list_that_differs_has_changed_though_nobody_told() {
    let (_server, client) = talk(Script::new().rule(json!({"match": {"method": "prompts/list", "from": 3},
        "do": {"patch": {"prompts": [{"name": "other"}]}}})));
    let list = || client.request("prompts/list", json!({})).unwrap();
    for generation in [1, 1, 2, 2] {
        list();
        assert_eq!(client.generations(), [1, generation, 1]);
    }
    let failure = client.number(99).unwrap_err();
    assert_eq!(failure.name(), "MCP_E_ARGUMENT");
    let unopened = Client::new(&json!({"url": "http://127.0.0.1:9/mcp"}));
    assert_eq!(unopened.generations(), [1; 3]);
}

// ---- pages -----------------------------------------------------------------------------------------------------------

/// A page of tools: its entries, the next cursor, how long it is fresh.
fn page(tools: &[&str], next: Option<&str>, ttl: i64) -> Value {
    let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    let mut result = json!({"resultType": "complete", "tools": tools, "ttlMs": ttl, "cacheScope": "public"});
    if let Some(next) = next {
        result["nextCursor"] = next.into();
    }
    result
}

fn first(nth: Value, result: Value) -> Value {
    json!({"match": {"method": "tools/list", "nth": nth}, "do": {"result": result}})
}

fn names(client: &Client, options: &str) -> Vec<String> {
    let list = client.request_with("tools/list", "{}", options).unwrap().json();
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

const ALL: &str = r#"{"all_pages":true}"#;

#[test]
fn pages_are_kept_one_by_one() {
    let (server, client) = talk(
        Script::new()
            .rule(json!({"match": {"method": "tools/list", "params": {"cursor": "2"}}, "do": {"result": page(&["b"], None, LONG)}}))
            .rule(json!({"match": {"method": "tools/list"}, "do": {"result": page(&["a"], Some("2"), LONG)}})),
    );
    for _ in 0..2 {
        assert_eq!(names(&client, ALL), ["a", "b"]);
        assert_eq!(server.count_of("tools/list"), 2);
    }
    // A page that was walked over is the same page when it is asked for by itself.
    client.request("tools/list", json!({"cursor": "2"})).unwrap();
    assert_eq!(client.tool_names().unwrap(), ["a", "b"], "mcp_tool_list walks as well");
    assert_eq!(server.count_of("tools/list"), 2);
    assert_eq!(names(&client, r#"{"all_pages":true,"cache":"refresh"}"#), ["a", "b"]);
    assert_eq!(server.count_of("tools/list"), 4);
    assert_eq!(names(&client, r#"{"all_pages":true,"cache":"off"}"#), ["a", "b"]);
    assert_eq!(server.count_of("tools/list"), 6);
    assert_eq!(client.generations(), [1; 3]);
}

#[test]
fn a_walk_never_mixes_a_kept_page_with_pages_of_a_newer_list() {
    // The first page is fresh for long, the second never is; the third time, the list is another one.
    let (server, client) = talk(
        Script::new()
            .rule(first(json!(1), page(&["a1"], Some("2"), LONG)))
            .rule(first(json!(2), page(&["b1"], None, 0)))
            .rule(first(json!(3), page(&["b2"], None, 0)))
            .rule(first(json!(4), page(&["a2"], Some("2"), LONG)))
            .rule(first(json!(5), page(&["b2"], None, 0))),
    );
    assert_eq!(names(&client, ALL), ["a1", "b1"]);
    assert_eq!(names(&client, ALL), ["a2", "b2"], "not a1, which was kept");
    assert_eq!(server.count_of("tools/list"), 5);
    assert!(client.generations()[0] > 1);
}

#[test]
fn a_walk_begins_anew_where_a_change_is_told_in_it() {
    // The change comes on the stream of the second page.
    let told = json!({"message": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}});
    for cache in ["server", "until_changed", "off"] {
        let (server, client) = talk(
            Script::new()
                .rule(first(json!(1), page(&["a1"], Some("2"), LONG)))
                .rule(json!({"match": {"method": "tools/list", "nth": 2},
                    "do": {"sse": [told, {"result": page(&["b2"], None, LONG)}]}}))
                .rule(first(json!(3), page(&["a2"], Some("2"), LONG)))
                .rule(first(json!(4), page(&["b2"], None, LONG))),
        );
        let options = json!({"all_pages": true, "cache": cache}).to_string();
        assert_eq!(names(&client, &options), ["a2", "b2"], "{cache}");
        assert_eq!((server.count_of("tools/list"), client.generations()[0]), (4, 2), "{cache}");
        names(&client, r#"{"all_pages":true}"#);
        assert_eq!(server.count_of("tools/list") > 4, cache == "off", "{cache}: what came last is kept");
    }
}

#[test]
fn a_server_that_tells_a_change_with_each_page_is_not_walked_for_ever() {
    let told = json!({"message": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}});
    let of = |cursor: Value, result: Value| json!({"match": {"method": "tools/list", "params": cursor}, "do": {"sse": [told, {"result": result}]}});
    let (server, client) = talk(
        Script::new()
            .rule(of(json!({"cursor": "2"}), page(&["b"], None, LONG)))
            .rule(of(json!({}), page(&["a"], Some("2"), LONG))),
    );
    assert_eq!(names(&client, ALL), ["a", "b"]);
    assert_eq!(server.count_of("tools/list"), 6);
    assert_eq!(client.stats()["cache_entries"], 0);
}

#[test]
fn a_kept_page_whose_cursor_leads_nowhere_is_asked_for_again() {
    let (server, client) = talk(
        Script::new()
            .rule(first(json!(1), page(&["a1"], Some("old"), LONG)))
            .rule(first(json!(2), page(&["b1"], None, 0)))
            .rule(json!({"match": {"method": "tools/list", "params": {"cursor": "old"}},
                "do": {"error": {"code": -32602, "message": "Invalid cursor"}}}))
            .rule(json!({"match": {"method": "tools/list", "params": {"cursor": "new"}},
                "do": {"result": page(&["b2"], None, 0)}}))
            .rule(json!({"match": {"method": "tools/list"}, "do": {"result": page(&["a2"], Some("new"), LONG)}})),
    );
    assert_eq!(names(&client, ALL), ["a1", "b1"]);
    assert_eq!(names(&client, ALL), ["a2", "b2"]);
    assert_eq!(server.count_of("tools/list"), 5);
    // By hand, a page at a time: the refused cursor drops the kept pages, too.
    client.request("tools/list", json!({"cursor": "old"})).unwrap_err();
    client.request("tools/list", json!({})).unwrap();
    assert_eq!(server.count_of("tools/list"), 7);
}

// ---- templates -------------------------------------------------------------------------------------------------------

#[test]
fn a_template_of_the_servers_becomes_a_uri_that_it_answers() {
    let (_server, client) = talk(Script::new());
    let listed = client.request("resources/templates/list", json!({})).unwrap().json();
    let template = listed["resourceTemplates"][0]["uriTemplate"].as_str().unwrap().to_owned();
    let uri = expand(&template, r#"{"id": 42}"#).unwrap();
    assert_eq!(uri, "test://template/42/data");
    let read = client.request("resources/read", json!({ "uri": uri })).unwrap().raw_json();
    assert!(read.contains("Data for ID: 42"), "{read}");
    assert_eq!(expand("{a}x", "").unwrap(), "x", "no variables are none");
    for (template, variables, word) in
        [("{a", "{}", "RFC 6570"), ("{a}", "[]", "variables"), ("{a}", "{\"a\":[[]]}", "a")]
    {
        let failure = expand(template, variables).unwrap_err();
        assert!(failure.name() == "MCP_E_ARGUMENT" && failure.message.contains(word), "{failure:?}");
    }
}
