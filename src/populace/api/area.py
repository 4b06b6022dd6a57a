"""Estimates for any set of units of a hierarchical release, from its folder alone. It costs no budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from populace.api.stage_folders import load_model
from populace.core.errors import ReleaseError
from populace.release.bundle import Release
from populace.release.hierarchy.area_table import AreaTable, choose_table, tabulate_area
from populace.release.hierarchy.census_measurements import has_census_files, read_census_measurements
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.manifest import Manifest


def estimate_area(folder: Path, units: Any, *, by: Sequence[str] = (), table: str | None = None) -> AreaTable:
    """Return what `Release.area` does; rows are read of linked tables alone, whose members they tabulate to.

    Of a folder of the Census Bureau's noisy measurements the table has estimates and intervals, and nothing published.
    """
    if has_census_files(folder):
        return read_census_measurements(folder, by=by).area(units)
    if not Manifest.load(folder).hierarchical:
        raise ReleaseError(
            f"{folder} is not a release of a geography: it holds no tables of units.",
            hint="give the folder of a run whose schema declares [geography]",
        )
    model = load_model(folder)
    if model.measurements is None:
        raise TypeError("a model comes with its measurements")
    if model.measurements.schema.linked is not None:
        return Release.load(folder).area(units, by=by, table=table)
    released = [ReleasedHierarchy.of(model.measurements, model)]
    return tabulate_area(choose_table(released, by=by, table=table), units, by=by)
