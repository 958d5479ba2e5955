//! Weights of products: an operand that XLA widens, computes from parameters, or gathers waits for the other operand.

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::flow::is_product;
use crate::recompute::tie::{Ties, bytes, can_tie, can_wait_for, constants, finding};
use crate::{Context, Finding};

/// A product whose operand `early` could wait for `late`.
struct Product {
    dot: InstructionId,
    early: usize,
    late: usize,
}

/// One change that lets the weights of all products wait; `None` if there are fewer than two such products.
pub(super) fn find(context: &Context<'_>, computation: ComputationId) -> Option<Finding> {
    let module = context.module;
    let products = products(module, computation);
    let [_, .., last] = products.as_slice() else { return None };
    let widened = |product: &Product| f32_bytes(module, module.instruction(product.dot).operands[product.early]);
    let wasted: Bytes = products.iter().map(widened).sum();
    let mut ties = Ties::new(module, context.options.target);
    for product in &products {
        let inst = module.instruction(product.dot);
        let (early, late) = (inst.operands[product.early], inst.operands[product.late]);
        let mut new = inst.clone();
        new.operands[product.early] = late_copy(module, &mut ties, early, late);
        ties.patch.rewrite(product.dot, new);
    }
    let note = format!("the weights of {} products wait for the values they are multiplied with", products.len());
    Some(finding(context, last.dot, wasted, ties, note))
}

/// Products of something computed from an earlier product and something that is not.
fn products(module: &Module, computation: ComputationId) -> Vec<Product> {
    let heavy = |inst: &Instruction| is_product(inst.opcode);
    if !module.instructions_of(computation).any(|(_, inst)| heavy(inst)) {
        return Vec::new();
    }
    let constant = constants(module, computation);
    let mut late = SideTable::new(false);
    let mut products = Vec::new();
    for (id, inst) in module.instructions_of(computation) {
        let heavy = heavy(inst);
        late.set(id, heavy || inst.operands.iter().any(|&operand| late[operand]));
        let &[left, right] = inst.operands.as_slice() else { continue };
        let (early, late_place) = match (late[left], late[right]) {
            (true, false) => (1, 0),
            (false, true) => (0, 1),
            _ => continue,
        };
        let (value, other) = (inst.operands[early], inst.operands[late_place]);
        let large = f32_bytes(module, value) >= f32_bytes(module, other) || is_sharded(module, leaf(module, value));
        if heavy
            && !constant[value]
            && large
            && is_made_early(module, value)
            && can_wait_for(module, other)
            && can_tie(module, leaf(module, value))
        {
            products.push(Product { dot: id, early, late: late_place });
        }
    }
    products
}

/// Whether XLA makes something of its own from this operand before the product: a widened, computed or gathered copy.
fn is_made_early(module: &Module, value: InstructionId) -> bool {
    let source = leaf(module, value);
    let narrow = module.instruction(source).array().is_some_and(|array| {
        matches!(array.element_type, ElementType::Bf16 | ElementType::F16) || array.element_type.is_integer()
    });
    narrow || is_sharded(module, source)
}

fn is_sharded(module: &Module, id: InstructionId) -> bool {
    module.instruction(id).raw(&AttrKey::Sharding).is_some_and(|text| text.contains("devices="))
}

/// Bytes of a value once it is widened to f32.
fn f32_bytes(module: &Module, id: InstructionId) -> Bytes {
    let wide = module.instruction(id).array().map(|array| array.with_element_type(ElementType::F32));
    wide.and_then(|array| size::array_size(&array)).unwrap_or_default()
}

/// The array that an operand is computed from element by element: itself, or the largest operand on the way.
fn leaf(module: &Module, mut id: InstructionId) -> InstructionId {
    loop {
        let inst = module.instruction(id);
        let through = matches!(
            inst.opcode,
            Opcode::Convert | Opcode::Multiply | Opcode::Add | Opcode::Subtract | Opcode::Reshape | Opcode::Transpose
        );
        let largest = inst
            .operands
            .iter()
            .copied()
            .filter(|&operand| !matches!(module.instruction(operand).opcode, Opcode::Broadcast | Opcode::Constant));
        match largest.max_by_key(|&operand| bytes(module, operand)).filter(|_| through) {
            Some(operand) => id = operand,
            None => return id,
        }
    }
}

/// The operand computed again from a leaf that waits.
fn late_copy(module: &Module, ties: &mut Ties<'_>, value: InstructionId, after: InstructionId) -> InstructionId {
    let source = leaf(module, value);
    if value == source {
        return ties.tie(source, after);
    }
    let mut path = Vec::new();
    let mut id = value;
    while id != source {
        path.push(id);
        let inst = module.instruction(id);
        let next = inst
            .operands
            .iter()
            .copied()
            .filter(|&operand| !matches!(module.instruction(operand).opcode, Opcode::Broadcast | Opcode::Constant));
        id = next.max_by_key(|&operand| bytes(module, operand)).expect("the walk to the leaf went this way");
    }
    let mut before = source;
    let mut new = ties.tie(source, after);
    for id in path.into_iter().rev() {
        let mut copy = module.instruction(id).clone();
        copy.operands.iter_mut().filter(|operand| **operand == before).for_each(|operand| *operand = new);
        copy.span = None;
        new = ties.patch.add(copy.parent, copy);
        before = id;
    }
    new
}
