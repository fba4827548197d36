//! The doors between the rooms: every `use crate::…` in `src` is read, and what only one room may do is found nowhere
//! else.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The rooms, and what each may import beside itself and the files at the root.
const DOORS: [(&str, &[&str]); 8] = [
    ("ffi", &["client", "session", "tasks", "auth", "transport", "protocol", "os"]),
    ("client", &["session", "tasks", "auth", "transport", "protocol", "os"]),
    ("session", &["transport", "protocol", "os"]),
    ("tasks", &["transport", "protocol", "os"]),
    ("auth", &["transport", "protocol", "os"]),
    ("transport", &["protocol", "os"]),
    ("protocol", &[]),
    ("os", &[]),
];

/// The files at the root, open to every room. They keep to themselves, and to `os` and `protocol` as told here.
const ROOT: [(&str, &[&str]); 6] =
    [("error", &["ffi"]), ("clock", &["os"]), ("cancel", &[]), ("hold", &[]), ("spawn", &[]), ("lib", &[])];

struct Source {
    /// `client`, or `error` for a file at the root.
    room: String,
    /// As in `src/client/call.rs`.
    name: String,
    /// Without comments and without what stands behind `#[cfg(test)]` at the end of a file.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut files) = (vec![root.clone()], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files.iter().map(|path| read(&root, path)).collect()
}

fn read(root: &Path, path: &Path) -> Source {
    let inside = path.strip_prefix(root).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let body = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
    let code: String = body.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    Source {
        room: first.trim_end_matches(".rs").to_owned(),
        name: format!("src/{}", inside.to_str().unwrap().replace('\\', "/")),
        code,
    }
}

/// Good enough for this house: no string here has two slashes after a space.
fn without_comment(line: &str) -> &str {
    let line = if line.trim_start().starts_with("//") { "" } else { line };
    line.split_once(" // ").map_or(line, |(code, _)| code)
}

fn is_test(source: &Source) -> bool {
    source.name.contains("/tests/") || source.name.ends_with("/tests.rs") || source.name.ends_with("panic_test.rs")
}

/// What stands behind each `crate::`, braces opened: `crate::{a::b, c}` names `a` and `c`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.push(word(rest)),
            Some(list) => found.extend(top_level(list).iter().map(|item| word(item))),
        }
    }
    found
}

fn word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The items of a list in braces, up to its end.
fn top_level(list: &str) -> Vec<String> {
    let (mut depth, mut items) = (0, vec![String::new()]);
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        items.last_mut().unwrap().push(c);
    }
    items.retain(|item| !item.trim().is_empty());
    items
}

#[test]
fn braces_are_opened() {
    assert_eq!(imports("use crate::{a::{b, c}, d};\nlet x = crate::e::f();\nuse mycrate::g;"), ["a", "d", "e"]);
}

#[test]
fn every_file_is_in_a_room() {
    for source in sources() {
        let known =
            DOORS.iter().any(|(room, _)| *room == source.room) || ROOT.iter().any(|(file, _)| *file == source.room);
        assert!(known, "{}: a new room needs its doors here", source.name);
    }
}

#[test]
fn the_doors_are_held() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !is_test(source)) {
        let allowed =
            DOORS.iter().chain(&ROOT).find(|(room, _)| *room == source.room).map(|(_, doors)| *doors).unwrap();
        for to in imports(&source.code) {
            let root = ROOT.iter().any(|(file, _)| *file == to);
            let macros = !DOORS.iter().any(|(room, _)| *room == to);
            if to != source.room && !root && !macros && !allowed.contains(&to.as_str()) {
                broken.push(format!("{} imports {to}", source.name));
            }
        }
    }
    assert!(broken.is_empty(), "closed doors: {broken:#?}");
}

/// Asserts that a piece of code stands only in files that `may` names.
fn only(what: &str, may: &dyn Fn(&str) -> bool) {
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|source| !is_test(source) && !may(&source.name) && has_word(&source.code, what))
        .map(|source| source.name)
        .collect();
    assert!(found.is_empty(), "`{what}` in {found:?}");
}

fn has_word(code: &str, what: &str) -> bool {
    code.match_indices(what).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + what.len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside(before) && (what.ends_with(':') || !inside(after))
    })
}

#[test]
fn http_is_spoken_in_one_room() {
    only("ureq_proto::", &|name| name.starts_with("src/transport/http/"));
    only("ureq_proto::client", &|name| name == "src/transport/http/wire.rs");
    only("rustls::", &|name| name.starts_with("src/transport/http/tls"));
}

#[test]
fn the_database_is_spoken_to_in_one_place() {
    only("rusqlite::", &|name| name.starts_with("src/tasks/ledger/"));
}

#[test]
fn threads_are_started_in_one_file() {
    only("thread::spawn", &|name| name == "src/client/runtime.rs");
    only("thread::Builder", &|name| name == "src/client/runtime.rs");
    only("thread::sleep", &|_| false);
}

#[test]
fn the_time_is_asked_for_in_one_file() {
    only("Instant::now", &|name| name == "src/clock.rs");
    only("SystemTime::now", &|name| name == "src/clock.rs");
}

#[test]
fn unsafe_code_is_at_the_border_and_at_the_system() {
    only("unsafe", &|name| name.starts_with("src/ffi/") || name.starts_with("src/os/"));
    for source in sources().iter().filter(|source| !is_test(source) && source.code.contains("allow(unsafe_code")) {
        assert!(source.room == "ffi" || source.room == "os", "{}", source.name);
    }
}
