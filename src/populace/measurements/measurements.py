"""The noisy measurements of one run: what crossed the barrier, saved so that later stages can start from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import ReleaseError
from populace.core.marginals import Clique, Counts, Domain, Marginal
from populace.core.pretty_json import pretty_json
from populace.core.untrusted_files import (
    read_stage,
    refuse_parse_errors,
    require_int,
    require_text,
)
from populace.measurements.earlier_run import EarlierRun
from populace.measurements.exact_counts import is_same_question, level_marginal
from populace.measurements.level_queries import describe_levels, grouping_from_json, grouping_to_json
from populace.measurements.public_marginals import PublicMarginals
from populace.measurements.rule_checks import RuleCheck
from populace.privacy.accounting.mechanisms import ExponentialCount, Mechanism, Noise, fraction_from_json
from populace.privacy.ledger.run_record import RunRecord, format_short_up
from populace.schema.schema import Schema

Numbers = npt.NDArray[np.float64]
# Marginals to be measured with the same noise.
Batch = tuple[Sequence[Marginal], Noise | ExponentialCount]

# The cells of the first format are numbered, those of the second have names; a geography has a file for these.
NUMBERED, LABELLED = "populace measurements 1", "populace measurements 2"
FILES = ("measurements.json", "measurements.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What only the process that measured knows; it is never saved.

    The library of the frame that came in, the file format that goes with the input, and the ledger that paid.
    """

    library: str = "pyarrow"
    table_format: str = "csv"
    ledger: Path | None = None


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts of one marginal, and the variance of the noise that is really in each of them."""

    marginal: Marginal
    counts: Counts
    variance: Fraction

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=np.int64)
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    def __repr__(self) -> str:
        return f"Measurement({self.marginal}, {self.counts.size} cells, variance {float(self.variance):.6g})"


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """Whole rows that were released because they are frequent: their codes over some columns, and noisy counts."""

    columns: Clique
    codes: Counts
    counts: Counts

    def __post_init__(self) -> None:
        codes = np.array(self.codes, dtype=np.int64).reshape(-1, len(self.columns))
        counts = np.array(self.counts, dtype=np.int64)
        if len(codes) != len(counts) or counts.min(initial=1) < 1:
            raise ReleaseError("the released rows have no counts.", hint="give each row a count above 0")
        for name, value in (("codes", codes), ("counts", counts)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, rows: Mapping[tuple[int, ...], int], *, columns: Iterable[str]) -> ReleasedRows:
        """Return the released rows as a table."""
        return cls(
            tuple(columns), np.array(list(rows), dtype=np.int64), np.array(list(rows.values()), np.int64)
        )

    def __repr__(self) -> str:
        return f"ReleasedRows({len(self.counts)} rows of {len(self.columns)} columns)"

    def to_json(self) -> dict[str, Any]:
        """Return the rows as plain JSON, column by column."""
        by_column = {name: self.codes[:, place].tolist() for place, name in enumerate(self.columns)}
        return {"codes": by_column, "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReleasedRows:
        """Return the rows that `to_json` wrote."""
        columns = tuple(map(str, document["codes"]))
        return cls(
            columns, np.array([document["codes"][name] for name in columns], np.int64).T, document["counts"]
        )

    def fits(self, domain: Domain) -> bool:
        """Say whether these are rows over all columns of a domain."""
        sizes = np.array([domain.get(name, 0) for name in self.columns])
        return self.columns == tuple(domain) and bool(((self.codes >= 0) & (self.codes < sizes)).all())


@dataclass(frozen=True, eq=False)
class Measurements:
    """Everything one run measured, under which schema, and the ledger's record of what it cost.

    `released_rows` are whole rows, where the method releases some, and `public` what it took from a public table.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "epsilon": 1, "delta": 0, "dataset": "smokers"}
    >>> pp.measure(people, **asked).save("measured")
    >>> pp.Measurements.load("measured").schema.columns.keys()
    dict_keys(['smokes'])
    """

    schema: Schema
    items: tuple[Measurement, ...]
    record: RunRecord
    released_rows: ReleasedRows | None = None
    public: PublicMarginals | None = None
    rule_checks: tuple[RuleCheck, ...] = ()
    """How many rows broke each rule before they were held to it, where that was asked for."""
    context: RunContext = field(default_factory=RunContext)
    numbered: bool = False
    """Whether they were saved in the first format, and are saved in it again."""
    earlier: tuple[EarlierRun, ...] = ()
    """Runs of the same account that paid for the last tables of `items`, in their order; see `pool`."""

    def __post_init__(self) -> None:
        if self.released_rows is not None and not self.released_rows.fits(self.schema.domain):
            raise ReleaseError(
                "the released rows are not rows of the schema.",
                hint="use measurements together with the schema they were made under",
            )
        if self.public is not None and (
            self.record.public is None or not self.public.fits(self.schema.domain)
        ):
            raise ReleaseError(
                "the public counts are not those of a table that the record names.",
                hint="use measurements together with the schema and the record they were made under",
            )
        if not self.items:
            raise ReleaseError("there are no measurements.", hint="measure at least one marginal")
        for item in self.items:
            if item.counts.shape != item.marginal.shape(self.schema.domain):
                raise ReleaseError(
                    f"the measurement of {item.marginal} does not have the shape its schema gives it.",
                    hint="use measurements together with the schema they were made under",
                )

    @classmethod
    def of(
        cls,
        schema: Schema,
        *,
        answers: Iterable[Measurement | ReleasedRows | PublicMarginals],
        record: RunRecord,
    ) -> Measurements:
        """Return what a run was answered: tables of counts and, by some methods, whole rows."""
        found = tuple(answers)
        items = tuple(answer for answer in found if isinstance(answer, Measurement))
        rows = [answer for answer in found if isinstance(answer, ReleasedRows)]
        public = [answer for answer in found if isinstance(answer, PublicMarginals)]
        return cls(
            schema=schema,
            items=items,
            record=record,
            released_rows=rows[-1] if rows else None,
            public=public[-1] if public else None,
        )

    def __repr__(self) -> str:
        epsilon, delta = (format_short_up(part) for part in self.record.guarantee)
        rehearsal = ", a rehearsal" if self.record.rehearsal else ""
        beside = f", beside {len(self.earlier)} earlier" if self.earlier else ""
        return (
            f"Measurements of “{self.record.dataset}”: {self.describe()}"
            f"{'' if self.released_rows is None else f', {len(self.released_rows.counts)} different rows'}\n"
            f"  paid for with ε = {epsilon}, δ = {delta}{rehearsal}{beside}"
        )

    @property
    def runs(self) -> tuple[Measurements, ...]:
        """What each run measured by itself: this one, then earlier ones."""
        place = len(self.items) - sum(each.tables for each in self.earlier)
        found = [replace(self, items=self.items[:place], earlier=())]
        for each in self.earlier:
            items = self.items[place : place + each.tables]
            found.append(Measurements(schema=self.schema, items=items, record=each.record))
            place += each.tables
        return tuple(found)

    @property
    def own_marginals(self) -> list[Marginal]:
        """What the run itself measured, in the order of measuring."""
        return [item.marginal for item in self.runs[0].items]

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms of all questions that were paid for, those of earlier runs too."""
        records = (self.record, *(each.record for each in self.earlier))
        return tuple(charged.spend.mechanism for record in records for charged in record.spends)

    def pool(self, other: Measurements, *, release: str) -> Measurements:
        """Return these measurements with the tables of another release of the same account beside them.

        `release` is the digest of its manifest. Who calls has seen that both belong together.
        """
        releases = (release, *(each.release for each in other.earlier))
        found = tuple(
            EarlierRun(record=run.record, release=digest, tables=len(run.items))
            for digest, run in zip(releases, other.runs, strict=True)
        )
        return replace(self, items=self.items + other.items, earlier=self.earlier + found)

    def describe(self) -> str:
        """Return what was measured as people say it: marginals, or queries of the levels of a geography."""
        marginals = [item.marginal for item in self.items]
        if self.schema.geography is not None:
            return describe_levels(marginals, self.schema.geography)
        return describe_marginals(marginals)

    @cached_property
    def digest(self) -> str:
        """The hash of everything measured and of the record that paid for it; a model names it as its parent."""
        document = hashlib.sha256(json.dumps(self.to_json(), ensure_ascii=False).encode())
        for item in self.items:
            document.update(item.counts.astype("<i8").tobytes())
        return document.hexdigest()

    def save(
        self, folder: str | Path, *, beside: Mapping[str, Sequence[Numbers]] = MappingProxyType({})
    ) -> None:
        """Write `measurements.parquet` (one row per cell) and `measurements.json` (everything else).

        `beside` are columns to write next to the counts, such as their intervals: a table for every measurement.
        """
        import pyarrow.parquet as pq

        from populace.measurements.measured_cells import tabulate_cells

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        counts = [(item.marginal, item.counts) for item in self.items]
        cells = tabulate_cells(counts, beside=beside, schema=self.schema if self.labelled else None)
        # Arrow opens only paths that are UTF-8.
        with (folder / "measurements.parquet").open("wb") as file:
            pq.write_table(cells, file, compression="zstd")
        text = pretty_json(self.to_json())
        (folder / "measurements.json").write_text(text + "\n", encoding="utf-8")

    @property
    def labelled(self) -> bool:
        """Whether the cells of their file have names."""
        return not self.numbered and self.schema.geography is None

    def to_json(self) -> dict[str, Any]:
        """Return `measurements.json`: everything but the counts."""
        groupings = list(dict.fromkeys(g for item in self.items for g in item.marginal.groupings))
        return {
            "format": LABELLED if self.labelled else NUMBERED,
            "rehearsal": self.record.rehearsal,
            "schema_digest": self.schema.digest,
            "schema": self.schema.to_toml(),
            "record": self.record.to_json(),
            "groupings": [grouping_to_json(grouping) for grouping in groupings],
            "marginals": [
                {
                    "columns": list(item.marginal.clique),
                    "groupings": [groupings.index(g) for g in item.marginal.groupings],
                    "shape": list(item.counts.shape),
                    "variance": str(item.variance),
                }
                for item in self.items
            ],
            # Digests of releases that exist pin this key.
            **({} if self.released_rows is None else {"told": self.released_rows.to_json()}),
            **({} if self.public is None else {"public": self.public.to_json()}),
            **({"rule_checks": [each.to_json() for each in self.rule_checks]} if self.rule_checks else {}),
            **({"earlier": [each.to_json() for each in self.earlier]} if self.earlier else {}),
        }

    @classmethod
    def load(cls, folder: str | Path) -> Measurements:
        """Read what `save` wrote; a file that is not ours, or was cut short, is refused."""
        from populace.measurements.measured_cells import read_cells

        folder = Path(folder)
        document = read_stage(folder, files=FILES, forms=(NUMBERED, LABELLED), verb="measure")
        with refuse_parse_errors(f"{' and '.join(FILES)} in {folder}"):
            schema = Schema.parse(require_text(document["schema"]), released=True)
            groupings = [grouping_from_json(each, schema=schema) for each in document["groupings"]]
            marginals = [
                Marginal(
                    tuple(map(require_text, entry["columns"])),
                    tuple(groupings[require_int(number)] for number in entry["groupings"]),
                )
                for entry in document["marginals"]
            ]
            shapes = [tuple(map(require_int, entry["shape"])) for entry in document["marginals"]]
            if shapes != [marginal.shape(schema.domain) for marginal in marginals]:
                raise ReleaseError(
                    "a measurement does not have the shape its schema gives it.",
                    hint="use measurements together with the schema they were made under",
                )
            labelled = document["format"] == LABELLED
            if labelled and schema.geography is not None:
                raise ValueError("cells of a geography have no names here")
            path = folder / "measurements.parquet"
            blocks = read_cells(path, marginals, schema=schema, labelled=labelled)
            items = tuple(
                Measurement(marginal, block, fraction_from_json(entry["variance"]))
                for marginal, block, entry in zip(marginals, blocks, document["marginals"], strict=True)
            )
            record = RunRecord.from_json(document["record"])
            exact = [level_marginal(schema, totals.level) for totals in record.invariants]
            for item in items:
                published = any(is_same_question(item.marginal, each) for each in exact)
                if item.variance < 0 or (not item.variance and not published):
                    raise ValueError("noise that is none")
            rows = ReleasedRows.from_json(document["told"]) if "told" in document else None
            public = (
                PublicMarginals.from_json(document["public"], domain=schema.domain)
                if "public" in document
                else None
            )
            checks = tuple(RuleCheck.from_json(each) for each in document.get("rule_checks", ()))
            earlier = tuple(EarlierRun.from_json(each) for each in document.get("earlier", ()))
            if sum(each.tables for each in earlier) >= len(items):
                raise ValueError("more tables of earlier runs than there are")
            whole_schema = schema.digest == document["schema_digest"]
        # The budget was reserved under the schema as it was before domains were learnt.
        digests = {schema.declared.digest, *(each.record.schema_digest for each in earlier)}
        if not whole_schema or digests != {record.schema_digest}:
            raise ReleaseError(
                f"the files of {folder} do not belong together.",
                hint="give the folder that `populace measure` wrote, unaltered",
            )
        return cls(
            schema=schema,
            items=items,
            record=record,
            released_rows=rows,
            public=public,
            rule_checks=checks,
            numbered=not labelled,
            earlier=earlier,
        )


def describe_marginals(marginals: Iterable[Marginal]) -> str:
    """Return what was measured as people say it, repeats counted once.

    >>> describe_marginals([Marginal(()), Marginal(("age",)), Marginal(("sex",)), Marginal(("age", "sex"))])
    'number of rows, 2 columns, 1 pair'
    """
    sizes = Counter(len(clique) for clique in dict.fromkeys(marginal.clique for marginal in marginals))
    return ", ".join(describe_count(number, columns=size) for size, number in sorted(sizes.items()))


def describe_count(number: int, *, columns: int) -> str:
    """Return a number of marginals over so many columns each, in words.

    >>> describe_count(12, columns=1), describe_count(1, columns=2), describe_count(1, columns=0)
    ('12 columns', '1 pair', 'number of rows')
    """
    if columns == 0:
        return "number of rows"
    one = {1: "column", 2: "pair"}.get(columns, f"combination of {columns} columns")
    many = {1: "columns", 2: "pairs"}.get(columns, f"combinations of {columns} columns")
    return f"{number} {one if number == 1 else many}"
