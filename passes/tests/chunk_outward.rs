//! Loops grown from the largest values: random programs before and after, and what becomes of programs of one kind each.

mod chunking;
mod common;
mod interpreter;

use std::collections::BTreeMap;

use hlo_ir::graph::Users;
use hlo_ir::{Module, Opcode, text, verify};
use hlo_memory::Bytes;
use hlo_passes::chunk::Chunk;
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass};

use chunking::{assert_same_results, graphs};
use common::parse;
use interpreter::random::Random;

/// Blocks of at most `bytes` in a module that has temporaries to spare.
fn offers(module: &Module, bytes: u64, exactness: Grade) -> Vec<Finding> {
    let options = Options { chunk_bytes: Some(Bytes(bytes)), min_saving: Bytes(1), exactness, ..Options::default() };
    let users = Users::of(module);
    let estimate = common::estimate(Bytes(1), Vec::new());
    let found = Chunk.find(&Context { module, users: &users, estimate: &estimate, options: &options });
    found.into_iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. })).collect()
}

/// Applies a finding and returns its note.
fn apply(module: &mut Module, finding: Finding) -> String {
    let Outcome::Rewrite { patch, note, .. } = finding.outcome else { panic!("only rewrites are offered") };
    let before = text::print(module);
    patch.apply(module).unwrap_or_else(|error| panic!("{error}\n{before}"));
    let violations = verify::verify(module);
    assert!(violations.is_empty(), "{violations:?}\n{before}\n=>\n{}", text::print(module));
    note
}

#[test]
fn random_programs_give_the_same_results() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..250 {
        let before = parse(&graphs::program(seed));
        let violations = verify::verify(&before);
        assert!(violations.is_empty(), "{violations:?}\n{}", text::print(&before));
        let mut random = Random(seed);
        let mut after = before.clone();
        let mut notes = Vec::new();
        for _ in 0..2 {
            let mut found = offers(&after, [1, 40, 100, 200][seed as usize % 4], Grade::HloExact);
            if found.is_empty() {
                break;
            }
            let chosen = random.range(0, found.len() as i64) as usize;
            notes.push(apply(&mut after, found.swap_remove(chosen)));
        }
        assert_same_results(&before, &after, seed);
        let loops = after.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While).count();
        *seen.entry("rewritten").or_default() += usize::from(!notes.is_empty());
        *seen.entry("twice").or_default() += usize::from(notes.len() > 1);
        *seen.entry("rest").or_default() += usize::from(notes.iter().any(|note| note.contains("then")));
        *seen.entry("several results").or_default() +=
            usize::from(notes.iter().any(|note| note.contains("in one loop")));
        *seen.entry("several loops").or_default() += usize::from(notes.iter().any(|note| note.contains(';')));
        *seen.entry("loop in a loop").or_default() += usize::from(loops > notes.len() + 1);
    }
    assert!(seen.len() == 6 && seen.values().all(|&count| count >= 4), "{seen:?}");
}

const COMBINERS: &str = "
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}
%most (c: f32[], d: f32[]) -> f32[] {
  %c = f32[] parameter(0)
  %d = f32[] parameter(1)
  ROOT %m = f32[] maximum(%c, %d)
}
%count (e: s32[], f: s32[]) -> s32[] {
  %e = s32[] parameter(0)
  %f = s32[] parameter(1)
  ROOT %n = s32[] add(%e, %f)
}
";

fn program(lines: &str) -> Module {
    parse(&format!("HloModule m\n{COMBINERS}\nENTRY %main {{\n{lines}\n}}\n"))
}

/// The notes of all offers.
fn notes(module: &Module, exactness: Grade) -> Vec<String> {
    let note = |finding: Finding| match finding.outcome {
        Outcome::Rewrite { note, .. } => Some(format!("{} [{}]", note, finding.grade.name())),
        Outcome::Missed(_) | Outcome::Withheld { .. } => None,
    };
    offers(module, 256, exactness).into_iter().filter_map(note).collect()
}

/// What the first offer of this very grade makes of a module.
fn first(module: &Module, grade: Grade) -> String {
    let mut after = module.clone();
    let found = offers(module, 256, grade).into_iter().find(|finding| finding.grade == grade);
    let found = found.expect("there is such an offer");
    apply(&mut after, found);
    text::print(&after)
}

/// Distances of all pairs, of which each row's smallest index is taken: nothing large is left.
const NEAREST: &str = "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %e = f32[64,32] exponential(%p)
  ROOT %s = f32[64] reduce(%e, %zero), dimensions={1}, to_apply=%sum";

#[test]
fn rows_of_a_product_are_reduced_block_by_block() {
    let found = notes(&program(NEAREST), Grade::HloExact);
    assert!(
        found.iter().any(|note| note.starts_with("64 blocks of 1 rows") && note.ends_with("[hlo-exact]")),
        "{found:?}"
    );
    assert!(notes(&program(NEAREST), Grade::Bitwise).is_empty(), "a dot on blocks is not the same bits");
}

#[test]
fn sums_of_floats_are_split_only_where_that_is_allowed() {
    let rows = NEAREST.replace("f32[64] reduce", "f32[32] reduce").replace("dimensions={1}, to", "dimensions={0}, to");
    let lines = rows
        .replace("dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "broadcast(%w), dimensions={0}");
    let lines = format!("  %w = f32[64] parameter(2)\n{lines}");
    let grades = |grade| notes(&program(&lines), grade).join(";");
    assert!(!grades(Grade::HloExact).contains("reassociate"));
    assert!(grades(Grade::Reassociate).contains("[reassociate]"), "{}", grades(Grade::Reassociate));
}

#[test]
fn partial_sums_start_from_minus_zero_and_the_loop_from_the_initial_value() {
    let lines = "  %x = f32[64] parameter(0)
  %two = f32[] constant(2)
  %wide = f32[64,32] broadcast(%x), dimensions={0}
  %e = f32[64,32] exponential(%wide)
  %g = f32[64,32] negate(%e)
  ROOT %s = f32[32] reduce(%g, %two), dimensions={0}, to_apply=%sum";
    let after = first(&program(lines), Grade::Reassociate);
    assert!(after.contains("f32[] constant(-0)"), "+0 would turn a sum of -0 into +0\n{after}");
    assert!(after.contains("f32[32] broadcast(%two)"), "the initial value counts once\n{after}");
    let most = lines.replace("to_apply=%sum", "to_apply=%most").replace("constant(2)", "constant(-inf)");
    let found = notes(&program(&most), Grade::HloExact);
    assert!(found.iter().any(|note| note.contains("[hlo-exact]")), "{found:?}");
}

#[test]
fn integer_sums_are_split_bit_by_bit() {
    let lines = "  %x = s32[64] parameter(0)
  %zero = s32[] constant(0)
  %wide = s32[64,32] broadcast(%x), dimensions={0}
  %t = s32[64,32] iota(), iota_dimension=1
  %e = s32[64,32] multiply(%wide, %t)
  %g = s32[64,32] sort(%e), dimensions={1}, to_apply=%less
  ROOT %s = s32[32] reduce(%g, %zero), dimensions={0}, to_apply=%count";
    let less = "%less (n: s32[], o: s32[]) -> pred[] {
  %n = s32[] parameter(0)
  %o = s32[] parameter(1)
  ROOT %p = pred[] compare(%n, %o), direction=LT
}";
    let before = parse(&format!("HloModule m\n{COMBINERS}{less}\nENTRY %main {{\n{lines}\n}}\n"));
    let mut after = before.clone();
    let found = offers(&before, 256, Grade::Bitwise).into_iter().next().expect("integers do not round");
    assert_eq!(found.grade, Grade::Bitwise);
    apply(&mut after, found);
    assert_same_results(&before, &after, 3);
}

/// Trap: both loops would compute the product on other blocks, and the comparison behind it could decide differently in each.
#[test]
fn a_decision_on_a_rounded_value_is_not_taken_twice() {
    let lines = "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %z = f32[64,32] broadcast(%zero), dimensions={}
  %c = pred[64,32] compare(%p, %z), direction=GT
  %e = f32[64,32] exponential(%p)
  %g = f32[64,32] select(%c, %e, %z)
  %rows = f32[64] reduce(%g, %zero), dimensions={1}, to_apply=%sum
  %columns = f32[32] reduce(%g, %zero), dimensions={0}, to_apply=%sum
  ROOT %t = (f32[64], f32[32]) tuple(%rows, %columns)";
    let several = |lines: &str| notes(&program(lines), Grade::HloExact).iter().any(|note| note.contains(';'));
    assert!(!several(lines), "two loops would compare the product");
    let smooth = lines.replace("select(%c, %e, %z)", "multiply(%e, %p)");
    assert!(several(&smooth), "rounding alone does no harm");
}

/// Trap: the same value along two dimensions.
#[test]
fn one_value_in_two_dimensions_is_no_single_axis() {
    let lines = "  %x = s32[16,16] parameter(0)
  %y = s32[16,16] multiply(%x, %x)
  %turned = s32[16,16] transpose(%y), dimensions={1,0}
  %both = s32[16,16] add(%y, %turned)
  %square = s32[16,16] dot(%both, %both), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %zero = s32[] constant(0)
  ROOT %s = s32[16] reduce(%square, %zero), dimensions={1}, to_apply=%count";
    let before = program(lines);
    let found = offers(&before, 64, Grade::HloExact);
    for finding in found {
        let mut after = before.clone();
        apply(&mut after, finding);
        assert_same_results(&before, &after, 5);
    }
}

/// Trap: row numbers beyond 32 bits.
#[test]
fn counters_are_wide_where_rows_are() {
    let lines = NEAREST.replace("64", "8589934592");
    let after = first(&program(&lines), Grade::HloExact);
    assert!(after.contains("%block_number = s64[]"), "{after}");
}

/// Trap: what has a state, an effect or an unknown meaning is never repeated.
#[test]
fn random_states_and_unknown_calls_are_not_moved() {
    for source in [
        "rng-bit-generator(%state), algorithm=rng_default",
        "custom-call(%state), custom_call_target=\"unknown\", custom_call_has_side_effect=true",
    ] {
        let lines = format!(
            "  %state = u64[2] parameter(0)
  %zero = f32[] constant(0)
  %both = (u64[2], u32[64,32]) {source}
  %bits = u32[64,32] get-tuple-element(%both), index=1
  %f = f32[64,32] convert(%bits)
  %e = f32[64,32] exponential(%f)
  ROOT %s = f32[64] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum"
        );
        let before = program(&lines);
        for finding in offers(&before, 256, Grade::HloExact) {
            let mut after = before.clone();
            apply(&mut after, finding);
            let opcode = source.split('(').next().expect("it names an opcode");
            assert_eq!(text::print(&after).matches(&format!(" {opcode}(")).count(), 1);
        }
    }
}

/// Trap: a plan must not be found again and again in what it made.
#[test]
fn offers_come_to_an_end() {
    let mut module = program(NEAREST);
    for round in 0.. {
        let Some(found) = offers(&module, 256, Grade::HloExact).into_iter().next() else { break };
        apply(&mut module, found);
        assert!(round < 4, "{}", text::print(&module));
    }
}
