"""Verification of a release folder: nothing missing, nothing altered, and the promise follows from the record in it.

What it cannot see: whether the record is the ledger's. Compare `ledger_entry` with `populace ledger show` for that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from populace.errors import PopulaceError, environment_cause
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
from populace.records import dataclass
from populace.release.answers import Answers
from populace.release.checks import (
    Check,
    Verdict,
    check_budget,
    check_files,
    checked,
    other_version,
    read_json,
    read_text,
    wrong,
)
from populace.release.codebook import codebook
from populace.release.drawing import MOST_IMPLICATES, RowsFrom, Selection, expected_rows
from populace.release.frame import read_table
from populace.release.inside import first_outside
from populace.release.intervals import check_intervals
from populace.release.manifest import (
    ALWAYS,
    ALWAYS_ESTIMATED,
    SOMETIMES,
    TABLE_FILES,
    Manifest,
    command,
    digest,
    parents,
    table_names,
)
from populace.release.page import markdown
from populace.release.statement import Statement, state
from populace.schema.coding import TableCodec
from populace.schema.columns import Origin
from populace.schema.schema import Schema
from populace.schema.where import Where

# A share is told to six digits, and two machines may sum it in another order.
SAME_SHARE = 1e-4


def verify(folder: str | Path) -> Verdict:
    """Check a release folder against its manifest, its record and its codebook.

    First come the names and the digests of the files; where they are wrong, nothing is read further.
    """
    folder = Path(folder)
    manifest = Manifest.load(folder)
    checks = [checked("files", lambda: _files(folder, manifest))]
    if checks[-1].passed:
        checks.append(checked("digests", lambda: _digests(folder, manifest)))
    if checks[-1].passed:
        checks += _contents(folder, manifest)
    return Verdict(checks=tuple(checks))


def _contents(folder: Path, manifest: Manifest) -> list[Check]:
    if manifest.estimated:
        from populace.release.verify_estimates import contents

        return contents(folder, manifest)
    try:
        parts = _Parts.load(folder)
    except PopulaceError as failure:
        if environment_cause(failure) is not None:
            raise
        return [Check(name="contents", passed=False, detail=failure.message)]
    return [
        checked("real noise", lambda: _real_noise(manifest, parts)),
        checked("parents", lambda: _parents(manifest, parts)),
        checked("statement", lambda: _statement(manifest, parts)),
        checked("budget", lambda: check_budget(parts.record)),
        checked("measurements", lambda: _measurements(parts)),
        checked("intervals", lambda: check_intervals(folder, measurements=parts.measurements)),
        checked("domains", lambda: _learnt(parts)),
        checked("codebook", lambda: _codebook(parts)),
        checked("rows", lambda: _rows(folder, manifest, parts)),
    ]


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
        statement, record = read_json(folder / "statement.json", inner="record")
        book, text = read_json(folder / "codebook.json", inner="schema")
        page = read_text(folder / "statement.md")
        return cls(
            statement=statement,
            page=page,
            codebook=book,
            schema=Schema.parse(text, released=True),
            record=RunRecord.from_json(record),
            measurements=Measurements.load(folder),
            model=Model.load(folder),
        )


def _files(folder: Path, manifest: Manifest) -> str:
    if manifest.estimated:
        check_files(folder, manifest, always=ALWAYS_ESTIMATED, sometimes=("report.html",))
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
        try:
            found = digest(folder / name)
        except OSError as failure:
            raise wrong(f"{name} cannot be read: {failure.strerror or 'the system refuses'}") from failure
        if found != expected:
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
        differing = next(
            key for key in {**expected, **parts.statement} if parts.statement.get(key) != expected.get(key)
        )
        raise wrong(f"“{differing}” does not follow from the record{other_version(version)}")
    measured = [item.marginal for item in parts.measurements.items]
    if parts.page != markdown(expected, measured=measured, version=version):
        raise wrong(f"statement.md does not say what statement.json says{other_version(version)}")
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
        raise wrong("a measurement has noise that was not booked")
    told = parts.measurements.told
    laws = [
        each.spend.law
        for each in parts.record.spends
        if (each.spend.verb, each.spend.what) == ("discover", WHOLE_ROWS)
    ]
    if (told is not None) is not bool(laws):
        raise wrong("rows were told that were not paid for, or paid for and not told")
    least = max((law.threshold for law in laws if isinstance(law, Stability)), default=0)
    if told is not None and told.counts.min(initial=least + 1) <= least:
        raise wrong("a row was told that is not above the threshold")
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
        raise wrong(f"the domain of {min(told ^ paid)!r} does not come from where the codebook says")
    return f"{len(told)} learnt domains, all paid for" if told else "none was learnt"


def _codebook(parts: _Parts) -> str:
    if parts.codebook != codebook(parts.schema, statement=parts.statement):
        raise wrong("the codebook does not say what its schema says")
    return f"{len(parts.schema.columns)} columns as the schema has them"


def _rows(folder: Path, manifest: Manifest, parts: _Parts) -> str:
    first = next(name for name in TABLE_FILES if name in manifest.files)
    where = _where(manifest.selection, parts)
    for name in table_names(first, implicates=manifest.implicates):
        table = read_table(folder / name, schema=parts.schema)
        if table.num_rows != parts.statement["total"]["rows"]:
            raise wrong(f"{name} does not have the number of rows that the statement gives")
        outside = first_outside(table, schema=parts.schema)
        if outside is not None:
            raise wrong(f"column {outside!r} of {name} holds values outside its codebook")
        rules = TableCodec(parts.schema).broken(table)
        broken = next((text for text, count in rules.items() if count), None)
        if broken is not None:
            raise wrong(f"rows of {name} break a rule of the codebook: {broken}")
        if where is not None and not where.holds(table).all():
            raise wrong(f"rows of {name} are not where {where.text}")
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
        raise wrong(f"the model has another share of rows where {where.text} than the statement gives")
    return where
