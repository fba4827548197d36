//! What a legacy server says while it answers a request, and on its stream for everything else.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::action::{Content, Frame, FrameBody};
use crate::brain::Brain;
use crate::calls::{error_result, message_frame, result_frame};
use crate::clock::now;
use crate::old_tasks::{self, Where};
use crate::peer::{Peer, Steady, Wake};
use crate::rpc::{Body, CAPABILITIES, Call, INVALID_PARAMS, MISSING_CAPABILITY, Reply, RpcError, TASKS};
use crate::shared::Shared;
use crate::world::World;

/// The answer to one request: notifications, questions of the server, and the result.
pub(crate) struct Talk {
    pub(crate) session: String,
    id: Value,
    method: String,
    params: Map<String, Value>,
    queue: VecDeque<Frame>,
    /// Keys and ids of open questions.
    asking: Vec<(String, Value)>,
    /// Keys of the last questions.
    asked: Vec<String>,
    /// Where its events are kept.
    pub(crate) stream: usize,
    /// The server itself ends the connection after so many events.
    pub(crate) cut: Option<usize>,
    /// The task whose end is awaited (`tasks/result`).
    task: Option<String>,
}

/// What comes next.
pub(crate) enum Next {
    Say(Value),
    Over,
    /// The client left, or the server stopped.
    Gone,
}

impl Talk {
    /// Answers a request: at once if there is nothing else to say.
    pub(crate) fn open(brain: &Brain, session: &str, message: &Value) -> Reply {
        let mut talk = Self::new(session, message);
        talk.run(brain);
        let single =
            talk.task.is_none() && talk.queue.len() == 1 && talk.asking.is_empty() && talk.queue[0].hold.is_none();
        if !single {
            return Reply::new(200, Body::Talk(Box::new(talk)));
        }
        let delay = talk.queue[0].delay;
        let mut reply = Reply::new(200, talk.last_word().map_or(Body::Empty, Body::Message));
        reply.delay = delay;
        reply
    }

    /// One message, ready to be said.
    pub(crate) fn of(session: &str, request: &Value, message: Value, delay: Duration) -> Self {
        let mut talk = Self::new(session, request);
        talk.queue.push_back(message_frame(delay, Content::Ready(message)));
        talk
    }

    fn new(session: &str, message: &Value) -> Self {
        Self {
            session: session.to_owned(),
            id: message["id"].clone(),
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            params: message["params"].as_object().cloned().unwrap_or_default(),
            queue: VecDeque::new(),
            asking: Vec::new(),
            asked: Vec::new(),
            stream: 0,
            cut: (message["params"]["name"] == "test_reconnection").then_some(1),
            task: None,
        }
    }

    /// Lets the tools of the modern era do the work, told what the session agreed on.
    fn run(&mut self, brain: &Brain) {
        let tasks = &brain.options.legacy.tasks;
        if self.method == "tasks/result" {
            self.task = Some(self.params.get("taskId").and_then(Value::as_str).unwrap_or_default().to_owned());
            return;
        }
        if self.method.starts_with("tasks/") {
            let answer = old_tasks::answer(brain, &self.method, &self.params);
            return self.queue.push_back(answer.unwrap_or_else(|error| self.refusal(error)));
        }
        let as_task = if self.method == "tools/call" { tasks.judge(&self.params) } else { Ok(false) };
        let as_task = match as_task {
            Ok(as_task) => as_task,
            Err(error) => return self.queue.push_back(self.refusal(error)),
        };
        let (client, level) = {
            let world = brain.world.lock();
            let session = world.sessions.get(&self.session);
            session.map(|session| (session.client.clone(), session.level.clone())).unwrap_or_default()
        };
        let mut params = self.params.clone();
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        if meta.is_object() {
            meta[CAPABILITIES] = if client.is_object() { client } else { json!({}) };
            if let Some(extensions) = meta[CAPABILITIES].get_mut("extensions").and_then(Value::as_object_mut) {
                extensions.shift_remove(TASKS);
            }
            if as_task {
                meta[CAPABILITIES]["extensions"][TASKS] = json!({});
            }
            meta["io.modelcontextprotocol/logLevel"] = level.unwrap_or_else(|| "info".to_owned()).into();
        }
        let call = Call { id: &self.id, method: &self.method, params: &params };
        match brain.dispatch(&call) {
            Ok(mut reply) if self.method == "tools/list" => {
                if let Body::Message(message) = &mut reply.body {
                    if brain.options.legacy.hide_tools {
                        hide_tools(&call, &mut message["result"]["tools"]);
                    }
                    tasks.mark(&mut message["result"]["tools"]);
                }
                self.take(brain, reply);
            }
            Ok(reply) => self.take(brain, reply),
            Err(error) => self.queue.push_back(self.refusal(error)),
        }
    }

    fn take(&mut self, brain: &Brain, reply: Reply) {
        match reply.body {
            Body::Message(mut message) if message["result"]["resultType"] == "input_required" => {
                self.ask(brain, message["result"].take());
            }
            Body::Message(mut message) if message["result"]["resultType"] == "task" => {
                let (tasks, seed) = (&brain.options.legacy.tasks, message["result"].take());
                if tasks.status == Where::Early {
                    let early = Content::Ready(old_tasks::notification(seed.clone()));
                    self.queue.push_back(message_frame(Duration::ZERO, early));
                }
                self.queue.push_back(result_frame(reply.delay, tasks.created(seed)));
            }
            Body::Message(mut message) => {
                self.queue.push_back(result_frame(reply.delay, legacy_result(message["result"].take())));
            }
            Body::Frames(frames) => self.queue.extend(frames),
            Body::Empty | Body::Raw(_) | Body::Listen(_) | Body::Talk(_) | Body::Feed(_) => {}
        }
    }

    /// What `tasks/result` says next: a question, or the end. False where the client has left.
    fn await_task(&mut self, peer: &impl Peer, id: &str) -> bool {
        let brain = &peer.shared().brain;
        loop {
            let (due, seen) = {
                let mut world = brain.world.lock();
                let world = &mut *world;
                world.tasks.tick(brain.clock.now());
                let end = match old_tasks::outcome(&world.tasks, id, &brain.clock) {
                    Ok(None) => None,
                    Ok(Some(content)) => Some(message_frame(Duration::ZERO, content)),
                    Err(error) => Some(self.refusal(error)),
                };
                if let Some(end) = end {
                    self.queue.push_back(end);
                    self.task = None;
                    return true;
                }
                let session = world.sessions.get_mut(&self.session);
                if let Some(session) = session.filter(|_| brain.options.legacy.tasks.input == Where::Result) {
                    let asked = old_tasks::questions(session, &world.tasks, id, &brain.clock);
                    let frames = asked.into_iter().map(|ask| message_frame(Duration::ZERO, Content::Ready(ask)));
                    self.queue.extend(frames);
                    if !self.queue.is_empty() {
                        return true;
                    }
                }
                (world.tasks.next_due(), world.tasks.journal().len())
            };
            let news =
                |world: &World| self.ended(world) || world.tasks.journal().len() != seen || !world.tasks.knows(id);
            if peer.wait(due, news) != Wake::Ready {
                return false;
            }
            if self.ended(&brain.world.lock()) {
                return true;
            }
        }
    }

    /// Questions go out as requests of the server, on this stream or, if the tool was told `"on": "get"`, on that of GET.
    fn ask(&mut self, brain: &Brain, mut result: Value) {
        if let Some(state) = result.get_mut("requestState") {
            self.params.insert("requestState".to_owned(), state.take());
        }
        let elsewhere = self.params.get("arguments").is_some_and(|arguments| arguments["on"] == "get");
        let questions = result["inputRequests"].as_object().cloned().unwrap_or_default();
        let keys: Vec<&String> = questions.keys().collect();
        if !self.asked.is_empty() && keys.into_iter().eq(&self.asked) {
            // The same again: the answer was no answer, and would not be one next time.
            let result = error_result("The client's answer makes no sense");
            self.queue.push_back(result_frame(Duration::ZERO, result));
            return;
        }
        self.asked = questions.keys().cloned().collect();
        brain.change(|world| {
            let Some(session) = world.sessions.get_mut(&self.session) else {
                return;
            };
            for (key, question) in questions {
                let id = json!(session.next_question());
                let mut message = json!({"jsonrpc": "2.0", "id": id, "method": question["method"]});
                if let Some(params) = question.get("params") {
                    message["params"] = params.clone();
                }
                self.asking.push((key, id));
                if elsewhere {
                    session.keep(0, message);
                } else {
                    self.queue.push_back(message_frame(Duration::ZERO, Content::Ready(message)));
                }
            }
        });
    }

    fn refusal(&self, error: RpcError) -> Frame {
        if error.code == MISSING_CAPABILITY && self.method == "tools/call" {
            let lacking = error.data.unwrap_or_default()["requiredCapabilities"].to_string();
            return result_frame(
                Duration::ZERO,
                legacy_result(error_result(&format!("Client does not support {lacking}"))),
            );
        }
        let code = if error.code == INVALID_PARAMS && self.method == "resources/read" { -32002 } else { error.code };
        message_frame(Duration::ZERO, Content::Error(RpcError { code, ..error }.to_json()))
    }

    pub(crate) fn next(&mut self, peer: &impl Peer) -> Next {
        loop {
            if self.ended(&peer.shared().brain.world.lock()) {
                return Next::Over;
            }
            if let Some(frame) = self.queue.pop_front() {
                if peer.before(frame.hold.as_deref(), frame.delay) != Wake::Ready {
                    return Next::Gone;
                }
                if self.ended(&peer.shared().brain.world.lock()) {
                    return Next::Over;
                }
                if let Some(message) = self.message(frame) {
                    return Next::Say(message);
                }
            } else if let Some(task) = self.task.clone() {
                if !self.await_task(peer, &task) {
                    return Next::Gone;
                }
            } else if self.asking.is_empty() {
                return Next::Over;
            } else {
                if peer.wait(None, |world| self.ended(world) || self.answered(world)) != Wake::Ready {
                    return Next::Gone;
                }
                self.go_on(&peer.shared().brain);
            }
        }
    }

    /// The last message, where nothing has to be waited for.
    pub(crate) fn last_word(mut self) -> Option<Value> {
        self.queue.pop_back().and_then(|frame| self.message(frame))
    }

    fn message(&self, frame: Frame) -> Option<Value> {
        let FrameBody::Event { content, .. } = frame.body else {
            return None;
        };
        match content {
            Content::Ready(message) | Content::Message(message) => Some(message),
            Content::Result(result) => Some(json!({"jsonrpc": "2.0", "id": self.id, "result": legacy_result(result)})),
            Content::Error(error) => Some(json!({"jsonrpc": "2.0", "id": self.id, "error": error})),
            Content::None => None,
        }
    }

    /// The session is gone, or the request withdrawn.
    fn ended(&self, world: &World) -> bool {
        world.sessions.get(&self.session).is_none_or(|session| session.is_cancelled(&self.id))
    }

    fn answered(&self, world: &World) -> bool {
        let session = world.sessions.get(&self.session);
        session.is_some_and(|session| self.asking.iter().all(|(_, id)| session.answer_to(id).is_some()))
    }

    /// All answers are there: the tool runs again, with them.
    fn go_on(&mut self, brain: &Brain) {
        let mut responses = Map::new();
        let mut refused = None;
        {
            let world = brain.world.lock();
            for (key, id) in std::mem::take(&mut self.asking) {
                let answer = world.sessions.get(&self.session).and_then(|session| session.answer_to(&id));
                let Some(answer) = answer else { continue };
                refused = refused.or_else(|| answer.get("error").cloned());
                responses.insert(key, answer["result"].clone());
            }
        }
        if let Some(error) = refused {
            let mut result = error_result(&format!("The client refused: {error}"));
            result["structuredContent"] = error;
            self.queue.push_back(result_frame(Duration::ZERO, result));
            return;
        }
        self.params.insert("inputResponses".to_owned(), Value::Object(responses));
        self.run(brain);
    }

    /// Goes on without a connection; what is said is kept for whoever resumes the stream.
    pub(crate) fn finish_unseen(mut self, shared: &Shared) {
        while let Next::Say(message) = self.next(&Steady(shared)) {
            keep(shared, &self.session, self.stream, message);
        }
        if self.stream > 0 {
            let session = &self.session;
            shared
                .brain
                .change(|world| world.sessions.get_mut(session).into_iter().for_each(|s| s.finish(self.stream)));
        }
    }
}

/// Leaves out what the client could not answer.
fn hide_tools(call: &Call<'_>, tools: &mut Value) {
    let needs = [("ask_elicitation", "elicitation"), ("ask_sampling", "sampling"), ("ask_roots", "roots")];
    if let Some(tools) = tools.as_array_mut() {
        tools.retain(|tool| {
            let need = needs.iter().find(|(name, _)| tool["name"] == *name);
            need.is_none_or(|(_, capability)| call.has_capability(capability))
        });
    }
}

/// Keeps an event of a stream; its number.
pub(crate) fn keep(shared: &Shared, session: &str, stream: usize, event: Value) -> usize {
    shared.brain.change(|world| world.sessions.get_mut(session).map_or(0, |session| session.keep(stream, event)))
}

/// A result as the legacy eras know it.
fn legacy_result(mut result: Value) -> Value {
    if let Some(map) = result.as_object_mut() {
        for key in ["resultType", "ttlMs", "cacheScope"] {
            map.shift_remove(key);
        }
    }
    result
}

/// The stream of a GET request: the session's own, or another one that is resumed.
pub(crate) struct Feed {
    pub(crate) session: String,
    pub(crate) stream: usize,
    /// The event to go on with; `None`: the first that nobody has got.
    pub(crate) at: Option<usize>,
    /// Told first, where the HTTP+SSE transport names its other address.
    pub(crate) endpoint: Option<String>,
    round: u64,
}

/// What a feed has to say.
pub(crate) enum News {
    /// An event and its number on the stream.
    Event(usize, Value),
    Idle,
    Over,
    Gone,
}

impl Feed {
    pub(crate) fn new(brain: &Brain, session: &str, stream: usize, at: Option<usize>) -> Self {
        let round = brain.world.lock().streams.round();
        Self { session: session.to_owned(), stream, at, endpoint: None, round }
    }

    pub(crate) fn next(&mut self, peer: &impl Peer) -> News {
        let brain = &peer.shared().brain;
        let idle = now() + Duration::from_millis(brain.options.keep_alive_ms);
        loop {
            let (key, stream, at, round) = (&self.session, self.stream, self.at, self.round);
            let due = brain.world.lock().tasks.next_due().filter(|_| brain.options.legacy.tasks.on && stream == 0);
            let wake = peer.wait(Some(due.map_or(idle, |due| due.min(idle))), |world| {
                let session = world.sessions.get(key);
                let journal = if brain.options.legacy.tasks.on { world.tasks.journal().len() } else { 0 };
                let news = session.is_none_or(|session| session.has_news(stream, at, &world.changes, journal));
                // A task that was made meanwhile has a moment of its own.
                let due_now = world.tasks.next_due().filter(|_| brain.options.legacy.tasks.on && stream == 0);
                news || due_now != due || world.streams.ended_since(round).is_some()
            });
            if wake != Wake::Ready {
                return News::Gone;
            }
            let mut world = brain.world.lock();
            let world = &mut *world;
            if world.streams.ended_since(round).is_some() {
                return News::Over;
            }
            let Some(session) = world.sessions.get_mut(key) else {
                return News::Over;
            };
            if stream == 0 {
                world.tasks.tick(brain.clock.now());
                session.collect(&world.changes);
                session.collect_tasks(&world.tasks, &brain.options.legacy.tasks, &brain.clock);
            }
            if let Some((number, event)) = session.take(stream, at) {
                self.at = at.map(|_| number + 1);
                return News::Event(number, event);
            }
            if session.is_done(stream) {
                return News::Over;
            }
            if now() >= idle {
                return News::Idle;
            }
        }
    }
}
