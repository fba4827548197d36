//! What a redirection does: followed where the same message may go to the same origin, told otherwise. Pure.
//!
//! A redirection is a refusal, so nothing has run at the place that it came from (RFC 9110, 15.4). 307 and 308 keep
//! method and body. After 301, 302 and 303 a POST would become a GET without the message, so it goes no further.
//! Another origin never gets the message, nor the credentials that are in its headers.

use super::settings::{Endpoint, Verb};
use crate::error::one_line;

/// Redirections in a row; chosen: more are a loop.
pub(super) const MOST: usize = 5;

/// What follows from a redirection.
#[derive(Debug)]
pub(super) enum Step {
    /// The same again, there.
    Go(Box<Endpoint>),
    /// Why it is not followed, as a clause.
    Stay(String),
}

/// Whether an answer with this status leads elsewhere.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Judges a redirection of a request to `from`; `done` were followed before it.
pub(super) fn judge(from: &Endpoint, verb: Verb, status: u16, location: Option<&str>, done: usize) -> Step {
    let Some(location) = location else {
        return Step::Stay("the server redirects without saying where".to_owned());
    };
    let place = shown(location);
    let stay = |why: &str| Step::Stay(format!("the server redirects to {place}, {why}"));
    match (status, verb) {
        (307 | 308, _) | (_, Verb::Get) => {}
        (_, Verb::Post | Verb::Delete) => {
            return stay("which would lose the message on the way; if that is the endpoint, give it as url");
        }
    }
    if !from.follows() {
        return stay("and settings.redirects is \"none\"");
    }
    let Some(to) = from.at(location) else {
        return stay(
            "another origin, which gets no message and no credentials; if that is the endpoint, give it as url",
        );
    };
    if done >= MOST {
        return stay("after 5 redirects in a row");
    }
    Step::Go(Box::new(to))
}

/// A place as it may be shown: without user, query and fragment.
fn shown(location: &str) -> String {
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let place = &location[..end];
    let place = match place.split_once("//") {
        Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => {
            let slash = rest.find('/').unwrap_or(rest.len());
            let host = rest[..slash].rsplit('@').next().unwrap_or_default();
            format!("{scheme}//{host}{}", &rest[slash..])
        }
        Some(_) | None => place.to_owned(),
    };
    one_line(&place)
}

#[cfg(test)]
mod tests {
    use super::super::settings::HttpSettings;
    use super::*;

    fn from(follow: bool) -> Endpoint {
        let settings = HttpSettings { follow, ..HttpSettings::plain("http://h.test:81/mcp") };
        Endpoint::new(&settings).unwrap().0
    }

    #[test]
    fn what_a_redirection_does() {
        let (post, get, delete) = (Verb::Post, Verb::Get, Verb::Delete);
        let lost = "would lose the message";
        let other = "another origin";
        let rows = [
            (post, 307, "/mcp/", Ok("http://h.test:81/mcp/")),
            (post, 308, "http://h.test:81/v2?x=1", Ok("http://h.test:81/v2?x=1")),
            (post, 308, "HTTP://H.TEST:81/v2", Ok("http://h.test:81/v2")),
            (post, 307, "mcp/", Ok("http://h.test:81/mcp/")),
            (post, 301, "/mcp/", Err(lost)),
            (post, 302, "/login", Err(lost)),
            (post, 303, "/mcp/", Err(lost)),
            (delete, 302, "/mcp/", Err(lost)),
            (delete, 308, "/mcp/", Ok("http://h.test:81/mcp/")),
            (get, 301, "/mcp/", Ok("http://h.test:81/mcp/")),
            (get, 303, "/mcp/", Ok("http://h.test:81/mcp/")),
            (post, 307, "https://h.test:81/mcp", Err(other)),
            (post, 307, "http://h.test:82/mcp", Err(other)),
            (post, 307, "http://h.test/mcp", Err(other)),
            (post, 307, "http://evil.test/mcp", Err(other)),
            (post, 307, "//evil.test/mcp", Err(other)),
            (post, 307, "http://u:p@h.test:81/mcp", Err(other)),
            (get, 302, "http://evil.test/", Err(other)),
            (post, 307, "/a b", Err(other)),
        ];
        for (verb, status, location, want) in rows {
            match (judge(&from(true), verb, status, Some(location), 0), want) {
                (Step::Go(to), Ok(want)) => assert_eq!(to.uri().to_string(), want),
                (Step::Stay(why), Err(want)) => assert!(why.contains(want), "{status} {location}: {why}"),
                (step, want) => panic!("{status} {location}: {step:?} and not {want:?}"),
            }
        }
    }

    #[test]
    fn limits_of_following() {
        let stay = |step: Step| match step {
            Step::Stay(why) => why,
            Step::Go(to) => panic!("{to:?}"),
        };
        assert!(matches!(judge(&from(true), Verb::Post, 307, Some("/a"), MOST - 1), Step::Go(_)));
        assert!(stay(judge(&from(true), Verb::Post, 307, Some("/a"), MOST)).contains("5 redirects in a row"));
        assert!(stay(judge(&from(false), Verb::Post, 307, Some("/a"), 0)).contains("settings.redirects"));
        assert!(stay(judge(&from(true), Verb::Post, 307, None, 0)).contains("without saying where"));
    }

    #[test]
    fn a_place_is_shown_without_what_may_be_secret() {
        for (location, want) in [
            ("https://u:canary@h.test:1/a/b?token=canary#canary", "https://h.test:1/a/b"),
            ("//u:canary@h.test", "//h.test"),
            ("/a?canary", "/a"),
            ("?canary", ""),
            ("/a//b@c", "/a//b@c"),
            ("/a\r\nb", "/a  b"),
        ] {
            assert_eq!(shown(location), want, "{location}");
        }
    }
}
