"""How a text is written: one serves both widths. A capital name is a constant looked up per kind, a number with a point is a float of
the kind, f2i ... are spelled per kind, every other assigned name is made fresh.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import cached

Text = tuple[list[str], str]
Fn = Callable[[list[str], Callable[[], str]], Text]


TEXT: dict[tuple[str, str], Fn] = {}
_TOKEN = re.compile(r"(?P<number>\b\d+\.\d*(?:e[+-]?\d+)?)|(?P<name>\b[A-Za-z_]\w*)")


def _literal(kind: str, value: Any) -> str:
    """How a constant is spelled in the text of a kind."""
    if value is None:  # of a text that is another kind's
        return ""
    if isinstance(value, tuple):
        return "(" + ", ".join(repr(float(v)) for v in value) + ",)"
    if isinstance(value, int):
        return repr(value)
    value = float(value)
    text = repr(value).replace("inf", "1e999").replace("nan", "1e999 - 1e999")
    return f"F({text})" if kind == "f4" else text


def define(
    prim: str,
    params: str,
    source: str | tuple[str, ...],
    kinds: tuple[str, ...] = ("f4", "f8"),
    /,
    **constants: tuple[Any, Any],
) -> None:
    """Registers a primitive's text, whose last assignment is the result. Pairs are (float32's, float64's)."""
    for column, kind in enumerate(kinds):
        text = source if isinstance(source, str) else source[column]
        own = {name: pair[column] for name, pair in constants.items()}
        TEXT[kind, prim] = _instance(kind, params.split(), text, column, own)


def define_double(prim: str, params: str, source: str, **constants: Any) -> None:
    """Registers a float64 primitive's text."""
    TEXT["f8", prim] = _instance("f8", params.split(), source, 1, constants)


def define_wide(prim: str, params: str, source: str, **constants: Any) -> None:
    """Registers a float32 primitive whose text widens its arguments, computes in float64 and narrows the result."""
    TEXT["f4", prim] = _instance("f8", params.split(), source, 1, constants)


@cached(8)
def _shared(kind: str, column: int) -> dict[str, str]:
    table = {name: _literal(kind, pair[column]) for name, pair in SHARED.items()}
    return table | {"i2f": f"i2f{kind[1]}", "wrap": f"wrap{kind[1]}"}


def _instance(kind: str, params: list[str], source: str, column: int, constants: dict[str, Any]) -> Fn:
    """A text of which nothing is worked out before it is asked for: a program asks for a few of all."""

    @cached(1)
    def parts() -> tuple[dict[str, str], list[str], list[str]]:
        lines = [line.split("#")[0].strip() for line in source.splitlines()]
        lines = [line for line in lines if line]
        table = _shared(kind, column) | {name: _literal(kind, value) for name, value in constants.items()}
        return table, lines, [line.split("=", 1)[0].strip() for line in lines]

    def text(args: list[str], fresh: Callable[[], str]) -> Text:
        table, lines, targets = parts()
        locals_, result = list(dict.fromkeys(targets)), targets[-1]
        names = table | {name: fresh() for name in locals_} | dict(zip(params, args, strict=True))

        def spell(match: re.Match[str]) -> str:
            if match["number"]:
                return _literal(kind, float(match["number"]))
            return names.get(match["name"], match["name"])

        return [_TOKEN.sub(spell, line) for line in lines], names[result]

    return text


_INF = float("inf")
SHARED: dict[str, tuple[Any, Any]] = {
    "INF": (_INF, _INF),
    "NAN": (float("nan"), float("nan")),
    "MBITS": (23, 52),  # bits of the mantissa
    # v + MAGIC rounds v to an integer and has it in its low bits; v + BIASED has it there with the exponent's bias
    "MAGIC": (1.5 * 2.0**23, 1.5 * 2.0**52),
    "BIASED": (1.5 * 2.0**23 + 127, 1.5 * 2.0**52 + 1023),
    "LOG2E": (1.4426950408889634, 1.4426950408889634),
    # ln 2 in two parts; the first has so many zeros at its end that its product with an exponent is exact
    "LN2_HI": (0.693145751953125, 0.6931471805598903),
    "LN2_LO": (1.4286068203094173e-06, 5.497923018708371e-14),
    # (e^r - 1) / r on |r| <= ln2/2: 1 + r * Remez; degree 5: 2^-28, degree 10: 2^-58 of e^r
    "EXP_POLY": (
        (1.0, 0.5, 0.16666518, 0.041666206, 0.008368889, 0.001395049),
        (1.0, 0.5000000000000012, 0.166666666666667, 0.041666666666515424, 0.008333333333307208,
         0.0013888888947015095,
         0.00019841269917380018, 2.4801489942982518e-05, 2.7557216301730603e-06, 2.7631280083940315e-07,
         2.5117861363148666e-08),
    ),
}  # fmt: skip
