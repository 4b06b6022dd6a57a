"""Whether there are too few rows for the columns asked, and which columns to drop or to coarsen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

# With more of its rows in the wrong place a table of one column is rough, or of no use; pairs are then mostly noise.
MAX_ERROR_ENOUGH, MAX_ERROR_FEW = 0.02, 0.05
# With a larger mean error of all pairs, as a multiple of that of exact columns without dependence, they are no use;
# a little above 1, since invented tables hang together more or less than real ones do.
MAX_RELATIVE_PAIR_ERROR = 1.1
# Long columns are cut to so many codes, or to fewer.
COARSE_SIZES = (32, 16, 8)
# A step helps when it leaves less than this part of the error; so many columns stay in any case.
MAX_ERROR_LEFT, MIN_COLUMNS_LEFT = 0.9, 2
# Of very many columns, the fewest that will do are looked for to this part of them.
SEARCH_PARTS = 16


class Verdict(Enum):
    """What the errors of columns and of pairs say of the whole."""

    ENOUGH = "enough rows"
    THIN = "few rows"
    TOO_SMALL = "too few rows"

    @property
    def better(self) -> frozenset[Verdict]:
        """The verdicts that are better."""
        order = list(Verdict)
        return frozenset(order[: order.index(self)])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """The mean error of columns, and that of all pairs as a multiple of that of exact columns by themselves."""

    error: float
    balance: float

    @property
    def verdict(self) -> Verdict:
        """The verdict on both.

        >>> PlanOutcome(error=0.01, balance=0.5).verdict, PlanOutcome(error=0.03, balance=2).verdict
        (<Verdict.ENOUGH: 'enough rows'>, <Verdict.TOO_SMALL: 'too few rows'>)
        """
        if self.error > MAX_ERROR_FEW or (
            self.error > MAX_ERROR_ENOUGH and self.balance > MAX_RELATIVE_PAIR_ERROR
        ):
            return Verdict.TOO_SMALL
        return Verdict.THIN if self.error > MAX_ERROR_ENOUGH else Verdict.ENOUGH


PredictChange = Callable[[Mapping[str, int], Sequence[str]], PlanOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Columns to coarsen (to so many codes) and others to drop, and the mean error of columns after each step.

    It names columns of the schema, and only steps that help; `enough` says whether they lead to a better verdict, and
    `verdict` which one they lead to.
    """

    coarsen: Mapping[str, int]
    coarsened: float
    drop: tuple[str, ...]
    dropped: float
    verdict: Verdict
    enough: bool


def advise(
    sizes: Mapping[str, int],
    errors: Mapping[str, float],
    *,
    now: PlanOutcome,
    predict: PredictChange,
    fixed: Collection[str] = (),
) -> Advice:
    """Return the fewest changes that lead to a better verdict, or those that help at all.

    `sizes` and `errors` are those of the columns of the schema; `predict` tells what comes of coarsening columns and
    dropping others. Coarsening goes first, as it loses least, no further than it must, and columns of large errors go
    before others. Columns that are `fixed` cannot be coarser.
    """
    worst = sorted(sizes, key=lambda name: -errors[name])
    goal = now.verdict.better
    coarsen: dict[str, int] = {}
    after = now
    for codes in COARSE_SIZES:
        long = [name for name in worst if sizes[name] > codes and name not in fixed]

        def coarsened(count: int, *, codes: int = codes, long: Sequence[str] = long) -> PlanOutcome:
            return predict(dict.fromkeys(long[:count], codes), ())

        count = find_fewest_steps(lambda steps: coarsened(steps).verdict in goal, most=len(long))
        if count is not None:
            after = coarsened(count)
            return Advice(
                coarsen=dict.fromkeys(long[:count], codes),
                coarsened=after.error,
                drop=(),
                dropped=after.error,
                verdict=after.verdict,
                enough=True,
            )
        if codes == COARSE_SIZES[-1] and long:
            found = coarsened(len(long))
            if found.error < MAX_ERROR_LEFT * now.error:
                coarsen, after = dict.fromkeys(long, codes), found
    # Budget is shared by all columns, so each that goes helps those that stay: the longest first.
    order = sorted(worst, key=lambda name: -coarsen.get(name, sizes[name]))

    def left(drop: Sequence[str]) -> dict[str, int]:
        return {name: codes for name, codes in coarsen.items() if name not in drop}

    def dropped(count: int) -> PlanOutcome:
        return predict(left(order[:count]), tuple(order[:count]))

    count = find_fewest_steps(
        lambda steps: dropped(steps).verdict in goal, most=len(order) - MIN_COLUMNS_LEFT
    )
    if count is None:
        return Advice(
            coarsen=coarsen,
            coarsened=after.error,
            drop=(),
            dropped=after.error,
            verdict=after.verdict,
            enough=False,
        )
    drop = tuple(order[:count])
    coarsen = left(drop)
    last = dropped(count)
    return Advice(
        coarsen=coarsen,
        coarsened=predict(coarsen, ()).error if coarsen else now.error,
        drop=drop,
        dropped=last.error,
        verdict=last.verdict,
        enough=True,
    )


def find_fewest_steps(met: Callable[[int], bool], *, most: int) -> int | None:
    """Return the least number of steps, from 1, after which a goal is met, or None; once met, it stays so.

    Where there are very many steps it may be a few too many.

    >>> find_fewest_steps(lambda steps: steps >= 4, most=9), find_fewest_steps(lambda steps: steps >= 4, most=3)
    (4, None)
    """
    if most < 1 or not met(most):
        return None
    low, high = 0, most
    while high - low > max(1, most // SEARCH_PARTS):
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high
