//! A TLS door before another server, with certificates made on the spot.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        // Two authorities of one name would be one authority with a bad signature.
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::SeqCst));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a root"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names, changed by `more`.
    pub fn issue(&self, names: &[&str], more: impl FnOnce(&mut CertificateParams)) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        more(&mut params);
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &*self.0).expect("signed");
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// A door on a port of its own; what comes in goes on to `behind`.
pub struct Door {
    pub address: SocketAddr,
}

impl Door {
    /// `client` is who must have issued the client's certificate, where one is demanded.
    pub fn open(
        behind: SocketAddr,
        pair: &Pair,
        client: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(versions).expect("versions");
        let builder = match client {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("a root");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
        let config = Arc::new(builder.with_single_cert(chain, key).expect("a pair"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let config = config.clone();
                std::thread::spawn(move || pump(stream, config, behind));
            }
        });
        Self { address }
    }
}

/// Both ways, until one side ends.
fn pump(front: TcpStream, config: Arc<ServerConfig>, behind: SocketAddr) -> Option<()> {
    let mut conn = ServerConnection::new(config).ok()?;
    if conn.complete_io(&mut &front).is_err() {
        // The alert is on its way: a reset because of bytes that nobody read would overtake it.
        let _ = conn.write_tls(&mut &front);
        let _ = front.shutdown(Shutdown::Write);
        while (&front).read(&mut [0; 4096]).is_ok_and(|more| more > 0) {}
        return None;
    }
    let back = TcpStream::connect(behind).ok()?;
    let conn = Arc::new(Mutex::new(conn));
    let answers = {
        let (front, back, conn) = (front.try_clone().ok()?, back.try_clone().ok()?, conn.clone());
        std::thread::spawn(move || outwards(&front, &back, &conn))
    };
    inwards(&front, &back, &conn);
    let _ = back.shutdown(Shutdown::Both);
    let _ = answers.join();
    None
}

fn inwards(mut front: &TcpStream, mut back: &TcpStream, conn: &Mutex<ServerConnection>) -> Option<()> {
    let mut raw = [0; 16 << 10];
    let mut at = 0..0;
    loop {
        let mut plain = Vec::new();
        {
            let mut conn = conn.lock().ok()?;
            // The handshake may have brought the first of it.
            loop {
                let mut piece = [0; 16 << 10];
                while let Ok(more @ 1..) = conn.reader().read(&mut piece) {
                    plain.extend_from_slice(&piece[..more]);
                }
                if at.is_empty() {
                    break;
                }
                at.start += conn.read_tls(&mut &raw[at.clone()]).ok()?;
                conn.process_new_packets().ok()?;
            }
        }
        back.write_all(&plain).ok()?;
        let more = front.read(&mut raw).ok().filter(|more| *more > 0)?;
        at = 0..more;
    }
}

fn outwards(mut front: &TcpStream, mut back: &TcpStream, conn: &Mutex<ServerConnection>) -> Option<()> {
    let mut piece = [0; 16 << 10];
    loop {
        let more = back.read(&mut piece).unwrap_or(0);
        let mut conn = conn.lock().ok()?;
        if more == 0 {
            conn.send_close_notify();
        }
        conn.writer().write_all(&piece[..more]).ok()?;
        while conn.wants_write() {
            conn.write_tls(&mut front).ok()?;
        }
        if more == 0 {
            let _ = front.shutdown(Shutdown::Both);
            return None;
        }
    }
}
