"""Whole tables to codes and back: rules enforced row by row, functions computed, splits joined."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import DataError
from populace.private.private_table import PrivateTable
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.table_codec import TableCodec
from populace.schema.schema import Schema
from tests.schema.conditions.test_function_columns import LEVELS
from tests.schema.conditions.test_rules import ACS


def encoded(schema: Schema, rows: list[dict[str, object]]) -> list[dict[str, int]]:
    codec = TableCodec(schema)
    codes = codec.encode({name: pa.array([row[name] for row in rows]) for name in codec.input_columns})
    return [{name: int(codes[name][place]) for name in codes} for place in range(len(rows))]


def through(schema: Schema, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows as they would be published if nothing but the rules happened to them."""
    codec = TableCodec(schema)
    codes = codec.encode({name: pa.array([row[name] for row in rows]) for name in codec.input_columns})
    return codec.decode(codes, rng=np.random.default_rng(1)).to_pylist()


def test_rows_are_moved_as_the_rules_say() -> None:
    rows = [
        {"AGEP": "40", "MSP": "1", "NPF": "4", "NOC": "2"},  # keeps every rule
        {"AGEP": "14", "MSP": "1", "NPF": "4", "NOC": "2"},  # a married child: MSP can only be N
        {"AGEP": "14", "MSP": "N", "NPF": "", "NOC": "2"},  # outside the universe of NOC
        {"AGEP": "40", "MSP": "N", "NPF": "4", "NOC": "none"},  # inside it, but says outside
        {"AGEP": "40", "MSP": "N", "NPF": "2", "NOC": "3"},  # more children than persons
        {"AGEP": "14", "MSP": "2", "NPF": "2", "NOC": "3"},  # two zeros at once
    ]
    assert through(Schema.parse(ACS), rows) == [
        {"AGEP": 40, "MSP": "1", "NPF": 4, "NOC": "2"},
        {"AGEP": 14, "MSP": "N", "NPF": 4, "NOC": "2"},
        {"AGEP": 14, "MSP": "N", "NPF": None, "NOC": "none"},
        {"AGEP": 40, "MSP": "N", "NPF": 4, "NOC": None},
        {"AGEP": 40, "MSP": "N", "NPF": 2, "NOC": "0"},
        {"AGEP": 14, "MSP": "N", "NPF": 2, "NOC": "0"},
    ]


COLUMN = '[columns.{}]\nkind = "categorical"\nvalues = ["1", "2", "3"]\n'


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("a == '1' and b == '1'", {"a": "1", "b": None}),  # the last column becomes everything else
        ("b == '1' and a == '1'", {"a": None, "b": "1"}),
        ("a == '1' and b in ['1', '']", {"a": "1", "b": "2"}),  # which may be forbidden: then its first code
        (
            "a == '1' and (b == '1' or b is missing or b != '1')",
            {"a": None, "b": "1"},
        ),  # or else an earlier one
        ("a in ['1', '', '2'] and (b == '1' or b != '1')", {"a": "3", "b": "1"}),
    ],
)
def test_a_row_in_a_zero_moves_in_the_last_column_that_helps(when: str, expected: dict[str, object]) -> None:
    schema = Schema.parse(COLUMN.format("a") + COLUMN.format("b") + f'[[zeros]]\nwhen = "{when}"')
    assert through(schema, [{"a": "1", "b": "1"}]) == [expected]


def test_rules_that_undo_each_other_end_in_a_row_that_keeps_them_all() -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    zeros = [f"{one} == '1' and {two} != '1'" for one, two in zip(names, [*names[1:], "a"], strict=True)]
    zeros += ["a != '2' and f != '2'", "f == '2' and a == '2'"]
    text = "".join(map(COLUMN.format, names)) + "".join(f'[[zeros]]\nwhen = "{zero}"\n' for zero in zeros)
    schema = Schema.parse(text)
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.choice(["1", "2", "3", "x"], size=500) for name in names})
    codec = TableCodec(schema)
    held = codec.decode(codec.encode(dict(zip(names, table.columns, strict=True))), rng=rng)
    assert set(codec.count_violations(held).values()) == {0}
    assert sum(codec.count_violations(table).values()) > 100


def test_universes_are_settled_in_the_order_they_depend_on_each_other() -> None:
    text = (
        COLUMN.format("c") + "universe = \"b == '1'\"\noutside = 'N'\n"
        + COLUMN.format("b") + "universe = \"a == '1'\"\noutside = 'N'\n"
        + COLUMN.format("a")
    )  # fmt: skip
    schema = Schema.parse(text)
    assert [universe.variable for universe in schema.rulebook.universes] == ["b", "c"]
    assert through(schema, [{"a": "2", "b": "1", "c": "1"}, {"a": "1", "b": "N", "c": "2"}]) == [
        {"c": "N", "b": "N", "a": "2"},
        {"c": "N", "b": None, "a": "1"},
    ]


def test_functions_are_computed_exactly_and_never_read() -> None:
    schema = Schema.parse(LEVELS)
    codec = TableCodec(schema)
    assert codec.input_columns == ("INDP", "PUMA")
    table = codec.decode(
        codec.encode(
            {"INDP": pa.array(["0170", "N", "?"]), "PUMA": pa.array(["25-02800", "44-01000", None])}
        ),
        rng=np.random.default_rng(1),
    )
    assert table.column_names == ["INDP", "INDP_CAT", "STATE", "PUMA"]
    assert table["INDP_CAT"].to_pylist() == ["agriculture", "N", None]
    assert table["STATE"].to_pylist() == ["25", "44", None]
    assert codec.count_violations(table) == {"INDP_CAT follows from INDP": 0, "STATE follows from PUMA": 0}
    wrong = table.set_column(2, "STATE", pa.array(["44", "44", "25"]))
    assert codec.count_violations(wrong) == {"INDP_CAT follows from INDP": 0, "STATE follows from PUMA": 2}


def test_functions_of_functions_and_of_several_columns() -> None:
    schema = Schema.parse(
        COLUMN.format("top") + 'function_of = ["mid"]\nmap = { "1" = "3", "2" = "1" }\n'
        + COLUMN.format("mid") + 'function_of = ["a", "b"]\nmap = [["1", "1", "1"], ["1", "2", "2"], ["3", "", "2"]]\n'
        + COLUMN.format("a") + COLUMN.format("b")
    )  # fmt: skip
    rows = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "3", "b": "?"}, {"a": "2", "b": "2"}]
    assert [(row["mid"], row["top"]) for row in through(schema, rows)] == [
        ("1", "3"),
        ("2", "1"),
        ("2", "1"),
        (None, None),
    ]
    assert schema.layout.view("top").variables == ("a", "b")


def test_a_function_gives_the_very_number_of_its_map() -> None:
    schema = Schema.parse(
        COLUMN.format("size")
        + '[columns.area]\nkind = "numeric"\nedges = [0, 50, 100]\n'
        + 'function_of = "size"\nmap = { "1" = "12.5", "2" = "99.25" }\n'
        + '[columns.rooms]\nkind = "integer"\nedges = [1, 3, 9]\nfunction_of = "size"\nmap = { "1" = 2, "2" = 7 }\n'
    )
    table = through(schema, [{"size": "1"}, {"size": "2"}, {"size": "3"}])
    assert [row["area"] for row in table] == [12.5, 99.25, None]
    assert [row["rooms"] for row in table] == [2, 7, None]


SPLIT = """
[columns.AGE]
kind = "integer"
min = 0
max = 9

[columns.WAGE]
kind = "integer"
min = 0
max = 4999
top = 5000
split = 100
missing = ["R"]
universe = "AGE >= 5"
outside = "N"

[[zeros]]
when = "AGE == 9 and WAGE >= 3000"
"""


def test_split_columns_are_two_variables_and_one_column() -> None:
    schema = Schema.parse(SPLIT)
    assert list(schema.domain) == ["AGE", "WAGE // 100", "WAGE % 100"]
    wages = ["1234", "9999", "R", "1234", "x", "3456", "N"]
    ages = [5, 6, 7, 4, 8, 9, 9]
    rows = [{"AGE": age, "WAGE": wage} for age, wage in zip(ages, wages, strict=True)]
    assert [row["WAGE"] for row in through(schema, rows)] == ["1234", "5000", "R", "N", None, None, None]
    fine = [row["WAGE % 100"] for row in encoded(schema, rows)]
    assert fine == [34, 0, 0, 0, 0, 0, 0]


def test_schemas_without_rules_are_encoded_column_by_column() -> None:
    schema = Schema.from_sizes({"a": 300, "b": 7})
    rng = np.random.default_rng(2)
    table = pa.table({"a": rng.integers(-5, 400, 1000), "b": rng.integers(-5, 10, 1000)})
    codes = TableCodec(schema).encode({"a": table["a"], "b": table["b"]})
    for name, column in schema.columns.items():
        assert np.array_equal(codes[name], encode_values(column, table[name]))
        assert codes[name].dtype == encode_values(column, table[name]).dtype


def test_functions_need_not_be_in_the_data(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("INDP,PUMA\n0170,25-00703\nN,44-01000\n")
    schema = Schema.parse(LEVELS)
    assert {name: codes.tolist() for name, codes in read_codes(open_source(path), schema).items()} == {
        "INDP": [0, 3],
        "PUMA": [0, 2],
    }
    PrivateTable.of(path, schema=schema)
    path.write_text("INDP,STATE\n0170,25\n")
    with pytest.raises(DataError, match="no column 'PUMA'"):
        check_header(open_source(path), schema)


def test_rules_hold_across_batches_and_for_empty_tables(tmp_path: Path) -> None:
    schema = Schema.parse(ACS)
    path = tmp_path / "rows.csv"
    path.write_text("AGEP,MSP,NPF,NOC\n")
    assert {name: len(codes) for name, codes in read_codes(open_source(path), schema).items()} == {
        "AGEP": 0,
        "MSP": 0,
        "NPF": 0,
        "NOC": 0,
    }
    frame = pa.table({"AGEP": [14, 40], "MSP": ["1", "1"], "NPF": [2, None], "NOC": ["1", "1"]})
    codes = read_codes(open_source(frame), schema)
    assert {name: held.tolist() for name, held in codes.items()} == {
        "AGEP": [14, 40],
        "MSP": [3, 0],
        "NPF": [0, 5],
        "NOC": [1, 4],
    }


def test_codes_are_left_alone_where_they_keep_the_rules() -> None:
    schema = Schema.parse(ACS)
    codec = TableCodec(schema)
    rng = np.random.default_rng(3)
    codes = {name: rng.integers(0, size, 2000) for name, size in schema.domain.items()}
    held = codec.enforce(codes)
    again = codec.enforce(held)
    for name in codes:
        assert np.array_equal(again[name], held[name])
    assert any(not np.array_equal(held[name], codes[name]) for name in codes)


@pytest.mark.slow
def test_rules_cost_little() -> None:
    rows = 1_000_000
    rng = np.random.default_rng(1)
    plain = Schema.parse(
        ACS[: ACS.index("[[zeros]]")].replace('universe = "NPF is not missing"\noutside = "none"', "")
    )
    cells = {
        "AGEP": pa.array(rng.integers(0, 100, rows)),
        "MSP": pa.array(rng.choice(["1", "2", "6", "N"], rows)),
        "NPF": pa.array(rng.integers(2, 7, rows)),
        "NOC": pa.array(rng.choice(["0", "1", "2", "3"], rows)),
    }
    spent = []
    for schema in (plain, Schema.parse(ACS)):
        codec = TableCodec(schema)
        start = time.process_time()
        codec.encode(cells)
        spent.append(time.process_time() - start)
    assert spent[1] < 5 * spent[0] + 1
