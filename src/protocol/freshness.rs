//! How long a result may be kept (`server/utilities/caching`).

use std::time::Duration;

use crate::protocol::json::{Json, whole_number};

/// No result is fresh for longer; chosen, because what is meant by more than a year is "for ever".
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How long a result is fresh from its receipt on. Zero where the server does not say, and for what makes no sense.
///
/// `cacheScope` is not read: it tells who may share a kept answer, and one client is one user.
#[must_use]
pub fn time_to_live(result: &Json) -> Duration {
    let Ok(members) = result.members() else {
        return Duration::ZERO;
    };
    let told = members.some("ttlMs").and_then(whole_number);
    let ms = told.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
    Duration::from_millis(ms).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_above_zero_is_a_time_to_live() {
        for (text, ms) in [
            (r#"{"ttlMs":5000}"#, 5_000),
            (r#"{"ttlMs":5000,"cacheScope":"public"}"#, 5_000),
            (r#"{"ttlMs":5000,"cacheScope":7}"#, 5_000),
            (r#"{"ttlMs":2.5e3}"#, 2_500),
            (r#"{"ttlMs":9007199254740993}"#, LONGEST.as_millis()),
            (r#"{"ttlMs":1e300}"#, 0),
            (r#"{"ttlMs":0}"#, 0),
            (r#"{"ttlMs":-1}"#, 0),
            (r#"{"ttlMs":0.9}"#, 0),
            (r#"{"ttlMs":"5000"}"#, 0),
            (r#"{"ttlMs":true}"#, 0),
            (r#"{"ttlMs":null}"#, 0),
            (r#"{"ttlMs":[5000]}"#, 0),
            ("{}", 0),
        ] {
            assert_eq!(time_to_live(&Json::parse(text).unwrap()).as_millis(), ms, "{text}");
        }
    }
}
