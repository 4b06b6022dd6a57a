"""Verification of a release of estimates: all numbers follow from the noisy answers, and these were paid for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from populace.core.untrusted_files import (
    altered_error,
    read_object,
    read_text,
    refuse_parse_errors,
    same_json,
)
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS, STEPS
from populace.privacy.accounting.mechanisms import Mechanism, mechanism_from_json
from populace.privacy.ledger.run_record import RunRecord
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import Manifest, link_estimate_parents, write_estimate_command
from populace.release.release_files import write_statement_texts
from populace.release.statement.statement import Statement
from populace.release.verify.checks import CheckOutcome, CheckResult, check_budget, run_check
from populace.release.verify.verify_bytes import REPORT_FILE, check_report, check_rewritten, skip_report
from populace.release.verify.verify_rows import describe_differences
from populace.release.verify.verify_statement import check_codebook, check_noise, check_statement
from populace.survey.answer_queries import answer_queries
from populace.survey.estimate_result import Estimate
from populace.survey.survey_transcript import SurveyReplay

# Two machines may differ in the last digits that they compute.
RELATIVE_TOLERANCE = 1e-6

# As the books have the questions of a transcript: the verb, and in how many steps one row is told.
_BOOKED = {
    "sum": ("measure", STEPS),
    "smooth": ("smooth", 1),
    "bound-size": ("score", LOG_STEPS),
    "choose-bins": ("choose", SCORE_STEPS),
}


# What has a check of its own.
_DERIVED = {"stamp": None, "schema_digest": None, "ledger_entry": None}


def check_estimates(
    folder: Path, manifest: Manifest, *, quick: bool
) -> tuple[RunRecord | None, list[CheckResult]]:
    """Check what the files of a folder say, after their names and digests."""
    loaded: list[_EstimateParts] = []

    def load() -> str:
        loaded.append(_EstimateParts.load(folder, manifest))
        return "every file can be read"

    first = run_check("contents", load)
    if not first.passed:
        return None, [first]
    parts, found = loaded[0], loaded[0].found
    checks = [
        run_check("real noise", parts.check_noise),
        run_check("parents", parts.check_parents),
        run_check("statement", parts.check_statement),
        run_check("budget", lambda: check_budget(found.record)),
        run_check("answers", lambda: _check_answers(found)),
        run_check("estimates", lambda: _check_recomputed(found, table=parts.table)),
        run_check("codebook", parts.check_codebook),
    ]
    if all(check.passed for check in checks):
        texts = found.estimate_texts() | parts.statement_texts
        checks.append(check_rewritten(folder, manifest, texts=texts))
    if REPORT_FILE in manifest.files and quick:
        checks.append(skip_report())
    elif REPORT_FILE in manifest.files and all(check.outcome is not CheckOutcome.FAILED for check in checks):
        checks.append(
            check_report(folder, manifest, build=found.report, others=describe_differences(manifest))
        )
    return found.record, checks


@dataclass(frozen=True, kw_only=True, eq=False)
class _EstimateParts:
    """The files of a folder of estimates, and what should be in them."""

    manifest: Manifest
    found: Estimates
    statement: Any
    codebook: Any
    saved: dict[str, Any]
    page: str
    table: str

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> _EstimateParts:
        statement, _ = read_object(folder / "statement.json", inner="record")
        codebook, _ = read_object(folder / "codebook.json", inner="schema")
        saved, _ = read_object(folder / "estimates.json", inner="answers")
        page, table = (read_text(folder / name) for name in ("statement.md", "estimates.csv"))
        found = Estimates.load(folder)
        with refuse_parse_errors("estimates.json"):
            if not same_json({**saved, **_DERIVED}, {**found.to_json(), **_DERIVED}):
                raise altered_error("estimates.json is not one that populace writes")
        return cls(
            manifest=manifest,
            found=found,
            statement=statement,
            codebook=codebook,
            saved=saved,
            page=page,
            table=table,
        )

    @cached_property
    def expected(self) -> Statement:
        """The statement that follows from the record."""
        return self.found.state(form=self.manifest.number)

    @cached_property
    def statement_texts(self) -> dict[str, str]:
        """The texts that follow from the record, as they are written."""
        return write_statement_texts(
            self.expected, schema=self.found.schema, version=self.manifest.versions["populace"]
        )

    def check_noise(self) -> str:
        stamps = (self.manifest.stamp, self.saved.get("stamp"), self.codebook.get("stamp"))
        return check_noise(*stamps, rehearsal=self.found.record.rehearsal)

    def check_statement(self) -> str:
        expected_manifest = replace(
            self.manifest,
            dataset=self.expected["dataset"],
            command=write_estimate_command(self.expected),
            # No rows were drawn.
            sampling_seed=None,
            rows_asked=None,
            selection=None,
            implicates=1,
            drawing=None,
            arithmetic=None,
        )
        return check_statement(
            self.statement,
            expected=self.expected,
            page=self.page,
            expected_page=self.statement_texts["statement.md"],
            manifest=self.manifest,
            expected_manifest=expected_manifest,
        )

    def check_codebook(self) -> str:
        return check_codebook(
            self.codebook, schema=self.found.schema, statement=self.expected, form=self.manifest.number
        )

    def check_parents(self) -> str:
        record, schema = self.found.record, self.found.schema
        for one, other, what in (
            (schema.digest, record.schema_digest, "the codebook's schema is not the one that was paid for"),
            (self.saved.get("schema_digest"), schema.digest, "the estimates have another schema"),
            (
                self.saved.get("ledger_entry"),
                record.digest,
                "the estimates come from another run than the statement",
            ),
            (
                self.manifest.parents,
                link_estimate_parents(self.expected),
                "the manifest names other parents",
            ),
        ):
            if one != other:
                raise altered_error(what)
        return "schema → ledger entry → estimates"


def _check_answers(found: Estimates) -> str:
    """Every answer was booked, with just its noise, and for as far as one unit moves it."""
    unit = found.record.unit.marginal_l1
    booked: Counter[tuple[str, int, Mechanism]] = Counter()
    for charged in found.record.spends:
        spend = charged.spend
        if spend.l1 < spend.steps * unit:
            raise altered_error(f"{spend} is booked for less than one {found.record.unit.name} can move")
        booked[spend.verb, spend.steps, spend.mechanism] += spend.answers
    try:
        saved = Counter(
            (*_BOOKED[each.verb], mechanism_from_json(each.mechanism)) for each in found.transcript
        )
    except (KeyError, TypeError, ValueError) as failure:
        raise altered_error("an answer has no noise distribution") from failure
    if saved != booked:
        raise altered_error("the answers are not those that were booked, with just their noise")
    return f"{sum(saved.values())} noisy answers, all booked with their noise"


def _check_recomputed(found: Estimates, *, table: str) -> str:
    """The answers give the same estimates again."""
    player = SurveyReplay(found.transcript, schema=found.schema)
    again = answer_queries(player, plan=found.plan)
    player.finish()
    if len(again) != len(found.rows) or not all(map(_are_same, again, found.rows)):
        raise altered_error("the estimates do not follow from the noisy answers")
    if table != found.to_csv():
        raise altered_error("estimates.csv does not say what estimates.json says")
    return f"{len(again)} estimates follow from the noisy answers"


def _are_same(one: Estimate, other: Estimate) -> bool:
    first, second = one.to_json(), other.to_json()
    return all(_are_close(first[key], second[key]) for key in first)


def _are_close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    return bool(one == other)
