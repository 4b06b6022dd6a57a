"""Who is protected, and which two tables count as neighbours."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS


class Neighbours(Enum):
    """The relation between two tables that the guarantee must hide."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    REPLACE_WITHIN = "replace-within-invariants"
    """One unit replaced by another in the same cell of the exact totals. Proof: docs/proofs/invariants.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyUnit:
    """The protected unit: its name, how many rows it may have, and the column that identifies it.

    `within` is the finest level of a geography whose totals are published exactly; "all" is the whole table.
    `frequency` is the column that says for how many units a row stands, where that is not one.

    >>> PrivacyUnit(name="person").marginal_l2_squared
    1
    >>> PrivacyUnit(rows=3, id="household", neighbours=Neighbours.REPLACE_ONE).marginal_l1
    6
    >>> PrivacyUnit(name="person", neighbours=Neighbours.REPLACE_WITHIN, within="county").marginal_l2_squared
    2
    """

    name: str = "row"
    rows: int = 1
    id: str | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    within: str | None = None
    frequency: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= LIMITS.max_rows_per_unit:
            raise SchemaError(
                f"rows_per_unit is {self.rows}.",
                hint=f"give a whole number of 1 or more, at most {LIMITS.max_rows_per_unit}",
            )
        if self.rows > 1 and self.id is None:
            raise SchemaError(
                f"rows_per_unit is {self.rows} but no id column says which rows belong together.",
                hint='add id = "column" under [table]',
            )
        self._check_within()

    def _check_within(self) -> None:
        """Refuse exact totals without the relation that they need, and the relation without exact totals."""
        if (self.neighbours is Neighbours.REPLACE_WITHIN) is (self.within is None) or self.within == "":
            raise SchemaError(
                f"neighbours is {self.neighbours.value!r}, and exact totals are "
                + (f"by {self.within!r}." if self.within else "none."),
                hint="the relation follows from the exact totals: declare these with [[invariants]], and leave out "
                "neighbours",
            )
        if self.within and self.rows > 1:
            raise SchemaError(
                f"a {self.name} has up to {self.rows} rows, which may lie in several units of {self.within!r}.",
                hint="exact totals count units that have one row each: leave out rows_per_unit, or [[invariants]]",
            )

    @property
    def word(self) -> str:
        """What promises call it: an id tells units apart that are no rows, though nobody may have named them.

        >>> PrivacyUnit(rows=2, id="who").word, PrivacyUnit(rows=2, id="who", name="person").word, PrivacyUnit().word
        ('unit', 'person', 'row')
        """
        return "unit" if self.id is not None and self.name == "row" else self.name

    @property
    def marginal_l1(self) -> int:
        """How far one unit can move the counts of one marginal, in L1.

        r rows appear or vanish; where a unit is replaced, as many appear elsewhere.
        """
        return self.rows * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)

    @property
    def marginal_l2_squared(self) -> int:
        """The square of how far one unit can move the counts of one marginal, in L2.

        All r rows may share one cell: r². Where a unit is replaced they leave one cell and enter another: 2r².
        """
        return self.rows**2 * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)

    @property
    def score_shift(self) -> int:
        """How far one unit can move the L1 distance between one marginal and a public estimate."""
        return self.marginal_l1


def check_frequency(
    frequency: str | None, *, columns: Collection[str], unit: PrivacyUnit, learnt: Collection[str]
) -> None:
    """Refuse what cannot stand beside a column that says for how many units a row stands."""
    beside = {
        f"the column {frequency!r} to release": frequency in columns,
        "an id": unit.id is not None,
        "columns whose domain is learnt": bool(learnt),
    }
    strange = [word for word, there in beside.items() if there]
    if frequency is not None and strange:
        raise SchemaError(
            f"frequency = {frequency!r} stands beside {strange[0]}.",
            hint="a row that stands for n units has no id and only declared columns, and n is no column of its own",
        )
