//! Regular expressions of schemas (ECMA-262) in an engine without backtracking: no text makes it slow.

use regex::{Regex, RegexBuilder};

/// Chosen: patterns of schemas are short; a large one is no pattern but a trap.
const MOST_BYTES: usize = 4096;
/// The compiled pattern; `a{1000}{1000}` is refused.
const MOST_COMPILED: usize = 256 << 10;
/// Up to here it is a small one.
const SMALL_COMPILED: usize = 16 << 10;

/// A pattern; what the engine does not have (looking around, references back) is not checked.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Option<Regex>,
    /// What a byte of the text costs.
    pub(super) weight: usize,
}

impl Pattern {
    /// Reads a pattern; false beside it where it cannot be checked.
    pub(super) fn read(text: &str) -> (Self, bool) {
        let text = translate(&text[..text.floor_char_boundary(MOST_BYTES + 1)]);
        let make =
            |size| RegexBuilder::new(&text).size_limit(size).dfa_size_limit(MOST_COMPILED).nest_limit(64).build().ok();
        let short = text.len() <= MOST_BYTES;
        let (regex, weight) = match make(SMALL_COMPILED).filter(|_| short) {
            Some(small) => (Some(small), 4),
            None => (make(MOST_COMPILED).filter(|_| short), 64),
        };
        let checked = regex.is_some();
        (Self { regex, weight }, checked)
    }

    /// Whether it is found in the text; `None` where nobody can tell.
    pub(super) fn is_in(&self, text: &str) -> Option<bool> {
        self.regex.as_ref().map(|regex| regex.is_match(text))
    }
}

/// ECMA-262 in the words of the engine: `\d` and `\w` are ASCII there, and a class knows no class inside.
fn translate(pattern: &str) -> String {
    let (mut out, mut in_class) = (String::with_capacity(pattern.len() + 16), false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, in_class) {
            ('\\', _) => match (chars.next(), in_class) {
                (Some('d'), false) => out.push_str("[0-9]"),
                (Some('d'), true) => out.push_str("0-9"),
                (Some('D'), false) => out.push_str("[^0-9]"),
                (Some('w'), false) => out.push_str("[A-Za-z0-9_]"),
                (Some('w'), true) => out.push_str("A-Za-z0-9_"),
                (Some('W'), false) => out.push_str("[^A-Za-z0-9_]"),
                (Some('/'), _) => out.push('/'),
                (Some(other), _) => out.extend(['\\', other]),
                (None, _) => out.push('\\'),
            },
            ('[', false) => {
                in_class = true;
                out.push('[');
            }
            (']', true) => {
                in_class = false;
                out.push(']');
            }
            ('[' | '&' | '~', true) => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_ecma_script() {
        for (pattern, text, want) in [
            ("^a", "ba", Some(false)),
            ("b", "abc", Some(true)),
            (r"^\d+$", "12", Some(true)),
            (r"^\d+$", "१२", Some(false)),
            (r"^[\d.]+$", "1.2", Some(true)),
            (r"^\w$", "é", Some(false)),
            (r"^[[&&a]$", "&", Some(true)),
            (r"^a\/b$", "a/b", Some(true)),
            (r"^\u00e9$", "é", Some(true)),
            (r"^\p{L}+$", "éa", Some(true)),
            (r"a$", "a\n", Some(false)),
            (r"^\D\W$", "a-", Some(true)),
            ("(?=a)b", "b", None),
            (r"(a)\1", "aa", None),
            ("(", "(", None),
        ] {
            let (made, checked) = Pattern::read(pattern);
            assert_eq!((made.is_in(text), checked), (want, want.is_some()), "{pattern}");
        }
    }

    #[test]
    fn large_patterns_and_those_that_explode_are_not_checked() {
        for pattern in
            ["a".repeat(5000), "(((a{100}){100}){100}){100}".to_owned(), "(".repeat(2000) + &")".repeat(2000)]
        {
            assert!(!Pattern::read(&pattern).1);
        }
        // Backtracking engines need 2^40 steps for this.
        let (made, _) = Pattern::read("^(a|a)*$");
        assert_eq!(made.is_in(&("a".repeat(40) + "b")), Some(false));
    }
}
