//! Typed ids, the dense arenas that hand them out, and side tables keyed by them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A dense `u32` index that belongs to one kind of entity.
pub trait Id: Copy + Eq + Ord + fmt::Debug {
    /// The id with this index.
    fn new(index: usize) -> Self;
    /// The index behind the id.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl Id for $name {
            #[inline]
            fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds fewer than 2^32 entries"))
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// An instruction of one [`crate::Module`].
    InstructionId, "i"
);
id!(
    /// A computation of one [`crate::Module`].
    ComputationId, "c"
);

/// Owner of all entities of one kind; ids are handed out in order and never reused.
#[derive(Clone, Debug)]
pub struct Arena<I, T> {
    items: Vec<T>,
    id: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// An arena without entries.
    #[inline]
    pub const fn new() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }
    /// Adds `item` and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = I::new(self.items.len());
        self.items.push(item);
        id
    }
    /// Makes room for `count` more entries.
    pub fn reserve(&mut self, count: usize) {
        self.items.reserve(count);
    }
    /// Number of entries ever added.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether nothing was ever added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The entries without their ids, in id order.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
    /// Forgets every entry from index `len` on; only undo does this.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }
    /// The entry, or `None` for an id of another arena.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
    /// All entries with their ids, in id order.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(index, item)| (I::new(index), item))
    }
}

/// Entries in the order of their ids.
impl<I: Id, T> From<Vec<T>> for Arena<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, id: PhantomData }
    }
}

impl<I: Id, T> Default for Arena<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// Facts about entities, kept beside them: unset entries read as the default value. It takes room for the ids between the first and the
/// last that were set, so that a table about one computation costs what that computation is large.
#[derive(Clone, Debug)]
pub struct SideTable<I, T> {
    items: Vec<T>,
    /// Index of the id that the first item belongs to.
    first: usize,
    default: T,
    id: PhantomData<I>,
}

impl<I: Id, T: Clone> SideTable<I, T> {
    /// A table in which every entry reads as `default`.
    #[inline]
    pub const fn new(default: T) -> Self {
        Self { items: Vec::new(), first: 0, default, id: PhantomData }
    }
    /// Sets the fact about `id`.
    pub fn set(&mut self, id: I, value: T) {
        self[id] = value;
    }
    /// Makes room for `index`, in front more than is asked for, because ids that come in descending order would move all items each time.
    fn reach(&mut self, index: usize) {
        if self.items.is_empty() {
            self.first = index;
        } else if index < self.first {
            let more = (self.first - index).max(self.items.len()).min(self.first);
            self.items.splice(..0, std::iter::repeat_n(self.default.clone(), more));
            self.first -= more;
        }
        let count = (index - self.first + 1).max(self.items.len());
        self.items.resize(count, self.default.clone());
    }
}

impl<I: Id, T> Index<I> for SideTable<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        self.items.get(id.index().wrapping_sub(self.first)).unwrap_or(&self.default)
    }
}

impl<I: Id, T: Clone> IndexMut<I> for SideTable<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        if id.index().wrapping_sub(self.first) >= self.items.len() {
            self.reach(id.index());
        }
        &mut self.items[id.index() - self.first]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_what_was_set_in_any_order() {
        for order in [vec![5, 6, 9], vec![9, 6, 5], vec![700, 3, 699, 0, 1400, 701]] {
            let mut table: SideTable<InstructionId, usize> = SideTable::new(usize::MAX);
            for &index in &order {
                table.set(InstructionId::new(index), index);
            }
            for index in 0..1500 {
                let wanted = if order.contains(&index) { index } else { usize::MAX };
                assert_eq!(table[InstructionId::new(index)], wanted, "{order:?}");
            }
        }
    }
}
