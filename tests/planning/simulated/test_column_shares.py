"""Public shares of columns: how a plan reads them, what it makes of those left open, and that it uses them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.planning.simulated import column_shares
from populace.planning.simulated.column_shares import (
    compute_declared_shares,
    fill_shares,
    keep_matching_shares,
    read_shares,
)
from populace.planning.simulated.ensemble import simulate_ensemble
from populace.planning.simulated.pair_errors import SimulatedPairError, predict_pair_errors
from populace.planning.simulated.populations import invent_population
from populace.planning.simulated.simulated_run import close_domains
from populace.schema.schema import Schema

pytestmark = pytest.mark.sampled(6)

SCHEMA = Schema.parse("""
[columns.sex]
kind = "categorical"
values = ["f", "m"]
missing = ["?"]
[columns.age]
kind = "integer"
min = 0
max = 99
width = 10
other = "0"
[columns.wage]
kind = "integer"
min = 0
max = 999
split = 100
other = "0"
[columns.rank]
kind = "ordinal"
values = ["low", "high"]
missing = ["?"]
[columns.band]
kind = "categorical"
values = ["young", "old"]
function_of = ["sex"]
map = { f = "young", m = "old", "?" = "old", "" = "old" }
[columns.city]
kind = "categorical"
values = "learn"
[columns.debt]
kind = "numeric"
min = 0
max = 320
bins = "learn"
""")
NAN = float("nan")


def read(text: str, tmp_path, *, schema: Schema = SCHEMA) -> dict[str, list[float]]:
    path = tmp_path / "shares.csv"
    path.write_text(text, encoding="utf-8")
    found = read_shares(path, schema=schema, closed=close_domains(schema))
    return {name: shares.round(4).tolist() for name, shares in found.items()}


def test_shares_of_some_values_leave_the_others_open(tmp_path):
    found = read("column,value,share\nsex,f,0.5\nsex,?,.02\n", tmp_path)
    np.testing.assert_array_equal(found["sex"], [0.5, NAN, 0.02, NAN])


def test_percents_and_more_columns_in_any_order(tmp_path):
    found = read("note,percent,value,column\nx,50,f,sex\ny,49.5,m,sex\n", tmp_path)
    np.testing.assert_array_equal(found["sex"], [0.5, 0.495, NAN, NAN])


def test_counts_are_those_of_everybody(tmp_path):
    found = read("column,value,count\nsex,f,30\nsex,m,10\n", tmp_path)
    np.testing.assert_array_equal(found["sex"], [0.75, 0.25, 0.0, 0.0])


def test_numbers_fall_into_their_bins_and_stretches_over_several(tmp_path):
    found = read("column,value,to,share\nage,3,,.1\nage,7,,.1\nage,25,49,.5\n", tmp_path)
    np.testing.assert_array_equal(found["age"], [0.2, NAN, 0.1, 0.2, 0.2, *[NAN] * 5])


def test_stretches_of_numbers_and_dates_go_by_the_length_of_bins(tmp_path):
    schema = Schema.parse("""
[columns.pay]
kind = "numeric"
edges = [0, 1, 10, 100, 1000]
top = 1000
[columns.born]
kind = "date"
edges = ["2020-01-01", "2020-02-01", "2020-03-01", "2020-12-31"]
""")
    lines = "column,value,to,share\npay,0.5,55,.55\nborn,2020-01-30,2020-02-08,.1\n"
    found = read(lines, tmp_path, schema=schema)
    np.testing.assert_allclose(found["pay"][:3], np.array([0.5, 9, 45]) * 0.55 / 54.5, atol=1e-4)
    assert np.isnan(found["pay"][3:]).all()
    assert found["born"][:2] == [0.02, 0.08]
    assert np.isnan(found["born"][2:]).all()


def test_a_stretch_of_no_length_is_shared_by_its_codes(tmp_path):
    schema = Schema.parse('[columns.pay]\nkind = "numeric"\nedges = [0, 1, 10]\nbottom = 0\n')
    found = read("column,value,to,share\npay,0,0.0,.5\n", tmp_path, schema=schema)
    assert np.nansum(found["pay"]) == pytest.approx(0.5)


def test_ranges_of_decimals_may_touch(tmp_path):
    schema = Schema.parse('[columns.pay]\nkind = "numeric"\nedges = [0, 1, 10, 100]\n')
    found = read("column,value,to,share\npay,0,1,.5\npay,1,10,.3\n", tmp_path, schema=schema)
    assert found["pay"][:2] == [0.5, 0.3]
    with pytest.raises(UsageError, match="repeats values"):
        read("column,value,to,share\npay,0,2,.5\npay,1,10,.3\n", tmp_path, schema=schema)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_files_of_spreadsheets_are_read(mark, tmp_path):
    found = read(f"\ufeffcolumn{mark}value{mark}percent\r\nsex{mark}f{mark}51,5 %\r\n", tmp_path)
    np.testing.assert_array_equal(found["sex"], [0.515, NAN, NAN, NAN])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("column,value,share\nsex,f,51\nsex,m,49\n", "did you mean percent?"),
        ("column,value,percent\nsex,f,.51\nsex,m,.47\nsex,?,.02\n", "did you mean share?"),
        ("column,value,percent\nsex,F,51\n", "did you mean 'f'?"),
        ("column,value,percent\nSex,f,51\n", "did you mean 'sex'?"),
    ],
)
def test_hints_say_what_may_be_meant(text, hint, tmp_path):
    with pytest.raises(UsageError) as failure:
        read(text, tmp_path)
    assert failure.value.hint == hint


def test_a_byte_order_mark_and_blank_lines_do_not_matter(tmp_path):
    found = read("\ufeffcolumn,value,share\n\nsex,f,.5\n\n", tmp_path)
    np.testing.assert_array_equal(found["sex"], [0.5, NAN, NAN, NAN])


def test_a_split_column_has_shares_of_its_parts(tmp_path):
    found = read("column,value,to,share\nwage,0,,.7\nwage,1,999,.3\n", tmp_path)
    assert found["wage // 100"][0] == pytest.approx(0.7 + 0.3 * 99 / 999, abs=1e-4)
    assert found["wage % 100"][0] == pytest.approx(0.7 + 0.3 * 9 / 999, abs=1e-4)
    assert sum(found["wage // 100"]) == pytest.approx(1, abs=1e-3)


def test_what_is_left_of_a_split_column_lies_evenly_in_it(tmp_path):
    found = read("column,value,share\nwage,0,.7\n", tmp_path)
    assert found["wage // 100"][0] == pytest.approx(0.7 + 0.3 * 99 / 999, abs=1e-4)
    assert found["wage // 100"][4] == pytest.approx(0.03, abs=1e-3)
    assert found["wage % 100"][0] == pytest.approx(0.7 + 0.3 * 9 / 999, abs=1e-4)


def test_bins_that_are_to_be_learnt_may_have_shares(tmp_path):
    found = read("column,value,share\ndebt,0,.9\n", tmp_path)
    assert found["debt"][0] == 0.9
    assert np.isnan(found["debt"][1:]).all()


def test_rounded_shares_may_sum_to_a_little_more(tmp_path):
    found = read("column,value,percent\nsex,f,51\nsex,m,50\n", tmp_path)
    assert found["sex"][:2] == pytest.approx([51 / 101, 50 / 101], abs=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has: (none)"),
        ("column,share\nsex,1\n", "has: column, share"),
        ("Ulm,s3cret,44\nBonn,x,4\n", "has: (none)"),
        ("column,value,share,count\n", "of the columns of shares"),
        ("column,value,share,share\nsex,f,.5,.5\n", "of the columns of shares"),
        ("column,value,share\n", "shares.csv has no lines"),
        ("column,value,percent\n\nsex,f,51,5\n", "line 3 of shares.csv has more cells than the header"),
        ("column,value,to,share\nage,20,?,.5\n", "'?', which is not a value of 'age'"),
        ("column,value,to,share\nrank,low,?,.5\n", "from 'low' to '?'"),
        ("column,value,share\nsex,f,.55\nsex,m,.55\n", "sum to 1.1, more than 1"),
        (
            "column,value,share\nsex,f,.3\nsex,m,.3\nsex,?,.1\n",
            "all values of 'sex' sum to 0.7, less than 1",
        ),
        ("column,value,share\nsex,f,0\nsex,m,0\n", "sum to 0"),
        ("column,value,count\nsex,f,1e308\n", "is '1e308'"),
        ("column,value,share\nband,young,.5\n", "follows from other columns"),
        ("column,value,share\nsex,f,.5\nsex,f,.5\n", "line 3 of shares.csv repeats"),
        ("column,value,share\nsex,?,.1\nsex,?,.1\n", "line 3 of shares.csv repeats"),
        (
            "column,value,to,share\nage,0,20,.2\nage,15,64,.6\n",
            "line 3 of shares.csv repeats values that line 2",
        ),
        ("column,value,to,share\nage,0,64,.2\nage,7,,.6\n", "repeats values"),
        ("column,value,to,share\nrank,low,high,.2\nrank,high,,.6\n", "repeats values"),
        ('column,value,percent\nsex,f,"51,5"\n', "is '51,5'"),
        ("column,value,share\nsxe,f,.5\n", "line 2 of shares.csv names a column 'sxe'"),
        ("column,value,share\nsex,x,.5\n", "'x', which is not a value of 'sex'"),
        ("column,value,share\nage,100,.5\n", "'100', which is not a value of 'age'"),
        ("column,value,to,share\nage,1,200,.5\n", "'200', which is not a value of 'age'"),
        ("column,value,to,share\nage,50,20,.5\n", "from '50' to '20'"),
        ("column,value,to,share\nsex,f,m,.5\n", "from 'f' to 'm'"),
        ("column,value,share\nsex,f,-.5\n", "line 2 of shares.csv is '-.5'"),
        ("column,value,share\nsex,f,\n", "line 2 of shares.csv is ''"),
        ("column,value,share\nsex,f,nan\n", "is 'nan'"),
        ("column,value,share\nsex,f\n", "line 2 of shares.csv is ''"),
        ("column,value,share\nsex,f,51\nsex,m,49\n", "sum to 100, more than 1"),
        ("column,value,percent\nsex,f,90\nsex,m,90\n", "sum to 180, more than 100"),
        ("column,value,count\nsex,f,0\n", "sum to 0"),
        ("column,value,share\ncity,Rome,.5\n", "still to be learnt"),
    ],
)
def test_what_does_not_fit_is_refused(text, said, tmp_path):
    with pytest.raises(UsageError) as failure:
        read(text, tmp_path)
    assert said in str(failure.value)
    assert failure.value.hint


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'column,value,share\n"sex,f,.5\n'])
def test_what_is_no_file_of_shares_is_refused(content, tmp_path):
    path = tmp_path / "shares.csv"
    with pytest.raises(UsageError, match="there is no file"):
        read_shares(path, schema=SCHEMA, closed=close_domains(SCHEMA))
    path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read as CSV"):
        read_shares(path, schema=SCHEMA, closed=close_domains(SCHEMA))


def test_a_mapping_is_read_as_a_file_is():
    found = read_shares({"sex": {"f": 0.4}}, schema=SCHEMA, closed=close_domains(SCHEMA))
    np.testing.assert_array_equal(found["sex"], [0.4, NAN, NAN, NAN])
    with pytest.raises(UsageError, match="the share of 'x' in 'sex' gives 'x'"):
        read_shares({"sex": {"x": 0.4}}, schema=SCHEMA, closed=close_domains(SCHEMA))


def column(codes: int, *, special: bool = False):
    """Return a column of so many values and, if wished, one for missing values and one for everything else."""
    more = 'missing = ["?"]' if special else 'other = "0"'
    text = f'[columns.x]\nkind = "integer"\nmin = 0\nmax = {codes - 1}\n{more}\n'
    return Schema.parse(text).columns["x"]


@pytest.mark.parametrize(
    ("known", "order", "whole"),
    [
        ([0.25, 0.75], [0.5, 0.5], [0.25, 0.75]),
        # Told of everybody, with a little lost to rounding.
        ([0.3, 0.6], [0.5, 0.5], [1 / 3, 2 / 3]),
        ([NAN, 0.5, NAN], [0.9, 0.0, 0.1], [0.375, 0.5, 0.125]),
        # No value without a share is more frequent than those with one, where that can be.
        ([0.1, NAN, NAN, NAN], [0.0, 0.8, 0.1, 0.1], [0.1, 0.3, 0.3, 0.3]),
        ([0.6, 0.15, NAN, NAN, NAN], [0, 0, 0.8, 0.2, 0.0], [0.6, 0.15, 0.15, 0.0708, 0.0292]),
        ([0.4, NAN, NAN, NAN], [0, 0.2, 0.7, 0.1], [0.4, 1 / 6, 11 / 30, 2 / 30]),
        ([0.0, NAN, NAN], [0.2, 0.4, 0.4], [0.0, 0.25, 0.75]),
    ],
)
def test_what_is_left_open_is_filled(known, order, whole):
    found = fill_shares(np.array(known), column(len(known)), order=np.array(order, dtype=float))
    np.testing.assert_allclose(found, whole, atol=1e-4)


def test_everything_else_gets_nothing_and_rare_specials_cap_nobody():
    """Codes 0 to 2, missing, everything else: what is left is that of the other values."""
    known = np.array([0.5, NAN, NAN, 0.02, NAN])
    found = fill_shares(known, column(3, special=True), order=np.array([0, 0.1, 0.9, 0, 0]))
    np.testing.assert_allclose(found, [0.5, 0.12, 0.36, 0.02, 0.0])


def test_totals_tell_shares():
    schema = Schema.parse("""
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.area]
kind = "categorical"
values = ["n", "s"]
other = "n"
[[totals]]
by = ["sex", "area"]
counts = [ { sex = "f", area = "n", count = 30 }, { sex = "m", area = "s", count = 10 } ]
""")
    found = compute_declared_shares(schema)
    assert {name: shares.tolist() for name, shares in found.items()} == {
        "sex": [0.75, 0.25],
        "area": [0.75, 0.25],
    }
    assert pp.plan(schema, population=1000, epsilon=1, delta="1e-9").known_shares == {"sex": 1.0, "area": 1.0}


@pytest.mark.slow
def test_a_file_goes_before_totals(monkeypatch):
    schema = Schema.parse("""
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.area]
kind = "integer"
min = 0
max = 99
[[totals]]
by = ["sex"]
counts = [ { sex = "f", count = 30 }, { sex = "m", count = 10 } ]
""")
    seen = []

    def spied(*args, **words):
        seen.append(words.get("known_shares", {}))
        return simulate_ensemble(*args, **words)

    monkeypatch.setattr("populace.planning.plan.simulate_ensemble", spied)
    words = {"population": 40, "delta": "1e-9", "shares": {"sex": {"f": 0.5, "m": 0.5}}}
    pp.plan(schema, target_error=0.2, **words)
    assert pp.plan(schema, epsilon="0.1", **words).advice is not None
    assert len(seen) > 4, "neither an epsilon nor advice was looked for"
    assert {tuple(known.get("sex", ())) for known in seen} == {(0.5, 0.5)}
    assert compute_declared_shares(schema)["sex"].tolist() == [0.75, 0.25]


def test_totals_of_nobody_give_no_shares():
    schema = Schema.parse(
        '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\n'
        '[[totals]]\nby = ["sex"]\ncounts = [ { sex = "f", count = 0 } ]\n'
    )
    assert compute_declared_shares(schema) == {}


def test_columns_of_very_many_codes_have_no_shares(monkeypatch):
    monkeypatch.setattr(column_shares, "LIMITS", replace(LIMITS, max_share_codes=999))
    with pytest.raises(UsageError, match="more than 999 codes"):
        read_shares({"wage": {"0": 0.5}}, schema=SCHEMA, closed=close_domains(SCHEMA))


@pytest.mark.parametrize("shares", [{"sex": 0.3}, {"sex": [0.3]}, {1: {"f": 0.3}}])
def test_mappings_of_another_form_are_refused(shares):
    with pytest.raises(UsageError):
        read_shares(shares, schema=SCHEMA, closed=close_domains(SCHEMA))


def test_an_invented_population_has_known_shares():
    schema = Schema.from_sizes({"a": 5, "b": 40, "c": 3})
    known = {"a": np.array([0.7, 0.1, 0.1, 0.1, 0.0]), "b": np.array([0.9] + 39 * [NAN])}
    found = invent_population(schema, rows=100_000, rng=np.random.default_rng(1), known_shares=known)
    shares = found.exact(Marginal(("a",))) / 100_000
    # Five deviations of 100,000 draws: one run in a million is farther off in a code.
    np.testing.assert_allclose(shares, known["a"], atol=0.008)
    assert found.exact(Marginal(("b",)))[0] / 100_000 == pytest.approx(0.9, abs=0.008)


def test_shares_of_columns_that_were_dropped_or_made_coarser_do_not_fit():
    known = {"a": np.full(9, 1 / 9), "b": np.full(4, 1 / 4), "gone": np.ones(1)}
    assert set(keep_matching_shares(known, Schema.from_sizes({"a": 5, "b": 4}))) == {"b"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("even", [True, False])
def test_a_plan_heeds_shares(even):
    """The error of a column goes with its live codes: 0.4 σ/N each; all of 50 or, of one constant, two or three."""
    schema = Schema.from_sizes({"a": 50, "b": 50, "c": 50})
    shares = {name: {str(code): 0.02 if even else float(code == 7) for code in range(50)} for name in "abc"}
    found = pp.plan(schema, population=20_000, epsilon=1, delta="1e-9", shares=shares)
    usual = pp.plan(schema, population=20_000, epsilon=1, delta="1e-9")
    assert set(found.known_shares) == {"a", "b", "c"}
    assert usual.known_shares == {}
    ratio = found.columns.mean / usual.columns.mean
    assert 1.2 < ratio < 3 if even else ratio < 0.5
    pairs = found.by_pair["a", "b"].error.mean / usual.by_pair["a", "b"].error.mean
    assert pairs > 1.1 if even else pairs < 0.5
    assert found.columns.high - found.columns.low < usual.columns.high - usual.columns.low


# What pairs of four columns erred by in a simulation that measured all of them.
FOUR = {("a", "b"): 0.3} | dict.fromkeys([(x, y) for x in "ab" for y in "cd"], 0.1) | {("c", "d"): 0.01}


def predict_pairs(known, *, errors=FOUR, sizes=dict.fromkeys("abcd", 16)):  # noqa: B008
    """Return what a plan says of each pair, to two digits."""
    runs = [
        {
            pair: SimulatedPairError(error=error, cells=256, max_dependence=0.5)
            for pair, error in errors.items()
        }
    ]
    columns = dict.fromkeys(sizes, 0.0)
    schema = Schema.from_sizes(sizes)
    found = predict_pair_errors(
        runs, measured=[list(errors)], weights=[1], schema=schema, columns=columns, known_shares=known
    )
    return {pair: round(one.error.mean, 2) for pair, one in found.items()}


def test_pairs_of_known_columns_are_told_apart():
    flat, steep = np.full(16, 1 / 16), np.array([0.99] + 15 * [0.01 / 15])
    assert len({*predict_pairs({}).values()}) == 1
    assert predict_pairs({"a": flat, "b": flat, "c": steep, "d": steep}) == pytest.approx(FOUR, abs=0.03)


@pytest.mark.slow
def test_pairs_of_a_plan_are_told_apart_by_shares():
    schema = Schema.from_sizes(dict.fromkeys("abcd", 30))
    flat = {str(code): 1 / 30 for code in range(30)}
    steep = {"0": 0.99}
    shares = {"a": flat, "b": flat, "c": steep, "d": steep}
    found = pp.plan(schema, population=50_000, epsilon=3, delta="1e-9", shares=shares).by_pair
    assert found["a", "b"].error.mean > 2 * found["c", "d"].error.mean
    assert found["a", "b"].error.mean > found["a", "c"].error.mean > found["c", "d"].error.mean


def test_a_pair_that_no_simulation_measures_has_its_own_error():
    """All rows but one in a hundred have one income: few of its cells are live, unlike those of the dates."""
    schema = Schema.from_sizes({"sex": 2, "age": 100, "income": 13, "date": 13})
    even = {
        name: {str(code): 1 / size for code in range(size)} for name, size in [("age", 100), ("date", 13)]
    }
    shares = even | {"income": {"0": 0.99}}
    found = pp.plan(schema, population=20_000, epsilon=1, delta="1e-9", shares=shares).by_pair
    assert found["age", "income"].error.mean < 0.6 * found["age", "date"].error.mean


def test_columns_of_no_shares_are_not_taken_for_constant_ones():
    steep = np.array([1.0] + 15 * [0.0])
    found = predict_pairs({"c": steep, "d": steep})
    assert found["a", "b"] > 0.2
    assert found["c", "d"] < 0.05


def test_which_column_comes_first_does_not_matter():
    sizes = {"a": 2, "b": 30, "c": 30, "d": 2}
    errors = {("a", "b"): 0.3, ("c", "d"): 0.1, ("a", "d"): 0.02, ("b", "c"): 0.5}
    found = predict_pairs({}, errors=errors, sizes=sizes)
    assert found["a", "b"] == found["c", "d"] == pytest.approx(0.2, abs=0.01)


def test_a_first_line_that_is_no_header_is_not_quoted(tmp_path):
    with pytest.raises(UsageError) as caught:
        read("Ulm,s3cret,44\nBonn,x,4\n", tmp_path)
    assert "s3cret" not in str(caught.value)
