//! `dot-operands`: of which products the operands are changed, and to what.
//!
//! Pins `passes/src/dot_operands.rs`, `passes/src/swapped_dot.rs`.

use crate::common::{diff, estimate, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::dot_operands::DotOperands;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// The gradient of weights `[500,8]` over two dimensions of rows.
const PRODUCT: &str = "HloModule m

ENTRY %main {
  %scores = f32[4,64,500] parameter(0)
  %x = f32[4,64,8] parameter(1)
  %w = f32[500,8] dot(%scores, %x), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
  ROOT %r = f32[500,8] negate(%w)
}
";

fn find(module: &Module, options: &Options) -> Vec<Finding> {
    let (users, estimate) = (Users::of(module), estimate(Bytes(1 << 20), Vec::new()));
    DotOperands.find(&Context::of_input(module, &users, &estimate, options))
}

fn options() -> Options {
    Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() }
}

/// Whether the product stays as it is with some texts replaced.
fn stays(changes: &[(&str, &str)]) -> bool {
    find(&replaced(PRODUCT, changes), &options()).is_empty()
}

#[test]
fn the_small_operand_becomes_the_left_one() {
    let mut module = replaced(PRODUCT, &[]);
    let before = text::print(&module);
    let [finding] = &find(&module, &options())[..] else { panic!("one change") };
    assert_eq!((finding.grade, finding.wasted), (Grade::HloExact, Bytes(4 * 64 * 500 * 4)));
    let Outcome::Rewrite { patch, note, .. } = finding.outcome.clone() else { panic!("it can be made") };
    assert_eq!(note, "a product with its operands changed");
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    insta::assert_snapshot!(diff(&before, &text::print(&module)));
    assert!(find(&module, &options()).is_empty(), "once is enough");
}

#[test]
fn other_products_stay() {
    assert!(!stays(&[]));
    let last = [("[4,64,500]", "[500,4,64]"), ("lhs_contracting_dims={0,1}", "lhs_contracting_dims={1,2}")];
    assert!(stays(&last), "the last dimension is contracted");
    let middle = [("[4,64,500]", "[4,500,64]"), ("lhs_contracting_dims={0,1}", "lhs_contracting_dims={0,2}")];
    assert!(stays(&middle), "so it is here");
    let behind = [("[4,64,500] p", "[4,500,64,1] p"), ("{0,1}, rhs", "{0,2}, rhs"), ("f32[500,8] d", "f32[500,1,8] d")];
    let behind: Vec<_> = behind.into_iter().chain([("f32[500,8] negate(%w)", "f32[500,1,8] negate(%w)")]).collect();
    assert!(stays(&behind), "what is contracted does not lie in front");
    assert!(stays(&[("8]", "65]")]), "what would be transposed is a large part");
    assert!(!stays(&[("8]", "32]")]));
    assert!(stays(&[("f32", "f64")]), "quickly packed");
    assert!(stays(&[("HloModule m", "HloModule m, num_partitions=2")]));
    assert!(stays(&[("HloModule m", "HloModule m, is_scheduled=true")]));
    assert!(stays(&[("[4,64", "[4,1")]), "a hundredth of all memory is more");
}

#[test]
fn nothing_is_found_where_it_was_not_asked_for() {
    let module = replaced(PRODUCT, &[]);
    assert!(find(&module, &Options { exactness: Grade::Bitwise, ..options() }).is_empty());
    for target in [Target::Gpu, Target::Tpu] {
        assert!(find(&module, &Options { target, ..options() }).is_empty());
    }
    assert!(find(&module, &Options { min_saving: Bytes(1 << 20), ..options() }).is_empty());
}
