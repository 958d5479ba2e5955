//! The header of a pass's file is its manual: `--explain` prints it.

/// The leading `//!` lines of `source` without their marks.
pub fn manual(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.strip_prefix(' ').unwrap_or(line));
        text.push('\n');
    }
    text
}

/// Gives a pass its `explanation`: the header of the file that calls this macro names, taken out once.
#[macro_export]
#[doc(hidden)]
macro_rules! explanation {
    ($file:literal) => {
        fn explanation(&self) -> &'static str {
            static MANUAL: std::sync::LazyLock<String> =
                std::sync::LazyLock::new(|| $crate::header::manual(include_str!($file)));
            &MANUAL
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_header_is_taken() {
        let source = "//! One.\n//!\n//!   two\nuse x;\n//! no\n";
        assert_eq!(super::manual(source), "One.\n\n  two\n");
    }
}
