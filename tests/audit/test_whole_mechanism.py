"""Whole methods on tiny domains: what neighbours lose is what is promised, and faults of any step are caught.

One transcript is recorded and played to every table of a few units. Under it all tables must be asked and told the
same, and the loss of all neighbours, computed anew from what met the noise, must keep the promise.
Proof: docs/proofs/adaptive.md.
"""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest

from populace.methods.method import DeltaUse
from populace.methods.registry import METHODS as ALL
from populace.privacy.noise.entropy import RehearsalEntropy, SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.private_table import PrivateTable
from tests.audit import mechanism_mutants as mutants
from tests.audit.exact_losses import Leak, Waste, allowed, check_noise
from tests.audit.replay import NoisyAnswer, RecordingNoise, Transcript, privacy_loss
from tests.audit.transcripts import Case, check, decoy, met, recorded, whole_run
from tests.helpers.sampled_cases import by_effort

# Rows and seeds of the runs whose transcripts are played; estimates of few rows let scores both rise and fall.
DECOYS = ((5, 1), (12, 2), (60, 3))
FEW = {"decoys": ((5, 1), (60, 3)), "most": 0, "replays": 2}
# Estimates with empty cells: a row that takes the place of another moves a score twice.
SPARSE = {"decoys": ((6, 0), (12, 2)), "most": 0, "replays": 2}

# Rows that are told may differ between neighbours: test_row_keys_law.py has their law.
# Those that count units of a geography need one: test_publish_totals.py and test_replay.py have them.
METHODS = [name for name, method in ALL.items() if method.delta is DeltaUse.SPENT and not method.counts_units]
PURE = [name for name, method in ALL.items() if method.delta is DeltaUse.NONE]
PLAIN = {method: Case(method=method) for method in METHODS}
PERSONS = {method: Case(method=method, rows=2) for method in METHODS}
SWAPS = {method: Case(method=method, sizes=(3, 3), relation="replace-one") for method in METHODS}
PAIR = Case(method="adaptive", sizes=(3, 3))
TRIPLES = Case(method="adaptive", sizes=(3, 3, 3))
LOOKS = Case(method="adaptive", sizes=(2, 2, 2, 2))
CHECKS = {
    **dict.fromkeys(PLAIN.values(), FEW),
    **dict.fromkeys(PERSONS.values(), FEW),
    **{Case(method=method, delta="0"): FEW for method in METHODS},
    **dict.fromkeys(SWAPS.values(), SPARSE),
    # Of two columns there is one pair to choose: what was paid for the choice is not lost.
    SWAPS["gem"]: {**SPARSE, "least": 0.85},
    SWAPS["mwem"]: {**SPARSE, "least": 0.7},
    SWAPS["privbayes"]: {**SPARSE, "least": 0.85},
    **{Case(method=method, delta="0", epsilon="2"): FEW for method in sorted(PURE)},
    **{Case(method=method, delta="0", epsilon="2", rows=2): FEW for method in sorted(PURE)},
    **{
        Case(method=method, delta="0", epsilon="2", sizes=(3, 3), relation="replace-one"): SPARSE
        for method in sorted(PURE)
    },
    Case(method="adaptive", sizes=(3, 3), rows=2, relation="replace-one"): {**SPARSE, "least": 0.97},
    PAIR: {**FEW, "decoys": ((6, 0), (12, 0), (12, 1), (30, 0))},
    LOOKS: FEW,
    TRIPLES: {**FEW, "decoys": ((400, 1),)},
}
# Units of several rows, pure noise and swaps change prices, which no method sets by itself.
SLOW = [
    case
    for case in CHECKS
    if case.method in ("aim", "copula", "gem", "independent", "mwem", "nist2018", "pmw", "privbayes")
    and case not in PLAIN.values()
]
SLOW += [case for case in CHECKS if case.method in ("histogram", "field-groups") and case.rows > 1]
SLOW += [case for case in CHECKS if case.method == "field-groups" and case.relation == "replace-one"]
# Of the largest tables one is enough for a quick look.
SLOW += [
    case
    for case in CHECKS
    if case.method == "adaptive" and str(case).startswith(("adaptive-3x3x3", "adaptive-2x2x2x2"))
]


def least(case):
    """Choices can lose less than they are paid for, and under replace-one the number of rows loses nothing.

    Counts within a range lose all of it only where noise is wide, and those of a swap at both ends of the range.
    """
    if case.method == "histogram-exponential":
        return 0.5
    return 0.999 if case.method == "adaptive" else 0.9


def checked(case):
    return check(case, **{"least": least(case), **CHECKS[case]})


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in CHECKS],
    ids=str,
)
def test_neighbours_lose_what_is_promised_and_no_more(case):
    found = checked(case)
    if case.method == "adaptive":
        assert {("score", 2), ("measure", 1), ("measure", 2)} <= found.reached
    if case is TRIPLES:
        assert ("score", 3) in found.reached
    if case.method == "copula":
        assert ("measure", 2) in found.reached
    if case.method == "pmw":
        assert {("find_far", 2), ("measure", 2)} <= found.reached
    if case.method in ("mst", "aim", "gem", "mwem", "nist2018", "privbayes"):
        assert ("choose", 2) in found.reached


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_all_tables_of_three_rows_agree(method):
    """The whole method on every table of up to three rows, and all neighbours around tables of up to two."""
    check(PLAIN[method], decoys=DECOYS, most=2, replays=165, least=least(PLAIN[method]))


def test_pairs_are_looked_at_twice():
    asked = [[step.verb for step in recorded(LOOKS, rows, seed=seed).steps] for rows, seed in DECOYS]
    assert max(verbs.count("score") for verbs in asked) == 2


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_that_is_used_up_answers_nothing(method):
    story = recorded(PLAIN[method], 12, seed=1)
    assert [step.booked is None for step in story.steps] == [False] * (len(story.steps) - 1) + [True]
    assert not story.steps[-1].meetings


class Wild:
    """A noise source that says anything: what is there, nothing at all, less than nothing, far too much."""

    def __init__(self, seed):
        self.rng, self.transcript = np.random.default_rng(seed), Transcript()
        self.spread = self.rng.choice([0, 1, 30, 1000])

    def add(self, exact, *, mechanism):
        spread = self.spread * float(mechanism.variance) ** 0.5
        answer = exact + np.rint(self.rng.normal(0.0, spread, exact.shape)).astype(np.int64)
        answer = (answer, answer, 0 * answer, -np.abs(answer))[self.rng.integers(4)]
        self.transcript.record(NoisyAnswer(exact.copy(), mechanism, answer.copy()))
        return answer

    def pick(self, scores, *, rate):
        answer = int(self.rng.integers(len(scores)))
        self.transcript.record(NoisyAnswer(scores.copy(), rate, answer))
        return answer


ODD = [Case(method=method, sizes=(3, 1, 4), delta="0", epsilon="400") for method in METHODS]


@pytest.mark.parametrize(
    "case", [*PLAIN.values(), *(pytest.param(case, marks=pytest.mark.slow) for case in ODD)], ids=str
)
@pytest.mark.slow
def test_no_answers_stop_a_run(case):
    """A run that fails for what it was told has been paid for all the same."""
    common = (((0,) * len(case.sizes),),) * 300
    sources = [*map(Wild, range(4)), RecordingNoise(ExactNoise(RehearsalEntropy(1)))]
    for source in sources:
        for table in (common, decoy(case, 20, seed=1)):
            assert whole_run(case, table, source).items
            source.transcript = Transcript()


HALF, TWICE = Fraction(1, 2), Fraction(2)
LOSES, ASKS, TELLS = "of what is promised", "changed the questions", "changed what was told"
FAULTS = {
    "score treated as monotone": (mutants.monotone_score, PLAIN["mst"], LOSES),
    "score treated as monotone, with weights": (mutants.monotone_score, PLAIN["aim"], LOSES),
    "rows per unit forgotten in scores": (mutants.rows_forgotten_in_scores, PERSONS["adaptive"], LOSES),
    "rows per unit forgotten in choices": (mutants.rows_forgotten_in_scores, PERSONS["mst"], LOSES),
    "rows per unit forgotten once": (mutants.rows_forgotten_after_the_look, PERSONS["adaptive"], LOSES),
    "one side of a swap forgotten": (mutants.swaps_forgotten_in_scores, SWAPS["adaptive"], LOSES),
    "rows of a unit not cut": (mutants.rows_not_cut, PERSONS["adaptive"], LOSES),
    "n without noise in estimates": (mutants.rows_counted_for_estimates, PLAIN["adaptive"], ASKS),
    "n without noise in choices": (mutants.rows_counted_for_estimates, PLAIN["mst"], ASKS),
    "n without noise in the noise": (mutants.rows_counted_for_noise, PLAIN["adaptive"], ASKS),
    "n without noise in answers": (mutants.rows_told, PLAIN["independent"], TELLS),
    "filter one round late": (mutants.late_filter, PLAIN["adaptive"], LOSES),
    "filter one round late, in rounds": (mutants.late_filter, PLAIN["aim"], LOSES),
    "half-even scores": (mutants.half_even_scores, PAIR, LOSES),
    "half the noise": (mutants.noise_passed_on(HALF), PLAIN["adaptive"], LOSES),
    "half the noise of scores": (mutants.noise_passed_on(HALF, verbs=["score"]), PLAIN["adaptive"], LOSES),
    "score treated as monotone, in a network": (mutants.monotone_score, PLAIN["privbayes"], LOSES),
    "score treated as monotone, by a generator": (mutants.monotone_score, PLAIN["gem"], LOSES),
    "half the noise of what a generator is taught": (
        mutants.noise_passed_on(HALF, verbs=["measure"]),
        PLAIN["gem"],
        LOSES,
    ),
    "half the noise of searches": (mutants.noise_passed_on(HALF, verbs=["find_far"]), PLAIN["pmw"], LOSES),
    "half the noise of both rounds": (
        mutants.noise_passed_on(HALF, verbs=["measure"]),
        PLAIN["nist2018"],
        LOSES,
    ),
    "half the noise of coarse pairs": (mutants.noise_passed_on(HALF), PLAIN["copula"], LOSES),
    "n without noise in groups": (mutants.rows_counted_for_noise, PLAIN["copula"], ASKS),
    "half the noise of choices": (mutants.noise_passed_on(HALF, verbs=["choose"]), PLAIN["mst"], LOSES),
}
WASTES = {
    "twice the noise": (mutants.noise_passed_on(TWICE), PAIR),
    "twice the noise of scores": (mutants.noise_passed_on(TWICE, verbs=["score"]), PAIR),
    "twice the noise of marginals": (mutants.noise_passed_on(TWICE, verbs=["measure"]), PLAIN["mwem"]),
    "twice the noise of both rounds": (mutants.noise_passed_on(TWICE, verbs=["measure"]), PLAIN["nist2018"]),
    "twice the noise of coarse pairs": (mutants.noise_passed_on(TWICE), PLAIN["copula"]),
    "twice the noise of what a generator is taught": (
        mutants.noise_passed_on(TWICE, verbs=["measure"]),
        PLAIN["gem"],
    ),
    "twice the noise of columns and pairs": (mutants.noise_passed_on(TWICE, verbs=["measure"]), PLAIN["mst"]),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught(fault):
    """By the very check that right code passes above."""
    mutant, case, why = FAULTS[fault]
    with mutant(), pytest.raises(Leak, match=why):
        checked(case)


@pytest.mark.parametrize("fault", WASTES)
def test_needless_noise_is_caught(fault):
    mutant, case = WASTES[fault]
    with mutant(), pytest.raises(Waste):
        checked(case)


# Rows are so many, or so few, that all verbs are used, and no choice is nearly certain.
DRAWN = {
    "adaptive": (Case(method="adaptive", sizes=(3, 3), epsilon="5"), 300, ("measure", "score")),
    "aim": (Case(method="aim", epsilon="6"), 60, ("measure", "choose")),
    "copula": (Case(method="copula", epsilon="6"), 300, ("measure",)),
    "gem": (Case(method="gem", epsilon="6"), 60, ("measure", "choose")),
    "independent": (Case(method="independent", epsilon="6"), 12, ("measure",)),
    "mst": (Case(method="mst", epsilon="4"), 12, ("measure", "choose")),
    "mwem": (Case(method="mwem", epsilon="6"), 60, ("measure", "choose")),
    "nist2018": (Case(method="nist2018", epsilon="4"), 12, ("measure", "choose")),
    "pmw": (Case(method="pmw", epsilon="6"), 60, ("measure", "find_far")),
    "privbayes": (Case(method="privbayes", epsilon="6"), 60, ("measure", "choose")),
}


def drawn(method, *, runs):
    """Return the steps of runs with noise from the operating system."""
    case, rows, _ = DRAWN[method]
    table = decoy(case, rows, seed=1)
    return [
        step
        for _ in range(runs)
        for step in whole_run(case, table, RecordingNoise(ExactNoise(SystemEntropy()))).steps
    ]


@pytest.mark.parametrize("runs", by_effort(slow=12, full=50))
@pytest.mark.parametrize("method", METHODS)
def test_noise_is_drawn_as_the_ledger_says(method, runs):
    """False alarms: below 1e-8 for each method, however many runs."""
    check_noise(drawn(method, runs=runs), verbs=DRAWN[method][2])


@pytest.mark.parametrize(
    ("fault", "method"),
    [
        (mutants.noise_drawn, "adaptive"),
        (mutants.noise_drawn, "mst"),
        (mutants.noise_passed_on, "mst"),
    ],
)
@pytest.mark.parametrize(("factor", "error"), [(HALF, Leak), (TWICE, Waste)])
def test_noise_of_another_scale_is_caught(fault, method, factor, error):
    """At least 200 numbers are drawn; faults slip through with probability below 1e-9."""
    with fault(factor)():
        steps = drawn(method, runs=16)
    with pytest.raises(error, match="measure"):
        check_noise(steps, verbs=DRAWN[method][2])


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["score", "choose"])
@pytest.mark.parametrize(
    ("fault", "error"),
    [(nullcontext, None), (mutants.noise_drawn(HALF), Leak), (mutants.noise_drawn(TWICE), Waste)],
)
def test_scores_and_choices_alone_show_their_noise(verb, fault, error):
    """False alarms: below 1e-8. Each of the faults lies 10 deviations away, and is missed with less than 1e-4."""
    with fault():
        steps = drawn("adaptive", runs=150) if verb == "score" else drawn("mst", runs=500)
    with pytest.raises(error, match=verb) if error else nullcontext():
        check_noise(steps, verbs=[verb])


@pytest.mark.slow
@pytest.mark.parametrize("comes", [True, False])
def test_the_loss_of_runs_that_reach_pairs_has_the_promised_mean_and_spread(comes):
    """The loss of a run whose answers are nearly Gaussian is about N(μ²/2, μ²); 5 deviations: false alarms below 1e-5.

    Half the noise would double μ, and twice the noise halve it.
    """
    case = Case(method="adaptive", epsilon="4", delta="0.05")
    fewer = decoy(case, 300, seed=1)
    more = (*fewer, ((0, 1, 1),))
    here, there = (fewer, more) if comes else (more, fewer)
    private = PrivateTable.of(case.frame(there), schema=case.schema)
    found, looked = [], 0
    for seed in range(300):
        story = whole_run(case, here, RecordingNoise(ExactNoise(RehearsalEntropy(seed))))
        found.append(privacy_loss(story.transcript, met(case, story, private)))
        looked += any(step.verb == "score" for step in story.steps)
    assert looked == 300
    mu_squared = allowed(epsilon=4, delta=0.05)
    assert abs(np.mean(found) - mu_squared / 2) < 5 * (mu_squared / len(found)) ** 0.5
    assert abs(np.var(found) / mu_squared - 1) < 5 * (2 / len(found)) ** 0.5 + 0.02
