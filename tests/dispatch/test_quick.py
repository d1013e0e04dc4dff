"""Calls that are found again: what they give is what the long way gives, and what is not plain goes there."""

from collections.abc import Callable
from typing import Any

import pytest

import nbgrad as torch
from nbgrad.dispatch.quick import quickly

F = torch.nn.functional
NUMBER: Any = 1.0  # where PyTorch takes a tensor


def _seen() -> tuple[Callable[..., Any], list[str]]:
    """A function, and which way its calls went."""
    ways: list[str] = []

    def plan(x: Any, other: Any = None, k: Any = 1, *, scale: Any = 1.0) -> Any:
        if not isinstance(k, int):
            return None

        def run(*tensors: Any) -> Any:
            ways.append("quick")
            return tensors[0]

        return run

    @quickly(plan)
    def function(
        x: torch.Tensor, other: torch.Tensor | None = None, k: Any = 1, *, scale: float = 1.0
    ) -> torch.Tensor:
        ways.append("long")
        return x

    return function, ways


@pytest.mark.fast
def test_the_third_call_of_a_kind_is_quick() -> None:
    function, ways = _seen()
    x, y = torch.ones(3), torch.ones(4)
    for _ in range(4):
        function(x, y, 2)
    assert ways == ["long", "long", "quick", "quick"]
    for call in (
        lambda: function(x, y, 3),
        lambda: function(x, y, True),
        lambda: function(x, y, k=2),
        lambda: function(y, x, 2),
    ):
        del ways[:]
        call()
        assert ways == ["long"]


@pytest.mark.fast
def test_autocast_goes_the_long_way() -> None:
    x = torch.rand(4, 6)
    for _ in range(4):
        assert torch.linalg.pinv(x).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.linalg.pinv(x).dtype is torch.bfloat16


@pytest.mark.fast
def test_what_is_not_plain_goes_the_long_way() -> None:
    function, ways = _seen()
    x, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    calls: list[Callable[[], Any]] = [
        lambda: function(leaf),
        lambda: function(leaf[:2]),
        lambda: function(x, k=[1, 2]),
        lambda: function(x, k=(1.0, 2)),
        lambda: function(x, k=torch.tensor(2)),
        lambda: function(x, scale=float("nan")),
        lambda: function(other=x, x=torch.ones(4)),
        lambda: function(torch.ones(3, device="meta")),
        lambda: torch.vmap(function)(torch.ones(2, 3)),
        lambda: torch.func.jvp(function, (x,), (x,)),
    ]
    for call in calls:
        for _ in range(4):
            call()
    assert set(ways) == {"long"}
    with torch.no_grad():
        for _ in range(3):
            function(leaf)
    assert ways[-1] == "quick"
    del ways[:]
    function(leaf)
    assert ways == ["long"]


@pytest.mark.fast
def test_a_tuple_of_bools_is_none_of_ints() -> None:
    function, ways = _seen()
    for _ in range(3):
        function(torch.ones(3), None, 1)
    del ways[:]
    function(torch.ones(3), None, 1.0)
    function(torch.ones(3), None, True)
    assert ways == ["long", "long"]


def _cases() -> dict[str, Callable[[], Any]]:
    image = torch.arange(32.0).reshape(1, 2, 4, 4) % 5
    nan = torch.tensor([2.0, float("nan"), -0.0, 0.0, 2.0, float("nan")])
    weight, bias = torch.tensor([2.0, 0.5]), torch.tensor([1.0, -1.0])
    rows, line = image.reshape(8, 4), torch.tensor([0.5, 1.0, 2.0, 4.0])
    square = rows[:4] @ rows[:4].T + 20 * torch.eye(4)
    return {
        "histogram": lambda: torch.histogram(rows, 7),
        "histogram range": lambda: torch.histogram(rows, 7, range=(-0.0, 2)),
        "histogram list": lambda: torch.histogram(rows, 7, range=[0.0, 2.0]),
        "histc": lambda: torch.histc(rows, 7, 0.0, 2.0),
        "renorm": lambda: torch.renorm(rows, 2, 0, 1.5),
        "renorm by columns": lambda: torch.renorm(rows, 1.0, -1, 2),
        "segments": lambda: [
            torch.segment_reduce(rows, way, lengths=torch.tensor([3, 0, 5]), initial=first)
            for way in ("sum", "mean", "max", "min", "prod")
            for first in (None, 0.0, 2.0)
        ],
        "segments of rows": lambda: torch.segment_reduce(
            rows, "mean", lengths=torch.tensor([[1, 3]] * 8), axis=1
        ),
        "cholesky": lambda: torch.linalg.cholesky(square),
        "cdist": lambda: [torch.cdist(rows, rows.flip(0), p) for p in (2, 2.0, 1, 0.0, float("inf"), 3.5)],
        "cdist of columns": lambda: torch.cdist(rows.t(), rows.t()[1:3]),
        "cdist of many": lambda: torch.cdist(rows.repeat(4, 1), rows),
        "cdist each": lambda: torch.cdist(image[0], image[0, :, 1:3]),
        "cdist of one and all": lambda: torch.cdist(image[0], rows),
        "solve": lambda: [torch.linalg.solve(square, b) for b in (rows[0], rows[:4], square.mT, rows[4:].mT)],
        "solve each": lambda: torch.linalg.solve(square.expand(2, 4, 4), rows[:2]),
        "solve one for all": lambda: torch.linalg.solve(square.expand(2, 4, 4), rows[:4]),
        "inv": lambda: [torch.linalg.inv(square), torch.inverse(square[None].double())],
        "unique": lambda: torch.unique(nan, return_inverse=True, return_counts=True),
        "unique of ints": lambda: torch.unique(image.long(), return_inverse=True),
        "unique of bools": lambda: torch.unique(image > 2),
        "unique of halves": lambda: torch.unique(image.half(), return_counts=True),
        "unique of many": lambda: torch.unique(torch.arange(5000) % 77, return_counts=True),
        "unique of none": lambda: torch.unique(torch.empty(0)),
        "consecutive": lambda: torch.unique_consecutive(nan, return_inverse=True, return_counts=True),
        "group_norm": lambda: F.group_norm(image, 2, weight, bias),
        "group_norm weight": lambda: F.group_norm(image, 1, weight),
        "group_norm bias": lambda: F.group_norm(image, 1, None, bias),
        "group_norm alone": lambda: F.group_norm(image, 2, eps=0.5),
        "group_norm last": lambda: F.group_norm(
            image.contiguous(memory_format=torch.channels_last), 2, weight
        ),
        "layer_norm": lambda: torch.native_layer_norm(rows, (4,), line, line, 1e-5),
        "layer_norm weight": lambda: torch.native_layer_norm(rows, [4], None, line, 1e-5),
        "equal": lambda: [
            torch.equal(nan, nan),
            torch.equal(image, image.clone()),
            torch.equal(image, image + 1),
        ],
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", _cases())
def test_all_calls_give_the_same(name: str) -> None:
    call = _cases()[name]
    first, *others = [call() for _ in range(4)]
    for other in others:
        _alike(first, other)


def _alike(a: Any, b: Any) -> None:
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for one, two in zip(a, b):
            _alike(one, two)
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, check_stride=True)
        assert a.grad_fn is None is b.grad_fn and a._version == b._version
        assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
    else:
        assert a == b


def _factors() -> dict[str, Callable[[Any], Any]]:
    L = torch.linalg
    return {
        "cholesky": L.cholesky,
        "cholesky upper": lambda a: L.cholesky(a, upper=True),
        "cholesky_ex": L.cholesky_ex,
        "cholesky_solve": lambda a: torch.cholesky_solve(a[..., :2], a),
        "cholesky_solve upper": lambda a: torch.cholesky_solve(a[..., :2], a, True),
        "solve_triangular": lambda a: L.solve_triangular(a, a[..., 1:], upper=True),
        "solve_triangular unit": lambda a: L.solve_triangular(a.mT, a, upper=False, unitriangular=True),
        "qr": L.qr,
        "qr complete": lambda a: L.qr(a[..., :2], "complete"),
        "eigvalsh": L.eigvalsh,
        "eigh": lambda a: L.eigh(a, "U"),
        "svdvals": L.svdvals,
        "svd": lambda a: L.svd(a[..., :2]),
        "svd reduced": lambda a: L.svd(a[..., 1:, :], full_matrices=False),
        "lu_factor": L.lu_factor,
        "lu": L.lu,
        "lu wide": lambda a: L.lu(a[..., 1:, :]),
        "lstsq": lambda a: L.lstsq(a[..., :2], a),
        "lstsq vector": lambda a: L.lstsq(a[..., :2], a[..., 0]),
        "pinv": lambda a: L.pinv(a[..., :2]),
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", _factors())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_are_the_same(name: str, dtype: torch.dtype) -> None:
    call = _factors()[name]
    one = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]], dtype=dtype)
    for a in (one, torch.stack([one, one.mT * 2])):
        first, *others = [call(a) for _ in range(4)]
        for other in others:
            assert type(other) is type(first)
            of = (lambda x: (x,)) if isinstance(first, torch.Tensor) else tuple
            for x, y in zip(of(first), of(other)):
                torch.testing.assert_close(x, y, rtol=0, atol=0, check_stride=True)


@pytest.mark.fast
def test_what_has_no_factor_is_refused_each_time() -> None:
    L = torch.linalg
    nan, none = torch.full((2, 2), float("nan")), torch.zeros(2, 2)
    for call, a in (
        (L.cholesky, none),
        (L.cholesky, nan),
        (L.svd, nan),
        (L.svdvals, nan),
        (L.lu_factor, none),
    ):
        for good in (torch.eye(2), torch.eye(2), torch.eye(2)):
            call(good)
        with pytest.raises(RuntimeError):
            call(a)
    for _ in range(3):
        assert L.cholesky_ex(torch.eye(2)).info.item() == 0
    assert L.cholesky_ex(none).info.item() == 1
    for _ in range(3):
        assert L.lstsq(torch.eye(2), torch.ones(2, 1)).rank.item() == 2
    assert L.lstsq(none, torch.ones(2, 1)).rank.item() == 0


def _draws() -> dict[str, Callable[[], Any]]:
    weights, chances = torch.tensor([[1.0, 0.0, 3.0], [0.5, 0.5, 0.5]]), torch.tensor([0.2, 0.9, 0.5])
    rates, counts = torch.tensor([0.5, 20.0, 300.0]), torch.tensor([3.0, 50.0, 1000.0])
    return {
        "multinomial": lambda: torch.multinomial(weights, 5, replacement=True),
        "multinomial line": lambda: torch.multinomial(weights[0].double(), 7, True),
        "poisson": lambda: torch.poisson(rates),
        "poisson double": lambda: torch.poisson(rates.double()),
        "poisson half": lambda: torch.poisson(chances.half()),
        "binomial": lambda: torch.binomial(counts, chances),
        "bernoulli_": lambda: torch.empty(3).bernoulli_(chances),
        "randint_like": lambda: torch.randint_like(rates, -2, 9),
        "randint_like ints": lambda: torch.randint_like(rates, 5, dtype=torch.int64),
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", _draws())
def test_the_same_numbers_are_drawn(name: str) -> None:
    call, found = _draws()[name], []
    for _ in range(4):
        torch.manual_seed(7)
        found.append((call(), torch.get_rng_state()))
    for drawn, state in found[1:]:
        _alike(drawn, found[0][0])
        assert torch.equal(state, found[0][1])


@pytest.mark.fast
def test_nothing_is_drawn_of_what_is_refused() -> None:
    calls: list[tuple[Callable[[Any], Any], Any, Any]] = [
        (lambda w: torch.multinomial(w, 3, True), torch.ones(2), torch.tensor([1.0, -1.0])),
        (lambda w: torch.multinomial(w, 3, True), torch.ones(2), torch.zeros(2)),
        (torch.poisson, torch.ones(2), torch.tensor([1.0, -1.0])),
        (lambda p: torch.empty(2).bernoulli_(p), torch.ones(2), torch.tensor([0.5, 2.0])),
    ]
    for call, good, bad in calls:
        for _ in range(3):
            call(good)
        before = torch.get_rng_state()
        with pytest.raises(RuntimeError):
            call(bad)
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.fast
def test_an_index_of_what_has_no_dimensions() -> None:
    x, at, wants = torch.tensor(2.5), torch.tensor(0), torch.tensor(2.5, requires_grad=True)
    calls: list[Callable[[Any], Any]] = [
        lambda x: torch.gather(x, 0, at),
        lambda x: torch.index_select(x, -1, at),
        lambda x: torch.take(x, at),
        lambda x: torch.scatter(x, 0, at, torch.tensor(4.0)),
        lambda x: torch.scatter(x, 0, at, 4.0),
        lambda x: torch.scatter_add(x, 0, at, torch.tensor(4.0)),
        lambda x: torch.index_add(x, 0, at, torch.tensor(4.0)),
        lambda x: torch.index_copy(x, 0, at, torch.tensor(4.0)),
        lambda x: torch.index_fill(x, 0, at, 4.0),
        lambda x: x.detach().clone().scatter_(0, at, 4.0),
    ]
    for call in calls:
        first, *others = [call(x) for _ in range(4)]
        for other in others:
            _alike(first, other)
        recorded = call(wants)
        _alike(first, recorded.detach())
        if recorded.grad_fn is not None:
            recorded.backward()
        for outside in (torch.tensor(1), torch.tensor(-1)):
            with pytest.raises((IndexError, RuntimeError)):
                torch.gather(x, 0, outside)


def _plans() -> dict[str, Callable[[], Any]]:
    line, values = torch.tensor([1.0, 2.0, 2.0, 5.0]), torch.tensor([[2.0, 7.0], [float("nan"), 0.0]])
    image = torch.arange(64.0).reshape(1, 8, 2, 4)
    margins = torch.tensor([[0.1, 0.5, 0.7], [0.2, 0.9, -0.3]])
    grid = torch.tensor([[[[0.5, -0.2], [1.5, 0.0]]]])
    classes, ints = torch.tensor([[1, 0], [3, 2]]), torch.tensor([3, 0, 3], dtype=torch.uint8)
    return {
        "searchsorted": lambda: torch.searchsorted(line, values, right=True),
        "searchsorted side": lambda: torch.searchsorted(line, values, side="left"),
        "searchsorted number": lambda: torch.searchsorted(line, 2.0),
        "searchsorted ints": lambda: torch.searchsorted(classes, classes),
        "searchsorted int32": lambda: torch.searchsorted(line, values, out_int32=True),
        "bucketize": lambda: torch.bucketize(values, line),
        "bucketize right": lambda: torch.bucketize(values, line, right=True),
        "isin": lambda: torch.isin(values, line),
        "isin invert": lambda: torch.isin(classes, torch.tensor([3, 1]), invert=True),
        "isin number": lambda: torch.isin(values, 2.0),
        "isin nan": lambda: torch.isin(values, values),
        "one_hot": lambda: F.one_hot(classes, 5),
        "one_hot any": lambda: F.one_hot(classes),
        "bincount": lambda: torch.bincount(ints),
        "bincount least": lambda: torch.bincount(ints.long(), minlength=7),
        "bincount weights": lambda: torch.bincount(ints, torch.tensor([1.0, 2.0, 3.0])),
        "bincount apart": lambda: torch.bincount(classes[:, 0]),
        "pixel_shuffle": lambda: F.pixel_shuffle(image, 2),
        "pixel_shuffle last": lambda: F.pixel_shuffle(image.contiguous(memory_format=torch.channels_last), 2),
        "grid_sample": lambda: F.grid_sample(image, grid, align_corners=False),
        "grid_sample nearest": lambda: F.grid_sample(image, grid, "nearest", "border", True),
        "repeat_interleave": lambda: line.repeat_interleave(3),
        "repeat_interleave dim": lambda: torch.repeat_interleave(image, 2, dim=-2),
        "repeat_interleave none": lambda: line.repeat_interleave(0),
        "arange on": lambda: torch.arange(2, 7, device="cpu"),
        "arange there": lambda: torch.arange(0.5, 7, device=line.device, dtype=torch.float64),
        "linspace on": lambda: torch.linspace(0, 1, 5, device=line.device),
        "batch_norm": lambda: F.batch_norm(
            image, image[0, :, 0, 0], image[0, :, 1, 1] + 1, image[0, :, 0, 1]
        ),
        "batch_norm alone": lambda: F.batch_norm(margins, margins[0], margins[0] + 1, eps=0.5),
        "batch_norm bias": lambda: F.batch_norm(margins, margins[0], margins[0] + 1, None, margins[1]),
        "batch_norm last": lambda: F.batch_norm(
            image.contiguous(memory_format=torch.channels_last), image[0, :, 0, 0], image[0, :, 1, 1] + 1
        ),
        "scatter_reduce": lambda: torch.scatter_reduce(margins, 1, classes % 3, margins[:, 1:], "amax"),
        "scatter_reduce prod": lambda: margins.scatter_reduce(1, classes % 2, margins, reduce="prod"),
        "scatter_reduce mean": lambda: margins.scatter_reduce(1, classes % 2, margins, "mean"),
        "scatter_reduce alone": lambda: margins.scatter_reduce(
            1, classes % 2, margins, "amin", include_self=False
        ),
        "ones_like": lambda: torch.ones_like(margins, dtype=torch.int64),
        "new_zeros": lambda: margins.new_zeros(2, 3),
        "pdist": lambda: F.pdist(image[0, :, 0]),
        "pdist of 1": lambda: F.pdist(image[0, :, 0], 1),
        "histc": lambda: torch.histc(line, 3),
        "histc between": lambda: torch.histc(values, bins=5, min=1, max=7.5),
        "histc one": lambda: torch.histc(torch.ones(3, dtype=torch.float64), 4),
        "multi_margin": lambda: F.multi_margin_loss(margins, torch.tensor([2, 0])),
        "multi_margin p": lambda: F.multi_margin_loss(
            margins, torch.tensor([2, 0]), 2, 0.5, margins[0], reduction="sum"
        ),
        "multi_margin none": lambda: F.multi_margin_loss(margins, torch.tensor([2, 0]), reduction="none"),
        "multilabel_margin": lambda: F.multilabel_margin_loss(
            margins, torch.tensor([[2, 0, -1], [-1, 0, 1]])
        ),
        "multilabel_margin none": lambda: F.multilabel_margin_loss(
            margins, torch.tensor([[2, 0, -1], [1, -1, 1]]), reduction="none"
        ),
        "pad": lambda: [
            F.pad(image, (1, 1, 1, 0), mode=mode) for mode in ("reflect", "replicate", "circular")
        ],
        "unfold": lambda: F.unfold(image, (2, 1), padding=(1, 0), stride=2),
        "fold": lambda: F.fold(F.unfold(image, 2, padding=1), (2, 4), 2, padding=1),
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", _plans())
def test_all_calls_give_one_result(name: str) -> None:
    call = _plans()[name]
    first, *others = [call() for _ in range(4)]
    for other in others:
        _alike(first, other)


@pytest.mark.fast
def test_what_kernels_tell_is_refused_each_time() -> None:
    for _ in range(3):
        F.one_hot(torch.tensor([1, 0]), 2)
        torch.bincount(torch.tensor([1, 0]))
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(torch.tensor([1, 2]), 2)
    with pytest.raises(RuntimeError, match="non-negative"):
        F.one_hot(torch.tensor([1, -2]), 2)
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -2]))
    assert torch.equal(F.one_hot(torch.tensor([1, 0]), 2), torch.tensor([[0, 1], [1, 0]]))


@pytest.mark.fast
def test_an_index_without_dimensions_is_an_int() -> None:
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    at = torch.tensor(-1)
    y = (x * 1)[at]
    assert y.grad_fn is not None and y.grad_fn.name() == "SelectBackward0" and y._is_view()
    y.sum().backward()
    assert torch.equal(x.grad, torch.tensor([[0.0, 0, 0], [1, 1, 1]]))
    for bad in (torch.tensor(2), torch.tensor(-3, dtype=torch.int32)):
        with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 2"):
            x[bad]
    with torch.device("meta"):
        assert torch.arange(3).is_meta and not torch.arange(3, device="cpu").is_meta


def _by_name() -> dict[str, Callable[[], Any]]:
    x, index, rows = torch.arange(12.0).reshape(3, 4) / 7, torch.tensor([[0, 2, 1, 0]]), torch.tensor([2, 0])
    source, mask = torch.ones(1, 4), torch.tensor([True, False, True, False])
    inf = float("inf")
    return {
        "gather": lambda: x.gather(dim=0, index=index),
        "gather other order": lambda: torch.gather(x, index=index, dim=0),
        "gather by all": lambda: torch.gather(input=x, dim=0, index=index),
        "gather by axis": lambda: torch.gather(x, axis=0, index=index),
        "index_select": lambda: torch.index_select(x, dim=0, index=rows),
        "take": lambda: torch.take(x, index=rows),
        "scatter": lambda: x.scatter(dim=0, index=index, src=source),
        "scatter value": lambda: x.scatter(0, index, value=2),
        "scatter value by all": lambda: torch.scatter(x, dim=0, index=index, value=2.5),
        "scatter_": lambda: x.clone().scatter_(0, index=index, src=source),
        "scatter_ value": lambda: x.clone().scatter_(0, index, value=2.0),
        "scatter_add": lambda: x.scatter_add(dim=0, index=index, src=source),
        "index_add": lambda: x.index_add(0, rows, source=torch.ones(2, 4)),
        "index_add alpha": lambda: x.index_add(0, rows, torch.ones(2, 4), alpha=2),
        "index_copy": lambda: x.index_copy(dim=0, index=rows, source=torch.ones(2, 4)),
        "index_fill": lambda: x.index_fill(dim=0, index=rows, value=3),
        "flip": lambda: torch.flip(x, dims=[0]),
        "flip tuple": lambda: x.flip(dims=(0, -1)),
        "movedim": lambda: x.movedim([0, 1], [1, 0]),
        "linspace": lambda: torch.linspace(0, 1, steps=5),
        "linspace by all": lambda: torch.linspace(start=0, end=1, steps=5, dtype=torch.float64),
        "linspace zero": lambda: [torch.linspace(z, 1, steps=3).sign() for z in (0.0, -0.0)],
        "linspace many": lambda: torch.linspace(0, 1, 900),
        "logspace": lambda: torch.logspace(0, 1, steps=4, base=2),
        "arange": lambda: torch.arange(start=1, end=5),
        "arange end": lambda: torch.arange(end=5, dtype=torch.float32, device="cpu"),
        "arange bool": lambda: torch.arange(end=True),
        "masked_fill": lambda: x.masked_fill(mask, -inf),
        "masked_fill nan": lambda: x.masked_fill(mask, float("nan")),
        "masked_fill_": lambda: x.clone().masked_fill_(mask, inf),
        "to": lambda: [x.to("cpu", torch.float64), x.to(device="cpu", dtype=torch.float32) is x],
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", _by_name())
def test_calls_by_name_give_the_same(name: str) -> None:
    call = _by_name()[name]
    first, *others = [call() for _ in range(4)]
    for other in others:
        _alike(first, other)


@pytest.mark.fast
def test_numbers_that_are_counted_may_want_a_gradient() -> None:
    for _ in range(3):
        x = torch.linspace(0, 1, steps=3, requires_grad=True)
        assert x.requires_grad and x.is_leaf and x.grad is None
        (x * x).sum().backward()
        assert torch.equal(x.grad, torch.tensor([0.0, 1.0, 2.0]))
        assert not torch.linspace(0, 1, steps=3).requires_grad
        torch.arange(3)
        with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
            torch.arange(3, requires_grad=True)


@pytest.mark.fast
def test_a_name_is_no_value() -> None:
    function, ways = _seen()
    x = torch.ones(3)
    for _ in range(3):
        function(x, None, k=2)
    del ways[:]
    with pytest.raises(TypeError):
        function(x, None, 2, "k")
    for _ in range(3):
        torch.arange(1, end=4)
    with pytest.raises(TypeError):
        torch.arange(1, 4, "end")
    for _ in range(4):
        function(x, scale=float("nan"))
    assert set(ways) == {"long"}


@pytest.mark.fast
def test_a_mode_for_operators_sees_what_it_saw() -> None:
    from nbgrad.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    image, line = torch.arange(32.0).reshape(1, 2, 4, 4), torch.tensor([3, 1, 3])
    calls: list[Callable[[], Any]] = [
        lambda: F.group_norm(image, 2),
        lambda: F.pixel_shuffle(image.reshape(1, 8, 2, 2), 2),
        lambda: torch.unique(line),
        lambda: F.one_hot(line, 5),
        lambda: torch.isin(line, line),
    ]
    for call in calls:
        with Seen() as before:
            call()
        for _ in range(3):
            call()
        with Seen() as after:
            call()
        assert before.names == after.names and before.names


@pytest.mark.fast
def test_what_is_made_in_inference_mode_is_marked() -> None:
    line, a = torch.tensor([1, 0]), 3 * torch.eye(2)
    calls: list[Callable[[], Any]] = [
        lambda: F.one_hot(line, 2),
        lambda: torch.unique(line),
        lambda: torch.linalg.cholesky(a),
        lambda: torch.bincount(line),
        lambda: torch.randint_like(a, 5),
        lambda: torch.arange(1, end=4),
        lambda: torch.gather(torch.tensor(2.0), 0, torch.tensor(0)),
    ]
    for call in calls:
        for _ in range(3):
            call()
        with torch.inference_mode():
            assert call().is_inference()
        assert not call().is_inference()


@pytest.mark.fast
def test_what_names_do_not_allow_is_refused_each_time() -> None:
    x, index, ints = torch.ones(3, 4), torch.tensor([[0, 2, 1, 0]]), torch.ones(4, dtype=torch.int64)
    for _ in range(3):
        with pytest.raises(TypeError):
            x.flip(dims=[True])
        with pytest.raises(TypeError):
            x.gather(dim=0, index=index, other=1)
        with pytest.raises(RuntimeError, match="without overflow"):
            x.masked_fill(x > 0, 1e300)
        with pytest.raises((RuntimeError, OverflowError)):
            ints.masked_fill(ints > 0, float("inf"))
        with pytest.raises(IndexError):
            x.flip(dims=[2])
        with pytest.raises(RuntimeError):
            torch.linspace(0, 1, steps=-1)
        x.scatter(0, index, value=1.0)
        x.gather(dim=0, index=index)
        torch.linspace(0, 1, steps=1)


def _read_off() -> dict[str, Callable[[Any, Any], Any]]:
    """Functions of an image and of a matrix."""
    return {
        "interpolate": lambda x, _: F.interpolate(x, scale_factor=2.0),
        "interpolate to a list": lambda x, _: F.interpolate(x, [3, 5], mode="bilinear", align_corners=True),
        "interpolate area": lambda x, _: F.interpolate(x, (2, 3), mode="area"),
        "max_pool1d_with_indices": lambda x, _: torch.max_pool1d_with_indices(x[0], 2),
        "max_pool2d_with_indices": lambda x, _: F.max_pool2d(x, 2, return_indices=True),
        "avg_pool1d": lambda x, _: F.avg_pool1d(x[0], 2),
        "adaptive_avg_pool1d": lambda x, _: F.adaptive_avg_pool1d(x[0], 3),
        "adaptive_max_pool1d": lambda x, _: F.adaptive_max_pool1d(x[0], 2),
        "adaptive_max_pool2d": lambda x, _: F.adaptive_max_pool2d(x, (2, 1), return_indices=True),
        "batch_norm": lambda x, m: F.batch_norm(x, None, None, m[0, :2], None, training=True),
        "sort": lambda x, _: torch.sort(x, dim=1, descending=True),
        "glu": lambda x, _: F.glu(x, 1),
        "prelu": lambda x, m: F.prelu(x, m[1, :2]),
        "cross": lambda _, m: torch.linalg.cross(m[:3], m[1:], dim=0),
        "kron": lambda _, m: torch.kron(m[:2], m),
        "diff": lambda x, _: torch.diff(x, dim=2),
        "diagflat": lambda _, m: torch.diagflat(m, -1),
        "sum_to_size": lambda _, m: m.sum_to_size(1, 3),
        "tensordot": lambda _, m: torch.tensordot(m, m[:3], 1),
        "einsum": lambda _, m: torch.einsum("ij,kj->ki", m, m[1:]),
        "einsum of lists": lambda _, m: torch.einsum(m, [0, 1], m[1:], [2, 1], [0, 2]),
        "einsum of batches": lambda x, m: torch.einsum("...ij,kj->...ik", x[..., :3], m),
        "einsum turned": lambda _, m: torch.einsum("ij->ji", m),
        "einsum twice the same": lambda _, m: torch.einsum("ij,ij->i", m, m),
        "alias_copy": lambda _, m: torch.alias_copy(m[:, 1:]),
        "slice_copy": lambda _, m: torch.slice_copy(m, 1, 1, 3),
        "view_copy": lambda _, m: torch.view_copy(m, (3, -1)),
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", _read_off())
def test_what_is_read_off_gives_what_the_long_way_gives(name: str) -> None:
    call = _read_off()[name]
    given = torch.linspace(-1, 1, 64).sin().reshape(2, 2, 4, 4), torch.linspace(-2, 1, 12).reshape(4, 3)
    first, *others = [call(*given) for _ in range(4)]
    wanted = call(*[t.clone().requires_grad_() for t in given])
    last = call(*given)
    for other in (*others, last):
        _alike(first, other)
        for one, two in zip(*[[r] if isinstance(r, torch.Tensor) else r for r in (first, other)]):
            assert one._is_view() == two._is_view() and type(first) is type(other)
    for one, two in zip(*[[r] if isinstance(r, torch.Tensor) else r for r in (first, wanted)]):
        torch.testing.assert_close(one, two.detach(), rtol=0, atol=0)
    moved = call(*[t + 1 for t in given])  # other numbers, in other memory
    again = call(*[(t + 1).requires_grad_() for t in given])
    for one, two in zip(*[[r] if isinstance(r, torch.Tensor) else r for r in (moved, again)]):
        torch.testing.assert_close(one, two.detach(), rtol=0, atol=0)


@pytest.mark.fast
def test_a_view_that_is_learnt_is_the_tensors_own() -> None:
    m = torch.arange(6.0).reshape(2, 3)
    for _ in range(4):
        turned = torch.einsum("ij->ji", m)
        assert turned._base is not None and turned.data_ptr() == m.data_ptr()
        apart = torch.as_strided_copy(m, (2, 2), (1, 2), 1)
        assert apart.untyped_storage().data_ptr() != m.untyped_storage().data_ptr()
        assert torch.equal(torch.alias_copy(m), m) and torch.alias_copy(m).data_ptr() != m.data_ptr()


@pytest.mark.fast
def test_wrong_arguments_are_refused_after_what_is_read_off() -> None:
    x, m, out = torch.ones(1, 2, 4, 4), torch.ones(2, 3), torch.empty(2, 2)
    calls: list[tuple[Callable[[], Any], Callable[[], Any], str]] = [
        (lambda: F.interpolate(x, 2), lambda: F.interpolate(x, True), "size"),
        (lambda: F.glu(x, 1), lambda: F.glu(x[:, :1], 1), "must be even"),
        (
            lambda: torch.einsum("ij,kj->ik", m, m),
            lambda: torch.einsum("ij,kj->ik", m, m[:, :2]),
            "subscript j",
        ),
        (lambda: torch.kron(m, m), lambda: torch.kron(m, NUMBER), "argument 'other'"),
        (lambda: torch.tensordot(m, m.T, 1), lambda: torch.tensordot(m, m.T.double(), 1), "same dtype"),
        (lambda: torch.diff(m), lambda: torch.diff(m, dim=2), "out of range"),
        (lambda: m.sum_to_size(1, 3), lambda: m.sum_to_size(1, 2), "not expandable"),
        (lambda: F.prelu(x, m[:, 0]), lambda: F.prelu(x, m[0]), "Mismatch"),
    ]
    for good, bad, words in calls:
        before = [good() for _ in range(4)]
        with pytest.raises((RuntimeError, TypeError, IndexError, ValueError), match=words):
            bad()
        _alike(before[0], good())
    for k in range(4):
        assert torch.tensordot(m * k, m.T, 1, out=out) is out and out[0, 0] == 3 * k


@pytest.mark.fast
def test_a_number_in_a_tensors_dress_is_read_at_each_call() -> None:
    x = torch.ones(1, 2, 4, 4)
    for k in (1, 2, 2, 3):
        assert F.interpolate(x, torch.tensor(k)).shape == (1, 2, k, k)
        assert F.adaptive_avg_pool1d(x[0], k).shape == (2, 4, k)


@pytest.mark.fast
def test_views_by_plan_are_those_of_the_long_way() -> None:
    def said(views: tuple[torch.Tensor, ...]) -> list[Any]:
        return [
            (v.tolist(), v.stride(), v._is_view(), type(v.grad_fn).__name__, v.storage_offset())
            for v in views
        ]

    x, y = torch.arange(12.0).view(3, 4), torch.arange(2.0)
    for base in (x, x.clone().requires_grad_()):
        for call in (
            lambda base: base.tensor_split(3),
            lambda base: torch.tensor_split(base, [1, -1], 1),
            lambda base: torch.hsplit(base, 2),
            lambda base: base.vsplit((1,)),
            lambda base: torch.meshgrid(base[0], y, indexing="xy"),
            lambda base: torch.meshgrid([y, base[0]], indexing="ij"),
            lambda base: torch.broadcast_tensors(base, y[0], base[0]),
        ):
            found = [said(call(base)) for _ in range(4)]
            assert all(each == found[0] for each in found)
    assert torch.broadcast_tensors(x, y[0])[0] is x
    for _ in range(4):
        with pytest.raises(RuntimeError, match="number of sections must be larger than 0"):
            x.tensor_split(0)
        with pytest.raises(RuntimeError, match="is not divisible by the split_size 3"):
            x.hsplit(3)


@pytest.mark.fast
def test_settings_by_name_are_told_apart() -> None:
    x = torch.tensor([[1.0, 3.0], [2.0, 8.0]])
    for _ in range(3):
        assert x.var(1, correction=0).tolist() == [1.0, 9.0]
        assert x.var(1, correction=1).tolist() == x.var(1).tolist() == [2.0, 18.0]
        assert torch.aminmax(x, dim=0)[1].tolist() == [2.0, 8.0]
        assert torch.aminmax(x, dim=1)[1].tolist() == [3.0, 8.0]
        assert x.sum(0, dtype=torch.float64).dtype is torch.float64
        assert x.sum(0).dtype is torch.float32
        with pytest.raises(TypeError):
            torch.aminmax(x, dim=(0,))


@pytest.mark.fast
def test_views_of_inference_are_the_long_ways() -> None:
    x = torch.arange(8.0).reshape(1, 2, 4)
    calls: list[Callable[[], Any]] = [
        lambda: torch.max_pool1d_with_indices(x, 2),
        lambda: F.avg_pool1d(x, 2),
        lambda: torch.einsum("bij,kj->bki", x, x[0]),
    ]
    for call in calls:
        before = [call() for _ in range(4)][-1]
        with torch.inference_mode():
            inside = call()
        for one, two in zip(*[[r] if isinstance(r, torch.Tensor) else r for r in (before, inside)]):
            assert torch.equal(one, two) and two.is_inference()
        _alike(before, call())


def _graph(node: Any) -> Any:
    return None if node is None else (node.name(), [(_graph(to), k) for to, k in node.next_functions])


_RECORDED: dict[str, Callable[..., Any]] = {
    "cholesky": torch.linalg.cholesky,
    "eigh": torch.linalg.eigh,
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False),
    "qr": torch.linalg.qr,
    "pinv": torch.linalg.pinv,
    "inv": torch.linalg.inv,
    "solve": lambda x: torch.linalg.solve(x, torch.arange(4.0, dtype=torch.float64)),
    "solve itself": lambda x: torch.linalg.solve(x + 1, x),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(x, x.detach() + 1, upper=True),
    "renorm": lambda x: torch.renorm(x, 2, 0, 0.5),
    "segments": lambda x: torch.segment_reduce(x, "prod", lengths=torch.tensor([1, 2, 1])),
    "pdist": torch.pdist,
    "cdist": lambda x: torch.cdist(x, x.detach() + 1),
    "cdist of order 3": lambda x: torch.cdist(x.detach() + 1, x, 3),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", _RECORDED)
@pytest.mark.parametrize("view", [False, True])
def test_all_calls_leave_the_same_record(name: str, view: bool) -> None:
    torch.manual_seed(0)
    root = torch.randn(4, 4, dtype=torch.float64)
    leaf = root @ root.T + torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    found = []
    for _ in range(5):
        x = leaf.clone().requires_grad_()
        out = _RECORDED[name]((x[None] * 1.0)[0] if view else x)
        outs = [t for t in (out if isinstance(out, tuple) else (out,)) if t.requires_grad]
        total = torch.stack([(t * t.detach().cos()).sum() for t in outs]).sum()
        (g,) = torch.autograd.grad(total, x, create_graph=name != "segments")
        values = [g]
        if name != "segments":  # whose gradient has none
            values += torch.autograd.grad(g.square().sum(), x)
        found.append(([_graph(t.grad_fn) for t in outs], [*outs, *values]))
    for graph, values in found[1:]:
        assert graph == found[0][0]
        for one, other in zip(values, found[0][1], strict=True):
            assert torch.equal(one, other)


@pytest.mark.fast
def test_what_is_recorded_quickly_sees_writes_as_any_record_does() -> None:
    low = torch.eye(3, requires_grad=True)
    for _ in range(4):
        y = torch.linalg.cholesky(low * 2)
        total = y.sum()
        y.mul_(2)
        with pytest.raises(
            RuntimeError,
            match=r"modified by an inplace operation.* output 0 of LinalgCholeskyEx, is at version 1",
        ):
            total.backward()


@pytest.mark.fast
def test_zeros_are_told_apart_by_their_sign() -> None:
    @quickly(lambda x, k: lambda t: t * 0 + k)
    def function(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * 0 + k

    for k in (0.0, -0.0, 0.0, -0.0) * 2:
        assert str(function(-torch.ones(1), k) * 1) == str(-torch.ones(1) * 0 + k)


@pytest.mark.fast
def test_a_singular_matrix_is_refused_also_where_others_were_solved() -> None:
    for matrix in (
        torch.eye(3),
        torch.zeros(3, 3),
        torch.eye(3),
        torch.zeros(3, 3),
        torch.eye(3),
        torch.zeros(3, 3),
    ):
        if matrix.any():
            assert torch.linalg.solve(matrix, torch.ones(3)).tolist() == [1, 1, 1]
            assert torch.equal(torch.linalg.inv(matrix), matrix)
            continue
        with pytest.raises(torch.linalg.LinAlgError, match="input matrix is singular"):
            torch.linalg.solve(matrix, torch.ones(3))
        with pytest.raises(torch.linalg.LinAlgError, match="could not be completed"):
            torch.linalg.inv(matrix)
