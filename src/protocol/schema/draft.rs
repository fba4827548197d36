//! The dialects: which one a schema is written in, and where schemas stand inside schemas.

use serde_json::Value;

use crate::error::one_line;
use crate::protocol::schema::Refused;

/// A dialect, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Of2019,
    Of2020,
}

/// How a keyword's value holds schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// None.
    Nothing,
    /// It is one.
    One,
    /// An array of them.
    List,
    /// It is one, or an array of them.
    OneOrList,
    /// An object whose members are.
    Map,
    /// An object whose members are, or are arrays of names.
    MapOrNames,
}

impl Draft {
    /// The dialect of a schema: what its `$schema` says, else 2020-12 (`basic/index`, "JSON Schema Usage").
    pub(super) fn of(schema: &Value) -> Result<Self, Refused> {
        let Some(said) = schema.get("$schema") else {
            return Ok(Self::Of2020);
        };
        let Some(said) = said.as_str() else {
            return Err(Refused::Invalid("its $schema is no string".into()));
        };
        let name = said.trim_end_matches('#');
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
        match name {
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Ok(Self::Of2020),
            "json-schema.org/draft/2019-09/schema" => Ok(Self::Of2019),
            "json-schema.org/draft-07/schema" => Ok(Self::Seven),
            "json-schema.org/draft-06/schema" => Ok(Self::Six),
            "json-schema.org/draft-04/schema" => Ok(Self::Four),
            _ => Err(Refused::Dialect(one_line(said))),
        }
    }

    /// Beside `$ref` everything else is passed over.
    pub(super) fn ref_stands_alone(self) -> bool {
        self <= Self::Seven
    }

    /// The keyword that names a schema.
    pub(super) fn id(self) -> &'static str {
        if self == Self::Four { "id" } else { "$id" }
    }

    /// Where schemas stand in the value of a keyword.
    pub(super) fn holds(self, keyword: &str) -> Holds {
        match keyword {
            "additionalProperties" | "not" => Holds::One,
            "contains" | "propertyNames" if self >= Self::Six => Holds::One,
            "if" | "then" | "else" if self >= Self::Seven => Holds::One,
            "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" if self >= Self::Of2019 => Holds::One,
            "additionalItems" if self <= Self::Of2019 => Holds::One,
            "items" if self == Self::Of2020 => Holds::One,
            "items" => Holds::OneOrList,
            "allOf" | "anyOf" | "oneOf" => Holds::List,
            "prefixItems" if self == Self::Of2020 => Holds::List,
            "properties" | "patternProperties" | "definitions" => Holds::Map,
            "$defs" | "dependentSchemas" if self >= Self::Of2019 => Holds::Map,
            "dependencies" => Holds::MapOrNames,
            _ => Holds::Nothing,
        }
    }
}
