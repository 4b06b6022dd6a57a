"""The verdict of a plan: whether there are enough rows for the columns asked, and which columns to coarsen or drop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictConfig:
    """When there are too few rows, and how changes are searched for."""

    max_error_enough: float = 0.02  # the largest mean error of columns with which there are enough rows
    max_error_few: float = 0.05
    """The largest with which there are few; above, columns are of no use and pairs mostly noise."""
    max_relative_pair_error: float = 1.1
    """The largest error of pairs, relative to that of independent exact columns, with which they are of use.

    A little above 1, since invented tables are more or less dependent than real ones.
    """
    coarse_sizes: tuple[int, ...] = (32, 16, 8)  # long columns are cut to so many codes, or to fewer
    max_error_left: float = 0.9  # coarsening helps when it leaves less than this part of the error
    min_columns: int = 2  # so many columns stay in any case
    search_parts: int = 16  # of very many columns, the fewest that will do are found to this part of them


VERDICT = VerdictConfig()


class Verdict(Enum):
    """What the errors of columns and of pairs say about the plan, the best first."""

    ENOUGH = "enough rows"
    FEW = "few rows"
    TOO_FEW = "too few rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """The mean error of columns, and that of all pairs relative to independent exact columns."""

    error: float
    relative_pair_error: float

    @property
    def verdict(self) -> Verdict:
        """The verdict on both.

        >>> PlanOutcome(error=0.01, relative_pair_error=0.5).verdict.value
        'enough rows'
        >>> PlanOutcome(error=0.03, relative_pair_error=2).verdict.value
        'too few rows'
        """
        if self.error <= VERDICT.max_error_enough:
            return Verdict.ENOUGH
        of_use = self.relative_pair_error <= VERDICT.max_relative_pair_error
        return Verdict.FEW if self.error <= VERDICT.max_error_few and of_use else Verdict.TOO_FEW


PredictChange = Callable[[Mapping[str, int], Sequence[str]], PlanOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Columns to coarsen (to so many codes) and others to drop, and the mean error of columns after each step.

    It names columns of the schema, and only steps that help. `after` is what they lead to; `suffices` says whether its
    verdict is a better one.
    """

    coarsen: Mapping[str, int]
    error_coarsened: float
    drop: tuple[str, ...] = ()
    after: PlanOutcome
    suffices: bool

    def to_json(self) -> dict[str, Any]:
        """Return it for a machine."""
        return {
            "coarsen": dict(self.coarsen),
            "column_error_coarsened": round(self.error_coarsened, 4),
            "drop": list(self.drop),
            "column_error_after": round(self.after.error, 4),
            "suffices": self.suffices,
            "verdict": self.after.verdict.value,
        }


def advise(
    sizes: Mapping[str, int],
    errors: Mapping[str, float],
    *,
    now: PlanOutcome,
    predict: PredictChange,
    fixed: Collection[str] = (),
) -> Advice:
    """Return the fewest changes that lead to a better verdict, or those that help at all.

    `sizes` and `errors` are those of the columns of the schema; `predict` returns the outcome of coarsening columns and
    dropping others. Coarsening goes first, as it loses least, no further than it must, and columns of large errors go
    before others. Columns that are `fixed` cannot be coarser.
    """
    worst = sorted(sizes, key=lambda name: -errors[name])
    verdicts = list(Verdict)
    goal = verdicts[: verdicts.index(now.verdict)]
    coarsen: dict[str, int] = {}
    after = now
    for codes in VERDICT.coarse_sizes:
        long = [name for name in worst if sizes[name] > codes and name not in fixed]

        def predict_coarser(count: int, *, codes: int = codes, long: Sequence[str] = long) -> PlanOutcome:
            return predict(dict.fromkeys(long[:count], codes), ())

        count = find_fewest_steps(lambda steps: predict_coarser(steps).verdict in goal, most=len(long))
        if count is not None:
            coarsen, after = dict.fromkeys(long[:count], codes), predict_coarser(count)
            return Advice(coarsen=coarsen, error_coarsened=after.error, after=after, suffices=True)
        if codes == VERDICT.coarse_sizes[-1] and long:
            found = predict_coarser(len(long))
            if found.error < VERDICT.max_error_left * now.error:
                coarsen, after = dict.fromkeys(long, codes), found
    # Budget is shared by all columns, so each that goes helps those that stay: the longest first.
    order = sorted(worst, key=lambda name: -coarsen.get(name, sizes[name]))

    def keep(count: int) -> dict[str, int]:
        return {name: codes for name, codes in coarsen.items() if name not in order[:count]}

    def predict_without(count: int) -> PlanOutcome:
        return predict(keep(count), tuple(order[:count]))

    count = find_fewest_steps(
        lambda steps: predict_without(steps).verdict in goal, most=len(order) - VERDICT.min_columns
    )
    if count is None:
        return Advice(coarsen=coarsen, error_coarsened=after.error, after=after, suffices=False)
    left = keep(count)
    return Advice(
        coarsen=left,
        error_coarsened=predict(left, ()).error if left else now.error,
        drop=tuple(order[:count]),
        after=predict_without(count),
        suffices=True,
    )


def find_fewest_steps(met: Callable[[int], bool], *, most: int) -> int | None:
    """Return the smallest number of steps, from 1, after which a goal is met, or None; once met, it stays so.

    Where there are very many steps it may be a few too many.

    >>> find_fewest_steps(lambda steps: steps >= 4, most=9), find_fewest_steps(lambda steps: steps >= 4, most=3)
    (4, None)
    """
    if most < 1 or not met(most):
        return None
    low, high = 0, most
    while high - low > max(1, most // VERDICT.search_parts):
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high
