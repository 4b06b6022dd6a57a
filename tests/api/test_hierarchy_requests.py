"""Runs on a geography: the three stages give one release, and what makes no sense is refused before it costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import populace as pp
from populace.api.stage_folders import load_measurements, load_model, save_measurements, save_model
from populace.core.errors import PopulaceError, ResourceError, SchemaError, UsageError
from populace.private.secret_split import require_id_column
from populace.release.survey_file import make_survey_file
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from tests.helpers.small_geography import (
    COLUMNS,
    count_persons,
    geography_schema,
    invent_persons,
    release_geography,
)

ASKED: dict[str, Any] = {"epsilon": 2, "delta": "1e-9"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rows": 400}, "rows of a geography add up to its integer tables"),
        ({"implicates": 2}, "the same counts in every cell"),
        ({"where": "sex == 'f'"}, "released as a whole"),
        ({"inference": "gum"}, "a model of its own"),
        ({"method": "mst"}, "no use for \\[geography\\]"),
        ({"public": invent_persons()}, "no use for a public table"),
    ],
)
def test_requests_without_sense_are_refused_before_anything_is_spent(
    more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.db"
    with pytest.raises(UsageError, match=message):
        pp.synthesize(invent_persons(), schema=geography_schema(), ledger=ledger, **ASKED, **more)
    assert not ledger.exists()


def test_bins_of_counted_rows_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    schema = replace(geography_schema(), frequency="n")
    with pytest.raises(UsageError, match="'age' has bins, and a counted row has one value"):
        pp.measure(count_persons(invent_persons()), schema=schema, ledger=tmp_path / "ledger.db", **ASKED)
    assert not (tmp_path / "ledger.db").exists()


def test_rules_about_single_units_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    schema = Schema.parse(COLUMNS + """[[zeros]]\nwhen = "sex == 'm' and county == 'A'"\n""")
    with pytest.raises(UsageError, match="a rule names a level of the geography"):
        pp.measure(invent_persons(), schema=schema, dataset="land", ledger=tmp_path / "ledger.db", **ASKED)
    assert not (tmp_path / "ledger.db").exists()


def test_three_stages_give_the_release_of_one(tmp_path: Path) -> None:
    persons, ledger = count_persons(invent_persons()), tmp_path / "ledger.db"
    measured = pp.measure(persons, schema=geography_schema(frequency=True), ledger=ledger, **ASKED)
    assert repr(measured).startswith("Measurements of “land”: 12 queries of 3 levels (all, county, tract)")
    save_measurements(measured, tmp_path / "measured")
    again = load_measurements(tmp_path / "measured")
    assert again.digest == measured.digest
    assert [str(item.marginal) for item in again.items] == [str(item.marginal) for item in measured.items]
    assert str(again.items[5].marginal) == "county × sex"
    save_model(pp.fit(again), tmp_path / "model", measured=tmp_path / "measured")
    release = pp.generate(load_model(tmp_path / "model"), seed=1, ledger=ledger)
    release.save(tmp_path / "out")
    assert pp.verify(tmp_path / "out", ledger=ledger).verified
    total = release.statement["total"]["rows"]
    assert pp.generate(release.model, rows=total).synthetic.equals(release.synthetic)
    with pytest.raises(UsageError, match="add up to its integer tables"):
        pp.generate(release.model, rows=total + 1)


def test_statement_names_levels_and_queries(tmp_path: Path) -> None:
    statement = release_geography(tmp_path / "ledger.db", frequency=True).statement
    assert statement["levels"][1] == {
        "level": "county",
        "units": 2,
        "queries": ["total", "sex", "age", "sex × age"],
        "exact": False,
    }
    assert "persons" in statement["total"]["text"]
    assert "“n”" in statement["total"]["text"]
    assert {line["column"]: (line["kind"], line["size"]) for line in statement["domains"]}["tract"] == (
        "level",
        5,
    )


def test_ids_of_units_stand_once_in_a_codebook(tmp_path: Path) -> None:
    release_geography(tmp_path / "ledger.db", frequency=True).save(tmp_path / "out", report=False)
    book = (tmp_path / "out" / "codebook.json").read_text("utf-8")
    assert book.count("B|4") == 1
    assert '"B"' not in book
    page = (tmp_path / "out" / "statement.md").read_text("utf-8")
    assert "measure every county (of 2): total, sex, age, sex × age" in page
    assert "persons, counted by “n”" in page


def test_rows_that_memory_does_not_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that noise made up: at this budget nobody knows how many there are. Known ones are drawn block by block."""
    model, known = (
        release_geography(tmp_path / f"{epsilon}.db", epsilon=epsilon).model for epsilon in ("0.01", "20")
    )
    monkeypatch.setattr("populace.api.generate.max_synthetic_rows", lambda schema: 10)
    with pytest.raises(ResourceError, match="do not fit in memory"):
        pp.generate(model)
    assert pp.generate(known).table.num_rows > 10


def test_what_knows_no_geography_refuses_it(tmp_path: Path) -> None:
    release = release_geography(tmp_path / "ledger.db", frequency=True)
    schema = release.measurements.schema
    for each, message in ((schema, "as many person units"), (geography_schema(), "estimates do not use")):
        queries = '[[query]]\nstatistic = "count"\n'
        with pytest.raises(SchemaError, match=message):
            pp.estimate(
                invent_persons(),
                schema=each,
                design=Design(schema=each),
                queries=pp.Queries.parse(queries, schema=each),
                ledger=tmp_path / "other.db",
                **ASKED,
            )
    assert not (tmp_path / "other.db").exists()
    with pytest.raises(UsageError, match="units are split one by one"):
        require_id_column(schema)
    design = Design.parse(
        '[[totals]]\nby = ["sex"]\ncounts = { f = 10, m = 10 }\n', schema=geography_schema()
    )
    with pytest.raises(PopulaceError, match="have no other weights"):
        make_survey_file(release_geography(tmp_path / "third.db"), design=design)
