//! What is known of the server's tools, in either era: learnt from every `tools/list` answer, bounded, and forgotten
//! when it may no longer hold. Nothing is listed just to know more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use crate::error::{Error, Kind, Result, one_line};
use crate::protocol::content::structured_part;
use crate::protocol::json::Json;
use crate::protocol::page::{ListedTool, Page, TaskSupport, read_page, read_tool, retain};
use crate::protocol::schema::{Mismatch, Refused, Schema};
use crate::protocol::x_mcp_header::ParamHeaders;
use crate::session::request::{Note, Notes};

/// Chosen: far more than a model can choose from.
const MOST_TOOLS: usize = 10_000;
/// The names and schemas of all tools together; chosen as a share of memory that nobody misses.
const MOST_BYTES: usize = 32 << 20;

/// A tool as the server listed it last.
#[derive(Debug)]
pub(crate) struct Tool {
    headers: ParamHeaders,
    task_support: Option<TaskSupport>,
    /// A text of its own: a slice would keep the whole list alive.
    output_schema: Option<Json>,
    /// Made of it when the first result comes.
    compiled: OnceCell<Result<Schema, Refused>>,
}

impl Tool {
    fn new(listed: ListedTool) -> Self {
        Self {
            headers: listed.headers.unwrap_or_default(),
            task_support: listed.task_support,
            output_schema: listed.output_schema.map(|schema| Json::trusted(schema.text())),
            compiled: OnceCell::new(),
        }
    }

    /// Checks a result against the output schema, where there is one (`server/tools`, "Output Schema").
    fn check(&self, name: &str, result: &Json, notes: &mut dyn Notes) -> Result<()> {
        let Some(text) = &self.output_schema else {
            return Ok(());
        };
        // What a tool says of its failure fits no schema (BR-30).
        let (is_error, value) = structured_part(result);
        if is_error {
            return Ok(());
        }
        let name = one_line(name);
        let fail = |why: String| Err(Error::new(Kind::Schema, format!("the result of tool {name} {why}")));
        let mut warn = |why: String| notes.note(Note::Oddity(format!("the outputSchema of tool {name} {why}")));
        let compiled = self.compiled.get_or_init(|| {
            let read = Schema::read(text);
            match &read {
                Ok(schema) => {
                    for pattern in schema.gaps() {
                        warn(format!("has a pattern that is not checked: {pattern}"));
                    }
                }
                Err(Refused::Dialect(dialect)) => {
                    warn(format!("is written in the unknown dialect {dialect}: its results go unchecked"));
                }
                Err(Refused::Invalid(_)) => {}
            }
            read
        });
        let schema = match compiled {
            Ok(schema) => schema,
            Err(Refused::Dialect(_)) => return Ok(()),
            Err(Refused::Invalid(why)) => {
                return fail(format!("cannot be checked: its outputSchema is not valid: {why}"));
            }
        };
        let Some(value) = value else {
            return fail("has no structuredContent, although the tool has an outputSchema".to_owned());
        };
        match schema.check(&value) {
            Ok(()) => Ok(()),
            Err(Mismatch::Unchecked(why)) => fail(format!("cannot be checked against its outputSchema: {why}")),
            Err(Mismatch::Keyword { pointer, keyword }) => {
                let at = if pointer.is_empty() { "the root".to_owned() } else { one_line(&pointer) };
                fail(format!("does not match its outputSchema: {keyword}, at {at} of structuredContent"))
            }
        }
    }

    fn bytes(&self) -> usize {
        self.output_schema.as_ref().map_or(0, |schema| schema.text().len())
    }

    fn is_same(&self, other: &Self) -> bool {
        self.headers == other.headers
            && self.task_support == other.task_support
            && self.output_schema == other.output_schema
    }
}

/// The tools seen in `tools/list` answers.
#[derive(Default)]
pub(crate) struct Tools {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    tools: HashMap<String, Arc<Tool>>,
    /// Of the names and schemas.
    bytes: usize,
    /// A whole list was seen: a tool that is not known is none, or one too many.
    whole: bool,
}

impl Known {
    /// False where there is no room for it.
    fn put(&mut self, name: String, tool: Tool) -> bool {
        if self.tools.get(&name).is_some_and(|have| have.is_same(&tool)) {
            return true;
        }
        self.remove(&name);
        let bytes = name.len() + tool.bytes();
        if self.tools.len() >= MOST_TOOLS || self.bytes + bytes > MOST_BYTES {
            return false;
        }
        self.bytes += bytes;
        self.tools.insert(name, Arc::new(tool));
        true
    }

    fn remove(&mut self, name: &str) {
        if let Some(tool) = self.tools.remove(name) {
            self.bytes -= name.len() + tool.bytes();
        }
    }
}

impl Tools {
    /// Learns from a `tools/list` result of a modern server, and drops from it each tool whose annotations are invalid,
    /// with a note (`basic/transports/streamable-http`: one malformed tool must not hide the others). `is_first` tells
    /// that no cursor was asked for.
    pub(super) fn learn(&self, result: Json, is_first: bool, notes: &mut dyn Notes) -> Result<Json> {
        let page = read_page(&result, "tools")?;
        let keep = self.take(&page, is_first, true, notes);
        if keep.iter().all(|keep| *keep) { Ok(result) } else { retain(&result, "tools", &keep) }
    }

    /// Learns from a `tools/list` result of a legacy server, which mirrors nothing. What is no list teaches nothing;
    /// the host sees it as it is.
    pub(super) fn learn_legacy(&self, result: &Json, is_first: bool, notes: &mut dyn Notes) {
        if let Ok(page) = read_page(result, "tools") {
            self.take(&page, is_first, false, notes);
        }
    }

    /// Which of the page's entries are kept in the list.
    fn take(&self, page: &Page, is_first: bool, mirrors: bool, notes: &mut dyn Notes) -> Vec<bool> {
        let (mut keep, mut oddities) = (Vec::with_capacity(page.items.len()), Vec::new());
        let mut known = self.known.lock();
        for item in &page.items {
            let mut tool = read_tool(item);
            if !mirrors {
                tool.headers = Ok(ParamHeaders::default());
            }
            match (tool.name.take(), &tool.headers) {
                (Some(name), Ok(_)) => {
                    keep.push(true);
                    if !known.put(name.clone(), Tool::new(tool)) {
                        let name = one_line(&name);
                        oddities.push(format!("tool {name} is one too many to know: its results go unchecked"));
                    }
                }
                (Some(name), Err(why)) => {
                    oddities.push(format!("tool {} is dropped: {why}", one_line(&name)));
                    known.remove(&name);
                    keep.push(false);
                }
                // Without a name nobody can call it; the host sees it as it is.
                (None, _) => keep.push(true),
            }
        }
        drop(known);
        if is_first && page.next_cursor.is_none() {
            self.keep_only(&page.items);
        }
        oddities.into_iter().for_each(|line| notes.note(Note::Oddity(line)));
        keep
    }

    /// This list, of all pages, has all the tools that the server has.
    pub(super) fn seen_whole(&self, list: &Json) {
        if let Ok(page) = read_page(list, "tools") {
            self.keep_only(&page.items);
        }
    }

    fn keep_only(&self, items: &[Json]) {
        let names: HashSet<String> = items.iter().filter_map(|item| item.members().ok()?.string("name")).collect();
        let mut known = self.known.lock();
        let gone: Vec<String> = known.tools.keys().filter(|name| !names.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| known.remove(name));
        known.whole = true;
    }

    /// Whether nothing would be learnt from another look at the list.
    pub(super) fn is_whole(&self) -> bool {
        self.known.lock().whole
    }

    /// Forgets all.
    pub(super) fn forget(&self) {
        *self.known.lock() = Known::default();
    }

    /// What is known of a tool.
    pub(super) fn of(&self, tool: &str) -> Option<Arc<Tool>> {
        self.known.lock().tools.get(tool).cloned()
    }

    /// The tool's `execution.taskSupport`, where the tool is known and says.
    pub(super) fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        self.of(tool)?.task_support
    }

    /// Checks the result of a tool, where its schema is known.
    ///
    /// # Errors
    /// [`Kind::Schema`].
    pub(super) fn check(&self, tool: &str, result: &Json, notes: &mut dyn Notes) -> Result<()> {
        self.of(tool).map_or(Ok(()), |known| known.check(tool, result, notes))
    }

    /// The headers that mirror the arguments of a call: (name, raw value).
    pub(super) fn headers(&self, tool: &str, arguments: Option<&Json>) -> Vec<(String, String)> {
        match (self.of(tool), arguments) {
            (Some(tool), Some(arguments)) if !tool.headers.is_empty() => tool.headers.values(&arguments.value()),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tools: &str) -> Json {
        Json::trusted(format!("{{\"tools\":[{tools}]}}"))
    }

    fn quiet() -> impl FnMut(Note) {
        |note| panic!("unexpected {note:?}")
    }

    #[test]
    fn a_tool_is_known_until_the_list_lacks_it_or_has_changed() {
        let tools = Tools::default();
        let (a, b) = (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, r#"{"name":"b","outputSchema":{}}"#);
        tools.learn_legacy(&list(&format!("{a},{b}")), true, &mut quiet());
        assert_eq!(tools.task_support("a"), Some(TaskSupport::Required));
        let before = tools.of("b").unwrap();
        // Not the first page: nothing is said of the others.
        tools.learn_legacy(&list(b), false, &mut quiet());
        assert!(tools.of("a").is_some());
        tools.learn_legacy(&list(b), true, &mut quiet());
        assert!(tools.of("a").is_none());
        assert!(Arc::ptr_eq(&before, &tools.of("b").unwrap()), "the same tool is not learnt anew");
        tools.learn_legacy(&list(r#"{"name":"b","outputSchema":{"type":"null"}}"#), true, &mut quiet());
        assert!(!Arc::ptr_eq(&before, &tools.of("b").unwrap()));
        tools.forget();
        assert!(tools.of("b").is_none());
        assert_eq!(tools.known.lock().bytes, 0);
    }

    #[test]
    fn a_malformed_entry_hides_no_other() {
        let tools = Tools::default();
        let good = r#"{"name":"good","outputSchema":{"type":"object"}}"#;
        let bad = r#"5,null,[],{},{"name":7},{"name":"odd","inputSchema":[],"outputSchema":"x","execution":5}"#;
        let all = list(&format!("{bad},{good}"));
        let mut notes = Vec::new();
        assert_eq!(tools.learn(all.clone(), true, &mut |note| notes.push(note)).unwrap(), all);
        assert!(tools.of("good").is_some() && notes.is_empty());
        let annotated = r#"{"name":"odd","inputSchema":{"properties":{"p":{"x-mcp-header":""}}}}"#;
        let kept = tools.learn(list(&format!("{annotated},{good}")), true, &mut |note| notes.push(note)).unwrap();
        assert_eq!(kept, list(good));
        assert_eq!(notes.len(), 1);
        assert!(tools.of("odd").is_none());
    }

    #[test]
    fn what_is_known_is_bounded() {
        let tools = Tools::default();
        let many: Vec<String> = (0..MOST_TOOLS + 5).map(|n| format!("{{\"name\":\"t{n}\"}}")).collect();
        let mut notes = 0;
        tools.learn_legacy(&list(&many.join(",")), true, &mut |_| notes += 1);
        assert_eq!((notes, tools.known.lock().tools.len()), (5, MOST_TOOLS));
        tools.forget();
        let large = format!("{{\"x\":\"{}\"}}", "y".repeat(MOST_BYTES / 2));
        let three: Vec<String> = (0..3).map(|n| format!("{{\"name\":\"t{n}\",\"outputSchema\":{large}}}")).collect();
        tools.learn_legacy(&list(&three.join(",")), true, &mut |_| notes += 1);
        assert!(tools.known.lock().bytes <= MOST_BYTES);
        assert_eq!(notes, 5 + 2);
    }
}
