"""The street of checks: a release's claims → noisy sums of private rows → yes, no or can't say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.api.estimate import check_estimable
from populace.api.request import RunRequest
from populace.api.reservation import reserve
from populace.core.errors import LedgerError, ReleaseError, UsageError
from populace.core.progress import Progress, silent
from populace.core.run_state import current_state, run_state
from populace.core.table_address import refuse_push_down
from populace.core.untrusted_files import read_object
from populace.privacy.accounting.budget import Budget, Number
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.private.barrier import Barrier
from populace.private.capacity import check_capacity
from populace.private.dry_run import EmptyTableOracle
from populace.private.private_table import PrivateTable
from populace.private.read.databases.open_database import open_snapshot
from populace.release.bundle import Release
from populace.release.checks_bundle import Checks
from populace.release.manifest import MANIFEST_FILE, Manifest, digest_file
from populace.release.streamed_table import read_whole
from populace.schema.codec.numeric_values import numeric_column_names
from populace.schema.hints import quote_names
from populace.schema.linked.linked_tables import refuse_linked
from populace.schema.schema import Schema
from populace.survey.claims.claim_answers import CheckedClaim, ClaimPlan, answer_claims
from populace.survey.claims.claim_bounds import refuse_decided
from populace.survey.claims.claim_questions import Reference
from populace.survey.claims.claim_rows import ClaimRows
from populace.survey.claims.claims import CHECK_METHOD, Claims, refuse_unbounded
from populace.survey.survey_transcript import SurveyRecorder

if TYPE_CHECKING:
    from populace.privacy.noise.noise_source import NoiseSource


def check(
    release: Release | Path | str,
    data: Any,
    *,
    schema: Schema | Path | str,
    claims: Claims | Path | str,
    epsilon: Number,
    delta: Number = 0,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
) -> Checks:
    """Return whether claims about a release hold in the private rows: yes, no or can't say, for an (epsilon, delta).

    `claims` is the path of a TOML file, or `Claims`. A claim that compares statistics is asked of the private rows as
    it is; an estimate with a tolerance is the release's own, unless the file gives a value. Each answer is a noisy one,
    paid for from the account of the data, and wrong with a probability of at most 5 %.
    What cannot be asked is refused before anything is spent; so are statistics that one row can move without bound, and
    claims that the ranges of the schema decide.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> schema = pp.Schema.from_sizes({"smokes": 2})
    >>> asked = {"schema": schema, "epsilon": 1, "dataset": "smokers", "ledger": "books.db"}
    >>> release = pp.synthesize(people, delta=0, **asked)
    >>> account = pp.Ledger.open("books.db").grant("smokers", epsilon=1, delta=0)
    >>> claims = pp.Claims.parse('[[claims]]\\nclaim = "share(smokes == 1)"\\nwithin = 0.1\\n', schema=schema)
    >>> pp.check(release, people, claims=claims, **asked).answers[0].answer.value
    'yes'
    """
    request = RunRequest.of(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=None,
        purpose=CHECK_METHOD,
        ledger=ledger,
        dataset=dataset,
        noise=noise,
    )
    return check_request(request, release=release, claims=claims, progress=progress)


@run_state()
def check_request(
    request: RunRequest,
    *,
    release: Release | Path | str,
    claims: Claims | Path | str,
    progress: Progress | None = None,
) -> Checks:
    """Return the checks that a request asks for; see `check`."""
    plan, digest = plan_checks(request, release=release, claims=claims)
    answer_claims(EmptyTableOracle(schema=request.schema), plan=plan)
    note = find_unknown_run(request.ledger, release)
    table = PrivateTable.of(open_snapshot(request.data), schema=request.schema)
    run, source = reserve(request, delta=request.delta, plan=Adaptivity.FIXED)
    (progress or silent)("adding up", 0.0)
    oracle = SurveyRecorder(Barrier(table, run=run, noise=source))
    answers: tuple[CheckedClaim, ...] = ()

    def make() -> Checks:
        if not run.record().finished:
            run.finish()
        return Checks(
            plan=plan,
            answers=answers,
            transcript=oracle.transcript,
            record=run.record(),
            release=digest,
            ledger=request.ledger.absolute(),
            notes=() if note is None else (note,),
        )

    def collect() -> Mapping[str, Any]:
        """Return what is to be kept: all noisy sums, and the answers where they were found."""
        with suppress(Exception):
            if answers:
                return {"answers": oracle.transcript, "checks": make()}
        return {"answers": oracle.transcript}

    current_state().paid = collect
    answers = answer_claims(oracle, plan=plan)
    return make()


def plan_checks(
    request: RunRequest, *, release: Release | Path | str, claims: Claims | Path | str
) -> tuple[ClaimPlan, str | None]:
    """Return what a request asks of the private rows, and the digest of the release's manifest; no row is read."""
    schema = request.schema
    refuse_linked(
        schema.linked,
        what="claims are about one",
        hint="give a schema of that table alone; with an id and rows_per_unit it can use the same account",
    )
    refuse_push_down(request.data, what="claims are checked against the rows")
    check_estimable(schema)
    if not isinstance(claims, Claims | str | Path):
        raise UsageError(
            f"claims is a {type(claims).__name__}.",
            hint="give a path, or pp.Claims.load(path, schema=schema)",
        )
    claims = claims if isinstance(claims, Claims) else Claims.load(claims, schema=schema)
    if claims.schema != schema:
        raise UsageError("the claims were read with another schema.", hint="read both with one schema")
    refuse_unbounded(claims)
    refuse_decided(claims)
    check_capacity(schema, numbers=len(numeric_column_names(schema)))
    folder = None if isinstance(release, Release) else Path(release)
    if folder is not None:
        refuse_released_data(request.data, folder)
    released = release if isinstance(release, Release) else Release.load(release)
    rows = read_released_rows(released, schema=schema)
    plan = ClaimPlan.of(
        claims,
        [Reference.of(claim, rows) for claim in claims],
        budget=Budget.of(request.epsilon, request.delta, unit=schema.unit),
    )
    digest = None if folder is None else digest_file(folder / MANIFEST_FILE)
    return plan, digest


def find_unknown_run(ledger: Path, release: Release | Path | str) -> str | None:
    """Return what to tell where a ledger does not hold the run of a release: what was spent before is not added."""
    if isinstance(release, Release):
        run = release.measurements.record.run
    else:
        Manifest.load(Path(release))
        _, record = read_object(Path(release) / "statement.json", inner="record")
        run = RunRecord.from_json(record).run
    if ledger.exists():
        books = Ledger.existing(ledger)
        with suppress(LedgerError):
            books.record(run)
            return None
    return (
        f"the ledger {ledger} does not hold the run of this release; give --ledger the one that paid for it, or the "
        "cost of both is added up nowhere"
    )


def refuse_released_data(data: Any, folder: Path) -> None:
    """Refuse a file of the release in place of the private rows, by its path alone."""
    if isinstance(data, str | Path) and Path(folder).resolve() in Path(data).resolve().parents:
        raise UsageError(
            f"{data} is a file of the release itself.",
            hint="give the private file that the release was made from",
        )


def read_released_rows(release: Release, *, schema: Schema) -> ClaimRows:
    """Return the synthetic rows of a release as claims see them; each stands for its part of the noisy total."""
    if release.selection is not None:
        raise ReleaseError(
            f"the release holds only rows where {release.selection.where}.",
            hint="check claims against a release of all rows",
        )
    made_with = release.measurements.schema
    if made_with.geography is not None or made_with.linked is not None:
        raise ReleaseError(
            "the release is of a geography or of linked tables, whose rows are not rows of one table.",
            hint="check claims against a release of one table",
        )
    table = read_whole(release.synthetic)
    needed = [name for name in schema.columns if name not in schema.layout.functions]
    if lacking := [name for name in needed if name not in table.column_names]:
        raise ReleaseError(
            f"the release has no column {quote_names(lacking)}.", hint="give the schema that it was made with"
        )
    people = release.model.total / table.num_rows if table.num_rows else 1.0
    return ClaimRows.of(table, schema=schema, people=people)
