"""Verification of a folder of checked claims: all answers follow from the noisy sums, and these were paid for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from populace.core.untrusted_files import (
    altered_error,
    read_object,
    read_text,
    refuse_parse_errors,
    same_json,
)
from populace.release.checks_bundle import Checks
from populace.release.manifest import CHECK_FILE, Manifest, link_estimate_parents, write_check_command
from populace.release.statement.statement import Statement
from populace.release.verify.checks import check_budget
from populace.release.verify.folder_contents import Check, FolderContents, check_links
from populace.release.verify.verify_bytes import check_rewritten
from populace.release.verify.verify_estimates import are_close, check_answers
from populace.survey.claims.claim_answers import answer_claims
from populace.survey.survey_transcript import SurveyReplay


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimContents(FolderContents):
    """The files of a folder of checked claims, and what should be in them."""

    found: Checks
    saved: dict[str, Any]

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        saved, _ = read_object(folder / CHECK_FILE, inner="answers")
        found = Checks.load(folder)
        derived = dict.fromkeys(("stamp", "schema_digest", "ledger_entry"))
        with refuse_parse_errors(CHECK_FILE):
            if not same_json({**saved, **derived}, {**found.to_json(), **derived}):
                raise altered_error(f"{CHECK_FILE} is not one that populace writes")
        return cls(
            folder=folder,
            manifest=manifest,
            statement=read_object(folder / "statement.json", inner="record")[0],
            page=read_text(folder / "statement.md"),
            codebook=read_object(folder / "codebook.json", inner="schema")[0],
            schema=found.schema,
            record=found.record,
            found=found,
            saved=saved,
        )

    @property
    def checks(self) -> dict[str, Check]:
        return {
            "real noise": lambda: self.check_noise(self.saved["stamp"], rehearsal=self.record.rehearsal),
            "parents": self.check_parents,
            "statement": lambda: self.check_statement(
                replace(
                    self.manifest,
                    dataset=self.expected["dataset"],
                    command=write_check_command(self.expected),
                )
            ),
            "budget": lambda: check_budget(self.record),
            "answers": lambda: check_answers(self.record, self.found.transcript),
            "checks": self.check_recomputed,
            "codebook": self.check_codebook,
        }

    @cached_property
    def expected(self) -> Statement:
        return self.found.state(form=self.manifest.number)

    def build_report(self) -> str:
        raise altered_error("a folder of checked claims has no report")

    def check_written(self) -> str:
        texts = self.found.check_texts() | self.texts
        return check_rewritten(self.folder, self.manifest, texts=texts, write=None)

    def check_parents(self) -> str:
        """Refuse answers that do not come from the record and the schema."""
        parents = link_estimate_parents(self.expected, of="checks")
        check_links(
            (
                (self.schema.digest, self.record.schema_digest, "the codebook's schema is not the paid one"),
                (self.saved["schema_digest"], self.schema.digest, "the claims have another schema"),
                (self.saved["ledger_entry"], self.record.digest, "the claims were checked in another run"),
                (self.manifest.parents, parents, "the manifest names other parents"),
            )
        )
        return "schema → ledger entry → checks"

    def check_recomputed(self) -> str:
        """Refuse answers that do not follow from the noisy sums."""
        player = SurveyReplay(self.found.transcript, schema=self.schema)
        again = answer_claims(player, plan=self.found.plan)
        player.finish()
        pairs = zip(again, self.found.answers, strict=False)
        same = all(
            are_close(value, other.to_json()[key])
            for one, other in pairs
            for key, value in one.to_json().items()
        )
        if len(again) != len(self.found.answers) or not same:
            raise altered_error("the answers do not follow from the noisy sums")
        return f"{len(again)} answers follow from the noisy sums"
