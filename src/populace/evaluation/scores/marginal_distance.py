"""Total variation between the marginals of two files, over all columns, all pairs, and triples.

Everything here is a function of arrays of codes: no file is read, and nothing is drawn but a fixed set of triples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from populace._native.kernels import count_columns
from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique, Domain
from populace.evaluation.scores.score import NORMAL_95, Direction, Score

CodeArrays = Mapping[str, npt.NDArray[Any]]
Pair = tuple[str, str]

# Tables of counts up to this many cells are kept whole; of larger ones only the cells that occur.
MAX_DENSE_CELLS = 2**22
# A whole table of so many cells for each row costs as much as sorting the rows.
CELLS_PER_ROW = 8
# All triples are compared as long as so many rows have to be counted; then a fixed set of them, drawn once.
MAX_TRIPLE_ROWS = 2**30
MAX_TRIPLES = 5000
# Exact integers: the number of rows of one file times that of the other.
MAX_PRODUCT = 2**62

SHARE_SCALE = "0 (the same shares) to 1 (no row in common), in total variation"
MARGINALS_BLIND = "dependence among more columns than its tables have, such as a parity of several columns"


def total_variation(real: npt.NDArray[Any], synthetic: npt.NDArray[Any]) -> float:
    """Return half the sum of absolute differences of shares, from two tables of counts: exact where they are whole.

    A file without rows has nothing in common with one that has some.

    >>> total_variation(np.array([1, 1, 2]), np.array([2, 0, 0]))
    0.75
    """
    rows, drawn = (each.sum().item() for each in (real, synthetic))
    if not rows or not drawn:
        return 0.0 if rows == drawn else 1.0
    if real.dtype.kind == synthetic.dtype.kind == "i" and rows * drawn < MAX_PRODUCT:
        apart = int(rows * drawn) - int(np.minimum(real * drawn, synthetic * rows).sum())
        return apart / int(rows * drawn)
    return 0.5 * float(np.abs(real / rows - synthetic / drawn).sum())


def column_total_variation(
    real: CodeArrays, synthetic: CodeArrays, domain: Domain, *, weights: Weights | None = None
) -> dict[str, float]:
    """Return the total variation of each column.

    >>> real, other = {"a": np.array([0, 0, 1])}, {"a": np.array([0, 1, 1])}
    >>> round(column_total_variation(real, other, Domain({"a": 2}))["a"], 4)
    0.3333
    """
    tables = {name: _tabulate((name,), real, synthetic, domain, weights) for name in domain}
    return {name: total_variation(*table) for name, table in tables.items()}


def pair_total_variation(
    real: CodeArrays, synthetic: CodeArrays, domain: Domain, *, weights: Weights | None = None
) -> dict[Pair, float]:
    """Return the total variation of every pair of columns.

    >>> real = {"a": np.array([0, 1]), "b": np.array([0, 1])}
    >>> other = {"a": np.array([0, 1]), "b": np.array([1, 0])}
    >>> pair_total_variation(real, other, Domain({"a": 2, "b": 2}))
    {('a', 'b'): 1.0}
    """
    tables = pair_tables(real, synthetic, domain, weights=weights)
    return {pair: total_variation(*table) for pair, *table in tables}


def pair_tables(
    real: CodeArrays, synthetic: CodeArrays, domain: Domain, *, weights: Weights | None = None
) -> Iterator[tuple[Pair, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Yield the counts of every pair in both files, as tables of two axes; very large ones flat, of occurring cells."""
    for first, second in combinations(domain, 2):
        yield (first, second), *_tabulate((first, second), real, synthetic, domain, weights)


def compare_pair(
    pair: Pair, real: CodeArrays, synthetic: CodeArrays, domain: Domain
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the counts of one pair in both files."""
    return _tabulate(pair, real, synthetic, domain, None)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the rows of both files."""

    real: Floats
    synthetic: Floats


def scale_to_rows(weights: Floats) -> Floats:
    """Return weights that are 1 on average; where none is above 0, rows weigh the same.

    >>> scale_to_rows(np.array([1.0, 3.0])).tolist()
    [0.5, 1.5]
    """
    total = float(weights.sum())
    scaled: Floats = weights * (len(weights) / total) if total else np.ones(len(weights))
    return scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class TripleDistances:
    """Total variation of triples, all of them or a fixed choice."""

    distances: Mapping[Clique, float]
    total: int

    @property
    def exhaustive(self) -> bool:
        """Whether all triples were compared."""
        return len(self.distances) == self.total


def choose_triples(names: Sequence[str], *, rows: int) -> list[Clique]:
    """Return all triples, or where there are too many a choice without replacement that never changes.

    >>> len(choose_triples("abcdef", rows=100)), len(choose_triples([str(i) for i in range(60)], rows=100))
    (20, 5000)
    """
    triples: list[Clique] = list(combinations(names, 3))
    most = min(MAX_TRIPLES, max(MAX_TRIPLE_ROWS // max(rows, 1), 1))
    if len(triples) <= most:
        return triples
    chosen = np.random.default_rng(0).choice(len(triples), size=most, replace=False)
    return [triples[place] for place in sorted(chosen.tolist())]


def triple_total_variation(
    real: CodeArrays, synthetic: CodeArrays, domain: Domain, *, weights: Weights | None = None
) -> TripleDistances:
    """Return the total variation of triples of columns, of all of them where that is feasible."""
    rows = sum(len(next(iter(each.values()))) for each in (real, synthetic)) if domain else 0
    found: dict[Clique, float] = {}
    pair: Pair | None = None
    for first, second, third in choose_triples(tuple(domain), rows=rows):
        if pair != (first, second):
            pair = first, second
            left, right, size = _join_pair(pair, real, synthetic, domain)
        columns = [(left, real[third]), (right, synthetic[third])]
        table = _count_both(columns, sizes=(size, domain[third]), weights=weights)
        found[first, second, third] = total_variation(*table)
    return TripleDistances(distances=found, total=math.comb(len(domain), 3))


def _join_pair(
    pair: Pair, real: CodeArrays, synthetic: CodeArrays, domain: Domain
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int]:
    """Return two columns as one, numbered by the combinations that occur in either file."""
    keys = [_cell_keys(each, pair, domain) for each in (real, synthetic)]
    cells = domain.cells(pair)
    if cells <= MAX_DENSE_CELLS:
        occurs = np.zeros(cells, dtype=np.bool_)
        for each in keys:
            occurs[each] = True
        numbers = (np.cumsum(occurs) - 1).astype(np.uint32)
        return numbers[keys[0]], numbers[keys[1]], max(int(occurs.sum()), 1)
    distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
    joined = places.astype(np.uint32)
    return joined[: len(keys[0])], joined[len(keys[0]) :], max(len(distinct), 1)


def _tabulate(
    clique: Clique, real: CodeArrays, synthetic: CodeArrays, domain: Domain, weights: Weights | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    columns = [tuple(each[name] for name in clique) for each in (real, synthetic)]
    return _count_both(columns, sizes=domain.shape(clique), weights=weights)


def sample_distances(
    pair: Pair, codes: CodeArrays, samples: Sequence[Ints], domain: Domain, *, weights: Floats | None = None
) -> list[float]:
    """Return the total variation of a pair between a file and each of some samples of its rows.

    Rows of the file count by their weights, those of samples all the same. The table of the file is made once.
    """
    columns, sizes = tuple(codes[name] for name in pair), domain.shape(pair)
    drawn = (tuple(column[places] for column in columns) for places in samples)
    if math.prod(sizes) > MAX_DENSE_CELLS:
        tables = (
            _count_both(
                [columns, each],
                sizes=sizes,
                weights=None if weights is None else Weights(weights, np.ones(len(each[0]))),
            )
            for each in drawn
        )
        return [total_variation(*table) for table in tables]
    real = (
        _count_dense(columns, sizes)
        if weights is None
        else np.bincount(_ravel(columns, sizes), weights=weights, minlength=math.prod(sizes)).reshape(sizes)
    )
    return [total_variation(real, _count_dense(each, sizes)) for each in drawn]


def _count_dense(columns: Sequence[npt.NDArray[Any]], sizes: tuple[int, ...]) -> npt.NDArray[Any]:
    return count_columns([_to_unsigned(column) for column in columns], sizes=sizes)


def _count_both(
    columns: Sequence[tuple[npt.NDArray[Any], ...]], *, sizes: tuple[int, ...], weights: Weights | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the tables of some columns of both files, in the same cells."""
    cells, rows = math.prod(sizes), len(columns[0][0]) + len(columns[1][0])
    whole = cells <= MAX_DENSE_CELLS and (len(sizes) < 3 or cells <= CELLS_PER_ROW * rows)
    if whole and weights is None:
        return _count_dense(columns[0], sizes), _count_dense(columns[1], sizes)
    held = (None, None) if weights is None else (weights.real, weights.synthetic)
    keys = [_ravel(each, sizes) for each in columns]
    if whole:
        first, second = (np.bincount(k, weights=w, minlength=cells) for k, w in zip(keys, held, strict=True))
        return first.reshape(sizes), second.reshape(sizes)
    distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
    parts = places[: len(keys[0])], places[len(keys[0]) :]
    first, second = (
        np.bincount(part, weights=w, minlength=len(distinct)) for part, w in zip(parts, held, strict=True)
    )
    return first, second


def _cell_keys(codes: CodeArrays, clique: Clique, domain: Domain) -> Ints:
    return _ravel([codes[name] for name in clique], domain.shape(clique))


def _ravel(columns: Sequence[npt.NDArray[Any]], sizes: Sequence[int]) -> Ints:
    keys = np.zeros(len(columns[0]), dtype=np.int64)
    for column, size in zip(columns, sizes, strict=True):
        keys = keys * size + column
    return keys


def _to_unsigned(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column if column.dtype.kind == "u" else column.astype(np.uint32)


def score_marginals(
    columns: Mapping[str, float], pairs: Mapping[Pair, float], triples: TripleDistances
) -> list[Score]:
    """Return the mean total variation of columns, pairs and triples, and NIST's k-marginal score of pairs.

    The k-marginal score is 1000 · (1 − mean of ½ Σ |p − q|) over marginals of k columns: 0 to 1000. Source: NIST's 2018
    and 2020 challenges; SDNist scores pairs. Here all pairs count, each once.
    """
    found = [_mean_score("tv_columns", "Columns: mean total variation", columns.values())]
    if pairs:
        found.append(_mean_score("tv_pairs", "Pairs: mean total variation", pairs.values()))
        found.append(score_k_marginal(list(pairs.values())))
    if triples.distances:
        found.append(_score_triples(triples))
    return found


def score_k_marginal(distances: Sequence[float]) -> Score:
    """Return the k-marginal score of some total variations.

    >>> score_k_marginal([0.0, 0.25]).value
    875.0
    """
    return Score(
        name="k_marginal",
        title="k-marginal score of pairs (NIST)",
        value=1000 * (1 - math.fsum(distances) / len(distances)),
        direction=Direction.HIGHER,
        scale="0 (no row in common) to 1000 (the same shares in every pair)",
        blind_to=MARGINALS_BLIND,
    )


def _score_triples(triples: TripleDistances) -> Score:
    values = np.array(list(triples.distances.values()))
    score = _mean_score("tv_triples", "Triples: mean total variation", values.tolist())
    if triples.exhaustive:
        return score
    left = 1 - len(values) / triples.total
    margin = NORMAL_95 * float(values.std(ddof=1)) * math.sqrt(left / len(values))
    return Score(
        name=score.name,
        title=score.title,
        value=score.value,
        direction=score.direction,
        scale=score.scale,
        blind_to=score.blind_to,
        interval=(max(score.value - margin, 0.0), min(score.value + margin, 1.0)),
        interval_of="95 %, for the mean of all triples",
        note=f"{len(values)} of {triples.total} triples, a fixed choice without replacement",
    )


def _mean_score(name: str, title: str, distances: Any) -> Score:
    values = list(distances)
    return Score(
        name=name,
        title=title,
        value=math.fsum(values) / len(values),
        direction=Direction.LOWER,
        scale=SHARE_SCALE,
        blind_to=MARGINALS_BLIND,
    )
