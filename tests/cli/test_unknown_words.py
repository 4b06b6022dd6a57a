"""What people type who do not know yet, and what they are told."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.core.errors import SchemaError, UsageError
from populace.schema.conditions.code_semantics import CodeSemantics
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.design.survey_columns import cut
from populace.survey.queries.queries import Queries
from tests.cli.workspace import Workspace
from tests.helpers.survey_oracle import plan_queries

SCHEMA = Schema.from_sizes({"SEX": 2, "INC": 100})


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    whole = capsys.readouterr().out
    assert main(["help"]) == 0
    assert capsys.readouterr().out == whole
    assert main(["help", "synth"]) == 0
    assert capsys.readouterr().out.startswith("Usage: populace synth")


@pytest.mark.parametrize("left", ["0.7", "0.3333333"])
def test_a_refusal_for_budget_names_the_grant_that_would_do(workspace: Workspace, left: str, capsys) -> None:
    ledger = ["--ledger", "l.db"]
    assert main(["ledger", "init", "--dataset", "people", "--epsilon", left, "--delta", "1e-9", *ledger]) == 0
    words = ["measure", "people.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-9", *ledger]
    words += ["--method", "independent", "--out", "measured"]
    assert main(words) == 3
    grant = capsys.readouterr().err.rpartition("`populace ")[2].partition("`")[0].split()
    assert grant[:6] == ["ledger", "grant", *ledger, "--dataset", "people"]
    assert main(grant) == 0
    assert main(words) == 0


def test_several_donors_are_said_not_to_go_with_a_range_in_a_query() -> None:
    design = Design.parse(
        "[missing.INC]\nhow = 'impute'\nmatch = ['SEX']\nk = 3\ntake = 'mean'\n", schema=SCHEMA
    )
    queries = Queries.parse('[[query]]\nstatistic = "mean"\ncolumn = "INC"\nhigh = 50\n', schema=SCHEMA)
    with pytest.raises(
        UsageError, match="k, take and ties of 'INC' go with means and proportions of one range"
    ):
        plan_queries(design, queries)


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "unused"), [(1, True), (40, False)])
def test_expectations_use_delta_where_it_is_worth_it(
    queries: int, unused: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA.to_toml())
    (tmp_path / "d.toml").write_text("[design]\n")
    one = '[[query]]\nname = "q{0}"\nstatistic = "proportion"\nthat = "INC >= {0}"\n'
    (tmp_path / "q.toml").write_text("".join(one.format(number) for number in range(1, 1 + queries)))
    words = [
        "estimate",
        "none.csv",
        "--schema",
        str(tmp_path / "s.toml"),
        "--design",
        str(tmp_path / "d.toml"),
    ]
    words += ["--queries", str(tmp_path / "q.toml"), "--epsilon", "1", "--expect", "5000"]
    told = []
    for delta in ("0", "1e-9"):
        assert main([*words, "--delta", delta]) == 0
        told.append(capsys.readouterr().out)
    assert (told[0] == told[1]) == unused


def test_a_cut_inside_a_bin_is_told_where_bins_begin() -> None:
    text = '[columns.AGE]\nkind = "integer"\nmin = 16\nmax = 90\nwidth = 3\n'
    ages = CodeSemantics.of(Schema.parse(text).columns["AGE"])
    with pytest.raises(SchemaError) as refused:
        cut(ages, [Fraction(16), Fraction(65)], place="totals")
    assert "such as 64 or 67" in refused.value.hint
