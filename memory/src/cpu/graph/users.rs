//! The ordered list of users of one instruction, with XLA's rules for adding and removing.

use crate::hash::IndexSet;
use hlo_ir::InstructionId;
use smallvec::SmallVec;

/// Lists longer than this keep an index, so that adding and removing stay cheap.
const INDEX_FROM: usize = 16;

/// Users in the order XLA keeps them: a new one goes to the end, and the last one moves into the slot of one that goes.
///
/// Source: `HloInstruction::Users` (xla/hlo/ir/hlo_instruction.cc).
#[derive(Clone, Debug)]
pub(crate) enum Users {
    /// Few users: searched one by one.
    Few(SmallVec<[InstructionId; 4]>),
    /// Many users: an indexed set, whose `swap_remove` is the very rule.
    Many(Box<IndexSet<InstructionId>>),
}

impl Default for Users {
    fn default() -> Self {
        Self::new()
    }
}

impl Users {
    pub(crate) fn new() -> Self {
        Self::Few(SmallVec::new())
    }
    /// The users in order.
    pub(crate) fn to_vec(&self) -> SmallVec<[InstructionId; 8]> {
        match self {
            Self::Few(list) => SmallVec::from_slice(list),
            Self::Many(set) => set.iter().copied().collect(),
        }
    }
    /// The users in order, as they stand.
    pub(crate) fn iter(&self) -> impl Iterator<Item = InstructionId> + '_ {
        let (few, many) = match self {
            Self::Few(list) => (list.as_slice(), None),
            Self::Many(set) => (&[][..], Some(set.iter())),
        };
        few.iter().chain(many.into_iter().flatten()).copied()
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(set) => set.len(),
        }
    }
    /// The user at a position.
    pub(crate) fn get(&self, position: usize) -> Option<InstructionId> {
        match self {
            Self::Few(list) => list.get(position).copied(),
            Self::Many(set) => set.get_index(position).copied(),
        }
    }
    pub(crate) fn contains(&self, user: InstructionId) -> bool {
        match self {
            Self::Few(list) => list.contains(&user),
            Self::Many(set) => set.contains(&user),
        }
    }
    /// Appends `user` unless it is there already.
    pub(crate) fn add(&mut self, user: InstructionId) {
        match self {
            Self::Few(list) if list.contains(&user) => {}
            Self::Few(list) if list.len() < INDEX_FROM => list.push(user),
            Self::Few(list) => {
                let mut set: IndexSet<InstructionId> = list.iter().copied().collect();
                set.insert(user);
                *self = Self::Many(Box::new(set));
            }
            Self::Many(set) => {
                set.insert(user);
            }
        }
    }
    /// Removes `user` if it is there; the last user takes its place.
    pub(crate) fn remove(&mut self, user: InstructionId) {
        match self {
            Self::Few(list) => {
                if let Some(position) = list.iter().position(|&other| other == user) {
                    list.swap_remove(position);
                }
            }
            Self::Many(set) => {
                set.swap_remove(&user);
            }
        }
    }
    /// Lets `new`, which is no user yet, stand where `old` stands, if it does: what adding the one and removing the other comes to.
    pub(crate) fn exchange(&mut self, old: InstructionId, new: InstructionId) {
        match self {
            Self::Few(list) => {
                if let Some(user) = list.iter_mut().find(|user| **user == old) {
                    *user = new;
                }
            }
            Self::Many(set) => {
                if set.contains(&old) {
                    set.insert(new);
                    set.swap_remove(&old);
                }
            }
        }
    }
    /// Forgets all users and returns them in order.
    pub(crate) fn take(&mut self) -> SmallVec<[InstructionId; 8]> {
        let list = self.to_vec();
        *self = Self::new();
        list
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::arena::Id as _;

    use super::*;

    fn id(index: usize) -> InstructionId {
        InstructionId::new(index)
    }

    #[test]
    fn exchange_is_what_adding_and_removing_comes_to() {
        for count in [3, 16, 40] {
            let mut users = Users::new();
            (0..count).for_each(|index| users.add(id(index)));
            let mut other = users.clone();
            users.exchange(id(1), id(100));
            other.add(id(100));
            other.remove(id(1));
            assert_eq!(users.to_vec(), other.to_vec(), "{count}");
            assert_eq!(users.iter().collect::<Vec<_>>(), other.to_vec().to_vec(), "{count}");
            // One that is not there is not exchanged, as for an operand that is read twice.
            users.exchange(id(1), id(101));
            assert_eq!(users.to_vec(), other.to_vec(), "{count}");
        }
    }

    #[test]
    fn last_user_moves_into_the_hole_in_short_and_long_lists() {
        for count in [3, 40] {
            let mut users = Users::new();
            for index in 0..count {
                users.add(id(index));
                users.add(id(index));
            }
            assert_eq!(users.len(), count);
            users.remove(id(0));
            users.remove(id(1000));
            assert_eq!(users.get(0), Some(id(count - 1)), "{count}");
            assert_eq!(users.get(1), Some(id(1)), "{count}");
            assert!(!users.contains(id(0)) && users.contains(id(count - 1)));
        }
    }
}
