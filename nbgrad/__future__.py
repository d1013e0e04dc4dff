"""`torch.__future__`: how modules change what their parameters hold, until PyTorch makes one of these ways the usual one."""

_overwrite_module_params_on_conversion: bool = False
_swap_module_params_on_conversion: bool = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `nn.Module.to` and its kin give the module new parameters, and leave those that it had as they were.

    >>> net = torch.nn.Linear(2, 3)
    >>> before = net.weight
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> net.double().weight is before, before.dtype
    (False, torch.float32)
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was given last.

    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `nn.Module.to` and its kin, and `load_state_dict`, exchange parameters with new ones by `torch.utils.swap_tensors`, so that
    the module's stay the same objects, whatever their class becomes. It goes before `set_overwrite_module_params_on_conversion`.

    >>> net = torch.nn.Linear(2, 3)
    >>> before = net.weight
    >>> torch.__future__.set_swap_module_params_on_conversion(True)
    >>> net.double().weight is before, before.dtype
    (True, torch.float64)
    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` was given last.

    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swap_module_params_on_conversion
