"""Frozen releases of every format pass for ever, and none of them with another number in it.

Words may be bettered: a format that is not the current one keeps its own. Once today's words are others, its releases
leave with exit code 4, words unknown, unless a ledger has them booked; they never fail. Whoever changes a number or a
word of what a release says raises `RELEASE_FORMAT` in `populace.release.statement.statement` and freezes the
new format with
`releases/make.py`.
"""

from __future__ import annotations

import json
import random
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.cli.main import main
from populace.release.manifest import Manifest, dump_json
from populace.release.statement.statement import RELEASE_FORMAT
from populace.release.verify.verify import verify
from populace.release.verify.verify_rows import describe_differences
from tests.helpers.forged_releases import RELEASES, Forger, exit_code, moved, numbers

verify_module = import_module("populace.release.verify.verify")

KINDS = ("csv", "parquet", "learnt", "public", "estimates")
FROZEN = [
    pytest.param(RELEASES / str(number) / kind, id=f"{number}-{kind}")
    for number in range(1, RELEASE_FORMAT + 1)
    for kind in KINDS
]


def test_every_format_is_frozen() -> None:
    assert {path.name for path in RELEASES.iterdir() if path.is_dir()} - {"__pycache__"} == {
        str(number) for number in range(1, RELEASE_FORMAT + 1)
    }
    for path in RELEASES.glob("*/*"):
        if path.is_dir():
            assert sum(file.stat().st_size for file in path.iterdir()) < 100_000


@pytest.mark.sampled(7)
@pytest.mark.parametrize("folder", FROZEN)
def test_a_frozen_release_verifies(folder: Path) -> None:
    manifest = Manifest.load(folder)
    assert manifest.number == int(folder.parent.name)
    verdict = verify(folder)
    assert verdict.passed
    unknown = {check.name for check in verdict.unknown}
    if manifest.number == RELEASE_FORMAT:
        assert unknown <= ({"written", "redrawn"} if describe_differences(manifest) else set())
    if not manifest.estimated and not describe_differences(manifest):
        assert verdict.redrawn


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "folder", [each for each in FROZEN if not str(each.id).startswith(str(RELEASE_FORMAT))]
)
def test_other_words_of_an_older_format_are_unknown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes of a frozen release when today's words change: numbers are compared, words are not."""
    forger = Forger(folder, tmp_path / "out", seed=1)
    path = tmp_path / "out" / "statement.json"
    told = json.loads(path.read_text("utf-8"))
    told["not_covered"] = ["This is what was said once.", *told["not_covered"][1:]]
    path.write_text(dump_json(told), encoding="utf-8")
    forger.reseal()
    verdict = verify(tmp_path / "out")
    assert verdict.passed
    assert [check.name for check in verdict.unknown if check.name != "redrawn"] == ["written"]
    assert main(["verify", str(tmp_path / "out")]) == 4
    assert "words not compared" in capsys.readouterr().err
    # With a ledger that has it booked, the same checks are enough.
    monkeypatch.setattr(verify_module, "Ledger", Mock())
    monkeypatch.setattr(verify_module, "_check_booked", lambda *_, **__: "")
    assert verify(tmp_path / "out", ledger="ledger.db").verified


def check_numbers(folder: Path, place: Path, *, every: int) -> None:
    """Change numbers of all JSON files, one by one, and see that no such folder is verified."""
    forger, rng = Forger(folder, place, seed=1), random.Random(2)
    asked = Manifest.load(folder).rows_asked is not None
    for name in sorted(path.name for path in folder.glob("*.json")):
        text = (folder / name).read_text("utf-8")
        found = len(numbers(json.loads(text)))
        for number in range(rng.randrange(every), found, every):
            told = json.loads(text)
            holder, key, value = numbers(told)[number]
            if name == "estimates.json" and not isinstance(value, float):
                # A noisy answer may be anything from which the same estimates follow: only the ledger tells.
                continue
            if (name, key) == ("model.json", "total") and asked:
                # It says how many rows there are where nobody asked for a number of them.
                continue
            holder[key] = moved(value, rng)
            if holder[key] == value:
                continue
            (place / name).write_text(dump_json(told), encoding="utf-8")
            forger.reseal()
            code, verdict = exit_code(place)
            assert code in (2, 4), (name, key, value, holder[key])
            assert verdict is None or not verdict.verified, (name, key, value, holder[key])
            forger.restore()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("folder", FROZEN)
def test_other_numbers_do_not_verify(folder: Path, tmp_path: Path) -> None:
    check_numbers(folder, tmp_path / "out", every=100)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FROZEN)
def test_no_other_number_verifies(folder: Path, tmp_path: Path) -> None:
    check_numbers(folder, tmp_path / "out", every=4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("folder", [each for each in FROZEN if str(each.id).endswith("public")])
def test_other_counts_arrays_and_cells_do_not_verify(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    forger, rng = Forger(folder, place, seed=1), random.Random(3)
    table = pq.read_table(place / "measurements.parquet")
    for name in table.column_names:
        cells = table[name].to_numpy().copy()
        place_of_one = rng.randrange(len(cells))
        cells[place_of_one] += "x" if isinstance(cells[place_of_one], str) else 1
        changed = table.set_column(table.column_names.index(name), name, pa.array(cells))
        pq.write_table(changed, place / "measurements.parquet")
        forger.reseal()
        assert exit_code(place)[0] == 2
        forger.restore()
    with np.load(place / "model.npz") as held:
        arrays = dict(held)
    arrays["potential0"] = arrays["potential0"] + np.linspace(0, 3, arrays["potential0"].size).reshape(
        arrays["potential0"].shape
    )
    np.savez_compressed(place / "model.npz", **arrays)
    forger.reseal()
    assert exit_code(place)[0] in (2, 4)
