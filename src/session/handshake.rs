//! `initialize` and what follows it at once (2025-11-25 `basic/lifecycle`, "Initialization").

use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::clock::Deadline;
use crate::error::{Error, Kind, Result};
use crate::protocol::capability::{Initialized, ServerFacts, read_initialized};
use crate::protocol::json::{Members, quote};
use crate::protocol::jsonrpc::{write_legacy_request, write_notification};
use crate::protocol::legacy_task::{Offer, offers};
use crate::protocol::method;
use crate::protocol::version::{Era, LEGACY, common_legacy, has_task_calls};
use crate::session::legacy::Legacy;
use crate::session::legacy_reply::LegacyReply;
use crate::session::opening::unknown_version;
use crate::session::request::{Note, Notes, Request};
use crate::session::standing::{Standing, Turn};
use crate::session::verdict::judge;
use crate::transport::{Fault, Outgoing, Scope};

/// What the server says of itself, for the host.
pub(super) fn facts(said: Initialized, version: &str) -> ServerFacts {
    let Initialized { info, instructions, capabilities, .. } = said;
    ServerFacts { era: Era::Legacy, version: version.to_owned(), info, instructions, capabilities }
}

/// The server's answer to `initialize`.
pub(super) struct Greeting {
    /// The `Mcp-Session-Id`, where it gave one.
    session: Option<String>,
    /// The channel's life in which it came.
    life: u64,
    /// What it says.
    pub said: Initialized,
}

impl Greeting {
    /// The session that it begins, in the version that was agreed.
    pub(super) fn standing(&self, number: u64, version: &'static str) -> Arc<Standing> {
        let offer = if has_task_calls(version) { offers(&self.said.capabilities) } else { Offer::default() };
        Arc::new(Standing { number, id: self.session.clone(), version: Some(version), life: self.life, offer })
    }
}

impl Legacy {
    /// Sends `initialize`, with the newest version that the library speaks and without a session id.
    pub(super) fn greet(&self, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Greeting> {
        let judged = |fault| judge(method::INITIALIZE, fault, &self.settings.limits).error;
        self.transport.revive(scope).map_err(judged)?;
        let life = self.transport.life();
        let id = self.next_id();
        let params = format!(
            "{{\"protocolVersion\":{},\"capabilities\":{},\"clientInfo\":{}}}",
            quote(LEGACY[0]),
            self.settings.capabilities.write_legacy(),
            self.settings.client_info
        );
        let message = write_legacy_request(id, method::INITIALIZE, &params);
        let nascent = Arc::new(Standing { life, ..Standing::nascent(None) });
        let mut reply = LegacyReply::new(id, None, &self.desk, nascent, notes);
        let exchanged = self.transport.exchange(
            Outgoing { life, body: &message, headers: &[], id: Some(id), token: None },
            scope,
            &mut reply,
        );
        let session = reply.session();
        let (outcome, _) = reply.into_outcome();
        let result = match (outcome, exchanged) {
            (Some(outcome), _) => outcome?,
            (None, Err(fault)) => return Err(judged(fault)),
            (None, Ok(())) => return Err(Error::new(Kind::Malformed, "the server did not answer initialize")),
        };
        Ok(Greeting { session, life, said: read_initialized(&result)? })
    }

    /// The version that the server chose, where the library speaks it. Else the session ends at once: "the client
    /// SHOULD disconnect".
    pub(super) fn known(&self, greeting: &Greeting) -> Result<&'static str> {
        common_legacy(&greeting.said.version).ok_or_else(|| {
            self.dismiss(greeting);
            unknown_version(&greeting.said.version)
        })
    }

    /// Tells the server that the session which it just made is not wanted.
    pub(super) fn dismiss(&self, greeting: &Greeting) {
        if greeting.session.is_none() {
            return;
        }
        let never = CancelToken::new();
        let patience = &self.settings.patience;
        let scope = patience.scope(&never, &*self.means.clock, patience.grace, crate::clock::Budget::Grace);
        // Whether it hears of it or not: nothing more is sent in this session.
        drop(self.transport.end_session(&Standing::nascent(greeting.session.clone()).headers(), &scope));
    }

    /// Makes the first session stand.
    pub(super) fn settle(
        &self,
        greeting: Greeting,
        version: &'static str,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Initialized> {
        let Turn::Lead(lead) = self.standings.turn(0, Deadline::Never, scope.cancel) else {
            return Err(Error::new(Kind::Closed, "the client is closed"));
        };
        let standing = greeting.standing(lead.number(), version);
        self.establish(&standing, &greeting, scope, notes)?;
        self.learn(&greeting.said.capabilities);
        lead.stands(standing.clone());
        self.listen_to(&standing);
        Ok(greeting.said)
    }

    /// Tells the server that its answer was received, and what logs are wanted.
    pub(super) fn establish(
        &self,
        standing: &Arc<Standing>,
        greeting: &Greeting,
        scope: &Scope<'_>,
        notes: &mut dyn Notes,
    ) -> Result<()> {
        let message = write_notification(method::INITIALIZED, "{}");
        let headers = standing.headers();
        match self
            .transport
            .notify(Outgoing { life: standing.life, body: &message, headers: &headers, id: None, token: None }, scope)
        {
            Ok(()) => {}
            // Whether the server goes on without it, the next request shows.
            Err(fault @ Fault::Status(_)) => {
                let error = judge(method::INITIALIZED, fault, &self.settings.limits).error;
                notes.note(Note::Oddity(format!("the server refused notifications/initialized: {error}")));
            }
            Err(fault) => return Err(judge(method::INITIALIZED, fault, &self.settings.limits).error),
        }
        self.set_level(standing, greeting, scope, notes);
        Ok(())
    }

    /// 2025-11-25 `server/utilities/logging`: only where the server declared the capability.
    fn set_level(&self, standing: &Arc<Standing>, greeting: &Greeting, scope: &Scope<'_>, notes: &mut dyn Notes) {
        let logs = Members::parse(greeting.said.capabilities.text()).is_ok_and(|can| can.some("logging").is_some());
        let Some(level) = self.level.lock().clone().filter(|_| logs) else {
            return;
        };
        let set = Request::new(method::SET_LEVEL, &format!("{{\"level\":{}}}", quote(&level)))
            .and_then(|request| self.request(standing, &request, scope, notes));
        if let Err(error) = set {
            notes.note(Note::Oddity(format!("the server did not take the log level: {error}")));
        }
    }
}
