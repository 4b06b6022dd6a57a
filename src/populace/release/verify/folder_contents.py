"""The files that releases of rows and of estimates both hold, and whether they say what follows from the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from populace.core.marginals import Marginal
from populace.core.untrusted_files import altered_error
from populace.privacy.ledger.run_record import RunRecord
from populace.release.codebook import build_codebook
from populace.release.manifest import Manifest
from populace.release.release_files import write_statement_texts
from populace.release.statement.statement import Statement
from populace.release.verify.compare_wording import check_markdown, find_difference
from populace.release.verify.verify_bytes import REPORT_FILE, check_report
from populace.release.verify.verify_rows import describe_differences
from populace.schema.schema import Schema

Check = Callable[[], str]


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

    @abstractmethod
    def state(self) -> Statement:
        """Return the statement that follows from the record."""

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
    def expected(self) -> Statement:
        """The statement that follows from the record, computed once."""
        return self.state()

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
        return (
            f"ε = {self.expected['epsilon_exact']}, δ = {self.expected['delta_exact']} follow from the record"
        )

    def check_codebook(self) -> str:
        """Refuse a codebook that does not follow from the schema and the statement."""
        expected = build_codebook(self.schema, statement=self.expected)
        if find_difference(self.codebook, expected, form=self.manifest.number) is not None:
            raise altered_error("the codebook does not say what its schema says")
        return f"{len(self.schema.columns)} columns as the schema has them"

    def check_report(self) -> str:
        """Build the report again, and compare it."""
        others = describe_differences(self.manifest)
        return check_report(self.folder, self.manifest, build=self.build_report, others=others)


def check_links(links: Iterable[tuple[object, object, str]]) -> None:
    """Refuse two that are not equal as the chain of parents wants them, with what is wrong then."""
    for found, expected, what in links:
        if found != expected:
            raise altered_error(what)
