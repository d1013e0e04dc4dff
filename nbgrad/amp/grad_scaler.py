"""`GradScaler`: a loss is multiplied before its backward, its gradients are divided after it, and a step whose gradients are not finite is
left out."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from nbgrad.autograd import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import gpus
from nbgrad.memory.dtypes import float16, float32
from nbgrad.memory.dtypes import int32 as _int32
from nbgrad.ops.make.filled import full
from nbgrad.ops.pointwise.comparisons import isfinite


class OptState(Enum):
    """How far an optimizer is since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    """Of an optimizer since the last `update`: how far it is, and by device whether a gradient was not finite."""
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses so that float16 gradients do not vanish: the scale is halved when a gradient overflows, and doubled after
    `growth_interval` steps without that.

    >>> model = nn.Linear(2, 1)
    >>> optimizer, scaler = torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cpu")
    >>> scaler.scale(model(torch.ones(3, 2)).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> scaler.get_scale()
    65536.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if device == "cuda" and enabled and not gpus.count():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2
            )
            enabled = False
        self._enabled = enabled
        if enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made at the first `scale`, on the device of what is scaled
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        assert self._scale is not None, f"Attempted {funcname} but _scale is None.  {fix}"
        assert self._growth_tracker is not None, f"Attempted {funcname} but _growth_tracker is None.  {fix}"
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        assert self._growth_tracker is None, "_growth_tracker initialized before _scale"
        self._scale = full((), self._init_scale, dtype=float32, device=dev)
        self._growth_tracker = full((), self._init_growth_tracker, dtype=_int32, device=dev)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or all in a list or tuple, times the scale.

        >>> torch.amp.GradScaler("cpu", init_scale=8.0).scale(torch.ones(2))
        tensor([8., 8.])
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            scale: Any = self._scale
            return outputs * scale.to(device=outputs.device)
        if not isinstance(outputs, Iterable):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        every = [self.scale(one) for one in outputs]
        if hasattr(outputs, "_fields"):
            return type(outputs)(*every)
        return type(outputs)(every) if isinstance(outputs, (list, tuple)) else iter(every)

    @no_grad()
    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """All gradients times `inv_scale`, and by device 1 where one of them is not finite, beside what `found_inf` has been told."""
        found: dict[Any, Tensor] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not allow_fp16 and p.grad.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grad: Any = p.grad
                if grad.is_sparse:
                    if grad.dtype is float16:  # sums may be too large where their parts are not
                        grad = p.grad = grad.coalesce()
                    grad = grad._values()
                bad = (~isfinite(grad)).any().to(float32)
                at = grad.device
                found[at] = bad.maximum(found[at] if at in found else found_inf.to(device=at))
                grad.mul_(inv_scale.to(device=at))
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the scale already now, as to clip them; `step` then does not."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        seen = self._per_optimizer_states[id(optimizer)]
        if seen["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if seen["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        found = full((), 0.0, dtype=float32, device=scale.device)
        seen["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        seen["stage"] = OptState.UNSCALED

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if any([one.item() for one in optimizer_state["found_inf_per_device"].values()]):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step on gradients divided by the scale, unless one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        seen = self._per_optimizer_states[id(optimizer)]
        if seen["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if seen["stage"] is OptState.READY:
            self.unscale_(optimizer)
        assert seen["found_inf_per_device"], "No inf checks were recorded for this optimizer."
        result = self._maybe_opt_step(optimizer, seen, *args, **kwargs)
        seen["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """After all optimizers' steps: choose the next scale, or take the one that is given."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("update")
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
        elif new_scale is not None:
            given: Any = new_scale
            reason = (
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                "requires_grad=False."
            )
            assert given.device.type == self._device, reason
            assert given.numel() == 1, reason
            assert given.requires_grad is False, reason
            scale.copy_(given)
        else:
            states = self._per_optimizer_states.values()
            found = [one.item() for seen in states for one in seen["found_inf_per_device"].values()]
            assert found, "No inf checks were recorded prior to update."
            self._next(scale, any(found))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _next(self, scale: Tensor, overflowed: bool) -> None:
        tracker: Any = self._growth_tracker
        if overflowed:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
            return
        tracker.add_(1)
        if tracker.item() == self._growth_interval:
            grown = scale * self._growth_factor
            if isfinite(grown).item():  # PyTorch does not let it grow beyond float32
                scale.copy_(grown)
            tracker.fill_(0)

    def get_scale(self) -> float:
        """The scale; 1 where nothing is scaled.

        >>> torch.amp.GradScaler("cpu", enabled=False).get_scale()
        1.0
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Choose what the scale is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Choose what the scale is multiplied by after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps without an overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Choose after how many steps without an overflow the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """By device 1 where a gradient is not finite; none is divided."""
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, found = (full((), x, dtype=float32, device=scale.device) for x in (1.0, 0.0))
        seen = self._per_optimizer_states[id(optimizer)]
        seen["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return self._found_inf_per_device(optimizer)

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        found: dict[Any, Tensor] = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return found

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it; nothing where it is not enabled.

        >>> torch.amp.GradScaler("cpu").state_dict()["scale"]
        65536.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved "
                "from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            assert not self._per_optimizer_states, (
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
            state["_init_scale"], state["_scale"] = self.get_scale(), None
            state["_init_growth_tracker"], state["_growth_tracker"] = self._get_growth_tracker(), None
        return state


__all__ = ["GradScaler", "OptState"]
