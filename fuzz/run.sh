#!/usr/bin/env bash
# Fuzzes one target for a number of seconds: fuzz/run.sh TARGET SECONDS. A find does not end the run.
# Needs cargo-fuzz (cargo install cargo-fuzz) and a C++ compiler; the stable toolchain is enough.
# Inputs, finds and the build go below HLO_FUZZ_DIR, by default target/fuzz.
# HLO_FUZZ_TIMEOUT is the time by the clock for one input, by default 10 seconds; a busy machine needs more.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?a target is missing: parse, parse_print_parse, verify, proto, optimize or odd}
seconds=${2:?a number of seconds is missing}
work=${HLO_FUZZ_DIR:-$PWD/target/fuzz}
corpus=$work/corpus/$target
mkdir -p "$corpus" "$work/artifacts/$target"

# Seeds: the corpus, the texts of the parser's own tests, and what was found before.
find corpus ir/tests -name '*.hlo' -size -60k | while read -r file; do
    cp "$file" "$corpus/seed-$(echo "$file" | tr / -)"
done
for file in tests/finds/*; do cp "$file" "$corpus/seed-find-$(basename "$file")"; done
if [ "$target" = proto ]; then
    cargo build --quiet -p hlo-ir --example proto
    for text in "$corpus"/seed-*.hlo; do
        # Texts that are wrong on purpose have no binary form.
        "${CARGO_TARGET_DIR:-target}/debug/examples/proto" "$text" "${text%.hlo}.pb" 2>/dev/null || true
    done
else
    python3 - ir/tests/xla-probes.jsonl "$corpus" <<'PY'
"""Every probe text as a file of its own."""
import json, pathlib, sys
for number, line in enumerate(open(sys.argv[1])):
    pathlib.Path(sys.argv[2], f"seed-probe-{number}").write_text(json.loads(line)["text"])
PY
fi

# Words of the language, out of the tables that define them.
{
    grep -o '= "[a-z0-9-]*"' ir/src/opcode.rs | sed 's/= "\(.*\)"/"\1("/'
    grep -o '= "[a-z_-]*": [A-Z]' ir/src/attribute.rs | sed 's/= "\(.*\)".*/"\1="/'
    grep -o 'T::[A-Z0-9a-z]*, "[a-z0-9]*"' ir/src/element_type.rs | sed 's/.*"\(.*\)"/"\1["/'
} | sort -u >"$work/words.dict"

cd fuzz
exec cargo fuzz run "$target" --sanitizer none --release --debug-assertions --target-dir "$work/build" "$corpus" -- \
    -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -artifact_prefix="$work/artifacts/$target/" \
    -max_total_time="$seconds" -timeout="${HLO_FUZZ_TIMEOUT:-10}" -rss_limit_mb=2048 -max_len=65536 -dict="$work/words.dict"
