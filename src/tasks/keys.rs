//! The key book: what was asked, what was answered, what the server knows. Pure.
//!
//! The extension makes each key unique over a task's life ("Task Update Requests"), so a key is all we need to ask
//! once and to answer once, however long the server's acknowledgement lags behind.

use std::collections::BTreeMap;

use crate::error::{Error, Kind};
use crate::protocol::input::{InputAnswer, InputRequest};
use crate::protocol::json::Json;
use crate::protocol::task::Task;

/// What became of an attempt to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// At least one key was open and its answer is on its way.
    Accepted,
    /// Every key was answered before; nothing is sent.
    AlreadyAnswered,
    /// The task never asked this; nothing is sent, not even for the other keys.
    UnknownKey(String),
    /// The server took this question back; nothing is sent.
    Withdrawn(String),
    /// The task has ended.
    Ended,
}

/// Who carries an answer to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A worker: a failed attempt is repeated.
    Worker,
    /// The caller's own thread: a failed attempt is the caller's to repeat, so the key opens again.
    Caller,
}

/// An answer as the ledger keeps it. The response stays only until the server has acknowledged it: with it, a process
/// that died in between leaves enough behind for the next one to send the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredAnswer {
    /// The key.
    pub key: String,
    /// The answer, until it was acknowledged.
    pub response: Option<Json>,
}

/// A question that waits for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenInput {
    /// The question.
    pub request: InputRequest,
    /// An earlier process may have asked it already.
    pub repeated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    /// Waits for the host. A method that no revision knows is never `asked`, but may be answered by hand.
    Open { asked: bool, repeated: bool },
    /// Answered, on its way.
    Sending(Json),
    /// Answered, and the attempt failed: waits for the next one.
    Unsent(Json),
    /// Answered for ever.
    Answered,
    /// The server took it back unanswered.
    Withdrawn { repeated: bool },
}

/// All keys of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyBook(BTreeMap<String, Key>);

/// What the host must hear after an answer of the server's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// New questions.
    pub ask: Vec<InputRequest>,
    /// Keys that need no answer any more.
    pub withdraw: Vec<String>,
}

impl KeyBook {
    /// What an earlier process left: answers, and the questions of its last snapshot.
    pub(crate) fn restored(answers: Vec<StoredAnswer>, last: Option<&Task>) -> Self {
        let mut keys = BTreeMap::new();
        for request in last.iter().flat_map(|task| &task.inputs) {
            // Not open yet: the next poll tells whether it still is, and then it is asked again, marked.
            keys.insert(request.key.clone(), Key::Withdrawn { repeated: true });
        }
        for StoredAnswer { key, response } in answers {
            keys.insert(key, response.map_or(Key::Answered, Key::Unsent));
        }
        Self(keys)
    }

    /// Takes in the questions that the server has open.
    pub(crate) fn sync(&mut self, task: &Task) -> News {
        let mut news = News::default();
        for (key, state) in &mut self.0 {
            if task.inputs.iter().any(|have| have.key == *key)
                || task.unknown_inputs.iter().any(|(have, _)| have == key)
            {
                continue;
            }
            match state {
                Key::Open { asked, repeated } => {
                    if *asked {
                        news.withdraw.push(key.clone());
                    }
                    *state = Key::Withdrawn { repeated: *repeated };
                }
                // The server has no such question any more, so it has the answer (only the acknowledgement was
                // lost), or does not want it: nothing is left to send.
                Key::Unsent(_) => *state = Key::Answered,
                Key::Sending(_) | Key::Answered | Key::Withdrawn { .. } => {}
            }
        }
        for request in &task.inputs {
            let repeated = match self.0.get(&request.key) {
                None => false,
                // A question that was taken back and stands again: the host has put it away, so it is asked anew;
                // to keep silent would leave the task waiting for ever.
                Some(Key::Withdrawn { repeated }) => *repeated,
                Some(Key::Open { .. } | Key::Sending(_) | Key::Unsent(_) | Key::Answered) => {
                    continue;
                }
            };
            self.0.insert(request.key.clone(), Key::Open { asked: true, repeated });
            news.ask.push(request.clone());
        }
        for (key, _) in &task.unknown_inputs {
            if matches!(self.0.get(key), None | Some(Key::Withdrawn { .. })) {
                self.0.insert(key.clone(), Key::Open { asked: false, repeated: false });
            }
        }
        news
    }

    /// What [`Self::answer`] would do with these answers.
    pub(crate) fn weigh(&self, answers: &[InputAnswer]) -> Verdict {
        let mut fresh = false;
        for InputAnswer { key, .. } in answers {
            match self.0.get(key) {
                None => return Verdict::UnknownKey(key.clone()),
                Some(Key::Withdrawn { .. }) => return Verdict::Withdrawn(key.clone()),
                Some(Key::Open { .. }) => fresh = true,
                Some(Key::Sending(_) | Key::Unsent(_) | Key::Answered) => {}
            }
        }
        if fresh { Verdict::Accepted } else { Verdict::AlreadyAnswered }
    }

    /// Marks open keys as answered and returns those answers that must be sent: the first per key counts.
    pub(crate) fn answer(&mut self, answers: &[InputAnswer]) -> Vec<InputAnswer> {
        if self.weigh(answers) != Verdict::Accepted {
            return Vec::new();
        }
        let mut fresh = Vec::new();
        for answer in answers {
            if let Some(state @ Key::Open { .. }) = self.0.get_mut(&answer.key) {
                *state = Key::Sending(answer.response.clone());
                fresh.push(answer.clone());
            }
        }
        fresh
    }

    /// The server has these answers.
    pub(crate) fn delivered(&mut self, keys: &[String]) {
        self.each_sending(keys, |_| Key::Answered);
    }

    /// The attempt failed: they are to be sent again.
    pub(crate) fn failed(&mut self, keys: &[String]) {
        self.each_sending(keys, Key::Unsent);
    }

    /// The answers count as not given: the questions are open again, but not asked again.
    pub(crate) fn reopen(&mut self, keys: &[String]) {
        self.each_sending(keys, |_| Key::Open { asked: true, repeated: false });
    }

    /// The answers whose last attempt failed, now on their way again.
    pub(crate) fn resend(&mut self) -> Vec<InputAnswer> {
        let mut again = Vec::new();
        for (key, state) in &mut self.0 {
            if let Key::Unsent(response) = state {
                let response = response.clone();
                again.push(InputAnswer { key: key.clone(), response: response.clone() });
                *state = Key::Sending(response);
            }
        }
        again
    }

    /// True where [`Self::resend`] has something.
    pub(crate) fn has_unsent(&self) -> bool {
        self.0.values().any(|state| matches!(state, Key::Unsent(_)))
    }

    /// The task ended: the keys of the questions that the host still has before it.
    pub(crate) fn withdraw_all(&mut self) -> Vec<String> {
        let keys = std::mem::take(&mut self.0);
        keys.into_iter()
            .filter(|(_, state)| matches!(state, Key::Open { asked: true, .. }))
            .map(|(key, _)| key)
            .collect()
    }

    /// The questions of `task` that wait for the host, in the server's order.
    pub(crate) fn open(&self, task: &Task) -> Vec<OpenInput> {
        let open = |request: &InputRequest| match self.0.get(&request.key) {
            Some(Key::Open { repeated, .. }) => Some(OpenInput { request: request.clone(), repeated: *repeated }),
            Some(Key::Sending(_) | Key::Unsent(_) | Key::Answered | Key::Withdrawn { .. }) | None => None,
        };
        task.inputs.iter().filter_map(open).collect()
    }

    /// What the ledger must keep.
    pub(crate) fn stored(&self) -> Vec<StoredAnswer> {
        let stored = |(key, state): (&String, &Key)| match state {
            Key::Sending(response) | Key::Unsent(response) => {
                Some(StoredAnswer { key: key.clone(), response: Some(response.clone()) })
            }
            Key::Answered => Some(StoredAnswer { key: key.clone(), response: None }),
            Key::Open { .. } | Key::Withdrawn { .. } => None,
        };
        self.0.iter().filter_map(stored).collect()
    }

    fn each_sending(&mut self, keys: &[String], to: impl Fn(Json) -> Key) {
        for key in keys {
            if let Some(state) = self.0.get_mut(key)
                && let Key::Sending(response) = state
            {
                *state = to(response.clone());
            }
        }
    }
}

/// True where the peer looked at the request and said no, so that the same request would be refused again. Everything
/// else (a reset, a timeout, a 5xx, a 429, a sign-in that is needed first) may be mended by time. An internal error
/// (-32603) may be either: it counts as a refusal from its third time on.
pub(crate) fn is_refusal(error: &Error, tries: u32) -> bool {
    const INTERNAL: i64 = -32603;
    let refused = matches!(
        error.kind(),
        Kind::Rpc | Kind::TaskUnknown | Kind::Argument | Kind::Unsupported | Kind::Schema | Kind::TooLarge
    );
    let busy =
        error.retry_after().is_some() || error.http_status().is_some_and(|status| status == 429 || status == 503);
    let internal = error.rpc().is_some_and(|fault| fault.code == INTERNAL);
    refused && !busy && (!internal || tries >= 3)
}
