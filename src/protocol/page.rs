//! Pages of a list (`server/utilities/pagination`), and the tools on them.

use crate::error::Result;
use crate::protocol::json::{Json, Members, elements, quote};
use crate::protocol::x_mcp_header::ParamHeaders;

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The entries as sent.
    pub items: Vec<Json>,
    /// Where the next page begins. An empty string is a cursor like any other; only absent or null ends the list.
    pub next_cursor: Option<String>,
}

/// Reads the page in the array member `member`; no such member is an empty page.
///
/// # Errors
/// [`crate::error::Kind::Malformed`] where the member is no array.
pub fn read_page(result: &Json, member: &str) -> Result<Page> {
    let members = result.members()?;
    let items = members.some(member).map(elements).transpose()?.unwrap_or_default();
    Ok(Page {
        items: items.into_iter().map(|raw| result.slice(raw)).collect(),
        next_cursor: members.string("nextCursor"),
    })
}

/// Writes a list result of all pages.
#[must_use]
pub fn write_list(member: &str, items: &[Json]) -> Json {
    let texts: Vec<&str> = items.iter().map(Json::text).collect();
    Json::trusted(format!("{{{}:[{}]}}", quote(member), texts.join(",")))
}

/// Whether a tool may be, or must be, called as a task (2025-11-25 `server/tools`, `execution.taskSupport`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// `forbidden`: never.
    Forbidden,
    /// `optional`: as the client likes.
    Optional,
    /// `required`: always.
    Required,
}

/// A tool that a `tools/list` answer names.
#[derive(Debug)]
pub struct ListedTool {
    /// Its name; absent where the entry has none.
    pub name: Option<String>,
    /// Its mirrored parameters, or why the tool must be dropped.
    pub headers: Result<ParamHeaders, String>,
    /// Its `outputSchema` as sent.
    pub output_schema: Option<Json>,
    /// Its `execution.taskSupport`; absent where it has none, or a word that no revision knows.
    pub task_support: Option<TaskSupport>,
}

/// Reads what the library has to know of a tool. An entry that is no object is a tool without a name.
#[must_use]
pub fn read_tool(tool: &Json) -> ListedTool {
    let members = tool.members().unwrap_or_default();
    let headers = match members.some("inputSchema") {
        // Most schemas have no annotation: a look at the text saves parsing them.
        Some(raw) if raw.contains("x-mcp-header") => serde_json::from_str(raw)
            .map_err(|_| "its inputSchema nests too deeply".to_owned())
            .and_then(|schema| ParamHeaders::read(&schema)),
        _ => Ok(ParamHeaders::default()),
    };
    ListedTool {
        name: members.string("name"),
        headers,
        output_schema: members.some("outputSchema").map(|raw| tool.slice(raw)),
        task_support: members.some("execution").and_then(read_task_support),
    }
}

fn read_task_support(execution: &str) -> Option<TaskSupport> {
    match &*Members::parse(execution).ok()?.text("taskSupport")? {
        "forbidden" => Some(TaskSupport::Forbidden),
        "optional" => Some(TaskSupport::Optional),
        "required" => Some(TaskSupport::Required),
        _ => None,
    }
}

/// A `tools/list` result without the entries that `keep` refuses; the rest of it, byte for byte.
///
/// # Errors
/// [`crate::error::Kind::Malformed`] where the result is no object with an array.
pub fn retain(result: &Json, member: &str, keep: &[bool]) -> Result<Json> {
    let mut out = String::with_capacity(result.text().len());
    for (name, raw) in result.members()?.iter() {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(&quote(name));
        out.push(':');
        if name != member {
            out.push_str(raw);
            continue;
        }
        let kept: Vec<&str> =
            elements(raw)?.into_iter().zip(keep).filter(|(_, keep)| **keep).map(|(raw, _)| raw).collect();
        out.push_str(&format!("[{}]", kept.join(",")));
    }
    out.push('}');
    Ok(Json::trusted(out))
}

/// `params` members with a cursor added.
#[must_use]
pub fn with_cursor(body: &str, cursor: &str) -> String {
    let members: Vec<String> = Members::parse(&format!("{{{}}}", body.trim_end_matches(',')))
        .map(|members| {
            members
                .iter()
                .filter(|(name, _)| *name != "cursor")
                .map(|(name, raw)| format!("{}:{raw},", quote(name)))
                .collect()
        })
        .unwrap_or_default();
    format!("{}\"cursor\":{},", members.concat(), quote(cursor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_28_an_empty_cursor_is_a_cursor() {
        let page = |text| read_page(&Json::trusted(text), "tools").unwrap();
        assert_eq!(page(r#"{"tools":[1],"nextCursor":""}"#).next_cursor.as_deref(), Some(""));
        assert_eq!(page(r#"{"tools":[1],"nextCursor":null}"#).next_cursor, None);
        assert_eq!(page("{}").items.len(), 0);
    }

    #[test]
    fn what_is_wrong_with_a_tool_stays_with_that_part_of_it() {
        for (text, name, schema, support) in [
            (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, Some("a"), None, Some(TaskSupport::Required)),
            (r#"{"name":"a","execution":{"taskSupport":"optional"}}"#, Some("a"), None, Some(TaskSupport::Optional)),
            (r#"{"name":"a","execution":{"taskSupport":"forbidden"}}"#, Some("a"), None, Some(TaskSupport::Forbidden)),
            (r#"{"name":"a","execution":{"taskSupport":"perhaps"}}"#, Some("a"), None, None),
            (r#"{"name":"a","execution":[],"outputSchema":null}"#, Some("a"), None, None),
            (r#"{"name":"a","inputSchema":7,"outputSchema":{"n":1.0}}"#, Some("a"), Some(r#"{"n":1.0}"#), None),
            (r#"{"name":7,"outputSchema":"x"}"#, None, Some("\"x\""), None),
            ("5", None, None, None),
            ("[]", None, None, None),
        ] {
            let tool = read_tool(&Json::parse(text).unwrap());
            assert_eq!(tool.name.as_deref(), name, "{text}");
            assert_eq!(tool.output_schema.as_ref().map(Json::text), schema, "{text}");
            assert_eq!(tool.task_support, support, "{text}");
            assert!(tool.headers.is_ok(), "{text}");
        }
    }

    #[test]
    fn dropped_tools_leave_the_rest_untouched() {
        let list = Json::trusted(r#"{"tools":[{"name":"a","n":1.0},{"name":"b"}],"ttlMs":5}"#);
        assert_eq!(
            retain(&list, "tools", &[true, false]).unwrap().text(),
            r#"{"tools":[{"name":"a","n":1.0}],"ttlMs":5}"#
        );
    }

    #[test]
    fn a_cursor_replaces_the_last_one() {
        assert_eq!(with_cursor("", "x"), r#""cursor":"x","#);
        assert_eq!(with_cursor(r#""a":1,"cursor":"old","#, "x"), r#""a":1,"cursor":"x","#);
    }
}
