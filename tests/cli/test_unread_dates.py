"""Dates in another form than the schema's are empty cells; the curator is told so from released rows."""

from __future__ import annotations

import pytest

from populace.cli.main import main

from .desk import Desk

SCHEMA = '[columns.born]\nkind = "date"\nmin = 2000-01-01\nmax = 2009-12-31\nwidth = "year"\n'


@pytest.mark.parametrize(("line", "warned"), [("", True), ('format = "%d.%m.%Y"\n', False)])
def test_dates_that_could_not_be_read_are_noted(
    line: str, warned: bool, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = desk.write("born.toml", SCHEMA + line)
    days = "".join(f"{day:02d}.06.{year}\n" for year in range(2000, 2010) for day in range(1, 29))
    data = desk.write("born.csv", "born\n" + days)
    words = ["--schema", schema, "--epsilon", "5", "--delta", "0", "--no-report", "--method", "independent"]
    assert main(["synth", data, *words, "--ledger", str(desk.ledger), "--out", desk.path("release")]) == 0
    assert ("no value of 'born' that could be read" in capsys.readouterr().err) is warned
