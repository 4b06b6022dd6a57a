"""Crosstabs against tables that are summed by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Grouping, Marginal
from populace.measurements.measurements import Measurement
from populace.release.report.crosstabs import MAX_CODES, make_crosstab
from populace.schema.schema import Schema

SCHEMA = Schema.from_sizes({"age": 40, "sex": 2})


def measured(counts: np.ndarray, *groupings: Grouping) -> Measurement:
    return Measurement(marginal=Marginal(("age", "sex"), groupings), counts=counts, variance=Fraction(1))


def test_shares_are_those_of_merged_codes_and_add_up() -> None:
    rng = np.random.default_rng(1)
    noisy, drawn = rng.integers(0, 50, (2, *SCHEMA.domain.shape(("age", "sex"))))
    found = make_crosstab(measured(noisy), synthetic=drawn, schema=SCHEMA, total=float(noisy.sum()))
    assert found.columns == ("age", "sex")
    assert len(found.rows) <= MAX_CODES + 1
    cells = [cell for row in found.cells for cell in row]
    assert sum(cell.noisy for cell in cells) == pytest.approx(1.0)
    assert sum(cell.synthetic for cell in cells) == pytest.approx(1.0)
    assert found.cells[0][0].noisy <= noisy[:, 0].sum() / noisy.sum()


def test_pairs_in_groups_have_no_crosstab() -> None:
    size = SCHEMA.domain["age"]
    grouped = Grouping("age", tuple(int(code > 3) for code in range(size)))
    item = measured(np.zeros((2, SCHEMA.domain["sex"]), dtype=np.int64), grouped)
    assert make_crosstab(item, synthetic=np.zeros((2, 2), dtype=np.int64), schema=SCHEMA, total=1.0) is None
