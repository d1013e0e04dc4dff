"""`torch.distributed.device_mesh`: processes numbered in a grid, and the group of each of its lines.

Promises callers a `ProcessGroup` of those along a dimension that this process works with. All processes make a mesh together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nbgrad.distributed import _groups
from nbgrad.memory import dtypes
from nbgrad.memory.layout import contiguous_strides
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import as_tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of processes: `mesh` holds their numbers, `mesh_dim_names` its dimensions' names, by which `mesh["dp"]` is the part of them
    that this process works in.

    >>> if torch.distributed.is_initialized():
    ...     mesh = torch.distributed.device_mesh.DeviceMesh("cpu", range(torch.distributed.get_world_size()))
    ...     mesh.get_group().size() == mesh.size()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
        _groups_of: Sequence[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        if not _groups.is_initialized():
            _groups.init_process_group()
        mesh = list(mesh) if isinstance(mesh, range) else mesh
        self.mesh: Any = as_tensor(mesh, dtype=dtypes.int32).detach().cpu()
        self.device_type = device_type
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        world = _groups.get_world_size()
        if self.mesh.numel() > world:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {world}, but found {self.mesh.numel()} ranks!"
            )
        self._rank = _groups.get_rank()
        found = (self.mesh == self._rank).nonzero().tolist()
        self._place = tuple(found[0]) if found else None
        self._root = _root
        if _groups_of is None:
            _groups_of = [self._lines(dim) for dim in range(self.mesh.ndim)] if _init_backend else []
        self._dim_groups = list(_groups_of)

    def _lines(self, dim: int) -> Any:
        """The group of this process among those of all lines along a dimension."""
        own = None
        for ranks in self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist():
            whole = ranks == list(range(_groups.get_world_size()))
            group = _groups.group.WORLD if whole else _groups.new_group(ranks, sort_ranks=False)
            own = group if self._rank in ranks else own
        return own

    def _dim(self, mesh_dim: int | str | None, more: str = "") -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                told = [
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                    *([more] if more else []),
                ]
                raise RuntimeError(*told)
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(
                    f"Mesh dimension '{mesh_dim}' does not exist.",
                    f"Available mesh dimensions are: mesh_dim_names={self.mesh_dim_names}",
                )
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return int(self.mesh.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes it has along each."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes it has, or has along one dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim]

    def get_rank(self) -> int:
        """The number of this process among all."""
        return self._rank

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process is in it, None where it is not."""
        return self._place

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Where this process is along a dimension."""
        dim = self._dim(mesh_dim)
        if self._place is None:
            raise IndexError("list index out of range")
        return self._place[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of processes along a dimension that this one is in."""
        more = "If you want to get the list of all the ProcessGroups in the DeviceMesh,please use `get_all_groups()` instead."
        return self._dim_groups[self._dim(mesh_dim, more)]

    def get_all_groups(self) -> list[Any]:
        """The group along each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self.mesh_dim_names:
            return self
        known = self.mesh_dim_names
        if any(name not in known for name in names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {list(known)}."
            )
        dims = [known.index(name) for name in names]
        at = self._place or (0,) * self.ndim
        kept = self.mesh[tuple(slice(None) if k in dims else at[k] for k in range(self.ndim))]
        kept = kept.permute([sorted(dims).index(k) for k in dims])
        of = [self._dim_groups[k] for k in dims]
        return DeviceMesh(
            self.device_type, kept, mesh_dim_names=names, _groups_of=of, _root=self._get_root_mesh()
        )

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root or self

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """All of it along one dimension. All processes of the mesh that it is a part of come here."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._get_root_mesh()
        if self.ndim == 1 and self.mesh_dim_names == (name,):
            return self
        known = root.mesh_dim_names or ()
        kept = [known.index(n) for n in self.mesh_dim_names or ()]
        others = [k for k in range(root.ndim) if k not in kept] if root is not self else []
        parts = root.mesh.permute([*others, *kept]) if root is not self else self.mesh
        own = None
        for ranks in parts.reshape(-1, self.mesh.numel()).tolist():
            group = _groups.new_group(ranks, sort_ranks=False)
            own = group if self._rank in ranks else own
        flat = self.mesh.reshape(-1)
        return DeviceMesh(self.device_type, flat, mesh_dim_names=(name,), _groups_of=[own], _root=root)

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """The mesh of a group, or of several and the numbers of a grid whose dimensions they are."""
        if isinstance(group, (list, tuple)):
            if len(group) != 1 and mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            several = list(group)
        else:
            several = [group]
        if mesh is None:
            mesh = _groups.get_process_group_ranks(several[0])
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups_of=several)

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return tuple(self.mesh.flatten().tolist()), self.shape, self.device_type, self.mesh_dim_names

    def __repr__(self) -> str:
        named = self.mesh_dim_names
        sizes = [str(n) if named is None else f"{named[k]}={n}" for k, n in enumerate(self.shape)]
        shown = f"({', '.join(sizes)}{',' if named is None and len(sizes) == 1 else ''})"
        strides = [str(s) if n > 1 else "()" for n, s in zip(self.shape, contiguous_strides(self.shape))]
        told = f"({', '.join(strides)}{',' if len(strides) == 1 else ''})"
        return f"DeviceMesh({shown}, '{self.device_type}', stride={told})"


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """All processes in a grid, one after the other along its last dimension. They meet first, if they have not yet.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),), mesh_dim_names=("dp",))
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}",
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.",
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    grid = arange(math.prod(mesh_shape)).view(tuple(mesh_shape))
    return DeviceMesh(device_type, grid, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
