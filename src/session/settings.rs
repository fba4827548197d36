//! What a session is made of, and what it is given to work with.

use std::sync::Arc;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::clock::{Budget, Clock, Deadline};
use crate::protocol::capability::{ClientCapabilities, ServerFacts};
use crate::protocol::limits::Limits;
use crate::session::remembered::Verdicts;
use crate::session::request::Note;
use crate::spawn::Spawn;
use crate::transport::Scope;

/// Which eras to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EraChoice {
    /// What the server's first answers tell.
    Auto,
    /// The stateless era alone.
    Modern,
    /// The era of `initialize` alone.
    Legacy,
}

/// The time limits; [`None`] is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the answer to `server/discover`, and for the first event of HTTP+SSE.
    pub probe: Option<Duration>,
    /// For a request of the session's own.
    pub total: Option<Duration>,
    /// For silence.
    pub idle: Option<Duration>,
    /// For a connection.
    pub connect: Option<Duration>,
    /// For what is said after the end of a call: `notifications/cancelled`.
    pub grace: Option<Duration>,
}

impl Patience {
    /// A scope that ends after `limit`.
    pub(super) fn scope<'a>(
        &self,
        cancel: &'a CancelToken,
        clock: &dyn Clock,
        limit: Option<Duration>,
        budget: Budget,
    ) -> Scope<'a> {
        let total = Deadline::after(clock.now(), limit, budget);
        Scope { cancel, total, idle: self.idle, connect: self.connect }
    }
}

/// What a session is made of.
#[derive(Clone, Debug)]
pub(crate) struct SessionSettings {
    /// Name and version of the host program: the text of a JSON object.
    pub client_info: String,
    /// What the client can do.
    pub capabilities: ClientCapabilities,
    /// The least level of log messages wanted.
    pub log_level: Option<String>,
    /// The size limits.
    pub limits: Limits,
    /// Which eras to try.
    pub era: EraChoice,
    /// The time limits.
    pub patience: Patience,
    /// Which server configuration this is, for [`Verdicts`].
    pub key: u64,
    /// The credentials that the requests carry: masked where a server echoes them in an error or in what is logged.
    pub secrets: Vec<String>,
}

/// Where notes go that belong to no request. Called on any thread; must not block.
pub(crate) trait Outside: Send + Sync {
    /// Takes a note.
    fn note(&self, note: Note);

    /// A lost session was begun again, and this is what the server says of itself now.
    fn renewed(&self, _facts: ServerFacts) {}
}

/// What a session works with.
#[derive(Clone)]
pub(crate) struct Means {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What kept answers age by.
    pub life: Arc<dyn Clock>,
    /// Threads for what lasts: the GET stream of a legacy session.
    pub threads: Arc<dyn Spawn>,
    /// Workers for what is short: answers to the server's requests.
    pub errands: Arc<dyn Spawn>,
    /// The client, for what the server says outside any request.
    pub outside: Arc<dyn Outside>,
    /// What is remembered of servers.
    pub verdicts: Arc<Verdicts>,
}
