//! A proxy that keeps a record, and reaches the one server behind it by any name.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What it does with a request.
#[derive(Clone, Debug)]
pub enum Manner {
    /// Its job.
    Pass,
    /// Says these bytes and ends the connection.
    Say(&'static str),
    /// Reads, and says nothing until the client leaves.
    Hold,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub line: String,
    /// Lower case names.
    pub headers: Vec<(String, String)>,
    /// The connection, from 0, and how many reads brought the request.
    pub connection: usize,
    pub reads: usize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub struct Proxy {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Proxy {
    pub fn start(behind: SocketAddr, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let record = asked.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (record, manner) = (record.clone(), manner.clone());
                std::thread::spawn(move || serve(&stream, behind, &manner, number, &record));
            }
        });
        Self { address, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nobody panics with it").clone()
    }

    /// The first lines so far, without the version.
    pub fn lines(&self) -> Vec<String> {
        self.asked().iter().map(|asked| asked.line.trim_end_matches(" HTTP/1.1").to_owned()).collect()
    }
}

struct Message {
    head: String,
    rest: Vec<u8>,
    reads: usize,
}

/// One request: its head, its body as its length says, and what came behind (nothing, from a polite client).
fn read_message(mut stream: &TcpStream) -> Option<Message> {
    let (mut bytes, mut reads) = (Vec::new(), 0);
    let mut piece = vec![0; 1 << 20];
    loop {
        let more = stream.read(&mut piece).ok().filter(|more| *more > 0)?;
        reads += 1;
        bytes.extend_from_slice(&piece[..more]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if bytes.len() - end - 4 >= length.unwrap_or(0) {
            return Some(Message { head, rest: bytes.split_off(end + 4), reads });
        }
    }
}

fn serve(
    mut front: &TcpStream,
    behind: SocketAddr,
    manner: &Manner,
    number: usize,
    record: &Mutex<Vec<Asked>>,
) -> Option<()> {
    let mut back: Option<TcpStream> = None;
    while let Some(Message { head, rest, reads }) = read_message(front) {
        let (line, fields) = head.split_once("\r\n").unwrap_or((&head, ""));
        let fields = fields.lines().filter_map(|line| line.split_once(": "));
        let headers = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let asked = Asked { line: line.to_owned(), headers, connection: number, reads };
        record.lock().expect("nobody panics with it").push(asked.clone());
        match manner {
            Manner::Pass => {}
            Manner::Say(text) => {
                front.write_all(text.as_bytes()).ok()?;
                return None;
            }
            Manner::Hold => {
                while front.read(&mut [0; 64]).is_ok_and(|more| more > 0) {}
                return None;
            }
        }
        if back.is_none() {
            let there = TcpStream::connect(behind).ok()?;
            let (from, to) = (there.try_clone().ok()?, front.try_clone().ok()?);
            if line.starts_with("CONNECT ") {
                front.write_all(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n").ok()?;
            }
            std::thread::spawn(move || copy(&from, &to));
            back = Some(there);
        }
        let mut there = back.as_ref()?;
        if line.starts_with("CONNECT ") {
            there.write_all(&rest).ok()?;
            copy(front, there);
            return None;
        }
        let (method, target) = line.split_once(" http://")?;
        let path = target.find('/').map_or("/", |slash| &target[slash..]);
        let mut out = format!("{method} {path}\r\n");
        for (name, value) in asked.headers.iter().filter(|(name, _)| !name.starts_with("proxy-")) {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        there.write_all(&[out.as_bytes(), &rest].concat()).ok()?;
    }
    if let Some(back) = back {
        let _ = back.shutdown(Shutdown::Both);
    }
    None
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut piece = [0; 16 << 10];
    while let Ok(more @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..more]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
