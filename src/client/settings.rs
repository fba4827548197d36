//! The document of a connection: one JSON object, checked in full before anything is touched. Strict: an unknown key
//! or a wrong type is an error that names it. The part under `server` is an `mcpServers` entry as other MCP hosts
//! write it; there, unknown keys only warn.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::client::doc::Doc;
use crate::client::network::{self, Network};
use crate::client::options::MOST_KEEP_MS;
use crate::client::record::read_record;
use crate::client::stored::{LedgerSettings, read_identity, read_ledger};
use crate::client::target::{Target, read_restart};
use crate::error::{Error, Kind, Result};
use crate::protocol::limits::Limits;
use crate::session::EraChoice;
use crate::transport::http::proxy_password;
use crate::transport::record::RecordSettings;
use crate::transport::restart::RestartPolicy;

/// Who answers questions of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputPolicy {
    /// The handler registered for their events.
    Handler,
    /// The host, by hand: a wait returns *input required*.
    Manual,
    /// Nobody.
    Refuse,
}

/// What becomes of a result that does not match its tool's output schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validation {
    /// The call ends with the error, the result beside it.
    Error,
    /// A line in the log.
    Warn,
    /// Nobody looks.
    Off,
}

/// Reads `validate`, of the settings or of a call's options.
pub(crate) fn read_validation(doc: &mut Doc) -> Result<Option<Validation>> {
    Ok(doc.word("validate", &["error", "warn", "off"])?.map(|word| match word {
        "warn" => Validation::Warn,
        "off" => Validation::Off,
        _ => Validation::Error,
    }))
}

/// The time limits; `None` is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub connect: Option<Duration>,
    pub probe: Option<Duration>,
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    /// What a close waits for a cancel that has not reached the server yet.
    pub close: Option<Duration>,
}

/// How tasks are followed.
#[derive(Clone, Debug)]
pub(crate) struct TaskSettings {
    pub enabled: bool,
    pub auto_poll: bool,
    pub push: bool,
    pub min_poll: Duration,
    pub stop_at_ttl: bool,
    pub follow_cancel: bool,
    /// How long a server that can be told so (2025-11-25) shall keep a task; its own wish otherwise.
    pub keep: Option<Duration>,
    /// What becomes of a task that asks what the host refuses and that has no form of refusal.
    pub cancel_refused: bool,
    pub ledger: LedgerSettings,
}

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) target: Target,
    pub(crate) network: Network,
    pub(crate) restart: RestartPolicy,
    /// The name of the server in the ledger.
    pub(crate) identity: Option<String>,
    pub(crate) client_info: String,
    pub(crate) era: EraChoice,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: Limits,
    pub(crate) tasks: TaskSettings,
    /// Elicitation, sampling, roots; `None`: the handler where one is registered, else nobody.
    pub(crate) input: [Option<InputPolicy>; 3],
    pub(crate) extensions: Vec<(String, String)>,
    pub(crate) max_in_flight: usize,
    pub(crate) queue_limit: usize,
    pub(crate) log_level: Option<String>,
    pub(crate) validation: Validation,
    /// Where what passes is written down.
    pub(crate) record: Option<RecordSettings>,
    /// Keys of the `server` entry that the library does not know.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Reads the document.
    ///
    /// # Errors
    /// [`Kind::Argument`] naming the key that is missing, unknown, of the wrong type or out of range;
    /// [`Kind::Unsupported`] for what this version cannot do yet.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|fault| Error::new(Kind::Argument, format!("settings are not valid JSON: {fault}")))?;
        let mut doc = Doc::of(value, "settings")?;
        check_keys(&doc)?;
        let mut warnings = Vec::new();
        let target = Target::read(&mut doc, &mut warnings)?;
        let network = Network::read(&mut doc, &target)?;
        let settings = Self {
            target,
            network,
            restart: read_restart(&mut doc)?,
            identity: read_identity(&mut doc)?,
            client_info: read_client(&mut doc)?,
            era: read_era(&mut doc)?,
            timeouts: read_timeouts(&mut doc)?,
            limits: read_limits(&mut doc)?,
            tasks: read_tasks(&mut doc)?,
            input: read_input(&mut doc)?,
            extensions: read_extensions(&mut doc)?,
            max_in_flight: doc.count("max_in_flight", 1, 65_536)?.unwrap_or(256),
            queue_limit: doc.count("queue_limit", 1, 10_000_000)?.unwrap_or(10_000),
            log_level: doc.word("log_level", &LOG_LEVELS)?.map(str::to_owned),
            validation: read_validation(&mut doc)?.unwrap_or(Validation::Error),
            record: read_record(&mut doc)?,
            warnings,
        };
        Ok(settings)
    }

    /// What must never be told again: the values of the headers, and the token of a `Bearer` or `Basic` one alone.
    pub(crate) fn secrets(&self) -> Vec<String> {
        /// Shorter ones would mask ordinary words; chosen, because a credential of this length protects nothing.
        const SHORTEST: usize = 6;
        let Target::Http { headers, .. } = &self.target else {
            return Vec::new();
        };
        let values =
            headers.iter().flat_map(|(_, value)| [value.as_str(), value.rsplit(' ').next().unwrap_or_default()]);
        let values = values.chain(proxy_password(&self.network.proxy));
        let mut secrets: Vec<String> = values.filter(|text| text.len() >= SHORTEST).map(str::to_owned).collect();
        // The longest first, so that no rest of it stays.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        secrets
    }

    /// Which server configuration this is, for what is remembered of servers. Headers count: behind one URL, they may
    /// choose the server. A hash, because some of them are secrets.
    pub(crate) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.target.hash(&mut hasher);
        self.network.hash(&mut hasher);
        hasher.finish()
    }
}

/// The keys of the document.
const KEYS: [&str; 23] = [
    "url",
    "headers",
    "server",
    "command",
    "args",
    "env",
    "inherit_env",
    "cwd",
    "restart",
    "identity",
    "client",
    "era",
    "timeouts",
    "limits",
    "tasks",
    "input",
    "extensions",
    "max_in_flight",
    "queue_limit",
    "log_level",
    "validate",
    "record",
    "replay",
];

/// Looked at before anything is missed: a mistyped `url` is named as what it is.
fn check_keys(doc: &Doc) -> Result<()> {
    let known = |key: &&str| KEYS.contains(key) || network::KEYS.contains(key);
    match doc.members.keys().map(String::as_str).find(|key| !known(key)) {
        None => Ok(()),
        Some("mcpServers") => {
            Err(Error::new(Kind::Argument, "settings.mcpServers: give one of its entries, as settings.server"))
        }
        Some(key) => {
            let key = crate::error::one_line(key);
            Err(Error::new(Kind::Argument, format!("settings.{key} is not a known key")))
        }
    }
}

/// RFC 5424 levels, as the protocol names them (`server/utilities/logging`).
const LOG_LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn read_client(doc: &mut Doc) -> Result<String> {
    let mut info = Map::new();
    info.insert("name".into(), "mcpnative".into());
    info.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    if let Some(mut client) = doc.object("client")? {
        for key in ["name", "version", "title"] {
            if let Some(text) = client.text(key)? {
                info.insert(key.into(), text.into());
            }
        }
        client.finish()?;
    }
    Ok(Value::Object(info).to_string())
}

fn read_era(doc: &mut Doc) -> Result<EraChoice> {
    match doc.word("era", &["auto", "modern", "legacy"])? {
        None | Some("auto") => Ok(EraChoice::Auto),
        Some("modern") => Ok(EraChoice::Modern),
        Some(_) => Ok(EraChoice::Legacy),
    }
}

fn read_timeouts(doc: &mut Doc) -> Result<Timeouts> {
    let mut part = doc.object("timeouts")?.unwrap_or_else(|| Doc::empty("settings.timeouts"));
    let timeouts = Timeouts {
        connect: part.limit("connect_ms", 15_000)?,
        probe: part.limit("probe_ms", 10_000)?,
        idle: part.limit("idle_ms", 60_000)?,
        total: part.limit("total_ms", 300_000)?,
        close: part.limit("close_ms", 2_000)?,
    };
    part.finish()?;
    Ok(timeouts)
}

fn read_limits(doc: &mut Doc) -> Result<Limits> {
    let mut limits = Limits::default();
    if let Some(mut part) = doc.object("limits")? {
        const MOST: u64 = 1 << 40;
        for (key, slot, least) in [
            ("message_bytes", &mut limits.message_bytes, 1024),
            ("sse_event_bytes", &mut limits.sse_event_bytes, 1024),
            ("stdio_line_bytes", &mut limits.stdio_line_bytes, 1024),
            ("header_bytes", &mut limits.header_bytes, 1024),
            ("pages", &mut limits.pages, 1),
            ("nesting", &mut limits.nesting, 8),
            ("input_rounds", &mut limits.input_rounds, 0),
            ("input_requests", &mut limits.input_requests, 1),
            ("cache_entries", &mut limits.cache_entries, 0),
            ("cache_bytes", &mut limits.cache_bytes, 0),
        ] {
            if let Some(value) = part.count(key, least, MOST)? {
                *slot = value;
            }
        }
        part.finish()?;
    }
    Ok(limits)
}

fn read_tasks(doc: &mut Doc) -> Result<TaskSettings> {
    let mut part = doc.object("tasks")?.unwrap_or_else(|| Doc::empty("settings.tasks"));
    let tasks = TaskSettings {
        enabled: part.flag("enabled")?.unwrap_or(true),
        auto_poll: part.flag("auto_poll")?.unwrap_or(true),
        push: part.flag("push")?.unwrap_or(true),
        min_poll: Duration::from_millis(part.count("min_poll_ms", 0, 86_400_000)?.unwrap_or(0) as u64),
        stop_at_ttl: part.word("ttl", &["follow", "stop"])? == Some("stop"),
        follow_cancel: part.word("cancel", &["follow", "let_go"])? != Some("let_go"),
        keep: part.count("keep_ms", 1, MOST_KEEP_MS)?.map(|ms| Duration::from_millis(ms as u64)),
        cancel_refused: part.word("refused", &["cancel", "wait"])? != Some("wait"),
        ledger: read_ledger(&mut part)?,
    };
    part.finish()?;
    Ok(tasks)
}

fn read_input(doc: &mut Doc) -> Result<[Option<InputPolicy>; 3]> {
    let mut part = doc.object("input")?.unwrap_or_else(|| Doc::empty("settings.input"));
    let mut out = [None; 3];
    for (slot, key) in out.iter_mut().zip(["elicitation", "sampling", "roots"]) {
        *slot = part.word(key, &["handler", "manual", "refuse"])?.map(|word| match word {
            "handler" => InputPolicy::Handler,
            "manual" => InputPolicy::Manual,
            _ => InputPolicy::Refuse,
        });
    }
    part.finish()?;
    Ok(out)
}

fn read_extensions(doc: &mut Doc) -> Result<Vec<(String, String)>> {
    let Some(part) = doc.object("extensions")? else {
        return Ok(Vec::new());
    };
    part.members
        .into_iter()
        .map(|(name, settings)| {
            if name == crate::protocol::task::EXTENSION {
                let message = format!("settings.extensions.{name}: use settings.tasks.enabled");
                return Err(Error::new(Kind::Argument, message));
            }
            // `basic/versioning`, "Extension Negotiation": a mandatory prefix.
            if !name.contains('/') {
                let message =
                    format!("settings.extensions.{name}: expected a name with a prefix, as in com.example/name");
                return Err(Error::new(Kind::Argument, message));
            }
            if !settings.is_object() {
                return Err(Error::new(Kind::Argument, format!("settings.extensions.{name}: expected an object")));
            }
            Ok((name, settings.to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document, and what is said of it.
    const WRONG: &[(&str, &str)] = &[
        ("nope", "settings are not valid JSON: expected ident at line 1 column 2"),
        ("[]", "settings: expected an object but found an array"),
        ("{}", "settings.url is missing (or command, or server)"),
        (r#"{"url":7}"#, "settings.url: expected a string but found a number"),
        (r#"{"url":"u","colour":1}"#, "settings.colour is not a known key"),
        (r#"{"urll":"u"}"#, "settings.urll is not a known key"),
        (r#"{"mcpServers":{}}"#, "settings.mcpServers: give one of its entries, as settings.server"),
        (
            r#"{"url":"u","tasks":{"enabled":"yes"}}"#,
            "settings.tasks.enabled: expected true or false but found a string",
        ),
        (r#"{"url":"u","validate":"x"}"#, "settings.validate: expected one of error, warn, off but found x"),
        (r#"{"url":"u","validate":true}"#, "settings.validate: expected a string but found a boolean"),
        (
            r#"{"url":"u","tasks":{"keep_ms":-1}}"#,
            "settings.tasks.keep_ms: expected a whole number from 1 to 315360000000 but found -1",
        ),
        (
            r#"{"url":"u","tasks":{"ledger":"tasks.db"}}"#,
            "settings.tasks.ledger: expected an object but found a string",
        ),
        (
            r#"{"url":"u","tasks":{"ledger":{"file":7}}}"#,
            "settings.tasks.ledger.file: expected a string but found a number",
        ),
        (r#"{"url":"u","tasks":{"ledger":{"file":""}}}"#, "settings.tasks.ledger.file: expected a path"),
        (r#"{"url":"u","tasks":{"ledger":{"path":"x"}}}"#, "settings.tasks.ledger.path is not a known key"),
        (
            r#"{"url":"u","tasks":{"ledger":{"lease_ms":1}}}"#,
            "settings.tasks.ledger.lease_ms: expected a whole number from 300 to 315360000000 but found 1",
        ),
        (
            r#"{"url":"u","tasks":{"ledger":{"keep_ended":-1}}}"#,
            "settings.tasks.ledger.keep_ended: expected a whole number from 0 to 10000000 but found -1",
        ),
        (
            r#"{"url":"u","tasks":{"ledger":{"keep_results":1}}}"#,
            "settings.tasks.ledger.keep_results: expected true or false but found 1",
        ),
        (r#"{"url":"u","identity":3}"#, "settings.identity: expected a string but found a number"),
        (r#"{"url":"u","identity":""}"#, "settings.identity: expected a name that is not empty"),
        (r#"{"url":"u","tasks":{"ttl":"x"}}"#, "settings.tasks.ttl: expected one of follow, stop but found x"),
        (
            r#"{"url":"u","timeouts":{"idle_ms":0}}"#,
            "settings.timeouts.idle_ms: expected a number of milliseconds above 0, or -1 for no limit but found 0",
        ),
        (
            r#"{"url":"u","limits":{"pages":0}}"#,
            "settings.limits.pages: expected a whole number from 1 to 1099511627776 but found 0",
        ),
        (r#"{"url":"u","headers":{"X":1}}"#, "settings.headers.X: expected a string but found a number"),
        (r#"{"url":"u","server":{"url":"v"}}"#, "settings.url and settings.server exclude each other"),
        (r#"{"url":"u","era":"old"}"#, "settings.era: expected one of auto, modern, legacy but found old"),
        (
            r#"{"url":"u","extensions":{"x":{}}}"#,
            "settings.extensions.x: expected a name with a prefix, as in com.example/name",
        ),
        (
            r#"{"url":"u","log_level":"loud"}"#,
            "settings.log_level: expected one of debug, info, notice, warning, error, critical, alert, emergency but found loud",
        ),
    ];

    #[test]
    fn what_is_wrong_is_named() {
        for (text, want) in WRONG {
            assert_eq!(Settings::read(text).unwrap_err().message(), *want, "{text}");
        }
    }

    #[test]
    fn a_foreign_hosts_entry_is_read_and_its_extras_only_warn() {
        let text = r#"{"server":{"type":"http","url":"http://h/mcp","headers":{"A":"b"},"disabled":false}}"#;
        let settings = Settings::read(text).unwrap();
        let headers = vec![("A".to_owned(), "b".to_owned())];
        assert_eq!(settings.target, Target::Http { url: "http://h/mcp".into(), headers });
        assert_eq!(settings.warnings, ["settings.server.disabled is not known and was passed over"]);
    }

    #[test]
    fn defaults_and_no_limit() {
        let settings = Settings::read(r#"{"url":"u","timeouts":{"total_ms":-1}}"#).unwrap();
        assert_eq!(settings.timeouts.total, None);
        assert_eq!(settings.timeouts.connect, Some(Duration::from_secs(15)));
        assert!(settings.tasks.enabled && settings.tasks.auto_poll && !settings.tasks.stop_at_ttl);
        assert_eq!(settings.max_in_flight, 256);
    }
}
