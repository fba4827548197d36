//! A TCP socket as ureq's transport: output is gathered and leaves in one write when the answer is awaited; waits end
//! by the lane's limits and its cut, not by ureq's timers.
//!
//! It is used below TLS too, where the records gather in the same way. The standard library writes with
//! `MSG_NOSIGNAL` on Linux and sets `SO_NOSIGPIPE` on Apple systems, so a dead peer never raises a signal in the host.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::SockRef;
use ureq::unversioned::transport::{Buffers, NextTimeout, Transport};

use super::control::{Control, Phase, Stage, Trouble};
use crate::clock::Deadline;
use crate::transport::Sent;

/// Output that is pending beyond this leaves at once; chosen, because larger writes win nothing.
const FLUSH_AT: usize = 64 << 10;
/// Room for one piece of output; a longer line of the head makes it larger.
const OUTPUT_ROOM: usize = 16 << 10;
/// The input buffer begins small and doubles while reads fill it.
const INPUT_START: usize = 8 << 10;
/// A system timeout that is shorter than asked only costs a look at the clock, and longer ones are never set; above
/// this it is not worth a system call to change it.
const GOOD_ENOUGH: Duration = Duration::from_secs(10);

/// The transport of one connection.
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    control: Arc<Control>,
    pipes: Pipes,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// Why writing failed. Reading goes on: a server that refuses a request early may have said why.
    broken: Option<String>,
}

impl Socket {
    /// `input_max` bounds what may wait to be parsed: the head of an answer, a line of its framing.
    pub(super) fn new(stream: TcpStream, control: Arc<Control>, input_max: usize) -> Self {
        let stream = Arc::new(stream);
        control.enter(Stage::Open(stream.clone()));
        let pipes = Pipes::new(input_max);
        Self { stream, control, pipes, read_timeout: None, write_timeout: None, broken: None }
    }

    fn flush(&mut self) {
        let end = std::mem::take(&mut self.pipes.pending);
        if self.broken.is_some() || end == 0 {
            return;
        }
        let mut done = 0;
        while done < end {
            match self.write_some(done, end) {
                Ok(more) => done += more,
                Err(cause) => {
                    self.broken = Some(cause.to_string());
                    return;
                }
            }
        }
    }

    /// One write, under a deadline that begins anew with each success.
    fn write_some(&mut self, from: usize, to: usize) -> io::Result<usize> {
        let since = self.control.clock().now();
        let mut now = since;
        loop {
            let left = self.left(self.control.deadline(since, now), now)?;
            if let Some(timeout) = renewed(self.write_timeout, left, now != since) {
                self.stream.set_write_timeout(Some(timeout))?;
                self.write_timeout = Some(timeout);
            }
            match (&*self.stream).write(&self.pipes.output[from..to]) {
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
    fn read_some(&mut self) -> io::Result<usize> {
        let since = self.control.clock().now();
        let mut now = since;
        loop {
            let left = self.left(self.control.deadline(since, now), now)?;
            if let Some(timeout) = renewed(self.read_timeout, left, now != since) {
                self.stream.set_read_timeout(Some(timeout))?;
                self.read_timeout = Some(timeout);
            }
            match (&*self.stream).read(self.pipes.input_append_buf()) {
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

    fn on_read(&mut self, done: io::Result<usize>) -> Result<bool, ureq::Error> {
        match (done, self.broken.take()) {
            (Ok(0), broken) => {
                self.control.on_end();
                if let Some(cause) = broken {
                    self.on_broken(cause);
                }
                Ok(false)
            }
            (Ok(more), broken) => {
                // The answer to a request that could not be sent whole: it counts, the connection does not.
                if broken.is_some() {
                    self.control.on_end();
                }
                self.pipes.input_appended(more);
                Ok(true)
            }
            (Err(cause), broken) => {
                self.on_broken(broken.unwrap_or_else(|| cause.to_string()));
                Err(ureq::Error::Io(cause))
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

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.pipes.widest = self.control.widest();
        &mut self.pipes
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        self.pipes.pending += amount;
        if self.pipes.pending >= FLUSH_AT {
            self.flush();
        }
        // A failed write shows at the next read, with the server's reason where it gave one; a limit shows now.
        match self.control.trouble() {
            Some(Trouble::Expired(_)) => Err(ureq::Error::Io(io::Error::other("out of time"))),
            Some(Trouble::Connect(_) | Trouble::Tls(_) | Trouble::Io(_)) | None => Ok(()),
        }
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        self.flush();
        if self.control.phase() == Phase::Draining && probe(&self.stream) == Probe::Quiet {
            return Err(ureq::Error::Io(ErrorKind::WouldBlock.into()));
        }
        if self.pipes.input_append_buf().is_empty() {
            self.control.blame(Trouble::Io("a line of the answer's framing is too long".into()));
            return Err(ureq::Error::Io(io::Error::other("too long")));
        }
        let done = self.read_some();
        self.on_read(done)
    }

    fn is_open(&mut self) -> bool {
        if self.control.is_cut() || self.control.ended() || self.broken.is_some() {
            return false;
        }
        // ureq asks twice: when the connection goes back, and when it is taken out again. Only the second answer is
        // worth a system call: nothing was sent yet, so any byte or end found here is one too many.
        match self.control.sent() {
            Sent::Begun => true,
            Sent::No => probe(&self.stream) == Probe::Quiet,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.control.enter(Stage::Idle);
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
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

/// The buffers that ureq writes to and reads from.
///
/// ```text
/// output: [ pending ........ | room for the next piece ]
/// input:  [ consumed | unread ....... filled | free     ]
/// ```
struct Pipes {
    output: Vec<u8>,
    pending: usize,
    widest: usize,
    input: Vec<u8>,
    consumed: usize,
    filled: usize,
    progress: bool,
    input_max: usize,
}

impl Pipes {
    fn new(input_max: usize) -> Self {
        let (output, input) = (Vec::new(), Vec::new());
        Self { output, pending: 0, widest: 0, input, consumed: 0, filled: 0, progress: false, input_max }
    }

    fn make_room(&mut self) {
        // 64 bytes for the method, the version, and the ends of lines.
        let wanted = self.pending + OUTPUT_ROOM.max(self.widest + 64);
        if self.output.len() < wanted {
            self.output.resize(wanted, 0);
        }
    }

    /// Moves unread bytes to the front; doubles where reads fill the buffer, or where what is unread does.
    fn tidy(&mut self) {
        let was_full = self.filled == self.input.len();
        if self.consumed == self.filled {
            self.consumed = 0;
            self.filled = 0;
        } else if was_full && self.consumed > 0 {
            self.input.copy_within(self.consumed..self.filled, 0);
            self.filled -= self.consumed;
            self.consumed = 0;
        }
        if was_full {
            let wanted = (self.input.len() * 2).clamp(INPUT_START, self.input_max);
            self.input.resize(wanted.max(self.input.len()), 0);
        }
    }
}

impl Buffers for Pipes {
    fn output(&mut self) -> &mut [u8] {
        self.make_room();
        &mut self.output[self.pending..]
    }

    fn input(&self) -> &[u8] {
        &self.input[self.consumed..self.filled]
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.tidy();
        &mut self.input[self.filled..]
    }

    fn input_appended(&mut self, amount: usize) {
        self.filled += amount;
    }

    fn input_consume(&mut self, amount: usize) {
        self.progress = amount > 0;
        self.consumed += amount;
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        // The scratch buffer serves chunked requests only, and ours carry their length.
        self.make_room();
        (&mut [], &mut self.output[self.pending..])
    }

    fn can_use_input(&self) -> bool {
        self.progress && self.consumed < self.filled
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

    #[test]
    fn the_input_buffer_grows_to_its_limit_and_keeps_what_is_unread() {
        let mut pipes = Pipes::new(20_000);
        for expected in [8_192, 8_192, 3_616] {
            let room = pipes.input_append_buf().len();
            assert_eq!(room, expected);
            pipes.input_append_buf().fill(7);
            pipes.input_appended(room);
        }
        assert!(pipes.input_append_buf().is_empty());
        pipes.input_consume(19_999);
        assert_eq!(pipes.input(), [7]);
        assert_eq!(pipes.input_append_buf().len(), 19_999);
        assert_eq!(pipes.input(), [7]);
    }
}
