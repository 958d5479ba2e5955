//! Shapes that a text leaves out: `inferred/*.hlo`, with the module as it is printed as a snapshot. XLA's parser reads file and
//! snapshot as the same module (jaxlib 0.10.2).
//!
//! Pins `ir/src/infer/mod.rs`.

use std::fs;

use hlo_ir::{text, verify};

#[test]
fn left_out_shapes_follow_from_the_operands() {
    insta::glob!("inferred/*.hlo", |path| {
        let source = fs::read_to_string(path).expect("a readable file");
        let module = text::parse(&source).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(verify::verify(&module), []);
        insta::assert_snapshot!(text::print(&module));
    });
}
