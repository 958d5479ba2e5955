//! Layouts and normalized programs as XLA:GPU's own dumps show them (`xla_dump_hlo_pass_re=layout`, an H100).

use hlo_ir::{Module, text};

use super::super::{assign_layouts_for, simplify_for};
use super::*;
use crate::cpu::graph::{Graph, Origin};

fn graph_of(text: &str) -> Graph {
    let module = text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut graph = Graph::from_module(&module, Origin::Program);
    simplify_for(&mut graph, Target::Gpu);
    graph
}

/// A program behind layout assignment alone.
fn laid_out(text: &str) -> Module {
    let mut graph = graph_of(text);
    let mut cx = Cx::new(&mut graph);
    cx.move_to_prefaulted_lists();
    run(&mut cx, Target::Gpu);
    graph.to_module()
}

/// Says of instructions which layouts they have, the minor dimension first.
fn expect(module: &Module, layouts: &[(&str, &[i64])]) {
    for (name, layout) in layouts {
        let found = module.live_instructions().find(|(_, inst)| inst.name == **name);
        let array = found.and_then(|(_, inst)| inst.array()).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(array.minor_to_major().as_slice(), *layout, "{name} in\n{}", text::print(module));
    }
}

#[test]
fn sums_of_a_warp_ask_for_rows() {
    let text = include_str!("../../../../tests/device_programs/sum_of_32.hlo");
    expect(&laid_out(text), &[("m", &[1, 2, 0]), ("p", &[1, 2, 0]), ("vb", &[1, 2, 0])]);
    let shorter = include_str!("../../../../tests/device_programs/sum_of_24.hlo");
    expect(&laid_out(shorter), &[("m", &[2, 1, 0]), ("p", &[2, 1, 0])]);
}

#[test]
fn the_first_of_two_sums_decides() {
    let text = include_str!("../../../../tests/device_programs/sums_of_rows_and_columns.hlo");
    expect(&laid_out(text), &[("m", &[0, 2, 1]), ("p", &[0, 2, 1]), ("r", &[1, 0]), ("s", &[1, 0])]);
}

#[test]
fn convolutions_and_what_is_computed_with_them_have_their_channels_last() {
    let text = include_str!("../../../../tests/device_programs/channels_first.hlo");
    let image: &[i64] = &[1, 3, 2, 0];
    let kernel: &[i64] = &[0, 3, 2, 1];
    expect(&laid_out(text), &[("a", image), ("y", image), ("z", image), ("d", kernel), ("n", kernel), ("o", kernel)]);
}

#[test]
fn loops_carry_what_their_bodies_make() {
    let text = include_str!("../../../../tests/device_programs/rows_of_a_loop.hlo");
    let rows: &[i64] = &[2, 1, 0];
    let summed: &[i64] = &[1, 2, 0];
    expect(&laid_out(text), &[("p", summed), ("q", summed), ("r", &[1, 0]), ("row", rows), ("kept", rows)]);
}

#[test]
fn products_take_dimensions_that_lie_together() {
    let text = include_str!("../../../../tests/device_programs/heads.hlo");
    let rows: &[i64] = &[3, 2, 1, 0];
    expect(&laid_out(text), &[("a", &[3, 1, 2, 0]), ("s", rows), ("p", rows), ("q", rows), ("o", &[1, 0])]);
}

#[test]
fn a_product_that_is_only_transposed_is_made_transposed() {
    let text = include_str!("../../../../tests/device_programs/transposed_batches.hlo");
    expect(&laid_out(text), &[("a", &[2, 1, 0]), ("s", &[2, 0, 1]), ("t", &[2, 1, 0])]);
}

#[test]
fn arrays_on_the_host_are_row_major() {
    let text = include_str!("../../../../tests/device_programs/image_on_the_host.hlo");
    let (rows, image): (&[i64], &[i64]) = (&[3, 2, 1, 0], &[1, 3, 2, 0]);
    expect(&laid_out(text), &[("y", image), ("h", rows), ("d", rows), ("z", image)]);
}

#[test]
fn libraries_have_layouts_of_their_own() {
    let module = laid_out(include_str!("../../../../tests/device_programs/library_calls.hlo"));
    expect(&module, &[("sorted", &[1, 0]), ("waves", &[1, 0]), ("solved", &[0, 1]), ("rows", &[2, 1, 0])]);
}

#[test]
fn what_a_convolution_adds_lies_as_its_result() {
    let image: &[i64] = &[1, 3, 2, 0];
    let module = laid_out(include_str!("../../../../tests/device_programs/side_input.hlo"));
    expect(&module, &[("s", image), ("w", image)]);
}

/// The lines of a program behind layouts, without what they are called.
fn normalized(text: &str) -> Vec<String> {
    let mut graph = graph_of(text);
    assign_layouts_for(&mut graph, Target::Gpu);
    let printed = text::print(&graph.to_module());
    printed.lines().filter_map(|line| line.split_once(" = ")).map(|(_, made)| made.to_owned()).collect()
}

#[test]
fn everything_is_row_major_under_another_name() {
    let lines = normalized(include_str!("../../../../tests/device_programs/channels_first.hlo"));
    let holds = |part: &str| assert!(lines.iter().any(|line| line.contains(part)), "{part}\n{}", lines.join("\n"));
    holds("f32[16,32,32,64]{3,2,1,0} convolution(");
    holds("dim_labels=b01f_o01i->b01f");
    holds("dim_labels=f01b_i01o->f01b");
    holds("f32[64,3,3,64]{3,2,1,0} multiply(");
    holds("dimensions={0,2,3,1}");
    assert!(!lines.iter().any(|line| line.contains(" copy(")), "{}", lines.join("\n"));
}

#[test]
fn sums_read_what_is_not_copied_for_them() {
    let lines = normalized(include_str!("../../../../tests/device_programs/sums_of_rows_and_columns.hlo"));
    assert!(!lines.iter().any(|line| line.starts_with("f32[4096,4096,16]") && line.contains(" transpose(")));
    let sums = lines.iter().filter(|line| line.contains(" reduce("));
    let shapes: Vec<&str> = sums.map(|line| line.split_once(' ').map_or("", |parts| parts.0)).collect();
    assert_eq!(shapes, ["f32[16,4096]{0,1}", "f32[4096,16]{1,0}"], "one is written transposed");
}

/// Every instruction that is normalized, behind a convolution whose result has its channels last: all but names of results are row-major, and what is made is legal.
#[test]
fn what_is_normalized_is_legal() {
    let text = include_str!("../../../../tests/device_programs/everything_channels_last.hlo");
    let mut graph = graph_of(text);
    assign_layouts_for(&mut graph, Target::Gpu);
    let module = graph.to_module();
    assert_eq!(hlo_ir::verify::verify(&module), [], "{}", text::print(&module));
    let is_moved = |inst: &hlo_ir::Instruction| {
        inst.array().is_some_and(|array| !array.minor_to_major().iter().is_sorted_by(|a, b| a >= b))
    };
    let moved: Vec<&str> =
        module.live_instructions().filter(|(_, inst)| is_moved(inst)).map(|(_, inst)| inst.opcode.name()).collect();
    assert!(moved.iter().all(|&opcode| opcode == "reduce"), "{moved:?} in\n{}", text::print(&module));
}
