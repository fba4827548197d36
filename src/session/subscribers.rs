//! Who hears what a legacy server tells everybody: the subscriptions of the host, as that era can serve them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::cancel::{Cancelled, Wake, Why};
use crate::clock::{Budget, Clock};
use crate::protocol::json::Json;
use crate::protocol::subscription::Filter;
use crate::session::request::Note;
use crate::transport::Scope;

/// Notifications that may wait for the subscription's own thread; beyond this the oldest gives way.
const MOST_WAITING: usize = 1024;

#[derive(Default)]
struct State {
    filter: Filter,
    /// It was acknowledged to the host. Before, what the server tells is nobody's, and comes to the client at once: an
    /// answer that is kept must not outlive the news that wait here.
    open: bool,
    waiting: VecDeque<Note>,
    lost: bool,
}

/// One subscription's place.
pub(super) struct Seat {
    /// The number of the session that it leans on.
    pub standing: u64,
    state: Mutex<State>,
    news: Condvar,
}

/// What became of a notification at a seat.
enum Pushed {
    /// It is not wanted here.
    NotHere,
    Taken,
    OldestDropped,
}

/// What comes next for a seat.
pub(super) enum Next {
    /// A notification.
    Note(Note),
    /// The session is gone.
    Lost,
    /// Cut by its token.
    Cancelled(Why),
    /// The host's limit has passed.
    Timeout(Budget),
}

impl Seat {
    /// What is granted so far.
    pub(super) fn grant(&self, filter: Filter) {
        self.state.lock().filter = filter;
    }

    /// It is acknowledged: what matches comes here from now on.
    pub(super) fn open(&self) {
        self.state.lock().open = true;
    }

    /// What nobody will hear here any more; nothing more comes.
    pub(super) fn leave(&self) -> Vec<Note> {
        let mut state = self.state.lock();
        state.open = false;
        state.filter = Filter::default();
        state.waiting.drain(..).collect()
    }

    /// The resources that are granted.
    pub(super) fn uris(&self) -> Vec<String> {
        self.state.lock().filter.uris.clone()
    }

    fn wants(&self, uri: &str) -> bool {
        self.state.lock().filter.uris.iter().any(|known| known == uri)
    }

    fn push(&self, of_method: &str, params: &Json, note: impl FnOnce() -> Note) -> Pushed {
        let mut state = self.state.lock();
        // One lock for the look and the entry: nothing comes behind a seat that was left.
        if !state.open || !state.filter.takes(of_method, params) {
            return Pushed::NotHere;
        }
        state.waiting.push_back(note());
        let fits = state.waiting.len() <= MOST_WAITING;
        if !fits {
            state.waiting.pop_front();
        }
        drop(state);
        self.news.notify_all();
        if fits { Pushed::Taken } else { Pushed::OldestDropped }
    }

    /// Waits for what comes next.
    pub(super) fn next(self: &Arc<Self>, scope: &Scope<'_>, clock: &dyn Clock) -> Next {
        let hook: Arc<dyn Wake> = self.clone();
        if let Err(Cancelled(why)) = scope.cancel.on_cancel(Arc::downgrade(&hook)) {
            return Next::Cancelled(why);
        }
        let mut state = self.state.lock();
        loop {
            if let Some(why) = scope.cancel.cancelled() {
                return Next::Cancelled(why);
            }
            if let Some(note) = state.waiting.pop_front() {
                return Next::Note(note);
            }
            if state.lost {
                return Next::Lost;
            }
            if let Err(expired) = scope.total.left(clock.now()) {
                return Next::Timeout(expired.0);
            }
            scope.total.wait(&self.news, &mut state);
        }
    }
}

impl Wake for Seat {
    fn wake(&self) {
        // Through the lock, so that nobody is between looking and waiting.
        drop(self.state.lock());
        self.news.notify_all();
    }
}

/// The seats.
#[derive(Default)]
pub(super) struct Subscribers {
    seats: Mutex<Vec<Weak<Seat>>>,
}

impl Subscribers {
    /// A new seat, which hears nothing yet.
    pub(super) fn sit(&self, standing: u64) -> Arc<Seat> {
        let seat = Arc::new(Seat { standing, state: Mutex::default(), news: Condvar::new() });
        let mut seats = self.seats.lock();
        seats.retain(|seat| seat.strong_count() > 0);
        seats.push(Arc::downgrade(&seat));
        seat
    }

    fn all(&self) -> Vec<Arc<Seat>> {
        self.seats.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Gives a notification to those whose filter it matches; false where nobody took it. `dropped` is told where one
    /// could not.
    pub(super) fn offer(&self, of_method: &str, params: &Json, mut dropped: impl FnMut()) -> bool {
        let mut taken = false;
        for seat in self.all() {
            let note = || Note::Other { method: of_method.to_owned(), params: params.clone() };
            match seat.push(of_method, params, note) {
                Pushed::NotHere => {}
                Pushed::Taken => taken = true,
                Pushed::OldestDropped => {
                    taken = true;
                    dropped();
                }
            }
        }
        taken
    }

    /// Whether somebody in this session wants the updates of a resource.
    pub(super) fn wanted(&self, standing: u64, uri: &str) -> bool {
        self.all().iter().any(|seat| seat.standing == standing && seat.wants(uri))
    }

    /// The session with this number is gone, and those before it.
    pub(super) fn lost(&self, standing: u64) {
        for seat in self.all() {
            if seat.standing <= standing {
                seat.state.lock().lost = true;
                seat.news.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;
    use crate::clock::{Deadline, ManualClock};

    fn updated(uri: &str) -> Json {
        Json::trusted(format!("{{\"uri\":\"{uri}\"}}"))
    }

    #[test]
    fn each_seat_hears_its_own_and_the_end_of_its_session() {
        let subscribers = Subscribers::default();
        let (first, second) = (subscribers.sit(1), subscribers.sit(2));
        first.grant(Filter::of_resources(&["a:/x"]));
        second.grant(Filter::of_resources(&["a:/x", "a:/y"]));
        assert!(
            !subscribers.offer("notifications/resources/updated", &updated("a:/x"), || panic!("room")),
            "too early"
        );
        first.open();
        second.open();
        let offer = |uri: &str| subscribers.offer("notifications/resources/updated", &updated(uri), || panic!("room"));
        assert!(offer("a:/x") && offer("a:/y") && !offer("a:/z"));
        subscribers.lost(1);
        let (token, clock) = (CancelToken::new(), ManualClock::new());
        let scope = Scope { cancel: &token, total: Deadline::Never, idle: None, connect: None };
        assert!(matches!(first.next(&scope, &*clock), Next::Note(_)));
        assert!(matches!(first.next(&scope, &*clock), Next::Lost));
        assert!(matches!(second.next(&scope, &*clock), Next::Note(_)));
        assert!(matches!(second.next(&scope, &*clock), Next::Note(_)));
        assert!(subscribers.wanted(2, "a:/y") && !subscribers.wanted(1, "a:/y"));
        token.cancel(Why::Host);
        assert!(matches!(second.next(&scope, &*clock), Next::Cancelled(Why::Host)));
        assert!(offer("a:/y"));
        assert_eq!((second.leave().len(), offer("a:/y")), (1, false), "what was not heard is handed on");
    }

    #[test]
    fn a_flood_drops_the_oldest_and_says_so() {
        let subscribers = Subscribers::default();
        let seat = subscribers.sit(1);
        seat.grant(Filter::of_resources(&["a:/"]));
        seat.open();
        let mut dropped = 0;
        for _ in 0..MOST_WAITING + 3 {
            subscribers.offer("notifications/resources/updated", &updated("a:/x"), || dropped += 1);
        }
        assert_eq!(dropped, 3);
    }
}
