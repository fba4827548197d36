//! What is known of the server's tools: which parameters are mirrored into headers.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::error::Result;
use crate::protocol::json::Json;
use crate::protocol::page::{read_page, read_tool, retain};
use crate::protocol::x_mcp_header::ParamHeaders;
use crate::session::request::{Note, Notes};

/// The tools seen in `tools/list` answers. Only those with mirrored parameters are kept.
#[derive(Default)]
pub(super) struct Tools {
    mirrored: Mutex<HashMap<String, ParamHeaders>>,
}

impl Tools {
    /// Learns from a `tools/list` result, and drops from it each tool whose annotations are invalid, with a note
    /// (`basic/transports/streamable-http`: one malformed tool must not hide the others).
    pub(super) fn learn(&self, result: Json, notes: &mut dyn Notes) -> Result<Json> {
        let page = read_page(&result, "tools")?;
        let mut keep = Vec::with_capacity(page.items.len());
        for item in &page.items {
            let tool = read_tool(item);
            match (tool.name, tool.headers) {
                (Some(name), Ok(headers)) => {
                    let mut mirrored = self.mirrored.lock();
                    if headers.is_empty() {
                        mirrored.remove(&name);
                    } else {
                        mirrored.insert(name, headers);
                    }
                    keep.push(true);
                }
                (Some(name), Err(why)) => {
                    notes.note(Note::Oddity(format!("tool {} is dropped: {why}", crate::error::one_line(&name))));
                    keep.push(false);
                }
                // Without a name nobody can call it; the host sees it as it is.
                (None, _) => keep.push(true),
            }
        }
        if keep.iter().all(|keep| *keep) { Ok(result) } else { retain(&result, "tools", &keep) }
    }

    /// The headers that mirror the arguments of a call: (name, raw value).
    pub(super) fn headers(&self, tool: &str, arguments: Option<&Json>) -> Vec<(String, String)> {
        let mirrored = self.mirrored.lock();
        match (mirrored.get(tool), arguments) {
            (Some(headers), Some(arguments)) => headers.values(&arguments.value()),
            _ => Vec::new(),
        }
    }
}
