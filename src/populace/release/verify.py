"""Verification of a release folder: nothing missing, nothing altered, the promise follows from the record in it, the
rows are those that the model and the seed give, and no file holds anything else.

What it cannot see without the ledger: whether the record, the measurements and the model are those of a run. Somebody
who makes up all of them, and draws rows from them, has a folder that agrees with itself. The ledger has the digests of
every file of a release, and settles it: `populace verify --ledger`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from populace.infer.model import Model
from populace.measurements import Measurements
from populace.privacy.ledger import Ledger
from populace.privacy.record import RunRecord
from populace.records import dataclass
from populace.release.answers import Answers
from populace.release.booking import check_booked
from populace.release.bundle import Release
from populace.release.checks import (
    Check,
    Outcome,
    Verdict,
    check_budget,
    check_files,
    checked,
    read_json,
    read_text,
    wrong,
)
from populace.release.codebook import codebook
from populace.release.drawing import MOST_IMPLICATES, RowsFrom, expected_rows
from populace.release.frame import write_table
from populace.release.intervals import check_intervals, saved_intervals
from populace.release.manifest import (
    ALWAYS,
    ALWAYS_ESTIMATED,
    SOMETIMES,
    TABLE_FILES,
    Manifest,
    command,
    digest,
    dump,
    parents,
    table_names,
)
from populace.release.page import markdown
from populace.release.statement import Statement, state
from populace.release.verify_bytes import REPORT, check_report, check_written, report_not_rebuilt
from populace.release.verify_paid import check_learnt, check_measured
from populace.release.verify_rows import (
    check_redrawn,
    check_rows,
    names_of,
    not_redrawn,
    other_conditions,
    read_tables,
)
from populace.release.words import check_page, same_codebook, same_statement
from populace.schema.schema import Schema
from populace.untrusted import same_json

if TYPE_CHECKING:
    import pyarrow as pa


def verify(folder: str | Path, *, ledger: str | Path | None = None, quick: bool = False) -> Verdict:
    """Check a release folder against its manifest, its record and its codebook, and draw its rows again.

    First come the names and the digests of the files; where they are wrong, nothing is read further. With the `ledger`
    that paid for it, the folder is compared with what is booked there. `quick` leaves out drawing the rows and building
    the report again.
    """
    folder = Path(folder)
    books = None if ledger is None else Ledger.existing(ledger)
    manifest = Manifest.load(folder)
    checks = [checked("files", lambda: _files(folder, manifest))]
    if checks[-1].passed:
        checks.append(checked("digests", lambda: _digests(folder, manifest)))
    if checks[-1].passed:
        # Numbers that nobody fitted may overflow; that is found out by what they come to.
        with np.errstate(all="ignore"):
            record, found = _contents(folder, manifest, quick=quick)
        checks += found
        if books is not None and record is not None:
            checks.append(check_booked(folder, manifest, record=record, ledger=books))
    outcomes = {check.name: check.passed for check in checks}
    return Verdict(
        checks=tuple(checks),
        redrawn=None if manifest.estimated else outcomes.get("redrawn", False),
        booked=None if books is None else outcomes.get("ledger", False),
    )


def _contents(folder: Path, manifest: Manifest, *, quick: bool) -> tuple[RunRecord | None, list[Check]]:
    if manifest.estimated:
        from populace.release.verify_estimates import contents

        return contents(folder, manifest, quick=quick)
    loaded: list[_Parts] = []

    def load() -> str:
        loaded.append(_Parts.load(folder, manifest))
        return "every file can be read"

    first = checked("contents", load)
    if not first.passed:
        return None, [first]
    parts, rows = loaded[0], _Rows(folder=folder, manifest=manifest, parts=loaded[0])
    report = REPORT in manifest.files
    checks = [
        checked("real noise", lambda: _real_noise(manifest, parts)),
        checked("parents", lambda: _parents(manifest, parts)),
        checked("statement", lambda: _statement(manifest, parts)),
        checked("budget", lambda: check_budget(parts.record)),
        checked("measurements", lambda: check_measured(parts.measurements)),
        checked("intervals", lambda: check_intervals(folder, measurements=parts.measurements)),
        checked("domains", lambda: check_learnt(parts.schema, record=parts.record)),
        checked("codebook", lambda: _codebook(manifest, parts)),
        checked("rows", rows.check),
    ]
    if all(check.passed for check in checks):
        checks.append(rows.write_again())
    if quick:
        checks += [not_redrawn(), *([report_not_rebuilt()] if report else [])]
    elif all(check.outcome is not Outcome.FAILED for check in checks):
        checks.append(rows.redraw())
        if report and checks[-1].outcome is not Outcome.FAILED:
            checks.append(rows.rebuild_report())
    return parts.record, checks


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    manifest: Manifest
    statement: Statement
    page: str
    codebook: dict[str, Any]
    schema: Schema
    record: RunRecord
    measurements: Measurements
    model: Model

    @cached_property
    def expected(self) -> Statement:
        """The statement that follows from the record."""
        rows, selection = self.statement["total"]["rows"], self.manifest.selection
        return state(
            self.record,
            schema=self.schema,
            answers=Answers.of(self.measurements),
            rows=rows,
            rows_from=RowsFrom.of(
                self.schema,
                asked=self.manifest.rows_asked,
                some=selection is not None,
                cut=0 < rows < expected_rows(self.schema, self.model.total, selection=selection),
            ),
            selection=selection,
            implicates=self.manifest.implicates,
            form=self.manifest.number,
        )

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts that follow from the record, as they are written."""
        measured = [item.marginal for item in self.measurements.items]
        version = self.manifest.versions["populace"]
        book = codebook(self.schema, statement=self.expected, form=self.manifest.number)
        return {
            "statement.json": dump(self.expected),
            "statement.md": markdown(self.expected, measured=measured, version=version),
            "codebook.json": dump(book),
        }

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> _Parts:
        statement, record = read_json(folder / "statement.json", inner="record")
        book, text = read_json(folder / "codebook.json", inner="schema")
        total = statement.get("total")
        if not isinstance(total, dict) or not isinstance(total.get("rows"), int) or not isinstance(text, str):
            raise wrong("statement.json or codebook.json is not one that populace writes")
        found = cls(
            manifest=manifest,
            statement=statement,
            page=read_text(folder / "statement.md"),
            codebook=book,
            schema=Schema.parse(text, released=True),
            record=RunRecord.from_json(record),
            measurements=Measurements.load(folder),
            model=Model.load(folder),
        )
        # Written again, they must be what they are: nothing more, nothing less, and no number spelt as something else.
        model = {"gradual": False, **read_json(folder / "model.json", inner="total")[0]}
        measured = read_json(folder / "measurements.json", inner="schema")[0]
        if not same_json(model, found.model.to_json()):
            raise wrong("model.json is not one that populace writes")
        if not same_json({**measured, "schema": ""}, {**found.measurements.to_json(), "schema": ""}):
            raise wrong("measurements.json is not one that populace writes")
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """The synthetic tables of a folder, read once and checked twice."""

    folder: Path
    manifest: Manifest
    parts: _Parts

    @cached_property
    def tables(self) -> list[pa.Table]:
        return read_tables(self.folder, self.manifest, schema=self.parts.schema)

    def check(self) -> str:
        rows = self.parts.statement["total"]["rows"]
        return check_rows(
            self.tables, self.manifest, schema=self.parts.schema, model=self.parts.model, rows=rows
        )

    def redraw(self) -> Check:
        return check_redrawn(self.tables, self.manifest, schema=self.parts.schema, model=self.parts.model)

    def write_again(self) -> Check:
        return check_written(self.folder, self.manifest, texts=self.parts.texts, write=self._write)

    def _write(self, place: Path) -> None:
        # Machines differ in the last digits of intervals: those of the file were compared before, and are written.
        beside = saved_intervals(self.folder)
        self.parts.measurements.save(place, beside={name: [cells] for name, cells in beside.items()})
        self.parts.model.save(place)
        for name, table in zip(names_of(self.manifest), self.tables, strict=True):
            write_table(table, place / name)

    def rebuild_report(self) -> Check:
        found, told = self.manifest, self.parts
        if found.sampling_seed is None:
            raise wrong("the manifest has no seed of the rows")
        release = Release(
            synthetic=self.tables[0],
            measurements=told.measurements,
            model=told.model,
            seed=found.sampling_seed,
            rows_asked=found.rows_asked,
            selection=found.selection,
            further=tuple(self.tables[1:]),
        )
        return check_report(self.folder, found, build=release.report, others=other_conditions(found))


def _files(folder: Path, manifest: Manifest) -> str:
    if manifest.estimated:
        check_files(folder, manifest, always=ALWAYS_ESTIMATED, sometimes=(REPORT,))
        return f"{len(manifest.files)} files, none missing, none added"
    if not 1 <= manifest.implicates <= MOST_IMPLICATES:
        raise wrong(f"{manifest.implicates} implicates are more than a release can hold, or fewer")
    listed = set(manifest.files)
    first = next((name for name in TABLE_FILES if name in listed), TABLE_FILES[0])
    further = set(table_names(first, implicates=manifest.implicates)) - {first}
    if lacking := sorted(further - listed):
        raise wrong(f"{lacking[0]} holds one of the implicates and is not listed")
    check_files(folder, manifest, always=ALWAYS, sometimes=(*SOMETIMES, *further))
    if len(listed & set(TABLE_FILES)) != 1:
        raise wrong("there is not exactly one synthetic table")
    return f"{len(listed)} files, none missing, none added"


def _digests(folder: Path, manifest: Manifest) -> str:
    for name, expected in manifest.files.items():
        if digest(folder / name) != expected:
            raise wrong(f"{name} was altered")
    return "every file is as the manifest has it"


def _real_noise(manifest: Manifest, parts: _Parts) -> str:
    stamps = (manifest.stamp, parts.statement.get("stamp"), parts.codebook.get("stamp"))
    if parts.record.rehearsal or parts.model.rehearsal or any(stamps):
        raise wrong("a rehearsal: its noise was repeatable, so nothing in it is private")
    return "not a rehearsal"


def _parents(manifest: Manifest, parts: _Parts) -> str:
    told = parts.measurements
    for found, expected, what in (
        (
            # The budget was reserved under the schema as it was before domains were learnt.
            parts.schema.draft.digest,
            parts.record.schema_digest,
            "the codebook's schema is not the one that was paid for",
        ),
        (told.schema.digest, parts.schema.digest, "the measurements have another schema"),
        (told.record, parts.record, "the measurements come from another run than the statement"),
        (parts.model.measurements, told.digest, "the model was fitted to other measurements"),
        (
            manifest.parents,
            parents(parts.statement, files=manifest.files),
            "the manifest names other parents",
        ),
        (parts.statement["ledger_entry"], parts.record.digest, "the statement names another ledger entry"),
    ):
        if found != expected:
            raise wrong(what)
    return "schema → ledger entry → measurements → model → release"


def _statement(manifest: Manifest, parts: _Parts) -> str:
    expected = parts.expected
    differing = same_statement(parts.statement, expected, form=manifest.number)
    if differing is not None:
        raise wrong(f"“{differing[:60]}” does not follow from the record")
    check_page(parts.page, expected=parts.texts["statement.md"], statement=expected, form=manifest.number)
    if manifest != _retold(manifest, expected):
        raise wrong("the manifest does not say what the statement says")
    return f"ε = {expected['epsilon_exact']}, δ = {expected['delta_exact']} follow from the record"


def _retold(manifest: Manifest, statement: Statement) -> Manifest:
    """Return the manifest with everything that follows from the statement told anew."""
    table = next(name for name in TABLE_FILES if name in manifest.files)
    chosen = RowsFrom(statement["total"]["origin"]) is RowsFrom.CURATOR
    rows = statement["total"]["rows"] if chosen else None
    if manifest.sampling_seed is None:
        raise wrong("the manifest has no seed of the rows")
    words = command(
        statement, seed=manifest.sampling_seed, rows_asked=rows, table_format=Path(table).suffix[1:]
    )
    return replace(manifest, dataset=statement["dataset"], rows_asked=rows, command=words)


def _codebook(manifest: Manifest, parts: _Parts) -> str:
    expected = codebook(parts.schema, statement=parts.expected, form=manifest.number)
    if not same_codebook(parts.codebook, expected, form=manifest.number):
        raise wrong("the codebook does not say what its schema says")
    return f"{len(parts.schema.columns)} columns as the schema has them"
