//! A server behind a named pipe of Windows, by URL (`pipe:mcp-server`).

#[cfg(windows)]
pub(crate) use dial::PipeDial;

use crate::error::{Error, Kind, Result};
use crate::transport::connection::without_percent;

/// Where the pipes of this machine are.
const ROOT: &str = r"\\.\pipe\";
/// What `CreateNamedPipe` takes, in UTF-16.
const LONGEST: usize = 256;

/// The path of a `pipe:` URL: `pipe:name`, or what Windows itself writes, `pipe:\\.\pipe\name`, also with slashes
/// (`pipe://./pipe/name`, in short `pipe://./name`). Pipes of other machines are not for a client that starts from a
/// configuration file: who asks for one sends the user's credentials there.
pub(crate) fn path_of(url: &str) -> Result<String> {
    let wrong = |why: &str| Error::new(Kind::Argument, format!("`url` {why}, expected pipe:name"));
    let rest = url.strip_prefix("pipe:").ok_or_else(|| wrong("is no URL of a named pipe"))?;
    let rest = without_percent(rest).ok_or_else(|| wrong("has a broken percent sign"))?;
    let rest = String::from_utf8(rest).map_err(|_| wrong("has a name that is no UTF-8"))?.replace('/', r"\");
    let name = match rest.strip_prefix(r"\\") {
        None => rest.as_str(),
        Some(rest) => match rest.split_once('\\') {
            Some(("." | "", name)) => name.strip_prefix(r"pipe\").unwrap_or(name),
            Some(_) => return Err(wrong("has a host: only pipes of this machine are connected to")),
            None => return Err(wrong("has a host and no name of a pipe")),
        },
    };
    // The system would take such steps out, and a way up leads out of the pipes to files and devices.
    if name.split('\\').any(|step| matches!(step, "" | "." | "..")) || name.contains(char::is_control) {
        return Err(wrong("has no name that a pipe can have"));
    }
    let path = format!("{ROOT}{name}");
    if path.encode_utf16().count() > LONGEST {
        return Err(wrong("has a name that is too long for a pipe"));
    }
    Ok(path)
}

#[cfg(windows)]
mod dial {
    use std::fs::File;
    use std::sync::Arc;
    use std::time::Duration;

    use super::path_of;
    use crate::clock::{Budget, Clock, Deadline};
    use crate::error::Result;
    use crate::os::named_pipe::open;
    use crate::spawn::Spawn;
    use crate::transport::connection::{Duplex, Wiring, link};
    use crate::transport::{Dial, Fault, Link, Receiver, Scope, Sent};

    /// How long one wait for a free instance lasts, before the token and the deadline are looked at again.
    const SLICE: Duration = Duration::from_millis(50);

    /// Connects to a named pipe.
    pub(crate) struct PipeDial {
        url: String,
        path: String,
        line_bytes: usize,
        clock: Arc<dyn Clock>,
        spawn: Arc<dyn Spawn>,
    }

    impl PipeDial {
        /// Checks the URL; connects nothing.
        ///
        /// # Errors
        /// [`crate::error::Kind::Argument`] where it names no pipe of this machine.
        pub(crate) fn new(url: &str, line_bytes: usize, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Result<Self> {
            Ok(Self { url: url.to_owned(), path: path_of(url)?, line_bytes, clock, spawn })
        }

        /// A server that has all its instances taken is waited for, as long as a connection may take.
        fn connect(&self, scope: &Scope<'_>) -> Result<File, Fault> {
            let limit = Deadline::after(self.clock.now(), scope.connect, Budget::Connect).tighter(scope.total);
            loop {
                if let Some(why) = scope.cancel.cancelled() {
                    return Err(Fault::Cancelled { why, sent: Sent::No });
                }
                let left = limit.left(self.clock.now());
                let left = left.map_err(|expired| Fault::Timeout { budget: expired.0, sent: Sent::No })?;
                match open(&self.path, left.map_or(SLICE, |left| left.min(SLICE))) {
                    Ok(Some(pipe)) => return Ok(pipe),
                    Ok(None) => {}
                    Err(fault) => return Err(Fault::Connect(format!("{}: {fault}", self.path))),
                }
            }
        }
    }

    impl Dial for PipeDial {
        fn dial(&self, receiver: Arc<dyn Receiver>, scope: &Scope<'_>) -> Result<Arc<dyn Link>, Fault> {
            let pipe = self.connect(scope)?;
            let (clock, spawn) = (&self.clock, &self.spawn);
            link(pipe, &Wiring { thread: "mcp-pipe", line_bytes: self.line_bytes, clock, spawn }, receiver)
        }

        fn origin(&self) -> &str {
            &self.url
        }
    }

    /// The end of the last handle is the end of the connection.
    impl Duplex for File {
        fn twin(&self) -> std::io::Result<Self> {
            self.try_clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url() {
        for (url, want) in [
            ("pipe:mcp-server", Ok(r"\\.\pipe\mcp-server")),
            ("pipe://./mcp-server", Ok(r"\\.\pipe\mcp-server")),
            ("pipe:///mcp-server", Ok(r"\\.\pipe\mcp-server")),
            ("pipe://./pipe/mcp-server", Ok(r"\\.\pipe\mcp-server")),
            (r"pipe:\\.\pipe\mcp-server", Ok(r"\\.\pipe\mcp-server")),
            ("pipe:LOCAL/a%20b.%C3%A9", Ok("\\\\.\\pipe\\LOCAL\\a b.é")),
            ("pipe:pipe", Ok(r"\\.\pipe\pipe")),
            ("pipe:", Err("`url` has no name that a pipe can have, expected pipe:name")),
            ("pipe:///", Err("`url` has no name that a pipe can have, expected pipe:name")),
            ("pipe:../C:/secret", Err("`url` has no name that a pipe can have, expected pipe:name")),
            ("pipe:a%2f..%5C..%2fb", Err("`url` has no name that a pipe can have, expected pipe:name")),
            ("pipe:/a", Err("`url` has no name that a pipe can have, expected pipe:name")),
            ("pipe:a\nb", Err("`url` has no name that a pipe can have, expected pipe:name")),
            ("pipe://name", Err("`url` has a host and no name of a pipe, expected pipe:name")),
            (
                "pipe://server/name",
                Err("`url` has a host: only pipes of this machine are connected to, expected pipe:name"),
            ),
            (
                r"pipe:\\server\pipe\name",
                Err("`url` has a host: only pipes of this machine are connected to, expected pipe:name"),
            ),
            ("pipe:a%zz", Err("`url` has a broken percent sign, expected pipe:name")),
            ("pipe:a%+1", Err("`url` has a broken percent sign, expected pipe:name")),
            ("pipe:a%00", Err("`url` has a broken percent sign, expected pipe:name")),
            ("pipe:%ff", Err("`url` has a name that is no UTF-8, expected pipe:name")),
        ] {
            let got = path_of(url);
            assert_eq!(got.as_deref().map_err(Error::message), want, "{url}");
        }
        assert!(path_of(&format!("pipe:{}", "x".repeat(247))).is_ok());
        assert!(path_of(&format!("pipe:{}", "x".repeat(248))).is_err());
    }
}
