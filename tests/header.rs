//! The committed header is what the sources say, and the library exports just what the header names.
//!
//! `MCP_BLESS=1 cargo test --test header` rewrites the header after a change of `src/ffi`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn names_of(header: &str) -> BTreeSet<String> {
    header
        .split("\nMCP_API")
        .skip(1)
        .filter_map(|declaration| {
            declaration.split('(').next()?.split(|c: char| c == '*' || c.is_whitespace()).next_back()
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let generated = include_str!(concat!(env!("OUT_DIR"), "/mcpnative.h"));
    let path = root().join("include/mcpnative.h");
    if std::env::var_os("MCP_BLESS").is_some() {
        std::fs::write(&path, generated).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the header can be read");
    assert!(committed == generated, "include/mcpnative.h is stale: run MCP_BLESS=1 cargo test --test header");
}

#[test]
fn no_text_is_ever_the_callers_to_free() {
    // nispor PR#32: a string that was freed with another allocator. Texts belong to their objects, whatever the way out.
    let header = std::fs::read_to_string(root().join("include/mcpnative.h")).expect("the header can be read");
    let declarations: Vec<&str> = header.split("\nMCP_API").skip(1).filter_map(|rest| rest.split(';').next()).collect();
    assert!(declarations.len() > 80, "{}", declarations.len());
    for declaration in declarations {
        let bare = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!bare.contains("char **"), "a text by an out-parameter has no owner: {bare}");
        let mutable = bare.match_indices("char *").any(|(at, _)| !bare[..at].ends_with("const "));
        assert!(!mutable, "only const texts: {bare}");
        assert!(!bare.contains("string_free") && !bare.contains("mcp_free("), "{bare}");
        // Whatever is freed is a handle of the library's.
        if bare.contains("_free(") {
            assert!(bare.contains("(struct mcp_") || bare.contains("(mcp_"), "{bare}");
        }
    }
    assert!(header.contains("never free a string"), "and the manual says so");
}

#[test]
fn the_library_exports_what_the_header_names() {
    // The cdylib lies beside the test's own folder.
    let folder: PathBuf = std::env::current_exe().expect("a test knows its path");
    let folder = folder.parent().and_then(Path::parent).expect("target/<profile>/deps");
    let library = folder.join(if cfg!(target_os = "macos") { "libmcpnative.dylib" } else { "libmcpnative.so" });
    // Cargo does not build the cdylib for a test: it may be older than the sources.
    let built = Command::new(env!("CARGO")).args(["build", "--quiet", "--lib"]).current_dir(root()).status();
    assert!(built.expect("cargo runs").success());
    let listed = Command::new("nm").arg("-D").arg("--defined-only").arg(&library).output().expect("nm (binutils) runs");
    let exported: BTreeSet<String> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next_back())
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .filter(|name| name != "mcp_test_panic")
        .collect();
    let header = std::fs::read_to_string(root().join("include/mcpnative.h")).expect("the header can be read");
    assert_eq!(exported, names_of(&header));
}
