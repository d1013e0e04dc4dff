"""One step of a graph: what is called, with what, and who uses the result."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nbgrad.base.ours import is_ours
from nbgrad.fx.immutable_collections import immutable_dict, immutable_list
from nbgrad.overrides import _assert, resolve_name

Graph = Any  # of `graph.py`, which stands on this
Argument = Any
Target = str | Callable[..., Any]
LEGAL = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_side_effects: set[Any] = set()
# Of these functions of `torch.nn.functional` PyTorch's name is in its compiled part.
_NN = {
    **{
        n: n
        for n in (
            "avg_pool2d",
            "avg_pool3d",
            "elu_",
            "gelu",
            "hardtanh_",
            "leaky_relu_",
            "linear",
            "one_hot",
            "softplus",
            "softshrink",
        )
    },
    **{"logsigmoid": "log_sigmoid", "scaled_dot_product_attention": "scaled_dot_product_attention"},
}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let calls of a function stay in a graph though nobody uses what they give."""
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Containers anew, with what `fn` makes of what is in them."""
    if isinstance(a, tuple):
        inner = [map_aggregate(one, fn) for one in a]
        return type(a)(*inner) if hasattr(a, "_fields") else tuple(inner)
    if isinstance(a, list):
        return immutable_list([map_aggregate(one, fn) for one in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(*[map_aggregate(one, fn) for one in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """The same of the nodes among them.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> torch.fx.map_arg([x, 1], lambda n: n.name)
    ['x', 1]
    """
    return map_aggregate(a, lambda one: fn(one) if isinstance(one, Node) else one)


def qualified_name(func: Any) -> str:
    """A function as it is named in Python."""
    name = func.__name__
    if getattr(builtins, name, None) is func:
        return str(name)
    if hasattr(func, "_qualified_op_name"):
        return f"torch.ops.{func}"
    found = resolve_name(func) if is_ours(getattr(func, "__module__", None)) else None
    if found is None and func is _assert:
        return "torch._assert"
    if found is not None:
        where, _, last = found.rpartition(".")
        from nbgrad.core.overrides import SAME

        if where == "torch.nn.functional" and last in _NN:
            return f"torch._C._nn.{_NN[last]}"
        return f"torch.{last}" if where == "torch.nn.functional" and last in SAME else found
    module = getattr(func, "__module__", None)
    if module is None:
        raise RuntimeError(f"cannot find module for {func}")
    return f"{module.replace('nbgrad', 'torch', 1) if module.startswith('nbgrad') else module}.{name}"


def type_repr(kind: Any) -> str:
    """A class as an annotation shows it."""
    if isinstance(kind, type) and not hasattr(kind, "__origin__"):
        where = kind.__module__
        if where == "builtins":
            return kind.__qualname__
        if where.startswith("nbgrad"):
            return (
                f"torch.{kind.__qualname__}"
                if kind.__name__ == "Tensor"
                else f"torch{where.removeprefix('nbgrad')}.{kind.__qualname__}"
            )
        return f"{where}.{kind.__qualname__}"
    return "..." if kind is ... else repr(kind)


def _format(arg: Any) -> str:
    if isinstance(arg, list):
        return f"[{', '.join(map(_format, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join([f"{k}: {_format(v)}" for k, v in arg.items()]) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """A step. `op` says of which kind: an argument of the program ("placeholder"), an attribute of its module ("get_attr"), a call of a
    function, of a method of the first argument, or of a module inside of it, or the result ("output"). `users` are the steps that
    read it."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in LEGAL:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type_repr(type(target))} but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type_repr(type(target))} but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self._erased = False
        self._before = self._after = self
        self._set(args, kwargs)

    # -- its place ----------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The step after it."""
        return self._after

    @property
    def prev(self) -> Node:
        """The step before it."""
        return self._before

    def prepend(self, x: Node) -> None:
        """Put another step before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._leave()
        before = self._before
        before._after, x._before = x, before
        x._after, self._before = self, x

    def append(self, x: Node) -> None:
        """Put another step after this one."""
        self._after.prepend(x)

    def _leave(self) -> None:
        self._before._after, self._after._before = self._after, self._before

    # -- what it is called with ---------------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """What is given by position, where other steps stand for their results."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """What is given by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The steps that it reads."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, text: str | None) -> None:
        self.meta["stack_trace"] = text

    def _set(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        for old in self._input_nodes:
            old.users.pop(self)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Give another argument at a position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Give one more argument, before a position."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Give another argument under a name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let those that read this step (and of whom `delete_user_cb` says so) read another; they are returned."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb(user):
                changed.append(user)
                user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Read another step in the place of one."""

        def other(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, other), map_arg(self._kwargs, other))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does more than to give a result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(module.get_submodule(str(self.target)), "_is_impure", False))
        if self.op != "call_function":
            return False
        name = getattr(self.target, "__name__", "")
        return (
            self.target in _side_effects
            or name in ("_assert", "_assert_is_none", "setitem")
            or (name.endswith("_") and not name.endswith("__"))
        )

    # -- how it is shown ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self.graph._shown(self) if self.graph._shown is not None else self.name

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        module = getattr(target, "__module__", None)
        if module in ("builtins", "_operator"):
            return f"{'operator' if module == '_operator' else module}.{target.__name__}"
        return qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """A line that says what it is."""
        kind = f"{type_repr(self.type)} " if self.type is not None else ""
        users = f"[num_users={len(self.users)}]"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(str(self.target))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {kind}{users} = {self.op}[target={self.target}]{default}"
        target = self._pretty_print_target(self.target)
        if self.op == "get_attr":
            return f"%{self.name} : {kind}{users} = {self.op}[target={target}]"
        if self.op == "output":
            return f"return {self.args[0]}"
        called = f"args = {_format(self.args)}, kwargs = {_format(self.kwargs)}"
        return f"%{self.name} : {kind}{users} = {self.op}[target={target}]({called})"


def inputs_of(nodes: Iterable[Node]) -> dict[Node, Node]:
    """Who reads each of these last."""
    last: dict[Node, Node] = {}
    for node in reversed(list(nodes)):
        for one in node._input_nodes:
            last.setdefault(one, node)
    return last
