"""Read handwritten digits of 8 x 8 pixels with a multilayer perceptron, and keep what it has learned in a file.

The digits are the 1797 of scikit-learn where that is installed; else, or with --generated, as many drawn here: a small
font, shifted by a pixel, faded and noisy. The plot shows which digit is taken for which.

$ python examples/digits.py --generated
accuracy on digits not trained on: 94.7%; of the network read from its file: 94.7%
$ python examples/digits.py --generated --short
accuracy on digits not trained on: 92.5%; of the network read from its file: 92.5%
$ python examples/digits.py  # needs sklearn
accuracy on digits not trained on: 98.3%; of the network read from its file: 98.3%
"""

import argparse
import os
import tempfile

from support.plot import save_plot
from support.progress import progress

import nbgrad as torch
from nbgrad import nn
from nbgrad.nn import functional as F
from nbgrad.utils.data import DataLoader, TensorDataset, random_split

# Five rows of three pixels for each digit.
FONT = """111 010 111 111 101 111 111 111 111 111
101 110 001 001 101 100 100 001 101 101
101 010 111 111 111 111 111 010 111 111
101 010 100 001 001 001 101 010 101 001
111 111 111 111 001 111 111 010 111 111"""


def generated(n: int) -> TensorDataset:
    rows = [line.split() for line in FONT.splitlines()]
    glyphs = torch.tensor([[[float(bit) for bit in row[digit]] for row in rows] for digit in range(10)])
    labels = torch.randint(0, 10, (n,))
    images = torch.zeros(n, 8, 8)
    for image, label in zip(images, labels.tolist()):
        top, left = torch.randint(1, 3, (2,)).tolist()
        image[top : top + 5, left : left + 3] = glyphs[label] * (0.5 + 0.5 * torch.rand(()))
    return TensorDataset(images + 0.15 * torch.randn(n, 8, 8), labels)


def digits(generate: bool) -> TensorDataset:
    if not generate:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            print("scikit-learn is not installed: the digits are generated")
        else:
            data = load_digits()
            return TensorDataset(torch.tensor(data.images / 16).float(), torch.tensor(data.target))
    return generated(1797)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))


@torch.no_grad()
def readings(net: nn.Module, images: torch.Tensor) -> torch.Tensor:
    net.eval()
    seen = net(images).argmax(dim=1)
    net.train()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="10 epochs")
    parser.add_argument("--generated", action="store_true", help="draw the digits, even with scikit-learn")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default="digits.png", help="where the plot goes")
    args = parser.parse_args()
    epochs = 10 if args.short else args.epochs

    torch.manual_seed(args.seed)
    training, unseen = random_split(digits(args.generated), [0.8, 0.2])
    images, labels = next(iter(DataLoader(unseen, batch_size=len(unseen))))
    net = perceptron()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    for epoch in range(1, epochs + 1):
        for x, y in DataLoader(training, batch_size=32, shuffle=True):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        right = (readings(net, images) == labels).float().mean()
        text = f"epoch {epoch:3d}/{epochs}   loss {loss.item():.4f}   accuracy {right:6.1%}"
        progress(epoch, epochs, text)

    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "digits.pt")
        torch.save(net.state_dict(), file)
        again = perceptron()
        again.load_state_dict(torch.load(file))
    seen, seen_again = readings(net, images), readings(again, images)

    taken = torch.zeros(10, 10).index_put_((labels, seen), torch.ones(len(labels)), accumulate=True)
    save_plot(
        args.plot,
        lambda axes: (
            axes.imshow(taken.numpy()) and axes.set(xlabel="read as", ylabel="digit", title="Digits")
        ),
    )
    right, again = ((s == labels).float().mean().item() for s in (seen, seen_again))
    print(f"accuracy on digits not trained on: {right:.1%}; of the network read from its file: {again:.1%}")
    assert again == right >= (0.85 if args.short else 0.93)


if __name__ == "__main__":
    main()
