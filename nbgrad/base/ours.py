"""Whose a class or function is by its `__module__`: ours are called by nbgrad's name, and by torch's where that stands in its place."""

from __future__ import annotations

from typing import Final


class _Called:
    """The package that classes and functions that users find belong to."""

    package = "nbgrad"


called: Final = _Called()
_packages: Final = {called.package}


def is_ours(module: str | None) -> bool:
    """Whether it is a module of nbgrad's, however that is called."""
    return module is not None and module.partition(".")[0] in _packages


def call(package: str) -> None:
    """Call all that users find by the name of another package from here on; what has been made is renamed by who asks for this."""
    called.package = package
    _packages.add(package)
