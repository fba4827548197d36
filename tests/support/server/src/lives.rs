//! Where a scripted task stands in its life.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::{Action, Payload};
use crate::script::{Life, Step, Until};
use crate::subst::lay_over;
use crate::tasks::{Said, saying};

/// A task that answers each poll, update and cancel with the next step of its script.
pub(crate) struct Scripted {
    life: Arc<Life>,
    polls: Cursor,
    updates: Cursor,
    cancels: Cursor,
    seen: Seen,
}

/// What has happened to the task so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    updated: u64,
    cancelled: u64,
    completed: u64,
}

impl Seen {
    fn of(self, until: Until) -> u64 {
        match until {
            Until::Updated => self.updated,
            Until::Cancelled => self.cancelled,
            Until::Completed => self.completed,
        }
    }
}

/// A place in a list of steps; `entered` is what had happened when the step began.
#[derive(Default)]
struct Cursor {
    index: usize,
    used: u64,
    entered: Seen,
}

impl Cursor {
    /// The step for the next answer; the last step repeats for ever.
    fn next<'a>(&mut self, steps: &'a [Step], seen: Seen) -> Option<&'a Step> {
        while let Some(step) = steps.get(self.index) {
            let over = match step.until {
                Some(until) => seen.of(until) > self.entered.of(until),
                None => self.used >= step.times,
            };
            if !over || self.index + 1 == steps.len() {
                self.used += 1;
                return Some(step);
            }
            *self = Self { index: self.index + 1, used: 0, entered: seen };
        }
        None
    }
}

impl Scripted {
    pub(crate) fn new(life: Arc<Life>) -> Self {
        Self {
            life,
            polls: Cursor::default(),
            updates: Cursor::default(),
            cancels: Cursor::default(),
            seen: Seen::default(),
        }
    }

    pub(crate) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }

    /// `base` with default intervals and the seed's fields over it.
    pub(crate) fn seed(&self, base: Value) -> Value {
        let mut seed = base;
        lay_over(&mut seed, &json!({"ttlMs": 60_000, "pollIntervalMs": 50}));
        lay_over(&mut seed, &Value::Object(self.life.seed.clone()));
        seed
    }

    /// The next answer to `tasks/get`, and whether a new step began with it.
    pub(crate) fn poll(&mut self, base: Value) -> (Box<Action>, bool) {
        let index = self.polls.index;
        let action = self.polls.next(&self.life.polls, self.seen).map(|step| step.action.clone()).unwrap_or_default();
        let moved = self.polls.index != index;
        // Without content of its own a step is the snapshot of a working task, with the bytes treated as told.
        let task = match &action.payload {
            Payload::Task(task) => task.clone(),
            Payload::Normal if !action.refuses() => serde_json::Map::new(),
            Payload::Normal
            | Payload::Nothing
            | Payload::Result(_)
            | Payload::Error(_)
            | Payload::Message(_)
            | Payload::Raw(_)
            | Payload::Sse(_) => return (Box::new(action), moved),
        };
        let mut result = json!({"resultType": "complete"});
        let mut seed = self.seed(base);
        lay_over(&mut seed, &json!({"resultType": "$absent"}));
        lay_over(&mut result, &seed);
        lay_over(&mut result, &Value::Object(task));
        (saying(action, result), moved)
    }

    pub(crate) fn update(&mut self) -> Said {
        self.seen.updated += 1;
        acknowledged(self.updates.next(&self.life.updates, self.seen))
    }

    pub(crate) fn cancel(&mut self) -> Said {
        self.seen.cancelled += 1;
        acknowledged(self.cancels.next(&self.life.cancels, self.seen))
    }

    pub(crate) fn complete(&mut self) {
        self.seen.completed += 1;
    }
}

fn acknowledged(step: Option<&Step>) -> Said {
    let ack = json!({"resultType": "complete"});
    let Some(step) = step else {
        return Said::Result(ack);
    };
    let action = step.action.clone();
    if matches!(action.payload, Payload::Normal | Payload::Task(_)) && !action.refuses() {
        Said::Act(saying(action, ack))
    } else {
        Said::Act(Box::new(action))
    }
}

#[cfg(test)]
mod tests {
    use super::Scripted;
    use crate::action::Payload;
    use crate::script::Script;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn scripted(polls: Value) -> Scripted {
        let script = Script::new().task(json!({"tool": "t", "polls": polls}));
        Scripted::new(Arc::new(script.lives[0].clone()))
    }

    fn status(scripted: &mut Scripted) -> String {
        let action = scripted.poll(json!({"status": "working"})).0;
        let Payload::Result(result) = action.payload else { panic!("no snapshot: {action:?}") };
        result["status"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn steps_count_polls_and_the_last_one_stays() {
        let mut task = scripted(json!([{"task": {"status": "a"}, "times": 2}, {"task": {"status": "b"}}]));
        let seen: Vec<String> = (0..4).map(|_| status(&mut task)).collect();
        assert_eq!(seen, ["a", "a", "b", "b"]);
    }

    #[test]
    fn a_step_can_wait_for_an_update_and_lag_behind_it() {
        let mut task = scripted(json!([
            {"task": {"status": "ask"}, "until": "updated"},
            {"task": {"status": "ask"}, "times": 2},
            {"task": {"status": "done"}},
        ]));
        assert_eq!([status(&mut task), status(&mut task)], ["ask", "ask"]);
        let _ = task.update();
        let seen: Vec<String> = (0..3).map(|_| status(&mut task)).collect();
        assert_eq!(seen, ["ask", "ask", "done"]);
    }
}
