"""The switches of PyTorch's compiler: programs set and read them, and nothing comes of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

verbose = suppress_errors = disable = error_on_recompile = False
capture_scalar_outputs = capture_dynamic_output_shape_ops = specialize_int = specialize_float = False
allow_unspec_int_on_nn_module = allow_rnn = compiled_autograd = force_compile_during_fx_trace = False
skip_fwd_side_effects_in_bwd_under_checkpoint = numpy_default_int = False
assume_static_by_default = automatic_dynamic_shapes = dynamic_shapes = guard_nn_modules = optimize_ddp = True
force_parameter_static_shapes = inline_inbuilt_nn_modules = trace_numpy = capture_func_transforms = True
recompile_limit = cache_size_limit = 8
accumulated_recompile_limit = accumulated_cache_size_limit = 256
numpy_default_float, numpy_default_int = "float64", "int64"  # type: ignore[assignment]
reorderable_logging_functions: set[Any] = set()
ignore_logging_functions: set[Any] = set()


@contextmanager
def patch(changes: Any = None, value: Any = None, **more: Any) -> Iterator[None]:
    """Within it (or a function that it decorates) switches have other values: `patch("verbose", True)`, `patch(verbose=True)`."""
    module = sys.modules[__name__]
    wanted = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
    before = {name: getattr(module, name) for name in wanted}
    vars(module).update(wanted)
    try:
        yield
    finally:
        vars(module).update(before)
