"""Verification against the ledger that paid for a release, which has its record and the digests of its files."""

from __future__ import annotations

from pathlib import Path

from populace.core.untrusted_files import altered_error
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.manifest import MANIFEST_FILE, Manifest, digest_file
from populace.release.verify.checks import CheckOutcome, CheckResult, run_check


def check_booked(folder: Path, manifest: Manifest, *, record: RunRecord, ledger: Ledger) -> CheckResult:
    """Compare a run's record with the ledger's, and a folder with what the ledger has booked for the run."""
    found = run_check("ledger", lambda: _compare_record(record, ledger=ledger))
    if not found.passed:
        return found
    booked = ledger.releases(record.run)
    if not booked:
        return CheckResult(
            name="ledger",
            outcome=CheckOutcome.UNKNOWN,
            detail="the run is the ledger's, which has no release of it booked",
        )
    return run_check("ledger", lambda: _compare_files(folder, manifest, booked=[b.to_json() for b in booked]))


def _compare_record(record: RunRecord, *, ledger: Ledger) -> str:
    if ledger.record(record.run) != record:
        raise altered_error("the ledger has another record of the run, from which another statement follows")
    return "the record is the ledger's"


def _compare_files(folder: Path, manifest: Manifest, *, booked: list[dict[str, object]]) -> str:
    found = {"manifest": digest_file(folder / MANIFEST_FILE), "files": dict(manifest.files)}
    if found not in booked:
        raise altered_error("it is none of the releases that the ledger has booked for the run")
    return "the record, the manifest and every file are as the ledger has them"
