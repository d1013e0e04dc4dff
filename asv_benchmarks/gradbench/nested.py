"""GradBench's programs that have derivatives inside of what is minimized, each of both forwards or backwards.

A slope is what was generated for a function, called as any function is: with the descents it becomes one compiled text.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

from nbgrad import differentiable


def square(x):
    return x * x


square_adjoint = differentiable(square).adjoint(float)


def double(x):
    return square_adjoint(x, 1.0)[1]


def potential(x, y, w):
    near = math.sqrt((x - 10.0) ** 2 + (y - 10.0 + w) ** 2)
    far = math.sqrt((x - 10.0) ** 2 + y * y)
    return 1.0 / near + 1.0 / far


potential_adjoint = differentiable(potential).adjoint(float, float, float, wrt=("x", "y"))
potential_tangent = differentiable(potential).tangent(float, float, float, wrt=("x", "y"))


def pull_reverse(x, y, w):
    _, by_x, by_y = potential_adjoint(x, y, w, 1.0)
    return by_x, by_y


def pull_forward(x, y, w):
    _, by_x = potential_tangent(x, y, w, 1.0, 0.0)
    _, by_y = potential_tangent(x, y, w, 0.0, 1.0)
    return by_x, by_y


def path(w, pull):
    """Where a particle that two charges repel crosses the axis, squared; `pull` is the slope of their potential."""
    x, y, vx, vy = 0.0, 8.0, 0.75, 0.0
    dt = 0.1
    by_x, by_y = pull(x, y, w)
    next_x, next_y = x + dt * vx, y + dt * vy
    while next_y > 0.0:
        x, y = next_x, next_y
        vx -= dt * by_x
        vy -= dt * by_y
        by_x, by_y = pull(x, y, w)
        next_x, next_y = x + dt * vx, y + dt * vy
    landed = x - y / vy * vx
    return landed * landed


def difference(x1, y1, x2, y2):
    return (x1 * x1 + y1 * y1) - (x2 * x2 + y2 * y2)


difference_adjoint = differentiable(difference).adjoint(float, float, float, float, wrt=("x2", "y2"))
difference_tangent = differentiable(difference).tangent(float, float, float, float, wrt=("x2", "y2"))


def down_reverse(x1, y1, x2, y2):
    _, by_x, by_y = difference_adjoint(x1, y1, x2, y2, 1.0)
    return -by_x, -by_y


def down_forward(x1, y1, x2, y2):
    _, by_x = difference_tangent(x1, y1, x2, y2, 1.0, 0.0)
    _, by_y = difference_tangent(x1, y1, x2, y2, 0.0, 1.0)
    return -by_x, -by_y


_CLOSE = 1e-5  # gradients and steps below it end a descent


def descended(value, slope, x1, y1, x, y):
    """Naive descent: steps grow after ten that lead down, and shrink after one that does not."""
    best = value(x1, y1, x, y)
    gx, gy = slope(x1, y1, x, y)
    good = 0
    rate = 1e-5
    going = math.sqrt(gx * gx + gy * gy) > _CLOSE
    while going:
        if good == 10:
            rate *= 2.0
            good = 0
        else:
            nx, ny = x - rate * gx, y - rate * gy
            if math.sqrt((x - nx) ** 2 + (y - ny) ** 2) <= _CLOSE:
                going = False
            else:
                reached = value(x1, y1, nx, ny)
                if reached < best:
                    x, y, best = nx, ny, reached
                    gx, gy = slope(x1, y1, x, y)
                    good += 1
                    going = math.sqrt(gx * gx + gy * gy) > _CLOSE
                else:
                    rate /= 2.0
                    good = 0
    return x, y


def against(x1, y1, x2, y2):
    return -difference(x1, y1, x2, y2)


def highest(x1, y1, start_x, start_y, slope):
    """The greatest of f(x, y) over y."""
    x2, y2 = descended(against, slope, x1, y1, start_x, start_y)
    return difference(x1, y1, x2, y2)


FLOATS = (float, float, float, float)
_OF_FIRST = ("x1", "y1")


def highest_reverse(x1, y1, start_x, start_y):
    return highest(x1, y1, start_x, start_y, down_reverse)


def highest_forward(x1, y1, start_x, start_y):
    return highest(x1, y1, start_x, start_y, down_forward)


def path_reverse(w):
    return path(w, pull_reverse)


def path_forward(w):
    return path(w, pull_forward)


def saddle(start_x, start_y, value, slope, down):
    """The x that makes the highest of f(x, y) least, and the y that makes it highest there."""
    x1, y1 = descended(value, slope, start_x, start_y, start_x, start_y)
    x2, y2 = descended(against, down, x1, y1, start_x, start_y)
    return x1, y1, x2, y2


def particle(w, value, slope):
    """The w that makes the particle come down at the origin."""
    w, _ = descended(value, slope, 0.0, 0.0, w, 0.0)
    return w


def _of_saddle(mode, inner):
    """The value to descend on, and its slope, both as `descended` calls them."""
    derived = differentiable(inner)

    def value(start_x, start_y, x, y):
        return inner(x, y, start_x, start_y)

    if mode == "r":
        adjoint = derived.adjoint(*FLOATS, wrt=_OF_FIRST)

        def slope(start_x, start_y, x, y):
            _, by_x, by_y = adjoint(x, y, start_x, start_y, 1.0)
            return by_x, by_y
    else:
        tangent = derived.tangent(*FLOATS, wrt=_OF_FIRST)

        def slope(start_x, start_y, x, y):
            _, by_x = tangent(x, y, start_x, start_y, 1.0, 0.0)
            _, by_y = tangent(x, y, start_x, start_y, 0.0, 1.0)
            return by_x, by_y

    return value, slope


def _of_particle(mode, inner):
    derived = differentiable(inner)

    def value(x1, y1, w, unused):
        return inner(w)

    if mode == "r":
        adjoint = derived.adjoint(float)

        def slope(x1, y1, w, unused):
            return adjoint(w, 1.0)[1], 0.0
    else:
        tangent = derived.tangent(float)

        def slope(x1, y1, w, unused):
            return tangent(w, 1.0)[1], 0.0

    return value, slope


def saddles(mode):
    """`mode` is of the descent that minimizes, then of that which maximizes: "ff", "fr", "rf", "rr"."""
    value, slope = _of_saddle(mode[0], highest_reverse if mode[1] == "r" else highest_forward)
    found = differentiable(saddle)
    down = down_reverse if mode[0] == "r" else down_forward
    return lambda x, y: found(x, y, value, slope, down)


def particles(mode):
    value, slope = _of_particle(mode[0], path_reverse if mode[1] == "r" else path_forward)
    found = differentiable(particle)
    return lambda w: found(w, value, slope)
