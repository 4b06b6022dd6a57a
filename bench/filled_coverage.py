"""How often intervals hold the truth where missing answers are filled: all statistics and designs, known population.

    python bench/filled_coverage.py [RUNS] [EPSILON] [DESIGN or WAY ...]

60,000 invented persons in 3 strata of 40 PSUs, of whom a number X is missing more often where it is large (10 to 45 %
by group), at random within groups. Samples of 3,000 are drawn by five designs; each query has an ε of its own. The ways
are `impute` (donors of limited use, behind the barrier), `smooth` (nearest donors with noise that follows a smooth
bound, of samples without weights), `model` (respondents weighted up) and `ignore`. Questions, laws and post-processing
are those of `populace estimate`; noise is drawn by NumPy from the same laws.

Claim: intervals of `impute`, `smooth` and `model` hold the truth in at least 95 − 1.5 % of all runs.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.errors import UsageError
from populace.core.marginals import Counts
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.private.private_table import PrivateTable
from populace.private.survey import smooth_answers
from populace.private.survey.exact_sums import add_up
from populace.schema.schema import Schema
from populace.survey.answer_queries import answer_queries
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_oracle import SumBatch
from populace.survey.variance.quantiles import QuantileBins
from populace.survey.variance.smooth_noise_error import _tail_quantiles

PEOPLE, SAMPLE, STRATA, PSUS, TAKEN = 60_000, 3_000, 3, 40, 10
SCHEMA = Schema.parse(
    """
[columns.H]
kind = "integer"
min = 0
max = 2
[columns.PSU]
kind = "integer"
min = 0
max = 9
[columns.G]
kind = "integer"
min = 0
max = 5
[columns.X]
kind = "integer"
min = 0
max = 50
missing = ["-9"]
[columns.Y]
kind = "integer"
min = 0
max = 9
[columns.W]
kind = "numeric"
min = 0
max = 40
width = 1
"""
    + "".join(f'[columns.R{g}]\nkind = "numeric"\nmin = 0\nmax = 45\nwidth = 1\n' for g in range(TAKEN))
)
TOTALS = '[[totals]]\nby = ["G"]\ncounts = {{ {counts} }}\n'
DESIGNS = {
    "rows": f"[design]\nbase = {PEOPLE // SAMPLE}\n",
    "strata": '[design]\nstrata = "H"\nbase = { 0 = 40, 1 = 20, 2 = 13.3333333333 }\n',
    "weights": '[design]\nweights = "W"\n',
    "PSUs": '[design]\nweights = "W"\nstrata = "H"\npsu = "PSU"\n',
    "replicates": '[design]\nweights = "W"\nreplicates = { columns = ['
    + ", ".join(f'"R{g}"' for g in range(TAKEN))
    + '], type = "JK1" }\n',
}
QUERIES = {
    "frequency": 'statistic = "frequency"\nwhere = "X >= 20"',
    "count": 'statistic = "count"\nwhere = "X >= 20"',
    "total": 'statistic = "total"\ncolumn = "X"',
    "mean": 'statistic = "mean"\ncolumn = "X"',
    "mean of a group": 'statistic = "mean"\ncolumn = "X"\nwhere = "G == 4"',
    "mean where X is": 'statistic = "mean"\ncolumn = "X"\nwhere = "X >= 10"',
    "ratio": 'statistic = "ratio"\ncolumn = "X"\ny = "Y"',
    "proportion": 'statistic = "proportion"\nthat = "X >= 20"',
    "variance": 'statistic = "variance"\ncolumn = "X"',
    "correlation": 'statistic = "correlation"\ncolumn = "X"\ny = "Y"',
    "quantile": 'statistic = "quantile"\ncolumn = "X"\np = 0.5',
}
# The median of whole numbers is that of a law that is spread over each of them, as the estimate's is.
_MEDIAN = QuantileBins.of(
    Queries.parse(f"[[query]]\n{QUERIES['quantile']}", schema=SCHEMA).queries[0], SCHEMA
)
WAYS = {
    "impute": '[missing.X]\nhow = "impute"\nmatch = ["G"]\nmax_uses = 2\n',
    "smooth": '[missing.X]\nhow = "impute"\nmatch = ["G"]\n',
    "model": '[missing.X]\nhow = "model"\nmatch = ["G"]\n',
    "ignore": "",
}


def population(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the persons: their stratum, PSU, group, numbers, and a size that some samples are drawn by."""
    psu = np.repeat(np.arange(STRATA * PSUS), PEOPLE // (STRATA * PSUS))
    group = rng.integers(0, 6, PEOPLE)
    common = rng.standard_normal(STRATA * PSUS)[psu]
    x = 8 + 5 * group + 1.5 * common + 5 * rng.standard_normal(PEOPLE)
    y = 2 + x / 10 + 1.5 * rng.standard_normal(PEOPLE)
    return {
        "H": psu // PSUS,
        "PSU": psu % PSUS,
        "G": group,
        "X": np.clip(np.rint(x), 0, 50).astype(int),
        "Y": np.clip(np.rint(y), 0, 9).astype(int),
        "size": rng.choice([1.0, 2.0, 3.0], PEOPLE),
    }


def draw(people: dict[str, np.ndarray], design: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a sample by one design, with weights, and who does not answer."""
    if design == "strata":
        rows = np.concatenate(
            [
                rng.choice(np.flatnonzero(people["H"] == h), size, replace=False)
                for h, size in enumerate((500, 1000, 1500))
            ]
        )
        weight = np.array([40, 20, 40 / 3])[people["H"][rows]]
    elif design == "weights":
        chance = people["size"] * SAMPLE / people["size"].sum()
        rows = np.flatnonzero(rng.random(PEOPLE) < chance)
        weight = 1 / chance[rows]
    elif design in ("PSUs", "replicates"):
        units = np.array([rng.choice(PSUS, TAKEN, replace=False) for _ in range(STRATA)])
        place = np.full((STRATA, PSUS), -1)
        np.put_along_axis(place, units, np.arange(TAKEN)[None, :], axis=1)
        at = place[people["H"], people["PSU"]]
        rows = np.flatnonzero((at >= 0) & (rng.random(PEOPLE) < 0.2))
        weight = np.full(len(rows), 20.0)
    else:
        rows = rng.choice(PEOPLE, SAMPLE, replace=False)
        weight = np.full(len(rows), PEOPLE / SAMPLE)
    found = {name: column[rows] for name, column in people.items()}
    found["W"] = weight
    found["at"] = (
        place[found["H"], found["PSU"]] if design in ("PSUs", "replicates") else found["PSU"] % TAKEN
    )
    lost = rng.random(len(rows)) < 0.1 + 0.07 * found["G"]
    found["answer"] = np.where(lost, -9, found["X"])
    return found


def truth(name: str, people: dict[str, np.ndarray], sample: dict[str, np.ndarray]) -> float:
    x, y = people["X"].astype(float), people["Y"].astype(float)
    return {
        "frequency": lambda: float((sample["X"] >= 20).sum()),
        "count": lambda: float((x >= 20).sum()),
        "total": lambda: float(x.sum()),
        "mean": lambda: float(x.mean()),
        "mean of a group": lambda: float(x[people["G"] == 4].mean()),
        "mean where X is": lambda: float(x[x >= 10].mean()),
        "ratio": lambda: float(x.sum() / y.sum()),
        "proportion": lambda: float((x >= 20).mean()),
        "variance": lambda: float(x.var()),
        "correlation": lambda: float(np.corrcoef(x, y)[0, 1]),
        "quantile": lambda: _MEDIAN.quantile(np.histogram(people["X"], _MEDIAN.edges)[0] * 1.0, 0.5),
    }[name]()


class Rows:
    """Answers as the barrier does, with noise of the same laws, drawn by NumPy."""

    def __init__(self, sample: dict[str, np.ndarray], rng: np.random.Generator, *, key: str) -> None:
        columns: dict[str, Any] = {name: sample[name] for name in ("H", "G", "Y", "W")}
        columns |= {"PSU": sample["at"], "X": sample["answer"]}
        for g in range(TAKEN):
            columns[f"R{g}"] = np.where(sample["at"] == g, 0.0, sample["W"] * TAKEN / (TAKEN - 1))
        self._rows = PrivateTable.of(pa.table(columns), schema=SCHEMA).survey_rows()
        self._rng, self._key = rng, key

    def sum_batches(self, batches: list[SumBatch]) -> tuple[Counts, ...]:
        found = []
        for sums, mechanism in batches:
            for each in sums:
                shape = each.shape(SCHEMA.domain)
                if isinstance(mechanism, DiscreteGaussian):
                    noise = self._rng.normal(0, float(mechanism.variance) ** 0.5, shape)
                else:
                    noise = self._rng.laplace(0, float(mechanism.scale), shape)
                exact = add_up(self._rows, each, schema=SCHEMA, key=self._key)
                found.append(np.asarray(exact + np.rint(noise), dtype=np.int64))
        return tuple(found)

    def smooth(self, question: Any, *, mechanism: Any, lattice: Fraction) -> Fraction:
        del lattice
        exact, bound = smooth_answers.answer(self._rows, question, schema=SCHEMA, key=self._key)
        u = self._rng.random()
        drawn = float(_tail_quantiles(mechanism.distribution, np.array([abs(2 * u - 1)]))[0]) * np.sign(
            u - 0.5
        )
        return Fraction(float(exact) + float(bound().mid()) / float(mechanism.s) * drawn)

    def bound_size(self, question: Any, *, noise: Any) -> int:
        steps = smooth_answers.log_bound_steps(self._rows, question, schema=SCHEMA, key=self._key)
        return int(steps + round(self._rng.laplace(0, float(noise.scale))))


def main(runs: int, epsilon: Fraction, ways: list[str], designs: list[str]) -> None:
    rng = np.random.default_rng([2026, 11])
    people = population(rng)
    budget = Budget.of(epsilon, Fraction(0), unit=SCHEMA.unit)
    print(f"{runs} runs, epsilon {float(epsilon):g} for each query; coverage in % (mean width of impute = 1)")
    for design in designs:
        held: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
        plans = {}
        for way in ways:
            for name, query in QUERIES.items():
                try:
                    plans[way, name] = QueryPlan.of(
                        Design.parse(DESIGNS[design] + WAYS[way], schema=SCHEMA),
                        Queries.parse(f"[[query]]\n{query}", schema=SCHEMA),
                        budget=budget,
                    )
                except UsageError:
                    continue
        for run in range(runs):
            sample = draw(people, design, rng)
            rows = Rows(sample, rng, key=str(run))
            for (way, name), plan in plans.items():
                if way == "smooth" and not plan.imputations:
                    continue
                (found,) = answer_queries(rows, plan=plan)
                if found.low is not None and found.high is not None:
                    exact = truth(name, people, sample)
                    held[way, name].append((found.low <= exact <= found.high, found.high - found.low))
        print(f"\n{design:<18}" + "".join(f"{way:>18}" for way in ways))
        for name in QUERIES:
            cells, first = [], None
            for way in ways:
                own = held.get((way, name), [])
                if not own:
                    cells.append("–")
                    continue
                width = float(np.mean([each for _, each in own]))
                first = first or width
                star = "*" if np.mean([inside for inside, _ in own]) < 0.935 else ""
                cells.append(
                    f"{100 * np.mean([inside for inside, _ in own]):.1f}{star} ({width / first:.2f})"
                )
            print(f"{name:<18}" + "".join(f"{each:>18}" for each in cells), flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    numbers = [each for each in words if each not in WAYS and each not in DESIGNS]
    main(
        int(numbers[0]) if numbers else 200,
        Fraction(numbers[1]) if len(numbers) > 1 else Fraction(4),
        [each for each in WAYS if each in words] or list(WAYS),
        [each for each in DESIGNS if each in words] or list(DESIGNS),
    )
