"""The digests of a release in the ledger that paid for it, booked before the folder appears."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from populace.core.errors import NotBooked, ReleaseError
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.manifest import MANIFEST_FILE, Manifest, digest_file


def choose_booking_ledger(given: str | Path | None, *, paid: Path | None) -> Path | None:
    """Return where a release is booked: in the ledger that is given, or else in the one that paid if it is there."""
    if given is not None:
        return Path(given)
    if paid is not None and not os.path.lexists(paid):
        warnings.warn(
            f"the ledger {paid} that paid for this release is gone: the digests of its files are booked nowhere",
            NotBooked,
            stacklevel=3,
        )
        return None
    return paid


def book_digests(folder: Path, *, manifest: Manifest, record: RunRecord, ledger: Path) -> None:
    """Book the digests of a folder whose files are all on disk, before it takes its real name.

    Its record must be the ledger's. That its counts and its model are those of the run, nobody can check here: what is
    booked is what the holder of the ledger gives.
    """
    books = Ledger.existing(ledger)
    if books.record(record.run) != record:
        raise ReleaseError(
            f"{ledger} has another record of this run: nothing is booked.",
            hint="give the measurements that the run wrote, unaltered",
        )
    books.book_release(record.run, manifest=digest_file(folder / MANIFEST_FILE), files=dict(manifest.files))
