"""Estimates that cannot be answered are refused before the first question, and nothing is reserved for them."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from populace.api.estimate import estimate
from populace.core.errors import ResourceError, UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.sensitivity.poststratification import Binning
from populace.private import capacity as room
from populace.private.dry_run import EmptyTableOracle
from populace.schema.schema import Schema
from populace.survey.calibration.calibrated_counts import answer_count_plan
from populace.survey.calibration.count_plan import (
    Calibration,
    CountMethod,
    CountPlan,
)
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_result import Estimand
from populace.survey.queries.queries import Queries
from populace.survey.smooth_questions import BinChoice
from populace.survey.survey_oracle import SurveyOracle
from tests.helpers.survey_oracle import estimate_counts

SCHEMA = """
{table}
[columns.AGE]
kind = "integer"
min = 0
max = 3
[columns.PAY]
kind = "integer"
min = 0
max = 100
missing = ["R"]
"""
MEAN = '[[query]]\nname = "m"\nstatistic = "mean"\ncolumn = "PAY"\n'
FILLED = '[design]\n[missing.PAY]\nhow = "impute"\nmatch = ["AGE"]\nk = {k}\ntake = "mean"\n'
ROWS = pa.table({"AGE": ["0", "1", "3"] * 9, "PAY": ["R", "7", "99"] * 9})


def asked(tmp_path, design, *, table="", epsilon=10, queries=MEAN):
    schema = Schema.parse(SCHEMA.format(table=table))
    return estimate(
        ROWS,
        schema=schema,
        design=Design.parse(design, schema=schema),
        queries=Queries.parse(queries, schema=schema),
        epsilon=epsilon,
        ledger=tmp_path / "ledger.db",
    )


def test_donors_that_the_barrier_refuses_reserve_nothing(tmp_path):
    with pytest.raises(UsageError, match="of 13 donors cannot be taken"):
        asked(tmp_path, FILLED.format(k=13))
    assert not (tmp_path / "ledger.db").exists()


def test_answers_that_would_not_be_filled_reserve_nothing(tmp_path):
    rich = '[[query]]\nname = "rich"\nstatistic = "count"\nwhere = "PAY >= 10"\n'
    with pytest.raises(UsageError, match="query 'rich': k, take and ties of 'PAY' go with means"):
        asked(tmp_path, FILLED.format(k=1), queries=MEAN + rich)
    assert not (tmp_path / "ledger.db").exists()


def test_numbers_that_do_not_fit_reserve_nothing(tmp_path, monkeypatch):
    """Codes of a row take two bytes, its two numbers sixteen."""
    schema = Schema.parse(SCHEMA.format(table=""))
    monkeypatch.setattr(room, "memory_limit", lambda: room._fixed_bytes(schema) + 10 * 10**6)
    asked(tmp_path, "[design]", table="[table]\nmax_rows = 500000", epsilon=1)
    with pytest.raises(ResourceError, match="GiB"):
        asked(tmp_path, "[design]", table="[table]\nmax_rows = 1000000", epsilon=1)


class Silent:
    """An oracle that must not be asked."""

    schema = Schema.from_sizes({"SEX": 2, "AGE": 10})

    def __init__(self, epsilon):
        self.budget = Budget.of(Fraction(epsilon), Fraction(0), unit=self.schema.unit)

    def __getattr__(self, name):
        pytest.fail(f"{name} was asked")


def many(oracle: SurveyOracle, *, counts=200, method=None, people=10**6):
    totals = ControlTotals(by=Marginal(("SEX",)), populations=(Fraction(people, 2),) * 2, binnings=())
    return estimate_counts(
        oracle,
        [Estimand(query=str(number), where=f"AGE == {number % 10}") for number in range(counts)],
        calibration=Calibration(controls=(totals,), method=method),
    )


@pytest.mark.parametrize("epsilon", ["1/200", "1/100", "1/10000000"])
def test_counts_whose_noise_cannot_be_drawn_are_refused_before_the_table(epsilon):
    with pytest.raises(UsageError, match="too small for 200 counts"):
        many(Silent(epsilon))


def test_counts_without_an_epsilon_for_smooth_noise_are_refused_before_the_table():
    with pytest.raises(UsageError, match="too small for noise that follows"):
        many(Silent(1), method=CountMethod.SMOOTH)
    with pytest.raises(UsageError, match="totals are too large"):
        many(Silent(10), counts=2, people=2**60)


def test_what_can_be_asked_passes_the_empty_table():
    totals = ControlTotals(by=Marginal(("SEX",)), populations=(Fraction(500_000),) * 2, binnings=())
    plan = CountPlan(
        counts=tuple(Estimand(query=str(number), where=f"AGE == {number % 10}") for number in range(200)),
        calibration=Calibration(controls=(totals,)),
        schema=Silent.schema,
        budget=Silent(10).budget,
    )
    assert len(answer_count_plan(EmptyTableOracle(schema=Silent.schema), plan=plan)) == 200


def test_the_empty_table_refuses_what_the_barrier_refuses():
    """The same checks, not other ones that say the same: here of populations and of columns."""
    empty, budget = EmptyTableOracle(schema=Silent.schema), Silent(10).budget
    whole = Binning(name="whole", bins=((0, 1),))
    for by, population in (("SEX", Fraction(1, 10**18)), ("NONE", Fraction(1))):
        choice = BinChoice(by=Marginal((by,)), binnings=(whole,), populations=(population,) * 2)
        with pytest.raises(UsageError):
            empty.choose_bins(choice, mechanism=budget.choice(Fraction(1), choices=1))
