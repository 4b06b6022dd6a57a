"""populace fit: from measurements to a model of the whole table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, progress
from populace.cli.notes import note_missing_digests

MEASURED = Option(
    "DIR", "The folder that `populace measure` wrote, or a release.", Path, required=True, name="measured"
)


PAID_BY = replace(
    options.LEDGER, help="The ledger that paid for all releases that are given --with. Nothing is charged."
)


@command(MEASURED, options.OUT, options.INFERENCE, options.WITH, PAID_BY, options.JSON)
def fit(
    measured: Path,
    out: Path,
    inference: str,
    earlier: list[Path] | None,
    ledger: Path | None,
    json: bool,
) -> None:
    """Fit a model to measurements, at no cost.

    The second of three stages. It reads no private row and can be repeated at will.

    Examples:
      populace fit measured --out model
      populace fit measured --with release --out model
    """
    from populace.api.earlier_releases import pool_releases
    from populace.api.stage_folders import load_measurements, save_model
    from populace.methods.fit_measurements import fit as fit_model
    from populace.release.folder.destination import check_destination

    check_destination(out)
    measurements = load_measurements(measured)
    note_missing_digests(measured)
    measurements = pool_releases(measurements, earlier=earlier or (), ledger=ledger)
    with progress() as moved:
        model = fit_model(measurements, inference=inference, progress=moved)
    save_model(model, out, measured=measured)
    emit_result({"model": str(out)}, json=json)
