"""populace generate: from a model to a release folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import check_new_folder, emit, emit_json, progress


def generate(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `populace fit` wrote.")],
    out: options.Out,
    rows: options.Rows = None,
    seed: options.Seed = None,
    table_format: options.TableFormat = None,
    json: options.Json = False,
) -> None:
    """Draw synthetic rows from a model and write the release: the last of three stages, free of cost.

    \b
    Examples:
      populace generate model --out release
      populace generate model --out release --rows 10000 --seed 7 --format csv
    """
    from populace.infer.model import Model
    from populace.measurements import Measurements
    from populace.pipeline import release_from

    check_new_folder(out)
    with progress() as moved:
        release = release_from(
            Measurements.load(model), Model.load(model), rows=rows, seed=seed, progress=moved
        )
        release.save(out, format=table_format.value if table_format else None)
    if json:
        emit_json({"release": str(out), "statement": release.statement})
    else:
        emit(str(out))
