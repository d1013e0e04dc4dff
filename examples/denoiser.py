"""Take the noise off pictures with a small U-Net: convolutions that go down to a quarter of the size and up again, and ways across.

The pictures are discs and bars, drawn here. Prints the mean square of the noise before, and of what is left of it in pictures that
were not trained on. The plot is a grid: the pictures, what the network is given, what it makes of that.

$ python examples/denoiser.py
noise 0.0832   left 0.0074
$ python examples/denoiser.py --short
noise 0.0835   left 0.0166
"""

import argparse

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F

SIZE = 24


def drawn(n: int) -> torch.Tensor:
    """Pictures of a disc and a bar each, of grey values from 0 to 1."""
    place = torch.arange(SIZE, dtype=torch.float32)
    y, x = place[:, None], place
    top, left, grey = torch.rand(3, n, 1, 1) * torch.tensor([SIZE, SIZE, 0.5]).view(3, 1, 1, 1)
    disc = ((y - top) ** 2 + (x - left) ** 2 < (3 + 3 * torch.rand(n, 1, 1)) ** 2) * (grey + 0.5)
    angle, way = torch.rand(2, n, 1, 1) * torch.tensor([3.1416, SIZE]).view(2, 1, 1, 1)
    bar = ((y - SIZE / 2) * angle.cos() + (x - way) * angle.sin()).abs() < 1.5
    return torch.maximum(disc, bar * (1 - grey)).unsqueeze(1)


def noise(like: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(like) - 0.5


def layer(inputs: int, outputs: int) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, wide: int = 12) -> None:
        super().__init__()
        self.first, self.second = layer(1, wide), layer(wide, 2 * wide)
        self.middle = nn.Sequential(layer(2 * wide, 4 * wide), layer(4 * wide, 2 * wide))
        self.up_to_second = nn.ConvTranspose2d(2 * wide, 2 * wide, kernel_size=2, stride=2)
        self.after_second = layer(4 * wide, wide)
        self.up_to_first = nn.Upsample(scale_factor=2, mode="bilinear")
        self.last = nn.Sequential(layer(2 * wide, wide), nn.Conv2d(wide, 1, kernel_size=1))

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        """The noise, as the network sees it, taken off."""
        first = self.first(noisy)
        second = self.second(F.max_pool2d(first, 2))
        middle = self.up_to_second(self.middle(F.max_pool2d(second, 2)))
        up = self.after_second(torch.cat([middle, second], dim=1))
        return noisy - self.last(torch.cat([self.up_to_first(up), first], dim=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="60 steps")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--plot", default="denoiser.png", help="where the plot goes")
    args = parser.parse_args()
    steps = 60 if args.short else args.steps

    torch.manual_seed(0)
    net = UNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        pictures = drawn(16)
        loss = F.mse_loss(net(pictures + noise(pictures)), pictures)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress(step, steps, f"step {step:3d}/{steps}   loss {loss.item():.4f}")

    net.eval()
    with torch.no_grad():
        pictures = drawn(64)
        noisy = pictures + noise(pictures)
        cleaned = net(noisy)
    rows = torch.stack([pictures[:8], noisy[:8], cleaned[:8]]).squeeze(2).clamp(0, 1)
    tiles = F.pad(rows, (0, 1, 0, 1), value=1.0).permute(0, 2, 1, 3).reshape(3 * (SIZE + 1), -1)
    save_plot(
        args.plot,
        lambda axes: (
            axes.imshow(tiles.numpy(), cmap="gray") and axes.set(title="Pictures, with noise, without")
        ),
    )
    before, left = (F.mse_loss(t, pictures).item() for t in (noisy, cleaned))
    print(f"noise {before:.4f}   left {left:.4f}")
    assert left < before / (4 if args.short else 8)


if __name__ == "__main__":
    main()
