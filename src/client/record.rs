//! The settings of a record and of its replay.

use crate::client::doc::Doc;
use crate::error::{Error, Kind, Result};
use crate::transport::record::RecordSettings;

/// Reads `record`.
pub(crate) fn read_record(doc: &mut Doc) -> Result<Option<RecordSettings>> {
    let Some(mut part) = doc.object("record")? else {
        return Ok(None);
    };
    let record = RecordSettings {
        file: read_file(&mut part)?,
        max_bytes: part.count("max_bytes", 1024, 1 << 40)?.unwrap_or(64 << 20),
    };
    part.finish()?;
    Ok(Some(record))
}

/// The member `file` of `record` and `replay`.
pub(crate) fn read_file(part: &mut Doc) -> Result<String> {
    part.text("file")?
        .filter(|file| !file.is_empty())
        .ok_or_else(|| Error::new(Kind::Argument, format!("{}.file is missing", part.path())))
}
