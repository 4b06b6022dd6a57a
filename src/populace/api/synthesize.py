"""The three stages in one: private rows → measurements → model → release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.api.generate import check_row_request, draw_release
from populace.api.measure import measure_request
from populace.api.request import RowRequest, RunRequest
from populace.core.memory_limit import limit_memory
from populace.core.progress import Progress
from populace.core.run_state import run_state
from populace.measurements.measurements import Measurements
from populace.methods.fit_measurements import fit
from populace.privacy.accounting.budget import Number
from populace.release.bundle import Release

if TYPE_CHECKING:
    from populace.methods.workload import Workload
    from populace.privacy.noise.noise_source import NoiseSource
    from populace.schema.schema import Schema


@run_state()
def synthesize(
    data: Any,
    *,
    schema: Schema | Path | str,
    epsilon: Number,
    delta: Number,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    rows: int | None = None,
    where: str | None = None,
    implicates: int = 1,
    seed: int | None = None,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    public: Any = None,
    inference: str = "tree",
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
    memory: int | str | None = None,
    check_rules: bool = False,
    earlier: Sequence[Path | str] = (),
) -> Release:
    """Return a synthetic table with an (epsilon, delta) guarantee for the unit named in the schema.

    It is `measure`, `fit` and `generate` in one.
    `data` is a path, the address of a table in a database (`people.duckdb::people`, `postgresql://…::people`,
    `spark:people`), or any frame that narwhals understands; the release's table is of the same kind.
    The budget is reserved in the ledger before a row is read, and stays spent whatever happens later.
    `workload` says which marginals should be accurate: "pairs", "triples", a TOML file or a `Workload`.
    `public` is a table of the same schema that everybody may know, such as last year's release: a path or a frame. It
    must never be a part of `data`. `where` keeps rows that meet a condition, `implicates` draws as many tables: both
    are done with the fitted model and cost nothing. `inference` says how rows come from what was measured: "tree", or
    "gum", the gradual update method. `seed` makes the drawing of rows repeatable, never the noise.
    `memory`, such as "4GiB", bounds what the run holds at once: beyond it, codes of rows lie in a private file.
    `earlier` are folders of earlier releases of the account: their tables cost nothing more and lower the error.
    `check_rules` counts the rows that break each rule of the schema, for a twentieth of the budget.
    `noise` other than the operating system's is for rehearsals and stamps the release as not private.
    What fails after the budget was reserved raises an exception whose notes say what was booked. It holds what was
    measured by then, as `measurements`.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> schema = pp.Schema.from_sizes({"smokes": 2})
    >>> pp.synthesize(people, schema=schema, epsilon=1, delta=0, dataset="smokers", rows=300)
    Release of “smokers”: 300 synthetic rows, 1 column
      ε = 1, δ = 0 for one row
    """
    given = {"dataset": dataset, "public": public, "noise": noise, "check_rules": check_rules}
    run = (data, schema, epsilon, delta, method, workload, ledger, memory)
    request = RunRequest.of(*run, **given, earlier=earlier)
    drawn = RowRequest(inference=inference, rows=rows, where=where, implicates=implicates, seed=seed)
    with limit_memory(request.memory):
        check_row_request(drawn, schema=request.schema, method=request.synthesizer)
        return fit_and_draw(measure_request(request, progress=progress), drawn, progress=progress)


def fit_and_draw(
    measurements: Measurements, request: RowRequest, *, progress: Progress | None = None
) -> Release:
    """Fit a model to measurements that were paid for just now, and draw rows from it."""
    model = fit(measurements, inference=request.inference, progress=progress)
    return draw_release(model, request, allow_empty=True, progress=progress)
