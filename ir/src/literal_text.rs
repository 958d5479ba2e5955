//! The text of a constant's literal. A search copies, hashes and verifies a module at each step, and its constants, which may have many MiB,
//! never change: copies of a long text share it, and what was found out about it.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use smol_str::SmolStr;

use crate::hash::text_hash;
use crate::shape::{Shape, ShapeRef};

/// The text of a literal, verbatim. Equal texts are equal, whatever is known of them.
#[derive(Clone, Debug)]
pub struct LiteralText(Text);

/// Texts up to this length are read again as fast as what is known about them is looked up.
const SHORT: usize = 64;

#[derive(Clone, Debug)]
enum Text {
    Short(SmolStr),
    Long(Arc<Long>),
}

#[derive(Debug)]
struct Long {
    text: Box<str>,
    hash: OnceLock<u64>,
    /// A shape that has as many elements, each a value of its type.
    fits: OnceLock<ShapeRef>,
}

impl LiteralText {
    /// Whether `check` is known to succeed for this shape, or succeeds now. Success is remembered for the first shape.
    pub(crate) fn fits(
        &self,
        shape: &ShapeRef,
        check: impl FnOnce(&Shape, &str) -> Result<(), String>,
    ) -> Result<(), String> {
        let Text::Long(long) = &self.0 else { return check(shape, self) };
        if long.fits.get().is_some_and(|known| known == shape) {
            return Ok(());
        }
        check(shape, self)?;
        _ = long.fits.set(ShapeRef::clone(shape));
        Ok(())
    }
}

impl Deref for LiteralText {
    type Target = str;
    fn deref(&self) -> &str {
        match &self.0 {
            Text::Short(text) => text,
            Text::Long(long) => &long.text,
        }
    }
}

impl PartialEq for LiteralText {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Text::Long(one), Text::Long(two)) => Arc::ptr_eq(one, two) || one.text == two.text,
            _ => **self == **other,
        }
    }
}

impl Eq for LiteralText {}

impl Hash for LiteralText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Text::Short(text) => text.hash(state),
            Text::Long(long) => long.hash.get_or_init(|| text_hash(&long.text)).hash(state),
        }
    }
}

impl From<&str> for LiteralText {
    fn from(text: &str) -> Self {
        if text.len() <= SHORT {
            return Self(Text::Short(text.into()));
        }
        Self(Text::Long(Arc::new(Long { text: text.into(), hash: OnceLock::new(), fits: OnceLock::new() })))
    }
}

impl From<String> for LiteralText {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<SmolStr> for LiteralText {
    fn from(text: SmolStr) -> Self {
        if text.len() <= SHORT { Self(Text::Short(text)) } else { Self::from(text.as_str()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> LiteralText {
        format!("{{{}}}", vec!["1"; 99].join(", ")).into()
    }

    #[test]
    fn a_long_text_is_checked_once_for_a_shape() {
        let shape_of = |count| Shape::array(crate::ElementType::S32, [count]);
        let (text, shape, other) = (long(), shape_of(99), shape_of(98));
        assert!(text.fits(&shape, |_, _| Err("wrong".into())).is_err(), "a failure is not remembered");
        assert_eq!(text.fits(&shape, |_, _| Ok(())), Ok(()));
        assert_eq!(text.clone().fits(&shape, |_, _| Err("asked again".into())), Ok(()));
        assert!(text.fits(&other, |_, _| Err("wrong".into())).is_err(), "another shape is checked");
    }

    #[test]
    fn equal_texts_are_equal_and_hash_alike() {
        let hash = |text: &LiteralText| {
            let mut state = std::hash::DefaultHasher::new();
            text.hash(&mut state);
            state.finish()
        };
        let (one, two) = (long(), long());
        assert_eq!(one, two);
        assert_eq!(hash(&one), hash(&two));
        assert_ne!(one, LiteralText::from("1"));
    }
}
