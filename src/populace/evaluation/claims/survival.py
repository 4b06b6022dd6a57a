"""How likely claims survive a release: what noise and fitting do to them if the release's own rows were the real ones.

Nothing private is read: all of it follows from the release, and may be published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from populace.core.errors import ReleaseError
from populace.core.progress import Progress, silent
from populace.evaluation.binomial_interval import clopper_pearson
from populace.methods.registry import find_method
from populace.release.bundle import Release
from populace.release.report.bootstrap_error import MAX_ROWS_DRAWN, release_again
from populace.schema.codec.table_codec import TableCodec
from populace.survey.claims.claim_rows import ClaimRows, decide_claim, evaluate_combination
from populace.survey.claims.claim_syntax import Combination
from populace.survey.claims.claims import Claim, Claims

# Releases that are simulated: a share of half of them is told to ± 14 %.
SURVIVAL_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """In how many of some simulated releases a claim led to the conclusion that it has in the rows behind them."""

    name: str
    claim: str
    survived: int
    runs: int

    @property
    def probability(self) -> float | None:
        """The share of releases in which it survived; None where no release, or no truth, told."""
        return self.survived / self.runs if self.runs else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, with the interval of Clopper and Pearson."""
        interval = clopper_pearson(self.survived, self.runs) if self.runs else None
        return {
            "name": self.name,
            "claim": self.claim,
            "survival_probability": self.probability,
            "interval": None if interval is None else list(interval),
            "runs": self.runs,
        }


def simulate_survival(
    release: Release,
    claims: Claims,
    *,
    runs: int = SURVIVAL_RUNS,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Survival, ...]:
    """Return how often each claim survives, by a parametric bootstrap (Efron and Tibshirani 1993, chapter 6).

    The release's rows, drawn again one by one, stand in for real ones: the same marginals are measured with noise of
    the same law, a model is fitted and rows are drawn. A claim survives where these lead to the same conclusion as the
    stand-ins; an estimate, where it is within its tolerance of theirs. What the release has lost of the real rows is
    missing from the stand-ins too, so claims about what no measured table holds may look safer than they are.
    """
    measurements, schema = release.measurements, claims.schema
    if find_method(measurements.record.method).own_model or release.selection is not None:
        raise ReleaseError(
            "releases of this method, or of some rows alone, cannot be simulated again.",
            hint="check the claims against the private rows, for a price: `populace check` without --expect",
        )
    total = max(1.0, float(release.model.total))
    rows = max(1, min(round(total), MAX_ROWS_DRAWN))
    codec, found = TableCodec(measurements.schema), [[0, 0] for _ in claims]
    for run in range(runs):
        (progress or silent)("simulating releases", run / runs)
        rng = np.random.default_rng([seed, run])
        simulated = release_again(
            measurements, codes=release.codes, total=total, gradual=release.model.gradual, rows=rows, rng=rng
        )
        if simulated is None:
            continue
        tables = [codec.decode(codes, rng=rng) for codes in (simulated.stand_ins, simulated.drawn)]
        truth, drawn = (ClaimRows.of(each, schema=schema, people=total / each.num_rows) for each in tables)
        for counts, same in zip(found, (_survives(claim, truth, drawn) for claim in claims), strict=True):
            counts[0] += bool(same)
            counts[1] += same is not None
    return tuple(_make_survival(claim, counts) for claim, counts in zip(claims, found, strict=True))


def _survives(claim: Claim, truth: ClaimRows, drawn: ClaimRows) -> bool | None:
    """Say whether rows of a release lead to the conclusion of the rows behind it."""
    if isinstance(claim.says, Combination):
        # The truth is the value that the estimate has to be close to.
        return decide_claim(
            replace(claim, value=None), drawn, estimate=evaluate_combination(claim.says, truth)
        )
    first, second = decide_claim(claim, truth), decide_claim(claim, drawn)
    return None if first is None else first == second


def _make_survival(claim: Claim, counts: Sequence[int]) -> Survival:
    return Survival(name=claim.name, claim=claim.words, survived=counts[0], runs=counts[1])
