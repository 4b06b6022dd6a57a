"""Mean income and the share below a line, by age, from surveys in which some incomes are missing.

The population is the 1980 census extract (shared/data/census-1980): 53,461 persons. Each run draws a simple random
sample without replacement. A person does not tell the income with probability 1/(1 + e^−x),
x = −3.3 + 0.02·(age − 40) + 0.3·male + 0.35·education + 1.6·in the labour force, education from 0 to 3 (below high
school, high school, some college, college): about one in six, and missing at random given these columns.

Every query has ε = 6 ln 2, all that its errors cost included. Methods:

  imputed     filled from the nearest row by age in tens, sex, education and labour force; smooth noise (ours)
  ignored     complete rows only, Laplace noise
  global      the same filled rows, Laplace noise for as many changed rows as are missing: NOT private, since that
              number is, and only possible in a simulation
  model       each cell's noisy mean for its missing rows, after the barrier
  at once     the same with 6 ln 2 for all twelve queries together
  whole, filled    the sample if nothing were missing, and the filled rows, both without noise: floors

The first four have 6 ln 2 times the number of queries in all. Answers come from the code of a release; noise is drawn
from seeded generators in floating point.

    .venv/bin/python bench/imputation.py [--runs 2000] [--rows 5000] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import LOG_STEPS
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.smooth.smooth_distributions import Student
from populace.privacy.smooth.smooth_noise import LN_2
from populace.private.survey.exact_sums import add_up
from populace.private.survey.imputed_answers import ImputedRows
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.columns.column import CategoricalColumn, OrdinalColumn
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_result import Estimand
from populace.survey.imputation.imputation_plan import ImputationNoise, ImputationPlan
from populace.survey.imputation.missing_values import estimate_missing
from populace.survey.smooth_questions import Donors

DATA = Path(__file__).parents[2] / "shared" / "data" / "census-1980" / "ipums.parquet"
PER_QUERY = 6 * LN_2
# The constant of the source: noise of 1/(1 + x⁴) with s = t = ln 2.
SOURCE = 1 / math.log(2)
TOP = 75_000
LINE = 5_000
MISSING = TOP + 1
NAMES = {MissingHandling.IMPUTE: "imputed", MissingHandling.IGNORE: "ignored", MissingHandling.MODEL: "model"}
AGES = {"20-29": (20, 29), "30-39": (30, 39), "40-49": (40, 49), "50-59": (50, 59), "60+": (60, 90)}

SCHEMA = Schema(
    columns={
        "AGE": IntegerColumn(name="AGE", min=15, max=90),
        "SEX": CategoricalColumn(name="SEX", values=("1", "2")),
        "EDUCATION": OrdinalColumn(name="EDUCATION", values=("1", "2", "3", "4")),
        "WORK": CategoricalColumn(name="WORK", values=("1", "2")),
        "INCOME": IntegerColumn(name="INCOME", min=0, max=TOP, missing=("R",)),
    }
)
BY = Marginal(
    ("AGE", "SEX", "EDUCATION", "WORK"),
    (
        Grouping("AGE", (*(min(age // 10, 6) - 1 for age in range(15, 91)), 6)),
        Grouping("SEX", (0, 1, 1)),
        Grouping("EDUCATION", (0, 1, 2, 3, 3)),
        Grouping("WORK", (0, 1, 1)),
    ),
)
DONORS = Donors(column="INCOME", match=BY, low=Fraction(0), high=Fraction(TOP), default=Fraction(0))


def estimands() -> tuple[Estimand, ...]:
    """Return all queries: means and shares, overall and by age."""
    groups = {"all": None} | {name: f"AGE >= {low} and AGE <= {high}" for name, (low, high) in AGES.items()}
    below = (Fraction(0), Fraction(LINE - 1))
    return tuple(
        Estimand(query=query, group=(("age", name),), where=where, between=between)
        for query, between in (("mean income", None), (f"share below {LINE:,}", below))
        for name, where in groups.items()
    )


@dataclass(frozen=True)
class Population:
    """The persons of the extract, in codes, and how likely each is not to tell the income."""

    codes: dict[str, np.ndarray]
    income: np.ndarray
    silent: np.ndarray

    @classmethod
    def read(cls) -> Population:
        """Read the census extract."""
        table = pq.read_table(DATA)
        told = {name: table[name].to_numpy() for name in ("inctot", "age", "sex", "educrec", "labforce")}
        age, male, work = told["age"], told["sex"] == 1, told["labforce"] == 2
        education = np.digitize(told["educrec"], [7, 8, 9])
        x = -3.3 + 0.02 * (age - 40) + 0.3 * male + 0.35 * education + 1.6 * work
        codes = {
            "AGE": (age - 15).astype(np.uint8),
            "SEX": (~male).astype(np.uint8),
            "EDUCATION": education.astype(np.uint8),
            "WORK": work.astype(np.uint8),
        }
        # The few losses count as no income.
        return cls(codes=codes, income=np.clip(told["inctot"], 0, TOP), silent=1 / (1 + np.exp(-x)))

    def survey(self, rng: np.random.Generator, *, rows: int) -> tuple[SurveyRows, np.ndarray]:
        """Return a sample in which some incomes are missing, and the incomes as they are."""
        drawn = rng.choice(len(self.income), rows, replace=False)
        income = self.income[drawn]
        told = np.where(rng.random(rows) < self.silent[drawn], np.nan, income)
        codes = {name: column[drawn] for name, column in self.codes.items()}
        codes["INCOME"] = np.where(np.isnan(told), MISSING, income).astype(np.uint32)
        return SurveyRows(codes, {"INCOME": told}), income

    def members(self, estimand: Estimand, codes: dict[str, np.ndarray]) -> np.ndarray:
        """Say who belongs to the subpopulation of a query."""
        low, high = AGES.get(estimand.group[0][1], (15, 90))
        return (codes["AGE"] + 15 >= low) & (codes["AGE"] + 15 <= high)

    def value(self, estimand: Estimand, income: np.ndarray, codes: dict[str, np.ndarray]) -> float:
        """Return the answer to a query when all incomes are known."""
        own = income[self.members(estimand, codes)]
        return float((own if estimand.between is None else own < LINE).mean())


class Simulated:
    """The questions of the barrier, answered with noise from a seeded generator; it spends nothing."""

    def __init__(self, rows: SurveyRows, *, budget: Budget, rng: np.random.Generator) -> None:
        self.schema = SCHEMA
        self.budget = budget
        self._rows, self._rng = rows, rng

    @cached_property
    def filled(self) -> ImputedRows:
        """The rows with missing incomes filled."""
        return ImputedRows(rows=self._rows, donors=DONORS, schema=SCHEMA)

    def _noise(self, mechanism, size=None):
        # As fine as the steps are, integer noise is the rounded noise of a continuous law.
        return np.rint(self._rng.laplace(scale=float(mechanism.scale), size=size)).astype(np.int64)

    def sum_batches(self, batches):
        """Return sums with Laplace noise."""
        found = []
        for asked, mechanism in batches:
            for one in asked:
                exact = add_up(self._rows, one, schema=SCHEMA)
                found.append(exact + self._noise(mechanism, exact.shape))
        return tuple(found)

    def smooth(self, question, *, mechanism, lattice):
        """Return an answer about filled rows with Student's noise."""
        value, bound = self.filled.answer(question)
        if not isinstance(mechanism.distribution, Student):
            raise TypeError("only Student's noise is simulated")
        noise = (
            float(bounds(bound)[1])
            / float(mechanism.s)
            * self._rng.standard_t(float(mechanism.distribution.degrees))
        )
        return round((value + Fraction(noise)) / lattice) * lattice

    def bound_size(self, question, *, noise):
        """Return the noisy size of a bound."""
        bound = float(bounds(self.filled.answer(question)[1])[1])
        return math.ceil(LOG_STEPS * math.log(bound) / float(LN_2)) + int(self._noise(noise))


@dataclass(frozen=True)
class Study:
    """All that does not change from run to run."""

    population: Population
    rows: int

    @cached_property
    def plans(self) -> dict[MissingHandling, ImputationPlan]:
        """What is asked by each way to treat missing values."""
        return {
            each: ImputationPlan(
                donors=DONORS,
                estimands=estimands(),
                how=each,
                schema=SCHEMA,
                population=Fraction(len(self.population.income)),
            )
            for each in MissingHandling
        }

    @cached_property
    def budget(self) -> Budget:
        """The budget of all queries together."""
        return Budget.of(PER_QUERY * len(estimands()), Fraction(0), unit=SCHEMA.unit)

    @cached_property
    def laws(self) -> dict[MissingHandling, ImputationNoise]:
        """The noise that it buys."""
        return {each: ImputationNoise.of(plan, budget=self.budget) for each, plan in self.plans.items()}

    @cached_property
    def at_once(self) -> ImputationNoise:
        """The noise of the model when all queries share what one has."""
        share = Fraction(1, len(estimands()))
        return ImputationNoise.of(self.plans[MissingHandling.MODEL], budget=self.budget, share=share)

    def run(self, seed: int) -> dict[str, list]:
        """Return estimates of every method for one simulated survey, and intervals."""
        rng = np.random.default_rng([2026, seed])
        rows, income = self.population.survey(rng, rows=self.rows)
        oracle = Simulated(rows, budget=self.budget, rng=rng)
        found = {
            NAMES[each]: estimate_missing(oracle, plan, noise=self.laws[each])
            for each, plan in self.plans.items()
        }
        found["at once"] = estimate_missing(oracle, self.plans[MissingHandling.MODEL], noise=self.at_once)
        exact, lost = [], int(np.isnan(rows.numbers["INCOME"]).sum())
        globally, whole = [], []
        for estimand in estimands():
            size = int(self.population.members(estimand, rows.codes).sum())
            total, _ = oracle.filled.answer(self.plans[MissingHandling.IMPUTE].question(estimand))
            moved = (TOP if estimand.between is None else 1) * (1 + lost)
            # Half of ε for the sum and half for how many rows there are.
            half = float(PER_QUERY) / 2
            noisy = max(1.0, size + rng.laplace(scale=1 / half))
            globally.append((float(total) + rng.laplace(scale=moved / half)) / noisy)
            exact.append(float(total) / size)
            whole.append(self.population.value(estimand, income, rows.codes))
        plain = {"global": globally, "filled": exact, "whole": whole}
        return {"estimates": found, "changed": oracle.filled.max_changed, **plain}


def main() -> None:
    """Run the simulation and print its tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start = time.process_time()
    study = Study(Population.read(), arguments.rows)
    runs = [study.run(arguments.seed * 1_000_000 + number) for number in range(arguments.runs)]
    told = Tables(study, runs)
    print(f"{date.today()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(
        f"{arguments.runs} surveys of {arguments.rows} persons, seed {arguments.seed}: "
        f"{time.process_time() - start:.0f} CPU s in all"
    )
    told.print()


@dataclass(frozen=True)
class Tables:
    """What all runs say together."""

    study: Study
    runs: list[dict[str, list]]

    @cached_property
    def truths(self) -> np.ndarray:
        """The answers of the population."""
        population = self.study.population
        return np.array(
            [population.value(estimand, population.income, population.codes) for estimand in estimands()]
        )

    def estimates(self, method: str) -> np.ndarray:
        """Return one row of estimates for each run."""
        if method in ("global", "filled", "whole"):
            return np.array([run[method] for run in self.runs])
        rows = [[each.estimate for each in run["estimates"][method]] for run in self.runs]
        return np.array(rows, dtype=float)

    def print(self) -> None:
        """Print all tables."""
        silent = self.study.population.silent
        print(f"incomes missing: {silent.mean():.1%} of all persons")
        mechanism = self.study.laws[MissingHandling.IMPUTE].answers[0]
        ratio = mechanism.standard_deviation / SOURCE
        print(
            f"smooth noise: {mechanism.distribution}, s.d. {mechanism.standard_deviation:.3f}·S for each answer; the "
            f"source's {SOURCE:.3f}·S; "
            f"ratio {ratio:.3f} {'' if ratio <= 0.36 else '*** above 0.36'}"
        )
        changed = np.array([run["changed"] for run in self.runs])
        print(
            f"L1, the most rows that one row changes: mean {changed.mean():.1f}, "
            f"from {changed.min()} to {changed.max()}"
        )
        self._print_errors()
        self._print_parts()

    def _print_errors(self) -> None:
        columns = ("whole", "filled", "imputed", "ignored", "global", "model", "at once")
        print("\nmean squared error (of shares: in 1e-6); imputed must be below ignored and global")
        print(f"{'query':26}{'truth':>9}" + "".join(f"{name:>11}" for name in columns))
        for number, estimand in enumerate(estimands()):
            scale = 1.0 if estimand.between is None else 1e6
            errors = {
                name: float(((self.estimates(name)[:, number] - self.truths[number]) ** 2).mean()) * scale
                for name in columns
            }
            best = errors["imputed"] < min(errors["ignored"], errors["global"])
            truth = f"{self.truths[number]:.0f}" if estimand.between is None else f"{self.truths[number]:.4f}"
            print(
                f"{_named(estimand):26}{truth:>9}"
                + "".join(f"{errors[name]:11.4g}" for name in columns)
                + ("" if best else "  ***")
            )

    def _print_parts(self) -> None:
        names = ("bias", "s.d.", "sampling", "imputing", "privacy", "noise", "width", "holds")
        for method in ("imputed", "model", "at once", "ignored"):
            print(f"\n{method}: bias and s.d. of estimates; the parts of their error as told (median);")
            print(
                "s.d. of the noise that was added; width of 95 % intervals, and how often they hold the truth"
            )
            print(f"{'query':26}" + "".join(f"{name:>10}" for name in names))
            holding = []
            for number, estimand in enumerate(estimands()):
                rows = [run["estimates"][method][number] for run in self.runs]
                value = self.estimates(method)[:, number]
                parts = [
                    # An error that noise hides is not told.
                    float(np.nanmedian(np.array([getattr(row, part) for row in rows], dtype=np.float64)))
                    for part in ("sampling_error", "imputation_error", "privacy_error")
                ]
                plain = self.estimates("filled")[:, number]
                noise = float((value - plain).std()) if method == "imputed" else math.nan
                holds = float(np.mean([row.low <= self.truths[number] <= row.high for row in rows]))
                holding.append(holds)
                width = float(np.median([row.high - row.low for row in rows]))
                told = (value.mean() - self.truths[number], value.std(), *parts, noise, width)
                flag = "" if method == "ignored" or abs(holds - 0.95) <= 0.015 else " ***"
                print(
                    f"{_named(estimand):26}"
                    + "".join(f"{each:10.4g}" for each in told)
                    + f"{holds:10.4f}{flag}"
                )
            print(f"{'all together':26}{np.mean(holding):80.4f}")


def _named(estimand: Estimand) -> str:
    return f"{estimand.query}, {estimand.group[0][1]}"


if __name__ == "__main__":
    main()
