//! A server's process while it lives, and its end.

use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::stderr::Tail;
use crate::cancel::Wake;
use crate::clock::{Budget, Clock, Deadline};
use crate::error::{ChildEnd, Error};
use crate::os::WakeHandle;
use crate::os::process::{Exit, Tree};
use crate::spawn::Spawn;
use crate::transport::lines::{LineWriter, pump};
use crate::transport::reading::{Bell, Reading};
use crate::transport::{Fault, Gone, Link, Receiver, Scope, Sent};

/// After the exit: what may still stand in the pipes is read this long. Whoever holds them open then is a grandchild.
const DRAIN: Duration = Duration::from_millis(250);
/// After the end of the output: the exit follows this soon where the server is ending by itself.
const GOODBYE: Duration = Duration::from_millis(500);
/// The steps of the ladder where nobody closes: the server ended, and something that it started lives on.
const OWN_GRACE: Duration = Duration::from_secs(2);
/// After a kill the system takes this long at most; a process that it cannot end is let go.
const KILLED: Duration = Duration::from_secs(1);
/// The process group is looked at while it is waited for, first soon, then less often: no event tells of its end.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    exit: Option<Exit>,
    /// Threads of ours that still work for this process.
    reading: usize,
    watching: bool,
}

/// A server's process.
pub(super) struct Process {
    tree: Tree,
    input: LineWriter<ChildStdin>,
    output: Reading<ChildStdout>,
    stop: WakeHandle,
    bell: Arc<Bell>,
    tail: Mutex<Tail>,
    clock: Arc<dyn Clock>,
    /// Taken out when it has been told of the end.
    receiver: Mutex<Option<Arc<dyn Receiver>>>,
    closing: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by the one that climbs the ladder.
    ladder: Mutex<()>,
}

impl Process {
    /// Takes over a child that was just started with three pipes.
    pub(super) fn take_over(
        mut child: Child,
        line_bytes: usize,
        clock: Arc<dyn Clock>,
        receiver: Arc<dyn Receiver>,
        spawn: &dyn Spawn,
    ) -> Result<Arc<Self>, Fault> {
        let start = |why: String| Fault::Start(format!("the server's process cannot be kept: {why}"));
        let tree = match Tree::adopt(&child) {
            Ok(tree) => tree,
            Err(fault) => {
                // Best effort: what cannot even be adopted is at least not left running.
                child.kill().and_then(|()| child.wait().map(drop)).unwrap_or_default();
                return Err(start(fault.to_string()));
            }
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let made = WakeHandle::new().and_then(|stop| match pipes {
            (Some(input), Some(output), Some(errors)) => {
                let input = LineWriter::new(input, clock.clone())?;
                let output = Reading::new(output, line_bytes, receiver.clone(), clock.clone())?;
                Ok((stop, Bell::new()?, input, output, errors))
            }
            _ => Err(std::io::Error::other("a pipe is missing")),
        });
        let (stop, bell, input, output, errors) = match made {
            Ok(made) => made,
            Err(fault) => {
                tree.kill();
                tree.wait();
                return Err(start(fault.to_string()));
            }
        };
        let process = Arc::new(Self {
            tree,
            input,
            output,
            stop,
            bell,
            tail: Mutex::default(),
            clock,
            receiver: Mutex::new(Some(receiver.clone())),
            closing: AtomicBool::new(false),
            state: Mutex::new(State { exit: None, reading: 2, watching: true }),
            changed: Condvar::new(),
            ladder: Mutex::new(()),
        });
        if let Err(refused) = process.start_threads(errors, &receiver, spawn) {
            process.tree.kill();
            process.tree.wait();
            process.stop.set();
            return Err(start(refused.message().to_owned()));
        }
        Ok(process)
    }

    fn start_threads(
        self: &Arc<Self>,
        errors: ChildStderr,
        receiver: &Arc<dyn Receiver>,
        spawn: &dyn Spawn,
    ) -> Result<(), Error> {
        let process = self.clone();
        spawn.spawn("mcp-child-out", Box::new(move || process.read_output()))?;
        let (process, to) = (self.clone(), receiver.clone());
        spawn.spawn("mcp-child-err", Box::new(move || process.read_errors(errors, &*to)))?;
        let process = self.clone();
        spawn.spawn("mcp-child", Box::new(move || process.watch()))
    }

    fn read_output(&self) {
        let fault = self.output.run(&self.stop);
        self.change(|state| state.reading -= 1);
        // A server may end by closing its output and exiting (`basic/transports/stdio`, "Shutdown").
        if self.wait_for(Some(GOODBYE), |state| state.exit.is_some()) {
            return;
        }
        let detail = match fault {
            Some(fault) => format!("the server's output cannot be read: {fault}"),
            None => "the server closed its output and did not exit".to_owned(),
        };
        self.tell(Gone::Lost(detail));
        self.end(Some(OWN_GRACE));
    }

    fn read_errors(&self, errors: ChildStderr, receiver: &dyn Receiver) {
        let mut lines = Vec::new();
        let fault = pump(errors, &self.stop, |bytes| {
            self.tail.lock().feed(bytes, |line| lines.push(line.to_owned()));
            lines.drain(..).for_each(|line| receiver.stderr(&line));
        });
        if let Some(fault) = fault {
            receiver.odd_line(&format!("the server's standard error cannot be read any more: {fault}"));
        }
        self.tail.lock().end(|line| lines.push(line.to_owned()));
        lines.drain(..).for_each(|line| receiver.stderr(&line));
        self.change(|state| state.reading -= 1);
    }

    /// Waits for the exit, tells of it, and ends what the server started and left behind.
    fn watch(&self) {
        let exit = self.tree.wait();
        self.change(|state| state.exit = Some(exit));
        self.wait_for(Some(DRAIN), |state| state.reading == 0);
        self.stop.set();
        self.input.cut();
        let stderr = self.tail.lock().text();
        self.tell(Gone::Exited(ChildEnd { code: exit.code, signal: exit.signal, stderr }));
        self.input.close();
        self.sweep(Some(OWN_GRACE));
        self.change(|state| state.watching = false);
    }

    fn tell(&self, why: Gone) {
        let why = if self.closing.load(Ordering::Acquire) { Gone::Closed } else { why };
        let receiver = self.receiver.lock().take();
        if let Some(receiver) = receiver {
            receiver.ended(why);
        }
    }

    /// The ladder (`basic/transports/stdio`, "Shutdown"): the end of the input, a soft signal, the kill; each step has
    /// `grace`.
    fn end(&self, grace: Option<Duration>) {
        self.input.close();
        self.wait_for(grace, |state| state.exit.is_some());
        self.sweep(grace);
        self.stop.set();
    }

    /// The upper steps, for whatever is left of the tree.
    fn sweep(&self, grace: Option<Duration>) {
        let _climbing = self.ladder.lock();
        if self.tree.is_gone() {
            return;
        }
        self.tree.ask_to_end();
        if !self.wait_gone(grace) {
            self.tree.kill();
            self.wait_gone(Some(KILLED));
        }
    }

    fn wait_gone(&self, limit: Option<Duration>) -> bool {
        let deadline = Deadline::after(self.clock.now(), limit, Budget::Grace);
        let mut pause = FIRST_LOOK;
        while !self.tree.is_gone() {
            let Ok(left) = deadline.left(self.clock.now()) else {
                return false;
            };
            // An exit of the child itself ends the wait at once.
            let exited = self.state.lock().exit.is_some();
            self.wait_for(Some(left.unwrap_or(pause).min(pause)), |state| state.exit.is_some() != exited);
            pause = (pause * 2).min(LAST_LOOK);
        }
        true
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Waits until `done` says so; false where the time passed first.
    fn wait_for(&self, limit: Option<Duration>, done: impl Fn(&State) -> bool) -> bool {
        let deadline = Deadline::after(self.clock.now(), limit, Budget::Grace);
        let mut state = self.state.lock();
        while !done(&state) {
            if !deadline.wait(&self.changed, &mut state) {
                return done(&state);
            }
        }
        true
    }
}

impl Link for Process {
    fn send(&self, message: &str, scope: &Scope<'_>) -> Result<(), Fault> {
        match self.input.send(message, scope) {
            // The writer is closed by the end of the other side, too.
            Err(Fault::Closed) if !self.closing.load(Ordering::Acquire) => {
                Err(Fault::Io { sent: Sent::No, detail: "the server's process is gone".into() })
            }
            sent => sent,
        }
    }

    fn try_send(&self, message: &str) -> bool {
        self.input.try_send(message)
    }

    #[cfg(unix)]
    fn turn(&self) -> Option<Box<dyn crate::transport::Turn + '_>> {
        self.output.turn(&self.stop, self.bell.handle())
    }

    fn bell(&self) -> Option<Arc<dyn Wake>> {
        Some(self.bell.clone())
    }

    fn want_reader(&self) {
        self.output.want();
    }

    fn cut(&self) {
        self.closing.store(true, Ordering::Release);
        self.input.cut();
    }

    fn give_up(&self) {
        self.input.cut();
        // The reader of the output climbs the ladder.
        self.stop.set();
    }

    fn close(&self, grace: Option<Duration>) {
        self.cut();
        self.end(grace);
        // The threads see the stop or the end of their pipes; the last one may still be telling of the end.
        self.wait_for(Some(KILLED), |state| state.reading == 0 && !state.watching);
        self.tell(Gone::Closed);
    }
}
