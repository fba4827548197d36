//! TLS 1.2 and 1.3 by rustls: which roots count, the client's certificate, and the transport above a socket.
//!
//! Files and texts are read and checked when the client is made. The system's roots are loaded at the first connection.

use std::io::{self, Read, Write};
use std::sync::Arc;

use once_cell::sync::OnceCell;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_platform_verifier::Verifier;
use zeroize::{Zeroize, Zeroizing};

use super::control::{Control, Trouble};
use super::dial::Target;
use super::lanes::NoLine;
use super::socket::Line;
use super::tls_words::{refused_later, words};
use crate::error::{Error, Kind, Result, one_line};

/// The largest file or text; chosen: the bundles of the systems have some hundred KiB.
const MOST_BYTES: u64 = 8 << 20;

/// Where a PEM text is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Pem {
    /// In a file, by its path.
    File(String),
    /// Here.
    Text(String),
}

/// Shows no text: it may be a key.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({path:?})"),
            Self::Text(_) => f.write_str("Text(***)"),
        }
    }
}

/// What the settings say of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TlsSettings {
    /// Roots of the host's own.
    pub ca: Option<Pem>,
    /// These alone count.
    pub only_own: bool,
    /// The client's certificate with its chain, and its key.
    pub client: Option<(Pem, Pem)>,
    /// The name that the server's certificate must have, instead of the URL's host.
    pub server_name: Option<String>,
}

/// What TLS connections are made with.
pub(super) struct Tls {
    provider: Arc<CryptoProvider>,
    roots: Vec<CertificateDer<'static>>,
    only_own: bool,
    client: Option<Arc<CertifiedKey>>,
    server_name: Option<ServerName<'static>>,
    made: OnceCell<Made>,
}

struct Made {
    to_server: Arc<ClientConfig>,
    /// The client's certificate is for the server alone.
    to_proxy: Arc<ClientConfig>,
}

impl Tls {
    /// Reads and checks what the settings name.
    ///
    /// # Errors
    /// [`Kind::Argument`] naming the setting: a file that cannot be read, a text that has no certificate or no key, a
    /// key that does not belong to its certificate.
    pub(super) fn new(settings: &TlsSettings) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let roots = match &settings.ca {
            None => Vec::new(),
            Some(pem) => own_roots(pem)?,
        };
        if settings.only_own && roots.is_empty() {
            return Err(wrong("settings.tls.roots", "\"only\" needs ca_file or ca_pem"));
        }
        let client = settings.client.as_ref();
        let client = client.map(|(chain, key)| client_key(chain, key, &provider)).transpose()?;
        let name = settings.server_name.as_ref();
        let name =
            name.map(|name| server_name(name).ok_or_else(|| wrong("settings.tls.server_name", "is no host name")));
        let server_name = name.transpose()?;
        Ok(Self { provider, roots, only_own: settings.only_own, client, server_name, made: OnceCell::new() })
    }

    /// A TLS connection over `line` to `place`, which may be a proxy.
    pub(super) fn wrap(
        &self,
        mut line: Box<dyn Line>,
        place: &Target,
        control: &Arc<Control>,
    ) -> Result<Secured, NoLine> {
        let told = place.told();
        let failed = |cause: String| {
            // Behind a spent limit or a cut, TLS only reports a failed read: those are noted already, or asked first.
            control.blame(Trouble::Tls(cause));
            NoLine
        };
        let made = self.made.get_or_try_init(|| self.make()).map_err(|error| failed(words(&error, &told)))?;
        let own_name = if place.is_proxy() { None } else { self.server_name.clone() };
        let name = own_name.or_else(|| server_name(place.host()));
        let name = name.ok_or_else(|| failed(format!("{told} has a name that no certificate can have")))?;
        let config = if place.is_proxy() { &made.to_proxy } else { &made.to_server };
        let mut conn = ClientConnection::new(config.clone(), name).map_err(|error| failed(words(&error, &told)))?;
        conn.complete_io(&mut line).map_err(|cause| match inner(&cause) {
            Some(error) => failed(words(error, &told)),
            None => failed(format!("{told}: {cause}")),
        })?;
        Ok(Secured { stream: StreamOwned::new(conn, line), control: control.clone(), told, heard: false })
    }

    fn make(&self) -> Result<Made, rustls::Error> {
        let verifier = self.verifier()?;
        let config = |client: Option<Arc<dyn ResolvesClientCert>>| {
            let builder = ClientConfig::builder_with_provider(self.provider.clone())
                .with_safe_default_protocol_versions()?
                // The name is rustls's: each verifier here checks the whole chain and the name.
                .dangerous()
                .with_custom_certificate_verifier(verifier.clone());
            Ok::<_, rustls::Error>(Arc::new(match client {
                Some(client) => builder.with_client_cert_resolver(client),
                None => builder.with_no_client_auth(),
            }))
        };
        let client =
            self.client.clone().map(|key| Arc::new(SingleCertAndKey::from(key)) as Arc<dyn ResolvesClientCert>);
        Ok(Made { to_server: config(client)?, to_proxy: config(None)? })
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, rustls::Error> {
        if self.only_own {
            let mut store = RootCertStore::empty();
            for root in &self.roots {
                store.add(root.clone())?;
            }
            let built = WebPkiServerVerifier::builder_with_provider(store.into(), self.provider.clone()).build();
            let verifier = built.map_err(|cause| rustls::Error::General(cause.to_string()))?;
            return Ok(verifier);
        }
        if self.roots.is_empty() {
            return Ok(Arc::new(Verifier::new(self.provider.clone())?));
        }
        with_extra_roots(&self.roots, &self.provider)
    }
}

#[cfg(not(target_os = "android"))]
fn with_extra_roots(
    roots: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, rustls::Error> {
    Ok(Arc::new(Verifier::new_with_extra_roots(roots.iter().cloned(), provider.clone())?))
}

#[cfg(target_os = "android")]
fn with_extra_roots(
    _: &[CertificateDer<'static>],
    _: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, rustls::Error> {
    Err(rustls::Error::General("on Android, roots of one's own need settings.tls.roots \"only\"".to_owned()))
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn wrong(key: &str, what: &str) -> Error {
    Error::new(Kind::Argument, format!("{key}: {what}"))
}

/// The key of the settings that names this text.
fn key_of(stem: &str, pem: &Pem) -> String {
    match pem {
        Pem::File(_) => format!("settings.tls.{stem}_file"),
        Pem::Text(_) => format!("settings.tls.{stem}_pem"),
    }
}

fn bytes_of(key: &str, pem: &Pem) -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    match pem {
        Pem::Text(text) => bytes.extend_from_slice(text.as_bytes()),
        Pem::File(path) => {
            let file = std::fs::File::open(path);
            let read = file.and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
            read.map_err(|cause| wrong(key, &format!("{} cannot be read: {cause}", one_line(path))))?;
        }
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong(key, "is over 8 MiB"));
    }
    Ok(bytes)
}

fn certificates(key: &str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = bytes_of(key, pem)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    // The reader's words may have a line of the text.
    let found = found.map_err(|_| wrong(key, "is not valid PEM"))?;
    if found.is_empty() {
        return Err(wrong(key, "has no certificate in PEM form"));
    }
    Ok(found)
}

fn own_roots(pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let key = key_of("ca", pem);
    let roots = certificates(&key, pem)?;
    let mut store = RootCertStore::empty();
    for (at, root) in roots.iter().enumerate() {
        let added = store.add(root.clone());
        added.map_err(|_| wrong(&key, &format!("certificate {} of {} is not valid", at + 1, roots.len())))?;
    }
    Ok(roots)
}

fn client_key(chain: &Pem, private: &Pem, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>> {
    let certs = certificates(&key_of("client_cert", chain), chain)?;
    let key = key_of("client_key", private);
    let bytes = bytes_of(&key, private)?;
    let Ok(mut der) = PrivateKeyDer::from_pem_slice(&bytes) else {
        let encrypted = bytes.windows(9).any(|window| window == b"ENCRYPTED");
        let what = if encrypted { "an encrypted key is not supported" } else { "has no private key in PEM form" };
        return Err(wrong(&key, what));
    };
    let signer = provider.key_provider.load_private_key(der.clone_key());
    der.zeroize();
    let signer = signer.map_err(|_| wrong(&key, "this kind of private key cannot be used"))?;
    let pair = CertifiedKey::new(certs, signer);
    match pair.keys_match() {
        // A key that does not tell its public half is tried as it is.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(wrong(&key, "does not belong to the client's certificate")),
        Err(_) => Err(wrong(&key_of("client_cert", chain), "the first certificate is not valid")),
    }
}

/// A host as it stands in a URL as the name in a certificate.
fn server_name(host: &str) -> Option<ServerName<'static>> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned()).ok()
}

/// The fault of TLS itself in a failed read.
fn inner(cause: &io::Error) -> Option<&rustls::Error> {
    cause.get_ref()?.downcast_ref()
}

/// A TLS connection.
pub(super) struct Secured {
    stream: StreamOwned<ClientConnection, Box<dyn Line>>,
    control: Arc<Control>,
    told: String,
    /// Something of an answer came.
    heard: bool,
}

impl Write for Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Read for Secured {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buf) {
            Ok(amount) => {
                self.heard |= amount > 0;
                Ok(amount)
            }
            // An end without a farewell. Whether the answer was whole says its length.
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(cause) => {
                // In TLS 1.3 a server judges the client's certificate after the client has begun to talk. What it
                // refuses then, it has not read.
                let refused = inner(&cause).filter(|_| !self.heard);
                if let Some(why) = refused.and_then(|error| refused_later(error, &self.told)) {
                    self.control.blame(Trouble::Tls(why));
                }
                Err(cause)
            }
        }
    }
}

impl Line for Secured {
    fn is_open(&mut self) -> bool {
        // What was said unasked together with the last answer is no longer in the socket, but here; so is a farewell.
        let quiet = self.stream.conn.process_new_packets();
        let quiet = quiet.is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed());
        quiet && self.stream.sock.is_open()
    }
}
