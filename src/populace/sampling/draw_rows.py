"""Rows drawn from a model, with counts as close to their expectation as whole numbers allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Counts, Domain, Grouping
from populace.inference.constraints.support import class_lookups
from populace.inference.factor import Table, sum_onto
from populace.inference.model import Model
from populace.sampling.fit_rows import MAX_TARGET_COLUMNS, fit_rows
from populace.sampling.swap_members import MemberBlock, swap_members
from populace.sampling.swap_rows import swap_rows
from populace.schema.conditions.rules import NO_RULES, Rules

Codes = npt.NDArray[np.unsignedinteger]

# All tables that rows are fitted to: 4 bytes a cell for each of their columns.
MAX_TARGET_CELLS = 2**25
# Rows drawn beside the others, to exchange them for.
POOL_SIZES = (2**14, 2**18)
# So near to whole numbers, expected counts are met to the row: whatever offset the systematic sample begins at.
WHOLE_TOLERANCE = 1e-5
# How often rows are gone through; those of linked tables, of which a tree holds few pairs; and where nothing but moves
# brings columns together.
SWEEPS, LINKED_SWEEPS, GRADUAL_SWEEPS = 2, 6, 40


def draw_rows(
    model: Model,
    *,
    rows: int,
    rng: np.random.Generator,
    rules: Rules = NO_RULES,
    chunk: int = 2**18,
    sweeps: int = SWEEPS,
    blocks: Sequence[MemberBlock] = (),
) -> Iterator[Mapping[str, Codes]]:
    """Yield exactly `rows` rows as codes per column, in random order, in chunks of at most `chunk` rows.

    Node after node of the junction tree, from the root: the rows in one cell of the separator are shared out over the
    node's other columns by systematic sampling, so that every count is one of the two whole numbers next to its
    expectation given that cell's rows, and equals it on average; which row gets which code is a random permutation,
    so columns depend on each other only as the model says. Where the model has targets, cells of rows then move until
    all pairs of columns, and the targets, fit as nearly as whole rows can; no move breaks one of the `rules`.
    They are gone through `sweeps` times for that.
    The chunk size cuts the result and changes nothing else. Zero rows give one empty chunk.

    >>> model = Model(domain=Domain({"a": 2}), groupings={}, potentials={}, total=8.0, within={})
    >>> [part] = draw_rows(model, rows=4, rng=np.random.default_rng(1))
    >>> np.bincount(part["a"])
    array([2, 2])
    """
    if rows < 0 or chunk < 1:
        raise UsageError(f"{rows} rows in chunks of {chunk} cannot be drawn.", hint="give 0 or more rows")
    groups = draw_groups(model, rows=rows, rng=rng, rules=rules, sweeps=sweeps, blocks=blocks)
    codes = draw_codes(groups, model, rng=rng)
    for start in range(0, max(rows, 1), chunk):
        yield {name: column[start : start + chunk] for name, column in codes.items()}


def draw_groups(
    model: Model,
    *,
    rows: int,
    rng: np.random.Generator,
    rules: Rules = NO_RULES,
    sweeps: int = SWEEPS,
    blocks: Sequence[MemberBlock] = (),
) -> dict[str, Codes]:
    """Return rows in the groups of codes that the model has, fitted to its targets."""
    rules = rules if model.recoding is None else model.recoding.rules(rules)
    codes = _draw_groups(model, rows=rows, rng=rng)
    _swap_to_totals(codes, model, rows=rows, rng=rng)
    if model.targets and rows:
        _fit_rows(codes, model, rules=rules, rng=rng, sweeps=sweeps, blocks=blocks)
    return codes


def draw_codes(groups: Mapping[str, Codes], model: Model, *, rng: np.random.Generator) -> dict[str, Codes]:
    """Return rows in codes: for the group of each cell one of its codes."""
    codes = dict(groups)
    for name, grouping in model.groupings.items():
        codes[name] = _draw_codes(codes[name], grouping, shares=model.within[name], rng=rng)
    if model.recoding is not None:
        codes = dict(model.recoding.expand(codes))
    domain = model.domain if model.recoding is None else model.recoding.domain
    return {name: codes[name] for name in domain}


def _swap_to_totals(codes: dict[str, Codes], model: Model, *, rows: int, rng: np.random.Generator) -> None:
    """Exchange rows, in place, for others of the model where several exact cliques are not met by moves alone."""
    domain = model.full_domain
    wanted = []
    for clique in model.exact:
        expected = rows * model.grouped_marginal(clique).ravel() / model.total
        wanted.append(_round_to_sum(expected))
        if np.abs(wanted[-1] - expected).max() > 0.2:
            # Rounded, tables that overlap need not agree.
            return
    have = [_cell_of_rows(codes, clique, domain=domain, rows=rows) for clique in model.exact]
    if all(
        np.array_equal(np.bincount(cells, minlength=counts.size), counts)
        for cells, counts in zip(have, wanted, strict=True)
    ):
        return
    for more in POOL_SIZES:
        pool = _draw_groups(model, rows=more, rng=rng)
        spare = [_cell_of_rows(pool, clique, domain=domain, rows=more) for clique in model.exact]
        found = swap_rows(have, spare, wanted=wanted, rng=rng)
        if found is not None:
            for name in codes:
                codes[name][found[0]] = np.concatenate([pool[name], codes[name]])[found[1]]
            return


def _fit_rows(
    codes: dict[str, Codes],
    model: Model,
    *,
    rules: Rules,
    rng: np.random.Generator,
    sweeps: int,
    blocks: Sequence[MemberBlock],
) -> None:
    """Move cells of rows to fit the model's targets, and its own tables of all other pairs as far as memory reaches.

    A gradual model knows nothing of pairs but its targets, so that the others are free. Of linked tables, cells move to
    fit tables inside one block alone; then whole members are exchanged to fit the others.
    """
    domain = model.grouped_domain
    every = _narrow_targets(model.targets)
    inside = [
        *(block.columns for block in blocks),
        frozenset(domain).difference(*(b.columns for b in blocks)),
    ]
    targets = {clique: table for clique, table in every.items() if _is_within(clique, inside)}
    known = {frozenset(clique) for clique in targets}
    cells_left = MAX_TARGET_CELLS - sum(map(domain.cells, targets))
    for pair in () if model.gradual else sorted(combinations(domain, 2), key=domain.cells):
        if frozenset(pair) not in known and _is_within(pair, inside):
            cells_left -= domain.cells(pair)
            if cells_left < 0:
                break
            targets[pair] = model.grouped_marginal(pair)
    lookups = class_lookups(model.space(rules))
    grouped_rules = Rules(
        classes={name: Grouping(name, tuple(lookup.tolist())) for name, lookup in lookups.items()},
        rules=rules.rules,
    )
    fixed = {name for clique in model.exact for name in clique}
    fit_rows(
        codes,
        targets=targets,
        domain=domain,
        rules=grouped_rules,
        fixed=fixed,
        sweeps=GRADUAL_SWEEPS if model.gradual else sweeps,
        gradual=model.gradual,
        rng=rng,
    )
    swap_members(
        codes,
        blocks=[_group_block(block, model) for block in blocks if not block.columns & fixed],
        targets={clique: table for clique, table in every.items() if clique not in targets},
        domain=domain,
        rules=grouped_rules,
        rng=rng,
    )


def _is_within(clique: Clique, sets: Sequence[frozenset[str]]) -> bool:
    return any(each.issuperset(clique) for each in sets)


def _group_block(block: MemberBlock, model: Model) -> MemberBlock:
    """Return a block with the group of the code that stands for nobody."""
    grouping = model.groupings.get(block.column)
    return block if grouping is None else replace(block, absent=grouping.groups[block.absent])


def _narrow_targets(targets: Mapping[Clique, Table]) -> dict[Clique, Table]:
    """Return targets that rows can be fitted to: of wider tables the sums over three columns."""
    found = {clique: table for clique, table in targets.items() if len(clique) <= MAX_TARGET_COLUMNS}
    for clique, table in targets.items():
        if len(clique) > MAX_TARGET_COLUMNS:
            for part in combinations(clique, MAX_TARGET_COLUMNS):
                found.setdefault(part, sum_onto(table, clique, part))
    return found


def _draw_groups(model: Model, *, rows: int, rng: np.random.Generator) -> dict[str, Codes]:
    domain, tree = model.full_domain, model.tree
    codes: dict[str, Codes] = {}
    # The largest exact clique leads at the root: its cells are dealt from one stretch of points each.
    lead = max(model.exact, key=domain.cells, default=())
    pending = set(model.exact) - {lead}
    for node, separator, table in zip(tree.nodes, tree.separators, model.conditionals, strict=True):
        rest = node[len(separator) :]
        if not codes:
            rest = (*lead, *(name for name in node if name not in lead))
            table = table.transpose([node.index(name) for name in rest])
        shares = table.reshape(domain.cells(separator), domain.cells(rest))
        cells = _cell_of_rows(codes, separator, domain=domain, rows=rows)
        counts = _systematic_counts(shares, here=np.bincount(cells, minlength=len(shares)), rng=rng)
        if not codes and rest == lead:
            counts = _take_whole(rows * shares, otherwise=counts)
        met = [clique for clique in model.exact if clique not in pending and set(clique) <= set(node)]
        for clique in sorted(clique for clique in pending if set(clique) <= set(node)):
            into, *before = (
                _cell_numbers(separator, each, domain)[:, None] + _cell_numbers(rest, each, domain)
                for each in (clique, *met)
            )
            wanted = _round_to_sum(rows * model.grouped_marginal(clique).ravel() / model.total)
            _move_to_sums(counts, shares=shares, into=into, wanted=wanted, before=before, rng=rng)
            pending.remove(clique)
            met.append(clique)
        codes |= _codes_of_cells(_assign_randomly(counts, cells=cells, rng=rng), rest, domain=domain)
    return codes


def _draw_codes(groups: Codes, grouping: Grouping, *, shares: Table, rng: np.random.Generator) -> Codes:
    """Return for every row a code of its group; only groups of several codes need a draw."""
    sizes = np.array([len(members) for members in grouping.members])
    codes = np.array([members[0] for members in grouping.members], dtype=_smallest_dtype(len(shares)))[groups]
    here = np.flatnonzero(sizes[groups] > 1)
    here = here[np.argsort(groups[here], kind="stable")]
    ends = np.cumsum(np.bincount(groups[here], minlength=grouping.size))
    for members, start, end in zip(grouping.members, ends - np.diff(ends, prepend=0), ends, strict=True):
        if start < end:
            counts = _systematic_counts(shares[members][None, :], here=np.array([end - start]), rng=rng)
            codes_drawn = _assign_randomly(counts, cells=np.zeros(end - start, np.uint8), rng=rng)
            codes[here[start:end]] = members.astype(codes.dtype)[codes_drawn]
    return codes


def _systematic_counts(shares: Table, *, here: Counts, rng: np.random.Generator) -> Counts:
    """Return how many of the rows in each cell (a row of `shares`) go to each column of `shares`, in proportion.

    In a cell with n rows, the points u, u + 1, …, u + n − 1 with one random offset u are dealt along the cumulated
    shares scaled to n, so a column of expectation x gets ⌊x⌋ or ⌈x⌉ rows. Where the share is exactly 0 it gets none.
    """
    bounds = np.cumsum(shares, axis=1)
    bounds /= bounds[:, -1:].copy()
    offsets = rng.random(len(shares))[:, None]
    # The whole is reached at the last share above 0, also where rounding would leave a point for those behind it.
    counts = np.where(bounds < 1, np.ceil(bounds * here[:, None] - offsets), here[:, None]).astype(np.int64)
    counts[:, 1:] -= counts[:, :-1].copy()
    return counts


def _take_whole(expected: Table, *, otherwise: Counts) -> Counts:
    """Return expected counts where all are whole numbers, as near as sums of floats come; else others."""
    whole = np.rint(expected)
    if np.abs(whole - expected).max(initial=0.0) < WHOLE_TOLERANCE and whole.sum() == otherwise.sum():
        return whole.astype(np.int64)
    return otherwise


def _assign_randomly(counts: Counts, *, cells: Codes, rng: np.random.Generator) -> Codes:
    """Return for every row, given its cell, a column of `counts`: each column as often as it says, at random."""
    kind = _smallest_dtype(counts.shape[1])
    dealt = np.repeat(np.tile(np.arange(counts.shape[1], dtype=kind), len(counts)), counts.ravel())
    # Narrow integers halve the time spent waiting for memory.
    mixed = rng.permutation(len(cells)).astype(_smallest_dtype(len(cells)), copy=False)
    order = mixed[np.argsort(cells[mixed], kind="stable")] if len(counts) > 1 else mixed
    codes_drawn = np.empty_like(dealt)
    codes_drawn[order] = dealt
    return codes_drawn


def _move_to_sums(
    counts: Counts,
    *,
    shares: Table,
    into: Counts,
    wanted: Counts,
    before: Sequence[Counts],
    rng: np.random.Generator,
) -> None:
    """Move rows, in place, so that sums over entries are those wanted, as far as single moves can reach.

    `into` numbers the sum to which each entry of `counts` adds. A row moves only between entries of one cell (a row of
    the table) that add to the same sums of those met `before`, and only to a share above 0: first from entries above
    their expectation to entries below it, then from and to any.
    """
    over = np.bincount(into.ravel(), weights=counts.ravel(), minlength=wanted.size).astype(np.int64) - wanted
    above = (counts - counts.sum(axis=1, keepdims=True) * shares / shares.sum(axis=1, keepdims=True)).ravel()
    flat, sums, possible = counts.reshape(-1), into.ravel(), (shares > 0).ravel()
    rows = np.broadcast_to(np.arange(len(counts))[:, None], counts.shape)
    places = np.stack([rows, *before]).reshape(len(before) + 1, -1)
    order = np.lexsort(places)
    groups = np.split(order, np.flatnonzero(np.diff(places[:, order]).any(axis=0)) + 1)
    for least in (0.0, -np.inf):
        moved = True
        while moved and over.any():
            moved = False
            for number in rng.permutation(len(groups)):
                here = groups[number]
                excess = over[sums[here]]
                givers = here[(excess > 0) & (flat[here] > 0) & (above[here] > least)]
                takers = here[(excess < 0) & possible[here] & (above[here] < -least)]
                if givers.size and takers.size:
                    givers = _first_of_each(givers[np.argsort(-above[givers], kind="stable")], sums)
                    takers = _first_of_each(takers[np.argsort(above[takers], kind="stable")], sums)
                    most = min(givers.size, takers.size)
                    for entries, step in ((givers[:most], -1), (takers[:most], 1)):
                        flat[entries] += step
                        above[entries] += step
                        over[sums[entries]] += step
                    moved = True


def _first_of_each(entries: Counts, sums: Counts) -> Counts:
    """Return the first entry of every sum, in their order."""
    return entries[np.sort(np.unique(sums[entries], return_index=True)[1])]


def _round_to_sum(expected: Table) -> Counts:
    """Return whole numbers next to expected ones, with the same sum, the largest remainders rounded up."""
    found = np.floor(expected + 1e-6).astype(np.int64)
    short = round(float(expected.sum())) - int(found.sum())
    if short > 0:
        found[np.argsort(found - expected, kind="stable")[:short]] += 1
    return found


def _cell_numbers(columns: Clique, clique: Clique, domain: Domain) -> Counts:
    """Return for every cell over some columns what these contribute to the number of a cell over a clique."""
    found = np.zeros(domain.shape(columns), dtype=np.int64)
    width = 1
    for name in reversed(clique):
        if name in columns:
            axis = tuple(-1 if column == name else 1 for column in columns)
            found += width * np.arange(domain[name]).reshape(axis)
        width *= domain[name]
    return found.ravel()


def _cell_of_rows(codes: Mapping[str, Codes], clique: Clique, *, domain: Domain, rows: int) -> Codes:
    """Return the number of each row's cell in the table over a clique."""
    kind = _smallest_dtype(domain.cells(clique))
    flat = np.zeros(rows, dtype=kind)
    for name in clique:
        flat *= kind(domain[name])
        flat += codes[name].astype(kind, copy=False)
    return flat


def _codes_of_cells(cells: Codes, clique: Clique, *, domain: Domain) -> dict[str, Codes]:
    """Split cell numbers of a table over a clique into codes per column."""
    codes: dict[str, Codes] = {}
    for name in reversed(clique):
        if name == clique[0]:
            codes[name] = cells.astype(_smallest_dtype(domain[name]), copy=False)
        else:
            cells, code = np.divmod(cells, cells.dtype.type(domain[name]))
            codes[name] = code.astype(_smallest_dtype(domain[name]), copy=False)
    return codes


def _smallest_dtype(size: int) -> type[np.unsignedinteger]:
    """Return the smallest type that holds codes 0 … size − 1 and size itself."""
    return np.min_scalar_type(size).type
