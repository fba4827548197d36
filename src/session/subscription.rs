//! A subscription from its request to its one end: streams that come and go, driven by `listening.rs`. Blocks its
//! thread.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::cancel::{Cancelled, Wake, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::json::Json;
use crate::session::request::{Note, Notes, Request};
use crate::session::speaker::Speaker;
use crate::transport::Scope;

mod listening;
use listening::{Acknowledged, Listening, Next};

/// Where a subscription stands. The numbers are part of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum SubscriptionState {
    /// Acknowledged.
    Active = 1,
    /// Its stream is gone; it will be opened again.
    Lost = 2,
    /// Acknowledged again, after a gap.
    CatchUp = 3,
    /// Over.
    Ended = 4,
}

/// A change of that.
#[derive(Debug)]
pub(crate) struct SubscriptionNews {
    /// The new state.
    pub state: SubscriptionState,
    /// The acknowledged filter, or how long until the next try.
    pub json: Option<Json>,
    /// Why it was lost.
    pub error: Option<Error>,
}

impl SubscriptionNews {
    /// The server's acknowledgment, of this filter.
    pub(super) fn acknowledged(filter: Json) -> Note {
        Note::Subscription(Self { state: SubscriptionState::Active, json: Some(filter), error: None })
    }

    fn lost(error: Error, pause: Duration) -> Note {
        let json = Json::trusted(format!("{{\"retry_ms\":{}}}", pause.as_millis()));
        Note::Subscription(Self { state: SubscriptionState::Lost, json: Some(json), error: Some(error) })
    }
}

/// Ends pauses early: the network came back.
#[derive(Default)]
pub(super) struct Nudge {
    count: Mutex<u64>,
    told: Condvar,
}

impl Nudge {
    /// Every pause ends now.
    pub(super) fn poke(&self) {
        *self.count.lock() += 1;
        self.told.notify_all();
    }

    fn pause(&self, until: Deadline, scope: &Scope<'_>) -> Result<(), Cancelled> {
        let mut count = self.count.lock();
        let before = *count;
        loop {
            if let Some(why) = scope.cancel.cancelled() {
                return Err(Cancelled(why));
            }
            if *count != before || !until.wait(&self.told, &mut count) {
                return Ok(());
            }
        }
    }
}

impl Wake for Nudge {
    fn wake(&self) {
        // Through the lock, so that nobody is between looking and waiting.
        drop(self.count.lock());
        self.told.notify_all();
    }
}

/// Makes the request of a subscription.
pub(super) type Asking<'a> = dyn Fn() -> Result<Request> + 'a;

/// What drives a subscription.
pub(super) struct Driver<'a> {
    pub speaker: &'a dyn Speaker,
    pub clock: &'a dyn Clock,
    pub nudge: &'a Arc<Nudge>,
}

impl Driver<'_> {
    /// Hears until the server closes it, refuses it, the host's limit has passed or the token is cancelled.
    ///
    /// The request is made anew for each stream: what is wanted may have changed meanwhile.
    pub(super) fn run(&self, request: &Asking<'_>, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let cut = |Cancelled(why)| match why {
            Why::Host => Error::new(Kind::Cancelled, "the call was cancelled"),
            Why::Closing => Error::new(Kind::Closed, "the client is closed"),
        };
        let hook: Arc<dyn Wake> = self.nudge.clone();
        scope.cancel.on_cancel(Arc::downgrade(&hook)).map_err(cut)?;
        let mut listening = Listening::new(self.seed());
        loop {
            let mut hear = |note| self.heard(&mut listening, note, notes);
            let outcome = request().and_then(|request| self.speaker.listen(&request, scope, &mut hear));
            let now = self.clock.now();
            let spent = scope.total.left(now).is_err();
            match listening.ended(outcome, now, spent) {
                Next::Over(outcome) => return outcome,
                Next::Again { error, pause } => {
                    notes.note(SubscriptionNews::lost(error, pause));
                    let until = Deadline::after(now, Some(pause), Budget::Wait).tighter(scope.total);
                    self.nudge.pause(until, scope).map_err(cut)?;
                }
            }
        }
    }

    fn heard(&self, listening: &mut Listening, note: Note, notes: &mut dyn Notes) {
        match note {
            Note::Subscription(news) => match listening.acknowledged(self.clock.now()) {
                Acknowledged::First => notes.note(Note::Subscription(news)),
                Acknowledged::CatchUp => {
                    let state = SubscriptionState::CatchUp;
                    notes.note(Note::Subscription(SubscriptionNews { state, ..news }));
                }
                Acknowledged::Twice => {
                    notes.note(Note::Oddity("the server acknowledged a subscription twice".into()));
                }
            },
            Note::Other { method, .. } if !listening.hears() => {
                let method = crate::error::one_line(&method);
                notes.note(Note::Oddity(format!("{method} came before the subscription was acknowledged")));
            }
            note @ (Note::Task(_)
            | Note::Progress(_)
            | Note::ProgressOf { .. }
            | Note::Log(_)
            | Note::Other { .. }
            | Note::Asked(_)
            | Note::Withdrawn(_)
            | Note::Stderr(_)
            | Note::Oddity(_)) => notes.note(note),
        }
    }

    /// Clients that lose one server together must not come back together.
    fn seed(&self) -> u64 {
        let wall = self.clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        wall.as_nanos() as u64 ^ std::ptr::from_ref(self) as u64
    }
}
