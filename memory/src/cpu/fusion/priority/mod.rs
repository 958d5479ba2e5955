//! Which values XLA:GPU makes in every kernel that reads them, by what its cost model says that saves: the one that saves most comes first.
//!
//! A value goes into all kernels that read it or into none. Bitcasts take no time and go wherever they can.
//!
//! Source: `PriorityFusionQueue` (xla/service/gpu/transforms/priority_fusion.cc).

// Tests: `memory/tests/devices.rs`.

mod cycles;
mod diamonds;
mod facts;
mod kernel;
mod places;
mod price;
mod reduction;
mod rows;
mod rules;

use std::collections::BTreeSet;
use std::rc::Rc;

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::graph::Graph;
use crate::hash::{IndexMap, IndexSet};
use kernel::{Kernel, Kernels};
pub(super) use places::{moves_rows, transposes};
pub(super) use reduction::{is_by_threads, shared_bytes};
pub use rows::fits_registers;
pub(super) use rules::takes_values;

/// What is saved, in picoseconds, and the value that is made where it is read; of two that save the same the later one.
type Key = (i64, InstructionId);

/// By what a kernel writes and what it reads, the step that made it a fusion which reads that: new fusions are the last users of what they read.
pub(super) type ReadSince = IndexMap<(InstructionId, InstructionId), u32>;

/// The kernels of a computation.
pub(super) struct Plan {
    /// The values that every kernel which reads them makes itself.
    pub(super) made: SideTable<InstructionId, bool>,
    pub(super) read_since: ReadSince,
}

/// The kernels that XLA:GPU makes of `computation`.
pub(super) fn plan(graph: &Graph, computation: ComputationId) -> Plan {
    let mut queue = Queue::new(graph, computation);
    queue.fill();
    while let Some(value) = queue.next() {
        queue.make_where_read(value);
    }
    Plan { made: queue.kernels.into_made(), read_since: queue.read_since }
}

/// The values that could be made where they are read, and the kernels there would be.
struct Queue<'a> {
    graph: &'a Graph,
    kernels: Kernels<'a>,
    known: SideTable<InstructionId, Option<Rc<Kernel>>>,
    values: SideTable<InstructionId, Option<Box<Value>>>,
    order: BTreeSet<Key>,
    read_since: ReadSince,
    /// Values that were made where they are read, so far.
    steps: u32,
}

/// A value that could be made where it is read.
#[derive(Clone, Debug, Default)]
struct Value {
    /// For each kernel that reads it the nanoseconds that it loses by making the value; `None` if it cannot.
    readers: IndexMap<InstructionId, Option<f64>>,
    /// Where it stands in the order.
    key: Option<Key>,
}

impl<'a> Queue<'a> {
    fn new(graph: &'a Graph, computation: ComputationId) -> Self {
        Self {
            graph,
            kernels: Kernels::new(graph, computation),
            known: SideTable::new(None),
            values: SideTable::new(None),
            order: BTreeSet::new(),
            read_since: IndexMap::default(),
            steps: 0,
        }
    }

    /// Begins: bitcasts are made where they are read, and of all else it is asked what that would save.
    fn fill(&mut self) {
        let candidates: Vec<InstructionId> =
            self.kernels.order().into_iter().filter(|&id| rules::is_candidate(self.graph, id)).collect();
        for &id in &candidates {
            if self.graph.opcode(id) == Opcode::Bitcast {
                self.kernels.make_where_read(id);
            }
        }
        for id in self.kernels.order() {
            for inner in diamonds::inside(self.graph, id).unwrap_or_default() {
                self.kernels.make_of_rows(inner);
            }
        }
        for &id in &candidates {
            if !self.kernels.is_made(id) && !rules::is_needed(self.graph, id) {
                self.begin(id);
            }
        }
    }

    /// Asks for the first time what making a value where it is read would save.
    fn begin(&mut self, id: InstructionId) {
        let readers = self.readers(id);
        if !readers.is_empty() {
            let readers = readers.into_iter().map(|reader| (reader, None)).collect();
            self.values.set(id, Some(Box::new(Value { readers, key: None })));
            self.ask_all(id);
        }
    }

    fn next(&mut self) -> Option<InstructionId> {
        self.order.pop_last().map(|key| key.1)
    }

    /// Makes a value where it is read, and asks again what depends on it.
    fn make_where_read(&mut self, value: InstructionId) {
        let readers = self.values[value].take().map(|value| value.readers).unwrap_or_default();
        for read in &self.kernel(value).reads {
            if let Some(other) = &mut self.values[read.of] {
                other.readers.swap_remove(&value);
            }
        }
        self.note_reads(value, readers.keys().copied());
        self.take_in(value, readers.keys().copied());
        self.kernels.make_where_read(value);
        self.known.set(value, None);
        let mut again: IndexSet<InstructionId> = IndexSet::default();
        for &reader in readers.keys() {
            self.known.set(reader, None);
            for read in &self.kernel(reader).reads {
                self.ask(read.of, reader);
                again.insert(read.of);
            }
        }
        again.into_iter().for_each(|id| self.place(id));
        readers.into_keys().for_each(|reader| self.ask_all(reader));
    }

    /// Notes what the readers of a value read from now on, when they make it.
    fn note_reads(&mut self, value: InstructionId, readers: impl Iterator<Item = InstructionId>) {
        self.steps += 1;
        let own = self.kernel(value);
        for reader in readers {
            let kernel = self.kernel(reader);
            for of in kernel.reads.iter().chain(&own.reads).map(|read| read.of) {
                self.read_since.entry((reader, of)).or_insert(self.steps);
            }
        }
    }

    /// Notes what the readers of a value compute when they make it.
    fn take_in(&mut self, value: InstructionId, readers: impl Iterator<Item = InstructionId>) {
        let own = self.kernel(value).operations;
        for reader in readers {
            let kernel = self.kernel(reader);
            let times = kernel.read(value).map_or(0.0, |read| read.times);
            self.kernels.take_in(reader, kernel.operations + own * times);
        }
    }

    /// Asks what every reader of a value would lose by making it.
    fn ask_all(&mut self, id: InstructionId) {
        let Some(value) = &self.values[id] else { return };
        let readers: SmallVec<[InstructionId; 8]> = value.readers.keys().copied().collect();
        readers.into_iter().for_each(|reader| self.ask(id, reader));
        self.place(id);
    }

    /// Asks what one reader of a value would lose by making it.
    fn ask(&mut self, id: InstructionId, reader: InstructionId) {
        if self.values[id].is_none() {
            return;
        }
        let (own, kernel) = (self.kernel(id), self.kernel(reader));
        let may = rules::may_join(self.graph, (id, &own), (reader, &kernel));
        let lost = may.then(|| price::together(self.kernels.facts(), (id, &own), &kernel) - kernel.time);
        if let Some(value) = &mut self.values[id] {
            value.readers.insert(reader, lost);
        }
    }

    /// Puts a value where it belongs in the order, if making it where it is read saves time.
    fn place(&mut self, id: InstructionId) {
        let own = if self.values[id].is_some() { self.kernel(id).time + price::LAUNCH } else { return };
        let Some(value) = &mut self.values[id] else { return };
        if let Some(key) = value.key.take() {
            self.order.remove(&key);
        }
        let lost: Option<f64> = value.readers.values().copied().sum();
        if let Some(saved) = lost.map(|lost| own - lost).filter(|&saved| saved >= 0.0) {
            let key = ((saved * 1e3) as i64, id);
            value.key = Some(key);
            self.order.insert(key);
        }
    }

    fn kernel(&mut self, root: InstructionId) -> Rc<Kernel> {
        if let Some(known) = &self.known[root] {
            return Rc::clone(known);
        }
        let mut built = self.kernels.build(root);
        built.time = price::alone(self.kernels.facts(), &built);
        let built = Rc::new(built);
        self.known.set(root, Some(Rc::clone(&built)));
        built
    }

    /// The kernels that read a value, as long as only bitcasts are made where they are read.
    fn readers(&self, id: InstructionId) -> SmallVec<[InstructionId; 8]> {
        let mut found = SmallVec::new();
        let mut open: SmallVec<[InstructionId; 16]> = self.graph.each_user(id).collect();
        let mut seen: IndexSet<InstructionId> = IndexSet::default();
        while let Some(user) = open.pop() {
            if !seen.insert(user) {
                continue;
            }
            if self.kernels.is_made(user) {
                open.extend(self.graph.each_user(user));
            } else if rules::takes_values(self.graph, user) {
                found.push(user);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::graph::Origin;

    /// The gradient of `relu` while its mask, a compared array, stands in memory.
    const MASK: &str = "HloModule m

ENTRY main {
  x = f32[64,56,56,64] parameter(0)
  g = f32[64,56,56,64] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[64,56,56,64] broadcast(zero), dimensions={}
  mask = pred[64,56,56,64] compare(x, zeros), direction=GT
  ROOT s = f32[64,56,56,64] select(mask, g, zeros)
}
";

    #[test]
    fn what_is_saved_is_what_the_compiler_says() {
        let module = hlo_ir::text::parse(MASK).expect("it is legal");
        let graph = Graph::from_module(&module, Origin::Program);
        let mut queue = Queue::new(&graph, graph.entry());
        let named =
            |name: &str| graph.list(graph.entry()).find(|&id| graph.inst(id).name == name).expect("it is there");
        queue.begin(named("mask"));
        // XLA's own list of steps (`priority_fusion_dump.txt`) has 86.3547516 us for the two kernels and 62.3645 us for one.
        let (saved, id) = *queue.order.last().expect("it may be made where it is read");
        assert_eq!((saved + 500) / 1000, 23_990, "in nanoseconds");
        assert_eq!(id, named("mask"));
    }

    #[test]
    fn small_reductions_are_made_where_they_are_read() {
        let text = "HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[4096,4096,COUNT] parameter(0)
  zero = f32[] constant(0)
  s = f32[4096,4096] reduce(x, zero), dimensions={2}, to_apply=add
  ROOT n = f32[4096,4096] negate(s)
}
";
        let is_made = |count: &str| {
            let module = hlo_ir::text::parse(&text.replace("COUNT", count)).expect("it is legal");
            let graph = Graph::from_module(&module, Origin::Program);
            let made = plan(&graph, graph.entry()).made;
            graph.list(graph.entry()).any(|id| graph.opcode(id) == Opcode::Reduce && made[id])
        };
        assert!(is_made("3"), "a thread reduces three");
        assert!(is_made("64"), "a kernel goes on with what it reduced");
    }

    /// A softmax of rows whose sums are a result too. XLA:GPU makes two kernels of it, and each subtracts the largest number of a row itself.
    const SOFTMAX: &str = "HloModule m

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[32768,1024] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  largest = f32[32768] reduce(x, low), dimensions={1}, to_apply=max
  repeated = f32[32768,1024] broadcast(largest), dimensions={0}
  shifted = f32[32768,1024] subtract(x, repeated)
  e = f32[32768,1024] exponential(shifted)
  sums = f32[32768] reduce(e, zero), dimensions={1}, to_apply=add
  again = f32[32768,1024] broadcast(sums), dimensions={0}
  y = f32[32768,1024] divide(e, again)
  ROOT both = (f32[32768,1024], f32[32768]) tuple(y, sums)
}
";

    #[test]
    fn normalized_rows_are_normalized_again_where_they_are_read() {
        let module = hlo_ir::text::parse(SOFTMAX).expect("it is legal");
        let graph = Graph::from_module(&module, Origin::Program);
        let made = plan(&graph, graph.entry()).made;
        let is_made = |name: &str| graph.list(graph.entry()).any(|id| graph.inst(id).name == name && made[id]);
        assert!(is_made("shifted") && is_made("largest") && !is_made("sums"));
    }
}
