//! `loop-inputs`: when rows that cost more than to read them are computed in a loop: each is taken once, and large or beside long steps.
//!
//! Pins `passes/src/loop_inputs.rs`.

use crate::common::{estimate, parse};
use hlo_ir::graph::Users;
use hlo_ir::{Module, Opcode, text, verify};
use hlo_memory::Bytes;
use hlo_passes::loop_inputs::LoopInputs;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// A loop over four rows `[m,n]` of `%rows`, which `made` makes of the product of `%x` and `%w`; `step` is what a step does with one.
/// `other` is handed out beside the result: the parameter `%x`, or something as large as the product.
fn looped([m, n]: [usize; 2], computations: &str, made: &str, step: &str, other: &str) -> String {
    let width = if other == "%x" { 64 } else { n };
    format!(
        "HloModule m

{computations}%body {{
  %p = (s32[], f32[{m},{m}], f32[4,{m},{n}]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %sum = f32[{m},{m}] get-tuple-element(%p), index=1
  %all = f32[4,{m},{n}] get-tuple-element(%p), index=2
  %zero = s32[] constant(0)
  %row = f32[1,{m},{n}] dynamic-slice(%all, %i, %zero, %zero), dynamic_slice_sizes={{1,{m},{n}}}
  %flat = f32[{m},{n}] reshape(%row)
  %made = f32[{m},{m}] {step}
  %more = f32[{m},{m}] add(%sum, %made)
  ROOT %r = (s32[], f32[{m},{m}], f32[4,{m},{n}]) tuple(%next, %more, %all)
}}

%less {{
  %q = (s32[], f32[{m},{m}], f32[4,{m},{n}]) parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(4)
  ROOT %c = pred[] compare(%k, %bound), direction=LT
}}

ENTRY %main {{
  %x = f32[4,{m},64] parameter(0)
  %w = f32[64,{n}] parameter(1)
  %b = f32[{m},{m}] parameter(2)
  %start = s32[] constant(0)
  %product = f32[4,{m},{n}] dot(%x, %w), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}
{made}
  %state = (s32[], f32[{m},{m}], f32[4,{m},{n}]) tuple(%start, %b, %rows)
  %loop = (s32[], f32[{m},{m}], f32[4,{m},{n}]) while(%state), condition=%less, body=%body
  %sums = f32[{m},{m}] get-tuple-element(%loop), index=1
  ROOT %out = (f32[{m},{m}], f32[4,{m},{width}]) tuple(%sums, {other})
}}
"
    )
}

const PRODUCT: &str = "dot(%flat, %flat), lhs_contracting_dims={1}, rhs_contracting_dims={1}";

/// A step of rows `[m,n]` that takes no longer than its row.
fn slice(m: usize) -> String {
    format!("slice(%flat), slice={{[0:{m}], [0:{m}]}}")
}

/// The loop with rows `[m,n]`.
fn module(m: usize, n: usize, made: &str, step: &str, other: &str) -> Module {
    parse(&looped([m, n], "", &format!("  %rows = f32[4,{m},{n}] {made}"), step, other))
}

fn find(module: &Module) -> Vec<Finding> {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let (users, estimate) = (Users::of(module), estimate(Bytes(0), vec![]));
    LoopInputs.find(&Context::of_input(module, &users, &estimate, &options))
}

fn found(m: usize, n: usize, made: &str, step: &str) -> usize {
    find(&module(m, n, made, step, "%x")).len()
}

/// Opcodes of the loop's body behind the change.
fn computed(mut module: Module) -> Vec<Opcode> {
    let [finding] = &find(&module)[..] else { panic!("one way to make the rows") };
    assert_eq!(finding.grade, Grade::HloExact);
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("they can be made") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    let body = module.live_instructions().find(|(_, inst)| inst.name == "made").expect("the step").1.parent;
    module.instructions_of(body).map(|(_, inst)| inst.opcode).collect()
}

fn count(opcodes: &[Opcode], wanted: Opcode) -> usize {
    opcodes.iter().filter(|&&opcode| opcode == wanted).count()
}

#[test]
fn products_of_many_rows_are_made_beside_others() {
    assert_eq!(found(128, 128, "negate(%product)", PRODUCT), 2, "from the product, or with it");
    assert_eq!(found(127, 256, "negate(%product)", PRODUCT), 1, "a product of few rows stays");
    assert_eq!(found(128, 127, "tanh(%product)", PRODUCT), 0, "a short row");
    assert_eq!(found(128, 128, "tanh(%product)", PRODUCT), 1);
    let made = computed(module(128, 128, "tanh(%product)", PRODUCT, "%x"));
    assert_eq!((count(&made, Opcode::Dot), count(&made, Opcode::Tanh)), (2, 1));
}

#[test]
fn large_rows_are_made_in_any_loop() {
    assert_eq!(found(128, 2047, "tanh(%product)", &slice(128)), 0);
    assert_eq!(found(128, 2048, "tanh(%product)", &slice(128)), 1);
}

#[test]
fn what_others_read_too_stays() {
    let made = computed(module(128, 128, "tanh(%product)", PRODUCT, "%product"));
    assert_eq!((count(&made, Opcode::Dot), count(&made, Opcode::Tanh)), (1, 1), "the product is read");
    assert_eq!(find(&module(128, 128, "tanh(%product)", PRODUCT, "%rows")).len(), 0, "the rows are a result");
}

#[test]
fn short_rows_that_are_summed_up_from_much_are_made_in_any_loop() {
    let summed = |terms: usize| {
        let made = format!(
            "  %whole = f32[128,128,{terms}] parameter(3)
  %spread = f32[4,128,128,{terms}] broadcast(%product), dimensions={{0,1,2}}
  %wholes = f32[4,128,128,{terms}] broadcast(%whole), dimensions={{1,2,3}}
  %fewer = f32[4,128,128,{terms}] multiply(%spread, %wholes)\n  %none = f32[] constant(0)
  %rows = f32[4,128,128] reduce(%fewer, %none), dimensions={{3}}, to_apply=%add"
        );
        let sum = "%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)\n}\n\n";
        find(&parse(&looped([128, 128], sum, &made, &slice(128), "%x"))).len()
    };
    assert_eq!((summed(31), summed(32)), (0, 1), "of 2 MiB, with as much that every row is multiplied with");
}
