"""populace generate: from a model to a release folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import check_table_options, emit, emit_json, progress


def generate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", readable=False, help="The folder that `populace fit` wrote, or a release."
        ),
    ],
    out: options.Out,
    rows: options.Rows = None,
    where: options.Where = None,
    implicates: options.Implicates = 1,
    table_format: options.TableFormat = None,
    seed: options.Seed = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            readable=False,
            help="The ledger that paid for the measurements: it books the digests of the release, for "
            "`populace verify --ledger`. Nothing is charged.",
        ),
    ] = None,
    no_report: options.NoReport = False,
    json: options.Json = False,
) -> None:
    """Draw synthetic rows from a model and write the release, free of cost.

    The last of three stages. It reads no private row and can be repeated at will.

    \b
    Examples:
      populace generate model --out release
      populace generate release --out larger --rows 10000 --seed 7 --format parquet
      populace generate model --out older-women --where "age >= 65 and sex == 'female'"
      populace generate model --out five --implicates 5
      populace generate model --out release --ledger ledger.db
    """
    from populace.api.synthesize import release_from
    from populace.cli.notes import note_capped_rows
    from populace.cli.stages import load_model
    from populace.release.folder.destination import check_destination

    check_destination(out)
    check_table_options(rows=rows, implicates=implicates, table_format=table_format)
    measurements, fitted = load_model(model)
    with progress() as moved:
        release = release_from(
            measurements,
            fitted,
            rows=rows,
            where=where,
            implicates=implicates,
            seed=seed,
            ledger=ledger,
            progress=moved,
        )
        moved("writing the release" if no_report else "making the report", 0.5)
        release.save(out, format=table_format, report=not no_report)
    note_capped_rows(release)
    if json:
        emit_json({"release": str(out), "statement": release.statement})
    else:
        emit(str(out))
