"""A statement with exact totals: it names the relation, what is not protected, and claims no add/remove promise."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import Adaptivity
from populace.release.row_selection import RowCountOrigin, RowSelection
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import compute_statement, describe_guarantee
from populace.release.statement.statement_markdown import render_markdown
from populace.schema.unit import PrivacyUnit
from tests.helpers.geographies import make_schema, reserve


def made(tmp_path, *, invariants=("all", "county"), publish=("county",), plan=Adaptivity.FIXED, back=False):
    """A schema and the record of a run on it, with half or all of its budget spent."""
    schema = make_schema(invariants=invariants)
    run = reserve(Ledger.open(tmp_path / "ledger.db"), schema, plan=plan, rehearsal=False)
    for level in publish:
        run.book_totals(level, what=level)
    unit = schema.unit
    run.charge(
        Spend(
            verb="measure",
            what="4 marginals",
            mechanism=run.record().budget.measure_noise(Fraction(1), marginals=4),
            answers=4,
            l1=unit.marginal_l1,
            l2_squared=unit.marginal_l2_squared,
        )
    )
    run.finish(returned=run.record().compute_unneeded() if back else None)
    return schema, run.record()


def state(schema, record, *, rows_from=RowCountOrigin.INVARIANT, selection=None):
    statement = compute_statement(
        record,
        schema=schema,
        answers=MeasuredContent(),
        rows=4,
        rows_from=rows_from,
        selection=selection,
    )
    assert json.loads(json.dumps(statement)) == statement
    return statement, render_markdown(statement, measured=(), version="0.0")


def test_the_relation_is_told_in_plain_words(tmp_path):
    statement, page = state(*made(tmp_path))
    assert statement["neighbours"] == "replace-within-invariants"
    assert (statement["within"], statement["invariants"]) == ("county", ["county"])
    lines = "\n".join(statement["not_covered"])
    assert (
        "Two tables are neighbours if they have the same number of persons in every county, and differ in one person's "
        "record within a county." in lines
    )
    assert "The exact totals by county are published." in lines
    assert "Whether somebody is counted in a county is not protected." in lines
    assert "had any one person been replaced by another in the same county" in describe_guarantee(statement)
    assert "which of two versions of one person in the same county is in the data" in statement["reading"]
    assert "as many persons in every county; one person replaced by another within a county" in page
    assert "| published exactly | total of every county |" in page
    for claim in (
        "added to the data",
        "more or less",
        "whether one given person",
        "real number is protected",
    ):
        assert claim not in page


def test_the_whole_table_is_told_as_such(tmp_path):
    statement, page = state(*made(tmp_path, invariants=("all",), publish=("all",)))
    lines = "\n".join(statement["not_covered"])
    assert "The exact totals of the whole table are published." in lines
    assert "the same number of persons, and differ in one person's record." in lines
    assert "Whether somebody is counted at all is not protected." in lines
    assert "been replaced by another (ε" in describe_guarantee(statement)
    assert "which of two versions of one person is in the data" in statement["reading"]
    assert "as many persons; one person replaced by another |" in page


def test_several_levels_and_none(tmp_path):
    schema, record = made(tmp_path, publish=("all", "county", "county"))
    statement, page = state(schema, record)
    assert statement["invariants"] == ["all", "county"]
    assert any(
        "totals of the whole table and by county are published" in line for line in statement["not_covered"]
    )
    assert "total of the whole table, total of every county" in page
    statement, page = state(schema, replace(record, invariants=()))
    assert "published exactly |" not in page
    assert any("counted in a county is not protected" in line for line in statement["not_covered"])


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (RowCountOrigin.INVARIANT, "is the exact total, which is published and not protected"),
        (RowCountOrigin.CURATOR, "was chosen by the curator; the real number is not protected"),
        (RowCountOrigin.NOISE, "is a noisy count; the real number is not protected"),
        (RowCountOrigin.MEMORY, "is mostly noise. The real number is not protected"),
    ],
)
def test_the_number_of_rows_is_not_called_protected(tmp_path, origin, words):
    schema, record = made(tmp_path)
    statement, page = state(schema, record, rows_from=origin)
    assert words in statement["total"]["text"]
    assert "not protected" in next(line for line in page.splitlines() if line.startswith("| synthetic rows"))
    if origin is not RowCountOrigin.INVARIANT:
        _, page = state(schema, record, rows_from=origin, selection=RowSelection(where="sex = 1", share=0.5))
        assert "real number is protected" in page


def test_the_number_of_rows_comes_from_the_exact_total():
    schema, plain = make_schema(), make_schema(invariants=())
    asked = {"rows": 4, "total": 4.0, "asked": None, "selection": None}
    assert RowCountOrigin.of(schema, **asked) is RowCountOrigin.INVARIANT
    assert RowCountOrigin.of(plain, **asked) is RowCountOrigin.NOISE
    assert RowCountOrigin.of(schema, **asked | {"asked": 4}) is RowCountOrigin.CURATOR
    assert RowCountOrigin.of(schema, **asked | {"total": 9.0}) is RowCountOrigin.MEMORY
    some = RowSelection(where="sex = 1", share=1.0)
    assert RowCountOrigin.of(schema, **asked | {"selection": some}) is RowCountOrigin.NOISE


@pytest.mark.slow
def test_how_epsilon_was_computed_is_told_where_the_distribution_decided(tmp_path):
    schema, record = made(tmp_path, back=True)
    statement, page = state(schema, record)
    kept = Fraction(statement["epsilon_exact"])
    assert 1 > kept == record.guarantee[0]
    assert "privacy loss distribution" in statement["accounting"]
    assert "plan fixed before the first answer" in page
    assert "the guarantee above is for all of it" not in page
    (tmp_path / "other").mkdir()
    schema, record = made(tmp_path / "other", back=False)
    statement, page = state(schema, record)
    assert "accounting" not in statement
    assert "the guarantee above is for all of it" in page
    assert "privacy loss distribution" not in page


def test_a_run_without_exact_totals_says_none_of_this(tmp_path):
    schema, record = made(tmp_path, invariants=(), publish=())
    assert record.unit == PrivacyUnit(name="person")
    statement, page = state(schema, record, rows_from=RowCountOrigin.NOISE)
    assert not {"within", "invariants", "accounting"} & set(statement)
    assert "one person more or less" in page
    assert "real number is protected" in page
