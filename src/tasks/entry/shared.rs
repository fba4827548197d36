//! A task whose ledger is shared with other processes, and with those before: what was taken over by another is told no
//! more, what an earlier one left is told again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::tasks::entry::TaskEntry;
use crate::tasks::errand::guarded;
use crate::tasks::pace::Moment;
use crate::tasks::snapshot::Snapshot;
use crate::tasks::state::{Machine, TaskAction};
use crate::tasks::{Announcement, EndReason};

impl TaskEntry {
    /// Tells the host of a task whose end the ledger kept: that it is here again, and its end.
    pub(crate) fn retell(self: &Arc<Self>) {
        let snapshot = self.snapshot();
        if let Some(reason) = snapshot.end_reason() {
            self.announce(&snapshot, Announcement::Resumed);
            self.announce(&snapshot, Announcement::Ended(reason));
        }
    }

    /// False where another process has taken the task over: then nothing of it may be told any more, and a task that
    /// had ended reads as closed from now on.
    pub(crate) fn is_ours(&self) -> bool {
        // What cannot be asked is told: better twice than never.
        if guarded(|| self.links.ledger.holds(&self.who.key)).unwrap_or(true) {
            return true;
        }
        self.lost.store(true, Ordering::Release);
        let mut core = self.core.lock();
        if core.machine.end().is_some() {
            core.machine = Machine::lost(core.machine.task().cloned());
            let at = Moment::of(&*self.clock);
            let snapshot = Snapshot::of(&self.who.key.id, &self.who.about, &core.machine, at);
            drop(core);
            self.publish(&Arc::new(snapshot));
        }
        false
    }

    /// Another process follows the task: the handle ends as closed, whatever was found out here. `dropped` are the
    /// actions that are not done any more.
    pub(super) fn lose(self: &Arc<Self>, dropped: impl Iterator<Item = TaskAction>) {
        let (snapshot, mut keys) = {
            self.lost.store(true, Ordering::Release);
            let mut core = self.core.lock();
            let (task, open) = (core.machine.task().cloned(), core.machine.open_inputs());
            core.machine = Machine::lost(task);
            core.done += core.steps.len() as u64;
            let dropped = dropped.chain(core.steps.drain(..).flat_map(|step| step.actions));
            let withdrawn = dropped.filter_map(|action| match action {
                TaskAction::Withdraw(key) => Some(key),
                TaskAction::Record
                | TaskAction::Forget
                | TaskAction::Poll
                | TaskAction::SendUpdate(_)
                | TaskAction::SendCancel
                | TaskAction::Announce(_)
                | TaskAction::Ask(_)
                | TaskAction::WakeAt(_)
                | TaskAction::Finish(_) => None,
            });
            let keys: Vec<String> = withdrawn.chain(open.into_iter().map(|input| input.request.key)).collect();
            let at = Moment::of(&*self.clock);
            (Arc::new(Snapshot::of(&self.who.key.id, &self.who.about, &core.machine, at)), keys)
        };
        keys.sort();
        keys.dedup();
        self.publish(&snapshot);
        for key in keys {
            self.announce(&snapshot, Announcement::Withdrawn(key));
        }
        self.announce(&snapshot, Announcement::Ended(EndReason::Closed));
        self.act(TaskAction::Finish(EndReason::Closed), &snapshot);
    }
}
