"""What a run knows besides its measurements while its process lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What only the process that measured knows; it is never saved.

    The library of the frame that came in, the file format that goes with the input, and the ledger that paid.
    """

    library: str = "pyarrow"
    table_format: str = "csv"
    ledger: Path | None = None
