//! What becomes of the state of a loop of which one element is cut in a dimension: others are cut with it, sum up over the rows, or stay whole.

// Tests: `passes/tests/chunk_time.rs`, `passes/tests/chunk_loops.rs`.

use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};

use super::row_form::{FindLoops, Form, Node, Nodes, Role, RowLoop, Trace, state_element};
use super::row_trace::Tracer;
use crate::flow::{Rows, Value};

/// Looks at a `while` of which blocks of dimension `dim` of element `element` are there or wanted. `None` if they need more than blocks, if the
/// number of iterations depends on the rows, or if the loop counts along them.
pub(super) fn row_loop(
    module: &Module,
    facts: &mut Facts,
    (looping, element, dim): (InstructionId, usize, usize),
    is_plain: bool,
) -> Option<RowLoop> {
    let inst = module.instruction(looping);
    let start = module.instruction(*inst.operands.first()?);
    let elements = inst.shape.as_tuple()?;
    let body = inst.computation(&AttrKey::Body)?;
    facts.tracer.extent = *elements.get(element)?.as_array()?.dims.get(dim)?;
    let roles = RoleSolver { facts, module, elements, is_plain }.settle((element, dim))?;
    let body = facts.tracer.trace(module, (body, &facts.results), &roles)?;
    let condition = condition(module, inst.computation(&AttrKey::Condition)?, &roles)?;
    Some(RowLoop { looping, roles, starts: start.operands.to_vec(), body, condition })
}

/// What does not depend on the rows that are asked for.
#[derive(Debug)]
pub(super) struct Facts {
    tracer: Tracer,
    /// What an iteration makes of each element.
    results: Vec<Value>,
    /// For each element, which others the next value of it depends on.
    needs: Vec<Vec<bool>>,
}

impl Facts {
    /// Of a `while`; `None` if rows of it cannot be told apart at all. It writes `stacks` over zeros; loops inside are found by `inner`.
    pub(super) fn of(
        module: &Module,
        looping: InstructionId,
        stacks: Vec<usize>,
        inner: Box<dyn FindLoops>,
    ) -> Option<Self> {
        let inst = module.instruction(looping);
        let start = module.instruction(*inst.operands.first()?);
        if inst.opcode != Opcode::While || start.opcode != Opcode::Tuple || !inst.control_predecessors().is_empty() {
            return None;
        }
        let mut tracer = Tracer::of(stacks, inner);
        let results = tracer.results(module, inst.computation(&AttrKey::Body)?, inst.shape.as_tuple()?.len())?;
        Some(Self { needs: tracer.needs(module, &results)?, tracer, results })
    }

    /// For each element, which others the next value of it depends on.
    pub(super) fn dependences(&self) -> &[Vec<bool>] {
        &self.needs
    }
}

/// The condition of a loop, which must not ask for what belongs to rows.
fn condition(module: &Module, computation: ComputationId, roles: &[Role]) -> Option<Trace> {
    let mut tracer = Tracer::default();
    let results = tracer.results(module, computation, 0)?;
    let trace = tracer.trace(module, (computation, &results), roles)?;
    let is_whole = |(value, _): &Node| {
        state_element(module, *value).is_none_or(|element| roles.get(element) == Some(&Role::Whole))
    };
    trace.nodes.keys().all(is_whole).then_some(trace)
}

/// Finds the roles of the elements of a loop's state.
struct RoleSolver<'a> {
    facts: &'a mut Facts,
    module: &'a Module,
    elements: &'a [ShapeRef],
    /// Whether all rows have to be in one dimension, and nothing may sum over them.
    is_plain: bool,
}

/// What gets a role along with an element that its next value is made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Along {
    /// Elements that depend on the rows anyway are cut.
    Reached,
    /// Others are cut too.
    Cut,
    /// Those that sums are added to sum up as well.
    Sums,
}

impl RoleSolver<'_> {
    /// The roles if an element is cut in a dimension. Each round settles one more element at least; what follows from a role is looked at once, and all of it together at the end.
    fn settle(&mut self, (element, dim): (usize, usize)) -> Option<Vec<Role>> {
        let mut roles = vec![Role::Whole; self.elements.len()];
        let mut is_followed = vec![false; self.elements.len()];
        roles[element] = Role::Cut(dim);
        loop {
            let before = roles.clone();
            for element in 0..roles.len() {
                match roles[element] {
                    Role::Cut(dim) if !is_followed[element] => {
                        roles = self.with_cut(&roles, element, dim, Along::Cut)?;
                        is_followed[element] = true;
                    }
                    Role::Sum if !is_followed[element] => {
                        roles = self.with_sum(&roles, element, Along::Sums)?;
                        is_followed[element] = true;
                    }
                    Role::Whole if self.is_plain && self.is_reached(&roles, element) => {
                        roles = self.with_cut(&roles, element, dim, Along::Cut).filter(|_| self.fits(element, dim))?;
                    }
                    Role::Whole if self.is_reached(&roles, element) => {
                        if let Some(settled) = self.settled(&roles, element) {
                            roles = settled;
                            is_followed[element] = true;
                        }
                    }
                    Role::Whole | Role::Cut(_) | Role::Sum => {}
                }
            }
            if roles == before {
                let open = |element: &usize| roles[*element] == Role::Whole && self.is_reached(&roles, *element);
                let open: Vec<usize> = (0..roles.len()).filter(open).collect();
                if open.is_empty() {
                    return Some(roles);
                }
                // Sums that a loop inside adds up wait for each other.
                roles = open.into_iter().find_map(|element| self.with_sum(&roles, element, Along::Sums))?;
            }
        }
    }
    /// Whether what becomes of an element depends on what is cut or summed up.
    fn is_reached(&self, roles: &[Role], element: usize) -> bool {
        self.facts.needs[element].iter().zip(roles).any(|(&needed, &role)| needed && role != Role::Whole)
    }
    /// The roles with one for an element that depends on the rows: it has them in a dimension, which had better ask for nothing else that does not, or it sums them up.
    fn settled(&mut self, roles: &[Role], element: usize) -> Option<Vec<Role>> {
        let rank = self.elements[element].as_array()?.dims.len();
        for along in [Along::Reached, Along::Cut] {
            for dim in (0..rank).filter(|&dim| self.fits(element, dim)).collect::<Vec<_>>() {
                if let Some(settled) = self.with_cut(roles, element, dim, along) {
                    return Some(settled);
                }
            }
            if let Some(settled) = self.with_sum(roles, element, along) {
                return Some(settled);
            }
        }
        None
    }
    /// The roles with an element cut in a dimension, and with it all that its rows are computed from.
    fn with_cut(&mut self, roles: &[Role], element: usize, dim: usize, along: Along) -> Option<Vec<Role>> {
        let mut cut = roles.to_vec();
        cut[element] = Role::Cut(dim);
        let root = (self.facts.results[element], Form::Block(dim, Rows::IDENTITY));
        let nodes = self.facts.tracer.follow(self.module, [root], &cut)?;
        self.spread(roles, &nodes, &mut cut, along).then_some(cut)
    }
    /// The roles with an element that sums over rows, and all that these are computed from cut.
    fn with_sum(&mut self, roles: &[Role], element: usize, along: Along) -> Option<Vec<Role>> {
        let mut summed = roles.to_vec();
        summed[element] = Role::Sum;
        let root = (self.facts.results[element], Form::Total);
        let nodes = self.facts.tracer.follow(self.module, [root], &summed)?;
        self.spread(roles, &nodes, &mut summed, along).then_some(summed)
    }
    /// Gives roles to the elements that these are made from. Whether all are read as their roles allow.
    fn spread(&self, roles: &[Role], nodes: &Nodes, cut: &mut [Role], along: Along) -> bool {
        for &(value, form) in nodes.keys() {
            let Some(at) = state_element(self.module, value) else { continue };
            let may_cut = along >= Along::Cut || self.is_reached(roles, at);
            match (cut[at], form) {
                (Role::Cut(dim), Form::Block(at, Rows::IDENTITY)) if dim == at => {}
                (Role::Whole, Form::Block(dim, Rows::IDENTITY))
                    if may_cut && self.facts.tracer.fits(self.module, value, dim) =>
                {
                    cut[at] = Role::Cut(dim);
                }
                (Role::Whole, Form::Total) if along == Along::Sums => cut[at] = Role::Sum,
                (Role::Whole, Form::Whole) | (Role::Sum, Form::Total) => {}
                _ => return false,
            }
        }
        true
    }
    /// Whether an element has as many rows in a dimension as the loop.
    fn fits(&self, element: usize, dim: usize) -> bool {
        let array = self.elements[element].as_array();
        array.is_some_and(|array| !array.is_dynamic() && array.dims.get(dim) == Some(&self.facts.tracer.extent))
    }
}
