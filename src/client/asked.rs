//! The questions of legacy servers: requests of their own, on the stream of a call's answer or outside any call. They
//! become the same input objects as those of modern rounds and tasks.

use std::sync::Arc;

use crate::client::call::Call;
use crate::client::event::{Event, EventKind};
use crate::client::handle::Client;
use crate::client::input::{Asker, Input, decline, event_kind};
use crate::client::settings::InputPolicy;
use crate::protocol::input::InputKind;
use crate::session::Question;

impl Client {
    /// The server asks. Called on the thread that reads; nothing here waits.
    pub(super) fn asked(&self, call: Option<&Arc<Call>>, question: Question) {
        let kind = question.request.kind;
        let policy = self.policy(kind);
        if policy == InputPolicy::Refuse {
            return refuse(&question);
        }
        let input = Input::new(question.request.clone(), Asker::Server(question.clone(), call.cloned()));
        let taken = match (call, policy) {
            (Some(call), InputPolicy::Handler | InputPolicy::Manual) => call.ask_aside(&input),
            (None, InputPolicy::Handler) => {
                let mut open = self.questions.lock();
                open.retain(|input| input.is_open());
                open.push(input.clone());
                true
            }
            // By hand a host answers through the call or task that asks: here there is none.
            (None, InputPolicy::Manual) | (_, InputPolicy::Refuse) => false,
        };
        if !taken {
            return refuse(&question);
        }
        if policy == InputPolicy::Handler {
            self.post_question(event_kind(kind), call, input);
        }
    }

    /// The server takes a question back.
    pub(super) fn taken_back(&self, call: Option<&Arc<Call>>, key: &str) {
        let outside = || {
            let open = self.questions.lock();
            open.iter().find(|input| input.is_open() && input.key() == key).cloned()
        };
        let found = call.and_then(|call| call.aside(key)).or_else(outside);
        if let Some(input) = found
            && input.withdraw()
        {
            self.post_question(EventKind::InputWithdrawn, call, input);
        }
    }

    /// The client closes: nobody waits for an answer any more.
    pub(super) fn withdraw_questions(&self) {
        let open = std::mem::take(&mut *self.questions.lock());
        for input in open {
            if input.withdraw() {
                self.post_question(EventKind::InputWithdrawn, None, input);
            }
        }
    }

    fn post_question(&self, kind: EventKind, call: Option<&Arc<Call>>, input: Arc<Input>) {
        let mut event = Event::new(kind);
        event.call = call.cloned();
        event.call_id = call.map(|call| call.id());
        event.input = Some(input);
        self.mailbox().post(event);
        self.kick();
    }
}

/// What nobody here answers. A request has a form of refusal, so the server goes on with it as it likes.
fn refuse(question: &Question) {
    match question.request.kind {
        InputKind::Elicitation => question.answer(&decline()),
        InputKind::Sampling | InputKind::Roots => question.not_offered(),
    }
}
