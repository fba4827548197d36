//! The opening: asks until the classifier has a verdict, and makes the session of that era.

use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::clock::Budget;
use crate::error::{Error, Kind, Result, one_line};
use crate::protocol::capability::{Discovered, ServerFacts, read_discovered};
use crate::protocol::version::{Era, LEGACY, MODERN};
use crate::session::era::{Evidence, LegacyStep, ProbeStep, Verdict, Why, classify, evidence_of};
use crate::session::handshake::{Greeting, facts};
use crate::session::known::Known;
use crate::session::legacy::Legacy;
use crate::session::modern::{Modern, no_version};
use crate::session::remembered::Remembered;
use crate::session::request::Notes;
use crate::session::settings::{EraChoice, Means, SessionSettings};
use crate::session::speaker::Speaker;
use crate::transport::Transport;

/// What a step brought.
enum Stage {
    Found(Arc<Modern>, Discovered),
    Greeted(Arc<Legacy>, Greeting),
    Streaming(Arc<dyn Transport>),
}

/// What a step brought and what it tells.
struct Step {
    seen: Evidence,
    stage: Result<Stage>,
}

impl Step {
    fn failed(error: Error) -> Self {
        Self { seen: evidence_of(&error), stage: Err(error) }
    }
}

/// One opening.
pub(super) struct Opening<'a> {
    /// What the legacy steps speak over: HTTP+SSE once its stream is open.
    transport: Arc<dyn Transport>,
    settings: &'a SessionSettings,
    means: &'a Means,
    known: &'a Arc<Known>,
    cancel: &'a CancelToken,
    old_stream: bool,
}

/// How the first questions failed: later ones are only asked because of it.
#[derive(Default)]
struct Told {
    discover: Option<Error>,
    initialize: Option<Error>,
}

impl Told {
    fn note(&mut self, step: ProbeStep, error: Option<&Error>) {
        let slot = match step {
            ProbeStep::Discover => &mut self.discover,
            ProbeStep::Initialize => &mut self.initialize,
            ProbeStep::OldStream => return,
        };
        if slot.is_none() {
            *slot = error.cloned();
        }
    }
}

type Opened = (Arc<dyn Speaker>, ServerFacts);

impl<'a> Opening<'a> {
    pub(super) fn new(
        transport: &Arc<dyn Transport>,
        settings: &'a SessionSettings,
        means: &'a Means,
        known: &'a Arc<Known>,
        cancel: &'a CancelToken,
    ) -> Self {
        Self { transport: transport.clone(), settings, means, known, cancel, old_stream: false }
    }

    /// Asks step by step; no step comes twice, but `initialize` once more over HTTP+SSE.
    pub(super) fn run(&mut self, notes: &mut dyn Notes) -> Result<Opened> {
        let remembered = self.remembered();
        let mut step = self.first(remembered);
        let (mut asked, mut told) = (Vec::new(), Told::default());
        loop {
            asked.push((step, self.old_stream));
            let Step { seen, stage } = self.take(step, notes);
            told.note(step, stage.as_ref().err());
            let verdict = classify(self.transport.link(), step, &seen);
            let next = match (verdict, stage) {
                (Verdict::Modern(version), Ok(Stage::Found(modern, found))) => {
                    self.means.verdicts.remember(self.settings.key, Remembered::Modern);
                    return Ok((modern, modern_facts(version, found)));
                }
                (Verdict::Legacy(LegacyStep::Settled(version)), Ok(Stage::Greeted(legacy, greeting))) => {
                    return self.settle(&legacy, greeting, version, notes);
                }
                (Verdict::Legacy(LegacyStep::Initialize), Ok(Stage::Streaming(transport))) => {
                    self.transport = transport;
                    self.old_stream = true;
                    Ok(ProbeStep::Initialize)
                }
                (verdict, stage) => {
                    if let Ok(Stage::Greeted(legacy, greeting)) = &stage {
                        legacy.dismiss(greeting);
                    }
                    self.turn(verdict, &seen, stage)
                }
            };
            let outdated = || remembered.is_some() && !asked.iter().any(|(step, _)| *step == ProbeStep::Discover);
            step = match next {
                Ok(next) if !asked.contains(&(next, self.old_stream)) => next,
                // The answers contradict each other: the first one is told.
                Ok(_) => return Err(told.discover.unwrap_or_else(|| strangers(&seen))),
                // What was remembered does not hold any more: asked anew (`basic/versioning`).
                Err(_) if !matches!(verdict, Verdict::NoEvidence(_)) && outdated() => {
                    self.means.verdicts.forget(self.settings.key);
                    ProbeStep::Discover
                }
                // HTTP+SSE was a last try: what `initialize` was answered says more.
                Err(error) if step == ProbeStep::OldStream && matches!(verdict, Verdict::Refused(_)) => {
                    return Err(told.initialize.unwrap_or(error));
                }
                Err(error) => return Err(error),
            };
        }
    }

    fn remembered(&self) -> Option<Remembered> {
        match self.settings.era {
            EraChoice::Auto => self.means.verdicts.of(self.settings.key),
            EraChoice::Modern | EraChoice::Legacy => None,
        }
    }

    fn first(&self, remembered: Option<Remembered>) -> ProbeStep {
        match (self.settings.era, remembered) {
            (EraChoice::Legacy, _) | (EraChoice::Auto, Some(Remembered::Legacy)) => ProbeStep::Initialize,
            (EraChoice::Auto, Some(Remembered::OldStream)) => ProbeStep::OldStream,
            (EraChoice::Modern, _) | (EraChoice::Auto, Some(Remembered::Modern) | None) => ProbeStep::Discover,
        }
    }

    /// The next step after an answer that does not settle it, or the error that ends the opening.
    fn turn(&self, verdict: Verdict, seen: &Evidence, stage: Result<Stage>) -> Result<ProbeStep> {
        let error = || match &stage {
            Err(error) => error.clone(),
            Ok(_) => strangers(seen),
        };
        match (verdict, self.settings.era) {
            (Verdict::Legacy(LegacyStep::Initialize), EraChoice::Auto | EraChoice::Legacy) => Ok(ProbeStep::Initialize),
            (Verdict::Legacy(LegacyStep::OldStream), EraChoice::Auto | EraChoice::Legacy) if !self.old_stream => {
                Ok(ProbeStep::OldStream)
            }
            (Verdict::Ask(step), EraChoice::Auto) => Ok(step),
            (Verdict::Legacy(_), EraChoice::Modern) => Err(wrong_era(error(), "legacy", "modern")),
            (Verdict::Ask(_), EraChoice::Legacy | EraChoice::Modern) => Err(wrong_era(error(), "modern", "legacy")),
            (Verdict::Refused(Why::Version), _) => Err(error().with_kind(Kind::Version)),
            // A modern server's own error, and what is no evidence, are reported as they are.
            (
                Verdict::Modern(_) | Verdict::Legacy(_) | Verdict::NoEvidence(_) | Verdict::Refused(_),
                EraChoice::Auto | EraChoice::Modern | EraChoice::Legacy,
            ) => Err(error()),
        }
    }

    fn take(&self, step: ProbeStep, notes: &mut dyn Notes) -> Step {
        match step {
            ProbeStep::Discover => self.discover(notes),
            ProbeStep::Initialize => self.initialize(notes),
            ProbeStep::OldStream => self.open_stream(),
        }
    }

    fn discover(&self, notes: &mut dyn Notes) -> Step {
        let modern = Arc::new(Modern::new(self.transport.clone(), self.settings, self.known.clone()));
        let patience = &self.settings.patience;
        let scope = patience.scope(self.cancel, &*self.means.clock, patience.probe, Budget::Probe);
        let result = match modern.discover(&scope, notes) {
            Ok(result) => result,
            Err(error) => return Step::failed(error),
        };
        match read_discovered(&result) {
            Ok(found) => {
                Step { seen: Evidence::Discovered(found.versions.clone()), stage: Ok(Stage::Found(modern, found)) }
            }
            // A server that answers anything with something: no modern one.
            Err(error) => Step { seen: Evidence::Strange, stage: Err(error) },
        }
    }

    fn initialize(&self, notes: &mut dyn Notes) -> Step {
        let legacy = Legacy::new(self.transport.clone(), self.settings, self.means, self.known.clone());
        let patience = &self.settings.patience;
        let scope = patience.scope(self.cancel, &*self.means.clock, patience.total, Budget::Total);
        match legacy.greet(&scope, notes) {
            Ok(greeting) => {
                let seen = Evidence::Initialized(greeting.said.version.clone());
                Step { seen, stage: Ok(Stage::Greeted(legacy, greeting)) }
            }
            Err(error) => Step::failed(error),
        }
    }

    fn open_stream(&self) -> Step {
        let patience = &self.settings.patience;
        let scope = patience.scope(self.cancel, &*self.means.clock, patience.probe, Budget::Probe);
        match self.transport.clone().old_stream(&self.means.threads, &scope) {
            Ok(transport) => Step { seen: Evidence::Endpoint, stage: Ok(Stage::Streaming(transport)) },
            Err(fault) => Step::failed(super::verdict::judge("initialize", fault, &self.settings.limits).error),
        }
    }

    fn settle(
        &self,
        legacy: &Arc<Legacy>,
        greeting: Greeting,
        version: &'static str,
        notes: &mut dyn Notes,
    ) -> Result<Opened> {
        let patience = &self.settings.patience;
        let scope = patience.scope(self.cancel, &*self.means.clock, patience.total, Budget::Total);
        let said = legacy.settle(greeting, version, &scope, notes)?;
        let what = if self.old_stream { Remembered::OldStream } else { Remembered::Legacy };
        self.means.verdicts.remember(self.settings.key, what);
        Ok((legacy.clone(), facts(said, version)))
    }
}

fn modern_facts(version: &str, found: Discovered) -> ServerFacts {
    ServerFacts {
        era: Era::Modern,
        version: version.to_owned(),
        info: found.info,
        instructions: found.instructions,
        capabilities: found.capabilities,
    }
}

/// The error of an answer that names only versions of strangers.
fn strangers(seen: &Evidence) -> Error {
    match seen {
        Evidence::Discovered(versions) => no_version(versions),
        Evidence::Initialized(version) => unknown_version(version),
        Evidence::Endpoint
        | Evidence::Rpc { .. }
        | Evidence::Http { .. }
        | Evidence::Strange
        | Evidence::Silence
        | Evidence::ChildGone
        | Evidence::NetFault => Error::new(Kind::Internal, "an answer without its error"),
    }
}

/// The error of an `initialize` that was answered with a version of strangers.
pub(super) fn unknown_version(version: &str) -> Error {
    let (found, ours) = (one_line(version), LEGACY.join(", "));
    Error::new(Kind::Version, format!("expected a server of revision {ours} but found version: {found}"))
}

/// The server speaks the other era than the one that the settings allow.
fn wrong_era(error: Error, theirs: &str, ours: &str) -> Error {
    let known = if ours == "modern" { MODERN.to_owned() } else { LEGACY.join(", ") };
    let message = format!(
        "the server speaks the {theirs} era, and settings.era allows only {ours} ({known}): {}",
        error.message()
    );
    let mut wrong = Error::new(Kind::Version, message);
    if let Some(fault) = error.rpc() {
        wrong = wrong.with_rpc(fault.clone());
    }
    if let Some(status) = error.http_status() {
        wrong = wrong.with_http_status(status);
    }
    wrong
}
