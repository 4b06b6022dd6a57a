"""Weighted counts on the 1980 census: bias, variance and coverage beside two ways to scale a sample up.

53,461 persons are the population. Samples of a tenth are drawn from it, once evenly and once with those under 25 at
half the rate, which nobody is told. Known to the public are the numbers of persons by age, by sex and by education,
each alone. Asked is how many have an income below a line: of all, of women aged 30 to 39, and of women aged 20 to 29,
all three for one ε. Nothing here is private: noise is drawn from a seeded generator.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.special import softmax

from populace.core.marginals import Counts, Grouping, Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.accounting.mechanisms import DiscreteLaplace, Exponential, Noise
from populace.privacy.sensitivity.poststratification import (
    Binning,
    binning_score_sensitivity,
)
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.private.survey.survey_rows import SurveyRows
from populace.private.survey.weighted_answers import answer, scores
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from populace.survey.calibration.calibrated_counts import answer_count_plan
from populace.survey.calibration.count_plan import (
    Calibration,
    CountMethod,
    CountPlan,
)
from populace.survey.design.design_parts import ControlTotals
from populace.survey.estimate_result import Estimand, Estimate
from populace.survey.smooth_questions import BinChoice, WeightedQuestion
from populace.survey.sums import STEPS
from populace.survey.survey_oracle import SumBatch
from populace.survey.variance.smooth_noise_error import distribution_draws

DATA = Path(__file__).parents[2] / "shared" / "data" / "census-1980" / "ipums.parquet"
EPSILON = Fraction(5)
RATE, LINE = 0.1, 5_000
COUNTS = (
    Estimand(query="all", where="LOW == 1"),
    Estimand(query="women 30-39", where="LOW == 1 and SEX == 1 and AGE >= 30 and AGE <= 39"),
    Estimand(query="women 20-29", where="LOW == 1 and SEX == 1 and AGE >= 20 and AGE <= 29"),
)
STARTS = (15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75)
CUT_AT_25 = {
    "fives": STARTS,
    "tens": (15, 25, 30, 40, 50, 60, 70),
    "ages of life": (15, 25, 45, 65),
    "two": (15, 25),
}
NOT_AT_25 = {"tens": (15, 20, 30, 40, 50, 60, 70), "ages of life": (15, 30, 45, 65), "two": (15, 45)}
NAMES = {None: "ours", CountMethod.TABLE: "ours, by cells", CountMethod.SMOOTH: "ours, with smooth noise"}
SCHOOL = {"nine": range(1, 10), "three": (1, 6, 8), "two": (1, 7)}


class Census:
    """The population, behind a schema, with its public totals."""

    def __init__(self) -> None:
        read = pq.read_table(DATA).to_pandas()
        self.schema = Schema(
            columns={
                "AGE": IntegerColumn(name="AGE", min=15, max=90, other="15"),
                "SEX": IntegerColumn(name="SEX", min=0, max=1, other="0"),
                "SCHOOL": IntegerColumn(name="SCHOOL", min=1, max=9, other="1"),
                "LOW": IntegerColumn(name="LOW", min=0, max=1, other="0"),
            }
        )
        self.codes = {
            "AGE": (read.age.to_numpy() - 15).astype(np.uint8),
            "SEX": (read.sex.to_numpy() - 1).astype(np.uint8),
            "SCHOOL": (read.educrec.to_numpy() - 1).astype(np.uint8),
            "LOW": (read.inctot.to_numpy() < LINE).astype(np.uint8),
        }
        self.size = len(read)
        self.masks: dict[str | None, np.ndarray] = {}
        self.placed: dict[Marginal, np.ndarray] = {}
        self.young = read.age.to_numpy() < 25
        self.truths = [int(self.mask(count.where).sum()) for count in COUNTS]
        self.domains = [
            self.mask(None if count.where == "LOW == 1" else count.where.removeprefix("LOW == 1 and "))
            for count in COUNTS
        ]

    def mask(self, where: str | None) -> np.ndarray:
        if where not in self.masks:
            self.masks[where] = (
                np.ones(self.size, dtype=bool)
                if where is None
                else RowFilter.of(where, schema=self.schema).condition(self.codes)
            )
        return self.masks[where]

    def places(self, by: Marginal) -> np.ndarray:
        if by not in self.placed:
            place = np.zeros(self.size, dtype=np.int64)
            for name, cells in zip(by.clique, by.shape(self.schema.domain), strict=True):
                grouping = by.grouping(name)
                codes = self.codes[name]
                place = place * cells + (codes if grouping is None else grouping.lookup[codes])
            self.placed[by] = place
        return self.placed[by]

    def control(self, name: str, strategies: dict[str, Sequence[int]]) -> ControlTotals:
        """Return public totals by the finest bins of a column, and the sets of bins to choose from."""
        first = self.schema.columns[name].min
        finest = sorted({start for starts in strategies.values() for start in starts})
        base = np.searchsorted(finest, np.arange(first, first + self.schema.domain[name]), side="right") - 1
        by = Marginal((name,), (Grouping(name, tuple(base.tolist())),))
        populations = np.bincount(self.places(by), minlength=len(finest))
        binnings = []
        for title, starts in strategies.items():
            joined = np.searchsorted(list(starts), finest, side="right") - 1
            groups = tuple(tuple(np.flatnonzero(joined == place).tolist()) for place in range(len(starts)))
            binnings.append(Binning(name=title, bins=groups))
        return ControlTotals(
            by=by, populations=tuple(map(Fraction, populations.tolist())), binnings=tuple(binnings)
        )


class Drawn:
    """One sample, behind the questions of the barrier, with noise of the same laws from a seeded generator."""

    def __init__(self, census: Census, rows: np.ndarray, *, rng: np.random.Generator) -> None:
        self.census, self.rows, self.rng = census, rows, rng
        self.schema = census.schema
        self.budget = Budget.of(EPSILON, Fraction(0), unit=PrivacyUnit())

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        return tuple(self._sum(each, noise) for sums, noise in batches for each in sums)

    def _sum(self, asked, noise: Noise) -> Counts:
        assert isinstance(noise, DiscreteLaplace)
        rows = self.rows[self.census.mask(asked.where)[self.rows]]
        shape = asked.by.shape(self.schema.domain)
        steps = np.full(len(rows), STEPS)
        if asked.weights is not None:
            shares = np.array([float(value) for value in asked.weights.values]) / float(asked.weights.most)
            steps = np.rint(shares[self.census.places(asked.weights.by)[rows]] * STEPS).astype(np.int64)
        exact = np.bincount(
            self.census.places(asked.by)[rows], weights=steps, minlength=int(np.prod(shape))
        ).astype(np.int64)
        drawn = np.rint(self.rng.laplace(scale=float(noise.scale), size=exact.size)).astype(np.int64)
        return (exact + drawn).reshape(shape)

    def read(self) -> SurveyRows:
        return SurveyRows({name: codes[self.rows] for name, codes in self.census.codes.items()}, {})

    def smooth(self, question: WeightedQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        value, bound = answer(self.read(), question, self.schema)
        even = np.sort(distribution_draws(mechanism.distribution))
        drawn = np.interp(self.rng.random(), (np.arange(even.size) + 0.5) / even.size, even)
        noisy = float(value) + float(bounds(bound)[1]) / float(mechanism.s) * drawn
        return lattice * round(noisy / lattice)

    def bound_size(self, question: WeightedQuestion, *, noise: Noise) -> int:
        raise NotImplementedError

    def choose_bins(self, question: BinChoice, *, mechanism: Exponential) -> int:
        sensitivity = binning_score_sensitivity(question.binnings, populations=question.populations)
        rate = mechanism.epsilon / (2 * sensitivity)
        likely = softmax([float(rate * score) for score in scores(self.read(), question, self.schema)])
        return int(self.rng.choice(len(likely), p=likely))


def sampled(census: Census, *, half: bool, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of a sample without replacement; those under 25 at half the rate, if so."""
    drawn = []
    for group, rate in ((census.young, RATE / 2 if half else RATE), (~census.young, RATE)):
        rows = np.flatnonzero(group)
        drawn.append(rng.choice(rows, size=round(rate * len(rows)), replace=False))
    if half:
        return np.concatenate(drawn)
    return rng.choice(census.size, size=round(RATE * census.size), replace=False)


def naive(census: Census, rows: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """Return the three counts by the known number in the group, and by the inverse of the sampling rate.

    The first asks for two numbers per count and the second for one, all for the same ε as everything else.
    """
    found = np.zeros((2, len(COUNTS)))
    for place, count in enumerate(COUNTS):
        inside, low = census.domains[place], census.mask(count.where)
        noise = rng.laplace(scale=2 * len(COUNTS) / float(EPSILON), size=2)
        share = (low[rows].sum() + noise[0]) / max(inside[rows].sum() + noise[1], 1)
        found[0, place] = share * inside.sum()
        found[1, place] = (low[rows].sum() + rng.laplace(scale=len(COUNTS) / float(EPSILON))) / RATE
    return found


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What some runs of one way gave, a column for each count."""

    values: np.ndarray
    held: np.ndarray
    privacy: np.ndarray
    sums: np.ndarray


def study(
    census: Census, strategies: dict[str, Sequence[int]], *, half: bool, runs: int, seed: int
) -> tuple[dict[CountMethod | None, Runs], np.ndarray]:
    """Run ours, in the way of its choice always and in two given ways every fourth time, and both naive ways."""
    weighting = Calibration(
        controls=(
            census.control("AGE", strategies),
            census.control("SEX", {"two": (0, 1)}),
            census.control("SCHOOL", SCHOOL),
        )
    )
    found: dict[CountMethod | None, list[tuple[Estimate, ...]]] = {
        None: [],
        CountMethod.TABLE: [],
        CountMethod.SMOOTH: [],
    }
    others = np.zeros((2, runs, len(COUNTS)))
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        rows = sampled(census, half=half, rng=rng)
        for way, kept in found.items():
            if way is None or run % 4 == 0:
                oracle = Drawn(census, rows, rng=rng)
                plan = CountPlan(
                    counts=COUNTS,
                    calibration=replace(weighting, method=way),
                    schema=oracle.schema,
                    budget=oracle.budget,
                )
                kept.append(answer_count_plan(oracle, plan=plan))
        others[:, run] = naive(census, rows, rng=rng)
    return {way: gathered(kept, census.truths) for way, kept in found.items()}, others


def gathered(found: list[tuple[Estimate, ...]], truths: Sequence[int]) -> Runs:
    return Runs(
        values=np.array([[each.estimate for each in run] for run in found]),
        held=np.array(
            [
                [each.low <= truth <= each.high for each, truth in zip(run, truths, strict=True)]
                for run in found
            ]
        ),
        privacy=np.array([[each.privacy_error for each in run] for run in found]),
        sums=np.array([[each.note.startswith(CountMethod.SUM.value) for each in run] for run in found]),
    )


def line(title: str, found: np.ndarray, truth: int, rest: str = "") -> str:
    off = found - truth
    return f"  {title:34}{off.mean():10.1f}{found.std(ddof=1):10.1f}{(off**2).mean() ** 0.5:10.1f}{rest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1980)
    arguments = parser.parse_args()
    census, began = Census(), time.process_time()
    verdicts: list[tuple[str, bool]] = []
    print(
        f"population {census.size}, income below {LINE}: {census.truths}; ε = {EPSILON}, {arguments.runs} runs\n"
    )
    studies = [
        ("even sample, bins of age cut at 25", CUT_AT_25, False),
        ("under 25 at half the rate, bins of age cut at 25", CUT_AT_25, True),
        ("under 25 at half the rate, no cut at 25", NOT_AT_25, True),
    ]
    for number, (title, strategies, half) in enumerate(studies):
        ours, others = study(census, strategies, half=half, runs=arguments.runs, seed=arguments.seed + number)
        print(f"{title}\n{'':36}{'bias':>10}{'deviation':>10}{'rmse':>10}  covered  privacy error")
        for place, count in enumerate(COUNTS):
            truth = census.truths[place]
            print(f" {count.query}: {truth}")
            for way, runs in ours.items():
                rest = f"{100 * runs.held[:, place].mean():8.1f} %{runs.privacy[:, place].mean():10.1f}"
                if way is None:
                    rest += f"   one sum: {100 * runs.sums[:, place].mean():.0f} %"
                print(line(NAMES[way], runs.values[:, place], truth, rest))
            print(line("known population", others[0][:, place], truth))
            print(line("inverse sampling rate", others[1][:, place], truth))
            bias = [abs(float((each[:, place] - truth).mean())) for each in (ours[None].values, *others)]
            if strategies is CUT_AT_25:
                covered = 100 * ours[None].held[:, place].mean()
                verdicts.append(
                    (f"{title}, {count.query}: covered {covered:.1f} %", abs(covered - 95) <= 1.5)
                )
            if half and count.query == "all":
                verdicts.append((f"{title}, {count.query}: bias below both", bias[0] < min(bias[1:])))
            if half and count.query == "women 20-29":
                verdicts.append((f"{title}, {count.query}: bias below the inverse rate's", bias[0] < bias[2]))
                if strategies is CUT_AT_25:
                    verdicts.append((f"{title}, {count.query}: bias below both", bias[0] < min(bias[1:])))
        print()
    for text, kept in verdicts:
        print(f"{'yes' if kept else ' NO'}  {text}")
    print(f"\n{time.process_time() - began:.0f} CPU seconds")


if __name__ == "__main__":
    main()
