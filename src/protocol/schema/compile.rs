//! From the text of a schema to nodes: references resolved, patterns made, numbers read. Depth is limited by what was
//! parsed; everything beyond goes through a list of what is still to do, so no chain of references is a recursion.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::error::one_line;
use crate::protocol::schema::decimal::Decimal;
use crate::protocol::schema::draft::{Draft, Holds};
use crate::protocol::schema::pattern::Pattern;
use crate::protocol::schema::values::{array, count, invalid, names, number, object, types};
use crate::protocol::schema::{Refused, Schema, check, uri};

/// A place in [`Schema::nodes`].
pub(super) type NodeId = usize;
/// A part of a schema with an `$id` of its own; 0 is the whole.
pub(super) type ResourceId = usize;

/// Chosen: names are kept once for each place that is resolved against them.
const LONGEST_ID: usize = 2048;
/// Different ones; chosen: each may take some 100 KiB.
const MOST_PATTERNS: usize = 500;

/// A schema, or one inside it.
#[derive(Debug)]
pub(super) enum Node {
    /// `true`.
    Always,
    /// `false`.
    Never,
    /// Any other.
    Rules { resource: ResourceId, rules: Vec<Rule> },
}

/// A keyword, and what it says.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) keyword: &'static str,
    pub(super) test: Test,
}

/// What `minLength` and the like count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    Characters,
    Items,
    Members,
}

/// What a keyword says.
#[derive(Debug)]
pub(super) enum Test {
    /// One of these types, as bits of [`check::type_bit`].
    Type(u8),
    /// One of these values, in canonical form.
    Among(HashSet<String>),
    MultipleOf(Decimal),
    Compare(Decimal, fn(Ordering) -> bool),
    AtLeast(Counted, u64),
    AtMost(Counted, u64),
    Pattern(Pattern),
    Unique,
    Required(Vec<String>),
    DependentNames(Vec<(String, Vec<String>)>),
    Dependent(Vec<(String, NodeId)>),
    Items {
        prefix: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        least: u64,
        most: u64,
    },
    Members {
        named: HashMap<String, NodeId>,
        patterns: Vec<(Pattern, NodeId)>,
        others: Option<NodeId>,
    },
    Names(NodeId),
    All(Vec<NodeId>),
    Any(Vec<NodeId>),
    ExactlyOne(Vec<NodeId>),
    Not(NodeId),
    If {
        test: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Refer(NodeId),
    /// To the outermost resource on the way here that has this anchor.
    ReferDynamic {
        target: NodeId,
        anchor: String,
    },
    UnevaluatedItems(NodeId),
    UnevaluatedMembers(NodeId),
}

/// Compiles a schema.
pub(super) fn compile(root: &Value) -> Result<Schema, Refused> {
    let mut compiler = Compiler {
        draft: Draft::of(root)?,
        root,
        nodes: Vec::new(),
        made: HashMap::new(),
        todo: Vec::new(),
        bases: vec![String::new()],
        roots: vec![root],
        resources: HashMap::from([(String::new(), 0)]),
        within: HashMap::new(),
        anchors: HashMap::new(),
        dynamic: Vec::new(),
        tracks: false,
        patterns: HashMap::new(),
        gaps: Vec::new(),
    };
    compiler.index(root, 0)?;
    let start = compiler.node(root, 0);
    let mut dynamic = HashMap::new();
    for (resource, anchor, schema) in std::mem::take(&mut compiler.dynamic) {
        dynamic.insert((resource, anchor), compiler.node(schema, resource));
    }
    while let Some((id, schema, resource)) = compiler.todo.pop() {
        compiler.nodes[id] = compiler.compile_one(schema, resource)?;
    }
    Ok(Schema { nodes: compiler.nodes, root: start, dynamic, tracks: compiler.tracks, gaps: compiler.gaps })
}

struct Compiler<'a> {
    draft: Draft,
    root: &'a Value,
    nodes: Vec<Node>,
    /// The node of a schema, by where the schema stands in memory: two schemas never stand in the same place.
    made: HashMap<usize, NodeId>,
    todo: Vec<(NodeId, &'a Value, ResourceId)>,
    /// Of each resource.
    bases: Vec<String>,
    roots: Vec<&'a Value>,
    /// By their names.
    resources: HashMap<String, ResourceId>,
    /// Which resource a schema belongs to.
    within: HashMap<usize, ResourceId>,
    anchors: HashMap<(ResourceId, String), &'a Value>,
    dynamic: Vec<(ResourceId, String, &'a Value)>,
    tracks: bool,
    patterns: HashMap<String, Pattern>,
    gaps: Vec<String>,
}

fn place(schema: &Value) -> usize {
    std::ptr::from_ref(schema) as usize
}

impl<'a> Compiler<'a> {
    /// Finds the names of all schemas inside this one.
    fn index(&mut self, schema: &'a Value, outer: ResourceId) -> Result<(), Refused> {
        let Value::Object(members) = schema else {
            return Ok(());
        };
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let alone = self.draft.ref_stands_alone() && text("$ref").is_some();
        let mut resource = outer;
        if let Some(id) = text(self.draft.id()).filter(|_| !alone) {
            if id.len() > LONGEST_ID {
                return invalid(format!("its {} is longer than {LONGEST_ID} bytes", self.draft.id()));
            }
            let (name, fragment) = uri::split(id);
            if !name.is_empty() {
                resource = self.add_resource(schema, uri::resolve(&self.bases[outer], name));
            }
            if !fragment.is_empty() {
                self.anchors.insert((resource, fragment.to_owned()), schema);
            }
        }
        if self.draft >= Draft::Of2019 {
            for name in text("$anchor").into_iter().chain(text("$dynamicAnchor")) {
                if name.len() > LONGEST_ID {
                    return invalid(format!("an anchor in it is longer than {LONGEST_ID} bytes"));
                }
                self.anchors.insert((resource, name.to_owned()), schema);
            }
            if let Some(name) = text("$dynamicAnchor") {
                self.dynamic.push((resource, name.to_owned(), schema));
            }
            if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                self.dynamic.push((resource, String::new(), schema));
            }
        }
        self.within.insert(place(schema), resource);
        for (keyword, value) in members {
            match (self.draft.holds(keyword), value) {
                (Holds::Nothing, _) => {}
                (Holds::One | Holds::OneOrList, schema @ Value::Object(_)) => self.index(schema, resource)?,
                (Holds::List | Holds::OneOrList, Value::Array(list)) => {
                    list.iter().try_for_each(|schema| self.index(schema, resource))?;
                }
                (Holds::Map | Holds::MapOrNames, Value::Object(map)) => {
                    map.values().try_for_each(|schema| self.index(schema, resource))?;
                }
                // What is wrong with it is told when it is compiled.
                _ => {}
            }
        }
        Ok(())
    }

    fn add_resource(&mut self, schema: &'a Value, name: String) -> ResourceId {
        let id = if std::ptr::eq(schema, self.root) {
            self.bases[0].clone_from(&name);
            0
        } else {
            self.bases.push(name.clone());
            self.roots.push(schema);
            self.bases.len() - 1
        };
        self.resources.insert(name, id);
        id
    }

    /// The node of a schema; it is compiled later.
    fn node(&mut self, schema: &'a Value, resource: ResourceId) -> NodeId {
        if let Some(id) = self.made.get(&place(schema)) {
            return *id;
        }
        let id = self.nodes.len();
        self.nodes.push(Node::Always);
        self.made.insert(place(schema), id);
        let resource = self.within.get(&place(schema)).copied().unwrap_or(resource);
        self.todo.push((id, schema, resource));
        id
    }

    fn compile_one(&mut self, schema: &'a Value, resource: ResourceId) -> Result<Node, Refused> {
        match schema {
            Value::Bool(true) => Ok(Node::Always),
            Value::Bool(false) => Ok(Node::Never),
            Value::Object(members) => Ok(Node::Rules { resource, rules: self.rules(members, resource)? }),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                invalid("a schema in it is neither an object nor true or false")
            }
        }
    }

    fn rules(&mut self, members: &'a Map<String, Value>, resource: ResourceId) -> Result<Vec<Rule>, Refused> {
        let mut rules = Vec::new();
        if let Some(reference) = members.get("$ref") {
            let target = self.refer("$ref", reference, resource)?;
            rules.push(Rule { keyword: "$ref", test: Test::Refer(target.0) });
            if self.draft.ref_stands_alone() {
                return Ok(rules);
            }
        }
        for (keyword, value) in members {
            let rule = match self.plain(keyword, value, members)? {
                Some(rule) => Some(rule),
                None => self.applied(keyword, value, members, resource)?,
            };
            rules.extend(rule);
        }
        self.members(members, resource, &mut rules)?;
        self.items(members, resource, &mut rules)?;
        // They look at what all others have left.
        if self.draft >= Draft::Of2019 {
            if let Some(value) = members.get("unevaluatedItems") {
                let test = Test::UnevaluatedItems(self.node(value, resource));
                rules.push(Rule { keyword: "unevaluatedItems", test });
                self.tracks = true;
            }
            if let Some(value) = members.get("unevaluatedProperties") {
                let test = Test::UnevaluatedMembers(self.node(value, resource));
                rules.push(Rule { keyword: "unevaluatedProperties", test });
                self.tracks = true;
            }
        }
        Ok(rules)
    }

    /// Keywords without schemas inside.
    fn plain(&mut self, keyword: &str, value: &Value, beside: &Map<String, Value>) -> Result<Option<Rule>, Refused> {
        let old = self.draft == Draft::Four;
        let is_true = |name: &str| beside.get(name) == Some(&Value::Bool(true));
        let rule = |keyword, test| Ok(Some(Rule { keyword, test }));
        match keyword {
            "type" => rule("type", Test::Type(types(value)?)),
            "const" if !old => rule("const", Test::Among(HashSet::from([check::canonical(value)]))),
            "enum" => rule("enum", Test::Among(array(keyword, value)?.iter().map(check::canonical).collect())),
            "multipleOf" => {
                let by = number(keyword, value)?;
                if !by.divides() {
                    return invalid("its multipleOf is not above 0, or has too many digits");
                }
                rule("multipleOf", Test::MultipleOf(by))
            }
            "maximum" if old && is_true("exclusiveMaximum") => {
                rule("exclusiveMaximum", Test::Compare(number(keyword, value)?, Ordering::is_lt))
            }
            "minimum" if old && is_true("exclusiveMinimum") => {
                rule("exclusiveMinimum", Test::Compare(number(keyword, value)?, Ordering::is_gt))
            }
            "exclusiveMaximum" | "exclusiveMinimum" if old => Ok(None),
            "maximum" => rule("maximum", Test::Compare(number(keyword, value)?, Ordering::is_le)),
            "minimum" => rule("minimum", Test::Compare(number(keyword, value)?, Ordering::is_ge)),
            "exclusiveMaximum" => rule("exclusiveMaximum", Test::Compare(number(keyword, value)?, Ordering::is_lt)),
            "exclusiveMinimum" => rule("exclusiveMinimum", Test::Compare(number(keyword, value)?, Ordering::is_gt)),
            "maxLength" => rule("maxLength", Test::AtMost(Counted::Characters, count(keyword, value)?)),
            "minLength" => rule("minLength", Test::AtLeast(Counted::Characters, count(keyword, value)?)),
            "maxItems" => rule("maxItems", Test::AtMost(Counted::Items, count(keyword, value)?)),
            "minItems" => rule("minItems", Test::AtLeast(Counted::Items, count(keyword, value)?)),
            "maxProperties" => rule("maxProperties", Test::AtMost(Counted::Members, count(keyword, value)?)),
            "minProperties" => rule("minProperties", Test::AtLeast(Counted::Members, count(keyword, value)?)),
            "pattern" => {
                let Some(text) = value.as_str() else {
                    return invalid("its pattern is no string");
                };
                rule("pattern", Test::Pattern(self.pattern(text)?))
            }
            "uniqueItems" if value == &Value::Bool(true) => rule("uniqueItems", Test::Unique),
            "required" => rule("required", Test::Required(names(keyword, value)?)),
            "dependentRequired" if self.draft >= Draft::Of2019 => {
                let lists = object(keyword, value)?.iter();
                let lists = lists.map(|(name, list)| Ok((name.clone(), names(keyword, list)?)));
                rule("dependentRequired", Test::DependentNames(lists.collect::<Result<_, Refused>>()?))
            }
            _ => Ok(None),
        }
    }

    /// Keywords with schemas inside, that stand for themselves.
    fn applied(
        &mut self,
        keyword: &str,
        value: &'a Value,
        beside: &'a Map<String, Value>,
        resource: ResourceId,
    ) -> Result<Option<Rule>, Refused> {
        if keyword == "$dynamicRef" && self.draft >= Draft::Of2020 {
            return self.refer_dynamic(value, resource).map(Some);
        }
        if keyword == "$recursiveRef" && self.draft == Draft::Of2019 {
            return self.refer_recursive(resource).map(Some);
        }
        if self.draft.holds(keyword) == Holds::Nothing {
            return Ok(None);
        }
        let mut one = |name: &str| beside.get(name).map(|schema| self.node(schema, resource));
        let (keyword, test) = match keyword {
            "not" => ("not", Test::Not(self.node(value, resource))),
            "propertyNames" => ("propertyNames", Test::Names(self.node(value, resource))),
            "if" => {
                let (then, otherwise) = (one("then"), one("else"));
                ("if", Test::If { test: self.node(value, resource), then, otherwise })
            }
            "allOf" => ("allOf", Test::All(self.list(keyword, value, resource)?)),
            "anyOf" => ("anyOf", Test::Any(self.list(keyword, value, resource)?)),
            "oneOf" => ("oneOf", Test::ExactlyOne(self.list(keyword, value, resource)?)),
            "dependentSchemas" => ("dependentSchemas", Test::Dependent(self.map(keyword, value, resource)?)),
            "dependencies" => return self.dependencies(value, resource),
            "contains" => {
                let bounds = self.draft >= Draft::Of2019;
                let bound = |name: &str, default| match beside.get(name).filter(|_| bounds) {
                    Some(value) => count(name, value),
                    None => Ok(default),
                };
                let (least, most) = (bound("minContains", 1)?, bound("maxContains", u64::MAX)?);
                ("contains", Test::Contains { node: self.node(value, resource), least, most })
            }
            _ => return Ok(None),
        };
        Ok(Some(Rule { keyword, test }))
    }

    /// `dependencies`: schemas and lists of names in one; the schemas as a rule, the lists as schemas of one rule.
    fn dependencies(&mut self, value: &'a Value, resource: ResourceId) -> Result<Option<Rule>, Refused> {
        let mut all = Vec::new();
        for (name, value) in object("dependencies", value)? {
            let node = if value.is_array() {
                let rule = Rule { keyword: "dependencies", test: Test::Required(names("dependencies", value)?) };
                self.nodes.push(Node::Rules { resource, rules: vec![rule] });
                self.nodes.len() - 1
            } else {
                self.node(value, resource)
            };
            all.push((name.clone(), node));
        }
        Ok(Some(Rule { keyword: "dependencies", test: Test::Dependent(all) }))
    }

    fn members(
        &mut self,
        members: &'a Map<String, Value>,
        resource: ResourceId,
        rules: &mut Vec<Rule>,
    ) -> Result<(), Refused> {
        let (named, by_pattern) = (members.get("properties"), members.get("patternProperties"));
        let others = members.get("additionalProperties").map(|schema| self.node(schema, resource));
        if named.is_none() && by_pattern.is_none() && others.is_none() {
            return Ok(());
        }
        let named = match named {
            Some(value) => self.map("properties", value, resource)?.into_iter().collect(),
            None => HashMap::new(),
        };
        let mut patterns = Vec::new();
        if let Some(value) = by_pattern {
            for (pattern, node) in self.map("patternProperties", value, resource)? {
                patterns.push((self.pattern(&pattern)?, node));
            }
        }
        rules.push(Rule { keyword: "properties", test: Test::Members { named, patterns, others } });
        Ok(())
    }

    /// A tuple and its rest: `prefixItems` and `items`, before 2020 `items` and `additionalItems`.
    fn items(
        &mut self,
        members: &'a Map<String, Value>,
        resource: ResourceId,
        rules: &mut Vec<Rule>,
    ) -> Result<(), Refused> {
        let (prefix, rest) = match (self.draft, members.get("items")) {
            (Draft::Of2020, items) => (members.get("prefixItems"), items),
            (_, Some(tuple @ Value::Array(_))) => (Some(tuple), members.get("additionalItems")),
            (_, items) => (None, items),
        };
        if prefix.is_none() && rest.is_none() {
            return Ok(());
        }
        let prefix = match prefix {
            Some(value) => self.list("prefixItems", value, resource)?,
            None => Vec::new(),
        };
        let rest = rest.map(|schema| self.node(schema, resource));
        rules.push(Rule { keyword: "items", test: Test::Items { prefix, rest } });
        Ok(())
    }

    fn list(&mut self, keyword: &str, value: &'a Value, resource: ResourceId) -> Result<Vec<NodeId>, Refused> {
        Ok(array(keyword, value)?.iter().map(|schema| self.node(schema, resource)).collect())
    }

    fn map(&mut self, keyword: &str, value: &'a Value, resource: ResourceId) -> Result<Vec<(String, NodeId)>, Refused> {
        let schemas = object(keyword, value)?.iter();
        Ok(schemas.map(|(name, schema)| (name.clone(), self.node(schema, resource))).collect())
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern, Refused> {
        if let Some(made) = self.patterns.get(text) {
            return Ok(made.clone());
        }
        if self.patterns.len() >= MOST_PATTERNS {
            return invalid(format!("it has more than {MOST_PATTERNS} patterns"));
        }
        let (pattern, is_checked) = Pattern::read(text);
        if !is_checked {
            self.gaps.push(one_line(text));
        }
        self.patterns.insert(text.to_owned(), pattern.clone());
        Ok(pattern)
    }

    fn refer_dynamic(&mut self, value: &'a Value, resource: ResourceId) -> Result<Rule, Refused> {
        let (target, schema) = self.refer("$dynamicRef", value, resource)?;
        let (_, fragment) = uri::split(value.as_str().unwrap_or_default());
        let is_dynamic = schema.get("$dynamicAnchor").and_then(Value::as_str) == Some(fragment);
        let test =
            if is_dynamic { Test::ReferDynamic { target, anchor: fragment.to_owned() } } else { Test::Refer(target) };
        Ok(Rule { keyword: "$dynamicRef", test })
    }

    /// 2019-09: `#` is its only value.
    fn refer_recursive(&mut self, resource: ResourceId) -> Result<Rule, Refused> {
        let schema = self.roots[resource];
        let target = self.node(schema, resource);
        let is_dynamic = schema.get("$recursiveAnchor") == Some(&Value::Bool(true));
        let test = if is_dynamic { Test::ReferDynamic { target, anchor: String::new() } } else { Test::Refer(target) };
        Ok(Rule { keyword: "$recursiveRef", test })
    }

    /// What a reference leads to; it must be in this schema, since nothing is loaded.
    fn refer(&mut self, keyword: &str, value: &Value, resource: ResourceId) -> Result<(NodeId, &'a Value), Refused> {
        let Some(reference) = value.as_str() else {
            return invalid(format!("its {keyword} is no string"));
        };
        let lost = |why: &str| invalid(format!("its {keyword} {} leads {why}", one_line(reference)));
        let (name, fragment) = uri::split(reference);
        let resource = if name.is_empty() {
            resource
        } else {
            match self.resources.get(&uri::resolve(&self.bases[resource], name)) {
                Some(resource) => *resource,
                None => return lost("out of the schema, and nothing is loaded"),
            }
        };
        let root = self.roots[resource];
        let Some(fragment) = uri::decode(fragment) else {
            return lost("nowhere");
        };
        let found = match fragment.as_str() {
            "" => Some(root),
            pointer if pointer.starts_with('/') => root.pointer(pointer),
            anchor => self.anchors.get(&(resource, anchor.to_owned())).copied(),
        };
        match found {
            Some(schema) => Ok((self.node(schema, resource), schema)),
            None => lost("nowhere"),
        }
    }
}
