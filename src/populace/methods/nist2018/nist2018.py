"""`nist2018`: weighted columns, codes lost in their noise merged, then a list of weighted marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Domain, Grouping, Lookup, Marginal
from populace.core.progress import Progress
from populace.inference.gls.coarse_tables import common_refinement
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Batch, Measurement
from populace.measurements.pooled_counts import estimate_rows
from populace.methods.method import Method, WorkloadUse
from populace.methods.mst import MST_CONFIG, measure_tree
from populace.methods.nist2018.query_rounds import ColumnQuery, QueryRounds, RareCodes
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import take_within
from populace.methods.selection.merge_rare_codes import (
    merge_infrequent,
    merge_into_rest,
    merge_neighbours,
)
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.privacy_loss import Currency

# All listed marginals are counted and kept at once.
MAX_QUERY_CELLS = 2**25
# What gets less of its round than this is drowned in noise.
MIN_ROUND_SHARE = Fraction(1, 10**6)


def measure_nist2018(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, merge codes that are lost in their noise, and measure marginals of the compressed columns.

    The weights of a round say how its share is parted: twice the weight, half the deviation of the noise. The marginals
    are those of the workload where the curator lists some; a workload by name leaves the second round to a tree of
    pairs that is chosen privately, as `mst` does.
    Source: the winner of the NIST differential privacy synthetic data challenge of 2018 (McKenna, Miklau and Sheldon
    2021). Marginals for which there is no memory, as large as the columns turn out to be, are left out, the largest
    first; where none is left, columns are measured again. The exact Gaussian accounting, and rare codes that keep apart
    what bins and rules do, are ours.
    """
    rounds = workload.rounds or QueryRounds()
    listed = {} if workload.name else workload.weights
    progress("measuring columns", 0.0)
    names = list(oracle.domain)
    first = Fraction(1) if len(names) == 1 else rounds.share if listed else MST_CONFIG.column_share
    weights = [rounds.column(name).weight for name in names]
    columns = measure_weighted(oracle, [Marginal((name,)) for name in names], weights, share=first)
    if first == 1:
        return columns
    groupings = group_rare_columns(oracle, columns, rounds=rounds)
    if not listed:
        total = max(1.0, estimate_rows(columns)[0])
        space = ModelSpace.of(oracle.schema).group(groupings.values())
        return columns + measure_tree(oracle, columns, space=space, total=total, progress=progress)
    progress("measuring marginals", 0.5)
    marginals = {}
    for clique in listed:
        # On compressed columns, coarsened where it says so; a single column keeps its codes.
        seen = {} if len(clique) == 1 else dict(groupings)
        seen |= {own.column: own for own in rounds.coarse.get(frozenset(clique), ())}
        marginals[clique] = Marginal.with_groupings(clique, seen)
    kept = _take_smallest_queries(marginals, domain=oracle.domain) or {
        (name,): Marginal((name,)) for name in names
    }
    again = [listed.get(clique, Fraction(1)) for clique in kept]
    return columns + measure_weighted(oracle, list(kept.values()), again, share=1 - first)


def measure_weighted(
    oracle: Oracle, marginals: Sequence[Marginal], weights: Sequence[Fraction], *, share: Fraction
) -> tuple[Measurement, ...]:
    """Measure marginals with a share of the budget, the deviation of each inverse to its weight, in their order.

    With Gaussian noise a marginal takes w² / Σ w² of the share: weighted, all of them together have sensitivity 1.
    With Laplace noise it takes w / Σ w.
    """
    parts = dict(zip(marginals, split_share(oracle.budget, weights, share=share), strict=True))
    batches: list[Batch] = []
    for part in dict.fromkeys(parts.values()):
        alike = [marginal for marginal in marginals if parts[marginal] == part]
        batches.append((alike, oracle.budget.measure_noise(part * len(alike), marginals=len(alike))))
    found = {item.marginal: item for item in oracle.measure_batches(batches)}
    return tuple(found[marginal] for marginal in marginals)


def split_share(budget: Budget, weights: Sequence[Fraction], *, share: Fraction) -> list[Fraction]:
    """Return the part of a share that each of some weighted marginals takes; the parts sum to the share.

    >>> from populace.schema.unit import PrivacyUnit
    >>> budget = Budget.of(Fraction(1), Fraction("1e-9"), unit=PrivacyUnit())
    >>> split_share(budget, [Fraction(1), Fraction(2)], share=Fraction(1, 2))
    [Fraction(1, 10), Fraction(2, 5)]
    """
    power = 1 if budget.currency is Currency.PURE else 2
    scaled = [weight**power for weight in weights]
    return [share * weight / sum(scaled) for weight in scaled]


def group_rare_columns(
    oracle: Oracle, columns: Sequence[Measurement], *, rounds: QueryRounds
) -> dict[str, Grouping]:
    """Return how the second round sees each column: frequent codes, and groups of those lost in the noise.

    Codes that a rule tells apart, or bins that some marginal coarsens to, share no group. A column that public totals
    count stays as it is, and so does one that is not to be compressed; where a marginal coarsens it, its codes are
    groups of their own, so that others see all of them.
    """
    counted = {name for totals in oracle.schema.totals for name in totals.clique}
    found = {}
    for item in columns:
        name, size = item.marginal.clique[0], item.counts.size
        asked, coarse = rounds.column(name), rounds.coarse_groupings(name)
        known = [oracle.schema.rules.classes[name]] if name in oracle.schema.rules.classes else []
        apart = (
            common_refinement([*known, *coarse]).lookup if known or coarse else np.zeros(size, dtype=np.int64)
        )
        groups = list(range(size)) if name in counted else merge_column_codes(item, asked, apart=apart)
        if coarse or max(groups) + 1 < size:
            found[name] = Grouping(name, tuple(groups))
    return found


def merge_column_codes(column: Measurement, asked: ColumnQuery, *, apart: Lookup) -> list[int]:
    """Return the group of each code of a noisy column; codes of different classes of `apart` share none."""
    threshold = float(asked.threshold)
    if asked.merge is RareCodes.NONE:
        return list(range(column.counts.size))
    if asked.classes is not None:
        return merge_infrequent(find_supported_codes(column, asked.classes, threshold=threshold), apart)
    if asked.merge is RareCodes.NEIGHBOURS:
        return merge_neighbours(column, apart, threshold=threshold)
    return merge_into_rest(column, apart, threshold=threshold)


def find_supported_codes(
    column: Measurement, classes: Grouping, *, threshold: float
) -> npt.NDArray[np.bool_]:
    """Say which codes are kept where a public map puts them into classes: those of classes that stand out as a whole.

    The sum of m counts has m times their variance.

    >>> city = Measurement(Marginal(("city",)), np.array([90, 1, 2, 0]), Fraction(4))
    >>> find_supported_codes(city, Grouping("city", (0, 0, 1, 1)), threshold=3.0).tolist()
    [True, True, False, False]
    """
    sums = np.bincount(classes.lookup, weights=column.counts)
    deviations = math.sqrt(column.variance) * np.sqrt(np.bincount(classes.lookup))
    return np.asarray((sums >= threshold * deviations)[classes.lookup])


def check_queries(workload: Workload, domain: Domain) -> None:
    """Refuse, from public facts alone, marginals of too many columns and weights that drown others."""
    listed: Mapping[Clique, Fraction] = {} if workload.name else workload.weights
    most = LIMITS.max_query_columns
    wide = [clique for clique in listed if len(clique) > most]
    if wide:
        raise UsageError(
            f"the workload asks for {' × '.join(wide[0])}; at most {most} columns go together.",
            hint="name marginals of fewer columns",
        )
    rounds = workload.rounds or QueryRounds()
    if not listed and rounds.share != MST_CONFIG.column_share:
        raise UsageError(
            "the workload shares out the budget between columns and marginals, and lists no marginals.",
            hint="list [[marginals]], or leave out share: a tree of pairs is chosen with half of the budget",
        )
    columns: Mapping[Clique, Fraction] = {(name,): rounds.column(name).weight for name in domain}
    for weights in (columns, listed):
        least = min(weights, key=weights.__getitem__, default=None)
        total = sum(weight**2 for weight in weights.values())
        if least is not None and weights[least] ** 2 < MIN_ROUND_SHARE * total:
            raise UsageError(
                f"the weight of {' × '.join(least)} leaves it less than {float(MIN_ROUND_SHARE):g} of its round.",
                hint="give it more weight, or the others less",
            )


def smallest_share(workload: Workload, domain: Domain, budget: Budget) -> Fraction:
    """Return the least share of the budget that any marginal of both rounds gets, however many columns it groups."""
    rounds = workload.rounds or QueryRounds()
    listed: Mapping[Clique, Fraction] = {} if workload.name else workload.weights
    share = rounds.share if listed else MST_CONFIG.column_share
    shares = split_share(budget, [rounds.column(name).weight for name in domain], share=share)
    return min([*shares, *split_share(budget, list(listed.values()), share=1 - share)])


def _take_smallest_queries(marginals: Mapping[Clique, Marginal], *, domain: Domain) -> dict[Clique, Marginal]:
    """Return the marginals, in their order, that can be counted and kept at once: the smallest ones."""

    def size(clique: Clique) -> int:
        return math.prod(marginals[clique].shape(domain))

    fitting = set(take_within(sorted(marginals, key=size), size=size, cells=MAX_QUERY_CELLS))
    return {clique: marginal for clique, marginal in marginals.items() if clique in fitting}


NIST2018 = Method(
    name="nist2018",
    title="Winner of the NIST synthetic data challenge of 2018",
    reference="McKenna, Miklau and Sheldon 2021",
    measure=measure_nist2018,
    workload=WorkloadUse.LISTED,
    check_rounds=check_queries,
    smallest_share=smallest_share,
)
