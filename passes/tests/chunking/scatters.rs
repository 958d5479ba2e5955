//! Programs that scatter updates to wrapped indices.

const COMBINERS: &str = "
%add_s32 (a: s32[], b: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %c = s32[] add(%a, %b)
}
%add_f32 (d: f32[], e: f32[]) -> f32[] {
  %d = f32[] parameter(0)
  %e = f32[] parameter(1)
  ROOT %f = f32[] add(%d, %e)
}
%add_bf16 (g: bf16[], h: bf16[]) -> bf16[] {
  %g = bf16[] parameter(0)
  %h = bf16[] parameter(1)
  ROOT %i = bf16[] add(%g, %h)
}
";

/// Dimension numbers of a scatter of single elements into a vector.
pub(crate) const VECTOR: &str =
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";

/// A module with these computations and entry lines.
pub(crate) fn module(computations: &str, lines: &str) -> String {
    format!("HloModule m\n{COMBINERS}{computations}\nENTRY %main {{\n{lines}\n}}\n")
}

/// Lines that wrap the negative indices `%i`, `s32[ROWS]`, and make them `%index`, `s32[ROWS,1]`.
pub(crate) fn wrapped(rows: i64) -> String {
    format!(
        "  %zero = s32[] constant(0)
  %size = s32[] constant(7)
  %zeros = s32[{rows}] broadcast(%zero), dimensions={{}}
  %sizes = s32[{rows}] broadcast(%size), dimensions={{}}
  %negative = pred[{rows}] compare(%i, %zeros), direction=LT
  %moved = s32[{rows}] add(%i, %sizes)
  %select = s32[{rows}] select(%negative, %moved, %i)
  %index = s32[{rows},1] reshape(%select)"
    )
}

/// The usual program: wrapped indices, given updates.
pub(crate) fn usual(rows: i64) -> String {
    sharded("", rows, "")
}

/// The same with attributes of the module, and of the parameters that rows are read from.
pub(crate) fn sharded(header: &str, rows: i64, sharding: &str) -> String {
    let wrapped = wrapped(rows);
    format!(
        "HloModule m{header}
{COMBINERS}
ENTRY %main {{
  %x = s32[7] parameter(0)
  %i = s32[{rows}] parameter(1){sharding}
  %u = s32[{rows}] parameter(2){sharding}
{wrapped}
  ROOT %y = s32[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_s32, metadata={{op_name=\"jit(f)/scatter\" stack_frame_id=4}}
}}
"
    )
}
