from .calls import Optimized as Optimized, analyze as analyze, optimize as optimize
from .errors import (
    EstimateError as EstimateError,
    HloError as HloError,
    InternalError as InternalError,
    Problem as Problem,
)
from .jax_install import (
    install as install,
    optimizing as optimizing,
    reports as reports,
    summary as summary,
    uninstall as uninstall,
)
from .jax_jit import jit as jit, wrap_lowered as wrap_lowered
from .jax_options import FallbackWarning as FallbackWarning, Options as Options
from .jax_plan import MemoryReport as MemoryReport
from .report import (
    Buffer as Buffer,
    Condition as Condition,
    Memory as Memory,
    Peak as Peak,
    Remark as Remark,
    Report as Report,
    Rewrite as Rewrite,
)

__version__: str
