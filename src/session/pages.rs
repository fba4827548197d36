//! Whole lists: page after page, bounded, with a guard against cursors that loop.

use std::collections::HashSet;

use crate::error::{Error, Kind, Result};
use crate::protocol::answer::Answer;
use crate::protocol::json::Json;
use crate::protocol::jsonrpc::Params;
use crate::protocol::limits::too_large;
use crate::protocol::method;
use crate::protocol::page::{read_page, with_cursor, write_list};
use crate::session::request::{CacheUse, Request};

/// All pages of a list method as one result with the one array member; see [`super::Session::list_all`].
pub(super) fn list_all(
    most: usize,
    list: &Request,
    cache: CacheUse,
    mut ask: impl FnMut(&Request) -> Result<Answer>,
) -> Result<Json> {
    let of_method = list.method.as_str();
    let Some(member) = method::list_member(of_method) else {
        return Err(Error::new(Kind::Unsupported, format!("{of_method} has no pages")));
    };
    let (mut items, mut seen, mut body) = (Vec::new(), HashSet::new(), list.params.body.clone());
    for _ in 0..most {
        let params = Params { body: body.clone(), meta: list.params.meta.clone(), name: None };
        let request = Request { params, cache, call: list.call, ..Request::new(of_method, "{}")? };
        let result = ask(&request)?.complete(of_method)?;
        let page = read_page(&result, member)?;
        items.extend(page.items);
        let Some(cursor) = page.next_cursor else {
            return Ok(write_list(member, &items));
        };
        body = with_cursor(&body, &cursor);
        if !seen.insert(cursor) {
            return Err(Error::new(Kind::Malformed, format!("the pages of {of_method} loop: a cursor came twice")));
        }
    }
    Err(too_large("a list's number of pages", most, "pages"))
}
