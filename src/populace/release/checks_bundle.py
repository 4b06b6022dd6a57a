"""Claims checked against private rows, as a release: the answers, the noisy sums behind them, and the promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from populace.core.notebook_html import render_card
from populace.core.untrusted_files import altered_error, read_object, refuse_parse_errors, require_text
from populace.measurements.answer_record import AnswerRecord
from populace.privacy.ledger.run_record import RunRecord
from populace.release.folder.destination import check_empty
from populace.release.manifest import (
    CHECK_FILE,
    MANIFEST_FILE,
    Manifest,
    describe_checks,
    dump_json,
    list_versions,
)
from populace.release.release_files import choose_booking_ledger, save_folder, write_statement_texts
from populace.release.row_selection import RowCountOrigin
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import RELEASE_FORMAT, Statement, compute_statement
from populace.schema.schema import Schema
from populace.survey.claims.claim_answers import CheckedClaim, ClaimPlan
from populace.survey.claims.claim_questions import Reference
from populace.survey.claims.claims import Claim, Claims

CHECKS_FORMAT = "populace checks 1"


@dataclass(frozen=True, eq=False, kw_only=True)
class Checks:
    """Claims with their answers, in the order of the file, and all they follow from.

    `release` is the digest of the manifest of the release that was checked, if it was a folder. `transcript` holds
    every sum that was paid for and its noisy answer; `record` what the ledger says of the run; `notes` what is to be
    known before the answers are used, and is not saved.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> schema = pp.Schema.from_sizes({"smokes": 2})
    >>> asked = {"schema": schema, "epsilon": 1, "dataset": "smokers", "ledger": "books.db"}
    >>> release = pp.synthesize(people, delta=0, **asked)
    >>> account = pp.Ledger.open("books.db").grant("smokers", epsilon=1, delta=0)
    >>> claims = pp.Claims.parse('[[claims]]\\nclaim = "share(smokes == 1) < 0.5"\\n', schema=schema)
    >>> pp.check(release, people, claims=claims, **asked).save("checks")
    >>> [found.answer.value for found in pp.Checks.load("checks").answers]
    ['yes']
    """

    plan: ClaimPlan
    answers: tuple[CheckedClaim, ...]
    transcript: tuple[AnswerRecord, ...]
    record: RunRecord
    release: str | None = None
    ledger: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self.plan.claims.schema

    def __repr__(self) -> str:
        stated = self.statement
        stamp = f"\n  {stated['stamp']}" if stated["stamp"] else ""
        lines = "".join(f"\n  {found.answer.value:9}  {found.claim}" for found in self.answers)
        lines += "".join(f"\n  WARNING: {note}" for note in self.notes)
        return (
            f"Checks of “{stated['dataset']}”: {len(self.answers)} claims, ε = {stated['epsilon_exact']}, "
            f"δ = {stated['delta_exact']} for one {stated['unit']}{stamp}{lines}"
        )

    def _repr_html_(self) -> str:
        stated = self.statement
        facts = {"ε =": stated["epsilon_exact"], "δ =": stated["delta_exact"], "for one": stated["unit"]}
        rows = [[found.claim, found.answer.value] for found in self.answers]
        title = f"Checks of “{stated['dataset']}”"
        return render_card(title, facts, header=("claim", "answer"), rows=rows, note=stated["stamp"] or "")

    @cached_property
    def statement(self) -> Statement:
        """What was promised and what it cost, computed from the ledger's record."""
        return self.state()

    def state(self, *, form: int = RELEASE_FORMAT) -> Statement:
        """Return the statement with the numbers of a format."""
        return compute_statement(
            self.record,
            schema=self.schema,
            answers=MeasuredContent(survey=tuple(list_check_limitations())),
            rows=0,
            rows_from=RowCountOrigin.NONE,
            form=form,
        )

    def to_json(self) -> dict[str, Any]:
        """Return `checks.json`: the answers, and all that they can be computed from again."""
        questions = self.plan.questions
        return {
            "format": CHECKS_FORMAT,
            "stamp": self.statement["stamp"],
            "dataset": self.record.dataset,
            "checks": [found.to_json() for found in self.answers],
            "claims": [claim.to_json() for claim in self.plan.claims],
            "references": [question.reference.to_json() for question in questions],
            "answers": [each.to_json() for each in self.transcript],
            "release": self.release,
            "schema_digest": self.schema.digest,
            "ledger_entry": self.record.digest,
        }

    def check_texts(self) -> dict[str, str]:
        """Return the file of a folder that holds the answers."""
        return {CHECK_FILE: dump_json(self.to_json())}

    def save(self, folder: str | Path, *, ledger: str | Path | None = None) -> None:
        """Write the folder. It appears complete or not at all, and its digests are booked in the ledger before."""
        booked = choose_booking_ledger(ledger, paid=self.ledger)
        check_empty(Path(folder))
        texts = write_statement_texts(self.statement, schema=self.schema, version=list_versions()["populace"])
        save_folder(
            Path(folder),
            texts=self.check_texts() | texts,
            describe=lambda place: describe_checks(place, statement=self.statement),
            record=self.record,
            ledger=booked,
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a folder of checked claims. It trusts the files; `verify` checks them."""
        folder = Path(folder)
        if not Manifest.load(folder).checked:
            raise altered_error(f"{MANIFEST_FILE} in {folder} lists no checked claims")
        saved, _ = read_object(folder / CHECK_FILE, inner="checks")
        _, text = read_object(folder / "codebook.json", inner="schema")
        _, record_json = read_object(folder / "statement.json", inner="record")
        with refuse_parse_errors(CHECK_FILE):
            if saved["format"] != CHECKS_FORMAT:
                raise ValueError("another format")
            schema = Schema.parse(require_text(text), released=True)
            record = RunRecord.from_json(record_json)
            claims = tuple(Claim.from_json(each, schema=schema) for each in saved["claims"])
            references = [Reference.from_json(each) for each in saved["references"]]
            return cls(
                plan=ClaimPlan.of(Claims(schema=schema, claims=claims), references, budget=record.budget),
                answers=tuple(CheckedClaim.from_json(each) for each in saved["checks"]),
                transcript=tuple(AnswerRecord.from_json(each) for each in saved["answers"]),
                record=record,
                release=None if saved["release"] is None else require_text(saved["release"]),
            )


def list_check_limitations() -> Iterator[str]:
    """Yield what nobody may read into answers about claims."""
    yield (
        "Each answer is about the rows of the private table, held to the public ranges of their columns, and not about "
        "a population that they were sampled from. Rows without a value that a claim asks for do not count for it."
    )
    yield (
        "An answer of yes or no is wrong with a probability of at most 5 %, by the law of the noise alone; that is of "
        "each answer, not of all at once. “can't say” means that noise hides on which side of its threshold a claim "
        "lies, and says nothing else."
    )
