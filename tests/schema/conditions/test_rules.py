"""Universes, structural zeros, functions and totals: what they mean, and what is refused when a schema is loaded."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from populace.core.errors import SchemaError
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.structural_zeros import StructuralZero
from populace.schema.schema import Schema

ACS = """
[columns.AGEP]
kind = "integer"
min = 0
max = 99

[columns.MSP]
kind = "categorical"
values = ["1", "2", "6"]
missing = ["N"]
other = "N"

[columns.NPF]
kind = "integer"
min = 2
max = 6

[columns.NOC]
kind = "ordinal"
values = ["0", "1", "2", "3"]
universe = "NPF is not missing"
outside = "none"

[[zeros]]
when = "AGEP < 15 and MSP != 'N'"

[[zeros]]
when = "NOC >= NPF"
else = { NOC = "0" }
"""


def condition(text: str, schema: Schema) -> np.ndarray:
    """The truth of a condition on one variable, code by code."""
    ready = schema.layout.condition(parse_condition(text), place="here")
    (name,) = ready.variables
    return ready({name: np.arange(schema.domain[name])})


def codes(text: str, schema: Schema) -> list[int]:
    return np.flatnonzero(condition(text, schema)).tolist()


def test_the_rules_of_a_census_extract() -> None:
    schema = Schema.parse(ACS)
    universe, marriage, children = schema.rules.rules
    assert universe.text == "NOC is 'none' unless NPF is not missing"
    assert marriage.text == "never AGEP < 15 and MSP != 'N'"
    assert children.text == "never NOC >= NPF"
    assert marriage.clique == ("AGEP", "MSP")
    assert universe.clique == ("NPF", "NOC")
    ages = schema.rules.classes["AGEP"].groups
    assert ages == (*[0] * 15, *[1] * 86)  # 15 … 99 and the empty cell: not below 15
    assert schema.rules.classes["MSP"].groups == (0, 0, 0, 1)
    assert marriage.allowed.tolist() == [[False, True], [True, True]]
    assert schema.rules.classes["NOC"].groups == (0, 0, 1, 2, 3, 0)  # 3: outside; the last: everything else
    assert schema.rules.classes["NPF"].groups == (0, 1, 2, 2, 2, 3)  # 2 | 3 | 4, 5, 6 | missing


def test_tables_say_what_the_condition_says_of_every_combination() -> None:
    schema = Schema.parse(ACS)
    rule = schema.rules.rules[2]
    noc, npf = (schema.rules.classes[name].lookup for name in rule.clique)
    for n in range(schema.domain["NOC"]):
        for p in range(schema.domain["NPF"]):
            breaks = n < 4 and p < 5 and n >= p + 2
            assert rule.allowed[noc[n], npf[p]] == (not breaks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AGEP < 15", list(range(15))),
        ("AGEP <= 14.5", list(range(15))),
        ("AGEP > 97", [98, 99]),
        ("AGEP >= 97.5", [98, 99]),
        ("AGEP == 7.0", [7]),
        ("AGEP != 7", [*range(7), *range(8, 101)]),
        ("AGEP == ''", [100]),
        ("AGEP is missing", [100]),
        ("not AGEP < 99", [99, 100]),
        ("AGEP in [3, '5']", [3, 5]),
        ("AGEP < 1000", list(range(100))),
        ("AGEP > 1e300", []),
        ("MSP == 'N'", [3]),
        ("MSP != 'N'", [0, 1, 2]),
        ("MSP == 1", [0]),
        ("MSP is missing", [3]),
        ("NOC is missing", [5]),
        ("NOC == 'none'", [4]),
        ("NOC > '1'", [2, 3]),
        ("NOC <= 1", [0, 1]),
    ],
)
def test_tests_are_decided_on_codes(text: str, expected: list[int]) -> None:
    assert codes(text, Schema.parse(ACS)) == expected


def test_bins_are_compared_at_their_edges() -> None:
    schema = Schema(
        columns={
            "hours": IntegerColumn(name="hours", min=0, max=99, starts=(0, 20, 35, 36)),
            "wage": DecimalColumn(
                name="wage", edges=(Fraction(0), Fraction("7.5"), Fraction(20), Fraction(50))
            ),
            "capped": DecimalColumn(
                name="capped", edges=(Fraction(0), Fraction(5), Fraction(9)), top=9, bottom=0
            ),
            "age": IntegerColumn(name="age", min=0, max=84, top=85),
            "income": IntegerColumn(name="income", min=0, max=499, split=100),
        }
    )
    assert codes("hours < 20", schema) == [0]
    assert codes("hours <= 34", schema) == [0, 1]
    assert codes("hours == 35", schema) == [2]
    assert codes("wage < 7.5", schema) == [0]
    assert codes("wage >= 20", schema) == [2]
    assert codes("wage <= 50", schema) == [0, 1, 2]
    assert codes("capped <= 0", schema) == [0]
    assert codes("capped > 0", schema) == [1, 2, 3]
    assert codes("capped >= 9", schema) == [3]
    assert codes("age >= 85", schema) == [85]
    assert codes("age < 85", schema) == list(range(85))
    assert codes("income >= 200", schema) == [2, 3, 4]
    for text, hint in [
        ("hours < 19", "give it an edge"),
        ("hours == 20", "a bin of its own"),
        ("wage <= 7.5", "write < or >="),
        ("wage == 7.5", "a bin of its own"),
        ("capped < 0", "give it an edge"),
        ("age > 85", "give it an edge"),
        ("age == 85", "a bin of its own"),
        ("age > 90", "give it an edge"),
        ("income < 150", "give it an edge"),
        ("hours < age", "one code for each value"),
        ("income == age", "one code for each value"),
    ]:
        with pytest.raises(SchemaError) as caught:
            condition(text, schema)
        assert hint in caught.value.hint, text
        assert "here: " in caught.value.message


def test_dates_are_compared_as_dates() -> None:
    day = '[columns.{}]\nkind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\n'
    text = (
        day.format("born")
        + day.format("died")
        + 'format = "%d.%m.%Y"\n'
        + day.format("seen")
        + 'width = "month"\n'
    )
    schema = Schema.parse(
        text + '[columns.at]\nkind = "time"\nmin = "08:00"\nmax = "18:00"\nwidth = "hour"\n'
    )
    assert codes("born < '2020-01-04'", schema) == [0, 1, 2]
    assert codes("died == '02.01.2020'", schema) == codes("died == '2020-01-02'", schema) == [1]
    assert codes("seen >= '2020-11-01'", schema) == [10, 11]
    assert codes("seen <= '2020-01-31'", schema) == [0]
    assert codes("at < '10:00'", schema) == [0, 1]
    pair = schema.layout.condition(parse_condition("born > died"), place="here")
    assert pair({"born": np.array([4, 4, 4, 366]), "died": np.array([3, 4, 366, 1])}).tolist() == [
        True,
        False,
        False,
        False,
    ]
    same = schema.layout.condition(parse_condition("born == died"), place="here")
    assert same({"born": np.array([4, 4, 366]), "died": np.array([4, 5, 366])}).tolist() == [
        True,
        False,
        True,
    ]
    for text, message in [
        ("seen < '2020-01-31'", "2020-01-01 … 2020-01-31 lies on both sides"),
        ("born < 17", "which is no date"),
        ("born == '2019-01-01'", "is not a value of column 'born'"),
        ("born < at", "cannot be compared with another column"),
    ]:
        with pytest.raises(SchemaError, match=message):
            condition(text, schema)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("AGE < 15", "there is no column 'AGE'", "did you mean 'AGEP'?"),
        ('MSP == "N"', "there is no column 'N'", "single quotes"),
        ("MSP == 'M'", "'M' is not a value of column 'MSP'", "its values are '"),
        ("NOC == 'nome'", "not a value of column 'NOC'", "did you mean 'none'?"),
        ("MSP < '2'", "have no order", 'kind = "ordinal"'),
        ("AGEP < 'N'", "'N', which is no number", "compare with a number"),
        ("NOC < 'none'", "'none', which has no place in its order", "with =="),
        ("MSP < NOC", "have no common order", "two columns of numbers"),
    ],
)
def test_conditions_that_do_not_fit_the_columns_are_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(ACS + f'\n[[zeros]]\nwhen = """{text}"""')
    assert "[[zeros]] 3: " in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


COLUMN = '[columns.{}]\nkind = "categorical"\nvalues = ["1", "2"]\n'
TWO = COLUMN.format("a") + COLUMN.format("b")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (TWO + "universe = \"b == '1'\"\noutside = 'N'", "universe of column 'b' depends on itself", "other columns"),
        (
            COLUMN.format("a") + "universe = \"b == '1'\"\noutside = 'N'\n"
            + COLUMN.format("b") + "universe = \"a == '1'\"\noutside = 'N'",
            "universes of 'a', 'b' depend on each other in a circle",
            "[[zeros]]",
        ),
        (TWO + "universe = 'a = 1'\noutside = 'N'", "the universe of column 'b': '=' has no meaning", "=="),
        (TWO + "[[zeros]]\nwhen = \"a == '1' or a != '1'\"", "rule alone forbids every value of column 'a'", "only"),
        (TWO + "[[zeros]]\nwhen = 'a == b or a != b'", "this rule alone forbids every row", "only"),
        (TWO + "[[zeros]]\nwhen = \"a == '1'\"\nelse = { A = '2' }", "else names 'A'", "did you mean 'a'?"),
        (
            TWO + "[[zeros]]\nwhen = \"a in ['1', '']\"\n[[zeros]]\nwhen = \"a == '2'\"",
            "leave column 'a' no code: never a in ['1', '']; never a == '2'",
            "contradict",
        ),
        (
            TWO + "[[zeros]]\nwhen = 'a == b'\n[[zeros]]\nwhen = 'a != b'",
            "no code",
            "contradict",
        ),
        (TWO + "[[zeros]]\nelse = { a = '1' }", "[[zeros]] 1 does not say when", "when ="),
        (TWO + "[[zeros]]\nwhen = \"a == '1'\"\nelse = { b = '1' }", "still one that cannot occur", "break"),
        (TWO + "[[zeros]]\nwhen = \"a == '1'\"\nelse = { a = '3' }", "'3', which is not a value", "special code"),
        (TWO + "[[zeros]]\nwhen = \"a == '1'\"\nelse = { c = '3' }", "else names 'c'", "columns of the condition"),
        (TWO + "[[zeros]]\nwhn = \"a == '1'\"", "unknown key 'whn'", "did you mean 'when'?"),
        ("zeros = 3\n" + TWO, "zeros is not a list of tables", "[[zeros]]"),
        (TWO + "[[invariants]]\nby = ['a']", "without a [geography]", "declare levels"),
    ],
)  # fmt: skip
def test_contradictions_are_found_when_a_schema_is_loaded(text: str, message: str, hint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_rules_over_too_many_classes_are_refused() -> None:
    columns = {
        name: IntegerColumn(name=name, min=0, max=199, universe=None)
        for name in ("a", "b", "c", "d", "e", "f")
    }
    pairs = " and ".join(f"{one} < {two}" for one, two in [("a", "b"), ("b", "c"), ("c", "d")])
    with pytest.raises(SchemaError, match="combinations of classes; 1048576 is the most"):
        Schema(columns=columns, zeros=(StructuralZero(when=pairs),))
    wide = {name: IntegerColumn(name=name, min=0, max=4000) for name in ("a", "b")}
    with pytest.raises(SchemaError, match="combinations of codes; 4194304 is the most"):
        Schema(columns=wide, zeros=(StructuralZero(when="a < b"),))
    huge = {"a": IntegerColumn(name="a", min=0, max=10**7)}
    assert Schema(columns=huge).domain["a"] == 10**7 + 2
    with pytest.raises(SchemaError, match="codes; rules and maps take"):
        Schema(columns=huge, zeros=(StructuralZero(when="a < 5"),))


def test_long_chains_of_rules_are_seen_through() -> None:
    names = [f"c{i}" for i in range(12)]
    columns = {name: CategoricalColumn(name=name, values=("1", "2")) for name in names}
    chain = [StructuralZero(when=f"{a} == '1' and {b} != '1'") for a, b in pairwise(names)]
    ends = [StructuralZero(when="c0 != '1'"), StructuralZero(when="c11 == '1'")]
    assert Schema(columns=columns, zeros=(*chain, ends[0])).rulebook.groups[0]["c11"] == 0
    with pytest.raises(SchemaError, match="no code"):
        Schema(columns=columns, zeros=(*chain, *ends))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("AGEP < 15 and", "AGEP < 16 and"),
        ('else = { NOC = "0" }', 'else = { NOC = "1" }'),
        ('"NPF is not missing"', '"NPF is missing"'),
        ('outside = "none"', 'outside = "nil"'),
    ],
)
def test_the_digest_changes_with_every_rule(old: str, new: str) -> None:
    assert old in ACS
    assert Schema.parse(ACS.replace(old, new)).digest != Schema.parse(ACS).digest


def test_the_digest_ignores_how_a_rule_is_written() -> None:
    text = ACS.replace("AGEP < 15 and MSP != 'N'", "(15 > AGEP) and (MSP!='N')")
    assert Schema.parse(text.replace("NPF is not missing", "not NPF is missing")) == Schema.parse(ACS)
