"""A tour of autograd in PyTorch's words: gradients, graphs, views, hooks, higher orders, a function of one's own.

Prints each step as a line of Python with what it gives.

$ python examples/autograd_tour.py
y.backward(); x.grad                                   tensor([ 0.,  4.,  8., 12.])
derivative 3 of sin at 0.5                             -0.877583
torch.autograd.gradcheck(Cube.apply, x)                True
tour complete
$ python examples/autograd_tour.py --short
y.backward(); x.grad                                   tensor([ 0.,  4.,  8., 12.])
tour complete
"""

import argparse

import nbgrad as torch


def show(text: str, value: object) -> None:
    print(f"{text:<54} {value}")


class Cube(torch.autograd.Function):
    """A differentiable function with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def gradients() -> None:
    print("\n# Gradients")
    x = torch.arange(4.0, requires_grad=True)
    y = 2 * torch.dot(x, x)
    show("y = 2 * torch.dot(x, x)", y)
    y.backward()
    show("y.backward(); x.grad", x.grad)
    (x.sum()).backward()
    show("x.sum().backward(); x.grad   # gradients add up", x.grad)
    with torch.no_grad():
        show("(x * 2).requires_grad        # under no_grad", (x * 2).requires_grad)
    show("x.detach().requires_grad", x.detach().requires_grad)


def graph() -> None:
    print("\n# The graph")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    show("y.grad_fn.name()", y.grad_fn.name())
    show("y.grad_fn.next_functions[0][0].name()", y.grad_fn.next_functions[0][0].name())
    y.backward()
    try:
        y.backward()
    except RuntimeError as error:
        show("y.backward()                 # a second time", str(error).split(".")[0])


def views() -> None:
    print("\n# Views and writes in place")
    x = torch.zeros(2, 3, requires_grad=True)
    y = x * 1
    y[0] = torch.tensor([1.0, 2.0, 3.0])
    y[:, 1] *= 10
    show("y[0] = ...; y[:, 1] *= 10; y", y.tolist())
    y.sum().backward()
    show("x.grad", x.grad.tolist())
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    c = b * b
    b.add_(1)
    try:
        c.sum().backward()
    except RuntimeError as error:
        show("b * b, then b.add_(1), then backward", str(error).split(":")[0])


def hooks() -> None:
    print("\n# Hooks")
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    y.sum().backward()
    show("y.register_hook(lambda g: g * 10); x.grad", x.grad)


def orders() -> None:
    print("\n# Higher orders")
    x = torch.tensor(0.5, requires_grad=True, dtype=torch.float64)
    y = torch.sin(x)
    for order in range(1, 5):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        show(f"derivative {order} of sin at 0.5", round(y.item(), 6))


def own_function() -> None:
    print("\n# A function of one's own")
    x = torch.tensor([1.0, 2.0], requires_grad=True, dtype=torch.float64)
    Cube.apply(x).sum().backward()
    show("Cube.apply(x).sum().backward(); x.grad", x.grad.tolist())
    show("torch.autograd.gradcheck(Cube.apply, x)", torch.autograd.gradcheck(Cube.apply, x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="gradients and the graph only")
    short = parser.parse_args().short
    for part in (gradients, graph) if short else (gradients, graph, views, hooks, orders, own_function):
        part()
    print("\ntour complete")


if __name__ == "__main__":
    main()
