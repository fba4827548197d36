//! What all connections of one server share.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::brain::Brain;
use crate::clock::now;
use crate::fast_jobs::FastJobs;
use crate::log::{Log, Recorded};
use crate::rules::Rule;
use crate::script::Script;

/// Brain, rules, record and the open connections.
pub(crate) struct Shared {
    pub(crate) brain: Brain,
    pub(crate) rules: Vec<Rule>,
    /// `http://host:port`
    pub(crate) base: String,
    pub(crate) fast: bool,
    pub(crate) jobs: FastJobs,
    log: Mutex<Log>,
    logged: Condvar,
    open: Mutex<HashMap<u64, Arc<TcpStream>>>,
    closed: Condvar,
    accepted: AtomicU64,
    quit: Mutex<bool>,
    quitting: Condvar,
}

impl Shared {
    pub(crate) fn new(script: Script, base: String, fast: bool) -> Self {
        let limit = if fast { 0 } else { script.options.record_limit };
        Self {
            brain: Brain::new(script.options, script.lives),
            rules: script.rules,
            base,
            fast,
            jobs: FastJobs::default(),
            log: Mutex::new(Log::new(limit)),
            logged: Condvar::new(),
            open: Mutex::new(HashMap::new()),
            closed: Condvar::new(),
            accepted: AtomicU64::new(0),
            quit: Mutex::new(false),
            quitting: Condvar::new(),
        }
    }

    pub(crate) fn admit(&self, stream: &Arc<TcpStream>) -> u64 {
        let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(number, Arc::clone(stream));
        number
    }

    pub(crate) fn dismiss(&self, number: u64) {
        self.open.lock().remove(&number);
        self.closed.notify_all();
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.lock().len()
    }

    /// Ends every wait and every connection.
    pub(crate) fn stop(&self) {
        self.brain.change(|world| world.stopping = true);
        for stream in self.open.lock().values() {
            // Only the reading side: an open stream may still say its farewell.
            let _ = stream.shutdown(std::net::Shutdown::Read);
        }
    }

    /// Breaks every open connection, as a network that goes away; where the system can, with a reset.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().values() {
            let _ = socket2::SockRef::from(&**stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(std::net::Shutdown::Read);
        }
    }

    /// Waits for the connections to end by themselves, then ends those that are stuck, say in a write.
    pub(crate) fn drain(&self, grace: Duration) {
        let until = now() + grace;
        let mut open = self.open.lock();
        while !open.is_empty() && !self.closed.wait_until(&mut open, until).timed_out() {}
        for stream in open.values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.brain.world.lock().stopping
    }

    pub(crate) fn record(&self, entry: Recorded) -> u64 {
        let number = self.log.lock().push(entry);
        self.logged.notify_all();
        number
    }

    pub(crate) fn amend(&self, number: u64, change: impl FnOnce(&mut Recorded)) {
        self.log.lock().amend(number, change);
        self.logged.notify_all();
    }

    /// Reads the record; `read` runs under its lock.
    pub(crate) fn with_log<T>(&self, read: impl FnOnce(&mut Log) -> T) -> T {
        read(&mut self.log.lock())
    }

    /// Waits until the record satisfies `done`, looking at each change of it.
    pub(crate) fn wait_log(&self, done: impl Fn(&[Recorded]) -> bool, until: std::time::Instant) -> bool {
        let mut log = self.log.lock();
        loop {
            if done(log.all()) {
                return true;
            }
            if self.logged.wait_until(&mut log, until).timed_out() {
                return done(log.all());
            }
        }
    }

    pub(crate) fn ask_to_quit(&self) {
        *self.quit.lock() = true;
        self.quitting.notify_all();
    }

    /// Waits for a request to quit; false if none came in time.
    pub(crate) fn wait_quit(&self, until: std::time::Instant) -> bool {
        let mut quit = self.quit.lock();
        while !*quit {
            if self.quitting.wait_until(&mut quit, until).timed_out() {
                return *quit;
            }
        }
        true
    }
}
