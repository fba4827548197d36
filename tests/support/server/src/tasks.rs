//! The tasks of one server: planned lives that follow the clock, scripted lives that follow the polls.
//!
//! No thread drives them: [`Store::tick`] brings every task up to a moment, and each operation calls it first.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::action::{Action, Payload};
use crate::clock::Clock;
use crate::lives::Scripted;
use crate::plan::{End, OnCancel, Plan, Progress};
use crate::rpc::RpcError;
use crate::script::Life;

/// What `tasks/get`, `tasks/update` or `tasks/cancel` answers.
pub(crate) enum Said {
    Result(Value),
    Act(Box<Action>),
}

struct Task {
    tool: String,
    created: Instant,
    changed: Instant,
    version: u64,
    kind: Kind,
}

enum Kind {
    Planned(Box<Progress>),
    Scripted(Box<Scripted>),
}

/// All tasks, by id.
#[derive(Default)]
pub(crate) struct Store {
    tasks: HashMap<String, Task>,
    forgotten: BTreeSet<String>,
    due: BTreeSet<(Instant, String)>,
    journal: Vec<String>,
}

impl Store {
    pub(crate) fn create_planned(&mut self, id: &str, tool: &str, plan: Plan, now: Instant) {
        let forget = plan.forget_after.map(|after| now + after);
        let progress = Progress::new(plan, now);
        self.insert(id, tool, Kind::Planned(Box::new(progress)), now);
        self.due.insert((now, id.to_owned()));
        self.due.extend(forget.map(|at| (at, id.to_owned())));
        self.tick(now);
    }

    pub(crate) fn create_scripted(&mut self, id: &str, life: Arc<Life>, now: Instant) {
        let tool = life.tool.clone();
        self.insert(id, &tool, Kind::Scripted(Box::new(Scripted::new(life))), now);
    }

    fn insert(&mut self, id: &str, tool: &str, kind: Kind, now: Instant) {
        let task = Task { tool: tool.to_owned(), created: now, changed: now, version: 0, kind };
        self.tasks.insert(id.to_owned(), task);
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.tasks.contains_key(id)
    }

    pub(crate) fn tool_of(&self, id: &str) -> Option<&str> {
        self.tasks.get(id).map(|task| task.tool.as_str())
    }

    pub(crate) fn life_of(&self, id: &str) -> Option<Arc<Life>> {
        match &self.tasks.get(id)?.kind {
            Kind::Scripted(scripted) => Some(scripted.life()),
            Kind::Planned(_) => None,
        }
    }

    /// Ids in the order of their changes; a listener remembers how far it has read.
    pub(crate) fn journal(&self) -> &[String] {
        &self.journal
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Brings every task up to `now`.
    pub(crate) fn tick(&mut self, now: Instant) {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((at, id)) = self.due.pop_first() else {
                return;
            };
            let Some(task) = self.tasks.get_mut(&id) else {
                continue;
            };
            let Kind::Planned(progress) = &mut task.kind else {
                continue;
            };
            if progress.plan.forget_after.is_some_and(|after| task.created + after <= at) {
                self.tasks.remove(&id);
                self.forgotten.insert(id);
                continue;
            }
            let next = progress.advance(at);
            if let Some(changed) = next.changed {
                task.changed = changed;
                task.version += 1;
                self.journal.push(id.clone());
            }
            self.due.extend(next.due.map(|due| (due, id)));
        }
    }

    /// The seed of a created task.
    pub(crate) fn seed(&self, id: &str, clock: &Clock) -> Value {
        let Some(task) = self.tasks.get(id) else {
            return Value::Null;
        };
        let mut seed = json!({"resultType": "task"});
        match &task.kind {
            Kind::Planned(progress) => {
                merge(&mut seed, task.base(id, clock));
                merge(&mut seed, progress.status());
            }
            Kind::Scripted(scripted) => crate::subst::lay_over(&mut seed, &scripted.seed(task.base(id, clock))),
        }
        seed
    }

    /// All planned tasks as they stand, the oldest first.
    pub(crate) fn all(&mut self, clock: &Clock) -> Vec<Value> {
        self.tick(clock.now());
        let mut ids: Vec<(&Instant, &String)> = self.tasks.iter().map(|(id, task)| (&task.created, id)).collect();
        ids.sort();
        ids.into_iter().filter_map(|(_, id)| self.pushed(id, clock)).map(|(_, task)| task).collect()
    }

    /// What `tasks/get` says, which for a scripted task is its next step.
    pub(crate) fn get(&mut self, id: &str, clock: &Clock) -> Result<Said, RpcError> {
        self.tick(clock.now());
        let forgotten = self.forgotten.contains(id);
        let task = self.tasks.get_mut(id).ok_or_else(|| unknown("retrieve", forgotten))?;
        let base = task.base(id, clock);
        match &mut task.kind {
            Kind::Planned(progress) => Ok(Said::Result(detailed(base, progress))),
            Kind::Scripted(scripted) => {
                let (action, moved) = scripted.poll(base);
                if moved {
                    task.changed = clock.now();
                }
                Ok(Said::Act(action))
            }
        }
    }

    /// The present state for a push; `None` for scripted tasks, whose pushes are scripted too.
    pub(crate) fn pushed(&self, id: &str, clock: &Clock) -> Option<(u64, Value)> {
        let task = self.tasks.get(id)?;
        let Kind::Planned(progress) = &task.kind else {
            return None;
        };
        let mut params = detailed(task.base(id, clock), progress);
        params.as_object_mut()?.shift_remove("resultType");
        Some((task.version, params))
    }

    pub(crate) fn update(&mut self, id: &str, responses: &Map<String, Value>, clock: &Clock) -> Result<Said, RpcError> {
        let now = clock.now();
        self.tick(now);
        let forgotten = self.forgotten.contains(id);
        let task = self.tasks.get_mut(id).ok_or_else(|| unknown("update", forgotten))?;
        match &mut task.kind {
            Kind::Scripted(scripted) => return Ok(scripted.update()),
            Kind::Planned(progress) => {
                if progress.answer(responses, now) {
                    self.due.insert((now, id.to_owned()));
                    task.changed = now;
                    task.version += 1;
                    self.journal.push(id.to_owned());
                }
            }
        }
        self.tick(now);
        Ok(Said::Result(json!({"resultType": "complete"})))
    }

    pub(crate) fn cancel(&mut self, id: &str, clock: &Clock) -> Result<Said, RpcError> {
        let now = clock.now();
        self.tick(now);
        let forgotten = self.forgotten.contains(id);
        let task = self.tasks.get_mut(id).ok_or_else(|| unknown("cancel", forgotten))?;
        match &mut task.kind {
            Kind::Scripted(scripted) => return Ok(scripted.cancel()),
            Kind::Planned(progress) => match progress.plan.on_cancel {
                OnCancel::Ignore => {}
                OnCancel::Late => progress.cancelling = true,
                OnCancel::AtOnce => self.end(id, Some(End::Cancelled), now),
            },
        }
        Ok(Said::Result(json!({"resultType": "complete"})))
    }

    /// Ends a planned task as planned, now; lets a scripted one leave its `until: completed` step.
    pub(crate) fn complete(&mut self, id: &str, now: Instant) -> bool {
        self.tick(now);
        match self.tasks.get_mut(id).map(|task| &mut task.kind) {
            None => return false,
            Some(Kind::Scripted(scripted)) => scripted.complete(),
            Some(Kind::Planned(_)) => self.end(id, None, now),
        }
        true
    }

    /// Makes the server forget a task, as after a restart.
    pub(crate) fn forget(&mut self, id: &str) -> bool {
        self.tasks.remove(id).is_some()
    }

    fn end(&mut self, id: &str, end: Option<End>, now: Instant) {
        let Some(task) = self.tasks.get_mut(id) else {
            return;
        };
        let Kind::Planned(progress) = &mut task.kind else {
            return;
        };
        if progress.finish(end) {
            task.changed = now;
            task.version += 1;
            self.journal.push(id.to_owned());
        }
    }
}

impl Task {
    fn base(&self, id: &str, clock: &Clock) -> Value {
        json!({
            "taskId": id, "status": "working",
            "createdAt": clock.iso(self.created), "lastUpdatedAt": clock.iso(self.changed),
        })
    }
}

fn detailed(base: Value, progress: &Progress) -> Value {
    let mut result = json!({"resultType": "complete"});
    for part in [base, progress.status(), progress.payload()] {
        merge(&mut result, part);
    }
    result
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

fn unknown(what: &str, forgotten: bool) -> RpcError {
    let why = if forgotten { "Task has expired" } else { "Task not found" };
    RpcError::invalid(format!("Failed to {what} task: {why}"))
}

/// An action that says a result.
pub(crate) fn saying(mut action: Action, result: Value) -> Box<Action> {
    action.payload = Payload::Result(result);
    Box::new(action)
}

#[cfg(test)]
mod tests {
    use super::{Said, Store};
    use crate::clock::Clock;
    use crate::plan::{Ask, End, OnCancel, Plan};
    use serde_json::{Map, Value, json};
    use std::time::Duration;

    fn plan(steps: u64, step_ms: u64) -> Plan {
        Plan {
            steps,
            step: Duration::from_millis(step_ms),
            asks: Vec::new(),
            end: End::Result(json!({"content": [{"type": "text", "text": "done"}]})),
            on_cancel: OnCancel::AtOnce,
            fields: Map::new(),
            forget_after: None,
        }
    }

    fn get(store: &mut Store, clock: &Clock) -> Value {
        let Ok(Said::Result(value)) = store.get("t", clock) else { panic!("no snapshot") };
        value
    }

    #[test]
    fn steps_follow_the_clock() {
        let clock = Clock::start();
        let now = clock.now();
        let mut store = Store::default();
        store.create_planned("t", "job", plan(2, 100_000), now);
        assert_eq!(get(&mut store, &clock)["statusMessage"], "step 0 of 2");
        store.tick(now + Duration::from_secs(100));
        assert_eq!(get(&mut store, &clock)["statusMessage"], "step 1 of 2");
        store.tick(now + Duration::from_secs(200));
        let done = get(&mut store, &clock);
        assert_eq!((&done["status"], &done["result"]["content"][0]["text"]), (&json!("completed"), &json!("done")));
        assert_eq!(store.journal().len(), 3);
    }

    #[test]
    fn partial_answers_leave_the_rest_open() {
        let clock = Clock::start();
        let mut store = Store::default();
        let Value::Object(requests) = json!({"a": {}, "b": {}}) else { unreachable!() };
        let asks = vec![Ask { after: 0, requests }];
        store.create_planned("t", "job", Plan { asks, ..plan(0, 0) }, clock.now());
        let answer = |key: &str| Map::from_iter([(key.to_owned(), json!(1))]);
        store.update("t", &answer("a"), &clock).map(|_| ()).unwrap();
        assert_eq!(get(&mut store, &clock)["inputRequests"], json!({"b": {}}));
        store.update("t", &answer("b"), &clock).map(|_| ()).unwrap();
        assert_eq!(get(&mut store, &clock)["result"]["content"][0]["text"], "done; answers: {\"a\":1,\"b\":1}");
    }

    #[test]
    fn a_forgotten_task_has_expired() {
        let clock = Clock::start();
        let mut store = Store::default();
        let forget_after = Some(Duration::from_secs(9));
        store.create_planned("t", "job", Plan { forget_after, ..plan(1, 1) }, clock.now());
        store.tick(clock.now() + Duration::from_secs(10));
        let error = store.get("t", &clock).err().unwrap();
        assert_eq!((error.code, error.message.as_str()), (-32602, "Failed to retrieve task: Task has expired"));
    }
}
