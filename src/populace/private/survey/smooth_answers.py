"""Answers with smooth bounds, and scores of sets of bins, as the barrier asks for them.

What is said of them is checked against public facts first. Proof: docs/proofs/smooth.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb

from populace.core.errors import UsageError
from populace.core.marginals import Counts
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS
from populace.privacy.accounting.interval_arithmetic import ball, ceiling
from populace.privacy.sensitivity.poststratification import binning_score_sensitivity
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.private.question_checks import check_marginals
from populace.private.survey import imputed_answers as imputed
from populace.private.survey import weighted_answers as weighted
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.survey.smooth_questions import BinChoice, ImputedQuestion, SmoothQuestion

# Below this a bound would hardly change, and its logarithm would take more steps than can be counted.
_MIN_SMOOTHNESS, _MAX_SMOOTHNESS = Fraction(1, 2**20), Fraction(2**8)
# Lattices, and how far one of them may be from what one row can move: what is drawn is decided by then.
_LATTICES, _APART = (Fraction(1, 2**256), Fraction(2**256)), 2**64
# Scores are whole numbers of 64 bits, and so is the distance of two.
_MAX_SCORE = 2**61


def check_question(question: SmoothQuestion, *, schema: Schema) -> None:
    """Refuse, from public facts alone, what has no answer or no bound."""
    if isinstance(question, ImputedQuestion):
        check_marginals([question.donors.match], domain=schema.domain)
        if not question.donors.low < question.donors.high:
            raise UsageError(
                f"values of {question.donors.column!r} from {question.donors.low} to {question.donors.high} "
                "leave no room.",
                hint="give the lower end first, and another upper end",
            )
        imputed.check(question, schema)
    else:
        check_marginals([question.by], domain=schema.domain)
        weighted.check(question, schema)
    if not _MIN_SMOOTHNESS <= question.smoothness <= _MAX_SMOOTHNESS:
        raise UsageError(
            f"the smoothness of a bound is {float(question.smoothness):.3g}.",
            hint=f"give at least {float(_MIN_SMOOTHNESS):.3g} and at most {float(_MAX_SMOOTHNESS):.3g}",
        )


def check_noise_and_lattice(question: SmoothQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> None:
    """Refuse noise that does not hide how the bound moves, and a lattice that is none or far from what rows move."""
    if type(mechanism) is not SmoothNoise or mechanism.t < question.smoothness:
        raise UsageError(
            f"{mechanism} does not follow a bound of smoothness {float(question.smoothness):.6g}.",
            hint="choose noise for the t of the question, its smoothness",
        )
    if type(lattice) is not Fraction or not lattice > 0:
        raise UsageError(f"answers are rounded to multiples of {lattice!r}.", hint="give a Fraction above 0")
    least, most = question.moves
    low, high = max(_LATTICES[0], most / _APART), min(_LATTICES[1], least * _APART)
    if not low <= lattice <= high:
        raise UsageError(
            "answers are rounded to multiples of a number that is too small or too large.",
            hint="give one of about the size that one row can move an answer by, or some thousandths of it",
        )


def answer(
    rows: SurveyRows, question: SmoothQuestion, *, schema: Schema, key: str
) -> tuple[Fraction, Callable[[], arb]]:
    """Return the exact answer, and a smooth bound on how far one row moves it.

    `key` is public and random, of the run alone: no file has donors whose luck is the same in all runs.
    """
    if isinstance(question, ImputedQuestion):
        # Questions of a run about the same donors share what was filled.
        own = imputed.ImputedRows(rows=rows, donors=question.donors, schema=schema, key=key)
        filled: imputed.ImputedRows = rows.kept.setdefault((question.donors, key), own)
        return filled.answer(question)
    return weighted.answer(rows, question, schema)


def log_bound_steps(rows: SurveyRows, question: SmoothQuestion, *, schema: Schema, key: str) -> Counts:
    """Return ⌈LOG_STEPS·ln(bound)/t⌉: one row moves it by at most LOG_STEPS."""
    _, bound = answer(rows, question, schema=schema, key=key)
    size = ceiling(lambda: LOG_STEPS * bound().log() / ball(question.smoothness))
    return np.array(size, dtype=np.int64)


def check_choice(choice: BinChoice, *, schema: Schema) -> None:
    """Refuse, from public facts alone, sets of bins that have no scores."""
    check_marginals([choice.by], domain=schema.domain)
    weighted.check(choice, schema)


def scale_scores(choice: BinChoice) -> tuple[int, int]:
    """Return by what scores are multiplied to become whole numbers, and by how much one row then moves them."""
    sensitivity = binning_score_sensitivity(choice.binnings, populations=choice.populations)
    times = math.ceil(SCORE_STEPS / sensitivity)
    return times, math.ceil(sensitivity * times)


def integer_scores(rows: SurveyRows, choice: BinChoice, *, schema: Schema, times: int) -> Counts:
    """Return the score of each set of bins, multiplied and rounded down to a whole number that 64 bits hold.

    Held to a public end, scores move no further than they did.
    """
    exact = weighted.scores(rows, choice, schema)
    return np.array([min(math.floor(each * times), _MAX_SCORE) for each in exact], dtype=np.int64)
