"""Grids of processes: run by `mpiexec -n 4 python -m tests.distributed.on_mesh`."""

from __future__ import annotations

import nbgrad as T
from nbgrad import distributed as dist
from nbgrad import nn
from nbgrad.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from nbgrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from nbgrad.nn.parallel import DistributedDataParallel as DDP


def grids() -> None:
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.get_coordinate() == (rank // 2, rank % 2)
    assert dist.get_process_group_ranks(mesh.get_group("tp")) == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert dist.get_process_group_ranks(mesh["dp"].get_group()) == [rank % 2, rank % 2 + 2]
    total = T.tensor([rank + 1.0])
    dist.all_reduce(total, group=mesh.get_group("tp"))
    assert total.item() == (3.0, 7.0)[rank // 2]
    assert mesh["tp"].mesh.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1]
    flat = mesh["dp", "tp"]._flatten("all")
    assert flat.get_group().size() == 4 and flat.mesh.tolist() == [0, 1, 2, 3]
    turned = DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("a", "b"))
    assert dist.get_process_group_ranks(turned.get_group("a")) == [rank // 2 * 2, rank // 2 * 2 + 1]
    part = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("x", "y", "z"))["x", "y"]._flatten("xy")
    assert dist.get_process_group_ranks(part.get_group()) == [rank % 2, rank % 2 + 2]
    some = DeviceMesh("cpu", [0, 1])
    assert some.get_coordinate() == (None if rank > 1 else (rank,))


def states() -> None:
    T.manual_seed(dist.get_rank())
    bare = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    wrapped = DDP(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
    assert list(get_model_state_dict(wrapped)) == list(bare.state_dict())
    optimizer, other = T.optim.Adam(wrapped.parameters()), T.optim.Adam(bare.parameters())
    wrapped(T.ones(1, 2)).sum().backward()
    optimizer.step()
    model, steps = get_state_dict(wrapped, optimizer)
    set_state_dict(bare, other, model_state_dict=model, optim_state_dict=steps)
    assert all([T.equal(a, b) for a, b in zip(bare.parameters(), wrapped.parameters())])
    assert T.equal(
        other.state[bare[0].weight]["exp_avg"], optimizer.state[wrapped.module[0].weight]["exp_avg"]
    )
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    told = get_model_state_dict(wrapped, options=whole)
    assert bool(told) is (dist.get_rank() == 0)
    everywhere = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    fresh = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    set_model_state_dict(fresh, told, options=everywhere)
    assert all([T.equal(a, b) for a, b in zip(fresh.parameters(), wrapped.parameters())])


if __name__ == "__main__":
    dist.init_process_group("mpi")
    grids()
    states()
    dist.destroy_process_group()
