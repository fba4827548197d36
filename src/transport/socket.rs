//! A server behind a Unix socket, by URL (`unix:///run/server.sock`): the framing of a child process without the child.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::cancel::Wake;
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{Error, Kind, Result};
use crate::os::WakeHandle;
use crate::os::pipe::set_nonblocking;
use crate::spawn::Spawn;
use crate::transport::lines::LineWriter;
use crate::transport::reading::{Bell, Reading};
use crate::transport::{Dial, Fault, Gone, Link, Receiver, Scope, Sent, Turn};

/// The reader sees the stop at once; this is only the bound of the wait.
const READER_ENDS: Duration = Duration::from_secs(1);

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
        let left = scope.total.left(self.clock.now());
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
        let lost = |fault: std::io::Error| Fault::Connect(fault.to_string());
        set_nonblocking(&stream).map_err(lost)?;
        let (writer, reader) = (stream.try_clone().map_err(lost)?, stream.try_clone().map_err(lost)?);
        let line = Arc::new(Line {
            stream,
            writer: LineWriter::new(writer, self.clock.clone()),
            input: Reading::new(reader, self.line_bytes, receiver.clone(), self.clock.clone()),
            stop: WakeHandle::new().map_err(lost)?,
            bell: Bell::new().map_err(lost)?,
            clock: self.clock.clone(),
            closing: AtomicBool::new(false),
            reading: Mutex::new(true),
            changed: Condvar::new(),
        });
        let here = line.clone();
        let started = self.spawn.spawn("mcp-socket", Box::new(move || here.read(&*receiver)));
        started.map_err(|refused| Fault::Connect(refused.message().to_owned()))?;
        Ok(line)
    }

    fn origin(&self) -> &str {
        &self.url
    }
}

/// One connection.
struct Line {
    stream: UnixStream,
    writer: LineWriter<UnixStream>,
    input: Reading<UnixStream>,
    stop: WakeHandle,
    bell: Arc<Bell>,
    clock: Arc<dyn Clock>,
    closing: AtomicBool,
    reading: Mutex<bool>,
    changed: Condvar,
}

impl Line {
    fn read(&self, receiver: &dyn Receiver) {
        let fault = self.input.run(&self.stop);
        self.writer.cut();
        let why = match fault {
            _ if self.closing.load(Ordering::Acquire) => Gone::Closed,
            Some(fault) => Gone::Lost(format!("the connection broke: {fault}")),
            None => Gone::Lost("the server ended the connection".into()),
        };
        receiver.ended(why);
        self.shut();
        *self.reading.lock() = false;
        self.changed.notify_all();
    }

    /// The peer sees the end at once, whoever still holds a copy of the descriptor.
    fn shut(&self) {
        // An error here says that it is shut already.
        self.stream.shutdown(std::net::Shutdown::Both).unwrap_or_default();
    }
}

impl Link for Line {
    fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        match self.writer.send(message, scope) {
            // The writer is closed by the end of the other side, too.
            Err(Fault::Closed) if !self.closing.load(Ordering::Acquire) => {
                Err(Fault::Io { sent: Sent::No, detail: "the connection is gone".into() })
            }
            sent => sent,
        }
    }

    fn try_send(&self, message: &str) -> bool {
        self.writer.try_send(message)
    }

    fn turn(&self) -> Option<Box<dyn Turn + '_>> {
        self.input.turn(&self.stop, self.bell.handle())
    }

    fn bell(&self) -> Option<Arc<dyn Wake>> {
        Some(self.bell.clone())
    }

    fn want_reader(&self) {
        self.input.want();
    }

    fn cut(&self) {
        self.closing.store(true, Ordering::Release);
        self.writer.cut();
    }

    fn give_up(&self) {
        self.writer.cut();
        self.shut();
    }

    fn close(&self, _grace: Option<Duration>) {
        self.cut();
        self.writer.close();
        self.stop.set();
        self.shut();
        let deadline = Deadline::after(self.clock.now(), Some(READER_ENDS), Budget::Grace);
        let mut reading = self.reading.lock();
        while *reading {
            let timed_out = deadline.at().is_none_or(|at| self.changed.wait_until(&mut reading, at).timed_out());
            if timed_out {
                return;
            }
        }
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
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|byte| *byte != 0);
        bytes.push(byte.ok_or_else(|| wrong("has a broken percent sign"))?);
        rest = &tail[2..];
    }
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
