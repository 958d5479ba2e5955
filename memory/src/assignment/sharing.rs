//! Whether an instruction's result may be written over one of its operands.
//!
//! Source: `AliasInfo::MayAlias` and `HloDataflowAnalysis::CanShareOperandBufferWithUser`
//! (xla/hlo/analysis/alias_info.cc, xla/hlo/analysis/hlo_dataflow_analysis.cc), without the hints of a GPU back end.

// Tests: `memory/tests/rules.rs`.

use hlo_ir::{AttrKey, Instruction, InstructionId, Module, Opcode, Shape};

use super::flow::Flow;
use super::shape_positions::ShapePosition;

impl Flow<'_> {
    /// Whether the value at `user`'s place may take over the memory of the value at `operand`'s place. The instruction of `operand`
    /// must be an operand of the instruction of `user`.
    pub(crate) fn can_share(&self, operand: ShapePosition, user: ShapePosition) -> bool {
        let operands = &self.module.instruction(self.places.owner(user)).operands;
        self.can_share_now(operand, user, operands, self.users.count(self.places.owner(operand)))
    }

    /// The same for a graph that has changed since the analysis: `operands` are those that the instruction of `user` has now, and `readers`
    /// counts the instructions that use the instruction of `operand` now.
    pub(crate) fn can_share_now(
        &self,
        operand: ShapePosition,
        user: ShapePosition,
        operands: &[InstructionId],
        readers: usize,
    ) -> bool {
        let (op_id, user_id) = (self.places.owner(operand), self.places.owner(user));
        let inst = self.module.instruction(user_id);
        if self.module.instruction(op_id).opcode == Opcode::Constant
            || !same_shape(self.places.shape(operand), self.places.shape(user))
        {
            return false;
        }
        if self.updates_in_place(operand, user) {
            return true;
        }
        match inst.opcode {
            Opcode::Fusion => operands.iter().position(|&id| id == op_id).is_some_and(|k| {
                let output = || self.places.tuple_index(user).first().map_or(0, |&index| index as usize);
                overwrites(inst, k, output).unwrap_or_else(|| self.fusion_shares(k, inst))
            }),
            Opcode::While | Opcode::Conditional => true,
            Opcode::DynamicUpdateSlice | Opcode::Scatter | Opcode::SetDimensionSize => {
                only_position(operands, op_id) == Some(0)
            }
            Opcode::TriangularSolve => only_position(operands, op_id) == Some(1),
            Opcode::Sort => readers == 1 && self.sort_shares(op_id, operands, user),
            Opcode::Call => self.call_shares(operand, inst, user_id),
            _ => {
                let k = operands.iter().position(|&id| id == op_id);
                k.is_some_and(|k| self.paths.is_elementwise(self.module, inst, k))
            }
        }
    }

    /// Whether the value at `operand` is what `user` must update in place to make its place.
    fn updates_in_place(&self, operand: ShapePosition, user: ShapePosition) -> bool {
        let value = self.values.at(operand);
        value.is_some() && self.in_place.sources(user).any(|source| self.values.at(source) == value)
    }

    /// A loop fusion may overwrite an operand that it reads elementwise on every path; an output fusion may add to it.
    fn fusion_shares(&self, k: usize, fusion: &Instruction) -> bool {
        let elementwise = || self.paths.is_elementwise(self.module, fusion, k);
        match fusion.word(&AttrKey::Kind) {
            Some("kLoop" | "kInput") => self.paths.is_elementwise_or_tuple(fusion, k),
            Some("kOutput") => accumulates(self.module, fusion, k).unwrap_or_else(elementwise),
            _ => elementwise(),
        }
    }

    fn sort_shares(&self, operand: InstructionId, operands: &[InstructionId], user: ShapePosition) -> bool {
        let index = self.places.tuple_index(user);
        operands.len() == 1
            || only_position(operands, operand).is_some_and(|k| index.first().is_some_and(|&first| first == k as i64))
    }

    /// A call shares if its only other reader is the callee's root, elementwise.
    fn call_shares(&self, operand: ShapePosition, call: &Instruction, call_id: InstructionId) -> bool {
        let Some(callee) = call.called_computations().next() else { return false };
        let root = self.module.computation(callee).root;
        let Some(value) = self.values.at(operand) else { return false };
        let uses = self.uses(value);
        let [a, b] = uses[..] else { return false };
        let (inner, outer) = if a.user == root { (a, b) } else { (b, a) };
        let root_inst = self.module.instruction(root);
        inner.user == root && outer.user == call_id && self.paths.is_elementwise(self.module, root_inst, inner.operand)
    }
}

/// Whether XLA:TPU says that an output of a fusion is written over operand `k`; `None` if its configuration names no such pairs. In each list
/// of the configuration stand operands by number, and behind the last operand the outputs.
fn overwrites(fusion: &Instruction, k: usize, output: impl Fn() -> usize) -> Option<bool> {
    let config = fusion.raw(&AttrKey::BackendConfig)?;
    let (_, lists) = config.split_once("\"aliasing_operands\":{\"lists\":[")?;
    let (lists, _) = lists.split_once("]}]")?;
    let output = fusion.operands.len() + output();
    let found = lists.split("\"indices\":[").skip(1).any(|list| {
        let numbers = list.split(']').next().unwrap_or_default().split(',');
        let numbers: Vec<usize> = numbers.filter_map(|number| number.trim().trim_matches('"').parse().ok()).collect();
        numbers.contains(&k) && numbers.contains(&output)
    });
    Some(found)
}

/// The position of `operand` among the operands, if it stands there exactly once.
fn only_position(operands: &[InstructionId], operand: InstructionId) -> Option<usize> {
    let mut positions = (0..operands.len()).filter(|&k| operands[k] == operand);
    positions.next().filter(|_| positions.next().is_none())
}

/// Whether an output fusion whose root adds to a dot or convolution reads operand `k` as the other summand only.
/// `None` if the root is no addition.
fn accumulates(module: &Module, fusion: &Instruction, k: usize) -> Option<bool> {
    let body = fusion.computation(&AttrKey::Calls)?;
    let root = module.computation(body).root;
    let add = module.instruction(root);
    if add.opcode != Opcode::Add {
        return None;
    }
    let is_product = |id: &InstructionId| matches!(module.instruction(*id).opcode, Opcode::Dot | Opcode::Convolution);
    let Some(product) = add.operands.iter().position(is_product) else { return Some(false) };
    let Some(&summand) = add.operands.get(1 - product.min(1)) else { return Some(false) };
    let uses = module.instructions_of(body).flat_map(|(_, inst)| &inst.operands).filter(|&&id| id == summand).count();
    Some(module.instruction(summand).parameter_number() == Some(k as i64) && uses == 1)
}

/// Whether two shapes agree in type, dimensions and layout.
fn same_shape(a: &Shape, b: &Shape) -> bool {
    match (a, b) {
        (Shape::Array(a), Shape::Array(b)) => a.compatible(b) && same_layout(a, b),
        (Shape::Tuple(a), Shape::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b)),
        (Shape::Buffer(a), Shape::Buffer(b)) => same_shape(a, b),
        (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
        _ => false,
    }
}

/// A layout that is not written is the row-major one.
fn same_layout(a: &hlo_ir::ArrayShape, b: &hlo_ir::ArrayShape) -> bool {
    match (&a.layout, &b.layout) {
        (Some(a), Some(b)) => a == b,
        (Some(one), None) | (None, Some(one)) => one.is_descending() && one.suffix.is_empty(),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the last instruction of `main` may be written over `%a`, or over part `index` of it, with the result's part `result`.
    fn shares_part(computations: &str, main: &str, index: &[i64], result: &[i64]) -> bool {
        let text = format!("HloModule m, is_scheduled=true\n\n{computations}\nENTRY %main {{\n{main}\n}}\n");
        let module = hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let flow = Flow::of(&module);
        let root = module.computation(module.entry()).root;
        let a = module.instructions_of(module.entry()).find(|(_, inst)| inst.name == "a").expect("there is an %a").0;
        let place = |id, index| flow.places.at(id, index).expect("the index is in the shape");
        flow.can_share(place(a, index), place(root, result))
    }
    fn shares(computations: &str, main: &str) -> bool {
        shares_part(computations, &format!("  %a = f32[8]{{0}} parameter(0)\n  {main}"), &[], &[])
    }

    #[test]
    fn elementwise_instructions_share_and_others_do_not() {
        assert!(shares("", "ROOT %r = f32[8]{0} negate(%a)"));
        assert!(shares("", "%b = f32[8]{0} parameter(1)\n  ROOT %r = f32[8]{0} add(%b, %a)"));
        assert!(!shares("", "ROOT %r = f32[8]{0} reverse(%a), dimensions={0}"));
        assert!(!shares("", "ROOT %r = s32[8]{0} convert(%a)"), "the element types differ");
        let map = "%f {\n  %x = f32[] parameter(0)\n  ROOT %n = f32[] negate(%x)\n}\n";
        assert!(shares(map, "ROOT %r = f32[8]{0} map(%a), dimensions={0}, to_apply=%f"));
    }

    #[test]
    fn layouts_must_agree() {
        let text =
            |layout: &str| format!("  %a = f32[8,8]{{1,0}} parameter(0)\n  ROOT %r = f32[8,8]{layout} negate(%a)");
        assert!(shares_part("", &text("{1,0}"), &[], &[]));
        assert!(shares_part("", &text(""), &[], &[]), "row-major is the default");
        assert!(!shares_part("", &text("{0,1}"), &[], &[]));
    }

    #[test]
    fn constants_are_never_overwritten() {
        assert!(!shares_part("", "  %a = f32[] constant(1)\n  ROOT %r = f32[] negate(%a)", &[], &[]));
    }

    #[test]
    fn updates_share_with_the_array_they_update_only() {
        let update = |operands: &str| {
            let main = format!(
                "%i = s32[] parameter(1)\n  %b = f32[8]{{0}} parameter(2)\n  ROOT %r = f32[8]{{0}} dynamic-update-slice({operands}, %i)"
            );
            shares("", &main)
        };
        assert!(update("%a, %b"));
        assert!(!update("%b, %a"));
        // In place all the same: the array that is updated is the one that must be updated.
        assert!(update("%a, %a"));
    }

    #[test]
    fn a_sort_shares_key_with_key_and_only_if_nobody_else_reads_it() {
        let less = "%less {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n  ROOT %lt = pred[] compare(%x, %y), direction=LT\n}\n";
        assert!(shares(less, "ROOT %r = f32[8]{0} sort(%a), dimensions={0}, to_apply=%less"));
        assert!(!shares(
            less,
            "%o = f32[8]{0} abs(%a)\n  ROOT %r = f32[8]{0} sort(%a), dimensions={0}, to_apply=%less"
        ));
        let two = "%less {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n  %v = f32[] parameter(2)\n  %w = f32[] parameter(3)\n  ROOT %lt = pred[] compare(%x, %y), direction=LT\n}\n";
        let main = "  %a = f32[8]{0} parameter(0)\n  %b = f32[8]{0} parameter(1)\n  ROOT %r = (f32[8]{0}, f32[8]{0}) sort(%b, %a), dimensions={0}, to_apply=%less";
        assert!(shares_part(two, main, &[], &[1]));
        assert!(!shares_part(two, main, &[], &[0]));
    }

    fn fusion(kind: &str, body: &str, operands: &str) -> bool {
        let computation = format!("%body {{\n  {body}\n}}\n");
        let main = format!(
            "%b = f32[8]{{0}} parameter(1)\n  ROOT %r = f32[8]{{0}} fusion({operands}), kind={kind}, calls=%body"
        );
        shares(&computation, &main)
    }

    #[test]
    fn a_loop_fusion_shares_if_all_paths_are_elementwise() {
        let body = |last: &str| {
            format!(
                "%p = f32[8]{{0}} parameter(0)\n  %q = f32[8]{{0}} parameter(1)\n  %n = f32[8]{{0}} sine(%p)\n  {last}"
            )
        };
        assert!(fusion("kLoop", &body("ROOT %s = f32[8]{0} add(%n, %q)"), "%a, %b"));
        let aside = body("%v = f32[8]{0} reverse(%p), dimensions={0}\n  ROOT %s = f32[8]{0} add(%n, %v)");
        assert!(!fusion("kLoop", &aside, "%a, %b"), "one path reads other positions");
        assert!(fusion("kLoop", &aside, "%b, %a"), "the second operand is not read at all");
        assert!(!fusion("kLoop", &body("ROOT %s = f32[8]{0} bitcast(%n)"), "%a, %b"));
        // The first position counts when an operand is passed twice.
        assert!(!fusion("kLoop", &aside, "%a, %a"));
    }

    #[test]
    fn an_output_fusion_shares_what_it_adds_to_a_product() {
        let body = |add: &str| {
            format!(
                "%p = f32[8]{{0}} parameter(0)\n  %m = f32[8,8]{{1,0}} broadcast(%p), dimensions={{0}}\n  %q = f32[8]{{0}} parameter(1)\n  %d = f32[8]{{0}} dot(%m, %p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  {add}"
            )
        };
        let plain = body("ROOT %s = f32[8]{0} add(%d, %q)");
        assert!(fusion("kOutput", &plain, "%b, %a"));
        assert!(!fusion("kOutput", &plain, "%a, %b"));
        let twice = body("%e = f32[8]{0} negate(%q)\n  ROOT %s = f32[8]{0} add(%q, %d)");
        assert!(!fusion("kOutput", &twice, "%b, %a"), "the summand has two readers");
    }

    #[test]
    fn a_call_shares_if_its_root_is_the_only_reader() {
        let callee = |root: &str| format!("%f {{\n  %x = f32[8]{{0}} parameter(0)\n  {root}\n}}\n");
        let main = "%n = f32[8]{0} negate(%a)\n  ROOT %r = f32[8]{0} call(%a), to_apply=%f";
        let alone = "ROOT %r = f32[8]{0} call(%a), to_apply=%f";
        assert!(shares(&callee("ROOT %y = f32[8]{0} negate(%x)"), alone));
        assert!(!shares(&callee("ROOT %y = f32[8]{0} negate(%x)"), main), "there is another reader outside");
        assert!(!shares(&callee("ROOT %y = f32[8]{0} reverse(%x), dimensions={0}"), alone));
    }
}
