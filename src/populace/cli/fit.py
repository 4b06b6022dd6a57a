"""populace fit: from measurements to a model of the whole table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json, progress


def fit(
    measured: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", readable=False, help="The folder that `populace measure` wrote, or a release."
        ),
    ],
    out: options.Out,
    inference: options.Inference = "tree",
    json: options.Json = False,
) -> None:
    """Fit a model to measurements, free of cost.

    The second of three stages. It reads no private row and can be repeated at will.

    \b
    Example:
      populace fit measured --out model
    """
    from populace.cli.stages import load_measurements, save_model
    from populace.methods.fit_measurements import fit
    from populace.release.folder.destination import check_destination

    check_destination(out)
    measurements = load_measurements(measured)
    with progress() as moved:
        model = fit(measurements, inference=inference, progress=moved)
    save_model(model, out, measured=measured)
    if json:
        emit_json({"model": str(out)})
    else:
        emit(str(out))
