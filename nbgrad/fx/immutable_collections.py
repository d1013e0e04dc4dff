"""Lists and dicts that steps keep: they cannot be changed, as the graph would not notice."""

from __future__ import annotations

from typing import Any, NoReturn

from nbgrad.utils._pytree import register_pytree_node

_WORDS = (
    "Attempting to mutate a `{}`. If you are attempting to modify the kwargs or args of a torch.fx.Node object,\ninstead create a new copy "
    "of it and assign the copy to the node:\n\n    new_args = ... # copy and mutate args\n    node.args = new_args"
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(_WORDS.format(type(self).__name__))


class immutable_list(list[Any]):
    """A list that stays as it is."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __setitem__ = __iadd__ = __imul__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (list(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that stays as it is."""

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __setitem__ = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)


register_pytree_node(
    immutable_list, lambda given: (list(given), None), lambda values, _: immutable_list(values)
)
register_pytree_node(
    immutable_dict,
    lambda given: (list(given.values()), list(given)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)
