"""How often `populace check` is right, and how often it decides: 1,000 claims with known truths for each law of noise.

    python bench/checks.py [RUNS]

The private rows are the invented survey of `populace demo`, the release is made of them at ε = 1 (mst). Claims are of
eight kinds, in turn: a mean, a share, a count, a total, a difference of means, one of shares, a correlation and a
regression coefficient. Two of three compare the statistic with a number that lies up to five noise margins from the
truth; the third are estimates that are off by up to eight noise margins, with a tolerance of four. Each is asked alone,
with questions, laws and answers of `populace check` at ε = 2. Noise is exact, of the operating system. The last four
kinds are linearized: they are asked of 500 rows as well, whose sums are much less certain.

Claim: answers of yes or no are right 95 % of the time or more, and given for 80 % or more of the claims whose truth
lies two noise margins or more from the threshold; of each kind as well. A line that misses it has a star: of 500 rows
coefficients are often not decided, since too little of their noise would be small.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

import populace as pp
from populace.api.check import read_released_rows
from populace.core.marginals import Counts
from populace.privacy.accounting.budget import Budget
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.survey.exact_sums import add_up
from populace.private.survey.survey_rows import SurveyRows
from populace.simulation.sample_survey import simulate_survey
from populace.survey.claims.claim_answers import Answer, CheckedClaim, ClaimPlan, answer_claims
from populace.survey.claims.claim_parser import parse_claim
from populace.survey.claims.claim_questions import Reference
from populace.survey.claims.claim_rows import ClaimRows, decide_claim, evaluate_combination
from populace.survey.claims.claim_syntax import Combination
from populace.survey.survey_oracle import SumBatch

ROOT = Path(__file__).parents[1]
KINDS = (
    "mean(income | sex == 'female')",
    "share(work == 'employed' | age >= 65)",
    "count(age >= 65)",
    "total(income | sex == 'male')",
    "mean(income | sex == 'male') - mean(income | sex == 'female')",
    "share(work == 'employed' | sex == 'female') - share(work == 'employed' | sex == 'male')",
    "correlation(age, income)",
    "coefficient(income ~ (sex == 'male') + age)",
)
# Their margins are no sums but smooth functions of sums, linearized at what was told; few rows are where that is worst.
LINEARIZED, FEW_ROWS = KINDS[4:], 500


class ExactRows:
    """An oracle about rows that nobody has to protect: the sums of the barrier, with its noise or without any."""

    def __init__(self, rows: ClaimRows, *, noise: ExactNoise | None) -> None:
        self._rows = SurveyRows(codes=rows.codes, numbers=rows.numbers)
        self._schema = rows.schema
        self._noise = noise

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums in steps."""
        asked = [(each, law) for sums, law in batches for each in sums]
        exact = [(add_up(self._rows, each, schema=self._schema), law) for each, law in asked]
        return tuple(
            cells if self._noise is None else self._noise.add(cells, mechanism=law) for cells, law in exact
        )


def ask(
    text: str, *, real: ClaimRows, release: ClaimRows, budget: Budget, noise: ExactNoise | None
) -> tuple[CheckedClaim, bool]:
    """Return the answer to one claim, and whether it holds."""
    claims = pp.Claims.parse(f"[[claims]]\n{text}", schema=real.schema)
    plan = ClaimPlan.of(claims, [Reference.of(claim, release) for claim in claims], budget=budget)
    (found,) = answer_claims(ExactRows(real, noise=noise), plan=plan)  # type: ignore[arg-type]
    return found, bool(decide_claim(claims.claims[0], real))


@dataclass
class Tally:
    """How answers were."""

    asked: int = 0
    decided: int = 0
    right: int = 0
    far: int = 0
    far_decided: int = 0

    def add(self, *, said: bool, right: bool, away: float) -> None:
        """Count one claim whose truth lies so many noise margins from the threshold."""
        self.asked += 1
        self.decided += said
        self.right += said and right
        self.far += away >= 2
        self.far_decided += said and away >= 2

    def __str__(self) -> str:
        ok = self.right >= 0.95 * self.decided and self.far_decided >= 0.8 * self.far
        return (
            f"{self.asked} claims: decided {self.decided}, right {self.right} "
            f"({self.right / max(self.decided, 1):.1%}); beyond two noise margins decided {self.far_decided} of "
            f"{self.far} ({self.far_decided / max(self.far, 1):.1%}){'' if ok else ' *'}"
        )


def run(
    name: str, budget: Budget, *, real: ClaimRows, release: ClaimRows, runs: int, kinds: Sequence[str] = KINDS
) -> None:
    """Ask all claims, and print how the answers were: of all, and of each kind."""
    begun, noise, rng = time.process_time(), ExactNoise(SystemEntropy()), np.random.default_rng(1)
    known = []
    for kind in kinds:
        says = parse_claim(kind, schema=real.schema)
        assert isinstance(says, Combination)
        true = evaluate_combination(says, real)
        found, _ = ask(
            f'claim = "{kind} > {true:.9g}"', real=real, release=release, budget=budget, noise=None
        )
        known.append((true, found.noise_margin))
    tallies, together = {kind: Tally() for kind in kinds}, Tally()
    for number in range(runs):
        kind, (true, margin) = kinds[number % len(kinds)], known[number % len(kinds)]
        if margin is None:
            continue
        off = rng.uniform(-5, 5)
        if number % 3:
            text, away = f'claim = "{kind} > {true - off * margin:.9g}"', abs(off)
        else:
            text = f'claim = "{kind}"\nwithin = {4 * margin:.9g}\nvalue = {true + 1.6 * off * margin:.9g}'
            away = abs(4 - 1.6 * abs(off))
        found, truth = ask(text, real=real, release=release, budget=budget, noise=noise)
        said = found.answer is not Answer.UNDECIDED
        for tally in (tallies[kind], together):
            tally.add(said=said, right=(found.answer is Answer.YES) == truth, away=away)
    print(f"{name}: {together}; {time.process_time() - begun:.0f} CPU s")
    for kind, tally in tallies.items():
        print(f"  {kind}\n    {tally if tally.asked else 'no margin: never decided'}")


def main() -> None:
    """Print how answers are right and how many there are: each law, many rows and few."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    schema = pp.Schema.load(ROOT / "examples" / "survey" / "people-schema.toml")
    people, _ = simulate_survey()
    people = people.select([name for name in schema.columns if name in people.column_names])
    with tempfile.TemporaryDirectory() as folder:
        made = pp.synthesize(
            people, schema=schema, epsilon=1, delta="1e-9", method="mst", ledger=Path(folder) / "ledger.db"
        )
    released = read_released_rows(made, schema=schema)
    for rows, kinds in ((people.num_rows, KINDS), (FEW_ROWS, LINEARIZED)):
        real = ClaimRows.of(people.slice(0, rows), schema=schema)
        print(f"{real.size} private rows, {released.size} synthetic ones; ε = 2 for each claim")
        for name, delta in (("Gaussian", Fraction("1e-9")), ("Laplace", Fraction(0))):
            budget = Budget.of(Fraction(2), delta, unit=schema.unit)
            run(name, budget, real=real, release=released, runs=runs, kinds=kinds)


if __name__ == "__main__":
    main()
