//! A value against the nodes of a schema. Every step is paid for, and the depth is limited: a schema that goes in
//! circles, or that asks the same a thousand times, ends like any other.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::protocol::schema::compile::{Counted, Node, NodeId, ResourceId, Rule, Test};
use crate::protocol::schema::decimal::Decimal;
use crate::protocol::schema::pattern::Pattern;
use crate::protocol::schema::{Mismatch, Schema};

pub(super) const NULL: u8 = 1;
pub(super) const BOOLEAN: u8 = 2;
pub(super) const WHOLE: u8 = 4;
pub(super) const FRACTION: u8 = 8;
pub(super) const STRING: u8 = 16;
pub(super) const ARRAY: u8 = 32;
pub(super) const OBJECT: u8 = 64;

/// What any check may cost, and what each byte of the value adds: chosen so that an honest schema, which looks at each
/// part of a value a few times, never comes near.
const STEPS: usize = 500_000;
const STEPS_PER_BYTE: usize = 16;
/// Schemas within schemas on the way to one place. The stack of a host's own thread must bear it.
const MOST_DEPTH: usize = 256;
/// A division of large numbers beside the reading of them.
const DIVISION: usize = 100;

/// Checks a value whose text has so many bytes.
pub(super) fn check(schema: &Schema, value: &Value, bytes: usize) -> Result<(), Mismatch> {
    let steps = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS);
    let mut check = Check { schema, steps, depth: 0, trial: 0, path: Vec::new(), scope: Vec::new(), found: None };
    match check.node(schema.root, value, "false", &mut Seen::default()) {
        Ok(()) => Ok(()),
        Err(Stop::No) => Err(check.found.unwrap_or(Mismatch::Keyword { pointer: String::new(), keyword: "false" })),
        Err(Stop::Spent(why)) => Err(Mismatch::Unchecked(why.to_owned())),
    }
}

/// Why a check goes no further.
enum Stop {
    /// The value fails.
    No,
    /// The limits are reached.
    Spent(&'static str),
}

type Checked = Result<(), Stop>;

/// One step into a value.
#[derive(Clone, Copy)]
enum Step<'v> {
    Name(&'v str),
    Index(usize),
}

/// What has been looked at of one value, for `unevaluated…`.
#[derive(Default)]
struct Seen<'v> {
    names: HashSet<&'v str>,
    indices: HashSet<usize>,
}

impl Seen<'_> {
    fn join(&mut self, other: Self) {
        self.names.extend(other.names);
        self.indices.extend(other.indices);
    }
}

/// What an object's members may be.
struct Kinds<'s> {
    named: &'s HashMap<String, NodeId>,
    patterns: &'s [(Pattern, NodeId)],
    others: Option<NodeId>,
}

struct Check<'s, 'v> {
    schema: &'s Schema,
    steps: usize,
    depth: usize,
    /// Above 0 a failure is none yet: another branch may fit.
    trial: usize,
    path: Vec<Step<'v>>,
    /// The resources on the way here.
    scope: Vec<ResourceId>,
    found: Option<Mismatch>,
}

impl<'s, 'v> Check<'s, 'v> {
    fn pay(&mut self, steps: usize) -> Checked {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop::Spent("its schema takes too many steps to check"))?;
        Ok(())
    }

    fn no(&mut self, keyword: &'static str) -> Checked {
        if self.trial == 0 && self.found.is_none() {
            self.found = Some(Mismatch::Keyword { pointer: pointer(&self.path), keyword });
        }
        Err(Stop::No)
    }

    /// `via` is the keyword that led to this node: a `false` has none of its own.
    fn node(&mut self, id: NodeId, value: &'v Value, via: &'static str, seen: &mut Seen<'v>) -> Checked {
        self.pay(1)?;
        let schema = self.schema;
        let (resource, rules) = match &schema.nodes[id] {
            Node::Always => return Ok(()),
            Node::Never => return self.no(via),
            Node::Rules { resource, rules } => (*resource, rules),
        };
        if self.depth >= MOST_DEPTH {
            return Err(Stop::Spent("its schema goes too deep, or in a circle"));
        }
        self.depth += 1;
        let entered = self.scope.last() != Some(&resource);
        if entered {
            self.scope.push(resource);
        }
        let mut own = Seen::default();
        let outcome = rules.iter().try_for_each(|rule| self.rule(rule, value, &mut own));
        if entered {
            self.scope.pop();
        }
        self.depth -= 1;
        if outcome.is_ok() && schema.tracks {
            self.pay(price(&own.names) + own.indices.len())?;
            seen.join(own);
        }
        outcome
    }

    /// Whether a schema fits, without a failure to tell of.
    fn fits(&mut self, id: NodeId, value: &'v Value, seen: &mut Seen<'v>) -> Result<bool, Stop> {
        self.trial += 1;
        let outcome = self.node(id, value, "false", seen);
        self.trial -= 1;
        match outcome {
            Ok(()) => Ok(true),
            Err(Stop::No) => Ok(false),
            Err(spent) => Err(spent),
        }
    }

    /// A part of the value.
    fn inside(&mut self, step: Step<'v>, id: NodeId, value: &'v Value, via: &'static str) -> Checked {
        self.path.push(step);
        let outcome = self.node(id, value, via, &mut Seen::default());
        self.path.pop();
        outcome
    }

    fn rule(&mut self, rule: &'s Rule, value: &'v Value, seen: &mut Seen<'v>) -> Checked {
        self.pay(1)?;
        let fine = match (&rule.test, value) {
            (Test::Type(types), value) => {
                if let Value::Number(number) = value {
                    self.pay(number.as_str().len() / 8)?;
                }
                types & type_bit(value) != 0
            }
            (Test::Among(values), value) => {
                let text = canonical(value);
                self.pay(text.len() / 8)?;
                values.contains(&text)
            }
            (Test::MultipleOf(by), Value::Number(number)) => {
                self.pay(number.as_str().len() + DIVISION)?;
                Decimal::read(number).is_multiple_of(by)
            }
            (Test::Compare(bound, fits), Value::Number(number)) => {
                self.pay(number.as_str().len() / 8)?;
                fits(Decimal::read(number).cmp(bound))
            }
            (Test::AtLeast(what, least), value) => self.count(*what, value)?.is_none_or(|count| count >= *least),
            (Test::AtMost(what, most), value) => self.count(*what, value)?.is_none_or(|count| count <= *most),
            (Test::Pattern(pattern), Value::String(text)) => self.is_in(pattern, text)?.unwrap_or(true),
            (Test::Unique, Value::Array(items)) => self.unique(items)?,
            (Test::Required(names), Value::Object(members)) => {
                self.pay(price(names))?;
                names.iter().all(|name| members.contains_key(name))
            }
            (Test::DependentNames(lists), Value::Object(members)) => {
                self.pay(lists.iter().map(|(name, names)| price([name]) + price(names)).sum())?;
                let holds = |names: &[String]| names.iter().all(|name| members.contains_key(name));
                lists.iter().all(|(name, names)| !members.contains_key(name) || holds(names))
            }
            _ => return self.applied(rule, value, seen),
        };
        if fine { Ok(()) } else { self.no(rule.keyword) }
    }

    /// The rules with schemas inside.
    fn applied(&mut self, rule: &'s Rule, value: &'v Value, seen: &mut Seen<'v>) -> Checked {
        let via = rule.keyword;
        match (&rule.test, value) {
            (Test::Refer(id), value) => self.node(*id, value, via, seen),
            (Test::ReferDynamic { target, anchor }, value) => {
                self.pay(self.scope.len())?;
                let outermost =
                    self.scope.iter().find_map(|resource| self.schema.dynamic.get(&(*resource, anchor.clone())));
                let id = outermost.copied().unwrap_or(*target);
                self.node(id, value, via, seen)
            }
            (Test::All(ids), value) => ids.iter().try_for_each(|id| self.node(*id, value, via, seen)),
            (Test::Any(ids), value) => self.any(ids, value, seen),
            (Test::ExactlyOne(ids), value) => self.exactly_one(ids, value, seen),
            (Test::Not(id), value) => {
                if self.fits(*id, value, &mut Seen::default())? {
                    self.no(via)
                } else {
                    Ok(())
                }
            }
            (Test::If { test, then, otherwise }, value) => {
                let (branch, via) = if self.fits(*test, value, seen)? { (then, "then") } else { (otherwise, "else") };
                branch.map_or(Ok(()), |id| self.node(id, value, via, seen))
            }
            (Test::Dependent(all), Value::Object(members)) => {
                self.pay(price(all.iter().map(|(name, _)| name)))?;
                let mut there = all.iter().filter(|(name, _)| members.contains_key(name));
                there.try_for_each(|(_, id)| self.node(*id, value, via, seen))
            }
            (Test::Members { named, patterns, others }, Value::Object(members)) => {
                let kinds = Kinds { named, patterns, others: *others };
                members.iter().try_for_each(|(name, value)| self.member(&kinds, name, value, seen))
            }
            (Test::Names(id), Value::Object(members)) => self.names(*id, members),
            (Test::Items { prefix, rest }, Value::Array(items)) => self.items(prefix, *rest, items, seen),
            (Test::Contains { node, least, most }, Value::Array(items)) => {
                let count = self.contains(*node, items, seen)?;
                if (*least..=*most).contains(&count) { Ok(()) } else { self.no(via) }
            }
            (Test::UnevaluatedMembers(id), Value::Object(members)) => self.other_members(*id, members, seen),
            (Test::UnevaluatedItems(id), Value::Array(items)) => self.other_items(*id, items, seen),
            // A keyword for values of another type.
            _ => Ok(()),
        }
    }

    fn member(&mut self, kinds: &Kinds<'s>, name: &'v str, value: &'v Value, seen: &mut Seen<'v>) -> Checked {
        self.pay(price([name]))?;
        let mut matched = false;
        if let Some(id) = kinds.named.get(name) {
            matched = true;
            self.inside(Step::Name(name), *id, value, "properties")?;
        }
        for (pattern, id) in kinds.patterns {
            match self.is_in(pattern, name)? {
                Some(false) => continue,
                Some(true) => self.inside(Step::Name(name), *id, value, "patternProperties")?,
                // Nobody can tell: the benefit of the doubt.
                None => {}
            }
            matched = true;
        }
        if let Some(id) = kinds.others.filter(|_| !matched) {
            matched = true;
            self.inside(Step::Name(name), id, value, "additionalProperties")?;
        }
        if matched && self.schema.tracks {
            seen.names.insert(name);
        }
        Ok(())
    }

    fn items(&mut self, prefix: &[NodeId], rest: Option<NodeId>, items: &'v [Value], seen: &mut Seen<'v>) -> Checked {
        for (index, item) in items.iter().enumerate() {
            let (id, via) = match prefix.get(index) {
                Some(id) => (Some(*id), "prefixItems"),
                None => (rest, "items"),
            };
            let Some(id) = id else {
                return Ok(());
            };
            if self.schema.tracks {
                seen.indices.insert(index);
            }
            self.inside(Step::Index(index), id, item, via)?;
        }
        Ok(())
    }

    /// How many items fit.
    fn contains(&mut self, id: NodeId, items: &'v [Value], seen: &mut Seen<'v>) -> Result<u64, Stop> {
        let mut count = 0;
        for (index, item) in items.iter().enumerate() {
            if self.fits(id, item, &mut Seen::default())? {
                count += 1;
                if self.schema.tracks {
                    seen.indices.insert(index);
                }
            }
        }
        Ok(count)
    }

    fn other_members(&mut self, id: NodeId, members: &'v Map<String, Value>, seen: &mut Seen<'v>) -> Checked {
        for (name, value) in members {
            self.pay(price([name]))?;
            if seen.names.insert(name) {
                self.inside(Step::Name(name), id, value, "unevaluatedProperties")?;
            }
        }
        Ok(())
    }

    fn other_items(&mut self, id: NodeId, items: &'v [Value], seen: &mut Seen<'v>) -> Checked {
        for (index, item) in items.iter().enumerate() {
            self.pay(1)?;
            if seen.indices.insert(index) {
                self.inside(Step::Index(index), id, item, "unevaluatedItems")?;
            }
        }
        Ok(())
    }

    fn any(&mut self, ids: &[NodeId], value: &'v Value, seen: &mut Seen<'v>) -> Checked {
        let mut fits = false;
        for id in ids {
            fits |= self.fits(*id, value, seen)?;
            // The others matter only for what they look at.
            if fits && !self.schema.tracks {
                break;
            }
        }
        if fits { Ok(()) } else { self.no("anyOf") }
    }

    fn exactly_one(&mut self, ids: &[NodeId], value: &'v Value, seen: &mut Seen<'v>) -> Checked {
        let mut count = 0;
        for id in ids {
            count += usize::from(self.fits(*id, value, seen)?);
            if count > 1 {
                break;
            }
        }
        if count == 1 { Ok(()) } else { self.no("oneOf") }
    }

    /// Each name as a value of its own. It lives only here, so it is checked apart, at the price of all.
    fn names(&mut self, id: NodeId, members: &Map<String, Value>) -> Checked {
        for name in members.keys() {
            self.pay(price([name]) + self.scope.len())?;
            let name = Value::String(name.clone());
            let mut apart = Check {
                schema: self.schema,
                steps: self.steps,
                depth: self.depth,
                trial: 1,
                path: Vec::new(),
                scope: self.scope.clone(),
                found: None,
            };
            let outcome = apart.node(id, &name, "propertyNames", &mut Seen::default());
            self.steps = apart.steps;
            match outcome {
                Ok(()) => {}
                Err(Stop::No) => return self.no("propertyNames"),
                Err(spent) => return Err(spent),
            }
        }
        Ok(())
    }

    fn count(&mut self, what: Counted, value: &Value) -> Result<Option<u64>, Stop> {
        let count = match (what, value) {
            (Counted::Characters, Value::String(text)) => {
                self.pay(text.len() / 8)?;
                text.chars().count()
            }
            (Counted::Items, Value::Array(items)) => items.len(),
            (Counted::Members, Value::Object(members)) => members.len(),
            _ => return Ok(None),
        };
        Ok(Some(count as u64))
    }

    fn is_in(&mut self, pattern: &Pattern, text: &str) -> Result<Option<bool>, Stop> {
        self.pay((text.len() + 1).saturating_mul(pattern.weight))?;
        Ok(pattern.is_in(text))
    }

    fn unique(&mut self, items: &[Value]) -> Result<bool, Stop> {
        let mut all = HashSet::with_capacity(items.len());
        for item in items {
            let text = canonical(item);
            // Small ones cost, too: an array may have a million of them.
            self.pay(1 + text.len() / 8)?;
            if !all.insert(text) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What it costs to look for these names.
fn price(names: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
    names.into_iter().map(|name| 1 + name.as_ref().len() / 8).sum()
}

/// The type of a value, as one bit.
fn type_bit(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::Number(number) if Decimal::read(number).is_whole() => WHOLE,
        Value::Number(_) => FRACTION,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

/// The one text of all ways to write this value: two values are equal where these are.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
        Value::Number(number) => out.push_str(&Decimal::read(number).canonical()),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by(|one, other| one.0.cmp(other.0));
            out.push('{');
            for (name, value) in sorted {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}

fn pointer(path: &[Step<'_>]) -> String {
    let mut out = String::new();
    for step in path {
        out.push('/');
        match step {
            Step::Name(name) => out.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => out.push_str(&index.to_string()),
        }
    }
    out
}
