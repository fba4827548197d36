//! Polls of 2025-11-25's tasks that hold no thread while they are on their way. What takes another round trip (an end, a
//! question, a lost poll) is left to a thread that may be held up.

use std::sync::Arc;

use crate::error::Result;
use crate::protocol::answer::read_legacy;
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::write_legacy_request;
use crate::protocol::meta::write_legacy;
use crate::protocol::method;
use crate::protocol::task::Task;
use crate::session::landing::{Ear, Hear, Land, Landing, MOST_READ};
use crate::session::legacy::{Failed, Legacy, write_params};
use crate::session::legacy_reply::LegacyReply;
use crate::session::legacy_tasks::Polled;
use crate::session::request::{Notes, Request};
use crate::session::rounds::Retry;
use crate::session::standing::Standing;
use crate::transport::{Fault, FrameSink as _, Outgoing, Scope, Unawaited};

/// A poll that was begun.
struct Poll {
    task: String,
    number: i64,
    request: Request,
    standing: Arc<Standing>,
}

impl Legacy {
    pub(super) fn begin_task(self: Arc<Self>, id: &str, hear: Hear, land: Land) -> Option<Arc<dyn Unawaited>> {
        let standing = self.standing().ok()?;
        // A session that is to be begun anew takes round trips of its own.
        if standing.life != self.transport.life() {
            return None;
        }
        let (number, request) = (self.next_id(), Request::of_task(method::TASKS_GET, id, ""));
        let (meta, _) = write_legacy(None, None).ok()?;
        let params = write_params(&request.params.body, meta.as_deref());
        let message = write_legacy_request(number, &request.method, &params);
        let life = standing.life;
        let (me, poll) = (self.clone(), Poll { task: id.to_owned(), number, request, standing });
        let later = Box::new(move |outcome| land(me.land(poll, outcome, hear)));
        self.transport.begin(Outgoing { life, body: &message, headers: &[], id: Some(number), token: None }, later)
    }

    /// Called on the channel's thread: what is short is read here, all else is left to others.
    fn land(self: Arc<Self>, poll: Poll, outcome: Result<String, Fault>, hear: Hear) -> Landing {
        if !outcome.as_ref().is_ok_and(|text| text.len() <= MOST_READ) {
            return Landing::Finish(Box::new(move |scope| {
                let notes = &mut Ear(&hear);
                let arrived = self.arrive(&poll, outcome, notes);
                self.finish(&poll, arrived, scope, notes)
            }));
        }
        let arrived = match self.arrive(&poll, outcome, &mut Ear(&hear)) {
            Ok(result) => Ok(self.look(&poll.task, read(result))),
            Err(failed) => Err(failed),
        };
        match arrived {
            Ok(Ok(Polled::Works(Ok(task)))) => Landing::Task(task),
            Ok(Ok(polled)) => {
                Landing::Finish(Box::new(move |scope| self.go_on(&poll.task, polled, scope, &mut Ear(&hear))))
            }
            Ok(Err(error)) => Landing::of(Err(error)),
            Err(failed) => {
                Landing::Finish(Box::new(move |scope| self.finish(&poll, Err(failed), scope, &mut Ear(&hear))))
            }
        }
    }

    fn arrive(&self, poll: &Poll, outcome: Result<String, Fault>, notes: &mut dyn Notes) -> Result<Json, Failed> {
        let mut reply = LegacyReply::new(poll.number, None, &self.desk, poll.standing.clone(), notes);
        let exchanged = outcome.map(|text| {
            reply.frame(text);
        });
        self.outcome(&poll.standing, (poll.number, method::TASKS_GET), reply.into_outcome(), exchanged)
    }

    /// As a poll on a thread of its own goes on after its first round trip.
    fn finish(
        &self,
        poll: &Poll,
        arrived: Result<Json, Failed>,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Task> {
        let answered = match arrived {
            Ok(result) => read(result),
            Err(failed) if failed.verdict.once_more => {
                let again = self.ask_on((&poll.request, &Retry::default()), true, scope, notes);
                again.and_then(|answer| answer.complete(method::TASKS_GET))
            }
            Err(failed) => Err(failed.verdict.error),
        };
        let polled = self.look(&poll.task, answered)?;
        self.go_on(&poll.task, polled, scope, notes)
    }
}

fn read(result: Json) -> Result<Json> {
    read_legacy(method::TASKS_GET, result)?.complete(method::TASKS_GET)
}
