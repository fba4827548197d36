//! Placeholders of scripts (`$id`, `$token`, ...) and the laying of one JSON value over another.

use serde_json::{Map, Value};

/// What the placeholders stand for in one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vars(Vec<(&'static str, Value)>);

impl Vars {
    /// Longer names come first, so that `$taskId` is not read as `$task` with a tail.
    pub(crate) fn new(mut pairs: Vec<(&'static str, Value)>) -> Self {
        pairs.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self(pairs)
    }

    /// Replaces placeholders in every string of `value`; a string that is one placeholder becomes its JSON value.
    pub(crate) fn fill(&self, value: &Value) -> Value {
        if let Some(text) = value.as_str() {
            return self.whole(text).unwrap_or_else(|| Value::String(self.fill_text(text)));
        }
        if let Some(items) = value.as_array() {
            return Value::Array(items.iter().map(|item| self.fill(item)).collect());
        }
        if let Some(map) = value.as_object() {
            let filled = map.iter().map(|(key, item)| (self.fill_text(key), self.fill(item)));
            return Value::Object(filled.collect::<Map<_, _>>());
        }
        value.clone()
    }

    /// Replaces placeholders in raw text.
    pub(crate) fn fill_text(&self, text: &str) -> String {
        if !text.contains('$') {
            return text.to_owned();
        }
        let mut out = text.to_owned();
        for (name, value) in &self.0 {
            if out.contains(name) {
                let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out = out.replace(name, &plain);
            }
        }
        out
    }

    /// As `fill_text`; bytes that are not UTF-8 stay as they are.
    pub(crate) fn fill_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        std::str::from_utf8(bytes).map_or_else(|_| bytes.to_vec(), |text| self.fill_text(text).into_bytes())
    }

    fn whole(&self, text: &str) -> Option<Value> {
        self.0.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone())
    }
}

/// Lays `patch` over `base`: objects merge, `"$absent"` removes, anything else (null too) replaces.
pub(crate) fn lay_over(base: &mut Value, patch: &Value) {
    let (Some(from), true) = (patch.as_object(), base.is_object()) else {
        *base = patch.clone();
        return;
    };
    let Some(into) = base.as_object_mut() else {
        return;
    };
    for (key, value) in from {
        if value.as_str() == Some("$absent") {
            into.shift_remove(key);
        } else if value.is_object() && into.get(key).is_some_and(Value::is_object) {
            lay_over(&mut into[key.as_str()], value);
        } else {
            into.insert(key.clone(), value.clone());
        }
    }
}

/// Whether `part` is contained in `whole`: objects by their keys, all else by equality.
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole.as_object(), part.as_object()) {
        (Some(whole), Some(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|found| contains(found, value)))
        }
        (_, _) => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use super::{Vars, contains, lay_over};
    use serde_json::json;

    #[test]
    fn a_whole_placeholder_keeps_its_type() {
        let vars = Vars::new(vec![("$id", json!(7)), ("$taskId", json!("t-1"))]);
        let filled = vars.fill(&json!({"id": "$id", "note": "n$id of $taskId"}));
        assert_eq!(filled, json!({"id": 7, "note": "n7 of t-1"}));
    }

    #[test]
    fn laying_over_merges_and_removes() {
        let mut base = json!({"a": 1, "b": {"c": 2, "d": 3}});
        lay_over(&mut base, &json!({"a": "$absent", "b": {"c": null}, "e": []}));
        assert_eq!(base, json!({"b": {"c": null, "d": 3}, "e": []}));
    }

    #[test]
    fn containment_looks_only_at_named_keys() {
        assert!(contains(&json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": 1}})));
        assert!(!contains(&json!({"a": {"b": 1}}), &json!({"a": {"b": 2}})));
    }
}
