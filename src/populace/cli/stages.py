"""The folders between the three stages: what each holds, and that its parts belong together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from populace.errors import ReleaseError

if TYPE_CHECKING:
    from populace.infer.model import Model
    from populace.measurements import Measurements

PARENTS = "parents.json"


def save_measured(measurements: Measurements, folder: Path) -> None:
    """Write measurements and the statement of what they cost.

    The statement lacks `total`: no synthetic rows exist yet.
    """
    from populace.release.manifest import dump
    from populace.release.statement import RowsFrom, state

    told = state(measurements.record, schema=measurements.schema, rows=0, rows_from=RowsFrom.CURATOR)
    measurements.save(folder)
    words = {key: value for key, value in told.items() if key != "total"}
    (folder / "statement.json").write_text(dump(words), encoding="utf-8")


def save_fitted(model: Model, folder: Path, *, measured: Path) -> None:
    """Write a model beside the measurements it was fitted to; `parents.json` names both by digest."""
    from populace.release.manifest import MEASUREMENT_FILES, dump

    model.save(folder)
    for name in MEASUREMENT_FILES:
        shutil.copyfile(measured / name, folder / name)
    (folder / PARENTS).write_text(dump(_digests(folder)), encoding="utf-8")


def load_fitted(folder: Path) -> tuple[Measurements, Model]:
    """Read what `save_fitted` wrote, and refuse files that do not belong together."""
    from populace.infer.model import Model
    from populace.measurements import Measurements

    try:
        sealed = json.loads((folder / PARENTS).read_text(encoding="utf-8"))
        found = _digests(folder)
    except (OSError, ValueError) as failure:
        raise ReleaseError(
            f"{folder} does not hold a complete model ({type(failure).__name__}).",
            hint="give the folder that `populace fit` wrote",
        ) from failure
    if sealed != found:
        raise ReleaseError(
            f"the files of {folder} do not belong together.",
            hint="give the folder that `populace fit` wrote, unaltered",
        )
    return Measurements.load(folder), Model.load(folder)


def _digests(folder: Path) -> dict[str, str]:
    from populace.release.manifest import MEASUREMENT_FILES, MODEL_FILES, digest

    return {name: digest(folder / name) for name in (*MEASUREMENT_FILES, *MODEL_FILES)}
