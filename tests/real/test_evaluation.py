"""Scores on excerpts of the American Community Survey: every corruption moves them in their stated direction."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import populace as pp
from populace.schema.imports.detect_format import import_document
from populace.schema.imports.overlay import lay_over
from tests.helpers.corruptions import CORRUPTIONS, corrupt, is_worse

ACS = Path(__file__).resolve().parents[3] / "shared" / "data" / "nist-acs"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ACS.is_dir(), reason="the public files are not beside the project"),
]


@cache
def schema() -> pp.Schema:
    document = import_document(ACS / "national2019.json", dictionary=ACS / "data_dictionary.json")
    return pp.Schema.parse(lay_over(document, "nist-acs").text())


@cache
def rows() -> pa.Table:
    header = (ACS / "national2019.csv").read_text("utf-8").partition("\n")[0].split(",")
    texts = pacsv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
    return pacsv.read_csv(ACS / "national2019.csv", convert_options=texts)


def evaluate(synthetic: pa.Table) -> pp.Evaluation:
    return pp.evaluate(
        rows(), synthetic, schema=schema(), weights="PWGTP", areas=["PUMA"], income="PINCP", gender="SEX"
    )


@cache
def perfect() -> pp.Evaluation:
    return evaluate(rows())


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_score_moves_in_its_stated_direction(name) -> None:
    bad = evaluate(corrupt(rows(), name, seed=1))
    assert [score.name for score in perfect().scores if is_worse(score, bad[score.name])] == []
    for seen in CORRUPTIONS[name].seen:
        assert is_worse(bad[seen], perfect()[seen]), seen
    # Whatever was done, most scores see it.
    moved = [score.name for score in perfect().scores if is_worse(bad[score.name], score)]
    assert len(moved) >= 0.7 * len(perfect().scores), moved


def test_more_of_the_same_corruption_is_worse() -> None:
    """A tenth of the rows shuffled, and then half of them: every score of the marginals falls further."""
    table, name = rows(), "AGEP"
    found = []
    for share in (10, 2):
        count = table.num_rows // share
        column = pa.concat_arrays(
            [table[name].combine_chunks()[count - 1 :: -1], table[name].combine_chunks()[count:]]
        )
        found.append(evaluate(table.set_column(1, name, column)))
    for score in (
        "tv_pairs",
        "tv_triples",
        "k_marginal",
        "equivalent_sample_size",
        "conjunctions",
        "propensity_ratio",
    ):
        assert is_worse(found[1][score], found[0][score]), score
