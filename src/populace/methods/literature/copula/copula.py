"""`copula`: all columns, and a coarse table of every pair from which correlations of a normal distribution follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from populace.core.marginals import Domain, Grouping, Marginal
from populace.core.progress import Progress
from populace.inference.factor import Table
from populace.inference.fit.projection import project_to_simplex
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.literature.copula.copula_model import copula_model
from populace.methods.method import Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.measure_batch import measure_all_columns
from populace.methods.selection.merge_rare_codes import merge_infrequent
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.privacy_loss import Currency


@dataclass(frozen=True, slots=True, kw_only=True)
class CopulaConfig:
    """The numbers by which `copula` is tuned."""

    pair_cells: int = 4
    """A pair says one number, as a table of two by two cells does, whatever its columns."""
    max_pair_groups: int = 16
    """A column of a pair is seen in so many groups at most."""
    correlation_noise: float = 0.05
    """Columns have as many groups as let noise move a correlation by about this."""
    max_correlation_noise: float = 0.3
    """With more noise than this in correlations, pairs say nothing and columns are measured again."""


COPULA_CONFIG = CopulaConfig()


def measure_copula(oracle: Oracle, _workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then every pair of columns in a few groups each.

    How the budget is split follows from public facts: the number of columns, their sizes and the currency. How many
    groups a column has follows from the noisy number of rows, and which codes they hold from its noisy counts.
    Where noise would hide every correlation, columns are measured again instead. It ignores the workload.
    Cost: the whole budget, in two questions about columns and one about pairs.
    Source: Li, Xiong and Jiang 2014; Asghar, Ding, Rakotoarivelo, Mrabet and Kaafar 2020. Correlations from coarse
    tables and orders that are learnt from them are ours.
    """
    progress("measuring columns", 0.0)
    sizes = [size for size in oracle.domain.values() if size > 1]
    if len(sizes) < 2:
        return measure_columns(oracle, share=Fraction(1))
    share = pair_share(oracle.domain, budget=oracle.budget)
    measured = measure_columns(oracle, share=1 - share)
    pairs = math.comb(len(sizes), 2)
    noise = oracle.budget.measure_noise(share, marginals=pairs)
    rows = float(measured[0].counts)
    groups = count_groups(rows, deviation=float(noise.variance) ** 0.5)
    progress("measuring pairs", 0.5)
    if not groups:
        return measured + measure_all_columns(oracle, share=share)
    seen = group_for_pairs(measured[1:], ordered=oracle.ordered, most=groups)
    names = [name for name in oracle.domain if oracle.domain[name] > 1]
    asked = [Marginal.with_groupings(pair, seen) for pair in combinations(names, 2)]
    return measured + oracle.measure(asked, noise=noise)


def pair_share(domain: Domain, *, budget: Budget) -> Fraction:
    """Return the share of the budget for pairs.

    The errors of m tables of k cells are about k·√(m / share), and k·m / share where noise is pure. Their sum over
    columns, two of which meet in a pair, and pairs is least when shares are as the ⅔ powers of k·√m, or the roots of
    k·m.

    >>> from populace.schema.unit import PrivacyUnit
    >>> budget = Budget.of(Fraction(1), Fraction(1, 10**9), unit=PrivacyUnit())
    >>> pair_share(Domain(dict.fromkeys("abcdefghij", 2)), budget=budget)
    Fraction(31, 50)
    """
    sizes = [size for size in domain.values() if size > 1]
    cells = 2 * sum(sizes) / len(sizes)
    pairs = math.comb(len(sizes), 2)
    if budget.currency is Currency.PURE:
        columns, beyond = (cells * len(domain)) ** 0.5, (COPULA_CONFIG.pair_cells * pairs) ** 0.5
    else:
        columns = (cells * len(domain) ** 0.5) ** (2 / 3)
        beyond = (COPULA_CONFIG.pair_cells * pairs**0.5) ** (2 / 3)
    return Fraction(round(100 * min(0.9, max(0.1, beyond / (columns + beyond)))), 100)


def count_groups(rows: float, *, deviation: float) -> int:
    """Return in how many groups columns are seen; none if noise would hide every correlation.

    Tables of g × g cells with noise of deviation σ give a correlation of N rows an error of about g·σ/N, and of π·σ/N
    where there are two groups.

    >>> [count_groups(rows, deviation=50.0) for rows in (10_000.0, 2000.0, 200.0)]
    [10, 2, 0]
    """
    if rows <= 0 or math.pi * deviation / rows > COPULA_CONFIG.max_correlation_noise:
        return 0
    return int(min(COPULA_CONFIG.max_pair_groups, max(2, COPULA_CONFIG.correlation_noise * rows / deviation)))


def group_for_pairs(
    columns: Sequence[Measurement], *, ordered: frozenset[str], most: int
) -> dict[str, Grouping]:
    """Return groups for the columns with more than so many codes.

    Columns in their natural order are cut into neighbours of about equal noisy counts. In others the most frequent
    codes stand alone, and the rest share a group.
    """
    found = {}
    for item in columns:
        name = item.marginal.clique[0]
        if item.counts.size > most:
            shares = project_to_simplex(
                item.counts.astype(np.float64), total=1.0 + max(0.0, float(item.counts.sum()))
            )
            groups = (
                _quantile_groups(shares / shares.sum(), most=most)
                if name in ordered
                else _frequent_groups(shares, most=most)
            )
            found[name] = Grouping(name, tuple(groups))
    return found


def _quantile_groups(shares: Table, *, most: int) -> list[int]:
    """Return groups of neighbours, by where the middle of each code's share falls; at least two.

    >>> _quantile_groups(np.array([0.1, 0.3, 0.1, 0.3, 0.2]), most=2), _quantile_groups(np.array([0.0, 1.0,
    ... 0.0]), most=2)
    ([0, 0, 0, 1, 1], [0, 1, 1])
    """
    middles = np.cumsum(shares) - shares / 2
    _, groups = np.unique(np.clip(middles * most, 0, most - 1).astype(np.int64), return_inverse=True)
    found: list[int] = groups.reshape(-1).tolist()
    if found[-1] == 0:
        # One code holds nearly all rows: it is told from those on the side where there are more.
        heavy = int(shares.argmax())
        first = heavy if shares[:heavy].sum() > shares[heavy + 1 :].sum() else heavy + 1
        first = min(max(first, 1), len(shares) - 1)
        found = [int(code >= first) for code in range(len(shares))]
    return found


def _frequent_groups(shares: Table, *, most: int) -> list[int]:
    """Return groups in which the most frequent codes stand alone, in their order, and the others share the last.

    >>> _frequent_groups(np.array([3.0, 9.0, 1.0, 5.0]), most=3)
    [2, 0, 2, 1]
    """
    frequent = np.zeros(len(shares), dtype=np.bool_)
    frequent[np.argsort(-shares, kind="stable")[: most - 1]] = True
    return merge_infrequent(frequent, np.zeros(len(shares), dtype=np.int64))


COPULA = Method(
    name="copula",
    title="Gaussian copula",
    reference="Li, Xiong and Jiang 2014",
    measure=measure_copula,
    fit=lambda given: copula_model(given.items, space=given.space, progress=given.progress),
    workload=WorkloadUse.NONE,
    scores_all_pairs=True,
    own_model=True,
    imports=("scipy.special",),
)
