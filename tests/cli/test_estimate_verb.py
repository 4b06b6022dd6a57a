"""`populace estimate`: what it writes, what it says, and what it refuses without spending."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from populace.cli.main import main
from populace.core.errors import UsageError
from populace.privacy.ledger.ledger import Ledger
from tests.helpers import small_survey
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(6)


class Bench:
    """A folder with a survey in files, and how to run the verb on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(small_survey.rows())

    def write(self, table: pa.Table) -> None:
        pyarrow.csv.write_csv(table, self.folder / "people.csv")

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    def run(
        self,
        *more: str,
        schema=small_survey.SCHEMA,
        design=small_survey.DESIGN,
        queries=small_survey.QUERIES,
        report: bool = False,
        **changes: str,
    ) -> int:
        paths = small_survey.files(self.folder / "files", schema=schema, design=design, queries=queries)
        options = {name: str(path) for name, path in paths.items()}
        options |= {
            "epsilon": "4",
            "delta": "1e-6",
            "ledger": str(self.ledger),
            "out": str(self.folder / "out"),
        }
        words = [word for key, value in {**options, **changes}.items() for word in (f"--{key}", value)]
        report = [] if report else ["--no-report"]
        return main(["estimate", str(self.folder / "people.csv"), *words, *report, *more])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_it_writes_a_folder_and_says_where(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run() == 0
    said = capsys.readouterr()
    assert said.out == f"{bench.folder / 'out'}\n"
    assert "epsilon 0 left of 4" in said.err
    assert main(["verify", str(bench.folder / "out")]) == 0


def test_json_holds_estimates_and_the_statement(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run("--json", dataset="another") == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["query"] for row in told["estimates"]][:3] == ["income", "income", "grown up"]
    assert (told["statement"]["dataset"], told["statement"]["method"]) == ("another", "estimate")


def test_without_delta_privacy_is_pure(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run("--json", delta="0") == 0
    assert json.loads(capsys.readouterr().out)["statement"]["delta"] == 0


def test_a_second_run_is_refused_for_budget(bench: Bench) -> None:
    assert bench.run() == 0
    assert bench.run(out=str(bench.folder / "second")) == 3
    assert not (bench.folder / "second").exists()


QUERY = '[[query]]\nstatistic = "mean"\n'
REFUSED = {
    "no such column": {"queries": QUERY + 'column = "wealth"'},
    "no public range": {"queries": QUERY + 'column = "sex"'},
    "unknown group": {"queries": QUERY + 'column = "income"\nby = ["region"]'},
    "no row can meet it": {"queries": QUERY + 'column = "income"\nwhere = "age < 18 and age >= 65"'},
    "no queries": {"queries": ""},
    "not TOML": {"queries": "[[query"},
    "too many groups": {
        "schema": small_survey.SCHEMA.replace("edges = [0, 18, 65, 100]", "min = 0\nmax = 9999"),
        "queries": QUERY + 'column = "income"\nby = ["age", "psu"]',
    },
    "lonely psu": {"design": small_survey.DESIGN + '[design.psus]\na = ["1"]\n'},
    "no such stratum": {"design": small_survey.DESIGN + '[design.psus]\nz = ["1", "2"]\n'},
    "weights never above 0": {
        "schema": small_survey.SCHEMA.replace("min = 0\nmax = 50", "min = -50\nmax = 0")
    },
    "no weights column": {"design": small_survey.DESIGN.replace('"weight"', '"wt"')},
    "contradicting totals": {
        "design": small_survey.TOTALS + '[[totals]]\nby = ["stratum"]\ncounts = { a = 1, b = 2 }\n',
        "queries": '[[query]]\nstatistic = "count"',
    },
    "totals that do not cover": {
        "design": '[[totals]]\nby = ["sex"]\ncounts = { f = 5100 }\n',
        "queries": '[[query]]\nstatistic = "count"',
    },
    "filled by several donors beside totals": {
        "design": small_survey.FILLED.replace("model", "impute")
        + 'k = 3\ntake = "mean"\n'
        + small_survey.TOTALS,
        "queries": QUERY + 'column = "income"',
    },
    "filled by several donors and weighted": {
        "design": small_survey.DESIGN
        + small_survey.FILLED.replace("model", "impute")
        + 'k = 3\ntake = "mean"\n',
        "queries": QUERY + 'column = "income"',
    },
    "filled at too small an epsilon": {
        "design": small_survey.FILLED.replace("model", "impute"),
        "queries": QUERY + 'column = "income"',
        "epsilon": "0.6",
        "delta": "0",
    },
    "epsilon too small": {"epsilon": "0.0000001"},
    "epsilon of nothing": {"epsilon": "0"},
    "delta of one": {"delta": "1"},
    "bins to be learnt": {
        "schema": small_survey.SCHEMA.replace(
            "min = 0\nmax = 1000\nwidth = 100", 'min = 0\nmax = 1000\nbins = "learn"'
        )
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_and_costs_nothing(
    name: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same words for a table and for one without rows: only public facts decide."""
    said = []
    for table in (small_survey.rows(), small_survey.rows(0)):
        bench.write(table)
        assert bench.run(**REFUSED[name]) == 2
        said.append(capsys.readouterr().err)
        assert not (bench.folder / "out").exists()
        assert not bench.ledger.exists() or not Ledger.existing(bench.ledger).accounts()
    assert said[0] == said[1]
    assert "hint: " in said[0]


def changed(column: str, values: list[object]) -> pa.Table:
    table = small_survey.rows()
    held = pa.array([str(values[place % len(values)]) for place in range(table.num_rows)])
    return table.set_column(table.column_names.index(column), column, held)


ODD = {
    "no rows": small_survey.rows(0),
    "one row": small_survey.rows(1),
    "no weights": changed("weight", [""]),
    "weights of 0 and less": changed("weight", [0, -5, -1e9]),
    "weights that are no numbers": changed("weight", ["heavy", "nan", "inf"]),
    "psus that are not listed": changed("psu", [7, "x", ""]),
    "one stratum only": changed("stratum", ["a"]),
    "nobody answers": changed("income", ["refused"]),
    "incomes out of range": changed("income", [1e300, -1e300, "1e999"]),
}


@pytest.mark.parametrize("name", sample_cases(ODD, to=4))
def test_odd_rows_never_stop_a_run(name: str, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the rows hold, the same questions are asked and paid for, and the same rows come back."""
    bench.write(ODD[name])
    assert bench.run("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(row["query"], row["group"]) for row in told["estimates"]] == [
        *(("income", {"sex": sex}) for sex in "fm"),
        ("grown up", {}),
        *(("persons", {"age": age}) for age in ("0–17", "18–64", "65–100")),
        ("median", {"p": "0.5"}),
    ]
    assert told["statement"]["used"]["share"] == pytest.approx(1, abs=0.01)


def test_what_is_paid_for_is_kept_where_the_report_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from populace.release.estimates_bundle import Estimates

    def fail(self: Estimates) -> str:
        raise MemoryError

    monkeypatch.setattr(Estimates, "report", fail)
    assert bench.run(report=True) == 4
    assert not (bench.folder / "out").exists()
    assert "kept in" in capsys.readouterr().err
    assert main(["verify", str(bench.folder / "out-estimates")]) == 0


def test_answers_are_kept_where_no_estimates_can_be_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from populace.api import estimate as estimates

    concluded = estimates.answer_queries

    def fail(oracle: object, **asked: object) -> None:
        concluded(oracle, **asked)
        raise KeyboardInterrupt

    monkeypatch.setattr(estimates, "answer_queries", fail)
    assert bench.run() == 130
    told = json.loads((bench.folder / "out-answers" / "answers.json").read_text("utf-8"))
    assert {each["verb"] for each in told} == {"sum"}
    err = capsys.readouterr().err
    assert f"paid for and kept in {bench.folder / 'out-answers'}" in err
    assert "are booked in" in err


def test_in_python_the_exception_holds_the_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from populace.api import estimate as estimates

    concluded = estimates.answer_queries

    def fail(oracle: object, **asked: object) -> None:
        concluded(oracle, **asked)
        raise MemoryError

    monkeypatch.setattr(estimates, "answer_queries", fail)
    paths = small_survey.files(bench.folder / "files")
    with pytest.raises(MemoryError) as caught:
        estimates.estimate(bench.folder / "people.csv", **paths, epsilon=4, ledger=bench.ledger)
    assert {each.verb for each in caught.value.answers} == {"sum"}  # type: ignore[attr-defined]
    assert f"are booked in {bench.ledger}" in "".join(caught.value.__notes__)


def test_groups_that_are_empty_are_too_few_to_say(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write(small_survey.rows(0))
    assert bench.run() == 0
    assert "too small to tell from the noise" in capsys.readouterr().err


def test_the_bench_can_fail(bench: Bench) -> None:
    """A run that is sound is not refused, so that refusals above are about what was changed."""
    assert bench.run(queries=QUERY + 'column = "income"') == 0


def test_files_of_other_schemas_do_not_mix(tmp_path: Path) -> None:
    from populace.api.estimate import estimate
    from populace.schema.schema import Schema
    from populace.survey.design.design import Design
    from populace.survey.queries.queries import Queries

    schema = Schema.parse(small_survey.SCHEMA)
    other = Schema.parse(small_survey.SCHEMA.replace("max = 50", "max = 60"))
    with pytest.raises(UsageError, match="another schema"):
        estimate(
            small_survey.rows(),
            schema=schema,
            design=Design.parse(small_survey.DESIGN, schema=other),
            queries=Queries.parse(small_survey.QUERIES, schema=schema),
            epsilon=1,
            ledger=tmp_path / "ledger.db",
        )
