//! A server behind a Unix socket, by URL (`unix:///run/server.sock`).

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::spawn::Spawn;
use crate::transport::connection::{Duplex, Wiring, link, without_percent};
use crate::transport::{Dial, Fault, Link, Receiver, Scope, Sent};

/// Connects to a Unix socket.
pub(crate) struct SocketDial {
    url: String,
    path: PathBuf,
    line_bytes: usize,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
}

impl SocketDial {
    /// Checks the URL; connects nothing.
    ///
    /// # Errors
    /// [`Kind::Argument`] where it has a host, no absolute path, or a path that no socket can have.
    pub(crate) fn new(url: &str, line_bytes: usize, clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Result<Self> {
        let path = path_of(url)?;
        SockAddr::unix(&path)
            .map_err(|why| Error::new(Kind::Argument, format!("`url` is no path of a socket: {why}")))?;
        Ok(Self { url: url.to_owned(), path, line_bytes, clock, spawn })
    }

    fn connect(&self, scope: &Scope<'_>) -> Result<UnixStream, Fault> {
        let limit = Deadline::after(self.clock.now(), scope.connect, Budget::Connect).tighter(scope.total);
        let left = limit.left(self.clock.now());
        let left = left.map_err(|expired| Fault::Timeout { budget: expired.0, sent: Sent::No })?;
        let connected = SockAddr::unix(&self.path).and_then(|address| {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            match left {
                Some(left) => socket.connect_timeout(&address, left)?,
                None => socket.connect(&address)?,
            }
            Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
        });
        connected.map_err(|fault| Fault::Connect(format!("{}: {fault}", self.path.display())))
    }
}

impl Dial for SocketDial {
    fn dial(&self, receiver: Arc<dyn Receiver>, scope: &Scope<'_>) -> Result<Arc<dyn Link>, Fault> {
        let stream = self.connect(scope)?;
        let (clock, spawn) = (&self.clock, &self.spawn);
        link(stream, &Wiring { thread: "mcp-socket", line_bytes: self.line_bytes, clock, spawn }, receiver)
    }

    fn origin(&self) -> &str {
        &self.url
    }
}

impl Duplex for UnixStream {
    fn twin(&self) -> std::io::Result<Self> {
        self.try_clone()
    }

    fn shut(&self) {
        // An error here says that it is shut already.
        self.shutdown(std::net::Shutdown::Both).unwrap_or_default();
    }
}

/// The path of a `unix:` URL (RFC 8089 shows the forms of `file:`, which this follows): `unix:///path` or `unix:/path`.
fn path_of(url: &str) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let wrong = |why: &str| Error::new(Kind::Argument, format!("`url` {why}, expected unix:///path"));
    let rest = url.strip_prefix("unix:").ok_or_else(|| wrong("is no URL of a Unix socket"))?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(wrong("has no absolute path"));
    }
    let bytes = without_percent(path).ok_or_else(|| wrong("has a broken percent sign"))?;
    Ok(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url() {
        for (url, want) in [
            ("unix:///run/a.sock", Ok("/run/a.sock")),
            ("unix:/run/a%20b.sock", Ok("/run/a b.sock")),
            ("unix://run/a.sock", Err("`url` has no absolute path, expected unix:///path")),
            ("unix:a", Err("`url` has no absolute path, expected unix:///path")),
            ("unix:///a%zz", Err("`url` has a broken percent sign, expected unix:///path")),
            ("unix:///a%0", Err("`url` has a broken percent sign, expected unix:///path")),
            ("unix:///a%00b", Err("`url` has a broken percent sign, expected unix:///path")),
        ] {
            let got = path_of(url);
            let got = got.as_ref().map(|path| path.to_str().unwrap()).map_err(Error::message);
            assert_eq!(got, want, "{url}");
        }
    }
}
