"""Questions whose noise follows a smooth bound, and the choice of bins: all public, asked of the barrier."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from populace.core.marginals import Marginal
from populace.privacy.json_codec import encode_given
from populace.privacy.sensitivity.nn_imputation import (
    DonorValue,
    Membership,
    TieBreak,
    frequency_bound,
    mean_bound,
    variance_bound,
)
from populace.privacy.sensitivity.poststratification import Binning
from populace.privacy.smooth.smooth_noise import LN_2


@dataclass(frozen=True, slots=True, kw_only=True)
class Donors:
    """How missing values of one column are filled: from the k nearest complete rows by some other columns.

    `match` are columns of the schema, nearest in codes where they are ordered and one-hot where not; `groupings` of
    the marginal coarsen them (age in tens). A row is incomplete where `column` is missing by a user-missing code or
    an unreadable cell; outside its universe it has no value and is neither donor nor incomplete.
    `default` is the public value where there is no donor. Ordered columns of `one_hot` count as unordered ones.
    """

    column: str
    match: Marginal
    low: Fraction
    high: Fraction
    default: Fraction
    k: int = 1
    take: DonorValue = DonorValue.COPY
    ties: TieBreak = TieBreak.NEXT
    one_hot: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return encode_given(self, optional=("one_hot",))


class ImputedStatistic(Enum):
    """What is asked about imputed rows of a subpopulation."""

    FREQUENCY = "frequency"  # rows where `where` holds, imputed values decided on
    SUM = "sum"  # of values, divided by a fixed size
    SQUARES = "squares"  # Σ (value − centre)², divided by a fixed size less 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ImputedQuestion:
    """One number about rows whose missing values were filled from their nearest neighbours.

    `where` is decided by columns that are never imputed; `between` keeps rows whose (imputed) value lies in a closed
    range, so that membership depends on what was imputed. Its bound is ln 2-smooth. Proof: docs/proofs/nearest.md
    """

    statistic: ImputedStatistic
    donors: Donors
    where: str | None = None
    between: tuple[Fraction, Fraction] | None = None
    size: Fraction = Fraction(1)
    centre: Fraction = Fraction(0)

    @property
    def smoothness(self) -> Fraction:
        """The t of its bound: from one table to a neighbour it changes by a factor of e^t at most."""
        return LN_2

    @property
    def moves(self) -> tuple[Fraction, Fraction]:
        """The least that its bound can be, twice: it grows from there with rows that change."""
        return imputed_bound(self, 1), imputed_bound(self, 1)

    def __str__(self) -> str:
        what = f"{self.statistic.value} of {self.donors.column} with missing values filled"
        return f"{what}{f' where {self.where}' if self.where else ''}"


def imputed_bound(question: ImputedQuestion, max_changed: int) -> Fraction:
    """Return how far one row moves an answer, where so many filled rows change with it at most.

    Proof: docs/proofs/nearest.md
    """
    low, high = question.donors.low, question.donors.high
    if question.statistic is ImputedStatistic.FREQUENCY:
        return frequency_bound(max_changed)
    if question.statistic is ImputedStatistic.SUM:
        membership = Membership.KNOWN if question.between is None else Membership.IMPUTED
        return mean_bound(max_changed, low=low, high=high, size=question.size, membership=membership)
    return variance_bound(max_changed, low=low, high=high, centre=question.centre, size=question.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeights:
    """Base weights of the design: 1 for everybody, or a column of them, whole numbers of `unit` up to `largest`."""

    column: str | None = None
    unit: Fraction = Fraction(1)
    largest: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedQuestion:
    """How many of the population meet a condition, by weights that meet public totals of bins.

    `by` cuts rows into base bins (its cells in order), which `binning` joins; `populations` are the public totals of
    the base bins. Rows in base bins of `nobody` do not count at all: by what is public they belong to no population.
    Its bound is β-smooth. Proof: docs/proofs/binning.md
    """

    by: Marginal
    binning: Binning
    populations: tuple[Fraction, ...]
    where: str | None = None
    base: BaseWeights = BaseWeights()
    beta: Fraction = Fraction(1, 6)
    nobody: tuple[int, ...] = ()

    @property
    def smoothness(self) -> Fraction:
        """The t of its bound: from one table to a neighbour it changes by a factor of e^t at most."""
        return self.beta

    @property
    def moves(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest population of a bin: what all of its rows stand for together."""
        totals = self.binning.totals(self.populations)
        return min(totals), max(totals)

    def __str__(self) -> str:
        return f"weighted count by {self.by}{f' where {self.where}' if self.where else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BinChoice:
    """Which of several sets of bins keeps weights low and says most: |S|/W₀ by the exponential mechanism.

    Rows in base bins of `nobody` do not count.
    """

    by: Marginal
    binnings: tuple[Binning, ...]
    populations: tuple[Fraction, ...]
    base: BaseWeights = BaseWeights()
    nobody: tuple[int, ...] = ()


SmoothQuestion = ImputedQuestion | WeightedQuestion
