//! A connection behind TLS between two exchanges.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ServerConfig, ServerConnection};

use crate::clock::Deadline;
use crate::transport::http::control::{Control, Spans};
use crate::transport::http::dial::Target;
use crate::transport::http::socket::{Line as _, Socket};
use crate::transport::http::tls::Tls;
use crate::transport::http::{Pem, TlsSettings};

#[test]
fn br21_extra_bytes_and_a_farewell_behind_tls_make_a_connection_unfit() {
    // What comes behind the byte that is read, and whether the connection may serve again.
    for (behind, farewell, open) in [("", false, true), ("bc", false, false), ("", true, false)] {
        let mut root = CertificateParams::default();
        root.distinguished_name.push(DnType::CommonName, "root");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let own_key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&own_key, &*root).unwrap();
        let settings = TlsSettings { ca: Some(Pem::Text(root.pem())), only_own: true, ..Default::default() };
        let key = PrivateKeyDer::from_pem_slice(own_key.serialize_pem().as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            let mut conn = ServerConnection::new(Arc::new(config)).unwrap();
            conn.complete_io(&mut socket).unwrap();
            let mut records = Vec::new();
            conn.writer().write_all(format!("a{behind}").as_bytes()).unwrap();
            if farewell {
                conn.send_close_notify();
            }
            while conn.wants_write() {
                conn.write_tls(&mut records).unwrap();
            }
            socket.write_all(&records).unwrap();
            // Until the client goes.
            socket.read_to_end(&mut Vec::new()).unwrap_or_default();
        });
        let control = Arc::new(Control::new(crate::clock::system()));
        let never = Deadline::Never;
        let _cutter = control.begin(Spans { total: never, idle: None, connect: never, hold: Arc::default() });
        let line = Box::new(Socket::new(TcpStream::connect(address).unwrap(), control.clone()));
        let place = Target::new(true, "localhost", address.port()).unwrap();
        let mut secured = Tls::new(&settings).unwrap().wrap(line, &place, &control).unwrap();
        let mut byte = [0];
        secured.read_exact(&mut byte).unwrap();
        assert_eq!((byte, secured.is_open()), (*b"a", open), "{behind:?} {farewell}");
        drop(secured);
        server.join().unwrap();
    }
}
