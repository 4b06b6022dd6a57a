"""Small releases for tests: a real ledger, seeded noise in place of the barrier's, and what populace makes of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from populace.core.marginals import Marginal, tabulate
from populace.measurements.measurements import Measurement, Measurements
from populace.methods.fit_measurements import fit
from populace.privacy.accounting.mechanisms import Exponential, Noise, Spend
from populace.privacy.ledger.ledger import Ledger
from populace.release.bundle import Release
from populace.release.synthetic_rows import draw_tables
from populace.release.table_files import TableFormat, find_frame_library, table_format_like
from populace.schema.codec.encoder import encode_values
from populace.schema.schema import Schema
from populace.simulation.population import simulate_population

FEW = ("sex", "education", "work", "age", "income")


def small_sample(columns: tuple[str, ...] = FEW, households: int = 400) -> tuple[pa.Table, Schema]:
    """Return some columns of the sample population."""
    table, schema = simulate_population(households=households)
    kept = {name: schema.columns[name] for name in columns}
    return table.select(list(columns)), Schema(columns=kept, unit=schema.unit, dataset=schema.dataset)


def measure(
    table: pa.Table,
    schema: Schema,
    *,
    ledger: Path,
    epsilon: str = "1",
    delta: str = "1e-9",
    rehearsal: bool = False,
    seed: int = 1,
) -> Measurements:
    """Measure the number of rows, every column and neighbouring pairs, after some choices, as `mst` would."""
    rng = np.random.default_rng(seed)
    codes = {name: encode_values(column, table[name]) for name, column in schema.columns.items()}
    run = Ledger.open(ledger).reserve(
        schema.dataset or "table",
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        unit=schema.unit,
        method="mst",
        schema_digest=schema.digest,
        rehearsal=rehearsal,
    )
    l1, l2_squared = schema.unit.marginal_l1, schema.unit.marginal_l2_squared
    items: list[Measurement] = []

    def ask(marginals: list[Marginal], noise: Noise) -> None:
        what = str(marginals[0]) if len(marginals) == 1 else f"{len(marginals)} marginals"
        run.charge(
            Spend(
                verb="measure",
                what=what,
                mechanism=noise,
                answers=len(marginals),
                l1=l1,
                l2_squared=l2_squared,
            )
        )
        for marginal in marginals:
            exact = tabulate(marginal, codes=codes, domain=schema.domain)
            drawn = np.rint(rng.normal(0, float(noise.variance) ** 0.5, exact.shape)).astype(np.int64)
            items.append(Measurement(marginal, exact + drawn, noise.variance))

    pairs = [Marginal(pair) for pair in pairwise(schema.columns)]
    ask([Marginal(())], run.record().budget.measure_noise(Fraction(1, 100), marginals=1))
    columns = [Marginal((name,)) for name in schema.columns]
    ask(columns, run.record().budget.measure_noise(Fraction(24, 100), marginals=len(columns)))
    for _ in pairs:
        mechanism = run.record().budget.choice(Fraction(10, 100), choices=len(pairs))
        assert isinstance(mechanism, Exponential)
        run.charge(
            Spend(
                verb="choose",
                what="1 of 10 marginals",
                mechanism=mechanism,
                answers=1,
                l1=l1,
                l2_squared=l1**2,
            )
        )
    if pairs:
        ask(pairs, run.record().budget.measure_noise(Fraction(64, 100), marginals=len(pairs)))
    run.finish()
    return Measurements(schema=schema, items=tuple(items), record=run.record())


def make(
    measurements: Measurements, *, seed: int = 7, rows: int | None = None, like: object = None
) -> Release:
    """Fit a model to what was measured, and draw rows from it."""
    schema = measurements.schema
    model = fit(measurements)
    count = round(model.total) if rows is None else rows
    (drawn,) = draw_tables(schema, model, given=None, rows=count, implicates=1, seed=seed)
    return Release(
        synthetic=drawn.table,
        drawn=drawn,
        measurements=measurements,
        model=model,
        seed=seed,
        rows_asked=rows,
        library=find_frame_library(like),
        format=table_format_like(like),
    )


def write(
    release: Release,
    folder: Path,
    *,
    table_format: TableFormat = TableFormat.CSV,
    report: str | None = None,
    ledger: Path | None = None,
) -> None:
    """Write a release with a report that is made already, or without one; it is booked only where that is asked for."""
    with (
        patch.object(Release, "report", lambda _: report),
        patch("populace.release.bundle.choose_booking_ledger", lambda given, **_: given),
    ):
        release.save(folder, format=table_format.value, report=report is not None, ledger=ledger)
