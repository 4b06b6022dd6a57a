"""Columns of a file that the schema does not name are left out, and that is said."""

from __future__ import annotations

import pytest

from tests.cli.workspace import CANARY, Workspace


def test_columns_that_the_schema_does_not_name_are_told(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{number},{'fm'[number % 2]},{CANARY},{number % 10}\n" for number in range(100))
    workspace.write("more.csv", f"phone,sex,street,age\n{rows}")
    assert workspace.synth("more.csv") == 0
    told = capsys.readouterr().err
    assert "not in the schema, so not read and not released: 'phone', 'street'" in told
    assert CANARY not in told


def test_nothing_is_said_where_all_are_named(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workspace.synth() == 0
    assert "not in the schema" not in capsys.readouterr().err


def test_a_first_row_is_not_taken_for_a_header(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.write("bare.csv", f"f,{CANARY},3\nm,{CANARY},4\n")
    assert workspace.synth("bare.csv") == 2
    assert CANARY not in capsys.readouterr().err
