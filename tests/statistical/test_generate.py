"""Rows against the model they are drawn from: exact where rounding is exact, in law where chance decides.

False alarms: every statistical test below rejects a right generator with probability below 1e-6 (normal tail beyond
6 standard deviations over at most 100 cells, or a chi-square quantile); each also rejects a generator that is wrong on
purpose. Seeds are fixed.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping
from populace.inference.model import Model
from populace.sampling.draw_rows import draw_rows

DOMAIN = Domain({"a": 3, "b": 4, "c": 5, "d": 6})
GROUPING = Grouping("d", (0, 0, 1, 2, 2, 2))


def tree_model(seed=0):
    """a is the parent of b, c and (through c) of d, whose codes are grouped."""
    rng = np.random.default_rng(seed)
    grouped = DOMAIN.group([GROUPING])
    cliques = [("a", "b"), ("a", "c"), ("c", "d")]
    return Model(
        domain=DOMAIN,
        groupings={"d": GROUPING},
        potentials={clique: rng.normal(0, 1.5, grouped.shape(clique)) for clique in cliques},
        total=1000.0,
        within={"d": np.array([0.3, 0.7, 1.0, 0.2, 0.0, 0.8])},
    )


class Stuck:
    """A broken source of chance: offsets always `offset`, permutations always the identity if asked."""

    def __init__(self, seed, *, offset=None, sorted_rows=False):
        self._rng, self._offset, self._sorted = np.random.default_rng(seed), offset, sorted_rows

    def random(self, size):
        return self._rng.random(size) if self._offset is None else np.full(size, self._offset)

    def permutation(self, size):
        return np.arange(size) if self._sorted else self._rng.permutation(size)


def draw(model, rows, seed=0, **kwargs):
    rng = kwargs.pop("rng", None) or np.random.default_rng(seed)
    parts = list(draw_rows(model, rows=rows, rng=rng, **kwargs))
    return {name: np.concatenate([part[name] for part in parts]).astype(int) for name in model.domain}


def cells(codes, clique, domain=DOMAIN):
    number = np.zeros(len(codes[clique[0]]), dtype=int)
    for name in clique:
        number = number * domain[name] + codes[name]
    return np.bincount(number, minlength=domain.cells(clique)).reshape(domain.shape(clique))


@pytest.mark.parametrize("rows", [0, 1, 2, 17, 1000, 54_321])
def test_exactly_as_many_rows_as_asked(rows):
    codes = draw(tree_model(), rows)
    assert set(codes) == set(DOMAIN)
    for name, column in codes.items():
        assert len(column) == rows
        assert ((column >= 0) & (column < DOMAIN[name])).all()


def test_no_rows_are_one_empty_chunk():
    (part,) = draw_rows(tree_model(), rows=0, rng=np.random.default_rng(0))
    assert {name: len(column) for name, column in part.items()} == dict.fromkeys(DOMAIN, 0)


@pytest.mark.parametrize("chunk", [1, 7, 500, 10_000])
def test_the_chunk_size_only_cuts(chunk):
    model = tree_model()
    whole = draw(model, 1003)
    parts = list(draw_rows(model, rows=1003, rng=np.random.default_rng(0), chunk=chunk))
    assert [len(part["a"]) for part in parts] == [chunk] * (1003 // chunk) + [1003 % chunk] * (
        1003 % chunk > 0
    )
    for name in DOMAIN:
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), whole[name])


@pytest.mark.parametrize("rows", [1, 10, 999, 20_000])
@pytest.mark.parametrize("seed", range(5))
def test_counts_are_within_one_of_their_expectation_given_the_parent(rows, seed):
    model = tree_model(seed)
    grouped = model.grouped_domain
    codes = draw(model, rows, seed)
    codes["d"] = GROUPING.lookup[codes["d"]]
    for node, separator, belief in zip(model.tree.nodes, model.tree.separators, model.beliefs, strict=True):
        shares = belief.reshape(grouped.cells(separator), -1)
        found = cells(codes, node, grouped).reshape(shares.shape)
        expected = found.sum(axis=1, keepdims=True) * shares / shares.sum(axis=1, keepdims=True)
        assert np.abs(found - expected).max() < 1


@pytest.mark.parametrize("seed", range(5))
def test_codes_inside_a_group_are_within_one_of_their_share(seed):
    model = tree_model()
    fine = cells(draw(model, 5000, seed), ("d",))
    groups = np.bincount(GROUPING.lookup, weights=fine)
    assert np.abs(fine - groups[GROUPING.lookup] * model.within["d"]).max() < 1
    assert fine[4] == 0


def test_many_tiny_cells_share_few_rows_exactly():
    model = Model(domain=Domain({"a": 1000}), groupings={}, potentials={}, total=1.0, within={})
    counts = np.bincount(draw(model, 10)["a"], minlength=1000)
    assert counts.sum() == 10
    assert counts.max() == 1


def largest_bias(rng_of, *, rows, times):
    """The largest deviation of mean counts of all pairs from the model, in standard errors."""
    model = tree_model()
    pairs = [("a", "b"), ("a", "c"), ("c", "d"), ("b", "d")]
    found = {pair: np.zeros((times, DOMAIN.cells(pair))) for pair in pairs}
    for time in range(times):
        codes = draw(model, rows, rng=rng_of(time))
        for pair in pairs:
            found[pair][time] = cells(codes, pair).ravel()
    worst = 0.0
    for pair, counts in found.items():
        expected = rows * model.marginal(pair).ravel() / model.total
        # Cells hit fewer than 100 times in all are too skewed for a normal tail.
        kept = expected * times > 100
        # A count that never varies must still be right: it gets a small error instead of none.
        error = np.sqrt(np.maximum(counts.var(axis=0, ddof=1)[kept], 1e-3) / times)
        worst = max(worst, float((np.abs(counts.mean(axis=0) - expected)[kept] / error).max(initial=0.0)))
    return worst


@pytest.mark.parametrize("rows", [3, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_counts_are_right_on_average(rows):
    assert largest_bias(np.random.default_rng, rows=rows, times=500) < 6
    assert largest_bias(lambda seed: Stuck(seed, offset=0.0), rows=rows, times=300) > 10
    assert largest_bias(lambda seed: Stuck(seed, offset=0.999), rows=rows, times=300) > 10


def dependence(codes, model):
    """Chi-square of b against c inside each code of a, where the model says they are independent; its p-value."""
    statistic, freedom = 0.0, 0
    for a in range(DOMAIN["a"]):
        here = codes["a"] == a
        table = cells({name: column[here] for name, column in codes.items()}, ("b", "c")).astype(float)
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        # With both margins fixed the statistic's mean is freedom·n/(n − 1), which n makes negligible.
        statistic += ((table - expected) ** 2 / expected).sum()
        freedom += (table.shape[0] - 1) * (table.shape[1] - 1)
    return chi2.sf(statistic, freedom)


def test_columns_depend_on_each_other_only_through_the_tree():
    model = tree_model()
    right = dependence(draw(model, 100_000), model)
    assert 1e-6 < right < 1 - 1e-6
    assert dependence(draw(model, 100_000, rng=Stuck(0, sorted_rows=True)), model) < 1e-12


def drift(codes):
    """Correlation of a row's position with its codes, in standard errors; the largest over columns."""
    position = np.arange(len(codes["a"]))
    return max(abs(np.corrcoef(position, column)[0, 1]) * np.sqrt(len(position)) for column in codes.values())


def test_rows_come_in_random_order():
    assert drift(draw(tree_model(), 50_000)) < 6
    assert drift(draw(tree_model(), 50_000, rng=Stuck(0, sorted_rows=True))) > 50


def test_the_seed_decides():
    model = tree_model()
    one, same, other = draw(model, 500, 1), draw(model, 500, 1), draw(model, 500, 2)
    assert all((one[name] == same[name]).all() for name in DOMAIN)
    assert any((one[name] != other[name]).any() for name in DOMAIN)


def test_wide_domains_keep_their_codes():
    rng = np.random.default_rng(0)
    domain = Domain({"a": 300, "b": 70_000, "c": 2})
    model = Model(
        domain=domain, groupings={}, potentials={("a", "c"): rng.normal(size=(300, 2))}, total=1.0, within={}
    )
    codes = draw(model, 140_000)
    assert np.bincount(codes["b"], minlength=70_000).tolist() == [2] * 70_000
    assert codes["a"].max() == 299


@pytest.mark.parametrize(("rows", "chunk"), [(-1, 10), (5, 0)])
def test_impossible_requests_are_refused(rows, chunk):
    with pytest.raises(UsageError):
        next(iter(draw_rows(tree_model(), rows=rows, rng=np.random.default_rng(0), chunk=chunk)))
