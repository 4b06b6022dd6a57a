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

ROUNDS = 30
# Pairs that are weighed at once, each as if it were the only one.
BATCH_PAIRS = 512
# The cost of a deficit is quadratic up to about so many rows and straight beyond.
_STRAIGHT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBlock:
    """The columns of the members in one place; `column` has the code `absent` where there is none."""

    columns: frozenset[str]
    column: str
    absent: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _CrossTable:
    """A target with columns inside a block and outside it: the cells of all rows on either side, and what they lack."""

    inside: Cells
    outside: Cells
    lack: Table

    def weigh(self, one: Cells, other: Cells) -> npt.NDArray[np.float64]:
        """Return what exchanging the members of pairs of rows would add to the cost."""
        leave, enter = _cost(self.lack + 1) - _cost(self.lack), _cost(self.lack - 1) - _cost(self.lack)
        (a, b), (x, y) = (self.inside[one], self.inside[other]), (self.outside[one], self.outside[other])
        added = leave[a, x] + leave[b, y] + enter[b, x] + enter[a, y]
        return np.where((a == b) | (x == y), 0.0, added)

    def exchange(self, one: Cells, other: Cells) -> None:
        """Exchange the members of pairs of rows."""
        for rows, partners in ((one, other), (other, one)):
            np.add.at(self.lack, (self.inside[rows], self.outside[rows]), 1)
            np.add.at(self.lack, (self.inside[partners], self.outside[rows]), -1)
        self.inside[one], self.inside[other] = self.inside[other], self.inside[one]


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
    tables = [
        _cross_table(codes, clique, target, block=block, domain=domain)
        for clique, target in targets.items()
        if 0 < len(block.columns.intersection(clique)) < len(clique)
    ]
    if not tables or len(there) < 2:
        return
    order = rng.permutation(there)
    half = len(order) // 2
    for start in range(0, half, BATCH_PAIRS):
        one, other = (
            order[start : min(half, start + BATCH_PAIRS)],
            order[half + start : half + start + BATCH_PAIRS],
        )
        other = other[: len(one)]
        gains = sum(table.weigh(one, other) for table in tables) < 0
        gains &= _keep_rules(codes, one, other, block=block, rules=rules)
        gains &= _keep_rules(codes, other, one, block=block, rules=rules)
        one, other = one[gains], other[gains]
        for table in tables:
            table.exchange(one, other)
        for name in block.columns.intersection(codes):
            codes[name][one], codes[name][other] = codes[name][other], codes[name][one]


def _cross_table(
    codes: Mapping[str, Codes], clique: Clique, target: Table, *, block: MemberBlock, domain: Domain
) -> _CrossTable:
    inside = [name for name in clique if name in block.columns]
    outside = [name for name in clique if name not in block.columns]
    rows = len(codes[block.column])
    flat = target.transpose([clique.index(name) for name in (*inside, *outside)])
    lack = flat.reshape(domain.cells(tuple(inside)), -1) * (rows / target.sum())
    cells = [_flat_cells(codes, names, domain=domain) for names in (inside, outside)]
    counts = np.bincount(cells[0] * lack.shape[1] + cells[1], minlength=lack.size).reshape(lack.shape)
    return _CrossTable(inside=cells[0], outside=cells[1], lack=lack - counts)


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


def _cost(lack: Table) -> Table:
    return np.asarray(np.sqrt(lack * lack + _STRAIGHT * _STRAIGHT))
