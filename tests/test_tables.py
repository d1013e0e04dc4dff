"""A part of PyTorch's own tables of modules and optimisers; `python -m tests.tables` runs all of them."""

from types import ModuleType

import pytest

pytestmark = pytest.mark.oracle

NAMES = (
    *("Linear", "Bilinear", "BatchNorm1d", "InstanceNorm2d", "GroupNorm", "LayerNorm", "Embedding", "PReLU"),
    *("NLLLoss", "BCEWithLogitsLoss", "MultiheadAttention", "CircularPad2d", "GLU"),
    *("SGD", "Adam", "AdamW", "RMSprop", "Rprop", "NAdam", "LBFGS"),
)


@pytest.fixture(scope="module")
def tables(torch: ModuleType) -> ModuleType:
    pytest.importorskip("expecttest", reason="PyTorch's tables need it")
    from tests import tables

    return tables


@pytest.mark.parametrize("name", NAMES)
def test_as_in_the_table(tables: ModuleType, torch: ModuleType, name: str) -> None:
    found = list(tables.differences(torch, name, ["float64"]))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name, of", [("Softplus", "nn.Softplus"), ("SGD", "optim.SGD")])
def test_what_is_altered_is_seen(
    tables: ModuleType, torch: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, of: str
) -> None:
    """A checker that finds nothing would pass everything."""
    kind = tables.found(tables.SUBJECT, of)
    call = "forward" if name == "Softplus" else "step"
    right = getattr(kind, call)

    def altered(self, *args):
        if call == "forward":
            return right(self, *args) + 1e-6
        done = right(self, *args)
        with tables.SUBJECT.no_grad():
            self.param_groups[0]["params"][0].add_(1e-6)
        return done

    monkeypatch.setattr(kind, call, altered)
    assert list(tables.differences(torch, name, ["float64"]))
