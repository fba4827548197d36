//! Tools that tell how this process was started.

use serde_json::{Map, Value, json};

use crate::calls::text;
use crate::cli::DEAF;

/// Every environment variable, as text.
pub(crate) fn environment() -> Value {
    let pairs = std::env::vars_os().filter(|(name, _)| name != DEAF);
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    structured(Value::Object(pairs.map(|(name, value)| (lossy(name), lossy(value).into())).collect::<Map<_, _>>()))
}

/// Arguments, working directory and process id.
pub(crate) fn arguments() -> Value {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    let directory = std::env::current_dir().unwrap_or_default();
    structured(json!({"arguments": arguments, "directory": directory.to_string_lossy(), "pid": std::process::id()}))
}

fn structured(value: Value) -> Value {
    let mut result = text(&value.to_string());
    result["structuredContent"] = value;
    result
}
