"""One file that is named twice is refused by its path alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from populace.core.errors import UsageError
from populace.evaluation.disclosure.disclosure_result import measure_disclosure
from populace.evaluation.input_files import refuse_same_file
from populace.evaluation.score_files import evaluate
from populace.schema.schema import Schema

SCHEMA = Schema.from_sizes({"age": 3, "sex": 2})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text("age,sex\n0,1\n1,0\n2,1\n")
    (tmp_path / "link.csv").symlink_to(file)
    return file


def test_a_file_is_known_under_all_its_names(path: Path) -> None:
    for other in (str(path), path.parent / "link.csv", path.parent / "more" / ".." / "people.csv"):
        with pytest.raises(UsageError, match="are the same file"):
            refuse_same_file(path, other, what="both", hint="give two")


def test_equal_rows_in_two_files_and_frames_are_compared(path: Path) -> None:
    copy = path.with_name("copy.csv")
    copy.write_text(path.read_text())
    refuse_same_file(path, copy, what="both", hint="give two")
    refuse_same_file(SCHEMA, SCHEMA, what="both", hint="give two")


def test_evaluate_refuses_the_real_file_as_the_synthetic_one(path: Path) -> None:
    with pytest.raises(UsageError, match="the real and the synthetic table are the same file"):
        evaluate(path, path.parent / "link.csv", schema=SCHEMA)


def test_disclosure_refuses_the_real_rows_as_their_control(path: Path) -> None:
    with pytest.raises(UsageError, match="the real rows and the control are the same file"):
        measure_disclosure(
            {"t": path},
            schema=SCHEMA,
            quasi_identifiers=["age"],
            sensitive=["sex"],
            real=path,
            control=str(path),
        )


def make_release(folder: Path, *, files: tuple[str, ...] = ("synthetic.csv",)) -> Path:
    """Return a folder that looks like a release."""
    folder.mkdir()
    for name in ("manifest.json", "statement.json"):
        (folder / name).write_text("{}")
    for name in files:
        (folder / name).write_text("age,sex\n0,1\n0,0\n2,1\n")
    return folder


def test_files_in_the_wrong_order_are_refused_by_the_folder_of_the_release(path: Path) -> None:
    release = make_release(path.parent / "release")
    for given in (release, release / "synthetic.csv"):
        with pytest.raises(UsageError, match="in no release") as refusal:
            evaluate(given, path, schema=SCHEMA)
        assert "exchange the two" in refusal.value.hint
        assert evaluate(path, given, schema=SCHEMA)["tv_columns"].value > 0
    other = make_release(path.parent / "other")
    assert evaluate(release / "synthetic.csv", other, schema=SCHEMA)["tv_columns"].value == 0


def test_a_folder_without_a_synthetic_table_is_refused(path: Path) -> None:
    empty = make_release(path.parent / "empty", files=())
    with pytest.raises(UsageError, match="has no synthetic"):
        evaluate(path, empty, schema=SCHEMA)
