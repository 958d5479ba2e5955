//! The Python package: installed the way users install it, then tested by its own tests (`python/tests`) with every supported JAX.
//!
//! Pins `python/src/lib.rs`, `src/verify_xla.rs`, `src/machine_flags.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "referee/session.rs"]
#[allow(dead_code, reason = "this test needs the environment only")]
mod session;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command; a failure fails the test and shows what it printed.
fn succeed(command: &mut Command, what: &str) -> String {
    let output = command.current_dir(root()).output().unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "\n{what} failed:\n{text}");
    text
}

/// The wheel that `pip wheel .` builds, without optimization so that the build shares its parts with these tests.
fn wheel() -> &'static Path {
    static WHEEL: OnceLock<PathBuf> = OnceLock::new();
    WHEEL.get_or_init(|| {
        let folder = session::workspace("wheel");
        let mut pip = Command::new(session::python());
        pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]);
        pip.arg("--wheel-dir").arg(&folder).arg(root()).env("MATURIN_PEP517_ARGS", "--profile dev");
        // Without isolation the build tool is the one of the environment, which need not be active.
        let tools = session::python().parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        pip.env("PATH", std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path))).unwrap());
        succeed(&mut pip, "building the wheel");
        let wheels: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(wheels.len(), 1, "one wheel is built: {wheels:?}");
        wheels.into_iter().next().unwrap()
    })
}

/// Installs the wheel beside the packages that `python` has and runs these tests of the package with it.
fn tested(python: &Path, tests: &[&str]) {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"]);
    succeed(pip.arg(wheel()), "installing the wheel");
    let report =
        succeed(Command::new(python).args(["-m", "pytest", "-q"]).args(tests).env_remove("PYTHONPATH"), "pytest");
    assert!(report.contains(" passed"), "pytest ran nothing:\n{report}");
}

#[test]
fn the_package_passes_its_tests() {
    tested(&session::python(), &["python/tests"]);
}

/// Runs the command with `--verify-with-xla` and a Python of its choice.
fn verified(python: &Path, folder: &Path) -> std::process::Output {
    let module = std::fs::read_to_string(root().join("corpus/founding/s32.before.hlo")).unwrap();
    let input = folder.join("before.hlo");
    std::fs::write(&input, module.replace("8589934592", "1000003")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hlo-opt"));
    command.args(["--verify-with-xla", "--chunk-bytes=64KiB", "-o"]).arg(folder.join("after.hlo")).arg(input);
    command.env("HLO_OPT_PYTHON", python).env("PYTHONPATH", root().join("python")).output().unwrap()
}

#[test]
fn the_command_asks_xla_whether_results_are_equal() {
    let folder = session::workspace("verify-with-xla");
    let output = verified(&session::python(), &folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("verified with XLA: equal: 3 data sets, the same bits"), "{said}");
    assert!(folder.join("after.hlo").exists());
}

#[cfg(unix)]
#[test]
fn nothing_is_written_when_xla_disagrees_or_cannot_be_asked() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = session::workspace("verify-refused");
    // A referee that finds a difference, one that fails, and none at all.
    for (script, code, sentence) in [
        ("echo other; exit 3", 3, "computes other results"),
        ("exit 1", 1, "could not run both"),
        ("", 1, "pip install"),
    ] {
        let python = folder.join("python");
        let _ = std::fs::remove_file(&python);
        if !script.is_empty() {
            std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let output = verified(&python, &folder);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(sentence), "{said}");
        assert!(!folder.join("after.hlo").exists(), "something was written");
    }
}

#[test]
fn a_machine_that_was_measured_is_read_back() {
    let folder = session::workspace("calibrate");
    let (input, machine) = (root().join("corpus/founding/s32.before.hlo"), folder.join("machine.toml"));
    // Small arrays: what matters is that each key is measured and printed as it is read.
    let mut calibrate = Command::new(session::python());
    calibrate.args(["-m", "hlo_opt.xla", "calibrate", "--largest", "1MiB"]);
    let measured = calibrate.env("PYTHONPATH", root().join("python")).env("JAX_PLATFORMS", "cpu").output().unwrap();
    let description = String::from_utf8(measured.stdout).unwrap();
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    let read = |description: &str| {
        std::fs::write(&machine, description).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hlo-opt"));
        let output = command.args(["-q", "--machine"]).args([&machine, &input]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_read, said) = read(&description);
    assert!(is_read, "{said}\n{description}");
    assert!(description.contains("target = \"cpu\""), "{description}");
    for key in ["f16 =", "memory_bytes ="] {
        // Whole lines: the rate of `bf16` may be the same figure, and its name ends like that of `f16`.
        let lines = description.lines().filter(|line| !line.starts_with(key)).collect::<Vec<_>>();
        assert_eq!(lines.len() + 1, description.lines().count(), "{description}");
        let (is_read, said) = read(&lines.join("\n"));
        assert!(is_read, "{key} may be missing: {said}");
    }
    let (is_read, said) = read(&description.replace("kernel_seconds", "seconds_of_a_kernel"));
    assert!(!is_read && said.contains("seconds_of_a_kernel"), "{said}");
}

/// A program that magnifies rounding: on normal data its own results are noise.
const MAGNIFIED: &str = "HloModule m

ENTRY %main {
  %x = f32[4096,256] parameter(0)
  %y = f32[256,1024] parameter(1)
  %v = f32[1024,8] parameter(2)
  %p = f32[4096,1024] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %k = f32[] constant(10000)
  %ks = f32[4096,1024] broadcast(%k), dimensions={}
  %q = f32[4096,1024] multiply(%p, %ks)
  %c = f32[4096,1024] cosine(%q)
  ROOT %r = f32[4096,8] dot(%c, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";

#[cfg(unix)]
#[test]
fn noise_of_the_original_is_told_from_a_mistake() {
    use std::os::unix::fs::PermissionsExt as _;

    // The rewritten module comes with another constant: one that is off by a rounding of the product, and a wrong one.
    for (constant, code, sentence) in
        [("10000.001", 0, "the original is noise on"), ("10001", 3, "computes other results")]
    {
        let folder = session::workspace(&format!("verify-noise-{constant}"));
        let (input, python) = (folder.join("before.hlo"), folder.join("python"));
        std::fs::write(&input, MAGNIFIED).unwrap();
        let script = format!(
            "#!/bin/sh\nfor after; do :; done\nsed -i.old 's/constant(10000)/constant({constant})/' \"$after\"\nexec '{}' \"$@\"\n",
            session::python().display()
        );
        std::fs::write(&python, script).unwrap();
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hlo-opt"));
        command.args(["--verify-with-xla", "--chunk-bytes=256KiB", "-o"]).arg(folder.join("after.hlo")).arg(input);
        let output = command.env("HLO_OPT_PYTHON", &python).env("PYTHONPATH", root().join("python")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(sentence), "{constant}: {said}");
    }
}

/// A program whose results are noise on any data: what a product of thousands is past its nearest integer.
const PAST_INTEGERS: &str = "HloModule m

ENTRY %main {
  %x = f32[4096,256] parameter(0)
  %y = f32[256,1024] parameter(1)
  %v = f32[1024,8] parameter(2)
  %p = f32[4096,1024] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %k = f32[] constant(10000)
  %ks = f32[4096,1024] broadcast(%k), dimensions={}
  %m = f32[4096,1024] multiply(%p, %ks)
  %n = f32[4096,1024] round-nearest-even(%m)
  %d = f32[4096,1024] subtract(%m, %n)
  %e = f32[4096,1024] exponential(%d)
  ROOT %r = f32[4096,8] dot(%e, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";

/// Kind: other results where the original is as far from double precision, here on tamer data too, which is said.
#[test]
fn what_is_noise_on_tamer_data_too_is_said_to_be_undecided() {
    let folder = session::workspace("verify-undecided");
    let (input, result) = (folder.join("before.hlo"), folder.join("after.hlo"));
    std::fs::write(&input, PAST_INTEGERS).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hlo-opt"));
    command.args(["--verify-with-xla", "--chunk-bytes=256KiB", "-o"]).arg(&result).arg(input);
    let output =
        command.env("HLO_OPT_PYTHON", session::python()).env("PYTHONPATH", root().join("python")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("nothing tells a mistake from rounding"), "{said}");
    assert!(!result.exists(), "something was written");
}

#[test]
#[ignore = "installs TensorFlow and PyTorch/XLA (3.3 GB) and takes ten minutes"]
fn other_frameworks_run_what_comes_out() {
    let mut programs = Command::new(session::python());
    programs.arg("tests/referee/frameworks.py").arg("--wheel").arg(wheel()).env_remove("PYTHONPATH");
    let said = succeed(&mut programs, "running programs of TensorFlow and PyTorch/XLA");
    assert!(said.contains("| PyTorch/XLA ") && said.contains("All results agree."), "{said}");
}

#[test]
fn older_versions_of_jax_pass_too() {
    // The referee runs with one XLA, the newest.
    let of_jax = [
        "jit",
        "api",
        "install",
        "internals",
        "effects",
        "fallback",
        "calls",
        "stablehlo",
        "devices",
        "partitioned",
        "training",
    ]
    .map(|name| format!("python/tests/test_{name}.py"));
    let of_jax = of_jax.each_ref().map(String::as_str);
    for version in ["0.9", "0.8"] {
        tested(
            &session::environment(&format!("python/tests/jax-{version}.txt"), &format!("jax-{version}-venv")),
            &of_jax,
        );
    }
}
