//! The turns of a client's calls: so many are in flight on workers, the rest wait in line.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cancel::Why;
use crate::client::call::Call;
use crate::client::handle::Client;
use crate::client::life::State;
use crate::error::{Error, Kind, Result};

/// The async calls: how many run, and which wait for their turn (`max_in_flight`).
#[derive(Default)]
pub(super) struct Flights {
    pub(super) running: usize,
    pub(super) waiting: VecDeque<Arc<Call>>,
    pub(super) subscriptions: usize,
}

/// Subscriptions of one client at once; each has a thread. Chosen: one can carry everything, so a client that has more
/// than these has lost count.
const MOST_SUBSCRIPTIONS: usize = 64;

/// The place of a subscription among a client's.
pub(super) struct Seat(Arc<Client>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.flights.lock().subscriptions -= 1;
    }
}

impl Client {
    /// Registers a call that has begun.
    pub(crate) fn add_call(&self, call: &Arc<Call>) {
        self.calls.lock().insert(call.id(), call.clone());
        // A close that came in between has not seen this call.
        if matches!(self.state(), State::Closing | State::Closed) {
            call.cancel(Why::Closing);
        }
    }

    /// Forgets a call that is over.
    pub(crate) fn remove_call(&self, id: i64) {
        let gone = self.calls.lock().remove(&id);
        drop(gone);
    }

    /// A place for one more subscription.
    pub(super) fn seat(self: &Arc<Self>) -> Result<Seat> {
        let mut flights = self.flights.lock();
        if flights.subscriptions >= MOST_SUBSCRIPTIONS {
            let message = format!("{MOST_SUBSCRIPTIONS} subscriptions are open already: one can carry many filters");
            return Err(Error::new(Kind::State, message));
        }
        flights.subscriptions += 1;
        Ok(Seat(self.clone()))
    }

    /// Runs a subscription on a thread of its own: it lasts, and takes no turn of the others.
    pub(super) fn settle(&self, call: &Arc<Call>, seat: Seat) {
        let listening = call.clone();
        let spawned = self.runtime.spawn.spawn(
            "mcp-subscribe",
            Box::new(move || {
                listening.step_guarded();
                drop(listening);
                drop(seat);
            }),
        );
        if let Err(refused) = spawned {
            call.fail(refused);
        }
    }

    /// Runs a step of an async call on a worker, now or when its turn comes.
    pub(crate) fn fly(&self, call: Arc<Call>) {
        {
            let mut flights = self.flights.lock();
            if flights.running >= self.settings.max_in_flight {
                flights.waiting.push_back(call);
                return;
            }
            flights.running += 1;
        }
        self.take_off(call);
    }

    fn take_off(&self, call: Arc<Call>) {
        let Some(client) = self.me.upgrade() else {
            return;
        };
        let flying = call.clone();
        let submitted = self.runtime.calls.submit(Box::new(move || {
            flying.step_guarded();
            drop(flying);
            client.land();
        }));
        if let Err(refused) = submitted {
            call.fail(refused);
            self.flights.lock().running -= 1;
        }
    }

    /// A worker is free: the next one in line flies.
    fn land(&self) {
        let next = {
            let mut flights = self.flights.lock();
            let next = flights.waiting.pop_front();
            if next.is_none() {
                flights.running -= 1;
            }
            next
        };
        if let Some(call) = next {
            self.take_off(call);
        }
    }
}
