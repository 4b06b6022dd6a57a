"""How often `populace disclosure` raises an alarm: by chance where nothing leaks, and where rows were copied.

    python bench/disclosure_alarms.py [RUNS]

Real rows, control rows and others are samples of 600 invented people each. Four tables are attacked, beside a promise
of ε = 1 and δ = 10⁻⁹: other people of the same population (nothing can leak), a release of the real rows at this
promise (mst; noise of the operating system), other people with a tenth of the real rows among them, and a copy of the
real rows.

Claim: the first two raise an alarm in less than one of 100 runs at 95 % confidence, the copy in every run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from error import here

import populace as pp
from populace.evaluation.binomial_interval import clopper_pearson
from populace.evaluation.disclosure.disclosure_result import measure_disclosure

ROWS, LEAKED = 600, 60
QUASI, SENSITIVE = ["sex", "age", "region"], ["income", "work"]
SCHEMA = pp.Schema.parse("""
[columns.sex]
kind = "categorical"
values = ["f", "m"]
[columns.age]
kind = "integer"
min = 0
max = 99
[columns.region]
kind = "categorical"
values = ["n", "s", "e", "w"]
[columns.work]
kind = "categorical"
values = ["yes", "no"]
[columns.income]
kind = "integer"
min = 0
max = 99
""")


def draw_people(rows: int, rng: np.random.Generator) -> pa.Table:
    """Return people whose income depends on age, sex and work."""
    age, sex = rng.integers(0, 100, rows), rng.choice(["f", "m"], rows)
    work = np.where((age > 17) & (age < 66) & (rng.random(rows) < 0.7), "yes", "no")
    income = np.where(
        work == "yes", 20 + age // 2 + 8 * (sex == "m") + rng.integers(0, 30, rows), rng.integers(0, 12, rows)
    )
    region = rng.choice(["n", "s", "e", "w"], rows, p=[0.4, 0.3, 0.2, 0.1])
    return pa.table(
        {"sex": sex, "age": age, "region": region, "work": work, "income": np.minimum(income, 99)}
    )


def release(real: pa.Table, folder: Path, number: int) -> pp.Release:
    return pp.synthesize(
        real,
        schema=SCHEMA,
        epsilon=1,
        delta="1e-9",
        method="mst",
        dataset=f"run-{number}",
        ledger=folder / "l.db",
    )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(here())
    rng, begun = np.random.default_rng(1), time.process_time()
    raised = dict.fromkeys(("other people", "a release at ε = 1", "a tenth copied", "a copy"), 0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        release(draw_people(ROWS, rng), folder, 0).save(folder / "promise", report=False)
        for number in range(1, runs + 1):
            real, control, other = (draw_people(ROWS, rng) for _ in range(3))
            tables = {
                "other people": other,
                "a release at ε = 1": release(real, folder, number).table,
                "a tenth copied": pa.concat_tables([other.slice(LEAKED), real.slice(0, LEAKED)]),
                "a copy": real,
            }
            for name, table in tables.items():
                found = measure_disclosure(
                    {"table": table},
                    schema=SCHEMA,
                    quasi_identifiers=QUASI,
                    sensitive=SENSITIVE,
                    real=real,
                    control=control,
                    release=folder / "promise",
                )
                raised[name] += bool(found.alarms)
    for name, count in raised.items():
        low, high = clopper_pearson(count, runs)
        met = {"a copy": count == runs, "a tenth copied": True}.get(name, high < 0.01)
        print(f"{name:20} alarms in {count} of {runs} runs ({low:.2%} to {high:.2%}){'' if met else ' *'}")
    print(f"{time.process_time() - begun:.0f} CPU s")


if __name__ == "__main__":
    main()
