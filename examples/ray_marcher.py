"""Find what a picture shows: rays are marched through a scene by plain loops, and the adjoint says how to change the scene.

Each pixel's ray goes as far as nothing can be in its way, until it meets one of two balls or the floor, whose light it takes; rays that
pass by a ball closely glow, so that outlines have gradients as well. From a picture alone the balls' places and sizes and the light's
height are fitted by Adam. The plot shows the picture, the first guess and what was found.

$ python examples/ray_marcher.py
light 1.2, a pixel's error 0.015, of the first guess 0.082
$ python examples/ray_marcher.py --short
light 1.2, a pixel's error 0.016, of the first guess 0.080
"""

import argparse
import math

import numpy as np
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch


@torch.differentiable
def picture(balls, light, size):
    """What is seen of balls (x, z, radius) that lie on a floor, by light from the left at a height."""

    def nearest(px, py, pz):
        d = py  # the floor
        for b in range(len(balls)):
            r = balls[b, 2]
            away = math.sqrt((px - balls[b, 0]) ** 2 + (py - r) ** 2 + (pz - balls[b, 1]) ** 2) - r
            d = min(d, away)
        return d

    image = np.empty((size, size))
    length = math.sqrt(1.5 + light * light)
    lx, ly, lz = -1.0 / length, light / length, -math.sqrt(0.5) / length
    for i in range(size):
        for j in range(size):
            dx, dy, dz = (j + 0.5) / size - 0.5, 0.3 - (i + 0.5) / size, 1.0
            norm = math.sqrt(dx * dx + dy * dy + dz * dz)
            dx, dy, dz = dx / norm, dy / norm, dz / norm
            far, closest = 0.0, 1e9
            for _ in range(60):
                px, py, pz = far * dx, 1.1 + far * dy, far * dz - 3.0
                d = nearest(px, py, pz)
                if d < 1e-4 or far > 12.0:
                    break
                if py > d:  # it is a ball that is near
                    closest = min(closest, d / (0.1 + far))
                far += d
            px, py, pz = far * dx, 1.1 + far * dy, far * dz - 3.0
            glow = 0.4 * math.exp(-40.0 * closest)
            if far > 12.0:
                image[i, j] = 0.1 + glow
            else:
                h = 1e-4
                here = nearest(px, py, pz)
                nx = (nearest(px + h, py, pz) - here) / h
                ny = (nearest(px, py + h, pz) - here) / h
                nz = (nearest(px, py, pz + h) - here) / h
                shade = max(nx * lx + ny * ly + nz * lz, 0.0)
                image[i, j] = 0.1 + 0.8 * shade + glow
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a small picture")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", default="ray_marcher.png", help="where the plot goes")
    args = parser.parse_args()
    size = 24 if args.short else 64

    true = np.array([[-0.6, 0.5, 0.55], [0.7, 0.2, 0.4]])
    seen = torch.from_numpy(picture(true, 1.2, size))
    balls = torch.tensor([[-0.5, 0.3, 0.5], [0.6, 0.3, 0.45]], dtype=torch.float64, requires_grad=True)
    light = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([balls, light], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    first = picture(balls, light, size).detach()
    for step in range(1, args.steps + 1):
        loss = ((picture(balls, light, size) - seen) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress(step, args.steps, f"step {step:3d}/{args.steps}   loss {loss.item():.6f}")

    with torch.no_grad():
        found = picture(balls, light, size)
        before, error = ((p - seen).abs().mean().item() for p in (first, found))
    shown = torch.cat([seen, first, found], 1).numpy()
    save_plot(args.plot, lambda axes: axes.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0))
    print(f"light {light.item():.1f}, a pixel's error {error:.3f}, of the first guess {before:.3f}")


if __name__ == "__main__":
    main()
