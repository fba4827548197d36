//! The values of keywords, each as what it must be.

use serde_json::{Map, Value};

use crate::protocol::schema::decimal::Decimal;
use crate::protocol::schema::{Refused, check};

pub(super) fn invalid<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Invalid(why.into()))
}

pub(super) fn types(value: &Value) -> Result<u8, Refused> {
    let bit = |word: &Value| match word.as_str() {
        Some("null") => Ok(check::NULL),
        Some("boolean") => Ok(check::BOOLEAN),
        Some("integer") => Ok(check::WHOLE),
        Some("number") => Ok(check::WHOLE | check::FRACTION),
        Some("string") => Ok(check::STRING),
        Some("array") => Ok(check::ARRAY),
        Some("object") => Ok(check::OBJECT),
        Some(_) | None => invalid("its type is none of the seven"),
    };
    match value.as_array() {
        Some(words) => words.iter().try_fold(0, |bits, word| Ok(bits | bit(word)?)),
        None => bit(value),
    }
}

pub(super) fn array<'v>(keyword: &str, value: &'v Value) -> Result<&'v Vec<Value>, Refused> {
    value.as_array().map_or_else(|| invalid(format!("its {keyword} is no array")), Ok)
}

pub(super) fn object<'v>(keyword: &str, value: &'v Value) -> Result<&'v Map<String, Value>, Refused> {
    value.as_object().map_or_else(|| invalid(format!("its {keyword} is no object")), Ok)
}

pub(super) fn number(keyword: &str, value: &Value) -> Result<Decimal, Refused> {
    match value {
        Value::Number(number) => Ok(Decimal::read(number)),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            invalid(format!("its {keyword} is no number"))
        }
    }
}

pub(super) fn count(keyword: &str, value: &Value) -> Result<u64, Refused> {
    number(keyword, value)?.count().map_or_else(|| invalid(format!("its {keyword} is no whole number from 0")), Ok)
}

pub(super) fn names(keyword: &str, value: &Value) -> Result<Vec<String>, Refused> {
    let name = |value: &Value| match value.as_str() {
        Some(name) => Ok(name.to_owned()),
        None => invalid(format!("its {keyword} has a name that is no string")),
    };
    // Draft-04 and older wrote `"dependencies": {"a": "b"}` and `"required": true` as well; the latter is not a list.
    array(keyword, value)?.iter().map(name).collect()
}
