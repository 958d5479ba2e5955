//! Random programs that end in scatters, for runs on data.

use crate::interpreter::random::Random;

/// A program under construction: every value of the pool has its rows in dimension 0.
pub(crate) struct Program {
    random: Random,
    rows: i64,
    lines: Vec<String>,
    pool: Vec<(String, Vec<i64>)>,
    parameters: usize,
    /// Results of scatters, which later ones and gathers may read.
    tables: Vec<String>,
}

const COMPUTATIONS: &str = "
%sum (a: s32[], b: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %r = s32[] add(%a, %b)
}
%last (c: s32[], d: s32[]) -> s32[] {
  %c = s32[] parameter(0)
  ROOT %d = s32[] parameter(1)
}
%step (e: s32[], f: s32[]) -> s32[] {
  %e = s32[] parameter(0)
  %f = s32[] parameter(1)
  %g = s32[] constant(3)
  %h = s32[] multiply(%e, %g)
  ROOT %i = s32[] subtract(%f, %h)
}
%less (j: s32[], k: s32[]) -> pred[] {
  %j = s32[] parameter(0)
  %k = s32[] parameter(1)
  ROOT %l = pred[] compare(%j, %k), direction=LT
}
%both (m: s32[], n: s32[], o: s32[], p: s32[]) -> (s32[], s32[]) {
  %m = s32[] parameter(0)
  %n = s32[] parameter(1)
  %o = s32[] parameter(2)
  %p = s32[] parameter(3)
  %q = s32[] add(%m, %o)
  %s = s32[] subtract(%p, %n)
  ROOT %t = (s32[], s32[]) tuple(%q, %s)
}
";

/// Size of the tables that are read and written.
const TABLE: [i64; 2] = [5, 3];

fn shape(dims: &[i64]) -> String {
    format!("s32[{}]", dims.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// The text of a random program.
pub(crate) fn program(seed: u64) -> String {
    let mut random = Random(seed);
    let rows = random.range(1, 50);
    let (lines, pool, tables) = (Vec::new(), Vec::new(), Vec::new());
    let mut program = Program { random, rows, lines, pool, parameters: 0, tables };
    for dims in [vec![rows], vec![rows, 2], vec![rows, 3]] {
        program.parameter(&dims);
    }
    for _ in 0..program.random.range(3, 16) {
        program.step();
    }
    let mut scatters = Vec::new();
    for _ in 0..program.random.range(1, 4) {
        scatters.push(program.scatter());
        program.step();
    }
    program.finish(scatters)
}

impl Program {
    /// The name of the next line.
    fn name(&self) -> String {
        format!("v{}", self.lines.len())
    }
    fn line(&mut self, dims: &[i64], text: &str) -> String {
        let name = self.name();
        self.lines.push(format!("  %{name} = {} {text}", shape(dims)));
        name
    }
    /// Adds a value with rows in dimension 0 to the pool.
    fn keep(&mut self, dims: &[i64], text: &str) {
        let name = self.line(dims, text);
        self.pool.push((name, dims.to_vec()));
    }
    /// A parameter that is not in the pool.
    fn hidden_parameter(&mut self, dims: &[i64]) -> String {
        self.parameters += 1;
        self.line(dims, &format!("parameter({})", self.parameters - 1))
    }
    fn parameter(&mut self, dims: &[i64]) {
        let name = self.hidden_parameter(dims);
        self.pool.push((name, dims.to_vec()));
    }
    fn any(&mut self) -> (String, Vec<i64>) {
        self.random.pick(&self.pool)
    }
    /// A value with this many columns, or without the column dimension.
    fn with_columns(&mut self, columns: Option<i64>) -> String {
        let wanted: Vec<i64> = [Some(self.rows), columns].into_iter().flatten().collect();
        let fitting: Vec<_> = self.pool.iter().filter(|(_, dims)| *dims == wanted).cloned().collect();
        if fitting.is_empty() {
            self.parameter(&wanted);
            return self.pool.last().expect("just added").0.clone();
        }
        self.random.pick(&fitting).0
    }
    /// A parameter, or the result of an earlier scatter.
    fn table(&mut self) -> String {
        if !self.tables.is_empty() && self.random.range(0, 3) == 0 {
            return self.random.pick(&self.tables);
        }
        self.hidden_parameter(&TABLE)
    }

    /// Adds one random operation.
    fn step(&mut self) {
        let (value, dims) = self.any();
        let rows = self.rows;
        match self.random.range(0, 18) {
            0 | 1 => {
                let other = self.with_columns(dims.get(1).copied());
                let opcode = self.random.pick(&["add", "subtract", "multiply", "maximum", "xor"]);
                self.keep(&dims, &format!("{opcode}(%{value}, %{other})"));
            }
            2 => self.wrap_negative(&value, &dims),
            3 => self.column(&value, &dims),
            4 => self.concatenate(&dims),
            5 if dims.len() == 1 => self.keep(&[rows, 1], &format!("reshape(%{value})")),
            6 if dims.len() == 1 => {
                let columns = self.random.range(1, 4);
                self.keep(&[rows, columns], &format!("broadcast(%{value}), dimensions={{0}}"));
            }
            7 if dims.len() == 2 => self.through_transpose(&value, &dims),
            8 => {
                let dim = self.random.range(0, dims.len() as i64);
                self.keep(&dims, &format!("iota(), iota_dimension={dim}"));
            }
            9 => self.keep(&dims, &format!("reverse(%{value}), dimensions={{0}}")),
            10 => self.rows_of_longer(&dims),
            11 if dims.len() == 2 => {
                let seven = self.line(&[], "constant(7)");
                self.keep(&[rows], &format!("reduce(%{value}, %{seven}), dimensions={{1}}, to_apply=%sum"));
            }
            12 => self.gather(),
            13 if dims.len() == 2 => self.product(&value, &dims),
            14 => {
                // Along the rows this is a barrier.
                let dim = self.random.range(0, dims.len() as i64);
                let attributes = format!("dimensions={{{dim}}}, is_stable=true, to_apply=%less");
                self.keep(&dims, &format!("sort(%{value}), {attributes}"));
            }
            15 => self.keep(&dims, &format!("opt-barrier(%{value})")),
            16 => self.through_tuple(&value, &dims),
            17 => self.of_flat_parameter(&dims),
            _ => {}
        }
    }

    /// The wrap of negative indices.
    fn wrap_negative(&mut self, value: &str, dims: &[i64]) {
        let [zero, size] = ["constant(0)", "constant(5)"].map(|text| self.line(&[], text));
        let zeros = self.line(dims, &format!("broadcast(%{zero}), dimensions={{}}"));
        let sizes = self.line(dims, &format!("broadcast(%{size}), dimensions={{}}"));
        let flag = self.name();
        let flags = shape(dims).replace("s32", "pred");
        self.lines.push(format!("  %{flag} = {flags} compare(%{value}, %{zeros}), direction=LT"));
        let moved = self.line(dims, &format!("add(%{value}, %{sizes})"));
        self.keep(dims, &format!("select(%{flag}, %{moved}, %{value})"));
    }
    fn column(&mut self, value: &str, dims: &[i64]) {
        let &[rows, columns] = dims else { return };
        let from = self.random.range(0, columns);
        let column = self.line(&[rows, 1], &format!("slice(%{value}), slice={{[0:{rows}], [{from}:{}]}}", from + 1));
        self.keep(&[rows], &format!("reshape(%{column})"));
    }
    /// Joins columns; joining rows, of which the first half of the result is taken, is a barrier.
    fn concatenate(&mut self, dims: &[i64]) {
        let other = self.with_columns(dims.get(1).copied());
        let value = self.with_columns(dims.get(1).copied());
        let rows = self.rows;
        if let [_, columns] = *dims {
            self.keep(&[rows, 2 * columns], &format!("concatenate(%{value}, %{other}), dimensions={{1}}"));
        } else {
            let joined = self.line(&[2 * rows], &format!("concatenate(%{value}, %{other}), dimensions={{0}}"));
            self.keep(&[rows], &format!("slice(%{joined}), slice={{[0:{rows}]}}"));
        }
    }
    fn through_transpose(&mut self, value: &str, dims: &[i64]) {
        let turned = self.line(&[dims[1], dims[0]], &format!("transpose(%{value}), dimensions={{1,0}}"));
        let negated = self.line(&[dims[1], dims[0]], &format!("negate(%{turned})"));
        self.keep(dims, &format!("transpose(%{negated}), dimensions={{1,0}}"));
    }
    /// Some rows of a longer parameter, every one or every second.
    fn rows_of_longer(&mut self, dims: &[i64]) {
        let (offset, stride) = (self.random.range(0, 4), self.random.range(1, 3));
        let mut longer = dims.to_vec();
        longer[0] = offset + stride * self.rows + 2;
        let whole = self.hidden_parameter(&longer);
        let doubled = self.line(&longer, &format!("add(%{whole}, %{whole})"));
        let mut bounds = vec![format!("[{offset}:{}:{stride}]", offset + stride * self.rows)];
        bounds.extend(dims[1..].iter().map(|size| format!("[0:{size}]")));
        self.keep(dims, &format!("slice(%{doubled}), slice={{{}}}", bounds.join(", ")));
    }
    fn gather(&mut self) {
        let index = self.with_columns(Some(1));
        let table = self.table();
        let attributes = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1";
        let sizes = format!("slice_sizes={{1,{}}}", TABLE[1]);
        self.keep(&[self.rows, TABLE[1]], &format!("gather(%{table}, %{index}), {attributes}, {sizes}"));
    }
    fn product(&mut self, value: &str, dims: &[i64]) {
        let columns = self.random.range(1, 4);
        let weights = self.hidden_parameter(&[dims[1], columns]);
        let attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        self.keep(&[self.rows, columns], &format!("dot(%{value}, %{weights}), {attributes}"));
    }
    fn through_tuple(&mut self, value: &str, dims: &[i64]) {
        let other = self.with_columns(None);
        let types = format!("({}, {})", shape(dims), shape(&[self.rows]));
        let pair = self.name();
        self.lines.push(format!("  %{pair} = {types} tuple(%{value}, %{other})"));
        let held = self.name();
        self.lines.push(format!("  %{held} = {types} opt-barrier(%{pair})"));
        self.keep(dims, &format!("get-tuple-element(%{held}), index=0"));
    }
    /// A parameter in which the rows lie one behind the other, or several to a row.
    fn of_flat_parameter(&mut self, dims: &[i64]) {
        let elements: i64 = dims.iter().product();
        let pairs = elements % 2 == 0 && self.random.range(0, 2) == 0;
        let from = if pairs { vec![elements / 2, 2] } else { vec![elements] };
        let flat = self.hidden_parameter(&from);
        let sum = self.line(&from, &format!("add(%{flat}, %{flat})"));
        self.keep(dims, &format!("reshape(%{sum})"));
    }

    /// Adds a scatter and returns its name and shape.
    fn scatter(&mut self) -> (String, String) {
        let map = "scatter_dims_to_operand_dims";
        let (index, update, attributes) = match self.random.range(0, 3) {
            0 => (
                self.with_columns(Some(2)),
                self.with_columns(None),
                format!("update_window_dims={{}}, inserted_window_dims={{0,1}}, {map}={{1,0}}, index_vector_dim=1"),
            ),
            1 => (
                self.with_columns(Some(1)),
                self.with_columns(Some(3)),
                format!("update_window_dims={{1}}, inserted_window_dims={{0}}, {map}={{0}}, index_vector_dim=1"),
            ),
            _ => {
                // Each index component is a row of its own: two row dimensions.
                let update = self.with_columns(Some(2));
                let wide = self.line(&[self.rows, 2, 3], &format!("broadcast(%{update}), dimensions={{0,1}}"));
                let attributes =
                    format!("update_window_dims={{2}}, inserted_window_dims={{0}}, {map}={{0}}, index_vector_dim=2");
                (self.with_columns(Some(2)), wide, attributes)
            }
        };
        if self.random.range(0, 4) == 0 {
            return self.scatter_of_two(&index, &update, &attributes);
        }
        let combiner = self.random.pick(&["%sum", "%last", "%step"]);
        let operands = format!("%{}, %{index}, %{update}", self.table());
        let name = self.line(&TABLE, &format!("scatter({operands}), {attributes}, to_apply={combiner}"));
        self.tables.push(name.clone());
        (name, shape(&TABLE))
    }
    fn scatter_of_two(&mut self, index: &str, update: &str, attributes: &str) -> (String, String) {
        let (a, b) = (self.table(), self.table());
        let name = self.name();
        let types = format!("({0}, {0})", shape(&TABLE));
        let operands = format!("%{a}, %{b}, %{index}, %{update}, %{update}");
        self.lines.push(format!("  %{name} = {types} scatter({operands}), {attributes}, to_apply=%both"));
        (name, types)
    }
    /// Everything that was scattered, perhaps beside another value.
    fn finish(mut self, mut results: Vec<(String, String)>) -> String {
        if self.random.range(0, 3) == 0 {
            let (value, dims) = self.any();
            results.push((value, shape(&dims)));
        }
        let types: Vec<&str> = results.iter().map(|(_, shape)| shape.as_str()).collect();
        let names: Vec<String> = results.iter().map(|(name, _)| format!("%{name}")).collect();
        let root = format!("  ROOT %out = ({}) tuple({})", types.join(", "), names.join(", "));
        format!("HloModule m\n{COMPUTATIONS}\nENTRY %main {{\n{}\n{root}\n}}\n", self.lines.join("\n"))
    }
}
