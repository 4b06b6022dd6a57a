"""What folders of estimates and of checked claims have in common: noisy answers, and all that follows from them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from populace.core.untrusted_files import (
    altered_error,
    read_object,
    read_text,
    refuse_parse_errors,
    same_json,
)
from populace.measurements.answer_record import AnswerRecord
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS, STEPS
from populace.privacy.accounting.mechanisms import Mechanism, mechanism_from_json
from populace.privacy.ledger.run_record import RunRecord
from populace.release.checks_bundle import Checks
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import Manifest, link_estimate_parents
from populace.release.statement.statement import Statement
from populace.release.verify.checks import check_budget
from populace.release.verify.folder_contents import Check, FolderContents, check_links
from populace.release.verify.verify_bytes import check_rewritten

Answered = TypeVar("Answered", Estimates, Checks)

# As the books have the questions of a transcript: the verb, and in how many steps one row is expressed.
_BOOKED = {
    "sum": ("measure", STEPS),
    "smooth": ("smooth", 1),
    "bound-size": ("score", LOG_STEPS),
    "choose-bins": ("choose", SCORE_STEPS),
}
# What has a check of its own.
_DERIVED = {"stamp": None, "schema_digest": None, "ledger_entry": None}


@dataclass(frozen=True, kw_only=True, eq=False)
class AnsweredContents(FolderContents, Generic[Answered]):
    """The files of a folder of noisy answers; `kind` is what was made of them."""

    kind: ClassVar[str]
    found: Answered
    saved: dict[str, Any]

    @staticmethod
    def read_parts(folder: Path, manifest: Manifest, *, found: Answered, name: str) -> dict[str, Any]:
        """Read what all such folders hold; `name` is the file with the answers."""
        saved, _ = read_object(folder / name, inner="answers")
        with refuse_parse_errors(name):
            if not same_json({**saved, **_DERIVED}, {**found.to_json(), **_DERIVED}):
                raise altered_error(f"{name} is not one that populace writes")
        return {
            "folder": folder,
            "manifest": manifest,
            "statement": read_object(folder / "statement.json", inner="record")[0],
            "page": read_text(folder / "statement.md"),
            "codebook": read_object(folder / "codebook.json", inner="schema")[0],
            "schema": found.schema,
            "record": found.record,
            "found": found,
            "saved": saved,
        }

    @property
    @abstractmethod
    def command(self) -> str:
        """The command that the manifest should name."""

    @property
    @abstractmethod
    def answer_texts(self) -> dict[str, str]:
        """The files that hold the answers, as they are written."""

    @abstractmethod
    def check_recomputed(self) -> str:
        """Refuse what does not follow from the noisy answers."""

    @property
    def checks(self) -> dict[str, Check]:
        stamp, rehearsal = self.saved.get("stamp"), self.record.rehearsal
        return {
            "real noise": lambda: self.check_noise(stamp, rehearsal=rehearsal),
            "parents": self.check_parents,
            "statement": lambda: self.check_statement(self._expected_manifest),
            "budget": lambda: check_budget(self.record),
            "answers": lambda: check_answers(self.record, self.found.transcript),
            self.kind: self.check_recomputed,
            "codebook": self.check_codebook,
        }

    @cached_property
    def expected(self) -> Statement:
        return self.found.state(form=self.manifest.number)

    def check_written(self) -> str:
        texts = self.answer_texts | self.texts
        return check_rewritten(self.folder, self.manifest, texts=texts, write=None)

    def check_parents(self) -> str:
        """Refuse answers that do not come from the record and the schema."""
        parents, paid = link_estimate_parents(self.expected, of=self.kind), self.record.schema_digest
        schema, entry = (self.saved.get(key) for key in ("schema_digest", "ledger_entry"))
        check_links(
            (
                (self.schema.digest, paid, "the codebook's schema is not the one that was paid for"),
                (schema, self.schema.digest, f"the {self.kind} have another schema"),
                (entry, self.record.digest, f"the {self.kind} come from another run than the statement"),
                (self.manifest.parents, parents, "the manifest names other parents"),
            )
        )
        return f"schema → ledger entry → {self.kind}"

    @property
    def _expected_manifest(self) -> Manifest:
        """The manifest with everything that follows from the statement written anew: no rows were drawn."""
        return Manifest(
            number=self.manifest.number,
            stamp=self.manifest.stamp,
            dataset=self.expected["dataset"],
            command=self.command,
            versions=self.manifest.versions,
            parents=self.manifest.parents,
            files=self.manifest.files,
        )


def check_answers(record: RunRecord, transcript: Sequence[AnswerRecord]) -> str:
    """Every answer was booked, with just its noise, and for as far as one unit moves it."""
    unit = record.unit.marginal_l1
    booked: Counter[tuple[str, int, Mechanism]] = Counter()
    for charged in record.spends:
        spend = charged.spend
        if spend.l1 < spend.steps * unit:
            raise altered_error(f"{spend} is booked for less than one {record.unit.name} can move")
        booked[spend.verb, spend.steps, spend.mechanism] += spend.answers
    try:
        saved = Counter((*_BOOKED[each.verb], mechanism_from_json(each.mechanism)) for each in transcript)
    except (KeyError, TypeError, ValueError) as failure:
        raise altered_error("an answer has no noise distribution") from failure
    if saved != booked:
        raise altered_error("the answers are not those that were booked, with just their noise")
    return f"{sum(saved.values())} noisy answers, all booked with their noise"
