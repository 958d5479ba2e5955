//! Shapes and layouts, and how they are written in HLO text.

// Tests: `ir/tests/generated.rs`.

use std::fmt::{self, Display as _};
use std::sync::Arc;

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::ElementType;

/// Sizes or dimension numbers; most arrays have at most four dimensions.
pub type Dims = SmallVec<[i64; 4]>;

/// The size XLA uses for an unbounded dimension, written `?`.
pub const UNBOUNDED: i64 = i64::MIN;

/// What an instruction produces. Shared by reference: many instructions have one shape.
pub type ShapeRef = Arc<Shape>;

/// An array, a tuple of shapes, or one of the shapes without elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// A dense array.
    Array(ArrayShape),
    /// A tuple; its elements are separate values.
    Tuple(Vec<ShapeRef>),
    /// A mutable buffer, `b(shape)`.
    Buffer(ShapeRef),
    /// `token[]`, an ordering edge.
    Token,
    /// `opaque[]`.
    Opaque,
}

/// Element type, dimensions and layout of an array.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArrayShape {
    /// Type of the elements.
    pub element_type: ElementType,
    /// Sizes (or bounds, for dynamic dimensions; [`UNBOUNDED`] for `?`), outermost first.
    pub dims: Dims,
    /// Bit `d` is set when dimension `d` is dynamic (`<=N` or `?`).
    pub dynamic: u64,
    /// Order in memory; `None` where the text gives no layout (default: descending).
    pub layout: Option<Layout>,
}

/// Order of the dimensions in memory and what else stands between the layout braces.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Layout {
    /// Dimension numbers from the fastest varying to the slowest.
    pub minor_to_major: Dims,
    /// Everything after the colon, verbatim: tiles, `E(4)`, `S(5)` ...; empty if absent.
    pub suffix: SmolStr,
}

impl Layout {
    /// The row-major layout of an array of `rank` dimensions.
    pub fn descending(rank: usize) -> Self {
        Self { minor_to_major: (0..rank as i64).rev().collect(), suffix: SmolStr::default() }
    }
    /// Whether this is row-major order (any suffix).
    pub fn is_descending(&self) -> bool {
        let rank = self.minor_to_major.len() as i64;
        self.minor_to_major.iter().enumerate().all(|(position, &dim)| dim == rank - 1 - position as i64)
    }
    /// The number `n` of a suffix part `KEY(n)`, as in `E(4)` (element bits) or `S(5)` (memory space).
    pub fn suffix_number(&self, key: char) -> Option<i64> {
        let mut rest = self.suffix.as_str();
        while let Some(at) = rest.find(key) {
            let before = rest[..at].chars().next_back();
            let after = &rest[at + key.len_utf8()..];
            if before.is_none_or(|c| c == ')') && after.starts_with('(') {
                return after[1..].split(')').next()?.parse().ok();
            }
            rest = after;
        }
        None
    }
}

impl ArrayShape {
    /// An array with the given sizes and a row-major layout.
    pub fn new(element_type: ElementType, dims: impl IntoIterator<Item = i64>) -> Self {
        let dims: Dims = dims.into_iter().collect();
        let layout = Some(Layout::descending(dims.len()));
        Self { element_type, dims, dynamic: 0, layout }
    }
    /// A scalar.
    pub fn scalar(element_type: ElementType) -> Self {
        Self::new(element_type, [])
    }
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    /// Whether this is an array without dimensions.
    pub fn is_scalar(&self) -> bool {
        self.dims.is_empty()
    }
    /// Whether any dimension is dynamic.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic != 0
    }
    /// Product of the dimensions (1 for a scalar); `None` if it does not fit or a dimension is unbounded.
    pub fn elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1_u64, |product, &dim| product.checked_mul(u64::try_from(dim).ok()?))
    }
    /// The same array with dimension `dim` of size `size`.
    #[must_use]
    pub fn with_dim(&self, dim: usize, size: i64) -> Self {
        let mut shape = self.clone();
        shape.dims[dim] = size;
        shape
    }
    /// The same array with another element type.
    #[must_use]
    pub fn with_element_type(&self, element_type: ElementType) -> Self {
        Self { element_type, ..self.clone() }
    }
    /// Whether element type and dimensions agree; layouts may differ.
    pub fn compatible(&self, other: &Self) -> bool {
        self.element_type == other.element_type && self.dims == other.dims && self.dynamic == other.dynamic
    }
    /// Dimension numbers from the fastest varying to the slowest; row-major if no layout is given.
    pub fn minor_to_major(&self) -> Dims {
        self.layout
            .as_ref()
            .map_or_else(|| Layout::descending(self.rank()).minor_to_major, |l| l.minor_to_major.clone())
    }
}

impl Shape {
    /// A row-major array shape, ready to share.
    pub fn array(element_type: ElementType, dims: impl IntoIterator<Item = i64>) -> ShapeRef {
        Arc::new(Self::Array(ArrayShape::new(element_type, dims)))
    }
    /// A tuple shape, ready to share.
    pub fn tuple(elements: impl IntoIterator<Item = ShapeRef>) -> ShapeRef {
        Arc::new(Self::Tuple(elements.into_iter().collect()))
    }
    /// The array, if this is one.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
    /// The element shapes, if this is a tuple.
    pub fn as_tuple(&self) -> Option<&[ShapeRef]> {
        match self {
            Self::Tuple(elements) => Some(elements),
            _ => None,
        }
    }
    /// Whether both shapes agree in everything but layouts.
    pub fn compatible(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.compatible(b),
            (Self::Tuple(a), Self::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.compatible(y)),
            (Self::Buffer(a), Self::Buffer(b)) => a.compatible(b),
            (Self::Token, Self::Token) | (Self::Opaque, Self::Opaque) => true,
            _ => false,
        }
    }
    /// As [`Self::compatible`], but a size and a bound of the same number agree: what XLA's parser asks of the shapes in front of operands
    /// and of the result in a computation's head (source: `ShapeUtil::Compatible`, xla/shape_util.h).
    pub fn compatible_bounds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.element_type == b.element_type && a.dims == b.dims,
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.compatible_bounds(y))
            }
            (Self::Buffer(a), Self::Buffer(b)) => a.compatible_bounds(b),
            _ => self.compatible(other),
        }
    }
    /// The sub-shape at a tuple index; the shape itself for an empty index.
    pub fn at(&self, index: &[i64]) -> Option<&Self> {
        index.iter().try_fold(self, |shape, &i| shape.as_tuple()?.get(usize::try_from(i).ok()?).map(Arc::as_ref))
    }
    /// The text without layouts, as in program shapes.
    pub fn without_layout(&self) -> impl fmt::Display + '_ {
        Written { shape: self, layouts: false }
    }
}

/// A shape together with how it is to be written.
struct Written<'a> {
    shape: &'a Shape,
    layouts: bool,
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::Array(array) => write_array(f, array, self.layouts),
            Shape::Tuple(elements) => write_tuple(f, elements, self.layouts),
            Shape::Buffer(inner) => write!(f, "b({})", Written { shape: inner, layouts: self.layouts }),
            Shape::Token => f.write_str("token[]"),
            Shape::Opaque => f.write_str("opaque[]"),
        }
    }
}

/// Writes `(a, b, ...)`, with a comment that counts before every fifth element, as XLA does.
fn write_tuple(f: &mut fmt::Formatter<'_>, elements: &[ShapeRef], layouts: bool) -> fmt::Result {
    f.write_str("(")?;
    for (index, shape) in elements.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
            if index % 5 == 0 {
                write!(f, "/*index={index}*/")?;
            }
        }
        Written { shape, layouts }.fmt(f)?;
    }
    f.write_str(")")
}

/// Writes `f32[2,3]{1,0}`.
fn write_array(f: &mut fmt::Formatter<'_>, array: &ArrayShape, layouts: bool) -> fmt::Result {
    f.write_str(array.element_type.name())?;
    f.write_str("[")?;
    for (index, &dim) in array.dims.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        match (array.dynamic.checked_shr(index as u32).unwrap_or(0) & 1 == 1, dim) {
            (_, UNBOUNDED) => f.write_str("?")?,
            (true, bound) => write!(f, "<={bound}")?,
            (false, size) => write!(f, "{size}")?,
        }
    }
    f.write_str("]")?;
    match &array.layout {
        Some(layout) if layouts => layout.fmt(f),
        _ => Ok(()),
    }
}

impl fmt::Display for Layout {
    /// Writes `{1,0:E(4)}`; nothing for the empty layout of a scalar.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.minor_to_major.is_empty() && self.suffix.is_empty() {
            return Ok(());
        }
        f.write_str("{")?;
        for (index, dim) in self.minor_to_major.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{dim}")?;
        }
        if !self.suffix.is_empty() {
            write!(f, ":{}", self.suffix)?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Written { shape: self, layouts: true }.fmt(f)
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_array(f, self, true)
    }
}
