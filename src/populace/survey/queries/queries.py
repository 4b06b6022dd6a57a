"""What is asked of a survey: statistics of subpopulations and groups, in TOML or in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from populace.core.errors import SchemaError, UsageError
from populace.core.limits import LIMITS
from populace.privacy.json_codec import encode_given
from populace.schema.bounded_parsing import read_text_file
from populace.schema.conditions.condition_parser import condition_atoms, parse_condition
from populace.schema.conditions.condition_parser import condition_columns as columns_in
from populace.schema.conditions.syntax_tree import Missing
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names, suggest
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable, read_toml_table
from populace.survey.design import survey_columns as columns

_KEYS = ("name", "statistic", "column", "y", "p", "that", "where", "by", "low", "high", "share", "noise")


class Statistic(StrEnum):
    """What is estimated; all but the frequency is about the population."""

    FREQUENCY = "frequency"  # rows of the sample, not weighted
    COUNT = "count"  # persons of the population: Σw
    TOTAL = "total"  # Σwx
    MEAN = "mean"  # Σwx/Σw
    RATIO = "ratio"  # Σwx/Σwy
    PROPORTION = "proportion"  # of persons for whom a condition holds, or with each value of a column
    VARIANCE = "variance"
    CORRELATION = "correlation"
    QUANTILE = "quantile"

    @property
    def is_total(self) -> bool:
        """Whether it grows with the number of rows, so that sizes of sampling units are part of its error."""
        return self in (Statistic.COUNT, Statistic.TOTAL)


class NoiseKind(StrEnum):
    """Which noise a query asks for; the one that is expected to be least where it asks for none."""

    SMOOTH = "smooth"  # that follows a smooth bound on the heaviest weight, of counts that meet totals


_OF_ONE = (Statistic.TOTAL, Statistic.MEAN, Statistic.VARIANCE, Statistic.QUANTILE)
_OF_TWO = (Statistic.RATIO, Statistic.CORRELATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One statistic of a column, for rows that meet a condition, by groups.

    `that` is the condition of a proportion; `y` the second column of a ratio or correlation; `p` the quantiles that
    are asked for. Values of `column` are held to `low` … `high`, where given, before anything is added up.

    >>> Query(statistic="mean", column="BMI", where="Age>=18", by=("Gender",)).name
    'mean of BMI where Age >= 18 by Gender'
    """

    statistic: Statistic
    column: str | None = None
    y: str | None = None
    p: tuple[Fraction, ...] = ()
    that: str | None = None
    where: str | None = None
    by: tuple[str, ...] = ()
    low: Fraction | None = None
    high: Fraction | None = None
    share: Fraction = Fraction(1)
    name: str = ""
    noise: NoiseKind | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return encode_given(self, optional=("noise",))

    def __post_init__(self) -> None:
        object.__setattr__(self, "statistic", _parse_statistic(self.statistic))
        given: object = self.by
        if isinstance(given, str):
            raise self._error(f"by is the text {given!r}.", hint=f"give a list of columns: by=[{given!r}]")
        object.__setattr__(self, "by", tuple(self.by))
        shares = self.p if isinstance(self.p, list | tuple) else (self.p,)
        object.__setattr__(self, "p", tuple(self._number("p", each) for each in shares))
        for key in ("low", "high", "share"):
            value = getattr(self, key)
            object.__setattr__(self, key, None if value is None else self._number(key, value))
        object.__setattr__(self, "noise", _parse_noise(self.noise, place=self.place))
        if self.noise is not None and self.statistic is not Statistic.COUNT:
            raise self._error(f"a {self.statistic.value} has no noise of its own.", hint="leave noise out")
        for key in ("where", "that"):
            text = getattr(self, key)
            object.__setattr__(self, key, None if text is None else self._condition(key, text))
        self._check_parts()
        if not self.name.strip():
            object.__setattr__(self, "name", self._words())

    @property
    def values(self) -> bool:
        """Whether it asks for the proportion of each value of a column."""
        return self.statistic is Statistic.PROPORTION and self.that is None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns whose numbers are added up."""
        if self.statistic is Statistic.PROPORTION:
            return ()
        return tuple(name for name in (self.column, self.y) if name is not None)

    @property
    def known(self) -> tuple[str, ...]:
        """The columns without whose answer a row does not count.

        Those of `that` are among them, unless it asks itself whether they are missing.
        """
        asked = [name for name in (self.column, self.y) if name is not None]
        return tuple(dict.fromkeys([*asked, *list_answered_columns(self.that)]))

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The columns whose answers decide which rows are asked about, and in which group: of `where` and `by`.

        Not those of which `where` asks itself whether they are missing.
        """
        return tuple(dict.fromkeys([*list_answered_columns(self.where), *self.by]))

    @property
    def named(self) -> tuple[str, ...]:
        """All columns whose answers it asks for."""
        return tuple(dict.fromkeys([*self.known, *self.grouping_columns]))

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"query {self.name!r}" if self.name else f"a query of a {self.statistic.value}"

    def span(self, column: str, schema: Schema) -> tuple[Fraction, Fraction]:
        """Return the range that values of one of its columns are held to."""
        low, high = columns.span(schema, column, place=self.place)
        if column != self.column:
            return low, high
        return max(low, low if self.low is None else self.low), min(
            high, high if self.high is None else self.high
        )

    def check(self, schema: Schema) -> None:
        """Refuse what does not fit a schema; nothing but the schema decides."""
        for name in self.numbers:
            low, high = self.span(name, schema)
            if name == self.column:
                self._check_ends(schema)
            if low >= high:
                raise self._error(
                    f"no values of {name!r} lie between {float(low):g} and {float(high):g}.",
                    hint="let low and high lie in the range of the schema, low first",
                )
        if self.values:
            found = columns.scale(schema, self.column or "", place=self.place)
            if found.levels > LIMITS.max_values:
                raise self._error(
                    f"{self.column!r} has {found.levels} values; {LIMITS.max_values} is the most for shares.",
                    hint="ask for the share that meets a condition (that), or give the column fewer bins",
                )
        sizes = [columns.scale(schema, name, place=self.place).levels for name in self.by]
        if np.prod([1, *sizes], dtype=object) > LIMITS.max_groups:
            raise SchemaError(
                f"{self.place} has {np.prod(sizes, dtype=object)} groups; {LIMITS.max_groups} is the most.",
                hint="name fewer columns, or columns with fewer values",
            )
        for text in (self.where, self.that):
            if text is not None:
                check_condition(text, schema, place=self.place)

    def _check_ends(self, schema: Schema) -> None:
        """Refuse ends that the schema does not reach: they would do nothing, and be taken for something."""
        low, high = columns.span(schema, self.column or "", place=self.place)
        for key, given, end in (("low", self.low, low), ("high", self.high, high)):
            if given is not None and not low <= given <= high:
                raise SchemaError(
                    f"{self.place}: {key} is {float(given):g}, and {self.column!r} goes from {float(low):g} to "
                    f"{float(high):g} in the schema.",
                    hint=f"leave {key} out, which means {float(end):g}, or widen the range in the schema",
                )

    def _error(self, text: str, *, hint: str) -> SchemaError:
        return SchemaError(f"{self.place}: {text}", hint=hint)

    def _number(self, key: str, value: object) -> Fraction:
        found = to_fraction(value)
        if found is None:
            raise self._error(f"{key} is {value!r}.", hint="give a plain number")
        return found

    def _condition(self, key: str, text: str) -> str:
        try:
            return str(parse_condition(text))
        except SchemaError as error:
            raise SchemaError(f"{self.place}, {key}: {error.message}", hint=error.hint) from None

    def _check_parts(self) -> None:
        kind = self.statistic
        wants = {
            "column": kind in (*_OF_ONE, *_OF_TWO) or (kind is Statistic.PROPORTION and self.that is None),
            "y": kind in _OF_TWO,
            "p": kind is Statistic.QUANTILE,
            "that": kind is Statistic.PROPORTION and self.column is None,
        }
        for key, wanted in wants.items():
            given = bool(getattr(self, key))
            if given == wanted:
                continue
            named = f"{self.place}: " if self.name else ""
            said = f"needs {_NEEDS[key]}" if wanted else f"takes no {key}"
            if kind is Statistic.PROPORTION and key in ("column", "that"):
                said = "needs a column or a condition (that), and not both"
            raise SchemaError(f"{named}a {kind.value} {said}.", hint=_HINTS[kind])
        if (self.low is not None or self.high is not None) and kind not in (*_OF_ONE, *_OF_TWO):
            raise self._error(f"a {kind.value} has no low or high.", hint="leave them out")
        if strange := [each for each in self.p if not 0 < each < 1]:
            raise self._error(
                f"{float(strange[0]):g} is no share of a population.",
                hint="give p between 0 and 1: 0.5 is the median",
            )
        if self.share is None or self.share <= 0:
            raise self._error("its share is not positive.", hint="give a share above 0")
        for key, names in (("by", self.by), ("column and y", (self.column, self.y) if self.y else ())):
            if len(set(names)) < len(names):
                raise self._error(f"{key} name a column twice.", hint="name each once")

    def _words(self) -> str:
        of = {
            Statistic.RATIO: f" of {self.column} to {self.y}",
            Statistic.CORRELATION: f" of {self.column} and {self.y}",
            Statistic.QUANTILE: f" {', '.join(f'{float(each):g}' for each in self.p)} of {self.column}",
        }.get(self.statistic, f" of {self.column}" if self.column else "")
        that = f" that {self.that}" if self.that else ""
        where = f" where {self.where}" if self.where else ""
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"{self.statistic.value}{of}{that}{where}{by}"


_NEEDS = {"column": "a column", "y": "a second column (y)", "p": "shares (p)", "that": "a condition"}
_HINTS = {
    Statistic.FREQUENCY: "say which rows by where, and by for groups",
    Statistic.COUNT: "say whom by where, and by for groups",
    Statistic.TOTAL: 'name a column of numbers: column = "INCOME"',
    Statistic.MEAN: 'name a column of numbers: column = "INCOME"',
    Statistic.VARIANCE: 'name a column of numbers: column = "INCOME"',
    Statistic.RATIO: 'name two columns of numbers: column = "RENT" and y = "INCOME"',
    Statistic.CORRELATION: 'name two columns of numbers: column = "RENT" and y = "INCOME"',
    Statistic.QUANTILE: 'name a column of numbers and shares: column = "INCOME" and p = [0.5]',
    Statistic.PROPORTION: 'say either that = "BMI >= 30", or column = "SMOKES" for the share of each value',
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Queries:
    """Queries of one schema, in order, each with a name of its own.

    >>> schema = Schema.from_sizes({"AGE": 100, "SEX": 2})
    >>> queries = Queries.parse('''
    ... [[query]]
    ... statistic = "mean"
    ... column = "AGE"
    ... by = ["SEX"]
    ... ''', schema=schema)
    >>> [query.name for query in queries]
    ['mean of AGE by SEX']
    """

    schema: Schema
    queries: tuple[Query, ...] = field(default=())

    @classmethod
    def load(cls, path: str | Path, *, schema: Schema) -> Queries:
        """Read queries from a TOML file."""
        text = read_text_file(Path(path), what="query", refuse=UsageError)
        return cls._read(text, schema=schema, name=repr(str(path)))

    @classmethod
    def parse(cls, text: str, *, schema: Schema) -> Queries:
        """Read queries from TOML text."""
        return cls._read(text, schema=schema, name="the queries")

    @classmethod
    def _read(cls, text: str, *, schema: Schema, name: str) -> Queries:
        hint = 'write [[query]] and, below it, statistic = "mean" and column = "INCOME"'
        document = read_toml_table(text, name=name, hint=hint)
        document.allow(("query",))
        return cls(schema=schema, queries=tuple(read_query(each) for each in document.tables("query")))

    def __post_init__(self) -> None:
        if not isinstance(self.queries, list | tuple) or not all(isinstance(q, Query) for q in self.queries):
            raise UsageError(
                "queries holds something that is no query.",
                hint='give a list of them: queries=[Query(statistic="mean", column="INCOME")]',
            )
        object.__setattr__(self, "queries", tuple(self.queries))
        if not self.queries:
            raise UsageError("there are no queries.", hint='write [[query]] and statistic = "count"')
        names = [query.name for query in self.queries]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(
                f"two queries are named {quote_names(twice)}.", hint="give each a name of its own"
            )
        for query in self.queries:
            query.check(self.schema)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The part of the whole that each query may spend."""
        whole = sum((query.share for query in self.queries), Fraction(0))
        return tuple(query.share / whole for query in self.queries)


def read_query(table: TomlTable) -> Query:
    """Return the query that a table declares."""
    table.allow(_KEYS)
    if "statistic" not in table:
        raise SchemaError(
            f"{table.place} has no statistic.",
            hint=f"choose one of {', '.join(each.value for each in Statistic)}",
        )
    share = table.number("share")
    p = table.numbers("p") if isinstance(table.items.get("p"), list) else (table.number("p"),)
    try:
        return Query(
            name=table.text("name") or "",
            statistic=_parse_statistic(table.text("statistic") or "", place=table.place),
            column=table.text("column"),
            y=table.text("y"),
            p=tuple(each for each in p if each is not None),
            that=table.text("that"),
            where=table.text("where"),
            by=table.texts("by"),
            low=table.number("low"),
            high=table.number("high"),
            share=Fraction(1) if share is None else share,
            noise=_parse_noise(table.text("noise"), place=table.place),
        )
    except SchemaError as error:
        if error.message.startswith(table.place):
            raise
        raise SchemaError(f"{table.place}: {error.message}", hint=error.hint) from None


def _parse_noise(text: str | None, *, place: str) -> NoiseKind | None:
    if text is not None and text not in NoiseKind.__members__.values():
        raise SchemaError(f"{place}: noise is {text!r}.", hint='write noise = "smooth", or leave it out')
    return None if text is None else NoiseKind(text)


def _parse_statistic(given: object, *, place: str = "a query") -> Statistic:
    names = [each.value for each in Statistic]
    if given in names:
        return Statistic(given)
    raise SchemaError(
        f"{place}: statistic is {str(given)[:60]!r}.",
        hint=suggest(str(given), names, otherwise=f"choose one of {', '.join(names)}"),
    )


def list_answered_columns(condition: str | None) -> tuple[str, ...]:
    """Return the columns of a condition, but for those of which it asks whether they are missing."""
    if condition is None:
        return ()
    whole = parse_condition(condition)
    about = {atom.column.name for atom in condition_atoms(whole) if isinstance(atom, Missing)}
    return tuple(name for name in columns_in(whole) if name not in about)


def check_condition(text: str, schema: Schema, *, place: str) -> None:
    """Refuse a condition that names no column, or that no row can meet whatever it holds."""
    condition = schema.layout.condition(parse_condition(text), place=place)
    sizes = [schema.variables[name].size for name in condition.variables]
    if np.prod([1, *sizes], dtype=object) > LIMITS.max_query_cells:
        return
    grid = np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij", sparse=True)
    if not np.any(condition(dict(zip(condition.variables, grid, strict=True)))):
        raise SchemaError(f"{place}: no row can meet {text}.", hint="check the condition against the schema")
