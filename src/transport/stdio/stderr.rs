//! What a child says on its standard error: never in the way (BR-01), never without a bound. A tail is kept for the
//! error of its end; lines are offered to the host.
//!
//! Pure: bytes in, lines out. The child's thread reads.

use memchr::memchr;

/// The newest bytes that are kept.
const TAIL_BYTES: usize = 16 << 10;
/// A line is offered up to this length; the rest of it is dropped, so that a line without end costs nothing.
const LINE_BYTES: usize = 8 << 10;

/// The end of a child's standard error, and the line that is being written.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: Vec<u8>,
    line: Vec<u8>,
}

impl Tail {
    /// Takes bytes, and hands over each line that became whole.
    pub(super) fn feed(&mut self, mut input: &[u8], mut line: impl FnMut(&str)) {
        self.keep(input);
        while let Some(end) = memchr(b'\n', input) {
            self.grow(&input[..end]);
            self.hand_over(&mut line);
            input = &input[end + 1..];
        }
        self.grow(input);
    }

    /// The stream has ended: the rest is a line, too.
    pub(super) fn end(&mut self, mut line: impl FnMut(&str)) {
        self.hand_over(&mut line);
    }

    /// The newest text, whole lines as far as they fit.
    pub(super) fn text(&self) -> String {
        let mut start = self.kept.len().saturating_sub(TAIL_BYTES);
        if start > 0 {
            // From the next line on, unless that leaves nothing.
            let next = memchr(b'\n', &self.kept[start..]).map(|end| start + end + 1);
            start = next.filter(|next| *next < self.kept.len()).unwrap_or(start);
        }
        String::from_utf8_lossy(&self.kept[start..]).trim_end().to_owned()
    }

    fn keep(&mut self, input: &[u8]) {
        let input = &input[input.len().saturating_sub(TAIL_BYTES)..];
        // Twice the tail before anything moves: each byte is moved once, not once for each read.
        if self.kept.len() + input.len() > 2 * TAIL_BYTES {
            let from = (self.kept.len() + input.len()).saturating_sub(TAIL_BYTES).min(self.kept.len());
            self.kept.drain(..from);
        }
        self.kept.extend_from_slice(input);
    }

    fn grow(&mut self, part: &[u8]) {
        let room = LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn hand_over(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim_end();
        if !text.is_empty() {
            line(text);
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_01_lines_come_whole_and_the_tail_is_bounded() {
        let (mut tail, mut lines) = (Tail::default(), Vec::new());
        for piece in ["one\ntw", "o\r\n\n", "\u{fe0f}three"] {
            tail.feed(piece.as_bytes(), |line| lines.push(line.to_owned()));
        }
        tail.end(|line| lines.push(line.to_owned()));
        assert_eq!(lines, ["one", "two", "\u{fe0f}three"]);
        for number in 0..10_000 {
            tail.feed(format!("line {number} with some text\n").as_bytes(), |_| {});
        }
        assert!(tail.text().ends_with("line 9999 with some text"));
        assert!(tail.text().starts_with("line "));
        assert!(tail.text().len() <= TAIL_BYTES && tail.text().len() > TAIL_BYTES / 2);
    }

    #[test]
    fn br_01_a_line_without_end_costs_nothing() {
        let (mut tail, mut lines) = (Tail::default(), 0);
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..1024 {
            tail.feed(&piece, |_| lines += 1);
        }
        assert_eq!(lines, 0);
        assert!(tail.kept.capacity() + tail.line.capacity() < 128 << 10);
        assert_eq!(tail.text().len(), TAIL_BYTES);
        tail.feed(b"\xff\n", |line| assert_eq!(line.len(), LINE_BYTES));
    }
}
