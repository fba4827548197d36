//! The settings of the way to an HTTP server: proxy, TLS, redirects.

use crate::client::doc::Doc;
use crate::client::target::Target;
use crate::error::{Error, Kind, Result};
use crate::transport::http::{Pem, ProxyChoice, TlsSettings};

/// The way to a server over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network {
    pub(crate) proxy: ProxyChoice,
    pub(crate) no_proxy: Option<Vec<String>>,
    pub(crate) tls: TlsSettings,
    pub(crate) follow: bool,
}

/// The keys of the document that this file reads.
pub(super) const KEYS: [&str; 4] = ["proxy", "no_proxy", "tls", "redirects"];

impl Network {
    /// Reads it. It belongs to `http` and `https` alone.
    pub(super) fn read(doc: &mut Doc, target: &Target) -> Result<Self> {
        if !matches!(target, Target::Http { .. })
            && let Some(key) = KEYS.iter().find(|key| doc.take(key).is_some())
        {
            return Err(Error::new(Kind::Argument, format!("settings.{key} is for http and https")));
        }
        let proxy = match doc.text("proxy")?.as_deref() {
            None | Some("env") => ProxyChoice::Env,
            Some("none") => ProxyChoice::Direct,
            Some(url) => ProxyChoice::Given(url.to_owned()),
        };
        Ok(Self {
            proxy,
            no_proxy: doc.texts("no_proxy")?,
            tls: read_tls(doc)?,
            follow: doc.word("redirects", &["same_origin", "none"])? != Some("none"),
        })
    }
}

fn read_tls(doc: &mut Doc) -> Result<TlsSettings> {
    let Some(mut part) = doc.object("tls")? else {
        return Ok(TlsSettings::default());
    };
    let ca = read_pem(&mut part, "ca_file", "ca_pem")?;
    let chain = read_pem(&mut part, "client_cert_file", "client_cert_pem")?;
    let key = read_pem(&mut part, "client_key_file", "client_key_pem")?;
    let client = match (chain, key) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let message = "settings.tls: a client certificate and its key (client_cert_… and client_key_…) go together";
            return Err(Error::new(Kind::Argument, message));
        }
    };
    let only_own = part.word("roots", &["platform", "only"])? == Some("only");
    let server_name = part.text("server_name")?;
    part.finish()?;
    Ok(TlsSettings { ca, only_own, client, server_name })
}

fn read_pem(part: &mut Doc, file: &str, text: &str) -> Result<Option<Pem>> {
    match (part.text(file)?, part.text(text)?) {
        (Some(_), Some(_)) => {
            Err(Error::new(Kind::Argument, format!("settings.tls.{file} and {text} exclude each other")))
        }
        (Some(path), None) => Ok(Some(Pem::File(path))),
        (None, text) => Ok(text.map(Pem::Text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::settings::Settings;

    #[test]
    fn what_is_wrong_is_named() {
        for (text, want) in [
            (r#"{"url":"u","proxy":1}"#, "settings.proxy: expected a string but found a number"),
            (r#"{"url":"u","no_proxy":"a"}"#, "settings.no_proxy: expected an array of strings but found a string"),
            (
                r#"{"url":"u","no_proxy":[1]}"#,
                "settings.no_proxy: expected an array of strings but found a number in it",
            ),
            (r#"{"url":"u","redirects":"all"}"#, "settings.redirects: expected one of same_origin, none but found all"),
            (r#"{"url":"u","tls":[]}"#, "settings.tls: expected an object but found an array"),
            (r#"{"url":"u","tls":{"verify":false}}"#, "settings.tls.verify is not a known key"),
            (r#"{"url":"u","tls":{"ca_pem":7}}"#, "settings.tls.ca_pem: expected a string but found a number"),
            (r#"{"url":"u","tls":{"roots":"x"}}"#, "settings.tls.roots: expected one of platform, only but found x"),
            (r#"{"url":"u","tls":{"ca_pem":"a","ca_file":"b"}}"#, "settings.tls.ca_file and ca_pem exclude each other"),
            (
                r#"{"url":"u","tls":{"client_cert_pem":"a"}}"#,
                "settings.tls: a client certificate and its key (client_cert_… and client_key_…) go together",
            ),
            (r#"{"command":"a","proxy":"none"}"#, "settings.proxy is for http and https"),
            (r#"{"url":"unix:///x","tls":{}}"#, "settings.tls is for http and https"),
        ] {
            assert_eq!(Settings::read(text).unwrap_err().message(), want, "{text}");
        }
    }

    #[test]
    fn defaults_and_what_is_given() {
        let network = |text: &str| Settings::read(text).unwrap().network;
        let plain = Network { proxy: ProxyChoice::Env, no_proxy: None, tls: TlsSettings::default(), follow: true };
        assert_eq!(network(r#"{"url":"u"}"#), plain);
        assert_eq!(network(r#"{"url":"u","proxy":"env","redirects":"same_origin","tls":{"roots":"platform"}}"#), plain);
        let text = r#"{"url":"u","proxy":"http://p:1","no_proxy":["a"],"redirects":"none","tls":{"ca_file":"c",
            "roots":"only","client_cert_file":"d","client_key_pem":"e","server_name":"f"}}"#;
        let tls = TlsSettings {
            ca: Some(Pem::File("c".into())),
            only_own: true,
            client: Some((Pem::File("d".into()), Pem::Text("e".into()))),
            server_name: Some("f".into()),
        };
        let want = Network {
            proxy: ProxyChoice::Given("http://p:1".into()),
            no_proxy: Some(vec!["a".into()]),
            tls,
            follow: false,
        };
        assert_eq!(network(text), want);
        assert_eq!(network(r#"{"url":"u","proxy":"none"}"#).proxy, ProxyChoice::Direct);
        let entry = r#"{"server":{"url":"http://h/mcp"},"proxy":"none"}"#;
        assert_eq!(network(entry).proxy, ProxyChoice::Direct);
    }

    #[test]
    fn a_key_and_a_password_are_not_shown_and_are_secrets() {
        let text = r#"{"url":"u","proxy":"http://u:canary-1@p:1",
            "tls":{"client_cert_pem":"c","client_key_pem":"canary-2"}}"#;
        let settings = Settings::read(text).unwrap();
        assert!(!format!("{settings:?}").contains("canary"), "{settings:?}");
        assert_eq!(settings.secrets(), ["canary-1"]);
    }
}
