//! The range analysis is sound: on random modules and random data every element lies in the range that was promised for it, for the
//! whole array and for every slice of one index.
//!
//! Pins `passes/src/range/mod.rs`.

mod generate;
mod interpret;

use generate::Random;
use hlo_ir::{ElementType, InstructionId, Module, text};
use hlo_passes::range::{Range, Ranges, Region};
use interpret::{Array, Data};

/// Values where arithmetic is likely to go wrong.
fn sample(random: &mut Random, element_type: ElementType) -> i128 {
    let (low, high) = element_type.integer_range().expect("parameters are integers");
    let special = [low, low + 1, high, high - 1, 0, 1, -1, 2, 3, 63, 64, 127];
    let value = if random.below(2) == 0 { *random.pick(&special) } else { random.below(300) as i128 - 150 };
    value.clamp(low, high)
}

fn arguments(module: &Module, random: &mut Random) -> Vec<Data> {
    let parameters = module.parameters(module.entry());
    let arrays = parameters.iter().map(|&id| module.instruction(id).array().expect("parameters are arrays"));
    arrays
        .map(|shape| {
            let count = shape.elements().expect("small");
            let elements = (0..count).map(|_| sample(random, shape.element_type)).collect();
            Data::Array(Array { element_type: shape.element_type, dims: shape.dims.to_vec(), elements })
        })
        .collect()
}

/// Panics unless every element lies in the range of every region that was asked for.
fn check(module: &Module, ranges: &mut Ranges<'_>, id: InstructionId, value: &Array, source: &str) {
    let mut regions = vec![Region::full(&value.dims)];
    for (dim, &size) in value.dims.iter().enumerate() {
        regions.extend((0..size).map(|index| Region::full(&value.dims).with(dim, index, index + 1)));
    }
    for region in regions {
        let promised = ranges.of_region(id, region.clone());
        for (index, &element) in Array::indices(&value.dims).iter().zip(&value.elements) {
            let name = &module.instruction(id).name;
            let holds = !region.contains(index) || promised.contains(element);
            assert!(holds, "{name}{index:?} is {element}, but {promised} was promised for {region:?}\n{source}");
        }
    }
}

#[test]
fn elements_lie_in_their_ranges() {
    for seed in 0..150 {
        let source = generate::module(seed, 24);
        let module = text::parse(&source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
        let problems = hlo_ir::verify::verify(&module);
        assert!(problems.is_empty(), "{problems:?}\n{source}");
        let mut ranges = Ranges::new(&module);
        let mut random = Random(seed ^ 0x5eed);
        for _ in 0..4 {
            let arguments = arguments(&module, &mut random);
            for (id, value) in interpret::run(&module, module.entry(), &arguments) {
                if let Data::Array(array) = &value {
                    check(&module, &mut ranges, id, array, &source);
                }
            }
        }
    }
}

/// A sound analysis may still be useless: over the same modules it must know more than the type for many values.
#[test]
fn the_analysis_says_more_than_the_type() {
    let (mut narrower, mut all) = (0, 0);
    for seed in 0..100 {
        let module = text::parse(&generate::module(seed, 24)).expect("the generator writes legal text");
        let mut ranges = Ranges::new(&module);
        for (id, inst) in module.instructions_of(module.entry()) {
            let Some(array) = inst.array().filter(|_| !inst.opcode.name().starts_with("param")) else { continue };
            all += 1;
            narrower += usize::from(ranges.of(id) != Range::full(array.element_type));
        }
    }
    assert!(narrower * 2 > all, "{narrower} of {all}");
}
