//! Writing an answer byte by byte as the script wants it: whole, in slices, or cut off.

use std::io;
use std::time::Duration;

use crate::action::{Action, Framing};
use crate::line::Line;
use crate::peer::{Peer, Wake};

/// How the writing of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Whole,
    /// The script ended it early.
    Cut,
    /// The client left, or the server stopped.
    Gone,
}

/// Counts what goes out and knows where to stop.
pub(crate) struct Outlet<'a> {
    line: &'a Line,
    slice: Option<usize>,
    gap: Duration,
    /// Bytes that may still go out.
    left: Option<usize>,
    cut_body: Option<usize>,
    framing: Framing,
    pending: Vec<u8>,
}

impl<'a> Outlet<'a> {
    pub(crate) fn new(line: &'a Line, action: &Action, framing: Framing) -> Self {
        Self {
            line,
            slice: action.slice,
            gap: action.slice_gap,
            left: action.cut_head,
            cut_body: action.cut_body,
            framing,
            pending: Vec::new(),
        }
    }

    /// The head waits for the first piece of the body, so that a short answer is one write.
    pub(crate) fn head(&mut self, head: &[u8]) {
        self.pending.extend_from_slice(head);
        if let Some(body) = self.cut_body {
            self.left = Some(self.pending.len() + body);
        }
    }

    /// A piece of the body, framed as a chunk where chunks are spoken.
    pub(crate) fn body(&mut self, bytes: &[u8]) {
        if self.framing == Framing::Chunked {
            if !bytes.is_empty() {
                self.pending.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                self.pending.extend_from_slice(bytes);
                self.pending.extend_from_slice(b"\r\n");
            }
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// The end of the body, and what the script lets follow it.
    pub(crate) fn end(&mut self, extra: &[u8]) {
        if self.framing == Framing::Chunked {
            self.pending.extend_from_slice(b"0\r\n\r\n");
        }
        self.pending.extend_from_slice(extra);
    }

    /// Sends what has been gathered.
    pub(crate) fn flush(&mut self) -> Sent {
        let mut bytes = std::mem::take(&mut self.pending);
        let cut = self.left.is_some_and(|left| bytes.len() >= left);
        if let Some(left) = &mut self.left {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        match self.write(&bytes) {
            Ok(true) if cut => Sent::Cut,
            Ok(true) => Sent::Whole,
            Ok(false) | Err(_) => Sent::Gone,
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<bool> {
        if bytes.is_empty() {
            return Ok(true);
        }
        for (index, piece) in bytes.chunks(self.slice.unwrap_or(bytes.len())).enumerate() {
            if index > 0 && self.line.pause(self.gap) != Wake::Ready {
                return Ok(false);
            }
            self.line.write(piece)?;
        }
        Ok(true)
    }
}
