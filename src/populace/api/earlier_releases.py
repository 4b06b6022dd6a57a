"""Earlier releases of one account, whose tables stand beside those of a later one: what may, and what is refused.

Their tables are noisy counts that were paid for when they were made. Whatever a later run does with them is
post-processing of the earlier one, and the account adds up what both took: they cost nothing more.
Proof: docs/proofs/earlier-releases.md
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from populace.api.request import resolve_ledger
from populace.api.stage_folders import find_seal, load_measurements
from populace.core.errors import LedgerError, ReleaseError, UsageError
from populace.measurements.measurements import FILES, Measurements
from populace.privacy.accounting.mechanisms import ExponentialCount
from populace.privacy.ledger.ledger import Ledger
from populace.release.manifest import digest_file
from populace.schema.schema import Schema

EarlierRelease = tuple[Measurements, str]
_UNALTERED = "give a folder that `populace synth` or `populace measure` wrote for this account, unaltered"


def pool_releases(
    measurements: Measurements, *, earlier: Sequence[str | Path], ledger: str | Path | None = None
) -> Measurements:
    """Return measurements with the tables of earlier releases of the same account beside them, at no cost.

    `earlier` are folders of releases or of measurements, `ledger` the one that paid for all of them: by default the one
    that paid for the measurements just now, or the one that is always used.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "delta": 0, "dataset": "smokers"}
    >>> _ = pp.Ledger.open("smokers.db").open_account("smokers", epsilon=2, delta=0)
    >>> first = pp.synthesize(people, epsilon=1, ledger="smokers.db", **asked)
    >>> first.save("first-release", report=False)
    >>> second = pp.measure(people, epsilon=1, ledger="smokers.db", **asked)
    >>> pp.pool_releases(second, earlier=["first-release"])
    Measurements of “smokers”: number of rows, 1 column
      paid for with ε = 1, δ = 0, beside 1 earlier
    """
    record = measurements.record
    path = resolve_ledger(measurements.context.ledger if ledger is None else ledger)
    found = load_earlier(earlier, ledger=path, dataset=record.dataset, schema=measurements.schema.declared)
    if found and Ledger.existing(path).record(record.run) != record:
        raise ReleaseError(
            f"{path} has another record of the run that the measurements come from.", hint=_UNALTERED
        )
    others = [(other, folder) for (other, _), folder in zip(found, earlier, strict=True)]
    _check_distinct([(measurements, "the measurements"), *others])
    for other, release in found:
        if other.schema.digest != measurements.schema.digest:
            raise UsageError(
                "domains were learnt apart: the measurements have other values or bins than the earlier release.",
                hint="give the earlier release already when measuring: `populace measure --with`",
            )
        measurements = measurements.pool(other, release=release)
    return measurements


def load_earlier(
    folders: Sequence[str | Path], *, ledger: Path, dataset: str, schema: Schema
) -> tuple[EarlierRelease, ...]:
    """Return the measurements of earlier releases, each with the digest of its manifest, as the ledger has them booked.

    Refused, before anything is spent: folders that the ledger has not booked for runs of this account, other schemas,
    units or neighbours, rehearsals, what is no table of unbiased counts, and a run that is given twice.
    """
    if not folders:
        return ()
    if not os.path.lexists(ledger):
        raise UsageError(
            f"there is no ledger {ledger}, so it has no earlier release booked.",
            hint="give the ledger that paid for the earlier release: --ledger FILE",
        )
    books = Ledger.existing(ledger)
    found = tuple(_load_booked(Path(folder), books=books) for folder in folders)
    for folder, (measurements, _) in zip(folders, found, strict=True):
        _check_alike(measurements, folder=folder, dataset=dataset, schema=schema)
    _check_distinct(
        [(measurements, folder) for folder, (measurements, _) in zip(folders, found, strict=True)]
    )
    if len({measurements.schema.digest for measurements, _ in found}) > 1:
        raise UsageError(
            "the earlier releases learnt their domains apart: values or bins differ.",
            hint="give one of them; a later release made --with it has the same domains",
        )
    return found


def _load_booked(folder: Path, *, books: Ledger) -> EarlierRelease:
    """Return what a folder measured, if the ledger has its very files booked for its run."""
    measurements = load_measurements(folder)
    for record in (run.record for run in measurements.runs):
        try:
            known = books.record(record.run)
        except LedgerError as unknown:
            raise UsageError(
                f"{folder} was paid for from another ledger than {books.path}.",
                hint="give the ledger that paid for it: --ledger FILE",
            ) from unknown
        if known != record:
            raise ReleaseError(f"{books.path} has another record of the run of {folder}.", hint=_UNALTERED)
        if record.rehearsal:
            raise UsageError(
                f"{folder} is a rehearsal: its noise was repeatable, and its counts are not private.",
                hint="leave it out, or make the release again with noise of the operating system",
            )
    seal = find_seal(folder)
    digests = {name: digest_file(folder / name) for name in FILES}
    booked = [] if seal is None else books.releases(measurements.record.run)
    manifest = "" if seal is None else digest_file(seal)
    if not any(each.manifest == manifest and digests.items() <= each.files.items() for each in booked):
        raise ReleaseError(
            f"{folder} is none of the folders that {books.path} has booked for its run.",
            hint=f"{_UNALTERED}; what was kept of an interrupted run is booked by `populace generate --ledger`",
        )
    return measurements, manifest


def _check_alike(measurements: Measurements, *, folder: str | Path, dataset: str, schema: Schema) -> None:
    """Refuse measurements of other people, or of other columns, or that least squares cannot use."""
    record = measurements.record
    if record.dataset != dataset:
        raise UsageError(
            f"{folder} was paid for by the account {record.dataset!r}, this run by {dataset!r}.",
            hint=f"releases of one account can be joined: --dataset {record.dataset!r} if these are the same rows",
        )
    if record.unit != schema.unit:
        raise UsageError(
            f"{folder} protects {record.unit.word} units of at most {record.unit.rows} rows under "
            f"{record.unit.neighbours.value} neighbours, this run {schema.unit.word} units of at most "
            f"{schema.unit.rows} rows under {schema.unit.neighbours.value} neighbours.",
            hint="declare the same unit, rows_per_unit, id and neighbours in the schema, or leave the release out",
        )
    if record.schema_digest != schema.digest:
        raise UsageError(
            f"{folder} was made under another schema.",
            hint="give the very schema of the earlier release: the columns, domains, rules and totals must be the same",
        )
    if schema.geography is not None:
        raise UsageError(
            "tables of a geography are not joined with those of earlier releases.",
            hint="leave the earlier release out; `populace area` estimates any set of its units for free",
        )
    released = measurements.released_rows is not None
    if released or any(isinstance(each, ExponentialCount) for each in measurements.mechanisms):
        raise UsageError(
            f"{folder} holds {'whole rows' if released else 'counts that were held within a range'}, which cannot be "
            "joined with other counts.",
            hint="leave it out: counts with plain noise can be joined, as of adaptive, mst or independent",
        )


def _check_distinct(given: Sequence[tuple[Measurements, str | Path]]) -> None:
    """Refuse a run whose tables would count twice."""
    holders: dict[str, str | Path] = {}
    for measurements, name in given:
        for run in (each.record.run for each in measurements.runs):
            if run in holders:
                raise UsageError(
                    f"{holders[run]} and {name} hold the same measurements: they would count twice.",
                    hint="give each release once; one that was made --with another holds its tables already",
                )
            holders[run] = name
