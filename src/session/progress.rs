//! Progress that a legacy server sends beside the stream of its request: whose it is says the token.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::hold::Hold;

/// An open request with a token.
struct Open {
    call: Option<i64>,
    hold: Weak<Hold>,
}

/// The open requests with a token, by it.
#[derive(Default)]
pub(super) struct Tokens {
    open: Mutex<HashMap<String, Open>>,
}

/// One of them; dropping it forgets it.
pub(super) struct Token {
    of: Arc<Tokens>,
    token: String,
}

/// Ours is a number; some servers send it back as a string (BR-13).
fn bare(token: &str) -> &str {
    token.trim_matches('"')
}

impl Tokens {
    /// Remembers a request by its token, as JSON text.
    pub(super) fn open(self: &Arc<Self>, token: &str, call: Option<i64>, hold: &Arc<Hold>) -> Token {
        let token = bare(token).to_owned();
        self.open.lock().insert(token.clone(), Open { call, hold: Arc::downgrade(hold) });
        Token { of: self.clone(), token }
    }

    /// A sign of life for the request with this token; [`None`] where none is open. Its call, where it has one.
    pub(super) fn beat(&self, token: &str, now: Instant) -> Option<Option<i64>> {
        let open = self.open.lock();
        let request = open.get(bare(token))?;
        if let Some(hold) = request.hold.upgrade() {
            hold.beat(now);
        }
        Some(request.call)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.of.open.lock().remove(&self.token);
    }
}
