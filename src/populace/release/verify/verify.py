"""Verification of a release folder: nothing missing, nothing altered, the promise follows from the record in it, the
rows are those that the model and the seed give, and no file holds anything else.

What it cannot see without the ledger: whether the record, the measurements and the model are those of a run. Somebody
who makes up all of them, and draws rows from them, has a folder that agrees with itself. The ledger has the digests of
every file of a release, and settles it: `populace verify --ledger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.core.untrusted_files import altered_error, check_regular, read_object, read_text, same_json
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.release.bundle import Release
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.hierarchy.unit_files import check_noisy_counts, check_unit_tables, rewrite_unit_files
from populace.release.linked_rows import open_tables, write_tables
from populace.release.manifest import (
    HIERARCHY_FILES,
    MANIFEST_FILE,
    OPTIONAL_FILES,
    REQUIRED_CHECK_FILES,
    REQUIRED_ESTIMATE_FILES,
    REQUIRED_FILES,
    TABLE_FILES,
    Manifest,
    digest_file,
    link_parents,
    write_synth_command,
)
from populace.release.row_selection import RowCountOrigin
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import Statement, compute_statement
from populace.release.streamed_table import StreamedTable, read_whole
from populace.release.synthetic_rows import BLOCK_DRAWING_RULES
from populace.release.table_files import encode_table
from populace.release.verify.checks import (
    CheckOutcome,
    CheckResult,
    Inconclusive,
    Verdict,
    check_budget,
    run_check,
)
from populace.release.verify.folder_contents import Check, FolderContents, check_links
from populace.release.verify.verify_bytes import REPORT_FILE, check_rewritten
from populace.release.verify.verify_measurements import (
    check_domains_paid,
    check_earlier,
    check_intervals,
    check_measurements_paid,
    read_intervals,
)
from populace.release.verify.verify_rows import check_integer_tables, check_redrawn, check_rows
from populace.schema.schema import Schema


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
            records, found = _check_contents(folder, manifest, quick=quick)
        checks += found
        if books is not None and records:
            compare = partial(_check_booked, folder, manifest, records=records, ledger=books)
            checks.append(run_check("ledger", compare))
    outcomes = {check.name: check.passed for check in checks}
    return Verdict(
        checks=tuple(checks),
        redrawn=None if manifest.rowless else outcomes.get("redrawn", False),
        booked=None if books is None else outcomes.get("ledger", False),
    )


def _check_contents(
    folder: Path, manifest: Manifest, *, quick: bool
) -> tuple[Sequence[RunRecord], list[CheckResult]]:
    """Check what the files of a folder say, after their names and digests."""
    kind: type[FolderContents] = _SyntheticContents
    if manifest.estimated:
        from populace.release.verify.verify_estimates import EstimateContents

        kind = EstimateContents
    elif manifest.checked:
        from populace.release.verify.verify_claims import ClaimContents

        kind = ClaimContents
    loaded: list[FolderContents] = []

    def load() -> str:
        loaded.append(kind.load(folder, manifest))
        return "every file can be read"

    first = run_check("contents", load)
    if not first.passed:
        return (), [first]
    (contents,) = loaded
    checks = [run_check(name, check) for name, check in contents.checks.items()]
    if all(check.passed for check in checks):
        checks.append(run_check("written", contents.check_written))
    for name, (check, skipped) in contents.slow_checks.items():
        if quick:
            checks.append(CheckResult(name=name, outcome=CheckOutcome.UNKNOWN, detail=skipped))
        elif all(each.outcome is not CheckOutcome.FAILED for each in checks):
            checks.append(run_check(name, check))
    return contents.records, checks


@dataclass(frozen=True, kw_only=True, eq=False)
class _SyntheticContents(FolderContents):
    """The files of a folder of synthetic rows, and what should be in them."""

    measurements: Measurements
    model: Model

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        statement, record = read_object(folder / "statement.json", inner="record")
        book, text = read_object(folder / "codebook.json", inner="schema")
        total = statement.get("total")
        if not isinstance(total, dict) or not isinstance(total.get("rows"), int) or not isinstance(text, str):
            raise altered_error("statement.json or codebook.json is not one that populace writes")
        found = cls(
            folder=folder,
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
        if manifest.hierarchical is (found.schema.geography is None):
            raise altered_error("the tables of a geography are missing, or there is none")
        if not same_json(model, found.model.to_json()):
            raise altered_error("model.json is not one that populace writes")
        if not same_json({**measured, "schema": ""}, {**found.measurements.to_json(), "schema": ""}):
            raise altered_error("measurements.json is not one that populace writes")
        return found

    @property
    def measured(self) -> list[Marginal]:
        return self.measurements.own_marginals

    @property
    def records(self) -> Sequence[RunRecord]:
        return [run.record for run in self.measurements.runs]

    @property
    def checks(self) -> dict[str, Check]:
        stamp, rehearsal = self.statement.get("stamp"), self.record.rehearsal or self.model.rehearsal
        return {
            "real noise": lambda: self.check_noise(stamp, rehearsal=rehearsal),
            "parents": self.check_parents,
            "statement": lambda: self.check_statement(self._expected_manifest),
            "budget": lambda: check_budget(self.record),
            "measurements": lambda: check_measurements_paid(self.measurements.runs[0]),
            **({"earlier": lambda: check_earlier(self.measurements)} if self.measurements.earlier else {}),
            **self._estimate_checks,
            "domains": lambda: check_domains_paid(self.schema, records=self.records),
            "codebook": self.check_codebook,
            "rows": lambda: check_rows(
                self.tables,
                self.manifest,
                schema=self.schema,
                model=self.model,
                rows=self.statement["total"]["rows"],
            ),
        }

    @property
    def _estimate_checks(self) -> dict[str, Check]:
        """What follows from the noisy counts: intervals, or the tables of a geography."""
        if not self.manifest.hierarchical:
            return {"intervals": lambda: check_intervals(self.folder, measurements=self.measurements)}
        items = self.measurements.items
        return {
            "tables": lambda: check_unit_tables(self.released, self.folder),
            "noisy measurements": lambda: check_noisy_counts(
                self.released[0], self.folder, measurements=items
            ),
        }

    @cached_property
    def released(self) -> tuple[ReleasedHierarchy, ...]:
        """The tables of a geography that follow from measurements and model; those of members follow from the rows."""
        units = ReleasedHierarchy.of(self.measurements, self.model)
        if self.schema.linked is None:
            return (units,)
        codes = encode_table(read_whole(self.tables[0]), schema=self.schema)
        return units, ReleasedHierarchy.of_members(self.measurements, codes)

    @property
    def slow_checks(self) -> dict[str, tuple[Check, str]]:
        skipped = "not redrawn: the rows may not be the model's (--quick)"
        fitted: dict[str, tuple[Check, str]] = {}
        if self.manifest.hierarchical:
            unfitted = "not fitted again: the integer tables may not be those of the measurements (--quick)"
            fitted["fitted"] = (lambda: check_integer_tables(self.released[0], self.manifest), unfitted)

        def redraw() -> str:
            model = self.model.with_measurements(self.measurements)
            return check_redrawn(self.tables, self.manifest, schema=self.schema, model=model)

        return {**fitted, "redrawn": (redraw, skipped), **super().slow_checks}

    @cached_property
    def expected(self) -> Statement:
        rows, manifest = self.statement["total"]["rows"], self.manifest
        return compute_statement(
            self.record,
            schema=self.schema,
            answers=MeasuredContent.of(self.measurements),
            rows=rows,
            rows_from=RowCountOrigin.of(
                self.schema,
                rows=rows,
                total=self.model.total,
                asked=manifest.rows_asked,
                selection=manifest.selection,
            ),
            selection=manifest.selection,
            implicates=manifest.implicates,
            in_blocks=manifest.drawing == BLOCK_DRAWING_RULES,
            form=manifest.number,
        )

    @cached_property
    def tables(self) -> list[pa.Table | StreamedTable]:
        """The synthetic tables, read once; very many rows are read block by block whenever they are looked at."""
        rows, every = self.statement["total"]["rows"], self.manifest.table_files
        return [
            open_tables([self.folder / name for name in names], schema=self.schema, rows=rows)
            for names in every
        ]

    def check_parents(self) -> str:
        """Refuse parts that do not come from each other."""
        released, parents = self.measurements, link_parents(self.statement, files=self.manifest.files)
        # The budget was reserved under the schema as it was before domains were learnt.
        declared, paid = self.schema.declared.digest, self.record.schema_digest
        check_links(
            (
                (declared, paid, "the codebook's schema is not the one that was paid for"),
                (released.schema.digest, self.schema.digest, "the measurements have another schema"),
                (released.record, self.record, "the measurements come from another run than the statement"),
                (
                    self.model.measurements_digest,
                    released.digest,
                    "the model was fitted to other measurements",
                ),
                (self.manifest.parents, parents, "the manifest names other parents"),
                (
                    self.statement["ledger_entry"],
                    self.record.digest,
                    "the statement names another ledger entry",
                ),
            )
        )
        return "schema → ledger entry → measurements → model → release"

    def check_written(self) -> str:
        return check_rewritten(self.folder, self.manifest, texts=self.texts, write=self._write)

    def _write(self, place: Path) -> None:
        # Machines differ in the last digits of intervals: those of the file were compared before, and are written.
        if self.manifest.hierarchical:
            items = self.measurements.items
            self.measurements.save(place)
            rewrite_unit_files(self.released, place, measurements=items, held=self.folder)
        else:
            beside = read_intervals(self.folder, measurements=self.measurements)
            self.measurements.save(place, beside={name: [cells] for name, cells in beside.items()})
        self.model.write_files(place)
        for names, table in zip(self.manifest.table_files, self.tables, strict=True):
            write_tables(table, [place / name for name in names], schema=self.schema)

    @property
    def _expected_manifest(self) -> Manifest:
        """The manifest with everything that follows from the statement written anew."""
        statement = self.expected
        chosen = RowCountOrigin(statement["total"]["origin"]) is RowCountOrigin.CURATOR
        rows = statement["total"]["rows"] if chosen else None
        tables = self.schema.linked
        linked = () if tables is None else (tables.units, tables.members)
        command = write_synth_command(
            statement,
            seed=self.manifest.seed,
            rows_asked=rows,
            table_format=Path(self.manifest.table_files[0][0]).suffix[1:],
            linked=linked,
        )
        return replace(
            self.manifest, dataset=statement["dataset"], rows_asked=rows, command=command, linked=linked
        )

    def build_report(self) -> str:
        return Release(
            synthetic=self.tables[0],
            measurements=self.measurements,
            model=self.model,
            seed=self.manifest.seed,
            rows_asked=self.manifest.rows_asked,
            selection=self.manifest.selection,
            further=tuple(self.tables[1:]),
        ).report()


def _check_files(folder: Path, manifest: Manifest) -> str:
    """Refuse a folder that lacks a file, holds one too many, or something else than a file."""
    listed, always, sometimes = set(manifest.files), set(REQUIRED_ESTIMATE_FILES), {REPORT_FILE}
    if manifest.checked:
        always, sometimes = set(REQUIRED_CHECK_FILES), set()
    elif not manifest.estimated:
        if not 1 <= manifest.implicates <= LIMITS.max_implicates:
            raise altered_error(
                f"{manifest.implicates} implicates are more than a release can hold, or fewer"
            )
        every = manifest.table_files
        further = {name for names in every for name in names} - set(TABLE_FILES)
        if lacking := sorted(further - listed):
            raise altered_error(f"{lacking[0]} holds one of the implicates and is not listed")
        tables = HIERARCHY_FILES if manifest.hierarchical else ()
        always, sometimes = {*REQUIRED_FILES, *tables}, {*OPTIONAL_FILES, *further}
        if manifest.linked:
            sometimes -= set(TABLE_FILES)
    present = {path.name for path in folder.iterdir()} - {MANIFEST_FILE}
    for names, what in (
        (listed - present, "is listed but missing"),
        (present - listed, "is not listed"),
        (always - listed, "belongs to every such release and is not listed"),
        (listed - always - sometimes, "has no place in a release"),
    ):
        if names:
            wrong = min(names)
            raise altered_error(f"{wrong if wrong.isprintable() else ascii(wrong)} {what}")
    for name in sorted(present):
        check_regular(folder / name)
    alone = len(listed & set(TABLE_FILES)) == (0 if manifest.linked else 1)
    if not manifest.rowless and not (manifest.table_files and alone):
        raise altered_error("there is not exactly one synthetic table")
    return f"{len(listed)} files, none missing, none added"


def _check_digests(folder: Path, manifest: Manifest) -> str:
    for name, expected in manifest.files.items():
        if digest_file(folder / name) != expected:
            raise altered_error(f"{name} was altered")
    return "every file is as the manifest has it"


def _check_booked(folder: Path, manifest: Manifest, *, records: Sequence[RunRecord], ledger: Ledger) -> str:
    """Compare a run's record, and those of earlier ones, with the ledger's, and a folder with what is booked for it."""
    record = records[0]
    if any(ledger.record(each.run) != each for each in records):
        raise altered_error("the ledger has another record of the run, from which another statement follows")
    booked = [each for each in ledger.releases(record.run) if each.whole]
    if not booked:
        raise Inconclusive("the run is the ledger's, which has no release of it booked")
    found = {"manifest": digest_file(folder / MANIFEST_FILE), "files": dict(manifest.files)}
    if found not in [release.to_json() for release in booked]:
        raise altered_error("it is none of the releases that the ledger has booked for the run")
    return "the record, the manifest and every file are as the ledger has them"
