//! Sizes on the command line: `123`, `64KiB`, `1.5GiB`, and `80GB` as devices are sold.

use hlo_memory::Bytes;

/// Units and their bytes, longest name first so that `B` does not match the end of `KiB`.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Reads a size. A fraction of a unit is rounded down to whole bytes.
pub(crate) fn parse(text: &str) -> Result<Bytes, String> {
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit))).unwrap_or((text, 1));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.ends_with('.') || unit == 1 && !fraction.is_empty() {
        return Err(expected());
    }
    let scaled = digits(whole).ok_or_else(expected)? * u128::from(unit);
    let part = if fraction.is_empty() { 0 } else { fraction_of(fraction, unit).ok_or_else(expected)? };
    u64::try_from(scaled + part).map(Bytes).map_err(|_| too_large())
}

fn expected() -> String {
    "expected a number of bytes such as 123, 64KiB, 1.5GiB or 80GB".to_owned()
}

fn too_large() -> String {
    "does not fit 64 bits".to_owned()
}

/// A run of digits below 2^64, so that so many of any unit still fit.
fn digits(text: &str) -> Option<u128> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse::<u64>().ok().map(u128::from)).flatten()
}

/// `0.TEXT` units of so many bytes. Digits behind the 18th decide less than a byte of any unit and are only checked.
fn fraction_of(text: &str, unit: u64) -> Option<u128> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = &text[..text.len().min(18)];
    let value = digits(kept)?;
    Some(value * u128::from(unit) / 10_u128.pow(kept.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let read = |text| parse(text).map(Bytes::get);
        assert_eq!(read("123"), Ok(123));
        assert_eq!(read("0"), Ok(0));
        assert_eq!(read("7B"), Ok(7));
        assert_eq!(read("64KiB"), Ok(65536));
        assert_eq!(read("64 KiB"), Ok(65536));
        assert_eq!(read("1.5GiB"), Ok(3 << 29));
        assert_eq!(read("0.1KiB"), Ok(102));
        assert_eq!(read("80GB"), Ok(80_000_000_000));
        assert_eq!(read("1.5 MB"), Ok(1_500_000));
        assert_eq!(read("2kB"), Ok(2_000));
        assert_eq!(read("0.25TB"), Ok(250_000_000_000));
        assert_eq!(read("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "KiB",
            "-1",
            "1.5",
            "1.",
            ".5GiB",
            "1e3",
            "64kb",
            "64K",
            "1.2.3MiB",
            "1.xMiB",
            "٣",
            "1.00000000000000000٣MiB",
        ] {
            assert_eq!(parse(text), Err(expected()), "{text}");
        }
        assert_eq!(parse("16777216TiB"), Err(too_large()));
        assert_eq!(parse("18446744073709551615TiB"), Err(too_large()));
    }
}
