"""`field-groups`: columns that belong together are counted together, and nothing is learnt about which do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Counts, Domain, Marginal
from populace.core.progress import Progress
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table
from populace.inference.fit.estimator import Estimator, FitEffort
from populace.inference.gls.observations import Observation
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicTable
from populace.methods.histogram import observe_groups, product_model
from populace.methods.method import DeltaUse, Method, PublicTableUse, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.workload import Workload
from populace.schema.hints import quote_in_text
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldGroupsConfig:
    """The numbers by which `field-groups` is tuned."""

    max_group_bins: int = 1000
    """Columns are put together up to so many bins where nobody says what belongs together."""
    max_constrained_columns: int = 10
    """A table of so many columns has 2^10 effects, which a fit under rules goes through."""
    cut_factor: float = 0.5
    """Bins below so many times scale · log10(bins) are cut.

    Half as many let noise fill too many bins of large groups, and twice as many lose those of common but even ones.
    """


FIELD_GROUPS_CONFIG = FieldGroupsConfig()
_EFFORT = FitEffort(rounds=8, floor=1e-9, sweeps=50, steps=0, tolerance=1e-6, exact=True)


def measure_field_groups(oracle: Oracle, _workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Count every group of columns, with integer Laplace noise of scale groups/ε in each bin.

    The model cuts bins that noise alone could fill, and a row draws one bin of each group. It ignores the workload.
    Cost: the whole ε in equal parts, no δ.
    Source: an entry to the NIST differential privacy synthetic data challenge of 2018, with field groups from public
    knowledge.
    """
    progress("measuring groups of columns", 0.0)
    groups = choose_groups(oracle.domain, declared=oracle.schema.groups, public=oracle.public)
    return measure_evenly(oracle, [Marginal(group) for group in groups], share=Fraction(1))


def choose_groups(
    domain: Domain, *, declared: Sequence[Clique], public: PublicTable | None = None
) -> tuple[Clique, ...]:
    """Return the groups that the schema declares, with every other column alone.

    If it declares none, groups are found in a public table, or else made of neighbours.

    >>> choose_groups(Domain({"a": 10, "b": 50, "c": 3, "d": 2000}), declared=[])
    (('a', 'b'), ('c',), ('d',))
    >>> choose_groups(Domain({"a": 10, "b": 50, "c": 3}), declared=[("c", "a")])
    (('a', 'c'), ('b',))
    """
    if declared:
        grouped = {name for group in declared for name in group}
        groups = [tuple(name for name in domain if name in group) for group in declared]
        return (*groups, *((name,) for name in domain if name not in grouped))
    if public is not None:
        return group_by_information(public, domain=domain)
    found: list[Clique] = []
    for name in domain:
        if found and domain.cells((*found[-1], name)) <= FIELD_GROUPS_CONFIG.max_group_bins:
            found[-1] = (*found[-1], name)
        else:
            found.append((name,))
    return tuple(found)


def group_by_information(public: PublicTable, *, domain: Domain) -> tuple[Clique, ...]:
    """Return groups of columns that say most of each other in a public table, the closest two put together first.

    Groups grow up to as many bins as neighbours may have, and up to as many columns as can be fitted under rules. What
    two columns say of each other is their mutual information, less what as many rows would show by chance.

    >>> codes = {"a": np.tile([0, 1], 50), "b": np.repeat([0, 1], 50), "c": np.tile([0, 1], 50)}
    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> group_by_information(PublicTable(name="last year", digest="", domain=domain, codes=codes), domain=domain)
    (('a', 'c'), ('b',))
    """
    said = {
        pair: _mutual_information(public.table(Marginal(pair)))
        for pair in combinations(domain, 2)
        if domain.cells(pair) <= FIELD_GROUPS_CONFIG.max_group_bins
    }
    group: dict[str, Clique] = {name: (name,) for name in domain}
    for pair in sorted(said, key=lambda pair: -said[pair]):
        first, second = (group[name] for name in pair)
        both = tuple(name for name in domain if name in first or name in second)
        small = domain.cells(both) <= FIELD_GROUPS_CONFIG.max_group_bins
        if said[pair] > 0 and small and len(both) <= FIELD_GROUPS_CONFIG.max_constrained_columns:
            group |= dict.fromkeys(both, both)
    return tuple(dict.fromkeys(group.values()))


def _mutual_information(counts: Counts) -> float:
    """Return the mutual information of two columns in nats, less its expectation for independent ones."""
    rows = counts.sum()
    shares = counts / rows
    alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    seen = shares > 0
    chance = (
        (np.count_nonzero(counts.any(axis=1)) - 1) * (np.count_nonzero(counts.any(axis=0)) - 1) / (2 * rows)
    )
    return float((shares[seen] * np.log(shares[seen] / alone[seen])).sum() - chance)


def field_groups_model(items: Sequence[Measurement], *, space: ModelSpace) -> Model:
    """Return the model of histograms over groups of columns: a row draws one bin of each group.

    Bins below c·scale·log10(bins) are cut to 0 and the others rounded. A group of which nothing is left is even. The
    number of rows is that of the groups as measured, before the cut, each weighted by its noise. Where rules or public
    totals tie groups together, the model is fitted to the tables under them, and what was cut may return in traces.
    """
    observed = observe_groups(items, domain=space.domain)
    potentials = RulePotentials(space)
    weights = np.array([1 / float(each.variance.sum()) for each in observed])
    sums = np.array([float(each.values.sum()) for each in observed])
    total = float(weights @ sums / weights.sum()) if space.rows is None else space.rows
    tables: dict[Clique, Table] = {}
    for each in observed:
        allowed = potentials.allowed_cells(each.clique)
        table = np.where(allowed, cut_noise_bins(each), 0.0)
        tables[each.clique] = table if table.any() else allowed.astype(float)
    if not potentials.has_rules and not space.totals:
        return product_model(tables, space.domain, total=total)
    estimator = Estimator(space)
    rows = max(1.0, total)
    estimator.replace_observations(
        Observation(each.clique, tables[each.clique] * (rows / tables[each.clique].sum()), each.variance)
        for each in observed
    )
    estimator.refit(effort=_EFFORT)
    return estimator.model()


def cut_noise_bins(seen: Observation) -> Table:
    """Return the bins of a group, rounded, without those that noise alone could have filled.

    Noise of variance v is taken for Laplace noise: its scale is 1/(2·asinh(1/√2v)).

    >>> seen = Observation(("a",), np.array([11.0, 9.6, -30.0] + [0.0] * 97), np.full(100, 199.83))
    >>> cut_noise_bins(seen)[:3]  # scale 10, 100 bins: the cut_noise_bins is at 10
    array([11.,  0.,  0.])
    """
    scale = 0.5 / math.asinh(1 / math.sqrt(2 * float(seen.variance.max())))
    least = FIELD_GROUPS_CONFIG.cut_factor * scale * math.log10(max(seen.values.size, 1))
    return np.where(seen.values < least, 0.0, np.maximum(np.rint(seen.values), 0.0))


def check_field_groups(schema: Schema, _epsilon: Fraction, _delta: Fraction) -> None:
    """Refuse, from public facts alone, groups that would be too large."""
    domain = schema.domain
    groups = choose_groups(domain, declared=schema.groups)
    longest, most = max(map(len, groups)), FIELD_GROUPS_CONFIG.max_constrained_columns
    if (schema.rules.rules or schema.totals) and longest > most:
        raise UsageError(
            f"a group of {longest} columns cannot be fitted under rules; the most is {most}.",
            hint="declare smaller groups under [table] of the schema",
        )
    bins = sum(map(domain.cells, groups))
    if bins > LIMITS.max_histogram_bins:
        widest = max(groups, key=domain.cells)
        raise UsageError(
            f"the groups have {bins:.4g} bins together; the most is {LIMITS.max_histogram_bins}. "
            f"{' × '.join(widest)} has {domain.cells(widest):.4g} of them.",
            hint="put fewer columns into a group, or coarsen them",
        )


def _limitations(schema: Schema, public: bool) -> list[str]:
    """Say by what columns were put together, where the schema declares no groups."""
    if schema.groups:
        return []
    why = (
        "they say most of each other in the public table: nothing was learnt from the private one"
        if public
        else "they are neighbours in the schema: nothing was learnt about which belong together"
    )
    return [
        f"Columns were put together because {why}, and columns of different groups are independent of each "
        "other here."
    ]


def _notes(schema: Schema, public: bool) -> list[str]:
    """Say, before anything is spent, that nobody said which columns belong together."""
    if schema.groups or public:
        return []
    return [
        "nothing is known about which columns belong together, so neighbours in the schema are (hint: "
        'declare groups = [["SEX", "AGE"], …] under [table] of the schema, or give a --public table)'
    ]


def _describe_public_use(schema: Schema, measured: Sequence[Clique], _public: Sequence[Clique]) -> str | None:
    """Say which columns the public table put together."""
    if schema.groups:
        return None
    groups = [" × ".join(clique) for clique in measured if len(clique) > 1]
    return (
        "Taken from it: which columns were counted together"
        + (f" ({quote_in_text(groups)})" if groups else " (none)")
        + "; no count of it is here."
    )


FIELD_GROUPS = Method(
    name="field-groups",
    title="Histograms of groups of columns",
    reference="An entry to the NIST synthetic data challenge of 2018",
    measure=measure_field_groups,
    fit=lambda given: field_groups_model(given.items, space=given.space),
    check=check_field_groups,
    delta=DeltaUse.NONE,
    public=PublicTableUse.OPTIONAL,
    workload=WorkloadUse.NONE,
    learns_domains=False,
    own_model=True,
    limitations=_limitations,
    notes=_notes,
    describe_public_use=_describe_public_use,
)
