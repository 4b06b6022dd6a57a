"""How a hierarchical run shares out its budget: exactly, over levels and queries, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from populace.core.errors import PopulaceError, UsageError
from populace.core.marginals import Domain
from populace.methods.topdown.level_budget import LevelBudget, UnitQuery
from populace.methods.workload import Workload
from populace.schema.geocodes import Geography
from populace.schema.schema import Schema

GEOGRAPHY = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
NAMES = GEOGRAPHY.spine.levels
DOMAIN = Domain({"geocode": 3, "sex": 2, "age": 10})
SCHEMA = """
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1"]
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.age]
kind = "integer"
min = 0
max = 9
other = "0"
"""


def read(text: str, *, schema: str = SCHEMA) -> LevelBudget:
    found = Workload.parse(text, schema=Schema.parse(schema)).levels
    assert found is not None
    return found


shares = st.builds(Fraction, st.integers(0, 1000), st.integers(1, 997))
some_levels = st.lists(st.sampled_from(NAMES), unique=True, max_size=2).map(tuple)
queries = st.builds(
    UnitQuery,
    clique=st.sampled_from([(), ("sex",), ("age",), ("sex", "age")]),
    share=shares,
    levels=some_levels,
)


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, shares)),
    st.lists(queries, max_size=6),
    st.sets(st.integers(0, 2)),
)
def test_shares_are_positive_and_add_up_to_one_exactly(levels, others, exact) -> None:
    detailed = UnitQuery(clique=("sex", "age"), share=Fraction(1))
    budget = LevelBudget(levels={**levels, "tract": levels["tract"] + 1}, queries=(*others, detailed))
    budget.check(DOMAIN, GEOGRAPHY)
    asked = budget.allocate(GEOGRAPHY, exact=sorted(exact))
    assert sum(each.share for each in asked) == 1
    assert all(each.share > 0 for each in asked)
    # Totals that are known exactly, at a level or below it, are not measured.
    assert all(each.query.clique or each.level > max(exact, default=-1) for each in asked)
    assert any(each.level == 2 and each.query.clique == ("sex", "age") for each in asked)


def test_the_default_shares_all_levels_alike() -> None:
    asked = LevelBudget.default(DOMAIN, GEOGRAPHY).allocate(GEOGRAPHY)
    by_level = [[each for each in asked if each.level == level] for level in range(3)]
    assert [sum(each.share for each in found) for found in by_level] == [Fraction(1, 3)] * 3
    for found in by_level:
        assert [(str(each.query), each.share * 3) for each in found] == [
            ("total", Fraction(1, 10)),
            ("sex", Fraction(1, 5)),
            ("age", Fraction(1, 5)),
            ("sex × age", Fraction(1, 2)),
        ]


def test_one_column_is_measured_once() -> None:
    asked = LevelBudget.default(Domain({"geocode": 3, "sex": 2}), GEOGRAPHY).allocate(GEOGRAPHY)
    assert [each.query.clique for each in asked if each.level == 2] == [(), ("sex",)]


@pytest.mark.parametrize(("exact", "totals"), [((), [0, 1, 2]), ((0,), [1, 2]), ((1,), [2]), ((0, 2), [])])
def test_invariants_leave_out_totals_at_their_level_and_above(exact, totals) -> None:
    asked = LevelBudget.default(DOMAIN, GEOGRAPHY).allocate(GEOGRAPHY, exact=exact)
    assert [each.level for each in asked if not each.query.clique] == totals
    assert sum(each.share for each in asked) == 1
    # What a level saves goes to its other queries.
    assert sum(each.share for each in asked if each.level == 0) == Fraction(1, 3)


def test_a_level_that_only_measured_its_total_gives_its_share_to_the_others() -> None:
    budget = LevelBudget(
        levels=dict.fromkeys(NAMES, Fraction(1)),
        queries=(
            UnitQuery(clique=(), levels=("all",)),
            UnitQuery(clique=("sex", "age"), levels=("county", "tract")),
        ),
    )
    assert [each.level for each in budget.allocate(GEOGRAPHY, exact=(0,))] == [1, 2]


def test_a_file_names_levels_queries_and_shares() -> None:
    budget = read(
        "[levels]\nall = 1\ncounty = 0\ntract = 3\n"
        '[[queries]]\ncolumns = []\nshare = 0.25\nlevels = ["tract"]\n'
        '[[queries]]\ncolumns = ["age", "sex"]\nshare = 0.75\n'
        '[[queries]]\ncolumns = ["age"]\nshare = 0.25\nlevels = ["all"]\ncoarse = { age = ["0..4", "5.."] }\n'
    )
    asked = budget.allocate(GEOGRAPHY)
    assert [(each.level, each.query.clique, each.share) for each in asked] == [
        (0, ("sex", "age"), Fraction(3, 16)),
        (0, ("age",), Fraction(1, 16)),
        (2, (), Fraction(3, 16)),
        (2, ("sex", "age"), Fraction(9, 16)),
    ]
    assert asked[1].query.groupings[0].groups == (0,) * 5 + (1,) * 5


def test_what_a_file_leaves_out_is_as_without_one() -> None:
    usual = LevelBudget.default(DOMAIN, GEOGRAPHY)
    assert read("[levels]\nall = 1\ntract = 1\n").queries == usual.queries
    assert dict(read('[[queries]]\ncolumns = ["sex", "age"]\n').levels) == dict(usual.levels)


def test_digests_tell_budgets_apart() -> None:
    texts = [
        "[levels]\nall = 1\ntract = 1\n",
        "[levels]\nall = 2\ntract = 1\n",
        '[[queries]]\ncolumns = ["sex", "age"]\n',
        '[[queries]]\ncolumns = ["sex", "age"]\n[[queries]]\ncolumns = ["sex"]\n',
        '[[queries]]\ncolumns = ["sex", "age"]\n[[queries]]\ncolumns = ["sex"]\nshare = 2\n',
        '[[queries]]\ncolumns = ["sex", "age"]\n[[queries]]\ncolumns = ["sex"]\nlevels = ["all"]\n',
        '[[queries]]\ncolumns = ["sex", "age"]\n[[queries]]\ncolumns = ["age"]\ncoarse = { age = ["0..4", "5.."] }\n',
    ]
    schema = Schema.parse(SCHEMA)
    assert len({Workload.parse(text, schema=schema).digest for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[levels]\ncontry = 1\ntract = 1\n", "level 'contry'"),
        ("[levels]\nall = 1\n", "does not measure all columns together at the level 'tract'"),
        ("[levels]\nall = 1\ntract = 0\n", "does not measure all columns together at the level 'tract'"),
        ("[levels]\ntract = -1\n", "no number of 0 or more"),
        ('[levels]\ntract = "much"\n', "."),
        ('[[queries]]\ncolumns = ["sex"]\n', "does not measure all columns together"),
        ('[[queries]]\ncolumns = ["sex", "age"]\nshare = 0\n', "does not measure all columns together"),
        ('[[queries]]\ncolumns = ["sex", "age"]\nlevels = ["county"]\n', "all columns together"),
        (
            '[[queries]]\ncolumns = ["sex", "age"]\ncoarse = { age = ["0..4", "5.."] }\n',
            "all columns together",
        ),
        ('[[queries]]\ncolumns = ["sex", "aeg"]\n', "'aeg'"),
        ('[[queries]]\ncolumns = ["sex", "county"]\n', "'county'"),
        ('[[queries]]\ncolumns = ["sex", "age", "geocode"]\n', "'geocode'"),
        ('[[queries]]\ncolumns = ["sex", "age"]\nlevels = ["tarct"]\n', "'tarct'"),
        ('[[queries]]\ncolumns = ["sex", "age"]\nweight = 2\n', "weight"),
        ('[[queries]]\ncolumns = ["sex", "age"]\nshare = -1\n', "no number of 0 or more"),
        ('[[queries]]\ncolumns = ["sex"]\ncoarse = { age = ["0..4", "5.."] }\n', "none of its columns"),
        ('[levels]\ntract = 1\n[[marginals]]\ncolumns = ["sex"]\n', "marginals"),
    ],
)
def test_budgets_that_do_not_work_are_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(PopulaceError, match=said) as refused:
        read(text)
    assert refused.value.hint


def test_a_level_whose_queries_have_no_share_is_not_measured() -> None:
    budget = read(
        '[[queries]]\ncolumns = ["sex"]\nshare = 0\nlevels = ["all"]\n'
        '[[queries]]\ncolumns = ["sex", "age"]\nlevels = ["county", "tract"]\n'
    )
    asked = budget.allocate(GEOGRAPHY)
    assert [each.level for each in asked] == [1, 2]
    assert sum(each.share for each in asked) == 1


def test_a_budget_by_levels_needs_a_geography() -> None:
    plain = SCHEMA[SCHEMA.index("[columns.sex]") :]
    with pytest.raises(UsageError, match=r"no \[geography\]") as refused:
        read("[levels]\ntract = 1\n", schema=plain)
    assert refused.value.hint
