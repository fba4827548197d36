//! The way through a proxy: a tunnel by CONNECT for TLS, the absolute form of the request's target for plain HTTP
//! (RFC 9112, 3.2.2; RFC 9110, 9.3.6).

use std::io::Write;
use std::sync::Arc;

use ureq::unversioned::transport::{Buffers, ConnectionDetails, NextTimeout, Transport, TransportAdapter};
use zeroize::Zeroizing;

use super::control::{Control, Trouble};
use super::dial::Target;
use super::proxy::Proxy;

/// The longest head of a proxy's answer; chosen: they have some hundred bytes.
const MOST_HEAD: usize = 16 << 10;

/// Asks the proxy for a tunnel to `server`; what is sent over `line` from then on goes there. The proxy looks the
/// server's name up. Nothing of a request has left before.
pub(super) fn open(
    line: Box<dyn Transport>,
    proxy: &Proxy,
    server: &Target,
    details: &ConnectionDetails<'_>,
    control: &Control,
) -> Result<Box<dyn Transport>, ureq::Error> {
    let failed = |what: String| {
        control.blame(Trouble::Connect(format!("{} {what}", proxy.place.told())));
        ureq::Error::ConnectionFailed
    };
    let mut line = TransportAdapter::new(line, details.current_time.clone());
    let written = line.write_all(head(proxy, server).as_bytes());
    written.map_err(|cause| failed(format!("broke the connection: {cause}")))?;
    let mut line = line.into_inner();
    loop {
        let input = line.buffers().input();
        if let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") {
            let status = status(input);
            line.buffers().input_consume(end + 4);
            return match status {
                Some(200..=299) => Ok(line),
                Some(407) => Err(failed(asks_for_user(proxy))),
                Some(status) => Err(failed(format!("refused a tunnel to {} (HTTP {status})", server.authority()))),
                None => Err(failed("answered CONNECT with something that is not HTTP".to_owned())),
            };
        }
        if input.len() > MOST_HEAD {
            return Err(failed("answered CONNECT with a head of more than 16 KiB".to_owned()));
        }
        // Nothing is taken before the head is whole: the buffer must not be read twice as new.
        match line.await_input(details.timeout) {
            Ok(true) => {}
            Ok(false) => return Err(failed("ended the connection instead of answering CONNECT".to_owned())),
            Err(cause) => return Err(failed(format!("broke the connection: {cause}"))),
        }
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

/// A connection to a proxy for plain HTTP: the first line of each request names the server.
pub(super) struct Forwarded {
    line: Box<dyn Transport>,
    /// `http://host:port`.
    origin: String,
    control: Arc<Control>,
    /// The exchange whose first line was written.
    told: Option<u64>,
}

impl Forwarded {
    pub(super) fn new(line: Box<dyn Transport>, server: &Target, control: Arc<Control>) -> Self {
        Self { line, origin: format!("http://{}", server.host_header()), control, told: None }
    }

    fn write(&mut self, mut bytes: &[u8], timeout: NextTimeout) -> Result<(), ureq::Error> {
        while !bytes.is_empty() {
            let room = self.line.buffers().output();
            let amount = bytes.len().min(room.len());
            room[..amount].copy_from_slice(&bytes[..amount]);
            self.line.transmit_output(amount, timeout)?;
            bytes = &bytes[amount..];
        }
        Ok(())
    }
}

impl Transport for Forwarded {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.line.buffers()
    }

    /// ureq writes `POST /path HTTP/1.1`; what is before the path of an exchange's first piece is the method.
    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let exchange = Some(self.control.exchange());
        if self.told == exchange {
            return self.line.transmit_output(amount, timeout);
        }
        self.told = exchange;
        let piece = self.line.buffers().output()[..amount].to_vec();
        let path = memchr::memchr(b' ', &piece).map_or(0, |space| space + 1);
        let origin = std::mem::take(&mut self.origin);
        let written = self
            .write(&piece[..path], timeout)
            .and_then(|()| self.write(origin.as_bytes(), timeout))
            .and_then(|()| self.write(&piece[path..], timeout));
        self.origin = origin;
        written
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.line.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.line.is_open()
    }
}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
