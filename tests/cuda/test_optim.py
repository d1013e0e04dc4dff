"""Steps of every optimiser on a device, and what they send there. In a process of its own."""

from tests.cuda.test_emulated import run

_PROGRAM = """
import warnings
import nbgrad as torch
from nbgrad.memory import backend

warnings.simplefilter("ignore")
optim, there = torch.optim, torch.device("cuda", 0)
driver = backend.of(there).driver


def stepped(where, make, steps=4, late=False):
    torch.manual_seed(0)
    start = [torch.randn(3, 4), torch.randn(300), torch.randn(2, 2).double()]
    grads = [[torch.randn_like(t) for t in start] for _ in range(steps)]
    params = [t.to(where).requires_grad_() for t in start]
    optimizer = make(params)
    for k, given in enumerate(grads):
        for j, (p, g) in enumerate(zip(params, given)):
            p.grad = None if late and j == 1 and k == 0 else g.to(where)  # that counts one step less
        optimizer.step()
    return [p.detach().cpu() for p in params], optimizer


ALL = {
    "Adadelta": {}, "Adagrad": {}, "Adam": {"amsgrad": True, "weight_decay": 0.1}, "AdamW": {}, "Adamax": {}, "ASGD": {},
    "NAdam": {}, "RAdam": {}, "RMSprop": {"momentum": 0.5, "centered": True}, "Rprop": {},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
}
MORE = [(name, more, late) for name, more in ALL.items() for late in (False, True)]
MORE += [("Adam", {"capturable": True}, False), ("Adam", {"fused": True}, True), ("AdamW", {"foreach": True}, False)]
for name, more, late in MORE:
    kind = getattr(optim, name)
    got, on_device = stepped(there, lambda params: kind(params, **more), late=late)
    want, _ = stepped("cpu", lambda params: kind(params, **{**more, "capturable": False} if "capturable" in more else more), late=late)
    for g, w in zip(got, want):
        assert torch.allclose(g, w, rtol=1e-6, atol=1e-7), (name, more, late, g, w)
    for state in on_device.state.values():
        if "step" in state:
            counted = "cuda" if more.get("capturable") or more.get("fused") else "cpu"
            assert state["step"].device.type == counted, (name, state["step"].device)

p = torch.ones(5, 5, device=there).requires_grad_()
p.grad = torch.ones_like(p)
optimizer = optim.Adam([p])
for _ in range(3):
    optimizer.step()
before = driver.uploads, driver.downloads
for _ in range(5):
    optimizer.step()
assert (driver.uploads, driver.downloads) == before, (before, driver.uploads, driver.downloads)
assert optimizer.state[p]["step"].item() == 8
"""


def test_steps_are_those_of_the_cpu() -> None:
    for emulate in "1", "deferred":
        assert run("-c", _PROGRAM, emulate=emulate) == ""
