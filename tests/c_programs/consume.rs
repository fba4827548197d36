//! The packages, as a user of the library takes them: installed, moved, then found by pkg-config and by CMake. And the
//! examples of `bindings/c`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use mcp_test_server::{Script, TestServer};

use crate::bench::{Bench, built_library, finish, has, root, run_bounded, turn};

const LIMIT: Duration = Duration::from_secs(60);

/// The prefix, moved after the installation: the packages must not care.
fn installed() -> &'static Path {
    static ONE: OnceLock<PathBuf> = OnceLock::new();
    ONE.get_or_init(|| {
        let folder = Bench::shared().folder();
        let (first, prefix) = (folder.join("first"), folder.join("prefix"));
        let turn = turn();
        turn.lock_shared().expect("a file can be locked");
        let mut install = Command::new("sh");
        install.arg(root().join("scripts/install.sh")).arg(&first);
        install.env("FROM", built_library().parent().expect("a folder")).env_remove("DESTDIR").env_remove("LIBDIR");
        finish(&mut install, "scripts/install.sh");
        fs::rename(&first, &prefix).expect("the prefix can be moved");
        prefix
    })
}

fn run(program: &Path, libraries: Option<&Path>) {
    let server = TestServer::start(Script::new());
    let mut command = Command::new(program);
    command.arg(server.url()).env_remove("LD_LIBRARY_PATH");
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    run_bounded(&mut command, LIMIT).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
}

fn ask_package(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("mcpnative").env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    let output = finish(&mut command, "pkg-config");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

fn compile(source: &Path, program: &Path, flags: &[Vec<String>]) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]).arg(source).arg("-o").arg(program);
    finish(gcc.args(flags.iter().flatten()), "gcc");
}

#[test]
fn pkg_config_finds_the_shared_and_the_static_library() {
    if !has("pkg-config") {
        return;
    }
    let source = root().join("tests/consume/main.c");
    let (shared, archived) = (installed().join("with-shared"), installed().join("with-archive"));
    compile(&source, &shared, &[ask_package(&["--cflags", "--libs"])]);
    run(&shared, Some(&installed().join("lib")));
    let parts = [vec!["--cflags"], vec!["--variable=archive"], vec!["--variable=system_libs"]];
    compile(&source, &archived, &parts.map(|part| ask_package(&part)));
    run(&archived, None);
}

#[test]
fn cmake_finds_the_shared_and_the_static_library() {
    if !has("cmake") {
        return;
    }
    let build = installed().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("tests/consume")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed().display()));
    finish(&mut configure, "cmake");
    finish(Command::new("cmake").arg("--build").arg(&build), "cmake --build");
    // CMake gives the program the way to the library.
    run(&build.join("consume-shared"), None);
    run(&build.join("consume-static"), None);
}

#[test]
fn the_examples_of_c_run() {
    if !has("pkg-config") {
        return;
    }
    for name in ["quick", "long_job", "subscribe"] {
        let source = root().join(format!("bindings/c/examples/{name}.c"));
        let program = installed().join(name);
        let flags = [ask_package(&["--cflags", "--libs"]), vec!["-D_POSIX_C_SOURCE=200809L".to_owned()]];
        compile(&source, &program, &flags);
        run(&program, Some(&installed().join("lib")));
    }
}
