"""Columns recoded into one: a code for every combination that occurs in a public table, and none for the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Counts, Domain, Grouping, Marginal
from populace.inference.model_space import ModelSpace, unused_name
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import estimate_rows
from populace.measurements.public_marginals import PublicMarginals
from populace.schema.conditions.rules import Allowed, Rule, Rules
from populace.schema.schema import Schema

# The table of all combinations of a group is counted, and kept.
MAX_GROUP_CELLS = 2**16

Codes = Mapping[str, npt.NDArray[np.unsignedinteger]]


@dataclass(frozen=True, eq=False)
class MergedColumn:
    """One column in the place of several: code i stands for the i-th row of `combinations`."""

    name: str
    columns: Clique
    combinations: Counts


@dataclass(frozen=True, eq=False, kw_only=True)
class Recoding:
    """Which columns of a domain are merged. A merged column stands where the first of its columns stood.

    >>> flags = MergedColumn("any + own", ("any", "own"), np.array([[0, 0], [1, 0], [1, 1]]))
    >>> recoding = Recoding(domain=Domain({"any": 2, "age": 3, "own": 2}), merged=(flags,))
    >>> dict(recoding.recoded), recoding.clique(("age", "own", "any")), recoding.clique(("age", "own"))
    ({'any + own': 3, 'age': 3}, ('any + own', 'age'), None)
    >>> recoding.table(np.array([[5, 2], [9, 1]]), ("own", "any"))
    array([5, 2, 1])
    """

    domain: Domain
    merged: tuple[MergedColumn, ...]

    def __post_init__(self) -> None:
        inside = [name for each in self.merged for name in each.columns]
        sound = (
            len(set(inside)) == len(inside)
            and set(inside) <= set(self.domain)
            and all(self._sound(each) for each in self.merged)
            and len(self.recoded) == len(self.domain) - len(inside) + len(self.merged)
        )
        if not sound:
            raise UsageError(
                "the merged columns do not fit the domain.",
                hint="name each column once, and give some combinations of codes of the domain, each once",
            )

    def _sound(self, each: MergedColumn) -> bool:
        held, sizes = each.combinations, self.domain.shape(each.columns)
        return (
            len(each.columns) > 1
            and held.ndim == 2
            and held.shape[1] == len(sizes)
            and len(held) > 0
            and bool(((held >= 0) & (held < np.array(sizes))).all())
            and len(np.unique(held, axis=0)) == len(held)
        )

    @cached_property
    def columns(self) -> dict[str, Clique]:
        """The columns behind every recoded one, in the order of the domain."""
        names = {each.columns: each.name for each in self.merged}
        return {names.get(unit, unit[0]): unit for unit in recoded_units(self.domain, list(names))}

    @cached_property
    def recoded(self) -> Domain:
        """The domain after recoding."""
        codes = {each.name: len(each.combinations) for each in self.merged}
        return Domain({name: codes.get(name) or self.domain[name] for name in self.columns})

    def clique(self, clique: Clique) -> Clique | None:
        """Return the recoded columns of a clique, in their order; None where it holds only part of a merged one."""
        found = tuple(name for name, columns in self.columns.items() if set(columns) <= set(clique))
        return found if sum(len(self.columns[name]) for name in found) == len(clique) else None

    def table(self, table: npt.NDArray[Any], clique: Clique) -> npt.NDArray[Any]:
        """Return a table over a clique of the domain by recoded columns; combinations without a code are left out."""
        recoded = self.clique(clique) or ()
        columns = [name for each in recoded for name in self.columns[each]]
        places = [self._places(each) for each in recoded]
        flat = table.transpose([clique.index(name) for name in columns]).reshape(
            [self.domain.cells(self.columns[each]) for each in recoded]
        )
        return flat[np.ix_(*places)] if recoded else flat

    def expand(self, codes: Codes) -> dict[str, npt.NDArray[np.unsignedinteger]]:
        """Return rows in the codes of the domain: exactly the combinations that their codes stand for."""
        found: dict[str, npt.NDArray[np.unsignedinteger]] = {}
        for each in self.merged:
            for place, name in enumerate(each.columns):
                small = np.min_scalar_type(self.domain[name])
                found[name] = each.combinations[:, place].astype(small)[codes[each.name]]
        return {name: found[name] if name in found else codes[name] for name in self.domain}

    def rules(self, rules: Rules) -> Rules:
        """Return rules over recoded columns, each combination in the class of its codes' classes."""
        seen = {each.name: self._classes(each, rules) for each in self.merged}
        classes = {name: kinds for name, kinds in rules.classes.items() if name in self.columns}
        classes |= {
            name: Grouping(name, tuple(numbers.tolist()))
            for name, (numbers, _, constrained) in seen.items()
            if constrained
        }
        found = []
        for rule in rules.rules:
            clique = tuple(dict.fromkeys(map(self._home, rule.clique)))
            picks = []
            for name in rule.clique:
                home = self._home(name)
                shape = [-1 if each == home else 1 for each in clique]
                codes = np.arange(rules.classes[name].size)
                if home != name:
                    _, firsts, constrained = seen[home]
                    codes = firsts[:, constrained.index(name)]
                picks.append(codes.reshape(shape))
            allowed = np.asarray(rule.allowed[tuple(picks)])
            if not allowed.all():
                found.append(Rule(text=rule.text, clique=clique, allowed=allowed))
        return Rules(classes=classes, rules=tuple(found))

    def _home(self, name: str) -> str:
        return next((each.name for each in self.merged if name in each.columns), name)

    def _places(self, name: str) -> Counts:
        each = next((each for each in self.merged if each.name == name), None)
        if each is None:
            return np.arange(self.domain[name])
        shape = self.domain.shape(each.columns)
        return np.asarray(np.ravel_multi_index(tuple(each.combinations.T), shape), dtype=np.int64)

    def _classes(self, each: MergedColumn, rules: Rules) -> tuple[Counts, Counts, list[str]]:
        """Return the class of each combination, the classes of each class's codes, and which columns these are of."""
        constrained = [name for name in each.columns if name in rules.classes]
        kinds = [rules.classes[n].lookup[each.combinations[:, each.columns.index(n)]] for n in constrained]
        if not constrained:
            return np.zeros(len(each.combinations), np.int64), np.zeros((1, 0), np.int64), constrained
        firsts, numbers = np.unique(np.stack(kinds, axis=1), axis=0, return_inverse=True)
        return numbers.reshape(-1), firsts, constrained

    def to_json(self) -> dict[str, Any]:
        """Return the recoding as plain JSON."""
        return {
            "domain": dict(self.domain),
            "merged": [
                {"name": each.name, "columns": list(each.columns), "combinations": each.combinations.tolist()}
                for each in self.merged
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Recoding:
        """Return the recoding that `to_json` wrote."""
        return cls(
            domain=Domain({str(name): int(size) for name, size in document["domain"].items()}),
            merged=tuple(
                MergedColumn(
                    str(each["name"]), tuple(each["columns"]), np.array(each["combinations"], np.int64)
                )
                for each in document["merged"]
            ),
        )


def mergeable_groups(schema: Schema) -> tuple[Clique, ...]:
    """Return the declared groups that can become one column: several columns, of few combinations, none kept apart.

    Areas and public totals count their columns as they are. One column alone is no table to recode.

    >>> from dataclasses import replace
    >>> schema = Schema.from_sizes({"a": 2, "b": 3, "c": 4, "d": 5})
    >>> mergeable_groups(replace(schema, groups=(("b", "a"), ("c", "d")), partition=("d",)))
    (('a', 'b'),)
    """
    domain = schema.domain
    apart = {*schema.partition, *(name for known in schema.totals for name in known.clique)}
    found = []
    for group in schema.groups:
        ordered = tuple(name for name in domain if name in group)
        if len(ordered) > 1 and not apart & set(ordered) and domain.cells(ordered) <= MAX_GROUP_CELLS:
            found.append(ordered)
    return tuple(found) if sum(map(len, found)) - len(found) + 1 < len(domain) else ()


def recoded_units(domain: Domain, groups: Sequence[Clique]) -> list[Clique]:
    """Return the columns of every unit after merging groups, in the order of the domain.

    >>> recoded_units(Domain({"a": 2, "b": 3, "c": 4}), [("a", "c")])
    [('a', 'c'), ('b',)]
    """
    home = {name: group for group in groups for name in group}
    return list(dict.fromkeys(home.get(name, (name,)) for name in domain))


def recode_by_public(
    public: PublicMarginals | None, groups: Sequence[Clique], *, space: ModelSpace
) -> Recoding | None:
    """Return the recoding of groups by the combinations that their public tables hold; None where none is held."""
    held = {} if public is None else public.tables
    merged = []
    for group in groups:
        if group in held:
            cells = np.argwhere(held[group] > 0).astype(np.int64)
            cells = cells[_allowed_combinations(cells, group, space.rules)]
            if len(cells):
                merged.append(MergedColumn(unused_name(" + ".join(group), space.domain), group, cells))
    return Recoding(domain=space.domain, merged=tuple(merged)) if merged else None


def recode_items(items: Iterable[Measurement], recoding: Recoding) -> Iterator[Measurement] | None:
    """Return measurements over recoded columns; None where one of them tells merged columns apart.

    Rows of combinations without a code are shared out over the codes as the others are: what is left of a table that
    lost cells is scaled to the number of rows, which the tables without merged columns tell, if noise does not explain
    what it lacks.
    """
    given = list(items)
    cliques = [recoding.clique(item.marginal.clique) for item in given]
    if any(clique is None for clique in cliques) or any(item.marginal.groupings for item in given):
        return None
    merged = {name for each in recoding.merged for name in each.columns}
    whole = [item for item in given if not merged & set(item.marginal.clique)]
    rows = estimate_rows(whole) if whole else None
    return (
        _scale_to_rows(
            item, Marginal(clique or ()), recoding.table(item.counts, item.marginal.clique), rows=rows
        )
        for item, clique in zip(given, cliques, strict=True)
    )


def recode_public(public: PublicMarginals | None, recoding: Recoding) -> PublicMarginals | None:
    """Return public tables over recoded columns."""
    if public is None:
        return None
    tables = {
        recoded: recoding.table(table, clique)
        for clique, table in public.tables.items()
        if (recoded := recoding.clique(clique)) is not None
    }
    return PublicMarginals(tables)


def _scale_to_rows(
    item: Measurement, marginal: Marginal, kept: Counts, *, rows: tuple[float, float] | None
) -> Measurement:
    """Return what is left of a table, scaled to the number of rows if cells were left out that must have held some.

    The variance is that of the scaled cells and, as their mean, what the noise in the number of rows adds.
    """
    held = float(kept.sum())
    if kept.size == item.counts.size or rows is None or held <= 0:
        return Measurement(marginal, kept, item.variance)
    total, variance = rows
    # What is missing must stand out of the noise of the number of rows and of the cells that are left.
    if total - held <= 2 * (float(item.variance) * kept.size + variance) ** 0.5:
        return Measurement(marginal, kept, item.variance)
    factor = Fraction(min(total / held, 2.0)).limit_denominator(10**6)
    counts = np.rint(kept * float(factor)).astype(np.int64)
    added = variance * float(np.mean(np.square(kept / held))) if factor < 2 else 0.0
    more = Fraction(added).limit_denominator(10**6)
    return Measurement(marginal, counts, item.variance * factor**2 + more)


def _allowed_combinations(cells: Counts, group: Clique, rules: Rules) -> Allowed:
    """Say of each combination whether the rules that are about these columns alone allow it."""
    kept = np.ones(len(cells), dtype=np.bool_)
    for rule in rules.rules:
        if set(rule.clique) <= set(group):
            codes = (rules.classes[n].lookup[cells[:, group.index(n)]] for n in rule.clique)
            kept &= rule.allowed[tuple(codes)]
    return kept
