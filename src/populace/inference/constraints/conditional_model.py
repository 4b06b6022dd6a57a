"""A model given that a condition holds, cut into boxes that restrict columns one by one: no row is drawn in vain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Counts, Grouping, Lookup
from populace.inference.constraints.support import Support, class_lookups
from populace.inference.factor import Table, add_potential
from populace.inference.gls.observations import refines
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.schema.conditions.rules import Allowed, Rules
from populace.schema.row_filter import RowFilter

# Classes of some columns: the rows that have one of them in each.
Box = Mapping[str, Allowed]

# Codes that have no share of their group at all are taken for this rare where a condition asks for them alone.
MIN_SHARE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConditionalModel:
    """A model given a condition, as a mixture of models without one.

    `parts` are models of rows that exclude each other, `weights` their shares of the rows that meet the condition, and
    `share` is that of these among all rows.
    """

    parts: tuple[Model, ...]
    weights: Table
    share: float

    def allot(self, rows: int, *, rng: np.random.Generator) -> Counts:
        """Share out rows over the parts: each gets one of the two whole numbers next to its expectation."""
        bounds = np.cumsum(self.weights)
        points = np.ceil(rows * bounds / bounds[-1] - rng.random()).astype(np.int64)
        points[-1] = rows
        return np.asarray(np.diff(points, prepend=0))


def condition_model(model: Model, rules: Rules, *, text: str) -> ConditionalModel:
    """Return the model given that rules hold: p(row | rules) ∝ p(row) where they do, exactly 0 elsewhere.

    The rows that keep the rules are cut into disjoint boxes, in each of which columns are restricted one by one: the
    model given a box has potentials of single columns more and is no larger. Groups are split where a rule tells
    their codes apart. Public totals are of all rows, so none of the parts has exact counts.
    """
    if model.gradual:
        raise UsageError(
            f"rows where {text} cannot be drawn from this model: its rows are moved until they fit all tables.",
            hint="fit the measurements again without --inference gum",
        )
    rules = rules if model.recoding is None else model.recoding.rules(rules)
    whole = _split_groups(replace(model, exact=(), targets={}), rules)
    lookups = class_lookups(whole.space(rules))
    found = [_restrict_to_box(whole, box, lookups) for box in cut_into_boxes(rules, text=text)]
    masses = np.array([log_partition(part) for part in found])
    highest = masses.max(initial=-math.inf)
    if highest == -math.inf:
        # Models of bins that were counted have none where nothing was: there are no rows to draw.
        return ConditionalModel(parts=(), weights=np.zeros(0), share=0.0)
    weights = np.exp(masses - highest)
    share = min(1.0, math.exp(highest + math.log(weights.sum()) - log_partition(whole)))
    kept = np.flatnonzero(weights)
    weights = weights[kept] / weights.sum()
    return ConditionalModel(parts=tuple(found[i] for i in kept), weights=weights, share=share)


def check_condition_possible(where: RowFilter, space: ModelSpace) -> None:
    """Refuse a condition that no row can meet: by itself, under the rules of the schema, or by public totals."""
    cut_into_boxes(where.rules, text=where.text)
    for rules, why in (
        (where.rules, "no values that its columns can have meet it"),
        (where.together, "the rules of the schema forbid it"),
    ):
        try:
            possible = Support(rules)
        except UsageError:
            raise UsageError(
                f"no row can be where {where.text}: {why}.", hint="ask for rows that can occur"
            ) from None
    classes = class_lookups(replace(space, rules=where.together))
    for known in space.totals:
        allowed = possible.cells(known.clique, classes=classes, domain=space.domain)
        if known.counts.any() and not known.counts[allowed].any():
            raise UsageError(
                f"no row can be where {where.text}: the public totals by {' × '.join(known.clique)} count none.",
                hint="ask for rows that can occur",
            )


def log_partition(model: Model) -> float:
    """Return the logarithm of Σ exp(Σ potentials) over all rows; −∞ where no row is possible.

    It is found from the height of one row and its probability.
    """
    row: dict[str, int] = {}
    probability = 0.0
    tree = model.tree
    for node, separator, table in zip(tree.nodes, tree.separators, model.conditionals, strict=True):
        here = table[tuple(row[name] for name in separator)]
        best = np.unravel_index(int(here.argmax()), here.shape)
        row |= {name: int(code) for name, code in zip(node[len(separator) :], best, strict=True)}
        probability += math.log(float(here[best]))
    height = math.fsum(
        float(table[tuple(row[name] for name in clique)]) for clique, table in model.potentials.items()
    )
    return -math.inf if height < FORBIDDEN / 2 else height - probability


def _restrict_to_box(model: Model, box: Box, lookups: Mapping[str, Lookup]) -> Model:
    """Return a model given a box."""
    potentials = dict(model.potentials)
    for name, classes in box.items():
        add_potential(potentials, (name,), np.where(classes[lookups[name]], 0.0, FORBIDDEN))
    return replace(model, potentials=potentials)


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
        shares[empty] = MIN_SHARE
        groupings[name] = Grouping(name, tuple(lookup.tolist()))
        within[name] = np.where(empty, 1 / np.bincount(lookup), 1 / shares)[lookup] * np.where(
            empty[lookup], 1.0, within[name]
        )
        for clique in model.potentials:
            if name in clique:
                potentials[clique] = potentials[clique].take(parents, axis=clique.index(name))
        add_potential(potentials, (name,), np.log(shares))
    return replace(model, groupings=groupings, within=within, potentials=potentials)


def cut_into_boxes(rules: Rules, *, text: str) -> list[Box]:
    """Return disjoint boxes that hold just the rows which keep all rules: the classes allowed of some columns.

    A condition that falls into very many of them is refused; `text` names it.
    """
    found: list[Box] = [{}]
    for rule in rules.rules:
        parts = cut_table(rule.clique, rule.allowed)
        found = [both for box in found for part in parts if (both := _intersect(box, part)) is not None]
        if len(found) > LIMITS.max_condition_boxes:
            raise UsageError(
                f"{text} falls into more than {LIMITS.max_condition_boxes} cases.",
                hint="compare columns with values instead of with each other, or say it with fewer alternatives",
            )
    return found


def cut_table(clique: Clique, allowed: Allowed) -> list[Box]:
    """Return disjoint boxes that cover just the cells of a table which are allowed.

    The table is cut along the column with the fewest different slices; alike slices stay together.

    >>> old_or_poor = np.array([[False, True], [True, True]])
    >>> [{name: classes.tolist() for name, classes in box.items()} for box in cut_table(("age", "pay"), old_or_poor)]
    [{'age': [True, False], 'pay': [False, True]}, {'age': [False, True]}]
    """
    if not allowed.any():
        return []
    if allowed.all():
        return [{}]
    slices = [np.moveaxis(allowed, axis, 0).reshape(size, -1) for axis, size in enumerate(allowed.shape)]
    kinds = [np.unique(each, axis=0, return_index=True, return_inverse=True)[1:] for each in slices]
    axis = min(
        (axis for axis, (firsts, _) in enumerate(kinds) if len(firsts) > 1),
        key=lambda axis: len(kinds[axis][0]),
    )
    firsts, numbers = kinds[axis]
    rest = clique[:axis] + clique[axis + 1 :]
    return [
        {clique[axis]: np.asarray(numbers.reshape(-1) == number), **inner}
        for number, first in enumerate(firsts)
        for inner in cut_table(rest, np.asarray(allowed.take(first, axis=axis)))
    ]


def _intersect(one: Box, other: Box) -> Box | None:
    """Return what two boxes share, or None where that is nothing."""
    both = dict(one)
    for name, classes in other.items():
        both[name] = both[name] & classes if name in both else classes
        if not both[name].any():
            return None
    return both
