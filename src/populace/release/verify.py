"""Verification of a release folder: nothing missing, nothing altered, and the promise follows from the record in it.

What it cannot see: whether the record is the ledger's. Compare `ledger_entry` with `populace ledger show` for that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from populace.errors import PopulaceError, ReleaseError
from populace.infer.condition import condition
from populace.infer.model import Model
from populace.measurements import Measurements, in_words
from populace.privacy.mechanisms import (
    WHOLE_ROWS,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialCount,
    Stability,
)
from populace.privacy.record import RunRecord
from populace.release.answers import Answers
from populace.release.codebook import codebook
from populace.release.drawing import MOST_IMPLICATES, RowsFrom, Selection, expected_rows
from populace.release.frame import read_table
from populace.release.inside import first_outside
from populace.release.intervals import check_intervals
from populace.release.manifest import (
    ALWAYS,
    NAME,
    SOMETIMES,
    TABLE_FILES,
    Manifest,
    command,
    digest,
    parents,
    table_names,
    versions,
)
from populace.release.page import markdown
from populace.release.statement import Statement, state
from populace.schema.coding import TableCodec
from populace.schema.columns import Origin
from populace.schema.schema import Schema
from populace.schema.where import Where

# A share is told to six digits, and two machines may sum it in another order.
SAME_SHARE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked, and what was found."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All checks of one folder, in order."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in self.checks]
        return {"passed": self.passed, "checks": checks}


def verify(folder: str | Path) -> Verdict:
    """Check a release folder against its manifest, its record and its codebook.

    First come the names and the digests of the files; where they are wrong, nothing is read further.
    """
    folder = Path(folder)
    manifest = Manifest.load(folder)
    checks = [_checked("files", lambda: _files(folder, manifest))]
    if checks[-1].passed:
        checks.append(_checked("digests", lambda: _digests(folder, manifest)))
    if checks[-1].passed:
        checks += _contents(folder, manifest)
    return Verdict(checks=tuple(checks))


def _contents(folder: Path, manifest: Manifest) -> list[Check]:
    try:
        parts = _Parts.load(folder)
    except PopulaceError as failure:
        return [Check(name="contents", passed=False, detail=failure.message)]
    return [
        _checked("real noise", lambda: _real_noise(manifest, parts)),
        _checked("parents", lambda: _parents(manifest, parts)),
        _checked("statement", lambda: _statement(manifest, parts)),
        _checked("budget", lambda: _budget(parts.record)),
        _checked("measurements", lambda: _measurements(parts)),
        _checked("intervals", lambda: check_intervals(folder, measurements=parts.measurements)),
        _checked("domains", lambda: _learnt(parts)),
        _checked("codebook", lambda: _codebook(parts)),
        _checked("rows", lambda: _rows(folder, manifest, parts)),
    ]


def _checked(name: str, check: Callable[[], str]) -> Check:
    """Run one check: it returns what it found in order, or raises what it found wrong."""
    try:
        return Check(name=name, passed=True, detail=check())
    except PopulaceError as failure:
        return Check(name=name, passed=False, detail=failure.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    statement: Statement
    page: str
    codebook: dict[str, Any]
    schema: Schema
    record: RunRecord
    measurements: Measurements
    model: Model

    @classmethod
    def load(cls, folder: Path) -> _Parts:
        statement, record = _read(folder / "statement.json", inner="record")
        book, text = _read(folder / "codebook.json", inner="schema")
        try:
            page = (folder / "statement.md").read_text(encoding="utf-8")
        except (OSError, ValueError) as failure:
            raise _wrong("statement.md cannot be read") from failure
        return cls(
            statement=statement,
            page=page,
            codebook=book,
            schema=Schema.parse(text, released=True),
            record=RunRecord.from_json(record),
            measurements=Measurements.load(folder),
            model=Model.load(folder),
        )


def _read(path: Path, *, inner: str) -> tuple[Any, Any]:
    """Return a JSON file and the part of it that everything else hangs on."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return told, told[inner]
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise _wrong(f"{path.name} cannot be read, or lacks “{inner}”") from failure


def _files(folder: Path, manifest: Manifest) -> str:
    present = {path.name for path in folder.iterdir()} - {NAME}
    listed = set(manifest.files)
    if not 1 <= manifest.implicates <= MOST_IMPLICATES:
        raise _wrong(f"{manifest.implicates} implicates are more than a release can hold, or fewer")
    first = next((name for name in TABLE_FILES if name in listed), TABLE_FILES[0])
    further = set(table_names(first, implicates=manifest.implicates)) - {first}
    for names, what in (
        (listed - present, "is listed but missing"),
        (present - listed, "is not listed"),
        (set(ALWAYS) - listed, "belongs to every release and is not listed"),
        (further - listed, "holds one of the implicates and is not listed"),
        (listed - set(ALWAYS) - set(SOMETIMES) - further, "has no place in a release"),
        ({name for name in present if not (folder / name).is_file()}, "is not a file"),
    ):
        if names:
            raise _wrong(f"{sorted(names)[0]} {what}")
    if len(listed & set(TABLE_FILES)) != 1:
        raise _wrong("there is not exactly one synthetic table")
    return f"{len(listed)} files, none missing, none added"


def _digests(folder: Path, manifest: Manifest) -> str:
    for name, expected in manifest.files.items():
        try:
            found = digest(folder / name)
        except OSError as failure:
            raise _wrong(f"{name} cannot be read: {failure.strerror or 'the system refuses'}") from failure
        if found != expected:
            raise _wrong(f"{name} was altered")
    return "every file is as the manifest has it"


def _real_noise(manifest: Manifest, parts: _Parts) -> str:
    stamps = (manifest.stamp, parts.statement.get("stamp"), parts.codebook.get("stamp"))
    if parts.record.rehearsal or parts.model.rehearsal or any(stamps):
        raise _wrong("a rehearsal: its noise was repeatable, so nothing in it is private")
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
            raise _wrong(what)
    return "schema → ledger entry → measurements → model → release"


def _statement(manifest: Manifest, parts: _Parts) -> str:
    total, version = parts.statement["total"], manifest.versions.get("populace", "")
    selection = manifest.selection
    origin = RowsFrom.of(
        parts.schema,
        asked=manifest.rows_asked,
        some=selection is not None,
        cut=0 < total["rows"] < expected_rows(parts.schema, parts.model.total, selection=selection),
    )
    expected = state(
        parts.record,
        schema=parts.schema,
        answers=Answers.of(parts.measurements),
        rows=total["rows"],
        rows_from=origin,
        selection=selection,
        implicates=manifest.implicates,
    )
    if parts.statement != expected:
        wrong = next(
            key for key in {**expected, **parts.statement} if parts.statement.get(key) != expected.get(key)
        )
        raise _wrong(f"“{wrong}” does not follow from the record{_other(version)}")
    measured = [item.marginal for item in parts.measurements.items]
    if parts.page != markdown(expected, measured=measured, version=version):
        raise _wrong(f"statement.md does not say what statement.json says{_other(version)}")
    if manifest != _retold(manifest, expected):
        raise _wrong("the manifest does not say what the statement says")
    return f"ε = {expected['epsilon_exact']}, δ = {expected['delta_exact']} follow from the record"


def _retold(manifest: Manifest, statement: Statement) -> Manifest:
    """Return the manifest with everything that follows from the statement told anew."""
    table = next(name for name in TABLE_FILES if name in manifest.files)
    chosen = RowsFrom(statement["total"]["origin"]) is RowsFrom.CURATOR
    rows = statement["total"]["rows"] if chosen else None
    words = command(
        statement, seed=manifest.sampling_seed, rows_asked=rows, table_format=Path(table).suffix[1:]
    )
    return replace(manifest, dataset=statement["dataset"], rows_asked=rows, command=words)


def _other(version: str) -> str:
    """Return the excuse that a release may have: another version words its statements in its own way."""
    mine = versions()["populace"]
    return "" if version == mine else f" as populace {mine} words it; populace {version} wrote it"


def _budget(record: RunRecord) -> str:
    record.check()
    if not record.finished:
        raise _wrong("the run was not closed: it could still spend")
    return f"{len(record.spends)} spends come to {float(record.used / record.cap):.1%} of the budget"


def _measurements(parts: _Parts) -> str:
    """Every measured marginal has a booked answer with just its noise."""
    booked: Counter[Fraction] = Counter()
    for charged in parts.record.spends:
        spend = charged.spend
        if spend.verb in ("measure", "discover") and isinstance(
            spend.law, DiscreteGaussian | DiscreteLaplace | ExponentialCount
        ):
            booked[spend.law.variance] += spend.answers
    measured = Counter(item.variance for item in parts.measurements.items)
    if measured - booked:
        raise _wrong("a measurement has noise that was not booked")
    told = parts.measurements.told
    laws = [
        each.spend.law
        for each in parts.record.spends
        if (each.spend.verb, each.spend.what) == ("discover", WHOLE_ROWS)
    ]
    if (told is not None) is not bool(laws):
        raise _wrong("rows were told that were not paid for, or paid for and not told")
    least = max((law.threshold for law in laws if isinstance(law, Stability)), default=0)
    if told is not None and told.counts.min(initial=least + 1) <= least:
        raise _wrong("a row was told that is not above the threshold")
    rows = "" if told is None else f", {len(told.counts)} different rows"
    return (
        f"{in_words(item.marginal for item in parts.measurements.items)}{rows}: all booked with their noise"
    )


def _learnt(parts: _Parts) -> str:
    """Every domain that is called learnt was paid for, and every one that was paid for is called learnt."""
    told = {
        name
        for name, column in parts.schema.columns.items()
        if column.origin is Origin.LEARNT or column.draft != column
    }
    asked = {charged.spend.what for charged in parts.record.spends if charged.spend.verb == "discover"}
    paid = {name for name in parts.schema.columns if asked & {f"values of {name!r}", f"bins of {name!r}"}}
    if told != paid:
        raise _wrong(f"the domain of {min(told ^ paid)!r} does not come from where the codebook says")
    return f"{len(told)} learnt domains, all paid for" if told else "none was learnt"


def _codebook(parts: _Parts) -> str:
    if parts.codebook != codebook(parts.schema, statement=parts.statement):
        raise _wrong("the codebook does not say what its schema says")
    return f"{len(parts.schema.columns)} columns as the schema has them"


def _rows(folder: Path, manifest: Manifest, parts: _Parts) -> str:
    first = next(name for name in TABLE_FILES if name in manifest.files)
    where = _where(manifest.selection, parts)
    for name in table_names(first, implicates=manifest.implicates):
        table = read_table(folder / name, schema=parts.schema)
        if table.num_rows != parts.statement["total"]["rows"]:
            raise _wrong(f"{name} does not have the number of rows that the statement gives")
        outside = first_outside(table, schema=parts.schema)
        if outside is not None:
            raise _wrong(f"column {outside!r} of {name} holds values outside its codebook")
        rules = TableCodec(parts.schema).broken(table)
        broken = next((text for text, count in rules.items() if count), None)
        if broken is not None:
            raise _wrong(f"rows of {name} break a rule of the codebook: {broken}")
        if where is not None and not where.holds(table).all():
            raise _wrong(f"rows of {name} are not where {where.text}")
    kept = f" and keep its {len(rules)} rules" if rules else ""
    some = f", all where {where.text}" if where is not None else ""
    tables = f"{manifest.implicates} tables of " if manifest.implicates > 1 else ""
    return f"{tables}{table.num_rows} rows, all within the codebook{kept}{some}"


def _where(selection: Selection | None, parts: _Parts) -> Where | None:
    """Return the condition of all rows, after making sure that the model has the share of them that is told."""
    if selection is None:
        return None
    where = Where.of(selection.where, schema=parts.schema)
    share = condition(parts.model, where.rules, text=where.text).share
    if abs(share - selection.share) > SAME_SHARE * share:
        raise _wrong(f"the model has another share of rows where {where.text} than the statement gives")
    return where


def _wrong(message: str) -> ReleaseError:
    return ReleaseError(message, hint="ask the publisher for an unaltered copy")
