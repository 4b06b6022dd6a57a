"""Which account pays for a run, and the budget that it reserves there before a row is read."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

from populace.core.errors import OverBudget, UsageError
from populace.core.run_state import Booking, forget_booking, track_booking
from populace.privacy.ledger.ledger import Ledger, Run, default_ledger_path
from populace.privacy.ledger.run_record import Adaptivity, PublicTable
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise, NoiseSource, is_secret
from populace.private.capacity import check_free_memory
from populace.schema.schema import Schema

# A digest, or a key of git-annex, which also gives the size of the file.
_CONTENT_ADDRESS = re.compile(r"[0-9a-fA-F]{16}|^[A-Z0-9_]+(-[a-zA-Z][0-9]+)+--")


def as_schema(schema: Schema | Path | str) -> Schema:
    """Return a schema as it is, or load it from its file."""
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def default_dataset(data: Any) -> str:
    """Return the account's name for data that comes without one: the file's stem, or "table" for a frame.

    Symbolic links are followed, or one file had as many accounts as it has links.
    """
    if not isinstance(data, (str, Path)):
        return "table"
    given, real = Path(data), Path(os.path.realpath(data))
    if given.name == real.name or not real.is_file():
        return given.stem
    if _CONTENT_ADDRESS.search(real.stem):
        # Content stores name a file by a digest of it, which must not reach the ledger or a statement.
        raise UsageError(
            f"{str(given)!r} is a link to a file that is named by its content, which cannot name an account.",
            hint="name the dataset in the schema: dataset = … under [table]",
        )
    return real.stem


def resolve_ledger(ledger: Path | str | None) -> Path:
    """Return where the ledger is: where the caller says, or where it always is."""
    return Path(ledger) if ledger else default_ledger_path()


def list_private_datasets(ledger: Path) -> set[str]:
    """Return the names of tables that a ledger knows to be private; none where there is no ledger yet."""
    known = Ledger.existing(ledger).accounts() if os.path.lexists(ledger) else ()
    return {account.dataset for account in known}


def reserve(
    account: str,
    *,
    ledger: Path,
    noise: NoiseSource | None,
    epsilon: Fraction,
    delta: Fraction,
    schema: Schema,
    method: str,
    plan: Adaptivity = Adaptivity.ADAPTIVE,
    keys: Fraction = Fraction(0),
    workload: str | None = None,
    public: PublicTable | None = None,
) -> tuple[Run, NoiseSource]:
    """Take a run's whole budget from its account, and return the run with the source of its noise.

    Without `noise` it is drawn exactly, from the operating system; any other source makes the run a rehearsal.
    From here on the state of the run says what was booked, whatever becomes of the rest.
    """
    from populace.core.number_format import format_exact

    check_free_memory()
    source = noise or ExactNoise(SystemEntropy())
    opened = Ledger.open(ledger)
    booking = Booking(
        dataset=account, epsilon=format_exact(epsilon), delta=format_exact(delta), ledger=ledger.absolute()
    )
    try:
        with track_booking(booking):
            run = opened.reserve(
                account,
                epsilon=epsilon,
                delta=delta,
                unit=schema.unit,
                method=method,
                schema_digest=schema.digest,
                rehearsal=not is_secret(source),
                plan=plan,
                keys=keys,
                workload=workload,
                public=public,
            )
    except BaseException as failure:
        # A budget that does not suffice is seen before anything is written. Of all else, the ledger itself tells.
        if isinstance(failure, OverBudget) or not _may_be_booked(account, ledger=opened, schema=schema):
            forget_booking()
        raise
    return run, source


def _may_be_booked(account: str, *, ledger: Ledger, schema: Schema) -> bool:
    """Say whether a ledger has a run that reserved and did nothing since, as one has that was just cut short."""
    try:
        known = any(each.dataset == account for each in ledger.accounts())
        runs = ledger.runs(account) if known else ()
    except Exception:
        return True
    return any(not (run.finished or run.spends) and run.schema_digest == schema.digest for run in runs)
