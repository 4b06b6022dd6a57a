"""What is asked of linked tables in a geography, what it costs, and the model that is made of the answers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import tabulate
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.measurements.measurements import Measurement
from populace.methods.method import FitInput
from populace.methods.request_checks import check_method
from populace.methods.topdown.counts_model import read_unit_counts
from populace.methods.topdown.linked_topdown import fit_linked, list_linked_questions
from populace.methods.topdown.topdown import TOPDOWN, fit_topdown
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.geocodes import GEOCODE
from populace.schema.linked.table_cells import MemberCells
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours
from tests.helpers.linked_files import placed_schema
from tests.helpers.planted_faults import seeded

TINY = """
[table]
unit = "household"
{neighbours}
[geography]
levels = ["county"]
units = ["A", "B"]
[tables.household]
key = "home"
[tables.household.columns.tenure]
kind = "categorical"
values = ["owned", "rented"]
other = "rented"
[tables.person]
of = "household"
key = "home"
max_rows = 3
[tables.person.columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
"""
AGES = "".join(
    f'[tables.person.columns.age{n}]\nkind = "integer"\nmin = 0\nmax = 199\nother = "0"\n' for n in range(3)
)


def every_row(schema: Schema) -> list[dict[str, int]]:
    """Every wide row that keeps the rules, in every unit."""
    found = []
    for sizes in product(*(range(size) for size in schema.domain.values())):
        row = dict(zip(schema.domain, sizes, strict=True))
        classes = schema.rules.classes
        if all(
            rule.allowed[tuple(classes[name].lookup[row[name]] for name in rule.clique)]
            for rule in schema.rules.rules
        ):
            found.append(row)
    return found


def ask(schema: Schema, workload: Workload | None = None):
    return list_linked_questions(schema, workload or Workload.choose_default(schema))


@pytest.mark.parametrize("exact", [[], ["county"]])
def test_shares_add_up_to_the_budget(exact: list[str]) -> None:
    asked = ask(placed_schema(exact=exact))
    assert sum(each.share for each in asked) == 1
    assert [each.level for each in asked] == sorted(each.level for each in asked)


@pytest.mark.parametrize("neighbours", ["", 'neighbours = "replace-one"'])
@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_no_household_costs_more_than_the_budget(neighbours: str, delta: str) -> None:
    """Brute force: every household that can come, go or be replaced, against all questions with their noise."""
    schema = Schema.parse(TINY.format(neighbours=neighbours))
    budget = Budget.of(Fraction(1), Fraction(delta), unit=schema.unit)
    rows, asked = every_row(schema), ask(schema)
    assert len(rows) == 2 * 2 * (1 + 2 + 4 + 8)
    columns = {name: np.array([row[name] for row in rows]) for name in schema.domain}
    cost, cap = np.zeros((len(rows), len(rows))), float(budget.cap)
    for each in asked:
        noise = budget.measure_noise(each.share, marginals=len(each.marginals))
        for marginal in each.marginals:
            moved = np.stack(
                [
                    tabulate(
                        marginal,
                        codes={name: column[[place]] for name, column in columns.items()},
                        domain=schema.domain,
                    ).ravel()
                    for place in range(len(rows))
                ]
            )
            if schema.unit.neighbours is Neighbours.ADD_REMOVE:
                change = np.abs(moved)[:, None]
            else:
                change = np.abs(moved[:, None] - moved[None, :])
            if delta == "0":
                cost = cost + change.sum(axis=2) / float(noise.scale)
            else:
                # Gaussian differential privacy: squared L2 over the variance.
                cost = cost + (change**2).sum(axis=2) / float(noise.variance)
    most = cost.max()
    spent = most if delta == "0" else np.sqrt(most)
    told = cap if delta == "0" else np.sqrt(cap)
    # Neither more than was paid for, nor so much less that noise is wasted: households that differ in every answer.
    assert spent <= told * (1 + 1e-9)
    assert spent >= 0.98 * told


def test_persons_of_one_household_move_their_table_by_as_many() -> None:
    """The table of persons is priced as one of sensitivity `max_rows`: the sum over places has that noise."""
    schema = Schema.parse(TINY.format(neighbours=""))
    budget, cells = Budget.of(Fraction(1), Fraction("1e-6"), unit=schema.unit), MemberCells.of(schema)
    rows = every_row(schema)
    codes = {name: np.array([row[name] for row in rows]) for name in schema.domain}
    tables = [
        cells.tabulate({n: c[[place]] for n, c in codes.items()}, units=np.zeros(1, np.int64), count=1)
        for place in range(len(rows))
    ]
    assert max(int((table**2).sum()) for table in tables) == 3**2
    for each in ask(schema):
        if cells.find(each.marginals[0]) is None:
            continue
        noise = budget.measure_noise(each.share, marginals=len(each.marginals))
        one = budget.measure_noise(each.share, marginals=1)
        assert 3 * float(noise.variance) == pytest.approx(3**2 * float(one.variance), rel=1e-3)


def measure_exactly(schema: Schema, rows: list[dict[str, int]], *, variance: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    codes = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in schema.domain}
    items = []
    for each in ask(schema):
        for marginal in each.marginals:
            counts = tabulate(marginal, codes=codes, domain=schema.domain)
            noise = np.rint(rng.normal(0, variance**0.5, counts.shape)).astype(np.int64)
            items.append(Measurement(marginal, counts + noise, Fraction(variance)))
    return items


def test_the_model_has_the_integer_tables_of_every_unit() -> None:
    schema = Schema.parse(TINY.format(neighbours=""))
    rng = np.random.default_rng(1)
    every = every_row(schema)
    rows = [every[place] for place in rng.integers(0, len(every), 300)]
    items = measure_exactly(schema, rows, variance=9)
    tables = MeasuredHierarchy.of(schema, items).tables
    model = fit_linked(schema, items)
    assert np.array_equal(read_unit_counts(model, columns=("tenure", "persons")), tables[-1])
    assert model.total == tables[0].sum()
    assert dict(model.domain) == dict(schema.domain)


def test_nobody_at_all_is_a_model_too() -> None:
    schema = Schema.parse(TINY.format(neighbours=""))
    items = [
        Measurement(marginal, np.zeros(marginal.shape(schema.domain), np.int64), Fraction(1, 100))
        for each in ask(schema)
        for marginal in each.marginals
    ]
    model = fit_topdown(FitInput(schema=schema, items=items))
    assert not read_unit_counts(model, columns=("tenure", "persons")).any()


def test_a_budget_of_levels_holds_for_both_tables() -> None:
    schema = placed_schema()
    asked = ask(schema, Workload.parse("[levels]\nall = 1\ntract = 3\n", schema=schema))
    assert {each.level for each in asked} == {0, 2}
    of_members = [
        each for each in asked if MemberCells.of(schema).find(each.marginals[0]) and each.level == 0
    ]
    assert sum(each.share for each in of_members) == Fraction(1, 2) / 4


PERSONS = '[[queries]]\ntable = "person"\ncolumns = ["relationship", "age", "sex", "work"]\n'
HOMES = '[[queries]]\ncolumns = ["tenure", "number"]\n'


def test_queries_of_the_curators_own_are_those_of_their_table() -> None:
    schema = placed_schema()
    text = '[[queries]]\ntable = "person"\ncolumns = []\nshare = 3\n' + PERSONS + HOMES
    asked = ask(schema, Workload.parse(text, schema=schema))
    cells = MemberCells.of(schema)
    assert sum(each.share for each in asked) == 1
    found = [(each, cells.find(each.marginals[0])) for each in asked if each.level == 0]
    of_members = {kind[1].clique: each.share for each, kind in found if kind is not None}
    assert of_members[()] == 3 * of_members["relationship", "age", "sex", "work"]
    assert len(of_members) == 2
    homes = [
        each for each, kind in found if kind is None and set(each.marginals[0].clique) <= {"tenure", "number"}
    ]
    assert [each.marginals[0].clique for each in homes] == [("tenure", "number")]
    assert sum(of_members.values()) == Fraction(1, 2) / 3
    # Of a table without queries the usual ones are asked.
    assert {each.share for each in ask(schema, Workload.parse(HOMES, schema=schema))} != {
        each.share for each in asked
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[queries]]\ntable = "homes"\ncolumns = []\n', "none of the schema's"),
        ('[[queries]]\ncolumns = ["tenure"]\n', "all columns together"),
        ('[[queries]]\ntable = "person"\ncolumns = ["tenure"]\n', "which is no column"),
        ('[[queries]]\ncolumns = ["age.1"]\n', "which is no column"),
        (PERSONS + 'coarse = { age = ["0..29", "30.."] }\n', "coarsens columns of 'person'"),
    ],
)
def test_queries_of_no_table_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Workload.parse(text, schema=placed_schema())


TOTALS = """
[[totals]]
by = ["county", "tenure"]
counts = [
  { county = "A", tenure = "owned", count = 60 },
  { county = "A", tenure = "rented", count = 40 },
  { county = "B", tenure = "owned", count = 150 },
  { county = "B", tenure = "rented", count = 50 },
]
"""


@pytest.mark.slow
def test_public_totals_of_units_hold_in_their_tables_and_are_not_measured_again() -> None:
    text = placed_schema().to_toml()
    schema = Schema.parse(text + TOTALS)
    check_method(TOPDOWN, schema, epsilon=Fraction(1), delta=Fraction(1, 10**9))
    asked = ask(schema)
    assert sum(each.share for each in asked) == 1
    cells = MemberCells.of(schema)
    own = [each for each in asked if cells.find(each.marginals[0]) is None and each.level == 1]
    assert ("tenure",) not in {tuple(n for n in each.marginals[0].clique if n != GEOCODE) for each in own}
    items = [
        Measurement(m, np.full(m.shape(schema.domain), 9, np.int64), Fraction(25))
        for each in asked
        for m in each.marginals
    ]
    tables = MeasuredHierarchy.of(schema, items).tables
    assert tables[1].sum(axis=2).tolist() == [[60, 40], [150, 50]]
    model = fit_linked(schema, items)
    assert np.array_equal(read_unit_counts(model, columns=("tenure", "number")), tables[-1])
    wrong = TOTALS.replace('"tenure"', '"sex.1"').replace("tenure =", '"sex.1" =')
    wrong = wrong.replace("owned", "f").replace("rented", "m")
    with pytest.raises(UsageError, match="no column of 'household'"):
        check_method(TOPDOWN, Schema.parse(text + wrong), epsilon=Fraction(1), delta=Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[tables.person.columns.sex]", "[tables.person.columns.county]", "level of the geography"),
        (
            "[tables.person.columns.sex]",
            "[tables.person.columns.table]",
            "name of a column of tables.parquet",
        ),
        ("[tables.person.columns.sex]", f"{AGES}[tables.person.columns.sex]", "counts; the most is"),
        (
            'units = ["A", "B"]',
            'units = ["A", "B"]\nfacts = [["A", "`sex.1` == \'f\'", "0", ""]]',
            "no column of",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(old: str, new: str, said: str) -> None:
    schema = Schema.parse(TINY.format(neighbours="").replace(old, new))
    with pytest.raises(UsageError, match=said):
        check_method(TOPDOWN, schema, epsilon=Fraction(1), delta=Fraction(0))


def test_persons_are_priced_place_by_place() -> None:
    """The noise of all marginals together is within the budget, and a plan that prices all places as one is refused."""
    fault = (TOPDOWN.measure, "for _ in marginals]", "for _ in marginals[:1]]")
    schema = Schema.parse(TINY.format(neighbours=""))
    budget = Budget.of(Fraction(1), Fraction("1e-6"), unit=schema.unit)

    class Oracle:
        def __init__(self) -> None:
            self.schema, self.budget, self.cost = schema, budget, 0.0

        def measure_batches(self, batches):
            self.cost = sum(len(marginals) / float(noise.variance) for marginals, noise in batches)
            return ()

    oracle = Oracle()
    TOPDOWN.measure(oracle, Workload.choose_default(schema), lambda *_: None)
    assert 0.99 < oracle.cost / float(budget.cap) < 1.01
    with seeded(*fault), pytest.raises(UsageError, match="add up"):
        TOPDOWN.measure(oracle, Workload.choose_default(schema), lambda *_: None)
