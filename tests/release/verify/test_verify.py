"""Verification passes an untouched release and names what is wrong with any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from populace.core.errors import ReleaseError
from populace.measurements.measurements import Measurement, Measurements
from populace.release.bundle import Release
from populace.release.manifest import MEASUREMENT_FILES, MODEL_FILES, digest_file, dump_json
from populace.release.table_files import TableFormat, write_table
from populace.release.verify.verify import verify
from populace.release.verify.verify_rows import is_within_domain
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import OutOfRange
from tests.helpers import releases

CHECKS = [
    "files", "digests", "real noise", "parents", "statement", "budget", "measurements", "intervals",
    "domains", "codebook", "rows", "written", "redrawn",
]  # fmt: skip


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    table, schema = releases.small_sample()
    return releases.make(releases.measure(table, schema, ledger=tmp_path_factory.mktemp("l") / "ledger.db"))


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> Path:
    return put(release, tmp_path / "out")


def put(
    release: Release, folder: Path, table_format: TableFormat = TableFormat.CSV, report: str | None = None
) -> Path:
    releases.write(release, folder, table_format=table_format, report=report)
    return folder


def failed(folder: Path) -> list[str]:
    verdict = verify(folder)
    assert verdict.passed == all(check.passed for check in verdict.checks)
    assert verdict.to_json()["passed"] == verdict.passed
    return [check.name for check in verdict.checks if not check.passed]


def edit(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    """Change a JSON file the way a careful forger would: with the manifest's digests made to fit."""
    told = json.loads((folder / name).read_text(encoding="utf-8"))
    change(told)
    (folder / name).write_text(dump_json(told), encoding="utf-8")
    reseal(folder)


def reseal(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["files"] = {name: digest_file(folder / name) for name in manifest["files"]}
    manifest["parents"]["model"] = {name: manifest["files"][name] for name in MEASUREMENT_FILES}
    manifest["parents"]["release"] = {name: manifest["files"][name] for name in MODEL_FILES}
    path.write_text(dump_json(manifest), encoding="utf-8")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("table_format", list(TableFormat))
def test_an_untouched_release_passes_every_check(
    release: Release, tmp_path: Path, table_format: TableFormat
) -> None:
    folder = put(release, tmp_path / "out", table_format)
    assert [check.name for check in verify(folder).checks] == CHECKS
    assert failed(folder) == []
    reseal(folder)
    assert failed(folder) == []


@pytest.mark.parametrize(
    "name", ["statement.json", "synthetic.csv", "model.npz", "report.html", "codebook.json"]
)
def test_a_missing_or_altered_file_fails(release: Release, name: str, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out", report="<html></html>")
    shutil.copytree(folder, tmp_path / "twin")
    (folder / name).unlink()
    assert failed(folder) == ["files"]
    data = bytearray((tmp_path / "twin" / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "twin" / name).write_bytes(data)
    assert failed(tmp_path / "twin") == ["digests"]


def test_an_added_file_fails(folder: Path) -> None:
    (folder / "private.csv").write_text("")
    assert failed(folder) == ["files"]
    (folder / "private.csv").unlink()
    (folder / "more").mkdir()
    assert failed(folder) == ["files"]


def test_a_file_that_is_listed_but_has_no_place_fails(folder: Path) -> None:
    (folder / "private.csv").write_text("a")
    edit(folder, "manifest.json", lambda told: told["files"].update({"private.csv": "0"}))
    assert failed(folder) == ["files"]


def test_a_second_table_fails(folder: Path) -> None:
    (folder / "synthetic.parquet").write_text("a")
    edit(folder, "manifest.json", lambda told: told["files"].update({"synthetic.parquet": "0"}))
    assert failed(folder) == ["files"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epsilon", 0.5),
        ("delta", 0.0),
        ("unit", "household"),
        ("not_covered", []),
        ("rows_per_unit", 2),
        ("x", 1),
    ],
)
def test_a_statement_that_does_not_follow_from_its_record_fails(
    folder: Path, key: str, value: object
) -> None:
    edit(folder, "statement.json", lambda told: told.update({key: value}))
    assert failed(folder) == ["statement"]


def test_a_page_that_says_something_else_fails(folder: Path) -> None:
    page = (folder / "statement.md").read_text(encoding="utf-8")
    (folder / "statement.md").write_text(page.replace("ε | 1 |", "ε | 0.1 |"), encoding="utf-8")
    reseal(folder)
    assert failed(folder) == ["statement"]


def test_another_run_in_the_statement_fails(folder: Path) -> None:
    edit(folder, "statement.json", lambda told: told["record"].update({"epsilon": "1/2"}))
    assert {"parents", "statement", "budget"} <= set(failed(folder))


def forged(release: Release, folder: Path, **changes: Any) -> Path:
    """Write a release whose record was changed in every place at once."""
    record = replace(release.measurements.record, **changes)
    measurements = Measurements(
        schema=release.measurements.schema, items=release.measurements.items, record=record
    )
    return put(with_measurements(release, measurements), folder)


def with_measurements(release: Release, measurements: Measurements) -> Release:
    """Return the release with other measurements and a model that names them as its own."""
    model = replace(release.model, measurements_digest=measurements.digest)
    return replace(release, measurements=measurements, model=model)


def test_a_record_that_does_not_add_up_fails(release: Release, tmp_path: Path) -> None:
    record = release.measurements.record
    cheap = tuple(replace(charged, price=charged.price / 2) for charged in record.spends)
    twice = record.spends * 2
    for number, changes in enumerate(
        (
            {"epsilon": Fraction(1, 2)},
            {"cap": record.cap * 2},
            {"spends": cheap},
            {"spends": twice},
            {"returned": (Fraction(1, 2), Fraction(0))},
            {"finished": False},
        )
    ):
        assert failed(forged(release, tmp_path / str(number), **changes)) == ["budget"], changes
    assert failed(forged(release, tmp_path / "same")) == []


def test_unpaid_noise_fails(release: Release, tmp_path: Path) -> None:
    """One marginal more than was paid for, or one with less noise than was paid for."""
    measured = release.measurements
    last = measured.items[-1]
    quieter = Measurement(last.marginal, last.counts, last.variance / 4)
    for name, items in (("more", (*measured.items, last)), ("quieter", (*measured.items[:-1], quieter))):
        measurements = Measurements(schema=measured.schema, items=items, record=measured.record)
        assert failed(put(with_measurements(release, measurements), tmp_path / name)) == ["measurements"]


def test_a_rehearsal_is_refused(release: Release, tmp_path: Path) -> None:
    assert failed(forged(release, tmp_path / "out", rehearsal=True)) == ["real noise"]


@pytest.mark.parametrize("name", ["manifest.json", "codebook.json"])
def test_one_stamp_is_enough_to_refuse(folder: Path, name: str) -> None:
    edit(folder, name, lambda told: told.update(stamp="REHEARSAL"))
    assert "real noise" in failed(folder)


def test_other_parents_fail(folder: Path) -> None:
    edit(folder, "manifest.json", lambda told: told["parents"]["measurements"].update(ledger_entry="0" * 64))
    assert failed(folder) == ["parents"]


def test_another_schema_fails(folder: Path) -> None:
    def widen(told: dict[str, Any]) -> None:
        told["schema"] = told["schema"].replace('origin = "codebook"', 'origin = "declared"')

    edit(folder, "codebook.json", widen)
    assert failed(folder) == ["parents", "statement", "codebook"]


def test_a_codebook_that_says_something_else_fails(folder: Path) -> None:
    edit(folder, "codebook.json", lambda told: told["columns"][0]["values"].append("other"))
    assert failed(folder) == ["codebook"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("table_format", list(TableFormat))
def test_rows_outside_the_codebook_fail(release: Release, tmp_path: Path, table_format: TableFormat) -> None:
    folder = put(release, tmp_path / "out", table_format)
    path = folder / f"synthetic.{table_format}"
    rows, columns = release.synthetic.num_rows, release.measurements.schema.columns
    ages = release.synthetic["age"].to_pylist()
    sexes = release.synthetic["sex"].to_pylist()
    for name, values in (("age", [96, *ages[1:]]), ("sex", ["x", *sexes[1:]])):
        column = pa.array(values, release.synthetic[name].type)
        place = release.synthetic.column_names.index(name)
        write_table(release.synthetic.set_column(place, name, column), path, columns=columns)
        reseal(folder)
        assert failed(folder) == ["rows"]
    write_table(release.synthetic.slice(0, rows - 1), path, columns=columns)
    reseal(folder)
    assert failed(folder) == ["rows"]
    write_table(release.synthetic.drop_columns(["age"]), path, columns=columns)
    reseal(folder)
    assert failed(folder) == ["rows"]
    write_table(release.synthetic, path, columns=columns)
    reseal(folder)
    assert failed(folder) == []


def test_unreadable_contents_fail_as_such(folder: Path) -> None:
    (folder / "statement.json").write_text("not json")
    reseal(folder)
    assert failed(folder) == ["contents"]


def test_what_is_no_release_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ReleaseError, match="no folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(ReleaseError, match="no manifest"):
        verify(tmp_path)
    edit(folder, "manifest.json", lambda told: told.update(format="populace release 99"))
    with pytest.raises(ReleaseError, match="populace release 99"):
        verify(folder)
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(ReleaseError, match="cannot be read"):
        verify(folder)


def test_earlier_stages_are_recognised(release: Release, tmp_path: Path) -> None:
    release.measurements.save(tmp_path)
    with pytest.raises(ReleaseError, match=r"holds measurements.*\n.*fit.*generate"):
        verify(tmp_path)
    release.model.write_files(tmp_path)
    with pytest.raises(ReleaseError, match=r"holds a model.*\n.*generate"):
        verify(tmp_path)


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        (CategoricalColumn(name="a", values=("1", "2"), missing=("R",)), ["1", "R", None], ["3"]),
        (CategoricalColumn(name="a", values=("1", "2"), other="1"), ["1", "2"], [None]),
        (IntegerColumn(name="a", min=0, max=9), [0, 9, None], [10]),
        (IntegerColumn(name="a", min=0, max=9, missing=("-1",)), [0, -1], [-2]),
        (IntegerColumn(name="a", min=0, max=9, other="0"), [0, 9], [None]),
        (IntegerColumn(name="a", min=0, max=9, missing=("refused",)), ["0", "9", "refused"], ["x"]),
        (IntegerColumn(name="a", min=0, max=9, missing=("refused",)), ["0"], ["10"]),
        (DecimalColumn(name="a", edges=(Fraction(0), Fraction(5, 2))), [0.0, 2.5, None], [2.6]),
        (
            DecimalColumn(name="a", edges=(Fraction(0), Fraction(1)), beyond=OutOfRange.OTHER),
            [0.5],
            [float("nan")],
        ),
    ],
)
def test_inside_knows_the_domain(column: Any, good: list[Any], bad: list[Any]) -> None:
    assert is_within_domain(column, pa.chunked_array([good]))
    assert not is_within_domain(column, pa.chunked_array([good, pa.array(bad, pa.array(good).type)]))
    assert is_within_domain(column, pa.chunked_array([good]).slice(0, 0))


def test_a_model_of_other_measurements_fails(release: Release, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out")
    edit(folder, "model.json", lambda told: told.update(measurements="0" * 64))
    assert failed(folder) == ["parents"]


def test_a_rehearsed_model_is_refused(release: Release, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out")
    edit(folder, "model.json", lambda told: told.update(rehearsal=True))
    assert failed(folder) == ["real noise"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("dataset", "somebody else"), ("command", "rm"), ("rows_asked", 3), ("sampling_seed", 1)],
)
def test_a_manifest_that_says_something_else_fails(
    release: Release, tmp_path: Path, key: str, value: object
) -> None:
    folder = put(release, tmp_path / "out")
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(dump_json(manifest | {key: value}), encoding="utf-8")
    assert failed(folder) == ["statement"]
