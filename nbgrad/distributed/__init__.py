"""`torch.distributed`: processes that work together, by MPI, and what they do with their tensors. This package only re-exports.

It is loaded when it is first named, and MPI when a group of processes is made. One process alone needs neither.
"""

from nbgrad.distributed._buckets import GradBucket as GradBucket
from nbgrad.distributed._collectives import P2POp as P2POp
from nbgrad.distributed._collectives import all_gather as all_gather
from nbgrad.distributed._collectives import all_gather_into_tensor as all_gather_into_tensor
from nbgrad.distributed._collectives import all_gather_single as all_gather_single
from nbgrad.distributed._collectives import all_reduce as all_reduce
from nbgrad.distributed._collectives import all_to_all as all_to_all
from nbgrad.distributed._collectives import all_to_all_single as all_to_all_single
from nbgrad.distributed._collectives import barrier as barrier
from nbgrad.distributed._collectives import batch_isend_irecv as batch_isend_irecv
from nbgrad.distributed._collectives import broadcast as broadcast
from nbgrad.distributed._collectives import gather as gather
from nbgrad.distributed._collectives import irecv as irecv
from nbgrad.distributed._collectives import isend as isend
from nbgrad.distributed._collectives import monitored_barrier as monitored_barrier
from nbgrad.distributed._collectives import recv as recv
from nbgrad.distributed._collectives import reduce as reduce
from nbgrad.distributed._collectives import reduce_scatter as reduce_scatter
from nbgrad.distributed._collectives import reduce_scatter_single as reduce_scatter_single
from nbgrad.distributed._collectives import reduce_scatter_tensor as reduce_scatter_tensor
from nbgrad.distributed._collectives import scatter as scatter
from nbgrad.distributed._collectives import send as send
from nbgrad.distributed._groups import Backend as Backend
from nbgrad.distributed._groups import GroupMember as GroupMember
from nbgrad.distributed._groups import ProcessGroup as ProcessGroup
from nbgrad.distributed._groups import destroy_process_group as destroy_process_group
from nbgrad.distributed._groups import get_backend as get_backend
from nbgrad.distributed._groups import get_global_rank as get_global_rank
from nbgrad.distributed._groups import get_group_rank as get_group_rank
from nbgrad.distributed._groups import get_node_local_rank as get_node_local_rank
from nbgrad.distributed._groups import get_pg_count as get_pg_count
from nbgrad.distributed._groups import get_process_group_ranks as get_process_group_ranks
from nbgrad.distributed._groups import get_rank as get_rank
from nbgrad.distributed._groups import get_world_size as get_world_size
from nbgrad.distributed._groups import group as group
from nbgrad.distributed._groups import init_process_group as init_process_group
from nbgrad.distributed._groups import is_available as is_available
from nbgrad.distributed._groups import is_backend_available as is_backend_available
from nbgrad.distributed._groups import is_gloo_available as is_gloo_available
from nbgrad.distributed._groups import is_initialized as is_initialized
from nbgrad.distributed._groups import is_mpi_available as is_mpi_available
from nbgrad.distributed._groups import is_nccl_available as is_nccl_available
from nbgrad.distributed._groups import is_torchelastic_launched as is_torchelastic_launched
from nbgrad.distributed._groups import is_ucc_available as is_ucc_available
from nbgrad.distributed._groups import is_xccl_available as is_xccl_available
from nbgrad.distributed._groups import new_group as new_group
from nbgrad.distributed._mpi import ReduceOp as ReduceOp
from nbgrad.distributed._mpi import Work as Work
from nbgrad.distributed._objects import all_gather_object as all_gather_object
from nbgrad.distributed._objects import broadcast_object_list as broadcast_object_list
from nbgrad.distributed._objects import gather_object as gather_object
from nbgrad.distributed._objects import recv_object_list as recv_object_list
from nbgrad.distributed._objects import scatter_object_list as scatter_object_list
from nbgrad.distributed._objects import send_object_list as send_object_list
from nbgrad.distributed.device_mesh import DeviceMesh as DeviceMesh
from nbgrad.distributed.device_mesh import init_device_mesh as init_device_mesh

__all__ = [
    "Backend",
    "DeviceMesh",
    "GradBucket",
    "GroupMember",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
]
