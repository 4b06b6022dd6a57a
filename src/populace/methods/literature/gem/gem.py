"""`gem`: a generator network, trained round after round the wanted marginal that it answers worst."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from populace.core.progress import Progress
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.literature.gem.gem_model import GemEstimator, gem_model
from populace.methods.method import Method
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import choose_in_rounds, workload_candidates
from populace.methods.selection.merge_rare_codes import group_rare_codes
from populace.methods.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class GemConfig:
    """The numbers by which `gem` is tuned."""

    column_share: Fraction = Fraction(15, 100)
    """Of the budget, for single columns, which come first."""
    rounds_per_column: int = 4
    """Rounds for every column: all are alike, so that their number is public."""
    max_rounds: int = 64
    """Rounds in all: the network is trained after each."""
    measured_share: Fraction = Fraction(9, 10)
    """The part of a round that goes into measuring; the rest chooses."""


GEM_CONFIG = GemConfig()


def measure_gem(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then in every round choose the wanted marginal that a generator answers worst, and measure.

    One exponential mechanism chooses, with the distance of a marginal's counts from the generator's answer as score,
    less the error that measuring it would bring. The generator starts from the noisy columns and is trained after
    each round with all that was measured so far. Codes that are lost in the noise of their column share a group. The
    number of rounds is public and all are alike.
    Source: Liu, Vietri and Wu 2021, sections 3 and 4.2. They start from a random network, know the number of rows, and
    score single queries; that columns come first, the groups and the penalty are ours.
    """
    progress("measuring columns", 0.0)
    asked = sum(len(clique) > 1 for clique in workload_candidates(workload, domain=oracle.domain))
    if not asked:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=GEM_CONFIG.column_share)
    mixture = GemEstimator(ModelSpace.of(oracle).group(group_rare_codes(measured[1:], oracle=oracle)))
    mixture.add(measured)
    mixture.refit()
    wanted = {c: w for c, w in workload_candidates(workload, domain=mixture.domain).items() if len(c) > 1}
    rounds = min(GEM_CONFIG.max_rounds, GEM_CONFIG.rounds_per_column * len(oracle.domain), asked)
    return measured + choose_in_rounds(
        oracle,
        mixture,
        wanted,
        share=1 - GEM_CONFIG.column_share,
        rounds=rounds,
        measured_share=GEM_CONFIG.measured_share,
        progress=progress,
    )


GEM = Method(
    name="gem",
    title="Generative networks with the exponential mechanism",
    reference="Liu, Vietri and Wu 2021",
    measure=measure_gem,
    fit=lambda given: gem_model(given.items, space=given.space),
    scores_all_pairs=True,
    own_model=True,
)
