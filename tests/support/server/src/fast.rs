//! The peer for benchmarks: `tools/call`, the polls of its jobs and the streams about them answered from what is ready,
//! nothing recorded.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::clock::now;
use crate::fast_jobs::Listened;
use crate::http;
use crate::line::Line;
use crate::wire::{Reader, find};

const RESULT: &str = concat!(
    r#","result":{"resultType":"complete","content":[{"type":"text","text":"{\"text\":\"hello\"}"}],"#,
    r#""structuredContent":{"text":"hello"}}}"#
);
const START: &str = r#"{"jsonrpc":"2.0","id":"#;

/// Serves a connection; whatever is no `tools/call` goes the ordinary way.
pub(crate) fn serve(line: &Line) {
    let mut stream = &*line.stream;
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    let mut out = Vec::with_capacity(512);
    loop {
        if let Some(size) = complete(&buffer[..filled]) {
            let done = respond(line, &buffer[..size], &mut out);
            buffer.copy_within(size..filled, 0);
            filled -= size;
            if !done {
                return;
            }
            continue;
        }
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
        match stream.read(&mut buffer[filled..]) {
            Ok(0) | Err(_) => return,
            Ok(count) => filled += count,
        }
    }
}

/// The size of the first request, once it is all there. Chunked requests are not for benchmarks.
fn complete(bytes: &[u8]) -> Option<usize> {
    let head = find(bytes, b"\r\n\r\n")? + 4;
    let length = content_length(&bytes[..head]);
    (bytes.len() >= head + length).then_some(head + length)
}

fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let lines = head.split(|byte| *byte == b'\n');
    let line = lines.into_iter().find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME));
    let digits = line.map(|line| line[NAME.len()..].trim_ascii()).unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn respond(line: &Line, request: &[u8], out: &mut Vec<u8>) -> bool {
    let jobs = &line.shared.jobs;
    if let Some(id) = id_of(request, b"\"tools/call\"") {
        if find(request, b"\"name\":\"job\"").is_some() {
            let seed = format!(",{}", jobs.start(request));
            return write(line, id, &seed, out);
        }
        return write(line, id, RESULT, out);
    }
    if let Some((id, state)) = id_of(request, b"\"tasks/get\"").zip(jobs.poll(request)) {
        return write(line, id, &format!(",{state}"), out);
    }
    if let Some((id, told)) = id_of(request, b"\"subscriptions/listen\"").zip(jobs.listen(request)) {
        listen(line, id, told);
        return false;
    }
    let mut reader = Reader::new(Replay { bytes: request, stream: &line.stream });
    matches!(reader.next(), Ok(Some(request)) if http::answer(line, &request))
}

fn write(line: &Line, id: &[u8], result: &str, out: &mut Vec<u8>) -> bool {
    let length = START.len() + id.len() + result.len();
    out.clear();
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ");
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    for part in [START.as_bytes(), id, result.as_bytes()] {
        out.extend_from_slice(part);
    }
    line.write(out).is_ok()
}

/// Tells the news of jobs until the client leaves.
fn listen(line: &Line, id: &[u8], told: Listened) {
    let Listened { granted, mut news } = told;
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, String::from_utf8_lossy(id));
    let event = |method: &str, params: &str| {
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{{params},{meta}}}}}\n\n"
        )
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let granted = format!(r#""notifications":{{"taskIds":{granted}}}"#);
    let mut out = head.to_owned() + &event("subscriptions/acknowledged", &granted);
    loop {
        if !out.is_empty() && line.write(out.as_bytes()).is_err() {
            return;
        }
        out.clear();
        let wait = news.front().map(|(at, _)| at.saturating_duration_since(now()).max(Duration::from_micros(1)));
        // The client says nothing more; a read that ends before its time means that it has left.
        if line.stream.set_read_timeout(wait).is_err() {
            return;
        }
        match (&*line.stream).read(&mut [0; 64]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let at = now();
        while let Some((_, job)) = news.pop_front_if(|(word, _)| *word <= at) {
            out.extend(line.shared.jobs.news(job).map(|params| event("tasks", &params)));
        }
    }
}

/// The id of a request of this method, as written; `None` leaves the request to the ordinary server.
fn id_of<'a>(request: &'a [u8], method: &[u8]) -> Option<&'a [u8]> {
    let body = &request[find(request, b"\r\n\r\n")? + 4..];
    find(body, method)?;
    // A client that writes its id behind the params is served too, as long as these hold no "id" of their own.
    let rest = body[find(body, b"\"id\":")? + 5..].trim_ascii_start();
    let end = if rest.first() == Some(&b'"') {
        rest[1..].iter().position(|byte| *byte == b'"')? + 2
    } else {
        rest.iter().position(|byte| matches!(byte, b',' | b'}' | b' '))?
    };
    Some(&rest[..end])
}

/// Bytes already read, as a stream.
struct Replay<'a> {
    bytes: &'a [u8],
    stream: &'a TcpStream,
}

impl Read for Replay<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.bytes.read(into)
    }
}

impl Write for Replay<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The bare reference: reads `question` bytes, answers `answer` bytes, for ever. Calls `ready` with its address.
///
/// # Errors
/// The address cannot be bound.
pub fn raw_echo(
    address: impl ToSocketAddrs,
    question: usize,
    answer: usize,
    ready: impl FnOnce(&str),
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    ready(&listener.local_addr()?.to_string());
    for stream in listener.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        std::thread::spawn(move || {
            let mut asked = vec![0; question];
            let told = vec![b'x'; answer];
            while stream.read_exact(&mut asked).and_then(|()| stream.write_all(&told)).is_ok() {}
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{complete, id_of};

    fn request(body: &str) -> Vec<u8> {
        format!("POST /mcp HTTP/1.1\r\ncontent-LENGTH: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    #[test]
    fn a_request_is_complete_with_its_last_byte() {
        let bytes = request("{}");
        assert_eq!(complete(&bytes), Some(bytes.len()));
        assert_eq!(complete(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn ids_are_taken_as_written() {
        let id =
            |body: &str| id_of(&request(body), b"\"tools/call\"").map(|id| String::from_utf8_lossy(id).into_owned());
        assert_eq!(id(r#"{"id":17,"method":"tools/call"}"#).as_deref(), Some("17"));
        assert_eq!(id(r#"{"method":"tools/call","id": "a-1"}"#).as_deref(), Some("\"a-1\""));
        assert_eq!(id(r#"{"id":17,"method":"tools/list"}"#), None);
    }
}
