"""Public totals carried onto the domain of a model, and whether some table of rows can have them and keep the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Lookup, Marginal, cell_indices
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table, sum_codes, sum_onto
from populace.inference.gls.observations import Observation, average_observations
from populace.inference.graph.junction_tree import JunctionTree, junction_tree
from populace.inference.graph.propagation import Propagation
from populace.inference.model_space import ModelSpace
from populace.schema.conditions.rules import Allowed, Rule, Totals

# Beyond so many cells, which would take minutes, each table of totals is compared with the rules but not with others.
MAX_PROGRAMME_CELLS = 2**18
_INFEASIBLE = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTotals:
    """What is known for certain: the number of rows, counts over cliques, and counts of codes inside groups."""

    rows: int | None = None
    tables: Mapping[Clique, Table] = field(default_factory=dict)
    codes: Mapping[str, Table] = field(default_factory=dict)

    @property
    def empty(self) -> dict[Clique, Allowed]:
        """For every table with empty cells: which of its cells hold rows."""
        return {clique: table > 0 for clique, table in self.tables.items() if (table == 0).any()}

    def add_to_observations(
        self, observations: Sequence[Observation], *, weight: float
    ) -> tuple[Observation, ...]:
        """Return observations with the known counts among them, weighing so much more than the most precise."""
        found = {o.clique: o for o in observations}
        variance = min((float(o.variance.min()) for o in observations), default=1.0) / weight
        for clique, table in self.tables.items():
            known = Observation(clique, table, np.full(table.shape, variance))
            found[clique] = average_observations([found[clique], known]) if clique in found else known
        return tuple(found.values())


def carry_totals(space: ModelSpace, *, allowed: Callable[[Clique], Allowed]) -> KnownTotals:
    """Carry totals onto the grouped domain; refuse totals that contradict each other or the rules."""
    domain, groupings = space.domain, space.groupings
    rows: int | None = None
    tables: dict[Clique, Table] = {}
    codes: dict[str, Table] = {}
    place = {column: i for i, column in enumerate(domain)}
    for known in space.totals:
        if known.counts.shape != domain.shape(known.clique) or (known.counts < 0).any():
            raise UsageError(
                f"the totals by {known.clique} do not fit the domain.", hint="give one count ≥ 0 per cell"
            )
        found = int(known.counts.sum())
        if rows is not None and rows != found:
            raise UsageError(
                f"one table of totals sums to {rows} rows, another to {found}.", hint="correct one of them"
            )
        rows = found
        clique = tuple(sorted(known.clique, key=place.__getitem__))
        table = sum_onto(known.counts.astype(np.float64), known.clique, clique)
        merged = [name for name in clique if name in groupings]
        if merged and len(clique) > 1:
            raise UsageError(
                f"the totals by {clique} count codes of {merged[0]!r} that measurements group.",
                hint="measure columns with totals code by code",
            )
        for name in merged:
            codes[name] = table
            table = sum_codes(table, groupings[name].lookup, size=groupings[name].size, axis=0)
        if (table[~allowed(clique)] > 0).any():
            raise UsageError(
                f"the totals by {clique} count rows that a rule forbids.",
                hint="correct the totals or the rule",
            )
        if clique and rows > 0:
            tables[clique] = table
    return KnownTotals(rows=rows, tables=tables, codes=codes)


def check_constraints(space: ModelSpace) -> None:
    """Refuse rules that no row can keep, and totals that no table can have under them.

    Rules that need a model beyond memory even when no pair is measured are refused as well.
    """
    potentials = RulePotentials(space)
    potentials.structure([(name,) for name in space.domain])
    if space.totals:
        carry_totals(space, allowed=potentials.allowed_cells)
        check_totals_feasible(space)


def check_totals_feasible(space: ModelSpace) -> None:
    """Refuse totals that no table of rows can have while it keeps the rules.

    One table of totals is possible where all its cells are, which is seen without this. Several are a linear programme
    over the cells of a junction tree that can hold rows: neighbours agree, and the sums are those declared.
    """
    for several, tied in _connected_parts([each for each in space.totals if each.clique], space.rules.rules):
        if len(several) > 1 and not _is_feasible(several, tied, lookups=_code_lookups(several, tied, space)):
            raise UsageError(
                f"no table has the totals by {' and by '.join(', '.join(each.clique) for each in several)} "
                "and keeps the rules in all of its rows.",
                hint="correct the totals or the rules: they contradict each other",
            )


def _connected_parts(
    totals: Sequence[Totals], rules: Sequence[Rule]
) -> list[tuple[list[Totals], list[Rule]]]:
    """Return the totals and the rules that chains of shared columns join."""
    found: list[tuple[set[str], list[Totals | Rule]]] = []
    every: list[Totals | Rule] = [*totals, *rules]
    for each in every:
        columns = set(each.clique)
        near = [part for part in found if part[0] & columns]
        found = [part for part in found if not part[0] & columns]
        found.append(
            (columns.union(*(part[0] for part in near)), [each, *(e for part in near for e in part[1])])
        )
    return [
        (
            [each for each in held if isinstance(each, Totals)],
            [each for each in held if isinstance(each, Rule)],
        )
        for _, held in found
    ]


def _cliques(totals: Sequence[Totals], rules: Sequence[Rule]) -> list[Clique]:
    return [*(each.clique for each in totals), *(rule.clique for rule in rules)]


def _code_lookups(
    totals: Sequence[Totals], rules: Sequence[Rule], space: ModelSpace
) -> dict[str, tuple[Lookup, Lookup]]:
    """Return for each column what its codes become, and the class of what they become.

    Codes of one class are alike to all rules; only where two tables of totals count a column do they differ.
    """
    found = {}
    known, domain = space.rules, space.domain
    for name in dict.fromkeys(name for clique in _cliques(totals, rules) for name in clique):
        classes = known.classes[name].lookup if name in known.classes else np.zeros(domain[name], np.int64)
        shared = sum(name in each.clique for each in totals) > 1
        found[name] = (
            (np.arange(domain[name]), classes) if shared else (classes, np.arange(int(classes.max()) + 1))
        )
    return found


def _is_feasible(
    totals: Sequence[Totals], rules: Sequence[Rule], *, lookups: Mapping[str, tuple[Lookup, Lookup]]
) -> bool:
    domain = Domain({name: len(classes) for name, (_, classes) in lookups.items()})
    tree = junction_tree(_cliques(totals, rules), domain=domain)
    if tree.cells(domain) > MAX_PROGRAMME_CELLS:
        return True
    sums = {}
    for each in totals:
        wanted = np.zeros(domain.shape(each.clique))
        np.add.at(wanted, np.ix_(*(lookups[name][0] for name in each.clique)), each.counts)
        sums[each.clique] = wanted
    hard = [(clique, wanted > 0) for clique, wanted in sums.items()]
    hard += [(r.clique, r.allowed[np.ix_(*(lookups[name][1] for name in r.clique))]) for r in rules]
    supports = Propagation(tree, domain=domain).supports(hard)
    return supports is not None and _is_solvable(sums, supports, tree=tree, domain=domain)


def _is_solvable(
    sums: Mapping[Clique, Table], supports: Sequence[Table], *, tree: JunctionTree, domain: Domain
) -> bool:
    """Say whether some numbers ≥ 0 in these cells agree with each other and have the sums."""
    # SciPy is slow to import, and few schemas have several totals.
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, vstack

    cells = [np.flatnonzero(support) for support in supports]
    starts = np.cumsum([0, *map(len, cells)])

    def marginalize(clique: Clique, node: int) -> csr_matrix:
        shape = domain.shape(tree.nodes[node])
        codes = dict(zip(tree.nodes[node], np.unravel_index(cells[node], shape), strict=True))
        into = cell_indices(Marginal(clique), codes=codes, domain=domain)
        at = into, np.arange(starts[node], starts[node + 1])
        return csr_matrix((np.ones(len(into)), at), shape=(domain.cells(clique), int(starts[-1])))

    parts, wanted = [], []
    for node, (above, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
        if node:
            parts.append(marginalize(separator, node) - marginalize(separator, above))
            wanted.append(np.zeros(domain.cells(separator)))
    for clique, table in sums.items():
        parts.append(marginalize(clique, tree.holding(clique, domain=domain)[0]))
        wanted.append(table.ravel())
    solution = linprog(
        np.zeros(int(starts[-1])),
        A_eq=vstack(parts, format="csr"),
        b_eq=np.concatenate(wanted),
        method="highs",
    )
    return bool(solution.status != _INFEASIBLE)
