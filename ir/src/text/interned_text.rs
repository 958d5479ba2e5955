//! Long texts read lately: several instructions made from one line of a model carry the same metadata, and share it here.

use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;
use smol_str::SmolStr;

/// How many texts are remembered. In dumps of three language models so many places, filled by any good hash, find about nine tenths of the
/// bytes that an unlimited table would share; 64 places find half of them in one dump. A text that is new costs a hash and one comparison.
const PLACES: usize = 1024;

/// Texts no longer than this are kept inline anyway.
const INLINE: usize = 23;

/// The last text that fell on each place.
#[derive(Default)]
pub(super) struct InternedText {
    places: Vec<SmolStr>,
}

impl InternedText {
    /// `text`, in the memory of an equal one if that was read lately.
    pub(super) fn share(&mut self, text: &str) -> SmolStr {
        if text.len() <= INLINE {
            return SmolStr::new(text);
        }
        if self.places.is_empty() {
            self.places = vec![SmolStr::default(); PLACES];
        }
        let place = &mut self.places[FxBuildHasher.hash_one(text) as usize % PLACES];
        if place != text {
            *place = SmolStr::new(text);
        }
        place.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_long_texts_share_their_memory() {
        let mut texts = InternedText::default();
        let (first, second) = (texts.share(&"a".repeat(100)), texts.share(&"a".repeat(100)));
        assert_eq!(first.as_ptr(), second.as_ptr());
        for length in 0..200 {
            let text: String = (0..length).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
            assert_eq!(texts.share(&text), text);
        }
        assert_eq!(first, "a".repeat(100));
    }
}
