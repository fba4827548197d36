//! One server, one era: negotiation, requests and their answers, pagination, input rounds, routing headers.
//!
//! Above this room nobody asks which era it is. Below it, the transport carries text and knows no methods. A request
//! goes down as [`Request`], comes back as an [`Answer`](crate::protocol::answer::Answer), and what the server says
//! in between goes to a [`Notes`].
//!
//! Parts, in reading order: `request.rs` what is asked; `modern.rs` the stateless era (2026-07-28); `reply.rs` the
//! sink that picks the answer out of the frames; `channel.rs`, `life.rs`, `pending.rs` a two-way channel with many
//! requests in flight, as a transport; `verdict.rs` from a fault to an error, and whether once more is
//! allowed; `tools.rs` what is known of the server's tools; `pages.rs` whole lists; `rounds.rs` input rounds.

mod channel;
mod life;
mod modern;
mod pages;
mod pending;
mod reply;
mod request;
mod rounds;
mod tools;
mod verdict;

pub(crate) use channel::Channel;
pub(crate) use life::Asides;
pub(crate) use modern::{Session, SessionSettings};
pub(crate) use request::{Note, Request};
pub(crate) use rounds::Retry;
