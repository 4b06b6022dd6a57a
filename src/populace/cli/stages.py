"""The folders between the three stages: what each holds, and that its parts belong together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from populace.errors import ReleaseError

if TYPE_CHECKING:
    from populace.infer.model import Model
    from populace.measurements import Answered, Measurements, Numbers

PARENTS = "parents.json"


def save_measured(measurements: Measurements, folder: Path) -> None:
    """Write measurements and the statement of what they cost, and beside the counts their intervals."""
    from populace.infer.intervals import intervals

    write_measured(measurements, folder, beside=intervals(measurements).columns())


def write_measured(
    measurements: Measurements,
    folder: Path,
    *,
    beside: Mapping[str, Sequence[Numbers]] = MappingProxyType({}),
    answers: Sequence[Answered] = (),
) -> None:
    """Write measurements and their statement. It lacks `total`: no synthetic rows exist yet.

    `answers` are those of a run that did not end, beside the measurements.
    """
    from populace.release.answers import Answers
    from populace.release.destination import becoming
    from populace.release.drawing import RowsFrom
    from populace.release.manifest import dump
    from populace.release.statement import state

    told = state(
        measurements.record,
        schema=measurements.schema,
        answers=Answers.of(measurements),
        rows=0,
        rows_from=RowsFrom.CURATOR,
    )
    words = {key: value for key, value in told.items() if key != "total"}
    with becoming(folder) as place:
        measurements.save(place, beside=beside)
        (place / "statement.json").write_text(dump(words), encoding="utf-8")
        if answers:
            others = dump([each.to_json() for each in answers])
            (place / "answers.json").write_text(others, encoding="utf-8")


def save_fitted(model: Model, folder: Path, *, measured: Path) -> None:
    """Write a model beside the measurements it was fitted to; `parents.json` names both by digest."""
    from populace.measurements import FILES
    from populace.release.destination import becoming
    from populace.release.manifest import dump

    with becoming(folder) as place:
        model.save(place)
        for name in FILES:
            shutil.copyfile(measured / name, place / name)
        (place / PARENTS).write_text(dump(_digests(place)), encoding="utf-8")


def load_measured(folder: Path) -> Measurements:
    """Read the measurements of a stage or of a release, and refuse files that were altered since."""
    from populace.measurements import FILES, Measurements

    _check_holds(folder, FILES, what="measurements", verb="measure")
    _check_seal(folder, FILES)
    return Measurements.load(folder)


def load_fitted(folder: Path) -> tuple[Measurements, Model]:
    """Read a model and its measurements, as `populace fit` or a release holds them; refuse files that do not match."""
    from populace.infer.model import Model
    from populace.measurements import Measurements

    files = _all_files()
    _check_holds(folder, files, what="fitted model", verb="fit")
    _check_seal(folder, files)
    return Measurements.load(folder), Model.load(folder)


def _check_holds(folder: Path, files: Sequence[str], *, what: str, verb: str) -> None:
    hint = f"give the folder that `populace {verb}` or `populace synth` wrote"
    if not folder.is_dir():
        raise ReleaseError(f"there is no folder {folder}.", hint=hint)
    if lacking := [name for name in files if not (folder / name).is_file()]:
        raise ReleaseError(f"{folder} holds no {what}: {', '.join(lacking)} not found.", hint=hint)


def _check_seal(folder: Path, files: Sequence[str]) -> None:
    """Compare files with the digests kept beside them: `parents.json` of a model, `manifest.json` of a release.

    The folder of `populace measure` has neither; its two files are checked against each other when they are read.
    """
    from populace.release.manifest import NAME, Manifest, digest

    sealed: Mapping[str, str]
    if (folder / PARENTS).is_file():
        try:
            sealed = dict(json.loads((folder / PARENTS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            sealed = {}
    elif (folder / NAME).is_file():
        sealed = Manifest.load(folder).files
    else:
        return
    if any(sealed.get(name) != digest(folder / name) for name in files):
        raise ReleaseError(
            f"the files of {folder} do not belong together.",
            hint="give the folder that populace wrote, unaltered",
        )


def _all_files() -> tuple[str, ...]:
    from populace.infer.model import FILES as MODEL
    from populace.measurements import FILES as MEASUREMENTS

    return (*MEASUREMENTS, *MODEL)


def _digests(folder: Path) -> dict[str, str]:
    from populace.release.manifest import digest

    return {name: digest(folder / name) for name in _all_files()}
