"""Checks of the private side that take a moment each: sound code passes them, and every seeded fault fails one.

What is charged, for how far a unit moves, under which law; what noise meets, and how often; who is kept of a file; what
a run may give back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import PopulaceError
from populace.core.marginals import Candidates, Marginal
from populace.privacy.accounting import privacy_loss as loss
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS, STEPS
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Exponential,
    ExponentialCount,
    PartitionSelection,
    Spend,
)
from populace.privacy.accounting.partition_selection import delta_price, reveal_probability
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.accounting.spend_record import SpendRecord, _min_sensitivity
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import Adaptivity
from populace.privacy.noise import block_rejection as blocks
from populace.privacy.noise import samplers
from populace.privacy.noise.entropy import RehearsalEntropy, SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.noise.split_key import Split, SplitKey
from populace.privacy.sensitivity.poststratification import Binning
from populace.privacy.smooth.smooth_distributions import PolyPlace
from populace.privacy.smooth.smooth_noise import LN_2, SmoothNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.value_counts import Tally, cells_to_texts, select_first_rows
from populace.private.survey import exact_sums as sums
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.survey.smooth_questions import BinChoice, WeightedQuestion
from populace.survey.sums import Sum, SumFactor
from tests.audit.test_every_answer_is_charged import (
    CODES,
    SCHEMA,
    VERBS,
    Ear,
    check_laws,
    check_scores,
    check_verb,
)
from tests.audit.transcripts import Workspace
from tests.helpers.privacy_units import exact_totals, invariants_of, make_unit
from tests.private.test_split_neighbours import WAYS, check_neighbours, rows_alone

A, B = Marginal(("a",)), Marginal(("b",))
WIDE = DiscreteGaussian(Fraction(10**18))
UNITS = [
    make_unit(relation, rows=rows, id="p" if rows > 1 else None)
    for rows, relation in product((1, 3), Neighbours)
    if rows == 1 or relation is not Neighbours.REPLACE_WITHIN
]


# --------------------------------------------------------------------------------- what is booked for one unit

WEIGHED = Candidates((A, B), (np.zeros(2, np.int64), np.zeros(3, np.int64)), (0, 0), (2, 7))
APART = Binning(name="apart", bins=((0,), (1,)))
TOTALS = (Fraction(10), Fraction(20))
COUNT = WeightedQuestion(by=A, binning=APART, populations=TOTALS, beta=LN_2)
CHOICE = BinChoice(by=A, binnings=(APART, Binning(name="whole", bins=((0, 1),))), populations=TOTALS)
KEYS = PartitionSelection(DiscreteLaplace(Fraction(1)), 60)
SMOOTH = SmoothNoise(distribution=PolyPlace(Fraction(4)), s=Fraction(1, 10**6), t=LN_2)
EXPONENTIAL = Exponential(Fraction(1, 10))

# For each question how far one row that comes or goes moves an answer; 0 marks counts, which swaps move by √2 in L2.
MOVED: dict[str, tuple[Callable[[Barrier], object], int]] = {
    "measure": (lambda door: door.measure([A, B], noise=WIDE), 0),
    "discover_bins": (lambda door: door.discover_bins("b", groups=np.array([0, 1, 1]), noise=WIDE), 0),
    "discover_values": (lambda door: door.discover_values("city", mechanism=KEYS), 0),
    "discover_rows": (lambda door: door.discover_rows(mechanism=KEYS), 0),
    "score": (lambda door: door.score(WEIGHED, noise=WIDE), 7),
    "choose both": (lambda door: door.choose(WEIGHED, among=[0, 1], mechanism=EXPONENTIAL), 7),
    "choose the lighter": (lambda door: door.choose(WEIGHED, among=[0], mechanism=EXPONENTIAL), 2),
    "find_far": (lambda door: door.find_far(WEIGHED, among=[0, 1], mechanism=EXPONENTIAL), 7),
    "sum_batches": (lambda door: door.sum_batches([([Sum(by=A), Sum()], WIDE)]), STEPS),
    "smooth": (lambda door: door.smooth(COUNT, mechanism=SMOOTH, lattice=Fraction(1)), 1),
    "bound_size": (lambda door: door.bound_size(COUNT, noise=WIDE), LOG_STEPS),
}


def booked(
    question: Callable[[Barrier], object], *, unit: PrivacyUnit, ear: Ear | None = None
) -> SpendRecord:
    schema = Schema(columns=SCHEMA.columns, unit=unit, invariants=invariants_of(unit))
    run = Workspace().reserve(
        "d",
        epsilon=Fraction(10**6),
        delta=Fraction(1, 10),
        unit=unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
        keys=Fraction(1, 20),
        exact=exact_totals(unit),
    )
    table = PrivateTable(
        lambda: MemoryEngine({**CODES, "city": np.zeros(3, np.uint8)}, domain=schema.domain),
        schema=schema,
        read_tallies=lambda: {"city": Tally(np.array(["Bonn", "Ulm"]), np.array([500, 900]))},
        read_survey_rows=lambda: SurveyRows(
            codes=CODES, numbers={name: own.astype(np.float64) for name, own in CODES.items()}
        ),
    )
    question(Barrier(table, run=run, noise=ear or Ear()))
    (found,) = run.record().spends
    return found


def check_movement() -> None:
    """Every question is booked for all rows of a unit, and for those of both units that swaps have."""
    for (name, (question, each)), unit in product(MOVED.items(), UNITS):
        spend = booked(question, unit=unit).spend
        swaps = 1 if unit.neighbours is Neighbours.ADD_REMOVE else 2
        if each:
            assert (spend.l1, spend.l2_squared) == (
                each * unit.rows * swaps,
                (each * unit.rows * swaps) ** 2,
            ), name
        else:
            assert (spend.l1, spend.l2_squared) == (unit.rows * swaps, unit.rows**2 * swaps), name


class Rates(Ear):
    """Keeps the rates of choices."""

    __slots__ = ("rates",)

    def pick(self, scores, *, rate):
        self.rates = [rate]
        return super().pick(scores, rate=rate)


def check_rates() -> None:
    """A choice's scores are multiplied by ε over twice what the books say that they move."""
    for unit in UNITS:
        for question in (
            MOVED["choose both"][0],
            lambda door: door.choose_bins(CHOICE, mechanism=EXPONENTIAL),
        ):
            ear = Rates()
            spend = booked(question, unit=unit, ear=ear).spend
            assert ear.rates == [EXPONENTIAL.epsilon / (2 * spend.l1)]
            assert spend.l1 >= unit.marginal_l1 * (1 if spend.what.endswith("marginals") else SCORE_STEPS)


# --------------------------------------------------------------------------------------------- prices and δ


def spend_of(
    mechanism: Any, *, verb: Any = "measure", answers: int = 3, l1: int = 2, l2_squared: int = 4
) -> Spend:
    return Spend(verb=verb, what="x", mechanism=mechanism, answers=answers, l1=l1, l2_squared=l2_squared)


def check_prices() -> None:
    """Worked by hand: three answers, each moved by 2 in one cell."""
    laplace, choice = spend_of(DiscreteLaplace(Fraction(8))), Exponential(Fraction(1, 2))
    smooth = spend_of(SMOOTH, verb="smooth")
    assert price(laplace, currency=Currency.PURE) == Fraction(3, 4)
    assert price(laplace, currency=Currency.ZCDP) == Fraction(3, 32)
    assert price(spend_of(DiscreteGaussian(Fraction(50))), currency=Currency.ZCDP) == Fraction(3, 25)
    assert price(spend_of(choice, verb="choose"), currency=Currency.PURE) == Fraction(3, 2)
    assert price(spend_of(choice, verb="choose"), currency=Currency.ZCDP) == Fraction(3, 32)
    assert price(spend_of(ExponentialCount(Fraction(8), 99)), currency=Currency.PURE) == Fraction(3, 2)
    assert price(smooth, currency=Currency.PURE) == 6 * SMOOTH.price
    # Close to those of continuous noise: 3·4/σ², 3·μ² of pure ε = 1/4 (about 8ε²/π·…) and of a choice at ε/2.
    assert float(price(spend_of(DiscreteGaussian(Fraction(10**4))), currency=Currency.GDP)) == pytest.approx(
        12 / 10**4, rel=1e-3
    )
    one = float(loss.pure_mu_squared(Fraction(1, 4)))
    for each in (laplace, spend_of(choice, verb="choose")):
        assert float(price(each, currency=Currency.GDP)) == pytest.approx(3 * one)
    within = EpsilonDeltaGaussian(Fraction(10**4), Fraction(1, 10**6))
    least = loss.epsilon_for(Fraction(12, 10**4), currency=Currency.GDP, delta=Fraction(1, 10**6))
    assert float(price(spend_of(within), currency=Currency.PURE)) == pytest.approx(float(least), rel=1e-3)


def check_key_delta() -> None:
    """P[some key of one unit is told] under Laplace noise of scale 1, summed up by hand."""
    q = float(np.exp(-1))
    tail = {above: q ** (above + 1) / (1 + q) for above in range(12)}
    for threshold, rows in ((3, 1), (5, 2), (9, 3)):
        mechanism = PartitionSelection(DiscreteLaplace(Fraction(1)), threshold)
        worst = max(1 - (1 - tail[threshold - 1]) ** rows, tail[threshold - rows])
        for unit in (make_unit(each, rows=rows, id="p") for each in Neighbours):
            if unit.rows != rows:
                continue
            twice = 1 if unit.neighbours is Neighbours.ADD_REMOVE else 2
            assert float(delta_price(mechanism, unit=unit)) == pytest.approx(twice * worst)
    assert reveal_probability(PartitionSelection(DiscreteLaplace(Fraction(1)), 2), rows=3) == 1
    far = PartitionSelection(DiscreteLaplace(Fraction(2)), 12)
    apart = 1 - (1 - np.exp(-12 / 2) / (1 + np.exp(-1 / 2))) ** 2
    assert float(reveal_probability(far, rows=2)) >= apart * (1 - 1e-12)
    gaussian = PartitionSelection(DiscreteGaussian(Fraction(4)), 6)
    weights = np.exp(-(np.arange(-60, 61) ** 2) / 8)
    assert float(reveal_probability(gaussian, rows=1)) == pytest.approx(
        weights[60 + 6 :].sum() / weights.sum()
    )
    assert delta_price(EpsilonDeltaGaussian(Fraction(9), Fraction(1, 99)), unit=PrivacyUnit()) == Fraction(
        1, 99
    )


# ----------------------------------------------------------------------------------------------- the books


def reserved(
    workspace: Ledger, *, plan: Adaptivity = Adaptivity.FIXED, unit: PrivacyUnit | None = None, **more: Any
):
    return workspace.reserve(
        "d", unit=unit or PrivacyUnit(), method="test", schema_digest="0", rehearsal=True, plan=plan, **more
    )


def refuses(deed: Callable[[], object]) -> None:
    try:
        deed()
    except PopulaceError:
        return
    raise AssertionError("it was not refused")


def check_books() -> None:
    """What was spent stays spent; keys take their part of δ; nothing is given back that noise or keys may need."""
    tenth = Fraction(1, 10)
    workspace = Workspace()
    workspace.open_account("d", epsilon=2, delta=2 * tenth)
    first = reserved(workspace, epsilon=1, delta=2 * tenth)
    first.finish(returned=(Fraction(0), tenth))
    assert (workspace.account("d").left_epsilon, workspace.account("d").left_delta) == (1, tenth)
    run = reserved(workspace, epsilon=Fraction(1, 2), delta=0)
    half = spend_of(DiscreteLaplace(Fraction(16)), answers=1, l1=4, l2_squared=16)
    run.charge(half)
    refuses(lambda: run.charge(half, half))
    assert run.record().used == Fraction(1, 4)
    refuses(lambda: run.finish(returned=(Fraction(3, 10), Fraction(0))))
    run.finish(returned=(Fraction(1, 4), Fraction(0)))
    assert workspace.account("d").left_epsilon == Fraction(3, 4)
    refuses(lambda: run.charge(half))
    other = reserved(workspace, plan=Adaptivity.ADAPTIVE, epsilon=Fraction(1, 4), delta=tenth, keys=tenth / 2)
    refuses(lambda: reserved(workspace, epsilon=Fraction(1, 4), delta=tenth / 100))
    refuses(lambda: reserved(workspace, epsilon=Fraction(1, 4), delta=0, unit=PrivacyUnit(id="p")))
    assert other.record().budget.cap == Budget.of(Fraction(1, 4), tenth / 2, unit=PrivacyUnit()).cap
    whole = Budget.of(Fraction(1, 4), tenth, unit=PrivacyUnit()).cap
    refuses(lambda: replace(other.record(), cap=whole).check())
    mechanism = PartitionSelection(DiscreteLaplace(Fraction(100)), 400)
    told = Spend(verb="discover", what="x", mechanism=mechanism, answers=1, l1=1, l2_squared=1)
    other.charge(told)
    assert other.record().used_delta_reserve == delta_price(mechanism, unit=PrivacyUnit()) > 0
    assert other.left.keys == tenth / 2 - other.record().used_delta_reserve
    refuses(lambda: other.charge(*[told] * 6))
    refuses(lambda: other.finish(returned=(Fraction(0), Fraction(1, 10**9))))
    three = PrivacyUnit(rows=3, id="p")
    wide = spend_of(mechanism, verb="discover", answers=1, l1=3, l2_squared=9)
    for unit, fair in ((PrivacyUnit(), False), (three, True)):
        cost = SpendRecord(spend=wide, price=Fraction(1), delta=delta_price(mechanism, unit=unit))
        check = partial(cost.check, unit=three, currency=Currency.GDP, run="r")
        check() if fair else refuses(check)
    workspace.declare_nonprivate("d", reason="test")
    refuses(lambda: other.charge(told))
    for unit, spend in product(UNITS, (told, half)):
        l1, squared = _min_sensitivity(spend, unit)
        assert (l1, squared) == (unit.marginal_l1, unit.marginal_l2_squared)
    steps = Spend(verb="measure", what="2 sums", mechanism=WIDE, answers=2, l1=STEPS, l2_squared=STEPS**2)
    assert [_min_sensitivity(steps, unit) for unit in UNITS] == [
        (STEPS * unit.marginal_l1, (STEPS * unit.marginal_l1) ** 2) for unit in UNITS
    ]


# ------------------------------------------------------------------------------------------------- noise


def check_threshold() -> None:
    """Noise of hardly any width: keys at the threshold stay, those above are told, and nobody's never are."""
    sharp = ExactNoise(RehearsalEntropy(1))
    mechanism = PartitionSelection(DiscreteLaplace(Fraction(1, 1000)), 10)
    keys, counts = np.array(["a", "b", "c", "d"]), np.array([9, 10, 11, 12])
    assert dict(sharp.reveal(keys, counts, mechanism=mechanism)) == {"c": 11, "d": 12}
    wide = PartitionSelection(DiscreteLaplace(Fraction(1000)), 1)
    told = ExactNoise(RehearsalEntropy(1)).reveal(np.arange(400), np.repeat([0, 5000], 200), mechanism=wide)
    assert min(map(int, told)) >= 200
    assert len(set(told.values())) > 150
    assert 4000 < np.mean(list(told.values())) < 6000
    assert 1000 < np.std(list(told.values())) < 2000


def check_draws() -> None:
    """Means, spreads and ends of many draws: halved and doubled scales lie far outside."""
    size, source = 4000, RehearsalEntropy(3)
    for variance in (Fraction(9), Fraction(10**12)):
        drawn = samplers.draw_discrete_gaussian(variance, size=size, entropy=source)
        assert float(variance) * 0.85 < drawn.var() < float(variance) * 1.15
        assert abs(drawn.mean()) < 6 * float(variance) ** 0.5 / size**0.5
    for scale in (Fraction(3), Fraction(10**6)):
        drawn = samplers.draw_discrete_laplace(scale, size=size, entropy=source)
        assert 0.9 < np.abs(drawn).mean() / float(scale) < 1.1
    found = samplers.draw_exponential_counts(
        np.repeat([0, 9], size), scale=Fraction(2), most=3, entropy=source
    )
    low, high = found.reshape(2, -1)
    weights = np.exp(-np.arange(4) / 2)
    for drawn in (low, 3 - high):
        shares = np.bincount(drawn, minlength=4) / size
        assert np.abs(shares - weights / weights.sum()).max() < 0.04
    scores = np.array([1, *[0] * 9])
    picked = [samplers.draw_exponential_choice(scores, rate=Fraction(1), entropy=source) for _ in range(400)]
    assert abs(np.mean(np.array(picked) == 0) - np.e / (np.e + 9)) < 0.12
    assert set(picked) == set(range(10))


def check_zero() -> None:
    """In blocks 0 is drawn once, not twice: by half too often or too seldom it is seen."""
    mechanism = blocks.ExponentialDecay(rate=Fraction(1), power=1, symmetric=True)
    drawn = blocks.draw_blocks(
        blocks.build_blocks_of_width(mechanism, width_bits=1), size=6000, entropy=RehearsalEntropy(4)
    )
    q = np.exp(-1)
    for value in (-2, -1, 0, 1, 2):
        assert abs((drawn == value).mean() - (1 - q) / (1 + q) * q ** abs(value)) < 0.03


def check_fork() -> None:
    """A child draws anew, and so does a second one; keys are long."""
    source = SystemEntropy()
    words = []
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, source.words(4).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        words.append(os.read(read, 32))
        os.close(read)
        os.close(write)
    words.append(source.words(4).tobytes())
    assert len(set(words)) == 3
    assert len(set(source._key(0))) > 12
    assert sum(source._key(0)[16:]) > 0


# ------------------------------------------------------------------------------------------ who is kept of a file


def check_first_rows() -> None:
    """Two rows of each unit, whichever batch they are in, however an id is written; nobody without one."""
    batches = [["7", "", " 7", "8"], ["7", None, "8 ", "9"], ["9", "8", "7"]]
    ids = [cells_to_texts(pa.array(each, pa.string())) for each in batches]
    kept = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0]
    assert select_first_rows(ids, rows=2).astype(int).tolist() == kept


def check_contributions() -> None:
    """No row adds more than all steps, whatever its cells hold; one without a number adds none."""
    schema = Schema.from_sizes({"a": 2, "b": 3})
    cells = np.array([0.0, 1.0, 2.0, -1e308, 1e308, np.inf, -np.inf, np.nan, 50.0])
    rows = SurveyRows(
        codes={name: np.zeros(len(cells), np.uint8) for name in "ab"}, numbers={"a": cells, "b": cells[::-1]}
    )
    asked = Sum(factors=(SumFactor(column="a", low=Fraction(-1), high=Fraction(2), centre=Fraction(1)),))
    found = sums.row_contributions(rows, asked, schema=schema)
    half = STEPS // 2
    assert found.tolist() == [-half, 0, half, -STEPS, half, half, -STEPS, 0, half]
    both = Sum(factors=asked.factors, known=("b",), positive=("b",))
    told = sums.row_contributions(rows, both, schema=schema)
    assert told[[1, 2, 5, 6, 7, 8]].tolist() == [0, 0, 0, -STEPS, 0, 0]
    assert np.abs(told).max() <= STEPS


def check_split(tmp_path) -> None:
    check_neighbours(WAYS["csv"], trials=8, folder=tmp_path)
    check_neighbours(rows_alone, trials=8, folder=tmp_path, alone=True)
    split = Split(shares=(Fraction(1, 2),) * 2, neighbours=Neighbours.ADD_REMOVE)
    labels = [str(number).encode() for number in range(40)]
    keys = [SplitKey.draw(RehearsalEntropy(seed)) for seed in (1, 2)]
    assert split.pieces(labels, key=keys[0]).tolist() != split.pieces(labels, key=keys[1]).tolist()


# ------------------------------------------------------------------------------------------------- all of them


def verb(name: str) -> Callable[[], None]:
    return lambda: check_verb(name)


Check = Callable[[], None]
CHECKS: dict[str, Check] = {
    **{f"verb {name}": verb(name) for name in VERBS},
    "laws": check_laws,
    "scores": check_scores,
    "movement": check_movement,
    "rates": check_rates,
    "prices": check_prices,
    "key delta": check_key_delta,
    "books": check_books,
    "threshold": check_threshold,
    "draws": check_draws,
    "zero": check_zero,
    "fork": check_fork,
    "first rows": check_first_rows,
    "contributions": check_contributions,
}
