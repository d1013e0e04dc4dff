"""Learn to keep a pole upright on a cart that is pushed to the left or the right: REINFORCE, with a mean as the baseline.

The cart is built in, the classic one: 0.02 s a step, a push of 10 N, over when the pole leans by 12 degrees or the cart is 2.4 m away, at
most 200 steps. Sixteen carts run side by side. Prints how many steps the pole stays up, before and after. The plot
shows that number as it grows.

$ python examples/cart_pole.py
steps upright: 19 before, 200 after
$ python examples/cart_pole.py --short
steps upright: 19 before, 52 after
"""

import argparse

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F

CARTS, MOST = 16, 200


def moved(state: torch.Tensor, push: torch.Tensor) -> torch.Tensor:
    """Place, speed, angle and turn of each cart (rows) a step later, pushed by -1 or 1 times 10 N."""
    speed, angle, turn = state[:, 1:].unbind(1)
    sine, cosine = angle.sin(), angle.cos()
    force = (10.0 * push + 0.05 * turn**2 * sine) / 1.1
    bend = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    steps = torch.stack([speed, force - 0.05 * bend * cosine / 1.1, turn, bend], dim=1)
    return state + 0.02 * steps


def played(policy: nn.Module) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What each cart did until its pole fell: states, whether it was pushed to the right, and whether it was still up."""
    state = 0.1 * torch.rand(CARTS, 4) - 0.05
    up = torch.ones(CARTS, dtype=torch.bool)
    states, pushes, ups = [], [], []
    while up.any() and len(ups) < MOST:
        with torch.no_grad():
            push = (torch.rand(CARTS) < policy(state).sigmoid()[:, 0]).double()
        states.append(state)
        pushes.append(push)
        ups.append(up)
        state = moved(state, 2 * push - 1)
        up = up & (state[:, 0].abs() < 2.4) & (state[:, 2].abs() < 0.2094)
    return torch.stack(states), torch.stack(pushes), torch.stack(ups)


def returns(up: torch.Tensor, discount: float = 0.98) -> torch.Tensor:
    """Of each step what it led to: one for every later step that the pole was up, the farther off the less."""
    found, after = [], torch.zeros(CARTS)
    for now in up.double().flip(0):
        after = now * (1 + discount * after)
        found.append(after)
    return torch.stack(found[::-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="12 rounds")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--plot", default="cart_pole.png", help="where the plot goes")
    args = parser.parse_args()
    rounds = 12 if args.short else args.rounds

    torch.set_default_dtype(
        torch.float64
    )  # what a rounding changes grows as poles fall: in float32, to other games
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    lengths = []
    for k in range(1, rounds + 1):
        states, pushes, up = played(policy)
        worth = returns(up)
        worth = (worth - worth[up].mean()) / (worth[up].std() + 1e-6)
        log_chances = -F.binary_cross_entropy_with_logits(policy(states)[..., 0], pushes, reduction="none")
        loss = -(log_chances * worth)[up].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(up.sum().item() / CARTS)
        progress(k, rounds, f"round {k:2d}/{rounds}   steps upright {lengths[-1]:5.1f}")

    after = sum(lengths[-4:]) / 4
    save_plot(
        args.plot,
        lambda axes: axes.plot(lengths) and axes.set(xlabel="round", ylabel="steps", title="Steps upright"),
    )
    print(f"steps upright: {lengths[0]:.0f} before, {after:.0f} after")
    assert after > (30 if args.short else 150)


if __name__ == "__main__":
    main()
