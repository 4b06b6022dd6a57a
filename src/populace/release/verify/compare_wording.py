"""What of a release are words: they are compared in the current format alone, numbers in every format.

A later version may say the same in better words. A release of an older format keeps the words that it was given; the
manifest, and the ledger if it is at hand, have digests of them. Without the ledger nobody can tell whether they are
those that it was given: such a release is not verified (`verify_bytes`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from populace.core.untrusted_files import altered_error, same_json, to_canonical_json
from populace.release.statement.statement import RELEASE_FORMAT

_SENTENCE_KEYS = ("reading", "warnings", "not_covered", "rules")
# Older words are shorter than so many times those of today.
_MAX_LENGTH_RATIO = 2
_TEXT_KEYS = ("total", "linked", "where", "implicates")
_COLUMN_KEYS = ("domains", "columns")


def find_difference(stated: Mapping[str, Any], expected: Mapping[str, Any], *, form: int) -> str | None:
    """Return the first key by which a statement or a codebook differs from the expected one.

    In older formats words aside.
    """
    if form != RELEASE_FORMAT:
        if len(to_canonical_json(stated)) > _MAX_LENGTH_RATIO * len(to_canonical_json(expected)):
            return "format"
        stated, expected = _strip_sentences(stated), _strip_sentences(expected)
    keys = [key for key in {**expected, **stated} if key not in stated or key not in expected]
    keys += [key for key in expected if key in stated and not same_json(stated[key], expected[key])]
    return keys[0] if keys else None


def check_markdown(page: str, *, expected: str, statement: Mapping[str, Any], form: int) -> None:
    """Refuse a statement.md that is not the expected one; of older formats, one that promises another ε or δ."""
    if form == RELEASE_FORMAT:
        if page != expected:
            raise altered_error("statement.md does not say what statement.json says")
        return
    if len(page) > _MAX_LENGTH_RATIO * len(expected):
        raise altered_error("statement.md is longer than any that populace writes")
    for symbol, name in (("ε", "privacy loss ε"), ("δ", "failure probability δ")):
        number = re.escape(str(statement[f"{'epsilon' if symbol == 'ε' else 'delta'}_exact"]))
        row = re.findall(rf"^\| {name} \| ([^\s,|]+)", page, re.MULTILINE)
        said = re.findall(rf"\b{symbol} = ([0-9][^\s,;)]*)", page)
        if len(row) != 1 or not all(re.fullmatch(number, each) for each in (*row, *said)):
            raise altered_error("statement.md does not promise what statement.json promises")


def _strip_sentences(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement or a codebook with its sentences left empty."""
    found = {key: _strip_words(value) if key in _SENTENCE_KEYS else value for key, value in stated.items()}
    for key in _TEXT_KEYS:
        if key in found:
            found[key] = _strip_key(found[key], "text")
    for key in _COLUMN_KEYS:
        if isinstance(found.get(key), list):
            found[key] = [_strip_key(line, "outside") for line in found[key]]
    return found


def _strip_key(stated: Any, key: str) -> Any:
    if not isinstance(stated, Mapping) or key not in stated:
        return stated
    return {**stated, key: _strip_words(stated[key])}


def _strip_words(value: Any) -> Any:
    """Return words as if they were not said; anything but words stays as it is."""
    if isinstance(value, str):
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return []
    return value
