//! One message a line (`basic/transports/stdio`, "Receiving Messages"). Pure: bytes in, at most one frame out.
//!
//! The split is at byte 0A alone, on bytes, so that a character cut by a read and a U+2028 inside a string are safe. A
//! line that is no text loses itself and nothing else (BR-02). Bytes are counted before they are stored (BR-03).

use memchr::memchr;

/// What a line turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A line of text: a message, as far as this layer can tell.
    Message(String),
    /// A line that cannot be a message; one clause that says why.
    Odd(&'static str),
    /// A line over the limit; told once, when the limit is passed. Its beginning helps to find whose answer it was.
    TooLong {
        /// The first bytes.
        head: Vec<u8>,
    },
}

/// Cuts a stream of bytes into lines.
#[derive(Debug)]
pub(crate) struct Framer {
    line: Vec<u8>,
    limit: usize,
    /// Inside a line that is over the limit: drop until it ends.
    skipping: bool,
}

/// How much of a line that is too long is handed on.
const HEAD: usize = 256;
/// What a buffer may keep after a long line; most messages are smaller.
const KEPT: usize = 1 << 20;
/// Some servers begin with a byte order mark, in spite of RFC 8259, 8.1.
const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Framer {
    /// Lines of up to `limit` bytes, without their end.
    pub(crate) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), limit, skipping: false }
    }

    /// Takes bytes: how many were used, and a frame where one became whole. The caller loops until all are used.
    pub(crate) fn feed(&mut self, input: &[u8]) -> (usize, Option<Frame>) {
        let end = memchr(b'\n', input);
        let part = &input[..end.unwrap_or(input.len())];
        let used = part.len() + usize::from(end.is_some());
        if self.skipping {
            self.skipping = end.is_none();
            return (used, None);
        }
        // One byte of grace for a carriage return that does not count.
        if self.line.len() + part.len() > self.limit.saturating_add(1)
            || (end.is_some() && self.whole_length(part) > self.limit)
        {
            self.skipping = end.is_none();
            return (used, Some(self.too_long(part)));
        }
        if end.is_none() {
            self.line.extend_from_slice(part);
            return (used, None);
        }
        if self.line.is_empty() {
            return (used, frame(part.to_vec()));
        }
        self.line.extend_from_slice(part);
        let line = if self.line.capacity() > KEPT { std::mem::take(&mut self.line) } else { self.line.clone() };
        self.line.clear();
        (used, frame(line))
    }

    /// The stream has ended: what stands without a line end is a line, too (some servers forget the last one).
    pub(crate) fn end(&mut self) -> Option<Frame> {
        if self.whole_length(&[]) > self.limit {
            return Some(self.too_long(&[]));
        }
        frame(std::mem::take(&mut self.line))
    }

    fn whole_length(&self, part: &[u8]) -> usize {
        let last = part.last().or(self.line.last());
        self.line.len() + part.len() - usize::from(last == Some(&b'\r'))
    }

    fn too_long(&mut self, part: &[u8]) -> Frame {
        let mut head = std::mem::take(&mut self.line);
        head.truncate(HEAD);
        head.extend_from_slice(&part[..part.len().min(HEAD - head.len())]);
        head.shrink_to_fit();
        Frame::TooLong { head }
    }
}

fn frame(mut line: Vec<u8>) -> Option<Frame> {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if line.is_empty() {
        return None;
    }
    if line.starts_with(BOM) {
        line.drain(..BOM.len());
    }
    if line.iter().all(u8::is_ascii_whitespace) {
        return Some(Frame::Odd("it is blank"));
    }
    match String::from_utf8(line) {
        Ok(text) => Some(Frame::Message(text)),
        Err(_) => Some(Frame::Odd("it is not valid UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(limit: usize, pieces: &[&[u8]]) -> Vec<Frame> {
        let (mut framer, mut out) = (Framer::new(limit), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (used, frame) = framer.feed(rest);
                assert!(used > 0);
                rest = &rest[used..];
                out.extend(frame);
            }
        }
        out.extend(framer.end());
        out
    }

    fn message(text: &str) -> Frame {
        Frame::Message(text.into())
    }

    #[test]
    fn br_02_only_the_bad_line_is_lost() {
        let bytes = b"\xEF\xBB\xBF{\"a\":1}\nhello banner\n\xC3\x28\n{\"x\":\"\x97\"}\n\n   \n[1]\n{\"b\":\"\xE2\x80\xA8\"}\r\n";
        assert_eq!(
            run(1024, &[bytes]),
            [
                message("{\"a\":1}"),
                message("hello banner"),
                Frame::Odd("it is not valid UTF-8"),
                Frame::Odd("it is not valid UTF-8"),
                Frame::Odd("it is blank"),
                message("[1]"),
                message("{\"b\":\"\u{2028}\"}"),
            ]
        );
    }

    #[test]
    fn every_split_gives_the_same_frames() {
        let fixtures: [(&[u8], usize); 5] = [
            (b"{\"a\":\"\xC3\xA9\"}\r\n\n{\"b\":2}\n\xC3\x28\nlast", 64),
            (b"\xEF\xBB\xBFx\n\r\n \r\n\xEF\xBB\xBF\n", 64),
            (b"1234567890\n123\n1234\r\n12345\n1\n", 4),
            (b"12345678901234567890", 4),
            (b"1234\r\n12345\r\n1234\r", 4),
        ];
        for (bytes, limit) in fixtures {
            let whole = run(limit, &[bytes]);
            for at in 0..bytes.len() {
                assert_eq!(shape(&run(limit, &[&bytes[..at], &bytes[at..]])), shape(&whole), "split at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(shape(&run(limit, &single)), shape(&whole));
        }
    }

    /// The head of a line that is too long may differ in length with the split; nothing else may.
    fn shape(frames: &[Frame]) -> Vec<Frame> {
        let plain = |frame: &Frame| match frame {
            Frame::TooLong { .. } => Frame::TooLong { head: Vec::new() },
            Frame::Message(_) | Frame::Odd(_) => frame.clone(),
        };
        frames.iter().map(plain).collect()
    }

    #[test]
    fn br_03_lines_up_to_the_limit_pass_and_longer_ones_are_never_stored() {
        for size in [65_535, 65_536, 65_537, 1 << 20] {
            let mut line = vec![b'a'; size];
            line.push(b'\n');
            let pieces: Vec<&[u8]> = line.chunks(4093).collect();
            assert_eq!(run(1 << 20, &pieces), [message(&"a".repeat(size))]);
        }
        let mut framer = Framer::new(1000);
        let piece = [b'a'; 400];
        let told: Vec<Option<Frame>> = (0..5000).map(|_| framer.feed(&piece).1).collect();
        assert_eq!(told.iter().flatten().count(), 1);
        assert!(framer.line.capacity() <= 4096);
        assert_eq!(framer.feed(b"\n"), (1, None));
        assert_eq!(framer.feed(b"ok\n"), (3, Some(message("ok"))));
    }
}
