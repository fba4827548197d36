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
mod tests;
