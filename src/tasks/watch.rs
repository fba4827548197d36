//! Which tasks are told of by which stream: the rules of push, pure.
//!
//! ```text
//! joined ──> waiting ── gathered ──> a stream with the ids of the newest one and these ── granted ──> pushed
//! ```
//!
//! The larger stream opens before the smaller one ends, so nothing falls between. Only what a server acknowledged
//! counts as pushed; what it refuses is not asked for again, so that nobody hammers.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Task ids of one stream. Chosen: a request of some 10 KB, and few streams.
const MOST_IDS: usize = 256;
/// Streams of one client; the tasks beyond are polled. Chosen: each costs a thread and a connection.
const MOST_STREAMS: usize = 8;
/// So many streams in a row that brought nothing, and the server is not asked again. Chosen: one may be a task that
/// ended just then.
const MOST_STRIKES: u32 = 3;

/// A task's id.
pub(super) type Id = Arc<str>;

/// A stream to open.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Its number.
    pub number: u64,
    /// The tasks that it is to tell of, for the tests: see [`Watch::ids`].
    #[cfg(test)]
    pub ids: Vec<Id>,
    /// More are waiting: gather once more.
    pub more: bool,
}

/// What follows from a piece of news.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Pushed from now on.
    pub on: Vec<Id>,
    /// Not pushed any more.
    pub off: Vec<Id>,
    /// Streams that are not needed any more.
    pub end: Vec<u64>,
    /// Tasks are waiting: gather.
    pub gather: bool,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The server closed it, or we did.
    Closed,
    /// The server does not want it.
    Refused,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    /// What was asked for, as far as it goes on and was not refused.
    ids: HashSet<Id>,
    granted: HashSet<Id>,
    replaces: Option<u64>,
    /// We ended it.
    ended: bool,
}

/// The streams of one client.
#[derive(Debug, Default)]
pub(super) struct Watch {
    waiting: BTreeSet<Id>,
    streams: Vec<Stream>,
    gathering: bool,
    last: u64,
    strikes: u32,
    refused: bool,
}

impl Watch {
    /// A task is followed. True where somebody has to gather.
    pub(super) fn joined(&mut self, id: Id) -> bool {
        if self.refused {
            return false;
        }
        self.waiting.insert(id);
        self.wants_gathering()
    }

    fn wants_gathering(&mut self) -> bool {
        let room = self.streams.len() < MOST_STREAMS;
        let begin = room && !self.refused && !self.gathering && !self.waiting.is_empty();
        self.gathering |= begin;
        begin
    }

    /// Nobody gathers after all.
    pub(super) fn gave_up(&mut self) {
        self.gathering = false;
    }

    /// The tasks that came meanwhile get a stream: the newest one's place, where they fit in.
    pub(super) fn gathered(&mut self) -> Option<Plan> {
        self.gathering = false;
        if self.refused || self.waiting.is_empty() || self.streams.len() >= MOST_STREAMS {
            return None;
        }
        let base = self.streams.last().filter(|stream| !stream.ended && stream.ids.len() < MOST_IDS);
        let replaces = base.map(|base| base.number);
        let mut ids = base.map(|base| base.ids.clone()).unwrap_or_default();
        while ids.len() < MOST_IDS
            && let Some(id) = self.waiting.pop_first()
        {
            ids.insert(id);
        }
        self.last += 1;
        self.streams.push(Stream { number: self.last, ids, granted: HashSet::new(), replaces, ended: false });
        Some(Plan {
            number: self.last,
            #[cfg(test)]
            ids: self.ids(self.last),
            more: self.wants_gathering(),
        })
    }

    /// What a stream is to tell of now: those that ended meanwhile are not asked for.
    pub(super) fn ids(&self, number: u64) -> Vec<Id> {
        let stream = self.streams.iter().find(|stream| stream.number == number);
        let mut ids: Vec<Id> = stream.into_iter().flat_map(|stream| stream.ids.iter().cloned()).collect();
        ids.sort_unstable();
        ids
    }

    /// The server acknowledged a stream; `None`: it knows no task ids at all.
    pub(super) fn granted(&mut self, number: u64, told: Option<&[String]>) -> Change {
        let before = self.pushed();
        let mut change = Change::default();
        let Some(told) = told else {
            self.refused();
            self.end(number, &mut change);
            return self.compare(&before, change);
        };
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number && !stream.ended) else {
            return change;
        };
        let told: HashSet<&str> = told.iter().map(String::as_str).collect();
        let asked = !stream.ids.is_empty();
        stream.ids.retain(|id| told.contains(&**id));
        stream.granted = stream.ids.clone();
        let (nothing, replaces) = (asked && stream.granted.is_empty(), stream.replaces.take());
        if nothing {
            self.strike();
            // The one that it should have replaced goes on.
            self.end(number, &mut change);
        } else {
            self.strikes = 0;
            if let Some(old) = replaces {
                self.end(old, &mut change);
            }
        }
        self.compare(&before, change)
    }

    /// The server knows no such subscriptions: it is not asked again.
    fn refused(&mut self) {
        self.refused = true;
        self.waiting.clear();
    }

    /// A stream is cut; it is being opened again.
    pub(super) fn lost(&mut self, number: u64) -> Change {
        let before = self.pushed();
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number) {
            stream.granted.clear();
        }
        self.compare(&before, Change::default())
    }

    /// A stream is over for good. Its tasks are polled: a server that closes streams is not asked again for them.
    pub(super) fn over(&mut self, number: u64, how: Over) -> Change {
        let before = self.pushed();
        let Some(at) = self.streams.iter().position(|stream| stream.number == number) else {
            return Change::default();
        };
        let stream = self.streams.remove(at);
        let mut change = Change::default();
        match how {
            Over::Refused => self.refused(),
            Over::Closed if !stream.ended => self.strike(),
            Over::Closed => {}
        }
        change.gather = self.wants_gathering();
        self.compare(&before, change)
    }

    /// A task has ended.
    pub(super) fn left(&mut self, id: &str) -> Change {
        self.waiting.remove(id);
        let mut change = Change::default();
        let mut empty = Vec::new();
        for stream in &mut self.streams {
            if stream.ids.remove(id) && stream.ids.is_empty() {
                empty.push(stream.number);
            }
            stream.granted.remove(id);
        }
        for number in empty {
            self.end(number, &mut change);
        }
        change
    }

    fn strike(&mut self) {
        self.strikes += 1;
        if self.strikes >= MOST_STRIKES {
            self.refused();
        }
    }

    fn end(&mut self, number: u64, change: &mut Change) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number && !stream.ended) {
            stream.ended = true;
            stream.granted.clear();
            change.end.push(number);
        }
    }

    fn pushed(&self) -> BTreeSet<Id> {
        self.streams.iter().flat_map(|stream| stream.granted.iter().cloned()).collect()
    }

    /// What came and what went.
    fn compare(&self, before: &BTreeSet<Id>, change: Change) -> Change {
        let now = self.pushed();
        let (on, off) = (now.difference(before).cloned().collect(), before.difference(&now).cloned().collect());
        Change { on, off, ..change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<usize>) -> Vec<Id> {
        range.map(|n| Id::from(format!("t{n:04}"))).collect()
    }

    fn texts(ids: &[Id]) -> Vec<String> {
        ids.iter().map(|id| id.to_string()).collect()
    }

    fn grant(watch: &mut Watch, plan: &Plan) -> Change {
        watch.granted(plan.number, Some(&texts(&plan.ids)))
    }

    #[test]
    fn corner_16_the_larger_stream_stands_before_the_smaller_one_ends() {
        let mut watch = Watch::default();
        assert!(watch.joined("a".into()) && !watch.joined("b".into()), "one gathers");
        let first = watch.gathered().unwrap();
        assert_eq!((first.ids.len(), first.more), (2, false));
        assert_eq!(grant(&mut watch, &first).on, ["a".into(), "b".into()] as [Id; 2]);
        assert!(watch.joined("c".into()));
        let second = watch.gathered().unwrap();
        assert_eq!(texts(&second.ids), ["a", "b", "c"]);
        // The old one tells on until the new one is acknowledged.
        let change = grant(&mut watch, &second);
        assert_eq!((texts(&change.on), change.off.len(), change.end), (vec!["c".to_owned()], 0, vec![first.number]));
        assert_eq!(watch.over(first.number, Over::Closed), Change::default());
        assert_eq!(watch.lost(second.number).off.len(), 3);
        assert_eq!(grant(&mut watch, &second).on.len(), 3);
        // The last task takes the stream along.
        assert_eq!(watch.left("a"), Change::default());
        assert_eq!(texts(&watch.ids(second.number)), ["b", "c"], "what has ended is not asked for again");
        watch.left("b");
        assert_eq!(watch.left("c").end, [second.number]);
    }

    #[test]
    fn corner_16_only_what_is_granted_is_pushed_and_the_rest_is_not_asked_again() {
        let mut watch = Watch::default();
        watch.joined("a".into());
        watch.joined("b".into());
        let plan = watch.gathered().unwrap();
        let change = watch.granted(plan.number, Some(&["b".into(), "stranger".into()]));
        assert_eq!((texts(&change.on), change.end.len()), (vec!["b".to_owned()], 0));
        watch.joined("c".into());
        assert_eq!(texts(&watch.gathered().unwrap().ids), ["b", "c"]);
    }

    #[test]
    fn a_server_that_does_not_want_it_is_not_asked_again() {
        for refuse in [
            |watch: &mut Watch, plan: &Plan| drop(watch.over(plan.number, Over::Refused)),
            |watch: &mut Watch, plan: &Plan| assert_eq!(watch.granted(plan.number, None).end, [plan.number]),
        ] {
            let mut watch = Watch::default();
            watch.joined("a".into());
            let plan = watch.gathered().unwrap();
            refuse(&mut watch, &plan);
            assert!(!watch.joined("b".into()) && watch.gathered().is_none());
        }
        let mut watch = Watch::default();
        for (n, asked) in [(0, true), (1, true), (2, true), (3, false)] {
            assert_eq!(watch.joined(format!("t{n}").into()), asked, "{n}");
            if let Some(plan) = watch.gathered() {
                let change = watch.granted(plan.number, Some(&[]));
                assert_eq!(change.end, [plan.number]);
                watch.over(plan.number, Over::Closed);
            }
        }
    }

    #[test]
    fn many_tasks_share_few_streams() {
        let mut watch = Watch::default();
        for id in ids(0..3000) {
            watch.joined(id);
        }
        let mut streams = Vec::new();
        while let Some(plan) = watch.gathered() {
            grant(&mut watch, &plan);
            streams.push(plan);
        }
        let sizes: Vec<usize> = streams.iter().map(|plan| plan.ids.len()).collect();
        assert_eq!(sizes, [MOST_IDS; MOST_STREAMS]);
        assert_eq!(streams.iter().filter(|plan| plan.more).count(), MOST_STREAMS - 1);
        // A place gets free: the others come in.
        let mut change = Change::default();
        for id in &streams[3].ids {
            change = watch.left(id);
        }
        assert_eq!(change.end, [streams[3].number]);
        assert!(watch.over(streams[3].number, Over::Closed).gather);
        assert_eq!(watch.gathered().unwrap().ids.len(), MOST_IDS);
    }
}
