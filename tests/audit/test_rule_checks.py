"""Counts of broken rules: their sensitivity by brute force, their noise on both sides, and replay on neighbours."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.api.rule_measurement import measure_rules, rule_check_noise
from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.core.table_address import PushDown
from populace.methods.fit_measurements import fit
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.rule_table import rule_table
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours
from tests.audit.replay import check_sensitivities
from tests.audit.test_noise_scale import FACTORS, Scaled, within
from tests.audit.test_replay_under_rules import RULED
from tests.audit.tiny_tables import neighbour_pairs, run_twin
from tests.audit.transcripts import Workspace

SCHEMA = """
[table]
unit = "person"
id = "id"
rows_per_unit = {rows}
neighbours = "{relation}"
[columns.a]
kind = "categorical"
values = ["0", "1"]
other = "0"
[columns.b]
kind = "categorical"
values = ["x", "y"]
universe = "a == '1'"
outside = "N"
other = "x"
[[zeros]]
when = "a == '0' and b == 'y'"
"""
CELLS = list(product("01", ("x", "y", "N")))


def counts(schema: Schema, rows: list[tuple[str, str, str]]) -> list[np.ndarray]:
    frame = pa.table({name: [row[place] for row in rows] for place, name in enumerate(("id", "a", "b"))})
    frame = frame.cast(pa.schema([(name, pa.string()) for name in frame.column_names]))
    table = rule_table(frame, schema=schema)
    return list(table.engine().counts([Marginal((text,)) for text in table.schema.columns]))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_unit_moves_all_rules_as_far_as_is_booked_and_no_further(rows: int, relation: str) -> None:
    schema = Schema.parse(SCHEMA.format(rows=rows, relation=relation))
    unit, others = schema.unit, [("z", "1", "x"), ("y", "0", "N")]
    units = [[("p", *cell) for cell in chosen] for chosen in product(CELLS, repeat=rows)]
    tables = [counts(schema, [*others, *one]) for one in units]
    around = tables if unit.neighbours is Neighbours.REPLACE_ONE else [counts(schema, others)]
    l1 = l2 = 0
    for one, other in product(tables, around):
        moved = [np.abs(first - second) for first, second in zip(one, other, strict=True)]
        assert max(int(part.sum()) for part in moved) <= unit.marginal_l1
        assert max(int((part**2).sum()) for part in moved) <= unit.marginal_l2_squared
        l1 = max(l1, sum(int(part.sum()) for part in moved))
        l2 = max(l2, sum(int((part**2).sum()) for part in moved))
    rules = 2
    assert l1 == rules * unit.marginal_l1, "one unit can break every rule"
    assert l2 == rules * unit.marginal_l2_squared


def open_rules(noise: object, *, rules: int) -> tuple[Barrier, Schema, Workspace]:
    zeros = "".join(f"[[zeros]]\nwhen = \"a == '1' and c == '{number}'\"\n" for number in range(rules))
    values = [str(number) for number in range(rules + 1)]
    listed = '[columns.{}]\nkind = "categorical"\nvalues = {}\n'
    text = listed.format("a", ["0", "1"]) + listed.format("c", values)
    schema = Schema.parse(text.replace("'", '"') + zeros)
    frame = pa.table({"a": pa.array([], pa.string()), "c": pa.array([], pa.string())})
    run = Workspace().reserve(
        "empty",
        epsilon=Fraction(1000),
        delta=Fraction("1e-2"),
        unit=schema.unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
    )
    return Barrier(rule_table(frame, schema=schema), run=run, noise=noise), schema, run


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_noise_of_rules_is_what_is_booked(factor: Fraction, fits: bool) -> None:
    """400 rules of two counts each; false alarms below 1e-8."""
    rules = 400
    barrier, schema, run = open_rules(Scaled(factor, seed=4), rules=rules)
    expected = rule_check_noise(barrier.budget, rules=rules)
    found = measure_rules(barrier, schema=schema)
    (charged,) = run.record().spends
    assert (charged.spend.answers, charged.spend.mechanism) == (rules, expected)
    assert isinstance(expected, DiscreteGaussian)
    assert within([list(check.counts.values()) for check in found], expected) is fits


def test_rules_take_a_twentieth_and_leave_the_rest() -> None:
    barrier, schema, run = open_rules(ExactNoise(RehearsalEntropy(1)), rules=3)
    measure_rules(barrier, schema=schema)
    record = run.record()
    assert 0.0499 < record.used / record.cap <= 0.05


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_neighbours_agree_with_frozen_answers(step: int) -> None:
    """Free and paid warnings, the statement and the record are equal byte by byte on neighbours."""
    for number, pair in enumerate(neighbour_pairs(24, seed=9)[::step]):
        twin = run_twin(pair, method="independent", ledgers=None, seed=number, text=RULED, check_rules=True)
        first, second = twin.first, twin.second
        check_sensitivities(twin.first_transcript, twin.second_transcript, record=first.record)
        same = replace(second, record=first.record)
        assert second.record.spends == first.record.spends
        assert len(first.rule_checks) == 3
        assert same.digest == first.digest
        releases = [release_from(each, fit(each), rows=200, seed=1) for each in (first, same)]
        assert releases[0].statement == releases[1].statement
        assert releases[0].table.equals(releases[1].table)


def test_a_schema_without_rules_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(UsageError, match="no rules"):
        rule_table(pa.table({"a": [0]}), schema=Schema.from_sizes({"a": 2}))


def test_the_plan_prices_it() -> None:
    """A run that checks rules plans with the rest of its budget, and says what the check takes."""
    from populace.planning.plan import plan

    found = plan(
        Schema.parse(RULED), population=500, epsilon=1, delta="1e-6", method="independent", check_rules=True
    )
    assert found.budget["rows that break rules"] == pytest.approx(0.05)
    assert sum(found.budget.values()) == pytest.approx(1, abs=0.01)


def test_counts_of_rules_are_booked_for_all_rows_of_a_unit(tmp_path) -> None:
    schema = Schema.parse(SCHEMA.format(rows=3, relation="add-remove"))
    frame = pa.table({"id": ["p", "q"], "a": ["0", "1"], "b": ["N", "x"]})
    measured = measure(
        frame, schema=schema, epsilon=5, delta="1e-6", ledger=tmp_path / "l.db", dataset="t", check_rules=True
    )
    assert {(spend.spend.l1, spend.spend.l2_squared) for spend in measured.record.spends[:1]} == {(3, 9)}


def test_rules_of_rows_that_stay_where_they_are_are_refused_before_anything_is_booked(tmp_path) -> None:
    schema = Schema.parse(SCHEMA.format(rows=3, relation="add-remove"))
    with pytest.raises(UsageError, match="rules are checked here"):
        measure(
            PushDown("spark:people"),
            schema=schema,
            epsilon=5,
            delta="1e-6",
            ledger=tmp_path / "l.db",
            check_rules=True,
        )
    assert not (tmp_path / "l.db").exists()
