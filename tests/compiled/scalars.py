"""Random functions of tensors and Python numbers, called with other numbers each time: `python -m tests.compiled.scalars --programs 300`.

What Python makes of the numbers (arithmetic, `math`, branches, `min`, indices, counts of loops) is random as well, and so are the numbers:
ordinary, special, far too large. Results, gradients and the stream of random numbers have the same bits as those of eager calls.
"""

from __future__ import annotations

import argparse
import math
import random
import warnings
from typing import Any

import nbgrad as T

CALLS = 26
NUMBERS = """
{a} + {b}
{a} * {b}
{a} - 0.5
{a} / 3
1 / ({b} * {b} + 1)
-{a}
abs({a})
{a} ** 2
0.9 ** {b}
min({a}, 2.0)
max({a}, {b})
{a} % 3
{a} // 2
math.cos({a})
math.exp(-{a} * {a})
math.floor({a})
math.fmod({a}, 2)
round({a}, 1)
int({a})
float({a})
1.0 if {a} > {b} else 0.25
{a} if math.isfinite({a}) else 0.0
{a} or 0.5
len([0] * 3) + {a}
sum([{a}, {b}])
sorted([{a}, {b}])[0]
True if {a} else 2
""".strip().splitlines()
TENSORS = """
{t} * {a}
{a} * {t} + {b}
{t} / {a}
{a} / (2 + {t}.sigmoid())
{t} - {a}
{a} - {t}
{t}.add({u}, alpha={a})
{t}.clone().mul_({a}).add_({u}, alpha=1 - {a})
({t} + 0).sub_({u}, alpha={b})
{t}.clamp(min={a})
{t}.lerp({u}, {a})
T.where({t} > {a}, {u}, {b})
{t}.masked_fill({u} > 0, {a})
({t} > {a}).to(T.float32) * {u}
T.full((3, 4), {a}) + {t}
{t} ** 2 * {a}
F.leaky_relu({t}, 0.1) * {a}
F.dropout({t}, 0.25) * {a}
T.rand(3, 4) * {a} + {t}
T.addcmul({t}, {u}, {u}, value={a})
({t} * w * {a}).softmax(1)
{t} + T.tensor([1, 2, 3, 4]) * {a}
{t}[:, -n:].sum(1, keepdim=True) + {u}
{t} * T.tensor({a})
{t}.pow({a}.__class__(2)) * 0.1
{t} * (n + 1)
{t}.sum(n % 2, keepdim=True) * {u}
{t}.roll(n, 1)
""".strip().splitlines()
GIVEN = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1e-30, 1e10, math.inf, math.nan, -0.0, 1e305)


def program(seed: int) -> str:
    r = random.Random(f"scalars {seed}")
    numbers, tensors, lines = ["a", "n"], ["x", "h"], []
    for k in range(r.randint(2, 8)):
        text = r.choice(NUMBERS if r.random() < 0.4 else TENSORS)
        made = text.format(a=r.choice(numbers), b=r.choice(numbers), t=r.choice(tensors), u=r.choice(tensors))
        pool = numbers if text in NUMBERS else tensors
        lines.append(f"v{k} = {made}")
        pool.append(f"v{k}")
        if r.random() < 0.15:
            lines.append(f"if {r.choice(numbers)} > {r.choice(('1', '0.3', 'n', 'a'))}:")
            lines.append(f"    {tensors[-1]} = {tensors[-1]} * 2 + {r.choice(numbers)}")
        elif r.random() < 0.08:
            lines.append(
                f"for j in range(n % 3):\n        {tensors[-1]} = {tensors[-1]} + j * {r.choice(numbers)}"
            )
    results = r.sample(tensors[2:], min(2, len(tensors) - 2)) or ["x + h"]
    return "\n    ".join([*lines, f"return {', '.join(results)},"])


def values(t: Any) -> bytes:
    """But for the signs of NaN, which Python gives now so and now so."""
    array = t.detach().clone().contiguous().numpy()
    array[array != array] = math.nan
    found: bytes = array.tobytes()
    return found


def seen(f: Any, w: Any, seed: int, call: int) -> list[Any]:
    r = random.Random(f"{seed} {call}")
    T.manual_seed(1000 * seed + call)
    x, h = T.randn(3, 4).requires_grad_(), T.randn(3, 4).requires_grad_()
    a = r.choice(GIVEN) if r.random() < 0.2 else r.uniform(-3, 3)
    n = call if seed % 2 else r.choice((0, 1, 2, 3, 5, 8, 2**60))
    told: list[Any] = []
    try:
        results = f(x, h * 1, a, n if seed % 3 else 3)
        told += [(str(t.dtype), t.shape, values(t)) for t in results]
        wanted = [t for t in results if t.requires_grad]
        if wanted:
            sum((t * t).sum() for t in wanted).backward()
    except Exception as error:
        told.append(type(error).__name__ + str(error)[:60])
    told += [None if t.grad is None else values(t.grad) for t in (x, h, w)]
    w.grad = None
    return [*told, x._version, T.rand(2).tolist()]


def difference(seed: int) -> tuple[str, int, bool]:
    """What differs, how many programs were made of it, and whether one has numbers as inputs."""
    made = []
    for _ in range(2):
        T.manual_seed(seed)
        scope: dict[str, Any] = {"T": T, "F": T.nn.functional, "math": math, "__name__": "program"}
        scope["w"] = T.randn(3, 4).requires_grad_()
        exec(f"def program(x, h, a, n):\n    {program(seed)}\n", scope)
        made.append((scope["program"], scope["w"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (eager, here), (plain, there) = made
        compiled = T.compile(plain)
        for call in range(CALLS):
            a, b = seen(eager, here, seed, call), seen(compiled, there, seed, call)
            if a != b:
                at = [k for k, (p, q) in enumerate(zip(a, b)) if p != q]
                shown = [[a[k] for k in at][:2], [b[k] for k in at][:2], compiled.explain()]
                text = f"seed {seed}, call {call}, at {at}: {program(seed)}"
                return "\n".join([text, *map(str, shown)]), 0, False
        told = compiled.explain()
        return "", told.graph_count, "#" in compiled.graph().replace("    # ", "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    count = wrong = inputs = 0
    for seed in range(args.first, args.first + args.programs):
        text, programs, asked = difference(seed)
        count, inputs, wrong = count + (programs > 0), inputs + asked, wrong + bool(text)
        if text:
            print(text[:2500], flush=True)
    print(f"{args.programs} functions, {count} compiled, {inputs} with numbers as inputs, {wrong} differ")


if __name__ == "__main__":
    main()
