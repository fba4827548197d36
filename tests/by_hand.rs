//! Questions that the host answers by hand, asked of a call that is waited for.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use mcp_test_server::{Script, TestServer};
use mcpnative::ffi::call::{mcp_call_free, mcp_call_task, mcp_tool_run};
use mcpnative::ffi::client::{mcp_client_free, mcp_client_new, mcp_client_open, mcp_client_wait_open};
use mcpnative::ffi::snapshot::{mcp_snapshot_free, mcp_snapshot_text};
use mcpnative::ffi::status::{MCP_E_INPUT_REQUIRED, MCP_OK};
use mcpnative::ffi::task::{mcp_task_free, mcp_task_update, mcp_task_wait};

const PATIENCE: i64 = 60_000;

#[test]
fn a_task_that_asks_ends_the_wait_and_not_the_task() {
    let server = TestServer::start(Script::new());
    let settings = format!(r#"{{"url": "{}", "input": {{"elicitation": "manual"}}}}"#, server.url());
    let arguments = r#"{"steps": 2, "step_ms": 5, "poll_ms": 10, "ask": true}"#;
    let answers = r#"{"ask-1": {"action": "accept", "content": {"value": "yes"}}}"#;
    let (mut client, mut call, mut task, mut snapshot) = (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: texts with their lengths, outputs that are locals, handles of these functions.
    unsafe {
        assert_eq!(mcp_client_new(settings.as_ptr().cast(), settings.len(), &raw mut client), MCP_OK);
        assert_eq!(mcp_client_open(client), MCP_OK);
        assert_eq!(mcp_client_wait_open(client, PATIENCE), MCP_OK);
        let name = c"slow_job".as_ptr();
        let (text, length) = (arguments.as_ptr().cast(), arguments.len());
        let ran = mcp_tool_run(client, name, text, length, null(), 0, PATIENCE, &raw mut call);
        assert_eq!(ran, MCP_E_INPUT_REQUIRED);
        assert_eq!(mcp_call_task(call, &raw mut task), MCP_OK);
        assert_eq!(mcp_task_wait(task, PATIENCE, null_mut()), MCP_E_INPUT_REQUIRED);
        assert_eq!(mcp_task_update(task, answers.as_ptr().cast(), answers.len(), PATIENCE), MCP_OK);
        assert_eq!(mcp_task_wait(task, PATIENCE, &raw mut snapshot), MCP_OK);
        let json = CStr::from_ptr(mcp_snapshot_text(snapshot, mcpnative::ffi::snapshot::MCP_SNAPSHOT_JSON, null_mut()));
        assert!(json.to_string_lossy().contains("completed"), "{json:?}");
        mcp_snapshot_free(snapshot);
        mcp_task_free(task);
        mcp_call_free(call);
        mcp_client_free(client);
    }
}
