"""Rules that hold in every row: which combinations of codes can occur, as small tables over classes of codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Counts, Grouping

Allowed = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One rule: `allowed` has an axis per variable of `clique`, indexed by the classes of its codes."""

    text: str
    clique: Clique
    allowed: Allowed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """All rules of a schema, and for each variable in them the classes that its codes fall into.

    Codes of one class are alike to every rule, so a rule is a table over classes, however many codes there are.
    """

    classes: Mapping[str, Grouping] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()


NO_RULES = Rules()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """Public counts that the synthetic table must have: one number per combination of codes of `clique`.

    An empty clique declares the number of rows.
    """

    clique: Clique
    counts: Counts
