"""Tables that no plan can tell apart: as many rows and columns of as many codes, and other errors.

    python bench/twins.py

A plan knows the schema, the number of rows, ε and δ. So two tables that agree in these are told the same, whatever it
does. Out of one public table, the columns that have as many codes are cut in two in the order of the file: the first
half is one table, the second half another. Both are measured as `populace synth` would, five times; noise alone then
puts so many rows of columns, and of the pairs that were measured, in the wrong place on average, and so many pairs are
measured.

A prediction that is within a factor 1.3 of both exists only where they are within 1.3² = 1.69 of each other.
"""

from __future__ import annotations

import numpy as np
from error import files, here
from plan import terms
from shapes import rows_of

from populace.planning.simulated.populations import SimulatedPopulation
from populace.planning.simulated.simulated_run import simulate_run
from populace.schema.schema import Schema

# A table, and how many codes its columns have that are cut in two.
TWINS = (
    ("loans", 101),
    ("stroke", 101),
    ("stroke", 4),
    ("stroke", 2),
    ("nist2020-acs", 22),
    ("nltcs", 2),
    ("msnbc", 18),
)
RUNS, FACTOR = 5, 1.3**2
Found = dict[str, float]


def halves(whole: SimulatedPopulation, codes: int) -> list[SimulatedPopulation]:
    """Return two populations under one schema: the columns that have so many codes, first and last ones."""
    names = [name for name, size in whole.schema.domain.items() if size == codes]
    half = len(names) // 2
    schema = Schema.from_sizes({f"column {number}": codes for number in range(half)})
    return [
        SimulatedPopulation(
            schema=schema,
            codes={new: whole.codes[old] for new, old in zip(schema.domain, part, strict=True)},
            rows=whole.rows,
            times=1.0,
        )
        for part in (names[:half], names[-half:])
    ]


def errors(population: SimulatedPopulation, *, epsilon: str) -> Found:
    """Return the mean errors of columns and of measured pairs over all runs, and how many pairs those measured."""
    asked = terms(population.schema, epsilon=epsilon)
    runs = [simulate_run(asked, population, rng=np.random.default_rng(seed)) for seed in range(RUNS)]
    some = [float(np.mean(list(run.pairs.values()))) for run in runs if run.pairs]
    return {
        "columns": float(np.mean([np.mean(list(run.columns.values())) for run in runs])),
        "pairs": float(np.mean(some)) if some else 0.0,
        "measured": float(np.mean([len(run.pairs) for run in runs])),
    }


def beside(one: float, two: float) -> str:
    """Return two numbers and how far they are apart, with a mark where no prediction is near both."""
    if not one or not two:
        return f"{one:8.2g} {two:8.2g}     –  "
    apart = max(one / two, two / one)
    return f"{one:8.2g} {two:8.2g} {apart:5.2f}{'*' if apart > FACTOR else ' '} "


def main() -> None:
    print(f"{here()}, delta 1e-9, means of {RUNS} runs; first half, second half and how far apart")
    print(f"* no prediction is within 1.3 of both, which are more than {FACTOR:.2f} apart")
    print("data         codes columns  eps    columns                  pairs measured           how many")
    beyond: list[bool] = []
    for data, codes in TWINS:
        rows, domain = files(data)
        first, second = halves(rows_of(rows, Schema.load(domain)), codes)
        for epsilon in ("0.1", "1", "10"):
            one, two = errors(first, epsilon=epsilon), errors(second, epsilon=epsilon)
            told = [beside(one[name], two[name]) for name in ("columns", "pairs")]
            beyond.append(any("*" in text for text in told))
            print(
                f"{data:13} {codes:4} {len(first.codes):7} {epsilon:>4}  {'  '.join(told)}"
                f" {one['measured']:5.0f} {two['measured']:5.0f}",
                flush=True,
            )
    print(f"no prediction is within 1.3 of both in {sum(beyond)} of {len(beyond)} lines")


if __name__ == "__main__":
    main()
