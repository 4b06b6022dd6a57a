"""A million rows of the stress table, by `auto` at two budgets: no rule broken, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from populace.cli.main import main
from tests.helpers.forty_rules import draw_persons, strangers, violations
from tests.helpers.forty_rules_schema import persons_schema


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["1", "10"])
def test_a_million_rows_keep_forty_rules(epsilon: str, tmp_path: Path) -> None:
    real = draw_persons(20_000)
    real.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "schema.toml").write_text(persons_schema(real))
    words = [
        "synth",
        str(tmp_path / "rows.csv"),
        "--schema",
        str(tmp_path / "schema.toml"),
        "--epsilon",
        epsilon,
    ]
    words += ["--delta", "1e-5", "--rows", "1000000", "--no-report"]
    words += ["--ledger", str(tmp_path / "ledger.db"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    table = pd.read_csv(tmp_path / "out" / "synthetic.csv", dtype=str, keep_default_na=False)
    assert len(table) == 1_000_000
    assert {rule: count for rule, count in violations(table).items() if count} == {}
    assert {name: count for name, count in strangers(table, real).items() if count} == {}
    assert table.district.value_counts().to_dict() == (50 * real.district.value_counts()).to_dict()
