//! Subscriptions (`basic/patterns/subscriptions`): the filter, the acknowledgment, and whose a notification is.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Kind, Result};
use crate::protocol::json::{Json, Members, elements, quote};
use crate::protocol::jsonrpc::{WireId, read_id};

/// `notifications/subscriptions/acknowledged`.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The member of a filter for tasks (tasks extension, "Task Notifications").
pub const TASK_IDS: &str = "taskIds";
/// `notifications/resources/updated`.
pub const UPDATED: &str = "notifications/resources/updated";

/// The lists whose changes can be heard: member of the filter, capability of a legacy server, notification.
const LISTS: [(&str, &str, &str); 3] = [
    ("toolsListChanged", "tools", "notifications/tools/list_changed"),
    ("promptsListChanged", "prompts", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "resources", "notifications/resources/list_changed"),
];

/// A filter as far as a legacy server can serve it: the lists in the order of [`LISTS`], and the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    lists: [bool; 3],
    /// The resources whose updates are wanted.
    pub uris: Vec<String>,
}

impl Filter {
    /// Reads the filter of a request; `params` are the members of its params, each with a comma behind.
    ///
    /// # Errors
    /// [`Kind::Argument`] where there is no filter.
    pub fn read(params: &str) -> Result<Self> {
        let whole = format!("{{{}}}", params.trim_end_matches(','));
        let missing = || Error::new(Kind::Argument, "params.notifications: expected an object");
        let params = Members::parse(&whole)?;
        let members = Members::parse(params.some("notifications").ok_or_else(missing)?).map_err(|_| missing())?;
        let mut uris: Vec<String> = members.some("resourceSubscriptions").map(strings).unwrap_or_default();
        uris.sort_unstable();
        uris.dedup();
        Ok(Self { lists: LISTS.map(|(member, _, _)| members.boolean(member) == Some(true)), uris })
    }

    /// Updates of these resources alone.
    #[cfg(test)]
    pub(crate) fn of_resources(uris: &[&str]) -> Self {
        Self { lists: [false; 3], uris: uris.iter().map(|uri| (*uri).to_owned()).collect() }
    }

    /// What of it a legacy server with these capabilities serves (2025-11-25 `server/resources`, "Capabilities").
    #[must_use]
    pub fn within(&self, capabilities: &Json) -> Self {
        let capabilities = capabilities.members().ok();
        let can = |part: &str, what: &str| {
            let part = capabilities.as_ref().and_then(|can| Members::parse(can.some(part)?).ok());
            part.is_some_and(|part| part.boolean(what) == Some(true))
        };
        let mut lists = self.lists;
        for (granted, (_, part, _)) in lists.iter_mut().zip(LISTS) {
            *granted = *granted && can(part, "listChanged");
        }
        Self { lists, uris: if can("resources", "subscribe") { self.uris.clone() } else { Vec::new() } }
    }

    /// The filter object of an acknowledgment.
    #[must_use]
    pub fn write(&self) -> Json {
        let lists = LISTS.iter().zip(self.lists).filter(|(_, granted)| *granted);
        let mut members: Vec<String> = lists.map(|((member, _, _), _)| format!("{}:true", quote(member))).collect();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| quote(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        Json::trusted(format!("{{{}}}", members.join(",")))
    }

    /// Whether a notification belongs to it. The updated resource may lie below the one that was subscribed to
    /// (2025-11-25 `schema`, "ResourceUpdatedNotification").
    #[must_use]
    pub fn takes(&self, of_method: &str, params: &Json) -> bool {
        if let Some((_, wanted)) = LISTS.iter().zip(self.lists).find(|((_, _, method), _)| *method == of_method) {
            return wanted;
        }
        if of_method != UPDATED {
            return false;
        }
        let uri = params.members().ok().and_then(|members| members.string("uri"));
        uri.is_some_and(|uri| self.uris.iter().any(|known| lies_below(&uri, known)))
    }
}

fn lies_below(uri: &str, root: &str) -> bool {
    uri.strip_prefix(root).is_some_and(|rest| rest.is_empty() || root.ends_with('/') || rest.starts_with('/'))
}

fn strings(raw: &str) -> Vec<String> {
    elements(raw).unwrap_or_default().into_iter().filter_map(|raw| serde_json::from_str(raw).ok()).collect()
}

/// The filter that an acknowledgment grants; `{}` where it says nothing.
#[must_use]
pub fn granted(params: &Json) -> Json {
    let members = params.members().ok();
    members.and_then(|members| members.some("notifications").map(|raw| params.slice(raw))).unwrap_or_else(empty)
}

/// The texts of a member of a filter; [`None`] where it has no such member.
#[must_use]
pub fn texts_of(filter: &Json, member: &str) -> Option<Vec<String>> {
    filter.members().ok()?.some(member).map(strings)
}

fn empty() -> Json {
    Json::trusted("{}")
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Params<'a> {
    #[serde(borrow, rename = "requestId")]
    request: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

/// What a message's `_meta` says of its subscription.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId")]
    pub(super) subscription: Option<&'a RawValue>,
}

/// The subscription that the params of a notification name.
#[must_use]
pub fn subscription_id(params: &Json) -> WireId {
    let params: Params<'_> = serde_json::from_str(params.text()).unwrap_or_default();
    read_id(params.meta.and_then(|meta| meta.subscription))
}

/// The request that a `notifications/cancelled` names.
#[must_use]
pub fn cancelled_id(params: &Json) -> WireId {
    let params: Params<'_> = serde_json::from_str(params.text()).unwrap_or_default();
    read_id(params.request)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: &str = r#""notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true,"resourceSubscriptions":["file:///a","file:///b/"],"taskIds":["t"]},"#;

    #[test]
    fn a_legacy_server_grants_what_it_declares() {
        let wanted = Filter::read(WANTED).unwrap();
        for (capabilities, granted) in [
            ("{}", "{}"),
            (r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true}}"#, r#"{"toolsListChanged":true}"#),
            (r#"{"tools":{},"resources":{"listChanged":true}}"#, r#"{"resourcesListChanged":true}"#),
            (
                r#"{"resources":{"subscribe":true,"listChanged":"yes"}}"#,
                r#"{"resourceSubscriptions":["file:///a","file:///b/"]}"#,
            ),
        ] {
            assert_eq!(wanted.within(&Json::trusted(capabilities)).write().text(), granted, "{capabilities}");
        }
        for bad in ["", r#""notifications":[],"#, r#""notifications":null,"#] {
            assert_eq!(Filter::read(bad).unwrap_err().kind(), Kind::Argument, "{bad}");
        }
    }

    #[test]
    fn a_notification_belongs_to_the_filter_that_names_it() {
        let filter = Filter::read(WANTED).unwrap();
        for (method, uri, takes) in [
            ("notifications/tools/list_changed", "", true),
            ("notifications/prompts/list_changed", "", false),
            ("notifications/message", "", false),
            (UPDATED, "file:///a", true),
            (UPDATED, "file:///a/below", true),
            (UPDATED, "file:///ab", false),
            (UPDATED, "file:///b/x", true),
            (UPDATED, "file:///c", false),
        ] {
            let params = Json::trusted(format!("{{\"uri\":{}}}", quote(uri)));
            assert_eq!(filter.takes(method, &params), takes, "{method} {uri}");
        }
    }

    #[test]
    fn ids_are_read_where_they_stand() {
        let params = Json::trusted(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"6"},"requestId":7}"#);
        assert_eq!(subscription_id(&params), WireId::Text("6".into()));
        assert_eq!(cancelled_id(&params), WireId::Number(7));
        assert_eq!(subscription_id(&Json::trusted(r#"{"_meta":[]}"#)), WireId::Missing);
        let params = Json::trusted(r#"{"notifications":{"taskIds":["a",7,"b"]}}"#);
        assert_eq!(texts_of(&granted(&params), TASK_IDS).unwrap(), ["a", "b"]);
        assert_eq!(texts_of(&granted(&params), "resourceSubscriptions"), None);
        assert_eq!(granted(&Json::trusted("{}")).text(), "{}");
    }
}
