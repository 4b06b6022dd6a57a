"""The statement follows from the ledger's record, promises no less noise than was paid for, and says so plainly."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from populace.api.measure import measure
from populace.core.marginals import Marginal
from populace.core.number_format import format_exact
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Noise,
    PartitionSelection,
    Spend,
)
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.noise.samplers import draw_discrete_gaussian, draw_discrete_laplace
from populace.release.statement.cost import MAX_STAGES, margin_of_error, summarize_spends
from populace.release.statement.earlier_statement import EarlierContent
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import (
    MAX_USUAL_DELTA,
    REHEARSAL_STAMP,
    RowCountOrigin,
    Statement,
    bound_membership_power,
    compute_statement,
    describe_guarantee,
    round_to_float,
)
from populace.release.statement.statement_markdown import render_markdown
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers import releases
from tests.helpers.privacy_units import make_unit

pytestmark = pytest.mark.sampled(4)

KEYS = {
    "epsilon", "delta", "neighbours", "unit", "rows_per_unit", "dataset", "total", "spends", "domains", "not_covered",
    "used",
}  # fmt: skip


COLUMNS = [Marginal((name,)) for name in releases.FEW]
PAIRS = [Marginal(pair) for pair in pairwise(releases.FEW)]
MEASURED = [Marginal(()), *COLUMNS, *PAIRS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Schema]:
    table, schema = releases.small_sample()
    measured = releases.measure(table, schema, ledger=tmp_path_factory.mktemp("ledger") / "ledger.db")
    return measured.record, schema


def told(record: RunRecord, schema: Schema) -> Statement:
    return compute_statement(
        record, schema=schema, answers=MeasuredContent(), rows=100, rows_from=RowCountOrigin.NOISE
    )


def paged(statement: Statement) -> str:
    return render_markdown(statement, measured=MEASURED, version="0.0")


@pytest.mark.parametrize(
    ("laws", "parts", "words"),
    [
        ([], {"unused": "0.01"}, "all of it set aside and not used"),
        ([DiscreteLaplace(Fraction(9))], {"unused": "0.01"}, "all of it set aside and not used"),
        ([EpsilonDeltaGaussian(Fraction(400), Fraction(1, 100))], {"noise": "0.01"}, "all of it for noise"),
        (
            [EpsilonDeltaGaussian(Fraction(400), Fraction(1, 400))],
            {"noise": "0.0025", "unused": "0.0075"},
            "not used",
        ),
        (
            [PartitionSelection(DiscreteLaplace(Fraction(9)), 200)],
            {"keys": "0.01"},
            "all of it for values or rows",
        ),
        (
            [
                EpsilonDeltaGaussian(Fraction(400), Fraction(1, 400)),
                PartitionSelection(DiscreteLaplace(Fraction(9)), 200),
            ],
            {"noise": "0.0025", "keys": "0.0075"},
            "of which 0.0075 for values or rows of one person alone, and 0.0025 for noise",
        ),
    ],
    ids=["nothing asked", "pure", "noise", "some noise", "keys", "both"],
)
def test_delta_went_where_the_laws_of_the_spends_say(laws, parts, words, made, tmp_path):
    """Whatever the method is called: noise that names a part of δ is noise, and a threshold is for keys."""
    unit = PrivacyUnit(name="person")
    common = {"unit": unit, "schema_digest": "", "rehearsal": False, "method": "whatever"}
    run = Ledger.open(tmp_path / "l.db").reserve(
        "d", epsilon=1, delta="0.01", keys=Fraction(1, 100), **common
    )
    for mechanism in laws:
        verb = "discover" if isinstance(mechanism, PartitionSelection) else "measure"
        run.charge(Spend(verb=verb, what="x", mechanism=mechanism, answers=1, l1=1, l2_squared=1))
    statement = told(run.record(), made[1])
    found = statement["delta_parts"]
    took = [
        charged.delta
        for charged in run.record().spends
        if isinstance(charged.spend.mechanism, PartitionSelection)
    ]
    assert Fraction(found.pop("keys_used")) == sum(took) <= Fraction(found["keys"])
    assert found == {"noise": "0", "keys": "0", "unused": "0"} | parts
    assert sum(map(Fraction, found.values())) == Fraction(statement["delta_exact"])
    assert words in render_markdown(statement, measured=[Marginal(("age",))], version="0.0")


def test_the_statement_has_every_key_and_survives_json(made: tuple[RunRecord, Schema]) -> None:
    statement = told(*made)
    assert set(statement) >= KEYS
    assert json.loads(json.dumps(statement, allow_nan=False)) == statement
    assert statement["epsilon"] == 1.0
    assert statement["delta"] == 1e-9
    assert statement["neighbours"] == "add-remove"
    assert statement["unit"] == "person"
    assert statement["dataset"] == "sample-population"
    assert [line["column"] for line in statement["domains"]] == list(releases.FEW)


def test_it_follows_the_record_and_nothing_else(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    other = replace(record, epsilon=Fraction(2), dataset="other", method="independent")
    statement = told(other, schema)
    assert (statement["epsilon"], statement["dataset"], statement["method"]) == (2.0, "other", "independent")
    assert RunRecord.from_json(statement["record"]) == other


def test_what_a_fixed_plan_gave_back_is_not_promised_away(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    statement = told(replace(record, returned=(Fraction(1, 4), Fraction(0))), schema)
    assert statement["epsilon"] == 0.75


def test_shares_add_up_to_what_was_used(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    statement = told(record, schema)
    assert math.isclose(sum(line["share"] for line in statement["spends"]), statement["used"]["share"])
    assert math.isclose(
        sum(stage.share for stage in summarize_spends(statement, measured=MEASURED)),
        statement["used"]["share"],
    )
    assert sum((Fraction(line["price"]) for line in statement["spends"]), Fraction(0)) == record.used
    assert 0.9 < statement["used"]["share"] <= 1


def test_shares_of_many_stages_add_up_too(tmp_path: Path) -> None:
    """A method of many rounds has more stages than a page can show: those of a kind are told together."""
    schema = Schema.from_sizes({f"c{number}": 2 for number in range(7)})
    rng = np.random.default_rng(1)
    rows = pa.table({name: pa.array(rng.integers(0, 2, 500)) for name in schema.columns})
    run = measure(
        rows,
        schema=schema,
        epsilon="4",
        delta="1e-6",
        method="mwem",
        ledger=tmp_path / "l.db",
        noise=ExactNoise(RehearsalEntropy(1)),
    )
    statement = told(run.record, run.schema)
    found = summarize_spends(statement, measured=[item.marginal for item in run.items])
    assert len(found) <= MAX_STAGES < len(statement["spends"])
    assert math.isclose(sum(stage.share for stage in found), statement["used"]["share"])


def test_what_was_asked_is_told_in_columns_and_pairs(made: tuple[RunRecord, Schema]) -> None:
    statement = told(*made)
    assert [stage.label for stage in summarize_spends(statement, measured=MEASURED)] == [
        "measure number of rows",
        "measure 5 columns",
        "choose 4 times one pair; 4 pairs were chosen",
        "measure 4 pairs",
    ]
    assert [stage.label for stage in summarize_spends(statement, measured=())] == [
        "measure number of rows",
        "measure 5 tables",
        "choose 4 times one pair",
        "measure 4 tables",
    ]
    assert "marginal" not in paged(statement)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (PAIRS, ("4 times one pair or none; 4 pairs were chosen", "4 pairs")),
        (COLUMNS[:4], ("4 times one pair or none; none was chosen", "4 columns again")),
        (
            COLUMNS[:3] + PAIRS[:1],
            ("4 times one pair or none; 1 pair was chosen", "3 columns again and 1 pair"),
        ),
        (
            [Marginal(("sex", "age", "work"))] * 4,
            (
                "4 times one combination of columns or none; 4 combinations of columns were chosen",
                "1 combination of 3 columns more than once",
            ),
        ),
        (
            [*COLUMNS[:1], *PAIRS[:2], PAIRS[0]],
            (
                "4 times one pair or none; 3 pairs were chosen",
                "1 column again, and 2 pairs, 1 of them more than once",
            ),
        ),
    ],
)
def test_choices_of_none_and_repeats_are_told(
    made: tuple[RunRecord, Schema], measured: list[Marginal], expected: tuple[str, str]
) -> None:
    record, schema = made
    spends = tuple(
        replace(charged, spend=replace(charged.spend, what="1 or none of 10 marginals"))
        if charged.spend.verb == "choose"
        else charged
        for charged in record.spends
    )
    statement = told(replace(record, spends=spends), schema)
    found = [stage.label for stage in summarize_spends(statement, measured=[*MEASURED[:6], *measured])]
    assert found[2:] == [f"choose {expected[0]}", f"measure {expected[1]}"]


@pytest.mark.parametrize("mechanism", [DiscreteGaussian(Fraction(740)), DiscreteLaplace(Fraction(21))])
def test_noise_stays_within_its_reach_19_times_of_20(mechanism: Noise) -> None:
    """Of 40000 draws, 38000 expected within; seed 2, bands of five standard deviations, less what whole rows add."""
    entropy = RehearsalEntropy(2)
    if isinstance(mechanism, DiscreteGaussian):
        noise = draw_discrete_gaussian(mechanism.variance, size=40_000, entropy=entropy)
    else:
        noise = draw_discrete_laplace(mechanism.scale, size=40_000, entropy=entropy)
    within = int((np.abs(noise) <= margin_of_error(mechanism)).sum())
    assert 38_000 - 220 < within < 38_000 + 220 + 40_000 * 0.005


@pytest.mark.parametrize(
    ("epsilon", "delta", "words", "warned"),
    [
        ("1", "1e-9", "nearly the same probability", 0),
        ("10", "1e-9", "clearly different probability", 1),
        ("30", "1e-9", "protection is very weak", 1),
        ("5", "0", "protection is very weak", 1),
        ("1", "1e-4", "With probability 0.0001 there is no guarantee", 1),
        ("30", "1e-2", "With probability 0.01 there is no guarantee", 2),
    ],
)
def test_weak_promises_are_called_weak(
    made: tuple[RunRecord, Schema], epsilon: str, delta: str, words: str, warned: int
) -> None:
    record, schema = made
    statement = told(replace(record, epsilon=Fraction(epsilon), delta=Fraction(delta)), schema)
    assert words in describe_guarantee(statement)
    assert len(statement["warnings"]) == warned
    assert ("nearly the same" in describe_guarantee(statement)) == (epsilon == "1")
    assert all(f"**{warning}**" in paged(statement) for warning in statement["warnings"])


def test_delta_is_large_beside_many_rows(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    for rows, origin, warned in (
        (10**7, RowCountOrigin.NOISE, 0),
        (10**9, RowCountOrigin.NOISE, 1),
        (10**9, RowCountOrigin.CURATOR, 0),
    ):
        statement = compute_statement(
            record, schema=schema, answers=MeasuredContent(), rows=rows, rows_from=origin
        )
        assert len(statement["warnings"]) == warned


@pytest.mark.parametrize(("rows", "id_column"), [(1, None), (1, "home"), (3, "home")])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_unit_called_row_reads_well(
    made: tuple[RunRecord, Schema], rows: int, id_column: str | None, neighbours: Neighbours
) -> None:
    record, schema = made
    unit = make_unit(neighbours, name="row", rows=rows, id=id_column)
    page = paged(told(replace(record, unit=unit), schema))
    for clumsy in ("no row has", "row who", "every row apart", "| row, at most 1 row"):
        assert clumsy not in page
    # An id tells units apart, whatever nobody called them.
    assert ("any one row" if id_column is None else "any one unit") in page


def test_the_page_gives_values_and_says_where_to_look_further(made: tuple[RunRecord, Schema]) -> None:
    page = paged(told(*made))
    assert "| synthetic rows | 100 (a noisy count; the real number is protected) |" in page
    assert re.search(r"\| measure 5 columns \| ± \d+ rows \(integer Gaussian noise of", page)
    for words in ("report.html", "Made by populace 0.0", "populace ledger show"):
        assert words in page


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**6))
def test_the_json_number_is_never_above_the_exact_one_and_never_far_below(value: Fraction) -> None:
    number = round_to_float(value, up=False)
    written = Fraction(json.dumps(number))
    assert written <= value
    assert written >= value * (1 - Fraction(1, 2**51))


@pytest.mark.parametrize("text", ["0.1", "0.3", "1", "10", "1e-9", "1e-300", "2.5", "1/3"])
def test_exact_texts_are_exact_and_short(text: str) -> None:
    value = Fraction(text)
    assert Fraction(format_exact(value)) == value
    assert format_exact(value) == text
    assert float(Fraction(text)) >= round_to_float(value, up=False)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-3"), ("0.1", "1e-2"), ("5", "1e-4"), ("2", "0")])
def test_the_plain_reading_is_the_exact_trade_off(tmp_path: Path, epsilon: str, delta: str) -> None:
    """By duality max over α of (power − e^ε·α) is δ: not more, or the reading would understate; not less either."""
    table, schema = releases.small_sample(("sex",), households=20)
    record = releases.measure(table, schema, ledger=tmp_path / "l.db", epsilon=epsilon, delta=delta).record
    alphas = np.concatenate([np.geomspace(1e-9, 0.5, 4000), np.linspace(0.5, 0.999, 500)])
    excess = max(
        bound_membership_power(record, false_positives=a) - math.exp(float(epsilon)) * a for a in alphas
    )
    assert excess <= float(delta) * (1 + 1e-6) + 1e-12
    assert excess >= float(delta) * 0.99 - 1e-9


def test_the_reading_is_rounded_up(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    found = bound_membership_power(record, false_positives=0.05)
    assert 0.071 < found < 0.072
    assert "at most 7.2 % power" in told(record, schema)["reading"]


def test_what_was_set_aside_for_keys_counts_in_earlier_runs_too(made: tuple[RunRecord, Schema]) -> None:
    record, _ = made
    learnt = replace(record, delta=Fraction(1, 100), keys=Fraction(1, 200))
    found = bound_membership_power(record, earlier=[learnt])
    assert found == bound_membership_power(learnt, earlier=[record])
    assert found > max(map(bound_membership_power, (record, learnt)))


def test_losses_add_up_where_a_run_has_no_gaussian_curve(made: tuple[RunRecord, Schema]) -> None:
    """At (Σε, Σδ) the power is at most e^ε·α + δ, and of pure runs it comes to that."""
    record, _ = made
    pure = replace(record, delta=Fraction(0))
    twice, total = replace(pure, epsilon=2 * pure.epsilon), float(pure.epsilon + record.epsilon)
    assert bound_membership_power(pure, earlier=[pure]) == bound_membership_power(twice)
    for own, earlier in ((pure, record), (record, pure)):
        found = bound_membership_power(own, earlier=[earlier])
        assert found == pytest.approx(math.exp(total) * 0.05 + float(record.delta), rel=1e-9)


def test_a_delta_that_is_large_together_with_earlier_runs_is_told(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    small = replace(record, delta=MAX_USUAL_DELTA * Fraction(3, 4))
    earlier = EarlierContent(record=small, release="", measured="", tables=())
    for runs, warned in (((), False), ((earlier,), True)):
        statement = compute_statement(
            small,
            schema=schema,
            answers=MeasuredContent(earlier=runs),
            rows=100,
            rows_from=RowCountOrigin.NOISE,
        )
        assert any("δ = 1.5e-5 is large" in line for line in statement["warnings"]) is warned


def test_replace_one_and_ids_are_told(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    unit = PrivacyUnit(name="household", rows=3, id="home", neighbours=Neighbours.REPLACE_ONE)
    statement = told(replace(record, unit=unit), schema)
    assert "any one household with up to 3 rows been replaced by another" in describe_guarantee(statement)
    assert "which of two versions of one household" in statement["reading"]
    assert any("“home”" in line for line in statement["not_covered"])
    assert statement["rows_per_unit"] == 3
    trusted = told(record, schema)
    assert any("trusted, not checked" in line for line in trusted["not_covered"])
    assert "added to the data or removed" in describe_guarantee(trusted)


def test_what_is_not_covered(made: tuple[RunRecord, Schema]) -> None:
    lines = "\n".join(told(*made)["not_covered"])
    for words in (
        "overlap must share one account",
        "header",
        "“income” was declared",
        "Statistical inference is not prevented",
        "memory",
    ):
        assert words in lines


def test_the_origin_of_the_number_of_rows(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    noisy = compute_statement(
        record, schema=schema, answers=MeasuredContent(), rows=5, rows_from=RowCountOrigin.NOISE
    )["total"]
    chosen = compute_statement(
        record, schema=schema, answers=MeasuredContent(), rows=5, rows_from=RowCountOrigin.CURATOR
    )["total"]
    assert (noisy["origin"], chosen["origin"]) == ("noisy", "chosen by the curator")
    assert noisy["rows"] == chosen["rows"] == 5


def test_a_rehearsal_is_stamped_everywhere(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    statement = told(replace(record, rehearsal=True), schema)
    assert statement["stamp"] == REHEARSAL_STAMP == "REHEARSAL – noise was repeatable; not private"
    assert REHEARSAL_STAMP in paged(statement).splitlines()[0]
    assert REHEARSAL_STAMP in statement["not_covered"][0]
    assert describe_guarantee(statement).startswith("No guarantee")
    assert REHEARSAL_STAMP not in paged(told(record, schema))


def test_the_page_is_one_page_even_for_many_columns(made: tuple[RunRecord, Schema]) -> None:
    record, _ = made
    schema = Schema.from_sizes({f"column_{number}": 3 for number in range(110)})
    choices = [charged for charged in record.spends if charged.spend.verb == "choose"]
    page = paged(told(replace(record, spends=(*record.spends[:2], *choices * 40)), schema))
    assert len(page.splitlines()) < 66
    assert len(page) < 6000


def test_names_cannot_break_the_page(made: tuple[RunRecord, Schema]) -> None:
    record, _ = made
    schema = Schema.from_sizes({"a|b": 2, "<script>": 2})
    page = paged(told(replace(record, dataset="x | # y\n\n# z"), schema))
    assert "a\\|b" in page
    assert "<script>" not in page
    assert "\n# z" not in page
