//! The turns of a client's calls: so many are in flight on workers, the rest wait in line.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cancel::Why;
use crate::client::call::Call;
use crate::client::handle::Client;
use crate::client::life::State;

/// The async calls: how many run, and which wait for their turn (`max_in_flight`).
#[derive(Default)]
pub(super) struct Flights {
    pub(super) running: usize,
    pub(super) waiting: VecDeque<Arc<Call>>,
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
