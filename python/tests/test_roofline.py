"""`hlo_opt.xla.roofline`: prices of small optimized modules, worked out by hand."""
import json
import subprocess
import sys

import pytest

from hlo_opt.xla import machines, optimized, roofline, trips

# One byte a nanosecond, one operation a nanosecond in products, no time to start anything unless a test asks for it.
MACHINE = {"name": "test", "target": "gpu", "memory_bytes": None, "bytes_per_second": 1e9, "cache_bytes": 0, "link_bytes_per_second": 1e8, "kernel_seconds": 0.0, "iteration_seconds": 0.0,
           "few_rows": 0, "arithmetic_per_second": 1e18, "transcendentals_per_second": 1e18,
           "operations_per_second": {"f64": 1e18, "f32": 1e18, "bf16": 1e18}}


def estimate(text, **changed):
    return roofline.estimate("HloModule m, is_scheduled=true\n" + text, {**MACHINE, **changed})


def test_an_elementwise_kernel_takes_what_its_bytes_take():
    found = estimate("""
%fused (p.0: f32[1000], p.1: f32[1000]) -> f32[1000] {
  %p.0 = f32[1000]{0} parameter(0)
  %p.1 = f32[1000]{0} parameter(1)
  %m = f32[1000]{0} multiply(%p.0, %p.1)
  ROOT %a = f32[1000]{0} add(%m, %p.0)
}
ENTRY %main (x: f32[1000], y: f32[1000]) -> f32[1000] {
  %x = f32[1000]{0} parameter(0)
  %y = f32[1000]{0} parameter(1)
  ROOT %f = f32[1000]{0} fusion(%x, %y), kind=kLoop, calls=%fused
}
""", kernel_seconds=1e-6)
    # Two arrays in and one out at a byte a nanosecond, and a microsecond to start.
    assert found["bytes"] == 3 * 4000 and found["flops"] == 2000 and found["kernels"] == 1
    assert found["seconds"] == pytest.approx(12e-6 + 1e-6)


def test_rows_go_to_the_host_and_back_over_the_link():
    found = estimate("""
%written (s: f32[10,1000], r: f32[1,1000], i: s32[]) -> f32[10,1000] {
  %s = f32[10,1000]{1,0:S(5)} parameter(0)
  %r = f32[1,1000]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %z = s32[] constant(0)
  ROOT %u = f32[10,1000]{1,0:S(5)} dynamic-update-slice(%s, %r, %i, %z)
}
ENTRY %main (r: f32[1,1000], i: s32[]) -> f32[1,1000] {
  %r = f32[1,1000]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %b = f32[10,1000]{1,0:S(5)} custom-call(), custom_call_target="AllocateBuffer"
  %w = ((f32[10,1000]{1,0:S(5)}, f32[1,1000]{1,0}, s32[]), f32[10,1000]{1,0:S(5)}, u32[]) fusion-start(%b, %r, %i), kind=kCustom, calls=%written
  %d = f32[10,1000]{1,0:S(5)} fusion-done(%w)
  %c = (f32[1,1000]{1,0:S(5)}, f32[1,1000]{1,0}, u32[]) copy-start(%r)
  %e = f32[1,1000]{1,0:S(5)} copy-done(%c)
  ROOT %back = f32[1,1000]{1,0} copy(%e)
}
""")
    # Three times 4,000 bytes at a tenth of a byte a nanosecond.
    assert found["seconds"] == pytest.approx(3 * 4000 * 10e-9) and found["kernels"] == 3


DOT = """
ENTRY %main (x: bf16[64,128], y: bf16[128,32]) -> f32[64,32] {
  %x = bf16[64,128]{1,0} parameter(0)
  %y = bf16[128,32]{1,0} parameter(1)
  ROOT %d = f32[64,32]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_a_product_takes_what_its_operations_take():
    rates = {"f64": 1e18, "f32": 1e18, "bf16": 1e9}
    found = estimate(DOT, operations_per_second=rates)
    flops = 2 * 64 * 128 * 32
    assert found["flops"] == flops and found["seconds"] == pytest.approx(flops * 1e-9)
    assert found["bytes"] == 2 * (64 * 128 + 128 * 32) + 4 * 64 * 32
    # 32 rows on the smaller side, of which so many take twice the time.
    assert estimate(DOT, operations_per_second=rates, few_rows=32)["seconds"] == pytest.approx(2 * flops * 1e-9)
    # Where products are quick, bytes are what they wait for.
    assert estimate(DOT)["seconds"] == pytest.approx(found["bytes"] * 1e-9)


def test_calls_of_libraries_count_their_operations():
    found = estimate("""
ENTRY %main (x: f32[8,16], y: f32[16,4]) -> f32[8,4] {
  %x = f32[8,16]{1,0} parameter(0)
  %y = f32[16,4]{1,0} parameter(1)
  %g = (f32[8,4]{1,0}, s8[4096]{0}) custom-call(%x, %y), custom_call_target="__cublas$gemm", backend_config=CONFIG
  %r = f32[8,4]{1,0} get-tuple-element(%g), index=0
  ROOT %u = f32[8,4]{1,0} custom-call(%r), custom_call_target="somebody"
}
""".replace("CONFIG", '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'))
    assert found["flops"] == 2 * 8 * 16 * 4 and found["unpriced"] == ["somebody"] and found["kernels"] == 2


@pytest.mark.parametrize(("call", "operands"), [("convForward", "%x, %k"), ("convBackwardInput", "%y, %k"), ("convBackwardFilter", "%x, %y")])
def test_convolutions_count_positions_inside_of_the_image(call, operands):
    result = {"convForward": "f32[2,5,3]", "convBackwardInput": "f32[2,5,7]", "convBackwardFilter": "f32[3,3,7]"}[call]
    found = estimate(f"""
ENTRY %main (x: f32[2,5,7], k: f32[3,3,7], y: f32[2,5,3]) -> {result} {{
  %x = f32[2,5,7] parameter(0)
  %k = f32[3,3,7] parameter(1)
  %y = f32[2,5,3] parameter(2)
  ROOT %c = ({result}, u8[0]) custom-call({operands}), window={{size=3 pad=1_1}}, dim_labels=b0f_o0i->b0f, custom_call_target="__cudnn${call}"
}}
""")
    # Five results, each of three positions, less one at either border: 13. Two images, three features from seven.
    assert found["flops"] == 2 * 2 * 3 * 7 * 13


LOOP = """
%body (p: (s32[], f32[100])) -> (s32[], f32[100]) {
  %p = (s32[], f32[100]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(2)
  %next = s32[] add(%i, %one)
  %x = f32[100]{0} get-tuple-element(%p), index=1
  %y = f32[100]{0} negate(%x)
  ROOT %t = (s32[], f32[100]{0}) tuple(%next, %y)
}
%condition (q: (s32[], f32[100])) -> pred[] {
  %q = (s32[], f32[100]{0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(BOUND)
  ROOT %less = pred[] compare(%j, %bound), direction=LT
}
ENTRY %main (x: f32[100]) -> f32[100] {
  %x.1 = f32[100]{0} parameter(0)
  %start = s32[] constant(1)
  %state = (s32[], f32[100]{0}) tuple(%start, %x.1)
  %w = (s32[], f32[100]{0}) while(%state), condition=%condition, body=%bodyNOTED
  ROOT %r = f32[100]{0} get-tuple-element(%w), index=1
}
"""


def test_loops_count_as_often_as_they_run():
    text = LOOP.replace("BOUND", "10").replace("NOTED", ', backend_config={"known_trip_count":{"n":"7"}}')
    found = estimate(text, iteration_seconds=1e-6)
    # A round reads and writes the array, counts (8 + 4 bytes), and compares (8 + 1).
    assert found["kernels"] == 7 * 3 and found["bytes"] == 7 * (800 + 12 + 9)
    assert found["seconds"] == pytest.approx(7 * (821e-9 + 1e-6)) and found["unknown_loops"] == []


def test_a_counter_tells_how_often_a_loop_runs():
    text = LOOP.replace("NOTED", "")
    # 1, 3, 5, 7, 9.
    assert estimate(text.replace("BOUND", "10"))["kernels"] == 5 * 3
    module = optimized.parse(text.replace("BOUND", "10").replace("direction=LT", "direction=LE").replace("constant(10)", "constant(9)"))
    entry = module.computations["main"]
    assert trips.count(entry.by_name["w"], entry, module) == 5


def test_a_counter_that_is_copied_first_counts_too():
    # XLA:TPU copies the counter into its scalar memory.
    text = LOOP.replace("NOTED", "").replace("BOUND", "10").replace("add(%i, %one)", "add(%near, %one)")
    module = optimized.parse(text.replace("  %one = ", "  %near = s32[]{S(6)} copy(%i)\n  %one = "))
    entry = module.computations["main"]
    assert trips.count(entry.by_name["w"], entry, module) == 5


def test_a_loop_of_unknown_length_is_named():
    text = LOOP.replace("BOUND", "10").replace("NOTED", "").replace("%start = s32[] constant(1)", "%start = s32[] parameter(1)")
    found = estimate(text)
    assert found["unknown_loops"] == ["w"] and found["kernels"] == 3


def test_a_gather_reads_its_rows_only():
    found = estimate("""
ENTRY %main (t: f32[100000,16], i: s32[10,1]) -> f32[10,16] {
  %t = f32[100000,16]{1,0} parameter(0)
  %i = s32[10,1]{1,0} parameter(1)
  ROOT %g = f32[10,16]{1,0} gather(%t, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}
}
""")
    # Ten rows read and written, and their indices.
    assert found["bytes"] == 2 * 10 * 16 * 4 + 10 * 4


def test_an_update_in_place_writes_its_rows_only():
    update = """
%fused (p.0: f32[100000,16], p.1: f32[1,16], p.2: s32[]) -> f32[100000,16] {
  %p.0 = f32[100000,16]{1,0} parameter(0)
  %p.1 = f32[1,16]{1,0} parameter(1)
  %n = f32[1,16]{1,0} negate(%p.1)
  %p.2 = s32[] parameter(2)
  %z = s32[] constant(0)
  ROOT %u = f32[100000,16]{1,0} dynamic-update-slice(%p.0, %n, %p.2, %z)
}
ENTRY %main (t: f32[100000,16], r: f32[1,16], i: s32[]) -> f32[100000,16] {
  %t = f32[100000,16]{1,0} parameter(0)
  %r = f32[1,16]{1,0} parameter(1)
  %i = s32[] parameter(2)
  ROOT %f = f32[100000,16]{1,0} fusion(%t, %r, %i), kind=kLoop, calls=%fused
}
"""
    # A row read and written, and the place.
    assert estimate(update)["bytes"] == 64 + 64 + 4
    # What is written into is made by the kernel itself: all of it is written.
    made = update.replace("dynamic-update-slice(%p.0", "dynamic-update-slice(%m").replace(
        "  %z = s32[]", "  %m = f32[100000,16]{1,0} negate(%p.0)\n  %z = s32[]")
    assert estimate(made)["bytes"] == 2 * 6400000 + 64 + 4


def test_a_slice_of_a_stack_reads_its_part_only():
    found = estimate("""
%fused (p.0: f32[50,16], p.1: s32[]) -> f32[16] {
  %p.0 = f32[50,16]{1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  %z = s32[] constant(0)
  %s = f32[1,16]{1,0} dynamic-slice(%p.0, %p.1, %z), dynamic_slice_sizes={1,16}
  %b = f32[16]{0} bitcast(%s)
  ROOT %e = f32[16]{0} exponential(%b)
}
ENTRY %main (t: f32[50,16], i: s32[]) -> f32[16] {
  %t = f32[50,16]{1,0} parameter(0)
  %i = s32[] parameter(1)
  ROOT %f = f32[16]{0} fusion(%t, %i), kind=kLoop, calls=%fused
}
""", transcendentals_per_second=1e6)
    assert found["bytes"] == 64 + 64 + 4 and found["seconds"] == pytest.approx(16e-6)


def test_branches_count_as_their_dearest():
    found = estimate("""
%small (p: f32[10]) -> f32[10] {
  %p = f32[10]{0} parameter(0)
  ROOT %n = f32[10]{0} negate(%p)
}
%large (q: f32[10]) -> f32[10] {
  %q = f32[10]{0} parameter(0)
  %m = f32[10]{0} negate(%q)
  ROOT %o = f32[10]{0} negate(%m)
}
ENTRY %main (c: pred[], x: f32[10]) -> f32[10] {
  %c = pred[] parameter(0)
  %x = f32[10]{0} parameter(1)
  ROOT %r = f32[10]{0} conditional(%c, %x, %x), branch_computations={%small, %large}
}
""")
    assert found["kernels"] == 2 and found["bytes"] == 160


def test_collectives_and_unknown_operations_count_their_bytes():
    found = estimate("""
ENTRY %main (x: f32[10]) -> f32[10] {
  %x = f32[10]{0} parameter(0)
  %s = f32[10]{0} all-reduce-start(%x), replica_groups={}, to_apply=%add
  %d = f32[10]{0} all-reduce-done(%s)
  ROOT %n = f32[10]{0} never-heard-of(f32[10]{0} %d), strange={1,{2}}
}
""")
    assert found["bytes"] == 160 and found["collectives"] == 1 and found["collective_bytes"] == 40 and found["kernels"] == 2


def test_tiles_are_full_and_near_memory_is_free():
    def bytes_of(shape, near=True):
        return optimized.arrays(shape, near)[0].bytes
    assert bytes_of("f32[10,3]{1,0:T(8,128)}") == 16 * 128 * 4
    assert bytes_of("f32[10,3]{0,1:T(8,128)}") == 128 * 8 * 4
    assert bytes_of("bf16[64]{0:T(128)(2,1)S(1)}") == 0 and bytes_of("bf16[64]{0:S(1)}", near=False) == 128
    assert bytes_of("s4[7]{0:E(4)}") == 3.5 and bytes_of("f8e4m3fn[7]") == 7 and bytes_of("pred[]") == 1
    assert bytes_of("f32[<=7,2]") == 56


def test_machines_are_found_and_read(tmp_path):
    assert machines.of("gpu")["name"] == "h100" and machines.of("tpu:v6e")["bytes_per_second"] == 1640e9
    with pytest.raises(ValueError, match="gpu:a100"):
        machines.of("gpu:none")
    file = tmp_path / "machine.toml"
    usual = machines.of("cpu")
    file.write_text('name = "mine"\ntarget = "cpu"\nbytes_per_second = 5e9\n[operations_per_second]\nf32 = 5e11\nbf16 = 1e12\n')
    read = machines.read(str(file))
    # Twice as quick in products, so twice as quick in what nobody measured.
    assert read["bytes_per_second"] == 5e9 and read["arithmetic_per_second"] == 2 * usual["arithmetic_per_second"]
    file.write_text('name = "mine"\n')
    with pytest.raises(ValueError, match="target"):
        machines.read(str(file))


def test_the_command_times_what_the_compiler_made(tmp_path):
    file = tmp_path / "add.hlo"
    file.write_text("HloModule m\nENTRY %e (x: f32[1000000]) -> f32[1000000] {\n  %x = f32[1000000] parameter(0)\n  ROOT %y = f32[1000000] add(%x, %x)\n}\n")
    done = subprocess.run([sys.executable, "-m", "hlo_opt.xla", "time", file, "--json"], capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    cpu = machines.of("cpu")
    assert found["kernels"] == 1 and found["flops"] == 1e6 and found["bytes"] == 8e6
    assert found["seconds"] == pytest.approx(found["bytes"] / cpu["bytes_per_second"] + cpu["kernel_seconds"])
