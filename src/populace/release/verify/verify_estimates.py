"""Verification of a release of estimates: all numbers follow from the noisy answers, and these were paid for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from populace.core.untrusted_files import refuse_parse_errors, same_json
from populace.privacy.accounting.fixed_point import LOG_STEPS, SCORE_STEPS, STEPS
from populace.privacy.accounting.mechanisms import Mechanism, mechanism_from_json
from populace.privacy.ledger.run_record import RunRecord
from populace.release.codebook import build_codebook
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import Manifest, dump_json, link_estimate_parents, write_estimate_command
from populace.release.statement.statement_markdown import render_markdown
from populace.release.verify.checks import (
    CheckOutcome,
    CheckResult,
    altered_release,
    check_budget,
    read_release_json,
    read_release_text,
    run_check,
)
from populace.release.verify.compare_wording import check_markdown, find_difference, is_same_codebook
from populace.release.verify.verify_bytes import REPORT_FILE, check_report, check_rewritten, skip_report
from populace.release.verify.verify_rows import describe_differences
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
    loaded: list[tuple[Estimates, Any, Any, Any, dict[str, str]]] = []

    def load() -> str:
        statement, _ = read_release_json(folder / "statement.json", inner="record")
        book, _ = read_release_json(folder / "codebook.json", inner="schema")
        told, _ = read_release_json(folder / "estimates.json", inner="answers")
        texts = {name: read_release_text(folder / name) for name in ("statement.md", "estimates.csv")}
        found = Estimates.load(folder)
        with refuse_parse_errors("estimates.json"):
            if not same_json({**told, **_DERIVED}, {**found.to_json(), **_DERIVED}):
                raise altered_release("estimates.json is not one that populace writes")
        loaded.append((found, statement, book, told, texts))
        return "every file can be read"

    first = run_check("contents", load)
    if not first.passed:
        return None, [first]
    found, statement, book, told, texts = loaded[0]
    checks = [
        run_check(
            "real noise", lambda: _check_noise(manifest, found, stamps=[told.get("stamp"), book.get("stamp")])
        ),
        run_check("parents", lambda: _check_parents(manifest, found, told)),
        run_check(
            "statement", lambda: _check_statement(manifest, found, statement, page=texts["statement.md"])
        ),
        run_check("budget", lambda: check_budget(found.record)),
        run_check("answers", lambda: _check_answers(found)),
        run_check("estimates", lambda: _check_recomputed(found, table=texts["estimates.csv"])),
        run_check("codebook", lambda: _check_codebook(manifest, found, book)),
    ]
    if all(check.passed for check in checks):
        checks.append(check_rewritten(folder, manifest, texts=_expected_texts(manifest, found)))
    if REPORT_FILE in manifest.files and quick:
        checks.append(skip_report())
    elif REPORT_FILE in manifest.files and all(check.outcome is not CheckOutcome.FAILED for check in checks):
        checks.append(
            check_report(folder, manifest, build=found.report, others=describe_differences(manifest))
        )
    return found.record, checks


def _expected_texts(manifest: Manifest, found: Estimates) -> dict[str, str]:
    """Return all texts of a folder, as they are written."""
    statement = found.state(form=manifest.number)
    return {
        "estimates.csv": found.to_csv(),
        "estimates.json": dump_json(found.to_json()),
        "statement.json": dump_json(statement),
        "statement.md": render_markdown(statement, measured=[], version=manifest.versions["populace"]),
        "codebook.json": dump_json(build_codebook(found.schema, statement=statement, form=manifest.number)),
    }


def _check_noise(manifest: Manifest, found: Estimates, *, stamps: list[object]) -> str:
    if found.record.rehearsal or manifest.stamp or any(stamps):
        raise altered_release("a rehearsal: its noise was repeatable, so nothing in it is private")
    return "not a rehearsal"


def _check_parents(manifest: Manifest, found: Estimates, told: dict[str, Any]) -> str:
    record, schema = found.record, found.schema
    for one, other, what in (
        (schema.digest, record.schema_digest, "the codebook's schema is not the one that was paid for"),
        (told.get("schema_digest"), schema.digest, "the estimates have another schema"),
        (told.get("ledger_entry"), record.digest, "the estimates come from another run than the statement"),
        (manifest.parents, link_estimate_parents(found.statement), "the manifest names other parents"),
    ):
        if one != other:
            raise altered_release(what)
    return "schema → ledger entry → estimates"


def _check_statement(manifest: Manifest, found: Estimates, statement: Any, *, page: str) -> str:
    expected = found.state(form=manifest.number)
    differing = find_difference(statement, expected, form=manifest.number)
    if differing is not None:
        raise altered_release(f"“{differing[:60]}” does not follow from the record")
    written = render_markdown(expected, measured=[], version=manifest.versions["populace"])
    check_markdown(page, expected=written, statement=expected, form=manifest.number)
    wanted = replace(
        manifest,
        dataset=expected["dataset"],
        command=write_estimate_command(expected),
        # No rows were drawn.
        sampling_seed=None,
        rows_asked=None,
        selection=None,
        implicates=1,
        drawing=None,
        arithmetic=None,
    )
    if manifest != wanted:
        raise altered_release("the manifest does not say what the statement says")
    return f"ε = {expected['epsilon_exact']}, δ = {expected['delta_exact']} follow from the record"


def _check_answers(found: Estimates) -> str:
    """Every answer was booked, with just its noise, and for as far as one unit moves it."""
    unit = found.record.unit.marginal_l1
    booked: Counter[tuple[str, int, Mechanism]] = Counter()
    for charged in found.record.spends:
        spend = charged.spend
        if spend.l1 < spend.steps * unit:
            raise altered_release(f"{spend} is booked for less than one {found.record.unit.name} can move")
        booked[spend.verb, spend.steps, spend.mechanism] += spend.answers
    try:
        told = Counter(
            (*_BOOKED[each.verb], mechanism_from_json(each.mechanism)) for each in found.transcript
        )
    except (KeyError, TypeError, ValueError) as failure:
        raise altered_release("an answer has no law") from failure
    if told != booked:
        raise altered_release("the answers are not those that were booked, with just their noise")
    return f"{sum(told.values())} noisy answers, all booked with their noise"


def _check_recomputed(found: Estimates, *, table: str) -> str:
    """The answers give the same estimates again."""
    player = SurveyReplay(found.transcript, schema=found.schema)
    again = answer_queries(player, plan=found.plan)
    player.finish()
    if len(again) != len(found.rows) or not all(map(_are_same, again, found.rows)):
        raise altered_release("the estimates do not follow from the noisy answers")
    if table != found.to_csv():
        raise altered_release("estimates.csv does not say what estimates.json says")
    return f"{len(again)} estimates follow from the noisy answers"


def _are_same(one: Estimate, other: Estimate) -> bool:
    first, second = one.to_json(), other.to_json()
    return all(_are_close(first[key], second[key]) for key in first)


def _are_close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    return bool(one == other)


def _check_codebook(manifest: Manifest, found: Estimates, book: Any) -> str:
    expected = build_codebook(found.schema, statement=found.statement, form=manifest.number)
    if not is_same_codebook(book, expected, form=manifest.number):
        raise altered_release("the codebook does not say what its schema says")
    return f"{len(found.schema.columns)} columns as the schema has them"
