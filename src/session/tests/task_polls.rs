//! What a poll of a task brings.

use std::sync::Arc;

use serde_json::json;

use super::fixture::{Talk, serve, settings};
use crate::error::Kind;
use crate::protocol::task::TaskStatus;
use crate::session::EraChoice;

#[test]
fn an_answer_that_says_the_same_is_the_one_that_was_read_before() {
    let server = serve(|seen, peer| match seen.method() {
        "server/discover" => peer.result(seen, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
        _ => match peer.log.of("POST tasks/get").len() {
            1 | 2 => peer.result(seen, json!({"resultType": "complete", "taskId": "t", "status": "working"})),
            3 => peer.result(seen, json!({"taskId": "t", "status": "working"})),
            4 => peer.result(seen, json!({"taskId": "u", "status": "working"})),
            5 => peer.result(seen, json!({"resultType": "task", "taskId": "t", "status": "cancelled"})),
            _ => peer.fault(200, &seen.body["id"], -32602, json!(null)),
        },
    });
    let talk = Talk::new(&server, settings(EraChoice::Modern));
    talk.open().unwrap();
    let first = talk.task("t", None).unwrap();
    let again = talk.task("t", Some(&first)).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    let other = talk.task("t", Some(&first)).unwrap();
    assert!(!Arc::ptr_eq(&first, &other) && other.status == TaskStatus::Working);
    assert_eq!(talk.task("t", Some(&first)).unwrap_err().kind(), Kind::Malformed);
    assert_eq!(talk.task("t", Some(&first)).unwrap().status, TaskStatus::Cancelled);
    assert_eq!(talk.task("t", Some(&first)).unwrap_err().kind(), Kind::TaskUnknown);
    let poll = &server.log.of("POST tasks/get")[0];
    assert_eq!((poll.header("mcp-name"), &poll.body["params"]["taskId"]), (Some("t"), &json!("t")));
}
