//! Everything that changes while a server runs, behind one lock.

use std::collections::BTreeSet;

use crate::brain::Counters;
use crate::rules::Hits;
use crate::session::Sessions;
use crate::tasks::Store;

/// The mutable state of one server.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) tasks: Store,
    pub(crate) counters: Counters,
    pub(crate) hits: Hits,
    pub(crate) gates: Gates,
    pub(crate) changes: Vec<Change>,
    pub(crate) streams: Streams,
    /// Subscriptions that were acknowledged so far.
    pub(crate) acknowledged: usize,
    pub(crate) sessions: Sessions,
    pub(crate) stopping: bool,
}

/// Something that listeners may have asked to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// Where held answers wait.
#[derive(Default)]
pub(crate) struct Gates {
    /// Counts `release`: whoever began to wait before it may go.
    round: u64,
    open: BTreeSet<String>,
    waiting: usize,
}

impl Gates {
    /// Begins to wait; keep the number for [`Gates::free`].
    pub(crate) fn enter(&mut self) -> u64 {
        self.waiting += 1;
        self.round
    }

    pub(crate) fn free(&self, name: &str, entered: u64) -> bool {
        self.round > entered || self.open.contains(name)
    }

    pub(crate) fn leave(&mut self) {
        self.waiting -= 1;
    }

    /// Lets go all that wait now.
    pub(crate) fn release(&mut self) {
        self.round += 1;
    }

    /// Opens one gate for good.
    pub(crate) fn open(&mut self, name: &str) {
        self.open.insert(name.to_owned());
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

/// The server's own ends of listening streams.
#[derive(Default)]
pub(crate) struct Streams(Vec<bool>);

impl Streams {
    /// Ends every stream that is open now.
    pub(crate) fn end(&mut self, graceful: bool) {
        self.0.push(graceful);
    }

    /// To be kept by a stream when it opens.
    pub(crate) fn round(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }

    /// How the stream that opened in this round has been ended, if it has.
    pub(crate) fn ended_since(&self, round: u64) -> Option<bool> {
        usize::try_from(round).ok().and_then(|at| self.0.get(at)).copied()
    }
}
