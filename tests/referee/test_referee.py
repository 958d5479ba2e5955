"""Prove that the referee catches wrong rewrites and accepts right ones: python test_referee.py"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent

COMBINER = """
%combine (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""
SCATTER = ("update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, "
           "index_vector_dim=1, to_apply=%combine")

PLAIN = f"""HloModule plain
{COMBINER}
ENTRY %main (x: f32[8,16], idx: s32[64,2], u: f32[64]) -> f32[8,16] {{
  %x = f32[8,16] parameter(0)
  %idx = s32[64,2] parameter(1)
  %u = f32[64] parameter(2)
  ROOT %s = f32[8,16] scatter(%x, %idx, %u), {SCATTER}
}}
"""

# The same scatter in four blocks of sixteen rows.
BLOCKS = f"""HloModule blocks
{COMBINER}
%body (p: (s32[], f32[8,16], s32[64,2], f32[64])) -> (s32[], f32[8,16], s32[64,2], f32[64]) {{
  %p = (s32[], f32[8,16], s32[64,2], f32[64]) parameter(0)
  %k = s32[] get-tuple-element(%p), index=0
  %table = f32[8,16] get-tuple-element(%p), index=1
  %idx = s32[64,2] get-tuple-element(%p), index=2
  %u = f32[64] get-tuple-element(%p), index=3
  %rows = s32[] constant(16)
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
  %start = s32[] multiply(%k, %rows)
  %ib = s32[16,2] dynamic-slice(%idx, %start, %zero), dynamic_slice_sizes={{16,2}}
  %ub = f32[16] dynamic-slice(%u, %start), dynamic_slice_sizes={{16}}
  %s = f32[8,16] scatter(%table, %ib, %ub), {SCATTER}
  %next = s32[] add(%k, %one)
  ROOT %out = (s32[], f32[8,16], s32[64,2], f32[64]) tuple(%next, %s, %idx, %u)
}}

%more (p: (s32[], f32[8,16], s32[64,2], f32[64])) -> pred[] {{
  %p = (s32[], f32[8,16], s32[64,2], f32[64]) parameter(0)
  %k = s32[] get-tuple-element(%p), index=0
  %blocks = s32[] constant(4)
  ROOT %lt = pred[] compare(%k, %blocks), direction=LT
}}

ENTRY %main (x: f32[8,16], idx: s32[64,2], u: f32[64]) -> f32[8,16] {{
  %x = f32[8,16] parameter(0)
  %idx = s32[64,2] parameter(1)
  %u = f32[64] parameter(2)
  %first = s32[] constant(0)
  %init = (s32[], f32[8,16], s32[64,2], f32[64]) tuple(%first, %x, %idx, %u)
  %loop = (s32[], f32[8,16], s32[64,2], f32[64]) while(%init), condition=%more, body=%body
  ROOT %y = f32[8,16] get-tuple-element(%loop), index=1
}}
"""

ZEROS = """HloModule zeros
ENTRY %main (x: f32[5]) -> f32[5] {
  %x = f32[5] parameter(0)
  %zero = f32[] constant(0)
  ROOT %z = f32[5] broadcast(%zero), dimensions={}
}
"""

COPY = """HloModule copy
ENTRY %main (x: f32[257]) -> f32[257] {
  %x = f32[257] parameter(0)
  ROOT %y = f32[257] copy(%x)
}
"""

# The same numbers, but every NaN loses its payload.
ONE_NAN = """HloModule one_nan
ENTRY %main (x: f32[257]) -> f32[257] {
  %x = f32[257] parameter(0)
  %isnan = pred[257] compare(%x, %x), direction=NE
  %nan = f32[] constant(nan)
  %nans = f32[257] broadcast(%nan), dimensions={}
  ROOT %y = f32[257] select(%isnan, %nans, %x)
}
"""

# Adds in place into a donated table.
DONATED = PLAIN.replace("HloModule plain", "HloModule donated, input_output_alias={ {}: (0, {}, may-alias) }")

WRAPPED = f"""HloModule wrapped
{COMBINER}
ENTRY %main (x: f32[8,16], idx: s32[64,2], u: f32[64]) -> f32[8,16] {{
  %x = f32[8,16] parameter(0)
  %idx = s32[64,2] parameter(1)
  %u = f32[64] parameter(2)
  %zero = s32[] constant(0)
  %zeros = s32[64,2] broadcast(%zero), dimensions={{}}
  %dims = s32[2] constant({{8, 16}})
  %wide = s32[64,2] broadcast(%dims), dimensions={{1}}
  %up = s32[64,2] add(%idx, %wide)
  %neg = pred[64,2] compare(%idx, %zeros), direction=LT
  %i = s32[64,2] select(%neg, %up, %idx)
  ROOT %s = f32[8,16] scatter(%x, %i, %u), {SCATTER}
}}
"""


def mutated(text, old, new):
    """The text with one planted fault; the fault must have a place."""
    assert old in text, f"nothing to change: {old}"
    return text.replace(old, new)


class Session:
    """Run the referee on texts: each becomes a file in a temporary folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def file(self, name, text):
        path = self.folder / f"{name}.hlo"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def ask(self, *arguments, lines=None):
        done = subprocess.run([sys.executable, str(HERE / "referee.py"), *arguments], input=lines,
                              capture_output=True, text=True, timeout=600)
        return [json.loads(line) for line in done.stdout.splitlines()], done.returncode

    def same(self, before, after, *options):
        answers, _ = self.ask("same", self.file("before", before), self.file("after", after), *options)
        return answers[0]


def test_equal_pair_is_accepted(session):
    found = session.same(PLAIN, BLOCKS, "--cases", "8")
    assert found["bitwise"] and found["cases"] == 8 and found["differing_bytes"] == 0, found


def test_shifted_index_is_caught(session):
    wrong = mutated(BLOCKS, "%start, %zero)", "%next, %zero)")
    wrong = mutated(wrong, "  %start = ", "  %next = s32[] add(%k, %one)\n  %start = ")
    wrong = mutated(wrong, "  %next = s32[] add(%k, %one)\n  ROOT", "  ROOT")
    caught(session.same(PLAIN, wrong))


def test_skipped_block_is_caught(session):
    caught(session.same(PLAIN, mutated(BLOCKS, "constant(4)", "constant(3)")))


def test_swapped_combiner_is_caught(session):
    caught(session.same(PLAIN, mutated(BLOCKS, "add(%a, %b)", "maximum(%a, %b)")))


def test_reversed_order_of_floats_is_caught(session):
    wrong = mutated(BLOCKS, "multiply(%k, %rows)", "multiply(%back, %rows)")
    wrong = mutated(wrong, "  %start = ", "  %last = s32[] constant(3)\n  %back = s32[] subtract(%last, %k)\n"
                    "  %start = ")
    found = session.same(PLAIN, wrong, "--cases", "1")
    caught(found)
    assert found["max_rel_error"] < 1e-5, found


def test_dropped_wrap_is_caught_by_negative_indices_only(session):
    assert session.same(WRAPPED, PLAIN, "--cases", "1")["bitwise"]
    found = session.same(WRAPPED, PLAIN, "--cases", "2")
    caught(found)
    assert found["first_difference"]["case"] == 1, found


def test_negative_zero_is_caught(session):
    found = session.same(ZEROS, mutated(ZEROS, "constant(0)", "constant(-0.0)"))
    caught(found)
    assert found["differing_bytes"] == 5 and found["max_rel_error"] == 0.0, found


def test_nan_payload_is_caught(session):
    found = session.same(COPY, ONE_NAN)
    caught(found)
    assert found["nan_payload_only"] and found["first_difference"]["case"] == 2, found


def test_donated_buffers_are_fresh_each_run(session):
    found = session.same(PLAIN, DONATED, "--cases", "4")
    assert found["bitwise"], found
    found = session.same(DONATED, DONATED)
    assert found["bitwise"], found


def test_other_parameters_are_refused(session):
    assert "different parameters" in session.same(COPY, mutated(COPY, "257", "258"))["error"]


def test_elided_constants_are_refused(session):
    elided = mutated(WRAPPED, "constant({8, 16})", "constant({...})")
    assert "elided constants" in session.same(WRAPPED, elided)["error"]


def test_peak_counts_the_arguments_of_a_huge_module(session):
    huge = mutated(mutated(PLAIN, "s32[64,2]", "s32[8589934592,2]"), "f32[64]", "f32[8589934592]")
    [found], code = session.ask("peak", session.file("huge", huge))
    assert code == 0 and found["argument_bytes"] == 2**33 * 12 + 512, found
    assert found["total_bytes"] >= found["argument_bytes"], found


def test_peak_keeps_the_scheduled_text(session):
    kept = session.folder / "kept"
    [found], _ = session.ask("peak", session.file("plain.before", PLAIN), "--dump", str(kept))
    assert os.path.basename(found["dump"]) == "plain.after.hlo", found
    assert "is_scheduled=true" in (kept / "plain.after.hlo").read_text().split("\n")[0]


def test_roundtrip_ignores_layout_of_text_and_sees_one_digit(session):
    a = session.file("a", PLAIN)
    [found], _ = session.ask("roundtrip", a, session.file("b", mutated(PLAIN, "  %", "     ")))
    assert found["equal"], found
    [found], _ = session.ask("roundtrip", a, session.file("b", mutated(PLAIN, "vector_dim=1", "vector_dim=1, "
                                                                       "indices_are_sorted=true")))
    assert not found["equal"] and "scatter" in found["first_difference"]["a"], found


def test_bench_reports_a_ratio(session):
    [found], _ = session.ask("bench", session.file("a", PLAIN), session.file("b", BLOCKS), "--reps", "3")
    assert found["ratio"] > 0 and found["reps"] == 3, found


def test_batch_survives_bad_requests_and_aborts_and_keeps_order(session):
    plain = session.file("plain", PLAIN)
    broken = session.file("broken", PLAIN[:-20])
    session.ask("peak", session.file("again.before", PLAIN), "--dump", str(session.folder))
    requests = [{"cmd": "peak", "file": plain, "id": 1}, {"cmd": "peak", "file": broken, "id": 2},
                {"cmd": "peak", "file": str(session.folder / "none.hlo"), "id": 3}, {"cmd": "dance"},
                {"cmd": "peak", "file": str(session.folder / "again.after.hlo"), "id": 5},
                {"cmd": "same", "before": plain, "after": plain, "cases": 1, "id": 6}]
    answers, code = session.ask("batch", lines="\n".join(map(json.dumps, requests)) + "\n\nno json\n")
    assert code == 0 and [found.get("id") for found in answers] == [1, 2, 3, None, 5, 6, None], answers
    assert ["error" in found for found in answers] == [False, True, True, True, True, False, True], answers


def test_time_limit_kills_only_the_job(session):
    plain = session.file("plain", PLAIN)
    requests = [{"cmd": "peak", "file": plain, "time_limit": 0.01}, {"cmd": "peak", "file": plain}]
    answers, _ = session.ask("batch", lines="\n".join(map(json.dumps, requests)))
    assert "time limit" in answers[0]["error"] and "error" not in answers[1], answers


def caught(found):
    assert "error" not in found and found["bitwise"] is False and found["differing_bytes"] > 0, found


def main():
    tests = [(name, value) for name, value in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(Session(folder))
            except Exception:  # noqa: BLE001 - one failure must not hide the others
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
