//! The table: real first answers and what follows from them.

use super::*;
use crate::error::RpcFault;

const MODERN: &str = "2026-07-28";

fn rpc(code: i64, versions: &[&str], status: u16) -> Evidence {
    let versions = versions.iter().map(|version| (*version).to_owned()).collect();
    Evidence::Rpc { code, versions, status: (status != 0).then_some(status) }
}

fn discovered(versions: &[&str]) -> Evidence {
    Evidence::Discovered(versions.iter().map(|version| (*version).to_owned()).collect())
}

fn http(status: u16) -> Evidence {
    Evidence::Http { status }
}

const INITIALIZE: Verdict = Verdict::Legacy(LegacyStep::Initialize);
const OLD_STREAM: Verdict = Verdict::Legacy(LegacyStep::OldStream);
const OUTAGE: Verdict = Verdict::NoEvidence(Why::Outage);
const BUSY: Verdict = Verdict::NoEvidence(Why::Busy);
const ACCESS: Verdict = Verdict::NoEvidence(Why::Access);

/// Where the answer was seen, the link, the answer, the verdict: all of them answers to `server/discover`.
fn to_discover() -> Vec<(&'static str, LinkKind, Evidence, Verdict)> {
    use LinkKind::{Http, Stream};
    vec![
        ("fastmcp 4, TS v2, python 2", Http, discovered(&[MODERN]), Verdict::Modern(MODERN)),
        ("rmcp 3: all five", Http, discovered(&["2024-11-05", "2025-11-25", MODERN]), Verdict::Modern(MODERN)),
        ("legacy versions only", Stream, discovered(&["2025-11-25"]), INITIALIZE),
        ("a later era", Http, discovered(&["2031-01-01"]), Verdict::Refused(Why::Version)),
        ("an empty list", Http, discovered(&[]), Verdict::Refused(Why::Version)),
        ("BR-10 b, python 1 on stdio", Stream, rpc(-32601, &[], 0), INITIALIZE),
        ("BR-10 c", Stream, rpc(-32602, &[], 0), INITIALIZE),
        ("BR-10 d: id null", Stream, rpc(-32600, &[], 0), INITIALIZE),
        ("BR-10 a: silence", Stream, Evidence::Silence, INITIALIZE),
        ("BR-10 e", Stream, rpc(-32022, &[MODERN, "2025-11-25"], 0), Verdict::Modern(MODERN)),
        ("BR-10 f: strangers only", Stream, rpc(-32022, &["2031-01-01"], 0), Verdict::Refused(Why::Version)),
        ("-32022 with legacy versions only", Http, rpc(-32022, &["2025-11-25", "2025-06-18"], 400), INITIALIZE),
        ("-32022 with strangers and legacy ones", Http, rpc(-32022, &["2031-01-01", "2025-11-25"], 400), INITIALIZE),
        ("-32022 with strangers and ours", Http, rpc(-32022, &["2031-01-01", MODERN], 400), Verdict::Modern(MODERN)),
        ("-32022, legacy ones named first", Http, rpc(-32022, &["2025-11-25", MODERN], 400), Verdict::Modern(MODERN)),
        ("-32022 in a 200", Http, rpc(-32022, &[MODERN], 200), Verdict::Modern(MODERN)),
        ("-32022 with no list, on a stream", Stream, rpc(-32022, &[], 0), INITIALIZE),
        ("-32022 with legacy ones, on a stream", Stream, rpc(-32022, &["2024-11-05"], 0), INITIALIZE),
        ("-32020 on a stream", Stream, rpc(-32020, &[], 0), Verdict::Modern(MODERN)),
        ("TS v2, python 2 and fastmcp 4 as modern servers only", Http, discovered(&[MODERN]), Verdict::Modern(MODERN)),
        ("TS v1: a bad request, id null", Http, rpc(-32700, &[], 400), INITIALIZE),
        ("-32022 with no list", Http, rpc(-32022, &[], 400), INITIALIZE),
        ("BR-10 g: 400, empty body", Http, http(400), INITIALIZE),
        ("BR-10 h: 404 and HTML", Http, http(404), INITIALIZE),
        ("405: HTTP+SSE takes no POST here", Http, http(405), INITIALIZE),
        ("BR-10 i: 200 and -32601", Http, rpc(-32601, &[], 200), INITIALIZE),
        ("404 and -32601", Http, rpc(-32601, &[], 404), INITIALIZE),
        ("BR-10 j", Http, rpc(-32022, &[MODERN], 400), Verdict::Modern(MODERN)),
        ("BR-10 k: -32020", Http, rpc(-32020, &[], 400), Verdict::Modern(MODERN)),
        ("-32021", Http, rpc(-32021, &[], 400), Verdict::Modern(MODERN)),
        ("server-everything: not initialized, id null", Http, rpc(-32000, &[], 400), INITIALIZE),
        ("rmcp on an initialized session", Http, rpc(-32602, &[], 400), INITIALIZE),
        ("python 1: missing session id", Http, rpc(-32600, &[], 400), INITIALIZE),
        ("406: accepts too little", Http, http(406), INITIALIZE),
        ("415, 422: cannot read it", Http, http(422), INITIALIZE),
        ("answers anything with {}", Http, Evidence::Strange, INITIALIZE),
        ("401", Http, http(401), ACCESS),
        ("401 and a JSON-RPC error", Http, rpc(-32001, &[], 401), ACCESS),
        ("403", Http, http(403), ACCESS),
        ("403 and a modern error", Http, rpc(-32022, &[MODERN], 403), ACCESS),
        ("407: the proxy's", Http, http(407), ACCESS),
        ("408", Http, http(408), BUSY),
        ("429", Http, http(429), BUSY),
        ("429 and a JSON-RPC error", Http, rpc(-32000, &[], 429), BUSY),
        ("500", Http, http(500), BUSY),
        ("500 and -32603", Http, rpc(-32603, &[], 500), BUSY),
        ("502: the gateway's", Http, http(502), BUSY),
        ("503", Http, http(503), BUSY),
        ("301", Http, http(301), BUSY),
        ("silence over HTTP is an outage", Http, Evidence::Silence, OUTAGE),
        ("no connection", Http, Evidence::NetFault, OUTAGE),
        ("a broken pipe", Stream, Evidence::NetFault, OUTAGE),
        ("the child ends at what it does not know", Stream, Evidence::ChildGone, INITIALIZE),
    ]
}

#[test]
fn br_10_first_answers_to_discover() {
    for (name, link, seen, want) in to_discover() {
        assert_eq!(classify(link, ProbeStep::Discover, &seen), want, "{name}");
    }
}

#[test]
fn answers_to_initialize() {
    use LinkKind::{Http, Stream};
    let initialized = |version: &str| Evidence::Initialized(version.to_owned());
    let settled = |version| Verdict::Legacy(LegacyStep::Settled(version));
    let modern = Verdict::Ask(ProbeStep::Discover);
    let refused = Verdict::Refused(Why::Answered);
    for (name, link, seen, want) in [
        ("the newest", Http, initialized("2025-11-25"), settled("2025-11-25")),
        ("2025-06-18", Http, initialized("2025-06-18"), settled("2025-06-18")),
        ("2025-03-26", Stream, initialized("2025-03-26"), settled("2025-03-26")),
        ("2024-11-05", Stream, initialized("2024-11-05"), settled("2024-11-05")),
        ("BR-20: a version of strangers", Http, initialized("2099-01-01"), Verdict::Refused(Why::Version)),
        ("a modern version by the legacy door", Http, initialized(MODERN), Verdict::Refused(Why::Version)),
        ("turul: 400 -32020", Http, rpc(-32020, &[MODERN], 400), modern),
        ("-32022", Stream, rpc(-32022, &[MODERN], 0), modern),
        ("HTTP+SSE: 404", Http, http(404), OLD_STREAM),
        ("HTTP+SSE: 405", Http, http(405), OLD_STREAM),
        ("HTTP+SSE: 400", Http, http(400), OLD_STREAM),
        ("400 and another error", Http, rpc(-32000, &[], 400), OLD_STREAM),
        ("406", Http, http(406), refused),
        ("an error in a 200", Http, rpc(-32602, &[], 200), refused),
        ("an error on a stream", Stream, rpc(-32603, &[], 0), refused),
        ("401", Http, http(401), ACCESS),
        ("503", Http, http(503), BUSY),
        ("silence", Stream, Evidence::Silence, OUTAGE),
        ("the child ends", Stream, Evidence::ChildGone, OUTAGE),
    ] {
        assert_eq!(classify(link, ProbeStep::Initialize, &seen), want, "{name}");
    }
}

#[test]
fn answers_to_the_old_stream() {
    for (name, seen, want) in [
        ("the endpoint", Evidence::Endpoint, INITIALIZE),
        ("404", http(404), Verdict::Refused(Why::Answered)),
        ("405", http(405), Verdict::Refused(Why::Answered)),
        ("401", http(401), ACCESS),
        ("no event", Evidence::Silence, OUTAGE),
    ] {
        assert_eq!(classify(LinkKind::Http, ProbeStep::OldStream, &seen), want, "{name}");
    }
}

#[test]
fn no_fault_of_the_way_is_ever_evidence() {
    for step in [ProbeStep::Discover, ProbeStep::Initialize, ProbeStep::OldStream] {
        for status in [401, 403, 407, 408, 429, 500, 501, 502, 503, 504, 511, 301, 307, 600] {
            for seen in [http(status), rpc(-32601, &[], status), rpc(-32022, &[MODERN], status)] {
                let verdict = classify(LinkKind::Http, step, &seen);
                assert!(matches!(verdict, Verdict::NoEvidence(_)), "{step:?} {seen:?}: {verdict:?}");
            }
        }
        assert_eq!(classify(LinkKind::Http, step, &Evidence::NetFault), OUTAGE);
        assert_eq!(classify(LinkKind::Stream, step, &Evidence::NetFault), OUTAGE);
    }
}

#[test]
fn an_error_is_read_as_evidence() {
    let data = r#"{"supported":["2025-11-25",7],"requested":"x"}"#;
    let fault = RpcFault { code: -32022, message: "no".into(), data: Some(data.into()) };
    for (error, want) in [
        (Error::from_rpc(fault).with_http_status(400), rpc(-32022, &["2025-11-25"], 400)),
        (Error::new(Kind::Http, "x").with_http_status(404), http(404)),
        (Error::new(Kind::AuthRequired, "x").with_http_status(401), http(401)),
        (Error::new(Kind::Timeout, "x"), Evidence::Silence),
        (Error::new(Kind::ChildExit, "x"), Evidence::ChildGone),
        (Error::new(Kind::Connect, "x"), Evidence::NetFault),
        (Error::new(Kind::Malformed, "a page of HTML"), Evidence::NetFault),
    ] {
        assert_eq!(evidence_of(&error), want, "{error:?}");
    }
}
