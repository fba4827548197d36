//! The answers that are kept: bounded in number and bytes, the least used go first. Pure: the time is handed in.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::protocol::json::Json;
use crate::protocol::method::ListKind;

/// What an entry costs beside its texts; chosen, about what the tables take.
const OVERHEAD: usize = 256;

/// Which answer: the request that asks for it, without its `_meta` (`server/utilities/caching`, "Cache Key").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The method.
    pub method: String,
    /// The members of the parameters, as they are sent.
    pub params: String,
    /// What the answer is about.
    pub about: About,
}

/// What an answer is about: what drops it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// A page of a list.
    List(ListKind),
    /// The contents of the resource with this URI.
    Read(String),
    /// The server itself.
    Server,
}

struct Entry {
    answer: Json,
    /// Until when the server calls it fresh; absent where it does not.
    fresh_until: Option<Instant>,
    /// Its place in the order of use.
    used: u64,
    bytes: usize,
}

/// The answers.
pub(super) struct Cache {
    entries: HashMap<Key, Entry>,
    /// The least used first.
    order: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
    most_entries: usize,
    most_bytes: usize,
}

impl Cache {
    pub(super) fn new(most_entries: usize, most_bytes: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), uses: 0, bytes: 0, most_entries, most_bytes }
    }

    /// The answer to a request, where it is kept and fresh; with `any_age`, where it is kept.
    pub(super) fn get(&mut self, key: &Key, now: Instant, any_age: bool) -> Option<Json> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        if !any_age && entry.fresh_until.is_none_or(|until| now >= until) {
            return None;
        }
        self.order.remove(&entry.used);
        entry.used = self.uses;
        self.order.insert(self.uses, key.clone());
        Some(entry.answer.clone())
    }

    /// Keeps an answer in place of an earlier one. One that nobody calls fresh is kept only where it is `wanted` all
    /// the same, or where an earlier one was.
    pub(super) fn put(&mut self, key: Key, answer: Json, fresh_until: Option<Instant>, wanted: bool) {
        let earlier = self.remove(&key);
        let bytes = key.method.len() + 2 * key.params.len() + answer.text().len() + OVERHEAD;
        let keep = fresh_until.is_some() || wanted || earlier;
        if !keep || bytes > self.most_bytes || self.most_entries == 0 {
            return;
        }
        while self.entries.len() >= self.most_entries || self.bytes + bytes > self.most_bytes {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { answer, fresh_until, used: self.uses, bytes });
    }

    /// Drops what is about this.
    pub(super) fn forget(&mut self, is_about: impl Fn(&About) -> bool) {
        let gone: Vec<Key> = self.entries.keys().filter(|key| is_about(&key.about)).cloned().collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// The number of answers, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    fn remove(&mut self, key: &Key) -> bool {
        let Some(entry) = self.entries.remove(key) else {
            return false;
        };
        self.order.remove(&entry.used);
        self.bytes -= entry.bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn key(params: &str) -> Key {
        Key { method: "resources/read".into(), params: params.into(), about: read(params) }
    }

    fn answer(text: &str) -> Json {
        Json::trusted(format!("\"{text}\""))
    }

    fn read(uri: &str) -> About {
        About::Read(uri.into())
    }

    #[test]
    fn an_answer_is_fresh_until_its_moment_and_kept_beyond_it() {
        let (mut cache, start) = (Cache::new(10, 10_000), SystemClock.now());
        let at = |ms| start + Duration::from_millis(ms);
        cache.put(key("a"), answer("one"), Some(at(100)), false);
        for (now, any_age, found) in [(0, false, true), (99, false, true), (100, false, false), (100, true, true)] {
            assert_eq!(cache.get(&key("a"), at(now), any_age).is_some(), found, "at {now}, any age: {any_age}");
        }
        assert!(cache.get(&key("b"), at(0), true).is_none());
    }

    #[test]
    fn what_nobody_calls_fresh_is_kept_only_where_it_is_wanted() {
        let (mut cache, now) = (Cache::new(10, 10_000), SystemClock.now());
        cache.put(key("a"), answer("one"), None, false);
        assert_eq!(cache.size(), (0, 0));
        cache.put(key("a"), answer("one"), None, true);
        assert!(cache.get(&key("a"), now, false).is_none());
        assert_eq!(cache.get(&key("a"), now, true).unwrap().text(), "\"one\"");
        // The newer answer is the better one, whoever asked for it.
        cache.put(key("a"), answer("two"), None, false);
        assert_eq!(cache.get(&key("a"), now, true).unwrap().text(), "\"two\"");
    }

    #[test]
    fn the_least_used_goes_first() {
        let (mut cache, now) = (Cache::new(3, 100_000), SystemClock.now());
        for name in ["a", "b", "c"] {
            cache.put(key(name), answer(name), None, true);
        }
        assert!(cache.get(&key("a"), now, true).is_some());
        cache.put(key("d"), answer("d"), None, true);
        let there = |cache: &mut Cache| ["a", "b", "c", "d"].map(|name| cache.get(&key(name), now, true).is_some());
        assert_eq!(there(&mut cache), [true, false, true, true]);
        assert_eq!(cache.size().0, 3);
    }

    #[test]
    fn bytes_are_bounded_and_given_back() {
        let (mut cache, now) = (Cache::new(1_000, 10_000), SystemClock.now());
        for n in 0..100 {
            cache.put(key(&n.to_string()), answer(&"x".repeat(1_000)), None, true);
            assert!(cache.size().1 <= 10_000, "{:?}", cache.size());
        }
        assert!(cache.get(&key("99"), now, true).is_some() && cache.get(&key("0"), now, true).is_none());
        // Larger than all of it: not kept, and nothing else goes for it.
        let before = cache.size();
        cache.put(key("large"), answer(&"x".repeat(20_000)), None, true);
        assert_eq!(cache.size(), before);
        cache.forget(|about| matches!(about, About::Read(_)));
        assert_eq!(cache.size(), (0, 0));
        assert!(cache.order.is_empty());
    }

    #[test]
    fn no_room_keeps_nothing() {
        for (entries, bytes) in [(0, 10_000), (10, 0)] {
            let mut cache = Cache::new(entries, bytes);
            cache.put(key("a"), answer("a"), None, true);
            assert_eq!(cache.size(), (0, 0));
        }
    }

    #[test]
    fn what_is_about_something_is_dropped() {
        let of = |about| Key { method: String::new(), params: String::new(), about };
        let mut cache = Cache::new(10, 10_000);
        cache.put(key("a"), answer("a"), None, true);
        cache.put(of(About::List(ListKind::Tools)), answer("b"), None, true);
        cache.put(of(About::List(ListKind::Prompts)), answer("c"), None, true);
        cache.put(of(About::Server), answer("d"), None, true);
        cache.forget(|about| *about == About::List(ListKind::Tools));
        assert!(!cache.entries.contains_key(&of(About::List(ListKind::Tools))));
        assert_eq!(cache.size().0, 3);
    }
}
