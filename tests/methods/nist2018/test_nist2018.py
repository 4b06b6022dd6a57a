"""`nist2018`: what its file may say, how weights become noise, what is merged, and what a coarse marginal tells."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.fit.fit_model import fit_model
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.inference.gls.count_intervals import CountIntervals
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.fit_measurements import fit
from populace.methods.nist2018.nist2018 import (
    check_queries,
    find_supported_codes,
    merge_column_codes,
    split_share,
)
from populace.methods.nist2018.query_rounds import ColumnQuery, QueryRounds, RareCodes
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.accounting.privacy_loss import price
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from tests.helpers.budgets import measure_share

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "workloads" / "census1940.toml"

SCHEMA = Schema.parse("""
[columns.WAGE]
kind = "integer"
min = 0
top = 5_000
split = 100
missing = [999_998]
other = 999_998

[columns.SEX]
kind = "categorical"
values = ["f", "m"]
other = "f"

[columns.CITY]
kind = "categorical"
values = ["1", "2", "3", "4"]
labels = { "1" = "Denver, CO", "2" = "Pueblo, CO", "3" = "Waco, TX", "4" = "Abroad" }
other = "4"

[columns.AGE]
kind = "integer"
min = 0
max = 9
other = "0"

[columns.OLD]
kind = "categorical"
function_of = ["AGE"]
map = { "8" = "yes", "9" = "yes" }
values = ["yes", "no"]
other = "no"
""")
WAGES = ["0..99", "100..999", "1000..1999", "2000..", "999998"]
FILE = f"""
[rounds]
share = 0.25
threshold = 4

[columns.WAGE]
compress = false
weight = 2

[columns.CITY]
map = {{ "1" = "CO", "2" = "CO", "3" = "TX" }}

[columns.AGE]
compress = "neighbours"
threshold = 2.5

[[marginals]]
columns = ["SEX", "WAGE"]
weight = 3
coarse = {{ WAGE = {WAGES} }}

[[marginals]]
columns = ["WAGE", "AGE"]

[[marginals]]
columns = ["SEX", "CITY", "AGE"]
coarse = {{ AGE = ["0..3", ["4", "6..9"], "*"] }}
"""


def parse(text, schema=SCHEMA):
    return Workload.parse(text, schema=schema)


def test_a_file_says_everything():
    found = parse(FILE)
    coarse = "WAGE // 100"
    assert {clique: int(weight) for clique, weight in found.weights.items()} == {
        (coarse, "SEX"): 3,
        (coarse, "AGE"): 1,
        ("SEX", "CITY", "AGE"): 1,
    }
    rounds = found.rounds
    assert (rounds.share, rounds.usual.threshold) == (Fraction(1, 4), 4)
    assert (
        rounds.column(coarse)
        == rounds.column("WAGE % 100")
        == replace(rounds.usual, merge=RareCodes.NONE, weight=Fraction(2))
    )
    assert rounds.column("CITY").classes == Grouping("CITY", (0, 0, 1, 2))
    assert rounds.column("AGE") == ColumnQuery(threshold=Fraction(5, 2), merge=RareCodes.NEIGHBOURS)
    assert rounds.column("SEX") == ColumnQuery(threshold=Fraction(4))
    # The bins of the challenge's winner: hundreds 0 | 1–9 | 10–19 | 20–50 | 51.
    assert rounds.coarse[frozenset({"SEX", coarse})] == (
        Grouping(coarse, (0, *[1] * 9, *[2] * 10, *[3] * 31, 4)),
    )
    assert rounds.coarse[frozenset({"SEX", "CITY", "AGE"})] == (
        Grouping("AGE", (0, 0, 0, 0, 1, 2, 1, 1, 1, 1)),
    )
    assert found.label != parse(FILE.replace("0.25", "0.3")).label
    assert found.label == parse(FILE).label


def test_labels_can_be_the_map():
    found = parse('[columns.CITY]\nmap = "labels"\n[[marginals]]\ncolumns = ["SEX", "CITY"]').rounds
    assert found.column("CITY").classes == Grouping("CITY", (0, 0, 1, 2))


def test_a_file_without_rounds_is_a_workload_as_ever():
    assert parse('[[marginals]]\ncolumns = ["SEX", "CITY"]').rounds is None


PAIR = '[[marginals]]\ncolumns = ["SEX", "WAGE"]\n'
WRONG = {
    PAIR + 'coarse = { WAGE = ["0..99", "100.."] }': "no bin for '999998'",
    PAIR + 'coarse = { WAGE = ["0..99", "50..5000", "*"] }': "0 … 99 in two bins",
    PAIR + 'coarse = { WAGE = ["0..5000", "999998", "*"] }': "a bin in which nothing is",
    PAIR + 'coarse = { WAGE = ["0..99", "100..6000", "*"] }': "'100..6000', which is no value",
    PAIR + 'coarse = { WAGE = "0..99" }': "no list of bins",
    PAIR + 'coarse = { SEX = ["f..m"] }': "have no order",
    PAIR + 'coarse = { SEX = ["f", "x"] }': "the bin 'x'",
    PAIR + 'coarse = { AGE = ["*"] }': "coarsens 'AGE', which is none of its columns",
    '[[marginals]]\ncolumns = ["OLD", "SEX"]\ncoarse = { OLD = ["*"] }': "follows from other columns",
    PAIR + "[rounds]\nshare = 1": "takes 1 of the budget",
    PAIR + "[rounds]\nshare = 0": "share is 0",
    PAIR + "[rounds]\nshares = 0.5": "unknown key 'shares'",
    PAIR + "[columns.SECS]\nweight = 2": "'SECS', which is no column",
    PAIR + "[columns.SEX]\nweight = -2": "weight is -2",
    PAIR + "[columns.SEX]\nthreshold = 0": "threshold is 0",
    PAIR + '[columns.SEX]\ncompress = "no"': "compress is no",
    PAIR + '[columns.CITY]\nmap = { "9" = "CO" }': "names '9', which the column does not have",
    PAIR + '[columns.SEX]\nmap = "labels"': "the map is empty",
    PAIR + '[columns.OLD]\nmap = { "yes" = "x" }': "map is for columns that are read",
}


@pytest.mark.parametrize("text", WRONG, ids=WRONG.values())
def test_what_is_wrong_with_a_file_is_said(text):
    with pytest.raises(UsageError, match=re.escape(WRONG[text])) as caught:
        parse(text)
    assert caught.value.hint


def test_bins_of_columns_to_be_learnt_are_refused():
    schema = Schema.parse(
        '[columns.A]\nkind = "categorical"\nvalues = "learn"\n[columns.B]\nkind = "integer"\nmin = 0\nmax = 3'
    )
    for text in ('coarse = { A = ["*"] }', '[columns.A]\nmap = { "1" = "x" }'):
        with pytest.raises(UsageError, match="still to be learnt"):
            parse('[[marginals]]\ncolumns = ["A", "B"]\n' + text, schema)


def rows(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, count)
    wage = np.where(rng.random(count) < 0.1, 999_998, rng.integers(0, 2000 + 3000 * sex))
    age = np.where(rng.random(count) < 0.7, wage % 8, rng.integers(0, 10, count))
    city = np.where(sex, rng.integers(1, 3, count), rng.integers(1, 5, count))
    return pa.table(
        {
            "WAGE": wage,
            "SEX": np.array(["f", "m"])[sex],
            "CITY": city.astype(str),
            "AGE": age,
            "OLD": np.where(age > 7, "yes", "no"),
        }
    )


def run(tmp_path, *, text=FILE, epsilon="5", delta="1e-6", schema=SCHEMA, table=None, method="nist2018"):
    file = tmp_path / "queries.toml"
    file.write_text(text)
    return measure(
        rows() if table is None else table,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        workload=file,
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(1)),
    )


def test_both_rounds_are_asked_as_listed(tmp_path):
    found = run(tmp_path)
    asked = [item.marginal for item in found.items]
    assert [marginal.clique for marginal in asked[:5]] == [(name,) for name in SCHEMA.domain]
    assert not any(marginal.groupings for marginal in asked[:5])
    first, second, third = asked[5:]
    assert (first.clique, second.clique) == (("WAGE // 100", "SEX"), ("WAGE // 100", "AGE"))
    assert first.grouping("WAGE // 100").size == 5
    # A column that is not compressed, and that another marginal coarsens, has all of its codes.
    assert second.grouping("WAGE // 100").groups == tuple(range(52))
    assert third.grouping("AGE").size == 3
    assert found.record.workload.startswith("own ")


@pytest.mark.parametrize(("most", "kept"), [(30, ["SEX"]), (3, [])])
def test_marginals_without_memory_are_left_out_and_what_they_cost_goes_to_others(
    most, kept, tmp_path, monkeypatch
):
    monkeypatch.setattr("populace.methods.nist2018.nist2018.MAX_QUERY_CELLS", most)
    found = run(tmp_path)
    cliques = [item.marginal.clique for item in found.items]
    if kept:
        assert cliques[5:] == [("WAGE // 100", "SEX")]
    else:
        assert cliques[5:] == cliques[:5], "columns are measured again"
    assert float(found.record.used / found.record.cap) > 0.99


@pytest.mark.parametrize(("delta", "power"), [("1e-6", 2), ("0", 1)])
def test_twice_the_weight_is_half_the_noise_and_the_round_costs_its_share(tmp_path, delta, power):
    found = run(tmp_path, delta=delta, epsilon="0.5")
    deviation = {item.marginal.clique: float(item.variance) ** 0.5 for item in found.items}
    assert deviation["SEX",] / deviation["WAGE % 100",] == pytest.approx(2, rel=0.01)
    assert deviation["WAGE // 100", "AGE"] / deviation["WAGE // 100", "SEX"] == pytest.approx(3, rel=0.01)
    record = found.record
    costs = [price(booked.spend, currency=record.currency) / record.cap for booked in record.spends]
    answers = np.cumsum([booked.spend.answers for booked in record.spends])
    first = int(np.searchsorted(answers, 5)) + 1
    assert answers[first - 1] == 5
    assert float(sum(costs[:first])) == pytest.approx(0.25, rel=0.01)
    assert float(sum(costs[first:])) == pytest.approx(0.75, rel=0.01)
    if power == 2:
        # Σ (sensitivity / deviation)² is the budget: half the noise would be four times as much.
        precise = sum(value**-2 for value in deviation.values())
        assert 0.97 * float(record.cap) < precise <= float(record.cap)


def test_weights_are_normalised():
    budget = Budget.of(Fraction(1), Fraction("1e-9"), unit=PrivacyUnit())
    weights = [Fraction(1), Fraction(1, 3), Fraction(7)]
    parts = split_share(budget, weights, share=Fraction(1, 3))
    assert sum(parts) == Fraction(1, 3)
    assert parts[0] / parts[1] == 9
    pure = split_share(Budget.of(Fraction(1), Fraction(0), unit=PrivacyUnit()), weights, share=Fraction(1, 3))
    assert (sum(pure), pure[0] / pure[1]) == (Fraction(1, 3), 3)


@pytest.mark.parametrize(("factor", "keeps"), [(1, True), (Fraction(1, 4), False), (4, False)])
def test_another_noise_level_breaks_the_price(factor, keeps):
    """Half the deviation costs more than the share, and twice the deviation wastes most of it."""
    budget = Budget.of(Fraction(1), Fraction("1e-9"), unit=PrivacyUnit())
    shares = []
    for part in split_share(budget, [Fraction(1), Fraction(2), Fraction(5)], share=Fraction(1, 2)):
        noise = budget.measure_noise(part, marginals=1)
        shares.append(measure_share(budget, DiscreteGaussian(noise.variance * factor), marginals=1))
    assert (Fraction(49, 100) < sum(shares) <= Fraction(1, 2)) is keeps


def column(counts, variance=4):
    return Measurement(Marginal(("x",)), np.array(counts), Fraction(variance))


def test_codes_above_the_threshold_are_kept_and_the_rest_share_one():
    alike = np.zeros(6, dtype=np.int64)
    counts = column([100, 7, 5, 90, -3, 0])
    assert merge_column_codes(counts, ColumnQuery(), apart=alike) == [0, 1, 3, 2, 3, 3]
    assert merge_column_codes(counts, ColumnQuery(threshold=Fraction(4)), apart=alike) == [0, 2, 2, 1, 2, 2]
    assert merge_column_codes(counts, ColumnQuery(threshold=Fraction(5, 2)), apart=alike) == [
        0,
        1,
        2,
        3,
        4,
        4,
    ]
    assert merge_column_codes(counts, ColumnQuery(merge=RareCodes.NONE), apart=alike) == [0, 1, 2, 3, 4, 5]
    assert merge_column_codes(
        counts, ColumnQuery(merge=RareCodes.NEIGHBOURS, threshold=Fraction(10)), apart=alike
    ) == [
        *(0, 0, 0),
        *(1, 1, 1),
    ]
    # Bins of a marginal keep apart what they tell apart.
    assert merge_column_codes(
        counts, ColumnQuery(threshold=Fraction(4)), apart=np.array([0, 0, 0, 1, 1, 1])
    ) == [
        *(0, 2, 2),
        *(1, 3, 3),
    ]


def test_a_map_keeps_or_merges_whole_classes():
    classes = Grouping("x", (0, 0, 0, 1, 1, 1))
    # Six deviations, summed: 18 of √3·2·3 ≈ 10.4 needed; and 9, none of which stands out alone.
    assert (
        find_supported_codes(column([18, 0, 0, 5, 4, 0]), classes, threshold=3).tolist()
        == [True] * 3 + [False] * 3
    )
    assert (
        find_supported_codes(column([4, 4, 4, 0, 0, 0]), classes, threshold=3).tolist()
        == [True] * 3 + [False] * 3
    )
    asked = ColumnQuery(classes=classes)
    assert merge_column_codes(column([18, 0, 0, 5, 4, 0]), asked, apart=np.zeros(6, int)) == [
        0,
        1,
        2,
        3,
        3,
        3,
    ]


def test_without_a_list_a_tree_is_chosen(tmp_path):
    found = run(tmp_path, text="[columns.WAGE]\ncompress = false")
    verbs = [booked.spend.verb for booked in found.record.spends]
    assert "choose" in verbs
    named = measure(
        rows(),
        schema=SCHEMA,
        epsilon="5",
        delta="1e-6",
        method="nist2018",
        ledger=tmp_path / "other.db",
        noise=ExactNoise(RehearsalEntropy(1)),
    )
    assert max(len(item.marginal.clique) for item in named.items) == 2
    with pytest.raises(UsageError, match="lists no marginals"):
        run(tmp_path, text="[rounds]\nshare = 0.3")


def test_other_methods_refuse_rounds_and_nothing_is_spent(tmp_path):
    for method in ("auto", "mst", "aim"):
        with pytest.raises(UsageError, match="asked in rounds") as caught:
            run(tmp_path, method=method)
        assert "nist2018" in caught.value.hint
    for text in (next(iter(WRONG)), PAIR + "[columns.SEX]\nweight = 100_000"):
        with pytest.raises(UsageError, match=r"no bin for|less than 1e-06 of its round"):
            run(tmp_path, text=text)
    assert not (tmp_path / "ledger.db").exists() or not Ledger.open(tmp_path / "ledger.db").accounts()


def test_tables_of_very_many_columns_are_refused():
    wide = Workload(weights={tuple("abcde"): Fraction(1)})
    with pytest.raises(UsageError, match="at most 4 columns"):
        check_queries(wide, Domain(dict.fromkeys("abcde", 2)))


def test_rounds_of_another_schema_are_refused():
    for rounds in (
        QueryRounds(coarse={frozenset("ab"): (Grouping("a", (0, 1, 1)),)}),
        QueryRounds(columns={"c": ColumnQuery()}),
    ):
        with pytest.raises(UsageError, match=r"covers 3 codes|no variable"):
            Workload(weights={("a", "b"): Fraction(1)}, rounds=rounds).for_schema(
                Schema.from_sizes({"a": 4, "b": 2})
            )


DOMAIN = Domain({"x": 6, "y": 2, "z": 3})
THIRDS = Grouping("x", (0, 0, 1, 1, 2, 2))


def joint(seed=0, count=5000):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, count)
    y = (rng.random(count) < x / 6).astype(int)
    z = np.where(rng.random(count) < 0.6, x // 2, rng.integers(0, 3, count))
    table = np.zeros((6, 2, 3))
    np.add.at(table, (x, y, z), 1)
    return table


def exact(table, marginal, variance=Fraction(1, 100)):
    axes = tuple(axis for axis, name in enumerate("xyz") if name not in marginal.clique)
    counts = table.sum(axis=axes)
    kept = [name for name in "xyz" if name in marginal.clique]
    for own in marginal.groupings:
        axis = kept.index(own.column)
        counts = np.stack([counts.take(codes, axis=axis).sum(axis=axis) for codes in own.members], axis=axis)
    counts = counts.transpose([kept.index(name) for name in marginal.clique])
    return Measurement(marginal, counts.astype(np.int64), variance)


ALL = Grouping("x", tuple(range(6)))


def test_a_coarse_table_says_what_it_saw_and_no_more():
    """On a tiny domain, all but without noise: the model has the coarse table, and finer ones as they were told."""
    table = joint()
    marginals = [
        *(Marginal((name,)) for name in "xyz"),
        Marginal(("x", "z"), (ALL,)),
        Marginal(("y", "x"), (THIRDS,)),
    ]
    items = [exact(table, marginal) for marginal in marginals]
    model = fit_model(items, space=ModelSpace(domain=DOMAIN))
    pair = model.grouped_marginal(("x", "y"))
    seen = np.stack([pair[codes].sum(axis=0) for codes in THIRDS.members])
    np.testing.assert_allclose(seen, items[-1].counts.T, rtol=0.01, atol=3)
    np.testing.assert_allclose(model.marginal(("x", "z")), table.sum(axis=1), rtol=0.02, atol=3)
    # Inside a third nothing is known of y: it has the third's shares.
    shares = pair[:, 1] / pair.sum(axis=1)
    np.testing.assert_allclose(shares[::2], shares[1::2], atol=0.01)
    np.testing.assert_allclose(model.targets["x", "y"].sum(), table.sum(), rtol=1e-6)


def test_a_coarse_triple_carries_the_pair_in_it():
    table = joint()
    items = [exact(table, Marginal((name,))) for name in "xyz"]
    items += [exact(table, Marginal(("x", "y", "z"), (THIRDS,))), exact(table, Marginal(("x", "y"), (ALL,)))]
    plain, coarse = split_coarse_tables(items, domain=DOMAIN, groupings={"x": ALL})
    assert plain[3].marginal == Marginal(("y", "z"))
    assert (plain[3].counts == table.sum(axis=0)).all()
    assert plain[3].variance == 3 * items[3].variance
    assert {each.clique for each in coarse} == {("x", "y"), ("x", "z"), ("x", "y", "z")}
    model = fit_model(items, space=ModelSpace(domain=DOMAIN))
    np.testing.assert_allclose(model.marginal(("y", "z")), table.sum(axis=0), rtol=0.02, atol=3)
    whole = model.grouped_marginal(("x", "y", "z"))
    seen = np.stack([whole[codes].sum(axis=0) for codes in THIRDS.members])
    np.testing.assert_allclose(seen, items[3].counts, rtol=0.03, atol=6)
    np.testing.assert_allclose(
        fit_least_squares(items, space=ModelSpace(domain=DOMAIN)).marginal(("y", "z")),
        table.sum(axis=0),
        rtol=0.02,
        atol=3,
    )


def test_intervals_of_a_coarse_table_are_its_own():
    table = joint()
    items = [exact(table, Marginal((name,)), Fraction(9)) for name in "xyz"]
    items += [
        exact(table, Marginal(("x", "y"), (ALL,)), Fraction(9)),
        exact(table, Marginal(("x", "z"), (THIRDS,)), Fraction(4)),
    ]
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    pair = found.at(items[-1].marginal)
    assert (pair.estimate == items[-1].counts).all()
    np.testing.assert_allclose(pair.error, 2.0)
    # What it adds up to helps the column that it does not coarsen: 9 alone, 4 · 3 beside it.
    assert (found.of("z").error ** 2 < 6).all()
    # Asked for by its columns, it comes in the groups in which they were measured together, and says so.
    assert found.of("x", "z").marginal == items[-1].marginal
    with pytest.raises(UsageError, match="do not determine"):
        found.of("y", "z")


def test_a_coarse_table_that_mixes_what_a_rule_tells_apart_is_fitted(tmp_path):
    schema = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 9
other = "0"
[columns.SEX]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.WORK]
kind = "categorical"
values = ["yes", "no"]
universe = "AGE >= 5"
outside = "child"
other = "no"
""")
    rng = np.random.default_rng(0)
    age = rng.integers(0, 10, 2000)
    work = np.where(age < 5, "child", np.where(rng.random(2000) < 0.7, "yes", "no"))
    table = pa.table({"AGE": age, "SEX": np.array(["f", "m"])[(age > 3) * 1], "WORK": work})
    text = '[[marginals]]\ncolumns = ["AGE", "SEX"]\ncoarse = { AGE = ["0..3", "4.."] }\n'
    text += '[[marginals]]\ncolumns = ["AGE", "WORK"]\ncoarse = { AGE = ["0..2", "3..7", "8.."] }\n'
    found = run(tmp_path, text=text, schema=schema, table=table, epsilon="20")
    model = fit(found)
    pair = model.marginal(("AGE", "SEX"))
    np.testing.assert_allclose(pair[:4, 0].sum() / pair[:, 0].sum(), 1.0, atol=0.02)
    assert model.marginal(("AGE", "WORK"))[:5, :2].sum() == pytest.approx(0, abs=1e-9)


def test_the_same_from_python_and_rows_come_out(tmp_path):
    coarse = {frozenset({"SEX", "AGE"}): (Grouping("AGE", (0,) * 5 + (1,) * 5),)}
    wanted = Workload(
        weights={("SEX", "AGE"): Fraction(1), ("WAGE // 100", "SEX"): Fraction(1)},
        rounds=QueryRounds(coarse=coarse, columns={"CITY": ColumnQuery(merge=RareCodes.NONE)}),
    )
    release = synthesize(
        rows(),
        schema=SCHEMA,
        epsilon=20,
        delta="1e-6",
        method="nist2018",
        workload=wanted,
        ledger=tmp_path / "ledger.db",
    )
    assert release.table.column_names == list(SCHEMA.columns)
    real, made = rows().to_pandas(), release.table.to_pandas()
    for table in (real, made):
        table["hundreds"] = table.WAGE.clip(upper=999_998) // 1000
        table["half"] = table.AGE >= 5
    for columns in (["SEX", "half"], ["SEX", "hundreds"]):
        one, other = (table.groupby(columns).size() / len(table) for table in (real, made))
        assert one.sub(other, fill_value=0).abs().sum() / 2 < 0.03


def test_the_file_for_1940_is_toml_that_names_each_pair_once():
    """Its schema comes from files that are not in the repository: tests/real loads both."""
    import tomllib

    told = tomllib.loads(EXAMPLE.read_text("utf-8"))
    named = [frozenset(each["columns"]) for each in told["marginals"]]
    assert len(set(named)) == len(named) > 80
    assert {frozenset({"SEX", "INCWAGE"}), frozenset({"SEX", "CITY", "INCWAGE"})} <= set(named)
