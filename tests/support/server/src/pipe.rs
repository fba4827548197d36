//! Standard output: one thread writes what all answers queue up, so that reading never waits for writing.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::action::Then;
use crate::flight::Flight;
use crate::peer::{Peer, Steady};
use crate::shared::Shared;

/// What the writing thread has to do.
pub(crate) enum Item {
    /// Bytes of one answer, in pieces with pauses if the script wants that; with the answer's place in the record.
    Bytes { bytes: Vec<u8>, slice: Option<usize>, gap: Duration, number: u64 },
    /// An answer is complete, or given up.
    Done { number: u64, early: bool },
    /// What becomes of the process.
    Then(Then, Duration),
    /// Everything before this has been written.
    Sync(Sender<()>),
}

/// The process's end of both pipes.
pub(crate) struct Pipe {
    pub(crate) shared: Arc<Shared>,
    queue: Sender<Item>,
    flying: Mutex<Vec<Arc<Flight>>>,
    landed: Condvar,
}

impl Pipe {
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Arc<Self>> {
        let (queue, items) = channel();
        let pipe = Self { shared: Arc::clone(shared), queue, flying: Mutex::new(Vec::new()), landed: Condvar::new() };
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name("test-stdout".to_owned()).spawn(move || write_all(&shared, &items))?;
        Ok(Arc::new(pipe))
    }

    pub(crate) fn put(&self, item: Item) {
        let _ = self.queue.send(item);
    }

    /// Waits until all that was put so far is written; false when time ran out.
    pub(crate) fn sync(&self, timeout: Duration) -> bool {
        let (done, written) = channel();
        self.put(Item::Sync(done));
        written.recv_timeout(timeout).is_ok()
    }

    pub(crate) fn take_off(&self, flight: &Arc<Flight>) {
        self.flying.lock().push(Arc::clone(flight));
    }

    pub(crate) fn land(&self, flight: &Flight) {
        self.flying.lock().retain(|known| !std::ptr::eq(&raw const **known, flight));
        self.landed.notify_all();
    }

    /// The client withdraws a request; one that is answered already stays answered.
    pub(crate) fn withdraw(&self, id: &serde_json::Value) {
        let flying = self.flying.lock();
        for flight in flying.iter().filter(|flight| flight.id.as_ref() == Some(id)) {
            flight.withdraw();
        }
        drop(flying);
        self.shared.brain.moved.notify_all();
    }

    /// Waits until nothing is in flight.
    pub(crate) fn wait_landed(&self, until: Instant) {
        let mut flying = self.flying.lock();
        while !flying.is_empty() && !self.landed.wait_until(&mut flying, until).timed_out() {}
    }
}

fn write_all(shared: &Arc<Shared>, items: &Receiver<Item>) {
    let clock = &shared.brain.clock;
    let steady = Steady(shared);
    for item in items {
        match item {
            Item::Bytes { bytes, slice, gap, number } => {
                let began = clock.micros(clock.now());
                shared.amend(number, |entry| {
                    entry.answered_us.get_or_insert(began);
                });
                for (index, piece) in bytes.chunks(slice.unwrap_or(bytes.len()).max(1)).enumerate() {
                    if index > 0 {
                        steady.pause(gap);
                    }
                    let mut out = io::stdout().lock();
                    let _ = out.write_all(piece).and_then(|()| out.flush());
                }
            }
            Item::Done { number, early } => {
                let done = clock.micros(clock.now());
                shared.amend(number, |entry| (entry.done_us, entry.closed_early) = (Some(done), early));
            }
            Item::Then(then, after) => {
                steady.pause(after);
                end(then);
            }
            Item::Sync(done) => {
                let _ = done.send(());
            }
        }
    }
}

fn end(then: Then) {
    match then {
        Then::Keep | Then::Stall => {}
        Then::Close | Then::CloseSilently => close_stdout(),
        Then::Reset => std::process::abort(),
        Then::Exit(code) => std::process::exit(i32::from(code)),
    }
}

/// The reader of the pipe sees its end, if nobody else holds it.
#[cfg(unix)]
fn close_stdout() {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null");
    let _ = nowhere.map(rustix::stdio::dup2_stdout);
}

/// Only the end of the process closes standard output here.
#[cfg(not(unix))]
fn close_stdout() {
    std::process::exit(0);
}
