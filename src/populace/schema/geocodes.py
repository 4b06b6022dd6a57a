"""The geography of a hierarchical release: `[geography]` of a schema, and the geocode of every smallest unit.

Units and their ids are public and come from a file of their own, never from rows. A row names its unit by one column
for each level; together they are one variable, the geocode, whose codes number the smallest units.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Ints
from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, LevelGrouping, Marginal
from populace.core.spine import ROOT, Spine, number_paths
from populace.schema.columns.column import CategoricalColumn, Origin
from populace.schema.hints import quote_names, suggest
from populace.schema.toml_table import TomlTable

GEOCODE = "geocode"
# The names of columns in the files of a release of a geography, beside those of levels and cells.
FILE_COLUMNS = ("level", "query", "unbiased", "margin", "published", "value", "variance")
# Says, in those of linked tables, which of the two a row is about.
TABLE_COLUMN = "table"
_MARK = "|"
MAX_NAMED = 12


@dataclass(frozen=True, eq=False)
class Geography:
    """The levels of a spine, widest first, with the id of every unit.

    >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
    >>> geography.spine.leaves, geography.columns["tract"].values
    (3, ('1', '2'))
    """

    levels: tuple[str, ...]
    spine: Spine
    ids: tuple[tuple[str, ...], ...]
    """The id of every unit below the root, by level; ids may repeat below different parents. An empty cell is an id."""

    @classmethod
    def of_paths(cls, paths: Sequence[Sequence[str]], *, levels: Sequence[str]) -> Geography:
        """Return the geography of smallest units that are named by the ids of all levels, widest first.

        Blanks around an id do not count, as in the cells of a table.
        """
        _check_levels(levels)
        paths = [tuple(text.strip() for text in path) for path in paths]
        if not paths:
            raise SchemaError("[geography] has no units.", hint="list every smallest unit of the spine")
        if len(paths) > LIMITS.max_units:
            raise SchemaError(
                f"[geography] has {len(paths)} units; {LIMITS.max_units} is the most.",
                hint="release one state or region after the other",
            )
        if len(set(paths)) < len(paths):
            raise SchemaError("[geography] lists a unit twice.", hint="give one row per smallest unit")
        if any(len(path) != len(levels) for path in paths):
            raise SchemaError(
                f"[geography]: a unit does not have an id for each of {quote_names(levels)}.",
                hint=f"list the ids of all levels, widest first, with {_MARK!r} between them",
            )
        if any(_MARK in text for path in paths for text in path):
            raise SchemaError(
                f"[geography]: the id of a unit holds {_MARK!r}.",
                hint="write ids without it, in the data too",
            )
        spine, ids = number_paths(paths, levels=levels)
        return cls(levels=tuple(levels), spine=spine, ids=ids)

    @cached_property
    def columns(self) -> Mapping[str, CategoricalColumn]:
        """The columns of a row that name its units, one for each level."""
        return {
            level: CategoricalColumn(name=level, values=tuple(sorted(set(ids))), origin=Origin.CODEBOOK)
            for level, ids in zip(self.levels, self.ids, strict=True)
        }

    @cached_property
    def variable(self) -> CategoricalColumn:
        """The geocode as a column of codes: one for every smallest unit, and nothing else."""
        paths = tuple(map(join_path, self.paths()))
        return CategoricalColumn(name=GEOCODE, values=paths, other=paths[0], origin=Origin.CODEBOOK)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the levels and of all units."""
        form = json.dumps([self.levels, self.paths()], separators=(",", ":"))
        return hashlib.sha256(form.encode()).hexdigest()

    def paths(self) -> list[tuple[str, ...]]:
        """Return the ids of every smallest unit and of those above it, widest first."""
        return self.unit_paths(len(self.levels))

    def unit_paths(self, level: int) -> list[tuple[str, ...]]:
        """Return the ids of every unit of a level and of those above it, widest first."""
        return list(
            zip(*(self.unit_ids(above, of_level=level) for above in range(1, level + 1)), strict=True)
        )

    def unit_ids(self, level: int, *, of_level: int) -> list[str]:
        """Return, for every unit of a level of the spine, the id of the unit of a level above that it lies in.

        >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
        >>> geography.unit_ids(1, of_level=2)
        ['A', 'A', 'B']
        """
        ids = np.array(self.ids[level - 1], dtype=object)
        found: list[str] = ids[self.spine.ancestors(level, of_level=of_level)].tolist()
        return found

    def index_units(self, names: Sequence[str]) -> tuple[dict[tuple[str, ...], int], set[tuple[str, ...]]]:
        """Return the units of the last of some levels by their ids in all of them, and ids that several units have.

        >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
        >>> geography.index_units(["tract"])
        ({('1',): 2, ('2',): 1}, {('1',)})
        """
        if not names:
            return {(): 0}, set()
        level = self.spine.levels.index(names[-1])
        ids = [self.unit_ids(self.spine.levels.index(name), of_level=level) for name in names]
        keys = list(zip(*ids, strict=True))
        places = {key: unit for unit, key in enumerate(keys)}
        return places, {key for unit, key in enumerate(keys) if places[key] != unit}

    def level_codes(self, level: str) -> Ints:
        """Return the code, in its level's column, of the unit of that level that each smallest unit lies in."""
        return self._level_codes[level]

    @cached_property
    def _level_codes(self) -> Mapping[str, Ints]:
        found = {}
        for number, level in enumerate(self.levels):
            places = self.columns[level].places
            codes = np.array([places[text] for text in self.ids[number]], dtype=np.int64)
            found[level] = codes[self.spine.ancestors(number + 1)]
        return found

    def grouping(self, level: int) -> LevelGrouping | None:
        """Return the map from smallest units to the units of a level; None for the smallest themselves."""
        if level == len(self.levels):
            return None
        return LevelGrouping(GEOCODE, tuple(self.spine.ancestors(level).tolist()), self.spine.levels[level])

    def marginal(self, level: int, clique: Clique = ()) -> Marginal:
        """Return the question that counts a clique of columns in every unit of a level.

        >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
        >>> str(geography.marginal(0, ("race",))), str(geography.marginal(1, ("race",)))
        ('race', 'county × race')
        """
        if level == 0:
            return Marginal(clique)
        grouping = self.grouping(level)
        return Marginal((GEOCODE, *clique), () if grouping is None else (grouping,))

    def find_level(self, name: str, *, place: str) -> int:
        """Return the number of a level of the spine by its name; "all" is the root."""
        if name in self.spine.levels:
            return self.spine.levels.index(name)
        raise SchemaError(
            f"{place}: the geography has no level {name!r}.",
            hint=suggest(name, self.spine.levels, otherwise=f"one of {quote_names(self.spine.levels)}"),
        )

    def encode(self, codes: Mapping[str, npt.NDArray[Any]]) -> Ints:
        """Return the smallest unit of every row, from the codes of the columns of its levels.

        A row off the spine goes to the first smallest unit below the last unit on its path that is known: it stays in
        every unit that it names rightly, and only its own ids decide where it goes.

        >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
        >>> geography.encode({"county": np.array([0, 1, 1, 2]), "tract": np.array([1, 0, 1, 1])}).tolist()
        [1, 2, 2, 0]
        """
        rows = len(next(iter(codes.values())))
        units = np.zeros(rows, dtype=np.int64)
        known = np.ones(rows, dtype=np.bool_)
        for number, level in enumerate(self.levels):
            size = self.columns[level].size
            places = self.columns[level].places
            own = np.array([places[text] for text in self.ids[number]], dtype=np.int64)
            keys = self.spine.parents[number] * size + own
            order = np.argsort(keys)
            asked = units * size + codes[level].astype(np.int64)
            place = np.searchsorted(keys, asked, sorter=order).clip(max=len(keys) - 1)
            found = order[place]
            known &= keys[found] == asked
            units = np.where(known, found, self.spine.first_children(number + 1)[units])
        return units

    def decode(self, units: npt.NDArray[Any]) -> dict[str, Ints]:
        """Return the codes of the columns of all levels for some smallest units."""
        return {level: self.level_codes(level)[units] for level in self.levels}

    def to_table(self) -> dict[str, list[str]]:
        """Return the geography as keys of `[geography]`, with its units listed one by one."""
        return {"levels": list(self.levels), "units": [join_path(path) for path in self.paths()]}


def join_path(ids: Sequence[str]) -> str:
    """Return the ids of a unit and of those above it as one text."""
    return _MARK.join(ids)


def read_geography(document: TomlTable, *, folder: Path | None) -> Geography | None:
    """Return what `[geography]` of a schema says; units are in a file, or listed by their ids."""
    if "geography" not in document:
        return None
    table = document.table("geography", place="[geography]")
    table.allow(("levels", "units", "facts"))
    levels, units = table.texts("levels"), table.items.get("units")
    if isinstance(units, list):
        return Geography.of_paths([tuple(text.split(_MARK)) for text in table.texts("units")], levels=levels)
    if not isinstance(units, str):
        raise table.error(
            "has no units.", hint='name a file with one row per smallest unit: units = "spine.csv"'
        )
    return read_units(find_public_file(table, units, folder=folder), levels=levels)


def find_public_file(table: TomlTable, name: str, *, folder: Path | None) -> Path:
    """Return the path of a file that `[geography]` names; a schema that is in no folder, as in a release, has none."""
    if folder is None:
        raise table.error(
            f"names the file {name!r}, but the schema is in no folder.", hint="load the schema from its file"
        )
    return folder / name


def read_invariants(tables: Sequence[TomlTable]) -> tuple[str, ...]:
    """Return the levels whose totals `[[invariants]]` publish exactly; `by = []` is the whole table."""
    found = []
    for table in tables:
        table.allow(("by",))
        by = table.texts("by")
        if "by" not in table or len(by) > 1:
            raise table.error(
                "does not name one level.",
                hint='write by = [] for the whole table, or by = ["county"]: totals must be of units of one level',
            )
        found.append(by[0] if by else ROOT)
    return tuple(found)


def order_levels(geography: Geography, names: Sequence[str]) -> tuple[str, ...]:
    """Return levels by name, widest first and each once; refuse those that the geography does not have."""
    numbers = {geography.find_level(name, place="[[invariants]]") for name in names}
    return tuple(geography.spine.levels[number] for number in sorted(numbers))


def read_units(path: Path, *, levels: Sequence[str]) -> Geography:
    """Read the units of a spine from a CSV or Parquet file with one row per smallest unit."""
    _check_levels(levels)
    return Geography.of_paths(read_text_columns(path, levels, place="[geography] units"), levels=levels)


def read_text_columns(path: Path, names: Sequence[str], *, place: str) -> list[tuple[str, ...]]:
    """Return some columns of a public CSV or Parquet file as texts, row by row; empty cells are empty texts."""
    import pyarrow as pa

    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            table = pq.ParquetFile(path).read()
        else:
            import pyarrow.csv as pc

            types = {name: pa.string() for name in names}
            options = pc.ConvertOptions(column_types=types, strings_can_be_null=False)
            table = pc.read_csv(path, convert_options=options)
        if missing := [name for name in names if name not in table.column_names]:
            raise SchemaError(
                f"{place}: {str(path)!r} has no column {quote_names(missing)}.",
                hint=suggest(
                    missing[0],
                    table.column_names,
                    otherwise=f"its columns are {quote_names(table.column_names[:MAX_NAMED])}",
                ),
            )
        columns = [table.column(name).cast(pa.string()).to_pylist() for name in names]
    except FileNotFoundError:
        raise SchemaError(
            f"{place}: there is no file {str(path)!r}.", hint="paths are read from the schema's folder"
        ) from None
    except (OSError, pa.ArrowException, KeyError):
        raise SchemaError(
            f"{place}: {str(path)!r} cannot be read as a table with columns {quote_names(names)}.",
            hint="give a CSV or Parquet file that has these columns",
        ) from None
    return [tuple((text or "").strip() for text in row) for row in zip(*columns, strict=True)]


def _check_levels(levels: Sequence[str]) -> None:
    if not levels or len(set(levels)) < len(levels) or {ROOT, GEOCODE} & set(levels):
        raise SchemaError(
            f"[geography] has the levels {quote_names(levels) or 'none'}.",
            hint=f"name each level below the root once, widest first; the root is called {ROOT!r} by itself",
        )
