"""Rows moved, cell by cell, until they fit all estimated marginals as nearly as whole rows can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Sized
from itertools import chain

import numpy as np
import numpy.typing as npt

from populace._native.cell_moves import CellMovePlan, Deficits
from populace._native.kernels import count_columns, move_cells, screen_cells, warn_unless_compiled
from populace.core.errors import UsageError
from populace.core.marginals import Clique, Counts, Domain
from populace.inference.factor import Table
from populace.schema.conditions.rules import NO_RULES, Rule, Rules

Codes = npt.NDArray[np.unsignedinteger]

MAX_TARGET_COLUMNS = 3
BLOCK_ROWS = 1 << 10

# The cost of a deficit is quadratic up to about 2 rows and straight beyond. Straight all the way, many tables in
# which a rare code expects less than half a row a cell would outvote the few that know how many rows it has.
DEFICIT_SLOPE = 0.25


def fit_rows(
    codes: Mapping[str, Codes],
    *,
    targets: Mapping[Clique, Table],
    domain: Domain,
    rng: np.random.Generator,
    rules: Rules = NO_RULES,
    fixed: Collection[str] = (),
    sweeps: int = 2,
    gradual: bool = False,
) -> None:
    """Give cells of rows other codes, in place, so that the tables of the rows come nearer to the targets.

    Targets are expected counts over one, two or three columns of `domain`, scaled to the number of rows. No move breaks
    a rule, and `fixed` columns stay as they are. Sweeps go over pieces of the rows, both in random order: the first
    looks at cells that leave their code at a gain, later ones also at those that leave it cheaply.
    Rows that start far away come nearer in a `gradual` way: the cost of a deficit is quadratic for all of them in the
    first sweep, and straight from fewer rows on in each later one.

    >>> codes = {"a": np.array([0, 0, 1, 1], np.uint8), "b": np.array([0, 1, 0, 1], np.uint8)}
    >>> targets = {("a", "b"): np.array([[2.0, 0.0], [0.0, 2.0]])}
    >>> fit_rows(codes, targets=targets, domain=Domain({"a": 2, "b": 2}), rng=np.random.default_rng(0))
    >>> sorted(zip(codes["a"].tolist(), codes["b"].tolist()))
    [(0, 0), (0, 0), (1, 1), (1, 1)]
    """
    _check_targets(targets, domain=domain, rules=rules)
    # A table none of whose columns may change cannot be mended.
    cliques = [clique for clique in targets if not set(clique) <= set(fixed)]
    held = Counter(name for clique in cliques for name in clique)
    free = set(held) - set(fixed)
    kept = [rule for rule in rules.rules if free & set(rule.clique)]
    needed = set(held).union(*(rule.clique for rule in kept))
    columns = tuple(name for name in domain if name in needed)
    rows = _check_rows(codes, columns, domain=domain)
    if sweeps < 0:
        raise UsageError(f"{sweeps} sweeps cannot be made.", hint="ask for 0 or more")
    if not cliques or not rows:
        return
    warn_unless_compiled()
    plan = plan_moves(cliques, columns, kept, domain=domain, rules=rules)
    deficits = _find_deficits(codes, {clique: targets[clique] for clique in cliques}, rows=rows)
    for number, slope in enumerate(_slopes(sweeps, rows=rows if gradual else 0)):
        # What leaving costs where nothing is missing and nothing is too much; fixed columns never leave.
        bars = np.array([slope * held[name] if name in free else -np.inf for name in columns])
        here = np.minimum(bars, 0.0) if number == 0 else bars / 4
        moves = _sweep([codes[name] for name in columns], deficits, plan, slope=slope, bars=here, rng=rng)
        if not moves and slope == DEFICIT_SLOPE:
            break


def _slopes(sweeps: int, *, rows: int) -> list[float]:
    """Return the slope of every sweep: the same for all or, from no deficit of so many rows being cut, growing to it.

    With a cost that is straight from two rows on, a table that lacks thousands of rows in a cell counts no more than
    one that lacks two. Columns that nearly repeat each other would then stay apart: the first row that follows gains in
    one table what it loses in all others of its column.

    >>> _slopes(3, rows=0), [round(slope, 6) for slope in _slopes(3, rows=50_000)]
    ([0.25, 0.25, 0.25], [1e-05, 0.001581, 0.25])
    """
    first = min(DEFICIT_SLOPE, 1 / (2 * rows)) if rows else DEFICIT_SLOPE
    ratio = (DEFICIT_SLOPE / first) ** (1 / max(1, sweeps - 1))
    return [first * ratio**number for number in range(sweeps - 1)] + [DEFICIT_SLOPE][: max(0, sweeps)]


def _find_deficits(codes: Mapping[str, Codes], targets: Mapping[Clique, Table], *, rows: int) -> Deficits:
    """Return what the rows lack of their targets: every table once with each of its columns as the last axis."""
    found = []
    for clique, target in targets.items():
        counts = count_columns([codes[name] for name in clique], sizes=target.shape)
        lack = target * (rows / target.sum()) - counts
        found += [np.moveaxis(lack, axis, -1).ravel() for axis in reversed(range(len(clique)))]
    return np.concatenate(found).astype(np.float32)


def _sweep(
    columns: Sequence[Codes],
    deficits: Deficits,
    plan: CellMovePlan,
    *,
    slope: float,
    bars: Table,
    rng: np.random.Generator,
) -> int:
    """Pass once over the rows, piece by piece, and return the number of moves."""
    moved = np.zeros(len(columns), dtype=np.int64)
    for start in BLOCK_ROWS * rng.permutation(-(-len(columns[0]) // BLOCK_ROWS)):
        parts = [column[start : start + BLOCK_ROWS] for column in columns]
        block = np.array(parts, dtype=np.uint32)
        leaving, before = np.empty(block.shape), moved.copy()
        screen_cells(block, deficits, plan, slope, leaving)
        seen = rng.permutation(np.flatnonzero((leaving < bars[:, None]).any(axis=0)))
        move_cells(block, seen, leaving, bars, deficits, plan, slope, moved)
        for column in np.flatnonzero(moved > before):
            parts[column][seen] = block[column, seen]
    return int(moved.sum())


def plan_moves(
    cliques: Sequence[Clique],
    columns: Sequence[str],
    kept: Sequence[Rule],
    *,
    domain: Domain,
    rules: Rules,
) -> CellMovePlan:
    """Lay out tables and rules in flat arrays."""
    number = {name: i for i, name in enumerate(columns)}
    places: list[int] = []
    table_of: list[int] = []
    tables, at = [0], 0
    ends: list[list[int]] = [[] for _ in columns]
    for table, clique in enumerate(cliques):
        for own in reversed(clique):
            ends[number[own]].append(len(table_of))
            table_of.append(table)
            places += [number[own], at]
            stride = domain[own]
            others = [name for name in reversed(clique) if name != own]
            for other in others:
                places += [number[other], stride]
                stride *= domain[other]
            places += [0, 0] * (MAX_TARGET_COLUMNS - len(clique))
            at += stride
        tables.append(len(table_of))
    corners, starts = [0], [0]
    members: list[int] = []
    guards: list[list[int]] = [[] for _ in columns]
    for place, rule in enumerate(kept):
        stride = 1
        for name, size in zip(reversed(rule.clique), reversed(rule.allowed.shape), strict=True):
            members += [number[name], stride]
            guards[number[name]].append(place)
            stride *= size
        starts.append(starts[-1] + len(rule.clique))
        corners.append(corners[-1] + stride)
    unruled = np.zeros(max((domain[name] for name in columns), default=0), dtype=np.int64)
    classes = [
        rules.classes[name].lookup if name in rules.classes else unruled[: domain[name]] for name in columns
    ]
    return CellMovePlan(
        sizes=_int_array([domain[name] for name in columns]),
        places=_int_array(places).reshape(-1, 2 * MAX_TARGET_COLUMNS),
        table_of=_int_array(table_of),
        tables=_int_array(tables),
        starts=_offsets(ends),
        ends=_int_array(list(chain.from_iterable(ends))),
        class_starts=_offsets(classes),
        classes=_int_array(list(chain.from_iterable(classes))),
        allowed=_int_array([cell for rule in kept for cell in rule.allowed.ravel().tolist()]),
        corners=_int_array(corners),
        rules=_int_array(starts),
        members=_int_array(members).reshape(-1, 2),
        watched=_offsets(guards),
        guards=_int_array(list(chain.from_iterable(guards))),
    )


def _int_array(numbers: Sequence[int]) -> Counts:
    return np.array(numbers, dtype=np.int64)


def _offsets(lists: Sequence[Sized]) -> Counts:
    """Return where each of several lists begins when they follow each other, and where the last ends."""
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


def _check_rows(codes: Mapping[str, Codes], columns: Sequence[str], *, domain: Domain) -> int:
    """Return the number of rows; refuse codes that a loop without checks would take for places elsewhere."""
    if not set(columns) <= set(codes) or len({len(codes[name]) for name in columns}) > 1:
        raise UsageError(
            "the rows to fit lack a column, or their columns differ in length.",
            hint="give all columns of the targets and the rules, of one length",
        )
    for name in columns:
        if codes[name].dtype.kind != "u" or (codes[name].size and codes[name].max() >= domain[name]):
            raise UsageError(
                f"column {name!r} holds codes outside its domain.", hint="give codes 0 … size − 1"
            )
    return len(codes[columns[0]]) if columns else 0


def _check_targets(targets: Mapping[Clique, Table], *, domain: Domain, rules: Rules) -> None:
    for clique, table in targets.items():
        if not 1 <= len(set(clique)) == len(clique) <= MAX_TARGET_COLUMNS or not set(clique) <= set(domain):
            raise UsageError(
                f"rows cannot be fitted to a target over {clique}.",
                hint=f"give targets over one to {MAX_TARGET_COLUMNS} columns of the domain",
            )
        if table.shape != domain.shape(clique) or not 0 < table.sum() < np.inf:
            raise UsageError(
                f"the target over {clique} has another shape than the domain, or no rows.",
                hint="give one expected count per cell",
            )
    for name, classes in rules.classes.items():
        if len(classes.groups) != domain[name]:
            raise UsageError(
                f"the rules know {len(classes.groups)} codes of column {name!r}; the domain has {domain[name]}.",
                hint="take the classes of the domain's groups where columns are grouped",
            )
