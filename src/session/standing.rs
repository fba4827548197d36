//! The one legacy session that stands, and its renewal: many requests may find it lost at once, one of them starts a
//! new one, the others wait for that (2025-11-25 `basic/transports`, "Session Management" 4; BR-16).

use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::cancel::{CancelToken, Wake};
use crate::clock::Deadline;
use crate::error::{Error, Kind};
use crate::protocol::legacy_task::Offer;
use crate::protocol::version::has_version_header;

/// A session as `initialize` made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its number, from 1.
    pub number: u64,
    /// The `Mcp-Session-Id`, where the server gave one.
    pub id: Option<String>,
    /// The negotiated version; absent while `initialize` is under way.
    pub version: Option<&'static str>,
    /// The channel's life that it began in.
    pub life: u64,
    /// What the server offers of tasks.
    pub offer: Offer,
}

impl Standing {
    /// The session while it is being made.
    pub(super) fn nascent(id: Option<String>) -> Self {
        Self { number: 0, id, version: None, life: 0, offer: Offer::default() }
    }

    /// The headers of everything that belongs to it (BR-20).
    pub(super) fn headers(&self) -> Vec<(&str, &str)> {
        let version = self.version.filter(|version| has_version_header(version));
        let version = version.map(|version| ("MCP-Protocol-Version", version));
        let id = self.id.as_deref().map(|id| ("Mcp-Session-Id", id));
        version.into_iter().chain(id).collect()
    }
}

#[derive(Default)]
struct State {
    current: Option<Arc<Standing>>,
    renewing: bool,
    /// Which try to renew this is.
    tries: u64,
    /// The last try that failed, and how.
    failed: Option<(u64, Error)>,
}

/// The session that stands.
#[derive(Default)]
pub(super) struct Standings {
    state: Mutex<State>,
    changed: Condvar,
}

/// What somebody who lost the session is to do.
pub(super) enum Turn {
    /// Start a new one, and tell the others through this.
    Lead(Lead),
    /// Go on with the one that stands: another has started it.
    Fresh,
    /// Give up: another has tried.
    Failed(Error),
    /// The wait for the other's try was cut; the scope says why.
    Cut,
}

impl Standings {
    /// The session that stands now.
    pub(super) fn current(&self) -> Option<Arc<Standing>> {
        self.state.lock().current.clone()
    }

    /// Asks for a session other than the one that was lost. Blocks while another starts it.
    pub(super) fn turn(self: &Arc<Self>, lost: u64, deadline: Deadline, cancel: &CancelToken) -> Turn {
        let hook: Arc<dyn Wake> = self.clone();
        if cancel.on_cancel(Arc::downgrade(&hook)).is_err() {
            return Turn::Cut;
        }
        let mut waited = None;
        let mut state = self.state.lock();
        loop {
            if state.current.as_ref().is_some_and(|current| current.number != lost) {
                return Turn::Fresh;
            }
            if let Some((_, error)) = state.failed.as_ref().filter(|(number, _)| Some(*number) == waited) {
                return Turn::Failed(error.clone());
            }
            if !state.renewing {
                state.renewing = true;
                state.tries += 1;
                return Turn::Lead(Lead { of: Arc::downgrade(self), number: state.tries });
            }
            waited = Some(state.tries);
            if !deadline.wait(&self.changed, &mut state) || cancel.cancelled().is_some() {
                return Turn::Cut;
            }
        }
    }

    fn close_try(&self, outcome: Option<Result<Arc<Standing>, (u64, Error)>>) {
        {
            let mut state = self.state.lock();
            state.renewing = false;
            match outcome {
                Some(Ok(standing)) => state.current = Some(standing),
                Some(Err(failed)) => state.failed = Some(failed),
                None => {}
            }
        }
        self.changed.notify_all();
    }
}

impl Wake for Standings {
    fn wake(&self) {
        // Under the lock, so that nobody is between looking and waiting.
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

/// The duty to start a session. Dropped without an outcome, the next one in line tries.
pub(super) struct Lead {
    of: Weak<Standings>,
    number: u64,
}

impl Lead {
    /// The number of the session to be.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The new session stands.
    pub(super) fn stands(self, standing: Arc<Standing>) {
        self.close(Some(Ok(standing)));
    }

    /// It could not be started. Those who waited share the failure, unless it was the leader's own: a cancelled call
    /// says nothing about the server.
    pub(super) fn failed(self, error: &Error) {
        let own = matches!(error.kind(), Kind::Cancelled | Kind::Timeout | Kind::Closed);
        let number = self.number;
        self.close((!own).then(|| Err((number, error.clone()))));
    }

    fn close(mut self, outcome: Option<Result<Arc<Standing>, (u64, Error)>>) {
        if let Some(standings) = std::mem::take(&mut self.of).upgrade() {
            standings.close_try(outcome);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(standings) = self.of.upgrade() {
            standings.close_try(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Why;

    fn standing(number: u64) -> Arc<Standing> {
        Arc::new(Standing { number, version: Some("2025-11-25"), ..Standing::nascent(Some(format!("s{number}"))) })
    }

    #[test]
    fn br_20_headers_name_the_negotiated_version() {
        let of = |version| Standing { number: 1, version, ..Standing::nascent(Some("s".into())) };
        assert_eq!(of(Some("2025-06-18")).headers(), [("MCP-Protocol-Version", "2025-06-18"), ("Mcp-Session-Id", "s")]);
        assert_eq!(of(Some("2025-03-26")).headers(), [("Mcp-Session-Id", "s")]);
        assert!(Standing::nascent(None).headers().is_empty());
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the race needs threads")]
    fn br_16_eight_losers_start_one_session() {
        for _ in 0..50 {
            let standings = Arc::new(Standings::default());
            standings.close_try(Some(Ok(standing(1))));
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let standings = standings.clone();
                    std::thread::spawn(move || match standings.turn(1, Deadline::Never, &CancelToken::new()) {
                        Turn::Lead(lead) => {
                            lead.stands(standing(2));
                            1
                        }
                        Turn::Fresh => {
                            assert_eq!(standings.current().unwrap().number, 2);
                            0
                        }
                        Turn::Failed(_) | Turn::Cut => panic!("a session"),
                    })
                })
                .collect();
            assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 1);
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the race needs threads")]
    fn those_who_waited_share_a_failure_but_not_a_cancel() {
        let run = |error: Error| {
            let standings = Arc::new(Standings::default());
            standings.close_try(Some(Ok(standing(1))));
            let Turn::Lead(lead) = standings.turn(1, Deadline::Never, &CancelToken::new()) else {
                panic!("the first leads")
            };
            let there = standings.clone();
            let (told, tells) = std::sync::mpsc::channel();
            let waiter = std::thread::spawn(move || {
                told.send(()).unwrap();
                match there.turn(1, Deadline::Never, &CancelToken::new()) {
                    Turn::Failed(error) => error.message().to_owned(),
                    Turn::Lead(_) => "leads".to_owned(),
                    Turn::Fresh | Turn::Cut => "other".to_owned(),
                }
            });
            tells.recv().unwrap();
            lead.failed(&error);
            waiter.join().unwrap()
        };
        // A waiter that came too late to wait leads as well: both are right.
        assert!(["leads", "no"].contains(&run(Error::new(Kind::Http, "no")).as_str()));
        assert_eq!(run(Error::new(Kind::Cancelled, "mine")), "leads");
    }

    #[test]
    fn a_cancel_cuts_the_wait() {
        let standings = Arc::new(Standings::default());
        standings.close_try(Some(Ok(standing(1))));
        let Turn::Lead(lead) = standings.turn(1, Deadline::Never, &CancelToken::new()) else {
            panic!("the first leads")
        };
        let token = CancelToken::new();
        token.cancel(Why::Host);
        assert!(matches!(standings.turn(1, Deadline::Never, &token), Turn::Cut));
        drop(lead);
        assert!(matches!(standings.turn(1, Deadline::Never, &CancelToken::new()), Turn::Lead(_)));
    }
}
