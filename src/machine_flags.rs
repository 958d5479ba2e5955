//! The machine that runs the result: what `--target` may name, and the description that `--machine` reads.

// Tests: `tests/python.rs`.

use std::path::Path;

use clap::builder::PossibleValue;
use hlo_memory::{Bytes, Target};
use hlo_passes::Machine;
use hlo_passes::machine::Operations;
use serde::Deserialize;

use crate::usage_error::UsageError;

/// The compilers, with what the help says of them.
const TARGETS: [(Target, &str, &str); 3] = [
    (Target::Cpu, "cpu", "XLA:CPU"),
    (Target::Tpu, "tpu", "XLA:TPU (memory by a rough model)"),
    (Target::Gpu, "gpu", "XLA:GPU (memory by a rough model)"),
];

/// What `--target` takes: a compiler, or one with a machine whose memory and speed count, as in `gpu:h100`.
pub(crate) fn targets() -> Vec<PossibleValue> {
    let plain = TARGETS.iter().map(|&(_, name, help)| PossibleValue::new(name).help(help));
    let named = TARGETS.iter().filter(|(target, ..)| *target != Target::Cpu).flat_map(|&(target, name, _)| {
        Machine::known(target).map(move |machine| {
            let memory = machine.memory.unwrap_or_default();
            PossibleValue::new(format!("{name}:{}", machine.name)).help(format!("{memory} on a device"))
        })
    });
    plain.chain(named).collect()
}

/// The compiler and the machine that a value of `--target` names.
pub(crate) fn target(value: &str) -> (Target, Option<Machine>) {
    let (compiler, machine) = value.split_once(':').unwrap_or((value, ""));
    let target = TARGETS.iter().find(|(_, name, _)| *name == compiler).map_or(Target::Cpu, |&(target, ..)| target);
    (target, Machine::named(target, machine).cloned())
}

/// How `--target` spells a compiler.
pub(crate) fn name(target: Target) -> &'static str {
    TARGETS.iter().find(|(known, ..)| *known == target).map_or("", |&(_, name, _)| name)
}

/// A file that describes a machine, as `python -m hlo_opt.xla calibrate` prints it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    target: Compiler,
    memory_bytes: Option<u64>,
    bytes_per_second: f64,
    cache_bytes: u64,
    kernel_seconds: f64,
    iteration_seconds: f64,
    few_rows: u64,
    arithmetic_per_second: Option<f64>,
    transcendentals_per_second: Option<f64>,
    fresh_bytes_per_second: Option<f64>,
    link_bytes_per_second: Option<f64>,
    malloc_cache_bytes: Option<u64>,
    operations_per_second: Rates,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Compiler {
    Cpu,
    Tpu,
    Gpu,
}

/// Operations per second of products, by the type of their elements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    f64: Option<f64>,
    f32: f64,
    bf16: f64,
    /// Measured, and taken to be that of `bf16`.
    #[serde(rename = "f16")]
    _f16: Option<f64>,
}

/// Reads a description of a machine.
///
/// # Errors
/// The file cannot be read, or a key is missing, unknown or no sensible number: the message names the line.
pub(crate) fn read(path: &Path) -> Result<Machine, UsageError> {
    let refuse = |why: String| UsageError(format!("--machine {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let found: Description = toml::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    found.machine().map_err(refuse)
}

impl Description {
    fn machine(self) -> Result<Machine, String> {
        let target = match self.target {
            Compiler::Cpu => Target::Cpu,
            Compiler::Tpu => Target::Tpu,
            Compiler::Gpu => Target::Gpu,
        };
        let rates = self.operations_per_second;
        let bytes_per_second = rate("bytes_per_second", self.bytes_per_second)?;
        let f32 = rate("operations_per_second.f32", rates.f32)?;
        let usual = Machine::of(target);
        // What is not measured is as far from the usual machine as its products are.
        let scaled = |of: u64| (of as f64 * f32 as f64 / usual.operations.f32 as f64).max(1.0) as u64;
        let optional = |key, value: Option<f64>, of: u64| value.map_or(Ok(scaled(of)), |value| rate(key, value));
        Ok(Machine {
            name: self.name.into(),
            target,
            memory: self.memory_bytes.filter(|_| target != Target::Cpu).map(Bytes),
            bytes_per_second,
            cache: Bytes(self.cache_bytes),
            link_bytes_per_second: match self.link_bytes_per_second {
                Some(value) => rate("link_bytes_per_second", value)?,
                None => usual.link_bytes_per_second,
            },
            kernel: nanoseconds("kernel_seconds", self.kernel_seconds)?,
            iteration: nanoseconds("iteration_seconds", self.iteration_seconds)?,
            operations: Operations {
                f64: optional("operations_per_second.f64", rates.f64, usual.operations.f64)?,
                f32,
                bf16: rate("operations_per_second.bf16", rates.bf16)?,
            },
            arithmetic: optional("arithmetic_per_second", self.arithmetic_per_second, usual.arithmetic)?,
            transcendentals: optional(
                "transcendentals_per_second",
                self.transcendentals_per_second,
                usual.transcendentals,
            )?,
            fresh_bytes_per_second: match self.fresh_bytes_per_second {
                Some(value) => Some(rate("fresh_bytes_per_second", value)?),
                None => usual.fresh_bytes_per_second,
            },
            malloc_cache: self.malloc_cache_bytes.map_or(usual.malloc_cache, Bytes),
            few_rows: self.few_rows,
        })
    }
}

/// A number of things per second, which a machine does some of.
fn rate(key: &str, value: f64) -> Result<u64, String> {
    let sensible = (1.0..=1e18).contains(&value);
    if sensible { Ok(value as u64) } else { Err(format!("`{key}` is {value}, and must be from 1 to 1e18")) }
}

fn nanoseconds(key: &str, seconds: f64) -> Result<u64, String> {
    let sensible = (0.0..=1.0).contains(&seconds);
    if sensible {
        Ok((seconds * 1e9).round() as u64)
    } else {
        Err(format!("`{key}` is {seconds}, and must be from 0 to 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a description, changed in one place.
    fn said(old: &str, new: &str) -> String {
        let text = include_str!("../tests/machines/server.toml").replace(old, new);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("machine.toml");
        std::fs::write(&path, text).expect("a file");
        match read(&path) {
            Ok(machine) => format!("{machine:?}"),
            Err(error) => error.0.replace(&path.display().to_string(), "FILE"),
        }
    }

    #[test]
    fn descriptions_are_read() {
        let read = said("", "");
        assert!(read.contains("bytes_per_second: 21800000000") && read.contains("kernel: 3400"), "{read}");
    }

    #[test]
    fn wrong_descriptions_name_the_key() {
        for (old, new, part) in [
            ("kernel_seconds", "kernel_time", "line 6, column 1"),
            ("kernel_seconds", "kernel_time", "unknown field `kernel_time`"),
            ("kernel_seconds = 3.4e-06\n", "", "missing field `kernel_seconds`"),
            ("3.4e-06", "\"fast\"", "line 6"),
            ("3.4e-06", "-1.0", "`kernel_seconds` is -1"),
            ("2.18e+10", "0.0", "`bytes_per_second` is 0"),
            ("2.18e+10", "nan", "`bytes_per_second` is NaN"),
            ("\"cpu\"\nmemory", "\"abacus\"\nmemory", "unknown variant `abacus`"),
        ] {
            let said = said(old, new);
            assert!(said.starts_with("--machine FILE: ") && said.contains(part), "{said}");
        }
    }

    /// The estimates of `python -m hlo_opt.xla time` read a file, which has what the table has.
    #[test]
    fn python_knows_the_same_machines() {
        let text = include_str!("../python/hlo_opt/xla/machines.json");
        let rows: Vec<Description> = serde_json::from_str(text).expect("a list of descriptions");
        let theirs: Vec<_> = rows.into_iter().map(|row| row.machine().expect("a machine")).collect();
        let ours: Vec<_> = TARGETS.iter().flat_map(|&(target, ..)| Machine::known(target).cloned()).collect();
        assert_eq!(theirs, ours);
    }

    #[test]
    fn targets_name_machines() {
        assert_eq!(target("gpu"), (Target::Gpu, None));
        assert_eq!(target("gpu:h100").1.map(|machine| machine.name.to_string()), Some("h100".to_owned()));
        let names: Vec<String> = targets().iter().map(|value| value.get_name().to_owned()).collect();
        assert!(names.contains(&"tpu:v5p".to_owned()) && !names.contains(&"cpu:cpu".to_owned()), "{names:?}");
    }
}
