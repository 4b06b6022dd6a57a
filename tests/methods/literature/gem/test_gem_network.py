"""The network behind `gem`: exact tables, its gradient, and what training does."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from populace.methods.literature.gem import gem_network as module
from populace.methods.literature.gem.gem_network import (
    GeneratorNetwork,
    IndependencePenalty,
    TrainingTable,
    mix_products,
)

START = {"a": np.array([0.2, 0.8]), "b": np.array([0.5, 0.3, 0.2]), "c": np.array([0.1, 0.2, 0.3, 0.4])}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "MAX_NOISE_SIZE", 3)
    monkeypatch.setattr(module, "MAX_LAYER_WIDTH", 5)


def answer(clique, shares, *, weight=100.0, **more):
    shares = np.asarray(shares, dtype=float)
    more.setdefault("noise", 0.5 * shares.size)
    return TrainingTable(clique=clique, shares=shares, weights=np.full(shares.shape, weight), **more)


def test_tables_are_those_of_the_whole_domain():
    """Every cell of the domain, product by product and component by component."""
    generator = GeneratorNetwork(START, components=7)
    shares = generator.shares()
    columns = [generator.column(shares, name) for name in START]
    whole = np.zeros((2, 3, 4))
    for component, cell in product(range(7), product(*map(range, whole.shape))):
        share = 1 / 7
        for column, code in zip(columns, cell, strict=True):
            share *= column[component, code]
        whole[cell] += share
    assert whole.sum() == pytest.approx(1)
    axes = {name: place for place, name in enumerate(START)}
    for clique in [(), ("a",), ("b", "a"), ("a", "c"), ("c", "a", "b"), ("a", "b", "c")]:
        others = tuple(axis for name, axis in axes.items() if name not in clique)
        kept = sorted(axes[name] for name in clique)
        wanted = whole.sum(axis=others).transpose([kept.index(axes[name]) for name in clique])
        assert generator.table(shares, clique) == pytest.approx(wanted, abs=1e-15)


def test_a_mixture_of_certain_rows_counts_them():
    rows = np.array([[0, 2], [1, 0], [1, 0], [0, 1]])
    parts = [np.eye(2)[rows[:, 0]], np.eye(3)[rows[:, 1]]]
    assert mix_products(parts).tolist() == [[0, 0.25, 0.25], [0.5, 0, 0]]


ANSWERS = {
    "columns": [answer(("a",), [0.4, 0.6]), answer(("c",), [0.1, 0.1, 0.7, 0.1])],
    "pairs": [
        answer(("a", "b"), [[0.1, 0.2, 0.3], [0.2, 0.1, 0.1]]),
        answer(("c", "b"), np.full((4, 3), 1 / 12)),
    ],
    "a triple": [answer(("b", "c", "a"), np.arange(24).reshape(3, 4, 2) / 276)],
    "classes": [
        answer(("c", "a"), [[0.0, 0.5], [0.5, 0.0]], codes={"c": np.array([0, 1, 1, 0]), "a": np.arange(2)}),
        answer(("b",), [0.7, 0.3], codes={"b": np.array([1, 0, 1])}, certain=True),
    ],
    "nothing": [],
}


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("runs", [2, 16], ids=["runs", "codes"])
@pytest.mark.parametrize("name", ANSWERS)
def test_gradient_is_that_of_finite_differences(name, runs, monkeypatch):
    monkeypatch.setattr(module, "_RUNS", runs)
    generator = GeneratorNetwork(START, components=6)
    answers = [replace(each, noise=0.0) for each in ANSWERS[name]]
    penalty = IndependencePenalty(generator, answers, rows=5000.0)
    here = generator.parameters
    lost = generator.loss(here, answers, penalty=penalty)
    assert lost.value > 0
    assert np.abs(lost.gradient).max() > 1e-3
    step = 1e-6
    for place in range(here.size):
        ends = []
        for sign in (step, -step):
            moved = here.copy()
            moved[place] += sign
            ends.append(generator.loss(moved, answers, penalty=penalty).value)
        assert lost.gradient[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-5)


def lost(generator, answers):
    shares = generator.shares()
    return sum(
        0.5 * float((a.weights * (generator.table(shares, a.clique) - a.shares) ** 2).sum()) for a in answers
    )


def test_training_learns_a_table_that_columns_alone_do_not_tell():
    table = np.array([[0.2, 0.0, 0.0], [0.0, 0.3, 0.5]])
    answers = [answer(("a", "b"), table, weight=1e6)]
    generator = GeneratorNetwork(START)
    before = lost(generator, answers)
    generator.train(answers, rows=1000.0, steps=300)
    assert lost(generator, answers) < before / 100
    assert np.abs(generator.table(generator.shares(), ("a", "b")) - table).sum() < 0.05


def test_training_ends_when_nothing_is_missed_by_more_than_its_noise():
    generator = GeneratorNetwork(START)
    parameters = generator.parameters.copy()
    near = [answer(("a",), [0.3, 0.7], weight=1e-3)]
    assert generator.train(near, rows=10.0, steps=50) == 0
    assert np.array_equal(generator.parameters, parameters)
    far = [answer(("a",), [0.9, 0.1], weight=1e3)]
    assert 0 < generator.train(far, rows=10.0, steps=300) < 300
    assert lost(generator, far) < 3


def test_an_answer_that_is_missed_by_no_more_than_its_noise_pulls_nowhere():
    generator = GeneratorNetwork(START)
    far = [answer(("a",), [0.9, 0.1], weight=100.0, noise=0.0)]
    penalty = IndependencePenalty(generator, far, rows=1.0)
    lost = generator.loss(generator.parameters, far, penalty=penalty)
    met = generator.loss(generator.parameters, [replace(far[0], noise=lost.value)], penalty=penalty)
    assert (lost.wrong, met.wrong) == (1, 0)
    assert np.abs(met.gradient).max() < 0.01 * np.abs(lost.gradient).max()
    known = generator.loss(generator.parameters, [replace(far[0], certain=True)], penalty=penalty)
    assert known.wrong == 0
    assert np.array_equal(known.gradient, lost.gradient)


def test_what_no_answer_speaks_of_stays_nearly_independent():
    """A pair that is taught must not make others depend on each other."""
    table = np.diag([0.2, 0.8]) @ np.array([[1.0, 0, 0], [0, 0.375, 0.625]])
    answers = [answer(("a", "b"), table, weight=1e6)]
    generator = GeneratorNetwork(START)
    generator.train(answers, rows=20_000.0, steps=300)
    for clique in (("a", "c"), ("b", "c")):
        found = generator.table(generator.shares(), clique)
        assert np.abs(found - np.outer(found.sum(axis=1), found.sum(axis=0))).sum() < 0.03


def test_training_is_repeatable():
    found = []
    for _ in range(2):
        generator = GeneratorNetwork(START)
        generator.train(ANSWERS["pairs"], rows=100.0, steps=30)
        found.append(generator.parameters)
    assert np.array_equal(*found)
