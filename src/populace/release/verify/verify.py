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

from populace.core.limits import LIMITS
from populace.core.untrusted_files import altered_error, read_object, read_text, same_json
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.bundle import Release, state_release
from populace.release.manifest import (
    OPTIONAL_FILES,
    REQUIRED_ESTIMATE_FILES,
    REQUIRED_FILES,
    TABLE_FILES,
    Manifest,
    digest_file,
    link_parents,
    list_table_files,
    write_synth_command,
)
from populace.release.release_files import write_statement_texts
from populace.release.row_selection import RowCountOrigin
from populace.release.statement.measured_content import MeasuredContent
from populace.release.statement.statement import Statement
from populace.release.table_files import write_table
from populace.release.verify.checks import (
    CheckOutcome,
    CheckResult,
    Verdict,
    check_budget,
    check_files,
    run_check,
)
from populace.release.verify.verify_booking import check_booked
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
from populace.release.verify.verify_statement import check_codebook, check_noise, check_statement
from populace.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def verify(folder: str | Path, *, ledger: str | Path | None = None, quick: bool = False) -> Verdict:
    """Check a release folder against its manifest, its record and its codebook, and draw its rows again.

    First come the names and the digests of the files; where they are wrong, nothing is read further. With the `ledger`
    that paid for it, the folder is compared with what is booked there. `quick` leaves out drawing the rows and building
    the report again.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "epsilon": 1, "delta": 0, "dataset": "smokers"}
    >>> pp.synthesize(people, rows=300, **asked).save("release", report=False)
    >>> pp.verify("release", quick=True).passed
    True
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
        run_check("real noise", parts.check_noise),
        run_check("parents", parts.check_parents),
        run_check("statement", parts.check_statement),
        run_check("budget", lambda: check_budget(parts.record)),
        run_check("measurements", lambda: check_measurements_paid(parts.measurements)),
        run_check("intervals", lambda: check_intervals(folder, measurements=parts.measurements)),
        run_check("domains", lambda: check_domains_paid(parts.schema, record=parts.record)),
        run_check("codebook", parts.check_codebook),
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
    """The files of a folder but its tables, and what should be in them."""

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
        return state_release(
            self.record,
            schema=self.schema,
            answers=MeasuredContent.of(self.measurements),
            total=self.model.total,
            rows=self.statement["total"]["rows"],
            rows_asked=self.manifest.rows_asked,
            selection=self.manifest.selection,
            implicates=self.manifest.implicates,
            form=self.manifest.number,
        )

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts that follow from the record, as they are written."""
        return write_statement_texts(
            self.expected,
            schema=self.schema,
            measured=[item.marginal for item in self.measurements.items],
            version=self.manifest.versions["populace"],
        )

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> _ReleaseParts:
        statement, record = read_object(folder / "statement.json", inner="record")
        book, text = read_object(folder / "codebook.json", inner="schema")
        total = statement.get("total")
        if not isinstance(total, dict) or not isinstance(total.get("rows"), int) or not isinstance(text, str):
            raise altered_error("statement.json or codebook.json is not one that populace writes")
        found = cls(
            manifest=manifest,
            statement=statement,
            page=read_text(folder / "statement.md"),
            codebook=book,
            schema=Schema.parse(text, released=True),
            record=RunRecord.from_json(record),
            measurements=Measurements.load(folder),
            model=Model.read_files(folder),
        )
        # Written again, they must be what they are: nothing more, nothing less, and no number spelt as something else.
        model = {"gradual": False, **read_object(folder / "model.json", inner="total")[0]}
        measured = read_object(folder / "measurements.json", inner="schema")[0]
        if not same_json(model, found.model.to_json()):
            raise altered_error("model.json is not one that populace writes")
        if not same_json({**measured, "schema": ""}, {**found.measurements.to_json(), "schema": ""}):
            raise altered_error("measurements.json is not one that populace writes")
        return found

    def check_noise(self) -> str:
        stamps = (self.manifest.stamp, self.statement.get("stamp"), self.codebook.get("stamp"))
        return check_noise(*stamps, rehearsal=self.record.rehearsal or self.model.rehearsal)

    def check_statement(self) -> str:
        return check_statement(
            self.statement,
            expected=self.expected,
            page=self.page,
            expected_page=self.texts["statement.md"],
            manifest=self.manifest,
            expected_manifest=self._expected_manifest,
        )

    def check_codebook(self) -> str:
        return check_codebook(
            self.codebook, schema=self.schema, statement=self.expected, form=self.manifest.number
        )

    def check_parents(self) -> str:
        told, parents = self.measurements, link_parents(self.statement, files=self.manifest.files)
        for found, expected, what in (
            (
                # The budget was reserved under the schema as it was before domains were learnt.
                self.schema.declared.digest,
                self.record.schema_digest,
                "the codebook's schema is not the one that was paid for",
            ),
            (told.schema.digest, self.schema.digest, "the measurements have another schema"),
            (told.record, self.record, "the measurements come from another run than the statement"),
            (self.model.measurements_digest, told.digest, "the model was fitted to other measurements"),
            (self.manifest.parents, parents, "the manifest names other parents"),
            (self.statement["ledger_entry"], self.record.digest, "the statement names another ledger entry"),
        ):
            if found != expected:
                raise altered_error(what)
        return "schema → ledger entry → measurements → model → release"

    @property
    def _expected_manifest(self) -> Manifest:
        """The manifest with everything that follows from the statement written anew."""
        statement, seed = self.expected, self.manifest.sampling_seed
        table = next(name for name in TABLE_FILES if name in self.manifest.files)
        chosen = RowCountOrigin(statement["total"]["origin"]) is RowCountOrigin.CURATOR
        rows = statement["total"]["rows"] if chosen else None
        if seed is None:
            raise altered_error("the manifest has no seed of the rows")
        command = write_synth_command(
            statement, seed=seed, rows_asked=rows, table_format=Path(table).suffix[1:]
        )
        return replace(self.manifest, dataset=statement["dataset"], rows_asked=rows, command=command)


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
            raise altered_error("the manifest has no seed of the rows")
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
    if not 1 <= manifest.implicates <= LIMITS.max_implicates:
        raise altered_error(f"{manifest.implicates} implicates are more than a release can hold, or fewer")
    listed = set(manifest.files)
    first = next((name for name in TABLE_FILES if name in listed), TABLE_FILES[0])
    further = set(list_table_files(first, implicates=manifest.implicates)) - {first}
    if lacking := sorted(further - listed):
        raise altered_error(f"{lacking[0]} holds one of the implicates and is not listed")
    check_files(folder, manifest, always=REQUIRED_FILES, sometimes=(*OPTIONAL_FILES, *further))
    if len(listed & set(TABLE_FILES)) != 1:
        raise altered_error("there is not exactly one synthetic table")
    return f"{len(listed)} files, none missing, none added"


def _check_digests(folder: Path, manifest: Manifest) -> str:
    for name, expected in manifest.files.items():
        if digest_file(folder / name) != expected:
            raise altered_error(f"{name} was altered")
    return "every file is as the manifest has it"
