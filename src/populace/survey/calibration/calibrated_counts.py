"""Counts of a population from a sample whose weights meet public totals: choose bins, count, rake, weight.

The sample is counted once by the cells of all totals together, with noise; that table is raked, not the rows. From then
on the weights of cells are public, and a count is one sum of them, whose noise is as large as the largest weight. Or it
is asked by the same cells, each with noise of its own; or with weights that are made inside the barrier, from the raked
populations and the exact sample, and noise that follows a smooth bound. Which of them is best follows from what is
public and paid for by then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

import numpy as np

from populace.core.errors import UsageError
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.interval_arithmetic import bounds, round_down
from populace.privacy.accounting.mechanisms import is_drawable
from populace.privacy.accounting.privacy_loss import Currency
from populace.privacy.sensitivity.poststratification import (
    Bin,
    Binning,
    binning_score_sensitivity,
    smooth_weight_bound,
)
from populace.privacy.sensitivity.poststratification import EqualWeightBin as CountedBin
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.survey.calibration.bin_choice import choose_binning, make_bin_choice
from populace.survey.calibration.calibrated_sample import CalibratedCount, CalibratedSample, NoisyCellSums
from populace.survey.calibration.contingency_table import ContingencyTable, Truth, count_from_totals
from populace.survey.calibration.ipf import Floats
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_result import Estimate, cap_error, make_public_row, make_suppressed_row
from populace.survey.smooth_questions import BaseWeights, WeightedQuestion
from populace.survey.sums import CellWeights, Sum, SumFactor
from populace.survey.survey_oracle import SurveyOracle
from populace.survey.variance.confidence_intervals import NoiseTerms, half_width
from populace.survey.variance.smooth_noise_error import distribution_draws

# Of the whole: what all choices of bins take together.
BIN_CHOICE_SHARE = Fraction(1, 20)
# Of what a count takes, where it is one number: the table that tells its sampling error.
SAMPLING_ERROR_SHARE = Fraction(1, 4)
# How smooth bounds are made, in parts of ε, to look for the least noise.
SMOOTHNESS_GRID = (Fraction(1, 32), Fraction(1, 12), Fraction(1, 5))
LATTICE = Fraction(1, 1024)
# Far more would not be told apart by that lattice.
MAX_PEOPLE = 2**50
# In how many steps base weights of a design are told inside the barrier.
BASE_STEPS = 2**12
# Below this there is no use in noise that must hide its own scale.
MIN_SMOOTH_EPSILON = Fraction(1, 100)
_MIN_SMOOTH_RATIO = 1.5
_WEIGHT_BITS = 16
EQUAL_WEIGHTS = BaseWeights()


class CountMethod(Enum):
    """Where a count gets its weights, in words for its note."""

    SUM = "added up with weights that meet the public totals"
    TABLE = "counted by the groups of the public totals, then weighted to meet them"
    SMOOTH = "weighted before noise was added, to meet the public totals"


class Replacement(Enum):
    """How the sample was drawn from the population of the totals."""

    WITHOUT_REPLACEMENT = "without replacement"
    WITH_REPLACEMENT = "with replacement, or from a far larger population"


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationCount:
    """How many of the population meet a condition."""

    name: str
    where: str | None = None


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
    drawn: Replacement = Replacement.WITHOUT_REPLACEMENT
    way: CountMethod | None = None

    @classmethod
    def of(
        cls, design: Design, *, shrink: Fraction | None = None, way: CountMethod | None = None
    ) -> Calibration:
        """Return how a design weights its sample: by its totals, and by its own weights as base weights."""
        if design.clustered or design.replicates is not None:
            raise UsageError(
                "totals go with samples of rows that were drawn one by one.",
                hint="leave out the totals, or psu and replicates: their errors are not those of clusters",
            )
        base = EQUAL_WEIGHTS
        if design.weights is not None:
            base = BaseWeights(column=design.weights, unit=design.heaviest / BASE_STEPS, largest=BASE_STEPS)
        shrunk = design.shrink if shrink is None else shrink
        return cls(controls=design.totals, base=base, shrink=shrunk, way=way)

    def __post_init__(self) -> None:
        if not 0 <= self.shrink <= 1:
            raise UsageError(
                f"weights are shrunk by {float(self.shrink):g}.", hint="give a number from 0 to 1"
            )


def split_share(
    budget: Budget, *, counts: int, cells: int, way: CountMethod | None, share: Fraction
) -> tuple[Fraction, Fraction]:
    """Return what the table and each count take of the budget, for the least noise.

    A row moves a count by its weight, and one beside it by its weight times a fit, which is about a half: the noise of
    the table's cells counts a quarter as much as that of one count, or of one count's cells.
    """
    power = 1 / 3 if budget.currency is Currency.PURE else 1 / 2
    table = (counts / 4 * (cells if way in (None, CountMethod.SUM) else 1)) ** power
    part = Fraction(round(table / (table + counts) * 2**10), 2**10)
    return share * part, share * (1 - part) / counts


def estimate_counts(
    oracle: SurveyOracle,
    counts: Sequence[PopulationCount],
    *,
    weighting: Calibration,
    share: Fraction = Fraction(1),
) -> tuple[Estimate, ...]:
    """Return counts of the population for a share of the budget, with their errors and intervals.

    Counts that the totals decide are told as they are; the others share the budget. All that can be refused is refused
    before anything is asked.
    """
    if not counts:
        raise UsageError("no count is asked for.", hint="ask for at least one")
    schema, controls = oracle.schema, weighting.controls
    finest = ContingencyTable.of(controls, schema=schema)
    known = [
        count_from_totals(count.where, finest=finest, controls=controls, schema=schema) for count in counts
    ]
    left = [count for count, total in zip(counts, known, strict=True) if total is None]
    several = [control for control in controls if len(control.binnings) > 1]
    for control in several:
        binning_score_sensitivity(
            make_bin_choice(control, base=weighting.base).binnings, populations=control.populations
        )
    told: Iterator[Estimate] = iter(())
    if left:
        choices = share * BIN_CHOICE_SHARE if several else Fraction(0)
        _check_noise(oracle.budget, finest, counts=len(left), weighting=weighting, share=share - choices)
        told = iter(
            _estimate_unknown_counts(
                oracle, left, weighting=weighting, share=share - choices, choices=choices
            )
        )
    return tuple(
        next(told) if total is None else make_public_row(count.name, float(total))
        for count, total in zip(counts, known, strict=True)
    )


def _estimate_unknown_counts(
    oracle: SurveyOracle,
    counts: Sequence[PopulationCount],
    *,
    weighting: Calibration,
    share: Fraction,
    choices: Fraction,
) -> tuple[Estimate, ...]:
    """Choose bins, count the sample, and ask for each count."""
    controls = weighting.controls
    several = [control for control in controls if len(control.binnings) > 1]
    binnings = [
        choose_binning(oracle, control, base=weighting.base, share=choices / max(1, len(several)))
        for control in controls
    ]
    table = ContingencyTable.of(controls, schema=oracle.schema, binnings=binnings)
    first, each = split_share(
        oracle.budget,
        counts=len(counts),
        cells=int(table.possible.sum()),
        way=weighting.way,
        share=share,
    )
    sample = CalibratedSample(
        table=table,
        told=_ask_table(oracle, table, None, base=weighting.base, share=first),
        heaviest=float(weighting.base.unit * weighting.base.largest),
        shrink=float(weighting.shrink),
        finite=weighting.drawn is Replacement.WITHOUT_REPLACEMENT,
    )
    if sample.lost:
        return tuple(make_suppressed_row(count.name) for count in counts)
    return tuple(_estimate_count(oracle, sample, count, weighting=weighting, share=each) for count in counts)


def _check_noise(
    budget: Budget, finest: ContingencyTable, *, counts: int, weighting: Calibration, share: Fraction
) -> None:
    """Refuse, before the first question, what could not be asked once it is answered, whichever bins are chosen.

    The fewer cells a table has the less it takes, and the more it has the less is left for counts.
    """
    cells, sums = int(finest.possible.sum()), 1 + (weighting.base.column is not None)
    first, _ = split_share(budget, counts=counts, cells=1, way=weighting.way, share=share)
    _, each = split_share(budget, counts=counts, cells=cells, way=weighting.way, share=share)
    least = each if weighting.way is CountMethod.TABLE else each * SAMPLING_ERROR_SHARE
    laws = [budget.sum_noise(part, sums=sums) for part in (first, least) if part > 0]
    if min(first, least) <= 0 or not all(map(is_drawable, laws)):
        raise UsageError(
            f"epsilon is too small for {counts} counts: their noise could not be drawn.",
            hint="ask for less, or with a larger epsilon",
        )
    if weighting.way is CountMethod.SMOOTH:
        _smooth_epsilon(budget, share=each * (1 - SAMPLING_ERROR_SHARE))
    if finest.totals.people > MAX_PEOPLE:
        raise UsageError("the totals are too large for weighted counts.", hint="give populations in persons")


def _smooth_epsilon(budget: Budget, *, share: Fraction) -> Fraction:
    """Return the epsilon of one count with smooth noise, or refuse one that is too small."""
    epsilon = budget.smooth_epsilon(share)
    if epsilon < MIN_SMOOTH_EPSILON:
        raise UsageError(
            f"an epsilon of {float(epsilon):.3g} for a count is too small for noise that follows a smooth bound.",
            hint="let the way be chosen, ask for fewer counts, or raise epsilon",
        )
    return epsilon


def _ask_table(
    oracle: SurveyOracle, table: ContingencyTable, where: str | None, *, base: BaseWeights, share: Fraction
) -> NoisyCellSums:
    """Return noisy sums of base weights by cells, and of their squares where they are not all 1."""
    factors = _base_factors(base)
    asked = [Sum(by=table.by, where=where, factors=factors, positive=_base_columns(base))]
    if factors:
        asked.append(replace(asked[0], factors=factors * 2))
    noise = oracle.budget.sum_noise(share, sums=len(asked))
    answers = oracle.sum_batches([(asked, noise)])
    told = [each.values(answer).ravel() for each, answer in zip(asked, answers, strict=True)]
    return NoisyCellSums(
        sums=told[0],
        squares=told[-1],
        noise=noise,
        step=float(asked[0].step),
        square_step=float(asked[-1].step),
    )


def _base_factors(base: BaseWeights) -> tuple[SumFactor, ...]:
    if base.column is None:
        return ()
    return (SumFactor(column=base.column, low=base.unit, high=base.unit * base.largest),)


def _base_columns(base: BaseWeights) -> tuple[str, ...]:
    """Return the columns without which, or at 0 or less, a row does not count."""
    return () if base.column is None else (base.column,)


def _estimate_count(
    oracle: SurveyOracle,
    sample: CalibratedSample,
    count: PopulationCount,
    *,
    weighting: Calibration,
    share: Fraction,
) -> Estimate:
    """Ask for one count in the best way, and for the table that tells its sampling error."""
    among = sample.table.where(count.where, schema=oracle.schema)
    way, mechanism = _choose_method(oracle.budget, sample, among, weighting=weighting, share=share)
    part = share if way is CountMethod.TABLE else share * SAMPLING_ERROR_SHARE
    found = sample.counted(
        _ask_table(oracle, sample.table, count.where, base=weighting.base, share=part), among=among
    )
    if way is CountMethod.TABLE:
        return _make_row(count, found, value=found.value, noise=found.table_noise(), way=way)
    if way is CountMethod.SUM or mechanism is None:
        asked = make_weighted_sum(sample, count, base=weighting.base, among=among)
        noise = oracle.budget.sum_noise(share - part, sums=1)
        (told,) = oracle.sum_batches([([asked], noise)])
        own = NoiseTerms.of(noise, weights=[float(asked.step)])
        return _make_row(
            count, found, value=float(asked.values(told)), noise=own + found.weight_noise(), way=way
        )
    question = make_weighted_question(sample, count, base=weighting.base, beta=mechanism.t)
    value = float(oracle.smooth(question, mechanism=mechanism, lattice=LATTICE))
    other = distribution_draws(mechanism.distribution) * (
        _guess_smooth_bound(sample, beta=mechanism.t) / float(mechanism.s)
    )
    return _make_row(count, found, value=value, noise=found.population_noise(), other=other, way=way)


def _choose_method(
    budget: Budget, sample: CalibratedSample, among: Truth, *, weighting: Calibration, share: Fraction
) -> tuple[CountMethod, SmoothNoise | None]:
    """Return the way of least noise, as the noisy table that is paid for foretells it, and its law if it is smooth.

    Of the table's own noise two ways have about half of what the weights are, and smooth noise has hardly any.
    """
    one = share * (1 - SAMPLING_ERROR_SHARE)
    if weighting.way is not None:
        return weighting.way, choose_smooth_noise(
            budget, sample, share=one
        ) if weighting.way is CountMethod.SMOOTH else None
    weights = np.where(among, sample.weights[sample.bins], 0.0)
    table, step = sample.told.noise_of(weights / 2).variance, sample.told.step
    cells = budget.sum_noise(share, sums=1 if weighting.base.column is None else 2)
    alone = NoiseTerms.of(budget.sum_noise(one, sums=1), weights=[float(weights.max()) * step]).variance
    found = {
        CountMethod.SUM: alone + table,
        CountMethod.TABLE: NoiseTerms.of(cells, weights=weights * step).variance + table,
    }
    best = min(found, key=found.__getitem__)
    # Smooth noise is larger than that of one sum would be with the largest weight of all.
    least = alone * float(sample.weights.max() / weights.max()) ** 2
    if _MIN_SMOOTH_RATIO * least < found[best] and budget.smooth_epsilon(one) >= MIN_SMOOTH_EPSILON:
        mechanism = choose_smooth_noise(budget, sample, share=one)
        if (_guess_smooth_bound(sample, beta=mechanism.t) * mechanism.standard_deviation) ** 2 < found[best]:
            return CountMethod.SMOOTH, mechanism
    return best, None


def choose_smooth_noise(budget: Budget, sample: CalibratedSample, *, share: Fraction) -> SmoothNoise:
    """Return the smooth noise of least deviation, as far as a sample of noisy size tells."""
    epsilon = _smooth_epsilon(budget, share=share)
    laws = [budget.smooth_noise(share, t=round_down(epsilon * part, bits=16)) for part in SMOOTHNESS_GRID]
    return min(
        laws,
        key=lambda mechanism: mechanism.standard_deviation * _guess_smooth_bound(sample, beta=mechanism.t),
    )


def make_weighted_sum(
    sample: CalibratedSample, count: PopulationCount, *, base: BaseWeights, among: Truth
) -> Sum:
    """Return a count as one sum of the weights that are public by now; rows that cannot count have none."""
    weights = np.where(among, sample.weights[sample.bins], 0.0)
    return Sum(
        where=count.where,
        factors=_base_factors(base),
        positive=_base_columns(base),
        weights=CellWeights(by=sample.table.by, values=tuple(map(_round_exact, weights.tolist()))),
    )


def make_weighted_question(
    sample: CalibratedSample, count: PopulationCount, *, base: BaseWeights, beta: Fraction
) -> WeightedQuestion:
    """Return a count by weights that are made inside the barrier, from populations that are public by now."""
    table, fitted = sample.table, sample.fitted
    totals = [_round_exact(total) for total in sample.weights * fitted.sample]
    groups: list[list[int]] = [[] for _ in totals]
    for cell, number in enumerate(sample.bins.tolist()):
        groups[number].append(cell)
    # Only the populations of joined bins matter: each is put into one of its cells.
    populations = [Fraction(0)] * len(table.joined)
    for total, group in zip(totals, groups, strict=True):
        populations[group[0]] = total
    return WeightedQuestion(
        by=table.by,
        binning=Binning(name="raked", bins=tuple(map(tuple, groups))),
        populations=tuple(populations),
        where=count.where,
        base=base,
        beta=beta,
        nobody=tuple(np.flatnonzero(~table.possible).tolist()),
    )


def _guess_smooth_bound(sample: CalibratedSample, *, beta: Fraction) -> float:
    """Return about the smooth bound, from the noisy sample that is paid for: the bound itself stays private."""
    fitted = sample.fitted
    totals = [_round_exact(total) for total in sample.weights * fitted.sample]
    bins: list[Bin] = [
        CountedBin(total=total, count=max(0, round(held / sample.heaviest)))
        for total, held in zip(totals, fitted.sample.tolist(), strict=True)
    ]
    return float(bounds(lambda: smooth_weight_bound(bins, beta=beta))[1])


def _round_exact(number: float) -> Fraction:
    """Return a weight or a population with few digits: machines that differ in the last ones must ask the same."""
    return round_down(Fraction(number) * (1 + Fraction(1, 2 ** (_WEIGHT_BITS + 1))), bits=_WEIGHT_BITS)


def _make_row(
    count: PopulationCount,
    found: CalibratedCount,
    *,
    value: float,
    noise: NoiseTerms,
    other: Floats | None = None,
    way: CountMethod,
) -> Estimate:
    """Put the errors together."""
    spread = found.spread()
    wide = half_width(spread, noise=noise, other=other)
    apart = 0.0 if other is None else float(other.var())
    notes = [way.value]
    if found.sample.shrink:
        notes.append(f"shrinking the weights moved it by {found.moved:.6g}, which no error here contains")
    people = found.sample.table.totals.people
    return Estimate(
        query=count.name,
        estimate=min(max(value, 0.0), people),
        sampling_error=cap_error(math.sqrt(spread.variance), low=0.0, high=people),
        privacy_error=cap_error(math.sqrt(noise.variance + apart), low=0.0, high=people),
        low=min(max(value - wide, 0.0), people),
        high=max(min(value + wide, people), 0.0),
        degrees=spread.degrees,
        note="; ".join(notes),
    )
