"""A release is verified by drawing its rows again, or by the ledger that has its digests; nothing gets past both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from populace._native import kernels
from populace.cli.main import main
from populace.core.errors import LedgerError, NotBooked, ReleaseError
from populace.measurements.measurements import Measurements
from populace.privacy.ledger.ledger import Ledger
from populace.release import release_files
from populace.release.bundle import Release
from populace.release.manifest import digest_file, dump_json
from populace.release.synthetic_rows import BLOCK_DRAWING_RULES
from populace.release.table_files import encode_table, write_table
from populace.release.verify import verify_rows
from populace.release.verify.checks import CheckOutcome, Verdict
from populace.release.verify.verify import verify
from populace.schema.codec.table_codec import TableCodec
from tests.helpers import releases

GOLDEN = Path(__file__).parents[2] / "golden" / "releases" / "1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, Release]:
    """Return private rows and a release of them, whose ledger knows it."""
    table, schema = releases.small_sample(("sex", "age"))
    ledger = tmp_path_factory.mktemp("l") / "ledger.db"
    return table, replace(releases.make(releases.measure(table, schema, ledger=ledger)), ledger=ledger)


@pytest.fixture
def folder(made: tuple[pa.Table, Release], tmp_path: Path) -> Path:
    return saved(made[1], tmp_path / "out")


def saved(release: Release, folder: Path, *, ledger: Path | None = None) -> Path:
    releases.write(release, folder, ledger=ledger)
    return folder


def reseal(folder: Path, **fields: Any) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["files"] = {name: digest_file(folder / name) for name in manifest["files"]}
    path.write_text(dump_json({**manifest, **fields}), encoding="utf-8")


def replace_rows(folder: Path, made: tuple[pa.Table, Release], **fields: Any) -> None:
    """Put private rows in the place of the synthetic ones, and make the manifest fit."""
    private, release = made
    schema = release.measurements.schema
    rows = pa.concat_tables([private, private]).slice(0, release.synthetic.num_rows)
    codes = encode_table(rows, schema=schema)
    write_table(TableCodec(schema).decode(codes, rng=np.random.default_rng(0)), folder / "synthetic.csv")
    reseal(folder, **fields)


def outcome(verdict: Verdict, name: str) -> CheckOutcome:
    return next(check.outcome for check in verdict.checks if check.name == name)


def leaves(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Run the verb, and return its exit code and what it wrote."""
    code = main(["verify", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_rows_of_the_model_are_redrawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = leaves(capsys, str(folder))
    assert (code, told["verified"], told["redrawn"], told["booked"]) == (0, True, True, None)


def test_private_rows_in_the_place_of_synthetic_ones_fail(
    folder: Path, made: tuple[pa.Table, Release], capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(folder, made)
    code, told = leaves(capsys, str(folder))
    assert (code, told["verified"], told["redrawn"]) == (2, False, False)
    assert [check["name"] for check in told["checks"] if not check["passed"]] == ["redrawn"]


@pytest.mark.parametrize(
    "fields",
    [
        {"versions": {"python": "3.11.0", "populace": "0.0.0", "numpy": "1.0", "pyarrow": "1"}},
        {"drawing": 99},
        {"arithmetic": "0" * 16},
    ],
)
def test_another_version_does_not_get_past_it(
    folder: Path, made: tuple[pa.Table, Release], fields: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(folder, made, **fields)
    if "versions" in fields:
        # The page names the version of populace too.
        page = (folder / "statement.md").read_text("utf-8").rsplit(" ", 1)[0]
        (folder / "statement.md").write_text(f"{page} 0.0.0\n", encoding="utf-8")
        reseal(folder)
    code, told = leaves(capsys, str(folder))
    assert (code, told["verified"], told["redrawn"], told["passed"]) == (4, False, False, True)
    assert told["checks"][-1]["outcome"] == "unknown"
    assert told["checks"][-1]["detail"].startswith("not redrawn")


def test_an_edited_version_changes_nothing_where_the_rows_are_right(folder: Path) -> None:
    reseal(folder, arithmetic="0" * 16)
    assert verify(folder).verified


@pytest.mark.parametrize("number", [99, 1001, 0, None])
def test_rules_of_drawing_that_nobody_knows_are_not_verified(folder: Path, number: int | None) -> None:
    reseal(folder, drawing=number)
    verdict = verify(folder)
    assert outcome(verdict, "redrawn") is CheckOutcome.UNKNOWN
    assert not verdict.verified


def test_few_rows_are_not_drawn_by_the_rules_of_blocks(folder: Path) -> None:
    reseal(folder, drawing=BLOCK_DRAWING_RULES)
    assert not verify(folder).verified


def test_quick_passes_but_does_not_verify(
    folder: Path, made: tuple[pa.Table, Release], capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(folder, made)
    code, told = leaves(capsys, str(folder), "--quick")
    assert (code, told["verified"], told["redrawn"], told["passed"]) == (0, False, False, True)
    assert main(["verify", str(folder), "--quick"]) == 0
    assert "not redrawn" in capsys.readouterr().out


def test_the_ledger_tells_its_own_releases_from_others(
    made: tuple[pa.Table, Release], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, release = made
    ledger = str(release.ledger)
    other = saved(release, tmp_path / "unbooked")
    run = release.measurements.record.run
    if not Ledger.existing(ledger).releases(run):
        assert leaves(capsys, str(other), "--ledger", ledger)[0] == 4
    release.save(tmp_path / "out", report=False)
    code, told = leaves(capsys, str(tmp_path / "out"), "--ledger", ledger)
    assert (code, told["verified"], told["booked"], told["redrawn"]) == (0, True, True, True)
    code, told = leaves(capsys, str(tmp_path / "out"), "--ledger", ledger, "--quick")
    assert (code, told["verified"], told["booked"], told["redrawn"]) == (0, True, True, False)
    replace_rows(tmp_path / "out", made, drawing=99)
    code, told = leaves(capsys, str(tmp_path / "out"), "--ledger", ledger)
    assert (code, told["verified"], told["booked"]) == (2, False, False)
    assert told["checks"][-1]["name"] == "ledger"


def test_what_is_booked_is_verified_even_where_it_cannot_be_redrawn(
    made: tuple[pa.Table, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, release = made
    release.save(tmp_path / "out", report=False)
    real = verify_rows.draw_tables
    monkeypatch.setattr(verify_rows, "DRAWING_RULES", 2)
    monkeypatch.setattr(verify_rows, "draw_tables", lambda *a, **k: real(*a, **{**k, "seed": k["seed"] + 1}))
    verdict = verify(tmp_path / "out")
    assert outcome(verdict, "redrawn") is CheckOutcome.UNKNOWN
    assert verdict.passed
    assert not verdict.verified
    assert verify(tmp_path / "out", ledger=release.ledger).verified


def test_another_record_than_the_ledgers_fails(made: tuple[pa.Table, Release], tmp_path: Path) -> None:
    table, release = made
    schema = release.measurements.schema
    theirs = releases.measure(table, schema, ledger=tmp_path / "theirs.db", seed=2)
    release.save(tmp_path / "out", report=False)
    verdict = verify(tmp_path / "out", ledger=tmp_path / "theirs.db")
    assert outcome(verdict, "ledger") is CheckOutcome.FAILED
    forged = replace(release.measurements.record, spends=theirs.record.spends)
    measurements = Measurements(schema=schema, items=theirs.items, record=forged)
    folder = saved(releases.make(measurements), tmp_path / "forged")
    assert outcome(verify(folder, ledger=release.ledger), "ledger") is CheckOutcome.FAILED
    with pytest.raises(LedgerError):
        verify(tmp_path / "out", ledger=tmp_path / "nowhere.db")


def test_books_before_the_folder_takes_its_name(
    made: tuple[pa.Table, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, release = made
    seen = []

    def book(place: Path, **_: Any) -> None:
        seen.append({path.name for path in place.iterdir()})
        assert not (tmp_path / "out").exists()
        raise LedgerError("the ledger is full.", hint="")

    monkeypatch.setattr(release_files, "book_digests", book)
    with pytest.raises(LedgerError):
        release.save(tmp_path / "out", report=False)
    assert {"manifest.json", "synthetic.csv", "model.npz"} <= seen[0]
    assert list(tmp_path.iterdir()) == []


def test_no_file_names_the_ledger(made: tuple[pa.Table, Release], tmp_path: Path) -> None:
    made[1].save(tmp_path / "out", report=False)
    for path in (tmp_path / "out").iterdir():
        assert b"ledger.db" not in path.read_bytes()
    assert Release.load(tmp_path / "out").ledger is None


@pytest.mark.parametrize("name", ["synthetic.csv", "statement.json", "model.npz", "manifest.json"])
@pytest.mark.parametrize("kind", ["link", "loop", "fifo", "folder", "device"])
def test_files_are_files(folder: Path, tmp_path: Path, name: str, kind: str) -> None:
    path = folder / name
    path.rename(tmp_path / "kept")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": tmp_path / "kept", "loop": path, "device": Path("/dev/zero")}[kind])
    assert main(["verify", str(folder)]) == 2


def test_the_folder_may_be_reached_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert verify(tmp_path / "link").verified


@pytest.mark.parametrize("kind", ["csv", "parquet", "learnt", "public"])
def test_loops_in_c_and_their_twins_draw_the_same_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_native", None)
    monkeypatch.setattr("populace.sampling.fit_rows.warn_unless_compiled", lambda: None)
    assert verify(GOLDEN / kind).redrawn


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_threads_draw_the_same_rows(threads: str) -> None:
    """Where sums of matrices are split over threads their last digits differ; small tables are not split."""
    command = [sys.executable, "-m", "populace", "verify", str(GOLDEN / "csv"), "--json"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
    found = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert json.loads(found.stdout)["redrawn"] is True


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "nowhere"):
        with pytest.raises(ReleaseError):
            verify(place)


def test_a_table_may_not_be_another_format(folder: Path) -> None:
    shutil.copy(folder / "synthetic.csv", folder / "synthetic.parquet")
    assert main(["verify", str(folder)]) == 2


def test_a_release_whose_ledger_is_gone_is_saved_with_a_warning(
    made: tuple[pa.Table, Release], tmp_path: Path
) -> None:
    with pytest.warns(NotBooked, match="booked nowhere"):
        replace(made[1], ledger=tmp_path / "gone.db").save(tmp_path / "out", report=False)
    assert verify(tmp_path / "out").passed
    with pytest.raises(LedgerError):
        made[1].save(tmp_path / "other", report=False, ledger=tmp_path / "gone.db")
    assert not (tmp_path / "other").exists()
