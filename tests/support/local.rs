//! Local servers as processes of their own, with the record that they keep: the scripted server behind a pipe, or
//! wherever a test carries its bytes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::abi::{Client, Value, json};

const ARGUMENTS: &str = "MCPNATIVE_TEST_SERVER";

/// Not a test: this program as the server of another one.
#[test]
fn the_server() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    mcp_test_server::main(arguments.into_iter());
    std::process::exit(0);
}

/// A server to be, and the record that it keeps.
pub struct Local {
    script: Value,
    record: PathBuf,
}

impl Local {
    pub fn new(name: &str, script: Value) -> Self {
        let record = std::env::temp_dir().join(format!("mcpnative-eras-{name}-{}", std::process::id()));
        drop(std::fs::remove_file(&record));
        Self { script, record }
    }

    pub fn settings(&self, more: Value) -> Value {
        let arguments = json!(["--stdio", "--script-json", self.script.to_string(), "--record", self.record]);
        let mut all = json!({
            "command": std::env::current_exe().unwrap(),
            "args": ["--exact", "local::the_server", "--nocapture", "--quiet"],
            "env": {ARGUMENTS: arguments.to_string()},
        });
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    }

    /// A process of it with these ends, for whoever carries the bytes himself.
    pub fn spawn(&self, input: Stdio, output: Stdio) -> Child {
        let settings = self.settings(json!({}));
        let texts = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
        let mut command = Command::new(settings["command"].as_str().unwrap());
        command.args(texts(&settings["args"])).env(ARGUMENTS, settings["env"][ARGUMENTS].as_str().unwrap());
        command.stdin(input).stdout(output).spawn().unwrap()
    }

    pub fn client(&self, more: Value, prepare: impl FnOnce(&Client)) -> Client {
        let client = Client::new(&self.settings(more));
        prepare(&client);
        client.open().unwrap();
        client
    }

    pub fn ready(&self, more: Value, prepare: impl FnOnce(&Client)) -> Client {
        let client = self.client(more, prepare);
        client.wait_open().unwrap();
        client
    }

    /// Everything that it heard, in its order.
    pub fn messages(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.record).unwrap_or_default();
        let mut heard = Vec::<([Option<i64>; 2], Value)>::new();
        for entry in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            // An entry comes again at each change of it; each process counts from its own beginning.
            let key = ["process", "number"].map(|member| entry[member].as_i64());
            let message = entry["body"].as_str().and_then(|body| serde_json::from_str(body).ok());
            if let Some(message) = message
                && !heard.iter().any(|(known, _)| *known == key)
            {
                heard.push((key, message));
            }
        }
        heard.into_iter().map(|(_, message)| message).collect()
    }

    /// The lines of the record that have this text: for records that are too long to be read again and again.
    pub fn lines_with(&self, part: &str) -> usize {
        let text = std::fs::read_to_string(&self.record).unwrap_or_default();
        text.lines().filter(|line| line.contains(part)).count()
    }

    /// The process that it started and left behind (option `grandchild_ms`).
    pub fn grandchild(&self) -> i64 {
        let text = std::fs::read_to_string(&self.record).unwrap();
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let body = entries
            .filter(|entry| entry["http_method"] == "grandchild")
            .find_map(|entry| entry["body"].as_str().map(str::to_owned));
        body.expect("it is in the record").parse().unwrap()
    }

    /// The methods that it heard, in their order.
    pub fn heard(&self) -> Vec<String> {
        self.messages().iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect()
    }

    pub fn count(&self, method: &str) -> usize {
        self.heard().iter().filter(|heard| *heard == method).count()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.record));
    }
}
