//! Modules, computations and instructions, read-only from outside this crate: [`crate::edit`] is the one way to change them.

// Tests: `ir/tests/graph.rs`.

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::arena::Arena;
use crate::attribute::{self, Alias, AttrKey, AttrValue, Attribute};
use crate::literal_text::LiteralText;
use crate::shape::{ArrayShape, Shape, ShapeRef};
use crate::{ComputationId, InstructionId, Opcode, Span};

/// What stands between the parentheses of an instruction when it is not a list of operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Payload {
    /// Operands only.
    #[default]
    None,
    /// `parameter(3)`.
    Parameter(i64),
    /// `constant({1, 2})`: the literal's text, verbatim.
    Literal(LiteralText),
    /// Spelling of an [`Opcode::Unknown`] and, if its operands could not be read as names, their text.
    Unknown(Box<UnknownOpcode>),
}

/// What there is to know about an instruction whose opcode is not known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UnknownOpcode {
    /// The opcode as written.
    pub opcode: SmolStr,
    /// The text between the parentheses, when it is not a list of instruction names.
    pub operands: Option<SmolStr>,
}

/// Operand lists; nearly all have at most four entries.
pub type Operands = SmallVec<[InstructionId; 4]>;

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Name without `%`.
    pub name: SmolStr,
    /// What it produces.
    pub shape: ShapeRef,
    /// What it does.
    pub opcode: Opcode,
    /// Operands by id.
    pub operands: Operands,
    /// Parameter number, literal, or the text of an unknown opcode.
    pub payload: Payload,
    /// Attributes in text order.
    pub attributes: Vec<Attribute>,
    /// The computation it stands in.
    pub parent: ComputationId,
    /// Where its text stood, from its name to the parenthesis behind its operands; `None` for instructions made by a pass.
    pub span: Option<Span>,
}

impl Instruction {
    /// An instruction without attributes; its parent is set when it is added to a computation.
    pub fn new(
        name: impl Into<SmolStr>,
        shape: ShapeRef,
        opcode: Opcode,
        operands: impl IntoIterator<Item = InstructionId>,
    ) -> Self {
        Self {
            name: name.into(),
            shape,
            opcode,
            operands: operands.into_iter().collect(),
            payload: Payload::None,
            attributes: Vec::new(),
            parent: <ComputationId as crate::arena::Id>::new(0),
            span: None,
        }
    }
    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, attribute: Attribute) -> Self {
        self.attributes.push(attribute);
        self
    }
    /// Sets the payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }
    /// The value of an attribute.
    pub fn attribute(&self, key: &AttrKey) -> Option<&AttrValue> {
        attribute::find(&self.attributes, key)
    }
    /// Replaces the value of an attribute, or appends it.
    pub fn set_attribute(&mut self, key: AttrKey, value: AttrValue) {
        match self.attributes.iter_mut().find(|attribute| attribute.key == key) {
            Some(attribute) => attribute.value = value,
            None => self.attributes.push(Attribute::new(key, value)),
        }
    }
    /// A list of integers; empty if the attribute is absent.
    pub fn ints(&self, key: &AttrKey) -> &[i64] {
        match self.attribute(key) {
            Some(AttrValue::Ints(values)) => values,
            _ => &[],
        }
    }
    /// An integer attribute.
    pub fn int(&self, key: &AttrKey) -> Option<i64> {
        match self.attribute(key) {
            Some(AttrValue::Int(value)) => Some(*value),
            _ => None,
        }
    }
    /// A boolean attribute; `false` if absent.
    pub fn flag(&self, key: &AttrKey) -> bool {
        matches!(self.attribute(key), Some(AttrValue::Bool(true)))
    }
    /// A bare-word attribute such as `direction=EQ`.
    pub fn word(&self, key: &AttrKey) -> Option<&str> {
        match self.attribute(key) {
            Some(AttrValue::Word(word)) => Some(word),
            _ => None,
        }
    }
    /// Verbatim text of an attribute without a typed form.
    pub fn raw(&self, key: &AttrKey) -> Option<&str> {
        match self.attribute(key) {
            Some(AttrValue::Raw(text)) => Some(text),
            _ => None,
        }
    }
    /// Shapes with layouts that a custom call wants its operands in, from `operand_layout_constraints`; `None` if it names none or they
    /// cannot be read.
    pub fn operand_layouts(&self) -> Option<Vec<ShapeRef>> {
        let text = self.raw(&AttrKey::OperandLayoutConstraints)?;
        let shapes = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        crate::text::program_layout(&format!("{{({shapes})->()}}")).map(|(shapes, _)| shapes)
    }
    /// A computation named by an attribute.
    pub fn computation(&self, key: &AttrKey) -> Option<ComputationId> {
        match self.attribute(key) {
            Some(AttrValue::Computation(id)) => Some(*id),
            _ => None,
        }
    }
    /// Every computation the instruction names, in attribute order.
    pub fn called_computations(&self) -> impl Iterator<Item = ComputationId> + '_ {
        self.attributes
            .iter()
            .flat_map(|attribute| match &attribute.value {
                AttrValue::Computation(id) => std::slice::from_ref(id),
                AttrValue::Computations(ids) => ids,
                _ => &[],
            })
            .copied()
    }
    /// Instructions that must run before this one without giving it a value.
    pub fn control_predecessors(&self) -> &[InstructionId] {
        match self.attribute(&AttrKey::ControlPredecessors) {
            Some(AttrValue::Instructions(ids)) => ids,
            _ => &[],
        }
    }
    /// The array it produces; `None` for tuples and tokens.
    pub fn array(&self) -> Option<&ArrayShape> {
        self.shape.as_array()
    }
    /// The number of a `parameter`.
    pub fn parameter_number(&self) -> Option<i64> {
        match self.payload {
            Payload::Parameter(number) => Some(number),
            _ => None,
        }
    }
    /// The text of a `constant`'s literal.
    pub fn literal(&self) -> Option<&str> {
        match &self.payload {
            Payload::Literal(text) => Some(text),
            _ => None,
        }
    }
    /// The opcode as it is written.
    pub fn opcode_name(&self) -> &str {
        match &self.payload {
            Payload::Unknown(unknown) => &unknown.opcode,
            _ => self.opcode.name(),
        }
    }
    /// A key of `metadata={...}`, such as `op_name`, without its quotes.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        crate::metadata::value(self.raw(&AttrKey::Metadata)?, key)
    }
}

/// Modules with so many instructions are worth a second thread, which takes time to start.
const LARGE: usize = 100_000;

/// A list of instructions with one root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Computation {
    /// Name without `%`.
    pub name: SmolStr,
    /// Live instructions in text order; the schedule if the module is scheduled.
    pub instructions: Vec<InstructionId>,
    /// The instruction whose value the computation returns.
    pub root: InstructionId,
    /// Attributes behind the closing brace.
    pub attributes: Vec<Attribute>,
    /// Where its text stood, from its name to the brace before its instructions.
    pub span: Option<Span>,
}

/// A place in the user's program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceLine {
    /// File name as the dump gives it.
    pub file: SmolStr,
    /// Line, counted from 1.
    pub line: i64,
}

/// The tables behind the header that say which source line a stack frame is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StackTables {
    /// The four tables verbatim, from `FileNames` to the last frame; empty if the module has none.
    pub text: SmolStr,
    /// Source line of frame `k`, at index `k - 1`.
    pub frames: Vec<SourceLine>,
    /// Name of the function of frame `k`, at index `k - 1`; empty where the tables name none.
    pub functions: Vec<SmolStr>,
    /// The frame that called frame `k`, at index `k - 1`, counted from 1; 0 for an outermost frame.
    pub parents: Vec<usize>,
    /// The folder of the user's own files, if it is known ([`Module::set_source_root`]).
    pub source_root: Option<SmolStr>,
}

/// One level of the call stack under which the user's program made an instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StackFrame {
    /// The function; empty if the module does not say.
    pub function: SmolStr,
    /// The line in it.
    pub line: SourceLine,
}

/// How a text was written, so that it can be printed back the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct TextStyle {
    /// Names carry `%`.
    pub percent: bool,
    /// Computations carry `(parameters) -> result`.
    pub program_shape: bool,
    /// An empty line follows the last computation, as in the files that XLA dumps.
    pub final_blank_line: bool,
    /// Operands carry their shapes. Never set by reading: the shapes of older dumps are checked and dropped.
    pub operand_shapes: bool,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { percent: true, program_shape: true, final_blank_line: false, operand_shapes: false }
    }
}

/// A whole HLO module.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Name without `%`.
    pub name: SmolStr,
    /// Header attributes in text order.
    pub attributes: Vec<Attribute>,
    /// Stack-frame tables.
    pub stack_tables: StackTables,
    /// How it was written.
    pub style: TextStyle,
    /// Where `HloModule` and the name stood in the text, if there was a header.
    pub span: Option<Span>,
    pub(crate) instructions: Arena<InstructionId, Instruction>,
    pub(crate) computations: Arena<ComputationId, Computation>,
    pub(crate) order: Vec<ComputationId>,
    pub(crate) entry: Option<ComputationId>,
}

/// Everything a module is made of, for code that builds one as a whole.
#[derive(Clone, Debug)]
pub struct ModuleParts {
    /// Name without `%`.
    pub name: SmolStr,
    /// Header attributes in text order.
    pub attributes: Vec<Attribute>,
    /// Stack-frame tables.
    pub stack_tables: StackTables,
    /// How it is to be written.
    pub style: TextStyle,
    /// All instructions; each names its computation.
    pub instructions: Arena<InstructionId, Instruction>,
    /// All computations, callees before callers; the last one is the entry.
    pub computations: Arena<ComputationId, Computation>,
}

/// Shapes with layouts of the entry's parameters and of its result, from the header attribute `entry_computation_layout`; `None` if there
/// is none or it cannot be read.
pub fn entry_layout(attributes: &[Attribute]) -> Option<(Vec<ShapeRef>, ShapeRef)> {
    match attribute::find(attributes, &AttrKey::EntryComputationLayout) {
        Some(AttrValue::Raw(text)) => crate::text::program_layout(text),
        _ => None,
    }
}

impl Module {
    /// A module from its parts. The caller vouches that ids agree and that lists define operands before users.
    pub fn from_parts(parts: ModuleParts) -> Self {
        let ModuleParts { name, attributes, stack_tables, style, instructions, computations } = parts;
        let order: Vec<ComputationId> = computations.iter().map(|(id, _)| id).collect();
        let entry = order.last().copied();
        Self { name, attributes, stack_tables, style, span: None, instructions, computations, order, entry }
    }
    /// What the module is made of, for code that makes another one of it.
    pub fn into_parts(self) -> ModuleParts {
        let Self { name, attributes, stack_tables, style, instructions, computations, .. } = self;
        ModuleParts { name, attributes, stack_tables, style, instructions, computations }
    }
    /// Whether work on all of the module takes long enough for a thread of its own.
    pub fn is_large(&self) -> bool {
        self.instruction_count() >= LARGE
    }
    /// Frees the module: a large one on a thread of its own, because that takes as long as some analyses, and nobody need wait for it.
    pub fn drop_in_background(self) {
        if self.is_large() {
            // Where no thread can be had, the module goes with what should have run there.
            let _ = std::thread::Builder::new().spawn(move || drop(self));
        }
    }
    /// An instruction by id; also one that was removed from its computation.
    #[inline]
    pub fn instruction(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id]
    }
    /// A computation by id.
    pub fn computation(&self, id: ComputationId) -> &Computation {
        &self.computations[id]
    }
    /// Live computations in text order, callees before callers.
    pub fn computation_ids(&self) -> &[ComputationId] {
        &self.order
    }
    /// The entry computation.
    pub fn entry(&self) -> ComputationId {
        self.entry.expect("a parsed or built module has an entry")
    }
    /// Number of instruction ids ever handed out, the length side tables need.
    pub fn instruction_count(&self) -> usize {
        self.instructions.len()
    }
    /// Number of computation ids ever handed out.
    pub fn computation_count(&self) -> usize {
        self.computations.len()
    }
    /// Live instructions of a computation in text order.
    pub fn instructions_of(&self, id: ComputationId) -> impl Iterator<Item = (InstructionId, &Instruction)> {
        self.computations[id].instructions.iter().map(|&id| (id, &self.instructions[id]))
    }
    /// All live instructions, computation by computation.
    pub fn live_instructions(&self) -> impl Iterator<Item = (InstructionId, &Instruction)> {
        self.order.iter().flat_map(|&id| self.instructions_of(id))
    }
    /// Parameters of a computation, by number.
    pub fn parameters(&self, id: ComputationId) -> Vec<InstructionId> {
        let mut parameters: Vec<_> =
            self.instructions_of(id).filter_map(|(id, inst)| Some((inst.parameter_number()?, id))).collect();
        parameters.sort_unstable();
        parameters.into_iter().map(|(_, id)| id).collect()
    }
    /// Shape of an instruction.
    #[inline]
    pub fn shape(&self, id: InstructionId) -> &Shape {
        &self.instructions[id].shape
    }
    /// A header attribute.
    pub fn attribute(&self, key: &AttrKey) -> Option<&AttrValue> {
        attribute::find(&self.attributes, key)
    }
    /// Whether text order is the schedule.
    pub fn is_scheduled(&self) -> bool {
        matches!(self.attribute(&AttrKey::IsScheduled), Some(AttrValue::Bool(true)))
    }
    /// Outputs that share memory with a parameter (donated arguments).
    pub fn input_output_aliases(&self) -> &[Alias] {
        match self.attribute(&AttrKey::InputOutputAlias) {
            Some(AttrValue::Aliases(aliases)) => aliases.as_slice(),
            _ => &[],
        }
    }
    /// Number of devices the module is partitioned over, 1 if not stated ([`crate::per_device::partitions`]).
    pub fn num_partitions(&self) -> i64 {
        crate::per_device::partitions(&self.attributes)
    }
    /// Whether the module will be partitioned: it says for how many devices. Where it does not, it is for one, and annotations mean nothing.
    ///
    /// Source: `ShardingRemover` runs where there is one partition (`GpuCompiler::RunSPMDPasses`, xla/service/gpu/gpu_compiler.cc).
    pub fn is_partitioned(&self) -> bool {
        self.num_partitions() > 1
    }
    /// Whether an annotation of some value names several devices among which it is cut.
    pub fn is_annotated(&self) -> bool {
        let cut = |text: &str| text.contains("devices=") && !text.contains("<=[1]");
        self.live_instructions().any(|(_, inst)| inst.raw(&AttrKey::Sharding).is_some_and(cut))
    }
    /// Shapes with layouts of the entry's parameters and of its result, from `entry_computation_layout`; `None` if the header
    /// has no such attribute or it cannot be read.
    pub fn entry_layout(&self) -> Option<(Vec<ShapeRef>, ShapeRef)> {
        entry_layout(&self.attributes)
    }
    /// The source line an instruction came from, by stack frame or by `source_file`/`source_line`.
    pub fn source_line(&self, id: InstructionId) -> Option<SourceLine> {
        let inst = self.instruction(id);
        if let Some(frame) = inst.metadata("stack_frame_id").and_then(|text| text.parse::<usize>().ok()) {
            return self.stack_tables.frames.get(frame.checked_sub(1)?).cloned();
        }
        let line = inst.metadata("source_line")?.parse().ok()?;
        Some(SourceLine { file: inst.metadata("source_file")?.into(), line })
    }
    /// The call stack an instruction was made under, innermost frame first; one frame without a function where only a line is known.
    pub fn source_stack(&self, id: InstructionId) -> Vec<StackFrame> {
        let tables = &self.stack_tables;
        let Some(first) = self.instruction(id).metadata("stack_frame_id").and_then(|text| text.parse().ok()) else {
            let only = self.source_line(id).map(|line| StackFrame { function: SmolStr::default(), line });
            return only.into_iter().collect();
        };
        let mut stack = Vec::new();
        let mut at: usize = first;
        // A damaged table may name a cycle: no stack is longer than the table.
        while stack.len() <= tables.frames.len() {
            let Some(line) = at.checked_sub(1).and_then(|index| tables.frames.get(index)) else { break };
            let function = tables.functions.get(at - 1).cloned().unwrap_or_default();
            stack.push(StackFrame { function, line: line.clone() });
            at = tables.parents.get(at - 1).copied().unwrap_or(0);
        }
        stack
    }
}
