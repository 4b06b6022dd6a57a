"""The layout of codes: domain first, then missing codes, then everything else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import SchemaError
from populace.schema.codec.decoder import arrow_type, code_labels
from populace.schema.codec.encoder import encode_values
from populace.schema.columns.bins import compute_edges
from populace.schema.columns.column import CategoricalColumn, Column, OrdinalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn


@pytest.mark.parametrize(
    ("column", "size", "other_code", "specials"),
    [
        (CategoricalColumn(name="x", values=("a", "b")), 3, 2, ("",)),
        (CategoricalColumn(name="x", values=("a", "b"), other="z"), 3, 2, ("z",)),
        (CategoricalColumn(name="x", values=("a", "b"), other="a"), 2, 0, ()),
        (CategoricalColumn(name="x", values=("a", "b"), missing=("R", "")), 4, 3, ("R", "")),
        (CategoricalColumn(name="x", values=("", "b")), 2, 0, ()),
        (OrdinalColumn(name="x", values=("a",), missing=("R",), other="R"), 2, 1, ("R",)),
        (IntegerColumn(name="x", min=5, max=9), 6, 5, ("",)),
        (IntegerColumn(name="x", min=5, max=9, other="7.0"), 5, 2, ()),
        (IntegerColumn(name="x", min=0, max=99, starts=range(0, 100, 30)), 5, 4, ("",)),
        (DecimalColumn(name="x", edges=(Fraction(0), Fraction(1), Fraction(2)), other="1.5"), 2, 1, ()),
        (DecimalColumn(name="x", edges=(Fraction(0), Fraction(1)), missing=("-9",)), 3, 2, ("-9", "")),
    ],
)
def test_layout(column: Column, size: int, other_code: int, specials: tuple[str, ...]) -> None:
    assert (column.size, column.other_code, column.specials) == (size, other_code, specials)
    assert len(code_labels(column)) == size


def test_bins_by_width_and_by_edges_are_the_same_column() -> None:
    by_edges = IntegerColumn(name="x", min=0, max=9, starts=(0, 5))
    assert by_edges == IntegerColumn(name="x", min=0, max=9, starts=range(0, 10, 5))
    assert [by_edges.bounds(level) for level in range(2)] == [(0, 4), (5, 9)]
    assert compute_edges("x", low=Fraction(0), high=Fraction(1), width=Fraction(2, 5)) == (
        Fraction(0),
        Fraction(2, 5),
        Fraction(4, 5),
        Fraction(1),
    )


def test_edges_may_be_python_numbers_and_keep_their_written_value() -> None:
    column = DecimalColumn(name="x", edges=(0, 0.1, 1))  # type: ignore[arg-type]
    assert column.edges == (0, Fraction(1, 10), 1)
    with pytest.raises(SchemaError, match="not a finite decimal"):
        DecimalColumn(name="x", edges=(Fraction(0), Fraction(1, 3)))
    with pytest.raises(SchemaError, match="not a finite decimal"):
        DecimalColumn(name="x", edges=(0, float("nan")))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (CategoricalColumn(name="x", values=("1",)), "string"),
        (IntegerColumn(name="x", min=0, max=1), "int64"),
        (IntegerColumn(name="x", min=0, max=1, missing=("-1", "", "9e2")), "int64"),
        (IntegerColumn(name="x", min=0, max=1, missing=("0.5",)), "string"),
        (IntegerColumn(name="x", min=0, max=1, missing=("1" * 30,)), "string"),
        (IntegerColumn(name="x", min=0, max=1, other="none"), "string"),
        (DecimalColumn(name="x", edges=(Fraction(0), Fraction(1))), "double"),
        (DecimalColumn(name="x", edges=(Fraction(0), Fraction(1)), missing=("-1.5",)), "double"),
        (DecimalColumn(name="x", edges=(Fraction(0), Fraction(1)), missing=("R",)), "string"),
    ],
)
def test_types_come_from_the_schema(column: Column, kind: str) -> None:
    assert str(arrow_type(column)) == kind


def test_labels_are_short_texts() -> None:
    assert code_labels(
        CategoricalColumn(
            name="x", values=("1", "2"), missing=("R",), labels={"1": "one", "R": "refused", "": "none"}
        )
    ) == ("one", "2", "refused", "none")
    assert code_labels(IntegerColumn(name="x", min=-2, max=0, labels={"0": "zero"})) == (
        "-2",
        "-1",
        "zero",
        "(empty)",
    )
    assert code_labels(IntegerColumn(name="x", min=0, max=10, starts=(0, 5, 10), other="?")) == (
        "0–4",
        "5–9",
        "10",
        "?",
    )
    assert code_labels(
        DecimalColumn(name="x", edges=(Fraction(0), Fraction(1, 2), Fraction(10**30)), other="0")
    ) == (
        "[0, 0.5)",
        "[0.5, 1E+30]",
    )


def test_a_lone_surrogate_is_no_value() -> None:
    with pytest.raises(SchemaError, match="surrogate"):
        CategoricalColumn(name="x", values=("\ud800",))


def test_codes_take_the_smallest_type() -> None:
    sizes = {1: np.uint8, 256: np.uint8, 257: np.uint16, 65_536: np.uint16, 65_537: np.uint32}
    columns = {size: IntegerColumn(name="x", min=0, max=size - 1, other="0") for size in sizes}
    assert {size: encode_values(column, pa.array([0])).dtype for size, column in columns.items()} == sizes


def test_columns_are_values() -> None:
    column = CategoricalColumn(name="x", values=("a",), labels={"a": "A"})
    assert hash(column) == hash(CategoricalColumn(name="x", values=("a",), labels={"a": "A"}))
    with pytest.raises(AttributeError):
        column.name = "y"  # type: ignore[misc]
