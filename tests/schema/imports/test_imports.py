"""Schemas from codebooks: what each format becomes, what overlays add, and that real codebooks fit."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from populace.core.errors import SchemaError, UsageError
from populace.schema.codec.decoder import decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.table_codec import TableCodec
from populace.schema.imports.detect_format import KNOWN_FORMATS, import_document
from populace.schema.imports.draft import ObservedCells, draft_from_rows, draft_schema
from populace.schema.imports.overlay import PACKAGED, lay_over, packaged_overlays
from populace.schema.imports.round_bins import integer_bins, round_edges
from populace.schema.imports.schema_document import SchemaDocument
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

DATA = Path(__file__).parents[4] / "shared" / "data"
ACS, CENSUS = DATA / "nist-acs", DATA / "nist2018-colorado"
EXCERPTS = ["ma2018", "national2018", "ma2019", "national2019"]
needs_acs = pytest.mark.skipif(not ACS.is_dir(), reason="needs the shared data")
needs_census = pytest.mark.skipif(not CENSUS.is_dir(), reason="needs the shared data")

EXCERPT = {
    "schema": {
        "PUMA": {"dtype": "object", "values": ["25-1", "25-2"]},
        "AGEP": {"dtype": "int64", "min": 3, "max": 94},
        "SEX": {"dtype": "int64", "values": [1, 2]},
        "MSP": {"has_null": True, "null_value": "N", "dtype": "object", "values": ["N", "1"]},
        "PINCP": {"has_null": True, "null_value": "N", "dtype": "object", "min": -4600, "max": 1000},
        "POVPIP": {"has_null": True, "null_value": "N", "dtype": "object", "min": 0, "max": 501},
        "DENSITY": {"dtype": "float64", "min": 1457, "max": 3683},
        "INDP": {"has_null": True, "null_value": "N", "dtype": "object", "values": ["N", "170", "9920"]},
        "WGTP": {"dtype": "int64", "min": 3, "max": 60},
    }
}
DICTIONARY = {
    "PUMA": {"description": "Area", "values": {"25-1": "Here", "25-2": "There", "48-1": "Elsewhere"}},
    "AGEP": {"description": "Age", "values": {"min": 0, "max": 99}},
    "SEX": {"description": "Sex", "values": {"1": "Male", "2": "Female"}},
    "MSP": {"description": "Marital status", "values": {"N": "under 15", "1": "married", "2": "not"}},
    "PINCP": {"description": "Income", "values": {"N": "under 15", "min": -9000, "max": 1341000}},
    "POVPIP": {"description": "Ratio", "values": {"N": "N/A", "min": 0, "max": 500, "501": "above"}},
    "DENSITY": {"description": "Density", "values": {"min": 16.3, "max": 52864.7}},
    "INDP": {"description": "Industry"},
    "WGTP": {"description": "Weight", "values": {"0": "group quarters", "min": 1, "max": 9999}},
}
SPECS = {
    "SEX": {"type": "enum", "maxval": 2},
    "AGE": {"type": "enum", "maxval": 6},
    "EDUC": {"type": "enum", "maxval": 99},
    "RENT": {"type": "enum", "maxval": 9999},
    "VALUEH": {"type": "enum", "maxval": 9999999},
    "INCWAGE": {"type": "enum", "maxval": 999998},
}
CODEBOOK = (
    "Description: an extract\n SEX\t\tSex\n1\t\tMale\n2\t\tFemale\n\n"
    " AGE\t\tAge\n000\t\tLess than 1 year old\n"
    "001\t\t1\n002\t\t2\n003\t\t3\n004\t\t4\n005\t\t5\n006\t\t6\n098\t\tUnknown\n\n"
    " EDUC\t\tSchool\n\t\tElementary school:\n00\t\tN/A\n01\t\tNursery school\n02\t\tGrade 1\n"
)


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def excerpt(tmp_path: Path) -> SchemaDocument:
    told = write(tmp_path, "dictionary.json", DICTIONARY)
    return import_document(write(tmp_path, "ma.json", EXCERPT), dictionary=told)


@pytest.fixture
def census(tmp_path: Path) -> SchemaDocument:
    told = write(tmp_path, "codebook.cbk", CODEBOOK)
    return import_document(write(tmp_path, "specs.json", SPECS), dictionary=told)


def test_domain_json_is_the_schema_that_load_makes_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, "domain.json", {"age": 85, "income>50K": 2})
    assert Schema.parse(import_document(path).text()) == Schema.load(path)


def test_dictionary_goes_before_what_the_rows_happen_to_hold(excerpt: SchemaDocument) -> None:
    """A list taken from rows is declared; the dictionary's is the codebook's, values without a row included."""
    assert excerpt.columns["PUMA"]["values"] == ["25-1", "25-2"], "the areas that the excerpt was made of"
    assert excerpt.columns["AGEP"] == {
        "kind": "integer",
        "min": 0,
        "max": 99,
        "origin": "codebook",
        "other": "0",
    }
    declared = {name for name, keys in excerpt.columns.items() if keys["origin"] == "declared"}
    assert declared == {"PUMA", "INDP"}


def test_excerpt_without_dictionary_is_declared(tmp_path: Path) -> None:
    document = import_document(write(tmp_path, "ma.json", EXCERPT))
    schema = Schema.parse(document.text())
    assert list(schema.columns) == list(EXCERPT["schema"])
    assert {str(column.origin) for column in schema.columns.values()} == {"declared"}


def test_null_is_a_missing_code_and_takes_what_lies_outside(excerpt: SchemaDocument) -> None:
    schema = Schema.parse(excerpt.text())
    for name, column in schema.columns.items():
        assert "" not in column.specials, f"{name} gained an empty code"
    assert schema.columns["MSP"].missing == ("N",)
    assert encode_values(schema.columns["MSP"], pa.array(["N", "7", None])).tolist() == [2, 2, 2]


def test_numbers_get_round_bins_from_public_ends(excerpt: SchemaDocument) -> None:
    income = excerpt.columns["PINCP"]["edges"]
    assert income[0] == -9000
    assert income[-1] == 1341000
    assert {0, 1, 10_000, 100_000} <= set(income)
    assert 20 < len(income) < 60
    assert excerpt.columns["POVPIP"]["top"] == 501
    assert excerpt.columns["WGTP"]["edges"][:2] == [0, 1]
    density = excerpt.columns["DENSITY"]
    assert density["kind"] == "numeric"
    assert density["edges"][0] == Fraction("16.3")
    assert all(a < b for a, b in zip(density["edges"], density["edges"][1:], strict=False))


def test_whole_codes_stay_whole_numbers(excerpt: SchemaDocument) -> None:
    sex = Schema.parse(excerpt.text()).columns["SEX"]
    codes = encode_values(sex, pa.array([2, 1]))
    assert decode_codes(sex, codes, rng=np.random.default_rng(1)).equals(pa.array([2, 1]))


def test_codebook_codes_are_read_with_and_without_zeros(census: SchemaDocument) -> None:
    schema = Schema.parse(census.text())
    school = schema.columns["EDUC"]
    assert encode_values(school, pa.array(["01", "1", " 1"])).tolist() == [1, 1, 1]
    assert encode_values(school, pa.array([1, 99])).tolist() == [1, 3]
    assert decode_codes(school, np.array([1, 3]), rng=np.random.default_rng(1)).equals(pa.array([1, 99]))


def test_codes_that_are_numbers_become_numbers(census: SchemaDocument) -> None:
    age = census.columns["AGE"]
    assert (age["kind"], age["min"], age["max"], age["missing"]) == ("integer", 0, 6, ["098"])


def test_columns_without_a_list_are_whole_numbers(census: SchemaDocument) -> None:
    assert census.columns["RENT"]["max"] == 9999
    assert "edges" not in census.columns["RENT"]
    assert census.columns["VALUEH"]["missing"] == ["9999998", "9999999"]
    assert census.columns["INCWAGE"]["missing"] == ["999998"]
    assert len(census.columns["VALUEH"]["edges"]) < 60


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("PUMA,AGEP\n1,2\n", "not understood"),
        ({"PUMA": "text"}, "not understood"),
        ([1, 2], "not understood"),
        ({}, "not understood"),
        (DICTIONARY, "data dictionary"),
        (CODEBOOK, "is a codebook"),
        ({"age": 0}, "size of column 'age'"),
        ({"age": {"type": "enum", "maxval": -1}}, "maxval of column 'age'"),
        ({"schema": {"age": {"dtype": "int64"}}}, "neither values nor min and max"),
        ('{"age": 2, "age": 3}', "twice"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, content: Any, part: str) -> None:
    with pytest.raises(SchemaError, match=part):
        import_document(write(tmp_path, "file.json", content))


def test_refusal_names_the_formats(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as refusal:
        import_document(write(tmp_path, "file.json", "a,b\n"))
    assert refusal.value.hint == KNOWN_FORMATS
    for format_name in ("domain.json", "NIST excerpt", "codebook.cbk"):
        assert format_name in KNOWN_FORMATS


def test_dictionaries_belong_to_their_files(tmp_path: Path) -> None:
    sizes, book = write(tmp_path, "domain.json", {"a": 2}), write(tmp_path, "book.cbk", CODEBOOK)
    excerpt, told = write(tmp_path, "ma.json", EXCERPT), write(tmp_path, "told.json", DICTIONARY)
    specs = write(tmp_path, "specs.json", SPECS)
    for file, dictionary in ((sizes, told), (excerpt, sizes), (excerpt, book), (specs, told)):
        with pytest.raises(UsageError):
            import_document(file, dictionary=dictionary)


def test_dictionary_of_another_shape_is_refused(tmp_path: Path) -> None:
    told = write(tmp_path, "told.json", {"AGEP": {"description": "Age", "values": ["0", "1"]}})
    with pytest.raises(SchemaError, match="'AGEP' are not an object"):
        import_document(write(tmp_path, "ma.json", EXCERPT), dictionary=told)


def test_document_is_toml_whatever_the_names() -> None:
    names = ['a "b"', "c.d", "é\x7f", "x" * 200]
    labels = {f"{i:03}": "label " * 5 for i in range(50)}
    columns = {name: {"kind": "categorical", "values": sorted(labels), "labels": labels} for name in names}
    text = SchemaDocument(columns=columns, notes={names[0]: "two\nlines\x00"}, zeros=({"when": "a"},)).text()
    found = tomllib.loads(text)
    assert found["columns"] == columns
    assert found["zeros"] == [{"when": "a"}]


def test_bins_cover_their_range() -> None:
    for low, high in ((0, 9999), (-500, 3), (17, 10**7), (0, 999), (-5, 5), (1000, 5000), (-9000, -2000)):
        bins = integer_bins(low, high)
        ends = (bins["min"], bins["max"]) if "min" in bins else (bins["edges"][0], bins["edges"][-1])
        assert ends == (low, high)
    edges = round_edges(Fraction(-3), Fraction(12345), whole=True)
    assert list(edges) == sorted(set(edges))


# ── overlays ────────────────────────────────────────────────────────────────────────────────────────


def overlaid(document: SchemaDocument, folder: Path, text: str) -> SchemaDocument:
    return lay_over(document, str(write(folder, "overlay.toml", text)))


def test_overlay_replaces_keys_and_adds_rules(excerpt: SchemaDocument, tmp_path: Path) -> None:
    text = """
        table = { unit = "person" }
        zeros = [{ when = "AGEP < 16 and INDP != 'N'" }]
        [columns.MSP]
        universe = "AGEP >= 15"
        outside = "N"
        [columns.WGTP]
        min = 1
        outside = 0
        universe = "SEX == 1"
        [columns.POVPIP]
        edges = [0, 100, 501]
    """
    found = overlaid(excerpt, tmp_path, text)
    assert found.table == {"unit": "person"}
    assert found.zeros == ({"when": "AGEP < 16 and INDP != 'N'"},)
    msp = found.columns["MSP"]
    assert "missing" not in msp, "the outside code is no missing code"
    assert msp["other"] == "1", "outside and everything else are two things"
    assert msp["labels"]["N"] == "under 15"
    weight = found.columns["WGTP"]
    assert (weight["min"], weight["max"], weight["other"]) == (1, 9999, "1")
    assert "edges" not in weight
    assert not {"min", "max", "width"} & found.columns["POVPIP"].keys()
    assert excerpt.columns["MSP"]["missing"] == ["N"], "the document itself does not change"


def test_overlay_narrows_values_with_their_labels_and_maps(excerpt: SchemaDocument, tmp_path: Path) -> None:
    write(tmp_path, "density.json", {"25-1": 16.3, "25-2": 90})
    text = """
        [columns.PUMA]
        values = ["25-2"]
        [columns.DENSITY]
        function_of = ["PUMA"]
        map = "density.json"
        [columns.STATE]
        kind = "categorical"
        values = ["25"]
        function_of = ["PUMA"]
        map = { "25-2" = "25" }
    """
    found = overlaid(excerpt, tmp_path, text)
    assert found.columns["PUMA"]["labels"] == {"25-2": "There"}
    assert found.columns["PUMA"]["other"] == "25-2"
    assert found.columns["DENSITY"]["map"] == {"25-2": "90"}, "read from beside the overlay, and inlined"
    assert list(found.columns)[-1] == "STATE", "a new column must be a function"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[columns.MSPP]\nother = '1'", "did you mean 'MSP'"),
        ("[columns.NEW]\nkind = 'integer'", "only a function"),
        ("[colums.MSP]\nother = '1'", "did you mean 'columns'"),
        ("columns = 3", "columns is not a table"),
        ("zeros = 3", "not a list of tables"),
        ("x = [", "not valid TOML"),
        ("[columns.MSP]\nmin = inf", "not finite"),
        ("[columns.MSP]\nmap = 'overlay.toml'", "is not valid JSON"),
        ("[columns.MSP]\nmap = 'none.json'", "column 'MSP': there is no map file '/.*none.json'"),
        ("[columns.marital status]\nother = '1'", "marital status"),
    ],
)
def test_overlay_mistakes_are_explained(
    excerpt: SchemaDocument, tmp_path: Path, text: str, part: str
) -> None:
    with pytest.raises(UsageError, match=part):
        overlaid(excerpt, tmp_path, text)


def test_unknown_overlay_lists_those_that_exist() -> None:
    with pytest.raises(SchemaError, match="did you mean 'nist-acs'"):
        lay_over(SchemaDocument(columns={}), "nist_acs")
    with pytest.raises(SchemaError) as refusal:
        lay_over(SchemaDocument(columns={}), "somewhere/else.toml")
    assert (
        refusal.value.message
        == "there is no file 'somewhere/else.toml', and no built-in overlay of that name."
    )
    assert all(repr(name) in refusal.value.hint for name in packaged_overlays())


@pytest.mark.parametrize("name", packaged_overlays())
def test_packaged_overlays_ask_for_a_dictionary(name: str) -> None:
    with pytest.raises(SchemaError, match=f"overlay '{name}' .*\nhint: .*--dictionary"):
        lay_over(SchemaDocument(columns={"AGEP": {"kind": "integer", "origin": "declared"}}), name)


def test_overlay_that_moves_other_into_the_domain_says_so(excerpt: SchemaDocument, tmp_path: Path) -> None:
    text = "[columns.MSP]\nuniverse = 'AGEP >= 15'\noutside = 'N'\n"
    (remark,) = overlaid(excerpt, tmp_path, text).remarks
    assert remark.startswith("in 'MSP' everything unknown now becomes '1' (")
    assert remark.endswith("set other = … in the overlay to choose")
    assert overlaid(excerpt, tmp_path, text + "other = '2'").remarks == ()


def test_packaged_overlays_are_shipped() -> None:
    root = Path(__file__).parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
        "package-data"
    ]
    assert "schema/overlays/*" in patterns["populace"]
    assert root / "src" / "populace" / "schema" / "overlays" == PACKAGED


# ── drafts ──────────────────────────────────────────────────────────────────────────────────────────


def test_draft_is_no_schema_until_it_is_filled_in() -> None:
    document = draft_schema(
        {"age": ("whole", "int64"), "name": ("", ""), "ok": ("truth", "bool")}, dataset="people"
    )
    assert [name for name, keys in document.columns.items() if not keys] == ["age", "name"]
    text = document.text()
    assert text.count("fill in") == 2
    with pytest.raises(SchemaError, match="age"):
        Schema.parse(text)
    assert tomllib.loads(text)["columns"]["ok"] == {"kind": "categorical", "values": ["false", "true"]}


def test_draft_from_public_rows_is_a_schema() -> None:
    seen = {
        "age": ObservedCells(texts=frozenset(map(str, range(95)))),
        "income": ObservedCells(texts=frozenset([*(f"{n}.5" for n in range(500)), "N"])),
        "sex": ObservedCells(texts=frozenset({"1", "2"}), typed_whole=True),
        "town": ObservedCells(texts=frozenset({"b", "a", "3"})),
        "empty": ObservedCells(texts=frozenset()),
    }
    document = draft_from_rows(seen, dataset="people")
    assert document.columns["income"]["missing"] == ["N"]
    assert document.columns["income"]["decimals"] == 1
    assert document.columns["town"]["values"] == ["3", "a", "b"]
    assert document.text().count("from rows of public data") == len(seen)
    schema = Schema.parse(document.text())
    assert {str(column.origin) for column in schema.columns.values()} == {"declared"}


def test_draft_from_public_rows_leaves_out_what_is_no_list() -> None:
    document = draft_from_rows(
        {"id": ObservedCells(texts=frozenset(f"p{n}" for n in range(5000)))}, dataset="people"
    )
    assert [name for name, keys in document.columns.items() if not keys] == ["id"]


# ── the real codebooks ──────────────────────────────────────────────────────────────────────────────


def acs(name: str, *overlays: str) -> Schema:
    document = import_document(ACS / f"{name}.json", dictionary=ACS / "data_dictionary.json")
    for overlay in overlays:
        document = lay_over(document, overlay)
    return Schema.parse(document.text())


def rows(name: str) -> pa.Table:
    header = (ACS / f"{name}.csv").read_text("utf-8").partition("\n")[0].split(",")
    texts = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
    )
    return pyarrow.csv.read_csv(ACS / f"{name}.csv", convert_options=texts)


@needs_acs
@pytest.mark.parametrize("name", sample_cases(EXCERPTS, to=2))
@pytest.mark.parametrize("overlays", [(), ("nist-acs",)], ids=["plain", "overlay"])
def test_excerpts_come_back_as_they_were(name: str, overlays: tuple[str, ...]) -> None:
    """Every cell has a code; codes of one value give the cell back as it was written."""
    schema, table = acs(name, *overlays), rows(name)
    assert list(schema.columns) == table.column_names
    for column_name, column in schema.columns.items():
        cells = table.column(column_name).combine_chunks()
        assert "" not in column.specials
        codes = encode_values(column, cells)
        again = decode_codes(column, codes, rng=np.random.default_rng(1))
        assert (encode_values(column, again) == codes).all(), column_name
        if column.kind in ("categorical", "ordinal"):
            assert again.cast(pa.string()).equals(cells), column_name


@needs_acs
@pytest.mark.parametrize("name", EXCERPTS)
def test_no_real_row_breaks_a_rule(name: str) -> None:
    broken = TableCodec(acs(name, "nist-acs")).count_violations(rows(name))
    assert len(broken) == 9 + 13 + 2, "universes, zeros and functions"
    assert {text: count for text, count in broken.items() if count} == {}


@needs_acs
def test_an_excerpt_has_only_the_areas_it_was_made_of() -> None:
    areas = {name: acs(name, "nist-acs").columns["PUMA"] for name in EXCERPTS}
    assert {name: column.levels for name, column in areas.items()} == {
        name: 5 if name.startswith("ma") else 20 for name in EXCERPTS
    }
    assert {str(column.origin) for column in areas.values()} == {"declared"}


@needs_census
@pytest.mark.slow
@pytest.mark.parametrize("overlays", [(), ("nist2018",)], ids=["plain", "overlay"])
def test_every_code_of_the_1940_codebook_comes_back(overlays: tuple[str, ...]) -> None:
    from populace.schema.imports.challenge_specs import parse_codebook

    book = parse_codebook((CENSUS / "codebook.cbk").read_text("utf-8"))
    specs = json.loads((CENSUS / "colorado-specs.json").read_text("utf-8"))
    document = import_document(CENSUS / "colorado-specs.json", dictionary=CENSUS / "codebook.cbk")
    for overlay in overlays:
        document = lay_over(document, overlay)
    schema = Schema.parse(document.text())
    assert list(schema.columns) == list(specs)
    assert len(specs) == 98
    for name, column in schema.columns.items():
        most = specs[name]["maxval"]
        codes = [int(code) for code in book[name].codes] if name in book else [*range(min(most, 2000)), most]
        whole = pa.array([*codes, most])
        found = encode_values(column, whole)
        padded = encode_values(
            column, pa.array([str(code).zfill(9)[-len(str(most)) :] for code in [*codes, most]])
        )
        again = decode_codes(column, found, rng=np.random.default_rng(1))
        assert again.type == pa.int64(), name
        assert (encode_values(column, again) == found).all(), name
        if name not in ("VALUEH", "INCWAGE"):
            assert (padded == found).all(), name
            assert again.equals(whole), name
        else:
            assert again[-1].as_py() == most, "a code stands apart from amounts"
