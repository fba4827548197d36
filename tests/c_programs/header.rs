//! The header alone, twice, in each language that it promises to be.

use std::fs;
use std::process::Command;

use crate::bench::{Bench, finish, root};

#[test]
fn the_header_compiles_alone_and_twice() {
    let folder = Bench::shared().folder();
    let use_it = "#include <mcpnative.h>\n#include <mcpnative.h>\n\
        int use(void);\nint use(void) { return mcp_abi_version() == MCP_ABI_VERSION ? MCP_OK : MCP_E_UNSUPPORTED; }\n";
    let (c, cpp) = (folder.join("header.c"), folder.join("header.cpp"));
    fs::write(&c, use_it).expect("the build folder is writable");
    fs::write(&cpp, use_it).expect("the build folder is writable");
    let languages = [("gcc", &c, &["c99", "c11", "c17"][..]), ("g++", &cpp, &["c++11", "c++14", "c++17", "c++20"][..])];
    for (compiler, source, standards) in languages {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("SKIPPED: {compiler} is missing");
            continue;
        }
        for standard in standards {
            let mut command = Command::new(compiler);
            command.arg(format!("-std={standard}")).args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-fsyntax-only",
            ]);
            command.arg("-I").arg(root().join("include")).arg(source);
            finish(&mut command, &format!("the header is no {standard}"));
        }
    }
}
