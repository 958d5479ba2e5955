//! Views of a module as a graph, and its hash: what each says of small programs, and what a patch leaves of them.
//!
//! Pins `ir/src/graph.rs`, `ir/src/hash.rs`, `ir/src/edit.rs`, `ir/src/module.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::graph::{self, Users};
use hlo_ir::hash::{instruction_hash, named_hash, structural_hash};
use hlo_ir::{InstructionId, Module, text};

/// A loop-free program with a reducer, a control dependency against the order of operands, and a value that nothing reads.
const PROGRAM: &str = "HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  twice = f32[8] add(x, x)
  unread = f32[8] negate(x), control-predecessors={twice}
  total = f32[] reduce(twice, zero), dimensions={0}, to_apply=sum
  ROOT both = (f32[], f32[8]) tuple(total, twice)
}
";

fn module(program: &str) -> Module {
    text::parse(program).expect("the program is legal")
}

fn named(module: &Module, name: &str) -> InstructionId {
    let found = module.live_instructions().find(|(_, inst)| inst.name == name);
    found.expect("the program has this name").0
}

fn names(module: &Module, ids: &[InstructionId]) -> Vec<String> {
    ids.iter().map(|&id| module.instruction(id).name.to_string()).collect()
}

#[test]
fn users_stand_once_and_in_text_order() {
    let module = module(PROGRAM);
    let users = Users::of(&module);
    let of = |name| names(&module, users.get(named(&module, name)));
    assert_eq!(of("x"), ["twice", "unread"]);
    assert_eq!(of("twice"), ["total", "both"]);
    assert!(of("unread").is_empty());
}

#[test]
fn callers_are_known() {
    let module = module(PROGRAM);
    let callers = graph::callers(&module);
    let called: Vec<_> = module.computation_ids().iter().map(|&id| names(&module, &callers[id])).collect();
    assert_eq!(called, [vec!["total".to_owned()], Vec::new()]);
}

#[test]
fn orders_keep_what_is_legal_and_put_the_rest_right() {
    let module = module(PROGRAM);
    let entry = module.computation(module.entry()).instructions.clone();
    assert_eq!(graph::stable_order(&module, &entry).as_ref(), Some(&entry), "a legal order stays");
    let backwards: Vec<_> = entry.iter().rev().copied().collect();
    let sorted = graph::stable_order(&module, &backwards).expect("there is no cycle");
    assert_eq!(names(&module, &sorted), ["x", "twice", "zero", "total", "both", "unread"]);
    let walked = graph::post_order(&module, module.entry());
    assert_eq!(names(&module, &walked), ["x", "twice", "unread", "zero", "total", "both"], "sinks in text order");
}

#[test]
fn a_cone_goes_through_control_dependencies() {
    let module = module(PROGRAM);
    let seen = graph::cone(&module, [named(&module, "unread")]);
    let inside: Vec<_> = module.live_instructions().filter(|(id, _)| seen[*id]).map(|(id, _)| id).collect();
    assert_eq!(names(&module, &inside), ["x", "twice", "unread"]);
}

#[test]
fn the_hash_knows_programs_and_not_names() {
    let (one, same) = (module(PROGRAM), module(&PROGRAM.replace("twice", "double")));
    assert_eq!(structural_hash(&one), structural_hash(&same), "another name");
    assert_ne!(named_hash(&one), named_hash(&same), "another name");
    for (from, to) in [
        ("negate(x)", "abs(x)"),
        ("add(x, x)", "multiply(x, x)"),
        ("add(p, q)", "maximum(p, q)"),
        ("constant(0)", "constant(1)"),
    ] {
        assert_ne!(structural_hash(&one), structural_hash(&module(&PROGRAM.replace(from, to))), "{to}");
    }
}

#[test]
fn an_instruction_is_known_by_itself_and_by_what_it_calls() {
    let mut changed = module(PROGRAM);
    let total = named(&changed, "total");
    let before = instruction_hash(&changed, total);
    let mut behind = |old: &str, new: &str| {
        let mut patch = Patch::new(&changed);
        patch.replace(named(&changed, old), named(&changed, new));
        let undo = patch.apply(&mut changed).expect("both have one shape");
        let now = instruction_hash(&changed, total);
        undo.revert(&mut changed);
        now
    };
    assert_eq!(behind("total", "zero"), before, "what reads it");
    assert_ne!(behind("twice", "x"), before, "its operand");
    assert_ne!(behind("q", "p"), before, "its reducer");
    assert_eq!(instruction_hash(&changed, total), before);
}

#[test]
fn an_undone_patch_leaves_the_module_as_it_was() {
    let mut changed = module(PROGRAM);
    let before = named_hash(&changed);
    let (twice, x) = (named(&changed, "twice"), named(&changed, "x"));
    let mut patch = Patch::new(&changed);
    patch.replace(twice, x);
    let undo = patch.apply(&mut changed).expect("both have one shape");
    assert_ne!(named_hash(&changed), before);
    undo.revert(&mut changed);
    assert_eq!(named_hash(&changed), before);
}
