"""The matrices of the dense filter: covariances of messages over the possible cells, by the form of the subtree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique, Marginal, cell_indices
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan

# Numbers in matrices that are worked on at once: 32 MiB.
_MAX_CHUNK_NUMBERS = 2**22
# Sums of cells that follow from others are told from those that do not.
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelMatrices:
    """The matrices of a level: units whose subtrees have one form share them, and `form_of` says which are a unit's.

    `message` is v, the covariance of messages; `child_inverse` is W⁺, the inverse of the sum of the children's (none
    in smallest units); `to_exact` is how a message moves with the counts that are known exactly and new at this level.
    """

    form_of: Ints
    message: Floats
    child_inverse: Floats
    to_exact: Floats


def possible_cells(plan: HierarchyPlan) -> Ints:
    """Return the cells that records can be in."""
    return np.arange(plan.cells) if plan.possible is None else np.flatnonzero(plan.possible)


def query_places(plan: HierarchyPlan, *, marginal: Marginal) -> Ints:
    """Return the cell of a query that each possible cell is summed into."""
    kept = np.unravel_index(possible_cells(plan), plan.shape)
    return cell_indices(marginal, codes=dict(zip(plan.columns, kept, strict=True)), domain=plan.domain)


def find_forms(plan: HierarchyPlan) -> tuple[Ints, ...]:
    """Return for each level the form of its units: equal where subtrees are, up to the order of children.

    >>> from populace.core.marginals import Domain
    >>> from populace.core.spine import Spine
    >>> from populace.inference.hierarchy.hierarchy_plan import LevelQueries, MeasuredQuery
    >>> detailed = MeasuredQuery(marginal=Marginal(("x",)), variance=1)
    >>> plan = HierarchyPlan(
    ...     spine=Spine(
    ...         ("all", "a", "b", "c"), tuple(map(np.array, ([0, 0], [0, 0, 1, 1], [0, 1, 1, 2, 2, 3])))
    ...     ),
    ...     domain=Domain({"x": 2}),
    ...     levels=(*[LevelQueries()] * 3, LevelQueries(queries=(detailed,))),
    ... )
    >>> [form_of.tolist() for form_of in find_forms(plan)]
    [[0], [0, 0], [0, 1, 1, 0], [0, 0, 0, 0, 0, 0]]
    """
    found = [np.zeros(plan.spine.leaves, dtype=np.int64)]
    for level in reversed(range(plan.spine.depth - 1)):
        offsets = plan.child_offsets[level]
        ordered = found[-1][np.lexsort((found[-1], plan.spine.parents[level]))]
        known: dict[bytes, int] = {}
        bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        form_of = [known.setdefault(ordered[begin:end].tobytes(), len(known)) for begin, end in bounds]
        found.append(np.array(form_of, dtype=np.int64))
    return tuple(found[::-1])


def count_matrix_bytes(plan: HierarchyPlan) -> int:
    """Return the memory that `build_matrices` needs: two matrices for each form."""
    forms = sum(int(form_of.max()) + 1 for form_of in find_forms(plan))
    return 2 * 8 * forms * len(possible_cells(plan)) ** 2


def build_precision(plan: HierarchyPlan) -> Floats:
    """Return Λ = Σ QᵀQ/σ² of every level, over the possible cells."""
    cells = len(possible_cells(plan))
    found = np.zeros((plan.spine.depth, cells, cells))
    for own, measured in zip(found, plan.levels, strict=True):
        for query in measured.queries:
            places = query_places(plan, marginal=query.marginal)
            own += np.equal.outer(places, places) / float(query.variance)
    return found


def build_matrices(plan: HierarchyPlan, *, precision: Floats) -> tuple[LevelMatrices, ...]:
    """Return the matrices of every level, from the smallest units up.

    v = Λ⁻¹ in smallest units and (I + WΛ)⁻¹W above. Where something is known exactly, Cx = T, and does not follow from
    what is known below, v is conditioned on it: with K = vCᵀ(CvCᵀ)⁺ it becomes v − KCv, singular along Cᵀ, and so do
    all above. For a total C is 1ᵀ.
    """
    cells = precision.shape[-1]
    found: list[LevelMatrices] = []
    for level, form_of in reversed(list(enumerate(find_forms(plan)))):
        if found:
            first = np.unique(form_of, return_index=True)[1]
            inverses, message = np.empty((2, len(first), cells, cells))
            for chunk in chunk_units(len(first), cells=cells):
                sums = _sum_children(plan, found[-1], level=level, units=first[chunk])
                inverses[chunk] = _invert(sums, known=known_directions(plan, level=level + 1))
                message[chunk] = np.linalg.solve(np.eye(cells) + sums @ precision[level], sums)
        else:
            inverses = np.zeros((0, cells, cells))
            message = np.linalg.inv(precision[-1])[None]
        message += message.transpose(0, 2, 1).copy()
        message /= 2
        new = plan.new_exact(level)
        sums_of = exact_rows(plan, new)
        to_exact = np.zeros((*message.shape[:2], len(sums_of)))
        if new == ((),):
            rows = message.sum(axis=1)
            to_exact = (rows / rows.sum(axis=1, keepdims=True))[:, :, None]
            message -= to_exact * rows[:, None, :]
        elif len(sums_of):
            rows = sums_of @ message
            to_exact = rows.transpose(0, 2, 1) @ _invert_new(rows @ sums_of.T, message)
            message -= to_exact @ rows
        found.append(
            LevelMatrices(form_of=form_of, message=message, child_inverse=inverses, to_exact=to_exact)
        )
    return tuple(found[::-1])


def chunk_units(count: int, *, cells: int) -> Iterator[slice]:
    """Yield runs of units so short that a matrix for each can be held.

    >>> list(chunk_units(5, cells=1024))
    [slice(0, 4, None), slice(4, 5, None)]
    """
    step = max(1, _MAX_CHUNK_NUMBERS // cells**2)
    for begin in range(0, count, step):
        yield slice(begin, min(count, begin + step))


def _sum_children(plan: HierarchyPlan, below: LevelMatrices, *, level: int, units: Ints) -> Floats:
    """Return W = Σ v over the children of some units of a level."""
    offsets = plan.child_offsets[level]
    found = np.empty((len(units), *below.message.shape[1:]))
    for place, unit in enumerate(units.tolist()):
        forms, counts = np.unique(below.form_of[offsets[unit] : offsets[unit + 1]], return_counts=True)
        found[place] = np.tensordot(counts.astype(np.float64), below.message[forms], axes=1)
    return found


def _invert_new(variances: Floats, message: Floats) -> Floats:
    """Return the inverses of CvCᵀ on what is not known already, where it is as good as 0 beside v."""
    values, vectors = np.linalg.eigh(variances)
    least = _RANK_TOLERANCE * np.trace(message, axis1=1, axis2=2)[:, None]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > least)
    return np.asarray((vectors * inverse[:, None, :]) @ vectors.transpose(0, 2, 1))


def exact_rows(plan: HierarchyPlan, cliques: Sequence[Clique]) -> Floats:
    """Return the matrix that sums the possible cells into those of some marginals, one below the other."""
    cells = len(possible_cells(plan))
    rows = [
        np.equal.outer(np.arange(plan.domain.cells(clique)), query_places(plan, marginal=Marginal(clique)))
        for clique in cliques
    ]
    return np.concatenate(rows).astype(np.float64) if rows else np.zeros((0, cells))


def known_directions(plan: HierarchyPlan, *, level: int) -> Floats | None:
    """Return n times the projector on the sums of cells that are known exactly at a level or below; None for none."""
    cliques = {clique for deeper in plan.levels[level:] for clique in deeper.exact}
    if not cliques:
        return None
    cells = len(possible_cells(plan))
    if cliques == {()}:
        return np.ones((cells, cells))
    rows = exact_rows(plan, sorted(cliques))
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    kept = basis[sizes > _RANK_TOLERANCE * sizes[0]]
    return np.asarray(cells * kept.T @ kept)


def _invert(sums: Floats, *, known: Floats | None) -> Floats:
    """Return inverses; where something is known exactly, on the directions that leave it as it is.

    There WP = 0 with the projector P on what is known, so (W + s·P)⁻¹ is W⁺ + P/s for any s > 0, and what it is
    applied to has no part along P.
    """
    cells = sums.shape[-1]
    if known is not None:
        # One of the size of the rest keeps digits.
        scale = np.trace(sums, axis1=1, axis2=2) / cells**2
        sums = sums + np.where(scale > 0, scale, 1.0)[:, None, None] * known
    return np.linalg.inv(sums).astype(np.float64)
