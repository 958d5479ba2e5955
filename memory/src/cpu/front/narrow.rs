//! XLA:TPU multiplies matrices of f32 numbers in bf16 unless a program asks for more: what only products read is stored with half the bytes.
//!
//! Read off what the compiler makes of training steps, not off its sources, which are not public. `operand_precision={high,highest}` keeps f32.

// Tests: `memory/tests/tpu.rs`.

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::build::share;
use super::cx::{Cx, Id};
use crate::cpu::traits;
use crate::hash::{IndexMap, IndexSet};

/// Converts the operands of products, and moves the conversions to where the values are made.
pub(crate) fn run(cx: &mut Cx<'_>) {
    for computation in cx.outside_fusions() {
        let order: Vec<Id> = cx.post_order(computation).into_iter().collect();
        let mut converted = IndexMap::default();
        for &id in &order {
            if traits::is_product(cx, id) && has_default_precision(cx, id) {
                convert_operands(cx, id, &mut converted);
            }
        }
        if !converted.is_empty() {
            move_up(cx, &order);
        }
    }
}

fn has_default_precision(cx: &Cx<'_>, id: Id) -> bool {
    cx.inst(id).raw(&AttrKey::OperandPrecision).is_none_or(|text| !text.contains("high"))
}

fn convert_operands(cx: &mut Cx<'_>, id: Id, converted: &mut IndexMap<Id, Id>) {
    for number in 0..2 {
        let operand = cx.operand(id, number);
        if cx.element_type(operand) == ElementType::F32 {
            let narrow = match converted.get(&operand) {
                Some(&known) => known,
                None => cx.convert(id, operand, ElementType::Bf16),
            };
            converted.insert(operand, narrow);
            cx.replace_operand(id, number, narrow);
        }
    }
}

/// A product writes what it is read as; what only moves data moves it narrow.
fn move_up(cx: &mut Cx<'_>, order: &[Id]) {
    let mut read_narrow: IndexSet<Id> = IndexSet::default();
    for &id in order.iter().rev() {
        let narrow = |user: Id| is_narrowing(cx, user) || (moves_data(cx, user) && read_narrow.contains(&user));
        let all = cx.user_count(id) > 0 && cx.each_user(id).all(narrow) && !cx.is_root(id);
        if all && cx.array(id).is_some_and(|array| array.element_type == ElementType::F32) {
            read_narrow.insert(id);
        }
    }
    for id in order.iter().copied().filter(|id| read_narrow.contains(id)) {
        if moves_data(cx, id) {
            narrow_operands(cx, id);
        } else if !traits::is_product(cx, id) {
            continue;
        }
        let narrow = share(cx.arr(id).with_element_type(ElementType::Bf16));
        cx.set_shape(id, narrow);
        let conversions: Vec<Id> = cx.each_user(id).filter(|&user| is_narrowing(cx, user)).collect();
        for user in conversions {
            cx.replace(user, id);
        }
    }
}

fn is_narrowing(cx: &Cx<'_>, id: Id) -> bool {
    cx.opcode(id) == Opcode::Convert && cx.element_type(id) == ElementType::Bf16
}

fn moves_data(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    matches!(
        cx.opcode(id),
        O::Reshape | O::Transpose | O::Bitcast | O::Reverse | O::Concatenate | O::Slice | O::Broadcast | O::Pad
    )
}

fn narrow_operands(cx: &mut Cx<'_>, id: Id) {
    for number in 0..cx.operands(id).len() {
        let operand = cx.operand(id, number);
        if cx.element_type(operand) == ElementType::F32 {
            let narrow = cx.convert(id, operand, ElementType::Bf16);
            cx.replace_operand(id, number, narrow);
        }
    }
}
