//! Which proxy leads to a server: the setting, or the environment as it stood when the client was made. Pure.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use super::dial::Target;
use super::no_proxy::NoProxy;
use crate::error::{Error, Kind, Result, one_line};

/// What the settings say of proxies.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum ProxyChoice {
    /// The environment names it.
    #[default]
    Env,
    /// There is none.
    Direct,
    /// This one, by its URL.
    Given(String),
}

/// Shows no URL: it may have a password.
impl std::fmt::Debug for ProxyChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Env => "Env",
            Self::Direct => "Direct",
            Self::Given(_) => "Given(***)",
        })
    }
}

/// A proxy, as it leads to one server.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) place: Target,
    /// The value of `Proxy-Authorization`.
    pub(super) authorization: Option<Secret>,
}

/// What is never shown.
#[derive(Clone)]
pub(super) struct Secret(pub(super) Zeroizing<String>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What a variable of the environment holds.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The proxy to `target`, where there is one. `no_proxy` takes the place of the variable of that name; beside a proxy
/// that is given, the environment is not looked at.
pub(super) fn choose(
    choice: &ProxyChoice,
    no_proxy: Option<&[String]>,
    target: &Target,
    env: Lookup<'_>,
) -> Result<Option<Proxy>> {
    let set = |name: &&str| env(name).filter(|value| !value.trim().is_empty());
    let (name, url) = match choice {
        ProxyChoice::Direct => return Ok(None),
        ProxyChoice::Given(url) => ("settings.proxy", url.clone()),
        ProxyChoice::Env => {
            let names = variables(target.is_tls(), set(&"REQUEST_METHOD").is_some());
            let Some(found) = names.iter().find_map(|name| Some((*name, set(name)?))) else {
                return Ok(None);
            };
            found
        }
    };
    let exceptions = match (no_proxy, choice) {
        (Some(list), _) => list.join(","),
        (None, ProxyChoice::Env) => ["no_proxy", "NO_PROXY"].iter().find_map(set).unwrap_or_default(),
        (None, ProxyChoice::Direct | ProxyChoice::Given(_)) => String::new(),
    };
    if NoProxy::read(&exceptions).names(target.host(), target.port()) {
        return Ok(None);
    }
    read(name, url.trim()).map(Some)
}

/// The variables that may name the proxy, in the order in which they count. In a CGI program (`REQUEST_METHOD` is set),
/// `HTTP_PROXY` is a header of the request that anybody may send ("httpoxy").
fn variables(tls: bool, cgi: bool) -> &'static [&'static str] {
    match (tls, cgi) {
        (true, _) => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        (false, false) => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        // On Windows both spellings are one variable.
        (false, true) if cfg!(windows) => &["all_proxy", "ALL_PROXY"],
        (false, true) => &["http_proxy", "all_proxy", "ALL_PROXY"],
    }
}

/// Reads the URL of a proxy. It is not echoed: it may hold a password.
pub(super) fn read(name: &str, url: &str) -> Result<Proxy> {
    let wrong = |what: &str| Error::new(Kind::Argument, format!("{name}: {what}"));
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        other => {
            let found = one_line(other);
            let message = format!("{name}: a proxy of kind {found} is not supported, expected http:// or https://");
            return Err(Error::new(Kind::Unsupported, message));
        }
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    if place.contains(['/', '?', '#']) {
        return Err(wrong("a proxy has no path"));
    }
    let bracket = place.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match place[bracket..].split_once(':') {
        Some((rest, port)) => (&place[..bracket + rest.len()], port.parse().ok().filter(|port| *port != 0)),
        None => (place, Some(if tls { 443 } else { 80 })),
    };
    let port = port.ok_or_else(|| wrong("the port is no number from 1 to 65535"))?;
    let plain =
        |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' | '%');
    if host.is_empty() || !host.chars().all(plain) {
        return Err(wrong("expected \"env\", \"none\" or a URL as in http://user:password@host:port"));
    }
    let place = Target::new(tls, host, port).map_err(|_| wrong("the host in brackets is no IPv6 address"))?;
    let authorization = user.map(basic).transpose().map_err(wrong)?;
    Ok(Proxy { place: place.into_proxy(), authorization })
}

/// RFC 7617, 2: name and password in Base64. In a URL both are percent-encoded.
fn basic(user: &str) -> Result<Secret, &'static str> {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.contains(&b':') {
        return Err("the user's name has a colon, which HTTP cannot send");
    }
    let pair = Zeroizing::new([&user[..], b":", &password[..]].concat());
    Ok(Secret(Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(&*pair)))))
}

fn decoded(text: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("the user or the password has a % that two hexadecimal digits do not follow");
        };
        out.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    Ok(out)
}

/// What must not be told again: the password of a proxy that the settings name, as it stands there.
pub(crate) fn password(choice: &ProxyChoice) -> Option<&str> {
    let ProxyChoice::Given(url) = choice else {
        return None;
    };
    let (user, _) = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest).rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Env = &'static [(&'static str, &'static str)];

    fn chosen(choice: &ProxyChoice, no_proxy: Option<&[String]>, url: (bool, &str), env: Env) -> Result<Option<Proxy>> {
        let target = Target::new(url.0, url.1, 8080).unwrap();
        let lookup = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        choose(choice, no_proxy, &target, &lookup)
    }

    fn name(found: Result<Option<Proxy>>) -> Option<String> {
        found.unwrap().map(|proxy| proxy.place.origin())
    }

    #[test]
    fn br_19_the_environment_names_the_proxy() {
        let (http, https) = (false, true);
        let rows: [(bool, Env, Option<&str>); 16] = [
            (http, &[], None),
            (http, &[("http_proxy", "http://a:1")], Some("http://a:1")),
            (https, &[("http_proxy", "http://a:1")], None),
            (http, &[("HTTP_PROXY", "http://a:1")], Some("http://a:1")),
            (http, &[("HTTP_PROXY", "http://a:1"), ("http_proxy", "http://b:2")], Some("http://b:2")),
            (http, &[("HTTP_PROXY", "http://a:1"), ("REQUEST_METHOD", "GET")], None),
            (http, &[("http_proxy", "http://a:1"), ("REQUEST_METHOD", "GET")], Some("http://a:1")),
            (https, &[("HTTPS_PROXY", "http://a:1"), ("REQUEST_METHOD", "GET")], Some("http://a:1")),
            (https, &[("HTTPS_PROXY", "http://a:1")], Some("http://a:1")),
            (https, &[("HTTPS_PROXY", "http://a:1"), ("https_proxy", "http://b:2")], Some("http://b:2")),
            (http, &[("ALL_PROXY", "http://a:1")], Some("http://a:1")),
            (https, &[("all_proxy", "http://a:1"), ("https_proxy", "http://b:2")], Some("http://b:2")),
            (https, &[("https_proxy", " "), ("ALL_PROXY", "http://b:2")], Some("http://b:2")),
            (https, &[("HTTPS_PROXY", "a:1"), ("NO_PROXY", "other.test")], Some("http://a:1")),
            (https, &[("HTTPS_PROXY", "a:1"), ("NO_PROXY", "server.test")], None),
            (https, &[("HTTPS_PROXY", "a:1"), ("NO_PROXY", "server.test"), ("no_proxy", "x")], Some("http://a:1")),
        ];
        for (tls, env, want) in rows {
            let found = name(chosen(&ProxyChoice::Env, None, (tls, "server.test"), env));
            assert_eq!(found.as_deref(), want, "{env:?}");
        }
    }

    #[test]
    fn br_19_a_setting_overrides_the_environment() {
        let env: Env = &[("HTTP_PROXY", "http://a:1"), ("NO_PROXY", "*")];
        let given = ProxyChoice::Given("http://b:2".into());
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let to = (false, "server.test");
        assert_eq!(name(chosen(&ProxyChoice::Direct, None, to, env)), None);
        assert_eq!(name(chosen(&given, None, to, env)).as_deref(), Some("http://b:2"));
        assert_eq!(name(chosen(&given, Some(&list(&["x", ".test"])), to, env)), None);
        assert_eq!(name(chosen(&ProxyChoice::Env, None, to, env)), None);
        assert_eq!(name(chosen(&ProxyChoice::Env, Some(&[]), to, env)).as_deref(), Some("http://a:1"));
    }

    #[test]
    fn a_proxys_url_is_read() {
        let rows = [
            ("http://proxy:3128", "http://proxy:3128", None),
            ("HTTP://Proxy:3128/", "http://proxy:3128", None),
            ("proxy:3128", "http://proxy:3128", None),
            ("http://proxy", "http://proxy:80", None),
            ("https://proxy", "https://proxy:443", None),
            ("http://[::1]:3128", "http://[::1]:3128", None),
            ("http://[::1]", "http://[::1]:80", None),
            ("http://u:p@proxy:1", "http://proxy:1", Some("u:p")),
            ("http://u@proxy:1", "http://proxy:1", Some("u:")),
            ("http://d%5Cu:p%40%3a%2F@proxy:1", "http://proxy:1", Some("d\\u:p@:/")),
            ("http://u:p@q@proxy:1", "http://proxy:1", Some("u:p@q")),
        ];
        for (url, origin, user) in rows {
            let proxy = read("settings.proxy", url).unwrap();
            let want = user.map(|user| format!("Basic {}", BASE64_STANDARD.encode(user)));
            assert_eq!(proxy.authorization.as_ref().map(|secret| secret.0.as_str()), want.as_deref(), "{url}");
            assert_eq!(proxy.place.origin(), origin, "{url}");
            assert!(!format!("{proxy:?}").contains("Basic"), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_proxy_is_named_and_its_password_is_not() {
        let rows = [
            ("socks5://u:canary@h:1", Kind::Unsupported, "a proxy of kind socks5 is not supported"),
            ("http://u:canary@h:99999", Kind::Argument, "the port is no number from 1 to 65535"),
            ("http://u:canary@h:", Kind::Argument, "the port is no number from 1 to 65535"),
            ("http://u:canary@h:0", Kind::Argument, "the port is no number from 1 to 65535"),
            ("http://u:canary@h:1/path", Kind::Argument, "a proxy has no path"),
            ("http://u:canary%@h:1", Kind::Argument, "two hexadecimal digits"),
            ("http://u%3a:canary@h:1", Kind::Argument, "has a colon"),
            ("http://u:canary@", Kind::Argument, "expected \"env\", \"none\" or a URL"),
            ("http://u:canary@a b:1", Kind::Argument, "expected \"env\", \"none\" or a URL"),
            ("http://u:canary@h\r\nX: y:1", Kind::Argument, "the port is no number"),
            ("http://u:canary@[x]:1", Kind::Argument, "no IPv6 address"),
            ("", Kind::Argument, "expected \"env\", \"none\" or a URL"),
        ];
        for (url, kind, words) in rows {
            let error = read("settings.proxy", url).unwrap_err();
            assert_eq!(error.kind(), kind, "{url:?}: {error:?}");
            let message = error.message();
            assert!(message.starts_with("settings.proxy: ") && message.contains(words), "{url:?}: {message}");
            assert!(!message.contains("canary"), "{message}");
        }
    }
}
