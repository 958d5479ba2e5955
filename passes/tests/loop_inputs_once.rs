//! When rows that cost more than to read them are computed in a loop: each is taken once, and large or beside long steps.

mod common;

use common::{estimate, parse};
use hlo_ir::graph::Users;
use hlo_ir::{Module, Opcode, text, verify};
use hlo_memory::Bytes;
use hlo_passes::loop_inputs::LoopInputs;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// A loop over four rows `[M,N]` of `%rows`, which `MADE` makes of the product of `%x` and `%w`; `STEP` is what a step does with one.
const LOOP: &str = "HloModule m

%body {
  %p = (s32[], f32[M,M], f32[4,M,N]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %sum = f32[M,M] get-tuple-element(%p), index=1
  %all = f32[4,M,N] get-tuple-element(%p), index=2
  %zero = s32[] constant(0)
  %row = f32[1,M,N] dynamic-slice(%all, %i, %zero, %zero), dynamic_slice_sizes={1,M,N}
  %flat = f32[M,N] reshape(%row)
  %made = f32[M,M] STEP
  %more = f32[M,M] add(%sum, %made)
  ROOT %r = (s32[], f32[M,M], f32[4,M,N]) tuple(%next, %more, %all)
}

%less {
  %q = (s32[], f32[M,M], f32[4,M,N]) parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(4)
  ROOT %c = pred[] compare(%k, %bound), direction=LT
}

ENTRY %main {
  %x = f32[4,M,64] parameter(0)
  %w = f32[64,N] parameter(1)
  %b = f32[M,M] parameter(2)
  %start = s32[] constant(0)
  %product = f32[4,M,N] dot(%x, %w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  %rows = f32[4,M,N] MADE
  %state = (s32[], f32[M,M], f32[4,M,N]) tuple(%start, %b, %rows)
  %loop = (s32[], f32[M,M], f32[4,M,N]) while(%state), condition=%less, body=%body
  %sums = f32[M,M] get-tuple-element(%loop), index=1
  ROOT %out = (f32[M,M], f32[4,M,N]) tuple(%sums, %OTHER)
}
";
const PRODUCT: &str = "dot(%flat, %flat), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
/// A step that takes no longer than its row.
const SLICE: &str = "slice(%flat), slice={[0:M], [0:M]}";

/// The loop with rows `[M,N]`.
fn module(m: usize, n: usize, made: &str, step: &str, other: &str) -> Module {
    let text = LOOP.replace("MADE", made).replace("STEP", step).replace("%OTHER", other);
    // What else is handed out is as large as the parameter that it is, or as the product.
    let text = if other == "%x" {
        text.replace("(f32[M,M], f32[4,M,N]) tuple(%sums", "(f32[M,M], f32[4,M,64]) tuple(%sums")
    } else {
        text
    };
    sized(&text, m, n)
}

fn sized(text: &str, m: usize, n: usize) -> Module {
    let sizes =
        text.replace("[4,M,", &format!("[4,{m},")).replace("[M,", &format!("[{m},")).replace(",M]", &format!(",{m}]"));
    let sizes = sizes.replace(",N]", &format!(",{n}]")).replace("{1,M,N}", &format!("{{1,{m},{n}}}"));
    parse(&sizes.replace("[1,M,", &format!("[1,{m},")).replace("0:M]", &format!("0:{m}]")))
}

fn find(module: &Module) -> Vec<Finding> {
    let options = Options { min_saving: Bytes(1), machine: Some(Machine::keeping_nothing()), ..Options::default() };
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
    assert_eq!(found(128, 2047, "tanh(%product)", SLICE), 0);
    assert_eq!(found(128, 2048, "tanh(%product)", SLICE), 1);
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
            "  %spread = f32[4,128,128,{terms}] broadcast(%product), dimensions={{0,1,2}}
  %wholes = f32[4,128,128,{terms}] broadcast(%whole), dimensions={{1,2,3}}
  %fewer = f32[4,128,128,{terms}] multiply(%spread, %wholes)\n  %none = f32[] constant(0)
  %rows = f32[4,M,N] reduce(%fewer, %none), dimensions={{3}}, to_apply=%add"
        );
        let sum = "\n\n%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)\n}";
        let text = LOOP.replacen("HloModule m", &format!("HloModule m{sum}"), 1).replace("STEP", SLICE);
        let whole = format!("  %whole = f32[128,128,{terms}] parameter(3)\n{made}");
        let text = text.replace("  %rows = f32[4,M,N] MADE", &whole).replace(", %OTHER", ", %x");
        let text = text.replace("(f32[M,M], f32[4,M,N]) tuple(%sums", "(f32[M,M], f32[4,M,64]) tuple(%sums");
        find(&sized(&text, 128, 128)).len()
    };
    assert_eq!((summed(31), summed(32)), (0, 1), "of 2 MiB, with as much that every row is multiplied with");
}
