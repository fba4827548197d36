//! Where programs are built and run.

#![allow(clippy::disallowed_methods, reason = "a driver of programs has a clock of its own")]

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mcp_test_server::{Script, TestServer};

use crate::prototypes;

/// How a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Valgrind,
    /// With the library of the feature `panic-test`.
    Panicking,
    PanickingValgrind,
}

/// Nothing should need it; a program that hangs must not hang the tests.
const LIMIT: Duration = Duration::from_secs(120);
const VALGRIND_LIMIT: Duration = Duration::from_secs(240);

/// gcc's warnings are errors here: the programs are also the proof that the header can be used like that.
const FLAGS: &[&str] = &["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// The folder of builds, with a copy of the library that nobody rebuilds meanwhile.
pub(crate) struct Bench {
    folder: PathBuf,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn sources() -> PathBuf {
    root().join("tests/c")
}

/// `target/<profile>`.
pub(crate) fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    test.parent().and_then(Path::parent).expect("target/<profile>/deps").to_owned()
}

/// The library that cargo built for this test run.
pub(crate) fn built_library() -> PathBuf {
    // As a dependency of a test it lies in deps; `cargo build` puts it one folder up. The newer one counts.
    let profile = profile_folder();
    let found = [profile.join("deps/libmcpnative.so"), profile.join("libmcpnative.so")];
    let newest = found.into_iter().filter(|path| path.exists()).max_by_key(|path| modified(path));
    newest.expect("libmcpnative.so was built with the tests")
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|facts| facts.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Bench {
    /// The one of this test process.
    pub(crate) fn shared() -> &'static Self {
        static ONE: OnceLock<Bench> = OnceLock::new();
        ONE.get_or_init(|| {
            // By process: test runners may start one for each test, at the same time.
            let folder = profile_folder().join(format!("c-programs/{}", std::process::id()));
            remove_old(&profile_folder().join("c-programs"));
            fs::create_dir_all(&folder).expect("the build folder can be made");
            let turn = turn();
            turn.lock_shared().expect("a file can be locked");
            install(&built_library(), &folder);
            drop(turn);
            let header = fs::read_to_string(root().join("include/mcpnative.h")).expect("the header can be read");
            fs::write(folder.join("each_function.h"), prototypes::generate(&header)).expect("the folder is writable");
            Self { folder }
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs programs one after the other; tells all that failed.
    pub(crate) fn run_all(&self, names: &[&str], mode: Mode) {
        let valgrind = matches!(mode, Mode::Valgrind | Mode::PanickingValgrind);
        if valgrind && Command::new("valgrind").arg("--version").output().is_err() {
            println!("SKIPPED: valgrind is missing (Debian: apt-get install valgrind)");
            return;
        }
        let libraries = match mode {
            Mode::Plain | Mode::Valgrind => self.folder.clone(),
            Mode::Panicking | Mode::PanickingValgrind => self.panicking(),
        };
        let only = std::env::var("MCP_C_PROGRAM").ok();
        let mut failures = String::new();
        for name in names.iter().filter(|name| only.as_deref().is_none_or(|only| only == **name)) {
            let begun = Instant::now();
            let program = self.compile(name, &libraries);
            let outcome = run(name, &program, &libraries, valgrind);
            let word = if valgrind { " (valgrind)" } else { "" };
            match outcome {
                Ok(()) => println!("pass {name}{word}: {:.1} s", begun.elapsed().as_secs_f64()),
                Err(text) => {
                    println!("FAIL {name}{word}: {:.1} s\n{text}", begun.elapsed().as_secs_f64());
                    write!(failures, "\n{name}{word}: {text}").expect("a String takes all");
                }
            }
        }
        assert!(failures.is_empty(), "programs failed:{failures}");
    }

    fn compile(&self, name: &str, libraries: &Path) -> PathBuf {
        let program = libraries.join(name);
        if program.exists() {
            return program;
        }
        let source = sources().join(format!("{name}.c"));
        let half = libraries.join(format!("{name}.{:?}", thread::current().id()));
        let mut gcc = Command::new("gcc");
        gcc.args(FLAGS).arg("-I").arg(root().join("include")).arg("-I").arg(&self.folder).arg("-I").arg(sources());
        gcc.arg(&source).arg("-o").arg(&half);
        // A program that loads the library by itself is not linked with it.
        if !text(&source).contains("dlopen(") {
            gcc.arg("-Wl,--no-as-needed").arg("-L").arg(libraries).arg("-lmcpnative");
        }
        finish(gcc.args(["-lm", "-ldl", "-pthread"]), &format!("gcc cannot build {name}"));
        fs::rename(&half, &program).expect("the build folder is writable");
        program
    }

    /// The folder of the library that panics where a test asks for it.
    fn panicking(&self) -> PathBuf {
        static ONE: OnceLock<PathBuf> = OnceLock::new();
        let make = || {
            let turn = turn();
            turn.lock().expect("a file can be locked");
            let library = profile_folder().join("libmcpnative_panic.so");
            if modified(&library) < newest_source() {
                build_panicking(&library);
            }
            let folder = self.folder.join("panic");
            fs::create_dir_all(&folder).expect("the build folder can be made");
            install(&library, &folder);
            folder
        };
        ONE.get_or_init(make).clone()
    }
}

/// Whose turn it is with cargo's own copy of the library; test runners may start a process for each test.
pub(crate) fn turn() -> fs::File {
    fs::File::create(profile_folder().join("c-programs.lock")).expect("the build folder is writable")
}

/// Through cargo, so that the dependencies are there already, but to a place of its own. Cargo first removes what it
/// thinks is the output, which is the ordinary library: it is put back as it was. Without what cargo tells a test, or
/// the dependencies would be built anew.
fn build_panicking(library: &Path) {
    let ordinary = profile_folder().join("deps/libmcpnative.so");
    let kept = library.with_extension("kept");
    let fresh = library.with_extension(format!("{}.so", std::process::id()));
    fs::remove_file(&kept).unwrap_or_default();
    let was_there = fs::hard_link(&ordinary, &kept).is_ok();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--lib", "--features", "panic-test", "--crate-type", "cdylib", "--target-dir"]);
    cargo.arg(profile_folder().parent().expect("target/<profile>"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let kept_words = ["CARGO_HOME", "CARGO_INCREMENTAL", "CARGO_NET", "CARGO_TERM", "CARGO_BUILD", "CARGO_ENCODED"];
    for (name, _) in std::env::vars().filter(|(name, _)| name == "OUT_DIR" || name.starts_with("CARGO_")) {
        if !kept_words.iter().any(|word| name.starts_with(word)) {
            cargo.env_remove(name);
        }
    }
    cargo.arg("--").arg(format!("--emit=link={}", fresh.display())).current_dir(root());
    let built = cargo.output();
    if was_there {
        fs::rename(&kept, &ordinary).expect("the ordinary library can be put back");
    }
    let built = built.expect("cargo runs");
    assert!(built.status.success(), "{cargo:?}:\n{}", String::from_utf8_lossy(&built.stderr));
    fs::rename(fresh, library).expect("the build folder is writable");
}

/// Puts a copy of the library into a folder, under the name that the linker asks for and the one that programs ask for.
fn install(library: &Path, folder: &Path) {
    let copy = folder.join("libmcpnative.so.1");
    fs::copy(library, &copy).expect("the library can be copied");
    let link = folder.join("libmcpnative.so");
    if !link.exists() {
        std::os::unix::fs::symlink("libmcpnative.so.1", &link).expect("a link can be made");
    }
}

/// Folders of runs that are over.
fn remove_old(shelf: &Path) {
    for entry in fs::read_dir(shelf).into_iter().flatten().flatten() {
        let owner = entry.file_name().to_string_lossy().into_owned();
        if !Path::new("/proc").join(owner).exists() {
            fs::remove_dir_all(entry.path()).unwrap_or_default();
        }
    }
}

fn newest_source() -> SystemTime {
    fn newest(path: &Path) -> SystemTime {
        let inside = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| newest(&entry.path()));
        inside.chain([modified(path)]).max().unwrap_or(SystemTime::UNIX_EPOCH)
    }
    ["src", "Cargo.toml", "Cargo.lock", "build.rs"].iter().map(|one| newest(&root().join(one))).max().expect("four")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a tool that must succeed.
pub(crate) fn finish(command: &mut Command, what: &str) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        output.status.success(),
        "{what} ({command:?}):\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The server's script stands at the end of the comment that a source begins with.
fn script(source: &str) -> Script {
    let Some((_, rest)) = source.split_once("* The server's script:\n") else {
        return Script::new();
    };
    let (script, _) = rest.split_once("*/").expect("the comment ends");
    Script::parse(script).unwrap_or_else(|error| panic!("{error}"))
}

fn run(name: &str, program: &Path, libraries: &Path, valgrind: bool) -> Result<(), String> {
    let server = TestServer::start(script(&text(&sources().join(format!("{name}.c")))));
    let mut command = if valgrind {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite"]);
        command.args(["--errors-for-leak-kinds=definite", "--num-callers=30", "--fair-sched=yes"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.arg(server.url()).env("LD_LIBRARY_PATH", libraries).env("MCP_LIBRARY", libraries.join("libmcpnative.so.1"));
    run_bounded(&mut command, if valgrind { VALGRIND_LIMIT } else { LIMIT })
}

/// Runs a program that must exit with 0 in time.
pub(crate) fn run_bounded(command: &mut Command, limit: Duration) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let ended = wait(&mut child, limit);
    let said = || format!("{}{}", out.join().unwrap_or_default(), err.join().unwrap_or_default());
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}\n{}", said())),
        None => Err(format!("still running after {limit:?}\n{}", said())),
    }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap_or_default();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end; ends the child where it does not come in time.
fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            return Some(status);
        }
        if Instant::now() > end {
            child.kill().unwrap_or_default();
            child.wait().unwrap_or_default();
            return None;
        }
        // The standard library has no wait with a limit.
        thread::sleep(Duration::from_millis(5));
    }
}
