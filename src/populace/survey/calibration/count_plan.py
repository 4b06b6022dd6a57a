"""How counts of a population are planned: which public totals a sample is calibrated to, and what they decide.

All of it is public, and everything that can be refused is refused here, before anything is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import is_drawable
from populace.privacy.accounting.privacy_loss import Currency
from populace.privacy.sensitivity.poststratification import binning_score_sensitivity
from populace.schema.schema import Schema
from populace.survey import estimate_notes as notes
from populace.survey.calibration.contingency_table import ContingencyTable, count_from_totals
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_result import Estimand
from populace.survey.smooth_questions import BaseWeights

# Of the whole: what all choices of bins take together.
BIN_CHOICE_SHARE = Fraction(1, 20)
# Of what a count takes, where it is one number: the table that tells its sampling error.
SAMPLING_ERROR_SHARE = Fraction(1, 4)
# In how many steps base weights of a design are expressed inside the barrier.
BASE_STEPS = 2**12
# Below this there is no use in noise that must hide its own scale.
MIN_SMOOTH_EPSILON = Fraction(1, 100)
EQUAL_WEIGHTS = BaseWeights()


class CountMethod(Enum):
    """Where a count gets its weights, in words for its note."""

    SUM = notes.CALIBRATED_SUM
    TABLE = notes.CALIBRATED_TABLE
    SMOOTH = notes.CALIBRATED_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How samples are weighted: public totals, base weights, and how far weights are pulled towards equal ones.

    `shrink` mixes the factors by which totals change weights: 0 leaves them, 1 gives everyone the same. That lowers
    noise and spread, and brings back part of the bias that totals are there for; every estimate says by how much it was
    moved. Base weights of the design stay as they are.
    """

    controls: tuple[ControlTotals, ...]
    base: BaseWeights = EQUAL_WEIGHTS
    shrink: Fraction = Fraction(0)
    method: CountMethod | None = None

    @classmethod
    def of(cls, design: Design) -> Calibration:
        """Return how a design weights its sample: by its totals, and by its own weights as base weights."""
        if design.clustered or design.replicates is not None:
            raise UsageError(
                "totals go with samples of rows that were drawn one by one.",
                hint="leave out the totals, or psu and replicates: their errors are not those of clusters",
            )
        base = EQUAL_WEIGHTS
        if design.weights is not None:
            base = BaseWeights(
                column=design.weights, unit=design.weight_bound / BASE_STEPS, largest=BASE_STEPS
            )
        return cls(controls=design.totals, base=base, shrink=design.shrink)

    @property
    def choices(self) -> tuple[ControlTotals, ...]:
        """The totals that have several sets of bins to choose from."""
        return tuple(control for control in self.controls if len(control.binnings) > 1)

    def __post_init__(self) -> None:
        if not 0 <= self.shrink <= 1:
            raise UsageError(
                f"weights are shrunk by {float(self.shrink):g}.", hint="give a number from 0 to 1"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class CountPlan:
    """Counts of a population for a share of a budget; what could not be asked is refused, whichever bins are chosen."""

    counts: tuple[Estimand, ...]
    calibration: Calibration
    schema: Schema
    budget: Budget
    share: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not self.counts:
            raise UsageError("no count is asked for.", hint="ask for at least one")
        decided = self.decided
        for control in self.calibration.choices:
            binnings = control.bin_choice(self.calibration.base).binnings
            binning_score_sensitivity(binnings, populations=control.populations)
        if not self.choice_share < self.share:
            raise UsageError(
                "choices of bins take all that counts may spend.",
                hint="let bins_share of all [[totals]] add up to less than 1",
            )
        if not decided:
            self._check_noise()

    @cached_property
    def _finest(self) -> ContingencyTable:
        return ContingencyTable.of(self.calibration.controls, schema=self.schema)

    @cached_property
    def known(self) -> tuple[Fraction | None, ...]:
        """The exact number of each count that the totals decide, and None for the others, which share the budget."""
        finest, controls = self._finest, self.calibration.controls
        return tuple(
            count_from_totals(count.where, finest=finest, controls=controls, schema=self.schema)
            for count in self.counts
        )

    @property
    def decided(self) -> bool:
        """Whether the totals decide all counts, so that nothing is asked."""
        return None not in self.known

    @property
    def unknown(self) -> tuple[Estimand, ...]:
        """The counts that have to be asked for."""
        return tuple(count for count, total in zip(self.counts, self.known, strict=True) if total is None)

    @property
    def choice_share(self) -> Fraction:
        """What all choices of bins take together."""
        return sum(map(self.bins_share, self.calibration.choices), Fraction(0))

    def bins_share(self, control: ControlTotals) -> Fraction:
        """Return what the choice of one control's bins takes: as it says, or the same as the others."""
        own = control.bins_share
        return self.share * (BIN_CHOICE_SHARE / len(self.calibration.choices) if own is None else own)

    def split_share(self, *, cells: int) -> tuple[Fraction, Fraction]:
        """Return what the table of so many cells and each count take of the budget, for the least noise.

        A row moves a count by its weight, and one beside it by its weight times a fit, which is about a half: the noise
        of the table's cells counts a quarter as much as that of one count, or of one count's cells.
        """
        counts, method = len(self.unknown), self.calibration.method
        power = 1 / 3 if self.budget.currency is Currency.PURE else 1 / 2
        table = (counts / 4 * (cells if method in (None, CountMethod.SUM) else 1)) ** power
        part = Fraction(round(table / (table + counts) * 2**10), 2**10)
        share = self.share - self.choice_share
        return share * part, share * (1 - part) / counts

    def smooth_epsilon(self, share: Fraction) -> Fraction:
        """Return the epsilon of one count with smooth noise, or refuse one that is too small."""
        epsilon = self.budget.smooth_epsilon(share)
        if epsilon < MIN_SMOOTH_EPSILON:
            raise UsageError(
                f"an epsilon of {float(epsilon):.3g} for a count is too small for noise that follows a smooth bound.",
                hint="let the method be chosen, ask for fewer counts, or raise epsilon",
            )
        return epsilon

    def _check_noise(self) -> None:
        """Refuse noise that could not be drawn.

        The fewer cells a table has the less it takes, and the more it has the less is left for counts.
        """
        method, sums = self.calibration.method, 1 + (self.calibration.base.column is not None)
        first, _ = self.split_share(cells=1)
        _, each = self.split_share(cells=int(self._finest.possible.sum()))
        least = each if method is CountMethod.TABLE else each * SAMPLING_ERROR_SHARE
        noises = [self.budget.sum_noise(part, sums=sums) for part in (first, least) if part > 0]
        if min(first, least) <= 0 or not all(map(is_drawable, noises)):
            raise UsageError(
                f"epsilon is too small for {len(self.unknown)} counts: their noise could not be drawn.",
                hint="ask for less, or with a larger epsilon",
            )
        if method is CountMethod.SMOOTH or any(count.smooth for count in self.unknown):
            self.smooth_epsilon(each * (1 - SAMPLING_ERROR_SHARE))
        if self._finest.totals.people > LIMITS.max_people:
            raise UsageError(
                "the totals are too large for weighted counts.", hint="give populations in persons"
            )
