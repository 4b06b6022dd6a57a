"""populace generate: from a model to a release folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, progress
from populace.cli.notes import note_capped_rows, note_missing_digests

MODEL = Option(
    "DIR", "The folder that `populace fit` wrote, or a release.", Path, required=True, name="model"
)
PAID_BY = replace(
    options.LEDGER,
    help="The ledger that paid: it records the digests of the release, for `populace verify --ledger`. Nothing is "
    "charged.",
    shown="",
)


@command(
    MODEL,
    options.OUT,
    options.ROWS,
    options.WHERE,
    options.IMPLICATES,
    options.FORMAT,
    options.SEED,
    PAID_BY,
    options.NO_REPORT,
    options.JSON,
)
def generate(
    model: Path,
    out: Path,
    rows: int | None,
    where: str | None,
    implicates: int,
    table_format: str | None,
    seed: int | None,
    ledger: Path | None,
    no_report: bool,
    json: bool,
) -> None:
    """Draw synthetic rows from a model and write the release, at no cost.

    The last of three stages. It reads no private row and can be repeated at will.

    Examples:
      populace generate model --out release
      populace generate release --out larger --rows 10000 --seed 7 --format parquet
      populace generate model --out older-women --where "age >= 65 and sex == 'female'"
      populace generate model --out five --implicates 5 --ledger ledger.db
    """
    from populace.api.generate import check_row_count, draw_release
    from populace.api.request import RowRequest
    from populace.api.stage_folders import load_model
    from populace.release.folder.destination import check_destination
    from populace.release.table_files import parse_table_format

    check_destination(out)
    request = RowRequest(rows=rows, where=where, implicates=implicates, seed=seed)
    check_row_count(request)
    if table_format is not None:
        parse_table_format(table_format)
    fitted = load_model(model)
    note_missing_digests(model)
    with progress() as moved:
        release = draw_release(fitted, request, ledger=ledger, progress=moved)
        moved("writing the release" if no_report else "making the report", 0.5)
        release.save(out, format=table_format, report=not no_report)
    note_capped_rows(release)
    emit_result({"release": str(out), "statement": release.statement}, json=json)
