"""A tiny geography for tests: two counties, three tracts, and tables whose totals by county are exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from populace.privacy.ledger.exact_totals import ExactTotals
from populace.privacy.ledger.ledger import Ledger, Run
from populace.privacy.ledger.run_record import Adaptivity
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit

GEOGRAPHY = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
OTHER_GEOGRAPHY = Geography.of_paths([("A", "1"), ("B", "2"), ("B", "1")], levels=("county", "tract"))
# The tract of every row, and another column.
ROWS = ((0, 1), (1, 0), (1, 1), (2, 0))


def make_schema(*, invariants=("all", "county"), geography=GEOGRAPHY, unit=None) -> Schema:
    """A schema of a geocode and one column. A unit and an order of levels that no schema can have are forged."""
    schema = Schema(
        columns=Schema.from_sizes({"sex": 2}).columns,
        unit=PrivacyUnit(name="person"),
        geography=geography,
        invariants=tuple(invariants),
    )
    object.__setattr__(schema, "invariants", tuple(invariants))
    object.__setattr__(schema, "unit", unit or schema.unit)
    return schema


def make_table(schema: Schema, rows=ROWS, *, engine=MemoryEngine) -> PrivateTable:
    codes = dict(zip((GEOCODE, "sex"), np.array(rows, np.uint8).reshape(-1, 2).T, strict=True))
    return PrivateTable(lambda: engine(codes, domain=schema.domain), schema=schema)


def reserve(
    ledger: Ledger | Path,
    schema: Schema,
    *,
    epsilon="1",
    delta="1e-6",
    plan=Adaptivity.FIXED,
    rehearsal=True,
    **more,
) -> Run:
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    return opened.reserve(
        "counted",
        epsilon=epsilon,
        delta=delta,
        unit=schema.unit,
        method="topdown",
        schema_digest=schema.digest,
        rehearsal=rehearsal,
        plan=plan,
        **({} if "exact" in more else {"exact": ExactTotals.of(schema)}),
        **more,
    )
