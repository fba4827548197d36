//! Tools whose work is a task.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::brain::Brain;
use crate::calls::{Answer, error_result, text};
use crate::plan::{Ask, End, OnCancel, Plan};
use crate::rounds::{answers, declared, input_required, question};
use crate::rpc::{Call, RpcError, TASKS};
use crate::script::Life;

/// The job tools of our own.
pub(crate) fn call(brain: &Brain, call: &Call<'_>, name: &str) -> Result<Answer, RpcError> {
    let mut plan = plan(brain, call);
    match name {
        "fail_job" => {
            let data = json!({"reason": "scripted", "step": plan.steps});
            plan.end = End::Error(json!({"code": -32050, "message": "the job failed", "data": data}));
        }
        "cancelled_job" => plan.end = End::Cancelled,
        "tool_error_job" => plan.end = End::Result(error_result("the job's tool failed")),
        "ask_then_task" => {
            need_tasks(brain, call)?;
            let questions = Map::from_iter([("name".to_owned(), question("elicitation", "Your name?", "name"))]);
            let Some(found) = answers(call, &questions) else {
                return input_required(brain, call, questions, Some(&json!({"round": 1}))).map(Answer::Result);
            };
            plan.end = End::Result(text(&format!("Hello, {}", named(&found["name"]))));
        }
        _ => {
            if !granted(brain, call) && plan.asks.is_empty() {
                let steps = u32::try_from(plan.steps).unwrap_or(u32::MAX);
                return Ok(Answer::Later(plan.step.saturating_mul(steps), text("done")));
            }
        }
    }
    create(brain, call, plan)
}

/// What an accepted form says under `name`, or how it was refused.
pub(crate) fn named(answer: &Value) -> String {
    let given = answer["content"]["name"].as_str().or_else(|| answer["action"].as_str());
    given.unwrap_or("nobody").to_owned()
}

/// A plan from the arguments that all jobs share.
pub(crate) fn plan(brain: &Brain, call: &Call<'_>) -> Plan {
    let steps = call.number("steps", 3);
    let ttl = call.arguments().get("ttl_ms").cloned().unwrap_or_else(|| brain.options.ttl_ms.into());
    let poll = call.arguments().get("poll_ms").cloned().unwrap_or_else(|| brain.options.poll_interval_ms.into());
    let mut asks = Vec::new();
    if call.flag("ask") {
        let requests = Map::from_iter([("ask-1".to_owned(), question("elicitation", "Go on?", "value"))]);
        asks.push(Ask { after: steps / 2, requests });
    }
    Plan {
        steps,
        step: Duration::from_millis(call.number("step_ms", 20)),
        asks,
        end: End::Result(text("done")),
        on_cancel: match call.arguments().get("cancel").and_then(Value::as_str) {
            Some("ignore") => OnCancel::Ignore,
            Some("late") => OnCancel::Late,
            _ => OnCancel::AtOnce,
        },
        fields: Map::from_iter([("ttlMs".to_owned(), ttl), ("pollIntervalMs".to_owned(), poll)]),
        forget_after: call.arguments().get("forget_ms").and_then(Value::as_u64).map(Duration::from_millis),
    }
}

/// Whether this request may be answered with a task.
pub(crate) fn granted(brain: &Brain, call: &Call<'_>) -> bool {
    brain.options.tasks && (call.has_tasks() || !brain.options.check_capabilities)
}

fn need_tasks(brain: &Brain, call: &Call<'_>) -> Result<(), RpcError> {
    if granted(brain, call) { Ok(()) } else { Err(RpcError::missing(json!({"extensions": {TASKS: {}}}))) }
}

/// Creates the task; its seed is the answer.
pub(crate) fn create(brain: &Brain, call: &Call<'_>, plan: Plan) -> Result<Answer, RpcError> {
    need_tasks(brain, call)?;
    for ask in &plan.asks {
        declared(brain, call, &ask.requests)?;
    }
    let tool = call.text("name")?;
    let seed = brain.tasks(|tasks, clock| {
        let id = brain.new_id(tasks.len());
        tasks.create_planned(&id, tool, plan, clock.now());
        tasks.seed(&id, clock)
    });
    brain.moved.notify_all();
    Ok(Answer::Result(seed))
}

/// Creates a task with a scripted life, under the id that the script may give.
pub(crate) fn scripted(brain: &Brain, call: &Call<'_>, life: &Arc<Life>) -> Result<Answer, RpcError> {
    need_tasks(brain, call)?;
    let seed = brain.tasks(|tasks, clock| {
        let id = match &life.id {
            None => brain.new_id(tasks.len()),
            Some(id) if tasks.knows(id) => format!("{id}-{}", tasks.len() + 1),
            Some(id) => id.clone(),
        };
        tasks.create_scripted(&id, Arc::clone(life), clock.now());
        tasks.seed(&id, clock)
    });
    Ok(Answer::Result(seed))
}
