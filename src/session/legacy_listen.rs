//! A subscription in the legacy era (2025-11-25 `server/resources`, "Subscriptions"; `server/tools`, "List Changed
//! Notification"): the server tells list changes by itself, and updates of the resources that were subscribed to.

use std::sync::Arc;

use crate::cancel::{CancelToken, Why};
use crate::clock::Budget;
use crate::error::{Error, Kind, Result, one_line};
use crate::protocol::json::{Json, quote};
use crate::protocol::method;
use crate::protocol::subscription::Filter;
use crate::session::legacy::Legacy;
use crate::session::request::{Note, Notes, Request};
use crate::session::rounds::Retry;
use crate::session::speaker::Speaker;
use crate::session::standing::Standing;
use crate::session::subscribers::{Next, Seat};
use crate::session::subscription::SubscriptionNews;
use crate::session::verdict::judge;
use crate::transport::{Fault, Scope, Sent};

impl Legacy {
    /// Subscribes and hears, within one session.
    pub(super) fn hear(&self, request: &Request, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let wanted = Filter::read(&request.params.body)?;
        let standing = self.ready(scope, notes)?;
        let seat = self.desk.subscribers().sit(standing.number);
        let offered = wanted.within(&self.capabilities());
        let heard = self.subscribe(&seat, offered, scope, notes).and_then(|granted| {
            // Before it is told: whoever hears of it may count on the next news coming here.
            seat.open();
            notes.note(SubscriptionNews::acknowledged(granted.write()));
            self.hear_until(&seat, scope, notes)
        });
        // A client that closes says it by the end of its session.
        if scope.cancel.cancelled() != Some(Why::Closing) {
            self.unsubscribe(&standing, seat);
        }
        heard
    }

    /// Subscribes to each resource; those that the server refuses are not granted.
    fn subscribe(&self, seat: &Seat, mut granted: Filter, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Filter> {
        let uris = std::mem::take(&mut granted.uris);
        // Wanted from now on, before the first request, so that nobody else unsubscribes from it meanwhile.
        seat.grant(granted.clone());
        for uri in uris {
            granted.uris.push(uri);
            seat.grant(granted.clone());
            let uri = granted.uris.last().map_or("", String::as_str);
            let request = Request::new(method::SUBSCRIBE, &format!("{{\"uri\":{}}}", quote(uri)))?;
            match self.ask(&request, &Retry::default(), scope, notes) {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::Rpc => {
                    let line = format!("the server refused a subscription to {}: {error}", one_line(uri));
                    notes.note(Note::Oddity(line));
                    granted.uris.pop();
                    seat.grant(granted.clone());
                }
                Err(error) => return Err(error),
            }
        }
        match self.standings.current() {
            // All of them in one session, or all once more.
            Some(now) if now.number == seat.standing => Ok(granted),
            _ => Err(lost()),
        }
    }

    /// A legacy server never closes a subscription: it ends with an error, be it a cancel.
    fn hear_until(&self, seat: &Arc<Seat>, scope: &Scope<'_>, notes: &mut dyn Notes) -> Result<Json> {
        let sent = Sent::Begun;
        let fault = loop {
            match seat.next(scope, &*self.means.clock) {
                Next::Note(note) => notes.note(note),
                Next::Lost => return Err(lost()),
                Next::Cancelled(why) => break Fault::Cancelled { why, sent },
                Next::Timeout(budget) => break Fault::Timeout { budget, sent },
            }
        };
        Err(judge(method::LISTEN, fault, &self.settings.limits).error)
    }

    /// Gives up the seat, and the resources that nobody else in this session wants.
    fn unsubscribe(&self, standing: &Arc<Standing>, seat: Arc<Seat>) {
        let uris = seat.uris();
        // What it has not heard is told as what nobody subscribed to: a kept answer may have to go because of it.
        for note in seat.leave() {
            self.means.outside.note(note);
        }
        drop(seat);
        let here = self.standings.current().is_some_and(|now| now.number == standing.number);
        let subscribers = self.desk.subscribers();
        let left: Vec<String> = uris.into_iter().filter(|uri| !subscribers.wanted(standing.number, uri)).collect();
        let Some(me) = self.me().filter(|me| here && !left.is_empty() && me.is_open()) else {
            return;
        };
        let standing = standing.clone();
        let submitted = self.means.errands.spawn(
            "mcp-answer",
            Box::new(move || {
                for uri in left {
                    if let Err(error) = me.leave(&standing, &uri) {
                        let line = format!("cannot unsubscribe from {}: {error}", one_line(&uri));
                        me.means.outside.note(Note::Oddity(line));
                    }
                }
            }),
        );
        if let Err(refused) = submitted {
            self.means.outside.note(Note::Oddity(format!("cannot unsubscribe: {refused}")));
        }
    }

    fn leave(&self, standing: &Arc<Standing>, uri: &str) -> Result<()> {
        let patience = &self.settings.patience;
        let never = CancelToken::new();
        let scope = patience.scope(&never, &*self.means.clock, patience.idle, Budget::Idle);
        let params = format!("{{\"uri\":{}}}", quote(uri));
        let outside = self.means.outside.clone();
        let mut notes = |note: Note| outside.note(note);
        let subscribers = self.desk.subscribers();
        if subscribers.wanted(standing.number, uri) {
            return Ok(());
        }
        self.request(standing, &Request::new(method::UNSUBSCRIBE, &params)?, &scope, &mut notes)?;
        // Somebody may have come meanwhile, whose request the server took first.
        if subscribers.wanted(standing.number, uri) {
            self.request(standing, &Request::new(method::SUBSCRIBE, &params)?, &scope, &mut notes)?;
        }
        Ok(())
    }
}

fn lost() -> Error {
    Error::new(Kind::Io, "the session that the subscription leaned on is gone")
}
