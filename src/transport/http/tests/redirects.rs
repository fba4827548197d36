//! Redirections of what is no call: notifications, the end of a session, the streams of the legacy revisions.

use super::*;

/// The first line and the credentials of a request, whatever its method.
fn head(peer: &mut Peer) -> Option<(String, bool)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    while !bytes.ends_with(b"\r\n\r\n") && !bytes.ends_with(b"\r\n\r\n{}") {
        let more = peer.stream.read(&mut piece).unwrap_or(0);
        if more == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..more]);
    }
    let text = String::from_utf8(bytes).unwrap();
    let line = text.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    Some((line, text.contains("\r\nx-test: yes\r\n")))
}

/// Redirects what comes to `/mcp` so; elsewhere it answers `there`. Tells of each request.
fn redirecting(status: u16, location: &str, there: &'static str) -> (Server, mpsc::Receiver<(String, bool)>) {
    let (told, seen) = mpsc::channel();
    let location = location.to_owned();
    let server = serve(move |_, mut peer| {
        while let Some((line, ours)) = head(&mut peer) {
            if line.ends_with(" /mcp") {
                peer.say(format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
            } else {
                peer.say(there);
            }
            told.send((line, ours)).unwrap();
        }
    });
    (server, seen)
}

const DONE: &str = "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n";
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 17\r\n\r\nevent: \ndata: 1\n\n";

#[test]
fn the_same_origin_gets_the_same_request() {
    type Try = fn(&HttpTransport, &Scope<'_>) -> Result<(), Fault>;
    let notify: Try = |transport, scope| transport.notify(outgoing("{}"), scope);
    let end: Try = |transport, scope| transport.end_session(&[], scope);
    let listen: Try = |transport, scope| transport.listen(&[], scope, &mut sink(1));
    let old: Try = |transport, scope| transport.read_stream(scope, &mut sink(1));
    let rows: [(&str, Try, u16, &str, &str); 8] = [
        ("notification", notify, 307, DONE, "POST"),
        ("notification", notify, 308, DONE, "POST"),
        ("end of a session", end, 307, DONE, "DELETE"),
        ("stream", listen, 307, STREAM, "GET"),
        ("stream", listen, 302, STREAM, "GET"),
        ("stream", listen, 303, STREAM, "GET"),
        ("HTTP+SSE", old, 301, STREAM, "GET"),
        ("HTTP+SSE", old, 308, STREAM, "GET"),
    ];
    for (name, attempt, status, there, verb) in rows {
        let (server, seen) = redirecting(status, "/there/", there);
        let (transport, token) = (server.transport(), CancelToken::new());
        attempt(&transport, &scope(&token)).unwrap_or_else(|fault| panic!("{name} {status}: {fault:?}"));
        assert_eq!(seen.recv_timeout(BOUND).unwrap(), (format!("{verb} /mcp"), true), "{name} {status}");
        assert_eq!(seen.recv_timeout(BOUND).unwrap(), (format!("{verb} /there/"), true), "{name} {status}");
        assert_eq!(server.connections(), 1, "{name} {status}");
    }
}

#[test]
fn another_origin_gets_nothing() {
    let elsewhere = serve(|_, _| {});
    for place in [
        format!("http://{}/mcp2", elsewhere.address),
        format!("https://{}/mcp2", elsewhere.address),
        format!("//{}/mcp2", elsewhere.address),
    ] {
        let (server, seen) = redirecting(307, &place, DONE);
        let (transport, token) = (server.transport(), CancelToken::new());
        for fault in [
            transport.notify(outgoing("{}"), &scope(&token)).unwrap_err(),
            transport.end_session(&[], &scope(&token)).unwrap_err(),
            transport.listen(&[], &scope(&token), &mut sink(1)).unwrap_err(),
            transport.read_stream(&scope(&token), &mut sink(1)).unwrap_err(),
        ] {
            let told = |moved: &Option<String>| moved.as_ref().is_some_and(|moved| moved.contains("another origin"));
            assert!(matches!(&fault, Fault::Status(refusal) if told(&refusal.moved)), "{fault:?}");
        }
        for _ in 0..4 {
            seen.recv_timeout(BOUND).unwrap();
        }
        assert!(seen.try_recv().is_err(), "{place}");
    }
    assert_eq!(elsewhere.connections(), 0);
}
