//! The functions of the header, read from its text, and what is generated from them: C code that calls each one with
//! wrong handles and wrong arguments, so that none is forgotten.

#![allow(clippy::wildcard_enum_match_arm, reason = "a few of many roles matter at a time")]

use std::fmt::Write as _;

/// The kinds of handles, as `tests/c/world.h` numbers them.
const KINDS: [&str; 12] =
    ["client", "queue", "call", "task", "snapshot", "event", "input", "error", "result", "server", "text", "stream"];

/// What a parameter is for, by its type and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Handle(&'static str),
    /// A NUL-terminated text.
    Name,
    /// A text whose length is the next parameter.
    Text,
    TextLength,
    /// Receives a length; may be NULL.
    LengthOut,
    /// Receives a handle of this kind.
    HandleOut(&'static str),
    /// Receives a number.
    NumberOut(String),
    /// A time to wait.
    Wait,
    /// A field, index, level, kind or code.
    Number,
    Function(String),
    User,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) returns: String,
    pub(crate) parameters: Vec<(Role, String)>,
    /// The comment above it.
    pub(crate) manual: String,
}

impl Function {
    fn is_blocking(&self) -> bool {
        self.manual.contains("Callbacks: MCP_E_REENTRANT")
    }

    fn frees(&self) -> bool {
        self.name.ends_with("_free")
    }

    /// What the manual says of a parameter.
    fn manual_of(&self, parameter: &str) -> &str {
        let tag = format!("@param {parameter} ");
        let start =
            self.manual.find(&tag).unwrap_or_else(|| panic!("{}: the manual leaves out {parameter}", self.name));
        let text = &self.manual[start + 1..];
        &text[..text.find("* @").unwrap_or(text.len())]
    }

    fn handles(&self) -> impl Iterator<Item = &'static str> {
        self.parameters.iter().filter_map(|(role, _)| if let Role::Handle(kind) = role { Some(*kind) } else { None })
    }
}

/// All functions, in the order of the header.
pub(crate) fn functions(header: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some(at) = rest.find("\nMCP_API") {
        let comment = &rest[..at];
        let manual = comment.rfind("/**").map_or("", |start| &comment[start..]).to_owned();
        let end = rest[at..].find(';').expect("a declaration ends") + at;
        let declaration =
            rest[at..end].trim().trim_start_matches("MCP_API").split_whitespace().collect::<Vec<_>>().join(" ");
        found.push(function(&declaration, manual));
        rest = &rest[end..];
    }
    found
}

fn function(declaration: &str, manual: String) -> Function {
    let (head, tail) = declaration.split_once('(').expect("a function");
    let (returns, name) = split_name(head);
    let inside = tail.trim_end_matches(')');
    let texts: Vec<(String, String)> =
        if inside == "void" { Vec::new() } else { inside.split(',').map(|one| split_name(one.trim())).collect() };
    let parameters = texts.iter().enumerate().map(|(at, (kind, name))| {
        let measured = texts.get(at + 1).is_some_and(|(kind, _)| kind == "size_t");
        (role(kind, name, measured), name.clone())
    });
    Function { returns, name, parameters: parameters.collect(), manual }
}

/// `const char *name` is a type and a name.
fn split_name(text: &str) -> (String, String) {
    let at = text.rfind(|c: char| c == '*' || c.is_whitespace()).expect("a type and a name") + 1;
    (text[..at].split_whitespace().collect::<Vec<_>>().join(" "), text[at..].to_owned())
}

fn role(kind: &str, name: &str, measured: bool) -> Role {
    let of = |word: &str| KINDS.into_iter().find(|kind| word == format!("mcp_{kind}"));
    let bare = kind.trim_start_matches("const ").replace(' ', "");
    if let Some(kind) = bare.strip_suffix("**").and_then(of) {
        return Role::HandleOut(kind);
    }
    if let Some(kind) = bare.strip_suffix('*').and_then(of) {
        return Role::Handle(kind);
    }
    match (bare.as_str(), name) {
        ("char*", _) if measured => Role::Text,
        ("char*", _) => Role::Name,
        ("size_t", _) => Role::TextLength,
        ("size_t*", _) => Role::LengthOut,
        ("int64_t", "wait_ms" | "ms") => Role::Wait,
        ("int32_t*" | "int64_t*", _) => Role::NumberOut(bare.trim_end_matches('*').to_owned()),
        ("int32_t" | "mcp_status" | "int64_t", _) => Role::Number,
        ("void*", "user") => Role::User,
        // A list of handles: NULL, which no list is.
        ("mcp_task*const*", _) => Role::User,
        ("mcp_event_fn" | "mcp_log_fn" | "mcp_destroy_fn" | "mcp_stream_write_fn" | "mcp_stream_close_fn", _) => {
            Role::Function(bare)
        }
        other => panic!("tests/c_programs/prototypes.rs does not know the parameter {other:?}"),
    }
}

/// What the C programs include.
pub(crate) fn generate(header: &str) -> String {
    let functions = functions(header);
    let mut code = String::from("/* Generated from include/mcpnative.h by tests/c_programs/prototypes.rs. */\n");
    code.push_str("#include \"world.h\"\n\n");
    wrong_handles(&functions, &mut code);
    wrong_arguments(&functions, &mut code);
    frees(&functions, &mut code);
    blocking(&functions, &mut code);
    code
}

/// The harmless value of a parameter; handles come from `h`.
fn plain(role: &Role) -> String {
    match role {
        Role::Handle(kind) => format!("h[K_{kind}]"),
        Role::Name => "\"echo\"".into(),
        Role::Text | Role::LengthOut | Role::Function(_) | Role::User => "NULL".into(),
        Role::TextLength | Role::Wait => "0".into(),
        Role::HandleOut(kind) => format!("&out_{kind}"),
        Role::NumberOut(kind) => format!("&out_{kind}"),
        Role::Number => "1".into(),
    }
}

fn call(function: &Function, changed: &[(usize, &str)]) -> String {
    // Answers are the one text that cannot be left out.
    let answers = |at: usize| function.parameters.get(at).is_some_and(|(_, name)| name == "responses");
    let arguments = function.parameters.iter().enumerate().map(|(at, (role, _))| {
        let given = changed.iter().find(|(place, _)| *place == at).map(|(_, value)| (*value).to_owned());
        given.unwrap_or_else(|| {
            if *role == Role::Text && answers(at) {
                "\"{\\\"k\\\":{}}\"".into()
            } else if *role == Role::TextLength && answers(at.wrapping_sub(1)) {
                "8".into()
            } else {
                plain(role)
            }
        })
    });
    format!("{}({})", function.name, arguments.collect::<Vec<_>>().join(", "))
}

const LOCALS: &str =
    "    int32_t out_int32_t = 7; int64_t out_int64_t = 7;\n    (void)out_int32_t; (void)out_int64_t;\n";

fn handle_locals(code: &mut String) {
    for kind in KINDS {
        writeln!(code, "    mcp_{kind} *out_{kind} = (mcp_{kind} *)(uintptr_t)7; (void)out_{kind};").expect("String");
    }
}

/// `refuse_handles(h)`: each function that takes a handle, with the handles of `h`, none of which it may accept.
fn wrong_handles(functions: &[Function], code: &mut String) {
    code.push_str("UNUSED static int refuse_handles(void *h[KINDS])\n{\n    int calls = 0;\n");
    code.push_str(LOCALS);
    handle_locals(code);
    for function in functions.iter().filter(|function| function.handles().next().is_some()) {
        // A handle that may be NULL without being an error: of `_free`, and the queue of the log hook.
        if function.frees() {
            let kind = function.handles().next().expect("one");
            writeln!(code, "    EQUAL(h[K_{kind}] ? MCP_E_HANDLE : MCP_OK, {});", call(function, &[])).expect("String");
        } else if function.name == "mcp_log_on" {
            writeln!(code, "    EQUAL(h[K_queue] ? MCP_E_HANDLE : MCP_OK, {});", call(function, &[])).expect("String");
        } else if function.returns.contains('*') {
            writeln!(code, "    CHECK({} == NULL);", call(function, &[])).expect("String");
        } else {
            writeln!(code, "    EQUAL(MCP_E_HANDLE, {});", call(function, &[])).expect("String");
        }
        for (role, _) in &function.parameters {
            if let Role::HandleOut(kind) = role {
                writeln!(code, "    CHECK(out_{kind} == NULL);").expect("String");
            } else if let Role::NumberOut(kind) = role {
                writeln!(code, "    EQUAL(0, out_{kind}); out_{kind} = 7;").expect("String");
            }
        }
        code.push_str("    calls++;\n");
    }
    code.push_str("    return calls;\n}\n\n");
}

/// `refuse_arguments(h)`: each function with live handles and one wrong argument at a time.
fn wrong_arguments(functions: &[Function], code: &mut String) {
    code.push_str("UNUSED static int refuse_arguments(void *h[KINDS])\n{\n    int calls = 0;\n    (void)h;\n");
    code.push_str(LOCALS);
    handle_locals(code);
    for function in functions {
        for (at, (role, parameter)) in function.parameters.iter().enumerate() {
            let wanted = function.manual_of(parameter).contains("not NULL");
            let mut add = |want: &str, changed: &[(usize, &str)]| {
                let call = call(function, changed);
                let line = match want {
                    "" => format!("    (void){call}; calls++;"),
                    _ if function.returns.contains('*') => format!("    CHECK({call} == NULL); calls++;"),
                    _ => format!("    STATUS({want}, {call}); calls++;"),
                };
                writeln!(code, "{line}").expect("String");
            };
            match role {
                Role::Name if !function.manual_of(parameter).contains("or NULL") => {
                    add("MCP_E_ARGUMENT", &[(at, "NULL")]);
                    add("MCP_E_UTF8", &[(at, "\"a\\xff\"")]);
                    add("MCP_E_ARGUMENT", &[(at, "\"\"")]);
                }
                Role::Name => add("MCP_E_UTF8", &[(at, "\"a\\xff\"")]),
                // What goes through a stream is any bytes, and why it ended is any text.
                Role::Text if function.name.starts_with("mcp_stream_") => {
                    add("MCP_E_ARGUMENT", &[(at, "NULL"), (at + 1, "3")]);
                }
                Role::Text => {
                    add("MCP_E_ARGUMENT", &[(at, "NULL"), (at + 1, "3")]);
                    add("MCP_E_UTF8", &[(at, "\"{\\xff}\""), (at + 1, "3")]);
                    add("MCP_E_ARGUMENT", &[(at, "\"[1]\""), (at + 1, "3")]);
                    add("MCP_E_ARGUMENT", &[(at, "\"{\""), (at + 1, "1")]);
                    for absurd in ["SIZE_MAX", "SIZE_MAX / 2", "SIZE_MAX / 2 + 1", "(size_t)UINT32_MAX"] {
                        add("MCP_E_ARGUMENT", &[(at, "\"{}\""), (at + 1, absurd)]);
                        add("MCP_E_ARGUMENT", &[(at, "NULL"), (at + 1, absurd)]);
                    }
                }
                Role::HandleOut(_) | Role::NumberOut(_) if wanted => add("MCP_E_ARGUMENT", &[(at, "NULL")]),
                Role::HandleOut(_) | Role::NumberOut(_) => add("", &[(at, "NULL")]),
                Role::Number => {
                    for odd in ["INT32_MIN", "-1", "INT32_MAX", "4711"] {
                        let want = match function.name.as_str() {
                            "mcp_status_name" => "",
                            // Without a function the level does not matter.
                            "mcp_log_on" => "MCP_OK",
                            // Any age is one, but a negative one.
                            "mcp_client_purge" if matches!(odd, "INT32_MAX" | "4711") => "MCP_OK",
                            _ => "MCP_E_ARGUMENT",
                        };
                        add(want, &[(at, odd)]);
                    }
                }
                Role::Handle(_) | Role::TextLength | Role::LengthOut | Role::Wait | Role::Function(_) | Role::User => {}
            }
        }
    }
    code.push_str("    return calls;\n}\n\n");
}

/// `free_each(h, want)`: every `_free`.
fn frees(functions: &[Function], code: &mut String) {
    code.push_str("UNUSED static void free_each(void *h[KINDS], mcp_status want)\n{\n");
    for function in functions.iter().filter(|function| function.frees()) {
        writeln!(code, "    STATUS(want, {});", call(function, &[])).expect("String");
    }
    code.push_str("}\n\n");
}

/// `refuse_blocking(h)`: every function that may wait, inside a callback.
fn blocking(functions: &[Function], code: &mut String) {
    code.push_str("UNUSED static int refuse_blocking(void *h[KINDS])\n{\n    int calls = 0;\n    (void)h;\n");
    code.push_str(LOCALS);
    handle_locals(code);
    for function in functions.iter().filter(|function| function.is_blocking()) {
        writeln!(code, "    STATUS(MCP_E_REENTRANT, {}); calls++;", call(function, &[])).expect("String");
    }
    code.push_str("    return calls;\n}\n");
}

#[test]
fn the_header_is_read_whole() {
    let header = include_str!("../../include/mcpnative.h");
    let found = functions(header);
    assert_eq!(found.len(), header.matches("\nMCP_API").count());
    assert_eq!(found.iter().filter(|function| function.frees()).count(), KINDS.len());
    let run = found.iter().find(|function| function.name == "mcp_tool_run").expect("it is there");
    assert!(run.is_blocking());
    let roles: Vec<&Role> = run.parameters.iter().map(|(role, _)| role).collect();
    assert_eq!(roles[..4], [&Role::Handle("client"), &Role::Name, &Role::Text, &Role::TextLength]);
    assert_eq!(roles[6..], [&Role::Wait, &Role::HandleOut("call")]);
}
