//! A request read as JSON-RPC, as far as it is: what rules and placeholders look at.

use serde_json::Value;

use crate::action::Action;
use crate::headers::name_of;
use crate::rules::Facts;
use crate::shared::Shared;
use crate::subst::Vars;

/// The body read as JSON-RPC, as far as it is.
pub(crate) struct Parsed {
    /// Nothing was sent, or an empty line.
    pub(crate) blank: bool,
    pub(crate) message: Option<Value>,
    pub(crate) method: Option<String>,
    pub(crate) name: Option<String>,
}

impl Parsed {
    pub(crate) fn new(body: &[u8]) -> Self {
        let message: Option<Value> = serde_json::from_slice(body).ok();
        let method = message.as_ref().and_then(|message| message.get("method")?.as_str()).map(str::to_owned);
        let params = message.as_ref().and_then(|message| message.get("params")?.as_object());
        let name = method.as_deref().zip(params).and_then(|(method, params)| match method {
            // Of the legacy eras, which have no header for it.
            "resources/subscribe" | "resources/unsubscribe" => params.get("uri")?.as_str(),
            _ => name_of(method, params),
        });
        let name = name.map(str::to_owned);
        Self { blank: body.is_empty(), message, method, name }
    }

    pub(crate) fn params(&self) -> Option<&Value> {
        self.message.as_ref()?.get("params")
    }

    /// What the rules say to this request; `facts` has what the carrier knows.
    pub(crate) fn decide(&self, shared: &Shared, facts: Facts<'_>) -> (Action, u64) {
        if shared.rules.is_empty() {
            return (Action::default(), 0);
        }
        let mut world = shared.brain.world.lock();
        let name = self.name.as_deref();
        let is_task = self.method.as_deref().is_some_and(|method| method.starts_with("tasks/"));
        let tool = if is_task {
            name.and_then(|name| world.tasks.tool_of(name)).map(str::to_owned)
        } else {
            name.map(str::to_owned)
        };
        let (method, params) = (self.method.as_deref(), self.params());
        let facts = Facts { method, name, tool: tool.as_deref(), params, ..facts };
        world.hits.decide(&shared.rules, &facts).unwrap_or_default()
    }

    pub(crate) fn vars(&self, shared: &Shared, count: u64) -> Vars {
        let at = |pointer: &str| {
            self.message.as_ref().and_then(|message| message.pointer(pointer)).cloned().unwrap_or_default()
        };
        if shared.rules.is_empty() && shared.brain.lives.is_empty() {
            // Nothing scripted: spare large arguments the copying.
            return Vars::new(vec![("$id", at("/id"))]);
        }
        let now = shared.brain.clock.iso(shared.brain.clock.now());
        let port = shared.base.rsplit(':').next().unwrap_or_default();
        Vars::new(vec![
            ("$id", at("/id")),
            ("$token", at("/params/_meta/progressToken")),
            ("$taskId", at("/params/taskId")),
            ("$name", self.name.clone().into()),
            ("$arguments", at("/params/arguments")),
            ("$params", at("/params")),
            ("$n", count.into()),
            ("$now", now.into()),
            ("$base", shared.base.clone().into()),
            ("$port", port.into()),
        ])
    }
}
