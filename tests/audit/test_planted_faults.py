"""Faults of the private side, as small as they would be in the wild: each is seen by a check that sound code passes.

Every fault changes one line of one function.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from populace.core.errors import InternalError, PopulaceError
from populace.privacy.accounting import partition_selection as stability
from populace.privacy.accounting import privacy_loss as loss
from populace.privacy.accounting.mechanisms import DiscreteLaplace, Exponential
from populace.privacy.accounting.partition_selection import delta_price, reveal_probability
from populace.privacy.accounting.spend_record import SpendRecord, _min_sensitivity
from populace.privacy.ledger.account import fix_protected
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.run_record import RunRecord
from populace.privacy.noise import block_rejection as blocks
from populace.privacy.noise import samplers
from populace.privacy.noise import table_inversion as inversion
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.noise.split_key import Split, SplitKey
from populace.privacy.sensitivity.candidate_scores import score_candidates
from populace.private import secret_split as pieces
from populace.private.barrier import Barrier
from populace.private.read import value_counts as values
from populace.private.read.value_counts import select_first_rows
from populace.private.survey import exact_sums as sums
from populace.schema.unit import PrivacyUnit
from tests.audit.private_checks import CHECKS, check_split
from tests.helpers.planted_faults import seeded

SPEND = "self._run.charge("
AGAIN = "candidates is self._scored or self._run.charge("
FAULTS: list[tuple[str, Any, str, str]] = [
    # Answers for nothing, or for the price of one.
    ("verb score", Barrier.score, SPEND, AGAIN),
    ("verb choose", Barrier._pick, SPEND, AGAIN),
    ("verb score", Barrier.score, "answers=count", "answers=len(set(candidates.marginals))"),
    ("verb measure", Barrier.measure_batches, "answers=len(marginals)", "answers=len(set(marginals))"),
    ("verb sum_batches", Barrier.sum_batches, "answers=len(sums)", "answers=len(set(sums))"),
    (
        "verb measure_batches",
        Barrier.measure_batches,
        "for marginals, noise in batches\n",
        "for marginals, noise in batches[:1]\n",
    ),
    (
        "verb sum_batches",
        Barrier.sum_batches,
        "for sums, noise in batches\n",
        "for sums, noise in batches[-1:]\n",
    ),
    (
        "verb discover_rows",
        Barrier.discover_rows,
        SPEND,
        "self._table._read_engine.cache_info().currsize or " + SPEND,
    ),
    (
        "verb discover_values",
        Barrier.discover_values,
        SPEND,
        "self._table._read_tallies.cache_info().currsize or " + SPEND,
    ),
    ("verb smooth", Barrier.smooth, SPEND, "self._table._read_survey_rows.cache_info().currsize or " + SPEND),
    (
        "verb bound_size",
        Barrier.bound_size,
        SPEND,
        "self._table._read_survey_rows.cache_info().currsize or " + SPEND,
    ),
    (
        "verb choose_bins",
        Barrier.choose_bins,
        SPEND,
        "self._table._read_survey_rows.cache_info().currsize or " + SPEND,
    ),
    (
        "verb discover_bins",
        Barrier.discover_bins,
        SPEND,
        "self._table._read_engine.cache_info().currsize or " + SPEND,
    ),
    # Noise that is shared.
    (
        "verb score",
        Barrier.score,
        "add(self._exact_scores(candidates), mechanism=noise)",
        "add(np.zeros(1, np.int64), mechanism=noise) + self._exact_scores(candidates)",
    ),
    (
        "verb discover_bins",
        Barrier.discover_bins,
        "self._noise.add(exact, mechanism=noise)",
        "exact + self._noise.add(exact[:1] * 0, mechanism=noise)",
    ),
    ("verb measure", ExactNoise.add, "size=exact.size).reshape(exact.shape)", "size=1)"),
    ("threshold", ExactNoise.reveal, "size=counts.size)", "size=1)"),
    (
        "verb sum_batches",
        Barrier.sum_batches,
        "self._noise.add(cells, mechanism=noise)",
        "self._noise.add(cells, mechanism=asked[0][1]) if cells is exact[0] else cells",
    ),
    (
        "laws",
        Barrier.measure_batches,
        "self._noise.add(counts, mechanism=noise)",
        "self._noise.add(counts, mechanism=asked[0][1])",
    ),
    (
        "laws",
        Barrier.sum_batches,
        "self._noise.add(cells, mechanism=noise)",
        "self._noise.add(cells, mechanism=asked[-1][1])",
    ),
    ("scores", Barrier._exact_scores, "self._scored is not candidates", "self._scored is None"),
    ("scores", score_candidates, "- penalty", "+ penalty"),
    # For how far one unit moves.
    ("movement", Barrier.score, "max(candidates.weights)", "min(candidates.weights)"),
    (
        "movement",
        Barrier._pick,
        "max(candidates.weights[number] for number in among)",
        "max(candidates.weights[:1])",
    ),
    ("movement", Barrier.sum_batches, "unit.marginal_l1", "unit.rows"),
    ("movement", Barrier.smooth, "unit.marginal_l1", "unit.rows"),
    ("movement", Barrier.bound_size, "unit.marginal_l1", "rows_per_unit" if False else "unit.rows"),
    ("rates", Barrier.choose_bins, "step * self.schema.unit.marginal_l1", "step * self.schema.unit.rows"),
    ("rates", Barrier.choose_bins, "rate(sensitivity=shift)", "rate(sensitivity=step)"),
    (
        "rates",
        Barrier._pick,
        "rate(sensitivity=shift)",
        "rate(sensitivity=self._table.schema.unit.score_shift)",
    ),
    ("rates", Exponential.rate, "(2 * sensitivity)", "sensitivity"),
    ("movement", Barrier._spend, "else shift**2", "else shift"),
    ("movement", PrivacyUnit.marginal_l1, "(1 if self.neighbours is Neighbours.ADD_REMOVE else 2)", "1"),
    ("movement", PrivacyUnit.marginal_l2_squared, "self.rows**2 * (1", "self.rows * (1"),
    # Prices.
    ("prices", loss._gdp_price, "spend.answers * spend.l2_squared *", "spend.l2_squared *"),
    ("prices", loss._gdp_price, "spend.l1 / mechanism.scale", "1 / mechanism.scale"),
    ("prices", loss._gdp_price, "mechanism.epsilon / 2", "mechanism.epsilon / 4"),
    ("prices", loss._pure_price, "spend.answers * 2 * spend.l1", "spend.answers * spend.l1"),
    (
        "prices",
        loss._pure_price,
        "return spend.answers * spend.l1 / mechanism.scale",
        "return spend.answers / mechanism.scale",
    ),
    (
        "prices",
        loss._pure_price,
        "return spend.answers * mechanism.epsilon",
        "return spend.answers * mechanism.epsilon / 2",
    ),
    ("prices", loss._pure_price, "epsilon_for(_gdp_price(spend)", "epsilon_for(_gdp_price(spend) / 2"),
    ("prices", loss._zcdp_price, "mechanism.epsilon**2 / 8", "mechanism.epsilon**2 / 16"),
    ("prices", loss._zcdp_price, "(spend.l1 / mechanism.scale) ** 2 / 2", "(spend.l1 / mechanism.scale) / 2"),
    ("prices", loss._group_epsilon, "rows * mechanism.price", "mechanism.price"),
    ("key delta", delta_price, "2 * once if", "once if"),
    ("key delta", delta_price, "rows=unit.rows", "rows=1"),
    ("key delta", delta_price, "return mechanism.delta", "return Fraction(0)"),
    (
        "key delta",
        reveal_probability,
        "_tail(mechanism.noise, mechanism.threshold - 1)",
        "_tail(mechanism.noise, mechanism.threshold)",
    ),
    ("key delta", reveal_probability, "mechanism.threshold - rows))[1]", "mechanism.threshold))[1]"),
    (
        "key delta",
        reveal_probability,
        "max(apart, together, _MIN_PROBABILITY)",
        "max(together, _MIN_PROBABILITY)",
    ),
    ("key delta", reveal_probability, "mechanism.threshold < rows", "False"),
    ("key delta", stability._tail, "(1 + (-ball", "(2 + (-ball"),
    ("key delta", stability._gaussian_tail, "(total + rest)", "total / 2"),
    # Books.
    ("books", Ledger.charge, "delta_price(spend.mechanism, unit=run.unit)", "0"),
    (
        "books",
        Ledger.charge,
        "price(spend, currency=run.currency)",
        "price(spend, currency=run.currency) / 2",
    ),
    ("books", LedgerState._spend, "+= record.price", "= record.price"),
    ("books", LedgerState._spend, "record.delta > (unused", "False and record.delta > (unused"),
    (
        "books",
        LedgerState.write,
        "EventKind.RESERVE, EventKind.SPEND, ",
        "EventKind.RESERVE, ",
    ),
    ("books", LedgerState._reserve, "or record.delta > account.left_delta", ""),
    (
        "books",
        fix_protected,
        "(account.unit, account.id, account.frequency) != unit",
        "False",
    ),
    ("books", LedgerState._finish, "taken_epsilon - epsilon", "taken_epsilon - 2 * epsilon"),
    ("books", LedgerState._finish, "taken_delta - delta", "taken_delta - 2 * delta"),
    ("books", LedgerState._active, "run.finished", "False"),
    ("books", RunRecord.check_return, "self.plan is not Adaptivity.FIXED", "False"),
    ("books", RunRecord.check_return, "not is_covered(", "False and is_covered("),
    ("books", RunRecord.left, "self.keys - self.used_delta_reserve", "self.keys"),
    (
        "books",
        SpendRecord.check,
        'unit=unit):\n        raise underpriced_error(f"run {run} booked {self.spend} below its part',
        'unit=PrivacyUnit()):\n        raise underpriced_error(f"run {run} booked {self.spend} below its part',
    ),
    ("books", RunRecord.check_cap, "self.delta - self.keys", "self.delta"),
    ("books", Ledger.reserve, "cap(epsilon, delta - keys)", "cap(epsilon, delta)"),
    ("books", _min_sensitivity, "spend.steps * unit.score_shift", "spend.steps"),
    ("books", _min_sensitivity, "shift, shift**2", "shift, shift"),
    # Noise.
    ("threshold", ExactNoise.reveal, "noisy > mechanism.threshold", "noisy >= mechanism.threshold"),
    ("threshold", ExactNoise.reveal, "counts > 0", "counts >= 0"),
    ("threshold", ExactNoise.reveal, "int(noisy[place])", "int(counts[place])"),
    (
        "draws",
        samplers.draw_discrete_gaussian,
        "gaussian_distribution(variance)",
        "gaussian_distribution(variance / 4)",
    ),
    (
        "draws",
        samplers.draw_discrete_laplace,
        "laplace_distribution(scale)",
        "laplace_distribution(2 * scale)",
    ),
    (
        "draws",
        samplers._draw,
        "build_blocks(distribution)",
        "build_blocks(gaussian_distribution(1 / (8 * distribution.rate)))",
    ),
    (
        "draws",
        samplers.draw_exponential_counts,
        "fits = (drawn >= 0)",
        "drawn = np.clip(drawn, 0, most); fits = (drawn >= 0)",
    ),
    ("draws", samplers.draw_exponential_counts, "drawn <= most", "drawn < most"),
    (
        "draws",
        samplers.draw_exponential_choice,
        "sizes=tuple(sizes[::-1].tolist())",
        "sizes=(1,) * len(sizes)",
    ),
    ("draws", samplers.draw_exponential_choice, "entropy.below(len(members))", "0"),
    ("draws", inversion.count_thresholds, 'side="right")', 'side="right") + 1'),
    ("zero", blocks._try_draws, "keep &= ~(negative & (magnitude == 0))", "pass"),
    ("zero", blocks._try_draws, "keep[i] = decide_event(", "keep[i] = True or decide_event("),
    ("fork", SystemEntropy.words, "self._owner != (os.getpid(), _generation)", "False"),
    ("fork", SystemEntropy._key, "os.urandom(32)", "os.urandom(1) * 32"),
    ("fork", SystemEntropy._key, "os.urandom(32)", "os.urandom(16) + bytes(16)"),
    # Files.
    ("first rows", select_first_rows, "rank < rows", "rank <= rows"),
    ("first rows", select_first_rows, "kept &= units != empty", "pass"),
    ("first rows", select_first_rows, "unify_texts(ids)", "ids"),
    ("first rows", values.cells_to_texts, "trim_texts(", "("),
    (
        "contributions",
        sums.row_contributions,
        "np.clip(numbers, float(factor.low), float(factor.high))",
        "np.clip(numbers, -9.0, 9.0)",
    ),
    (
        "contributions",
        sums.row_contributions,
        "counts &= ~np.isnan(numbers)",
        "numbers = np.nan_to_num(numbers, nan=2.0)",
    ),
    ("contributions", sums.row_contributions, "rows.numbers[name] > 0", "rows.numbers[name] >= 0"),
    ("split", Split.pieces, "self.neighbours is Neighbours.REPLACE_ONE", "True"),
    (
        "split",
        Split.pieces,
        "key.places(labels)",
        "key.places([str(n).encode() for n in range(len(labels))])",
    ),
    ("split", SplitKey.places, "key=self._secret, ", ""),
    ("split", pieces._label_by_content, 'seen[content].to_bytes(8, "big")', 'row.to_bytes(8, "big")'),
    (
        "split",
        pieces._split_by_id,
        "split.pieces([text.encode() for text in present], key=key)",
        "np.arange(len(present)) % len(split.shares)",
    ),
]


@pytest.mark.parametrize("name", CHECKS)
def test_sound_code_passes(name):
    CHECKS[name]()


def test_sound_pieces_pass(tmp_path):
    check_split(tmp_path)


@pytest.mark.parametrize(
    ("check", "held", "old", "new"), FAULTS, ids=[f"{n} {fault[0]}" for n, fault in enumerate(FAULTS)]
)
def test_a_fault_is_seen(check, held, old, new, tmp_path):
    with seeded(held, old, new), pytest.raises((AssertionError, PopulaceError)) as found:
        check_split(tmp_path) if check == "split" else CHECKS[check]()
    # A fault that cannot run is none.
    assert not isinstance(found.value, InternalError)


def test_nothing_that_a_fault_computed_is_kept():
    """Thresholds are kept, and come from tails through two functions that are kept as well."""
    asked = {"delta": Fraction(1, 1000), "unit": PrivacyUnit()}
    right = stability.min_threshold(DiscreteLaplace(Fraction(2)), **asked)
    with seeded(stability._tail, "(1 + (-ball", "(9 + (-ball"):
        assert stability.min_threshold(DiscreteLaplace(Fraction(2)), **asked) < right
    assert stability.min_threshold(DiscreteLaplace(Fraction(2)), **asked) == right
