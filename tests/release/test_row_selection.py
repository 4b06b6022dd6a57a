"""Rows where a condition holds, and several tables from one model: drawn, told, saved and verified."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import PopulaceError, SchemaError, UsageError
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.methods.fit_measurements import fit
from populace.privacy.ledger.ledger import Ledger
from populace.release.bundle import Release
from populace.release.manifest import digest_file, dump_json
from populace.release.verify.verify import verify
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(4)

TEXT = """
[table]
dataset = "people"

[columns.age]
kind = "integer"
min = 0
max = 99

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.work]
kind = "categorical"
values = ["no", "part", "full"]
universe = "age >= 15"
outside = "child"

[columns.pay]
kind = "numeric"
edges = [0, 100, 200, 500]

[columns.town]
kind = "categorical"
values = ["11", "12", "21"]

[columns.region]
kind = "categorical"
values = ["1", "2"]
function_of = "town"
map = { "11" = "1", "12" = "1", "21" = "2" }
"""
SCHEMA = Schema.parse(TEXT)


def people(rows: int = 4000) -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, rows)
    work = np.where(age > 64, "no", rng.choice(["no", "part", "full"], rows))
    town = rng.choice(["11", "12", "21"], rows, p=[0.6, 0.3, 0.1])
    return pa.table(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], rows),
            "work": np.where(age < 15, "child", work),
            "pay": rng.uniform(0, 500, rows),
            "town": town,
            "region": [each[0] for each in town],
        }
    )


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Measurements, Model]:
    ledger = tmp_path_factory.mktemp("ledger") / "ledger.db"
    measured = measure(people(), schema=SCHEMA, epsilon="20", delta="1e-6", ledger=ledger)
    return measured, fit(measured)


WHERES = [
    "age >= 65",
    "age >= 65 and sex == 'f'",
    "age < 10 or work == 'full'",
    "not (work in ['no', 'part'] and pay >= 200)",
    "region == '2' and age < 50",
    "work == 'child'",
    "pay < 100 and town != '11'",
]


@pytest.mark.parametrize("text", sample_cases(WHERES, to=3))
def test_every_row_meets_the_condition(text: str, fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    release = release_from(*fitted, where=text, seed=1)
    where = RowFilter.of(text, schema=SCHEMA)
    assert where.holds(release.synthetic).all()
    assert release.synthetic.num_rows > 20
    share = release.statement["where"]["share"]
    assert release.synthetic.num_rows == round(share * round(fitted[1].total)), "as many as are expected"
    truth = where.holds(people()).mean()
    assert share == pytest.approx(truth, abs=0.04)
    release.save(tmp_path / "out")
    assert verify(tmp_path / "out").passed


def test_a_number_of_rows_is_kept_to(fitted: tuple[Measurements, Model]) -> None:
    release = release_from(*fitted, where="age >= 65", rows=123, seed=1)
    assert release.synthetic.num_rows == 123
    assert release.statement["total"]["origin"] == "chosen by the curator"
    assert release_from(*fitted, where="age >= 65", rows=0).synthetic.num_rows == 0


def test_rows_differ_only_as_the_condition_says(fitted: tuple[Measurements, Model]) -> None:
    """What no condition speaks of is shared out as among the model's rows that meet it."""
    some = release_from(*fitted, where="age >= 65", rows=4000, seed=2).synthetic
    everything = release_from(*fitted, rows=40_000, seed=3).synthetic
    old = everything.filter(pc.greater_equal(everything["age"], 65))
    for name, value in (("sex", "f"), ("work", "no"), ("town", "11")):
        shares = [pc.mean(pc.equal(table[name], value)).as_py() for table in (some, old)]
        assert shares[0] == pytest.approx(shares[1], abs=0.03)


def test_the_release_tells_of_it(fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    release = release_from(*fitted, where="(sex=='f')and age>=65", seed=1)
    told = release.statement["where"]
    assert told["condition"] == "sex == 'f' and age >= 65"
    assert "Only rows where sex == 'f' and age >= 65 are released" in told["text"]
    assert "noisy count of the rows that meet the condition" in release.statement["total"]["text"]
    release.save(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["where"] == told["condition"]
    assert """--where 'sex == '"'"'f'"'"' and age >= 65'""" in manifest["command"]
    page = (tmp_path / "out" / "statement.md").read_text("utf-8")
    assert "| only rows where | sex == 'f' and age \\>= 65 |" in page
    assert "The release holds rows where sex ==" in (tmp_path / "out" / "report.html").read_text("utf-8")
    again = Release.load(tmp_path / "out")
    assert again.statement == release.statement
    assert again.model.total == fitted[1].total, "the folder holds the whole model"


def test_the_report_compares_all_rows(fitted: tuple[Measurements, Model]) -> None:
    """Measurements are of everybody: old people alone would look far off."""
    release = release_from(*fitted, where="age >= 65", seed=1)
    ages = np.asarray(release.compared_codes["age"])
    assert (ages < 65).mean() == pytest.approx(0.65, abs=0.05)
    plain = release_from(*fitted, seed=1)
    assert len(plain.compared_codes["age"]) == plain.synthetic.num_rows


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("agee >= 65", "where: there is no column 'agee'", "did you mean 'age'?"),
        ("age => 65", "where:", "did you mean >=?"),
        ("sex == 'x'", "'x' is not a value of column 'sex'", "'f', 'm'"),
        ("pay >= 150", "lies on both sides", "edge"),
        ("age < 15 and work == 'full'", "the rules of the schema forbid it", "can occur"),
        ("age < 15 and age > 20", "no values that its columns can have", "can occur"),
        (
            "sex == 'f' and (age < 3 or age > 5) and age == 4",
            "no values that its columns can have",
            "can occur",
        ),
        ("", "where:", ""),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_spent(
    text: str, what: str, hint: str, fitted: tuple[Measurements, Model], tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as late:
        release_from(*fitted, where=text)
    ledger = tmp_path / "ledger.db"
    with pytest.raises(UsageError) as early:
        synthesize(people(10), schema=SCHEMA, epsilon=1, delta="1e-6", ledger=ledger, where=text)
    for found in (late.value, early.value):
        assert what in found.message
        assert hint in found.hint
    assert not ledger.exists()


def test_rows_that_no_public_total_counts_are_refused(tmp_path: Path) -> None:
    totals = '\n[[totals]]\nby = ["sex"]\ncounts = { "f" = 50, "m" = 0 }\n'
    text = TEXT.replace('values = ["f", "m"]', 'values = ["f", "m"]\nother = "f"')
    schema = Schema.parse(text + totals)
    options: dict[str, Any] = {"schema": schema, "epsilon": 5, "delta": "1e-6", "method": "independent"}
    table = people(50).set_column(1, "sex", pa.array(["f"] * 50))
    ledger = tmp_path / "ledger.db"
    with pytest.raises(UsageError, match="the public totals by sex count none"):
        synthesize(table, where="sex == 'm' and age > 5", ledger=ledger, **options)
    assert not ledger.exists()
    release = synthesize(table, where="age >= 50", ledger=ledger, **options)
    assert release.statement["total"]["origin"] == "noisy", (
        "how many of the public total meet it is not public"
    )
    assert set(release.synthetic["sex"].to_pylist()) == {"f"}


def test_a_learnt_domain_is_refused_before_and_allowed_after(tmp_path: Path) -> None:
    schema = Schema.parse(
        TEXT.replace("edges = [0, 100, 200, 500]", 'min = 0\nmax = 500\ndecimals = 0\nbins = "learn"')
    )
    options: dict[str, Any] = {"epsilon": 5, "delta": "1e-6", "ledger": tmp_path / "ledger.db"}
    with pytest.raises(SchemaError, match="'pay'") as found:
        synthesize(people(), schema=schema, where="pay >= 250", **options)
    assert "learnt" in found.value.hint
    assert not (tmp_path / "ledger.db").exists()
    measured = measure(people(), schema=schema, **options)
    edge = sorted(float(edge) for edge in measured.schema.columns["pay"].edges)[1]  # type: ignore[attr-defined]
    release = release_from(measured, fit(measured), where=f"pay >= {edge}")
    assert pc.min(release.synthetic["pay"]).as_py() >= edge


def test_rows_the_model_hardly_has(fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    """Where nothing was spent for it, it is refused; a run that has spent ends with what there is, and says so."""
    measured, model = fitted
    few = replace(model, potentials={**model.potentials, ("sex",): np.array([0.0, -12.0, 0.0])})
    with pytest.raises(UsageError, match="fewer than one row") as found:
        release_from(measured, few, where="sex == 'm'")
    assert "--rows" in found.value.hint
    release = release_from(measured, few, where="sex == 'm'", rows=7)
    assert release.synthetic["sex"].to_pylist() == ["m"] * 7
    assert any("mostly noise" in line for line in release.statement["warnings"])
    rare = "age == 71 and work == 'full' and town == '21' and pay < 100 and sex == 'm'"
    options: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1, "delta": "1e-6", "method": "independent"}
    spent = synthesize(people(200), where=rare, ledger=tmp_path / "ledger.db", **options)
    assert spent.synthetic.num_rows == 0
    spent.save(tmp_path / "out")
    assert verify(tmp_path / "out").passed


def test_rows_the_model_does_not_have_are_refused(fitted: tuple[Measurements, Model]) -> None:
    measured, model = fitted
    steep = replace(model, potentials={**model.potentials, ("sex",): np.array([0.0, -400.0, 0.0])})
    with pytest.raises(UsageError, match="knows nothing of rows where sex == 'm'"):
        release_from(measured, steep, where="sex == 'm'", rows=5)


def reseal(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8")) | changes
    manifest["files"] = {name: digest_file(folder / name) for name in manifest["files"]}
    path.write_text(dump_json(manifest), encoding="utf-8")


def failures(folder: Path) -> list[str]:
    return [check.name for check in verify(folder).checks if not check.passed]


def test_verify_finds_a_row_that_does_not_meet_it(fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    release_from(*fitted, where="sex == 'f'", rows=20, seed=1, implicates=2).save(
        tmp_path / "out", format="csv"
    )
    assert failures(tmp_path / "out") == []
    for name in ("synthetic.csv", "synthetic-2.csv"):
        path = tmp_path / "out" / name
        kept = path.read_text("utf-8")
        path.write_text(kept.replace('"f"', '"m"', 1), encoding="utf-8")
        reseal(tmp_path / "out")
        assert failures(tmp_path / "out") == ["rows"]
        path.write_text(kept, encoding="utf-8")
    reseal(tmp_path / "out", share=0.7)
    assert "statement" in failures(tmp_path / "out")


def test_verify_finds_a_share_that_the_model_does_not_have(
    fitted: tuple[Measurements, Model], tmp_path: Path
) -> None:
    release = release_from(*fitted, where="sex == 'f'", rows=20, seed=1)
    assert release.selection is not None
    lie = replace(release, selection=replace(release.selection, share=0.9))
    lie.save(tmp_path / "out")
    assert failures(tmp_path / "out") == ["rows"]


def test_implicates_are_independent_draws_of_one_size(
    fitted: tuple[Measurements, Model], tmp_path: Path
) -> None:
    release = release_from(*fitted, implicates=3, rows=200, seed=5)
    assert len(release.tables) == 3
    assert release.tables[0].equals(release.table)
    assert {table.num_rows for table in release.tables} == {200}
    assert not any(release.tables[a].equals(release.tables[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert release.table.equals(release_from(*fitted, rows=200, seed=5).table), "the first is as if alone"
    more = release_from(*fitted, implicates=4, rows=200, seed=5)
    assert all(a.equals(b) for a, b in zip(release.tables, more.tables, strict=False))
    release.save(tmp_path / "out", format="csv")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"synthetic.csv", "synthetic-2.csv", "synthetic-3.csv"} <= names
    assert "synthetic-4.csv" not in names
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["implicates"] == 3
    assert {"synthetic-2.csv", "synthetic-3.csv"} <= set(manifest["files"])
    assert "--implicates 3" in manifest["command"]
    assert verify(tmp_path / "out").passed
    again = Release.load(tmp_path / "out")
    assert [table.equals(other) for table, other in zip(again.tables, release.tables, strict=True)] == [
        True
    ] * 3


def test_implicates_are_told(fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    release = release_from(*fitted, implicates=5, rows=10, seed=5)
    told = release.statement["implicates"]
    assert told["tables"] == 5
    assert "share one privacy cost" in told["text"]
    assert "drawing of rows alone, not the privacy noise" in told["text"]
    assert "5 tables of 10 synthetic rows" in repr(release)
    release.save(tmp_path / "out", format="parquet")
    assert (tmp_path / "out" / "synthetic-5.parquet").is_file()
    assert "implicates | 5 tables" in (tmp_path / "out" / "statement.md").read_text("utf-8")
    assert "There are 5 implicates" in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert verify(tmp_path / "out").passed


def test_one_table_is_told_as_ever(fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    release = release_from(*fitted, rows=10, seed=5)
    assert not {"implicates", "where", "workload"} & set(release.statement)
    assert len(release.tables) == 1
    release.save(tmp_path / "out")
    command = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["command"]
    assert not any(word in command for word in ("--where", "--implicates", "--workload"))


def test_a_manifest_from_before_is_read(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "golden" / "releases" / "1" / "csv", tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    for key in ("where", "share", "implicates"):
        del manifest[key]
    path.write_text(dump_json(manifest), encoding="utf-8")
    assert verify(tmp_path / "out").passed
    assert len(Release.load(tmp_path / "out").tables) == 1


def test_verify_finds_missing_and_added_implicates(
    fitted: tuple[Measurements, Model], tmp_path: Path
) -> None:
    release_from(*fitted, rows=10, seed=5, implicates=3).save(tmp_path / "out", format="csv", report=False)
    for number in (1, 2, 4, 0, 101, 10**9):
        reseal(tmp_path / "out", implicates=number)
        assert failures(tmp_path / "out") in (["files"], ["statement"])
        assert not verify(tmp_path / "out").passed
    reseal(tmp_path / "out", implicates=3)
    assert failures(tmp_path / "out") == []
    (tmp_path / "out" / "synthetic-3.csv").unlink()
    assert failures(tmp_path / "out") == ["files"]


def test_too_many_or_too_few_are_refused_first(fitted: tuple[Measurements, Model], tmp_path: Path) -> None:
    for number in (0, -1, 101):
        with pytest.raises(UsageError, match="implicates"):
            release_from(*fitted, implicates=number)
        with pytest.raises(PopulaceError, match="implicates"):
            synthesize(
                people(5),
                schema=SCHEMA,
                epsilon=1,
                delta=0,
                implicates=number,
                ledger=tmp_path / "ledger.db",
            )
    assert not (tmp_path / "ledger.db").exists()


def test_drawing_costs_nothing(tmp_path: Path) -> None:
    """The ledger of a run with all three options is that of a run without them."""
    booked = []
    for options in ({}, {"where": "age >= 30", "implicates": 4, "workload": "pairs"}):
        ledger = tmp_path / f"{len(booked)}.db"
        synthesize(people(300), schema=SCHEMA, epsilon=1, delta="1e-6", ledger=ledger, **options)
        (account,) = Ledger.existing(ledger).accounts()
        (record,) = Ledger.existing(ledger).runs(account.dataset)
        booked.append((account.left_epsilon, record.epsilon, record.spends[0], record.spends[1]))
    assert booked[0] == booked[1]
