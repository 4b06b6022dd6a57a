"""Whether most tables may be lost in noise is said from the noise alone, and never wrongly denied."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from populace.marginals import Domain, Marginal
from populace.measurements import Measurement, Measurements
from populace.report.compare import Reading, compared, most_may_be_lost

DOMAIN = Domain({"a": 3, "b": 4})


def measured(counts: dict[str, Any], *, variance: Fraction) -> Measurements:
    items = tuple(
        Measurement(Marginal((name,)), np.asarray(table), variance) for name, table in counts.items()
    )
    return cast(
        Measurements,
        SimpleNamespace(
            items=items, schema=SimpleNamespace(domain=DOMAIN), record=SimpleNamespace(spends=())
        ),
    )


@pytest.mark.parametrize("deviation", [1, 3, 10, 20, 40, 80, 200])
@pytest.mark.parametrize("rows", [30, 100, 400])
def test_what_reads_as_lost_was_said_to_be_possible(deviation: int, rows: int) -> None:
    rng = np.random.default_rng(deviation * rows)
    for _ in range(50):
        codes = {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in DOMAIN.items()}
        if rng.random() < 0.5:
            codes = {name: np.minimum(values, 1) for name, values in codes.items()}
        noisy = {
            name: np.bincount(rng.permutation(codes[name]), minlength=DOMAIN[name])
            + rng.normal(0, deviation, DOMAIN[name]).round().astype(np.int64)
            for name in DOMAIN
        }
        found = measured(noisy, variance=Fraction(deviation**2))
        seen = compared(found, codes=codes, total=float(rows))
        lost = sum(each.reading is Reading.LOST for _, _, each in seen)
        if 2 * lost > len(seen):
            assert most_may_be_lost(found, total=float(rows), rows=rows)


def test_little_noise_loses_nothing() -> None:
    counts = {"a": [40, 30, 30], "b": [25, 25, 25, 25]}
    assert not most_may_be_lost(measured(counts, variance=Fraction(1)), total=100.0, rows=100)
    assert most_may_be_lost(measured(counts, variance=Fraction(900)), total=100.0, rows=100)
