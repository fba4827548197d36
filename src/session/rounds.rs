//! Input rounds (`basic/patterns/mrtr`): what the retry of a request carries beside its own parameters.

use crate::protocol::input::{InputAnswer, is_accepted, write_responses};
use crate::protocol::json::quote;

/// The additions of a retry; empty for the first try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    members: String,
    refused: bool,
}

impl Retry {
    /// The retry that answers a round. `state` is the server's `requestState` as JSON text and goes back byte for
    /// byte; where the server sent none, none is sent.
    pub(crate) fn new(answers: &[InputAnswer], state: Option<&str>) -> Self {
        let mut members = String::new();
        if !answers.is_empty() {
            members.push_str(&format!("{}:{},", quote("inputResponses"), write_responses(answers)));
        }
        if let Some(state) = state {
            members.push_str(&format!("{}:{state},", quote("requestState")));
        }
        Self { members, refused: answers.iter().any(|answer| !is_accepted(&answer.response)) }
    }

    /// Whether nothing was declined: a legacy request that needs a visit to a URL is only sent again then.
    pub(super) fn is_accepted(&self) -> bool {
        !self.refused
    }

    /// Whether it is no retry at all.
    pub(super) fn is_first(&self) -> bool {
        self.members.is_empty() && !self.refused
    }

    pub(super) fn members(&self) -> &str {
        &self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::Json;

    #[test]
    fn state_goes_back_byte_for_byte_and_only_where_it_came() {
        let answer = InputAnswer { key: "k".into(), response: Json::trusted(r#"{"action":"decline"}"#) };
        assert_eq!(
            Retry::new(std::slice::from_ref(&answer), Some(r#""a\u0020b""#)).members(),
            r#""inputResponses":{"k":{"action":"decline"}},"requestState":"a\u0020b","#
        );
        assert!(!Retry::new(std::slice::from_ref(&answer), None).is_accepted());
        assert_eq!(Retry::new(&[answer], None).members(), r#""inputResponses":{"k":{"action":"decline"}},"#);
        assert_eq!(Retry::default().members(), "");
        assert!(Retry::default().is_first() && !Retry::new(&[], Some("\"s\"")).is_first());
        assert!(Retry::default().is_accepted());
    }
}
