//! The test server as a process of its own.

use std::process::ExitCode;
use std::time::Duration;

use mcp_test_server::{Script, TestServer, raw_echo};
use serde_json::Value;

const USAGE: &str = "\
usage: mcp-test-server [--http HOST:PORT] [--script FILE | --script-json TEXT]
                       [--stdin-guard] [--max-seconds N] [--fast] [--raw-echo Q,A]
Prints `listening URL`, then serves until POST /_control/quit, a kill, or N seconds (600).
--stdin-guard  ends when standard input closes, and so with the parent
--fast         for benchmarks: ready-made answers to tools/call, no record
--raw-echo     bare TCP: reads Q bytes, answers A bytes, and so on";

struct Args {
    host: String,
    port: u16,
    script: Script,
    stdin_guard: bool,
    max: Duration,
    fast: bool,
    raw_echo: Option<(usize, usize)>,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcp-test-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut found = Args {
        host: "127.0.0.1".to_owned(),
        port: 0,
        script: Script::new(),
        stdin_guard: false,
        max: Duration::from_secs(600),
        fast: false,
        raw_echo: None,
    };
    let mut document = Value::Object(serde_json::Map::new());
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--http" => {
                let text = value()?;
                let (host, port) = text.rsplit_once(':').ok_or("--http needs HOST:PORT")?;
                found.host = host.to_owned();
                found.port = port.parse().map_err(|_| "--http: no port")?;
            }
            "--script" => document = json(&std::fs::read_to_string(value()?).map_err(|error| error.to_string())?)?,
            "--script-json" => document = json(&value()?)?,
            "--stdin-guard" => found.stdin_guard = true,
            "--max-seconds" => {
                found.max = Duration::from_secs(value()?.parse().map_err(|_| "--max-seconds: no number")?)
            }
            "--fast" => found.fast = true,
            "--raw-echo" => {
                let text = value()?;
                let sizes = text.split_once(',').and_then(|(q, a)| q.parse().ok().zip(a.parse().ok()));
                found.raw_echo = Some(sizes.ok_or("--raw-echo needs Q,A")?);
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    if let (true, Some(map)) = (found.host != "127.0.0.1", document.as_object_mut()) {
        let options = map.entry("options").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(options) = options.as_object_mut() {
            options.insert("host".to_owned(), found.host.clone().into());
        }
    }
    found.script = Script::from_json(document).map_err(|error| error.to_string())?;
    Ok(found)
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("script: {error}"))
}

fn run(args: Args) -> std::io::Result<()> {
    if let Some((question, answer)) = args.raw_echo {
        let max = args.max;
        if args.stdin_guard {
            std::thread::spawn(|| {
                wait_for_eof();
                std::process::exit(0);
            });
        }
        std::thread::spawn(move || {
            std::thread::park_timeout(max);
            std::process::exit(0);
        });
        return raw_echo((args.host, args.port), question, answer, |address| println!("listening tcp {address}"));
    }
    let server = TestServer::start_at(args.script, args.port, args.fast)?;
    println!("listening {}", server.url());
    if args.stdin_guard {
        let quit = server.quitter();
        std::thread::spawn(move || {
            wait_for_eof();
            quit();
        });
    }
    server.wait_quit(args.max);
    Ok(())
}

fn wait_for_eof() {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
