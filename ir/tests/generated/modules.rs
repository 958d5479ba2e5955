//! Generated modules, written like XLA's dumps: definitions before uses, legal shapes, and marks where blanks may stand.

use arbtest::arbitrary::{self, Unstructured};

/// A text with marks: [`MUST`] where a blank must stand, [`MAY`] where one may.
pub(crate) struct Written(String);

const MUST: char = '\u{1}';
const MAY: char = '\u{2}';
/// A comma and [`MUST`].
const COMMA: &str = ",\u{1}";

impl Written {
    /// As a dump has it: one blank where one must stand, and none where one may.
    pub(crate) fn plain(&self) -> String {
        self.0.chars().filter(|&c| c != MAY).map(|c| if c == MUST { ' ' } else { c }).collect()
    }
    /// With more blanks, line ends and comments.
    pub(crate) fn noisy(&self, u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
        const NOISE: &[&str] =
            &[" ", "\n", "  ", "\t", "\r\n", "/* a (comment} */", " // another {comment)\n", " /**/ "];
        let mut out = String::new();
        for c in self.0.chars() {
            match c {
                MUST => out.push_str(u.choose(NOISE)?),
                MAY if u.ratio(1, 4)? => out.push_str(u.choose(NOISE)?),
                MAY => {}
                c => out.push(c),
            }
        }
        Ok(out)
    }
}

/// Type and sizes of an array; the whole is `f32[2,3]{1,0}`.
#[derive(Clone, PartialEq, Eq)]
struct Array(&'static str, Vec<u64>);

impl Array {
    fn short(&self) -> String {
        let sizes: Vec<_> = self.1.iter().map(u64::to_string).collect();
        format!("{}[{}]", self.0, sizes.join(","))
    }
    fn long(&self) -> String {
        let order: Vec<_> = (0..self.1.len()).rev().map(|dim| dim.to_string()).collect();
        if order.is_empty() { self.short() } else { format!("{}{{{}}}", self.short(), order.join(",")) }
    }
    fn with(&self, element_type: &'static str) -> Self {
        Self(element_type, self.1.clone())
    }
}

const TYPES: &[&str] = &["f32", "s32", "u8", "bf16", "s64", "f64"];

fn array(u: &mut Unstructured<'_>) -> arbitrary::Result<Array> {
    let rank = u.int_in_range(0..=3)?;
    let sizes: arbitrary::Result<_> = (0..rank).map(|_| u.int_in_range(0..=9)).collect();
    Ok(Array(u.choose(TYPES)?, sizes?))
}

/// The computation being written: values so far, and its lines.
struct Body {
    values: Vec<(String, Array)>,
    parameters: Vec<(String, Array)>,
    lines: Vec<String>,
    count: usize,
}

impl Body {
    fn new() -> Self {
        Self { values: Vec::new(), parameters: Vec::new(), lines: Vec::new(), count: 0 }
    }

    fn name(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
        self.count += 1;
        let stem = u.choose(&["add", "x", "param_0", "true", "ROOT", "select_n", "a-b", "_", "f32", "fusion.clone"])?;
        Ok(format!("{stem}.{}", self.count))
    }
    fn value(&self, u: &mut Unstructured<'_>) -> arbitrary::Result<(String, Array)> {
        u.choose(&self.values).cloned()
    }

    /// Adds `%name = shape opcode(inside), attributes` and remembers the value.
    fn push(
        &mut self,
        u: &mut Unstructured<'_>,
        shape: &Array,
        opcode: &str,
        inside: &str,
        attributes: &str,
    ) -> arbitrary::Result<()> {
        let name = self.name(u)?;
        let annotations = annotations(u)?;
        let call = format!("{opcode}{MAY}({inside}{MAY})");
        self.lines.push(format!("%{name}{MUST}={MUST}{}{MUST}{call}{attributes}{annotations}", shape.long()));
        if opcode == "parameter" {
            self.parameters.push((name.clone(), shape.clone()));
        }
        self.values.push((name, shape.clone()));
        Ok(())
    }

    fn parameter(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let (shape, number) = (array(u)?, self.parameters.len());
        self.push(u, &shape, "parameter", &format!("{MAY}{number}"), "")
    }

    /// Any instruction over the values so far.
    fn instruction(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let (name, shape) = self.value(u)?;
        let one = format!("{MAY}%{name}");
        let two = format!("{one}{MAY},{MUST}%{name}");
        let dims = |dims: Vec<usize>| {
            let list: Vec<_> = dims.iter().map(usize::to_string).collect();
            format!(",{MUST}dimensions={MAY}{{{}}}", list.join(","))
        };
        let rank = shape.1.len();
        match u.int_in_range(0..=9)? {
            0 => self.push(u, &shape, "copy", &one, ""),
            1 => self.push(u, &shape, "add", &two, ""),
            2 => self.push(u, &shape.with("pred"), "compare", &two, &format!(",{MUST}direction=LT")),
            3 => {
                let mut wider = shape.clone();
                wider.1.insert(0, u.int_in_range(0..=4)?);
                self.push(u, &wider, "broadcast", &one, &dims((1..=rank).collect()))
            }
            4 => {
                let flat = Array(shape.0, vec![shape.1.iter().product()]);
                self.push(u, &flat, "reshape", &one, "")
            }
            5 => {
                let turned = Array(shape.0, shape.1.iter().rev().copied().collect());
                self.push(u, &turned, "transpose", &one, &dims((0..rank).rev().collect()))
            }
            6 => {
                let bounds: Vec<_> = shape.1.iter().map(|size| format!("[{}:{size}]", size / 2)).collect();
                let half = Array(shape.0, shape.1.iter().map(|size| size - size / 2).collect());
                self.push(u, &half, "slice", &one, &format!(",{MUST}slice={{{}}}", bounds.join(COMMA)))
            }
            7 => {
                let padded = Array(shape.0, shape.1.iter().map(|size| size + 3).collect());
                let zero = self.constant(u, &Array(shape.0, vec![]), "0")?;
                let amounts = vec!["1_2"; rank].join("x");
                let attributes = if rank == 0 { String::new() } else { format!(",{MUST}padding={amounts}") };
                let opcode = if rank == 0 { "copy" } else { "pad" };
                let inside = if rank == 0 { one } else { format!("{one}{MAY},{MUST}%{zero}") };
                self.push(u, if rank == 0 { &shape } else { &padded }, opcode, &inside, &attributes)
            }
            8 => self.push(u, &shape, "frobnicate", &two, &format!(",{MUST}new_key=[2,4]<=[8]")),
            _ => {
                let custom = format!(",{MUST}custom_call_target=\"a\\\"(b}}\",{MUST}api_version=API_VERSION_TYPED_FFI");
                self.push(u, &shape, "custom-call", &one, &custom)
            }
        }
    }

    fn constant(&mut self, u: &mut Unstructured<'_>, shape: &Array, text: &str) -> arbitrary::Result<String> {
        self.push(u, shape, "constant", text, "")?;
        Ok(self.values[self.values.len() - 1].0.clone())
    }

    /// `%name (parameters) -> result { lines }`; the root is any value.
    fn finish(self, u: &mut Unstructured<'_>, head: &str) -> arbitrary::Result<(String, Array)> {
        let root = u.int_in_range(0..=self.values.len() - 1)?;
        let result = &self.values[root].1;
        let parameters: Vec<_> =
            self.parameters.iter().map(|(name, shape)| format!("{name}:{MUST}{}", shape.short())).collect();
        let list = parameters.join(COMMA);
        let mut out = format!("{head}{MUST}({MAY}{list}{MAY}){MUST}->{MUST}{}{MUST}{{\n", result.short());
        for (index, line) in self.lines.iter().enumerate() {
            let mark = if index == root { format!("ROOT{MUST}") } else { String::new() };
            out.extend(["  ", &mark, line, "\n"]);
        }
        out.push_str("}\n");
        Ok((out, result.clone()))
    }
}

/// Attributes that any instruction may have.
fn annotations(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    let mut out = String::new();
    for text in [
        "sharding={devices=[2,1]<=[2] last_tile_dim_replicate}",
        "frontend_attributes={a=\"}\",b={x = {\"{\"}}}",
        "metadata={op_name=\"jit(f)/\\\"{(\" stack_frame_id=3}",
        "backend_config={\"a\":{\"b\":[\"}\"]}}",
    ] {
        if u.ratio(1, 8)? {
            out.extend([COMMA, text]);
        }
    }
    Ok(out)
}

/// A module of one to three computations, the last one the entry, which may call the others.
pub(crate) fn module(u: &mut Unstructured<'_>) -> arbitrary::Result<Written> {
    let mut out = format!("HloModule{MUST}jit_f");
    if u.arbitrary()? {
        out.extend([COMMA, "is_scheduled=true"]);
    }
    if u.arbitrary()? {
        out.extend([COMMA, "replica_count=2", COMMA, "new_header={a}"]);
    }
    out.push('\n');
    let mut callees: Vec<(String, Vec<Array>, Array)> = Vec::new();
    let count = u.int_in_range(1..=3)?;
    for index in 0..count {
        let mut body = Body::new();
        for _ in 0..u.int_in_range(1..=3)? {
            body.parameter(u)?;
        }
        for _ in 0..u.int_in_range(0..=8)? {
            body.instruction(u)?;
        }
        if let Some((name, parameters, result)) = callees.last() {
            call(&mut body, u, name, parameters, result)?;
        }
        let name = format!("computation.{index}");
        let parameters = body.parameters.iter().map(|(_, shape)| shape.clone()).collect();
        let head = if index + 1 == count { format!("ENTRY{MUST}%{name}") } else { format!("%{name}") };
        let (written, result) = body.finish(u, &head)?;
        out.push('\n');
        out.push_str(&written);
        callees.push((name, parameters, result));
    }
    Ok(Written(out))
}

/// Calls `name` if there are values of the shapes it takes.
fn call(
    body: &mut Body,
    u: &mut Unstructured<'_>,
    name: &str,
    parameters: &[Array],
    result: &Array,
) -> arbitrary::Result<()> {
    let mut operands = Vec::new();
    for wanted in parameters {
        match body.values.iter().find(|(_, shape)| shape == wanted) {
            Some((value, _)) => operands.push(format!("%{value}")),
            None => return Ok(()),
        }
    }
    body.push(u, result, "call", &operands.join(COMMA), &format!(",{MUST}to_apply=%{name}"))
}
