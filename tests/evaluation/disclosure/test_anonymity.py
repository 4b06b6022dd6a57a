"""k, ℓ and t on hand-computed tables, and what a union of pieces keeps of them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import PopulaceError
from populace.evaluation.disclosure import anonymity
from populace.evaluation.disclosure.anonymity import measure_anonymity
from populace.evaluation.disclosure.text_tables import rank_values, read_text_tables
from populace.evaluation.disclosure.union_of_pieces import compare_union, find_overlaps
from populace.schema.schema import Schema

SCHEMA = Schema.parse("""
[columns.zip]
kind = "categorical"
values = ["47677"]
other = "47677"
[columns.age]
kind = "integer"
min = 0
max = 99
[columns.salary]
kind = "numeric"
min = 0
max = 20
width = 1
missing = ["NA"]
[columns.disease]
kind = "categorical"
values = ["gastric ulcer", "gastritis", "stomach cancer", "flu", "bronchitis", "pneumonia"]
[columns.grade]
kind = "ordinal"
values = ["low", "middle", "high"]
""")
# Table 3 of Li, Li and Venkatasubramanian 2007.
PATIENTS = pa.table(
    {
        "zip": ["476**"] * 3 + ["4790*"] * 3 + ["476**"] * 3,
        "age": ["2*"] * 3 + [">=40"] * 3 + ["3*"] * 3,
        "salary": ["3", "4", "5", "6", "11", "8", "7", "9", "10"],
        "disease": [
            *("gastric ulcer", "gastritis", "stomach cancer"),
            *("gastritis", "flu", "bronchitis"),
            *("bronchitis", "pneumonia", "stomach cancer"),
        ],
    }
)


def measure(table: pa.Table, *, quasi, sensitive):
    (read,) = read_text_tables({"t": table}, columns=[*quasi, *sensitive])
    places = {name: rank_values(read.texts[name], name=name, schema=SCHEMA) for name in sensitive}
    return measure_anonymity(read, quasi=quasi, sensitive=places)


def test_the_example_of_the_paper_has_its_numbers() -> None:
    found = measure(PATIENTS, quasi=["zip", "age"], sensitive=["salary", "disease"])
    assert (found.rows, found.classes, found.k, found.unique_rows, found.rows_below_5) == (9, 3, 3, 0, 9)
    # The paper: 0.375 for {3k, 4k, 5k}, 0.167 for {6k, 8k, 11k}.
    assert found.closeness["salary"].distance == "ordered"
    assert found.closeness["salary"].t == pytest.approx(0.375)
    two = PATIENTS.set_column(1, "age", pa.array(["a"] * 3 + ["b"] * 3 + ["a"] * 3))
    middle = measure(two, quasi=["age"], sensitive=["salary"])
    assert middle.closeness["salary"].t == pytest.approx(1 / 6)
    assert found.diversity["salary"].distinct == 3
    assert found.diversity["disease"].entropy == pytest.approx(3)
    assert found.diversity["disease"].frequency == 3


def test_diversity_by_hand() -> None:
    table = pa.table({"zip": ["a"] * 4 + ["b"] * 2, "disease": ["x", "x", "x", "y", "x", "y"]})
    found = measure(table, quasi=["zip"], sensitive=["disease"]).diversity["disease"]
    assert (found.distinct, found.frequency) == (2, pytest.approx(4 / 3))
    assert found.entropy == pytest.approx(math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)))


def test_an_order_of_words_and_rows_without_a_value() -> None:
    table = pa.table(
        {
            "zip": ["a", "a", "b", "b", "b"],
            "grade": ["low", "high", "high", "high", "?"],
            "salary": ["1", "NA", "3", "3.0", "NA"],
        }
    )
    found = measure(table, quasi=["zip"], sensitive=["grade", "salary"]).closeness
    # Half against a quarter of "low", one step of two values that occur.
    assert found["grade"].t == pytest.approx(0.25)
    assert (found["salary"].distance, found["salary"].t) == ("ordered", pytest.approx(2 / 3))


def test_many_classes_are_counted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    table = pa.table(
        {"zip": rng.integers(0, 50, 400).astype(str), "disease": rng.integers(0, 9, 400).astype(str)}
    )
    whole = measure(table, quasi=["zip"], sensitive=["disease"])
    monkeypatch.setattr(anonymity, "MAX_CELLS", 30)
    assert measure(table, quasi=["zip"], sensitive=["disease"]) == whole


def unite(*pieces: pa.Table, quasi=("age",), sensitive=("disease",)):
    read = read_text_tables({f"p{n}": piece for n, piece in enumerate(pieces)}, columns=[*quasi, *sensitive])
    places = {name: rank_values(read[0].texts[name], name=name, schema=SCHEMA) for name in sensitive}
    each, union, criteria = compare_union(read, quasi=quasi, sensitive=places)
    return each, union, {criterion.name: criterion for criterion in criteria}


def test_two_pieces_that_are_0_close_unite_to_a_quarter() -> None:
    """The counterexample to the claim that t-closeness survives: half of the rows of one piece have a value."""
    first = pa.table({"age": ["2*"] * 4, "disease": ["hiv", "hiv", "flu", "flu"]})
    second = pa.table({"age": ["3*"] * 4, "disease": ["flu"] * 4})
    each, union, found = unite(first, second)
    assert [one.closeness["disease"].t for one in each] == [0, 0]
    assert union.closeness["disease"].t == pytest.approx(0.25)
    close = found["t-closeness of disease"]
    assert (close.survives, close.always_survives) == (False, False)
    assert found["k-anonymity"].survives
    assert found["k-anonymity"].always_survives


@pytest.mark.slow
def test_k_and_l_survive_every_union_of_random_pieces() -> None:
    rng = np.random.default_rng(3)
    broken = 0
    for _ in range(150):
        pieces = [
            pa.table(
                {
                    "age": rng.integers(0, rng.integers(1, 4), size).astype(str),
                    "disease": rng.choice(list("xyz"), size, p=rng.dirichlet(np.ones(3))),
                }
            )
            for size in rng.integers(3, 12, rng.integers(2, 4))
        ]
        _, _, found = unite(*pieces)
        for name, criterion in found.items():
            assert criterion.survives or not criterion.always_survives, name
        broken += not found["t-closeness of disease"].survives
    assert broken > 10, "t-closeness does not survive, and the test would see k break as well"


def test_global_recoding_is_lost_where_pieces_generalize_in_different_ways() -> None:
    first = pa.table({"age": ["20-29", "30-39"], "disease": ["flu", "flu"]})
    second = pa.table({"age": ["20-24", "25"], "disease": ["flu", "flu"]})
    _, _, found = unite(first, second)
    recoded = found["values of age that break global recoding"]
    assert (recoded.pieces, recoded.union, recoded.survives) == (0, 2, False)
    assert find_overlaps(["20-29", "30-39", "40", "f", ""]) == []
    assert find_overlaps(["*", "7"]) == [("*", "7")]
    assert find_overlaps(["[10, 19]", "15…20"]) == [("[10, 19]", "15…20")]


def test_tables_without_the_columns_or_without_rows_are_refused() -> None:
    with pytest.raises(PopulaceError, match="no column"):
        read_text_tables({"t": PATIENTS}, columns=["sex"])
    with pytest.raises(PopulaceError, match="no rows"):
        read_text_tables({"t": PATIENTS.slice(0, 0)}, columns=["zip"])
