//! Which server the settings name, and what it is reached with.

use std::sync::Arc;
use std::time::Duration;

use crate::client::doc::Doc;
use crate::client::record::read_file;
use crate::client::settings::Settings;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result, one_line};
use crate::session::{Channel, Replay};
use crate::spawn::Spawn;
use crate::tasks::ledger::written::digest;
use crate::transport::http::{HttpSettings, HttpTransport};
use crate::transport::record::{Recorder, Tape};
use crate::transport::restart::RestartPolicy;
use crate::transport::stdio::{ChildDial, ChildSettings};
use crate::transport::stream::{StreamDial, StreamSlot};
use crate::transport::{Dial, Transport};

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// Streamable HTTP.
    Http { url: String, headers: Vec<(String, String)> },
    /// A child process.
    Child(ChildSettings),
    /// A Unix socket or, on Windows, a named pipe, by its URL.
    Socket(String),
    /// A stream of the host's, by the name that the host gives it (`stream:name`).
    Stream(String),
    /// A record that is played, by its file.
    Record(String),
}

/// A server within reach.
pub(crate) struct Reach {
    pub(crate) transport: Arc<dyn Transport>,
    /// The same transport, where it is a two-way channel.
    pub(crate) channel: Option<Arc<Channel>>,
    /// Where the host's stream goes.
    pub(crate) stream: Option<Arc<StreamSlot>>,
    /// Where what passes is written down.
    pub(crate) tape: Option<Arc<Tape>>,
}

impl Target {
    /// Reads it: an `mcpServers` entry under `server`, or the same keys in the document itself.
    pub(crate) fn read(doc: &mut Doc, warnings: &mut Vec<String>) -> Result<Self> {
        if let Some(mut replay) = doc.object("replay")? {
            let file = read_file(&mut replay)?;
            replay.finish()?;
            for other in ["url", "headers", "command", "args", "env", "inherit_env", "cwd", "server", "record"] {
                if doc.take(other).is_some() {
                    let message = format!("settings.{other} and settings.replay exclude each other");
                    return Err(Error::new(Kind::Argument, message));
                }
            }
            return Ok(Self::Record(file));
        }
        let Some(entry) = doc.take("server") else {
            return read_here(doc)?
                .ok_or_else(|| Error::new(Kind::Argument, "settings.url is missing (or command, or server)"));
        };
        let mut entry = Doc::of(entry, "settings.server")?;
        for both in ["url", "headers", "command", "args", "env", "inherit_env", "cwd"] {
            if doc.take(both).is_some() {
                let message = format!("settings.{both} and settings.server exclude each other");
                return Err(Error::new(Kind::Argument, message));
            }
        }
        let kind = entry.text("type")?;
        let target = read_here(&mut entry)?
            .ok_or_else(|| Error::new(Kind::Argument, "settings.server.url is missing (or command)"))?;
        target.check_type(kind.as_deref())?;
        let unknown = entry.members.keys();
        warnings.extend(unknown.map(|key| format!("settings.server.{key} is not known and was passed over")));
        Ok(target)
    }

    /// The server's name for the ledger, where the host gives it none. It is written to a file: what may be a secret
    /// (the user and the query of a URL, arguments) shows in it by a digest alone. Headers and environment, which
    /// change with each sign-in, have no part in it.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Http { url, .. } => {
                let (plain, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
                let (scheme, place) = plain.split_once("://").unwrap_or(("", plain));
                let (user, host) = match place.split_once('/').map_or(place, |(host, _)| host).rfind('@') {
                    Some(at) => (place.get(..at).unwrap_or_default(), place.get(at + 1..).unwrap_or_default()),
                    None => ("", place),
                };
                let hidden = if user.is_empty() && rest.is_empty() {
                    String::new()
                } else {
                    // Without the password, which may change.
                    let user = user.split_once(':').map_or(user, |(name, _)| name);
                    format!("#{:016x}", digest(&format!("{user} {rest}")))
                };
                format!("{scheme}://{host}{hidden}")
            }
            Self::Child(child) => {
                let place = format!("{:?} {:?}", child.args, child.cwd);
                format!("stdio:{}#{:016x}", child.command, digest(&place))
            }
            Self::Socket(url) | Self::Stream(url) => url.clone(),
            Self::Record(path) => format!("replay:{:016x}", digest(path)),
        }
    }

    fn check_type(&self, kind: Option<&str>) -> Result<()> {
        let (fits, want) = match self {
            Self::Http { .. } => (matches!(kind, None | Some("http" | "streamable-http" | "streamableHttp")), "http"),
            Self::Child(_) => (matches!(kind, None | Some("stdio")), "stdio"),
            Self::Socket(_) | Self::Stream(_) | Self::Record(_) => (kind.is_none(), "none"),
        };
        if fits {
            return Ok(());
        }
        let found = one_line(kind.unwrap_or_default());
        Err(Error::new(Kind::Unsupported, format!("settings.server.type: expected {want} but found {found}")))
    }
}

fn read_here(doc: &mut Doc) -> Result<Option<Target>> {
    let (url, headers) = (doc.text("url")?, read_texts(doc, "headers")?);
    let command = doc.text("command")?;
    let path = doc.path().to_owned();
    let wrong = |message: String| Err(Error::new(Kind::Argument, message));
    if url.is_some() && command.is_some() {
        return wrong(format!("{path}.url and {path}.command exclude each other"));
    }
    let Some(command) = command else {
        for child_only in ["args", "env", "inherit_env", "cwd"] {
            if doc.take(child_only).is_some() {
                return wrong(format!("{path}.{child_only} needs {path}.command"));
            }
        }
        return Ok(match url {
            None => None,
            Some(url) if url.starts_with("unix:") || url.starts_with("stream:") || url.starts_with("pipe:") => {
                if headers.is_some() {
                    return wrong(format!("{path}.headers is for http and https"));
                }
                Some(by_scheme(url)?)
            }
            Some(url) => Some(Target::Http { url, headers: headers.unwrap_or_default() }),
        });
    };
    if headers.is_some() {
        return wrong(format!("{path}.headers is for http and https"));
    }
    Ok(Some(Target::Child(ChildSettings {
        command,
        args: doc.texts("args")?.unwrap_or_default(),
        env: read_texts(doc, "env")?.unwrap_or_default(),
        inherit_env: doc.flag("inherit_env")?.unwrap_or(false),
        cwd: doc.text("cwd")?,
    })))
}

fn by_scheme(url: String) -> Result<Target> {
    if url.starts_with("stream:") {
        return Ok(Target::Stream(url));
    }
    // Each system has the one or the other.
    let here = if cfg!(windows) { "pipe:" } else { "unix:" };
    if url.starts_with(here) {
        return Ok(Target::Socket(url));
    }
    let message = if cfg!(windows) {
        "settings.url: Unix sockets (unix:) are not offered on Windows; a named pipe is (pipe:name)"
    } else {
        "settings.url: named pipes (pipe:) are of Windows; here it is a Unix socket (unix:///path)"
    };
    Err(Error::new(Kind::Unsupported, message))
}

/// An object of texts.
fn read_texts(doc: &mut Doc, key: &str) -> Result<Option<Vec<(String, String)>>> {
    let Some(mut part) = doc.object(key)? else {
        return Ok(None);
    };
    let names: Vec<String> = part.members.keys().cloned().collect();
    let pairs = names.into_iter().map(|name| {
        let value = part.text(&name)?.unwrap_or_default();
        Ok((name, value))
    });
    pairs.collect::<Result<_>>().map(Some)
}

/// The rules of restarting; options under `restart`.
pub(crate) fn read_restart(doc: &mut Doc) -> Result<RestartPolicy> {
    const DAY_MS: u64 = 86_400_000;
    let mut policy = RestartPolicy::default();
    let Some(mut part) = doc.object("restart")? else {
        return Ok(policy);
    };
    if let Some(max) = part.count("max", 0, 1_000_000)? {
        policy.max = max;
    }
    for (key, slot) in [
        ("window_ms", &mut policy.window),
        ("backoff_ms", &mut policy.backoff),
        ("max_backoff_ms", &mut policy.longest),
    ] {
        if let Some(ms) = part.count(key, 0, DAY_MS)? {
            *slot = Duration::from_millis(ms as u64);
        }
    }
    part.finish()?;
    Ok(policy)
}

/// Makes the transport. Reads the environment and the files that the settings name, opens the file of a record, and touches
/// nothing else outside the process.
pub(crate) fn reach(settings: &Settings, clock: &Arc<dyn Clock>, spawn: &Arc<dyn Spawn>) -> Result<Reach> {
    let mut reach = reach_bare(settings, clock, spawn)?;
    if let Some(record) = &settings.record {
        let tape = Tape::open(record, &settings.secrets(), clock.clone())?;
        reach.transport = Recorder::begin(reach.transport, tape.clone())?;
        reach.tape = Some(tape);
    }
    Ok(reach)
}

fn reach_bare(settings: &Settings, clock: &Arc<dyn Clock>, spawn: &Arc<dyn Spawn>) -> Result<Reach> {
    let line_bytes = settings.limits.stdio_line_bytes;
    let mut stream = None;
    let dial: Box<dyn Dial> = match &settings.target {
        Target::Http { url, headers } => {
            let http = HttpSettings {
                url: url.clone(),
                headers: headers.clone(),
                limits: settings.limits.clone(),
                user_agent: concat!("mcpnative/", env!("CARGO_PKG_VERSION")).to_owned(),
                proxy: settings.network.proxy.clone(),
                no_proxy: settings.network.no_proxy.clone(),
                tls: settings.network.tls.clone(),
                follow: settings.network.follow,
            };
            let transport = Arc::new(HttpTransport::new(http, clock.clone(), spawn.clone())?);
            return Ok(Reach { transport, channel: None, stream: None, tape: None });
        }
        Target::Record(file) => {
            let transport = Replay::open(file, clock.clone())?;
            return Ok(Reach { transport, channel: None, stream: None, tape: None });
        }
        Target::Child(child) => Box::new(ChildDial::new(child.clone(), line_bytes, clock.clone(), spawn.clone())?),
        Target::Socket(url) => socket(url, line_bytes, clock, spawn)?,
        Target::Stream(name) => {
            let slot = stream.insert(Arc::<StreamSlot>::default()).clone();
            Box::new(StreamDial::new(name, line_bytes, slot, spawn.clone()))
        }
    };
    let channel = Channel::new(dial, settings.restart, line_bytes, clock.clone());
    Ok(Reach { transport: channel.clone(), channel: Some(channel), stream, tape: None })
}

fn socket(url: &str, line_bytes: usize, clock: &Arc<dyn Clock>, spawn: &Arc<dyn Spawn>) -> Result<Box<dyn Dial>> {
    #[cfg(windows)]
    use crate::transport::named_pipe::PipeDial as LocalDial;
    #[cfg(unix)]
    use crate::transport::socket::SocketDial as LocalDial;
    Ok(Box::new(LocalDial::new(url, line_bytes, clock.clone(), spawn.clone())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> (Result<Target>, Vec<String>) {
        match Settings::read(text) {
            Ok(settings) => (Ok(settings.target), settings.warnings),
            Err(error) => (Err(error), Vec::new()),
        }
    }

    #[test]
    fn a_local_server_is_read_in_both_places() {
        let want = ChildSettings {
            command: "npx".into(),
            args: vec!["-y".into(), "srv".into()],
            env: vec![("KEY".into(), "v".into())],
            inherit_env: false,
            cwd: Some("/tmp".into()),
        };
        let entry = r#""command":"npx","args":["-y","srv"],"env":{"KEY":"v"},"cwd":"/tmp""#;
        assert_eq!(target(&format!("{{{entry}}}")).0.unwrap(), Target::Child(want.clone()));
        let (read, warnings) = target(&format!(r#"{{"server":{{{entry},"type":"stdio","disabled":false}}}}"#));
        assert_eq!(read.unwrap(), Target::Child(want));
        assert_eq!(warnings, ["settings.server.disabled is not known and was passed over"]);
        let (mine, other) = if cfg!(windows) { ("pipe:x", "unix:///run/x") } else { ("unix:///run/x", "pipe:x") };
        let url = |url: &str| target(&format!(r#"{{"url":"{url}"}}"#)).0;
        assert_eq!(url(mine).unwrap(), Target::Socket(mine.into()));
        let refused = url(other).unwrap_err();
        assert_eq!(refused.kind(), Kind::Unsupported);
        assert!(refused.message().contains(mine.split(':').next().unwrap()), "{refused:?} says what there is here");
        assert_eq!(target(r#"{"url":"stream:x"}"#).0.unwrap(), Target::Stream("stream:x".into()));
    }

    #[test]
    fn what_is_wrong_with_a_local_server_is_named() {
        for (text, want) in [
            (r#"{"command":"a","url":"u"}"#, "settings.url and settings.command exclude each other"),
            (r#"{"url":"u","args":[]}"#, "settings.args needs settings.command"),
            (r#"{"command":"a","headers":{}}"#, "settings.headers is for http and https"),
            (r#"{"url":"unix:///x","headers":{}}"#, "settings.headers is for http and https"),
            (
                r#"{"command":"a","args":["b",1]}"#,
                "settings.args: expected an array of strings but found a number in it",
            ),
            (r#"{"command":"a","args":"b"}"#, "settings.args: expected an array of strings but found a string"),
            (r#"{"command":"a","env":{"X":1}}"#, "settings.env.X: expected a string but found a number"),
            (r#"{"command":1}"#, "settings.command: expected a string but found a number"),
            (r#"{"command":"a","server":{"url":"v"}}"#, "settings.command and settings.server exclude each other"),
            (r#"{"server":{"command":"a","type":"sse"}}"#, "settings.server.type: expected stdio but found sse"),
            (r#"{"server":{}}"#, "settings.server.url is missing (or command)"),
            (r#"{"url":"u","restart":{"often":1}}"#, "settings.restart.often is not a known key"),
            (
                r#"{"url":"u","restart":{"max":-1}}"#,
                "settings.restart.max: expected a whole number from 0 to 1000000 but found -1",
            ),
            (
                r#"{"url":"u","limits":{"stdio_line_bytes":1}}"#,
                "settings.limits.stdio_line_bytes: expected a whole number from 1024 to 1099511627776 but found 1",
            ),
        ] {
            assert_eq!(target(text).0.unwrap_err().message(), want, "{text}");
        }
    }

    #[test]
    fn an_identity_names_the_server_and_no_secret() {
        let identity = |text: &str| target(text).0.unwrap().identity();
        let plain = identity(r#"{"url":"https://h:1/mcp","headers":{"Authorization":"Bearer canary"}}"#);
        assert_eq!(plain, "https://h:1/mcp");
        let one = identity(r#"{"url":"https://u:canary@h/mcp?key=canary"}"#);
        assert!(one.starts_with("https://h/mcp#") && !one.contains("canary") && !one.contains("u:"), "{one}");
        assert_ne!(one, identity(r#"{"url":"https://u:canary@h/mcp?key=other"}"#));
        assert_eq!(
            identity(r#"{"url":"https://u:old@h/mcp?key=1"}"#),
            identity(r#"{"url":"https://u:new@h/mcp?key=1"}"#),
            "a new password is no new server"
        );
        let child = identity(r#"{"command":"npx","args":["srv","--token=canary"],"env":{"KEY":"canary"}}"#);
        assert!(child.starts_with("stdio:npx#") && !child.contains("canary"), "{child}");
        assert_ne!(child, identity(r#"{"command":"npx","args":["other"]}"#));
        assert_eq!(identity(r#"{"url":"unix:///run/x"}"#), "unix:///run/x");
        assert_eq!(identity(r#"{"url":"stream:x"}"#), "stream:x");
    }

    #[test]
    fn restart_options_take_the_place_of_the_defaults() {
        let settings = Settings::read(r#"{"command":"a","restart":{"max":0,"window_ms":5}}"#).unwrap();
        let want = RestartPolicy { max: 0, window: Duration::from_millis(5), ..RestartPolicy::default() };
        assert_eq!(settings.restart, want);
    }
}
