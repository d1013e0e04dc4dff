"""What autocast does to calls: operands are cast before a listed function computes.

Promises who never uses it that it costs nothing: a function's code is its own until the first `autocast` of the process puts another
before it (as `core/overrides.py` does), which from then on asks whether this thread casts. Public functions get it, and those that
stand behind them, which the library itself calls: a product inside of `einsum` is cast as in PyTorch. What runs inside of a listed
function is not cast again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import reduce
from inspect import signature
from types import FunctionType
from typing import Any, Final

from nbgrad.base.ours import is_ours
from nbgrad.core import overrides
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import bfloat16, dtype, float16, float32, float64, promote_types
from nbgrad.memory.storage import Batched
from nbgrad.tape.modes import state

# Of the kinds of device that are not here, too: programs ask for each whether casting is on.
DEFAULTS: Final[Mapping[str, dtype]] = {
    **dict.fromkeys(("cpu", "hpu", "xla", "maia"), bfloat16),
    **dict.fromkeys(("cuda", "mps", "xpu", "ipu", "mtia", "privateuseone"), float16),
}


class Casting(threading.local):
    """What a thread casts."""

    on: tuple[str, ...] = ()  # the kinds of devices
    dtypes: Mapping[str, dtype] = DEFAULTS
    nesting = 0
    caching = True

    def __init__(self) -> None:
        self.cache: dict[int, tuple[Tensor, Tensor]] = {}  # of parameters: each, and what it was cast to


casting: Final = Casting()


def _lowered(t: Tensor) -> Tensor:
    to = casting.dtypes[t.device.type]
    if t.dtype is to:
        return t
    # What is cast where nothing is recorded would leave the parameter without a gradient wherever it was used again.
    once = casting.caching and state.grad and t.dtype is float32 and t.requires_grad and t.is_leaf
    if not once or t._is_view():
        return t.to(to)
    found = casting.cache.get(id(t))
    if found is None:
        found = casting.cache[id(t)] = (t, t.to(to))
    return found[1]


def _cast(value: Any, to: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        eligible = value.dtype.is_floating_point and value.dtype is not float64
        return to(value) if eligible and value.device.type in casting.on else value
    if type(value) in (list, tuple):
        return type(value)([_cast(one, to) for one in value])
    return value


def _widest(args: Any) -> dtype:
    """Of the dtypes of all operands, as deep as a list of them."""
    found = [t for a in args for t in (a if type(a) in (list, tuple) else [a]) if isinstance(t, Tensor)]
    dtypes = [t.dtype for t in found if t.dtype.is_floating_point]
    return reduce(promote_types, dtypes, dtypes[0]) if dtypes else float32


class _Policy:
    """What comes before a function, `inner`, on the devices where it is listed."""

    __slots__ = ("inner", "lists")

    def __init__(self, inner: Any, lists: Mapping[str, str]) -> None:
        self.inner, self.lists = inner, lists

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        how = next((self.lists[kind] for kind in casting.on if kind in self.lists), None)
        if how == "padding":
            how = "float32" if (kwargs.get("mode") or (*args, "", "", "")[2]) in _PADDING else None
        if how is None:
            return self.inner(*args, **kwargs)
        if state.levels and self._uncast(args, kwargs):
            how = "same"
        if how == "refused":
            raise RuntimeError(_UNSAFE)
        if how != "same" and kwargs.get("out") is None:  # with it, as in PyTorch, nothing is cast
            if how == "lower":
                to = _lowered
            else:
                wide = float32 if how == "float32" else _widest((*args, *kwargs.values()))
                to = lambda t: t.to(wide)  # noqa: E731
            args = tuple([_cast(a, to) for a in args])
            kwargs = {name: _cast(a, to) for name, a in kwargs.items()}
        on, casting.on = casting.on, ()
        try:
            return self.inner(*args, **kwargs)
        finally:
            casting.on = on

    def _uncast(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether PyTorch leaves a call as it is inside of a vmap: what it makes of others there."""
        name = self.inner.__name__
        if name == "linear":
            bias = args[2] if len(args) > 2 else kwargs.get("bias")
            return bias is not None and _is_batched((*args, *kwargs.values()))
        return name in _UNCAST and _is_batched((*args, *kwargs.values()))


def _is_batched(values: Any) -> bool:
    return any([isinstance(v, Tensor) and type(v._buf) is Batched for v in values])


_UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)

# By PyTorch's documentation and what its 2.13 does on a CPU; names of the functions wherever they are shown.
_LOWER = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc bmm mm baddbmm addmm addbmm linear matmul
    __matmul__ __rmatmul__ prelu scaled_dot_product_attention rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell
"""
LISTS: Final = {
    "cpu": {
        "lower": f"{_LOWER} vecdot inner lstm",
        "float32": """
            mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss kl_div binary_cross_entropy
            binary_cross_entropy_with_logits poisson_nll_loss hinge_embedding_loss multilabel_margin_loss multi_margin_loss
            soft_margin_loss cosine_embedding_loss margin_ranking_loss triplet_margin_loss ctc_loss
            grid_sample grid_sampler grid_sampler_2d grid_sampler_3d fake_quantize_per_tensor_affine
            prod quantile nanquantile trace cdist cholesky cholesky_inverse cholesky_solve inverse inv inv_ex solve solve_ex lu_solve
            cholesky_ex qr geqrf svd svdvals eig eigvals eigh eigvalsh lstsq pinverse cond matrix_rank tensorsolve tensorinv
            householder_product orgqr ormqr triangular_solve avg_pool3d max_pool3d max_unpool1d max_unpool2d
            max_unpool3d adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d
            fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices stft polar
            fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft
        """,
        "widest": "cat stack index_copy",
        "padding": "pad",
    },
    "cuda": {
        "lower": f"{_LOWER} mv addmv addr chain_matmul multi_dot",
        "float32": """
            acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow __pow__ __rpow__ __rtruediv__ softplus
            layer_norm group_norm norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss hinge_embedding_loss kl_div
            l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss soft_margin_loss
            triplet_margin_loss cross_entropy binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp prod softmax
            log_softmax softmin cumprod cumsum vector_norm matrix_norm sum normalize
        """,
        "widest": "cat stack addcdiv addcmul atan2 bilinear cross dot vdot grid_sample index_put scatter_add tensordot",
        "refused": "binary_cross_entropy",
    },
}
_INSIDE_VMAP = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d baddbmm addmm addbmm scaled_dot_product_attention prelu
    nll_loss trace cdist cosine_embedding_loss
"""
_UNCAST = frozenset(_INSIDE_VMAP.split())
_PADDING = frozenset({"reflect", "replicate"})  # modes of `pad`, of which PyTorch's CPU casts these


# On every device: fused layers, whose kernels take what stands in them to be of one dtype, so that no product inside of them is cast;
# what sums of products by letters are made of; and backwards, in which nothing is cast.
_EVERYWHERE: Final = {
    **dict.fromkeys(("gru", "gru_cell", "lstm", "lstm_cell", "bilinear", "matrix_exp"), "widest"),
    **dict.fromkeys(("_mm", "_bmm"), "lower"),
    **dict.fromkeys(("backward", "grad"), "same"),
}

_CASTING = """
def outer({free}):
    def function(*args, **kwargs):
        {touched}
        return "CAST"(args, kwargs) if "NOW".on else "INNER"(*args, **kwargs)
    return function
"""


def _by_name() -> dict[str, dict[str, str]]:
    """What is done with a name, by device."""
    found = {name: dict.fromkeys(LISTS, how) for name, how in _EVERYWHERE.items()}
    for device, lists in LISTS.items():
        for how, names in lists.items():
            for name in names.split():
                found.setdefault(name, {})[device] = how
    return found


def begin(hidden: Mapping[str, Any]) -> None:
    """Before the first cast of the process: every listed function asks from here on; `hidden` are those that no module shows."""
    with overrides.lock:
        if overrides.inner:
            return
        by_name, done = _by_name(), overrides.twins()
        for _, namespace in [*overrides.armed.namespaces(), ("", hidden)]:
            for name in by_name.keys() & namespace.keys():
                function = namespace[name]
                while type(function) is FunctionType:
                    if id(function) not in done and is_ours(function.__module__):
                        _put_before(function, by_name[name])
                    done.add(id(function))
                    function = getattr(function, "__wrapped__", None)
                    short = getattr(function, "in_front", None)
                    if short is not None:  # of which others make use as well
                        function = None if id(short) in done else short


def _put_before(function: Any, lists: Mapping[str, str]) -> None:
    own = overrides.twin_of(function)
    inner = overrides.copied(own)
    words = {"CAST": _Policy(inner, lists), "NOW": casting, "INNER": inner}
    function.__signature__ = signature(function)  # which a code that takes anything does not show
    overrides.inner[id(function)] = inner
    own.__code__ = overrides.standing_for(own.__code__, _CASTING, words)
