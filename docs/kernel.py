"""The page that follows ops from their scalar function to the kernels that run; its texts are the library's own, asked at the build."""

from __future__ import annotations

import inspect

import nbgrad as torch
from nbgrad.expr.node import free_vars
from nbgrad.kernels import templates
from nbgrad.kernels.templates import Operand


@torch.elementwise
def bump(x):
    return x * torch.exp(-x * x)


def source(name: str) -> str:
    return torch.utils.kernels(name)[-1].source.strip()


def run(op, *inputs: torch.Tensor) -> None:
    """Forward, first and second gradient: each builds its kernel."""
    op(*inputs).backward(torch.ones_like(inputs[0]))
    y = op(*inputs)
    (g,) = torch.autograd.grad(y, inputs[0], torch.ones_like(y), create_graph=True)
    torch.autograd.grad(g, inputs[0], torch.ones_like(g))


def for_cuda(op) -> str:
    """The text that Numba gets for a GPU."""
    inputs = tuple(Operand(name, "f4", "v") for name in sorted(free_vars(op.body)))
    text, _ = templates.elementwise(op.name, (op.body,), inputs, ("f4",), "f4", False, "v", "cuda")
    return text.replace("@NAME@", f"{op.name}_f4_v").strip()


def block(title: str, text: str, wrap: bool = False) -> str:
    return f"**{title}**\n\n{'{.wrap}' + chr(10) if wrap else ''}```python\n{text}\n```\n"


def beside(*blocks: str) -> str:
    """Columns where there is room for them, one below the other where not."""
    cells = "\n".join(f":::{{container}}\n\n{cell}\n:::" for cell in blocks)
    return f"::::{{container}} beside\n{cells}\n::::\n"


def reads(op) -> str:
    return ", ".join(f"`{name}`" for name in op.reads(op.params))


def page() -> str:
    x = torch.linspace(-2, 2, 8, requires_grad=True)
    run(bump, x)
    run(torch.tanh, x)
    strided = torch.ones(4, 3).t()
    bump(strided[::2])
    op, tanh = bump.op, torch.tanh.op
    return PAGE.format(
        stanza=block("You write", inspect.getsource(op._body).strip()),
        trace=beside(
            block("Its expression", str(op.body), wrap=True),
            block(
                "Its derivative, times the gradient `g` that arrives",
                str(op.partials["x"]),
                wrap=True,
            ),
        ),
        reads=reads(op),
        kernels=beside(
            block("Forward", source("bump_f4_v_")),
            block("Gradient", source("bump_backward_f4_")),
        ),
        second=block("Gradient of the gradient", source("bump_xgrad_backward_f4")),
        rows=block("Forward, of memory with steps", source("bump_f4_g_rows")),
        tanh=beside(
            block("The stanza of `tanh`", inspect.getsource(tanh._body).strip()),
            block("Its derivative", str(tanh.partials["input"]), wrap=True),
        ),
        tanh_reads=reads(tanh),
        targets=beside(
            block("`tanh` on the CPU", source("tanh_f4_v_")),
            block("`tanh` for CUDA", for_cuda(tanh)),
        ),
    )


PAGE = """---
hide-toc: true
---

# From scalar function to kernel

An elementwise op is one Python function of numbers. What follows from it is shown here with the texts that nbgrad itself makes:
this page asks for them when it is built.

## An op of your own

{stanza}

`elementwise` calls it once, with symbols for numbers. What comes out is an expression, and its derivative by each input is another
one, simplified where that changes no result.

{trace}

The derivative reads {reads}. Just that is saved for backward: had it read the output alone, the input would not be kept.

## Its kernels

Called with float32 in one run of memory, the expression is written out as a loop. Each shared part is computed once. Numba
compiles this text, and it lies in the cache where you can read it; `torch.utils.kernels("bump")` lists all of them.

{kernels}

The gradient is itself an op, whose derivative is taken in the same way, so there is no last order.

{second}

Memory that lies otherwise gets another loop around the same lines. Here each row has a start of its own, and `meta` says where:

{rows}

The function that is run can also be called un-jitted, on NumPy's arrays: `kernel.python()(0, n, out, x)`.

## An op of the library

nbgrad's own ops are made in the same way. A stanza says more only where PyTorch does something else than derivation would, or
where the derived form loses digits.

{tanh}

It is written in the output `y`, as PyTorch's is, so what is saved is {tanh_reads}.

## Two targets

The expression does not say how `tanh` is computed. For the CPU it is a text without branches, so that LLVM makes vector code of
the loop; for CUDA it is a call of CUDA's own library. The second one compiles (a tier of the tests does that), though tensors live
on the CPU for now.

{targets}

`CONTRIBUTING` shows [how to add an op](contributing.md#an-elementwise-op-its-scalar-function).
"""
