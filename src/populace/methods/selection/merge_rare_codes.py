"""Domain compression: codes whose noisy count is lost in the noise share a group."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.marginals import Grouping, Lookup
from populace.measurements.measurements import Measurement
from populace.methods.oracle import Oracle

RARE_THRESHOLD = 3.0


def merge_rare_codes(
    columns: Iterable[Measurement], *, ordered: Collection[str], classes: Mapping[str, Grouping]
) -> tuple[Grouping, ...]:
    """Return a grouping for every measured column that has rare codes: counted below three standard deviations.

    Columns in their natural order merge neighbours; in others all rare codes share one group. Codes of different
    `classes` never share a group, so that rules, which are stated over classes, can be stated over groups.
    It is a function of noisy counts over a public domain, so it costs nothing more.
    Source: McKenna, Miklau and Sheldon 2021, section 3.2; merging neighbours is ours.
    """
    found = []
    for item in columns:
        name = item.marginal.clique[0]
        kinds = classes[name].lookup if name in classes else np.zeros(item.counts.shape, dtype=np.int64)
        groups = merge_neighbours(item, kinds) if name in ordered else merge_into_rest(item, kinds)
        if max(groups) + 1 < len(groups):
            found.append(Grouping(name, tuple(groups)))
    return tuple(found)


def group_rare_codes(columns: Iterable[Measurement], *, oracle: Oracle) -> tuple[Grouping, ...]:
    """Return the groups of rare codes of a run's columns, those that public totals count left as they are.

    Public totals count codes, so codes that they tell apart stay apart.
    """
    counted = {name for totals in oracle.schema.totals for name in totals.clique}
    return merge_rare_codes(
        [item for item in columns if item.marginal.clique[0] not in counted],
        ordered=oracle.ordered,
        classes=oracle.schema.rules.classes,
    )


def merge_into_rest(column: Measurement, classes: Lookup, *, threshold: float = RARE_THRESHOLD) -> list[int]:
    """Return groups in which frequent codes keep one of their own, in order, and the rare ones of a class share one.

    Codes are frequent from so many deviations of the noise on.

    >>> from fractions import Fraction
    >>> from populace.core.marginals import Marginal
    >>> merge_into_rest(Measurement(Marginal(("city",)), np.array([1, 50, -2, 40]), Fraction(4)), np.zeros(4, int))
    [2, 0, 2, 1]
    """
    return merge_infrequent(column.counts >= threshold * math.sqrt(column.variance), classes)


def merge_infrequent(frequent: npt.NDArray[np.bool_], classes: Lookup) -> list[int]:
    """Return groups in which some codes keep one of their own, in order, and the other ones of a class share one."""
    own = np.cumsum(frequent) - 1
    _, shared = np.unique(np.where(frequent, -1, classes), return_inverse=True)
    behind = frequent.sum() - (1 if frequent.any() else 0)
    return [int(group) for group in np.where(frequent, own, behind + shared.reshape(-1))]


def merge_neighbours(column: Measurement, classes: Lookup, *, threshold: float = RARE_THRESHOLD) -> list[int]:
    """Return groups of neighbouring codes of one class, each frequent as a whole where the class has so many rows.

    In every run of codes of one class, rare codes gather from left to right until their sum stands out of its noise;
    what has not when a frequent code comes joins the group before it, or that code if there is none before.

    >>> from fractions import Fraction
    >>> from populace.core.marginals import Marginal
    >>> age = Measurement(Marginal(("age",)), np.array([1, 50, 5, 5, 40, 2, 0]), Fraction(4))
    >>> merge_neighbours(age, np.zeros(7, int)), merge_neighbours(age, np.array([0, 1, 1, 1, 1, 1, 2]))
    ([0, 0, 1, 1, 2, 2, 2], [0, 1, 2, 2, 3, 3, 4])
    """
    least = threshold * math.sqrt(column.variance)
    groups: list[int] = []
    for run in np.split(column.counts, np.flatnonzero(np.diff(classes)) + 1):
        first = groups[-1] + 1 if groups else 0
        groups += [first + group for group in _gather_neighbours(run.tolist(), least=least)]
    return groups


def _gather_neighbours(counts: Sequence[int], *, least: float) -> list[int]:
    groups: list[int] = []
    group, gathered, codes = 0, 0, 0
    for count in counts:
        if codes and count >= least and group > 0:
            groups[-codes:] = [group - 1] * codes
            gathered, codes = 0, 0
        groups.append(group)
        gathered, codes = gathered + count, codes + 1
        if gathered >= least * math.sqrt(codes):
            group, gathered, codes = group + 1, 0, 0
    if codes and group > 0:
        groups[-codes:] = [group - 1] * codes
    return groups


def merge_to_few(groups: Lookup, rows: Floats, *, most: int, ordered: bool) -> list[int]:
    """Return coarser groups, at most so many: the two that have fewest rows together become one, again and again.

    Groups of an ordered column merge with a neighbour. `rows` counts those in each code.

    >>> merge_to_few(np.array([0, 1, 2, 3, 4]), np.array([9.0, 1.0, 2.0, 8.0, 1.0]), most=3, ordered=True)
    [0, 1, 1, 2, 2]
    >>> merge_to_few(np.array([0, 1, 2, 3, 4]), np.array([9.0, 1.0, 2.0, 8.0, 1.0]), most=3, ordered=False)
    [0, 2, 2, 1, 2]
    """
    members = [np.flatnonzero(groups == group).tolist() for group in dict.fromkeys(groups.tolist())]
    counts = [float(rows[codes].sum()) for codes in members]
    while len(members) > max(most, 1):
        if ordered:
            kept = min(range(len(members) - 1), key=lambda at: counts[at] + counts[at + 1])
            gone = kept + 1
        else:
            gone, kept = sorted(range(len(members)), key=counts.__getitem__)[:2]
        members[kept] += members[gone]
        counts[kept] += counts[gone]
        del members[gone], counts[gone]
    found = np.empty(len(groups), dtype=np.int64)
    for number, codes in enumerate(members):
        found[codes] = number
    return [int(number) for number in found]
