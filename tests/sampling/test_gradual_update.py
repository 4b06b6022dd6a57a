"""Rows that come to all measured tables by moves alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import UsageError
from populace.core.marginals import Domain, Marginal, tabulate
from populace.inference.fit.fit_model import fit_model
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.fit_measurements import fit
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.sampling.draw_rows import draw_rows
from populace.schema.schema import Schema

SIZES = {"a": 4, "b": 3, "c": 4, "d": 2}
DOMAIN = Domain(SIZES)


def people(rows, seed):
    """Each column follows the one before it in most rows."""
    rng = np.random.default_rng(seed)
    codes, last = {}, rng.integers(0, 12, rows)
    for name, size in SIZES.items():
        last = np.where(rng.random(rows) < 0.8, last % size, rng.integers(0, size, rows))
        codes[name] = last
    return codes


def far(codes, other, clique):
    counts = (tabulate(Marginal(clique), codes=each, domain=DOMAIN) for each in (codes, other))
    shares = [table / table.sum() for table in counts]
    return np.abs(shares[0] - shares[1]).sum() / 2


def apart(codes):
    rng = np.random.default_rng(9)
    return {name: rng.permutation(values) for name, values in codes.items()}


def drawn(model, rows, seed=1):
    (codes,) = draw_rows(model, rows=rows, rng=np.random.default_rng(seed))
    return {name: np.asarray(codes[name], np.int64) for name in codes}


def test_rows_fit_tables_that_no_tree_was_needed_for():
    """Exact pairs of a table with strong dependence: rows end within a hundredth of all of them."""
    truth = people(20_000, seed=1)
    items = [
        Measurement(Marginal(pair), tabulate(Marginal(pair), codes=truth, domain=DOMAIN), 1)
        for pair in combinations(SIZES, 2)
    ]
    model = fit_model(items, space=ModelSpace(domain=DOMAIN), gradual=True)
    assert max(map(len, model.potentials)) == 1
    found = drawn(model, 20_000)
    alone = apart(truth)
    for pair in combinations(SIZES, 2):
        assert far(truth, found, pair) < 0.01
    assert far(truth, alone, ("a", "b")) > 0.2, "single columns are far from it"


def test_columns_that_repeat_each_other_come_together_among_many_others():
    """Two columns of 20 codes that nearly agree, and ten others that depend on neither: single moves must not stall.

    With a cost that is straight from two rows on, the pair stays at a total variation of .13: what a first move gains
    in it is lost in the ten other tables of its column.
    """
    rng, rows = np.random.default_rng(6), 4000
    pay = rng.integers(0, 20, rows)
    truth = {"pay": pay, "wage": np.where(rng.random(rows) < 0.95, pay, rng.integers(0, 20, rows))}
    truth |= {f"other{number}": rng.integers(0, 4, rows) for number in range(10)}
    domain = Domain({name: 20 if name in ("pay", "wage") else 4 for name in truth})
    targets = {
        pair: tabulate(Marginal(pair), codes=truth, domain=domain).astype(float)
        for pair in combinations(truth, 2)
    }
    model = Model(
        domain=domain,
        groupings={},
        potentials={},
        total=float(rows),
        within={},
        targets=targets,
        gradual=True,
    )
    (found,) = draw_rows(model, rows=rows, rng=np.random.default_rng(1))
    for pair, target in targets.items():
        counts = tabulate(Marginal(pair), codes={n: found[n].astype(np.int64) for n in found}, domain=domain)
        assert np.abs(counts - target).sum() / 2 / rows < 0.05, pair


def test_pairs_that_nobody_measured_are_left_to_the_others():
    """a–b and b–c are known: a and c then depend on each other through b, and are not held apart."""
    truth = people(20_000, seed=2)
    items = [
        Measurement(Marginal(pair), tabulate(Marginal(pair), codes=truth, domain=DOMAIN), 1)
        for pair in (("a", "b"), ("b", "c"), ("d",))
    ]
    rows = drawn(fit_model(items, space=ModelSpace(domain=DOMAIN), gradual=True), 20_000)
    alone = apart(truth)
    assert far(truth, rows, ("a", "c")) < 0.8 * far(truth, alone, ("a", "c"))


def frame(codes):
    return pa.table({name: pa.array(values) for name, values in codes.items()})


def test_a_gradual_model_is_kept_as_it_is(tmp_path):
    found = measure(
        frame(people(5000, seed=3)),
        schema=Schema.from_sizes(SIZES),
        epsilon=3,
        delta="1e-6",
        ledger=tmp_path / "l.db",
        noise=ExactNoise(RehearsalEntropy(1)),
    )
    model = fit(found, inference="gum")
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert model.gradual
    assert again.gradual
    assert not fit(found).gradual
    tables = [release_from(found, each, rows=500, seed=4).table for each in (model, again)]
    assert tables[0].equals(tables[1])
    with pytest.raises(UsageError, match="cannot be drawn from this model"):
        release_from(found, model, where="a == '1'")


def test_rules_hold_in_every_row(tmp_path):
    text = Schema.from_sizes(SIZES).to_toml() + "[[zeros]]\nwhen = \"a == '0' and b == '1'\"\n"
    release = synthesize(
        frame(people(5000, seed=5)),
        schema=Schema.parse(text),
        epsilon=2,
        delta="1e-6",
        inference="gum",
        ledger=tmp_path / "l.db",
        noise=ExactNoise(RehearsalEntropy(2)),
    )
    a, b = (np.array(release.table[name].to_pylist()) for name in "ab")
    assert not ((a == 0) & (b == 1)).any()
    assert len(a) > 4000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"inference": "magic"}, "no inference 'magic'"),
        ({"inference": "gum", "method": "histogram"}, "model of its own"),
        ({"inference": "gum", "where": "a == '1'"}, "given a condition"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(words, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        synthesize(
            frame(people(9, seed=1)),
            schema=Schema.from_sizes(SIZES),
            epsilon=1,
            delta="1e-6",
            ledger=tmp_path / "l.db",
            **words,
        )
    assert not (tmp_path / "l.db").exists()
