"""Estimates of a survey as a release: the numbers with their errors, the noisy sums behind them, and the promise."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from populace.core.notebook_html import render_card
from populace.core.number_format import count_of
from populace.core.untrusted_files import altered_error, read_object, refuse_parse_errors, require_text
from populace.measurements.answer_record import AnswerRecord
from populace.privacy.json_codec import decode_json, encode_json
from populace.privacy.ledger.run_record import RunRecord
from populace.release.folder.destination import check_empty
from populace.release.manifest import MANIFEST_FILE, Manifest, describe_estimates, dump_json, list_versions
from populace.release.release_files import choose_booking_ledger, save_folder, write_statement_texts
from populace.release.row_selection import RowCountOrigin
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import RELEASE_FORMAT, Statement, compute_statement
from populace.release.statement.survey_limitations import list_survey_limitations
from populace.schema.schema import Schema
from populace.survey.answer_queries import estimate_weight_total
from populace.survey.design.design import Design
from populace.survey.estimate_result import NUMBER_COLUMNS, Estimate
from populace.survey.estimates_older_formats import read_older_format, write_older_format
from populace.survey.queries.queries import Queries, Query
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_transcript import SurveyReplay

if TYPE_CHECKING:
    from populace.release.report.estimates_report import EstimatesDocument

ESTIMATES_FORMAT = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates:
    """Estimates with their errors, in the order of the queries, and all they follow from.

    `transcript` holds every question that was paid for and its noisy answer; `record` what the ledger says of the run.
    `ledger` is where saving books the digests of the folder; no file names it.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people, schema = pa.table({"smokes": [0, 0, 0, 1] * 500}), pp.Schema.from_sizes({"smokes": 2})
    >>> asked = pp.Queries.parse('[[query]]\\nstatistic = "mean"\\ncolumn = "smokes"\\n', schema=schema)
    >>> design = pp.Design(schema=schema)
    >>> found = pp.estimate(people, schema=schema, design=design, queries=asked, epsilon=1, dataset="smokers")
    >>> found.save("estimates", report=False)
    >>> len(pp.Estimates.load("estimates").rows)
    1
    """

    design: Design
    queries: Queries
    rows: tuple[Estimate, ...]
    transcript: tuple[AnswerRecord, ...]
    record: RunRecord
    ledger: Path | None = None
    form: int = ESTIMATES_FORMAT
    """The number of the format that its files have: those that are loaded keep theirs."""

    @cached_property
    def plan(self) -> QueryPlan:
        """How the queries were answered, for which share of the budget."""
        return QueryPlan.of(self.design, self.queries, budget=self.record.budget)

    @property
    def older(self) -> bool:
        """Whether an earlier version made them, by other questions than the same queries give today."""
        return self.form < ESTIMATES_FORMAT

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self.design.schema

    def __repr__(self) -> str:
        saved = self.statement
        stamp = f"\n  {saved['stamp']}" if saved["stamp"] else ""
        return (
            f"Estimates from “{saved['dataset']}”: {count_of(len(self.rows), 'number')} "
            f"of {len(self.queries)} {'query' if len(self.queries) == 1 else 'queries'}\n"
            f"  ε = {saved['epsilon_exact']}, δ = {saved['delta_exact']} for one {saved['unit']}{stamp}"
        )

    def _repr_html_(self) -> str:
        stated = self.statement
        facts = {
            "ε =": stated["epsilon_exact"],
            "δ =": stated["delta_exact"],
            "for one": stated["unit"],
            "estimates:": len(self.rows),
        }
        rows = [
            [
                row.query,
                ", ".join(f"{column} = {value}" for column, value in row.group),
                "suppressed" if row.estimate is None else f"{row.estimate:.4g}",
                "–" if row.low is None or row.high is None else f"{row.low:.4g} to {row.high:.4g}",
            ]
            for row in self.rows[:20]
        ]
        header = ("query", "group", "estimate", "95 % confidence interval")
        note = f"and {len(self.rows) - 20} more" if len(self.rows) > 20 else stated["stamp"] or ""
        title = f"Estimates from “{stated['dataset']}”"
        return render_card(title, facts, header=header, rows=rows, note=note)

    @cached_property
    def statement(self) -> Statement:
        """What was promised and what it cost, computed from the ledger's record."""
        return self.state()

    def state(self, *, form: int = RELEASE_FORMAT) -> Statement:
        """Return the statement with the numbers of a format, that of today or an older one."""
        return compute_statement(
            self.record,
            schema=self.schema,
            answers=MeasuredContent(survey=tuple(list_survey_limitations(self.plan))),
            rows=0,
            rows_from=RowCountOrigin.NONE,
            form=form,
        )

    @cached_property
    def people(self) -> tuple[float, float] | None:
        """The sum of all weights, where a query gives it, and the standard deviation of its noise."""
        if self.design.weights is None and self.design.base is None:
            return None
        replay = SurveyReplay(self.transcript, schema=self.schema)
        return estimate_weight_total(replay, plan=self.plan)

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that tell estimates apart, in the order in which they come up."""
        return tuple(dict.fromkeys(name for row in self.rows for name, _ in row.group))

    @property
    def table(self) -> pa.Table:
        """The estimates as a table: a row for each, empty where there is nothing to say."""
        return self._make_table([row.to_json() for row in self.rows])

    def _make_table(self, saved: Sequence[Mapping[str, Any]]) -> pa.Table:
        columns: dict[str, list[Any]] = {"query": [row["query"] for row in saved]}
        for name in self.groups:
            heading = f"by {name}" if name in ("query", *NUMBER_COLUMNS, "note") else name
            columns[heading] = [row["group"].get(name) for row in saved]
        types = {name: pa.float64() for name in NUMBER_COLUMNS}
        columns |= {name: [row[name] for row in saved] for name in (*NUMBER_COLUMNS, "note")}
        return pa.table(
            {name: pa.array(held, types.get(name, pa.string())) for name, held in columns.items()}
        )

    def to_csv(self) -> str:
        """Return `estimates.csv`: what `table` holds, numbers to ten digits."""
        table = self._make_table(self.to_json()["estimates"])
        rows = [
            [f"{cell:.10g}" if isinstance(cell, float) else cell for cell in row.values()]
            for row in table.to_pylist()
        ]
        return "".join(map(_csv_line, [table.column_names, *rows]))

    def to_json(self) -> dict[str, Any]:
        """Return `estimates.json`: the estimates, and all that they can be computed from again."""
        found = {
            "format": f"populace estimates {self.form}",
            "stamp": self.statement["stamp"],
            "dataset": self.record.dataset,
            "estimates": [row.to_json() for row in self.rows],
            "design": self.design.to_json(),
            "queries": [encode_json(query) for query in self.queries],
            "answers": [each.to_json() for each in self.transcript],
            "schema_digest": self.schema.digest,
            "ledger_entry": self.record.digest,
        }
        return write_older_format(found, form=self.form) if self.older else found

    def document(self) -> EstimatesDocument:
        """Return every number that the report shows."""
        from populace.release.report.estimates_report import build_estimates_report

        return build_estimates_report(self.statement, plan=self.plan, rows=self.rows, people=self.people)

    def report(self) -> str:
        """Return the report as one HTML page. It takes a second or two and is no part of making the estimates."""
        from populace.release.report.estimates_report import render_estimates_report

        return render_estimates_report(self.document())

    def save(self, folder: str | Path, *, report: bool = True, ledger: str | Path | None = None) -> None:
        """Write the release folder, with its report if wanted. The folder appears complete or not at all.

        The digests of its files are booked in a ledger before: in the one given, or else in the one that paid. If
        that is gone by now, a warning says that they are booked nowhere.
        """
        booked = choose_booking_ledger(ledger, paid=self.ledger)
        check_empty(Path(folder))
        texts = self.estimate_texts() | write_statement_texts(
            self.statement, schema=self.schema, version=list_versions()["populace"]
        )
        if report:
            texts["report.html"] = self.report()
        save_folder(
            Path(folder),
            texts=texts,
            describe=lambda place: describe_estimates(place, statement=self.statement),
            record=self.record,
            ledger=booked,
        )

    def estimate_texts(self) -> dict[str, str]:
        """Return the files of a folder that hold the estimates."""
        return {"estimates.csv": self.to_csv(), "estimates.json": dump_json(self.to_json())}

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a release folder of estimates. It trusts the files; `verify` checks them."""
        folder = Path(folder)
        if not Manifest.load(folder).estimated:
            raise altered_error(f"{MANIFEST_FILE} in {folder} lists no estimates")
        saved, _ = read_object(folder / "estimates.json", inner="estimates")
        _, text = read_object(folder / "codebook.json", inner="schema")
        _, record_json = read_object(folder / "statement.json", inner="record")
        with refuse_parse_errors("estimates.json"):
            formats = {f"populace estimates {each}": each for each in range(1, ESTIMATES_FORMAT + 1)}
            form = formats[saved["format"]]
            saved = read_older_format(saved, form=form) if form < ESTIMATES_FORMAT else saved
            schema = Schema.parse(require_text(text), released=True)
            queries = tuple(decode_json(Query, each) for each in saved["queries"])
            return cls(
                design=decode_json(Design, saved["design"], {"schema": schema}),
                queries=Queries(schema=schema, queries=queries),
                rows=tuple(Estimate.from_json(row) for row in saved["estimates"]),
                transcript=tuple(AnswerRecord.from_json(each) for each in saved["answers"]),
                record=RunRecord.from_json(record_json),
                form=form,
            )


def _csv_line(cells: Sequence[str | None]) -> str:
    """Return a line of a CSV file; before Python 3.13 its writer quotes only the line breaks that it writes itself."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"
