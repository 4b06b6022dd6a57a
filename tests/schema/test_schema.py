"""The schema file: what it says, what it refuses, and what its digest depends on."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from populace.core.errors import ResourceError, SchemaError
from populace.schema.columns.column import CategoricalColumn, OrdinalColumn, Origin
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import OutOfRange
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit

DATA = Path(__file__).parents[3] / "shared" / "data"

ACS = """
[table]
dataset = "acs-ma-2019"
unit = "person"
rows_per_unit = 3
id = "SERIALNO"
neighbours = "replace-one"
max_rows = 10_000

[columns.SEX]
kind = "categorical"
values = ["1", "2"]
labels = { "1" = "male", "2" = "female" }
origin = "codebook"

[columns.EDU]
kind = "ordinal"
values = [1, 2, 3]
missing = ["N"]
other = "N"

[columns.AGEP]
kind = "integer"
min = 0
max = 99

[columns.WKHP]
kind = "integer"
edges = [0, 20, 35, 99]
missing = [-1]
beyond = "other"

[columns.DENSITY]
kind = "numeric"
min = 0
max = 2.5
width = 0.1

[columns.PINCP]
kind = "numeric"
edges = [-10000, 0, 0.5, 1e6]
missing = ["R"]
"""


def test_a_schema_says_what_its_file_says() -> None:
    schema = Schema.parse(ACS)
    assert schema.dataset == "acs-ma-2019"
    assert schema.max_rows == 10_000
    assert schema.unit == PrivacyUnit(name="person", rows=3, id="SERIALNO", neighbours=Neighbours.REPLACE_ONE)
    assert list(schema.columns) == ["SEX", "EDU", "AGEP", "WKHP", "DENSITY", "PINCP"]
    assert schema.columns["SEX"] == CategoricalColumn(
        name="SEX", values=("1", "2"), labels={"1": "male", "2": "female"}, origin=Origin.CODEBOOK
    )
    assert schema.columns["EDU"] == OrdinalColumn(
        name="EDU", values=("1", "2", "3"), missing=("N",), other="N"
    )
    assert schema.columns["AGEP"] == IntegerColumn(name="AGEP", min=0, max=99)
    assert schema.columns["WKHP"] == IntegerColumn(
        name="WKHP", min=0, max=99, starts=(0, 20, 35), missing=("-1",), beyond=OutOfRange.OTHER
    )
    density = schema.columns["DENSITY"]
    assert isinstance(density, DecimalColumn)
    assert density.edges == tuple(Fraction(i, 10) for i in range(26))
    assert dict(schema.domain) == {"SEX": 3, "EDU": 4, "AGEP": 101, "WKHP": 5, "DENSITY": 26, "PINCP": 5}


def test_toml_comes_back_as_it_was() -> None:
    schema = Schema.parse(ACS)
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert dict(again.columns) == dict(schema.columns)
    assert again.to_toml() == schema.to_toml()


def test_the_digest_ignores_how_a_schema_is_written() -> None:
    one = '[columns.a]\nkind = "integer"\nmin = 0\nmax = 9\nother = "0"\n[columns.b]\nkind="ordinal"\nvalues=[1, 2]'
    two = """# the same
[columns]
a = { other = "0", max = 0x9, min = 0, kind = "integer" }

[columns.b]
values = ["1", "2"]
kind = "ordinal"
"""
    assert Schema.parse(one).digest == Schema.parse(two).digest
    assert Schema.parse(one) == Schema.parse(two)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"2"]', '"2", "3"]'),
        ("max = 99", "max = 98"),
        ('"male"', '"man"'),
        ('"person"', '"household"'),
        ("rows_per_unit = 3", "rows_per_unit = 2"),
        ('"replace-one"', '"add-remove"'),
        ('missing = ["R"]', 'missing = ["Q"]'),
        ("width = 0.1", "width = 0.2"),
        ('beyond = "other"', 'beyond = "nearest"'),
        ('"acs-ma-2019"', '"acs-ma-2018"'),
        ("[columns.AGEP]", "[columns.AGE]"),
        ('other = "N"', 'other = "M"'),
    ],
)
def test_the_digest_sees_every_change(old: str, new: str) -> None:
    assert old in ACS
    assert Schema.parse(ACS.replace(old, new, 1)).digest != Schema.parse(ACS).digest


def test_the_order_of_columns_is_part_of_the_digest() -> None:
    assert Schema.from_sizes({"a": 2, "b": 3}) != Schema.from_sizes({"b": 3, "a": 2})
    assert len({Schema.from_sizes({"a": 2, "b": 3}), Schema.from_sizes({"a": 2, "b": 3})}) == 1


def test_the_digest_is_pinned() -> None:
    """Ledgers and releases hold digests: a change of the canonical form would orphan them."""
    assert Schema.from_sizes({"a": 2}).digest == (
        "c975885fe74019610cf8be6a67511f67814f631670e75e8a23ff3d6a5502af9b"
    )


COLUMN = "[columns.x]\n"
INTEGER = COLUMN + 'kind = "integer"\n'
NUMERIC = COLUMN + 'kind = "numeric"\n'
VALUES = COLUMN + 'kind = "categorical"\n'


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "no columns", "[columns.NAME]"),
        ("[columns]", "no columns", "[columns.NAME]"),
        ("[columns.x", "not valid TOML", "schema show"),
        ("columns = 3", "columns is not a table", "[columns.NAME]"),
        ("[columns]\nx = 3", "x is not a table", "[columns.x]"),
        ("[colums.x]", "unknown key 'colums'", "did you mean 'columns'?"),
        ("[[zeros]]\nwhen = 'a'", "[[zeros]] 1: a comparison is missing before the end", "write one of =="),
        ("[[invariants]]\nby = ['a', 'b']", "[[invariants]] 1 does not name one level", "by = []"),
        ("[table]\ndataste = 'a'", "unknown key 'dataste'", "did you mean 'dataset'?"),
        ("[table]\nneighbours = 'replace_one'", "neighbours is 'replace_one'", "did you mean 'replace-one'?"),
        ("[table]\nrows_per_unit = 2", "no id column", 'id = "column"'),
        ("[table]\nrows_per_unit = 0", "rows_per_unit is 0", "1 or more"),
        ("[table]\nrows_per_unit = 1.5", "not whole", "whole"),
        ("[table]\nrows_per_unit = true", "not a finite number", "plain number"),
        ("[table]\nmax_rows = 0\n" + VALUES + "values = ['a']", "max_rows is 0", "1 or more"),
        ("[table]\nid = 'x'\n" + VALUES + "values = ['a']", "is the id", "take it out"),
        (COLUMN, "no kind", "categorical"),
        (COLUMN + "vaules = ['a']", "unknown key 'vaules'", "did you mean 'values'?"),
        (COLUMN + "kind = 'int'", "kind is 'int'", "did you mean 'integer'?"),
        (COLUMN + "kind = 'catgorical'", "kind is 'catgorical'", "did you mean 'categorical'?"),
        (COLUMN + "kind = 'date'", "from where to where", "min and max"),
        (COLUMN + "kind = ['a']", "not a text", "quotes"),
        (VALUES + "values = 3", "not a list", "values = ["),
        (VALUES + 'values = "lern"', "values is 'lern'", 'write a list, or "learn"'),
        (VALUES + "values = [1]\ntype = 'int'", "type is 'int'", "'integer'"),
        ("[columns.marital status]", "not valid TOML", '[columns."marital status"]'),
        ('[[zeros]]\nwhen = "SEX == "2""', "not valid TOML", "use single quotes: when"),
        ("[columns.a]\n[columns.a]", "not valid TOML", "column 'a' is declared twice"),
        ("[columns.a]\nmin = 1\nmin = 2", "not valid TOML", "a key stands twice"),
        (INTEGER + "min = 30\ntop = 20", "min 30 is above top 20", "increase"),
        (VALUES, "no values", "list its values"),
        (VALUES + "values = ['a', 'a']", "'a' is listed twice", "once"),
        (VALUES + "values = ['a', [1]]", "not a text", "quotes"),
        (VALUES + "values = ['a']\nmissing = ['a']", "'a' is also a value", "take it out"),
        (VALUES + "values = ['a']\nmissing = ['b', 'b']", "'b' is declared twice", "once"),
        (VALUES + "values = ['a']\nlabels = { b = 'B' }", "label for 'b'", "label only"),
        (VALUES + "values = ['a']\norigin = 'guess'", "origin is 'guess'", "codebook"),
        (VALUES + "values = ['a']\norigin = 'learnt'", "origin is 'learnt'", "declared"),
        (VALUES + "values = ['a']\nmin = 0", "unknown key 'min'", "allowed here"),
        (VALUES + "values = ['a']\nparent = 'x'", "own parent", "coarser"),
        (VALUES + "values = ['a']\nfunction_of = ['y']", "without a map", "file.json"),
        (VALUES + "values = ['a']\nuniverse = 'y'", "universe without outside", "give both"),
        (INTEGER, "from where to where", "min and max"),
        (INTEGER + "min = 0", "from where to where", "min and max"),
        (INTEGER + "min = 5\nmax = 1", "min 5 is above max 1", "swap"),
        (INTEGER + "min = 0\nmax = 1.5", "not whole", "whole"),
        (INTEGER + "min = 0\nmax = '9'", "not a finite number", "without quotes"),
        (INTEGER + "min = 0\nmax = inf", "not a finite number", "plain number"),
        (INTEGER + "min = 0\nmax = 9\nwidth = 0", "width 0", "1 or more"),
        (INTEGER + "min = 0\nmax = 9\nmissing = ['5']", "'5' is also a value", "take it out"),
        (INTEGER + "min = 0\nmax = 9\nmissing = ['5.0']", "'5.0' is also a value", "take it out"),
        (INTEGER + "min = 0\nmax = 9\nmissing = ['-9', '-9.0']", "two special codes", "once"),
        (INTEGER + "min = 0\nmax = 4_294_967_296", "4294967298 codes", "width"),
        (INTEGER + "min = 0\nmax = 9_007_199_254_740_992", "beyond 2**53", "categorical"),
        (INTEGER + "edges = [0, 5]\nmin = 0", "edges beside min", "leave the others out"),
        (INTEGER + "edges = [0, 5, 3]", "do not increase", "increasing"),
        (INTEGER + "edges = [0, 0, 3]", "do not increase", "increasing"),
        (INTEGER + "edges = [0]", "fewer than two edges", "edges = ["),
        (INTEGER + "min = 0\nmax = 9\nbeyond = 'far'", "beyond is 'far'", "nearest"),
        (NUMERIC + "min = 0\nmax = 9", "no bins", "width"),
        (NUMERIC + "min = 0\nmax = 9\nbins = 'lern'", "bins can only be 'learn'", "width"),
        (NUMERIC + "min = 0\nmax = 9\nwidth = 1\nbins = 'learn'", "beside width", "leave the others out"),
        (NUMERIC + "min = 0\nmax = 9\nwidth = -1", "width -1", "above zero"),
        (NUMERIC + "min = 0\nmax = 9\nwidth = nan", "not a finite number", "plain number"),
        (NUMERIC + "min = 0\nmax = 0\nwidth = 1", "both 0", "min < max"),
        (NUMERIC + "min = 0\nmax = 1e300\nwidth = 1", "65536 is the most", "larger width"),
        (NUMERIC + "edges = [0, 1, 1]", "do not increase", "sort"),
        (NUMERIC + "edges = [0, 1, 0.5]", "do not increase", "sort"),
        (NUMERIC + "edges = [1, 1.00000000000000000001]", "do not increase", "precision of floats"),
        (NUMERIC + "edges = [0, 1e999]", "not a finite number", "plain number"),
        (NUMERIC + "edges = [0, 1]\nmissing = ['0.5']", "'0.5' is also a value", "take it out"),
    ],
)
def test_nonsense_is_refused_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(text)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_columns_that_look_the_same_are_refused() -> None:
    with pytest.raises(SchemaError, match="look the same"):
        Schema.from_sizes({"caf\u00e9": 2, "cafe\u0301": 2})
    assert len(Schema.from_sizes({"age": 2, "AGE": 2}).columns) == 2


def test_a_domain_file_gives_exactly_its_sizes(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    path.write_text('{"age": 85, "income>50K": 2}')
    schema = Schema.load(path)
    assert dict(schema.domain) == {"age": 85, "income>50K": 2}
    assert schema.columns["age"].other_code == 0
    assert Schema.parse(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"age": 0}', "'age' is not a whole number"),
        ('{"age": "85"}', "'age' is not a whole number"),
        ('{"age": true}', "'age' is not a whole number"),
        ('{"schema": {"age": 1}}', "'schema' is not a whole number"),
        ('{"age": 85, "age": 3}', "'age' twice"),
        ("[85]", "no object"),
        ('{"age": 85', "not valid JSON"),
        ("{}", "no columns"),
        ('{"age": 99999999999}', "99999999999 codes"),
        ('{" ": 3}', "empty name"),
        ('{"format": "populace codebook 1", "schema": ""}', "a file of a release (populace codebook 1)"),
    ],
)
def test_a_bad_domain_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "domain.json"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert message in caught.value.message


@pytest.mark.parametrize(("name", "text"), [("my.toml", "[table"), ("my.json", "{"), ("my.json", "[1]")])
def test_a_file_that_is_no_schema_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=name) as caught:
        Schema.load(tmp_path / name)
    assert "docs/" not in caught.value.hint, "an installed copy has no such folder"


def test_a_schema_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(ACS, encoding="utf-8-sig")
    assert Schema.load(path) == Schema.parse(ACS)


def test_a_schema_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schema file"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match="is a folder"):
        Schema.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[table]\ndataset = "\xe9"')
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.load(tmp_path / "latin.toml")
    with pytest.raises(SchemaError, match="not a path"):
        Schema.load("a\0b")


def test_a_locked_schema_is_a_matter_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(self: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", locked)
    with pytest.raises(ResourceError, match="Permission denied"):
        Schema.load(tmp_path / "schema.toml")


@pytest.mark.skipif(not DATA.exists(), reason="the shared data sets are not on this machine")
def test_real_domain_files_load() -> None:
    paths = sorted(DATA.glob("*/*domain.json"))
    assert paths
    for path in paths:
        schema = Schema.load(path)
        assert Schema.parse(schema.to_toml()) == schema
