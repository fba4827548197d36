//! Finds the program of a command and starts it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::launch::{self, HERE, Rules};
use super::process::Process;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result, one_line};
use crate::os::process::prepare;
use crate::spawn::Spawn;
use crate::transport::{Dial, Fault, Link, Receiver, Scope};

/// How to start a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ChildSettings {
    /// A program on the PATH, or with a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// The child gets all of the host's environment.
    pub inherit_env: bool,
    /// Its working directory; the host's where absent.
    pub cwd: Option<String>,
}

/// Starts a server's process.
pub(crate) struct ChildDial {
    settings: ChildSettings,
    environment: Vec<(String, String)>,
    line_bytes: usize,
    origin: String,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
}

impl ChildDial {
    /// Checks the settings, and reads the host's environment: now, on the host's own thread, since reading it while
    /// another thread changes it is a fault that no lock of ours can prevent. Starts nothing.
    ///
    /// # Errors
    /// [`Kind::Argument`] where a text cannot be handed to a program.
    pub(crate) fn new(
        settings: ChildSettings,
        line_bytes: usize,
        clock: Arc<dyn Clock>,
        spawn: Arc<dyn Spawn>,
    ) -> Result<Self> {
        check(&settings)?;
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let host: Vec<(String, String)> = std::env::vars_os().filter_map(unicode).collect();
        let environment = launch::environment(HERE, &host, settings.inherit_env, &settings.env);
        let origin = launch::identity(&settings.command, &settings.args);
        Ok(Self { settings, environment, line_bytes, origin, clock, spawn })
    }

    /// The first candidate that can be run.
    fn find(&self) -> Result<PathBuf, Fault> {
        let command = &self.settings.command;
        let mut refused = None;
        for candidate in launch::candidates(HERE, command, &self.environment) {
            let path = match (&self.settings.cwd, Path::new(&candidate)) {
                (Some(cwd), path) if path.is_relative() => Path::new(cwd).join(path),
                (_, path) => path.to_owned(),
            };
            match path.metadata() {
                Ok(meta) if meta.is_file() && is_executable(&meta) => return Ok(path),
                Ok(meta) if meta.is_file() => refused = Some("is not executable"),
                Ok(_) => refused = refused.or(Some("is no file")),
                Err(_) => {}
            }
        }
        let with_path = command.contains('/') || (HERE == Rules::Windows && command.contains(['\\', ':']));
        let missing = if with_path { "does not exist" } else { "is not on the PATH" };
        Err(Fault::Start(format!("the program `{}` {}", one_line(command), refused.unwrap_or(missing))))
    }

    fn command(&self, program: &Path) -> Result<Command, Fault> {
        let mut command = base_command(program, &self.settings.args)?;
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &self.settings.cwd {
            if !Path::new(cwd).is_dir() {
                return Err(Fault::Start(format!("the working directory `{}` does not exist", one_line(cwd))));
            }
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare(&mut command);
        Ok(command)
    }
}

impl Dial for ChildDial {
    fn dial(&self, receiver: Arc<dyn Receiver>, _scope: &Scope<'_>) -> Result<Arc<dyn Link>, Fault> {
        let program = self.find()?;
        let child = self.command(&program)?.spawn().map_err(|refused| {
            Fault::Start(format!("the program `{}` cannot be started: {refused}", one_line(&self.settings.command)))
        })?;
        let process = Process::take_over(child, self.line_bytes, self.clock.clone(), receiver, &*self.spawn)?;
        Ok(process)
    }

    fn origin(&self) -> &str {
        &self.origin
    }
}

/// A batch file goes through `cmd.exe`, with a command line that is ours to the last character.
#[cfg(windows)]
fn base_command(program: &Path, args: &[String]) -> Result<Command, Fault> {
    use std::os::windows::process::CommandExt;
    let text = program.to_string_lossy();
    if !launch::is_batch(&text) {
        let mut command = Command::new(program);
        command.args(args);
        return Ok(command);
    }
    let line = launch::batch_line(&text, args).map_err(|why| Fault::Start(format!("a batch file: {why}")))?;
    // By its full path: a `cmd.exe` beside the host's program must not be taken for the system's.
    let root = std::env::var("SystemRoot").unwrap_or_else(|_| r"C:\Windows".into());
    let mut command = Command::new(format!(r"{root}\System32\cmd.exe"));
    command.raw_arg(line);
    Ok(command)
}

#[cfg(not(windows))]
fn base_command(program: &Path, args: &[String]) -> Result<Command, Fault> {
    let mut command = Command::new(program);
    command.args(args);
    Ok(command)
}

#[cfg(unix)]
fn is_executable(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o111 != 0
}

#[cfg(windows)]
fn is_executable(_: &std::fs::Metadata) -> bool {
    true
}

fn check(settings: &ChildSettings) -> Result<()> {
    let wrong = |what: &str, why: &str| Err(Error::new(Kind::Argument, format!("{what} {why}")));
    if settings.command.is_empty() {
        return wrong("`command`", "is empty");
    }
    let texts = [("`command`", &settings.command)].into_iter();
    let texts = texts.chain(settings.args.iter().map(|text| ("an entry of `args`", text)));
    let texts = texts.chain(settings.cwd.iter().map(|text| ("`cwd`", text)));
    for (what, text) in texts {
        if text.contains('\0') {
            return wrong(what, "has a NUL inside");
        }
    }
    for (name, value) in &settings.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            // The value may be a secret: only the name is told.
            return wrong(&format!("`env.{}`", one_line(name)), "cannot be a variable of an environment");
        }
    }
    Ok(())
}
