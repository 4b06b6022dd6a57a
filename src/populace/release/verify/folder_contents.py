"""The files that releases of rows and of estimates both hold, and whether they say what follows from the record.

Words are compared in the current format alone, numbers in every format: a later version may say the same in better
words. A release of an older format keeps the words that it was given; the manifest, and the ledger if it is at hand,
have digests of them. Without the ledger nobody can tell whether they are those that it was given: such a release is not
verified (`verify_bytes`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from populace.core.marginals import Marginal
from populace.core.number_format import count_of
from populace.core.untrusted_files import altered_error, same_json, to_canonical_json
from populace.privacy.ledger.run_record import RunRecord
from populace.release.codebook import build_codebook
from populace.release.manifest import Manifest
from populace.release.release_files import write_statement_texts
from populace.release.statement.statement import RELEASE_FORMAT, Statement, sum_guarantee
from populace.release.verify.verify_bytes import REPORT_FILE, check_report
from populace.release.verify.verify_rows import describe_differences
from populace.schema.schema import Schema

Check = Callable[[], str]

_SENTENCE_KEYS = ("reading", "warnings", "not_covered", "rules")
# Older words are shorter than so many times those of today.
_MAX_LENGTH_RATIO = 2
_TEXT_KEYS = ("total", "linked", "where", "implicates", "copies")
_COLUMN_KEYS = ("domains", "columns")


@dataclass(frozen=True, kw_only=True, eq=False)
class FolderContents(ABC):
    """The files of a folder as they were read; each kind of release says what should be in them."""

    folder: Path
    manifest: Manifest
    statement: Any
    page: str
    codebook: Any
    schema: Schema
    record: RunRecord

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, manifest: Manifest) -> Self:
        """Read the files of a folder; refuse those that populace does not write."""

    @property
    @abstractmethod
    def checks(self) -> Mapping[str, Check]:
        """What is checked first, in order."""

    @abstractmethod
    def check_written(self) -> str:
        """Refuse files that hold anything else than what was read of them."""

    @abstractmethod
    def build_report(self) -> str:
        """Return the report that follows from the folder."""

    @property
    @abstractmethod
    def expected(self) -> Statement:
        """The statement that follows from the record."""

    @property
    def records(self) -> Sequence[RunRecord]:
        """The runs that paid for what is in the folder, its own first."""
        return (self.record,)

    @property
    def measured(self) -> Sequence[Marginal]:
        """The marginals that the record has the price of."""
        return ()

    @property
    def slow_checks(self) -> Mapping[str, tuple[Check, str]]:
        """What takes as long as making the release did, and what is to be said where it is left out."""
        skipped = "report not rebuilt: it may hold anything (--quick)"
        return {"report": (self.check_report, skipped)} if REPORT_FILE in self.manifest.files else {}

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts that follow from the record, as they are written."""
        version = self.manifest.versions["populace"]
        return write_statement_texts(
            self.expected, schema=self.schema, measured=self.measured, version=version
        )

    def check_noise(self, *stamps: object, rehearsal: bool) -> str:
        """Refuse a rehearsal, which any of its files may be stamped as."""
        if rehearsal or any((self.manifest.stamp, *stamps, self.codebook.get("stamp"))):
            raise altered_error("a rehearsal: its noise was repeatable, so nothing in it is private")
        return "not a rehearsal"

    def check_statement(self, manifest: Manifest) -> str:
        """Refuse a statement, its page or a manifest other than the one that follows from the record."""
        form = self.manifest.number
        differing = find_difference(self.statement, self.expected, form=form)
        if differing is not None:
            raise altered_error(f"“{differing[:60]}” does not follow from the record")
        check_markdown(self.page, expected=self.texts["statement.md"], statement=self.expected, form=form)
        if self.manifest != manifest:
            raise altered_error("the manifest does not say what the statement says")
        own = f"ε = {self.expected['epsilon_exact']}, δ = {self.expected['delta_exact']}"
        if "together" not in self.expected:
            return f"{own} follow from the record"
        epsilon, delta = sum_guarantee(self.expected)
        return f"ε = {epsilon}, δ = {delta} follow from all records, of which this run {own}"

    def check_codebook(self) -> str:
        """Refuse a codebook that does not follow from the schema and the statement."""
        expected = build_codebook(self.schema, statement=self.expected)
        if find_difference(self.codebook, expected, form=self.manifest.number) is not None:
            raise altered_error("the codebook does not say what its schema says")
        return f"{count_of(len(self.schema.columns), 'column')} as the schema has it"

    def check_report(self) -> str:
        """Build the report again, and compare it."""
        others = describe_differences(self.manifest)
        return check_report(self.folder, self.manifest, build=self.build_report, others=others)


def check_links(links: Iterable[tuple[object, object, str]]) -> None:
    """Refuse two that are not equal as the chain of parents wants them, with what is wrong then."""
    for found, expected, what in links:
        if found != expected:
            raise altered_error(what)


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
