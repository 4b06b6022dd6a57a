"""Advice of a plan: the fewest columns to coarsen and to drop, under the terms of the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import pytest

from populace.methods.workload import Workload
from populace.planning.plan import plan
from populace.planning.reduced_schema import (
    describe_coarsening,
    reduce_schema,
    restrict_workload,
)
from populace.planning.simulated.simulated_run import close_domains
from populace.planning.verdict import VERDICT, Advice, PlanOutcome, Verdict, advise
from populace.schema.schema import Schema

SIZES = Schema.from_sizes({"sex": 2, "age": 40, "work": 5, "area": 12})
HOUSEHOLDS = """
[table]
unit = "household"
rows_per_unit = {rows}
id = "hid"
[columns.a]
kind = "integer"
min = 0
max = 60
[columns.b]
kind = "integer"
min = 0
max = 20
[columns.c]
kind = "integer"
min = 0
max = 5
"""
WAGES = Schema.parse("""
[columns.wage]
kind = "integer"
min = 0
max = 4999
split = 100
universe = "age >= 15"
outside = "N"
[columns.age]
kind = "integer"
min = 0
max = 99
[columns.town]
kind = "categorical"
values = "learn"
[columns.grown]
kind = "categorical"
values = ["0", "1"]
[[zeros]]
when = "age < 18 and grown == '1'"
""")


def weighed(coarse: Mapping[str, int], drop: Sequence[str], *, sizes: Mapping[str, int]) -> PlanOutcome:
    """Return an error that grows with the codes in all."""
    codes = sum(coarse.get(name, size) for name, size in sizes.items() if name not in drop)
    return PlanOutcome(error=codes / 1000, relative_pair_error=0.5)


class TestSteps:
    sizes: ClassVar = {"a": 100, "b": 50, "c": 40, "d": 3}
    errors: ClassVar = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.01}

    def advice(self, *, limit: float) -> Advice:
        """Return the advice where an error of so much is just too large."""
        scale = VERDICT.max_error_few / limit

        def predict(coarse: Mapping[str, int], drop: Sequence[str]) -> PlanOutcome:
            found = weighed(coarse, drop, sizes=self.sizes)
            return PlanOutcome(error=found.error * scale, relative_pair_error=0.5)

        return advise(self.sizes, self.errors, now=predict({}, ()), predict=predict)

    def test_the_fewest_columns_are_coarsened_and_no_more_than_they_must(self) -> None:
        found = self.advice(limit=0.13)
        assert (found.coarsen, found.drop, found.suffices) == ({"a": 32}, (), True)
        found = self.advice(limit=0.06)
        assert (found.coarsen, found.drop, found.suffices) == (dict.fromkeys("abc", 16), (), True)
        assert found.error_coarsened == found.after.error

    def test_the_fewest_are_dropped_and_none_of_them_coarsened(self) -> None:
        found = self.advice(limit=0.02)
        assert (list(found.coarsen), found.drop, found.suffices) == (["b", "c"], ("a",), True)
        assert found.after.error == pytest.approx(0.019 * VERDICT.max_error_few / 0.02)

    def test_steps_that_make_it_worse_are_not_advised(self) -> None:
        sizes = {"a": 100, "b": 50, "c": 3}
        found = advise(
            sizes,
            dict.fromkeys(sizes, 0.3),
            now=PlanOutcome(error=0.3, relative_pair_error=2.0),
            predict=lambda c, d: PlanOutcome(error=0.3 + len(c) + len(d), relative_pair_error=2.0),
        )
        assert (found.coarsen, found.drop, found.suffices) == ({}, (), False)
        assert found.after.verdict is Verdict.TOO_FEW

    def test_columns_that_cannot_be_coarser_are_dropped(self) -> None:
        found = advise(
            self.sizes,
            self.errors,
            now=weighed({}, (), sizes=self.sizes),
            predict=lambda coarse, drop: weighed(coarse, drop, sizes=self.sizes),
            fixed={"a"},
        )
        assert "a" not in found.coarsen
        assert found.drop == ("a",)
        assert found.suffices

    def test_pairs_that_are_worth_less_than_exact_columns_count_as_too_few_rows(self) -> None:
        assert PlanOutcome(error=0.025, relative_pair_error=1.4).verdict is Verdict.TOO_FEW
        assert PlanOutcome(error=0.025, relative_pair_error=0.9).verdict is Verdict.FEW
        assert PlanOutcome(error=0.015, relative_pair_error=1.4).verdict is Verdict.ENOUGH


class TestHow:
    @pytest.mark.parametrize(
        ("table", "change"),
        [
            ('kind = "numeric"\nmin = 0\nmax = 1000\nbins = "learn"', 'in place of bins = "learn"; inside'),
            ('kind = "date"\nmin = 1950-01-01\nmax = 2019-12-31', 'width = "25 years", or edges'),
            ('kind = "integer"\nmin = 0\nmax = 99', "width = 15, or edges"),
            ('kind = "numeric"\nmin = 0\nmax = 70\nwidth = 1', "width = 10, or edges"),
        ],
        ids=lambda each: each.split("\n")[0],
    )
    def test_advice_is_in_the_words_of_the_schema(self, table: str, change: str) -> None:
        assert change in describe_coarsening(Schema.parse(f"[columns.x]\n{table}").columns["x"], codes=8)

    @pytest.mark.parametrize("codes", [8, 16, 32])
    def test_what_it_says_leaves_so_many_codes(self, codes: int) -> None:
        for table in (
            'kind = "date"\nmin = 1950-03-01\nmax = 2019-12-31\n',
            'kind = "integer"\nmin = 0\nmax = 99\n',
            'kind = "numeric"\nmin = 0\nmax = 70\ndecimals = 2\n',
        ):
            column = Schema.parse(f"[columns.x]\n{table}" + ("width = 1" if "numeric" in table else ""))
            width = describe_coarsening(column.columns["x"], codes=codes).split(", or")[0]
            assert Schema.parse(f"[columns.x]\n{table}{width}").columns["x"].size <= codes


class TestTerms:
    @pytest.mark.slow
    def test_units_of_many_rows_get_other_advice(self) -> None:
        """Ten rows a household mean ten times the noise: what suffices for one row does not for ten."""
        one, ten = (
            plan(Schema.parse(HOUSEHOLDS.format(rows=rows)), population=6000, epsilon="0.3", delta="1e-9")
            for rows in (1, 10)
        )
        assert one.advice is not None
        assert ten.advice is not None
        assert one.advice.suffices
        assert not ten.advice.suffices
        assert ten.advice.after.error > VERDICT.max_error_few

    @pytest.mark.slow
    def test_advice_can_be_followed(self) -> None:
        """Coarsen what is named, and a plan for the columns that are left has the verdict that was promised."""
        before = plan(SIZES, population=3000, epsilon="0.5", delta="1e-9")
        assert before.advice is not None
        assert before.advice.suffices
        changed = reduce_schema(SIZES, coarse=before.advice.coarsen, drop=before.advice.drop)
        after = plan(changed, population=3000, epsilon="0.5", delta="1e-9")
        assert after.columns.mean == pytest.approx(before.advice.after.error)
        assert after.verdict is before.advice.after.verdict is not before.verdict

    @pytest.mark.slow
    def test_parts_of_columns_are_not_named(self) -> None:
        found = plan(WAGES, population=1000, epsilon="0.5", delta="1e-9")
        assert found.advice is not None
        named = {*found.advice.coarsen, *found.advice.drop}
        assert "wage" in named
        assert "town" not in found.advice.coarsen, "nobody knows its values, so nobody can list fewer"
        assert named <= WAGES.columns.keys()


class TestSmaller:
    def test_what_is_left_keeps_its_unit_and_its_rules(self) -> None:
        schema = Schema.parse(HOUSEHOLDS.format(rows=10))
        assert reduce_schema(schema, coarse={"a": 8}, drop=["c"]).unit == schema.unit
        ruled = reduce_schema(WAGES, coarse={"wage": 8}, drop=[])
        assert ruled.zeros == WAGES.zeros
        assert ruled.columns["wage"].size == 8

    def test_groups_and_areas_lose_the_columns_that_go(self) -> None:
        sizes = Schema.from_sizes(dict.fromkeys("abcd", 4))
        schema = replace(
            sizes, groups=(("a", "b"), ("c",)), partition=("d",), partition_least=5, partition_step=2
        )
        found = reduce_schema(schema, coarse={"a": 2}, drop=["b", "c", "d"])
        assert (found.groups, found.partition) == ((("a",),), ())
        assert (found.partition_least, found.partition_step) == (None, None)
        assert reduce_schema(schema, coarse={}, drop=["b"]).partition_least == 5

    def test_rules_about_columns_that_go_go_with_them(self) -> None:
        found = reduce_schema(WAGES, coarse={}, drop=["age"])
        assert (found.zeros, found.columns["wage"].universe) == ((), None)
        assert found.columns["wage"].size == WAGES.columns["wage"].size

    def test_coarse_columns_need_not_be_learnt(self) -> None:
        assert WAGES.columns_to_learn == ("town",)
        assert reduce_schema(WAGES, coarse={"town": 8}, drop=[]).columns_to_learn == ()
        assert reduce_schema(WAGES, coarse={"age": 8}, drop=[]).columns_to_learn == ("town",)

    def test_a_workload_of_ones_own_keeps_what_can_still_be_asked(self) -> None:
        whole = close_domains(WAGES)
        cliques = {("wage // 100", "wage % 100"): 1, ("wage // 100", "age"): 2, ("age", "town"): 1}
        asked = Workload(weights={clique: Fraction(weight) for clique, weight in cliques.items()})
        part = close_domains(reduce_schema(WAGES, coarse={"wage": 8}, drop=["town"]))
        assert dict(restrict_workload(asked, whole=whole, part=part).weights) == {("wage", "age"): 2}
        assert set(whole.layout.owners.values()) == {"wage", "age", "town", "grown"}
