"""The design of a survey: how its rows were drawn and weighted, all of it public, in the words of R's svydesign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.errors import SchemaError, UsageError
from populace.core.marginals import Clique
from populace.privacy.json_codec import encode_given
from populace.schema.bounded_parsing import read_text_file
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names, suggest
from populace.schema.schema import Schema
from populace.survey.design import survey_columns as columns
from populace.survey.design.design_parts import (
    ByStratum,
    ControlTotals,
    DeclaredSampling,
    DesignEffect,
    ItemNonresponse,
    LonelyPsu,
    MissingHandling,
    ReplicateDesign,
)
from populace.survey.design.design_reader import read_design
from populace.survey.sums import SumFactor

_PLACE = "[design]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Psu:
    """A primary sampling unit: the number of its stratum, and its own value (empty where rows are drawn directly)."""

    stratum: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """How rows were drawn: weights, strata, psus nested in them, finite populations, replicate weights.

    Nothing here is taken from rows. A row counts only if its weight is known and above 0, and its stratum and psu are
    among those that are listed. `fpc` and `base` are one number, or one for each stratum; an `fpc` above 1 is a number
    of psus (of rows where there are no psus), one up to 1 the share that was drawn. `fpc_within` is the same of the
    rows in a psu, by psu. `max_design_effect` is the largest design effect of any estimate, as earlier rounds showed
    it: it bounds intervals where noise hides how units differ. `weighting_effect` is 1 + the squared coefficient of
    variation of weights (Kish), as an earlier round published it: plans and forecasts use it. `shrink` shrinks the
    factors by which totals change weights towards one for all: 0 leaves them, 1 makes them equal.

    >>> schema = Schema.from_sizes({"REGION": 3, "PSU": 2, "WEIGHT": 500})
    >>> design = Design(schema=schema, weights="WEIGHT", strata="REGION", psu="PSU")
    >>> design.strata_values, len(design.psu_list), design.degrees
    (('0', '1', '2'), 6, 3)
    """

    schema: Schema
    weights: str | None = None
    max_weight: Fraction | None = None
    base: ByStratum | None = None
    strata: str | None = None
    psu: str | None = None
    psus: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fpc: ByStratum | None = None
    fpc_within: ByStratum | None = None
    lonely: LonelyPsu = LonelyPsu.FAIL
    replicates: ReplicateDesign | None = None
    design_effect: DesignEffect = DesignEffect()  # noqa: RUF009
    max_design_effect: Fraction | None = None
    population: Fraction | None = None
    rows: Fraction | None = None
    sampling: DeclaredSampling | None = None
    missing: Mapping[str, ItemNonresponse] = field(default_factory=dict)
    totals: tuple[ControlTotals, ...] = ()
    shrink: Fraction = Fraction(0)
    weighting_effect: Fraction | None = None
    strata_values: tuple[str, ...] = field(init=False)
    """The strata; a single empty text where there are none."""
    psu_list: tuple[Psu, ...] = field(init=False)
    """All psus, stratum by stratum; none where rows are drawn directly."""

    @classmethod
    def load(cls, path: str | Path, *, schema: Schema) -> Design:
        """Read a design from a TOML file."""
        text = read_text_file(Path(path), what="design", refuse=UsageError)
        return cls(schema=schema, **read_design(text, schema=schema, name=repr(str(path))))

    @classmethod
    def parse(cls, text: str, *, schema: Schema) -> Design:
        """Read a design from TOML text.

        >>> schema = Schema.from_sizes({"REGION": 3, "WEIGHT": 500})
        >>> Design.parse('[design]\\nweights = "WEIGHT"\\nmax_weight = 100', schema=schema).weight_bound
        Fraction(100, 1)
        """
        return cls(schema=schema, **read_design(text, schema=schema, name="the design"))

    def to_json(self) -> dict[str, Any]:
        """Return the design as plain JSON, but for its schema, which has a file of its own."""
        return encode_given(self, optional=("weighting_effect",), without=("schema",))

    def __post_init__(self) -> None:
        object.__setattr__(self, "lonely", LonelyPsu(self.lonely))
        for name in ("base", "fpc", "fpc_within"):
            object.__setattr__(self, name, _parse_by_stratum(getattr(self, name)))
        strata = None if self.strata is None else columns.scale(self.schema, self.strata, place=_PLACE)
        object.__setattr__(self, "strata_values", ("",) if strata is None else columns.values(strata))
        object.__setattr__(self, "psu_list", self._list_psus())
        self._check_weights()
        self._check_populations()
        self._check_lonely()
        for column, each in self.missing.items():
            if column != each.column:
                raise SchemaError(f"{each.place} is filed under {column!r}.", hint="use one name")
            each.check(self.schema)
        self._check_totals()

    @property
    def clustered(self) -> bool:
        """Whether rows were drawn by psus."""
        return self.psu is not None

    @property
    def strata_without_psus(self) -> tuple[str, ...]:
        """The strata whose PSUs are not listed, so that every value of the column counts as one."""
        if not self.clustered:
            return ()
        return tuple(value for value in self.strata_values if value not in self.psus)

    @property
    def effect_declared(self) -> bool:
        """Whether something is declared of design effects, so that rows are compared beside units."""
        return self.max_design_effect is not None

    @property
    def cells(self) -> Clique:
        """The columns by which sums are asked: stratum and psu, where there are any."""
        return tuple(name for name in (self.strata, self.psu) if name is not None)

    @property
    def stratum(self) -> Ints:
        """The number of the stratum of each psu; of each stratum itself where rows are drawn directly."""
        if not self.clustered:
            return np.arange(len(self.strata_values))
        return np.array([psu.stratum for psu in self.psu_list], dtype=np.int64)

    @property
    def degrees(self) -> int | None:
        """The degrees of freedom, psus less strata; None where rows are drawn directly: their number is private."""
        return len(self.psu_list) - len(self.strata_values) if self.clustered else None

    @property
    def weight_bound(self) -> Fraction:
        """The most that a row can weigh."""
        if self.weights is not None:
            high = columns.span(self.schema, self.weights, place=_PLACE)[1]
            return high if self.max_weight is None else min(high, self.max_weight)
        return max(self.stratum_base)

    @property
    def weight_columns(self) -> tuple[str, ...]:
        """The column without which, or at 0 or less, a row does not count."""
        return () if self.weights is None else (self.weights,)

    @property
    def weight(self) -> SumFactor | None:
        """The weight as a factor of sums: 0 for rows that weigh less, cut at the most; None without a column."""
        if self.weights is None:
            return None
        return SumFactor(column=self.weights, low=Fraction(0), high=self.weight_bound)

    @property
    def stratum_base(self) -> tuple[Fraction, ...]:
        """The weight that every row of a stratum has by the sampling plan: 1 where it says nothing."""
        return self._by_stratum(self.base)

    def unsampled_fraction(self, sampled: Floats) -> Floats:
        """Return the part of each stratum that was not drawn, 1 − f, of so many psus (or rows) sampled.

        >>> schema = Schema.from_sizes({"REGION": 2})
        >>> design = Design(schema=schema, strata="REGION", base=4, fpc={"0": 100, "1": 0.5})
        >>> design.unsampled_fraction(np.array([25.0, 7.0])).tolist()
        [0.75, 0.5]
        """
        if self.fpc is None:
            return np.ones(len(self.strata_values))
        return unsampled_fraction(self._by_stratum(self.fpc), sampled)

    def handling(self, column: str) -> MissingHandling:
        """Return what happens to rows where an answer is missing."""
        return self.missing[column].how if column in self.missing else MissingHandling.IGNORE

    def _by_stratum(self, given: ByStratum | None) -> tuple[Fraction, ...]:
        if isinstance(given, Mapping):
            return tuple(given[value] for value in self.strata_values)
        return (Fraction(1) if given is None else given,) * len(self.strata_values)

    def _list_psus(self) -> tuple[Psu, ...]:
        if self.psu is None:
            if self.psus or self.fpc_within is not None:
                raise _design_error(
                    " lists psus or sizes within them, but no column of psus.", hint='name it: psu = "…"'
                )
            return ()
        if self.psu == self.strata:
            raise _design_error(
                f": {self.psu!r} is the column of strata and of psus.", hint="name two columns"
            )
        scale = columns.scale(self.schema, self.psu, place=_PLACE)
        for stratum, psus in self.psus.items():
            self._known_stratum(stratum, key="psus")
            for psu in psus:
                columns.code(scale, psu, place=f"{_PLACE} psus of stratum {stratum!r}")
            if not psus or len(set(psus)) < len(psus):
                raise _design_error(
                    f": stratum {stratum!r} has no psus, or one of them twice.", hint="list each once"
                )
        everyone = columns.values(scale)
        return tuple(
            Psu(stratum=number, value=psu)
            for number, value in enumerate(self.strata_values)
            for psu in self.psus.get(value, everyone)
        )

    def _known_stratum(self, stratum: str, *, key: str) -> None:
        if stratum not in self.strata_values:
            known = f"strata are {quote_names(self.strata_values)}"
            raise _design_error(
                f": {key} names stratum {stratum!r}, which is none.",
                hint='name the column of strata: strata = "…"'
                if self.strata is None
                else suggest(stratum, self.strata_values, otherwise=known),
            )

    def _check_weights(self) -> None:
        if self.weights is not None and self.base is not None:
            raise _design_error(" has a column of weights and base weights.", hint="give one of the two")
        if self.weights is None:
            if self.max_weight is not None:
                raise _design_error(" has max_weight, but no weights.", hint="leave it out")
        elif columns.span(self.schema, self.weights, place=_PLACE)[1] <= 0:
            raise _design_error(
                f": no weight of {self.weights!r} is above 0.", hint="check its range in the schema"
            )
        if self.weighting_effect is not None and (self.weights is None or self.weighting_effect < 1):
            raise _design_error(
                f": weighting_effect is {float(self.weighting_effect):g}.",
                hint="give 1 + the squared coefficient of variation of a column of weights",
            )
        if self.max_weight is not None and self.max_weight <= 0:
            raise _design_error(f": max_weight is {float(self.max_weight):g}.", hint="give a number above 0")
        if self.weights is not None and self.max_weight is not None and self.max_weight > self.weight_bound:
            raise SchemaError(
                f"{_PLACE}: max_weight is {float(self.max_weight):g}, and {self.weights!r} goes to "
                f"{float(self.weight_bound):g} in the schema.",
                hint="leave max_weight out, or widen the range in the schema",
            )
        if self.max_design_effect is not None and not (
            self.max_design_effect > 0 and (self.psu or self.replicates)
        ):
            raise SchemaError(
                f"{_PLACE}: max_design_effect is {float(self.max_design_effect):g}"
                f"{'' if self.psu or self.replicates else ', and there are no psus or replicate weights'}.",
                hint="give a number above 0 where units were drawn, and leave it out where rows were",
            )
        if self.replicates is not None:
            for name in self.replicates.columns:
                columns.span(self.schema, name, place=f"{_PLACE} replicates")
            if self.weights is None:
                raise _design_error(
                    " has replicate weights, but no weights.", hint='name them too: weights = "…"'
                )

    def _check_populations(self) -> None:
        for key, given in (("base", self.base), ("fpc", self.fpc)):
            if isinstance(given, Mapping):
                for stratum in given:
                    self._known_stratum(stratum, key=key)
                if left := [value for value in self.strata_values if value not in given]:
                    raise _design_error(
                        f": {key} says nothing of stratum {quote_names(left)}.",
                        hint="give a number for every stratum",
                    )
            if (low := min(_list_numbers(given), default=Fraction(1))) <= 0:
                raise _design_error(
                    f": {key} holds {float(low):g}.", hint="give numbers above 0 for every stratum"
                )
        if self.clustered:
            self._check_psus()
        for name, number in (("the population", self.population), ("rows", self.rows)):
            if number is not None and number <= 0:
                raise _design_error(f": {name} is {float(number):g}.", hint="give a number above 0")

    def _check_psus(self) -> None:
        sampled = np.bincount(self.stratum, minlength=len(self.strata_values)).tolist()
        for value, count, size in zip(self.strata_values, sampled, self._by_stratum(self.fpc), strict=True):
            if 1 < size < count:
                raise SchemaError(
                    f"{_PLACE}: {count} psus{f' of stratum {value!r}' if value else ''} were drawn "
                    f"from a population of {float(size):g}.",
                    hint="fpc counts psus where there are psus, not rows",
                )
        within = self.fpc_within
        if isinstance(within, Mapping):
            listed = {psu.value for psu in self.psu_list}
            if strange := [*(set(within) - listed), *(listed - set(within))]:
                raise _design_error(
                    f": fpc_within and the psus differ in {quote_names(sorted(strange))}.",
                    hint="give a number for every psu, and for no other",
                )
        if min(_list_numbers(within), default=Fraction(1)) <= 0:
            raise _design_error(": fpc_within holds a number that is not above 0.", hint="give sizes")

    def _check_lonely(self) -> None:
        if not self.clustered or self.replicates is not None:
            return
        counts = np.bincount(self.stratum, minlength=len(self.strata_values))
        alone = [value for value, count in zip(self.strata_values, counts, strict=True) if count == 1]
        all_alone = len(alone) == len(self.strata_values)
        if alone and (self.lonely is LonelyPsu.FAIL or all_alone):
            where = f" in stratum {quote_names(alone)}" if alone != [""] else ""
            hint = 'choose lonely = "adjust", "average" or "remove", or join strata'
            several = "name a design with several psus in some stratum"
            raise _design_error(
                f": there is one psu{where}, which shows no variance.", hint=several if all_alone else hint
            )

    def _check_totals(self) -> None:
        if not 0 <= self.shrink <= 1 or (self.shrink and not self.totals):
            raise _design_error(
                f": shrink is {float(self.shrink):g}{'' if self.totals else ', and there are no totals'}.",
                hint="give a number from 0 to 1 beside [[totals]]",
            )
        declared = [
            (f"[[totals]] by {quote_names(each.by.clique)} add up to", each.total) for each in self.totals
        ]
        declared += [] if self.population is None else [("population is", self.population)]
        if len({total for _, total in declared}) > 1:
            # With all their digits: what differs must be seen to differ.
            shown = [(name, total if total.denominator == 1 else float(total)) for name, total in declared]
            totals = ", ".join(f"{name} {total}" for name, total in shown)
            raise SchemaError(
                f"public totals contradict each other: {totals}.",
                hint="all of them count the same population: their sums must be equal",
            )


def unsampled_fraction(known: Sequence[Fraction], sampled: Floats) -> Floats:
    """Return the parts that were not drawn, of populations that are given as numbers or as shares drawn."""
    sizes = np.array([float(each) for each in known])
    return np.clip(np.where(sizes > 1, 1 - sampled / np.maximum(sizes, 1), 1 - sizes), 0, 1)


def _design_error(text: str, *, hint: str) -> SchemaError:
    return SchemaError(f"{_PLACE}{text}", hint=hint)


def _parse_by_stratum(given: Any) -> ByStratum | None:
    if isinstance(given, Mapping):
        return {str(stratum): _parse_number(each) for stratum, each in given.items()}
    return None if given is None else _parse_number(given)


def _parse_number(given: Any) -> Fraction:
    found = to_fraction(given)
    if found is None:
        raise _design_error(
            f": {given!r} is not a finite number.",
            hint="give one number, or one for each stratum: { north = 40, south = 25 }; a column cannot be named",
        )
    return found


def _list_numbers(given: ByStratum | None) -> tuple[Fraction, ...]:
    if isinstance(given, Mapping):
        return tuple(given.values())
    return () if given is None else (given,)
