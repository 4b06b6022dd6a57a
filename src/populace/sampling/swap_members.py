"""Members of linked tables exchanged between units, until columns of members and units fit together.

Exchanging the whole k-th members of two units changes nothing inside one place and nothing inside the units: tables
inside them stay as they were drawn. What changes is who lives with whom, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain
from populace.inference.factor import Table
from populace.schema.conditions.rules import Rules

Codes = npt.NDArray[np.unsignedinteger]
Cells = npt.NDArray[np.int64]

ROUNDS = 100
# Pairs that are weighed at once, each as if it were the only one: a small part of the members, or all would flock to
# the same cells.
BATCH_PAIRS, _BATCHES = 512, 32
# The cost of a deficit is quadratic up to about so many times the root of the number of rows, and straight beyond.
# Where it is straight from a few rows on, the last rows of very many tables outvote the few that are far off.
_STRAIGHT = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBlock:
    """The columns of the members in one place; `column` has the code `absent` where there is none."""

    columns: frozenset[str]
    column: str
    absent: int


class _CrossTables:
    """All targets with columns inside a block and outside it, one behind the other: what the rows lack of each cell.

    The cell of a row is the sum of two numbers: of what it has inside the block, and of what it has outside it.
    """

    def __init__(
        self,
        codes: Mapping[str, Codes],
        targets: Mapping[Clique, Table],
        *,
        block: MemberBlock,
        domain: Domain,
    ) -> None:
        rows = len(codes[block.column])
        self._straight = _STRAIGHT**2 * rows
        lacks, insides, outsides, start = [np.zeros(0)], [], [], 0
        for clique, target in targets.items():
            inside = [name for name in clique if name in block.columns]
            outside = [name for name in clique if name not in block.columns]
            flat = target.transpose([clique.index(name) for name in (*inside, *outside)]).ravel()
            one, other = (_flat_cells(codes, names, domain=domain) for names in (inside, outside))
            inside_cells = one * domain.cells(tuple(outside))
            counts = np.bincount(inside_cells + other, minlength=flat.size)
            # Half the memory: a number for every table and row.
            insides.append((start + inside_cells).astype(np.int32))
            outsides.append(other.astype(np.int32))
            lacks.append(flat * (rows / target.sum()) - counts)
            start += flat.size
        self._lack = np.concatenate(lacks)
        self._inside, self._outside = np.array(insides), np.array(outsides)
        self._price_steps()

    def weigh(self, one: Cells, other: Cells) -> npt.NDArray[np.float64]:
        """Return what exchanging the members of pairs of rows would add to the cost."""
        a, b, x, y = self._cells(one, other)
        leave, enter = self._leave, self._enter
        added = leave[a + x] + leave[b + y] + enter[b + x] + enter[a + y]
        added[(a == b) | (x == y)] = 0.0
        return np.asarray(added.sum(axis=0))

    def exchange(self, one: Cells, other: Cells) -> None:
        """Exchange the members of pairs of rows."""
        a, b, x, y = self._cells(one, other)
        for first, second, step in ((a + x, b + y, 1), (b + x, a + y, -1)):
            cells = np.concatenate([first.ravel(), second.ravel()])
            self._lack += step * np.bincount(cells, minlength=self._lack.size)
        self._inside[:, one], self._inside[:, other] = b, a
        self._price_steps()

    def _price_steps(self) -> None:
        """Keep what one row less and one row more in each cell would add to the cost."""
        here = self._cost(self._lack)
        self._leave, self._enter = self._cost(self._lack + 1) - here, self._cost(self._lack - 1) - here

    def _cells(self, one: Cells, other: Cells) -> tuple[npt.NDArray[np.int32], ...]:
        return self._inside[:, one], self._inside[:, other], self._outside[:, one], self._outside[:, other]

    def _cost(self, lack: Table) -> Table:
        return np.asarray(np.sqrt(lack * lack + self._straight))


def swap_members(
    codes: Mapping[str, Codes],
    *,
    blocks: Iterable[MemberBlock],
    targets: Mapping[Clique, Table],
    domain: Domain,
    rules: Rules,
    rng: np.random.Generator,
    rounds: int = ROUNDS,
) -> None:
    """Exchange members of one place between rows, in place, where tables across places come nearer to their targets.

    No exchange breaks a rule. In each round rows are paired at random, and pairs that gain are exchanged.

    >>> codes = {"home": np.array([0, 1], np.uint8), "age": np.array([1, 0], np.uint8)}
    >>> block = MemberBlock(columns=frozenset(["age"]), column="age", absent=2)
    >>> targets = {("home", "age"): np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])}
    >>> sizes = Domain({"home": 2, "age": 3})
    >>> swap_members(codes, blocks=[block], targets=targets, domain=sizes, rules=Rules(), rng=np.random.default_rng(0))
    >>> codes["age"].tolist()
    [0, 1]
    """
    every = list(blocks)
    for _ in range(rounds):
        for block in every:
            _swap_block(codes, block, targets=targets, domain=domain, rules=rules, rng=rng)


def _swap_block(
    codes: Mapping[str, Codes],
    block: MemberBlock,
    *,
    targets: Mapping[Clique, Table],
    domain: Domain,
    rules: Rules,
    rng: np.random.Generator,
) -> None:
    there = np.flatnonzero(codes[block.column] != block.absent)
    across = {c: t for c, t in targets.items() if 0 < len(block.columns.intersection(c)) < len(c)}
    if not across or len(there) < 2:
        return
    tables = _CrossTables(codes, across, block=block, domain=domain)
    order = rng.permutation(there)
    half = len(order) // 2
    size = max(1, min(BATCH_PAIRS, half // _BATCHES))
    for start in range(0, half, size):
        one = order[start : min(half, start + size)]
        other = order[half + start : half + start + len(one)]
        gains = tables.weigh(one, other) < 0
        # Late rounds hardly find a pair.
        if not gains.any():
            continue
        one, other = one[gains], other[gains]
        kept = _keep_rules(codes, one, other, block=block, rules=rules)
        kept &= _keep_rules(codes, other, one, block=block, rules=rules)
        one, other = one[kept], other[kept]
        tables.exchange(one, other)
        for name in block.columns.intersection(codes):
            codes[name][one], codes[name][other] = codes[name][other], codes[name][one]


def _flat_cells(codes: Mapping[str, Codes], names: Sequence[str], *, domain: Domain) -> Cells:
    shape = domain.shape(tuple(names))
    return np.asarray(np.ravel_multi_index([codes[name].astype(np.int64) for name in names], shape))


def _keep_rules(
    codes: Mapping[str, Codes], rows: Cells, partners: Cells, *, block: MemberBlock, rules: Rules
) -> npt.NDArray[np.bool_]:
    """Say which rows keep all rules with the members of their partners."""
    kept = np.ones(len(rows), dtype=np.bool_)
    for rule in rules.rules:
        if 0 < len(block.columns.intersection(rule.clique)) < len(rule.clique):
            cells: list[Any] = [
                rules.classes[name].lookup[codes[name][partners if name in block.columns else rows]]
                for name in rule.clique
            ]
            kept &= rule.allowed[tuple(cells)]
    return kept
