"""Read what nbgrad runs: the source of an op's kernel and of its gradient's kernel.

Prints both as Python, where they lie on disk, and that the un-jitted source gives what the compiled kernel gave. (nbgrad's own.)

$ python examples/read_the_kernel.py
un-jitted against compiled: 0.0e+00
$ python examples/read_the_kernel.py --short
un-jitted against compiled: 0.0e+00
"""

import argparse

import numpy as np

import nbgrad as torch


@torch.elementwise
def bump(x):
    return x * torch.exp(-x * x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="print file names instead of sources")
    short = parser.parse_args().short

    x = torch.linspace(-2, 2, 9, requires_grad=True)
    y = bump(x)
    y.backward(torch.ones(9))

    for kernel in torch.utils.kernels("bump"):
        print(f"# {kernel.path}")
        if not short:
            print(kernel.source)

    forward = torch.utils.kernels("bump_f4")[0]
    out = np.empty(9, np.float32)
    forward.python()(0, 9, out, x.detach().numpy())
    difference = np.abs(out - y.detach().numpy()).max()
    print(f"un-jitted against compiled: {difference:.1e}")
    assert difference < 1e-6


if __name__ == "__main__":
    main()
