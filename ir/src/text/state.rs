//! What the parser knows while it reads: the module so far, the names in scope, and the problems found.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use smol_str::{SmolStr, format_smolstr};

use super::interned_text::InternedText;
use super::lex::Problem;
use super::shape::Shapes;
use super::{errors, similar};
use crate::arena::Id as _;
use crate::{AttrValue, Attribute, ComputationId, Diagnostic, Instruction, InstructionId, Module, Span};

/// Names to ids.
pub(super) type Names<'a, I> = IndexMap<&'a str, I, FxBuildHasher>;

/// Reading stops after this many problems: the rest is usually a consequence of the first ones.
const MAX_PROBLEMS: usize = 20;

/// The computation being read.
pub(super) struct Scope<'a> {
    /// Its future id is not known yet: callees inside it get theirs first.
    pub(super) name: &'a str,
    /// Its instructions in text order.
    pub(super) instructions: Vec<InstructionId>,
    /// Its names; `None` for an instruction that could not be read.
    pub(super) names: Names<'a, Option<InstructionId>>,
    /// How many operands written in place there are of each opcode.
    pub(super) anonymous: Names<'a, u32>,
    /// The instruction marked `ROOT`.
    pub(super) root: Option<InstructionId>,
}

/// State of one parse.
pub(super) struct State<'a> {
    /// The whole text.
    pub(super) text: &'a str,
    /// The module so far.
    pub(super) module: Module,
    /// Shapes read so far.
    pub(super) shapes: Shapes<'a>,
    /// Computations read so far; `None` for one that could not be read.
    pub(super) computations: Names<'a, Option<ComputationId>>,
    /// Problems found so far.
    pub(super) problems: Vec<Diagnostic>,
    /// How many inline computations and nested operands are open.
    pub(super) depth: u32,
    /// Whether unknown operands become parameters, as in a text that is one instruction only.
    pub(super) invents_parameters: bool,
    /// Short attribute values read so far.
    pub(super) values: Names<'a, AttrValue>,
    /// Long attribute values read lately.
    pub(super) interned: InternedText,
    /// Attributes of the lists that are open. What a list that could not be read leaves here is never taken.
    pub(super) attributes: Vec<Attribute>,
    inline_count: u32,
}

impl<'a> State<'a> {
    /// Nothing read yet.
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            module: Module::default(),
            shapes: Shapes::default(),
            computations: Names::default(),
            problems: Vec::new(),
            depth: 0,
            invents_parameters: false,
            values: Names::default(),
            interned: InternedText::default(),
            attributes: Vec::new(),
            inline_count: 0,
        }
    }

    /// The place of a slice of the text.
    pub(super) fn span(&self, part: &str) -> Span {
        let start = self.offset(part);
        Span::new(start, start + part.len())
    }
    /// The place from the start of `from` to the start of `to`.
    pub(super) fn span_between(&self, from: &str, to: &str) -> Span {
        Span::new(self.offset(from), self.offset(to))
    }
    /// Byte offset of a slice of the text.
    pub(super) fn offset(&self, part: &str) -> usize {
        nom::Offset::offset(self.text, part)
    }

    /// Writes down why reading stopped.
    pub(super) fn note(&mut self, error: nom::Err<Problem<'a>>) {
        let problem = match error {
            nom::Err::Error(problem) | nom::Err::Failure(problem) => problem,
            nom::Err::Incomplete(_) => unreachable!("complete parsers never ask for more input"),
        };
        let span = self.span(problem.at);
        let Some(report) = problem.report else {
            return self.note(errors::expected("something else", problem.at));
        };
        self.problems.push(Diagnostic { span: Some(span), ..*report });
    }
    /// Whether it is time to give up.
    pub(super) fn is_hopeless(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    /// A computation by name. `Ok(None)` if it could not be read.
    pub(super) fn computation(&self, name: &'a str) -> Result<Option<ComputationId>, nom::Err<Problem<'a>>> {
        self.computations.get(name).copied().ok_or_else(|| {
            errors::undefined_computation(name, similar::closest(name, self.computations.keys().copied()))
        })
    }

    /// Adds an instruction to the computation being read.
    pub(super) fn add(&mut self, scope: &mut Scope<'a>, instruction: Instruction) -> InstructionId {
        let id = self.module.instructions.push(instruction);
        scope.instructions.push(id);
        id
    }
    /// Name of the next inline computation: `_`, `_.1`, ...
    pub(super) fn inline_name(&mut self) -> SmolStr {
        loop {
            let name = match self.inline_count {
                0 => SmolStr::new_static("_"),
                count => format_smolstr!("_.{count}"),
            };
            self.inline_count += 1;
            if !self.computations.contains_key(name.as_str()) {
                return name;
            }
        }
    }
    /// An id that stands for something that could not be read; the parse has failed already.
    pub(super) fn placeholder_computation() -> ComputationId {
        ComputationId::new(0)
    }
}

impl<'a> Scope<'a> {
    /// An operand by name. `Ok(None)` if the name was defined by an instruction that could not be read.
    pub(super) fn operand(&self, name: &'a str) -> Result<Option<InstructionId>, nom::Err<Problem<'a>>> {
        self.names.get(name).copied().ok_or_else(|| {
            errors::undefined_operand(name, self.name, similar::closest(name, self.names.keys().copied()))
        })
    }
    /// An empty computation.
    pub(super) fn new(name: &'a str) -> Self {
        Self { name, instructions: Vec::new(), names: Names::default(), anonymous: Names::default(), root: None }
    }
}
