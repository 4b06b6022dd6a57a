"""The schema: everything that is known before a row is read."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError
from populace.core.marginals import Clique, Domain
from populace.core.spine import ROOT
from populace.schema.bounded_parsing import parse_json, read_text_file
from populace.schema.column_groups import GROUPS_HINT, check_groups, check_partition
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.columns.unknown_columns import as_declared
from populace.schema.conditions.column_layout import ColumnLayout
from populace.schema.conditions.rules import Rules, Totals
from populace.schema.conditions.structural_zeros import Rulebook, StructuralZero, compile_rules
from populace.schema.exact_numbers import MAX_EXACT_INTEGER
from populace.schema.geocodes import GEOCODE, Geography, order_levels, read_geography, read_invariants
from populace.schema.hints import quote_names
from populace.schema.level_totals import (
    LevelTotals,
    check_level_totals,
    format_level_totals,
    read_level_totals,
)
from populace.schema.linked.linked_reader import (
    check_linked_unit,
    linked_form,
    linked_to_tables,
    linked_unit_table,
    read_linked_tables,
)
from populace.schema.linked.linked_tables import LinkedTables, canonical_column
from populace.schema.reader import COLUMN_KINDS, is_draft, read_columns, read_unit, read_zero
from populace.schema.toml_table import TomlTable, read_toml_table
from populace.schema.totals import check_totals, format_totals, list_totals, read_totals
from populace.schema.unit import Neighbours, PrivacyUnit, check_frequency
from populace.schema.unit_facts import UnitFact, check_facts, facts_to_rows, read_facts
from populace.schema.writer import (
    TomlValue,
    canonical_json,
    column_to_table,
    format_key,
    format_table,
    unit_to_table,
)

_AREA_KEYS = ("partition", "partition_least", "partition_step")
_UNIT_KEYS = ("unit", "rows_per_unit", "id", "neighbours", "frequency")
_TABLE_KEYS = ("dataset", *_UNIT_KEYS, "outside_domain", "max_rows", "groups", *_AREA_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """The public description of a table: its columns in order, who is protected, which account pays.

    Two schemas are equal when their digests are.

    >>> schema = Schema.from_sizes({"age": 85, "sex": 2})
    >>> dict(schema.domain)
    {'age': 85, 'sex': 2}
    """

    columns: Mapping[str, Column]
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    dataset: str | None = None
    max_rows: int | None = None
    groups: tuple[Clique, ...] = ()
    """Columns that belong together, as public knowledge has it; the others stand alone."""
    partition: Clique = ()
    """Columns whose combinations are areas, counted first; the rows that each has at least, in multiples of a step."""
    partition_least: int | None = None
    partition_step: int | None = None
    zeros: tuple[StructuralZero, ...] = ()
    totals: tuple[Totals, ...] = ()
    frequency: str | None = None
    """A column that says for how many units a row stands; without one, each row is one."""
    geography: Geography | None = None
    """The levels and units of a hierarchical release; their columns are columns of the table too."""
    invariants: tuple[str, ...] = ()
    """The levels whose totals are published exactly, widest first; "all" is the whole table."""
    level_totals: tuple[LevelTotals, ...] = ()
    """Public counts of the units of a geography; of other schemas they are `totals`."""
    facts: tuple[UnitFact, ...] = ()
    """What is known in public about single units: cells that they cannot have, or have at least so often."""
    linked: LinkedTables | None = None
    """Two tables of which these columns are the wide rows, one for each unit; None where there is one table."""
    layout: ColumnLayout = field(init=False, repr=False)
    """How the columns hang together."""
    domain: Domain = field(init=False, repr=False)
    """The sizes of the variables, in order."""
    rulebook: Rulebook = field(init=False, repr=False)
    """The rules, worked out."""

    def __post_init__(self) -> None:
        named = {} if self.geography is None else self.geography.columns
        _refuse_level_columns([n for n, c in self.columns.items() if named.get(n, c) != c], self.geography)
        columns = {name: canonical_column(c) for name, c in self.columns.items() if name not in named}
        object.__setattr__(self, "columns", {**named, **columns})
        object.__setattr__(self, "groups", tuple(tuple(group) for group in self.groups))
        for key in ("partition", "zeros", "totals"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
        if not columns:
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
        if self.max_rows is not None and not 1 <= self.max_rows <= MAX_EXACT_INTEGER:
            raise SchemaError(
                f"max_rows is {self.max_rows}.",
                hint=f"give a whole number of 1 or more, at most {MAX_EXACT_INTEGER}",
            )
        check_frequency(self.frequency, columns=self.columns, unit=self.unit, learnt=self.columns_to_learn)
        object.__setattr__(self, "unit", replace(self.unit, frequency=self.frequency))
        self._check_geography()
        check_linked_unit(self.linked, unit=self.unit)
        object.__setattr__(self, "layout", ColumnLayout(self.columns, geography=self.geography))
        sizes = {name: column.size for name, column in self.variables.items()}
        object.__setattr__(self, "domain", Domain(sizes))
        object.__setattr__(self, "rulebook", compile_rules(self.layout, zeros=self.zeros))
        check_facts(self.facts, layout=self.layout, invariants=self.invariants)
        check_totals(self.totals, layout=self.layout)
        check_level_totals(self.level_totals, self.layout, invariants=self.invariants, facts=self.facts)
        check_groups(self.groups, layout=self.layout)
        check_groups([self.partition] if self.partition else [], layout=self.layout)
        check_partition(self.partition, least=self.partition_least, step=self.partition_step)

    def _check_geography(self) -> None:
        """Refuse a geography whose variable has the name of a column, and invariants without levels."""
        if self.geography is None and set(self.invariants) - {ROOT}:
            raise SchemaError(
                "[[invariants]] by a level are declared without a [geography].",
                hint="declare levels and units; by = [] is the total of the whole table",
            )
        levels = self.invariants if self.geography is None else order_levels(self.geography, self.invariants)
        object.__setattr__(self, "invariants", levels)
        if levels:
            # Neighbours agree on exact totals: no unit can come or go.
            within = replace(self.unit, neighbours=Neighbours.REPLACE_WITHIN, within=levels[-1])
            object.__setattr__(self, "unit", within)
        if self.geography is not None and GEOCODE in self.columns:
            raise SchemaError(
                f"a column is called {GEOCODE!r}, as the geography's own variable is.",
                hint="rename that column, in the file as well",
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def variables(self) -> Mapping[str, Column]:
        """The columns as they are counted and modelled: without functions, and with both parts of split ones."""
        return self.layout.variables

    @property
    def rules(self) -> Rules:
        """The universes and structural zeros, as tables over classes of codes."""
        return self.rulebook.rules

    @property
    def declared_columns(self) -> Mapping[str, Column]:
        """The columns without those of the geography, which follow from its units."""
        levels = () if self.geography is None else self.geography.levels
        return {name: column for name, column in self.columns.items() if name not in levels}

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns whose domain has to be learnt first."""
        return tuple(name for name, column in self.columns.items() if column.unknown)

    @property
    def columns_to_learn(self) -> tuple[str, ...]:
        """The columns about which something has to be learnt first: their domain, or what lies inside their bins."""
        return tuple(name for name, column in self.columns.items() if column.needs_learning)

    @property
    def declared(self) -> Schema:
        """The schema as it was before domains were learnt; itself where none was."""
        columns = {name: as_declared(column) for name, column in self.columns.items()}
        same = all(column is self.columns[name] for name, column in columns.items())
        return self if same else self.replace_columns(columns)

    def replace_columns(self, columns: Mapping[str, Column]) -> Schema:
        """Return the schema with some of its columns replaced by others of the same names."""
        if strange := [name for name in columns if name not in self.columns]:
            raise SchemaError(
                f"the schema has no column {quote_names(strange)}.", hint="replace columns that it has"
            )
        return replace(self, columns={**self.columns, **columns})

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form: the same for every way to write the same schema."""
        columns = [
            {"name": name, **column_to_table(column)} for name, column in self.declared_columns.items()
        ]
        linked = {} if self.linked is None else {"linked": linked_form(self.linked)}
        form = canonical_json(
            {"table": self._table(), "columns": columns} | self._rules_and_totals() | linked
        )
        return hashlib.sha256(form.encode()).hexdigest()

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a `schema.toml`, or from a `domain.json` that gives each column's size."""
        text = read_text_file(Path(path), what="schema", refuse=SchemaError)
        if Path(path).suffix.lower() == ".json" or text.lstrip().startswith("{"):
            return cls.from_sizes(_parse_sizes(text, name=repr(str(path))))
        return cls._from_document(_read_document(text, name=repr(str(path))), folder=Path(path).parent)

    @classmethod
    def parse(cls, text: str, *, released: bool = False) -> Schema:
        """Read a schema from TOML text; `released` says that populace wrote it, with domains that were paid for.

        >>> Schema.parse('[columns.AGE]\\nkind = "integer"\\nmin = 0\\nmax = 99\\nother = "0"').domain["AGE"]
        100
        """
        return cls._from_document(_read_document(text, name="the schema"), learnt=released)

    @classmethod
    def _from_document(
        cls, document: TomlTable, *, folder: Path | None = None, learnt: bool = False
    ) -> Schema:
        document.allow(("table", "tables", "columns", "zeros", "totals", "geography", "invariants"))
        zeros = tuple(read_zero(each) for each in document.tables("zeros"))
        geography = read_geography(document, folder=folder)
        units: dict[str, Any] = {
            "geography": geography,
            "invariants": read_invariants(document.tables("invariants")),
            "facts": read_facts(document, geography=geography, folder=folder),
        }
        if "tables" in document:
            fields = read_linked_tables(document, zeros=zeros, folder=folder, learnt=learnt)
            return cls(**fields, **units)._with_totals(document, folder=folder)
        table = document.table("table", place="[table]")
        table.allow(_TABLE_KEYS)
        columns = document.table("columns", place="[columns.NAME]")
        # A draft as `populace inspect` writes it: all columns that are left are named at once.
        if left := [name for name, keys in columns.items.items() if is_draft(keys)]:
            raise SchemaError(
                f"the schema is a draft: {quote_names(left)} {'has' if len(left) == 1 else 'have'} no kind.",
                hint=f"fill in a kind ({', '.join(COLUMN_KINDS)}) with its values or its range, or remove the column",
            )
        schema = cls(
            columns=read_columns(columns, table=table, folder=folder, learnt=learnt),
            unit=read_unit(table),
            dataset=table.text("dataset"),
            max_rows=table.integer("max_rows"),
            groups=table.lists("groups", hint=GROUPS_HINT),
            partition=tuple(table.texts("partition")),
            partition_least=table.integer("partition_least"),
            partition_step=table.integer("partition_step"),
            zeros=zeros,
            frequency=table.text("frequency"),
            **units,
        )
        return schema._with_totals(document, folder=folder)

    def _with_totals(self, document: TomlTable, *, folder: Path | None = None) -> Schema:
        if "totals" not in document:
            return self
        if self.geography is not None:
            return replace(self, level_totals=read_level_totals(document, self.layout, folder=folder))
        totals = [read_totals(each, layout=self.layout) for each in document.tables("totals")]
        return replace(self, totals=tuple(totals))

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> Schema:
        """Return the schema of coded columns: whole numbers 0 … size − 1, and nothing else.

        Larger numbers become size − 1 and whatever is no number becomes 0: exactly `size` codes.
        """
        check_sizes(sizes)
        return cls(columns={n: IntegerColumn(name=n, min=0, max=s - 1, other="0") for n, s in sizes.items()})

    def to_toml(self) -> str:
        """Return the schema as TOML; `parse` gives an equal schema back."""
        tables = [format_table("table", self._table())]
        if self.geography is not None:
            facts = facts_to_rows(self.facts, geography=self.geography)
            table: dict[str, TomlValue] = {**self.geography.to_table()}
            tables.append(format_table("geography", table | ({"facts": facts} if facts else {})))
        tables += [
            format_table("[invariants]", {"by": [] if level == ROOT else [level]})
            for level in self.invariants
        ]
        if self.linked is not None:
            tables += linked_to_tables(self.linked, self.declared_columns)
        else:
            for name, column in self.declared_columns.items():
                tables.append(format_table(format_key("columns", name), column_to_table(column)))
        for zero in self.zeros if self.linked is None else self.linked.zeros:
            replacement: dict[str, TomlValue] = {"else": dict(zero.replacement)} if zero.replacement else {}
            tables.append(format_table("[zeros]", {"when": zero.when} | replacement))
        tables += [format_totals(totals, layout=self.layout) for totals in self.totals]
        tables += [format_level_totals(totals, layout=self.layout) for totals in self.level_totals]
        return "\n".join(tables)

    def _rules_and_totals(self) -> dict[str, object]:
        """Return what the digest depends on beside the columns; nothing where nothing is declared."""
        zeros = [{"when": zero.when, "else": dict(zero.replacement)} for zero in self.zeros]
        totals = [
            {"by": each.clique, "counts": list_totals(each, layout=self.layout)} for each in self.totals
        ]
        geography = None if self.geography is None else self.geography.digest
        found = {
            "zeros": zeros,
            "totals": totals,
            "geography": geography,
            "invariants": list(self.invariants),
            "facts": [fact.form() for fact in self.facts],
            "level_totals": [each.form() for each in self.level_totals],
        }
        return {key: value for key, value in found.items() if value}

    def _table(self) -> dict[str, TomlValue]:
        table: dict[str, TomlValue | None] = {
            "dataset": self.dataset,
            **(unit_to_table(self.unit) if self.linked is None else linked_unit_table(self.unit)),
            "frequency": self.frequency,
            "max_rows": self.max_rows,
            "groups": [list(group) for group in self.groups] or None,
            "partition": list(self.partition) or None,
            "partition_least": self.partition_least,
            "partition_step": self.partition_step,
        }
        return {key: value for key, value in table.items() if value is not None}


def _refuse_level_columns(columns: Iterable[str], geography: Geography | None) -> None:
    if named := [name for name in columns if geography is not None and name in geography.levels]:
        raise SchemaError(
            f"column {quote_names(named)} is a level of the geography and a column of its own.",
            hint="take it out of the columns: the file of units says which values it has",
        )


def check_sizes(sizes: Mapping[str, object]) -> None:
    """Refuse sizes of columns that no column can have."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SchemaError(
                f"the size of column {name!r} is not a whole number of 1 or more.",
                hint='write {"column": size, …}, where size is the number of codes',
            )


def _read_document(text: str, *, name: str) -> TomlTable:
    hint = "write texts in quotes and one key = value a line, as `populace schema show` prints a schema"
    return replace(read_toml_table(text, name=name, hint=hint, refuse=SchemaError), place="the schema")


def _parse_sizes(text: str, *, name: str) -> Mapping[str, int]:
    try:
        sizes = parse_json(text)
    except ValueError as error:
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
            raise SchemaError(f"columns {twin!r} and {name!r} look the same.", hint="rename one of them")
