//! The server as a process.
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn start(args: &[&str]) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-test-server"))
        .args(args)
        .args(["--stdin-guard", "--max-seconds", "60"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim_end().to_owned())
}

/// Closing standard input ends the process.
fn stop(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

fn exchange(address: &str, request: &str, size: usize) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![0; size];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn it_tells_its_address_and_ends_with_its_input() {
    let (child, line) = start(&["--script-json", r#"{"rules": [{"match": {}, "do": {"body": "hi"}}]}"#]);
    let address = line.strip_prefix("listening http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let answer = exchange(address, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 15);
    assert_eq!(answer, "HTTP/1.1 200 OK");
    stop(child);
}

#[test]
fn the_fast_peer_answers_calls_and_the_rest() {
    let (child, line) = start(&["--fast"]);
    let address = line.strip_prefix("listening http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let body = r#"{"jsonrpc":"2.0","id":31,"method":"tools/call","params":{"name":"echo"}}"#;
    let request = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let twice = format!("{request}{request}GET /_control/counters HTTP/1.1\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(twice.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches(r#"{"jsonrpc":"2.0","id":31,"result":"#).count(), 2);
    assert!(text.contains("\"accepted\":1"));
    stop(child);
}

#[test]
fn the_bare_peer_counts_bytes() {
    let (child, line) = start(&["--raw-echo", "4,6"]);
    let address = line.strip_prefix("listening tcp ").unwrap();
    assert_eq!(exchange(address, "abcdabcd", 12), "xxxxxxxxxxxx");
    stop(child);
}

#[test]
fn a_wrong_script_is_refused_by_name() {
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-test-server"))
        .args(["--script-json", r#"{"rulez": []}"#])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("script: unknown key \"rulez\""));
}
