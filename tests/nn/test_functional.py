"""Losses and activations: literals and identities here, every option against torch where it is installed."""

import itertools
import math
import warnings
from collections.abc import Callable
from inspect import signature
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array, assert_same, outcome
from tests.support import T

F = T.nn.functional
REDUCTIONS = ("mean", "sum", "none")
RNG = np.random.default_rng(0)

Loss = Callable[[ModuleType, list[Any]], Any]
CASES: dict[str, tuple[Loss, list[np.ndarray]]] = {}


def case(name: str, fn: Loss, *arrays: np.ndarray) -> None:
    CASES[name] = (fn, list(arrays))


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


for red in REDUCTIONS:
    case(f"mse {red}", lambda f, t, r=red: f.mse_loss(*t, reduction=r), normal(3, 4), normal(3, 4))
    case(f"l1 {red}", lambda f, t, r=red: f.l1_loss(*t, reduction=r), normal(3, 4), normal(3, 4))
    case(
        f"mse weighted {red}",
        lambda f, t, r=red: f.mse_loss(t[0], t[1], reduction=r, weight=t[2]),
        *(normal(3, 4), normal(3, 4), RNG.random((3, 4))),
    )
    case(
        f"bce {red}",
        lambda f, t, r=red: f.binary_cross_entropy_with_logits(*t, reduction=r),
        *(normal(3, 4), RNG.random((3, 4))),
    )
    case(
        f"bce weighted {red}",
        lambda f, t, r=red: f.binary_cross_entropy_with_logits(t[0], t[1], t[2].detach(), reduction=r),
        *(normal(3, 4), RNG.random((3, 4)), RNG.random((3, 4))),
    )
    case(
        f"bce pos_weight {red}",
        lambda f, t, r=red: f.binary_cross_entropy_with_logits(
            t[0], t[1], pos_weight=t[2].detach(), reduction=r
        ),
        *(normal(3, 4), RNG.random((3, 4)), RNG.random(4)),
    )
    for smoothing, weighted in itertools.product((0.0, 0.3), (False, True)):
        options = {"reduction": red, "label_smoothing": smoothing}
        case(
            f"cross_entropy of probabilities {red} {smoothing} {weighted}",
            lambda f, t, o=options, w=weighted: f.cross_entropy(
                t[0], t[1], t[2].detach() if w else None, **o
            ),
            *(normal(5, 4), RNG.random((5, 4)), RNG.random(4)),
        )
        for ignored, shape in itertools.product((-100, 1), ((5, 4), (4,), (3, 4, 2), (2, 4, 2, 3), (0, 4))):
            classes = RNG.integers(0, 4, shape[:1] + shape[2:] if len(shape) > 1 else ())
            case(
                f"cross_entropy {red} {smoothing} {weighted} {ignored} {shape}",
                lambda f, t, o=options, w=weighted, i=ignored: f.cross_entropy(
                    t[0], t[1], t[2].detach() if w else None, ignore_index=i, **o
                ),
                *(normal(*shape), classes, RNG.random(4)),
            )
for red in REDUCTIONS:
    X, Y, Z = normal(3, 4), RNG.random((3, 4)), RNG.random((3, 4)) + 0.1
    signs = np.where(RNG.random((3, 4)) < 0.5, -1, 1)
    for number in (1.0, 0.3):
        case(
            f"smooth_l1 {red} {number}",
            lambda f, t, r=red, n=number: f.smooth_l1_loss(*t, reduction=r, beta=n),
            *(X, Y),
        )
        case(
            f"huber {red} {number}",
            lambda f, t, r=red, n=number: f.huber_loss(*t, reduction=r, delta=n),
            *(X, Y),
        )
    case(f"smooth_l1 {red} 0", lambda f, t, r=red: f.smooth_l1_loss(*t, reduction=r, beta=0), X, Y)
    case(f"huber weighted {red}", lambda f, t, r=red: f.huber_loss(*t[:2], r, 0.5, t[2].detach()), X, Y, Z)
    case(f"kl_div {red}", lambda f, t, r=red: f.kl_div(*t, reduction=r), X, Y)
    case(f"kl_div of logs {red}", lambda f, t, r=red: f.kl_div(*t, reduction=r, log_target=True), X, Y)
    case(f"gaussian_nll {red}", lambda f, t, r=red: f.gaussian_nll_loss(*t, full=True, reduction=r), X, Y, Z)
    case(f"gaussian_nll rows {red}", lambda f, t, r=red: f.gaussian_nll_loss(*t, reduction=r), X, Y, Z[:, 0])
    case(f"gaussian_nll number {red}", lambda f, t, r=red: f.gaussian_nll_loss(*t, 0.5, reduction=r), X, Y)
    case(
        f"poisson_nll {red}",
        lambda f, t, r=red: f.poisson_nll_loss(t[0], t[1].detach() * 3, full=True, reduction=r),
        *(X, Y),
    )
    case(f"poisson_nll rates {red}", lambda f, t, r=red: f.poisson_nll_loss(*t, False, reduction=r), Z, Y)
    case(f"soft_margin {red}", lambda f, t, r=red: f.soft_margin_loss(*t, reduction=r), X, signs)
    case(f"hinge {red}", lambda f, t, r=red: f.hinge_embedding_loss(*t, reduction=r), X, signs)
    case(f"ranking {red}", lambda f, t, r=red: f.margin_ranking_loss(*t, 0.2, reduction=r), X, Y, signs)
    case(
        f"binary {red}",
        lambda f, t, r=red: f.binary_cross_entropy(t[0].sigmoid(), t[1].detach(), reduction=r),
        *(X, Y),
    )
    case(
        f"binary weighted {red}",
        lambda f, t, r=red: f.binary_cross_entropy(t[0].sigmoid(), t[1].detach(), t[2].detach(), reduction=r),
        *(X, Y, Z),
    )
case("kl_div by batch", lambda f, t: f.kl_div(*t, reduction="batchmean"), X, Y)
SIGNS, LABELS = np.array([1, -1, 1]), np.array([[1, 2, -1, 0], [0, -1, 3, -1], [3, 3, 1, 0]])
for red in REDUCTIONS:
    case(
        f"cosine embedding {red}",
        lambda f, t, r=red: f.cosine_embedding_loss(*t, margin=0.2, reduction=r),
        *(X, Y, SIGNS),
    )
    case(f"triplets {red}", lambda f, t, r=red: f.triplet_margin_loss(*t, swap=True, reduction=r), X, Y, Z)
    case(
        f"soft margins {red}", lambda f, t, r=red: f.multilabel_soft_margin_loss(*t, reduction=r), X, Y, Z[0]
    )
    for p in (1, 2):
        case(
            f"class margins {p} {red}",
            lambda f, t, r=red, p=p: f.multi_margin_loss(t[0], t[1], p, 0.7, t[2].detach(), reduction=r),
            *(X, np.array([0, 3, 1]), Z[0]),
        )
    case(f"label margins {red}", lambda f, t, r=red: f.multilabel_margin_loss(*t, reduction=r), X, LABELS)
case("class margins of one", lambda f, t: f.multi_margin_loss(*t, reduction="none"), X[0], np.array(3))
case("label margins of one", lambda f, t: f.multilabel_margin_loss(*t, reduction="none"), X[0], LABELS[0])
case("triplets by a function", lambda f, t: f.triplet_margin_with_distance_loss(*t, margin=2.0), X, Y, Z)
case("cosine_similarity", lambda f, t: f.cosine_similarity(*t, 0), X, Y)
case("cosine_similarity of nothing", lambda f, t: f.cosine_similarity(t[0] * 0, t[1]), X, Y)
case("pairwise_distance", lambda f, t: f.pairwise_distance(*t, 3.0, keepdim=True), X, Y)
case("normalize", lambda f, t: f.normalize(*t, 3.0, 0), X)
GROUPS = normal(2, 6, 3)
case("group_norm", lambda f, t: f.group_norm(t[0], 3, t[1], t[2]), GROUPS, normal(6), normal(6))
case("group_norm plain", lambda f, t: f.group_norm(t[0], 2), GROUPS)
case("group_norm of vectors", lambda f, t: f.group_norm(t[0], 2, t[1]), normal(3, 4), normal(4))
case(
    "instance_norm", lambda f, t: f.instance_norm(t[0], None, None, t[1], t[2]), GROUPS, normal(6), normal(6)
)
case(
    "instance_norm, fixed",
    lambda f, t: f.instance_norm(t[0], t[1].detach(), t[2].detach() ** 2, use_input_stats=False),
    *(GROUPS, normal(6), normal(6)),
)
TABLE, ROWS = normal(5, 3), np.array([[0, 2, 2], [4, 2, 0]])
case("embedding", lambda f, t: f.embedding(t[1], t[0]), TABLE, ROWS)
case("embedding by int32", lambda f, t: f.embedding(t[1], t[0]), TABLE, ROWS.astype(np.int32))
case("embedding padded", lambda f, t: f.embedding(t[1], t[0], padding_idx=2), TABLE, ROWS)
case("embedding padded from the end", lambda f, t: f.embedding(t[1], t[0], -1), TABLE, ROWS)
case("embedding of long rows", lambda f, t: f.embedding(t[1], t[0]), normal(5, 150), ROWS)
case("embedding of one", lambda f, t: f.embedding(t[1], t[0]), TABLE, np.array(3))
case("bilinear", lambda f, t: f.bilinear(*t), normal(2, 6, 3), normal(2, 6, 4), normal(5, 3, 4), normal(5))
case("bilinear plain", lambda f, t: f.bilinear(*t), normal(6, 3), normal(6, 4), normal(5, 3, 4))
case("softmin", lambda f, t: f.softmin(*t, 0), normal(3, 4))
case("nll all ignored", lambda f, t: f.nll_loss(*t, ignore_index=1), normal(3, 4), np.ones(3, np.int64))
case("softmax", lambda f, t: f.softmax(*t, 0), normal(3, 4))
case("log_softmax", lambda f, t: f.log_softmax(*t, -1), normal(3, 4))
case("relu in place", lambda f, t: f.relu(t[0] * 1, inplace=True), normal(3, 4))
case("silu in place", lambda f, t: f.silu(t[0] * 1, inplace=True), normal(3, 4))


def tensors(module: ModuleType, arrays: list[np.ndarray]) -> list[Any]:
    return [module.tensor(a, requires_grad=True) if a.dtype.kind == "f" else module.tensor(a) for a in arrays]


def second_order(module: ModuleType, name: str) -> list[Any]:
    """Value, gradients, gradients of a combination of them; zeros for what does not depend."""
    fn, arrays = CASES[name]
    given = tensors(module, arrays)
    inputs = [t for t in given if t.requires_grad]
    out = fn(module.nn.functional, given)
    grads = module.autograd.grad(out.sum() * 0.7, inputs, create_graph=True, allow_unused=True)
    if name.startswith(("class margins", "label margins")):  # which PyTorch does not differentiate twice
        return [out, *grads]
    total = sum(
        (g * module.tensor(np.cos(np.arange(g.numel()).reshape(g.shape)))).sum()
        for g in grads
        if g is not None and g.requires_grad
    )
    again: Any = [None] * len(inputs)
    if isinstance(total, module.Tensor) and total.requires_grad:
        again = module.autograd.grad(total, inputs, allow_unused=True)
    filled = [
        module.zeros_like(t) if g is None else g for g, t in zip([*grads, *again], inputs * 2, strict=True)
    ]
    return [out, *filled]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", CASES)
def test_against_torch(torch: ModuleType, name: str) -> None:
    assert_same(second_order(T, name), second_order(torch, name), name, 10)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", [n for n in CASES if "padded" not in n])  # which has a gradient of its own
def test_gradient_is_the_slope(name: str) -> None:
    fn, arrays = CASES[name]
    given = tensors(T, arrays)
    out = fn(F, given)
    if not out.numel() or not np.isfinite(array(out)).all():
        return
    inputs = [k for k, t in enumerate(given) if t.requires_grad]
    grads = T.autograd.grad(out.sum(), [given[k] for k in inputs], allow_unused=True)
    for k, grad in zip(inputs, grads, strict=True):
        if grad is None:
            continue
        v = RNG.normal(size=arrays[k].shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * 1e-6 * v if j == k else a for j, a in enumerate(arrays)]
            ends.append(array(fn(F, tensors(T, moved))).sum())
        np.testing.assert_allclose((array(grad) * v).sum(), (ends[0] - ends[1]) / 2e-6, rtol=2e-5, atol=1e-7)


OLDER = [
    n for n, f in vars(F).items() if isinstance(f, FunctionType) and "size_average" in signature(f).parameters
]


@pytest.mark.parametrize("name", OLDER)
def test_older_words_are_taken(name: str) -> None:
    """By name, at each call: what stands before a function must not look at less than the function takes."""
    x, lists = T.rand(2, 3) / 2, T.tensor([[0, -1, -1], [1, 2, -1]])
    given: dict[str, tuple[Any, ...]] = {
        "cosine_embedding_loss": (x, x, T.tensor([1, -1])),
        **dict.fromkeys(("cross_entropy", "nll_loss", "multi_margin_loss"), (x, T.tensor([0, 2]))),
        "margin_ranking_loss": (x, x, x),
        "multilabel_margin_loss": (x, lists),
        "triplet_margin_loss": (x, x, x),
    }
    for _ in range(3):
        with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
            total = getattr(F, name)(*given.get(name, (x, x)), size_average=False)
        assert T.equal(total, getattr(F, name)(*given.get(name, (x, x)), reduction="sum"))


REFUSED: dict[str, Loss] = {
    "class too large": lambda f, t: f.cross_entropy(t[0], t[1] * 4),
    "class negative": lambda f, t: f.nll_loss(t[0], t[1] * -1),
    "other batch": lambda f, t: f.cross_entropy(t[0], t[1][:2]),
    "float classes": lambda f, t: f.nll_loss(t[0], t[1].float()),
    "two targets": lambda f, t: f.nll_loss(t[0], t[0].long()),
    "weights of other classes": lambda f, t: f.cross_entropy(t[0], t[1], t[0][0, :3]),
    "int input": lambda f, t: f.nll_loss(t[0].long(), t[1]),
    "number for classes": lambda f, t: f.cross_entropy(t[0], 3),
    "reduction": lambda f, t: f.mse_loss(t[0], t[0], reduction="median"),
    "smoothing": lambda f, t: f.cross_entropy(t[0], t[1], label_smoothing=1.5),
    "probabilities and ignore_index": lambda f, t: f.cross_entropy(t[0], t[0], ignore_index=1),
    "mse of other sizes": lambda f, t: f.mse_loss(t[0], t[0][:, :1]),
    "mse of ints": lambda f, t: f.mse_loss(t[1], t[1]),
    "bce of other sizes": lambda f, t: f.binary_cross_entropy_with_logits(t[0], t[0][0]),
    "softmax without dim": lambda f, t: f.softmax(t[0]),
    "dropout, p": lambda f, t: f.dropout(t[0], 1.5),
    "old reduction words": lambda f, t: f.mse_loss(t[0], t[0], size_average=False),
    "smooth_l1, beta": lambda f, t: f.smooth_l1_loss(t[0], t[0], beta=-1.0),
    "smooth_l1 of ints": lambda f, t: f.smooth_l1_loss(t[1], t[1]),
    "huber, delta": lambda f, t: f.huber_loss(t[0], t[0], delta=0.0),
    "huber of ints": lambda f, t: f.huber_loss(t[1], t[1]),
    "kl_div, mean": lambda f, t: f.kl_div(t[0], t[0]),
    "kl_div of ints": lambda f, t: f.kl_div(t[1], t[1], reduction="sum"),
    "gaussian_nll, negative": lambda f, t: f.gaussian_nll_loss(t[0], t[0], -t[0]),
    "gaussian_nll, sizes": lambda f, t: f.gaussian_nll_loss(t[0], t[0], t[0][:2]),
    "binary, sizes": lambda f, t: f.binary_cross_entropy(t[0], t[0][:2]),
    "binary, input": lambda f, t: f.binary_cross_entropy(t[0] * 2, t[0]),
    "binary, target": lambda f, t: f.binary_cross_entropy(t[0], -t[0]),
    "binary of ints": lambda f, t: f.binary_cross_entropy(t[1], t[1]),
    "binary, dtypes": lambda f, t: f.binary_cross_entropy(t[0], t[0].double()),
    "ranking, dims": lambda f, t: f.margin_ranking_loss(t[0], t[0][0], t[0]),
    "embedding by floats": lambda f, t: f.embedding(t[0], t[0]),
    "embedding beyond": lambda f, t: f.embedding(t[1] + 5, t[0]),
    "embedding of a vector": lambda f, t: f.embedding(t[1], t[0][0]),
    "embedding by a list": lambda f, t: f.embedding([1], t[0]),
    "embedding, padding": lambda f, t: f.embedding(t[1], t[0], padding_idx=3),
    "bilinear, batch": lambda f, t: f.bilinear(t[0], t[0][:2], t[0][None]),
    "bilinear, features": lambda f, t: f.bilinear(t[0], t[0], t[0][None]),
    "bilinear, dims": lambda f, t: f.bilinear(t[0], t[0][0], t[0][None]),
    "layer_norm of ints": lambda f, t: f.layer_norm(t[0].long(), (4,)),
    "layer_norm over nothing": lambda f, t: f.layer_norm(t[0], ()),
    "layer_norm over a number": lambda f, t: f.layer_norm(t[0], 4),
    "layer_norm over another shape": lambda f, t: f.layer_norm(t[0], (3,)),
    "layer_norm, weight": lambda f, t: f.layer_norm(t[0], (4,), t[0][0, :3]),
    "layer_norm, bias of another dtype": lambda f, t: f.layer_norm(t[0], (4,), None, t[0][0].double()),
    "layer_norm of a number": lambda f, t: f.layer_norm(3, (4,)),
    "rms_norm of ints": lambda f, t: f.rms_norm(t[0].long(), (4,)),
    "rms_norm over another shape": lambda f, t: f.rms_norm(t[0], (5,)),
    "batch_norm of one": lambda f, t: f.batch_norm(t[0][:1], None, None, training=True),
    "batch_norm without statistics": lambda f, t: f.batch_norm(t[0], None, None),
    "batch_norm, running mean": lambda f, t: f.batch_norm(t[0], t[0][0, :3], t[0][0], training=True),
    "batch_norm, running variance": lambda f, t: f.batch_norm(t[0], t[0][0], t[0][0, :2]),
    "batch_norm, weight": lambda f, t: f.batch_norm(t[0], t[0][0], t[0][0], t[0][0, :2]),
    "batch_norm of ints": lambda f, t: f.batch_norm(t[0].long(), None, None, training=True),
    "batch_norm, weight of another dtype": lambda f, t: f.batch_norm(
        t[0], t[0][0], t[0][0], t[0][0].double()
    ),
    "cross_entropy of ints": lambda f, t: f.cross_entropy(t[0].long(), t[1]),
    "cosine of ints": lambda f, t: f.cosine_similarity(t[1], t[1], 0),
    "normalize ints": lambda f, t: f.normalize(t[1], dim=0),
    "cosine embedding, target": lambda f, t: f.cosine_embedding_loss(t[0], t[0], t[0]),
    "cosine embedding, inputs": lambda f, t: f.cosine_embedding_loss(t[0][0], t[0][0], t[1]),
    "triplets, dims": lambda f, t: f.triplet_margin_loss(t[0], t[0], t[0][0]),
    "triplets, margin": lambda f, t: f.triplet_margin_loss(t[0], t[0], t[0], margin=0),
    "triplets by a function, reduction": lambda f, t: f.triplet_margin_with_distance_loss(
        t[0], t[0], t[0], reduction="no"
    ),
    "class margins, p": lambda f, t: f.multi_margin_loss(t[0], t[1], p=3),
    "class margins, weights": lambda f, t: f.multi_margin_loss(t[0], t[1], weight=t[0]),
    "class margins, weights of others": lambda f, t: f.multi_margin_loss(t[0], t[1], weight=t[0][0, :2]),
    "class margins, target": lambda f, t: f.multi_margin_loss(t[0], t[1][:2]),
    "class margins, float target": lambda f, t: f.multi_margin_loss(t[0], t[0][:, 0]),
    "class margins, beyond": lambda f, t: f.multi_margin_loss(t[0], t[1] * 4),
    "class margins, dims": lambda f, t: f.multi_margin_loss(t[0][None], t[1]),
    "class margins of ints": lambda f, t: f.multi_margin_loss(t[0].long(), t[1]),
    "label margins, target": lambda f, t: f.multilabel_margin_loss(t[0], t[1]),
    "label margins, beyond": lambda f, t: f.multilabel_margin_loss(t[0], t[0].long() * 4),
    "label margins, float target": lambda f, t: f.multilabel_margin_loss(t[0], t[0]),
    "label margins of ints": lambda f, t: f.multilabel_margin_loss(t[0].long(), t[0].long()),
    "soft margins, reduction": lambda f, t: f.multilabel_soft_margin_loss(t[0], t[0], reduction="no"),
    "group_norm of a vector": lambda f, t: f.group_norm(t[0][0], 2),
    "group_norm, groups": lambda f, t: f.group_norm(t[0], 3),
    "group_norm, fewer than one": lambda f, t: f.group_norm(t[0], -1),
    "group_norm, weight": lambda f, t: f.group_norm(t[0], 2, t[0][0, :2]),
    "group_norm, bias": lambda f, t: f.group_norm(t[0], 2, None, t[0][0, :2]),
    "group_norm of one": lambda f, t: f.group_norm(t[0][:1], 4),
    "group_norm of ints": lambda f, t: f.group_norm(t[0].long(), 2),
    "group_norm, weight of another dtype": lambda f, t: f.group_norm(t[0], 2, t[0][0].double()),
    "instance_norm of one": lambda f, t: f.instance_norm(t[0]),
    "instance_norm without statistics": lambda f, t: f.instance_norm(
        t[0][..., None, None], use_input_stats=False
    ),
    "instance_norm, weight": lambda f, t: f.instance_norm(t[0][None], weight=t[0][0]),
    "one_hot, negative": lambda f, t: f.one_hot(-t[1]),
    "one_hot, too few": lambda f, t: f.one_hot(t[1], 1),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_pytorchs_words(torch: ModuleType, name: str) -> None:
    def refusal(module: ModuleType) -> str:
        scene = [module.ones(3, 4), module.ones(3, dtype=module.long)]
        return outcome(lambda: REFUSED[name](module.nn.functional, scene))

    assert isinstance(refusal(torch), str)
    assert refusal(T) == refusal(torch)


def test_literals() -> None:
    x = T.tensor([[0.0, 0.0], [math.log(3), 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, T.tensor([0, 1]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    loss.backward()
    np.testing.assert_allclose(array(x.grad), [[-0.25, 0.25], [0.375, -0.375]], rtol=1e-6)
    assert F.mse_loss(T.tensor([1.0, 2.0]), T.tensor([3.0, 2.0])).item() == 2
    assert F.one_hot(T.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.oracle
def test_embedding_by_frequency_and_with_a_longest_row(torch: ModuleType) -> None:
    def grad(module: ModuleType) -> list[Any]:
        w = module.tensor(TABLE, requires_grad=True)
        rows = module.tensor(ROWS)
        module.nn.functional.embedding(rows, w, scale_grad_by_freq=True).sum().backward()
        bounded = module.tensor(TABLE)
        out = module.nn.functional.embedding(rows, bounded, max_norm=0.5, norm_type=1.0)
        return [w.grad, bounded, out]

    assert_same(grad(T), grad(torch), "embedding")


def test_logits_far_out_stay_finite() -> None:
    x = T.tensor([1000.0, -1000.0], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, T.tensor([1.0, 1.0]), reduction="sum")
    assert loss.item() == 1000
    loss.backward()
    assert x.grad.tolist() == [0, -1]
    rows = T.tensor([[1000.0, 0.0], [0.0, 1000.0]], requires_grad=True)
    F.cross_entropy(rows, T.tensor([0, 0])).backward()
    assert rows.grad.tolist() == [[0, 0], [-0.5, 0.5]]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_statistics(torch: ModuleType, dtype: str) -> None:
    """Both are written to, once each, and the graph does not see it."""

    def steps(module: ModuleType) -> list[Any]:
        d = getattr(module, dtype)
        mean, var = module.zeros(4, dtype=d), module.ones(4, dtype=d)
        x = module.tensor(np.linspace(-3, 9, 24).reshape(3, 4, 2) ** 2, dtype=d, requires_grad=True)
        for _ in range(2):
            out = module.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.3)
        return [out, mean, var, mean.requires_grad, mean._version, var._version]

    assert_same(steps(T), steps(torch), "running statistics")


@pytest.mark.oracle
def test_running_statistics_of_instances(torch: ModuleType) -> None:
    def step(module: ModuleType) -> list[Any]:
        mean, var = module.zeros(6), module.ones(6)
        x = module.tensor(GROUPS, dtype=module.float32)
        return [module.nn.functional.instance_norm(x, mean, var, momentum=0.3), mean, var]

    assert_same(step(T), step(torch), "running statistics")


@pytest.mark.oracle
@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_draws_as_torch_does(torch: ModuleType, hard: bool) -> None:
    def draw(module: ModuleType) -> list[Any]:
        module.manual_seed(2)
        x = module.tensor(X, requires_grad=True)
        y = module.nn.functional.gumbel_softmax(x, 0.7, hard)
        y[:, 0].sum().backward()
        return [y, x.grad]

    assert_same(draw(T), draw(torch), "gumbel_softmax")


def test_dropout() -> None:
    x = T.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = array(y) != 0
    assert 700 < kept.sum() < 800
    np.testing.assert_allclose(array(y)[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(array(x.grad), array(y))
    assert F.dropout(x, training=False) is x
    assert not array(F.dropout(x, 1.0)).any()


@pytest.mark.oracle
def test_dropout_draws_as_torch_does(torch: ModuleType) -> None:
    drawn = []
    for module in (T, torch):
        module.manual_seed(3)
        drawn.append(module.nn.functional.dropout(module.ones(100), 0.3))
    assert_same(*drawn, "dropout")


def test_the_losses_are_one_node() -> None:
    x, y = T.ones(3, requires_grad=True), T.zeros(3)
    assert F.mse_loss(x, y).grad_fn.name() == "MseLossBackward0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert F.cross_entropy(x, T.tensor(1)).grad_fn.name() == "NllLossBackward0"
    assert F.binary_cross_entropy_with_logits(x, y).grad_fn.name() == "BinaryCrossEntropyWithLogitsBackward0"


def test_cross_entropy_of_repeated_rows() -> None:
    """An expanded input has less memory than elements; its gradient has not."""
    row = T.tensor([[0.5, -1.0, 2.0]], dtype=T.float64)
    target = T.tensor([0, 2] * 50)
    grads = []
    for logits in (row.expand(100, 3), row.repeat(100, 1)):
        leaf = logits.detach().requires_grad_()
        T.nn.functional.cross_entropy(leaf, target).backward()
        grads.append(leaf.grad)
    assert grads[0].shape == (100, 3)
    assert (grads[0] == grads[1]).all()


@pytest.mark.fast
def test_binary_cross_entropy_looks_at_all_that_it_is_given() -> None:
    F = T.nn.functional
    ones = T.ones(3, 2)
    for dtype in (T.float32, T.float64):
        fine, odd = (T.full((3, 2), 0.5, dtype=dtype) for _ in range(2))
        for bad in (1.5, -0.1, float("nan"), float("inf")):
            odd[2, 1] = bad
            for _ in range(2):
                assert F.binary_cross_entropy(fine, ones.to(dtype)).item() == pytest.approx(np.log(2))
                for given, word in (
                    ((odd, fine), "input"),
                    ((fine, odd), "target"),
                    ((odd.t(), fine.t()), "input"),
                ):
                    with pytest.raises(
                        RuntimeError, match=f"all elements of {word} should be between 0 and 1"
                    ):
                        F.binary_cross_entropy(*given)
    each = T.vmap(F.binary_cross_entropy)(T.full((3, 2), 0.5), ones)
    assert each.shape == (3,) and T.allclose(each, T.tensor(2.0).log())
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        T.vmap(F.binary_cross_entropy)(T.tensor([[0.5], [1.5]]), T.ones(2, 1))
