"""The units of an area: a file or a frame with the ids of units of one level, as smallest units of the spine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from populace.core.array_types import Ints, Truth
from populace.core.errors import ResourceError, UsageError
from populace.schema.geocodes import Geography
from populace.schema.hints import quote_names

# So many unknown units are named.
MAX_NAMED = 5


def find_members(units: Any, geography: Geography) -> Truth:
    """Return which smallest units lie in an area that is given by the ids of units of one level.

    The level is the smallest that has a column. Columns of wider levels tell units apart whose ids repeat; they may be
    left out where ids do not. A unit that is named twice counts once.

    >>> geography = Geography.of_paths([("A", "1"), ("A", "2"), ("B", "1")], levels=("county", "tract"))
    >>> find_members({"county": ["A"]}, geography).tolist(), find_members({"tract": ["2"]}, geography).tolist()
    ([True, True, False], [False, True, False])
    """
    table = _read_units(units, levels=geography.levels)
    columns = {level: _texts(table, level) for level in geography.levels if level in table.column_names}
    if not columns:
        raise UsageError(
            f"the units of the area have no column {' or '.join(map(repr, geography.levels))}.",
            hint="name a column as a level, and list the ids of its units",
        )
    asked = list(zip(*columns.values(), strict=True))
    if not asked:
        raise UsageError("the area has no units.", hint="list the ids of one unit or more")
    level = geography.spine.levels.index(list(columns)[-1])
    chosen = np.zeros(geography.spine.units(level), dtype=np.bool_)
    chosen[_find_units(asked, list(columns), geography=geography)] = True
    members: Truth = chosen[geography.spine.ancestors(level)]
    return members


def _find_units(asked: Sequence[tuple[str, ...]], names: Sequence[str], *, geography: Geography) -> Ints:
    """Return the number of each unit that is asked for; refuse those that are unknown or not told apart."""
    places, repeated = geography.index_units(names)
    if unknown := list(dict.fromkeys(key for key in asked if key not in places)):
        named = ", ".join(_describe(key, names) for key in unknown[:MAX_NAMED])
        more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
        raise UsageError(
            f"the release has no unit {named}{more}.",
            hint="write ids as tables.parquet has them; leading zeros count",
        )
    if twice := next((key for key in asked if key in repeated), None):
        wider = geography.levels[: geography.levels.index(names[-1])]
        raise UsageError(
            f"{_describe(twice, names)} is the id of several units.",
            hint=f"add the columns {quote_names([name for name in wider if name not in names])}",
        )
    return np.array([places[key] for key in asked], dtype=np.int64)


def _describe(key: tuple[str, ...], names: Sequence[str]) -> str:
    return " ".join(f"{name} {text!r}" for name, text in zip(names, key, strict=True))


def _texts(table: pa.Table, name: str) -> list[str]:
    return [(text or "").strip() for text in table[name].cast(pa.string()).to_pylist()]


def _read_units(units: Any, *, levels: Sequence[str]) -> pa.Table:
    """Return the units as a table of texts, from a file, a frame or a mapping of lists."""
    if isinstance(units, str | Path):
        return _read_file(Path(units), levels=levels)
    if isinstance(units, Mapping):
        return pa.table({name: pa.array([str(text) for text in texts]) for name, texts in units.items()})
    import narwhals as nw

    return nw.from_native(units, eager_only=True).to_arrow()


def _read_file(path: Path, *, levels: Sequence[str]) -> pa.Table:
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pyarrow.parquet.read_table(path)
        # Ids are texts: 001 is not 1.
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(levels, pa.string()), strings_can_be_null=False
        )
        return pyarrow.csv.read_csv(path, convert_options=convert)
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}.", hint="give a file that lists units") from None
    except pa.ArrowException:
        raise UsageError(
            f"{str(path)!r} cannot be read as a table.",
            hint="give a CSV or Parquet file with columns named as levels",
        ) from None
    except OSError as failure:
        raise ResourceError(
            f"{str(path)!r} cannot be read: {failure.strerror or 'the system refuses'}.",
            hint="give a file you may read",
        ) from None
