"""Findings in real and synthetic rows, and how likely they survive a simulated release."""

from __future__ import annotations

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ReleaseError
from populace.evaluation.claims.findings import compare_findings
from populace.evaluation.claims.survival import simulate_survival
from populace.survey.claims.claims import Claims
from tests.helpers.small_claims import CLAIMS, SCHEMA, make_rows

REAL = pa.table(
    {"sex": ["f", "m"] * 4, "age": [20, 30] * 4, "work": ["employed"] * 8, "income": ["100", "300"] * 4}
)
OTHER = pa.table(
    {"sex": ["f", "m"] * 4, "age": [20, 30] * 4, "work": ["employed"] * 8, "income": ["310", "300"] * 4}
)


def test_findings_survive_or_do_not() -> None:
    claims = Claims.parse(
        """
        [[claims]]
        name = "gap"
        claim = "mean(income | sex == 'f') < mean(income | sex == 'm')"
        [[claims]]
        name = "work"
        claim = "largest(work) == 'employed'"
        [[claims]]
        name = "near"
        claim = "mean(income | sex == 'm')"
        within = "5 %"
        [[claims]]
        name = "far"
        claim = "mean(income)"
        within = "5 %"
        [[claims]]
        name = "rows"
        claim = "count()"
        within = "1 %"
        [[claims]]
        name = "nobody"
        claim = "mean(income | age > 90) > 3"
        """,
        schema=SCHEMA,
    )
    whole = compare_findings(REAL, pa.concat_tables([OTHER] * 2), schema=SCHEMA, claims=claims)
    found = {each.name: each for each in whole.findings}
    assert whole.to_json()["marking"].startswith("INTERNAL")
    assert {name: each.survives for name, each in found.items()} == {
        "gap": False,
        "work": True,
        "near": True,
        "far": False,
        "rows": True,
        "nobody": None,
    }
    assert (found["gap"].real, found["gap"].synthetic) == (200.0, -10.0)
    assert found["far"].to_json()["real"] == 200.0


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> pp.Release:
    folder = tmp_path_factory.mktemp("survival")
    asked = {"schema": SCHEMA, "epsilon": 2, "delta": "1e-9", "method": "mst", "ledger": folder / "l.db"}
    return pp.synthesize(make_rows(2000), **asked)


def test_clear_claims_survive_and_coin_flips_do_not(release: pp.Release) -> None:
    claims = Claims.parse(
        CLAIMS.replace("-0.9", "0.97")
        + "[[claims]]\nname = 'close'\nclaim = 'count(age < 50)'\nwithin = '0.01 %'",
        schema=SCHEMA,
    )
    found = {each.name: each for each in simulate_survival(release, claims, runs=6)}
    assert (
        found["old workers"].probability == found["gap"].probability == found["together"].probability == 1.0
    )
    close = found["close"].to_json()
    assert close["survival_probability"] < 1
    assert close["interval"][0] <= close["survival_probability"] <= close["interval"][1]
    again = simulate_survival(release, claims, runs=6)
    assert [each.to_json() for each in again] == [each.to_json() for each in found.values()]


def test_releases_that_cannot_be_simulated_are_refused(tmp_path) -> None:
    asked = {"schema": SCHEMA, "epsilon": 2, "delta": "1e-9", "ledger": tmp_path / "l.db"}
    some = pp.synthesize(make_rows(500), where="age >= 50", method="independent", **asked)
    with pytest.raises(ReleaseError, match="cannot be simulated"):
        simulate_survival(some, Claims.parse("[[claims]]\nclaim = 'count() > 3'", schema=SCHEMA))
