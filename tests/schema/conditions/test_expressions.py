"""The language of conditions: what is read, how it is written back, and what is refused."""

from __future__ import annotations

import pytest

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.schema.conditions.condition_parser import (
    condition_columns,
    parse_condition,
)
from populace.schema.conditions.syntax_tree import And, Comparison, Literal, Missing, Name, Not, Operator, Or


def test_a_condition_becomes_a_tree() -> None:
    assert parse_condition("AGEP >= 15 and MSP != 'N'") == And(
        (
            Comparison(Name("AGEP"), Operator.AT_LEAST, Literal("15", quoted=False)),
            Comparison(Name("MSP"), Operator.UNEQUAL, Literal("N")),
        )
    )


def test_and_binds_closer_than_or_and_not_closest() -> None:
    a, b, c = (Missing(Name(name)) for name in "abc")
    assert parse_condition("a is missing or b is missing and c is missing") == Or((a, And((b, c))))
    assert parse_condition("(a is missing or b is missing) and c is missing") == And((Or((a, b)), c))
    assert parse_condition("not a is missing and b is missing") == And((Not(a), b))
    assert parse_condition("not (a is missing and b is missing)") == Not(And((a, b)))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("AGEP>=15", "AGEP >= 15"),
        ("15<=AGEP", "AGEP >= 15"),
        ("15 < AGEP", "AGEP > 15"),
        ("'N' == MSP", "MSP == 'N'"),
        ("((A == 1))", "A == 1"),
        ("(A == 1 and B == 2) and C == 3", "A == 1 and B == 2 and C == 3"),
        ("A == 1 or (B == 2 or C == 3)", "A == 1 or B == 2 or C == 3"),
        ("A == 1 and (B == 2 or C == 3)", "A == 1 and (B == 2 or C == 3)"),
        ("(A == 1 and B == 2) or C == 3", "A == 1 and B == 2 or C == 3"),
        ("not(A == 1)", "not A == 1"),
        ("not not A == 1", "A == 1"),
        ("not (A in [1])", "A not in [1]"),
        ("A not in [1,'b' ,1]", "A not in [1, 'b']"),
        ("A is  not   missing", "A is not missing"),
        ("not A is missing", "A is not missing"),
        ("\"income>50K\" == 'it''s'", "`income>50K` == 'it''s'"),
        ("`a``b` < -1.5e3", "`a``b` < -1.5e3"),
        ("`not` == 1", "`not` == 1"),
        ("`a not in [b` not in [1]", "`a not in [b` not in [1]"),
        ("größe > NOC", "größe > NOC"),
        ("A==''", "A == ''"),
        ("A ==\t1\n and B==2", "A == 1 and B == 2"),
    ],
)
def test_conditions_have_one_canonical_form(written: str, canonical: str) -> None:
    assert str(parse_condition(written)) == canonical
    assert parse_condition(canonical) == parse_condition(written)


def test_columns_are_named_once_in_order() -> None:
    assert condition_columns(parse_condition("B == 1 or not (A < B or C in [2]) and D is missing")) == (
        "B",
        "A",
        "C",
        "D",
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "missing before the end", "single quotes"),
        ("A", "a comparison is missing before the end", "=="),
        ("hours-per-week >= 20", "'-' has no meaning", "write `hours-per-week` in backquotes"),
        ("hours-1 >= 20", "a comparison is missing before '-1'", "write `hours-1` in backquotes"),
        (
            "marital status == '1'",
            "a comparison is missing before 'status'",
            "`marital status` in backquotes",
        ),
        ("A => 18", "'=' has no meaning", "did you mean >=?"),
        ("birth >= 2010-01-01", "'-01' is one too many", "single quotes: '2010-01-01'"),
        ("born < 01.02.2010", "", "single quotes: '01.02.2010'"),
        ("at < 12:30", "':' has no meaning", "single quotes: '12:30'"),
        ("A = 1", "'=' has no meaning here:\n  A = 1\n    ^", "write =="),
        ("A == 1 && B == 2", "'&' has no meaning", "write and"),
        ("0 < A < 9", "'<' is one too many:\n  0 < A < 9\n        ^", "two things at a time"),
        ("A == 1 B == 2", "'B' is one too many", "join conditions"),
        ("(A == 1", "')' is missing before the end", "close"),
        ("A == 1)", "')' is one too many", "join"),
        ("A in 1", "'[' is missing before '1'", "square brackets"),
        ("A in []", "a column or a value is missing before ']'", "single quotes"),
        ("A in [1, B]", "'B' in a list is not a value", "single quotes"),
        ("A in [1 2]", "']' is missing before '2'", "commas"),
        ("A is 1", "'missing' is missing before '1'", "is missing"),
        ("A not 1", "not stands between", "not in"),
        ("1 == 2", "no column", "single quotes"),
        ("A == 'open", '"\'" has no meaning here', "close the text"),
        ("A == `open", "'`' has no meaning here", "close the column"),
        ("and == 1", "missing before 'and'", "single quotes"),
        ("A == 1e999", "too large", "finite"),
        ("__import__('os')", "a comparison is missing before '('", "=="),
        ("A == 1; B", "';' has no meaning", "made of columns"),
    ],
)
def test_what_is_no_condition_is_refused_with_a_caret(text: str, message: str, hint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_condition(text)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.message.endswith("^")


def test_hostile_texts_are_refused_and_crash_nothing() -> None:
    for text in (
        "(" * 30_000,
        "not " * 10_000,
        "(" * (LIMITS.max_condition_depth + 2) + "A == 1" + ")" * (LIMITS.max_condition_depth + 2),
    ):
        with pytest.raises(SchemaError, match="nested too deeply"):
            parse_condition(text)
    with pytest.raises(SchemaError, match=f"{LIMITS.max_condition_length} is the most"):
        parse_condition("A == 1 or " * LIMITS.max_condition_length)
    with pytest.raises(SchemaError):
        parse_condition("A == \x00\x1b[31m")


def test_long_flat_conditions_are_fine() -> None:
    text = " or ".join(f"A == {i}" for i in range(4000))
    assert str(parse_condition(text)) == text
    nested = "(" * LIMITS.max_condition_depth + "A == 1" + ")" * LIMITS.max_condition_depth
    assert str(parse_condition(nested)) == "A == 1"


def test_only_the_neighbourhood_of_a_mistake_is_shown() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_condition("A == 1 or " * 100 + "A = 1")
    first, second = caught.value.message.splitlines()[1:]
    assert len(first) < 130
    assert first[second.index("^")] == "="
