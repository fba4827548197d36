//! The head of a request, whose shape never changes. Pure.

use ureq_proto::http::{HeaderMap, HeaderName, header};

use super::settings::Verb;

/// Room for the headers of most messages.
const ROOM: usize = 256;

/// What the requests to one endpoint have in common, as text.
#[derive(Clone)]
pub(super) struct Common {
    /// The target of the request: path and query, for a proxy that reads it with the origin in front.
    target: String,
    /// The headers of every request, each with its line.
    lines: Vec<(HeaderName, Vec<u8>)>,
}

impl Common {
    pub(super) fn new(target: String, headers: &HeaderMap) -> Self {
        let line = |name: &HeaderName, value: &[u8]| {
            let mut line = Vec::new();
            push(&mut line, name.as_str(), value);
            line
        };
        let lines = headers.iter().map(|(name, value)| (name.clone(), line(name, value.as_bytes()))).collect();
        Self { target, lines }
    }

    /// Writes the head of a request with a body of `length` bytes, or names the header that cannot be sent. A header of
    /// the message replaces one of every request, and an earlier one of its own.
    pub(super) fn head<'a>(&self, verb: Verb, message: &[(&'a str, &str)], length: usize) -> Result<Vec<u8>, &'a str> {
        let room = self.lines.iter().map(|(_, line)| line.len()).sum::<usize>() + self.target.len() + ROOM;
        let mut head = Vec::with_capacity(room);
        for piece in [verb.method(), " ", &self.target, " HTTP/1.1\r\n"] {
            head.extend_from_slice(piece.as_bytes());
        }
        for (name, line) in &self.lines {
            if has(message, name.as_str()) {
                continue;
            }
            match verb {
                Verb::Get if *name == header::ACCEPT => push(&mut head, "accept", b"text/event-stream"),
                Verb::Get | Verb::Delete if *name == header::CONTENT_TYPE => {}
                Verb::Get | Verb::Delete | Verb::Post => head.extend_from_slice(line),
            }
        }
        for (at, (name, value)) in message.iter().enumerate() {
            if !is_name(name) || !is_value(value) {
                return Err(name);
            }
            if !has(&message[at + 1..], name) {
                push(&mut head, name, value.as_bytes());
            }
        }
        if verb == Verb::Post {
            push(&mut head, "content-length", length.to_string().as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Ok(head)
    }
}

/// Shows no header: it may be a secret.
impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").finish_non_exhaustive()
    }
}

fn has(headers: &[(&str, &str)], name: &str) -> bool {
    headers.iter().any(|(have, _)| have.eq_ignore_ascii_case(name))
}

/// Names go out in lower case, as every reader takes them.
fn push(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    let start = head.len();
    head.extend_from_slice(name.as_bytes());
    head[start..].make_ascii_lowercase();
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// A token (RFC 9110, 5.6.2).
fn is_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || b"!#$%&'*+.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Visible ASCII, spaces and tabs: nothing that ends a line.
fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use ureq_proto::http::HeaderValue;

    use super::*;

    fn head(verb: Verb, message: &[(&'static str, &str)], length: usize) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::ACCEPT, "all"), (header::CONTENT_TYPE, "json"), (header::AUTHORIZATION, "old")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers.append("x-twice", HeaderValue::from_static("1"));
        headers.append("x-twice", HeaderValue::from_static("2"));
        let common = Common::new("/mcp?k=1".into(), &headers);
        common.head(verb, message, length).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn the_three_heads() {
        let rows = [
            (
                Verb::Post,
                "POST /mcp?k=1 HTTP/1.1\r\naccept: all\r\ncontent-type: json\r\nauthorization: old\r\nx-twice: 1\r\n\
                 x-twice: 2\r\nmcp-method: a/b\r\ncontent-length: 7\r\n\r\n",
            ),
            (
                Verb::Get,
                "GET /mcp?k=1 HTTP/1.1\r\naccept: text/event-stream\r\nauthorization: old\r\nx-twice: 1\r\n\
                 x-twice: 2\r\nmcp-method: a/b\r\n\r\n",
            ),
            (
                Verb::Delete,
                "DELETE /mcp?k=1 HTTP/1.1\r\naccept: all\r\nauthorization: old\r\nx-twice: 1\r\nx-twice: 2\r\n\
                 mcp-method: a/b\r\n\r\n",
            ),
        ];
        for (verb, want) in rows {
            assert_eq!(head(verb, &[("Mcp-Method", "a/b")], 7).unwrap(), want);
        }
    }

    #[test]
    fn a_header_of_the_message_replaces_one_of_every_request_and_its_own() {
        let message = [("Authorization", "new"), ("X-TWICE", "3"), ("Mcp-Name", "a"), ("mcp-name", "b")];
        let text = head(Verb::Post, &message, 0).unwrap();
        assert!(text.ends_with("\r\nauthorization: new\r\nx-twice: 3\r\nmcp-name: b\r\ncontent-length: 0\r\n\r\n"));
        assert!(!text.contains("old") && !text.contains("twice: 1"), "{text}");
    }

    #[test]
    fn what_cannot_stand_in_a_header_is_named() {
        for (name, value) in
            [("Mcp-Name", "a\r\nEvil: 1"), ("Mcp-Name", "é"), ("Mcp-Name", "\0"), ("X Y", "v"), ("", "v"), ("X:", "v")]
        {
            assert_eq!(head(Verb::Post, &[(name, value)], 0), Err(name));
        }
    }
}
