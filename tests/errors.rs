//! What a person sees when something is wrong: the rendered message and the exit code of every kind of error.
//!
//! Pins `src/render.rs`, `src/problem.rs`, `src/usage_error.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{changed, run, run_on, text};

/// The founding program, the victim of the planted errors.
fn founding() -> String {
    text("corpus/founding/s32.before.hlo")
}

/// The founding program with `old` replaced by `new` where it first stands; it must stand somewhere.
fn planted(old: &str, new: &str) -> String {
    let text = founding();
    assert!(text.contains(old), "nothing to replace: {old}");
    text.replacen(old, new, 1)
}

/// A convolution that reads one of four features.
const SPARSE_CONVOLUTION: &str = "HloModule m

ENTRY e {
  x = f32[1,8,8,64] parameter(0)
  k = f32[3,3,16,32] parameter(1)
  ROOT c = f32[1,8,8,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, sparsity_config={rhs={sparsity=1x4 dimension=2 stride=1}}
}
";

/// A product of which one operand has two of four numbers.
const SPARSE_PRODUCT: &str = "HloModule m

ENTRY e {
  a = f16[8,32] parameter(0)
  b = f16[64,8] parameter(1)
  places = u16[8,4] parameter(2)
  ROOT c = f16[8,8] dot(a, b, places), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sparsity=L.1@2:4
}
";

macro_rules! errors {
    ($($name:ident: $run:expr;)*) => {
        $(#[test]
        fn $name() {
            let run = $run;
            assert!(run.stdout.is_empty(), "an error is not a product: {run}");
            insta::assert_snapshot!(run);
        })*
    };
}

errors! {
    truncated_file: run_on(&founding().as_bytes()[..2000], ["-"]);
    empty_file: run_on(b"", ["-"]);
    not_hlo_at_all: run_on(b"#include <stdio.h>\nint main() { return 0; }\n", ["-"]);
    misspelled_opcode: run_on(planted(" concatenate(", " concatenat(").as_bytes(), ["-"]);
    shape_mismatch: run_on(planted("s32[8589934592,1]{1,0} add(", "s32[8589934592,2]{1,0} add(").as_bytes(), ["-"]);
    undefined_operand: run_on(planted("compare(%split.3,", "compare(%splot.3,").as_bytes(), ["-"]);
    duplicate_name: run_on(planted("%constant.6 =", "%constant.7 =").as_bytes(), ["-"]);
    wrong_operand_count: run_on(planted("add(%split.3, %broadcast.2)", "add(%split.3)").as_bytes(), ["-"]);
    unknown_element_type: run_on(planted("s32[8589934592,1]{1,0} slice", "s33[8589934592,1]{1,0} slice").as_bytes(), ["-"]);
    attribute_without_value: run_on(planted("direction=LT", "direction=").as_bytes(), ["-"]);
    several_errors: run_on(changed(&founding(), &[("compare(%split.3,", "compare(%splot.3,"), ("select(%lt.4", "select(%let.4")]).as_bytes(), ["-"]);
    size_beyond_64_bits: run_on(founding().replace("8589934592", "9223372036854775807").as_bytes(), ["-"]);
    sparse_convolution: run_on(SPARSE_CONVOLUTION.as_bytes(), ["-"]);
    sparse_product: run_on(SPARSE_PRODUCT.as_bytes(), ["-"]);
    not_utf_8: run_on(b"HloModule x\n\xff\xfe", ["-"]);
    missing_file: run(["no/such/file.hlo"]);
    directory_as_input: run(["corpus"]);
    directory_as_output: run(["corpus/founding/s32.before.hlo", "-o", "corpus"]);
    output_in_missing_folder: run(["corpus/founding/s32.before.hlo", "-o", "no/such/folder/out.hlo"]);
    unknown_pass: run(["--passes=chunck", "corpus/founding/s32.before.hlo"]);
    pass_with_options: run(["--passes=chunk{rows=3}", "corpus/founding/s32.before.hlo"]);
    empty_pass_name: run(["--passes=chunk,,dead-code", "corpus/founding/s32.before.hlo"]);
    unexplainable_pass: run(["--explain", "magic"]);
    bad_size: run(["--chunk-bytes=12kb", "-"]);
    zero_chunk: run(["--chunk-bytes=0", "-"]);
    unknown_flag: run(["--buget=3GiB", "-"]);
    unknown_report_form: run(["--report=out.svg", "-"]);
    unknown_promise: run(["--assume=luck", "-"]);
    unknown_target: run(["--target=npu", "-"]);
    contradicting_flags: run(["--analyze", "--diff", "-"]);
    check_with_output: run(["--check", "-o", "x.hlo", "-"]);
    diff_and_module_on_one_stream: run(["--diff", "-o", "-", "-"]);
    report_over_output: run(["--report", "x.txt", "-o", "x.txt", "-"]);
}

#[cfg(unix)]
#[test]
fn unreadable_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.hlo");
    std::fs::write(&path, founding()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        // The superuser reads everything; a folder in the place of a file's parent is refused to everybody.
        let below = path.join("below.hlo");
        let run = run([below.to_str().unwrap()]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run}");
        return;
    }
    let run = run([path.to_str().unwrap()]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.stderr.contains("Permission denied"), "{run}");
}

#[test]
fn one_line_of_megabytes_is_shown_in_part() {
    let numbers = "1, ".repeat(1_000_000);
    let module =
        format!("HloModule m\n\nENTRY e {{\n  ROOT c = s32[3000000]{{0}} constant({{{numbers}1}}), nonsense(=\n}}\n");
    let run = run_on(module.as_bytes(), ["-"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.len() < 4000, "{} bytes of message", run.stderr.len());
}

#[test]
fn deep_nesting_is_no_crash() {
    let module = format!("HloModule m\n\nENTRY e {{\n  ROOT p = {} parameter(0)\n}}\n", "(".repeat(20_000));
    let run = run_on(module.as_bytes(), ["-"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", &run.stderr[..run.stderr.len().min(500)]);
}
