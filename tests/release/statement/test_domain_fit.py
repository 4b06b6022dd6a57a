"""Where declared values do not fit the data, a run says so from the noisy counts alone; where they fit, it does not."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.core.marginals import Grouping, Marginal
from populace.measurements.measurements import Measurement, Measurements
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.report.comparison import Quality
from populace.release.statement.domain_fit import MAX_FALSE_WARNING_RATE, find_out_of_domain
from populace.schema.schema import Schema
from tests.helpers.releases import small_sample

NUMBERS = count()
SEX = '[columns.sex]\nkind = "categorical"\nvalues = ["M", "F"]\n'
AGE = '[columns.age]\nkind = "integer"\nmin = 0\nmax = 9\n'


def measured(schema: str, cells: Mapping[str, object], *, folder: Path, **asked: object) -> Measurements:
    from populace.api.measure import measure

    wish = {"epsilon": 1, "delta": "1e-9", "method": "auto"} | asked
    noise = ExactNoise(RehearsalEntropy(int(str(asked.get("seed", 1)))))
    wish.pop("seed", None)
    return measure(
        pa.table(cells),
        schema=Schema.parse(schema),
        ledger=folder / f"{next(NUMBERS)}.db",
        noise=noise,
        **wish,
    )


def named(measurements: Measurements) -> list[str]:
    return [found.column.name for found in find_out_of_domain(measurements)]


AGES = {"age": [str(place % 10) for place in range(1000)]}


@pytest.mark.parametrize("method", ["auto", "mst", "independent", "aim", "histogram", "privbayes", "mwem"])
def test_a_wrong_codebook_is_told_at_a_thousand_rows(method: str, tmp_path: Path) -> None:
    found = measured(SEX + AGE, {"sex": ["1", "2"] * 500, **AGES}, folder=tmp_path, method=method)
    assert named(found) == ["sex"]
    (told,) = find_out_of_domain(found)
    assert told.share == pytest.approx(1, abs=0.25)
    assert 0 < told.margin < 0.5
    assert told.is_most
    assert named(measured(SEX + AGE, {"sex": ["M", "F"] * 500, **AGES}, folder=tmp_path, method=method)) == []


@pytest.mark.slow
def test_a_wrong_codebook_is_always_told_and_a_right_one_hardly_ever(tmp_path: Path) -> None:
    """Noise redrawn 2,000 times: the share of false alarms stays below 1 %, also at the limit itself.

    With 1 % true, a binomial with 2,000 tries exceeds 40 with probability 2·10⁻⁵; the seed is fixed.
    """
    rng = np.random.default_rng(19)
    base = measured(SEX, {"sex": ["M", "F"] * 500}, folder=tmp_path)
    deviation = float(base.items[0].variance) ** 0.5

    def alarms(counts: list[int]) -> int:
        found = 0
        for _ in range(2000):
            noisy = np.rint(np.array(counts) + deviation * rng.standard_normal(3)).astype(int)
            item = Measurement(Marginal(("sex",)), noisy, base.items[0].variance)
            found += bool(
                find_out_of_domain(Measurements(schema=base.schema, items=(item,), record=base.record))
            )
        return found

    assert alarms([0, 0, 1000]) == 2000
    assert alarms([350, 350, 300]) == 2000
    assert alarms([500, 500, 0]) <= 2000 * MAX_FALSE_WARNING_RATE * 2
    assert alarms([495, 495, 10]) <= 2000 * MAX_FALSE_WARNING_RATE * 2


@pytest.mark.parametrize(
    ("column", "cells", "told"),
    [
        # Dates and numbers in another form, and numbers beyond an end that does not hold them.
        ('kind = "date"\nmin = 2000-01-01\nmax = 2009-12-31\nwidth = "year"', ["31.12.2004"], True),
        ('kind = "date"\nmin = 2000-01-01\nmax = 2009-12-31\nwidth = "year"', ["2004-12-31"], False),
        ('kind = "integer"\nmin = 0\nmax = 99', ["12 kg", "5"], True),
        ('kind = "integer"\nmin = 0\nmax = 99', ["12", "5"], False),
        ('kind = "integer"\nmin = 0\nmax = 99\nbeyond = "other"', ["1200", "5"], True),
        # Nearest end: what lies beyond is counted with the end, and nothing tells it apart.
        ('kind = "integer"\nmin = 0\nmax = 99', ["1200", "5"], False),
        ('kind = "integer"\nmin = 0\nmax = 999\nsplit = 10', ["12 kg", "5"], True),
        ('kind = "integer"\nmin = 0\nmax = 999\nsplit = 10', ["12", "5"], False),
        # Empty cells that nobody expects, and those that somebody does.
        ('kind = "categorical"\nvalues = ["a"]', ["a", "a", ""], True),
        ('kind = "categorical"\nvalues = ["a"]\nmissing = [""]', ["a", "a", ""], False),
        ('kind = "categorical"\nvalues = ["a"]\nmissing = [""]', ["x", "x", "a"], True),
        # A code for everything else: some rows are expected there, not most of them.
        ('kind = "categorical"\nvalues = ["a"]\nother = "else"', ["a", "a", "x"], False),
        ('kind = "categorical"\nvalues = ["a"]\nother = "else"', ["x", "x", "x", "a"], True),
        ('kind = "categorical"\nvalues = ["a"]\nmissing = ["R"]\nother = "R"', ["R", "a", "a"], False),
        # One of the values stands for everything else: no count tells the two apart.
        # What becomes a value of the domain is told where it fills the column.
        ('kind = "categorical"\nvalues = ["a", "b"]\nother = "b"', ["x"], True),
        ('kind = "categorical"\nvalues = ["a", "b"]\nother = "b"', ["x", "b", "b", "a"], False),
        ('kind = "integer"\nmin = 0\nmax = 9\nother = "0"', ["2 years", "3 years"], True),
        ('kind = "integer"\nmin = 0\nmax = 9\nother = "0"', [*["0"] * 19, "5"], False),
        ('kind = "categorical"\nvalues = "learn"', ["a", "a", "b"], False),
    ],
)
def test_every_kind_of_column_is_told_by_its_own_limit(
    column: str, cells: list[str], told: bool, tmp_path: Path
) -> None:
    rows = (cells * 3000)[:3000]
    found = measured(f"[columns.x]\n{column}\n", {"x": rows}, folder=tmp_path, epsilon=2)
    assert named(found) == (["x"] if told else [])


def test_codes_that_were_merged_with_values_tell_nothing(tmp_path: Path) -> None:
    base = measured(SEX, {"sex": ["M", "F"] * 500}, folder=tmp_path)
    for groups, expected in (((0, 1, 1), []), ((0, 0, 1), ["sex"])):
        merged = Marginal(("sex",), (Grouping("sex", groups),))
        item = Measurement(merged, np.array([500, 500]), Fraction(4))
        assert named(Measurements(schema=base.schema, items=(item,), record=base.record)) == expected


def test_the_sample_population_fits_its_schema(tmp_path: Path) -> None:
    table, schema = small_sample()
    release = pp.synthesize(table, schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "ledger.db")
    assert find_out_of_domain(release.measurements) == ()


def test_statement_and_report_tell_it_first_and_nothing_is_called_close(tmp_path: Path) -> None:
    release = pp.synthesize(
        pa.table({"sex": ["1", "2"] * 2000, "age": [str(place % 10) for place in range(4000)]}),
        schema=Schema.parse(SEX + AGE),
        epsilon=5,
        delta="1e-9",
        ledger=tmp_path / "ledger.db",
    )
    (warning,) = [line for line in release.statement["warnings"] if not line.startswith("ε")]
    assert warning.startswith("About ")
    assert "% of the rows (± " in warning
    assert "outside the domain of “sex”: they hold a value that the schema does not declare" in warning
    document = release.document()
    assert document.summary[0].startswith("Many rows lie outside the domain of sex")
    readings = {column.name: column.comparison.quality for column in document.columns}
    assert readings == {"sex": Quality.OUTSIDE, "age": Quality.CLOSE}
    assert [pair.comparison.quality for pair in document.pairs] == [Quality.OUTSIDE] * len(document.pairs)
    page = release.report()
    assert page.index("outside the domain of “sex”") < page.index("Accuracy at a glance")
    release.save(tmp_path / "out", report=False)
    assert warning in (tmp_path / "out" / "statement.md").read_text(encoding="utf-8")
    assert pp.verify(tmp_path / "out").passed
