"""The compiled loops of proportional fitting agree with NumPy's, and no call leads them outside their arrays."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from populace._native import kernels
from populace.core.marginals import Domain
from populace.inference.factor import AxisMap, cell_strides
from populace.inference.fit import junction_ipf as scaling
from populace.inference.fit.junction_ipf import fit_junction_ipf
from populace.inference.fit.objective import Objective
from populace.inference.gls.observations import Observation

pytestmark = pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")

DOMAIN = Domain({"a": 3, "b": 4, "c": 1, "d": 2, "e": 5})
CLIQUES = [("a", "b", "d"), ("b", "e"), ("a", "e"), ("c", "d"), ("d", "e"), ("b",), ("d", "a")]


def plainly(monkeypatch, work):
    with monkeypatch.context() as patched:
        patched.setattr(kernels, "_native", None)
        return work()


def targets_of(rng, *, least):
    found = {}
    for clique in CLIQUES:
        table = rng.uniform(least, 1.0, DOMAIN.shape(clique))
        found[clique] = table / np.abs(table).sum()
    return found


def objective_of(cliques, *, hard=None):
    observed = [Observation(c, np.ones(DOMAIN.shape(c)), np.ones(DOMAIN.shape(c))) for c in cliques]
    return Objective(observed, domain=DOMAIN, total=1.0, hard=hard)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("hard", [False, True])
def test_whole_ways_are_the_same(monkeypatch, seed, hard):
    rng = np.random.default_rng(seed)
    rules = {("a", "e"): rng.random((3, 5)) < 0.7} if hard else None
    objective, targets = objective_of(CLIQUES, hard=rules), targets_of(rng, least=0.0)
    targets["b", "e"][0, 0] = 0.0
    compiled, plain = (
        fit(lambda: fit_junction_ipf(objective, targets=targets, sweeps=5))
        for fit in (lambda work: work(), lambda work: plainly(monkeypatch, work))
    )
    np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-9)
    assert np.ptp(compiled) > 0.1


@pytest.mark.parametrize("floor", [1e-6, 1e-3])
@pytest.mark.parametrize("seed", range(4))
def test_part_ways_are_the_same(monkeypatch, seed, floor):
    rng = np.random.default_rng(seed)
    cliques = [c for c in CLIQUES if c not in (("b",), ("d", "a"))]
    objective, targets = objective_of(cliques), targets_of(rng, least=-0.2)
    soft = {clique: rng.uniform(1e-4, 0.1, DOMAIN.shape(clique)) for clique in cliques}
    kept = {clique: targets[clique] for clique in cliques}
    compiled, plain = (
        fit(lambda: fit_junction_ipf(objective, targets=kept, soft=soft, floor=floor, sweeps=7, close=0.0))
        for fit in (lambda work: work(), lambda work: plainly(monkeypatch, work))
    )
    np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-9)
    assert np.ptp(compiled) > 0.1


def test_both_say_how_much_was_moved(monkeypatch):
    """Where a target is all of a node, what was found is a view of what is scaled."""
    objective = objective_of([("d",)])
    stops = [
        fit(
            lambda: fit_junction_ipf(objective, targets={("d",): np.array([0.9, 0.1])}, sweeps=50, close=0.85)
        )
        for fit in (lambda work: work(), lambda work: plainly(monkeypatch, work))
    ]
    np.testing.assert_allclose(*stops)
    how = {"targets": {("d",): np.array([0.5, 0.5])}, "soft": None, "floor": 0.0}
    scalings = plainly(monkeypatch, lambda: scaling._target_scalings(objective, objective.zeros(), **how))
    [scale] = [scale for here in scalings for scale in here]
    assert scale(np.array([0.9, 0.1])) == pytest.approx(0.8)


def test_walks_are_slots():
    """Every way in which a smaller table can lie in a larger one."""
    inside, rng = ("a", "b", "c", "d", "e"), np.random.default_rng(1)
    table = rng.random(DOMAIN.shape(inside))
    for size in range(1, 6):
        for clique in permutations(inside, size):
            cells, other = DOMAIN.cells(clique), rng.random(DOMAIN.shape(clique))
            made, work = table.copy(), np.empty(2 * cells)
            kernels.scale_to_separator(
                other.reshape(-1),
                made.reshape(-1),
                work,
                leaving=cell_strides(clique, clique, DOMAIN.shape(clique)),
                into=cell_strides(clique, inside, DOMAIN.shape(inside)),
                cells=cells,
            )
            slot = AxisMap.of(clique, inside=inside, domain=DOMAIN)
            np.testing.assert_allclose(made, table * slot.spread(other / slot.collapse(table)), rtol=1e-12)


def visit(**changed):
    call = {
        "table": np.full(6, 1 / 6),
        "work": np.empty(4),
        "potential": np.zeros(2),
        "inside": np.array([[3, 0], [2, 1]]),
        "into": np.array([[2, 1]]),
        "target": np.array([0.25, 0.75]),
        "soft": np.array([0.1, 0.1]),
        "least": 0.0,
    } | changed
    table, work, potential = (call.pop(name) for name in ("table", "work", "potential"))
    return kernels.scale_to_target(table, work, potential, **call)


def test_the_visit_to_be_spoilt_works():
    assert visit() > 0
    assert visit(soft=None) > 0


@pytest.mark.parametrize(
    "changed",
    [
        {"inside": np.array([[3, 0], [2, 2]])},
        {"inside": np.array([[3, 1], [2, 1]])},
        {"inside": np.array([[3, 0], [2, -1]])},
        {"inside": np.array([[3, -1], [2, 1]])},
        {"inside": np.array([[4, 0], [2, 1]])},
        {"inside": np.array([[2, 0], [2, 1]])},
        {"inside": np.array([[0, 0], [2, 1]])},
        {"inside": np.array([[-3, 0], [-2, 1]])},
        {"inside": np.array([[2**62, 0], [2**62, 1]])},
        {"inside": np.array([[3, 2**62], [2, 2**62]])},
        {"inside": np.array([[1, 2**62], [3, 0], [2, 1]])},
        {"inside": np.array([[6]])},
        {"inside": np.array([[6, 0, 0]])},
        {"inside": np.zeros((0, 2), dtype=np.int64)},
        {"inside": np.array([[1, 0]] * 65)},
        {"inside": np.array([3, 0, 2, 1])},
        {"inside": np.array([[3, 0], [2, 1]], dtype=np.int32)},
        {"into": np.array([[2, 2]])},
        {"into": np.array([[3, 1]])},
        {"into": np.array([[1, 1]])},
        {"work": np.empty(3)},
        {"work": np.empty(4, dtype=np.float32)},
        {"target": np.array([1.0])},
        {"target": np.zeros(0)},
        {"target": np.array([[0.25, 0.75]])},
        {"target": np.array([1, 2])},
        {"soft": np.array([0.1])},
        {"soft": np.array([0.1, 0.1, 0.1])},
        {"potential": np.zeros(4), "into": np.array([[2, 0], [2, 1]])},
        {"table": np.full(6, 1 / 6)[::1].astype(np.float32)},
        {"table": np.full(12, 1 / 6)[::2]},
        {"table": np.zeros(0)},
    ],
)
def test_a_visit_that_leads_outside_is_refused(changed):
    with pytest.raises((ValueError, BufferError)):
        visit(**changed)


def test_arrays_written_to_share_no_memory_and_are_not_locked():
    table = np.full(6, 1 / 6)
    for shared in ({"work": table[:4]}, {"potential": table[:2]}, {"target": table[:2]}, {"soft": table[:2]}):
        with pytest.raises(ValueError, match="shares memory"):
            visit(table=table, **shared)
    fixed = np.full(6, 1 / 6)
    fixed.setflags(write=False)
    with pytest.raises((ValueError, BufferError)):
        visit(table=fixed)


@pytest.mark.parametrize(
    ("cells", "leaving", "into"),
    [
        (3, [[2, 1]], [[2, 1], [3, 0]]),
        (0, [[2, 1]], [[2, 1], [3, 0]]),
        (-1, [[2, 1]], [[2, 1], [3, 0]]),
        (2, [[3, 1]], [[2, 1], [3, 0]]),
        (2, [[2, 1]], [[2, 1], [4, 0]]),
        (2, [[2, 2]], [[2, 1], [3, 0]]),
        (2, [[2, 1]], [[2, 1], [3, 1]]),
    ],
)
def test_carrying_that_leads_outside_is_refused(cells, leaving, into):
    def carry(cells, leaving, into):
        source, target, work = np.ones(2), np.ones(6), np.empty(4)
        kernels.scale_to_separator(
            source, target, work, leaving=np.array(leaving), into=np.array(into), cells=cells
        )

    carry(2, [[2, 1]], [[2, 1], [3, 0]])
    with pytest.raises((ValueError, BufferError)):
        carry(cells, leaving, into)
