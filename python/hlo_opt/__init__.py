"""The memory optimizer for XLA programs: the same results with a lower peak.

    import hlo_opt
    step = hlo_opt.jit(train_step, donate_argnums=0)      # instead of jax.jit
    print(step.explain(state, batch))                     # who owns the peak, what was done about it

    hlo_opt.install()                                     # every program that the process compiles, in libraries too

    found = hlo_opt.optimize(open("module.hlo").read())   # without JAX, on HLO text or protos
    print(found.report.before.total_bytes, found.report.after.total_bytes, found.text)

All sizes are in bytes. Names are loaded on first use: `import hlo_opt` imports neither JAX nor the native extension.
"""
import importlib

_HOMES = {
    "optimize": "calls", "analyze": "calls", "Optimized": "calls", "memory_curve": "calls", "CurvePoint": "calls", "Answer": "calls",
    "Report": "report", "Memory": "report", "Buffer": "report", "Peak": "report", "Rewrite": "report",
    "Condition": "report", "Remark": "report",
    "HloError": "errors", "EstimateError": "errors", "InternalError": "errors", "Problem": "errors",
    "jit": "jax_jit", "wrap_lowered": "jax_jit", "MemoryReport": "jax_plan",
    "install": "jax_install", "uninstall": "jax_install", "optimizing": "jax_install", "reports": "jax_install", "summary": "jax_install",
    "Options": "jax_options", "FallbackWarning": "jax_options", "BudgetWarning": "jax_options",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name):
    if name == "__version__":
        return importlib.import_module("hlo_opt._native").__version__
    if name in _HOMES:
        return getattr(importlib.import_module(f"hlo_opt.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hlo_opt' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
