//! Streamable HTTP: sends one message as a POST and hands over the messages of its answer.
//!
//! Promises: a request leaves in one write; a cancel ends a blocked wait at once and cuts no neighbour; nothing is ever
//! sent twice; every limit is counted before anything is stored; no thread is started but through
//! [`crate::spawn::Spawn`], and no signal is raised. A redirect is followed to the same origin alone. The environment
//! is read when the transport is made, and never later.
//!
//! ```text
//! exchange ── lend ──> lanes ── connect ──> dial ── names, connects on workers
//!    │                  │                     │
//!    │                lane = wire + control block <── cut: cancel token, close
//!    │                        │
//!    ├── request, redirect    └── HTTP/1.1 over a line: socket (gathers output, keeps the limits), tunnel (proxies), tls
//!    └── answer
//!         └── sse, retry_after (pure)
//! ```
//!
//! In reading order: `settings`, `proxy`, `no_proxy`, `exchange`, `request`, `redirect`, `resume` (legacy streams),
//! `answer`, `sse`, `retry_after`, `headers`, `lanes`, `control`, `wire`, `dial`, `socket`, `tunnel`, `tls`, `tls_words`.

mod answer;
mod control;
mod dial;
mod exchange;
pub(crate) mod headers;
mod lanes;
mod no_proxy;
mod proxy;
mod redirect;
mod request;
mod resume;
mod retry_after;
mod settings;
mod socket;
mod sse;
#[cfg(test)]
mod tests;
mod tls;
mod tls_words;
mod tunnel;
mod wire;

pub(crate) use exchange::HttpTransport;
pub(crate) use proxy::{ProxyChoice, password as proxy_password};
pub(crate) use settings::{Endpoint as HttpEndpoint, HttpSettings};
pub(crate) use tls::{Pem, TlsSettings};
