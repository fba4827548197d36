//! What a child and a socket have in common: a writer of whole lines with a deadline, and a reader that can be stopped.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memchr::memchr2;
use parking_lot::{Mutex, MutexGuard};

use crate::clock::Clock;
use crate::os::WakeHandle;
use crate::os::pipe::{Inlet, Outlet, WHOLE};
use crate::transport::framing::{Frame, Framer};
use crate::transport::{Fault, Receiver, Scope, Sent};

#[cfg(unix)]
pub(super) use std::os::fd::AsFd as Handle;
#[cfg(windows)]
pub(super) use std::os::windows::io::AsHandle as Handle;

/// How long a writer waits for room, or for its turn, before it looks at its token and its deadline again. Only a peer
/// that does not read lets a writer come here.
const SLICE: Duration = Duration::from_millis(50);
/// How long [`LineWriter::try_send`] waits for another's write: none of them waits for room, so it is over in a moment.
const TURN: Duration = Duration::from_millis(2);
/// One read; a pipe holds 64 KiB.
const READ: usize = 64 << 10;

struct Half<W: Handle> {
    outlet: Outlet<W>,
    /// What is left of a line whose sender gave up in the middle: it has to go out before the next line.
    rest: Vec<u8>,
}

/// The writing half of a channel. A line is written under a lock that is held over the write: it is what keeps lines
/// whole, and every wait for it looks at the caller's own end.
pub(super) struct LineWriter<W: Handle> {
    half: Mutex<Option<Half<W>>>,
    closing: AtomicBool,
    /// A writer waits for room: the peer does not read.
    stuck: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl<W: Handle> LineWriter<W> {
    pub(super) fn new(sink: W, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let half = Mutex::new(Some(Half { outlet: Outlet::new(sink)?, rest: Vec::new() }));
        Ok(Self { half, closing: AtomicBool::new(false), stuck: AtomicBool::new(false), clock })
    }

    /// Sends one message as one line where it is short and the channel has room. False: it was not sent.
    pub(super) fn try_send(&self, message: &str) -> bool {
        let line = line_of(message);
        if line.len() > WHOLE || self.stuck.load(Ordering::Acquire) || self.closing.load(Ordering::Acquire) {
            return false;
        }
        let Some(mut half) = self.half.try_lock_for(TURN) else {
            return false;
        };
        let Some(half) = half.as_mut().filter(|half| half.rest.is_empty()) else {
            return false;
        };
        match half.outlet.write(&line) {
            Ok(done) if done == line.len() => true,
            // A socket of some system's took a part: the next sender brings the rest, and nobody asked for its answer.
            Ok(done) => {
                half.rest = line[done..].to_vec();
                false
            }
            Err(_) => false,
        }
    }

    /// Sends one message as one line, in one write where the channel has room.
    pub(super) fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        let mut half = self.lock(scope)?;
        let sent = self.send_locked(&mut half, message, scope);
        self.stuck.store(false, Ordering::Release);
        sent
    }

    fn send_locked(&self, half: &mut Option<Half<W>>, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        let Some(half) = half.as_mut() else {
            return Err(Fault::Closed);
        };
        let rest = std::mem::take(&mut half.rest);
        if let Err((done, fault)) = self.write(&mut half.outlet, &rest, scope, Sent::No) {
            half.rest = rest[done..].to_vec();
            return Err(fault);
        }
        let line = line_of(message);
        self.write(&mut half.outlet, &line, scope, Sent::Begun).map_err(|(done, fault)| {
            if done > 0 || half.outlet.is_busy() {
                half.rest = line[done..].to_vec();
            }
            fault
        })
    }

    /// Nothing more is sent; a writer that waits gives up.
    pub(super) fn cut(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Closes the sink: the peer sees the end of its input.
    pub(super) fn close(&self) {
        self.cut();
        let half = self.half.lock().take();
        drop(half);
    }

    fn lock(&self, scope: &Scope<'_>) -> Result<MutexGuard<'_, Option<Half<W>>>, Fault> {
        loop {
            self.look(scope, Sent::No)?;
            if let Some(half) = self.half.try_lock_for(SLICE) {
                return Ok(half);
            }
        }
    }

    /// Writes all of it. On failure says how much went out for certain.
    fn write(
        &self,
        outlet: &mut Outlet<W>,
        bytes: &[u8],
        scope: &Scope<'_>,
        begun: Sent,
    ) -> Result<(), (usize, Fault)> {
        let mut done = 0;
        while done < bytes.len() {
            let fault = match outlet.write(&bytes[done..]) {
                Ok(count) => {
                    done += count;
                    continue;
                }
                Err(fault) => fault,
            };
            let sent = if done > 0 || outlet.is_busy() { begun } else { Sent::No };
            if fault.kind() == ErrorKind::WouldBlock {
                self.stuck.store(true, Ordering::Release);
                self.look(scope, sent).map_err(|fault| (done, fault))?;
                outlet.wait(SLICE).map_err(|fault| (done, lost(sent, &fault)))?;
            } else if fault.kind() != ErrorKind::Interrupted {
                return Err((done, lost(sent, &fault)));
            }
        }
        Ok(())
    }

    /// First the token, then the deadline, then our own end.
    fn look(&self, scope: &Scope<'_>, sent: Sent) -> Result<(), Fault> {
        if let Some(why) = scope.cancel.cancelled() {
            return Err(Fault::Cancelled { why, sent });
        }
        if let Err(expired) = scope.total.left(self.clock.now()) {
            return Err(Fault::Timeout { budget: expired.0, sent });
        }
        if self.closing.load(Ordering::Acquire) {
            return Err(Fault::Closed);
        }
        Ok(())
    }
}

fn lost(sent: Sent, fault: &std::io::Error) -> Fault {
    Fault::Io { sent, detail: format!("the request cannot be written: {fault}") }
}

/// The message with its line end. The host's own JSON passes through byte for byte and may be printed over several
/// lines; a line break in valid JSON stands between tokens, where a space means the same.
pub(super) fn line_of(message: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message.as_bytes());
    if memchr2(b'\n', b'\r', &line).is_some() {
        line.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    line.push(b'\n');
    line
}

/// Reads until the end, an error (its words), or the stop (`None` for a clean end of either kind).
pub(super) fn pump(
    source: impl Handle + Read,
    stop: &WakeHandle,
    mut take: impl FnMut(&[u8]),
) -> Option<std::io::Error> {
    let mut inlet = match Inlet::new(source) {
        Ok(inlet) => inlet,
        Err(fault) => return Some(fault),
    };
    let mut buffer = vec![0; READ];
    loop {
        match inlet.read(&mut buffer, stop) {
            Ok(None | Some(0)) => return None,
            Ok(Some(count)) => take(&buffer[..count]),
            Err(fault) => return Some(fault),
        }
    }
}

/// Cuts bytes into lines and hands them over.
pub(super) fn deliver(framer: &mut Framer, mut bytes: &[u8], receiver: &dyn Receiver) {
    while !bytes.is_empty() {
        let (used, frame) = framer.feed(bytes);
        bytes = &bytes[used..];
        if let Some(frame) = frame {
            hand_over(frame, receiver);
        }
    }
}

/// Hands over what stands without a line end.
pub(super) fn deliver_rest(framer: &mut Framer, receiver: &dyn Receiver) {
    if let Some(frame) = framer.end() {
        hand_over(frame, receiver);
    }
}

fn hand_over(frame: Frame, receiver: &dyn Receiver) {
    match frame {
        Frame::Message(text) => receiver.message(text),
        Frame::Odd(why) => receiver.odd_line(why),
        Frame::TooLong { head } => receiver.too_long(&head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::{CancelToken, Why};
    use crate::clock::{Budget, Deadline, SystemClock};

    fn scope(cancel: &CancelToken, ms: u64) -> Scope<'_> {
        let total = Deadline::after(SystemClock.now(), Some(Duration::from_millis(ms)), Budget::Total);
        Scope { cancel, total, idle: None, connect: None }
    }

    #[test]
    fn a_message_is_one_line_whatever_the_hosts_json_looks_like() {
        assert_eq!(line_of("{\n \"a\":\r\n1}"), b"{  \"a\":  1}\n");
    }

    #[test]
    #[cfg(unix)]
    fn a_line_that_was_begun_goes_out_before_the_next_one() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let lines = LineWriter::new(writer, crate::clock::system()).unwrap();
        let token = CancelToken::new();
        let long = "x".repeat(300_000);
        let first = lines.send(&long, &scope(&token, 100)).unwrap_err();
        assert!(matches!(first, Fault::Timeout { budget: Budget::Total, sent: Sent::Begun }), "{first:?}");
        let second = lines.send("second", &scope(&token, 100)).unwrap_err();
        assert!(matches!(second, Fault::Timeout { sent: Sent::No, .. }), "{second:?}");
        let cancelled = CancelToken::new();
        cancelled.cancel(Why::Host);
        let third = lines.send("third", &scope(&cancelled, 10_000)).unwrap_err();
        assert!(matches!(third, Fault::Cancelled { sent: Sent::No, .. }), "{third:?}");
        let mut seen = Vec::new();
        let mut piece = vec![0; 200_000];
        while seen.len() < 250_000 {
            let count = reader.read(&mut piece).unwrap();
            seen.extend_from_slice(&piece[..count]);
            // Room was made: the rest goes out with the next line.
            lines.send("", &scope(&token, 20)).ok();
        }
        lines.send("last", &scope(&token, 10_000)).unwrap();
        lines.close();
        reader.read_to_end(&mut seen).unwrap();
        let text = String::from_utf8(seen).unwrap();
        let mut found = text.lines().filter(|line| !line.is_empty());
        assert_eq!(found.next(), Some(long.as_str()));
        assert_eq!(found.next(), Some("last"));
        assert_eq!(found.next(), None);
    }

    #[test]
    #[cfg(unix)]
    #[allow(clippy::disallowed_methods, reason = "the lock is held by another thread")]
    fn what_takes_waiting_is_not_sent_and_no_part_of_it() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let lines = LineWriter::new(writer, crate::clock::system()).unwrap();
        assert!(lines.try_send("short"));
        assert!(!lines.try_send(&"x".repeat(WHOLE)), "it might go out in parts");
        // Another thread waits for room.
        let token = CancelToken::new();
        std::thread::scope(|threads| {
            let stuck = threads.spawn(|| lines.send(&"y".repeat(300_000), &scope(&token, 60_000)));
            while !lines.stuck.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for _ in 0..1000 {
                assert!(!lines.try_send("meanwhile"));
            }
            token.cancel(Why::Host);
            assert!(stuck.join().unwrap().is_err());
        });
        assert!(!lines.try_send("behind a line that was begun"));
        let mut seen = vec![0; 200_000];
        let count = reader.read(&mut seen).unwrap();
        assert!(seen[..count].starts_with(b"short\nyyy"));
        // There is room for the rest now, in two or three goes.
        let fresh = CancelToken::new();
        while lines.send("", &scope(&fresh, 20)).is_err() {
            let _room = reader.read(&mut seen).unwrap();
        }
        let _room = reader.read(&mut seen).unwrap();
        assert!(lines.try_send("again"));
        lines.close();
        assert!(!lines.try_send("after the end"));
    }
}
