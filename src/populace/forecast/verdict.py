"""Whether there are too few rows for the columns asked, and which columns to drop or to coarsen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

# With more of its rows in the wrong place a table of one column is rough, or of no use; pairs are then mostly noise.
THIN, TOO_SMALL = 0.02, 0.05
# Long columns are cut to so many codes.
COARSE = 8
# A step helps when it leaves less than this part of the error; so many columns stay in any case.
HELPS, LEAST_LEFT = 0.9, 2
# Of very many columns, the fewest that will do are looked for to this part of them.
FINENESS = 16

Predict = Callable[[Mapping[str, int], Sequence[str]], float]


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

    @property
    def goal(self) -> float:
        """The error from which on the verdict would be a better one."""
        return TOO_SMALL if self is Verdict.TOO_SMALL else THIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Columns to coarsen (to so many codes) and others to drop, and the mean error of columns after each step.

    It names columns of the schema, and only steps that help; `enough` says whether they lead to a better verdict.
    """

    coarsen: Mapping[str, int]
    coarsened: float
    drop: tuple[str, ...]
    dropped: float
    enough: bool

    @property
    def verdict(self) -> Verdict:
        """The verdict after all steps."""
        return Verdict.of(self.dropped)


def advise(sizes: Mapping[str, int], errors: Mapping[str, float], *, goal: float, predict: Predict) -> Advice:
    """Return the fewest changes that bring the mean error of columns down to a goal, or those that help at all.

    `sizes` and `errors` are those of the columns of the schema; `predict` tells the mean error after columns were
    coarsened and others dropped. Coarsening goes first, as it loses least, and columns of large errors go before
    others.
    """
    worst = sorted(sizes, key=lambda name: -errors[name])
    long = [name for name in worst if sizes[name] > COARSE]
    before = predict({}, ())

    def coarsened(count: int) -> float:
        return predict(dict.fromkeys(long[:count], COARSE), ())

    count = fewest(coarsened, most=len(long), goal=goal)
    if count is not None:
        coarsen, after = dict.fromkeys(long[:count], COARSE), coarsened(count)
        return Advice(coarsen=coarsen, coarsened=after, drop=(), dropped=after, enough=True)
    after = coarsened(len(long))
    coarsen = dict.fromkeys(long, COARSE) if after < HELPS * before else {}
    after = after if coarsen else before
    # Budget is shared by all columns, so each that goes helps those that stay: the longest first.
    order = sorted(worst, key=lambda name: -coarsen.get(name, sizes[name]))

    def left(drop: Sequence[str]) -> dict[str, int]:
        return {name: codes for name, codes in coarsen.items() if name not in drop}

    def dropped(count: int) -> float:
        return predict(left(order[:count]), tuple(order[:count]))

    count = fewest(dropped, most=len(order) - LEAST_LEFT, goal=goal)
    if count is None:
        return Advice(coarsen=coarsen, coarsened=after, drop=(), dropped=after, enough=False)
    drop = tuple(order[:count])
    coarsen = left(drop)
    after = predict(coarsen, ()) if coarsen else before
    return Advice(coarsen=coarsen, coarsened=after, drop=drop, dropped=dropped(count), enough=True)


def fewest(error: Callable[[int], float], *, most: int, goal: float) -> int | None:
    """Return the least number of steps, from 1, after which an error that falls with them meets a goal, or None.

    Where there are very many steps it may be a few too many.

    >>> fewest(lambda steps: 1 / steps, most=9, goal=0.25), fewest(lambda steps: 1 / steps, most=3, goal=0.25)
    (4, None)
    """
    if most < 1 or error(most) > goal:
        return None
    low, high = 0, most
    while high - low > max(1, most // FINENESS):
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= goal else (middle, high)
    return high
