"""Sparse tensors: beside PyTorch's, in its printed form, and by what dense ones give."""

import copy
import io
import pickle
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.core import overrides
from tests.support import T

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # PyTorch warns once of what it does not check, and of its old constructors


def _names(torch: ModuleType) -> dict[str, Any]:
    """What the lines below may name."""
    at, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])
    s = torch.sparse_coo_tensor(at, values, (2, 3))
    twice = torch.sparse_coo_tensor(
        torch.tensor([[0, 0, 1], [1, 1, 0]]), torch.tensor([1.0, 2.0, -4.0]), (2, 2)
    )
    return {
        "torch": torch,
        "F": torch.nn.functional,
        "at": at,
        "values": values,
        "s": s,
        "c": s.coalesce(),
        "twice": twice,
        "mixed": torch.sparse_coo_tensor([[0, 2, 0]], torch.arange(12.0).view(3, 4), (3, 4)),
        "cube": torch.stack([s, s * 2]),
        "z": torch.sparse_coo_tensor(at, torch.tensor([1 + 1j, 2 - 3j, 3j]), (2, 3)),
        "leaf": torch.sparse_coo_tensor(at, values, (2, 3), requires_grad=True),
        "made": torch.sparse_coo_tensor(at, values.clone().requires_grad_(), (2, 3)),
        "rows": torch.sparse_csr_tensor(
            torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), torch.tensor([2.0, 3.0, 4.0]), (2, 3)
        ),
        "columns": torch.sparse_csc_tensor([0, 1, 3], [1, 0, 1], torch.tensor([1.0, 2.0, 3.0]), (2, 2)),
        "Q": torch.tensor([[0.0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 0], [1, 0, 4, 5]]),
        "d": torch.arange(6.0).reshape(3, 2),
        "D": torch.arange(6.0).reshape(2, 3) - 2,
    }


ALIKE = """
z.conj()
z.conj_physical()
torch.conj(z).to_dense()
z.mH
z.H
z.T
z.adjoint()
z.real
torch.imag(z)
z.resolve_conj()
torch.sparse.mm(z, z.mH).to_dense()
z.to_sparse_csr().conj()
z.to_sparse_csr().mH.to_dense()
cube.mT
cube.mH
cube.T
cube.movedim(0, 2)
cube.moveaxis((0, 1), (1, 0))
cube.adjoint()
+s
torch.bmm(cube.mT, torch.ones(2, 2, 4))
s
twice
twice.coalesce()
mixed
mixed.coalesce()
leaf
made
made.coalesce()
s.double()
s.int()
s.bool()
twice.bool().coalesce()
s.is_coalesced(), c.is_coalesced(), c.t().is_coalesced(), (c * 2).is_coalesced(), torch.eye(1).to_sparse().is_coalesced()
torch.sparse_coo_tensor(at, values)
torch.sparse_coo_tensor((2, 3))
torch.sparse_coo_tensor(at, values, dtype=torch.float64)
torch.sparse_coo_tensor(at.tolist(), [1, 2, 3], (2, 3))
torch.sparse_coo_tensor(at, values[:1].expand(3), (2, 3), is_coalesced=True)
torch.sparse.FloatTensor(at, values, torch.Size([2, 3]))
torch.sparse.FloatTensor(at, values)
torch.sparse.FloatTensor(2, 3)
isinstance(s, torch.Tensor), isinstance(s, torch.sparse.FloatTensor), isinstance(s.double(), torch.sparse.FloatTensor)
s.type(), s.layout, s.is_sparse, s.shape, s.size(), s.size(1), s.dtype, s.device, s.dim(), s.numel(), len(s), s.is_contiguous()
s.sparse_dim(), s.dense_dim(), mixed.sparse_dim(), mixed.dense_dim(), s._nnz(), twice.coalesce()._nnz()
c.indices(), c.values(), s._indices(), s._values()
leaf.is_leaf, made.is_leaf, leaf.requires_grad, made.requires_grad, s.requires_grad, made.detach().requires_grad, leaf.grad
s.to_dense(), twice.to_dense(), mixed.to_dense(), cube.to_dense()
D.to_sparse()
D.to_sparse(1)
torch.zeros(2, 2).to_sparse()
torch.tensor(3.0).to_sparse()
torch.eye(3).to_sparse().to_dense()
s * 2, 2 * s, s / 2, s * torch.tensor(2.0), -s, s // 2
s + s
twice + twice
c + torch.eye(3)[:2].to_sparse()
torch.add(c, c.clone(), alpha=2)
c - s.double().coalesce()
D + s
D - s
torch.sub(D, s, alpha=2)
D.clone().add_(s)
s * s
(twice * twice).to_dense()
c * torch.eye(3)[1:].to_sparse()
s * D
D * s
s * D[0]
s ** 2
torch.sin(twice)
torch.relu(twice), F.relu(twice), abs(twice), torch.sqrt(s), torch.log1p(c), torch.sign(twice)
torch.mm(s, d), torch.spmm(s, d), torch.sparse.mm(s, d), torch.matmul(s, d), s @ d, s.mm(d)
s @ d[:, 0], torch.mv(s, d[:, 0]), D @ s.t(), d @ s, torch.mm(d, s), torch.sparse.mm(d, s)
twice @ twice.to_dense(), twice.t() @ twice.to_dense(), twice.half().float() @ torch.ones(2, 2)
s @ s.t()
torch.sparse.mm(twice, twice)
c.long() @ torch.ones(3, 2, dtype=torch.int64)
torch.bmm(cube, torch.stack([d, d]))
torch.addmm(torch.ones(2, 2), s, d, beta=2, alpha=3), torch.sparse.addmm(torch.ones(2), s, d)
F.linear(torch.ones(4, 3), s), F.linear(s, D)
s.t()
s.transpose(0, 1), s.T, s.permute(1, 0), cube.permute(2, 0, 1)
s.index_select(0, torch.tensor([1, 0]))
s.index_select(1, torch.tensor([2, 2]))
mixed.index_select(1, torch.tensor([0]))
s[0], s[1, 2], s[:, 0], s[-1], cube[1, 0]
s[..., 0], cube[0, ..., 1], s.unbind(), s.unbind(1), s.any(), (s * 0).any()
s.narrow_copy(1, 0, 2), s.narrow_copy(0, 1, 1), cube.narrow_copy(1, 1, 1), cube.narrow_copy(2, 0, 1)
s.bool()[0].select(0, 0), s.int()[0].select(0, 0), s.to(torch.int8)[0][0]
torch.zeros(3, 0).to_sparse(1), torch.zeros(0, 3).to_sparse(1), torch.zeros(2, 0, 2).to_sparse(2)
list(s)
s.unsqueeze(0), mixed.unsqueeze(-1)
torch.cat([s, s]), torch.cat([s, s], 1), torch.cat([c, c]), torch.stack([s, s]), torch.hstack([s, s])
torch.sparse.sum(s), torch.sparse.sum(s, 0), torch.sparse.sum(s, [0, 1]), torch.sparse.sum(s, dtype=torch.float64)
torch.sparse.sum(mixed, 1), torch.sparse.sum(mixed, 0), torch.sparse.sum(cube, (0, 2))
s.sum(), torch.sum(s, 1, keepdim=True), s.norm(), torch.norm(twice)
torch.sparse.softmax(s, 1), torch.sparse.softmax(s, 0), torch.sparse.softmax(mixed, 1), torch.sparse.softmax(cube, 1)
torch.sparse.log_softmax(s, 1), torch.sparse.log_softmax(mixed, 1), torch.sparse.softmax(s, -1, dtype=torch.float64)
D.sparse_mask(s), D.sparse_mask(c)
torch.zeros_like(s), s.clone(), s.to(torch.float64), s.to("cpu") is s, s.cpu() is s
s.type_as(c.double())
torch.is_tensor(s), torch.is_floating_point(s)
torch.isnan(s)
torch.nn.Parameter(s).requires_grad
rows
torch.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [2.0, 3.0, 4.0])
rows.crow_indices(), rows.col_indices(), rows.values(), rows._nnz(), rows.layout, rows.is_sparse, rows.is_sparse_csr, rows.shape
rows.to_dense(), rows.to_sparse(), rows.to_sparse().is_coalesced(), rows.t().to_dense()
rows @ d, torch.mm(rows, d), torch.sparse.mm(rows, d), rows @ d[:, 0], torch.mv(rows, d[:, 0]), d @ rows, rows.t() @ torch.ones(2, 2)
rows @ rows.t().to_sparse_csr()
rows * 2, rows + rows, rows * rows, -rows, torch.relu(rows), rows.sum(), torch.addmm(torch.ones(2, 2), rows, d)
rows.double(), rows.detach(), rows.clone(), rows.requires_grad_()
D.to_sparse_csr(), s.to_sparse_csr(), twice.to_sparse_csr(), D.to_sparse(layout=torch.sparse_csr).layout
torch.ones(2, 2, 3).to_sparse_csr(dense_dim=1)
mixed.unsqueeze(0).to_dense().to_sparse(2).to_sparse_csr()
twice * twice, twice * torch.eye(2).to_sparse(), torch.eye(2).to_sparse() * twice, torch.sparse_coo_tensor((2, 2)) * twice
torch.smm(s,d)
s.smm(d)
torch.sspaddmm(twice,s,d)
torch.sspaddmm(twice,s,d,beta=2,alpha=3)
twice.sspaddmm(s,d)
torch.hspmm(s,d)
torch.hsmm(s,d)
torch.saddmm(twice,s,d)
torch.sparse.spdiags(torch.arange(9.).reshape(3,3),torch.tensor([0,-1,2]),(3,3))
torch.sparse.spdiags(torch.arange(1.,5.),torch.tensor([1]),(4,4)).to_dense()
torch.sparse.spdiags(torch.arange(9.).reshape(3,3),torch.tensor([0,-1,2]),(3,3),layout=torch.sparse_csr)
torch.sparse.spdiags(torch.arange(10.).reshape(2,5),torch.tensor([-1,3]),(3,6)).to_dense()
torch.sparse.sampled_addmm(rows,D,torch.ones(3,3))
torch.sparse.sampled_addmm(rows,D,torch.ones(3,3),beta=.5,alpha=2)
D.sparse_mask(s)
torch.ones(2,2).sparse_mask(twice)
(s*2).sparse_mask(s)
D.sparse_mask(rows)
d.to_dense()
d.to_dense(torch.float64)
s.clone().sparse_resize_((3,4),2,0)
s.clone().sparse_resize_and_clear_((3,4),1,1)
torch.resize_as_sparse_(torch.sparse_coo_tensor((1,1)),s)
torch.sparse_coo_tensor((1,1)).resize_as_(s)
torch.sparse_coo_tensor((1,1)).resize_as_sparse_(s)
torch.zeros(2,layout=torch.strided)
torch.zeros_like(d,layout=torch.sparse_coo)
torch.zeros_like(d,layout=torch.sparse_csr)
torch.zeros_like(s,layout=torch.strided)
torch.empty_like(s)
torch.zeros_like(rows)
s.new_zeros(2,2)
s.new_empty((2,2))
s.new(2,3)
s.new(torch.tensor([[0],[1]]),torch.tensor([2.]),(2,3))
rows.clone().add_(rows)
D.clone().add_(rows)
D+rows
rows+D
rows*D
rows.sum()
rows.sum(1,keepdim=True)
torch.sum(rows,0,keepdim=True)
rows[0]
rows[0,2]
rows.select(1,0)
rows.t()
rows.t().t()
rows.t().to_dense()
rows.t()@torch.ones(2,2)
rows.col_indices()
(rows.numel(),rows._nnz(),rows.dense_dim(),rows.sparse_dim(),len(rows),rows.is_sparse,rows.is_sparse_csr)
rows.clone()
torch.addmm(torch.ones(2,2),rows,d)
rows@rows.t().to_sparse_csr()
rows@torch.ones(3)
torch.ones(2,2)@rows
torch.relu(rows)
rows.double()
rows.clone().copy_(rows*2)
rows.clone().zero_()
columns.to_dense()
columns.to_sparse()
columns.to_sparse_csr()
Q.to_sparse_csc()
Q.to_sparse().to_sparse_csc()
Q.to_sparse_csr().to_sparse_csc()
columns.t()
Q.to_sparse_csr().t()
columns@torch.ones(2,3)
torch.ones(3,2)@columns
columns@torch.ones(2)
columns+columns
columns*2
2*columns
columns.sin()
torch.relu(columns)
-columns
columns.sum()
abs(columns)
columns.double()
columns.clone()
columns.detach()
columns[0]
columns.select(1,0)
torch.addmm(torch.ones(2,2),columns,torch.ones(2,2))
Q.to_sparse(layout=torch.sparse_csc)
Q.to_sparse(layout=torch.sparse_csr)
torch.sparse_compressed_tensor([0,1,3],[1,0,1],[1.,2.,3.],(2,2),layout=torch.sparse_csc)
torch.sparse_compressed_tensor([0,1,3],[1,0,1],[1.,2.,3.],layout=torch.sparse_csr)
c.clone().mul_(2).is_coalesced(), c.clone().div_(2).is_coalesced(), torch.eye(1).to_sparse().mul_(2).is_coalesced()
c.clone().sin_(), twice.clone().neg_(), c.clone().sqrt_(), c.clone().relu_(), c.clone().div_(2, rounding_mode='floor')
c.clone().t_(), c.clone().transpose_(0, 1), made.clone().detach_(), torch.tensor(c), torch.as_tensor(c) is c, c.is_same_size(D)
torch.tensor(2.0).to_sparse().item()
torch.sparse_coo_tensor([[0, 1, 0]], torch.ones(1, 2).expand(3, 2), (2, 2)) + torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 2), (2, 2))
twice + twice, twice + torch.eye(2).to_sparse(), c + c.coalesce(), twice - twice * 2
(rows * 0.5).floor_(), columns.neg_(), (-rows).relu_(), rows.sqrt_().layout, columns.detach_().is_leaf, (columns * 0.25).frac_()
rows.to_sparse().neg_(), rows, columns.to_sparse().neg_().to_dense(), columns
rows.to_sparse_csc().neg_().values(), rows, columns.to_sparse_csr().neg_().values(), columns
c.to_sparse_csr().neg_().values(), c, s.coalesce().neg_().values(), s
rows.cfloat(), columns.byte().layout, (-rows).signbit(), torch.ones_like(columns), rows.unbind(), columns.arctan().layout
twice.bool() * twice.bool(), (twice.bool() * twice.bool().t()).to_dense()
c.bool().sum(0, keepdim=True), c.char().sum(1), torch.sparse.sum(c.char(), 1), torch.sparse.sum(c.bool(), 1).dtype
(twice * 2).sparse_mask(twice), twice.sparse_mask(twice.coalesce()), twice.to_dense().sparse_mask(twice)
c[None], c[:, None].to_dense(), c[..., None].shape, c[0, None].to_dense(), c.fix()
torch.tensor([1.0, 0, 2]).to_sparse() @ d, D @ torch.tensor([1.0, 0, 2]).to_sparse()
"""

REFUSED = """
s.indices()
twice.values()
torch.sparse_coo_tensor(at, values[:2], (2, 3))
torch.sparse_coo_tensor(at, values, (2, 3, 4))
torch.sparse_coo_tensor(at[0], values, (2, 3))
torch.sparse_coo_tensor(at[0], values)
torch.sparse_coo_tensor(at - 1, values)
torch.sparse_coo_tensor(at, torch.ones(3, 2), (2, 3, 4))
torch.sparse_coo_tensor(at, values, (2, 2), check_invariants=True)
torch.sparse_coo_tensor(at - 1, values, (2, 3), check_invariants=True)
torch.sparse_coo_tensor(at[:, :1].expand(2, 3), values, (2, 3), is_coalesced=True, check_invariants=True)
torch.mm(s, D)
s @ D
s @ s
torch.sparse.mm(s, d.double())
torch.mm(s, d[:, 0])
torch.mv(s, D[:, 0])
s + 1
s + D
s - D
s / D
D / s
s + s.t()
D + s.t()
s * s.t()
torch.cat([s, D])
torch.cat([s, s.t()])
d.index_select(0, s.long())
s.index_select(0, s.long())
torch.stack([s, D])
torch.hstack([s, D])
cube.t()
mixed.transpose(0, 1)
s.numpy()
s.reshape(6)
D.to_sparse(3)
D.to_sparse(0)
D.coalesce()
D.is_coalesced()
D.indices()
D.values()
torch.sparse.sum(D)
torch.sparse.softmax(s, 2)
torch.sparse.sum(s, 3)
s[5]
s.narrow_copy(-1, 0, 1)
s.narrow_copy(1, 1, 9)
s.index_select(0, torch.tensor([5]))
leaf.mul_(2)
rows.indices()
rows.coalesce()
s.crow_indices()
D.crow_indices()
torch.sparse.sum(rows)
torch.sparse_csr_tensor([0, 1, 3], [1, 0], [2.0, 3.0, 4.0], (2, 3), check_invariants=True)
torch.smm(d,s)
torch.smm(s,D)
torch.hspmm(d,s)
torch.hspmm(s,D)
torch.sspaddmm(twice,s,s)
torch.sspaddmm(s,s,d)
s.clone().sparse_resize_((1, 1), 2, 0)
s.clone().sparse_resize_((3, 4), 1, 1)
s.clone().resize_as_(twice)
torch.sparse.spdiags(torch.ones(2,3),torch.tensor([0]),(3,3))
torch.sparse.spdiags(torch.ones(2,3),torch.tensor([0,0]),(3,3))
torch.sparse.spdiags(torch.ones(2,3),torch.tensor([0,1]),(3,))
torch.sparse.spdiags(torch.ones(2,3),torch.tensor([0.,1.]),(3,3))
torch.sparse.sampled_addmm(rows,D,torch.ones(2,3))
torch.sparse.sampled_addmm(rows,torch.ones(3,3),torch.ones(3,3))
d.sparse_mask(s)
s.to_dense(torch.float64)
s.clone().sparse_resize_((3,4),2,1)
s.clone().sparse_resize_and_clear_((3,4),1,2)
torch.ones(2,3,layout=torch.sparse_coo)
torch.full((2,3),1.,layout=torch.sparse_coo)
rows.row_indices()
rows.ccol_indices()
s.ccol_indices()
d.ccol_indices()
columns.crow_indices()
torch.sparse_compressed_tensor([0,1,3],[1,0,1],[1.,2.,3.],layout=torch.sparse_coo)
torch.sparse_compressed_tensor([0,1,3],[1,0,1],[1.,2.,3.])
torch.sparse_csc_tensor([0,1,4],[1,0,1],[1.,2.,3.],(2,2), check_invariants=True)
torch.sparse_csr_tensor([0,1,4],[1,0,1],[1.,2.,3.],(2,2), check_invariants=True)
torch.sparse_csr_tensor([1,1,3],[1,0,1],[1.,2.,3.],(2,2), check_invariants=True)
torch.sparse_csr_tensor([0,1,3],[1,1,0],[1.,2.,3.],(2,2), check_invariants=True)
torch.sparse_csr_tensor([0,1,3],[1,0,2],[1.,2.,3.],(2,2), check_invariants=True)
torch.sparse_csr_tensor([0,1,3],[1,0],[1.,2.,3.],(2,2), check_invariants=True)
torch.sparse_csr_tensor([0,1,3],[1,0,1],[1.,2.,3.],(3,2), check_invariants=True)
torch.sparse_csr_tensor([0,3,1],[1,0,1],[1.,2.,3.],(2,2), check_invariants=True)
twice.clone().sin_()
twice.clone().arcsin_()
leaf.coalesce().detach().requires_grad_().sin_()
leaf.coalesce().detach().requires_grad_().mul_(2)
"""

# Where PyTorch has the name of an operator, that of a function is said here.
WITHOUT_A_FORM = """
torch.exp(s)
torch.sigmoid(s)
s.view(6)
s.triu()
torch.trace(s)
torch.nonzero(s)
torch.equal(c, c)
torch.dot(s, s)
s.resize_(2, 3)
torch.sparse.sampled_addmm(s,D,torch.ones(3,3))
d.sparse_mask(d)
d.sparse_resize_((3,4),2,0)
d.sparse_resize_and_clear_((3,4),1,1)
torch.rand(2,layout=torch.sparse_coo)
torch.eye(2,layout=torch.sparse_coo)
torch.arange(2,layout=torch.sparse_coo)
rows.view(3,2)
torch.equal(rows,rows)
"""


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("line", _lines(ALIKE))
def test_is_as_in_pytorch(line: str, torch: ModuleType) -> None:
    ours, theirs = (repr(eval(line, _names(module))) for module in (T, torch))
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.parametrize("line", _lines(REFUSED))
def test_is_refused_in_pytorchs_words(line: str, torch: ModuleType) -> None:
    said = []
    for module in (torch, T):
        with pytest.raises(Exception) as told:
            eval(line, _names(module))
        said.append((type(told.value), str(told.value).splitlines()[0]))
    assert said[1] == said[0]


@pytest.mark.oracle
@pytest.mark.parametrize("line", _lines(WITHOUT_A_FORM))
def test_what_has_no_form_is_refused_by_name(line: str, torch: ModuleType) -> None:
    said = []
    for module in (torch, T):
        with pytest.raises(NotImplementedError) as told:
            eval(line, _names(module))
        said.append(str(told.value)[:70].split(" with ")[0])
    assert said[1] == said[0]


LOSSES = """
torch.sparse.mm(s, d).pow(2).sum()
torch.sparse.mm(s.t(), e).pow(2).sum()
torch.sparse.sum(torch.sparse.softmax(s, 1) * 3)
(torch.sparse.softmax(s, 0).to_dense() * D).sum()
(torch.sparse.log_softmax(s, 1).to_dense() * D).sum()
(s.to_dense() * D).sum()
torch.sparse.sum(s * 2, 0).to_dense().pow(3).sum()
(s.coalesce().values() ** 3).sum()
(s * s).to_dense().sum()
(D + s).pow(2).sum()
torch.sparse.mm(s, s.t()).to_dense().pow(2).sum()
"""


@pytest.mark.oracle
@pytest.mark.parametrize("twice", [False, True], ids=["apart", "named twice"])
@pytest.mark.parametrize("line", _lines(LOSSES))
def test_gradients_of_values_and_of_dense_operands(line: str, twice: bool, torch: ModuleType) -> None:
    found = []
    for module in (T, torch):
        at = module.tensor([[0, 1, 1, 1 if twice else 0], [2, 0, 2, 2 if twice else 1]])
        values = module.tensor([3.0, 4.0, 5.0, -1.5], dtype=module.float64, requires_grad=True)
        d = (module.arange(6.0, dtype=module.float64) / 3).reshape(3, 2).requires_grad_()
        names = _names(module) | {
            "s": module.sparse_coo_tensor(at, values, (2, 3)),
            "d": d,
            "e": d.t()[:, :2].t(),
            "D": module.arange(6.0, dtype=module.float64).reshape(2, 3),
        }
        loss = eval(line, names)
        loss.backward()
        found.append([loss.item(), values.grad.tolist(), None if d.grad is None else d.grad.tolist()])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(np.array(ours, float), np.array(theirs, float), rtol=1e-12, atol=1e-12)


@pytest.mark.oracle
def test_a_graph_network_learns_as_in_pytorch(torch: ModuleType) -> None:
    """Two layers of graph convolution on a small graph, with an adjacency made as older programs make it."""
    told = []
    for module in (T, torch):
        rng = np.random.default_rng(0)
        n = 12
        pairs = np.unique(np.concatenate([rng.integers(0, n, (2, 30)), [range(n), range(n)]], 1), axis=1)
        degree = np.bincount(pairs[0], minlength=n).astype(np.float32)
        weights = 1 / np.sqrt(degree[pairs[0]] * degree[pairs[1]])
        at, values = module.from_numpy(pairs), module.from_numpy(weights.astype(np.float32))
        adj = module.sparse_coo_tensor(at, values, module.Size([n, n]))
        module.manual_seed(0)
        first, second = module.nn.Linear(5, 8), module.nn.Linear(8, 3)
        x = module.from_numpy(rng.standard_normal((n, 5)).astype(np.float32))
        wanted = module.from_numpy(rng.integers(0, 3, n))
        adam = module.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
        losses = []
        for _ in range(20):
            adam.zero_grad()
            hidden = module.relu(module.spmm(adj, first(x)))
            loss = module.nn.functional.cross_entropy(adj @ second(hidden), wanted)
            loss.backward()
            adam.step()
            losses.append(loss.item())
        told.append(losses)
    assert told[0][-1] < 0.8 * told[0][0]
    np.testing.assert_allclose(told[0], told[1], rtol=2e-5)


def _drawn(rows: int, columns: int, count: int, seed: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """A sparse matrix that names some places more than once, and the dense array of it."""
    rng = np.random.default_rng(seed)
    at, values = (
        np.stack([rng.integers(0, rows, count), rng.integers(0, columns, count)]),
        rng.standard_normal(count),
    )
    array = np.zeros((rows, columns))
    np.add.at(array, tuple(at), values)
    return T.sparse_coo_tensor(T.from_numpy(at), T.from_numpy(values), (rows, columns)), array


@pytest.mark.parametrize("size", [(7, 5, 0), (7, 5, 11), (300, 400, 9000), (1, 900, 50), (900, 1, 50)])
def test_products_are_those_of_the_dense_matrix(size: tuple[int, int, int]) -> None:
    s, array = _drawn(*size, 1)
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((size[1], 33)), rng.standard_normal((33, size[0]))
    for given in (s, s.coalesce()):
        np.testing.assert_allclose(given.to_dense().numpy(), array, atol=1e-12)
        np.testing.assert_allclose((given @ T.from_numpy(x)).numpy(), array @ x, atol=1e-10)
        np.testing.assert_allclose((given.t() @ T.from_numpy(y.T)).numpy(), array.T @ y.T, atol=1e-10)
        np.testing.assert_allclose((T.from_numpy(y) @ given).numpy(), y @ array, atol=1e-10)
        np.testing.assert_allclose((given @ given.t()).to_dense().numpy(), array @ array.T, atol=1e-10)
    assert s.coalesce()._nnz() == np.count_nonzero(array)


def test_gradients_of_every_order() -> None:
    at = T.tensor([[0, 2, 1, 2, 0], [1, 0, 3, 1, 1]])
    values = T.tensor([0.5, -1.0, 2.0, 0.3, 0.7], dtype=T.float64, requires_grad=True)
    x = (T.arange(8.0, dtype=T.float64).reshape(4, 2) / 5 - 0.6).requires_grad_()

    def product(values: Any, x: Any) -> Any:
        return T.sparse.mm(T.sparse_coo_tensor(at, values, (3, 4)), x).sin()

    def squared(values: Any, x: Any) -> Any:
        s = T.sparse_coo_tensor(at, values, (3, 4))
        return T.sparse.mm(T.sparse.mm(s, s.t()), x[:3]) + (s.sin() * x.new_ones(4)).to_dense()[:, :2]

    def parts(values: Any, x: Any) -> Any:  # of which PyTorch has no gradient
        s = T.sparse_coo_tensor(at, values, (3, 4))
        more = T.cat([s, s[2].unsqueeze(0), s.index_select(0, T.tensor([1, 0, 1]))])
        return T.sparse.mm(more, x), (s * s + s.norm() * s).to_dense()

    for function in (product, squared, parts):
        assert T.autograd.gradcheck(function, (values, x), check_forward_ad=True)
        assert T.autograd.gradgradcheck(function, (values, x))


def test_a_leaf_gets_a_sparse_gradient() -> None:
    s = T.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)
    x = T.arange(6.0).reshape(3, 2)
    T.sparse.mm(s, x).sum().backward()
    assert s.grad.is_sparse and s.grad._values().tolist() == [9.0, 1.0, 9.0]
    assert s.grad.shape == s.shape and s.grad._indices().tolist() == s._indices().tolist()
    (s @ x).sum().backward()  # adds up
    assert s.grad._values().tolist() == [18.0, 2.0, 18.0]
    (got,) = T.autograd.grad((s @ x).pow(2).sum(), s)
    assert got.is_sparse and got._values().tolist() == [246.0, 58.0, 450.0]
    s.grad = None
    seen = []
    s.register_hook(lambda g: seen.append(g) or g * 10)
    (s @ x).sum().backward()
    assert seen[0].is_sparse and s.grad._values().tolist() == [90.0, 10.0, 90.0]
    (s * 2).backward(s.detach())
    assert s.grad._values().tolist() == [150.0, 90.0, 190.0]


def test_a_leaf_by_rows_gets_a_gradient_by_rows() -> None:
    rows = T.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]]).to_sparse_csr().requires_grad_()
    x = T.arange(6.0).reshape(3, 2)
    T.sparse.mm(rows, x).sum().backward()
    assert rows.grad.layout is T.sparse_csr and rows.grad.values().tolist() == [5.0, 1.0, 9.0]
    values = rows.detach().values().requires_grad_()
    (T.sparse_csr_tensor(rows.crow_indices(), rows.col_indices(), values, (2, 3)) @ x).sum().backward()
    assert values.grad.tolist() == [5.0, 1.0, 9.0]
    by_index = rows.detach().to_sparse().requires_grad_()
    loss = (T.sparse.mm(rows, x) * T.sparse.mm(by_index, x)).sum()
    one, two = T.autograd.grad(loss, [rows, by_index])
    assert (one.layout, two.layout) == (
        T.sparse_csr,
        T.sparse_coo,
    ) and one.values().tolist() == two.values().tolist()
    other = copy.deepcopy(rows)
    other.data.mul_(2)
    assert other.requires_grad and other.values().tolist() == [4.0, 6.0, 8.0]
    with T.no_grad():
        rows.copy_(other)
    assert rows.to_dense().tolist() == [[0.0, 4.0, 0.0], [6.0, 0.0, 8.0]]
    again = pickle.loads(pickle.dumps(rows.detach()))
    assert repr(again) == repr(rows.detach())
    with pytest.raises(NotImplementedError, match="SparseCsrCPU"):
        rows.exp()
    with pytest.raises(NotImplementedError, match="SparseCsrCPU"):
        rows.index_select(0, T.tensor([1]))


@pytest.mark.parametrize("first", [[0, 1, 4], [1, 1, 3], [0, 4, 3], [0, 3]])
def test_rows_that_reach_past_the_entries_are_refused(first: list[int]) -> None:
    with pytest.raises(RuntimeError, match="crow_indices"):
        T.sparse_csr_tensor(first, [1, 0, 2], [2.0, 3.0, 4.0], (2, 3))


def test_a_place_named_twice_has_its_gradient_once() -> None:
    s = T.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 2), requires_grad=True)
    (s.to_dense() * T.tensor([[1.0, 5.0], [7.0, 1.0]])).sum().backward()
    assert s.grad.to_dense().tolist() == [[0.0, 5.0], [7.0, 0.0]]


def test_nothing_beside_the_memory_is_read() -> None:
    for at, words in (
        ([[0], [3]], "size is inconsistent with indices: for dim 1, size is 3 but found index 3"),
        (
            [[-1], [0]],
            "found negative index -1 for dim 0",
        ),
    ):
        with pytest.raises(RuntimeError, match=words):
            T.sparse_coo_tensor(at, [1.0], (2, 3))


def test_copies() -> None:
    s = T.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), requires_grad=True)
    for other in (copy.deepcopy(s), s.detach().clone()):
        other._values().mul_(2)
        assert s._values().tolist() == [3.0, 4.0] and other._values().tolist() == [6.0, 8.0]
    assert copy.deepcopy(s).requires_grad


@pytest.mark.parametrize(
    "way",
    [
        lambda s: s.t(),
        lambda s: s.mT,
        lambda s: s.transpose(0, 0),
        lambda s: s.permute(1, 0),
        lambda s: s.unsqueeze(0),
        lambda s: s.to_sparse_csc().to_sparse(),
    ],
)
def test_what_is_turned_is_no_view(way: Any) -> None:
    """To require a gradient of one, or to write it, leaves the other as it is."""
    s = T.eye(2).to_sparse()
    way(s).requires_grad_()
    assert not s.requires_grad
    way(s).neg_()
    assert T.equal(s.to_dense(), T.eye(2))
    assert not s.to_sparse_csr().requires_grad_().T.is_leaf and not s.requires_grad


def test_pickles_and_files() -> None:
    s = T.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    file = io.BytesIO()
    T.save({"s": s, "c": s.coalesce()}, file)
    file.seek(0)
    read = T.load(file)
    assert repr(read["s"]) == repr(s) == repr(pickle.loads(pickle.dumps(s)))
    assert read["c"].is_coalesced() and not read["s"].is_coalesced()


@pytest.mark.oracle
def test_files_go_both_ways(torch: ModuleType) -> None:
    for writer, reader in ((T, torch), (torch, T)):
        file = io.BytesIO()
        s = writer.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).coalesce()
        writer.save([s], file)
        file.seek(0)
        (read,) = reader.load(file)
        assert repr(read) == repr(s) and read.is_coalesced()


def test_a_module_keeps_one_as_a_buffer() -> None:
    """As graph networks keep what is next to what."""

    class Layer(T.nn.Module):
        def __init__(self, adj: Any) -> None:
            super().__init__()
            self.register_buffer("adj", adj)
            self.linear = T.nn.Linear(2, 3)

        def forward(self, x: Any) -> Any:
            return self.adj @ self.linear(x)

    layer = Layer(T.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()).double()
    other = copy.deepcopy(layer)
    other.adj.mul_(2)
    layer.load_state_dict(other.state_dict())
    assert layer.adj.dtype is T.float64 and layer.adj.to_dense().tolist() == [[0.0, 4.0], [6.0, 0.0]]
    x = T.ones(2, 2, dtype=T.float64)
    assert T.equal(layer(x), layer.adj.to_dense() @ layer.linear(x))


def test_transforms() -> None:
    s, x = T.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(), T.arange(12.0).reshape(3, 2, 2)
    assert T.equal(T.vmap(lambda one: s @ one)(x), s.to_dense() @ x)
    assert T.func.grad(lambda one: T.sparse.mm(s, one).sum())(x[0]).tolist() == [[3.0, 3.0], [2.0, 2.0]]


class _Spmm(T.autograd.Function):  # type: ignore[misc, name-defined]
    """The product as graph attention networks have written it, sparse tensors being kept for backward."""

    @staticmethod
    def forward(ctx: Any, at: Any, values: Any, shape: Any, x: Any) -> Any:
        s = T.sparse_coo_tensor(at, values, shape)
        ctx.save_for_backward(s, x)
        return T.matmul(s, x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        s, x = ctx.saved_tensors
        at = s._indices()
        return None, g.matmul(x.t())[at[0], at[1]], None, s.t().matmul(g)


def test_in_a_function_of_ones_own() -> None:
    at, values = T.tensor([[0, 1, 1], [1, 0, 1]]), T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x, weights = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), T.tensor([[1.0, 5.0], [2.0, 7.0]])
    for f in (
        lambda: _Spmm.apply(at, values, (2, 2), x),
        lambda: T.sparse_coo_tensor(at, values, (2, 2)) @ x,
    ):
        got = T.autograd.grad((f() * weights).sum(), [values, x])
        assert [g.tolist() for g in got] == [[23.0, 16.0, 34.0], [[4.0, 14.0], [7.0, 26.0]]]


def test_writes() -> None:
    s = T.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    kept = s
    s *= 2
    s += s
    assert s is kept and s.to_dense().tolist() == [[0.0, 0.0, 12.0], [16.0, 0.0, 0.0]]
    s.requires_grad_()
    with T.no_grad():
        s.copy_(s.detach() + T.eye(2, 3).to_sparse())
    assert s.requires_grad and s.to_dense().tolist() == [[1.0, 0.0, 12.0], [16.0, 1.0, 0.0]]
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ):
        s += s.detach()
    s = s.detach()
    s.div_(4).zero_()
    assert s._nnz() == 0 and not s.to_dense().any()


def test_other_layouts_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="sparse_bsr"):
        T.ones(2, 2).to_sparse_bsr((1, 1))
    with pytest.raises(NotImplementedError, match="where that has entries alone"):
        T.eye(2).to_sparse().requires_grad_().to_dense(masked_grad=False)


def test_a_leaf_by_columns_gets_a_gradient_by_columns() -> None:
    leaf = T.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2), requires_grad=True)
    (leaf.t() @ T.tensor([[1.0], [10.0]])).pow(2).sum().backward()
    assert leaf.grad.layout is T.sparse_csc
    assert leaf.grad.to_dense().tolist() == [[0.0, 64.0], [200.0, 640.0]]


def test_gradients_pass_from_one_layout_to_another() -> None:
    x = T.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 4.0]], requires_grad=True)
    made = x.to_sparse_csr().to_sparse_csc().t().to_sparse().coalesce()
    assert made.values().tolist() == [3.0, 2.0, 1.0, 4.0]
    (made.values() * T.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 3.0], [1.0, 0.0, 4.0]]


@pytest.mark.oracle
def test_files_of_compressed_ones_go_both_ways(torch: ModuleType) -> None:
    for writer, reader in ((T, torch), (torch, T)):
        for name in ("to_sparse_csr", "to_sparse_csc"):
            file = io.BytesIO()
            s = getattr(writer.tensor([[0.0, 2.0], [3.0, 4.0]]), name)()
            writer.save([s], file)
            file.seek(0)
            assert repr(reader.load(file)) == repr([s])


def test_no_function_looks_at_its_arguments_for_them() -> None:
    before = overrides.armed.on, T.cat.__code__, T.Tensor.add.__code__  # other tests may have armed them
    s, x = T.eye(2).to_sparse(), T.ones(2, 2)
    assert _all_sparse(T.add(s, s), T.cat([s, s]), T.mul(x, s), x * s)
    assert before == (overrides.armed.on, T.cat.__code__, T.Tensor.add.__code__)
    with pytest.raises(NotImplementedError, match="aten::std"):
        T.std(s)


def _all_sparse(*found: Any) -> bool:
    return all([one.is_sparse for one in found])


def test_a_dense_tensor_times_a_sparse_one_in_place() -> None:
    x = T.full((2, 2), 3.0)
    x *= T.eye(2).to_sparse()
    assert x.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar"):
        x /= T.eye(2).to_sparse()


NAN = float("nan")


@pytest.mark.parametrize(
    ("reduce", "found", "values", "dense"),  # as PyTorch's: the first of equals has the gradient
    [
        (
            "mean",
            [[1, 2, -2 / 3], [0, 0, 0], [2.5 / 3, 17 / 3, NAN]],
            [5 / 3, 2.5 / 3, -0.5 / 3, 5 / 3, 2.5 / 3, NAN],
            [[4 / 3, 8 / 3, 1], [1 / 3, 2 / 3, 2], [4 / 3, 8 / 3, 0], [2 / 3, 4 / 3, 2]],
        ),
        (
            "amax",
            [[1, 2, 0], [0, 0, 0], [3, 12, NAN]],
            [5, 0, 0, 1, 0, NAN],
            [[4, 2, 3], [0, 0, 0], [0, 8, 0], [0, 0, 0]],
        ),
        (
            "min",
            [[1, 2, -2], [0, 0, 0], [-0.5, -1, NAN]],
            [5, 0, -3, 0, 2.5, NAN],
            [[1, 2, 0], [-1, -2, 0], [0, 0, 0], [0, 0, 6]],
        ),
    ],
)
def test_products_that_are_no_sums(reduce: str, found: Any, values: Any, dense: Any) -> None:
    rows = T.tensor([[1.0, 2, 0, 2], [0, 0, 0, 0], [3, -1, 4, 0]], dtype=T.float64).to_sparse_csr()
    x = T.tensor([[1.0, 2, 0], [0.5, 1, 0], [0, 3, NAN], [0.5, 1, -1]], dtype=T.float64, requires_grad=True)
    rows.requires_grad_()
    y = T.sparse.mm(rows, x, reduce)
    a, b = T.autograd.grad((y * T.tensor([1.0, 2, 3])).nan_to_num().sum(), (rows, x))
    assert T.allclose(y, T.tensor(found, dtype=T.float64), equal_nan=True)
    assert T.allclose(a.values(), T.tensor(values, dtype=T.float64), equal_nan=True)
    assert T.allclose(b, T.tensor(dense, dtype=T.float64))
    assert T.equal(T.sparse.mm(rows, x[:, :2], "sum"), rows.detach() @ x[:, :2])
    assert not T.sparse.mm(T.zeros(2, 3).to_sparse_csr(), T.ones(3, 2), reduce).any()


@pytest.mark.parametrize(
    ("kind", "reduce", "says"),
    [
        ("to_sparse_csr", "prod", "sparse_mm_reduce: reduce type of prod has not been enabled."),
        ("to_sparse_csr", "most", "reduce argument must be either sum, prod, mean, amax or amin, got most"),
        ("to_sparse_csc", "mean", "sparse_mm_reduce: expect self to be SparseCsr, got SparseCsc"),
        (
            "to_sparse_coo",
            "mean",
            "Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the 'SparseCPU' backend",
        ),
    ],
)
def test_products_that_are_refused(kind: str, reduce: str, says: str) -> None:
    with pytest.raises((RuntimeError, NotImplementedError), match=re.escape(says)):
        T.sparse.mm(getattr(T.eye(2), kind)(), T.ones(2, 2), reduce)
