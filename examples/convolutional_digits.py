"""Read handwritten digits of 8 x 8 pixels with a small convolutional network: batch norms, pooling, dropout.

The digits are those of digits.py: scikit-learn's where that is installed, else, or with --generated, drawn here. The plot shows what
the first layer looks for.

$ python examples/convolutional_digits.py --generated
accuracy on digits not trained on: 96.9%
$ python examples/convolutional_digits.py --generated --short
accuracy on digits not trained on: 94.2%
"""

import argparse

from digits import digits, readings
from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F
from nbgrad.utils.data import DataLoader, random_split


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.features = nn.Sequential(
            self.first,
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, kernel_size=3),
            nn.ReLU(),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 2 * 2, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images.unsqueeze(1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="2 epochs")
    parser.add_argument("--generated", action="store_true", help="draw the digits, even with scikit-learn")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--plot", default="convolutional_digits.png", help="where the plot goes")
    args = parser.parse_args()
    epochs = 2 if args.short else args.epochs

    torch.manual_seed(0)
    training, unseen = random_split(digits(args.generated), [0.8, 0.2])
    images, labels = next(iter(DataLoader(unseen, batch_size=len(unseen))))
    net = Network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        for x, y in DataLoader(training, batch_size=32, shuffle=True):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = (readings(net, images) == labels).float().mean().item()
        progress(epoch, epochs, f"epoch {epoch}/{epochs}   loss {loss.item():.4f}   accuracy {right:6.1%}")

    looks_for = net.first.weight.detach().reshape(4, 4, 3, 3).permute(0, 2, 1, 3)
    tiles = F.pad(looks_for, (0, 1, 0, 0, 0, 1)).reshape(16, 16)
    save_plot(
        args.plot,
        lambda axes: axes.imshow(tiles.numpy(), cmap="gray") and axes.set(title="The first layer's weights"),
    )
    print(f"accuracy on digits not trained on: {right:.1%}")
    assert right > 0.9


if __name__ == "__main__":
    main()
