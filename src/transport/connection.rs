//! A connection to a server that runs by itself: the framing of a child process without the child. `socket.rs` and
//! `named_pipe.rs` make the connection.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::cancel::Wake;
use crate::clock::{Budget, Clock, Deadline};
use crate::os::WakeHandle;
use crate::spawn::Spawn;
use crate::transport::lines::{Handle, LineWriter};
use crate::transport::reading::{Bell, Reading};
use crate::transport::{Fault, Gone, Link, Receiver, Scope, Sent};

/// The reader sees the stop at once; this is only the bound of the wait.
const READER_ENDS: Duration = Duration::from_secs(1);

/// Bytes both ways.
pub(super) trait Duplex: Handle + Read + Send + Sized + 'static {
    /// A second handle of the same connection.
    fn twin(&self) -> std::io::Result<Self>;

    /// The peer sees the end at once, whoever still holds a handle.
    fn shut(&self) {}
}

/// What a link is made with.
pub(super) struct Wiring<'a> {
    /// The name of the reading thread.
    pub thread: &'static str,
    /// The longest line.
    pub line_bytes: usize,
    pub clock: &'a Arc<dyn Clock>,
    pub spawn: &'a Arc<dyn Spawn>,
}

/// Makes a link of a connection.
pub(super) fn link(
    stream: impl Duplex,
    wiring: &Wiring<'_>,
    receiver: Arc<dyn Receiver>,
) -> Result<Arc<dyn Link>, Fault> {
    let lost = |fault: std::io::Error| Fault::Connect(fault.to_string());
    let (writer, reader) = (stream.twin().map_err(lost)?, stream.twin().map_err(lost)?);
    let line = Arc::new(Line {
        stream: Mutex::new(Some(stream)),
        writer: LineWriter::new(writer, wiring.clock.clone()).map_err(lost)?,
        input: Reading::new(reader, wiring.line_bytes, receiver.clone(), wiring.clock.clone()).map_err(lost)?,
        stop: WakeHandle::new().map_err(lost)?,
        bell: Bell::new().map_err(lost)?,
        clock: wiring.clock.clone(),
        closing: AtomicBool::new(false),
        reading: Mutex::new(true),
        changed: Condvar::new(),
    });
    let here = line.clone();
    let started = wiring.spawn.spawn(wiring.thread, Box::new(move || here.read(&*receiver)));
    started.map_err(|refused| Fault::Connect(refused.message().to_owned()))?;
    Ok(line)
}

/// One connection.
struct Line<S: Duplex> {
    /// Taken out by the one that shuts it.
    stream: Mutex<Option<S>>,
    writer: LineWriter<S>,
    input: Reading<S>,
    stop: WakeHandle,
    bell: Arc<Bell>,
    clock: Arc<dyn Clock>,
    closing: AtomicBool,
    reading: Mutex<bool>,
    changed: Condvar,
}

impl<S: Duplex> Line<S> {
    fn read(&self, receiver: &dyn Receiver) {
        let fault = self.input.run(&self.stop);
        self.writer.cut();
        let why = match fault {
            _ if self.closing.load(Ordering::Acquire) => Gone::Closed,
            Some(fault) => Gone::Lost(format!("the connection broke: {fault}")),
            None => Gone::Lost("the server ended the connection".into()),
        };
        receiver.ended(why);
        self.writer.close();
        self.shut();
        *self.reading.lock() = false;
        self.changed.notify_all();
    }

    fn shut(&self) {
        let stream = self.stream.lock().take();
        stream.iter().for_each(S::shut);
    }
}

impl<S: Duplex> Link for Line<S> {
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

    #[cfg(unix)]
    fn turn(&self) -> Option<Box<dyn crate::transport::Turn + '_>> {
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
        self.stop.set();
        self.shut();
    }

    fn close(&self, _grace: Option<Duration>) {
        self.cut();
        self.writer.close();
        self.stop.set();
        self.shut();
        let deadline = Deadline::after(self.clock.now(), Some(READER_ENDS), Budget::Grace);
        let mut reading = self.reading.lock();
        while *reading && deadline.wait(&self.changed, &mut reading) {}
    }
}

/// A path or name of a URL without its percent signs; `None` where one is broken or stands for a NUL.
pub(super) fn without_percent(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = tail.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))?;
        let byte = u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
        bytes.push(Some(byte).filter(|byte| *byte != 0)?);
        rest = &tail[2..];
    }
    Some(bytes)
}
