"""populace fit: from measurements to a model of the whole table."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, progress
from populace.cli.notes import note_missing_digests

MEASURED = Option(
    "DIR", "The folder that `populace measure` wrote, or a release.", Path, required=True, name="measured"
)


@command(MEASURED, options.OUT, options.INFERENCE, options.JSON)
def fit(measured: Path, out: Path, inference: str, json: bool) -> None:
    """Fit a model to measurements, at no cost.

    The second of three stages. It reads no private row and can be repeated at will.

    Examples:
      populace fit measured --out model
    """
    from populace.api.stage_folders import load_measurements, save_model
    from populace.methods.fit_measurements import fit as fit_model
    from populace.release.folder.destination import check_destination

    check_destination(out)
    measurements = load_measurements(measured)
    note_missing_digests(measured)
    with progress() as moved:
        model = fit_model(measurements, inference=inference, progress=moved)
    save_model(model, out, measured=measured)
    emit_result({"model": str(out)}, json=json)
