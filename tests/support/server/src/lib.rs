//! The scripted MCP server that the tests talk to.
//!
//! Without a script it is a well-behaved 2026-07-28 server with the tasks extension; a [`Script`] makes it misbehave,
//! byte by byte if need be. It keeps a record of every request. The README has the format and examples.
//!
//! In reading order:
//!
//! - `server`: the server as tests hold it; `shared`: what its connections share
//! - `http`: the carrier; `wire` reads requests, `endpoint` judges them with `headers`, `send`, `render` and `outlet`
//!   write answers, `line` is the connection, `control` is the door for other processes
//! - `stdio`: the other carrier; `pipe` is its end of the pipes, `flight` one request on them
//! - `parsed`, `peer`: what both carriers know of a request, and how they wait; `cli`: the command line
//! - `script`, `rules`, `action`, `lives`, `subst`, `fields`: the script and what it does
//! - `brain`: the protocol; `tools`, `calls`, `asks`, `jobs`, `rounds`, `suite`, `content` are what it offers,
//!   `tasks` (with `plan`) and `listen` its tasks and subscriptions, `world` its state, `rpc` its vocabulary
//! - `legacy`, `session`, `talk`, `old_tasks`: the eras before; `streamable`, `stream` carry them over HTTP
//! - `log`: the record; `clock`: the time; `fast`, `fast_jobs`: the peers for benchmarks
//!
//! ```
//! use mcp_test_server::{Script, TestServer};
//! let server = TestServer::start(Script::new());
//! assert!(server.url().ends_with("/mcp"));
//! assert!(server.requests().is_empty());
//! ```

mod action;
mod asks;
mod brain;
mod calls;
mod cli;
mod clock;
mod content;
mod control;
mod endpoint;
mod fast;
mod fast_jobs;
mod fields;
mod flight;
mod headers;
mod http;
mod jobs;
mod legacy;
mod line;
mod listen;
mod lives;
mod log;
mod old_tasks;
mod outlet;
mod parsed;
mod peer;
mod pipe;
mod plan;
mod process;
mod render;
mod rounds;
mod rpc;
mod rules;
mod script;
mod send;
mod server;
mod session;
mod shared;
mod stdio;
mod stream;
mod streamable;
mod subst;
mod suite;
mod talk;
mod tasks;
mod tools;
mod wire;
mod world;

pub use cli::main;
pub use fast::raw_echo;
pub use fields::ScriptError;
pub use log::Recorded;
pub use script::Script;
pub use serde_json::json;
pub use server::TestServer;

/// The README's example of a test, kept running.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
