//! `replication`: what is said about arrays that every device holds a copy of.
//!
//! Pins `passes/src/replication.rs`.

use crate::common;

use hlo_ir::graph::Users;
use hlo_memory::Bytes;
use hlo_passes::replication::Replication;
use hlo_passes::{Context, Machine, Options, Outcome, Pass};

/// Code, bytes and message of every remark.
fn remarks(source: &str) -> Vec<(&'static str, u64, String)> {
    let module = common::parse(source);
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let (users, estimate) = (Users::of(&module), common::estimate(Bytes(0), Vec::new()));
    let context = Context::of_input(&module, &users, &estimate, &options);
    let findings = Replication.find(&context).into_iter();
    let said = findings.map(|finding| match finding.outcome {
        Outcome::Missed(reason) => (reason.code, finding.wasted.get(), reason.message),
        other => panic!("{other:?}"),
    });
    said.collect()
}

fn module(header: &str, x: &str) -> String {
    format!(
        "HloModule m, {header}\n\nENTRY %main {{\n  %i = f32[8] parameter(0)\n  %x = f32[64,1024] parameter(1), {x}\n  ROOT %t = (f32[8], f32[64,1024]) tuple(%i, %x)\n}}\n"
    )
}

#[test]
fn a_replicated_argument_gets_the_line_to_write() {
    let said = remarks(&module("num_partitions=4", "sharding={replicated}"));
    let [("replicated", saved, message)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(*saved, 3 * 64 * 1024);
    assert!(message.contains("256.00 KiB on each, 1.00 MiB on all"), "{message}");
    let line = "jax.jit(f, in_shardings=(..., NamedSharding(mesh, PartitionSpec(\"devices\"))))";
    assert!(message.ends_with(line), "{message}");
    assert!(
        message.contains("dimension 0 each would save 192.00 KiB (dimension 1 over \"devices\": 192.00 KiB): "),
        "{message}"
    );
}

#[test]
fn shardy_names_the_axes() {
    let header = "num_partitions=6, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"a\"=3, \"b\"=2]>}}";
    let whole = r##"frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"}"##;
    let said = remarks(&module(header, whole));
    // 3 divides no dimension, 2 divides the first.
    let [("replicated", saved, message)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(*saved, 128 * 1024);
    assert!(message.contains("6 devices") && message.contains("PartitionSpec(\"b\")"), "{message}");
    let split = r##"frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"b\"}, {}]>"}"##;
    // What is left is copied along the other axis, which divides nothing.
    let said = remarks(&module(header, split));
    let [("no-axis", _, message)] = said.as_slice() else { panic!("{said:?}") };
    assert!(message.starts_with("3 of 6 devices hold each of 2 pieces of `x`"), "{message}");
}

#[test]
fn dimensions_that_no_axis_divides_are_named() {
    let said = remarks(&module("num_partitions=7", "sharding={replicated}"));
    assert_eq!(said.iter().map(|remark| remark.0).collect::<Vec<_>>(), ["no-axis"]);
}

#[test]
fn one_device_or_a_split_array_is_no_waste() {
    assert_eq!(remarks(&module("is_scheduled=false", "sharding={replicated}")), []);
    assert_eq!(remarks(&module("num_partitions=4", "sharding={devices=[4,1]<=[4]}")), []);
}

#[test]
fn arrays_that_are_copied_along_some_axes_only_are_said_too() {
    let header = "num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"a\"=2, \"b\"=4]>}}";
    let cut = r##"frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"a\"}, {}]>"}"##;
    let said = remarks(&module(header, cut));
    let [("partly-replicated", saved, message)] = said.as_slice() else { panic!("{said:?}") };
    // Half of 256 KiB lies on each device, and a quarter of that would do.
    assert_eq!(*saved, 96 * 1024);
    assert!(
        message.starts_with("4 of 8 devices hold each of 2 pieces of `x`: 128.00 KiB on each, 1.00 MiB on all"),
        "{message}"
    );
    assert!(message.contains("(dimension 1 over \"b\": 96.00 KiB)"), "{message}");
    assert!(
        message.ends_with("jax.jit(f, in_shardings=(..., NamedSharding(mesh, PartitionSpec((\"a\", \"b\")))))"),
        "{message}"
    );
}

#[test]
fn parts_of_an_axis_are_axes() {
    let header = "num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"a\"=8]>}}";
    let cut = r##"frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\"a\":(1)2}]>"}"##;
    let said = remarks(&module(header, cut));
    let [("partly-replicated", saved, message)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(*saved, 96 * 1024);
    assert!(message.contains("4 of 8 devices hold each of 2 pieces"), "{message}");
}

#[test]
fn gspmd_tells_how_often_each_piece_is_copied() {
    let said = remarks(&module("num_partitions=8", "sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}"));
    let [("partly-replicated", saved, message)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(*saved, 96 * 1024);
    assert!(
        message.contains("4 of 8 devices hold each of 2 pieces")
            && message.contains("PartitionSpec(\"copies\", \"axis1\")"),
        "{message}"
    );
    let manual = "sharding={devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}";
    assert_eq!(remarks(&module("num_partitions=8", manual)).len(), 1);
    assert_eq!(remarks(&module("num_partitions=8", "sharding={devices=[2,4]<=[8]}")), []);
}
