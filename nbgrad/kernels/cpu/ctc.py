"""Connectionist temporal classification as source: the logarithm of the sum over all ways of spreading labels over steps.

Promises the ops that an example is one piece of work, forward and backward. Its labels stand with blanks before, between and behind
them; `alpha` holds, for each step and each of these places, the logarithm of the probability of all ways that lead there, which the
gradient meets with that of all ways that lead on. `meta` holds: examples, classes, the blank's class, places of the longest labels,
steps, and whether the gradient of what is impossible is 0.
"""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS

_HEAD = '''"""Connectionist temporal classification, {title}."""
import math
from math import inf
import numpy as np
F = {scalar}


def @NAME@(start, stop, meta, {pointers}):
    batch = meta[0]
    classes = meta[1]
    blank = meta[2]
    wide = meta[3]
    steps = meta[4]
'''

_FORWARD = """    for b in range(start, stop):
        count = inputs[b]
        last = 2 * lengths[b]
        begin = first[b]
        now = b * steps * wide
        if count == 0:
            o[b] = F(-0.0) if last == 0 else F(inf)
        else:
            for s in range(last + 1):
                alpha[now + s] = F(-inf)
            alpha[now] = lp[b * classes + blank]
            if last > 0:
                alpha[now + 1] = lp[b * classes + targets[begin]]
            for t in range(1, count):
                before = now
                now += wide
                row = (t * batch + b) * classes
                for s in range(last + 1):
                    c = targets[begin + s // 2] if s % 2 == 1 else blank
                    a = alpha[before + s]
                    e = F(-inf)
                    f = F(-inf)
                    if s > 0:
                        e = alpha[before + s - 1]
                    if s > 2 and s % 2 == 1:
                        if targets[begin + s // 2 - 1] != c:
                            f = alpha[before + s - 2]
                    top = max(a, e, f)
                    if top == F(-inf):
                        top = F(0)
                    total = math.exp(a - top) + math.exp(e - top) + math.exp(f - top)
                    alpha[now + s] = math.log(total) + top + lp[row + c]
            a = alpha[now + last]
            e = F(-inf)
            if last > 0:
                e = alpha[now + last - 1]
            top = max(a, e)
            if top == F(-inf):
                top = F(0)
            o[b] = -(math.log(math.exp(a - top) + math.exp(e - top)) + top)
"""

_BACKWARD = """    ignoring = meta[5]
    for b in range(start, stop):
        count = inputs[b]
        last = 2 * lengths[b]
        begin = first[b]
        by = g[b]
        loss = nll[b]
        for t in range(steps):
            row = (t * batch + b) * classes
            for c in range(classes):
                o[row + c] = F(-inf) if t < count else F(0)
        for s in range(last + 1):
            beta[b * 2 * wide + s] = F(-inf)
        for back in range(count):
            t = count - 1 - back
            now = (2 * b + back % 2) * wide
            behind = (2 * b + 1 - back % 2) * wide
            row = (t * batch + b) * classes
            for s in range(last + 1):
                c = targets[begin + s // 2] if s % 2 == 1 else blank
                if back == 0:
                    if s >= last - 1:
                        beta[now + s] = lp[row + c]
                else:
                    a = beta[behind + s]
                    e = F(-inf)
                    f = F(-inf)
                    if s < last:
                        e = beta[behind + s + 1]
                    if s < last - 1 and s % 2 == 1:
                        if targets[begin + s // 2 + 1] != c:
                            f = beta[behind + s + 2]
                    top = max(a, e, f)
                    if top == F(-inf):
                        top = F(0)
                    total = math.exp(a - top) + math.exp(e - top) + math.exp(f - top)
                    beta[now + s] = math.log(total) + top + lp[row + c]
                both = alpha[(b * steps + t) * wide + s] + beta[now + s]
                kept = o[row + c]
                top = max(both, kept)
                if top != F(-inf):
                    o[row + c] = math.log(math.exp(both - top) + math.exp(kept - top)) + top
            for c in range(classes):
                p = lp[row + c]
                if ignoring != 0 and loss == F(inf):
                    o[row + c] = F(0)
                else:
                    o[row + c] = (math.exp(p) - math.exp(o[row + c] + loss - p)) * by
"""


@cached(4)
def forward(code: str) -> tuple[str, tuple[str, ...]]:
    """Losses and `alpha`; of each example, `targets` begin at `first`, of `lengths`, and `inputs` are its steps."""
    pointers = "o, alpha, lp, targets, first, inputs, lengths"
    head = _HEAD.format(title="forward", scalar=SCALARS[code], pointers=pointers)
    pointer = "*" + code
    return head + _FORWARD, ("i8", "i8", "*i8", pointer, pointer, pointer, *["*i8"] * 4)


@cached(4)
def backward(code: str) -> tuple[str, tuple[str, ...]]:
    """The gradient by what was a log-softmax: less the softmax itself; `beta` is room for two steps of each example."""
    pointers = "o, beta, g, nll, alpha, lp, targets, first, inputs, lengths"
    head = _HEAD.format(title="backward", scalar=SCALARS[code], pointers=pointers)
    return head + _BACKWARD, ("i8", "i8", "*i8", *["*" + code] * 6, *["*i8"] * 4)
