"""Parts of a parameter set to zero by a mask, which its module keeps beside it and applies again before each call.

Promises that `module.<name>` is `module.<name>_orig * module.<name>_mask`: the first is what is trained, the second a buffer; one method
of pruning after another narrows the mask, and `remove` makes what is left the parameter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module
from nbgrad.nn.utils.convert_parameters import parameters_to_vector
from nbgrad.ops.linear.matrix_norms import norm
from nbgrad.ops.make.drawn import rand, rand_like
from nbgrad.ops.make.filled import ones_like, zeros_like
from nbgrad.ops.order.sort import kthvalue, topk


class BasePruningMethod(ABC):
    """What a method of pruning is: `compute_mask(t, default_mask)`, and of what it takes parts in `PRUNING_TYPE`: "unstructured" of the
    elements that are left, "structured" of slices along its `dim`, "global" of all elements.

    >>> class Odd(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "global"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t % 2 == 0)
    >>> Odd().prune(torch.tensor([1.0, 2.0, 3.0]))
    tensor([0., 2., 0.])
    """

    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask of the shape of `t`, 0 where something is to go, from the one so far."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original with the mask that the module keeps.

        >>> layer = nn.utils.prune.identity(nn.Linear(2, 3), "bias")
        >>> hook, = layer._forward_pre_hooks.values()
        >>> hook.apply_mask(layer).equal(layer.bias_orig)
        True
        """
        original = getattr(module, f"{self._tensor_name}_orig")
        masked: Tensor = getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original
        return masked

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune `module.<name>` by this method, made of the further arguments; what was pruned before stays so. What is least important
        by `importance_scores` goes first, by the parameter itself where there are none.

        >>> layer = nn.Linear(2, 3)
        >>> method = nn.utils.prune.L1Unstructured.apply(layer, "weight", 2)
        >>> layer.weight.count_nonzero()
        tensor(4)
        """
        hooks = module._forward_pre_hooks
        before = {
            k: h for k, h in hooks.items() if isinstance(h, BasePruningMethod) and h._tensor_name == name
        }
        for key in before:
            del hooks[key]
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        for old in before.values():
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            scores = original
        else:
            scores = importance_scores
            assert scores.shape == original.shape, (
                f"importance_scores should have the same shape as parameter {name} of {module}, got {scores.shape} vs "
                f"{original.shape}"
            )
        if not before:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            so_far = ones_like(original)
        else:
            so_far = getattr(module, f"{name}_mask").detach().clone()
        try:
            module.register_buffer(f"{name}_mask", method.compute_mask(scores, default_mask=so_far))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not before:  # the module is as it was
                module.register_parameter(name, original)
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A tensor of no module, pruned.

        >>> nn.utils.prune.L1Unstructured(2).prune(torch.tensor([1.0, -2.0, 3.0, 0.5]))
        tensor([ 0., -2.,  3.,  0.])
        """
        scores = t if importance_scores is None else importance_scores
        assert scores.shape == t.shape, (
            f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
        )
        so_far = ones_like(t) if default_mask is None else default_mask
        pruned: Tensor = t * self.compute_mask(scores, default_mask=so_far)
        return pruned

    def remove(self, module: Module) -> None:
        """Make what the mask has left the parameter of the module, under its former name.

        >>> layer = nn.Linear(2, 3)
        >>> nn.utils.prune.L1Unstructured.apply(layer, "weight", 2).remove(layer)
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'weight']
        """
        name = self._tensor_name
        assert name is not None, f"Module {module} has to be pruned before pruning can be removed"
        masked = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = masked.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Methods that prune the same parameter one after another.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", 1)
    >>> layer = nn.utils.prune.random_unstructured(layer, "weight", 2)
    >>> hook, = layer._forward_pre_hooks.values()
    >>> [type(method).__name__ for method in hook], layer.weight_mask.sum()
    (['L1Unstructured', 'RandomUnstructured'], tensor(3.))
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
            return
        for method in args[0] if len(args) == 1 else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """One more, of the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer {self}. "
                f"Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """That of the last method, which chooses among what `default_mask` has left."""
        method: Any = self._pruning_methods[-1]
        left: Any
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            left = _at(t, method.dim, default_mask.sum(_others(t, method.dim)) != 0)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = default_mask.clone().to(dtype=t.dtype)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask.

    >>> nn.utils.prune.identity(nn.Linear(2, 3), "bias").bias_mask
    tensor([1., 1., 1.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far."""
        return default_mask


class _ByAmount(BasePruningMethod):
    """Prunes so many elements or slices, or such a share of them."""

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, of: int) -> int:
        _validate_pruning_amount(self.amount, of)
        return _compute_nparams_toprune(self.amount, of)


class _Elements(_ByAmount):
    """Of single elements."""

    PRUNING_TYPE = "unstructured"

    def _without(self, count: int, scores: Tensor, default_mask: Tensor, largest: bool) -> Tensor:
        mask = default_mask.clone()
        if count:
            mask.view(-1)[topk(scores.reshape(-1), count, largest=largest).indices] = 0
        return mask


class RandomUnstructured(_Elements):
    """Prunes `amount` elements, or that share of them, by chance.

    >>> nn.utils.prune.RandomUnstructured(0.5).prune(torch.ones(4)).sum()
    tensor(2.)
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """As many zeros at random places."""
        count = self._count(t.nelement())
        return self._without(count, rand_like(t), default_mask, True) if count else default_mask.clone()


class L1Unstructured(_Elements):
    """Prunes the `amount` elements, or that share of them, that are nearest to zero.

    >>> nn.utils.prune.L1Unstructured(1).prune(torch.tensor([3.0, -1.0, 2.0]))
    tensor([3., -0., 2.])
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros where `t` has its smallest magnitudes."""
        return self._without(self._count(t.nelement()), t.abs(), default_mask, False)


class _Slices(_ByAmount):
    """Of whole slices along `dim`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _slices(self, t: Tensor) -> tuple[int, int]:
        """How many there are along the dimension, and how many are to go."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        there = t.shape[self.dim]
        return there, self._count(there)

    def _only(self, t: Tensor, kept: Tensor, default_mask: Tensor) -> Tensor:
        mask = zeros_like(t)
        mask[_at(t, self.dim, kept)] = 1
        mask *= default_mask.to(dtype=mask.dtype)
        return mask


class RandomStructured(_Slices):
    """Prunes `amount` slices along `dim`, or that share of them, by chance.

    >>> nn.utils.prune.RandomStructured(1, dim=0).prune(torch.ones(3, 2)).sum()
    tensor(4.)
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in as many slices."""
        there, count = self._slices(t)
        if count == 0:
            return default_mask
        drawn = rand(there)
        return self._only(t, drawn > kthvalue(drawn, count).values, default_mask)


class LnStructured(_Slices):
    """Prunes the `amount` slices along `dim`, or that share of them, whose norm of order `n` is smallest.

    >>> nn.utils.prune.LnStructured(1, n=2, dim=0).prune(torch.tensor([[3.0, 4.0], [1.0, 1.0]]))
    tensor([[3., 4.],
            [0., 0.]])
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in the slices of the smallest norms."""
        there, count = self._slices(t)
        lengths = _compute_norm(t, self.n, self.dim)
        kept = topk(lengths, there - count, largest=True).indices
        return default_mask if count == 0 else self._only(t, kept, default_mask)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given.

    >>> nn.utils.prune.CustomFromMask(torch.tensor([1.0, 0.0])).prune(torch.ones(2))
    tensor([1., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together."""
        assert default_mask.shape == self.mask.shape, (
            f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
        )
        both: Tensor = default_mask * self.mask.to(dtype=default_mask.dtype)
        return both


# By these names methods of pruning outside look at what they are given, too.


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if float(amount) < 0 or (not isinstance(amount, Integral) and float(amount) > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    if t.ndim <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} "
            f"with {t.ndim} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> Any:
    return amount if isinstance(amount, Integral) else round(amount * tensor_size)


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    lengths: Tensor = norm(t, n, list(_others(t, dim)))
    return lengths


def _others(t: Tensor, dim: int) -> tuple[int, ...]:
    return tuple(d for d in range(t.ndim) if d != dim % t.ndim)


def _at(t: Tensor, dim: int, places: Tensor) -> tuple[Any, ...]:
    """An index of these places along one dimension."""
    return tuple(places if d == dim % t.ndim else slice(None) for d in range(t.ndim))


def identity(module: Module, name: str) -> Module:
    """Give `module.<name>` a mask of ones.

    >>> nn.utils.prune.is_pruned(nn.utils.prune.identity(nn.Linear(2, 3), "weight"))
    True
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune `amount` elements of `module.<name>`, or that share of them, by chance.

    >>> nn.utils.prune.random_unstructured(nn.Linear(2, 3), "weight", 0.5).weight_mask.sum()
    tensor(3.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of `module.<name>` that are nearest to zero, or least by `importance_scores`: `amount`, or that share.

    >>> nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", 2).weight_mask.sum()
    tensor(4.)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune `amount` slices of `module.<name>` along `dim`, or that share of them, by chance.

    >>> nn.utils.prune.random_structured(nn.Linear(2, 3), "weight", 1, dim=0).weight_mask.sum()
    tensor(4.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices of `module.<name>` along `dim` whose norm of order `n` is smallest: `amount`, or that share of them.

    >>> nn.utils.prune.ln_structured(nn.Linear(2, 3), "weight", 1, n=2, dim=0).weight_mask.sum()
    tensor(4.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune parameters, pairs of a module and a name, as if all their elements were one.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> pairs = [(net[0], "weight"), (net[1], "weight")]
    >>> nn.utils.prune.global_unstructured(pairs, nn.utils.prune.L1Unstructured, amount=4)
    >>> int(net[0].weight_mask.sum() + net[1].weight_mask.sum())
    5
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs, told = list(parameters), importance_scores or {}
    owned = [getattr(module, name) for module, name in pairs]
    scores = parameters_to_vector([told.get(pair, of) for pair, of in zip(pairs, owned)])
    masks = [getattr(module, f"{name}_mask", ones_like(of)) for (module, name), of in zip(pairs, owned)]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp_multi_param"
    mask = PruningContainer(method).compute_mask(scores, parameters_to_vector(masks))
    ends = [0]
    for of in owned:
        ends.append(ends[-1] + of.numel())
    for (module, name), of, (start, stop) in zip(pairs, owned, pairwise(ends)):
        custom_from_mask(module, name, mask[start:stop].view_as(of))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune `module.<name>` where the mask is 0.

    >>> nn.utils.prune.custom_from_mask(nn.Linear(2, 3), "bias", torch.tensor([0.0, 1.0, 1.0])).bias[0]
    tensor(0., grad_fn=<SelectBackward0>)
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make what is left of `module.<name>` its parameter, without a mask.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", 2)
    >>> nn.utils.prune.is_pruned(nn.utils.prune.remove(layer, "weight"))
    False
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one inside of it, has a mask.

    >>> nn.utils.prune.is_pruned(nn.Linear(2, 3))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for _, submodule in module.named_modules()
        for hook in submodule._forward_pre_hooks.values()
    )


__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]
