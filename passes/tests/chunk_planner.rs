//! `chunk`: loops grown from the largest values: random programs before and after, and what becomes of programs of one kind each.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/seeded_planner.rs`, `passes/src/chunk/accumulate.rs`, `passes/src/chunk/convolve.rs`.

use std::collections::BTreeMap;

use hlo_ir::{Module, Opcode, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::{Grade, Options, Outcome};

use crate::chunking::seeded_planner::{COMBINERS, NEAREST, apply, first, largest, notes, offers, offers_with, program};
use crate::chunking::{assert_same_results, graphs};
use crate::common::parse;
use crate::interpreter::random::Random;

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
            let bytes = Some(Bytes([1, 40, 100, 200][seed as usize % 4]));
            // Every third one where memory is short.
            let budget = (seed % 3 == 0).then_some(Bytes::ZERO);
            let options = Options {
                chunk_bytes: bytes,
                min_saving: Bytes(1),
                exactness: Grade::HloExact,
                budget,
                ..Options::default()
            };
            let mut found = offers_with(&after, &options, largest(&after));
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

#[test]
fn rows_of_a_product_are_reduced_block_by_block() {
    let found = notes(&program(NEAREST), Grade::HloExact);
    assert!(
        found.iter().any(|note| note.starts_with("64 blocks of 1 rows") && note.ends_with("[hlo-exact]")),
        "{found:?}"
    );
    assert!(notes(&program(NEAREST), Grade::Bitwise).is_empty(), "a dot on blocks is not the same bits");
}

/// A scatter cut along its windows is written block by block: it is no accumulator that the loop could start from the sum behind it.
#[test]
fn a_sum_behind_a_scatter_that_is_written_in_columns_stays() {
    let lines = "  %v = f32[40,6] parameter(0)
  %i = s32[40,1] parameter(1)
  %t = f32[5,6] parameter(2)
  %w = f32[40,6] multiply(%v, %v)
  %s = f32[40,6] sort(%w), dimensions={0}, is_stable=true, to_apply=%less
  %zero = f32[] constant(0)
  %z = f32[5,6] broadcast(%zero), dimensions={}
  %g = f32[5,6] scatter(%z, %i, %s), update_window_dims={1}, inserted_window_dims={0}, \
         scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum
  ROOT %y = f32[5,6] add(%g, %t)";
    let less = "%less (p: f32[], q: f32[]) -> pred[] {
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %l = pred[] compare(%p, %q), direction=LT
}";
    let before = parse(&format!("HloModule m\n{COMBINERS}\n{less}\nENTRY %main {{\n{lines}\n}}\n"));
    // How many offers scatter inside the loop.
    let inside = |exactness: Grade| {
        let of = |finding| {
            let mut after = before.clone();
            apply(&mut after, finding);
            assert_same_results(&before, &after, 1);
            let entry = after.entry();
            after.live_instructions().any(|(_, inst)| inst.opcode == Opcode::Scatter && inst.parent != entry)
        };
        offers(&before, 40, exactness).into_iter().map(of).filter(|&inside| inside).count()
    };
    assert!(inside(Grade::HloExact) > 0, "no loop writes columns");
    assert_eq!(inside(Grade::Bitwise), 0, "XLA would have scattered into the sum");
}

/// A loop would copy an argument if it wrote what the argument is reshaped to, for a sort that needs all of it.
#[test]
fn a_loop_does_not_write_what_an_argument_is_reshaped_to() {
    let lines = "  %a = f32[8,8,128] parameter(0)
  %r = f32[64,128] reshape(%a)
  %e = f32[64,128] exponential(%r)
  %t = f32[64,128] transpose(%e), dimensions={0,1}
  %c = f32[64,128] sort(%t), dimensions={1}, to_apply=%less
  %nought = f32[] constant(-inf)
  %s = f32[64] reduce(%c, %nought), dimensions={1}, to_apply=%most
  %all = f32[64,128] sort(%VIEW), dimensions={0}, to_apply=%less
  %o = f32[64] reduce(%all, %nought), dimensions={1}, to_apply=%most
  ROOT %both = f32[64] add(%s, %o)";
    let less = "%less (p: f32[], q: f32[]) -> pred[] {
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %l = pred[] compare(%p, %q), direction=LT
}";
    let notes = |view: &str| {
        let lines = lines.replace("VIEW", view);
        notes(&parse(&format!("HloModule m\n{COMBINERS}\n{less}\nENTRY %main {{\n{lines}\n}}\n")), Grade::HloExact)
    };
    assert!(notes("r").contains(&"64 blocks of 1 rows [hlo-exact]".to_owned()), "{:?}", notes("r"));
    let both = "8 blocks of 8 rows, 2 results in one loop [hlo-exact]".to_owned();
    assert!(notes("e").contains(&both), "what is computed is written: {:?}", notes("e"));
}

/// Groups of `width` numbers, made of a row, are reduced.
fn groups(width: i64, t: &str, init: &str, combiner: &str) -> Vec<String> {
    let rows = 4096 / width;
    let lines = format!(
        "  %x = {t}[4096] parameter(0)
  %init = {t}[] constant({init})
  %e = {t}[4096] multiply(%x, %x)
  %g = {t}[{rows},{width}] reshape(%e)
  ROOT %s = {t}[{rows}] reduce(%g, %init), dimensions={{1}}, to_apply=%{combiner}"
    );
    notes(&program(&lines), Grade::HloExact)
}

#[test]
fn a_reduction_that_reads_memory_does_so_through_a_reshape() {
    assert!(groups(64, "f32", "-inf", "most").iter().any(|note| note.ends_with("[hlo-exact]")));
    // Integers are reduced in two steps where there are more than 32, and on the fly otherwise.
    assert!(groups(64, "s32", "0", "count").iter().any(|note| note.ends_with("[bitwise]")));
    assert_eq!(groups(32, "s32", "0", "count"), Vec::<String>::new());
}

#[test]
fn sums_of_floats_are_split_only_where_that_is_allowed() {
    let lines = "  %w = f32[64] parameter(2)
  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[64,32] broadcast(%w), dimensions={0}
  %e = f32[64,32] exponential(%p)
  ROOT %s = f32[32] reduce(%e, %zero), dimensions={0}, to_apply=%sum";
    let grades = |grade| notes(&program(lines), grade).join(";");
    assert!(!grades(Grade::HloExact).contains("reassociate"));
    assert!(grades(Grade::Reassociate).contains("[reassociate]"), "{}", grades(Grade::Reassociate));
}

#[test]
fn partial_sums_start_from_minus_zero_and_the_loop_from_the_initial_value() {
    let reduced = |initial: &str, combiner: &str| {
        program(&format!(
            "  %x = f32[64] parameter(0)
  %two = f32[] constant({initial})
  %wide = f32[64,32] broadcast(%x), dimensions={{0}}
  %e = f32[64,32] exponential(%wide)
  %g = f32[64,32] negate(%e)
  ROOT %s = f32[32] reduce(%g, %two), dimensions={{0}}, to_apply=%{combiner}"
        ))
    };
    let after = first(&reduced("2", "sum"), Grade::Reassociate);
    assert!(after.contains("f32[] constant(-0)"), "+0 would turn a sum of -0 into +0\n{after}");
    assert!(after.contains("f32[32] broadcast(%two)"), "the initial value counts once\n{after}");
    let found = notes(&reduced("-inf", "most"), Grade::HloExact);
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

/// Lines of the entry computation of what some offer makes of a module, for each offer.
fn entries(module: &Module) -> Vec<String> {
    let made = offers(module, 1024, Grade::HloExact).into_iter().map(|finding| {
        let mut after = module.clone();
        apply(&mut after, finding);
        text::print(&after)
    });
    made.map(|text| text[text.find("ENTRY").expect("a module has an entry")..].to_owned()).collect()
}

#[test]
fn rows_and_columns_of_one_array_have_loops_of_their_own() {
    // Without the second loop the first would have to write `%g`, of which the columns are summed.
    let lines = "  %x = f32[64,64] parameter(0)
  %zero = f32[] constant(0)
  %e = f32[64,64] exponential(%x)
  %u = f32[64] reduce(%e, %zero), dimensions={1}, to_apply=%sum
  %l = f32[64] log(%u)
  %ub = f32[64,64] broadcast(%l), dimensions={0}
  %f = f32[64,64] subtract(%x, %ub)
  %g = f32[64,64] exponential(%f)
  ROOT %v = f32[64] reduce(%g, %zero), dimensions={0}, to_apply=%sum";
    let made = entries(&program(lines));
    let best = made.iter().any(|entry| entry.matches(" while(").count() == 2 && !entry.contains(" exponential("));
    assert!(best, "{made:?}");
}

#[test]
fn one_loop_makes_what_another_one_needs_and_decisions_are_taken_on_one_value() {
    // `%d` can round differently in two loops, so one writes it; what compares it with its smallest is computed again.
    let lines = "  %a = f32[64,4] parameter(0)
  %b = f32[64,4] parameter(1)
  %zero = f32[] constant(0)
  %inf = f32[] constant(inf)
  %ab = f32[64,64,4] broadcast(%a), dimensions={0,2}
  %bb = f32[64,64,4] broadcast(%b), dimensions={1,2}
  %p = f32[64,64,4] multiply(%ab, %bb)
  %d = f32[64,64] reduce(%p, %zero), dimensions={2}, to_apply=%sum
  %m0 = f32[64] reduce(%d, %inf), dimensions={1}, to_apply=%most
  %m0b = f32[64,64] broadcast(%m0), dimensions={0}
  %c0 = pred[64,64] compare(%d, %m0b), direction=EQ
  %k0 = f32[64,64] convert(%c0)
  %n0 = f32[64] reduce(%k0, %zero), dimensions={1}, to_apply=%sum
  %m1 = f32[64] reduce(%d, %inf), dimensions={0}, to_apply=%most
  %m1b = f32[64,64] broadcast(%m1), dimensions={1}
  %c1 = pred[64,64] compare(%d, %m1b), direction=EQ
  %k1 = f32[64,64] convert(%c1)
  %n1 = f32[64] reduce(%k1, %zero), dimensions={0}, to_apply=%sum
  %n0b = f32[64,64] broadcast(%n0), dimensions={0}
  %n1b = f32[64,64] broadcast(%n1), dimensions={1}
  %w0 = f32[64,64] multiply(%k0, %n0b)
  %w1 = f32[64,64] multiply(%k1, %n1b)
  %w = f32[64,64] add(%w0, %w1)
  %wb = f32[64,64,4] broadcast(%w), dimensions={0,1}
  %q = f32[64,64,4] multiply(%p, %wb)
  %ga = f32[64,4] reduce(%q, %zero), dimensions={1}, to_apply=%sum
  %gb = f32[64,4] reduce(%q, %zero), dimensions={0}, to_apply=%sum
  ROOT %t = (f32[64,4], f32[64,4]) tuple(%ga, %gb)";
    let made = entries(&program(lines));
    let left = |entry: &String| entry.matches(" compare(").count() + entry.matches(" reduce(").count();
    let best = made.iter().find(|entry| left(entry) == 0).unwrap_or_else(|| panic!("{made:?}"));
    assert_eq!(best.matches(" while(").count(), 4, "{best}");
    // The one array of all pairs is the one that the first loop starts from.
    assert_eq!(
        best.matches("f32[64,64] broadcast(").count() + best.matches("f32[64,64]{1,0} broadcast(").count(),
        1,
        "{best}"
    );
}

/// What each product is compared with is known only when all of them were seen: a second loop multiplies again, but only where memory is short.
#[test]
fn products_are_made_again_only_for_a_budget_and_never_decided_on_twice() {
    let lines = |most: &str, less: &str| {
        format!(
            "  %a = f32[16,4] parameter(0)
  %b = f32[16,4] parameter(1)
  %zero = f32[] constant(0)
  %d = f32[16,16] dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
{most}
  %mosts = f32[16,16] broadcast(%most), dimensions={{}}
{less}
  %f = pred[16,16] is-finite(%less)
  %e = f32[16,16] select(%f, %less, %d)
  ROOT %u = f32[16] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum"
        )
    };
    // Programs that an interpreter runs are too small for blocks that nobody asks for.
    let whole = |lines: &str, budget| {
        let before = program(lines);
        let options =
            Options { chunk_bytes: Some(Bytes(256)), exactness: Grade::HloExact, budget, ..Options::default() };
        let options = Options { min_saving: Bytes(1), ..options };
        let made = offers_with(&before, &options, Bytes(1 << 12)).into_iter().map(|finding| {
            let mut after = before.clone();
            apply(&mut after, finding);
            assert_same_results(&before, &after, 11);
            text::print(&after).contains("f32[16,16]")
        });
        made.collect::<Vec<bool>>()
    };
    let (short, enough) = (Some(Bytes(1 << 8)), Some(Bytes(1 << 12)));
    let of_all = "  %most = f32[] reduce(%d, %zero), dimensions={0,1}, to_apply=%most";
    let below = lines(of_all, "  %less = f32[16,16] subtract(%d, %mosts)");
    assert!(whole(&below, short).contains(&false), "every product is made twice, on blocks");
    for budget in [None, enough] {
        let made = whole(&below, budget);
        assert!(!made.is_empty() && !made.contains(&false), "all products stand in memory: {made:?}");
    }
    let compared = "  %is = pred[16,16] compare(%d, %mosts), direction=EQ\n  %less = f32[16,16] convert(%is)";
    let made = whole(&lines(of_all, compared), short);
    assert!(!made.is_empty() && !made.contains(&false), "the largest may not be found again: {made:?}");
    // What is above zero is asked by one of the loops, of the products that it makes itself.
    let above = "  %zeros = f32[16,16] broadcast(%zero), dimensions={}
  %is = pred[16,16] compare(%d, %zeros), direction=GT";
    let chosen = "  %less = f32[16,16] select(%is, %mosts, %zeros)";
    assert!(whole(&lines(of_all, &format!("{above}\n{chosen}")), short).contains(&false), "one loop decides");
    // The first loop asks as well: one product could be above zero for one of them only.
    let asked = "  %kept = f32[16,16] select(%is, %d, %zeros)
  %most = f32[] reduce(%kept, %zero), dimensions={0,1}, to_apply=%most";
    let made = whole(&lines(&format!("{above}\n{asked}"), chosen), short);
    assert!(!made.is_empty() && !made.contains(&false), "two loops would decide: {made:?}");
}

/// The gradient of a maximum: shares of the rows that are the largest. A mask kept as a float would let through NaN where it is 0.
#[test]
fn a_mask_that_later_loops_convert_is_written_as_a_mask() {
    let lines = "  %x = f32[4096] parameter(0)
  %zero = f32[] constant(0)
  %y = f32[4096] negate(%x)
  %most = f32[] reduce(%y, %zero), dimensions={0}, to_apply=%most
  %mosts = f32[4096] broadcast(%most), dimensions={}
  %is = pred[4096] compare(%y, %mosts), direction=EQ
  %ones = f32[4096] convert(%is)
  %count = f32[] reduce(%ones, %zero), dimensions={0}, to_apply=%sum
  %share = f32[] divide(%most, %count)
  %shares = f32[4096] broadcast(%share), dimensions={}
  %part = f32[4096] multiply(%shares, %ones)
  %z = f32[4096] negate(%part)
  ROOT %least = f32[] reduce(%z, %zero), dimensions={0}, to_apply=%most";
    let before = program(lines);
    let mut seen = 0;
    for finding in offers(&before, 256, Grade::HloExact) {
        let mut after = before.clone();
        apply(&mut after, finding);
        assert_same_results(&before, &after, 7);
        let written = after.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::DynamicUpdateSlice);
        let written: Vec<String> = written.map(|(_, inst)| inst.shape.to_string()).collect();
        seen += usize::from(written.iter().any(|shape| shape.starts_with("pred")));
        assert!(!written.iter().any(|shape| shape.starts_with("f32")), "{}", text::print(&after));
    }
    assert!(seen > 0);
}

/// Columns of indices, read by a gather whose result is asked for at the places `padding` put it to: XLA never computes what joins them twice.
fn gathered(paddings: &[&str]) -> Module {
    let padded: Vec<String> = paddings
        .iter()
        .enumerate()
        .map(|(number, padding)| format!("  %p{number} = f32[64,2] pad(%column, %zero), padding=0_0x{padding}"))
        .collect();
    let last = if paddings.len() > 1 { "add(%p0, %p1)" } else { "negate(%p0)" };
    program(&format!(
        "  %i = s32[64] parameter(0)
  %t = f32[8,8] parameter(1)
  %zero = f32[] constant(0)
  %seven = s32[] constant(7)
  %most = s32[64] broadcast(%seven), dimensions={{}}
  %j = s32[64] subtract(%most, %i)
  %left = s32[64,1] reshape(%i)
  %right = s32[64,1] reshape(%j)
  %ij = s32[64,2] concatenate(%left, %right), dimensions={{1}}
  %g = f32[64] gather(%t, %ij), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}
  %column = f32[64,1] reshape(%g)
{}
  ROOT %r = f32[64,2] {last}",
        padded.join("\n")
    ))
}

#[test]
fn what_a_kernel_asks_for_at_two_places_stands_in_memory() {
    assert_eq!(notes(&gathered(&["0_1"]), Grade::Bitwise), [""; 0], "one kernel computes all");
    let twice = gathered(&["0_1", "1_0"]);
    let offered = offers(&twice, 256, Grade::Bitwise);
    assert!(!offered.is_empty() && offered.iter().all(|offer| offer.wasted == Bytes(64 * 2 * 4)), "{offered:?}");
    for offer in offered {
        let mut after = twice.clone();
        apply(&mut after, offer);
        assert_same_results(&twice, &after, 1);
    }
}

/// In a loop, XLA:CPU gives a convolution to its library only if dimensions have the library's order.
#[test]
fn convolutions_in_loops_have_the_order_of_the_library() {
    let library = |module: &Module| {
        let text = first(module, Grade::HloExact);
        let line = text.lines().find(|line| line.contains(" convolution(")).expect("it has one").to_owned();
        (line.contains("dim_labels=b01f_01io->b01f"), text.matches(" transpose(").count())
    };
    for (labels, images, kernel, made, transposes) in [
        ("b01f_01io->b01f", "8,6,6,2", "3,3,2,4", "8,4,4,4", 0),
        ("bf01_01io->bf01", "8,2,6,6", "3,3,2,4", "8,4,4,4", 2),
        ("bf01_oi01->bf01", "8,2,6,6", "4,2,3,3", "8,4,4,4", 3),
        ("b10f_01io->b01f", "8,6,6,2", "3,3,2,4", "8,4,4,4", 1),
    ] {
        let before = convolution(labels, images, kernel, made, "size=3x3");
        assert_eq!(library(&before), (true, transposes), "{labels}");
        for offer in offers(&before, 256, Grade::HloExact) {
            let mut after = before.clone();
            apply(&mut after, offer);
            assert_same_results(&before, &after, 3);
        }
    }
    let reversed = convolution("bf01_01io->bf01", "8,2,6,6", "3,3,2,4", "8,4,4,4", "size=3x3 rhs_reversal=1x1");
    assert_eq!(library(&reversed), (false, 0), "the library does not take it in any order");
    let options = Options {
        chunk_bytes: Some(Bytes(1 << 11)),
        min_saving: Bytes(1),
        exactness: Grade::HloExact,
        target: Target::Tpu,
        ..Options::default()
    };
    let before = convolution("bf01_01io->bf01", "64,2,6,6", "3,3,2,4", "64,4,4,4", "size=3x3");
    let made = offers_with(&before, &options, largest(&before));
    assert!(!made.is_empty());
    for offer in made {
        let mut after = before.clone();
        apply(&mut after, offer);
        assert!(!text::print(&after).contains(" transpose("), "other compilers choose for themselves");
    }
}

/// XLA:GPU takes a kernel in reverse order as it is, where the convolution is: turned along its windows, and nothing else.
#[test]
fn a_kernel_in_reverse_order_is_made_where_gpus_read_it() {
    let reversed = |operand: &str, shape: &str, dims: &str| {
        let operands = if operand == "x" { "%back, %k" } else { "%x, %back" };
        program(&format!(
            "  %x = f32[64,6,6,2] parameter(0)
  %k = f32[3,3,2,4] parameter(1)
  %back = f32[{shape}] reverse(%{operand}), dimensions={{{dims}}}
  %zero = f32[] constant(0)
  %c = f32[64,4,4,4] convolution({operands}), window={{size=3x3}}, dim_labels=b01f_01io->b01f
  %e = f32[64,4,4,4] negate(%c)
  ROOT %s = f32[64] reduce(%e, %zero), dimensions={{1,2,3}}, to_apply=%sum"
        ))
    };
    let (kernel, images) = ([3, 3, 2, 4], [64, 6, 6, 2]);
    for (before, whole, target, inside) in [
        (reversed("k", "3,3,2,4", "0,1"), kernel, Target::Cpu, false),
        (reversed("k", "3,3,2,4", "0,1"), kernel, Target::Gpu, true),
        (reversed("k", "3,3,2,4", "1,0"), kernel, Target::Gpu, true),
        (reversed("k", "3,3,2,4", "0"), kernel, Target::Gpu, false),
        (reversed("k", "3,3,2,4", "0,2"), kernel, Target::Gpu, false),
        (reversed("x", "64,6,6,2", "1,2"), images, Target::Gpu, false),
    ] {
        let options = Options {
            chunk_bytes: Some(Bytes(1 << 13)),
            min_saving: Bytes(1),
            exactness: Grade::HloExact,
            target,
            ..Options::default()
        };
        let mut in_loops = Vec::new();
        for offer in offers_with(&before, &options, largest(&before)) {
            let mut after = before.clone();
            apply(&mut after, offer);
            // Loops over features read parts of the kernel.
            let all = after.live_instructions().filter(|(_, inst)| {
                inst.opcode == Opcode::Reverse && inst.array().is_some_and(|array| array.dims[..] == whole)
            });
            in_loops.extend(all.map(|(_, inst)| inst.parent != after.entry()));
            assert_same_results(&before, &after, 3);
        }
        assert!(!in_loops.is_empty());
        assert_eq!(in_loops.contains(&true), inside, "{target:?} {}", text::print(&before));
    }
}

fn convolution(labels: &str, images: &str, kernel: &str, made: &str, window: &str) -> Module {
    program(&format!(
        "  %x = f32[{images}] parameter(0)
  %k = f32[{kernel}] parameter(1)
  %zero = f32[] constant(0)
  %c = f32[{made}] convolution(%x, %k), window={{{window}}}, dim_labels={labels}
  %e = f32[{made}] negate(%c)
  ROOT %s = f32[{}] reduce(%e, %zero), dimensions={{1,2,3}}, to_apply=%sum",
        made.split_once(',').expect("images come first").0
    ))
}

#[test]
fn ends_of_loops_have_conditions_of_their_own() {
    let says = |lines: &str, words: &str| {
        offers(&program(lines), 256, Grade::HloExact).into_iter().any(|finding| match finding.outcome {
            Outcome::Rewrite { conditions, .. } => conditions.iter().any(|condition| condition.text.contains(words)),
            Outcome::Missed(_) | Outcome::Withheld { .. } => false,
        })
    };
    let counted = "  %x = s32[64,8] parameter(0)
  %y = s32[32,8] parameter(1)
  %zero = s32[] constant(0)
  %p = s32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %n = s32[64,32] negate(%p)
  ROOT %s = s32[] reduce(%n, %zero), dimensions={0,1}, to_apply=%count";
    for (words, of_rows, of_all) in
        [("written exactly once", true, false), ("joined by the reduction's own", false, true)]
    {
        assert_eq!((says(NEAREST, words), says(counted, words)), (of_rows, of_all), "{words}");
    }
}

/// XLA:CPU has no slices of `bf16` and would widen the whole array.
#[test]
fn blocks_of_short_floats_are_written_as_integers() {
    let text = first(
        &program(
            "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %n = f32[64,32] negate(%p)
  ROOT %r = bf16[64,32] convert(%n)",
        ),
        Grade::HloExact,
    );
    let update =
        text.lines().find(|line| line.contains(" dynamic-update-slice(")).expect("it is written block by block");
    assert!(update.contains("= u16[64,32] "), "{text}");
    assert!(text.contains("= bf16[64,32] bitcast-convert("), "what the loop carries is what it was: {text}");
}
