//! One server, one era: negotiation, requests and their answers, pagination, input rounds, routing headers.
//!
//! Above this room nobody asks which era it is. Below it, the transport carries text and knows no methods. A request
//! goes down as [`Request`], comes back as an [`Answer`](crate::protocol::answer::Answer), and what the server says
//! in between goes to a [`Notes`].
//!
//! Parts, in reading order: `request.rs` what is asked; `settings.rs` what a session is made of; `any.rs` the session
//! that others hold, of either era; `era.rs` which era (pure), `opening.rs` the questions that tell it, `remembered.rs`
//! the answers of this process; `speaker.rs` what each era does; `modern.rs` the stateless one (2026-07-28),
//! `legacy.rs` the one of sessions, with `handshake.rs` (`initialize`), `standing.rs` (the session and its renewal),
//! `inbox.rs` (what belongs to no request), `desk.rs` (the server's own requests), `legacy_tasks.rs` (calls as tasks
//! and the verbs of a task, 2025-11-25) and `jobs.rs` (what belongs to a task and comes apart from its polls);
//! `reply.rs` and `legacy_reply.rs` the sinks that pick the answer out of the frames; `channel.rs`, `life.rs`,
//! `pending.rs`, `guests.rs` a two-way channel with many requests in flight, as a transport, with polls that hold no thread meanwhile
//! (`landing.rs`, `legacy_polls.rs`), `replay.rs` a record as one; `verdict.rs` from a fault
//! to an error, and whether once more is allowed; `tools.rs` what is known of the server's tools; `known.rs` what is
//! known of its lists and resources, with `cache.rs` (the answers that are kept) and `recall.rs` (requests that may be
//! answered from there); `pages.rs` whole lists; `rounds.rs` input rounds; `subscription.rs` a subscription's life,
//! over streams that come and go (`hearing.rs` the modern sink; `legacy_listen.rs` and `subscribers.rs` what the legacy
//! era has instead); `progress.rs` whose a stray progress is.

mod any;
mod cache;
mod channel;
mod desk;
mod era;
mod fault;
mod guests;
mod handshake;
mod hearing;
mod inbox;
mod jobs;
mod known;
mod landing;
mod legacy;
mod legacy_listen;
mod legacy_polls;
mod legacy_reply;
mod legacy_tasks;
mod life;
mod modern;
mod opening;
mod pages;
mod pending;
mod progress;
mod recall;
mod remembered;
mod replay;
mod reply;
mod request;
mod rounds;
mod settings;
mod speaker;
mod standing;
mod subscribers;
mod subscription;
#[cfg(test)]
mod tests;
mod tools;
mod verdict;

pub(crate) use any::Session;
pub(crate) use channel::Channel;
pub(crate) use desk::Question;
pub(crate) use known::Kept;
pub(crate) use landing::{Hear, Landing};
pub(crate) use life::Asides;
pub(crate) use remembered::Verdicts;
pub(crate) use replay::Replay;
pub(crate) use request::{CacheUse, Note, Request, TaskWish};
pub(crate) use rounds::Retry;
pub(crate) use settings::{EraChoice, Means, Outside, Patience, SessionSettings};
pub(crate) use subscription::SubscriptionState;
