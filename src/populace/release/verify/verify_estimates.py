"""Verification of a release of estimates: all numbers follow from the noisy answers, and these were paid for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

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
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import Manifest, link_estimate_parents, write_estimate_command
from populace.release.statement.statement import Statement
from populace.release.verify.checks import Inconclusive, check_budget
from populace.release.verify.folder_contents import Check, FolderContents, check_links
from populace.release.verify.verify_bytes import check_rewritten
from populace.survey.answer_queries import answer_queries
from populace.survey.estimate_result import Estimate
from populace.survey.survey_transcript import SurveyReplay

# Two machines may differ in the last digits that they compute.
RELATIVE_TOLERANCE = 1e-6

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
class EstimateContents(FolderContents):
    """The files of a folder of estimates, and what should be in them."""

    found: Estimates
    saved: dict[str, Any]
    table: str

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        statement, _ = read_object(folder / "statement.json", inner="record")
        codebook, _ = read_object(folder / "codebook.json", inner="schema")
        saved, _ = read_object(folder / "estimates.json", inner="answers")
        page, table = (read_text(folder / name) for name in ("statement.md", "estimates.csv"))
        found = Estimates.load(folder)
        with refuse_parse_errors("estimates.json"):
            if not same_json({**saved, **_DERIVED}, {**found.to_json(), **_DERIVED}):
                raise altered_error("estimates.json is not one that populace writes")
        return cls(
            folder=folder,
            manifest=manifest,
            statement=statement,
            page=page,
            codebook=codebook,
            schema=found.schema,
            record=found.record,
            found=found,
            saved=saved,
            table=table,
        )

    @property
    def checks(self) -> dict[str, Check]:
        stamp, rehearsal = self.saved.get("stamp"), self.record.rehearsal
        return {
            "real noise": lambda: self.check_noise(stamp, rehearsal=rehearsal),
            "parents": self.check_parents,
            "statement": lambda: self.check_statement(self._expected_manifest),
            "budget": lambda: check_budget(self.record),
            "answers": lambda: check_answers(self.record, self.found.transcript),
            "estimates": lambda: _check_estimates(self.found, table=self.table),
            "codebook": self.check_codebook,
        }

    @property
    def slow_checks(self) -> Mapping[str, tuple[Check, str]]:
        if not self.found.older:
            return super().slow_checks
        # The name that synthetic rows have for it: what is told cannot be made again here.
        reason = (
            f"not computed again: estimates of format {self.found.form} follow from questions of that format"
        )

        def give_up() -> str:
            raise Inconclusive(reason)

        return {"redrawn": (give_up, reason), **super().slow_checks}

    @cached_property
    def expected(self) -> Statement:
        return self.found.state(form=self.manifest.number)

    def build_report(self) -> str:
        return self.found.report()

    def check_written(self) -> str:
        texts = self.found.estimate_texts() | self.texts
        return check_rewritten(self.folder, self.manifest, texts=texts, write=None)

    def check_parents(self) -> str:
        """Refuse estimates that do not come from the record and the schema."""
        entry, parents = self.saved.get("ledger_entry"), link_estimate_parents(self.expected)
        paid = self.record.schema_digest
        check_links(
            (
                (self.schema.digest, paid, "the codebook's schema is not the one that was paid for"),
                (self.saved.get("schema_digest"), self.schema.digest, "the estimates have another schema"),
                (entry, self.record.digest, "the estimates come from another run than the statement"),
                (self.manifest.parents, parents, "the manifest names other parents"),
            )
        )
        return "schema → ledger entry → estimates"

    @property
    def _expected_manifest(self) -> Manifest:
        """The manifest with everything that follows from the statement written anew: no rows were drawn."""
        return Manifest(
            number=self.manifest.number,
            stamp=self.manifest.stamp,
            dataset=self.expected["dataset"],
            command=write_estimate_command(self.expected),
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


def _check_estimates(found: Estimates, *, table: str) -> str:
    """Both files say the same, and the answers give the same estimates again; those of older formats are not asked."""
    try:
        same = table == found.to_csv()
    except (pa.ArrowException, TypeError) as failure:
        raise altered_error("estimates.json holds texts and numbers in each other's place") from failure
    if not same:
        raise altered_error("estimates.csv does not say what estimates.json says")
    if found.older:
        return f"{len(found.rows)} estimates, in both files alike"
    player = SurveyReplay(found.transcript, schema=found.schema)
    again = answer_queries(player, plan=found.plan)
    player.finish()
    if len(again) != len(found.rows) or not all(map(_are_same, again, found.rows)):
        raise altered_error("the estimates do not follow from the noisy answers")
    return f"{len(again)} estimates follow from the noisy answers"


def _are_same(one: Estimate, other: Estimate) -> bool:
    second = other.to_json()
    return all(are_close(value, second[key]) for key, value in one.to_json().items())


def are_close(one: Any, other: Any) -> bool:
    """Say whether two numbers agree but for their last digits, or two other values altogether."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    return bool(one == other)
