//! URI templates (RFC 6570, all four levels), as `resources/templates/list` has them.

use serde_json::{Map, Value};

use crate::error::{Error, Kind, Result, one_line};

/// The longest URI that is made; chosen, far beyond what a server takes.
const LONGEST: usize = 1 << 20;

/// How an operator writes its variables (RFC 6570, appendix A).
struct Style {
    /// Before the first variable that is defined.
    first: &'static str,
    /// Between them.
    separator: &'static str,
    /// Each with its name.
    named: bool,
    /// Behind the name of an empty one.
    if_empty: &'static str,
    /// Reserved characters, and what is percent-encoded already, stay as they are.
    reserved: bool,
}

impl Style {
    /// The style of an expression, and what is left of it behind its operator.
    fn of(expression: &str) -> Result<(Self, &str)> {
        let style = |first, separator, named, if_empty, reserved| Self { first, separator, named, if_empty, reserved };
        let plain = style("", ",", false, "", false);
        let Some(operator) = expression.chars().next() else {
            return Err(wrong("an expression is empty"));
        };
        let style = match operator {
            '+' => style("", ",", false, "", true),
            '#' => style("#", ",", false, "", true),
            '.' => style(".", ".", false, "", false),
            '/' => style("/", "/", false, "", false),
            ';' => style(";", ";", true, "", false),
            '?' => style("?", "&", true, "=", false),
            '&' => style("&", "&", true, "=", false),
            '=' | ',' | '!' | '@' | '|' => {
                return Err(wrong(&format!("the operator {operator} has no meaning")));
            }
            _ => return Ok((plain, expression)),
        };
        Ok((style, &expression[1..]))
    }
}

/// A variable of an expression.
struct Variable<'a> {
    name: &'a str,
    /// Each element, or pair, on its own.
    explode: bool,
    /// So many characters of its value.
    prefix: Option<usize>,
}

impl<'a> Variable<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let (name, explode, prefix) = match (text.strip_suffix('*'), text.split_once(':')) {
            (Some(name), _) => (name, true, None),
            (None, Some((name, length))) => (name, false, Some(read_prefix(text, length)?)),
            (None, None) => (text, false, None),
        };
        // A hyphen is not in the grammar, but in the templates of real servers.
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%' | '-');
        if name.is_empty() || !name.chars().all(legal) {
            return Err(wrong(&format!("{{{text}}} is no name of a variable")));
        }
        Ok(Self { name, explode, prefix })
    }
}

fn read_prefix(variable: &str, length: &str) -> Result<usize> {
    let number = length.parse().ok().filter(|_| !length.starts_with(['0', '+']));
    let number = number.filter(|number| (1..10_000).contains(number));
    number.ok_or_else(|| wrong(&format!("{{{variable}}} has a prefix that is no number from 1 to 9999")))
}

/// A variable's value, as text.
enum Filling {
    Text(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

impl Filling {
    /// [`None`] for what counts as undefined: null, and what has no member that is not.
    fn read(name: &str, value: &Value) -> Result<Option<Self>> {
        let text = |value: &Value| scalar(name, value);
        let filling = match value {
            Value::Array(items) => {
                let texts: Vec<Option<String>> = items.iter().map(text).collect::<Result<_>>()?;
                Self::List(texts.into_iter().flatten().collect())
            }
            Value::Object(members) => {
                let pair = |(key, value): (&String, &Value)| Ok(text(value)?.map(|value| (key.clone(), value)));
                let pairs: Vec<Option<_>> = members.iter().map(pair).collect::<Result<_>>()?;
                Self::Pairs(pairs.into_iter().flatten().collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Ok(text(value)?.map(Self::Text));
            }
        };
        Ok(match &filling {
            Self::List(texts) if texts.is_empty() => None,
            Self::Pairs(pairs) if pairs.is_empty() => None,
            Self::Text(_) | Self::List(_) | Self::Pairs(_) => Some(filling),
        })
    }
}

fn scalar(name: &str, value: &Value) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::Bool(flag) => Ok(Some(flag.to_string())),
        Value::Array(_) | Value::Object(_) => {
            Err(Error::new(Kind::Argument, format!("variables.{}: an array or object within another", one_line(name))))
        }
    }
}

/// Expands a template. `variables` is the text of a JSON object: texts, numbers and booleans, arrays of them, objects
/// of them; what is absent or null is undefined.
///
/// # Errors
/// [`Kind::Argument`] for a template that is none, and for variables that have no form in it; [`Kind::TooLarge`] for a
/// URI beyond 1 MiB.
pub fn expand(template: &str, variables: &str) -> Result<String> {
    let variables: Map<String, Value> = serde_json::from_str(variables)
        .map_err(|fault| Error::new(Kind::Argument, format!("variables are not a JSON object: {fault}")))?;
    let (mut out, mut rest) = (String::new(), template);
    while let Some(at) = rest.find(['{', '}']) {
        encode(&mut out, &rest[..at], true);
        let behind = &rest[at + 1..];
        if rest[at..].starts_with('}') {
            return Err(wrong("a } has no { before it"));
        }
        let Some(end) = behind.find(['{', '}']).filter(|end| behind[*end..].starts_with('}')) else {
            return Err(wrong("a { has no } behind it"));
        };
        expand_one(&mut out, &behind[..end], &variables)?;
        rest = &behind[end + 1..];
    }
    encode(&mut out, rest, true);
    bounded(&out)?;
    Ok(out)
}

fn expand_one(out: &mut String, expression: &str, variables: &Map<String, Value>) -> Result<()> {
    let (style, list) = Style::of(expression)?;
    let mut before = style.first;
    for text in list.split(',') {
        let variable = Variable::read(text)?;
        let value = variables.get(variable.name).unwrap_or(&Value::Null);
        let Some(filling) = Filling::read(variable.name, value)? else {
            continue;
        };
        out.push_str(before);
        before = style.separator;
        write(out, &style, &variable, &filling)?;
        bounded(out)?;
    }
    Ok(())
}

fn write(out: &mut String, style: &Style, variable: &Variable<'_>, filling: &Filling) -> Result<()> {
    let name = variable.name;
    if variable.prefix.is_some() && !matches!(filling, Filling::Text(_)) {
        let message = format!("variables.{name}: the template wants a prefix of it, which only a text has");
        return Err(Error::new(Kind::Argument, message));
    }
    match filling {
        Filling::Text(text) => {
            let end = variable.prefix.and_then(|length| text.char_indices().nth(length)).map(|(at, _)| at);
            write_named(out, style, name, &text[..end.unwrap_or(text.len())]);
        }
        Filling::List(texts) if variable.explode => join(out, style.separator, texts, |out, text| {
            write_named(out, style, name, text);
        }),
        Filling::Pairs(pairs) if variable.explode => join(out, style.separator, pairs, |out, (key, value)| {
            encode(out, key, style.reserved);
            out.push_str(if value.is_empty() && style.named { style.if_empty } else { "=" });
            encode(out, value, style.reserved);
        }),
        Filling::List(texts) => {
            write_name(out, style, name);
            join(out, ",", texts, |out, text| encode(out, text, style.reserved));
        }
        Filling::Pairs(pairs) => {
            write_name(out, style, name);
            join(out, ",", pairs, |out, (key, value)| {
                encode(out, key, style.reserved);
                out.push(',');
                encode(out, value, style.reserved);
            });
        }
    }
    Ok(())
}

fn write_name(out: &mut String, style: &Style, name: &str) {
    if style.named {
        encode(out, name, true);
        out.push('=');
    }
}

fn write_named(out: &mut String, style: &Style, name: &str, text: &str) {
    if style.named && text.is_empty() {
        encode(out, name, true);
        return out.push_str(style.if_empty);
    }
    write_name(out, style, name);
    encode(out, text, style.reserved);
}

fn join<T>(out: &mut String, separator: &str, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        write(out, item);
    }
}

/// Writes a text; what a URI cannot have is percent-encoded. With `reserved`, what is reserved or encoded already
/// stays.
fn encode(out: &mut String, text: &str, reserved: bool) {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().copied().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let stays = reserved && (b":/?#[]@!$&'()*+,;=".contains(&byte) || byte == b'%' && is_encoded(&bytes[at..]));
        if plain || stays {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn is_encoded(bytes: &[u8]) -> bool {
    bytes.len() >= 3 && bytes[1..3].iter().all(u8::is_ascii_hexdigit)
}

fn bounded(out: &str) -> Result<()> {
    if out.len() <= LONGEST {
        return Ok(());
    }
    Err(Error::new(Kind::TooLarge, format!("the URI is over the limit of {LONGEST} bytes")))
}

fn wrong(what: &str) -> Error {
    Error::new(Kind::Argument, format!("the URI template is not one of RFC 6570: {}", one_line(what)))
}

#[cfg(test)]
mod tests;
