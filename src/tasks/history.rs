//! Progress in words: what the server said about a task, one entry for each change of status or message. Pure, bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::protocol::json::quote;
use crate::protocol::task::Task;

/// Chosen: enough to show a user how a long job went; the oldest entries give way.
const MOST_ENTRIES: usize = 32;
/// The longest message that is kept, in bytes; a longer one is cut (the snapshot's own message is whole).
const MOST_BYTES: usize = 1024;

/// The history of one task. Cheap to share: changed by copying when somebody else holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Arc<VecDeque<Entry>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    status: &'static str,
    message: Option<Box<str>>,
    /// `lastUpdatedAt` as sent.
    updated_at: Option<Box<str>>,
}

impl History {
    /// Takes in what an answer says; what says the same as the last entry adds none.
    pub(crate) fn tell(&mut self, task: &Task) {
        let message = task.message.as_deref().map(cut);
        let same = |last: &Entry| last.status == task.status.word() && last.message.as_deref() == message;
        if self.0.back().is_some_and(same) {
            return;
        }
        let entries = Arc::make_mut(&mut self.0);
        // Most tasks never have a second entry, and there may be very many tasks.
        entries.reserve_exact(1);
        if entries.len() >= MOST_ENTRIES {
            entries.pop_front();
        }
        entries.push_back(Entry {
            status: task.status.word(),
            message: message.map(Box::from),
            updated_at: task.updated_at.as_deref().map(Box::from),
        });
    }

    /// As a JSON array of `{status, message, last_updated_at}`, oldest first.
    pub(crate) fn write(&self) -> String {
        let optional = |text: &Option<Box<str>>| text.as_deref().map_or_else(|| "null".to_owned(), quote);
        let entry = |entry: &Entry| {
            let (message, at) = (optional(&entry.message), optional(&entry.updated_at));
            format!("{{\"status\":\"{}\",\"message\":{message},\"last_updated_at\":{at}}}", entry.status)
        };
        format!("[{}]", self.0.iter().map(entry).collect::<Vec<_>>().join(","))
    }
}

fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(MOST_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::Json;

    fn task(status: &str, message: &str) -> Task {
        let text =
            format!(r#"{{"taskId":"t","status":"{status}","statusMessage":{},"lastUpdatedAt":"now"}}"#, quote(message));
        Task::read(&Json::trusted(text)).unwrap()
    }

    #[test]
    fn only_changes_are_kept_and_the_oldest_give_way() {
        let mut history = History::default();
        for (status, message) in [("working", "1/2"), ("working", "1/2"), ("working", "2/2"), ("cancelled", "2/2")] {
            history.tell(&task(status, message));
        }
        assert_eq!(
            history.write(),
            r#"[{"status":"working","message":"1/2","last_updated_at":"now"},{"status":"working","message":"2/2","last_updated_at":"now"},{"status":"cancelled","message":"2/2","last_updated_at":"now"}]"#
        );
        let before = history.clone();
        for number in 0..1000 {
            history.tell(&task("working", &number.to_string()));
        }
        assert_eq!((history.0.len(), before.0.len()), (MOST_ENTRIES, 3));
        assert!(history.write().contains("\"999\""));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut history = History::default();
        history.tell(&task("working", &format!("x{}", "\u{e4}".repeat(1000))));
        let kept = history.0[0].message.as_deref().unwrap();
        assert_eq!(kept.len(), MOST_BYTES - 1);
        history.tell(&task("working", &format!("x{}", "\u{e4}".repeat(2000))));
        assert_eq!(history.0.len(), 1);
    }
}
