"""Rows drawn from a model, with counts as close to their expectation as whole numbers allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from populace.errors import UsageError
from populace.infer.model import Model
from populace.infer.tables import Table
from populace.marginals import Clique, Domain, Grouping

Codes = npt.NDArray[np.unsignedinteger]


def generate(
    model: Model, *, rows: int, rng: np.random.Generator, chunk: int = 2**18
) -> Iterator[Mapping[str, Codes]]:
    """Yield exactly `rows` rows as codes per column, in random order, in chunks of at most `chunk` rows.

    Node after node of the junction tree, from the root: the rows in one cell of the separator are shared out over the
    node's other columns by systematic sampling, so that every count is one of the two whole numbers next to its
    expectation given that cell's rows, and equals it on average; which row gets which code is a random permutation,
    so columns depend on each other only as the model says. The chunk size cuts the result and changes nothing else.
    Zero rows give one empty chunk.

    >>> model = Model(domain=Domain({"a": 2}), groupings={}, potentials={}, total=8.0, within={})
    >>> [part] = generate(model, rows=4, rng=np.random.default_rng(1))
    >>> np.bincount(part["a"])
    array([2, 2])
    """
    if rows < 0 or chunk < 1:
        raise UsageError(f"{rows} rows in chunks of {chunk} cannot be drawn.", hint="give 0 or more rows")
    codes = _draw_groups(model, rows=rows, rng=rng)
    for name, grouping in model.groupings.items():
        codes[name] = _draw_codes(codes[name], grouping, shares=model.within[name], rng=rng)
    for start in range(0, max(rows, 1), chunk):
        yield {name: codes[name][start : start + chunk] for name in model.domain}


def _draw_groups(model: Model, *, rows: int, rng: np.random.Generator) -> dict[str, Codes]:
    domain, tree = model.full_domain, model.tree
    codes: dict[str, Codes] = {}
    for node, separator, table in zip(tree.nodes, tree.separators, model.conditionals, strict=True):
        rest = node[len(separator) :]
        shares = table.reshape(domain.cells(separator), domain.cells(rest))
        drawn = _share_out(shares, cells=_flat(codes, separator, domain=domain, rows=rows), rng=rng)
        codes |= _unflat(drawn, rest, domain=domain)
    return codes


def _draw_codes(groups: Codes, grouping: Grouping, *, shares: Table, rng: np.random.Generator) -> Codes:
    """Return for every row a code of its group; only groups of several codes need a draw."""
    sizes = np.array([len(members) for members in grouping.members])
    codes = np.array([members[0] for members in grouping.members], dtype=_kind(len(shares)))[groups]
    here = np.flatnonzero(sizes[groups] > 1)
    here = here[np.argsort(groups[here], kind="stable")]
    ends = np.cumsum(np.bincount(groups[here], minlength=grouping.size))
    for members, start, end in zip(grouping.members, ends - np.diff(ends, prepend=0), ends, strict=True):
        if start < end:
            drawn = _share_out(shares[members][None, :], cells=np.zeros(end - start, np.uint8), rng=rng)
            codes[here[start:end]] = members.astype(codes.dtype)[drawn]
    return codes


def _share_out(shares: Table, *, cells: Codes, rng: np.random.Generator) -> Codes:
    """Return for every row, given its cell (a row of `shares`), a column of `shares` in proportion to them.

    In a cell with n rows, the points u, u + 1, …, u + n − 1 with one random offset u are dealt along the cumulated
    shares scaled to n, so a column of expectation x gets ⌊x⌋ or ⌈x⌉ rows; then they go to the rows at random.
    Where the share is exactly 0 no row is placed.
    """
    here = np.bincount(cells, minlength=len(shares))[:, None]
    bounds = np.cumsum(shares, axis=1)
    bounds /= bounds[:, -1:].copy()
    offsets = rng.random(len(shares))[:, None]
    # The whole is reached at the last share above 0, also where rounding would leave a point for those behind it.
    counts = np.where(bounds < 1, np.ceil(bounds * here - offsets), here).astype(np.int64)
    counts[:, 1:] -= counts[:, :-1].copy()
    dealt = np.repeat(
        np.tile(np.arange(shares.shape[1], dtype=_kind(shares.shape[1])), len(shares)), counts.ravel()
    )
    # Narrow integers halve the time spent waiting for memory.
    mixed = rng.permutation(len(cells)).astype(_kind(len(cells)), copy=False)
    order = mixed[np.argsort(cells[mixed], kind="stable")] if len(shares) > 1 else mixed
    drawn = np.empty_like(dealt)
    drawn[order] = dealt
    return drawn


def _flat(codes: Mapping[str, Codes], clique: Clique, *, domain: Domain, rows: int) -> Codes:
    """Return the number of each row's cell in the table over a clique."""
    kind = _kind(domain.cells(clique))
    flat = np.zeros(rows, dtype=kind)
    for name in clique:
        flat *= kind(domain[name])
        flat += codes[name].astype(kind, copy=False)
    return flat


def _unflat(cells: Codes, clique: Clique, *, domain: Domain) -> dict[str, Codes]:
    """Split cell numbers of a table over a clique into codes per column."""
    codes: dict[str, Codes] = {}
    for name in reversed(clique):
        if name == clique[0]:
            codes[name] = cells.astype(_kind(domain[name]), copy=False)
        else:
            cells, code = np.divmod(cells, cells.dtype.type(domain[name]))
            codes[name] = code.astype(_kind(domain[name]), copy=False)
    return codes


def _kind(size: int) -> type[np.unsignedinteger]:
    """Return the smallest type that holds codes 0 … size − 1 and size itself."""
    return next((kind for kind in (np.uint8, np.uint16, np.uint32) if size <= np.iinfo(kind).max), np.uint64)
