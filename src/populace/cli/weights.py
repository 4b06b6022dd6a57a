"""populace weights: a synthetic table as a survey file that meets public totals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json, progress, say
from populace.core.errors import UsageError


def weights(
    release: Annotated[
        Path,
        typer.Argument(metavar="DIR", readable=False, help="A release folder with a synthetic table."),
    ],
    totals: Annotated[
        Path,
        typer.Option(
            "--totals",
            metavar="FILE",
            readable=False,
            help="A design.toml with [[totals]]: how many people there are, by which columns. All of it is public.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            readable=False,
            help="The .csv or .parquet file to write; it must not exist yet.",
        ),
    ],
    replicates: Annotated[
        int, typer.Option("--replicates", metavar="R", help="How many replicate weights to make.")
    ] = 80,
    weight: Annotated[
        str, typer.Option("--weight", metavar="NAME", help="The name of the column of weights.")
    ] = "weight",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            max=2**64 - 1,
            help="Repeats the drawing of replicates.",
            show_default="the release's own",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Weight a synthetic table so that it meets public totals, free of cost.

    The file has the rows of the release (of its first table), a weight, and replicate weights rep01, rep02 and so on.
    Their spread holds sampling error and privacy noise together, so that survey software gives honest intervals:
    svrepdesign of R with type = "bootstrap", scale = 1/(R - 1), rscales = rep(1, R), mse = FALSE. No private row is
    read, and the statement of the release covers the file.

    \b
    Examples:
      populace weights release --totals design.toml --out survey.csv
      populace weights release --totals design.toml --out survey.parquet --replicates 200
    """
    from populace.release.bundle import Release
    from populace.release.folder.hidden_folder import hidden_folder
    from populace.release.survey_file import make_survey_file
    from populace.release.table_files import parse_table_format, write_table
    from populace.survey.design.design import Design

    parse_table_format(out.suffix[1:])
    if out.exists():
        raise UsageError(f"{out} exists already.", hint="name a file that does not exist yet")
    found = Release.load(release)
    design = Design.load(totals, schema=found.measurements.schema)
    with progress() as moved:
        moved("weighting", 0.0)
        table = make_survey_file(found, design=design, replicates=replicates, weight=weight, seed=seed)
    with hidden_folder(out.absolute().parent, name=out.name) as place:
        whole = place / f"synthetic{out.suffix}"
        write_table(table, whole)
        whole.rename(out)
    if nobody := int((table.column(weight).to_numpy() == 0).sum()):
        say(
            f"note: {nobody} of {table.num_rows} rows stand for nobody: by the totals, no one is where they are (hint: "
            'empty cells are such places; other = "…" in the schema counts them as one of the values)'
        )
    if found.statement["stamp"]:
        say(f"note: {found.statement['stamp']}")
    if json:
        people = float(design.totals[0].total)
        emit_json(
            {"file": str(out), "people": people, "replicates": replicates, "scale": 1 / (replicates - 1)}
        )
    else:
        emit(str(out))
