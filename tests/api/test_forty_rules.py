"""Small releases of the stress table: rules that depend on each other, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from populace.cli.main import main
from populace.schema.codec.table_codec import TableCodec
from populace.schema.schema import Schema
from tests.helpers.forty_rules import draw_persons, strangers, violations
from tests.helpers.forty_rules_schema import ZEROS, persons_schema

ROWS = 2_000
# Without these the model is small; 21 rules are left.
HEAVY = ["size", "earners", "tenure", "occupation", "branch", "hours", "rent"]


def release(place: Path, *, method: str, rows: int, seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows that a run reads, and those that it writes."""
    real = draw_persons(ROWS, seed=seed).drop(columns=HEAVY)
    real.to_csv(place / "rows.csv", index=False)
    (place / "schema.toml").write_text(persons_schema(real))
    words = ["synth", str(place / "rows.csv"), "--schema", str(place / "schema.toml"), "--epsilon", "1"]
    words += ["--delta", "1e-5", "--method", method, "--rows", str(rows), "--no-report"]
    words += ["--ledger", str(place / "ledger.db"), "--out", str(place / "out")]
    assert main(words) == 0
    return real, pd.read_csv(place / "out" / "synthetic.csv", dtype=str, keep_default_na=False)


@pytest.mark.slow
def test_real_rows_keep_all_rules() -> None:
    """By hand and by populace, which moves none of them."""
    real = draw_persons(5_000)
    assert {rule: count for rule, count in violations(real).items() if count} == {}
    assert {name: count for name, count in strangers(real, real).items() if count} == {}
    schema = Schema.parse(persons_schema(real))
    assert not any(
        TableCodec(schema).count_violations(pa.Table.from_pandas(real, preserve_index=False)).values()
    )
    functions, universes = len(schema.layout.functions), len(schema.rulebook.universes)
    assert functions + universes + len(ZEROS) + len(schema.totals) == len(violations(real)) + 1 == 40


@pytest.mark.slow
def test_rows_that_break_rules_are_seen() -> None:
    """Every column on its own, shuffled: whoever counts must find all rules broken but those that seldom are."""
    real = draw_persons(5_000)
    mixed = pd.DataFrame(
        {name: real[name].sample(frac=1, random_state=n).to_numpy() for n, name in enumerate(real)}
    )
    assert all(violations(mixed).values())
    odd = mixed.assign(age="120", hired="1900-01-01", trade="pirate", rent="7000", wage="1e9", hours="90.0")
    assert sum(count > 0 for count in strangers(odd, real).values()) == 6


@pytest.mark.slow
@pytest.mark.parametrize("method", ["independent", "mst"])
def test_a_small_release_keeps_all_rules(method: str, tmp_path: Path) -> None:
    real, table = release(tmp_path, method=method, rows=2 * ROWS)
    assert list(table.columns) == list(real.columns)
    assert len(table) == 2 * ROWS
    broken = violations(table)
    assert len(broken) == 21
    assert {rule: count for rule, count in broken.items() if count} == {}
    assert {name: count for name, count in strangers(table, real).items() if count} == {}
    assert table.district.value_counts().to_dict() == (2 * real.district.value_counts()).to_dict()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(
            "marital == 'married' or not age < 16 or relation in ['head', 'spouse', 'child', 'other']",
            id="all",
        ),
        pytest.param("size > children or earners > size", id="with comparisons"),
        pytest.param("not (work == 'employee' and wage == 'N')", id="with a universe of learnt bins"),
    ],
)
def test_one_rule_too_many_is_refused_and_nothing_is_spent(
    more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = draw_persons(200)
    real.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "schema.toml").write_text(persons_schema(real) + f'\n[[zeros]]\nwhen = "{more}"\n')
    words = ["synth", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.toml"), "--epsilon", "1"]
    words += ["--delta", "1e-5", "--ledger", str(tmp_path / "ledger.db"), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "hint" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "schema.toml"]
