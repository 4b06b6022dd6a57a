"""The schema: everything that is known before a row is read."""

from __future__ import annotations

import hashlib
import json
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from populace.errors import ResourceError, SchemaError
from populace.marginals import Domain
from populace.schema.columns import Column
from populace.schema.hints import listing
from populace.schema.ranges import Integer
from populace.schema.reader import read_column, read_unit
from populace.schema.tables import Table
from populace.schema.unit import Unit
from populace.schema.writer import Written, canonical, column_table, toml, toml_key, unit_table

_TABLE_KEYS = ("dataset", "unit", "rows_per_unit", "id", "neighbours", "max_rows")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The public description of a table: its columns in order, who is protected, which account pays.

    Two schemas are equal when their digests are.

    >>> schema = Schema.from_sizes({"age": 85, "sex": 2})
    >>> dict(schema.domain)
    {'age': 85, 'sex': 2}
    """

    columns: Mapping[str, Column]
    unit: Unit = field(default_factory=Unit)
    dataset: str | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        if not self.columns:
            raise SchemaError("the schema has no columns.", hint="add a table [columns.NAME] for each column")
        for name, column in self.columns.items():
            if name != column.name:
                raise SchemaError(f"column {column.name!r} is filed under {name!r}.", hint="use one name")
        _refuse_lookalikes(self.columns)
        if self.unit.id is not None and self.unit.id in self.columns:
            raise SchemaError(
                f"column {self.unit.id!r} is the id and a column to release.",
                hint="ids are not released: take it out of the columns",
            )
        if self.max_rows is not None and self.max_rows < 1:
            raise SchemaError(f"max_rows is {self.max_rows}.", hint="give a whole number of 1 or more")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def domain(self) -> Domain:
        """The sizes of the columns, in order."""
        return Domain({name: column.size for name, column in self.columns.items()})

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form: the same for every way to write the same schema."""
        columns = [{"name": name, **column_table(column)} for name, column in self.columns.items()]
        form = canonical({"table": self._table(), "columns": columns})
        return hashlib.sha256(form.encode()).hexdigest()

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a `schema.toml`, or from a `domain.json` that gives each column's size."""
        text = _read_text(Path(path))
        if Path(path).suffix.lower() == ".json" or text.lstrip().startswith("{"):
            return cls.from_sizes(_parse_sizes(text, name=repr(str(path))))
        return cls._from_document(_parse_toml(text, name=repr(str(path))))

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read a schema from TOML text.

        >>> Schema.parse('[columns.AGE]\\nkind = "integer"\\nmin = 0\\nmax = 99\\nother = "0"').domain["AGE"]
        100
        """
        return cls._from_document(_parse_toml(text, name="the schema"))

    @classmethod
    def _from_document(cls, document: Table) -> Schema:
        document.allow(("table", "columns"))
        table = document.table("table", place="[table]")
        table.allow(_TABLE_KEYS)
        columns = document.table("columns", place="[columns.NAME]")
        return cls(
            columns={
                name: read_column(name, columns.table(name, place=f"[columns.{toml_key(name)}]"))
                for name in columns.items
            },
            unit=read_unit(table),
            dataset=table.text("dataset"),
            max_rows=table.whole("max_rows"),
        )

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> Schema:
        """Return the schema of coded columns: whole numbers 0 … size − 1, and nothing else.

        Larger numbers become size − 1 and whatever is no number becomes 0: exactly `size` codes.
        """
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SchemaError(
                    f"the size of column {name!r} is not a whole number of 1 or more.",
                    hint='write {"column": size, …}, where size is the number of codes',
                )
        return cls(columns={n: Integer(name=n, min=0, max=s - 1, other="0") for n, s in sizes.items()})

    def to_toml(self) -> str:
        """Return the schema as TOML; `parse` gives an equal schema back."""
        tables = [toml("table", self._table())]
        for name, column in self.columns.items():
            tables.append(toml(toml_key("columns", name), column_table(column)))
        return "\n".join(tables)

    def _table(self) -> dict[str, Written]:
        table: dict[str, Written] = {} if self.dataset is None else {"dataset": self.dataset}
        table |= unit_table(self.unit)
        return table if self.max_rows is None else table | {"max_rows": self.max_rows}


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SchemaError(f"there is no schema file {str(path)!r}.", hint="check the path") from None
    except IsADirectoryError:
        raise SchemaError(
            f"{str(path)!r} is a folder, not a schema file.", hint="name the file in it"
        ) from None
    except UnicodeDecodeError:
        raise SchemaError(f"{str(path)!r} is not UTF-8 text.", hint="save the schema as UTF-8") from None
    except ValueError:
        raise SchemaError(
            "the path of the schema is not a path.", hint="check for stray characters"
        ) from None
    except OSError as error:
        raise ResourceError(
            f"the schema file {str(path)!r} cannot be read: {error.strerror}.", hint="check its permissions"
        ) from None


def _parse_toml(text: str, *, name: str) -> Table:
    try:
        return Table("the schema", tomllib.loads(text, parse_float=Decimal))
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"{name} is not valid TOML: {error}.",
            hint="write texts in quotes and one key = value a line, as `populace schema show` prints a schema",
        ) from None


def _parse_sizes(text: str, *, name: str) -> Mapping[str, int]:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if repeated := sorted({name for name, _ in pairs if sum(name == n for n, _ in pairs) > 1}):
            raise SchemaError(f"the schema names {listing(repeated)} twice.", hint="name each column once")
        return dict(pairs)

    try:
        sizes = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"{name} is not valid JSON: {error}.", hint='write {"column": size, …}, or a schema.toml'
        ) from None
    if not isinstance(sizes, dict):
        raise SchemaError(f"{name} is JSON, but no object.", hint='write {"column": size, …}')
    if str(sizes.get("format", "")).startswith("populace "):
        raise SchemaError(
            f"{name} is a file of a release ({sizes['format']}), not a schema.",
            hint='save the text under its key "schema" as schema.toml, and give that'
            if isinstance(sizes.get("schema"), str)
            else "give a schema.toml or a domain.json",
        )
    return sizes


def _refuse_lookalikes(names: Mapping[str, Column]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(unicodedata.normalize("NFKC", name).strip(), name)
        if twin != name:
            raise SchemaError(
                f"columns {twin!r} and {name!r} look the same.",
                hint="rename one of them, in the file as well",
            )
