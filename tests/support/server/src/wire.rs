//! Reading HTTP/1.1 requests from a byte stream.

use std::io::{self, Read, Write};

/// Request line and headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) http10: bool,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of this name, compared without case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The path without its query.
    pub(crate) fn plain_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// A parameter of the query, taken as written.
    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn wants_close(&self) -> bool {
        let connection = self.header("connection").unwrap_or_default();
        connection.eq_ignore_ascii_case("close") || (self.http10 && !connection.eq_ignore_ascii_case("keep-alive"))
    }
}

/// One request with its body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// `read()` calls that it took.
    pub(crate) reads: usize,
    /// The client wants no second request on this connection.
    pub(crate) last: bool,
}

/// Takes requests off a stream, keeping what was read too far.
pub(crate) struct Reader<S> {
    stream: S,
    buffer: Vec<u8>,
    /// Where reads go first: growing the buffer by zeros for each of them is slow without optimization.
    scratch: Vec<u8>,
    reads: usize,
}

impl<S: Read + Write> Reader<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), scratch: vec![0; READ_SIZE], reads: 0 }
    }

    /// The next request; `None` when the client closed between requests.
    pub(crate) fn next(&mut self) -> io::Result<Option<Request>> {
        self.reads = 0;
        let Some(end) = self.head_end()? else {
            return Ok(None);
        };
        let head = parse_head(&self.buffer[..end]).ok_or_else(|| broken("malformed request head"))?;
        self.buffer.drain(..end);
        if head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = self.body(&head)?;
        let last = head.wants_close();
        Ok(Some(Request { head, body, reads: self.reads, last }))
    }

    fn head_end(&mut self) -> io::Result<Option<usize>> {
        let mut seen = 0;
        loop {
            if let Some(at) = find(&self.buffer[seen..], b"\r\n\r\n") {
                return Ok(Some(seen + at + 4));
            }
            if self.buffer.len() > HEAD_LIMIT {
                return Err(broken("request head over 64 KiB"));
            }
            seen = self.buffer.len().saturating_sub(3);
            if self.more()? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(broken("closed inside a request head")) };
            }
        }
    }

    fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return self.chunked();
        }
        let length = head.header("content-length").map_or(Ok(0), str::parse);
        let length: usize = length.map_err(|_| broken("malformed content-length"))?;
        self.take(length)
    }

    fn chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| broken("malformed chunk size"))?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size)?);
            self.line()?;
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.drain(..at + 2);
                return Ok(line);
            }
            if self.more()? == 0 {
                return Err(broken("closed inside a request body"));
            }
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            if self.more()? == 0 {
                return Err(broken("closed inside a request body"));
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn more(&mut self) -> io::Result<usize> {
        let count = self.stream.read(&mut self.scratch)?;
        self.buffer.extend_from_slice(&self.scratch[..count]);
        self.reads += usize::from(count > 0);
        Ok(count)
    }
}

pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn parse_head(bytes: &[u8]) -> Option<Head> {
    // Latin-1 keeps every byte, so that a check can find what does not belong into a header.
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path, version) = (first.next()?, first.next()?, first.next()?);
    let mut headers = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Some(Head { method: method.to_owned(), path: path.to_owned(), http10: version == "HTTP/1.0", headers })
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A bound against clients that never end their head; the library's own limit for answers is the same.
const HEAD_LIMIT: usize = 64 * 1024;
/// Larger than any head with a small body, so that one write on loopback arrives as one read.
const READ_SIZE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::Reader;
    use std::io::{self, Read, Write};

    /// Hands out its pieces one read at a time.
    struct Pieces(Vec<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            into[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reader(pieces: &[&str]) -> Reader<Pieces> {
        Reader::new(Pieces(pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect()))
    }

    #[test]
    fn one_write_is_one_read() {
        let mut reader = reader(&["POST /mcp?x=1 HTTP/1.1\r\nContent-Length: 2\r\nX:  y \r\n\r\n{}"]);
        let request = reader.next().unwrap().unwrap();
        assert_eq!((request.head.method.as_str(), request.head.path.as_str()), ("POST", "/mcp?x=1"));
        assert_eq!((request.head.header("x"), request.head.query("x")), (Some("y"), Some("1")));
        assert_eq!((request.body.as_slice(), request.reads, request.last), (b"{}".as_slice(), 1, false));
        assert!(reader.next().unwrap().is_none());
    }

    #[test]
    fn pieces_are_counted_and_the_rest_is_kept() {
        let text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\nGET /n HTTP/1.0\r\n\r\n";
        for at in 1..text.len() {
            let mut reader = reader(&[&text[..at], &text[at..]]);
            let first = reader.next().unwrap().unwrap();
            assert_eq!(first.body, b"abc", "split at {at}");
            let second = reader.next().unwrap().unwrap();
            assert_eq!((second.head.path.as_str(), second.last), ("/n", true), "split at {at}");
            assert_eq!(first.reads + second.reads, 2, "split at {at}");
        }
    }

    #[test]
    fn a_close_inside_a_request_is_an_error() {
        assert!(reader(&["POST / HT"]).next().is_err());
        assert!(reader(&["POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"]).next().is_err());
        assert!(reader(&["POST / HTTP/1.1\r\nbad line\r\n\r\n"]).next().is_err());
    }
}
