//! A session of either era: what the rooms above hold.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cancel::CancelToken;
use crate::clock::{Budget, Deadline};
use crate::error::{Error, Kind, Result, mask};
use crate::protocol::answer::Answer;
use crate::protocol::capability::ServerFacts;
use crate::protocol::input::InputAnswer;
use crate::protocol::json::Json;
use crate::protocol::method::ListKind;
use crate::protocol::task::Task;
use crate::session::known::{Kept, Known};
use crate::session::landing::{Hear, Land, Landing};
use crate::session::opening::Opening;
use crate::session::recall::Recall;
use crate::session::request::{Note, Notes, Request};
use crate::session::rounds::Retry;
use crate::session::settings::{Means, SessionSettings};
use crate::session::speaker::Speaker;
use crate::session::subscription::{Asking, Driver, Nudge, SubscriptionNews};
use crate::transport::{Scope, Transport, Unawaited};

/// A session with a server.
pub(crate) struct Session {
    transport: Arc<dyn Transport>,
    settings: SessionSettings,
    means: Means,
    known: Arc<Known>,
    stage: Mutex<Stage>,
    nudge: Arc<Nudge>,
}

/// Where a session stands.
enum Stage {
    /// It was not opened yet.
    New,
    /// It speaks.
    Open(Arc<dyn Speaker>),
    /// It has ended, and an opening that is still under way comes too late.
    Ended,
}

impl Session {
    /// A session over this transport; touches nothing.
    pub(crate) fn new(transport: Arc<dyn Transport>, settings: SessionSettings, means: Means) -> Self {
        let known = Arc::new(Known::new(&settings.limits));
        Self { transport, settings, means, known, stage: Mutex::new(Stage::New), nudge: Arc::default() }
    }

    /// Finds out which era the server speaks, where that is open, and asks it who it is.
    ///
    /// # Errors
    /// [`Kind::Version`] where no version is spoken by both sides; else what the last request ended with.
    pub(crate) fn open(&self, cancel: &CancelToken, notes: &mut dyn Notes) -> Result<ServerFacts> {
        let mut opening = Opening::new(&self.transport, &self.settings, &self.means, &self.known, cancel);
        let (speaker, facts) = self.masked(opening.run(&mut self.quiet(notes)))?;
        let late = {
            let mut stage = self.stage.lock();
            let late = matches!(*stage, Stage::Ended);
            if !late {
                *stage = Stage::Open(speaker.clone());
            }
            late
        };
        if late {
            let patience = &self.settings.patience;
            speaker.end(Deadline::after(self.means.clock.now(), patience.grace, Budget::Grace));
            return Err(Error::new(Kind::Closed, "the client is closed"));
        }
        Ok(facts)
    }

    /// Returns the answer to a request: a kept one, where the request's wish and the server allow it, else the
    /// server's. What may be mended is mended and sent once more, as a new request.
    ///
    /// # Errors
    /// [`Kind::Rpc`] for the server's own error, [`Kind::Malformed`] for what is no answer, and what the transport
    /// tells.
    pub(crate) fn ask(
        &self,
        request: &Request,
        retry: &Retry,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Answer> {
        let speaker = self.speaker()?;
        self.masked(self.recall(&*speaker).ask(request, retry, scope, &mut self.quiet(notes)))
    }

    /// Opens a subscription and hears it until its one end; its states come as [`Note::Subscription`]. The request is
    /// made anew for each of its streams.
    ///
    /// # Errors
    /// The server's refusal, or the end of the limits or of the token; a stream that is cut is opened again.
    pub(crate) fn subscribe(&self, request: &Asking<'_>, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let speaker = self.speaker()?;
        let driver = Driver { speaker: &*speaker, clock: &*self.means.clock, nudge: &self.nudge };
        self.masked(driver.run(request, scope, &mut self.quiet(notes)))
    }

    /// Subscriptions that wait for their next try make it now.
    pub(crate) fn poke(&self) {
        self.nudge.poke();
    }

    /// All pages of a list method as one result with the one array member. Each page is asked for with the members and
    /// the `_meta` of this request.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for a method that is no list; [`Kind::TooLarge`] over `pages`; [`Kind::Malformed`] where
    /// a cursor comes twice; else as [`Session::ask`].
    pub(crate) fn list_all(&self, list: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let speaker = self.speaker()?;
        self.masked(self.recall(&*speaker).list_all(list, scope, &mut self.quiet(notes)))
    }

    /// Takes a notification of the server's, on whatever way it came: what is known may not hold any more.
    pub(crate) fn hear(&self, notification: &str, params: &Json) {
        self.known.hear(notification, params);
    }

    /// How often a list is known to have changed, from 1.
    pub(crate) fn generation(&self, kind: ListKind) -> u64 {
        if let Ok(speaker) = self.speaker() {
            self.known.enter(speaker.life());
        }
        self.known.mark(kind).generation
    }

    /// What is kept of the server's answers.
    pub(crate) fn kept(&self) -> Kept {
        self.known.kept()
    }

    fn recall<'a>(&'a self, speaker: &'a dyn Speaker) -> Recall<'a> {
        Recall { speaker, known: &self.known, clock: &*self.means.life }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// [`Kind::Argument`] where `params` is no object; what the transport tells.
    pub(crate) fn notify(&self, of_method: &str, params: &str, scope: &Scope<'_>) -> Result<()> {
        self.masked(self.speaker()?.notify(of_method, params, scope))
    }

    /// Checks a tool's result against its output schema, where a list told of one. What is odd about the schema goes to
    /// `notes`, once.
    ///
    /// # Errors
    /// [`Kind::Schema`]: the result does not match, or cannot be checked.
    pub(crate) fn check_result(&self, tool: &str, result: &Json, notes: &mut dyn Notes) -> Result<()> {
        self.masked(self.known.tools.check(tool, result, &mut self.quiet(notes)))
    }

    /// A task as it stands, with its open questions, its result or its error, whatever that takes.
    ///
    /// # Errors
    /// [`Kind::TaskUnknown`] where the server does not know it; else as [`Session::ask`].
    pub(crate) fn task_get(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Task> {
        self.masked(self.speaker()?.task_get(id, scope, &mut self.quiet(notes)))
    }

    /// Whether [`Session::task_begin`] is worth a try: over a channel it is.
    pub(crate) fn may_begin(&self) -> bool {
        self.speaker().is_ok_and(|speaker| speaker.may_begin())
    }

    /// [`Session::task_get`] without a thread that waits: what comes of it lands once. `None`: it was not sent, and
    /// `task_get` has to (though it may have landed, where the channel ended just then).
    pub(crate) fn task_begin(self: &Arc<Self>, id: &str, hear: Hear, land: Land) -> Option<Arc<dyn Unawaited>> {
        let (speaker, me, ear) = (self.speaker().ok()?, self.clone(), self.clone());
        let land = Box::new(move |landing| {
            land(match landing {
                Landing::Finish(finish) => Landing::Finish(Box::new(move |scope| me.masked(finish(scope)))),
                task @ Landing::Task(_) => task,
            });
        });
        let hear: Hear = Arc::new(move |note| ear.quiet(&mut |note| hear(note))(note));
        speaker.task_begin(id, hear, land)
    }

    /// Sends answers to a task's questions.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub(crate) fn task_update(
        &self,
        id: &str,
        answers: &[InputAnswer],
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<()> {
        self.masked(self.speaker()?.task_update(id, answers, scope, &mut self.quiet(notes)))
    }

    /// Asks the server to stop a task.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub(crate) fn task_cancel(&self, id: &str, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<()> {
        self.masked(self.speaker()?.task_cancel(id, scope, &mut self.quiet(notes)))
    }

    /// The task that a call was answered with is followed from now on: what the server told of it meanwhile is told
    /// again ([`Note::Task`]).
    pub(crate) fn task_followed(&self, id: &str) {
        if let Ok(speaker) = self.speaker() {
            speaker.task_followed(id);
        }
    }

    /// Nobody follows the task any more: nothing is kept of it.
    pub(crate) fn task_over(&self, id: &str) {
        if let Ok(speaker) = self.speaker() {
            speaker.task_over(id);
        }
    }

    /// Which server this is, for fairness.
    pub(crate) fn origin(&self) -> &str {
        self.transport.origin()
    }

    /// Whether [`Session::end`] has something to tell the server.
    pub(crate) fn has_farewell(&self) -> bool {
        self.speaker().is_ok_and(|speaker| speaker.has_farewell())
    }

    /// Ends the session: what listens stops, and the server is told until the deadline.
    pub(crate) fn end(&self, deadline: Deadline) {
        let before = std::mem::replace(&mut *self.stage.lock(), Stage::Ended);
        match before {
            Stage::Open(speaker) => speaker.end(deadline),
            Stage::New | Stage::Ended => {}
        }
    }

    fn masked<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| error.masked(&self.settings.secrets))
    }

    /// Passes notes on, without the credentials in what is logged.
    fn quiet<'a>(&'a self, notes: &'a mut dyn Notes) -> impl FnMut(Note) + 'a {
        move |note| {
            notes.note(match note {
                Note::Oddity(line) => Note::Oddity(mask(&line, &self.settings.secrets)),
                Note::Subscription(news) => Note::Subscription(SubscriptionNews {
                    error: news.error.map(|error| error.masked(&self.settings.secrets)),
                    ..news
                }),
                note @ (Note::Progress(_)
                | Note::ProgressOf { .. }
                | Note::Log(_)
                | Note::Other { .. }
                | Note::Asked(_)
                | Note::Withdrawn(_)
                | Note::Task(_)
                | Note::Stderr(_)) => note,
            });
        }
    }

    fn speaker(&self) -> Result<Arc<dyn Speaker>> {
        match &*self.stage.lock() {
            Stage::Open(speaker) => Ok(speaker.clone()),
            Stage::New => Err(Error::new(Kind::State, "the session is not open")),
            Stage::Ended => Err(Error::new(Kind::Closed, "the client is closed")),
        }
    }
}
