//! Who reads an element of a loop's state that the loop forwards: slices in its body, and loops inside the body that carry it too.

use hlo_ir::graph::Callers;
use hlo_ir::graph::Users;
use hlo_ir::{AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode, graph};

use crate::{Context, Finding};

/// A `dynamic-slice` that takes `rows` rows of dimension `dim`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSlice {
    pub(crate) slice: InstructionId,
    pub(crate) dim: usize,
    pub(crate) rows: i64,
}

/// A loop that forwards an element of its state, and all reads of it.
pub(crate) struct RowReader {
    /// The `while`.
    pub(crate) site: InstructionId,
    /// The tuple it begins with.
    pub(crate) initial: InstructionId,
    /// Index of the element.
    pub(crate) element: usize,
    pub(crate) body: ComputationId,
    pub(crate) condition: ComputationId,
    /// Slices in the body itself.
    pub(crate) taken: Vec<RowSlice>,
    /// Loops in the body.
    pub(crate) inner: Vec<RowReader>,
    /// Whether the loop itself runs once.
    pub(crate) once: bool,
}

impl RowReader {
    /// The slices of the loop and of those in it.
    pub(crate) fn all_slices(&self) -> Vec<RowSlice> {
        let inner = self.inner.iter().flat_map(Self::all_slices);
        self.taken.iter().copied().chain(inner).collect()
    }

    /// Whether a loop takes each row of `value` once, as far as the loop's bound says; that decides on speed alone.
    pub(crate) fn takes_each_once(&self, module: &Module, value: InstructionId, taken: RowSlice) -> bool {
        let extent = module.instruction(value).array().map_or(0, |array| array.dims[taken.dim]);
        let steps = crate::loops::bound(module, self.condition);
        let few = steps.is_some_and(|(_, steps)| steps.saturating_mul(taken.rows) <= extent);
        self.inner.is_empty() && few
    }
}

/// What is found in each loop of a module; nothing in scheduled modules, where loops keep their states.
pub(crate) fn in_each_loop(
    context: &Context<'_>,
    find: impl Fn(&Context<'_>, &Loops<'_>, InstructionId) -> Vec<Finding>,
) -> Vec<Finding> {
    let module = context.module;
    if module.is_scheduled() {
        return Vec::new();
    }
    let loops = Loops { module, users: context.users, callers: graph::callers(module) };
    let sites = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
    sites.flat_map(|(site, _)| find(context, &loops, site)).collect()
}

/// Where loops are looked up.
pub(crate) struct Loops<'a> {
    pub(crate) module: &'a Module,
    pub(crate) users: &'a Users,
    pub(crate) callers: Callers,
}

impl Loops<'_> {
    /// The reads of an element, if the loop can be changed and they are all there is; recursion is as deep as loops are nested.
    pub(crate) fn reader(&self, site: InstructionId, element: usize) -> Option<RowReader> {
        let module = self.module;
        let looping = module.instruction(site);
        let initial = *looping.operands.first()?;
        let body = looping.computation(&AttrKey::Body)?;
        let condition = looping.computation(&AttrKey::Condition)?;
        let root = module.computation(body).root;
        let plain = looping.opcode == Opcode::While
            && [initial, root].iter().all(|&tuple| module.instruction(tuple).opcode == Opcode::Tuple)
            && self.users.get(initial) == [site]
            && [body, condition].iter().all(|&called| self.callers[called].len() == 1)
            && self.is_unused_behind(site, element);
        let ([state], [asked]) = (&module.parameters(body)[..], &module.parameters(condition)[..]) else { return None };
        let changed = [site, initial, root, *state, *asked];
        let free = |&id: &InstructionId| {
            let inst = module.instruction(id);
            inst.attribute(&AttrKey::Sharding).is_none() && inst.control_predecessors().is_empty()
        };
        if !plain || !changed.iter().all(free) || !self.is_unused_behind(*asked, element) {
            return None;
        }
        let handed = *module.instruction(root).operands.get(element)?;
        let elements = self.elements(*state, element)?;
        let given = &module.instruction(initial).operands;
        let once = given.iter().filter(|&id| *id == given[element]).count() == 1;
        let mut reader = RowReader {
            site,
            initial,
            element,
            body,
            condition,
            taken: Vec::new(),
            inner: Vec::new(),
            once: self.runs_once(site),
        };
        for &read in &elements {
            self.add_reads(&mut reader, read, root)?;
        }
        let reads = !reader.taken.is_empty() || !reader.inner.is_empty();
        (once && reads && elements.contains(&handed)).then_some(reader)
    }

    /// Sorts the users of the element, as the body sees it, into slices and loops; `None` if there are others.
    fn add_reads(&self, reader: &mut RowReader, read: InstructionId, root: InstructionId) -> Option<()> {
        for &user in self.users.get(read) {
            let inst = self.module.instruction(user);
            let place = sole_place(&inst.operands, read)?;
            match inst.opcode {
                Opcode::Tuple if user == root => (place == reader.element).then_some(())?,
                Opcode::Tuple => {
                    let [inner] = self.users.get(user) else { return None };
                    reader.inner.push(self.reader(*inner, place)?);
                }
                Opcode::DynamicSlice if place == 0 => reader.taken.push(self.taken(user)?),
                _ => return None,
            }
        }
        Some(())
    }

    fn taken(&self, slice: InstructionId) -> Option<RowSlice> {
        let inst = self.module.instruction(slice);
        let (from, to) = (self.module.instruction(inst.operands[0]).array()?, inst.array()?);
        let mut cut = (0..to.rank()).filter(|&dim| to.dims[dim] != from.dims[dim]);
        let (dim, None) = (cut.next()?, cut.next()) else { return None };
        let rows = to.dims[dim];
        // The number of a row is computed in the type of the start.
        let start = self.module.instruction(inst.operands[1 + dim]).array()?.element_type;
        let counts = matches!(start, ElementType::S32 | ElementType::S64 | ElementType::U32 | ElementType::U64);
        let plain = from.with_dim(dim, rows) == *to && inst.control_predecessors().is_empty();
        (counts && plain).then_some(RowSlice { slice, dim, rows })
    }

    /// Whether an instruction is in no loop.
    fn runs_once(&self, site: InstructionId) -> bool {
        let callers = &self.callers[self.module.instruction(site).parent];
        callers.iter().all(|&caller| self.module.instruction(caller).opcode != Opcode::While && self.runs_once(caller))
    }

    /// Whether an instruction is computed from what an enclosing loop changes, so that XLA computes it in every iteration.
    pub(crate) fn changes(&self, id: InstructionId) -> bool {
        let module = self.module;
        let parent = module.instruction(id).parent;
        let [caller] = self.callers[parent][..] else { return false };
        let is_body = module.instruction(caller).computation(&AttrKey::Body) == Some(parent);
        let (Some(&state), true) = (module.parameters(parent).first(), is_body) else { return false };
        let handed = &module.instruction(module.computation(parent).root).operands;
        let element = |id: InstructionId| {
            let inst = module.instruction(id);
            let is_element = inst.opcode == Opcode::GetTupleElement && inst.operands[0] == state;
            is_element.then(|| usize::try_from(inst.int(&AttrKey::Index)?).ok()).flatten()
        };
        let changes = |at: usize| handed.get(at).is_some_and(|&next| element(next) != Some(at));
        let below = graph::cone(module, [id]);
        module.instructions_of(parent).any(|(id, _)| below[id] && element(id).is_some_and(changes))
    }

    /// What takes an element out of a state; `None` if the state is used as a whole.
    pub(crate) fn elements(&self, state: InstructionId, element: usize) -> Option<Vec<InstructionId>> {
        let module = self.module;
        let users = self.users.get(state);
        let is_root = |id: InstructionId| module.computation(module.instruction(id).parent).root == id;
        let taken = |&id: &InstructionId| module.instruction(id).opcode == Opcode::GetTupleElement;
        if !users.iter().all(taken) || is_root(state) {
            return None;
        }
        let wanted = i64::try_from(element).ok();
        Some(users.iter().copied().filter(|&id| module.instruction(id).int(&AttrKey::Index) == wanted).collect())
    }

    /// Whether nothing reads an element of a state.
    pub(crate) fn is_unused_behind(&self, state: InstructionId, element: usize) -> bool {
        let module = self.module;
        let unused = |id: &InstructionId| {
            self.users.get(*id).is_empty() && module.computation(module.instruction(*id).parent).root != *id
        };
        self.elements(state, element).is_some_and(|elements| elements.iter().all(unused))
    }
}

/// The only index at which `id` stands.
fn sole_place(operands: &[InstructionId], id: InstructionId) -> Option<usize> {
    let mut places = operands.iter().enumerate().filter(|(_, operand)| **operand == id).map(|(place, _)| place);
    let (place, None) = (places.next()?, places.next()) else { return None };
    Some(place)
}
