"""How often intervals hold the truth: 2,000 simulated runs over known tables, then whole runs of two methods.

    python bench/intervals.py [RUNS [WHOLE]]

Simulated runs measure the number of rows, every column, pairs (one of them twice, with other noise) and a triple, on
groups that `strategy.compress` makes from the noisy columns of the same run. `survey` has columns with long tails;
`threshold` has columns whose codes all lie where merging is decided, which is the worst case for it; `Laplace` is
`survey` under that noise; `quiet` has noise of about one row, and a tenth of the rows. Whole runs are those of
`populace measure` on a made-up survey with rehearsed noise: pairs are chosen, bins of a column are learnt, rules hold.
Cells that are certain are left out.

Claim: every kind of count is covered 95 % ± 1.5 of the time; the Monte-Carlo error stands beside it, and whole runs, of
which there are fewer, may miss by two of them. Intervals of Adult take less than 0.3 s. Lines in brackets claim
nothing: codes are covered as a whole, but those that were merged were merged for their low noise; and `as if fixed`
lets the counts that chose the groups speak for the groups as well. Nothing here is private.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from mst_vs_mbi import measure, read, spanning_tree

from populace.api.measure import measure as measure_run
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.gls.blue_estimates import GroupingOrigin
from populace.inference.gls.count_intervals import CountInterval, CountIntervals, intervals
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.selection.merge_rare_codes import merge_rare_codes
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import Origin
from populace.schema.columns.unknown_columns import UnknownBins
from populace.simulation.sample_survey import simulate_survey

Codes = Mapping[str, np.ndarray]
COLUMNS = ("age", "sex", "marital_status", "education", "work", "income", "health")
METHODS = ("mst", "adaptive")
BAND = 0.015


@dataclass
class Covered:
    """How many intervals of each kind held the truth, run by run."""

    hits: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, kind: str, held: np.ndarray) -> None:
        if held.size:
            self.hits.setdefault(kind, []).append((int(held.sum()), held.size))

    def tell(self, *, slack: float = 0.0) -> bool:
        """Print a line for every kind; say whether those that claim something keep to it, but for `slack` errors."""
        good = True
        for kind, booked in self.hits.items():
            held, size = np.array(booked, dtype=float).T
            share = held.sum() / size.sum()
            # Cells of one run share noise, so runs are the sample.
            error = np.sqrt(((held - share * size) ** 2).sum()) / size.sum()
            good &= kind.startswith("[") or abs(share - 0.95) <= BAND + slack * error
            print(f"  {kind:52} {100 * share:6.2f} % ± {100 * error:.2f}  ({int(size.sum()):,} counts)")
        return good


@dataclass(frozen=True)
class Study:
    """A known table, how its columns are merged, and the noise of 1-ways and of larger tables."""

    codes: Codes
    domain: Domain
    ordered: frozenset[str]
    larger: tuple[tuple[str, ...], ...]
    deviations: tuple[Fraction, Fraction]
    laplace: bool = False

    def runs(self, number: int, *, seed: int) -> Iterator[tuple[list[Measurement], dict[str, Grouping]]]:
        rng = np.random.default_rng(seed)
        for _ in range(number):
            alone = [self._measured(Marginal((name,)), self.deviations[0], rng) for name in self.domain]
            found = {g.column: g for g in merge_rare_codes(alone, ordered=self.ordered, classes={})}
            items = [self._measured(Marginal(()), 3 * self.deviations[0], rng), *alone]
            for place, clique in enumerate(self.larger):
                ways = tuple(found[name] for name in clique if name in found)
                # The last table is more precise: one of the pairs again.
                noise = self.deviations[1] * (1 if place + 1 < len(self.larger) else Fraction(2, 3))
                items.append(self._measured(Marginal(clique, ways), noise, rng))
            yield items, found

    def _measured(self, marginal: Marginal, deviation: Fraction, rng: np.random.Generator) -> Measurement:
        exact = count(self.codes, marginal, domain=self.domain)
        numbers = np.arange(-int(40 * deviation) - 2, int(40 * deviation) + 3)
        scale = float(deviation)
        weights = np.exp(-np.abs(numbers) / scale if self.laplace else -((numbers / scale) ** 2) / 2)
        weights /= weights.sum()
        noise = rng.choice(numbers, size=exact.shape, p=weights)
        return Measurement(marginal, exact + noise, Fraction(float(weights @ numbers**2)))


def count(codes: Codes, marginal: Marginal, *, domain: Domain) -> np.ndarray:
    shape = marginal.shape(domain)
    cell = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
    for name, size in zip(marginal.clique, shape, strict=True):
        way = marginal.grouping(name)
        cell = cell * size + (codes[name] if way is None else way.lookup[codes[name]])
    return np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)


def survey(*, deviation: Fraction, rows: int = 5_000, laplace: bool = False) -> Study:
    tail = {"city": 1 / np.arange(1, 41) ** 1.3, "age": np.exp(-(((np.arange(40) - 15) / 12) ** 2))}
    rest = {"education": 1 / np.arange(1, 9) ** 0.7, "work": 1 / np.arange(1, 16), "sex": np.ones(2)}
    larger = (
        ("city", "education"),
        ("age", "work"),
        ("age", "sex"),
        ("education", "sex", "work"),
        ("sex", "age"),
    )
    return study(tail | rest, rows=rows, larger=larger, deviation=deviation, laplace=laplace)


def threshold(*, deviation: Fraction) -> Study:
    """Codes with two to three deviations of rows each."""
    shares = {
        "city": np.ones(100),
        "age": np.ones(100),
        "education": 1 / np.arange(1, 9) ** 0.7,
        "sex": np.ones(2),
    }
    larger = (("city", "education"), ("city", "sex"), ("age", "education", "sex"), ("age", "sex"))
    return study(shares, rows=int(250 * deviation), larger=larger, deviation=deviation)


def study(
    shares: Mapping[str, np.ndarray],
    *,
    rows: int,
    larger: Sequence[tuple[str, ...]],
    deviation: Fraction,
    **more: bool,
) -> Study:
    """Draw a table from four kinds of people, whose columns have tilted shares."""
    rng = np.random.default_rng(0)
    kind, codes = rng.integers(0, 4, rows), {}
    for name, share in shares.items():
        tilted = share[:, None] * rng.dirichlet(np.full(4, 5.0), size=len(share))
        ends = np.cumsum(tilted / tilted.sum(axis=0), axis=0).T
        codes[name] = np.minimum((ends[kind] < rng.random(rows)[:, None]).sum(axis=1), len(share) - 1)
    domain = Domain({name: len(share) for name, share in shares.items()})
    return Study(codes, domain, frozenset({"age"}), tuple(larger), (deviation, deviation), **more)


def look(
    covered: Covered,
    found: CountIntervals,
    groups: Mapping[str, Grouping],
    truth: Callable[[Marginal], np.ndarray],
    *,
    way: str = "",
) -> None:
    """Book every interval of one run under its kind."""

    def held(interval: CountInterval) -> np.ndarray:
        return np.abs(truth(interval.marginal) - interval.estimate) <= interval.half_width

    def tell(kind: str, shown: np.ndarray, *, only: bool = True) -> None:
        if not way:
            covered.add(kind if only else f"[{kind}]", shown)
        elif only:
            covered.add(f"[{kind}, {way}]", shown)

    tell("number of rows", held(found.of()).reshape(1))
    for marginal in dict.fromkeys(m for m in found.measured if m.clique):
        interval = found.at(marginal)
        sure = interval.half_width > 0
        shown, merged = held(interval), np.zeros(sure.shape, dtype=bool)
        for axis, name in enumerate(marginal.clique):
            if name in groups and marginal.grouping(name) in (None, groups[name]):
                many = np.bincount(groups[name].lookup) > 1
                many = many if marginal.grouping(name) else many[groups[name].lookup]
                merged |= many.reshape([-1 if i == axis else 1 for i in range(len(marginal.clique))])
        if len(marginal.clique) == 1:
            (name,) = marginal.clique
            if marginal.groupings:
                tell("tables by which bins were learnt", shown[sure])
            elif name not in groups:
                tell("codes of columns left as they are", shown[sure])
            else:
                tell("codes of columns with merged codes", shown[sure])
                tell("of these, codes that were merged", shown[sure & merged], only=False)
                tell("of these, codes that were not", shown[sure & ~merged], only=False)
                whole = held(found.at(Marginal((name,), (groups[name],))))
                tell("groups of several codes", whole[np.bincount(groups[name].lookup) > 1])
        else:
            kind = "pairs" if len(marginal.clique) == 2 else "triples"
            tell(f"{kind}: cells without a merged code", shown[sure & ~merged])
            tell(f"{kind}: cells with one", shown[sure & merged])


def simulate(name: str, table: Study, *, runs: int, compare: bool = False) -> bool:
    covered, worst = Covered(), np.zeros(table.domain["city"])
    begun = time.perf_counter()
    truth = partial(count, table.codes, domain=table.domain)
    for items, groups in table.runs(runs, seed=1):
        found = CountIntervals(items, space=ModelSpace(domain=table.domain), laplace=table.laplace)
        look(covered, found, groups, truth)
        city = found.of("city")
        worst += np.abs(truth(city.marginal) - city.estimate) <= city.half_width
        if compare:
            fixed = CountIntervals(items, space=ModelSpace(domain=table.domain), groups=GroupingOrigin.FIXED)
            look(covered, fixed, groups, truth, way="as if fixed")
    print(f"\n{name}: {runs} runs, {(time.perf_counter() - begun) / runs * 1000:.0f} ms each")
    good = covered.tell()
    low, high = 100 * worst.min() / runs, 100 * worst.max() / runs
    print(f"  a single code of city: from {low:.1f} % to {high:.1f} % of the runs")
    return good


def whole(method: str, *, runs: int) -> bool:
    """Runs of `populace measure` on a made-up survey whose incomes have bins to be learnt."""
    table, described = simulate_survey()
    # One rule compares income with 0, which cannot be told from bins that are yet to be learnt.
    zeros = [zero for zero in described.zeros if "education" in zero.when]
    columns = {name: described.columns[name] for name in COLUMNS}
    income = columns["income"]
    shared = income.common_fields() | {"origin": Origin.DECLARED, "labels": {}, "beyond": income.beyond}
    columns["income"] = UnknownBins(
        min=Fraction(income.min), max=Fraction(income.max), of=type(income), **shared
    )
    schema, covered = replace(described, columns=columns, zeros=zeros), Covered()
    cells = {name: table[name] for name in schema.columns}
    begun = time.perf_counter()
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            measured = measure_run(
                table,
                schema=schema,
                epsilon="1",
                delta="1e-9",
                method=method,
                ledger=Path(folder) / "ledger.db",
                noise=ExactNoise(RehearsalEntropy(seed)),
            )
        larger = [item.marginal for item in measured.items if len(item.marginal.clique) > 1]
        groups = {way.column: way for marginal in larger for way in marginal.groupings}
        codes = TableCodec(measured.schema).encode(cells)
        truth = partial(count, codes, domain=measured.schema.domain)
        look(covered, intervals(measured), groups, truth)
    each = (time.perf_counter() - begun) / runs * 1000
    print(
        f"\nwhole runs of {method} on {table.num_rows:,} people, epsilon 1: {runs} runs, {each:.0f} ms each"
    )
    return covered.tell(slack=2.0)


def adult() -> bool:
    domain, codes = read()
    items, _ = measure(codes, domain, spanning_tree(codes, domain), seed=0, merge=True)
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        cells = sum(
            interval.estimate.size for interval in CountIntervals(items, space=ModelSpace(domain=domain))
        )
        times.append(time.perf_counter() - begun)
    print(
        f"\nAdult, {len(items)} tables of {cells:,} cells: intervals of all cells in {1000 * min(times):.0f} ms"
    )
    return min(times) < 0.3


def main() -> None:
    runs, all_of_it = (int(word) for word in (*sys.argv[1:], *("2000", "150")[len(sys.argv) - 1 :]))
    about = f"{platform.machine()}, Python {platform.python_version()}, NumPy {version('numpy')}"
    print(f"{datetime.now(UTC).date()}, {about}")
    good = simulate("survey, deviation 12", survey(deviation=Fraction(12)), runs=runs, compare=True)
    good &= simulate("threshold, deviation 12", threshold(deviation=Fraction(12)), runs=runs, compare=True)
    good &= simulate("Laplace, scale 9", survey(deviation=Fraction(9), laplace=True), runs=runs)
    good &= simulate("quiet, deviation 1", survey(deviation=Fraction(1), rows=500), runs=runs)
    for method in METHODS:
        good &= whole(method, runs=all_of_it)
    good &= adult()
    print("\nthe claim holds" if good else "\nTHE CLAIM DOES NOT HOLD")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
