//! Call stacks as libraries leave them: whose line an instruction is said to stem from, where libraries call the user's own functions back and stand in other
//! folders than those of a plain installation.
//!
//! Pins `ir/src/user_lines.rs`.

use hlo_ir::text;

/// What a user's script hands to an optimizer, which calls the user's loss, which uses a layer; the same on Windows; and a module run by Python itself.
const STACKS: &str = r#"HloModule m

FileNames
1 "project/train.py"
2 "/opt/conda/lib/python3.10/site-packages/optax/_src/base.py"
3 "project/site/model.py"
4 "project/.venv/lib/python3.12/site-packages/flax/nnx/nn/linear.py"
5 "C:\\work\\net.py"
6 "C:\\env\\Lib\\site-packages\\equinox\\nn\\_linear.py"
7 "<frozen runpy>"
8 "/usr/lib/python3/dist-packages/numpyro/infer.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10}
2 {file_name_id=2 function_name_id=1 line=20}
3 {file_name_id=3 function_name_id=1 line=30}
4 {file_name_id=4 function_name_id=1 line=40}
5 {file_name_id=5 function_name_id=1 line=50}
6 {file_name_id=6 function_name_id=1 line=60}
7 {file_name_id=7 function_name_id=1 line=70}
8 {file_name_id=8 function_name_id=1 line=80}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=4}
5 {file_location_id=5 parent_frame_id=1}
6 {file_location_id=6 parent_frame_id=6}
7 {file_location_id=7 parent_frame_id=1}
8 {file_location_id=8 parent_frame_id=8}

ENTRY %e {
  %optimizer = f32[] parameter(0), metadata={stack_frame_id=2}
  %loss = f32[] negate(%optimizer), metadata={stack_frame_id=3}
  %layer = f32[] negate(%loss), metadata={stack_frame_id=4}
  %windows = f32[] negate(%layer), metadata={stack_frame_id=6}
  ROOT %module = f32[] negate(%windows), metadata={stack_frame_id=8}
}
"#;

/// Kind: lines of libraries where the stack has one of the user's.
#[test]
fn a_function_that_a_library_calls_back_is_the_users() {
    let module = text::parse(STACKS).unwrap_or_else(|errors| panic!("{errors:?}"));
    let found = module.live_instructions().map(|(id, inst)| {
        let at = module.made_at(id);
        (inst.name.to_string(), at.line.map(|line| line.line), at.library.map(|line| line.line))
    });
    let expected = [
        ("optimizer", Some(10), Some(20)),
        ("loss", Some(30), None),
        ("layer", Some(30), Some(40)),
        ("windows", Some(50), Some(60)),
        ("module", Some(80), None),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected.map(|(name, line, library)| (name.to_owned(), line, library)));
}
