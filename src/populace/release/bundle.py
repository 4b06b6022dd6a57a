"""A release: the synthetic table and everything that must be said about it, as an object and as a folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from populace.core.errors import OtherFormat, ReleaseError
from populace.core.notebook_html import render_card
from populace.core.number_format import count_of
from populace.core.untrusted_files import read_object
from populace.inference.gls.count_intervals import CountIntervals, intervals
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.release.folder.destination import check_empty
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.hierarchy.unit_files import write_unit_files
from populace.release.linked_rows import open_tables, to_frames, write_tables
from populace.release.manifest import (
    MANIFEST_FILE,
    Manifest,
    describe_release,
    list_table_files,
    list_versions,
    name_table_files,
)
from populace.release.release_files import choose_booking_ledger, save_folder, write_statement_texts
from populace.release.row_selection import RowCountOrigin, RowSelection
from populace.release.statement.limitations import MeasuredContent, plural_of
from populace.release.statement.statement import (
    Statement,
    compute_statement,
    describe_parts,
    sum_guarantee,
)
from populace.release.streamed_table import StreamedTable, read_whole
from populace.release.synthetic_rows import BLOCK_DRAWING_RULES, SyntheticRows, drawing_rules
from populace.release.table_files import (
    TableFormat,
    check_table_format,
    count_column,
    count_units,
    encode_table,
    fit_table_format,
    parse_table_format,
)
from populace.sampling.draw_rows import draw_rows

if TYPE_CHECKING:
    from populace.core.marginals import Marginal
    from populace.release.hierarchy.area_table import AreaTable
    from populace.release.report.comparison import CodeColumns
    from populace.release.report.report_data import ReportDocument


# So many rows tell a report everything about a model.
MAX_COMPARED_ROWS = 2**20


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """A synthetic table with its measurements, its model and the seed that drew the rows.

    `rows_asked` is the number of rows that the curator chose, or None where it follows the noisy count.
    `selection` says which rows of the model these are, if not all; `further` are the tables of other implicates.
    `library` and `format` say as which kind of frame and of file the table is wanted. `ledger` is where saving books
    the digests of the folder; no file names it. `drawn` is the first table with its codes, if it was just drawn. Very
    many rows are drawn block by block when the folder is written, and all of them when `table` is asked for.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "epsilon": 1, "delta": 0, "dataset": "smokers"}
    >>> pp.synthesize(people, rows=300, **asked).save("release", report=False)
    >>> pp.Release.load("release").table.num_rows
    300
    """

    synthetic: pa.Table | StreamedTable
    measurements: Measurements
    model: Model
    seed: int
    rows_asked: int | None = None
    selection: RowSelection | None = None
    further: tuple[pa.Table | StreamedTable, ...] = ()
    library: str = "pyarrow"
    format: TableFormat = TableFormat.CSV
    ledger: Path | None = None
    drawn: SyntheticRows | None = None

    def __repr__(self) -> str:
        statement = self.statement
        epsilon, delta = sum_guarantee(statement)
        stamp = f"\n  {statement['stamp']}" if statement["stamp"] else ""
        return (
            f"Release of “{statement['dataset']}”: {self._tables}{statement['total']['rows']} {self._count_word}, "
            f"{count_of(len(statement['domains']), 'column')}\n"
            f"  ε = {epsilon}, δ = {delta} for one {statement['unit']}{stamp}"
        )

    def _repr_html_(self) -> str:
        stated = self.statement
        epsilon, delta = describe_parts(stated)
        facts = {
            "ε =": epsilon,
            "δ =": delta,
            "for one": stated["unit"],
            f"{self._count_word}:": f"{self._tables}{stated['total']['rows']}",
        }
        rows = [list(row.values()) for row in self.synthetic.slice(0, 5).to_pylist()]
        title = f"Release of “{stated['dataset']}”"
        names = self.synthetic.column_names
        return render_card(title, facts, header=names, rows=rows, note=stated["stamp"] or "")

    @property
    def _tables(self) -> str:
        return f"{1 + len(self.further)} tables of " if self.further else ""

    @property
    def _count_word(self) -> str:
        """What the statement's number of rows is a number of."""
        schema = self.measurements.schema
        return "synthetic rows" if count_column(schema) is None else plural_of(schema.unit.word)

    @property
    def table(self) -> Any:
        """The synthetic rows, as the kind of frame that came in; their types come from the schema.

        Those of linked tables are two frames, by the names of their tables.
        """
        return self.tables[0]

    @property
    def tables(self) -> tuple[Any, ...]:
        """The synthetic rows of every implicate; the first is `table`."""
        schema = self.measurements.schema
        every = (self.synthetic, *self.further)
        return tuple(to_frames(each, schema=schema, library=self.library) for each in every)

    @property
    def _linked(self) -> tuple[str, ...]:
        linked = self.measurements.schema.linked
        return () if linked is None else (linked.units, linked.members)

    @cached_property
    def statement(self) -> Statement:
        """What was promised and what it cost, computed from the ledger's record."""
        schema = self.measurements.schema
        rows = count_units(self.synthetic, schema=schema)
        return compute_statement(
            self.measurements.record,
            schema=schema,
            answers=MeasuredContent.of(self.measurements),
            rows=rows,
            rows_from=RowCountOrigin.of(
                schema, rows=rows, total=self.model.total, asked=self.rows_asked, selection=self.selection
            ),
            selection=self.selection,
            implicates=1 + len(self.further),
            in_blocks=isinstance(self.synthetic, StreamedTable),
        )

    @cached_property
    def intervals(self) -> CountIntervals:
        """The measured counts with their confidence intervals; those of a geography stand in `hierarchy`."""
        return intervals(self.measurements)

    @cached_property
    def hierarchy(self) -> ReleasedHierarchy:
        """The tables of every unit of every level, where the schema has a geography; of linked tables, the units'."""
        return ReleasedHierarchy.of(self.measurements, self.model)

    @cached_property
    def hierarchies(self) -> tuple[ReleasedHierarchy, ...]:
        """The same of every table: of linked tables first of the units, then of the members."""
        if self.measurements.schema.linked is None:
            return (self.hierarchy,)
        return (self.hierarchy, ReleasedHierarchy.of_members(self.measurements, self.codes))

    def area(self, units: Any, *, by: Sequence[str] = (), table: str | None = None) -> AreaTable:
        """Return the estimates of any set of units, on or off the spine, in total or by columns.

        `units` is a CSV or Parquet file, a frame or a mapping of lists, with the ids of units of one level.
        Of linked tables, `table` names the one to count in; without it, the first that has the columns.

        >>> import pyarrow as pa
        >>> import populace as pp
        >>> schema = pp.Schema.parse('''
        ... [geography]
        ... levels = ["county"]
        ... units = ["A", "B", "C"]
        ... [columns.sex]
        ... kind = "categorical"
        ... values = ["f", "m"]
        ... other = "f"
        ... ''')
        >>> people = pa.table({"county": ["A", "B", "C", "C"] * 500, "sex": ["f", "m", "f", "m"] * 500})
        >>> release = pp.synthesize(people, schema=schema, epsilon=1, delta="1e-9", dataset="counties")
        >>> release.area({"county": ["A", "B"]}).table.column_names
        ['unbiased', 'margin', 'low', 'high', 'published']
        """
        from populace.release.hierarchy.area_table import choose_table, tabulate_area

        return tabulate_area(choose_table(self.hierarchies, by=by, table=table), units, by=by)

    @cached_property
    def codes(self) -> CodeColumns:
        """The codes of the synthetic rows, in the schema's variables."""
        if self.drawn is not None and self.drawn.table is self.synthetic:
            return self.drawn.codes
        return encode_table(read_whole(self.synthetic), schema=self.measurements.schema)

    @cached_property
    def compared_codes(self) -> CodeColumns:
        """The codes of the rows that a report compares with what was measured.

        Measurements are of all rows. Where only some are released, the model is asked for all of them once more. Of
        very many rows, a block tells as much.
        """
        if self.selection is None and isinstance(self.synthetic, StreamedTable):
            return encode_table(self.synthetic.first_block(), schema=self.measurements.schema)
        if self.selection is None:
            return self.codes
        rows = max(1, min(round(self.model.total), MAX_COMPARED_ROWS))
        rng = np.random.default_rng(self.seed)
        rules = self.measurements.schema.rules
        return next(draw_rows(self.model, rows=rows, rng=rng, rules=rules, chunk=rows))

    def document(self) -> ReportDocument:
        """Return every number that the report shows; it takes about as long as fitting and drawing did."""
        if self.measurements.schema.geography is not None:
            raise ReleaseError(
                "the report of a geography is made of its tables.",
                hint="use Release.report, Release.hierarchy or Release.area",
            )
        from populace.release.report.bootstrap_error import bootstrap_errors
        from populace.release.report.report_data import build_report

        likely: Mapping[Marginal, float] = {}
        if self.selection is None:
            # Of some rows, what a model has of all of them says little.
            total = max(1.0, float(self.intervals.of().estimate))
            likely = bootstrap_errors(
                self.measurements, codes=self.compared_codes, total=total, gradual=self.model.gradual
            )
        return build_report(
            self.statement,
            measurements=self.measurements,
            intervals=self.intervals,
            codes=self.compared_codes,
            likely=likely,
        )

    def report(self) -> str:
        """Return the report as one HTML page; it is no part of making the release."""
        if self.measurements.schema.geography is not None:
            from populace.release.report.hierarchy.hierarchy_report import build_hierarchy_report
            from populace.release.report.hierarchy.member_section import tell_members
            from populace.release.report.hierarchy.render_hierarchy import render_hierarchy_report

            return render_hierarchy_report(
                build_hierarchy_report(
                    self.statement,
                    measurements=self.measurements,
                    model=self.model,
                    members=tell_members(self.measurements, self.model, self.hierarchies),
                )
            )
        from populace.release.report.render import render_report

        return render_report(self.document())

    def save(
        self,
        folder: str | Path,
        *,
        format: str | None = None,  # noqa: A002 (the word of the CLI)
        report: bool = True,
        ledger: str | Path | None = None,
    ) -> None:
        """Write the release folder, with its report if wanted. The folder appears complete or not at all.

        The digests of its files are booked in a ledger before: in the one given, or else in the one that paid. If
        that is gone by now, a warning says that they are booked nowhere. A table that does not fit in memory as a file
        of SPSS, Stata or SAS is written as Parquet, and a warning says so.
        """
        check_empty(Path(folder))
        asked = self.format if format is None else parse_table_format(format)
        check_table_format(self.measurements.schema, asked)
        rows = self.synthetic.num_rows
        chosen = fit_table_format(asked, schema=self.measurements.schema, rows=rows)
        if chosen is not asked:
            warnings.warn(
                f"{rows} rows do not fit in memory as a file .{asked}: they are written as .{chosen}",
                OtherFormat,
                stacklevel=2,
            )
        page = {"report.html": self.report()} if report else {}
        booked = choose_booking_ledger(ledger, paid=self.ledger)
        measurements, implicates = self.measurements, 1 + len(self.further)
        texts = write_statement_texts(
            self.statement,
            schema=measurements.schema,
            measured=measurements.own_marginals,
            version=list_versions()["populace"],
        )

        def write(place: Path) -> None:
            first = name_table_files(f".{chosen}", linked=self._linked)
            names = zip(*(list_table_files(name, implicates=implicates) for name in first), strict=True)
            for files, table in zip(names, (self.synthetic, *self.further), strict=True):
                write_tables(table, [place / name for name in files], schema=measurements.schema)
            self.model.write_files(place)
            if measurements.schema.geography is None:
                measurements.save(place, beside=self.intervals.columns())
            else:
                measurements.save(place)
                write_unit_files(self.hierarchies, place, measurements=measurements.items)

        save_folder(
            Path(folder),
            texts=texts | page,
            describe=lambda place: describe_release(
                place,
                statement=self.statement,
                seed=self.seed,
                rows_asked=self.rows_asked,
                selection=self.selection,
                implicates=implicates,
                linked=self._linked,
                drawing=drawing_rules(self.synthetic),
            ),
            record=measurements.record,
            ledger=booked,
            write=write,
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a release folder. It trusts the files; `verify` checks them."""
        folder = Path(folder)
        manifest = Manifest.load(folder)
        files = manifest.table_files
        if not files or manifest.sampling_seed is None:
            raise ReleaseError(
                f"{MANIFEST_FILE} in {folder} lists no synthetic table.",
                hint="read it with pp.Estimates.load"
                if manifest.estimated
                else "read it with pp.Checks.load"
                if manifest.checked
                else "give the folder that `populace synth` wrote",
            )
        measurements = Measurements.load(folder)
        _, total = read_object(folder / "statement.json", inner="total")
        in_blocks = manifest.drawing == BLOCK_DRAWING_RULES
        first, *further = (
            open_tables(
                [folder / name for name in names],
                schema=measurements.schema,
                rows=total["rows"] if in_blocks else 0,
            )
            for names in files
        )
        return cls(
            synthetic=first,
            measurements=measurements,
            model=Model.read_files(folder),
            seed=manifest.sampling_seed,
            rows_asked=manifest.rows_asked,
            selection=manifest.selection,
            further=tuple(further),
            format=parse_table_format(Path(files[0][0]).suffix[1:]),
        )
