"""`dpsyn`: pairs of columns from a public table, and as much from the private one as ε is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import combinations

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Marginal
from populace.core.progress import Progress
from populace.inference.constraints.recoding import mergeable_groups, recoded_units
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.dpsyn.dpsyn_model import DPSYN_CONFIG, dpsyn_model
from populace.methods.method import DeltaUse, Method, PublicTableUse, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.workload import Workload
from populace.schema.hints import quote_in_text
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit

# Rows are fitted to a table of a group up to here.
MAX_GROUP_CELLS = 2**16


class MeasuredTables(Enum):
    """How much of the private table is measured besides the partition."""

    NOTHING = "public pairs"
    COLUMNS = "columns, and public pairs scaled to them"
    PAIRS = "all pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSplit:
    """What is measured, and the ε for the number of rows, for the partition, and for columns or pairs."""

    level: MeasuredTables
    total: Fraction = Fraction(0)
    partition: Fraction
    rest: Fraction = Fraction(0)


def measures_total(epsilon: Fraction, unit: PrivacyUnit) -> bool:
    """Say whether ε is large enough to look at the number of rows: at least θ/35, θ being the rows that a unit moves.

    Without a look at it only the partition is measured, and no δ is of use.

    >>> measures_total(Fraction(1, 35), PrivacyUnit()), measures_total(Fraction(1, 36), PrivacyUnit())
    (True, False)
    """
    return epsilon >= DPSYN_CONFIG.min_total_epsilon * unit.marginal_l1


def split_budget(epsilon: Fraction, *, theta: int, total: int | None) -> BudgetSplit:
    """Return how ε is split, from ε, the rows θ that one unit moves, and the noisy number of rows, if it was asked for.

    ε₀ = θ/1400 for the number of rows, ε₁ = θ/50 and at most ε₃ = θ/25 for the partition; columns are worth their noise
    from τ₁ = 1500·θ/Ñ on and pairs from τ₂ = 6·τ₁ on, Ñ being at least 1.

    >>> split_budget(Fraction(1), theta=1, total=30_000).level, split_budget(Fraction(1), theta=7, total=30_000).level
    (<MeasuredTables.PAIRS: 'all pairs'>, <MeasuredTables.COLUMNS: 'columns, and public pairs scaled to them'>)
    """
    if total is None:
        return BudgetSplit(level=MeasuredTables.NOTHING, partition=epsilon)
    config = DPSYN_CONFIG
    first, least = config.total_epsilon * theta, config.partition_epsilon * theta
    columns = Fraction(config.column_rows * theta, max(1, total))
    pairs = config.pairs_factor * columns
    if epsilon < first + least + columns:
        return BudgetSplit(level=MeasuredTables.NOTHING, total=first, partition=epsilon - first)
    level, worth = (
        (MeasuredTables.COLUMNS, columns)
        if epsilon < first + least + pairs
        else (MeasuredTables.PAIRS, pairs)
    )
    partition = min(config.max_partition_epsilon * theta, least + (epsilon - first - least - worth) / 2)
    return BudgetSplit(level=level, total=first, partition=partition, rest=epsilon - first - partition)


def measure_dpsyn(
    oracle: Oracle, _workload: Workload, progress: Progress
) -> tuple[Measurement | PublicMarginals, ...]:
    """Measure the partition and, if ε is worth it, all other columns or their pairs; the rest is public.

    Noise is integer Laplace noise, but for pairs, which have Gaussian noise where there is a δ. Public pairs are scaled
    to the columns, and rows are moved until they fit. It ignores the workload.
    Cost: the whole ε; δ only for pairs. Which of the three it is follows from ε, θ and a paid number of rows.
    Source: the DPSyn entry to the NIST differential privacy temporal map challenge of 2020.
    """
    public = oracle.public
    if public is None:
        raise UsageError("the method 'dpsyn' needs a public table.", hint="give --public FILE")
    progress("measuring the partition", 0.0)
    epsilon, theta = oracle.budget.cap, oracle.budget.unit.marginal_l1
    measured: tuple[Measurement, ...] = ()
    total = None
    if measures_total(epsilon, oracle.budget.unit):
        share = DPSYN_CONFIG.total_epsilon * theta / epsilon
        measured += measure_evenly(oracle, [Marginal(())], share=share)
        total = int(measured[0].counts)
    partition = oracle.schema.partition
    merged = mergeable_groups(oracle.schema)
    columns = recoded_units(oracle.domain, merged)
    pairs = [
        tuple(n for n in oracle.domain if n in (*one, *other)) for one, other in combinations(columns, 2)
    ]
    # Columns of the partition are counted with it, and not asked again.
    by_area, others = _split_by_partition(pairs, partition)
    alone = _split_by_partition(columns, partition)[1]
    plan = split_budget(epsilon, theta=theta, total=total)
    if not alone:
        plan = replace(plan, level=MeasuredTables.NOTHING, partition=epsilon - plan.total)
    measured += measure_evenly(oracle, [Marginal(partition)], share=plan.partition / epsilon)
    wanted = {
        MeasuredTables.NOTHING: [],
        MeasuredTables.COLUMNS: alone,
        MeasuredTables.PAIRS: others or alone,
    }[plan.level]
    if wanted:
        progress(f"measuring {plan.level.value}", 0.3)
        share, asked = plan.rest / epsilon, [Marginal(clique) for clique in wanted]
        gaussian = plan.level is MeasuredTables.PAIRS and oracle.budget.keys > 0
        mechanism = (
            oracle.budget.measure_gaussian(share, marginals=len(asked), delta=oracle.budget.keys)
            if gaussian
            else oracle.budget.measure_noise(share, marginals=len(asked))
        )
        measured += oracle.measure(asked, noise=mechanism)
    if plan.level is MeasuredTables.PAIRS:
        # Which combinations of the groups occur in the public table, and no counts of them; counts by area.
        held = PublicMarginals.of(public, merged).tables
        occurring = {group: (table > 0).astype(np.int64) for group, table in held.items()}
        taken = occurring | dict(PublicMarginals.of(public, by_area).tables)
        return (*measured, PublicMarginals(taken)) if taken else measured
    return (*measured, PublicMarginals.of(public, [*columns, *pairs, *_other_groups(oracle, merged)]))


def _split_by_partition(cliques: Sequence[Clique], partition: Clique) -> tuple[list[Clique], list[Clique]]:
    """Return cliques with columns of the partition and others; those that lie in it are among neither.

    >>> _split_by_partition([("area", "year"), ("area", "sex"), ("sex", "age")], ("area", "year"))
    ([('area', 'sex')], [('sex', 'age')])
    """
    partial = [clique for clique in cliques if not set(clique) <= set(partition)]
    inside = [clique for clique in partial if set(clique) & set(partition)]
    return inside, [clique for clique in partial if clique not in inside]


def check_dpsyn(schema: Schema, _epsilon: Fraction, _delta: Fraction) -> None:
    """Refuse, from public facts alone, tables that would be too many.

    Numbers of rows by area are refused where they would make more rows than can be drawn, or could not be kept.
    """
    units = recoded_units(schema.domain, mergeable_groups(schema))
    sizes = list(map(schema.domain.cells, units))
    pair_cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    cells = pair_cells + schema.domain.cells(schema.partition)
    if cells > LIMITS.max_public_pair_cells:
        raise UsageError(
            f"all pairs and the partition have {cells:.4g} cells together; the most is {LIMITS.max_public_pair_cells}.",
            hint="coarsen the largest columns, declare smaller groups, or use --method auto",
        )
    areas, most = schema.domain.cells(schema.partition), max(LIMITS.max_demanded_rows, schema.max_rows or 0)
    for key, given in (
        ("partition_least", schema.partition_least),
        ("partition_step", schema.partition_step),
    ):
        if given is not None and areas > LIMITS.max_areas:
            raise UsageError(
                f"{key} is given, but the partition has {areas:.4g} areas; rows are counted out over at most "
                f"{LIMITS.max_areas}.",
                hint=f"leave {key} out, or name fewer or coarser columns in the partition",
            )
        if given is not None and given * areas > most:
            raise UsageError(
                f"{key} = {given} asks for up to {given * areas:.4g} rows in {areas} areas; the most is {most}.",
                hint="give a smaller number, or declare max_rows if there may be so many",
            )


def _other_groups(oracle: Oracle, merged: Sequence[Clique]) -> list[Clique]:
    """Return the other groups of columns that the schema declares, as far as rows can be fitted to them."""
    ordered = [tuple(name for name in oracle.domain if name in group) for group in oracle.schema.groups]
    return [
        group
        for group in ordered
        if group not in merged
        and len(group) == DPSYN_CONFIG.public_group_columns
        and oracle.domain.cells(group) <= MAX_GROUP_CELLS
    ]


def _describe_public_use(schema: Schema, _measured: Sequence[Clique], public: Sequence[Clique]) -> str | None:
    """Say which combinations the public table decided, where it gave no counts but those by area."""
    declared = {*map(frozenset, schema.groups)}
    groups = [" × ".join(clique) for clique in public if frozenset(clique) in declared]
    others = [clique for clique in public if frozenset(clique) not in declared]
    if not public or not all(len(clique) > 1 and set(clique) & set(schema.partition) for clique in others):
        return None
    found = [f"which combinations of {quote_in_text(groups)} occur"] if groups else []
    if not others:
        return f"Taken from it: {found[0]}; no count of it is here."
    areas = quote_in_text([name for name in schema.partition if any(name in clique for clique in others)])
    found.append(f"how other columns go with {areas}")
    return f"Taken from it: {'; '.join(found)}."


DPSYN = Method(
    name="dpsyn",
    title="Marginals by area beside a public table",
    reference="The DPSyn entry to the NIST temporal map challenge of 2020",
    measure=measure_dpsyn,
    fit=dpsyn_model,
    check=check_dpsyn,
    delta=DeltaUse.SET_ASIDE,
    can_use_delta=measures_total,
    public=PublicTableUse.REQUIRED,
    workload=WorkloadUse.NONE,
    scores_all_pairs=True,
    learns_domains=False,
    unplannable="starts from a public table, and what that saves depends on how like the private one it is",
    describe_public_use=_describe_public_use,
)
