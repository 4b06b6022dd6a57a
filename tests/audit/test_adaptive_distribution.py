"""The exact law of a small adaptive run: every transcript is weighed, and no theorem of composition is used.

What is asked second, how often and with how much noise, depends on the first answer. Neighbours are told apart by one
number of each answer; summed over all their values, the hockey-stick divergence is that of the whole run.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from unittest.mock import patch

import numpy as np
import pytest

from populace.core.marginals import Candidates, Marginal
from populace.methods.adaptive.adaptive import ADAPTIVE
from tests.audit import mechanism_mutants as mutants
from tests.audit.replay import NoisyAnswer, Transcript
from tests.audit.transcripts import Case, whole_run

CASE = Case(method="adaptive", sizes=(2, 2), epsilon="1", delta="1e-2")
EMPTY, ONE = (), (((1, 1),),)
THIRD = Fraction(1, 3)
# 9 deviations of the widest noise: what lies outside has a probability below 1e-17.
REACH = np.arange(-30, 31)


def curious(oracle, workload, progress):
    """Count a column; after an even count look at the pair, after an odd one measure the pair and the other column."""
    noise = oracle.budget.measure_noise(THIRD, marginals=1)
    first = oracle.measure([Marginal(("a",))], noise=noise)
    if first[0].counts[1] % 2 == 0:
        slate = Candidates((Marginal(("a", "b")),), (np.zeros((2, 2), np.int64),), (0,))
        oracle.score(slate, noise=oracle.budget.score_noise(2 * THIRD, scores=1))
        return first
    return (
        first
        + oracle.measure([Marginal(("a", "b"))], noise=noise)
        + oracle.measure([Marginal(("b",))], noise=noise)
    )


class Script:
    """Says one number about the first column, and nothing of interest about anything else."""

    def __init__(self, number):
        self.number, self.transcript = number, Transcript()

    def add(self, exact, *, mechanism):
        answer = np.zeros_like(exact) if self.transcript.entries else np.array([0, self.number])
        self.transcript.record(NoisyAnswer(exact.copy(), mechanism, answer))
        return answer


def moved_laws(number):
    """Return, for every meeting with noise after this first answer, its variance and how far it moved."""
    transcripts = []
    for table in (EMPTY, ONE):
        source = Script(number)
        whole_run(CASE, table, source)
        transcripts.append(source.transcript.entries)
    found = []
    for one, other in zip(*transcripts, strict=True):
        assert one.mechanism == other.mechanism
        (moved,) = (other.exact - one.exact)[other.exact != one.exact]
        found.append((float(one.mechanism.variance), int(moved)))
    return found


def masses(variance, moved):
    """Return the probabilities of one number on both tables: noise around 0, and around where it moved."""
    both = [np.exp(-((REACH - centre) ** 2) / (2 * variance)) for centre in (0, moved)]
    return [each / each.sum() for each in both]


def divergences():
    """Return Σ max(P − e^ε·Q, 0) over all transcripts, both ways round."""
    power, found = np.exp(float(CASE.epsilon)), [0.0, 0.0]
    for number in REACH:
        (variance, moved), *later = moved_laws(int(number))
        first = [mass[number - REACH[0]] for mass in masses(variance, moved)]
        # The joint law of all later numbers: one table of probabilities for each of the two neighbours.
        laws = [masses(*mechanism) for mechanism in later]
        one, other = (
            first[side] * reduce(np.multiply.outer, [mechanism[side] for mechanism in laws])
            for side in (0, 1)
        )
        found[0] += float(np.maximum(one - power * other, 0).sum())
        found[1] += float(np.maximum(other - power * one, 0).sum())
    return found


@pytest.mark.parametrize(
    ("fault", "kept", "used"),
    [
        (nullcontext, True, True),
        (mutants.late_filter, False, True),
        (mutants.noise_passed_on(Fraction(1, 2)), False, True),
        (mutants.noise_passed_on(Fraction(2)), True, False),
    ],
    ids=["right", "filter one round late", "half the noise", "twice the noise"],
)
@pytest.mark.slow
def test_delta_of_all_transcripts_is_the_one_that_was_promised(fault, kept, used):
    with (
        patch("populace.methods.registry.METHODS", {"adaptive": replace(ADAPTIVE, measure=curious)}),
        fault(),
    ):
        found = max(divergences())
    delta = float(CASE.delta)
    assert (found <= delta) is kept
    assert (found > 0.95 * delta) is used
