//! The part of the settings that says where tasks are stored, and under which name of the server.

use std::time::Duration;

use crate::client::doc::Doc;
use crate::error::{Error, Kind, Result};
use crate::tasks::ledger::sqlite::FileOptions;

/// Where tasks are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerSettings {
    /// The file; none for the memory of the process.
    pub file: Option<String>,
    pub options: FileOptions,
    /// False for private results.
    pub keep_results: bool,
}

/// Reads `tasks.ledger`.
pub(crate) fn read_ledger(tasks: &mut Doc) -> Result<LedgerSettings> {
    let mut part = tasks.object("ledger")?.unwrap_or_else(|| Doc::empty("settings.tasks.ledger"));
    let mut options = FileOptions::default();
    let file = part.text("file")?;
    if file.as_ref().is_some_and(|file| file.is_empty() || file.contains('\0')) {
        return Err(Error::new(Kind::Argument, "settings.tasks.ledger.file: expected a path"));
    }
    /// Chosen: memory holds the results, too.
    const IN_MEMORY: usize = 1_000;
    let wanted = part.count("keep_ended", 0, 10_000_000)?;
    let bounded = wanted.is_some();
    options.keep_ended = wanted.unwrap_or(options.keep_ended);
    const YEARS_MS: u64 = 10 * 365 * 86_400_000;
    for (key, slot, least) in [("keep_ms", &mut options.keep, 0), ("lease_ms", &mut options.lease, 300)] {
        if let Some(ms) = part.count(key, least, YEARS_MS)? {
            *slot = Duration::from_millis(ms as u64);
        }
    }
    let keep_results = part.flag("keep_results")?.unwrap_or(true);
    part.finish()?;
    let options = if file.is_none() && !bounded { FileOptions { keep_ended: IN_MEMORY, ..options } } else { options };
    Ok(LedgerSettings { file, options, keep_results })
}

/// Reads `identity`.
pub(crate) fn read_identity(doc: &mut Doc) -> Result<Option<String>> {
    let identity = doc.text("identity")?;
    if identity.as_ref().is_some_and(String::is_empty) {
        return Err(Error::new(Kind::Argument, "settings.identity: expected a name that is not empty"));
    }
    Ok(identity)
}
