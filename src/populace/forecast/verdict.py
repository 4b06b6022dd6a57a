"""Whether there are too few rows for the columns asked, and which columns to drop or to coarsen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from populace.marginals import Domain

# With more of its rows in the wrong place a table of one column is rough, or of no use; pairs are then mostly noise.
THIN, TOO_SMALL = 0.02, 0.05
# Long columns are cut to so many codes.
COARSE = 8


class Verdict(Enum):
    """What the error of single columns says of the whole."""

    ENOUGH = "enough rows"
    THIN = "few rows"
    TOO_SMALL = "too few rows"

    @classmethod
    def of(cls, error: float) -> Verdict:
        """Return the verdict on a mean error of columns.

        >>> Verdict.of(0.01), Verdict.of(0.3)
        (<Verdict.ENOUGH: 'enough rows'>, <Verdict.TOO_SMALL: 'too few rows'>)
        """
        return cls.TOO_SMALL if error > TOO_SMALL else cls.THIN if error > THIN else cls.ENOUGH


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Columns to coarsen (to so many codes) and then to drop, and the mean error of columns after each step."""

    coarsen: Mapping[str, int]
    coarsened: float
    drop: tuple[str, ...]
    dropped: float


def advise(domain: Domain, errors: Mapping[str, float], *, predict: Callable[[Domain], float]) -> Advice:
    """Return the changes to the columns of the largest errors that help most; `predict` tells the error after them."""
    worst = sorted(errors, key=lambda name: -errors[name])
    coarsen = {name: COARSE for name in worst if domain[name] > COARSE and errors[name] > THIN}
    sizes = {name: coarsen.get(name, size) for name, size in domain.items()}
    coarsened = predict(Domain(sizes)) if coarsen else sum(errors.values()) / len(errors)
    drop: tuple[str, ...] = ()
    dropped = coarsened
    if coarsened > THIN and len(sizes) > 2:
        # Budget is shared by all columns, so each that goes helps those that stay: the longest first.
        order = sorted(sizes, key=lambda name: (-sizes[name], -errors[name]))
        drop = tuple(order[: min(len(order) - 2, max(1, len(order) // 2))])
        dropped = predict(Domain({name: size for name, size in sizes.items() if name not in drop}))
    return Advice(coarsen=coarsen, coarsened=coarsened, drop=drop, dropped=dropped)
