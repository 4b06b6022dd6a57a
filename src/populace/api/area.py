"""Estimates for any set of units of a hierarchical release, from its folder alone. It costs no budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from populace.api.stage_folders import load_model
from populace.core.errors import ReleaseError
from populace.release.hierarchy.area_table import AreaTable, tabulate_area
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.manifest import Manifest


def estimate_area(folder: Path, units: Any, *, by: Sequence[str] = ()) -> AreaTable:
    """Return what `Release.area` does, without reading the rows of the release."""
    if not Manifest.load(folder).hierarchical:
        raise ReleaseError(
            f"{folder} is not a release of a geography: it holds no tables of units.",
            hint="give the folder of a run whose schema declares [geography]",
        )
    model = load_model(folder)
    if model.measurements is None:
        raise TypeError("a model comes with its measurements")
    return tabulate_area(ReleasedHierarchy.of(model.measurements, model), units, by=by)
