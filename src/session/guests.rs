//! What a legacy server says on a channel and belongs to no request: it waits here for the thread that listens.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::cancel::{CancelToken, Wake};

/// Messages that may wait; beyond this the oldest gives way.
const MOST_WAITING: usize = 1024;

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    over: bool,
}

/// The messages of one life of a channel.
#[derive(Default)]
pub(super) struct Guests {
    state: Mutex<State>,
    news: Condvar,
}

impl Guests {
    /// Takes a message; false where an older one was dropped for it.
    pub(super) fn push(&self, text: String) -> bool {
        let fits = {
            let mut state = self.state.lock();
            state.waiting.push_back(text);
            let fits = state.waiting.len() <= MOST_WAITING;
            if !fits {
                state.waiting.pop_front();
            }
            fits
        };
        self.news.notify_all();
        fits
    }

    /// Nothing more comes.
    pub(super) fn close(&self) {
        self.state.lock().over = true;
        self.news.notify_all();
    }

    /// The next message; [`None`] at the end, or where the token is cancelled.
    pub(super) fn next(&self, cancel: &CancelToken) -> Option<String> {
        let mut state = self.state.lock();
        loop {
            if cancel.cancelled().is_some() {
                return None;
            }
            if let Some(text) = state.waiting.pop_front() {
                return Some(text);
            }
            if state.over {
                return None;
            }
            self.news.wait(&mut state);
        }
    }
}

impl Wake for Guests {
    fn wake(&self) {
        // Through the lock, so that nobody is between looking and waiting.
        drop(self.state.lock());
        self.news.notify_all();
    }
}
