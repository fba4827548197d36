//! A cancel on its way to the server: sent once, repeated only where it did not arrive. Pure.

use std::time::Instant;

use crate::error::Error;
use crate::tasks::keys::is_refusal;
use crate::tasks::pace::{Jitter, backoff, later};

/// Where a cancel stands.
#[derive(Clone, Debug, Default)]
pub(crate) enum Cancelling {
    /// Not asked for; or it was refused or given up, and may be asked for again.
    #[default]
    No,
    /// A request is on its way, the `tries`th.
    Sending { tries: u32 },
    /// The last attempt failed.
    Waiting { tries: u32, at: Option<Instant> },
    /// The server knows. It may still complete the task: a cancel is cooperative.
    Acknowledged,
}

/// What became of an attempt.
#[derive(Debug)]
pub(crate) enum CancelStep {
    /// Nothing to do now.
    Wait,
    /// The server knows.
    Arrived,
    /// It will not arrive.
    GivenUp(Error),
}

impl Cancelling {
    /// True where nobody needs to ask for it any more.
    pub(crate) fn asked(&self) -> bool {
        match self {
            Self::No => false,
            Self::Sending { .. } | Self::Waiting { .. } | Self::Acknowledged => true,
        }
    }

    /// True where it has not reached the server yet.
    pub(crate) fn pending(&self) -> bool {
        match self {
            Self::Sending { .. } | Self::Waiting { .. } => true,
            Self::No | Self::Acknowledged => false,
        }
    }

    /// When to try again.
    pub(crate) fn wake(&self) -> Option<Instant> {
        match self {
            Self::Waiting { at, .. } => *at,
            Self::No | Self::Sending { .. } | Self::Acknowledged => None,
        }
    }

    /// The host asks. True where a request must go out.
    pub(crate) fn on_asked(&mut self) -> bool {
        if self.asked() {
            return false;
        }
        *self = Self::Sending { tries: 1 };
        true
    }

    /// Time passed. True where a request must go out.
    pub(crate) fn on_due(&mut self, now: Instant) -> bool {
        match self {
            Self::Waiting { tries, at: Some(at) } if *at <= now => {
                *self = Self::Sending { tries: *tries + 1 };
                true
            }
            Self::No | Self::Sending { .. } | Self::Waiting { .. } | Self::Acknowledged => false,
        }
    }

    /// An attempt ended.
    pub(crate) fn on_done(&mut self, outcome: Result<(), Error>, now: Instant, jitter: Jitter) -> CancelStep {
        let Self::Sending { tries } = *self else {
            return CancelStep::Wait;
        };
        match outcome {
            Ok(()) => {
                *self = Self::Acknowledged;
                CancelStep::Arrived
            }
            // Unknown to cancel is no verdict on the task: the next poll decides.
            Err(error) if is_refusal(&error, tries) || tries >= MAX_TRIES => {
                *self = Self::No;
                CancelStep::GivenUp(error)
            }
            Err(error) => {
                let wait = error.retry_after().map_or(backoff(tries), |after| after.max(backoff(tries)));
                *self = Self::Waiting { tries, at: later(now, wait, jitter) };
                CancelStep::Wait
            }
        }
    }
}

/// Chosen: with the backoff that is a good two minutes; after that the host should know that nobody listens.
const MAX_TRIES: u32 = 8;
