//! The way through a proxy to a TLS server: a tunnel by CONNECT (RFC 9110, 9.3.6).

use zeroize::Zeroizing;

use super::control::{Control, Trouble};
use super::dial::Target;
use super::lanes::NoLine;
use super::proxy::Proxy;
use super::socket::Line;

/// The longest head of a proxy's answer; chosen: they have some hundred bytes.
const MOST_HEAD: usize = 16 << 10;

/// Asks the proxy for a tunnel to `server`; what is sent over `line` from then on goes there. The proxy looks the
/// server's name up. Nothing of a request has left before.
pub(super) fn open(line: &mut dyn Line, proxy: &Proxy, server: &Target, control: &Control) -> Result<(), NoLine> {
    let failed = |what: String| {
        control.blame(Trouble::Connect(format!("{} {what}", proxy.place.told())));
        NoLine
    };
    let broke = |cause: std::io::Error| failed(format!("broke the connection: {cause}"));
    line.write_all(head(proxy, server).as_bytes()).map_err(broke)?;
    let (mut answer, mut byte) = (Vec::new(), [0]);
    // One byte at a time, because what is behind the head is the server's; it is short, and read once for a connection.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == MOST_HEAD {
            return Err(failed("answered CONNECT with a head of more than 16 KiB".to_owned()));
        }
        match line.read(&mut byte).map_err(broke)? {
            0 => return Err(failed("ended the connection instead of answering CONNECT".to_owned())),
            _ => answer.extend(byte),
        }
    }
    match status(&answer) {
        Some(200..=299) => Ok(()),
        Some(407) => Err(failed(asks_for_user(proxy))),
        Some(status) => Err(failed(format!("refused a tunnel to {} (HTTP {status})", server.authority()))),
        None => Err(failed("answered CONNECT with something that is not HTTP".to_owned())),
    }
}

/// What is told of a proxy's 407.
pub(super) fn asks_for_user(proxy: &Proxy) -> String {
    let what = if proxy.authorization.is_some() {
        "does not accept its user and password"
    } else {
        "asks for a user and a password"
    };
    format!("{what} (HTTP 407); give them in settings.proxy as http://user:password@host:port")
}

fn head(proxy: &Proxy, server: &Target) -> Zeroizing<String> {
    let to = server.authority();
    let mut head = Zeroizing::new(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n"));
    if let Some(secret) = &proxy.authorization {
        head.push_str("Proxy-Authorization: ");
        head.push_str(&secret.0);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    head
}

/// The status of an answer, from its first line.
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let digits = rest.get(1..6)?.strip_prefix(b" ")?.get(..3)?;
    let end = *rest.get(5)?;
    if !matches!(end, b' ' | b'\r') {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::proxy;
    use super::*;
    use crate::clock::ManualClock;
    use crate::transport::http::tests::says::Says;

    #[test]
    fn a_tunnel_stands_once_the_head_of_the_answer_is_whole() {
        let proxy = proxy::read("settings.proxy", "http://proxy:1").unwrap();
        let server = Target::new(true, "h.test", 443).unwrap();
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(MOST_HEAD));
        let rows = [
            ("HTTP/1.1 200 OK\r\nX: y\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\n\r\nbehind", None),
            ("HTTP/1.1 403 No\r\n\r\nbody", Some("refused a tunnel to h.test:443 (HTTP 403)")),
            ("SSH-2.0-x\r\n\r\n", Some("is not HTTP")),
            ("HTTP/1.1 200 OK\r\n", Some("ended the connection instead of answering")),
            (&long, Some("a head of more than 16 KiB")),
        ];
        for (answer, want) in rows {
            let control = Control::new(ManualClock::new());
            let mut says = Says::once(answer);
            assert_eq!(open(&mut says, &proxy, &server, &control).is_ok(), want.is_none(), "{answer:.40}");
            match (control.trouble(), want) {
                (None, None) => {
                    let mut behind = String::new();
                    says.read_to_string(&mut behind).unwrap();
                    assert!(answer.ends_with(&format!("\r\n\r\n{behind}")), "the rest is the server's");
                }
                (Some(Trouble::Connect(told)), Some(want)) if told.contains(want) => {}
                (trouble, want) => panic!("{answer:.40}: {trouble:?} and not {want:?}"),
            }
        }
    }

    #[test]
    fn the_status_of_a_proxys_answer() {
        let rows: [(&str, Option<u16>); 8] = [
            ("HTTP/1.1 200 Connection established\r\n", Some(200)),
            ("HTTP/1.0 407 Proxy Authentication Required\r\n", Some(407)),
            ("HTTP/1.1 200\r\n", Some(200)),
            ("HTTP/1.1 2000\r\n", None),
            ("HTTP/2 200\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("HTTP/1.1", None),
            ("", None),
        ];
        for (text, want) in rows {
            assert_eq!(status(text.as_bytes()), want, "{text:?}");
        }
    }
}
