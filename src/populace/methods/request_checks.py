"""What a method is refused from public facts alone, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain
from populace.methods.method import Method, PublicTableUse
from populace.methods.registry import METHODS
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.conditions.rules import NO_RULES, Rules
from populace.schema.schema import Schema

INFERENCES = ("tree", "gum")


def check_method(method: Method, schema: Schema, *, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse a schema or a budget that a method cannot work with."""
    if method.scores_all_pairs and len(schema.domain) > LIMITS.max_paired_columns:
        raise UsageError(
            f"the method {method.name!r} scores all pairs of columns: of {len(schema.domain)} columns; "
            f"{LIMITS.max_paired_columns} is the most.",
            hint="use --method mst or --method independent, or leave columns out of the schema",
        )
    if method.counts_units and schema.geography is None:
        raise UsageError(
            f"the method {method.name!r} needs a geography.",
            hint='declare [geography] with levels = ["county", …] and units = "spine.csv" in the schema',
        )
    declared = {
        "[geography]": schema.geography,
        f"frequency = {schema.frequency!r}": schema.frequency,
        "[[invariants]]": schema.invariants,
    }
    strange = [word for word, value in declared.items() if value]
    if strange and not method.counts_units:
        able = _methods_that(lambda other: other.counts_units)
        raise UsageError(
            f"the method {method.name!r} has no use for {strange[0]}.",
            hint=f"take it out of the schema, or use {able}",
        )
    if schema.unknown and not method.learns_domains:
        raise UsageError(
            f"the method {method.name!r} needs every domain, and that of column {schema.unknown[0]!r} is to be learnt.",
            hint="declare its values, a width or edges, or use --method auto",
        )
    if schema.totals and not method.meets_totals:
        raise UsageError(
            f"the method {method.name!r} cannot meet the public totals of the schema.",
            hint="take [[totals]] out, or use --method auto",
        )
    method.check(schema, epsilon, delta)


def check_public(method: Method, *, given: bool) -> None:
    """Refuse a public table where a method has no use for it, and a method that needs one without it."""
    if given and method.public is PublicTableUse.NONE:
        able = _methods_that(lambda other: other.public is not PublicTableUse.NONE)
        raise UsageError(
            f"the method {method.name!r} has no use for a public table.", hint=f"leave it out, or use {able}"
        )
    if not given and method.public is PublicTableUse.REQUIRED:
        raise UsageError(
            f"the method {method.name!r} needs a public table.",
            hint="give --public FILE, or use --method auto",
        )


def check_earlier(method: Method, *, given: bool) -> None:
    """Refuse earlier releases where a method fits a model that holds its own tables alone."""
    if given and not method.pools_earlier:
        able = _methods_that(lambda other: other.pools_earlier)
        raise UsageError(
            f"the method {method.name!r} has a model of its own tables: it has no use for earlier releases.",
            hint=f"leave them out, or use {able}",
        )


def check_query_rounds(method: Method, workload: Workload, *, domain: Domain) -> None:
    """Refuse a workload in rounds where a method has none, and what its rounds cannot do."""
    if method.check_rounds is not None:
        method.check_rounds(workload, domain)
    elif workload.rounds is not None:
        able = _methods_that(lambda other: other.check_rounds is not None)
        raise UsageError(
            f"the workload says how its marginals are asked in rounds; the method {method.name!r} has none.",
            hint=f"leave out [rounds], [columns] and coarse, or use {able}",
        )


def check_noise_fits(method: Method, workload: Workload, *, domain: Domain, budget: Budget) -> None:
    """Refuse a budget so small that noise of some question might not fit 64 bits.

    No method gives an answer about a column less than a 1000th of an even share, or one about a pair, or about what is
    wanted, less than a 100th, unless the curator says so: such a method tells the smallest share of its rounds.
    """
    columns = len(domain)
    parts = 1000 * columns + 100 * (math.comb(columns, 2) + len(workload.weights))
    if method.smallest_share is not None:
        least = method.smallest_share(workload, domain, budget)
        if not budget.can_afford(least):
            raise UsageError(
                f"the workload leaves an answer {float(least):.1g} of the budget: noise might not fit 64 bits.",
                hint="let the first round take about half, and give weights that differ less",
            )
    if not budget.can_afford(Fraction(1, parts)):
        raise UsageError(
            f"epsilon is too small for {columns} columns: noise might not fit 64 bits.",
            hint="raise epsilon, give a delta above 0, or leave out columns",
        )


def check_inference(inference: str, *, method: Method, where: str | None = None) -> None:
    """Refuse an inference that is not known, or that a method or a condition rules out."""
    if inference not in INFERENCES:
        raise UsageError(
            f"there is no inference {inference!r}.", hint=f"choose one of {', '.join(INFERENCES)}"
        )
    if inference == "gum" and method.own_model:
        raise UsageError(
            f"the method {method.name!r} has a model of its own, which rows are drawn from.",
            hint="leave --inference out",
        )
    if inference == "gum" and where is not None:
        raise UsageError(
            "rows that are moved until they fit all tables cannot be drawn given a condition.",
            hint="leave --inference out, or choose among the rows of the whole table",
        )


def preload_inference(method: Method, *, rules: Rules) -> None:
    """Load what the model of a method is fitted with, before anything is paid for: an import can fail as a disk can."""
    for name in method.imports:
        import_module(name)
    if rules != NO_RULES and not method.single_columns:
        # Tables over several columns are brought into agreement with rules by sparse least squares.
        import_module("scipy.sparse.linalg")


def _methods_that(able: Callable[[Method], bool]) -> str:
    return " or ".join(name for name, method in METHODS.items() if able(method))
