//! Damage to texts: the slips of editors, transfers and generators, and what an attacker would try.

/// A small random generator (SplitMix64); a seed gives the same numbers everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
    fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// One of `seeds` with one to four things wrong.
pub(crate) fn damage(seeds: &[String], random: &mut Random) -> String {
    const KINDS: &[fn(&str, &mut Random) -> String] = &[
        flip_bytes,
        delete_token,
        repeat_token,
        swap_tokens,
        truncate,
        shuffle_lines,
        delete_line,
        repeat_line,
        blow_up_number,
        nest,
        insert_bytes,
    ];
    let mut text = random.choose(seeds).clone();
    for _ in 0..=random.below(4) {
        text = random.choose(KINDS)(&text, random);
    }
    text
}

/// A place between two characters.
fn place(text: &str, random: &mut Random) -> usize {
    let at = random.below(text.len() + 1);
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Some bytes get one other bit; the text stays ASCII where it was.
fn flip_bytes(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        if let Some(byte) = bytes.get_mut(at).filter(|byte| byte.is_ascii()) {
            *byte ^= 1 << random.below(7);
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Start and end of a word or a sign near a random place.
fn token(text: &str, random: &mut Random) -> (usize, usize) {
    let wordy = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-%".contains(&byte);
    let bytes = text.as_bytes();
    let at = place(text, random);
    let start = (0..at).rev().take_while(|&at| wordy(bytes[at])).last().unwrap_or(at);
    let length = bytes[start..].iter().take_while(|&&byte| wordy(byte)).count();
    let one = text[start..].chars().next().map_or(0, char::len_utf8);
    (start, start + length.max(one))
}

fn delete_token(text: &str, random: &mut Random) -> String {
    let (start, end) = token(text, random);
    format!("{}{}", &text[..start], &text[end..])
}

fn repeat_token(text: &str, random: &mut Random) -> String {
    let (start, end) = token(text, random);
    let between = *random.choose(&["", " ", ","]);
    format!("{}{between}{}", &text[..end], &text[start..])
}

/// A token takes the place of another.
fn swap_tokens(text: &str, random: &mut Random) -> String {
    let (start, end) = token(text, random);
    let (from, to) = token(text, random);
    format!("{}{}{}", &text[..start], &text[from..to], &text[end..])
}

fn truncate(text: &str, random: &mut Random) -> String {
    text[..place(text, random)].to_owned()
}

/// A few neighbouring lines change places.
fn shuffle_lines(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<_> = text.split_inclusive('\n').collect();
    let first = random.below(lines.len());
    let count = lines.len();
    let some = &mut lines[first..count.min(first + 6)];
    for last in (1..some.len()).rev() {
        some.swap(last, random.below(last + 1));
    }
    lines.concat()
}

fn delete_line(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<_> = text.split_inclusive('\n').collect();
    if !lines.is_empty() {
        lines.remove(random.below(lines.len()));
    }
    lines.concat()
}

fn repeat_line(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<_> = text.split_inclusive('\n').collect();
    if let Some(&line) = lines.get(random.below(lines.len())) {
        lines.insert(random.below(lines.len()), line);
    }
    lines.concat()
}

/// A number becomes one at or behind a limit of some type.
fn blow_up_number(text: &str, random: &mut Random) -> String {
    const NUMBERS: &[&str] = &[
        "0",
        "-1",
        "65",
        "255",
        "65536",
        "2147483647",
        "2147483648",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "-9223372036854775808",
        "99999999999999999999999999999999999999",
        "1e400",
        "nan",
    ];
    let at = place(text, random);
    let Some(start) = text[at..].find(|letter: char| letter.is_ascii_digit()).map(|offset| at + offset) else {
        return text.to_owned();
    };
    let length = text[start..].bytes().take_while(u8::is_ascii_digit).count();
    format!("{}{}{}", &text[..start], random.choose(NUMBERS), &text[start + length..])
}

/// Many opening brackets, with or without their closing ones.
fn nest(text: &str, random: &mut Random) -> String {
    let (open, close) =
        *random.choose(&[("{", "}"), ("(", ")"), ("[", "]"), ("negate(", ")"), ("/*", "*/"), ("\"", "\"")]);
    let depth = *random.choose(&[1, 3, 65, 300, 20_000]);
    let (at, close_by) = (place(text, random), random.below(2) * depth);
    format!("{}{}{}{}", &text[..at], open.repeat(depth), close.repeat(close_by), &text[at..])
}

fn insert_bytes(text: &str, random: &mut Random) -> String {
    const PIECES: &[&str] = &[
        "\0",
        "\u{feff}",
        "é",
        "\u{10ffff}",
        "\r",
        "\t",
        "%",
        "=",
        "->",
        ", ",
        "ROOT ",
        "ENTRY ",
        "HloModule m\n",
        "...",
        "?",
        "<=",
        "-",
        "'",
        "\\",
        "/*",
        "*/",
        "//",
        "#",
        ";",
        "f32[",
        "s4[2]{0:E(4)}",
        "token[]",
        "metadata={",
        "to_apply=",
    ];
    let at = place(text, random);
    format!("{}{}{}", &text[..at], random.choose(PIECES), &text[at..])
}
