"""Universes, functions, parents, top codes, splits and domains to be learnt: what a column keeps of them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import SchemaError
from populace.schema.codec.decoder import code_labels, decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.split_codes import join_codes, split_codes
from populace.schema.columns.column import CategoricalColumn, Column, Origin
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import OutOfRange
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues, as_declared
from populace.schema.reader import read_column
from populace.schema.toml_table import TomlTable


def column(*, folder: Path | None = None, learnt: bool = False, **items: object) -> Column:
    return read_column("x", TomlTable("[columns.x]", items), folder=folder, learnt=learnt)


def test_a_value_divided_and_top_coded_as_in_the_challenge_of_2018() -> None:
    """VALUEH: v // 5 below 25000, one code above, 9999998 and 9999999 codes of their own."""
    found = column(kind="integer", min=0, top=25_000, width=5, missing=[9_999_998, 9_999_999])
    cells = [0, 4, 5, 24_999, 25_000, 1e40, 9_999_998, 9_999_999, None, "x"]
    codes = [0, 0, 1, 4999, 5000, 5000, 5001, 5002, 5003, 5003]
    assert (
        encode_values(found, pa.array([str(cell) if cell is not None else None for cell in cells])).tolist()
        == codes
    )
    assert encode_values(found, pa.array([24_999, 25_000, 9_999_998])).tolist() == [4999, 5000, 5001]
    decoded = decode_codes(found, np.array([1, 5000, 5001]), rng=np.random.default_rng(1)).to_pylist()
    assert decoded[0] in range(5, 10)
    assert decoded[1:] == [25_000, 9_999_998]
    assert code_labels(found)[4999:5002] == ("24995–24999", "≥ 25000", "9999998")


def test_a_wage_split_in_two_as_in_the_challenge_of_2018() -> None:
    """INCWAGE: v // 100 below 5000 with a top code and a special code, and v % 100."""
    wage = column(kind="integer", min=0, top=5_000, split=100, missing=[999_999], other="999999")
    assert isinstance(wage, IntegerColumn)
    coarse, fine = wage.variables
    assert (coarse.name, coarse.size, fine.name, fine.size) == ("x // 100", 52, "x % 100", 100)
    codes = encode_values(wage, pa.array([0, 123, 4999, 5000, 70_000, 999_999, None]))
    parts = split_codes(wage, codes)
    assert [part.tolist() for part in parts] == [[0, 1, 49, 50, 50, 51, 51], [0, 23, 99, 0, 0, 0, 0]]
    assert join_codes(wage, *parts).tolist() == codes.tolist()
    # A remainder beside a top or special code says nothing.
    assert join_codes(wage, np.array([50, 51]), np.array([7, 7])).tolist() == [5000, 5001]


def test_split_special_numbers_may_look_like_quotients() -> None:
    odd = IntegerColumn(
        name="x", min=950, max=1999, split=100, missing=("12",), universe="a", outside="0", other="1000"
    )
    coarse = odd.variables[0]
    assert coarse.specials == ("= 12", "0")
    assert coarse.outside_code == coarse.levels + 1
    assert split_codes(odd, np.array([odd.other_code]))[0].tolist() == [coarse.other_code]
    # 900 … 949 are not in the column.
    assert join_codes(odd, np.array([0]), np.array([3])).tolist() == [0]


def test_numbers_beyond_a_top_code_are_in_it_whatever_beyond_says() -> None:
    found = IntegerColumn(name="x", min=0, max=99, bottom=10, top=90, beyond=OutOfRange.OTHER)
    assert (found.min, found.max, found.size) == (10, 90, 82)
    assert encode_values(found, pa.array([-5, 10, 11, 89, 95, 1000])).tolist() == [0, 0, 1, 79, 80, 80]
    half = IntegerColumn(name="x", min=0, max=99, top=90, beyond=OutOfRange.OTHER)
    assert encode_values(half, pa.array([-1, 99])).tolist() == [half.other_code, 90]
    floats = DecimalColumn(name="x", edges=(0, Fraction(1, 2), 1), bottom=Fraction(0), top=Fraction(1))
    assert encode_values(floats, pa.array([-1, 0, 1e-9, 0.5, 0.99, 1, np.inf])).tolist() == [
        0,
        0,
        1,
        2,
        2,
        3,
        3,
    ]
    assert code_labels(floats)[:4] == ("≤ 0", "(0, 0.5)", "[0.5, 1)", "≥ 1")
    assert [floats.bounds(level) for level in (0, 1, 3)] == [(0, 0), (0, Fraction(1, 2)), (1, 1)]


def test_decimals_are_written_where_the_column_is_text() -> None:
    rng = np.random.default_rng(1)
    whole = IntegerColumn(name="x", min=-1, max=5000, decimals=1, missing=("R",))
    assert decode_codes(whole, np.array([0, 5001]), rng=rng).to_pylist() == ["-1.0", "5000.0"]
    assert encode_values(whole, pa.array(["-1.0", "5000.0"])).tolist() == [0, 5001]
    cents = DecimalColumn(
        name="x", edges=(Fraction(-1), Fraction("0.05"), Fraction(1)), decimals=2, missing=("R",)
    )
    drawn = decode_codes(cents, np.repeat([0, 1], 500), rng=rng).to_pylist()
    assert all(len(text.partition(".")[2]) == 2 for text in drawn)
    assert {"-1.00", "-0.01", "0.00", "0.04", "0.05", "0.99"} <= set(drawn)
    tenths = DecimalColumn(name="x", edges=(Fraction(0), Fraction(1)), decimals=1)
    assert set(decode_codes(tenths, np.zeros(500, dtype=int), rng=rng).to_pylist()) == {
        i / 10 for i in range(10)
    }


def test_rows_outside_the_universe_have_a_code() -> None:
    found = column(kind="integer", min=0, max=9, missing=["R"], universe="AGE >= 15", outside="N")
    assert found.specials == ("R", "N", "")
    assert (found.outside_code, found.other_code) == (11, 12)
    assert encode_values(found, pa.array(["3", "R", "N", None])).tolist() == [3, 10, 11, 12]


def test_a_map_gives_a_function_its_values(tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text('{"0170": "farm", "0180": "farm", "N": "N"}')
    found = column(folder=tmp_path, kind="categorical", function_of=["INDP"], map="map.json", missing=["N"])
    assert isinstance(found, CategoricalColumn)
    assert (found.values, found.map[("0180",)]) == (("farm",), "farm")
    (tmp_path / "map.json").write_text('[["a", 1, true], ["b", 2.50, false]]')
    two = column(folder=tmp_path, kind="categorical", function_of=["y", "z"], map="map.json")
    assert two.map == {("a", "1"): "true", ("b", "2.50"): "false"}
    inline = column(kind="categorical", function_of=["y", "z"], map={"a|1": True, "b|2.50": False})
    assert inline == two
    number = column(kind="integer", min=0, max=9, function_of="AGE", map={"95": 9})
    assert number.map == {("95",): "9"}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"universe": "a"}, "universe without outside"),
        ({"outside": "a"}, "outside without universe"),
        ({"universe": "a", "outside": "1"}, "also a value of it"),
        ({"universe": "a", "outside": "R", "missing": ["R"]}, "also a missing code"),
        ({"universe": "a", "outside": ""}, "also what everything else becomes"),
        ({"universe": "a", "outside": "N", "other": "N"}, "also what everything else becomes"),
        ({"map": {"a": "1"}}, "without function_of or parent"),
        ({"function_of": ["y"]}, "without a map"),
        ({"function_of": ["x"], "map": {"a": "1"}}, "is a function of 'x'"),
        ({"function_of": ["y", "y"], "map": {"a|b": "1"}}, "is a function of 'y', 'y'"),
        ({"function_of": ["y"], "map": {"a": "3"}}, "leads to '3'"),
        ({"function_of": ["y", "z"], "map": {"a": "1"}}, "the key 'a' for 2 columns"),
        ({"function_of": ["y"], "map": [["a", "1"], ["a", "2"]]}, "to both '1' and '2'"),
        ({"function_of": ["y"], "map": [["a"]]}, "neither a table nor a list of lists"),
        ({"function_of": ["y"], "map": {"a": ["1"]}}, "neither a text nor a number"),
        ({"function_of": ["y"], "map": "map.json"}, "the schema is in no folder"),
        ({"function_of": ["y"], "map": {"a": "1"}, "parent": "z"}, "has parent"),
        ({"function_of": ["y"], "map": {"a": "1"}, "universe": "a", "outside": "N"}, "has universe"),
        ({"parent": "x"}, "its own parent"),
        ({"parent": "y", "map": {"3": "a"}}, "begins at '3'"),
    ],
)
def test_relations_that_contradict_themselves_are_refused(items: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        column(kind="categorical", values=["1", "2"], **items)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"a": 1, "a": 2}', "names 'a' twice"),
        (None, "there is no map file '/.*map.json'"),
    ],
)
def test_a_map_that_cannot_be_read_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "map.json").write_text(text)
    with pytest.raises(SchemaError, match=message):
        column(folder=tmp_path, kind="categorical", function_of=["y"], map="map.json")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"kind": "integer", "min": 0, "max": 9, "top": 20}, "between its bins and top 20"),
        ({"kind": "integer", "min": 5, "max": 9, "bottom": 0}, "between its bins and bottom 0"),
        ({"kind": "integer", "bottom": 9, "top": 9}, "no number lies between"),
        ({"kind": "integer", "min": 0, "max": 9, "split": 1}, "split 1"),
        ({"kind": "integer", "min": 0, "max": 9, "split": 10}, "as large as its range"),
        ({"kind": "integer", "min": 0, "max": 99, "width": 5, "split": 10}, "split and has bins"),
        ({"kind": "integer", "min": 0, "max": 9, "decimals": -1}, "-1 decimals"),
        ({"kind": "integer", "min": 0, "max": 9, "top": 9, "missing": ["9"]}, "also a value"),
        ({"kind": "integer", "min": 0, "top": 10**9 + 7, "width": 10}, "is no edge of them"),
        ({"kind": "integer", "min": 0, "max": 9, "bins": "learn", "top": 5}, "beside top"),
        ({"kind": "numeric", "min": 0, "max": 9, "width": 1, "top": 20}, "between its bins and its top"),
        ({"kind": "numeric", "edges": [0, 5, 9], "top": 20}, "the bins end at 9"),
        ({"kind": "numeric", "edges": [0, "0.25"], "decimals": 1}, "not a finite number"),
        ({"kind": "numeric", "min": 0, "max": 1, "width": 0.25, "decimals": 1}, "more than 1 decimals"),
        ({"kind": "numeric", "min": 0, "max": 10**9, "width": 10**8, "decimals": 9}, "precision of floats"),
        ({"kind": "ordinal", "values": "learn"}, "order is not in the rows"),
        ({"kind": "categorical", "values": "learn", "origin": "codebook"}, "is to be learnt"),
        ({"kind": "categorical", "values": "learn", "labels": {"a": "A"}}, "label for 'a'"),
        (
            {"kind": "categorical", "values": "learn", "function_of": ["y"], "map": {"a": "b"}},
            "has unknown values",
        ),
        ({"kind": "ordinal", "values": ["a"], "origin": "learnt"}, "only budget can buy"),
    ],
)
def test_nonsense_about_codes_is_refused(items: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        column(**items)
    assert message in caught.value.message
    assert caught.value.hint


def test_values_to_be_learnt() -> None:
    draft = column(kind="categorical", values="learn", missing=["R"], other="else")
    assert isinstance(draft, UnknownValues)
    assert (draft.unknown, draft.size, as_declared(draft)) == (True, 2, draft)
    assert encode_values(draft, pa.array(["a", "R", None])).tolist() == [1, 0, 1]
    learnt = draft.with_domain(["b", "a", "R", "else", "b"])
    assert (learnt.values, learnt.origin, learnt.unknown) == (("b", "a"), Origin.LEARNT, False)
    assert as_declared(learnt) == draft
    assert as_declared(draft.with_domain([])) == draft, "nothing found is no error"
    again = column(learnt=True, kind="categorical", values=[], origin="learnt", missing=["R"], other="else")
    assert again == draft.with_domain([])
    with pytest.raises(SchemaError, match="never learnt"):
        column(learnt=True, kind="ordinal", values=["a"], origin="learnt")


def test_bins_to_be_learnt() -> None:
    draft = column(kind="integer", min=0, max=100, bins="learn", missing=["R"])
    assert isinstance(draft, UnknownBins)
    assert (draft.kind, draft.size, draft.level("100"), draft.level("0.5")) == ("integer", 3, 0, None)
    assert encode_values(draft, pa.array(["50", "R", "900"])).tolist() == [0, 1, 0]
    learnt = draft.with_domain([Fraction(15, 2), Fraction(50), Fraction(-3), Fraction(200)])
    assert isinstance(learnt, IntegerColumn)
    assert (list(learnt.starts), learnt.max, as_declared(learnt)) == ([0, 8, 50], 100, draft)
    floats = column(kind="numeric", min=0, max=1, bins="learn", decimals=1)
    assert isinstance(floats, UnknownBins)
    close = floats.with_domain([Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**30), Fraction(1, 10**9)])
    assert isinstance(close, DecimalColumn)
    assert close.edges == (0, Fraction(3, 10), 1)
    plain = UnknownBins(name="x", min=Fraction(0), max=Fraction(1))
    assert plain.with_domain([Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**30)]).levels == 2
