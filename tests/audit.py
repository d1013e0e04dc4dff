"""What of each name the case table checks: `python -m tests.audit` prints a line for each committed name.

A name is checked by the cases that call it: those of its op, and those whose function names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.cases import CASES, DTYPES, LAYOUTS, OpCase

HERE = Path(__file__).parent
ALIAS = {  # other names of the same op
    **{
        f"special.{name}": name
        for name in ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p", "logit")
    },
    **{f"special.{name}": name for name in ("polygamma", "round", "sinc", "xlogy")},
    **{"special.gammaln": "lgamma", "special.psi": "digamma", "special.multigammaln": "mvlgamma"},
    **{"special.gammainc": "igamma", "special.gammaincc": "igammac", "clip": "clamp"},
}


def called(case: OpCase) -> set[str]:
    """Names of functions that a case may call: its op, and what its function's text and defaults say."""
    texts = [
        case.op,
        *case.fn.__code__.co_names,
        *(d for d in case.fn.__defaults__ or () if isinstance(d, str)),
    ]
    texts += [c.cell_contents for c in case.fn.__closure__ or () if isinstance(c.cell_contents, str)]
    return {part for text in texts for part in text.split(".")}


def cases_of(name: str) -> list[OpCase]:
    short = ALIAS.get(name, name).rpartition(".")[2]
    return [c for c in CASES.values() if c.op == short] or [c for c in CASES.values() if short in called(c)]


def pointwise_names() -> list[str]:
    lines = (HERE / "pointwise_names.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] != "#" and ":" not in line]


def checked(cases: Iterable[OpCase]) -> dict[str, object]:
    """Over all cases of a name: dtypes in every shape, in one shape (or the refusal), in none; derivatives; layouts; forms."""
    cases = list(cases)
    full = {d for c in cases for d in c.dtypes if d not in c.unlike}
    some = {d for c in cases for d in DTYPES if d not in c.unlike} - full
    arities = {c.arity for c in cases if c.layouts}
    return {
        "dtypes": len(full),
        "first shape": len(some),
        "never": ",".join(d for d in DTYPES if d not in full | some) or "-",
        "order": 2 if any(c.differentiable for c in cases) else 0,
        "layouts": 1 + max((len(LAYOUTS.get(n, ())) for n in arities), default=0),
        "forms": "".join(sorted({f for c in cases for f in c.forms})) or "-",
    }


def main() -> None:
    for name in pointwise_names():
        print(f"{name:45}", *(f"{key} {value}" for key, value in checked(cases_of(name)).items()), sep="  ")


if __name__ == "__main__":
    main()
