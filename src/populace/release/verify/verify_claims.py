"""Verification of a folder of checked claims: all answers follow from the noisy sums, and these were paid for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from populace.core.untrusted_files import altered_error
from populace.release.checks_bundle import Checks
from populace.release.manifest import CHECK_FILE, Manifest, write_check_command
from populace.release.verify.answered_contents import AnsweredContents
from populace.release.verify.verify_estimates import are_same
from populace.survey.claims.claim_answers import answer_claims
from populace.survey.survey_transcript import SurveyReplay


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimContents(AnsweredContents[Checks]):
    """The files of a folder of checked claims, and what should be in them."""

    kind: ClassVar[str] = "checks"

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        return cls(**cls.read_parts(folder, manifest, found=Checks.load(folder), name=CHECK_FILE))

    @property
    def command(self) -> str:
        return write_check_command(self.expected)

    @property
    def answer_texts(self) -> dict[str, str]:
        return self.found.check_texts()

    def build_report(self) -> str:
        raise altered_error("a folder of checked claims has no report")

    def check_recomputed(self) -> str:
        """Refuse answers that do not follow from the noisy sums."""
        player = SurveyReplay(self.found.transcript, schema=self.schema)
        again = answer_claims(player, plan=self.found.plan)
        player.finish()
        if not are_same([each.to_json() for each in again], [each.to_json() for each in self.found.answers]):
            raise altered_error("the answers do not follow from the noisy sums")
        return f"{len(again)} answers follow from the noisy sums"
