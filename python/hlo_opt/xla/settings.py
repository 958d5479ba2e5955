"""The settings of XLA that are tried for less memory: flags and compile options of each compiler, and its own passes one by one.

Listed is what can move bytes by what the compilers' sources do with it (xla/debug_options_flags.cc, xla/service/cpu/cpu_compiler.cc,
xla/service/gpu/gpu_compiler.cc, and what libtpu names). What a version of jaxlib does not know becomes a row that says so.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from . import targets

ROUNDING = "results may differ in rounding"

# Passes that XLA needs for the program to run, or for its meaning: a module without them fails or computes something else.
NEEDED = re.compile(r"expander|legaliz|decompos|partition|layout-assign|layout_normal|copy-insertion|copy_insertion|flatten-call-graph|call-inliner|inline|dynamic|"
                    r"wrapper|rename|sanitize|float-normal|normalization|verif|domain|sharding|spmd|offload|host|async|convert|autotun|upcast|command-buffer|"
                    r"annotat|optimization-barrier|schedule|parallel|stable-sort|topk|calls?-to-custom|custom-call|token|computation-dedup|execution-stream")
# They do what the program says in another order or with other operations.
ARITHMETIC = re.compile(r"algsimp|simplif|reassoc|dot|gemm|conv|softmax|norm|fusion|reduction|reduce|strength|split|triton|cudnn|cublas|precision|fast|bf16|folding")


@dataclass(frozen=True)
class Setting:
    """Flags (names that begin with `xla_`) and compile options, by name. `note` says what else changes; `results` if that is results."""

    values: tuple[tuple[str, str], ...]
    note: str = ""
    results: bool = False
    # The program must have this for the setting to mean anything.
    needs: str = ""

    @property
    def dictionary(self) -> dict[str, str]:
        return dict(self.values)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values)

    def with_(self, other: Setting) -> Setting:
        """Both settings; of a flag that lists passes, both lists. The other one wins where they contradict each other."""
        values = self.dictionary
        for name, value in other.values:
            values[name] = f"{values[name]},{value}" if name == DISABLED and name in values else value
        notes = [note for note in (self.note, other.note) if note]
        return Setting(tuple(values.items()), "; ".join(dict.fromkeys(notes)), self.results or other.results)


DISABLED = "xla_disable_hlo_passes"

# XLA:GPU's scheduler and rematerialization keep within so many percent (95 by default) of four fifths of the device's memory less arguments and results
# (GetSchedulerMemoryLimit in xla/service/gpu/gpu_hlo_schedule.cc).
LIMIT, GPU_SHARE = "xla_gpu_memory_limit_slop_factor", 0.8
GPU_MEMORY = int(re.search(r"device_memory_size: (\d+)", targets.H100)[1])
# Shares of the temporaries that are tried as limits.
LIMITS = 0.9, 0.75, 0.5, 0.25


def one(name: str, *values: str, note: str = "", results: bool = False, needs: str = "") -> list[Setting]:
    """A setting for each value."""
    return [Setting(((name, value),), note, results, needs) for value in values]


_ROUNDED = {"note": ROUNDING, "results": True}
_COLLECTIVES = {"needs": r"\ball-reduce|\ball-gather|\breduce-scatter|sharding="}

_EFFORTS = [*one("memory_fitting_level", "3", "0"), *one("optimization_level", "1"), *one("memory_fitting_effort", "1.0")]

_CPU = [
    # As a compile option the type alone works: the older flag is read together with XLA_FLAGS, where it sets the type.
    *one("xla_cpu_scheduler_type", "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED", "CPU_SCHEDULER_TYPE_CONCURRENCY_OPTIMIZED"),
    *one("xla_cpu_enable_concurrency_optimized_scheduler", "false", "true"),
    *one("xla_cpu_copy_insertion_use_region_analysis", "true"),
    *one("xla_cpu_use_fusion_emitters", "false"),
    *one("xla_cpu_experimental_enable_tiling_propagation", "true"),
    *one("xla_cpu_use_xnnpack", "true", "false", **_ROUNDED),
    *one("xla_cpu_experimental_xnn_graph_fusion_mode", "XNN_GRAPH_FUSION_MODE_GREEDY", **_ROUNDED),
    *one("xla_cpu_use_onednn", "true", "false", **_ROUNDED),
    *one("xla_cpu_multi_thread_eigen", "false", note="one thread for products"),
    *one("xla_cpu_strict_dot_conv_math", "true", "false", **_ROUNDED),
    *one("xla_allow_excess_precision", "false", **_ROUNDED),
    *one("xla_cpu_enable_fast_math", "true", **_ROUNDED),
    *one("xla_reduce_window_rewrite_base_length", "0", "128", **_ROUNDED),
    *one("xla_multiheap_size_constraint_per_heap", "1073741824"),
    *one("xla_backend_optimization_level", "1", note="slower machine code"),
    *one("xla_llvm_disable_expensive_passes", "true", note="slower machine code"),
]

_GPU = [
    *one("xla_gpu_enable_triton_gemm", "false", **_ROUNDED),
    *one("xla_gpu_enable_latency_hiding_scheduler", "true", "false"),
    *one("xla_gpu_enable_analytical_latency_estimator", "true"),
    *one("xla_gpu_copy_insertion_use_region_analysis", "true"),
    *one("xla_gpu_enable_while_loop_unrolling", "WHILE_LOOP_UNROLLING_NO_UNROLL", "WHILE_LOOP_UNROLLING_DOUBLE_BUFFER"),
    *one("xla_gpu_experimental_enable_fusion_block_level_rewriter", "true", "false", **_ROUNDED),
    *one("xla_gpu_unsupported_enable_triton_multi_output_fusion", "true", "false", **_ROUNDED),
    *one("xla_gpu_triton_gemm_any", "true", "false", **_ROUNDED),
    *one("xla_gpu_experimental_pack_dot_operands_along_k_dimension", "false", **_ROUNDED),
    *one("xla_gpu_enable_cublaslt", "true", "false", **_ROUNDED),
    *one("xla_gpu_cudnn_gemm_fusion_level", "2", **_ROUNDED),
    *one("xla_gpu_enable_cudnn_layer_norm", "true", **_ROUNDED),
    *one("xla_gpu_experimental_gemm_fusion_v2", "true", **_ROUNDED),
    *one("xla_gpu_experimental_enable_conv_fusion", "true", **_ROUNDED),
    *one("xla_gpu_experimental_enable_tiling_propagation", "true"),
    *one("xla_gpu_experimental_enable_split_k_rewrite", "true", **_ROUNDED),
    *one("xla_gpu_gemm_rewrite_size_threshold", "0", **_ROUNDED),
    *one("xla_gpu_dot_merger_threshold_mb", "0", "1024", **_ROUNDED),
    *one("xla_gpu_enable_dynamic_slice_fusion", "false", "true"),
    *one("xla_gpu_enable_dus_accumulator_zero_init_elimination", "true"),
    *one("xla_gpu_enable_reduction_epilogue_fusion", "false"),
    *one("xla_gpu_force_conv_nchw", "true", **_ROUNDED),
    *one("xla_gpu_force_conv_nhwc", "true", **_ROUNDED),
    *one("xla_gpu_enable_cub_radix_sort", "false", "true"),
    *one("xla_gpu_enable_scatter_determinism_expander", "false", "true", **_ROUNDED),
    *one("xla_gpu_deterministic_ops", "true", **_ROUNDED),
    *one("xla_gpu_exclude_nondeterministic_ops", "true", **_ROUNDED),
    *one("xla_gpu_temp_buffer_use_separate_color", "true"),
    *one("xla_gpu_enable_host_memory_offloading", "true"),
    *one("xla_gpu_enable_command_buffer", ""),
    *one("xla_gpu_enable_shared_constants", "false"),
    *one("xla_gpu_multi_streamed_windowed_einsum", "true", **_COLLECTIVES),
    *one("xla_gpu_all_reduce_combine_threshold_bytes", "0", **_COLLECTIVES),
    *one("xla_gpu_all_gather_combine_threshold_bytes", "0", **_COLLECTIVES),
    *one("xla_gpu_reduce_scatter_combine_threshold_bytes", "0", **_COLLECTIVES),
    *one("xla_allow_excess_precision", "false", **_ROUNDED),
    *one("xla_reduce_window_rewrite_base_length", "0", "128", **_ROUNDED),
    *one("xla_multiheap_size_constraint_per_heap", "1073741824"),
]

_TPU = [
    *one("xla_tpu_rematerialization_algo", "PEAK_PRIORITY", "ALWAYS_REMAT"),
    *one("xla_jf_rematerialization_percent_shared_memory_limit", "10", "50", "90"),
    *one("xla_tpu_rematerialization_max_block_size_limit", "100"),
    *one("xla_tpu_rematerialization_min_size_in_bytes", "0"),
    *one("xla_tpu_pre_fusion_remat", "true"),
    *one("xla_tpu_ior_remat", "true"),
    *one("xla_tpu_scheduler_percent_shared_memory_limit", "50", "90"),
    *one("xla_tpu_enable_latency_hiding_scheduler", "false", "true"),
    *one("xla_latency_hiding_scheduler_rerun", "5"),
    *one("xla_tpu_enable_depth_memory_pressure_reduction", "true"),
    *one("xla_tpu_enable_scheduler_memory_pressure_tracking", "true"),
    *one("xla_jf_critical_path_scheduler", "false"),
    *one("xla_tpu_use_aggressive_scheduling", "true"),
    *one("xla_tpu_scoped_vmem_limit_kib", "4096", "32768", "65536"),
    *one("xla_jf_vmem_memory_space_assignment", "false"),
    *one("xla_vf_vmem_memory_space_assignment", "false"),
    *one("xla_tpu_enable_copy_fusion", "false", "true"),
    *one("xla_tpu_copy_insertion_use_region_analysis", "true"),
    *one("xla_jf_enable_multi_output_fusion", "false"),
    *one("xla_jf_enable_advanced_multi_output_fusion", "false", "true"),
    *one("xla_jf_conv_input_fusion", "false"),
    *one("xla_jf_conv_output_fusion", "false"),
    *one("xla_tpu_rwb_fusion", "false"),
    *one("xla_tpu_dot_dot_fusion", "false", "true", **_ROUNDED),
    *one("xla_tpu_nested_dot_fusion", "false", **_ROUNDED),
    *one("xla_tpu_enable_multi_level_nested_loop_fusion", "false", "true"),
    *one("xla_tpu_enable_aggressive_loop_fusion_layout_opt", "true", "false"),
    *one("xla_tpu_enable_large_2nd_minor_layout_for_x16", "false", "true"),
    *one("xla_tpu_allow_layout_negotiation", "false"),
    *one("xla_tpu_enable_untiled_layout", "true"),
    *one("xla_tpu_order_dot_after_layout", "false"),
    *one("xla_tpu_prefer_latch_optimized_rhs_layouts", "false"),
    *one("xla_tpu_enable_pipelined_loop_unrolling", "false"),
    *one("xla_jf_bf16_propagation", "false", "true", **_ROUNDED),
    *one("xla_tpu_force_excess_precision_bf16", "true", **_ROUNDED),
    *one("xla_allow_excess_precision", "false", **_ROUNDED),
    *one("xla_jf_crs_combiner_threshold_in_bytes", "0", **_COLLECTIVES),
    *one("xla_tpu_enable_async_collective_fusion", "false", **_COLLECTIVES),
]

_TARGETS = {"cpu": _CPU, "gpu": _GPU, "tpu": _TPU}


def of(target: str, text: str) -> list[Setting]:
    """Flags and options that are tried for a program."""
    return [found for found in [*_TARGETS[target], *_EFFORTS] if not found.needs or re.search(found.needs, text)]


def limits(target: str, total: int, temporaries: int) -> list[Setting]:
    """Memory limits below what the program takes, at which XLA:GPU computes values again: percents of what the device has beside arguments and results."""
    beside = GPU_SHARE * GPU_MEMORY - (total - temporaries)
    if target != "gpu" or beside <= 0:
        return []
    percents = dict.fromkeys(max(1, round(100 * share * temporaries / beside)) for share in LIMITS)
    return [one(LIMIT, str(percent))[0] for percent in percents if percent < 95]


def without(passes: list[str]) -> list[Setting]:
    """A setting for each pass that changed the module and that may be left out."""
    return [one(DISABLED, name, note=ROUNDING if ARITHMETIC.search(name) else "", results=bool(ARITHMETIC.search(name)))[0]
            for name in passes if not NEEDED.search(name)]
