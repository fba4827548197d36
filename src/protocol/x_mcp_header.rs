//! `x-mcp-header`: tool parameters that are mirrored into HTTP headers (`basic/transports/streamable-http`, "Custom
//! Headers from Tool Parameters"). Reading the annotations of a schema, and the values of a call.

use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";
/// Integers beyond this are outside what the specification allows in a header (2^53 - 1).
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The annotated parameters of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<Annotated>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Annotated {
    header: String,
    path: Vec<String>,
}

impl ParamHeaders {
    /// Reads the annotations of an `inputSchema`.
    ///
    /// # Errors
    /// Why the tool must be dropped from the list, as a clause.
    pub fn read(schema: &Value) -> Result<Self, String> {
        let mut found = Self::default();
        found.walk(schema, Some(&mut Vec::new()))?;
        for (index, one) in found.0.iter().enumerate() {
            if found.0[..index].iter().any(|other| other.header.eq_ignore_ascii_case(&one.header)) {
                return Err(format!("{ANNOTATION} {} is used twice", one.header));
            }
        }
        Ok(found)
    }

    /// True where nothing is annotated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers of a call: (name, raw value); the value still has to be made safe. A parameter that is absent,
    /// null or no primitive has none.
    #[must_use]
    pub fn values(&self, arguments: &Value) -> Vec<(String, String)> {
        self.0
            .iter()
            .filter_map(|one| {
                let value = one.path.iter().try_fold(arguments, |value, step| value.get(step))?;
                Some((format!("Mcp-Param-{}", one.header), primitive(value)?))
            })
            .collect()
    }

    /// `path` is `None` where the place is not reachable by `properties` alone.
    fn walk(&mut self, schema: &Value, mut path: Option<&mut Vec<String>>) -> Result<(), String> {
        let Value::Object(members) = schema else {
            return schema.as_array().into_iter().flatten().try_for_each(|item| self.walk(item, None));
        };
        if let Some(annotation) = members.get(ANNOTATION) {
            let path = path
                .as_deref()
                .filter(|path| !path.is_empty())
                .ok_or_else(|| format!("{ANNOTATION} stands where no chain of properties leads"))?;
            self.0.push(Annotated { header: header_name(annotation)?, path: path.clone() });
            check_type(members)?;
        }
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                // Instance data, not schemas.
                (ANNOTATION | "default" | "const" | "enum" | "examples", _) => {}
                ("properties", Value::Object(properties)) => {
                    self.walk_properties(properties, path.as_deref_mut())?;
                }
                // Maps from names to schemas: a name may look like the annotation.
                ("patternProperties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(schemas)) => {
                    schemas.values().try_for_each(|schema| self.walk(schema, None))?;
                }
                (_, value) => self.walk(value, None)?,
            }
        }
        Ok(())
    }

    fn walk_properties(
        &mut self,
        properties: &Map<String, Value>,
        mut path: Option<&mut Vec<String>>,
    ) -> Result<(), String> {
        for (name, schema) in properties {
            match path.as_deref_mut() {
                Some(path) => {
                    path.push(name.clone());
                    let walked = self.walk(schema, Some(path));
                    path.pop();
                    walked?;
                }
                None => self.walk(schema, None)?,
            }
        }
        Ok(())
    }
}

fn header_name(annotation: &Value) -> Result<String, String> {
    let name = annotation.as_str().ok_or_else(|| format!("{ANNOTATION} is no string"))?;
    if name.is_empty() {
        return Err(format!("{ANNOTATION} is empty"));
    }
    if !name.bytes().all(is_token_byte) {
        return Err(format!("{ANNOTATION} has a character that no header name may have"));
    }
    Ok(name.to_owned())
}

/// RFC 9110, 5.6.2: tchar.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn check_type(members: &Map<String, Value>) -> Result<(), String> {
    let allowed = |name: &Value| matches!(name.as_str(), Some("string" | "integer" | "boolean"));
    let fine = match members.get("type") {
        Some(Value::Array(names)) => {
            // A parameter that may also be null stays a primitive one.
            names.iter().any(allowed) && names.iter().all(|name| allowed(name) || name == "null")
        }
        Some(name) => allowed(name),
        None => false,
    };
    fine.then_some(())
        .ok_or_else(|| format!("{ANNOTATION} stands at a parameter whose type is not string, integer or boolean"))
}

fn primitive(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => {
            let text = number.to_string();
            // `42.0` is the integer 42; what is beyond the safe range goes as it stands, for the server to judge.
            match crate::protocol::json::whole_number(&text) {
                Some(whole) if whole.abs() <= SAFE_INTEGER => Some(whole.to_string()),
                _ => Some(text),
            }
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(schema: Value) -> Result<ParamHeaders, String> {
        ParamHeaders::read(&schema)
    }

    #[test]
    fn values_of_annotated_parameters_only() {
        let headers = read(json!({"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "n":{"type":"integer","x-mcp-header":"N"},
            "flag":{"type":["boolean","null"],"x-mcp-header":"Flag"},
            "deep":{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}}},
            "x-mcp-header":{"type":"string"},
            "free":{"type":"string","default":{"x-mcp-header":"no"}}}}))
        .unwrap();
        let values = headers.values(&json!({"region":"é","n":42.0,"flag":null,"deep":{"x":"y"},"free":"z"}));
        let values: Vec<_> = values.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(values, ["Mcp-Param-Region=é", "Mcp-Param-N=42", "Mcp-Param-X=y"]);
    }

    #[test]
    fn broken_annotations_name_their_fault() {
        let one = |annotation: Value| json!({"properties":{"a":{"type":"string","x-mcp-header":annotation}}});
        for (schema, want) in [
            (one(json!("")), "x-mcp-header is empty"),
            (one(json!(null)), "x-mcp-header is no string"),
            (one(json!("a b")), "x-mcp-header has a character that no header name may have"),
            (one(json!("a:b")), "x-mcp-header has a character that no header name may have"),
            (one(json!("é")), "x-mcp-header has a character that no header name may have"),
            (one(json!("a\r\nb")), "x-mcp-header has a character that no header name may have"),
            (
                json!({"properties":{"a":{"type":"number","x-mcp-header":"A"}}}),
                "x-mcp-header stands at a parameter whose type is not string, integer or boolean",
            ),
            (
                json!({"properties":{"a":{"type":"null","x-mcp-header":"A"}}}),
                "x-mcp-header stands at a parameter whose type is not string, integer or boolean",
            ),
            (
                json!({"properties":{"a":{"x-mcp-header":"A"}}}),
                "x-mcp-header stands at a parameter whose type is not string, integer or boolean",
            ),
            (
                json!({"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}),
                "x-mcp-header a is used twice",
            ),
            (
                json!({"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}),
                "x-mcp-header stands where no chain of properties leads",
            ),
            (
                json!({"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}),
                "x-mcp-header stands where no chain of properties leads",
            ),
            (
                json!({"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}),
                "x-mcp-header stands where no chain of properties leads",
            ),
            (json!({"type":"string","x-mcp-header":"A"}), "x-mcp-header stands where no chain of properties leads"),
        ] {
            assert_eq!(read(schema.clone()).unwrap_err(), want, "{schema}");
        }
    }
}
