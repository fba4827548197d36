//! The tools of the well-behaved server: names, descriptions, schemas.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Every built-in tool.
pub(crate) static CATALOGUE: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut tools = Vec::new();
    own(&mut tools);
    jobs(&mut tools);
    for name in SUITE {
        tools.push(tool(name, "Fixture of the official conformance suite", json!({})));
    }
    tools.push(schema_tool());
    tools
});

/// Pairs of JSON pointer into the arguments and name behind `Mcp-Param-`, of one tool.
pub(crate) fn header_params(name: &str, own: &[Value]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(tool) = own.iter().chain(CATALOGUE.iter()).find(|tool| tool["name"] == name) {
        collect(&tool["inputSchema"], "", &mut found);
    }
    found
}

fn collect(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for (key, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        if let Some(header) = inner.get("x-mcp-header").and_then(Value::as_str) {
            found.push((path.clone(), header.to_owned()));
        }
        collect(inner, &path, found);
    }
}

/// A tool that exists only to make lists long.
pub(crate) fn extra(index: usize) -> Value {
    tool(&format!("extra_{index:05}"), "Filler", json!({"text": {"type": "string"}}))
}

/// A tool whose task is scripted.
pub(crate) fn scripted(name: &str) -> Value {
    tool(name, "Creates a task with a scripted life", json!({}))
}

fn tool(name: &str, description: &str, properties: Value) -> Value {
    json!({
        "name": name, "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    })
}

fn own(tools: &mut Vec<Value>) {
    let whole = || json!({"type": "integer", "minimum": 0});
    let text = || json!({"type": "string"});
    let lists = json!({"what": {"enum": ["tools", "prompts", "resources"]}});
    let rows = [
        ("echo", "Returns its arguments", json!({})),
        ("tool_error", "Answers with isError", json!({"text": text()})),
        ("rpc_error", "Answers with a JSON-RPC error", json!({"code": {"type": "integer"}})),
        ("progress", "Sends n progress notifications", json!({"n": whole(), "gap_ms": whole()})),
        ("log", "Sends n log messages if asked for them", json!({"n": whole()})),
        ("ask_first", "Asks before it answers", json!({"rounds": whole(), "kind": text()})),
        ("big", "A text of so many bytes", json!({"bytes": whole()})),
        ("binary", "Image, audio, resource and link blocks", json!({})),
        ("sleep", "Answers after so many milliseconds", json!({"ms": whole()})),
        ("ask_elicitation", "Asks for a name", json!({"on": text()})),
        ("ask_sampling", "Asks for a sentence", json!({"on": text()})),
        ("ask_roots", "Asks for the roots", json!({"on": text()})),
        ("ask_ping", "Pings the client, in the legacy eras", json!({"on": text()})),
        ("environment", "The environment of the server's process", json!({})),
        ("arguments", "Arguments, directory and id of the server's process", json!({})),
        ("count", "Adds 1 to a counter and returns it", json!({"name": text()})),
        ("change", "Announces a changed list", lists),
    ];
    tools.extend(rows.map(|(name, description, properties)| tool(name, description, properties)));
    tools.push(add());
    tools.push(headers());
}

fn add() -> Value {
    let number = || json!({"type": "number"});
    let mut add = tool("add", "Adds a and b", json!({"a": number(), "b": number()}));
    add["inputSchema"]["required"] = json!(["a", "b"]);
    add["outputSchema"] = json!({"type": "object", "properties": {"sum": number()}, "required": ["sum"]});
    add
}

fn headers() -> Value {
    let tenant = json!({"tenant": {"type": "string", "x-mcp-header": "Tenant"}});
    let properties = json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "nested": {"type": "object", "properties": tenant},
        "free": {"type": "string"},
    });
    tool("headers", "Returns its arguments; some travel as headers too", properties)
}

fn jobs(tools: &mut Vec<Value>) {
    let whole = || json!({"type": "integer", "minimum": 0});
    let common: Map<String, Value> = Map::from_iter([
        ("steps".to_owned(), whole()),
        ("step_ms".to_owned(), whole()),
        ("ttl_ms".to_owned(), json!({"type": ["integer", "null"]})),
        ("poll_ms".to_owned(), whole()),
        ("ask".to_owned(), json!({"type": "boolean"})),
        ("cancel".to_owned(), json!({"enum": ["at_once", "ignore", "late"]})),
        ("forget_ms".to_owned(), whole()),
    ]);
    let rows = [
        ("slow_job", "A task of n steps, with a question half-way if asked to"),
        ("fail_job", "A task that ends with JSON-RPC error -32050"),
        ("cancelled_job", "A task that the server cancels"),
        ("tool_error_job", "A task that completes with isError"),
        ("ask_then_task", "Asks first, then creates a task"),
    ];
    for (name, description) in rows {
        tools.push(tool(name, description, Value::Object(common.clone())));
    }
}

fn schema_tool() -> Value {
    json!({
        "name": "json_schema_2020_12_tool", "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {
                "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"}, "email": {"type": "string"}
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false
        },
    })
}

/// Names that the official suite's server scenarios call.
const SUITE: [&str; 33] = [
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_progress",
    "test_error_handling",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_tool_with_logging",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

#[cfg(test)]
mod tests {
    use super::header_params;

    #[test]
    fn nested_parameters_are_found() {
        let found = header_params("headers", &[]);
        assert!(found.contains(&("/nested/tenant".to_owned(), "Tenant".to_owned())));
        assert_eq!(found.len(), 4);
    }
}
