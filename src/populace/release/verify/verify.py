"""Verification of a release folder: nothing missing, nothing altered, the promise follows from the record in it, the
rows are those that the model and the seed give, and no file holds anything else.

What it cannot see without the ledger: whether the record, the measurements and the model are those of a run. Somebody
who makes up all of them, and draws rows from them, has a folder that agrees with itself. The ledger has the digests of
every file of a release, and settles it: `populace verify --ledger`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from populace.core.untrusted_files import same_json
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.bundle import Release
from populace.release.codebook import build_codebook
from populace.release.folder.release_booking import check_booked
from populace.release.manifest import (
    OPTIONAL_FILES,
    REQUIRED_ESTIMATE_FILES,
    REQUIRED_FILES,
    TABLE_FILES,
    Manifest,
    digest_file,
    dump_json,
    link_parents,
    list_table_files,
    write_synth_command,
)
from populace.release.row_selection import MAX_IMPLICATES, RowCountOrigin, expected_row_count
from populace.release.statement.measured_content import MeasuredContent
from populace.release.statement.statement import Statement, compute_statement
from populace.release.statement.statement_markdown import render_markdown
from populace.release.table_files import write_table
from populace.release.verify.checks import (
    CheckOutcome,
    CheckResult,
    Verdict,
    altered_release,
    check_budget,
    check_files,
    read_release_json,
    read_release_text,
    run_check,
)
from populace.release.verify.compare_wording import check_markdown, find_difference, is_same_codebook
from populace.release.verify.verify_bytes import REPORT_FILE, check_report, check_rewritten, skip_report
from populace.release.verify.verify_intervals import check_intervals, read_intervals
from populace.release.verify.verify_rows import (
    check_redrawn,
    check_rows,
    describe_differences,
    list_tables,
    read_tables,
    skip_redrawing,
)
from populace.release.verify.verify_spends import check_domains_paid, check_measurements_paid
from populace.schema.schema import Schema

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
    checks = [run_check("files", lambda: _check_files(folder, manifest))]
    if checks[-1].passed:
        checks.append(run_check("digests", lambda: _check_digests(folder, manifest)))
    if checks[-1].passed:
        # Numbers that nobody fitted may overflow; that is found out by what they come to.
        with np.errstate(all="ignore"):
            record, found = _check_contents(folder, manifest, quick=quick)
        checks += found
        if books is not None and record is not None:
            checks.append(check_booked(folder, manifest, record=record, ledger=books))
    outcomes = {check.name: check.passed for check in checks}
    return Verdict(
        checks=tuple(checks),
        redrawn=None if manifest.estimated else outcomes.get("redrawn", False),
        booked=None if books is None else outcomes.get("ledger", False),
    )


def _check_contents(
    folder: Path, manifest: Manifest, *, quick: bool
) -> tuple[RunRecord | None, list[CheckResult]]:
    if manifest.estimated:
        from populace.release.verify.verify_estimates import check_estimates

        return check_estimates(folder, manifest, quick=quick)
    loaded: list[_ReleaseParts] = []

    def load() -> str:
        loaded.append(_ReleaseParts.load(folder, manifest))
        return "every file can be read"

    first = run_check("contents", load)
    if not first.passed:
        return None, [first]
    parts, rows = loaded[0], _SyntheticTables(folder=folder, manifest=manifest, parts=loaded[0])
    report = REPORT_FILE in manifest.files
    checks = [
        run_check("real noise", lambda: _check_noise(manifest, parts)),
        run_check("parents", lambda: _check_parents(manifest, parts)),
        run_check("statement", lambda: _check_statement(manifest, parts)),
        run_check("budget", lambda: check_budget(parts.record)),
        run_check("measurements", lambda: check_measurements_paid(parts.measurements)),
        run_check("intervals", lambda: check_intervals(folder, measurements=parts.measurements)),
        run_check("domains", lambda: check_domains_paid(parts.schema, record=parts.record)),
        run_check("codebook", lambda: _check_codebook(manifest, parts)),
        run_check("rows", rows.check),
    ]
    if all(check.passed for check in checks):
        checks.append(rows.write_again())
    if quick:
        checks += [skip_redrawing(), *([skip_report()] if report else [])]
    elif all(check.outcome is not CheckOutcome.FAILED for check in checks):
        checks.append(rows.redraw())
        if report and checks[-1].outcome is not CheckOutcome.FAILED:
            checks.append(rows.rebuild_report())
    return parts.record, checks


@dataclass(frozen=True, kw_only=True, eq=False)
class _ReleaseParts:
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
        return compute_statement(
            self.record,
            schema=self.schema,
            answers=MeasuredContent.of(self.measurements),
            rows=rows,
            rows_from=RowCountOrigin.of(
                self.schema,
                asked=self.manifest.rows_asked,
                some=selection is not None,
                cut=0 < rows < expected_row_count(self.schema, self.model.total, selection=selection),
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
        book = build_codebook(self.schema, statement=self.expected, form=self.manifest.number)
        return {
            "statement.json": dump_json(self.expected),
            "statement.md": render_markdown(self.expected, measured=measured, version=version),
            "codebook.json": dump_json(book),
        }

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> _ReleaseParts:
        statement, record = read_release_json(folder / "statement.json", inner="record")
        book, text = read_release_json(folder / "codebook.json", inner="schema")
        total = statement.get("total")
        if not isinstance(total, dict) or not isinstance(total.get("rows"), int) or not isinstance(text, str):
            raise altered_release("statement.json or codebook.json is not one that populace writes")
        found = cls(
            manifest=manifest,
            statement=statement,
            page=read_release_text(folder / "statement.md"),
            codebook=book,
            schema=Schema.parse(text, released=True),
            record=RunRecord.from_json(record),
            measurements=Measurements.load(folder),
            model=Model.read_files(folder),
        )
        # Written again, they must be what they are: nothing more, nothing less, and no number spelt as something else.
        model = {"gradual": False, **read_release_json(folder / "model.json", inner="total")[0]}
        measured = read_release_json(folder / "measurements.json", inner="schema")[0]
        if not same_json(model, found.model.to_json()):
            raise altered_release("model.json is not one that populace writes")
        if not same_json({**measured, "schema": ""}, {**found.measurements.to_json(), "schema": ""}):
            raise altered_release("measurements.json is not one that populace writes")
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _SyntheticTables:
    """The synthetic tables of a folder, read once and checked twice."""

    folder: Path
    manifest: Manifest
    parts: _ReleaseParts

    @cached_property
    def tables(self) -> list[pa.Table]:
        return read_tables(self.folder, self.manifest, schema=self.parts.schema)

    def check(self) -> str:
        rows = self.parts.statement["total"]["rows"]
        return check_rows(
            self.tables, self.manifest, schema=self.parts.schema, model=self.parts.model, rows=rows
        )

    def redraw(self) -> CheckResult:
        return check_redrawn(self.tables, self.manifest, schema=self.parts.schema, model=self.parts.model)

    def write_again(self) -> CheckResult:
        return check_rewritten(self.folder, self.manifest, texts=self.parts.texts, write=self._write)

    def _write(self, place: Path) -> None:
        # Machines differ in the last digits of intervals: those of the file were compared before, and are written.
        beside = read_intervals(self.folder)
        self.parts.measurements.save(place, beside={name: [cells] for name, cells in beside.items()})
        self.parts.model.write_files(place)
        for name, table in zip(list_tables(self.manifest), self.tables, strict=True):
            write_table(table, place / name)

    def rebuild_report(self) -> CheckResult:
        found, told = self.manifest, self.parts
        if found.sampling_seed is None:
            raise altered_release("the manifest has no seed of the rows")
        release = Release(
            synthetic=self.tables[0],
            measurements=told.measurements,
            model=told.model,
            seed=found.sampling_seed,
            rows_asked=found.rows_asked,
            selection=found.selection,
            further=tuple(self.tables[1:]),
        )
        return check_report(self.folder, found, build=release.report, others=describe_differences(found))


def _check_files(folder: Path, manifest: Manifest) -> str:
    if manifest.estimated:
        check_files(folder, manifest, always=REQUIRED_ESTIMATE_FILES, sometimes=(REPORT_FILE,))
        return f"{len(manifest.files)} files, none missing, none added"
    if not 1 <= manifest.implicates <= MAX_IMPLICATES:
        raise altered_release(f"{manifest.implicates} implicates are more than a release can hold, or fewer")
    listed = set(manifest.files)
    first = next((name for name in TABLE_FILES if name in listed), TABLE_FILES[0])
    further = set(list_table_files(first, implicates=manifest.implicates)) - {first}
    if lacking := sorted(further - listed):
        raise altered_release(f"{lacking[0]} holds one of the implicates and is not listed")
    check_files(folder, manifest, always=REQUIRED_FILES, sometimes=(*OPTIONAL_FILES, *further))
    if len(listed & set(TABLE_FILES)) != 1:
        raise altered_release("there is not exactly one synthetic table")
    return f"{len(listed)} files, none missing, none added"


def _check_digests(folder: Path, manifest: Manifest) -> str:
    for name, expected in manifest.files.items():
        if digest_file(folder / name) != expected:
            raise altered_release(f"{name} was altered")
    return "every file is as the manifest has it"


def _check_noise(manifest: Manifest, parts: _ReleaseParts) -> str:
    stamps = (manifest.stamp, parts.statement.get("stamp"), parts.codebook.get("stamp"))
    if parts.record.rehearsal or parts.model.rehearsal or any(stamps):
        raise altered_release("a rehearsal: its noise was repeatable, so nothing in it is private")
    return "not a rehearsal"


def _check_parents(manifest: Manifest, parts: _ReleaseParts) -> str:
    told = parts.measurements
    for found, expected, what in (
        (
            # The budget was reserved under the schema as it was before domains were learnt.
            parts.schema.declared.digest,
            parts.record.schema_digest,
            "the codebook's schema is not the one that was paid for",
        ),
        (told.schema.digest, parts.schema.digest, "the measurements have another schema"),
        (told.record, parts.record, "the measurements come from another run than the statement"),
        (parts.model.measurements_digest, told.digest, "the model was fitted to other measurements"),
        (
            manifest.parents,
            link_parents(parts.statement, files=manifest.files),
            "the manifest names other parents",
        ),
        (parts.statement["ledger_entry"], parts.record.digest, "the statement names another ledger entry"),
    ):
        if found != expected:
            raise altered_release(what)
    return "schema → ledger entry → measurements → model → release"


def _check_statement(manifest: Manifest, parts: _ReleaseParts) -> str:
    expected = parts.expected
    differing = find_difference(parts.statement, expected, form=manifest.number)
    if differing is not None:
        raise altered_release(f"“{differing[:60]}” does not follow from the record")
    check_markdown(parts.page, expected=parts.texts["statement.md"], statement=expected, form=manifest.number)
    if manifest != _restate_manifest(manifest, expected):
        raise altered_release("the manifest does not say what the statement says")
    return f"ε = {expected['epsilon_exact']}, δ = {expected['delta_exact']} follow from the record"


def _restate_manifest(manifest: Manifest, statement: Statement) -> Manifest:
    """Return the manifest with everything that follows from the statement told anew."""
    table = next(name for name in TABLE_FILES if name in manifest.files)
    chosen = RowCountOrigin(statement["total"]["origin"]) is RowCountOrigin.CURATOR
    rows = statement["total"]["rows"] if chosen else None
    if manifest.sampling_seed is None:
        raise altered_release("the manifest has no seed of the rows")
    words = write_synth_command(
        statement, seed=manifest.sampling_seed, rows_asked=rows, table_format=Path(table).suffix[1:]
    )
    return replace(manifest, dataset=statement["dataset"], rows_asked=rows, command=words)


def _check_codebook(manifest: Manifest, parts: _ReleaseParts) -> str:
    expected = build_codebook(parts.schema, statement=parts.expected, form=manifest.number)
    if not is_same_codebook(parts.codebook, expected, form=manifest.number):
        raise altered_release("the codebook does not say what its schema says")
    return f"{len(parts.schema.columns)} columns as the schema has them"
