//! What ties a client to its tasks.

use std::sync::Arc;

use crate::client::follow::{Host, TaskHandle};
use crate::client::handle::{Client, Link};
use crate::client::life::State;
use crate::error::{Error, Kind, Result};
use crate::protocol::task::Task;
use crate::tasks::FollowOptions;
use crate::tasks::entry::{Held, Links, TaskEntry};
use crate::tasks::ledger::{Record, TaskAbout, TaskKey};

impl Client {
    /// The tasks that are followed, oldest first.
    pub(crate) fn entries(&self) -> Vec<Arc<TaskEntry>> {
        self.link.get().map(|link| link.group.tasks()).unwrap_or_default()
    }

    /// The tasks whose end was not handed out by a check yet.
    pub(crate) fn unclaimed(&self) -> Result<Vec<Record>> {
        let mut records = self.ledger()?.outstanding(self.server())?;
        records.retain(|record| record.end.is_some());
        Ok(records)
    }

    /// Follows a task that a call was answered with. Its events after "created" wait for the returned guard.
    pub(crate) fn follow(
        self: &Arc<Self>,
        seed: Task,
        about: TaskAbout,
        host: Arc<Host>,
        options: FollowOptions,
    ) -> Result<Held> {
        let link = self.link()?;
        link.group.follow(seed, about, self.links(link, host, options)?)
    }

    pub(super) fn links(&self, link: &Link, host: Arc<Host>, options: FollowOptions) -> Result<Links> {
        let ledger = self.ledger()?.clone();
        Ok(Links { wire: link.wire.clone(), host, ledger, options })
    }

    /// The name of the server in the ledger.
    pub(super) fn server(&self) -> &str {
        &self.identity
    }

    /// What the ledger keeps of a task, beside what the call adds.
    pub(crate) fn about(&self) -> TaskAbout {
        TaskAbout {
            server: self.identity.clone(),
            tool: String::new(),
            tool_call_id: None,
            host: None,
            arguments_digest: None,
            keep_result: self.settings.tasks.ledger.keep_results,
        }
    }

    /// Takes up a task by its id: the one that is followed, or a new one.
    pub(crate) fn task(self: &Arc<Self>, task_id: &str) -> Result<Arc<TaskHandle>> {
        if task_id.is_empty() {
            return Err(Error::new(Kind::Argument, "the task id is empty"));
        }
        let link = self.link()?;
        if let Some(entry) = link.group.find(self.server(), task_id) {
            return Ok(TaskHandle::new(entry, self));
        }
        let _activity = self.enter()?;
        let host = Host::new(self, None, self.settings.validation);
        let links = self.links(link, host, self.follow_options())?;
        let held = link.group.adopt(task_id, self.about(), links)?;
        Ok(TaskHandle::new(held.start(), self))
    }

    pub(crate) fn follow_options(&self) -> FollowOptions {
        let tasks = &self.settings.tasks;
        FollowOptions {
            auto_poll: tasks.auto_poll,
            push: tasks.push,
            min_poll: tasks.min_poll,
            stop_at_ttl: tasks.stop_at_ttl,
            follow_cancel: tasks.follow_cancel,
        }
    }

    /// The server told of a task by itself; one that is not followed is passed over.
    pub(super) fn task_told(&self, task: Task) {
        if let Some(link) = self.link.get() {
            link.group.pushed(self.server(), task);
        }
    }

    /// A task is listed from now on: what the server told of it before was told to nobody.
    pub(super) fn task_followed(&self, key: &TaskKey) {
        if let Some(link) = self.link.get() {
            link.session.task_followed(&key.id);
        }
    }

    /// A task has ended: the session keeps nothing of it. A close ends the whole session.
    pub(super) fn task_over(&self, key: &TaskKey) {
        if let Some(link) = self.link.get().filter(|_| self.state() == State::Ready) {
            link.session.task_over(&key.id);
        }
    }

    /// Looks at everything that is due or degraded now (the network came back, the machine woke).
    pub(crate) fn poke(&self) {
        if let Some(link) = self.link.get() {
            link.group.poke();
            link.session.poke();
        }
    }
}
