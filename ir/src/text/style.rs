//! Print styles: which parts of a module are written, and under which names.

// Tests: `ir/tests/styles.rs`.

use smol_str::format_smolstr;

use super::print;
use crate::module::{StackTables, TextStyle};
use crate::{Attribute, Module};

/// How much of a module is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Style {
    /// Everything, in the style the module was read in.
    #[default]
    Long,
    /// What a person needs to follow the computation: no `%`, no program shapes, nothing about the source, nothing of one backend.
    /// Constants and control dependencies stay whole.
    Short,
    /// For comparing two modules line by line: as [`Style::Short`], but operands carry their shapes, and computations and instructions
    /// are called by number. Names inside text kept verbatim are not renamed.
    Canonical,
}

/// Writes `module` in a style. Every style can be read again; only [`Style::Long`] loses nothing.
///
/// ```
/// use hlo_ir::text::{self, Style};
///
/// let module = text::parse("HloModule m\nENTRY e { x = f32[8] parameter(0), metadata={op_name=\"x\"} y = f32[8] negate(x) }")
///     .expect("a legal text");
/// let canonical = "HloModule m\n\nENTRY computation_0 {\n  tmp_0 = f32[8] parameter(0)\n  ROOT tmp_1 = f32[8] negate(f32[8] tmp_0)\n}\n";
/// assert_eq!(text::print_as(&module, Style::Canonical), canonical);
/// ```
pub fn print_as(module: &Module, style: Style) -> String {
    match style {
        Style::Long => print(module),
        Style::Short => print(&short(module)),
        Style::Canonical => {
            let mut module = short(module);
            module.style.operand_shapes = true;
            rename(&mut module);
            print(&module)
        }
    }
}

/// Attributes that say where an instruction comes from or what one backend makes of it.
const LEFT_OUT: &[&str] = &["metadata", "backend_config", "origin", "origin_recovery_table", "statistics"];

fn keep(attribute: &Attribute) -> bool {
    !LEFT_OUT.contains(&attribute.key.name())
}

/// The module without what the short style leaves out.
fn short(module: &Module) -> Module {
    let mut module = module.clone();
    module.style = TextStyle { percent: false, program_shape: false, final_blank_line: false, operand_shapes: false };
    module.stack_tables = StackTables::default();
    module.attributes.retain(keep);
    for &id in module.order.iter().flat_map(|&id| &module.computations[id].instructions) {
        module.instructions[id].attributes.retain(keep);
    }
    module
}

/// Numbers computations in the module and instructions in each computation, in text order.
fn rename(module: &mut Module) {
    for (number, &id) in module.order.iter().enumerate() {
        let computation = &mut module.computations[id];
        computation.name = format_smolstr!("computation_{number}");
        for (number, &id) in computation.instructions.iter().enumerate() {
            module.instructions[id].name = format_smolstr!("tmp_{number}");
        }
    }
}
