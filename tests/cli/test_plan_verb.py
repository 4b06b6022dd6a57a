"""populace plan on the command line: words for people, JSON for machines, nothing spent."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from populace.cli.main import main
from tests.cli.workspace import Workspace


def words(workspace: Workspace, **changes: str | None) -> list[str]:
    options: dict[str, str | None] = {
        "schema": workspace.path("schema.toml"),
        "population": "2000",
        "epsilon": "1",
        "delta": "1e-6",
    }
    return ["plan", *(w for k, v in {**options, **changes}.items() if v is not None for w in (f"--{k}", v))]


def test_a_plan_shows_errors_budget_cost_and_verdict(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = workspace.ledger.read_bytes()
    assert main(words(workspace, epsilon="1.00000001")) == 0
    said = capsys.readouterr().out
    for part in (
        "2,000 rows",
        "ε = 1.00000001,",
        "nothing was spent",
        "age",
        "measure columns",
        "Time about",
        "Verdict: enough rows",
    ):
        assert part in said
    assert workspace.ledger.read_bytes() == before
    assert not (workspace.folder / "state").exists(), "a plan made a ledger"


@pytest.mark.slow
def test_json_holds_the_whole_plan(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(workspace, **{"target-error": "0.05"}), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["spent"] == 0
    assert [column["column"] for column in said["columns"]] == ["sex", "age"]
    assert 0 < said["column_error"]["low"] <= said["column_error"]["mean"] <= said["column_error"]["high"]
    assert said["epsilon_for_target"] < 1
    assert sum(said["budget"].values()) == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_every_pair_is_told_whether_it_will_be_measured_or_not(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"a": 2, "b": 3, "c": 4, "d": 12, "e": 30}
    schema = workspace.write("sizes.json", json.dumps(sizes))
    assert main(words(workspace, schema=schema, population="20000")) == 0
    said = capsys.readouterr().out
    assert re.search(r"up to 10 cells +\S.* 2$", said, flags=re.MULTILINE)
    assert re.search(r"d × e .* 360 in \d+ groups", said)
    assert "Codes that noise would hide share a group" in said
    assert main([*words(workspace, schema=schema, population="20000"), "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert {frozenset(pair["columns"]) for pair in pairs} == {
        frozenset((one, two)) for one in sizes for two in sizes if one < two
    }
    assert all(0 <= pair["low"] <= pair["mean"] <= pair["high"] <= 1 for pair in pairs)
    assert [pair["mean"] for pair in pairs] == sorted(pair["mean"] for pair in pairs)
    assert {pair["simulations_that_measured"] for pair in pairs} <= set(range(9))
    assert all(1 <= pair["cells_in_groups"] <= pair["cells"] for pair in pairs)


@pytest.mark.slow
def test_the_page_names_open_domains_and_when_nothing_suffices(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = workspace.write("open.toml", '[columns.city]\nkind = "categorical"\nvalues = "learn"\n')
    public = workspace.write("public.csv", "city\n" + "Ulm\nBonn\n" * 1000)
    few = {"schema": schema, "population": "20", "epsilon": "0.1", "out": workspace.path("few")}
    assert main(words(workspace, **few, like=public)) == 0
    assert "The run will learn the domain of city" in capsys.readouterr().out
    page = " ".join(Path(workspace.path("few"), "plan.html").read_text("utf-8").split())
    assert "Neither coarser columns (down to 8 codes) nor fewer (down to 2) make these rows enough." in page
    assert "Only more budget (--target-error 0.02 finds how much) or more rows would do." in page
    assert "The run will learn the domain of city" in page
    assert "Learnt there: city (0 values or bins)." in page


@pytest.mark.slow
def test_a_target_stands_in_for_epsilon(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(workspace, epsilon=None, **{"target-error": "0.05"})) == 0
    assert "takes ε = " in capsys.readouterr().out


def test_a_public_table_is_said_to_be_treated_as_public(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    public = workspace.write("public.csv", "sex,age\n" + "f,3\nm,4\nm,9\n" * 300)
    assert main(words(workspace, like=public)) == 0
    said = capsys.readouterr()
    assert f"{public} is treated as public" in said.err
    out = " ".join(said.out.split())
    assert "simulated on public.csv, which is treated as public" in out
    assert "dependence that is not modelled" in out


def test_public_shares_are_said_to_be_treated_as_public(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = workspace.write("shares.csv", "column,value,percent\nsex,f,51\nsex,m,49\n")
    assert main(words(workspace, shares=shares)) == 0
    said = capsys.readouterr()
    assert f"{shares} is treated as public" in said.err
    assert "Public shares are known of sex; the rest is invented." in said.out
    assert main([*words(workspace, shares=shares), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["known_shares"] == {"sex": 1.0}
    assert main(words(workspace)) == 0
    assert "(--shares)" in capsys.readouterr().out
    assert main(words(workspace, shares=workspace.path("none.csv"))) == 2


def test_what_a_public_table_taught_is_told(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    schema = workspace.write("open.toml", '[columns.city]\nkind = "categorical"\nvalues = "learn"\n')
    public = workspace.write("public.csv", "city\n" + "Ulm\nBonn\n" * 1000)
    assert main(words(workspace, schema=schema, like=public)) == 0
    assert "Learnt there: city (2 values or bins)" in capsys.readouterr().out


def test_too_few_rows_are_said_plainly(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(workspace, population="600", epsilon="1")) == 0
    said = capsys.readouterr().out
    assert "Verdict: too few rows" in said
    said = " ".join(said.split())
    assert re.search(
        r"Coarsen to \d+ codes or fewer, in the schema: age \(\d+ codes\): width = \d+, or edges", said
    )
    assert "times as far from the truth as exact columns without any dependence" in said
    assert "The mean error of columns is then" in said
    assert "more budget (--target-error 0.02 finds how much)" in said


def test_it_is_said_when_no_change_of_columns_suffices(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(workspace, population="20", epsilon="0.1")) == 0
    said = capsys.readouterr().out
    assert "Neither coarser columns (down to 8 codes) nor fewer" in said
    assert "Drop " not in said


def test_numbers_agree_with_their_nouns_and_delta_reads_as_elsewhere(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(workspace, delta="1e-9")) == 0
    said = capsys.readouterr().out
    assert "δ = 1e-9, " in said
    assert re.search(r"up to .* cells .* 1$", said, flags=re.MULTILINE)


def test_a_method_without_pairs_is_not_said_to_find_none_worth_it(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(workspace, method="independent")) == 0
    assert re.search("pairs measured +none by this method", capsys.readouterr().out)


@pytest.mark.slow
def test_the_protection_is_said_first(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(workspace, epsilon="50")) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("Protection: very weak. A membership test")
    assert main(words(workspace)) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("Protection: strong. A membership test")


@pytest.mark.slow
def test_a_target_that_is_met_is_not_followed_by_the_advice_to_ask_for_one(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(workspace, epsilon=None, **{"target-error": "0.03"})) == 0
    said = capsys.readouterr().out
    assert "Verdict: few rows" in said or "Verdict: too few rows" in said
    assert "--target-error" not in said
    assert "This ε was chosen for a mean error of 3 %; rows are enough up to 2 %." in said
    assert "more budget" not in said


@pytest.mark.slow
def test_absurd_populations_are_doubted(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(workspace, population="1000000000000")) == 0
    assert "is the population right?" in capsys.readouterr().err
    assert main(words(workspace, population="1000000")) == 0
    assert "is the population right?" not in capsys.readouterr().err


def test_one_column_has_no_pairs_and_stands_under_its_heading(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = workspace.write("alone.toml", '[columns.a]\nkind = "integer"\nmin = 0\nmax = 9\n')
    assert main(words(workspace, schema=alone)) == 0
    said = capsys.readouterr().out
    assert "none: there is one column" in said
    heading, row = (re.search(rf"^  {start}.*$", said, flags=re.MULTILINE) for start in ("column  ", "a  "))
    assert heading is not None
    assert row is not None
    assert heading.group().index("codes") + 5 == row.group().index("11") + 2


@pytest.mark.slow
def test_out_writes_a_page_with_pictures_that_opens_offline(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(workspace, out=workspace.path("plan"))) == 0
    assert capsys.readouterr().out.splitlines()[-1] == workspace.path("plan")
    page = Path(workspace.path("plan"), "plan.html").read_text("utf-8")
    assert page.count("<svg") == 6
    for part in (
        "measure columns",
        "Ranges go from",
        "sex × age",
        "Every pair as a table",
        "How to read this plan",
    ):
        assert part in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert json.loads(Path(workspace.path("plan"), "plan.json").read_text("utf-8"))["population"] == 2000
    assert main(words(workspace, out=workspace.path("plan"))) == 2


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"population": "0"}, "the population is 0"),
        ({"epsilon": None}, "neither --epsilon nor --target-error"),
        ({"epsilon": "-1"}, "epsilon is -1"),
        ({"target-error": "3"}, "the target error is 3"),
        ({"method": "mts"}, "did you mean 'mst'"),
        ({"like": "none.csv"}, "there is no file"),
        ({"public": "last.csv"}, "no plan can predict what a public table saves"),
        ({"method": "stability"}, "no schema says how often rows repeat"),
    ],
    ids=str,
)
def test_bad_options_leave_with_two(
    workspace: Workspace, changes: dict[str, str | None], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(workspace, **changes)) == 2
    assert part in capsys.readouterr().err


@pytest.mark.slow
def test_the_guide_runs(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "plan.md").read_text("utf-8")
    workspace.write("public.csv", "sex,age\n" + "f,3\nm,4\nm,9\n" * 300)
    commands = re.findall(r"^\$ populace (.*)$", guide, flags=re.MULTILINE)
    assert len(commands) == 4
    (shares,) = re.findall(r"^```csv\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
    known = [line for line in shares.splitlines() if not line.startswith("gain")]
    workspace.write("published.csv", "\n".join(known).replace("15,64", "5,8").replace("0,14", "0,4"))
    for command in commands:
        assert main(shlex.split(command)) == 0, capsys.readouterr().err
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["plan"].verdict.value == "enough rows"
