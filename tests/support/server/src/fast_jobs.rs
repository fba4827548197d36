//! Long jobs for benchmarks: the tool `job` becomes a task, and each `tasks/get` is answered from a few numbers. What is
//! measured is told by `GET /_control/jobs`: how many polls came, how many too early, how late the others were, and how
//! long after its end a job was first seen to have ended.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::now;

struct Job {
    begun: Instant,
    /// The last answer about it.
    told: Instant,
    poll: Duration,
    life: Option<Duration>,
    seen: bool,
}

#[derive(Default)]
struct Book {
    jobs: HashMap<u64, Job>,
    last: u64,
    polls: u64,
    early: u64,
    late_us: Vec<u32>,
    seen_us: Vec<u32>,
}

/// The jobs of a server.
#[derive(Default)]
pub(crate) struct FastJobs(Mutex<Book>);

impl FastJobs {
    /// The `result` of a call of `job`, whose text has the numbers `poll_ms` and, for one that ends, `life_ms`.
    pub(crate) fn start(&self, call: &[u8]) -> String {
        let at = now();
        let poll = number(call, b"\"poll_ms\":").unwrap_or(1000);
        let life = number(call, b"\"life_ms\":").map(Duration::from_millis);
        let mut book = self.0.lock();
        book.last += 1;
        let id = book.last;
        book.jobs.insert(id, Job { begun: at, told: at, poll: Duration::from_millis(poll), life, seen: false });
        state("task", id, poll, false)
    }

    /// The `result` of `tasks/get`; `None` for a job that is not there.
    pub(crate) fn poll(&self, request: &[u8]) -> Option<String> {
        let at = now();
        let id = number(request, b"\"taskId\":\"job-")?;
        let mut book = self.0.lock();
        let job = book.jobs.get_mut(&id)?;
        let gap = at.saturating_duration_since(std::mem::replace(&mut job.told, at));
        let late = gap.checked_sub(job.poll);
        let ended = job.life.is_some_and(|life| at >= job.begun + life);
        let first = ended && !std::mem::replace(&mut job.seen, true);
        let after = job.life.map(|life| at.saturating_duration_since(job.begun + life));
        let poll = job.poll.as_millis();
        book.polls += 1;
        match late {
            Some(late) => book.late_us.push(micros(late)),
            None => book.early += 1,
        }
        if let (true, Some(after)) = (first, after) {
            book.seen_us.push(micros(after));
        }
        Some(state("complete", id, u64::try_from(poll).unwrap_or(u64::MAX), ended))
    }

    /// The figures so far, which begin anew.
    pub(crate) fn figures(&self) -> Value {
        let mut book = self.0.lock();
        let (polls, early) = (std::mem::take(&mut book.polls), std::mem::take(&mut book.early));
        let (late, seen) = (std::mem::take(&mut book.late_us), std::mem::take(&mut book.seen_us));
        json!({"jobs": book.jobs.len(), "polls": polls, "early": early, "late_ms": spread(late), "seen_after_ms": spread(seen)})
    }
}

fn state(result_type: &str, id: u64, poll: u64, ended: bool) -> String {
    let (status, result) = match ended {
        true => ("completed", r#","result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#),
        false => ("working", ""),
    };
    format!(
        r#""result":{{"resultType":"{result_type}","taskId":"job-{id}","status":"{status}","createdAt":"2026-01-01T00:00:00Z","#
    ) + &format!(r#""lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":{poll}{result}}}}}"#)
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
}
