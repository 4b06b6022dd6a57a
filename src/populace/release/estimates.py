"""Estimates of a survey as a release: the numbers with their errors, the noisy sums behind them, and the promise."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from populace.measurements import Answered
from populace.privacy.record import RunRecord
from populace.records import dataclass
from populace.release.answers import Answers
from populace.release.booking import book, ledger_to_book
from populace.release.checks import read_json, wrong
from populace.release.codebook import codebook
from populace.release.destination import becoming, check_folder, sync_files
from populace.release.drawing import RowsFrom
from populace.release.manifest import NAME, Manifest, describe_estimates, dump, versions
from populace.release.page import markdown
from populace.release.statement import FORMAT as STATEMENT
from populace.release.statement import Statement, state
from populace.release.survey_words import sentences
from populace.schema.schema import Schema
from populace.survey.design import Design
from populace.survey.estimate import weighed
from populace.survey.plain import plain, restored
from populace.survey.queries import Queries, Query
from populace.survey.result import Estimate
from populace.survey.tape import Player
from populace.survey.ways import Ways
from populace.untrusted import parsing, word

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "populace estimates 1"
ERRORS = ("sampling_error", "imputation_error", "privacy_error", "total_error")
NUMBERS = ("estimate", *ERRORS, "low", "high", "degrees")


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates:
    """Estimates with their errors, in the order of the queries, and all they follow from.

    `tape` holds every question that was paid for and its noisy answer; `record` what the ledger says of the run.
    `ledger` is where saving books the digests of the folder; no file names it.
    """

    design: Design
    queries: Queries
    rows: tuple[Estimate, ...]
    tape: tuple[Answered, ...]
    record: RunRecord
    ledger: Path | None = None

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self.design.schema

    def __repr__(self) -> str:
        told = self.statement
        stamp = f"\n  {told['stamp']}" if told["stamp"] else ""
        return (
            f"Estimates from “{told['dataset']}”: {len(self.rows)} numbers of {len(self.queries)} queries\n"
            f"  ε = {told['epsilon_exact']}, δ = {told['delta_exact']} for one {told['unit']}{stamp}"
        )

    @cached_property
    def statement(self) -> Statement:
        """What was promised and what it cost, computed from the ledger's record."""
        return self.state()

    def state(self, *, form: int = STATEMENT) -> Statement:
        """Return the statement with the numbers of a format, that of today or an older one."""
        return state(
            self.record,
            schema=self.schema,
            answers=Answers(survey=sentences(self.design, self.queries)),
            rows=0,
            rows_from=RowsFrom.NONE,
            form=form,
        )

    @cached_property
    def people(self) -> tuple[float, float] | None:
        """How many people the weights of all rows add up to, where a query tells, and the deviation of its noise."""
        plan = Ways.of(self.design, self.queries).plan
        if plan is None or (self.design.weights is None and self.design.base is None):
            return None
        return weighed(Player(self.tape, schema=self.schema, budget=self.record.budget), plan=plan)

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that tell estimates apart, in the order in which they come up."""
        return tuple(dict.fromkeys(name for row in self.rows for name, _ in row.group))

    @property
    def table(self) -> pa.Table:
        """The estimates as a table: a row for each, empty where there is nothing to say."""
        import pyarrow as pa

        told = [row.to_json() for row in self.rows]
        columns: dict[str, list[Any]] = {"query": [row["query"] for row in told]}
        for name in self.groups:
            columns[self._heading(name)] = [row["group"].get(name) for row in told]
        types = {name: pa.float64() for name in NUMBERS}
        columns |= {name: [row[name] for row in told] for name in (*NUMBERS, "note")}
        return pa.table(
            {name: pa.array(held, types.get(name, pa.string())) for name, held in columns.items()}
        )

    def to_csv(self) -> str:
        """Return `estimates.csv`: what `table` holds, numbers to ten digits."""
        table = self.table
        rows = [
            [f"{cell:.10g}" if isinstance(cell, float) else cell for cell in row.values()]
            for row in table.to_pylist()
        ]
        return "".join(map(_csv_line, [table.column_names, *rows]))

    def to_json(self) -> dict[str, Any]:
        """Return `estimates.json`: the estimates, and all that they can be computed from again."""
        return {
            "format": FORMAT,
            "stamp": self.statement["stamp"],
            "dataset": self.record.dataset,
            "estimates": [row.to_json() for row in self.rows],
            "design": plain(self.design, without=("schema",)),
            "queries": [plain(query) for query in self.queries],
            "answers": [each.to_json() for each in self.tape],
            "schema_digest": self.schema.digest,
            "ledger_entry": self.record.digest,
        }

    def report(self) -> str:
        """Return the report as one HTML page. It takes a second or two and is no part of making the estimates."""
        from populace.report.estimates import build, render

        return render(build(self))

    def save(self, folder: str | Path, *, report: bool = True, ledger: str | Path | None = None) -> None:
        """Write the release folder, with its report if wanted. The folder appears complete or not at all.

        The digests of its files are booked in a ledger before: in the one given, or else in the one that paid. If
        that is gone by now, a warning says that they are booked nowhere.
        """
        booked = ledger_to_book(ledger, paid=self.ledger)
        check_folder(Path(folder))
        page = self.report() if report else None
        statement = self.statement
        with becoming(Path(folder)) as place:
            texts = {
                "estimates.csv": self.to_csv(),
                "estimates.json": dump(self.to_json()),
                "statement.json": dump(statement),
                "statement.md": markdown(statement, measured=[], version=versions()["populace"]),
                "codebook.json": dump(codebook(self.schema, statement=statement)),
            } | ({} if page is None else {"report.html": page})
            for name, text in texts.items():
                (place / name).write_text(text, encoding="utf-8", newline="\n")
            manifest = describe_estimates(place, statement=statement)
            (place / NAME).write_text(dump(manifest.to_json()), encoding="utf-8", newline="\n")
            if booked is not None:
                sync_files(place)
                book(place, manifest=manifest, record=self.record, ledger=booked)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a release folder of estimates. It trusts the files; `verify` checks them."""
        folder = Path(folder)
        if not Manifest.load(folder).estimated:
            raise wrong(f"{NAME} in {folder} lists no estimates")
        told, rows = read_json(folder / "estimates.json", inner="estimates")
        _, text = read_json(folder / "codebook.json", inner="schema")
        _, record = read_json(folder / "statement.json", inner="record")
        with parsing("estimates.json"):
            schema = Schema.parse(word(text), released=True)
            return cls(
                design=restored(Design, told["design"], {"schema": schema}),
                queries=Queries(
                    schema=schema, queries=tuple(restored(Query, each) for each in told["queries"])
                ),
                rows=tuple(Estimate.from_json(row) for row in rows),
                tape=tuple(Answered.from_json(each) for each in told["answers"]),
                record=RunRecord.from_json(record),
            )

    def _heading(self, name: str) -> str:
        return f"by {name}" if name in ("query", *NUMBERS, "note") else name


def _csv_line(cells: Sequence[str | None]) -> str:
    """Return a line of a CSV file; before Python 3.13 its writer quotes only the line breaks that it writes itself."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"
