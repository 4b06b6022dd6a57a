"""What `measure_aim` asks for, round by round."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import populace.methods.aim as module
from populace.core.marginals import Domain, Marginal
from populace.inference.graph.junction_tree import junction_tree
from populace.measurements.measurements import Measurement
from populace.methods.aim import downward_closure, measure_aim
from populace.methods.selection.candidates import mean_absolute_noise
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from tests.helpers.budgets import measure_share


class Workspace:
    """An oracle over rows of its own, which writes down every question and takes the best candidate."""

    def __init__(self, rows, sizes, *, epsilon="1", delta="1e-6", seed=0, choose=np.argmax, loud=1.0):
        self.schema = Schema.from_sizes(sizes)
        self.domain = self.schema.domain
        self.budget = Budget.of(Fraction(epsilon), Fraction(delta), unit=PrivacyUnit())
        self.rows, self.rng, self.pick, self.loud = rows, np.random.default_rng(seed), choose, loud
        self.spent, self.asked, self.noises, self.slates = Fraction(0), [], [], []

    def count(self, marginal):
        shape = marginal.shape(self.domain)
        cells = np.ravel_multi_index([self.rows[name] for name in marginal.clique], shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)

    def measure(self, marginals, *, noise):
        self.spent += measure_share(self.budget, noise, marginals=len(marginals))
        self.asked.append([m.clique for m in marginals])
        self.noises.append(noise)
        deviation = self.loud * float(noise.variance) ** 0.5
        return tuple(
            Measurement(m, np.rint(c + self.rng.normal(0, deviation, c.shape)).astype(int), noise.variance)
            for m, c in ((m, self.count(m)) for m in marginals)
        )

    def choose(self, candidates, *, among, mechanism, none):
        assert none is False
        self.slates.append((candidates, mechanism))
        scores = [
            w * int(np.abs(self.count(m) - e).sum()) - p
            for m, e, p, w in zip(
                candidates.marginals,
                candidates.estimates,
                candidates.penalties,
                candidates.weights,
                strict=True,
            )
        ]
        return among[int(self.pick(scores))]


def chain(rows=20_000, seed=0, sizes=(4, 4, 4, 4)):
    """a → b → c strongly, d on its own."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, rows)
    b = np.where(rng.random(rows) < 0.9, a, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.9, b, rng.integers(0, 4, rows))
    return {"a": a, "b": b, "c": c, "d": rng.integers(0, 4, rows)}


SIZES = dict.fromkeys("abcd", 4)


def run(workspace, workload=None):
    told = []
    wanted = workload or Workload.triples(workspace.domain)
    found = measure_aim(workspace, workload=wanted, progress=lambda stage, done: told.append(done))
    assert told == sorted(told)
    return found


@pytest.mark.parametrize("delta", ["1e-6", "0"])
@pytest.mark.parametrize("rows", [0, 50, 20_000])
def test_all_of_the_budget_is_planned_and_no_more(rows, delta):
    workspace = Workspace(chain(rows), SIZES, delta=delta)
    items = run(workspace)
    choices = sum(workspace.budget.share(_spend(mechanism)) for _, mechanism in workspace.slates)
    assert Fraction(98, 100) < workspace.spent + choices <= 1
    assert len(items) == 4 + len(workspace.slates) <= 16 * 4


def _spend(mechanism):
    from populace.privacy.accounting.mechanisms import Spend

    return Spend(verb="choose", what="", mechanism=mechanism, answers=1, l1=1, l2_squared=1)


def test_columns_come_first_and_then_what_the_model_lacks():
    workspace = Workspace(chain(), SIZES)
    run(workspace)
    assert workspace.asked[0] == [("a",), ("b",), ("c",), ("d",)]
    assert all(len(cliques) == 1 for cliques in workspace.asked[1:])
    first = [set(cliques[0]) for cliques in workspace.asked[1:4]]
    assert any({"a", "b"} <= clique for clique in first)
    assert any({"b", "c"} <= clique for clique in first)


def test_estimates_are_the_model_and_penalties_its_noise():
    workspace = Workspace(chain(), SIZES)
    run(workspace, Workload.pairs(workspace.domain))
    slate, _ = workspace.slates[0]
    noise = mean_absolute_noise(workspace.noises[1])
    weights = dict(zip((m.clique for m in slate.marginals), slate.weights, strict=True))
    # A pair of the four columns is met by 6 of the 12 ends of all pairs, a column by 3.
    assert weights == {(n,): 500 for n in "abcd"} | dict.fromkeys(
        Workload.pairs(workspace.domain).weights, 1000
    )
    for marginal, estimate, penalty in zip(slate.marginals, slate.estimates, slate.penalties, strict=True):
        assert abs(int(estimate.sum()) - 20_000) < 500
        assert penalty == round(weights[marginal.clique] * noise * estimate.size)
    independent = np.outer(
        *(dict(zip(slate.marginals, slate.estimates, strict=True))[Marginal((n,))] for n in "ab")
    )
    pair = dict(zip(slate.marginals, slate.estimates, strict=True))[Marginal(("a", "b"))]
    np.testing.assert_allclose(pair, independent / pair.sum(), rtol=0.01)


def test_noise_is_halved_when_a_round_changes_nothing():
    """Every combination is equally frequent, and the answers are exact: the columns tell it all."""
    rows = dict(zip("abcd", np.indices((4, 4, 4, 4)).reshape(4, -1).repeat(50, axis=1), strict=True))
    workspace = Workspace(rows, SIZES, loud=0.0)
    run(workspace)
    ratios = [
        float(one.variance / other.variance)
        for one, other in zip(workspace.noises[1:-1], workspace.noises[2:-1], strict=False)
    ]
    assert np.allclose(ratios, 4.0, rtol=0.05)
    assert ratios


def test_noise_stays_while_rounds_find_something():
    workspace = Workspace(chain(), SIZES, epsilon="8")
    run(workspace)
    assert workspace.noises[1] == workspace.noises[2]


def test_the_last_round_takes_what_is_left():
    workspace = Workspace(chain(), SIZES)
    run(workspace)
    assert workspace.noises[-1].variance < workspace.noises[-2].variance


@pytest.mark.parametrize("most", [60, 300])
def test_the_model_grows_only_as_the_budget_is_used(most, monkeypatch):
    monkeypatch.setattr(module, "MAX_TREE_CELLS", most)
    rng = np.random.default_rng(2)
    rows = {name: rng.integers(0, 4, 3000) for name in "abcd"}
    # Everything would be taken if there were room: the largest candidate wins.
    workspace = Workspace(rows, SIZES, epsilon="50", choose=lambda scores: len(scores) - 1)
    items = run(workspace)
    tree = junction_tree([item.marginal.clique for item in items], domain=workspace.domain)
    assert 16 < tree.cells(workspace.domain) <= most
    sizes = [max(4 ** len(m.clique) for m in slate.marginals) for slate, _ in workspace.slates]
    assert sizes == sorted(sizes)


def test_candidates_are_the_parts_of_the_workload_by_weight():
    domain = Domain({"a": 2, "b": 3, "c": 1, "d": 4})
    wanted = Workload(weights={("a", "b"): Fraction(3), ("b", "c", "d"): Fraction(1)})
    found = downward_closure(wanted, domain=domain)
    # a counts 3, b 4, c and d 1; c has one code and tells nothing of others.
    assert found == {
        ("c",): 143,
        ("a",): 429,
        ("b",): 571,
        ("d",): 143,
        ("a", "b"): 1000,
        ("b", "d"): 714,
    }


def test_of_very_many_candidates_the_smallest_are_taken(monkeypatch):
    domain = Domain({name: 2 + i for i, name in enumerate("abcdef")})
    monkeypatch.setattr(module, "MAX_CANDIDATES", 10)
    found = downward_closure(Workload.triples(domain), domain=domain)
    assert len(found) == 10
    assert [len(c) for c in found] == [1] * 6 + [2] * 4
    monkeypatch.setattr(module, "MAX_CANDIDATES", 10**6)
    monkeypatch.setattr(module, "MAX_SCORED_CELLS", sum(domain.values()) + 6 + 8 + 9)
    assert list(downward_closure(Workload.triples(domain), domain=domain))[6:] == [("a", "b"), ("a", "c")]


def test_a_single_column_takes_everything():
    workspace = Workspace({"a": np.zeros(100, int)}, {"a": 3})
    items = measure_aim(
        workspace, workload=Workload.default(workspace.domain), progress=lambda stage, done: None
    )
    assert [item.marginal.clique for item in items] == [("a",)]
    assert Fraction(99, 100) < workspace.spent <= 1


@pytest.mark.parametrize(
    "mechanism", [DiscreteGaussian(Fraction(400)), DiscreteLaplace(Fraction(12))], ids=str
)
def test_usual_noise_is_its_mean_size(mechanism):
    rng = np.random.default_rng(0)
    if isinstance(mechanism, DiscreteGaussian):
        drawn = rng.normal(0, 20, 10**6)
    else:
        drawn = rng.laplace(0, 12, 10**6)
    assert mean_absolute_noise(mechanism) == pytest.approx(np.abs(drawn).mean(), rel=0.01)
