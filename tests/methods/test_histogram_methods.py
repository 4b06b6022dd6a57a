"""Methods whose releases are copies of bins or rows: what is drawn, what is cut, what is refused, what is saved."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Domain, Marginal
from populace.inference.constraints.conditional_model import condition_model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement, Measurements, ReleasedRows
from populace.measurements.public_marginals import PublicTable
from populace.methods.field_groups import (
    FIELD_GROUPS_CONFIG,
    choose_groups,
    field_groups_model,
    group_by_information,
)
from populace.methods.fit_measurements import fit
from populace.methods.histogram import histogram_model
from populace.methods.stability import released_rows_model
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.public_table import read_public
from populace.release.report.report_data import build_report
from populace.release.verify.verify import verify
from populace.sampling.draw_rows import draw_rows
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
SCHEMA = replace(Schema.from_sizes(DOMAIN), max_rows=500)
COPYING = ("field-groups", "histogram", "histogram-exponential", "stability")


def frame(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    return pa.table({"a": a, "b": np.where(rng.random(rows) < 0.9, a, 3), "c": rng.integers(0, 2, rows)})


def run(method, tmp_path, *, schema=SCHEMA, data=None, epsilon="2", delta="1e-4", seed=1, public=None):
    return measure(
        frame() if data is None else data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        ledger=tmp_path / "ledger.db",
        public=public,
        noise=ExactNoise(RehearsalEntropy(seed)),
    )


def counts(model, *, rows, domain=DOMAIN, seed=1):
    (codes,) = draw_rows(model, rows=rows, rng=np.random.default_rng(seed))
    found = np.zeros(domain.shape(domain), dtype=np.int64)
    np.add.at(found, tuple(codes[name] for name in domain), 1)
    return found


# ------------------------------------------------------------------------------------------ histograms


@pytest.mark.parametrize("method", ["histogram", "histogram-exponential"])
def test_a_release_holds_each_combination_as_often_as_its_bin_says(method, tmp_path):
    found = run(method, tmp_path)
    (item,) = found.items
    assert item.marginal == Marginal(("a", "b", "c"))
    wanted = np.maximum(item.counts, 0)
    model = fit(found)
    assert model.total == wanted.sum()
    assert (counts(model, rows=int(wanted.sum())) == wanted).all()
    table = release_from(found, model, seed=3).table
    assert table.num_rows == wanted.sum() <= 500


def test_bins_in_which_no_row_can_be_are_empty():
    schema = Schema.parse(SCHEMA.to_toml() + '[[zeros]]\nwhen = "a == 0 and b == 3"\n')
    noisy = np.full((3, 4, 2), 5)
    noisy[1, 1] = -4
    item = Measurement(Marginal(("a", "b", "c")), noisy, Fraction(2))
    model = histogram_model([item], space=ModelSpace(domain=schema.domain, rules=schema.rules))
    wanted = np.maximum(noisy, 0)
    wanted[0, 3] = 0
    assert (counts(model, rows=int(wanted.sum())) == wanted).all()


def test_a_histogram_of_nothing_draws_nothing():
    item = Measurement(Marginal(("a", "b", "c")), np.full((3, 4, 2), -1), Fraction(2))
    model = histogram_model([item], space=ModelSpace(domain=DOMAIN))
    assert round(model.total) == 0
    assert counts(model, rows=48).min() == 2, "asked for all the same, rows are even"


def test_tables_of_many_columns_have_intervals_of_their_own_sums(tmp_path):
    """A table of 12 columns has 4,096 effects, which nobody computes."""
    from populace.inference.gls.count_intervals import intervals

    names = [f"c{n}" for n in range(12)]
    schema = Schema.from_sizes(dict.fromkeys(names, 2))
    found = run("histogram", tmp_path, schema=schema, data=pa.table({name: [0, 1, 1] for name in names}))
    told = intervals(found)
    (item,) = found.items
    one = told.of("c3")
    assert one.estimate.tolist() == item.counts.sum(axis=tuple(n for n in range(12) if n != 3)).tolist()
    assert one.error[0] ** 2 == pytest.approx(2048 * float(item.variance))
    two = told.of("c5", "c2")
    assert (
        two.estimate.T.tolist()
        == item.counts.sum(axis=tuple(n for n in range(12) if n not in (2, 5))).tolist()
    )
    assert float(told.of().estimate) == pytest.approx(item.counts.sum())
    assert told.at(item.marginal).estimate.tolist() == item.counts.tolist()


# ------------------------------------------------------------------------------------------ rows that are told


def rows_told():
    return ReleasedRows.of({(0, 3, 1): 7, (2, 0, 0): 5, (2, 3, 1): 40}, columns=DOMAIN)


@pytest.mark.parametrize("sizes", [DOMAIN.sizes, {"a": 90, "b": 4, "row": 10**4}])
def test_rows_are_drawn_as_often_as_they_were_told(sizes):
    """Also where codes that nobody has are one group, and where a column has the name of the hidden variable."""
    domain = Domain(sizes)
    told = replace(rows_told(), columns=tuple(domain))
    model = released_rows_model(told, domain=domain)
    (codes,) = draw_rows(model, rows=52, rng=np.random.default_rng(3))
    rows, times = np.unique(np.stack([codes[name] for name in domain], axis=1), axis=0, return_counts=True)
    assert rows.tolist() == told.codes.tolist()
    assert times.tolist() == [7, 5, 40]


def test_told_rows_may_be_chosen_from():
    model = released_rows_model(rows_told(), domain=DOMAIN)
    found = condition_model(model, RowFilter.of("b == 3", schema=SCHEMA).rules, text="b == 3")
    assert found.share == pytest.approx(47 / 52)


def test_too_many_told_rows_leave_the_most_frequent(monkeypatch):
    monkeypatch.setattr("populace.methods.stability.MAX_ROW_CELLS", 2 * (3 + 3 + 3))
    model = released_rows_model(rows_told(), domain=DOMAIN)
    assert model.total == 47


def test_told_rows_are_saved_and_altered_ones_refused(tmp_path):
    found = run("stability", tmp_path)
    assert found.released_rows is not None
    assert found.released_rows.columns == ("a", "b", "c")
    assert len(found.released_rows.counts) > 2
    assert found.released_rows.counts.min() > found.record.spends[-1].spend.mechanism.threshold
    found.save(tmp_path / "m")
    again = Measurements.load(tmp_path / "m")
    assert again.digest == found.digest
    assert again.released_rows.codes.tolist() == found.released_rows.codes.tolist()
    assert "different rows" in repr(again)
    with pytest.raises(ReleaseError, match="not rows of the schema"):
        replace(
            found,
            released_rows=ReleasedRows(
                ("a", "b", "c"), found.released_rows.codes + 3, found.released_rows.counts
            ),
        )
    with pytest.raises(ReleaseError, match="no counts"):
        ReleasedRows(("a",), [[1], [2]], [3])
    with pytest.raises(ReleaseError, match="no rows to draw from"):
        fit(replace(found, released_rows=None))


def test_told_rows_that_were_not_paid_for_do_not_verify(tmp_path):
    """Rows below the threshold, rows that nobody asked for, and rows that are gone, in folders sealed anew."""
    kept = {
        method: synthesize(
            frame(),
            schema=SCHEMA,
            epsilon=2,
            delta="1e-4",
            method=method,
            ledger=tmp_path / "ledger.db",
            dataset=method,
        )
        for method in ("stability", "histogram")
    }
    low = replace(rows_told(), counts=[1, 1, 1])
    for number, (method, told, why) in enumerate(
        [
            ("stability", low, "above the threshold"),
            ("stability", None, "paid for"),
            ("histogram", low, "paid for"),
        ]
    ):
        release = kept[method]
        forged = replace(release.measurements, released_rows=told)
        model = replace(release.model, measurements_digest=forged.digest)
        replace(release, measurements=forged, model=model).save(tmp_path / f"{number}", report=False)
        (failed,) = (check for check in verify(tmp_path / f"{number}").checks if not check.passed)
        assert (failed.name, why in failed.detail) == ("measurements", True)


def test_no_row_that_is_rare_is_told(tmp_path):
    """100 different rows once each: nothing is told, the table is empty, and it says so."""
    data = pa.table({name: np.arange(100) for name in "ab"})
    schema = Schema.from_sizes({"a": 10**5, "b": 10**5})
    found = run("stability", tmp_path, data=data, schema=schema)
    for asked in ({}, {"rows": 20}, {"rows": 20, "implicates": 2}, {"rows": 20, "where": "a < 50"}):
        release = release_from(found, fit(found), seed=1, **asked)
        assert [table.num_rows for table in release.tables] == [0] * asked.get("implicates", 1)
        assert release.rows_asked is None
        assert release.statement["total"]["rows"] == 0
        told = " ".join(release.statement["warnings"])
        assert "No row was released" in told
        assert "The table is empty, however many rows were requested." in told
        assert "Rows were released only if" not in told
    release = release_from(found, fit(found), rows=20)
    page = build_report(
        release.statement,
        measurements=found,
        intervals=release.intervals,
        codes=release.compared_codes,
    )
    assert page.summary == ("No row was frequent enough to be released.",)


def test_domains_are_learnt_before_rows_are_told(tmp_path):
    """Values take a tenth of delta, rows what is left of it; together no more than all of it."""
    text = '[columns.city]\nkind = "categorical"\nvalues = "learn"\n[columns.n]\nkind = "integer"\nmin = 0\nmax = 9'
    data = pa.table({"city": ["Ulm"] * 300 + ["Bonn"] * 300 + ["rare"], "n": [3] * 601})
    found = run("stability", tmp_path, data=data, schema=Schema.parse(text), epsilon="4")
    assert found.schema.columns["city"].values == ("Bonn", "Ulm")
    assert len(found.released_rows.counts) == 2
    first, *_, last = found.record.spends
    assert 0 < first.delta <= found.record.delta / 10
    assert found.record.used_delta_reserve == first.delta + last.delta <= found.record.delta
    assert isinstance(first.spend.mechanism.noise, DiscreteLaplace)


# ------------------------------------------------------------------------------------------ field groups


def test_groups_are_the_declared_ones_or_neighbours():
    assert choose_groups(DOMAIN, declared=[("c", "a")]) == (("a", "c"), ("b",))
    wide = Domain({"a": 10, "b": 100, "c": 2, "d": 5000, "e": 999})
    assert choose_groups(wide, declared=[]) == (("a", "b"), ("c",), ("d",), ("e",))


@pytest.mark.parametrize("declared", [(("a", "c"),), ()])
def test_noise_has_scale_groups_over_epsilon_and_bins_below_the_cut_are_empty(declared, tmp_path):
    sizes = {"a": 100, "b": 20, "c": 10}
    schema = replace(Schema.from_sizes(sizes), groups=declared)
    data = pa.table({"a": [5] * 400 + [7] * 2, "b": [3] * 402, "c": [9] * 402})
    found = run("field-groups", tmp_path, schema=schema, data=data, epsilon="1/2")
    cliques = [item.marginal.clique for item in found.items]
    assert cliques == ([("a", "c"), ("b",)] if declared else [("a",), ("b", "c")])
    assert found.record.spends[0].spend.mechanism == DiscreteLaplace(Fraction(4))
    model = fit(found)
    total = sum(i.counts.sum() / i.counts.size for i in found.items) / sum(
        1 / i.counts.size for i in found.items
    )
    assert model.total == pytest.approx(total)
    for item in found.items:
        least = FIELD_GROUPS_CONFIG.cut_factor * 4 * np.log10(item.counts.size)
        kept = np.where(item.counts < least, 0, item.counts)
        assert 0 < (kept > 0).sum() < (item.counts > 0).sum(), "the cut does something"
        shares = model.grouped_marginal(item.marginal.clique) / model.total
        assert shares == pytest.approx(kept / kept.sum())
    warned = any("nothing was learnt" in line for line in release_from(found, model).statement["warnings"])
    assert warned is not bool(declared)


def test_groups_are_found_in_a_public_table(tmp_path):
    """Columns of the private table that follow each other otherwise do not matter: the public one decides."""
    rng = np.random.default_rng(3)
    sizes = {"a": 9, "b": 30, "c": 9, "d": 30, "e": 4}
    a, b, e = (rng.integers(0, sizes[name], 3000) for name in "abe")
    public = pa.table(
        {"a": a, "b": b, "c": (a + 1) % 9, "d": np.where(rng.random(3000) < 0.5, b, 29 - b), "e": e}
    )
    data = pa.table({"a": a, "b": b, "c": e, "d": b, "e": e})
    schema = Schema.from_sizes(sizes)
    found = run("field-groups", tmp_path, schema=schema, data=data, public=public)
    assert {item.marginal.clique for item in found.items} == {("a", "c"), ("b", "d"), ("e",)}
    assert found.record.spends[0].spend.mechanism == DiscreteLaplace(3 / Fraction(found.record.epsilon))
    release = release_from(found, fit(found))
    assert release.statement["public"]
    (line,) = (line for line in release.statement["not_covered"] if "declared public" in line)
    assert "which columns were counted together (“a × c”, “b × d”); no count of it is here." in line
    warnings = " ".join(release.statement["warnings"])
    assert "in the public table: nothing was learnt from the private one" in warnings
    assert "columns of different groups are independent" in warnings
    declared = replace(schema, groups=(("a", "b"),))
    assert group_by_information(read_public(public, schema=schema), domain=schema.domain)[0] == ("a", "c")
    assert choose_groups(schema.domain, declared=declared.groups, public=read_public(public, schema=schema))[
        0
    ] == ("a", "b")


def test_pairs_too_large_for_a_group_are_not_counted():
    """Two columns of so many codes have a table that no memory holds."""
    domain = Domain({"a": 300_000, "b": 300_000, "c": 2})
    codes = {"a": np.arange(9), "b": np.arange(9), "c": np.zeros(9, int)}
    assert group_by_information(
        PublicTable(name="p", digest="", domain=domain, codes=codes), domain=domain
    ) == (
        ("a",),
        ("b",),
        ("c",),
    )


def test_groups_of_a_public_table_stay_small():
    """Ten bits that are all alike: more than ten columns, or more than a thousand bins, never come together."""
    same = np.random.default_rng(1).integers(0, 2, 400)
    domain = Domain({f"x{i}": 2 for i in range(12)})
    known = PublicTable(name="p", digest="", domain=domain, codes=dict.fromkeys(domain, same))
    groups = group_by_information(known, domain=domain)
    assert sorted(name for group in groups for name in group) == sorted(domain)
    assert max(map(domain.cells, groups)) <= FIELD_GROUPS_CONFIG.max_group_bins
    alone = {name: np.random.default_rng(i).integers(0, 2, 400) for i, name in enumerate(domain)}
    split = group_by_information(PublicTable(name="p", digest="", domain=domain, codes=alone), domain=domain)
    assert len(split) > len(groups), "what chance shows puts fewer columns together"


def test_a_group_of_which_nothing_is_left_is_even():
    items = [
        Measurement(Marginal((name,)), np.zeros(size), DiscreteLaplace(Fraction(9)).variance)
        for name, size in DOMAIN.items()
    ]
    model = field_groups_model(items, space=ModelSpace(domain=DOMAIN))
    assert counts(model, rows=48).sum() == 48
    assert np.ptp(model.marginal(("b",))) == pytest.approx(0)


def test_groups_keep_rules_and_totals_that_tie_them(tmp_path):
    text = SCHEMA.to_toml() + '[[zeros]]\nwhen = "a == 0 and b == 1"\n'
    text += '[[totals]]\nby = ["c"]\ncounts = { "0" = 170, "1" = 130 }\n'
    schema = replace(Schema.parse(text), groups=(("a", "c"),))
    found = run("field-groups", tmp_path, schema=schema)
    table = release_from(found, fit(found), seed=1).table
    a, b, c = (np.array(table[name]) for name in "abc")
    assert np.bincount(c).tolist() == [170, 130]
    assert not ((a == 0) & (b == 1)).any()


# ------------------------------------------------------------------------------------------ what is refused


LARGE = Schema.from_sizes(dict.fromkeys("abcd", 100))
LEARNT = Schema.parse('[columns.x]\nkind = "numeric"\nmin = 0\nmax = 9\nbins = "learn"')
COUNTED = Schema.parse(SCHEMA.to_toml() + "[[totals]]\nby = []\ncount = 300\n")
REFUSED = {
    "too many bins": ("histogram", LARGE, "1e+08 bins", "coarsen"),
    "too many bins in a range": ("histogram-exponential", LARGE, "1e+08 bins", "coarsen"),
    "too many bins in a group": (
        "field-groups",
        replace(LARGE, groups=(("a", "b", "c", "d"),)),
        "1e+08 bins",
        "fewer columns",
    ),
    "no bound": ("histogram-exponential", replace(SCHEMA, max_rows=None), "public bound", "max_rows = N"),
    "a bound below noise": ("histogram-exponential", replace(SCHEMA, max_rows=1), "counts up to 1", "raise"),
    "learnt bins": ("histogram", LEARNT, "needs every domain", "edges"),
    "learnt bins in groups": ("field-groups", LEARNT, "needs every domain", "edges"),
    "totals": ("histogram", COUNTED, "public totals", "auto"),
    "totals of rows": ("stability", COUNTED, "public totals", "auto"),
}


@pytest.mark.parametrize(("method", "schema", "what", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_spent(method, schema, what, hint, tmp_path):
    with pytest.raises(UsageError, match=what.replace("+", r"\+")) as refusal:
        run(method, tmp_path, schema=schema, epsilon="1")
    assert hint in refusal.value.hint
    assert not (tmp_path / "ledger.db").exists()


def test_rows_are_not_told_without_delta(tmp_path):
    with pytest.raises(UsageError, match="delta 0"):
        run("stability", tmp_path, delta="0")
    assert not (tmp_path / "ledger.db").exists()


def test_wide_groups_under_rules_are_refused(tmp_path):
    names = [f"c{n}" for n in range(11)]
    text = Schema.from_sizes(dict.fromkeys(names, 2)).to_toml() + '[[zeros]]\nwhen = "c0 == 1 and c1 == 1"\n'
    schema = replace(Schema.parse(text), groups=(tuple(names),))
    with pytest.raises(UsageError, match="11 columns"):
        run("field-groups", tmp_path, schema=schema, data=pa.table({name: [0] for name in names}))


@pytest.mark.parametrize("method", COPYING)
def test_pure_methods_spend_no_delta_and_all_verify(method, tmp_path):
    release = synthesize(
        frame(), schema=SCHEMA, epsilon=2, delta="1e-4", method=method, ledger=tmp_path / "ledger.db"
    )
    delta = Fraction("1e-4") if method == "stability" else 0
    assert Fraction(release.statement["delta_exact"]) == delta
    assert Ledger.existing(tmp_path / "ledger.db").account("table").delta == delta
    release.save(tmp_path / "out", report=False)
    assert all(check.passed for check in verify(tmp_path / "out").checks)
