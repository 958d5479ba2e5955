//! Sizes on the command line: `123`, `64KiB`, `1.5GiB`.

use hlo_memory::Bytes;

/// Units and their power of two, longest name first so that `B` does not match the end of `KiB`.
const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];

/// Reads a size. A fraction of a unit is rounded down to whole bytes.
pub(crate) fn parse(text: &str) -> Result<Bytes, String> {
    let (number, power) =
        UNITS.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?.trim_end(), *power))).unwrap_or((text, 0));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.ends_with('.') || power == 0 && !fraction.is_empty() {
        return Err(expected());
    }
    let scaled = digits(whole).ok_or_else(expected)? << power;
    let part = if fraction.is_empty() { 0 } else { fraction_of(fraction, power).ok_or_else(expected)? };
    u64::try_from(scaled + part).map(Bytes).map_err(|_| too_large())
}

fn expected() -> String {
    "expected a number of bytes such as 123, 64KiB or 1.5GiB".to_owned()
}

fn too_large() -> String {
    "does not fit 64 bits".to_owned()
}

/// A run of digits below 2^64, so that a shift by 40 still fits.
fn digits(text: &str) -> Option<u128> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse::<u64>().ok().map(u128::from)).flatten()
}

/// `0.TEXT` units of `2^power` bytes. Digits behind the 18th decide less than a byte of any unit and are only checked.
fn fraction_of(text: &str, power: u32) -> Option<u128> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = &text[..text.len().min(18)];
    let value = digits(kept)?;
    Some((value << power) / 10_u128.pow(kept.len() as u32))
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
