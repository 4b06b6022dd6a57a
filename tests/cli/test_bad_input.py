"""Bad input: the right exit code, one message with a hint, nothing spent, no data value in any message."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.cli.workspace import CANARY, SCHEMA, Workspace


def refused(workspace: Workspace, capsys: pytest.CaptureFixture[str], code: int, *, exits: int) -> str:
    """Check a refusal and return its message."""
    out, err = capsys.readouterr()
    assert code == exits, err
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("error: ") == err.count("\nhint: ") == 1
    assert CANARY not in err
    assert workspace.entries == 1, "something was booked"
    assert not (workspace.folder / "release").exists()
    return err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (SCHEMA + "mx = 3\n", "did you mean 'max'"),
        (SCHEMA.replace("unit =", "units ="), "did you mean 'unit'"),
        (SCHEMA.replace('"integer"', '"intger"'), "intger"),
        (SCHEMA + '[columns.x]\nkind = "numeric"\nmin = 0\nmax = 9\nbins = "lern"\n', "bins can only be"),
        (SCHEMA.replace("max = 9", "max = -9"), "age"),
        ("[table\n", "hint"),
        ("", "hint"),
        (b"\xff\xfe\x00", "hint"),
        (None, "no schema file"),
    ],
    ids=["column key", "table key", "kind", "later", "min above max", "no TOML", "empty", "bytes", "missing"],
)
def test_bad_schema(workspace: Workspace, capsys, content: str | bytes | None, says: str) -> None:
    schema = workspace.path("none.toml") if content is None else workspace.write("bad.toml", content)
    assert says in refused(workspace, capsys, workspace.synth(schema=schema), exits=2)


@pytest.mark.parametrize("epsilon", ["0", "-1", "abc", "", "nan", "inf", "1e999999", "1/0", "0x1", "True"])
def test_bad_epsilon(workspace: Workspace, capsys, epsilon: str) -> None:
    assert "epsilon" in refused(workspace, capsys, workspace.synth(epsilon=epsilon), exits=2)


@pytest.mark.parametrize("delta", ["1", "1.5", "-1e-9", "abc", "nan"])
def test_bad_delta(workspace: Workspace, capsys, delta: str) -> None:
    assert "delta" in refused(workspace, capsys, workspace.synth(delta=delta), exits=2)


@pytest.mark.parametrize("option", ["epsilon", "delta", "schema", "out"])
def test_nothing_about_privacy_has_a_default(workspace: Workspace, capsys, option: str) -> None:
    assert f"--{option}" in refused(workspace, capsys, workspace.synth(**{option: None}), exits=2)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("zero.csv", "", "empty"),
        ("zero.parquet", "", "empty"),
        ("headerless.csv", f"f,3\n{CANARY},4\n", "header"),
        ("one-line.csv", f"{CANARY},4", "header"),
        ("missing.csv", f"sex\n{CANARY}\n", "no column 'age'"),
        ("misspelt.csv", f"sex,Age\n{CANARY},1\n", "did you mean 'Age'"),
        ("twice.csv", f"sex,age,age\n{CANARY},1,2\n", "more than once"),
        ("blank.csv", f",\n{CANARY},1\n", "no column"),
        ("not.parquet", f"sex,age\n{CANARY},1\n", "not a Parquet file"),
        ("cut.parquet", b"PAR1" + CANARY.encode(), "cannot be read"),
        ("zipped.csv", b"\x1f\x8b" + CANARY.encode(), "gzip"),
    ],
)
def test_bad_file(workspace: Workspace, capsys, name: str, content: str | bytes, says: str) -> None:
    workspace.write(name, content)
    assert says in refused(workspace, capsys, workspace.synth(name), exits=2)


def test_missing_file(workspace: Workspace, capsys) -> None:
    assert "no file" in refused(workspace, capsys, workspace.synth("none.csv"), exits=2)


def test_folder_for_a_file(workspace: Workspace, capsys) -> None:
    (workspace.folder / "folder.csv").mkdir()
    assert "folder" in refused(workspace, capsys, workspace.synth("folder.csv"), exits=2)


def test_unreadable_file(workspace: Workspace, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def locked(path: Path, *args, **kwargs):
        if path.name == "people.csv":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", locked)
    assert "permission" in refused(workspace, capsys, workspace.synth(), exits=4).lower()


def test_marginal_too_large(workspace: Workspace, capsys) -> None:
    schema = workspace.write("large.json", '{"sex": 3000000000, "age": 10}')
    assert "cells" in refused(workspace, capsys, workspace.synth(schema=schema), exits=2)


def test_more_rows_than_memory(workspace: Workspace, capsys) -> None:
    """The declared number of rows decides before anything is spent, not the file."""
    schema = workspace.write("many.toml", SCHEMA.replace("unit =", f"max_rows = {10**15}\nunit ="))
    assert "memory" in refused(workspace, capsys, workspace.synth(schema=schema), exits=4)


def test_more_synthetic_rows_than_can_be_drawn(workspace: Workspace, capsys) -> None:
    assert "the most is" in refused(workspace, capsys, workspace.synth(rows=str(10**13)), exits=4)


def test_unknown_method(workspace: Workspace, capsys) -> None:
    assert "did you mean 'mst'" in refused(workspace, capsys, workspace.synth(method="msst"), exits=2)


@pytest.mark.parametrize("content", ["people.csv", "schema.toml"])
def test_ledger_that_is_none(workspace: Workspace, capsys, content: str) -> None:
    shutil.copy(workspace.folder / content, workspace.folder / "other.db")
    assert "ledger" in refused(workspace, capsys, workspace.synth(ledger=workspace.path("other.db")), exits=2)


def test_ledger_in_a_folder_that_is_mistyped(workspace: Workspace, capsys) -> None:
    said = refused(workspace, capsys, workspace.synth(ledger=workspace.path("tpyo/ledger.db")), exits=2)
    assert "there is no folder" in said
    assert not (workspace.folder / "tpyo").exists()


@pytest.mark.parametrize(
    ("option", "says"),
    [({"format": "xlsx"}, "choose csv, parquet, sav, dta, xpt"), ({"rows": "-1"}, "-1 rows")],
)
def test_table_that_cannot_be_made(workspace: Workspace, capsys, option: dict[str, str], says: str) -> None:
    assert says in refused(workspace, capsys, workspace.synth(**option), exits=2)


def test_folder_that_is_taken(workspace: Workspace, capsys) -> None:
    before = workspace.write("people.csv", "sex,age\n")
    assert "not empty" in refused(workspace, capsys, workspace.synth(out=str(workspace.folder)), exits=2)
    assert "not a folder" in refused(workspace, capsys, workspace.synth(out=before), exits=2)
    assert "is a file" in refused(workspace, capsys, workspace.synth(out=f"{before}/release"), exits=2)


def test_folder_without_permission(workspace: Workspace, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "Permission denied" in refused(workspace, capsys, workspace.synth(), exits=4)


def test_over_budget(workspace: Workspace, capsys) -> None:
    said = refused(workspace, capsys, workspace.synth(epsilon="3.5"), exits=3)
    assert "3.5" in said
    assert "grant" in said


def test_header_with_zero_rows_is_a_table(workspace: Workspace, capsys) -> None:
    workspace.write("people.csv", "sex,age\n")
    assert workspace.synth() == 0
    assert capsys.readouterr().out.splitlines()[-1] == workspace.path("release")
