//! Streamable HTTP: sends one message as a POST and hands over the messages of its answer.
//!
//! Promises: a request leaves in one write; a cancel ends a blocked wait at once and cuts no neighbour; nothing is
//! ever sent twice; every limit is counted before anything is stored; no thread is started but through
//! [`crate::spawn::Spawn`], and no signal is raised. It never follows a redirect and never reads an environment
//! variable (proxies are not supported yet).
//!
//! ```text
//! exchange ── lend ──> agents ── connect ──> dial ── names, connects on workers
//!    │                   │                     │
//!    │                 lane = ureq agent + control block <── cut: cancel token, close
//!    │                   │
//!    └── answer          └── socket: gathers output, keeps the limits
//!         └── sse, retry_after (pure)
//! ```
//!
//! In reading order: `settings`, `exchange`, `resume` (legacy streams), `answer`, `sse`, `retry_after`, `headers`, `agents`, `control`, `dial`,
//! `socket`.

mod agents;
mod answer;
mod control;
mod dial;
mod exchange;
pub(crate) mod headers;
mod resume;
mod retry_after;
mod settings;
mod socket;
mod sse;
#[cfg(test)]
mod tests;

pub(crate) use exchange::HttpTransport;
pub(crate) use settings::{Endpoint as HttpEndpoint, HttpSettings};
