"""The budget that a run reserves in its account before a row is read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from fractions import Fraction
from functools import partial

from populace.api.notices import announce_charge
from populace.api.request import RunRequest
from populace.core.errors import OverBudget
from populace.core.run_state import Booking, current_state, track_booking
from populace.privacy.ledger.account import NAMES_DIGITS
from populace.privacy.ledger.exact_totals import ExactTotals
from populace.privacy.ledger.ledger import Ledger, Run
from populace.privacy.ledger.run_record import Adaptivity, PublicTable
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise, NoiseSource, is_secret
from populace.private.capacity import check_free_memory
from populace.schema.schema import Schema
from populace.schema.writer import canonical_json, column_to_table

# Keys of a column that say nothing about its codes.
COLUMN_WORDS = ("label", "description", "labels", "origin", "key")


def reserve(
    request: RunRequest,
    *,
    delta: Fraction,
    plan: Adaptivity = Adaptivity.ADAPTIVE,
    keys: Fraction = Fraction(0),
    workload: str | None = None,
    public: PublicTable | None = None,
    questions: str = "",
) -> tuple[Run, NoiseSource]:
    """Take a run's whole budget from its account, and return the run with the source of its noise.

    `delta` is what the method can use of the δ that is offered. Without `noise` in the request it is drawn exactly,
    from the operating system; any other source makes the run a rehearsal. `questions` is announced with the charge.
    From here on the state of the run says what was booked, whatever becomes of the rest.
    """
    from populace.core.number_format import format_exact

    check_free_memory()
    source = request.noise or ExactNoise(SystemEntropy())
    new_ledger = not os.path.lexists(request.ledger)
    opened = Ledger.open(request.ledger)
    columns = digest_columns(request.schema)
    announce = partial(
        announce_charge,
        request,
        delta=delta,
        new_ledger=new_ledger,
        accounts=opened.accounts(),
        columns=columns,
        questions=questions,
    )
    booking = Booking(
        dataset=request.dataset,
        epsilon=format_exact(request.epsilon),
        delta=format_exact(delta),
        ledger=request.ledger.absolute(),
    )
    try:
        with track_booking(booking):
            run = opened.reserve(
                request.dataset,
                epsilon=request.epsilon,
                delta=delta,
                unit=request.schema.unit,
                method=request.method_name,
                schema_digest=request.schema.digest,
                rehearsal=not is_secret(source),
                plan=plan,
                keys=keys,
                workload=workload,
                public=public,
                exact=ExactTotals.of(request.schema),
                columns=columns,
                named=request.named,
                announce=announce if is_secret(source) else None,
            )
    except BaseException as failure:
        # A budget that does not suffice is seen before anything is written. Of all else, the ledger itself tells.
        if isinstance(failure, OverBudget) or not _may_be_booked(request, ledger=opened):
            current_state().booking = None
        raise
    return run, source


def digest_columns(schema: Schema) -> str:
    """Return a digest of a schema's columns, whatever it calls the dataset: one half of their names, one of all.

    The second half tells of codes too, and not of words. An edited domain leaves the first half as it is.

    >>> one, other = (digest_columns(Schema.from_sizes({"a": 2, "b": codes})) for codes in (3, 4))
    >>> one[:NAMES_DIGITS] == other[:NAMES_DIGITS], one == other
    (True, False)
    """
    tables = {name: column_to_table(column) for name, column in schema.columns.items()}
    codes = {name: {key: t[key] for key in t if key not in COLUMN_WORDS} for name, t in tables.items()}
    read = [name for name in schema.columns if name not in schema.layout.functions]
    whole = hashlib.sha256(canonical_json(codes).encode()).hexdigest()
    return digest_names(read) + whole[: len(whole) - NAMES_DIGITS]


def digest_names(names: Iterable[str]) -> str:
    """Return a digest of names of columns, in any order."""
    return hashlib.sha256(canonical_json(sorted(names)).encode()).hexdigest()[:NAMES_DIGITS]


def _may_be_booked(request: RunRequest, *, ledger: Ledger) -> bool:
    """Say whether a ledger has a run that reserved and did nothing since, as one has that was just cut short."""
    try:
        known = any(each.dataset == request.dataset for each in ledger.accounts())
        runs = ledger.runs(request.dataset) if known else ()
    except Exception:
        return True
    return any(
        not (run.finished or run.spends) and run.schema_digest == request.schema.digest for run in runs
    )
