"""Exact totals in the ledger: which ones a run may publish, and which ones it did.

An exact total costs nothing under a relation whose neighbours agree on it, and voids every other promise. So a run says
before it starts which totals it may publish, and an account is for one partition into units whose totals are exact.
Proof: docs/proofs/invariants.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from populace.core.errors import LedgerError, SchemaError, UsageError
from populace.core.spine import ROOT
from populace.privacy.accounting.spend_record import refuse_unknown_fields
from populace.privacy.ledger.hash_chain import canonical_json
from populace.schema.geocodes import GEOCODE
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit


@dataclass(frozen=True, slots=True)
class ExactTotals:
    """The levels whose totals a run may publish exactly, widest first, and a digest of the units of the last of them.

    Levels of the same name may divide people otherwise: only the units themselves, in their order and by the columns
    that name them, say which tables are neighbours.
    """

    levels: tuple[str, ...]
    partition: str

    @classmethod
    def of(cls, schema: Schema) -> ExactTotals | None:
        """Return the exact totals that a schema declares, or None where it declares none."""
        within, geography = schema.unit.within, schema.geography
        if within is None and not schema.invariants:
            return None
        if within is None or schema.invariants[-1:] != (within,):
            raise SchemaError(
                f"exact totals are declared by {list(schema.invariants)}, and the relation is within {within!r}.",
                hint="let neighbours agree on the totals of the finest level that is declared",
            )
        if geography is None:
            if within != ROOT:
                raise SchemaError(
                    f"exact totals by {within!r} need a geography.",
                    hint="declare its levels with [geography]",
                )
            return cls(
                levels=schema.invariants,
                partition=_digest_units((), (), rules="", schema=schema),
            )
        places = [geography.find_level(level, place="[[invariants]]") for level in schema.invariants]
        if places != sorted(set(places)):
            raise SchemaError(
                f"exact totals are declared by {list(schema.invariants)}.",
                hint="name each level once, the widest first",
            )
        last = places[-1]
        above = [geography.unit_ids(level, of_level=last) for level in range(1, last + 1)]
        paths = tuple(zip(*above, strict=True))
        # Rules may move a row that breaks them to another unit. Then the whole schema says which unit a row lies in.
        moved = last > 0 and any(GEOCODE in rule.clique for rule in schema.rules.rules)
        rules = schema.declared.digest if moved else ""
        return cls(
            levels=schema.invariants,
            partition=_digest_units(geography.levels[:last], paths, rules=rules, schema=schema),
        )

    def to_json(self) -> dict[str, Any]:
        """Return both as plain JSON."""
        return {"levels": list(self.levels), "partition": self.partition}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExactTotals:
        """Return what `to_json` wrote."""
        refuse_unknown_fields(data, known=("levels", "partition"))
        if not isinstance(data["levels"], list):
            raise TypeError("no list of levels")
        return cls(levels=tuple(map(str, data["levels"])), partition=str(data["partition"]))


@dataclass(frozen=True, slots=True)
class PublishedTotals:
    """Exact totals that a run published: the level, and what is counted in words."""

    level: str
    what: str

    def to_json(self) -> dict[str, str]:
        """Return the body of the event that books them."""
        return {"level": self.level, "what": self.what}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PublishedTotals:
        """Return the totals that the body of an event tells; a field that this version does not know is refused."""
        refuse_unknown_fields(data, known=("level", "what"))
        if not isinstance(data["level"], str) or not isinstance(data["what"], str):
            raise TypeError("no text")
        return cls(level=data["level"], what=data["what"])


def check_declared(exact: ExactTotals | None, *, unit: PrivacyUnit) -> None:
    """Refuse a run whose neighbours do not agree on the totals that it may publish, or agree on others."""
    levels = () if exact is None else exact.levels
    if unit.within is None and exact is not None:
        raise UsageError(
            f"exact totals by {', '.join(levels)} would void a promise for {unit.neighbours.value} neighbours.",
            hint="let neighbours agree on the totals: replace-within-invariants",
        )
    if unit.within is not None and (levels[-1:] != (unit.within,) or len(set(levels)) < len(levels)):
        raise UsageError(
            f"neighbours agree on the totals of every {unit.within}, and the run does not say how these are counted.",
            hint=f"reserve with exact totals whose last level is {unit.within!r}",
        )


def check_published(totals: PublishedTotals, *, exact: ExactTotals | None, run: str) -> None:
    """Refuse exact totals that the run did not declare before it started: neighbours may differ in them."""
    if exact is None or totals.level not in exact.levels:
        allowed = "none" if exact is None else ", ".join(exact.levels)
        raise LedgerError(
            f"run {run} publishes exact totals by {totals.level!r}; it declared {allowed}.",
            hint="exact totals change who is a neighbour: declare them in the schema before the run",
        )


def _digest_units(
    levels: tuple[str, ...], paths: tuple[tuple[str, ...], ...], *, rules: str, schema: Schema
) -> str:
    """Return a digest of what decides which totals are exact: the units, and what is counted in them.

    Files of one id may hold different people: of linked tables those with a row of units are counted, of a file by
    itself those with a row in it. Its columns tell which file it is. The number in the digest changes whenever a row
    may be counted in another unit than before.
    """
    linked, counted = schema.linked, None
    if linked is not None:
        counted = [linked.units, linked.unit_key]
    elif schema.unit.id is not None:
        counted = sorted(schema.declared.columns)
    form = canonical_json(["populace partition 2", levels, paths, rules, schema.frequency, counted])
    return hashlib.sha256(form.encode()).hexdigest()
