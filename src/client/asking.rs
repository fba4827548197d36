//! The questions of a call: rounds of them between its steps, and those that a legacy server asks meanwhile.

use std::sync::Arc;
use std::time::Duration;

use crate::client::call::{Call, CallState, Phase, gave_up};
use crate::client::end::CallEnd;
use crate::client::event::{Event, EventKind};
use crate::client::input::{Asker, Input, decline, event_kind};
use crate::client::settings::InputPolicy;
use crate::clock::{Budget, Deadline};
use crate::error::{Error, Kind, Result};
use crate::protocol::answer::InputRound;
use crate::protocol::input::{InputAnswer, InputKind, InputRequest};
use crate::protocol::json::{Json, quote};
use crate::protocol::limits::too_large;
use crate::session::Retry;

/// Rounds that carry only `requestState` come at most this often.
const STATE_ONLY_PAUSE: Duration = Duration::from_millis(250);

/// One round of questions.
pub(super) struct Round {
    pub(super) state: Option<String>,
    pub(super) questions: Vec<InputRequest>,
    pub(super) inputs: Vec<Arc<Input>>,
    pub(super) answers: Vec<InputAnswer>,
}

impl Round {
    pub(super) fn open(&self) -> impl Iterator<Item = &InputRequest> {
        self.questions.iter().filter(|request| self.answers.iter().all(|answer| answer.key != request.key))
    }

    fn asks(&self, key: &str) -> bool {
        self.questions.iter().any(|request| request.key == key)
    }
}

impl Call {
    /// The open questions.
    pub(crate) fn questions(&self) -> Vec<InputRequest> {
        let state = self.state.lock();
        match &state.phase {
            Phase::Asking(round) => round.open().cloned().collect(),
            Phase::Running => state.open_asides().map(|input| input.request.clone()).collect(),
            Phase::Done(_) => Vec::new(),
        }
    }

    /// Answers by key. False where all of them were answered before, or the call is over.
    pub(crate) fn answer(self: &Arc<Self>, answers: Vec<InputAnswer>) -> Result<bool> {
        if let Some(any) = self.answer_asides(&answers)? {
            return Ok(any);
        }
        let mut any = false;
        {
            let mut state = self.state.lock();
            let round = match &mut state.phase {
                Phase::Asking(round) => round,
                Phase::Done(CallEnd::Task) => {
                    let message =
                        "the call was answered with a task, and it is the task that asks: use mcp_task_update";
                    return Err(Error::new(Kind::State, message));
                }
                Phase::Running | Phase::Done(_) => return Ok(false),
            };
            if let Some(unknown) = answers.iter().find(|answer| !round.asks(&answer.key)) {
                let key = crate::error::one_line(&quote(&unknown.key));
                return Err(Error::new(Kind::Argument, format!("the call has not asked {key}")));
            }
            for answer in answers {
                if round.answers.iter().all(|have| have.key != answer.key) {
                    for input in round.inputs.iter().filter(|input| input.key() == answer.key) {
                        input.withdraw();
                    }
                    round.answers.push(answer);
                    any = true;
                }
            }
        }
        self.go_on_when_answered();
        Ok(any)
    }

    /// Answers the questions of a running step; `None` where the call has none.
    fn answer_asides(&self, answers: &[InputAnswer]) -> Result<Option<bool>> {
        let asides = {
            let state = self.state.lock();
            match &state.phase {
                Phase::Running if !state.asides.is_empty() => state.asides.clone(),
                Phase::Running | Phase::Asking(_) | Phase::Done(_) => return Ok(None),
            }
        };
        let of = |answer: &InputAnswer| asides.iter().rev().find(|input| input.key() == answer.key);
        if let Some(unknown) = answers.iter().find(|answer| of(answer).is_none()) {
            let key = crate::error::one_line(&quote(&unknown.key));
            return Err(Error::new(Kind::Argument, format!("the call has not asked {key}")));
        }
        // Each is answered, whatever became of those before it.
        let settled = answers.iter().filter(|answer| of(answer).is_some_and(|input| input.settle(&answer.response)));
        Ok(Some(settled.count() > 0))
    }

    /// A legacy server asks while the step runs. False where nobody can be asked: the call is over, or the thread that
    /// waits for it is the one that reads its answer, and the host's hand is bound.
    pub(crate) fn ask_aside(&self, input: &Arc<Input>) -> bool {
        let asked = {
            let mut state = self.state.lock();
            let by_hand = self.client.policy(input.kind()) == InputPolicy::Manual;
            let fits = matches!(state.phase, Phase::Running) && (state.by_worker || !by_hand);
            if fits {
                state.asides.push(input.clone());
                // While a person thinks, the call's limits stand still.
                self.token.hold().begin(self.client.clock().now());
            }
            fits
        };
        self.tell();
        asked
    }

    /// One of those questions is answered or withdrawn.
    pub(crate) fn aside_over(&self) {
        self.token.hold().end(self.client.clock().now());
    }

    /// The question of a running step with this key.
    pub(crate) fn aside(&self, key: &str) -> Option<Arc<Input>> {
        self.state.lock().open_asides().find(|input| input.key() == key).cloned()
    }

    pub(crate) fn answer_one(self: &Arc<Self>, key: &str, response: Json) -> Result<bool> {
        self.answer(vec![InputAnswer { key: key.to_owned(), response }])
    }

    /// The host refuses a question that has no form of refusal.
    pub(crate) fn refuse_input(self: &Arc<Self>, error: Error) {
        self.finish(CallEnd::Failed(error));
    }

    /// Waits, on the thread that runs the call, until the next step may run; false where the call is over or waits
    /// for the host's hand (then a worker takes it on once it is answered).
    pub(super) fn await_answers(self: &Arc<Self>, deadline: Deadline) -> bool {
        let ready = |state: &CallState| !matches!(state.phase, Phase::Asking(_)) || state.asks_by_hand(&self.client);
        if let Some(queue) = self.client.serving_queue() {
            queue.serve_until(deadline, || ready(&self.state.lock()));
        }
        let mut state = self.state.lock();
        while !ready(&state) {
            if !self.wait_changed(&mut state, deadline) {
                break;
            }
        }
        match &state.phase {
            Phase::Running => true,
            Phase::Done(_) => false,
            Phase::Asking(_) if state.asks_by_hand(&self.client) => {
                state.by_worker = true;
                false
            }
            Phase::Asking(_) => {
                drop(state);
                self.finish(CallEnd::Failed(gave_up()));
                false
            }
        }
    }

    pub(super) fn begin_round(self: &Arc<Self>, round: InputRound) {
        let limit = self.client.settings().limits.input_rounds;
        let (rounds, by_worker) = {
            let mut state = self.state.lock();
            state.rounds += 1;
            (state.rounds, state.by_worker)
        };
        if rounds > limit {
            return self.finish(CallEnd::Failed(too_large("the number of input rounds", limit, "input_rounds")));
        }
        let most = self.client.settings().limits.input_requests;
        if round.requests.len() + round.unknown.len() > most {
            return self.finish(CallEnd::Failed(too_large(
                "the number of questions of a call",
                most,
                "input_requests",
            )));
        }
        if let Some((key, of_method)) = round.unknown.first() {
            let text = format!("the server asks {} by the unknown method {of_method}", quote(key));
            return self.finish(CallEnd::Failed(Error::new(Kind::InputRefused, crate::error::one_line(&text))));
        }
        if round.requests.is_empty() {
            self.pause(Deadline::after(self.client.clock().now(), Some(STATE_ONLY_PAUSE), Budget::Wait));
            self.state.lock().retry = Retry::new(&[], round.state.as_deref());
            return self.go_on(by_worker);
        }
        self.ask_host(round);
    }

    fn ask_host(self: &Arc<Self>, round: InputRound) {
        let mut asking =
            Round { state: round.state, questions: round.requests, inputs: Vec::new(), answers: Vec::new() };
        for request in &asking.questions {
            match (self.client.policy(request.kind), request.kind) {
                (InputPolicy::Handler, _) => asking.inputs.push(Input::new(request.clone(), Asker::Call(self.clone()))),
                (InputPolicy::Manual, _) => {}
                (InputPolicy::Refuse, InputKind::Elicitation) => {
                    asking.answers.push(InputAnswer { key: request.key.clone(), response: decline() });
                }
                (InputPolicy::Refuse, InputKind::Sampling | InputKind::Roots) => {
                    let text =
                        format!("the server asks for {}, which this client does not answer", request.kind.method());
                    return self.finish(CallEnd::Failed(Error::new(Kind::InputRefused, text)));
                }
            }
        }
        let inputs = asking.inputs.clone();
        {
            let mut state = self.state.lock();
            if let Phase::Running = state.phase {
                state.phase = Phase::Asking(asking);
            }
        }
        for input in inputs {
            let mut event = Event::new(event_kind(input.kind()));
            event.call = Some(self.clone());
            event.call_id = Some(self.id);
            event.input = Some(input);
            self.client.mailbox().post(event);
        }
        // A cancel that found a running step left the end to it.
        if let Some(why) = self.token.cancelled() {
            self.finish(CallEnd::Failed(self.cancel_error(why)));
        }
        self.go_on_when_answered();
    }

    fn go_on_when_answered(self: &Arc<Self>) {
        let by_worker = {
            let mut state = self.state.lock();
            let Phase::Asking(round) = &state.phase else {
                return;
            };
            if round.open().next().is_some() {
                return;
            }
            state.retry = Retry::new(&round.answers, round.state.as_deref());
            state.phase = Phase::Running;
            state.by_worker
        };
        self.go_on(by_worker);
    }

    pub(super) fn go_on(self: &Arc<Self>, by_worker: bool) {
        self.tell();
        if by_worker {
            self.client.fly(self.clone());
        }
    }

    /// Waits; a cancel ends it.
    pub(super) fn pause(self: &Arc<Self>, until: Deadline) {
        let mut state = self.state.lock();
        while self.token.cancelled().is_none() && self.wait_changed(&mut state, until) {}
    }

    pub(super) fn withdraw(self: &Arc<Self>, inputs: &[Arc<Input>]) {
        for input in inputs.iter().filter(|input| input.withdraw()) {
            let mut event = Event::new(EventKind::InputWithdrawn);
            event.call = Some(self.clone());
            event.call_id = Some(self.id);
            event.input = Some(input.clone());
            self.client.mailbox().post(event);
        }
    }
}
