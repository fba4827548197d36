//! The command line.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::fast::raw_echo;
use crate::script::Script;
use crate::server::{TestServer, bind};
use crate::shared::Shared;
use crate::stdio;

const USAGE: &str = "\
usage: mcp-test-server [--http HOST:PORT | --stdio] [--script FILE | --script-json TEXT] [--record FILE]
                       [--control HOST:PORT] [--stdin-guard] [--max-seconds N] [--fast] [--raw-echo Q,A]
Prints `listening URL`, then serves until POST /_control/quit, a kill, or N seconds (600).
--stdio        serves standard input and output instead, until the input ends
--record FILE  appends the record to FILE, a JSON line for each entry and each change of it
--control      with --stdio: the control door over HTTP; prints `control URL` on standard error first
--stdin-guard  ends when standard input closes, and so with the parent
--fast         for benchmarks: ready-made answers to tools/call and to the polls of the tool `job`, no record
--raw-echo     bare TCP: reads Q bytes, answers A bytes, and so on";

struct Args {
    host: String,
    port: u16,
    stdio: bool,
    control: Option<(String, u16)>,
    record: Option<String>,
    script: Script,
    stdin_guard: bool,
    max: Duration,
    fast: bool,
    raw_echo: Option<(usize, usize)>,
    linger: Option<u64>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            stdio: false,
            control: None,
            record: None,
            script: Script::new(),
            stdin_guard: false,
            max: Duration::from_secs(600),
            fast: false,
            raw_echo: None,
            linger: None,
        }
    }
}

/// Runs `mcp-test-server` with these arguments, the program's name left out.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let args = match parse(args) {
        Ok(args) => args,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("mcp-test-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut found = Args::default();
    let mut document = Value::Object(serde_json::Map::new());
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--http" => (found.host, found.port) = host_port(&value()?)?,
            "--stdio" => found.stdio = true,
            "--control" => found.control = Some(host_port(&value()?)?),
            "--record" => found.record = Some(value()?),
            "--script" => document = json(&std::fs::read_to_string(value()?).map_err(|error| error.to_string())?)?,
            "--script-json" => document = json(&value()?)?,
            "--stdin-guard" => found.stdin_guard = true,
            "--max-seconds" => found.max = Duration::from_secs(number(&value()?)?),
            "--fast" => found.fast = true,
            "--raw-echo" => {
                let text = value()?;
                let sizes = text.split_once(',').and_then(|(q, a)| q.parse().ok().zip(a.parse().ok()));
                found.raw_echo = Some(sizes.ok_or("--raw-echo needs Q,A")?);
            }
            "--linger" => found.linger = Some(number(&value()?)?),
            // What follows is for the tool `arguments` only.
            "--" => break,
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

fn host_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("HOST:PORT expected")?;
    Ok((host.to_owned(), port.parse().map_err(|_| format!("no port in {text}"))?))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("script: {error}"))
}

fn run(args: Args) -> std::io::Result<u8> {
    if let Some(ms) = args.linger {
        std::thread::park_timeout(Duration::from_millis(ms));
        return Ok(0);
    }
    if args.stdio {
        return run_stdio(args);
    }
    if let Some((question, answer)) = args.raw_echo {
        exit_after(args.max, 0);
        if args.stdin_guard {
            std::thread::spawn(|| {
                wait_for_eof();
                std::process::exit(0);
            });
        }
        raw_echo((args.host, args.port), question, answer, |address| println!("listening tcp {address}"))?;
        return Ok(0);
    }
    let (listener, base) = bind(&args.script.options.host, args.port)?;
    let shared = Arc::new(Shared::new(args.script, base, args.fast));
    record_to(&shared, args.record)?;
    let server = TestServer::listen(shared, listener)?;
    println!("listening {}", server.url());
    if args.stdin_guard {
        let quit = server.quitter();
        std::thread::spawn(move || {
            wait_for_eof();
            quit();
        });
    }
    server.wait_quit(args.max);
    Ok(0)
}

fn run_stdio(args: Args) -> std::io::Result<u8> {
    if args.script.options.ignore_sigterm && std::env::var_os(DEAF).is_none() {
        return deafen();
    }
    exit_after(args.max, 124);
    let Some((host, port)) = args.control else {
        let shared = Arc::new(Shared::new(args.script, String::new(), false));
        record_to(&shared, args.record)?;
        return stdio::serve(&shared);
    };
    let (listener, base) = bind(&host, port)?;
    eprintln!("control {base}");
    let shared = Arc::new(Shared::new(args.script, base, false));
    record_to(&shared, args.record)?;
    let server = TestServer::listen(Arc::clone(&shared), listener)?;
    std::thread::spawn(move || {
        server.wait_quit(args.max);
        std::process::exit(0);
    });
    stdio::serve(&shared)
}

fn record_to(shared: &Shared, path: Option<String>) -> std::io::Result<()> {
    if let Some(path) = path {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
        shared.with_log(|log| log.write_to(file));
    }
    Ok(())
}

fn exit_after(time: Duration, code: i32) {
    std::thread::spawn(move || {
        std::thread::park_timeout(time);
        std::process::exit(code);
    });
}

/// Set in a process that does not hear SIGTERM.
pub(crate) const DEAF: &str = "MCP_TEST_SERVER_DEAF";

/// Starts this program again, as the same process, from a shell that ignores SIGTERM: that is inherited.
#[cfg(unix)]
fn deafen() -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;
    let shell = ["-c", "trap '' TERM; exec \"$0\" \"$@\""];
    let me = std::env::current_exe()?;
    Err(Command::new("/bin/sh").args(shell).arg(me).args(std::env::args_os().skip(1)).env(DEAF, "1").exec())
}

/// There is no SIGTERM here.
#[cfg(not(unix))]
fn deafen() -> std::io::Result<u8> {
    let me = std::env::current_exe()?;
    let status = Command::new(me).args(std::env::args_os().skip(1)).env(DEAF, "1").status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn wait_for_eof() {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
