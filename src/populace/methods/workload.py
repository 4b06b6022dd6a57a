"""The workload: which marginals the curator wants accurate, and how much each of them matters."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Domain, Grouping
from populace.methods.all_marginals import AllMarginals, SmallTriples
from populace.methods.linked_workload import linked_weights
from populace.methods.nist2018.query_rounds import (
    ROUND_TABLES,
    QueryRounds,
    read_coarse_bins,
    read_query_rounds,
)
from populace.methods.topdown.level_budget import (
    BUDGET_TABLES,
    LevelBudget,
    check_level_budget,
    read_level_budget,
)
from populace.schema.bounded_parsing import read_text_file
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names, suggest
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable, read_toml_table

WORKLOAD_NAMES = ("pairs", "triples")
# A triple of more cells is hardly ever worth its noise, and so many of them are all that a method looks through.
MAX_TRIPLE_CELLS, MAX_TRIPLES = 2**16, 2**16

_ONE = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Marginals over the variables of a schema, each with a weight: twice the weight, twice the harm of an error.

    It is a public choice. Methods that choose what to measure look at it; it never changes what a run may spend.

    >>> dict(Workload.pairs(Domain({"a": 2, "b": 3, "c": 2})).weights)
    {('a', 'b'): Fraction(1, 1), ('a', 'c'): Fraction(1, 1), ('b', 'c'): Fraction(1, 1)}
    """

    weights: Mapping[Clique, Fraction] = field(hash=False)
    name: str | None = None
    """What it is called on the command line, or None for marginals of the curator's own."""
    levels: LevelBudget | None = None
    """How the budget is shared over the levels and queries of a geography, for a method that counts its units."""
    rounds: QueryRounds | None = None
    """How its marginals are asked in two rounds, for a method that does so."""

    def __post_init__(self) -> None:
        if isinstance(self.weights, AllMarginals):
            return
        weights: dict[Clique, Fraction] = {}
        for clique, given in self.weights.items():
            if not clique or len(set(clique)) != len(clique):
                raise UsageError(
                    f"the workload asks for {quote_names(clique) or 'no column at all'}.",
                    hint="name one or more columns, each of them once",
                )
            weights[tuple(clique)] = _parse_weight(given, place=" × ".join(clique))
        object.__setattr__(self, "weights", MappingProxyType(weights))

    @classmethod
    def pairs(cls, domain: Domain) -> Workload:
        """Return all pairs of variables."""
        return cls(weights=AllMarginals(domain), name="pairs")

    @classmethod
    def triples(cls, domain: Domain, *, cells: int = MAX_TRIPLE_CELLS) -> Workload:
        """Return all pairs, and all triples of at most so many cells; the smallest where there are very many."""
        return cls(weights=AllMarginals(domain, cells=cells, most=MAX_TRIPLES), name="triples")

    @classmethod
    def default(cls, domain: Domain) -> Workload:
        """Return what is wanted where nobody says: pairs and triples."""
        return cls.triples(domain)

    @classmethod
    def choose_default(cls, schema: Schema) -> Workload:
        """Return what is wanted where nobody says: of a single table pairs and triples, pairs with keys above all."""
        if schema.linked is None or schema.geography is not None:
            keys = [name for name, column in schema.columns.items() if column.key]
            found = {part for name in keys for part in _variables_behind(name, schema=schema)}
            every = AllMarginals(schema.domain, cells=MAX_TRIPLE_CELLS, most=MAX_TRIPLES, keys=found)
            return cls(weights=every, name="triples")
        return cls(weights=linked_weights(schema, schema.linked)).for_schema(schema)

    @classmethod
    def load(cls, path: str | Path, schema: Schema) -> Workload:
        """Read a workload from a TOML file, for the columns of a schema."""
        return resolve_workload(Path(path))(schema)

    @classmethod
    def parse(cls, text: str, *, schema: Schema) -> Workload:
        """Read a workload from TOML text; `[[marginals]]` go before what `pairs` and `triples` say of them.

        >>> schema = Schema.from_sizes({"AGE": 85, "SEX": 2, "EDU": 16})
        >>> text = 'pairs = true\\n[[marginals]]\\ncolumns = ["SEX", "AGE"]\\nweight = 2'
        >>> [(clique, int(weight)) for clique, weight in Workload.parse(text, schema=schema).weights.items()]
        [(('AGE', 'SEX'), 2), (('AGE', 'EDU'), 1), (('SEX', 'EDU'), 1)]
        """
        hint = 'write [[marginals]] and under it columns = ["AGE", "SEX"]'
        document = read_toml_table(text, name="the workload", hint=hint)
        document.allow((*WORKLOAD_NAMES, "marginals", *ROUND_TABLES, *BUDGET_TABLES))
        if any(key in document for key in BUDGET_TABLES):
            document.allow(BUDGET_TABLES)
            return cls(weights={}, levels=read_level_budget(document, schema=schema))
        domain = schema.domain
        shared: list[Clique] = list(combinations(_read_variables(document, "pairs", schema=schema), 2))
        among = _read_variables(document, "triples", schema=schema)
        shared += SmallTriples(among, domain=domain, cells=MAX_TRIPLE_CELLS, most=MAX_TRIPLES)
        named, coarse = _read_marginals(document, schema=schema)
        weights = dict.fromkeys(shared, _ONE) | named
        rounds = None
        if coarse or any(key in document for key in ROUND_TABLES):
            rounds = replace(
                read_query_rounds(document, columns=_column_variables(document, schema), schema=schema),
                coarse=coarse,
            )
        if not weights and rounds is None:
            raise UsageError(
                "the workload asks for nothing.",
                hint="write pairs = true, triples = true, or [[marginals]] with their columns",
            )
        return cls(weights=weights, rounds=rounds).for_schema(schema)

    def for_schema(self, schema: Schema) -> Workload:
        """Return the workload in the order of a schema's variables; refuse what the schema does not have."""
        every = self.weights if isinstance(self.weights, AllMarginals) and self.rounds is None else None
        if every is not None and list(every.domain) == list(schema.variables):
            return self
        if self.levels is not None and schema.geography is not None:
            check_level_budget(self.levels, schema=schema, geography=schema.geography)
            return self
        if not self.weights and self.rounds is None and len(schema.variables) > 1:
            raise UsageError(
                "the workload asks for nothing.", hint='name some marginals, or ask for "pairs" or "triples"'
            )
        place = {name: number for number, name in enumerate(schema.variables)}
        weights: dict[Clique, Fraction] = {}
        for clique, weight in self.weights.items():
            for name in clique:
                if name not in place:
                    raise _unknown_column(name, schema, where="the workload")
            weights[tuple(sorted(clique, key=place.__getitem__))] = weight
        if len(weights) < len(self.weights):
            raise UsageError("the workload names a marginal twice.", hint="keep one of the two")
        if self.rounds is not None:
            self.rounds.check(schema)
        order = sorted(weights, key=lambda clique: (len(clique), [place[name] for name in clique]))
        return replace(self, weights={clique: weights[clique] for clique in order})

    @property
    def digest(self) -> str:
        """The SHA-256 of the marginals and their weights, in order, and of how they are asked in rounds."""
        form: list[object] = [[*clique, str(weight)] for clique, weight in self.weights.items()]
        form += [] if self.rounds is None else [{"rounds": self.rounds.form()}]
        form += [] if self.levels is None else [{"levels": self.levels.form()}]
        return hashlib.sha256(json.dumps(form, ensure_ascii=False).encode()).hexdigest()

    @property
    def label(self) -> str:
        """What the ledger calls it: its name, or the digest of marginals of the curator's own."""
        return self.name or f"own {self.digest}"


def resolve_workload(given: Workload | Path | str | None) -> Callable[[Schema], Workload]:
    """Return how what is given becomes a workload once the schema is known; a file is read now, and only once.

    >>> resolve_workload("pairs")(Schema.from_sizes({"a": 2, "b": 3})).label
    'pairs'
    """
    if given is None:
        return Workload.choose_default
    if isinstance(given, Workload):
        return given.for_schema
    if given == "pairs":
        return lambda schema: Workload.pairs(schema.domain)
    if given == "triples":
        return lambda schema: Workload.triples(schema.domain)
    if not Path(given).is_file():
        otherwise = "give pairs, triples, or the path of a TOML file"
        raise UsageError(
            f"the workload {str(given)!r} is no file.",
            hint=suggest(str(given), WORKLOAD_NAMES, otherwise=otherwise),
        )
    text = read_text_file(Path(given), what="workload", refuse=UsageError)
    return lambda schema: Workload.parse(text, schema=schema)


def _read_variables(document: TomlTable, key: str, *, schema: Schema) -> list[str]:
    """Return the variables behind `true` (all) or a list of columns, in the schema's order."""
    given = document.items.get(key, False)
    if isinstance(given, bool):
        return list(schema.variables) if given else []
    if not isinstance(given, list):
        raise UsageError(
            f"the workload: {key} is neither true nor a list of columns.",
            hint=f'write {key} = true, or {key} = ["AGE", "SEX", "EDU"]',
        )
    names = _read_columns(document, key, schema=schema)
    found = {part for name in names for part in _variables_behind(name, schema=schema)}
    return [name for name in schema.variables if name in found]


def _column_variables(document: TomlTable, schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return the columns that `[columns.NAME]` speak of, with the variables behind each."""
    found = {}
    for name in document.table("columns", place="[columns.NAME]").items:
        if name not in schema.columns and name not in schema.variables:
            raise _unknown_column(name, schema, where="the workload")
        found[name] = tuple(_variables_behind(name, schema=schema))
    return found


def _read_marginals(
    document: TomlTable, *, schema: Schema
) -> tuple[dict[Clique, Fraction], dict[frozenset[str], tuple[Grouping, ...]]]:
    given = document.items.get("marginals", [])
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        raise UsageError(
            "the workload: marginals is not a list of tables.",
            hint="write [[marginals]] on a line of its own for each of them",
        )
    weights: dict[Clique, Fraction] = {}
    coarse: dict[frozenset[str], tuple[Grouping, ...]] = {}
    for number, each in enumerate(given, start=1):
        table = TomlTable(f"[[marginals]] {number} of the workload", each)
        table.allow(("columns", "weight", "coarse"))
        names = _read_columns(table, "columns", schema=schema)
        if not names:
            raise UsageError(f"{table.place} has no columns.", hint='write columns = ["AGE", "SEX"]')
        clique = _marginal_variables(names, schema=schema)
        if clique in weights:
            raise UsageError(
                f"{table.place} asks for {quote_names(names)} again.", hint="keep one of the two marginals"
            )
        bins = _read_coarse_bins(table, names, schema=schema)
        if bins:
            coarse[frozenset(clique)] = tuple(bins.values())
        # How large a domain to be learnt becomes is not known yet.
        parts = [schema.variables[name] for name in clique if name not in bins]
        cells = math.prod(part.size for part in parts if not part.domain_learnt)
        cells *= math.prod(own.size for own in bins.values())
        if cells > LIMITS.max_marginal_cells:
            raise UsageError(
                f"{table.place} has {cells} cells; {LIMITS.max_marginal_cells} is the most.",
                hint="name fewer columns, or coarsen them in the schema",
            )
        weights[clique] = _parse_weight(each.get("weight", 1), place=table.place)
    return weights, coarse


def _read_coarse_bins(table: TomlTable, names: Sequence[str], *, schema: Schema) -> dict[str, Grouping]:
    """Return the variables that a marginal coarsens, each with its bins."""
    found = {}
    for name, bins in table.table("coarse", place='coarse = { AGE = ["0..17", "18.."] }').items.items():
        if name not in names:
            raise UsageError(
                f"{table.place} coarsens {name!r}, which is none of its columns.",
                hint=suggest(name, names, otherwise="name one of them"),
            )
        if name in schema.layout.functions:
            raise UsageError(
                f"{table.place} coarsens {name!r}, which follows from other columns.",
                hint=f"coarsen {quote_names(schema.layout.sources(name))} instead",
            )
        column = schema.columns[name] if name in schema.columns else schema.variables[name]
        grouping = read_coarse_bins(bins, column, place=table.place)
        found[grouping.column] = grouping
    return found


def _read_columns(table: TomlTable, key: str, *, schema: Schema) -> tuple[str, ...]:
    names = table.texts(key)
    for place, name in enumerate(names):
        if name not in schema.columns and name not in schema.variables:
            raise _unknown_column(name, schema, where=table.place)
        if name in names[:place]:
            raise UsageError(f"{table.place} names column {name!r} twice.", hint="name each column once")
    return names


def _variables_behind(name: str, *, schema: Schema) -> Sequence[str]:
    """Return all variables behind a name: those a function follows from, both parts of a split column."""
    if name in schema.variables:
        return (name,)
    if name in schema.layout.functions:
        return schema.layout.sources(name)
    return [part.name for part in schema.columns[name].variables]


def _marginal_variables(names: Sequence[str], *, schema: Schema) -> Clique:
    """Return the variables of a marginal. Beside other columns a split one stands for its coarse part."""
    found = {
        part
        for name in names
        for part in (
            _variables_behind(name, schema=schema)
            if len(names) == 1 or name in schema.variables
            else schema.layout.sources(name)
        )
    }
    return tuple(name for name in schema.variables if name in found)


def _parse_weight(given: object, *, place: str) -> Fraction:
    weight = to_fraction(given)
    if weight is None or weight <= 0:
        raise UsageError(
            f"{place}: the weight is {given!s:.60}.", hint="give a finite number above 0; 1 is the default"
        )
    return weight


def _unknown_column(name: str, schema: Schema, *, where: str) -> UsageError:
    known = dict.fromkeys([*schema.columns, *schema.variables])
    return UsageError(
        f"{where} names {name!r}, which is no column.",
        hint=suggest(name, known, otherwise="name a column of the schema"),
    )
