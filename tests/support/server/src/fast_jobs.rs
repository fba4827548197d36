//! Long jobs for benchmarks: the tool `job` becomes a task, and each `tasks/get` is answered from a few numbers; so is
//! `subscriptions/listen`, which tells of each end, and before it each `say_ms` that the job works. What is measured is told by `GET /_control/jobs`: how many polls came,
//! how many too early, how late the others were, how long after its end a job was first seen to have ended, and how many
//! streams and news there were. The text of a job's result is the moment of its end, in microseconds of the wall clock.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::{Clock, now};

/// A job says no more than this.
const MOST_WORDS: u32 = 30;

struct Job {
    begun: Instant,
    /// The last answer about it.
    told: Instant,
    poll: Duration,
    life: Option<Duration>,
    /// How often it tells that it works, to whoever listens.
    say: Option<Duration>,
    seen: bool,
}

impl Job {
    fn end(&self) -> Option<Instant> {
        self.life.map(|life| self.begun + life)
    }

    /// When it tells that it works.
    fn words(&self) -> impl Iterator<Item = Instant> {
        let end = self.end();
        let words = self.say.into_iter().flat_map(|say| (1..=MOST_WORDS).map(move |word| say * word));
        words.map(|after| self.begun + after).take_while(move |word| end.is_none_or(|end| *word < end))
    }
}

#[derive(Default)]
struct Book {
    jobs: HashMap<u64, Job>,
    last: u64,
    polls: u64,
    early: u64,
    late_us: Vec<u32>,
    seen_us: Vec<u32>,
    streams: u64,
    pushes: u64,
}

/// The jobs of a server.
pub(crate) struct FastJobs {
    book: Mutex<Book>,
    clock: Clock,
}

impl Default for FastJobs {
    fn default() -> Self {
        Self { book: Mutex::default(), clock: Clock::start() }
    }
}

/// What a stream tells.
pub(crate) struct Listened {
    /// The ids that are granted, as JSON.
    pub(crate) granted: String,
    /// The news to come, soonest first.
    pub(crate) news: VecDeque<(Instant, u64)>,
}

impl FastJobs {
    /// The `result` of a call of `job`, whose text has the numbers `poll_ms`, `life_ms` for one that ends, and
    /// `say_ms` for one that tells meanwhile.
    pub(crate) fn start(&self, call: &[u8]) -> String {
        let at = now();
        let poll = number(call, b"\"poll_ms\":").unwrap_or(1000);
        let life = number(call, b"\"life_ms\":").map(Duration::from_millis);
        let say = number(call, b"\"say_ms\":").filter(|ms| *ms > 0).map(Duration::from_millis);
        let mut book = self.book.lock();
        book.last += 1;
        let id = book.last;
        let job = Job { begun: at, told: at, poll: Duration::from_millis(poll), life, say, seen: false };
        let seed = self.state(id, &job, false);
        book.jobs.insert(id, job);
        format!(r#""result":{{"resultType":"task",{seed}}}}}"#)
    }

    /// The `result` of `tasks/get`; `None` for a job that is not there.
    pub(crate) fn poll(&self, request: &[u8]) -> Option<String> {
        let at = now();
        let id = number(request, b"\"taskId\":\"job-")?;
        let mut book = self.book.lock();
        let job = book.jobs.get_mut(&id)?;
        let gap = at.saturating_duration_since(std::mem::replace(&mut job.told, at));
        let late = gap.checked_sub(job.poll);
        let ended = job.end().filter(|end| at >= *end);
        let first = ended.is_some() && !std::mem::replace(&mut job.seen, true);
        let state = self.state(id, job, ended.is_some());
        book.polls += 1;
        match late {
            Some(late) => book.late_us.push(micros(late)),
            None => book.early += 1,
        }
        if let (true, Some(end)) = (first, ended) {
            book.seen_us.push(micros(at.saturating_duration_since(end)));
        }
        Some(format!(r#""result":{{"resultType":"complete",{state}}}}}"#))
    }

    /// What a `subscriptions/listen` is told of; `None` where it asks for no job of ours.
    pub(crate) fn listen(&self, request: &[u8]) -> Option<Listened> {
        const ID: &[u8] = b"\"job-";
        let from = crate::wire::find(request, b"\"taskIds\":[")?;
        let mut rest = &request[from..];
        let (mut granted, mut news, at) = (Vec::new(), Vec::new(), now());
        let mut book = self.book.lock();
        while let Some(id) = number(rest, ID) {
            rest = &rest[crate::wire::find(rest, ID)? + ID.len()..];
            let Some(job) = book.jobs.get(&id) else { continue };
            granted.push(format!("\"job-{id}\""));
            news.extend(job.words().chain(job.end()).filter(|word| *word > at).map(|word| (word, id)));
        }
        if granted.is_empty() {
            return None;
        }
        book.streams += 1;
        news.sort_unstable();
        Some(Listened { granted: format!("[{}]", granted.join(",")), news: news.into() })
    }

    /// The members of the `params` of `notifications/tasks` about a job.
    pub(crate) fn news(&self, id: u64) -> Option<String> {
        let at = now();
        let mut book = self.book.lock();
        book.pushes += 1;
        let job = book.jobs.get_mut(&id)?;
        let ended = job.end().is_some_and(|end| at >= end);
        job.seen |= ended;
        Some(self.state(id, job, ended))
    }

    /// The figures so far, which begin anew.
    pub(crate) fn figures(&self) -> Value {
        let mut book = self.book.lock();
        let fresh = Book { jobs: std::mem::take(&mut book.jobs), last: book.last, ..Book::default() };
        let Book { polls, early, late_us, seen_us, streams, pushes, .. } = std::mem::replace(&mut *book, fresh);
        json!({"jobs": book.jobs.len(), "polls": polls, "early": early, "late_ms": spread(late_us),
            "seen_after_ms": spread(seen_us), "streams": streams, "pushes": pushes})
    }

    fn state(&self, id: u64, job: &Job, ended: bool) -> String {
        let poll = job.poll.as_millis();
        let when = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null"#;
        let head = format!(r#""taskId":"job-{id}",{when},"pollIntervalMs":{poll},"status":"#);
        match job.end().filter(|_| ended) {
            Some(end) => {
                let end = self.clock.wall_micros(end);
                let result = format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{end}"}}]}}"#);
                format!(r#"{head}"completed","result":{result}"#)
            }
            None => head + "\"working\"",
        }
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn spread(mut values: Vec<u32>) -> Value {
    values.sort_unstable();
    let at = |part: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = (values.len().saturating_sub(1) as f64 * part) as usize;
        values.get(index).map(|us| f64::from(*us) / 1000.0)
    };
    json!({"count": values.len(), "p50": at(0.5), "p99": at(0.99), "max": at(1.0)})
}

/// The digits behind a text.
fn number(text: &[u8], behind: &[u8]) -> Option<u64> {
    let from = crate::wire::find(text, behind)? + behind.len();
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[from..from + digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::FastJobs;

    #[test]
    fn a_job_counts_its_polls_and_tells_its_end_once() {
        let jobs = FastJobs::default();
        let seed = jobs.start(br#"{"arguments":{"poll_ms":0,"life_ms":0}}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&format!("{{{seed}")).is_ok(), "{seed}");
        assert!(seed.contains(r#""taskId":"job-1""#) && seed.contains(r#""status":"working""#), "{seed}");
        for _ in 0..2 {
            assert!(jobs.poll(br#"{"taskId":"job-1"}"#).is_some_and(|text| text.contains("completed")));
        }
        assert!(jobs.poll(br#"{"taskId":"job-2"}"#).is_none());
        let slow = jobs.start(br#"{"arguments":{"poll_ms":60000}}"#);
        assert!(slow.contains("job-2") && jobs.poll(br#"{"taskId":"job-2"}"#).is_some());
        let figures = jobs.figures();
        assert_eq!((&figures["polls"], &figures["early"]), (&3.into(), &1.into()));
        assert_eq!((&figures["seen_after_ms"]["count"], &figures["late_ms"]["count"]), (&1.into(), &2.into()));
        assert_eq!(jobs.figures()["polls"], 0);
    }

    #[test]
    fn a_stream_is_told_of_the_ends_to_come() {
        let jobs = FastJobs::default();
        for life in [r#","life_ms":60000"#, r#","life_ms":0,"say_ms":10"#, "", r#","life_ms":30000,"say_ms":20000"#] {
            jobs.start(format!(r#"{{"poll_ms":1{life}}}"#).as_bytes());
        }
        let told = jobs.listen(br#"{"taskIds":["job-1","job-2","job-3","job-4","job-5","other"]}"#).unwrap();
        assert_eq!(told.granted, r#"["job-1","job-2","job-3","job-4"]"#);
        assert_eq!(told.news.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [4, 4, 1]);
        for (id, word) in [(1, "working"), (2, "completed")] {
            let told = jobs.news(id).unwrap();
            assert!(told.starts_with(&format!(r#""taskId":"job-{id}","#)) && told.contains(word), "{told}");
        }
        assert!(jobs.listen(br#"{"taskIds":["other"]}"#).is_none() && jobs.listen(b"{}").is_none());
        let figures = jobs.figures();
        assert_eq!((&figures["streams"], &figures["pushes"], &figures["jobs"]), (&1.into(), &2.into(), &4.into()));
    }
}
