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

impl Users {
    pub(crate) fn new() -> Self {
        Self::Few(SmallVec::new())
    }
    /// The users in order.
    pub(crate) fn to_vec(&self) -> SmallVec<[InstructionId; 8]> {
        match self {
            Self::Few(list) => list.iter().copied().collect(),
            Self::Many(set) => set.iter().copied().collect(),
        }
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
