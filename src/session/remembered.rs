//! The verdicts of this process: a server's era is asked once (`basic/versioning`: "SHOULD cache the result").

use std::collections::HashMap;

use parking_lot::Mutex;

/// Servers remembered; chosen, far beyond what a program talks to. Over it all is forgotten, and asked again.
const MOST: usize = 4_096;

/// What is remembered of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remembered {
    /// It answered `server/discover`.
    Modern,
    /// It answered `initialize`.
    Legacy,
    /// It answered `initialize` over HTTP+SSE.
    OldStream,
}

/// Verdicts by server configuration.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    known: Mutex<HashMap<u64, Remembered>>,
}

impl Verdicts {
    pub(super) fn of(&self, key: u64) -> Option<Remembered> {
        self.known.lock().get(&key).copied()
    }

    pub(super) fn remember(&self, key: u64, what: Remembered) {
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, what);
    }

    pub(super) fn forget(&self, key: u64) {
        self.known.lock().remove(&key);
    }
}
