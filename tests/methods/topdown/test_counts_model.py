"""Integer tables as a model: they come back to the last unit, and rows are drawn with just these counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from populace.core.errors import ReleaseError
from populace.core.marginals import Marginal, tabulate
from populace.inference.model import Model
from populace.methods.topdown.counts_model import build_counts_model, read_counts
from populace.sampling.draw_rows import draw_rows
from populace.schema.schema import Schema
from tests.helpers.small_geography import geography_schema


def large_schema(units: int) -> Schema:
    listed = ", ".join(f'"{number}"' for number in range(units))
    return Schema.parse(
        f'[geography]\nlevels = ["county"]\nunits = [{listed}]\n'
        '[columns.race]\nkind = "integer"\nmin = 0\nmax = 15\nother = "0"\n'
    )


@pytest.mark.parametrize("scale", [1, 50, 10**4, 10**8])
def test_counts_come_back(scale: int) -> None:
    rng = np.random.default_rng(scale)
    counts = rng.integers(0, 3, size=(5, 2, 3)) * rng.integers(0, scale + 1, size=(5, 2, 3))
    model = build_counts_model(counts, geography_schema())
    assert np.array_equal(read_counts(model), counts)
    assert model.total == counts.sum()


def test_an_empty_table_comes_back() -> None:
    model = build_counts_model(np.zeros((5, 2, 3), dtype=np.int64), geography_schema())
    assert not read_counts(model).any()
    assert round(model.total) == 0


def test_other_models_are_refused() -> None:
    schema = geography_schema()
    model = build_counts_model(np.ones((5, 2, 3), dtype=np.int64), schema)
    other = Model(domain=schema.domain, groupings={}, potentials={}, total=30.0, within={})
    for wrong in (
        other,
        replace(model, total=31.0),
        replace(model, exact=()),
        replace(model, hidden={"h": 2}),
    ):
        with pytest.raises(ReleaseError, match="does not hold the integer tables"):
            read_counts(wrong)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_rows_have_just_these_counts(seed: int) -> None:
    """200,000 rows in 16,000 cells, most of them small: rounding must not move a single one."""
    schema, rng = large_schema(1000), np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.2, 60, size=(1000, 16)))
    model = build_counts_model(counts, schema)
    (codes,) = draw_rows(model, rows=int(counts.sum()), rng=rng, chunk=2**30)
    assert np.array_equal(tabulate(Marginal(("geocode", "race")), codes=codes, domain=schema.domain), counts)


def test_counts_do_not_depend_on_where_a_systematic_sample_begins() -> None:
    class Unlucky(np.random.Generator):
        """A generator whose every offset is 0, at which rounding of cumulated shares decides."""

        def random(self, *given: object, **named: object) -> object:  # type: ignore[override]
            return np.zeros(given[0])  # type: ignore[call-overload]

    schema, rng = large_schema(500), np.random.default_rng(1)
    counts = rng.poisson(3, size=(500, 16))
    model, unlucky = build_counts_model(counts, schema), Unlucky(np.random.PCG64(1))
    (codes,) = draw_rows(model, rows=int(counts.sum()), rng=unlucky, chunk=2**30)
    assert np.array_equal(tabulate(Marginal(("geocode", "race")), codes=codes, domain=schema.domain), counts)
