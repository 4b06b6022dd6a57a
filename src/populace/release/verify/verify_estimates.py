"""Verification of a release of estimates: all numbers follow from the noisy answers, and these were paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from populace.core.untrusted_files import altered_error, read_text
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import Manifest, write_estimate_command
from populace.release.verify.answered_contents import AnsweredContents
from populace.release.verify.checks import Inconclusive
from populace.release.verify.folder_contents import Check
from populace.survey.answer_queries import answer_queries
from populace.survey.survey_transcript import SurveyReplay

# Two machines may differ in the last digits that they compute.
RELATIVE_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimateContents(AnsweredContents[Estimates]):
    """The files of a folder of estimates, and what should be in them."""

    kind: ClassVar[str] = "estimates"
    table: str

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        table, found = read_text(folder / "estimates.csv"), Estimates.load(folder)
        return cls(**cls.read_parts(folder, manifest, found=found, name="estimates.json"), table=table)

    @property
    def command(self) -> str:
        return write_estimate_command(self.expected)

    @property
    def answer_texts(self) -> dict[str, str]:
        return self.found.estimate_texts()

    @property
    def slow_checks(self) -> Mapping[str, tuple[Check, str]]:
        if not self.found.older:
            return super().slow_checks
        # The name that synthetic rows have for it: what is stated cannot be made again here.
        reason = (
            f"not computed again: estimates of format {self.found.form} follow from questions of that format"
        )

        def give_up() -> str:
            raise Inconclusive(reason)

        return {"redrawn": (give_up, reason), **super().slow_checks}

    def build_report(self) -> str:
        return self.found.report()

    def check_recomputed(self) -> str:
        """Both files say the same, and the answers give the same estimates again; older formats are not asked."""
        found = self.found
        try:
            same = self.table == found.to_csv()
        except (pa.ArrowException, TypeError) as failure:
            raise altered_error("estimates.json holds texts and numbers in each other's place") from failure
        if not same:
            raise altered_error("estimates.csv does not say what estimates.json says")
        if found.older:
            return f"{len(found.rows)} estimates, in both files alike"
        player = SurveyReplay(found.transcript, schema=found.schema)
        again = answer_queries(player, plan=found.plan)
        player.finish()
        if not are_same([row.to_json() for row in again], [row.to_json() for row in found.rows]):
            raise altered_error("the estimates do not follow from the noisy answers")
        return f"{len(again)} estimates follow from the noisy answers"


def are_same(again: Sequence[Mapping[str, Any]], saved: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether as many results were computed again, and all of their values agree."""
    return len(again) == len(saved) and all(
        _are_close(value, other[key])
        for one, other in zip(again, saved, strict=True)
        for key, value in one.items()
    )


def _are_close(one: Any, other: Any) -> bool:
    """Say whether two numbers agree but for their last digits, or two other values altogether."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    return bool(one == other)
