"""Whether most tables may be lost in noise is said from the noise alone, and never wrongly denied."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from populace.cli.notes import note_lost_in_noise
from populace.core.marginals import Domain, Marginal
from populace.measurements.measurements import Measurement, Measurements
from populace.privacy.accounting.mechanisms import DiscreteLaplace, Mechanism
from populace.release.report import comparison as compare
from populace.release.report.comparison import Quality, can_lose_most_tables, compare_all

DOMAIN = Domain({"a": 3, "b": 4})


def measured(
    counts: dict[str, Any], *, variance: Fraction, domain: Domain = DOMAIN, mechanism: Mechanism | None = None
) -> Measurements:
    items = tuple(
        Measurement(Marginal((name,)), np.asarray(table), variance) for name, table in counts.items()
    )
    return cast(
        Measurements,
        SimpleNamespace(
            items=items,
            schema=SimpleNamespace(linked=None, domain=domain, columns={}),
            mechanisms=() if mechanism is None else (mechanism,),
        ),
    )


@pytest.mark.slow
def test_what_reads_as_lost_was_said_to_be_possible() -> None:
    """Distances of every size, those at the edge of what noise explains included: no lost table is ever denied."""
    rng = np.random.default_rng(3)
    lost = 0
    for _ in range(3_000):
        size, rows, total = int(rng.integers(2, 30)), int(rng.integers(1, 200)), float(rng.integers(1, 200))
        codes = np.arange(rows) % size if rng.random() < 0.4 else rng.integers(0, size, rows)
        apart = rng.choice([-1, 1], size) * rng.uniform(0, 2) * total / size
        counts = np.rint(np.bincount(codes, minlength=size) / rows * total + apart).astype(np.int64)
        variance = Fraction(float(10 ** rng.uniform(-1.5, 1.8)) ** 2)
        mechanism = DiscreteLaplace(scale=Fraction(1)) if rng.random() < 0.5 else None
        found = measured({"a": counts}, variance=variance, domain=Domain({"a": size}), mechanism=mechanism)
        ((_, _, comparison),) = compare_all(found, codes={"a": codes.astype(np.uint8)}, total=total)
        if comparison.quality is Quality.LOST:
            lost += 1
            assert can_lose_most_tables(found, total=total, rows=rows)
    assert lost > 750


def test_little_noise_loses_nothing() -> None:
    counts = {"a": [40, 30, 30], "b": [25, 25, 25, 25]}
    assert not can_lose_most_tables(measured(counts, variance=Fraction(1)), total=100.0, rows=100)
    assert can_lose_most_tables(measured(counts, variance=Fraction(900)), total=100.0, rows=100)


@pytest.mark.parametrize(
    ("lost", "may", "chosen", "noted"),
    [(3, True, False, True), (2, True, False, False), (3, False, False, False), (3, False, True, True)],
)
def test_more_than_half_must_be_lost(
    lost: int,
    may: bool,
    chosen: bool,
    noted: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = [Quality.LOST] * lost + [Quality.CLOSE] * (4 - lost)
    seen = [(None, None, SimpleNamespace(quality=each)) for each in readings]
    monkeypatch.setattr(compare, "compare_all", lambda *_, **__: seen)
    monkeypatch.setattr(compare, "can_lose_most_tables", lambda *_, **__: may)
    release = SimpleNamespace(
        selection=SimpleNamespace(where="a = 1") if chosen else None,
        synthetic=SimpleNamespace(num_rows=10),
        compared_codes={},
        measurements=SimpleNamespace(schema=SimpleNamespace(columns={}), released_rows=None),
        intervals=SimpleNamespace(of=lambda: SimpleNamespace(estimate=10.0)),
    )
    note_lost_in_noise(cast(Any, release))
    assert (f"note: {lost} of 4 measured" in capsys.readouterr().err) is noted
