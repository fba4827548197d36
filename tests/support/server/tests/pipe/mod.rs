//! The plainest client of a process: lines in, lines out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

/// A server as a child process; it ends with this.
pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    noise: BufReader<ChildStderr>,
    record: String,
}

/// A path that nobody else uses.
pub(crate) fn scratch(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("mcp-test-server-{}-{number}-{name}", std::process::id());
    std::env::temp_dir().join(name).to_string_lossy().into_owned()
}

/// A GET request to a control door.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

impl Pipe {
    pub(crate) fn start(script: &Value, args: &[&str]) -> Self {
        let record = scratch("record");
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-test-server"))
            .args(["--stdio", "--max-seconds", "60", "--record", &record, "--script-json", &script.to_string()])
            .args(args)
            .env("PIPE_TEST", "ü")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let noise = BufReader::new(child.stderr.take().unwrap());
        Self { input: child.stdin.take(), child, output, noise, record }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn write(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a well-formed request.
    pub(crate) fn send(&mut self, id: Value, method: &str, mut params: Value) {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// The next line as JSON.
    pub(crate) fn json(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// All output until its end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn stderr(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.noise.read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn stderr_line(&mut self) -> String {
        let mut line = String::new();
        self.noise.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The exit code, once the process has ended.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str, process: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), process]).status().unwrap();
        assert!(status.success());
    }

    /// The last word on each entry of the record.
    pub(crate) fn record(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.record).unwrap_or_default();
        let mut entries: Vec<Value> = Vec::new();
        for line in text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok()) {
            let number = usize::try_from(line["number"].as_u64().unwrap()).unwrap();
            match entries.get_mut(number) {
                Some(entry) => *entry = line,
                None => entries.push(line),
            }
        }
        entries
    }

    pub(crate) fn record_at_end(&mut self) -> Vec<Value> {
        self.close_input();
        assert_eq!(self.code(), Some(0));
        self.record()
    }

    pub(crate) fn wait_record(&mut self, found: impl Fn(&Value) -> bool) {
        while !self.record().iter().any(&found) {
            assert!(self.running());
            std::thread::yield_now();
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.record);
    }
}
