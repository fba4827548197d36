//! JSON Schema: whether a value is as a schema says. 2020-12 and draft-07, and 2019-09, draft-06 and draft-04 on the
//! way.
//!
//! Schemas come from servers, so nothing in one may cost more than it says: no reference leads out of the schema (there
//! is no code here that could load anything), depth and size are limited before anything is compiled, each check has a
//! budget of steps that grows with the value alone, patterns run without backtracking, numbers are exact. `format` and
//! the `content…` keywords are annotations and check nothing.
//!
//! `draft.rs` which words a dialect has; `compile.rs` from the text to nodes; `check.rs` a value against the nodes;
//! `decimal.rs`, `pattern.rs`, `uri.rs`, `values.rs` the parts.

mod check;
mod compile;
mod decimal;
mod draft;
mod pattern;
mod uri;
mod values;

use std::collections::HashMap;

use serde_json::Value;

use crate::protocol::json::{Json, nests_deeper, without_lone_surrogates};
use compile::{Node, NodeId, ResourceId};

/// The text of a schema; chosen: a model could not read a larger one either.
const MOST_SCHEMA_BYTES: usize = 1 << 20;
/// The text of a value.
const MOST_VALUE_BYTES: usize = 16 << 20;
/// The depth of either; what reads them here goes so deep and no deeper.
const MOST_DEPTH: usize = 100;

/// A schema, ready to check values.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: NodeId,
    /// Where each resource has its dynamic anchors.
    dynamic: HashMap<(ResourceId, String), NodeId>,
    /// Whether `unevaluated…` stands anywhere.
    tracks: bool,
    /// The patterns that are not checked.
    gaps: Vec<String>,
}

/// Why a schema checks nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is written in a dialect that nobody here knows: the `$schema`.
    Dialect(String),
    /// It is no valid schema, leads out of itself, or is too large: a clause.
    Invalid(String),
}

/// Why a value fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// A keyword says no.
    Keyword {
        /// Where in the value, as a JSON pointer.
        pointer: String,
        /// Which keyword.
        keyword: &'static str,
    },
    /// It cannot be told within the limits: a clause.
    Unchecked(String),
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(schema: &Json) -> Result<Self, Refused> {
        let text = schema.text();
        if text.len() > MOST_SCHEMA_BYTES {
            return Err(Refused::Invalid(format!("it is over the limit of {MOST_SCHEMA_BYTES} bytes")));
        }
        if nests_deeper(text.as_bytes(), MOST_DEPTH) {
            return Err(Refused::Invalid(format!("it nests deeper than {MOST_DEPTH} levels")));
        }
        compile::compile(&parse(text).map_err(Refused::Invalid)?)
    }

    /// The patterns that are not checked, because the engine cannot: they look around, refer back, or are too large.
    #[must_use]
    pub fn gaps(&self) -> &[String] {
        &self.gaps
    }

    /// Checks a value.
    ///
    /// # Errors
    /// [`Mismatch`], the first that is found.
    pub fn check(&self, value: &Json) -> Result<(), Mismatch> {
        let text = value.text();
        if text.len() > MOST_VALUE_BYTES {
            return Err(Mismatch::Unchecked(format!("it is over the limit of {MOST_VALUE_BYTES} bytes")));
        }
        if nests_deeper(text.as_bytes(), MOST_DEPTH) {
            return Err(Mismatch::Unchecked(format!("it nests deeper than {MOST_DEPTH} levels")));
        }
        check::check(self, &parse(text).map_err(Mismatch::Unchecked)?, text.len())
    }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        // Half a surrogate pair is read as everywhere else.
        .or_else(|_| serde_json::from_str(&without_lone_surrogates(text)))
        .map_err(|fault| format!("it cannot be read: {fault}"))
}

#[cfg(test)]
mod tests;
