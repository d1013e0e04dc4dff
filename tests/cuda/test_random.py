"""Random numbers of a device: PyTorch's streams, to the digits that its users publish. In a process of its own."""

from tests.cuda.test_emulated import run

_PROGRAM = """
import numpy as np
import nbgrad as torch

F = torch.nn.functional


def words(seed, offset, thread):
    low = 0xFFFFFFFF
    c, k = [offset // 4 & low, offset // 4 >> 32, thread, 0], [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c


def unit(word):
    return np.float32(word) * np.float32(2**-32) + np.float32(2**-33)


def near(got, want, within=5e-5):
    assert np.abs(np.array(got.tolist()) - want).max() <= within, (got, want)


assert words(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # the authors' own example

torch.manual_seed(0)
near(torch.rand(8, device="cuda"), [0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967, 0.4150, 0.8203])
near(torch.rand(4, device="cuda"), [0.9722, 0.7910, 0.4690, 0.3300])
torch.manual_seed(0)
near(torch.randn(8, device="cuda"), [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797, -0.6229, -0.3284])

seed = 2**63 + 5
torch.cuda.manual_seed(seed)
G, n = 256 * 4, 1000
assert torch.rand(n, device="cuda").tolist() == [unit(words(seed, 0, t)[0]) for t in range(n)]
want = [words(seed, 4, t)[0] % 10 + 3 for t in range(n)]
assert torch.randint(3, 13, (n,), device="cuda").tolist() == want
wide = [((w := words(seed, 8, t))[0] << 32 | w[1]) % 2**40 for t in range(n)]
assert torch.randint(2**40, (n,), device="cuda").tolist() == wide
double = [((w := words(seed, 12, t))[0] ^ w[1] << 21) * 2.0**-53 + 2.0**-54 for t in range(n)]
assert torch.rand(n, device="cuda", dtype=torch.float64).tolist() == double
chance = [float(unit(words(seed, 16, t)[0]) < np.float32(0.3)) for t in range(n)]
assert torch.empty(n, device="cuda").bernoulli_(0.3).tolist() == chance
kept = [2.0 * (unit(words(seed, 20, t // 4)[t % 4]) < 0.5) for t in range(n)]
assert F.dropout(torch.ones(n, device="cuda"), 0.5).tolist() == kept
apart = [1.25 * float(unit(words(seed, 24, t)[0]) < np.float32(0.8)) for t in range(n - 1)]
near(F.dropout(torch.ones(n - 1, device="cuda"), 0.2), apart, 1e-7)
near(torch.empty(n, device="cuda").exponential_(2), [-np.log(unit(words(seed, 28, t)[0])) / 2 for t in range(n)], 1e-6)

state = torch.cuda.get_rng_state()
assert state.numpy().view(np.uint64).tolist() == [seed, 32]
first = torch.rand(3, device="cuda").tolist()
torch.cuda.set_rng_state(state)
assert torch.rand(3, device="cuda").tolist() == first

g = torch.Generator(device="cuda").manual_seed(0)
near(torch.rand(2, generator=g, device="cuda"), [0.3990, 0.5167])
near(torch.empty(2, device="cuda").normal_(generator=g.manual_seed(0)), [-0.9247, -0.4253])
many = torch.randn(300000, device="cuda")  # more than the grid has threads
assert abs(float(many.mean())) < 0.01 and abs(float(many.std()) - 1) < 0.01
assert torch.randn(300000, device="cuda").unique().numel() > 299000
assert sorted(torch.randperm(50, device="cuda").tolist()) == list(range(50))
assert set(torch.multinomial(torch.tensor([0.0, 1.0, 1.0], device="cuda"), 40, replacement=True).tolist()) == {1, 2}
assert torch.bernoulli(torch.tensor([0.0, 1.0], device="cuda")).tolist() == [0, 1]
assert torch.empty(3, 2, device="cuda").t().uniform_(2, 3).min() >= 2

for call, words in (
    (lambda: torch.rand(2, generator=torch.Generator(), device="cuda"), "Expected a 'cuda' device type"),
    (lambda: torch.rand(2, generator=g), "Expected a 'cpu' device type"),
    (lambda: torch.zeros(2).uniform_(generator=g), "Expected a 'cpu' device type"),
    (lambda: torch.poisson(torch.tensor([2.0, -1.0], device="cuda")).tolist(), "invalid Poisson rate, expected rate to be non-neg"),
):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
    else:
        print("not refused:", words)
"""


def test_numbers_are_those_of_pytorch() -> None:
    for emulate in "1", "deferred":
        assert run("-c", _PROGRAM, emulate=emulate) == ""


_COUNTS = """
import nbgrad as torch

there, nan = {"device": "cuda"}, float("nan")
torch.cuda.manual_seed(3)


def moments(drawn, mean, variance):
    x, n = drawn.double(), drawn.numel()
    assert abs(float(x.mean()) - mean) < 5 * (variance / n) ** 0.5, (x.mean(), mean)
    assert abs(float(x.var()) / variance - 1) < 0.1, (x.var(), variance)


def full(*values, n=20000, **named):
    return [torch.full((n,), v, **there, **named) for v in values]


for rate in 0.5, 5.0, 30.0, 1000.0:
    moments(torch.poisson(*full(rate)), rate, rate)
for count, p in (5.0, 0.3), (5.0, 0.8), (100.0, 0.4), (1000.0, 0.97):
    moments(torch.binomial(*full(count, p)), count * p, count * p * (1 - p))
for alpha in 0.3, 1.0, 7.0, 500.0:
    for dtype in torch.float32, torch.float64:
        moments(torch._standard_gamma(*full(alpha, dtype=dtype)), alpha, alpha)
shares = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 7.0], **there).expand(20000, 3))
assert torch.allclose(shares.sum(1), torch.ones(20000, **there))
for k, a in enumerate((1, 2, 7)):
    moments(shares[:, k], a / 10, a * (10 - a) / 1100)

# each element has words of its own, each call others, and a seed brings them back
torch.cuda.manual_seed(3)
first, then = [torch._standard_gamma(*full(2.0, n=1000)) for _ in range(2)]
assert torch.cuda.get_rng_state().view(torch.int64).tolist() == [3, 8]
assert torch.cat([first, then, torch.rand(1000, **there)]).unique().numel() > 2990
torch.cuda.manual_seed(3)
assert torch.equal(first, torch._standard_gamma(*full(2.0, n=1000)))

# what no number can be drawn for ends, too
assert torch.binomial(torch.tensor([nan, 5.0, -1.0], **there), torch.tensor([0.5, nan, 0.5], **there)).isnan().tolist() == [1, 1, 0]
assert torch.poisson(torch.tensor([float("inf")], **there)).isnan().all()
a = torch.tensor([2.0, 3.0], **there, requires_grad=True)
torch.distributions.Gamma(a, 1.0).rsample((3,)).sum().backward()
assert a.grad.shape == (2,) and (a.grad > 0).all()
assert torch.poisson(torch.ones(4, 2, **there).t().half()).dtype is torch.float16
assert torch.poisson(torch.ones(3, 0, **there)).shape == (3, 0)
assert torch._sample_dirichlet(torch.ones(2, 3, device="meta")).shape == (2, 3)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.poisson(*full(100.0, n=8))
graph.replay()
before = y.tolist()
graph.replay()
assert before != y.tolist()
"""


def test_counts_are_drawn_on_the_device() -> None:
    for emulate in "1", "deferred":
        assert run("-c", _COUNTS, emulate=emulate) == ""
