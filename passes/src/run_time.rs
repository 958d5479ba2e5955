//! How long a run of a module takes: a roofline over the kernels that the model of its compiler makes.
//!
//! A kernel takes as long as its [memory traffic](mod@traffic) or its operations, whichever is longer, and a start. Copies between the memories of a device and of its
//! host take their bytes over the link, as if nothing ran beside them. Loops take their iterations, branches the
//! longest of them. Rates are those of the machine's description. Which loop runs how often nobody may know: such a loop counts as one iteration, in
//! the original as in the rewritten module, and the answer says so.

mod pages;
mod parts;
mod products;
mod scalar;
mod traffic;

use crate::hash::IndexMap;
use hlo_ir::host::HostMove;
use hlo_ir::literal::scalar_integer;
use hlo_ir::{ArrayShape, AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode, Shape};
use hlo_memory::{Compiled, Estimate, EstimateError, Estimator, ModelEstimator, Stored, Target, size};

use crate::Machine;
use crate::cost::{RANDOM, multiplications};
use crate::flow::{first_array, is_transcendental};
use crate::loops::bound;
use parts::Parts;
pub(crate) use products::of_products;
use traffic::Traffic;

/// The time of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunTime {
    /// Seconds on the machine that was described.
    pub seconds: f64,
    /// Whether the iterations of all loops are known.
    pub is_certain: bool,
}

/// Estimates the time of a run of `module`.
pub fn run_time(module: &Module, target: Target, machine: &Machine) -> Result<RunTime, EstimateError> {
    let (estimate, time) = estimate_and_time(module, &ModelEstimator { target }, machine);
    estimate?;
    time.ok_or_else(|| EstimateError::Unsupported("a rule of the model stopped at the module".to_owned()))
}

/// What an estimator says of `module`, and the time of a run of what its compiler makes of it, if the estimator shows that.
pub fn estimate_and_time(
    module: &Module,
    estimator: &dyn Estimator,
    machine: &Machine,
) -> (Result<Estimate, EstimateError>, Option<RunTime>) {
    estimate_and_look(module, estimator, machine, &mut |_| {})
}

/// The same, with a look at what the compiler makes.
pub(crate) fn estimate_and_look(
    module: &Module,
    estimator: &dyn Estimator,
    machine: &Machine,
    look: &mut dyn FnMut(&Compiled<'_>),
) -> (Result<Estimate, EstimateError>, Option<RunTime>) {
    let mut time = None;
    let estimate = estimator.estimate_and(module, &mut |compiled, estimate| {
        look(compiled);
        let of_origin = |id| compiled.origin(id).and_then(|id| trips(module, id));
        let kernels =
            of_kernels(compiled.module(), machine, |id| trips(compiled.module(), id).or_else(|| of_origin(id)));
        let pages = pages::seconds(estimate, machine);
        time = Some(RunTime { seconds: kernels.seconds + pages, ..kernels });
    });
    (estimate, time)
}

/// The instructions of a module whose results an estimator's compiler writes to memory, if the estimator shows that.
pub(crate) fn stored(module: &Module, estimator: &dyn Estimator) -> Option<Stored> {
    let mut stored = None;
    estimator.estimate_and(module, &mut |compiled, _| stored = Some(compiled.stored())).ok()?;
    stored
}

/// Iterations of a loop that counts to a number.
fn trips(module: &Module, id: InstructionId) -> Option<i64> {
    let inst = module.instruction(id);
    if inst.opcode != Opcode::While {
        return None;
    }
    let condition = inst.computation(&AttrKey::Condition)?;
    let counted = bound(module, condition).map(|(_, trips)| trips);
    counted.or_else(|| bound_of_kernel(module, condition)).map(|trips| trips.max(0))
}

/// The same where the condition is a kernel of one comparison, as XLA:CPU has it.
fn bound_of_kernel(module: &Module, condition: ComputationId) -> Option<i64> {
    let kernel = module.instruction(module.computation(condition).root);
    let fused = (kernel.opcode == Opcode::Fusion).then(|| kernel.called_computations().next()).flatten()?;
    let compare = module.instruction(module.computation(fused).root);
    let above = match (compare.opcode, compare.word(&AttrKey::Direction)) {
        (Opcode::Compare, Some("LT")) => compare.operands[1],
        (Opcode::Compare, Some("GT")) => compare.operands[0],
        _ => return None,
    };
    let number = usize::try_from(module.instruction(above).parameter_number()?).ok()?;
    scalar_integer(module.instruction(*kernel.operands.get(number)?)).and_then(|bound| i64::try_from(bound).ok())
}

fn of_kernels(module: &Module, machine: &Machine, trips: impl Fn(InstructionId) -> Option<i64>) -> RunTime {
    let mut clock = Clock { module, machine, trips: &trips, known: IndexMap::default(), is_certain: true };
    let seconds = clock.computation(module.entry());
    RunTime { seconds, is_certain: clock.is_certain }
}

struct Clock<'a> {
    module: &'a Module,
    machine: &'a Machine,
    trips: &'a dyn Fn(InstructionId) -> Option<i64>,
    known: IndexMap<ComputationId, f64>,
    is_certain: bool,
}

impl Clock<'_> {
    fn computation(&mut self, id: ComputationId) -> f64 {
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let steps: Vec<InstructionId> = self.module.instructions_of(id).map(|(id, _)| id).collect();
        let seconds = steps.into_iter().map(|id| self.step(id)).sum();
        self.known.insert(id, seconds);
        seconds
    }

    /// One instruction of a computation that runs step by step.
    fn step(&mut self, id: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(id);
        match inst.opcode {
            O::Parameter | O::Constant | O::Tuple | O::GetTupleElement | O::Bitcast | O::OptBarrier | O::AfterAll => {
                0.0
            }
            O::Call | O::Conditional => self.called(id, f64::max),
            O::While => {
                let trips = (self.trips)(id);
                self.is_certain &= trips.is_some();
                let iteration = self.called(id, |all, one| all + one) + self.machine.iteration as f64 * 1e-9;
                iteration * trips.unwrap_or(1) as f64
            }
            _ => self.kernel(id),
        }
    }

    /// What the computations that an instruction calls take, folded.
    fn called(&mut self, id: InstructionId, fold: fn(f64, f64) -> f64) -> f64 {
        let called: Vec<ComputationId> = self.module.instruction(id).called_computations().collect();
        called.into_iter().map(|called| self.computation(called)).fold(0.0, fold)
    }

    fn kernel(&self, id: InstructionId) -> f64 {
        let inst = self.module.instruction(id);
        if HostMove::of(inst).is_some() {
            let bytes = size::shape_size(&inst.shape).map_or(0.0, |bytes| bytes.get() as f64);
            return bytes / self.machine.link_bytes_per_second as f64 + self.machine.kernel as f64 * 1e-9;
        }
        let fused = (inst.opcode == Opcode::Fusion).then(|| inst.called_computations().next()).flatten();
        let written = fused.map_or(id, |fused| self.module.computation(fused).root);
        let inside: Vec<InstructionId> =
            fused.map_or(vec![id], |fused| self.module.computation(fused).instructions.clone());
        let parts = Parts::of(self.module, &inside, written);
        let arrays = fused.map_or(inst.operands.to_vec(), |fused| self.module.parameters(fused));
        let read = inst
            .operands
            .iter()
            .zip(arrays)
            .map(|(&operand, array)| self.traffic(self.is_given(operand)).read(array, parts.of_value(array)));
        let traffic = read.sum::<f64>() + self.traffic(self.is_returned(id)).written(written);
        let simple = scalar::simple(self.module, self.machine, inside.iter().copied());
        let operations: f64 = inside.iter().map(|&id| self.operations(id, simple) * parts.of_value(id)).sum();
        let busy = (traffic / self.machine.bytes_per_second as f64).max(operations);
        busy + self.start(busy)
    }

    /// What kernels move of a value.
    fn traffic(&self, is_in_memory: bool) -> Traffic<'_> {
        Traffic { module: self.module, machine: self.machine, is_in_memory }
    }

    /// Whether a value is an argument of the program, which no kernel before has brought into a cache.
    fn is_given(&self, id: InstructionId) -> bool {
        let inst = self.module.instruction(id);
        inst.opcode == Opcode::Parameter && inst.parent == self.module.entry()
    }

    /// Whether a kernel makes a result of the program, which has to be in memory at the end.
    fn is_returned(&self, id: InstructionId) -> bool {
        let root = self.module.computation(self.module.entry()).root;
        let last = self.module.instruction(root);
        id == root || (last.opcode == Opcode::Tuple && last.operands.contains(&id))
    }

    /// What starting a kernel takes. On CPU that is waiting for threads, over which nobody divides work that takes less.
    fn start(&self, busy: f64) -> f64 {
        let start = self.machine.kernel as f64 * 1e-9;
        if self.machine.target == Target::Cpu { start.min(busy) } else { start }
    }

    /// Seconds that the operations of an instruction take in a kernel where a simple one takes `simple`.
    fn operations(&self, id: InstructionId, simple: f64) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(id);
        let elements = |id: InstructionId| elements(self.module.shape(id));
        let is_real = inst.array().is_none_or(|array| array.element_type.is_float());
        let number = scalar::number(self.machine, inst.opcode).filter(|_| is_real || !inst.opcode.is_elementwise());
        let first = |place: usize| inst.operands.get(place).map_or(0.0, |&operand| elements(operand));
        match (inst.opcode, number) {
            (O::Dot | O::Convolution | O::CustomCall, _) => self.product(id).unwrap_or(0.0),
            (O::Sort, _) => elements(id) * elements(id).max(2.0).log2() * number.unwrap_or(simple),
            (O::Scatter, Some(number)) => first(inst.operands.len() - 1) * number,
            (O::SelectAndScatter, Some(number)) => first(0) * number,
            (_, Some(number)) => elements(id) * number,
            (O::Reduce | O::ReduceWindow, None) => first(0) * simple,
            (O::RngBitGenerator, None) => elements(id) * RANDOM * simple,
            (opcode, None) if is_transcendental(opcode) => elements(id) / self.machine.transcendentals as f64,
            (opcode, None) if opcode.is_elementwise() => elements(id) * simple,
            _ => 0.0,
        }
    }

    /// The same of a product.
    fn product(&self, id: InstructionId) -> Option<f64> {
        let inst = self.module.instruction(id);
        let (array, count) = (first_array(&inst.shape)?, multiplications(self.module, id, self.machine.target)? as f64);
        let traffic = count * self.machine.product_traffic(array.element_type);
        let shared = self.module.instruction(*inst.operands.get(1)?).array().and_then(ArrayShape::elements)? as f64;
        // Rows of the first operand that meet each element of the second.
        let rows = (count / shared).max(1.0);
        let waiting = 1.0 + self.machine.few_rows as f64 / rows;
        let wide = if matches!(array.element_type, ElementType::C64 | ElementType::C128) { 4.0 } else { 1.0 };
        Some(traffic * waiting * wide / self.machine.bytes_per_second as f64)
    }
}

/// Elements of an array, or of all arrays of a tuple.
fn elements(shape: &Shape) -> f64 {
    match shape {
        Shape::Tuple(parts) => parts.iter().map(|part| elements(part)).sum(),
        other => other.as_array().and_then(ArrayShape::elements).unwrap_or(0) as f64,
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// Nanoseconds on a machine that moves a byte, makes two multiplications with their additions and four additions in a nanosecond, starts a kernel in 1,000
    /// and an iteration in 500, copies a tenth of a byte to its host, and has no cache.
    fn nanoseconds(body: &str, rest: &str) -> (u64, bool) {
        nanoseconds_with(0, body, rest)
    }

    /// The same with a cache of so many bytes.
    fn nanoseconds_with(cache: u64, body: &str, rest: &str) -> (u64, bool) {
        let machine = Machine {
            bytes_per_second: 1_000_000_000,
            cache: hlo_memory::Bytes(cache),
            link_bytes_per_second: 100_000_000,
            kernel: 1000,
            iteration: 500,
            operations: crate::machine::Operations { f64: 0, f32: 4_000_000_000, bf16: 0 },
            arithmetic: 4_000_000_000,
            few_rows: 0,
            ..Machine::of(Target::Gpu).clone()
        };
        let source = format!("HloModule m, is_scheduled=true\n\n{rest}ENTRY main {{\n{body}}}\n");
        let module = text::parse(&source).expect("a module");
        let time = run_time(&module, Target::Gpu, &machine).expect("a time");
        ((time.seconds * 1e9).round() as u64, time.is_certain)
    }

    #[test]
    fn a_kernel_takes_its_traffic_or_its_operations() {
        let added = "  x = f32[256] parameter(0)\n  ROOT y = f32[256] add(x, x)\n";
        // Twice read as it stands here, once written.
        assert_eq!(nanoseconds(added, "").0, 3 * 1024 + 1000);
        let product = "  x = f32[64,64] parameter(0)\n  ROOT y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
        assert_eq!(nanoseconds(product, "").0, 64 * 64 * 64 / 2 + 1000);
    }

    #[test]
    fn arguments_and_results_are_in_memory_whatever_fits_a_cache() {
        let body = "  x = f32[256] parameter(0)\n  y = f32[256] negate(x)\n  z = f32[256] negate(y)\n  ROOT t = (f32[256]) tuple(z)\n";
        let cached = 2 * 1024 * 2 / 5;
        assert_eq!(nanoseconds_with(1024, body, "").0, 2 * 1024 + cached + 2 * 1000, "x is read, z is written");
        assert_eq!(nanoseconds_with(1023, body, "").0, 4 * 1024 + 2 * 1000);
    }

    #[test]
    fn slices_and_updates_are_all_that_is_moved() {
        let sliced = "  x = f32[1000,256] parameter(0)\n  i = s32[] parameter(1)\n  z = s32[] constant(0)\n  ROOT y = f32[1,256] dynamic-slice(x, i, z), dynamic_slice_sizes={1,256}\n";
        assert_eq!(nanoseconds(sliced, "").0, 2 * 1024 + 8 + 1000);
        let updated = "  x = f32[1000,256] parameter(0)\n  u = f32[1,256] parameter(1)\n  i = s32[] parameter(2)\n  z = s32[] constant(0)\n  ROOT y = f32[1000,256] dynamic-update-slice(x, u, i, z)\n";
        assert_eq!(nanoseconds(updated, "").0, 2 * 1024 + 8 + 1000);
    }

    #[test]
    fn a_fusion_is_one_kernel_that_reads_what_it_uses() {
        let fused = "f {\n  x = f32[1000,256] parameter(0)\n  s = f32[1,256] slice(x), slice={[3:4], [0:256]}\n  t = f32[1,256] add(s, s)\n  ROOT y = f32[1,256] multiply(t, t)\n}\n\n";
        let body = "  x = f32[1000,256] parameter(0)\n  ROOT y = f32[1,256] fusion(x), kind=kLoop, calls=f\n";
        assert_eq!(nanoseconds(body, fused).0, 2 * 1024 + 1000);
    }

    #[test]
    fn what_is_updated_and_read_on_is_read_as_a_whole() {
        let fused = "f {\n  x = f32[1000,256] parameter(0)\n  u = f32[1,256] parameter(1)\n  i = s32[] parameter(2)\n  z = s32[] constant(0)\n  d = f32[1000,256] dynamic-update-slice(x, u, i, z)\n  ROOT y = f32[1000,256] negate(d)\n}\n\n";
        let body = "  x = f32[1000,256] parameter(0)\n  u = f32[1,256] parameter(1)\n  i = s32[] parameter(2)\n  ROOT y = f32[1000,256] fusion(x, u, i), kind=kLoop, calls=f\n";
        assert_eq!(nanoseconds(body, fused).0, 2 * 1_024_000 + 1024 + 4 + 1000);
    }

    #[test]
    fn a_kernel_computes_only_what_it_slices() {
        let fused = "f {\n  x = f32[1000,256] parameter(0)\n  e = f32[1000,256] exponential(x)\n  a = f32[1000,256] add(e, e)\n  ROOT y = f32[1,256] slice(a), slice={[3:4], [0:256]}\n}\n\n";
        let body = "  x = f32[1000,256] parameter(0)\n  ROOT y = f32[1,256] fusion(x), kind=kLoop, calls=f\n";
        assert_eq!(nanoseconds(body, fused).0, 2 * 1024 + 1000, "one row is read and one is written");
    }

    #[test]
    fn copies_to_the_host_and_back_take_the_link() {
        let body = "  x = f32[256] parameter(0)\n  h = f32[256]{0:S(5)} custom-call(x), custom_call_target=\"MoveToHost\"\n  ROOT y = f32[256] custom-call(h), custom_call_target=\"MoveToDevice\"\n";
        // A tenth of a byte in a nanosecond.
        assert_eq!(nanoseconds(body, "").0, 2 * (10 * 1024 + 1000));
    }

    #[test]
    fn calls_of_a_library_that_convolve_take_their_operations() {
        let call = |operands: &str| {
            format!(
                "  x = f32[8,4,4,64] parameter(0)\n  k = f32[64,3,3,64] parameter(1)\n  ROOT c = (f32[8,4,4,64], u8[0]) custom-call({operands}), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_o01i->b01f, custom_call_target=\"__cudnn$conv\"\n"
            )
        };
        // Of three places of the kernel and four of the image, ten pairs meet a number in each dimension.
        let multiplications = 8 * 64 * 64 * (10 * 10);
        assert_eq!(nanoseconds(&call("x, k"), "").0, multiplications / 2 + 1000);
        assert!(nanoseconds(&call("x"), "").0 > 1000, "without a kernel it is one of somebody else's");
    }

    #[test]
    fn loops_take_their_iterations() {
        let parts = |bound: &str| {
            format!(
                "more {{\n  s = (s32[], f32[256]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] {bound}\n  ROOT c = pred[] compare(i, n), direction=LT\n}}\n\n\
                 body {{\n  s = (s32[], f32[256]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  x = f32[256] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  y = f32[256] negate(x)\n  ROOT t = (s32[], f32[256]) tuple(j, y)\n}}\n\n"
            )
        };
        let body =
            "  s = (s32[], f32[256]) parameter(0)\n  ROOT w = (s32[], f32[256]) while(s), condition=more, body=body\n";
        let iteration = 500 + (9 + 1000) + (12 + 1000) + (2048 + 1000);
        assert_eq!(nanoseconds(body, &parts("constant(10)")), (10 * iteration, true));
        // Nobody knows where this one ends.
        assert!(!nanoseconds(body, &parts("get-tuple-element(s), index=0")).1);
    }

    #[test]
    fn branches_take_the_longest() {
        let parts = "short {\n  ROOT x = f32[256] parameter(0)\n}\n\nlong {\n  x = f32[256] parameter(0)\n  ROOT y = f32[256] negate(x)\n}\n\n";
        let body = "  p = pred[] parameter(0)\n  x = f32[256] parameter(1)\n  ROOT y = f32[256] conditional(p, x, x), true_computation=short, false_computation=long\n";
        assert_eq!(nanoseconds(body, parts).0, 2048 + 1000);
    }
}
