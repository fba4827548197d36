//! Requests that may be answered from what is known, and what is learned from those that the server answers.
//!
//! Between a session and its speaker: here every request of the client's passes.

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::protocol::answer::Answer;
use crate::protocol::json::Json;
use crate::protocol::method::{self, ListKind};
use crate::session::cache::{About, Key};
use crate::session::known::{Known, NO_LIFE};
use crate::session::pages::list_all;
use crate::session::request::{CacheUse, Notes, Request};
use crate::session::rounds::Retry;
use crate::session::speaker::Speaker;
use crate::transport::Scope;

/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;
/// As above; what an unknown tool, and a cursor that is none, are answered with.
const INVALID_PARAMS: i64 = -32602;

/// A walk through a list that changes meanwhile begins anew, but not for ever: some servers tell a change with each
/// page that they send (chosen).
const MOST_WALKS: usize = 3;

/// A speaker, and what is known of its server.
pub(super) struct Recall<'a> {
    pub(super) speaker: &'a dyn Speaker,
    pub(super) known: &'a Known,
    pub(super) clock: &'a dyn Clock,
}

/// Whether an answer came out of the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Cache,
    Server,
}

impl Recall<'_> {
    /// The answer to a request: a kept one, or the server's.
    pub(super) fn ask(
        &self,
        request: &Request,
        retry: &Retry,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Answer> {
        self.fetch(request, retry, scope, notes).map(|(answer, _)| answer)
    }

    /// All pages of a list. Kept pages are used like any others, but never beside pages of a list that has changed
    /// since: then the walk begins anew, and asks the server for each.
    pub(super) fn list_all(&self, list: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let Some(kind) = method::list_kind(&list.method) else {
            // A list of tasks is old as soon as it is written; what has no pages is refused there.
            return list_all(self.speaker.page_limit(), list, CacheUse::Off, |page| {
                self.ask(page, &Retry::default(), scope, notes)
            });
        };
        let mut cache = list.cache;
        let mut walks = 1;
        loop {
            self.known.enter(self.speaker.life());
            let before = self.known.mark(kind);
            let (mut pages, mut recalled) = (0, false);
            let listed = list_all(self.speaker.page_limit(), list, cache, |page| {
                let (answer, source) = self.fetch(page, &Retry::default(), scope, notes)?;
                pages += 1;
                recalled |= source == Source::Cache;
                Ok(answer)
            });
            let now = self.known.mark(kind);
            let mixed = pages > 1 && (now.told != before.told || recalled && now.generation != before.generation);
            let lost_its_way = match &listed {
                Ok(_) => false,
                Err(error) if error.kind() == Kind::Rpc => recalled && code(error) == Some(INVALID_PARAMS),
                Err(_) => return listed,
            };
            if walks == MOST_WALKS || !(mixed || lost_its_way) {
                if let (Ok(whole), ListKind::Tools, false) = (&listed, kind, list.params.has("cursor")) {
                    self.known.tools.seen_whole(whole);
                }
                return listed;
            }
            walks += 1;
            if cache != CacheUse::Off {
                cache = CacheUse::Refresh;
            }
        }
    }

    fn fetch(
        &self,
        request: &Request,
        retry: &Retry,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<(Answer, Source)> {
        let Some(key) = cacheable(request, retry) else {
            let answered = self.speaker.ask(request, retry, scope, notes);
            self.known.enter(self.speaker.life());
            if let Err(error) = &answered {
                self.doubt(request, error);
            }
            return answered.map(|answer| (answer, Source::Server));
        };
        let life = self.speaker.life();
        self.known.enter(life);
        // Where the session is lost, the next one may have other lists.
        let found = (life != NO_LIFE).then(|| self.known.find(&key, request.cache, self.clock.now())).flatten();
        if let Some(answer) = found {
            return Ok((Answer::Complete(answer), Source::Cache));
        }
        let ticket = self.known.ticket(key, request.cache);
        let answered = self.speaker.ask(request, retry, scope, notes);
        self.known.enter(self.speaker.life());
        match &answered {
            Ok(Answer::Complete(answer)) => {
                self.known.learn(ticket, answer, self.clock.now());
            }
            // A cursor of the past (`server/utilities/caching`, "Interaction with Pagination").
            Err(error) if code(error) == Some(INVALID_PARAMS) => {
                if let About::List(kind) = ticket.key.about {
                    self.known.forget_pages(kind);
                }
            }
            Ok(Answer::InputRequired(_) | Answer::Task(_)) | Err(_) => {}
        }
        answered.map(|answer| (answer, Source::Server))
    }

    /// A call of a listed tool that the server says is none (`server/utilities/caching`: "an unexpected error on a tool
    /// call").
    fn doubt(&self, request: &Request, error: &Error) {
        if request.method != method::TOOLS_CALL || !matches!(code(error), Some(METHOD_NOT_FOUND | INVALID_PARAMS)) {
            return;
        }
        if let Some(tool) = &request.params.name {
            self.known.doubt_tool(tool);
        }
    }
}

fn code(error: &Error) -> Option<i64> {
    error.rpc().map(|fault| fault.code)
}

/// What a request is remembered by; [`None`] for what must be asked each time.
fn cacheable(request: &Request, retry: &Retry) -> Option<Key> {
    let about = match (method::list_kind(&request.method), request.method.as_str()) {
        (Some(kind), _) => About::List(kind),
        (None, method::RESOURCES_READ) => About::Read(request.params.name.clone()?),
        (None, method::DISCOVER) => About::Server,
        (None, _) => return None,
    };
    let params = &request.params.body;
    // Answers to questions are no part of the key ("Cache Key"); a host may write a round by itself.
    let is_round = !retry.is_first() || params.contains("\"inputResponses\"") || params.contains("\"requestState\"");
    (!is_round).then(|| Key { method: request.method.clone(), params: params.clone(), about })
}
