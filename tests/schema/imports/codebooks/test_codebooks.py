"""Codebooks and questionnaires: what each becomes, what is left open, what is listed, and that universes hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import SchemaError
from populace.schema.codec.table_codec import TableCodec
from populace.schema.imports.codebooks.codebook_document import (
    list_open_columns,
    merge_documents,
    settle_document,
)
from populace.schema.imports.codebooks.ddi_codebook import from_ddi, parse_xml
from populace.schema.imports.detect_format import import_document
from populace.schema.imports.schema_document import SchemaDocument
from populace.schema.schema import Schema
from tests.helpers.latent_class_model import simulate_rows
from tests.schema.imports.codebooks import codebook_files as files

DDI_FOLDER = Path(__file__).parents[5] / "shared" / "data" / "ddi"
ROWS = 400


def read(folder: Path, name: str) -> SchemaDocument:
    paths = []
    for file, text in files.FORMATS[name][0].items():
        paths.append(folder / file)
        paths[-1].write_text(text, encoding="utf-8")
    return settle_document(import_document(paths[0], dictionary=paths[1] if paths[1:] else None))


def fill(text: str, filled: dict[str, str]) -> str:
    for name, keys in filled.items():
        assert f"[columns.{name}]\n" in text
        text = text.replace(f"[columns.{name}]\n", f"[columns.{name}]\n{keys}\n")
    return text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", files.FORMATS)
def test_codebook_to_schema_to_release_with_universes_that_hold(name: str, tmp_path: Path) -> None:
    document = read(tmp_path, name)
    _, filled, asked = files.FORMATS[name]
    assert list_open_columns(document) == list(filled), (
        "what nobody may take from rows is left open, and nothing else"
    )
    with pytest.raises(SchemaError, match="is a draft") if filled else _nothing():
        Schema.parse(document.text())
    schema = Schema.parse(fill(document.text(), filled))
    people = simulate_rows(schema, rows=ROWS, rng=np.random.default_rng(1))
    release = pp.synthesize(
        people, schema=schema, epsilon=20, delta="1e-6", method="mst", ledger=tmp_path / "l.db", dataset=name
    )
    assert not any(TableCodec(schema).count_violations(release.table).values())
    rows = release.table.to_pylist()
    assert len(rows) > ROWS / 2
    assert set(asked) == {n for n, c in schema.columns.items() if c.universe} - _also_asked(name)
    for column, has_value in asked.items():
        told = {has_value(row) for row in rows}
        assert told == {True, False}, f"{column}: one side of its universe is empty"
        assert all((row[column] is not None) == has_value(row) for row in rows), column


def _also_asked(name: str) -> set[str]:
    return {"travel/bus"} if name == "xlsform" else set()


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("redcap", 11, "datediff() has no counterpart"),
        ("redcap", 3, "it identifies people"),
        ("xlsform", 11, "count-selected() has no counterpart"),
        ("xlsform", 11, "no plain range"),
        ("xlsform", 12, "a row of another table"),
        ("survey-solutions", None, "spouse: condition"),
        ("survey-solutions", None, "plot: the question"),
        ("ddi", 13, "universe “Persons of 15 and older”"),
        ("ddi", 16, "the weight"),
        ("pums", 13, "less than 16 years old/did not work"),
        ("frictionless", None, "constraint minLength"),
        ("sdv", None, "mail: sdtype email"),
        ("plain", 8, "universe “nobody knows”"),
    ],
)
def test_what_is_not_translated_is_listed_with_its_line(
    name: str, line: int | None, words: str, tmp_path: Path
) -> None:
    found = [remark for remark in read(tmp_path, name).remarks if words in remark]
    assert found
    assert line is None or f"line {line}," in found[0]
    assert line is not None or " line " in found[0]


def test_a_weight_is_what_is_declared_as_one() -> None:
    book = from_ddi(
        '<codeBook><var name="KG"><labl>Body weight (kg)</labl></var><var name="CM" wgt="not-wgt"/>'
        '<var name="W" wgt="wgt"><labl>Design factor</labl></var></codeBook>'
    )
    assert [variable.name for variable in book.variables] == ["KG", "CM"]
    assert [left.name for left in book.untranslated] == ["W"]


def test_categories_without_a_label_are_not_taken() -> None:
    """A tabulation of the rows lists what occurs in them: whoever was 107, or lives in a hamlet."""
    categories = "".join(
        f"<catgry><catValu>{value}</catValu><catStat>1</catStat></catgry>" for value in ("41", "107")
    )
    named = "<catgry><catValu>1</catValu><labl>Town</labl></catgry>"
    book = from_ddi(
        f'<codeBook><var name="AGE" intrvl="discrete">{categories}</var>'
        f'<var name="PLACE" intrvl="discrete">{named}{categories}</var></codeBook>'
    )
    age, place = book.variables
    assert (age.choices, bool(age.open_because)) == ({}, True)
    assert place.choices == {"1": "Town"}
    assert [(left.name, left.what) for left in book.untranslated] == [("PLACE", "categories without a label")]


def test_nothing_that_was_computed_from_rows_is_taken(tmp_path: Path) -> None:
    """Frequencies, summaries and ranges of archives: the numbers stand nowhere in the draft."""
    for name in ("ddi", "frictionless", "sdv"):
        text = read(tmp_path, name).text()
        for number in ("451", "466", "917", "88123"):
            assert number not in text
    assert "may come from rows" in read(tmp_path, "ddi").notes["INCOME"]


def test_ranges_of_a_sheet_that_describes_rows_are_left_open(tmp_path: Path) -> None:
    sheet = "variable,label,value,{}min,max\nincome,Income,,{}12,918233\n"
    (tmp_path / "asked.csv").write_text(sheet.format("", ""), "utf-8")
    (tmp_path / "described.csv").write_text(sheet.format("N,mean,", "53,41000,"), "utf-8")
    asked, described = (read_sheet(tmp_path / f"{name}.csv") for name in ("asked", "described"))
    assert "918233" in str(asked)
    assert "918233" not in str(described)
    assert "kind" not in described


def read_sheet(path: Path) -> dict[str, object]:
    return dict(import_document(path).columns["income"])


def test_labels_missing_codes_and_words_of_the_question_are_kept(tmp_path: Path) -> None:
    age = read(tmp_path, "xlsform").columns["age"]
    assert (age["label"], age["description"], age["min"], age["max"]) == (
        "How old are you?",
        "in years",
        0,
        110,
    )
    sex = read(tmp_path, "plain").columns["sex"]
    assert sex["missing"] == ["9", ""]
    assert sex["labels"] == {"1": "male", "2": "female", "9": "refused"}
    assert read(tmp_path, "ddi").columns["SEX"]["values"] == ["1", "2"]
    schema = Schema.parse("\n".join(read(tmp_path, "pums").text().splitlines()))
    assert schema.columns["AGEP"].label == "Age"
    assert Schema.parse(schema.to_toml()) == schema
    assert schema.columns["SCHL"].universe == "AGEP >= 3"


def test_a_box_that_was_not_shown_is_not_ticked(tmp_path: Path) -> None:
    document = read(tmp_path, "redcap")
    assert document.columns["illness____1"]["values"] == ["0", "1"]
    assert {"when": "not age >= 18 and illness___1 == '1'"} in [dict(zero) for zero in document.zeros]


def test_bins_have_edges_where_conditions_compare(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(
        "variable,value,value label,min,max,universe\npay,,,0,100000,\nrich,1,yes,,,pay >= 31234\n,2,no,,,\n",
        "utf-8",
    )
    document = settle_document(import_document(path))
    assert 31234 in document.columns["pay"]["edges"]
    assert Schema.parse(document.text()).columns["rich"].universe == "pay >= 31234"


def test_a_universe_that_does_not_compile_is_taken_out_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(
        "variable,value,value label,min,max,universe\nsex,1,m,,,\n,2,f,,,\nage,,,0,99,sex == '7'\n"
        "a,1,,,,b == '1'\nb,1,,,,a == '1'\nc,1,,,,nobody == '1'\n",
        "utf-8",
    )
    document = settle_document(import_document(path))
    assert "universe" not in document.columns["age"]
    assert any("c.csv line 4, age: universe “sex == '7'”" in remark for remark in document.remarks)
    assert any("no column 'nobody'" in remark for remark in document.remarks)
    assert any("circle" in remark for remark in document.remarks)
    Schema.parse(document.text())


def test_sources_are_merged(tmp_path: Path) -> None:
    """Labels and codes from one file, universes from the questionnaire; a code for “not applicable” is kept."""
    codes = tmp_path / "codes.csv"
    codes.write_text(
        "variable,label,value,value label,min,max\nage,Age,,,0,110\nworks,Work,yes,Yes\n,,no,No\n,,N,not applicable\n"
        "hours,,,,,\n",
        "utf-8",
    )
    survey, choices = tmp_path / "survey.csv", tmp_path / "choices.csv"
    survey.write_text(files.XLSFORM_SURVEY, "utf-8")
    choices.write_text(files.XLSFORM_CHOICES, "utf-8")
    merged = merge_documents(import_document(codes), import_document(survey, dictionary=choices))
    document = settle_document(merged)
    assert list(document.columns) == ["age", "works", "hours"], "the first file says which columns there are"
    works = document.columns["works"]
    assert (works["values"], works["outside"], works["universe"]) == (["yes", "no"], "N", "age >= 15")
    assert document.columns["hours"]["max"] == 99, "an open domain is filled by the other file"
    assert document.columns["hours"]["label"] == "Hours a week"
    assert any("left out" in remark and "mood" in remark for remark in document.remarks)
    Schema.parse(document.text())


def test_workbook_is_the_form_that_its_sheets_are(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from populace.schema.imports.codebooks.sheets import parse_csv_lines

    book = openpyxl.Workbook()
    for name, text in (("survey", files.XLSFORM_SURVEY), ("choices", files.XLSFORM_CHOICES)):
        sheet = book.create_sheet(name)
        for _, cells in parse_csv_lines(text):
            sheet.append(cells)
    book.save(tmp_path / "form.xlsx")
    found = settle_document(import_document(tmp_path / "form.xlsx"))
    assert found.columns == read(tmp_path, "xlsform").columns


def test_labels_in_a_stata_file_become_values_and_a_questionnaire_adds_universes(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    import pandas

    rows = pandas.DataFrame({"age": [917.0, 5.0], "works": [1.0, 8.0], "pay": [31.5, 88123.0]})
    pyreadstat.write_dta(
        rows,
        str(tmp_path / "people.dta"),
        column_labels={"age": "Age", "works": "Work", "pay": "Pay"},
        variable_value_labels={"works": {1: "yes", 2: "no", 8: "not applicable"}},
    )
    universe = tmp_path / "questions.csv"
    universe.write_text("variable,value,min,max,universe\nage,,0,110,\nworks,1,,,age >= 15\n,2,,,\n", "utf-8")
    found = [import_document(tmp_path / "people.dta"), import_document(universe)]
    assert list_open_columns(found[0]) == ["age", "pay"], "ranges are nowhere but in the rows"
    document = settle_document(merge_documents(*found))
    works = document.columns["works"]
    assert (works["label"], works["values"], works["outside"]) == ("Work", ["1", "2"], "8")
    assert works["universe"] == "age >= 15"
    assert list_open_columns(document) == ["pay"]
    assert not any(number in document.text() for number in ("917", "88123", "31.5"))


@pytest.mark.parametrize(
    "bomb",
    [
        '<!DOCTYPE codeBook [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><codeBook>&b;</codeBook>',
        '<!DOCTYPE codeBook SYSTEM "file:///etc/passwd"><codeBook/>',
        "<codeBook>" * 10_000,
        "<codeBook><unclosed></codeBook>",
    ],
)
def test_xml_that_defines_entities_or_never_ends_is_refused(bomb: str) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        from_ddi(bomb)
    assert parse_xml("<a>&amp;</a>").text == "&"


@pytest.mark.skipif(not DDI_FOLDER.is_dir(), reason="needs the shared data")
@pytest.mark.parametrize("name", ["atus_00034", "cps_00006", "usa_00196"])
def test_real_ddi_codebooks_become_schemas_and_releases(name: str, tmp_path: Path) -> None:
    document = settle_document(import_document(DDI_FOLDER / f"{name}.xml"))
    # What is open is removed: it is an id or a range that the codebook does not have.
    kept = {n: keys for n, keys in document.columns.items() if n not in list_open_columns(document)}
    schema = Schema.parse(SchemaDocument(columns=kept).text())
    assert all(column.label for column in schema.columns.values())
    assert any(column.labels for column in schema.columns.values())
    people = simulate_rows(schema, rows=ROWS, rng=np.random.default_rng(1))
    release = pp.synthesize(
        people,
        schema=schema,
        epsilon=20,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "l.db",
        dataset="d",
    )
    assert release.table.column_names == list(kept)


def test_command_writes_a_draft_lists_and_says_what_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dictionary.csv"
    path.write_text(files.REDCAP, "utf-8")
    assert main(["schema", "import", str(path), "--out", str(tmp_path / "s.toml"), "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["open"] == ["bmi"]
    assert found["digest"] is None
    assert "line 11, visit" in err
    assert "open: bmi" in err
    assert "# OPEN: it is calculated" in (tmp_path / "s.toml").read_text("utf-8")
