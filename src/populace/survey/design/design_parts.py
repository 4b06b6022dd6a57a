"""The parts of a survey design: lonely psus, replicate weights, missing answers, control totals, sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.privacy.accounting.amplification import SamplingDesign
from populace.privacy.json_codec import encode_given
from populace.privacy.sensitivity.nn_imputation import DonorValue, TieBreak
from populace.privacy.sensitivity.poststratification import Binning
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names
from populace.schema.schema import Schema
from populace.survey.design import survey_columns as columns
from populace.survey.smooth_questions import BaseWeights, BinChoice, Donors
from populace.survey.sums import HotDeck

# A donor serves so many rows where sums of filled rows are asked and the design does not say.
MAX_USES = 2
# Of totals, design effects lie within a range that is wider by this factor.
_TOTALS_FACTOR = 3.0

ByStratum = Fraction | Mapping[str, Fraction]


class LonelyPsu(StrEnum):
    """What a stratum with a single psu adds to the variance, as R's options(survey.lonely.psu) has it."""

    FAIL = "fail"  # such a design is refused
    REMOVE = "remove"  # nothing
    CERTAINTY = "certainty"  # nothing, by another name
    ADJUST = "adjust"  # its distance from the mean of all strata, not from its own
    AVERAGE = "average"  # what the other strata add on average


class ReplicateType(StrEnum):
    """How replicate weights were made, as R's svrepdesign names it."""

    JK1 = "JK1"
    JKN = "JKn"
    JK2 = "JK2"
    BRR = "BRR"
    FAY = "Fay"
    BOOTSTRAP = "bootstrap"
    ACS = "ACS"
    SUCCESSIVE = "successive-difference"
    OTHER = "other"


class ReplicateCentre(StrEnum):
    """From what the distances of replicates are taken: from their own mean, or from the estimate itself (R's mse)."""

    MEAN = "mean"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicateDesign:
    """Columns of replicate weights, and the factors of their squares: V = scale·Σ rscales·(θ_r − θ)².

    >>> ReplicateDesign(columns=("W1", "W2", "W3", "W4"), type=ReplicateType.FAY, rho=Fraction(1, 2)).scale
    Fraction(1, 1)
    """

    columns: tuple[str, ...]
    type: ReplicateType
    scale: Fraction | None = None
    rscales: tuple[Fraction, ...] = ()
    rho: Fraction | None = None
    around: ReplicateCentre | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "type", ReplicateType(self.type))
        object.__setattr__(self, "around", None if self.around is None else ReplicateCentre(self.around))
        for key in ("scale", "rho"):
            object.__setattr__(self, key, to_fraction(getattr(self, key)))
        given = [to_fraction(each) for each in self.rscales]
        object.__setattr__(self, "rscales", tuple(Fraction(-1) if each is None else each for each in given))
        count = len(self.columns)
        if count < 2 or len(set(self.columns)) < count:
            raise SchemaError(
                f"replicates: {count} columns of weights are named, or one of them twice.",
                hint="name each column of replicate weights once, and at least two",
            )
        if (self.rho is not None) != (self.type is ReplicateType.FAY) or not 0 <= (self.rho or 0) < 1:
            raise SchemaError(
                f"replicates: rho is {self.rho} for weights of type {self.type.value!r}.",
                hint='give rho from 0 up to below 1, and only with type = "Fay"',
            )
        if self.rscales and len(self.rscales) != count:
            raise SchemaError(
                f"replicates: {len(self.rscales)} rscales are given for {count} columns.",
                hint="give one for each column, or none",
            )
        if self.type in (ReplicateType.JKN, ReplicateType.OTHER) and not self.rscales:
            raise SchemaError(
                f"replicates: weights of type {self.type.value!r} need rscales.",
                hint="give one for each column: for JKn (n − 1)/n of the stratum whose psu was left out",
            )
        object.__setattr__(self, "rscales", self.rscales or (Fraction(1),) * count)
        object.__setattr__(self, "scale", self._scale(count) if self.scale is None else self.scale)
        if self.scale is None or self.scale <= 0 or min(self.rscales) < 0:
            raise SchemaError("replicates: a scale is not positive.", hint="give scales above 0")
        if self.around is None:
            own = self.type in (ReplicateType.ACS, ReplicateType.SUCCESSIVE)
            object.__setattr__(self, "around", ReplicateCentre.ESTIMATE if own else ReplicateCentre.MEAN)

    def _scale(self, count: int) -> Fraction:
        if self.type in (ReplicateType.BRR, ReplicateType.FAY):
            return 1 / (count * (1 - (self.rho or Fraction(0))) ** 2)
        if self.type is ReplicateType.JK1:
            return Fraction(count - 1, count)
        if self.type is ReplicateType.BOOTSTRAP:
            return Fraction(1, count - 1)
        if self.type in (ReplicateType.ACS, ReplicateType.SUCCESSIVE):
            return Fraction(4, count)
        return Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignEffect:
    """What is known of design effects beforehand: their median, and by which factor 95 % of them are within it.

    Published ones are estimates of a few statistics: `factor` holds what they do not say. Without a declaration it is
    that of surveys of all kinds, and of totals, whose error holds the sizes of sampling units, it is wider still.

    >>> round(DesignEffect(median=Fraction(2), factor=Fraction(4)).log_deviation(), 2)
    0.71
    """

    median: Fraction = Fraction(5, 2)
    factor: Fraction = Fraction(16)

    def __post_init__(self) -> None:
        if not self.median > 0 or not self.factor > 1:
            raise SchemaError(
                f"design_effect: the median is {float(self.median):g} and the factor {float(self.factor):g}.",
                hint="give a median above 0, and a factor above 1 within which 95 % of design effects are",
            )

    def log_deviation(self, total: bool = False) -> float:
        """Return the deviation of the logarithm of a design effect."""
        return math.log(float(self.factor) * (_TOTALS_FACTOR if total else 1.0)) / 1.96


class MissingHandling(StrEnum):
    """What happens to rows whose answer is missing."""

    IGNORE = "ignore"  # they do not count where the answer is asked for
    IMPUTE = "impute"  # they take the answer of their nearest neighbours, inside the barrier
    MODEL = "model"  # they take the mean of their cell, after the barrier


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNonresponse:
    """How missing answers of one column are filled: from rows alike in `match`, in groups of some `widths`.

    `origins` are numbers at which such groups begin, the lowest value where there is none; columns of `one_hot` are the
    same or not, however far apart their numbers are. Of places at one distance, the order of `match` decides.
    """

    column: str
    how: MissingHandling = MissingHandling.IGNORE
    match: tuple[str, ...] = ()
    widths: Mapping[str, Fraction] = field(default_factory=dict, hash=False)
    k: int = 1
    take: DonorValue = DonorValue.COPY
    ties: TieBreak = TieBreak.NEXT
    default: Fraction | None = None
    max_uses: int | None = None
    origins: Mapping[str, Fraction] = field(default_factory=dict, hash=False)
    one_hot: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return encode_given(self, optional=("max_uses", "origins", "one_hot"))

    @property
    def limited(self) -> bool:
        """Whether donors may be used a limited number of times, which sums of filled rows need."""
        return self.k == 1 and self.take is DonorValue.COPY and self.ties is TieBreak.NEXT

    def hot_deck(self, schema: Schema) -> HotDeck:
        """Return how rows are filled before they are added up."""
        return HotDeck(column=self.column, match=self.cells(schema), max_uses=self.max_uses or MAX_USES)

    def donors(self, schema: Schema) -> Donors:
        """Return the same as the barrier reads it; the default is the middle of the range."""
        low, high = columns.span(schema, self.column, place=self.place)
        return Donors(
            column=self.column,
            match=self.cells(schema),
            low=low,
            high=high,
            default=(low + high) / 2 if self.default is None else self.default,
            k=self.k,
            take=self.take,
            ties=self.ties,
            one_hot=self.one_hot,
        )

    def cells(self, schema: Schema) -> Marginal:
        """Return the cells of rows that count as alike."""
        scales = {name: columns.scale(schema, name, place=self.place) for name in self.match}
        return Marginal.with_groupings(
            self.match,
            {
                name: columns.wide(scales[name], width, place=self.place, origin=self.origins.get(name))
                for name, width in self.widths.items()
            },
        )

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"[missing.{self.column}]"

    def check(self, schema: Schema) -> None:
        """Refuse what does not fit the schema."""
        if self.how is MissingHandling.IGNORE:
            columns.column(schema, self.column, place=self.place)
            given = (self.match, self.widths, self.origins, self.one_hot, self.max_uses)
            if any(given) or self.default is not None or self.k != 1:
                raise SchemaError(
                    f"{self.place}: rows that are ignored need no match, widths, one_hot, k, max_uses or default.",
                    hint='leave these out, or write how = "impute"',
                )
            return
        low, high = columns.span(schema, self.column, place=self.place)
        if not self.match or self.column in self.match or len(set(self.match)) < len(self.match):
            raise SchemaError(
                f"{self.place}: rows are matched on {quote_names(self.match) or 'nothing'}.",
                hint="name other columns to match on, each once",
            )
        if strange := [name for name in (*self.widths, *self.one_hot) if name not in self.match]:
            raise SchemaError(
                f"{self.place}: {quote_names(strange)} has a width or is one-hot, but is not matched on.",
                hint="add it to match, or leave it out",
            )
        if strange := [name for name in self.origins if name not in self.widths]:
            raise SchemaError(
                f"{self.place}: {quote_names(strange)} has an origin, but no width.",
                hint="add its width, such as widths = { AGE = 10 }, or leave its origin out",
            )
        self.cells(schema)
        if self.k < 1 or (self.k > 1 and self.take is DonorValue.COPY):
            raise SchemaError(
                f"{self.place}: k is {self.k} and the value is taken by {self.take.value!r}.",
                hint='copy from one donor (k = 1), or take = "mean" or "majority" of more',
            )
        if self.max_uses is not None and not (
            1 <= self.max_uses <= LIMITS.max_donor_uses
            and self.limited
            and self.how is MissingHandling.IMPUTE
        ):
            raise SchemaError(
                f"{self.place}: donors cannot be used {self.max_uses} times at most.",
                hint=f'give max_uses from 1 to {LIMITS.max_donor_uses}, with how = "impute", without k, take and ties',
            )
        if self.default is not None and not low <= self.default <= high:
            raise SchemaError(
                f"{self.place}: the default {float(self.default):g} lies outside {float(low):g} … {float(high):g}.",
                hint="give a value of the column's range",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTotals:
    """Public totals of a population, by the cells of some columns, and sets of bins to choose from.

    `populations` has one number for each cell of `by`, in order; cells that nobody counted have 0. Without `binnings`
    every cell is a bin of its own. `bins_share` is what the choice of its bins takes of what counts may spend.
    """

    by: Marginal
    populations: tuple[Fraction, ...]
    binnings: tuple[Binning, ...]
    bins_share: Fraction | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return encode_given(self, optional=("bins_share",))

    @property
    def total(self) -> Fraction:
        """The population."""
        return sum(self.populations, Fraction(0))

    def bin_choice(self, base: BaseWeights) -> BinChoice:
        """Return the question which set of bins is best; bins where nobody can be are no bins of their own in it."""
        return BinChoice(
            by=self.by,
            binnings=tuple(self._merge_empty_bins(binning) for binning in self.binnings),
            populations=self.populations,
            base=base,
            nobody=tuple(place for place, people in enumerate(self.populations) if not people),
        )

    def _merge_empty_bins(self, binning: Binning) -> Binning:
        totals = binning.totals(self.populations)
        bins = [list(group) for group, total in zip(binning.bins, totals, strict=True) if total > 0]
        for group, total in zip(binning.bins, totals, strict=True):
            if bins and not total:
                bins[-1].extend(group)
        return replace(binning, bins=tuple(map(tuple, bins)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSampling:
    """How persons were drawn from the population, for amplification: a design that hides them, and its share."""

    design: SamplingDesign
    share: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise SchemaError(
                f"sampling: the share is {float(self.share):g}.",
                hint="give the probability that a person is drawn: above 0 and at most 1",
            )
