"""The profiler: rows under PyTorch's names, PyTorch's table, and nothing while it is off."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cases import CASES, OpCase, Sample, samples
from tests.support import T

P = T.autograd.profiler


def step(module: ModuleType) -> None:
    x, w = module.ones(4, 3, requires_grad=True), module.ones(3, 2, requires_grad=True)
    loss = (module.tanh(x @ w) * 2 + 1).sum()
    loss.backward()


def test_rows_are_calls_and_nodes() -> None:
    with P.profile() as prof:
        step(T)
    counts = {e.key: e.count for e in prof.key_averages() if e.key != "aten::expand"}
    assert counts == {
        "aten::ones": 2,
        "aten::mm": 3,  # two of them backward
        "aten::tanh": 1,
        "aten::mul": 1,
        "aten::add": 1,
        "aten::sum": 1,
        "SumBackward0": 1,
        "AddBackward0": 1,
        "MulBackward0": 1,
        "TanhBackward0": 1,
        "MmBackward0": 1,
        "torch::autograd::AccumulateGrad": 2,
    }
    inside = [e.name for e in prof.function_events if e.cpu_parent and e.cpu_parent.name == "MmBackward0"]
    assert inside == ["aten::mm", "aten::mm"]


@pytest.mark.oracle
def test_rows_are_among_pytorchs(torch: ModuleType) -> None:
    with torch.autograd.profiler.profile() as theirs:
        step(torch)
    with P.profile() as ours:
        step(T)
    known = {e.key: e.count for e in theirs.key_averages()}
    for e in ours.key_averages():
        assert e.count <= known[e.key], e


def some_ops(module: ModuleType) -> set[str]:
    x = module.ones(2, 3)
    with module.autograd.profiler.profile() as prof:
        x.t().reshape(-1), x.view(6), x[0], x[0:1], x.sum(dim=1), x.max(dim=0), x.add_(1), x.exp_()
        module.cat([x, x]), module.stack([x, x]), x.softmax(-1), x.clone(), x.permute(1, 0), x.unbind(0)
        module.where(x > 0, x, -x), x.to(module.float64), x.split(1), x.expand(2, 2, 3), x.log1p(), x**2
        (
            module.nn.functional.linear(x, x),
            module.nn.functional.mse_loss(x, x),
            x.mean(),
            x.gather(0, x.long() * 0),
        )
    return {e.name.removeprefix("aten::") for e in prof.function_events}


@pytest.mark.oracle
def test_names_of_ops_are_pytorchs(torch: ModuleType) -> None:
    ours, theirs = some_ops(T), some_ops(torch)
    assert {n for n in ours if n not in theirs and f"_{n}" not in theirs} <= {"contiguous"}


@pytest.mark.oracle
def test_each_op_of_the_table_is_a_row(torch: ModuleType) -> None:
    def rows(module: ModuleType, case: OpCase, sample: Sample) -> list[str]:
        tensors = sample.tensors(module)
        with module.autograd.profiler.profile() as prof:
            case.fn(module, *tensors)
        return [e.name.removeprefix("aten::") for e in prof.function_events]

    for case in CASES.values():
        if case.elementwise and case.op:
            whole = "bitwise" in case.op or "float32" not in case.dtypes
            sample = next(samples(case, "int64" if whole else "float32", layouts=False))
            ours, theirs = rows(T, case, sample), rows(torch, case, sample)
            assert ours and ours[0].removesuffix("_") in {*theirs, case.op}, (case.name, ours, theirs)
            # An alias (arcsinh) is one function with what it stands for, and has its row; in PyTorch it has one more.
            alike = {n for n in ours if unwrap(getattr(T, n, None)) is unwrap(getattr(T, case.op, T))}
            assert case.op in ours or alike or case.op not in theirs, (case.name, ours, theirs)


def test_higher_order_and_custom_functions() -> None:
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x + x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g + g

    x = T.ones(3, requires_grad=True)
    with P.profile() as prof:
        (g,) = T.autograd.grad(Double.apply(x).tanh().sum(), x, create_graph=True)
        g.sum().backward()
    names = [e.name for e in prof.function_events]
    for name in ("Double", "DoubleBackward", "TanhBackward0", "aten::tanh_backward", "TanhBackwardBackward0"):
        assert name in names


def test_times_nest() -> None:
    with P.profile() as prof, P.record_function("whole"):
        step(T)
    whole, *rest = prof.function_events
    assert whole.name == "whole" and whole.is_user_annotation
    for e in rest:
        parent = e.cpu_parent
        assert e in parent.cpu_children
        assert parent.time_range.start <= e.time_range.start <= e.time_range.end <= parent.time_range.end
        assert 0 <= e.self_cpu_time_total <= e.cpu_time_total
    assert prof.self_cpu_time_total == pytest.approx(whole.cpu_time_total)
    total = prof.total_average()
    assert (total.key, total.count) == ("Total", len(prof.function_events))


def test_shapes_memory_and_stacks() -> None:
    x = T.ones(4, 3)
    with P.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof, P.record_function("r"):
        y = x @ x.t()
        (y + 1).exp()
        T.cat([x, x])
    row, mm, add, exp, cat = (e for e in prof.function_events if e.name != "aten::t")
    assert (mm.name, add.input_shapes, cat.input_shapes) == ("aten::mm", [[4, 4], []], [[[4, 3], [4, 3]], []])
    assert [e.self_cpu_memory_usage for e in (mm, add, exp)] == [64, 64, 64]
    assert row.self_cpu_memory_usage == -64 - 64 - 96  # what was not kept
    assert row.cpu_memory_usage == 64  # y
    line = mm.stack[0]
    assert line.startswith(__file__) and line.endswith(": test_shapes_memory_and_stacks")
    for group in ({"group_by_input_shape": True}, {"group_by_stack_n": 1}):
        table = prof.key_averages(**group).table()
        assert ("[[4, 3], [3, 4]]" if "group_by_input_shape" in group else "Source Location") in table
        assert "CPU Mem" in table and "64 B" in table


def test_views_and_what_is_returned_as_it_came_make_no_memory() -> None:
    x = T.ones(4, 3)
    with P.profile(profile_memory=True) as prof:
        x.t(), x.view(12), x[1], x.add_(1), x.contiguous(), x.to(T.float32), x.expand(2, 4, 3)
    assert all(e.cpu_memory_usage == 0 for e in prof.function_events)


def test_an_error_closes_what_it_leaves() -> None:
    with P.profile() as prof:
        with pytest.raises(RuntimeError, match="must match"):
            T.ones(2) + T.ones(3)
        T.ones(2).exp()
    assert [(e.name, e.cpu_parent) for e in prof.function_events] == [
        ("aten::ones", None),
        ("aten::ones", None),
        ("aten::add", None),
        ("aten::ones", None),
        ("aten::exp", None),
    ]


def test_each_thread_records_its_own() -> None:
    barrier = threading.Barrier(4)

    def run(k: int) -> list[str]:
        x = T.ones(3, requires_grad=True)
        barrier.wait()
        with P.profile() as prof:
            for _ in range(20):
                (x.sin() if k % 2 else x.cos()).sum().backward()
        return [e.name for e in prof.function_events if e.name != "aten::expand"]

    run_alone = ["aten::cos", "aten::sum", "SumBackward0", "CosBackward0"]
    with ThreadPoolExecutor(4) as pool, P.profile() as here:
        T.ones(1)
        results = list(pool.map(run, range(4)))
    assert [e.name for e in here.function_events] == ["aten::ones"]
    for k, names in enumerate(results):
        op = "sin" if k % 2 else "cos"
        want = [n.replace("cos", op).replace("Cos", op.capitalize()) for n in run_alone]
        assert names == [*want, "torch::autograd::AccumulateGrad"] * 20


def test_profiles_inside_profiles_and_beside_other_hooks() -> None:
    calls: list[str] = []

    def other(frame: Any, event: str, arg: Any) -> None:
        calls.append(frame.f_code.co_name)

    sys.setprofile(other)
    try:
        with P.profile() as outer:
            T.ones(1)
            with P.profile() as inner, P.record_function("noted"):
                T.ones(1).exp()
        assert sys.getprofile() is other
    finally:
        sys.setprofile(None)
    assert "ones" in calls
    assert [e.name for e in inner.function_events] == ["noted", "aten::ones", "aten::exp"]
    assert [e.name for e in outer.function_events] == ["aten::ones", "aten::ones", "aten::exp"]


def test_off_it_is_not_there() -> None:
    assert sys.getprofile() is None
    with P.profile(enabled=False) as prof:
        assert prof is None and sys.getprofile() is None

    @P.record_function("unseen")
    def plain(x: int) -> int:
        return x + 1

    assert plain(1) == 2
    with P.profile() as prof:
        assert plain(1) == 2
        assert str(prof) == "<unfinished torch.autograd.profile>"
    assert [e.name for e in prof.function_events] == ["unseen"] and sys.getprofile() is None
    with pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        prof.__enter__()


def test_chrome_trace(tmp_path: Path) -> None:
    with P.profile(record_shapes=True) as prof, P.record_function("noted"):
        step(T)
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == [e.name for e in prof.function_events]
    assert {e["cat"] for e in spans} == {"cpu_op", "user_annotation"}
    by_name = {e["name"]: e for e in spans}
    forward, backward = by_name["aten::tanh"], by_name["TanhBackward0"]
    assert forward["args"]["Sequence number"] == backward["args"]["Sequence number"]
    assert by_name["aten::mm"]["args"]["Input Dims"][0]
    arrows = {(e["ph"], e["ts"]) for e in events if e.get("cat") == "fwdbwd"}
    assert {("s", forward["ts"]), ("f", backward["ts"])} <= arrows


# ---------------------------------------------------------------- PyTorch's table

TIMES = [  # name, from, to
    ("model", 0, 2_500_000),
    ("aten::mm", 10, 1_510_000),
    ("aten::mul", 1_600_000, 1_602_500),
    ("an operation with a name that has 50 characters too", 1_700_000, 1_700_001),
    ("an operation whose name is as long as the column is wide", 1_800_000, 1_800_000),
    ("aten::mul", 3_000_000, 3_000_250),
]


def events() -> Any:
    Call = sys.modules["nbgrad.autograd._calls"].Call
    found: list[Any] = []
    for k, (name, start, end) in enumerate(TIMES):
        event = P.FunctionEvent(k + 1, Call(name), start)
        event.time_range.end = end
        event.input_shapes = [[2, k]] if "mul" in name else []
        event.self_cpu_memory_usage = (-3, 5_000, 7_000_000, 3_000_000_000, 0, 12)[k]
        if 0 < k < 5:
            event.cpu_parent = found[0]
            found[0].cpu_children.append(event)
        found.append(event)
    return P.EventList(found, profile_memory=True)


def theirs(torch: ModuleType) -> Any:
    util = torch.autograd.profiler_util
    nested = (-3 + 5_000 + 7_000_000 + 3_000_000_000, 5_000, 7_000_000, 3_000_000_000, 0, 12)
    found = util.EventList(
        [
            util.FunctionEvent(
                k + 1,
                name,
                1,
                start,
                end,
                stack=[],
                input_shapes=[[2, k]] if "mul" in name else [],
                cpu_memory_usage=nested[k],
            )
            for k, (name, start, end) in enumerate(TIMES)
        ],
        profile_memory=True,
    )
    found._build_tree()
    return found


@pytest.mark.oracle
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sort_by": "self_cpu_time_total"},
        {"sort_by": "cpu_time", "row_limit": 2},
        {"sort_by": "count", "header": "A title"},
        {"max_name_column_width": 30, "max_shapes_column_width": 6},
        {"top_level_events_only": True},
        {"top_level_events_only": True, "header": "A title"},
    ],
    ids=str,
)
def test_table_is_pytorchs(torch: ModuleType, settings: Any) -> None:
    assert events().table(**settings) == theirs(torch).table(**settings)
    for by_shape in (False, True):
        ours, want = events().key_averages(by_shape), theirs(torch).key_averages(by_shape)
        assert ours.table(**settings) == want.table(**settings)


def test_table() -> None:
    table = P.EventList(events()[1:3]).key_averages().table(sort_by="cpu_time_total", row_limit=1)
    assert table == (
        "-------------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "         Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
        "-------------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "     aten::mm        99.83%        1.510s        99.83%        1.510s        1.510s             1  \n"
        "-------------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "Self CPU time total: 1.512s\n"
    )
    assert P.EventList().table() == ""
    with pytest.raises(AttributeError, match="no attribute 'wrong'"):
        events().table(sort_by="wrong")


# ---------------------------------------------------------------- torch.profiler


@pytest.mark.oracle
@pytest.mark.parametrize(
    "settings",
    [
        dict(wait=1, warmup=1, active=2),
        dict(wait=0, warmup=1, active=1, repeat=2),
        dict(wait=2, warmup=1, active=3, repeat=1, skip_first=2),
        dict(wait=2, warmup=1, active=1, repeat=2, skip_first=1, skip_first_wait=1),
    ],
    ids=str,
)
def test_schedule_is_pytorchs(torch: ModuleType, settings: Any) -> None:
    ours, want = T.profiler.schedule(**settings), torch.profiler.schedule(**settings)
    assert [ours(k).name for k in range(20)] == [want(k).name for k in range(20)]


def test_steps_are_recorded_as_scheduled(tmp_path: Path) -> None:
    ready: list[Any] = []
    write = T.profiler.tensorboard_trace_handler(tmp_path, "worker")

    def on_ready(prof: Any) -> None:
        ready.append((prof.step_num, {e.key: e.count for e in prof.key_averages()}))
        write(prof)

    plan = T.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    with T.profiler.profile(schedule=plan, on_trace_ready=on_ready) as prof:
        for _ in range(12):
            T.sin(T.ones(2))
            prof.step()
    assert ready == [(n, {"ProfilerStep*": 2, "aten::ones": 2, "aten::sin": 2}) for n in (5, 9)]
    assert len(list(tmp_path.glob("worker.*.pt.trace.json"))) == 2
    assert sys.getprofile() is None


def test_without_a_schedule_all_is_recorded() -> None:
    ready: list[Any] = []
    activities = [T.profiler.ProfilerActivity.CPU]
    with T.profiler.profile(activities=activities, on_trace_ready=ready.append) as prof:
        T.ones(2)
        prof.step()
        T.ones(2).sin()
    assert ready == [prof]
    assert [e.name for e in prof.events()] == ["aten::ones", "aten::ones", "aten::sin"]


def refusals(module: ModuleType) -> list[str]:
    profiler = module.profiler
    calls: list[Any] = [
        lambda: profiler.profile().key_averages(),
        lambda: profiler.profile().events(),
        lambda: profiler.profile().stop(),
        lambda: profiler.profile(activities=[]),
        lambda: profiler.schedule(wait=-1, warmup=1, active=1),
        lambda: profiler.schedule(wait=1, warmup=1, active=0),
    ]
    found = []
    for call in calls:
        with pytest.raises(AssertionError) as caught:
            call()
        found.append(str(caught.value))
    return found


@pytest.mark.oracle
def test_refusals_are_pytorchs(torch: ModuleType) -> None:
    assert refusals(T) == refusals(torch)


def test_refusals() -> None:
    assert refusals(T)[0] == "Profiler must be initialized before getting key averages"
    with pytest.warns(UserWarning, match="Profiler won't be using warmup, this can skew profiler results"):
        T.profiler.schedule(wait=0, warmup=0, active=1)
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        T.profiler.profile(activities=[T.profiler.ProfilerActivity.CPU, T.profiler.ProfilerActivity.CUDA])
