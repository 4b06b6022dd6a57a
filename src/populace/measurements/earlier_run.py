"""A run of an earlier release whose tables stand beside those of a later one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from populace.core.untrusted_files import require_int
from populace.privacy.accounting.spend_record import refuse_unknown_fields
from populace.privacy.ledger.release_record import check_digest
from populace.privacy.ledger.run_record import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """What the ledger says of the run, the digest of the release that held its tables, and how many these are."""

    record: RunRecord
    release: str
    tables: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"record": self.record.to_json(), "release": self.release, "tables": self.tables}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EarlierRun:
        """Return what `to_json` wrote; anything else is refused."""
        refuse_unknown_fields(data, known=("record", "release", "tables"))
        tables = require_int(data["tables"])
        if tables < 1:
            raise ValueError("a run without tables")
        return cls(
            record=RunRecord.from_json(data["record"]), release=check_digest(data["release"]), tables=tables
        )
