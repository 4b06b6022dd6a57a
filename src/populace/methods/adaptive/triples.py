"""Triples, where pairs are known so well that what they leave open is the larger error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from populace.core.marginals import Candidates, Clique, Marginal
from populace.inference.factor import Table
from populace.inference.fit.fit_model import fit_model, rake_to_parts
from populace.inference.fit.projection import project_to_simplex
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.adaptive.adaptive_config import ADAPTIVE_CONFIG
from populace.methods.oracle import Oracle
from populace.methods.selection.budget_allocation import choose_best_prefix
from populace.methods.selection.candidates import take_smallest
from populace.methods.selection.measure_batch import measure_batch
from populace.methods.workload import Workload

# All candidate triples together, and how many of them: they are counted, estimated and kept at once.
MAX_TRIPLE_TABLES_CELLS, MAX_CANDIDATE_TRIPLES = 2**23, 3000


def measure_triples(
    oracle: Oracle, measured: Sequence[Measurement], *, workload: Workload, share: Fraction
) -> tuple[tuple[Measurement, ...], Fraction]:
    """Measure the wanted triples that are worth their noise, and return what is left of the share.

    They are compared with the model of everything measured so far, in its groups.
    """
    model = fit_model(measured, space=ModelSpace.of(oracle))
    wanted = _unmeasured_triples(model, workload)
    if not wanted:
        return (), share
    tables = [rake_to_parts(model.grouped_marginal(triple), triple, known=model.targets) for triple in wanted]
    noise = oracle.budget.score_noise(share * ADAPTIVE_CONFIG.triple_score_share, scores=len(wanted))
    scores = oracle.score(
        Candidates(
            tuple(Marginal.with_groupings(triple, model.groupings) for triple in wanted),
            tuple(np.rint(table).astype(np.int64) for table in tables),
            (0,) * len(wanted),
        ),
        noise=noise,
    )
    left = share * (1 - ADAPTIVE_CONFIG.triple_score_share)
    heaviest = max(workload.weights[triple] for triple in wanted)
    important = np.array([float(workload.weights[triple] / heaviest) for triple in wanted])
    budget = float(left) / float(oracle.budget.measure_noise(Fraction(1), marginals=1).variance)
    deviation = math.sqrt(len(wanted) / budget)
    rng = np.random.default_rng(0)
    costs = important * np.array([_expected_error(table, deviation=deviation, rng=rng) for table in tables])
    gains = important * (scores - ADAPTIVE_CONFIG.score_deviations * float(noise.variance) ** 0.5)
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
    noisy = table + rng.normal(0.0, deviation, table.shape)
    error = np.abs(project_to_simplex(noisy, total=float(table.sum())) - table).sum()
    return max(float(error), 1e-9) / deviation
