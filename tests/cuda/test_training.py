"""Training steps on a device that the CPU plays, beside those on the CPU."""

from tests.cuda.test_emulated import run

OPTIMISERS = """
import io
import nbgrad as torch
from nbgrad import nn

def losses(name, device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimiser = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)
    x, y = torch.randn(6, 4).to(device), torch.randint(0, 3, (6,)).to(device)
    found = []
    for turn in range(4):
        if turn == 2:  # a state that went to the CPU and back
            file = io.BytesIO()
            torch.save(optimiser.state_dict(), file)
            file.seek(0)
            optimiser.load_state_dict(torch.load(file, map_location="cpu"))
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    for p, state in optimiser.state.items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):  # as in PyTorch, steps are counted on the CPU unless they are to be captured
                assert value.device == (torch.device("cpu") if key == "step" else p.device), (name, key)
    return found

for name in "SGD Adam AdamW RMSprop Adagrad Adadelta NAdam RAdam Adamax Rprop ASGD".split():
    for a, b in zip(losses(name, "cpu"), losses(name, "cuda"), strict=True):
        assert abs(a - b) < 1e-6, name
"""


def test_every_optimiser_steps_as_on_the_cpu() -> None:
    for emulate in ("1", "deferred"):
        run("-c", OPTIMISERS, emulate=emulate)


CAPTURED = """
import nbgrad as torch
from nbgrad import nn

def made(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
    return model, torch.optim.Adam(model.parameters(), lr=0.01, **options)

def step(model, optimiser, x):
    optimiser.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()
    return loss

torch.manual_seed(1)
inputs, y = [torch.randn(6, 4) for _ in range(6)], torch.tensor([0, 1, 2, 0, 1, 2]).cuda()
both = made(capturable=True)
want = [step(*both, x.cuda()).item() for x in inputs]
both, x = made(capturable=True), inputs[0].cuda()
got, side, graph = [], torch.cuda.Stream(), torch.cuda.CUDAGraph()
with torch.cuda.stream(side):
    for k in range(3):
        got.append(step(*both, x.copy_(inputs[k])).item())
torch.cuda.current_stream().wait_stream(side)
both[1].zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = step(*both, x)
for k in range(3, 6):
    x.copy_(inputs[k])
    graph.replay()
    got.append(loss.item())
assert got == want, (got, want)
both = made()
step(*both, x)
with torch.cuda.graph(graph):
    try:
        step(*both, x)
    except RuntimeError as error:
        assert "capture of step() for an instance of Adam but param_groups' capturable is False." in str(error)
    else:
        raise AssertionError
"""


def test_a_whole_step_is_captured() -> None:
    for emulate in ("1", "deferred"):
        run("-c", CAPTURED, emulate=emulate)
