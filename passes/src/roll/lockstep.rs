//! Walks all copies at once from their results to their operands: a column holds the values that stand at one place of every copy.

use std::ops::Range;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, AttrValue, InstructionId, Module, Opcode};

use super::isomorphism::Isomorphism;
use super::{FEWEST_COPIES, bytes};
use crate::Reason;
use crate::machine::LINE;

/// What a column is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// One value that every copy reads.
    Shared,
    /// The same operation on these columns; slices may lie at different places.
    Computed(Vec<usize>),
    /// Scalar constants.
    Constants,
    /// What the copy before computed in that column; the first copy reads a value from outside.
    Carried(usize),
    /// Not decided yet.
    Open,
}

/// The values at one place of every copy, first copy first.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) ids: Vec<InstructionId>,
    pub(super) role: Role,
}

/// Why values do not line up.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// Copies that do line up at this place.
    pub(super) run: Range<usize>,
}

/// Copies that line up.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    /// How many.
    pub(super) len: usize,
    pub(super) columns: Vec<Column>,
    index: IndexMap<Vec<InstructionId>, usize>,
    /// Column and copy of every value that a copy computes.
    owner: SideTable<InstructionId, Option<(usize, usize)>>,
}

impl Copies {
    pub(super) fn new(len: usize) -> Self {
        Self { len, columns: Vec::new(), index: IndexMap::default(), owner: SideTable::new(None) }
    }

    /// The columns that the copies compute.
    pub(super) fn computed(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| matches!(column.role, Role::Computed(_)))
    }
    /// Whether some copy computes this value.
    pub(super) fn computes(&self, id: InstructionId) -> bool {
        self.owner[id].is_some()
    }
    /// Whether some column hands its values from copy to copy.
    pub(super) fn is_recurrence(&self) -> bool {
        self.columns.iter().any(|column| matches!(column.role, Role::Carried(_)))
    }
    /// Every value that a copy computes.
    pub(super) fn values(&self) -> impl Iterator<Item = InstructionId> {
        self.computed().flat_map(|(_, column)| column.ids.iter().copied()).filter(|&id| self.computes(id))
    }
    /// Values from outside that the copies read.
    pub(super) fn inputs(&self) -> impl Iterator<Item = InstructionId> {
        let outside = self.columns.iter().filter(|column| matches!(column.role, Role::Shared | Role::Carried(_)));
        outside.map(|column| column.ids[0])
    }

    /// Adds a column and everything it is computed from. On failure the copies are as they were before.
    pub(super) fn grow(
        &mut self,
        module: &Module,
        isomorphism: &mut Isomorphism,
        ids: Vec<InstructionId>,
    ) -> Result<usize, Failure> {
        if let Some(&known) = self.index.get(&ids) {
            return Ok(known);
        }
        let before = self.columns.len();
        let result = self.walk(module, isomorphism, ids);
        if result.is_err() {
            self.truncate(before);
        }
        result
    }

    fn walk(
        &mut self,
        module: &Module,
        isomorphism: &mut Isomorphism,
        ids: Vec<InstructionId>,
    ) -> Result<usize, Failure> {
        let root = self.place(ids);
        let mut next = root;
        let mut undecided = Vec::new();
        while next < self.columns.len() {
            if !self.decide(module, isomorphism, next) {
                // What stays outside in every copy is never what the copy before computed.
                if !isomorphism.movable(module.instruction(self.columns[next].ids[1])) {
                    return Err(self.mismatch(module, isomorphism, next));
                }
                undecided.push(next);
            }
            next += 1;
        }
        // What the copy before computed may have come into sight only now.
        for column in undecided {
            match self.copy_before(module, column) {
                Some(from) => self.columns[column].role = Role::Carried(from),
                None => return Err(self.mismatch(module, isomorphism, column)),
            }
        }
        Ok(root)
    }

    /// Forgets the columns behind the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        for (number, column) in self.columns.iter().enumerate().skip(len) {
            for &id in &column.ids {
                if self.owner[id].is_some_and(|(owner, _)| owner == number) {
                    self.owner.set(id, None);
                }
            }
        }
        self.columns.truncate(len);
        self.index.truncate(len);
    }

    /// The column of these values, new or known.
    fn place(&mut self, ids: Vec<InstructionId>) -> usize {
        if let Some(&known) = self.index.get(&ids) {
            return known;
        }
        let number = self.columns.len();
        self.index.insert(ids.clone(), number);
        self.columns.push(Column { ids, role: Role::Open });
        number
    }

    /// Finds the role of a column; `false` if it has none (yet).
    fn decide(&mut self, module: &Module, isomorphism: &mut Isomorphism, number: usize) -> bool {
        let ids = self.columns[number].ids.clone();
        if ids.iter().all(|&id| id == ids[0]) {
            self.columns[number].role = Role::Shared;
            return true;
        }
        if let Some(from) = self.copy_before(module, number) {
            self.columns[number].role = Role::Carried(from);
            return true;
        }
        let first = ids[0];
        if !isomorphism.movable(module.instruction(first))
            || !ids[1..].iter().all(|&id| isomorphism.alike(module, first, id))
        {
            return false;
        }
        if is_scalar_constant(module, first) {
            self.columns[number].role = Role::Constants;
            return true;
        }
        if !is_constant(module, first) && !self.own(module, number, &ids) {
            return false;
        }
        let places = 0..module.instruction(first).operands.len();
        let operands =
            places.map(|place| self.place(ids.iter().map(|&id| module.instruction(id).operands[place]).collect()));
        let operands = operands.collect();
        self.columns[number].role = Role::Computed(operands);
        true
    }

    /// Notes that these values belong to the copies; `false` if some belong to another column already, or are shared by copies
    /// although they are worth something.
    fn own(&mut self, module: &Module, number: usize, ids: &[InstructionId]) -> bool {
        let distinct: IndexSet<InstructionId> = ids.iter().copied().collect();
        if distinct.len() < ids.len() && !is_cheap(module, ids[0]) {
            return false;
        }
        if distinct.iter().any(|&id| self.owner[id].is_some()) && !is_cheap(module, ids[0]) {
            return false;
        }
        for (copy, &id) in ids.iter().enumerate() {
            if self.owner[id].is_none() {
                self.owner.set(id, Some((number, copy)));
            }
        }
        true
    }

    /// The column whose values, one copy earlier, are these.
    fn copy_before(&self, module: &Module, number: usize) -> Option<usize> {
        let ids = &self.columns[number].ids;
        let (from, 0) = self.owner[ids[1]]? else { return None };
        let source = &self.columns[from].ids;
        let shifted = ids[1..].iter().zip(source).all(|(id, before)| id == before);
        (shifted && module.shape(ids[0]) == module.shape(source[0])).then_some(from)
    }

    /// Why a column has no role, and the longest run of copies that agree.
    fn mismatch(&self, module: &Module, isomorphism: &mut Isomorphism, number: usize) -> Failure {
        let ids = &self.columns[number].ids;
        let mut best = 0..1;
        let mut start = 0;
        for at in 1..=ids.len() {
            if at < ids.len() && agree(module, isomorphism, ids[at - 1], ids[at]) {
                continue;
            }
            if at - start > best.len() {
                best = start..at;
            }
            start = at;
        }
        let reason = self.why(module, ids, best.len());
        // Everything agrees, yet the column has no role: shorter runs would not help.
        let run = if best.len() == ids.len() { 0..0 } else { best };
        Failure { reason, run }
    }

    fn why(&self, module: &Module, ids: &[InstructionId], agreeing: usize) -> Reason {
        let odd = ids.iter().copied().find(|&id| module.instruction(id).opcode != module.instruction(ids[0]).opcode);
        let name = &module.instruction(odd.unwrap_or(ids[0])).name;
        let inputs =
            |id: &InstructionId| matches!(module.instruction(*id).opcode, Opcode::Parameter | Opcode::GetTupleElement);
        let len = self.len;
        let (code, message) = if ids.iter().all(inputs) {
            let size = bytes(module, ids[0]);
            (
                "separate-arrays",
                format!(
                    "{len} copies each read an array of {size} of their own (`{name}` ...): one stacked argument would let them share a loop"
                ),
            )
        } else if agreeing == ids.len() && ids.iter().collect::<IndexSet<_>>().len() < ids.len() {
            ("repeated", format!("some of {len} copies share `{name}`, which a loop would compute again for each"))
        } else if agreeing == ids.len() {
            ("depends", format!("the {len} copies need each other's `{name}` out of order"))
        } else {
            ("differs", format!("{len} copies are alike up to `{name}`, where one does something else"))
        };
        Reason { code, message }
    }
}

/// Whether two neighbours of a column can stand in one loop.
fn agree(module: &Module, isomorphism: &mut Isomorphism, a: InstructionId, b: InstructionId) -> bool {
    a == b || (isomorphism.movable(module.instruction(a)) && isomorphism.alike(module, a, b))
}

/// Scalar constants with a written value.
fn is_scalar_constant(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let scalar = inst.array().is_some_and(hlo_ir::ArrayShape::is_scalar);
    inst.opcode == Opcode::Constant && scalar && !hlo_ir::literal::is_elided(inst)
}

/// Whether a value may be computed once more for every copy: it only reads a part of something, or is tiny.
pub(super) fn is_cheap(module: &Module, id: InstructionId) -> bool {
    let moves = matches!(
        module.instruction(id).opcode,
        Opcode::Slice | Opcode::DynamicSlice | Opcode::Reshape | Opcode::Bitcast
    );
    let tiny = module.instruction(id).opcode.is_elementwise() && bytes(module, id).get() <= LINE;
    moves || tiny || is_constant(module, id)
}

/// Whether a value is a constant in another shape, which belongs to nobody.
fn is_constant(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let from = |&operand: &InstructionId| module.instruction(operand).opcode == Opcode::Constant;
    inst.opcode == Opcode::Broadcast && inst.operands.iter().all(from)
}

/// Start positions of a slice.
pub(super) fn starts(module: &Module, id: InstructionId) -> Option<Vec<i64>> {
    match module.instruction(id).attribute(&AttrKey::Slice) {
        Some(AttrValue::Slice(dims)) => Some(dims.iter().map(|dim| dim.start).collect()),
        _ => None,
    }
}

/// Whether a run of copies is long enough for a loop.
pub(super) fn is_long_enough(run: &Range<usize>) -> bool {
    run.len() >= FEWEST_COPIES
}
