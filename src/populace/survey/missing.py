"""Means and shares of a column with missing values, from answers that were paid for.

Three ways, for rows that were drawn with equal chances:

* ignore: complete rows speak for all. Wrong where the missing ones differ from them.
* impute: missing values are filled from the nearest rows on the private side. Every estimate needs an ε of its own,
  above ln 2, and noise that follows a smooth bound.
* model: each cell of the matching columns takes the noisy mean of its complete rows for its missing ones, after the
  barrier. All answers are sums, so their noise is that of counts.

Reasons and formulae: docs/decisions/imputation.md
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from populace.errors import UsageError
from populace.privacy.mechanisms import Noise
from populace.records import dataclass
from populace.survey.design_parts import Handling
from populace.survey.imputed import Membership, mean_bound
from populace.survey.intervals import Terms, half_width
from populace.survey.matching import Joined, Truth, cells_where, joined, least_rows
from populace.survey.missing_error import Cells, Told
from populace.survey.nearest import Space, Ties
from populace.survey.oracle import SurveyOracle
from populace.survey.questions import ImputedQuestion, Statistic
from populace.survey.result import Estimate, possible_error, too_few
from populace.survey.smooth_error import ChangedRows, Served, smooth_draws
from populace.survey.wishes import Between, Filling, Key, Laws, Part, Wish

Floats = npt.NDArray[np.float64]

# Answers are told in so many steps for what one row can add.
_ON_LATTICE = 2**10


def estimate_missing(oracle: SurveyOracle, filling: Filling, *, laws: Laws) -> tuple[Estimate, ...]:
    """Ask all that the wishes need, and return an estimate for each, with its errors and an interval.

    What is asked follows from public facts alone, so a run is paid for before anything is known.
    """
    asked = list(filling.sums.values())
    told = oracle.sum_batches([([one], law) for one, law in zip(asked, laws.sums, strict=True)])
    tables = _Tables(
        filling=filling,
        values={
            key: one.values(counts) for (key, one), counts in zip(filling.sums.items(), told, strict=True)
        },
        laws={
            key: (law, float(one.step))
            for (key, one), law in zip(filling.sums.items(), laws.sums, strict=True)
        },
    )
    if filling.how is not Handling.IMPUTE:
        return tuple(
            tables.estimate(wish, inside) for wish, inside in zip(filling.wishes, filling.inside, strict=True)
        )
    if laws.size is None:
        raise UsageError("no noise is given for the size of a bound.", hint="give the laws of all questions")
    frequency = ImputedQuestion(statistic=Statistic.FREQUENCY, donors=filling.donors)
    size = oracle.bound_size(frequency, noise=laws.size)
    rows = ChangedRows(told=size, noise=laws.size, most=tables.most_missing, served=tables.served)
    changed = rows.draws()
    found = []
    for wish, inside, law in zip(filling.wishes, filling.inside, laws.answers, strict=True):
        question = filling.question(wish)
        most, moved = _bound_parts(question)
        answer = oracle.smooth(question, law=law, lattice=most / _ON_LATTICE)
        noise = smooth_draws(law, changed=changed, most=float(most), moved=float(moved))
        found.append(tables.filled(wish, inside, answer=float(answer), noise=noise))
    return tuple(found)


def _bound_parts(question: ImputedQuestion) -> tuple[Fraction, Fraction]:
    """Return what L₁ = 0 gives as the bound of a question, and what every further one adds."""
    if question.statistic is Statistic.FREQUENCY:
        return Fraction(1), Fraction(1)
    none, one = (
        mean_bound(
            changed,
            low=question.donors.low,
            high=question.donors.high,
            size=question.size,
            membership=Membership.KNOWN,
        )
        for changed in (0, 1)
    )
    return none, one - none


# Said where noise hides which part of the error comes from filling answers in.
NO_IMPUTATION = "its error is in the sampling error: noise hides it"


@dataclass(frozen=True, kw_only=True)
class _Tables:
    """The noisy sums of all cells, and what follows from them."""

    filling: Filling
    values: dict[Key, Floats]
    laws: dict[Key, tuple[Noise, float]]

    @property
    def most_missing(self) -> float:
        """More missing rows than there are, but for noise that happens once in many thousand times."""
        lost = float((self.values[Part.ALL, None] - self.values[Part.KNOWN, None]).sum())
        cells = self.values[Part.ALL, None].size
        spread = math.sqrt(cells * sum(self._variance(part) for part in (Part.ALL, Part.KNOWN)))
        return max(1.0, lost + 5 * spread)

    @property
    def served(self) -> Served | None:
        """What counts say of how many incomplete rows one complete row serves, if labels are all that decides."""
        donors = self.filling.donors
        if donors.ties is not Ties.NEXT:
            return None
        every, known = self.values[Part.ALL, None], self.values[Part.KNOWN, None]
        cut, lost = self._cut(np.ones_like(every, dtype=np.bool_)), every - known
        surely = 10 * math.sqrt(self._variance(Part.ALL) + self._variance(Part.KNOWN))
        return Served(
            complete=cut.sums(known),
            incomplete=np.maximum(cut.sums(lost), 0.0),
            donors=donors.k,
            alone=float(np.max(lost, initial=0.0, where=(known < 2 * self._unsure) & (lost > surely))),
        )

    def estimate(self, wish: Wish, inside: Truth) -> Estimate:
        """Return the estimate of a wish from cells alone."""
        cells = self._cells(wish, inside)
        if cells is None:
            return too_few(wish.query, group=wish.group)
        note = (
            "complete rows only: right if values are missing by chance"
            if self.filling.how is Handling.IGNORE
            else "missing values as the complete rows of their cell"
        )
        return self._told(wish, cells, value=cells.mean, noise=cells.mean_noise, other=None, note=note)

    def filled(self, wish: Wish, inside: Truth, *, answer: float, noise: Floats) -> Estimate:
        """Return the estimate of a wish from an answer about filled rows, whose noise has these draws."""
        cells = self._cells(wish, inside)
        if cells is None:
            return too_few(wish.query, group=wish.group)
        frame = self.filling.frame
        of_frame = cells_where(wish.where, by=frame, schema=self.filling.schema)
        size = max(1.0, float(self.values[Part.SIZE, None][of_frame].sum()))
        value = answer / size
        low, high = self._possible(wish)
        value = min(max(value, low), high)
        law, step = self.laws[Part.SIZE, None]
        return self._told(
            wish,
            cells,
            value=value,
            noise=Terms.of(law, weights=np.full(np.count_nonzero(of_frame), step * value / size)),
            other=noise / size,
            note="missing values from the nearest complete rows",
        )

    def _told(
        self, wish: Wish, cells: Cells, *, value: float, noise: Terms, other: Floats | None, note: str
    ) -> Estimate:
        spread = cells.spread(value)
        sampling, imputation = cells.parts(spread, mean=value)
        width = half_width(spread, noise=noise, other=other)
        # Heavy tails have no use for a variance: the width of an interval, in the units of normal errors.
        alone = noise.deviation if other is None else half_width(None, noise=noise, other=other) / 1.96
        low, high = self._possible(wish)
        return Estimate(
            query=wish.query,
            group=wish.group,
            estimate=min(max(value, low), high),
            sampling_error=possible_error(math.sqrt(sampling), low=low, high=high),
            imputation_error=None
            if imputation is None
            else possible_error(math.sqrt(imputation), low=low, high=high),
            privacy_error=possible_error(alone, low=low, high=high),
            low=min(max(value - width, low), high),
            high=min(max(value + width, low), high),
            degrees=spread.degrees,
            note=note if imputation is not None else f"{note}; {NO_IMPUTATION}",
        )

    def _possible(self, wish: Wish) -> tuple[float, float]:
        """Return between which numbers the truth lies, whatever the rows."""
        if wish.between is not None:
            return 0.0, 1.0
        return float(self.filling.donors.low), float(self.filling.donors.high)

    def _cells(self, wish: Wish, inside: Truth) -> Cells | None:
        """Return the joined cells of a wish, or None where noise does not tell that there are rows."""
        filling, cut = self.filling, self._cut(inside)
        told = self._told_by(Part.KNOWN, None, cut=cut)
        value = (Part.VALUE, None) if wish.between is None else (Part.WITHIN, wish.between)
        if told is None or np.any(told.values < least_rows(cut.sizes, few=self._few, deviation=self._unsure)):
            return None
        every = self._told_by(Part.ALL, None, cut=cut) or told
        return Cells(
            cut=cut,
            every=every,
            known=told,
            value=self._told_by(*value, cut=cut),
            square=None if wish.between else self._told_by(Part.SQUARE, None, cut=cut),
            donors=filling.donors.k if filling.how is Handling.IMPUTE else None,
            part=self._share(),
        )

    def _cut(self, inside: Truth) -> Joined:
        filling = self.filling
        sizes = filling.by.shape(filling.schema.domain) or (1,)
        ordered = tuple(filling.schema.variables[name].ordered for name in filling.by.clique) or (True,)
        return joined(
            inside,
            counts=self.values[Part.KNOWN, None],
            space=Space(sizes=sizes, ordered=ordered),
            few=self._few,
            deviation=self._unsure,
        )

    @property
    def _few(self) -> float:
        """Cells whose means stand for missing rows are kept apart longer than those that only tell errors."""
        return 5.0 if self.filling.how is Handling.MODEL else 20.0

    @property
    def _unsure(self) -> float:
        """The deviation of the noise of one cell's number of complete rows."""
        return math.sqrt(self._variance(Part.KNOWN))

    def _told_by(self, part: Part, between: Between | None, *, cut: Joined) -> Told | None:
        """Return one sum over groups of cells, if it was asked."""
        if (part, between) not in self.values:
            return None
        law, step = self.laws[part, between]
        return Told(values=cut.sums(self.values[part, between]), law=law, step=step)

    def _share(self) -> float:
        """Return which part of the population the rows are."""
        if self.filling.population is None:
            return 0.0
        every = self.values.get((Part.ALL, None), self.values[Part.KNOWN, None])
        return min(max(float(every.sum()) / float(self.filling.population), 0.0), 1.0)

    def _variance(self, part: Part) -> float:
        law, step = self.laws[part, None]
        return float(law.variance) * step**2
