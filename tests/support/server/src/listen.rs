//! `subscriptions/listen`: what one stream is told, in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::action::Action;
use crate::brain::Brain;
use crate::script::Push;
use crate::subst::Vars;
use crate::world::{Change, World};

/// One subscription. The carrier asks it for the next message until the client leaves.
pub(crate) struct Listener {
    id: Value,
    acknowledged: Map<String, Value>,
    changes: HashSet<&'static str>,
    resources: HashSet<String>,
    tasks: HashSet<String>,
    /// Versions already told, so that two changes between two looks are one push.
    told: HashMap<String, u64>,
    journal_at: usize,
    changes_at: usize,
    queue: VecDeque<Value>,
    /// Scripted pushes, soonest first.
    scripted: VecDeque<(Instant, Value)>,
    begun: bool,
}

/// What a stream has to do next.
pub(crate) enum Turn {
    Say(Value),
    /// Nothing now; look again at this moment, or when the world moves.
    Wait(Option<Instant>),
}

const LISTS: [(&str, Change, &str); 3] = [
    ("toolsListChanged", Change::Tools, "notifications/tools/list_changed"),
    ("promptsListChanged", Change::Prompts, "notifications/prompts/list_changed"),
    ("resourcesListChanged", Change::Resources, "notifications/resources/list_changed"),
];

impl Listener {
    pub(crate) fn open(brain: &Brain, id: &Value, filter: &Map<String, Value>) -> Self {
        let world = brain.world.lock();
        let mut listener = Self {
            id: id.clone(),
            acknowledged: Map::new(),
            changes: HashSet::new(),
            resources: strings(filter, "resourceSubscriptions"),
            tasks: strings(filter, "taskIds"),
            told: HashMap::new(),
            journal_at: world.tasks.journal().len(),
            changes_at: world.changes.len(),
            queue: VecDeque::new(),
            scripted: VecDeque::new(),
            begun: false,
        };
        for (key, _, _) in &LISTS {
            if filter.get(*key).and_then(Value::as_bool) == Some(true) {
                listener.changes.insert(key);
                listener.acknowledged.insert((*key).to_owned(), true.into());
            }
        }
        if let Some(uris) = filter.get("resourceSubscriptions") {
            listener.acknowledged.insert("resourceSubscriptions".to_owned(), uris.clone());
        }
        // A scripted task that never pushes is not granted: its followers would wait for nothing.
        let pushes = |task: &str| world.tasks.life_of(task).is_none_or(|life| !life.pushes.is_empty());
        listener.tasks.retain(|task| brain.options.tasks && world.tasks.knows(task) && pushes(task));
        if let Some(asked) = filter.get("taskIds").and_then(Value::as_array).filter(|_| brain.options.tasks) {
            let granted: Vec<&Value> =
                asked.iter().filter(|task| task.as_str().is_some_and(|task| listener.tasks.contains(task))).collect();
            listener.acknowledged.insert("taskIds".to_owned(), json!(granted));
        }
        listener.schedule(brain, &world);
        listener
    }

    fn schedule(&mut self, brain: &Brain, world: &World) {
        let mut pushes = Vec::new();
        for task in &self.tasks {
            let Some(life) = world.tasks.life_of(task) else {
                continue;
            };
            let mut at = brain.clock.now();
            for Push { delay, task: fields } in &life.pushes {
                at += *delay;
                let mut params = world.tasks.seed(task, &brain.clock);
                crate::subst::lay_over(&mut params, &json!({"resultType": "$absent"}));
                crate::subst::lay_over(&mut params, &Value::Object(fields.clone()));
                pushes.push((at, params));
            }
        }
        pushes.sort_by_key(|(at, _)| *at);
        self.scripted = pushes.into();
    }

    /// A rule's `id` shapes the subscription's id, its `patch` what is acknowledged (and so granted).
    pub(crate) fn adjust(&mut self, action: &Action, vars: &Vars) {
        let mut carrier = json!({"id": self.id});
        crate::render::form_id(&mut carrier, action.id);
        self.id = carrier["id"].take();
        if let Some(patch) = &action.patch {
            let mut granted = Value::Object(std::mem::take(&mut self.acknowledged));
            crate::subst::lay_over(&mut granted, &vars.fill(patch));
            self.acknowledged = granted.as_object().cloned().unwrap_or_default();
            self.tasks = strings(&self.acknowledged, "taskIds");
        }
    }

    /// The next message, or until when there is none.
    pub(crate) fn turn(&mut self, brain: &Brain, world: &mut World) -> Turn {
        if !self.begun {
            self.begun = true;
            world.acknowledged += 1;
            let params = json!({"notifications": self.acknowledged});
            return Turn::Say(self.notification("notifications/subscriptions/acknowledged", params));
        }
        let now = brain.clock.now();
        world.tasks.tick(now);
        self.collect(brain, world);
        while self.scripted.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, params)) = self.scripted.pop_front() else {
                break;
            };
            let message = self.notification("notifications/tasks", params);
            self.queue.push_back(message);
        }
        match self.queue.pop_front() {
            Some(message) => Turn::Say(message),
            None => Turn::Wait(earliest(world.tasks.next_due(), self.scripted.front().map(|(at, _)| *at))),
        }
    }

    /// The graceful end of the subscription.
    pub(crate) fn farewell(&self) -> Value {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": self.id});
        json!({"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", "_meta": meta}})
    }

    fn collect(&mut self, brain: &Brain, world: &World) {
        for change in &world.changes[self.changes_at..] {
            if let Some(message) = self.heard(change) {
                self.queue.push_back(message);
            }
        }
        self.changes_at = world.changes.len();
        for task in &world.tasks.journal()[self.journal_at..] {
            if !self.tasks.contains(task) {
                continue;
            }
            let Some((version, params)) = world.tasks.pushed(task, &brain.clock) else {
                continue;
            };
            if self.told.insert(task.clone(), version) != Some(version) {
                let message = self.notification("notifications/tasks", params);
                self.queue.push_back(message);
            }
        }
        self.journal_at = world.tasks.journal().len();
    }

    fn heard(&self, change: &Change) -> Option<Value> {
        if let Change::Resource(uri) = change {
            let wanted = self.resources.contains(uri);
            return wanted.then(|| self.notification("notifications/resources/updated", json!({"uri": uri})));
        }
        let (key, _, method) = LISTS.iter().find(|(_, kind, _)| kind == change)?;
        self.changes.contains(key).then(|| self.notification(method, json!({})))
    }

    fn notification(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": self.id});
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    }
}

fn strings(filter: &Map<String, Value>, key: &str) -> HashSet<String> {
    let list = filter.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
