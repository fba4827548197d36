//! Takes valid JSON apart by looking for where its values end: a second parse of what was parsed once, for a fraction
//! of its cost. What is not valid gives no panic, and parts that may make no sense.

use memchr::memchr2;

/// A place in a text.
pub(super) struct Splitter<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Splitter<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is no white space; not taken.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes this byte, where it is the next one.
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Takes a value whole.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let (start, bytes) = (self.at, self.text.as_bytes());
        self.at = match first {
            b'"' => after_string(bytes, start + 1),
            b'{' | b'[' => after_brackets(bytes, start),
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                bytes[start..].iter().position(ends).map_or(bytes.len(), |length| start + length)
            }
        };
        self.text.get(start..self.at).filter(|value| !value.is_empty())
    }
}

/// Where the string that begins before `at` has ended.
pub(super) fn after_string(text: &[u8], mut at: usize) -> usize {
    loop {
        // Most strings are short, and then the call of a vector search costs more than the search.
        let near = text.len().min(at + SHORT);
        while at < near {
            match text[at] {
                b'"' => return at + 1,
                // What is escaped ends nothing.
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        match text.get(at..).and_then(|far| memchr2(b'"', b'\\', far)) {
            None => return text.len(),
            Some(stop) if text[at + stop] == b'"' => return at + stop + 1,
            Some(stop) => at += stop + 2,
        }
    }
}

/// The length up to which a byte by byte search is the faster one; measured roughly.
const SHORT: usize = 16;

/// Where the array or object that begins at `at` has ended.
fn after_brackets(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = after_string(text, at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        for value in [
            "0",
            "-1.5e+7",
            "true",
            "null",
            r#""""#,
            r#""a]}, \" \\""#,
            "[]",
            "{}",
            r#"[1,{"a":"]"},[[]]]"#,
            r#"{ "a\"}" : [ "}" ] }"#,
            r#""世界""#,
        ] {
            for (before, after) in [("", ""), (" \n", " "), ("", ","), ("\t", "}"), ("", " ]")] {
                let text = format!("{before}{value}{after}");
                let mut splitter = Splitter::new(&text);
                assert_eq!(splitter.value(), Some(value), "{text:?}");
                assert_eq!(splitter.peek(), after.trim().bytes().next(), "{text:?}");
            }
        }
    }

    #[test]
    fn what_is_cut_or_no_json_makes_no_panic() {
        let whole = r#"{"a":["b\"世",{"c":1.5}],"d":null}"#;
        for end in (0..=whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            for start in (0..=end).filter(|start| whole.is_char_boundary(*start)) {
                let mut splitter = Splitter::new(&whole[start..end]);
                while splitter.value().is_some() || splitter.take(b',').is_some() || splitter.take(b':').is_some() {}
            }
        }
    }
}
