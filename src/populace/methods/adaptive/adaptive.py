"""`adaptive`: single columns, one noisy score of every pair, then a batch of those that are worth their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.marginals import Candidates, Clique, Domain, Marginal
from populace.core.progress import Progress
from populace.inference.factor import Table
from populace.inference.fit.fit_model import fit_model, rake_to_parts
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.adaptive.earlier_tables import EarlierTables
from populace.methods.adaptive.pair_screen import PairScreen, simulate_noise_error
from populace.methods.independent import measure_columns
from populace.methods.method import Method, PublicTableUse
from populace.methods.oracle import Oracle
from populace.methods.selection.budget_allocation import (
    ColumnCosts,
    allocate,
    choose_best_prefix,
    choose_pairs,
    map_precisions,
)
from populace.methods.selection.candidates import take_smallest
from populace.methods.selection.measure_batch import measure_batch, round_down_share
from populace.methods.workload import Workload

# All candidate triples together, and how many of them: they are counted, estimated and kept at once.
MAX_TRIPLE_TABLES_CELLS, MAX_CANDIDATE_TRIPLES = 2**23, 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveConfig:
    """Shares of the budget, and when a table is worth measuring.

    docs/decisions/adaptive.md says what they were compared with.
    """

    first_share: Fraction = Fraction(10, 100)
    """Of the budget, for all columns at first: they decide which pairs can be worth their noise."""
    score_share: Fraction = Fraction(2, 100)
    """Of the budget, for one noisy score of every pair."""
    unit_score_share: Fraction = Fraction(1, 200)
    """Of the budget, for scoring the pairs of units once more by themselves: beside those of members they are few."""
    score_deviations: float = 1.0
    """A score this many standard deviations of its noise above 0 is no better than one of 0."""
    clear_score: float = 0.03
    """Scores are clear when the standard deviation of their noise is this part of all rows."""
    max_score_rounds: int = 2
    """How often pairs are scored while noise hides what matters."""
    max_public_share: Fraction = Fraction(10, 100)
    """Whether to trust a public table is worth more of a budget where one score would not decide."""
    max_saving_size: int = 100
    """Two columns of two codes and any third, or columns of 2, 3 and fewer than 6: no other triples save anything."""
    max_saving_triples: int = 5000
    """Triples that are measured in place of three pairs."""
    precise_pairs: float = 0.01
    """When pairs err by less than this on average, in total variation, triples are scored."""
    triple_share: Fraction = Fraction(30, 100)
    """Of what pairs would get, for triples."""
    triple_score_share: Fraction = Fraction(10, 100)
    """Of what triples get, for scoring them."""


CONFIG = AdaptiveConfig()


def measure_adaptive(
    oracle: Oracle, workload: Workload, progress: Progress
) -> tuple[Measurement | PublicMarginals, ...]:
    """Measure columns, score the distance of every pair from independence, and measure a batch of columns and pairs.

    What the batch holds, and with how much noise, follows from public facts and paid answers: the noisy columns say
    what an error of each table would cost, the noisy distances what each pair would gain. With little budget for the
    rows there are, all of it goes to the columns; with much, nearly all pairs are measured. Columns are measured a
    second time before the pairs, so that the rare codes, which share a group in pairs, are those of the better counts.
    With a public table, columns are shrunk towards it, and scores take in the distance of every pair from the public
    one too: where that is nearer than independence it is what a pair is taken to be unless it is measured.
    """
    measured, trusted = _measure_columns_and_pairs(oracle, workload, progress)
    if oracle.public is None:
        return measured
    columns = [(name,) for name in oracle.domain]
    return (*measured, PublicMarginals.of(oracle.public, [*columns, *sorted(trusted)]))


def _measure_columns_and_pairs(
    oracle: Oracle, workload: Workload, progress: Progress
) -> tuple[tuple[Measurement, ...], frozenset[Clique]]:
    """Return what was measured, and the pairs that are trusted to be as in the public table."""
    nothing: frozenset[Clique] = frozenset()
    progress("measuring columns", 0.0)
    if len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1)), nothing
    weights = pair_weights(workload)
    names = list(oracle.domain)
    each = np.array([oracle.domain[name] for name in names], dtype=np.float64) ** (2 / 3)
    # No column is left out at first, however small beside others.
    each = np.maximum(each, each.max() / 100)
    columns_alone = [Marginal((name,)) for name in names]
    earlier = EarlierTables(oracle.earlier, schema=oracle.schema)
    first_share = Fraction(0) if earlier.know_columns else CONFIG.first_share
    first = () if earlier.know_columns else measure_batch(oracle, columns_alone, each, share=first_share)
    screen = PairScreen(oracle, earlier.columns + first, earlier=earlier)
    pairs = screen.pairs(weights)
    precision = 1 / float(oracle.budget.measure_noise(Fraction(1), marginals=1).variance)
    paid = float(1 - first_share) * precision + earlier.total_precision
    deviation = math.sqrt(2 * len(names) / paid)
    # What a public table says of a pair is worth a score also where measuring it never would be.
    if oracle.public is None:
        errors = screen.costs(pairs, deviation=deviation) * deviation
        worth = (screen.is_known(p) or screen.max_distance(p) > e for p, e in zip(pairs, errors, strict=True))
        pairs = [pair for pair, kept in zip(pairs, worth, strict=True) if kept]
    if not pairs:
        return first + measure_batch(oracle, columns_alone, each, share=1 - first_share), nothing
    progress("scoring pairs", 0.2)
    scores, doubts, taken = _judge_pairs(oracle, screen, pairs)
    trusted = screen.trusted
    left = 1 - first_share - taken
    budget = float(left) * precision
    coarse = screen.coarse_domains(pairs)
    singles = map_precisions(pairs, [(name,) for name in names], domain=screen.domain, coarse=coarse)
    columns = screen.columns(weights, deviation=deviation / math.sqrt(2))
    important = np.array([float(weights[pair]) for pair in pairs])
    gains = important * (scores - CONFIG.score_deviations * doubts)
    costs = important * screen.costs(pairs, deviation=deviation)
    known = screen.known_precisions(pairs)
    chosen = choose_pairs(gains, costs, singles=singles, columns=columns, budget=budget, known=known)
    taken_pairs = [pairs[number] for number in chosen.tolist()]
    own = _plan_batch(taken_pairs, costs[chosen], screen=screen, columns=columns, budget=budget).own
    share = round_down_share(float(own.sum()) / budget) * left if chosen.size else left
    progress("measuring columns", 0.5)
    measured = first + measure_batch(oracle, columns_alone, own, share=share)
    if share == left:
        return measured, trusted
    progress("measuring pairs", 0.8)
    screen = PairScreen(oracle, earlier.columns + measured, trusted=trusted, earlier=earlier)
    asked = list(filter(screen.is_informative, taken_pairs))
    rest = left - share
    if not asked:
        return measured + measure_batch(oracle, columns_alone, each, share=rest), trusted
    budget = float(rest) * precision
    deviation = math.sqrt(len(asked) / (budget + earlier.total_precision))
    columns = screen.columns(weights, deviation=deviation)
    costs = np.array([float(weights[pair]) for pair in asked]) * screen.costs(asked, deviation=deviation)
    plan = _plan_batch(asked, costs, screen=screen, columns=columns, budget=budget)
    marginals = [screen.marginal(table) for table in plan.tables]
    clean = plan.error < CONFIG.precise_pairs * 2 * screen.total * len(asked)
    further = any(len(clique) == 3 and clique not in plan.tables for clique in workload.weights)
    kept = CONFIG.triple_share * rest if clean and further else Fraction(0)
    measured += measure_batch(oracle, marginals, plan.precisions, share=rest - kept)
    if kept:
        progress("measuring triples", 0.9)
        triples, kept = measure_triples(oracle, measured, workload=workload, share=kept)
        measured += triples
        if kept:
            measured += measure_batch(oracle, marginals, plan.precisions, share=kept)
    return measured, trusted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _BatchPlan:
    """Tables and their precisions, those of columns by themselves, and the L1 error of all pairs to expect."""

    tables: tuple[Clique, ...]
    precisions: Floats
    own: Floats
    error: float


def _judge_pairs(
    oracle: Oracle, screen: PairScreen, pairs: Sequence[Clique]
) -> tuple[Floats, Floats, Fraction]:
    """Return what measuring each pair gains, its deviation, and the share of the budget that finding out took.

    Of pairs that earlier releases measured, their tables say how far they are from independence, and nothing is asked.
    All others are scored against the model of the earlier tables, or independence.
    """
    new = np.array([not screen.is_known(pair) for pair in pairs])
    if new.all():
        return score_pairs(oracle, screen, pairs)
    gains, doubts, taken = np.zeros(len(pairs)), np.zeros(len(pairs)), Fraction(0)
    gains[~new] = screen.earlier_distances([pairs[number] for number in np.flatnonzero(~new).tolist()])
    if new.any():
        unseen = [pairs[number] for number in np.flatnonzero(new).tolist()]
        gains[new], doubts[new], taken = score_pairs(oracle, screen, unseen)
    return gains, doubts, taken


def score_pairs(
    oracle: Oracle, screen: PairScreen, pairs: Sequence[Clique]
) -> tuple[Floats, Floats, Fraction]:
    """Return a noisy distance from independence for each pair, its deviation, and the share of the budget it took.

    The noise of a score grows with the number of pairs. While it hides distances that matter, the most promising
    quarter is scored once more, with half the noise; both scores count, each with its precision.
    With a public table, twice as many distances are scored at first, and the screen then knows which pairs to trust.
    The pairs of the units of linked tables are scored by themselves too.
    """
    among = np.arange(len(pairs))
    sums, precisions = np.zeros(len(pairs)), np.zeros(len(pairs))
    rounds, taken = 0, Fraction(0)
    units = screen.find_unit_pairs(pairs)
    if units.size:
        taken = CONFIG.unit_score_share
        noise = oracle.budget.score_noise(taken, scores=units.size)
        scores = oracle.score(screen.candidates([pairs[number] for number in units.tolist()]), noise=noise)
        sums[units] += scores / float(noise.variance)
        precisions[units] += 1 / float(noise.variance)
    while True:
        if screen.public is not None and not rounds:
            # First scores say whether the public table is to be trusted at all: they take as much as that needs.
            noise = oracle.budget.score_noise(CONFIG.score_share, scores=2 * len(pairs))
            deviation = math.sqrt(2 * float(noise.variance) / len(pairs))
            needed = float(CONFIG.score_share) * (deviation / (CONFIG.clear_score * screen.total)) ** 2
            share = max(CONFIG.score_share, round_down_share(min(1.0, needed)))
            share = min(CONFIG.max_public_share, share)
            noise = oracle.budget.score_noise(share, scores=2 * len(pairs))
            twice = oracle.score(screen.public_candidates(pairs), noise=noise).reshape(2, -1)
            nearer = trust_public_pairs(twice[0] - twice[1], variance=2 * float(noise.variance))
            screen.trusted = frozenset(pair for pair, trust in zip(pairs, nearer, strict=True) if trust)
            sums += np.where(nearer, twice[1], twice[0]) * (1 / float(noise.variance))
        else:
            share = CONFIG.score_share
            noise = oracle.budget.score_noise(share, scores=len(among))
            scores = oracle.score(
                screen.candidates([pairs[number] for number in among.tolist()]), noise=noise
            )
            sums[among] += scores / float(noise.variance)
        precisions[among] += 1 / float(noise.variance)
        rounds, taken = rounds + 1, taken + share
        means, doubts = screen.pool(pairs, sums / precisions, precisions**-0.5)
        clear = float(noise.variance) ** 0.5 <= CONFIG.clear_score * screen.total
        if clear or rounds == CONFIG.max_score_rounds or len(among) <= len(screen.domain):
            return means, doubts, taken
        among = np.sort(among[np.argsort(-means[among], kind="stable")[: math.ceil(len(among) / 4)]])


def _plan_batch(
    asked: Sequence[Clique], costs: Floats, *, screen: PairScreen, columns: ColumnCosts, budget: float
) -> _BatchPlan:
    """Return the precisions of the tables that tell best of some pairs, and of columns by themselves."""
    tables = (*asked, *find_saving_triples(asked, domain=screen.domain))
    coarse = screen.coarse_domains(tables)
    pairs = map_precisions(tables, asked, domain=screen.domain, coarse=coarse)
    found, own = allocate(
        costs,
        tables=len(tables),
        pairs=pairs,
        singles=map_precisions(
            tables, [(name,) for name in screen.domain], domain=screen.domain, coarse=coarse
        ),
        columns=columns,
        budget=budget,
        known=(known := screen.known_precisions(tables)),
    )
    error = float((costs / np.sqrt(pairs.known_precisions(found + known, count=len(asked)))).sum())
    return _BatchPlan(tables=tables, precisions=found, own=own, error=error)


def measure_triples(
    oracle: Oracle, measured: Sequence[Measurement], *, workload: Workload, share: Fraction
) -> tuple[tuple[Measurement, ...], Fraction]:
    """Measure the wanted triples that are worth their noise, and return what is left of the share.

    They are compared with the model of everything measured so far, in its groups.
    """
    model = fit_model([*oracle.earlier, *measured], space=ModelSpace.of(oracle.schema))
    wanted = _unmeasured_triples(model, workload)
    if not wanted:
        return (), share
    tables = [rake_to_parts(model.grouped_marginal(triple), triple, known=model.targets) for triple in wanted]
    noise = oracle.budget.score_noise(share * CONFIG.triple_score_share, scores=len(wanted))
    scores = oracle.score(
        Candidates(
            tuple(Marginal.with_groupings(triple, model.groupings) for triple in wanted),
            tuple(np.rint(table).astype(np.int64) for table in tables),
            (0,) * len(wanted),
        ),
        noise=noise,
    )
    left = share * (1 - CONFIG.triple_score_share)
    heaviest = max(workload.weights[triple] for triple in wanted)
    important = np.array([float(workload.weights[triple] / heaviest) for triple in wanted])
    budget = float(left) / float(oracle.budget.measure_noise(Fraction(1), marginals=1).variance)
    deviation = math.sqrt(len(wanted) / budget)
    rng = np.random.default_rng(0)
    costs = important * np.array([_expected_error(table, deviation=deviation, rng=rng) for table in tables])
    gains = important * (scores - CONFIG.score_deviations * float(noise.variance) ** 0.5)
    chosen = choose_best_prefix(gains, costs, budget=budget)
    if not chosen.size:
        return (), left
    asked = [Marginal.with_groupings(wanted[number], model.groupings) for number in chosen.tolist()]
    return measure_batch(oracle, asked, costs[chosen] ** (2 / 3), share=left), Fraction(0)


def _unmeasured_triples(model: Model, workload: Workload) -> list[Clique]:
    """Return the wanted triples that are not measured yet, smallest first as far as memory and noise allow."""
    domain = model.grouped_domain
    found: list[Clique] = [
        clique
        for clique in workload.weights
        if len(clique) == 3 and clique not in model.targets and min(domain.shape(clique)) > 1
    ]
    return take_smallest(found, domain=domain, cells=MAX_TRIPLE_TABLES_CELLS)[:MAX_CANDIDATE_TRIPLES]


def _expected_error(table: Table, *, deviation: float, rng: np.random.Generator) -> float:
    """Return the L1 error per deviation of a table that is measured and made non-negative; a simulation."""
    return max(float(simulate_noise_error(table, deviation=deviation, rng=rng).sum()), 1e-9) / deviation


def find_saving_triples(pairs: Sequence[Clique], *, domain: Domain) -> list[Clique]:
    """Return the triples that tell of three pairs for less than these cost apart: those of small columns.

    A triple tells of a pair with 1 / (size of the third column) of its precision, so it saves where these parts sum to
    more than 1.

    >>> find_saving_triples([("a", "b"), ("a", "c"), ("b", "c")], domain=Domain({"a": 2, "b": 2, "c": 9}))
    [('a', 'b', 'c')]
    """
    known = set(pairs)
    small = [name for name in domain if domain[name] <= CONFIG.max_saving_size]
    most = max((1 / domain[name] for name in small), default=0.0)
    found: list[Clique] = []
    for (_, first), (place, second) in combinations(enumerate(small), 2):
        # No third column could make it save: of a wide table nearly all pairs end here.
        if 1 / domain[first] + 1 / domain[second] + most > 1 and (first, second) in known:
            triples = ((first, second, third) for third in small[place + 1 :])
            found += [
                triple
                for triple in triples
                if sum(1 / domain[name] for name in triple) > 1 and known.issuperset(combinations(triple, 2))
            ]
    return sorted(found, key=domain.cells)[: CONFIG.max_saving_triples]


def pair_weights(workload: Workload) -> dict[Clique, Fraction]:
    """Return the pairs inside a workload's marginals: each matters as much as the heaviest that holds it."""
    found: dict[Clique, Fraction] = {}
    for clique, weight in workload.weights.items():
        for pair in combinations(clique, 2):
            found[pair] = max(weight, found.get(pair, weight))
    heaviest = max(found.values(), default=Fraction(1))
    return {pair: weight / heaviest for pair, weight in found.items()}


def trust_public_pairs(nearer: Floats, *, variance: float) -> npt.NDArray[np.bool_]:
    """Say which pairs are nearer to the public table than to independence, from noisy differences of the distances.

    A difference that noise could explain is shrunk towards the mean of all, less a deviation of it: most public tables
    are right, or wrong, as a whole.

    >>> trust_public_pairs(np.array([90.0, 110.0, 100.0, -20.0]), variance=2500.0)
    array([ True,  True,  True,  True])
    >>> trust_public_pairs(np.array([90.0, 110.0, 100.0, -20.0]), variance=1.0)
    array([ True,  True,  True, False])
    """
    mean = float(nearer.mean())
    spread = max(0.0, float(nearer.var()) - variance)
    doubt = CONFIG.score_deviations * math.sqrt(variance / nearer.size)
    return np.asarray(mean - doubt + spread / (spread + variance) * (nearer - mean) > 0)


ADAPTIVE = Method(
    name="adaptive",
    title="Adaptive selection of pairs worth their noise",
    reference="populace; docs/methods/adaptive.md",
    measure=measure_adaptive,
    public=PublicTableUse.OPTIONAL,
    scores_all_pairs=True,
    adapts_pair_count=True,
)
