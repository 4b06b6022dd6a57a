"""The layout of codes: domain first, then missing codes, then everything else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.errors import SchemaError
from populace.schema.bins import width_edges
from populace.schema.codec import arrow_type, labels
from populace.schema.columns import Categorical, Column, Ordinal
from populace.schema.encoder import code_type
from populace.schema.ranges import Integer, Numeric


@pytest.mark.parametrize(
    ("column", "size", "other_code", "specials"),
    [
        (Categorical(name="x", values=("a", "b")), 3, 2, ("",)),
        (Categorical(name="x", values=("a", "b"), other="z"), 3, 2, ("z",)),
        (Categorical(name="x", values=("a", "b"), other="a"), 2, 0, ()),
        (Categorical(name="x", values=("a", "b"), missing=("R", "")), 4, 3, ("R", "")),
        (Categorical(name="x", values=("", "b")), 2, 0, ()),
        (Ordinal(name="x", values=("a",), missing=("R",), other="R"), 2, 1, ("R",)),
        (Integer(name="x", min=5, max=9), 6, 5, ("",)),
        (Integer(name="x", min=5, max=9, other="7.0"), 5, 2, ()),
        (Integer(name="x", min=0, max=99, starts=range(0, 100, 30)), 5, 4, ("",)),
        (Numeric(name="x", edges=(Fraction(0), Fraction(1), Fraction(2)), other="1.5"), 2, 1, ()),
        (Numeric(name="x", edges=(Fraction(0), Fraction(1)), missing=("-9",)), 3, 2, ("-9", "")),
    ],
)
def test_layout(column: Column, size: int, other_code: int, specials: tuple[str, ...]) -> None:
    assert (column.size, column.other_code, column.specials) == (size, other_code, specials)
    assert len(labels(column)) == size


def test_bins_by_width_and_by_edges_are_the_same_column() -> None:
    by_edges = Integer(name="x", min=0, max=9, starts=(0, 5))
    assert by_edges == Integer(name="x", min=0, max=9, starts=range(0, 10, 5))
    assert [by_edges.bounds(level) for level in range(2)] == [(0, 4), (5, 9)]
    assert width_edges("x", low=Fraction(0), high=Fraction(1), width=Fraction(2, 5)) == (
        Fraction(0),
        Fraction(2, 5),
        Fraction(4, 5),
        Fraction(1),
    )


def test_edges_may_be_python_numbers_and_keep_their_written_value() -> None:
    column = Numeric(name="x", edges=(0, 0.1, 1))  # type: ignore[arg-type]
    assert column.edges == (0, Fraction(1, 10), 1)
    with pytest.raises(SchemaError, match="not a finite decimal"):
        Numeric(name="x", edges=(Fraction(0), Fraction(1, 3)))
    with pytest.raises(SchemaError, match="not a finite decimal"):
        Numeric(name="x", edges=(0, float("nan")))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Categorical(name="x", values=("1",)), "string"),
        (Integer(name="x", min=0, max=1), "int64"),
        (Integer(name="x", min=0, max=1, missing=("-1", "", "9e2")), "int64"),
        (Integer(name="x", min=0, max=1, missing=("0.5",)), "string"),
        (Integer(name="x", min=0, max=1, missing=("1" * 30,)), "string"),
        (Integer(name="x", min=0, max=1, other="none"), "string"),
        (Numeric(name="x", edges=(Fraction(0), Fraction(1))), "double"),
        (Numeric(name="x", edges=(Fraction(0), Fraction(1)), missing=("-1.5",)), "double"),
        (Numeric(name="x", edges=(Fraction(0), Fraction(1)), missing=("R",)), "string"),
    ],
)
def test_types_come_from_the_schema(column: Column, kind: str) -> None:
    assert str(arrow_type(column)) == kind


def test_labels_are_short_texts() -> None:
    assert labels(
        Categorical(
            name="x", values=("1", "2"), missing=("R",), labels={"1": "one", "R": "refused", "": "none"}
        )
    ) == ("one", "2", "refused", "none")
    assert labels(Integer(name="x", min=-2, max=0, labels={"0": "zero"})) == ("-2", "-1", "zero", "(empty)")
    assert labels(Integer(name="x", min=0, max=10, starts=(0, 5, 10), other="?")) == ("0–4", "5–9", "10", "?")
    assert labels(Numeric(name="x", edges=(Fraction(0), Fraction(1, 2), Fraction(10**30)), other="0")) == (
        "[0, 0.5)",
        "[0.5, 1E+30]",
    )


def test_a_lone_surrogate_is_no_value() -> None:
    with pytest.raises(SchemaError, match="surrogate"):
        Categorical(name="x", values=("\ud800",))


def test_codes_take_the_smallest_type() -> None:
    sizes = {1: np.uint8, 256: np.uint8, 257: np.uint16, 65_536: np.uint16, 65_537: np.uint32}
    assert {size: code_type(size).type for size in sizes} == sizes


def test_columns_are_values() -> None:
    column = Categorical(name="x", values=("a",), labels={"a": "A"})
    assert hash(column) == hash(Categorical(name="x", values=("a",), labels={"a": "A"}))
    with pytest.raises(AttributeError):
        column.name = "y"  # type: ignore[misc]
