"""Keys that a unit may hold, neighbours over them, and the price of telling them: for the exact laws of telling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from populace.privacy.accounting.mechanisms import PartitionSelection, Spend
from populace.schema.unit import Neighbours, PrivacyUnit

UNITS = {
    "a row": PrivacyUnit(),
    "three rows": PrivacyUnit(rows=3, id="p"),
    "a row replaced": PrivacyUnit(neighbours=Neighbours.REPLACE_ONE),
    "three rows replaced": PrivacyUnit(rows=3, id="p", neighbours=Neighbours.REPLACE_ONE),
}


def held(rows: int, keys: Sequence[str]) -> Iterator[Counter[str]]:
    """Yield what one unit may hold: every multiset of at most so many rows."""
    for size in range(rows + 1):
        for some in combinations_with_replacement(keys, size):
            yield Counter(some)


def neighbours(
    unit: PrivacyUnit, base: Counter[str], keys: Sequence[str]
) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Yield all pairs of tables that differ in one unit beside the rows of others."""
    for mine in held(unit.rows, keys):
        if unit.neighbours is Neighbours.ADD_REMOVE:
            yield base + mine, base
            yield base, base + mine
        else:
            for theirs in held(unit.rows, keys):
                yield base + mine, base + theirs


def telling(mechanism: PartitionSelection, unit: PrivacyUnit) -> Spend:
    """Return the spend of telling the keys of a column."""
    return Spend(
        verb="discover",
        what="values",
        mechanism=mechanism,
        answers=1,
        l1=unit.marginal_l1,
        l2_squared=unit.marginal_l2_squared,
    )
