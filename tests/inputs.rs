//! What people hand to the command: compressed files, snapshots, dump folders of every make, and files that hold no HLO at all.
//!
//! Pins `src/input.rs`, `src/unpack.rs`, `src/foreign/mod.rs`, `src/folder/mod.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use common::{Run, command, finish, run, run_on};
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// A module that no pass has anything to say about.
fn tiny(name: &str) -> String {
    format!(
        "HloModule {name}, entry_computation_layout={{(f32[8]{{0}})->f32[8]{{0}}}}\n\nENTRY %main (x: f32[8]) -> f32[8] {{\n  ROOT %x = f32[8]{{0}} parameter(0)\n}}\n"
    )
}

/// The same module as a serialized `HloProto`.
fn binary(name: &str) -> Vec<u8> {
    hlo_ir::proto::write(&hlo_ir::text::parse(&tiny(name)).unwrap()).unwrap().bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A folder with these files in it.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The name of the module that a run read from a folder and printed.
fn read_from(path: &Path, flags: &[&str]) -> String {
    let run = finish(command().args(["-q", "--passes="]).args(flags).arg(path));
    assert_eq!(run.code, 0, "{run}");
    let header = run.stdout.split(',').next().unwrap();
    header.strip_prefix("HloModule ").unwrap_or_else(|| panic!("{run}")).to_owned()
}

/// The name of the module that `--analyze` read from a folder.
fn analyzed(path: &Path, flags: &[&str]) -> String {
    let run = finish(command().arg("--analyze").args(flags).arg(path));
    assert_eq!(run.code, 0, "{run}");
    run.stdout.split([' ', ':']).next().unwrap().to_owned()
}

#[test]
fn compressed_modules_are_told_by_their_content() {
    let plain = run_on(tiny("m").as_bytes(), ["-"]);
    for packed in [gzip(tiny("m").as_bytes()), zstd(tiny("m").as_bytes()), gzip(&binary("m")), zstd(&binary("m"))] {
        assert_eq!(run_on(&packed, ["-"]), plain);
        // The name says nothing.
        let folder = folder(&[("module.txt", &packed)]);
        assert_eq!(run([text(&folder.path().join("module.txt"))]), plain);
    }
}

#[test]
fn places_in_compressed_text_are_those_of_the_unpacked_text() {
    let wrong = tiny("m").replace("parameter(0)", "parametr(0)");
    insta::assert_snapshot!(run_on(&gzip(wrong.as_bytes()), ["-"]));
}

#[test]
fn broken_archives_are_errors_and_leave_files_alone() {
    let folder = folder(&[("out.hlo", b"precious")]);
    let out = folder.path().join("out.hlo");
    let of = |bytes: &[u8]| {
        let run = run_on(bytes, ["-o", text(&out)]);
        assert_eq!(fs::read(&out).unwrap(), b"precious");
        run
    };
    let (gz, zst) = (gzip(tiny("m").as_bytes()), zstd(tiny("m").as_bytes()));
    let mut other = gz.clone();
    let middle = other.len() - 6;
    other[middle] ^= 1;
    // A frame with a window of 1 GiB, and one of nearly 4 TiB.
    let wide = |window: u8| of(&[0x28, 0xb5, 0x2f, 0xfd, 0, window, 1, 0, 0]);
    assert!(wide(0xff).stderr.contains("compressed by zstd and cannot be unpacked"));
    let runs = [wide(0xa0), of(&gz[..gz.len() / 2]), of(&zst[..zst.len() / 2]), of(&other), of(b"\x1f\x8bnot gzip")];
    insta::assert_snapshot!(runs.map(|run| run.to_string()).concat());
}

/// A zstd archive of 2,100 blocks of 128 KiB, each of one repeated byte: 8 KiB that expand to 262 MiB.
fn bomb() -> Vec<u8> {
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for number in 0..2100_u32 {
        let header = (128 << 10) << 3 | 1 << 1 | u32::from(number == 2099);
        bytes.extend_from_slice(&header.to_le_bytes()[..3]);
        bytes.push(b' ');
    }
    bytes
}

#[test]
fn an_archive_that_expands_without_end_is_refused() {
    insta::assert_snapshot!(run_on(&bomb(), ["-"]));
}

#[test]
fn results_are_not_written_under_a_compressed_name() {
    let folder = folder(&[("m.hlo.gz", &gzip(tiny("m").as_bytes()))]);
    let path = folder.path().join("m.hlo.gz");
    let run = run([text(&path), "-o", text(&path)]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("results are not compressed; write `m.hlo`"), "{run}");
    assert_eq!(fs::read(&path).unwrap(), gzip(tiny("m").as_bytes()));
}

/// A field of a message whose content is bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

#[test]
fn a_snapshot_is_read_as_its_module() {
    // An array of one f32, as arguments and result are.
    let array = [field(1, &[0x10, 11]), field(6, &[0, 0, 0x80, 0x3f])].concat();
    let snapshot =
        [field(1, &binary("m")), field(2, &array), field(2, &array), field(3, &array), field(4, b"Host")].concat();
    let read = run_on(&snapshot, ["--passes="]);
    assert_eq!((read.code, read.stdout.as_str()), (0, tiny("m").as_str()), "{read}");
    insta::assert_snapshot!(read.stderr);
    assert_eq!(run_on(&snapshot, ["-q", "--passes="]).stdout, tiny("m"));
    let bare = run_on(&field(1, &binary("m")), ["-q", "--passes="]);
    assert_eq!((bare.stdout.as_str(), bare.stderr.as_str()), (tiny("m").as_str(), ""));
    // Of an unoptimized snapshot the module is the first field itself.
    let unoptimized = [binary("m"), field(2, &array)].concat();
    let run = run_on(&unoptimized, ["-q", "--passes="]);
    assert_eq!(
        (run.stdout, run.stderr.as_str()),
        (tiny("m"), "warning: the snapshot's arrays have no place in HLO text\n")
    );
    assert_eq!(run_on(&snapshot[..snapshot.len() / 3], ["-"]).code, 1);
}

/// What the command says of bytes that hold no HLO: the error and the advice.
fn refused(bytes: &[u8]) -> String {
    let run = run_on(bytes, ["-"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run}");
    run.stderr
}

#[test]
fn other_texts_are_called_by_their_names() {
    let texts = [
        "module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {\n    %0 = stablehlo.sine %arg0 : tensor<8xf32>\n",
        "#loc = loc(unknown)\nmodule {\n  func.func @main() {\n",
        "{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }\n",
        "# proto-message: HloProto\nhlo_module {\n  name: \"m\"\n  computations {\n    name: \"main\"\n  }\n}\n",
        "node {\n  name: \"x\"\n  op: \"Placeholder\"\n}\n",
        "xla_cpu_enable_fast_min_max: false\n",
        "BufferAssignment:\nallocation 0: size 4, parameter 0\n",
        "\nTotal bytes used: 61832 (60.4KiB)\n",
        "; ModuleID = '__compute_module'\n",
        "import jax\nimport jax.numpy as jnp\n",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "<!DOCTYPE html>\n<html>\n",
        "{\"hloModule\": {\"name\": \"m\"}}\n",
    ];
    insta::assert_snapshot!(texts.map(|text| refused(text.as_bytes())).join("\n"));
}

#[test]
fn other_bytes_are_called_by_their_names() {
    let flatbuffer = [&[0x10, 0, 0, 0, 0xff, 0xff, 0, 0][..], &[0; 16], b"ML\xefR\rStableHLO_v1.0.0\0\xff"].concat();
    let attribute = [field(1, b"dtype"), field(2, &[0x30, 1])].concat();
    let node = [field(1, b"x"), field(2, b"Placeholder"), field(5, &attribute)].concat();
    let tar = [&[b'a', 0xff][..], &[0; 255], b"ustar\0"].concat();
    let kinds = [
        b"ML\xefR\rStableHLO_v1.0.0\0\xff".to_vec(),
        flatbuffer,
        [field(1, &node), field(4, &[8, 0])].concat(),
        [vec![8, 1], field(2, &field(1, &field(4, b"serve\xff")))].concat(),
        [vec![8, 8], field(2, b"pytorch"), field(7, b"\xff\0")].concat(),
        [field(1, &[vec![8, 0], field(2, b"/host:CPU")].concat())].concat(),
        b"\x7fELF\x02\x01\x01\0\xff".to_vec(),
        b"PK\x03\x04\x14\0\0\0\xff".to_vec(),
        b"\x18\0\0\0TFL3\xff\xff".to_vec(),
        b"BZh91AY&SY\xff".to_vec(),
        gzip(&gzip(b"twice")),
        tar,
        b"\x78\x9c\xed\x59\x6b".to_vec(),
        b"\0\0\0\0}\x08\x03\x12\tpjrt_ifrt\xff".to_vec(),
        b"\x80\x04\x95\xff".to_vec(),
        b"\xff\xfe no sign at all".to_vec(),
    ];
    insta::assert_snapshot!(kinds.map(|bytes| refused(&bytes)).join("\n"));
}

/// The library and the Python package are given texts, not files.
#[test]
fn the_library_calls_other_texts_by_their_names() {
    let failure = hlo_opt::analyze("module @jit_f {\n  stablehlo.sine\n", hlo_opt::Target::Cpu).unwrap_err();
    let hlo_opt::Failure::Illegal(problems) = failure else { panic!("{failure}") };
    assert_eq!(problems[0].message, "this is no HLO: it is StableHLO (MLIR text)");
    assert!(problems[0].notes[0].contains("compiler_ir"), "{problems:?}");
}

#[test]
fn advice_is_there_for_programs_too() {
    let run = run_on(b"module @m {\n", ["--error-format=json"]);
    let line: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!((&line["code"], &line["file"]), (&"input".into(), &"<stdin>".into()), "{run}");
    assert_eq!(line["message"], "`<stdin>` is no HLO: it is MLIR text");
    assert!(line["help"][0].as_str().unwrap().contains("python -m hlo_opt.xla hlo"), "{run}");
}

/// A computation may be called like something else.
#[test]
fn hlo_that_looks_like_something_else_is_read() {
    for name in ["module", "hlo_module", "node", "define", "version", "import", "from", "def"] {
        let short = format!("{name} {{\n  ROOT x = f32[8]{{0}} parameter(0)\n}}\n");
        let run = run_on(short.as_bytes(), ["-q", "--passes="]);
        assert_eq!(run.code, 0, "{run}");
    }
}

#[test]
fn the_stage_of_a_pass_by_pass_folder_is_picked_by_itself() {
    let names = ["program", "first", "second", "scheduled"];
    let [program, first, second, scheduled] = names.map(tiny);
    let passes: [(&str, &[u8]); 3] = [
        ("module_0001.jit_f.0000.simplification.after_pipeline-start.before_algsimp.txt", first.as_bytes()),
        ("module_0001.jit_f.0012.copy-insertion.after_adding_copies.txt", second.as_bytes()),
        ("module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt", b"BufferAssignment:\n"),
    ];
    let whole = folder(
        &[
            &passes[..],
            &[
                ("module_0001.jit_f.before_optimizations.txt", program.as_bytes()),
                ("module_0001.jit_f.cpu_after_optimizations.txt", scheduled.as_bytes()),
            ],
        ]
        .concat(),
    );
    assert_eq!(read_from(whole.path(), &[]), "program");
    assert_eq!(analyzed(whole.path(), &[]), "scheduled");
    // Where the stage itself is missing, the one next to it is taken, and that is said.
    let between = folder(&passes);
    assert_eq!(read_from(between.path(), &[]), "first");
    assert_eq!(analyzed(between.path(), &[]), "second");
    let said = run([text(between.path())]).stderr;
    assert!(said.contains("0000.simplification") && said.contains("is not in the folder"), "{said}");
    assert!(!run([text(whole.path())]).stderr.contains("is not in the folder"));
}

#[test]
fn folders_of_binary_and_of_compressed_dumps_are_read() {
    let [f, g] = ["f", "g"].map(binary);
    let protos = folder(&[
        ("module_0001.jit_f.before_optimizations.hlo.pb", &f),
        ("module_0001.jit_f.cpu_after_optimizations.hlo.pb", &f),
        ("module_0001.jit_f.cpu_after_optimizations-memory-usage-report.pb", b"\x0a\x01\xff"),
        ("module_0003.jit_g.before_optimizations.hlo.pb.gz", &gzip(&g)),
        ("module_0003.jit_g.cpu_after_optimizations.hlo.pb.zst", &zstd(&g)),
    ]);
    assert_eq!(read_from(protos.path(), &["--module", "jit_f"]), "f");
    assert_eq!(read_from(protos.path(), &["--module", "jit_g"]), "g");
    assert_eq!(analyzed(protos.path(), &["--module", "jit_g"]), "g");
    let several = run([text(protos.path())]);
    assert_eq!(several.code, 1);
    assert!(
        several.stderr.contains("module_0001.jit_f\n") && several.stderr.contains("module_0003.jit_g\n"),
        "{several}"
    );
    // A text is preferred: its places are those of a file.
    let both = folder(&[
        ("module_0001.jit_f.before_optimizations.txt", tiny("text").as_bytes()),
        ("module_0001.jit_f.before_optimizations.hlo.pb", &f),
    ]);
    assert_eq!(read_from(both.path(), &[]), "text");
    let snapshot = folder(&[("module_0001.jit_f.snapshot.1008199432.pb", &field(1, &f))]);
    assert_eq!(read_from(snapshot.path(), &[]), "f");
}

#[test]
fn a_compressed_report_of_xla_is_read_too() {
    let folder = folder(&[
        ("module_0001.jit_f.cpu_after_optimizations.txt.gz", &gzip(tiny("f").as_bytes())),
        ("module_0001.jit_f.cpu_after_optimizations-memory-usage-report.txt.gz", &gzip(b"Total bytes: 12345\n")),
    ]);
    let run = run(["--analyze", text(folder.path())]);
    assert!(
        run.stdout.contains("XLA's report") && run.stdout.contains("12,345") || run.stdout.contains("12345"),
        "{run}"
    );
}

#[test]
fn folders_without_dumps_are_told_apart() {
    let of = |files: &[(&str, &[u8])]| -> Run {
        let folder = folder(files);
        let run = run([text(folder.path())]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run}");
        Run { stderr: run.stderr.replace(text(folder.path()), "FOLDER"), ..run }
    };
    let module = tiny("m");
    let runs = [
        of(&[]),
        of(&[("saved_model.pb", b"\x08\x01"), ("variables/variables.index", b"")]),
        of(&[("jax_ir0000_jit_f_compile.mlir", b"module @jit_f {\n")]),
        of(&[
            ("module_0001.jit_f.kernel_module.ir-no-opt.ll", b"; ModuleID\n"),
            ("module_0001.jit_f.debug_options", b""),
        ]),
        of(&[("run1/module_0001.jit_f.before_optimizations.txt", module.as_bytes())]),
    ];
    insta::assert_snapshot!(runs.map(|run| run.to_string()).concat());
}

/// Attributes that XLA prints since versions behind the one of the tests; each text is printed back as it is.
#[test]
fn attributes_of_later_versions_are_kept() {
    let header = "HloModule m, entry_computation_layout={(f32[8,64]{1,0})->(f32[8,4]{1,0}, s32[8,4]{1,0})}";
    let body = "

ENTRY %main (x: f32[8,64]) -> (f32[8,4], s32[8,4]) {
  %x = f32[8,64]{1,0} parameter(0), origin={{\"x\"}}
  ROOT %top = (f32[8,4]{1,0}, s32[8,4]{1,0}) topk(%x), k=4, largest=true, is_stable=true
}
";
    let debug = ", debug_attributes={\n  {\"x\"}:({log_mode=default,callback_id=7,partitioned=true})\n}";
    let recovery = ", origin_recovery_table={
  {\"x\"} : {\"y\"},
  \"
    HloModule back, frontend_attributes={a=\\\"b\\\"}

    ENTRY %back (p: f32[8]) -> f32[8] {
      ROOT %p = f32[8]{0} parameter(0)
    }
  \"
}";
    for attribute in [debug, recovery, ""] {
        let text = format!("{header}{attribute}{body}");
        let run = run_on(text.as_bytes(), ["-q", "--passes="]);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, text.as_str(), ""));
    }
    // XLA itself puts the attributes for debugging on a line of their own.
    let broken = format!("{header},\n{}{body}", &debug[2..]);
    assert_eq!(run_on(broken.as_bytes(), ["-q", "--passes="]).stdout, format!("{header}{debug}{body}"));
    let binary = hlo_ir::proto::write(&hlo_ir::text::parse(&format!("{header}{body}")).unwrap()).unwrap().bytes;
    assert!(run_on(&binary, ["-q", "--passes="]).stdout.contains("largest=true, is_stable=true"));
}
