//! A record (`transport/record.rs`) as a transport: it plays the server's part, without a server. Each request finds the next
//! recorded one of its kind, method and subject, and gets what that one got, with its own id in the place of the recorded
//! one. The recorded delays are left out.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::cancel::Cancelled;
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{ChildEnd, Error, Kind, Result, one_line};
use crate::spawn::Spawn;
use crate::transport::record::{FORM, MARK};
use crate::transport::{Fault, Flow, FrameSink, HttpRefusal, LinkKind, Outgoing, Scope, Sent, Transport};

/// Chosen: how often a part that waits for another looks.
const LOOK: Duration = Duration::from_millis(5);
/// Chosen: a record is read whole, so it must fit into memory.
const MOST_BYTES: u64 = 1 << 30;

/// What one request was answered with.
#[derive(Clone)]
struct Scene {
    kind: String,
    /// Method and subject (tool, prompt, address, task) of a request.
    about: (String, String),
    id: Value,
    token: Value,
    line: usize,
    parts: Vec<Part>,
    played: bool,
}

#[derive(Clone)]
struct Part {
    line: usize,
    what: What,
}

#[derive(Clone)]
enum What {
    Message(String),
    Session,
    Opened,
    Event(String, String),
    End(Option<Value>),
}

/// The record.
pub(crate) struct Replay {
    origin: String,
    link: LinkKind,
    clock: Arc<dyn Clock>,
    scenes: Mutex<Vec<Scene>>,
    /// Requests of the server's that the record has an answer to, and those that were answered now.
    asked: HashSet<String>,
    answered: Mutex<HashSet<String>>,
    closed: AtomicBool,
}

impl Replay {
    /// Reads the newest record of a file.
    ///
    /// # Errors
    /// [`Kind::Argument`] for a file that cannot be read, or is no record, or not a whole one.
    pub(crate) fn open(file: &str, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let wrong = |what: String| Error::new(Kind::Argument, format!("settings.replay.file: {what}"));
        let size = std::fs::metadata(file).map_err(|fault| wrong(format!("it cannot be read: {fault}")))?.len();
        if size > MOST_BYTES {
            return Err(wrong(format!("it is larger than {MOST_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(file).map_err(|fault| wrong(format!("it cannot be read: {fault}")))?;
        Self::read(&text, clock).map(Arc::new).map_err(wrong)
    }

    fn read(text: &str, clock: Arc<dyn Clock>) -> std::result::Result<Self, String> {
        let (mut head, mut scenes) = (None, BTreeMap::<u64, Scene>::new());
        for (index, text) in text.lines().enumerate() {
            let number = index + 1;
            let line: Value = serde_json::from_str(text)
                .map_err(|_| format!("line {number} is no JSON: this is no record, or one that was cut off"))?;
            if let Some(form) = line.get(MARK) {
                if form.as_u64() != Some(FORM) {
                    return Err(format!("line {number}: a record of form {form}, expected {FORM}"));
                }
                head = Some(line);
                scenes.clear();
                continue;
            }
            if head.is_none() {
                return Err(format!("line {number} does not begin a record: this is none"));
            }
            read_line(&line, number, &mut scenes).ok_or_else(|| format!("line {number} is no line of a record"))?;
        }
        let head = head.ok_or("it is empty")?;
        let scenes: Vec<Scene> = scenes.into_values().collect();
        let answers = scenes.iter().filter(|scene| scene.kind == "notification" && scene.about.0.is_empty());
        let asked = answers.map(|scene| scene.about.1.clone()).collect();
        Ok(Self {
            origin: head["origin"].as_str().unwrap_or("record").to_owned(),
            link: if head["link"] == "http" { LinkKind::Http } else { LinkKind::Stream },
            clock,
            scenes: Mutex::new(scenes),
            asked,
            answered: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// The next recorded request of this kind that is about the same.
    fn take(&self, kind: &str, about: &(String, String)) -> Option<Scene> {
        let mut scenes = self.scenes.lock();
        let scene = scenes.iter_mut().find(|scene| !scene.played && scene.kind == kind && scene.about == *about)?;
        scene.played = true;
        Some(scene.clone())
    }

    /// Waits for something of this replay's, within the limits of the request.
    fn until(&self, scope: &Scope<'_>, done: impl Fn() -> bool) -> std::result::Result<(), Fault> {
        let sent = Sent::Begun;
        while !done() {
            let now = self.clock.now();
            let total = scope.cancel.hold().moved(scope.total, now);
            if self.closed.load(Ordering::Acquire) {
                return Err(Fault::Closed);
            }
            if let Err(expired) = total.left(now) {
                return Err(Fault::Timeout { budget: expired.0, sent });
            }
            let look = Deadline::after(now, Some(LOOK), Budget::Wait);
            scope.cancel.sleep_until(look).map_err(|Cancelled(why)| Fault::Cancelled { why, sent })?;
        }
        Ok(())
    }

    fn play(
        &self,
        scene: &Scene,
        new: &Value,
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
    ) -> std::result::Result<(), Fault> {
        for part in &scene.parts {
            if scene.kind == "listen" {
                // What came by itself comes after all that was asked before it.
                self.until(scope, || self.is_played_before(part.line))?;
            }
            match &part.what {
                What::Message(text) => {
                    let (text, asks) = dressed(text, scene, new);
                    if sink.frame(text) == Flow::Done {
                        return Ok(());
                    }
                    if let Some(id) = asks.filter(|id| self.asked.contains(id)) {
                        self.until(scope, || self.answered.lock().contains(&id))?;
                    }
                }
                What::Session => sink.session("replay"),
                What::Opened => sink.opened(),
                What::Event(event, data) => {
                    if sink.aside(event, data) == Flow::Done {
                        return Ok(());
                    }
                }
                What::End(None) => return Ok(()),
                What::End(Some(fault)) => return Err(self.fault(fault, scope)),
            }
        }
        Err(Fault::Io { sent: Sent::Begun, detail: "the record ends before the answer".into() })
    }

    fn is_played_before(&self, line: usize) -> bool {
        self.scenes.lock().iter().all(|scene| scene.played || scene.kind != "request" || scene.line > line)
    }

    /// What the request failed with.
    fn fault(&self, told: &Value, scope: &Scope<'_>) -> Fault {
        let detail = told["detail"].as_str().unwrap_or_default().to_owned();
        let sent = if told["sent"] == true { Sent::Begun } else { Sent::No };
        match told["kind"].as_str().unwrap_or_default() {
            // The client ended it; it will again.
            "cancelled" | "closed" => self.until(scope, || false).err().unwrap_or(Fault::Closed),
            "timeout" => {
                let all = [Budget::Connect, Budget::Idle, Budget::Probe, Budget::Grace, Budget::Wait];
                let budget = all.into_iter().find(|budget| budget.option() == detail).unwrap_or(Budget::Total);
                Fault::Timeout { budget, sent }
            }
            "connect" => Fault::Connect(detail),
            "tls" => Fault::Tls(detail),
            "start" => Fault::Start(detail),
            "http" => Fault::Status(HttpRefusal {
                status: told["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(500),
                retry_after: told["retry_after_ms"].as_u64().map(Duration::from_millis),
                challenges: Vec::new(),
                body: told["body"].as_str().unwrap_or_default().to_owned(),
                moved: told["moved"].as_str().map(str::to_owned),
            }),
            "exited" => {
                let number = |key: &str| told[key].as_i64().and_then(|number| i32::try_from(number).ok());
                Fault::Exited { sent, end: ChildEnd { code: number("code"), signal: number("signal"), stderr: detail } }
            }
            "no_answer" => Fault::NotAnAnswer { detail },
            _ => Fault::Io { sent, detail },
        }
    }
}

fn read_line(line: &Value, number: usize, scenes: &mut BTreeMap<u64, Scene>) -> Option<()> {
    let (kind, of) = (line["kind"].as_str()?, line["n"].as_u64()?);
    let text = |key: &str| line[key].as_str().map(str::to_owned);
    if line["dir"] == ">" {
        let message =
            line.get("message").map_or(Some(Value::Null), |text| serde_json::from_str(text.as_str()?).ok())?;
        let scene = Scene {
            kind: kind.to_owned(),
            about: about(&message),
            id: message["id"].clone(),
            token: message["params"]["_meta"]["progressToken"].clone(),
            line: number,
            parts: Vec::new(),
            played: false,
        };
        return scenes.insert(of, scene).is_none().then_some(());
    }
    let what = match kind {
        "message" => What::Message(text("message")?),
        "session" => What::Session,
        "opened" => What::Opened,
        "event" => What::Event(text("event")?, text("data")?),
        "end" => What::End(line.get("fault").cloned()),
        _ => return None,
    };
    scenes.get_mut(&of)?.parts.push(Part { line: number, what });
    Some(())
}

/// What a message is about: its method, and what that is asked of; of an answer, the id.
fn about(message: &Value) -> (String, String) {
    let Some(method) = message["method"].as_str() else {
        return (String::new(), message["id"].to_string());
    };
    let params = &message["params"];
    let subject = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()).unwrap_or_default();
    (method.to_owned(), subject.to_owned())
}

/// A recorded message with the ids of now, and the id of what the server asks in it.
fn dressed(text: &str, scene: &Scene, new: &Value) -> (String, Option<String>) {
    let Ok(mut message) = serde_json::from_str::<Value>(text) else {
        return (text.to_owned(), None);
    };
    let Some(method) = message["method"].as_str() else {
        if !scene.id.is_null() && message["id"] == scene.id {
            message["id"] = new["id"].clone();
            return (message.to_string(), None);
        }
        return (text.to_owned(), None);
    };
    if method == "notifications/progress" && !scene.token.is_null() && message["params"]["progressToken"] == scene.token
    {
        message["params"]["progressToken"] = new["params"]["_meta"]["progressToken"].clone();
        return (message.to_string(), None);
    }
    (text.to_owned(), message.get("id").map(Value::to_string))
}

impl Transport for Replay {
    fn exchange(
        &self,
        outgoing: Outgoing<'_>,
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
    ) -> std::result::Result<(), Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Fault::Closed);
        }
        let message: Value = serde_json::from_str(outgoing.body).unwrap_or_default();
        let about = about(&message);
        let Some(scene) = self.take("request", &about) else {
            let what = one_line(&format!("{} {}", about.0, about.1));
            return Err(Fault::NotAnAnswer {
                detail: format!("the record has no further request {}", what.trim_end()),
            });
        };
        self.play(&scene, &message, scope, sink)
    }

    /// A notification that the record does not have is taken, as servers take any.
    fn notify(&self, outgoing: Outgoing<'_>, scope: &Scope<'_>) -> std::result::Result<(), Fault> {
        let message: Value = serde_json::from_str(outgoing.body).unwrap_or_default();
        let about = about(&message);
        if about.0.is_empty() {
            self.answered.lock().insert(about.1.clone());
        }
        match self.take("notification", &about).and_then(|scene| scene.parts.into_iter().next_back()) {
            Some(Part { what: What::End(Some(fault)), .. }) => Err(self.fault(&fault, scope)),
            _ => Ok(()),
        }
    }

    fn link(&self) -> LinkKind {
        self.link
    }

    fn listen(
        &self,
        _: &[(&str, &str)],
        scope: &Scope<'_>,
        sink: &mut dyn FrameSink,
    ) -> std::result::Result<(), Fault> {
        match self.take("listen", &about(&Value::Null)) {
            Some(scene) => self.play(&scene, &Value::Null, scope, sink),
            None => Ok(()),
        }
    }

    fn life(&self) -> u64 {
        u64::from(self.link == LinkKind::Stream)
    }

    fn old_stream(
        self: Arc<Self>,
        _: &Arc<dyn Spawn>,
        scope: &Scope<'_>,
    ) -> std::result::Result<Arc<dyn Transport>, Fault> {
        let end = self.take("old_stream", &about(&Value::Null)).and_then(|scene| scene.parts.into_iter().next_back());
        match end.map(|part| part.what) {
            Some(What::End(None)) => Ok(self),
            Some(What::End(Some(fault))) => Err(self.fault(&fault, scope)),
            _ => Err(Fault::NotAnAnswer { detail: "the record has no HTTP+SSE".into() }),
        }
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
