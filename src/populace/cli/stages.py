"""The folders between the three stages: what each holds, and that its parts belong together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from populace.cli.console import say
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
        _seal(place)


def save_fitted(model: Model, folder: Path, *, measured: Path) -> None:
    """Write a model beside the measurements it was fitted to."""
    from populace.measurements import FILES
    from populace.release.destination import becoming

    with becoming(folder) as place:
        model.save(place)
        for name in FILES:
            shutil.copyfile(measured / name, place / name)
        _seal(place)


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


def _seal(folder: Path) -> None:
    """Write the digests of all files of a stage beside them: what comes later names its parents by them."""
    from populace.release.manifest import digest, dump

    found = {path.name: digest(path) for path in sorted(folder.iterdir())}
    (folder / PARENTS).write_text(dump(found), encoding="utf-8")


def _check_seal(folder: Path, files: Sequence[str]) -> None:
    """Compare files with the digests kept beside them: `parents.json` of a stage, `manifest.json` of a release."""
    from populace.release.manifest import NAME, Manifest

    if (folder / PARENTS).is_file():
        sealed = _read_seal(folder)
        checked = {*files, *sealed}
    elif (folder / NAME).is_file():
        sealed, checked = Manifest.load(folder).files, set(files)
    else:
        say(f"note: {folder} has no {PARENTS}: whether its files were altered since cannot be told")
        return
    if any(sealed.get(name) != _digest(folder / name) for name in checked):
        raise ReleaseError(
            f"the files of {folder} do not belong together.",
            hint="give the folder that populace wrote, unaltered",
        )


def _read_seal(folder: Path) -> Mapping[str, str]:
    """Return the digests that a stage wrote; none where the file is not spelled as it was."""
    from populace.release.manifest import dump

    try:
        text = (folder / PARENTS).read_text(encoding="utf-8")
        sealed = dict(json.loads(text))
    except (ValueError, TypeError):
        return {}
    return sealed if dump(sealed) == text else {}


def _digest(path: Path) -> str | None:
    from populace.release.manifest import digest

    return digest(path) if path.is_file() else None


def _all_files() -> tuple[str, ...]:
    from populace.infer.model import FILES as MODEL
    from populace.measurements import FILES as MEASUREMENTS

    return (*MEASUREMENTS, *MODEL)
