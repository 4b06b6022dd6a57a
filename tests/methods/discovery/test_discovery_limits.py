"""Ranges at the edge of what can be learnt: a run is refused before it costs anything, or ends with a true release."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import PopulaceError, ResourceError, SchemaError
from populace.core.limits import LIMITS
from populace.methods.discovery import discovery_grid as grids
from populace.methods.discovery.discovery_grid import DiscoveryGrid
from populace.methods.discovery.domain_discovery import build_grids
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.verify.verify import verify
from populace.schema.codec.within_bin_draws import draw_values
from populace.schema.columns.date_columns import DateColumn, DateTimeColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import BinDensity
from populace.schema.columns.unknown_columns import UnknownBins
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

ROWS = 400


@pytest.fixture(autouse=True)
def few_cells(monkeypatch):
    """Wide ranges have more values than cells all the same, and tests are fast."""
    few = replace(LIMITS, max_grid_cells=2**12, max_decimal_bins=2**11)
    monkeypatch.setattr(grids, "LIMITS", few)


def whole(*edges: int) -> IntegerColumn:
    return IntegerColumn(name="x", min=edges[0], max=edges[-1], starts=edges[:-1], density=BinDensity())


def decimals(*edges: str, **more: int) -> DecimalColumn:
    return DecimalColumn(
        name="x", edges=tuple(Fraction(edge) for edge in edges), density=BinDensity(), **more
    )


# ------------------------------------------------------------------------------------------ grids


@pytest.mark.parametrize(
    "column",
    [
        whole(0, 12345, 10**6, 10**9),
        whole(-(2**53) + 1, -7, 2**53 - 1),
        decimals("0", "10", "100", "1000", "10000", "1000000", decimals=2),
        decimals("0", "12.345", "1000.1", "1000000"),
        decimals("-2e17", "3000", "5e16"),
        decimals(*(str(Fraction(25, 2) * n) for n in range(401))),
        decimals("0", str(2**60)),
        DateTimeColumn(name="x", min=0, max=10**9, starts=(0, 11_222_333), density=BinDensity()),
    ],
    ids=lambda column: f"{column.kind}-{column.levels}",
)
def test_bins_begin_where_cells_do(column):
    """With more values than cells, the declared edges are cells as well, each with its own value alone."""
    grid = DiscoveryGrid.of(column)
    wanted = column.starts_in_units(grid.unit)
    assert grid.starts[grid.places(column)].tolist() == wanted.tolist()
    assert set((wanted[:-1] + 1).tolist()) <= {*grid.starts.tolist()}
    assert grid.cells <= 2**12 + 4
    assert grid.cells <= grids.max_grid_cells(column), "told before it is built"
    grid.check(column)


def test_a_grid_that_lacks_an_edge_is_refused():
    column = whole(0, 12345, 10**6, 10**9)
    with pytest.raises(SchemaError, match="whole cells"):
        DiscoveryGrid.of(UnknownBins(name="x", min=Fraction(0), max=Fraction(10**9), of=IntegerColumn)).check(
            column
        )


def test_a_column_of_very_many_bins_is_its_own_grid():
    column = IntegerColumn(name="x", min=0, max=10**6, starts=range(0, 10**6 + 1, 700), density=BinDensity())
    grid = DiscoveryGrid.of(column)
    assert (grid.cells, grid.steps, {*grid.classes.tolist()}) == (column.levels, (1,), {0})
    edges = tuple(Fraction(n) for n in range(0, 100_000, 100))
    wide = DecimalColumn(name="x", edges=edges, density=BinDensity())
    assert (DiscoveryGrid.of(wide).cells, DiscoveryGrid.of(wide).steps) == (wide.levels, (1,))


@pytest.mark.parametrize(
    ("low", "high"), [("1e-7", "1e12"), ("1e-10", "1e10"), ("1", "1e300"), ("-3e-9", "1e8")]
)
def test_edges_too_far_apart_in_size_are_refused_from_the_schema(low, high):
    schema = Schema.parse(f'[columns.x]\nkind = "numeric"\nmin = {low}\nmax = {high}\nbins = "learn"\n')
    with pytest.raises(SchemaError, match="as small and as large") as caught:
        build_grids(schema)
    assert "min = 0" in str(caught.value.hint)


WIDE = 'kind = "integer"\nmin = 0\nmax = 1000000000\nbins = "learn"'


def test_a_grid_is_built_once(tmp_path, monkeypatch):
    """What is checked before anything is spent is what is learnt on."""
    built = []
    fine = grids._finest_column
    monkeypatch.setattr(grids, "_finest_column", lambda column: built.append(column.name) or fine(column))
    assert run(WIDE, pa.array(integers(0, 10**9)), tmp_path) is not None
    assert built == ["x"]


def test_memory_is_checked_before_grids_are_built(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda _: 1)
    monkeypatch.setattr(
        grids, "_finest_column", lambda column: pytest.fail(f"the grid of {column.name} was built")
    )
    schema = Schema.parse(f"[columns.x]\n{WIDE}\n")
    with pytest.raises(ResourceError, match="memory"):
        measure(
            pa.table({"x": [1, 2]}), schema=schema, epsilon="1", delta="1e-9", ledger=tmp_path / "ledger.db"
        )
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize(("low", "high"), [("0", "1e-300"), ("1e-300", "1e-299"), ("-1e-120", "0")])
def test_ranges_too_small_for_arithmetic_are_refused_from_the_schema(low, high):
    schema = Schema.parse(f'[columns.x]\nkind = "numeric"\nmin = {low}\nmax = {high}\nbins = "learn"\n')
    with pytest.raises(SchemaError, match="nearer to 0") as caught:
        build_grids(schema)
    assert "unit of measurement" in str(caught.value.hint)


MINUTES = """
[columns.x]
kind = "datetime"
min = "2020-01-01 00:00{low}"
max = "2020-12-31 {high}"
format = "%Y-%m-%d %H:%M"
bins = "learn"
"""


@pytest.mark.parametrize("high", ["23:59", "23:59:30", "23:59:59"])
def test_moments_of_a_coarse_format_may_end_at_any_second(high):
    """The last minute is a cell like the others, whether the range stops at its start, within it or at its end."""
    schema = Schema.parse(MINUTES.format(low="", high=high))
    grid = DiscoveryGrid.of(schema.columns["x"])
    assert grid.unit == 60
    assert grid.starts[-1] == grid.column.max // 60 + 1
    assert Schema.parse(schema.to_toml()) == schema


def test_moments_of_a_coarse_format_begin_where_a_text_does():
    with pytest.raises(SchemaError, match="do not distinguish its bins") as caught:
        Schema.parse(MINUTES.format(low=":20", high="23:59"))
    assert "min" in str(caught.value.hint)


@pytest.mark.parametrize("kind", ["integer", "numeric", "date"])
def test_bins_of_one_value_are_not_learnt(kind):
    value = '"2020-01-01"' if kind == "date" else "5"
    with pytest.raises(SchemaError, match="min and max"):
        Schema.parse(f'[columns.x]\nkind = "{kind}"\nmin = {value}\nmax = {value}\nbins = "learn"\n')


def test_a_bin_of_whole_numbers_may_be_the_greatest_alone():
    flag = UnknownBins(name="x", min=Fraction(0), max=Fraction(1), of=IntegerColumn)
    assert list(flag.with_domain([Fraction(0), Fraction(1)]).starts) == [0, 1]
    share = UnknownBins(name="x", min=Fraction(0), max=Fraction(1))
    assert share.with_domain([Fraction(0), Fraction(1)]).edges == (0, 1)
    days = UnknownBins(name="x", min=Fraction(0), max=Fraction(1), of=DateColumn)
    assert list(days.with_domain([Fraction(1)]).starts) == [0, 1]


# ------------------------------------------------------------------------------------------ drawing


@pytest.mark.parametrize("unit", ["5e16", "5e292", "1e-30", "3e-5", "0.125"])
def test_drawn_numbers_are_the_floats_of_their_decimals(unit):
    step = Fraction(unit)
    law = BinDensity(starts=(0, 1900), weights=(1, 3), steps=(1,), class_weights=((1,),), unit=step)
    column = DecimalColumn(name="x", edges=(Fraction(0), 2000 * step), density=law)
    drawn = draw_values(column, np.zeros(ROWS, dtype=np.int64), rng=np.random.default_rng(1))
    assert drawn.dtype == np.float64
    assert {*drawn.tolist()} <= {float(n * step) for n in range(2001)}
    assert drawn.max() > float(1900 * step)


@pytest.mark.slow
def test_rows_keep_their_bin_however_many_bins_there_are():
    """Points close to the end of a bin of many rows must not be drawn from the next bin."""
    bins = 60_000
    law = BinDensity(
        starts=tuple(range(0, 3 * bins, 1)),
        weights=(1, 0, 1) * bins,
        steps=(1,),
        class_weights=((1,),) * bins,
    )
    column = IntegerColumn(name="x", min=0, max=3 * bins - 1, starts=range(0, 3 * bins, 3), density=law)
    levels = np.full(200_000, bins - 2, dtype=np.int64)
    rng = np.random.default_rng(1)
    drawn = draw_values(column, levels, rng=rng)
    assert np.unique(drawn).tolist() == [3 * (bins - 2), 3 * (bins - 2) + 2]
    assert (drawn == 3 * (bins - 2)).sum() == len(levels) // 2


# ------------------------------------------------------------------------------------------ whole runs


def run(head: str, values, tmp_path, *, epsilon: str = "10"):
    """Return the release of a table of one odd column, or None where the run was refused before it cost anything."""
    ledger = tmp_path / "l.db"
    try:
        schema = Schema.parse(
            f'[table]\nunit = "row"\n[columns.x]\n{head}\n[columns.y]\nkind = "integer"\nmin = 0\nmax = 1\n'
        )
        release = synthesize(
            pa.table({"x": values, "y": pa.array(np.arange(len(values)) % 2)}),
            schema=schema,
            epsilon=epsilon,
            delta="1e-9",
            method="independent",
            ledger=ledger,
            seed=1,
            noise=ExactNoise(RehearsalEntropy(seed=1)),
        )
    except PopulaceError:
        assert not ledger.exists()
        return None
    release.save(tmp_path / "out")
    assert {check.name for check in verify(tmp_path / "out").checks if not check.passed} == {"real noise"}
    return release


def between(low: float, high: float) -> list[float]:
    return np.clip(low + (high - low) * np.random.default_rng(1).random(ROWS), low, high).tolist()


def integers(low: int, high: int) -> list[int]:
    found = np.random.default_rng(1).integers(low, high, ROWS, endpoint=True)
    found[: ROWS // 3] = high
    return found.tolist()


def texts(unit: str, first: str, count: int) -> list[str]:
    places = np.random.default_rng(1).integers(0, count, ROWS)
    found = (np.datetime64(first).astype(f"datetime64[{unit}]") + places).astype(str)
    return [str(each).replace("T", " ") for each in found]


LEARN = 'bins = "learn"'
INSIDE = 'inside = "learn"'
FAR = 2**53 - 1
RANGES = {
    "all whole numbers": (f'kind = "integer"\nmin = {-FAR}\nmax = {FAR}\n{LEARN}', integers(-FAR, FAR)),
    "wide edges": (
        f'kind = "integer"\nedges = [0, 12345, 1000000, 1000000000]\n{INSIDE}',
        integers(0, 10**9),
    ),
    "a flag": (f'kind = "integer"\nmin = 0\nmax = 1\n{LEARN}', integers(0, 1)),
    "one number": (f'kind = "integer"\nmin = 5\nmax = 5\n{LEARN}', [5] * ROWS),
    "a heap at the end": (f'kind = "integer"\nmin = 0\nmax = 3000\n{LEARN}', integers(0, 3000)),
    "many bins": (f'kind = "integer"\nmin = 0\nmax = 999999\nwidth = 700\n{INSIDE}', integers(0, 999_999)),
    "money": (
        f'kind = "numeric"\nedges = [0, 10, 100, 1000, 10000, 1000000]\ndecimals = 2\n{INSIDE}',
        [round(each, 2) for each in between(0, 1e6)],
    ),
    "width": (f'kind = "numeric"\nmin = 0\nmax = 10000\nwidth = 12.5\n{INSIDE}', between(0, 1e4)),
    "tiny": (f'kind = "numeric"\nmin = 0\nmax = 1e-30\n{LEARN}', between(0, 1e-30)),
    "tiny to huge": (f'kind = "numeric"\nmin = 0.0000001\nmax = 1000000000000\n{LEARN}', between(1, 1e12)),
    "tinier to huge": (f'kind = "numeric"\nmin = 1e-10\nmax = 1e10\n{LEARN}', between(1, 1e10)),
    "beyond int64": (f'kind = "numeric"\nmin = 0\nmax = 1e20\n{LEARN}', between(0, 1e20)),
    "both signs": (f'kind = "numeric"\nmin = -1e25\nmax = 1e25\n{LEARN}', between(-1e25, 1e25)),
    "huge": (f'kind = "numeric"\nmin = 0\nmax = 1e300\n{LEARN}', between(0, 1e300)),
    "odd end": (f'kind = "numeric"\nmin = 0\nmax = {2**60}\n{LEARN}', between(0, 2.0**60)),
    "far from 0": (f'kind = "numeric"\nmin = 1000000000\nmax = 1000000001\n{LEARN}', between(1e9, 1e9 + 1)),
    "a week": (
        f'kind = "date"\nmin = "2020-01-01"\nmax = "2020-01-07"\n{LEARN}',
        texts("D", "2020-01-01", 7),
    ),
    "a day": (f'kind = "date"\nmin = "2020-01-01"\nmax = "2020-01-01"\n{LEARN}', ["2020-01-01"] * ROWS),
    "all days": (
        f'kind = "date"\nmin = "0001-01-01"\nmax = "9999-12-31"\n{LEARN}',
        texts("D", "1990-01-01", 9000),
    ),
    "seconds": (
        f'kind = "time"\nmin = "12:00:00"\nmax = "12:00:03"\n{LEARN}',
        [each[11:] for each in texts("s", "2020-01-01T12:00:00", 4)],
    ),
    "moments": (
        'kind = "datetime"\nedges = ["2000-01-01 00:00:00", "2005-03-04 11:22:33", "2020-12-31 23:59:59"]\n'
        + INSIDE,
        texts("s", "2000-01-01T00:00:00", 600_000_000),
    ),
}
REFUSED = {"one number", "a day", "tiny to huge", "tinier to huge"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sample_cases(RANGES, to=5))
def test_a_run_is_refused_for_nothing_or_ends_with_a_release(name, tmp_path):
    head, values = RANGES[name]
    release = run(head, pa.array(values), tmp_path)
    assert (release is None) == (name in REFUSED)


def test_a_heap_at_the_greatest_number_is_a_bin(tmp_path):
    head, values = RANGES["a heap at the end"]
    release = run(head, pa.array(values), tmp_path)
    assert release is not None
    assert release.measurements.schema.columns["x"].starts[-1] == 3000
    assert abs(np.mean(release.table["x"].to_numpy() == 3000) - np.mean(np.array(values) == 3000)) < 0.05


def test_large_numbers_come_back_where_they_were(tmp_path):
    head, values = RANGES["beyond int64"]
    release = run(head, pa.array(values), tmp_path)
    assert release is not None
    drawn = release.table["x"].to_numpy()
    # Noise may put a few rows where there is no number.
    drawn = drawn[~np.isnan(drawn)]
    assert 0 <= drawn.min() <= drawn.max() <= 1e20
    assert abs(drawn.mean() / np.mean(values) - 1) < 0.2
