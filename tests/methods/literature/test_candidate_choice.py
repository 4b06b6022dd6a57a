"""What `measure_pmw` and `privbayes` may ask: useful tables, codes that totals tell apart, and tests that are
not made."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from populace.api.measure import measure
from populace.core.marginals import Domain, Marginal
from populace.core.progress import silent
from populace.inference.fit.estimator import Estimator
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.literature import mwem as weights
from populace.methods.literature.pmw import measure_pmw
from populace.methods.literature.privbayes import parent_candidates
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from tests.helpers.priced_oracle import PricedOracle, dependent


@pytest.mark.parametrize("variance", [4, 400, 40_000])
def test_a_table_is_useful_if_its_cells_hold_four_times_their_noise(variance):
    """Cells ≤ rows / (4 · usual noise): the noisier, the fewer tables can be chosen."""
    estimator = Estimator(
        ModelSpace(domain=Domain({name: 2**power for power, name in enumerate("abcdefgh", start=1)}))
    )
    estimator.add([Measurement(Marginal(("a",)), np.array([6000, 6000]), Fraction(1))])
    estimator.refit()
    noise = DiscreteGaussian(Fraction(variance))
    found = parent_candidates(estimator, [], list(estimator.domain), noise=noise)
    most = 12_000 / (4 * variance**0.5 * (2 / np.pi) ** 0.5)
    useful = {pair for pair in combinations(estimator.domain, 2) if estimator.domain.cells(pair) <= most}
    assert {marginal.clique for marginal in found.marginals} == useful
    assert len(useful) == {4: 19, 400: 9, 40_000: 2}[variance]


def test_codes_that_public_totals_tell_apart_are_asked_apart(tmp_path):
    """Rare codes share a group, unless their rows are known."""
    sizes = {"a": 30, "b": 3}
    rng = np.random.default_rng(5)
    first = np.where(rng.random(4000) < 0.98, rng.integers(0, 3, 4000), rng.integers(3, 30, 4000))
    table = pa.table({"a": first, "b": np.where(rng.random(4000) < 0.9, first % 3, rng.integers(0, 3, 4000))})
    counts = np.bincount(first, minlength=30)
    told = ", ".join(f'"{code}" = {count}' for code, count in enumerate(counts.tolist()))
    text = Schema.from_sizes(sizes).to_toml()
    seen = []
    for number, more in enumerate(("", f'\n[[totals]]\nby = ["a"]\ncounts = {{ {told} }}\n')):
        place = tmp_path / str(number)
        place.mkdir()
        found = measure(
            table,
            schema=Schema.parse(text + more),
            epsilon="1",
            delta="1e-6",
            method="privbayes",
            ledger=place / "ledger.db",
            noise=ExactNoise(RehearsalEntropy(1)),
        )
        seen += [m for item in found.items if len((m := item.marginal).clique) == 2]
    grouped, whole = seen
    assert grouped.grouping("a").size < 30
    assert whole.groupings == ()


def test_a_test_that_is_not_made_is_not_paid_for(monkeypatch):
    """What the estimate has no room for is left out, and what no search took goes into the last measurements."""
    monkeypatch.setattr(weights, "MAX_DENSE_CELLS", 1)
    monkeypatch.setattr(weights, "MAX_TREE_CELLS", 40)
    sizes = {"a": 4, "b": 4, "c": 4, "d": 2}
    oracle = PricedOracle(dependent(np.random.default_rng(4), sizes, 2000), sizes=sizes, epsilon="2")
    measure_pmw(oracle, workload=Workload.pairs(oracle.domain), progress=silent)
    searches = [answers for verb, answers, _ in oracle.asked if verb == "choose"]
    assert 0 < len(searches) < 6
    assert len(oracle.cliques(2)) == len(searches), "there was no room for more"
    assert 1 - oracle.used < 1e-6
