//! The client and its ledger: opened with the client, its tasks followed again, its lease kept up; a task's record
//! given to the host and taken back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::follow::{Host, TaskHandle};
use crate::client::handle::Client;
use crate::client::life::State;
use crate::client::logging::{LogLevel, log};
use crate::error::{Error, Kind, Result, one_line};
use crate::tasks::driver::Tend;
use crate::tasks::ledger::sqlite::SqliteLedger;
use crate::tasks::ledger::{Ledger, Record, Taken, taken_over, written};

impl Client {
    /// The ledger; there from the first opening on.
    pub(super) fn ledger(&self) -> Result<&Arc<dyn Ledger>> {
        self.ledger.get().ok_or_else(|| Error::new(Kind::State, "the client is not ready: its ledger is not open yet"))
    }

    /// Opens the ledger, once; a failed opening of the client tries again.
    pub(super) fn open_ledger(self: &Arc<Self>) -> Result<()> {
        let settings = &self.settings.tasks.ledger;
        let Some(file) = settings.file.as_ref().filter(|_| self.ledger.get().is_none()) else { return Ok(()) };
        let ledger = SqliteLedger::open(Path::new(file), settings.options.clone(), self.clock().clone())?;
        let every = ledger.tend_every();
        if self.ledger.set(ledger).is_ok()
            && let Some(every) = every
        {
            let me: Arc<dyn Tend> = self.clone();
            self.runtime.engine.tend(every, Arc::downgrade(&me));
        }
        Ok(())
    }

    /// Follows the tasks again that nobody follows: those of processes that ended. The host is told of each.
    pub(super) fn resume_tasks(self: &Arc<Self>) -> Result<()> {
        if !self.settings.tasks.enabled {
            return Ok(());
        }
        for record in self.ledger()?.claim(self.server())? {
            self.resume(record)?;
        }
        Ok(())
    }

    fn resume(self: &Arc<Self>, record: Record) -> Result<Arc<TaskHandle>> {
        let link = self.link()?;
        let host = Host::new(self, None, self.settings.validation);
        let links = self.links(link, host, self.follow_options())?;
        let held = link.group.resume(record, links)?;
        // Asked before it is let go: one that ends by its first poll tells that itself.
        let had_ended = held.entry().snapshot().has_ended();
        let entry = held.start();
        if had_ended {
            entry.retell();
        }
        Ok(TaskHandle::new(entry, self))
    }

    /// The lease is renewed, what was lost is let go, what a dead process left is taken over.
    fn tend_ledger(self: &Arc<Self>) -> Result<()> {
        let link = self.link()?;
        for key in self.ledger()?.tend()? {
            link.group.lost(&key);
        }
        if self.state() == State::Ready { self.resume_tasks() } else { Ok(()) }
    }

    /// Takes up a task from the record that a host kept of it. What the ledger knows of the task counts more.
    ///
    /// # Errors
    /// [`Kind::Argument`] for what is no record, or one of another server; [`Kind::State`] where another process
    /// follows the task.
    pub(crate) fn import(self: &Arc<Self>, text: &str) -> Result<Arc<TaskHandle>> {
        let record = written::import(text)?;
        let link = self.link()?;
        if *record.key.server != *self.server() {
            let (theirs, ours) = (one_line(&record.key.server), one_line(self.server()));
            return Err(Error::new(Kind::Argument, format!("record: it is of the server {theirs}, not of {ours}")));
        }
        if let Some(entry) = link.group.find(&record.key.server, &record.key.id) {
            return Ok(TaskHandle::new(entry, self));
        }
        let _activity = self.enter()?;
        let ledger = self.ledger()?;
        match ledger.take(&record.key)? {
            Taken::Ours(known) => self.resume(known),
            Taken::Elsewhere => Err(taken_over()),
            Taken::Unknown => {
                ledger.put(record.clone())?;
                self.resume(record)
            }
        }
    }

    /// Takes the records of tasks of this server out of the ledger that ended so long ago, acknowledged or not.
    pub(crate) fn purge(&self, age: Duration) -> Result<usize> {
        // In the earliest time there is, nothing ended before.
        let Some(before) = self.clock().wall().checked_sub(age) else { return Ok(0) };
        self.ledger()?.purge(self.server(), before)
    }
}

impl Tend for Client {
    fn due(&self) -> bool {
        let Some(me) = self.me.upgrade() else { return false };
        if matches!(me.state(), State::Closing | State::Closed) {
            return false;
        }
        if me.tending.swap(true, Ordering::AcqRel) {
            // The last time is not over yet: a slow disk.
            return true;
        }
        let client = me.clone();
        let job = move || {
            if let Err(error) = client.tend_ledger() {
                log(LogLevel::Warn, || format!("the ledger of {client:?} cannot be kept up: {error}"));
            }
            client.tending.store(false, Ordering::Release);
        };
        if me.runtime.calls.submit(Box::new(job)).is_err() {
            me.tending.store(false, Ordering::Release);
        }
        true
    }
}
