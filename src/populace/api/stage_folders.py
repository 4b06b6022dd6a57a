"""The folders between the three stages: what each holds, and that its parts belong together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from populace.core.errors import ReleaseError
from populace.inference.gls.count_intervals import intervals
from populace.inference.model import FILES as MODEL_FILES
from populace.inference.model import Model
from populace.measurements.answer_record import AnswerRecord
from populace.measurements.measurements import FILES, Measurements, Numbers
from populace.release.folder.destination import atomic_folder, sync_files
from populace.release.manifest import MANIFEST_FILE, Manifest, digest_file, digest_files, dump_json
from populace.release.release_files import book_digests
from populace.release.row_selection import RowCountOrigin
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import compute_statement

PARENTS_FILE = "parents.json"


def save_measurements(measurements: Measurements, folder: Path) -> None:
    """Write measurements and the statement of what they cost, and beside the counts their intervals.

    Those of a geography have none: estimates of all its units are a part of the release. The digests of the folder are
    booked in the ledger that paid, so that later releases can be made with it.
    """
    located = measurements.schema.geography is not None
    beside = {} if located else intervals(measurements).columns()
    write_measurements(measurements, folder, beside=beside, ledger=measurements.context.ledger)


def write_measurements(
    measurements: Measurements,
    folder: Path,
    *,
    beside: Mapping[str, Sequence[Numbers]] = MappingProxyType({}),
    answers: Sequence[AnswerRecord] = (),
    ledger: Path | None = None,
) -> None:
    """Write measurements and their statement. It lacks `total`: no synthetic rows exist yet.

    `answers` are those of a run that did not end, beside the measurements. A `ledger` books the digests.
    """
    statement = compute_statement(
        measurements.record,
        schema=measurements.schema,
        answers=MeasuredContent.of(measurements),
        rows=0,
        rows_from=RowCountOrigin.CURATOR,
    )
    words = {key: value for key, value in statement.items() if key != "total"}
    with atomic_folder(folder) as place:
        measurements.save(place, beside=beside)
        (place / "statement.json").write_text(dump_json(words), encoding="utf-8")
        if answers:
            others = dump_json([each.to_json() for each in answers])
            (place / "answers.json").write_text(others, encoding="utf-8")
        _write_digests(place)
        if ledger is not None:
            sync_files(place)
            book_digests(place, seal=PARENTS_FILE, record=measurements.record, ledger=ledger)


def save_model(model: Model, folder: Path, *, measured: Path) -> None:
    """Write a model beside the measurements it was fitted to: those of a folder, or of several that were pooled."""
    pooled = model.measurements
    with atomic_folder(folder) as place:
        model.write_files(place)
        if pooled is not None and pooled.earlier:
            pooled.save(place, beside=intervals(pooled).columns())
        else:
            for name in FILES:
                shutil.copyfile(measured / name, place / name)
        _write_digests(place)


def load_measurements(folder: Path) -> Measurements:
    """Read the measurements of a stage or of a release, and refuse files that were altered since."""
    _check_files_present(folder, FILES, what="measurements", verb="measure")
    _check_digests(folder, FILES)
    return Measurements.load(folder)


def load_model(folder: Path) -> Model:
    """Read a model with its measurements, as `populace fit` or a release holds them; refuse files that do not match."""
    files = (*FILES, *MODEL_FILES)
    _check_files_present(folder, files, what="fitted model", verb="fit")
    _check_digests(folder, files)
    return Model.read_files(folder).with_measurements(Measurements.load(folder))


def _check_files_present(folder: Path, files: Sequence[str], *, what: str, verb: str) -> None:
    hint = f"give the folder that `populace {verb}` or `populace synth` wrote"
    if not folder.is_dir():
        raise ReleaseError(f"there is no folder {folder}.", hint=hint)
    if lacking := [name for name in files if not (folder / name).is_file()]:
        raise ReleaseError(f"{folder} holds no {what}: {', '.join(lacking)} not found.", hint=hint)


def _write_digests(folder: Path) -> None:
    """Write the digests of all files of a stage beside them: what comes later names its parents by them."""
    (folder / PARENTS_FILE).write_text(dump_json(digest_files(folder)), encoding="utf-8")


def find_seal(folder: Path) -> Path | None:
    """Return the file with the digests of a folder: `parents.json` of a stage, `manifest.json` of a release."""
    return next((folder / n for n in (PARENTS_FILE, MANIFEST_FILE) if (folder / n).is_file()), None)


def _check_digests(folder: Path, files: Sequence[str]) -> None:
    """Compare files with the digests kept beside them: `parents.json` of a stage, `manifest.json` of a release."""
    if (folder / PARENTS_FILE).is_file():
        sealed = _read_digests(folder)
        checked = {*files, *sealed}
    elif (folder / MANIFEST_FILE).is_file():
        sealed, checked = Manifest.load(folder).files, set(files)
    else:
        return
    if any(not (folder / n).is_file() or sealed.get(n) != digest_file(folder / n) for n in checked):
        raise ReleaseError(
            f"the files of {folder} do not belong together.",
            hint="give the folder that populace wrote, unaltered",
        )


def _read_digests(folder: Path) -> Mapping[str, str]:
    """Return the digests that a stage wrote; none where the file is not spelled as it was."""
    try:
        text = (folder / PARENTS_FILE).read_text(encoding="utf-8")
        sealed = dict(json.loads(text))
    except (ValueError, TypeError):
        return {}
    return sealed if dump_json(sealed) == text else {}
