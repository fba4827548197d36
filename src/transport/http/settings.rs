//! The settings of an HTTP server, checked: what exists here can be sent.

use ureq_proto::http::header::{self, HeaderName, HeaderValue};
use ureq_proto::http::{HeaderMap, Uri};

use super::dial::Target;
use super::proxy::{Proxy, ProxyChoice};
use super::request::Common;
use super::tls::TlsSettings;
use crate::error::{Error, Kind, Result};
use crate::protocol::limits::Limits;
use crate::transport::Outgoing;

/// How to reach a server over Streamable HTTP.
pub(crate) struct HttpSettings {
    /// The MCP endpoint: `http` or `https`, with a host, without user information and fragment.
    pub url: String,
    /// Headers of every request, beside those that the library sets.
    pub headers: Vec<(String, String)>,
    /// The size limits.
    pub limits: Limits,
    /// The `User-Agent`.
    pub user_agent: String,
    /// The proxy.
    pub proxy: ProxyChoice,
    /// The hosts that are reached without it, instead of those that the environment names.
    pub no_proxy: Option<Vec<String>>,
    /// Roots, and a certificate of the client's.
    pub tls: TlsSettings,
    /// Redirects to the same origin are followed.
    pub follow: bool,
}

#[cfg(test)]
impl HttpSettings {
    /// No more than a URL.
    pub(crate) fn plain(url: &str) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            limits: Limits::default(),
            user_agent: "test/1".into(),
            proxy: ProxyChoice::Direct,
            no_proxy: None,
            tls: TlsSettings::default(),
            follow: true,
        }
    }
}

/// Headers that belong to the library (with everything that starts with `Mcp-`).
const OURS: [HeaderName; 12] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Sends a message.
    Post,
    /// Opens an event stream (legacy revisions).
    Get,
    /// Ends a session (legacy revisions).
    Delete,
}

impl Verb {
    /// The method of HTTP.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET",
            Self::Delete => "DELETE",
        }
    }
}

/// A checked endpoint: makes requests.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    uri: Uri,
    origin: String,
    /// What stands before the path in the first line of a request: the origin, for a proxy that reads it.
    prefix: String,
    /// What follows from all of it for each request.
    common: Common,
    headers: HeaderMap,
    follow: bool,
}

impl Endpoint {
    /// Checks the settings. Touches nothing on the network.
    pub(super) fn new(settings: &HttpSettings) -> Result<(Self, Target)> {
        let (uri, target) = endpoint_uri(&settings.url)?;
        let origin = target.origin();
        let host = HeaderValue::from_str(&target.host_header());
        let host = host.map_err(|_| wrong("`url` has a host that cannot stand in a header"))?;
        let headers = base_headers(settings, host)?;
        let common = Common::new(line_target("", &uri), &headers);
        Ok((Self { uri, origin, prefix: String::new(), common, headers, follow: settings.follow }, target))
    }

    /// A proxy reads each request: its first line names `server`, and the proxy's credentials stand in it
    /// (RFC 9112, 3.2.2).
    pub(super) fn tell_proxy(&mut self, proxy: &Proxy, server: &Target) -> Result<()> {
        self.prefix = format!("http://{}", server.host_header());
        if let Some(secret) = &proxy.authorization {
            let value = HeaderValue::from_str(&secret.0).map_err(|_| wrong("the proxy's password cannot be sent"))?;
            self.headers.insert(header::PROXY_AUTHORIZATION, value);
        }
        self.common = Common::new(line_target(&self.prefix, &self.uri), &self.headers);
        Ok(())
    }

    /// Whether redirects are followed.
    pub(super) fn follows(&self) -> bool {
        self.follow
    }

    #[cfg(test)]
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// `scheme://host:port`.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The endpoint that a reference from the server names, where it has the same origin: messages, and with them
    /// credentials, go nowhere else (2024-11-05 `basic/transports`, "HTTP with SSE", says only "a URI").
    pub(super) fn at(&self, reference: &str) -> Option<Self> {
        let reference = reference.trim_ascii().split('#').next().unwrap_or_default();
        let path = match absolute(reference, self.uri.scheme_str()?) {
            Some(whole) => {
                let (uri, target) = endpoint_uri(&whole).ok()?;
                (target.origin() == self.origin).then_some(uri.path_and_query()?.as_str().to_owned())?
            }
            None if reference.starts_with('/') => reference.to_owned(),
            None => {
                let base = self.uri.path();
                let folder = base.rfind('/').map_or("/", |end| &base[..=end]);
                if reference.starts_with('?') { format!("{base}{reference}") } else { format!("{folder}{reference}") }
            }
        };
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(without_dots(&path).parse().ok()?);
        let uri = Uri::from_parts(parts).ok()?;
        let common = Common::new(line_target(&self.prefix, &uri), &self.headers);
        Some(Self { uri, common, ..self.clone() })
    }

    /// The head of the request for one message, or the name of the header that cannot be sent. A header of the message
    /// replaces one of the settings.
    pub(super) fn head<'a>(&self, verb: Verb, outgoing: &Outgoing<'a>) -> Result<Vec<u8>, &'a str> {
        self.common.head(verb, outgoing.headers, outgoing.body.len())
    }
}

/// The target in the first line of a request.
fn line_target(prefix: &str, uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{prefix}{slash}{path}")
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(Kind::Argument, message.into())
}

/// The URL is not echoed: a query may hold a secret.
fn endpoint_uri(url: &str) -> Result<(Uri, Target)> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(wrong("`url` has no scheme, expected http:// or https://"));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        other => {
            return Err(wrong(format!("`url` has the scheme `{}`, expected http or https", other.escape_debug())));
        }
    };
    if rest.is_empty() || rest.starts_with(['/', '?', ':']) {
        return Err(wrong("`url` has no host"));
    }
    if url.contains('#') {
        return Err(wrong("`url` has a fragment, expected none"));
    }
    check_characters(url, rest)?;
    let uri: Uri = url.parse().map_err(|cause| wrong(format!("`url` is not a valid URL: {cause}")))?;
    let authority = uri.authority().ok_or_else(|| wrong("`url` has no host"))?;
    let host = authority.host();
    // `port()` is absent both without a colon and where what follows it is no port.
    let bare = authority.as_str().len() == host.len();
    let port = match authority.port_u16() {
        Some(0) => return Err(wrong("`url` has the port 0")),
        Some(port) => port,
        None if bare => {
            if tls {
                443
            } else {
                80
            }
        }
        None => return Err(wrong("`url` has a port that is no number from 1 to 65535")),
    };
    let target = Target::new(tls, host, port)?;
    Ok((uri, target))
}

/// Says what to do about the characters that people do put into URLs.
fn check_characters(url: &str, rest: &str) -> Result<()> {
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    if host.contains('@') {
        return Err(wrong("`url` has user information; give credentials in `headers`"));
    }
    if !host.is_ascii() {
        return Err(wrong("`url` has a host beyond ASCII; give its xn-- form (Punycode)"));
    }
    if host.starts_with('[') && host.contains('%') {
        return Err(wrong("`url` has an IPv6 zone id, which is not supported"));
    }
    if url.bytes().any(|byte| byte == b' ' || !byte.is_ascii()) {
        return Err(wrong("`url` has a space or a character beyond ASCII; percent-encode it (a space is %20)"));
    }
    Ok(())
}

fn base_headers(settings: &HttpSettings, host: HeaderValue) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, host);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let agent = HeaderValue::from_str(&settings.user_agent)
        .map_err(|_| wrong("`user_agent` has a character that cannot stand in a header"))?;
    headers.insert(header::USER_AGENT, agent);
    // A user agent among the headers wins over the setting: it is the more specific one.
    for (name, value) in &settings.headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong(format!("`headers` has the name `{}`, which is no header name", name.escape_debug())))?;
        if OURS.contains(&key) || key.as_str().starts_with("mcp-") {
            return Err(wrong(format!("`headers` may not set `{name}`: the library sets it")));
        }
        if key == header::PROXY_AUTHORIZATION || key.as_str() == "proxy-connection" {
            return Err(wrong(format!("`headers` may not set `{name}`, which is for a proxy; give it in `proxy`")));
        }
        let value = HeaderValue::from_str(value)
            .map_err(|_| wrong(format!("the header `{name}` has a character that cannot stand in a header")))?;
        if key == header::USER_AGENT {
            headers.insert(key, value);
        } else {
            headers.append(key, value);
        }
    }
    Ok(headers)
}

/// A reference that names a scheme, or a host alone (RFC 3986, 4.2), as a whole address.
fn absolute(reference: &str, scheme: &str) -> Option<String> {
    if reference.starts_with("//") {
        return Some(format!("{scheme}:{reference}"));
    }
    // Only in front of the path: a query may hold an address of its own.
    let (theirs, _) = reference.split_once("://")?;
    theirs.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)).then(|| reference.to_owned())
}

/// RFC 3986, 5.2.4: `.` and `..` in a path that begins with a slash.
fn without_dots(whole: &str) -> String {
    let (path, query) = whole.find('?').map_or((whole, ""), |at| whole.split_at(at));
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::proxy;
    use super::*;

    fn settings(url: &str, headers: &[(&str, &str)]) -> HttpSettings {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        HttpSettings { headers, ..HttpSettings::plain(url) }
    }

    #[test]
    fn good_urls_have_an_origin() {
        let rows = [
            ("http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080"),
            ("HTTPS://Example.COM", "https://example.com:443"),
            ("http://[::1]/x?y=1", "http://[::1]:80"),
            ("http://localhost:1/", "http://localhost:1"),
        ];
        for (url, origin) in rows {
            assert_eq!(Endpoint::new(&settings(url, &[])).unwrap().0.origin(), origin);
        }
    }

    #[test]
    fn a_bad_url_is_told_by_name() {
        let rows = [
            ("ftp://h/", "`url` has the scheme `ftp`, expected http or https"),
            ("h/path", "`url` has no scheme, expected http:// or https://"),
            ("", "`url` has no scheme, expected http:// or https://"),
            ("http://", "`url` has no host"),
            ("http:///x", "`url` has no host"),
            ("http://:80/x", "`url` has no host"),
            ("http://u:secret@h/", "`url` has user information; give credentials in `headers`"),
            ("http://h/#x", "`url` has a fragment, expected none"),
            ("http://h:0/", "`url` has the port 0"),
            ("http://h:99999/", "`url` has a port that is no number from 1 to 65535"),
            ("http://h:/", "`url` has a port that is no number from 1 to 65535"),
            ("http://[::1", "`url` is not a valid URL: invalid authority"),
            ("http://h/a b", "`url` has a space or a character beyond ASCII; percent-encode it (a space is %20)"),
            ("http://h/é", "`url` has a space or a character beyond ASCII; percent-encode it (a space is %20)"),
            (" http://h/", "`url` has the scheme ` http`, expected http or https"),
            ("http://h /", "`url` has a space or a character beyond ASCII; percent-encode it (a space is %20)"),
            ("http://h/\r\nX:y", "`url` is not a valid URL: invalid uri character"),
            ("http://é.test/", "`url` has a host beyond ASCII; give its xn-- form (Punycode)"),
            ("http://[fe80::1%25eth0]/", "`url` has an IPv6 zone id, which is not supported"),
            ("http://[fe80::1%eth0]:1/", "`url` has an IPv6 zone id, which is not supported"),
            ("http://ü:canary@h/", "`url` has user information; give credentials in `headers`"),
            ("http://u:canary@[::1]/", "`url` has user information; give credentials in `headers`"),
        ];
        for (url, message) in rows {
            let error = Endpoint::new(&settings(url, &[])).unwrap_err();
            assert_eq!((error.kind(), error.message()), (Kind::Argument, message), "{url}");
        }
    }

    #[test]
    fn a_bad_header_is_told_by_name_and_never_by_value() {
        let rows = [
            (("X Y", "v"), "`headers` has the name `X Y`, which is no header name"),
            (("", "v"), "`headers` has the name ``, which is no header name"),
            (("X\r\nY", "v"), "`headers` has the name `X\\r\\nY`, which is no header name"),
            (("X-Key", "a\r\nEvil: 1"), "the header `X-Key` has a character that cannot stand in a header"),
            (("Content-Type", "v"), "`headers` may not set `Content-Type`: the library sets it"),
            (("mcp-session-id", "v"), "`headers` may not set `mcp-session-id`: the library sets it"),
            (("MCP-Protocol-Version", "v"), "`headers` may not set `MCP-Protocol-Version`: the library sets it"),
            (("Host", "v"), "`headers` may not set `Host`: the library sets it"),
            (("content-length", "v"), "`headers` may not set `content-length`: the library sets it"),
            (("Trailer", "v"), "`headers` may not set `Trailer`: the library sets it"),
            (
                ("Proxy-Authorization", "v"),
                "`headers` may not set `Proxy-Authorization`, which is for a proxy; give it in `proxy`",
            ),
        ];
        for (header, message) in rows {
            let error = Endpoint::new(&settings("http://h/", &[header])).unwrap_err();
            assert_eq!((error.kind(), error.message()), (Kind::Argument, message));
        }
    }

    #[test]
    fn the_first_line_names_the_path_and_for_a_proxy_the_server() {
        let (mut endpoint, target) = Endpoint::new(&settings("http://H.test?x=1", &[])).unwrap();
        let outgoing = Outgoing { life: 0, body: "{}", headers: &[], id: None, token: None };
        let head = |endpoint: &Endpoint| String::from_utf8(endpoint.head(Verb::Post, &outgoing).unwrap()).unwrap();
        assert_eq!(
            head(&endpoint),
            "POST /?x=1 HTTP/1.1\r\nhost: h.test\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nuser-agent: test/1\r\ncontent-length: 2\r\n\r\n"
        );
        let proxy = proxy::read("settings.proxy", "http://u:p@proxy:1").unwrap();
        endpoint.tell_proxy(&proxy, &target).unwrap();
        assert!(head(&endpoint).starts_with("POST http://h.test/?x=1 HTTP/1.1\r\n"));
        assert!(head(&endpoint).contains("\r\nproxy-authorization: Basic dTpw\r\n"));
        let there = endpoint.at("/there").unwrap();
        assert!(head(&there).starts_with("POST http://h.test/there HTTP/1.1\r\n"));
    }

    #[test]
    fn a_named_endpoint_has_the_same_origin() {
        let (endpoint, _) = Endpoint::new(&settings("http://h:81/a/sse?k=1", &[])).unwrap();
        let rows = [
            ("/messages?sessionId=1", Some("http://h:81/messages?sessionId=1")),
            ("http://h:81/m", Some("http://h:81/m")),
            ("HTTP://H:81/m", Some("http://h:81/m")),
            ("m?x=1", Some("http://h:81/a/m?x=1")),
            ("?x=1", Some("http://h:81/a/sse?x=1")),
            ("http://h:82/m", None),
            ("https://h:81/m", None),
            ("http://evil/m", None),
            ("//evil/m", None),
            ("http://u:p@h:81/m", None),
            ("/a b", None),
        ];
        for (reference, want) in rows {
            let found = endpoint.at(reference).map(|endpoint| endpoint.uri.to_string());
            assert_eq!(found.as_deref(), want, "{reference}");
        }
    }
}
