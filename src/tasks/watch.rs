//! Which tasks are told of by which stream: the rules of push, pure.
//!
//! ```text
//! joined ──> waiting ── gathered ──> a stream with these and the ids of small ones ── granted ──> pushed
//! ```
//!
//! The larger stream opens before the smaller ones end, so nothing falls between. Only what a server acknowledged
//! counts as pushed; what it refuses is not asked for again, so that nobody hammers.
//!
//! A task that joins costs the server the ids of a whole stream once more, so tasks join together: new streams are begun
//! while there are places for them, only small ones are opened anew, and where a large one has to be, the tasks that want
//! to join wait the longer. A task that has ended leaves by itself: its id is not asked for when a stream is opened again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Task ids of one stream; with [`MOST_BYTES`], that of a request that common servers take (100 KB). Chosen.
const MOST_IDS: usize = 2048;
/// The bytes of their texts in the request.
const MOST_BYTES: usize = 80 * 1024;
/// A longer id is not asked for.
const LONGEST: usize = MOST_BYTES / 8;
/// Streams of one client; the tasks beyond are polled. Chosen: each costs a thread and a connection.
const MOST_STREAMS: usize = 8;
/// So many ids are a small request (some 10 KB): streams that tell of no more together become one. Chosen.
const FEW: usize = 256;
/// What comes within this time shares a stream, and a task that ends sooner needs none. Chosen: as long as most tasks
/// wait for their first poll anyway.
const GATHER: Duration = Duration::from_secs(1);
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
    /// More are waiting: gather once more, for so long.
    pub more: Option<Duration>,
}

/// A task is followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Joined {
    /// A stream tells of it already: it was followed before, under the same id.
    pub pushed: bool,
    /// Somebody has to gather, for so long.
    pub gather: Option<Duration>,
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
    /// Streams in whose place another one came: what the server said there before that may still be on its way.
    pub retire: Vec<u64>,
    /// Tasks are waiting: gather, for so long.
    pub gather: Option<Duration>,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The server closed it, or we did.
    Closed,
    /// The server does not take so long a request.
    TooMuch,
    /// The server does not want it.
    Refused,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    /// What was asked for, as far as it goes on and was not refused.
    ids: HashSet<Id>,
    /// How much they are in a request.
    bytes: usize,
    /// The server has acknowledged it, and it is not cut.
    granted: bool,
    replaces: Vec<u64>,
    /// We ended it.
    ended: bool,
}

/// The streams of one client.
#[derive(Debug)]
pub(super) struct Watch {
    waiting: BTreeSet<Id>,
    streams: Vec<Stream>,
    gathering: bool,
    last: u64,
    strikes: u32,
    /// Ids of one stream, as far as this server has shown to take them.
    most: usize,
    refused: bool,
}

impl Default for Watch {
    fn default() -> Self {
        let (waiting, streams) = Default::default();
        Self { waiting, streams, gathering: false, last: 0, strikes: 0, most: MOST_IDS, refused: false }
    }
}

impl Watch {
    /// A task is followed.
    pub(super) fn joined(&mut self, id: Id) -> Joined {
        let there = self.streams.iter().any(|stream| !stream.ended && stream.ids.contains(&id));
        if there {
            return Joined { pushed: self.is_pushed(&id), gather: None };
        }
        // So long an id is polled: a few of them would fill a stream.
        if !self.refused && weight(&id) <= LONGEST {
            self.waiting.insert(id);
        }
        Joined { pushed: false, gather: self.wants_gathering() }
    }

    fn wants_gathering(&mut self) -> Option<Duration> {
        if self.refused || self.gathering || self.waiting.is_empty() {
            return None;
        }
        let replaced = self.replaced()?;
        self.gathering = true;
        // Enough for a stream of their own: nobody need be waited for.
        if self.waiting.len() >= self.most {
            return Some(Duration::ZERO);
        }
        let again: usize = self.streams.iter().filter(|s| replaced.contains(&s.number)).map(|s| s.ids.len()).sum();
        Some(GATHER * u32::try_from(again / FEW).unwrap_or(u32::MAX).max(1))
    }

    /// Nobody gathers after all.
    pub(super) fn gave_up(&mut self) {
        self.gathering = false;
    }

    /// The streams in whose place the next one comes: small ones as far as they go together, or, where no place is left,
    /// the smallest that has room. `None` where there is none.
    fn replaced(&self) -> Option<Vec<u64>> {
        let alive = self.streams.iter().filter(|stream| !stream.ended);
        let places = MOST_STREAMS.checked_sub(alive.clone().count());
        // One that waits for its acknowledgment may have to be ended in favour of those that it is to replace.
        let promised = |number| self.streams.iter().any(|other| !other.ended && other.replaces.contains(&number));
        let mut bases: Vec<&Stream> = alive.filter(|stream| stream.granted && !promised(stream.number)).collect();
        bases.sort_by_key(|stream| stream.ids.len());
        let room = |ids: usize, bytes: usize| ids <= self.most / 8 * 7 && bytes <= MOST_BYTES - LONGEST;
        let (mut total, mut bytes) = (self.waiting.len(), 0);
        let goes_along = |stream: &&&Stream| {
            total += stream.ids.len();
            bytes += stream.bytes;
            total <= FEW && room(0, bytes)
        };
        let small: Vec<u64> = bases.iter().take_while(goes_along).map(|stream| stream.number).collect();
        if places? > 0 || !small.is_empty() {
            return Some(small);
        }
        bases.iter().find(|stream| room(stream.ids.len(), stream.bytes)).map(|stream| vec![stream.number])
    }

    /// The tasks that came meanwhile get a stream.
    pub(super) fn gathered(&mut self) -> Option<Plan> {
        self.gathering = false;
        if self.refused || self.waiting.is_empty() {
            return None;
        }
        let replaces = self.replaced()?;
        let bases = self.streams.iter().filter(|stream| replaces.contains(&stream.number));
        let mut ids: HashSet<Id> = bases.flat_map(|stream| stream.ids.iter().cloned()).collect();
        let mut bytes = bytes_of(&ids);
        while ids.len() < self.most
            && let Some(id) = self.waiting.pop_first()
        {
            if bytes + weight(&id) > MOST_BYTES {
                self.waiting.insert(id);
                break;
            }
            bytes += weight(&id);
            ids.insert(id);
        }
        self.last += 1;
        let number = self.last;
        self.streams.push(Stream { number, ids, bytes, granted: false, replaces, ended: false });
        Some(Plan {
            number,
            #[cfg(test)]
            ids: self.ids(number),
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
        let mut change = Change::default();
        let Some(at) = self.streams.iter().position(|stream| stream.number == number && !stream.ended) else {
            return change;
        };
        let before = self.look(number, &self.streams[at].replaces);
        let Some(told) = told else {
            self.refused();
            self.end(number, &mut change);
            return self.compare(before, change);
        };
        let told: HashSet<&str> = told.iter().map(String::as_str).collect();
        let stream = &mut self.streams[at];
        let asked = stream.ids.len();
        stream.ids.retain(|id| told.contains(&**id));
        stream.bytes = bytes_of(&stream.ids);
        stream.granted = true;
        let (got, replaces) = (stream.ids.len(), std::mem::take(&mut stream.replaces));
        if asked > FEW && got < asked / 2 {
            // It may be its limit for one stream: the next ones ask for no more.
            self.most = self.most.min(got.max(FEW));
        }
        if asked > 0 && got == 0 {
            self.strike();
            // Those that it should have replaced go on.
            self.end(number, &mut change);
        } else {
            self.strikes = 0;
            for old in replaces {
                self.retire(old, &mut change);
            }
        }
        change.gather = self.wants_gathering();
        self.compare(before, change)
    }

    /// The server knows no such subscriptions: it is not asked again.
    fn refused(&mut self) {
        self.refused = true;
        self.waiting.clear();
    }

    /// A stream is cut; it is being opened again.
    pub(super) fn lost(&mut self, number: u64) -> Change {
        let before = self.look(number, &[]);
        let mut change = Change::default();
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number) {
            stream.granted = false;
            // One that was only read to its end has come to it.
            change.end.extend(stream.ended.then_some(number));
        }
        self.compare(before, change)
    }

    /// A stream is over for good. Its tasks are polled: a server that closes streams is not asked again for them.
    pub(super) fn over(&mut self, number: u64, how: Over) -> Change {
        let before = self.look(number, &[]);
        let Some(at) = self.streams.iter().position(|stream| stream.number == number) else {
            return Change::default();
        };
        let stream = self.streams.remove(at);
        match how {
            Over::TooMuch if stream.ids.len() > FEW => self.ask_for_less(stream),
            Over::TooMuch | Over::Refused => self.refused(),
            Over::Closed if !stream.ended => self.strike(),
            Over::Closed => {}
        }
        let gather = self.wants_gathering();
        self.compare(before, Change { gather, ..Change::default() })
    }

    /// The tasks of a request that was too long wait for shorter ones.
    fn ask_for_less(&mut self, stream: Stream) {
        self.most = (stream.ids.len() / 2).clamp(FEW, self.most);
        let others = &self.streams;
        let asked = |id: &Id| others.iter().any(|other| !other.ended && other.ids.contains(id));
        self.waiting.extend(stream.ids.into_iter().filter(|id| !asked(id)));
    }

    /// A task has ended.
    pub(super) fn left(&mut self, id: &str) -> Change {
        self.waiting.remove(id);
        let mut change = Change::default();
        let mut empty = Vec::new();
        for stream in &mut self.streams {
            if let Some(id) = stream.ids.take(id) {
                stream.bytes -= weight(&id);
                if stream.ids.is_empty() {
                    empty.push(stream.number);
                }
            }
        }
        for number in empty {
            self.end(number, &mut change);
        }
        change.gather = self.wants_gathering();
        change
    }

    fn strike(&mut self) {
        self.strikes += 1;
        if self.strikes >= MOST_STRIKES {
            self.refused();
        }
    }

    fn end(&mut self, number: u64, change: &mut Change) {
        if self.finish(number) {
            change.end.push(number);
        }
    }

    fn retire(&mut self, number: u64, change: &mut Change) {
        if self.finish(number) {
            change.retire.push(number);
        }
    }

    fn finish(&mut self, number: u64) -> bool {
        let alive = self.streams.iter_mut().find(|stream| stream.number == number && !stream.ended);
        alive.is_some_and(|stream| {
            stream.granted = false;
            !std::mem::replace(&mut stream.ended, true)
        })
    }

    fn is_pushed(&self, id: &str) -> bool {
        self.streams.iter().any(|stream| stream.granted && stream.ids.contains(id))
    }

    /// The tasks of these streams, and which of them are pushed.
    fn look(&self, number: u64, others: &[u64]) -> Vec<(Id, bool)> {
        let wanted = |stream: &&Stream| stream.number == number || others.contains(&stream.number);
        let ids: BTreeSet<Id> = self.streams.iter().filter(wanted).flat_map(|s| s.ids.iter().cloned()).collect();
        ids.into_iter().map(|id| (id.clone(), self.is_pushed(&id))).collect()
    }

    /// What came and what went.
    fn compare(&self, before: Vec<(Id, bool)>, mut change: Change) -> Change {
        for (id, pushed) in before {
            match (pushed, self.is_pushed(&id)) {
                (false, true) => change.on.push(id),
                (true, false) => change.off.push(id),
                (true, true) | (false, false) => {}
            }
        }
        change
    }
}

/// How much an id is in a request: with its quotes and its comma.
fn weight(id: &str) -> usize {
    id.len() + 3
}

fn bytes_of(ids: &HashSet<Id>) -> usize {
    ids.iter().map(|id| weight(id)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<usize>) -> Vec<Id> {
        range.map(|n| Id::from(format!("t{n:05}"))).collect()
    }

    fn texts(ids: &[Id]) -> Vec<String> {
        ids.iter().map(|id| id.to_string()).collect()
    }

    fn grant(watch: &mut Watch, plan: &Plan) -> Change {
        watch.granted(plan.number, Some(&texts(&plan.ids)))
    }

    /// All that join at once, on streams that the server acknowledges.
    fn stand(watch: &mut Watch, range: std::ops::Range<usize>) -> Vec<Plan> {
        for id in ids(range) {
            watch.joined(id);
        }
        let mut plans = Vec::new();
        while let Some(plan) = watch.gathered() {
            for old in grant(watch, &plan).retire {
                watch.over(old, Over::Closed);
            }
            plans.push(plan);
        }
        plans
    }

    fn gathers(watch: &mut Watch, id: &str) -> bool {
        watch.joined(id.into()).gather.is_some()
    }

    #[test]
    fn corner_16_the_larger_stream_stands_before_the_smaller_one_ends() {
        let mut watch = Watch::default();
        assert!(gathers(&mut watch, "a") && !gathers(&mut watch, "b"), "one gathers");
        let first = watch.gathered().unwrap();
        assert_eq!((first.ids.len(), first.more), (2, None));
        assert_eq!(grant(&mut watch, &first).on, ["a".into(), "b".into()] as [Id; 2]);
        assert!(gathers(&mut watch, "c"));
        let second = watch.gathered().unwrap();
        assert_eq!(texts(&second.ids), ["a", "b", "c"]);
        // The old one tells on until the new one is acknowledged, and what is on its way there is heard.
        let change = grant(&mut watch, &second);
        assert_eq!((texts(&change.on), change.off.len()), (vec!["c".to_owned()], 0));
        assert_eq!((change.end, change.retire), (vec![], vec![first.number]));
        let cut = watch.lost(first.number);
        assert_eq!((cut.end, cut.off.len()), (vec![first.number], 0), "it is not opened again");
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
    fn a_task_that_a_stream_tells_of_already_is_pushed_at_once() {
        let mut watch = Watch::default();
        let plan = stand(&mut watch, 0..2).remove(0);
        assert_eq!(watch.joined("t00000".into()), Joined { pushed: true, gather: None });
        watch.lost(plan.number);
        assert_eq!(watch.joined("t00000".into()), Joined::default(), "it is told of again with the others");
        watch.left("t00000");
        assert!(gathers(&mut watch, "t00000"));
    }

    #[test]
    fn a_server_that_does_not_want_it_is_not_asked_again() {
        for refuse in [
            |watch: &mut Watch, plan: &Plan| drop(watch.over(plan.number, Over::Refused)),
            |watch: &mut Watch, plan: &Plan| drop(watch.over(plan.number, Over::TooMuch)),
            |watch: &mut Watch, plan: &Plan| assert_eq!(watch.granted(plan.number, None).end, [plan.number]),
        ] {
            let mut watch = Watch::default();
            watch.joined("a".into());
            let plan = watch.gathered().unwrap();
            refuse(&mut watch, &plan);
            assert!(!gathers(&mut watch, "b") && watch.gathered().is_none());
        }
        let mut watch = Watch::default();
        for (n, asked) in [(0, true), (1, true), (2, true), (3, false)] {
            assert_eq!(gathers(&mut watch, &format!("t{n}")), asked, "{n}");
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
        let streams = stand(&mut watch, 0..20_000);
        let sizes: Vec<usize> = streams.iter().map(|plan| plan.ids.len()).collect();
        assert_eq!(sizes, [MOST_IDS; MOST_STREAMS]);
        let more: Vec<_> = streams.iter().filter_map(|plan| plan.more).collect();
        assert_eq!(more, [Duration::ZERO; MOST_STREAMS - 1], "they need not wait for others");
        assert_eq!(watch.joined("x".into()).gather, None);
        // Places get free: others come in, some at a time, and then all that fit.
        let mut change = Change::default();
        for (n, id) in streams[3].ids.iter().enumerate() {
            change = watch.left(id);
            assert_eq!(change.gather.is_some(), n == MOST_IDS / 8 - 1, "{n}");
        }
        assert_eq!(change.end, [streams[3].number]);
        watch.over(streams[3].number, Over::Closed);
        assert_eq!(watch.gathered().unwrap().ids.len(), MOST_IDS);
    }

    #[test]
    fn what_joins_a_large_stream_waits_the_longer_and_small_ones_become_one() {
        let mut watch = Watch::default();
        stand(&mut watch, 0..MOST_IDS);
        // As long as there are places, a large one stands.
        let small = stand(&mut watch, 3_000..3_010).remove(0);
        assert_eq!((small.ids.len(), watch.streams.len()), (10, 2));
        let joined = stand(&mut watch, 3_010..3_011).remove(0);
        assert_eq!((joined.ids.len(), watch.streams.len()), (11, 2));
        for n in 1..7 {
            stand(&mut watch, n * 10_000..n * 10_000 + FEW * (n + 1));
        }
        // No place is left, and nothing is small beside what comes: the smallest is opened anew.
        assert_eq!(watch.streams.len(), MOST_STREAMS);
        let last = stand(&mut watch, 4_000..4_000 + FEW).remove(0);
        assert_eq!((last.ids.len(), watch.streams.len()), (FEW + 11, MOST_STREAMS));
        stand(&mut watch, 5_000..5_000 + FEW);
        stand(&mut watch, 6_000..6_000 + FEW);
        assert_eq!(watch.joined("x".into()).gather, Some(GATHER * 2));
        // Few are left of two: the next one that comes finds them together.
        let left: Vec<Id> = watch.streams.iter().skip(1).take(2).flat_map(|s| s.ids.iter().skip(3).cloned()).collect();
        left.iter().for_each(|id| drop(watch.left(id)));
        assert_eq!(watch.gathered().unwrap().ids.len(), 7);
    }

    #[test]
    fn a_stream_that_is_not_acknowledged_yet_is_no_base() {
        let mut watch = Watch::default();
        stand(&mut watch, 0..1);
        watch.joined("a".into());
        let first = watch.gathered().unwrap();
        watch.joined("b".into());
        let second = watch.gathered().unwrap();
        assert_eq!((first.ids.len(), texts(&second.ids)), (2, vec!["b".to_owned()]));
        assert_eq!(grant(&mut watch, &first).retire.len(), 1);
        assert!(grant(&mut watch, &second).retire.is_empty());
    }

    #[test]
    fn a_request_has_its_bounds_and_a_server_that_takes_less_is_asked_for_less() {
        let mut watch = Watch::default();
        let long = |n: usize| Id::from(format!("{n:01000}"));
        for n in 0..200 {
            watch.joined(long(n));
        }
        assert_eq!(watch.joined(Id::from("x".repeat(LONGEST))).gather, None);
        let plan = watch.gathered().unwrap();
        assert_eq!(plan.ids.len(), MOST_BYTES / weight(&long(0)));
        assert_eq!(watch.gathered().unwrap().ids.len(), plan.ids.len());

        let mut watch = Watch::default();
        let kept = stand(&mut watch, 0..10).remove(0);
        for id in ids(1_000..2_000) {
            watch.joined(id);
        }
        let plan = watch.gathered().unwrap();
        assert_eq!(watch.over(plan.number, Over::TooMuch).gather, Some(Duration::ZERO));
        let sizes: Vec<usize> = std::iter::from_fn(|| watch.gathered()).map(|plan| plan.ids.len()).collect();
        assert_eq!((sizes, watch.ids(kept.number).len()), (vec![500, 500], 10));

        let mut watch = Watch::default();
        for id in ids(0..1_000) {
            watch.joined(id);
        }
        let plan = watch.gathered().unwrap();
        assert_eq!(watch.granted(plan.number, Some(&texts(&plan.ids[..100]))).on.len(), 100);
        assert_eq!(stand(&mut watch, 2_000..3_000)[0].ids.len(), FEW);
    }
}
