//! A planned task: steps on the clock, questions on the way, one end.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// How a task goes when nobody scripts it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: u64,
    pub(crate) step: Duration,
    /// Questions, asked once `after` steps are done; in this order.
    pub(crate) asks: Vec<Ask>,
    pub(crate) end: End,
    pub(crate) on_cancel: OnCancel,
    /// `ttlMs`, `pollIntervalMs`.
    pub(crate) fields: Map<String, Value>,
    /// Forget the task this long after its creation.
    pub(crate) forget_after: Option<Duration>,
}

/// Open questions, all at once.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) after: u64,
    pub(crate) requests: Map<String, Value>,
}

/// How a planned task ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// `completed`; answers, if any were asked for, are appended to the first text block.
    Result(Value),
    Error(Value),
    Cancelled,
}

/// What `tasks/cancel` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCancel {
    AtOnce,
    /// Acknowledged, without effect.
    Ignore,
    /// Effective when the present step is over.
    Late,
}

/// Where a planned task stands.
pub(crate) struct Progress {
    pub(crate) plan: Plan,
    phase: Phase,
    asked: usize,
    answers: Map<String, Value>,
    pub(crate) cancelling: bool,
}

enum Phase {
    Working { step: u64, since: Instant },
    Asking { step: u64, open: Map<String, Value> },
    Ended(Option<End>),
}

/// What one look at a planned task found.
pub(crate) struct Next {
    pub(crate) changed: Option<Instant>,
    pub(crate) due: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(plan: Plan, now: Instant) -> Self {
        let phase = Phase::Working { step: 0, since: now };
        Self { plan, phase, asked: 0, answers: Map::new(), cancelling: false }
    }

    /// Ends the task, otherwise than planned if `end` says so; false if it has ended before.
    pub(crate) fn finish(&mut self, end: Option<End>) -> bool {
        let open = !matches!(self.phase, Phase::Ended(_));
        if open {
            self.phase = Phase::Ended(end);
        }
        open
    }

    /// One transition at most: the queue of due moments comes back for the next.
    pub(crate) fn advance(&mut self, now: Instant) -> Next {
        let Phase::Working { step, since } = self.phase else {
            return Next { changed: None, due: None };
        };
        let ask = self.plan.asks.get(self.asked).filter(|ask| ask.after <= step);
        if let Some(ask) = ask {
            self.phase = Phase::Asking { step, open: ask.requests.clone() };
            self.asked += 1;
            return Next { changed: Some(now), due: None };
        }
        if step >= self.plan.steps {
            self.phase = Phase::Ended(None);
            return Next { changed: Some(now), due: None };
        }
        if now < since + self.plan.step {
            return Next { changed: None, due: Some(since + self.plan.step) };
        }
        if self.cancelling {
            self.phase = Phase::Ended(Some(End::Cancelled));
            return Next { changed: Some(now), due: None };
        }
        self.phase = Phase::Working { step: step + 1, since: now };
        Next { changed: Some(now), due: Some(now) }
    }

    /// Takes answers to open questions, ignores others; true if anything changed.
    pub(crate) fn answer(&mut self, responses: &Map<String, Value>, now: Instant) -> bool {
        let Phase::Asking { step, open } = &mut self.phase else {
            return false;
        };
        let step = *step;
        let before = open.len();
        for (key, response) in responses {
            if open.shift_remove(key).is_some() {
                self.answers.insert(key.clone(), response.clone());
            }
        }
        let (changed, done) = (open.len() != before, open.is_empty());
        if done {
            self.phase = Phase::Working { step, since: now };
        }
        changed
    }

    /// Status, message and, where it belongs to the plan, `ttlMs` and `pollIntervalMs`.
    pub(crate) fn status(&self) -> Value {
        let steps = self.plan.steps;
        let mut fields = self.plan.fields.clone();
        let (status, message) = match &self.phase {
            Phase::Working { step, .. } => ("working", format!("step {step} of {steps}")),
            Phase::Asking { .. } => ("input_required", "waiting for input".to_owned()),
            Phase::Ended(end) => match end.as_ref().unwrap_or(&self.plan.end) {
                End::Result(_) => ("completed", format!("step {steps} of {steps}")),
                End::Error(error) => ("failed", error["message"].as_str().unwrap_or_default().to_owned()),
                End::Cancelled => ("cancelled", "cancelled".to_owned()),
            },
        };
        fields.insert("status".to_owned(), status.into());
        fields.insert("statusMessage".to_owned(), message.into());
        Value::Object(fields)
    }

    pub(crate) fn payload(&self) -> Value {
        match &self.phase {
            Phase::Working { .. } => json!({}),
            Phase::Asking { open, .. } => json!({"inputRequests": open}),
            Phase::Ended(end) => match end.as_ref().unwrap_or(&self.plan.end) {
                End::Result(result) => json!({"result": self.with_answers(result)}),
                End::Error(error) => json!({"error": error}),
                End::Cancelled => json!({}),
            },
        }
    }

    fn with_answers(&self, result: &Value) -> Value {
        let mut result = result.clone();
        if let (false, Some(text)) = (self.answers.is_empty(), result.pointer_mut("/content/0/text")) {
            let answers = Value::Object(self.answers.clone());
            *text = format!("{}; answers: {answers}", text.as_str().unwrap_or_default()).into();
        }
        result
    }
}
