"""A generator: a small network that turns fixed noise vectors into a mixture of independent columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain
from populace.inference.factor import Table

# The components, noise vectors and layers of a large domain; one of few codes has fewer.
MAX_COMPONENTS, MAX_NOISE_SIZE, MAX_LAYER_WIDTH = 256, 64, 128
# How far the components of a new network are apart, and the least share of a code it starts from.
_SPREAD, _MIN_SHARE = 0.5, 1e-4
# The steps of Adam, and how much of the mean of parameters is that of the steps before.
_RATE, _FIRST, _SECOND, _TINY, _MEMORY = 3e-3, 0.9, 0.99, 1e-8, 0.95
# Steps without anything left to learn after which training ends: as many as the mean remembers.
_CALM_STEPS = 20
# What no answer speaks of is drawn to independence as if twice so small a part of the rows had shown it.
_INDEPENDENCE_WEIGHT = 0.01
# In so many runs of about equal share each column is looked at there.
_RUNS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingTable:
    """What is known of a table: the share of the rows in each cell, and what a miss of it counts.

    `codes` says, where it is given, into which class a column's codes are summed in the table. `noise` is the loss that
    noise is expected to leave: an answer is met when it loses no more. What is known without noise is `certain`.
    """

    clique: Clique
    shares: Table
    weights: Table
    noise: float = 0.0
    certain: bool = False
    codes: Mapping[str, npt.NDArray[np.int64]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TrainingLoss:
    """The loss of parameters, its gradient, and how many measurements are missed by more than their noise."""

    value: float
    wrong: int
    gradient: Table


@dataclass(frozen=True, slots=True, eq=False)
class _ForwardPass:
    """What the layers said on the way forward."""

    first: Table
    turn: Table
    second: Table
    shares: Table


class GeneratorNetwork:
    """The mixture (1/K) Σ_k ⊗_j p_kj, where a network makes shares p_kj of every column j from noise vector z_k.

    h = tanh(z A + a), g = h + tanh(h B + b), and p_kj is the softmax of column j's part of g C + c. A table of the
    mixture is a sum of K products, so it is exact. The noise vectors are drawn once, from a public seed.
    Source: Liu, Vietri and Wu 2021, section 4.2; a noise vector is there drawn anew in every step.
    """

    def __init__(self, start: Mapping[str, Table], *, components: int = MAX_COMPONENTS) -> None:
        """Make a network whose columns are about those of `start`, and nearly independent."""
        self.domain = Domain({name: len(shares) for name, shares in start.items()})
        sizes = list(self.domain.sizes.values())
        codes = sum(sizes)
        self._sizes = np.array(sizes)
        ends = np.cumsum([0, *sizes]).tolist()
        self._starts = ends[:-1]
        self.place = {name: slice(*ends[i : i + 2]) for i, name in enumerate(self.domain)}
        rng = np.random.default_rng(0)
        noise, width = min(MAX_NOISE_SIZE, 2 * codes), min(MAX_LAYER_WIDTH, 4 * codes)
        self.noise: Table = rng.standard_normal((min(components, 8 * codes), noise))
        self._shapes = [(noise, width), (width,), (width, width), (width,), (width, codes), (codes,)]
        self._ends = np.cumsum([0, *map(math.prod, self._shapes)]).tolist()
        self.parameters: Table = np.zeros(self._ends[-1])
        first, _, second, _, last, constant = self._layers(self.parameters)
        first[...] = rng.standard_normal(first.shape) / math.sqrt(noise)
        second[...] = rng.standard_normal(second.shape) / math.sqrt(width)
        last[...] = _SPREAD * rng.standard_normal(last.shape) / math.sqrt(2 * width)
        constant[...] = np.concatenate(
            [np.log(np.maximum(shares, _MIN_SHARE / len(shares))) for shares in start.values()]
        )

    @property
    def components(self) -> int:
        """The number of noise vectors, and so of products that are mixed."""
        return len(self.noise)

    def shares(self) -> Table:
        """Return the shares of all columns' codes, one column behind the other, in every component."""
        return self._forward(self.parameters).shares

    def column(self, shares: Table, name: str) -> Table:
        """Return one column's part of all shares."""
        return shares[:, self.place[name]]

    def table(self, shares: Table, clique: Clique) -> Table:
        """Return the table of some columns in the mixture, as shares of all rows."""
        return mix_products([self.column(shares, name) for name in clique])

    def loss(
        self, flat: Table, answers: Iterable[TrainingTable], *, penalty: IndependencePenalty
    ) -> TrainingLoss:
        """Return what parameters lose, Σ ½ weight · (share − answer)² and what is drawn, with the gradient.

        An answer that is missed by no more than its noise is left out.
        """
        passed = self._forward(flat)
        value, slope = penalty.loss(passed.shares)
        wrong = 0
        for answer in answers:
            parts = self._table_columns(passed.shares, answer)
            missed = mix_products(parts) - answer.shares
            pull = missed * answer.weights
            lost = 0.5 * float(np.vdot(missed, pull))
            if lost > answer.noise:
                value += lost
                wrong += not answer.certain
                for name, found in zip(answer.clique, _mixture_gradient(parts, pull), strict=True):
                    into = self.column(slope, name)
                    into += found if answer.codes is None else found[:, answer.codes[name]]
        return TrainingLoss(value, wrong, self._backward(flat, passed, slope))

    def train(self, answers: Sequence[TrainingTable], *, rows: float, steps: int) -> int:
        """Train the network on answers, in at most so many steps of Adam, and return how many there were.

        When every answer has been missed by no more than its noise for a while, the network has learnt what there is to
        learn. What is kept is the mean of the parameters, in which recent ones count most.
        Source: Kingma and Ba 2015; leaving answers out and the mean are those of Liu, Vietri and Wu 2021.
        """
        penalty = IndependencePenalty(self, answers, rows=rows)
        flat = self.parameters.copy()
        first, second, mean = (np.zeros_like(flat) for _ in range(3))
        done = calm = 0
        while done < steps:
            lost = self.loss(flat, answers, penalty=penalty)
            calm = 0 if lost.wrong else calm + 1
            if calm and (not done or calm > _CALM_STEPS):
                break
            done += 1
            first += (1 - _FIRST) * (lost.gradient - first)
            second += (1 - _SECOND) * (lost.gradient**2 - second)
            size = np.sqrt(second / (1 - _SECOND**done)) + _TINY
            flat -= _RATE / (1 - _FIRST**done) * first / size
            mean += (1 - _MEMORY) * (flat - mean)
        if done:
            self.parameters = mean / (1 - _MEMORY**done)
        return done

    def _layers(self, flat: Table) -> list[Table]:
        """View a flat vector as the network's layers."""
        return [
            flat[begin:end].reshape(shape)
            for (begin, end), shape in zip(pairwise(self._ends), self._shapes, strict=True)
        ]

    def _forward(self, flat: Table) -> _ForwardPass:
        into, shift, turned, bent, out, constant = self._layers(flat)
        first = np.tanh(self.noise @ into + shift)
        turn = np.tanh(first @ turned + bent)
        second = first + turn
        shares = second @ out + constant
        shares -= self._spread(np.maximum.reduceat(shares, self._starts, axis=1))
        np.exp(shares, out=shares)
        shares /= self._spread(np.add.reduceat(shares, self._starts, axis=1))
        return _ForwardPass(first, turn, second, shares)

    def _backward(self, flat: Table, passed: _ForwardPass, slope: Table) -> Table:
        """Return the gradient of the parameters from that of the shares."""
        _, _, turned, _, out, _ = self._layers(flat)
        found = np.empty_like(flat)
        into, shift, turning, bending, outs, constant = self._layers(found)
        # The softmax takes from each slope the column's mean of it.
        weighed = passed.shares * slope
        ahead = weighed - passed.shares * self._spread(np.add.reduceat(weighed, self._starts, axis=1))
        np.matmul(passed.second.T, ahead, out=outs)
        constant[...] = ahead.sum(axis=0)
        behind = ahead @ out.T
        inner = behind * (1 - passed.turn**2)
        np.matmul(passed.first.T, inner, out=turning)
        bending[...] = inner.sum(axis=0)
        behind += inner @ turned.T
        behind *= 1 - passed.first**2
        np.matmul(self.noise.T, behind, out=into)
        shift[...] = behind.sum(axis=0)
        return found

    def _table_columns(self, shares: Table, answer: TrainingTable) -> list[Table]:
        """Return the columns of an answer, their codes summed into classes where it says so."""
        parts = [self.column(shares, name) for name in answer.clique]
        if answer.codes is None:
            return parts
        return [
            part @ (answer.codes[name][:, None] == np.arange(size)).astype(np.float64)
            for part, name, size in zip(parts, answer.clique, answer.shares.shape, strict=True)
        ]

    def _spread(self, columns: Table) -> Table:
        return np.repeat(columns, self._sizes, axis=1)


class IndependencePenalty:
    """What draws the columns of which no answer speaks together to independence.

    w Σ (p_ab − p_a p_b)² / (p_a p_b) over cells of such pairs, as if 2w rows had been seen to be independent. A column
    of many codes is looked at in runs of them that hold about equal shares when training begins.
    """

    def __init__(self, generator: GeneratorNetwork, answers: Iterable[TrainingTable], *, rows: float) -> None:
        shares = generator.shares().mean(axis=0)
        order = {name: number for number, name in enumerate(generator.domain)}
        free = ~np.eye(len(order), dtype=np.bool_)
        for answer in answers:
            for one, other in permutations(answer.clique, 2):
                free[order[one], order[other]] = False
        runs: list[int] = []
        kept = []
        for number, name in enumerate(generator.domain):
            place = generator.place[name]
            before = np.cumsum(shares[place]) - shares[place]
            numbers = np.minimum((before * _RUNS).astype(np.int64), _RUNS - 1)
            first = np.flatnonzero(np.diff(numbers, prepend=-1)) if len(numbers) > _RUNS else None
            begins = (np.arange(len(numbers)) if first is None else first) + place.start
            runs += begins.tolist()
            kept += [number] * len(begins)
        self._starts = np.array(runs)
        self._sizes = np.diff(np.append(self._starts, len(shares)))
        base = np.maximum(np.add.reduceat(shares, self._starts), 3 / max(rows, 3.0))
        self._weights: Table = free[np.ix_(kept, kept)] * (_INDEPENDENCE_WEIGHT * rows) / np.outer(base, base)

    def loss(self, shares: Table) -> tuple[float, Table]:
        """Return the loss and its slope by the shares."""
        seen = np.add.reduceat(shares, self._starts, axis=1)
        seen -= seen.mean(axis=0)
        together = seen.T @ seen / len(seen)
        pull = self._weights * together
        slope = seen @ pull * (2 / len(seen))
        slope -= slope.mean(axis=0)
        # Every pair stands in the table twice.
        return 0.5 * float(np.vdot(together, pull)), np.repeat(slope, self._sizes, axis=1)


def mix_products(parts: Sequence[Table]) -> Table:
    """Return (1/K) Σ_k ⊗ parts_k: the table of some columns, given the shares of each in every component.

    >>> mix_products([np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])])
    array([[0.5 , 0.  ],
           [0.25, 0.25]])
    """
    if not parts:
        return np.ones(())
    *_, last = _running_products(parts[:-1] or [np.ones((len(parts[0]), 1))])
    return (last.T @ parts[-1] / len(last)).reshape([part.shape[1] for part in parts])


def _running_products(parts: Sequence[Table]) -> Iterator[Table]:
    """Yield the products of the first one, two, … columns in every component, as matrices."""
    found = parts[0]
    yield found
    for part in parts[1:]:
        found = (found[:, :, None] * part[:, None, :]).reshape(len(part), -1)
        yield found


def _mixture_gradient(parts: Sequence[Table], pull: Table) -> list[Table]:
    """Return the slope by each of the parts, from that by the cells of their table."""
    count = len(parts[0])
    if len(parts) == 1:
        return [np.broadcast_to(pull / count, parts[0].shape)]
    befores = list(_running_products(parts[:-1]))
    flat = pull.reshape(-1, parts[-1].shape[1]) / count
    found = [befores[-1] @ flat]
    ahead = parts[-1] @ flat.T
    for before, part in zip(reversed(befores[:-1]), reversed(parts[1:-1]), strict=True):
        cube = ahead.reshape(count, before.shape[1], part.shape[1])
        found.append(np.einsum("kab,ka->kb", cube, before))
        ahead = np.einsum("kab,kb->ka", cube, part)
    return [ahead, *reversed(found)]
