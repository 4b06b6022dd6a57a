"""Many rows drawn block by block, in memory that does not grow with them and with constant work a row.

Fitting a row to the targets of a model costs far more than anything else that is done for it, and ever more the more
is known: tables of three columns are measured too, and no longer fit into a cache. Beyond some millions of rows it
gains nothing: what is left between rows and targets is where targets contradict each other. So one block of rows is
fitted and serves for several, each in an order, with codes inside groups and with values inside bins of its own.

Which rows a block holds follows from the model, the number of all rows, the seed and the number of the block alone, so
blocks can be drawn anywhere and in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

from populace.core.array_types import Ints
from populace.core.memory_limit import count_cores
from populace.inference.model import Model
from populace.sampling.draw_rows import SWEEPS, Codes, draw_codes, draw_groups
from populace.schema.conditions.rules import NO_RULES, Rules

T = TypeVar("T")

# As many rows as one block has at most, and at least where there are more than that: of so many, rounding to whole rows
# is nothing beside the noise.
MAX_BLOCK_ROWS, MIN_BLOCK_ROWS = 2**20, 2**18
# For how many blocks one fitted block serves at most.
MAX_COPIES = 16

Block = dict[str, Codes]


def count_blocks(rows: int) -> tuple[int, int]:
    """Return how many blocks so many rows have, and how many of these are fitted.

    >>> count_blocks(20 * 2**20), count_blocks(5)
    ((20, 2), (1, 1))
    """
    most = min(max(-(-rows // MAX_COPIES), MIN_BLOCK_ROWS), MAX_BLOCK_ROWS)
    count = max(1, -(-rows // most))
    return count, -(-count // MAX_COPIES)


def split_rows(rows: int) -> list[list[int]]:
    """Return how many rows each block has, by the fitted block that it is a copy of; none differ by more than one.

    >>> [len(copies) for copies in split_rows(20 * 2**20)]
    [10, 10]
    >>> split_rows(2**20 + 4)
    [[209716, 209716, 209716, 209716, 209716]]
    """
    count, fitted = count_blocks(rows)
    sizes = [rows // count + (number < rows % count) for number in range(count)]
    ends = [count * number // fitted for number in range(fitted + 1)]
    return [sizes[start:end] for start, end in pairwise(ends)]


def draw_blocks(
    model: Model,
    *,
    rows: int,
    rng: np.random.Generator,
    rules: Rules = NO_RULES,
    sweeps: int = SWEEPS,
    then: Callable[[Block, np.random.Generator], T],
) -> Iterator[T]:
    """Yield what `then` makes of each block of exactly `rows` rows in all, on all cores and in their order.

    A model that must meet counts exactly has to be drawn whole, by `draw_rows`.

    >>> from populace.core.marginals import Domain
    >>> model = Model(domain=Domain({"a": 2}), groupings={}, potentials={}, total=8.0, within={})
    >>> sizes = draw_blocks(
    ...     model, rows=2**20 + 1, rng=np.random.default_rng(1), then=lambda codes, rng: len(codes["a"])
    ... )
    >>> list(sizes)
    [209716, 209716, 209715, 209715, 209715]
    """
    groups = split_rows(rows)
    tasks = _list_tasks(model, groups, rng=rng, rules=rules, sweeps=sweeps, then=then)
    yield from run_in_order(tasks, threads=count_cores())


def deal_counts(counts: Ints, *, rng: np.random.Generator) -> Iterator[Ints]:
    """Yield, block by block, the cells of rows that have just these counts together, in random order.

    Row after row, in the order of the cells, is dealt to the blocks in turn, so that each is like the whole.

    >>> blocks = list(deal_counts(np.array([3, 0, 2**20]), rng=np.random.default_rng(1)))
    >>> [len(block) for block in blocks], sum(np.bincount(block, minlength=3) for block in blocks)
    ([209716, 209716, 209716, 209716, 209715], array([      3,       0, 1048576]))
    """
    ends = np.cumsum(counts)
    rows = int(ends[-1]) if len(ends) else 0
    blocks, _ = count_blocks(rows)
    cells = np.flatnonzero(counts)
    last, first = ends[cells], ends[cells] - counts[cells]
    for number, own in enumerate(rng.spawn(blocks)):
        # Of the rows before a given one, every `blocks`-th from this block's number on is in it.
        before, upto = ((edge - number + blocks - 1) // blocks for edge in (first, last))
        yield own.permutation(np.repeat(cells, upto - before))


def draw_group(
    model: Model,
    *,
    rows: int,
    number: int,
    rng: np.random.Generator,
    rules: Rules = NO_RULES,
    then: Callable[[Block, np.random.Generator], T],
) -> Iterator[T]:
    """Yield those of the blocks that `draw_blocks` yields which are copies of one fitted block, by its number."""
    groups = split_rows(rows)
    own = rng.spawn(len(groups))[number]
    tasks = _list_copies(model, groups[number], rng=own, rules=rules, sweeps=SWEEPS, then=then)
    yield from (task() for task in tasks)


def _list_tasks(
    model: Model,
    groups: Sequence[Sequence[int]],
    *,
    rng: np.random.Generator,
    rules: Rules,
    sweeps: int,
    then: Callable[[Block, np.random.Generator], T],
) -> Iterator[Callable[[], T]]:
    for sizes, own in zip(groups, rng.spawn(len(groups)), strict=True):
        yield from _list_copies(model, sizes, rng=own, rules=rules, sweeps=sweeps, then=then)


def _list_copies(
    model: Model,
    sizes: Sequence[int],
    *,
    rng: np.random.Generator,
    rules: Rules,
    sweeps: int,
    then: Callable[[Block, np.random.Generator], T],
) -> Iterator[Callable[[], T]]:
    """Yield the blocks of one fitted block, each still to be made."""
    own, *others = rng.spawn(1 + len(sizes))
    fitted = draw_groups(model, rows=max(sizes), rng=own, rules=rules, sweeps=sweeps)
    for size, other in zip(sizes, others, strict=True):

        def copy(size: int = size, rng: np.random.Generator = other) -> T:
            order = rng.permutation(len(next(iter(fitted.values()))))[:size].astype(np.uint32)
            shuffled = {name: column[order] for name, column in fitted.items()}
            return then(draw_codes(shuffled, model, rng=rng), rng)

        yield copy


def run_in_order(tasks: Iterator[Callable[[], T]], *, threads: int) -> Iterator[T]:
    """Yield the results of tasks in their order, a few of them at work at a time.

    >>> list(run_in_order(iter([lambda: 1, lambda: 2, lambda: 3]), threads=2))
    [1, 2, 3]
    """
    if threads < 2:
        yield from (task() for task in tasks)
        return
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
