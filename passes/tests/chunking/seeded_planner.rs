//! Loops grown from the largest values: what is offered for a module, and what becomes of it.

use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, size};
use hlo_passes::chunk::Chunk;
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass};

use crate::common::{self, parse};

/// Blocks of at most `bytes` in a module that needs just its largest array.
pub(crate) fn offers(module: &Module, bytes: u64, exactness: Grade) -> Vec<Finding> {
    offers_of(module, bytes, exactness, Bytes(1), largest(module))
}

/// Bytes of the largest array.
pub(crate) fn largest(module: &Module) -> Bytes {
    let sizes = module.live_instructions().filter_map(|(_, inst)| size::array_size(inst.array()?));
    sizes.max().unwrap_or(Bytes(1))
}

/// The same in a module that needs `total`, leaving savings and values of less than `least` alone.
pub(crate) fn offers_of(module: &Module, bytes: u64, exactness: Grade, least: Bytes, total: Bytes) -> Vec<Finding> {
    let options = Options { chunk_bytes: Some(Bytes(bytes)), min_saving: least, exactness, ..Options::default() };
    offers_with(module, &options, total)
}

/// The same with any options.
pub(crate) fn offers_with(module: &Module, options: &Options, total: Bytes) -> Vec<Finding> {
    let users = Users::of(module);
    let estimate = common::estimate(total, Vec::new());
    let found = Chunk.find(&Context::of_input(module, &users, &estimate, options));
    found.into_iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. })).collect()
}

/// Applies a finding and returns its note.
pub(crate) fn apply(module: &mut Module, finding: Finding) -> String {
    let Outcome::Rewrite { patch, note, .. } = finding.outcome else { panic!("only rewrites are offered") };
    let before = text::print(module);
    patch.apply(module).unwrap_or_else(|error| panic!("{error}\n{before}"));
    let violations = verify::verify(module);
    assert!(violations.is_empty(), "{violations:?}\n{before}\n=>\n{}", text::print(module));
    note
}

/// Sums and a maximum of floats, and a sum of integers.
pub(crate) const COMBINERS: &str = "
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

pub(crate) fn program(lines: &str) -> Module {
    parse(&format!("HloModule m\n{COMBINERS}\nENTRY %main {{\n{lines}\n}}\n"))
}

/// The notes of all offers.
pub(crate) fn notes(module: &Module, exactness: Grade) -> Vec<String> {
    let note = |finding: Finding| match finding.outcome {
        Outcome::Rewrite { note, .. } => Some(format!("{} [{}]", note, finding.grade.name())),
        Outcome::Missed(_) | Outcome::Withheld { .. } => None,
    };
    offers(module, 256, exactness).into_iter().filter_map(note).collect()
}

/// What the first offer of this very grade makes of a module.
pub(crate) fn first(module: &Module, grade: Grade) -> String {
    let mut after = module.clone();
    let found = offers(module, 256, grade).into_iter().find(|finding| finding.grade == grade);
    let found = found.expect("there is such an offer");
    apply(&mut after, found);
    text::print(&after)
}

/// Distances of all pairs, of which each row's smallest index is taken: nothing large is left.
pub(crate) const NEAREST: &str = "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %e = f32[64,32] exponential(%p)
  ROOT %s = f32[64] reduce(%e, %zero), dimensions={1}, to_apply=%sum";

/// Logarithms of weighted sums of exponentials, of 16,384 rows and 8,192 columns. Without the weights XLA:CPU would never have all of the product, 512 MiB:
/// there would be nothing to plan.
pub(crate) const LONG_ROWS: &str = "  %x = f32[16384,8] parameter(0)
  %y = f32[8192,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[16384,8192] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %top = f32[16384] reduce(%p, %zero), dimensions={1}, to_apply=%most
  %tops = f32[16384,8192] broadcast(%top), dimensions={0}
  %d = f32[16384,8192] subtract(%p, %tops)
  %e = f32[16384,8192] exponential(%d)
  %c = f32[8192] reduce(%y, %zero), dimensions={1}, to_apply=%sum
  %w = f32[16384,8192] broadcast(%c), dimensions={1}
  %m = f32[16384,8192] multiply(%e, %w)
  %s = f32[16384] reduce(%m, %zero), dimensions={1}, to_apply=%sum
  %l = f32[16384] log(%s)
  %q = f32[16384] add(%l, %top)
  ROOT %loss = f32[] reduce(%q, %zero), dimensions={0}, to_apply=%sum";
