"""The buffer assignment of XLA's binary dumps, as we read it: its total against XLA's own memory-usage report.

    cargo build --release -p hlo-ir --example roundtrip
    allocations.py target/release/examples/roundtrip FILE...

XLA:CPU compiles each file with --xla_dump_hlo_as_proto. Exit code 0: every total is equal, and every dump is legal and reads back whole.
"""
import glob
import os
import sys
import tempfile

sys.dont_write_bytecode = True

import child  # noqa: E402
import dumps  # noqa: E402
import xla  # noqa: E402


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    xla.import_quietly()
    with tempfile.TemporaryDirectory() as folder:
        totals = {}
        for number, file in enumerate(sys.argv[2:]):
            stem = os.path.join(folder, str(number))
            totals[file, stem] = child.run(compile_and_dump, (file, stem), time_limit=300)
        ours = dumps.run_ours(sys.argv[1], folder)
    wrong = [line for key, found in totals.items() if (line := fault(*key, found, ours))]
    print("\n".join(wrong + [f"{len(totals) - len(wrong)} of {len(totals)} totals are XLA's, to the byte"]))
    sys.exit(1 if wrong else 0)


def fault(file, stem, found, ours):
    """What is wrong with a dump, if anything."""
    if "error" in found:
        return f"{file}: {found['error']}"
    read = ours[stem + ".xla-pb"]
    if read.get("problems") or read.get("verify"):
        return f"{file}: {(read.get('problems') or read['verify'])[0]}"
    if read["allocated"] != found["total_bytes"]:
        return f"{file}: we read {read['allocated']} bytes, XLA says {found['total_bytes']}"
    return None


def compile_and_dump(file, stem):
    """Runs in a child: compiles with dumps and keeps the binary one of the program."""
    text = dumps.read(file)
    with tempfile.TemporaryDirectory() as dump_dir:
        jax = xla.start(dump_dir, xla.partitions_of(text))
        os.environ["XLA_FLAGS"] += " --xla_dump_hlo_as_proto"
        executable, _, _ = xla.compile_text(jax, text, xla.partitions_of(text))
        newest = sorted(glob.glob(os.path.join(dump_dir, "*cpu_after_optimizations.hlo.pb")))[-1]
        os.rename(newest, stem + ".xla-pb")
        return xla.byte_counts(executable, dump_dir)


if __name__ == "__main__":
    main()
