//! The tools that become tasks.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::*,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};

use crate::{Answer, Context, questions, tools};

pub fn start(tasks: &TaskManager, request: &CallToolRequestParams, context: &Context) -> Answer<CallToolResponse> {
    if !context.client_capabilities().is_some_and(|declared| declared.supports_tasks()) {
        return Err(ErrorData::invalid_params("this tool is a task always", None));
    }
    let options = TaskOptions::new().with_poll_interval_ms(100).with_status_message("begun");
    let task = match request.name.as_ref() {
        "long_job" => {
            let (steps, step_ms) = (tools::number(request, "steps")?, tools::number(request, "step_ms")?);
            let step = Duration::from_millis(step_ms.unsigned_abs());
            tasks.spawn(options, move |job| Box::pin(work(job, steps, step)))
        }
        "asking_job" => tasks.spawn(options, |job| {
            Box::pin(async move {
                let answer = job.request_input("who", questions::name()).await?;
                Ok(tools::text(questions::told("ask_name", &answer)))
            })
        }),
        _ => tasks.spawn(options, |_| {
            Box::pin(async { Err(TaskExit::Error(ErrorData::internal_error("the job broke", None))) })
        }),
    };
    Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
}

async fn work(job: TaskContext, steps: i64, step: Duration) -> Result<CallToolResult, TaskExit> {
    for number in 1..=steps {
        job.set_status_message(format!("step {number} of {steps}"));
        tokio::select! {
            () = job.cancelled() => return Err(TaskExit::Cancelled),
            () = tokio::time::sleep(step) => {}
        }
    }
    Ok(tools::text(format!("done after {steps} steps")))
}
