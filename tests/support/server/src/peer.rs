//! Whoever waits for an answer: waits end early when the client leaves or the server stops.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clock::now;
use crate::listen::{Listener, Turn};
use crate::shared::Shared;
use crate::world::World;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Ready,
    Gone,
    Stopped,
}

/// What a listening stream has to do.
pub(crate) enum Heard {
    Say(Value),
    /// Nothing for a while: time for a comment line.
    Idle,
    Ended {
        graceful: bool,
    },
    Gone,
}

/// How often a waiting answer looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(50);

/// One end of a connection, or one request on a pipe.
pub(crate) trait Peer {
    fn shared(&self) -> &Shared;

    /// Whether the client has left; may ask the system.
    fn gone(&self) -> bool;

    /// Whether the client has withdrawn the request; asked at each change of the world, and so cheap.
    fn cancelled(&self) -> bool {
        false
    }

    /// Waits this long.
    fn pause(&self, time: Duration) -> Wake {
        if time.is_zero() { Wake::Ready } else { self.wait(now().checked_add(time), |_| false) }
    }

    /// Waits for ever.
    fn stall(&self) -> Wake {
        self.wait(None, |_| false)
    }

    /// Waits at a gate until it is released.
    fn hold(&self, gate: &str) -> Wake {
        let entered = self.shared().brain.change(|world| world.gates.enter());
        let wake = self.wait(None, |world| world.gates.free(gate, entered));
        self.shared().brain.change(|world| world.gates.leave());
        wake
    }

    /// Waits at a gate, if there is one, and then so long.
    fn before(&self, hold: Option<&str>, delay: Duration) -> Wake {
        match hold.map_or(Wake::Ready, |gate| self.hold(gate)) {
            Wake::Ready => self.pause(delay),
            ended @ (Wake::Gone | Wake::Stopped) => ended,
        }
    }

    fn wait(&self, until: Option<Instant>, ready: impl Fn(&World) -> bool) -> Wake {
        let brain = &self.shared().brain;
        let mut world = brain.world.lock();
        loop {
            if world.stopping {
                return Wake::Stopped;
            }
            let present = now();
            if ready(&world) || until.is_some_and(|until| until <= present) {
                return Wake::Ready;
            }
            let look = present + LOOK;
            let timed_out = brain.moved.wait_until(&mut world, until.map_or(look, |until| until.min(look))).timed_out();
            if (timed_out && self.gone()) || self.cancelled() {
                return Wake::Gone;
            }
        }
    }

    /// The next thing to do for a subscription.
    fn hear(&self, listener: &mut Listener, round: u64) -> Heard {
        let brain = &self.shared().brain;
        let idle = now() + Duration::from_millis(brain.options.keep_alive_ms);
        let mut world = brain.world.lock();
        loop {
            if world.stopping {
                return Heard::Ended { graceful: true };
            }
            if let Some(graceful) = world.streams.ended_since(round) {
                return Heard::Ended { graceful };
            }
            let due = match listener.turn(brain, &mut world) {
                Turn::Say(message) => return Heard::Say(message),
                Turn::Wait(due) => due,
            };
            let present = now();
            if present >= idle {
                return Heard::Idle;
            }
            let look = (present + LOOK).min(idle);
            let until = due.map_or(look, |due| due.min(look));
            let timed_out = brain.moved.wait_until(&mut world, until).timed_out();
            if (timed_out && self.gone()) || self.cancelled() {
                return Heard::Gone;
            }
        }
    }
}

/// Waits that only the end of the server ends.
pub(crate) struct Steady<'a>(pub(crate) &'a Shared);

impl Peer for Steady<'_> {
    fn shared(&self) -> &Shared {
        self.0
    }

    fn gone(&self) -> bool {
        false
    }
}
