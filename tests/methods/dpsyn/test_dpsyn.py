"""`measure_dpsyn`: where its three levels begin, what each asks and costs, and what its rows are like."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest

from populace.api import measure as measure_api
from populace.api import synthesize as synthesize_api
from populace.core.errors import LedgerError, UsageError
from populace.core.marginals import Domain
from populace.core.progress import silent
from populace.inference.constraints.recoding import mergeable_groups, recoded_units
from populace.measurements.public_marginals import PublicTable
from populace.methods.dpsyn.dpsyn import (
    MeasuredTables,
    _split_by_partition,
    measure_dpsyn,
    measures_total,
    split_budget,
)
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import (
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Spend,
    mechanism_from_json,
)
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.accounting.privacy_loss import Currency, gdp_delta, price
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.priced_oracle import PricedOracle
from tests.helpers.privacy_units import make_unit

NAMES = ("area", "year", "work", "pay")
SCHEMA = Schema.parse(
    '[table]\ndataset = "tiny"\npartition = ["area", "year"]\ngroups = [["area", "work", "pay"]]\n\n'
    + "".join(f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 3\n\n' for name in NAMES)
)
GROUPS = (
    ("SEX", "MARST"),
    ("HCOVANY", "HCOVPRIV", "HINSEMP", "HINSCAID", "HINSCARE"),
    ("EMPSTAT", "LABFORCE", "EMPSTATD"),
    ("WORKEDYR", "WRKLSTWK"),
    ("ABSENT", "LOOKING"),
    ("AVAILBLE", "WRKRECAL"),
)
LEVELS = {"0.02": MeasuredTables.NOTHING, "0.6": MeasuredTables.COLUMNS, "8": MeasuredTables.PAIRS}


def people(rows, *, seed, year=None):
    rng = np.random.default_rng(seed)
    area = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    work = np.where(rng.random(rows) < 0.8, area, rng.integers(0, 4, rows))
    pay = np.where(rng.random(rows) < 0.8, 3 - work, rng.integers(0, 4, rows))
    when = rng.integers(0, 4, rows) if year is None else np.full(rows, year)
    return pa.table(dict(zip(NAMES, map(pa.array, (area, when, work, pay)), strict=True)))


def unit_of(theta):
    return PrivacyUnit(rows=theta, id="who")


def source_level(epsilon, theta, noisy):
    """The three levels, written down once more from the source: in floats, without its splits."""
    e0, e1, e2 = theta / 1400, theta / 50, theta / 35
    if epsilon < e2:
        return MeasuredTables.NOTHING
    t1 = 1500 * theta / max(1, noisy)
    if epsilon < e0 + e1 + t1:
        return MeasuredTables.NOTHING
    return MeasuredTables.COLUMNS if epsilon < e0 + e1 + 6 * t1 else MeasuredTables.PAIRS


@pytest.mark.parametrize("theta", [1, 7, 20])
def test_levels_begin_where_the_source_has_them(theta):
    seen = set()
    for noisy in (-50, 0, 1, 900, 30_000, 1_000_000):
        for step in range(1, 400):
            epsilon = Fraction(step * theta, 1000) + Fraction(step**2, 5000)
            plan = split_budget(
                epsilon, theta=theta, total=noisy if measures_total(epsilon, unit_of(theta)) else None
            )
            assert plan.level is source_level(float(epsilon), theta, noisy)
            assert plan.total + plan.partition + plan.rest == epsilon
            assert plan.partition > 0
            assert (plan.rest > 0) is (plan.level is not MeasuredTables.NOTHING)
            assert (plan.total == Fraction(theta, 1400)) is measures_total(epsilon, unit_of(theta))
            if plan.rest:
                assert Fraction(theta, 50) <= plan.partition <= Fraction(theta, 25)
            seen.add(plan.level)
    assert seen == set(MeasuredTables)


@pytest.mark.parametrize("theta", [1, 7, 20])
def test_levels_at_the_very_boundaries(theta):
    noisy, tiny = 30_000, Fraction(1, 10**12)
    first = Fraction(theta, 1400) + Fraction(theta, 50)
    columns = first + Fraction(1500 * theta, noisy)
    pairs = first + 6 * Fraction(1500 * theta, noisy)
    assert not measures_total(Fraction(theta, 35) - tiny, unit_of(theta))
    assert measures_total(Fraction(theta, 35), unit_of(theta))
    for edge, below, at in (
        (columns, MeasuredTables.NOTHING, MeasuredTables.COLUMNS),
        (pairs, MeasuredTables.COLUMNS, MeasuredTables.PAIRS),
    ):
        assert split_budget(edge - tiny, theta=theta, total=noisy).level is below
        found = split_budget(edge, theta=theta, total=noisy)
        assert found.level is at
        # Nothing is over: the partition gets its least part.
        assert found.partition == Fraction(theta, 50)
    # With much over, the partition gets no more than its most.
    assert split_budget(Fraction(100 * theta), theta=theta, total=noisy).partition == Fraction(theta, 25)


class Counter(PricedOracle):
    """Answers without noise, and knows the partition."""

    partition, groups, max_rows = ("area", "year"), (), None

    def __init__(self, *, rows, unit, epsilon):
        codes = {name: np.asarray(column) for name, column in people(rows, seed=1).to_pydict().items()}
        sizes = dict.fromkeys(NAMES, 4)
        public = PublicTable(name="p", digest="0" * 64, domain=Domain(sizes), codes=codes)
        super().__init__(codes, sizes=sizes, epsilon=epsilon, delta="0", unit=unit, public=public, exact=True)

    def count(self, marginal):
        return super().count(marginal) if marginal.clique else np.array(len(self._rows["area"]))


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_theta_is_how_far_a_unit_moves_a_count(rows, neighbours):
    """Rows that come and rows that go both count: replaced, a unit of r rows is a θ of 2r."""
    unit = make_unit(neighbours, rows=rows, id="who")
    theta = unit.rows * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    total, tiny = 6000, Fraction(1, 10**6)
    first, partition, columns = Fraction(theta, 1400), Fraction(theta, 50), Fraction(1500 * theta, total)

    def sizes(epsilon):
        oracle = Counter(rows=total, unit=unit, epsilon=epsilon)
        measure_dpsyn(oracle, Workload.pairs(oracle.domain), silent)
        assert float(oracle.used) == pytest.approx(1)
        if oracle.measured[0].marginal.clique == ():
            assert float(oracle.asked[0][2] * epsilon) == pytest.approx(float(first))
        return [len(item.marginal.clique) for item in oracle.measured]

    assert sizes(Fraction(theta, 35) - tiny) == [2]
    assert sizes(Fraction(theta, 35)) == [0, 2]
    edge = first + partition + columns
    assert (sizes(edge - tiny), sizes(edge)) == ([0, 2], [0, 2, 1, 1])
    edge = first + partition + 6 * columns
    assert (sizes(edge - tiny), sizes(edge)) == ([0, 2, 1, 1], [0, 2, 2])


def run(epsilon, *, delta="1e-6", rows=8000, ledger):
    return synthesize_api.synthesize(
        people(rows, seed=1),
        schema=SCHEMA,
        epsilon=epsilon,
        delta=delta,
        method="dpsyn",
        public=people(3000, seed=2, year=1),
        ledger=ledger,
        noise=ExactNoise(RehearsalEntropy(3)),
        seed=0,
    )


@pytest.mark.parametrize(("epsilon", "level"), LEVELS.items())
def test_each_level_asks_what_it_should_and_spends_all_of_epsilon(epsilon, level, tmp_path):
    found = run(epsilon, ledger=tmp_path / "l.db").measurements
    record = found.record
    assert record.currency is Currency.PURE
    assert record.cap * Fraction(999, 1000) < record.used <= record.cap == Fraction(epsilon)
    cliques = [item.marginal.clique for item in found.items]
    head = [("area", "year")] if level is MeasuredTables.NOTHING else [(), ("area", "year")]
    # The columns of the partition are not asked again.
    tail = {
        MeasuredTables.NOTHING: [],
        MeasuredTables.COLUMNS: [("work",), ("pay",)],
        MeasuredTables.PAIRS: [("work", "pay")],
    }[level]
    assert cliques == head + tail
    laws = [type(charged.spend.mechanism) for charged in record.spends]
    assert (
        laws
        == [DiscreteLaplace] * len(head)
        + {
            MeasuredTables.NOTHING: [],
            MeasuredTables.COLUMNS: [DiscreteLaplace],
            MeasuredTables.PAIRS: [EpsilonDeltaGaussian],
        }[level]
    )
    assert record.used_delta_reserve == (record.delta if level is MeasuredTables.PAIRS else 0)
    if level is MeasuredTables.PAIRS:
        assert set(found.public.tables) == {(a, b) for a in ("area", "year") for b in ("work", "pay")}
    else:
        lent = set(found.public.tables)
        assert lent == {
            *((name,) for name in NAMES),
            *combinations(NAMES, 2),
            ("area", "work", "pay"),
        }


def test_the_table_of_the_challenge_is_asked_23_columns_and_253_pairs():
    """What the source counts: PUMA and YEAR are the partition, and six groups of columns are one column each."""
    sizes = {"PUMA": 4, "YEAR": 3} | {name: 2 for group in GROUPS for name in group}
    sizes |= {f"other{number}": 2 for number in range(17)}
    schema = replace(Schema.from_sizes(sizes), partition=("PUMA", "YEAR"), groups=GROUPS)
    units = recoded_units(schema.domain, mergeable_groups(schema))
    pairs = [(*one, *other) for one, other in combinations(units, 2)]
    assert [len(_split_by_partition(asked, schema.partition)[1]) for asked in (units, pairs)] == [23, 253]


def test_a_partition_of_all_columns_takes_the_whole_budget(tmp_path):
    schema = replace(Schema.from_sizes({"area": 4, "year": 4}), partition=("area", "year"))
    rows, public = (people(8000, seed=seed).select(["area", "year"]) for seed in (1, 2))
    found = measure_api.measure(
        rows, schema=schema, epsilon=8, delta="0", method="dpsyn", public=public, ledger=tmp_path / "l.db"
    )
    assert [item.marginal.clique for item in found.items] == [(), ("area", "year")]
    assert found.record.used > found.record.cap * Fraction(999, 1000)


def test_without_delta_pairs_have_laplace_noise(tmp_path):
    record = run("8", delta="0", ledger=tmp_path / "l.db").measurements.record
    assert {type(charged.spend.mechanism) for charged in record.spends} == {DiscreteLaplace}
    assert record.guarantee == (8, 0)


@pytest.mark.parametrize("epsilon", ["0.6", "8"])
def test_rows_have_private_columns_and_public_or_measured_pairs(epsilon, tmp_path):
    made = run(epsilon, ledger=tmp_path / "l.db").synthetic
    real = people(8000, seed=1)
    for pair in (("work", "pay"), ("area", "work"), ("area", "year")):
        tables = [
            np.histogram2d(*(t[name].to_numpy() for name in pair), bins=4, range=[[0, 4]] * 2)[0] / t.num_rows
            for t in (made, real)
        ]
        assert np.abs(tables[0] - tables[1]).sum() / 2 < 0.04, pair


def test_a_release_verifies_and_says_what_delta_was_for(tmp_path):
    """Noise of scale 1,400 takes so many rows for the 1,130 below which pairs are public once in 10⁹ runs."""
    real = people(30_000, seed=1)
    common = {"schema": SCHEMA, "method": "dpsyn", "public": people(500, seed=2), "delta": "1e-6"}
    parts = {"noise": "0", "keys": "0", "keys_used": "0", "unused": "0"}
    for epsilon, part, words in (
        ("0.1", "unused", "all of it set aside and not used"),
        ("8", "noise", "all of it for noise"),
    ):
        out = tmp_path / epsilon
        made = synthesize_api.synthesize(real, epsilon=epsilon, ledger=tmp_path / f"{epsilon}.db", **common)
        made.save(out, report=False)
        assert verify(out).passed
        assert words in (out / "statement.md").read_text()
        told = json.loads((out / "statement.json").read_text())
        assert told["delta_exact"] == "1e-6"
        assert told["delta_parts"] == parts | {part: "1e-6"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("epsilon", "level"), [("0.01", MeasuredTables.NOTHING), *LEVELS.items()])
def test_the_statement_says_what_was_taken_from_the_public_table(epsilon, level, tmp_path):
    made = run(epsilon, ledger=tmp_path / "l.db")
    (line,) = (line for line in made.statement["not_covered"] if "declared public" in line)
    taken = {
        MeasuredTables.PAIRS: "Taken from it: how other columns go with “area”, “year”.",
    }.get(
        level,
        "Taken from it: counts of all 4 columns; all 6 pairs; 1 combination of 3 columns of 4, “area × work × pay”.",
    )
    assert taken in line
    only = [warning for warning in made.statement["warnings"] if "Of the private table only" in warning]
    assert len(only) == (level is MeasuredTables.NOTHING)
    if only:
        assert "only the number of rows by “area × year” was measured" in only[0]
        assert "about “work”, “pay” comes from the public table" in only[0]
    made.save(tmp_path / "out", report=False)
    assert all(word in (tmp_path / "out" / "statement.md").read_text() for word in (taken, *only))


def test_without_a_partition_only_the_number_of_rows_is_about_the_private_table(tmp_path):
    made = synthesize_api.synthesize(
        people(300, seed=1),
        schema=replace(SCHEMA, partition=()),
        epsilon="0.01",
        delta="1e-6",
        method="dpsyn",
        public=people(300, seed=2),
        ledger=tmp_path / "l.db",
    )
    (only,) = (warning for warning in made.statement["warnings"] if "private table only" in warning)
    assert "only the number of rows was measured" in only
    assert all(f"“{name}”" in only for name in NAMES)


@pytest.mark.parametrize(
    "unit",
    [
        PrivacyUnit(),
        PrivacyUnit(rows=3, id="who"),
        PrivacyUnit(rows=3, id="who", neighbours=Neighbours.REPLACE_ONE),
    ],
    ids=["one", "three", "three replaced"],
)
def test_no_delta_is_taken_where_none_can_be_used(unit, tmp_path):
    """Below θ/35 the partition alone is measured, with Laplace noise: the account keeps its δ."""
    schema = replace(SCHEMA, unit=unit)
    real = people(90, seed=1).append_column("who", pa.array(np.arange(90) // 3))
    edge = Fraction(schema.unit.marginal_l1, 35)
    for epsilon, taken in ((edge - Fraction(1, 10**9), 0), (edge, Fraction("1e-6"))):
        record = measure_api.measure(
            real,
            schema=schema,
            epsilon=epsilon,
            delta="1e-6",
            method="dpsyn",
            public=people(50, seed=2),
            ledger=tmp_path / f"{bool(taken)}.db",
        ).record
        assert record.guarantee == (epsilon, taken)
        assert record.keys == taken
        assert record.used_delta_reserve == 0
        assert len(record.spends) == (2 if taken else 1)


def test_the_price_of_gaussian_noise_among_pure_questions_keeps_its_promise():
    budget = Budget.of(Fraction(1), Fraction(0), unit=PrivacyUnit(rows=3, id="who"))
    delta = Fraction(1, 10**7)
    mechanism = budget.measure_gaussian(Fraction(1, 2), marginals=9, delta=delta)
    spend = Spend(verb="measure", what="pairs", mechanism=mechanism, answers=9, l1=3, l2_squared=9)
    cost = price(spend, currency=Currency.PURE)
    assert Fraction(49999, 100000) < cost <= Fraction(1, 2)
    assert (
        gdp_delta(price(spend, currency=Currency.GDP), epsilon=cost)
        <= delta
        == delta_price(mechanism, unit=budget.unit)
    )
    assert gdp_delta(price(spend, currency=Currency.GDP), epsilon=cost * Fraction(999, 1000)) > delta
    assert mechanism_from_json(mechanism.to_json()) == mechanism
    # The source's conversion, √ρ = √(ε + ln 1/δ) − √ln 1/δ, needs more noise.
    log = float(np.log(1e7))
    rho = (np.sqrt(0.5 + log) - np.sqrt(log)) ** 2
    assert float(mechanism.variance) < 0.95 * 9 * 9 / (2 * rho)
    with pytest.raises(UsageError):
        Budget.of(Fraction(1), delta, unit=PrivacyUnit()).measure_gaussian(
            Fraction(1), marginals=1, delta=delta
        )


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_variance_of_gaussian_noise_among_pure_questions_is_that_of_the_curve(rows, neighbours):
    """δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) solved for μ at 30 digits, and σ² = 9·Δ²/μ²: Δ² is r², replaced 2r²."""
    epsilon, delta, marginals = Fraction(1, 2), Fraction(1, 10**7), 9
    unit = make_unit(neighbours, rows=rows, id="who")
    budget = Budget.of(2 * epsilon, Fraction(0), unit=unit)
    mechanism = budget.measure_gaussian(Fraction(1, 2), marginals=marginals, delta=delta)
    moved = unit.rows**2 * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    with mp.workdps(30):
        level, low, high = mp.mpf(1) / 2, mp.mpf(0), mp.mpf(1)
        for _ in range(90):
            mu = (low + high) / 2
            gap = mp.ncdf(mu / 2 - level / mu) - mp.exp(level) * mp.ncdf(-mu / 2 - level / mu)
            low, high = (low, mu) if gap > mp.mpf(10) ** -7 else (mu, high)
        least = float(marginals * moved / high**2)
    # On whole numbers the same μ takes a variance that is larger by about 1/12.
    assert least < float(mechanism.variance) < least + 0.1
    spend = Spend(
        verb="measure",
        what="pairs",
        mechanism=mechanism,
        answers=marginals,
        l1=unit.marginal_l1,
        l2_squared=unit.marginal_l2_squared,
    )
    assert Fraction(49999, 100000) < price(spend, currency=Currency.PURE) <= epsilon


def test_books_refuse_gaussian_noise_that_takes_less_of_delta_than_it_names(tmp_path):
    record = run("8", ledger=tmp_path / "l.db").measurements.record
    record.check()
    last = record.spends[-1]
    for forged in (
        replace(last, delta=last.delta / 2),
        replace(last, price=last.price * Fraction(9, 10)),
        replace(
            last,
            spend=replace(
                last.spend, mechanism=EpsilonDeltaGaussian(last.spend.mechanism.variance / 2, last.delta)
            ),
        ),
    ):
        with pytest.raises(LedgerError):
            replace(record, spends=(*record.spends[:-1], forged)).check()


def test_what_it_cannot_do_is_refused_before_anything_is_spent(tmp_path):
    rows, common = (
        people(9, seed=1),
        {"epsilon": 1, "delta": "1e-6", "method": "dpsyn", "ledger": tmp_path / "l.db"},
    )
    with pytest.raises(UsageError, match="needs a public table"):
        measure_api.measure(rows, schema=SCHEMA, **common)
    wide = Schema.parse(
        "".join(f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 9999\n\n' for name in NAMES)
    )
    with pytest.raises(UsageError, match="cells together"):
        measure_api.measure(rows, schema=wide, public=people(9, seed=2), **common)
    assert not (tmp_path / "l.db").exists()


def test_a_partition_is_written_back_and_must_name_columns():
    assert Schema.parse(SCHEMA.to_toml()).partition == ("area", "year")
    assert Schema.parse(SCHEMA.to_toml()).digest == SCHEMA.digest
    with pytest.raises(UsageError.__mro__[1], match="no column is called"):
        Schema.parse(SCHEMA.to_toml().replace('partition = ["area", "year"]', 'partition = ["areas"]'))
