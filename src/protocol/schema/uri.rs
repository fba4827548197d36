//! URI references as they stand in `$id` and `$ref` (RFC 3986, section 5.2). Names only: nothing is ever fetched.

/// A reference and its fragment.
pub(super) fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// A reference without fragment, resolved against a base.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() || scheme_end(reference).is_some() {
        return if reference.is_empty() { base.to_owned() } else { reference.to_owned() };
    }
    let scheme = &base[..scheme_end(base).unwrap_or(0)];
    if reference.starts_with("//") {
        return format!("{scheme}{reference}");
    }
    let rest = &base[scheme.len()..];
    let authority_end = rest.strip_prefix("//").map_or(0, |after| 2 + after.find(['/', '?']).unwrap_or(after.len()));
    let (authority, path) = rest.split_at(authority_end);
    let path = path.split('?').next().unwrap_or_default();
    if reference.starts_with('?') {
        return format!("{scheme}{authority}{path}{reference}");
    }
    let (wanted, query) = reference.find('?').map_or((reference, ""), |at| reference.split_at(at));
    let merged = match path.rfind('/') {
        _ if wanted.starts_with('/') => wanted.to_owned(),
        Some(at) => format!("{}{wanted}", &path[..=at]),
        None if authority.is_empty() => wanted.to_owned(),
        None => format!("/{wanted}"),
    };
    format!("{scheme}{authority}{}{query}", without_dots(&merged))
}

/// Behind the colon of a scheme.
fn scheme_end(text: &str) -> Option<usize> {
    let at = text.find(':')?;
    let scheme = &text.as_bytes()[..at];
    let is_one = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_one.then_some(at + 1)
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." && kept.last().is_some_and(|last| !last.is_empty()) {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}

/// A fragment without its percent signs; `None` where they make no text.
pub(super) fn decode(fragment: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::with_capacity(fragment.len()), fragment.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?].map(|digit| char::from(digit).to_digit(16));
        out.push(u8::try_from(digits[0]? * 16 + digits[1]?).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        for (base, reference, want) in [
            ("http://h/a/b", "c", "http://h/a/c"),
            ("http://h/a/b", "/c", "http://h/c"),
            ("http://h/a/b", "../c/./d", "http://h/c/d"),
            ("http://h/a/b?q", "", "http://h/a/b?q"),
            ("http://h", "c", "http://h/c"),
            ("http://h/a", "//i/b", "http://i/b"),
            ("http://h/a", "?x", "http://h/a?x"),
            ("http://h/a", "urn:x:y", "urn:x:y"),
            ("", "c.json", "c.json"),
            ("d/c.json", "e.json?q", "d/e.json?q"),
            ("http://h/a/b/", "..", "http://h/a/"),
        ] {
            assert_eq!(resolve(base, reference), want, "{base} {reference}");
        }
        assert_eq!(split("a#b#c"), ("a", "b#c"));
        assert_eq!(decode("a%25b%C3%A9").as_deref(), Some("a%bé"));
        assert_eq!(decode("%e"), None);
    }
}
