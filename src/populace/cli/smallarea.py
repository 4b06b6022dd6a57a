"""populace smallarea: model-based estimates of small groups from published ones."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, emit_result, say

ESTIMATES = Option("DIR", "A folder of estimates.", Path, required=True, name="estimates")
QUERY = Option("--query NAME", "The query whose groups are the areas.", required=True)
COVARIATES = Option(
    "--covariates FILE",
    "A CSV file with the columns of the groups, and public numbers of each area in all others.",
    Path,
)
OUT = Option("--out FILE", "A .csv or .parquet file to write; it must not exist yet.", Path)


@command(ESTIMATES, QUERY, COVARIATES, OUT, options.JSON)
def smallarea(estimates: Path, query: str, covariates: Path | None, out: Path | None, json: bool) -> None:
    """Estimate small areas by a model of their published estimates (Fay and Herriot), at no cost.

    Estimates of small groups have large errors. An area-level model borrows strength: each is shrunk towards what
    public covariates, or the mean of all areas, say of it, the more the larger its sampling error and privacy noise
    are. Mean squared errors hold what estimating the model adds (Prasad and Rao), and suppressed areas have estimates
    too. No private row is read, and nothing is spent.

    Examples:
      populace smallarea estimates --query "mean income"
      populace smallarea estimates --query "mean income" --covariates counties.csv --out counties-income.csv
    """
    import pyarrow as pa

    from populace.release.estimates_bundle import Estimates
    from populace.release.table_files import check_new_file, write_new_file
    from populace.survey.small_areas import small_areas

    if out is not None:
        check_new_file(out)
    loaded = Estimates.load(estimates)
    found = small_areas(loaded.rows, query=query, covariates=covariates)
    if loaded.statement["stamp"]:
        say(f"note: {loaded.statement['stamp']}")
    if covariates is not None:
        say(f"note: {covariates} is taken to be public")
    if out is not None:
        write_new_file(pa.Table.from_pylist(found.list_rows()), out)
        emit_result({"file": str(out), **found.to_json()}, json=json)
    elif json:
        emit_json(found.to_json())
    else:
        rows = found.list_rows()
        emit("  ".join(f"{name:>14}" for name in rows[0]))
        for row in rows:
            shown = [f"{each:.6g}" if isinstance(each, float) else each or "–" for each in row.values()]
            emit("  ".join(f"{each:>14}" for each in shown))
