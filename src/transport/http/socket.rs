//! A TCP socket: output is gathered and leaves in one write when the answer is awaited; waits end by the lane's limits and
//! its cut.
//!
//! It is used below TLS too, where the records gather in the same way. The standard library writes with
//! `MSG_NOSIGNAL` on Linux and sets `SO_NOSIGPIPE` on Apple systems, so a dead peer never raises a signal in the host.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::control::{Control, Phase, Stage, Trouble};
use crate::clock::Deadline;

/// Output that is pending beyond this leaves at once; chosen, because larger writes win nothing.
const FLUSH_AT: usize = 64 << 10;
/// A system timeout that is shorter than asked only costs a look at the clock, and longer ones are never set; above
/// this it is not worth a system call to change it.
const GOOD_ENOUGH: Duration = Duration::from_secs(10);

/// A way to a peer: a socket, or TLS above one. What is written leaves at the latest when something is read.
pub(super) trait Line: Read + Write + Send {
    /// Whether the peer has neither ended the connection nor said anything unasked.
    fn is_open(&mut self) -> bool;
}

/// The socket of one connection.
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    control: Arc<Control>,
    output: Vec<u8>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// Why writing failed. Reading goes on: a server that refuses a request early may have said why.
    broken: Option<String>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, control: Arc<Control>) -> Self {
        let stream = Arc::new(stream);
        control.enter(Stage::Open(stream.clone()));
        Self { stream, control, output: Vec::new(), read_timeout: None, write_timeout: None, broken: None }
    }

    /// Lets the output leave. A failed write shows at the next read, with the server's reason where it gave one; a limit
    /// shows now.
    fn push(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.output.len() && self.broken.is_none() {
            match self.write_some(done) {
                Ok(more) => done += more,
                Err(cause) => self.broken = Some(cause.to_string()),
            }
        }
        self.output.clear();
        match self.control.trouble() {
            Some(Trouble::Expired(_)) => Err(io::Error::other("out of time")),
            Some(Trouble::Connect(_) | Trouble::Tls(_) | Trouble::Io(_)) | None => Ok(()),
        }
    }

    /// One write, under a deadline that begins anew with each success.
    fn write_some(&mut self, from: usize) -> io::Result<usize> {
        let since = self.control.clock().now();
        let mut now = since;
        loop {
            let left = self.left(self.control.deadline(since, now), now)?;
            if let Some(timeout) = renewed(self.write_timeout, left, now != since) {
                self.stream.set_write_timeout(Some(timeout))?;
                self.write_timeout = Some(timeout);
            }
            match (&*self.stream).write(&self.output[from..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => {
                    self.control.on_sent();
                    return Ok(more);
                }
                Err(cause) if is_pause(&cause) => now = self.control.clock().now(),
                Err(cause) => return Err(cause),
            }
        }
    }

    /// One read, under a deadline of its own: each byte that arrives makes the silence begin anew.
    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let since = self.control.clock().now();
        let mut now = since;
        loop {
            let left = self.left(self.control.deadline(since, now), now)?;
            if let Some(timeout) = renewed(self.read_timeout, left, now != since) {
                self.stream.set_read_timeout(Some(timeout))?;
                self.read_timeout = Some(timeout);
            }
            match (&*self.stream).read(buf) {
                Err(cause) if is_pause(&cause) => now = self.control.clock().now(),
                done => return done,
            }
        }
    }

    /// Asked before each wait.
    fn left(&self, end: Deadline, now: Instant) -> io::Result<Option<Duration>> {
        if self.control.is_cut() {
            return Err(io::Error::other("cut"));
        }
        end.left(now).map_err(|expired| {
            self.control.blame(Trouble::Expired(expired.0));
            io::Error::other("out of time")
        })
    }

    fn on_read(&mut self, done: io::Result<usize>) -> io::Result<usize> {
        match (done, self.broken.take()) {
            (Ok(0), broken) => {
                self.control.on_end();
                if let Some(cause) = broken {
                    self.on_broken(cause);
                }
                Ok(0)
            }
            (Ok(more), broken) => {
                // The answer to a request that could not be sent whole: it counts, the connection does not.
                if broken.is_some() {
                    self.control.on_end();
                }
                Ok(more)
            }
            (Err(cause), broken) => {
                self.on_broken(broken.unwrap_or_else(|| cause.to_string()));
                Err(cause)
            }
        }
    }

    fn on_broken(&self, cause: String) {
        match self.control.phase() {
            // What breaks a TLS handshake is told as such, by the connector.
            Phase::Dialling => {}
            Phase::Talking | Phase::Draining => self.control.blame(Trouble::Io(cause)),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.output.len() >= FLUSH_AT {
            self.push()?;
        }
        let amount = bytes.len().min(FLUSH_AT - self.output.len());
        self.output.extend_from_slice(&bytes[..amount]);
        Ok(amount)
    }

    /// Does nothing: whatever is written is part of one request until its answer is awaited.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.output.is_empty() {
            self.push()?;
        }
        if self.control.phase() == Phase::Draining && probe(&self.stream) == Probe::Quiet {
            return Err(ErrorKind::WouldBlock.into());
        }
        let done = self.read_some(buf);
        self.on_read(done)
    }
}

impl Line for Socket {
    fn is_open(&mut self) -> bool {
        if self.control.is_cut() || self.control.ended() || self.broken.is_some() {
            return false;
        }
        // Nothing of the next request was sent yet, so any byte or end found here is one too many.
        probe(&self.stream) == Probe::Quiet
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.control.enter(Stage::Idle);
    }
}

fn is_pause(cause: &io::Error) -> bool {
    // Unix says `WouldBlock` where a socket's timeout ran out, Windows `TimedOut`.
    matches!(cause.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The system timeout to set before a wait of `left`, where the one that is set does not serve: it must not be longer,
/// and should not be so short that the wait is chopped up. A little less than `left` is set, so that the same budget
/// in the next call finds it good; after a wait that ran out, exactly what is left.
fn renewed(set: Option<Duration>, left: Option<Duration>, again: bool) -> Option<Duration> {
    let Some(left) = left else {
        // No limit: a timeout that is set may stay, the reader just looks at the clock now and then.
        return set.filter(|set| *set < GOOD_ENOUGH).map(|_| Duration::from_secs(3_600));
    };
    match set {
        Some(set) if set <= left && (set >= GOOD_ENOUGH || set >= left - left / 8) => None,
        Some(_) | None if again || left < Duration::from_millis(20) => Some(left.max(Duration::from_millis(1))),
        Some(_) | None => Some(left - left / 16),
    }
}

/// What an idle connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// Nothing: it is open and silent.
    Quiet,
    /// Bytes, an end or an error: it is not fit for a request.
    Stirred,
}

/// Looks without waiting and without taking.
#[cfg(unix)]
pub(super) fn probe(stream: &TcpStream) -> Probe {
    let mut byte = [MaybeUninit::uninit()];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    judge(SockRef::from(stream).recv_with_flags(&mut byte, flags))
}

/// Looks without waiting and without taking. Windows has no flag for one call that does not wait.
#[cfg(not(unix))]
pub(super) fn probe(stream: &TcpStream) -> Probe {
    let mut byte = [MaybeUninit::uninit()];
    let socket = SockRef::from(stream);
    if socket.set_nonblocking(true).is_err() {
        return Probe::Stirred;
    }
    let seen = judge(socket.peek(&mut byte));
    if socket.set_nonblocking(false).is_err() { Probe::Stirred } else { seen }
}

fn judge(seen: io::Result<usize>) -> Probe {
    match seen {
        Err(cause) if cause.kind() == ErrorKind::WouldBlock => Probe::Quiet,
        Ok(_) | Err(_) => Probe::Stirred,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_timeout_is_never_longer_than_what_is_left_and_rarely_set() {
        let ms = Duration::from_millis;
        let rows = [
            ("first use", None, Some(ms(1_600)), false, Some(ms(1_500))),
            ("same budget again", Some(ms(1_500)), Some(ms(1_599)), false, None),
            ("shorter budget", Some(ms(1_500)), Some(ms(800)), false, Some(ms(750))),
            ("much longer budget", Some(ms(1_500)), Some(ms(60_000)), false, Some(ms(56_250))),
            ("long enough", Some(ms(56_250)), Some(ms(300_000)), false, None),
            ("the rest after a pause", Some(ms(1_500)), Some(ms(100)), true, Some(ms(100))),
            ("never zero", Some(ms(1_500)), Some(Duration::from_nanos(1)), true, Some(ms(1))),
            ("no limit, none set", None, None, false, None),
            ("no limit, a long one set", Some(ms(56_250)), None, false, None),
            ("no limit, a short one set", Some(ms(1_500)), None, false, Some(ms(3_600_000))),
        ];
        for (name, set, left, again, expected) in rows {
            assert_eq!(renewed(set, left, again), expected, "{name}");
        }
    }
}
