"""The files of a release folder: the texts that follow from its statement, and how a folder is written and booked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from populace.core.errors import NotBooked, ReleaseError
from populace.core.marginals import Marginal
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.codebook import build_codebook
from populace.release.folder.destination import atomic_folder, sync_files
from populace.release.manifest import MANIFEST_FILE, Manifest, digest_file, digest_files, dump_json
from populace.release.statement.statement import Statement
from populace.release.statement.statement_markdown import render_markdown
from populace.schema.schema import Schema


def write_statement_texts(
    statement: Statement,
    *,
    schema: Schema,
    version: str,
    measured: Sequence[Marginal] = (),
) -> dict[str, str]:
    """Return the texts that every release holds, by the names of their files.

    `version` is that of the populace that made the release.
    """
    return {
        "statement.json": dump_json(statement),
        "statement.md": render_markdown(statement, measured=measured, version=version),
        "codebook.json": dump_json(build_codebook(schema, statement=statement)),
    }


def save_folder(
    folder: Path,
    *,
    texts: Mapping[str, str],
    describe: Callable[[Path], Manifest],
    record: RunRecord,
    ledger: Path | None,
    write: Callable[[Path], None] | None = None,
) -> None:
    """Write a release folder: into a hidden folder beside it, to disk and into a ledger, then under its own name.

    It holds `texts`, whatever `write` puts there, and last the manifest that `describe` makes of all this.
    """
    with atomic_folder(folder) as place:
        if write is not None:
            write(place)
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8", newline="\n")
        manifest = describe(place)
        (place / MANIFEST_FILE).write_text(dump_json(manifest.to_json()), encoding="utf-8", newline="\n")
        if ledger is not None:
            sync_files(place)
            book_digests(place, record=record, ledger=ledger)


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


def book_digests(folder: Path, *, record: RunRecord, ledger: Path, seal: str = MANIFEST_FILE) -> None:
    """Book the digests of a folder whose files are all on disk, before it takes its real name.

    `seal` is the file that was written last, with the digests of the others. The record must be the ledger's. That the
    counts and the model are those of the run, nobody can check here: what is booked is what the holder of the ledger
    gives.
    """
    books = Ledger.existing(ledger)
    if books.record(record.run) != record:
        raise ReleaseError(
            f"{ledger} has another record of this run: nothing is booked.",
            hint="give the measurements that the run wrote, unaltered",
        )
    files = {name: digest for name, digest in digest_files(folder).items() if name != seal}
    books.book_release(record.run, manifest=digest_file(folder / seal), files=files)
