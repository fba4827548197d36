//! The plainest client: bytes out, bytes in, no library between the test and the wire.

// Each test file uses its own part of this one.
#![allow(dead_code, reason = "shared by test files that need different parts")]

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use mcp_test_server::TestServer;
use serde_json::{Value, json};

/// Far beyond any answer; only a broken server lets a read wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Client(BufReader<TcpStream>);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| *key == name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The `data` of each event.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.body);
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    }
}

impl Client {
    pub(crate) fn connect(server: &TestServer) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a well-formed request of this method.
    pub(crate) fn send(&mut self, method: &str, params: Value) {
        let mut params = params;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nMcp-Method: {method}\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nContent-Length: {}\r\n",
            body.len()
        );
        if let Some(name) = name {
            head += &format!("Mcp-Name: {name}\r\n");
        }
        self.raw(&format!("{head}\r\n{body}"));
    }

    /// Sends a request of a legacy era, with a body unless it is null.
    pub(crate) fn old(&mut self, http: &str, path: &str, headers: &[(&str, &str)], body: &Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut head = format!(
            "{http} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.raw(&format!("{head}\r\n{body}"));
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Sends and reads the whole answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Answer {
        self.send(method, params);
        self.read().expect("an answer")
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// One answer; `None` when the connection ends before it is complete.
    pub(crate) fn read(&mut self) -> Option<Answer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.byte()?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let lower = head.to_lowercase();
        let body = if lower.contains("transfer-encoding: chunked") {
            self.chunks()?
        } else {
            let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            self.take(length.unwrap_or(0))?
        };
        Some(Answer { status, head, body })
    }

    /// Everything until the server closes; true where it closed in order, false after a reset.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let in_order = self.0.read_to_end(&mut bytes).is_ok();
        (bytes, in_order)
    }

    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.push(self.byte()?);
        }
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// The next event of an open stream.
    pub(crate) fn event(&mut self) -> Option<Value> {
        loop {
            if let Some(data) = self.line()?.strip_prefix("data: ") {
                return serde_json::from_str(data).ok();
            }
        }
    }

    fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).ok()?;
            body.extend(self.take(size)?);
            self.line()?;
            if size == 0 {
                return Some(body);
            }
        }
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }
}
