"""Noisy-measurement files of the US Census Bureau (2020, and 2010 demonstrations), read into a hierarchy.

A folder holds, for each level of the spine, `Level.parquet/DPQuery/…/*.parquet`: one row per unit and query, with
`geocode`, `query_name`, `query_shape`, `value` (the noisy counts of the query, row by row), `variance`, and a column
for each attribute. `Level.parquet/Constraint` has what was held exact or bounded; its totals (`total_con`) are used. A
unit's geocode begins with that of the unit it lies in, and is as long as all others of its level.

Only the columns asked for are kept: the others are summed over, unit by unit. That loses nothing, since least squares
of marginal queries separate into effects. Docs: docs/guides/census-files.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats, Ints
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Domain, Marginal
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates, estimate_hierarchy
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.release.hierarchy.area_table import AreaTable, check_columns, make_area_table
from populace.release.hierarchy.area_units import find_members
from populace.schema.geocodes import Geography

QUERIES, CONSTRAINTS, TOTAL = "DPQuery", "Constraint", "total_con"
NEEDED = ("geocode", "query_name", "query_shape", "value")
# Columns of the files that are no attribute: those of queries, of constraints, and of the folders they lie in.
OTHERS = (*NEEDED, "variance", "plb", "sign", "State", "County")
# The attributes of the redistricting data with their codes in order; every mixture of races is a code.
RACES = ("white", "black", "AIAN", "Asian", "NHPI", "other")
LABELS = {
    "hhgq": (
        "household",
        "correctional facility for adults",
        "juvenile facility",
        "nursing facility",
        "other institutional facility",
        "student housing",
        "military quarters",
        "other noninstitutional facility",
    ),
    "votingage": ("under 18", "18 and over"),
    "hispanic": ("not Hispanic", "Hispanic"),
    "cenrace": tuple(" and ".join(each) for count in range(1, 7) for each in combinations(RACES, count)),
    "h1": ("vacant", "occupied"),
}
# The 95 % margin of error of a sum of many noises, in standard deviations.
NORMAL_DEVIATIONS = 1.96
# A block's geocode ends in state, county, tract, block group and block; its public id leaves out the group.
BLOCK_LEVEL, BLOCK_LETTERS, GROUP_PLACE = "block", 16, 11


@dataclass(frozen=True, eq=False, kw_only=True)
class CensusMeasurements:
    """The noisy counts of the units of a census, summed over all attributes but some.

    `left_out` are queries that group the codes of an attribute, which are not used.
    """

    geography: Geography
    plan: HierarchyPlan
    noisy: tuple[tuple[Floats, ...], ...]
    totals: Mapping[int, Floats]
    left_out: tuple[str, ...]

    @cached_property
    def estimates(self) -> HierarchyEstimates:
        """The best linear unbiased estimates of every unit, with exact variances."""
        return estimate_hierarchy(self.plan, self.noisy, totals=self.totals)

    def area(self, units: Any) -> AreaTable:
        """Return the estimates of any set of units, by the columns that were read."""
        members = find_members(units, self.geography)
        found = self.estimates.area(members, clique=self.plan.columns)
        labels = {name: label_codes(name, size) for name, size in self.plan.domain.items()}
        return make_area_table(
            found,
            NORMAL_DEVIATIONS * found.standard_deviation,
            level=self.geography.levels[-1],
            units=int(members.sum()),
            labels=labels,
            kept=np.arange(self.plan.cells),
        )


def label_codes(attribute: str, size: int) -> list[str]:
    """Return what the codes of an attribute mean; of those that are not of the redistricting data, their numbers.

    >>> label_codes("votingage", 2), label_codes("cenrace", 63)[5:8], label_codes("relgq", 2)
    (['under 18', '18 and over'], ['other', 'white and black', 'white and AIAN'], ['0', '1'])
    """
    known = LABELS.get(attribute, ())
    return list(known) if len(known) == size else [str(code) for code in range(size)]


def has_census_files(folder: Path) -> bool:
    """Say whether a folder holds noisy measurements of the Census Bureau, by the names of what is in it."""
    return folder.is_dir() and any((path / QUERIES).is_dir() for path in folder.glob("*.parquet"))


def read_census_measurements(folder: Path, *, by: Sequence[str] = ()) -> CensusMeasurements:
    """Read the noisy measurements of a folder, summed over all attributes but those named."""
    parts = {path.name.removesuffix(".parquet").lower(): path for path in sorted(folder.glob("*.parquet"))}
    read = {name: _LevelFile.read(path, by=tuple(by), level=name) for name, path in parts.items()}
    read = dict(sorted(read.items(), key=lambda item: item[1].width))
    if not read or len({level.width for level in read.values()}) < len(read):
        raise _no_spine("two levels have geocodes of the same length")
    names, smallest = list(read), [*read.values()][-1]
    paths = [_find_path(code, read) for code in smallest.geocodes]
    geography = Geography.of_paths([_label_path(path, names) for path in paths], levels=names)
    domain = Domain({name: smallest.sizes[name] for name in smallest.sizes if name in by})
    cells = domain.cells(domain) * geography.spine.leaves
    if cells > LIMITS.max_hierarchy_cells:
        raise UsageError(
            f"{geography.spine.leaves} units of {domain.cells(domain)} cells are {cells} counts; the most is "
            f"{LIMITS.max_hierarchy_cells}.",
            hint="count by fewer columns",
        )
    levels, totals = [LevelQueries()], {}
    noisy: list[tuple[Floats, ...]] = [()]
    for number, (name, level) in enumerate(read.items(), start=1):
        units, _ = geography.index_units([name])
        labels = [(_label_unit(code, name),) for code in level.geocodes]
        if lost := [label for label in labels if label not in units]:
            raise _no_spine(f"unit {lost[0][0]!r} of level {name!r} holds no unit of level {names[-1]!r}")
        places = np.array([units[label] for label in labels], dtype=np.int64)
        size = geography.spine.units(number)
        exact = level.exact_totals(size, places)
        if exact is not None:
            totals[number] = exact
        queries = [query.arrange(size) for query in level.move(places)]
        levels.append(
            LevelQueries(queries=tuple(query for query, _ in queries), has_exact_total=exact is not None)
        )
        noisy.append(tuple(counts for _, counts in queries))
    plan = HierarchyPlan(spine=geography.spine, domain=domain, levels=tuple(levels))
    detailed = [query for query in levels[-1].queries if set(query.marginal.clique) == set(domain)]
    if not np.add.reduce([np.broadcast_to(query.unit_weights, size) for query in detailed]).all():
        raise _no_spine(f"units of level {names[-1]!r} were not measured")
    return CensusMeasurements(
        geography=geography,
        plan=plan,
        noisy=tuple(noisy),
        totals=totals,
        left_out=tuple(sorted({name for level in read.values() for name in level.left_out})),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Query:
    """The noisy counts of one query in some units of a level, and their variances."""

    clique: Clique
    units: Ints
    counts: Floats
    variances: Floats

    def arrange(self, size: int) -> tuple[MeasuredQuery, Floats]:
        """Return the query and its counts in all units of a level: 0, with weight 0, where it was not asked."""
        counts = np.zeros((size, *self.counts.shape[1:]))
        weights = np.zeros(size)
        least = float(self.variances.min())
        counts[self.units], weights[self.units] = self.counts, least / self.variances
        same = bool((weights == 1).all())
        marginal = Marginal(self.clique)
        return MeasuredQuery(marginal=marginal, variance=least, weights=None if same else weights), counts


@dataclass(frozen=True, eq=False, kw_only=True)
class _LevelFile:
    """What the files of one level hold: geocodes, and by the name of each query its counts."""

    geocodes: list[str]
    sizes: Mapping[str, int]
    queries: Mapping[str, _Query]
    totals: Mapping[str, float]
    left_out: tuple[str, ...]

    @property
    def width(self) -> int:
        """The length of a geocode."""
        return len(self.geocodes[0])

    @classmethod
    def read(cls, path: Path, *, by: Clique, level: str) -> _LevelFile:
        tables = list(_read_tables(path / QUERIES, wanted=(*NEEDED, "variance")))
        attributes = [name for name in tables[0].column_names if name not in OTHERS]
        check_columns(by, known=attributes)
        totals = _read_totals(path / CONSTRAINTS)
        geocodes = sorted({*(text for table in tables for text in table["geocode"].to_pylist()), *totals})
        if len({len(text) for text in geocodes}) != 1:
            raise _no_spine(f"geocodes of level {level!r} differ in length")
        place = {text: number for number, text in enumerate(geocodes)}
        shapes = [shape for table in tables for shape in table["query_shape"].to_pylist()]
        if any(len(shape) != len(attributes) for shape in shapes):
            raise _no_spine(f"shapes of queries of level {level!r} do not fit {', '.join(attributes)}")
        sizes = dict(zip(attributes, map(max, zip(*shapes, strict=True)), strict=True))
        found: dict[str, list[_Query]] = {}
        left_out = set()
        for table in tables:
            for name, rows in _split(table):
                shape = tuple(rows["query_shape"][0].as_py())
                if any(n not in (1, size) for n, size in zip(shape, sizes.values(), strict=True)):
                    left_out.add(name.removesuffix("_dpq"))
                    continue
                values = rows["value"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
                counts = values.astype(np.float64).reshape(rows.num_rows, *shape)
                lost = tuple(1 + axis for axis, attribute in enumerate(attributes) if attribute not in by)
                summed = math.prod(shape[axis - 1] for axis in lost)
                clique = tuple(a for a, n in zip(attributes, shape, strict=True) if a in by and n > 1)
                found.setdefault(name, []).append(
                    _Query(
                        clique=clique,
                        units=np.array([place[text] for text in rows["geocode"].to_pylist()]),
                        counts=counts.sum(axis=lost).reshape(rows.num_rows, *(sizes[a] for a in clique)),
                        variances=summed * rows["variance"].to_numpy().astype(np.float64),
                    )
                )
        queries = {name: _join(several) for name, several in found.items()}
        return cls(
            geocodes=geocodes, sizes=sizes, queries=queries, totals=totals, left_out=tuple(sorted(left_out))
        )

    def move(self, places: Ints) -> Iterator[_Query]:
        """Yield the queries with units numbered as a geography does."""
        for query in self.queries.values():
            yield _Query(
                clique=query.clique,
                units=places[query.units],
                counts=query.counts,
                variances=query.variances,
            )

    def exact_totals(self, size: int, places: Ints) -> Floats | None:
        """Return the totals of all units if they were held exact."""
        if len(self.totals) < size:
            return None
        found = np.zeros(size)
        found[places] = [self.totals[text] for text in self.geocodes]
        return found


def _join(several: Sequence[_Query]) -> _Query:
    return _Query(
        clique=several[0].clique,
        units=np.concatenate([each.units for each in several]),
        counts=np.concatenate([each.counts for each in several]),
        variances=np.concatenate([each.variances for each in several]),
    )


def _read_tables(folder: Path, *, wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the tables of a folder, one after the other."""
    import pyarrow.parquet as pq

    files = sorted(path for path in folder.rglob("*.parquet") if path.is_file())
    if not files:
        raise _no_spine(f"{folder} has no Parquet files")
    for path in files:
        try:
            table = pq.ParquetFile(path).read()
        except (OSError, pa.ArrowException):
            raise UsageError(f"{path} cannot be read as Parquet.", hint="copy the file again") from None
        if missing := [name for name in wanted if name not in table.column_names]:
            raise _no_spine(f"{path} has no column {missing[0]!r}")
        yield table


def _read_totals(folder: Path) -> dict[str, float]:
    """Return the totals that were held exact, by geocode."""
    if not folder.is_dir():
        return {}
    found: dict[str, float] = {}
    for table in _read_tables(folder, wanted=NEEDED):
        for code, name, value in zip(
            *(table[column].to_pylist() for column in ("geocode", "query_name", "value")), strict=True
        ):
            if name == TOTAL:
                found[code] = float(sum(value))
    return found


def _split(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each query of a table."""
    import pyarrow.compute as pc

    for name in sorted(set(table["query_name"].to_pylist())):
        yield name, table.filter(pc.field("query_name") == name)


def _find_path(code: str, levels: Mapping[str, _LevelFile]) -> list[str]:
    """Return the geocodes of the units that a smallest unit lies in; a level of one unit holds all."""
    return [
        level.geocodes[0] if len(level.geocodes) == 1 else code[: level.width] for level in levels.values()
    ]


def _label_path(path: Sequence[str], names: Sequence[str]) -> list[str]:
    return [_label_unit(code, name) for code, name in zip(path, names, strict=True)]


def _label_unit(code: str, level: str) -> str:
    """Return the id of a unit: its geocode, or the public id of a block.

    >>> _label_unit("0440010301001" + "1001030100111001", "block"), _label_unit("050", "state")
    ('100103010011001', '050')
    """
    if level != BLOCK_LEVEL or len(code) < BLOCK_LETTERS:
        return code
    block = code[-BLOCK_LETTERS:]
    return block[:GROUP_PLACE] + block[GROUP_PLACE + 1 :]


def _no_spine(why: str) -> UsageError:
    return UsageError(
        f"the folder holds no noisy measurements that can be read: {why}.",
        hint="give the folder of one product and table, with Level.parquet/DPQuery folders below it; docs/guides/"
        "census-files.md says which files are read",
    )
