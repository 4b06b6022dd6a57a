"""The law of whole runs: exact privacy losses of adaptive transcripts, two-sided."""

from __future__ import annotations

import math

import numpy as np
import pytest

from populace.privacy.accounting.mechanisms import Exponential
from tests.audit.replay import privacy_loss
from tests.audit.tiny_tables import Rows, run_twin

EMPTY = Rows()
ONE = Rows((("m", "full", 2, 50.0),))


def losses(method, *, runs, pair=(EMPTY, ONE), **options):
    found, cap = [], None
    for seed in range(runs):
        twin = run_twin(pair, method=method, ledgers=None, seed=seed, **options)
        found.append(privacy_loss(twin.first_transcript, twin.second_transcript))
        cap = float(twin.first.record.cap)
    return np.array(found), cap


@pytest.mark.slow
@pytest.mark.parametrize("method", ["independent", "mst"])
@pytest.mark.parametrize("flip", [False, True])
def test_privacy_loss_of_whole_runs_has_the_promised_mean_and_spread(method, flip):
    """For Gaussian answers the loss is about N(μ²/2, μ²).

    600 runs, bounds at 5 standard errors: false-alarm rate below 1e-5 in all. Halved noise doubles μ, and
    doubled noise halves it; both lie far outside. Choices use their worst case rarely, so the lower bound
    for mst counts only what is spent on measurements.
    """
    pair = (ONE, EMPTY) if flip else (EMPTY, ONE)
    found, cap = losses(method, runs=600, pair=pair, epsilon="1", delta="1e-2")
    least = cap if method == "independent" else 0.85 * cap
    error = 5 * math.sqrt(cap / len(found))
    assert least / 2 - error < found.mean() < cap / 2 + error
    ratio = found.var() / cap
    spread = 5 * math.sqrt(2 / len(found))
    assert (0.97 if method == "independent" else 0.85) - spread < ratio < 1.03 + spread


@pytest.mark.slow
@pytest.mark.parametrize("method", ["independent", "mst"])
def test_hockey_stick_of_whole_runs_is_below_delta(method):
    """E[(1 − e^{ε − L})₊] ≤ δ, with δ = 0.05 large enough to be seen.

    600 runs; the mean of variables in [0, 1] with variance ≤ δ exceeds δ by 5 standard errors with
    probability below 1e-5.
    """
    found, _ = losses(method, runs=600, epsilon="0.5", delta="0.05")
    stick = np.maximum(0.0, 1.0 - np.exp(0.5 - found)).mean()
    assert stick < 0.05 + 5 * math.sqrt(0.05 / len(found))
    # The exact Gaussian curve is used up: twice the noise would leave most of delta unused.
    assert stick > 0.05 / 3


@pytest.mark.parametrize("runs", [12, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["independent", "mst"])
def test_pure_runs_never_lose_more_than_epsilon(method, runs):
    """With δ = 0 the loss of every single run is within ±ε, and runs come close to it."""
    found, cap = losses(method, runs=runs, epsilon="1", delta="0")
    assert cap == 1
    assert np.abs(found).max() <= 1 + 1e-9
    assert np.abs(found).max() > 0.3


@pytest.mark.parametrize("method", ["aim", "mst"])
def test_choice_law_on_enumerated_neighbours(method):
    """Probabilities of every choice on neighbours differ by a factor within e^ε, and by more than e^{ε/2}.

    The upper bound fails if the score is treated as monotone (weights exp(εq/Δ)); the lower one if the noise
    is doubled.
    """
    tightest = 0.0
    rows = [("f", "none", 0, 5.0), ("m", "full", 4, 500.0), ("m", "some", 2, 50.0)]
    for number, base in enumerate((Rows(tuple(rows[:1]) * 40), Rows(tuple(rows) * 30))):
        # Such a row raises the score of some pairs and lowers that of others.
        for seed, extra in enumerate((("f", "full", 0, 5.0), ("m", "none", 4, 500.0)), start=2 * number):
            pair = (base, Rows((*base.rows, extra)))
            twin = run_twin(pair, method=method, ledgers=None, seed=seed, epsilon="20")
            chosen = [b.spend for b in twin.first.record.spends if isinstance(b.spend.mechanism, Exponential)]
            picks = [
                (one, other)
                for one, other in zip(twin.first_transcript, twin.second_transcript, strict=True)
                if isinstance(one.answer, int)
            ]
            for spend, (one, other) in zip(chosen, picks, strict=True):
                ratio = np.abs(_log_law(one) - _log_law(other)).max()
                assert ratio <= float(spend.mechanism.epsilon) * (1 + 1e-9)
                tightest = max(tightest, ratio / float(spend.mechanism.epsilon))
    assert tightest > 0.5


def _log_law(meeting):
    weights = float(meeting.mechanism) * (meeting.exact - meeting.exact.max())
    return weights - np.log(np.exp(weights).sum())
