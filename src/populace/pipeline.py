"""The whole street: private rows → measurements → model → synthetic rows → release.

Only here, in `evaluate` and in the CLI do the private side and the post-processing meet.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.errors import ReleaseError, UsageError
from populace.generate import generate
from populace.infer.fit import fit_run
from populace.infer.known import check_known
from populace.infer.model import Model
from populace.infer.structure import check_rules
from populace.measurements import Measurement, Measurements
from populace.privacy.budget import Number, parse_delta, parse_epsilon
from populace.privacy.entropy import SystemEntropy
from populace.privacy.ledger import Ledger, default_path
from populace.privacy.noise import ExactNoise, NoiseSource, is_secret
from populace.private.barrier import Barrier
from populace.private.table import PrivateTable, check_size
from populace.progress import Progress, silent
from populace.release.bundle import Release
from populace.schema.coding import TableCodec
from populace.schema.schema import Schema
from populace.strategy.learn import gridded, learn, set_aside
from populace.strategy.methods import METHODS, method_named
from populace.strategy.workload import Workload, asked_workload


def synthesize(
    data: Any,
    *,
    schema: Schema | Path | str,
    epsilon: Number,
    delta: Number,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    rows: int | None = None,
    seed: int | None = None,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
) -> Release:
    """Return a synthetic table with an (epsilon, delta) guarantee for the unit named in the schema.

    `data` is a path or any frame that narwhals understands; the release's table is of the same kind.
    The budget is reserved in the ledger before a row is read, and stays spent whatever happens later.
    `workload` says which marginals should be accurate: "pairs", "triples", a TOML file or a `Workload`.
    `seed` makes the drawing of rows repeatable, never the noise. `noise` other than the operating
    system's is for rehearsals and stamps the release as not private.
    """
    schema = as_schema(schema)
    check_rows(rows)
    check_size(schema, rows=rows)
    measurements = measure(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        workload=workload,
        ledger=ledger,
        dataset=dataset,
        progress=progress,
        noise=noise,
    )
    model = fit_run(measurements, progress=progress)
    return release_from(measurements, model, rows=rows, seed=seed, like=data, progress=progress)


def measure(
    data: Any,
    *,
    schema: Schema | Path | str,
    epsilon: Number,
    delta: Number,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
) -> Measurements:
    """Return the noisy measurements of one method, paid for from the account of the dataset.

    Everything that can be refused from public facts is refused before the budget is reserved. Domains that the
    schema leaves open are learnt first; the measurements then carry the schema as it was learnt.
    """
    spent, slack = parse_epsilon(epsilon), parse_delta(delta)
    chosen = method_named(method)
    wanted = asked_workload(workload)
    schema = as_schema(schema)
    keys = set_aside(schema, delta=slack)
    seen = gridded(schema) if schema.unknown else schema
    check_size(seen)
    check_rules(seen.rules, domain=seen.domain)
    check_known(seen.totals, rules=seen.rules, domain=seen.domain)
    wish = wanted(seen)
    table = PrivateTable.of(data, schema=seen)
    source = noise or ExactNoise(SystemEntropy())
    book = Ledger.open(Path(ledger) if ledger else default_path())
    run = book.reserve(
        dataset or schema.dataset or dataset_name(data),
        epsilon=spent,
        delta=slack,
        unit=schema.unit,
        method=chosen,
        schema_digest=schema.digest,
        rehearsal=not is_secret(source),
        keys=keys,
        workload=None if workload is None else wish.label,
    )
    progress = progress or silent
    learnt: tuple[Measurement, ...] = ()
    if schema.unknown:

        def opened(draft: Schema) -> Barrier:
            return Barrier(PrivateTable.of(data, schema=draft), run=run, noise=source)

        schema, learnt = learn(opened, schema, progress=progress)
        table = PrivateTable.of(data, schema=schema)
        wish = wanted(schema)
    items = METHODS[chosen](Barrier(table, run=run, noise=source), workload=wish, progress=progress)
    run.finish()
    return Measurements(schema=schema, items=learnt + items, record=run.record())


def release_from(
    measurements: Measurements,
    model: Model,
    *,
    rows: int | None = None,
    seed: int | None = None,
    like: Any = None,
    progress: Progress | None = None,
) -> Release:
    """Draw synthetic rows from a fitted model and return them as a release.

    Without `rows` there are as many as the model's noisy total says. `like` names the kind of frame wanted.
    """
    check_rows(rows)
    if model.measurements != measurements.digest:
        raise ReleaseError(
            "the model was fitted to other measurements.", hint="fit it again to these with `populace fit`"
        )
    (progress or silent)("drawing rows", 0.0)
    seed = secrets.randbits(63) if seed is None else seed
    count = default_rows(measurements.schema, model) if rows is None else rows
    table = draw_table(measurements.schema, model, rows=count, rng=np.random.default_rng(seed))
    return Release.made(
        table=table, measurements=measurements, model=model, seed=seed, rows_asked=rows, like=like
    )


def default_rows(schema: Schema, model: Model) -> int:
    """Return the number of rows that is public, or else the noisy one, at most as many as the schema allows."""
    if schema.totals:
        return int(schema.totals[0].counts.sum())
    count = max(0, round(model.total))
    return count if schema.max_rows is None else min(count, schema.max_rows)


def draw_table(schema: Schema, model: Model, *, rows: int, rng: np.random.Generator) -> pa.Table:
    """Return synthetic rows in the schema's own values and types, drawn chunk by chunk."""
    codec = TableCodec(schema)
    parts = [codec.decode(codes, rng=rng) for codes in generate(model, rows=rows, rng=rng)]
    return pa.concat_tables(parts).combine_chunks()


def as_schema(schema: Schema | Path | str) -> Schema:
    """Return a schema as it is, or load it from its file."""
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def dataset_name(data: Any) -> str:
    """Return the account's name for data that comes without one: the file's stem, or "table" for a frame."""
    return Path(data).stem if isinstance(data, (str, Path)) else "table"


def check_rows(rows: int | None) -> None:
    """Refuse a number of rows that cannot be drawn."""
    if rows is not None and rows < 0:
        raise UsageError(f"{rows} rows cannot be drawn.", hint="give --rows 0 or more, or leave it out")
