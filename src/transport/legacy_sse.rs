//! HTTP+SSE, the transport of revision 2024-11-05 (`basic/transports`, "HTTP with SSE"): one GET stream carries all
//! that the server says, and its first event names the endpoint that messages are POSTed to.
//!
//! Deprecated and still served. The endpoint must have the origin of the stream: messages carry credentials.
//!
//! ```text
//! exchange ── POST ──> endpoint
//!    ^ frames of this request
//! board <── reader thread <── GET stream          listen <── everything else
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::{HttpEndpoint, HttpTransport};
use crate::cancel::{CancelToken, Cancelled, Wake, Why};
use crate::clock::{Budget, Clock, Deadline};
use crate::spawn::Spawn;
use crate::transport::{Fault, Flow, FrameSink, LinkKind, Outgoing, Scope, Sent, Transport};

/// Messages that wait to be taken, in each queue; chosen. Beyond it the reader waits, and with it the server.
const MOST_WAITING: usize = 1_000;

/// A server reached over HTTP+SSE.
pub(crate) struct LegacySse {
    http: Arc<HttpTransport>,
    threads: Arc<dyn Spawn>,
    connect: Option<Duration>,
    board: Arc<Board>,
    stop: Arc<CancelToken>,
}

/// What the reader and the exchanges share.
struct Board {
    http: Arc<HttpTransport>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Which stream this is, from 1; it counts on when one ends.
    life: u64,
    stream: Stream,
    waiting: HashMap<i64, Waiting>,
    general: VecDeque<String>,
    listened: bool,
}

/// The stream.
#[derive(Default)]
enum Stream {
    /// It was asked for.
    #[default]
    Opening,
    /// It named its endpoint.
    Open(HttpEndpoint),
    /// It is over; the fault goes to the one who opened it.
    Over(Option<Fault>),
}

/// An exchange whose answer is awaited.
struct Waiting {
    token: Option<String>,
    frames: VecDeque<String>,
}

impl LegacySse {
    /// Opens the stream and waits for its endpoint.
    pub(crate) fn open(
        http: Arc<HttpTransport>,
        threads: Arc<dyn Spawn>,
        scope: &Scope<'_>,
    ) -> Result<Arc<Self>, Fault> {
        let board = Arc::new(Board { http: http.clone(), state: Mutex::default(), changed: Condvar::new() });
        board.state.lock().stream = Stream::Over(None);
        let sse = Self { http, threads, connect: scope.connect, board, stop: Arc::default() };
        sse.revive(scope)?;
        Ok(Arc::new(sse))
    }

    fn start(&self) -> Result<(), Fault> {
        {
            let mut state = self.board.state.lock();
            match state.stream {
                // Another opens it, or has opened it.
                Stream::Opening | Stream::Open(_) => return Ok(()),
                Stream::Over(_) => {}
            }
            state.stream = Stream::Opening;
            state.life += 1;
            state.general.clear();
        }
        let (board, http, stop, connect) = (self.board.clone(), self.http.clone(), self.stop.clone(), self.connect);
        let reader = move || {
            let scope = Scope { cancel: &stop, total: Deadline::Never, idle: None, connect };
            let fault = http.read_stream(&scope, &mut Reader(board.clone())).err();
            board.end(fault);
        };
        self.threads.spawn("mcp-sse", Box::new(reader)).map_err(|refused| {
            self.board.end(None);
            Fault::Io { sent: Sent::No, detail: refused.message().to_owned() }
        })
    }
}

impl Board {
    /// The stream has ended. What the requests in flight are owed will not come.
    fn end(&self, fault: Option<Fault>) {
        {
            let mut state = self.state.lock();
            state.life += 1;
            match state.stream {
                // The first fault is the cause: the reader stopped because of it.
                Stream::Over(Some(_)) => {}
                Stream::Over(None) | Stream::Opening | Stream::Open(_) => state.stream = Stream::Over(fault),
            }
        }
        self.changed.notify_all();
    }

    /// Waits for a change; false where the deadline came first.
    fn wait(&self, state: &mut MutexGuard<'_, State>, until: Deadline) -> bool {
        until.wait(&self.changed, state)
    }

    fn endpoint(&self) -> Result<HttpEndpoint, Fault> {
        match &self.state.lock().stream {
            Stream::Open(endpoint) => Ok(endpoint.clone()),
            Stream::Opening | Stream::Over(_) => {
                Err(Fault::Io { sent: Sent::No, detail: "the server's event stream has ended".into() })
            }
        }
    }

    /// The next frame of an exchange.
    fn next(&self, id: i64, scope: &Scope<'_>, clock: &dyn Clock) -> Result<String, Fault> {
        let since = clock.now();
        let hold = scope.cancel.hold();
        let mut state = self.state.lock();
        loop {
            let frame = state.waiting.get_mut(&id).and_then(|waiting| waiting.frames.pop_front());
            if let Some(frame) = frame {
                drop(state);
                self.changed.notify_all();
                return Ok(frame);
            }
            if let Some(why) = scope.cancel.cancelled() {
                return Err(Fault::Cancelled { why, sent: Sent::Begun });
            }
            if matches!(state.stream, Stream::Over(_)) {
                let detail = "the server's event stream ended before the answer".into();
                return Err(Fault::Io { sent: Sent::Begun, detail });
            }
            // A question to the host moves both ends.
            let now = clock.now();
            let idle = Deadline::after(hold.silent_since(since, now), scope.idle, Budget::Idle);
            let until = hold.moved(scope.total, now).tighter(idle);
            if let Err(expired) = until.left(now) {
                return Err(Fault::Timeout { budget: expired.0, sent: Sent::Begun });
            }
            // Running out shows above.
            self.wait(&mut state, until);
        }
    }
}

impl Wake for Board {
    fn wake(&self) {
        // Under the lock, so that nobody is between looking and waiting.
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

/// Takes an exchange off the board.
struct Place<'a>(&'a Board, i64);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let gone = self.0.state.lock().waiting.remove(&self.1);
        drop(gone);
        // The reader may wait for room in its queue.
        self.0.changed.notify_all();
    }
}

impl Transport for LegacySse {
    fn exchange(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let id = outgoing.id.unwrap_or_default();
        let hook: Arc<dyn Wake> = self.board.clone();
        scope
            .cancel
            .on_cancel(Arc::downgrade(&hook))
            .map_err(|Cancelled(why)| Fault::Cancelled { why, sent: Sent::No })?;
        let endpoint = self.board.endpoint()?;
        let waiting = Waiting { token: outgoing.token.map(str::to_owned), frames: VecDeque::new() };
        self.board.state.lock().waiting.insert(id, waiting);
        let _place = Place(&self.board, id);
        self.http.post_to(&endpoint, outgoing, scope)?;
        loop {
            match sink.frame(self.board.next(id, scope, self.http.time())?) {
                Flow::Done => return Ok(()),
                Flow::More => {}
            }
        }
    }

    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> Result<(), Fault> {
        self.http.post_to(&self.board.endpoint()?, outgoing, scope)
    }

    fn link(&self) -> LinkKind {
        LinkKind::Http
    }

    fn life(&self) -> u64 {
        self.board.state.lock().life
    }

    fn revive(&self, scope: &Scope<'_>) -> Result<(), Fault> {
        self.start()?;
        let hook: Arc<dyn Wake> = self.board.clone();
        let cut = |why| Fault::Cancelled { why, sent: Sent::No };
        scope.cancel.on_cancel(Arc::downgrade(&hook)).map_err(|Cancelled(why)| cut(why))?;
        let mut state = self.board.state.lock();
        loop {
            match &mut state.stream {
                Stream::Open(_) => return Ok(()),
                Stream::Over(fault) => {
                    let ended = || Fault::NotAnAnswer { detail: "the event stream ended without an endpoint".into() };
                    return Err(fault.take().unwrap_or_else(ended));
                }
                Stream::Opening => {}
            }
            if let Some(why) = scope.cancel.cancelled() {
                return Err(cut(why));
            }
            if let Err(expired) = scope.total.left(self.http.time().now()) {
                self.stop.cancel(Why::Closing);
                return Err(Fault::Timeout { budget: expired.0, sent: Sent::No });
            }
            self.board.wait(&mut state, scope.total);
        }
    }

    fn listen(&self, _: &[(&str, &str)], scope: &Scope<'_>, sink: &mut dyn FrameSink) -> Result<(), Fault> {
        let hook: Arc<dyn Wake> = self.board.clone();
        let cut = |Cancelled(why)| Fault::Cancelled { why, sent: Sent::Begun };
        scope.cancel.on_cancel(Arc::downgrade(&hook)).map_err(cut)?;
        sink.opened();
        let mut state = self.board.state.lock();
        let life = state.life;
        state.listened = true;
        while state.life == life {
            if let Some(why) = scope.cancel.cancelled() {
                state.listened = false;
                return Err(Fault::Cancelled { why, sent: Sent::Begun });
            }
            match state.general.pop_front() {
                None => drop(self.board.wait(&mut state, scope.total)),
                Some(frame) => {
                    let flow = MutexGuard::unlocked(&mut state, || {
                        self.board.changed.notify_all();
                        sink.frame(frame)
                    });
                    if flow == Flow::Done {
                        break;
                    }
                }
            }
        }
        state.listened = false;
        Ok(())
    }

    fn origin(&self) -> &str {
        self.http.origin()
    }

    fn close(&self) {
        self.stop.cancel(Why::Closing);
        self.http.close();
    }
}

impl Drop for LegacySse {
    fn drop(&mut self) {
        self.stop.cancel(Why::Closing);
    }
}

/// Puts what comes on the board.
struct Reader(Arc<Board>);

/// What decides where a message goes.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<Progress<'a>>,
}

#[derive(Deserialize)]
struct Progress<'a> {
    #[serde(rename = "progressToken", borrow, default)]
    token: Option<&'a RawValue>,
}

/// Whose a message is.
enum Owner {
    Id(i64),
    Token(String),
    Nobody,
}

fn owner(text: &str) -> Owner {
    let Ok(peek) = serde_json::from_str::<Peek<'_>>(text) else {
        return Owner::Nobody;
    };
    if peek.method.is_none() {
        // An id in another dress is still this request's (BR-12).
        let id = peek.id.and_then(|id| id.get().trim_matches('"').parse().ok());
        return id.map_or(Owner::Nobody, Owner::Id);
    }
    let token = peek.params.filter(|_| peek.id.is_none()).and_then(|params| params.token);
    token.map_or(Owner::Nobody, |token| Owner::Token(token.get().to_owned()))
}

impl State {
    /// The queue that a message belongs to: its exchange's, else the general one (true).
    fn queue(&mut self, owner: &Owner) -> (&mut VecDeque<String>, bool) {
        let id = match owner {
            Owner::Id(id) => Some(*id),
            Owner::Token(token) => {
                let same = |ours: &str| ours == token || ours.trim_matches('"') == token.trim_matches('"');
                let found = self.waiting.iter().find(|(_, waiting)| waiting.token.as_deref().is_some_and(same));
                found.map(|(id, _)| *id)
            }
            Owner::Nobody => None,
        };
        match id.and_then(|id| self.waiting.get_mut(&id)) {
            Some(waiting) => (&mut waiting.frames, false),
            None => (&mut self.general, true),
        }
    }
}

impl FrameSink for Reader {
    fn frame(&mut self, text: String) -> Flow {
        let owner = owner(&text);
        let mut state = self.0.state.lock();
        // Without anybody who listens, the oldest goes: what comes before the session stands is of no account.
        loop {
            let listened = state.listened;
            let (queue, general) = state.queue(&owner);
            if queue.len() < MOST_WAITING {
                queue.push_back(text);
                break;
            }
            if general && !listened {
                queue.pop_front();
            } else {
                self.0.changed.wait(&mut state);
            }
        }
        drop(state);
        self.0.changed.notify_all();
        Flow::More
    }

    fn aside(&mut self, event: &str, data: &str) -> Flow {
        if event != "endpoint" {
            return Flow::More;
        }
        let mut state = self.0.state.lock();
        match (&state.stream, self.0.http.endpoint_at(data)) {
            (Stream::Opening, Some(endpoint)) => state.stream = Stream::Open(endpoint),
            (Stream::Opening, None) => {
                let detail = "the server named an endpoint of another origin".into();
                state.stream = Stream::Over(Some(Fault::NotAnAnswer { detail }));
                drop(state);
                self.0.changed.notify_all();
                return Flow::Done;
            }
            // A second endpoint is passed over: the first one stands.
            (Stream::Open(_) | Stream::Over(_), _) => {}
        }
        drop(state);
        self.0.changed.notify_all();
        Flow::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_finds_its_owner() {
        for (text, want) in [
            (r#"{"id":7,"result":{}}"#, "id 7"),
            (r#"{"id":"7","result":{}}"#, "id 7"),
            (r#"{"id":null,"error":{"code":1}}"#, "nobody"),
            (r#"{"id":7,"method":"ping"}"#, "nobody"),
            (r#"{"method":"notifications/progress","params":{"progressToken":7}}"#, "token 7"),
            (r#"{"method":"notifications/message","params":{"level":"info"}}"#, "nobody"),
            ("nonsense", "nobody"),
        ] {
            let found = match owner(text) {
                Owner::Id(id) => format!("id {id}"),
                Owner::Token(token) => format!("token {token}"),
                Owner::Nobody => "nobody".into(),
            };
            assert_eq!(found, want, "{text}");
        }
    }
}
