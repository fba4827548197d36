//! The library's threads: this file alone starts any. Few, named, with all signals blocked, the default floating-point
//! control word, and panics caught. One runtime for the process, made on first use, ended by [`shutdown`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::client::handle::Client;
use crate::client::life::State;
use crate::client::pool::Pool;
use crate::clock::{Clock, Deadline, LifeClock, SystemClock};
use crate::error::{Error, Kind, Result};
use crate::os;
use crate::session::Verdicts;
use crate::spawn::{Job, Spawn};
use crate::tasks::driver::Engine;

/// Calls in flight on workers, all clients together. Each client has its own, lower limit (`max_in_flight`).
const MOST_CALL_WORKERS: usize = 1024;
/// Threads that deliver events of clients whose queue the library serves.
const MOST_DISPATCHERS: usize = 8;

/// The threads of one runtime.
pub(crate) struct Threads {
    state: Mutex<ThreadsState>,
    ended: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    handles: Vec<JoinHandle<()>>,
    alive: usize,
    closed: bool,
}

impl Threads {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), ended: Condvar::new() })
    }

    /// Waits until every thread has ended, then joins them. False where the deadline came first.
    fn join(&self, deadline: Deadline) -> bool {
        let handles = {
            let mut state = self.state.lock();
            while state.alive > 0 {
                if !deadline.wait(&self.ended, &mut state) && state.alive > 0 {
                    return false;
                }
            }
            state.closed = true;
            std::mem::take(&mut state.handles)
        };
        for handle in handles {
            // The thread's work is over; a panic in it was caught and reported there.
            handle.join().unwrap_or_default();
        }
        true
    }
}

/// The share of [`Threads`] that a spawner holds.
struct Spawner(Arc<Threads>);

impl Spawn for Spawner {
    fn spawn(&self, name: &'static str, job: Job) -> Result<()> {
        let threads = self.0.clone();
        let mut state = self.0.state.lock();
        if state.closed {
            return Err(Error::new(Kind::Closed, "the library is shut down"));
        }
        state.handles.retain(|handle| !handle.is_finished());
        // The new thread inherits the mask of this one, so there is no moment in which it could take a signal.
        let masked = os::block_signals();
        #[allow(clippy::disallowed_methods, reason = "the one place that starts threads")]
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // A thread inherits the floating-point traps of the one that starts it: the default word, to the end.
            let word = os::FpGuard::enter();
            let outcome = catch_unwind(AssertUnwindSafe(job));
            if outcome.is_err() {
                crate::client::logging::error(&format!("a panic in thread {name} was caught"));
            }
            drop(word);
            threads.state.lock().alive -= 1;
            threads.ended.notify_all();
        });
        drop(masked);
        match started {
            Ok(handle) => {
                state.handles.push(handle);
                state.alive += 1;
                Ok(())
            }
            Err(refused) => Err(Error::new(Kind::Memory, format!("the system refuses a thread: {refused}"))),
        }
    }
}

/// What all clients of the process share.
pub(crate) struct Runtime {
    /// The system's, for what bounds real work.
    pub(crate) clock: Arc<dyn Clock>,
    /// What tasks live by and kept answers age by.
    pub(crate) life: Arc<dyn Clock>,
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) calls: Arc<Pool>,
    pub(crate) dispatchers: Arc<Pool>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) verdicts: Arc<Verdicts>,
    threads: Arc<Threads>,
    /// The clients that are open: they live until they have closed.
    clients: Mutex<Vec<Arc<Client>>>,
    /// All clients that were made.
    known: Mutex<Vec<Weak<Client>>>,
}

static CURRENT: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);
/// Those whose shutdown has begun and ran out of time.
static ENDING: Mutex<Vec<Arc<Runtime>>> = Mutex::new(Vec::new());

impl Runtime {
    fn new() -> Arc<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let life: Arc<dyn Clock> = Arc::new(LifeClock);
        let threads = Threads::new();
        let spawn: Arc<dyn Spawn> = Arc::new(Spawner(threads.clone()));
        Arc::new(Self {
            calls: Pool::new("mcp-call", MOST_CALL_WORKERS, spawn.clone()),
            dispatchers: Pool::new("mcp-dispatch", MOST_DISPATCHERS, spawn.clone()),
            engine: Engine::new(life.clone(), clock.clone(), spawn.clone(), jitter_seed(&*clock)),
            verdicts: Arc::default(),
            clock,
            life,
            spawn,
            threads,
            clients: Mutex::default(),
            known: Mutex::default(),
        })
    }

    /// The runtime of the process, made on first use.
    pub(crate) fn current() -> Arc<Self> {
        os::pin_library();
        CURRENT.lock().get_or_insert_with(Self::new).clone()
    }

    /// The runtime of the process, where there is one.
    pub(crate) fn running() -> Option<Arc<Self>> {
        CURRENT.lock().clone()
    }

    /// A client was made: a shutdown closes it, opened or not.
    pub(crate) fn know(&self, client: &Arc<Client>) {
        let mut known = self.known.lock();
        known.retain(|one| one.strong_count() > 0);
        known.push(Arc::downgrade(client));
    }

    /// True where every client that was made has closed, or was freed before it opened.
    pub(crate) fn is_vacant(&self) -> bool {
        let known: Vec<Arc<Client>> = self.known.lock().iter().filter_map(Weak::upgrade).collect();
        known.iter().all(|client| client.state() == State::Closed)
    }

    /// Keeps a client that is open alive until it has closed.
    pub(crate) fn keep(&self, client: &Arc<Client>) {
        self.clients.lock().push(client.clone());
    }

    /// Lets go of a client that has closed.
    pub(crate) fn let_go(&self, client: &Client) {
        let gone: Vec<Arc<Client>> =
            self.clients.lock().extract_if(.., |one| std::ptr::eq(Arc::as_ptr(one), client)).collect();
        // Dropped here, outside the lock.
        drop(gone);
    }

    /// Closes what is not closed yet. False where the deadline came before the end of one.
    fn close_clients(&self, deadline: Deadline) -> bool {
        let mut clients: Vec<Arc<Client>> = self.known.lock().iter().filter_map(Weak::upgrade).collect();
        // The host may never serve the queue of one that has closed long ago; it has no thread.
        clients.retain(|client| client.state() != State::Closed);
        for client in &clients {
            client.close();
        }
        clients.iter().all(|client| client.wait_closed(deadline))
    }

    /// Ends the threads. False where the deadline came first.
    fn end(&self, deadline: Deadline) -> bool {
        let closed = self.close_clients(deadline);
        let engine_gone = self.engine.shutdown(deadline);
        self.calls.close();
        self.dispatchers.close();
        self.threads.join(deadline) && closed && engine_gone
    }
}

/// Processes that start together must not poll together: the seed is the time, to the nanosecond.
fn jitter_seed(clock: &dyn Clock) -> u64 {
    let wall = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    wall.as_nanos() as u64 ^ u64::from(os::process_id())
}

/// Closes every client and ends every thread of the library. False where the deadline came first: the rest goes on
/// ending by itself, and the next shutdown waits for it. A later use of the library starts anew.
pub(crate) fn shutdown(wait_ms: i64) -> bool {
    let deadline = crate::client::wait::wait_from_ms(&SystemClock, wait_ms);
    if let Some(runtime) = Runtime::running() {
        // It stays the current one until the log lines of the closing are out.
        runtime.close_clients(deadline);
        crate::client::logging::flush(deadline);
        let taken = CURRENT.lock().take_if(|current| Arc::ptr_eq(current, &runtime));
        ENDING.lock().extend(taken);
    }
    let mut ending = std::mem::take(&mut *ENDING.lock());
    ending.retain(|runtime| !runtime.end(deadline));
    let all = ending.is_empty();
    ENDING.lock().append(&mut ending);
    all
}
