"""What estimates of a survey will give for a budget: the privacy error of each, from public facts alone.

Rows are invented from the schema, spread evenly over the values of every column, and asked what the queries ask, with
the noise that the budget buys and without drawing it. How far noise moves an estimate follows from how many rows its
group has and what they weigh, and hardly from anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.errors import UsageError
from populace.marginals import Counts
from populace.privacy.budget import Budget, Number, parse_delta, parse_epsilon
from populace.private.empty import Empty, check
from populace.private.statistics.rows import SurveyRows
from populace.private.statistics.sums import added
from populace.records import dataclass
from populace.schema.dates import Dated
from populace.schema.encoder import settled
from populace.schema.numbers import WHOLE_LIMIT
from populace.schema.ranges import Integer, Numeric
from populace.schema.schema import Schema
from populace.schema.valued import numbered
from populace.survey.cells import Cells
from populace.survey.design import Design
from populace.survey.estimate import concluded
from populace.survey.oracle import SumBatch
from populace.survey.queries import Queries
from populace.survey.result import Estimate
from populace.survey.ways import Ways

# More invented rows than these tell no more: sums are scaled up.
MOST_ROWS = 100_000
# Where the population is not public, rows are taken to weigh this part of the most: few designs have less.
LIGHT = Fraction(1, 5)
_SEED = 2026

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The privacy error to expect of one query: that of its middle group and of its worst, None where none is told."""

    query: str
    groups: int
    lost: int
    """Groups too small to be told from the noise."""
    middle: float | None
    worst: float | None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "query": self.query,
            "groups": self.groups,
            "too_few": self.lost,
            "privacy_error": self.middle,
            "worst_privacy_error": self.worst,
        }


def expect(
    *, schema: Schema, design: Design, queries: Queries, rows: int, epsilon: Number, delta: Number = 0
) -> tuple[Expected, ...]:
    """Return what to expect of estimates of a sample of about so many rows; nothing private is read or spent.

    >>> schema = Schema.from_sizes({"SEX": 2, "AGE": 100})
    >>> queries = Queries.parse('[[query]]\\nstatistic = "mean"\\ncolumn = "AGE"', schema=schema)
    >>> (found,) = expect(schema=schema, design=Design(schema=schema), queries=queries, rows=10_000, epsilon=1)
    >>> 0.005 < found.worst < 0.05
    True
    """
    if not 1 <= rows <= WHOLE_LIMIT:
        raise UsageError(
            f"a sample of {rows} rows says nothing.",
            hint=f"give about how many rows there are, from 1 to {WHOLE_LIMIT}",
        )
    budget = Budget.of(parse_epsilon(epsilon), parse_delta(delta), unit=schema.unit)
    check(design, queries, budget=budget)
    plan = Ways.of(design, queries).plan
    found: tuple[Estimate, ...] = ()
    if plan is not None:
        found = concluded(Invented.of(design, rows=rows, budget=budget), plan=plan)
    return tuple(
        _expected(query.name, [row for row in found if row.query == query.name]) for query in queries
    )


def row_weight(design: Design, rows: int) -> float:
    """Return what a row is taken to weigh: its part of the population where that is public."""
    if design.weights is None:
        return 1.0
    most = design.heaviest
    known = most * LIGHT if design.population is None else design.population / rows
    return float(min(known, most))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Invented(Empty):
    """An oracle about invented rows, told exactly: laws of noise are those of a real run, and none is drawn."""

    rows: SurveyRows
    times: float

    @classmethod
    def of(cls, design: Design, *, rows: int, budget: Budget) -> Invented:
        """Return rows that are spread evenly over the values of every column."""
        schema, count = design.schema, min(rows, MOST_ROWS)
        rng = np.random.default_rng(_SEED)
        codes = {
            name: rng.integers(0, _levels(schema, name, size), count) for name, size in schema.domain.items()
        }
        if design.clustered:
            # Rows elsewhere would not count.
            units = Cells.psus(design)
            drawn = rng.integers(0, len(units.weights), count)
            codes |= {
                name: own[drawn]
                for name, own in zip(units.columns, units.codes, strict=True)
                if name in schema.domain
            }
        numbers = {name: _numbers(schema, name, codes, rng=rng) for name in numbered(schema)}
        replicates = () if design.replicates is None else design.replicates.columns
        for name in (*replicates, *([design.weights] if design.weights else [])):
            numbers[name] = np.full(count, row_weight(design, rows))
        return cls(
            schema=schema,
            budget=budget,
            rows=SurveyRows(codes=codes, numbers=numbers),
            times=rows / count,
        )

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of the invented rows."""
        return tuple(
            np.rint(added(self.rows, each, schema=self.schema) * self.times).astype(np.int64)
            for sums, _ in batches
            for each in sums
        )


def _levels(schema: Schema, name: str, size: int) -> int:
    """Return how many codes of a variable are values, and not special ones."""
    column = schema.columns.get(name)
    return size if column is None or len(column.variables) > 1 else column.levels


def _numbers(schema: Schema, name: str, codes: Mapping[str, Counts], *, rng: np.random.Generator) -> Floats:
    """Return numbers that lie evenly within the codes of a column."""
    column = settled(schema.columns[name])
    if not isinstance(column, Integer | Numeric | Dated):
        raise TypeError(f"column {name!r} has no numbers")
    ends = np.array([[float(end) for end in column.bounds(level)] for level in range(column.levels)])
    own = codes[name] if name in codes else rng.integers(0, len(ends), len(next(iter(codes.values()))))
    low, high = ends[own].T
    found: Floats = low + (high - low) * rng.random(len(own))
    return found


def _expected(query: str, rows: Sequence[Estimate]) -> Expected:
    errors = sorted(row.privacy_error for row in rows if row.privacy_error is not None)
    return Expected(
        query=query,
        groups=len(rows),
        lost=len(rows) - len(errors),
        middle=errors[len(errors) // 2] if errors else None,
        worst=errors[-1] if errors else None,
    )
