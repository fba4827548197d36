//! The server as tests hold it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::now;
use crate::http;
use crate::log::Recorded;
use crate::script::Script;
use crate::shared::Shared;
use crate::world::Change;

/// A running server. Dropping it closes its connections and joins its threads.
pub struct TestServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server on a free port of `127.0.0.1`, or of the option `host`.
    ///
    /// # Panics
    /// The address cannot be bound.
    pub fn start(script: Script) -> Self {
        Self::start_at(script, 0, false).unwrap_or_else(|error| panic!("cannot start the test server: {error}"))
    }

    /// As [`TestServer::start`] with a port (say, that of a server just dropped: a restart), and with `fast` for benchmarks: no record, ready-made answers.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start_at(script: Script, port: u16, fast: bool) -> std::io::Result<Self> {
        let (listener, base) = bind(&script.options.host, port)?;
        Self::listen(Arc::new(Shared::new(script, base, fast)), listener)
    }

    /// Serves what is shared with another carrier.
    pub(crate) fn listen(shared: Arc<Shared>, listener: TcpListener) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let inner = Arc::clone(&shared);
        let acceptor = Builder::new().name("test-server".to_owned()).spawn(move || accept(&inner, &listener))?;
        Ok(Self { shared, address, acceptor: Some(acceptor) })
    }

    /// Address of the MCP endpoint, such as `http://127.0.0.1:40001/mcp`.
    pub fn url(&self) -> String {
        format!("{}{}", self.shared.base, self.shared.brain.options.path)
    }

    /// Host and port, such as `http://127.0.0.1:40001`.
    pub fn base(&self) -> &str {
        &self.shared.base
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request kept in the record, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.with_log(|log| log.all().to_vec())
    }

    /// The requests with this JSON-RPC method.
    pub fn requests_of(&self, method: &str) -> Vec<Recorded> {
        self.requests().into_iter().filter(|entry| entry.method.as_deref() == Some(method)).collect()
    }

    /// How many requests of this method the record holds.
    pub fn count_of(&self, method: &str) -> usize {
        self.shared.with_log(|log| count(log.all(), method))
    }

    /// Waits until the record satisfies `done`, which runs at each change of it; false when time ran out.
    pub fn wait_for(&self, done: impl Fn(&[Recorded]) -> bool, timeout: Duration) -> bool {
        self.shared.wait_log(done, now() + timeout)
    }

    /// Waits until `n` requests of this method have come.
    pub fn wait_requests(&self, method: &str, n: usize, timeout: Duration) -> bool {
        self.wait_for(|entries| count(entries, method) >= n, timeout)
    }

    /// Waits until `n` answers are held at gates.
    pub fn wait_held(&self, n: usize, timeout: Duration) -> bool {
        let until = now() + timeout;
        let mut world = self.shared.brain.world.lock();
        while world.gates.waiting() < n {
            if self.shared.brain.moved.wait_until(&mut world, until).timed_out() {
                return world.gates.waiting() >= n;
            }
        }
        true
    }

    /// How many answers are held now.
    pub fn held(&self) -> usize {
        self.shared.brain.world.lock().gates.waiting()
    }

    /// Lets go all answers that are held now.
    pub fn release(&self) {
        self.shared.brain.change(|world| world.gates.release());
    }

    /// Opens a named gate for good: what waits there goes, what comes later does not wait.
    pub fn open_gate(&self, name: &str) {
        self.shared.brain.change(|world| world.gates.open(name));
    }

    /// Value of a counter of the tool `count`; its default name is `count`.
    pub fn counter(&self, name: &str) -> u64 {
        self.shared.brain.world.lock().counters.get(name).copied().unwrap_or(0)
    }

    /// Ends a task as its plan says, now, or lets a scripted one leave its step `"until": "completed"`.
    /// False if there is no such task.
    pub fn complete(&self, task: &str) -> bool {
        self.shared.brain.tasks(|tasks, clock| tasks.complete(task, clock.now()))
    }

    /// Forgets a task, as a restarted server would. False if there was none.
    pub fn forget(&self, task: &str) -> bool {
        self.shared.brain.tasks(|tasks, _| tasks.forget(task))
    }

    /// Forgets every session of a legacy era, as a restarted server would; their ids are known to be lost.
    pub fn forget_sessions(&self) {
        self.shared.brain.change(|world| world.sessions.forget_all());
    }

    /// Sessions of a legacy era that are open now.
    pub fn sessions(&self) -> usize {
        self.shared.brain.world.lock().sessions.len()
    }

    /// Subscriptions that were acknowledged so far: what happens from then on is told on them.
    pub fn acknowledged(&self) -> usize {
        self.shared.brain.world.lock().acknowledged
    }

    /// Tells listeners that a list changed: `"tools"`, `"prompts"` or `"resources"`.
    ///
    /// # Panics
    /// There is no such list.
    pub fn announce(&self, what: &str) {
        let change = match what {
            "tools" => Change::Tools,
            "prompts" => Change::Prompts,
            "resources" => Change::Resources,
            other => panic!("no list \"{other}\""),
        };
        self.shared.brain.change(|world| world.changes.push(change));
    }

    /// Tells listeners that a resource changed.
    pub fn touch(&self, uri: &str) {
        self.shared.brain.change(|world| world.changes.push(Change::Resource(uri.to_owned())));
    }

    /// Ends every open `subscriptions/listen` stream: with its result (`graceful`) or by a plain close.
    pub fn end_streams(&self, graceful: bool) {
        self.shared.brain.change(|world| world.streams.end(graceful));
    }

    /// Breaks every open connection, as a network that goes away.
    pub fn cut_connections(&self) {
        self.shared.cut();
    }

    /// Pauses of a client, in microseconds: from the start of each answer to a `method` for `name` (a tool, a task) to
    /// its next request of that kind. The client's own pause was never longer, so "never early" can be asserted.
    pub fn pauses(&self, method: &str, name: &str) -> Vec<u64> {
        let all = self.requests_of(method);
        let mine: Vec<&Recorded> = all.iter().filter(|entry| entry.name.as_deref() == Some(name)).collect();
        mine.windows(2).map(|pair| pair[1].at_us.saturating_sub(pair[0].answered_us.unwrap_or(pair[0].at_us))).collect()
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted()
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open_count()
    }

    /// Empties the record; numbering goes on.
    pub fn clear(&self) {
        self.shared.with_log(crate::log::Log::clear);
    }

    /// Waits for `POST /_control/quit` or [`TestServer::ask_to_quit`]; false when time ran out.
    pub fn wait_quit(&self, timeout: Duration) -> bool {
        self.shared.wait_quit(now() + timeout)
    }

    /// Ends [`TestServer::wait_quit`] from another thread.
    pub fn quitter(&self) -> impl Fn() + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.ask_to_quit()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shared.stop();
        // `accept` has no deadline: a connection of our own wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// A listener, and its address as a URL.
pub(crate) fn bind(host: &str, port: u16) -> std::io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind((host.trim_matches(['[', ']']), port))?;
    let name = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    let base = format!("http://{name}:{}", listener.local_addr()?.port());
    Ok((listener, base))
}

fn count(entries: &[Recorded], method: &str) -> usize {
    entries.iter().filter(|entry| entry.method.as_deref() == Some(method)).count()
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for stream in listener.incoming() {
        if shared.stopping() {
            break;
        }
        let Ok(stream) = stream else { continue };
        threads.retain(|thread| !thread.is_finished());
        let shared = Arc::clone(shared);
        let builder = Builder::new().name("test-connection".to_owned()).stack_size(STACK);
        threads.extend(builder.spawn(move || http::serve(&shared, Arc::new(stream))));
    }
    // A connection that was admitted while the server stopped may have missed the shutdown.
    shared.stop();
    shared.drain(GRACE);
    for thread in threads {
        let _ = thread.join();
    }
}

/// For farewells on open streams; a client that does not read must not hold a test up for longer.
const GRACE: Duration = Duration::from_millis(300);
/// Enough for JSON of the usual nesting; small, because some tests open hundreds of connections.
const STACK: usize = 512 * 1024;
