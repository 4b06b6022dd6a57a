"""Verification of a release of estimates: all numbers follow from the noisy answers, and these were paid for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from populace.privacy.mechanisms import Law, law_from_json
from populace.privacy.record import RunRecord
from populace.privacy.steps import LOG_STEPS, SCORE_STEPS, STEPS
from populace.release.checks import Check, Outcome, check_budget, checked, read_json, read_text, wrong
from populace.release.codebook import codebook
from populace.release.estimates import Estimates
from populace.release.manifest import Manifest, dump, estimate_command, estimate_parents
from populace.release.page import markdown
from populace.release.verify_bytes import REPORT, check_report, check_written, report_not_rebuilt
from populace.release.verify_rows import other_conditions
from populace.release.words import check_page, same_codebook, same_statement
from populace.survey.estimate import answer
from populace.survey.result import Estimate
from populace.survey.tape import Player
from populace.untrusted import parsing, same_json

# Two machines may differ in the last digits that they compute.
SAME = 1e-6

# As the books have the questions of a tape: the verb, and in how many steps one row is told.
_BOOKED = {
    "sum": ("measure", STEPS),
    "smooth": ("smooth", 1),
    "bound-size": ("score", LOG_STEPS),
    "choose-bins": ("choose", SCORE_STEPS),
}


# What has a check of its own.
_DERIVED = {"stamp": None, "schema_digest": None, "ledger_entry": None}


def contents(folder: Path, manifest: Manifest, *, quick: bool) -> tuple[RunRecord | None, list[Check]]:
    """Check what the files of a folder say, after their names and digests."""
    loaded: list[tuple[Estimates, Any, Any, Any, dict[str, str]]] = []

    def load() -> str:
        statement, _ = read_json(folder / "statement.json", inner="record")
        book, _ = read_json(folder / "codebook.json", inner="schema")
        told, _ = read_json(folder / "estimates.json", inner="answers")
        texts = {name: read_text(folder / name) for name in ("statement.md", "estimates.csv")}
        found = Estimates.load(folder)
        with parsing("estimates.json"):
            if not same_json({**told, **_DERIVED}, {**found.to_json(), **_DERIVED}):
                raise wrong("estimates.json is not one that populace writes")
        loaded.append((found, statement, book, told, texts))
        return "every file can be read"

    first = checked("contents", load)
    if not first.passed:
        return None, [first]
    found, statement, book, told, texts = loaded[0]
    checks = [
        checked(
            "real noise", lambda: _real_noise(manifest, found, stamps=[told.get("stamp"), book.get("stamp")])
        ),
        checked("parents", lambda: _parents(manifest, found, told)),
        checked("statement", lambda: _statement(manifest, found, statement, page=texts["statement.md"])),
        checked("budget", lambda: check_budget(found.record)),
        checked("answers", lambda: _answers(found)),
        checked("estimates", lambda: _estimates(found, table=texts["estimates.csv"])),
        checked("codebook", lambda: _codebook(manifest, found, book)),
    ]
    if all(check.passed for check in checks):
        checks.append(check_written(folder, manifest, texts=_texts(manifest, found)))
    if REPORT in manifest.files and quick:
        checks.append(report_not_rebuilt())
    elif REPORT in manifest.files and all(check.outcome is not Outcome.FAILED for check in checks):
        checks.append(check_report(folder, manifest, build=found.report, others=other_conditions(manifest)))
    return found.record, checks


def _texts(manifest: Manifest, found: Estimates) -> dict[str, str]:
    """Return all texts of a folder, as they are written."""
    statement = found.state(form=manifest.number)
    return {
        "estimates.csv": found.to_csv(),
        "estimates.json": dump(found.to_json()),
        "statement.json": dump(statement),
        "statement.md": markdown(statement, measured=[], version=manifest.versions["populace"]),
        "codebook.json": dump(codebook(found.schema, statement=statement, form=manifest.number)),
    }


def _real_noise(manifest: Manifest, found: Estimates, *, stamps: list[object]) -> str:
    if found.record.rehearsal or manifest.stamp or any(stamps):
        raise wrong("a rehearsal: its noise was repeatable, so nothing in it is private")
    return "not a rehearsal"


def _parents(manifest: Manifest, found: Estimates, told: dict[str, Any]) -> str:
    record, schema = found.record, found.schema
    for one, other, what in (
        (schema.digest, record.schema_digest, "the codebook's schema is not the one that was paid for"),
        (told.get("schema_digest"), schema.digest, "the estimates have another schema"),
        (told.get("ledger_entry"), record.digest, "the estimates come from another run than the statement"),
        (manifest.parents, estimate_parents(found.statement), "the manifest names other parents"),
    ):
        if one != other:
            raise wrong(what)
    return "schema → ledger entry → estimates"


def _statement(manifest: Manifest, found: Estimates, statement: Any, *, page: str) -> str:
    expected = found.state(form=manifest.number)
    differing = same_statement(statement, expected, form=manifest.number)
    if differing is not None:
        raise wrong(f"“{differing[:60]}” does not follow from the record")
    written = markdown(expected, measured=[], version=manifest.versions["populace"])
    check_page(page, expected=written, statement=expected, form=manifest.number)
    wanted = replace(
        manifest,
        dataset=expected["dataset"],
        command=estimate_command(expected),
        # No rows were drawn.
        sampling_seed=None,
        rows_asked=None,
        selection=None,
        implicates=1,
        drawing=None,
        arithmetic=None,
    )
    if manifest != wanted:
        raise wrong("the manifest does not say what the statement says")
    return f"ε = {expected['epsilon_exact']}, δ = {expected['delta_exact']} follow from the record"


def _answers(found: Estimates) -> str:
    """Every answer was booked, with just its noise, and for as far as one unit moves it."""
    unit = found.record.unit.marginal_l1
    booked: Counter[tuple[str, int, Law]] = Counter()
    for charged in found.record.spends:
        spend = charged.spend
        if spend.l1 < spend.steps * unit:
            raise wrong(f"{spend} is booked for less than one {found.record.unit.name} can move")
        booked[spend.verb, spend.steps, spend.law] += spend.answers
    try:
        told = Counter((*_BOOKED[each.verb], law_from_json(each.law)) for each in found.tape)
    except (KeyError, TypeError, ValueError) as failure:
        raise wrong("an answer has no law") from failure
    if told != booked:
        raise wrong("the answers are not those that were booked, with just their noise")
    return f"{sum(told.values())} noisy answers, all booked with their noise"


def _estimates(found: Estimates, *, table: str) -> str:
    """The answers give the same estimates again."""
    player = Player(found.tape, schema=found.schema, budget=found.record.budget)
    again = answer(player, design=found.design, queries=found.queries)
    player.finish()
    if len(again) != len(found.rows) or not all(map(_same, again, found.rows)):
        raise wrong("the estimates do not follow from the noisy answers")
    if table != found.to_csv():
        raise wrong("estimates.csv does not say what estimates.json says")
    return f"{len(again)} estimates follow from the noisy answers"


def _same(one: Estimate, other: Estimate) -> bool:
    first, second = one.to_json(), other.to_json()
    return all(_close(first[key], second[key]) for key in first)


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME, abs_tol=1e-12)
    return bool(one == other)


def _codebook(manifest: Manifest, found: Estimates, book: Any) -> str:
    expected = codebook(found.schema, statement=found.statement, form=manifest.number)
    if not same_codebook(book, expected, form=manifest.number):
        raise wrong("the codebook does not say what its schema says")
    return f"{len(found.schema.columns)} columns as the schema has them"
