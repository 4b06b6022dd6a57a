"""`--check-rules` from end to end: noisy counts below 0 are read again, and the budget is shown by what it paid for."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from populace.cli.main import main
from populace.measurements.measurements import Measurements
from populace.measurements.rule_checks import RuleCheck, RuleOutcome
from populace.release.statement.rule_fit import bound_broken_share
from tests.cli.workspace import SCHEMA, Workspace

# No row breaks any of these, so that about half of the counts are below 0: all are 0 or more with probability 1e-8.
RULES = 30
VALUES = [f"v{number}" for number in range(RULES + 1)]
RULED = (
    SCHEMA
    + f'[columns.work]\nkind = "categorical"\nvalues = {json.dumps(VALUES)}\n'
    + "".join(f"[[zeros]]\nwhen = \"sex == 'f' and work == '{value}'\"\n" for value in VALUES[1:])
)
QUESTION = "| measure rows that break rules |"


@pytest.fixture
def ruled(workspace: Workspace) -> Workspace:
    workspace.write("schema.toml", RULED)
    workspace.write("people.csv", "sex,age,work\n" + "f,3,v0\nm,4,v1\n" * 50)
    return workspace


def lowest(folder: str) -> int:
    checks = Measurements.load(folder).rule_checks
    assert len(checks) == RULES
    return min(min(check.counts.values()) for check in checks)


def budget_table(folder: str) -> list[str]:
    page = (Path(folder) / "statement.md").read_text("utf-8")
    return [line for line in page.split("## Privacy budget")[1].split("##")[0].splitlines() if "%" in line][
        1:
    ]


def test_counts_below_zero_are_read_as_they_were_written() -> None:
    counts = {RuleOutcome.KEPT: 7, RuleOutcome.BROKEN: -3}
    check = RuleCheck(rule="a", counts=counts, variance=Fraction(9))
    assert RuleCheck.from_json(json.loads(json.dumps(check.to_json()))) == check
    for wrong in (True, 1.5, "1", None):
        with pytest.raises(ValueError, match="whole number"):
            RuleCheck.from_json(check.to_json() | {"counts": {"kept": wrong}})
    with pytest.raises(ValueError, match="too large"):
        RuleCheck.from_json(check.to_json() | {"counts": {"kept": 2**63}})


def test_a_release_with_counts_below_zero_verifies_and_shows_what_the_check_took(
    ruled: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synth", ruled.path("people.csv"), *ruled.spending(), "--method", "independent", "--check-rules"]
    assert main([*words, "--out", ruled.path("release")]) == 0
    assert f"{RULES} rules checked: at most" in capsys.readouterr().err
    assert lowest(ruled.path("release")) < 0
    assert main(["verify", ruled.path("release")]) == 0
    first, *others = budget_table(ruled.path("release"))
    assert first.startswith(QUESTION)
    assert first.endswith("| 5 % |")
    assert any("3 columns" in line for line in others), "the columns that were measured, each once"
    assert not any("again" in line or QUESTION in line for line in others)
    page = (Path(ruled.path("release")) / "report.html").read_text("utf-8")
    assert '<th scope="row">measure rows that break rules</th>' in page
    for name in ("statement.md", "report.html"):
        assert f"{RULES} rules checked: at most" in (Path(ruled.path("release")) / name).read_text("utf-8")


def test_stages_go_on_from_counts_below_zero(ruled: Workspace) -> None:
    words = [
        "measure",
        ruled.path("people.csv"),
        *ruled.spending(),
        "--method",
        "independent",
        "--check-rules",
    ]
    measured, fitted, release = (ruled.path(name) for name in ("measured", "fitted", "release"))
    assert main([*words, "--out", measured]) == 0
    assert lowest(measured) < 0
    assert main(["fit", measured, "--out", fitted]) == 0
    assert main(["generate", fitted, "--out", release, "--no-report"]) == 0
    assert main(["verify", release]) == 0
    assert budget_table(release)[0].startswith(QUESTION)


def test_without_the_check_nothing_is_said_of_it(
    ruled: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ruled.synth() == 0
    assert "checked" not in capsys.readouterr().err
    assert "rule_check" not in json.loads((Path(ruled.path("release")) / "statement.json").read_text("utf-8"))
    assert not any(QUESTION in line for line in budget_table(ruled.path("release")))


@pytest.mark.parametrize("broken", [0, 40])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_the_bound_on_broken_rows_holds_and_is_no_looser_than_it_must_be(law: str, broken: int) -> None:
    """1000 draws of three rules of 1000 rows, seed 5; 95 % of bounds or more hold (false alarms below 1e-3)."""
    rules, rows, deviation = 3, 1000, 10.0
    rng = np.random.default_rng(5)
    scale = deviation if law == "normal" else deviation / np.sqrt(2)
    noise = getattr(rng, law)(0, scale, size=(1000, rules, 2)).round().astype(int)
    bounds = [
        bound_broken_share(
            [
                RuleCheck(
                    rule=str(place),
                    counts={
                        RuleOutcome.KEPT: rows - broken + int(kept),
                        RuleOutcome.BROKEN: broken + int(more),
                    },
                    variance=Fraction(100),
                )
                for place, (kept, more) in enumerate(draw)
            ]
        )
        for draw in noise
    ]
    truth = rules * broken / rows
    assert np.mean(np.array(bounds) >= truth) >= 0.95
    assert np.mean(bounds) < truth + 4 * deviation * np.sqrt(rules) / rows
    worthless = RuleCheck(
        rule="a", counts={RuleOutcome.KEPT: -5, RuleOutcome.BROKEN: 2}, variance=Fraction(100)
    )
    assert bound_broken_share([worthless]) == 1
