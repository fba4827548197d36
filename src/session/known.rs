//! What is known of a server's lists and resources: the answers that are kept, and how often each list has changed.
//!
//! The cache is this client's alone, and a client is one user: an answer of scope `public` and one of scope `private`
//! are kept alike, and neither is shared.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use parking_lot::Mutex;

use crate::protocol::freshness::time_to_live;
use crate::protocol::json::Json;
use crate::protocol::limits::Limits;
use crate::protocol::method::{self, ListKind};
use crate::protocol::page::read_page;
use crate::session::cache::{About, Cache, Key};
use crate::session::request::CacheUse;
use crate::session::tools::Tools;

/// Pages whose texts are remembered, and names of tools; chosen, beyond what real servers have. Over it, a change is
/// only seen where the server tells it.
const MOST: usize = 100_000;

/// The life of a channel that is over, and not begun anew.
pub(super) const NO_LIFE: u64 = u64::MAX;

/// How far a list has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Grows with each change, from 1.
    pub generation: u64,
    /// Grows with those that the server told, or that a new session stands for.
    pub told: u64,
}

struct List {
    mark: Mark,
    /// Hashes: request to the entries that answered it the last time.
    texts: HashMap<u64, u64>,
    /// Hashes of the tools' names.
    names: HashSet<u64>,
}

impl Default for List {
    fn default() -> Self {
        Self { mark: Mark { generation: 1, told: 0 }, texts: HashMap::new(), names: HashSet::new() }
    }
}

struct State {
    cache: Cache,
    lists: [List; 3],
    /// Grows with each resource that the server says has changed.
    updates: u64,
    /// Grows with each new session.
    sessions: u64,
    /// The session or the life of the channel that all this comes from.
    life: Option<u64>,
    hits: u64,
}

/// What is known.
pub(super) struct Known {
    /// The tools that were listed.
    pub(super) tools: Tools,
    state: Mutex<State>,
}

/// Taken before a request is sent: its answer is only kept where nothing has changed meanwhile.
pub(super) struct Ticket {
    /// The request.
    pub key: Key,
    /// The host's wish.
    cache: CacheUse,
    /// How far that which it asks for had come.
    at: u64,
}

/// What is kept, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Answers.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Requests that were answered so.
    pub hits: u64,
}

impl Known {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            tools: Tools::default(),
            state: Mutex::new(State {
                cache: Cache::new(limits.cache_entries, limits.cache_bytes),
                lists: Default::default(),
                updates: 0,
                sessions: 0,
                life: None,
                hits: 0,
            }),
        }
    }

    /// The session, or the life of the channel, that answers come from now. Another one may have other lists, and has
    /// told nobody.
    pub(super) fn enter(&self, life: u64) {
        let mut state = self.state.lock();
        // A channel that is down answers nothing: what comes up again counts. An earlier one is an answer that was
        // slow.
        if life == NO_LIFE || state.life.is_some_and(|known| life <= known) {
            return;
        }
        if state.life.replace(life).is_some() {
            state.sessions += 1;
            state.updates += 1;
            for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
                state.told(kind);
            }
            state.cache.forget(|_| true);
        }
    }

    /// Takes a notification.
    pub(super) fn hear(&self, notification: &str, params: &Json) {
        if let Some(kind) = method::changed_list(notification) {
            self.state.lock().told(kind);
            if kind == ListKind::Tools {
                self.tools.forget();
            }
        }
        if notification != method::RESOURCE_UPDATED {
            return;
        }
        let uri = params.members().ok().and_then(|members| members.string("uri"));
        let mut state = self.state.lock();
        state.updates += 1;
        // It may be a part of the resource that was read (`server/resources`, "Subscriptions"). Without a URI it may be
        // any.
        state.cache.forget(|about| match (about, &uri) {
            (About::Read(read), Some(uri)) => uri.starts_with(read.as_str()),
            (About::Read(_), None) => true,
            (About::List(_) | About::Server, _) => false,
        });
    }

    /// The list has changed, by all that is known.
    pub(super) fn told(&self, kind: ListKind) {
        self.state.lock().told(kind);
    }

    /// The server refuses a call of this tool in a way that a listed tool does not deserve: the list is an old one.
    pub(super) fn doubt_tool(&self, name: &str) {
        let mut state = self.state.lock();
        if state.lists[ListKind::Tools as usize].names.contains(&hash(name)) {
            state.told(ListKind::Tools);
        }
    }

    /// The pages of a list belong together no more: its cursors are not known to the server.
    pub(super) fn forget_pages(&self, kind: ListKind) {
        self.state.lock().cache.forget(|about| *about == About::List(kind));
    }

    pub(super) fn mark(&self, kind: ListKind) -> Mark {
        self.state.lock().lists[kind as usize].mark
    }

    /// The kept answer, where the host's wish and its age allow it.
    pub(super) fn find(&self, key: &Key, cache: CacheUse, now: Instant) -> Option<Json> {
        let any_age = match cache {
            CacheUse::Refresh | CacheUse::Off => return None,
            CacheUse::Server => false,
            // Nothing ever tells that the server itself has changed.
            CacheUse::UntilChanged => key.about != About::Server,
        };
        let mut state = self.state.lock();
        let found = state.cache.get(key, now, any_age);
        state.hits += u64::from(found.is_some());
        found
    }

    pub(super) fn ticket(&self, key: Key, cache: CacheUse) -> Ticket {
        let at = self.state.lock().progress(&key.about);
        Ticket { key, cache, at }
    }

    /// Learns from an answer of the server's, and keeps it where the server or the host says so.
    pub(super) fn learn(&self, ticket: Ticket, answer: &Json, now: Instant) {
        let Ticket { key, cache, at } = ticket;
        let ttl = time_to_live(answer);
        let fresh_until = now.checked_add(ttl).filter(|_| !ttl.is_zero());
        let page = match &key.about {
            About::List(kind) => Some((*kind, hash(&key), Entries::read(*kind, &key, answer))),
            About::Read(_) | About::Server => None,
        };
        let mut state = self.state.lock();
        if state.progress(&key.about) != at {
            return;
        }
        if let Some((kind, request, entries)) = page {
            state.compare(kind, request, entries);
        }
        match cache {
            CacheUse::Off => {}
            CacheUse::Server => state.cache.put(key, answer.clone(), fresh_until, false),
            CacheUse::UntilChanged | CacheUse::Refresh => {
                let wanted = key.about != About::Server;
                state.cache.put(key, answer.clone(), fresh_until, wanted);
            }
        }
    }

    pub(super) fn kept(&self) -> Kept {
        let state = self.state.lock();
        let (entries, bytes) = state.cache.size();
        Kept { entries, bytes, hits: state.hits }
    }
}

impl State {
    fn told(&mut self, kind: ListKind) {
        let list = &mut self.lists[kind as usize];
        list.mark.generation += 1;
        list.mark.told += 1;
        list.texts.clear();
        list.names.clear();
        self.cache.forget(|about| *about == About::List(kind));
    }

    fn progress(&self, about: &About) -> u64 {
        match about {
            About::List(kind) => self.lists[*kind as usize].mark.generation,
            About::Read(_) => self.updates,
            About::Server => self.sessions,
        }
    }

    /// A page that is not what it was: the list has changed, though nobody told. Its other pages are of the old one.
    fn compare(&mut self, kind: ListKind, request: u64, entries: Entries) {
        let list = &mut self.lists[kind as usize];
        if list.texts.len() < MOST || list.texts.contains_key(&request) {
            let before = list.texts.insert(request, entries.text);
            if before.is_some_and(|before| before != entries.text) {
                list.mark.generation += 1;
                self.cache.forget(|about| *about == About::List(kind));
            }
        }
        let room = MOST.saturating_sub(list.names.len());
        list.names.extend(entries.names.into_iter().take(room));
    }
}

/// What is remembered of a page: hashes.
struct Entries {
    text: u64,
    names: Vec<u64>,
}

impl Entries {
    fn read(kind: ListKind, key: &Key, answer: &Json) -> Self {
        let member = method::list_member(&key.method).unwrap_or_default();
        // The entries alone: cursors, `_meta` and the time to live may differ each time.
        let text = answer.members().ok().map(|members| hash(members.raw(member).unwrap_or_default()));
        let page = (kind == ListKind::Tools).then(|| read_page(answer, member).ok()).flatten();
        let names = page.map(|page| page.items).unwrap_or_default();
        let names = names.iter().filter_map(|tool| tool.members().ok()?.string("name"));
        Self { text: text.unwrap_or_default(), names: names.map(|name| hash(name.as_str())).collect() }
    }
}

fn hash<T: Hash + ?Sized>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    const ALL: [ListKind; 3] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];

    fn key(method: &str, params: &str) -> Key {
        let about = match (method::list_kind(method), method) {
            (Some(kind), _) => About::List(kind),
            (None, method::RESOURCES_READ) => About::Read("file:///a".into()),
            (None, _) => About::Server,
        };
        Key { method: method.into(), params: params.into(), about }
    }

    /// Fetches an answer that is kept for as long as nothing changes.
    fn fetch(known: &Known, method: &str, params: &str, text: &str) {
        let ticket = known.ticket(key(method, params), CacheUse::UntilChanged);
        known.learn(ticket, &Json::parse(text).unwrap(), SystemClock.now());
    }

    fn has(known: &Known, method: &str, params: &str) -> bool {
        known.find(&key(method, params), CacheUse::UntilChanged, SystemClock.now()).is_some()
    }

    fn generations(known: &Known) -> [u64; 3] {
        ALL.map(|kind| known.mark(kind).generation)
    }

    fn full() -> Known {
        let known = Known::new(&Limits::default());
        known.enter(1);
        for params in ["", "\"cursor\":\"2\","] {
            fetch(&known, "tools/list", params, r#"{"tools":[{"name":"t"}]}"#);
            fetch(&known, "prompts/list", params, r#"{"prompts":[]}"#);
            fetch(&known, "resources/list", params, r#"{"resources":[]}"#);
            fetch(&known, "resources/templates/list", params, r#"{"resourceTemplates":[]}"#);
        }
        fetch(&known, "resources/read", "\"uri\":\"file:///a\",", r#"{"contents":[]}"#);
        assert_eq!(known.kept().entries, 9);
        known
    }

    /// Which of the fetched answers are still there: each list's pages, the read.
    fn there(known: &Known) -> [bool; 5] {
        let methods = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
        let lists = methods.map(|method| {
            let pages = ["", "\"cursor\":\"2\","].map(|params| has(known, method, params));
            assert_eq!(pages[0], pages[1], "{method}: all pages or none");
            pages[0]
        });
        let read = has(known, "resources/read", "\"uri\":\"file:///a\",");
        [lists[0], lists[1], lists[2], lists[3], read]
    }

    #[test]
    fn a_notification_drops_what_it_is_about() {
        for (notification, params, left, generations_then) in [
            ("notifications/tools/list_changed", "{}", [false, true, true, true, true], [2, 1, 1]),
            ("notifications/prompts/list_changed", "{}", [true, false, true, true, true], [1, 2, 1]),
            ("notifications/resources/list_changed", "{}", [true, true, false, false, true], [1, 1, 2]),
            ("notifications/resources/updated", r#"{"uri":"file:///a"}"#, [true, true, true, true, false], [1, 1, 1]),
            ("notifications/resources/updated", r#"{"uri":"file:///a/b"}"#, [true, true, true, true, false], [1, 1, 1]),
            ("notifications/resources/updated", r#"{"uri":"file:///b"}"#, [true; 5], [1, 1, 1]),
            ("notifications/resources/updated", "{}", [true, true, true, true, false], [1, 1, 1]),
            ("notifications/message", "{}", [true; 5], [1, 1, 1]),
        ] {
            let known = full();
            known.hear(notification, &Json::parse(params).unwrap());
            assert_eq!(there(&known), left, "{notification} {params}");
            assert_eq!(generations(&known), generations_then, "{notification} {params}");
        }
    }

    #[test]
    fn a_new_session_or_life_drops_all() {
        let known = full();
        known.enter(1);
        known.enter(NO_LIFE);
        assert_eq!((there(&known), generations(&known)), ([true; 5], [1, 1, 1]));
        known.enter(2);
        assert_eq!((there(&known), generations(&known)), ([false; 5], [2, 2, 2]));
    }

    #[test]
    fn an_answer_that_a_change_overtook_is_not_kept() {
        type Change = fn(&Known);
        let rows: [(&str, Change); 4] = [
            ("tools/list", |known| known.told(ListKind::Tools)),
            ("resources/templates/list", |known| known.told(ListKind::Resources)),
            ("resources/read", |known| {
                known.hear(method::RESOURCE_UPDATED, &Json::trusted(r#"{"uri":"file:///other"}"#));
            }),
            ("server/discover", |known| known.enter(2)),
        ];
        for (method, change) in rows {
            let known = Known::new(&Limits::default());
            known.enter(1);
            let (ticket, answer) =
                (known.ticket(key(method, ""), CacheUse::Server), Json::trusted(r#"{"ttlMs":60000}"#));
            change(&known);
            known.learn(ticket, &answer, SystemClock.now());
            assert_eq!(known.kept().entries, 0, "{method}");
        }
    }

    #[test]
    fn a_list_that_is_not_what_it_was_has_changed() {
        let known = full();
        // What may differ each time is no change.
        fetch(&known, "tools/list", "", r#"{"ttlMs":5,"_meta":{"at":7},"tools":[{"name":"t"}],"nextCursor":"x"}"#);
        assert_eq!(generations(&known), [1, 1, 1]);
        fetch(&known, "tools/list", "", r#"{"tools":[{"name":"t"},{"name":"u"}]}"#);
        assert_eq!(generations(&known), [2, 1, 1]);
        // The page is kept, the others of the old list are not.
        assert!(has(&known, "tools/list", "") && !has(&known, "tools/list", "\"cursor\":\"2\","));
        fetch(&known, "resources/templates/list", "", r#"{"resourceTemplates":[{"uriTemplate":"a"}]}"#);
        assert_eq!(generations(&known), [2, 1, 2]);
        assert!(!has(&known, "resources/list", ""), "resources and templates are one list");
        // After a change that was told there is nothing to compare with.
        known.told(ListKind::Tools);
        fetch(&known, "tools/list", "", r#"{"tools":[]}"#);
        assert_eq!(generations(&known), [3, 1, 2]);
    }

    #[test]
    fn only_a_listed_tool_is_doubted_and_only_once() {
        let known = full();
        known.doubt_tool("made up");
        assert_eq!(generations(&known), [1, 1, 1]);
        known.doubt_tool("t");
        known.doubt_tool("t");
        assert_eq!((generations(&known), there(&known)), ([2, 1, 1], [false, true, true, true, true]));
    }

    #[test]
    fn each_wish_finds_and_keeps_what_it_says() {
        let text = r#"{"tools":[]}"#;
        let fresh = r#"{"tools":[],"ttlMs":60000}"#;
        use CacheUse::{Off, Refresh, Server, UntilChanged};
        for (asked, answer, again, found) in [
            (Server, fresh, Server, true),
            (Server, text, Server, false),
            (Server, text, UntilChanged, false),
            (UntilChanged, text, UntilChanged, true),
            (UntilChanged, text, Server, false),
            (UntilChanged, fresh, Server, true),
            (Refresh, text, UntilChanged, true),
            (Refresh, fresh, Server, true),
            (Server, fresh, Refresh, false),
            (Server, fresh, Off, false),
            (Off, fresh, Server, false),
            (Off, fresh, UntilChanged, false),
        ] {
            let (known, key) = (Known::new(&Limits::default()), key("tools/list", ""));
            let (now, json) = (SystemClock.now(), Json::trusted(answer));
            known.learn(known.ticket(key.clone(), asked), &json, now);
            assert_eq!(known.find(&key, again, now).is_some(), found, "{asked:?} {answer}, then {again:?}");
            assert_eq!(known.kept().hits, u64::from(found));
        }
    }

    #[test]
    fn what_is_said_of_the_server_itself_is_kept_as_the_server_says_alone() {
        let (known, key) = (Known::new(&Limits::default()), key("server/discover", ""));
        let now = SystemClock.now();
        for (text, found) in [("{}", false), (r#"{"ttlMs":60000}"#, true)] {
            known.learn(known.ticket(key.clone(), CacheUse::UntilChanged), &Json::trusted(text), now);
            assert_eq!(known.find(&key, CacheUse::UntilChanged, now).is_some(), found, "{text}");
        }
    }
}
