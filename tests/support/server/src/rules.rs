//! Which rule a request, or a new connection, falls under.

use std::collections::HashMap;

use serde_json::Value;

use crate::action::{Action, choice};
use crate::fields::{Fields, ScriptError};
use crate::subst::contains;

/// A pattern, a window of its matches, and an action.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pattern: Pattern,
    from: u64,
    to: u64,
    per_connection: bool,
    pub(crate) action: Action,
}

#[derive(Clone, Debug, Default)]
struct Pattern {
    accept: bool,
    end: bool,
    http: Option<String>,
    path: Option<String>,
    method: Option<String>,
    name: Option<String>,
    tool: Option<String>,
    connection: Option<u64>,
    headers: Vec<(String, Option<String>)>,
    params: Option<Value>,
}

/// What a pattern looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts<'a> {
    /// A connection was accepted; nothing has been read.
    pub(crate) accept: bool,
    /// Standard input ended.
    pub(crate) end: bool,
    pub(crate) connection: u64,
    pub(crate) http: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) method: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    /// The tool called, or the one that made the task in question.
    pub(crate) tool: Option<&'a str>,
    pub(crate) params: Option<&'a Value>,
}

impl Rule {
    pub(crate) fn parse(value: Value) -> Result<Self, ScriptError> {
        let mut fields = Fields::new("rule", value)?;
        fields.take("about");
        let found = Fields::new("match", fields.take("match").unwrap_or_default())?;
        let action = Action::parse(fields.take("do").unwrap_or_default())?;
        fields.end()?;
        Self::read(found, action)
    }

    fn read(mut fields: Fields, action: Action) -> Result<Self, ScriptError> {
        let nth = fields.number("nth")?;
        let from = nth.or(fields.number("from")?).unwrap_or(1);
        let to = nth.or(fields.number("to")?).unwrap_or(u64::MAX);
        let per_connection = choice(&mut fields, "per", &[("server", false), ("connection", true)])?;
        let pattern = Pattern {
            accept: fields.flag("accept")?.unwrap_or(false),
            end: fields.flag("end")?.unwrap_or(false),
            http: fields.text("http")?,
            path: fields.text("path")?,
            method: fields.text("method")?,
            name: fields.text("name")?,
            tool: fields.text("tool")?,
            connection: fields.number("connection")?,
            headers: header_tests(&mut fields)?,
            params: fields.take("params"),
        };
        fields.end()?;
        Ok(Self { pattern, from, to, per_connection: per_connection.unwrap_or(false), action })
    }
}

/// `null` asks for absence, `"*"` for presence; both are kept as written.
fn header_tests(fields: &mut Fields) -> Result<Vec<(String, Option<String>)>, ScriptError> {
    let map = fields.object("headers")?.unwrap_or_default();
    map.into_iter()
        .map(|(name, value)| match value.as_str() {
            None if !value.is_null() => Err(fields.wrong("headers", "texts or null", &value)),
            text => Ok((name, text.map(str::to_owned))),
        })
        .collect()
}

impl Pattern {
    fn fits(&self, facts: &Facts<'_>) -> bool {
        self.accept == facts.accept
            && self.end == facts.end
            && self.connection.is_none_or(|number| number == facts.connection)
            && self.http.as_deref().is_none_or(|http| http.eq_ignore_ascii_case(facts.http))
            && self.path.as_deref().is_none_or(|path| glob(path, facts.path))
            && wanted(self.method.as_deref(), facts.method)
            && wanted(self.name.as_deref(), facts.name)
            && wanted(self.tool.as_deref(), facts.tool)
            && self.headers.iter().all(|(name, test)| header_fits(facts.headers, name, test.as_deref()))
            && self.params.as_ref().is_none_or(|part| facts.params.is_some_and(|whole| contains(whole, part)))
    }
}

fn wanted(pattern: Option<&str>, found: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| found.is_some_and(|found| glob(pattern, found)))
}

/// Equality, or a common beginning where the pattern ends in `*`.
fn glob(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

fn header_fits(headers: &[(String, String)], name: &str, test: Option<&str>) -> bool {
    let found = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str());
    match (test, found) {
        (None, found) => found.is_none(),
        (Some("*"), found) => found.is_some(),
        (Some(test), found) => found.is_some_and(|found| glob(test, found)),
    }
}

/// How often each rule's pattern has matched, over all or by connection.
#[derive(Default)]
pub(crate) struct Hits(HashMap<(usize, u64), u64>);

impl Hits {
    /// The first rule whose pattern fits and whose window holds this match, with the number of the match.
    ///
    /// Every pattern that fits counts, whichever rule takes the request: "the second poll" stays the second one
    /// when another rule took the first.
    pub(crate) fn decide(&mut self, rules: &[Rule], facts: &Facts<'_>) -> Option<(Action, u64)> {
        let mut taken = None;
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.pattern.fits(facts)) {
            let scope = if rule.per_connection { facts.connection } else { 0 };
            let count = self.0.entry((index, scope)).or_insert(0);
            *count += 1;
            if taken.is_none() && (rule.from..=rule.to).contains(count) {
                taken = Some((rule.action.clone(), *count));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, Hits, Rule};
    use serde_json::{Value, json};

    fn rules(list: &[Value]) -> Vec<Rule> {
        list.iter().map(|rule| Rule::parse(rule.clone()).unwrap()).collect()
    }

    fn statuses(rules: &[Rule], facts: &[Facts<'_>]) -> Vec<Option<u16>> {
        let mut hits = Hits::default();
        facts.iter().map(|facts| hits.decide(rules, facts).and_then(|(action, _)| action.http_status)).collect()
    }

    #[test]
    fn windows_count_all_matches() {
        let rules = rules(&[
            json!({"match": {"method": "tasks/get", "nth": 1}, "do": {"http_status": 501}}),
            json!({"match": {"method": "tasks/*", "from": 2, "to": 3}, "do": {"http_status": 502}}),
        ]);
        let get = Facts { method: Some("tasks/get"), ..Facts::default() };
        assert_eq!(statuses(&rules, &[get; 4]), [Some(501), Some(502), Some(502), None]);
    }

    #[test]
    fn a_connection_has_its_own_count() {
        let rules = rules(&[json!({"match": {"nth": 2, "per": "connection"}, "do": {"http_status": 500}})]);
        let on = |connection| Facts { connection, ..Facts::default() };
        assert_eq!(statuses(&rules, &[on(1), on(2), on(2), on(1)]), [None, None, Some(500), Some(500)]);
    }

    #[test]
    fn headers_and_params_narrow_a_match() {
        let rules = rules(&[json!({"match": {"headers": {"authorization": null}, "params": {"name": "echo"}},
            "do": {"http_status": 401}})]);
        let params = json!({"name": "echo", "arguments": {}});
        let headers = [("Authorization".to_owned(), "Bearer x".to_owned())];
        let bare = Facts { params: Some(&params), ..Facts::default() };
        let signed = Facts { headers: &headers, ..bare };
        assert_eq!(statuses(&rules, &[bare, signed]), [Some(401), None]);
    }

    #[test]
    fn accepting_a_connection_is_matched_only_on_request() {
        let rules = rules(&[json!({"match": {"accept": true, "nth": 2}, "do": {"reset": true, "http_status": 599}})]);
        let accept = Facts { accept: true, ..Facts::default() };
        assert_eq!(statuses(&rules, &[accept, Facts::default(), accept]), [None, None, Some(599)]);
    }
}
