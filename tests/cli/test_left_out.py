"""Columns of a file that the schema does not name are left out, and that is said."""

from __future__ import annotations

import pytest

from .desk import CANARY, Desk


def test_columns_that_the_schema_does_not_name_are_told(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{number},{'fm'[number % 2]},{CANARY},{number % 10}\n" for number in range(100))
    desk.write("more.csv", f"phone,sex,street,age\n{rows}")
    assert desk.synth("more.csv") == 0
    told = capsys.readouterr().err
    assert "not in the schema, so not read and not released: 'phone', 'street'" in told
    assert CANARY not in told


def test_nothing_is_said_where_all_are_named(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.synth() == 0
    assert "not in the schema" not in capsys.readouterr().err


def test_a_first_row_is_not_taken_for_a_header(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.write("bare.csv", f"f,{CANARY},3\nm,{CANARY},4\n")
    assert desk.synth("bare.csv") == 2
    assert CANARY not in capsys.readouterr().err
