"""What rows count for in a sum, whatever the order of cells; and donors whose luck is that of one run alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.marginals import Marginal
from populace.privacy.accounting.fixed_point import STEPS
from populace.private.private_table import PrivateTable
from populace.private.survey import exact_sums as sums
from populace.private.survey import smooth_answers as smooth
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.survey.sums import CellWeights, Sum
from tests.helpers.planted_faults import seeded
from tests.private.survey.test_smooth_answers import FILLED, SCHEMA, table

TINY = Schema.from_sizes({"a": 3})


def check_weights() -> None:
    """A row adds its weight in steps of the greatest weight, wherever that one stands."""
    rows = SurveyRows(codes={"a": np.array([0, 1, 2, 2], np.uint8)}, numbers={})
    for weights in ((3, 12, 0), (12, 3, 6), (0, 6, 12)):
        asked = Sum(weights=CellWeights(by=Marginal(("a",)), values=tuple(map(Fraction, weights))))
        found = sums.row_contributions(rows, asked, schema=TINY)
        assert found.tolist() == [STEPS * weights[code] // 12 for code in (0, 1, 2, 2)]


def check_labels() -> None:
    """Two runs on one table fill by labels of their own; questions of one run share what was filled."""
    rows = table([("1", 3, age) for age in range(9)] + [("2", 3, -1)] * 9).survey_rows()
    for key in ("one", "other", "one"):
        smooth.answer(rows, FILLED, schema=SCHEMA, key=key)
    filled = [rows.kept[FILLED.donors, key] for key in ("one", "other")]
    assert len(rows.kept) == 2
    assert [each.key for each in filled] == ["one", "other"]
    assert not np.array_equal(*(each._filled for each in filled))


def check_tallies() -> None:
    """Of two columns with values to be learnt each has its own, whichever is asked for first."""
    schema = Schema.parse(
        "".join(f'[columns.{name}]\nkind = "categorical"\nvalues = "learn"\n' for name in "xy")
    )
    data = pa.table({"x": ["Bonn", "Bonn", "Ulm"], "y": ["red", "blue", "blue"]})
    for order in ("xy", "yx"):
        private = PrivateTable.of(data, schema=schema)
        found = {name: private.tally(name) for name in order}
        assert found["x"].keys.to_pylist() == ["Bonn", "Ulm"]
        assert found["y"].keys.to_pylist() == ["blue", "red"]
        assert found["y"].counts.tolist() == [2, 1]


@pytest.mark.parametrize("check", [check_weights, check_labels, check_tallies])
def test_sound_code_passes(check):
    check()


@pytest.mark.parametrize(
    ("check", "held", "old", "new"),
    [
        (
            check_weights,
            sums.row_contributions,
            "asked.weights.most",
            "asked.weights.values[0] or asked.weights.most",
        ),
        (
            check_tallies,
            PrivateTable.tally,
            "self._read_tallies()[column]",
            "next(iter(self._read_tallies().values()))",
        ),
        (check_labels, smooth.answer, "key=key", 'key="one"'),
    ],
)
def test_a_fault_is_seen(check, held, old, new):
    with seeded(held, old, new), pytest.raises(AssertionError):
        check()
