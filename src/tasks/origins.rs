//! Which servers do not answer at the moment: a backoff for each client's tasks at an origin. Pure.
//!
//! For each client by itself: two of them may have different proxies, certificates or users, or be two processes of one
//! command, and what the one cannot reach must not be withheld from the other.
//!
//! One failed poll is its own task's matter. After [`MOST_FAILED`] in a row the origin is *shut*: polls that fall due
//! are withheld, all but one, the probe; each probe that fails doubles the pause before the next. Any answer opens the
//! origin again. Nothing here makes a poll earlier.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind};
use crate::tasks::pace::backoff;
use crate::tasks::queue::Lane;

/// The origins whose last polls failed; the others are not listed.
#[derive(Debug, Default)]
pub(crate) struct Origins(HashMap<Lane, Trouble>);

#[derive(Debug)]
struct Trouble {
    /// Failed polls in a row.
    streak: u32,
    /// What the last one failed with, and when.
    error: Error,
    failed: Instant,
    shut: Option<Shut>,
}

#[derive(Debug)]
struct Shut {
    /// Polls that began earlier say nothing new.
    since: Instant,
    /// When the next probe may leave: our own pause, and the server's wish.
    ours: Instant,
    told: Instant,
    /// Pauses so far.
    pauses: u32,
    /// When the probe left that is on its way.
    probe: Option<Instant>,
}

/// A poll that was not made, because its origin is known not to answer.
#[derive(Clone, Debug)]
pub(crate) struct Withheld {
    /// What the origin's last poll failed with.
    pub error: Error,
    /// When that was.
    pub failed: Instant,
    /// Before this moment it makes no sense to come again.
    pub until: Instant,
}

impl Origins {
    /// A poll is about to be made.
    pub(crate) fn pass(&mut self, lane: &Lane, now: Instant) -> Result<(), Withheld> {
        let Some(trouble) = self.0.get_mut(lane) else { return Ok(()) };
        let Some(shut) = &mut trouble.shut else { return Ok(()) };
        // A probe that does not come back (its task ended before it could leave) does not shut the origin for ever.
        let probing = shut.probe.is_some_and(|left| now.saturating_duration_since(left) < PROBE_LOST);
        let until = shut.ours.max(shut.told);
        if probing || now < until {
            return Err(Withheld {
                error: trouble.error.clone(),
                failed: trouble.failed,
                until: until.max(now + AGAIN),
            });
        }
        shut.probe = Some(now);
        shut.ours = now + backoff(shut.pauses.saturating_add(1));
        Ok(())
    }

    /// A poll that began at `started` was answered, or failed with this error. True where the origin was shut and has
    /// been found to answer since: an answer that was on its way when it was shut opens it, too, but says nothing of
    /// the failures beside it.
    pub(crate) fn heard(&mut self, lane: &Lane, started: Instant, now: Instant, error: Option<&Error>) -> bool {
        // All is well nearly always.
        if error.is_none() && self.0.is_empty() {
            return false;
        }
        match error.map_or(News::Answers, news) {
            News::None => false,
            News::Answers => {
                self.0.remove(lane).and_then(|trouble| trouble.shut).is_some_and(|shut| started >= shut.since)
            }
            News::Fails => {
                if let Some(error) = error {
                    self.failed(lane, started, now, error);
                }
                false
            }
        }
    }

    /// The host says that things are better: the next probe need not wait, but for a moment that the server named.
    pub(crate) fn hasten(&mut self, lane: &Lane, now: Instant) {
        if let Some(shut) = self.0.get_mut(lane).and_then(|trouble| trouble.shut.as_mut()) {
            shut.ours = shut.ours.min(now);
        }
    }

    fn failed(&mut self, lane: &Lane, started: Instant, now: Instant, error: &Error) {
        if self.0.len() >= MOST_LISTED {
            // Servers that nobody asks any more.
            self.0.retain(|_, trouble| now.saturating_duration_since(trouble.failed) < FORGOTTEN);
        }
        let trouble = self.0.entry(lane.clone()).or_insert_with(|| Trouble {
            streak: 0,
            error: error.clone(),
            failed: now,
            shut: None,
        });
        trouble.streak = trouble.streak.saturating_add(1);
        trouble.error = error.clone();
        trouble.failed = now;
        let pauses = match &trouble.shut {
            None if trouble.streak < MOST_FAILED => return,
            None => 1,
            // One of those that were on their way when it was shut.
            Some(shut) if started < shut.since => return,
            Some(shut) => shut.pauses.saturating_add(1),
        };
        let told = error.retry_after().and_then(|wait| now.checked_add(wait)).unwrap_or(now);
        trouble.shut = Some(Shut { since: now, ours: now + backoff(pauses), told, pauses, probe: None });
    }
}

/// What an outcome says of the origin.
enum News {
    /// It answers, if only with an error about this one task.
    Answers,
    /// It does not answer, or asks everybody to stay away.
    Fails,
    /// Nothing.
    None,
}

fn news(error: &Error) -> News {
    match error.kind() {
        Kind::Connect | Kind::Tls | Kind::Io | Kind::Timeout | Kind::ChildExit | Kind::OutcomeUnknown => News::Fails,
        Kind::Http if error.http_status().is_none_or(|status| status == 429 || status >= 500) => News::Fails,
        // Faults of ours, ends of the client's, and a sign-in that may be missing to one of two users.
        Kind::Cancelled
        | Kind::Closed
        | Kind::Panic
        | Kind::Memory
        | Kind::Internal
        | Kind::Ledger
        | Kind::AuthRequired
        | Kind::AuthDenied
        | Kind::AuthDiscovery => News::None,
        Kind::Argument
        | Kind::Handle
        | Kind::Utf8
        | Kind::State
        | Kind::Reentrant
        | Kind::Forked
        | Kind::Unsupported
        | Kind::Http
        | Kind::Parse
        | Kind::Malformed
        | Kind::Version
        | Kind::Rpc
        | Kind::TooLarge
        | Kind::Schema
        | Kind::InputRequired
        | Kind::InputRefused
        | Kind::TaskFailed
        | Kind::TaskCancelled
        | Kind::TaskExpired
        | Kind::TaskUnknown => News::Answers,
    }
}

/// Chosen: more than one bad minute of one task makes, few beside a thousand tasks.
const MOST_FAILED: u32 = 5;
/// Chosen: a poll that was withheld comes again after this at the least, so that waiting for a probe costs nothing.
const AGAIN: Duration = Duration::from_secs(2);
/// Chosen: longer than a round trip takes before it times out.
const PROBE_LOST: Duration = Duration::from_secs(120);
/// From so many failing origins on, old ones are forgotten …
const MOST_LISTED: usize = 64;
/// … whose last failure is so long ago.
const FORGOTTEN: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock as _, ManualClock};

    fn refused() -> Error {
        Error::new(Kind::Connect, "refused")
    }

    fn lane(group: u64) -> Lane {
        Lane { origin: "http://a".into(), group }
    }

    /// One origin and a clock.
    struct Place {
        origins: Origins,
        name: Lane,
        start: Instant,
    }

    impl Place {
        fn new() -> Self {
            Self { origins: Origins::default(), name: lane(1), start: ManualClock::new().now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// A poll at this second; `None` where it is withheld, else whether the origin has opened.
        fn poll(&mut self, second: u64, outcome: Option<&Error>) -> Option<bool> {
            let now = self.at(second);
            self.origins.pass(&self.name, now).ok()?;
            Some(self.origins.heard(&self.name, now, now, outcome))
        }

        fn shut(&mut self) {
            for _ in 0..MOST_FAILED {
                assert_eq!(self.poll(0, Some(&refused())), Some(false));
            }
        }
    }

    #[test]
    fn an_origin_is_shut_after_five_failures_in_a_row_and_its_pauses_double_up_to_a_minute() {
        let mut place = Place::new();
        for _ in 0..3 {
            for _ in 1..MOST_FAILED {
                assert_eq!(place.poll(0, Some(&refused())), Some(false));
            }
            assert_eq!(place.poll(0, None), Some(false), "one answer and the count begins anew");
        }
        place.shut();
        let probes: Vec<u64> = (0..300).filter(|second| place.poll(*second, Some(&refused())).is_some()).collect();
        assert_eq!(probes, [1, 3, 7, 15, 31, 63, 123, 183, 243]);
        assert_eq!(place.poll(303, None), Some(true));
        assert_eq!(place.poll(303, None), Some(false));
    }

    #[test]
    fn one_probe_at_a_time_and_a_lost_one_is_given_up() {
        let mut place = Place::new();
        place.shut();
        let (name, left) = (place.name.clone(), place.at(2));
        assert!(place.origins.pass(&name, left).is_ok());
        for second in [2, 60, 121] {
            let withheld = place.origins.pass(&name, place.start + Duration::from_secs(second)).unwrap_err();
            assert_eq!((withheld.failed, withheld.error.kind()), (place.start, Kind::Connect));
            assert!(withheld.until >= place.at(second) + AGAIN);
        }
        assert!(place.origins.pass(&name, place.start + Duration::from_secs(122)).is_ok());
    }

    #[test]
    fn another_client_of_the_same_server_finds_out_by_itself() {
        let mut place = Place::new();
        place.shut();
        assert_eq!(place.poll(0, None), None);
        place.name = lane(2);
        assert_eq!(place.poll(0, None), Some(false));
    }

    #[test]
    fn polls_that_were_on_their_way_do_not_lengthen_the_pause() {
        let mut place = Place::new();
        place.shut();
        for _ in 0..100 {
            let (name, began, now) = (place.name.clone(), place.start, place.at(0));
            place.origins.heard(&name, began - Duration::from_secs(1), now, Some(&refused()));
        }
        assert_eq!(place.poll(1, Some(&refused())), Some(false));
    }

    #[test]
    fn an_answer_that_was_on_its_way_opens_the_origin_and_hastens_nobody() {
        let mut place = Place::new();
        place.shut();
        let (name, now) = (place.name.clone(), place.at(1));
        assert!(!place.origins.heard(&name, place.start - Duration::from_millis(1), now, None));
        assert_eq!(place.poll(1, None), Some(false), "open");
    }

    #[test]
    fn a_retry_after_holds_for_all_and_no_hint_shortens_it() {
        let busy =
            Error::new(Kind::Http, "busy").with_http_status(503).with_retry_after(Some(Duration::from_secs(100)));
        let mut place = Place::new();
        for _ in 0..MOST_FAILED {
            place.poll(0, Some(&busy));
        }
        let name = place.name.clone();
        place.origins.hasten(&name, place.start);
        assert_eq!(place.poll(99, None), None);
        assert_eq!(place.poll(100, Some(&refused())), Some(false));
        assert_eq!(place.poll(101, None), None);
        place.origins.hasten(&name, place.start + Duration::from_secs(101));
        assert_eq!(place.poll(101, None), Some(true));
    }

    #[test]
    fn what_an_error_says_of_its_origin() {
        for (kind, status, shuts) in [
            (Kind::Connect, None, true),
            (Kind::Timeout, None, true),
            (Kind::Http, Some(500), true),
            (Kind::Http, Some(429), true),
            (Kind::Http, Some(404), false),
            (Kind::Rpc, None, false),
            (Kind::Malformed, None, false),
            (Kind::AuthRequired, None, false),
            (Kind::Closed, None, false),
        ] {
            let mut place = Place::new();
            let error = Error::new(kind, "no");
            let error = status.map_or(error.clone(), |status| error.with_http_status(status));
            for _ in 0..MOST_FAILED {
                place.poll(0, Some(&error));
            }
            assert_eq!(place.poll(0, None).is_none(), shuts, "{kind:?} {status:?}");
        }
    }
}
