"""Attacks with a control: they see a copy of the private rows, and nothing in rows of the same population."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import PopulaceError
from populace.evaluation.disclosure.attacks import run_attacks
from populace.evaluation.disclosure.disclosure_result import measure_disclosure
from populace.evaluation.disclosure.text_tables import read_text_tables
from populace.evaluation.internal_marking import INTERNAL
from tests.helpers.small_claims import SCHEMA, SCHEMA_TEXT, make_rows

QUASI, SENSITIVE = ["sex", "age"], ["income", "work"]


def attack(released: pa.Table, *, real: pa.Table, control: pa.Table):
    read = read_text_tables({"s": released, "r": real, "c": control}, columns=[*QUASI, *SENSITIVE])
    found = run_attacks(read[0], real=read[1], control=read[2], quasi=QUASI, sensitive=SENSITIVE)
    return {each.name: each.to_json() for each in found}


def test_a_copy_is_seen_and_other_rows_are_not() -> None:
    """Each interval covers in 95 % of the cases; two disjoint ones are 1 in 200 by chance. Seeds are fixed."""
    real, control, other = (make_rows(600, seed=seed) for seed in (1, 2, 3))
    copied = attack(real, real=real, control=control)
    assert copied["membership by closest row"]["real"]["rate"] == 1
    assert all(copied[name]["evident"] for name in copied if name.startswith("membership"))
    apart = attack(other, real=real, control=control)
    assert not any(each["evident"] for each in apart.values())
    for name in ("membership by closest row", "membership by pairs of values"):
        assert apart[name]["control"]["low"] <= 0.05 <= apart[name]["control"]["high"]


def test_unique_matches_and_singling_out_by_hand() -> None:
    base = {
        "sex": ["f"] * 60,
        "age": [str(10 + n // 2) for n in range(60)],
        "work": ["?"] * 60,
        "income": ["5"] * 60,
    }
    real = pa.table({**base, "age": [*base["age"][:58], "80", "90"]})
    control = pa.table(base)
    three = {"sex": ["f", "f", "m"], "age": ["80", "90", "90"], "work": ["?"] * 3, "income": ["5", "6", "5"]}
    released = pa.table(three)
    found = attack(released, real=real, control=control)
    # Both rows are matched by one released row alone; one of these has the right income.
    assert (
        found["unique matches"]["real"]["successes"],
        found["unique matches"]["control"]["successes"],
    ) == (1, 0)
    single = found["singling out"]
    assert (single["real"]["successes"], single["real"]["trials"], single["control"]["successes"]) == (
        2,
        3,
        0,
    )


def test_a_small_control_is_refused() -> None:
    with pytest.raises(PopulaceError, match="control has 10 rows"):
        attack(make_rows(50), real=make_rows(50), control=make_rows(10))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disclosure")
    (folder / "schema.toml").write_text(SCHEMA_TEXT)
    for name, seed in (("real", 1), ("control", 2)):
        pc.write_csv(make_rows(800, seed=seed), folder / f"{name}.csv")
    asked = {"schema": SCHEMA, "epsilon": 1, "delta": "1e-9", "method": "mst", "ledger": folder / "l.db"}
    pp.synthesize(folder / "real.csv", **asked).save(folder / "release", report=False)
    return folder


def run(place: Path, out: str, *words: str) -> int:
    return main(
        [
            *("disclosure", *words, "--schema", str(place / "schema.toml"), "--quasi-identifiers", "sex,age"),
            *("--sensitive", "work,income", "--out", str(place / out)),
        ]
    )


def test_the_verb_writes_what_attacks_find_beside_the_promise(place: Path, capsys) -> None:
    synthetic, release = str(place / "release" / "synthetic.csv"), str(place / "release")
    words = ["--real", str(place / "real.csv"), "--control", str(place / "control.csv"), "--release", release]
    before = (place / "l.db").read_bytes()
    assert run(place, "attacked", synthetic, *words, "--json") == 0
    assert (place / "l.db").read_bytes() == before
    printed = json.loads(capsys.readouterr().out)
    saved = json.loads((place / "attacked" / "disclosure.json").read_text())
    assert {**saved, "disclosure": printed["disclosure"]} == printed
    assert saved["marking"] == INTERNAL
    assert saved["promise"]["max_power"] == pytest.approx(0.0717, abs=1e-3)
    assert saved["beyond_promise"] == []
    page = (place / "attacked" / "disclosure.html").read_text()
    assert INTERNAL in page
    assert "7.2" in page


def test_a_table_that_breaks_its_promise_is_named(place: Path) -> None:
    found = measure_disclosure(
        {"copy": place / "real.csv"},
        schema=SCHEMA,
        quasi_identifiers=QUASI,
        sensitive=SENSITIVE,
        real=place / "real.csv",
        control=place / "control.csv",
        release=place / "release",
    )
    assert "membership by closest row" in found.beyond_promise
    assert "more power than ε and δ allow" in found.render()


def test_an_alarm_is_told_on_the_terminal(place: Path, capsys) -> None:
    real, control, release = (str(place / name) for name in ("real.csv", "control.csv", "release"))
    assert run(place, "alarm", real, "--real", real, "--control", control, "--release", release) == 0
    assert (
        "WARNING: The membership by closest row has more power than ε and δ allow" in capsys.readouterr().err
    )


def test_only_files_of_a_release_may_be_published(place: Path, capsys) -> None:
    synthetic, release = str(place / "release" / "synthetic.csv"), str(place / "release")
    assert run(place, "open", synthetic, "--release", release) == 0
    assert json.loads((place / "open" / "disclosure.json").read_text())["marking"] is None
    assert run(place, "closed", str(place / "real.csv"), "--release", release) == 0
    assert json.loads((place / "closed" / "disclosure.json").read_text())["marking"] == INTERNAL
    assert run(place, "pieces", str(place / "real.csv"), str(place / "control.csv")) == 0
    saved = json.loads((place / "pieces" / "disclosure.json").read_text())
    assert list(saved["pieces"]) == ["real.csv", "control.csv"]
    assert {each["name"] for each in saved["union"]} >= {"k-anonymity", "t-closeness of work"}


@pytest.mark.parametrize(
    "words",
    [
        ["real.csv", "--real", "real.csv"],
        ["none.csv"],
        ["real.csv", "real.csv"],
        ["real.csv", "--release", "none"],
    ],
)
def test_bad_requests_are_refused(place: Path, words: list[str]) -> None:
    paths = [word if word.startswith("--") else str(place / word) for word in words]
    assert run(place, "refused", *paths) == 2
    assert not (place / "refused").exists()


def test_unknown_columns_are_refused() -> None:
    for quasi, sensitive in ((["zip"], []), (["age", "age"], []), ([], ["age"])):
        with pytest.raises(PopulaceError):
            measure_disclosure(
                {"t": make_rows(5)}, schema=SCHEMA, quasi_identifiers=quasi, sensitive=sensitive
            )
    assert np.isfinite(
        measure_disclosure({"t": make_rows(5)}, schema=SCHEMA, quasi_identifiers=["age"]).anonymity.k
    )
