"""Hot-deck imputation from donors of limited use, and how far one row moves a sum over filled rows.

A row has a place (its codes in public matching columns) and a label. At each place labels lie on a circle. An
incomplete row waits for the next complete row of its place; of those that wait for it, a complete row serves the
`max_uses` nearest before it, and the others stay incomplete. So a complete row that comes or leaves changes what at
most `max_uses` other rows hold, an incomplete one at most 1, whatever the table: sums over filled rows have a public
sensitivity, and need no smooth bound. Proof: docs/proofs/donor-limit.md
"""

from __future__ import annotations

import numpy as np

from populace.core.array_types import Ints
from populace.core.errors import UsageError
from populace.privacy.sensitivity.nn_imputation import MatchedRows


def assign_donors(complete: MatchedRows, *, incomplete: MatchedRows, max_uses: int) -> Ints:
    """Return which complete row each incomplete row takes its value from; −1 where it stays incomplete.

    >>> rows = lambda *labels: MatchedRows(
    ...     places=np.zeros(len(labels), int), labels=np.array(labels), values=np.zeros(len(labels))
    ... )
    >>> assign_donors(rows(4, 7), incomplete=rows(1, 2, 3, 6, 9), max_uses=3).tolist()
    [0, 0, 0, 1, -1]
    """
    places = np.concatenate([complete.places, incomplete.places])
    order = np.lexsort((np.concatenate([complete.labels, incomplete.labels]), places))
    places, count = places[order], len(complete.places)
    found = np.full(len(incomplete.places), -1, dtype=np.int64)
    donors, waiting = np.flatnonzero(order < count), np.flatnonzero(order >= count)
    if not len(donors) or not len(waiting):
        return found
    # The place of each waiting row goes from `start` to before `end`.
    start, end = (np.searchsorted(places, places[waiting], side=side) for side in ("left", "right"))
    ahead, around = (np.append(donors, len(order))[np.searchsorted(donors, at)] for at in (waiting, start))
    direct = ahead < end
    donor = np.where(direct, ahead, around)
    # Only incomplete rows lie between a row and its donor, so the distance is its rank among those that wait.
    rank = np.where(direct, ahead - waiting, end - waiting + around - start)
    served = (donor < end) & (rank <= max_uses)
    found[order[waiting[served]] - count] = order[donor[served]]
    return found


def sensitivity_factor(max_uses: int, *, moved: int) -> int:
    """Return how many times the most that one row adds a sum over filled rows moves by, when one row comes or leaves.

    `moved` is by how many times that most one row moves the sum when its filled value changes: 1 where it stays in its
    cell and adds numbers of one sign, 2 otherwise.

    >>> sensitivity_factor(2, moved=2)
    5
    """
    if max_uses < 1 or moved not in (1, 2):
        raise UsageError(
            f"donors are used {max_uses} times at most.", hint="give a whole number of 1 or more as max_uses"
        )
    return 1 + moved * max_uses
