"""A model given that a condition holds: no row is drawn and thrown away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from populace.errors import UsageError
from populace.infer.model import Model
from populace.infer.observations import refines
from populace.infer.possible import Possible, class_lookups
from populace.infer.propagation import FORBIDDEN
from populace.infer.structure import Layout
from populace.infer.tables import Table
from populace.marginals import Clique, Domain, Grouping
from populace.schema.rules import Rules, Totals
from populace.schema.where import Where

# Codes that have no share of their group at all are taken for this rare where a condition asks for them alone.
LEAST_SHARE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditioned:
    """A model given a condition, and the share of the whole model's rows that meet it."""

    model: Model
    share: float


def condition(model: Model, rules: Rules) -> Conditioned:
    """Return the model given that rules hold: p(row | rules) ∝ p(row) where they do, exactly 0 elsewhere.

    Groups are split where a rule tells their codes apart. The rules become hard tables, over hidden variables where
    that is smaller. Public totals are of all rows, so the conditioned model has no exact counts.
    """
    whole = _split_groups(replace(model, exact=()), rules)
    domain = whole.full_domain
    layout = Layout(_seen(whole, rules), domain=domain, groupings={})
    structure = layout.structure([*whole.potentials, *((name,) for name in domain)])
    potentials = dict(whole.potentials)
    for clique, allowed in structure.hard.items():
        _add(potentials, clique, np.where(allowed, 0.0, FORBIDDEN))
    given = replace(whole, potentials=potentials, hidden={**whole.hidden, **structure.hidden})
    share = min(1.0, math.exp(log_mass(given) - log_mass(whole)))
    return Conditioned(
        model=replace(given, total=max(model.total * share, np.finfo(float).tiny)), share=share
    )


def check_possible(where: Where, *, domain: Domain, totals: Sequence[Totals]) -> None:
    """Refuse a condition that no row can meet: by itself, under the rules of the schema, or by public totals."""
    for rules, why in (
        (where.rules, "it contradicts itself"),
        (where.together, "the rules of the schema forbid it"),
    ):
        try:
            possible = Possible(rules)
        except UsageError:
            raise UsageError(
                f"no row can be where {where.text}: {why}.", hint="ask for rows that can occur"
            ) from None
    classes = class_lookups(where.together, domain=domain, groupings={})
    for known in totals:
        allowed = possible.cells(known.clique, classes=classes, domain=domain)
        if known.counts.any() and not known.counts[allowed].any():
            raise UsageError(
                f"no row can be where {where.text}: the public totals by {' × '.join(known.clique)} count none.",
                hint="ask for rows that can occur",
            )


def log_mass(model: Model) -> float:
    """Return the logarithm of Σ exp(Σ potentials) over all rows, by the probability of one row that is possible."""
    row: dict[str, int] = {}
    probability = 0.0
    for node, separator, table in zip(
        model.tree.nodes, model.tree.separators, model.conditionals, strict=True
    ):
        here = table[tuple(row[name] for name in separator)]
        best = np.unravel_index(int(here.argmax()), here.shape)
        row |= {name: int(code) for name, code in zip(node[len(separator) :], best, strict=True)}
        probability += math.log(float(here[best]))
    height = sum(
        float(table[tuple(row[name] for name in clique)]) for clique, table in model.potentials.items()
    )
    if height < FORBIDDEN / 2:
        raise UsageError("the model has no row that meets the condition.", hint="ask for rows that can occur")
    return height - probability


def _seen(model: Model, rules: Rules) -> Rules:
    """Return rules over the groups of a model instead of codes."""
    lookups = class_lookups(rules, domain=model.domain, groupings=model.groupings)
    classes = {name: Grouping(name, tuple(lookup.tolist())) for name, lookup in lookups.items()}
    return Rules(classes=classes, rules=rules.rules)


def _split_groups(model: Model, rules: Rules) -> Model:
    """Return the same model with groups that lie inside the classes of the rules."""
    groupings, within = dict(model.groupings), dict(model.within)
    potentials = dict(model.potentials)
    for name, old in model.groupings.items():
        if name not in rules.classes or refines(old, rules.classes[name]):
            continue
        both = np.stack([old.lookup, rules.classes[name].lookup])
        (parents, _), lookup = np.unique(both, axis=1, return_inverse=True)
        lookup = lookup.reshape(-1)
        shares = np.bincount(lookup, weights=within[name])
        empty = shares == 0
        shares[empty] = LEAST_SHARE
        groupings[name] = Grouping(name, tuple(lookup.tolist()))
        within[name] = np.where(empty, 1 / np.bincount(lookup), 1 / shares)[lookup] * np.where(
            empty[lookup], 1.0, within[name]
        )
        for clique in model.potentials:
            if name in clique:
                potentials[clique] = potentials[clique].take(parents, axis=clique.index(name))
        _add(potentials, (name,), np.log(shares))
    return replace(model, groupings=groupings, within=within, potentials=potentials)


def _add(potentials: dict[Clique, Table], clique: Clique, table: Table) -> None:
    potentials[clique] = potentials[clique] + table if clique in potentials else table
