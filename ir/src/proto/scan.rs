//! A cursor over the text of one attribute value, for values that the text reader keeps verbatim.

use crate::text::skip_blank;

/// What did not fit, in words that follow the attribute's name.
pub(super) type Fit<T> = Result<T, String>;

/// The rest of a value.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }
    /// What comes next behind blanks and comments.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.rest = skip_blank(self.rest);
        self.rest.as_bytes().first().copied()
    }
    /// Takes `symbol` if it comes next.
    pub(super) fn eat(&mut self, symbol: &str) -> bool {
        self.peek();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    pub(super) fn expect(&mut self, symbol: &str) -> Fit<()> {
        if self.eat(symbol) { Ok(()) } else { Err(format!("`{symbol}` expected in front of `{}`", self.excerpt())) }
    }
    pub(super) fn end(mut self) -> Fit<()> {
        if self.peek().is_none() { Ok(()) } else { Err(format!("`{}` is left over", self.excerpt())) }
    }
    /// What comes next, up to the end of the line.
    fn excerpt(&self) -> String {
        self.rest.lines().next().unwrap_or_default().chars().take(20).collect()
    }
    /// Takes the bytes for which `keep` holds; an error if there are none.
    fn take(&mut self, what: &str, keep: impl Fn(u8) -> bool) -> Fit<&'a str> {
        self.peek();
        let length = self.rest.bytes().take_while(|&byte| keep(byte)).count();
        if length == 0 {
            return Err(format!("{what} expected in front of `{}`", self.excerpt()));
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }
    /// `name`, of letters, digits and `_.-`.
    pub(super) fn word(&mut self) -> Fit<&'a str> {
        self.take("a word", |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
    }
    pub(super) fn int(&mut self) -> Fit<i64> {
        let digits = self.take("a number", |byte| byte.is_ascii_digit() || byte == b'-')?;
        digits.parse().map_err(|_| format!("`{digits}` is no 64-bit number"))
    }
    /// An integer of a narrower type.
    pub(super) fn small<T: TryFrom<i64>>(&mut self) -> Fit<T> {
        let value = self.int()?;
        T::try_from(value).map_err(|_| format!("{value} is out of range"))
    }
    pub(super) fn float(&mut self) -> Fit<f64> {
        let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let digits = self.take("a number", keep)?;
        digits.parse().map_err(|_| format!("`{digits}` is no number"))
    }
    pub(super) fn flag(&mut self) -> Fit<bool> {
        match self.word()? {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            other => Err(format!("`{other}` is neither `true` nor `false`")),
        }
    }
    /// Anything up to and including `close`, with commas between.
    pub(super) fn list<T>(
        &mut self,
        (open, close): (&str, &str),
        mut item: impl FnMut(&mut Self) -> Fit<T>,
    ) -> Fit<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            self.eat(",");
        }
        Ok(items)
    }
    /// `{1,2}`.
    pub(super) fn ints(&mut self) -> Fit<Vec<i64>> {
        self.list(("{", "}"), Self::int)
    }
    /// A quoted string, unescaped; C escapes.
    pub(super) fn bytes(&mut self) -> Fit<Vec<u8>> {
        let Some(quote @ (b'"' | b'\'')) = self.peek() else {
            return Err(format!("a string expected in front of `{}`", self.excerpt()));
        };
        let text = self.rest.as_bytes();
        let mut at = 1;
        while *text.get(at).ok_or("a string does not end")? != quote {
            at += if text[at] == b'\\' { 2 } else { 1 };
        }
        let inner = &self.rest[1..at];
        self.rest = &self.rest[at + 1..];
        unescape(inner)
    }
    pub(super) fn string(&mut self) -> Fit<String> {
        String::from_utf8(self.bytes()?).map_err(|_| "a string is not UTF-8".to_owned())
    }
    /// `{...}` verbatim, braces included; braces in strings do not count.
    pub(super) fn dict(&mut self) -> Fit<&'a str> {
        self.peek();
        let length = dict_length(self.rest.as_bytes()).ok_or("a dictionary does not end")?;
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }
}

/// Length of the `{...}` that `text` begins with.
pub(super) fn dict_length(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth, mut quoted) = (0, 0_usize, false);
    loop {
        match *text.get(at)? {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return (at > 1).then_some(at);
        }
    }
}

/// The bytes a C string stands for.
fn unescape(text: &str) -> Fit<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' {
            rest = escape(after, &mut out)?;
        } else {
            out.push(byte);
        }
    }
    Ok(out)
}

/// Reads what stands behind a backslash.
fn escape<'b>(after: &'b [u8], out: &mut Vec<u8>) -> Fit<&'b [u8]> {
    let (&byte, rest) = after.split_first().ok_or("a string ends in a backslash")?;
    let number = |digits: &[u8], radix: u32| {
        std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, radix).ok())
    };
    let octal = after.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if octal > 0 {
        out.push(
            number(&after[..octal], 8)
                .and_then(|code| u8::try_from(code).ok())
                .ok_or("an octal escape is too large")?,
        );
        return Ok(&after[octal..]);
    }
    let hex = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let width = match byte {
        b'x' | b'X' => hex.min(2),
        b'u' => hex.min(4),
        b'U' => hex.min(8),
        _ => {
            out.push(simple_escape(byte).ok_or_else(|| format!("`\\{}` is no escape", char::from(byte)))?);
            return Ok(rest);
        }
    };
    let code = number(&rest[..width], 16).ok_or("an escape has no digits")?;
    if width <= 2 && matches!(byte, b'x' | b'X') {
        out.push(code as u8);
    } else {
        let symbol = char::from_u32(code).ok_or("an escape is no character")?;
        out.extend_from_slice(symbol.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&rest[width..])
}

fn simple_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        b'\\' | b'?' | b'\'' | b'"' => byte,
        _ => return None,
    })
}

/// Writes bytes between quotes the way XLA escapes them.
pub(super) fn quote(out: &mut String, bytes: &[u8]) {
    use std::fmt::Write as _;
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write!(out, "\\{byte:03o}").expect("writing to a string cannot fail"),
        }
    }
    out.push('"');
}

/// Writes a value that is a dictionary as it is, any other quoted.
pub(super) fn dict_or_quote(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.first() == Some(&b'{') && dict_length(bytes) == Some(bytes.len()) => out.push_str(text),
        _ => quote(out, bytes),
    }
}

/// `1,2`.
pub(super) fn joined<T: ToString>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(separator)
}
/// `{1,2}`.
pub(super) fn braces(items: &[i64]) -> String {
    format!("{{{}}}", joined(items, ","))
}
/// `{` + parts + `}`.
pub(super) fn grouped(items: impl IntoIterator<Item = String>, separator: &str) -> String {
    format!("{{{}}}", joined(items, separator))
}
