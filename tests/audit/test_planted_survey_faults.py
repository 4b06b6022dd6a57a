"""Small faults that were planted in the private side of survey estimates and once passed unseen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.marginals import Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Exponential
from populace.privacy.sensitivity.nn_imputation import TieBreak
from populace.privacy.sensitivity.poststratification import (
    Bin,
    Binning,
    smooth_weight_bound,
)
from populace.privacy.smooth.smooth_distributions import PolyPlace
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.private.survey import weighted_answers as weighted
from populace.private.survey.imputed_answers import ImputedRows
from populace.private.survey.survey_rows import SurveyRows
from populace.release.manifest import digest_file, dump_json
from populace.release.statement.survey_limitations import list_survey_limitations
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.smooth_questions import (
    BaseWeights,
    BinChoice,
    Donors,
    ImputedQuestion,
    ImputedStatistic,
    WeightedQuestion,
)
from populace.survey.sums import Sum
from tests.helpers import small_survey
from tests.helpers.survey_oracle import plan_queries

SCHEMA = Schema.parse("""
[columns.PLACE]
kind = "integer"
min = 0
max = 2
[columns.PAY]
kind = "integer"
min = 0
max = 20
missing = ["-1"]
""")


class Paid:
    """A run that pays for everything and remembers what it was charged."""

    id, rehearsal = "a run", True

    def __init__(self):
        self.left = Budget.of(Fraction(10), Fraction(0), unit=SCHEMA.unit)
        self.spends = []

    def charge(self, *spends):
        self.spends += spends


class Ear:
    """A noise source that adds none, and remembers what it met and under which law."""

    def __init__(self):
        self.laws, self.scores = [], []

    def add(self, exact, *, mechanism):
        self.laws.append(mechanism)
        return exact

    def pick(self, scores, *, rate):
        self.scores.append(scores)
        return 0

    def smooth(self, exact, bound, *, mechanism, lattice):
        self.followed = exact, bounds(bound)[1]
        return exact


def read(places, pays):
    return PrivateTable.of(pa.table({"PLACE": places, "PAY": pays}), schema=SCHEMA)


# ----------------------------------------------------------------------------------------- what is charged and drawn


def test_every_sum_has_the_noise_of_its_own_batch():
    ear = Ear()
    asked = Barrier(read([0, 1, 2], [3, 4, -1]), run=Paid(), noise=ear)
    laws = [DiscreteLaplace(Fraction(5)), DiscreteLaplace(Fraction(5000)), DiscreteGaussian(Fraction(70))]
    sums = [[Sum(), Sum(where="PLACE == 0")], [Sum(by=Marginal(("PLACE",)))], [Sum(where="PLACE == 2")]]
    asked.sum_batches(list(zip(sums, laws, strict=True)))
    assert ear.laws == [laws[0], laws[0], laws[1], laws[2]]
    booked = [spend.mechanism for spend in asked._run.spends for _ in range(spend.answers)]
    assert booked == ear.laws, "noise is drawn as it was booked"


def test_scores_rounded_to_whole_numbers_move_by_no_more_than_is_charged():
    """Three bins of 7 persons: a row moves a score by 3/7, which times any whole number is seldom whole."""
    binning = Binning(name="apart", bins=((0,), (1,), (2, 3)))
    choice = BinChoice(
        by=Marginal(("PLACE",)), binnings=(binning,), populations=tuple(map(Fraction, (7, 7, 7, 0)))
    )
    told, shifts = [], set()
    for least in range(1, 9):
        ear = Ear()
        rows = [0] * least + [1] * 9 + [2] * 9
        asked = Barrier(read(rows, [1] * len(rows)), run=Paid(), noise=ear)
        asked.choose_bins(choice, mechanism=Exponential(Fraction(1)))
        told.append(int(ear.scores[0][0]))
        shifts |= {spend.l1 for spend in asked._run.spends}
    (shift,) = shifts
    assert max(np.diff(told)) == shift, "the furthest step is the one that is charged"


# ----------------------------------------------------------------------------------------- bounds of weighted counts


@pytest.mark.parametrize("count", [30, 1000, 3000])
@pytest.mark.parametrize("beta", [Fraction(1, 500), Fraction(1, 50)])
def test_a_smooth_weight_looks_as_many_steps_ahead_as_there_are_rows(count, beta):
    """With a small β, as small epsilons have it, the bin that was emptied by a thousand steps is the worst."""
    steps = np.arange(count + 1)
    expected = (np.exp(-float(beta) * steps) * 600 / np.maximum(1, count - steps)).max()
    held = Bin(total=Fraction(600), weights=np.ones(count, dtype=np.int64))
    assert float(bounds(lambda: smooth_weight_bound([held], beta=beta))[1]) == pytest.approx(expected)


def test_a_heavy_row_moves_a_weighted_count_by_no_more_than_the_bound():
    """No bin is empty here, so that base weights alone decide how far one row moves an answer."""
    question = WeightedQuestion(
        by=Marginal(("PLACE",)),
        binning=Binning(name="all", bins=((0, 1, 2, 3),)),
        populations=tuple(map(Fraction, (100, 0, 0, 0))),
        where="PLACE == 0",
        base=BaseWeights(column="PAY", largest=20),
        beta=Fraction(1, 100),
    )

    def told(places, pays):
        held = SurveyRows(
            {"PLACE": np.array(places), "PAY": np.array(pays)}, {"PAY": np.array(pays, dtype=np.float64)}
        )
        value, bound = weighted.answer(held, question, SCHEMA)
        return float(value), float(bounds(bound)[1])

    light = [1] * 600
    here, bound = told(light, [1] * 600)
    there, beyond = told([*light, 0], [1] * 600 + [20])
    assert there - here == pytest.approx(100 * 20 / 620)
    assert abs(there - here) <= min(bound, beyond)


# ----------------------------------------------------------------------------------------- bounds of filled rows


def filled(**changes):
    told = {"match": Marginal(("PLACE",)), "low": Fraction(0), "high": Fraction(20), "default": Fraction(0)}
    return Donors(column="PAY", **told | changes)


LAW = SmoothNoise(distribution=PolyPlace(Fraction(4)), s=Fraction(1), t=LN_2)


def asked_of(table, question):
    """The exact answer and its bound, as they meet noise."""
    ear = Ear()
    Barrier(table, run=Paid(), noise=ear).smooth(question, mechanism=LAW, lattice=Fraction(1))
    return ear.followed


def test_questions_with_other_donors_share_nothing():
    """Bounds of one way to fill a column are not those of another."""
    rows = [0, 0, 1, 1, 1, 2, 2], [3, 9, -1, -1, -1, 20, -1]
    ways = [filled(), filled(match=Marginal(("PLACE",)), low=Fraction(5), default=Fraction(9))]
    ways += [replace(ways[0], ties=TieBreak.LOWEST), replace(ways[0], default=Fraction(1))]
    asked = [ImputedQuestion(statistic=ImputedStatistic.SUM, donors=each) for each in ways]
    asked += [
        replace(each, statistic=ImputedStatistic.FREQUENCY, between=(Fraction(4), Fraction(9)))
        for each in asked
    ]
    together = read(*rows)
    told = [asked_of(together, each) for each in asked]
    alone = [asked_of(read(*rows), each) for each in asked]
    assert told == alone
    assert len(set(alone)) > 3, "these questions do have different answers"


@pytest.mark.parametrize("ends", [(15, 20), (-20, -15)], ids=["above 0", "below 0"])
def test_a_filled_row_that_comes_into_a_range_brings_all_its_value(ends):
    """Values are far from 0 and close to each other: who belongs matters more than how much."""
    low, high = map(Fraction, ends)
    one, other = (float(low), float(high)) if low > 0 else (float(high), float(low))
    within = (Fraction(other), Fraction(other))
    asked = ImputedQuestion(
        statistic=ImputedStatistic.SUM,
        donors=filled(low=low, high=high, default=Fraction(one)),
        between=within,
    )

    def told(pays):
        numbers = np.array(pays)
        codes = {
            "PLACE": np.zeros(len(pays), dtype=np.int64),
            "PAY": np.where(np.isnan(numbers), 21, 1).astype(np.int64),
        }
        held = ImputedRows(rows=SurveyRows(codes, {"PAY": numbers}), donors=asked.donors, schema=SCHEMA)
        value, bound = held.answer(asked)
        return value, bounds(bound)[1]

    nobody = [math.nan] * 9
    here, there = told(nobody), told([*nobody, other])
    assert abs(there[0] - here[0]) == 10 * abs(Fraction(other))
    assert abs(there[0] - here[0]) <= min(here[1], there[1])


def test_at_one_distance_the_lower_place_gives_its_value():
    """Places decide before labels, as the bound has it: whatever labels rows have."""
    for number in range(8):
        held = read([0, 2, 1], [number, 20 - number, -1])
        asked = ImputedQuestion(statistic=ImputedStatistic.SUM, donors=filled(ties=TieBreak.LOWEST))
        assert asked_of(held, asked)[0] == 20 + number


# ----------------------------------------------------------------------------------------- what is said and verified


def test_a_rehearsal_without_its_stamps_is_still_one(tmp_path):
    """The record says so, whoever took the stamps off."""
    asked = '[[query]]\nstatistic = "frequency"'
    small_survey.run(small_survey.rows(3), tmp_path, queries=asked, seed=4).save(
        tmp_path / "out", report=False
    )
    out = tmp_path / "out"
    for name in ("estimates.json", "codebook.json", "statement.json", "manifest.json"):
        told = json.loads((out / name).read_text("utf-8"))
        told["stamp"] = type(told["stamp"])()
        if name == "manifest.json":
            told["files"] = {each: digest_file(out / each) for each in told["files"]}
        (out / name).write_text(dump_json(told), encoding="utf-8")
    failed = {check.name for check in verify(out).checks if not check.passed}
    assert "real noise" in failed


@pytest.mark.parametrize("strata", ["", 'strata = "stratum"\n'])
@pytest.mark.parametrize("psu", ["", 'psu = "psu"\n'])
@pytest.mark.parametrize("fpc", ["", "fpc = 0.5\n"])
def test_a_statement_names_all_of_the_design_that_is_public(strata, psu, fpc):
    schema = Schema.parse(small_survey.SCHEMA)
    design = Design.parse(f"[design]\n{strata}{psu}{fpc}", schema=schema)
    plan = plan_queries(design, Queries.parse('[[query]]\nstatistic = "count"', schema=schema))
    words = next(list_survey_limitations(plan))
    assert ("the strata (“stratum”)" in words) == bool(strata)
    assert ("the primary sampling units (“psu”)" in words) == bool(psu)
    assert ("the finite population corrections" in words) == bool(fpc)
