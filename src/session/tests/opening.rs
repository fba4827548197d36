//! Which era, which version.

use serde_json::{Value, json};

use super::fixture::{Seen, Talk, serve, settings};
use crate::error::Kind;
use crate::protocol::version::{Era, LEGACY};
use crate::session::EraChoice;

const POST: [&str; 4] =
    ["POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/list"];

fn discovered() -> Value {
    json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})
}

#[test]
fn br_10_a_legacy_servers_first_answers_lead_to_initialize_and_are_remembered() {
    type First = fn(&Seen, &mut super::fixture::Peer);
    let rows: [(&str, First); 6] = [
        ("g: 400, empty", |_, peer| peer.answer(400, "", "")),
        ("h: 404, HTML", |_, peer| peer.answer(404, "Content-Type: text/html\r\n", "<html>no</html>")),
        ("i: 200 and -32601", |seen, peer| peer.fault(200, &seen.body["id"], -32601, Value::Null)),
        ("everything: id null", |_, peer| peer.fault(400, &Value::Null, -32000, Value::Null)),
        ("-32022, legacy only", |seen, peer| {
            peer.fault(400, &seen.body["id"], -32022, json!({"supported": ["2025-11-25"]}));
        }),
        ("answers anything", |seen, peer| peer.result(seen, json!({}))),
    ];
    for (name, first) in rows {
        let server = serve(move |seen, peer| match seen.method() {
            "server/discover" => first(seen, peer),
            _ => peer.plainly(seen, "2025-11-25", None),
        });
        let talk = Talk::new(&server, settings(EraChoice::Auto));
        let facts = talk.open().unwrap();
        assert_eq!((facts.era, facts.version.as_str()), (Era::Legacy, "2025-11-25"), "{name}");
        assert_eq!(facts.instructions.as_deref(), Some("be kind"));
        talk.ask("tools/list", "{}").unwrap();
        let posts = |names: Vec<String>| names.into_iter().filter(|name| name.starts_with("POST")).collect::<Vec<_>>();
        assert_eq!(posts(server.log.names()), POST, "{name}");
        // The second client of the same configuration sends no probe.
        let second = Talk::remembering(&server, settings(EraChoice::Auto), talk.verdicts.clone());
        assert_eq!(second.open().unwrap().era, Era::Legacy);
        assert_eq!(server.log.of("POST server/discover").len(), 1, "{name}");
    }
}

#[test]
fn br_10_a_modern_server_stays_modern() {
    for code in [-32020, -32021] {
        let server = serve(move |seen, peer| peer.fault(400, &seen.body["id"], code, Value::Null));
        let error = Talk::new(&server, settings(EraChoice::Auto)).open().unwrap_err();
        assert_eq!(error.rpc().map(|fault| fault.code), Some(code));
        assert_eq!(server.log.names(), ["POST server/discover"]);
    }
    let server = serve(|seen, peer| match peer.log.of("POST server/discover").len() {
        1 => peer.fault(400, &seen.body["id"], -32022, json!({"supported": ["2026-07-28", "2025-11-25"]})),
        _ => peer.result(seen, discovered()),
    });
    assert_eq!(Talk::new(&server, settings(EraChoice::Auto)).open().unwrap().era, Era::Modern);
    assert_eq!(server.log.names(), ["POST server/discover"; 2]);
}

#[test]
fn a_fault_of_the_way_is_no_evidence_and_nothing_is_remembered() {
    for (status, kind) in [(401, Kind::AuthRequired), (403, Kind::AuthDenied), (429, Kind::Http), (503, Kind::Http)] {
        let server = serve(move |seen, peer| match peer.log.all().len() {
            1 => peer.answer(status, "", ""),
            _ => peer.result(seen, discovered()),
        });
        let talk = Talk::new(&server, settings(EraChoice::Auto));
        let error = talk.open().unwrap_err();
        assert_eq!((error.kind(), error.http_status()), (kind, Some(status)));
        assert_eq!(server.log.names(), ["POST server/discover"], "{status}");
        assert_eq!(talk.open().unwrap().era, Era::Modern);
    }
}

#[test]
fn each_legacy_version_is_negotiated_and_its_header_follows() {
    for version in LEGACY {
        let server = serve(move |seen, peer| peer.plainly(seen, version, Some("s1")));
        let talk = Talk::legacy(&server);
        talk.ask("tools/list", "{}").unwrap();
        server.log.wait_names("GET", 1);
        talk.end();
        server.log.wait_names("DELETE", 1);
        let (first, rest): (Vec<_>, Vec<_>) =
            server.log.all().into_iter().partition(|seen| seen.method() == "initialize");
        assert_eq!(first[0].body["params"]["protocolVersion"], LEGACY[0]);
        assert_eq!(first[0].body["params"]["clientInfo"]["name"], "test");
        assert!(first[0].body["params"]["capabilities"]["elicitation"].is_object());
        assert_eq!((first[0].session(), first[0].header("mcp-protocol-version")), (None, None));
        // BR-20: everything after carries the version that was agreed, where the revision has the header.
        let header = (version >= "2025-06-18").then_some(version);
        for seen in rest {
            assert_eq!(seen.header("mcp-protocol-version"), header, "{version} {}", seen.name());
            assert_eq!(seen.session(), Some("s1"), "{version} {}", seen.name());
            assert_eq!(seen.header("mcp-method"), None);
        }
    }
}

#[test]
fn br_20_a_version_of_strangers_ends_in_a_clear_error_and_the_session() {
    let server = serve(|seen, peer| peer.plainly(seen, "2099-01-01", Some("s1")));
    let talk = Talk::new(&server, settings(EraChoice::Legacy));
    let error = talk.open().unwrap_err();
    assert_eq!(error.kind(), Kind::Version);
    assert_eq!(
        error.message(),
        "expected a server of revision 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05 but found version: 2099-01-01"
    );
    assert_eq!(server.log.names(), ["POST initialize", "DELETE"]);
}

#[test]
fn the_settings_may_allow_one_era_only() {
    let legacy = serve(|seen, peer| peer.plainly(seen, "2025-11-25", None));
    let error = Talk::new(&legacy, settings(EraChoice::Modern)).open().unwrap_err();
    assert_eq!(error.kind(), Kind::Version);
    assert_eq!(legacy.log.names(), ["POST server/discover"]);
    // A modern-only server refuses `initialize` as turul does.
    let modern = serve(|seen, peer| peer.fault(400, &seen.body["id"], -32020, json!({"supported": ["2026-07-28"]})));
    let error = Talk::new(&modern, settings(EraChoice::Legacy)).open().unwrap_err();
    assert_eq!((error.kind(), error.rpc().map(|fault| fault.code)), (Kind::Version, Some(-32020)));
    assert_eq!(modern.log.names(), ["POST initialize"]);
}

#[test]
fn what_is_remembered_is_asked_anew_when_it_fails() {
    let old = serve(|seen, peer| peer.plainly(seen, "2025-11-25", None));
    let talk = Talk::new(&old, settings(EraChoice::Auto));
    talk.open().unwrap();
    let renewed = serve(|seen, peer| match seen.method() {
        "initialize" => peer.fault(400, &seen.body["id"], -32020, Value::Null),
        _ => peer.result(seen, discovered()),
    });
    let again = Talk::remembering(&renewed, settings(EraChoice::Auto), talk.verdicts.clone());
    assert_eq!(again.open().unwrap().era, Era::Modern);
    assert_eq!(renewed.log.names(), ["POST initialize", "POST server/discover"]);
}

#[test]
fn a_wrong_address_is_told_by_its_status() {
    let server = serve(|_, peer| peer.answer(404, "", "not here"));
    let error = Talk::new(&server, settings(EraChoice::Auto)).open().unwrap_err();
    assert_eq!((error.kind(), error.http_status()), (Kind::Http, Some(404)));
    assert_eq!(server.log.names(), ["POST server/discover", "POST initialize", "GET"]);
}
