//! Random programs over arrays of one to three dimensions: values flow along their dimensions, end in reductions, contractions, scatters
//! and results, and are needed in several places and forms.

use crate::interpreter::random::Random;

/// Sizes of dimensions; few, so that values meet.
const SIZES: [i64; 3] = [6, 7, 11];

const COMPUTATIONS: &str = "
%sum (a: s32[], b: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %r = s32[] add(%a, %b)
}
%largest (c: s32[], d: s32[]) -> s32[] {
  %c = s32[] parameter(0)
  %d = s32[] parameter(1)
  ROOT %m = s32[] maximum(%c, %d)
}
%odd (e: s32[], f: s32[]) -> s32[] {
  %e = s32[] parameter(0)
  %f = s32[] parameter(1)
  %g = s32[] constant(3)
  %h = s32[] multiply(%e, %g)
  ROOT %i = s32[] subtract(%f, %h)
}
%all (j: s32[], k: s32[]) -> s32[] {
  %j = s32[] parameter(0)
  %k = s32[] parameter(1)
  ROOT %l = s32[] and(%j, %k)
}
%less (n: s32[], o: s32[]) -> pred[] {
  %n = s32[] parameter(0)
  %o = s32[] parameter(1)
  ROOT %p = pred[] compare(%n, %o), direction=LT
}
";

struct Value {
    name: String,
    dims: Vec<i64>,
}

struct Graph {
    random: Random,
    loops: Vec<String>,
    lines: Vec<String>,
    pool: Vec<Value>,
    parameters: usize,
}

fn list(items: &[i64]) -> String {
    items.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

fn shape(dims: &[i64]) -> String {
    format!("s32[{}]", list(dims))
}

/// The text of a random program.
pub(crate) fn program(seed: u64) -> String {
    let (random, lines, pool, loops) = (Random(seed), Vec::new(), Vec::new(), Vec::new());
    let mut graph = Graph { random, loops, lines, pool, parameters: 0 };
    for rank in [1, 2, 2, 3] {
        let dims = graph.dims(rank);
        graph.parameter(&dims);
    }
    graph.lines.push("  %zero = s32[] constant(0)".to_owned());
    for _ in 0..graph.random.range(5, 22) {
        graph.step();
    }
    graph.finish()
}

impl Graph {
    fn dims(&mut self, rank: usize) -> Vec<i64> {
        (0..rank).map(|_| self.random.pick(&SIZES)).collect()
    }
    fn parameter(&mut self, dims: &[i64]) -> String {
        self.parameters += 1;
        self.add(dims, &format!("parameter({})", self.parameters - 1))
    }
    fn add(&mut self, dims: &[i64], text: &str) -> String {
        let name = format!("v{}", self.lines.len());
        self.lines.push(format!("  %{name} = {} {text}", shape(dims)));
        self.pool.push(Value { name: name.clone(), dims: dims.to_vec() });
        name
    }
    /// Mostly a late value, so that chains form.
    fn any(&mut self) -> (String, Vec<i64>) {
        let count = self.pool.len() as i64;
        let from = if self.random.range(0, 3) == 0 { 0 } else { (count - 6).max(0) };
        let at = self.random.range(from, count) as usize;
        (self.pool[at].name.clone(), self.pool[at].dims.clone())
    }
    /// A value of these dimensions, made if there is none.
    fn like(&mut self, dims: &[i64]) -> String {
        let fitting: Vec<String> =
            self.pool.iter().filter(|value| value.dims == dims).map(|value| value.name.clone()).collect();
        if fitting.is_empty() { self.parameter(dims) } else { self.random.pick(&fitting) }
    }

    fn step(&mut self) {
        let (name, dims) = self.any();
        let rank = dims.len();
        let at = self.random.range(0, rank as i64) as usize;
        match self.random.range(0, 17) {
            0..=2 => {
                let other = self.like(&dims);
                let opcode = self.random.pick(&["add", "subtract", "multiply", "maximum", "xor"]);
                self.add(&dims, &format!("{opcode}(%{name}, %{other})"));
            }
            3 | 4 if rank < 3 => {
                let mut wide = dims.clone();
                wide.insert(at, self.random.pick(&SIZES));
                let kept: Vec<i64> = (0..=rank as i64).filter(|&dim| dim != at as i64).collect();
                self.add(&wide, &format!("broadcast(%{name}), dimensions={{{}}}", list(&kept)));
            }
            5 | 6 if rank > 1 => {
                let mut narrow = dims.clone();
                narrow.remove(at);
                let how = self.random.pick(&["sum", "largest", "all", "odd"]);
                self.add(&narrow, &format!("reduce(%{name}, %zero), dimensions={{{at}}}, to_apply=%{how}"));
            }
            7 if rank > 1 => {
                let mut order: Vec<i64> = (0..rank as i64).collect();
                order.rotate_left(1);
                let turned: Vec<i64> = order.iter().map(|&dim| dims[dim as usize]).collect();
                self.add(&turned, &format!("transpose(%{name}), dimensions={{{}}}", list(&order)));
            }
            8 if rank > 1 => {
                let mut merged = dims.clone();
                let inner = merged.remove(rank - 1);
                merged[rank - 2] *= inner;
                self.add(&merged, &format!("reshape(%{name})"));
            }
            9 => {
                self.add(&dims, &format!("reverse(%{name}), dimensions={{{at}}}"));
            }
            10 => {
                self.add(&dims, &format!("iota(), iota_dimension={at}"));
            }
            11 if dims[at] > 2 => {
                let mut fewer = dims.clone();
                fewer[at] -= 1;
                let bounds = dims
                    .iter()
                    .enumerate()
                    .map(|(dim, size)| if dim == at { format!("[1:{size}]") } else { format!("[0:{size}]") });
                let bounds = bounds.collect::<Vec<_>>().join(", ");
                self.add(&fewer, &format!("slice(%{name}), slice={{{bounds}}}"));
            }
            12 if rank == 2 => self.product(&name, &dims, at),
            13 if rank == 1 => self.rows(&name, dims[0]),
            14 => {
                self.add(&dims, &format!("sort(%{name}), dimensions={{{at}}}, is_stable=true, to_apply=%less"));
            }
            15 if rank < 3 => self.looping(&name, &dims),
            _ => {
                let other = self.like(&dims);
                self.lines.push(format!(
                    "  %p{} = pred[{}] compare(%{name}, %{other}), direction=LT",
                    self.lines.len(),
                    list(&dims)
                ));
                let flag = format!("p{}", self.lines.len() - 1);
                self.add(&dims, &format!("select(%{flag}, %{other}, %{name})"));
            }
        }
    }

    /// A contraction of dimension `at`.
    fn product(&mut self, name: &str, dims: &[i64], at: usize) {
        let columns = self.random.pick(&SIZES);
        let other = self.like(&[dims[at], columns]);
        let text = format!("dot(%{name}, %{other}), lhs_contracting_dims={{{at}}}, rhs_contracting_dims={{0}}");
        self.add(&[dims[1 - at], columns], &text);
    }

    /// Reads or changes rows of a table.
    fn rows(&mut self, index: &str, count: i64) {
        let table = self.like(&[5, 4]);
        self.lines.push(format!("  %i{} = s32[{count},1] reshape(%{index})", self.lines.len()));
        let index = format!("i{}", self.lines.len() - 1);
        if self.random.range(0, 2) == 0 {
            let text = format!(
                "gather(%{table}, %{index}), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, \
                 index_vector_dim=1, slice_sizes={{1,4}}"
            );
            self.add(&[count, 4], &text);
        } else {
            let updates = self.like(&[count, 4]);
            let how = self.random.pick(&["sum", "odd"]);
            let text = format!(
                "scatter(%{table}, %{index}, %{updates}), update_window_dims={{1}}, inserted_window_dims={{0}}, \
                 scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%{how}"
            );
            self.add(&[5, 4], &text);
        }
    }

    /// A loop that works on every element alone, three times.
    fn looping(&mut self, name: &str, dims: &[i64]) {
        let other = self.like(dims);
        let (id, array) = (self.lines.len(), shape(dims));
        let state = format!("(s32[], {array}, {array})");
        let mix = self.random.pick(&["add", "subtract", "maximum"]);
        self.loops.push(format!(
            "%body{id} (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %x = {array} get-tuple-element(%s), index=1
  %y = {array} get-tuple-element(%s), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%n, %one)
  %wide = {array} broadcast(%n), dimensions={{}}
  %u = {array} {mix}(%x, %y)
  %w = {array} multiply(%u, %wide)
  ROOT %t = {state} tuple(%next, %w, %u)
}}
%going{id} (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %three = s32[] constant(3)
  ROOT %c = pred[] compare(%n, %three), direction=LT
}}
"
        ));
        self.lines.push(format!("  %start{id} = {state} tuple(%zero, %{name}, %{other})"));
        self.lines.push(format!("  %end{id} = {state} while(%start{id}), condition=%going{id}, body=%body{id}"));
        self.add(dims, &format!("get-tuple-element(%end{id}), index=1"));
        if self.random.range(0, 2) == 0 {
            self.add(dims, &format!("get-tuple-element(%end{id}), index=2"));
        }
    }

    /// The last values are the results.
    fn finish(mut self) -> String {
        let count = self.random.range(1, 4) as usize;
        let results = &self.pool[self.pool.len() - count..];
        let shapes: Vec<String> = results.iter().map(|value| shape(&value.dims)).collect();
        let names: Vec<String> = results.iter().map(|value| format!("%{}", value.name)).collect();
        let root = format!("  ROOT %root = ({}) tuple({})", shapes.join(", "), names.join(", "));
        let (loops, lines) = (self.loops.join(""), self.lines.join("\n"));
        format!("HloModule m\n{COMPUTATIONS}{loops}\nENTRY %main {{\n{lines}\n{root}\n}}\n")
    }
}
