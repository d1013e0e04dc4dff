"""Decompositions and systems of equations whose derivatives are known as formulas."""

from nbgrad.adjoints.formulas.table import FORMULAS, OUT, Formula

__all__ = ["FORMULAS", "OUT", "Formula"]
