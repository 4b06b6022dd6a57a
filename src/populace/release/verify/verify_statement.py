"""Verification of the statement and the codebook of a release: they say what follows from the record and the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from populace.core.untrusted_files import altered_error
from populace.release.codebook import build_codebook
from populace.release.manifest import Manifest
from populace.release.statement.statement import Statement
from populace.release.verify.compare_wording import check_markdown, find_difference, is_same_codebook
from populace.schema.schema import Schema


def check_noise(*stamps: object, rehearsal: bool) -> str:
    """Refuse a rehearsal, which any of its files may be stamped as."""
    if rehearsal or any(stamps):
        raise altered_error("a rehearsal: its noise was repeatable, so nothing in it is private")
    return "not a rehearsal"


def check_statement(
    statement: Mapping[str, Any],
    *,
    expected: Statement,
    page: str,
    expected_page: str,
    manifest: Manifest,
    expected_manifest: Manifest,
) -> str:
    """Refuse a statement, its page or a manifest that does not follow from the record."""
    differing = find_difference(statement, expected, form=manifest.number)
    if differing is not None:
        raise altered_error(f"“{differing[:60]}” does not follow from the record")
    check_markdown(page, expected=expected_page, statement=expected, form=manifest.number)
    if manifest != expected_manifest:
        raise altered_error("the manifest does not say what the statement says")
    return f"ε = {expected['epsilon_exact']}, δ = {expected['delta_exact']} follow from the record"


def check_codebook(codebook: Mapping[str, Any], *, schema: Schema, statement: Statement, form: int) -> str:
    """Refuse a codebook that does not follow from the schema and the statement."""
    if not is_same_codebook(codebook, build_codebook(schema, statement=statement), form=form):
        raise altered_error("the codebook does not say what its schema says")
    return f"{len(schema.columns)} columns as the schema has them"
