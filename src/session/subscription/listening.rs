//! The life of a subscription, pure: what each piece of news means, and when it is opened again. The time is an
//! argument.
//!
//! ```text
//! opening ── acknowledged ──> active ── closing response, refusal ──> over
//!    ^                           │
//!    └──────── pause <── cut ────┘
//! ```

use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};
use crate::protocol::json::Json;

/// The first pause before it is opened again; it doubles. Chosen.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause. Chosen.
const MOST: Duration = Duration::from_secs(60);
/// One that stood so long begins with the first pause again: shorter ones are a server that cuts each at once. Chosen.
const CALM: Duration = Duration::from_secs(10);
/// A `Retry-After` is kept to up to here. Chosen.
const MOST_TOLD: Duration = Duration::from_secs(300);

enum Phase {
    Opening,
    Active { since: Instant },
}

/// One subscription.
pub(super) struct Listening {
    phase: Phase,
    /// It was active before.
    known: bool,
    pause: Duration,
    /// Jitter, so that many clients of a server that restarts do not come at once.
    roll: u64,
}

/// What an acknowledgment means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// It is active.
    First,
    /// It is active after a gap: what happened meanwhile was not heard.
    CatchUp,
    /// Nothing: it was acknowledged already.
    Twice,
}

/// What follows when a stream is over.
#[derive(Debug)]
pub(super) enum Next {
    /// The end.
    Over(Result<Json>),
    /// Another try, after a pause.
    Again {
        /// Why it was lost.
        error: Error,
        /// How long to wait.
        pause: Duration,
    },
}

impl Listening {
    pub(super) fn new(seed: u64) -> Self {
        Self { phase: Phase::Opening, known: false, pause: Duration::ZERO, roll: seed | 1 }
    }

    pub(super) fn acknowledged(&mut self, now: Instant) -> Acknowledged {
        if matches!(self.phase, Phase::Active { .. }) {
            return Acknowledged::Twice;
        }
        self.phase = Phase::Active { since: now };
        if std::mem::replace(&mut self.known, true) { Acknowledged::CatchUp } else { Acknowledged::First }
    }

    /// Whether a notification counts: the acknowledgment comes first.
    pub(super) fn hears(&self) -> bool {
        matches!(self.phase, Phase::Active { .. })
    }

    /// A stream is over: with the closing response, or with an error. `spent`: the host's limit for the whole has
    /// passed.
    pub(super) fn ended(&mut self, outcome: Result<Json>, now: Instant, spent: bool) -> Next {
        let before = std::mem::replace(&mut self.phase, Phase::Opening);
        let error = match outcome {
            Ok(result) => return Next::Over(Ok(result)),
            Err(error) if spent || !comes_back(&error) => return Next::Over(Err(error)),
            Err(error) => error,
        };
        let calm = match before {
            Phase::Active { since } => now.saturating_duration_since(since) > CALM.max(self.pause),
            Phase::Opening => false,
        };
        self.pause = if calm || self.pause.is_zero() { FIRST } else { (self.pause * 2).min(MOST) };
        let told = error.retry_after().unwrap_or_default().min(MOST_TOLD);
        Next::Again { pause: self.jittered().max(told), error }
    }

    /// Up to a quarter more.
    fn jittered(&mut self) -> Duration {
        self.roll ^= self.roll << 13;
        self.roll ^= self.roll >> 7;
        self.roll ^= self.roll << 17;
        self.pause + self.pause * u32::try_from(self.roll % 256).unwrap_or_default() / 1024
    }
}

/// Whether a new stream may fare better: the network and a busy server do, a refusal does not.
fn comes_back(error: &Error) -> bool {
    let busy = || error.http_status().is_some_and(|status| matches!(status, 408 | 425 | 429 | 500 | 502..=504));
    match error.kind() {
        Kind::Io | Kind::Connect | Kind::Tls | Kind::Timeout | Kind::ChildExit => true,
        Kind::Http | Kind::Rpc => busy(),
        Kind::Argument
        | Kind::Handle
        | Kind::Utf8
        | Kind::State
        | Kind::Reentrant
        | Kind::Forked
        | Kind::Unsupported
        | Kind::Closed
        | Kind::OutcomeUnknown
        | Kind::Parse
        | Kind::Malformed
        | Kind::Version
        | Kind::TooLarge
        | Kind::Schema
        | Kind::Cancelled
        | Kind::InputRequired
        | Kind::InputRefused
        | Kind::AuthRequired
        | Kind::AuthDenied
        | Kind::AuthDiscovery
        | Kind::TaskFailed
        | Kind::TaskCancelled
        | Kind::TaskExpired
        | Kind::TaskUnknown
        | Kind::Panic
        | Kind::Memory
        | Kind::Internal
        | Kind::Ledger => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::error::RpcFault;

    fn error(kind: Kind, status: Option<u16>) -> Error {
        let error = Error::new(kind, "e");
        status.into_iter().fold(error, Error::with_http_status)
    }

    fn lost() -> Result<Json> {
        Err(error(Kind::Io, None))
    }

    #[test]
    fn br_46_only_what_may_pass_is_opened_again() {
        let rpc = |code| Error::from_rpc(RpcFault { code, message: "no".into(), data: None });
        for (error, again) in [
            (error(Kind::Io, None), true),
            (error(Kind::Connect, None), true),
            (error(Kind::Timeout, None), true),
            (error(Kind::ChildExit, None), true),
            (error(Kind::Http, Some(503)), true),
            (error(Kind::Http, Some(429)), true),
            (rpc(-32000).with_http_status(503), true),
            (error(Kind::Http, Some(404)), false),
            (error(Kind::AuthRequired, Some(401)), false),
            (error(Kind::AuthDenied, Some(403)), false),
            (rpc(-32601), false),
            (rpc(-32601).with_http_status(404), false),
            (error(Kind::Malformed, None), false),
            (error(Kind::TooLarge, None), false),
            (error(Kind::Closed, None), false),
            (error(Kind::Cancelled, None), false),
        ] {
            let mut listening = Listening::new(7);
            let told = format!("{error:?}");
            let next = listening.ended(Err(error), ManualClock::new().now(), false);
            assert_eq!(matches!(next, Next::Again { .. }), again, "{told}");
        }
        let mut listening = Listening::new(7);
        let now = ManualClock::new().now();
        assert!(matches!(listening.ended(Ok(Json::trusted("{}")), now, false), Next::Over(Ok(_))));
        assert!(matches!(listening.ended(lost(), now, true), Next::Over(Err(_))), "the time is up");
    }

    #[test]
    fn br_46_active_after_the_acknowledgment_and_catch_up_after_a_gap() {
        let now = ManualClock::new().now();
        let mut listening = Listening::new(7);
        assert!(!listening.hears());
        assert_eq!(listening.acknowledged(now), Acknowledged::First);
        assert!(listening.hears());
        assert_eq!(listening.acknowledged(now), Acknowledged::Twice);
        drop(listening.ended(lost(), now, false));
        assert!(!listening.hears());
        assert_eq!(listening.acknowledged(now), Acknowledged::CatchUp);
        // A first try that failed leaves no gap behind.
        let mut late = Listening::new(7);
        drop(late.ended(lost(), now, false));
        assert_eq!(late.acknowledged(now), Acknowledged::First);
    }

    #[test]
    fn br_46_pauses_grow_unless_it_stood_for_a_while() {
        let clock = ManualClock::new();
        let mut listening = Listening::new(99);
        let mut cut = |stood: u64| {
            listening.acknowledged(clock.now());
            clock.advance(Duration::from_secs(stood));
            match listening.ended(lost(), clock.now(), false) {
                Next::Again { pause, .. } => pause,
                Next::Over(end) => panic!("{end:?}"),
            }
        };
        let mut least = FIRST;
        for _ in 0..12 {
            let pause = cut(1);
            assert!(pause >= least && pause <= least + least / 4, "{pause:?} {least:?}");
            least = (least * 2).min(MOST);
        }
        assert!(cut(59) >= MOST, "a minute is no calm for one that waited a minute");
        assert!(cut(61) < FIRST * 2);
        assert!(cut(9) >= FIRST * 2);
    }

    #[test]
    fn a_server_that_says_when_is_kept_waiting_for_no_less() {
        let mut listening = Listening::new(1);
        let now = ManualClock::new().now();
        let busy = |secs| error(Kind::Http, Some(503)).with_retry_after(Some(Duration::from_secs(secs)));
        let mut pause = |secs| match listening.ended(Err(busy(secs)), now, false) {
            Next::Again { pause, .. } => pause,
            Next::Over(end) => panic!("{end:?}"),
        };
        assert_eq!(pause(7), Duration::from_secs(7));
        assert_eq!(pause(86_400), MOST_TOLD);
    }
}
