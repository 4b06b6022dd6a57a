"""Cells that a schema does not describe are empty cells; the curator is told so from noisy counts."""

from __future__ import annotations

import pytest

from populace.cli.main import main
from tests.cli.workspace import Workspace

SCHEMA = '[columns.born]\nkind = "date"\nmin = 2000-01-01\nmax = 2009-12-31\nwidth = "year"\n'


@pytest.mark.parametrize(("line", "warned"), [("", True), ('format = "%d.%m.%Y"\n', False)])
def test_dates_that_could_not_be_read_are_noted(
    line: str, warned: bool, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = workspace.write("born.toml", SCHEMA + line)
    days = "".join(f"{day:02d}.06.{year}\n" for year in range(2000, 2010) for day in range(1, 29))
    data = workspace.write("born.csv", "born\n" + days)
    words = ["--schema", schema, "--epsilon", "5", "--delta", "0", "--no-report", "--method", "independent"]
    assert (
        main(["synth", data, *words, "--ledger", str(workspace.ledger), "--out", workspace.path("release")])
        == 0
    )
    said = capsys.readouterr().err
    assert ("WARNING: about" in said) is warned, "all of the column is lost"
    assert (
        "outside the domain of “born”: they hold nothing that can be read as the schema" in said
    ) is warned
    assert ("%d.%m.%Y" in said) is warned


def test_values_that_the_schema_does_not_declare_are_noted(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = workspace.write("sex.toml", '[columns.sex]\nkind = "categorical"\nvalues = ["M", "F"]\n')
    for number, (cells, warned) in enumerate((("1\n2\n", True), ("M\nF\n", False))):
        data = workspace.write(f"sex{number}.csv", "sex\n" + cells * 500)
        words = ["--schema", schema, "--epsilon", "1", "--delta", "1e-9", "--no-report"]
        out = ["--ledger", str(workspace.ledger), "--out", workspace.path(f"release{number}")]
        # Two tables of the same columns: the second account has to be named.
        assert main(["synth", data, *words, *out, "--dataset", f"sex{number}"]) == 0
        assert ("of the rows (± " in capsys.readouterr().err) is warned
