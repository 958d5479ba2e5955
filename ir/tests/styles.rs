//! Print styles: what each leaves out, and that each can be read again as a legal module that computes the same.
//!
//! Pins `ir/src/text/style.rs`, `ir/src/text/print.rs`.

use std::fs;
use std::path::Path;

use hlo_ir::text::{self, Style};
use hlo_ir::{Module, verify};

const SOURCE: &str = "\
HloModule m, entry_computation_layout={(f32[8]{0})->f32[]}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b), metadata={op_name=\"sum\"}
}

ENTRY %main (x: f32[8]) -> f32[] {
  %x = f32[8]{0} parameter(0), origin={{\"x\"}}
  %zero = f32[] constant(0)
  %y = f32[8]{0} negate(%x), backend_config={\"outer_dimension_partitions\":[\"2\"]}, control-predecessors={%zero}
  ROOT %r = f32[] reduce(%y, %zero), dimensions={0}, to_apply=%sum, frontend_attributes={k=\"v\"}
}
";

fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}"))
}

#[test]
fn each_style_as_it_looks() {
    let module = parse(SOURCE);
    let styles = [Style::Long, Style::Short, Style::Canonical].map(|style| text::print_as(&module, style));
    assert_eq!(styles[0], SOURCE);
    insta::assert_snapshot!(styles.join("\n"));
}

#[test]
fn canonical_texts_of_modules_that_differ_in_names_and_sources_are_equal() {
    let other = "\
HloModule m, entry_computation_layout={(f32[8]{0})->f32[]}

%other.sum (p: f32[], q: f32[]) -> f32[] {
  %other.a = f32[] parameter(0)
  %other.b = f32[] parameter(1)
  ROOT %other.add = f32[] add(%other.a, %other.b), metadata={op_name=\"another\"}
}

ENTRY %other.main (x: f32[8]) -> f32[] {
  %other.x = f32[8]{0} parameter(0), origin={{\"x\"}}
  %other.zero = f32[] constant(0)
  %other.y = f32[8]{0} negate(%other.x), backend_config={\"outer_dimension_partitions\":[\"2\"]}, control-predecessors={%other.zero}
  ROOT %other.r = f32[] reduce(%other.y, %other.zero), dimensions={0}, to_apply=%other.sum, frontend_attributes={k=\"v\"}
}
";
    let canonical = |source| text::print_as(&parse(source), Style::Canonical);
    assert_eq!(canonical(other), canonical(SOURCE));
    assert_ne!(canonical(&other.replace("negate", "sine")), canonical(SOURCE));
}

/// Programs of the corpus.
fn programs() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/founding-small");
    let entries = folder.read_dir().expect("the corpus is a folder of this repository");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "hlo"));
    texts.map(|path| fs::read_to_string(path).expect("a readable file")).collect()
}

#[test]
fn every_style_is_read_again_and_says_no_less_when_printed_so_twice() {
    let programs = programs();
    assert!(programs.len() > 5, "the corpus is not where this test looks for it");
    for source in programs {
        let module = parse(&source);
        for style in [Style::Short, Style::Canonical] {
            let printed = text::print_as(&module, style);
            let again = parse(&printed);
            assert_eq!(verify::verify(&again), [], "{printed}");
            assert_eq!(text::print_as(&again, style), printed);
        }
        let short = parse(&text::print_as(&module, Style::Short));
        assert_eq!(text::print_as(&short, Style::Canonical), text::print_as(&module, Style::Canonical));
    }
}
