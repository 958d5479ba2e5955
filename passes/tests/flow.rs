//! Dimension flow against the meaning of the opcodes: for random instructions, each dimension and each block, the block of the result is
//! what the restricted instruction computes from the blocks of the operands that `pull` asks for.
//!
//! Pins `passes/src/flow/mod.rs`, `passes/src/flow/movement.rs`, `passes/src/flow/indexed.rs`, `passes/src/flow/windowed.rs`,
//! `passes/src/flow/contract.rs`, `passes/src/flow/restrict.rs`.

use crate::flow_cases;

use std::collections::BTreeMap;

use hlo_ir::{Instruction, InstructionId, Module, Opcode, Shape, text};
use hlo_passes::flow::{OperandFlow, Rows, Step, has_rule, pull, restrict};

use crate::interpreter::random::Random;
use crate::interpreter::tensor::Tensor;
use crate::interpreter::{Data, apply};

const ROUNDS: u64 = 20;

/// Operands of the root, and its result.
struct Whole {
    module: Module,
    operands: Vec<Tensor>,
    result: Vec<Tensor>,
}

impl Whole {
    fn random(source: &str, random: &mut Random) -> Self {
        let module = text::parse(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
        let violations = hlo_ir::verify::verify(&module);
        assert!(violations.is_empty(), "{violations:?}\n{source}");
        let root = module.computation(module.entry()).root;
        let array = |&id: &InstructionId| random.tensor(module.instruction(id).array().expect("operands are arrays"));
        let operands: Vec<Tensor> = module.instruction(root).operands.iter().map(array).collect();
        let result = compute(&module, module.instruction(root), &operands);
        Self { module, operands, result }
    }
    fn root(&self) -> InstructionId {
        self.module.computation(self.module.entry()).root
    }
}

fn compute(module: &Module, inst: &Instruction, operands: &[Tensor]) -> Vec<Tensor> {
    let operands: Vec<Data> = operands.iter().cloned().map(Data::Array).collect();
    apply(module, inst, &operands.iter().collect::<Vec<_>>()).arrays().into_iter().cloned().collect()
}

/// Checks one dimension. `Ok` names the flows; `Err` is the code of the barrier.
fn check(whole: &Whole, dim: usize, random: &mut Random) -> Result<String, &'static str> {
    let flows = pull(&whole.module, whole.root(), dim).map_err(|barrier| barrier.code)?;
    let inst = whole.module.instruction(whole.root());
    assert_eq!(flows.len(), inst.operands.len(), "one flow per operand");
    let extent = whole.result[0].shape.dims[dim];
    let rows: Vec<Option<(usize, Rows)>> = flows
        .iter()
        .map(|flow| match *flow {
            OperandFlow::Block { dim, step } => {
                Some((dim, Rows::IDENTITY.then(step).expect("one step is always whole")))
            }
            OperandFlow::Whole => None,
        })
        .collect();
    let granule = rows.iter().flatten().map(|(_, rows)| rows.granule()).max().unwrap_or(1);
    for _ in 0..3 {
        let len = granule * random.range(1, extent / granule + 1);
        let start = granule * random.range(0, (extent - len) / granule + 1);
        let blocks: Vec<Tensor> = whole
            .operands
            .iter()
            .zip(&rows)
            .map(|(operand, rows)| match rows {
                None => operand.clone(),
                Some((dim, rows)) => {
                    assert!(rows.fits(extent, operand.shape.dims[*dim]), "{} pulls rows that do not exist", inst.name);
                    operand.rows(*dim, rows.start(start, len), rows.len(len))
                }
            })
            .collect();
        let block = restrict(inst, dim, len, inst.operands.to_vec());
        assert_legal(&block, &blocks);
        let computed = compute(&whole.module, &block, &blocks);
        let expected: Vec<Tensor> = whole.result.iter().map(|result| result.rows(dim, start, len)).collect();
        assert_eq!(
            computed,
            expected,
            "rows {start}..{} of dimension {dim} of\n{}",
            start + len,
            text::print(&whole.module)
        );
    }
    Ok(flows.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// What a rule answers for one operand. Rows that are not the same ones stand behind the dimension, with letters for the numbers of a random case: for each row of the
/// result `m` rows of the operand (`x m`), or one for `n` of them (`/ n`); not from the first one on (`+ k`); counted from the end (`mirrored`).
fn name(flow: &OperandFlow) -> String {
    let OperandFlow::Block { dim, step } = flow else { return "whole".to_owned() };
    let rows = match *step {
        Step::Mirror { .. } => " mirrored".to_owned(),
        Step::Affine { mul, div, offset } => {
            let parts = [(mul != 1, " x m"), (div != 1, " / n"), (offset != 0, " + k")];
            parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, part)| part).collect()
        }
    };
    format!("block {dim}{rows}")
}

/// The restricted instruction must be legal HLO on the blocks, not only computable.
fn assert_legal(block: &Instruction, blocks: &[Tensor]) {
    let shapes = blocks.iter().map(|tensor| Shape::Array(tensor.shape.clone()).without_layout().to_string());
    let shapes: Vec<String> = shapes.collect();
    // The computations come first, so they have the ids that the instruction knows.
    let mut module = text::parse(&flow_cases::module(&shapes, "s32[]", "constant", "")).expect("parameters are legal");
    let entry = module.entry();
    let mut patch = hlo_ir::edit::Patch::new(&module);
    let operands = module.parameters(entry).into();
    let new = patch.add(entry, Instruction { operands, ..block.clone() });
    patch.replace(module.computation(entry).root, new);
    patch.apply(&mut module).expect("an instruction on parameters makes no cycle");
    let violations = hlo_ir::verify::verify(&module);
    assert!(violations.is_empty(), "{violations:?}\n{}", text::print(&module));
}

/// For each kind of case, every answer that was seen.
fn answers() -> BTreeMap<&'static str, BTreeMap<String, u64>> {
    let mut answers: BTreeMap<&'static str, BTreeMap<String, u64>> = BTreeMap::new();
    for (name, source) in flow_cases::ALL {
        let seen = answers.entry(name).or_default();
        for round in 0..ROUNDS {
            let mut random = Random(round);
            let whole = Whole::random(&source(&mut random), &mut random);
            for dim in 0..whole.result[0].shape.rank() {
                let answer = check(&whole, dim, &mut random).unwrap_or_else(|code| format!("no: {code}"));
                *seen.entry(answer).or_default() += 1;
            }
        }
    }
    answers
}

#[test]
fn blocks_of_the_result_come_from_blocks_of_the_operands() {
    let describe = |(name, seen): (&'static str, BTreeMap<String, u64>)| {
        assert!(seen.keys().any(|answer| !answer.starts_with("no")), "{name} never says yes");
        let seen: Vec<String> = seen.into_keys().collect();
        format!("{name}\n  {}\n", seen.join("\n  "))
    };
    let table: String = answers().into_iter().map(describe).collect();
    insta::assert_snapshot!(table);
}

#[test]
fn every_rule_has_a_case() {
    let mut covered: Vec<Opcode> = Vec::new();
    for (_, source) in flow_cases::ALL {
        let module = text::parse(&source(&mut Random(1))).expect("cases are legal");
        covered.push(module.instruction(module.computation(module.entry()).root).opcode);
    }
    let missing = Opcode::all().filter(|opcode| has_rule(*opcode) && !covered.contains(opcode));
    assert_eq!(missing.map(Opcode::name).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn values_that_must_stand_in_memory_say_why() {
    let code = |line: &str| {
        let source = format!("HloModule m\n\nENTRY %main {{\n  %p = s32[4,2] parameter(0)\n  ROOT {line}\n}}\n");
        let module = text::parse(&source).expect("the line is legal");
        pull(&module, module.computation(module.entry()).root, 0).expect_err("there is no rule").code
    };
    assert_eq!(code("%q = s32[4,2] parameter(1)"), "leaf");
    assert_eq!(code("%c = s32[2] constant({1, 2})"), "leaf");
    assert_eq!(code("%c = s32[4,2] custom-call(%p), custom_call_target=\"f\""), "opaque");
    assert_eq!(code("%a = s32[4,2] all-to-all(%p), replica_groups={}, dimensions={0}"), "collective");
    assert_eq!(code("%n = s32[4,2] brand-new-thing(%p)"), "side-effect");
    assert_eq!(code("%d = s32[<=4,2] copy(%p)"), "dynamic-shape");
    assert_eq!(code("%t = s32[] get-dimension-size(%p), dimensions={0}"), "malformed");
}

#[test]
fn batches_that_their_indices_cannot_count_stay_together() {
    let of = |element: &str, batches: usize| {
        let gather = "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}";
        let source = format!(
            "HloModule m\n\nENTRY %main {{\n  %t = f32[{batches},5] parameter(0)\n  %i = {element}[{batches},1] parameter(1)\n  ROOT %g = f32[{batches}] gather(%t, %i), {gather}\n}}\n"
        );
        let module = text::parse(&source).expect("the line is legal");
        pull(&module, module.computation(module.entry()).root, 0).err().map(|barrier| barrier.code)
    };
    assert_eq!((of("s8", 128), of("s8", 129)), (None, Some("narrow-batch")));
    assert_eq!((of("u8", 256), of("u8", 257)), (None, Some("narrow-batch")));
    assert_eq!((of("s64", 1 << 40), of("u64", 1 << 40)), (None, None));
}
