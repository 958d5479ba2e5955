//! Tests of the ordered structures of the graph: every order here was worked out by hand from XLA's rules.

use hlo_ir::{ComputationId, InstructionId, Opcode};

use super::{Graph, Origin};

fn graph(text: &str) -> Graph {
    let module = hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    Graph::from_module(&module, Origin::Dump)
}

/// An entry computation with these lines.
fn entry(lines: &[&str]) -> Graph {
    graph(&format!("HloModule m\n\nENTRY e {{\n  {}\n}}\n", lines.join("\n  ")))
}

fn find(graph: &Graph, name: &str) -> InstructionId {
    let all = graph.computation_order().into_iter().flat_map(|id| graph.list(id).collect::<Vec<_>>());
    all.into_iter().find(|&id| graph.inst(id).name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn names(graph: &Graph, ids: impl IntoIterator<Item = InstructionId>) -> Vec<String> {
    ids.into_iter().map(|id| graph.inst(id).name.to_string()).collect()
}

fn list(graph: &Graph, id: ComputationId) -> Vec<String> {
    names(graph, graph.list(id))
}

const DIAMOND: &[&str] = &[
    "y = f32[4] parameter(1)",
    "n = f32[4] negate(y)",
    "x = f32[4] parameter(0)",
    "a = f32[4] add(x, n)",
    "b = f32[4] abs(x)",
    "ROOT r = f32[4] multiply(a, b)",
];

#[test]
fn parameters_stand_first_in_the_list() {
    let graph = entry(DIAMOND);
    assert_eq!(list(&graph, graph.entry()), ["x", "y", "n", "a", "b", "r"]);
    assert_eq!(names(&graph, graph.users(find(&graph, "x"))), ["a", "b"]);
}

#[test]
fn post_order_takes_operands_in_order_and_control_predecessors_first() {
    let mut graph = entry(DIAMOND);
    assert_eq!(names(&graph, graph.post_order(graph.entry())), ["x", "y", "n", "a", "b", "r"]);
    let (b, a) = (find(&graph, "b"), find(&graph, "a"));
    graph.add_control(b, a);
    assert_eq!(names(&graph, graph.post_order(graph.entry())), ["x", "b", "y", "n", "a", "r"]);
    graph.drop_control(a);
    assert!(!graph.has_control(b));
}

#[test]
fn the_last_user_moves_into_the_place_of_one_that_goes() {
    let mut graph = entry(&[
        "x = f32[4] parameter(0)",
        "a = f32[4] abs(x)",
        "b = f32[4] negate(x)",
        "c = f32[4] sine(x)",
        "ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, c)",
    ]);
    let (x, a, b) = (find(&graph, "x"), find(&graph, "a"), find(&graph, "b"));
    graph.replace_operand(find(&graph, "t"), 0, b);
    graph.remove(a);
    assert_eq!(names(&graph, graph.users(x)), ["c", "b"]);
    assert_eq!(list(&graph, graph.entry()), ["x", "b", "c", "t"]);
}

#[test]
fn a_replacement_inherits_users_in_order_and_what_only_the_old_one_needed_goes() {
    let mut graph = entry(&[
        "x = f32[4] parameter(0)",
        "n = f32[4] negate(x)",
        "m = f32[4] negate(n)",
        "a = f32[4] abs(m)",
        "ROOT r = f32[4] add(m, a)",
    ]);
    let (x, m) = (find(&graph, "x"), find(&graph, "m"));
    graph.replace(m, x);
    assert_eq!(list(&graph, graph.entry()), ["x", "a", "r"]);
    assert_eq!(names(&graph, graph.users(x)), ["r", "a"]);
}

#[test]
fn a_copy_of_itself_stays_the_only_user() {
    let mut graph = entry(&["x = f32[4] parameter(0)", "a = f32[4] abs(x)", "ROOT r = f32[4] negate(a)"]);
    let a = find(&graph, "a");
    let copy = hlo_ir::Instruction::new("copy", graph.shape(a).clone(), Opcode::Copy, [a]);
    let copy = graph.add(graph.entry(), copy);
    graph.replace_all_uses(a, copy);
    assert_eq!(names(&graph, graph.users(a)), ["copy"]);
    assert_eq!(names(&graph, graph.users(copy)), ["r"]);
}

#[test]
fn a_fusion_takes_the_place_of_what_it_replaces_and_grows_at_the_end() {
    let mut graph = entry(&[
        "x = f32[4] parameter(0)",
        "y = f32[4] parameter(1)",
        "m = f32[4] multiply(x, y)",
        "a = f32[4] add(m, x)",
        "b = f32[4] abs(x)",
        "ROOT t = (f32[4], f32[4]) tuple(a, b)",
    ]);
    let (x, m) = (find(&graph, "x"), find(&graph, "m"));
    let fusion = graph.fuse_alone(find(&graph, "a"), "kLoop", "f".into());
    assert_eq!(names(&graph, graph.operands(fusion).to_vec()), ["m", "x"]);
    assert_eq!(names(&graph, graph.users(x)), ["m", "f", "b"]);
    graph.fuse_into(fusion, m);
    graph.remove(m);
    assert_eq!(names(&graph, graph.operands(fusion).to_vec()), ["x", "y"]);
    assert_eq!(names(&graph, graph.users(x)), ["b", "f"]);
    let body = graph.fused(fusion).expect("a fusion has a body");
    assert_eq!(names(&graph, graph.post_order(body)).last().map(String::as_str), Some("a"));
    assert_eq!(graph.parameters(body).len(), 2);
}

#[test]
fn equal_operands_of_a_fusion_become_one() {
    let mut graph = entry(&["x = f32[4] parameter(0)", "y = f32[4] copy(x)", "ROOT a = f32[4] add(x, y)"]);
    let fusion = graph.fuse_alone(find(&graph, "a"), "kLoop", "f".into());
    let (x, y) = (find(&graph, "x"), find(&graph, "y"));
    graph.replace_all_uses(y, x);
    assert_eq!(names(&graph, graph.operands(fusion).to_vec()), ["x"]);
    let body = graph.fused(fusion).expect("a fusion has a body");
    let root = graph.root(body);
    assert_eq!(graph.operand(root, 0), graph.operand(root, 1));
}

#[test]
fn a_deep_clone_shares_nothing_and_keeps_all_orders() {
    let text = "HloModule m

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

body {
  x = f32[8] parameter(0)
  b = f32[8] abs(x)
  a = f32[8] negate(x)
  z = f32[] constant(0)
  r = f32[] reduce(a, z), dimensions={0}, to_apply=sum
  ROOT t = (f32[], f32[8]) tuple(r, b)
}

ENTRY e {
  v = f32[8] parameter(0)
  ROOT c = (f32[], f32[8]) call(v), to_apply=body
}
";
    let mut graph = graph(text);
    let body = graph.parent(find(&graph, "t"));
    let (sum, x) = (graph.parent(find(&graph, "s")), find(&graph, "x"));
    let copy = graph.deep_clone(body);
    assert_eq!(list(&graph, copy), list(&graph, body));
    let users = graph.users(graph.parameters(copy)[0]);
    assert_eq!(names(&graph, users), names(&graph, graph.users(x)));
    let reduce = graph.list(copy).find(|&id| graph.opcode(id) == Opcode::Reduce).expect("it was copied");
    assert_ne!(graph.callees(reduce)[0], sum);
    assert_eq!(names(&graph, graph.post_order(copy)), names(&graph, graph.post_order(body)));
}

#[test]
fn a_module_survives_the_way_through_the_graph() {
    let text = "HloModule m, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %a = f32[4]{0} abs(%x)
  ROOT %r = f32[4]{0} add(%x, %a), control-predecessors={%a}
}
";
    let module = hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let back = |origin| Graph::from_module(&module, origin).to_module();
    assert_eq!(hlo_ir::hash::structural_hash(&back(Origin::Dump)), hlo_ir::hash::structural_hash(&module));
    // No control dependency reaches the compiler.
    assert_eq!(hlo_ir::text::print(&back(Origin::Program)), text.replace(", control-predecessors={%a}", ""));
}

#[test]
fn constants_of_a_program_are_born_before_the_rest_the_last_one_first() {
    let module = hlo_ir::text::parse(
        "HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  s = f32[4] sine(x)
  c = f32[] constant(1)
  b = f32[4] broadcast(c), dimensions={}
  a = f32[4] add(s, b)
  d = f32[4] constant({1, 2, 3, 4})
  ROOT r = f32[4] multiply(a, d)
}
",
    );
    let graph = Graph::from_module(&module.unwrap_or_else(|errors| panic!("{errors:?}")), Origin::Program);
    assert_eq!(list(&graph, graph.entry()), ["x", "d", "c", "b", "s", "a", "r"]);
}
